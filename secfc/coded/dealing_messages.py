"""What a dealer sends for a comparison of secrets, and how the next portion of it is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from secfc.roles.checks import is_array, refuse
from secfc.roles.messages import Message

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Corrections(Message, tag=20):
    """Dealer to one member: words that complete its tables of one comparison, uniform to any one member.

    Of many rows in portions (`field.compare.portions`).  Where centers are rounded, before the first of them
    those by which it divides.
    """

    words: Array

    def __post_init__(self) -> None:
        refuse(not is_array(self.words, "u", 1), "corrections are a vector of words")


@dataclass(frozen=True, eq=False, repr=False)
class Ready(Message, tag=28):
    """Member to the dealer: send me the corrections of the next rows, of this portion, counted from 0.

    Where a comparison is dealt at once, nobody says so.
    """

    portion: int

    def __post_init__(self) -> None:
        refuse(self.portion < 1, "the first portion is sent unasked")
