"""Clients matched one to one: local clusters of a client are of different global ones, so whole clients are
matched.

Both ways, the tree and `spectral`, compare distances only on what one client shares with others, so nothing
must be rescaled.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from secfc.data.inputs import InputError
from secfc.overlap.centroids import Centroids
from secfc.overlap.local import Local, LocalKMeans
from secfc.overlap.starts.grouping import Groups, check_enough, leftovers, to_groups
from secfc.overlap.starts.spectral import spectral
from secfc.roles.description import LOCAL

FAR = 1e3  # in place of a distance that is not known: rescaled ones are about 1 at most


@dataclass(frozen=True)
class Synchronized:
    """Along the tree of largest overlap: begin at the client with most local clusters (ties by name); next is
    always the client that shares most features with those placed, its local clusters matched one to one to
    the groups so far by the Hungarian method, and merged into them.

    over="distances": the server is shown no centroid and no number of rows, but squared distances between
    local centroids of different clients on the features that both observe, which members of the committee
    compute over shares; all pairs of clients are matched, and what these matchings agree on counts
    (`spectral`).  It takes 2 t + 1 members of the committee.

    Some client must have k local clusters; `Constrained` needs none that has.

    Raises InputError for another word.
    """

    local: Local = field(default=LocalKMeans(), metadata=LOCAL)
    over: Literal["centroids", "distances"] = "centroids"

    def __post_init__(self) -> None:
        if self.over not in ("centroids", "distances"):
            raise InputError(
                f"over={self.over!r}: clients are matched by what the server sees, 'centroids' or 'distances'"
            )

    def groups(self, found: Any, k: int) -> Groups:
        check_enough(found, k)
        check_some_client(found, k)
        if self.over == "distances":
            return Groups(spectral(found.squared, found.owner, k))
        return along_the_tree(found, k)


def along_the_tree(found: Centroids, k: int) -> Groups:
    """Clients one after another, matched to those before."""
    from scipy.optimize import linear_sum_assignment

    first = int(found.counts.argmax())
    labels = np.full(len(found.values), -1)
    labels[found.of(first)] = range(k)
    centers = found.values[found.of(first)].copy()
    placed, seen = {first}, found.mask[first].copy()
    while len(placed) < len(found.clients):
        overlap = [-1 if j in placed else int((own & seen).sum()) for j, own in enumerate(found.mask)]
        client = int(np.argmax(overlap))
        if overlap[client] <= 0:
            break
        own = found.of(client)
        apart = np.minimum(to_groups(found, found.values[own], centers), FAR)
        rows, groups = linear_sum_assignment(apart)
        labels[own[rows]] = groups
        for g in groups:
            centers[g] = found.merged(np.flatnonzero(labels == g))
        placed.add(client)
        seen |= found.mask[client]
    why = "their client shares no feature with any that was placed, or has more than k"
    return Groups(labels, leftovers(found, labels, why))


def check_some_client(found: Any, k: int) -> None:
    """Raises InputError if no client has k local clusters, so that none could be matched to all others."""
    if found.counts.max() < k:
        raise InputError(
            f"no client has k={k} local clusters (the most is {found.counts.max()}), so clients cannot be "
            "matched one to one: use Constrained(), which merges what clients have, or let clients look for "
            "more."
        )
