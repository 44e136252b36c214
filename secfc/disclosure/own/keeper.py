"""Own labels, with a dealer: a committee keeps the labels shared, and tells owners theirs at the end.

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

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from field.code.rows import ClusterSums
from field.compare import dealt
from field.compare.relabeling import Shared, Winning, codes
from field.secrets.coins import Coins
from secfc.coded.messages import (
    Assignment,
    CodedCosts,
    Compare,
    Corrections,
    MaskedBits,
    MaskedDistances,
    MaskedSum,
    Unheard,
)
from secfc.coded.policy import Kept, Measured
from secfc.coded.silence import NOBODY_MISSED
from secfc.disclosure.compare.dealer import deal, lacking, table_streams
from secfc.disclosure.compare.match import DEAL, Match, check_opening, check_words
from secfc.disclosure.compare.member import Member, added
from secfc.disclosure.compare.participant import Participant, shown_in
from secfc.disclosure.decoded.distances import hidden
from secfc.disclosure.joint.steps import Stalled, Steps
from secfc.disclosure.own.messages import Advance, Deliver, Locate, SizeShare, Weigh
from secfc.disclosure.own.owners import HiddenOwners, PublicOwners
from secfc.disclosure.own.products import Kin, Products
from secfc.disclosure.own.shares import game_of, hide, places_of, sizes_of, step_of
from secfc.disclosure.own.telling import LAST, my_labels, picked
from secfc.roles.exchange import (
    SERVER,
    Exchange,
    FaultyServer,
    PartyId,
    Role,
    only,
    take,
    to_all,
)
from secfc.roles.messages import Message

Array = NDArray[Any]

# Whoever goes no further says so for so many steps: somebody whom all hear listens in one of them.
HEARD_BY_ALL = 4


class Keeper:
    """A client's answers where labels stay shared.

    participant: what it checks, and how it answers all but steps.  member: how it compares, with its keys.
    """

    opens: ClassVar[bool] = True

    def __init__(self, participant: Participant, member: Member, coins: Coins) -> None:
        self.participant, self.member, self.coins = participant, member, coins
        self.plan, self.name, self.me = participant.plan, participant.name, participant.me
        self.opened, self.kept = cast("Array | None", None), cast("Kept | None", None)
        self.runs: dict[int, Kin] = {}
        self.products = Products(self.plan, self.me, member.peers, coins)
        self.rows: Array = np.empty(0, np.int64)  # of my points; secret if owners are hidden

    def __repr__(self) -> str:
        return f"Keeper({self.name!r}, secret)"

    def __call__(self, question: Assignment, measured: Measured) -> Role[Message | None]:
        self.opened = None
        if measured.mine is not None:
            self.rows = measured.mine
        match question:
            case Advance():
                match = self.match(question)
                return self.told(match, self.unless_stalled(match, self.advance(match, measured)))
            case Weigh():
                match = self.match(question)
                return self.unless_stalled(match, self.weigh(match, measured))
            case Deliver():
                return self.deliver(self.match(question), measured)
            case Locate():
                return self.locate(self.participant.match(question, measured.sizes), measured)
            case Compare():
                raise FaultyServer(SERVER, "asked for labels, which this policy never shows")
            case _:
                return self.participant(question, measured)

    def watch(self, question: Assignment, sizes: Array) -> Role[None]:
        self.opened = None
        if isinstance(question, Advance):
            yield from self.hear(self.match(question), {})
        elif isinstance(question, Compare) and not isinstance(question, Weigh):
            # Members tell me my labels all the same, if they know which; of the centers I keep nothing.
            delivers = isinstance(question, Deliver)
            match = self.match(question) if delivers else self.participant.match(question, sizes)
            if not (delivers and self.plan.layout.mixed):
                owners = PublicOwners(self.plan, self.me)
                labels, _ = yield from my_labels(match, len(match.sizes), owners, None)
                self.kept = None if labels is None else Kept(labels, None)

    def match(self, question: Any) -> Match:
        """The step that is asked for.  Raises FaultyServer for one that the plan does not have."""
        self.participant.check_players(question)
        told = self.run(question).sizes.get(question.step)
        if question.step and told is not None and told != question.sizes.tolist():
            raise FaultyServer(SERVER, "told other sizes than those that were opened")
        if np.count_nonzero(question.sizes) < 2:
            raise FaultyServer(SERVER, "asked for what sizes decide: fewer than two clusters with points")
        return Match(self.plan, question, question.sizes.astype(np.int64), self.member.seating)

    def run(self, question: Any) -> Kin:
        """The run that a question is about."""
        return self.runs.setdefault(question.run, Kin())

    # --- a step

    def advance(self, match: Match, measured: Measured) -> Role[Message | None]:
        """My part in one step: deal, respond, compare, as far as these are my roles."""
        question, game = step_of(match), game_of(match)
        if self.name not in (self.member.dealer, *match.responders, *match.committee):
            return None
        missing = yield from self.deal(match, game)
        steps, old = self.steps(match), self.state(match)
        corrections = yield from self.corrected(match, steps, game.dealt, first=True)
        if question.step:
            one_hot = yield from self.products.labeled(match, steps, old)
            to, rows = question.responders.tolist(), measured.rows
            sums = yield from self.products.sums(match, steps, rows, one_hot, to)
            measured = Measured(rows, match.sizes, lambda: self.products.expanded(match, rows, sums))
        masked = yield from self.masked(match, steps, measured)
        if masked is None or old is None:
            return Unheard(0, missing)
        zeros, lead = self.zeros(match), self.name == match.committee[0]
        if corrections is None:
            corrections = yield from self.corrected(match, steps, game.dealt, first=False)
        moves = game.play(masked, old, self.tables(match, corrections), self.coins, lead=lead)
        new, same = yield from self.opened_with(match, steps, moves)
        alive = np.flatnonzero(match.sizes)
        self.run(question).states = {question.step: (old, alive), question.step + 1: (new, alive)}
        own = new.parts[:1].sum(axis=2, dtype=np.uint64) % np.uint64(game.first.primes[0])
        return SizeShare(hide(game.first, own.astype(np.uint32), self.me, zeros), bool(same))

    def state(self, match: Match) -> Shared | None:
        """My share of the labels that a question is about, if I am in its committee.

        Raises FaultyServer for a step of which this committee has none.
        """
        question = step_of(match)
        if self.name not in match.committee:
            return None
        alive, committee, run = np.flatnonzero(match.sizes), question.committee.tolist(), self.run(question)
        if question.step == 0:
            lead = self.name == match.committee[0]
            known = question.labels.astype(np.int64)
            run.committee = committee
            run.states = {0: (Shared.public(self.plan.code.basis, known, alive, lead=lead), alive)}
        if question.step not in run.states or run.committee != committee:
            raise FaultyServer(SERVER, f"asked for step {question.step} of a run whose labels others share")
        shared, clusters = run.states[question.step]
        return shared.among(np.flatnonzero(np.isin(clusters, alive)))

    def masked(self, match: Match, steps: Steps, measured: Measured) -> Role[Array | None]:
        """All distances plus the dealer's masks (lanes, K, m), at a member; elsewhere nothing."""
        others = [match.plan.clients.index(c) for c in match.committee if c != self.name]
        numbers = {c: match.plan.clients.index(c) for c in match.plan.clients}
        mine = self.member.masked_distances(match, measured)
        sums_up = self.name in match.parts
        awaited = [numbers[c] for c in match.responders if c != self.name] if sums_up else []
        send = {numbers[c]: message for c, message in mine.items() if c != self.name}
        received = yield from steps.exchange(send, awaited, MaskedDistances)
        if self.name not in match.committee:
            return None
        basis, sums = match.schedule.basis, dict[PartyId, MaskedSum]()
        if sums_up:
            values = [mine[self.name].values] if self.name in mine else []
            values += [
                self.member.residues(match, match.plan.clients[j], message.values, self.name)
                for j, message in received.items()
            ]
            sums[self.name] = MaskedSum(added(basis, values))
        awaited = [numbers[c] for c in match.parts if c != self.name]
        told = {j: message for j in others for message in sums.values()}
        heard = yield from steps.exchange(told, awaited, MaskedSum)
        sums |= {match.plan.clients[j]: message for j, message in heard.items()}
        values = [self.member.residues(match, c, sums[c].values, c) for c in match.parts]
        return np.concatenate(values, axis=2)

    def corrected(self, match: Match, steps: Steps, words: int, *, first: bool) -> Role[Array | None]:
        """What the dealer sends to this member, if to it.

        A server deals while clients compute, so it is heard last; of a client that deals, and then speaks of
        other things, this must be heard first.
        """
        dealer, number = self.member.dealer, match.question.round
        if self.name != match.corrected or first != (dealer != SERVER):
            return None
        now, then = number + DEAL + steps.step, number + DEAL
        inbox = yield Exchange({}, (dealer,), 0, round=now, accept=then, phase="compare")
        told = inbox.get(dealer)
        if told is None or isinstance(told, Unheard):
            gone = {self.plan.clients.index(dealer)} if told is None and dealer != SERVER else set[int]()
            raise Stalled(steps.step, gone)
        return check_words(dealer, only(take({dealer: told}, Corrections), dealer).words, (words,))

    def opened_with(self, match: Match, steps: Steps, game: dealt.Moves) -> Role[Any]:
        """The result of a game of the committee, all of whom open what it yields."""
        others = [j for j in match.question.committee.tolist() if j != self.me]
        opened = None
        while True:
            try:
                opening = game.send(opened)
            except StopIteration as done:
                return done.value
            shares = yield from steps.exchange(dict.fromkeys(others, MaskedBits(opening)), others, MaskedBits)
            basis = self.plan.code.basis
            if opening.dtype != np.uint64:
                basis = basis.prefix(len(opening))
            theirs = [
                check_opening(basis, self.plan.clients[j], message.words, opening)
                for j, message in shares.items()
            ]
            opened = dealt.together(basis, [opening, *theirs])

    def deal(self, match: Match, game: Any) -> Role[Array]:
        """Deal, if that is my role; whose seeds I lack for it."""
        if self.name != self.member.dealer or self.member.dealt_to is None:
            return NOBODY_MISSED
        missing = lacking(match, self.member.dealt_to)
        told = Unheard(0, NOBODY_MISSED) if missing.size else deal(match, self.member.dealt_to, game)
        yield Exchange({match.corrected: told}, round=match.question.round + DEAL, phase="deal")
        return missing

    # --- what a run costs

    def weigh(self, match: Match, measured: Measured) -> Role[Message | None]:
        """My part in what clusters cost, of each one number, which responders hide by streams of theirs."""
        question = step_of(match)
        if self.name not in (*match.responders, *match.committee):
            return None
        steps, state = self.steps(match), self.state(match)
        if state is not None:
            run = self.run(question)
            run.states = {question.step: run.states[question.step]}  # which is the last of it
        values = yield from self.products.costs(match, steps, measured.rows, state)
        if values is None:
            return Unheard(0, NOBODY_MISSED)
        # The next round's nonce: the streams of this one dealt labels.
        lacking = hidden(
            self.plan, self.me, self.member.peers, self.participant.colluding,
            replace(question, round=question.round + 1), values,
        )  # fmt: skip
        return Unheard(steps.step, lacking) if lacking.size else CodedCosts(values)

    # --- the end

    def deliver(self, match: Match, measured: Measured) -> Role[Message]:
        """My part in the end: every owner its own labels, and all clients shares of the centers."""
        owners = self.owners

        def answer() -> Role[tuple[Mapping[int, Message] | None, ClusterSums]]:
            steps, state = self.steps(match), self.state(match)
            everybody = range(len(self.plan.clients))
            one_hot = yield from self.products.labeled(match, steps, state)
            sums = yield from self.products.sums(match, steps, measured.rows, one_hot, everybody)
            told: Mapping[int, Message] | None = None
            if isinstance(owners, HiddenOwners):
                lead = self.name == match.committee[0]
                part = None if state is None else owners.numbers(match, state, lead=lead)
                told = yield from picked(owners, match, steps, part, partial(self.products.streams, match))
            elif state is not None:
                share = codes(np.flatnonzero(match.sizes), state.bits, places_of(len(match.sizes)))
                told = owners.told(dealt.hide(share, list(self.zeros(match).values())))
            return told, self.products.expanded(match, measured.rows, sums)

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
            game, steps = Winning(match.schedule), self.steps(match)
            yield from self.deal(match, game)
            corrections = yield from self.corrected(match, steps, game.dealt, first=True)
            masked = yield from self.masked(match, steps, measured)
            if masked is None:
                return None, None
            zeros = list(self.zeros(match).values())
            if corrections is None:
                corrections = yield from self.corrected(match, steps, game.dealt, first=False)
            tables, lead = self.tables(match, corrections), self.name == match.committee[0]
            moves = game.play(masked, tables, lead=lead)
            bits = yield from self.opened_with(match, steps, moves)
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

    def tables(self, match: Match, corrections: Array | None) -> dealt.Tables:
        """What the dealer made for this member, with a stream that both expand."""
        return dealt.Tables(table_streams(match, self.member.mine, (0,))[0], corrections)

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
        for step in range(stalled.step + 1, stalled.step + 1 + HEARD_BY_ALL):
            yield Exchange(to_all(others, told), round=match.question.round + DEAL + step, phase="compare")

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
        members = tuple(c for c in match.committee if c != self.name)
        inbox = {**mine, **(yield Exchange({}, members, 0, round=shown_in(question), phase="open"))}
        shares = take({c: m for c, m in inbox.items() if not isinstance(m, Unheard)}, SizeShare)
        if len(shares) == len(match.committee):
            same, sizes = sizes_of(match, shares)
            self.run(question).sizes[question.step + 1] = sizes.tolist()
            self.opened = np.array([same, *sizes.tolist()])
