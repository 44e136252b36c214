"""Centers that everybody knows: how they label points; and ordinary k-means, on points as they are.

The latter is the same heuristic from the same start in floating point, with which labels of rounded points
are compared: evaluation only, on pooled points.  Two centers whose distances differ by less than floating
point can tell are equally near, and the lowest number wins, as it does on integers; other implementations
may decide such ties otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from field.arrays import Array
from field.code.rows import cluster_sizes
from field.secrets.coins import Coins
from secfc.algorithm import Driver
from secfc.data.federation import Federation
from secfc.errors import InputError
from secfc.kmeans.loop import PlainSource, Step, Trace, lloyd
from secfc.roles.exchange import PartyId, Role

BLOCK = 1 << 16  # distances at a time, which a cache holds


@dataclass(frozen=True, repr=False, eq=False)
class CentersModel:
    """Known centers (k, d): new points go to the nearest, in floating point."""

    centers: Array
    by_name: ClassVar[bool] = False

    def predict(
        self, federation: Federation, *, coins: Callable[[PartyId], Coins], drive: Driver
    ) -> list[Array]:
        """Nearest centers: one (m_j,) int32 array a client.  Nobody says anything.

        Raises InputError for a client that has some of the columns alone.
        """
        d = self.centers.shape[1]
        for party in federation.parties:
            rows, own = party.points.shape
            if rows and own != d:
                raise InputError(f"client {party.name!r} has {own} of d={d} columns: give new points whole")
        return [
            party.label_blocks(lambda _, block: nearest_center(block, self.centers))
            for party in federation.parties
        ]


def nearest_center(points: Array, centers: Array) -> Array:
    """The nearest center of every point (m, d), ties to the lowest index: (m,) int32."""
    nearest = np.empty(len(points), np.int32)
    rows = max(1, BLOCK // len(centers))
    for first in range(0, len(points), rows):
        nearest[first : first + rows] = squared_distances(points[first : first + rows], centers).argmin(
            axis=1
        )
    return nearest


def squared_distances(points: Array, centers: Array) -> Array:
    """Squared distances (m, k) in floating point, features added up in their order: the same anywhere."""
    points, centers = np.asarray(points, np.float64), np.asarray(centers, np.float64)
    total = np.zeros((len(points), len(centers)))
    for mine, theirs in zip(points.T, centers.T, strict=True):
        apart = mine[:, None] - theirs
        apart *= apart
        total += apart
    return total


# Of a center and of a coordinate, relative to the largest norm: sums of 2**30 values lose no more.
ERROR = 1e-12


@dataclass(frozen=True)
class FloatComparison:
    """Labels against those of ordinary k-means on the unrounded points.

    equal: of points points.  ties: points that are equally near to several centers in the last step, as far
    as floating point can tell.  steps: iterations of ordinary k-means.
    """

    equal: int
    points: int
    ties: int
    steps: int

    @property
    def same(self) -> bool:
        """Whether every label is the same."""
        return self.equal == self.points


def against_ordinary(points: Array, start: Array, labels: Array, k: int, max_iter: int) -> FloatComparison:
    """Labels (m,) of a run against ordinary k-means on its points (m, d), from the same start (m,)."""
    source = FloatSource(points)
    role = lloyd(np.asarray(start, np.int32), k, max_iter, source)
    try:
        next(role)
    except StopIteration as done:
        trace: Trace = done.value
    else:
        raise RuntimeError("plaintext steps wait for nobody")
    return FloatComparison(int((trace.labels == labels).sum()), len(labels), source.ties, trace.n_iter)


class FloatSource(PlainSource):
    """Steps of Lloyd's heuristic, and no others, on points (m, d) in floating point.  ties: of the last."""

    def __init__(self, points: Array) -> None:
        whole = np.asarray(points, np.float64)
        self.points = np.ascontiguousarray(whole - whole.mean(axis=0))  # offsets would cost digits
        self.reach = float(np.sqrt((self.points**2).sum(axis=1).max()))
        self.ties = 0

    def take_step(self, labels: Array, k: int, moved: int | None = None) -> Role[Step]:
        """The nearest center of each point, as integers decide it: ties to the lowest, never an empty one."""
        sizes = cluster_sizes(labels, k)
        kept = labels >= 0
        sums = np.stack([np.bincount(labels[kept], column[kept], k) for column in self.points.T], axis=1)
        centers = sums / np.maximum(sizes, 1)[:, None]
        nearest = np.empty(len(labels), np.int32)
        self.ties = 0
        rows = max(1, BLOCK // k)
        for first in range(0, len(labels), rows):
            gaps = squared_distances(self.points[first : first + rows], centers)
            gaps[:, sizes == 0] = np.inf
            least = gaps.min(axis=1, keepdims=True)
            near = gaps <= least + ERROR * (least + 4 * self.reach * np.sqrt(least))
            nearest[first : first + rows] = near.argmax(axis=1)
            self.ties += int((near.sum(axis=1) > 1).sum())
        yield from ()
        return Step(nearest, None)
