"""Products that are dealt anew are checked before anything follows from them (`field.code.product_check`).

Responders hold shares of labels and of rows; of their products, of twice the degree, each deals a part anew,
and could add what it likes: a center where it wants it, and with it a threshold test in every size or label.
What members dealt could be no labels, or not of the sizes that they told.
So products are dealt with what a check needs, which takes `STEPS` exchanges more, of responders alone:

 0  with its part of the products, each deals shares of uniform masks, and commits to a chain of three coins;
 1  coins are opened.  All products are dealt by then, as an honest responder opens its coin once it has all;
 2  products of blocks are dealt anew;
 3  the next coins of the chains are opened;
 4  the last products are dealt anew;
 5  the last coins are opened;
 6  responders tell one another a digest of all coins and commitments.  Who hears another than its own says
    nothing more: words under two sets of coins would show a sum of what the masks hide;
 7  they tell one another three words a repetition, which must lie on polynomials and fit.

Of squares of vectors sums are folded between 1 and 2, in two exchanges more: they are dealt anew at points of
polynomials, and one coin more of each chain is opened (`field.code.product_check.SquareFold`).

Where members compare, or divide, under what somebody dealt, 1 goes with the replies of responders, or their
sums, and the others each beside an opening, or what follows openings.  All that is opened there is uniform
whatever the sums are.  Who responds tells its words for V (`secfc.disclosure.checked.steps`) after 7, and no
member tells a size, nor a digest of words, without those of all responders: so t of them that lie do not get
there.  Before 7, members may hear what the dealer's masks add up to, and so V: it is uniform by u, also of
false sums.

Where labels are of several lanes, and noise that is alike in all hides what is opened of them, 7 has sums
more that must be alike as well, under noise that is dealt in 0.

Numbers of several segments are opened as sums over these: under shared masks that add up to 0 over segments,
dealt in 0 by all.  A fourth word a repetition, a sum of these masks under one of the kind, shows that
they do.

A responder that finds that they do not fit ends the run, and sends nothing on.  Each judges for itself:
whatever t of them say, the words of the others fix what is opened.  Whether it fits depends on what was added
to products, and on coins, never on labels or rows; and a failure ends the run.  So it tells nothing.

Who sees what: responders two uniform numbers a repetition and segment, and their product; of masks that add
up to 0 one more that is uniform but for its sum over segments.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from field.code.lagrange_code import LagrangeCode
from field.code.lane_check import lanes_agree
from field.code.masking import deal_part, expand_share, seeded_receivers, weighted_part
from field.code.product_check import ProductCheck, SquareFold, least_repetitions
from field.code.reply_check import OffPolynomial, open_words, sum_last
from field.code.rows import CodedRows
from field.ring.basis import Basis
from field.secrets.coins import Coins
from secfc.coded.plan import CodedPlan
from secfc.disclosure.checked.messages import (
    SEED,
    SIZE,
    CheckCoin,
    CheckDigest,
    CheckedPart,
    ProductWords,
    ResharedPart,
)
from secfc.errors import SuspectedParties
from secfc.roles.blame import suspect_parties
from secfc.roles.exchange import SERVER, Exchange, PartyId, Role, blame_error, expect_all, expect_messages
from secfc.roles.messages import Message, check_residues

STEPS = 7
# So many sums of features, modulo a prime of 30 bits, who holds a row knows of it.
PROOFS = 2

# Of one repetition: two vectors (lanes, length), and what their inner product (lanes,) is said to be.
InnerProduct = tuple[Array, Array, Array]
# From coins, what inner products of my shares must hold.
Claim = Callable[[Coins], InnerProduct]
# Telling other responders, by number, and hearing a message of this kind of each of these.
Talk = Callable[[Mapping[int, Message], Collection[int], type[Any]], Role[dict[int, Any]]]


def checking_steps(plan: CodedPlan) -> int:
    """Exchanges of responders after the last one in which products are dealt; none if nobody colludes."""
    return STEPS if plan.code.t else 0


@dataclass(frozen=True, eq=False)
class CheckedProducts:
    """Everything public about the check of one question's products.

    basis: of products.  context: 32 bytes, of this check alone.  length: of the inner products that all of
    them are checked by.  responders: numbers of clients.  others: who may have dealt labels falsely.
    what: is checked, for errors.  blinded: so many numbers are opened as sums over segments.  width: of
    vectors whose squares are folded first; 0 for none.  alike: so many sums are opened to see that lanes
    agree (`field.code.lane_check`).
    """

    plan: CodedPlan
    basis: Basis
    context: bytes
    length: int
    responders: tuple[int, ...]
    others: tuple[PartyId, ...] = ()
    what: str = "sums of rows"
    blinded: int = 0
    width: int = 0
    alike: int = 0

    @cached_property
    def check(self) -> ProductCheck:
        return ProductCheck(self.basis, self.length)

    @cached_property
    def folding(self) -> SquareFold:
        return SquareFold(self.basis, self.width)

    @cached_property
    def repetitions(self) -> int:
        return least_repetitions(min(self.basis.primes), self.length, self.width)

    @property
    def masks(self) -> int:
        """Residues a lane, uniform, that hide what is opened; those from 2 a repetition on add up to 0."""
        return 2 * self.repetitions + (self.repetitions + self.blinded if self.blinded else 0)

    def point(self, coins: Coins) -> int:
        """A point, from public coins, where no product is dealt, nor a number of the vectors lies."""
        last = 2 * max(self.check.q, self.folding.check.q)
        free = min(self.basis.primes) - last - 1
        return last + 1 + int.from_bytes(coins.bytes(16), "little") % free

    def suspected(self, kind: str, why: str) -> SuspectedParties:
        """The error that ends the run: also about the server, which may have asked one something else."""
        names = (self.plan.clients[j] for j in self.responders)
        return suspect_parties(kind, why, responders=names, dealers=self.others, server=SERVER)

    def accept(self, words: Mapping[int, Array]) -> None:
        """Raises SuspectedParties unless the words (lanes, 3 repetitions + alike) of all responders fit."""
        try:
            opened = open_words(self.plan.code, self.basis, words)  # (lanes, ell, 3 repetitions)
        except OffPolynomial:
            raise self.suspected(
                "ProductWords",
                "what responders said of products lies on no polynomial; nothing of this step was opened",
            ) from None
        ends = 3 * self.repetitions, opened.shape[2] - self.alike
        triples, zeros, alike = np.split(opened, ends, axis=2)
        u, v, h = (np.ascontiguousarray(triples[:, :, i::3]) for i in range(3))
        fit = self.check.fits((u, v, h)) and not add_segments(self.basis, zeros).any()
        if not fit or not lanes_agree(self.basis, alike):
            raise self.suspected(
                "ProductWords",
                f"{self.what} do not fit the shares of labels and rows; nothing of this step was opened",
            )


class ProductVerifier:
    """A responder's part in the check of one question's products.  coins: secret.  Uses each step once."""

    def __init__(self, asked: CheckedProducts, me: int, coins: Coins) -> None:
        self.asked, self.me, self.coins = asked, me, coins
        # Each is the digest of the next one, so what is opened commits to what follows.
        chain = [coins.bytes(SIZE)]
        for _ in range(3 + bool(asked.width)):
            chain.append(_link(chain[-1]))
        self.chain = chain[::-1]
        self.heard: list[dict[int, bytes]] = [{me: self.chain[0]}]  # commitments, then coins
        self.beside = b""  # public, and compared with all coins
        self.hiding: list[Array] = []
        # What shares are expanded from that I deal these, and that these deal me.
        self.mine = {j: coins.bytes(SEED) for j in seeded_receivers(asked.plan.code, me, asked.responders)}
        self.streams = {j: Coins(seed) for j, seed in self.mine.items()}
        self.theirs: dict[int, Coins] = {}

    def __repr__(self) -> str:
        return f"ProductVerifier({self.me}, secret)"

    @property
    def others(self) -> list[int]:
        return [j for j in self.asked.responders if j != self.me]

    @property
    def code(self) -> LagrangeCode:
        return replace(self.asked.plan.code, basis=self.asked.basis)

    def deal(
        self, part: Array, further: Sequence[int] = ()
    ) -> tuple[dict[int, CheckedPart], dict[int, Array]]:
        """Messages to the other responders with their shares of my part (lanes, ell, n).

        And shares (lanes, n) of my own, and of further clients.
        """
        asked, n = self.asked, part.shape[2]
        uniform = asked.basis.sample((part.shape[1], asked.masks), self.coins)
        if asked.blinded:
            zeros = np.ascontiguousarray(uniform[:, :-1, 2 * asked.repetitions :])
            uniform[:, -1, 2 * asked.repetitions :] = asked.basis.negate(add_segments(asked.basis, zeros))
        shares = self._shares(np.concatenate([part, uniform], axis=2), further)
        self.hiding.append(shares[self.me][:, n:])
        nothing = np.empty((asked.basis.lanes, 0), asked.basis.dtype)
        send = {
            j: CheckedPart(shares.get(j, nothing), self.chain[0], self.mine.get(j, b"")) for j in self.others
        }
        return send, {j: np.ascontiguousarray(shares[j][:, :n]) for j in (self.me, *further)}

    def take(self, received: Mapping[int, CheckedPart], size: int) -> list[Array]:
        """My shares (lanes, size) of the products, as each of the others dealt them."""
        asked, found = self.asked, list[Array]()
        for j, message in received.items():
            expands = self.me in seeded_receivers(self.code, j, asked.responders)
            due = 0 if expands else size + asked.masks
            check_residues(asked.basis, asked.plan.clients[j], message.values, (due,))
            values = message.values
            if expands:
                self.theirs[j] = Coins(message.seed)
                values = expand_share(self.code, size + asked.masks, self.theirs[j])
            self.hiding.append(values[:, size:])
            self.heard[0][j] = message.commitment
            found.append(np.ascontiguousarray(values[:, :size]))
        return found

    def _shares(self, part: Array, further: Sequence[int] = ()) -> dict[int, Array]:
        """Shares (lanes, n) of my part (lanes, ell, n) of all that do not expand theirs, by number."""
        seeds, responders = list(self.streams.values()), self.asked.responders
        known = seeded_receivers(self.code, self.me, responders)
        return deal_part(self.code, part, known, responders, seeds, further)

    def reduce_products(self, talk: Talk, products: Array) -> Role[Array]:
        """My shares (lanes, n), of the degree of shares, of products of which mine have twice the degree."""
        asked = self.asked
        part = weighted_part(self.code, asked.responders, self.me, products[:, :, None])
        send = self._shares(np.ascontiguousarray(part.swapaxes(1, 2)))
        total = send.pop(self.me)
        awaited = [j for j in self.others if j not in self.theirs]
        told = {j: ResharedPart(share) for j, share in send.items()}
        received = yield from talk(told, awaited, ResharedPart)
        for j, message in received.items():
            check_residues(asked.basis, asked.plan.clients[j], message.values, products.shape[1:])
        own = (expand_share(self.code, products.shape[1], stream) for stream in self.theirs.values())
        return reduce(asked.basis.add, (*own, *(message.values for message in received.values())), total)

    def verify(
        self,
        talk: Talk,
        claims: Sequence[Claim],
        squared: tuple[Array, Array] | None = None,
        alike: Callable[[Coins], Array] | None = None,
    ) -> Role[None]:
        """All steps after products are dealt.

        claims: of inner products that together have the length of the check, with those of squares.  squared:
        vectors (lanes, n, width), and what their squares (lanes, n) are said to be.  alike: from coins, my
        shares (lanes, alike) of sums that are to be the same integers in all lanes.

        Raises StalledStep; SuspectedParties if something does not fit, or coins were told differently.
        """
        asked, check = self.asked, self.asked.check
        coins, claimed = yield from self._claimed(talk, claims, squared)
        zeros = self._masked_zeros(coins)
        sums = [] if alike is None else list(alike(coins[0]).swapaxes(0, 1))
        products = [check.block_products(left, right) for left, right, _ in claimed]
        dealt = yield from self.reduce_products(talk, np.concatenate(products, axis=1))
        z = [asked.point(each) for each in (yield from self._opened(talk))]
        each = np.split(dealt, asked.repetitions, axis=1)
        totals = [
            check.evaluate(check.complete(some, total), at, 1)
            for some, (_, _, total), at in zip(each, claimed, z, strict=True)
        ]
        masks = self._masks()
        sides = [
            tuple(
                np.concatenate([masks[:, 2 * r + side, None], check.fold(vector, z[r])], axis=1)
                for side, vector in enumerate((left, right))
            )
            for r, (left, right, _) in enumerate(claimed)
        ]
        last = check.last_products(*(np.stack(side, axis=1) for side in zip(*sides, strict=True)))
        dealt = yield from self.reduce_products(talk, last.reshape(len(last), -1))
        y = [asked.point(each) for each in (yield from self._opened(talk))]
        ends = [
            check.complete(some, total)
            for some, total in zip(np.split(dealt, asked.repetitions, axis=1), totals, strict=True)
        ]
        yield from self._compare(talk)
        words = [
            check.evaluate(values, at, 0)
            for pair, end, at in zip(sides, ends, y, strict=True)
            for values in (*pair, end)
        ]
        mine = np.stack([*words, *zeros, *sums], axis=1)
        told = dict.fromkeys(self.others, ProductWords(mine))
        received = yield from talk(told, self.others, ProductWords)
        for j, message in received.items():
            check_residues(asked.basis, asked.plan.clients[j], message.values, mine.shape[1:])
        asked.accept({self.me: mine, **{j: message.values for j, message in received.items()}})

    def _claimed(
        self, talk: Talk, claims: Sequence[Claim], squared: tuple[Array, Array] | None
    ) -> Role[tuple[list[Coins], list[InnerProduct]]]:
        """By repetition public coins, and the inner product of all claims by these."""
        coins = yield from self._opened(talk)
        folded: list[list[InnerProduct]] = [[] for _ in coins]
        if squared is not None:
            coins, folded = yield from self._fold_squares(talk, coins, *squared)
        each = ([*more, *(claim(of) for claim in claims)] for of, more in zip(coins, folded, strict=True))
        return coins, [_together(self.asked.basis, some) for some in each]

    def _fold_squares(
        self, talk: Talk, coins: Sequence[Coins], vectors: Array, squares: Array
    ) -> Role[tuple[list[Coins], list[list[InnerProduct]]]]:
        """The next coins, and by repetition an inner product of length n that fits if squares do."""
        asked, folding = self.asked, self.asked.folding
        basis, check, n = asked.basis, folding.check, squares.shape[1]
        weights = np.stack([basis.sample((n,), each) for each in coins], axis=1)
        products = folding.products(vectors, weights)
        dealt = yield from self.reduce_products(talk, products.reshape(basis.lanes, -1))
        opened = yield from self._opened(talk)
        z = [asked.point(each) for each in opened]
        at, found = folding.fold(vectors, z), list[list[InnerProduct]]()
        for r, some in enumerate(np.split(dealt, asked.repetitions, axis=1)):
            each, right = (np.ascontiguousarray(part[:, r]) for part in (weights, at))
            values = check.complete(some, sum_last(basis, basis.multiply(each, squares)))
            found.append([(basis.multiply(each, right), right, check.evaluate(values, z[r], 1))])
        return opened, found

    def blinds(self) -> Array:
        """My shares (lanes, blinded) of uniform numbers that add up to 0 over segments."""
        return np.ascontiguousarray(self._masks()[:, self.asked.masks - self.asked.blinded :])

    def _masked_zeros(self, coins: Sequence[Coins]) -> list[Array]:
        """A word a repetition for the sum of these, by coins and under one more of the kind; none without."""
        basis, asked = self.asked.basis, self.asked
        if not asked.blinded:
            return []
        each = [basis.multiply(basis.sample((asked.blinded,), c), self.blinds()) for c in coins]
        masks = self._masks()[:, 2 * asked.repetitions :]
        return [basis.add(sum_last(basis, x), masks[:, r]) for r, x in enumerate(each)]

    def _masks(self) -> Array:
        total = self.hiding[0]
        for each in self.hiding[1:]:
            total = self.asked.basis.add(total, each)
        return total

    def _opened(self, talk: Talk) -> Role[list[Coins]]:
        """Open the next coin of my chain, and hear those of all: public coins, one a repetition."""
        asked, turn = self.asked, len(self.heard)
        told = dict.fromkeys(self.others, CheckCoin(self.chain[turn]))
        received = yield from talk(told, self.others, CheckCoin)
        for j, message in received.items():
            if _link(message.value) != self.heard[-1][j]:
                raise blame_error(asked.plan.clients[j], "opened another coin than it committed to")
        self.heard.append({self.me: self.chain[turn], **{j: m.value for j, m in received.items()}})
        seed = self._digest(b"secfc-prod-seed")
        return [
            Coins(hashlib.blake2b(seed, digest_size=16, salt=bytes([r, turn])).digest())
            for r in range(asked.repetitions)
        ]

    def ended(self) -> bytes:
        """32 bytes that follow from all coins, of all: public."""
        return self._digest(b"secfc-prod-ended")

    def _compare(self, talk: Talk) -> Role[None]:
        """Compare all that was heard of coins."""
        mine = self._digest(b"secfc-prod-heard")
        told = dict.fromkeys(self.others, CheckDigest(mine))
        received = yield from talk(told, self.others, CheckDigest)
        if any(message.digest != mine for message in received.values()):
            why = "responders heard different coins, or questions; nothing was told under them"
            raise self.asked.suspected("CheckDigest", why)

    def _digest(self, person: bytes) -> bytes:
        """Digest (32 bytes) of the question, all commitments and coins so far, in the order of responders."""
        heard = (coins[j] for coins in self.heard for j in self.asked.responders)
        text = [self.asked.context, self.beside, *heard]
        return hashlib.blake2b(b"".join(text), digest_size=SIZE, person=person).digest()


def add_segments(basis: Basis, values: Array) -> Array:
    """Sums (lanes, *s) over segments of residues (lanes, ell, *s)."""
    return reduce(basis.add, np.ascontiguousarray(values.swapaxes(0, 1)))


def _link(coin: bytes) -> bytes:
    """What commits to a coin, and tells nothing of it."""
    return hashlib.blake2b(coin, digest_size=SIZE, person=b"secfc-prod-coin").digest()


def _together(basis: Basis, claims: Sequence[InnerProduct]) -> InnerProduct:
    """One inner product, of several: their weights are of coins that each draws for itself."""
    lefts, rights, totals = zip(*claims, strict=True)
    return np.concatenate(lefts, axis=1), np.concatenate(rights, axis=1), reduce(basis.add, totals)


def label_claims(
    basis: Basis, one_hot: Array, rows: CodedRows, sums: Array, sizes: Array | None
) -> list[Claim]:
    """Claims that labels are labels, of sizes (K,) if these are known, and sums those of rows by labels.

    Inner products of length 2 m together.
    """
    known = [] if sizes is None else [size_claim(basis, one_hot, sizes)]
    return [*known, one_hot_claim(basis, one_hot), sum_claim(basis, one_hot, rows, sums)]


def size_claim(basis: Basis, one_hot: Array, sizes: Array) -> Claim:
    """A claim that labels (lanes, K, m) are so often 1, (K,): linear, so of no products."""
    counted = basis.add(sum_last(basis, one_hot), basis.negate(basis.reduce(sizes.astype(np.int64))))

    def claim(coins: Coins) -> InnerProduct:
        nothing = np.empty((basis.lanes, 0), basis.dtype)
        weights = basis.sample((len(sizes),), coins)
        return nothing, nothing, sum_last(basis, basis.multiply(weights, counted.astype(basis.dtype)))

    return claim


def one_hot_claim(basis: Basis, one_hot: Array) -> Claim:
    """A claim that labels (lanes, K, m) have no more than one 1 a point, and else 0: my share of these.

    For coins u, v each column b has (u.b) (v.b) = (uv).b, and only such columns do.
    """

    def claim(coins: Coins) -> InnerProduct:
        first, second = (basis.sample((1, one_hot.shape[1]), coins) for _ in range(2))
        each = basis.sample((one_hot.shape[2],), coins)
        weights = np.concatenate([first, second, basis.multiply(first, second)], axis=1)
        left, right, both = (np.ascontiguousarray(x) for x in basis.matmul(weights, one_hot).swapaxes(0, 1))
        return basis.multiply(each, left), right, sum_last(basis, basis.multiply(each, both))

    return claim


def weight_claim(basis: Basis, whole: Array, weights: Array) -> Claim:
    """A claim that of weights (lanes, K, m) no more than one a point is not 0, and is the whole (lanes, m).

    For coins u, v each column b with the whole w has (u.b) (v.b) = w (uv).b, and only such columns do.  An
    inner product of length 2 m.
    """

    def claim(coins: Coins) -> InnerProduct:
        first, second = (basis.sample((1, weights.shape[1]), coins) for _ in range(2))
        each = basis.sample(whole.shape[1:], coins)
        rows = np.concatenate([first, second, basis.negate(basis.multiply(first, second))], axis=1)
        left, right, both = (np.ascontiguousarray(x) for x in basis.matmul(rows, weights).swapaxes(0, 1))
        lefts = [basis.multiply(each, left), basis.multiply(each, whole)]
        nothing = np.zeros(len(whole), basis.dtype)
        return np.concatenate(lefts, axis=1), np.concatenate([right, both], axis=1), nothing

    return claim


def sum_claim(basis: Basis, one_hot: Array, rows: CodedRows, sums: Array) -> Claim:
    """A claim that sums (lanes, K, width) are those of rows by labels (lanes, K, m): my shares of all three.

    For coins a, g: a.S g is the inner product of a B and X g.
    """

    def claim(coins: Coins) -> InnerProduct:
        by_cluster = basis.sample((1, sums.shape[1]), coins)
        by_feature = basis.sample((1, sums.shape[2]), coins)
        left = basis.matmul(by_cluster, one_hot)[:, 0]
        right = rows.multiply_rows(by_feature, np.zeros_like(by_feature[:, :, 0]))[:, 0]
        across = basis.matmul(by_cluster, sums)
        total = basis.matmul(across, np.ascontiguousarray(by_feature.transpose(0, 2, 1)))[:, 0, 0]
        return left, right, total

    return claim


def product_claim(basis: Basis, left: Array, right: Array, products: Array, coins: Coins) -> InnerProduct:
    """A claim that products (lanes, n) are those of left and right ones: an inner product of length n."""
    each = basis.sample(products.shape[1:], coins)
    return basis.multiply(each, left), right, sum_last(basis, basis.multiply(each, products))


def square_claim(basis: Basis, vectors: Array, squares: Array, coins: Coins) -> InnerProduct:
    """A claim that squares (lanes, n) are those of vectors (lanes, n, width): of length n width."""
    each, flat = basis.sample(squares.shape[1:], coins), vectors.reshape(len(vectors), -1)
    left = basis.multiply(each[:, :, None], vectors).reshape(flat.shape)
    return left, flat, sum_last(basis, basis.multiply(each, squares))


def matrix_claim(basis: Basis, matrix: Array, vector: Array, products: Array, coins: Coins) -> InnerProduct:
    """A claim that products (lanes, n) are a matrix (lanes, n, n) times a vector (lanes, n): n n long."""
    each = basis.sample(products.shape[1:], coins)
    left = basis.multiply(each[:, :, None], matrix).reshape(len(matrix), -1)
    return left, np.tile(vector, len(matrix[0])), sum_last(basis, basis.multiply(each, products))


def holder_claim(basis: Basis, bits: Array, sums: Array, told: Array, keyed: Array | None = None) -> Claim:
    """A claim that bits (lanes, n, m) are bits, and 1 at rows alone of which their owner told the sums.

    sums: (lanes, proofs, m) of features of the rows; told: (lanes, n, proofs, m).  keyed: (lanes, n, m), if
    given, which are then 0 where bits are.  Inner products of length n m.
    """
    less = basis.negate(np.ones_like(bits)).astype(basis.dtype)
    off = [basis.add(bits, less)]
    for proof in range(sums.shape[1]):
        each = basis.negate(told[:, :, proof]).astype(basis.dtype)
        off.append(basis.add(each, sums[:, None, proof] + np.zeros_like(each)))

    def claim(coins: Coins) -> InnerProduct:
        weighted = [basis.multiply(basis.sample(bits.shape[1:], coins), each) for each in off]
        total = np.zeros(len(bits), basis.dtype)
        if keyed is not None:  # bits times these are these
            weighted.append(basis.multiply(basis.sample(bits.shape[1:], coins), keyed))
            total = sum_last(basis, weighted[-1].reshape(len(bits), -1))
        right = reduce(basis.add, weighted)
        return bits.reshape(len(bits), -1), right.reshape(len(bits), -1), total

    return claim


def known_sums(code: LagrangeCode, forms: Array, integers: Array) -> Array:
    """Sums (lanes, ell, proofs * m) of features of integers (m, d), by segment: who lacks a row lacks them.

    forms: weights (lanes, proofs, width) of features, public.
    """
    basis, (ell, width) = code.basis, (code.ell, forms.shape[2])
    padded = np.zeros((ell * width, len(integers)), object)
    padded[: integers.shape[1]] = integers.T
    columns = np.split(np.ascontiguousarray(basis.reduce(padded)), ell, axis=1)
    found = [basis.matmul(forms, np.ascontiguousarray(part)) for part in columns]
    return np.stack([each.reshape(basis.lanes, -1) for each in found], axis=1)


# --------------------------------------------------------------------------------------------------
# Squares of rows, once all have shares of these.


class SharedSquares:
    """A client's part in sharing squares of rows, once all have shares of these; all respond.

    Distances are then linear in what is shared: see `field.code.reply_check.SquaredCheck`.
    """

    what = "squares of rows"

    def __init__(self, plan: CodedPlan, me: int, coins: Coins) -> None:
        self.plan, self.me, self.coins, self.number = plan, me, coins, 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.me}, secret)"

    def share(self, number: int, rows: Array) -> Role[Array]:
        """My shares (lanes, m) of squares of rows (lanes, m, width).  number: of the first round.

        Raises SuspectedParties for others than their squares, TooFewReplies for clients that are lost.
        """
        m, width = rows.shape[1:]
        dealt, verifier = yield from self._dealt(number, self._squares_part(rows), m, width)
        squares: Array = reduce(self.plan.code.basis.add, dealt.swapaxes(0, 1).copy())
        yield from self._verified(verifier, [], (rows, squares))
        return squares

    def _squares_part(self, rows: Array) -> Array:
        """My part (lanes, ell, m) of squares of rows (lanes, m, width)."""
        code = self.plan.code
        product = code.basis.squares(rows)[:, :, None]
        return weighted_part(code, tuple(range(code.n)), self.me, product).swapaxes(1, 2)

    def _dealt(
        self, number: int, part: Array, length: int, width: int = 0
    ) -> Role[tuple[Array, ProductVerifier]]:
        """My shares (lanes, n, numbers) of parts (lanes, ell, numbers) that all deal, and of their check."""
        self.number, plan = number, self.plan
        everybody = tuple(range(plan.code.n))
        context = hashlib.blake2b(plan.digest(), digest_size=SIZE, salt=number.to_bytes(8, "little")).digest()
        asked = CheckedProducts(
            plan, plan.code.basis, context, length, everybody, (SERVER,), self.what, width=width
        )
        verifier = ProductVerifier(asked, self.me, self.coins)
        send, kept = verifier.deal(part)
        received = yield from self._talk(send, verifier.others, CheckedPart)
        shares = dict(zip(received, verifier.take(received, part.shape[2]), strict=True)) | kept
        return np.stack([shares[j] for j in everybody], axis=1), verifier

    def _verified(
        self, verifier: ProductVerifier, claims: Sequence[Claim], squared: tuple[Array, Array] | None = None
    ) -> Role[None]:
        if checking_steps(self.plan):
            yield from verifier.verify(self._talk, claims, squared)

    def _talk(
        self, send: Mapping[int, Message], awaited: Collection[int], kind: type[Any]
    ) -> Role[dict[int, Any]]:
        clients, number = self.plan.clients, self.number
        self.number += 1
        names = tuple(clients[j] for j in awaited)
        told = {clients[j]: message for j, message in send.items()}
        inbox = yield Exchange(told, names, 0, round=number, phase="align")
        found = expect_all(expect_messages(inbox, kind), names)
        return {clients.index(c): message for c, message in found.items()}


# --------------------------------------------------------------------------------------------------
# Rows that several clients hold are divided by how many do (`secfc.coded.duplicates`).


def count_holders(
    plan: CodedPlan,
    name: PartyId,
    coins: Coins,
    squared: bool,
    number: int,
    held: Array,
    read: Callable[[int, int], Array],
) -> Role[tuple[Array, Callable[[int, Array, Array], Role[Array | None]]]]:
    """My share (lanes, m) of how many clients hold each row, of bits that were checked, and what checks rows.

    squared: whether that gives shares (lanes, m) of their squares.  number: of the first round.
    held: (m,) bool, the rows that I hold, and read: my integers there; secret.

    Raises SuspectedParties for indicators that are no bits, TooFewReplies for clients that are lost.
    """
    check = HolderCheck(plan, plan.clients.index(name), coins, squared)
    counts = yield from check.count(number, held)
    return counts, partial(check.verify, read)


class HolderCheck(SharedSquares):
    """A client's part in checking which rows clients say that they hold, in all lanes; all respond.

    First that indicators e are bits, before anything follows from their sum c; so what is divided is never
    divided by zero for a row that somebody holds.  Then that rows y are the sums N divided by c, and that
    e (w.y - w.x) = 0 for sums w.x that a holder shares of its own data: c y = N, so c counts another than
    the holders of a row, or one of these shared something else, only where w.y is not what an honest holder
    says.  w is drawn by coins that were opened once all rows, and bits, were fixed.

    squared: whether squares of rows are shared as well.
    """

    what = "rows that clients say they hold"

    def __init__(self, plan: CodedPlan, me: int, coins: Coins, squared: bool) -> None:
        super().__init__(plan, me, coins)
        self.squared = squared
        self.bits: Array = np.empty(0)  # (lanes, n, m), my shares of everybody's
        self.seed = b""

    def count(self, number: int, held: Array) -> Role[Array]:
        """My share (lanes, m) of how many hold each row."""
        basis, m = self.plan.code.basis, self.plan.m
        part = basis.reduce(np.repeat(held.astype(np.int64)[None], self.plan.code.ell, axis=0))
        self.bits, verifier = yield from self._dealt(number, part, self.plan.code.n * m)
        sums, told = np.empty((basis.lanes, 0, m), basis.dtype), self.bits[:, :, None][:, :, :0]
        yield from self._verified(verifier, [holder_claim(basis, self.bits, sums, told)])
        self.seed = verifier.ended()
        return reduce(basis.add, self.bits.swapaxes(0, 1).copy())

    def verify(
        self, read: Callable[[int, int], Array], number: int, summed: Array, merged: Array
    ) -> Role[Array | None]:
        """Check what became of my shares (lanes, m, width) of the sums of rows: my shares of merged rows.

        And give shares (lanes, m) of their squares, if these are wanted.
        """
        plan, basis, n, m = self.plan, self.plan.code.basis, self.plan.code.n, self.plan.m
        forms = basis.sample((PROOFS, merged.shape[2]), Coins(self.seed[:16]))
        part, length = known_sums(plan.code, forms, read(0, m)), (n + 1) * m
        if self.squared:
            part, length = np.concatenate([part, self._squares_part(merged)], axis=2), length + m
        dealt, verifier = yield from self._dealt(number, part, length, merged.shape[2] * self.squared)
        told, each = np.split(dealt, [PROOFS * m], axis=2)
        sums = basis.matmul(forms, np.ascontiguousarray(merged.swapaxes(1, 2)))
        told = told.reshape(basis.lanes, n, PROOFS, m)
        counts = reduce(basis.add, self.bits.swapaxes(0, 1).copy())
        claims = [holder_claim(basis, self.bits, sums, told), division_claim(basis, counts, summed, merged)]
        squares = reduce(basis.add, each.swapaxes(0, 1).copy()) if self.squared else None
        yield from self._verified(verifier, claims, None if squares is None else (merged, squares))
        return squares


def division_claim(basis: Basis, counts: Array, summed: Array, merged: Array) -> Claim:
    """A claim that merged rows (lanes, m, width) times counts (lanes, m) are the sums that were shared.

    An inner product of length m.
    """
    columns = [np.ascontiguousarray(rows.swapaxes(1, 2)) for rows in (merged, summed)]

    def claim(coins: Coins) -> InnerProduct:
        by_feature = basis.sample((1, summed.shape[2]), coins)
        each = basis.sample(counts.shape[1:], coins)
        right, whole = (basis.matmul(by_feature, some)[:, 0] for some in columns)
        return basis.multiply(each, counts), right, sum_last(basis, basis.multiply(each, whole))

    return claim
