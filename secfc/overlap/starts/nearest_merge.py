"""Method A: the nearest local centroid joins, one after another (Maritan and Schenato, section 4.1.2)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from secfc.overlap.centroids import Centroids
from secfc.overlap.local import Local, LocalKMeans
from secfc.overlap.starts.grouping import Groups, check_enough, farthest, leftovers, to_groups
from secfc.roles.description import LOCAL


@dataclass(frozen=True)
class NearestMerge:
    """Groups begin at the client with most local clusters; then, again and again, the nearest pair of a
    group and a centroid is merged, no two of one client into one group.

    Meant for clusters that have the same distribution at all clients (Assumption 1).  Corrected: line 6 stops
    at 0 and line 18 reads the merged group.  Where no client has k clusters, the farthest centroids are
    added; `Constrained` is better there.
    """

    local: Local = field(default=LocalKMeans(), metadata=LOCAL)

    def groups(self, found: Centroids, k: int) -> Groups:
        check_enough(found, k)
        # The first in the order of names wins ties.
        seeds = farthest(found, found.of(int(found.counts.argmax())).tolist()[:k], k)
        labels = np.full(len(found.values), -1)
        labels[seeds] = range(k)
        taken = np.zeros((len(found.clients), k), bool)
        taken[found.owner[seeds], labels[seeds]] = True
        apart = to_groups(found, found.values, found.values[seeds])
        while (labels < 0).any():
            open_ = (labels < 0)[:, None] & ~taken[found.owner]
            near = np.where(open_, apart, np.inf)
            z, g = np.unravel_index(int(near.argmin()), near.shape)
            if not np.isfinite(near[z, g]):
                break
            labels[z] = g
            taken[found.owner[z], g] = True
            center = found.merged(np.flatnonzero(labels == g))
            apart[:, g] = to_groups(found, found.values, center[None])[:, 0]
        why = "each has no feature in common with a cluster that holds none of its client's yet"
        return Groups(labels, leftovers(found, labels, why))
