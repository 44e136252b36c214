"""What a client tells of its local clusters beside their means, and points that are drawn from it (section
5.2).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def factor(points: Array) -> Array:
    """Rows (r, d) whose Gram matrix is the covariance of points (m, d), r = d; also for fewer points than
    features.

    It follows from the covariance alone, by its eigenvectors: no row of the data is in it, and no matrix is
    inverted.
    """
    centered = points - points.mean(axis=0)
    values, vectors = np.linalg.eigh(centered.T @ centered / len(points))
    found: Array = np.sqrt(np.maximum(values, 0))[:, None] * vectors.T
    return found


def drawn(mean: Array, factors: Array, variance: Array, box: Array, many: int, rng: Any) -> Array:
    """Points (M, d) of a Gaussian: of its covariance if factors (r, d) are given, else of variances (d,).

    box: (2, d), where they are moved to, or (0, d).
    """
    if len(factors):
        found = mean + rng.standard_normal((many, len(factors))) @ factors
    else:
        found = mean + rng.standard_normal((many, len(mean))) * np.sqrt(variance)
    return np.asarray(np.clip(found, box[0], box[1]) if len(box) else found)
