"""How a client clusters its own points, for a start or in a step: values with one method.

A site chooses its own: nothing of it is compared with other parties, and only the number of its local
clusters shows.  Labels are integers from 0, -1 for a point of no cluster.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast, get_args

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from secfc.data.inputs import positive_integer
from secfc.errors import InputError


class Local(Protocol):
    """A way to cluster the points of one client."""

    def label_points(self, points: Array, k: int, seed: int, client: str) -> Array:
        """Labels (m_j,) of points (m_j, d_j); k: clusters of all clients together, of which no client has
        more.
        """
        ...


@dataclass(frozen=True)
class LocalKMeans:
    """k-means++ and Lloyd's heuristic, by scikit-learn.

    k: local clusters K_i, of every client or by client's name; None for as many as there are in all.  A
    client with fewer distinct points has as many clusters as these.
    """

    k: int | Mapping[str, int] | None = None
    n_init: int = 10

    def __post_init__(self) -> None:
        positive_integer("n_init", self.n_init)
        for k in self.k.values() if isinstance(self.k, Mapping) else () if self.k is None else (self.k,):
            positive_integer("k", k)

    def label_points(self, points: Array, k: int, seed: int, client: str) -> Array:
        own = self.k.get(client, k) if isinstance(self.k, Mapping) else self.k
        return kmeans(points, k if own is None else own, seed, self.n_init)


@dataclass(frozen=True)
class Silhouette:
    """The number of local clusters, from 2 to k, whose k-means has the largest silhouette (Rousseeuw, 1986).

    One cluster has no silhouette, so a client never finds that it has only one.
    """

    n_init: int = 3

    def label_points(self, points: Array, k: int, seed: int, client: str) -> Array:
        from sklearn.metrics import silhouette_score

        best, chosen = -np.inf, np.zeros(len(points), np.int64)
        for own in range(2, min(k, len(points) - 1) + 1):
            found = kmeans(points, own, seed, self.n_init)
            if 2 <= len(np.unique(found)) < len(points) and (score := silhouette_score(points, found)) > best:
                best, chosen = float(score), found
        return chosen


@dataclass(frozen=True, eq=False)
class ExternalClusterer:
    """Any clusterer of scikit-learn, or what has its `fit_predict`; a label of -1 is noise."""

    estimator: Any

    def label_points(self, points: Array, k: int, seed: int, client: str) -> Array:
        from sklearn.base import clone

        found = np.asarray(clone(self.estimator).fit_predict(points))
        if found.shape != (len(points),) or found.dtype.kind not in "iu" or found.min() < -1:
            raise InputError(
                f"client {client!r}: {type(self.estimator).__name__} labels {len(points)} points by an "
                f"array of shape {found.shape}, {found.dtype}: one integer of at least -1 a point is needed."
            )
        return found.astype(np.int64)


def kmeans(points: Array, k: int, seed: int, n_init: int) -> Array:
    """Labels (m,) of k-means on floats; distinct points are clusters of their own if they are k or fewer."""
    from sklearn.cluster import KMeans

    distinct, labels = np.unique(points, axis=0, return_inverse=True)
    if len(distinct) <= k:
        return np.asarray(labels.reshape(-1))
    found = run_quietly(KMeans(k, n_init=n_init, random_state=seed).fit_predict, points)
    return np.asarray(found, np.int64)


# --------------------------------------------------------------------------------------------------
# A few steps from given centers (Algorithm 1, line 15): any clusterer that begins at centers will do.


@dataclass(frozen=True)
class ExternalSteps:
    """A clusterer of scikit-learn, or one with its parameters, that begins at given centers.

    estimator: has `fit_predict`, and parameters for the number of clusters and for the centers, called
    `n_clusters` and `init` as in `KMeans`, or `n_components` and `means_init` as in `GaussianMixture`.
    Its own parameters say how many steps it takes.  `refine_labels` gives labels (m,) in [0, k) of points
    (m, d), from centers (k, d) without gaps, k <= m, here and in the others.

    Raises
    ------
    InputError
        For one without such parameters.
    """

    estimator: Any

    def __post_init__(self) -> None:
        if self.parameters is None:
            raise InputError(
                f"{type(self.estimator).__name__} cannot begin at given centers: parameters n_clusters and "
                "init, or n_components and means_init, are needed. Use KMeansSteps(), or a clusterer such as "
                "MiniBatchKMeans(n_init=1)."
            )

    @property
    def parameters(self) -> tuple[str, str] | None:
        """The names of those for the number of clusters and for the centers, None without."""
        known = set(self.estimator.get_params()) if hasattr(self.estimator, "get_params") else set()
        pairs = ("n_clusters", "init"), ("n_components", "means_init")
        return next((pair for pair in pairs if known.issuperset(pair)), None)

    def refine_labels(self, points: Array, centers: Array) -> Array:
        from sklearn.base import clone

        count, begin = cast("tuple[str, str]", self.parameters)
        model = clone(self.estimator).set_params(**{count: len(centers), begin: centers})
        return np.asarray(run_quietly(model.fit_predict, points), np.int64)


@dataclass(frozen=True)
class KMeansSteps:
    """steps of scikit-learn's k-means."""

    steps: int = 3

    def __post_init__(self) -> None:
        positive_integer("steps", self.steps)

    def refine_labels(self, points: Array, centers: Array) -> Array:
        from sklearn.cluster import KMeans

        return ExternalSteps(KMeans(n_init=1, max_iter=self.steps)).refine_labels(points, centers)


@dataclass(frozen=True)
class MedoidSteps:
    """steps of k-medoids in turns: each point to the nearest medoid, then each cluster to its own.

    It begins at the points that are nearest to the centers, as the paper has it.
    """

    steps: int = 3

    def __post_init__(self) -> None:
        positive_integer("steps", self.steps)

    def refine_labels(self, points: Array, centers: Array) -> Array:
        from scipy.spatial.distance import cdist

        medoids = points[cdist(points, centers).argmin(axis=0)]
        for _ in range(self.steps):
            labels = cdist(points, medoids).argmin(axis=1)
            medoids = np.stack([
                find_medoid(points[labels == a]) if (labels == a).any() else medoids[a]
                for a in range(len(medoids))
            ])  # fmt: skip
        return np.asarray(cdist(points, medoids).argmin(axis=1), np.int64)


Refiner = KMeansSteps | MedoidSteps | ExternalSteps


def run_quietly(call: Any, points: Array) -> Any:
    """What a clusterer finds, on one thread, without a word about steps that did not suffice."""
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    # Threads add up partial sums in the order in which they finish; one thread is reproducible.
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return call(points)


def find_mean(points: Array) -> Array:
    """The mean (d,) of points (m, d)."""
    return np.asarray(points.mean(axis=0))


def find_medoid(points: Array, affinity: Affinity = "euclidean") -> Array:
    """The row (d,) of points (m, d) whose distances to all others have the least sum; ties to the first."""
    from sklearn.metrics import pairwise_distances_chunked

    blocks = pairwise_distances_chunked(
        points, reduce_func=lambda apart, _: apart.sum(axis=1), metric=affinity
    )
    return np.asarray(points[int(np.concatenate(list(blocks)).argmin())])


def renumber_labels(labels: Array) -> Array:
    """Labels (m,) with clusters without points left out, numbered from 0 in their order; -1 stays."""
    used = np.unique(labels[labels >= 0])
    return np.where(labels < 0, -1, np.searchsorted(used, labels))


# --------------------------------------------------------------------------------------------------
# Local centroids of all clients side by side, compared on the features that both sides observe.
#
# The paper's equations 2, 3 and 4, as far as they can be meant: as printed, eq. 4 divides a sum of means by
# at most one, which is a sum, and eq. 2 takes extremes over entries that nobody observed.  Here a merged
# centroid is the mean of each coordinate over those who observe it, weighted by rows, and extremes are of
# what was observed.  Cosine distances lie between 0 and 2 on any features, so eq. 2 does not rescale them:
# its vector of least values has no direction where these are 0, as in images.

Affinity = Literal["euclidean", "cosine"]
AFFINITIES = get_args(Affinity)


@dataclass(frozen=True, eq=False, repr=False)
class Centroids:
    """values: (N, d) in data units, NaN where its client does not observe.  weights: rows of each, (N,).

    owner: the number of its client among `clients`, which are in the order of their names, (N,) ascending.
    affinity: how they are compared.
    """

    values: Array
    weights: Array
    owner: Array
    clients: tuple[str, ...]
    affinity: Affinity = "euclidean"

    def __repr__(self) -> str:
        return f"Centroids(N={len(self.values)}, clients={len(self.clients)})"

    @cached_property
    def span(self) -> Array:
        """Eq. 2: largest less smallest value of each feature among these, 0 where there is none, (d,)."""
        seen = ~np.isnan(self.values)
        high = np.where(seen, self.values, -np.inf).max(axis=0)
        low = np.where(seen, self.values, np.inf).min(axis=0)
        return np.where(seen.any(axis=0), high - low, 0.0)

    @cached_property
    def counts(self) -> Array:
        """Local clusters of each client, (n,)."""
        return np.bincount(self.owner, minlength=len(self.clients))

    @cached_property
    def mask(self) -> Array:
        """Whether a client observes a feature: (n, d)."""
        seen = np.zeros((len(self.clients), self.values.shape[1]), bool)
        np.logical_or.at(seen, self.owner, ~np.isnan(self.values))
        return seen

    def of(self, client: int) -> Array:
        """Numbers of the centroids of a client, ascending."""
        return np.flatnonzero(self.owner == client)

    def merged(self, members: Array | Sequence[int]) -> Array:
        """Eq. 4: one centroid of several, (d,)."""
        chosen = np.asarray(members)
        return merge_centroids(self.values[chosen], self.weights[chosen])

    @cached_property
    def apart(self) -> Array:
        """Eq. 3 between all of them: (N, N), NaN where two have no feature in common."""
        return self.compare(self.values, self.values)

    def compare(self, left: Array, right: Array) -> Array:
        """Eq. 3 of rows (A, d) and (B, d): (A, B), NaN where two have no feature in common."""
        if self.affinity == "cosine":
            return common_cosines(left, right)
        return common_distances(left, right, self.span)


def merge_centroids(values: Array, weights: Array) -> Array:
    """The weighted mean of rows (N, d), of each coordinate over those who observe it: (d,), NaN where
    nobody.
    """
    seen = ~np.isnan(values)
    total = (seen * weights[:, None]).sum(axis=0)
    summed = (np.where(seen, values, 0.0) * weights[:, None]).sum(axis=0)
    found: Array = np.divide(summed, total, out=np.full(values.shape[1], np.nan), where=total > 0)
    return found


def common_distances(left: Array, right: Array, span: Array) -> Array:
    """Eq. 3: Euclidean distances of rows (A, d) and (B, d) on common features, over the span there: (A, B).

    NaN where two rows have none in common; 0 where the span there is 0, and all values equal.
    """
    a, b = ~np.isnan(left), ~np.isnan(right)
    # Centered, so that a common shift costs no digits.
    middle = merge_centroids(np.concatenate([left, right]), np.ones(len(left) + len(right)))
    x, y = np.where(a, left - middle, 0.0), np.where(b, right - middle, 0.0)
    squared = np.maximum(x**2 @ b.T + a @ (y**2).T - 2 * x @ y.T, 0)
    scale = (a * span**2) @ b.T
    found: Array = np.sqrt(np.divide(squared, scale, out=np.zeros_like(squared), where=scale > 0))
    found[a.astype(np.int64) @ b.T.astype(np.int64) == 0] = np.nan
    return found


def common_cosines(left: Array, right: Array) -> Array:
    """Cosine distances of rows (A, d) and (B, d) on common features: (A, B) in [0, 2].

    NaN where two rows have none in common; 1 from and to a row of zeros.
    """
    a, b = ~np.isnan(left), ~np.isnan(right)
    x, y = np.where(a, left, 0.0), np.where(b, right, 0.0)
    norms = np.sqrt((x**2 @ b.T) * (a @ (y**2).T))
    found: Array = 1 - np.clip(np.divide(x @ y.T, norms, out=np.zeros_like(norms), where=norms > 0), -1, 1)
    found[a.astype(np.int64) @ b.T.astype(np.int64) == 0] = np.nan
    return found


def point_outwards(rows: Array) -> Array:
    """Rows (m, d) of length one, so that squared distances are twice cosine distances; zeros stay."""
    norms = np.sqrt((rows**2).sum(axis=1, keepdims=True))
    return np.asarray(np.divide(rows, norms, out=np.zeros_like(rows, dtype=float), where=norms > 0))
