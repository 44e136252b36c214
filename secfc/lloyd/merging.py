"""What merging clusters one after another says of how many there are: costs, and silhouettes."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.ring.exact import Exact
from secfc.lloyd.elbow import Curve, Elbow, largest
from secfc.lloyd.loop import Weighed, cost_of

Array = NDArray[Any]
Merges = Sequence[tuple[int, int, Fraction]]  # cluster a, b that becomes part of it, and what that costs

BLOCK = 1 << 16  # points at a time


def curve_of(steps: Merges, weighed: Weighed, labels: Array, sizes: Array, elbow: Elbow) -> Curve:
    """The costs of 1 to `most` clusters, in integer units, merged of clusters of these sizes (c,).

    Of more than c clusters as of c: there are no more.
    """
    most, costs = largest(elbow), [cost_of(weighed.within, sizes)]
    for _, _, lost in steps:
        costs.append(costs[-1] + lost)
    costs.reverse()
    wide = (*costs[:most], *costs[-1:] * (most - len(costs)))
    shown = weighed.distances
    return Curve(wide, elbow.least, () if shown is None else silhouettes(shown, labels, sizes, steps, most))


def silhouettes(scaled: Exact, labels: Array, sizes: Array, steps: Merges, most: int) -> tuple[float, ...]:
    """Simplified silhouettes of 2 to `most` clusters, see `Curve`, from distances (c, m) to c of them.

    For a that b became part of, a point is (s_a D_a + s_b D_b - loss) / (s_a + s_b) from its center, squared.
    """
    totals, m = np.zeros(max(min(most, len(sizes)) + 1, 2)), len(labels)
    for first in range(0, m, BLOCK):
        block = slice(first, min(first + BLOCK, m))
        part = Exact(scaled.high[:, block], scaled.low[:, block])
        squared = part.floats() / sizes[:, None].astype(float) ** 2
        own, count = labels[block].copy(), sizes.astype(float)
        left = len(sizes)
        for a, b, lost in steps:
            if left < len(totals):
                totals[left] += _silhouette(squared, own)
            together = count[a] + count[b]
            both = (count[a] * squared[a] + count[b] * squared[b] - float(lost)) / together
            squared[a] = np.maximum(both, 0)
            squared[b], count[a] = np.inf, together
            own[own == b] = a
            left -= 1
    return tuple((totals[2:] / m).tolist())


def _silhouette(squared: Array, own: Array) -> float:
    """The sum of (b - a) / max(a, b) over points, of squared distances (c, points) to their centers."""
    points = np.arange(len(own))
    near = np.sqrt(squared[own, points])
    others = squared.copy()
    others[own, points] = np.inf
    far = np.sqrt(others.min(axis=0))
    wider = np.maximum(near, far)
    return float(((far - near) / np.where(wider > 0, wider, 1)).sum())
