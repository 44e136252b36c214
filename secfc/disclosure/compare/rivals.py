"""What is compared of every point: its distances to all centers, or to both halves of its own cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from field.code.halves import widest
from field.compare.contest import Contest
from secfc.coded.messages import Assignment
from secfc.coded.policy import Measured

Array = NDArray[Any]


class Rivals(Protocol):
    """Rows of distances that compete for each point, and what winning means.  Everything here is public."""

    @property
    def contest(self) -> Contest:
        """Which comparisons decide."""
        ...

    @property
    def rows(self) -> int:
        """How many distances of a point compete."""
        ...

    def foregone(self, m: int) -> Array | None:
        """The labels (m,) int32 that follow from sizes alone, so that nobody is asked; None if none do."""
        ...

    def distances(self, measured: Measured, lanes: int) -> Array:
        """The coded rows (lanes, rows, m): a share, secret."""
        ...

    def labels(self, winners: Array) -> Array:
        """The labels (m,) int32 that winners (m,) mean."""
        ...


@dataclass(frozen=True, eq=False)
class Centers:
    """The nearest center of clusters of these sizes (k,), for a factor above 1 the one that much nearer."""

    sizes: Array
    factor: int = 1

    @cached_property
    def contest(self) -> Contest:
        return _contest(tuple(self.sizes.tolist()), self.factor)

    @cached_property
    def alive(self) -> Array:
        """The clusters that take part: those with points."""
        return np.flatnonzero(self.sizes > 0)

    @property
    def rows(self) -> int:
        return len(self.alive)

    def foregone(self, m: int) -> Array | None:
        if not self.rows:
            return np.full(m, -1, np.int32)
        return np.full(m, self.contest.labels[-1], np.int32) if self.rows == 1 else None

    def distances(self, measured: Measured, lanes: int) -> Array:
        values = measured.distances(lanes)
        return values if self.rows == values.shape[1] else np.ascontiguousarray(values[:, self.alive])

    def labels(self, winners: Array) -> Array:
        return winners


@dataclass(frozen=True, eq=False)
class Halves:
    """The nearer half of a point's own cluster, after halves (m,) in [0, 2 c) of these sizes (2 c,).

    Of every point one number competes, whose sign says which half is nearer: the difference of its distances,
    each multiplied by what makes both halves of a cluster as large.  So one contest serves all points, within
    the modulus that distances to any two clusters may need (`field.compare.contest.headroom`).
    """

    halves: Array
    sizes: Array

    @cached_property
    def contest(self) -> Contest:
        return _sign(widest(self.sizes))

    @property
    def rows(self) -> int:
        return 1

    def foregone(self, m: int) -> Array | None:
        return None if widest(self.sizes) else self.halves.astype(np.int32)

    def distances(self, measured: Measured, lanes: int) -> Array:
        return np.ascontiguousarray(measured.gaps(lanes)[:, None])

    def labels(self, winners: Array) -> Array:
        # Where a half is empty the number is 0: the points stay where they are.
        a, b = self.sizes.reshape(-1, 2).T
        own = self.halves // 2
        return np.where(((a > 0) & (b > 0))[own], 2 * own + winners, self.halves).astype(np.int32)


@dataclass(frozen=True, eq=False)
class Sides:
    """The nearest center of clusters whose sizes nobody knows; sizes: (k,), 0 where nothing can be.

    Of every point a number competes for each two clusters, whose sign says which is nearer
    (`field.compare.secret_step.sides`).
    """

    sizes: Array

    @cached_property
    def contest(self) -> Contest:
        nearest = _contest(tuple((self.sizes > 0).astype(int).tolist()), 1)
        # The bit [0 < D] of a row of its own.
        return replace(nearest, comparisons=tuple((q, q, 0, 1) for q in range(self.rows)))

    @property
    def rows(self) -> int:
        count = int(np.count_nonzero(self.sizes))
        return count * (count - 1) // 2

    def foregone(self, m: int) -> Array | None:
        return Centers(self.sizes).foregone(m)

    def distances(self, measured: Measured, lanes: int) -> Array:
        planes = np.ascontiguousarray(measured.rows.residues(measured.sums)[:lanes])
        normals, offsets = (np.ascontiguousarray(part) for part in (planes[:, :, 1:], planes[:, :, 0]))
        return np.ascontiguousarray(measured.rows.products(normals, offsets))

    def labels(self, winners: Array) -> Array:
        return winners


def rivals_of(kind: type[Assignment], labels: Array, sizes: Array, factor: int = 1) -> Rivals:
    """What a question of a kind compares; sizes: of the clusters that distances are measured to."""
    return Halves(labels, sizes) if kind.halves else Centers(sizes, factor)


@lru_cache(maxsize=8)
def _sign(width: int) -> Contest:
    return Contest.sign(width)


@lru_cache(maxsize=8)
def _contest(sizes: tuple[int, ...], factor: int) -> Contest:
    """Public, so that parties in one process may have it together."""
    return Contest.nearest(np.array(sizes)) if factor == 1 else Contest.separated(np.array(sizes), factor)
