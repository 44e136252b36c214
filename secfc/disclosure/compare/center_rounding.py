"""A client's part in rounding centers: mask shares of sums, divide in the committee, share quotients anew.

Before a comparison (`field.compare.rounding`) every responder sends one member its weighted shares of the
sums of all clusters, under a mask that the dealer knows; this member tells the others what they add up to, M.
The members find shares of the rounded centers that add up, part by part, while these sums are checked
(`secfc.disclosure.checked.steps`), and check what they said.  Then they deal each part to all responders by
the plan's code (`secfc.disclosure.checked.parts`): so a responder holds shares of rounded centers as it holds
those of points.

Who sees what: a member M, which is uniform, and masked bits; a responder dealings that are uniform to any t
clients, also to those that know what the other members dealt; the dealer nothing, but as a responder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from field.arrays import Array
from field.code.masking import PairKeys, weighted_part
from field.compare.rounding import CenterRounding
from secfc.coded.messages import Corrections, MaskedCenters
from secfc.coded.plan import CodedPlan
from secfc.coded.policy import DistanceOracle
from secfc.coded.quorum import MissingMessageError, receive_all
from secfc.disclosure.checked.messages import PartShares
from secfc.disclosure.checked.parts import PartDealing
from secfc.disclosure.checked.steps import STEPS, CheckingClient, check_further
from secfc.disclosure.checked.words import CommitteeWords
from secfc.disclosure.compare.dealer import mask_streams, part_tables
from secfc.disclosure.compare.rounds import (
    CommitteeRounds,
    InterleavedRole,
    add_residues,
    conclude_words,
    play_games,
)
from secfc.disclosure.compare.session import DEAL, OPEN, SEND, SUM, ComparisonSession, check_words
from secfc.roles.exchange import Exchange, PartyId, Role
from secfc.roles.messages import Message, check_residues


@dataclass(frozen=True, eq=False, repr=False)
class CenterRounder:
    """A client's part; mine: its keys with the dealer, as peer 0."""

    plan: CodedPlan
    name: PartyId
    dealer: PartyId
    mine: PairKeys

    def rounded(
        self,
        match: ComparisonSession,
        rounding: CenterRounding,
        measured: DistanceOracle,
        more: int,
        checking: SumsChecking,
        at: int = 0,
        words: Array | None = None,
    ) -> Role[tuple[DistanceOracle, Array]]:
        """What my rows are measured to instead, if I respond; and the dealer's words that are left, if any.

        more: how many are.  checking: my part in the checks of sums, and of words.  at: steps of an answer
        before these.  words: all of the dealer's, if it was heard before.

        Raises MissingMessageError, with the step counted from there; SuspectedParties for false sums, words
        and shares.
        """
        left: Array = np.empty(0, np.uint64)
        parts = dict[int, Array]()
        columns = self.columns(match, measured) if self.name in match.responders else None
        mine = None if columns is None else self.masked(match, rounding, columns, checking)
        if self.name in match.committee:
            if words is None:
                words = yield from self.told(match, rounding.dealt + more, at)
            if words is not None:
                words, left = np.split(words, [rounding.dealt])
            total = yield from self.summed(match, rounding, mine, at)
            checks = checking.verify(measured, columns, total)
            parts = yield from self.divided(match, rounding, checking.words, total, words, at, checks)
        else:
            if mine is not None:
                send = {match.corrected: mine}
                yield Exchange(send, round=match.question.round + at + SEND, phase="distances")
            yield from checking.verify(measured, columns, None)
        share = yield from self.dealt(match, rounding, checking, parts, at)
        return (measured if share is None else self.about(measured, share)), left

    def told(self, match: ComparisonSession, due: int, at: int) -> Role[Array | None]:
        """So many words of the dealer, at a member that gets them."""
        if self.name not in match.correctors:
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
        self, match: ComparisonSession, rounding: CenterRounding, columns: Array, checking: SumsChecking
    ) -> MaskedCenters:
        """These shares, weighted so that they sum up, under my mask; and what they are checked by."""
        responders, basis = tuple(match.question.responders.tolist()), rounding.basis
        me = self.plan.clients.index(self.name)
        stream = mask_streams(match, self.mine, (0,), sums=True)[0]
        mask = basis.sample(rounding.shape, stream)
        values = basis.add(weighted_part(self.plan.code, responders, me, columns), mask)
        further = checking.client.further(columns)
        return MaskedCenters(values, further=basis.add(further, basis.sample(further.shape[1:], stream)))

    def summed(
        self, match: ComparisonSession, rounding: CenterRounding, mine: MaskedCenters | None, at: int
    ) -> Role[tuple[Array, Array]]:
        """What masked sums of all responders add up to, and what these are checked by, at a member."""
        number, corrected, basis = match.question.round + at, match.corrected, rounding.basis
        others = tuple(c for c in match.committee if c != self.name)
        if self.name == corrected:
            awaited = tuple(c for c in match.responders if c != self.name)
            wait = Exchange({}, awaited, 0, round=number + SEND, phase="distances")
            parts = yield from receive_all(wait, MaskedCenters, SEND)
            parts |= {} if mine is None else {self.name: mine}
            each = [self.residues(match, rounding, c, m) for c, m in parts.items()]
            values, further = (add_residues(basis, x) for x in zip(*each, strict=True))
            total = MaskedCenters(values, further=further)
            yield Exchange(dict.fromkeys(others, total), round=number + SUM, phase="compare")
            return values, further
        send: dict[PartyId, Message] = {} if mine is None else {corrected: mine}
        yield Exchange(send, round=number + SEND, phase="distances")
        wait = Exchange({}, (corrected,), 0, round=number + SUM, phase="compare")
        heard_of = (yield from receive_all(wait, MaskedCenters, SUM))[corrected]
        return self.residues(match, rounding, corrected, heard_of)

    def divided(
        self,
        match: ComparisonSession,
        rounding: CenterRounding,
        spoken: CommitteeWords,
        total: tuple[Array, Array],
        words: Array | None,
        at: int,
        checks: Role[None],
    ) -> Role[dict[int, Array]]:
        """The rounded centers of the parts that I play, (lanes, K, ell * width) by number.

        total: see `summed`.  words: of the dealer, if to me.  checks: of sums, beside.  Raises
        SuspectedParties if sums, or what members said, do not fit.
        """
        number, step = match.question.round + at, OPEN
        others = tuple(c for c in match.committee if c != self.name)
        spoken.begin(rounding.basis, *total)
        tables = part_tables(match, self.mine, spoken.seeds, spoken.parts, words, sums=True)
        games = {q: rounding.compete(total[0], hand, lead=q == 0) for q, hand in tables.items()}
        talk = CommitteeRounds(number + step, step, others, spoken, ([InterleavedRole(checks)], STEPS))
        parts = yield from play_games(match, spoken, games, talk)
        yield from conclude_words(spoken, talk)
        return parts

    def dealt(
        self,
        match: ComparisonSession,
        rounding: CenterRounding,
        checking: SumsChecking,
        parts: Mapping[int, Array],
        at: int,
    ) -> Role[Array | None]:
        """My share (lanes, K, width) of the rounded centers, if I respond; parts: that I play, if any.

        Raises SuspectedParties where clients of a part deal different shares.
        """
        code, clients, lanes = self.plan.code, self.plan.clients, rounding.basis.lanes
        me, shape = clients.index(self.name), (len(rounding.sizes), code.width(self.plan.d))
        members, responders = match.question.members.tolist(), match.question.responders.tolist()
        dealing = PartDealing(
            code, clients, match.blocks, tuple(members), tuple(responders), checking.client.asked.context,
            shape[0] * shape[1], "rounded centers",
        )  # fmt: skip
        send, own = dict[int, PartShares](), dict[int, Array]()
        if parts:
            # Every segment has its own numbers.
            each = {q: x.reshape(lanes, shape[0], code.ell, shape[1]) for q, x in parts.items()}
            cut = {q: np.swapaxes(x, 1, 2).reshape(lanes, code.ell, -1) for q, x in each.items()}
            send, own = dealing.deal(me, checking.words.keys, cut)
        awaited = tuple(c for c in match.committee if c != self.name) if me in responders else ()
        number = match.question.round + at + match.shared
        wait = Exchange({clients[j]: m for j, m in send.items()}, awaited, 0, round=number, phase="compare")
        told = yield from receive_all(wait, PartShares, match.shared)
        if me not in responders:
            return None
        return dealing.take(me, own, {clients.index(c): m for c, m in told.items()}).reshape(lanes, *shape)

    def about(self, measured: DistanceOracle, share: Array) -> DistanceOracle:
        """The same rows, and the rounded centers as sums of as many points as they stand for."""
        code, sums = self.plan.code, measured.sums
        weights, alive = self.plan.weights(measured.sizes), measured.sizes > 0
        values = np.zeros((code.basis.lanes, len(weights), share.shape[2]), code.basis.dtype)
        multiple = code.basis.reduce(np.array([self.plan.layout.multiple]))[:, :, None]
        values[:, alive] = code.basis.multiply(share, multiple)
        about = replace(measured.rows.encode_sums(values, weights), labels=sums.labels)
        return replace(measured, sizes=weights, compute=lambda: about)

    def residues(
        self, match: ComparisonSession, rounding: CenterRounding, sender: PartyId, sums: MaskedCenters
    ) -> tuple[Array, Array]:
        """Masked sums, and what they are checked by, in shape and range."""
        check_residues(rounding.basis, sender, sums.values, rounding.shape)
        return sums.values, check_further(rounding.basis, sender, sums.further, match.checked_sums)


@dataclass(frozen=True, eq=False, repr=False)
class SumsChecking:
    """A client's part in the check of sums; spoken: at a member, its part in what the committee says of them.
    masks: at the dealer, what hides sums."""

    client: CheckingClient
    spoken: CommitteeWords | None = None
    masks: tuple[Array, Array] | None = None

    @property
    def words(self) -> CommitteeWords:
        """A member's."""
        if self.spoken is None:
            raise RuntimeError("a member takes part in the check of words")
        return self.spoken

    def verify(
        self, measured: DistanceOracle, columns: Array | None, sums: tuple[Array, Array] | None
    ) -> Role[None]:
        """Check all sums.  columns: my shares of them, if I respond.  sums: at a member, masked.

        Raises SuspectedParties if something does not fit, MissingMessageError, whose step is counted from
        where rounding begins.
        """
        rows = None if columns is None else measured.rows
        try:
            yield from self.client.verify(rows, columns, sums, self.masks)
        except MissingMessageError as silence:
            raise MissingMessageError(silence.step - self.client.asked.begun, silence.missing) from None
