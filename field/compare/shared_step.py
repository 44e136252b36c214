"""Lloyd's step on labels that nobody knows: arithmetic on shares of one-hot labels and points.

With one-hot labels Z (k, m) of points x_i, the sums S_h = sum_i Z_hi x_i and sizes s_h = sum_i Z_hi are
secret.  For clusters a < b that are not empty, b is nearer to x than a exactly if

    s_a**2 s_b**2 (||S_b / s_b - x||**2 - ||S_a / s_a - x||**2)
        = (s_a**2 ||S_b||**2 - s_b**2 ||S_a||**2) - 2 s_a s_b (s_a S_b - s_b S_a) . x

is negative: the square of x itself cancels.  At most d (2 eta s_a s_b)**2 in absolute value for points up to
eta.  If one of a, b is empty the number is 0.

Everything here is local: shares are values of polynomials at one point, sums of shares are shares, and a
product of two is a share of twice the degree.  Products of products wait for a reduction of the degree
in between (Ben-Or, Goldwasser and Wigderson, STOC 1988): that is why there are three functions.
All arrays are canonical residues, axis 0 the lanes; everything is secret.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from field.code.reply_check import sum_last
from field.ring.basis import Basis
from field.ring.quantize import excess_weights
from field.secrets.coins import Coins


@dataclass(frozen=True, eq=False)
class ClusterPairs:
    """All pairs a < b of k clusters, in the order of `field.compare.argmin.ArgminContest.nearest`."""

    k: int

    @cached_property
    def first(self) -> Array:
        return np.array([a for a in range(self.k) for b in range(a + 1, self.k)], np.int64)

    @cached_property
    def second(self) -> Array:
        return np.array([b for a in range(self.k) for b in range(a + 1, self.k)], np.int64)


def one_hot_sizes(basis: Basis, one_hot: Array) -> Array:
    """Sizes (lanes, k) from one-hot labels (lanes, k, m)."""
    # Fewer than 2**30 residues below 2**31.
    total = one_hot.sum(axis=2, dtype=np.uint64)
    return np.asarray(total % basis.column(2, np.uint64), basis.dtype)


def pair_products(basis: Basis, sums: Array, sizes: Array, pairs: ClusterPairs) -> Array:
    """s_a s_b and s_a S_b - s_b S_a of all pairs, s_h**2 and ||S_h||**2: (lanes, N), of twice the degree."""
    a, b = pairs.first, pairs.second
    crossed = basis.multiply(sizes[:, a], sizes[:, b])
    gaps = subtract(
        basis, basis.multiply(sizes[:, a, None], sums[:, b]), basis.multiply(sizes[:, b, None], sums[:, a])
    )
    norms = basis.multiply(sums, sums).sum(axis=2, dtype=np.uint64) % basis.column(2, np.uint64)
    parts = (crossed, gaps, basis.multiply(sizes, sizes), norms.astype(basis.dtype))
    return np.concatenate([part.reshape(basis.lanes, -1) for part in parts], axis=1)


def bisector_shares(basis: Basis, reduced: Array, d: int, pairs: ClusterPairs) -> Array:
    """The offset and the normal (lanes, pairs, 1 + d) of every pair's number, of twice the degree.

    reduced: what `pair_products` gave, reduced.
    """
    count, k = len(pairs.first), pairs.k
    crossed, gaps, sizes, norms = np.split(reduced, np.cumsum([count, count * d, k]), axis=1)
    gaps = gaps.reshape(basis.lanes, count, d)
    a, b = pairs.first, pairs.second
    offset = subtract(
        basis, basis.multiply(sizes[:, a], norms[:, b]), basis.multiply(sizes[:, b], norms[:, a])
    )
    normal = basis.multiply(crossed[:, :, None], gaps)
    normal = basis.negate(basis.add(normal, normal)).astype(basis.dtype)
    return np.concatenate([offset[:, :, None], normal], axis=2)


def side_margin(m: int) -> int:
    """What the numbers of `signed_bisectors` exceed those of `bisector_shares` by, as a factor, among m
    points.
    """
    return max(m, m * m // 4) + 1


def signed_bisectors(
    basis: Basis, reduced: Array, sizes: Array, d: int, pairs: ClusterPairs, m: int, segments: int
) -> Array:
    """Bisectors as numbers that are positive exactly if b is nearer, or has points where a has none.

    With N the number of a pair, 0 if a or b is empty, it is - C N - s_b (s_a - 1), C = `side_margin(m)`.  As
    s_a + s_b <= m, the second term is below C in absolute value, so the sign is that of - N where N is not 0.
    Where it is, the term is negative or 0 if a has points, and s_b if not.  For two or more points up to eta
    at most (C + 1) d (2 eta m**2 / 4)**2 in absolute value.

    sizes: (lanes, k).  segments: data points that the numbers are added up over.
    """
    a, b = pairs.first, pairs.second
    out = bisector_shares(basis, reduced, d, pairs)
    factor = np.array([-side_margin(m) % p for p in basis.primes], np.uint64)
    out = basis.multiply(out, factor.astype(basis.dtype)[:, None, None]).astype(basis.dtype)
    fewer = subtract(basis, sizes[:, b], reduced[:, : len(a)])
    share = np.array([pow(segments, -1, p) for p in basis.primes], basis.dtype)
    fewer = basis.multiply(fewer, share[:, None]).astype(basis.dtype)
    out[:, :, 0] = basis.add(np.ascontiguousarray(out[:, :, 0]), fewer)
    return out


def pair_claims(
    basis: Basis, sums: Array, sizes: Array, reduced: Array, pairs: ClusterPairs, coins: Coins
) -> tuple[Array, Array, Array]:
    """By public coins two vectors (lanes, N), whose inner product is the last (lanes,) if `pair_products` are
    what was reduced.  Linear in shares; N: `count_pair_claims`.
    """
    a, b, width = pairs.first, pairs.second, sums.shape[2]
    count, k = len(a), pairs.k
    weights = basis.sample((reduced.shape[1],), coins)
    crossed, gaps, squares, norms = np.split(weights, np.cumsum([count, count * width, k]), axis=1)
    gaps = gaps.reshape(basis.lanes, count, width)
    by_first = basis.add(basis.multiply(crossed, sizes[:, b]), _weighted(basis, gaps, sums[:, b]))
    by_second = basis.negate(_weighted(basis, gaps, sums[:, a])).astype(basis.dtype)
    own = basis.multiply(norms[:, :, None], sums)
    left = (sizes[:, a], sizes[:, b], basis.multiply(squares, sizes), own)
    right = (by_first, by_second, sizes, sums)
    return _joined(basis, left), _joined(basis, right), _weighted(basis, weights, reduced)


def bisector_claims(
    basis: Basis,
    reduced: Array,
    sizes: Array,
    pairs: ClusterPairs,
    m: int,
    segments: int,
    planes: Array,
    coins: Coins,
) -> tuple[Array, Array, Array]:
    """Vectors and their inner product as of `pair_claims`, if planes (lanes, pairs, 1 + d) are what
    `signed_bisectors` makes of what was reduced.
    """
    a, b, (_, count, width) = pairs.first, pairs.second, planes.shape
    d = width - 1
    crossed, gaps, squares, norms = np.split(reduced, np.cumsum([count, count * d, pairs.k]), axis=1)
    weights = basis.sample((count, width), coins)
    factor = np.array([-side_margin(m) % p for p in basis.primes], np.uint64).astype(basis.dtype)
    offset = np.ascontiguousarray(weights[:, :, 0])
    scaled = basis.multiply(offset, factor[:, None])
    opposite = basis.negate(scaled).astype(basis.dtype)
    across = _weighted(basis, weights[:, :, 1:], gaps.reshape(basis.lanes, count, d))
    twice = basis.negate(basis.add(factor, factor)).astype(basis.dtype)
    left = basis.multiply(scaled, squares[:, a]), basis.multiply(opposite, squares[:, b]), crossed
    right = norms[:, b], norms[:, a], basis.multiply(across, twice[:, None])
    share = np.array([pow(segments, -1, p) for p in basis.primes], basis.dtype)
    fewer = basis.multiply(subtract(basis, sizes[:, b], crossed), share[:, None])
    total = _weighted(basis, weights.reshape(basis.lanes, -1), planes.reshape(basis.lanes, -1))
    known = _weighted(basis, offset, fewer.astype(basis.dtype))
    return _joined(basis, left), _joined(basis, right), subtract(basis, total, known)


def count_pair_claims(pairs: ClusterPairs, d: int) -> int:
    """Length of the vectors of `pair_claims` and `bisector_claims` together."""
    return 5 * len(pairs.first) + pairs.k * (1 + d)


def _weighted(basis: Basis, weights: Array, values: Array) -> Array:
    """Sums of values times weights over the last axis."""
    product = basis.multiply(np.ascontiguousarray(weights), np.ascontiguousarray(values))
    total = product.sum(axis=-1, dtype=np.uint64) % basis.column(product.ndim - 1, np.uint64)
    return np.asarray(total, basis.dtype)


def _joined(basis: Basis, parts: tuple[Array, ...]) -> Array:
    """Parts, flat, one after the other: (lanes, N)."""
    return np.concatenate([part.reshape(basis.lanes, -1) for part in parts], axis=1).astype(basis.dtype)


def exclusive_or(basis: Basis, x: Array, y: Array, product: Array) -> Array:
    """x + y - 2 x y of bits in residues."""
    twice = basis.add(product, product)
    return subtract(basis, basis.add(x, y), twice)


def last_of_one_hot(basis: Basis, others: Array) -> Array:
    """All of one-hot labels (lanes, k, m) from all rows but the last, which are none where k is 1."""
    total = (others.sum(axis=1, dtype=np.uint64) % basis.column(2, np.uint64)).astype(basis.dtype)
    last = subtract(basis, np.ones_like(total), total)
    return np.concatenate([others, last[:, None]], axis=1)


def subtract(basis: Basis, x: Array, y: Array) -> Array:
    """x - y."""
    return basis.add(x, basis.negate(y).astype(basis.dtype)).astype(basis.dtype)


# --------------------------------------------------------------------------------------------------
# By how much labels explain more of a column than is allowed (`field.ring.quantize.excess_weights`).


@dataclass(frozen=True, eq=False, repr=False)
class ExplainedExcess:
    """A share of vectors (lanes, n, columns) of whose squares excess is the sum, by public weights.

    They are all rows, the sums of clusters, and the sum of these.  weighted: the same times their weights.
    """

    basis: Basis
    vectors: Array
    weighted: Array

    @classmethod
    def of(cls, basis: Basis, rows: Array, sums: Array, sizes: Array, allowed: int) -> ExplainedExcess:
        """Excess of rows (lanes, m, columns), by sums (lanes, K, columns) of clusters of these sizes (K,)."""
        m, total = rows.shape[1], _columns_summed(basis, sums)
        each, inverses, whole = excess_weights(sizes, m, allowed)
        weights = basis.reduce(np.array([each] * m + [*inverses, whole], object))
        vectors = np.concatenate([rows, sums, total[:, None]], axis=1)
        return cls(basis, vectors, basis.multiply(weights[:, :, None], vectors).astype(basis.dtype))

    @property
    def products(self) -> Array:
        """A share (lanes, columns) of excess, of twice the degree."""
        return _columns_summed(self.basis, self.basis.multiply(self.weighted, self.vectors))

    def claim(self, excess: Array, coins: Coins) -> tuple[Array, Array, Array]:
        """Vectors (lanes, n columns) and their inner product as of `pair_claims`, if this is excess.

        excess: what was dealt anew, (lanes, columns).
        """
        basis, lanes = self.basis, self.basis.lanes
        each = basis.sample(excess.shape[1:], coins)
        left = basis.multiply(each[:, None], self.weighted).reshape(lanes, -1)
        return left, self.vectors.reshape(lanes, -1), sum_last(basis, basis.multiply(each, excess))


def _columns_summed(basis: Basis, values: Array) -> Array:
    """Sums (lanes, columns) over axis 1."""
    return sum_last(basis, np.ascontiguousarray(np.swapaxes(values, 1, 2)))
