"""How a client clusters its own points, for a start: values with one method.

A site chooses its own: nothing of it is compared with other parties, and only the number of its local
clusters shows.  Labels are integers from 0, -1 for a point of no cluster.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from secfc.data.inputs import InputError, positive_integer

Array = NDArray[Any]


class Local(Protocol):
    """A way to cluster the points of one client."""

    def labels(self, points: Array, k: int, seed: int, client: str) -> Array:
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

    def labels(self, points: Array, k: int, seed: int, client: str) -> Array:
        own = self.k.get(client, k) if isinstance(self.k, Mapping) else self.k
        return kmeans(points, k if own is None else own, seed, self.n_init)


@dataclass(frozen=True)
class Silhouette:
    """The number of local clusters, from 2 to k, whose k-means has the largest silhouette (Rousseeuw, 1986).

    One cluster has no silhouette, so a client never finds that it has only one.
    """

    n_init: int = 3

    def labels(self, points: Array, k: int, seed: int, client: str) -> Array:
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

    def labels(self, points: Array, k: int, seed: int, client: str) -> Array:
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
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    distinct, labels = np.unique(points, axis=0, return_inverse=True)
    if len(distinct) <= k:
        return np.asarray(labels.reshape(-1))
    # Threads add up partial sums in the order in which they finish; one thread is reproducible.
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = KMeans(k, n_init=n_init, random_state=seed).fit(points).labels_
    return np.asarray(found, np.int64)


def renumber_labels(labels: Array) -> Array:
    """Labels (m,) with clusters without points left out, numbered from 0 in their order; -1 stays."""
    used = np.unique(labels[labels >= 0])
    return np.where(labels < 0, -1, np.searchsorted(used, labels))
