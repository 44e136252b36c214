"""Choosing k on the weighted, projected points of the server: free, as these are public or noisy already.

The authors' answer to their reviewers: Algorithm 1 up to line 16 with a large number of directions, then
line 17 for k = 1, 2, ..., and the elbow of the costs (`secfc.lloyd.elbow`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from secfc.feddp.estimates import Proxies, weighted_kmeans
from secfc.lloyd.elbow import Elbow, elbow, falling

__all__ = ["Elbow", "costs_by_k", "elbow"]

Array = NDArray[Any]


def costs_by_k(proxies: Proxies, most: int, seed: int) -> Array:
    """Weighted k-means costs (most,) of the projected proxies for k = 1, ..., most."""
    runs = (weighted_kmeans(proxies.projected, proxies.weights, k, seed) for k in range(1, most + 1))
    return np.array(falling([cost for _, _, cost in runs]))
