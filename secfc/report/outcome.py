"""The labels of a run in the order of its rows, and their comparison with plaintext k-means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secfc.algorithm import Clustering
from secfc.data.federation import Federation

Array = NDArray[Any]


def in_row_order(result: Clustering, parts: Sequence[Array]) -> Array:
    """One value a point from one array a client: (m, ...), in the order of the rows of the run.

    A point that several clients hold counts once; points of clients that were left out have no row.
    """
    if result.rows is None:
        return np.concatenate(parts)
    m = 1 + max((int(rows.max()) for rows in result.rows if len(rows)), default=-1)
    out = np.zeros((m, *parts[0].shape[1:]), np.result_type(*parts))
    for rows, part in zip(result.rows, parts, strict=True):
        out[rows[rows >= 0]] = part[rows >= 0]
    return out


def pooled(federation: Federation, result: Clustering) -> Federation:
    """The points of all clients, each once and in the order of rows, as those of one client."""
    points = in_row_order(result, [party.read() for party in federation.parties])
    return Federation.from_arrays([points])


@dataclass(frozen=True)
class Comparison:
    """The labels of the protocol against those of plaintext Lloyd, step by step.

    steps: iterations of the protocol.  first: the first one whose labels differ, 0 for the start,
    None if all are equal.  points: how many labels differ there, 0 if one of the two had stopped.
    ends: whether only the start and the end could be compared, as nobody knows the labels between.
    sizes: whether of every step but the last only the sizes of the clusters could be.
    """

    steps: int
    first: int | None = None
    points: int = 0
    ends: bool = False
    sizes: bool = False

    @property
    def equal(self) -> bool:
        """Whether every labeling is the same."""
        return self.first is None


def compare(secure: Clustering, plain: Clustering) -> Comparison:
    """Every labeling of two runs against each other: starts, all iterations, results.

    Raises ValueError if the protocol kept no history: then nothing could be compared.
    """
    if secure.sizes:
        return _compare_sizes(secure, plain)
    if not secure.history:
        raise ValueError("the result has no history of labels: only SecFC can be compared step by step")
    steps = secure.n_iter
    if len(secure.history) <= steps:
        return _compare_ends(secure, plain)
    pairs = zip_longest((*secure.history, _final(secure)), (*plain.history, _final(plain)))
    for number, (ours, theirs) in enumerate(pairs):
        if ours is None or theirs is None:
            return Comparison(steps, number)
        if not np.array_equal(ours, theirs):
            return Comparison(steps, min(number, steps), int((ours != theirs).sum()))
    return Comparison(steps)


def _compare_ends(secure: Clustering, plain: Clustering) -> Comparison:
    """The same where the history holds the start and the end only."""
    steps = secure.n_iter
    if not np.array_equal(secure.history[0], plain.history[0]):
        return Comparison(steps, 0, int((secure.history[0] != plain.history[0]).sum()), ends=True)
    last, theirs = _final(secure), _final(plain)
    if not np.array_equal(last, theirs):
        return Comparison(steps, steps, int((last != theirs).sum()), ends=True)
    return Comparison(steps, ends=True)


def _compare_sizes(secure: Clustering, plain: Clustering) -> Comparison:
    """The same where only owners know labels: sizes of every step, and the labels that all of them have."""
    steps, k = secure.n_iter, secure.k
    want = [np.bincount(labels[labels >= 0], minlength=k) for labels in plain.history]
    for number, (ours, theirs) in enumerate(zip_longest(secure.sizes, want)):
        if ours is None or theirs is None:
            return Comparison(steps, number, sizes=True)
        if not np.array_equal(ours, theirs):
            return Comparison(steps, number, int(np.abs(ours - theirs).sum()) // 2, sizes=True)
    last, theirs = _final(secure), _final(plain)
    if not np.array_equal(last, theirs):
        return Comparison(steps, steps, int((last != theirs).sum()), sizes=True)
    return Comparison(steps, sizes=True)


def _final(result: Clustering) -> Array:
    return in_row_order(result, result.labels)
