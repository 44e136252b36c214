"""Which shape a contest takes: all pairs at once, or levels of groups and a final, by what messages cost.

All pairs take the fewest rounds; groups deal and open less, the more so the more centers there are, and
several levels of them less again, down to pairs of winners that meet pairs of winners.  What a round and what
a byte costs is a property of the network, so it is a parameter that all parties share: the shape changes
messages, never labels.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Protocol

import numpy as np

from field.compare.bitslice import WORD
from field.compare.contest import Contest
from field.compare.dealt import Schedule
from field.compare.tournament import Tournament
from field.ring.basis import Basis

# So few centers always meet all at once; and so many meet in groups where sizes differ and bytes alone cost.
FEW, MANY = 2, 5
# Points of a block at least, below which holding less saves nothing worth a round; blocks at most, as a
# question has so many rounds; and how much longer messages may take for the rounds that blocks add, of 100.
LEAST, MOST, DEARER = 1 << 17, 16, 5
# How often something is opened in all blocks of a contest, at most: with what comes before and after, and if
# members take two rounds for each (`secfc.disclosure.compare.openings`), a question has room for so much.
ROUNDS = 400
# Contestants of a group, at most, that are tried: of so many contestants, and of more.
SIZES, CROWD, ROUGHLY = (2, 3, 4, 5, 6, 8, 12, 16), 64, (2, 4, 8, 16)


class Network(Protocol):
    """What messages cost, hashable."""

    def seconds(self, rounds: int, nbytes: int) -> float:
        """What so many rounds and bytes take."""
        ...


@lru_cache(maxsize=64)
def levels(
    k: int, basis: Basis, m: int, members: int, network: Network, *, alike: bool = False
) -> tuple[int, ...]:
    """Into how many groups k centers are best put, and their winners again; () for all pairs.

    For m points and so many members.  basis: what distances are in; a contest may need fewer lanes, which all
    shapes save alike.  alike: whether all sizes are equal; else a winner's squared size is secret too, so
    groups cost more, and none is of one.  Selecting that takes work which no network counts, so there
    every level after the first is to save a twentieth.
    """
    contest = Contest.nearest(np.ones(k, np.int64) if alike else np.arange(1, k + 1))

    def cost(counts: tuple[int, ...]) -> tuple[float, int]:
        shape = Tournament(contest, basis, m, counts) if counts else Schedule(contest, basis, m)
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


def block(shape: Schedule | Tournament, members: int, network: Network) -> int:
    """Points of which a contest is played at a time (`field.compare.in_turn`), a multiple of 64.

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


def _seconds(shape: Schedule | Tournament, members: int, network: Network, count: int) -> float:
    """What the messages of a contest take in so many blocks."""
    opened = sum(shape.openings) * members * (members - 1)
    asked = 2 * (count - 1)  # a portion of what is dealt is asked for, and comes
    return network.seconds(count * len(shape.openings) + asked, 8 * (shape.dealt + opened))
