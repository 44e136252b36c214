"""Sharing labels without a dealer: a client's part in the steps of `secfc.disclosure.owner_labels.client`.

The committee is the 2 t + 1 responders, of whom any t know nothing.  In a step

1. t + 1 members take the blinded distances over, and all find who wins each point on shared bits
   (`secfc.disclosure.dealerless.policy`);
2. these t + 1 share their parts of the winners' bits as residues; of two parts x and y the exclusive or is
   x + y - 2 x y, products are shared anew with the degree of shares, and so on in a tree;
3. whether a label changed is tested as in `field.compare.assignment_step`, with a matrix F that t + 1 members
   shared under 2 and products of shares: `F z` is opened, re-randomized.

A member's residues are kept with its decode weight, so that all members' add up to the labels, as under a
dealer.  Of whatever is shared anew t receivers expand theirs from seeds (`field.code.masking`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.code.masking import PairKeys, deal_part, expand_share, seeded_receivers
from field.compare import dealer_protocol
from field.compare.assignment_step import TESTS, AssignmentStep, SharedContest, SharedLabels, cluster_numbers
from field.compare.bitslice import unpack_bits
from field.compare.shared_step import exclusive_or
from field.ring.basis import Basis
from field.secrets.coins import Coins
from secfc.coded.messages import MaskedBits
from secfc.coded.plan import CodedPlan
from secfc.coded.policy import DistanceOracle
from secfc.coded.quorum import NOBODY_MISSED
from secfc.disclosure.checked.messages import ResharedPart
from secfc.disclosure.checked.parts import PartKeys
from secfc.disclosure.checked.steps import MASKS
from secfc.disclosure.compare.rounds import add_residues
from secfc.disclosure.compare.session import DEAL, CommitteeChoice, ComparisonSession, check_opening
from secfc.disclosure.dealerless.policy import DealerlessParty, winner_bits
from secfc.disclosure.dealerless.steps import AnswerRounds, Computation, StalledStep
from secfc.disclosure.owner_labels.backend import Hiding, StartedQuery
from secfc.disclosure.owner_labels.multiplication import question_streams, rerandomize_residues
from secfc.errors import FaultyClient
from secfc.roles.exchange import Role
from secfc.roles.messages import check_residues

Array = NDArray[Any]

# Streams of a question, after those that the keeper draws: for dealing anew; for blinding, and the next one.
ANEW, BLINDING = 2, 3


class DealerlessBackend:
    """A client's part.  comparer: how it compares, with its keys."""

    def __init__(self, comparer: DealerlessParty) -> None:
        self.comparer, self.plan, self.me = comparer, comparer.plan, comparer.me

    def __repr__(self) -> str:
        return f"Together({self.me}, secret)"

    @property
    def seating(self) -> CommitteeChoice:
        """Who compares."""
        return self.comparer.seating

    @property
    def peers(self) -> PairKeys:
        """Keys with the other clients."""
        return self.comparer.peers

    def held(self, match: ComparisonSession, shared: SharedLabels) -> Array:
        """My share of the labels (lanes, K - 1, m), of degree t."""
        basis = self.plan.code.basis
        inverse = np.array(
            [pow(int(w), -1, p) for w, p in zip(self.weight(match), basis.primes, strict=True)], basis.dtype
        )
        return np.asarray(basis.multiply(shared.parts, inverse[:, None, None]))

    def weight(self, match: ComparisonSession) -> Array:
        """(lanes,) what members' shares of the degree of products are decoded by: never 0, as ell is 1."""
        chosen, weights = self.plan.code.decoding_weights(tuple(match.question.members.tolist()), 2)
        return np.asarray(weights[:, chosen.index(self.me)])

    def parts(self, match: ComparisonSession) -> tuple[int, ...]:
        """Each member has a part of its own."""
        return (match.question.members.tolist().index(self.me),)

    def hiding(self, match: ComparisonSession, keys: PartKeys | None) -> Hiding:
        """Under streams that every two members have alike."""
        others = {*match.question.members.tolist()} - {self.me}
        streams = question_streams(self.peers, match, 1, others)

        def hide(shares: Mapping[int, Array], basis: Basis | None = None) -> dict[int, Array]:
            each = list(streams.values())
            return {
                q: dealer_protocol.rerandomize(share, each)
                if basis is None
                else rerandomize_residues(basis, share, self.me, streams)
                for q, share in shares.items()
            }

        return hide

    def public(self, match: ComparisonSession, part: int, labels: Array, clusters: Array) -> SharedLabels:
        """A part's share of labels (m,) that everybody knows, among these clusters (K,)."""
        basis = self.plan.code.basis
        known = SharedLabels.public(basis, labels, clusters, lead=True).parts
        bits = SharedLabels.public(basis, labels, clusters, lead=part == 0).bits
        return SharedLabels(bits, basis.multiply(known, self.weight(match)[:, None, None]))

    def rounded(
        self, match: ComparisonSession, steps: AnswerRounds, begun: StartedQuery, measured: DistanceOracle
    ) -> Role[tuple[DistanceOracle, StartedQuery]]:
        """Centers are exact without a dealer."""
        yield from ()
        return measured, begun

    def begin(
        self, match: ComparisonSession, steps: AnswerRounds, game: AssignmentStep | SharedContest | None
    ) -> Role[StartedQuery]:
        """Sit down, the first time that this committee meets, and deal what replies are checked by."""
        checking = yield from self.comparer.begin_check(match, DEAL)
        # In the step in which others are dealt to.
        early = AnswerRounds(self.plan.clients, steps.number - DEAL, steps.subject)
        try:
            seats = yield from self.comparer.seated(tuple(match.question.members.tolist()), early)
        except StalledStep as stalled:
            raise StalledStep(stalled.step - DEAL, stalled.missing.tolist()) from None
        return StartedQuery(game, NOBODY_MISSED, seats=seats, checking=checking)

    def moved(
        self,
        match: ComparisonSession,
        steps: AnswerRounds,
        begun: StartedQuery,
        measured: DistanceOracle,
        old: Mapping[int, SharedLabels] | None,
    ) -> Role[tuple[dict[int, SharedLabels], bool | None] | None]:
        """At a member its share of the labels after a step, and whether none changed."""
        if old is None:
            return None
        anew = Resharing.among(self.comparer, match, steps)
        joint, won = yield from self.compared(match, steps, begun, measured)
        bits = joint.player.opening(won)
        share, matrix = yield from anew.residues(bits[:-1] if joint.seats.is_member else None, len(bits) - 1)
        weight = self.weight(match)[:, None, None]
        new, same = SharedLabels(bits, np.asarray(self.plan.code.basis.multiply(share, weight))), None
        if isinstance(begun.game, AssignmentStep) and begun.game.tested:
            same = yield from anew.unchanged(self.held(match, next(iter(old.values()))), share, matrix)
        return dict.fromkeys(old, new), same

    def won(
        self, match: ComparisonSession, steps: AnswerRounds, begun: StartedQuery, measured: DistanceOracle
    ) -> Role[dict[int, Array] | None]:
        """At a member its share of who wins each point, (K, words)."""
        if begun.seats is None:
            return None
        joint, won = yield from self.compared(match, steps, begun, measured)
        return dict.fromkeys(self.parts(match), joint.player.opening(won))

    def compared(
        self, match: ComparisonSession, steps: AnswerRounds, begun: StartedQuery, measured: DistanceOracle
    ) -> Role[tuple[Computation, Array]]:
        """My shares (held, K, words) of who wins each point."""
        seats, checking = begun.seats, begun.checking
        if seats is None or checking is None or match.checked is None:
            raise StalledStep(steps.step, set[int]())
        part = yield from self.comparer.checked_part(match, checking, measured, steps, seats, BLINDING)
        steps.step = match.checked.begun + MASKS - DEAL
        joint = seats.play(steps, self.peers, self.comparer.rooms)
        mine = None if part is None else part[0]
        won = yield from winner_bits(joint, match.contest, match.schedule.basis, mine, self.plan.m)
        return joint, won


class Resharing:
    """What members share anew in one question: client me among these receivers, ascending.

    streams: with the others; each serves one direction, as receivers are more than 2 t on a circle.
    """

    def __init__(
        self,
        plan: CodedPlan,
        me: int,
        receivers: tuple[int, ...],
        streams: dict[int, Coins],
        coins: Coins,
        steps: AnswerRounds,
    ) -> None:
        self.plan, self.me, self.receivers, self.steps = plan, me, receivers, steps
        self.streams, self.coins = streams, coins
        chosen, weights = plan.code.decoding_weights(receivers, 2)
        self.weight = weights[:, chosen.index(me)]

    @classmethod
    def among(cls, comparer: DealerlessParty, match: ComparisonSession, steps: AnswerRounds) -> Resharing:
        """Raises Stalled for a client whose key never came."""
        members = tuple(match.question.members.tolist())
        streams = question_streams(comparer.peers, match, ANEW, {*members} - {comparer.me})
        return cls(comparer.plan, comparer.me, members, streams, comparer.coins, steps)

    @property
    def basis(self) -> Basis:
        return self.plan.code.basis

    def residues(self, bits: Array | None, rows: int) -> Role[tuple[Array, Array]]:
        """My share (lanes, rows, m) of bits that t + 1 members' parts (rows, words) are the exclusive or of.

        And of a uniform matrix, (1, TESTS, TESTS), that nobody knows.
        """
        m, t, own, extra = self.plan.m, self.plan.code.t, None, TESTS**2
        if bits is not None:
            plain = self.basis.reduce(unpack_bits(bits, m).astype(np.int64).reshape(-1))
            own = np.concatenate([plain, self.basis.sample((extra,), self.coins)], axis=1)
        every = yield from self.deal(own, self.receivers[: t + 1], rows * m + extra)
        matrix = add_residues(self.basis, [np.ascontiguousarray(part[:, rows * m :]) for part in every])[:1]
        parts = [np.ascontiguousarray(part[:, : rows * m]) for part in every]
        while len(parts) > 1:
            left, right = parts[: len(parts) // 2 * 2 : 2], parts[1::2]
            pairs = list(zip(left, right, strict=True))
            product = yield from self.reduce(
                np.concatenate([self.basis.multiply(x, y) for x, y in pairs], axis=1)
            )
            products = np.split(product, len(pairs), axis=1)
            both = [
                exclusive_or(self.basis, x, y, xy).astype(self.basis.dtype)
                for (x, y), xy in zip(pairs, products, strict=True)
            ]
            parts = [*both, *parts[2 * len(pairs) :]]
        return parts[0].reshape(self.basis.lanes, rows, m), matrix.reshape(1, TESTS, TESTS)

    def unchanged(self, before: Array, after: Array, matrix: Array) -> Role[bool]:
        """Whether labels are the same, of shares (lanes, K - 1, m) of both."""
        first = self.basis.prefix(1)
        seed = np.empty(2, np.uint64)
        self.coins.fill(seed)
        # Labels are fixed, so nobody chooses them by what they are tested with.
        seed = yield from self.opened(seed)
        rho = first.sample((TESTS, self.plan.m), Coins(seed.tobytes()))
        gaps = first.add(cluster_numbers(first, before), first.negate(cluster_numbers(first, after)))
        z = first.matmul(rho, np.ascontiguousarray(gaps[:, :, None]))
        product = first.matmul(matrix, z)[:, :, 0]
        share = first.multiply(product, self.weight[:1, None]).astype(np.uint32)
        result = yield from self.opened(rerandomize_residues(first, share, self.me, self.streams))
        return not result.any()

    # --- products

    def reduce(self, product: Array) -> Role[Array]:
        """A share of degree t of a product (lanes, N) of shares: all share their weighted parts anew."""
        weighted = np.asarray(self.basis.multiply(product, self.weight[:, None]))
        parts = yield from self.deal(weighted, self.receivers, product.shape[1])
        return add_residues(self.basis, parts)

    def deal(self, mine: Array | None, dealers: Sequence[int], size: int) -> Role[list[Array]]:
        """My shares (lanes, size) of every dealer's secrets, in their order; mine: my own, if I am one."""
        code, shares, send = self.plan.code, dict[int, Array](), dict[int, ResharedPart]()
        if mine is not None:
            known = seeded_receivers(code, self.me, self.receivers)
            seeds = [self.streams[j] for j in known]
            dealing = deal_part(code, mine, known, self.receivers, seeds)
            shares = {self.me: dealing.pop(self.me)}
            send = {j: ResharedPart(share) for j, share in dealing.items()}
        others = [j for j in dealers if j != self.me]
        theirs = [j for j in others if self.me in seeded_receivers(code, j, self.receivers)]
        shares |= {j: expand_share(code, size, self.streams[j]) for j in theirs}
        received = yield from self.steps.exchange(send, [j for j in others if j not in theirs], ResharedPart)
        for j, message in received.items():
            check_residues(self.basis, self.plan.clients[j], message.values, (size,))
            shares[j] = message.values
        return [shares[j] for j in dealers]

    def opened(self, share: Array) -> Role[Array]:
        """What all members' shares add up to.  Who speaks last chooses nothing: all commit before.

        Raises FaultyClient for another share than was committed to.
        """
        others, nonce = [j for j in self.receivers if j != self.me], self.steps.nonce
        mine = MaskedBits(share, self.coins.bytes(32))
        told = MaskedBits(np.empty(0, np.uint64), heard=commit_opening(nonce, self.me, mine))
        promised = yield from self.steps.exchange(dict.fromkeys(others, told), others, MaskedBits)
        received = yield from self.steps.exchange(dict.fromkeys(others, mine), others, MaskedBits)
        for j, message in received.items():
            if promised[j].heard != commit_opening(nonce, j, message):
                raise FaultyClient(self.plan.clients[j], "opened another share than it committed to")
        basis = self.basis.prefix(1)
        theirs = [
            check_opening(basis, self.plan.clients[j], message.words, share)
            for j, message in received.items()
        ]
        return np.asarray(dealer_protocol.combine_openings(basis, [share, *theirs]))


def commit_opening(nonce: int, member: int, opened: MaskedBits) -> bytes:
    """32 bytes by which a member, a number, commits to what it opens with a coin, and which tell nothing."""
    text = f"{nonce} {member} {opened.words.shape} ".encode() + opened.coin + opened.words.tobytes()
    return hashlib.blake2b(text, digest_size=32, person=b"secfc-opening").digest()
