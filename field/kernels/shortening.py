"""Kernels that shorten rows to a bound, as whole numbers, and add up what is left of them by cluster."""

from __future__ import annotations

import numpy as np

from field.kernels.compiling import compiled

# Sums of squares of whole numbers of norms up to this bound are exact in floats, with room to spare.
EXACT = 1 << 25


# Terms may be added in any order: of whole numbers the sum is exact, else near enough.
@compiled(fastmath={"reassoc", "nsz"})
def _square(values):  # type: ignore[no-untyped-def]
    """The sum of the squares of a vector."""
    total = 0.0
    for j in range(len(values)):
        total += values[j] * values[j]
    return total


@compiled()
def _shorten(values, bound, whole):  # type: ignore[no-untyped-def]
    """Write the vector as whole numbers; whether it was shortened, and whether it may be too long still.

    Within the bound it is rounded to nearest, else scaled back and truncated.
    """
    norm = np.sqrt(_square(values))
    long = norm > bound
    if long:
        factor = bound / norm
        for j in range(len(values)):
            whole[j] = np.trunc(values[j] * factor)
    else:
        for j in range(len(values)):
            whole[j] = np.rint(values[j])
    return long, not (bound < EXACT and _square(whole) <= float(bound) ** 2)


@compiled()
def shorten_rows(rows, bound, whole, long, rest):  # type: ignore[no-untyped-def]
    """Rows (m, d) as whole numbers (m, d) of norms up to a bound, all float64, and which were shortened.

    rest: (m,) which may be beyond the bound still.
    """
    for i in range(len(rows)):
        long[i], rest[i] = _shorten(rows[i], bound, whole[i])


@compiled()
def add_residuals(rows, labels, centers, scale, bound, sums, rest):  # type: ignore[no-untyped-def]
    """Add (rows[i] - centers[labels[i]]) * scale, shortened to a bound, to sums (k, d), all float64.

    Returns how many were shortened.  Nothing is added of those that may be beyond the bound still: rest (m,).
    """
    d, shortened = rows.shape[1], 0
    values, whole = np.empty(d), np.empty(d)
    for i in range(len(rows)):
        center, total = centers[labels[i]], sums[labels[i]]
        for j in range(d):
            values[j] = (rows[i, j] - center[j]) * scale
        long, rest[i] = _shorten(values, bound, whole)
        if not rest[i]:
            shortened += long
            for j in range(d):
                total[j] += whole[j]
    return shortened
