"""The questions a plan has, in their order: every client walks them itself, and answers nothing else.

The start is a public function of the plan and a seed that no server chooses (`secfc.roles.toss`), a step asks
about the labels of the step before, a restart has so many steps, and there are so many restarts.  So the
program that the server runs (`Start.draw`, `lloyd`) runs at every client too, over a source that asks nobody:
what it would ask is `Due`, and the referee compares.

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
from numpy.typing import NDArray

from field.code.halves import widest
from field.code.rows import cluster_sizes
from field.ring.exact import Exact
from secfc.coded.messages import (
    Assignment,
    Compare,
    CompareHalves,
    Halve,
    MeasureCost,
    MeasureGains,
    MeasureLosses,
)
from secfc.coded.moving_messages import CompareMoved, CompareOwn
from secfc.coded.plan import Plan
from secfc.coded.policy import Exposure
from secfc.disclosure.compare.asking import asks_first
from secfc.disclosure.compare.match import Seating
from secfc.disclosure.compare.rivals import moved_in, rivals_of
from secfc.disclosure.joint.messages import Cluster
from secfc.disclosure.own.messages import Advance, Cleave, Deliver, Locate, MeasureSplits, Show, Weigh
from secfc.lloyd.loop import Step, Trace, Weighed, lloyd
from secfc.lloyd.neighbors import every_two
from secfc.roles.exchange import SERVER, FaultyServer, PartyId, Role, SuspectedParties

Array = NDArray[Any]


class Unfollowed(Exception):  # noqa: N818 - what happened
    """A course was told what cannot be: by a server that lies, or after questions that I missed."""


# What a course is sent if labels that were shared are lost, and their run starts again.
AGAIN = np.empty(0, np.int32)
EARLY = "ended the run before the plan did, or with other labels than those last opened"


@dataclass(frozen=True, eq=False)
class Due:
    """A question: its type, clusters, labels (m,) and factor.

    opens: whether its answer is labels.  result: whether a run that ends with it ends with the labels that it
    asks about.  last: whether a restart may end with it: with a step, and not while a start is drawn.
    halves: whether its answer is halves of clusters.  pairs: of clusters, if it asks about such.  run, step,
    sizes, groups: of labels that stay shared, the number of the restart, how many steps were taken from its
    first labels, which labels then are, and the clusters after them; step -1 where labels are known.
    more: what only this kind of question has.
    """

    kind: type[Assignment]
    k: int
    labels: Array
    factor: int = 1
    opens: bool = True
    result: bool = True
    last: bool = True
    halves: bool = False
    pairs: Array | None = None
    step: int = -1
    sizes: tuple[int, ...] = ()
    run: int = 0
    groups: tuple[int, ...] = ()
    more: tuple[Array, ...] = ()

    def is_asked(self, question: Assignment) -> bool:
        """Whether this is what the question asks."""
        same = type(question) is self.kind and question.k == self.k
        return (
            same
            and getattr(question, "factor", 1) == self.factor
            and (self.pairs is None or np.array_equal(getattr(question, "pairs", ()), self.pairs))
            and getattr(question, "step", -1) == self.step
            and getattr(question, "run", 0) == self.run
            and tuple(getattr(question, "sizes", np.empty(0)).tolist()) == self.sizes
            and tuple(getattr(question, "groups", np.empty(0)).tolist()) == self.groups
            and all(np.array_equal(x, y) for x, y in zip(more_of(question), self.more, strict=True))
            and np.array_equal(question.labels, self.labels)
        )


# A fragment for `Start.draw` and `lloyd`: it yields what is due where a role yields an exchange.
Asking = Generator[Any, Any, Array]
# Yields what is due, is resumed with the labels that the answer opened, ends with those of the result.
Course = Generator[Due, Array, Array]


class Foreseen:
    """A `lloyd.Source` of what would be asked: its fragments yield what is due instead of exchanges.

    exposes: what the policy shows the server, which decides how it asks.  seating: who compares where a step
    may take two questions; None where it never does.  started: whether the start is drawn, so that a restart
    may end.
    """

    def __init__(self, plan: Plan, exposes: Exposure, seating: Seating | None = None) -> None:
        self.plan, self.exposes, self.seating, self.started = plan, exposes, seating, False

    @property
    def compares(self) -> bool:
        """Whether clients compare distances, and nobody is asked for what sizes alone decide."""
        return self.exposes in ("labels", "sizes", "steps", "nothing")

    def ask(self, labels: Array, k: int, sizes: Array, factor: int = 1, *, result: bool = True) -> Asking:
        """The labels that the centers of clusters of these sizes give."""
        if not self.compares:
            told: Array = yield Due(Assignment, k, labels, result=result, last=self.started)
            return told
        known = rivals_of(Compare, labels, sizes, factor).foregone(self.plan.m)
        if known is None:
            known = yield Due(Compare, k, labels, factor, result=result)
        return known

    def step(self, labels: Array, k: int, moved: int | None = None) -> Role[Step]:
        sizes = cluster_sizes(labels, k)
        first = self.seating is not None and asks_first(self.plan, labels, sizes, moved, self.seating)
        told = yield from (self.ask_first(labels, k) if first else self.ask(labels, k, sizes))
        if not self.started:
            # A start goes on with them: every point has a nearest center if there is any, whatever is said.
            told = np.clip(told, 0 if sizes.any() else -1, k - 1).astype(np.int32)
        return Step(told, None)

    def ask_first(self, labels: Array, k: int) -> Asking:
        """The same, of points that another center wins alone; -1 for one in the first answer."""
        told: Array = yield Due(CompareOwn, k, labels)
        moved = told < 0
        if moved.any():
            bits = np.packbits(moved, bitorder="little")
            told = yield Due(CompareMoved, k, labels, more=(bits,))
        return told

    def separated(self, labels: Array, k: int, factor: int) -> Role[Array]:
        return (yield from self.ask(labels, k, cluster_sizes(labels, k), factor))

    def drawn(self, labels: Array, k: int, draw: Callable[[Exact], Array]) -> Asking:
        """The points that the server says it drew: those in clusters of the next question, in their order."""
        told = yield Due(Assignment, k, labels, opens=False, last=False)
        order = np.argsort(told, kind="stable")
        return np.asarray(order[min(np.count_nonzero(told < 0), len(order) - 1) :])

    def halved(self, labels: Array, c: int) -> Asking:
        kind: type[Assignment] = Halve
        if self.compares:
            kind = CompareHalves
            known = rivals_of(CompareHalves, labels, cluster_sizes(labels, 2 * c)).foregone(self.plan.m)
            if known is not None:
                return known
        told = yield Due(kind, 2 * c, labels, result=False, last=False, halves=True)
        # A point stays in its cluster, whatever the next question says.
        return np.where(told // 2 == labels // 2, told, labels).astype(np.int32)

    def split(self, labels: Array, c: int, choose: Callable[[tuple[Fraction, ...]], Array]) -> Asking:
        """The labels that the server says it chose: those of the next question."""
        if self.compares and not widest(cluster_sizes(labels, 2 * c)):
            return choose((Fraction(0),) * c)
        told: Array = yield Due(
            MeasureGains if self.compares else Halve, 2 * c, labels, opens=False, last=False
        )
        return told

    def merged(
        self, labels: Array, c: int, pairs: Array, choose: Callable[[tuple[Fraction, ...]], Array]
    ) -> Asking:
        """The labels that the server says it chose: those of the next question."""
        due = Due(Assignment, c, labels, opens=False, last=False)
        told: Array = yield replace(due, kind=MeasureLosses, pairs=pairs) if self.compares else due
        return told

    def weighed(self, labels: Array, c: int, choose: Callable[[Weighed], Array]) -> Asking:
        """The same."""
        if not self.compares:
            return (yield from self.merged(labels, c, every_two(c), lambda losses: labels))
        told: Array = yield Due(MeasureCost, c, labels, opens=False, last=False)
        return told if c == 1 else (yield from self.merged(labels, c, every_two(c), lambda losses: labels))

    def lloyd(self, labels: Array, k: int, max_iter: int) -> Generator[Any, Any, Trace]:
        """A whole run of the heuristic."""
        self.started = True
        if self.exposes != "nothing":
            return (yield from lloyd(labels, k, max_iter, self))
        if k == 1 or labels.max() < 0:
            last = np.zeros_like(labels) if labels.max() >= 0 else labels
        else:
            last = yield Due(Cluster, k, labels, result=False)
        return Trace(k, (labels, last), None, False)


def more_of(question: Assignment) -> tuple[Array, ...]:
    """What only its kind of question has."""
    match question:
        case Cleave():
            return (question.directions,)
        case MeasureSplits():
            return (question.sides,)
        case CompareMoved():
            return (question.moved,)
    return ()


def told(question: Assignment, due: Due) -> Array:
    """What `due` opened, labels mostly, if the server goes on with this question.

    Where clusters are halved they are whole in what was opened before, if not the answer was halves too.
    """
    if isinstance(question, Advance | Cleave | MeasureSplits | Weigh | Deliver | Show):
        if due.kind in (Advance, Cleave):
            return np.array([not isinstance(question, Advance), *question.sizes.tolist()])
        if due.kind is MeasureSplits:
            return question.groups
        return np.array([-1 - question.run])  # no label is below 0 there
    whole = question.halves and not due.halves
    after: Array = question.labels // 2 if whole else question.labels
    if due.kind is not CompareOwn:
        return after
    # Either points that moved are asked for, or what their labels became is asked about.
    moved = moved_in(question) if isinstance(question, CompareMoved) else after != due.labels
    return np.where(moved, -1, due.labels)


def prediction(plan: Plan, exposes: Exposure, sizes: Array) -> Iterator[Course]:
    """The course of labeling new points by retained centers, of clusters of these sizes."""
    nobody, source = np.full(plan.m, -1, np.int32), Foreseen(plan, exposes)
    source.started = True
    if exposes in ("sizes", "steps") and rivals_of(Compare, nobody, sizes).foregone(plan.m) is None:
        return iter([located(nobody, sizes)])
    return iter([source.ask(nobody, len(sizes), sizes, result=False)])


def located(nobody: Array, sizes: Array) -> Course:
    """The course where owners alone hear the labels; it ends with the sizes."""
    yield Due(Locate, len(sizes), nobody, opens=False, result=False)
    return sizes


class Referee:
    """Which questions a client answers.  Pure, and no frozen value: what changes is what was asked.

    courses: of all restarts.  opens: whether the client hears from others than the server what labels an
    answer opened; it says so in `opened`, None where it did not hear.
    """

    def __init__(self, plan: Plan, courses: Iterable[Course], *, opens: bool) -> None:
        self.plan, self.courses, self.opens = plan, iter(courses), opens
        self.opened: Array | None = None
        self.course: Course | None = None
        self.due: Due | None = None
        self.committee: tuple[PartyId, ...] = ()  # who computed what the last answer opened
        self.tried: set[tuple[int, ...]] = set()  # players that this question was put to
        self.ends: list[Array] = []  # of the restarts that ended
        self.next: tuple[Course, Due] | None = None  # the next restart, whose first question is known
        self.sure, self.over = True, False
        self.skipped = 0  # questions that I missed before one that seemed to repeat the last
        # Whether a question was ever missed, and whether what came later did not fit any more.
        self.gap, self.lost = False, False

    def ask(self, question: Assignment, missed: int = 0) -> bool:
        """Take a question; False if I did not hear what it must follow from, so that I must not answer.

        missed: how many questions before it did not come.

        Raises FaultyServer for a question that is not due, whatever came before.
        """
        members = getattr(question, "committee", np.empty(0)).tolist()
        # Lanes that were told as sums may be asked for in full.
        players = len(question.coins), *question.responders.tolist(), -1, *members
        if self.due is not None and self.due.is_asked(question) and players not in self.tried:
            # Whoever fell silent is left out when a question is repeated, so there are only so many.
            self.refuse(
                len(self.tried) > len(self.plan.clients), "repeated a question more often than clients"
            )
            self.tried.add(players)
            # A question that I missed may have asked the same: this is perhaps that one again.
            self.skipped += missed
            # Whoever sat on a committee of it may have computed what was opened.
            self.committee = tuple(dict.fromkeys((*self.committee, *self.members(question))))
            return self.sure
        heard = not self.opens or self.due is None or not self.due.opens or self.opened is not None
        again = self.starts_again(question)
        due = self.go_on(AGAIN) if again else self.follow(question)
        if due is not None and due.kind in (Deliver, Show) and not again and self.is_start(question, due):
            # Others shared the labels of the cheapest run, or part of those is gone by now.
            due = self.go_on(AGAIN)
        heard = heard or again
        missed, self.skipped = missed + self.skipped, 0
        for _ in range(missed):
            if due is None or due.is_asked(question):
                break
            due = self.go_on(told(question, due))
        self.gap = self.gap or missed > 0
        self.lost = self.lost or (self.gap and (due is None or not due.is_asked(question)))
        self.sure = not self.lost and heard and not (self.opens and missed)
        if self.lost:
            return False  # no blame: what I once did not hear may explain it
        if due is None:
            self.refuse(True, "asked more than the plan has: all of its restarts and steps are over")
        elif not due.is_asked(question):
            why = f"asked {self.words(question)} where the plan has {self.words(due)}"
            if self.due is not None and self.due.is_asked(question):
                # Put again to the same: one of them may have told the server another word than the due one.
                asked = (self.plan.clients[j] for j in question.responders.tolist())
                parties = dict.fromkeys((SERVER, *asked, *self.members(question)))
                raise SuspectedParties(tuple(parties), f"the server {why}")
            self.refuse(True, why)
        self.committee = self.members(question)
        self.due, self.opened, self.tried = due, None, {players}
        return self.sure

    def starts_again(self, question: Assignment) -> bool:
        """Whether a run on shared labels begins anew, as a committee that shared them lost a member.

        As many questions ago as it may be, its first labels are those of the last question.
        """
        if self.due is None or not self.is_start(question, self.due):
            return False
        return self.members(question) != self.committee

    def is_start(self, question: Assignment, due: Due) -> bool:
        """Whether a question is the first one of the run on shared labels that another is about."""
        if not isinstance(question, Advance | Cleave) or question.run != due.run:
            return False
        return question.step == 0 < due.step and np.array_equal(question.labels, due.labels)

    def members(self, question: Assignment) -> tuple[PartyId, ...]:
        """Who compares distances for a question, if clients do."""
        numbers = getattr(question, "committee", np.empty(0, np.int32)).tolist()
        return tuple(self.plan.clients[j] for j in numbers if j < len(self.plan.clients))

    def follow(self, question: Assignment) -> Due | None:
        """What is due after the last question, of which this may be the next."""
        due = self.due
        if due is None:
            return self.begin()
        if not due.opens:
            return self.go_on(told(question, due))
        if self.opened is not None:
            return self.go_on(self.opened)
        begins = self.peek() if due.last else None  # of how many clusters is known then
        if begins is not None and not self.opens and begins[1].is_asked(question):
            self.ends.append(due.labels)
            return self.begin()
        # Whether the last step changed a label is told by what is asked about next.
        return self.go_on(told(question, due))

    def miss(self, missed: int) -> None:
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

    def go_on(self, labels: Array) -> Due | None:
        """The next question of this restart, or the first of the next one."""
        if self.course is None:
            return self.begin()
        try:
            return self.course.send(labels)
        except StopIteration as done:
            self.ends.append(done.value)
            return self.begin()
        except Unfollowed:
            self.course, self.courses, self.next = None, iter(()), None
            return None

    def begin(self) -> Due | None:
        """The first question of the next restart."""
        begins, self.next = self.peek(), None
        if begins is None:
            return None
        self.course = begins[0]
        return begins[1]

    def peek(self) -> tuple[Course, Due] | None:
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

    def words(self, asked: Any) -> str:
        """A question in words that show no label."""
        kind = asked.kind if isinstance(asked, Due) else type(asked)
        factor = getattr(asked, "factor", 1)
        more = f" by a factor of {factor}" if factor != 1 else ""
        return f"{kind.__name__}(k={asked.k}){more} of " + (
            "the labels that are next" if isinstance(asked, Due) else "some labels"
        )

    def refuse(self, wrong: bool, why: str) -> None:
        if wrong and self.opened is not None:
            # What a member told me may be another share than it told the server.
            raise SuspectedParties((SERVER, *self.committee), f"the server {why}")
        if wrong:
            raise FaultyServer(SERVER, why)
