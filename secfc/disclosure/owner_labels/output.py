"""Who is told which labels, and by whom: where owners of rows are public, and where they are hidden.

Public owners: every member of the committee tells an owner its share of the digits of the owner's own labels.

Hidden owners (`Private()` membership): nobody may see which rows an owner asks for.  It shares a bit a row, 1
where it holds the row, with the responders (`field.code.masking`), who have shares of the labels, and so of
their numbers, counted from 1.  A responder multiplies both, and tells the owner its weighted part
of the product at one data point, plus masks that it shares with every other responder and that cancel.  So
the owner learns the number of its rows, 0 for all others.  It also shares a secret key where it holds a row,
and learns the number times that key: who changes the one cannot change the other alike.  No mask of the
dealer has part in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, ClassVar

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from field.code.lagrange_code import LagrangeCode
from field.code.masking import deal_part, expand_share, seeded_receivers, weighted_part
from field.code.rows import CodedRows
from field.compare import bitslice
from field.compare.assignment_step import select_planes
from field.secrets.coins import Coins
from secfc.coded.messages import MissingMessages, OwnShare, SelectedRowShare
from secfc.coded.plan import CodedPlan
from secfc.coded.quorum import NOBODY_MISSED
from secfc.disclosure.checked.messages import CheckedPart, OwnersHeard, ResharedPart
from secfc.disclosure.checked.parts import split_shares, tell_shares
from secfc.disclosure.checked.products import PROOFS, Claim, checking_steps, holder_claim, known_sums
from secfc.disclosure.compare.client import label_check_round
from secfc.disclosure.compare.session import ComparisonSession, check_words
from secfc.disclosure.dealerless.steps import AnswerRounds
from secfc.disclosure.owner_labels.multiplication import SecureMultiplication, label_bits
from secfc.errors import SuspectedParties
from secfc.roles.blame import suspect_parties
from secfc.roles.exchange import SERVER, STRIDE, Exchange, PartyId, Role, expect_messages
from secfc.roles.messages import Message, check_residues


@dataclass(frozen=True, eq=False, repr=False)
class PublicOwners:
    """Labels of rows whose owners all know.  me: the number of this client."""

    plan: CodedPlan
    me: int

    kind: ClassVar[type[Message]] = OwnShare

    @property
    def asking(self) -> tuple[int, ...]:
        """The clients that are told labels."""
        return tuple(j for j in range(len(self.plan.clients)) if self.plan.layout.span(j)[1])

    def telling(self, match: ComparisonSession) -> tuple[PartyId, ...]:
        """The clients that tell them."""
        return match.committee

    def told(self, match: ComparisonSession, hidden: Mapping[int, Array]) -> dict[int, Message]:
        """What a member tells each owner, of its parts' hidden shares of labels' digits (places, words)."""
        spans, out = {j: self.plan.layout.span(j) for j in self.asking}, dict[int, Message]()
        at = match.committee.index(self.plan.clients[self.me])
        for j, (first, count) in spans.items():
            own = {q: select_planes(share, first, first + count) for q, share in hidden.items()}
            out[j] = OwnShare(*tell_shares(match.blocks, at, match.context, own))
        return out

    def labels(self, match: ComparisonSession, k: int, heard: Mapping[PartyId, Any]) -> Array:
        """My labels (m,), -1 elsewhere, from what all told me.  Raises FaultyClient, SuspectedParties."""
        first, count = self.plan.layout.span(self.me)
        shape, blocks = (label_bits(k), bitslice.word_count(count)), match.blocks
        words, digests = dict[PartyId, Array](), dict[PartyId, bytes]()
        for i, c in enumerate(match.committee):
            told = len(blocks.told_by(i))
            planes = check_words(c, heard[c].words, (told * shape[0], shape[1]))
            words[c], digests[c] = planes.reshape(told, *shape), heard[c].digests
        parts = split_shares(blocks, match.committee, match.context, words, digests)
        found = bitslice.from_planes(reduce(np.bitwise_xor, parts), count)
        labels = np.full(self.plan.m, -1, np.int32)
        labels[first : first + count] = check_owner_labels(match, k, found)
        return labels


@dataclass(frozen=True, eq=False, repr=False)
class HiddenOwners:
    """Labels of rows of which each client knows only which are its own.

    me: the number of this client.  rows: its own rows, secret.  read: its integers at any rows, secret; None
    where it only responds.  key: a residue, secret, that labels must be told times as well.
    """

    plan: CodedPlan
    me: int
    rows: Array
    read: Callable[[int, int], Array] | None = None
    key: int = 0

    kind: ClassVar[type[Message]] = SelectedRowShare

    @property
    def asking(self) -> tuple[int, ...]:
        """The clients that are told labels: who owns none asks all the same."""
        return tuple(range(len(self.plan.clients)))

    def telling(self, match: ComparisonSession) -> tuple[PartyId, ...]:
        """The clients that tell them."""
        return match.responders

    def labels(self, match: ComparisonSession, k: int, heard: Mapping[PartyId, Any]) -> Array:
        """My labels (m,), -1 elsewhere, from what all told me.  Raises FaultyClient, SuspectedParties."""
        basis, m = self.code.basis, self.plan.m
        for c, message in heard.items():
            check_residues(basis, c, message.values, (m * self.factors,))
        told = basis.add_all([message.values for message in heard.values()])
        found = told[0, :m].astype(np.int64) - 1
        # A number below 2**31 times a key below 2**31.
        keyed = (found + 1) * self.key % basis.primes[0]
        if self.factors > 1 and (told[0, m:] != keyed).any():
            raise suspects_of_false_labels(match)
        if np.count_nonzero(found >= 0) != np.count_nonzero(self.owned):
            raise suspects_of_false_labels(match)
        labels = np.full(self.plan.m, -1, np.int32)
        labels[self.rows] = check_owner_labels(match, k, found[self.rows])
        return labels

    # --- how they are picked

    @cached_property
    def code(self) -> LagrangeCode:
        """Labels are small: one lane holds them."""
        return replace(self.plan.code, basis=self.plan.code.basis.prefix(1))

    @property
    def owned(self) -> Array:
        """(1, m) residues, 1 at my rows."""
        out = np.zeros((1, self.plan.m), np.uint32)
        out[0, self.rows] = 1
        return out

    @property
    def keyed(self) -> Array:
        """(1, m) residues, my key at my rows."""
        return (self.owned * np.uint64(self.key)).astype(np.uint32)

    @property
    def proofs(self) -> int:
        """How many sums of features an owner shares of each row that it claims."""
        return PROOFS if checking_steps(self.plan) else 0

    @property
    def factors(self) -> int:
        """By how many numbers a row labels are told: by bits, and by the key where products are checked."""
        return 1 + bool(self.proofs)

    def forms(self, match: ComparisonSession) -> Array:
        """Weights (1, proofs, width) of features in these sums: public, and new for each question."""
        key = hashlib.blake2b(match.context, digest_size=16, person=b"secfc-own-rows").digest()
        return self.code.basis.sample((self.proofs, self.code.width(self.plan.d)), Coins(key))

    def known(self, match: ComparisonSession) -> Array:
        """Sums (1, ell, proofs * m) of features of my rows, by segment: who lacks a row lacks them."""
        points = np.zeros((self.plan.m, self.plan.d), object)
        if self.read is not None:
            points[:] = self.read(0, self.plan.m)
        # Of points below 2**40 and multiples of them below 2**20 in absolute value.
        return known_sums(self.code, self.forms(match), points * self.plan.layout.multiple)

    def claim(self, match: ComparisonSession, shares: Mapping[int, Array], rows: CodedRows) -> Claim:
        """A claim that owners' bits are bits, and 1 at rows alone whose sums of features they share.

        shares: what these owners dealt me.
        """
        basis, m = self.code.basis, self.plan.m
        sums = rows.multiply_rows(self.forms(match), np.zeros((1, self.proofs), basis.dtype))
        dealt = np.stack([shares[j] for j in sorted(shares)], axis=1)
        bits, told, keyed = np.split(dealt, [m, m * (1 + self.proofs)], axis=2)
        told = told.reshape(1, len(shares), self.proofs, m)
        return holder_claim(basis, np.ascontiguousarray(bits), sums, told, np.ascontiguousarray(keyed))

    def numbers(self, match: ComparisonSession, one_hot: Array) -> Array:
        """A responder's share (1, m) of every label plus one, of its share of labels (lanes, K, m)."""
        weights = self.code.basis.reduce(np.flatnonzero(match.sizes)[None] + 1)
        return np.asarray(self.code.basis.matmul(weights, np.ascontiguousarray(one_hot[:1]))[:, 0])

    def expanded_by(self, responders: tuple[int, ...]) -> tuple[int, ...]:
        """The clients of whose dealing my share follows from seeds, if I am to respond."""
        others = (j for j in self.asking if j != self.me and self.me in responders)
        return tuple(j for j in others if self.me in seeded_receivers(self.code, j, responders))

    def dealt(
        self, match: ComparisonSession, responders: tuple[int, ...], streams: Mapping[int, Coins]
    ) -> dict[int, Array]:
        """My rows, and what I know of them, for responders without seeds.

        streams: with those that have them.
        """
        rows, keyed = (np.repeat(x[:, None], self.code.ell, axis=1) for x in (self.owned, self.keyed))
        secret = np.concatenate([rows, self.known(match), keyed][: 1 + self.factors], axis=2)
        known = seeded_receivers(self.code, self.me, responders)
        return deal_part(self.code, secret, known, responders, [streams[j] for j in known])

    @property
    def size(self) -> int:
        """Residues of what a client deals to a responder."""
        return self.plan.m * (self.factors + self.proofs)

    def picked(
        self,
        match: ComparisonSession,
        responders: tuple[int, ...],
        shares: Mapping[int, Array],
        numbers: Array,
        peers: Mapping[int, Coins],
    ) -> dict[int, Message]:
        """What a responder tells each owner.

        shares: what clients dealt me, by number.  numbers: see there.  peers: streams with the other
        responders.
        """
        m, basis = self.plan.m, self.code.basis
        told: dict[int, Message] = {}
        for j in self.asking:
            # Also of owners that are gone, so that all expand their streams alike.
            masks = [
                mask if self.me < i else basis.negate(mask).astype(mask.dtype)
                for i, mask in ((i, basis.sample((m * self.factors,), stream)) for i, stream in peers.items())
            ]
            if j not in shares:
                continue
            owned = np.concatenate([shares[j][:, :m], shares[j][:, m * (1 + self.proofs) :]], axis=1)
            product = basis.multiply(np.tile(numbers, self.factors), owned)
            # The first data point is enough: the secrets are the same at all of them.
            mine = weighted_part(self.code, responders, self.me, product[:, None])[:, 0, : m * self.factors]
            told[j] = SelectedRowShare(basis.add_all([np.ascontiguousarray(mine), *masks]))
        return told


def check_owner_labels(match: ComparisonSession, k: int, found: Array) -> Array:
    """Labels below k and none below 0.  Raises SuspectedParties for others."""
    if int(found.max(initial=0)) >= k or int(found.min(initial=0)) < 0:
        raise suspects_of_false_labels(match)
    return found


def suspects_of_false_labels(match: ComparisonSession) -> SuspectedParties:
    """Those who may have told false labels."""
    why = "the shares of my labels add up to clusters that are not there"
    return suspect_parties(
        "OwnShare", why, committee=match.committee, dealers=match.seating.dealers, server=SERVER
    )


# --------------------------------------------------------------------------------------------------
# The end of a run on shared labels: who tells owners their labels, role fragments of every client.

# The step after all others of an answer, in which owners hear their labels.
LAST = STRIDE - 1


def select_owner_rows(
    owners: HiddenOwners,
    match: ComparisonSession,
    steps: AnswerRounds,
    one_hot: Array | None,
    products: SecureMultiplication,
    rows: CodedRows,
) -> Role[Mapping[int, Message] | None]:
    """What I tell each hidden owner, if I am to respond: nobody learns which rows are whose.

    one_hot: my share of the labels (lanes, K, m), if I respond.  rows: my shares of all.

    Raises Stalled if a responder is not heard; who only owns points may be gone.  Raises SuspectedParties for
    owners that ask for rows which they do not hold.
    """
    clients, me, streams = match.plan.clients, owners.me, partial(products.streams, match)
    responders = tuple(match.question.responders.tolist())
    expanded = owners.expanded_by(responders)
    seeds = streams(2, {*seeded_receivers(owners.code, me, responders), *expanded})
    dealt = owners.dealt(match, responders, seeds)
    send = {j: ResharedPart(share) for j, share in dealt.items() if j != me}
    awaited = [j for j in owners.asking if one_hot is not None and j != me and j not in expanded]
    inbox, _ = yield from steps.heard(send, awaited, ResharedPart)
    if one_hot is None:
        return None
    for j, message in inbox.items():
        check_residues(owners.code.basis, clients[j], message.values, (owners.size,))
    shares = {j: share for j, share in dealt.items() if j == me}
    shares |= {j: message.values for j, message in inbox.items()}
    shares |= {j: expand_share(owners.code, owners.size, seeds[j]) for j in expanded}
    peers = streams(3, {*responders})
    checked = yield from check_owners(owners, match, steps, shares, products, rows)
    return owners.picked(match, responders, checked, owners.numbers(match, one_hot), peers)


def check_owners(
    owners: HiddenOwners,
    match: ComparisonSession,
    steps: AnswerRounds,
    shares: Mapping[int, Array],
    products: SecureMultiplication,
    rows: CodedRows,
) -> Role[Mapping[int, Array]]:
    """What owners that all responders heard dealt me, once it is known that they hold what they ask for.

    An owner shares, at its rows, sums of features under weights that are public and new.  At rows that it
    does not hold it can only guess the data, all of it at once, and a wrong guess ends the run.
    """
    if not checking_steps(owners.plan):
        return shares
    mine = OwnersHeard(np.array(sorted(shares), np.int32))
    others = [j for j in match.question.responders.tolist() if j != owners.me]
    received = yield from steps.exchange(dict.fromkeys(others, mine), others, OwnersHeard)
    told = {owners.me: mine, **received}
    heard = [told[j].numbers for j in sorted(told)]
    agreed = reduce(np.intersect1d, heard).tolist()
    shares = {j: shares[j] for j in agreed}
    verifier = products.verifier(match, len(agreed) * owners.plan.m, heard)
    if verifier is not None:
        send, _ = verifier.deal(np.empty((1, owners.code.ell, 0), owners.code.basis.dtype))
        dealt = yield from steps.exchange(send, others, CheckedPart)
        verifier.take(dealt, 0)
        yield from products.verify(match, steps, verifier, [owners.claim(match, shares, rows)])
    return shares


def labels_of_own_points(
    match: ComparisonSession, k: int, owners: PublicOwners | HiddenOwners, told: Mapping[int, Message] | None
) -> Role[tuple[Array | None, set[int]]]:
    """The labels (m,) of my own rows, None if not all who tell told me; and who said nothing.

    told: what I tell owners, by number, None if I cannot.
    """
    clients, send = match.plan.clients, dict[PartyId, Message]()
    telling, name, asks = owners.telling(match), clients[owners.me], owners.me in owners.asking
    if name in telling:
        stalled = dict.fromkeys(owners.asking, MissingMessages(LAST, NOBODY_MISSED))
        send = {clients[j]: message for j, message in (stalled if told is None else told).items()}
    own = {c: send.pop(c) for c in (name,) if c in send}
    others = tuple(c for c in telling if c != name) if asks else ()
    inbox = yield Exchange(send, others, 0, round=label_check_round(match.question), phase="open")
    if not asks:
        return np.full(match.plan.m, -1, np.int32), set()
    spoken = {c: m for c, m in (own | dict(inbox)).items() if not isinstance(m, MissingMessages)}
    heard = expect_messages(spoken, owners.kind)
    if len(heard) < len(telling):
        return None, {clients.index(c) for c in others if c not in inbox}
    return owners.labels(match, k, heard), set()
