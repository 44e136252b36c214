"""How good a clustering is: against a ground truth, against another clustering, by its cost.

Labels are names: only `cost` reads them as numbers.  A label of -1 is a cluster like any other.
Evaluation only: every function sees all points, or all labels, in the clear.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from secfc.data.inputs import Array, Rows, as_rows, checked_points, positive_integer, row_blocks
from secfc.errors import InputError


def accuracy(truth: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Share of points labeled correctly under the best one-to-one renaming of labels, in [0, 1].

    Parameters
    ----------
    truth
        (m,) true classes.
    labels
        (m,) labels to judge.

    Returns
    -------
    float
        Correct points over m.  Unmatched labels or classes count as wrong.

    References
    ----------
    SecFC sec. 5; the renaming is found by the Hungarian method.
    """
    classes, clusters, rows, columns, counts = _pairs(truth, labels)
    matches = np.zeros((classes, clusters), dtype=np.int64)
    matches[rows, columns] = counts
    return float(_most_matched(matches) / counts.sum())


def _most_matched(matches: Array) -> int:
    """The largest sum of entries (>= 0, integers) of which no two share a row or a column.

    Shortest augmenting paths (Jonker and Volgenant, Computing 38, 1987), one a row, on exact integers: below
    2**60 in all, so that no sum of prices overflows.
    """
    costs = -matches if matches.shape[0] <= matches.shape[1] else -matches.T
    rows, columns = costs.shape
    up, down = np.zeros(rows, np.int64), np.zeros(columns + 1, np.int64)  # prices; the last column is a door
    owner = np.full(columns + 1, -1)
    for row in range(rows):
        owner[columns] = row
        least, before = np.full(columns, np.iinfo(np.int64).max), np.full(columns, columns)
        reached, column = np.zeros(columns + 1, bool), columns
        while owner[column] >= 0:
            reached[column] = True
            at, open_ = owner[column], ~reached[:columns]
            over = costs[at] - up[at] - down[:columns]
            nearer = open_ & (over < least)
            least[nearer], before[nearer] = over[nearer], column
            column = int(np.flatnonzero(open_)[least[open_].argmin()])
            step = least[column]
            up[owner[reached]] += step
            down[reached] -= step
            least[open_] -= step
        while column != columns:
            owner[column], column = owner[before[column]], int(before[column])
    taken = np.flatnonzero(owner[:columns] >= 0)
    return -int(costs[owner[taken], taken].sum())


def purity(truth: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Share of points, 0 to 1, whose class is the most frequent one of their cluster.

    truth and labels are (m,).  Never below `accuracy`; singletons reach 1, so compare at equal k.
    """
    _, clusters, _, columns, counts = _pairs(truth, labels)
    largest = np.zeros(clusters, dtype=np.int64)
    np.maximum.at(largest, columns, counts)
    return float(largest.sum() / counts.sum())


def adjusted_rand(truth: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Rand index of two (m,) labelings, adjusted for chance: 1 if equal up to names, 0 if random.

    May be negative.  Hubert and Arabie, Comparing partitions, 1985.
    """
    both, first, second, m = _pairs_together(truth, labels)
    if both == first == second:  # the same partition; also where the index is 0 / 0
        return 1.0
    expected = first * second / (m * (m - 1) // 2)
    return (both - expected) / ((first + second) / 2 - expected)


def fowlkes_mallows(truth: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Pairs of points together in both labelings, over the geometric mean of those in either, in [0, 1].

    Parameters
    ----------
    truth
        (m,) true classes.
    labels
        (m,) labels to judge.

    Returns
    -------
    float
        The index.  If one labeling has singletons alone: 1 if the other has too, else 0.

    References
    ----------
    Fowlkes and Mallows, A method for comparing two hierarchical clusterings, 1983.
    """
    both, first, second, _ = _pairs_together(truth, labels)
    if both == first == second:
        return 1.0
    return both / math.sqrt(first * second) if both else 0.0


def _pairs_together(truth: npt.ArrayLike, labels: npt.ArrayLike) -> tuple[int, int, int, int]:
    """Pairs of points in one part of both, of the first and of the second labeling, and points; exact."""
    _, _, rows, columns, counts = _pairs(truth, labels)
    sizes = (counts, *(np.bincount(side, counts).astype(np.int64) for side in (rows, columns)))
    both, first, second = (sum(size * (size - 1) // 2 for size in part.tolist()) for part in sizes)
    return both, first, second, int(counts.sum())


def same_clustering(a: npt.ArrayLike, b: npt.ArrayLike) -> bool:
    """Whether two (m,) labelings are the same partition, that is, equal up to names."""
    first, second, _, _, counts = _pairs(a, b)
    return first == second == len(counts)


def cost(points: npt.ArrayLike | Rows, labels: npt.ArrayLike, k: int) -> float:
    """Sum of squared distances of points to the means of their clusters (inertia).

    Parameters
    ----------
    points
        (m, d) in data units; read twice in blocks, so it may be larger than memory.
    labels
        (m,) integers from 0 to k - 1.
    k
        Number of clusters; empty ones cost nothing.

    Returns
    -------
    float
        Inertia in squared data units.

    References
    ----------
    SecFC eq. (1).
    """
    rows = checked_points(as_rows(points), "the data set")
    k = positive_integer("k", k)
    known = np.asarray(labels)
    if known.shape != (rows.shape[0],) or known.dtype.kind not in "iu":
        raise InputError(
            f"labels have shape {known.shape} and dtype {known.dtype} for {rows.shape[0]} points: "
            "one integer a point is needed. Pass the labels of these points."
        )
    if known.min() < 0 or known.max() >= k:
        raise InputError(
            f"labels run from {known.min()} to {known.max()}: 0 to k - 1 = {k - 1} are allowed. "
            "Raise k, or renumber the labels."
        )
    sums = np.zeros((rows.shape[1], k))
    for start, block in row_blocks(rows, "the data set"):
        part = known[start : start + len(block)]
        for feature, column in enumerate(block.T):
            sums[feature] += np.bincount(part, column, minlength=k)
    means = sums.T / np.maximum(np.bincount(known, minlength=k), 1)[:, None]
    total = 0.0
    for start, block in row_blocks(rows, "the data set"):
        total += float(((block - means[known[start : start + len(block)]]) ** 2).sum())
    return total


def calinski_harabasz(points: npt.ArrayLike, labels: npt.ArrayLike, k: int) -> float:
    """Variance between clusters over variance within, each by its degrees of freedom.

    Parameters
    ----------
    points
        (m, d) in data units.
    labels
        (m,) integers from 0 to k - 1.
    k
        Number of clusters; empty ones do not count.

    Returns
    -------
    float
        The index, without unit; infinite without variance within clusters.

    Raises
    ------
    InputError
        For fewer than two nonempty clusters, or as many as points.

    References
    ----------
    Calinski and Harabasz, A dendrite method for cluster analysis, 1974.
    """
    within = cost(points, labels, k)
    m, c = len(np.asarray(labels)), len(np.unique(labels))
    if not 1 < c < m:
        raise InputError(f"{c} clusters of {m} points have no Calinski-Harabasz index: from 2 to m - 1 have.")
    between = cost(points, np.zeros(m, np.int64), 1) - within
    return between / within * (m - c) / (c - 1) if within > 0 else math.inf


def observed_cost(points: npt.ArrayLike, labels: npt.ArrayLike, k: int) -> float:
    """Cost over observed coordinates only: points (m, d) are NaN where their client does not observe.

    A center's coordinate is the mean over those points of the cluster that have it (`secfc.overlap`).
    """
    values, known = np.asarray(points, np.float64), np.asarray(labels)
    total = 0.0
    for h in range(positive_integer("k", k)):
        own = values[known == h]
        seen = ~np.isnan(own)
        means = np.where(seen, own, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
        total += float((np.where(seen, own - means, 0.0) ** 2).sum())
    return total


def _pairs(truth: npt.ArrayLike, labels: npt.ArrayLike) -> tuple[int, int, Array, Array, Array]:
    """Classes, clusters, and every (class, cluster) that occurs with its number of points.

    Sparse on purpose: as many labels as points must not need an (m, m) table.
    """
    codes = []
    sizes = []
    for what, values in (("truth", np.asarray(truth)), ("labels", np.asarray(labels))):
        if values.ndim != 1 or len(values) == 0 or values.dtype.kind not in "biuUS":
            raise InputError(
                f"{what} has shape {values.shape} and dtype {values.dtype}: one axis of integers "
                "or strings, not empty, is needed. Convert the labels first."
            )
        names, code = np.unique(values, return_inverse=True)
        codes.append(code.astype(np.int64))
        sizes.append(len(names))
    if len(codes[0]) != len(codes[1]):
        raise InputError(
            f"{len(codes[0])} labels cannot be compared with {len(codes[1])}: both need one a "
            "point. Pass labels of the same points, in the same order."
        )
    pairs, counts = np.unique(codes[0] * sizes[1] + codes[1], return_counts=True)
    return sizes[0], sizes[1], pairs // sizes[1], pairs % sizes[1], counts


def labels_digest(labels: Iterable[Array]) -> str:
    """SHA-256 of labels as 32-bit little-endian integers: 64 hexadecimal digits.

    Parameters
    ----------
    labels
        Arrays of labels, hashed one after the other.

    Returns
    -------
    str
        Equal for equal labels, on any machine and with any number of threads.

    Warnings
    --------
    Whoever can guess all labels can test the guess by the digest.  Where labels belong to owners, each keeps
    its own digest.

    Examples
    --------
    >>> import numpy as np
    >>> labels_digest([np.array([0, 1]), np.array([2])])[:16]
    'ad5dc1478de06a4c'
    """
    state = hashlib.sha256()
    for part in labels:
        state.update(np.ascontiguousarray(part, "<i4").tobytes())
    return state.hexdigest()
