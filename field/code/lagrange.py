"""The matrix that carries the values of a polynomial at some points to its values at others.

Lagrange interpolation, SecFC eq. (2): a polynomial of degree below len(xs) is fixed by its values at xs,
and its value at y is sum_u f(x_u) prod_{v != u} (y - x_v) / (x_u - x_v).  Encoding, decoding and the
repair of lost shares are this one matrix at different points.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.ring.basis import Basis

Array = NDArray[Any]


def inverses(values: list[int], p: int) -> list[int]:
    """Inverses modulo p with a single modular inversion (Montgomery's trick, Math. Comp. 48, 1987).

    Raises ValueError if a value is zero modulo p.
    """
    prefix = [1]
    for value in values:
        prefix.append(prefix[-1] * value % p)
    inverse = pow(prefix[-1], -1, p)
    out = [0] * len(values)
    for i in range(len(values) - 1, -1, -1):
        out[i] = inverse * prefix[i] % p
        inverse = inverse * values[i] % p
    return out


@lru_cache(maxsize=1024)
def barycentric(xs: tuple[int, ...], p: int) -> tuple[int, ...]:
    """1 / prod_{v != u} (x_u - x_v) modulo p for every u; xs are distinct modulo p."""
    products = []
    for x in xs:
        product = 1
        for other in xs:
            if other != x:
                product = product * (x - other) % p
        products.append(product)
    return tuple(inverses(products, p))


def transfer(xs: tuple[int, ...], ys: tuple[int, ...], p: int) -> list[list[int]]:
    """Rows of the matrix that carries values at xs to values at ys modulo p: len(ys) x len(xs).

    xs are distinct modulo p.  A y that is among the xs gets a unit row.
    """
    # The entry is w_u L(y) / (y - x_u), w the barycentric weights and L(y) = prod_v (y - x_v).
    weights = barycentric(xs, p)
    rows = []
    for y in ys:
        if any((y - x) % p == 0 for x in xs):
            rows.append([int((y - x) % p == 0) for x in xs])
            continue
        gaps = inverses([(y - x) % p for x in xs], p)
        full = 1
        for x in xs:
            full = full * (y - x) % p
        rows.append([full * w * g % p for w, g in zip(weights, gaps, strict=True)])
    return rows


@lru_cache(maxsize=256)
def transfer_matrix(basis: Basis, xs: tuple[int, ...], ys: tuple[int, ...]) -> Array:
    """The same matrix in every lane: (lanes, len(ys), len(xs)) canonical residues, read-only."""
    matrix = np.array([transfer(xs, ys, p) for p in basis.primes], basis.dtype)
    matrix.setflags(write=False)
    return matrix
