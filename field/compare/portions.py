"""What a dealer sends to one member, portion by portion, so that nobody holds the tables of all points.

A contest in blocks of rows (`field.compare.in_turn`) has a portion a block.  Members yield `NEXT` before they
use another one: the member that gets corrections has to have it then, and all others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from numpy.typing import NDArray

from field.compare.tables import NOTHING, Deck
from field.secrets.coins import Coins

Array = NDArray[Any]

# So many words, and who puts them into a deck.
Portion = tuple[int, Callable[[Deck], None]]


class _Next:
    def __repr__(self) -> str:
        return "NEXT"


# What a member yields in place of what it opens, where it needs the next portion.
NEXT: Any = _Next()


def dealt_in(
    portions: Iterable[Portion], streams: Sequence[Coins], corrected: int, before: Array = NOTHING
) -> Iterator[Array]:
    """The words of every portion, for the corrected member; each is made when it is asked for.

    streams: one with every member.  before: words that the first portion begins with.
    """
    deck = Deck(streams, corrected)
    for words, fill in portions:
        deck.begin(words, before)
        before = NOTHING
        fill(deck)
        yield deck.corrections
