"""What clients say while a committee rounds centers (`field.compare.rounding`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from secfc.roles.checks import check_residues
from secfc.roles.messages import Message

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class MaskedCenters(Message, tag=181):
    """Client to a member, where centers are rounded: its weighted shares of the sums of all clusters with
    points, under its mask; and member to member, what these add up to.

    values: (lanes, clusters, ell * width) residues, uniform to everybody but the dealer.
    """

    values: Array

    def __post_init__(self) -> None:
        check_residues(self.values, "masked sums of clusters, (lanes, clusters, ell * width),")


@dataclass(frozen=True, eq=False, repr=False)
class CenterShares(Message, tag=182):
    """Member to responder: its share for the recipient of a part of the rounded centers.

    values: (lanes, clusters, width) residues, uniform to any t recipients.
    """

    values: Array

    def __post_init__(self) -> None:
        check_residues(self.values, "shares of rounded centers, (lanes, clusters, width),")
