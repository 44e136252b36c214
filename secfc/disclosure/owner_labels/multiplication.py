"""What is public about a step on shared labels, and what its members open of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np

from field.arrays import Array
from field.code.lagrange_code import transfer_matrix
from field.code.masking import PairKeys, weighted_part
from field.code.reply_check import OffPolynomial, open_words
from field.code.rows import ClusterSums, CodedRows, cluster_sizes
from field.compare import shared_step as maths
from field.compare.assignment_step import TESTS, AssignmentStep, SharedLabels
from field.compare.shared_step import last_of_one_hot, subtract
from field.ring.basis import Basis
from field.secrets.coins import Coins
from secfc.coded.messages import SizeShare
from secfc.coded.plan import CodedPlan
from secfc.coded.policy import LabelSharing
from secfc.coded.queries import Operation, Query
from secfc.disclosure.checked.messages import CheckedPart, PartShares, ResharedPart
from secfc.disclosure.checked.parts import PartDealing, split_shares
from secfc.disclosure.checked.products import (
    CheckedProducts,
    Claim,
    ProductVerifier,
    checking_steps,
    label_claims,
    square_claim,
)
from secfc.disclosure.compare.session import DEAL, CommitteeChoice, ComparisonSession
from secfc.disclosure.dealerless.steps import AnswerRounds, StalledStep
from secfc.disclosure.owner_labels.run_state import HeldLabels
from secfc.errors import FaultyServer
from secfc.roles.blame import suspect_parties
from secfc.roles.exchange import SERVER, PartyId, Role
from secfc.roles.messages import Message, check_residues


def label_bits(k: int) -> int:
    """Binary digits of a label."""
    return max(1, (k - 1).bit_length())


def step_continuation(match: ComparisonSession, sharing: LabelSharing) -> AssignmentStep:
    """How a step goes on after its distances: everything public."""
    question = match.question
    # From labels that leave points out, a step changes some in any case, and so does a cut.
    tested = question.at.step > 0 or int(question.labels.min(initial=0)) >= 0
    tested = tested and sharing.tested and question.operation is not Operation.SPLIT
    return AssignmentStep(match.schedule, match.plan.code.basis, tested)


def reference_sizes(plan: CodedPlan, question: Query) -> Array:
    """The sizes of what centers are compared or measured: clusters, halves of them, or unions."""
    subject = question.subject
    if subject.operation is Operation.SPLIT_GAIN and plan.fraction is not None:
        return subject.counted.reshape(-1)
    return np.repeat(subject.now, 2) if subject.operation is Operation.SPLIT else subject.now


def clusters_with_points(match: ComparisonSession) -> int:
    """Clusters with points now; where sizes are hidden those that may have some.

    Where no labels were shared before, all that may win the contest.
    """
    if match.question.subject.shared is None:
        return match.contest.outcomes
    return int(np.count_nonzero(match.sizes if match.hidden else match.question.subject.now))


def session_for(
    plan: CodedPlan, question: Query, seating: CommitteeChoice, sharing: LabelSharing
) -> ComparisonSession:
    """What a question about shared labels compares; the sizes of its first labels all know."""
    if question.operation is Operation.EXPLAINED:
        return ComparisonSession(plan.of_columns, question, np.ones(2, np.int64), seating, hidden=True)
    if not (sharing.hidden and question.at.step):
        aside = plan.aside if question.operation is Operation.SPLIT else 0
        return ComparisonSession(plan, question, reference_sizes(plan, question), seating, aside=aside)
    # A cluster without points never gets any.
    there = cluster_sizes(question.labels, question.k) > 0
    return ComparisonSession(plan, question, there.astype(np.int64), seating, hidden=True)


def sizes_from_shares(
    match: ComparisonSession, shares: Mapping[PartyId, SizeShare], sharing: LabelSharing
) -> tuple[bool, Array]:
    """Whether no label changed, and the sizes (k,) after a step, of what all members opened; 0 if hidden.

    Raises FaultyClient for numbers of another shape, SuspectedParties for sizes that no labels have, and for
    shares that the clients of a part do not agree on.
    """
    basis, alive = match.plan.code.basis.prefix(1), np.flatnonzero(match.sizes)
    tested = TESTS if match.seating.dealers and step_continuation(match, sharing).tested else 0
    unseen = sharing.hidden or match.hidden
    count = 0 if unseen else len(alive) - 1
    sizes, found = np.zeros(len(match.sizes), np.int64), _open_sizes(match, basis, shares, count + tested)
    if not unseen and found is not None:
        sizes[alive[:-1]] = found[:count]
        sizes[alive[-1]] = match.plan.m - sizes.sum()
    said = {share.same for share in shares.values()}
    if tested and found is not None:
        said = {not found[count:].any()}
    if len(said) > 1 or found is None or int(sizes.max()) > match.plan.m or int(sizes.min()) < 0:
        why = "the shares of a step's sizes add up to what no labels have, or contradict one another"
        raise suspect_parties(
            "SizeShare", why, committee=match.committee, dealers=match.seating.dealers, server=SERVER
        )
    return said.pop(), sizes


def _open_sizes(
    match: ComparisonSession, basis: Basis, shares: Mapping[PartyId, SizeShare], count: int
) -> Array | None:
    """So many numbers: sizes of all clusters with points but the last, unless they are hidden; and where
    somebody deals what is 0 if no label changed.

    Without a dealer members tell shares, of whose degree there are enough to notice t false ones: None then.
    """
    blocks = match.blocks
    words, digests = dict[PartyId, Array](), dict[PartyId, bytes]()
    for i, c in enumerate(match.committee):
        told, share = len(blocks.told_by(i)) if match.seating.dealers else 1, shares[c]
        check_residues(basis, c, share.values, (told * count,))
        words[c], digests[c] = share.values.reshape(told, count), share.digests
    if match.seating.dealers:
        parts = split_shares(blocks, match.committee, match.context, words, digests, "sizes")
        return np.asarray(reduce(basis.add, (part[None] for part in parts))[0])
    numbers = {match.plan.clients.index(c): word for c, word in words.items()}
    try:
        return open_words(match.plan.code, basis, numbers)[0, 0] if count else np.empty(0, np.int64)
    except OffPolynomial:
        return None


def cost_shares(basis: Basis, one_hot: Array, norms: Array, sums: Array, sizes: Array) -> Array:
    """A share (lanes, k), of twice the degree, of the sums of scaled distances within clusters.

    That is s (s Q - ||S||**2) with Q the sum of the squares of a cluster's points.  one_hot: (lanes, K, m) of
    the clusters with points; norms: (lanes, m, 1), sums: (lanes, K, width); all of the degree of shares.
    """
    alive = np.flatnonzero(sizes)
    scales = basis.reduce(sizes[alive].astype(np.int64))
    squares = basis.multiply(scales, basis.matmul(one_hot, norms)[:, :, 0])
    own = basis.multiply(scales, basis.add(squares, basis.negate(basis.squares(sums)).astype(basis.dtype)))
    out = np.zeros((basis.lanes, len(sizes)), basis.dtype)
    out[:, alive] = own
    return out


def rounded_cost_shares(
    basis: Basis, one_hot: Array, norms: Array, sums: Array, centers: Array, sizes: Array, fraction: int
) -> Array:
    """A share (lanes, k), of twice the degree, of the sums of squared distances to rounded centers C.

    That is s ||C||**2 - 2**(q + 1) <C, S> + 4**q Q for centers that stand for 2**q points each.  centers:
    (lanes, K, width), a share of C; the rest as in `cost_shares`.
    """
    alive = np.flatnonzero(sizes)
    own, both = basis.squares(centers), basis.squares(basis.add(centers, sums))
    twice = subtract(basis, subtract(basis, both, own), basis.squares(sums))
    one, s = (basis.reduce(np.array(x, object).reshape(-1)) for x in (1 << fraction, sizes[alive]))
    squares = basis.multiply(basis.multiply(one, one), basis.matmul(one_hot, norms)[:, :, 0])
    found = subtract(basis, basis.add(basis.multiply(s, own), squares), basis.multiply(one, twice))
    out = np.zeros((basis.lanes, len(sizes)), basis.dtype)
    out[:, alive] = found
    return out


def union_sum_shares(basis: Basis, sums: Array, sides: Array, now: Array) -> Array:
    """A share (lanes, 2 * pairs, width) of the sums of unions, those of a pair side by side; as
    `gap_shares`.
    """
    alive = np.flatnonzero(now)
    each = [basis.matmul(basis.reduce((sides == side).astype(np.int64)[:, alive]), sums) for side in (1, 2)]
    return np.stack(each, axis=2).reshape(basis.lanes, -1, sums.shape[2])


def gap_shares(basis: Basis, sums: Array, sides: Array, now: Array) -> Array:
    """A share (lanes, pairs, width) of s_b S_a - s_a S_b of unions a and b: its square is what a split gains.

    sums: (lanes, K, width) of the clusters with points, of the degree of shares.  sides: (pairs, k), now:
    (k,), see `Operation.SPLIT_GAIN`.
    """
    both = union_sum_shares(basis, sums, sides, now)
    first, second = both[:, ::2], both[:, 1::2]
    a, b = (basis.reduce(((sides == side) @ now).astype(np.int64))[:, :, None] for side in (1, 2))
    return subtract(basis, basis.multiply(b, first), basis.multiply(a, second))


def requested_costs(
    match: ComparisonSession, one_hot: Array, norms: Array, sums: Array, centers: Array | None
) -> Array:
    """A responder's share (lanes, k), of twice the degree, of what clusters cost.

    centers: (lanes, K, width) of clusters with points, where they are rounded.
    """
    plan, now = match.plan, match.question.subject.now
    if centers is not None and plan.fraction is not None:
        return rounded_cost_shares(plan.code.basis, one_hot, norms, sums, centers, now, plan.fraction)
    return cost_shares(plan.code.basis, one_hot, norms, sums, now)


def requested_gaps(match: ComparisonSession, sums: Array, centers: Array | None) -> Array:
    """A responder's share (lanes, pairs, width) by which means of unions differ; as `requested_costs`."""
    basis, question = match.plan.code.basis, match.question
    if centers is not None:
        return np.ascontiguousarray(subtract(basis, centers[:, ::2], centers[:, 1::2]))
    return gap_shares(basis, sums, question.detail, question.subject.now)


def checks_squares(plan: CodedPlan) -> bool:
    """Whether gains are checked, and opened by shares of their own: if anybody colludes."""
    return checking_steps(plan) > 0


def split_sum_shares(plan: CodedPlan, me: int, sums: Array, now: Array, directions: Array) -> Array:
    """Client me's share (lanes, 2 k, width) of S + s v and S - s v of each cluster, v its direction.

    sums: (lanes, k, width), its share of S.  directions: (k, features), in the order of the features.
    """
    basis, order = plan.code.basis, plan.feature_order
    # Rows are so many times the points, and 0 where nobody has a feature.
    signs = np.where(order < 0, 0, directions[:, order])
    along = public_shares(plan, me, signs.astype(np.int64) * plan.layout.multiple)
    aside = basis.multiply(basis.reduce(now.astype(np.int64))[:, :, None], along)
    both = np.stack([basis.add(sums, aside), subtract(basis, sums, aside)], axis=2)
    return np.ascontiguousarray(both.reshape(basis.lanes, -1, sums.shape[2]))


def public_shares(plan: CodedPlan, me: int, values: Array) -> Array:
    """Client me's shares (lanes, k, width) of whole numbers (k, d) that all know, without noise."""
    code, basis, width = plan.code, plan.code.basis, plan.code.width(plan.d)
    pieces = cut_segments(plan, basis.reduce(values)).reshape(basis.lanes, code.ell, -1)
    at = transfer_matrix(basis, code.betas[: code.ell], (code.alphas[me],))
    return basis.matmul(at, pieces).reshape(basis.lanes, -1, width)


def cut_segments(plan: CodedPlan, values: Array) -> Array:
    """Residues (lanes, k, d) as the code has them at its data points, (lanes, ell, k, width)."""
    lanes, k, d = values.shape
    width = plan.code.width(d)
    padded = np.zeros((lanes, k, plan.code.ell * width), values.dtype)
    padded[:, :, :d] = values
    return np.ascontiguousarray(padded.reshape(lanes, k, -1, width).swapaxes(1, 2))


# --------------------------------------------------------------------------------------------------
# What responders compute of labels that stay shared: sums of points by them, and other products.


def question_streams(
    keys: PairKeys, match: ComparisonSession, more: int, others: set[int]
) -> dict[int, Coins]:
    """Streams with other clients, fresh for this question as often as `more` rises from 0.

    Raises StalledStep for a client whose key never came.
    """
    streams = keys.streams(match.question.round + more, match.context, others)
    if others - set(streams):
        raise StalledStep(0, others - set(streams))
    return streams


@dataclass(frozen=True, eq=False, repr=False)
class JointCheck:
    """A check of all products of a question whose numbers are opened.

    verifier: of a responder; None where nothing is checked.  claims: of products so far.
    """

    verifier: ProductVerifier | None
    claims: list[Claim]


@dataclass(frozen=True, eq=False, repr=False)
class SecureMultiplication:
    """Client me's part; keys: with the other clients.  Everything that comes out is a share, secret.

    held: how who shares the labels has shares of them to compute on already; None where they are dealt anew.
    """

    plan: CodedPlan
    me: int
    keys: PairKeys
    coins: Coins
    held: Callable[[ComparisonSession, SharedLabels], Array] | None = None

    def streams(self, match: ComparisonSession, more: int, peers: set[int]) -> dict[int, Coins]:
        """Streams with other clients, fresh for this question as often as `more` rises from 0."""
        return question_streams(self.keys, match, more, peers - {self.me})

    def labeled(
        self,
        match: ComparisonSession,
        steps: AnswerRounds,
        state: HeldLabels | None,
    ) -> Role[Array | None]:
        """My share of the labels (lanes, K, m), one-hot among the clusters with points, if I respond.

        state: what I hold of them, if I am in the committee.
        Raises SuspectedParties where clients of a part deal different shares.
        """
        basis, rows = self.plan.code.basis, clusters_with_points(match) - 1
        if not rows and self.held is None:  # everybody is in the only cluster there is
            steps.skip()
            responds = self.me in match.question.responders
            return np.ones((basis.lanes, 1, self.plan.m), basis.dtype) if responds else None
        others = yield from self.dealt(match, steps, state, rows)
        return None if others is None else last_of_one_hot(basis, others)

    def dealt(
        self, match: ComparisonSession, steps: AnswerRounds, state: HeldLabels | None, rows: int
    ) -> Role[Array | None]:
        """My share (lanes, rows, m) of what members hold by part, if I respond; as `labeled`."""
        plan, me, code, shape = self.plan, self.me, self.plan.code, (rows, self.plan.m)
        if self.held is not None:
            steps.skip()
            if state is None or self.me not in match.question.responders:
                return None
            return self.held(match, next(iter(state.parts.values())))
        responders, members = (
            tuple(match.question.responders.tolist()),
            tuple(match.question.members.tolist()),
        )
        size = shape[0] * shape[1]
        dealing = PartDealing(
            code, plan.clients, match.blocks, members, responders, match.context, size, "labels"
        )
        send, own = dict[int, PartShares](), dict[int, Array]()
        if state is not None:
            if (keys := state.keys) is None:
                raise FaultyServer(SERVER, "asked for sums by labels that all know")
            flat = {q: each.parts.reshape(code.basis.lanes, -1) for q, each in state.parts.items()}
            send, own = dealing.deal(me, keys, flat)
        awaited = [p for p in members if p != me] if me in responders else []
        told = yield from steps.exchange(send, awaited, PartShares)
        if me not in responders:
            return None
        return dealing.take(me, own, told).reshape(-1, *shape)

    def sums(
        self,
        match: ComparisonSession,
        steps: AnswerRounds,
        rows: CodedRows,
        one_hot: Array | None,
        to: Sequence[int],
        proofs: list[Role[None]] | None = None,
        joint: JointCheck | None = None,
    ) -> Role[Array]:
        """My share of the sums of clusters with points (lanes, K, width); of none, if none is dealt to me.

        one_hot: my share of the labels, if I respond.  joint: what checks these with more, later.
        Raises SuspectedParties for false sums, as far as those who respond have them.
        """
        count, width = clusters_with_points(match), self.plan.code.width(self.plan.d)
        product = verifier = None
        if one_hot is not None:
            product = rows.weighted_sums(one_hot)
            verifier = joint.verifier if joint else self.verifier(match, 2 * self.plan.m)
        sums = yield from self.reduced(match, steps, product, to, count, width, verifier)
        now, claims = match.question.subject.now, list[Claim]()
        if one_hot is not None:
            sizes = None if match.hidden else now[now > 0]
            claims = label_claims(self.plan.code.basis, one_hot, rows, sums, sizes)
        if joint is None:
            yield from self.verify(match, steps, verifier, claims, proofs)
        else:
            joint.claims.extend(claims)
        return sums

    def joined(self, match: ComparisonSession, more: int, what: str, blinded: int = 0) -> JointCheck:
        """A responder's part in the one check of sums and of other products, of inner products so long."""
        return JointCheck(self.verifier(match, 2 * self.plan.m + more, what=what, blinded=blinded), [])

    def verify(
        self,
        match: ComparisonSession,
        steps: AnswerRounds,
        verifier: ProductVerifier | None,
        claims: Sequence[Claim],
        proofs: list[Role[None]] | None = None,
    ) -> Role[None]:
        """Check what was dealt anew, if I respond; else these steps are of others.

        proofs: where this goes, if it goes on beside what follows (`ComparisonSession.proving`).
        """
        if verifier is None:
            steps.step += 0 if proofs is not None else checking_steps(self.plan)
            return
        if proofs is not None:
            proofs.append(self.prove_beside(match, verifier, claims))
            return
        yield from verifier.verify(steps.exchange, claims)

    def prove_beside(
        self, match: ComparisonSession, verifier: ProductVerifier, claims: Sequence[Claim]
    ) -> Role[None]:
        """The check of products in steps of their own, beside those of a comparison."""
        steps, due = AnswerRounds(self.plan.clients, match.question.round + DEAL), iter(match.proving)

        def talk(
            send: Mapping[int, Message], awaited: Collection[int], kind: type[Any]
        ) -> Role[dict[int, Any]]:
            steps.step = next(due) - DEAL - 1
            return steps.exchange(send, awaited, kind)

        yield from verifier.verify(talk, claims)

    def verifier(
        self,
        match: ComparisonSession,
        length: int,
        owners: Collection[Array] = (),
        what: str = "sums of rows",
        blinded: int = 0,
        alike: int = 0,
    ) -> ProductVerifier | None:
        """A responder's part in a question's check of products, by claims of this length; None without.

        owners: where these are checked, whom of them each responder heard; of these one lane holds all.
        what: is checked, each once a question.  blinded: so many numbers are opened as sums over segments.
        alike: so many sums are to be alike in all lanes.
        """
        if not checking_steps(self.plan):
            return None
        text = repr((match.context, what, [numbers.tolist() for numbers in owners])).encode()
        context = hashlib.blake2b(text, digest_size=32, person=b"secfc-products").digest()
        responders = tuple(match.question.responders.tolist())
        basis, others = self.plan.code.basis, (*match.committee, *match.seating.dealers)
        if owners:
            basis, others, what = basis.prefix(1), self.plan.clients, "rows that owners claim to hold"
        asked = CheckedProducts(
            self.plan, basis, context, length, responders, others, what, blinded, alike=alike
        )
        return ProductVerifier(asked, self.me, self.coins)

    def squares(
        self, match: ComparisonSession, steps: AnswerRounds, vectors: Array, joint: JointCheck
    ) -> Role[Array]:
        """My share (lanes, n) of the squares of vectors (lanes, n, width), which are dealt anew and checked.

        To be opened: of several segments their sum is all that shares of all tell.
        Raises SuspectedParties for false ones, or false sums.
        """
        basis, count = self.plan.code.basis, vectors.shape[1]
        product = basis.squares(vectors)[:, :, None]
        to = match.question.responders.tolist()
        found = (yield from self.reduced(match, steps, product, to, count, 1))[:, :, 0]
        claims: list[Claim] = [*joint.claims, partial(square_claim, basis, vectors, found)]
        yield from self.verify(match, steps, joint.verifier, claims)
        if joint.verifier is None or not joint.verifier.asked.blinded:
            return found
        return basis.add(found, joint.verifier.blinds())

    def sides(
        self,
        match: ComparisonSession,
        steps: AnswerRounds,
        rows: CodedRows,
        one_hot: Array | None,
        to: Sequence[int],
        proofs: list[Role[None]] | None = None,
    ) -> Role[Array]:
        """Share of bisectors of clusters of secret sizes (lanes, pairs, 1 + width), as `sums`.

        See `field.compare.shared_step.signed_bisectors`; the products of products need three rounds.
        """
        code, responders, m = self.plan.code, match.question.responders.tolist(), self.plan.m
        basis, width = code.basis, code.width(self.plan.d)
        pairs = maths.ClusterPairs(int(np.count_nonzero(match.sizes)))
        count, verifier, product = len(pairs.first), None, None
        if one_hot is not None:
            product = rows.weighted_sums(one_hot)
            verifier = self.verifier(match, 2 * m + maths.count_pair_claims(pairs, width))
        sums = yield from self.reduced(match, steps, product, responders, pairs.k, width, verifier)
        sizes = None
        if one_hot is not None:
            sizes = maths.one_hot_sizes(basis, one_hot)
            product = maths.pair_products(basis, sums, sizes, pairs)[:, :, None]
        size = count * (1 + width) + 2 * pairs.k
        squares = yield from self.reduced(match, steps, product, responders, size, 1)
        if sizes is not None:
            squares = squares[:, :, 0]
            product = maths.signed_bisectors(basis, squares, sizes, width, pairs, m, code.ell)
        planes = yield from self.reduced(match, steps, product, to, count, 1 + width)
        claims: list[Claim] = []
        if one_hot is not None and sizes is not None:
            claims = [
                *label_claims(basis, one_hot, rows, sums, None),
                partial(maths.pair_claims, basis, sums, sizes, squares, pairs),
                partial(maths.bisector_claims, basis, squares, sizes, pairs, m, code.ell, planes),
            ]
        yield from self.verify(match, steps, verifier, claims, proofs)
        return planes

    def excess(
        self,
        match: ComparisonSession,
        steps: AnswerRounds,
        rows: CodedRows,
        one_hot: Array | None,
        proofs: list[Role[None]] | None = None,
    ) -> Role[Array]:
        """My share (lanes, columns, 1) of by how much labels explain more of columns than is allowed.

        match: of columns.  one_hot, proofs: as of `sums`.
        """
        basis, m, width = self.plan.code.basis, self.plan.m, self.plan.code.width(self.plan.d)
        now, to = match.question.subject.now, match.question.responders.tolist()
        sizes, product, verifier = now[now > 0], None, None
        if one_hot is not None:
            product = rows.weighted_sums(one_hot)
            length = 2 * m + width * (m + len(sizes) + 1)
            verifier = self.verifier(match, length, what="sums or squares of columns")
        sums = yield from self.reduced(match, steps, product, to, len(sizes), width, verifier)
        steps.skip()  # as sides of clusters have a step more (`ComparisonSession.before`)
        made = None
        if one_hot is not None:
            points, allowed = rows.read_rows(0, m), self.plan.layout.explained or 0
            made = maths.ExplainedExcess.of(basis, points, sums, sizes, allowed)
            product = made.products[:, :, None]
        found = yield from self.reduced(match, steps, product, to, width, 1)
        claims: list[Claim] = []
        if one_hot is not None and made is not None:
            claims = label_claims(basis, one_hot, rows, sums, sizes)
            claims.append(partial(made.claim, np.ascontiguousarray(found[:, :, 0])))
        yield from self.verify(match, steps, verifier, claims, proofs)
        return found

    def reduced(
        self,
        match: ComparisonSession,
        steps: AnswerRounds,
        product: Array | None,
        to: Sequence[int],
        rows: int,
        width: int,
        verifier: ProductVerifier | None = None,
    ) -> Role[Array]:
        """My share (lanes, rows, width) of what responders hold as products, now with the degree of shares.

        product: my share of twice the degree, if I respond; no rows come out if none are dealt to me.
        verifier: my part in the check of these products, if they are checked.
        """
        me, code = self.me, self.plan.code
        responders = tuple(match.question.responders.tolist())
        send: dict[int, Message] = {}
        dealt_to: dict[int, Array] = {}
        if product is not None:
            part = weighted_part(code, responders, me, product)
            if verifier is None:
                parts = code.share(part, self.coins)
                dealt_to = {j: np.ascontiguousarray(parts[j]).reshape(code.basis.lanes, -1) for j in to}
            else:
                each = part.reshape(code.basis.lanes, rows, code.ell, width).swapaxes(1, 2)
                flat = np.ascontiguousarray(each).reshape(code.basis.lanes, code.ell, -1)
                checked, dealt_to = verifier.deal(flat, [j for j in to if j not in responders])
                send.update(checked)
            send |= {j: ResharedPart(share) for j, share in dealt_to.items() if j != me}
        asked = [j for j in responders if j != me] if me in to else []
        values = [dealt_to[me]] if me in dealt_to else []
        if verifier is None:
            values += yield from self.reshared(steps, send, asked, rows * width)
        else:
            received = yield from steps.exchange(send, asked, CheckedPart)
            values += verifier.take(received, rows * width)
        if not values:
            return np.empty((code.basis.lanes, 0, 0), code.basis.dtype)
        return code.basis.add_all(values).reshape(code.basis.lanes, rows, width)

    def reshared(
        self, steps: AnswerRounds, send: Mapping[int, Message], awaited: Sequence[int], size: int
    ) -> Role[list[Array]]:
        """What these clients dealt me: residues (lanes, size) each."""
        received = yield from steps.exchange(send, awaited, ResharedPart)
        for j, message in received.items():
            check_residues(self.plan.code.basis, self.plan.clients[j], message.values, (size,))
        return [message.values for message in received.values()]

    def expanded(self, match: ComparisonSession, rows: CodedRows, sums: Array) -> ClusterSums:
        """The sums of all clusters, of those without points zero."""
        now = match.question.subject.now
        values = np.zeros((len(sums), len(now), sums.shape[2]), sums.dtype)
        values[:, now > 0] = sums
        return rows.encode_sums(values, now)

    def norms(
        self,
        match: ComparisonSession,
        steps: AnswerRounds,
        rows: CodedRows,
        one_hot: Array | None,
        joint: JointCheck,
    ) -> Role[Array]:
        """My share (lanes, m, 1) of the squares of points, which are products, dealt anew, to be checked.

        What somebody added to one would show in what a cluster costs, and so whose it is: its secret label.
        """
        product = None if one_hot is None else rows.norms()[:, :, None]
        m, to = self.plan.m, match.question.responders.tolist()
        found = yield from self.reduced(match, steps, product, to, m, 1)
        if one_hot is not None:
            vectors = np.ascontiguousarray(rows.read_rows(0, m))
            joint.claims.append(partial(square_claim, self.plan.code.basis, vectors, found[:, :, 0]))
        return found
