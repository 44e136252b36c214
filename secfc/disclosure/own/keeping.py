"""Own labels, with a dealer: the server's half, which sees sizes and the number of steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.code.rows import cluster_sizes
from field.compare.relabeling import Winning
from secfc.coded.messages import Ended, RevealSums, Unheard
from secfc.coded.plan import Plan
from secfc.coded.source import PUBLISHED, CodedSource, centers_of
from secfc.disclosure.compare.dealer import Game, deal
from secfc.disclosure.compare.match import DEAL, Match
from secfc.disclosure.compare.rivals import Centers
from secfc.disclosure.compare.server import Committees, Seats
from secfc.disclosure.own.messages import Advance, Deliver, Locate, SizeShare
from secfc.disclosure.own.shares import game_of, sizes_of
from secfc.lloyd.loop import Stepper, Trace
from secfc.roles.exchange import Exchange, PartyId, Role, take, to_all
from secfc.roles.messages import compact_labels

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class SharedRuns:
    """Whole runs on labels that a committee shares, and their end."""

    committees: Committees

    def __call__(self, labels: Array, k: int, max_iter: int, source: Stepper) -> Role[Trace]:
        """A run of which the server knows the start, and sizes.

        Ends when owners have their labels; or, if all points are in one cluster, with labels that all know.
        A committee that loses a member loses the labels with it: another one starts again.
        """
        start, first = compact_labels(labels), cluster_sizes(labels, k)
        sizes, step, converged, over = [first], 0, False, False
        shared: list[int] = []  # the committee that shares the labels after these steps
        while True:
            now = sizes[step]
            if np.count_nonzero(now) < 2:
                return foregone(start, now, k, max_iter, step)
            seats = self.committees.seats()
            if step and seats.committee.tolist() != shared:
                sizes, step, over = [first], 0, False
                now = first
            if over:
                if (yield from self.delivered(self.asked(Deliver, start, seats, k, step, now))):
                    return Trace(k, (), None, converged, steps=step, sizes=tuple(sizes))
                continue
            told = yield from self.advanced(self.asked(Advance, start, seats, k, step, now))
            if told is None:
                continue
            shared = seats.committee.tolist()
            converged, after = told
            over = converged or step == max_iter
            if step < max_iter:
                # The last of all steps is one too many: it says whether the run converged.
                step, sizes = step + 1, [*sizes, after]

    def asked(
        self, kind: type[Advance] | type[Deliver], start: Array, seats: Seats, k: int, step: int, sizes: Array
    ) -> Match:
        """A question about the labels after so many steps."""
        question = kind(
            seats.round, k, start, seats.responders, seats.committee, seats.corrected, 1, step, sizes
        )
        return Match(self.committees.plan, question, sizes, self.committees.seating)

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


def foregone(start: Array, sizes: Array, k: int, max_iter: int, step: int) -> Trace:
    """A run that ends with all points in one cluster, or in none: everybody knows the labels.

    start: the first labels (m,).  sizes: (k,) after so many steps.
    """
    last = start if not sizes.any() else np.full_like(start, int(sizes.argmax()))
    if step:
        return Trace(k, (start, last), None, True, steps=min(step + 1, max_iter))
    same = bool((last == start).all())
    return Trace(k, (start, last), None, True, steps=1 if same or max_iter == 1 else 2)
