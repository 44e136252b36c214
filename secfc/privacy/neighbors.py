"""Who is protected: which pairs of data sets count as neighbors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Relation = Literal["add/remove", "replace"]
Unit = Literal["data point", "client"]


@dataclass(frozen=True)
class Neighbors:
    """Two data sets are neighbors if one unit differs.

    relation "add/remove": one unit is in one of them only.  "replace": one unit has other values, so that
    the number of units is public.  A claim under add/remove with (epsilon, delta) is one under replace
    with at least twice the epsilon.  unit "data point": a row of one client.  "client": all its rows; that it
    is a client is public, so "add/remove" says whether it adds rows or nothing, and is told as zero-out.
    """

    relation: Relation = "add/remove"
    unit: Unit = "data point"

    def __post_init__(self) -> None:
        for name, value, known in (
            ("relation", self.relation, get_args(Relation)),
            ("unit", self.unit, get_args(Unit)),
        ):
            if value not in known:
                raise ValueError(f"{name}={value!r} must be one of {', '.join(map(repr, known))}")

    @property
    def factor(self) -> int:
        """By how many bounded contributions a sum over units moves: 1, or 2 where one goes and one comes."""
        return 2 if self.relation == "replace" else 1

    def __str__(self) -> str:
        named = "zero-out" if (self.relation, self.unit) == ("add/remove", "client") else self.relation
        return f"{named} one {self.unit}"
