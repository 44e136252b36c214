"""Method B: the farthest local centroids, then k-means of centroids (Maritan and Schenato, section 4.1.2)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from secfc.overlap.centroids import Centroids
from secfc.overlap.local import Local, LocalKMeans
from secfc.overlap.starts.grouping import Groups, check_enough, farthest, leftovers, to_groups
from secfc.roles.description import LOCAL


@dataclass(frozen=True)
class MaxMin:
    """Starts from the two centroids that are farthest apart; k - 2 more follow, each farthest from the
    nearest.

    Meant for clients all of which share features (Assumption 2).  Distances on different overlaps are
    rescaled (eq. 3), but not comparable enough: the two farthest are often not of two clusters (see the
    measurements). An empty group keeps its last centroid.  max_iter: steps of the k-means of centroids.
    """

    local: Local = field(default=LocalKMeans(), metadata=LOCAL)
    max_iter: int = 100

    def groups(self, found: Centroids, k: int) -> Groups:
        check_enough(found, k)
        apart = np.where(np.isnan(found.apart), -1.0, found.apart)
        first = list(divmod(int(apart.argmax()), len(apart)))
        if first[0] == first[1]:
            first = [0, 1]  # all are equal, or have nothing in common
        centers = found.values[farthest(found, first[:k], k)]
        labels = np.full(len(found.values), -1)
        for _ in range(self.max_iter):
            near = to_groups(found, found.values, centers)
            new = np.where(np.isfinite(near.min(axis=1)), near.argmin(axis=1), -1)
            if (new == labels).all():
                break
            labels = new
            centers = np.stack(
                [
                    found.merged(own) if len(own := np.flatnonzero(labels == h)) else centers[h]
                    for h in range(k)
                ]
            )
        return Groups(labels, leftovers(found, labels, "they have no feature in common with any"))
