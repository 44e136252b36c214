"""Local centroids of all clients side by side, compared on the features that both sides observe.

The paper's equations 2, 3 and 4, as far as they can be meant: as printed, eq. 4 divides a sum of means by at
most one, which is a sum, and eq. 2 takes extremes over entries that nobody observed.  Here a merged centroid
is the mean of each coordinate over those who observe it, weighted by rows, and extremes are of what was
observed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.cached import cached_property

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Centroids:
    """values: (N, d) in data units, NaN where its client does not observe.  weights: rows of each, (N,).

    owner: the number of its client among `clients`, which are in the order of their names, (N,) ascending.
    """

    values: Array
    weights: Array
    owner: Array
    clients: tuple[str, ...]

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
        return common_distances(self.values, self.values, self.span)


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
