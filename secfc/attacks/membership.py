"""Membership by likelihood ratio: was this point among those that were clustered?

A center c of s points of N(mu, S) moves by (x - mu) / s if x is one of them, so to first order

    log P(c | x in) / P(c | x not in)  =  <c - mu, x - mu>  -  |x - mu|**2 / (2 s),

products taken under S**-1.  That is a Gaussian shift of sqrt(d / s), d the features, or as many independent
ones as say as much: no other test does better (Neyman and Pearson).  mu and S are what an attacker of the
`distribution` kind knows of the data: from public points (`Law.of`), or from runs of its own on data like
these (`shadow`), which tell of noise and of what the algorithm does to centers as well.

Whoever sees labels but not whose they are has the sizes of clusters: x adds one.

Nothing here sees who is a member.  All of it is as secret as the view it is made from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

UNLIKELY = 3.0  # deviations beyond which a center is not that of one cluster


@dataclass(frozen=True, eq=False, repr=False)
class Law:
    """What a `distribution` attacker expects.

    means (k, d): of clusters, in data units.  covariance (d, d): of sqrt(s) times what a released center of s
    points is off its mean, so where a center is exact, that of points within clusters.
    shares (k,): of all points.
    """

    means: Array
    covariance: Array
    shares: Array

    def __post_init__(self) -> None:
        k, d = self.means.shape
        if self.covariance.shape != (d, d) or self.shares.shape != (k,):
            raise ValueError(
                f"a covariance {self.covariance.shape} and shares {self.shares.shape} beside {k} means of "
                f"{d} features: {(d, d)} and {(k,)} are needed"
            )

    def __repr__(self) -> str:
        return f"Law(k={len(self.means)}, d={self.means.shape[1]})"

    @classmethod
    def of(cls, points: Array, k: int, *, seed: int = 0) -> Law:
        """From public points (s, d): their k-means, and the covariance within clusters.

        Raises ValueError for fewer than two points a cluster.
        """
        from sklearn.cluster import KMeans
        from threadpoolctl import threadpool_limits

        points = np.asarray(points, np.float64)
        if len(points) < 2 * k:
            raise ValueError(f"{len(points)} public points for k={k} clusters: at least {2 * k} are needed")
        with threadpool_limits(1):
            labels = KMeans(k, n_init=10, random_state=seed).fit(points).labels_
        means = np.stack([points[labels == h].mean(axis=0) for h in range(k)])
        spread = (points - means[labels]) * np.sqrt(len(points) / (len(points) - k))
        return cls(means, covariance_of(spread), np.bincount(labels, minlength=k) / len(points))

    @cached_property
    def inverse(self) -> Array:
        """Of the covariance; along directions in which nothing varies, zero."""
        return np.asarray(np.linalg.pinv(self.covariance, rcond=1e-10, hermitian=True))

    @cached_property
    def across(self) -> Array:
        """What rows are multiplied by (d, d) to lose all differences of means, orthogonally in the law."""
        apart = (self.means - self.means[0])[1:]
        solved = np.linalg.pinv(apart @ self.inverse @ apart.T, rcond=1e-10, hermitian=True)
        return np.asarray(np.eye(len(self.covariance)) - self.inverse @ apart.T @ solved @ apart)

    @property
    def features(self) -> int:
        """Directions in which points vary: what d is in the law of this attack."""
        return int(np.linalg.matrix_rank(self.covariance, tol=1e-10 * float(np.trace(self.covariance))))

    def cluster(self, targets: Array) -> Array:
        """The cluster (p,) that each of these points (p, d) would be in."""
        squares = (self.means**2).sum(axis=1) - 2 * targets @ self.means.T
        return np.asarray(squares.argmin(axis=1))


def covariance_of(deviations: Array) -> Array:
    """Of rows (s, d) about zero, shrunk towards a multiple of the identity as their number demands.

    Ledoit and Wolf, A well-conditioned estimator for large-dimensional covariance matrices, 2004.
    """
    from sklearn.covariance import ledoit_wolf

    return np.asarray(ledoit_wolf(deviations, assume_centered=True)[0])


def shadow(centers: Sequence[Array], sizes: Sequence[Array]) -> Law:
    """The law from an attacker's own runs on data like these: of each the centers (k, d) and sizes (k,).

    Clusters are matched with those of one run.  Raises ValueError for fewer than three runs.
    """
    if len(centers) < 3:
        raise ValueError(f"{len(centers)} shadow runs: at least 3 are needed to tell how centers vary")
    # The run with most open centers is what others are matched with.
    most = max(centers, key=lambda one: int(np.isfinite(one).all(axis=1).sum()))
    first = np.asarray(most, np.float64)
    first = first[np.isfinite(first).all(axis=1)]
    found, counted = [], []
    for mine, size in zip(centers, sizes, strict=True):
        order = matched(mine, first)
        found.append(np.where(order[:, None] >= 0, np.asarray(mine, np.float64)[order], np.nan))
        counted.append(np.where(order >= 0, np.asarray(size, np.float64)[order], 0.0))
    held, many = np.stack(found), np.stack(counted)
    means = np.nanmean(held, axis=0)
    off = ((held - means) * np.sqrt(np.maximum(many, 1.0))[:, :, None]).reshape(-1, first.shape[1])
    off = off[np.isfinite(off).all(axis=1)] * np.sqrt(len(centers) / (len(centers) - 1))
    total = many.sum()
    return Law(means, covariance_of(off), many.sum(axis=0) / total if total else many.sum(axis=0))


def matched(centers: Array, means: Array) -> Array:
    """Which center is nearest to each mean, one to one at least total cost: (k,), -1 where none is left."""
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    centers = np.asarray(centers, np.float64)
    open_ = np.flatnonzero(np.isfinite(centers).all(axis=1))
    rows, columns = linear_sum_assignment(cdist(means, centers[open_], "sqeuclidean"))
    order = np.full(len(means), -1, np.int64)
    order[rows] = open_[columns]
    return order


def from_centers(centers: Array, sizes: Array, law: Law, targets: Array, *, held: float = 0.0) -> Array:
    """Log likelihood ratios (p,) of targets (p, d) from centers (k', d) of so many points each (k',).

    held: in what share of the runs that the law comes from the target was in, which has moved its means by as
    much.  A target whose cluster has no center scores 0: no evidence.
    """
    check_targets(targets, law.means.shape[1])
    order = matched(centers, law.means)
    cluster = law.cluster(targets)
    there = order[cluster]
    scores = _ratios(np.asarray(centers, np.float64), sizes, law, targets, there, cluster, held)
    return np.asarray(np.where(there >= 0, scores, 0.0))


def from_local(centers: Array, sizes: Array, law: Law, targets: Array) -> Array:
    """The same from one client's local centers, of clusters that need not be those of the law.

    A target's evidence is in the local center nearest to it, expected where the law's nearest mean is.
    """
    check_targets(targets, law.means.shape[1])
    centers = np.asarray(centers, np.float64)
    nearest = replace(law, means=centers, shares=np.ones(len(centers))).cluster(targets)
    return _ratios(centers, sizes, law, targets, nearest, law.cluster(centers)[nearest], 0.0)


def _ratios(
    centers: Array, sizes: Array, law: Law, targets: Array, there: Array, cluster: Array, held: float
) -> Array:
    """Log likelihood ratios (p,): of each target the center that tells of it, and the law's cluster of that.

    A center farther off its mean than chance allows is of points of several clusters.  What they are does not
    matter: across all differences of the law's means there is no evidence, and orthogonal to them as before.
    """
    size = np.maximum(np.asarray(sizes, np.float64)[there], 1.0)
    off = np.nan_to_num(centers[there] - law.means[cluster])
    own = targets - law.means[cluster]
    d = law.features
    mixed = np.einsum("ij,ij->i", off @ law.inverse, off) * size > d + UNLIKELY * np.sqrt(2 * d)
    if mixed.any():
        across = law.across
        off[mixed], own[mixed] = off[mixed] @ across, own[mixed] @ across
    weighed = own @ law.inverse
    squares = np.einsum("ij,ij->i", weighed, own)
    return np.asarray(np.einsum("ij,ij->i", weighed, off) - (1 - 2 * held) * squares / (2 * size))


def from_sizes(sizes: Array, law: Law, targets: Array) -> Array:
    """Scores (p,) from the sizes (k,) of the law's clusters alone: how many deviations above the expected."""
    check_targets(targets, law.means.shape[1])
    sizes = np.asarray(sizes, np.float64)
    expected = law.shares * sizes.sum()
    deviations = (sizes - expected) / np.sqrt(np.maximum(expected * (1 - law.shares), 1e-9))
    return np.asarray(deviations[law.cluster(targets)])


def check_targets(targets: Array, d: int, bound: float | None = None) -> None:
    """Raise ValueError for targets that no run of d features within the bound was given."""
    if targets.ndim != 2 or targets.shape[1] != d:
        raise ValueError(f"targets of shape {targets.shape}: the run is of d={d} features, give (p, {d})")
    if not np.isfinite(targets).all():
        raise ValueError("a target holds a value that is not finite, so it was in no data: leave it out")
    if bound is not None and targets.size and float(np.abs(targets).max()) > bound:
        row = int(np.abs(targets).max(axis=1).argmax())
        raise ValueError(
            f"target {row} has a value beyond bound={bound:g}, which all data of the run keep, so it was not "
            "in them: leave it out, or give targets in the units of the run"
        )
