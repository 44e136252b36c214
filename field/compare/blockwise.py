"""A contest of many points, one block of rows after the other: what a member and the dealer hold at once.

A round of a contest opens a bit or more of every comparison of every point, and who plays holds some copies
of that.  Played in blocks of rows, one hand and one deck serve all of them in order, so what is dealt is the
same in all, and what is opened, masks, half-done bits and the dealer's words are those of one block.  Blocks
multiply rounds, so there are as many as cost little beside the bytes
(`field.compare.blockwise.block_points`); labels do not change.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from field.compare.argmin import ArgminContest
from field.compare.bitslice import WORD, word_count
from field.compare.correlated_randomness import NEXT, PartyRandomness
from field.compare.dealer_protocol import DealerSchedule, DealtContest, Moves
from field.compare.tournament import Tournament
from field.ring.basis import Basis


@dataclass(frozen=True, eq=False)
class BlockwiseContest(DealtContest):
    """Everything public about a contest in blocks.

    whole: the contest of all points.  block: points at a time, a multiple of 64, as many fill a word.

    Raises ValueError for another number.
    """

    whole: DealerSchedule | Tournament
    block: int

    def __post_init__(self) -> None:
        if self.block < WORD or self.block % WORD:
            raise ValueError(f"block={self.block} points: take a multiple of {WORD}, as many fill a word")

    @property
    def contest(self) -> ArgminContest:
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
    def comparison_words(self) -> int:
        """Words of one comparison of all points."""
        return word_count(self.m)

    @cached_property
    def parts(self) -> tuple[tuple[slice, DealerSchedule | Tournament], ...]:
        """The points of every block and the contest among them; blocks of the same size have the same."""
        sizes: dict[int, DealerSchedule | Tournament] = {}
        cuts = [slice(begin, min(begin + self.block, self.m)) for begin in range(0, self.m, self.block)]
        for cut in cuts:
            size = cut.stop - cut.start
            sizes.setdefault(size, replace(self.whole, m=size))
        return tuple((cut, sizes[cut.stop - cut.start]) for cut in cuts)

    @property
    def dealt(self) -> int:
        return sum(self.portions)

    @property
    def dealt_wins(self) -> int:
        return sum(self.portions_of_wins)

    @property
    def openings(self) -> tuple[int, ...]:
        """Words that a member opens in each round."""
        return tuple(count for _, part in self.parts for count in part.openings)

    def code_digits(self, masked: Array, hand: PartyRandomness, constant: Any) -> Moves:
        found: list[Array] = []
        for part, values in self.blocks_of(masked):
            if found:
                yield NEXT
            found.append((yield from part.code_digits(values, hand, constant)))
        return np.concatenate(found, axis=1)

    def winner_bits(self, masked: Array, hand: PartyRandomness, constant: Any) -> Moves:
        found: list[Array] = []
        for part, values in self.blocks_of(masked):
            if found:
                yield NEXT
            found.append((yield from part.winner_bits(values, hand, constant)))
        return np.concatenate(found, axis=1)

    @property
    def portions(self) -> tuple[int, ...]:
        return tuple(part.dealt for _, part in self.parts)

    @property
    def portions_of_wins(self) -> tuple[int, ...]:
        return tuple(part.dealt_wins for _, part in self.parts)

    def blocks_of(self, values: Array) -> Iterator[tuple[DealerSchedule | Tournament, Array]]:
        for cut, part in self.parts:
            yield part, np.ascontiguousarray(values[:, :, cut])


# --------------------------------------------------------------------------------------------------
# Which shape a contest takes: all pairs at once, or levels of groups and a final, by what messages cost.
#
# All pairs take the fewest rounds; groups deal and open less, the more so the more centers there are, and
# several levels of them less again, down to pairs of winners that meet pairs of winners.  What a round and
# what a byte costs is a property of the network, so it is a parameter that all parties share: the shape
# changes messages, never labels.

# So few centers always meet all at once; and so many meet in groups where sizes differ and bytes alone cost.
FEW, MANY = 2, 5
# Points of a block at least, below which holding less saves nothing worth a round; blocks at most, as a
# question has so many rounds; and how much longer messages may take for the rounds that blocks add, of 100.
LEAST, MOST, DEARER = 1 << 17, 16, 5
# How often something is opened in all blocks of a contest, at most: with what comes before and after, and if
# members take two rounds for each (`secfc.disclosure.compare.rounds`), a question has room for so much.
ROUNDS = 400
# Contestants of a group, at most, that are tried: of so many contestants, and of more.
SIZES, CROWD, ROUGHLY = (2, 3, 4, 5, 6, 8, 12, 16), 64, (2, 4, 8, 16)


class LinkCost(Protocol):
    """What messages cost, hashable."""

    def seconds(self, rounds: int, nbytes: int) -> float:
        """What so many rounds and bytes take."""
        ...


@lru_cache(maxsize=64)
def choose_levels(
    k: int, basis: Basis, m: int, members: int, network: LinkCost, *, alike: bool = False
) -> tuple[int, ...]:
    """Into how many groups k centers are best put, and their winners again; () for all pairs.

    For m points and so many members.  basis: what distances are in; a contest may need fewer lanes, which all
    shapes save alike.  alike: whether all sizes are equal; else a winner's squared size is secret too, so
    groups cost more, and none is of one.  Selecting that takes work which no network counts, so there
    every level after the first is to save a twentieth.
    """
    contest = ArgminContest.nearest(np.ones(k, np.int64) if alike else np.arange(1, k + 1))

    def cost(counts: tuple[int, ...]) -> tuple[float, int]:
        shape = Tournament(contest, basis, m, counts) if counts else DealerSchedule(contest, basis, m)
        rounds, more = len(shape.openings), 0 if alike else DEARER * max(0, len(counts) - 1)
        seconds = (100 + more) * _seconds(shape, members, network, 1) / 100
        return seconds if rounds <= ROUNDS else math.inf, rounds

    return min(all_levels(k, alike=alike), key=cost)


def all_levels(k: int, *, alike: bool) -> Iterator[tuple[int, ...]]:
    """All shapes that are tried."""
    yield ()
    counts = {-(-k // size) for size in (SIZES if k <= CROWD else ROUGHLY) if size < k > FEW}
    for count in sorted(counts):
        if alike or k // count > 1:
            yield from ((count, *more) for more in all_levels(count, alike=alike))


def block_points(shape: DealerSchedule | Tournament, members: int, network: LinkCost) -> int:
    """Points of which a contest is played at a time (`field.compare.blockwise`), a multiple of 64.

    All, if there are few; else as few as leave the time that messages take nearly what it is.
    """
    count = min(MOST, shape.m // LEAST)
    if count < 2 or not shape.contest.comparisons:
        return -(-shape.m // WORD) * WORD
    count = min(count, max(1, ROUNDS // len(shape.openings)))
    most = (100 + DEARER) * _seconds(shape, members, network, 1) / 100
    while count > 1 and _seconds(shape, members, network, count) > most:
        count -= 1
    return -(-shape.m // (WORD * count)) * WORD


def _seconds(shape: DealerSchedule | Tournament, members: int, network: LinkCost, count: int) -> float:
    """What the messages of a contest take in so many blocks."""
    opened = sum(shape.openings) * members * (members - 1)
    asked = 2 * (count - 1)  # a portion of what is dealt is asked for, and comes
    return network.seconds(count * len(shape.openings) + asked, 8 * (shape.dealt + opened))
