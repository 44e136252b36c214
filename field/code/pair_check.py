"""Checks of what is said of every two rows, means or halves, which open nothing (`field.code.reply_check`).

Of rows i < h the reply is c - D_ih, D_ih = ||x_i - x_h||**2, with a public c.  Coins give each row a_i and
b_i, with sum b_i = 0 and, for a uniform vector x_0 that is shared, 1 + sum a_i = 0.  In

    sum_(i < h) (a_i b_h + a_h b_i) D_ih + sum_h b_h D_0h = -2 A.B,   A = x_0 + sum a_i x_i, B = sum b_h x_h,

the squares of rows cancel, also those in A.B: it has a_i b_i ||x_i||**2, as D_ii = 0 takes part on the left.

No lie about rows is missed, but a constant on all distances of x_0.  Let e be what was added to distances,
symmetric with zeros on the diagonal, and e_0h to those of x_0.  It passes if a.e.b + e_0.b = 0, a polynomial
of degree 2 in the coins.  If that is zero for all of them, e_ih = e_0h + f_i; the diagonal makes f_i = -e_0i,
and as e is symmetric and primes are odd, all e_0i are equal, and e = 0.

(Distances of some rows to others alone would not do: a row with a coordinate more than all others passes.)
So all pairs of a block of rows are asked at once, and those of the first row with all of them.

Between two such blocks I and J replies are asked by themselves.  Alone they would miss e_ih = f_i + g_h.  But
of every row the distance to the first row, *, has passed the check of its block, and the reply about it is
kept.  With a_* = -1 - sum_I a_i and b_* = -sum_J b_h, and else free coins, the squares cancel in

    sum_(I, J) a_i b_h D_ih + b_* sum_I a_i D_i* + a_* sum_J b_h D_*h + sum_(h in J, *) b_h D_0h = -2 A.B,
    A = x_0 + sum_I a_i x_i + a_* x_*,   B = sum_J b_h x_h + b_* x_*,

where D_** = 0 takes part.  Nothing can have been added to what is kept, so a lie passes only if
sum a_i b_h e_ih + sum_J b_h (e_0h - e_0*) is zero for all coins: then all e_ih are zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from field.arrays import Array
from field.code.reply_check import (
    REPETITIONS,
    CheckWeights,
    balance_weights,
    inverses_of,
    sum_last,
    tell_rows,
)
from field.ring.basis import Basis
from field.secrets.coins import Coins

# Rows whose pairs are added up at a time.
TILE = 64


class AcrossWeights(CheckWeights):
    """What coins give of rows, for replies (lanes, 1, pairs): of each second row those of all first ones.

    points: (lanes, R, m), a; zero: b; others: of what is kept of first rows, then of second ones.
    """

    def combine(self, values: Array, further: Array, *, threads: int = 1) -> Array:
        """sum c M (lanes, R).  further: (lanes, more + kept)."""
        total = super().combine(values, further, threads=threads)
        basis = self.basis
        pairs = values.reshape(len(values), -1, self.points.shape[2])
        found = basis.matmul(np.ascontiguousarray(self.zero[:, :, :-1]), pairs)
        return basis.add(total, basis.negate(sum_last(basis, basis.multiply(self.points, found))))


class PairWeights(CheckWeights):
    """What coins give of rows, for replies (lanes, 1, pairs) in the order of `numpy.triu_indices`.

    points: (lanes, R, m), a; zero: b.
    """

    def combine(self, values: Array, further: Array, *, threads: int = 1) -> Array:
        """sum c M (lanes, R); of c - D it is D that counts, so pairs are subtracted."""
        total = super().combine(values, further, threads=threads)  # of no group: what is further alone
        basis, m, at = self.basis, self.points.shape[2], 0
        both = np.concatenate([self.points, self.zero], axis=1)
        repeats = self.points.shape[1]
        for begin in range(0, m, TILE):
            rows = range(begin, min(begin + TILE, m))
            square = np.zeros((basis.lanes, m - begin, len(rows)), basis.dtype)
            for i in rows:
                square[:, i + 1 - begin :, i - begin] = values[:, 0, at : at + m - i - 1]
                at += m - i - 1
            found = basis.matmul(np.ascontiguousarray(both[:, :, begin:]), square)
            # Row i counts a_i times its sum by b, and b_i times that by a.
            found = np.roll(found, repeats, axis=1)
            part = basis.multiply(found, np.ascontiguousarray(both[:, :, rows.start : rows.stop]))
            each = sum_last(basis, part)
            total = basis.add(total, basis.negate(basis.add(each[:, :repeats], each[:, repeats:])))
        return total


@dataclass(frozen=True, eq=False)
class NearCheck:
    """Replies square + 1 - D of every two of m rows; sums are the rows themselves, (lanes, m, width)."""

    m: int
    square: int

    products = vectors = 1

    @property
    def zeros(self) -> int:
        return self.m

    @property
    def more(self) -> int:
        return REPETITIONS * self.m

    def further_replies(self, basis: Basis, zero: Array, columns: Array) -> Array:
        x = np.ascontiguousarray(zero[:, :, 0])
        cross = basis.matmul(x, np.ascontiguousarray(np.swapaxes(columns, 1, 2)))
        both = basis.add(basis.squares(x)[:, :, None], basis.squares(columns)[:, None])
        return basis.add(both, basis.negate(basis.add(cross, cross))).reshape(basis.lanes, -1)

    def draw_weights(self, basis: Basis, coins: Coins) -> CheckWeights:
        lanes, repeats, m = basis.lanes, REPETITIONS, self.m
        ones, one = np.ones((lanes, m), basis.dtype), np.ones((lanes, repeats), basis.dtype)
        a = balance_weights(basis, basis.sample((repeats, m), coins), ones, one)
        b = balance_weights(basis, basis.sample((repeats, m), coins), ones, np.zeros_like(one))
        # The weights of all pairs add up to -sum a_i b_i.
        constant = basis.reduce(np.array([self.square + 1], object))
        offset = basis.multiply(sum_last(basis, basis.multiply(a, b)), constant)
        nothing = np.zeros((lanes, repeats, 0), basis.dtype)
        return PairWeights(
            basis, lambda: ((), nothing, nothing), a, b, nothing, offset, None,
            np.zeros_like(b)[:, :, None], basis.negate(basis.add(b, b))[:, :, None],
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class AcrossCheck(NearCheck):
    """Replies square + 1 - D of m first rows and some second ones; sums are the latter, and the first of all.

    begins: whether the first of all is the first of the first rows as well: it is at no distance from itself.
    """

    second: int
    begins: bool

    @property
    def zeros(self) -> int:
        return self.second + 1

    @property
    def more(self) -> int:
        return REPETITIONS * self.zeros

    def draw_weights(self, basis: Basis, coins: Coins) -> CheckWeights:
        lanes, repeats, m, more = basis.lanes, REPETITIONS, self.m + 1, self.zeros
        ones, one = np.ones((lanes, max(m, more)), basis.dtype), np.ones((lanes, repeats), basis.dtype)
        a = balance_weights(basis, basis.sample((repeats, m), coins), ones[:, :m], one)
        b = balance_weights(basis, basis.sample((repeats, more), coins), ones[:, :more], np.zeros_like(one))
        # The last ones are of the first row of all.
        kept = np.concatenate(
            [
                basis.multiply(np.ascontiguousarray(a[:, :, self.begins : -1]), b[:, :, -1:]),
                basis.multiply(np.ascontiguousarray(b[:, :, :-1]), a[:, :, -1:]),
            ],
            axis=2,
        )
        rows, second = (np.ascontiguousarray(each[:, :, :-1]) for each in (a, b))
        total = basis.add(
            basis.multiply(sum_last(basis, rows), sum_last(basis, second)), sum_last(basis, kept)
        )
        constant = basis.reduce(np.array([self.square + 1], object))
        offset = basis.multiply(basis.negate(total), constant)
        sums = np.zeros((lanes, repeats, 1, more), basis.dtype)
        sums[:, :, 0, -1] = a[:, :, -1]
        nothing = np.zeros((lanes, repeats, 0), basis.dtype)
        return AcrossWeights(
            basis, lambda: ((), nothing, nothing), rows, b, basis.negate(kept), offset, None, sums,
            basis.negate(basis.add(b, b))[:, :, None],
        )  # fmt: skip


# --------------------------------------------------------------------------------------------------
# Means of clusters.


@dataclass(frozen=True, eq=False)
class PairCheck:
    """How far the means of pairs of clusters are apart: replies ||b S_a - a S_b||**2, (lanes, pairs, 1).

    pairs: of clusters.  sizes: (k,) of these, 0 too.

    All products S_g.S_h are answered for as well, hidden by numbers u of their own, as are those of a
    uniform vector x_0 with every S_h.  With coins a, b let A = sum a_h S_h + x_0, which is opened, and
    B = sum b_h S_h: in A.B a product counts a_g b_h + a_h b_g, and a square a_h b_h.  A pair's number is
    linear in products, so it has a coin of its own.  No lie is missed.
    """

    pairs: tuple[tuple[int, int], ...]
    sizes: tuple[int, ...]

    products = vectors = 1

    @cached_property
    def _upper(self) -> tuple[Array, Array]:
        """The two clusters of every product."""
        return np.triu_indices(len(self.sizes))

    @property
    def zeros(self) -> int:
        return len(self.sizes) + len(self._upper[0])

    @property
    def more(self) -> int:
        return REPETITIONS * self.zeros

    def further_replies(self, basis: Basis, zero: Array, columns: Array) -> Array:
        turned = np.ascontiguousarray(np.swapaxes(columns, 1, 2))
        first = basis.matmul(np.ascontiguousarray(zero[:, :, 0]), turned)
        among = basis.matmul(columns, turned)[:, *self._upper][:, None]
        among = np.broadcast_to(among, (*first.shape[:2], among.shape[2]))
        return np.concatenate([first, among], axis=2).reshape(basis.lanes, -1)

    def draw_weights(self, basis: Basis, coins: Coins) -> CheckWeights:
        k, lanes, repeats = len(self.sizes), basis.lanes, REPETITIONS
        a, b, each = (basis.sample((repeats, n), coins) for n in (k, k, len(self.pairs)))
        one, (left, right) = np.ones((lanes, repeats), basis.dtype), self._upper
        cross = basis.multiply(np.ascontiguousarray(a[:, :, left]), np.ascontiguousarray(b[:, :, right]))
        other = basis.multiply(np.ascontiguousarray(a[:, :, right]), np.ascontiguousarray(b[:, :, left]))
        among = basis.add(cross, np.where(left == right, other.dtype.type(0), other))
        table = np.zeros((len(self.pairs), len(left)), object)
        place = {pair: q for q, pair in enumerate(zip(left.tolist(), right.tolist(), strict=True))}
        for q, (g, h) in enumerate(self.pairs):
            x, y = self.sizes[g], self.sizes[h]
            table[q, place[g, g]], table[q, place[h, h]] = -y * y, -x * x
            table[q, place[min(g, h), max(g, h)]] = 2 * x * y
        among = basis.add(among, basis.matmul(each, basis.reduce(table)))
        nothing = np.zeros((lanes, repeats, 0), basis.dtype)
        factors = each[:, :, None]
        return CheckWeights(
            basis, lambda: ((np.zeros(1, int),), factors, np.zeros_like(factors)), one[:, :, None],
            np.concatenate([b, among], axis=2), nothing, np.zeros_like(one), np.full(1, -1),
            a[:, :, None], b[:, :, None],
        )  # fmt: skip


# --------------------------------------------------------------------------------------------------
# Halves of clusters.


@dataclass(frozen=True, eq=False)
class HalfCheck:
    """By how much the other half of a point's cluster is nearer (`field.code.distances.half_gaps`).

    halves: (m,) in [0, 2 c).  sizes: (2 c,) of halves that gaps are measured to, below every prime; a cluster
    of which one is 0 is not checked, as its points stay.  summed: whether a half's sum is that of its points.

    A gap is near ||S_a||**2 - far ||S_b||**2 + B.x with B = -2 a b (b S_a - a S_b) / g**2, so each cluster
    has its own A; and gap(S_a) / a + gap(S_b) / b = 0.  The gaps of rows 0 are added up.  No lie is missed.
    """

    halves: Array
    sizes: tuple[int, ...]
    summed: bool

    zeros = 1

    @cached_property
    def alive(self) -> list[int]:
        """The clusters of which both halves have points."""
        pairs = zip(self.sizes[::2], self.sizes[1::2], strict=True)
        return [c for c, (a, b) in enumerate(pairs) if a and b]

    @property
    def products(self) -> int:
        return len(self.alive)

    @property
    def vectors(self) -> int:
        return self.products

    @property
    def more(self) -> int:
        return REPETITIONS + (0 if self.summed else 2 * len(self.alive))

    def _planes(self, basis: Basis) -> tuple[Array, Array, Array]:
        """(lanes, alive) near, -far and (lanes, alive, 2 c), B on sums."""
        table = np.zeros((len(self.alive), len(self.sizes)), object)
        near, far = [], []
        for q, c in enumerate(self.alive):
            a, b = self.sizes[2 * c : 2 * c + 2]
            g = math.gcd(a, b)
            near.append((b // g) ** 2)
            far.append(-((a // g) ** 2))
            scale = -2 * (a // g) * (b // g)
            table[q, 2 * c], table[q, 2 * c + 1] = scale * b, -scale * a
        return basis.reduce(np.array(near, object)), basis.reduce(np.array(far, object)), basis.reduce(table)

    def further_replies(self, basis: Basis, zero: Array, columns: Array) -> Array:
        lanes, alive = basis.lanes, np.array(self.alive, np.int64)
        near, far, table = self._planes(basis)
        squares = basis.squares(columns)
        flat = basis.add(
            basis.multiply(near, squares[:, 2 * alive]), basis.multiply(far, squares[:, 2 * alive + 1])
        )
        planes = basis.matmul(table, columns)
        gaps = basis.add(sum_last(basis, basis.multiply(zero, planes[:, None])), flat[:, None])
        parts = [sum_last(basis, gaps)]
        if not self.summed:
            for half in (2 * alive, 2 * alive + 1):
                mass = basis.reduce(np.array(self.sizes)[half])
                dot = sum_last(basis, basis.multiply(np.ascontiguousarray(columns[:, half]), planes))
                parts.append(basis.add(basis.multiply(mass, flat), dot))
        return np.concatenate([part.reshape(lanes, -1) for part in parts], axis=1)

    def draw_weights(self, basis: Basis, coins: Coins) -> CheckWeights:
        lanes, repeats, count, halves = basis.lanes, REPETITIONS, len(self.alive), len(self.sizes)
        points = basis.sample((repeats, len(self.halves)), coins)
        among = basis.sample((repeats, halves), coins)
        v = basis.sample((repeats, count), coins)
        one = np.ones((lanes, repeats), basis.dtype)
        if self.summed:
            among[:] = 0
        product = np.full(len(self.halves), -1)
        constants = np.zeros((lanes, repeats, halves, 1), basis.dtype)
        others = np.zeros((lanes, repeats, 2, count), basis.dtype)
        sums = np.zeros((lanes, repeats, count, halves), basis.dtype)
        groups = tuple(np.flatnonzero(self.halves == h) for h in range(halves))
        for q, c in enumerate(self.alive):
            mine = np.concatenate([groups[2 * c], groups[2 * c + 1]])
            product[mine] = q
            pair = self.sizes[2 * c : 2 * c + 2]
            masses = basis.reduce(np.array([*pair, *[1] * len(mine)]))
            drawn = np.concatenate([among[:, :, 2 * c : 2 * c + 2], points[:, :, mine]], axis=2)
            drawn = balance_weights(basis, drawn, masses, one)
            points[:, :, mine] = drawn[:, :, 2:]
            identity = basis.multiply(v[:, :, q, None], inverses_of(basis, list(pair))[:, None])
            if self.summed:
                constants[:, :, 2 * c : 2 * c + 2, 0] = identity
            else:
                sums[:, :, q, 2 * c : 2 * c + 2] = drawn[:, :, :2]
                others[:, :, :, q] = basis.add(np.ascontiguousarray(drawn[:, :, :2]), identity)
        points[:, :, product < 0] = 0
        linear = np.broadcast_to(self._planes(basis)[2][:, None], (lanes, repeats, count, halves))
        return CheckWeights(
            basis, tell_rows(groups, np.ones_like(constants), constants), points,
            one[:, :, None],
            others.reshape(lanes, repeats, -1)[:, :, : 0 if self.summed else 2 * count],
            np.zeros_like(one), product, sums, linear,
        )  # fmt: skip
