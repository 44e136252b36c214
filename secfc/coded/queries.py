"""What the server asks clients while it clusters: one message, whose operation says what is asked.

What sets operations apart is data, in the table `Operation`: what is opened, whether clusters are halves,
whether labels stay shared, what else belongs to it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Literal

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from secfc.coded.messages import RevealCenters, RevealSums, RunEnded
from secfc.coded.plan import CodedPlan
from secfc.errors import FaultyServer
from secfc.kmeans.bisecting import clusters_to_split
from secfc.roles.exchange import ITERATE, PHASE, SERVER, STRIDE, Exchange, Inbox, Role, Settled, expect_one
from secfc.roles.messages import (
    FinalResult,
    Message,
    check_labels,
    check_numbers,
    check_sizes,
    is_array,
    refuse_if,
)

# What an answer opens: distances, which the server decodes; labels of a step; numbers of clusters; sizes
# after a step; the labels of a run to all; to owners their own; sums of rows by cluster, under noise;
# which pairs of points are near one another, to the server alone.
Opens = Literal["distances", "labels", "numbers", "sizes", "last labels", "own labels", "noisy sums", "pairs"]


def _check_pairs(subject: Subject, pairs: Array) -> None:
    """Clusters to merge: (pairs, 2) int32, the lower one first, ascending."""
    refuse_if(not is_array(pairs, "i", 2) or pairs.shape[1] != 2, "pairs of clusters are (p, 2) integers")
    a, b = pairs.astype(np.int64).T
    fit = (a >= 0) & (a < b) & (b < subject.k)
    refuse_if(not fit.all(), f"clusters to merge are two of k={subject.k}, the lower first")
    refuse_if(bool((np.diff(a * subject.k + b) <= 0).any()), "pairs of clusters are ascending, each once")


def _check_moved(subject: Subject, bits: Array) -> None:
    """Points that another center won: (ceil(m / 8),) uint8, a bit a point, the first one lowest."""
    m = len(subject.labels)
    right = is_array(bits, "u", 1) and bits.dtype == np.uint8 and len(bits) == -(-m // 8)
    refuse_if(not right, "which points moved is a bit a point")
    refuse_if(not bits.any(), "at least one point moved")
    refuse_if(m % 8 != 0 and int(bits[-1]) >> m % 8 != 0, "behind the last point there are zeros")


def _check_tile(subject: Subject, tile: Array) -> None:
    """The largest square of a distance that is near, and where two blocks of points begin and end, or one
    does twice: (5,) int64.  Clusters are single points, in order."""
    right = is_array(tile, "i", 1) and tile.dtype == np.int64 and len(tile) == 5
    refuse_if(not right or int(tile[0]) < 0, "pairs are compared with a whole number from 0 on")
    m = len(subject.labels)
    begin, end, other, last = tile[1:].tolist()
    alike = (begin, end) == (other, last)
    fit = 0 <= begin < end <= m and other < last <= m and (alike or end <= other)
    refuse_if(not fit, f"pairs are of a block of m={m} points, or of one and a later one")
    alone = subject.k == m and np.array_equal(subject.labels, np.arange(m))
    refuse_if(not alone, "in a question for pairs every point is a cluster of its own, in order")


def _check_directions(subject: Subject, signs: Array) -> None:
    """Across which each cluster is cut through its mean, (k, d) int8 of +1 and -1: see
    `secfc.kmeans.loop.SplitRequest`.
    """
    refuse_if(
        not is_array(signs, "i", 2) or len(signs) != subject.k, "there are k directions, (k, d) integers"
    )
    # Passes that make no array of the size of the message.
    small = signs.min(initial=1) >= -1 and signs.max(initial=-1) <= 1
    refuse_if(bool(not small or np.count_nonzero(signs) < signs.size), "directions are +1 and -1")


def _check_sides(subject: Subject, sides: Array) -> None:
    """Unions of clusters: (pairs, k) int8, 1 in one union, 2 in the other, 0 in none."""
    shape = "sides are (pairs, k) of 0, 1 and 2"
    refuse_if(not is_array(sides, "i", 2) or sides.shape[1] != subject.k, shape)
    refuse_if(bool(((sides < 0) | (sides > 2)).any()), shape)
    refuse_if(not sides.size or int(subject.counted.min()) < 1, "there are points on both sides of a split")


def _check_sums(subject: Subject, detail: Array) -> None:
    """What sums are about, (2 + k d + n,) int64: number, radius, centers (k, d), who deals noise (n,).

    Of n clients 1 for those that do, else 0; all else in steps of the rows.
    """
    refuse_if(
        not is_array(detail, "i", 1) or detail.dtype != np.int64, "sums are about a row of whole numbers"
    )
    refuse_if(len(detail) < 2 + subject.k, "sums are about centers and a radius")
    refuse_if(int(detail[:2].min()) < 0, "questions count from 0, and a radius is positive")
    refuse_if(int(subject.labels.max(initial=-1)) >= 0, "sums about centers are about no labels")


@dataclass(frozen=True)
class Traits:
    """What else sets an operation apart.

    halves: whether its clusters are halves of clusters: cluster h has the halves 2 h and 2 h + 1.
    everywhere: whether every point is in a cluster, as it always is in a half.
    shared: whether it is about labels that stay shared among a committee.
    factors: whether it may look for a center several times as near as every other.
    detail: checks what only this operation is about.
    """

    halves: bool = False
    everywhere: bool = False
    shared: bool = False
    factors: bool = False
    detail: Callable[[Subject, Array], None] | None = None


SHARED = Traits(shared=True)


class Operation(Enum):
    """What is asked: its byte in messages, its name in transcripts and reports, what its answer opens.

    Every one goes from the server to every client.

    `DistanceQuery` under Distances(): server, client.  Seen: labels so far and the responders: public.
    By deviating: the server: ask about labels of its choice, such as a cluster of one point: it decodes
    distances to that center. More queries than the plan has steps, or another start, are refused.

    `DistanceQuery` under Distances(dealt=True): server, client.  Seen: labels so far and who deals:
    public.  By deviating: as under `Distances()`.

    `DistanceQuery` under NoiseInShares(): server, client.  Seen: labels so far and who deals noise:
    public.  By deviating: the server: ask about labels of its choice. Fewer dealers than the budget
    needs, and more queries than were paid for, are refused (`BudgetSpent`). A repeated query carries the
    same noise; other labels to some clients show in the digests of `NoiseShares`.

    `HalfDistanceQuery` under Distances(): server, client.  Seen: while `Bisecting` draws: halves of
    clusters, and which splits were accepted.  By deviating: the server: move points to other clusters,
    choose halves (they follow from the seed), split by other than whole halves, or beyond `1.25 k`
    clusters (`spare=0.25`): refused. Which splits it accepts is its word.

    `HalfDistanceQuery` under Distances(dealt=True): as under `Distances()`.

    `CompareQuery` under AssignmentsOnly(): server, client.  Seen: labels so far, responders, committee:
    public.  By deviating: the server: other labels than those last opened, more queries than the plan has
    steps, or another committee than the first clients that are not silent: refused. Call honest clients
    silent, at most `n - threshold`, until **one that works with it** is a member: together they learn
    every distance.

    `CompareQuery` under AssignmentsOnly(dealer=None): server, client.  Seen: labels so far, responders,
    committee: public.  By deviating: the server: other labels than those last opened, or more queries
    than the plan has steps: refused. Whom it seats changes nothing while at most `t` clients work with
    it.

    `CompareHalvesQuery` under "with lost clients, several starts, or consent": server, client.  Seen:
    halves of clusters so far, and who compares: public.  By deviating: as by `HalfDistanceQuery`, and as
    by `CompareQuery`.

    `CompareOwnQuery` under "where few points move": server, client.  Seen: labels so far, responders,
    committee: public.  By deviating: as by `CompareQuery`. Its answer says which labels change. A false
    bit keeps a point where it is, or has it compared once more: **a comparison of its sender's choice**,
    as by false distances.

    `CompareMovedQuery` under "where few points move": server, client.  Seen: labels so far, responders,
    committee, and which points move: opened to all before.  By deviating: name other points: refused by
    every client that has the first answer.

    `CostQuery` under "with lost clients, several starts, or consent": server, client.  Seen: the labels
    at the end of a start; with an `Elbow` also the clusters before the first start merges.  By deviating:
    the server: other labels, more assignments than starts, more than one with an `Elbow`: refused.

    `GainQuery` under "with lost clients, several starts, or consent": server, client.  Seen: the last
    halves of a level, which were opened.  By deviating: the server: other halves than those last opened:
    refused.

    `LossQuery` under "with lost clients, several starts, or consent": server, client.  Seen: the
    clusters, more than `k`, and which of them are neighbors (with an `Elbow` any two); with
    `Release(dendrogram=True)` at the end any two final clusters.  By deviating: the server: other
    clusters or pairs, or a second time: refused. Which whole clusters it merges to `k`, and which `k`
    with an `Elbow`, is its word.

    `LloydStepQuery` under OwnLabels(): server, client.  Seen: the first labels, the step's number, the
    sizes so far, responders, committee: public.  By deviating: the server: other sizes than members sent
    to all clients, another step than the next, another start: refused. Call members silent, so that
    another committee starts again: with a member that **works with it** it learns every distance and
    label.

    `LloydStepQuery` under OwnLabels(dealer=None): server, client.  Seen: as under `OwnLabels()`.  By
    deviating: as under `OwnLabels()`; whom it seats changes nothing while at most `t` clients work with
    it.

    `LloydStepQuery` under FinalLabelsOnly(dealer="server"): server, client.  Seen: the first labels, the
    step's number, responders, committee: public.  By deviating: as under `OwnLabels()`; sizes after the
    first labels: refused.

    `LloydStepQuery` under FinalLabelsOnly(): server, client.  Seen: as under
    `FinalLabelsOnly(dealer="server")`.  By deviating: as under `FinalLabelsOnly(dealer="server")`; whom
    it seats changes nothing while at most `t` clients work with it.

    `SplitQuery` under OwnLabels(): server, client.  Seen: while `Splitting` draws: the same, and
    directions from the seed.  By deviating: the server: as by `LloydStepQuery`; other directions are
    refused. Which splits it accepts, and which clusters become one again, is its word: whole halves that
    have points, at most to `1.25 k`, pruned to exactly `k`.

    `SplitQuery` under OwnLabels(dealer=None): as under `OwnLabels()`, committee members in place of
    responders.  Seen: as under `OwnLabels()`.  By deviating: as under `OwnLabels()`.

    `SplitGainQuery` under OwnLabels(): server, client.  Seen: while `Splitting` draws: the same, and
    which clusters were cut from one another; with `Release(dendrogram=True)` at the end, of any two final
    clusters.  By deviating: the server: other pairs than the halves of each cluster, in the end what was
    cut on the way, or any two: refused.

    `SplitGainQuery` under OwnLabels(dealer=None): as under `OwnLabels()`, committee members in place of
    responders.  Seen: as under `OwnLabels()`.  By deviating: as under `OwnLabels()`.

    `ClusterCostQuery` under "with lost clients, several starts, or consent": server, client.  Seen: under
    `OwnLabels()`: the first labels, the number of the start, its steps and sizes: public.  By deviating:
    the server: ask before a start is over (with an `Elbow`, before its clusters are all split), or twice:
    refused. Whose labels owners get is its word, once, and of one start alone.

    `DeliverLabels` under OwnLabels(): server, client.  Seen: the first labels, the step and the final
    sizes: public.  By deviating: the server: end before the members said that no label changed: refused.

    `DeliverLabels` under OwnLabels(dealer=None): as under `OwnLabels()`, committee members in place of
    responders.  Seen: as under `OwnLabels()`.  By deviating: as under `OwnLabels()`.

    `ExplainedQuery` under OwnLabels(): server, client.  Seen: with `Joined(max_explained=)`, before owners
    get labels: the same as by `DeliverLabels`.  By deviating: the server: leave it out, or go on where labels
    explain more: refused.

    `ExplainedQuery` under OwnLabels(dealer=None): as under `OwnLabels()`, committee members in place of
    responders.  Seen: as under `OwnLabels()`.  By deviating: as under `OwnLabels()`.

    `RevealLabels` under FinalLabelsOnly(dealer="server"): server, client.  Seen: the first labels, and
    after how many steps: public.  By deviating: the server: end before the members said that no label
    changed, and before `max_iter`: refused.

    `RevealLabels` under FinalLabelsOnly(): as under `FinalLabelsOnly(dealer="server")`.

    `PredictLabels` under "with lost clients, several starts, or consent": server, client.  Seen: under
    `OwnLabels()`: that new points are labeled, responders, committee.  By deviating: the server: ask more
    than once, but to other players, or for points beyond `predictions`: refused.

    `NoisySumsQuery` under NoisySums(): server, client.  Seen: the query's number, centers, a radius, who
    deals noise, responders, committee: public, and of what was opened before.  By deviating: the server:
    centers and a radius of its choice, which the noise covers. More queries than are paid for, fewer who
    deal noise, centers or radii beyond the rows': refused. Different ones to clients: their noise says so
    (`SuspectedParties`). Call members silent: as by `LloydStepQuery`.

    `NoisySumsQuery` under NoisySums(dealer=None): server, client.  Seen: as under `NoisySums()`.  By
    deviating: as under `NoisySums()`; whom it seats changes nothing while at most `t` clients work with the
    server.

    `WithinQuery` under DBSCAN(): server, client.  Seen: the square that squared distances are compared
    with, responders, committee: public, all but who is there follows from the plan.  By deviating: the
    server: ask for another square, or about some points alone: refused (`FaultyServer`). Ask again: the
    same bits.
    """

    # The distances of all points to the centers of these clusters; of a point to both halves of its own.
    DISTANCE = 1, "DistanceQuery", "distances"
    HALF_DISTANCE = 2, "HalfDistanceQuery", "distances", Traits(halves=True, everywhere=True)
    # Clients compare distances instead of returning them: to find the nearest center, or the nearer half;
    # which points another center wins, and nothing of which; then the nearest centers of points that moved.
    COMPARE = 3, "CompareQuery", "labels", Traits(factors=True)
    COMPARE_HALVES = 4, "CompareHalvesQuery", "labels", Traits(halves=True, everywhere=True)
    COMPARE_OWN = 5, "CompareOwnQuery", "labels", Traits(everywhere=True)
    COMPARE_MOVED = 6, "CompareMovedQuery", "labels", Traits(detail=_check_moved)
    # What clusters cost; what each gains if it is split in these halves; what merging some two costs.
    COST = 7, "CostQuery", "numbers"
    GAIN = 8, "GainQuery", "numbers", Traits(halves=True, everywhere=True)
    LOSS = 9, "LossQuery", "numbers", Traits(everywhere=True, detail=_check_pairs)
    # A step from labels that nobody knows; a cut of every cluster in two; what keeping unions apart gains;
    # what clusters cost; then labels to their owners, while clients keep shares of the centers, or to all.
    LLOYD_STEP = 11, "LloydStepQuery", "sizes", SHARED
    SPLIT = 12, "SplitQuery", "sizes", Traits(shared=True, detail=_check_directions)
    SPLIT_GAIN = 13, "SplitGainQuery", "numbers", Traits(shared=True, detail=_check_sides)
    CLUSTER_COST = 14, "ClusterCostQuery", "numbers", SHARED
    DELIVER_LABELS = 15, "DeliverLabels", "own labels", SHARED
    REVEAL_LABELS = 16, "RevealLabels", "last labels", SHARED
    # The nearest of the centers that clients kept, to the owners of new points alone.
    PREDICT_LABELS = 17, "PredictLabels", "own labels"
    # Weighted sums of rows about public centers, under noise.
    NOISY_SUMS = 18, "NoisySumsQuery", "noisy sums", Traits(detail=_check_sums)
    # Of every two points whether they are within a distance of one another.
    WITHIN = 19, "WithinQuery", "pairs", Traits(everywhere=True, detail=_check_tile)
    # Whether labels that stay shared explain too much of some column; a step that opens no size.
    EXPLAINED = 20, "ExplainedQuery", "sizes", SHARED

    kind: str
    opens: Opens
    traits: Traits

    def __new__(cls, number: int, kind: str, opens: Opens, traits: Traits = Traits()) -> Operation:
        self = object.__new__(cls)
        self._value_, self.kind, self.opens, self.traits = number, kind, opens, traits
        return self

    @property
    def halves(self) -> bool:
        """Whether clusters are halves of clusters."""
        return self.traits.halves

    @property
    def shared(self) -> bool:
        """Whether labels stay shared."""
        return self.traits.shared

    @property
    def compares(self) -> bool:
        """Whether clients compare points, and neither show distances nor count."""
        return self.opens not in ("distances", "numbers")


@dataclass(frozen=True, eq=False, repr=False)
class ComparisonCommittee:
    """Who compares.

    members: numbers of clients, int32, of which the first adds the public constants.  corrected: the place of
    the one that a dealer sends corrections to.
    """

    members: Array
    corrected: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class SharedStep:
    """State of a run on shared labels.

    run: the number of the restart.  step: how many steps were taken from its first labels.  sizes: of the
    clusters that the last step opened, all 0 where it hid them.  groups: the number in [0, k) that each of
    them has now, -1 for one without points; several may have become one.
    """

    run: int
    step: int
    sizes: Array
    groups: Array

    def now(self, k: int) -> Array:
        """The sizes (k,) int64 of the groups."""
        there = self.groups >= 0
        now = np.zeros(k, np.int64)
        np.add.at(now, self.groups[there], self.sizes[there])
        return now


@dataclass(frozen=True, eq=False, repr=False)
class Subject:
    """What is asked, whoever answers: an operation, and the clusters that it is about.

    Checked by the message that carries it: what a client foresees after a lie of the server may be no query.

    labels: (m,) in [-1, k), -1 for a point that is in no cluster; the first ones of the run where labels stay
    shared.  factor: 1, or that many times as near as every other center must be the nearest one, in squared
    distance.  detail: what only this operation is about, see its check.  shared: where labels stay shared.
    """

    operation: Operation
    k: int
    labels: Array
    factor: int = 1
    detail: Array | None = None
    shared: SharedStep | None = None

    @property
    def at(self) -> SharedStep:
        """State of its run.  Raises TypeError where labels are public."""
        if self.shared is None:
            raise TypeError(f"{self.operation.kind} is about public labels, of which no step is shared")
        return self.shared

    @property
    def needed_detail(self) -> Array:
        """What only its operation is about.  Raises TypeError where that is nothing."""
        if self.detail is None:
            raise TypeError(f"{self.operation.kind} is about labels and clusters alone")
        return self.detail

    @property
    def now(self) -> Array:
        """The sizes (k,) int64 of clusters on shared labels."""
        return self.at.now(self.k)

    @property
    def counted(self) -> Array:
        """The sizes (pairs, 2) int64 of unions on shared labels."""
        return np.stack([(self.needed_detail == side) @ self.now for side in (1, 2)], axis=1)

    @property
    def parts(self) -> tuple[tuple[int, ...], tuple[Array | None, ...]]:
        """All numbers, and all arrays: labels, detail, sizes, groups."""
        numbers, arrays = (self.operation.value, self.k, self.factor), (self.labels, self.detail)
        at = self.shared
        return (
            (numbers, arrays) if at is None else ((*numbers, at.run, at.step), (*arrays, at.sizes, at.groups))
        )

    def equals(self, other: Subject) -> bool:
        """Whether the same is asked."""
        (numbers, arrays), (others, those) = self.parts, other.parts
        return numbers == others and all(
            a is b if a is None or b is None else np.array_equal(a, b)
            for a, b in zip(arrays, those, strict=True)
        )

    def check(self) -> None:
        """Raises ValueError for what cannot be asked."""
        traits = self.operation.traits
        check_labels(self.labels, self.k, "an assignment")
        lowest = int(self.labels.min(initial=0))
        refuse_if(traits.everywhere and lowest < 0, f"every point is in a cluster of a {self.operation.kind}")
        refuse_if(
            traits.halves and self.k % 2 != 0, f"every cluster has two halves, so k={self.k} must be even"
        )
        refuse_if(self.factor < 1, "the factor of a comparison is at least 1")
        refuse_if(
            self.factor > 1 and not traits.factors, "only centers of all points are compared by a factor"
        )
        refuse_if(
            (self.shared is None) == traits.shared, "a step is named where labels stay shared, only there"
        )
        if self.shared is not None:
            self._check_step(self.shared)
        due = traits.detail
        refuse_if(
            (self.detail is None) == (due is not None), f"{self.operation.kind} lacks its detail, or has one"
        )
        if self.detail is not None and due is not None:
            due(self, self.detail)

    def _check_step(self, at: SharedStep) -> None:
        check_sizes(at.sizes)
        refuse_if(at.step < 0, "steps count from 0")
        refuse_if(at.step < 1 and self.operation.opens != "sizes", "labels are known before the first step")
        refuse_if(at.run < 0, "restarts count from 0")
        groups, rule = at.groups, "every cluster is in one of k groups, or has no points"
        refuse_if(not is_array(groups, "i", 1) or len(groups) != len(at.sizes), rule)
        refuse_if(bool(((groups < -1) | (groups >= self.k)).any()), rule)
        refuse_if(bool(at.sizes[groups < 0].any()), rule)


class Query(Message, tag=185):
    """Server to every client: what to find out about clusters (an `Operation`), and who takes part.

    responders: numbers of the clients whose replies are wanted, int32; empty for all.  Ascending under
    zero-sum masks; under a dealt blinding those who deal it come first.  committee: who compares, or rounds
    centers before numbers of them are opened; None where the server decodes.
    """

    round: int
    subject: Subject
    responders: Array
    committee: ComparisonCommittee | None = None

    def __post_init__(self) -> None:
        operation, committee = self.operation, self.committee
        refuse_if(self.round < 0, "rounds count from 0")
        decodes = operation.opens == "distances"
        refuse_if(decodes and committee is not None, "nobody compares what the server decodes")
        refuse_if(committee is None and (operation.compares or operation.shared), "somebody compares")
        self.subject.check()
        check_numbers(self.responders, "responders")
        if committee is not None:
            check_numbers(committee.members, "members of a committee")
            among = 0 <= committee.corrected < committee.members.size
            refuse_if(not among, "corrections go to one of the committee")

    def renumber(self, later: int) -> Query:
        """The same so many rounds later, with what is known of it: `dataclasses.replace` checks it anew."""
        other = object.__new__(Query)
        other.__dict__.update(self.__dict__, round=self.round + later)
        return other

    @property
    def kind(self) -> str:
        return self.operation.kind

    @property
    def operation(self) -> Operation:
        return self.subject.operation

    @property
    def k(self) -> int:
        return self.subject.k

    @property
    def labels(self) -> Array:
        return self.subject.labels

    @property
    def detail(self) -> Array:
        return self.subject.needed_detail

    @property
    def at(self) -> SharedStep:
        """State of its run on shared labels."""
        return self.subject.at

    @property
    def members(self) -> Array:
        """Numbers of the clients that compare; none where the server decodes."""
        return np.empty(0, np.int32) if self.committee is None else self.committee.members

    @property
    def corrected(self) -> int:
        """The place in the committee of the one that a dealer sends corrections to."""
        return 0 if self.committee is None else self.committee.corrected

    @cached_property
    def digest(self) -> bytes:
        """32 bytes that name all that is asked, and of whom; the round is a nonce of its own.

        Every mask of an answer is bound to it.  Replies of clients that were told different labels so stay
        hidden: bare, their sum would say how the share of one client changes with the labels.
        """
        numbers, arrays = self.subject.parts
        arrays = *arrays, self.responders, None if self.committee is None else self.committee.members
        shapes = [None if part is None else part.shape for part in arrays]
        state = hashlib.blake2b(digest_size=32, person=b"secfc-query")
        state.update(f"{numbers} {self.corrected} {shapes} ".encode())
        for part in arrays:
            if part is not None:  # labels lie below k, which the plan bounds
                state.update(np.ascontiguousarray(part, "<i4" if part is self.labels else "<i8").data)
        return state.digest()


# --------------------------------------------------------------------------------------------------
# What a client accepts from the server: questions and results that fit the plan.
#
# The constructors of messages check what can be told from a message alone; here it is compared with the plan,
# so that neither a broken server nor a broken link can make a client compute, or allocate, what was not due.
# What fits the plan and is a lie is not noticed.


def receive_query(plan: CodedPlan, k: int, wait: Exchange) -> Role[tuple[Any, int]]:
    """The server's next word, after this exchange: of another type than these, or as the plan has it; what
    came of it, if a journal has that.

    Also how many questions before it did not come: lost, or put to others.

    k: clusters, of which starts may ask for fewer, for spare ones, or for both halves of each.

    Raises FaultyServer; TooFewReplies if the server fell silent.
    """
    # Every question begins a stride of rounds in the last phase of a run.
    inbox = yield replace(wait, exact=False, step=STRIDE)
    message = expect_one(inbox, SERVER)
    due = wait.round if wait.accept is None else wait.accept
    number = inbox.rounds[SERVER] if isinstance(inbox, Inbox) else due
    match message:
        case Settled():
            number = message.request.round
        case Query() | RevealCenters() | RevealSums():
            number = message.round
            _refuse(
                not due <= message.round < ITERATE + PHASE or (message.round - due) % STRIDE != 0,
                "numbered its question out of turn",
            )
            # Of new points there may be fewer than clusters.
            most = largest_question(plan, k, message) if isinstance(message, Query) else k
            _refuse(message.k > most, f"asked for more than {most} clusters, where k={k}")
            if not isinstance(message, RevealSums):
                _refuse(len(message.labels) != plan.m, f"labeled {len(message.labels)} points of m={plan.m}")
            if isinstance(message, Query) and len(message.responders):
                strangers = int(message.responders.max()) >= len(plan.clients)
                _refuse(strangers, f"asked more than {len(plan.clients)} clients")
                few = len(message.responders) < plan.code.threshold(2)
                _refuse(few, "asked fewer clients than decoding needs")
        case FinalResult():
            check_clusters(plan, k, message.k)
            _refuse(len(message.labels) != plan.m, f"labeled {len(message.labels)} points of m={plan.m}")
            check_centers(plan, message.centers)
        case RunEnded():
            check_clusters(plan, k, len(message.sizes))
            check_centers(plan, message.centers)
    return message, (number - due) // STRIDE


def largest_question(plan: CodedPlan, k: int, question: Query) -> int:
    """How many clusters, or halves or groups of them, a question may be about."""
    operation = question.operation
    twice = operation.halves or plan.init.grows or operation is Operation.NOISY_SUMS
    return max(k, clusters_to_split(plan.m, k, plan.init.spare)) * (2 if twice else 1)


def check_clusters(plan: CodedPlan, k: int, count: int) -> None:
    """Raises FaultyServer for a run that ended with another number of clusters than is due."""
    other = count > k if plan.elbow else count != k
    _refuse(other, f"ended with another number of clusters than k={plan.choice}")


def check_centers(plan: CodedPlan, shown: Any) -> None:
    """Raises FaultyServer for centers that the plan keeps closed, or of other features."""
    _refuse((shown is None) == bool(plan.revealing), "shows centers where it may not, or hides them")
    if shown is not None:
        _refuse(shown.shape[1] != plan.d, f"shows centers of other than d={plan.d} features")


def _refuse(wrong: bool, why: str) -> None:
    if wrong:
        raise FaultyServer(SERVER, why)
