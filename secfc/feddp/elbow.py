"""Choosing k on the weighted, projected points of the server: free, as these are public or noisy already.

The authors' answer to their reviewers: Algorithm 1 up to line 16 with a large number of directions, then
line 17 for k = 1, 2, ..., and the elbow of the costs (Thorndike, 1953).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secfc.feddp.estimates import Proxies, weighted_kmeans

Array = NDArray[Any]


@dataclass(frozen=True)
class Elbow:
    """In place of k: the elbow among 1 to `most` clusters, `most` of them being enough directions too."""

    most: int

    def __post_init__(self) -> None:
        if self.most < 3:
            raise ValueError(f"most={self.most}: an elbow needs at least three candidates")


def costs_by_k(proxies: Proxies, most: int, seed: int) -> Array:
    """Weighted k-means costs (most,) of the projected proxies for k = 1, ..., most."""
    found = np.array(
        [weighted_kmeans(proxies.projected, proxies.weights, k, seed)[2] for k in range(1, most + 1)]
    )
    # A restart may miss what a smaller k found; more clusters never cost more.
    return np.minimum.accumulate(found)


def elbow(costs: Array) -> int:
    """The k whose cost lies farthest below the line from the first cost to the last: in [1, len(costs)]."""
    costs = np.asarray(costs, np.float64)
    if costs[0] <= costs[-1]:
        return 1
    position = np.linspace(0.0, 1.0, len(costs))
    height = (costs - costs[-1]) / (costs[0] - costs[-1])
    return int(np.argmax(1.0 - position - height)) + 1
