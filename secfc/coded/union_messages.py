"""What parties say of a union of rows (`secfc.coded.union`), beside the steps that find it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from secfc.roles.checks import is_array, refuse
from secfc.roles.messages import Message

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Introduction(Message, tag=2):
    """Client to client, before a union: its public signing key (32 bytes)."""

    public: bytes

    def __post_init__(self) -> None:
        refuse(len(self.public) != 32, f"a signing key has 32 bytes, this one has {len(self.public)}")


@dataclass(frozen=True, eq=False, repr=False)
class Multiplicities(Message, tag=3):
    """Server to every client, after a union: how many clients hold each row (m,), not which."""

    held: Array

    def __post_init__(self) -> None:
        refuse(not is_array(self.held, "u", 1), "how many hold a row is an unsigned number a row")
        refuse(int(self.held.min(initial=1)) < 1, "at least one client holds every row")


@dataclass(frozen=True, eq=False, repr=False)
class Disputes(Message, tag=49):
    """Server to every client, once rows are shared: those whose holders have different data, ascending."""

    rows: Array

    def __post_init__(self) -> None:
        rows = self.rows
        refuse(not is_array(rows, "i", 1), "disputed rows are a vector of integers")
        ascending = bool((rows[1:] > rows[:-1]).all()) and (not rows.size or int(rows[0]) >= 0)
        refuse(not ascending, "disputed rows are ascending, distinct and not negative")
