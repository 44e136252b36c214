"""A client's part in rounding centers: mask shares of sums, divide in the committee, share quotients anew.

Before a comparison (`field.compare.rounding`) every responder sends one member its weighted shares of the
sums of all clusters, under a mask that the dealer knows; this member tells the others what they add up to, M.
The members find shares of the rounded centers that add up, part by part, while these sums are checked
(`secfc.disclosure.checked.steps`).  Then they deal each part to all responders by the plan's code
(`secfc.disclosure.checked.parts`): so a responder holds shares of rounded centers as it holds those of
points.  Meanwhile they check what they said; where several play each part, the others vouch for shares only
then.  Whether two that play a part hold the same, after they were told different words, would show a bit of a
table.  Nothing leaves the committee, and no number is opened, before all of this is accepted.

Who sees what: a member M, which is uniform, and masked bits; a responder dealings that are uniform to any t
clients, also to those that know what the other members dealt; the dealer nothing, but as a responder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np

from field.arrays import Array
from field.code.masking import PairKeys, weighted_part
from field.compare.rounding import CenterRounding
from secfc.coded.messages import Corrections, MaskedCenters
from secfc.coded.plan import CodedPlan
from secfc.coded.policy import DistanceOracle
from secfc.coded.quorum import receive_all
from secfc.disclosure.checked.messages import PartShares
from secfc.disclosure.checked.parts import PartDealing
from secfc.disclosure.checked.steps import COINS, CheckingClient, check_further
from secfc.disclosure.checked.words import CommitteeWords
from secfc.disclosure.compare.dealer import mask_streams, part_tables
from secfc.disclosure.compare.rounds import (
    CommitteeRounds,
    InterleavedRole,
    conclude_beside,
    play_games,
    take_dealt,
)
from secfc.disclosure.compare.session import DEAL, SEND, SUM, ComparisonSession, check_words
from secfc.roles.exchange import Exchange, PartyId, Role
from secfc.roles.messages import check_residues


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
        words: Array | None = None,
    ) -> Role[tuple[DistanceOracle, Array]]:
        """What my rows are measured to instead, if I respond; and the dealer's words that are left, if any.

        more: how many are.  checking: my part in all checks.  words: all of the dealer's, if it was heard
        before.

        Raises MissingMessageError; SuspectedParties for false sums, words and shares, as far as it is found
        here and not by what goes on beside.
        """
        left: Array = np.empty(0, np.uint64)
        parts, lanes, number = dict[int, Array](), checking.beside, match.question.round
        begun = number + match.summed
        columns = self.columns(match, measured) if self.name in match.responders else None
        mine = None if columns is None else self.masked(match, rounding, columns, checking)
        yield from InterleavedRole.say_all(lanes, begun + DEAL)
        yield from checking.client.deal()
        if mine is not None and self.name != match.corrected:
            yield Exchange({match.corrected: mine}, round=begun + SEND, phase="distances")
        if self.name in match.committee and words is None:
            words = yield from self.told(match, rounding.dealt + more)
        yield from InterleavedRole.hear_all(lanes, begun + DEAL)
        yield from take_dealt(checking.client, checking.spoken)
        behind = None if columns is None else self.further(match, rounding, columns, checking)
        if behind is not None and self.name != match.corrected:
            yield Exchange({match.corrected: behind}, round=number + checking.step, phase="check")
        total = None
        if self.name in match.committee:
            if words is not None:
                words, left = np.split(words, [rounding.dealt])
            total = yield from self.summed(match, rounding, mine, behind)
        lanes.append(
            InterleavedRole(
                checking.client.verify(
                    None if columns is None else measured.rows, columns, total, checking.masks
                )
            )
        )
        if total is not None:
            parts = yield from self.divided(match, rounding, checking, total, words)
        share = yield from self.dealt(match, rounding, checking, parts)
        return (measured if share is None else self.about(measured, share)), left

    def told(self, match: ComparisonSession, due: int) -> Role[Array | None]:
        """So many words of the dealer, at a member that gets them."""
        if self.name not in match.correctors:
            return None
        number = match.question.round
        wait = Exchange(
            {}, (self.dealer,), 0, round=number + match.summed + SEND, accept=number + DEAL, phase="distances"
        )
        dealing = (yield from receive_all(wait, Corrections, DEAL))[self.dealer]
        return check_words(self.dealer, dealing.words, (due,))

    def columns(self, match: ComparisonSession, measured: DistanceOracle) -> Array:
        """My shares of the sums of clusters with points, (lanes, K, width)."""
        return np.ascontiguousarray(measured.rows.residues(measured.sums)[:, match.sizes > 0])

    def masked(
        self, match: ComparisonSession, rounding: CenterRounding, columns: Array, checking: SumsChecking
    ) -> MaskedCenters:
        """These shares, weighted so that they sum up, under my mask."""
        responders, basis = tuple(match.question.responders.tolist()), rounding.basis
        me = self.plan.clients.index(self.name)
        stream = mask_streams(match, self.mine, (0,), sums=True)[0]
        mask = basis.sample(rounding.shape, stream)
        values = basis.add(weighted_part(self.plan.code, responders, me, columns), mask)
        checking.client.hiding = basis.sample((checking.client.asked.check.more,), stream)
        return MaskedCenters(values)

    def further(
        self, match: ComparisonSession, rounding: CenterRounding, columns: Array, checking: SumsChecking
    ) -> MaskedCenters:
        """What my sums are checked by, which follows them, under my mask."""
        basis, client = rounding.basis, checking.client
        if client.hiding is None:
            raise RuntimeError("what follows sums is hidden as they are")
        mine = basis.add(client.further(columns), client.hiding)
        return MaskedCenters(np.empty((basis.lanes, 0, 0), basis.dtype), further=mine)

    def summed(
        self,
        match: ComparisonSession,
        rounding: CenterRounding,
        mine: MaskedCenters | None,
        behind: MaskedCenters | None,
    ) -> Role[tuple[Array, Array]]:
        """What masked sums of all responders add up to, at a member; and at the one that adds up, what these
        are checked by, else nothing.  mine, behind: what I say of both, if I respond."""
        begun, corrected, basis = match.question.round + match.summed, match.corrected, rounding.basis
        others, nothing = tuple(c for c in match.committee if c != self.name), (0, 0)
        if self.name != corrected:
            wait = Exchange({}, (corrected,), 0, round=begun + SUM, phase="compare")
            told = (yield from receive_all(wait, MaskedCenters, match.summed + SUM))[corrected]
            check_residues(basis, corrected, told.values, rounding.shape)
            return told.values, check_further(basis, corrected, told.further, None)
        awaited, found = tuple(c for c in match.responders if c != self.name), list[list[Array]]()
        for step, own, shape in ((SEND, mine, rounding.shape), (COINS, behind, nothing)):
            asked = None if step == SEND else match.checked_sums
            wait = Exchange({}, awaited, 0, round=begun + step, phase="distances")
            parts = yield from receive_all(wait, MaskedCenters, match.summed + step)
            parts |= {} if own is None else {self.name: own}
            for c, message in parts.items():
                check_residues(basis, c, message.values, shape)
            more = [check_further(basis, c, message.further, asked) for c, message in parts.items()]
            found.append([message.values for message in parts.values()] if step == SEND else more)
            if step == SEND:
                total = MaskedCenters(basis.add_all(found[0]))
                yield Exchange(dict.fromkeys(others, total), round=begun + SUM, phase="compare")
        return total.values, basis.add_all(found[1])

    def divided(
        self,
        match: ComparisonSession,
        rounding: CenterRounding,
        checking: SumsChecking,
        total: tuple[Array, Array],
        words: Array | None,
    ) -> Role[dict[int, Array]]:
        """The rounded centers of the parts that I play, (lanes, K, ell * width) by number.

        total: see `summed`.  words: of the dealer, if to me.  Raises SuspectedParties if members heard
        different words.
        """
        step, spoken = match.dividing, checking.words
        others = tuple(c for c in match.committee if c != self.name)
        spoken.begin(rounding.basis, total[0], total[1][:, :0])
        tables = part_tables(match, self.mine, spoken.seeds, spoken.parts, words, sums=True)
        games = {q: rounding.compete(total[0], hand, lead=q == 0) for q, hand in tables.items()}
        woven = checking.beside, 2 * rounding.openings
        talk = CommitteeRounds(match.question.round + step, step, others, spoken, woven, match.spacing)
        return (yield from play_games(match, spoken, games, talk))

    def dealt(
        self,
        match: ComparisonSession,
        rounding: CenterRounding,
        checking: SumsChecking,
        parts: Mapping[int, Array],
    ) -> Role[Array | None]:
        """My share (lanes, K, width) of the rounded centers, if I respond; parts: that I play, if any.

        What members said of them is checked beside; after that they vouch for what they dealt, and responders
        compare.
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
        number, lanes_beside, replies = match.question.round, checking.beside, checking.replies
        first = number + match.shared
        # Those that are no members have come no further.
        yield from InterleavedRole.finish(lanes_beside, match.spacing, first)
        plain = {clients[j]: replace(m, digests=b"") for j, m in send.items()}
        yield Exchange(plain, round=first, phase="compare")
        shares = dict[int, Array]()
        if match.blocks.deviating:
            role = self.vouch_for(match, dealing, send, awaited, shares)
            if parts:
                role = conclude_beside(checking.words, number, match.concluding[:2], role)
            lanes_beside.append(InterleavedRole(role))
        turn = number + match.shared + match.spacing + 1
        yield from InterleavedRole.say_all(lanes_beside, turn)
        if replies is not None:
            yield from replies.deal()
        told = yield from receive_all(
            Exchange({}, awaited, 0, round=first, phase="compare"), PartShares, match.shared
        )
        yield from InterleavedRole.hear_all(lanes_beside, turn)
        yield from take_dealt(replies, checking.said)
        yield from InterleavedRole.finish(lanes_beside, match.turn, first + match.turn * (match.turns - 1))
        if me not in responders:
            return None
        shares |= dealing.read(me, own, {clients.index(c): m for c, m in told.items()})
        return reduce(rounding.basis.add, (shares[q] for q in sorted(shares))).reshape(lanes, *shape)

    def vouch_for(
        self,
        match: ComparisonSession,
        dealing: PartDealing,
        send: Mapping[int, PartShares],
        awaited: tuple[PartyId, ...],
        shares: Mapping[int, Array],
    ) -> Role[None]:
        """Vouch for the shares of parts that others are the first of, and hear who vouches for mine.

        send: what I dealt.  awaited: who dealt to me.  shares: mine by part, once they are there.
        Raises SuspectedParties where clients of a part disagree.
        """
        clients, (_, _, step) = self.plan.clients, match.concluding
        digests = {clients[j]: PartShares(m.values[:, :0], b"", m.digests) for j, m in send.items()}
        wait = Exchange(digests, awaited, 0, round=match.question.round + step, phase="check")
        heard = yield from receive_all(wait, PartShares, step)
        told = {clients.index(c): m.digests for c, m in heard.items()}
        dealing.check(clients.index(self.name), shares, told)

    def about(self, measured: DistanceOracle, share: Array) -> DistanceOracle:
        """The same rows, and the rounded centers as sums of as many points as they stand for."""
        code, sums = self.plan.code, measured.sums
        weights, alive = self.plan.weights(measured.sizes), measured.sizes > 0
        values = np.zeros((code.basis.lanes, len(weights), share.shape[2]), code.basis.dtype)
        multiple = code.basis.reduce(np.array([self.plan.layout.multiple]))[:, :, None]
        values[:, alive] = code.basis.multiply(share, multiple)
        about = replace(measured.rows.encode_sums(values, weights), labels=sums.labels)
        return replace(measured, sizes=weights, compute=lambda: about)


@dataclass(frozen=True, eq=False, repr=False)
class SumsChecking:
    """A client's part in what is checked where centers are rounded: of sums; replies, said: of what follows.

    spoken: at a member, its part in what the committee says of sums.  masks: at the dealer, what hides sums.
    beside: all checks that began, and go on beside the rest.
    """

    client: CheckingClient
    spoken: CommitteeWords | None = None
    masks: tuple[Array, Array] | None = None
    replies: CheckingClient | None = None
    said: CommitteeWords | None = None
    beside: list[InterleavedRole] = field(default_factory=list)

    @property
    def words(self) -> CommitteeWords:
        """A member's."""
        if self.spoken is None:
            raise RuntimeError("a member takes part in the check of words")
        return self.spoken

    @property
    def step(self) -> int:
        """The step in which responders tell what sums are checked by."""
        return self.client.asked.behind[0]
