"""Replies to a comparison are checked before anything of it leaves the committee (`field.code.reply_check`).

Sums of clusters whose centers are rounded are checked in the same way, without 6, while members divide, and
deal and use quotients.

Steps are rounds after the question, counted on from what precedes replies:

 0  witnesses, the first t + 1 members of the committee, commit to a coin each, and deal shares of a random
    row 0 and of masks u;
 2  responders send their masked replies, also of row 0;
 3  members add them up, and tell one another: from here on all replies are fixed, at each witness;
 4  witnesses open their coins to one another.  Where parts are played by several some members are none,
    and may be told sums after that, made for these coins: digests of sums, by its own coin too, are
    compared before anything leaves the committee (`secfc.disclosure.checked.words`);
 5  they tell all who check, and the dealer, what these give, with a digest of it and of the question.  Who
    hears another one from any of them than from the others, or a digest that is not of its own question, says
    nothing more: two sets of coins under one row 0 would open a sum of everybody's rows, and of the dealer a
    sum of distances;
 6  responders tell one another their words for A, and test that they lie on a polynomial: the first, as many
    as fix one, tell words, and the others tags of theirs, under keys of sender and receiver.  If x of t
    deviating clients tell false words, t + 1 - x honest ones do not, and x honest ones vouch at least: a
    polynomial of degree t is not the right one at all of these;
 7  they tell members their words for V;
 8  the dealer tells members what its masks add up to.  A member goes on if all fits.

Where labels are opened, members compare meanwhile, an opening before each step from 4 on: what they open is
uniform whatever replies are, under masks of tables that are used once, so none of it waits; what leaves the
committee does, shares of labels and digests of words.

Replies about points do not wait for row 0 there, nor do sums whose centers are rounded wait for u: further
replies, of row 0 and of centers, follow them one step later, to the member that is corrected, which tells the
others their sum beside the first opening.  After rounding, row 0 is dealt beside quotients.  Coins are opened
beside the second one, so all replies are fixed at each witness before, as in 3.  A sum that came with coins,
or after them, could be made for these.

Where nobody deals, each member adds up a part of the replies, under masks that cancel over all of them; no M
is told in 3, and in 8 members tell one another what their parts add up to, weighted.  All of these together
are V, so they show nothing else: any t members lack a part, and the parts are uniform but for their sum.  A
member says of its own part what it likes, so this stops responders that are no members alone.  Where two play
each part, members show one another digests of parts in 3, so coins are opened once all have theirs.

The check fails or not by what was added to replies, and by coins, whatever the rows are; and a failure ends
the run.  So nothing is learned from it, and there is one try.  A deviating client among witnesses may see all
other coins first, and fall silent instead: then it, or whom it says that it did not hear, is left out, and
the question is put anew under other coins.  So it has a try more for each client that can be left out, fewer
than n.

Who sees what: responders A, members V as well, each uniform; the dealer what coins give.  Of t + 1 witnesses
one is honest: it tells all the same, of coins that were committed to before and that nobody chose.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from field.arrays import Array
from field.cached import SharedValues, cached_property
from field.code.masking import deal_uniform, uniform_receivers
from field.code.pair_check import AcrossCheck
from field.code.reply_check import (
    REPETITIONS,
    CheckWeights,
    OffPolynomial,
    ReplyCheck,
    extend_words,
    open_words,
    segment_weights,
    sum_last,
    weigh_further,
)
from field.code.rows import CodedRows
from field.ring.basis import Basis
from field.secrets.coins import Coins
from secfc.coded.messages import MaskedSum, MissingMessages
from secfc.coded.plan import CodedPlan
from secfc.coded.quorum import NOBODY_MISSED, MissingMessageError, receive_all
from secfc.disclosure.checked.messages import (
    SEED,
    SIZE,
    CheckCoin,
    CheckDealing,
    CheckDigest,
    MaskedProducts,
    MaskedRow,
    MaskSums,
    PartSums,
)
from secfc.errors import SuspectedParties
from secfc.roles.blame import suspect_parties
from secfc.roles.exchange import SERVER, Exchange, PartyId, Role, blame_error, to_all
from secfc.roles.messages import Message, check_residues

# Steps of the check; those in between belong to replies.
DEAL_ROW, SENT, COINS, DIGESTS, ROWS, PRODUCTS, MASKS = 0, 2, 4, 5, 6, 7, 8
# So many steps are from coins on: a comparison opens its first words after them, or one between each two.
STEPS = 5
DRAWN = SharedValues()  # weights, of which coins tell all
# To a server the answer has the number of the question, and what it asks portions of comes before.
EARLIER = 128


@dataclass(frozen=True, eq=False)
class CheckedReplies:
    """Everything public about the check of one question's replies.

    basis: of replies.  context: 32 bytes, of this check alone.  number: of the question; begun: the step that
    precedes replies.  committee: who adds up replies, or a part of them each.  dealer: who knows the masks of
    replies; None where nobody does, and parts add up to replies.  dealt: the step in which members deal.
    what: is checked, for errors.  judges: who hears V, the members if nobody else.  earlier: by so much a
    server's rounds precede.  alike: where nobody deals so many neighbors in a committee add up the same.
    slots: the steps of the answer beside openings of members, which so go on meanwhile: a step of the check
    from coins on is in one each.  Empty where members wait.  later: so many of these later come 7 and 8, as
    words for V wait for another check.
    adder: who adds up further replies that come behind the others; None where they come with these.
    """

    plan: CodedPlan
    check: ReplyCheck
    basis: Basis
    context: bytes
    number: int
    begun: int
    responders: tuple[PartyId, ...]
    committee: tuple[PartyId, ...]
    dealer: PartyId | None
    dealt: int = DEAL_ROW
    what: str = "replies"
    judges: tuple[PartyId, ...] = ()
    earlier: int = EARLIER
    alike: int = 1
    slots: tuple[int, ...] = ()
    later: int = 0
    adder: PartyId | None = None

    @property
    def witnesses(self) -> tuple[PartyId, ...]:
        """The members whose coins count, and who deal what hides the check: one of them is honest."""
        return self.committee[: self.plan.code.t + 1]

    @cached_property
    def told(self) -> tuple[PartyId, ...]:
        """Who hears what coins give: all who check, and the dealer."""
        dealers = () if self.dealer is None else (self.dealer,)
        return tuple(dict.fromkeys((*self.committee, *self.responders, *dealers)))

    @cached_property
    def receivers(self) -> tuple[int, ...]:
        """Numbers of the responders."""
        return tuple(self.plan.clients.index(c) for c in self.responders)

    @property
    def telling(self) -> tuple[PartyId, ...]:
        """The responders that tell their words for A: as many as fix a polynomial."""
        return self.responders[: self.plan.code.threshold(1)]

    def complete_words(self, words: Mapping[PartyId, Array]) -> tuple[dict[PartyId, Array], Array]:
        """The words of all responders, of those that tell them; and what they are shares of, by segment."""
        clients = self.plan.clients
        told = {clients.index(c): word for c, word in words.items()}
        silent = tuple(clients.index(c) for c in self.responders if c not in words)
        found, opened = extend_words(self.plan.code, self.basis, told, silent)
        return {**words, **{clients[j]: word for j, word in found.items()}}, opened

    @property
    def row_shape(self) -> tuple[int, int, int]:
        """Shape of row 0, without lanes."""
        return REPETITIONS, self.check.vectors, self.plan.code.width(self.plan.d)

    @property
    def mask_shape(self) -> tuple[int, int, int]:
        """Shape of u, without lanes."""
        return REPETITIONS, self.check.zeros, self.plan.code.ell

    @cached_property
    def size(self) -> int:
        """How many residues a lane are dealt."""
        return math.prod(self.row_shape) + math.prod(self.mask_shape)

    def at(self, step: int) -> int:
        """A step of this check, as those of the whole answer are counted."""
        if not self.slots or step < COINS:
            return self.begun + step
        return self.slots[step - COINS + (self.adder is not None) + self.later * (step >= PRODUCTS)]

    @property
    def behind(self) -> tuple[int, int]:
        """The steps in which responders tell further replies, behind the others, and their adder the sum."""
        return self.begun + COINS, self.slots[0]

    def round(self, step: int, to: PartyId | None = None) -> int:
        """Round of a step, to a server or to a client."""
        return self.number + self.at(step) - (self.earlier if to == SERVER else 0)

    def commitment(self, member: PartyId, coin: bytes) -> bytes:
        """What a member says of its coin before it opens it, also to who was asked something else."""
        who = self.plan.clients.index(member).to_bytes(4, "little")
        return hashlib.blake2b(
            self.plan.digest() + who + coin, digest_size=SIZE, person=b"secfc-check-coin"
        ).digest()

    def join_coins(self, coins: Mapping[PartyId, bytes]) -> bytes:
        """What all coins give, 16 bytes: public, and drawn when replies are fixed."""
        text = b"".join(coins[c] for c in self.witnesses)
        return hashlib.blake2b(text, digest_size=SEED, person=b"secfc-check-join").digest()

    def seed(self, joined: bytes) -> bytes:
        """What joined coins give for this question, 32 bytes: public."""
        return hashlib.blake2b(self.context + joined, digest_size=SIZE, person=b"secfc-check-seed").digest()

    def digest(self, joined: bytes) -> bytes:
        """What witnesses tell of joined coins: these, and 16 bytes that follow for this question alone."""
        return joined + self.seed(joined)[:SEED]

    def weights(self, seed: bytes) -> CheckWeights:
        """What every reply counts.  seed: names all that is checked, by its context."""

        def draw() -> CheckWeights:
            key = hashlib.blake2b(seed, digest_size=16, person=b"secfc-check-draw").digest()
            return self.check.draw_weights(self.basis, Coins(key))

        return DRAWN.take((type(self.check), self.basis, seed), draw)

    def check_products(self, sender: PartyId, told: MaskedProducts) -> Array:
        """Words for V (lanes, repetitions, ell), in shape and range."""
        check_residues(self.basis, sender, told.values, (REPETITIONS, self.plan.code.ell))
        return told.values

    def reconstruct(self, words: Mapping[PartyId, Array], what: str) -> Array:
        """What these words are shares of, at all segments.  Raises SuspectedParties if they are no shares."""
        numbers = {self.plan.clients.index(c): each for c, each in words.items()}
        try:
            return open_words(self.plan.code, self.basis, numbers)
        except OffPolynomial:
            raise self.suspected(f"what responders said of {what} lies on no polynomial") from None

    def accept(
        self,
        weights: CheckWeights,
        masked: Array,
        hiding: Array,
        products: Mapping[PartyId, Array],
        told: int | None = None,
    ) -> None:
        """Raises SuspectedParties unless the replies are what the shares of the rows give.

        told: lanes that replies are told in; if they fit in these alone, rows may be out of range.
        """
        opened = self.reconstruct(products, "the replies")  # (lanes, ell, repetitions, ell)
        value = sum_last(self.basis, np.ascontiguousarray(np.diagonal(opened, axis1=1, axis2=3)))
        if not weights.fits(masked, hiding, value):
            if told is not None and weights.fits(masked, hiding, value, told):
                raise self.out_of_range(self.plan.clients)
            why = f"{self.what} to question {self.number} do not fit the shares of the rows"
            if isinstance(self.check, AcrossCheck):
                # What each has of both blocks may be of different questions, if the server put one again.
                dealers = () if self.dealer is None else (self.dealer,)
                raise self.suspected(why, dealers=dealers)
            # The dealer's masks may not be those that it told of.
            if self.dealer is None or self.judges:
                raise self.suspected(why)
            raise self.suspected(why, dealer=self.dealer)

    def out_of_range(self, owners: Sequence[PartyId]) -> SuspectedParties:
        """The error that ends the run where rows of these clients are out of range, or replies false."""
        why = f"{self.what} to question {self.number} are not within the range of what honest rows give"
        return self.suspected(why, owners=owners)

    def suspected(self, why: str, **others: PartyId | Sequence[PartyId]) -> SuspectedParties:
        """The error that ends the run.  others: who may have lied beside responders, members and the server,
        which may have asked one of them something else."""
        why = f"{why}; nothing of this step was opened"
        return suspect_parties(
            "MaskedProducts",
            why,
            responders=self.responders,
            committee=self.committee,
            server=SERVER,
            **others,
        )


def deal_all(checks: Sequence[CheckingClient]) -> Role[None]:
    """Deal what these checks need, and take what the members deal.  Raises MissingMessageError."""
    for each in checks:
        yield from each.deal()
    for each in checks:
        yield from each.take()


class CheckingClient:
    """A client's part in the check of one question; streams: with other clients, each good for this alone.

    coins: secret.  parts: what I tell members beside.  Uses each step once.
    """

    def __init__(
        self,
        asked: CheckedReplies,
        name: PartyId,
        streams: Mapping[int, Coins],
        coins: Coins,
        parts: Mapping[PartyId, bytes] | None = None,
    ) -> None:
        self.asked, self.name, self.streams, self.coins = asked, name, streams, coins
        self.coin = b""
        self.commitments: dict[PartyId, bytes] = {}
        self.drawn = b""  # coins that a server which judges told me
        self.share: Array | None = None  # of row 0 and u, (lanes, size)
        self.parts = parts or {}
        self.told: dict[PartyId, bytes] = {}  # what members tell me beside
        self.keys: dict[PartyId, bytes] = {}  # of tags of words, with other responders
        self.hiding: Array | None = None  # further replies (lanes, more) that come behind the others

    def __repr__(self) -> str:
        return f"CheckingClient({self.name!r}, secret)"

    @property
    def responds(self) -> bool:
        return self.name in self.asked.responders

    @property
    def row(self) -> Array:
        """My share of row 0, (lanes, repetitions, products, width): secret."""
        return self._shares()[0]

    @property
    def masks(self) -> Array:
        """My share of u, (lanes, repetitions, zeros, ell): secret."""
        return self._shares()[1]

    def _all(self) -> Array:
        if self.share is None:
            raise RuntimeError("shares of row 0 are dealt before they are used")
        return self.share

    def _shares(self) -> tuple[Array, Array]:
        cut = math.prod(self.asked.row_shape)
        parts = np.split(self._all(), [cut], axis=1)
        shapes = self.asked.row_shape, self.asked.mask_shape
        row, masks = (
            np.ascontiguousarray(part).reshape(len(part), *shape)
            for part, shape in zip(parts, shapes, strict=True)
        )
        return row, masks

    def deal(self) -> Role[None]:
        """Deal row 0 and u and commit to my coin, if I am a witness; at a member tell others what parts take.

        Raises MissingMessageError where I lack a key for that, and tells all who wait for it: else each of
        them would report me as silent, and I would be left out beside whose key it is.
        """
        asked, plan = self.asked, self.asked.plan
        me = plan.clients.index(self.name)
        send: dict[PartyId, Message] = {}
        total = np.zeros((asked.basis.lanes, asked.size), asked.basis.dtype)
        nothing = total[:, :0]
        if self.name in asked.witnesses:
            if not asked.judges:  # a server that judges draws coins itself
                self.coin = self.coins.bytes(SIZE)
                self.commitments[self.name] = asked.commitment(self.name, self.coin)
            others = dict.fromkeys(c for c in (*asked.committee, *asked.responders) if c != self.name)
            try:
                dealt = self._dealt(me)
            except MissingMessageError as silence:
                told = MissingMessages(silence.step, NOBODY_MISSED)
                yield Exchange(to_all(others, told), round=asked.number + asked.dealt, phase="check")
                raise
            total = dealt.get(me, total)
            for c in others:
                values, beside = dealt.get(plan.clients.index(c), nothing), self.parts.get(c, b"")
                send[c] = CheckDealing(self.commitments.get(self.name, b""), values, beside)
        else:
            send = {c: CheckDealing(b"", nothing, beside) for c, beside in self.parts.items()}
        self.share = total
        yield Exchange(send, round=asked.number + asked.dealt, phase="check")

    def take(self) -> Role[None]:
        """Take what the members deal, if I am one or respond.  Raises MissingMessageError."""
        asked = self.asked
        total = self._all()
        due = asked.committee if self.parts else asked.witnesses
        waits = self.name in asked.committee or self.responds
        awaited = tuple(c for c in due if c != self.name) if waits else ()
        wait = Exchange({}, awaited, 0, round=asked.number + asked.dealt, phase="check")
        step = asked.dealt if asked.adder is None else asked.begun + SENT
        inbox: dict[PartyId, CheckDealing] = yield from receive_all(wait, CheckDealing, step)
        for c, message in inbox.items():
            self.commitments[c], self.told[c] = message.commitment, message.parts
            gives = self.responds and c in asked.witnesses
            size = asked.size if gives and not self._expands(c) else 0
            check_residues(asked.basis, c, message.values, (size,))
            if gives:
                share = message.values if size else asked.basis.sample((asked.size,), self._stream(c))
                total = asked.basis.add(total, share)
        self.share = total

    def _dealt(self, me: int) -> dict[int, Array]:
        """What I deal to those who do not expand it, by number, and to myself if I respond."""
        asked, code = self.asked, self.asked.plan.code
        known = uniform_receivers(code, me, asked.receivers)
        streams = {j: self._stream(asked.plan.clients[j]) for j in known} | {me: self.coins}
        return deal_uniform(code, asked.basis, asked.size, me, asked.receivers, streams)

    def _expands(self, member: PartyId) -> bool:
        """Whether what a member deals me follows from our seed."""
        asked, clients = self.asked, self.asked.plan.clients
        known = uniform_receivers(asked.plan.code, clients.index(member), asked.receivers)
        return clients.index(self.name) in known

    def _stream(self, peer: PartyId) -> Coins:
        """Raises MissingMessageError for a peer of whom I have no key."""
        number = self.asked.plan.clients.index(peer)
        if number not in self.streams:
            raise MissingMessageError(DEAL_ROW, (peer,))
        return self.streams[number]

    def further(self, columns: Array) -> Array:
        """My weighted replies of row 0 and of centers, (lanes, more), to be masked: secret.

        columns: my shares of the sums that distances are measured to.
        """
        asked = self.asked
        me = asked.plan.clients.index(self.name)
        weights = segment_weights(asked.plan.code, asked.basis, asked.receivers, me)
        return weigh_further(
            asked.basis, weights, asked.check.further_replies(asked.basis, self.row, columns), self.masks
        )

    def verify(
        self,
        rows: CodedRows | None = None,
        columns: Array | None = None,
        sums: tuple[Array, Array] | None = None,
        masks: tuple[Array, Array] | None = None,
        beside: Callable[[Array], Array] = np.ascontiguousarray,
    ) -> Role[None]:
        """All steps after replies are fixed.

        rows, columns: of a responder, its shares of what it answered for.  sums: at a member, masked replies
        and further ones, or its part of them.  masks: at the dealer, what hides them.
        beside: adds to a member's further replies those that passed a check before.

        Raises SuspectedParties if something does not fit; MissingMessageError.
        """
        asked = self.asked
        if sums is not None and asked.adder is not None:
            sums = sums[0], (yield from self._fixed(asked.adder, sums[1]))
        seed = yield from hear_coins(asked, self.name, self.coin, self.commitments, self.drawn)
        weights, threads = asked.weights(seed), 1 if rows is None else rows.threads
        products: dict[PartyId, Array] = {}
        send: dict[PartyId, Message] = {}
        if rows is not None and columns is not None:
            opened = yield from self._opened_rows(weights, rows, columns)
            products[self.name] = weights.masked_products(opened, columns, self.masks, rows.squares)
            told_to = asked.judges or asked.committee
            send = {c: MaskedProducts(products[self.name]) for c in told_to if c != self.name}
        awaited = tuple(c for c in asked.responders if c != self.name) if sums is not None else ()
        wait = Exchange(send, awaited, 0, round=asked.round(PRODUCTS), phase="check")
        inbox = yield from receive_all(wait, MaskedProducts, asked.at(PRODUCTS))
        products |= {c: asked.check_products(c, message) for c, message in inbox.items()}
        if masks is not None:
            told = MaskSums(weights.combine(*masks, threads=threads))
            yield Exchange(to_all(asked.committee, told), round=asked.round(MASKS), phase="check")
        if sums is not None:
            mine = weights.combine(sums[0], beside(sums[1]), threads=threads)
            masked, hiding = yield from self._unmasked(mine)
            asked.accept(weights, masked, hiding, products)

    def _fixed(self, adder: PartyId, mine: Array) -> Role[Array]:
        """What all further replies add up to, at a member, before coins are opened.  mine: at their adder."""
        asked, (_, step) = self.asked, self.asked.behind
        nothing = np.empty((asked.basis.lanes, 0, 0), asked.basis.dtype)
        others = tuple(c for c in asked.committee if c != self.name)
        if self.name == adder:
            told = to_all(others, MaskedSum(nothing, further=mine))
            yield Exchange(told, round=asked.number + step, phase="check")
            return mine
        wait = Exchange({}, (adder,), 0, round=asked.number + step, phase="check")
        total = (yield from receive_all(wait, MaskedSum, step))[adder]
        check_residues(asked.basis, adder, total.values, (0, 0))
        return check_further(asked.basis, adder, total.further, asked)

    def _unmasked(self, mine: Array) -> Role[tuple[Array, Array]]:
        """What all replies add up to, weighted, and how much of that is masks: (lanes, repetitions) both.

        mine: what those that I have add up to.
        """
        asked = self.asked
        others = tuple(c for c in asked.committee if c != self.name)
        senders = others if asked.dealer is None else (asked.dealer,)
        kind: type[Any] = PartSums if asked.dealer is None else MaskSums
        send = to_all(others if asked.dealer is None else (), PartSums(mine))
        wait = Exchange(send, senders, 0, round=asked.round(MASKS), phase="check")
        inbox = yield from receive_all(wait, kind, asked.at(MASKS))
        for c, message in inbox.items():
            check_residues(asked.basis, c, message.values, (REPETITIONS,))
        if asked.dealer is not None:
            return mine, inbox[asked.dealer].values
        told = [mine if c == self.name else inbox[c].values for c in asked.committee]
        for at in range(0, len(told), asked.alike):
            if any((each != told[at]).any() for each in told[at : at + asked.alike]):
                raise asked.suspected("two that have the same part of replies add up different ones")
        return reduce(asked.basis.add, told[:: asked.alike]), np.zeros_like(mine)

    def _opened_rows(self, weights: CheckWeights, rows: CodedRows, columns: Array) -> Role[Array]:
        """A, at all segments: (lanes, ell, repetitions, products, width).

        The first responders, as many as fix a polynomial, tell their words.  The others, of whom one is
        honest if any of the first lies, vouch for what follows from these: tags under keys of two.
        """
        asked = self.asked
        if weights.given is not None:
            return weights.given
        mine = weights.masked_row(rows, columns, self.row)
        others, nothing = tuple(c for c in asked.responders if c != self.name), mine[..., :0]
        send = dict.fromkeys(others, MaskedRow(mine))
        if self.name not in asked.telling:
            send = {c: MaskedRow(nothing, self._vouch(c, mine)) for c in others}
        wait = Exchange(send, others, 0, round=asked.round(ROWS), phase="check")
        inbox = yield from receive_all(wait, MaskedRow, asked.at(ROWS))
        for c in others:
            width = asked.row_shape[2] if c in asked.telling else 0
            check_residues(asked.basis, c, inbox[c].values, (*asked.row_shape[:2], width))
        heard = {self.name: mine, **{c: message.values for c, message in inbox.items()}}
        words, opened = asked.complete_words({c: heard[c] for c in asked.telling})
        same = (words[self.name] == mine).all()
        vouched = (inbox[c].vouched == self._vouch(c, words[c]) for c in others if c not in asked.telling)
        if not same or not all(vouched):
            raise asked.suspected("what responders said of sums of the rows lies on no polynomial")
        return opened

    def _vouch(self, peer: PartyId, word: Array) -> bytes:
        """A tag of my word for a peer, or of its word by the peer, under a key of the two."""
        if peer not in self.keys:
            number = self.asked.plan.clients.index(peer)
            if number not in self.streams:
                raise MissingMessageError(self.asked.at(ROWS), (peer,))
            # After the shares that it gave, at both.
            self.keys[peer] = self.streams[number].bytes(SIZE)
        little = word.astype(word.dtype.newbyteorder("<")).tobytes()
        return hashlib.blake2b(
            little, key=self.keys[peer], digest_size=SEED, person=b"secfc-row-tag"
        ).digest()


def check_further(basis: Basis, sender: PartyId, values: Array | None, asked: CheckedReplies | None) -> Array:
    """Further replies (lanes, more) that a message has, in range; none where replies are not checked.

    Raises FaultyClient naming the sender of anything else.
    """
    found = np.empty((basis.lanes, 0), basis.dtype) if values is None else values
    check_residues(basis, sender, found, (0 if asked is None else asked.check.more,))
    return found


def hear_coins(
    asked: CheckedReplies,
    name: PartyId,
    coin: bytes,
    commitments: Mapping[PartyId, bytes],
    drawn: bytes = b"",
) -> Role[bytes]:
    """The seed that all coins give, which every witness tells alike; tell mine, if I am one.

    commitments: of witnesses, at one of them.  drawn: coins that the server drew for all, if it did.
    Raises SuspectedParties where they say different things, FaultyClient for a coin not committed to.
    """
    others, mine = tuple(c for c in asked.witnesses if c != name), asked.digest(drawn) if drawn else b""
    send: dict[PartyId, Any] = {}
    if drawn and name in asked.witnesses:
        send = {c: CheckDigest(mine) for c in asked.told if c not in (name, SERVER)}
    elif name in asked.witnesses:
        told = Exchange(to_all(others, CheckCoin(coin)), others, 0, round=asked.round(COINS), phase="check")
        heard: dict[PartyId, CheckCoin] = yield from receive_all(told, CheckCoin, asked.at(COINS))
        values = {c: message.value for c, message in heard.items()}
        for c, value in values.items():
            if asked.commitment(c, value) != commitments[c]:
                raise blame_error(c, "opened another coin than it committed to")
        mine = asked.digest(asked.join_coins({**values, name: coin}))
        send = {c: CheckDigest(mine) for c in asked.told if c != name}
    if SERVER in send and asked.earlier:
        early = {SERVER: send.pop(SERVER)}
        yield Exchange(early, round=asked.round(DIGESTS, SERVER), phase="check")
    wait = Exchange(send, others, 0, round=asked.round(DIGESTS, name), phase="check")
    digests: dict[PartyId, CheckDigest] = yield from receive_all(wait, CheckDigest, asked.at(DIGESTS))
    # Who is no witness takes the word of all of them, of whom one is honest, for its own question.
    joined = (mine or digests[others[0]].digest)[:SEED]
    if any(message.digest != asked.digest(joined) for message in digests.values()):
        why = "members heard different coins, or questions; nothing was told under them"
        raise suspect_parties("CheckDigest", why, committee=asked.committee, server=SERVER)
    return asked.seed(joined)


def tell_mask_sums(asked: CheckedReplies, masks: tuple[Array, Array]) -> Role[set[PartyId] | None]:
    """A dealing server's part: what masks of replies, and of further ones, add up to by the coins of members.

    If it does not hear them all, it tells members that it goes no further, and returns whom it did not hear,
    perhaps because they wait for others; else None.
    """
    missing: set[PartyId] | None = None
    try:
        seed = yield from hear_coins(asked, SERVER, b"", {})
        told: Message = MaskSums(asked.weights(seed).combine(*masks))
    except MissingMessageError as silence:
        told, missing = MissingMessages(silence.step, NOBODY_MISSED), set(silence.missing)
    yield Exchange(to_all(asked.committee, told), round=asked.round(MASKS), phase="check")
    return missing


def stop_checking(asked: CheckedReplies, name: PartyId, step: int) -> Role[None]:
    """Tell a dealing server, which may wait for my coin, that I went no further than this step."""
    if asked.dealer == SERVER and name in asked.witnesses and asked.at(DIGESTS) > step:
        told = MissingMessages(max(0, step), NOBODY_MISSED)
        yield Exchange({SERVER: told}, round=asked.round(DIGESTS, SERVER), phase="check")
