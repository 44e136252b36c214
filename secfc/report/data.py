"""A finished run as data: made once from a result, and shown by renderers that compute nothing.

`report` takes what any algorithm gives back.  What only some runs have is handed to it: a comparison with
plaintext k-means, attacks that were tried, the command line.  A report holds names, counts, parameters,
scores, times and, where the algorithm made them public, centers; never a point and never an id.  What a
budget of differential privacy has not paid for is not in it at all, unless it was asked for.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.ring.quantize import Quantizer
from secfc import metrics
from secfc.account import Account
from secfc.algorithm import Algorithm, Clustering
from secfc.data.federation import Federation
from secfc.data.resolution import Resolution
from secfc.lloyd.elbow import Curve
from secfc.privacy.errors import PrivacyError
from secfc.privacy.ledger import EVERYBODY, Ledger
from secfc.report.costs import rounds, seconds
from secfc.report.curious import Finding
from secfc.report.ordinary import Ordinary
from secfc.report.origin import Origin
from secfc.report.outcome import Comparison, in_row_order, pooled
from secfc.report.privacy import DELTA
from secfc.report.risk import Risk, risk
from secfc.scaling.algorithm import Scaled

Array = NDArray[Any]


@dataclass(frozen=True)
class Counts:
    """Numbers of points: m that were clustered, held by all clients together, of each client and cluster."""

    m: int
    held: int
    clients: Mapping[str, int]
    clusters: tuple[int, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """A finished run, for people and programs.

    account: what the algorithm says of itself.  parameters: of the run, by name, in plain values.
    source: where the points came from.  columns: names of the d features.  notes: what the user should know
    about choices made for them.  comparison: None if nothing was verified.  ordinary: the labels against
    k-means on the unrounded points, None if that was not compared.  resolution: steps of rounding within the
    spread of each feature, None if not judged.  quantizer: how points became integers, None if they did not.
    digests: of every client's labels, by name, and of all under "" (`secfc.metrics.labels_digest`); None
    where no budget paid for labels.
    curve: the costs by which k was chosen, None if it was given; of what a policy opens, so under a budget
    they are paid for.
    withheld: clusters with points whose centers stay closed where others are open.
    changes: how many labels every iteration changed, None if nobody knows.
    steps: how often distances were asked for.  moved: whether labels were improved step by step.
    traffic: (messages, bytes) by direction and kind.  ledger, delta: what privacy is reported for.
    origin: of a command, what it was given.  evaluated: whether what no budget paid for is in it.  asides:
    notes on the data, which no budget paid for either.

    counts, cost, scores (None without a known truth), seconds by role and phase, wall (seconds by the clock,
    by part of the work) and finding (what a curious server could rebuild, None if that was not tried) are
    None where no budget paid for them and nobody asked.  risk: of being recognized by opened centers, None
    without any.
    """

    account: Account
    parameters: Mapping[str, Any]
    source: str | None
    n: int
    d: int
    columns: tuple[str, ...] | None
    notes: tuple[str, ...]
    comparison: Comparison | None
    ordinary: Ordinary | None
    resolution: Resolution | None
    quantizer: Quantizer | None
    n_iter: int
    converged: bool
    digests: Mapping[str, str] | None
    curve: Curve | None
    moved: bool
    changes: tuple[int, ...] | None
    steps: int
    centers: Array | None
    withheld: tuple[int, ...]
    traffic: Mapping[str, Mapping[str, tuple[int, int]]]
    learned: tuple[str, ...]
    ledger: Ledger
    delta: float
    liars: Mapping[str, str]
    disputes: tuple[tuple[str, str], ...]
    excluded: tuple[str, ...]
    origin: Origin | None
    evaluated: bool
    cost_known: bool
    counts: Counts | None
    cost: float | None
    scores: Mapping[str, float] | None
    seconds: Mapping[str, Mapping[str, float]] | None
    wall: Mapping[str, float] | None
    finding: Finding | None
    risk: Risk | None
    asides: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Report({self.account.name}, n={self.n}, d={self.d}, k={self.parameters['k']})"

    @property
    def verified(self) -> bool | None:
        """Whether all labels equal plaintext Lloyd's, None if that was not checked."""
        return None if self.comparison is None else self.comparison.equal

    @property
    def noisy(self) -> bool:
        """Whether the run was differentially private."""
        return self.account.delta is not None

    @property
    def labels_paid(self) -> bool:
        """Whether labels follow from what was released: so do their numbers, and row counts are public."""
        return not self.noisy or self.account.follows

    @property
    def publishable(self) -> Report:
        """What of a differentially private run may be published: what is public, or noisy and paid for.

        Raises PrivacyError for a run without a budget: what it released is exact.
        """
        if not self.noisy:
            raise PrivacyError(
                "this run has no budget of differential privacy, so nothing in its report is noisy: run with "
                "an epsilon, or show it to those alone who may see the data"
            )
        left: dict[str, Any] = dict.fromkeys(("cost", "scores", "seconds", "wall", "finding"))
        if not self.labels_paid:
            left |= {"digests": None, "changes": None, "counts": None, "withheld": ()}
        origin = None if self.origin is None else dataclasses.replace(self.origin, files=None)
        return dataclasses.replace(self, **left, origin=origin, asides=(), evaluated=False)


def report(
    result: Clustering,
    *,
    federation: Federation,
    algorithm: Algorithm,
    source: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    ids: str | None = None,
    notes: tuple[str, ...] = (),
    asides: tuple[str, ...] = (),
    comparison: Comparison | None = None,
    ordinary: Ordinary | None = None,
    resolution: Resolution | None = None,
    finding: Finding | None = None,
    wall: Mapping[str, float] | None = None,
    origin: Origin | None = None,
    evaluate: bool = False,
) -> Report:
    """The report of a run of this algorithm on this federation.

    parameters: of the run, besides those of the algorithm: "seed", "sealed".  ids: the column that names
    points.  evaluate: whether a differentially private run also reports what its budget has not paid for.
    All else is as in `Report`, and may be left out.
    """
    account = account_of(algorithm, result, federation, ids)
    quantizer = getattr(result.plan, "quantizer", None)
    rounding: dict[str, Any] = {}
    if isinstance(quantizer, Quantizer):
        rounding = {"scale": quantizer.scale, "bound": quantizer.bound, "rounding": quantizer.rounding}
    told = evaluate or account.delta is None
    labels = in_row_order(result, result.labels)
    delta = DELTA if account.delta is None else account.delta
    found = Report(
        account=account,
        parameters={
            "algorithm": account.name,
            "k": result.k,
            **(parameters or {}),
            **account.parameters,
            **rounding,
        },
        source=source,
        n=federation.n,
        d=federation.d,
        columns=federation.feature_names,
        notes=(*notes, *(note for note in account.notes if note not in notes)),
        comparison=comparison,
        ordinary=ordinary,
        resolution=resolution,
        quantizer=quantizer if rounding else None,
        n_iter=result.n_iter,
        converged=result.converged,
        digests=digests(result, federation),
        curve=result.curve,
        moved=bool(result.history or result.sizes),
        changes=changes(result),
        steps=rounds(result),
        centers=result.centers,
        withheld=result.withheld,
        traffic=result.transcript.summary(),
        learned=result.learned,
        ledger=result.ledger,
        delta=delta,
        liars=result.liars,
        disputes=result.disputes,
        excluded=result.excluded,
        origin=origin,
        evaluated=evaluate,
        cost_known=result.cost is not None,
        counts=counted(result, federation, labels),
        cost=cost(result, federation, labels) if told else None,
        scores=scores(result, federation, labels) if told else None,
        seconds=seconds(result) if told else None,
        wall=wall or {},
        finding=finding,
        risk=risk(result, labels, delta, noisy=account.delta is not None),
        asides=asides,
    )
    return found if told else found.publishable


def changes(result: Clustering) -> tuple[int, ...] | None:
    """How many labels each iteration changed, None where the labels of steps are not known."""
    history = result.history
    if len(history) <= result.n_iter or any(len(a) != len(b) for a, b in pairwise(history)):
        return None
    return tuple(int((a != b).sum()) for a, b in pairwise(history))


def digests(result: Clustering, federation: Federation) -> dict[str, str]:
    """Of each client's labels, and of all."""
    each = zip(federation.names, result.labels, strict=True)
    return {
        **{name: metrics.labels_digest([own]) for name, own in each},
        "": metrics.labels_digest(result.labels),
    }


def account_of(algorithm: Any, result: Clustering, federation: Federation, ids: str | None) -> Account:
    """What an algorithm says of its run; of one that says nothing, its class and its values."""
    if isinstance(algorithm, Scaled):
        inner = account_of(algorithm.algorithm, result, federation, ids)
        scaled = algorithm.parameters(result)
        setup = (*inner.setup, ("Features", algorithm.sentence))
        return dataclasses.replace(inner, parameters={**inner.parameters, **scaled}, setup=setup)
    tell = getattr(algorithm, "account", None)
    if tell is not None:
        found: Account = tell(result, federation, ids=ids)
        return found
    kind = type(algorithm)
    said = (kind.__doc__ or "").strip().splitlines() or [kind.__name__]
    # A dataclass without words of its own has its signature there.
    title = kind.__name__ if said[0].startswith(f"{kind.__name__}(") else said[0].rstrip(".")
    names = [field.name for field in dataclasses.fields(algorithm)] if dataclasses.is_dataclass(kind) else []
    values = {name: getattr(algorithm, name) for name in names if name != "k"}
    plain = {
        name: value if value is None or isinstance(value, bool | int | float | str) else repr(value)
        for name, value in values.items()
    }
    # A ledger that claims something may have paid for centers only: nothing that labels tell is told.
    private = math.isfinite(result.ledger.epsilon(DELTA, EVERYBODY))
    return Account(kind.__name__, title, plain, delta=DELTA if private else None, follows=False)


def counted(result: Clustering, federation: Federation, labels: Array) -> Counts:
    """Numbers of points, of which labels (m,) stand for each once; those of no cluster are -1."""
    clients = dict(zip(federation.names, federation.counts, strict=True))
    own = labels[labels >= 0]
    return Counts(len(own), federation.m, clients, tuple(np.bincount(own, minlength=result.k).tolist()))


def cost(result: Clustering, federation: Federation, labels: Array) -> float:
    """Sum of squared distances to the cluster means; computed on the pooled data if hidden."""
    if result.cost is not None:
        return result.cost
    if federation.observed is not None:
        return metrics.observed_cost(federation.stacked(), np.concatenate(result.labels), result.k)
    points, kept = pooled(federation, result).stacked(), labels >= 0
    return metrics.cost(points[kept], labels[kept], result.k)


def scores(result: Clustering, federation: Federation, labels: Array) -> dict[str, float] | None:
    """How well labels (m,) match the truth, None if there is none."""
    parts = [party.truth for party in federation.parties if party.truth is not None]
    if len(parts) < federation.n:
        return None
    truth, labels = in_row_order(result, parts)[labels >= 0], labels[labels >= 0]
    return {
        "accuracy": metrics.accuracy(truth, labels),
        "adjusted_rand": metrics.adjusted_rand(truth, labels),
        "purity": metrics.purity(truth, labels),
    }
