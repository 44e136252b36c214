"""Sharing labels without a dealer: a client's part in the steps of `secfc.disclosure.owner_labels.client`.

The committee is the 2 t + 1 responders, of whom any t know nothing; one client more where each part is played
by two.  In a step

1. t + 1 members, or pairs of them, take the blinded distances over, and all find who wins each point on
   shared bits (`secfc.disclosure.dealerless.policy`);
2. these t + 1 share their parts of the winners' bits as residues; of two parts x and y the exclusive or is
   x + y - 2 x y, products are shared anew with the degree of shares, and so on in a tree;
3. whether a label changed is tested as in `field.compare.assignment_step`, with a matrix F that t + 1 parts
   shared under 2 and products of shares: `F z` is opened.

Where parts are played by two, both deal the same of it, and receivers compare (`PartDealing`); products,
those of `F z` too, are dealt anew with what `secfc.disclosure.checked.products` checks them by, before
anything is opened.  Else `F z` is re-randomized, and opened as a sum of what members say.

Members' residues are shares, and so is what they tell of sizes: 2 t + 1 words of the degree t, of which t
that are false are noticed, and all t + 1 others follow from the sizes and what t know.  Of whatever is shared
anew t receivers expand theirs from seeds (`field.code.masking`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from field.arrays import Array
from field.code.lagrange_code import transfer_matrix
from field.code.masking import PairKeys, deal_part, expand_share, seeded_receivers, weighted_part
from field.code.reply_check import OffPolynomial, open_words
from field.compare import dealer_protocol
from field.compare.assignment_step import TESTS, AssignmentStep, SharedContest, SharedLabels, cluster_numbers
from field.compare.bitslice import unpack_bits
from field.compare.shared_step import exclusive_or
from field.ring.basis import Basis
from field.secrets.coins import Coins
from secfc.coded.messages import MaskedBits
from secfc.coded.policy import DistanceOracle
from secfc.coded.quorum import NOBODY_MISSED
from secfc.disclosure.checked.messages import SEED, CheckedPart, PartShares, ProductWords, ResharedPart
from secfc.disclosure.checked.parts import PartDealing, PartKeys
from secfc.disclosure.checked.products import (
    CheckedProducts,
    Claim,
    ProductVerifier,
    matrix_claim,
    product_claim,
)
from secfc.disclosure.checked.steps import MASKS
from secfc.disclosure.compare.session import DEAL, CommitteeChoice, ComparisonSession, check_opening
from secfc.disclosure.dealerless.policy import DealerlessParty, winner_bits
from secfc.disclosure.dealerless.steps import AnswerRounds, Computation, StalledStep
from secfc.disclosure.owner_labels.backend import Hiding, StartedQuery
from secfc.disclosure.owner_labels.multiplication import question_streams
from secfc.errors import FaultyClient
from secfc.roles.blame import suspect_parties
from secfc.roles.exchange import SERVER, Role
from secfc.roles.messages import check_residues

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
        return shared.parts

    def parts(self, match: ComparisonSession) -> tuple[int, ...]:
        """Each member has a part of its own, or with another one."""
        return match.blocks.played_by(match.committee.index(self.comparer.name))

    def hiding(self, match: ComparisonSession, keys: PartKeys | None) -> Hiding:
        """Nothing is hidden: any t members lack one component of each bit, which is uniform, so what the
        others tell of it follows from labels that are told."""

        def hide(shares: Mapping[int, Array], basis: Basis | None = None) -> dict[int, Array]:
            return dict(shares)

        return hide

    def public(self, match: ComparisonSession, part: int, labels: Array, clusters: Array) -> SharedLabels:
        """A part's share of labels (m,) that everybody knows, among these clusters (K,)."""
        basis = self.plan.code.basis
        known = SharedLabels.public(basis, labels, clusters, lead=True)
        return known if part == 0 else SharedLabels(np.zeros_like(known.bits), known.parts)

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
    ) -> Role[tuple[dict[int, SharedLabels], bool | Mapping[int, Array] | None] | None]:
        """At a member its share of the labels after a step, and whether none changed."""
        if old is None:
            return None
        tested = isinstance(begun.game, AssignmentStep) and begun.game.tested
        # Its streams come before those that replies are blinded by.
        anew = Resharing(self.comparer, match, steps, tested)
        joint, won = yield from self.compared(match, steps, begun, measured)
        bits, before = joint.player.opening(won), self.held(match, next(iter(old.values())))
        share, matrix = yield from anew.residues(bits[:-1], held=joint.seats.is_member)
        same = yield from anew.unchanged(before, share, matrix)
        return dict.fromkeys(old, SharedLabels(bits, share)), same

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
        won = yield from winner_bits(joint, match.contest, match.schedule.basis, mine, match.m)
        return joint, won


class Resharing:
    """What members share anew in one question: client me among these receivers, ascending.

    tested: whether it is found if labels changed.  streams: with the others; each serves one direction, as
    receivers are more than 2 t on a circle.  verifier: my part in the check of all products, if parts are
    played by two; claims: of these, until they are checked.
    """

    def __init__(
        self, comparer: DealerlessParty, match: ComparisonSession, steps: AnswerRounds, tested: bool
    ) -> None:
        """Raises Stalled for a client whose key never came."""
        self.plan, self.me, self.steps, self.match, self.tested = (
            comparer.plan,
            comparer.me,
            steps,
            match,
            tested,
        )
        self.receivers, self.coins = tuple(match.question.members.tolist()), comparer.coins
        self.others = [j for j in self.receivers if j != self.me]
        self.streams = question_streams(comparer.peers, match, ANEW, {*self.others})
        code = self.plan.code
        points = tuple(code.alphas[j] for j in self.receivers)
        self.weight = transfer_matrix(code.basis, points, code.betas[:1])[:, 0, self.receivers.index(self.me)]
        self.claims: list[Claim] = []
        self.verifier: ProductVerifier | None = None
        if match.blocks.deviating:
            rows, context = match.contest.outcomes - 1, match.context + b"labels anew"
            length = code.t * rows * match.m + TESTS**2 * tested
            asked = CheckedProducts(
                self.plan, code.basis, hashlib.blake2b(context, digest_size=32).digest(), length,
                self.receivers, what="labels that are shared anew",
            )  # fmt: skip
            self.verifier = ProductVerifier(asked, self.me, self.coins)

    @property
    def basis(self) -> Basis:
        return self.plan.code.basis

    def residues(self, bits: Array, *, held: bool) -> Role[tuple[Array, Array]]:
        """My share (lanes, rows, m) of bits that t + 1 parts (rows, words) are the exclusive or of.

        And of a uniform matrix, (lanes, TESTS, TESTS), that nobody knows.  held: whether I have a part.
        """
        m, rows = self.match.m, len(bits)
        plain = self.basis.reduce(unpack_bits(bits, m).astype(np.int64).reshape(-1))
        every = yield from self.parts(plain, rows * m + TESTS**2, held=held)
        last = [np.ascontiguousarray(part[:, rows * m :]) for part in every]
        parts = [np.ascontiguousarray(part[:, : rows * m]) for part in every]
        while len(parts) > 1:
            left, right = parts[: len(parts) // 2 * 2 : 2], parts[1::2]
            count = len(right)
            x, y = (np.concatenate(side, axis=1) for side in (left[:count], right))
            xy = yield from self.reduce(self.basis.multiply(x, y))
            self.claims.append(partial(product_claim, self.basis, x, y, xy))
            both = exclusive_or(self.basis, x, y, xy).astype(self.basis.dtype)
            parts = [*(np.ascontiguousarray(z) for z in np.split(both, count, axis=1)), *parts[2 * count :]]
        matrix = self.basis.add_all(last).reshape(-1, TESTS, TESTS)
        return parts[0].reshape(self.basis.lanes, rows, m), matrix

    def parts(self, plain: Array, size: int, *, held: bool) -> Role[list[Array]]:
        """My shares (lanes, size) of each part's bits, and behind them of what it draws for the matrix."""
        extra = size - plain.shape[1]
        if self.verifier is None:
            own = np.concatenate([plain, self.basis.sample((extra,), self.coins)], axis=1) if held else None
            return (yield from self.deal(own, self.receivers[: self.plan.code.t + 1], size))
        match, at = self.match, self.receivers.index(self.me)
        (part,) = match.blocks.played_by(at)
        (other,) = (self.receivers[i] for i in match.blocks.parts[part] if i != at)
        # The two of a part draw alike.
        keys = PartKeys(match.blocks, at, bytes(32), {part: self.streams[other].bytes(SEED)})
        drawn = self.basis.sample((extra,), keys.coins(part, match.context, b"matrix"))
        dealing = PartDealing(
            self.plan.code, self.plan.clients, match.blocks, self.receivers, self.receivers,
            match.context, size, "labels anew",
        )  # fmt: skip
        send, mine = dealing.deal(self.me, keys, {part: np.concatenate([plain, drawn], axis=1)})
        told = yield from self.steps.exchange(send, self.others, PartShares)
        return dealing.take_each(self.me, mine, told)

    def unchanged(self, before: Array, after: Array, matrix: Array) -> Role[bool | None]:
        """Whether labels are the same, of shares (lanes, K - 1, m) of both; None if that is not tested.

        Products are checked in any case, if they are.  Raises SuspectedParties.
        """
        basis = self.basis if self.verifier is not None else self.basis.prefix(1)
        product = np.zeros((basis.lanes, TESTS), basis.dtype)
        if self.tested:
            seed = np.empty(2, np.uint64)
            self.coins.fill(seed)
            # Labels are fixed, so nobody chooses them by what they are tested with.
            seed = yield from self.opened(seed)
            if self.verifier is not None:
                self.verifier.beside = seed.astype("<u8").tobytes()
            rho = basis.sample((TESTS, self.match.m), Coins(seed.tobytes()))
            gaps = basis.add(cluster_numbers(basis, before), basis.negate(cluster_numbers(basis, after)))
            z = basis.matmul(rho, np.ascontiguousarray(gaps[:, :, None]))
            matrix = np.ascontiguousarray(matrix[: basis.lanes])
            product = basis.matmul(matrix, z)[:, :, 0]
            if self.verifier is None:
                share = basis.multiply(product, self.weight[:1, None]).astype(np.uint32)
                return not (yield from self.opened(self.masked(basis, share))).any()
            product = yield from self.reduce(product)
            self.claims.append(partial(matrix_claim, basis, matrix, z[:, :, 0], product))
        if self.verifier is not None:
            yield from self.verifier.verify(self.steps.exchange, self.claims)
        return not (yield from self.told(product)).any() if self.tested else None

    def masked(self, basis: Basis, share: Array) -> Array:
        """My share plus a share of zero, from a stream with every other member."""
        for other, stream in self.streams.items():
            mask = basis.sample(share.shape[1:], stream)
            share = basis.add(share, mask if self.me < other else basis.negate(mask).astype(mask.dtype))
        return share

    def told(self, share: Array) -> Role[Array]:
        """What members' shares (lanes, n) are shares of.  Raises SuspectedParties if they are no shares."""
        received = yield from self.steps.exchange(
            dict.fromkeys(self.others, ProductWords(share)), self.others, ProductWords
        )
        for j, message in received.items():
            check_residues(self.basis, self.plan.clients[j], message.values, share.shape[1:])
        words = {self.me: share, **{j: message.values for j, message in received.items()}}
        try:
            return open_words(self.plan.code, self.basis, words)
        except OffPolynomial:
            why = "what members said of whether labels changed lies on no polynomial"
            raise suspect_parties(
                "ProductWords", why, committee=self.match.committee, server=SERVER
            ) from None

    # --- products

    def reduce(self, product: Array) -> Role[Array]:
        """A share of degree t of a product (lanes, N) of shares: all share their weighted parts anew."""
        if self.verifier is None:
            weighted = np.asarray(self.basis.multiply(product, self.weight[:, None]))
            return self.basis.add_all((yield from self.deal(weighted, self.receivers, product.shape[1])))
        if self.claims:
            return (yield from self.verifier.reduce_products(self.steps.exchange, product))
        part = weighted_part(self.plan.code, self.receivers, self.me, product[:, :, None])
        send, own = self.verifier.deal(np.ascontiguousarray(part.swapaxes(1, 2)))
        received = yield from self.steps.exchange(send, self.others, CheckedPart)
        return self.basis.add_all([own[self.me], *self.verifier.take(received, product.shape[1])])

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
