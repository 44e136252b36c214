"""Replies to a server that decodes: under zero-sum masks, so it gets their weighted sum, and checked."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from field.arrays import Array
from field.cached import SharedValues
from field.code.distances import decode_residues, widest_multiple
from field.code.masking import PairKeys, add_mask, mask_context, mask_for, masking_partners
from field.code.pair_check import HalfCheck, PairCheck
from field.code.reply_check import DistanceCheck, ReplyCheck, SquaredCheck
from field.code.rows import cluster_sizes
from field.ring.basis import Basis
from field.secrets.coins import Coins
from secfc.coded.messages import CodedDistances, CodedGains, MissingMessages
from secfc.coded.plan import CodedPlan
from secfc.coded.policy import DistanceOracle
from secfc.coded.queries import Operation, Query
from secfc.coded.quorum import NOBODY_MISSED, MissingMessageError, ServerContext, receive_all
from secfc.disclosure.checked.messages import SEED, MaskedProducts, RepliesFixed
from secfc.disclosure.checked.steps import (
    PRODUCTS,
    ROWS,
    CheckedReplies,
    CheckingClient,
    check_further,
    deal_all,
)
from secfc.errors import FaultyServer
from secfc.roles.exchange import SERVER, Exchange, PartyId, Role, expect_messages, to_all
from secfc.roles.messages import Message, check_residues


def blind_reply(
    plan: CodedPlan,
    me: int,
    keys: PairKeys,
    colluding: int,
    question: Query,
    measured: DistanceOracle,
    further: Array | None = None,
    *,
    bare: bool = False,
) -> CodedDistances | MissingMessages:
    """A responder's masked reply, with what it is checked by (lanes, more); or whose key it lacks.

    bare: whether only the latter is masked.
    """
    values = measured.distances(told_lanes(plan, measured.sizes, further is not None))
    hidden = values[:, :0] if bare else values
    lacking = NOBODY_MISSED
    if not bare or further is not None:
        lacking = mask_values(plan, me, keys, colluding, question, hidden, further)
    return MissingMessages(0, lacking) if lacking.size else CodedDistances(values, further=further)


def told_lanes(plan: CodedPlan, sizes: Array, checked: bool) -> int:
    """Lanes of replies about clusters of these sizes."""
    return plan.honest_lanes(sizes) if checked else plan.lanes(sizes)


def check_responders(plan: CodedPlan, question: Query) -> None:
    """Raises FaultyServer for responders whose masks do not cancel."""
    asked = question.responders.tolist()
    if len(asked) != plan.code.threshold(2) or sorted(asked) != asked:
        raise FaultyServer(SERVER, "asked for masks of other clients than a threshold of them, in order")


def mask_values(
    plan: CodedPlan,
    me: int,
    keys: PairKeys,
    colluding: int,
    question: Query,
    values: Array,
    further: Array | None = None,
) -> Array:
    """Mask a responder's values (lanes, *shape) in place; or the numbers of clients whose keys it lacks.

    Without their masks the reply would be bare, so then it must not leave.
    further: (lanes, more), perhaps of other lanes, masked so that they add up as they are, without weights.
    """
    responders = tuple(question.responders.tolist())
    lanes = len(values) if further is None else max(len(values), len(further))
    peers = masking_partners(plan.code, responders, me, lanes, colluding)
    context = mask_context(plan.code, responders, len(values), values.shape[1:], question.digest)
    streams = keys.streams(question.round, context, peers)
    lacking = np.array(sorted(set(peers) - set(streams)), np.int32)
    if not lacking.size:
        add_mask(plan.code, responders, me, streams, values, colluding)
        if further is not None:
            basis, weights = (
                plan.code.basis.prefix(len(further)),
                plan.code.decoding_weights(responders, 2)[1],
            )
            mask = mask_for(plan.code, responders, me, streams, len(further), further.shape[1:], colluding)
            mine = weights[: len(further), responders.index(me), None]
            further[...] = basis.add(further, basis.multiply(mask, mine))
    return lacking


# --------------------------------------------------------------------------------------------------
# Replies that a server decodes are checked before it uses them (`field.code.reply_check`).
#
# Else a client that adds to its reply turns each published label into a threshold test of its choice, and
# reads all rows in some hundred steps.  The server has the distances, so it compares weighted sums of these
# with what clients tell of their shares.
#
# Lanes are planned for rows that pass the test of shared rows, which may be thousands of times as large as
# honest ones; only a client that deviates has such rows.  So replies are told in the lanes that honest rows
# need, with product P; each integer that the server decodes, in [0, P), has to be within the range of honest
# rows, at most R s_h**2, and is reduced to further lanes, in which it is checked as well.
#
# Without these the check would hold modulo P alone, while the server compares integers: what the identities
# miss, kappa_i s_h**2, wraps around P for one cluster and not for another by how far row i is from their
# centers, so labels become threshold tests again (`tests/secfc/active/test_a9_wrapped_distances.py` reads all
# rows).  The range alone is not enough: multiples of P / (s_g s_h)**2 pass it.  With M the product of all
# lanes of the check, s_g**2 D_h - s_h**2 D_g is right modulo M, as kappa_i cancels; both this and the right
# one are at most R (s_g s_h)**2 in absolute value, so they are equal if M > 2 R (s_g s_h)**2
# (`CodedPlan.deciding_lanes`; divided by gcd(s_g, s_h)**2 on both sides).  So all that is left to add is a
# number kappa_i s_h**2 without wraparound, by which only the cost of a row seems larger.
#
# In rounds after the question's:
#
#  0  t + 1 responders deal shares of a random row 0 and of masks u; then all reply;
#  3  the server, which has all replies now, draws coins, and tells them.  It judges, so they need not be
#     drawn together: nobody knows them before replies are fixed, and it learns nothing by others;
#  5  who dealt tells all a digest of coins and question, as in `secfc.disclosure.checked.steps`: two sets of
#     coins under one row 0 would open a sum of everybody's rows to clients;
#  6  responders tell one another their words for A, and test that they lie on a polynomial;
#  7  they tell the server their words for V, which must fit what it decoded.
#
# Who sees what: the server replies of row 0 under u, which are uniform, and V, which follows from what it
# decoded; clients A, which is uniform, also to t of them with the server.  A client that falls silent is
# replaced, and the question put anew.


FIXED = 3


@dataclass(frozen=True, eq=False)
class DistanceVerification:
    """Everything public about the check of distances.

    sizes: of all clusters; clusters: numbers of those that compete.  halves: whether points are measured to
    both halves of their cluster: then by how much one is nearer is checked, so what is added to both
    distances of a point alike stays.  apart: whether replies are numbers of pairs of clusters, how far their
    means are apart.  lanes: that replies are told in.
    """

    asked: CheckedReplies
    sizes: Array
    clusters: Array
    halves: bool
    apart: bool
    lanes: int

    @property
    def basis(self) -> Basis:
        return self.asked.basis

    def columns(self, measured: DistanceOracle) -> Array:
        """A responder's shares of the sums that take part, (lanes, clusters, width)."""
        return np.ascontiguousarray(measured.rows.residues(measured.sums)[: self.basis.lanes, self.clusters])

    def select_checked(self, labels: Array, decoded: Array) -> Array:
        """What is checked, (lanes, rows, m), of decoded distances (lanes, k, m), to halves (lanes, 2, m); of
        numbers (lanes, pairs) these as they are, (lanes, pairs, 1)."""
        if self.apart:
            return decoded[:, :, None]
        if not self.halves:
            return np.ascontiguousarray(decoded[:, self.clusters])
        pairs = [(a, b, math.gcd(a, b) or 1) for a, b in self.sizes.reshape(-1, 2).tolist()]
        factors = np.array([[(b // g) ** 2, -((a // g) ** 2)] for a, b, g in pairs], object)
        scaled = self.basis.multiply(decoded, self.basis.reduce(factors.T)[:, :, labels // 2])
        return self.basis.add(scaled[:, :1], scaled[:, 1:])

    def bounds(self, labels: Array) -> tuple[Array, Array]:
        """Largest distances of honest rows, and which of them bound each row's, as `decode_residues` takes
        them."""
        most = np.array([self.asked.plan.honest_range(s) for s in self.sizes.tolist()], object)
        if self.halves:
            return most.reshape(-1, 2).T, labels // 2
        return most[:, None], np.zeros(len(labels), np.int64)

    def owners(self, rows: Array) -> list[PartyId]:
        """Who shared rows, (m,) bool."""
        plan = self.asked.plan
        spans = [plan.layout.span(j) for j in range(len(plan.clients))]
        return [c for c, (first, n) in zip(plan.clients, spans, strict=True) if rows[first : first + n].any()]


def reply_verification(
    plan: CodedPlan, question: Query, sizes: Array, after: int = 0
) -> DistanceVerification | None:
    """How replies to a question are checked; sizes: of all clusters.  after: so many steps, of rounding.

    None where nothing is compared, or no client is expected to deviate; and of what clusters cost, as the
    squares of rows do not cancel in it.
    """
    key = plan.digest(), question.digest, question.round, sizes.tobytes(), after
    return VERIFICATIONS.take(key, lambda: _verification(plan, question, sizes, after))


VERIFICATIONS = SharedValues()


def _verification(plan: CodedPlan, question: Query, sizes: Array, after: int) -> DistanceVerification | None:
    """See `reply_verification`."""
    operation, clusters = question.operation, np.arange(len(sizes))
    apart, basis = operation in (Operation.GAIN, Operation.LOSS), plan.code.basis
    check: ReplyCheck | None = None
    if apart:
        pairs = clusters.reshape(-1, 2) if operation is Operation.GAIN else question.detail
        # Rounded centers all stand for as many points.
        sizes = sizes if plan.fraction is None else np.minimum(sizes, 1)
        check = PairCheck(tuple((a, b) for a, b in pairs.tolist()), tuple(sizes.tolist()))
    elif operation.halves:
        check = HalfCheck(question.labels, tuple(sizes.tolist()), True) if widest_multiple(sizes) else None
    elif operation.opens == "distances":
        clusters = np.flatnonzero(sizes > 0)
        check = _distance_check(plan, question, sizes, clusters)
    if plan.code.t == 0 or check is None:
        return None
    if not apart:
        basis = basis.prefix(plan.deciding_lanes(sizes))
    public = plan.digest(), question.round, basis.primes, sizes.tolist(), question.digest
    context = hashlib.blake2b(repr(public).encode(), digest_size=32, person=b"secfc-decoded").digest()
    responders = tuple(plan.clients[j] for j in question.responders.tolist())
    asked = CheckedReplies(
        plan, check, basis, context, question.round, after, responders, responders[: plan.code.t + 1], SERVER,
        dealt=after, judges=(SERVER,), earlier=0,
    )  # fmt: skip
    told = basis.lanes if apart else plan.honest_lanes(sizes)
    return DistanceVerification(asked, sizes, clusters, operation.halves, apart, told)


def _distance_check(plan: CodedPlan, question: Query, sizes: Array, clusters: Array) -> DistanceCheck | None:
    """The check of distances to these clusters, which have points; None if there is one."""
    number = np.full(len(sizes) + 1, -1)  # the last one is for -1
    number[clusters] = np.arange(len(clusters))
    summed = np.array_equal(cluster_sizes(question.labels, question.k), sizes)
    own = number[question.labels] if summed else None
    kind = DistanceCheck if plan.init.factor == 1 else SquaredCheck
    return kind(plan.m, tuple(sizes[clusters].tolist()), own) if len(clusters) > 1 else None


# --- client --------------------------------------------------------------------------------------

# Makes a reply to a question, under the masks of its round, with further numbers if it is checked; or says
# whose keys are missing.
Blinding = Callable[[Query, Array | None], Message]


@dataclass(frozen=True, eq=False, repr=False)
class CheckedAnswer:
    """How client number `me` answers, blinded against `colluding` clients, and checks others.  Secret.

    bare: whether distances are told as they are, and only what they are checked by is blinded.
    """

    plan: CodedPlan
    me: int
    keys: PairKeys
    coins: Coins
    colluding: int
    bare: bool = False

    def __call__(self, question: Query, measured: DistanceOracle) -> Role[Message | None]:
        def blind(masked: Query, further: Array | None) -> Message:
            return blind_reply(
                self.plan, self.me, self.keys, self.colluding, masked, measured, further, bare=self.bare
            )

        return self.reply_checked(question, measured, blind)

    def reply_checked(
        self, question: Query, measured: DistanceOracle, blind: Blinding, after: int = 0
    ) -> Role[Message | None]:
        """My part, of which the server is still due what is returned.  blind: makes the reply.

        after: so many steps, of rounding, which used the streams of the question's round.
        """
        plan, me = self.plan, self.me
        check_responders(plan, question)
        if me not in question.responders:
            return None
        fresh = question.renumber(1) if after else question
        check = reply_verification(plan, question, measured.sizes, after)
        if check is None:
            return blind(fresh, None)
        others = [j for j in range(len(plan.clients)) if j != me]
        streams = self.keys.streams(fresh.round, check.asked.context, others)
        checking = CheckingClient(check.asked, plan.clients[me], streams, self.coins)
        try:
            yield from deal_all([checking])
        except MissingMessageError as silence:
            return self.report(silence)
        columns = check.columns(measured)
        # The streams of this round dealt row 0.
        reply = blind(fresh.renumber(1), checking.further(columns))
        if isinstance(reply, MissingMessages):
            return reply
        fixed = check.asked.round(FIXED)
        wait = Exchange({SERVER: reply}, (SERVER,), 0, round=question.round, accept=fixed, phase="distances")
        try:
            told = yield from receive_all(wait, RepliesFixed, FIXED)
        except MissingMessageError:
            return None  # some replies are missing, so the question is put anew
        checking.drawn = told[SERVER].coin
        try:
            yield from checking.verify(measured.rows, columns)
        except MissingMessageError as silence:
            yield from self.give_up(check.asked, silence)
        return None

    def report(self, silence: MissingMessageError) -> MissingMessages:
        """What the server is told where I go no further."""
        numbers = [self.plan.clients.index(c) for c in silence.missing if c != SERVER]
        return MissingMessages(silence.step, np.array(sorted(numbers), np.int32))

    def give_up(self, asked: CheckedReplies, silence: MissingMessageError) -> Role[None]:
        """Tell all that may wait for me that I go no further."""
        me, told = self.plan.clients[self.me], self.report(silence)
        others = tuple(c for c in asked.responders if c != me)
        nothing = MissingMessages(silence.step, NOBODY_MISSED)
        if silence.step < asked.at(ROWS):
            yield Exchange(to_all(others, nothing), round=asked.round(ROWS), phase="check")
        yield Exchange({SERVER: told}, round=asked.round(PRODUCTS), phase="check")


# --- server --------------------------------------------------------------------------------------


def verify_replies(
    desk: ServerContext,
    sizes: Array,
    shape: tuple[int, ...],
    question: Query,
    inbox: Mapping[PartyId, Any] | None,
    after: int = 0,
    passed: Callable[[Array], None] = lambda decoded: None,
) -> Role[tuple[set[PartyId], dict[PartyId, MissingMessages]] | None]:
    """Check replies to a question; inbox: None if some are missing, which responders that wait are told.

    sizes: of the clusters that distances are measured to.  shape: of distances, or of numbers.  after: as in
    `reply_verification`.  passed: takes what they decode to, in the lanes of replies, once it passed.
    Returns who said no more meanwhile, and who could not go on: then replies must not be used.  None if all
    fits.

    Raises SuspectedParties if they do not fit, FaultyClient for what is no reply.
    """
    check = reply_verification(desk.plan, question, sizes, after)
    if check is None:
        return None
    asked, fixed = check.asked, check.asked.round(FIXED)
    if inbox is None:
        stop = MissingMessages(FIXED, NOBODY_MISSED)
        yield Exchange(to_all(asked.responders, stop), round=fixed, phase="assign")
        return None
    masked, further, beyond = decoded_replies(check, question.labels, shape, inbox)
    coin = desk.screening.coins.bytes(SEED)
    yield Exchange(to_all(asked.responders, RepliesFixed(coin)), round=fixed, phase="assign")
    weights = asked.weights(asked.seed(coin))
    wait = Exchange({}, asked.responders, 0, round=asked.round(PRODUCTS), phase="assign")
    heard = yield wait
    unable = {c: m for c, m in heard.items() if isinstance(m, MissingMessages)}
    told = expect_messages({c: m for c, m in heard.items() if c not in unable}, MaskedProducts)
    gone = set(asked.responders) - set(heard)
    if gone or unable:
        named = gone or any(m.missing.size for m in unable.values())
        # Who did not go on, and says not why, is one of those that deal.
        return gone if named else set(asked.committee), unable
    words = {c: asked.check_products(c, m) for c, m in told.items()}
    values = check.select_checked(question.labels, masked)
    masks = np.zeros_like(weights.offset)
    asked.accept(weights, weights.combine(values, further), masks, words, check.lanes)
    if beyond.any():
        raise asked.out_of_range(check.owners(beyond))
    passed(masked[: check.lanes])
    return None


def decoded_replies(
    check: DistanceVerification, labels: Array, shape: tuple[int, ...], inbox: Mapping[PartyId, Any]
) -> tuple[Array, Array, Array]:
    """What replies (lanes, *shape) and further numbers (lanes, more) add up to, residues in all lanes.

    Also which rows (m,) have distances beyond what honest rows have.
    """
    asked, basis, code = check.asked, check.basis, check.asked.plan.code
    due: type[Any] = CodedGains if check.apart else CodedDistances
    replies = expect_messages(inbox, due)
    for sender, message in replies.items():
        check_residues(basis.prefix(check.lanes), sender, message.values, shape)
    more = [check_further(basis, c, m.further, asked) for c, m in replies.items()]
    numbers = {asked.plan.clients.index(c): m.values for c, m in replies.items()}
    together = reduce(basis.add, more)
    if check.apart:
        return code.decode(numbers, 2), together, np.zeros(0, np.bool_)
    most, groups = check.bounds(labels)
    found, beyond = decode_residues(code, numbers, basis.lanes, most, groups)
    return found, together, beyond
