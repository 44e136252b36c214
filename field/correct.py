"""Finding lying replies and false dealings: Reed-Solomon decoding of a few random words.

The replies of honest clients are, value by value, points of one polynomial of degree below R, the code's
threshold.  One random linear combination of all values of a reply is then a point of one such polynomial
as well, and the combination of a lie is a lie unless the coefficients, drawn after the replies are fixed,
happen to cancel it.  So a few words a lane are checked instead of every value, and only if they lie on no
polynomial are errors located: once, by Gao's algorithm (S. Gao, "A new algorithm for decoding
Reed-Solomon codes", 2003), in words of one symbol a client.  Everything left is decoded as if the liars
had been silent.

The combination.  A reply r of N residues is read as blocks r[b, a].  `count` rows of coefficients x give
the sums u_s[a] = sum_b x_s[b] r[b, a], and count + 1 rows of coefficients y the words
sum_{s,a} y_w[s, a] u_s[a].  A lie r' = r + e with e != 0 modulo p has a column a with e[., a] != 0, so all
its u_s vanish with probability at most p^-count; if one does not, all words vanish with probability
p^-(count+1).  Hence (all coefficients uniform, independent of the lies)

    P(a given lie leaves no trace in the words) <= p^-count + p^-(count+1).

A lie in several lanes leaves no trace only if it leaves none in each, so the smallest prime decides.

Assumes at most `liars` lying clients: what more of them can do is said at `locate`.  Blames whoever sent
the value that is off the polynomial; an honest client to whom a dealer gave a false share computes false
replies, which is why dealings are checked (`judge_dealing`) before replies are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.basis import LANE, Basis
from field.code import LagrangeCode, TooFewValues
from field.coins import Coins
from field.lagrange import transfer_matrix

Array = NDArray[Any]

# A liar escapes with probability below 2**-BITS.
BITS = 59


class TooManyLiars(ValueError):  # noqa: N818 - what happened, as TooFewValues
    """More values are off every polynomial than liars were planned for.

    liars  how many the caller tolerates
    got    how many clients replied
    suspects  clients located so far, possibly none and possibly honest: no proof
    """

    def __init__(self, liars: int, got: int, needed: int, suspects: tuple[int, ...]) -> None:
        super().__init__(
            f"more than liars={liars} of {got} replies are false, and {needed} that agree are needed: "
            "ask more clients and plan for more liars (two more replies each), or leave suspects out"
        )
        self.liars, self.got, self.needed, self.suspects = liars, got, needed, suspects


# --- the bound -------------------------------------------------------------------------------------


def combinations(basis: Basis, liars: int, bits: int = BITS) -> int:
    """The least count with `miss_bound` below 2**-bits: 2 for 30-bit lanes, 1 for 2**61 - 1."""
    count = 1
    while _missed(min(basis.primes), count, liars) * 2**bits >= 1:
        count += 1
    return count


def miss_bound(basis: Basis, liars: int, bits: int = BITS) -> Fraction:
    """A bound on the probability that a lie goes unnoticed or any of `liars` liars unnamed.

    With c = combinations(...) and e = p^-c + p^-(c+1): noticing takes one lie that leaves a trace, so it
    fails with probability at most e; naming draws c fresh rows, and each liar escapes both with e^2.
    Together e + liars e^2: below 2^-60 (1 + 2^-21) for 30-bit lanes, below 2^-60 for 2^61 - 1.
    """
    return _missed(min(basis.primes), combinations(basis, liars, bits), liars)


def _missed(p: int, count: int, liars: int) -> Fraction:
    trace = Fraction(p + 1, p ** (count + 1))
    return trace + liars * trace**2


# --- random words of long replies ------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Combination:
    """Coefficients of random words of replies of `size` residues: secret until the replies are fixed.

    scales (lanes, rows, blocks), weights (lanes, words, rows, width): canonical residues.
    """

    basis: Basis
    size: int
    scales: Array
    weights: Array

    def __repr__(self) -> str:
        return f"Combination(size={self.size}, secret)"

    @classmethod
    def draw(cls, basis: Basis, size: int, count: int, words: int, coins: Coins) -> Combination:
        """Uniform coefficients: the same coins give the same, so receivers can share public ones."""
        # Short rows cost less at the end of a reply, long ones stream better from memory.
        width = 256 if size < 1 << 17 else 1024
        # The kernel takes rows two at a time; one more row only lowers the bound.
        rows = count + count % 2 if basis.folded else count
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
        if basis.folded:
            from field import correcting
            from field.kernels import centered

            c = np.array([LANE - p for p in basis.primes], np.int64)
            scales = [centered(lane, p) for lane, p in zip(self.scales, basis.primes, strict=True)]
            # Rows must be contiguous for the kernel; lanes may have any stride.
            flat = [v if v.strides[1] == v.itemsize else np.ascontiguousarray(v) for v in flat]
            correcting.combine(flat, np.array(scales, np.int32), self.weights, c, out)
            return out
        columns = np.zeros((lanes, self.scales.shape[2] * width), basis.dtype)
        for j, v in enumerate(flat):
            columns[:, : self.size] = v
            sums = basis.matmul(self.scales, columns.reshape(lanes, -1, width))
            out[:, j] = basis.matmul(self.weights.reshape(lanes, words, -1), sums.reshape(lanes, -1, 1))[
                ..., 0
            ]
        return out


# --- who is off the polynomial ---------------------------------------------------------------------


def locate(
    code: LagrangeCode,
    values: Mapping[int, Array],
    degree: int,
    liars: int,
    coins: Coins,
    *,
    bits: int = BITS,
) -> tuple[int, ...]:
    """The clients whose values are off the polynomial of degree `degree` in the shares, sorted.

    values[j] is (lanes, *shape), canonical residues of client j, in any lane of which it may lie.  coins
    are secret and drawn here, so the values must have arrived before.  If at most `liars` clients lie,
    exactly the liars are named, except with probability `miss_bound` (below 2**-bits); an honest client
    is then never named.  With s = len(values) - threshold(degree) - 2 liars spare values:

    * up to liars + s lying clients are never blamed wrongly: TooManyLiars (or, if few lied in the end,
      their names);
    * more of them who choose their lies together can agree with threshold(degree) - 1 honest clients on
      another polynomial and frame up to `liars` honest ones, and no decoder can tell; lies chosen
      independently of one another are still found too many, up to a chance of about C(n, liars) p^-s-liars.

    Raises TooFewValues below threshold(degree) + 2 liars, and TooManyLiars.
    """
    return _search(code, values, degree, liars, coins, bits, len(values))[1]


def screen(
    code: LagrangeCode,
    values: Mapping[int, Array],
    degree: int,
    liars: int,
    coins: Coins,
    *,
    bits: int = BITS,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(clients to decode from, liars named), reading only threshold(degree) + liars values if they agree.

    Of that many agreeing values at least threshold(degree) are honest, so they lie on the true
    polynomial; whoever lies among the rest is not read and not named.  If they disagree all values are
    read, as in `locate`, with its arguments, errors and probability.  More liars than planned are noticed
    surely only in `locate`: use it where that matters more than time.
    """
    return _search(code, values, degree, liars, coins, bits, code.threshold(degree) + liars)


def _search(
    code: LagrangeCode,
    values: Mapping[int, Array],
    degree: int,
    liars: int,
    coins: Coins,
    bits: int,
    read: int,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(clients whose values agree, liars): reads the first `read` values, and all if those disagree.

    Any R of the clients' points fix a polynomial, so lies with a trace of at most read - R clients are on
    none and are noticed.
    """
    clients = _enough(code, values, degree, liars)
    lanes = values[clients[0]].shape[0]
    basis = code.basis.prefix(lanes)
    size = values[clients[0]].size // lanes
    count = combinations(code.basis, liars, bits)
    noticing = Combination.draw(basis, size, count, count + 1, coins)
    words = noticing.of([values[j] for j in clients[:read]])
    if not _off(code, words, clients[:read], degree).any():
        return clients[:read], ()
    # Nobody has seen the coefficients, so the values not read yet are fixed independently of them.
    rest = noticing.of([values[j] for j in clients[read:]])
    naming = Combination.draw(basis, size, count, count + 1, coins).of([values[j] for j in clients])
    table = np.concatenate([np.concatenate([words, rest], axis=1), naming], axis=2)
    culprits = locate_words(code, dict(zip(clients, table.swapaxes(0, 1), strict=True)), degree, liars)
    return tuple(j for j in clients if j not in culprits), culprits


def _enough(code: LagrangeCode, values: Mapping[int, Any], degree: int, liars: int) -> tuple[int, ...]:
    if liars < 0:
        raise ValueError(f"liars={liars} is negative: it counts the lying clients to be found")
    needed = code.threshold(degree) + 2 * liars
    if len(values) < needed:
        raise TooFewValues(needed, len(values))
    return tuple(sorted(values))


def locate_words(code: LagrangeCode, words: Mapping[int, Array], degree: int, liars: int) -> tuple[int, ...]:
    """The clients off the polynomial in any lane of any word, sorted: words[j] is (lanes, words).

    One word at a time is decoded, without the clients already found: removing an error before decoding
    needs one value less, so what remains locates the errors that remain.

    Raises TooFewValues and TooManyLiars as `locate`, with the same limits.
    """
    left = _enough(code, words, degree, liars)
    found: list[int] = []
    while True:
        table = np.stack([words[j] for j in left], axis=1)
        off = np.argwhere(_off(code, table, left, degree))
        if not len(off):
            return tuple(sorted(found))
        lane, w = (int(i) for i in off[0])
        wrong = _errors(code, lane, [int(x) for x in table[lane, :, w]], left, degree)
        kept = [i for i in range(len(left)) if i not in wrong]
        left = tuple(left[i] for i in kept)
        # Fewer agreeing symbols than this may agree on a polynomial of the liars' choice.
        needed = code.threshold(degree) + liars
        decoded = len(left) >= needed and not _off(code, table[:, kept], left, degree)[lane, w]
        if decoded and wrong:
            found = sorted(set(words) - set(left))
        if not decoded or len(found) > liars:
            raise TooManyLiars(liars, len(words), needed, tuple(found))


def _off(code: LagrangeCode, table: Array, clients: tuple[int, ...], degree: int) -> Array:
    """Which words of (lanes, clients, words) lie on no polynomial: bool (lanes, words).

    The first R symbols give the others; with R or fewer clients none is off.
    """
    needed = code.threshold(degree)
    points = tuple(code.alphas[j] for j in clients)
    if len(points) <= needed:
        return np.zeros((table.shape[0], table.shape[2]), bool)
    basis = code.basis.prefix(table.shape[0])
    matrix = transfer_matrix(basis, points[:needed], points[needed:])
    return np.asarray((basis.matmul(matrix, table[:, :needed]) != table[:, needed:]).any(axis=1))


def _errors(
    code: LagrangeCode, lane: int, word: list[int], clients: tuple[int, ...], degree: int
) -> list[int]:
    """Positions of the errors in a word of one lane, if at most (len(word) - R) / 2: Gao's algorithm.

    With g0 the polynomial that vanishes at all points and g1 the interpolation of the word, the Euclidean
    algorithm on (g0, g1), stopped at the first remainder of degree below (n + R) / 2, has as cofactor of
    g1 a multiple by a constant of the error locator.  With more errors the answer is arbitrary: the
    caller checks it.  Python integers; at most O(n^2) steps.
    """
    p = code.basis.primes[lane]
    xs = [code.alphas[j] % p for j in clients]
    n = len(xs)
    a, b = _interpolation(xs, word, p)
    # Invariant: b = v g1 modulo g0, and a = u g1 modulo g0.
    u: list[int] = []
    v = [1]
    while 2 * (len(b) - 1) >= n + code.threshold(degree):
        quotient, remainder = _divide(a, b, p)
        a, b = b, remainder
        u, v = v, _minus_product(u, quotient, v, p)
    return [i for i, x in enumerate(xs) if _value(v, x, p) == 0]


# Polynomials are lists of Python integers modulo p, lowest coefficient first, without leading zeros.


def _interpolation(xs: list[int], ys: list[int], p: int) -> tuple[list[int], list[int]]:
    """prod (x - x_i), and the polynomial of degree below len(xs) through the points (Newton's form)."""
    full = [1]
    through: list[int] = []
    for x, y in zip(xs, ys, strict=True):
        # Add the multiple of prod over the earlier points that moves the value at x to y.
        scale = (y - _value(through, x, p)) * pow(_value(full, x, p), -1, p) % p
        through = _minus_product(through, [-scale % p], full, p)
        full = _minus_product([], [x, p - 1], full, p)
    return full, through


def _value(f: list[int], x: int, p: int) -> int:
    total = 0
    for coefficient in reversed(f):
        total = (total * x + coefficient) % p
    return total


def _minus_product(f: list[int], g: list[int], h: list[int], p: int) -> list[int]:
    """f - g h."""
    out = f + [0] * (len(g) + len(h) - 1 - len(f))
    for i, a in enumerate(g):
        for j, b in enumerate(h):
            out[i + j] = (out[i + j] - a * b) % p
    return _trimmed(out)


def _divide(a: list[int], b: list[int], p: int) -> tuple[list[int], list[int]]:
    """Quotient and remainder; b is not zero."""
    rest = list(a)
    quotient = [0] * max(0, len(a) - len(b) + 1)
    lead = pow(b[-1], -1, p)
    for shift in range(len(quotient) - 1, -1, -1):
        scale = rest[shift + len(b) - 1] * lead % p
        quotient[shift] = scale
        for i, x in enumerate(b):
            rest[shift + i] = (rest[shift + i] - scale * x) % p
    return _trimmed(quotient), _trimmed(rest)


def _trimmed(f: list[int]) -> list[int]:
    while f and f[-1] == 0:
        f.pop()
    return f


# --- dealings --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
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


def mask_words(code: LagrangeCode, liars: int, bits: int = BITS) -> int:
    """How many masking values a lane a dealer adds to its shares: 4 for 30-bit lanes."""
    return combinations(code.basis, liars, bits) + 2


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
    dealer, and drawn after every share of that dealer has arrived: a dealer who knows them can cheat.
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
    combination = Combination.draw(basis, share.size // lanes, max(1, words - 1), words, coins)
    return basis.add(combination.of([share])[:, 0], mask)


def judge_dealing(
    code: LagrangeCode,
    published: Mapping[int, Array],
    liars: int,
    *,
    degree: int = 1,
    zero_sum: bool = False,
) -> Verdict:
    """Who is at fault, if anybody, by the published words (lanes, words) of one dealer's shares.

    degree: of the dealt polynomial in the shares, 1 for points and 2 for blinding (`field.blind`), whose
    values at the data points must sum to zero as well (zero_sum; its masks are dealt like it).

    If at most `liars` receivers publish falsely, then with e = p^-(words-1) + p^-words, p the least prime,

    * an honest dealer is never found at fault;
    * a dealing off every polynomial at honest receivers is `good` with probability at most e;
    * the shares of the honest receivers that are not named lie on one polynomial (and sum to zero, if
      asked), except with probability at most C(n, liars) e: a union over who is named.

    Named receivers hold shares that nobody may rely on: until the dispute is settled leave the dealer
    out, or treat those receivers' later replies as missing.

    Raises TooFewValues below threshold(degree) + 2 liars.
    """
    try:
        off = locate_words(code, published, degree, liars)
    except TooManyLiars:
        return Verdict(True, ())
    if zero_sum:
        rest = {j: words for j, words in published.items() if j not in off}
        if code.decode(rest, degree).any():
            return Verdict(True, off)
    return Verdict(False, off)
