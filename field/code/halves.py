"""Clusters in two halves each: what coded rows say of them, for a start that splits clusters.

Labels (m,) in [0, 2 c) are of halves: cluster h has the halves 2 h and 2 h + 1, with sums S_a and S_b and
sizes a and b.  A row x is measured to the halves of its own cluster only: D_a = ||S_a - a x||**2, and D_b.
"""

from __future__ import annotations

import math
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


def gaps(rows: CodedRows, sums: ClusterSums, lanes: int) -> Array:
    """Coded (b / g)**2 D_a - (a / g)**2 D_b of every row, g = gcd(a, b): (lanes, m) residues.

    Above 0 where half b is strictly nearer, whatever the sizes, and 0 if a half is empty.  Neither term
    exceeds the distances to a cluster of lcm(a, b) points (`widest`).  The squares of rows cancel:

        (b**2 ||S_a||**2 - a**2 ||S_b||**2) / g**2 - 2 a b / g**2 (b S_a - a S_b) . x
    """
    basis, c = rows.basis.prefix(lanes), len(sums.sizes) // 2
    pairs = [(a, b, math.gcd(a, b) or 1) for a, b in sums.sizes.reshape(-1, 2).tolist()]
    near, far, twice = basis.reduce(
        np.array([[(b // g) ** 2, -((a // g) ** 2), -2 * (a // g) * (b // g)] for a, b, g in pairs], object).T
    ).transpose(1, 0, 2)
    squares = basis.squares(rows.residues(sums)[:lanes])
    initial = basis.add(basis.multiply(near, squares[:, ::2]), basis.multiply(far, squares[:, 1::2]))
    factors = basis.multiply(_crossed(rows, sums, lanes, *halves_of(c)), twice[:, :, None])
    values = rows.products(factors, initial)
    return values[:, sums.labels // 2, np.arange(rows.m)] if c > 1 else values[:, 0]


def widest(sizes: Array) -> int:
    """lcm(a, b) of the cluster where that is largest; 0 if none has points in both halves."""
    return max((math.lcm(a, b) for a, b in sizes.reshape(-1, 2).tolist()), default=0)


def between(rows: CodedRows, sums: ClusterSums, firsts: Array, seconds: Array) -> Array:
    """Coded ||b S_a - a S_b||**2 of pairs, of each its first and its second: (lanes, pairs) residues.

    Halves of a cluster, or any two clusters.  a**2 b**2 times the squared distance of their means; 0 if one
    is empty.
    """
    return rows.basis.squares(_crossed(rows, sums, rows.basis.lanes, firsts, seconds))


def halves_of(c: int) -> tuple[Array, Array]:
    """The first half of every cluster, and the second: (c,) each."""
    return np.arange(0, 2 * c, 2), np.arange(1, 2 * c, 2)


def _crossed(rows: CodedRows, sums: ClusterSums, lanes: int, firsts: Array, seconds: Array) -> Array:
    """Coded b S_a - a S_b of pairs: (lanes, pairs, width) residues."""
    basis, values = rows.basis.prefix(lanes), rows.residues(sums)[:lanes]
    sizes = basis.reduce(sums.sizes)[:, :, None]
    return basis.add(
        basis.multiply(values[:, firsts], sizes[:, seconds]),
        basis.negate(basis.multiply(values[:, seconds], sizes[:, firsts])),
    )
