"""Clipping on the integers: exact, enforced, and never in place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# Below this, products of two entries or of an entry and the bound fit an int64.
_HALF = 2**31


def clip(vectors: Array, bound: int) -> tuple[Array, Array]:
    """Integer vectors (m, d) shortened to L2 norm <= bound, int64, and which were (m,) bool.

    A longer vector x becomes trunc(x bound / r) with r = ceil(||x||), so no rounding can exceed the bound:
    each entry is at most abs(x_i) bound / ||x|| in size.  Vectors within the bound are unchanged; the
    argument is never written to.

    Raises TypeError for floats, ValueError for a bound below 0.
    """
    values = np.asarray(vectors)
    if values.dtype.kind not in "iuO":
        raise TypeError(f"an array of {values.dtype}: clipping is exact on integers; quantize first")
    if bound < 0:
        raise ValueError(f"bound={bound} must be at least 0")
    out = values.astype(np.int64)
    squares = squared_norms(values)
    clipped = np.asarray(squares > bound * bound, bool)
    if clipped.any():
        long = values[clipped].astype(object)
        lengths = np.array([_ceil_sqrt(int(s)) for s in squares[clipped]], object)[:, None]
        out[clipped] = (np.sign(long) * (np.abs(long) * bound // lengths)).astype(np.int64)
    return out, clipped


def squared_norms(vectors: Array) -> Array:
    """The exact squared L2 norms (m,) of integer vectors (m, d): int64, or Python integers where needed."""
    values = np.asarray(vectors)
    largest = max(abs(int(values.max())), abs(int(values.min()))) if values.size else 0
    # d squares of at most largest**2 each add up within an int64.
    if values.shape[-1] * largest * largest < 2**63:
        whole = values.astype(np.int64, copy=False)
        return np.asarray(np.einsum("...i,...i->...", whole, whole))
    wide = values.astype(object)
    return np.asarray((wide * wide).sum(axis=-1), object)


def _ceil_sqrt(square: int) -> int:
    root = math.isqrt(square)
    return root if root * root == square else root + 1
