"""Which shape a contest takes: all pairs at once, or groups and a final, by what their messages cost.

All pairs take the fewest rounds; groups deal and open less, the more so the more centers there are.  What a
round and what a byte costs is a property of the network, so it is a parameter that all parties share: the
shape changes messages, never labels.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import numpy as np

from field.compare.bitslice import WORD
from field.compare.contest import Contest
from field.compare.dealt import Schedule
from field.compare.tournament import Tournament
from field.ring.basis import Basis

# So few centers always meet all at once: two groups of two deal and open as much.
FEW = 4
# Points of a block at least, below which holding less saves nothing worth a round; blocks at most, as a
# question has so many rounds; and how much longer messages may take for the rounds that blocks add, of 100.
LEAST, MOST, DEARER = 1 << 17, 16, 5
# Centers of a group, at most, that are tried.
SIZES = (2, 3, 4, 5, 6, 8, 12, 16)


class Network(Protocol):
    """What messages cost, hashable."""

    def seconds(self, rounds: int, nbytes: int) -> float:
        """What so many rounds and bytes take."""
        ...


@lru_cache(maxsize=64)
def groups(k: int, basis: Basis, m: int, members: int, network: Network, *, alike: bool = False) -> int:
    """Into how many groups k centers are best put, for m points and so many members; 1 for all pairs.

    basis: what distances are in; a contest may need fewer lanes, which all shapes save alike.
    """
    contest = Contest.nearest(np.ones(k, np.int64) if alike else np.arange(1, k + 1))
    counts = {-(-k // size) for size in SIZES if k > FEW and size < k}
    shapes: dict[int, Schedule | Tournament] = {1: Schedule(contest, basis, m)}
    shapes |= {count: Tournament(contest, basis, m, count) for count in sorted(counts) if k // count > 1}

    return min(shapes, key=lambda count: _seconds(shapes[count], members, network, 1))


def block(shape: Schedule | Tournament, members: int, network: Network) -> int:
    """Points of which a contest is played at a time (`field.compare.in_turn`), a multiple of 64.

    All, if there are few; else as few as leave the time that messages take nearly what it is.
    """
    count = min(MOST, shape.m // LEAST)
    if count < 2 or not shape.contest.comparisons:
        return -(-shape.m // WORD) * WORD
    most = (100 + DEARER) * _seconds(shape, members, network, 1) / 100
    while count > 1 and _seconds(shape, members, network, count) > most:
        count -= 1
    return -(-shape.m // (WORD * count)) * WORD


def _seconds(shape: Schedule | Tournament, members: int, network: Network, count: int) -> float:
    """What the messages of a contest take in so many blocks."""
    opened = sum(shape.openings) * members * (members - 1)
    asked = 2 * (count - 1)  # a portion of what is dealt is asked for, and comes
    return network.seconds(count * len(shape.openings) + asked, 8 * (shape.dealt + opened))
