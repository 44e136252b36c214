"""Lloyd's heuristic with missing features, on integers: what one client computes, and no messages.

Minimizes the sum over points of squared distances to their center on the features that their client observes
(k-POD's and Wagstaff's objective, with one mask a client).  A center's coordinate is S / N, sum and number of
its points over all who observe that feature.  So centers are fractions with a denominator for every pattern
of clients, and labels compare them exactly: floats only rule out centers that are certainly not the nearest.

Rules, all public: ties go to the lowest index; a coordinate without a point keeps its last value; a cluster
without a value on some feature of a client is not offered to it; one without points anywhere is not offered
to anybody, so it stays empty, as in `Lloyd`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class KnownCenters:
    """Centers on some features: sums (k, d) int64 over counts (k, d) int64, 0 points where none was ever
    seen.

    there: clusters that have points anywhere, (k,).
    """

    sums: Array
    counts: Array
    there: Array

    @classmethod
    def nothing(cls, k: int, d: int) -> KnownCenters:
        """No center at all."""
        return cls(np.zeros((k, d), np.int64), np.zeros((k, d), np.int64), np.zeros(k, bool))

    def updated(self, sums: Array, counts: Array, there: Array) -> KnownCenters:
        """Known centers after a step: where nobody has a point, the last value stays."""
        new = counts > 0
        return KnownCenters(np.where(new, sums, self.sums), np.where(new, counts, self.counts), there)

    def on(self, features: Array) -> KnownCenters:
        """Known centers on some features only."""
        return KnownCenters(self.sums[:, features], self.counts[:, features], self.there)

    @property
    def offered(self) -> Array:
        """Clusters with points somewhere and a value on every feature: (k,)."""
        return np.asarray(self.there & (self.counts > 0).all(axis=1))

    @property
    def means(self) -> Array:
        """Centers in integer steps, as floats: (k, d), NaN where there is none."""
        empty = np.full(self.sums.shape, np.nan)
        found: Array = np.divide(self.sums, self.counts, out=empty, where=self.counts > 0)
        return found


def sums_of(points: Array, labels: Array, k: int) -> tuple[Array, Array]:
    """Sums (k, d) int64 and numbers (k,) int64 of integer points (m, d) by label in [-1, k)."""
    # m points of at most max_int sum to less than 2**62: the plan sees to it.
    order = np.argsort(labels, kind="stable")
    edges = np.searchsorted(labels[order], np.arange(k + 1))
    sums = np.stack([points[order[a:b]].sum(axis=0) for a, b in pairwise(edges)])
    return sums.astype(np.int64), np.diff(edges).astype(np.int64)


def possible_sums(sums: Array, counts: Array, pattern: Array, rows: Array, most: int) -> bool:
    """Whether some points have these sums (k, s) and numbers (k, p), as far as that can be seen.

    pattern: of each feature, (s,).  rows: the most points that the clients of a pattern have, (p,).  most:
    the largest value of a point's coordinate.
    """
    sums, counts = sums.astype(np.int64), counts.astype(np.int64)
    if (counts < 0).any() or (counts.astype(object).sum(axis=0) > rows).any():
        return False
    # |sums| <= counts * most, divided by most: products might not fit.
    there = counts[:, pattern]
    return bool(((sums // most >= -there) & (-(-sums // most) <= there)).all())


def nearest_offered(points: Array, known: KnownCenters) -> Array:
    """The nearest offered center of integer points (m, d), exactly; ties to the lowest index: (m,) int32.

    -1 where no center is offered.
    """
    offered = np.flatnonzero(known.offered)
    if not len(offered):
        return np.full(len(points), -1, np.int32)
    centers = known.means[offered]
    scores, slack = _scores(points, centers)
    possible = scores - slack <= (scores + slack).min(axis=1, keepdims=True)
    labels: Array = offered[possible.argmax(axis=1)].astype(np.int32)
    close = np.flatnonzero(possible.sum(axis=1) > 1)
    if len(close):
        labels[close] = offered[_exactly(points[close], known, offered)]
    return labels


def _scores(points: Array, centers: Array) -> tuple[Array, Array]:
    """||c||**2 - 2 x c of every pair, which differs from the squared distance by ||x||**2, and its error
    bound.

    Integers below 2**53 are floats exactly; a center is one rounding off, at most u = 2**-53 of it.  A dot
    product of d terms, summed in any order, fused or not, is off by at most d u / (1 - d u) times that of the
    absolute values (Higham, Accuracy and Stability, section 3.1), which Cauchy and Schwarz bound by the
    norms. With the roundings of centers, norms and of the last difference that is less than (d + 8) 2**-52 of
    ||c||**2 + 2 ||x|| ||c||, for d below 2**40.
    """
    # About a point in their midst, in whole steps, so that a common shift costs no digits.
    middle = np.rint(centers.mean(axis=0))
    x, c = points - middle, centers - middle
    squares = (c**2).sum(axis=1)
    scores = squares - 2 * (x @ c.T)
    reach = squares + 2 * np.sqrt((x**2).sum(axis=1))[:, None] * np.sqrt(squares)
    # Centers moved by a rounding of their own size before the shift, however small they are after it.
    moved = np.abs(centers).max(axis=1, initial=0.0) * 2.0**-52 * np.sqrt(points.shape[1])
    shift = 2 * moved * (np.sqrt((x**2).sum(axis=1))[:, None] + np.sqrt(squares) + moved)
    return scores, reach * (points.shape[1] + 8) * 2.0**-52 + shift


def _exactly(points: Array, known: KnownCenters, offered: Array) -> Array:
    """The place in `offered` of the nearest center, by integers of any size: (m,)."""
    counts = known.counts[offered].astype(object)
    sums = known.sums[offered].astype(object)
    multiple = math.lcm(*map(int, known.counts[offered].reshape(-1)))
    factors = multiple // counts
    wide = points.astype(object) * multiple
    scaled = np.stack([((wide - s * f) ** 2).sum(axis=1) for s, f in zip(sums, factors, strict=True)])
    return np.asarray(scaled.argmin(axis=0), np.int64)
