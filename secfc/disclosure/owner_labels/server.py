"""Own labels, with a dealer: the server's half, which sees sizes and the number of steps."""

from __future__ import annotations

from collections.abc import Callable, Collection
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from field.arrays import Array
from field.code.reply_check import OffPolynomial, open_words
from field.compare.assignment_step import SharedContest
from secfc.coded.messages import (
    CodedCenters,
    CodedCosts,
    CodedGains,
    LabelShare,
    MissingMessages,
    RevealSums,
    RunEnded,
    SizeShare,
)
from secfc.coded.plan import CodedPlan
from secfc.coded.policy import LabelSharing
from secfc.coded.queries import Operation, Subject
from secfc.coded.source import PUBLISHED, CodedSource, centers_of
from secfc.disclosure.checked.products import add_segments
from secfc.disclosure.compare.candidates import NearestCenter
from secfc.disclosure.compare.dealer import DealtComputation
from secfc.disclosure.compare.server import CommitteeSeats, CommitteeServer
from secfc.disclosure.compare.session import ComparisonSession, labels_from_shares
from secfc.disclosure.owner_labels.multiplication import (
    checks_squares,
    session_for,
    sizes_from_shares,
    step_continuation,
)
from secfc.disclosure.owner_labels.run_state import PublicRunState
from secfc.errors import LabelsWithheld
from secfc.kmeans.bisecting import Dendrogram, pair_sides
from secfc.kmeans.loop import (
    CostRequest,
    GainRequest,
    Move,
    Moves,
    RefineRequest,
    Source,
    SplitRequest,
    Trace,
    scaled_costs,
)
from secfc.roles.blame import suspect_parties
from secfc.roles.exchange import Exchange, PartyId, Role, expect_messages, to_all
from secfc.roles.messages import compact_labels

R = TypeVar("R")
# What comes of a question; None if somebody was lost.
Finish = Callable[[ComparisonSession], Role[R | None]]


class OwnerLabelsServer:
    """Whole runs on labels that a committee shares, and their end.

    sharing: what is opened of labels.  What it changes: the runs that there were.
    """

    def __init__(self, committees: CommitteeServer, sharing: LabelSharing) -> None:
        self.sharing = sharing
        self.committees, self.plan = committees, committees.plan
        self.runs: list[PublicRunState] = []

    def grow_clusters(self, moves: Callable[[int], Moves]) -> Role[PublicRunState]:
        """The clusters that moves lead to, see `secfc.kmeans.splitting`."""
        run = self.begun(PublicRunState.whole(len(self.runs), self.plan.m, self.sharing))

        def answer(move: Move) -> Role[Any]:
            match move:
                case SplitRequest():
                    asked = run.ask(Operation.SPLIT, move.directions)
                    _, sizes = yield from self.put(run, asked, self.advanced)
                    run.moved(asked, sizes)
                    return sizes
                case RefineRequest():
                    asked = run.ask(Operation.LLOYD_STEP)
                    told = yield from self.put(run, asked, self.advanced)
                    run.moved(asked, told[1])
                    return told
                case GainRequest():
                    return move.choose((yield from self.losses_of_unions(run, move.sides)))
                case CostRequest() if run.foregone:
                    return (yield from self.committees.cluster_costs(run.known, run.k))
                case CostRequest():
                    return (yield from self.put(run, run.ask(Operation.CLUSTER_COST), self.weigh_clusters))

        return (yield from run.led(moves(self.plan.features), answer))

    def __call__(self, start: Array | PublicRunState, k: int, max_iter: int, source: Source) -> Role[Trace]:
        """A run of which the server knows the start, and sizes; of several, what it costs in the end.

        If all points are in one cluster, a run ends with labels, which all know.
        """
        if isinstance(start, PublicRunState):
            run = start
        else:
            run = self.begun(PublicRunState.begun(len(self.runs), start, k, self.sharing))
        run.begin(k, max_iter)
        while not run.over and not run.foregone:
            asked = run.ask(Operation.LLOYD_STEP)
            run.go_on(asked, *(yield from self.put(run, asked, self.advanced)))
        if run.foregone:
            return trivial_end(run)
        if self.sharing.everybody:
            last = yield from self.put(run, run.ask(Operation.REVEAL_LABELS), self.shown)
            return Trace(k, (run.start, compact_labels(last)), None, run.converged, run.n_iter)
        if self.sharing.hidden:
            return Trace(k, (run.start,), None, run.converged, run.n_iter, run=run.number)
        within = None
        if self.plan.n_init > 1:
            within = yield from self.put(run, run.ask(Operation.CLUSTER_COST), self.weigh_clusters)
        return Trace(k, (), within, run.converged, run.n_iter, tuple(run.sizes), run.number)

    def price_merges(self, trace: Trace) -> Role[Dendrogram]:
        """What merging each two of the last clusters of a run costs; of fewer nobody is asked."""
        run = self.runs[trace.run]
        sides = pair_sides(run.now)
        yield from self.judge_columns(run)
        return Dendrogram(run.now, (yield from self.losses_of_unions(run, sides)) if len(sides) else ())

    def judge_columns(self, run: PublicRunState) -> Role[None]:
        """Ask once whether labels explain too much of a column, where that counts.  Raises LabelsWithheld."""
        if self.plan.layout.explained is None or run.foregone or run.judged:
            return
        run.judged, _ = yield from self.put(run, run.ask(Operation.EXPLAINED), self.advanced)
        if not run.judged:
            raise LabelsWithheld(self.plan.layout.explained)

    def losses_of_unions(self, run: PublicRunState, sides: Array) -> Role[tuple[Fraction, ...]]:
        """What keeping these unions of clusters apart gains, see `GainRequest`."""
        squares = yield from self.put(run, run.ask(Operation.SPLIT_GAIN, sides), self.gauged)
        counts = np.stack([(sides == side) @ run.now for side in (1, 2)], axis=1)
        return self.committees.losses_of_squares(squares, counts)

    def begun(self, run: PublicRunState) -> PublicRunState:
        self.runs.append(run)
        return run

    def put(self, run: PublicRunState, asked: Subject, finish: Finish[R]) -> Role[R]:
        """What comes of a question, which is repeated until something does.

        A committee that loses a member loses the labels with it: another one takes all steps again first.
        """
        while True:
            seats = self.committees.seats()
            members = seats.committee.members.tolist()
            if members != run.committee:
                run.committee, run.at = members, 0
            if run.at < len(run.trail):
                match = self.match(run.trail[run.at], seats)
                run.players |= dict.fromkeys(match.players)
                again = yield from self.advanced(match)
                if again is not None:
                    run.repeated(asked, again[1])
                continue
            match = self.match(asked, seats)
            run.players |= dict.fromkeys(match.players)
            result = yield from finish(match)
            if result is not None:
                return result

    def match(self, asked: Subject, seats: CommitteeSeats) -> ComparisonSession:
        """Who plays for a question."""
        return session_for(self.plan, seats.asked(asked), self.committees.seating, self.sharing)

    def weigh_clusters(self, match: ComparisonSession) -> Role[tuple[int | Fraction, ...] | None]:
        """For each cluster the sum of scaled distances of its own points; None if somebody was lost."""
        within = yield from self.numbers(match, CodedCosts, match.question.k)
        if within is None or self.plan.fraction is None:
            return within
        return scaled_costs(within, match.question.subject.now, self.plan.fraction)

    def gauged(self, match: ComparisonSession) -> Role[tuple[int, ...] | None]:
        """For each pair of unions how far their means are apart, as in `gains_between`."""
        return self.numbers(match, CodedGains, len(match.question.detail))

    def numbers(
        self, match: ComparisonSession, kind: type[CodedCosts | CodedGains], count: int
    ) -> Role[tuple[int, ...] | None]:
        """So many integers of which responders have shares; None if somebody was lost."""
        players = match.players if match.rounding is not None else {*match.responders, *match.committee}
        found = yield from collect_shares(self.committees, match, players, None, kind, (count,))
        return None if found is None else tuple(int(x) for x in self.plan.code.basis.lift(found))

    def shown(self, match: ComparisonSession) -> Role[Array | None]:
        """The last labels (m,), which all are told; None if somebody was lost."""
        committees = self.committees
        inbox, gone = yield from committees.answers(match, match.committee, None)
        shares, reports = committees.sorted(match, inbox, LabelShare)
        if len(shares) == len(match.committee):
            return labels_from_shares(match, shares)
        committees.quorum.silent |= committees.lost(match, gone, reports)
        return None

    def owned(self, match: ComparisonSession) -> Role[bool | None]:
        """Tell owners their labels; None if somebody was lost."""
        return (yield from self.delivered(match)) or None

    def advanced(self, match: ComparisonSession) -> Role[tuple[bool, Array] | None]:
        """Whether no label changed, and the sizes after a step; None if somebody was lost."""
        committees = self.committees
        awaited = tuple(c for c in committees.plan.clients if c in match.players)
        inbox, gone = yield from committees.answers(match, awaited, step_continuation(match, self.sharing))
        shares, reports = committees.sorted(match, inbox, SizeShare)
        if len(shares) == len(match.committee):
            return sizes_from_shares(match, shares, self.sharing)
        committees.quorum.silent |= committees.lost(match, gone, reports)
        return None

    def delivered(self, match: ComparisonSession, game: DealtComputation | None = None) -> Role[bool]:
        """Whether all owners that are there have their labels."""
        committees = self.committees
        there = tuple(c for c in committees.desk.there if c not in committees.quorum.silent)
        inbox, gone = yield from committees.answers(match, there, game)
        reports = expect_messages(inbox, MissingMessages)
        if not any(report.step for report in reports.values()):
            # Who is gone, and nobody missed, only owned points.
            committees.quorum.silent |= gone
            return True
        failed = {c: report for c, report in reports.items() if report.step}
        lost = committees.lost(match, gone, failed)
        committees.quorum.silent |= lost
        # Without another player the question would be the same: who did not hear then owns points only.
        return not lost & {*match.responders, *match.committee, *committees.seating.dealers}

    # --- the end

    def finish_fit(self, source: CodedSource, plan: CodedPlan, trace: Trace) -> Role[Array | None]:
        """Open the centers if enough consent, and tell everybody that the run is over."""
        run = self.runs[trace.run]
        if run.foregone or self.sharing.everybody:
            return (yield from PUBLISHED.finish_fit(source, plan, trace))
        yield from self.judge_columns(run)
        yield from self.put(run, run.ask(Operation.DELIVER_LABELS), self.owned)
        centers, sizes = None, run.told
        if plan.revealing:
            sums = yield from source.quorum.collect_sums(RevealSums(next(source.rounds), plan.k))
            centers = centers_of(plan, sums, sizes)
        ended = RunEnded(sizes, centers)
        yield Exchange(to_all(plan.clients, ended), round=next(source.rounds), phase="finish")
        return centers

    def finish_prediction(self, source: CodedSource, sizes: Array) -> Role[Array | None]:
        """New points' labels are told to their owners alone, unless sizes tell them to all."""
        committees, nobody = self.committees, np.full(self.committees.plan.m, -1, np.int32)
        if self.sharing.everybody or NearestCenter(sizes).labels_by_sizes(len(nobody)) is not None:
            return (yield from PUBLISHED.finish_prediction(source, sizes))
        subject = Subject(Operation.PREDICT_LABELS, len(sizes), compact_labels(nobody))
        while True:
            question = committees.seats().asked(subject)
            match = ComparisonSession(
                committees.plan, question, sizes, committees.seating, self.sharing.hidden
            )
            if (yield from self.delivered(match, SharedContest(match.schedule))):
                break
        ended = RunEnded(sizes, None)
        yield Exchange(to_all(committees.plan.clients, ended), round=next(source.rounds), phase="finish")
        return None


def collect_shares(
    committees: CommitteeServer,
    match: ComparisonSession,
    players: Collection[PartyId],
    game: DealtComputation | None,
    kind: type[CodedCosts | CodedGains | CodedCenters],
    shape: tuple[int, ...],
) -> Role[Array | None]:
    """What responders' shares decode to, residues (lanes, *shape); None if one of these players was lost.

    Of sums it is the values at all data points, (lanes, ell, *shape).

    game: what the committee is dealt for.
    """
    awaited = tuple(c for c in committees.plan.clients if c in players)
    inbox, gone = yield from committees.answers(match, awaited, game)
    reports = {c: m for c, m in inbox.items() if isinstance(m, MissingMessages)}
    replies = {c: m for c, m in inbox.items() if c not in reports}
    if set(match.responders) <= set(replies):
        code = committees.plan.code
        words = committees.desk.believed(replies, kind, code.basis, shape, 2)
        if kind is CodedCenters:
            return code.interpolate(words, 2)
        if kind is not CodedGains or not checks_squares(committees.plan):
            return code.decode(words, 2)
        try:
            return add_segments(code.basis, open_words(code, code.basis, words))
        except OffPolynomial:
            why = "what responders said of gains lies on no polynomial; they are not used"
            raise suspect_parties("CodedGains", why, responders=match.responders) from None
    failed = {c: report for c, report in reports.items() if report.step or report.missing.size}
    committees.quorum.silent |= committees.lost(match, gone, failed)
    return None


def trivial_end(run: PublicRunState) -> Trace:
    """The end of a run with all points in one cluster, or in none: everybody knows the last labels.

    The history is the first and the last where the policy opens those, else that of all steps if no other
    labels lie between; if some do, there are sizes instead.
    """
    last, split = run.known, len(run.trail) > run.n_iter
    first = last if split and not run.n_iter else run.start
    moved = not run.n_iter and not np.array_equal(first, last)
    steps = min(run.n_iter + 1 + moved, run.max_iter)
    history: tuple[Array, ...] = ()
    if run.sharing.everybody:
        history = (first, last)
    elif run.n_iter == 0 or (run.n_iter == 1 and not split):
        history = (first, *(last,) * steps)
    sizes = () if history else (*run.sizes, *(run.now,) * (steps - run.n_iter))
    return Trace(run.k, history, None, True, steps, sizes, run.number, last)
