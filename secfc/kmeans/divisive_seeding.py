"""What a start by sizes and gains alone (`secfc.kmeans.splitting`) leads to on points that one party
holds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from field.code.rows import cluster_sizes
from field.ring.uint128 import UInt128

# --------------------------------------------------------------------------------------------------
# What a start asks for that is told sizes and gains, and no label: see `secfc.kmeans.splitting`.

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class SplitRequest:
    """Every cluster in two, on both sides of its mean; answered with the sizes (2 c,) of the halves.

    Each point goes to the nearest of the means plus, for half 2 h, and minus, for half 2 h + 1, one unit of
    the integers along a direction.  groups: the number that each cluster so far has now, -1 for one without
    points; several may become one.  directions: (c, d) of +1 and -1.
    """

    groups: Array
    directions: Array


@dataclass(frozen=True, eq=False)
class RefineRequest:
    """A step of k-means; answered with whether no label changed, and the sizes (c,).  groups: as in
    `SplitRequest`.
    """

    groups: Array


@dataclass(frozen=True, eq=False)
class GainRequest:
    """What keeping pairs of unions of clusters apart gains; answered with the groups that `choose` makes of
    that.

    sides: (pairs, c), 1 in one union, 2 in the other, 0 in none.  groups: as in `SplitRequest`.  A party that
    does not hear the gains is answered with somebody's word for the groups.
    """

    groups: Array
    sides: Array
    choose: Callable[[tuple[Fraction, ...]], Array]


@dataclass(frozen=True, eq=False)
class CostRequest:
    """What clusters cost; answered with the sums of scaled distances within each (c), or None for a party
    that does not hear them.  groups: as in `SplitRequest`."""

    groups: Array


# What a start asks for: everything in it is public, and it ends with groups, as in `SplitRequest`.
Move = SplitRequest | RefineRequest | GainRequest | CostRequest
Moves = Generator[Move, Any, Array]


# --------------------------------------------------------------------------------------------------


def run_divisive_seeding(source: PointSource, moves: Callable[[int], Moves]) -> Array:
    """The labels (m,) int32 of the clusters that moves lead to from a single one."""
    m, d = source.points.shape
    labels, course, answer = np.zeros(m, np.int32), moves(d), cast("Any", None)
    while True:
        try:
            move = course.send(answer)
        except StopIteration as done:
            return done.value[labels].astype(np.int32)  # type: ignore[no-any-return]
        now, c = move.groups[labels].astype(np.int32), int(move.groups.max()) + 1
        match move:
            case SplitRequest():
                labels = split_in_halves(source, now, move.directions)
                answer = cluster_sizes(labels, 2 * c)
            case RefineRequest():
                labels = nearest_step(source, now, c)
                answer = bool((now == labels).all()), cluster_sizes(labels, c)
            case GainRequest():
                answer = move.choose(union_gains(source, now, c, move.sides))
            case CostRequest():
                answer = source.price_clusters(now, c)


class PointSource(Protocol):
    """What growing needs of a source of steps, as `secfc.kmeans.loop.PlainSource`."""

    @property
    def points(self) -> Array: ...

    def sum_clusters(self, labels: Array, k: int) -> Array: ...

    def center_clusters(self, sums: Array, sizes: Array) -> tuple[Array, Array]:
        """Centers of clusters of these sums (k, d) and sizes (k,): sums of as many points as they stand for,
        and how many these are (k,)."""
        ...

    def gains_of_unions(self, sums: Array, sizes: Array) -> tuple[Fraction, ...]:
        """What unions of these sums (pairs, 2, d) and sizes (pairs, 2) gain over one of both."""
        ...

    def price_clusters(self, labels: Array, c: int) -> tuple[Any, ...]:
        """The sums of scaled distances within c clusters."""
        ...


def nearest_of_all(points: Array, sums: Array, stand: Array) -> Array:
    """The nearest of centers (m,) int32; as `PointSource.center_clusters`."""
    from field.kernels import scalar as kernels

    high, low = np.empty((2, len(stand), len(points)), np.uint64)
    kernels.plain_distances(points, np.ascontiguousarray(sums), stand, high, low)
    return UInt128(high, low).nearest(stand)


def nearest_step(source: PointSource, labels: Array, c: int) -> Array:
    """The nearest of c centers (m,) int32."""
    return nearest_of_all(
        source.points, *source.center_clusters(source.sum_clusters(labels, c), cluster_sizes(labels, c))
    )


def split_in_halves(source: PointSource, labels: Array, directions: Array) -> Array:
    """The halves (m,) of c clusters, see `SplitRequest`."""
    c = len(directions)
    centers, stand = source.center_clusters(source.sum_clusters(labels, c), cluster_sizes(labels, c))
    aside = stand[:, None] * directions.astype(np.int64)
    both = np.stack([centers + aside, centers - aside], axis=1).reshape(2 * c, -1)
    return nearest_of_all(source.points, both, np.repeat(stand, 2))


def union_gains(source: PointSource, labels: Array, c: int, sides: Array) -> tuple[Fraction, ...]:
    """What keeping these unions of clusters apart gains, see `GainRequest`."""
    sums, sizes = source.sum_clusters(labels, c), cluster_sizes(labels, c)
    unions = np.stack([sides == 1, sides == 2], axis=1).astype(np.int64)
    return source.gains_of_unions(unions @ sums, unions @ sizes)


def exact_gains(sums: Array, sizes: Array) -> tuple[Fraction, ...]:
    """Of exact means, see `PointSource.gains_of_unions`."""
    found = []
    for (a, b), (first, second) in zip(sizes.tolist(), sums.tolist(), strict=True):
        square = sum((b * x - a * y) ** 2 for x, y in zip(first, second, strict=True))
        found.append(Fraction(square, a * b * (a + b)))
    return tuple(found)
