"""Agglomeration of local clusters, no two of one client into one group."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secfc.overlap.centroids import Centroids
from secfc.overlap.local import Local, LocalKMeans
from secfc.overlap.starts.grouping import Groups, check_enough, leftovers, to_groups
from secfc.roles.description import LOCAL

Array = NDArray[Any]


@dataclass(frozen=True)
class Constrained:
    """Every local cluster is a group; the two nearest groups without a client in common are merged until k
    are left.  If no two can be merged before, the k groups of most rows stay, and others join the nearest of
    these.

    Right where a client's local clusters are of different global ones, also if it has fewer than k.
    """

    local: Local = field(default=LocalKMeans(), metadata=LOCAL)

    def groups(self, found: Centroids, k: int) -> Groups:
        check_enough(found, k)
        count = len(found.values)
        labels, alive = np.arange(count), np.ones(count, bool)
        centers = found.values.copy()
        has = np.zeros((count, len(found.clients)), bool)
        has[np.arange(count), found.owner] = True

        def near(g: int) -> Array:
            row: Array = to_groups(found, centers[g][None], centers)[0]
            row[~alive | (has & has[g]).any(axis=1)] = np.inf
            row[g] = np.inf
            return row

        apart = np.where(np.isnan(found.apart), np.inf, found.apart)
        apart[found.owner[:, None] == found.owner] = np.inf
        while alive.sum() > k:
            a, b = np.unravel_index(int(apart.argmin()), apart.shape)
            if not np.isfinite(apart[a, b]):
                break
            labels[labels == b], alive[b] = a, False
            has[a] |= has[b]
            centers[a] = found.merged(np.flatnonzero(labels == a))
            apart[b], apart[:, b] = np.inf, np.inf
            apart[a] = apart[:, a] = near(int(a))
        return Groups(*kept(found, labels, centers, np.flatnonzero(alive), k))


def kept(
    found: Centroids, labels: Array, centers: Array, groups: Array, k: int
) -> tuple[Array, tuple[str, ...]]:
    """Labels in [-1, k) by the k groups of most rows; others join the nearest of these, and words about them.

    labels (N,): numbers of groups.  centers: by number.  Ties to the lowest number.
    """
    rows = np.bincount(labels[labels >= 0], found.weights[labels >= 0], minlength=len(found.values))[groups]
    best = np.sort(groups[np.argsort(-rows, kind="stable")[:k]])
    place = np.full(len(found.values), -1)
    place[best] = range(len(best))
    said: tuple[str, ...] = ()
    rest = [g for g in groups.tolist() if place[g] < 0]
    if rest:
        near = to_groups(found, centers[rest], centers[best])
        place[rest] = np.where(np.isfinite(near.min(axis=1)), near.argmin(axis=1), -1)
        said = (f"{len(rest)} groups of local clusters were left over, and joined the nearest of {k}",)
    result = np.where(labels < 0, -1, place[labels])
    return result, said + leftovers(found, result, "they have no feature in common with any")
