"""A finished run as data: made once from a result, and shown by renderers that compute nothing.

`make_report` takes what any algorithm gives back.  What only some runs have is handed to it: a comparison
with plaintext k-means, attacks that were tried, the command line.  A report holds names, counts, parameters,
scores, times and, where the algorithm made them public, centers; never a point and never an id.  What a
budget of differential privacy has not paid for is not in it at all, unless it was asked for.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

import secfc
from field.arrays import Array
from field.ring.quantize import Quantizer
from secfc import metrics
from secfc.algorithm import Algorithm, Clustering, PartyOutcome
from secfc.data.clusters import ClusterProfile
from secfc.data.federation import Federation
from secfc.data.inputs import names_listed
from secfc.data.party import Party
from secfc.data.resolution import Resolution
from secfc.errors import InputError, PrivacyError
from secfc.kmeans.centers import FloatComparison
from secfc.kmeans.elbow import CostCurve
from secfc.metrics import labels_digest as labels_digest
from secfc.privacy.audit import GaussianShift, max_detection_rate
from secfc.privacy.ledger import EVERYBODY, Ledger
from secfc.report.clusters import Stability
from secfc.report.costs import count_rounds, phase_seconds
from secfc.report.leakage import ServerFinding
from secfc.run_summary import RunSummary
from secfc.scaling.algorithm import Scaled

# --------------------------------------------------------------------------------------------------
# Digests of labels, as reports show them.


# --------------------------------------------------------------------------------------------------
# Where a result came from: the command, the time, the files, and columns that may be no features.


ROWS = 1000  # that decide first whether a column may be an ID
FEW = 10  # rows, which may all differ by chance; and people, of whom a number tells strangers too much


@dataclass(frozen=True)
class Origin:
    """command: as it was given.  started: when, in UTC, ISO 8601.  files: path, bytes and SHA-256 of each,
    None if no budget paid for them.
    """

    command: str
    started: str
    files: tuple[dict[str, Any], ...] | None = ()


def file_digests(files: Iterable[Path]) -> tuple[dict[str, Any], ...]:
    """Path, bytes and SHA-256 of every file.  Raises OSError."""
    found = []
    for path in files:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        found.append({"path": str(path), "bytes": path.stat().st_size, "sha256": digest})
    return tuple(found)


def may_be_id(federation: Federation, feature: int) -> str:
    """A column that may be no feature, in words."""
    names = federation.feature_names
    which = f"column {feature} (counted from 0)" if names is None else f"column {names[feature]!r}"
    return (
        f"{which} holds a different whole number in every row of a client, and was clustered as a feature: "
        "if these are IDs, name it with --id-column, or leave it out with --exclude"
    )


def unmatched_columns(federation: Federation) -> tuple[str, ...]:
    """Columns that were matched by name and came to nothing, in words."""
    notes = []
    if lost := federation.unobserved:
        notes.append(f"{names_listed(lost)}: empty at every client that has it, so left out")
    if apart := federation.aside:
        shown = names_listed(federation.feature_names or ())
        notes.append(
            f"clustered on the columns that all clients have: {shown}; left out: {names_listed(apart)}"
        )
    return tuple(notes)


def look_like_ids(federation: Federation) -> tuple[int, ...]:
    """Features that hold a different whole number in every row of a client; none if all have few rows."""
    if max(federation.counts) < FEW:
        return ()
    features, places = list(range(federation.d)), columns_by_feature(federation)
    for party, place in zip(federation.parties, places, strict=True):
        first = np.asarray(party.points[0 : min(ROWS, party.points.shape[0])])
        features = [f for f in features if f not in place or are_distinct_integers([first[:, place[f]]])]
    for party, place in zip(federation.parties, places, strict=True):
        if features and party.points.shape[0] > ROWS:
            repeated = repeating_features(party, {f: place[f] for f in features if f in place})
            features = [f for f in features if f not in repeated]
    return tuple(features)


def columns_by_feature(federation: Federation) -> list[dict[int, int]]:
    """The column of each feature that a client observes, client by client."""
    observed = federation.observed or [range(federation.d)] * federation.n
    return [{feature: column for column, feature in enumerate(own)} for own in observed]


def repeating_features(party: Party, place: Mapping[int, int]) -> set[int]:
    """Which of these features, by their columns, do not hold a different whole number in every row."""
    columns: dict[int, list[Array]] = {f: [] for f in place}
    for start in range(0, party.points.shape[0], ROWS):
        block = np.asarray(party.points[start : start + ROWS])
        for f, values in columns.items():
            values.append(np.array(block[:, place[f]]))
    return {f for f, values in columns.items() if not are_distinct_integers(values)}


def are_distinct_integers(parts: Sequence[Array]) -> bool:
    """Whether these values, but for those that are missing, are whole numbers, no two the same."""
    values = np.concatenate(parts)
    if values.dtype.kind == "f":
        values = values[~np.isnan(values)]
    if values.dtype.kind == "f" and not bool((np.rint(values) == values).all()):
        return False
    return 0 < len(np.unique(values)) == len(values)


# --------------------------------------------------------------------------------------------------
# The labels of a run in the order of its rows, and their comparison with plaintext k-means.


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


def pool_points(federation: Federation, result: Clustering) -> Federation:
    """The points of all clients, each once and in the order of rows, as those of one client."""
    if federation.observed is not None:
        return Federation.from_arrays([federation.join_columns(result.rows or ())])
    return Federation.from_arrays([in_row_order(result, [party.read() for party in federation.parties])])


@dataclass(frozen=True)
class Comparison:
    """The labels of the protocol against those of plaintext Lloyd, step by step.

    steps: iterations of the protocol.  first: the first one whose labels differ, 0 for the start,
    None if all are equal.  points: how many labels differ there, 0 if one of the two had stopped.
    ends: whether only the start and the end could be compared, as nobody knows the labels between.
    sizes: whether of all steps but the last only sizes could be.  beside: what else than Lloyd it was.
    """

    steps: int
    first: int | None = None
    points: int = 0
    ends: bool = False
    sizes: bool = False
    beside: str = ""

    @property
    def equal(self) -> bool:
        """Whether every labeling is the same."""
        return self.first is None


def compare_labelings(secure: Clustering, plain: Clustering) -> Comparison:
    """Every labeling of two runs against each other: starts, all iterations, results.

    Raises ValueError if the protocol kept no history: then nothing could be compared.
    """
    if secure.sizes:
        return _compare_sizes(secure, plain)
    if not secure.history:
        raise InputError("the result has no history of labels: only SecFC can be compared step by step")
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
    """Compare two runs where the history holds the start and the end only."""
    steps = secure.n_iter
    if not np.array_equal(secure.history[0], plain.history[0]):
        return Comparison(steps, 0, int((secure.history[0] != plain.history[0]).sum()), ends=True)
    last, theirs = _final(secure), _final(plain)
    if not np.array_equal(last, theirs):
        return Comparison(steps, steps, int((last != theirs).sum()), ends=True)
    return Comparison(steps, ends=True)


def _compare_sizes(secure: Clustering, plain: Clustering) -> Comparison:
    """Compare two runs where only owners know labels: sizes of every step, and the labels that all have."""
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


# --------------------------------------------------------------------------------------------------
# What a run costs in differential privacy, by view: in sentences and for programs.

DELTA = 1e-6  # for runs that name none


# --------------------------------------------------------------------------------------------------
# What opened centers tell of who was clustered: the law for exact ones, the budget for noisy ones.
#
# A center of s points of d independent features tells whoever knows their law whether a person is among them
# with a shift of sqrt(d / s) (`secfc.attacks.membership`): the smallest cluster is the most at risk.  With
# dependent features it is as of fewer, so this is the law's figure at most.  Under differential privacy
# nobody detects more than the budget allows, whatever is known.

ALARMS = 0.01


@dataclass(frozen=True)
class Risk:
    """How many of 1 that took part are recognized at a rate `alarms` of false alarms.

    size: points of the smallest cluster whose center is open, and shift: of one of them, both None where the
    centers carry noise.  auc: how often a member looks more like one than another person does, None then.
    detected: expected of exact centers, and at most of noisy ones.  unit: who is recognized.
    """

    detected: float
    alarms: float
    size: int | None = None
    shift: float | None = None
    auc: float | None = None
    unit: str = "data point"

    @property
    def sentence(self) -> str:
        """For people."""
        hundred = f"{100 * self.detected:.0f} of 100" if self.detected >= 0.005 else "fewer than 1 of 100"
        at = f"at {100 * self.alarms:.0f} false alarm in 100"
        if self.size is None:
            who = "clients" if self.unit == "client" else "people"
            return f"whoever took part: at most {hundred} {who} are recognized {at}, whatever is known"
        points = "1 point" if self.size == 1 else f"{self.size:,} points"
        said = (
            f"the smallest cluster whose center is open has {points}: who knows the law of the data "
            f"recognizes about {hundred} of its people {at} (shift sqrt(d / size) = {self.shift:.2f}; less "
            "where features depend on one another)"
        )
        return f"{said}. The center of one point is that point" if self.size == 1 else said

    def as_object(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


def identity_risk(
    result: Clustering | PartyOutcome, labels: Any, delta: float, *, noisy: bool
) -> Risk | None:
    """The risk of a run with labels (m,), None where no center was opened, or none has a point.

    noisy: whether a budget covers what was released, which is at this delta.
    """
    centers = result.centers
    if centers is None or not np.isfinite(centers).any():
        return None
    if noisy:
        epsilon = result.ledger.epsilon(delta, EVERYBODY)
        if math.isinf(epsilon):
            return None
        return Risk(max_detection_rate(epsilon, delta, ALARMS), ALARMS, unit=result.ledger.neighbors.unit)
    sizes = np.bincount(labels[labels >= 0], minlength=len(centers))[: len(centers)]
    # Features that a cluster's clients do not observe are no coordinates of its center.
    known = np.isfinite(centers).sum(axis=1)
    there = (sizes > 0) & (known > 0)
    if not there.any():
        return None
    shifts = np.where(there, np.sqrt(known / np.maximum(sizes, 1)), 0.0)
    h = int(shifts.argmax())
    law = GaussianShift(float(shifts[h]))
    return Risk(law.detection_rate(ALARMS), ALARMS, int(sizes[h]), law.mu, law.auc)


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RowCounts:
    """Numbers of points: m that were clustered, held by all clients together, of each client and cluster.

    held, clients, clusters: None where strangers read it and a number in it, or what follows, is small.
    """

    m: int
    held: int | None
    clients: Mapping[str, int] | None
    clusters: tuple[int, ...] | None

    @property
    def public(self) -> RowCounts | None:
        """What strangers may read of it, None if there are few points in all.

        All numbers of clients, or of clusters, go together: of all but one the last follows.
        """
        if tells_of_few(self.m):
            return None
        # Numbers of clients add up to what all hold, so they would tell how many rows lie at several.
        held = None if self.held is None or tells_of_few(self.held - self.m) else self.held
        clients = self.clients if held is not None and not _any_few(self.clients) else None
        sizes = self.clusters or ()
        clusters = None if _any_few(dict(enumerate((*sizes, self.m - sum(sizes))))) else self.clusters
        return RowCounts(self.m, held, clients, clusters)


def tells_of_few(many: int) -> bool:
    """Whether a number of people is from 1 to 9, so that it tells of each of them."""
    return 0 < many < FEW


def _any_few(counts: Mapping[Any, int] | None) -> bool:
    return counts is not None and any(map(tells_of_few, counts.values()))


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """A finished run, for people and programs.

    account: what the algorithm says of itself.  parameters: of the run, by name, in plain values.
    source: where the points came from.  columns: names of the d features.  notes: what the user should know
    about choices made for them.  comparison: None if nothing was verified.  ordinary: the labels against
    k-means on the unrounded points, None if that was not compared.  resolution: steps of rounding within the
    spread of each feature, None if not judged.  quantizer: how points became integers, None if they did not.
    digests: of every client's labels, by name, and of all under "" (`secfc.metrics.labels_digest`); None
    where no budget paid for labels.  curve: the costs by which k was chosen, None if it was given; of what a
    policy opens, so under a budget they are paid for.  held: by a floor, as in `Clustering`.
    withheld: clusters with points whose centers stay closed where others are open.
    changes: how many labels every iteration changed, None if nobody knows.
    steps: how often distances were asked for.  moved: whether labels were improved step by step.
    traffic: (messages, bytes) by direction and kind.  ledger, delta: what privacy is reported for.
    origin: of a command, what it was given.  evaluated: whether what no budget paid for is in it.  asides:
    notes on the data, which no budget paid for either.

    counts, cost, scores (None without a known truth), seconds by role and phase, wall (seconds by the clock,
    by part of the work) and finding (what a curious server could rebuild, None if that was not tried) are
    None where no budget paid for them and nobody asked.  profile: what the clusters are, and stability: over
    starts, None where that may not be told.  risk: of being recognized by opened centers, None without any.
    """

    account: RunSummary
    parameters: Mapping[str, Any]
    source: str | None
    n: int
    d: int
    columns: tuple[str, ...] | None
    notes: tuple[str, ...]
    comparison: Comparison | None
    ordinary: FloatComparison | None
    resolution: Resolution | None
    quantizer: Quantizer | None
    n_iter: int
    converged: bool
    held: int | None
    digests: Mapping[str, str] | None
    curve: CostCurve | None
    moved: bool
    changes: tuple[int, ...] | None
    steps: int
    centers: Array | None
    withheld: tuple[int, ...]
    traffic: Mapping[str, Mapping[str, tuple[int, int]]]
    learned: tuple[str, ...]
    ledger: Ledger
    delta: float
    deviated: Mapping[str, str]
    disputes: tuple[tuple[str, str], ...]
    excluded: tuple[str, ...]
    origin: Origin | None
    evaluated: bool
    cost_known: bool
    counts: RowCounts | None
    cost: float | None
    scores: Mapping[str, float] | None
    seconds: Mapping[str, Mapping[str, float]] | None
    wall: Mapping[str, float] | None
    finding: ServerFinding | None
    risk: Risk | None
    asides: tuple[str, ...] = ()
    profile: ClusterProfile | None = None
    stability: Stability | None = None

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
    def simulated(self) -> bool:
        """Whether one computer played all parties: between organizations nobody counts all messages."""
        return bool(self.traffic)

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
        left: dict[str, Any] = dict.fromkeys(
            ("cost", "scores", "seconds", "wall", "finding", "profile", "stability")
        )
        if not self.labels_paid:
            left |= {"digests": None, "changes": None, "counts": None, "withheld": ()}
        return dataclasses.replace(self, **left, **self._of_strangers, evaluated=False)

    @property
    def public(self) -> Report:
        """What strangers may read: of a run without a budget what follows from it but tells of nobody alone.

        Left out are the digest of labels, which confirms guesses (of 4 rows in two clusters 16 are enough),
        opened centers, costs and scores, notes on data, and every number of people from 1 to 9.
        """
        if self.noisy:
            return self.publishable
        left: dict[str, Any] = dict.fromkeys(("digests", "centers", "cost", "scores", "profile", "stability"))
        if self.ordinary is not None and tells_of_few(self.ordinary.points - self.ordinary.equal):
            few = f"On the unrounded data ordinary k-means has another label for fewer than {FEW} points."
            left |= {"ordinary": None, "notes": (*self.notes, few)}
        elif self.ordinary is not None and tells_of_few(self.ordinary.ties):
            left["ordinary"] = dataclasses.replace(self.ordinary, ties=0)
        if self.risk is not None and self.risk.size is not None and tells_of_few(self.risk.size):
            left["risk"] = None
        if self.changes is not None:
            small = next((i for i, many in enumerate(self.changes) if tells_of_few(many)), None)
            left["changes"] = self.changes[:small]
        return dataclasses.replace(
            self,
            **left,
            **self._of_strangers,
            withheld=(),
            counts=None if self.counts is None else self.counts.public,
        )

    @property
    def _of_strangers(self) -> dict[str, Any]:
        origin = None if self.origin is None else dataclasses.replace(self.origin, files=None)
        return {"origin": origin, "asides": ()}


def make_report(
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
    ordinary: FloatComparison | None = None,
    resolution: Resolution | None = None,
    finding: ServerFinding | None = None,
    wall: Mapping[str, float] | None = None,
    origin: Origin | None = None,
    evaluate: bool = False,
    profile: ClusterProfile | None = None,
) -> Report:
    """Report of a run of this algorithm on this federation.

    Parameters
    ----------
    result
        Result of the run.
    federation
        Data of the run.
    algorithm
        Algorithm of the run.
    source
        Where the data come from, in words.
    parameters
        Parameters of the run besides those of the algorithm: "seed", "sealed".
    ids
        Column that names points.
    notes, asides, comparison, ordinary, resolution, finding, wall, origin
        Fields of `Report`; each may be left out.
    evaluate
        Whether a differentially private run also reports what its budget has not paid for.
    profile
        What the clusters are, as in `Report`.

    Returns
    -------
    Report
        Figures and sentences of the run; no point and no ID.
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
        held=result.held,
        digests=label_digests(result, federation),
        curve=result.curve,
        moved=bool(result.history or result.sizes),
        changes=changes_by_iteration(result),
        steps=count_rounds(result),
        centers=result.centers,
        withheld=result.withheld,
        traffic=result.transcript.summary(),
        learned=result.learned,
        ledger=result.ledger,
        delta=delta,
        deviated=result.deviated,
        disputes=result.disputes,
        excluded=result.excluded,
        origin=origin,
        evaluated=evaluate,
        cost_known=result.cost is not None,
        counts=row_counts(result, federation, labels, account.outside),
        cost=clustering_cost(result, federation, labels) if told else None,
        scores=truth_scores(result, federation, labels) if told else None,
        seconds=phase_seconds(result) if told else None,
        wall=wall or {},
        finding=finding,
        risk=identity_risk(result, labels, delta, noisy=account.delta is not None),
        asides=asides,
        profile=profile if told else None,
        stability=Stability.of(result.stability, account.parameters),
    )
    return found if told else found.publishable


def changes_by_iteration(result: Clustering) -> tuple[int, ...] | None:
    """How many labels each iteration changed, None where the labels of steps are not known."""
    history = result.history
    if len(history) <= result.n_iter or any(len(a) != len(b) for a, b in pairwise(history)):
        return None
    return tuple(int((a != b).sum()) for a, b in pairwise(history))


def label_digests(result: Clustering, federation: Federation) -> dict[str, str]:
    """Digests of each client's labels, and of all."""
    each = zip(federation.names, result.labels, strict=True)
    return {
        **{name: metrics.labels_digest([own]) for name, own in each},
        "": metrics.labels_digest(result.labels),
    }


def account_of(algorithm: Any, result: Clustering, federation: Federation, ids: str | None) -> RunSummary:
    """What an algorithm says of its run; of one that says nothing, its class and its values."""
    if isinstance(algorithm, Scaled):
        inner = account_of(algorithm.algorithm, result, federation, ids)
        scaled = algorithm.parameters(result)
        setup = (*inner.setup, ("Features", algorithm.sentence))
        return dataclasses.replace(inner, parameters={**inner.parameters, **scaled}, setup=setup)
    if (tell := algorithm.capabilities.account) is not None:
        found: RunSummary = tell(result, federation, ids=ids)
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
    return RunSummary(kind.__name__, title, plain, delta=DELTA if private else None, follows=False)


def row_counts(result: Clustering, federation: Federation, labels: Array, outside: int) -> RowCounts:
    """Numbers of points, of which labels (m,) stand for each once; -1 for lost ones and `outside` others."""
    clients = dict(zip(federation.names, federation.counts, strict=True))
    sizes = np.bincount(labels[labels >= 0], minlength=result.k).tolist()
    return RowCounts(sum(sizes) + outside, federation.m, clients, tuple(sizes))


def clustering_cost(result: Clustering, federation: Federation, labels: Array) -> float | None:
    """Sum of squared distances to the cluster means, on pooled data if hidden; None without clusters."""
    if result.cost is not None or not (labels >= 0).any():
        return result.cost
    if federation.observed is not None and result.rows is None:
        return metrics.observed_cost(federation.stacked(), np.concatenate(result.labels), result.k)
    points, kept = pool_points(federation, result).stacked(), labels >= 0
    return metrics.cost(points[kept], labels[kept], result.k)


def truth_scores(result: Clustering, federation: Federation, labels: Array) -> dict[str, float] | None:
    """How well labels (m,) match the truth, None if there is none."""
    parts = [party.truth for party in federation.parties if party.truth is not None]
    if len(parts) < federation.n or not (labels >= 0).any():
        return None
    truth, labels = in_row_order(result, parts)[labels >= 0], labels[labels >= 0]
    return {
        "accuracy": metrics.accuracy(truth, labels),
        "adjusted_rand": metrics.adjusted_rand(truth, labels),
        "purity": metrics.purity(truth, labels),
    }


# --------------------------------------------------------------------------------------------------
# What computed a result.


def library_versions() -> dict[str, str]:
    """Versions of this package, of Python, and of what computes."""
    return {
        "secfc": secfc.__version__,
        "python": platform.python_version(),
        "numpy": importlib.metadata.version("numpy"),
        "numba": importlib.metadata.version("numba"),
    }
