"""How far one unit moves what SecFC decodes: sensitivities of scaled distances and of cluster sums.

The clustering that distances are measured to is public: it follows from earlier releases, so iterations
compose adaptively.  Neighbors replace the rows of one unit, a data point or a client, whose number and
labels are public; all rows are integer vectors of norm at most B (`secfc.privacy.clipping`).

Notation: x_i a row, S_h a cluster of s_h rows and mean mu_h, D_ih = ||x_i - mu_h||**2.  SecFC decodes
s_h**2 D_ih, so noise of standard deviation s_h**2 sigma on column h is noise of sigma on D, for every column
the same.  All bounds below are on D, in units of B**2.

Lemma.  For ||x||, ||x'|| <= r and ||a|| >= r, | ||a + x||**2 - ||a + x'||**2 | <= 4 ||a|| r, since ||a + x||
lies in [||a|| - r, ||a|| + r].

Let a unit own c rows, f_h s_h of them in cluster h.  Replacing them changes

* an entry (i, h) of its own rows, in which both x_i and mu_h move, by at most 4: 0 <= D_ih <= 4, as means of
  rows have norms of at most B.  c k' entries, k' clusters that are not empty.
* an entry (i, h) of another row.  mu_h - x_i = a + X / s_h with X the sum of the unit's rows in S_h,
  ||X / s_h|| <= f_h, and a = R / s_h - x_i with R the sum of the others' rows, ||a|| <= 2 - f_h.  Where
  ||a|| >= f_h the lemma gives 4 (2 - f_h) f_h; else D_ih lies in [0, 4 f_h**2], and f_h <= 2 - f_h.
  m - c entries for every h.

Squares add up to the L2 sensitivity  16 c k' + (m - c) sum_h (4 (2 - f_h) f_h)**2.  For a data point in a
cluster of s rows f = 1/s: 4 (2 - 1/s) / s is attained, by x_i = -B u, x = B u, x' = -B u and all else at B u.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secfc.coded.layout import Layout, OwnRows
from secfc.privacy.errors import PrivacyError
from secfc.privacy.neighbors import Neighbors

Array = NDArray[Any]

# Sensitivities are floats, each within this of its value; the noise is calibrated to the larger.
_ROUNDING = 1 + 1e-12


def parts(neighbors: Neighbors, layout: Layout, labels: Array, k: int) -> tuple[Array, Array]:
    """What single units own: rows (u,), and how many of them are in each cluster (u, k).

    labels (m,) in [-1, k).  Data points differ by their cluster only, so there are at most k + 1.

    Raises PrivacyError for clients whose rows are hidden, and for added or removed units.
    """
    if neighbors.relation != "replace":
        raise PrivacyError(
            f"neighbors that {neighbors.relation} one {neighbors.unit}: SecFC's row counts are public, so "
            "units are replaced; use Neighbors('replace', ...)"
        )
    if neighbors.unit == "data point":
        present = np.unique(labels)
        inside = np.zeros((len(present), k), np.int64)
        inside[np.arange(len(present)), present] = present >= 0
        return np.ones(len(present), np.int64), inside
    if not isinstance(layout, OwnRows):
        raise PrivacyError(
            "clients are to be protected, but which rows are whose is hidden: how much one client moves is "
            "not known. Use open membership, or protect data points"
        )
    counts = [
        np.bincount(labels[a : a + c].astype(np.int64) + 1, minlength=k + 1)[1:] for a, c in layout.spans
    ]
    return np.array(layout.counts), np.stack(counts)


def distance_sensitivity(m: int, sizes: Array, rows: Array, inside: Array) -> float:
    """The L2 sensitivity of all squared distances (m, k) in units of B**2: the worst of these units.

    sizes (k,) of the clusters; rows (u,) and inside (u, k) as from `parts`.
    """
    full = sizes > 0
    fractions = inside[:, full] / sizes[full]
    others = ((4 * (2 - fractions) * fractions) ** 2).sum(axis=1)
    squares = 16 * rows * int(full.sum()) + (m - rows) * others
    return math.sqrt(float(squares.max())) * _ROUNDING


def largest_distance_sensitivity(m: int, k: int, rows: int) -> float:
    """An upper bound on `distance_sensitivity` for units of at most `rows` rows, whatever the clustering."""
    # sum_h (4 (2 - f) f)**2 <= 16 for each cluster that the unit has rows in.
    return 4 * math.sqrt(rows * k + m * min(k, rows)) * _ROUNDING


def sum_sensitivity(inside: Array) -> float:
    """The L2 sensitivity of the cluster sums (k, d) in units of B: each of the rows moves by at most 2."""
    return 2 * math.sqrt(float((inside.astype(float) ** 2).sum(axis=1).max())) * _ROUNDING
