"""Own labels, with a dealer: the server's half, which sees sizes and the number of steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from field.compare.relabeling import Winning
from secfc.coded.messages import CodedCosts, Ended, RevealSums, Unheard
from secfc.coded.plan import Plan
from secfc.coded.source import PUBLISHED, CodedSource, centers_of
from secfc.disclosure.compare.dealer import Game, deal
from secfc.disclosure.compare.match import DEAL, Match
from secfc.disclosure.compare.rivals import Centers
from secfc.disclosure.compare.server import Committees, Seats
from secfc.disclosure.own.messages import Advance, Deliver, Locate, SizeShare, Stepped, Weigh
from secfc.disclosure.own.runs import SharedRun
from secfc.disclosure.own.shares import game_of, sizes_of
from secfc.lloyd.loop import Stepper, Trace
from secfc.roles.exchange import Exchange, PartyId, Role, take, to_all

Array = NDArray[Any]
R = TypeVar("R")
# What is made of a run that is over, by those who share its labels; None if somebody was lost.
Finish = Callable[[SharedRun, Seats], Role[R | None]]


class SharedRuns:
    """Whole runs on labels that a committee shares, and their end.

    What it changes: the runs that there were.
    """

    def __init__(self, committees: Committees) -> None:
        self.committees, self.plan = committees, committees.plan
        self.runs: list[SharedRun] = []

    def __call__(self, labels: Array, k: int, max_iter: int, source: Stepper) -> Role[Trace]:
        """A run of which the server knows the start, and sizes; of several, what it costs in the end.

        If all points are in one cluster, a run ends with labels, which all know.
        """
        run = SharedRun.begun(len(self.runs), labels, k, max_iter)
        self.runs.append(run)
        within = yield from self.ended(run, self.weighed if self.plan.n_init > 1 else None)
        if run.foregone:
            return foregone(run)
        return Trace(k, (), within, run.converged, run.step, tuple(run.sizes), run.number)

    def ended(self, run: SharedRun, finish: Finish[R] | None) -> Role[R | None]:
        """Take steps to the end of a run, and what `finish` makes of it, which is None if it has to wait.

        A committee that loses a member loses the labels with it: another one starts the run again.
        """
        while not run.foregone and not (run.over and finish is None):
            seats = self.committees.seats()
            if run.step and seats.committee.tolist() != run.committee:
                run.begin_again()
            run.committee = seats.committee.tolist()
            if not run.over:
                told = yield from self.advanced(self.asked(Advance, run, seats))
                if told is not None:
                    run.go_on(*told)
            elif finish is not None:
                result = yield from finish(run, seats)
                if result is not None:
                    return result
        return None

    def asked(self, kind: type[Stepped], run: SharedRun, seats: Seats) -> Match:
        """A question about the labels after the steps of a run so far."""
        sizes = run.now
        question = kind(
            seats.round, run.k, run.start, seats.responders, seats.committee, seats.corrected, 1, run.step,
            sizes, run.number,
        )  # fmt: skip
        return Match(self.plan, question, sizes, self.committees.seating)

    def weighed(self, run: SharedRun, seats: Seats) -> Role[tuple[int, ...] | None]:
        """For each cluster the sum of scaled distances of its own points; None if somebody was lost."""
        committees, match = self.committees, self.asked(Weigh, run, seats)
        awaited = tuple(c for c in self.plan.clients if c in {*match.responders, *match.committee})
        inbox = yield from self.ask(match, None, awaited)
        reports = {c: m for c, m in inbox.items() if isinstance(m, Unheard)}
        costs = {c: m for c, m in inbox.items() if c not in reports}
        if set(match.responders) <= set(costs):
            values = committees.desk.believed(costs, CodedCosts, self.plan.code.basis, (run.k,), 2)
            return tuple(int(x) for x in self.plan.code.basis.lift(self.plan.code.decode(values, 2)))
        failed = {c: report for c, report in reports.items() if report.step or report.missing.size}
        committees.quorum.silent |= committees.lost(match, set(awaited) - set(inbox), failed)
        return None

    def owned(self, run: SharedRun, seats: Seats) -> Role[bool | None]:
        """Tell owners their labels; None if somebody was lost."""
        return (yield from self.delivered(self.asked(Deliver, run, seats))) or None

    def advanced(self, match: Match) -> Role[tuple[bool, Array] | None]:
        """Whether no label changed, and the sizes after a step; None if somebody was lost."""
        committees = self.committees
        players = {*match.responders, *match.committee, *committees.seating.dealers}
        awaited = tuple(c for c in committees.plan.clients if c in players)
        inbox = yield from self.ask(match, game_of(match), awaited)
        shares, reports = committees.sorted(match, inbox, SizeShare)
        if len(shares) == len(match.committee):
            return sizes_of(match, shares)
        committees.quorum.silent |= committees.lost(match, set(awaited) - set(inbox), reports)
        return None

    def delivered(self, match: Match, game: Game | None = None) -> Role[bool]:
        """Whether all owners that are there have their labels."""
        committees = self.committees
        there = tuple(c for c in committees.desk.there if c not in committees.quorum.silent)
        inbox = yield from self.ask(match, game, there)
        reports = take(inbox, Unheard)
        gone = set(there) - set(inbox)
        if not any(report.step for report in reports.values()):
            # Who is gone, and nobody missed, only owned points.
            committees.quorum.silent |= gone
            return True
        failed = {c: report for c, report in reports.items() if report.step}
        lost = committees.lost(match, gone, failed)
        committees.quorum.silent |= lost
        # Without another player the question would be the same: who did not hear then owns points only.
        return not lost & {*match.responders, *match.committee, *committees.seating.dealers}

    def ask(self, match: Match, game: Game | None, awaited: tuple[PartyId, ...]) -> Role[Any]:
        """What these clients answer; game: what is dealt for."""
        committees, question = self.committees, match.question
        yield Exchange(to_all(committees.desk.there, question), round=question.round, phase="assign")
        send = {}
        if committees.keys is not None and game is not None:
            send = {match.corrected: deal(match, committees.keys, game)}
        return (
            yield Exchange(send, awaited, 0, round=question.round + DEAL, accept=question.round, phase="deal")
        )

    # --- the end

    def fit(self, source: CodedSource, plan: Plan, trace: Trace) -> Role[Array | None]:
        """Open the centers if enough consent, and tell everybody that the run is over."""
        if not trace.sizes:
            return (yield from PUBLISHED.fit(source, plan, trace))
        yield from self.ended(self.runs[trace.run], self.owned)
        centers, sizes = None, trace.sizes[-1]
        if plan.revealing:
            sums = yield from source.quorum.opened(RevealSums(next(source.rounds), plan.k))
            centers = centers_of(plan, sums, sizes)
        ended = Ended(sizes, centers)
        yield Exchange(to_all(plan.clients, ended), round=next(source.rounds), phase="finish")
        return centers

    def prediction(self, source: CodedSource, sizes: Array) -> Role[None]:
        """New points' labels are told to their owners alone, unless sizes tell them to all."""
        committees, nobody = self.committees, np.full(self.committees.plan.m, -1, np.int32)
        if Centers(sizes).foregone(len(nobody)) is not None:
            return (yield from PUBLISHED.prediction(source, sizes))
        while True:
            question = committees.players(nobody, len(sizes), kind=Locate)
            match = Match(committees.plan, question, sizes, committees.seating)
            if (yield from self.delivered(match, Winning(match.schedule))):
                break
        ended = Ended(sizes, None)
        yield Exchange(to_all(committees.plan.clients, ended), round=next(source.rounds), phase="finish")


def foregone(run: SharedRun) -> Trace:
    """The end of a run with all points in one cluster, or in none: everybody knows the labels."""
    start, last = run.start, run.known
    steps = min(run.step + 1, run.max_iter)
    if not run.step and run.max_iter > 1 and not (last == start).all():
        steps = 2
    return Trace(run.k, (start, last), None, True, steps=steps)
