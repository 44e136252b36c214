"""Centers on a grid of 2**-q steps: what is computed where centers are rounded, and the room it takes.

A rounded center c stands for 2**q equal points that sum up to c, so everything that is computed from sums and
sizes of clusters is computed from c and 2**q as well: 2**q times a point and c are at most 2**q eta in
absolute value, whatever the size of the cluster.  Of all points of the grid none is nearer to the points of a
cluster, so the cost never rises from step to step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.ring.quantize import distance_bound

Array = NDArray[Any]

# q: a sixteenth of a step of the data.
FRACTION = 4


def reach(largest: int, fraction: int, multiple: int = 1) -> int:
    """The largest rounded center of rows up to `largest`, `multiple` times their data, in absolute value."""
    return -((-largest << fraction) // multiple)


def needed(size: int, largest: int, fraction: int, multiple: int = 1) -> int:
    """What the modulus must exceed to round the center of `size` rows up to `largest`.

    The largest numerator of `field.compare.rounding`.
    """
    offset = size * multiple + 2 * size * multiple * reach(largest, fraction, multiple)
    return (size * largest << (fraction + 1)) + offset


def rounded_needs(d: int, size: int, largest: int, multiple: int = 1, factor: int = 1) -> int:
    """What the modulus must exceed to round centers of clusters of up to `size` rows, and to compare
    distances of d features to them by a factor."""
    compared = 2 * factor * distance_bound(d, largest, 1 << FRACTION)
    return max(compared, needed(size, largest, FRACTION, multiple))


def cost_needs(d: int, size: int, largest: int) -> int:
    """What the modulus must exceed to open what clusters of up to `size` honest rows cost."""
    return size * distance_bound(d, largest, 1 << FRACTION)


def rounded(sums: Array, sizes: Array, fraction: int) -> Array:
    """The nearest point of the grid to every mean, in its steps: (k, d) int64, zeros for empty clusters.

    sums: (k, d) integers of any size, of means below 2**(62 - fraction), as all of quantized points are.
    sizes: (k,) points.  Ties go up, of either sign.
    """
    over = 2 * np.maximum(sizes, 1).astype(object)[:, None]
    centers = ((sums.astype(object) << (fraction + 1)) + over // 2) // over
    return np.where(sizes[:, None] > 0, centers, 0).astype(np.int64)


def weights(sizes: Array, fraction: int) -> Array:
    """How many points a rounded center stands for: 2**q, 0 for clusters without points, (k,) int64."""
    return np.where(np.asarray(sizes) > 0, 1 << fraction, 0).astype(np.int64)
