"""A client's part in comparing distances: responder, member of the committee, or dealer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from field.code.blind import PairKeys
from field.compare import dealt
from field.ring.basis import Basis
from field.secrets.coins import Coins
from secfc.coded.messages import (
    Assignment,
    CodedCosts,
    Compare,
    Corrections,
    LabelShare,
    MaskedBits,
    MaskedDistances,
    MaskedSum,
    MeasureCost,
    Unheard,
)
from secfc.coded.plan import Plan
from secfc.coded.policy import Measured
from secfc.coded.silence import NOBODY_MISSED
from secfc.disclosure.compare.dealer import deal, lacking, mask_streams, table_streams
from secfc.disclosure.compare.match import (
    DEAL,
    OPEN,
    SEND,
    SUM,
    Match,
    check_opening,
    check_words,
    committee_size,
    labels_of,
)
from secfc.disclosure.decoded.distances import check_responders, hidden, masked
from secfc.roles.accept import check_residues
from secfc.roles.exchange import SERVER, STRIDE, Exchange, FaultyServer, PartyId, Role, take, to_all
from secfc.roles.messages import Message

Array = NDArray[Any]


class Participant:
    """A client's answers: called with a question, it plays its part as responder, member or dealer.

    peers: its keys with the other clients; mine: with the dealer, as peer 0; dealt_to: the dealer's with all.
    Each gives every mask once.  consent: whether the server may see distances, which a start needs.
    Costs, and distances that were consented to, are blinded against the server with t clients.
    """

    opens: ClassVar[bool] = True

    def __init__(
        self,
        plan: Plan,
        name: PartyId,
        dealer: PartyId,
        peers: PairKeys,
        mine: PairKeys,
        dealt_to: PairKeys | None,
        *,
        consent: bool,
    ) -> None:
        self.plan, self.name, self.dealer, self.consent = plan, name, dealer, consent
        self.me = plan.clients.index(name)
        self.peers, self.mine, self.dealt_to = peers, mine, dealt_to
        self.colluding = max(1, plan.code.t)
        # Costs are opened for one assignment a restart, however often lost replies make it be asked again.
        self.restarts = plan.n_init if plan.n_init > 1 else 0
        self.costed: set[bytes] = set()
        self.opened: Array | None = None
        self.left_out: set[int] = set()  # clients that the server did without, so called silent

    def __repr__(self) -> str:
        return f"Participant({self.name!r}, secret)"

    @property
    def seats(self) -> int:
        """Clients in a committee."""
        return committee_size(self.plan.code.t)

    def __call__(self, question: Assignment, measured: Measured) -> Role[Message | None]:
        self.opened = None
        match question:
            case Compare():
                contest = self.match(question, measured.sizes)
                return self.told(contest, question, self.compare(contest, measured))
            case MeasureCost():
                check_responders(self.plan, question)
                self.costed.add(question.labels.tobytes())
                if len(self.costed) > self.restarts:
                    raise FaultyServer(SERVER, "asked for costs of more assignments than there are restarts")
                return self.cost(question, measured)
            case _ if self.consent:
                return masked(self.plan, self.me, self.peers, self.colluding, question, measured)
            case _:
                raise FaultyServer(SERVER, "asked for distances, which this policy never shows")

    def watch(self, question: Assignment, sizes: Array) -> Role[None]:
        """No part of mine, but to hear what others open.  sizes: of the clusters that are measured to."""
        self.opened = None
        if isinstance(question, Compare):
            yield from self.hear(self.match(question, sizes), question, {})

    def match(self, question: Compare, sizes: Array) -> Match:
        """The comparison that is asked for.  Raises FaultyServer for one that the plan does not have."""
        self.check_players(question)
        if np.count_nonzero(sizes) < 2:
            raise FaultyServer(SERVER, "asked to compare fewer than two clusters with points")
        return Match(self.plan, question, sizes)

    def shares_of(self, question: Assignment) -> type[LabelShare]:
        """What a member of the committee says of the labels that an answer opens."""
        return LabelShare

    def schedule(self, match: Match) -> Any:
        """How the labels of a match are coded."""
        return match.schedule

    def told(self, match: Match, question: Assignment, answer: Role[Message | None]) -> Role[None]:
        """Answer the server, and if I am in the committee, tell all clients before it what I tell it.

        So whoever asks about these labels next asks clients that know them.
        """
        message = yield from answer
        number, mine = question.round, {}
        if self.name in match.committee:
            share = message if isinstance(message, LabelShare) else Unheard(0, NOBODY_MISSED)
            others = (c for c in self.plan.clients if c != self.name)
            yield Exchange(to_all(others, share), round=shown_in(question), phase="open")
            mine = {self.name: share}
        send = {} if message is None else {SERVER: message}
        yield Exchange(send, round=number, phase="distances")
        yield from self.hear(match, question, mine)

    def hear(self, match: Match, question: Assignment, mine: dict[PartyId, Any]) -> Role[None]:
        """What the committee opens, unless one of it could not, or is not heard."""
        members = tuple(c for c in match.committee if c != self.name)
        wait = Exchange({}, members, 0, round=shown_in(question), phase="open")
        inbox = {**mine, **(yield wait)}
        told = {c: m for c, m in inbox.items() if not isinstance(m, Unheard)}
        shares = take(told, self.shares_of(question))
        if len(shares) == len(match.committee):
            self.opened = labels_of(match, self.schedule(match), shares, self.dealer)

    def check_players(self, question: Compare) -> None:
        """Raises FaultyServer for players or a comparison that the plan does not have."""
        check_responders(self.plan, question)
        self.check_committee(question.committee)
        self.check_order(question.responders.tolist(), question.committee.tolist())
        if question.factor not in (1, self.plan.init.factor):
            raise FaultyServer(SERVER, f"asked to compare by a factor of {question.factor}")

    def check_committee(self, committee: Array) -> None:
        """Raises FaultyServer for a committee (numbers of clients) in which fewer could learn more."""
        members = committee.tolist()
        strangers = any(j >= self.plan.code.n or self.plan.clients[j] == self.dealer for j in members)
        if strangers or len(members) != self.seats:
            rule = f"{self.seats} clients that do not deal"
            raise FaultyServer(SERVER, f"asked for another committee than {rule}")

    def check_order(self, responders: list[int], committee: list[int]) -> None:
        """Raises FaultyServer for other players than the first in the plan's order that are not left out.

        Who was once left out, as silent, stays out: so the server can seat another client only for good, and
        only as often as clients may fall silent.
        """
        dealing = {j for j, c in enumerate(self.plan.clients) if c == self.dealer}
        skipped = set(range(max(responders) + 1)) - set(responders)
        skipped |= set(range(max(committee) + 1)) - set(committee) - dealing
        players = {*responders, *committee}
        if committee != sorted(committee) or players & (skipped | self.left_out):
            raise FaultyServer(SERVER, "asked for other players than the first that did not fall silent")
        self.left_out |= skipped

    def cost(self, question: Assignment, measured: Measured) -> Role[CodedCosts | Unheard | None]:
        """My coded distances of every cluster's own points, summed and blinded."""
        yield from ()
        if self.me not in question.responders:
            return None
        basis = self.plan.code.basis
        values = own_sums(basis, measured.distances(basis.lanes), question.labels)
        strangers = hidden(self.plan, self.me, self.peers, self.colluding, question, values)
        return Unheard(0, strangers) if strangers.size else CodedCosts(values)

    def compare(self, match: Match, measured: Measured) -> Role[Message | None]:
        """My part in one match: deal, send masked distances, compare, as far as these are my roles."""
        number, dealer = match.question.round, self.dealer
        if self.name not in (dealer, *match.responders, *match.committee):
            return None
        missing = NOBODY_MISSED
        if self.name == dealer and self.dealt_to is not None:
            missing = lacking(match, self.dealt_to)
            dealing = Unheard(0, NOBODY_MISSED) if missing.size else deal(match, self.dealt_to)
            yield Exchange({match.corrected: dealing}, round=number + DEAL, phase="deal")
        mine = self.masked_distances(match, measured)
        if self.name not in match.committee:
            send = {c: m for c, m in mine.items() if c != self.name}
            yield Exchange(send, round=number + SEND, phase="distances")
            return Unheard(0, missing)
        peers = [match.plan.clients.index(c) for c in match.committee if c != self.name]
        zeros = self.peers.streams(number, match.context, peers)
        try:
            strangers = set(peers) - set(zeros)
            if strangers:
                raise _NothingHeardError(0, tuple(self.plan.clients[j] for j in strangers))
            return LabelShare((yield from self.judge(match, mine, list(zeros.values()))))
        except _NothingHeardError as silence:
            yield from self.give_up(match, silence.step)
            numbers = [self.plan.clients.index(c) for c in silence.missing if c != SERVER]
            return Unheard(silence.step, np.array(sorted(numbers), np.int32))

    def give_up(self, match: Match, step: int) -> Role[None]:
        """Tell the other members, in every step in which they may wait for me, so that none waits long."""
        others = [c for c in match.committee if c != self.name]
        # What waits for the dealer has sent its masked distances before.
        first = SUM if step == DEAL else step + 1
        for later in range(first, max(OPEN, first) + 1):
            told = to_all(others, Unheard(step, NOBODY_MISSED))
            yield Exchange(told, round=match.question.round + later, phase="compare")

    def masked_distances(self, match: Match, measured: Measured) -> dict[PartyId, MaskedDistances]:
        """What I send to each member, if I am to respond: my masked distances of the points it sums up."""
        if self.name not in match.responders:
            return {}
        basis = match.schedule.basis
        values = match.distances(measured, basis.lanes)
        stream = mask_streams(match, self.mine, (0,))[0]
        hiding = dealt.mask(basis, match.weights(self.name), values, stream)
        return {
            c: MaskedDistances(np.ascontiguousarray(hiding[:, :, part])) for c, part in match.parts.items()
        }

    def judge(self, match: Match, mine: dict[PartyId, MaskedDistances], zeros: list[Coins]) -> Role[Array]:
        """A member's part: my share of the labels' digits, re-randomized."""
        number, dealer, schedule = match.question.round, self.dealer, match.schedule
        others = tuple(c for c in match.committee if c != self.name)
        own = {c: m for c, m in mine.items() if c == self.name}
        send: dict[PartyId, Message] = {c: m for c, m in mine.items() if c != self.name}
        corrections = None
        if self.name == match.corrected:
            wait = Exchange(send, (dealer,), 0, round=number + SEND, accept=number + DEAL, phase="distances")
            dealing = (yield from heard(wait, Corrections, DEAL))[dealer]
            corrections, send = check_words(dealer, dealing.words, (schedule.dealt,)), {}
        awaited = tuple(c for c in match.responders if c != self.name) if self.name in match.parts else ()
        wait = Exchange(send, awaited, 0, round=number + SEND, phase="distances")
        parts = {**(yield from heard(wait, MaskedDistances, SEND)), **own}
        sums = {}
        if self.name in match.parts:
            values = [self.residues(match, c, m.values, self.name) for c, m in parts.items()]
            sums[self.name] = MaskedSum(added(schedule.basis, values))
        send = {c: m for m in sums.values() for c in others}
        awaited = tuple(c for c in match.parts if c != self.name)
        wait = Exchange(send, awaited, 0, round=number + SUM, phase="compare")
        sums |= yield from heard(wait, MaskedSum, SUM)
        values = [self.residues(match, c, sums[c].values, c) for c in match.parts]
        total = np.concatenate(values, axis=2)

        tables = dealt.Tables(table_streams(match, self.mine, (0,))[0], corrections)
        game = schedule.compete(total, tables, lead=self.name == match.committee[0])
        opened, step = None, OPEN
        while True:
            try:
                opening = game.send(opened)
            except StopIteration as done:
                return dealt.hide(done.value, zeros)
            wait = Exchange(
                to_all(others, MaskedBits(opening)),
                others,
                0,
                round=number + step,
                phase="compare",
            )
            shares = yield from heard(wait, MaskedBits, step)
            theirs = [check_opening(schedule.basis, c, m.words, opening) for c, m in shares.items()]
            opened = dealt.together(schedule.basis, [opening, *theirs])
            step += 1

    def residues(self, match: Match, sender: PartyId, values: Array, member: PartyId) -> Array:
        """Masked distances of the points that this member sums up, checked."""
        part = match.parts[member]
        check_residues(match.schedule.basis, sender, values, (match.shape[0], part.stop - part.start))
        return values


def shown_in(question: Assignment) -> int:
    """The round in which clients tell one another the labels that an answer opens: its last one."""
    return question.round + question.strides * STRIDE - 1


class _NothingHeardError(Exception):
    """A step ended without these parties' messages, perhaps nobody's, so this client can go no further."""

    def __init__(self, step: int, missing: tuple[PartyId, ...]) -> None:
        super().__init__(f"step {step}")
        self.step, self.missing = step, missing


def own_sums(basis: Basis, distances: Array, labels: Array) -> Array:
    """For each cluster the sum of its own points' coded distances (lanes, k, m): (lanes, k) residues."""
    inside = np.flatnonzero(labels >= 0)
    own = labels[inside]
    totals = np.zeros(distances.shape[:2], np.uint64)
    for lane, p in enumerate(basis.primes):
        # Fewer than 2**30 points of residues below 2**30.
        np.add.at(totals[lane], own, distances[lane, own, inside].astype(np.uint64))
        totals[lane] %= np.uint64(p)
    return totals.astype(basis.dtype)


def added(basis: Basis, values: Sequence[Array]) -> Array:
    """The sum of residues (lanes, ...), C-contiguous."""
    total = values[0].copy()
    for value in values[1:]:
        for lane, p in enumerate(basis.primes):
            basis.add_to_lane(total[lane], value[lane], p)
    return total


def heard(exchange: Exchange, kind: Any, step: int) -> Role[dict[PartyId, Any]]:
    """What every awaited party sent.  Raises _NothingHeardError if one did not, or goes no further."""
    inbox = take((yield exchange), kind | Unheard)
    missing = tuple(c for c in exchange.expect if c not in inbox)
    if missing or any(isinstance(message, Unheard) for message in inbox.values()):
        raise _NothingHeardError(step, missing)
    return inbox
