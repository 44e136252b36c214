"""Clusters in two halves each: what coded rows say of them, for a start that splits clusters.

Labels (m,) in [0, 2 c) are of halves: cluster h has the halves 2 h and 2 h + 1, with sums S_a and S_b and
sizes a and b.  A row x is measured to the halves of its own cluster only: D_a = ||S_a - a x||**2, and D_b.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.code.rows import ClusterSums, CodedRows

Array = NDArray[Any]


def own(rows: CodedRows, sums: ClusterSums, lanes: int) -> Array:
    """Coded D_a and D_b of every row: (lanes, 2, m) residues."""
    values = rows.distances(sums, lanes)
    first = sums.labels // 2 * 2
    nearby = np.take_along_axis(values, np.stack([first, first + 1])[None].astype(np.intp), axis=1)
    return np.ascontiguousarray(nearby)


def balanced(rows: CodedRows, sums: ClusterSums, lanes: int) -> Array:
    """Coded (b / g)**2 D_a and (a / g)**2 D_b of every row, g = gcd(a, b): (lanes, 2, m) residues.

    The nearer half has the smaller one, whatever the sizes, and none exceeds (`widest`) that of a cluster of
    lcm(a, b) points.  Both are 0 if a half is empty.
    """
    basis = rows.basis.prefix(lanes)
    pairs = [(a, b, math.gcd(a, b) or 1) for a, b in sums.sizes.reshape(-1, 2).tolist()]
    weights = np.array([[(b // g) ** 2 for _, b, g in pairs], [(a // g) ** 2 for a, _, g in pairs]])
    return basis.multiply(own(rows, sums, lanes), basis.reduce(weights)[:, :, sums.labels // 2])


def widest(sizes: Array) -> int:
    """lcm(a, b) of the cluster where that is largest; 0 if none has points in both halves."""
    return max((math.lcm(a, b) for a, b in sizes.reshape(-1, 2).tolist()), default=0)


def between(rows: CodedRows, sums: ClusterSums) -> Array:
    """Coded ||b S_a - a S_b||**2 of every cluster: (lanes, c) residues.

    a**2 b**2 times the squared distance of the halves' means; 0 if one is empty.
    """
    basis, values = rows.basis, rows.residues(sums)
    sizes = basis.reduce(sums.sizes)[:, :, None]
    gaps = basis.add(
        basis.multiply(values[:, ::2], sizes[:, 1::2]),
        basis.negate(basis.multiply(values[:, 1::2], sizes[:, ::2])),
    )
    return reduce(basis.add, np.moveaxis(basis.multiply(gaps, gaps), 2, 0))
