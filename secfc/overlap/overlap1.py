"""Algorithm 1 of Maritan and Schenato: global centroids that clients and server update in turns.  Not
private.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, cast

import numpy as np

from field.arrays import Array
from field.secrets.coins import Coins
from secfc.algorithm import Capabilities, Clustering, PartyOutcome, PublicFacts
from secfc.data.federation import Federation
from secfc.data.inputs import REAL, check_fields, positive_integer, refuse_without_method
from secfc.data.party import Party
from secfc.errors import FaultyClient, FaultyServer, IncompatibleOptions, InputError
from secfc.federated.model import FloatLabeler, nearest_known
from secfc.overlap.local import (
    AFFINITIES,
    Affinity,
    KMeansSteps,
    Refiner,
    find_mean,
    find_medoid,
    merge_centroids,
    point_outwards,
)
from secfc.overlap.matching import match_at_client, match_at_server
from secfc.overlap.messages import AlignedCentroids, GlobalCentroids
from secfc.overlap.plan import OpenPlan, complete_clustering, scatter_features
from secfc.overlap.starts import Automatic, MatchingStart, MatchingWord, parse_matching_start
from secfc.roles.agreement import agree_with_server
from secfc.roles.description import LOCAL
from secfc.roles.exchange import (
    ITERATE,
    SERVER,
    STRIDE,
    Exchange,
    PartyId,
    Role,
    SimulatedRun,
    expect_all,
    expect_messages,
    expect_one,
)
from secfc.run_summary import RunSummary

METRICS: dict[Affinity, str] = {"euclidean": "sqeuclidean", "cosine": "cosine"}  # of SciPy


@dataclass(frozen=True, eq=False, repr=False)
class OverlapResult:
    """What a party has in the end: centers on its features, a client its labels too, the server words."""

    centers: Array
    labels: Array | None = None
    said: tuple[str, ...] = ()


class PaperAlgorithm(ABC):
    """What both algorithms of the paper say of themselves, and who ends a run with what."""

    learned_by_clients: ClassVar[str]
    rounds: int = 1
    affinity: Affinity = "euclidean"

    @abstractmethod
    def account(self, result: Clustering, federation: Federation, *, ids: str | None = None) -> RunSummary:
        """What reports say of a run."""

    @abstractmethod
    def learned_by_server(self, plan: OpenPlan) -> str:
        """What the server learns, in a sentence."""

    @property
    def capabilities(self) -> Capabilities:
        """Clients may observe different features."""
        return Capabilities(partial=True, account=self.account)

    def outcome(self, plan: OpenPlan, party: PartyId, returned: OverlapResult) -> PartyOutcome:
        """Labels of a client's points, and centers on its features; the server's centers on shared ones."""
        columns, share = plan.columns, returned.centers
        if party != SERVER:
            centers = scatter_features(columns, share, columns.mine(party).features)
            heard = (self.learned_by_clients,)
            return PartyOutcome(
                party, plan, labels=returned.labels, centers=centers, learned=heard, share=share
            )
        learned = (self.learned_by_server(plan), *returned.said)
        centers = scatter_features(columns, share, columns.shared)
        return PartyOutcome(
            SERVER, plan, centers=centers, n_iter=self.rounds, converged=True, learned=learned, share=share
        )

    def collect(
        self, outcomes: Mapping[PartyId, PartyOutcome], run: SimulatedRun, counts: tuple[int, ...]
    ) -> Clustering:
        """The clustering; its cost is not known to any party, see `metrics.observed_cost`."""
        labelers = {
            name: FloatLabeler(outcome.share, METRICS[self.affinity]) for name, outcome in outcomes.items()
        }
        return complete_clustering(outcomes, run, counts, k=len(outcomes[SERVER].share), labelers=labelers)


@dataclass(frozen=True)
class Overlap1(PaperAlgorithm):
    """Federated clustering of masked data, in rounds of local and global centroids.

    Parameters
    ----------
    k
        Number of clusters.
    start
        How local clusters are matched; `Automatic(paper=True)` follows the paper.
    rounds
        Number of federated rounds (F of the paper).
    alpha
        Step of global centroids towards new ones, in (0, 1].
    refiner
        How a client improves its clusters in a round: `KMeansSteps`, `MedoidSteps`, or `ExternalSteps` around
        any clusterer that starts from given centers.  Each site chooses its own.
    least
        Own points that a client needs to take part in a cluster, from 1 on.
    affinity
        How points and centroids are compared: "euclidean" or "cosine".
    send
        What represents a client's cluster: "means", or "medoids", which are rows of its data.

    Notes
    -----
    In every round the server sees each client's centroids on features that others observe too.  Features that
    one client alone observes are not sent, since no other client has values to merge with.
    """

    k: int
    start: MatchingStart | MatchingWord = field(default_factory=lambda: Automatic(paper=True))
    rounds: int = 3
    alpha: float = 0.8
    refiner: Refiner = field(default=KMeansSteps(), metadata=LOCAL)
    least: int = 1
    affinity: Affinity = "euclidean"
    send: Literal["means", "medoids"] = "means"
    learned_by_clients: ClassVar[str] = "the global centroids on its features, in every round"

    def __post_init__(self) -> None:
        for name in ("k", "rounds", "least"):
            positive_integer(name, getattr(self, name))
        for name, words in (("affinity", AFFINITIES), ("send", ("means", "medoids"))):
            if getattr(self, name) not in words:
                raise InputError(f"{name}={getattr(self, name)!r}: use one of {', '.join(map(repr, words))}")
        if isinstance(self.start, str):
            object.__setattr__(self, "start", parse_matching_start(self.start))
        check_fields(
            self,
            {
                "alpha": REAL,
                "start": refuse_without_method("local", "a start", "Automatic(paper=True), or its word"),
                "refiner": refuse_without_method("refine_labels", "a refiner", "KMeansSteps(3)"),
            },
        )
        if not 0 < self.alpha <= 1:
            raise InputError(f"alpha={self.alpha}: a step lies above 0, and at most at 1. Correct it")

    def plan(self, public: PublicFacts) -> OpenPlan:
        """Raises ValueError, InputError for clients that no feature connects, or a start over distances."""
        if getattr(self.start, "over", "centroids") != "centroids":
            raise IncompatibleOptions(
                {"start": "synchronized-distances", "algorithm": "overlap-1"},
                "the server sees centroids in every round, so a start that hides them has no use",
                [("algorithm", "federated-lloyd"), ("start", "paper")],
            )
        return OpenPlan.of(self, public, self.k)

    def client(self, plan: OpenPlan, party: Party, *, coins: Coins) -> Role[OverlapResult]:
        """Lines 2, 3 and 13 to 19: cluster, and in each round improve what is compatible, and align it."""
        yield from agree_with_server(plan, party.name)
        points = plan.columns.rows(party).astype(np.float64)
        labels = yield from match_at_client(
            plan, cast(MatchingStart, self.start), party.name, points, coins, self.find_center
        )
        mine = plan.columns.mine(party.name)
        whole = centers_of(points, labels, plan.k, self.find_center)
        reply: dict[PartyId, Any] = {}
        for number in range(self.rounds + 1):
            at = ITERATE + number * STRIDE
            inbox = yield Exchange(
                reply, (SERVER,), round=at - STRIDE * bool(reply), accept=at, phase="cluster"
            )
            told = expect_one(expect_messages(inbox, GlobalCentroids), SERVER)
            if told.centers.shape != (plan.k, len(mine.shared)) or told.last != (number == self.rounds):
                raise FaultyServer(SERVER, f"sends centroids of shape {told.centers.shape}, or out of turn")
            whole[:, mine.inside] = told.centers
            if told.last:
                break
            found, weights = self.align_centroids(points, whole)
            reply = {SERVER: AlignedCentroids(found[:, mine.inside], weights)}
            whole = damped_update(whole, found, self.alpha)
        return OverlapResult(whole, self.find_nearest(points, whole))

    def align_centroids(self, points: Array, centers: Array) -> tuple[Array, Array]:
        """Lines 14 to 19: local centroids (k, d_j) in the places of global ones, NaN where none, and their
        rows.
        """
        from scipy.optimize import linear_sum_assignment
        from scipy.spatial.distance import cdist

        k = len(centers)
        found, weights = np.full(centers.shape, np.nan), np.zeros(k, np.int64)
        known = np.flatnonzero(~np.isnan(centers).any(axis=1))
        first = self.find_nearest(points, centers)
        many = np.bincount(first[first >= 0], minlength=k)
        fits = known[many[known] >= self.least]
        if not len(fits):
            return found, weights
        fits = fits[: len(points)]
        rows, begin = (
            (point_outwards(points), point_outwards(centers[fits]))
            if self.affinity == "cosine"
            else (points, centers[fits])
        )
        labels = self.refiner.refine_labels(rows, begin)
        used = np.unique(labels)
        local = np.stack([self.find_center(points[labels == a]) for a in used])
        apart = np.nan_to_num(cdist(centers[known], local, self.affinity), nan=1.0)
        places, own = linear_sum_assignment(apart)
        found[known[places]] = local[own]
        weights[known[places]] = np.bincount(labels)[used][own]
        return found, weights

    def server(self, plan: OpenPlan, *, rng: np.random.Generator, coins: Coins) -> Role[OverlapResult]:
        """Lines 4 to 11 and 21: match local clusters, then merge what clients aligned, step by step."""
        yield from agree_with_server(plan, SERVER)
        matched = yield from match_at_server(plan, cast(MatchingStart, self.start), self.affinity)
        found, columns = matched.found, plan.columns
        centers = np.stack([found.merged(np.flatnonzero(matched.groups.labels == h)) for h in range(plan.k)])
        for number in range(self.rounds + 1):
            at, last = ITERATE + number * STRIDE, number == self.rounds
            told = {c: GlobalCentroids(centers[:, columns.mine(c).shared], last) for c in plan.clients}
            inbox = yield Exchange(told, () if last else plan.clients, round=at, phase="merge")
            if last:
                break
            heard = expect_all(expect_messages(inbox, AlignedCentroids), plan.clients)
            centers = damped_update(centers, merge_aligned(columns, heard, plan.k), self.alpha)
        return OverlapResult(centers, said=matched.groups.said)

    def find_center(self, points: Array) -> Array:
        """What stands for a cluster's points (m_a, d_j): (d_j,)."""
        return find_mean(points) if self.send == "means" else find_medoid(points, self.affinity)

    def find_nearest(self, points: Array, centers: Array) -> Array:
        """The nearest of centers (k, d_j) without gaps, by point: (m_j,) int32."""
        return nearest_known(points, centers, METRICS[self.affinity])

    def learned_by_server(self, plan: OpenPlan) -> str:
        what = "centroids" if self.send == "means" else "medoids, which are rows of its data,"
        return (
            f"every client's {what} on the {len(plan.columns.shared)} features that others observe too, "
            f"and rows of each, at the start and in {self.rounds} rounds: whose they are is known"
        )

    def account(self, result: Clustering, federation: Federation, *, ids: str | None = None) -> RunSummary:
        """What reports say of a run."""
        return RunSummary(
            "overlap-1",
            "Algorithm 1 for partly shared features: federated clustering, not private",
            {
                "start": type(self.start).__name__,
                "rounds": self.rounds,
                "alpha": self.alpha,
                "affinity": self.affinity,
                "send": self.send,
            },
            setup=tuple(("Features", sentence) for sentence in result.plan.columns.sentences()),
        )


def centers_of(points: Array, labels: Array, k: int, center: Callable[[Array], Array] = find_mean) -> Array:
    """Centers (k, d) of points by label, NaN of no points."""
    found = np.full((k, points.shape[1]), np.nan)
    for h in np.unique(labels[labels >= 0]):
        found[h] = center(points[labels == h])
    return found


def damped_update(old: Array, new: Array, alpha: float) -> Array:
    """Line 21, (1 - alpha) old + alpha new; a coordinate new to a center is taken whole, one without news
    stays.
    """
    step = np.where(np.isnan(old), new, (1 - alpha) * old + alpha * new)
    return np.asarray(np.where(np.isnan(new), old, step))


def merge_aligned(columns: Any, heard: Mapping[PartyId, AlignedCentroids], k: int) -> Array:
    """Eq. 4 of what clients aligned, on shared features: (k, s).  Raises FaultyClient."""
    names = [columns.clients[j] for j in columns.by_name]
    values = np.full((len(names), k, len(columns.shared)), np.nan)
    weights = np.zeros((len(names), k))
    for j, client in enumerate(names):
        sent, mine = heard[client], columns.mine(client)
        if sent.centers.shape != (k, len(mine.shared)):
            raise FaultyClient(client, f"aligned centroids of shape {sent.centers.shape}")
        values[j][:, mine.shared] = sent.centers
        weights[j] = sent.weights
    return np.stack([merge_centroids(values[:, h], weights[:, h]) for h in range(k)])
