"""What a start by sizes and gains alone (`secfc.lloyd.splitting`) leads to on points that one party holds."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from field.code.rows import cluster_sizes
from field.ring.exact import Exact
from secfc.lloyd.moves import Cut, Gauge, Moves, Price, Settle

Array = NDArray[Any]


def grown(source: Points, moves: Callable[[int], Moves]) -> Array:
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
            case Cut():
                labels = cut(source, now, move.directions)
                answer = cluster_sizes(labels, 2 * c)
            case Settle():
                labels = step(source, now, c)
                answer = bool((now == labels).all()), cluster_sizes(labels, c)
            case Gauge():
                answer = move.choose(gains(source, now, c, move.sides))
            case Price():
                answer = source.scaled(now, c).within(now)


class Points(Protocol):
    """What growing needs of a `secfc.lloyd.loop.PlainSource`."""

    @property
    def points(self) -> Array: ...

    def sums(self, labels: Array, k: int) -> Array: ...

    def scaled(self, labels: Array, k: int) -> Exact: ...


def step(source: Points, labels: Array, c: int) -> Array:
    """The nearest of c centers (m,) int32."""
    return source.scaled(labels, c).nearest(cluster_sizes(labels, c))


def cut(source: Points, labels: Array, directions: Array) -> Array:
    """The halves (m,) of c clusters, see `Cut`."""
    from field.kernels import scalar as kernels

    c = len(directions)
    sizes = cluster_sizes(labels, c)
    aside = sizes[:, None] * directions.astype(np.int64)
    sums = source.sums(labels, c)
    sums = np.ascontiguousarray(np.stack([sums + aside, sums - aside], axis=1).reshape(2 * c, -1))
    twice = np.repeat(sizes, 2)
    high, low = np.empty((2, 2 * c, len(labels)), np.uint64)
    kernels.plain_distances(source.points, sums, twice, high, low)
    return Exact(high, low).nearest(twice)


def gains(source: Points, labels: Array, c: int, sides: Array) -> tuple[Fraction, ...]:
    """What keeping these unions of clusters apart gains, see `Gauge`."""
    sums, sizes = source.sums(labels, c), cluster_sizes(labels, c)
    counts = np.stack([(sides == side) @ sizes for side in (1, 2)], axis=1)
    first, second = ((sides == side).astype(np.int64) @ sums for side in (1, 2))
    found = []
    for (a, b), s, t in zip(counts.tolist(), first.tolist(), second.tolist(), strict=True):
        square = sum((b * x - a * y) ** 2 for x, y in zip(s, t, strict=True))
        found.append(Fraction(square, a * b * (a + b)))
    return tuple(found)
