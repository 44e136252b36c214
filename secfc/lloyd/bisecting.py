"""A start that splits clusters in two until there are k, by labels and by what splits gain alone."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.code.rows import cluster_sizes
from secfc.lloyd.loop import Source
from secfc.roles.exchange import Role

Array = NDArray[Any]

# Levels in a row that split nothing, after which nothing is taken to be left to split: other random halves
# may split what these did not, and points that are all equal are split by none.
PATIENCE = 3


@dataclass(frozen=True)
class Bisecting:
    """All points in one cluster, then level by level the best splits, until there are k clusters.

    On every level each cluster is cut into random halves of equal size, by public coins, which up to `steps`
    steps of 2-means improve, in all clusters side by side.  A split gains what it takes off the cost.  Those
    that gain at least `keep` times the most are accepted, the best first, no more than are missing to k; ties
    go to the lowest cluster.  Up to `settle` steps of k-means over the clusters so far come before the next
    level.  The second half of an accepted cluster becomes a new one, in the order of the clusters; one that
    lost all its points leaves its number to those behind it.

    Where points have fewer different values than k, or random halves of equal means come up again and again,
    clusters stay empty.  Accepting all splits would cut compact clusters, and one at a time takes k - 1
    levels; `python -m benchmarks.quality` compares costs.
    """

    keep: float = 0.5
    steps: int = 6
    settle: int = 2

    reveals = (
        "distances of every point to both halves of its cluster on every level, and so what every split "
        "would gain"
    )
    needs_distances = False
    halves = True
    factor = 1

    def __post_init__(self) -> None:
        if not 0 <= self.keep <= 1:
            raise ValueError(f"keep={self.keep} must be in [0, 1]: a part of the largest gain")
        if self.steps < 1:
            raise ValueError(f"steps={self.steps} of 2-means are too few: random halves need at least 1")
        if self.settle < 0:
            raise ValueError(f"settle={self.settle} is negative: it counts steps of k-means")

    def check(self, m: int, k: int) -> None:
        """Fits always: k <= m is checked with the plan."""

    def draw(self, m: int, k: int, rng: np.random.Generator, source: Source) -> Role[Array]:
        labels, idle = np.zeros(m, np.int32), 0
        for _ in range(k - 1 + PATIENCE):  # clusters that get lost might go on for ever
            c = int(labels.max()) + 1
            if c == k or idle == PATIENCE:
                break
            halves = _random_halves(labels, c, rng)
            for _ in range(self.steps):
                before, halves = halves, (yield from source.halved(halves, c))
                if np.array_equal(before, halves):
                    break
            labels = yield from self._split(halves, c, k - c, source)
            if labels.max() < c:
                idle += 1
                continue
            idle, c = 0, int(labels.max()) + 1
            for _ in range(self.settle if c < k else 0):  # with k clusters these are steps of the run
                before, labels = labels, (yield from source.step(labels, c)).labels
                if np.array_equal(before, labels):
                    break
            labels = _numbered(labels)
        return labels

    def _split(self, halves: Array, c: int, most: int, source: Source) -> Role[Array]:
        """The labels (m,) after those splits that are accepted, no more than `most`."""

        def choose(gains: tuple[Fraction, ...]) -> Array:
            least = Fraction(self.keep) * max(gains)
            good = [h for h, gain in enumerate(gains) if gain > 0 and gain >= least]
            return accept(halves, c, sorted(good, key=lambda h: (-gains[h], h))[:most])

        told = yield from source.split(halves, c, choose)
        # A client hears labels, and no gains: it takes the server's word for which splits these are, and for
        # nothing else.  Only clusters of which both halves have points can be split.
        sizes = cluster_sizes(halves, 2 * c)
        new = np.unique(halves[told >= c] // 2)
        return accept(halves, c, [h for h in new.tolist() if sizes[2 * h] and sizes[2 * h + 1]][:most])


def accept(halves: Array, c: int, accepted: list[int]) -> Array:
    """Labels (m,) int32 with the second halves of these clusters, of c, as clusters of their own."""
    number = np.repeat(np.arange(c, dtype=np.int32), 2)
    for new, h in enumerate(sorted(accepted), c):
        number[2 * h + 1] = new
    return number[halves]


def _random_halves(labels: Array, c: int, rng: np.random.Generator) -> Array:
    """Every cluster's points dealt to its two halves in random order, the first half getting one more."""
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    sizes = cluster_sizes(labels, c)
    ranks = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    halves = np.empty(len(labels), np.int32)
    halves[order] = 2 * labels[order] + ranks % 2
    return halves


def _numbered(labels: Array) -> Array:
    """The same clusters (m,) int32 numbered from 0 in their order, without those that are empty."""
    return np.unique(labels, return_inverse=True)[1].astype(np.int32)
