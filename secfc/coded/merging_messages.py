"""What parties say while they divide rows by how many clients hold them (`secfc.coded.merging`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from secfc.roles.checks import check_residues
from secfc.roles.messages import Message

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Indicator(Message, tag=170):
    """Client to client, hidden merging: shares of which rows it holds, and of the blinds that it deals.

    count (lanes, rows, 1); low and high (lanes, rows, 1 + width), or no rows of clients that deal none.  All
    are residues that are uniform to the recipient.
    """

    count: Array
    low: Array
    high: Array

    def __post_init__(self) -> None:
        for values in (self.count, self.low, self.high):
            check_residues(values, "shares for merging, (lanes, rows, words),")


@dataclass(frozen=True, eq=False, repr=False)
class MaskedRows(Message, tag=171):
    """Client to server (and, to check it, to clients), hidden merging: its summand of rows, masked.

    values: (lanes, rows, 1 + width) residues, whose sums over clients are uniform.
    """

    values: Array

    def __post_init__(self) -> None:
        check_residues(self.values, "masked rows, (lanes, rows, 1 + width),")


@dataclass(frozen=True, eq=False, repr=False)
class DividedRows(Message, tag=172):
    """Server to every client, hidden merging: uniform residues, by which each computes its share of the rows.

    values: (lanes, ell * rows, width); inverse: (lanes, rows), 0 for rows that are dealt anew.
    """

    values: Array
    inverse: Array

    def __post_init__(self) -> None:
        check_residues(self.values, "divided rows, (lanes, ell * rows, width),")
        check_residues(self.inverse, "inverses, (lanes, rows),", axes=2)
