"""A client's part in rounding centers: mask shares of sums, divide in the committee, share quotients anew.

Before a comparison (`field.compare.rounding`) every responder sends one member its weighted shares of the
sums of all clusters, under a mask that the dealer knows; this member tells the others what they add up to, M.
These sums are checked first (`secfc.disclosure.checked.steps`).  Then the members
find shares of the rounded centers that add up, and each deals its own to all responders by the plan's code.
So a responder holds shares of rounded centers as it holds those of points.

Who sees what: a member M, which is uniform, and masked bits; a responder dealings that are uniform to any t
clients, also to those that know what the other members dealt; the dealer nothing, but as a responder.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from field.code.masking import PairKeys, weighted_part
from field.compare import dealer_protocol
from field.compare.rounding import CenterRounding
from field.secrets.coins import Coins
from secfc.coded.messages import CenterShares, Corrections, MaskedCenters
from secfc.coded.plan import CodedPlan
from secfc.coded.policy import DistanceOracle
from secfc.coded.quorum import MissingMessageError, receive_all
from secfc.disclosure.checked.steps import CheckingClient, check_further
from secfc.disclosure.compare.dealer import mask_streams, table_streams
from secfc.disclosure.compare.rounds import CommitteeRounds, add_residues, reconstruct
from secfc.disclosure.compare.session import DEAL, SEND, SUM, ComparisonSession, check_words
from secfc.roles.exchange import Exchange, PartyId, Role
from secfc.roles.messages import Message, check_residues

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class CenterRounder:
    """A client's part; mine: its keys with the dealer, as peer 0.  coins: secret."""

    plan: CodedPlan
    name: PartyId
    dealer: PartyId
    mine: PairKeys
    coins: Coins

    def rounded(
        self,
        match: ComparisonSession,
        rounding: CenterRounding,
        measured: DistanceOracle,
        more: int,
        at: int = 0,
        words: Array | None = None,
        checking: SumsChecking | None = None,
    ) -> Role[tuple[DistanceOracle, Array]]:
        """What my rows are measured to instead, if I respond; and the dealer's words that are left, if any.

        more: how many are.  at: steps of an answer before these.  words: all of the dealer's, if it was heard
        before.  checking: my part in the check of sums, if these are checked.

        Raises MissingMessageError, with the step counted from there; SuspectedParties for false sums.
        """
        part: Array | None = None
        left: Array = np.empty(0, np.uint64)
        columns = self.columns(match, measured) if self.name in match.responders else None
        mine = None if columns is None else self.masked(match, rounding, columns, checking)
        if self.name in match.committee:
            if words is None:
                words = yield from self.told(match, rounding.dealt + more, at)
            if words is not None:
                words, left = np.split(words, [rounding.dealt])
            total = yield from self.summed(match, rounding, mine, at)
            if checking is not None:
                yield from checking.verify(measured, columns, total)
            part = yield from self.divided(match, rounding, total.values, words, at)
        else:
            if mine is not None:
                send = {match.corrected: mine}
                yield Exchange(send, round=match.question.round + at + SEND, phase="distances")
            if checking is not None:
                yield from checking.verify(measured, columns, None)
        shares = yield from self.dealt(match, rounding, part, at)
        return (self.about(measured, shares) if shares else measured), left

    def told(self, match: ComparisonSession, due: int, at: int) -> Role[Array | None]:
        """So many words of the dealer, at the member that gets them."""
        if self.name != match.corrected:
            return None
        number = match.question.round
        wait = Exchange(
            {}, (self.dealer,), 0, round=number + at + SEND, accept=number + DEAL, phase="distances"
        )
        dealing = (yield from receive_all(wait, Corrections, DEAL))[self.dealer]
        return check_words(self.dealer, dealing.words, (due,))

    def columns(self, match: ComparisonSession, measured: DistanceOracle) -> Array:
        """My shares of the sums of clusters with points, (lanes, K, width)."""
        return np.ascontiguousarray(measured.rows.residues(measured.sums)[:, match.sizes > 0])

    def masked(
        self,
        match: ComparisonSession,
        rounding: CenterRounding,
        columns: Array,
        checking: SumsChecking | None,
    ) -> MaskedCenters:
        """These shares, weighted so that they sum up, under my mask; and what they are checked by."""
        responders, basis = tuple(match.question.responders.tolist()), rounding.basis
        me = self.plan.clients.index(self.name)
        stream = mask_streams(match, self.mine, (0,), sums=True)[0]
        mask = basis.sample(rounding.shape, stream)
        values = basis.add(weighted_part(self.plan.code, responders, me, columns), mask)
        if checking is None:
            return MaskedCenters(values)
        further = checking.client.further(columns)
        return MaskedCenters(values, further=basis.add(further, basis.sample(further.shape[1:], stream)))

    def summed(
        self, match: ComparisonSession, rounding: CenterRounding, mine: MaskedCenters | None, at: int
    ) -> Role[MaskedCenters]:
        """What masked sums of all responders add up to, at a member."""
        number, corrected, basis = match.question.round + at, match.corrected, rounding.basis
        others = tuple(c for c in match.committee if c != self.name)
        if self.name == corrected:
            awaited = tuple(c for c in match.responders if c != self.name)
            wait = Exchange({}, awaited, 0, round=number + SEND, phase="distances")
            parts = yield from receive_all(wait, MaskedCenters, SEND)
            all_of = [*([] if mine is None else [mine])]
            all_of += [self.residues(match, rounding, c, m) for c, m in parts.items()]
            values = add_residues(basis, [m.values for m in all_of])
            each = [m.further for m in all_of if m.further is not None]
            total = MaskedCenters(values, further=add_residues(basis, each) if each else None)
            yield Exchange(dict.fromkeys(others, total), round=number + SUM, phase="compare")
            return total
        send: dict[PartyId, Message] = {} if mine is None else {corrected: mine}
        yield Exchange(send, round=number + SEND, phase="distances")
        wait = Exchange({}, (corrected,), 0, round=number + SUM, phase="compare")
        heard_of = (yield from receive_all(wait, MaskedCenters, SUM))[corrected]
        return self.residues(match, rounding, corrected, heard_of)

    def divided(
        self,
        match: ComparisonSession,
        rounding: CenterRounding,
        total: Array,
        words: Array | None,
        at: int,
    ) -> Role[Array]:
        """A member's part of rounded centers (lanes, K, ell * width).  words: of the dealer, if to me."""
        number, basis = match.question.round + at, rounding.basis
        others = tuple(c for c in match.committee if c != self.name)
        stream = table_streams(match, self.mine, (0,), sums=True)[0]
        hand = dealer_protocol.PartyTables(stream, words).take()
        game = rounding.compete(total, hand, lead=self.name == match.committee[0])
        talk = CommitteeRounds(number + match.opening_sums, match.opening_sums, others)
        told = None
        while True:
            try:
                opening = game.send(told)
            except StopIteration as done:
                return cast(Array, done.value)
            told = yield from reconstruct(basis, match.committee, self.name, opening, talk)

    def dealt(
        self, match: ComparisonSession, rounding: CenterRounding, part: Array | None, at: int
    ) -> Role[list[Array]]:
        """What the members deal me of the rounded centers, if I respond; part: mine, if I am a member."""
        code, number = self.plan.code, match.question.round + at + match.shared
        send: dict[PartyId, Message] = {}
        values = []
        if part is not None:
            shares = code.share(part, self.coins)
            for c in match.responders:
                share = np.ascontiguousarray(shares[self.plan.clients.index(c)])
                if c == self.name:
                    values.append(share)
                else:
                    send[c] = CenterShares(share)
        awaited = tuple(c for c in match.committee if c != self.name) if self.name in match.responders else ()
        wait = Exchange(send, awaited, 0, round=number, phase="compare")
        told = yield from receive_all(wait, CenterShares, match.shared)
        shape = len(rounding.sizes), code.width(self.plan.d)
        for c, message in told.items():
            check_residues(code.basis, c, message.values, shape)
        return [*values, *(message.values for message in told.values())]

    def about(self, measured: DistanceOracle, shares: list[Array]) -> DistanceOracle:
        """The same rows, and the rounded centers as sums of as many points as they stand for."""
        code, sums = self.plan.code, measured.sums
        weights, alive = self.plan.weights(measured.sizes), measured.sizes > 0
        values = np.zeros((code.basis.lanes, len(weights), shares[0].shape[2]), code.basis.dtype)
        multiple = code.basis.reduce(np.array([self.plan.layout.multiple]))[:, :, None]
        values[:, alive] = code.basis.multiply(add_residues(code.basis, shares), multiple)
        about = replace(measured.rows.encode_sums(values, weights), labels=sums.labels)
        return replace(measured, sizes=weights, compute=lambda: about)

    def residues(
        self, match: ComparisonSession, rounding: CenterRounding, sender: PartyId, sums: MaskedCenters
    ) -> MaskedCenters:
        """Masked sums, in shape and range."""
        check_residues(rounding.basis, sender, sums.values, rounding.shape)
        check_further(rounding.basis, sender, sums.further, match.checked_sums)
        return sums


@dataclass(frozen=True, eq=False, repr=False)
class SumsChecking:
    """A client's part in the check of sums; masks: at the dealer, what hides them."""

    client: CheckingClient
    masks: tuple[Array, Array] | None

    def verify(
        self, measured: DistanceOracle, columns: Array | None, total: MaskedCenters | None
    ) -> Role[None]:
        """Check all sums.  columns: my shares of them, if I respond.  total: at a member, masked.

        Raises SuspectedParties if something does not fit, MissingMessageError, whose step is counted from
        where rounding begins.
        """
        rows = None if columns is None else measured.rows
        sums = None if total is None or total.further is None else (total.values, total.further)
        try:
            yield from self.client.verify(rows, columns, sums, self.masks)
        except MissingMessageError as silence:
            raise MissingMessageError(silence.step - self.client.asked.begun, silence.missing) from None
