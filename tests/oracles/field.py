"""The kernels' twins: the same functions through Python integers, fractions and galois.

Slow and obviously right.  Tests compare every kernel with these; nothing else uses them.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.ring.basis import Basis
from field.secrets.coins import Coins

Array = NDArray[Any]


def matmul(matrix: Array, columns: Array, primes: Sequence[int]) -> Array:
    """(lanes, r, q) times (lanes, q, N) modulo each prime, by Python integers: object array."""
    return np.stack(
        [a.astype(object) @ b.astype(object) % p for a, b, p in zip(matrix, columns, primes, strict=True)]
    )


def galois_matmul(matrix: Array, columns: Array, p: int) -> Array:
    """One lane of the same product by galois."""
    field = galois_field(p)
    return np.asarray(field(matrix.astype(object)) @ field(columns.astype(object)), object)


def galois_transfer(xs: Sequence[int], ys: Sequence[int], p: int) -> list[list[int]]:
    """The matrix of `lagrange.transfer_rows`: column u interpolates the u-th unit vector, by galois."""
    import galois

    field = galois_field(p)
    columns = []
    for u in range(len(xs)):
        unit = field([int(i == u) for i in range(len(xs))])
        columns.append([int(v) for v in galois.lagrange_poly(field(list(xs)), unit)(field(list(ys)))])
    return [list(row) for row in zip(*columns, strict=True)]


def galois_field(p: int) -> Any:
    """galois.GF(p), with the primitive element given for 2**61 - 1 to spare a long search; not compiled."""
    import galois

    if p == 2**61 - 1:
        return galois.GF(p, primitive_element=37, verify=False)
    return galois.GF(p, compile="python-calculate")


def scaled_distances(points: Array, labels: Array, k: int) -> Array:
    """||S_h - s_h x_i||**2 over the integers: (k, m) Python integers; label -1 is no cluster."""
    rows = points.astype(object)
    out = np.zeros((k, len(rows)), object)
    for h in range(k):
        members = rows[labels == h]
        center = members.sum(axis=0) if len(members) else rows[0] * 0
        out[h] = ((center - len(members) * rows) ** 2).sum(axis=1)
    return out


def nearest(scaled: Array, sizes: Sequence[int]) -> list[int]:
    """The center with the least scaled / size**2 by fractions; lowest index on ties, none if empty."""
    labels = []
    for column in scaled.T:
        ratios = [
            (Fraction(int(value), int(size) ** 2), h)
            for h, (value, size) in enumerate(zip(column, sizes, strict=True))
            if size
        ]
        labels.append(min(ratios)[1] if ratios else -1)
    return labels


def separated(scaled: Array, sizes: Sequence[int], factor: int) -> list[int]:
    """The center whose factor-fold squared distance is at most every other's, or -1, by fractions."""
    labels = []
    for column in scaled.T:
        ratios = {
            h: Fraction(int(value), int(size) ** 2)
            for h, (value, size) in enumerate(zip(column, sizes, strict=True))
            if size
        }
        cores = [
            h for h, r in ratios.items() if all(factor * r <= other for g, other in ratios.items() if g != h)
        ]
        labels.append(cores[0] if cores else -1)
    return labels


def lift(residues: Array, primes: Sequence[int]) -> Array:
    """The Chinese remainder theorem by its formula: Python integers in [0, product)."""
    modulus = 1
    for p in primes:
        modulus *= p
    total = np.zeros(residues.shape[1:], object)
    for lane, p in zip(residues, primes, strict=True):
        rest = modulus // p
        total = total + lane.astype(object) * (rest * pow(rest, -1, p))
    return np.asarray(total % modulus)


class Words:
    """The words of a stream of coins one by one, and what samplers draw from them."""

    def __init__(self, coins: Coins) -> None:
        self.coins = coins

    def word(self) -> int:
        return int.from_bytes(self.coins.bytes(8), "little")

    def below(self, bound: int) -> int:
        """Uniform in [0, bound): of 32 bits by Lemire's method, of more by masking."""
        if bound == 1:
            return 0
        if bound < 2**32:
            while (product := (self.word() >> 32) * bound) % 2**32 < 2**32 % bound:
                pass
            return product >> 32
        while (value := self.word() % (1 << (bound - 1).bit_length())) >= bound:
            pass
        return value

    def exp(self, exponent: Fraction, *factors: int) -> bool:
        """True with probability exp(-exponent): the parity of the first failure among trials exponent / turn.

        A trial is one of exponent.numerator in exponent.denominator; factors: its numerator and denominator
        written as products (a, b, a', b', ...), each drawn by itself.
        """
        pairs = factors or (exponent.numerator, exponent.denominator)
        turn = 1
        while all(self.below(b) < a for a, b in zip(pairs[::2], pairs[1::2], strict=True)):
            if self.below(turn):
                break
            turn += 1
        return turn % 2 == 1

    def laplace(self, scale: Fraction) -> int:
        """Canonne, Kamath, Steinke, algorithm 2."""
        t, s = scale.numerator, scale.denominator
        while True:
            u = self.below(t)
            if not self.exp(Fraction(u, t), u, t):
                continue
            v = 0
            while self.exp(Fraction(1)):
                v += 1
            size = (u + t * v) // s
            if not (negative := self.word() % 2) or size:
                return -size if negative else size

    def gaussian(self, sigma: Fraction) -> int:
        """Canonne, Kamath, Steinke, algorithm 3; the proposal's scale is sigma if that is whole."""
        t = sigma.numerator if sigma.denominator == 1 else int(sigma) + 1
        while True:
            y = self.laplace(Fraction(t))
            ratio = abs(abs(y) - sigma * sigma / t) / sigma
            q, rest = divmod(ratio, 1)
            # A kernel compares with the denominators as they come, not in lowest terms.
            b = t if sigma.denominator == 1 else t * sigma.numerator * sigma.denominator
            r = int(rest * b)
            if not all(self.exp(Fraction(1, 2)) for _ in range(q * q)):
                continue
            if all(self.exp(rest, r, b) for _ in range(q)) and self.exp(rest**2 / 2, r, b, r, b, 1, 2):
                return y

    def falls(self, k: int, x: Fraction) -> bool:
        """Karney, algorithm B, on 128 binary digits: true with probability exp(-x (2k + x) / (2k + 2))."""
        y, even = int(x * 2**128), True
        while (z := self.digits()) < y:
            choice = self.below(2 * k + 2)
            if choice > 2 * k or (choice == 2 * k and self.digits() >= int(x * 2**128)):
                break
            y, even = z, not even
        return even

    def digits(self) -> int:
        return self.word() << 64 | self.word()

    def rounded(self, sigma: Fraction) -> int:
        """Karney, algorithm N, times sigma, rounded to the nearest integer."""
        while True:
            k = 0
            while self.exp(Fraction(1, 2)):
                k += 1
            if not all(self.exp(Fraction(1, 2)) for _ in range(k * (k - 1))):
                continue
            x = Fraction(self.digits() << 64 | self.word(), 2**192)
            if all(self.falls(k, x) for _ in range(k + 1)):
                size = int(sigma * (k + x) + Fraction(1, 2))
                return -size if self.word() % 2 else size


def digit_bits(y: int, r: int, digits: int) -> tuple[list[int], list[int]]:
    """For each three-bit digit, most significant first: whether r's equals y's, whether it exceeds it."""
    pairs = [((y >> 3 * d) & 7, (r >> 3 * d) & 7) for d in reversed(range(digits))]
    return [int(a == b) for a, b in pairs], [int(b > a) for a, b in pairs]


def join_nodes(eq: Sequence[int], gt: Sequence[int], arities: Sequence[int]) -> tuple[list[int], list[int]]:
    """One level of the comparison tree: equality and excess of neighbors taken together."""
    first, eqs, gts = 0, [], []
    for arity in arities:
        ends = range(first, first + arity)
        eqs.append(int(all(eq[d] for d in ends)))
        gts.append(next((int(gt[d]) for d in ends if not eq[d]), 0))
        first += arity
    return eqs, gts


def dealt_comparison(
    y: int, r: int, levels: Sequence[Sequence[int]], masks: Sequence[int]
) -> tuple[tuple[int, ...], int]:
    """What a committee opens of one comparison, in order, and the bit: the last one of y - r mod P.

    masks: one bit for every bit opened; the last opened bit is the result under a mask.
    """
    eq, gt = digit_bits(y, r, sum(levels[0]))
    bits = [*eq[:-1], *gt]
    for arities in levels:
        eq, gt = join_nodes(eq, gt, arities)
        bits += [*eq[:-1], *gt]
    bits[-1] ^= (y ^ r) & 1
    return tuple(bit ^ mask for bit, mask in zip(bits, masks, strict=True)), bits[-1]


def fractions(basis: Basis, values: Array, chosen: Array, factors: Array, offset: int, places: int) -> Array:
    """Binary digits of sum_l x_l / p_l modulo 1 rounded down, plus the offset: (places, combinations, m).

    Exact rational numbers; x_l = sum_q factors[l, c, q] values[l, chosen[c, q]].
    """
    out = np.zeros((places, len(chosen), values.shape[2]), np.uint8)
    for c, rows in enumerate(chosen):
        for i in range(values.shape[2]):
            total = Fraction(0)
            for lane, p in enumerate(basis.primes):
                terms = zip(factors[lane, c], rows, strict=True)
                total += Fraction(sum(int(f) * int(values[lane, r, i]) for f, r in terms) % p, p)
            number = int((total % 1) * 2**places) + offset
            out[:, c, i] = [number >> b & 1 for b in range(places)]
    return out


def shared_products(x: Array, y: Array, mine: Array) -> Array:
    """XOR of x[c] & y[e] over all c, e with mine[c, e]."""
    out: Array = np.zeros_like(x[0])
    for c, e in np.argwhere(mine):
        out ^= x[c] & y[e]
    return out


def project(words: Sequence[int], signs: Array, p: int | None = None) -> list[list[int]]:
    """Sums of blocks of words under rows of signs, modulo p if there is one
    (`field.code.lagrange_code.projections`)."""
    size = signs.shape[1]
    blocks = [words[i : i + size] for i in range(0, len(words), size)]
    sums = [
        [sum(int(s) * int(w) for s, w in zip(row, block, strict=False)) for row in signs] for block in blocks
    ]
    return sums if p is None else [[total % p for total in block] for block in sums]
