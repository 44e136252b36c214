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
                answer = source.priced(now, c)


class Points(Protocol):
    """What growing needs of a source of steps, as `secfc.lloyd.loop.PlainSource`."""

    @property
    def points(self) -> Array: ...

    def sums(self, labels: Array, k: int) -> Array: ...

    def about(self, sums: Array, sizes: Array) -> tuple[Array, Array]:
        """Centers of clusters of these sums (k, d) and sizes (k,): sums of as many points as they stand for,
        and how many these are (k,)."""
        ...

    def gained(self, sums: Array, sizes: Array) -> tuple[Fraction, ...]:
        """What unions of these sums (pairs, 2, d) and sizes (pairs, 2) gain over one of both."""
        ...

    def priced(self, labels: Array, c: int) -> tuple[Any, ...]:
        """The sums of scaled distances within c clusters."""
        ...


def nearest(points: Array, sums: Array, stand: Array) -> Array:
    """The nearest of centers (m,) int32; as `Points.about`."""
    from field.kernels import scalar as kernels

    high, low = np.empty((2, len(stand), len(points)), np.uint64)
    kernels.plain_distances(points, np.ascontiguousarray(sums), stand, high, low)
    return Exact(high, low).nearest(stand)


def step(source: Points, labels: Array, c: int) -> Array:
    """The nearest of c centers (m,) int32."""
    return nearest(source.points, *source.about(source.sums(labels, c), cluster_sizes(labels, c)))


def cut(source: Points, labels: Array, directions: Array) -> Array:
    """The halves (m,) of c clusters, see `Cut`."""
    c = len(directions)
    centers, stand = source.about(source.sums(labels, c), cluster_sizes(labels, c))
    aside = stand[:, None] * directions.astype(np.int64)
    both = np.stack([centers + aside, centers - aside], axis=1).reshape(2 * c, -1)
    return nearest(source.points, both, np.repeat(stand, 2))


def gains(source: Points, labels: Array, c: int, sides: Array) -> tuple[Fraction, ...]:
    """What keeping these unions of clusters apart gains, see `Gauge`."""
    sums, sizes = source.sums(labels, c), cluster_sizes(labels, c)
    unions = np.stack([sides == 1, sides == 2], axis=1).astype(np.int64)
    return source.gained(unions @ sums, unions @ sizes)


def gained(sums: Array, sizes: Array) -> tuple[Fraction, ...]:
    """Of exact means, see `Points.gained`."""
    found = []
    for (a, b), (first, second) in zip(sizes.tolist(), sums.tolist(), strict=True):
        square = sum((b * x - a * y) ** 2 for x, y in zip(first, second, strict=True))
        found.append(Fraction(square, a * b * (a + b)))
    return tuple(found)
