"""Replies to a server that decodes: under zero-sum masks, so it gets their weighted sum, and checked."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.code.distances import widest_multiple
from field.code.masking import PairKeys, add_mask, mask_context, mask_for, masking_partners
from field.code.reply_check import DistanceCheck, HalfCheck, PairCheck, ReplyCheck
from field.code.rows import cluster_sizes
from field.code.wraparound_check import compress_distances
from field.ring.basis import Basis
from field.secrets.coins import Coins
from secfc.coded.messages import CodedDistances, CodedGains, MissingMessages
from secfc.coded.plan import CodedPlan
from secfc.coded.policy import DistanceOracle
from secfc.coded.queries import Operation, Query
from secfc.coded.quorum import NOBODY_MISSED, MissingMessageError, receive_all
from secfc.disclosure.checked.messages import MaskedProducts, RepliesFixed
from secfc.disclosure.checked.steps import (
    DIGESTS,
    PRODUCTS,
    ROWS,
    CheckedReplies,
    CheckingClient,
    check_further,
    deal_all,
    hear_coins,
)
from secfc.errors import FaultyServer
from secfc.roles.exchange import SERVER, Exchange, PartyId, Role, expect_messages, to_all
from secfc.roles.messages import Message, check_residues

Array = NDArray[Any]


def masked_reply(
    plan: CodedPlan, me: int, keys: PairKeys, colluding: int, question: Query, measured: DistanceOracle
) -> Role[CodedDistances | MissingMessages | None]:
    """The reply under a mask that only the weighted sum over all responders sheds; or whose key I lack."""
    yield from ()
    check_responders(plan, question)
    if me not in question.responders:
        return None
    return blind_reply(plan, me, keys, colluding, question, measured)


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
    values = measured.distances(plan.lanes(measured.sizes))
    hidden = values[:, :0] if bare else values
    lacking = NOBODY_MISSED
    if not bare or further is not None:
        lacking = mask_values(plan, me, keys, colluding, question, hidden, further)
    if lacking.size:
        return MissingMessages(0, lacking)
    lanes = plan.honest_lanes(measured.sizes)
    if not question.coins or lanes == len(values):
        return CodedDistances(values, further=further)
    first, sums = compress_distances(plan.code, values, lanes, question.coins)
    return CodedDistances(first, sums=sums, further=further)


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
    further: (lanes, more), perhaps of fewer lanes, masked so that they add up as they are, without weights.
    """
    responders = tuple(question.responders.tolist())
    peers = masking_partners(plan.code, responders, me, len(values), colluding)
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
# with what clients tell of their shares.  In rounds after the question's:
#
#  0  t + 1 responders commit to coins, and deal shares of a random row 0 and of masks u; then all reply;
#  3  the server says that it has all replies: from here on they are fixed;
#  4  who dealt opens its coin to all, and tells a digest of all coins in 5, as in
#     `secfc.disclosure.checked.steps`;
#  6  responders tell one another their words for A, and test that they lie on a polynomial;
#  7  they tell the server their words for V, which must fit what it decoded.
#
# Who sees what: the server replies of row 0 under u, which are uniform, and V, which follows from what it
# decoded; clients A, which is uniform, also to t of them with the server.  A client that falls silent is
# replaced, and the question put anew.


FIXED = 3


@dataclass(frozen=True, eq=False)
class DistanceVerification:
    """Everything public about the check of distances; clusters: whose distances compete.

    halves: sizes (2 c,) where points are measured to both halves of their cluster: then by how much one is
    nearer is checked, so what is added to both distances of a point alike stays.  apart: whether replies are
    numbers of pairs of clusters, how far their means are apart.
    """

    asked: CheckedReplies
    clusters: Array
    halves: Array | None = None
    apart: bool = False

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
        if self.halves is None:
            return np.ascontiguousarray(decoded[:, self.clusters])
        pairs = [(a, b, math.gcd(a, b) or 1) for a, b in self.halves.reshape(-1, 2).tolist()]
        factors = np.array([[(b // g) ** 2, -((a // g) ** 2)] for a, b, g in pairs], object)
        scaled = self.basis.multiply(decoded, self.basis.reduce(factors.T)[:, :, labels // 2])
        return self.basis.add(scaled[:, :1], scaled[:, 1:])


def reply_verification(plan: CodedPlan, question: Query, sizes: Array) -> DistanceVerification | None:
    """How replies to a question are checked; sizes: of all clusters.

    None where nothing is compared, or no client is expected to deviate; and of what clusters cost, as the
    squares of rows do not cancel in it.
    """
    operation, clusters = question.operation, np.arange(len(sizes))
    apart, basis = operation in (Operation.GAIN, Operation.LOSS), plan.code.basis
    check: ReplyCheck | None = None
    if apart:
        pairs = clusters.reshape(-1, 2) if operation is Operation.GAIN else question.detail
        check = PairCheck(tuple((a, b) for a, b in pairs.tolist()), tuple(sizes.tolist()))
    elif operation.halves:
        check = HalfCheck(question.labels, tuple(sizes.tolist()), True) if widest_multiple(sizes) else None
    elif operation.opens == "distances":
        clusters = np.flatnonzero(sizes > 0)
        check = _distance_check(plan, question, sizes, clusters)
    if plan.code.t == 0 or check is None:
        return None
    if not apart:
        basis = basis.prefix(plan.honest_lanes(sizes) if question.coins else plan.lanes(sizes))
    public = plan.digest(), question.round, basis.primes, sizes.tolist(), question.digest
    context = hashlib.blake2b(repr(public).encode(), digest_size=32, person=b"secfc-decoded").digest()
    responders = tuple(plan.clients[j] for j in question.responders.tolist())
    asked = CheckedReplies(
        plan, check, basis, context, question.round, 0, responders, responders[: plan.code.t + 1], SERVER,
        judges=(SERVER,), earlier=0,
    )  # fmt: skip
    return DistanceVerification(asked, clusters, sizes if operation.halves else None, apart)


def _distance_check(plan: CodedPlan, question: Query, sizes: Array, clusters: Array) -> DistanceCheck | None:
    """The check of distances to these clusters, which have points; None if there is one."""
    number = np.full(len(sizes) + 1, -1)  # the last one is for -1
    number[clusters] = np.arange(len(clusters))
    summed = np.array_equal(cluster_sizes(question.labels, question.k), sizes)
    own = number[question.labels] if summed else None
    return DistanceCheck(plan.m, tuple(sizes[clusters].tolist()), own) if len(clusters) > 1 else None


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
        self, question: Query, measured: DistanceOracle, blind: Blinding
    ) -> Role[Message | None]:
        """My part, of which the server is still due what is returned.  blind: makes the reply."""
        plan, me = self.plan, self.me
        check_responders(plan, question)
        if me not in question.responders:
            return None
        check = reply_verification(plan, question, measured.sizes)
        if check is None:
            return blind(question, None)
        others = [j for j in range(len(plan.clients)) if j != me]
        streams = self.keys.streams(question.round, check.asked.context, others)
        checking = CheckingClient(check.asked, plan.clients[me], streams, self.coins)
        try:
            yield from deal_all([checking])
        except MissingMessageError as silence:
            return self.report(silence)
        columns = check.columns(measured)
        # The streams of this round dealt row 0.
        reply = blind(replace(question, round=question.round + 1), checking.further(columns))
        if isinstance(reply, MissingMessages):
            return reply
        fixed = question.round + FIXED
        wait = Exchange({SERVER: reply}, (SERVER,), 0, round=question.round, accept=fixed, phase="distances")
        try:
            yield from receive_all(wait, RepliesFixed, FIXED)
        except MissingMessageError:
            return None  # some replies are missing, so the question is put anew
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
        if silence.step < DIGESTS and me in asked.committee:
            yield Exchange(to_all((*others, SERVER), nothing), round=asked.round(DIGESTS), phase="check")
        if silence.step < ROWS:
            yield Exchange(to_all(others, nothing), round=asked.round(ROWS), phase="check")
        yield Exchange({SERVER: told}, round=asked.round(PRODUCTS), phase="check")


# --- server --------------------------------------------------------------------------------------


def verify_replies(
    plan: CodedPlan,
    sizes: Array,
    shape: tuple[int, ...],
    question: Query,
    inbox: Mapping[PartyId, Any] | None,
) -> Role[tuple[set[PartyId], dict[PartyId, MissingMessages]] | None]:
    """Check replies to a question; inbox: None if some are missing, which responders that wait are told.

    sizes: of the clusters that distances are measured to.  shape: of distances, or of numbers.
    Returns who said no more meanwhile, and who could not go on: then replies must not be used.  None if all
    fits.

    Raises SuspectedParties if they do not fit, FaultyClient for what is no reply.
    """
    check = reply_verification(plan, question, sizes)
    if check is None:
        return None
    asked, fixed = check.asked, question.round + FIXED
    if inbox is None:
        stop = MissingMessages(FIXED, NOBODY_MISSED)
        yield Exchange(to_all(asked.responders, stop), round=fixed, phase="assign")
        return None
    masked, further = decoded_replies(check, shape, inbox)
    yield Exchange(to_all(asked.responders, RepliesFixed()), round=fixed, phase="assign")
    silent, weights = set[PartyId](), None
    try:
        weights = asked.weights((yield from hear_coins(asked, SERVER, b"", {})))
    except MissingMessageError as silence:
        silent = set(silence.missing)
    wait = Exchange({}, asked.responders, 0, round=asked.round(PRODUCTS), phase="assign")
    heard = yield wait
    unable = {c: m for c, m in heard.items() if isinstance(m, MissingMessages)}
    told = expect_messages({c: m for c, m in heard.items() if c not in unable}, MaskedProducts)
    gone = set(asked.responders) - set(heard)
    if gone or unable or weights is None:
        named = gone or any(m.missing.size for m in unable.values())
        # Who did not go on, and says not why, is one of those that deal.
        return gone if named else silent or set(asked.committee), unable
    words = {c: asked.check_products(c, m) for c, m in told.items()}
    values = check.select_checked(question.labels, masked)
    asked.accept(weights, weights.combine(values, further), np.zeros_like(weights.offset), words)
    return None


def decoded_replies(
    check: DistanceVerification, shape: tuple[int, ...], inbox: Mapping[PartyId, Any]
) -> tuple[Array, Array]:
    """What replies (lanes, *shape) and further numbers (lanes, more) add up to, residues."""
    asked, basis, code = check.asked, check.basis, check.asked.plan.code
    due: type[Any] = CodedGains if check.apart else CodedDistances
    replies = expect_messages(inbox, due)
    for sender, message in replies.items():
        check_residues(basis, sender, message.values, shape)
    more = [check_further(basis, c, m.further, asked) for c, m in replies.items()]
    numbers = {asked.plan.clients.index(c): m.values for c, m in replies.items()}
    return code.decode(numbers, 2), reduce(basis.add, more)
