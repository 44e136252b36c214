"""A check that a shared sum is the inner product of two shared vectors: the mathematics, without messages.

Products of shares have twice the degree and are dealt anew, by clients that may add to them what they like.
Whether sums S of rows X by shared labels B are B X is one inner product per lane and repetition: for public
coins a, g it is `a.S g = <B a, X g>`, of length m, but for errors that vanish with probability 2 / p; that
labels are one-hot is another, but for 3 / p.

An inner product <b, x> = s of length q**2 is compressed in two levels (Boneh, Boyle, Corrigan-Gibbs, Gilboa
and Ishai, CRYPTO 2019).  Cut b and x into q blocks, the values at 1, ..., q of vectors of polynomials b(z),
x(z) of degree q - 1.  Then h(z) = <b(z), x(z)> has degree 2q - 2, and h(1) + ... + h(q) = s.  Clients deal
anew h at all of 1, ..., 2q - 1 but q, and h(q) follows from s.  A coin z, drawn when these are fixed,
leaves <u, v> = h(z) of length q.  Once more with blocks of one number, and a uniform one at 0: U(y), V(y)
of degree q, H(y) of degree 2q.  A coin y opens three words of the degree of a share, which honest clients
alone fix.  U and V are uniform by their values at 0, and H follows.  Coins lie outside of 0, ..., 2q: at a
point whose product is dealt anything passes, and U, V at the points of blocks are numbers of the vectors.

Whatever is added to a product before its coin is drawn: if s is wrong, h as told is another polynomial than
<b, x>, and they meet in at most 2q - 2 points; if they do not at z, H is another one than U V, and these
meet in at most 2q.  All of these functions are linear in shares, but for products.

A sum of many squares is folded first (`SquareFold`): its blocks have the same polynomials on both sides, and
in all repetitions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import count

import numpy as np

from field.arrays import Array
from field.code.lagrange_code import transfer_matrix
from field.code.reply_check import sum_last
from field.ring.basis import Basis

# A wrong sum passes with at most this probability, whatever is added to products.
MISSED = Fraction(1, 2**60)


def miss_bound(p: int, m: int, repetitions: int = 1, width: int = 0) -> Fraction:
    """Probability, at most, that a wrong sum of m products modulo p passes, with fresh coins a repetition.

    width: of vectors whose squares are folded before; 0 for none.
    """
    q, folded = block_length(m), block_length(width**2) if width else 1
    coins = p - 2 * max(q, folded) - 1
    return (Fraction(3 + bool(width), p) + Fraction(4 * q - 2 + 2 * folded - 2, coins)) ** repetitions


def least_repetitions(p: int, m: int, width: int = 0) -> int:
    """How often a sum of m products modulo primes of at least p is checked, so that MISSED bounds a lie.

    width: as of `miss_bound`.
    """
    return next(r for r in count(1) if miss_bound(p, m, r, width) <= MISSED)


def block_length(m: int) -> int:
    """The least q, of at least 2, with q**2 >= m."""
    return max(2, 1 + math.isqrt(max(0, m - 1)))


@dataclass(frozen=True)
class ProductCheck:
    """The check of inner products of length m modulo each of a basis' primes, above 2 q; see the module."""

    basis: Basis
    m: int

    @property
    def q(self) -> int:
        return block_length(self.m)

    @property
    def blocks(self) -> tuple[int, ...]:
        """Points at which blocks lie."""
        return tuple(range(1, self.q + 1))

    @property
    def first(self) -> tuple[int, ...]:
        """Points of h that are dealt anew: the last block's follows."""
        q = self.q
        return (*range(1, q), *range(q + 1, 2 * q))

    @property
    def last(self) -> tuple[int, ...]:
        """Points of H that are dealt anew."""
        q = self.q
        return (*range(q), *range(q + 1, 2 * q + 1))

    def cut(self, vector: Array) -> Array:
        """Blocks (lanes, q, q) of a vector (lanes, m), filled up with zeros."""
        out = np.zeros((len(vector), self.q**2), vector.dtype)
        out[:, : vector.shape[1]] = vector
        return out.reshape(-1, self.q, self.q)

    def block_products(self, b: Array, x: Array) -> Array:
        """Products (lanes, 2q - 2), of twice the degree, at the points `first` of two vectors (lanes, m)."""
        return sum_last(self.basis, self._multiply(self.cut(b), self.cut(x), self.first))

    def _multiply(self, left: Array, right: Array, dealt: tuple[int, ...]) -> Array:
        """Products (lanes, dealt, N) of polynomials of values (lanes, points, N) at ..., q.

        dealt: the same points but q, and further ones.  Where values are given none is computed.
        """
        basis, n = self.basis, left.shape[1]
        points, further = (*dealt[: n - 1], self.q), dealt[n - 1 :]
        sides = np.concatenate([left, right], axis=2)
        beyond = basis.matmul(transfer_matrix(basis, points, further), sides)
        parts = (np.split(part, 2, axis=2) for part in (sides[:, :-1], beyond))
        return np.concatenate([basis.multiply(*pair) for pair in parts], axis=1)

    def complete(self, dealt: Array, total: Array) -> Array:
        """The values (lanes, N + 1) at consecutive points, of those dealt (lanes, N) without that of point q.

        total: (lanes,), what those at 1, ..., q add up to.
        """
        zero = dealt.shape[1] - 2 * (self.q - 1) > 0  # whether there is a value at 0
        before, after = dealt[:, : self.q - 1 + zero], dealt[:, self.q - 1 + zero :]
        known = sum_last(self.basis, np.ascontiguousarray(before[:, zero:]))
        missing = self.basis.add(total, self.basis.negate(known).astype(self.basis.dtype))
        return np.concatenate([before, missing[:, None], after], axis=1)

    def fold(self, vector: Array, z: int) -> Array:
        """The values (lanes, q) at z of the blocks of a vector (lanes, m)."""
        at = transfer_matrix(self.basis, self.blocks, (z,))
        return self.basis.matmul(at, self.cut(vector))[:, 0]

    def evaluate(self, values: Array, at: int, start: int) -> Array:
        """A polynomial's value (lanes,) at a point, of those (lanes, N) at start, start + 1, ..."""
        points = tuple(range(start, start + values.shape[1]))
        return self.basis.matmul(transfer_matrix(self.basis, points, (at,)), values[:, :, None])[:, 0, 0]

    def last_products(self, u: Array, v: Array) -> Array:
        """Products (lanes, ..., 2q), of twice the degree, at the points `last` of vectors (lanes, ..., 1+q).

        Of each the first number is uniform, and nobody's.
        """
        left, right = (w.reshape(len(w), -1, 1 + self.q).swapaxes(1, 2) for w in (u, v))
        found = self._multiply(left, right, self.last).swapaxes(1, 2)
        return np.ascontiguousarray(found).reshape(*u.shape[:-1], 2 * self.q)

    def fits(self, words: tuple[Array, Array, Array]) -> bool:
        """Whether three opened words U, V, H, (lanes,) each, are as they should."""
        u, v, h = words
        return bool((self.basis.multiply(u, v) == h).all())


# Vectors that are turned at once.
TILE = 1 << 11


@dataclass(frozen=True)
class SquareFold:
    """A weighted sum of squares of vectors of this width becomes an inner product of one number a vector.

    Features are the values at 1, ..., q of polynomials X_i(z), of vector i.  For weights r, drawn when
    squares are fixed, h(z) = sum r_i X_i(z)**2 has degree 2q - 2, and its values at 1, ..., q add up to
    sum r_i ||x_i||**2.  Clients deal h anew at the points `first` of q blocks; a coin z leaves
    <r X(z), X(z)> = h(z).
    """

    basis: Basis
    width: int

    @property
    def check(self) -> ProductCheck:
        """Where h is dealt, and what follows from it."""
        return ProductCheck(self.basis, self.width**2)

    def products(self, vectors: Array, weights: Array) -> Array:
        """Values (lanes, R, 2q - 2) of h, of twice the degree, of vectors (lanes, n, width); weights: (lanes,
        R, n)."""
        check, basis = self.check, self.basis
        q, total = check.q, np.zeros((*weights.shape[:2], 2 * check.q - 2), basis.dtype)
        ahead = transfer_matrix(basis, check.blocks, check.first[q - 1 :])
        for begin, turned in self._turned(vectors):
            at = np.concatenate([turned[:, : q - 1], basis.matmul(ahead, turned)], axis=1)
            each = np.ascontiguousarray(basis.multiply(at, at).swapaxes(1, 2))
            some = np.ascontiguousarray(weights[:, :, begin : begin + TILE])
            total = basis.add(total, basis.matmul(some, each))
        return total

    def fold(self, vectors: Array, z: Sequence[int]) -> Array:
        """X at these points, (lanes, points, n), of vectors (lanes, n, width)."""
        at = transfer_matrix(self.basis, self.check.blocks, tuple(z))
        return np.concatenate([self.basis.matmul(at, turned) for _, turned in self._turned(vectors)], axis=2)

    def _turned(self, vectors: Array) -> Iterator[tuple[int, Array]]:
        """From which vector on, and these (lanes, q, some), the rest zeros."""
        for begin in range(0, vectors.shape[1], TILE):
            some = vectors[:, begin : begin + TILE]
            out = np.zeros((len(some), self.check.q, some.shape[1]), some.dtype)
            out[:, : self.width] = some.swapaxes(1, 2)
            yield begin, out
