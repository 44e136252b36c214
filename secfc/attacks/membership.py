"""Membership by likelihood ratio: was this point among those that were clustered?

A center c of s points of N(mu, S) moves by (x - mu) / s if x is one of them, so to first order

    log P(c | x in) / P(c | x not in)  =  <c - mu, x - mu>  -  |x - mu|**2 / (2 s),

products taken under S**-1.  That is a Gaussian shift of sqrt(d / s), d the features, or as many independent
ones as say as much: no other test does better (Neyman and Pearson).  mu and S are what an attacker of the
`distribution` kind knows of the data: from public points (`DistributionLaw.of`), or from runs of its own on
data like these (`shadow_law`), which tell of noise and of what the algorithm does to centers as well.

Whoever sees labels but not whose they are has the sizes of clusters: x adds one.

Nothing here sees who is a member.  All of it is as secret as the view it is made from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from secfc.attacks.views import View
from secfc.data.federation import Federation
from secfc.errors import InputError

UNLIKELY = 3.0  # deviations beyond which a center is not that of one cluster


@dataclass(frozen=True, eq=False, repr=False)
class DistributionLaw:
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
            raise InputError(
                f"a covariance {self.covariance.shape} and shares {self.shares.shape} beside {k} means of "
                f"{d} features: {(d, d)} and {(k,)} are needed"
            )

    def __repr__(self) -> str:
        return f"Law(k={len(self.means)}, d={self.means.shape[1]})"

    @classmethod
    def of(cls, points: Array, k: int, *, seed: int = 0) -> DistributionLaw:
        """From public points (s, d): their k-means, and the covariance within clusters.

        Raises ValueError for fewer than two points a cluster.
        """
        from sklearn.cluster import KMeans
        from threadpoolctl import threadpool_limits

        points = np.asarray(points, np.float64)
        if len(points) < 2 * k:
            raise InputError(f"{len(points)} public points for k={k} clusters: at least {2 * k} are needed")
        with threadpool_limits(1):
            labels = KMeans(k, n_init=10, random_state=seed).fit(points).labels_
        means = np.stack([points[labels == h].mean(axis=0) for h in range(k)])
        spread = (points - means[labels]) * np.sqrt(len(points) / (len(points) - k))
        return cls(means, covariance_of(spread), np.bincount(labels, minlength=k) / len(points))

    @cached_property
    def inverse(self) -> Array:
        """Inverse (d, d) of the covariance; along directions in which nothing varies, zero."""
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
    """Covariance of rows (s, d) about zero, shrunk to a multiple of the identity as their number demands.

    Ledoit and Wolf, A well-conditioned estimator for large-dimensional covariance matrices, 2004.
    """
    from sklearn.covariance import ledoit_wolf

    return np.asarray(ledoit_wolf(deviations, assume_centered=True)[0])


def shadow_law(centers: Sequence[Array], sizes: Sequence[Array]) -> DistributionLaw:
    """The law from an attacker's own runs on data like these: of each the centers (k, d) and sizes (k,).

    Clusters are matched with those of one run.  Raises ValueError for fewer than three runs.
    """
    if len(centers) < 3:
        raise InputError(f"{len(centers)} shadow runs: at least 3 are needed to tell how centers vary")
    # The run with most open centers is what others are matched with.
    most = max(centers, key=lambda one: int(np.isfinite(one).all(axis=1).sum()))
    first = np.asarray(most, np.float64)
    first = first[np.isfinite(first).all(axis=1)]
    found, counted = [], []
    for mine, size in zip(centers, sizes, strict=True):
        order = match_centers(mine, first)
        found.append(np.where(order[:, None] >= 0, np.asarray(mine, np.float64)[order], np.nan))
        counted.append(np.where(order >= 0, np.asarray(size, np.float64)[order], 0.0))
    held, many = np.stack(found), np.stack(counted)
    means = np.nanmean(held, axis=0)
    off = ((held - means) * np.sqrt(np.maximum(many, 1.0))[:, :, None]).reshape(-1, first.shape[1])
    off = off[np.isfinite(off).all(axis=1)] * np.sqrt(len(centers) / (len(centers) - 1))
    total = many.sum()
    return DistributionLaw(means, covariance_of(off), many.sum(axis=0) / total if total else many.sum(axis=0))


def match_centers(centers: Array, means: Array) -> Array:
    """Which center is nearest to each mean, one to one at least total cost: (k,), -1 where none is left."""
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    centers = np.asarray(centers, np.float64)
    open_ = np.flatnonzero(np.isfinite(centers).all(axis=1))
    rows, columns = linear_sum_assignment(cdist(means, centers[open_], "sqeuclidean"))
    order = np.full(len(means), -1, np.int64)
    order[rows] = open_[columns]
    return order


def scores_from_centers(
    centers: Array, sizes: Array, law: DistributionLaw, targets: Array, *, held: float = 0.0
) -> Array:
    """Log likelihood ratios (p,) of targets (p, d) from centers (k', d) of so many points each (k',).

    held: in what share of the runs that the law comes from the target was in, which has moved its means by as
    much.  A target whose cluster has no center scores 0: no evidence.
    """
    check_targets(targets, law.means.shape[1])
    order = match_centers(centers, law.means)
    cluster = law.cluster(targets)
    there = order[cluster]
    scores = _ratios(np.asarray(centers, np.float64), sizes, law, targets, there, cluster, held)
    return np.asarray(np.where(there >= 0, scores, 0.0))


def scores_from_local_centers(centers: Array, sizes: Array, law: DistributionLaw, targets: Array) -> Array:
    """Log likelihood ratios (p,) from one client's local centers, of clusters other than the law's, perhaps.

    A target's evidence is in the local center nearest to it, expected where the law's nearest mean is.
    """
    check_targets(targets, law.means.shape[1])
    centers = np.asarray(centers, np.float64)
    nearest = replace(law, means=centers, shares=np.ones(len(centers))).cluster(targets)
    return _ratios(centers, sizes, law, targets, nearest, law.cluster(centers)[nearest], 0.0)


def _ratios(
    centers: Array,
    sizes: Array,
    law: DistributionLaw,
    targets: Array,
    there: Array,
    cluster: Array,
    held: float,
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


def scores_from_sizes(sizes: Array, law: DistributionLaw, targets: Array) -> Array:
    """Scores (p,) from the sizes (k,) of the law's clusters alone: how many deviations above the expected."""
    check_targets(targets, law.means.shape[1])
    sizes = np.asarray(sizes, np.float64)
    expected = law.shares * sizes.sum()
    deviations = (sizes - expected) / np.sqrt(np.maximum(expected * (1 - law.shares), 1e-9))
    return np.asarray(deviations[law.cluster(targets)])


def check_targets(targets: Array, d: int, bound: float | None = None) -> None:
    """Raise ValueError for targets that no run of d features within the bound was given."""
    if targets.ndim != 2 or targets.shape[1] != d:
        raise InputError(f"targets of shape {targets.shape}: the run is of d={d} features, give (p, {d})")
    if not np.isfinite(targets).all():
        raise InputError("a target holds a value that is not finite, so it was in no data: leave it out")
    if bound is not None and targets.size and float(np.abs(targets).max()) > bound:
        row = int(np.abs(targets).max(axis=1).argmax())
        raise InputError(
            f"target {row} has a value beyond bound={bound:g}, which all data of the run keep, so it was not "
            "in them: leave it out, or give targets in the units of the run"
        )


# --------------------------------------------------------------------------------------------------
# Membership on any data: many runs on random halves, each attacked with what the others tell.
#
# No law of real data is known, so the attacker has it from shadow runs: in every run a coin keeps half of
# each client's rows.  The rows kept are members and the others are not, of one law and of the same client,
# whatever the data are; every other run is a shadow of the one that is attacked (Carlini et al., Membership
# inference attacks from first principles, 2022).  That is a strong attacker: it knows the pool of rows that
# halves come from, and the algorithm, and sees what the run opens.  The mean of half a pool varies half as
# much as that of as many points of the law, so its shift is up to sqrt(2 d / s) instead of sqrt(d / s).
#
# The control are the same scores against coins that decided nothing, where nothing must be found.

LEAST_RUNS = 4


@dataclass(frozen=True, eq=False, repr=False)
class OpenedRun:
    """What everybody sees of a run whose centers are opened: these (k, d), NaN where one stays closed.

    sizes: points of each cluster (k,), as labels tell them, or as many as an attacker may expect.
    """

    centers: Array
    sizes: Array

    @classmethod
    def of(cls, view: View, expected: float) -> OpenedRun:
        """What this view has of the output.  expected: points a cluster, where sizes are not told.

        Raises ValueError where no centers were opened, and for a coalition that holds all points.
        """
        if view.parties and set(view.plan.clients) <= set(view.parties):
            raise InputError(
                "the coalition holds all points itself: it knows who is in, nothing is to attack"
            )
        output = view.output
        if output is None or output.centers is None or not np.isfinite(output.centers).any():
            raise InputError(
                "no centers were opened: nothing to attack but the labels, which tell at most the sizes of "
                "clusters",
                [("reveal_centers", True, "open them"), "attack an algorithm that does"],
            )
        sizes = np.full(len(output.centers), expected) if output.sizes is None else output.sizes
        return cls(output.centers, sizes)

    def __repr__(self) -> str:
        return f"Opened(centers={self.centers.shape})"


def draw_halves(federation: Federation, rng: np.random.Generator) -> tuple[Array, ...]:
    """Which rows of every client are kept, half of them: one (m_j,) bool array a client.

    Of a client with an odd number of rows the larger half.
    """
    kept = []
    for count in federation.counts:
        mine = np.zeros(count, bool)
        mine[rng.permutation(count)[: (count + 1) // 2]] = True
        kept.append(mine)
    return tuple(kept)


def select_half(federation: Federation, kept: Sequence[Array]) -> Federation:
    """The federation of the rows that were kept, without ids and truth."""
    parties = tuple(
        replace(party, points=party.read()[mine], ids=None, truth=None)
        for party, mine in zip(federation.parties, kept, strict=True)
    )
    return replace(federation, parties=parties)


def membership_scores(opened: Sequence[OpenedRun], targets: Array) -> list[Array]:
    """Scores (p,) of all targets (p, d) in every run, each by the law that the other runs tell.

    A target is in half of them.  Raises ValueError for fewer than four runs, or where nothing was opened.
    """
    if len(opened) < LEAST_RUNS:
        raise InputError(
            f"{len(opened)} runs: at least {LEAST_RUNS} are needed, as all but one are shadows of that one"
        )
    if not all(np.isfinite(one.centers).any() for one in opened):
        raise InputError("no centers were opened: nothing to attack")
    found = []
    for number, one in enumerate(opened):
        law = fit_law([*opened[:number], *opened[number + 1 :]])
        found.append(scores_from_centers(one.centers, one.sizes, law, targets, held=0.5))
    return found


def fit_law(opened: Sequence[OpenedRun]) -> DistributionLaw:
    """The law that an attacker has from these runs."""
    return shadow_law([one.centers for one in opened], [one.sizes for one in opened])
