"""Clusterings of pairs, on the shares of SecFC: which two points are near, and what follows from that.

Rows are shared and tested as in `secfc.coded_kmeans.algorithm1`.  Then it is asked about every two points:
each is a cluster of its own, clients have shares of all squared distances, and their committee compares each
with a public square (`Operation.WITHIN`).  The bits go to the server, re-randomized, and to nobody else; what
it makes of them is all that a clusterer adds (`PairClusterer.label_points`), and each client is told the
labels of its own rows.

A question is about as many pairs as fit in memory: of points in blocks first those of each block, with the
first point of all, then those between each two blocks.  Replies are checked before a bit leaves the committee
(`field.code.pair_check`), each question by itself, and where two play each part what the committee says is
too.
"""

from __future__ import annotations

import math
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import partial
from itertools import combinations
from typing import Any, ClassVar, cast

import numpy as np

from field.arrays import Array
from field.code.rows import RunningSums
from field.ring.quantize import distance_bound
from field.secrets.coins import Coins
from secfc.algorithm import Capabilities, Clustering, PartyOutcome, PublicFacts, join_outcomes
from secfc.coded.parameters import Quantization, Runtime, Threshold, parse_threshold
from secfc.coded.plan import CodedPlan
from secfc.coded.policy import DistanceOracle, ExactPolicy, PolicyCapabilities
from secfc.coded.queries import Operation, Query, Subject, receive_query
from secfc.coded.quorum import BlameState, Screening
from secfc.coded.sharing import answer_query, settle_contributors, settle_contributors_at_server
from secfc.coded.source import CodedSource, decode_scaled_distances
from secfc.coded_kmeans.algorithm1 import (
    agree_on_plan,
    check_terms,
    contribute_rows,
    share_rows_and_await,
    share_rows_in_storage,
)
from secfc.coded_kmeans.run_summary import deviation_note, threat_model
from secfc.coded_kmeans.secfc import SecFC
from secfc.data.inputs import REAL, SWITCH, WHOLE, check_fields, format_value, instance_of
from secfc.data.party import Party
from secfc.data.resolution import check_resolution_at_site
from secfc.disclosure import AssignmentsOnly, Distances
from secfc.disclosure.compare.candidates import NearPairs, candidates_in
from secfc.disclosure.compare.client import ComparisonClient
from secfc.disclosure.compare.session import CommitteeChoice
from secfc.errors import Caution, FaultyServer, InputError
from secfc.kmeans.starts import RandomLabels
from secfc.roles.blame import suspect_parties
from secfc.roles.description import LOCAL, RunTerms
from secfc.roles.exchange import ITERATE, SERVER, Exchange, PartyId, Role, SimulatedRun
from secfc.roles.messages import InputPartyResult, Message, compact_labels
from secfc.run_summary import RunSummary

# Points at most: by what the server has, a bit for every two of them, that is 512 MB.
MOST = 1 << 16
# Points of a block, a multiple of 8.  A question is about 17 million pairs, of two blocks or of all points.
BLOCK = 1 << 12
TOLD = "how many points each cluster has, and how many are in none; of other points no label"
# Points whose bits are read at a time.
PART = 1 << 10
# Integers from 0 to eps below which rounding decides.
STEPS = 16


@dataclass(frozen=True)
class PairBits(ExactPolicy):
    """Policy by which the server learns which two points are near, and nothing else of distances.

    dealer: as `AssignmentsOnly` has it.
    """

    dealer: PartyId | None = SERVER

    @property
    def compared(self) -> AssignmentsOnly:
        """The policy whose committees compare alike."""
        return AssignmentsOnly(self.dealer)

    @property
    def capabilities(self) -> PolicyCapabilities:
        return replace(self.compared.capabilities, least_lanes=2)

    def headroom(self, way: Any, public: Any, layout: Any) -> int:
        return self.compared.headroom(way, public, layout)

    def check(self, plan: CodedPlan) -> None:
        self.compared.check(plan)

    def client(self, plan: CodedPlan, name: PartyId, *, coins: Coins) -> Role[ComparisonClient]:
        client: ComparisonClient = yield from self.compared.how(plan).client(plan, name, coins=coins)
        return client

    def server(
        self, plan: CodedPlan, screening: Screening, *, coins: Coins, threads: int
    ) -> Role[CodedSource]:
        return self.compared.how(plan).server(plan, screening)

    def committee_choice(self, plan: CodedPlan) -> CommitteeChoice:
        return self.compared.committee_choice(plan)

    def learned(self, plan: CodedPlan) -> tuple[str, ...]:
        return self.compared.how(plan).learned(plan)


@dataclass(frozen=True, repr=False, eq=False)
class PairsServerResult:
    """The plan for the rows that count, who is left out, labels (m,) of all rows, and who deviated."""

    plan: CodedPlan
    excluded: tuple[PartyId, ...]
    labels: Array
    standing: BlameState


@dataclass(frozen=True, repr=False, eq=False)
class PairsClientResult:
    """The plan for the rows that count, the labels (m_j,) of my own rows, sizes (k,) of the clusters."""

    plan: CodedPlan
    labels: Array
    sizes: Array


@dataclass(frozen=True)
class PairClusterer(ABC):
    """What all clusterers of pairs have: an `Algorithm`, but for what is asked and how labels follow.

    Fields as `DBSCAN` has them.
    """

    threshold: Threshold = field(default=Threshold(), kw_only=True)
    quantization: Quantization = field(default=Quantization(), kw_only=True)
    runtime: Runtime = field(default=Runtime(), kw_only=True)

    # Points at most, and bits that the server has of every two of them.
    most: ClassVar[int] = MOST
    bits: ClassVar[int] = 1

    @property
    @abstractmethod
    def disclosure(self) -> Any:
        """What the server may see."""

    @abstractmethod
    def ask_pairs(self, plan: CodedPlan) -> tuple[Subject, ...]:
        """The questions, in their order, which are public."""

    @abstractmethod
    def answer_pairs(self, part: Any, asked: Query, measured: DistanceOracle) -> Role[Message | None]:
        """A client's answer.  part: its part under the policy."""

    @abstractmethod
    def read_pairs(self, plan: CodedPlan, source: CodedSource) -> Role[Any]:
        """What the server reads from the answers, of all pairs."""

    @abstractmethod
    def label_points(self, pairs: Any) -> Array:
        """Labels (m,) in [-1, k), each of the k used, by what was read.  Pure, at the server alone."""

    @abstractmethod
    def server_learned(self, plan: CodedPlan) -> tuple[str, ...]:
        """What the server learned, in sentences for people."""

    def __post_init__(self) -> None:
        check_fields(
            self,
            {
                "quantization": instance_of(Quantization, "Quantization(scale=1000.0)"),
                "runtime": instance_of(Runtime, "Runtime(threads=2)"),
            },
        )
        object.__setattr__(self, "threshold", parse_threshold(self.threshold))
        if self.quantization.centers != "exact" or self.quantization.largest is not None:
            raise InputError(
                "quantization: pairs have no centers to round, and no cluster is measured to. Leave centers "
                "and largest out"
            )

    @property
    def way(self) -> SecFC:
        """How rows are shared and compared: as for clusters of one point each."""
        rows = replace(self.quantization, largest=1)
        start = RandomLabels()
        return SecFC(1, self.threshold, start, 1, 1, rows, disclosure=self.disclosure, runtime=self.runtime)

    @property
    def capabilities(self) -> Capabilities:
        way = self.way
        can = way.capabilities
        return Capabilities(
            pairs=self.ask_pairs,
            policy=way.disclosure,
            coarse=can.coarse,
            threshold=can.threshold,
            losses=self.count_losses,
            account=self.account,
        )

    def count_losses(self, plan: CodedPlan) -> int:
        """How many clients may fall silent once their rows are shared."""
        return self.way.losses(plan)

    def plan(self, public: PublicFacts) -> CodedPlan:
        """What is public before the parties talk.  Raises InputError for too many points, or too few
        clients."""
        if public.m > self.most:
            size = self.bits * public.m**2 // 8
            raise InputError(
                f"m={public.m} points: the server would hold {size:,} bytes of their pairs, so at most "
                f"{self.most} are taken. Take fewer points, or join many small clusters of k-means: "
                "SecFC(k=100, release=Release(dendrogram=True)) and result.cut(3, 'single'), in the shell -k "
                "100 --linkage single --cut 3"
            )
        return replace(cast(CodedPlan, self.way.plan(public)), terms=RunTerms(self, public))

    # --- roles ---------------------------------------------------------------------------------------

    def client(self, plan: CodedPlan, party: Party, *, coins: Coins) -> Role[PairsClientResult]:
        """The role of one client.  Raises ValueError for a plan on other terms."""
        check_terms(self, plan)
        way, name = self.way, party.name
        yield from agree_on_plan(plan, name)
        check_resolution_at_site(way, plan.quantizer, party)
        mine = contribute_rows(way, plan, party)
        if name in plan.resting:
            result = yield from share_rows_and_await(plan, mine, coins)
            return self.read_result(plan, len(mine.rows), result)
        received = yield from share_rows_in_storage(way, plan, mine, coins)
        kept, rows = yield from settle_contributors(plan, mine, received, coins)
        rows.finish_rows()
        work = kept.at_work
        part = yield from self.disclosure.client(work, name, coins=coins)
        due, running = self.ask_pairs(work), RunningSums(rows)
        wait = Exchange({}, (SERVER,), round=ITERATE, phase="share")
        while True:
            request, _ = yield from receive_query(work, work.m, wait)
            if isinstance(request, InputPartyResult):
                return self.read_result(kept, len(mine.rows), request)
            if not isinstance(request, Query) or not any(map(request.subject.equals, due)):
                raise FaultyServer(SERVER, "asked for something else of pairs than the plan has")
            sums = partial(running.of, request.labels.astype(np.int32), request.k)
            measured = DistanceOracle(rows, np.ones(request.k, np.int64), sums)
            message = yield from self.answer_pairs(part, request, measured)
            wait = answer_query(request.round, message, "distances")

    def read_result(self, plan: CodedPlan, count: int, result: InputPartyResult) -> PairsClientResult:
        """My labels; the last of the sizes is of rows that are in no cluster.  Raises FaultyServer."""
        labels, k = result.labels.astype(np.int32), len(result.sizes) - 1
        if len(labels) not in (0, count) or int(result.sizes.sum()) > plan.m or result.centers is not None:
            raise FaultyServer(SERVER, f"labeled {len(labels)} of my {count} points, or sizes are not of m")
        own = labels if len(labels) else np.full(count, k, np.int32)
        return PairsClientResult(plan, np.where(own == k, -1, own).astype(np.int32), result.sizes[:k])

    def server(self, plan: CodedPlan, *, rng: np.random.Generator, coins: Coins) -> Role[PairsServerResult]:
        """The role of the server; it draws no start, so rng is not used."""
        check_terms(self, plan)
        yield from agree_on_plan(plan, SERVER)
        kept, screening = yield from settle_contributors_at_server(plan, coins)
        work = kept.at_work
        source = yield from self.disclosure.server(work, screening, coins=coins, threads=self.runtime.threads)
        labels = self.label_points((yield from self.read_pairs(work, source)))
        yield from send_labels(kept, labels, next(source.rounds))
        return PairsServerResult(kept, kept.excluded(plan), labels, screening.standing)

    # --- results -------------------------------------------------------------------------------------

    def outcome(
        self, plan: CodedPlan, party: PartyId, returned: PairsClientResult | PairsServerResult
    ) -> PartyOutcome:
        """A client's own labels; the server's sizes, and whom it left out."""
        if isinstance(returned, PairsClientResult):
            return PartyOutcome(
                party, returned.plan, labels=returned.labels, sizes=(returned.sizes,), learned=(TOLD,),
                excluded=returned.plan.excluded(plan), n_iter=0, converged=True,
            )  # fmt: skip
        return PartyOutcome(
            party, returned.plan, sizes=(count_labels(returned.labels)[:-1],), n_iter=0, converged=True,
            learned=self.server_learned(returned.plan), excluded=returned.excluded,
            deviated=returned.standing.deviated, disputes=returned.standing.disputes,
        )  # fmt: skip

    def account(self, result: Clustering, federation: Any, *, ids: str | None = None) -> RunSummary:
        """What reports say of a run."""
        plan, way, name = result.plan, self.way, type(self).__name__
        shared = {one.name for one in fields(PairClusterer)}
        own = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in shared}
        told = {key: value for key, value in own.items() if isinstance(value, bool | int | float | str)}
        code = {"t": plan.code.t, "ell": plan.code.ell, "lanes": plan.code.basis.lanes}
        more = ", ".join(f"{key} = {value}" for key, value in told.items())
        own_labels = zip(plan.clients, result.labels, strict=True)
        lost = sum((labels < 0).sum() for party, labels in own_labels if party not in result.excluded)
        return RunSummary(
            name.lower(), f"{name}: a clustering of pairs on shares", {**told, **code},
            "Not compared with plaintext: labels are those of the same clusterer on points as whole numbers.",
            (more,), threat_model(plan, "the sizes of clusters", *deviation_note(way, plan)), heard=(TOLD,),
            outside=int(lost),
        )  # fmt: skip

    def collect(
        self, outcomes: Mapping[PartyId, PartyOutcome], run: SimulatedRun, counts: tuple[int, ...]
    ) -> Clustering:
        """The clustering of an experiment."""
        return join_outcomes(outcomes, run, counts, k=len(outcomes[SERVER].sizes[0]), model=None)


def cut_blocks(m: int, size: int) -> list[range]:
    """Blocks of so many of m points; one of all where their pairs are no more than those between two."""
    if m * (m - 1) <= 2 * size * size:
        return [range(m)]
    return [range(begin, min(begin + size, m)) for begin in range(0, m, size)]


class NearGraph:
    """Which two of m points are near, a bit for each two; every point is near itself."""

    def __init__(self, m: int) -> None:
        self.m, self._bits = m, np.zeros((m, -(-m // 8)), np.uint8)

    def __repr__(self) -> str:
        return f"NearGraph(m={self.m})"

    def __len__(self) -> int:
        return self.m

    def put(self, tile: NearPairs, bits: Array) -> None:
        """What was opened of a question, in its order; blocks begin at multiples of 8."""
        block, other = tile.block, tile.other
        if tile.within:
            near, ahead = near_matrix(len(tile.points), bits), len(tile.points) - len(block)
            self._put(block, block, near[ahead:, ahead:])
        else:
            near = bits.reshape(len(other), len(block)) != 0
            self._put(other, block, near)
            self._put(block, other, near.T)

    def _put(self, rows: range, columns: range, near: Array) -> None:
        cut = slice(columns.start // 8, -(-columns.stop // 8))
        self._bits[rows.start : rows.stop, cut] = np.packbits(near, axis=1)

    def unpack(self, points: Array) -> Array:
        """(points, m) bool, whether these are near to all."""
        return np.unpackbits(self._bits[points], axis=1, count=self.m).astype(np.bool_)

    def count_neighbors(self) -> Array:
        """(m,) int64."""
        parts = (np.arange(b, min(b + PART, self.m)) for b in range(0, self.m, PART))
        return np.concatenate([self.unpack(part).sum(axis=1) for part in parts])

    def reach(self, points: Array) -> Array:
        """(m,) bool, whether any of these is near."""
        found = np.zeros(self._bits.shape[1], np.uint8)
        for begin in range(0, len(points), PART):
            found |= np.bitwise_or.reduce(self._bits[points[begin : begin + PART]], axis=0)
        return np.unpackbits(found, count=self.m).astype(np.bool_)


def near_matrix(m: int, bits: Array) -> Array:
    """Which two of m points are near, (m, m) bool, from bits in the order of `numpy.triu_indices`."""
    near, at = np.eye(m, dtype=np.bool_), 0
    for i in range(m):
        near[i, i + 1 :] = near[i + 1 :, i] = bits[at : at + m - i - 1] != 0
        at += m - i - 1
    return near


def count_labels(labels: Array) -> Array:
    """Points of each cluster, and last of none: (k + 1,) int64."""
    k = int(labels.max(initial=-1)) + 1
    return np.bincount(np.where(labels < 0, k, labels), minlength=k + 1).astype(np.int64)


def send_labels(plan: CodedPlan, labels: Array, number: int) -> Role[None]:
    """Tell every client the labels of its own rows, of those that count, and the sizes of all clusters."""
    sizes = count_labels(labels)
    told = compact_labels(np.where(labels < 0, len(sizes) - 1, labels))
    send = {}
    for name in plan.clients:
        first, count = plan.layout.span(plan.numbers[name])
        send[name] = InputPartyResult(told[first : first + count], sizes, None)
    yield Exchange(send, round=number, phase="finish")


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NearClusterer(PairClusterer):
    """A clusterer by which two points are near: a frozen dataclass that adds its parameters, `label_points`.

    Of the latter pairs are a `NearGraph`.
    """

    eps: float
    dealer: PartyId | None = field(default=SERVER, kw_only=True)

    block: ClassVar[int] = BLOCK

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, {"eps": REAL})
        if not 0 < self.eps <= sys.float_info.max:
            raise InputError(
                f"eps={format_value(self.eps)}: a distance above 0 is needed, in units of the data. Pass 0.5"
            )
        if self.threshold.corrected:
            raise InputError(
                f"corrected={self.threshold.corrected}: false replies of pairs end the run, and "
                "nobody is found. Leave it out; deviating=1 has each part played by two"
            )

    @property
    def disclosure(self) -> PairBits:
        return PairBits(self.dealer)

    def plan(self, public: PublicFacts) -> CodedPlan:
        found = super().plan(public)
        if (steps := float(self.eps * found.scale)) < STEPS:
            warnings.warn(
                f"eps={self.eps:g} is {steps:.2g} steps of the integers that points become, so rounding "
                f"decides which are near: {STEPS} are wanted. Lower the bound, or leave scale out",
                Caution,
                stacklevel=2,
            )
        return found

    def square(self, plan: CodedPlan) -> int:
        """The largest integer that a squared distance of two near points has."""
        exact = (Fraction(self.eps) * plan.scale) ** 2
        # No two honest rows are farther apart.
        return min(math.floor(exact), distance_bound(plan.d, plan.quantizer.max_int, 1), (1 << 62) - 1)

    def ask_pairs(self, plan: CodedPlan) -> tuple[Subject, ...]:
        blocks, alone = cut_blocks(plan.m, self.block), compact_labels(np.arange(plan.m))
        tiles = [*zip(blocks, blocks, strict=True), *combinations(blocks, 2)]
        return tuple(
            Subject(
                Operation.WITHIN, plan.m, alone,
                detail=np.array([self.square(plan), a.start, a.stop, b.start, b.stop], np.int64),
            )
            for a, b in tiles
        )  # fmt: skip

    def answer_pairs(
        self, part: ComparisonClient, asked: Query, measured: DistanceOracle
    ) -> Role[Message | None]:
        return part.player.compare(part.match(asked, measured.sizes), measured)

    def read_pairs(self, plan: CodedPlan, source: CodedSource) -> Role[NearGraph]:
        labeling, found = cast(Any, source.labeling), NearGraph(plan.m)
        alone, sizes = np.arange(plan.m, dtype=np.int32), np.ones(plan.m, np.int64)
        for asked in self.ask_pairs(plan):
            tile = cast(NearPairs, candidates_in(asked, sizes, plan.code.ell, plan.d))
            bits = yield from labeling.compare(asked.operation, alone, sizes, detail=asked.detail)
            found.put(tile, bits)
        return found

    def server_learned(self, plan: CodedPlan) -> tuple[str, ...]:
        return (
            f"of every two points whether they are within eps={self.eps:g} of one another, with whose they "
            "are, and so all labels: of points with a dozen neighbors in few features that is nearly all of "
            "their shape",
            *self.disclosure.learned(plan),
        )


@dataclass(frozen=True)
class DBSCAN(NearClusterer):
    """Density clusters: core points, which have enough points near them, and the points near core points.

    Parameters
    ----------
    eps
        Largest distance of two near points, above 0, in data units, or of scaled features.
    min_samples
        Number of points near a core point, including itself, from 1 on.
    threshold
        Who may collude, as in `SecFC`.
    quantization
        Fixed-point precision; labels equal those of scikit-learn's `DBSCAN` on the quantized points.
    runtime
        Who computes, and with which resources.
    dealer
        Who deals masks and tables: the server, a client, or None for nobody, as in `AssignmentsOnly`.

    Raises
    ------
    InputError
        For a value of another kind, or out of its range.

    Warnings
    --------
    The server learns for every two points whether they are near, and whose they are.  If points have many
    neighbors, it can reconstruct much of the shape of the data from this graph.  A client that plants rows
    learns from their labels whether another client has points within eps of them.

    Notes
    -----
    Labels are -1 for noise, and otherwise numbered by the lowest core point.  A border point joins the first
    cluster that has a core point near it.  There is no `predict`.

    Examples
    --------
    >>> import secfc
    >>> sites = {"rome": [[0, 0], [9, 9]], "oslo": [[0, 1], [50, 0]], "bern": [[9, 8], [1, 0]]}
    >>> result = secfc.fit(secfc.DBSCAN(eps=2, min_samples=2), sites)
    >>> [labels.tolist() for labels in result.labels]
    [[0, 1], [0, -1], [1, 0]]
    """

    min_samples: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, {"min_samples": WHOLE})
        if self.min_samples < 1:
            raise InputError(f"min_samples={self.min_samples}: a point is near itself. Pass at least 1")

    def label_points(self, pairs: NearGraph) -> Array:
        """Labels as scikit-learn gives them."""
        core = pairs.count_neighbors() >= self.min_samples
        labels, k = np.full(len(pairs), -1, np.int32), 0
        for first in range(len(pairs)):
            if not core[first] or labels[first] >= 0:
                continue
            front = np.array([first])
            while front.size:
                labels[front] = k
                front = np.flatnonzero(pairs.reach(front[core[front]]) & (labels < 0))
            k += 1
        return labels


def check_clusterer(clusterer: Any) -> None:
    """Raises InputError for what clusters nothing, or would take a table of distances for points."""
    remedy = 'Pass a value such as DBSCAN(metric="precomputed") of scikit-learn'
    if isinstance(clusterer, type) or not hasattr(clusterer, "fit_predict"):
        kind = "is a class" if isinstance(clusterer, type) else "has no fit_predict"
        raise InputError(f"clusterer={format_value(clusterer)} {kind}: a clusterer is needed. {remedy}")
    if not hasattr(clusterer, "get_params"):
        return
    found = clusterer.get_params(deep=False).get("metric")
    if not isinstance(found, str) or found != "precomputed":
        raise InputError(
            f"clusterer: {type(clusterer).__name__} with metric={format_value(found)} would take rows of the "
            f"table of distances for points: one that is given distances is needed. {remedy}"
        )


def same_first(one: Array, other: Array) -> bool:
    """Whether two questions told the same distances (m,) to the first point."""
    return np.array_equal(one, other)


# Points at most, by 8 bytes for every two of them, 512 MB; distances that are opened in one question.
MOST_OPENED, OPENED = 1 << 13, 1 << 22


@dataclass(frozen=True)
class Precomputed(PairClusterer):
    """Any clusterer of scikit-learn with `metric="precomputed"`, on all distances, which the server learns.

    Parameters
    ----------
    clusterer
        Clusterer that the server runs: its `fit_predict` receives distances (m, m) in data units.  Clients
        need none, and do not compare it.
    consent
        True at every party, or the run is refused.
    threshold, quantization, runtime
        Values of `DBSCAN`.

    Raises
    ------
    InputError
        Without consent, or for an object that has no `fit_predict`.

    Warnings
    --------
    The server learns the distance of every two points.  They determine all points up to rotation and
    reflection, and with d + 1 known points exactly (`secfc.attacks.geometry.place_by_distances`).

    Examples
    --------
    >>> import secfc
    >>> from sklearn.cluster import AgglomerativeClustering
    >>> trees = AgglomerativeClustering(2, metric="precomputed", linkage="average")
    >>> sites = {"rome": [[0, 0], [9, 9]], "oslo": [[0, 1]], "bern": [[9, 8], [1, 0]]}
    >>> result = secfc.fit(secfc.Precomputed(trees, consent=True), sites)
    >>> [labels.tolist() for labels in result.labels]
    [[0, 1], [0], [1, 0]]
    """

    clusterer: Any = field(default=None, metadata=LOCAL)
    consent: bool = False

    most: ClassVar[int] = MOST_OPENED
    bits: ClassVar[int] = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, {"consent": SWITCH})
        if not self.consent:
            raise InputError(
                "consent=False: the server would be given the distance of every two points, by which it "
                "places all of them up to rotation. Say consent=True, or take DBSCAN: it opens a bit a pair"
            )
        if self.clusterer is not None:
            check_clusterer(self.clusterer)

    @property
    def disclosure(self) -> Distances:
        return Distances()

    def ask_pairs(self, plan: CodedPlan) -> tuple[Subject, ...]:
        """To points in blocks, and to the first of all beside."""
        m, size, asked = plan.m, max(1, OPENED // plan.m), []
        for begin in range(0, m, size):
            labels, block = np.full(m, -1, np.int32), range(begin, min(begin + size, m))
            labels[begin : block.stop] = np.arange(len(block))
            if begin:
                labels[0] = len(block)
            asked.append(Subject(Operation.DISTANCE, int(labels.max()) + 1, compact_labels(labels)))
        return tuple(asked)

    def answer_pairs(self, part: Any, asked: Query, measured: DistanceOracle) -> Role[Message | None]:
        answer: Role[Message | None] = part(asked, measured)
        return answer

    def server(self, plan: CodedPlan, *, rng: np.random.Generator, coins: Coins) -> Role[PairsServerResult]:
        if self.clusterer is None:
            raise InputError("clusterer=None at the server, which clusters: pass one")
        return super().server(plan, rng=rng, coins=coins)

    def read_pairs(self, plan: CodedPlan, source: CodedSource) -> Role[Array]:
        """Distances (m, m) in units of the data.  Raises SuspectedParties for what no points have."""
        out, begin, first = np.empty((plan.m, plan.m)), 0, None
        for asked in self.ask_pairs(plan):
            found = yield from decode_scaled_distances(source.quorum, asked.labels, asked.k)
            count = asked.k - (begin > 0)
            squares = found.low
            own, to_first = squares[:count, begin : begin + count].diagonal(), squares[-1 if begin else 0]
            first = to_first if first is None else first
            # What the check of replies misses is one number a point and question, added to its distances:
            # none is added where it is at no distance from itself, so to no distance from the first one.
            if found.high.any() or own.any() or not same_first(to_first, first):
                raise suspect_parties(
                    "CodedDistances", "distances were told that no points have", clients=plan.clients
                )
            out[begin : begin + count] = np.sqrt(squares[:count].astype(np.float64)) / float(plan.scale)
            begin += count
        return out

    def label_points(self, pairs: Array) -> Array:
        name, m = type(self.clusterer).__name__, len(pairs)
        try:
            given = np.asarray(deepcopy(self.clusterer).fit_predict(pairs))
        except ValueError as error:
            # What it says of distances stays in the error that is its own.
            raise InputError(
                f"clusterer: {name} refused the distances of {m} points, for the reason that it gives "
                "itself. Pass one with other parameters"
            ) from error
        if given.shape != (m,) or given.dtype.kind not in "iu":
            raise InputError(
                f"clusterer: {name} gave {given.dtype} of shape {given.shape} for {m} points: a label each "
                f"is needed. Have its fit_predict return integers of shape ({m},)"
            )
        labels = np.maximum(given.astype(np.int64), -1)
        numbers = np.unique(labels[labels >= 0])
        return np.where(labels < 0, -1, np.searchsorted(numbers, labels)).astype(np.int32)

    def server_learned(self, plan: CodedPlan) -> tuple[str, ...]:
        return (
            "the distance of every two points, with whose they are: where all of them lie, up to rotation "
            "and reflection, and with d + 1 known points exactly",
        )
