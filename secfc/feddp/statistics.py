"""What a client contributes to FedDP-KMeans: vectors of integers, and how far one point or client moves them.

Scott, Lampert and Saulpic, Differentially Private Federated k-Means Clustering with Server-Side Data (ICML
2025), Algorithms 1 and 2, Appendix G.5.  Points become integers first and are clipped as integers, so every
statistic is exact and its sensitivity is a fact about integers: no rounding stands between the two.

Secret: points and every statistic.  Nothing here is noisy; `secfc.feddp.noise` adds that.
"""

from __future__ import annotations

import math

import numpy as np

from field.arrays import Array
from secfc.privacy.events import Neighbors
from secfc.privacy.mechanisms import clip_norms

# Histograms and counts of non-empty clusters are in units of 1/UNIT: what clipping and shared noise round
# off is then small, also where one client counts for less than one.
UNIT = 1 << 10
# Entries of the outer product on and off the diagonal are multiplied by these: noise of one size on all of
# them is then symmetric noise of sd 17/12 on and 1 off the diagonal, to which an outer product of a vector
# of norm r is no more than r**2 / sqrt(2) (see `outer_sensitivity`).
SYMMETRIC = (12, 17)
# Noise of one size on the upper triangle as it is: sensitivity r**2, reached by a vector along an axis.
PLAIN = (1, 1)
# More rows than this make a client's sums of squares larger than plans allow for.
MAX_ROWS = 1 << 20
# A clipped row has norm of at most this many steps: MAX_ROWS of them have sums of products below 2**44,
# exact in floating-point matrix products, which are the fast ones.
MAX_REACH = 1 << 12
# Steps within 1 of a projection's entries where rows are projected.
_FINE = 2.0**24
# And never clipped to fewer steps than this: below, rounding would count beside the noise.
LEAST_REACH = 1 << 5


def first_rows(persons: Array, most: int) -> Array:
    """Which rows are among the first `most` of their person (m,): (m,) bool.

    Of one person these do not depend on the others' rows.
    """
    order = np.argsort(persons, kind="stable")
    _, starts, counts = np.unique(persons[order], return_index=True, return_counts=True)
    places = np.empty(len(persons), np.int64)
    places[order] = np.arange(len(persons)) - np.repeat(starts, counts)
    return np.asarray(places < most)


def shorten_to_bound(vectors: Array, bound: int) -> tuple[Array, Array]:
    """Integers (m, D) of float64 vectors, of L2 norm <= bound each, and which were shortened: (m,) bool.

    Vectors within the bound are rounded to nearest, longer ones scaled back and truncated.  `clip_norms` has
    the last word on the integers, so no floating-point error weakens the bound.  The argument is not written
    to.
    """
    whole, long = shorten_whole(vectors, bound)
    return whole.astype(np.int64), long


def shorten_whole(vectors: Array, bound: int) -> tuple[Array, Array]:
    """Shortened vectors as whole numbers in float64, which the products of `statistics` are of."""
    from field.kernels.shortening import shorten_rows

    whole, (long, rest) = np.empty(vectors.shape), np.empty((2, len(vectors)), bool)
    shorten_rows(np.ascontiguousarray(vectors), bound, whole, long, rest)
    if rest.any():
        whole[rest], again = clip_norms(whole[rest].astype(np.int64), bound)
        long[rest] |= again
    return whole, long


def shorten_l1(counts: Array, bound: int) -> tuple[Array, bool]:
    """Integers (D,) >= 0 of L1 norm <= bound, scaled back and rounded down if more, and whether they were."""
    total = int(counts.sum())
    if total <= bound:
        return counts.astype(np.int64), False
    # Counts are below 2**31 and so is the bound: products fit an int64.
    return np.asarray(counts.astype(np.int64) * bound // total), True


def shorten_one(vector: Array, bound: int) -> tuple[Array, bool]:
    """One vector (D,) of integers, of L2 norm <= bound, and whether it was shortened."""
    clipped, long = shorten_to_bound(vector.astype(np.float64)[None, :], bound)
    return clipped[0], bool(long[0])


# --- statistics -------------------------------------------------------------------------------------


def outer_product(rows: Array, weights: tuple[int, int], *, traceless: bool = False) -> Array:
    """Upper triangle of the sum of x x^T over integer rows (m, d), weighted: (d (d + 1) / 2,) int64.

    weights multiply entries on and off the diagonal.  traceless: the mean of the diagonal, rounded, is taken
    off it: no eigenvector moves, and the vector gets shorter, where a client's whole vector is clipped.
    """
    # m <= 2**20 products of at most 2**24 each: below 2**53, so the float product is exact.
    floats = np.asarray(rows, np.float64)
    total = np.asarray(floats.T @ floats)
    d = len(total)
    if traceless:
        total[np.diag_indices(d)] -= np.rint(np.trace(total) / d)
    total *= weights[1]
    total[np.diag_indices(d)] *= weights[0] / weights[1]
    return np.rint(total[np.triu_indices(d)]).astype(np.int64)


def symmetric_matrix(triangle: Array, d: int, weights: tuple[int, int]) -> Array:
    """The matrix (d, d) float64 that a weighted upper triangle stands for; what `outer_product` undoes."""
    matrix = np.zeros((d, d))
    matrix[np.triu_indices(d)] = triangle.astype(np.float64) / weights[1]
    matrix += np.triu(matrix, 1).T
    matrix[np.diag_indices(d)] *= weights[1] / weights[0]
    return matrix


def histogram(labels: Array, bins: int) -> Array:
    """How many labels (m,) in [0, bins) are what: (bins,) int64, in units of 1/UNIT."""
    return np.asarray(np.bincount(labels, minlength=bins).astype(np.int64) * UNIT)


def shells_of(rows: Array, reach: int, shells: int) -> Array:
    """In which shell about 0 each integer row (m, d) of norm <= reach lies: (m,) int64.

    Shell j is within reach / sqrt(2)**j and beyond the next one; the last has no inner bound.  Squares are
    whole and below 2**53 and bounds are powers of two of one, so comparisons are exact.
    """
    floats = np.asarray(rows, np.float64)
    squares = np.einsum("ij,ij->i", floats, floats)
    inner = float(reach) ** 2 * 2.0 ** -np.arange(1, shells)
    return np.asarray((squares[:, None] <= inner).sum(axis=1))


def sums_of(rows: Array, labels: Array, k: int) -> Array:
    """Sums of integer rows (m, d) by label: (k, d) int64."""
    member = np.zeros((k, len(rows)))
    member[labels, np.arange(len(rows))] = 1
    # At most 2**20 rows of entries within 2**12: exact in floats.
    return np.rint(member @ np.asarray(rows, np.float64)).astype(np.int64)


def residual_sums(rows: Array, labels: Array, origins: Array, scale: float, bound: int) -> tuple[Array, int]:
    """Sums by label (k, d) int64 of rows (m, d) about origins (k, d), as `shorten_to_bound` has them.

    rows, origins: in data units, steps of 1 / scale.  Also how many were shortened.
    """
    from field.kernels.shortening import add_residuals

    sums, rest = np.zeros(origins.shape), np.empty(len(rows), bool)
    # Of one type, for which the kernel is compiled: messages have arrays that are read alone.
    labels, origins = labels.astype(np.int64, copy=False), np.array(origins, np.float64)
    shortened = add_residuals(rows, labels, origins, float(scale), bound, sums, rest)
    # At most 2**20 whole numbers within 2**12: exact in any order.
    found = np.rint(sums).astype(np.int64)
    if rest.any():
        whole, long = shorten_whole((rows[rest] - origins[labels[rest]]) * scale, bound)
        found, shortened = found + sums_of(whole, labels[rest], len(origins)), shortened + int(long.sum())
    return found, shortened


def means_of(sums: Array, counts: Array) -> tuple[Array, Array]:
    """Rounded means (k, d) int64 of sums of so many rows each, zero of none, and non-empty (k,) bool."""
    means = sums / np.maximum(counts, 1)[:, None]
    return np.rint(means).astype(np.int64), counts > 0


def whole_centers(centers: Array, scale: float) -> Array:
    """Centers (k, p) in data units, rounded to steps of 1/scale, as floats."""
    # Products with rows are below 2**12 sqrt(p) 2**31: exact.  Centers farther out than this are noise.
    return np.clip(np.rint(centers * scale), -(2.0**30), 2.0**30)


def labels_of(rows: Array, projection: Array | None, centers: Array, scale: float) -> Array:
    """The nearest center of every integer row (m, d), the lowest index in a tie: (m,) int64.

    Rows are in steps of 1/scale and of norm <= MAX_REACH; centers are (k, p) under a projection (d, p) of
    unit columns, or (k, d) with None, in data units, and rounded to steps.  A label depends on its row and on
    public values alone, whatever rows are beside it: every product is one of integers and exact.  In floats
    the last bits of a matrix product depend on the number of rows, and one more could turn many near ties.
    """
    points = np.asarray(rows, np.float64)
    if projection is not None:
        # Products of a row and a column below 2**12 (2**24 + sqrt(d)): exact, and so is the division.
        points = np.rint(points @ np.rint(projection * _FINE) / _FINE)
    whole = whole_centers(centers, scale)
    scores = points @ (-2.0 * whole.T)
    scores += np.einsum("ij,ij->i", whole, whole)
    return np.asarray(scores.argmin(axis=1))


def advantage_sums(rows: Array, starts: Array, scale: float, cap: int) -> Array:
    """Sums over integer rows (m, d) of `row_advantages`: (starts - 1,) int64."""
    # At most 2**20 whole numbers of less than 2**30: exact in any order.
    return np.asarray(row_advantages(rows, starts, scale, cap).sum(axis=0).astype(np.int64))


def row_advantages(rows: Array, starts: Array, scale: float, cap: int) -> Array:
    """How much nearer to each integer row (m, d) each start is than the last one: (m, starts - 1), whole.

    starts (starts, k, d): centers in data units.  Of every row the squared distance to the last start's
    nearest center less that to this start's, in steps squared, clipped to [-cap, cap].  A row's numbers
    depend on it and on public values alone, as in `labels_of`.
    """
    many, k, d = starts.shape
    # As in `labels_of`: products are exact, and squares are added up by center.
    whole = whole_centers(starts.reshape(many * k, d), scale)
    scores = np.asarray(rows, np.float64) @ (-2.0 * whole.T)
    scores += np.einsum("ij,ij->i", whole, whole)
    least = scores.reshape(len(rows), many, k).min(axis=2)
    return np.asarray(np.clip(np.rint(least[:, -1:] - least[:, :-1]), -cap, cap))


# --- sensitivities, point by point ------------------------------------------------------------------
#
# A unit of several rows moves a statistic by that many times what one row moves it by, at most: one after the
# other.  Rows that are all alike attain it.


def outer_sensitivity(reach: int, weights: tuple[int, int], neighbors: Neighbors) -> float:
    """L2 sensitivity of `outer_product` to one row of norm <= reach (not traceless).

    With weights a, b: a**2 sum_i x_i**4 + b**2 sum_{i<j} x_i**2 x_j**2 = b**2/2 (sum_i x_i**2)**2 +
    (a**2 - b**2/2) sum_i x_i**4, and sum_i x_i**4 lies between 0 and reach**4.  So for PLAIN weights reach**2
    (x along an axis), for SYMMETRIC ones, 12**2 < 17**2/2, at most 17/sqrt(2) reach**2.
    Replacing x by y: for B = b**2/2 and a**2 <= B the squared change is at most
    B ||x x^T - y y^T||_F**2 <= B (||x||**4 + ||y||**4), a factor sqrt(2); for a**2 > B the remaining part is
    (a**2 - B) sum_i (x_i**2 - y_i**2)**2 <= (a**2 - B) (||x||**4 + ||y||**4), the same factor.
    """
    a, b = weights
    one = reach * reach * math.sqrt(max(a * a, b * b / 2))
    return one * math.sqrt(neighbors.factor) * neighbors.rows


def histogram_sensitivity(neighbors: Neighbors, norm: int = 2) -> float:
    """Sensitivity of `histogram` to one point: one entry moves by UNIT, or two when a point is replaced."""
    return float(UNIT * (math.sqrt(neighbors.factor) if norm == 2 else neighbors.factor) * neighbors.rows)


def advantages_sensitivity(cap: int, starts: int, neighbors: Neighbors) -> float:
    """L2 sensitivity of `advantage_sums` among so many starts: a row adds at most cap to each of starts - 1.

    A replaced row moves each by at most twice that.
    """
    return float(cap * math.sqrt(starts - 1) * neighbors.factor * neighbors.rows)


def sums_sensitivity(reach: int, count: int, neighbors: Neighbors) -> float:
    """L2 sensitivity of sums of rows of norm <= reach, beside counts in units of `count` (0 without), as one.

    Adding a row: sqrt(reach**2 + count**2).  Replacing: within one cluster the sum moves by 2 reach and the
    count not at all; between two, each moves as above: sqrt(2) sqrt(reach**2 + count**2).
    """
    one = math.hypot(reach, count)
    return neighbors.rows * (one if neighbors.factor == 1 else max(2.0 * reach, math.sqrt(2) * one))
