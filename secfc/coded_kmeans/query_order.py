"""The queries of a plan, in order: each client recomputes the allowed queries and rejects all others.

The start is a public function of the plan and a seed that no server chooses (`secfc.roles.agreement`), a step
asks about the labels of the step before, a restart has so many steps, and there are so many restarts.  So the
program that the server runs (`Start.draw_labels`, `lloyd`) runs at every client too, over a source that asks
nobody: what it would ask is `ExpectedQuery`, and the referee compares.

What an answer opened is known to a client that hears the labels from those who computed them.  Where the
server alone decodes it, the labels of its next question are taken for it: then counts, starts and order hold,
and the labels of a step may be a lie.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from field.arrays import Array
from field.code.distances import widest_multiple
from field.code.rows import cluster_sizes
from field.ring.uint128 import UInt128
from secfc.coded.plan import CodedPlan
from secfc.coded.policy import Disclosure, Exposure, LabelSharing
from secfc.coded.queries import Operation, Query, Subject
from secfc.disclosure.compare.candidates import candidates_in, moved_points
from secfc.disclosure.compare.session import CommitteeChoice, should_prune
from secfc.disclosure.owner_labels.run_state import PublicRunState
from secfc.errors import FaultyServer
from secfc.kmeans.bisecting import number_clusters, pair_sides
from secfc.kmeans.loop import (
    CostRequest,
    GainRequest,
    Move,
    Moves,
    RefineRequest,
    SplitRequest,
    Step,
    Trace,
    WeighedClusters,
    all_pairs,
    last_labels,
    lloyd,
    measure_stability,
)
from secfc.kmeans.starts import RestartLabels, restart_generators
from secfc.roles.blame import suspect_parties
from secfc.roles.exchange import SERVER, PartyId, Role


class InconsistentResponse(Exception):  # noqa: N818 - what happened
    """A response is inconsistent with the query sequence: the server lies, or the client missed queries."""


# What a course is sent if labels that were shared are lost, and their run starts again.
AGAIN = np.empty(0, np.int32)
EARLY = "ended the run before the plan did, or with other labels than those last opened"


@dataclass(frozen=True, eq=False)
class ExpectedQuery:
    """What is asked next.

    opens: whether its answer is labels.  result: whether a run that ends with it ends with the labels that it
    asks about.  last: whether a restart may end with it: with a step, and not while a start is drawn.
    free: whether only the beginning of its detail is due, and what follows is the server's word.
    """

    subject: Subject
    opens: bool = True
    result: bool = True
    last: bool = True
    free: bool = False

    @property
    def operation(self) -> Operation:
        return self.subject.operation

    @property
    def labels(self) -> Array:
        return self.subject.labels

    def is_asked(self, question: Query) -> bool:
        """Whether this is what the question asks."""
        if self.free and question.operation is self.operation:
            due = self.subject.needed_detail
            return np.array_equal(question.detail[: len(due)], due)
        return question.subject.equals(self.subject)

    def pin(self, question: Query, n: int) -> ExpectedQuery:
        """What repeats this question.  n: clients, of whom others may deal noise then."""
        if not self.free:
            return self
        return replace(self, subject=replace(question.subject, detail=question.detail[:-n]))


# A fragment for `Start.draw_labels` and `lloyd`: it yields what is due where a role yields an exchange.
Asking = Generator[Any, Any, Array]
# Yields what is due, is resumed with the labels that the answer opened, ends with those of the result.
Course = Generator[ExpectedQuery, Array, Array]


class QueryGenerator:
    """A `lloyd.Source` of what would be asked: its fragments yield what is due instead of exchanges.

    exposes: what the policy shows the server, which decides how it asks.  seating: who compares where a step
    may take two questions; None where it never does.  started: whether the start is drawn, so that a restart
    may end.
    """

    def __init__(self, plan: CodedPlan, exposes: Exposure, seating: CommitteeChoice | None = None) -> None:
        self.plan, self.exposes, self.seating, self.started = plan, exposes, seating, False

    @property
    def compares(self) -> bool:
        """Whether clients compare distances, and nobody is asked for what sizes alone decide."""
        return self.exposes in ("labels", "sizes", "steps", "nothing")

    def ask(self, labels: Array, k: int, sizes: Array, factor: int = 1, *, result: bool = True) -> Asking:
        """The labels that the centers of clusters of these sizes give."""
        if not self.compares:
            subject = Subject(Operation.DISTANCE, k, labels)
            told: Array = yield ExpectedQuery(subject, result=result, last=self.started)
            return told
        subject = Subject(Operation.COMPARE, k, labels, factor)
        known = self.labels_by_sizes(subject, sizes)
        if known is None:
            known = yield ExpectedQuery(subject, result=result)
        return known

    def labels_by_sizes(self, subject: Subject, sizes: Array) -> Array | None:
        """The labels that follow from sizes alone, so that nobody is asked; None if none do."""
        return candidates_in(subject, sizes, self.plan.code.ell, self.plan.d).labels_by_sizes(self.plan.m)

    def take_step(self, labels: Array, k: int, moved: int | None = None) -> Role[Step]:
        sizes = cluster_sizes(labels, k)
        first = self.seating is not None and should_prune(self.plan, labels, sizes, moved, self.seating)
        told = yield from (self.ask_first(labels, k) if first else self.ask(labels, k, sizes))
        if not self.started:
            # A start goes on with them: every point has a nearest center if there is any, whatever is said.
            told = np.clip(told, 0 if sizes.any() else -1, k - 1).astype(np.int32)
        return Step(told, None)

    def ask_first(self, labels: Array, k: int) -> Asking:
        """Labels of a step, of points that another center wins alone; -1 for one in the first answer."""
        told: Array = yield ExpectedQuery(Subject(Operation.COMPARE_OWN, k, labels))
        moved = told < 0
        if moved.any():
            bits = np.packbits(moved, bitorder="little")
            told = yield ExpectedQuery(Subject(Operation.COMPARE_MOVED, k, labels, detail=bits))
        return told

    def separate_points(self, labels: Array, k: int, factor: int) -> Role[Array]:
        return (yield from self.ask(labels, k, cluster_sizes(labels, k), factor))

    def draw_points(self, labels: Array, k: int, draw: Callable[[UInt128], Array]) -> Asking:
        """The points that the server says it drew: those in clusters of the next question, in their order."""
        told = yield ExpectedQuery(Subject(Operation.DISTANCE, k, labels), opens=False, last=False)
        order = np.argsort(told, kind="stable")
        return np.asarray(order[min(np.count_nonzero(told < 0), len(order) - 1) :])

    def halve_clusters(self, labels: Array, c: int) -> Asking:
        operation = Operation.COMPARE_HALVES if self.compares else Operation.HALF_DISTANCE
        subject = Subject(operation, 2 * c, labels)
        if (
            self.compares
            and (known := self.labels_by_sizes(subject, cluster_sizes(labels, 2 * c))) is not None
        ):
            return known
        told = yield ExpectedQuery(subject, result=False, last=False)
        # A point stays in its cluster, whatever the next question says.
        return np.where(told // 2 == labels // 2, told, labels).astype(np.int32)

    def split_clusters(
        self, labels: Array, c: int, choose: Callable[[tuple[Fraction, ...]], Array]
    ) -> Asking:
        """The labels that the server says it chose: those of the next question."""
        if self.compares and not widest_multiple(cluster_sizes(labels, 2 * c)):
            return choose((Fraction(0),) * c)
        operation = Operation.GAIN if self.compares else Operation.HALF_DISTANCE
        told: Array = yield ExpectedQuery(Subject(operation, 2 * c, labels), opens=False, last=False)
        return told

    def merge_clusters(
        self, labels: Array, c: int, pairs: Array, choose: Callable[[tuple[Fraction, ...]], Array]
    ) -> Asking:
        """The labels that the server says it chose: those of the next question."""
        subject = Subject(Operation.DISTANCE, c, labels)
        if self.compares:
            subject = Subject(Operation.LOSS, c, labels, detail=pairs)
        told: Array = yield ExpectedQuery(subject, opens=False, last=False)
        return told

    def weigh_merges(self, labels: Array, c: int, choose: Callable[[WeighedClusters], Array]) -> Asking:
        """Labels that the server chose by the costs of all merges."""
        if not self.compares:
            return (yield from self.merge_clusters(labels, c, all_pairs(c), lambda losses: labels))
        told: Array = yield ExpectedQuery(Subject(Operation.COST, c, labels), opens=False, last=False)
        return (
            told
            if c == 1
            else (yield from self.merge_clusters(labels, c, all_pairs(c), lambda losses: labels))
        )

    def run_lloyd(self, labels: Array, k: int, max_iter: int) -> Generator[Any, Any, Trace]:
        """A whole run of the heuristic."""
        self.started = True
        return (yield from lloyd(labels, k, max_iter, self))


def implied_response(question: Query, due: ExpectedQuery) -> Array:
    """What `due` opened, labels mostly, if the server goes on with this question.

    Where clusters are halved they are whole in what was opened before, if not the answer was halves too.
    """
    at = question.subject.shared
    if at is not None and due.operation.shared:
        if due.operation.opens == "sizes":
            return np.array([question.operation is not Operation.LLOYD_STEP, *at.sizes.tolist()])
        if due.operation is Operation.SPLIT_GAIN:
            return at.groups
        return np.array([-1 - at.run])  # no label is below 0 there
    whole = question.operation.halves and not (due.operation.halves and due.opens)
    after: Array = question.labels // 2 if whole else question.labels
    if due.operation is not Operation.COMPARE_OWN:
        return after
    # Either points that moved are asked for, or what their labels became is asked about.
    moves = question.operation is Operation.COMPARE_MOVED
    moved = moved_points(question.subject) if moves else after != due.labels
    return np.where(moved, -1, due.labels)


def prediction_queries(plan: CodedPlan, exposes: Exposure, sizes: Array) -> Iterator[Course]:
    """The course of labeling new points by retained centers, of clusters of these sizes."""
    nobody, source = np.full(plan.m, -1, np.int32), QueryGenerator(plan, exposes)
    source.started = True
    subject = Subject(Operation.COMPARE, len(sizes), nobody)
    if exposes in ("sizes", "steps") and source.labels_by_sizes(subject, sizes) is None:
        return iter([owner_prediction_queries(nobody, sizes)])
    return iter([source.ask(nobody, len(sizes), sizes, result=False)])


def owner_prediction_queries(nobody: Array, sizes: Array) -> Course:
    """The course where owners alone hear the labels; it ends with the sizes."""
    subject = Subject(Operation.PREDICT_LABELS, len(sizes), nobody)
    yield ExpectedQuery(subject, opens=False, result=False)
    return sizes


class QueryValidator:
    """Which questions a client answers.  Pure, and no frozen value: what changes is what was asked.

    courses: of all restarts.  opens: whether the client hears from others than the server what labels an
    answer opened; it says so in `opened`, None where it did not hear.
    """

    def __init__(self, plan: CodedPlan, courses: Iterable[Course], *, opens: bool) -> None:
        self.plan, self.courses, self.opens = plan, iter(courses), opens
        self.opened: Array | None = None
        self.course: Course | None = None
        self.due: ExpectedQuery | None = None
        self.committee: tuple[PartyId, ...] = ()  # who computed what the last answer opened
        self.tried: set[tuple[int, ...]] = set()  # players that this question was put to
        self.ends: list[Array] = []  # of the restarts that ended
        self.next: tuple[Course, ExpectedQuery] | None = (
            None  # the next restart, whose first question is known
        )
        self.sure, self.over = True, False
        self.skipped = 0  # questions that I missed before one that seemed to repeat the last
        # Whether a question was ever missed, and whether what came later did not fit any more.
        self.gap, self.lost = False, False

    def ask(self, question: Query, missed: int = 0) -> bool:
        """Take a question; False if I did not hear what it must follow from, so that I must not answer.

        missed: how many questions before it did not come.

        Raises FaultyServer for a question that is not due, whatever came before.
        """
        players = self.players(question)
        if self.is_due(question) and players not in self.tried:
            return self.repeat(question, players, missed)
        heard = self.has_heard()
        again = self.starts_again(question)
        due = self.go_on(AGAIN) if again else self.follow_labels(question)
        missed, self.skipped = missed + self.skipped, 0
        due = self.skip_missed(question, due, missed)
        fits = due is not None and due.is_asked(question)
        self.gap = self.gap or missed > 0
        self.lost = self.lost or (self.gap and not fits)
        self.sure = not self.lost and (heard or again) and not (self.opens and missed)
        if self.lost:
            return False  # no blame: what I once did not hear may explain it
        if not fits:
            self.refuse_query(question, due)
        self.committee = self.members(question)
        self.due = due and due.pin(question, len(self.plan.clients))
        self.opened, self.tried = None, {players}
        return self.sure

    def has_heard(self) -> bool:
        """Whether I know what the last question opened, as far as I hear that at all."""
        return not self.opens or self.due is None or not self.due.opens or self.opened is not None

    def skip_missed(self, question: Query, due: ExpectedQuery | None, missed: int) -> ExpectedQuery | None:
        """What is due after at most so many questions that I missed: this one, if it can be."""
        for _ in range(missed):
            if due is None or due.is_asked(question):
                break
            due = self.go_on(implied_response(question, due))
        return due

    def is_due(self, question: Query) -> bool:
        """Whether a question is the last one once more."""
        return self.due is not None and self.due.is_asked(question)

    def repeat(self, question: Query, players: tuple[int, ...], missed: int) -> bool:
        """Take the last question once more, of others; False if I must not answer.

        Raises FaultyServer for more repetitions than there are clients.
        """
        # Whoever fell silent is left out when a question is repeated, so there are only so many.
        self.refuse(len(self.tried) > len(self.plan.clients), "repeated a question more often than clients")
        self.tried.add(players)
        # A question that I missed may have asked the same: this is perhaps that one again.
        self.skipped += missed
        # Whoever sat on a committee of it may have computed what was opened.
        self.committee = tuple(dict.fromkeys((*self.committee, *self.members(question))))
        return self.sure

    def follow_labels(self, question: Query) -> ExpectedQuery | None:
        """What is due after the last question, or the first of a run that must begin anew to share labels."""
        due = self.follow(question)
        if (
            due is not None
            and due.operation in (Operation.EXPLAINED, Operation.DELIVER_LABELS, Operation.REVEAL_LABELS)
            and self.is_start(question, due)
        ):
            # Others shared the labels of the cheapest run, or part of those is gone by now.
            return self.go_on(AGAIN)
        return due

    def refuse_query(self, question: Query, due: ExpectedQuery | None) -> None:
        """Raises FaultyServer for a question that is not due; SuspectedParties where others explain it."""
        self.refuse(due is None, "asked more than the plan has: all of its restarts and steps are over")
        if due is None:
            return
        why = f"asked {self.words(question)} where the plan has {self.words(due)}"
        if self.is_due(question):
            # Put again to the same: one of them may have told the server another word than the due one.
            asked = (self.plan.clients[j] for j in question.responders.tolist())
            members = self.members(question)
            raise suspect_parties(
                "Query", f"the server {why}", server=SERVER, responders=asked, committee=members
            )
        self.refuse(True, why)

    def starts_again(self, question: Query) -> bool:
        """Whether a run on shared labels begins anew, as a committee that shared them lost a member.

        As many questions ago as it may be, its first labels are those of the last question.
        """
        if self.due is None or not self.is_start(question, self.due):
            return False
        return self.members(question) != self.committee

    def is_start(self, question: Query, due: ExpectedQuery) -> bool:
        """Whether a question is the first one of the run on shared labels that another is about."""
        at, last = question.subject.shared, due.subject.shared
        if question.operation.opens != "sizes" or at is None or last is None or at.run != last.run:
            return False
        return at.step == 0 < last.step and np.array_equal(question.labels, due.labels)

    def members(self, question: Query) -> tuple[PartyId, ...]:
        """Who compares distances for a question, if clients do."""
        clients = self.plan.clients
        return tuple(clients[j] for j in question.members.tolist() if j < len(clients))

    def players(self, question: Query) -> tuple[int, ...]:
        """Numbers of those that a question is put to, apart; and which clients deal noise, where some do."""
        players = *question.responders.tolist(), -1, *question.members.tolist()
        if question.operation is not Operation.NOISY_SUMS:
            return players
        return *players, -1, *question.detail[-len(self.plan.clients) :].tolist()

    def follow(self, question: Query) -> ExpectedQuery | None:
        """What is due after the last question, of which this may be the next."""
        due = self.due
        if due is None:
            return self.begin()
        if not due.opens:
            return self.go_on(implied_response(question, due))
        if self.opened is not None:
            return self.go_on(self.opened)
        begins = self.peek_restart() if due.last else None  # of how many clusters is known then
        if begins is not None and not self.opens and begins[1].is_asked(question):
            self.ends.append(due.labels)
            return self.begin()
        # Whether the last step changed a label is told by what is asked about next.
        return self.go_on(implied_response(question, due))

    def note_missed(self, missed: int) -> None:
        """Take notice of so many questions that did not come."""
        self.gap = self.gap or missed > 0

    def end(self, labels: Array, missed: int = 0) -> bool:
        """Take the labels that the run ends with, once or again; False if I cannot know them.

        missed: how many questions before it did not come.

        Raises FaultyServer for other labels than a restart ended with.
        """
        self.gap = self.gap or missed + self.skipped > 0
        if self.lost or self.gap:
            return not self.opens
        if not self.over:
            self.over, due = True, self.due
            if due is None:
                due = self.begin()
                self.refuse(due is not None, EARLY)
            elif due.opens and self.opened is None:
                self.refuse(not self.opens and not due.last, EARLY)
                if not due.result:
                    return not self.opens
                self.ends.append(due.labels)
                if not self.ended_with(labels):  # a last step that sizes decided
                    self.refuse(self.go_on(labels) is not None, EARLY)
            else:
                self.refuse(self.go_on(labels if self.opened is None else self.opened) is not None, EARLY)
        elif not self.ends:
            return not self.opens
        self.refuse(not self.ended_with(labels), "ended with other labels than those last opened")
        return True

    def ended_with(self, labels: Array) -> bool:
        """Whether a restart ended with these labels."""
        return any(np.array_equal(labels, end) for end in self.ends)

    def go_on(self, labels: Array) -> ExpectedQuery | None:
        """The next question of this restart, or the first of the next one."""
        if self.course is None:
            return self.begin()
        try:
            return self.course.send(labels)
        except StopIteration as done:
            self.ends.append(done.value)
            return self.begin()
        except InconsistentResponse:
            self.course, self.courses, self.next = None, iter(()), None
            return None

    def begin(self) -> ExpectedQuery | None:
        """The first question of the next restart."""
        begins, self.next = self.peek_restart(), None
        if begins is None:
            return None
        self.course = begins[0]
        return begins[1]

    def peek_restart(self) -> tuple[Course, ExpectedQuery] | None:
        """The next restart and its first question; those that ask nothing are over with it."""
        while self.next is None:
            course = next(self.courses, None)
            if course is None:
                return None
            try:
                self.next = course, next(course)
            except StopIteration as done:
                self.ends.append(done.value)
        return self.next

    def words(self, asked: Query | ExpectedQuery) -> str:
        """A question in words that show no label."""
        subject = asked.subject
        more = f" by a factor of {subject.factor}" if subject.factor != 1 else ""
        return f"{subject.operation.kind}(k={subject.k}){more} of " + (
            "the labels that are next" if isinstance(asked, ExpectedQuery) else "some labels"
        )

    def refuse(self, wrong: bool, why: str) -> None:
        if wrong and self.opened is not None:
            # What a member told me may be another share than it told the server.
            raise suspect_parties("Query", f"the server {why}", server=SERVER, committee=self.committee)
        if wrong:
            raise FaultyServer(SERVER, why)


# --------------------------------------------------------------------------------------------------
# The courses of all restarts of a run: what is due of a start, of the steps from it, and at the end.


class RestartQueries:
    """The courses of a run, one a restart, which begins when its first question is asked for.

    rng: at its beginning, the same for all parties.  drawing: of how many clusters, as far as that is known.
    """

    def __init__(self, plan: CodedPlan, policy: Disclosure, rng: np.random.Generator) -> None:
        self.plan, self.exposes, self.sharing = plan, policy.capabilities.exposes, policy.sharing
        self.seating = policy.committee_choice(plan)
        self.questions = policy.capabilities.sums  # about sums under noise
        self.drawing = RestartLabels(plan.init, plan.m, plan.choice)
        self.each = restart_generators(rng, plan.n_init)
        self.traces: list[
            Trace
        ] = []  # of restarts that are over, the best one alone where labels stay shared

    def __iter__(self) -> Iterator[Course]:
        if self.questions:
            return iter([noisy_sum_queries(self.plan, self.questions)])
        if self.sharing is not None:
            shared = shared_label_restarts(
                self.plan, self.sharing, self.drawing, self.each, self.traces.append
            )
            return iter([shared])
        return map(self.restart_queries, self.each)

    def find_trace(self, labels: Array) -> Trace | None:
        """The run that ended with these labels, or where they stay shared; None if none is known to."""
        runs = enumerate(self.traces)
        ended = ((i, t) for i, t in runs if self.sharing or np.array_equal(t.labels, labels))
        if (found := next(ended, None)) is None:
            return None
        ends = [last_labels(trace) for trace in self.traces]
        ends += [None] * (self.plan.n_init - len(ends))  # of those whose end I did not hear
        return replace(found[1], stability=measure_stability(ends, found[0]))

    def restart_queries(self, own: np.random.Generator) -> Asking:
        plan, source = self.plan, QueryGenerator(self.plan, self.exposes, self.seating)
        labels, k = yield from self.drawing(own, source)
        trace = yield from source.run_lloyd(labels, k, plan.max_iter)
        self.traces.append(trace)
        told = trace.labels
        if plan.n_init > 1 and source.compares:
            told = yield ExpectedQuery(Subject(Operation.COST, k, trace.labels), opens=False)
        if plan.dendrogram and len(self.traces) == plan.n_init:
            # Which run was the cheapest is the server's word, and that it is one of them is not.
            ends, best = [number_clusters(each.labels) for each in self.traces], number_clusters(told)
            labels = next((each for each in ends if np.array_equal(each, best)), ends[-1])
            if c := int(labels.max()):
                yield from source.merge_clusters(labels, c + 1, all_pairs(c + 1), lambda losses: labels)
        return trace.labels


def noisy_sum_queries(plan: CodedPlan, questions: int) -> Course:
    """Questions about noisy sums by number, about centers that are the server's word.  Ends with sizes."""
    nobody = np.full(plan.m, -1, np.int8)
    for number in range(questions):
        subject = Subject(Operation.NOISY_SUMS, plan.k, nobody, detail=np.array([number], np.int64))
        yield ExpectedQuery(subject, opens=False, result=False, last=False, free=True)
    return np.ones(plan.k, np.int64)


class SharedLabelQueries(QueryGenerator):
    """The source of one restart on labels that stay shared, by its number."""

    def __init__(self, plan: CodedPlan, sharing: LabelSharing, number: int) -> None:
        super().__init__(plan, "steps" if sharing.hidden else "sizes")
        self.sharing, self.number = sharing, number

    def grow_clusters(self, moves: Callable[[int], Moves]) -> Generator[Any, Any, PublicRunState]:
        """The clusters that moves lead to; no client hears gains and costs, but what follows from them."""
        run = PublicRunState.whole(self.number, self.plan.m, self.sharing)

        def answer(move: Move) -> Generator[Any, Any, Any]:
            match move:
                case SplitRequest():
                    asked = run.ask(Operation.SPLIT, move.directions)
                    told = (yield from emit_query(run, asked, 1 + 2 * run.k))[1:]
                    run.moved(asked, told)
                    return told
                case RefineRequest():
                    asked = run.ask(Operation.LLOYD_STEP)
                    told = yield from emit_query(run, asked, 1 + run.k)
                    run.moved(asked, told[1:])
                    return bool(told[0]), told[1:]
                case GainRequest():
                    told = yield from emit_query(run, run.ask(Operation.SPLIT_GAIN, move.sides), opens=False)
                    if len(told) == self.plan.m and not told.any():
                        return np.zeros(run.k, np.int64)  # all are one cluster, so the run ends with labels
                    if len(told) != len(run.last):
                        raise InconsistentResponse
                    # Of the clusters that were last opened; those now are unions of them.
                    return told[np.unique(move.groups, return_index=True)[1][-run.k :]]
                case CostRequest() if run.foregone:
                    yield ExpectedQuery(Subject(Operation.COST, run.k, run.known), opens=False, last=False)
                case CostRequest():
                    yield from emit_query(run, run.ask(Operation.CLUSTER_COST), opens=False)
            return None

        return (yield from run.led(moves(self.plan.features), answer))


def shared_label_restarts(
    plan: CodedPlan,
    sharing: LabelSharing,
    drawing: RestartLabels,
    each: Iterator[np.random.Generator],
    chosen: Callable[[Trace], None],
) -> Course:
    """Ends with the sizes of the run whose labels owners got, or with labels that all know.

    chosen: told what all know of that run.

    Which run was the cheapest is the server's word: clients hear no costs.
    """
    runs, several = list[PublicRunState](), plan.n_init > 1
    told = np.empty(0, np.int32)
    for number, own in enumerate(each):
        start, k = yield from drawing(own, SharedLabelQueries(plan, sharing, number))  # type: ignore[misc]
        run = start if isinstance(start, PublicRunState) else PublicRunState.begun(number, start, k, sharing)
        runs.append(run)
        run.begin(k, plan.max_iter)
        while not run.over and not run.foregone:
            # What a step opens is an array: whether no label changed, and the sizes after it.
            asked = run.ask(Operation.LLOYD_STEP)
            told = yield from emit_query(run, asked, 1 + k)
            run.go_on(asked, bool(told[0]), told[1:])
        if several and run.foregone:
            told = yield ExpectedQuery(Subject(Operation.COST, k, run.known), opens=False, last=False)
        elif several:
            told = yield from emit_query(run, run.ask(Operation.CLUSTER_COST), opens=False)
    best = cheapest_run(runs, told) if several else runs[0]
    chosen(Trace(best.k, (), None, best.converged, best.n_iter, tuple(best.sizes), best.number))
    if best.foregone:
        return best.known
    if sharing.everybody:
        return (yield from emit_query(best, best.ask(Operation.REVEAL_LABELS), plan.m))
    if plan.layout.explained is not None:
        # Who heard that labels explain more has ended the run.
        yield from emit_query(best, best.ask(Operation.EXPLAINED))
    if plan.dendrogram:
        yield from emit_query(best, best.ask(Operation.SPLIT_GAIN, pair_sides(best.now)), opens=False)
    yield from emit_query(best, best.ask(Operation.DELIVER_LABELS), opens=False)
    return best.told


def cheapest_run(runs: list[PublicRunState], told: Array) -> PublicRunState:
    """The run that the server named as the cheapest, by its labels (m,) or a number; the first if none."""
    # A run whose labels are told is named by a number below 0.
    named = -1 - int(told[0]) if len(told) else -1
    if 0 <= named < len(runs):
        return runs[named]
    return next((run for run in runs if run.foregone and np.array_equal(told, run.known)), runs[0])


def emit_query(
    run: PublicRunState, asked: Subject, count: int | None = None, *, opens: bool = True
) -> Asking:
    """What a question opens, or what is told if the server goes on; after all steps that led to it, if others
    take these again.

    Raises Unfollowed if that are not so many numbers.
    """
    while True:
        again = run.at < len(run.trail)
        due = run.trail[run.at] if again else asked
        told: Array = yield ExpectedQuery(due, opens=opens or again, result=False, last=False)
        if told is AGAIN:
            run.at = 0
        elif again:
            run.at += 1
        elif count is not None and len(told) != count:
            raise InconsistentResponse
        else:
            return told
