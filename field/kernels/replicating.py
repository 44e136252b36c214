"""The kernels of `field.compare.replicated`: products of shared bits, 64 a word.

Bits in words need no bounds: there is nothing to overflow.  Kernels trust their input: callers check.
Their twins in `tests.oracles.field` are slow and obviously right.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from field.kernels.compiling import compiled

# Words of a row handled at a time, so that what is combined stays in the first cache.
BLOCK = 256


@compiled()
def multiply(x: Any, left: Any, y: Any, right: Any, mine: Any, out: Any) -> None:
    """out[q] = XOR of x[c, left[q]] & y[e, right[q]] over all c, e with mine[c, e].

    x, y (held, rows, words), mine (held, held) bool, out (gates, words) uint64.
    """
    held, words = x.shape[0], x.shape[2]
    inner = np.empty(BLOCK, np.uint64)
    for q in range(left.size):
        for start in range(0, words, BLOCK):
            size = min(BLOCK, words - start)
            result = out[q, start : start + size]
            result[:] = 0
            for c in range(held):
                inner[:size] = 0
                for e in range(held):
                    if mine[c, e]:
                        other = y[e, right[q], start : start + size]
                        for w in range(size):
                            inner[w] ^= other[w]
                row = x[c, left[q], start : start + size]
                for w in range(size):
                    result[w] ^= inner[w] & row[w]


@compiled()
def add_rows(out: Any, rows: Any, values: Any) -> None:
    """out[rows[q]] ^= values[q]: one component, (rows, words) and (gates, words) uint64."""
    for q in range(rows.size):
        target, source = out[rows[q]], values[q]
        for w in range(source.size):
            target[w] ^= source[w]


@compiled()
def set_rows(out: Any, rows: Any, values: Any) -> None:
    """out[rows[q]] = values[q]."""
    for q in range(rows.size):
        target, source = out[rows[q]], values[q]
        for w in range(source.size):
            target[w] = source[w]
