"""Finding lying replies and false dealings: random parity checks, and Reed-Solomon decoding of a few words.

The replies of honest clients are, value by value, points of one polynomial of degree below R, the code's
threshold.  So the R + a values of R + a clients satisfy a independent parity checks (the values at the
last a points follow from the first R), and up to a lies break at least one of them.  Checking costs one
sum over the replies for each check, so only a few random combinations of the checks are computed, in the
pass that decodes.  Where one does not vanish, the values of all clients at that place are decoded: once
(`field.code.reed_solomon`).  Everything left is then decoded as if whoever sent the rest had been silent.

The bound.  Checks s_1, ..., s_a are combined into s_i + sum_{j > c} u_ij s_j for i <= c, with uniform u
drawn after the replies are fixed.  If some s is not zero, all c combinations vanish with probability at
most p^-c.  For a <= c there is no chance in it: the checks themselves are computed.  See `miss_bound` for the
whole search.

Dealings (`judge_dealing`).  A receiver must not show its shares, so a random word of them is published.
A share r of N residues is read as blocks r[b, a].  `count` rows of coefficients x give the sums
u_s[a] = sum_b x_s[b] r[b, a], and `words` rows of coefficients y the words sum_{s,a} y_w[s, a] u_s[a].  A
difference e != 0 modulo p has a column a with e[., a] != 0, so all its u_s vanish with probability at most
p^-count; if one does not, all words vanish with probability p^-words.

A lie in several lanes leaves no trace only if it leaves none in each, so the smallest prime decides.

Assumes at most `corrected` deviating clients: what more of them can do is said at `locate_deviating`.  Blames
whoever sent the value that is off the polynomial; an honest client to whom a dealer gave a false share
computes false replies, which is why dealings are checked before replies are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from field.arrays import Array
from field.code.lagrange_code import LagrangeCode, transfer_matrix
from field.code.reed_solomon import TooManyFalse, locate_words, sorted_clients
from field.code.reply_check import sum_last
from field.ring.basis import LANE, Basis
from field.secrets.coins import Coins

# A deviating client escapes with probability below 2**-BITS.
BITS = 59


# --- the bound -------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def checks_needed(basis: Basis, corrected: int, bits: int = BITS) -> int:
    """The least count with `miss_bound` below 2**-bits: 2 for 30-bit lanes, 1 for 2**61 - 1."""
    count = 1
    while _missed(min(basis.primes), count, corrected) * 2**bits >= 1:
        count += 1
    return count


def miss_bound(basis: Basis, corrected: int, bits: int = BITS) -> Fraction:
    """A bound on the probability that a lie among the values that are used goes unnoticed.

    With c = combinations(...): p^-c + corrected p^-(c+1), below 2^-60 (1 + 2^-21) for 30-bit lanes.  The
    search passes over the values in their order; where a check fails it names a deviating client and goes on
    from there without it, with fresh coefficients and one check more.  What it passed holds a lie only if the
    first of the lies that were left passed, whatever becomes of the others: with probability p^-c in the
    first pass, and p^-(c+1) in each of the at most `corrected` later ones.
    """
    return _missed(min(basis.primes), checks_needed(basis, corrected, bits), corrected)


def _missed(p: int, count: int, corrected: int) -> Fraction:
    escape = Fraction(1, p**count)
    return escape + corrected * escape / p


# --- parity checks of replies -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class ParityChecks:
    """Random sums of some clients' values that vanish if none of them lies: secret until those are fixed.

    clients, sorted: any R of them decode.  weights (lanes, rows, clients): canonical residues.
    """

    basis: Basis
    clients: tuple[int, ...]
    weights: Array

    def __repr__(self) -> str:
        return f"Checks(clients={self.clients}, secret)"

    @classmethod
    def draw(
        cls, code: LagrangeCode, basis: Basis, clients: tuple[int, ...], degree: int, count: int, coins: Coins
    ) -> ParityChecks:
        """`count` of them, or one for each value past the threshold, which says it all, if that is fewer."""
        needed = code.threshold(degree)
        alphas = code.alphas
        points = tuple(alphas[j] for j in clients)
        spare = len(points) - needed
        count = min(count, spare)
        weights = np.zeros((basis.lanes, count, len(points)), basis.dtype)
        if count == 0:
            return cls(basis, clients, weights)
        carry = transfer_matrix(basis, points[:needed], points[needed:])
        # Check j is what the first values say of the value at point needed + j, less that value.
        first = carry[:, :count]
        if spare > count:
            mix = basis.sample((count, spare - count), coins)
            for j in range(count, spare):
                weights[:, :, needed + j] = basis.negate(mix[:, :, j - count])
                first = basis.add(first, basis.multiply(mix[:, :, j - count, None], carry[:, None, j]))
        weights[:, :, :needed] = first
        weights[:, range(count), range(needed, needed + count)] = basis.column(2, basis.dtype) - 1
        return cls(basis, clients, weights)

    def failing(self, values: Mapping[int, Array], done: Array) -> tuple[int, int] | None:
        """Some (h, i) where a check of the values (lanes, k, m) is not zero, or None if all are.

        done: (1,) int64, 0 for the first search: how far the values passed already, in chunks of the kernel
        or else in rows h.
        """
        replies = [values[j] for j in self.clients]
        if not self.weights.shape[1] or not replies[0].size:
            return None
        if self.basis.can_fold:
            from field.kernels import decoding

            place: tuple[int, int] | None = decoding.check(replies, self.factors, self.constants, done)
            return place
        for h in range(int(done[0]), replies[0].shape[1]):
            done[0] = h
            off = self.basis.matmul(self.weights, np.stack([r[:, h] for r in replies], axis=1))
            if off.any():
                return h, int(np.argmax(off.any(axis=(0, 1))))
        return None

    @property
    def factors(self) -> Array:
        """The weights as the kernel wants them: centered int64."""
        p = self.basis.column(3)
        weights = self.weights.astype(np.int64)
        return np.asarray(weights - p * (weights > p >> 1))

    @property
    def constants(self) -> Array:
        """c of every lane 2**30 - c."""
        return np.array([LANE - p for p in self.basis.primes], np.int64)


# --- who is off the polynomial ---------------------------------------------------------------------


def locate_deviating(
    code: LagrangeCode,
    values: Mapping[int, Array],
    degree: int,
    corrected: int,
    coins: Coins,
    *,
    bits: int = BITS,
) -> tuple[int, ...]:
    """The clients whose values are off the polynomial of degree `degree` in the shares, sorted.

    values[j] is (lanes, *shape), canonical residues of client j, in any lane of which it may lie.  coins
    are secret and drawn here, so the values must have arrived before.  If at most `corrected` clients lie,
    exactly the deviating clients are named, except with probability `miss_bound` (below 2**-bits); an honest
    client is then never named.  With s = len(values) - threshold(degree) - 2 corrected spare values:

    * up to corrected + s deviating clients are never blamed wrongly: TooManyFalse (or, if few lied in the
      end, their names);
    * more of them who choose their lies together can agree with threshold(degree) - 1 honest clients on
      another polynomial and frame up to `corrected` honest ones, and no decoder can tell; lies chosen
      independently of one another are still found too many, up to a chance of about C(n, corrected)
      p^-s-corrected.

    Raises TooFewValues below threshold(degree) + 2 corrected, and TooManyFalse.
    """
    return _search(code, values, degree, corrected, coins, bits, len(values))[1]


def screen_deviating(
    code: LagrangeCode,
    values: Mapping[int, Array],
    degree: int,
    corrected: int,
    coins: Coins,
    *,
    bits: int = BITS,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(clients to decode from, clients named), reading threshold(degree) + corrected values if they agree.

    Of that many agreeing values at least threshold(degree) are honest, so they lie on the true
    polynomial; whoever lies among the rest is not read, and not named unless it lies where another does.
    Arguments, errors and probability are those of `locate_deviating`.  More deviating clients than planned
    are noticed surely only there: use it where that matters more than time.
    """
    return _search(code, values, degree, corrected, coins, bits, code.threshold(degree) + corrected)


def _search(
    code: LagrangeCode,
    values: Mapping[int, Array],
    degree: int,
    corrected: int,
    coins: Coins,
    bits: int,
    read: int,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(clients whose values passed, clients named): attempts until no check fails, fresh ones every time.

    read: how many values the first attempt looks at.  Each deviating client that is named leaves one less to
    look at, so deviating clients past the planned number may go unnoticed here.
    """
    flat = {j: v.reshape(v.shape[0], 1, -1) if v.ndim != 3 else v for j, v in values.items()}
    if any(v.strides[2] != v.itemsize for v in flat.values()):
        # The kernel needs contiguous rows; lanes and clusters may have any stride.
        flat = {j: np.ascontiguousarray(v) for j, v in flat.items()}
    clients = sorted_clients(code, flat, degree, corrected)
    basis = code.basis.prefix(flat[clients[0]].shape[0])
    count, done = checks_needed(code.basis, corrected, bits), np.zeros(1, np.int64)
    named: tuple[int, ...] = ()
    while True:
        left = tuple(j for j in clients if j not in named)
        # One check more after the first attempt, see `miss_bound`.
        rows = count + bool(named)
        checks = ParityChecks.draw(code, basis, left[: read - len(named)], degree, rows, coins)
        place = checks.failing(flat, done)
        if place is None:
            return checks.clients, named
        h, i = place
        words = {j: flat[j][:, h, i, None] for j in left}
        try:
            named = tuple(sorted(named + locate_words(code, words, degree, corrected - len(named))))
        except TooManyFalse as error:
            suspects = tuple(sorted(named + error.suspects))
            raise TooManyFalse(corrected, len(clients), error.needed, suspects) from None


# --- random words of long shares -------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class RandomCombination:
    """Coefficients of random words of shares of `size` residues: unknown until the shares are fixed.

    scales (lanes, rows, blocks), weights (lanes, words, rows, width): canonical residues.
    """

    basis: Basis
    size: int
    scales: Array
    weights: Array

    def __repr__(self) -> str:
        return f"Combination(size={self.size}, secret)"

    @classmethod
    def draw(cls, basis: Basis, size: int, count: int, words: int, coins: Coins) -> RandomCombination:
        """Uniform coefficients: the same coins give the same, so receivers can share public ones."""
        # Short rows cost less at the end of a reply, long ones stream better from memory.
        width = 256 if size < 1 << 17 else 1024
        # The kernel takes rows two at a time; one more row only lowers the bound.
        rows = count + count % 2 if basis.can_fold else count
        scales = basis.sample((rows, -(-size // width)), coins)
        return cls(basis, size, scales, basis.sample((words, rows, width), coins))

    def of(self, values: Sequence[Array]) -> Array:
        """The words of arrays (lanes, *shape) of canonical residues: (lanes, len(values), words).

        A difference from zero leaves all words zero with probability at most p^-count + p^-words (module
        docstring), over coefficients it does not depend on.
        """
        basis = self.basis
        lanes, words, _, width = self.weights.shape
        flat = [v.reshape(lanes, -1) for v in values]
        out = np.zeros((lanes, len(flat), words), basis.dtype)
        if self.size == 0 or not flat:
            return out
        if basis.can_fold:
            from field.kernels import decoding
            from field.kernels.scalar import centered

            c = np.array([LANE - p for p in basis.primes], np.int64)
            scales = [centered(lane, p) for lane, p in zip(self.scales, basis.primes, strict=True)]
            # Rows must be contiguous for the kernel; lanes may have any stride.
            flat = [v if v.strides[1] == v.itemsize else np.ascontiguousarray(v) for v in flat]
            decoding.sum_words(flat, np.array(scales, np.int32), self.weights, c, out)
            return out
        columns = np.zeros((lanes, self.scales.shape[2] * width), basis.dtype)
        for j, v in enumerate(flat):
            columns[:, : self.size] = v
            sums = basis.matmul(self.scales, columns.reshape(lanes, -1, width))
            out[:, j] = basis.matmul(self.weights.reshape(lanes, words, -1), sums.reshape(lanes, -1, 1))[
                ..., 0
            ]
        return out


# --- dealings --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DealingFault:
    """What the published combinations of one dealer's shares say.

    dealer     the dealing is false.  Proof to everybody who saw the published values from their authors,
               if at most the planned number of receivers lie; no proof to an outsider.
    receivers  published a value off the polynomial of the others.  Suspicion only: each either published
               falsely or was dealt a false share, and the dealer's signature on the share decides.
    """

    dealer: bool
    receivers: tuple[int, ...]

    @property
    def good(self) -> bool:
        return not self.dealer and not self.receivers


def mask_words(code: LagrangeCode, corrected: int, bits: int = BITS) -> int:
    """How many masking values a lane a dealer adds to its shares: 4 for 30-bit lanes."""
    return checks_needed(code.basis, corrected, bits) + 2


def deal_mask(code: LagrangeCode, words: int, coins: Coins, lanes: int | None = None) -> list[Array]:
    """n secret shares (lanes, words) of uniform polynomials of degree ell + t - 1, to hide combinations."""
    lanes = code.basis.lanes if lanes is None else lanes
    if lanes != code.basis.lanes:
        code = LagrangeCode(code.basis.prefix(lanes), code.n, code.ell, code.t)
    # Uniform at the ell data points and at the t noise points, so uniform altogether.
    hidden = code.basis.sample((1, code.ell * words), coins)
    return [share[:, 0] for share in code.share(hidden, coins)]


def combine_shares(code: LagrangeCode, share: Array, mask: Array, coins: Coins) -> Array:
    """What a receiver publishes about the shares it got from one dealer: (lanes, words), public.

    share (lanes, *shape) and mask (lanes, words) are secret.  coins are common to all receivers, for one
    dealer, and drawn after every share of that dealer has arrived: a dealer who knows them can deviate.
    The masks are used for one publication and never again: two with one mask reveal a combination.

    Privacy: the published words are points of g + sum gamma f with g uniform of the same degree, so
    together with all the shares of any t receivers they are distributed alike for all data.

    Soundness: if honest receivers hold shares that lie on no polynomial of the degree, their published
    words do with probability at most p^-(words-1) + p^-words, whatever masks were dealt: given sums that
    do not all vanish (they do with probability p^-(words-1)), each word cancels the fixed error of the
    masks with probability 1/p.
    """
    words = mask.shape[1]
    lanes = share.shape[0]
    basis = code.basis.prefix(lanes)
    combination = RandomCombination.draw(basis, share.size // lanes, max(1, words - 1), words, coins)
    return basis.add(combination.of([share])[:, 0], mask)


def judge_dealing(
    code: LagrangeCode,
    published: Mapping[int, Array],
    corrected: int,
    *,
    degree: int = 1,
    zero_sum: bool = False,
) -> DealingFault:
    """Who is at fault, if anybody, by the published words (lanes, words) of one dealer's shares.

    degree: of the dealt polynomial in the shares, 1 for points and 2 for blinding (`field.code.masking`),
    whose values at the data points must sum to zero as well (zero_sum; its masks are dealt like it).

    If at most `corrected` receivers publish falsely, then with e = p^-(words-1) + p^-words, p the least
    prime,

    * an honest dealer is never found at fault;
    * a dealing off every polynomial at honest receivers is `good` with probability at most e;
    * the shares of the honest receivers that are not named lie on one polynomial (and sum to zero, if
      asked), except with probability at most C(n, corrected) e: a union over who is named.

    Named receivers hold shares that nobody may rely on: until the dispute is settled leave the dealer
    out, or treat those receivers' later replies as missing.

    Raises TooFewValues below threshold(degree) + 2 corrected.
    """
    try:
        off = locate_words(code, published, degree, corrected)
    except TooManyFalse:
        return DealingFault(True, ())
    if zero_sum:
        rest = {j: words for j, words in published.items() if j not in off}
        if code.decode(rest, degree).any():
            return DealingFault(True, off)
    return DealingFault(False, off)


# --------------------------------------------------------------------------------------------------
# Short digests that add up like what they are of: of bits with exclusive or, of residues modulo primes.
#
# Players who opened sums of shares compare digests of their shares: those of all shares together are the
# digest of what was opened, so a false share shows, and whose it was.  The key is public, but drawn when all
# shares are told; then two different arrays have the same digest with probability below 2**-100 for words,
# and with (2 / p)**2 a lane for residues.
#
# Words: GMAC of them less GMAC of as many zeros.  GHASH is a polynomial in the key, linear in the blocks of
# the text, and GMAC adds two blocks to it, one from the length (NIST SP 800-38D, 6.4 and 7.1).  Who holds a
# part of what is opened learns from another part's digest one combination of its shares.  These are uniform
# subject to what is opened, each under a mask of its own, so the digest is uniform subject to that of it.


SIZE = 16
# Random sums of residues a lane.
SUMS = 2
# Residues are put in so many rows.
ROWS = 64
_BLOCK = 1 << 26


@dataclass(frozen=True, eq=False, repr=False)
class LinearDigest:
    """Digests under one key, from 32 bytes that nobody knew when what they are of was fixed."""

    seed: bytes

    def __post_init__(self) -> None:
        if len(self.seed) != 32:
            raise ValueError(f"a digest takes a seed of 32 bytes, not of {len(self.seed)}")

    def words(self, arrays: Iterable[Array]) -> bytes:
        """16 bytes of uint64 arrays in their order: of a ^ b, the exclusive or of those of a and b."""
        total, key = 0, self._key(b"words")
        text = Cipher(algorithms.AES(key), _NONCE).encryptor()
        for array in arrays:
            if array.dtype != np.uint64:
                raise TypeError(f"words are uint64, these are {array.dtype}")
            # Little-endian on every machine, so that parties on different ones agree.
            view = np.ascontiguousarray(array, "<u8").reshape(-1).data.cast("B")
            for start in range(0, view.nbytes, _BLOCK):
                text.authenticate_additional_data(view[start : start + _BLOCK])
            total += view.nbytes
        if not total:
            return bytes(SIZE)
        text.finalize()
        # With this nonce the block after that of the hash's key, in counter mode, is the one which is added.
        blocks = Coins(key).bytes(2 * SIZE)
        added = int.from_bytes(blocks[SIZE:], "big") ^ _hash_length(total, blocks[:SIZE])
        return (int.from_bytes(text.tag, "big") ^ added).to_bytes(SIZE, "big")

    def residues(self, basis: Basis, arrays: Iterable[Array]) -> Array:
        """(lanes, 2) of residues (lanes' <= lanes, ...) in their order: sums of these by random factors."""
        coins = Coins(self._key(b"residues"))
        total = np.zeros((basis.lanes, SUMS), basis.dtype)
        for array in arrays:
            lanes = len(array)
            some = basis.prefix(lanes)
            flat = array.reshape(lanes, -1)
            rows = min(ROWS, max(1, flat.shape[1]))
            width = -(-flat.shape[1] // rows)
            # The factor of an entry is that of its row times that of its column, so few are drawn.
            down = some.sample((SUMS, rows), coins)
            whole, left = divmod(flat.shape[1], width or 1)
            table = flat[:, : whole * width].reshape(lanes, whole, width)
            columns = some.matmul(np.ascontiguousarray(down[:, :, :whole]), table)
            if left:  # the last row is shorter
                last = some.multiply(down[:, :, whole, None], flat[:, None, whole * width :])
                columns[:, :, :left] = some.add(columns[:, :, :left], last)
            factors = some.sample(columns.shape[1:], coins)
            total[:lanes] = some.add(
                np.ascontiguousarray(total[:lanes]), sum_last(some, some.multiply(factors, columns))
            )
        return total

    def _key(self, purpose: bytes) -> bytes:
        return hashlib.blake2b(purpose, key=self.seed, digest_size=16, person=b"secfc-linear").digest()


_NONCE = modes.GCM(bytes(12))


def _hash_length(size: int, key: bytes) -> int:
    """GHASH of so many zero bytes: their length in bits times the key, in GF(2**128)."""
    # Bits in the order of GCM, the first one for 1: the length's are the 64 before the middle, so the product
    # has 63 bits behind the 128 of the key.
    bits, factor, product = 8 * size, int.from_bytes(key, "big"), 0
    while bits:
        lowest = bits & -bits
        product ^= factor * lowest
        bits ^= lowest
    # x**128 is 1 + x + x**2 + x**7.
    over = (product & ((1 << 63) - 1)) << 65
    return product >> 63 ^ over ^ over >> 1 ^ over >> 2 ^ over >> 7
