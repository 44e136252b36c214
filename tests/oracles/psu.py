"""The arithmetic of `psu.kernels` in Python integers, with the prime a parameter: slow, obviously right.

Over a prime of one digit every claim about what an opening shows can be checked by enumeration.
"""

from __future__ import annotations

from collections.abc import Sequence

Vector = tuple[int, ...]


def gram(ids: Sequence[tuple[int, int]], coefficients: Sequence[int], p: int) -> Vector:
    """The cell sum_x R_x u_x u_x^T, u_x = (1, z, y), as its entries (00, 01, 02, 11, 12, 22)."""
    cell = [0] * 6
    for (z, y), r in zip(ids, coefficients, strict=True):
        for j, entry in enumerate((1, z, y, z * z, z * y, y * y)):
            cell[j] = (cell[j] + r * entry) % p
    return tuple(cell)


def matrix(cell: Vector) -> list[list[int]]:
    """The symmetric 3 x 3 matrix of a cell."""
    a, b, c, d, e, f = cell
    return [[a, b, c], [b, d, e], [c, e, f]]


def opened(cell: Vector, g: Vector, p: int) -> Vector:
    """What the opening of a cell shows for the secret vector g: g^T M."""
    rows = matrix(cell)
    return tuple(sum(g[i] * rows[i][j] for i in range(3)) % p for j in range(3))


def determinant(cell: Vector, p: int) -> int:
    """Zero if the cell is singular: always for fewer than three IDs, with probability about 1/p for more."""
    (a, b, c), (_, d, e), (_, _, f) = matrix(cell)
    return (a * (d * f - e * e) - b * (b * f - c * e) + c * (b * e - c * d)) % p


def share(secret: int, pads: Vector, holders: Sequence[int], member: int, p: int) -> int:
    """A member's share: its own pad, or the value at its point of the polynomial through all pads.

    holders: the t members with the pads, numbered from 0 like `member`; points are one higher.
    """
    if member in holders:
        return pads[list(holders).index(member)]
    xs, values = [0, *(h + 1 for h in holders)], [secret, *pads]
    total = 0
    for i, x in enumerate(xs):
        top = bottom = 1
        for j, other in enumerate(xs):
            if i != j:
                top, bottom = top * (member + 1 - other) % p, bottom * (x - other) % p
        total += values[i] * top * pow(bottom, -1, p)
    return total % p


def spread(prints: Sequence[int], coefficients: Sequence[int], p: int) -> int:
    """s0 s2 - s1^2 for holders with fingerprints f and coefficients r: zero if all f agree."""
    s0, s1, s2 = 0, 0, 0
    for r, f in zip(coefficients, prints, strict=True):
        s0, s1, s2 = s0 + r, s1 + r * f, s2 + r * f * f
    return (s0 * s2 - s1 * s1) % p


def excess(counts: Sequence[int], weights: Sequence[int], p: int) -> int:
    """sum_x e[x] (c_x - 1): zero if every row x has one holder."""
    return sum(e * (c - 1) for c, e in zip(counts, weights, strict=True)) % p
