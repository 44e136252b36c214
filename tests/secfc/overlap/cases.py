"""Small federations whose clients observe different features."""

from dataclasses import dataclass

import numpy as np

import secfc
from secfc.overlap.local import LocalKMeans
from secfc.overlap.starts import MatchedGroups

NAMES = tuple("abcdefghijklmnop")
CHAIN = ((0, 1), (1, 2), (2, 3), (3, 4))
COMMON = ((0, 1, 2), (0, 1, 3), (0, 1, 4), (0, 1, 5))
SAME = ((0, 1, 2),) * 4


def hold_columns(parts, observed, **more):
    """Clients with named columns."""
    return secfc.Federation.from_arrays(parts, features=[[NAMES[f] for f in own] for own in observed], **more)


def clusters(observed, k, rows, rng, spread=1.0, apart=20.0):
    """Whole-numbered rows of k Gaussians on what each client observes, and their classes."""
    d = 1 + max(f for own in observed for f in own)
    means = apart * rng.permutation(np.arange(k * d)).reshape(k, d)
    truth = [rng.permutation(np.arange(rows) % k) for _ in observed]
    parts = [
        np.rint(means[own] + spread * rng.normal(size=(rows, d)))[:, list(seen)]
        for own, seen in zip(truth, observed, strict=True)
    ]
    return parts, truth


@dataclass(frozen=True)
class Blocks:
    """A client's points in k runs of rows, whatever they are."""

    def label_points(self, points, k, seed, client):
        return np.arange(len(points)) * min(k, len(points)) // len(points)


@dataclass(frozen=True)
class Turned:
    """The local clusters of client j, one client after another, are clusters a + j."""

    local: object = Blocks()

    def group_centroids(self, found, k):
        within = np.arange(len(found.values)) - np.searchsorted(found.owner, found.owner)
        return MatchedGroups((within + found.owner) % k)


KMEANS = LocalKMeans()
