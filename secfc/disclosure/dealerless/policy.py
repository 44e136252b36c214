"""Assignments only, without a dealer: clients compare distances of points, which nobody has, for labels.

The responders' blinded replies sum, with decode weights, to the distances; t + 1 members of a committee of 2t
+ 1 of them take the sum over in t + 1 additive parts.  Each part becomes binary fractions, shared bit by bit
among the committee, and circuits on shared bits find the nearest center of every point
(`field.compare.signs`, `field.compare.circuits`).  The members' shares of the labels go to the server and
open to nothing else.

Nobody but the clients has a secret, so the server may join any t clients.  What the others send to such a
coalition, and why it could have drawn it by itself, given the labels:

    PublicKey, SetKeys   keys; of the t + 1 others every two share one, and all together share one
    MaskedDistances      uniform: blinded replies are, but for their sum over all responders, and the replies
                         of the members, one of whom is not in the coalition, are sent to nobody
    CheckDealing, ...    what checks replies, see `secfc.disclosure.checked.steps`: uniform
    PartSums             uniform but for their sum, which the check opens, as the parts of members are
    MaskedBits           uniform: see `field.compare.replicated`; fresh keys in every attempt
    LabelShare           what the labels leave: the coalition misses one component of each shared bit
    Unheard              who fell silent

The check stops false replies of clients that are no members; a member deals what bits it likes of its part,
unless each part is played by two: then the committee is 2t + 2 clients, two neighbors of which have each
part, and what each says another vouches for (`field.compare.witnessed`).
There is no statistical error beside that of AES in counter mode, HKDF and X25519.  With more than half
of the clients curious there is no such protocol without a dealer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from field.arrays import Array
from field.code.masking import PairKeys, masking_partners
from field.compare import signs
from field.compare.argmin import ArgminContest
from field.compare.bitslice import word_count
from field.compare.circuits import top_bit, winner_products
from field.compare.dealer_protocol import winner_code
from field.compare.replicated import ReplicatedCommittee, ScratchArrays
from field.compare.witnessed import WitnessedCommittee
from field.ring.basis import Basis
from field.ring.errors import InvalidValue
from field.secrets.coins import Coins
from secfc.coded.messages import LabelShare, MaskedDistances, MissingMessages
from secfc.coded.plan import CodedPlan
from secfc.coded.policy import DistanceOracle
from secfc.coded.queries import Query
from secfc.coded.quorum import NOBODY_MISSED, MissingMessageError, Screening, ServerContext
from secfc.coded.sharing import pair_keys
from secfc.coded.source import CodedSource
from secfc.disclosure.checked.blocks import check_deviating
from secfc.disclosure.checked.parts import digest_share
from secfc.disclosure.checked.steps import DEAL_ROW, MASKS, CheckingClient, deal_all
from secfc.disclosure.compare.candidates import FirstPairs, first_pairs
from secfc.disclosure.compare.client import ComparisonClient
from secfc.disclosure.compare.rounds import StartedComparison
from secfc.disclosure.compare.server import CommitteeServer
from secfc.disclosure.compare.session import CommitteeChoice, ComparisonSession, may_open_distances
from secfc.disclosure.dealerless.steps import (
    AnswerRounds,
    Computation,
    SharedKeySeats,
    StalledStep,
    setup_replicated_keys,
)
from secfc.disclosure.decoded.distances import CheckedQuorum, MaskedQuorum
from secfc.disclosure.decoded.replies import mask_values
from secfc.errors import FaultyServer
from secfc.roles.exchange import SERVER, Exchange, PartyId, Role, to_all
from secfc.roles.messages import Message, check_residues

# A part of all replies, and of further ones that these are checked by.
Part = tuple[Array, Array]
# Streams of a question that replies are blinded by, and behind them further ones: after those that row 0 is
# dealt by.
BLINDING = 1
# Whoever goes no further says so for so many steps: somebody whom all hear listens in one of them.
HEARD_BY_ALL = 8


@dataclass(frozen=True)
class Dealerless:
    """The two halves of the policy.  consent: whether a start may open distances to the server.

    deviating: clients that may deviate and neither read nor change a label, 0 or 1.
    """

    consent: bool = False
    deviating: int = 0

    def check(self, plan: CodedPlan) -> None:
        """Raises ValueError for a t that has no circuits, too few clients, and corrected above 0."""
        committee_of(plan.code.t, self.deviating)
        check_deviating(plan.code.n, plan.code.t, self.deviating, None)
        if plan.corrected:
            raise InvalidValue(
                f"corrected={plan.corrected}: lies in secret comparisons cannot be corrected: use corrected=0"
            )

    def client(self, plan: CodedPlan, name: PartyId, *, coins: Coins) -> Role[ComparisonClient]:
        return self.participant(plan, (yield from self.member(plan, name, coins=coins)))

    def participant(self, plan: CodedPlan, member: DealerlessParty) -> ComparisonClient:
        """How a client answers where labels are opened."""
        consent = may_open_distances(plan, self.consent)
        return ComparisonClient(plan, member.name, member.peers, member, consent=consent)

    def member(self, plan: CodedPlan, name: PartyId, *, coins: Coins) -> Role[DealerlessParty]:
        """A client's part in comparisons, with keys that it agreed on with the others."""
        keys = yield from pair_keys(plan, name, coins)
        return DealerlessParty(plan, name, keys, coins, self.deviating)

    def server(self, plan: CodedPlan, screening: Screening) -> Role[CodedSource]:
        committees = yield from self.committees(plan, screening)
        return CodedSource(CheckedQuorum(committees.quorum), committees)

    def committees(self, plan: CodedPlan, screening: Screening) -> Role[CommitteeServer]:
        """The server's part: who compares."""
        yield from ()
        seating = dealerless_committee(plan, self.deviating)
        return CommitteeServer(MaskedQuorum(ServerContext(plan, screening)), seating)

    def learned(self, plan: CodedPlan) -> tuple[str, ...]:
        """What becomes of distances, for people."""
        return (f"no distance of a point, not even together with any {plan.code.t} of the clients",)


def committee_of(t: int, deviating: int) -> ReplicatedCommittee | WitnessedCommittee:
    """Who knows what of shared bits, where so many may deviate."""
    return WitnessedCommittee(t, deviating) if deviating else ReplicatedCommittee(t)


def dealerless_committee(plan: CodedPlan, deviating: int = 0) -> CommitteeChoice:
    """A committee of which any t know nothing, and nobody that deals."""
    return CommitteeChoice(ReplicatedCommittee(plan.code.t).size, deviating=deviating)


def part_holders(plan: CodedPlan, committee: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Who has each of the t + 1 parts of all replies: one client, or as many as play a part here."""
    alike = len(committee) - 2 * plan.code.t
    return tuple(committee[alike * j : alike * j + alike] for j in range(plan.code.t + 1))


# --- client --------------------------------------------------------------------------------------


class DealerlessParty:
    """A client's part in comparisons: its keys, and the committees it has sat in."""

    def __init__(
        self, plan: CodedPlan, name: PartyId, keys: PairKeys, coins: Coins, deviating: int = 0
    ) -> None:
        self.plan, self.name, self.me = plan, name, plan.clients.index(name)
        self.peers, self.coins, self.rooms = keys, coins, ScratchArrays()
        self.seating = dealerless_committee(plan, deviating)
        self.committee = committee_of(plan.code.t, deviating)
        self.tables: dict[tuple[int, ...], SharedKeySeats] = {}
        self.first_pairs = FirstPairs()

    @property
    def used_keys(self) -> list[PairKeys]:
        return [self.peers, *(seats.sets for seats in self.tables.values())]

    def begin(self, match: ComparisonSession, measured: DistanceOracle) -> Role[StartedComparison]:
        """Nothing precedes: centers are exact without a dealer."""
        yield from ()
        return StartedComparison(measured, NOBODY_MISSED)

    def check(self, question: Query) -> None:
        responders = set(question.responders.tolist())
        parts = part_holders(self.plan, tuple(question.members.tolist()))
        if not all(responders & set(holders) for holders in parts):
            # The reply of one who has the part is what nobody else is told.
            raise FaultyServer(SERVER, "asked for a committee of others than the responders")

    def compare(self, match: ComparisonSession, measured: DistanceOracle) -> Role[Message | None]:
        return self.unless_stalled(match.question, self.labels(match, measured))

    def unless_stalled(self, question: Query, answer: Role[Message | None]) -> Role[Message | None]:
        """An answer, or the clients whose silence prevents it; waiting peers are notified of a failure."""
        try:
            return (yield from answer)
        except StalledStep as stalled:
            players = {*question.responders.tolist(), *question.members.tolist()} - {self.me}
            told = MissingMessages(stalled.step, NOBODY_MISSED)
            others = [self.plan.clients[i] for i in sorted(players)]
            for step in range(stalled.step + 1, stalled.step + 1 + HEARD_BY_ALL):
                yield Exchange(to_all(others, told), round=question.round + step, phase="compare")
            return MissingMessages(stalled.step, stalled.missing)

    def labels(self, match: ComparisonSession, measured: DistanceOracle) -> Role[Message | None]:
        """My share of the labels if I am in the committee; else that I have told it what it needs."""
        plan, question = self.plan, match.question
        committee = tuple(question.members.tolist())
        if self.me not in {*question.responders.tolist(), *committee}:
            return None
        schedule, steps = match.schedule, AnswerRounds(plan.clients, question.round, question.digest)
        checking = yield from self.begin_check(match)
        seats = yield from self.seated(committee, steps)
        part = yield from self.checked_part(match, checking, measured, steps, seats, BLINDING)
        steps.step = MASKS
        if seats is None:
            return MissingMessages(0, NOBODY_MISSED)
        joint = seats.play(steps, self.peers, self.rooms)
        mine = None if part is None else part[0]
        share = yield from nearest_digits(joint, match.contest, schedule.basis, mine, match.m)
        words, blocks = joint.player.opening(share), match.blocks
        if blocks.told_by(seats.place):
            return LabelShare(words)
        (number,) = blocks.played_by(seats.place)
        return LabelShare(words[:0], digest_share(match.context, number, words))

    def begin_check(self, match: ComparisonSession, since: int = 0) -> Role[CheckingClient]:
        """My part in the check of replies, for which row 0 is dealt.

        since: the step after the question that an answer's steps are counted from.  Raises StalledStep.
        """
        if match.checked is None:
            raise ValueError(f"{match.question.operation.kind} opens no labels: its replies are not checked")
        others = {*range(self.plan.code.n)} - {self.me}
        streams = self.peers.streams(match.question.round, match.context, others)
        lacking = {*match.question.responders.tolist()} - {self.me} - set(streams)
        if self.name in match.checked.witnesses and lacking:
            # Whoever waits for what I would deal hears now that I go no further.
            told = MissingMessages(DEAL_ROW, NOBODY_MISSED)
            send = to_all((c for c in match.checked.told if c != self.name), told)
            yield Exchange(send, round=match.question.round + DEAL_ROW, phase="compare")
            raise StalledStep(DEAL_ROW - since, lacking)
        checking = CheckingClient(match.checked, self.name, streams, self.coins)
        yield from self.unless_missing(deal_all([checking]), since)
        return checking

    def checked_part(
        self,
        match: ComparisonSession,
        checking: CheckingClient,
        measured: DistanceOracle,
        steps: AnswerRounds,
        seats: SharedKeySeats | None,
        first: int,
    ) -> Role[Part | None]:
        """A member's part of all replies, which are checked; None at others.  first: of the question's
        streams the one that replies are blinded by, so that the next one is left.

        Raises SuspectedParties if they do not fit, StalledStep.
        """
        question = match.question
        players = tuple(question.responders.tolist()), tuple(question.members.tolist())
        reply = self.blinded(match, checking, measured, steps, first)
        part = yield from take_over_part(self.plan, self.me, steps, *players, *reply)
        if seats is not None and part is not None and self.seating.deviating:
            yield from seats.agree(steps, part, dict.fromkeys((*match.responders, *match.committee)))
        rows, columns = None, None
        if checking.responds:
            asked = match.rivals.restrict_points(measured)
            rows, columns = asked.rows, match.columns(asked)
        kept = partial(self.first_pairs.beside, match.rivals)
        checks = checking.verify(rows, columns, part, beside=kept)
        yield from self.unless_missing(checks, steps.number - question.round)
        pairs = None if part is None else first_pairs(match.rivals, part[0])
        self.first_pairs.keep(question.members, match.rivals, pairs)
        return part

    def blinded(
        self,
        match: ComparisonSession,
        checking: CheckingClient,
        measured: DistanceOracle,
        steps: AnswerRounds,
        first: int,
    ) -> Part:
        """My replies, and what they are checked by, blinded; zeros of a client that does not respond."""
        plan, question, basis = self.plan, match.question, match.schedule.basis
        if self.name not in match.responders:
            shapes = match.shape, (checking.asked.check.more,)
            values, further = (np.zeros((basis.lanes, *shape), basis.dtype) for shape in shapes)
            return values, further
        values = match.rivals.competing_distances(measured, basis.lanes)
        blinded = replace(question, round=question.round + first)
        lacking = mask_values(plan, self.me, self.peers, plan.code.t, blinded, values)
        if lacking.size:
            raise StalledStep(steps.step, lacking.tolist())
        return values, self.blinded_further(match, checking, measured, first + 1)

    def blinded_further(
        self, match: ComparisonSession, checking: CheckingClient, measured: DistanceOracle, number: int
    ) -> Array:
        """My replies of row 0 and of centers, (lanes, more), under masks that cancel over all responders."""
        basis, responders = match.schedule.basis, tuple(match.question.responders.tolist())
        partners = masking_partners(self.plan.code, responders, self.me, basis.lanes, self.plan.code.t)
        streams = self.peers.streams(match.question.round + number, match.context, partners)
        if len(streams) < len(partners):
            raise StalledStep(0, {*partners} - set(streams))
        total = checking.further(match.columns(measured))
        for i in partners:
            mask = basis.sample(total.shape[1:], streams[i])
            total = basis.add(total, mask if self.me < i else basis.negate(mask))
        return total.astype(basis.dtype)

    def unless_missing(self, role: Role[None], since: int) -> Role[None]:
        """Raises StalledStep where a role raises MissingMessageError.  since: see `begin_check`."""
        try:
            yield from role
        except MissingMessageError as silence:
            gone = [self.plan.clients.index(c) for c in silence.missing]
            raise StalledStep(silence.step - since, gone) from None

    def seated(self, committee: tuple[int, ...], steps: AnswerRounds) -> Role[SharedKeySeats | None]:
        """My seat in a committee, if I am in it: its keys are dealt the first time that it meets.

        That comes first and in a step of its own.  Then either all members have their keys, or one of them
        is blamed and the committee never meets again; nobody else's silence leaves some with keys.
        """
        if self.me not in committee or committee in self.tables:
            steps.skip()
        else:
            self.tables[committee] = yield from setup_replicated_keys(
                self.committee, committee, self.me, steps, self.coins
            )
        return self.tables.get(committee)


def take_over_part(
    plan: CodedPlan,
    me: int,
    steps: AnswerRounds,
    responders: tuple[int, ...],
    committee: tuple[int, ...],
    values: Array,
    further: Array | None = None,
) -> Role[Part | None]:
    """A member's additive part (lanes, k, m) of all distances; None at others, which tell members theirs.

    values: my blinded reply, any if I do not respond.  The parts sum to the distances; blinded replies are
    uniform but for their weighted sum, and of each part the reply of one who has it is told to nobody else.
    further: what replies are checked by, (lanes, more), whose parts add up as they are; none where they are
    not checked.
    """
    parts = part_holders(plan, committee)
    others = [i for i in responders if not any(i in holders for holders in parts)]
    whose = {i: others.index(i) % len(parts) for i in others}
    whose |= {i: j for j, holders in enumerate(parts) for i in holders}
    reply = MaskedDistances(values, further=further)
    send = {i: reply for i in parts[whose[me]] if i != me and me in responders}
    mine = any(me in holders for holders in parts)
    told = [i for i in responders if mine and i != me and whose[i] == whose[me]]
    received = yield from steps.exchange(send, told, MaskedDistances)
    if not mine:
        return None
    basis = plan.code.basis.prefix(len(values))
    nothing = np.empty((basis.lanes, 0), basis.dtype)
    more = {me: nothing if further is None else further}
    for i, message in received.items():
        check_residues(basis, plan.clients[i], message.values, values.shape[1:])
        more[i] = nothing if message.further is None else message.further
        check_residues(basis, plan.clients[i], more[i], more[me].shape[1:])
    replies = {i: r.values for i, r in received.items()} | ({me: values} if me in responders else {})
    total = weighted_sum(plan, responders, replies)
    return total, basis.add_all(list(more.values()))


def weighted_sum(plan: CodedPlan, responders: tuple[int, ...], values: Mapping[int, Array]) -> Array:
    """Sum of some responders' values (lanes, k, m) with their decode weights: canonical residues."""
    chosen, weights = plan.code.decoding_weights(responders, 2)
    total = np.zeros_like(next(iter(values.values())))
    basis = plan.code.basis.prefix(len(total))
    flat = total.reshape(basis.lanes, -1)
    for i, value in values.items():
        factors = [[int(row[chosen.index(i)])] for row in weights[: basis.lanes]]
        basis.add_scaled(flat, value.reshape(1, basis.lanes, -1), factors)
    return total


def nearest_digits(
    joint: Computation, contest: ArgminContest, basis: Basis, part: Array | None, m: int
) -> Role[Array]:
    """Shares (held, places, words) of the digits of every point's code, from the members' parts."""
    won = yield from winner_bits(joint, contest, basis, part, m)
    return np.stack([winner_code(contest, component) for component in won])


def winner_bits(
    joint: Computation, contest: ArgminContest, basis: Basis, part: Array | None, m: int
) -> Role[Array]:
    """Shares (held, outcomes, words) of who wins each point, from the members' parts."""
    t, count = joint.seats.committee.t, len(contest.comparisons)
    shape = signs.fraction_digits(basis, t), count * word_count(m)
    planes = None
    if part is not None:
        chosen = [(b, a) for a, b, _, _ in contest.comparisons]
        factors = [(u, -v) for _, _, u, v in contest.comparisons]
        first = joint.seats.place in joint.seats.committee.first
        if contest.known:
            # A part of rows that all know: the first is all of them.
            known = basis.reduce(np.array(contest.known, object) * first)[:, :, None]
            part = np.concatenate([part, np.repeat(known, m, axis=2).astype(part.dtype)], axis=1)
        planes = signs.share_fractions(basis, t, part, chosen, factors, first=first).reshape(shape)
    dealt = yield from joint.deal(planes, shape)
    bits = yield from joint.run(top_bit(dealt))
    return (
        yield from joint.run(
            winner_products(
                bits.reshape(len(bits), count, -1), contest.literals, contest.wanted, joint.player.constant
            )
        )
    )
