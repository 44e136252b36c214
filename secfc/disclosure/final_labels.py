"""Final labels only: nobody sees the labels, sizes or the number of changes of any step but the last.

A committee of 2t + 1 clients runs Lloyd's heuristic on shares.  In every step

1. one-hot labels times points: shares of the clusters' sums and sizes, and of what compares two centers for
   every point (`field.compare.shared_step`), by products whose degree is reduced by sharing them anew;
2. comparisons and winners on shared bits, as without a dealer (`secfc.disclosure.dealerless.policy`), with k
more
   comparisons that find empty clusters;
3. the winners' bits become one-hot labels in residues: every member shares its part, and parts are added
   modulo 2 by products;
4. one opened bit says whether any label changed, unless the number of steps is fixed.

Server and any t clients together see what they see without a dealer, but labels only at the end, and

    Reshared      uniform: any t shares of fresh polynomials of degree t
    ChangeShare   what the opened bit leaves; the other bits of its word are cleared before
    FinalShare    what the final labels leave

so nothing of the steps between but their number.  Sizes and contents of messages depend on nothing else.
A client that falls silent ends the attempt: the server starts again from the first labels without it.

With a dealer the steps are those of `secfc.disclosure.owner_labels.client` with hidden sizes, and only the
end
differs: all are told the labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from field.cached import cached_property
from field.code.masking import add_mask, mask_context, masking_partners
from field.code.rows import CodedRows
from field.compare import shared_step as maths
from field.compare import signs
from field.compare.argmin import ArgminContest
from field.compare.bitslice import pack_bits, to_planes, unpack_bits, word_count
from field.compare.circuits import ONES, all_set, row_products, top_bit, winner_products
from field.compare.dealer_protocol import winner_code
from field.ring.basis import Basis
from field.secrets.coins import Coins
from secfc.coded.blame import CheaterIdentification
from secfc.coded.messages import FinalShare
from secfc.coded.plan import CodedPlan, RowLayout
from secfc.coded.policy import ClientPolicy, DistanceOracle, ExactPolicy, LabelSharing, PolicyCapabilities
from secfc.coded.queries import Operation, Query, Subject
from secfc.coded.source import CodedSource
from secfc.disclosure.compare.client import ComparisonClient
from secfc.disclosure.compare.server import CommitteeServer
from secfc.disclosure.compare.session import (
    LEAST_LANES,
    ComparisonSession,
    Rule,
    bisector_headroom,
    check_consent,
    comparison_headroom,
    labels_from_shares,
    refuse_broken,
)
from secfc.disclosure.compare.trusted_dealer import TrustedDealer
from secfc.disclosure.dealerless.messages import ChangeShare, ResharedPart
from secfc.disclosure.dealerless.policy import Dealerless, DealerlessParty, take_over_part, weighted_sum
from secfc.disclosure.dealerless.steps import AnswerRounds, Computation, SharedKeySeats, StalledStep
from secfc.disclosure.owner_labels.client import OwnerLabelsClient
from secfc.disclosure.owner_labels.dealer import DealerBackend
from secfc.disclosure.owner_labels.server import OwnerLabelsServer
from secfc.errors import FaultyClient, FaultyServer, SuspectedParties
from secfc.kmeans.loop import Stepper, Trace
from secfc.kmeans.starts import RandomLabels, Start
from secfc.remedies import Remedy
from secfc.roles.checks import check_residues
from secfc.roles.exchange import SERVER, Exchange, PartyId, Role, to_all
from secfc.roles.messages import Message, compact_labels

Array = NDArray[Any]


@dataclass(frozen=True)
class FinalLabelsOnly(ExactPolicy):
    """Policy by which server and clients learn the final labels and the number of steps alone.

    Parameters
    ----------
    consent
        Whether a start may open distances to the server (`KMeansPlusPlus`).
    stop
        Whether one bit is opened after every step, whether any label changed, to end when none did.  Without
        it there are max_iter steps always, and the number of steps says nothing.  A run that ends at max_iter
        does not know whether a further step would change a label: it says that it did not converge.
    dealer
        None, or who deals masks and tables, the server or a client; then who may collude is as under
        `AssignmentsOnly(dealer)`, t and ell are free, and the modulus is m**2 / 4 times as large.

    Notes
    -----
    t clients together with the server learn no more.  Without a dealer it needs n >= 2t + 1 and ell = 1; in
    any case one start that opens nothing, and a modulus for any sizes.
    """

    consent: bool = False
    stop: bool = True
    dealer: PartyId | None = None

    @property
    def capabilities(self) -> PolicyCapabilities:
        return PolicyCapabilities("nothing", dealer=self.dealer, least_lanes=LEAST_LANES)

    @cached_property
    def how(self) -> TrustedDealer | Dealerless:
        """How committees compare."""
        return Dealerless(self.consent) if self.dealer is None else TrustedDealer(self.dealer, self.consent)

    @property
    def start(self) -> Start:
        return RandomLabels()  # others open labels

    @property
    def sharing(self) -> LabelSharing | None:
        """What is opened of labels that stay shared under a dealer; without one a run is one question."""
        if self.dealer is None:
            return None
        return LabelSharing(hidden=True, everybody=True, tested=self.stop, looks=False)

    def headroom(self, way: Any, public: Any, layout: RowLayout) -> int:
        return comparison_headroom(way, layout) if self.dealer is None else bisector_headroom(way, layout)

    def check(self, plan: CodedPlan) -> None:
        """Raises ValueError for what would have to be opened on the way."""
        check_consent(plan, self)
        self.how.check(plan)
        opens: Remedy = ("disclosure", "assignments")
        refuse_broken(
            self,
            Rule(
                self.dealer is None and plan.code.ell != 1, "ell", plan.code.ell,
                "secret labels multiply whole points", (("ell", 1), opens),
            ),
            Rule(
                plan.n_init != 1, "n_init", plan.n_init,
                "nobody knows the costs of restarts", (("n_init", 1), opens),
            ),
            Rule(
                plan.largest != plan.m, "largest", plan.largest,
                "sizes are secret, and cannot be checked against it", (("largest", None), opens),
            ),
            Rule(
                plan.init.factor != 1 or plan.init.halves, "init", plan.init,
                "only final labels are opened, and this start opens others",
                (("init", "random"), ("init", "random-points"), opens),
            ),
        )  # fmt: skip

    def client(self, plan: CodedPlan, name: PartyId, *, coins: Coins) -> Role[ClientPolicy]:
        member = yield from self.how.member(plan, name, coins=coins)
        participant = self.how.participant(plan, member)  # type: ignore[arg-type]
        if isinstance(member, DealerlessParty):
            return FinalLabelsClient(participant, member, stop=self.stop)
        return OwnerLabelsClient(
            participant, DealerBackend(member, coins), coins, self.sharing or LabelSharing()
        )

    def server(
        self, plan: CodedPlan, screening: CheaterIdentification, *, coins: Coins, threads: int
    ) -> Role[CodedSource]:
        committees = yield from self.how.committees(plan, screening)
        if self.sharing is None:
            return CodedSource(committees.quorum, committees, CommitteeRuns(committees))
        runs = OwnerLabelsServer(committees, self.sharing)
        return CodedSource(committees.quorum, committees, runs, runs)

    def learned(self, plan: CodedPlan) -> tuple[str, ...]:
        count = "the number of steps until no label changed, " if self.stop else ""
        facts = [f"the first labels, {count}and the final labels and cluster sizes (so did every client)"]
        if self.dealer is None:
            facts.append(
                "no other label and no distance of a point, not even together with any "
                f"{plan.code.t} of the clients"
            )
        else:
            facts += ["no other label", *self.how.learned(plan)]
        if plan.init.needs_distances:
            facts.append(plan.init.reveals)
        return tuple(facts)


# --- client --------------------------------------------------------------------------------------


class FinalLabelsClient:
    """A client's half: whole runs on secret labels; predictions as without a dealer."""

    opens: ClassVar[bool] = True
    kept: ClassVar[None] = None

    def __init__(self, participant: ComparisonClient, comparer: DealerlessParty, *, stop: bool) -> None:
        self.participant, self.comparer, self.stop = participant, comparer, stop
        self.plan = participant.plan
        self.start: Array | None = None

    @property
    def opened(self) -> Array | None:
        return self.participant.opened

    def __call__(self, question: Query, measured: DistanceOracle) -> Role[Message | None]:
        match question.operation:
            case Operation.CLUSTER:
                self.participant.opened = None
                contest = self.contest(question)
                answer = self.comparer.unless_stalled(question, self.cluster(question, measured.rows))
                return self.participant.told(contest, question, answer, FinalShare)
            case compares if compares.compares and (question.labels >= 0).any():
                # Only a prediction, which has no labels yet, asks for the nearest of retained centers.
                raise FaultyServer(SERVER, "asked for the labels of a step, which this policy never shows")
            case _:
                return self.participant(question, measured)

    def watch(self, question: Query, sizes: Array) -> Role[None]:
        if question.operation is Operation.CLUSTER:
            self.participant.opened = None
            yield from self.participant.hear(self.contest(question), question, {}, FinalShare)
        else:
            yield from self.participant.watch(question, sizes)

    def contest(self, question: Query) -> ComparisonSession:
        """The last comparison of a run.  Raises FaultyServer for a run that the plan does not have."""
        self.check(question)
        self.participant.check_committee(question.members)
        self.participant.check_order(question.responders.tolist(), question.members.tolist())
        return ComparisonSession(self.plan, question, np.ones(question.k, np.int64), self.comparer.seating)

    def check(self, question: Query) -> None:
        """Refuse a second run, whose end would be one more labeling; attempts repeat the first question."""
        if self.start is None:
            self.start = question.labels
        if question.k != self.plan.k or not np.array_equal(question.labels, self.start):
            raise FaultyServer(SERVER, "asked for another run than the plan's, or for a second one")

    def cluster(self, question: Query, rows: CodedRows) -> Role[Message | None]:
        """Lloyd's heuristic on secret labels: my share of the last ones, if I am in the committee."""
        steps = AnswerRounds(self.plan.clients, question.round, question.digest)
        seats = yield from self.comparer.seated(tuple(question.members.tolist()), steps)
        if seats is None:
            return None
        run = CommitteeRun(self.comparer, seats, steps, rows, question.k)
        one_hot, code = run.public(question.labels)
        number, same, most = 0, False, self.plan.max_iter
        while number < most and not same:
            won, joint = yield from run.assign(one_hot)
            new = np.stack([winner_code(run.contest, component) for component in won])
            # A start with points in no cluster changes in any case.
            if self.stop and (number > 0 or question.labels.min() >= 0):
                same = yield from run.unchanged(joint, code, new)
            number, code = number + 1, new
            if number < most and not same:
                one_hot = yield from run.one_hot(joint, won)
        return FinalShare(joint.player.opening(code), number, same)


class CommitteeRun:
    """One run of a client of the committee: its shares of the points, and the steps on secret labels."""

    def __init__(
        self, client: DealerlessParty, seats: SharedKeySeats, steps: AnswerRounds, rows: CodedRows, k: int
    ) -> None:
        self.client, self.seats, self.steps, self.k = client, seats, steps, k
        self.plan: CodedPlan = client.plan
        self.basis: Basis = client.plan.code.basis
        m = self.plan.m
        # The shares themselves: every row a cluster of its own.
        self.points = rows.residues(rows.sums(np.arange(m, dtype=np.int32), m))
        ones = np.ones((self.basis.lanes, 1, m), self.basis.dtype)
        self.columns = np.concatenate([ones, self.points.transpose(0, 2, 1)], axis=1)
        self.pairs = maths.ClusterPairs(k)
        # With unit sizes the comparisons are those of all pairs of clusters.
        self.contest = ArgminContest.nearest(np.ones(k, np.int64))

    def public(self, labels: Array) -> tuple[Array, Array]:
        """Shares of known labels: one-hot (lanes, k, m), and their codes (held, places, words)."""
        known = (labels[None, :] == np.arange(self.k)[:, None]).astype(np.int64)
        planes = to_planes(np.maximum(labels, 0).astype(np.int64), self.contest.places)
        held = len(self.seats.committee.held(self.seats.place))
        shares = np.zeros((held, *planes.shape), np.uint64)
        if 0 in self.seats.committee.held(self.seats.place):
            shares[0] = planes
        return self.basis.reduce(known), shares

    def assign(self, one_hot: Array) -> Role[tuple[Array, Computation]]:
        """Who wins each point: (held, k, words) shares, from shares (lanes, k, m) of the labels before."""
        basis, pairs, d = self.basis, self.pairs, self.points.shape[2]
        count, m = len(pairs.first), self.plan.m
        sizes = maths.one_hot_sizes(basis, one_hot)
        sums = yield from self.reduce(maths.one_hot_sums(basis, one_hot, self.points))
        squares = yield from self.reduce(maths.pair_products(basis, sums, sizes, pairs))
        planes = yield from self.reduce(maths.bisector_shares(basis, squares, d, pairs))
        differences = maths.bisector_values(basis, planes, self.columns)
        # s_h - 1 is negative exactly if cluster h is empty.
        less = maths.subtract(basis, sizes, np.ones_like(sizes))
        values = np.concatenate([differences.reshape(basis.lanes, -1), less], axis=1)
        part = yield from self.hand_over(values)
        joint = self.seats.play(self.steps, self.client.peers, self.client.rooms)
        numbers = None if part is None else self.fractions(part)
        shape = signs.fraction_digits(basis, self.plan.code.t), count * word_count(m) + word_count(self.k)
        dealt = yield from joint.deal(numbers, shape)
        signs_of = yield from joint.run(top_bit(dealt))
        bits = signs_of[:, : count * word_count(m)].reshape(len(signs_of), count, word_count(m))
        bits = bits ^ (yield from self.against_empty(joint, signs_of[:, count * word_count(m) :]))
        won = yield from joint.run(
            winner_products(bits, self.contest.literals, self.contest.wanted, joint.player.constant)
        )
        return won, joint

    def fractions(self, part: Array) -> Array:
        """My binary fractions of every pair's number and every cluster's size less 1."""
        basis, t, first = self.basis, self.plan.code.t, self.seats.place == 0
        count, m = len(self.pairs.first), self.plan.m
        differences = np.ascontiguousarray(part[:, : count * m]).reshape(basis.lanes, count, m)
        sizes = np.ascontiguousarray(part[:, None, count * m :])
        both = [
            signs.share_fractions(
                basis, t, differences, [(q,) for q in range(count)], [(1,)] * count, first=first
            ),
            signs.share_fractions(basis, t, sizes, [(0,)], [(1,)], first=first),
        ]
        return np.concatenate([bits.reshape(len(bits), -1) for bits in both], axis=1)

    def against_empty(self, joint: Computation, empty: Array) -> Role[Array]:
        """What flips a comparison (held, pairs, 1) where a is empty and b is not, from empty (held, words).

        The number of such a pair is 0, so its sign says that b is no nearer.
        """
        clusters = np.arange(self.k)
        bit = empty[:, clusters >> 6] >> (clusters & 63).astype(np.uint64) & np.uint64(1)
        # A bit becomes a word of it: 0 - bit, in every component.
        planes = (np.uint64(0) - bit)[:, :, None]
        filled = planes ^ joint.player.constant(np.full((self.k, 1), ONES))
        product: Array = yield from joint.run(
            row_products(planes, self.pairs.first, filled, self.pairs.second)
        )
        return product

    def unchanged(self, joint: Computation, old: Array, new: Array) -> Role[bool]:
        """Whether all labels stayed, opened to the committee."""
        m, constant = self.plan.m, joint.player.constant
        inside = pack_bits(np.ones((1, m), np.uint8))
        shape = old.shape[1:]
        same = (old ^ new ^ constant(np.full(shape, ONES))) & inside
        same ^= constant(np.broadcast_to(~inside, shape))
        result = yield from joint.run(all_set(same))
        bit = bool(joint.player.opening(result)[0, 0])
        me, numbers = self.client.me, self.seats.numbers
        send = {i: ChangeShare(bit) for i in numbers if i != me} if self.seats.is_member else {}
        members = [i for i in self.seats.client(self.seats.committee.members) if i != me]
        received = yield from self.steps.exchange(send, members, ChangeShare)
        for message in received.values():
            bit ^= message.bit
        return bit

    def one_hot(self, joint: Computation, won: Array) -> Role[Array]:
        """Shares (lanes, k, m) in residues of the winners' bits (held, k, words)."""
        m, members = self.plan.m, self.seats.client(self.seats.committee.members)
        mine = None
        if self.seats.is_member:
            bits = unpack_bits(joint.player.opening(won[:, :-1]), m).astype(np.int64)
            mine = self.basis.reduce(bits).reshape(self.basis.lanes, -1)
        parts = yield from self.deal(mine, members, (self.k - 1) * m)
        total = parts[0]
        for part in parts[1:]:
            product = yield from self.reduce(self.basis.multiply(total, part))
            total = maths.exclusive_or(self.basis, total, part, product).astype(self.basis.dtype)
        return maths.last_of_one_hot(self.basis, total.reshape(self.basis.lanes, self.k - 1, m))

    # --- arithmetic that needs others

    def reduce(self, product: Array) -> Role[Array]:
        """A share of degree t of a product (lanes, ...) of shares: all share their weighted parts anew."""
        flat = np.ascontiguousarray(product).reshape(self.basis.lanes, -1)
        weighted = weighted_sum(self.plan, tuple(sorted(self.seats.numbers)), {self.client.me: flat})
        parts = yield from self.deal(weighted, list(self.seats.numbers), flat.shape[1])
        total = parts[0]
        for part in parts[1:]:
            total = self.basis.add(total, part)
        return total.astype(self.basis.dtype).reshape(product.shape)

    def deal(self, mine: Array | None, dealers: list[int], size: int) -> Role[list[Array]]:
        """My shares (lanes, size) of every dealer's secrets, in their order; mine: my own, if I am one."""
        me, send = self.client.me, {}
        own: dict[int, Array] = {}
        if mine is not None:
            shares = self.plan.code.share(mine[:, None, :], self.client.coins)
            own = {me: shares[me][:, 0]}
            send = {
                i: ResharedPart(np.ascontiguousarray(shares[i][:, 0])) for i in self.seats.numbers if i != me
            }
        received = yield from self.steps.exchange(send, [i for i in dealers if i != me], ResharedPart)
        for i, message in received.items():
            check_residues(self.basis, self.plan.clients[i], message.values, (size,))
        shares_of = own | {i: message.values for i, message in received.items()}
        return [shares_of[i] for i in dealers]

    def hand_over(self, values: Array) -> Role[Array | None]:
        """A member's additive part of numbers (lanes, N) of which all hold shares; None at the others."""
        code, me, keys = self.plan.code, self.client.me, self.client.peers
        responders = tuple(sorted(self.seats.numbers))
        peers = masking_partners(code, responders, me, len(values), code.t)
        context = mask_context(code, responders, len(values), (1, values.shape[1]), self.steps.subject)
        streams = keys.streams(self.steps.nonce, context, peers)
        if len(streams) < len(peers):
            raise StalledStep(self.steps.step, set(peers) - set(streams))
        values = np.ascontiguousarray(values[:, None])
        add_mask(code, responders, me, streams, values, code.t)
        part = yield from take_over_part(self.plan, me, self.steps, responders, self.seats.numbers, values)
        return None if part is None else part[0][:, 0]


# --- server --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class CommitteeRuns:
    """Whole runs of which a committee opens the last labels."""

    committees: CommitteeServer

    def __call__(self, labels: Array, k: int, max_iter: int, source: Stepper) -> Role[Trace]:
        """A run whose history is its start and its end."""
        start = compact_labels(labels)
        if k == 1 or labels.max() < 0:
            # One cluster takes all points, and without any cluster nothing is near.
            last = np.zeros_like(start) if labels.max() >= 0 else start
            same = bool((last == start).all())
            return Trace(k, (start, last), None, True, steps=1 if same or max_iter == 1 else 2)

        committees, desk = self.committees, self.committees.desk
        while True:
            question = committees.seats().asked(Subject(Operation.CLUSTER, k, start))
            match = ComparisonSession(desk.plan, question, np.ones(k, np.int64), committees.seating)
            inbox = yield Exchange(
                to_all(desk.there, question), match.committee, 0, round=question.round, phase="assign"
            )
            for _ in range(question.operation.strides(max_iter) - 1):
                next(desk.rounds)
            shares, reports = committees.sorted(match, inbox, FinalShare)
            if len(shares) == len(match.committee):
                last = labels_from_shares(match, shares)
                steps, converged = run_end(shares, max_iter)
                return Trace(k, (start, compact_labels(last)), None, converged, steps=steps)
            gone = set(match.committee) - set(inbox)
            committees.quorum.silent |= committees.lost(match, gone, reports)


def run_end(shares: Mapping[PartyId, FinalShare], max_iter: int) -> tuple[int, bool]:
    """After how many steps the run ended, and whether it converged: all members of a committee know.

    Raises FaultyClient for more steps than were asked for, SuspectedParties if members contradict another.
    """
    for member, share in shares.items():
        if share.steps > max_iter:
            raise FaultyClient(member, f"took {share.steps} steps where at most {max_iter} were asked for")
    ends = {(share.steps, share.converged) for share in shares.values()}
    if len(ends) > 1:
        raise SuspectedParties(tuple(shares), "the members say that their run ended after different steps")
    return ends.pop()
