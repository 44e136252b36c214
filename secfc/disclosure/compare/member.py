"""A client's part in comparing distances: responder, member of the committee, or dealer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.code.blind import PairKeys
from field.compare import dealt
from field.ring.basis import Basis
from field.secrets.coins import Coins
from secfc.coded.messages import (
    Compare,
    Corrections,
    LabelShare,
    MaskedBits,
    MaskedDistances,
    MaskedSum,
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
    Seating,
    check_words,
    committee_size,
)
from secfc.disclosure.compare.openings import opened
from secfc.roles.accept import check_residues
from secfc.roles.exchange import SERVER, Exchange, PartyId, Role, take, to_all
from secfc.roles.messages import Message

Array = NDArray[Any]


class Member:
    """A client's part in comparisons under masks that a dealer made: it responds, compares, or deals.

    peers: its keys with the other clients; mine: with the dealer, as peer 0; dealt_to: the dealer's with all.
    Each gives every mask once.
    """

    def __init__(
        self,
        plan: Plan,
        name: PartyId,
        dealer: PartyId,
        peers: PairKeys,
        mine: PairKeys,
        dealt_to: PairKeys | None,
    ) -> None:
        self.plan, self.name, self.dealer = plan, name, dealer
        self.peers, self.mine, self.dealt_to = peers, mine, dealt_to
        self.seating = Seating(committee_size(plan.code.t), dealer)

    def check(self, question: Compare) -> None:
        """Any players will do."""

    def compare(self, match: Match, measured: Measured) -> Role[Message | None]:
        """My part in one match: deal, send masked distances, compare, as far as these are my roles."""
        number, dealer = match.question.round, self.dealer
        if self.name not in (dealer, *match.responders, *match.committee):
            return None
        missing = NOBODY_MISSED
        if self.name == dealer and self.dealt_to is not None:
            missing = lacking(match, self.dealt_to)
            dealing: Message = Unheard(0, NOBODY_MISSED)
            if not missing.size:
                dealing = deal(match, self.dealt_to, match.schedule)
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
        values = match.rivals.distances(measured, basis.lanes)
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
        masked = np.concatenate(values, axis=2)

        tables = dealt.Tables(table_streams(match, self.mine, (0,))[0], corrections)
        game = schedule.compete(masked, tables, lead=self.name == match.committee[0])
        step = OPEN

        def talk(send: Mapping[PartyId, MaskedBits]) -> Role[Mapping[PartyId, MaskedBits]]:
            nonlocal step
            wait = Exchange(dict(send), others, 0, round=number + step, phase="compare")
            shares = yield from heard(wait, MaskedBits, step)
            step += 1
            return shares

        told = None
        while True:
            try:
                opening = game.send(told)
            except StopIteration as done:
                return dealt.hide(done.value, zeros)
            told = yield from opened(schedule.basis, match.committee, self.name, opening, talk)

    def residues(self, match: Match, sender: PartyId, values: Array, member: PartyId) -> Array:
        """Masked distances of the points that this member sums up, checked."""
        part = match.parts[member]
        check_residues(match.schedule.basis, sender, values, (match.shape[0], part.stop - part.start))
        return values


class _NothingHeardError(Exception):
    """A step ended without these parties' messages, perhaps nobody's, so this client can go no further."""

    def __init__(self, step: int, missing: tuple[PartyId, ...]) -> None:
        super().__init__(f"step {step}")
        self.step, self.missing = step, missing


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
