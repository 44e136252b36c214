"""A contest of many points, one block of rows after the other: what a member and the dealer hold at once.

A round of a contest opens a bit or more of every comparison of every point, and who plays holds some copies
of that.  Played in blocks of rows, one hand and one deck serve all of them in order, so what is dealt is the
same in all, and what is opened, masks, half-done bits and the dealer's words are those of one block.  Blocks
multiply rounds, so there are as many as cost little beside the bytes (`field.compare.shapes.block`); labels
do not change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.compare.bitslice import WORD, words
from field.compare.contest import Contest
from field.compare.dealt import Moves, Schedule, compete, deal
from field.compare.portions import NEXT, Portion
from field.compare.tables import NOTHING, Hand
from field.compare.tournament import Tournament
from field.ring.basis import Basis
from field.secrets.coins import Coins

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class InTurn:
    """Everything public about a contest in blocks; plays like a `field.compare.dealt.Schedule`.

    whole: the contest of all points.  block: points at a time, a multiple of 64, as many fill a word.

    Raises ValueError for another number.
    """

    whole: Schedule | Tournament
    block: int

    def __post_init__(self) -> None:
        if self.block < WORD or self.block % WORD:
            raise ValueError(f"block={self.block} points: take a multiple of {WORD}, as many fill a word")

    @property
    def contest(self) -> Contest:
        return self.whole.contest

    @property
    def basis(self) -> Basis:
        return self.whole.basis

    @property
    def m(self) -> int:
        return self.whole.m

    @property
    def places(self) -> int:
        """Binary digits of a code."""
        return self.whole.places

    @property
    def labels(self) -> Array:
        """(codes,) what each code means."""
        return self.whole.labels

    @property
    def per(self) -> int:
        """Words of one comparison of all points."""
        return words(self.m)

    @cached_property
    def parts(self) -> tuple[tuple[slice, Schedule | Tournament], ...]:
        """The points of every block and the contest among them; blocks of the same size have the same."""
        sizes: dict[int, Schedule | Tournament] = {}
        cuts = [slice(begin, min(begin + self.block, self.m)) for begin in range(0, self.m, self.block)]
        for cut in cuts:
            size = cut.stop - cut.start
            sizes.setdefault(size, replace(self.whole, m=size))
        return tuple((cut, sizes[cut.stop - cut.start]) for cut in cuts)

    @property
    def dealt(self) -> int:
        """Words that the dealer sends to one member."""
        return sum(self.portions)

    @property
    def dealt_wins(self) -> int:
        """Words that are dealt to one member for `wins`."""
        return sum(self.portions_of_wins)

    @property
    def openings(self) -> tuple[int, ...]:
        """Words that a member opens in each round."""
        return tuple(count for _, part in self.parts for count in part.openings)

    def compete(self, masked: Array, hand: Hand, *, lead: bool) -> Moves:
        """See `field.compare.dealt.compete`."""
        return compete(self, masked, hand, lead=lead)

    def codes(self, masked: Array, hand: Hand, constant: Any) -> Moves:
        """A member's share of the codes' binary digits, as `field.compare.dealt.Schedule.codes`."""
        found: list[Array] = []
        for part, values in self._blocks(masked):
            if found:
                yield NEXT
            found.append((yield from part.codes(values, hand, constant)))
        return np.concatenate(found, axis=1)

    def wins(self, masked: Array, hand: Hand, constant: Any) -> Moves:
        """A member's share of who wins each point, as `field.compare.dealt.Schedule.wins`."""
        found: list[Array] = []
        for part, values in self._blocks(masked):
            if found:
                yield NEXT
            found.append((yield from part.wins(values, hand, constant)))
        return np.concatenate(found, axis=1)

    def deal(
        self, rho: Array, streams: Sequence[Coins], corrected: int, before: Array = NOTHING
    ) -> Iterator[Array]:
        """See `field.compare.dealt.deal`."""
        return deal(self, rho, streams, corrected, before)

    @property
    def portions(self) -> tuple[int, ...]:
        """Words of each portion that is dealt for `compete`: one a block."""
        return tuple(part.dealt for _, part in self.parts)

    @property
    def portions_of_wins(self) -> tuple[int, ...]:
        """The same for `wins`."""
        return tuple(part.dealt_wins for _, part in self.parts)

    def dealing(self, rho: Array) -> Iterator[Portion]:
        """What is dealt for `compete`, portion by portion."""
        for part, values in self._blocks(rho):
            yield from part.dealing(values)

    def dealing_wins(self, rho: Array) -> Iterator[Portion]:
        """The same for `wins`."""
        for part, values in self._blocks(rho):
            yield from part.dealing_wins(values)

    def _blocks(self, values: Array) -> Iterator[tuple[Schedule | Tournament, Array]]:
        """Every block's contest, and its residues (lanes, k, points)."""
        for cut, part in self.parts:
            yield part, np.ascontiguousarray(values[:, :, cut])
