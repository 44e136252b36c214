"""The kernels' twins: the same functions through Python integers, fractions and galois.

Slow and obviously right.  Tests compare every kernel with these; nothing else uses them.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def matmul(matrix: Array, columns: Array, primes: Sequence[int]) -> Array:
    """(lanes, r, q) times (lanes, q, N) modulo each prime, by Python integers: object array."""
    return np.stack(
        [a.astype(object) @ b.astype(object) % p for a, b, p in zip(matrix, columns, primes, strict=True)]
    )


def galois_matmul(matrix: Array, columns: Array, p: int) -> Array:
    """One lane of the same product by galois."""
    field = galois_field(p)
    return np.asarray(field(matrix.astype(object)) @ field(columns.astype(object)), object)


def galois_transfer(xs: Sequence[int], ys: Sequence[int], p: int) -> list[list[int]]:
    """The matrix of `lagrange.transfer`: column u interpolates the u-th unit vector, by galois."""
    import galois

    field = galois_field(p)
    columns = []
    for u in range(len(xs)):
        unit = field([int(i == u) for i in range(len(xs))])
        columns.append([int(v) for v in galois.lagrange_poly(field(list(xs)), unit)(field(list(ys)))])
    return [list(row) for row in zip(*columns, strict=True)]


def galois_field(p: int) -> Any:
    """galois.GF(p), with the primitive element given for 2**61 - 1 to spare a long search."""
    import galois

    if p == 2**61 - 1:
        return galois.GF(p, primitive_element=37, verify=False)
    return galois.GF(p)


def scaled_distances(points: Array, labels: Array, k: int) -> Array:
    """||S_h - s_h x_i||**2 over the integers: (k, m) Python integers; label -1 is no cluster."""
    rows = points.astype(object)
    out = np.zeros((k, len(rows)), object)
    for h in range(k):
        members = rows[labels == h]
        center = members.sum(axis=0) if len(members) else rows[0] * 0
        out[h] = ((center - len(members) * rows) ** 2).sum(axis=1)
    return out


def nearest(scaled: Array, sizes: Sequence[int]) -> list[int]:
    """The center with the least scaled / size**2 by fractions; lowest index on ties, none if empty."""
    labels = []
    for column in scaled.T:
        ratios = [
            (Fraction(int(value), int(size) ** 2), h)
            for h, (value, size) in enumerate(zip(column, sizes, strict=True))
            if size
        ]
        labels.append(min(ratios)[1] if ratios else -1)
    return labels


def separated(scaled: Array, sizes: Sequence[int], factor: int) -> list[int]:
    """The center whose factor-fold squared distance is at most every other's, or -1, by fractions."""
    labels = []
    for column in scaled.T:
        ratios = {
            h: Fraction(int(value), int(size) ** 2)
            for h, (value, size) in enumerate(zip(column, sizes, strict=True))
            if size
        }
        cores = [
            h for h, r in ratios.items() if all(factor * r <= other for g, other in ratios.items() if g != h)
        ]
        labels.append(cores[0] if cores else -1)
    return labels


def lift(residues: Array, primes: Sequence[int]) -> Array:
    """The Chinese remainder theorem by its formula: Python integers in [0, product)."""
    modulus = 1
    for p in primes:
        modulus *= p
    total = np.zeros(residues.shape[1:], object)
    for lane, p in zip(residues, primes, strict=True):
        rest = modulus // p
        total = total + lane.astype(object) * (rest * pow(rest, -1, p))
    return np.asarray(total % modulus)
