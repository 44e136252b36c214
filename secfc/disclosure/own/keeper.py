"""Own labels: a committee keeps the labels shared, and tells owners theirs at the end.

A client's half.  State is what each member of the committee holds: shares of the labels, as bits and as
residues (`field.compare.relabeling`).  In every step but the first, whose labels are public,

1. members share their parts of the labels with the responders (`field.code.parts`);
2. responders sum points by labels: products of shares, dealt anew among the responders with the degree of
   shares again;
3. responders measure distances to the centers with these sums, and members compare them under the dealer's
   masks, as under `AssignmentsOnly`; who wins stays shared, and becomes residues;
4. members open the sizes, re-randomized among them, and whether any label changed.

Of several restarts the server then asks what clusters cost, of each one number: what that takes is shared as
under 1 and 2, and hidden by the responders.

At the end all clients get shares of the centers by 1 and 2, and every owner the members' shares of its own
rows' labels.  What the dealer's masks hide is opened among the members only; whatever leaves the committee is
hidden under coins that the dealer does not know.  The argument: `secfc/disclosure/own/README.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from field.code.rows import ClusterSums, CodedRows
from field.compare import dealt
from field.compare.relabeling import Shared, Winning, codes
from field.secrets.coins import Coins
from secfc.coded.messages import (
    Assignment,
    CodedCosts,
    CodedGains,
    Compare,
    LabelShare,
    Unheard,
)
from secfc.coded.policy import Kept, Measured, Sharing
from secfc.coded.silence import NOBODY_MISSED
from secfc.disclosure.compare.feeding import asks_no_more
from secfc.disclosure.compare.match import DEAL, Match
from secfc.disclosure.compare.participant import Participant, shown_in
from secfc.disclosure.decoded.distances import hidden
from secfc.disclosure.joint.steps import Stalled, Steps
from secfc.disclosure.own.kin import Kin
from secfc.disclosure.own.messages import (
    Advance,
    Cleave,
    Deliver,
    Locate,
    MeasureSplits,
    Show,
    SizeShare,
    Weigh,
)
from secfc.disclosure.own.owners import HiddenOwners, PublicOwners
from secfc.disclosure.own.products import Products
from secfc.disclosure.own.shares import (
    cut_sums,
    game_of,
    hide,
    match_of,
    numbers_of,
    places_of,
    sizes_of,
    step_of,
    unions,
)
from secfc.disclosure.own.telling import LAST, my_labels, picked
from secfc.disclosure.own.way import Begun, Way
from secfc.roles.exchange import (
    SERVER,
    Exchange,
    FaultyServer,
    PartyId,
    Role,
    take,
    to_all,
)
from secfc.roles.messages import Message

Array = NDArray[Any]

# Whoever goes no further says so for so many steps: somebody whom all hear listens in one of them.
HEARD_BY_ALL = 4


class Keeper:
    """A client's answers where labels stay shared.

    participant: what it checks, and how it answers all but steps.  way: how it shares and compares.
    sharing: what is opened of labels.
    """

    opens: ClassVar[bool] = True

    def __init__(self, participant: Participant, way: Way, coins: Coins, sharing: Sharing) -> None:
        self.sharing = sharing
        self.participant, self.way = participant, way
        self.plan, self.name, self.me = participant.plan, participant.name, participant.me
        self.opened, self.kept = cast("Array | None", None), cast("Kept | None", None)
        self.runs: dict[int, Kin] = {}
        self.products = Products(self.plan, self.me, way.peers, coins, way.held)
        self.rows: Array = np.empty(0, np.int64)  # of my points; secret if owners are hidden

    def __repr__(self) -> str:
        return f"Keeper({self.name!r}, secret)"

    def __call__(self, question: Assignment, measured: Measured) -> Role[Message | None]:
        self.opened = None
        if measured.mine is not None:
            self.rows = measured.mine
        match question:
            case Advance() | Cleave():
                match = self.match(question)
                return self.told(match, self.unless_stalled(match, self.advance(match, measured)))
            case Weigh() | MeasureSplits():
                match = self.match(question)
                return self.unless_stalled(match, self.numbers(match, measured))
            case Show() if self.sharing.everybody:
                match = self.match(question)
                return self.heard(self.participant.told(match, question, self.show(match), LabelShare))
            case Deliver() if not self.sharing.everybody:
                return self.deliver(self.match(question), measured)
            case Locate():
                return self.locate(self.located(question, measured.sizes), measured)
            case Compare() if self.sharing.everybody and (question.labels < 0).all():
                return self.heard(self.participant(question, measured))
            case Compare():
                raise FaultyServer(SERVER, "asked for labels, which this policy never shows")
            case _:
                return self.participant(question, measured)

    def watch(self, question: Assignment, sizes: Array) -> Role[None]:
        self.opened = None
        if isinstance(question, Advance | Cleave):
            yield from self.hear(self.match(question), {})
        elif isinstance(question, Show):
            yield from self.heard(self.participant.hear(self.match(question), question, {}, LabelShare))
        elif self.sharing.everybody:
            yield from self.heard(self.participant.watch(question, sizes))
        elif isinstance(question, Compare) and not isinstance(question, Weigh | MeasureSplits):
            # Members tell me my labels all the same, if they know which; of the centers I keep nothing.
            delivers = isinstance(question, Deliver)
            match = self.match(question) if delivers else self.located(question, sizes)
            if not (delivers and self.plan.layout.mixed):
                owners = PublicOwners(self.plan, self.me)
                labels, _ = yield from my_labels(match, len(match.sizes), owners, None)
                self.kept = None if labels is None else Kept(labels, None)

    def heard(self, answer: Role[Message | None]) -> Role[Message | None]:
        """An answer whose labels all hear."""
        message = yield from answer
        self.opened = self.participant.opened
        return message

    def show(self, match: Match) -> Role[Message | None]:
        """My share of the labels, for all, if I am in the committee."""

        def answer() -> Role[Message | None]:
            yield from ()
            state = self.state(match)
            if state is None:
                return None
            share = dealt.codes(match.contest, state.bits)
            return LabelShare(dealt.hide(share, list(self.zeros(match).values())))

        self.participant.opened = None
        return self.unless_stalled(match, answer())

    def match(self, question: Any) -> Match:
        """The step that is asked for.  Raises FaultyServer for one that the plan does not have."""
        self.participant.check_players(question)
        if question.step:
            self.run(question).check(question.step, question.sizes.tolist())
        if self.sharing.hidden and question.step and question.sizes.any():
            raise FaultyServer(SERVER, "told sizes, which are hidden")
        match = match_of(self.plan, question, self.way.seating, self.sharing)
        if np.count_nonzero(match.sizes) < 2:
            raise FaultyServer(SERVER, "asked for what sizes decide: fewer than two clusters with points")
        return match

    def located(self, question: Compare, sizes: Array) -> Match:
        """The comparison of new points with kept centers, of clusters of these sizes as far as told."""
        return replace(self.participant.match(question, sizes), hidden=self.sharing.hidden)

    def run(self, question: Any) -> Kin:
        """The run that a question is about."""
        return self.runs.setdefault(question.run, Kin())

    # --- a step

    def advance(self, match: Match, measured: Measured) -> Role[Message | None]:
        """My part in one step: deal, respond, compare, as far as these are my roles."""
        question = step_of(match)
        if self.name not in (*match.seating.dealers, *match.responders, *match.committee):
            return None
        steps, old = self.steps(match), self.state(match)
        begun = yield from self.way.begin(match, steps, game_of(match, self.sharing))
        sums = None
        if question.step:
            one_hot = yield from self.products.labeled(match, steps, old)
            to = question.responders.tolist()
            sums = yield from self.centers(match, steps, measured.rows, one_hot, to)
        measured = self.centered(match, measured, sums)
        zeros = {} if old is None else self.zeros(match)
        moved = yield from self.way.moved(match, steps, begun, measured, old)
        if moved is None or old is None:
            return Unheard(0, begun.missing)
        (new, same), first, run = moved, self.plan.code.basis.prefix(1), self.run(question)
        held = run.states[question.step]
        run.states = {question.step: held, question.step + 1: (new, np.flatnonzero(match.sizes))}
        told = new.parts[:1, :0] if self.sharing.hidden else new.parts[:1]
        own = told.sum(axis=2, dtype=np.uint64) % np.uint64(first.primes[0])
        return SizeShare(hide(first, own.astype(np.uint32), self.me, zeros), bool(same))

    def centers(
        self, match: Match, steps: Steps, rows: CodedRows, one_hot: Array | None, to: Sequence[int]
    ) -> Role[Array]:
        """Shares of the sums of clusters, or if sizes are hidden of what tells their sides, for these."""
        share = self.products.sides if match.hidden else self.products.sums
        return share(match, steps, rows, one_hot, to)

    def kept_of(self, match: Match, rows: CodedRows, sums: Array) -> ClusterSums:
        """The same as distances are measured to it, or numbers made of it."""
        return rows.given(sums, match.sizes) if match.hidden else self.products.expanded(match, rows, sums)

    def centered(self, match: Match, measured: Measured, sums: Array | None) -> Measured:
        """What distances are measured to, with my share of the sums of clusters; None if labels are known."""
        question, rows = step_of(match), measured.rows

        def compute() -> ClusterSums:
            found = measured.sums if sums is None else self.kept_of(match, rows, sums)
            if isinstance(question, Cleave):
                whole = rows.residues(found)
                both = cut_sums(self.plan, self.me, whole, question.now, question.directions)
                found = rows.given(both, match.sizes)
            return found

        return Measured(rows, match.sizes, compute)

    def state(self, match: Match) -> Shared | None:
        """My share of the labels that a question is about, if I am in its committee.

        Raises FaultyServer for a step of which this committee has none.
        """
        question = step_of(match)
        if self.name not in match.committee:
            return None
        committee, run = question.committee.tolist(), self.run(question)
        if question.step == 0:
            known, alive = question.labels.astype(np.int64), np.flatnonzero(question.sizes)
            run.committee = committee
            run.states = {0: (self.way.public(match, known, alive), alive)}
        if question.step not in run.states or run.committee != committee:
            raise FaultyServer(SERVER, f"asked for step {question.step} of a run whose labels others share")
        shared, clusters = run.states[question.step]
        # Clusters with points, by sizes, and of the others nobody is in any.
        there = np.flatnonzero((match.sizes if match.hidden else question.sizes)[clusters])
        groups = question.groups[clusters[there]]
        numbers = np.unique(groups, return_inverse=True)[1]
        ones = self.way.public(match, np.zeros(self.plan.m, np.int64), np.arange(2)).parts[:, 0]
        return shared.among(there).grouped(self.plan.code.basis, numbers, ones)

    # --- what a run costs

    def numbers(self, match: Match, measured: Measured) -> Role[Message | None]:
        """My part in what clusters cost, or splits gain: numbers that responders hide."""
        question = step_of(match)
        players = match.players if match.rounding is not None else (*match.responders, *match.committee)
        if self.name not in players:
            return None
        steps, state = self.steps(match), self.state(match)
        if state is not None:
            run = self.run(question)
            run.states = {question.step: run.states[question.step]}  # which may be the last of it
        begun = None
        if match.rounding is not None:
            begun = yield from self.way.begin(match, steps, None)
        weighs, rows = isinstance(question, Weigh), measured.rows
        one_hot = yield from self.products.labeled(match, steps, state)
        to = question.responders.tolist()
        sums = yield from self.products.sums(match, steps, rows, one_hot, to)
        norms = (yield from self.products.norms(match, steps, rows, one_hot)) if weighs else None
        centers = None
        if begun is not None:
            centers = yield from self.rounded(match, steps, begun, rows, sums)
        values = None if one_hot is None else numbers_of(match, one_hot, norms, sums, centers)
        if values is None:
            return Unheard(0, NOBODY_MISSED)
        # The next round's nonce: the streams of this one dealt labels.
        lacking = hidden(
            self.plan, self.me, self.way.peers, self.participant.colluding,
            replace(question, round=question.round + 1), values,
        )  # fmt: skip
        return (
            Unheard(steps.step, lacking) if lacking.size else (CodedCosts if weighs else CodedGains)(values)
        )

    def rounded(
        self, match: Match, steps: Steps, begun: Begun, rows: CodedRows, sums: Array
    ) -> Role[Array | None]:
        """My share (lanes, K, width) of the rounded centers of clusters, or unions, if I respond."""
        question = step_of(match)

        def compute() -> ClusterSums:
            if isinstance(question, MeasureSplits):
                both = unions(self.plan.code.basis, sums, question.sides, question.now)
                return rows.given(both, match.sizes)
            return self.products.expanded(match, rows, sums)

        exact = Measured(rows, match.sizes, compute)
        about, _ = yield from self.way.rounded(match, steps, begun, exact)
        if self.name not in match.responders:
            return None
        return np.ascontiguousarray(rows.residues(about.sums)[:, match.sizes > 0])

    # --- the end

    def deliver(self, match: Match, measured: Measured) -> Role[Message]:
        """My part in the end: every owner its own labels, and all clients shares of the centers."""
        owners = self.owners

        def answer() -> Role[tuple[Mapping[int, Message] | None, ClusterSums]]:
            steps, state = self.steps(match), self.state(match)
            everybody = range(len(self.plan.clients))
            one_hot = yield from self.products.labeled(match, steps, state)
            sums = yield from self.centers(match, steps, measured.rows, one_hot, everybody)
            told: Mapping[int, Message] | None = None
            if isinstance(owners, HiddenOwners):
                lead = self.name == match.committee[0]
                part = None if state is None else owners.numbers(match, state, lead=lead)
                told = yield from picked(owners, match, steps, part, partial(self.products.streams, match))
            elif state is not None:
                share = codes(np.flatnonzero(match.sizes), state.bits, places_of(len(match.sizes)))
                told = owners.told(dealt.hide(share, list(self.zeros(match).values())))
            return told, self.kept_of(match, measured.rows, sums)

        return self.to_owners(match, len(match.sizes), owners, answer())

    @property
    def owners(self) -> PublicOwners | HiddenOwners:
        """Who is told which labels at the end of a run."""
        if self.plan.layout.mixed:
            return HiddenOwners(self.plan, self.me, self.rows)
        return PublicOwners(self.plan, self.me)

    def locate(self, match: Match, measured: Measured) -> Role[Message]:
        """My part in labeling new points: each owner learns its own labels, nobody anything else."""

        owners = PublicOwners(self.plan, self.me)

        def answer() -> Role[tuple[Mapping[int, Message] | None, None]]:
            steps = self.steps(match)
            begun = yield from self.way.begin(match, steps, Winning(match.schedule))
            zeros = list(self.zeros(match).values()) if self.name in match.committee else []
            bits = yield from self.way.won(match, steps, begun, measured)
            if bits is None:
                return None, None
            share = codes(np.flatnonzero(match.sizes), bits, places_of(len(match.sizes)))
            return owners.told(dealt.hide(share, zeros)), None

        return self.to_owners(match, len(match.sizes), owners, answer())

    def to_owners(
        self,
        match: Match,
        k: int,
        owners: PublicOwners | HiddenOwners,
        answer: Role[tuple[Mapping[int, Message] | None, Any]],
    ) -> Role[Message]:
        """What the server is due: that I have my labels, or whose silence prevents it.

        answer: what I tell owners, if I am to; and what I keep.
        """
        told, sums, report = None, None, Unheard(0, NOBODY_MISSED)
        try:
            told, sums = yield from answer
        except Stalled as stalled:
            yield from self.give_up(match, stalled)
            report = Unheard(stalled.step, stalled.missing)
        labels, missing = yield from my_labels(match, k, owners, told)
        if labels is None:
            return report if report.step else Unheard(LAST, np.array(sorted(missing), np.int32))
        if not report.step:
            self.kept = Kept(labels, sums)
        return report

    # --- what all of these share

    def steps(self, match: Match) -> Steps:
        """The exchanges after that of the dealer."""
        return Steps(self.plan.clients, match.question.round + DEAL, match.question.subject)

    def zeros(self, match: Match) -> dict[int, Coins]:
        """Streams with the other members, under which zero is shared."""
        return self.products.streams(match, 1, set(match.question.committee.tolist()))

    def unless_stalled(self, match: Match, answer: Role[Message | None]) -> Role[Message | None]:
        """An answer, or whose silence prevents it."""
        try:
            return (yield from answer)
        except Stalled as stalled:
            yield from self.give_up(match, stalled)
            return Unheard(stalled.step, stalled.missing)

    def give_up(self, match: Match, stalled: Stalled) -> Role[None]:
        """Tell all that may wait for me, so that none waits long."""
        others = [c for c in self.plan.clients if c != self.name]
        told = Unheard(stalled.step, NOBODY_MISSED)
        steps = set(range(stalled.step + 1, stalled.step + 1 + HEARD_BY_ALL))
        for step in sorted(steps | ({stalled.later} if stalled.later > stalled.step else set())):
            yield Exchange(to_all(others, told), round=match.question.round + DEAL + step, phase="compare")
        yield from asks_no_more(match, self.name)

    def told(self, match: Match, answer: Role[Message | None]) -> Role[None]:
        """Answer the server, and if I am in the committee, tell all clients before it what I tell it."""
        message = yield from answer
        question, mine = match.question, dict[PartyId, Message]()
        if self.name in match.committee:
            share = message if isinstance(message, SizeShare) else Unheard(0, NOBODY_MISSED)
            others = (c for c in self.plan.clients if c != self.name)
            yield Exchange(to_all(others, share), round=shown_in(question), phase="open")
            mine = {self.name: share}
        send = {} if message is None else {SERVER: message}
        yield Exchange(send, round=question.round, phase="distances")
        yield from self.hear(match, mine)

    def hear(self, match: Match, mine: Mapping[PartyId, Message]) -> Role[None]:
        """What the committee opens, unless one of it could not, or is not heard.  mine: my own word of it."""
        question = step_of(match)
        run, members = self.run(question), tuple(c for c in match.committee if c != self.name)
        run.seat(match)
        inbox = {**mine, **(yield Exchange({}, members, 0, round=shown_in(question), phase="open"))}
        shares = take({c: m for c, m in inbox.items() if not isinstance(m, Unheard)}, SizeShare)
        if len(shares) == len(match.committee):
            same, sizes = sizes_of(match, shares, hidden=self.sharing.hidden)
            run.opened(question.step + 1, sizes.tolist(), match.committee)
            self.opened = np.array([same, *sizes.tolist()])
