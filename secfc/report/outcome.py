"""A finished run, and its comparison with plaintext k-means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secfc import metrics
from secfc.algorithm import Clustering
from secfc.data.federation import Federation
from secfc.data.resolution import Resolution
from secfc.report.curious import Finding
from secfc.report.ordinary import Ordinary
from secfc.report.origin import Origin
from secfc.report.privacy import DELTA

Array = NDArray[Any]


def in_row_order(result: Clustering, parts: Sequence[Array]) -> Array:
    """One value a point from one array a client: (m, ...), in the order of the rows of the run.

    A point that several clients hold counts once.
    """
    if result.rows is None:
        return np.concatenate(parts)
    m = 1 + max((int(rows.max()) for rows in result.rows if len(rows)), default=-1)
    out = np.zeros((m, *parts[0].shape[1:]), np.result_type(*parts))
    for rows, part in zip(result.rows, parts, strict=True):
        out[rows] = part
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
    """

    steps: int
    first: int | None = None
    points: int = 0
    ends: bool = False

    @property
    def equal(self) -> bool:
        """Whether every labeling is the same."""
        return self.first is None


def compare(secure: Clustering, plain: Clustering) -> Comparison:
    """Every labeling of two runs against each other: starts, all iterations, results.

    Raises ValueError if the protocol kept no history: then nothing could be compared.
    """
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


def _final(result: Clustering) -> Array:
    return in_row_order(result, result.labels)


@dataclass(frozen=True, eq=False, repr=False)
class Outcome:
    """A finished run and what is needed to report it.

    algorithm: "secfc", "feddp", "lloyd" or "k-fed".  source: where the points came from, for people.
    settings: the parameters of the algorithm that its plan does not hold.  notes: what the user should
    know about choices made for them.  comparison: None if nothing was verified.  wall: seconds by the
    clock of preparing, fitting, verifying and attacking.  finding: what a curious server could rebuild,
    None if that was not tried.  ordinary: the labels against k-means on the unrounded points, None if that
    was not compared.  resolution: steps of rounding within the spread of each feature, None if not judged.
    origin: the command and its files.  evaluate: whether a differentially private run also reports what its
    budget has not paid for.
    """

    algorithm: str
    federation: Federation
    result: Clustering
    source: str
    settings: Mapping[str, Any]
    notes: tuple[str, ...]
    comparison: Comparison | None
    wall: Mapping[str, float]
    finding: Finding | None = None
    ordinary: Ordinary | None = None
    resolution: Resolution | None = None
    origin: Origin | None = None
    evaluate: bool = False

    @property
    def verified(self) -> bool | None:
        """Whether all labels equal plaintext Lloyd's, None if that was not checked."""
        return None if self.comparison is None else self.comparison.equal

    @property
    def delta(self) -> float:
        """The delta that privacy is reported for."""
        return float(self.settings.get("delta", DELTA))

    @property
    def noisy(self) -> bool:
        """Whether the run was differentially private."""
        return "epsilon" in self.settings

    @property
    def shows_data(self) -> bool:
        """Whether the report may hold what was computed from the data and no budget paid for."""
        return self.evaluate or not self.noisy

    @property
    def labels_paid(self) -> bool:
        """Whether labels follow from what was released: so do their numbers, and row counts are public."""
        return not self.noisy or self.algorithm == "secfc"

    @property
    def unpaid(self) -> tuple[str, ...]:
        """Parts of the report, by their names in JSON, that the budget of the run has not paid for."""
        if not self.noisy:
            return ()
        exact = ("truth", "cost", "seconds", "attack", "files")
        return exact if self.labels_paid else (*exact, "m", "points_held", "clients", "cluster_sizes")

    @property
    def private(self) -> bool:
        """Whether the run hid who owns which point."""
        return self.settings.get("membership") == "private"

    @cached_property
    def labels(self) -> Array:
        """The cluster of each point, (m,): of each once, even if several clients hold it."""
        return _final(self.result)

    @property
    def m(self) -> int:
        """Points that were clustered."""
        return len(self.labels)

    @cached_property
    def cost(self) -> float:
        """Sum of squared distances to the cluster means; computed on the pooled data if hidden."""
        if self.result.cost is not None:
            return self.result.cost
        return metrics.cost(pooled(self.federation, self.result).stacked(), self.labels, self.result.k)

    @cached_property
    def scores(self) -> dict[str, float] | None:
        """How well the labels match the truth, None if there is none."""
        parts = [party.truth for party in self.federation.parties if party.truth is not None]
        if len(parts) < self.federation.n:
            return None
        truth, labels = in_row_order(self.result, parts), self.labels
        return {
            "accuracy": metrics.accuracy(truth, labels),
            "adjusted_rand": metrics.adjusted_rand(truth, labels),
            "purity": metrics.purity(truth, labels),
        }

    @property
    def sizes(self) -> list[int]:
        """Points of each cluster, k of them."""
        counts: list[int] = np.bincount(self.labels, minlength=self.result.k).tolist()
        return counts
