"""A check that coded replies are what the shares of the rows give, which opens nothing.

Row i has mass 1 and the coded vector x_i; cluster h has s_h rows, and S_h, their sum.  Decoded replies are

    D_ih = s_h**2 q_i - 2 s_h x_i.S_h + mass_i ||S_h||**2,   q_i = ||x_i||**2.

Public coins, drawn when all replies are fixed, give each of them a weight, the same at everybody:

* a_i, one a row, with sum a_i mass_i = 0; b_h, one a cluster, with sum b_h s_h**2 = 0;
* w_hg = -w_gh, one for each two clusters: off the diagonal W_hg = w_hg / s_g, on it
  W_hh = -sum_g w_hg s_g / s_h**2;
* c_ih = a_i b_h + W_(cluster of i) h.

In sum c_ih D_ih the squares ||x_i||**2 cancel by b and ||S_h||**2 by a, and W counts nothing: "the distance
between two means is the same from both".  So it is A.B with A = sum a_i x_i and B = -2 sum b_h s_h S_h.  A
row 0 with a_0 = 1, a uniform vector that is shared, makes A uniform, and A is opened; then A.B is linear in
shares.  To the replies of row 0 uniform shared numbers u_h are added, so what is opened next,

    V = A.B + sum b_h u_h,

is uniform as well.  A and V are words on polynomials of the degree of a share, which threshold(2) clients fix
also if t of them lie.  With several segments, sum c D is a sum over them: A is opened in each, and for each
there is one V under its own u, as two under the same would tell the difference of A times B.

Where a cluster's sum is not that of public labels (rounded centers, shared labels) or not all of its rows are
asked, S_h is one more row, of mass s_h: W is on these.

A false reply e passes if sum c e = 0: a polynomial of degree 2 in the coins, so with probability at most
2 / p a lane and repetition unless it is zero.  It is zero for e_ih = kappa_i s_h**2 alone, one dimension a
row: what u D_b - v D_a of a comparison by sizes does not see.  (A comparison by a factor above 1 sees it: see
`DistanceCheck.complete`.)  Without W a constant on a column would pass: a threshold test.

Where squares of rows are shared as well, a and b may be anything: in V stands what these add up to, so no lie
is missed (`SquaredCheck`, `SquareCheck`).

Everything is public, but shares of rows, of squares, of sums, of row 0 and of u.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol

import numpy as np

from field.arrays import Array
from field.code.lagrange_code import LagrangeCode, transfer_matrix
from field.kernels.scalar import sum_rows_wide
from field.ring.basis import Basis
from field.secrets.coins import Coins

# So often everything is checked, under coins of its own: a lie passes with probability (2 / p)**2 < 2**-57.
REPETITIONS = 2


class ReplyCheck(Protocol):
    """What one kind of replies is checked by: (lanes, rows, m) of points, and further ones (lanes, more)."""

    @property
    def products(self) -> int:
        """How many A there are a repetition."""
        ...

    @property
    def vectors(self) -> int:
        """How many of them are opened, so vectors of row 0: none where A follows from coins."""
        ...

    @property
    def zeros(self) -> int:
        """How many replies row 0 has, so numbers u, a repetition."""
        ...

    @property
    def more(self) -> int:
        """How many replies there are beside those of points: of row 0 in all repetitions, and of centers."""
        ...

    def further_replies(self, basis: Basis, zero: Array, columns: Array) -> Array:
        """A client's share (lanes, more) of the further replies, without u.

        zero: its share of row 0, (lanes, repetitions, products, width).  columns: of sums, (lanes, k, width).
        """
        ...

    def draw_weights(self, basis: Basis, coins: Coins) -> CheckWeights:
        """All weights.  coins: public, drawn when all replies are fixed."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class CheckWeights:
    """What coins give; axis 1 counts repetitions.  Residues of the basis, public.

    points: (lanes, R, m), a.  told: groups, factors and constants, which only whoever has replies asks for:
    indices of points, disjoint, all of them; and (lanes, R, groups, rows): a reply of a point in a group
    counts a times the one plus the other.  zero: (lanes, R, zeros), of replies of row 0 and so of u.
    others: (lanes, R, centers), of those of centers.  offset: (lanes, R), what public parts of replies add
    up to.
    product: (m,) to which A a point belongs, -1 for none; None if all to the only one.
    sums: (lanes, R, products, k), how often sums are in A.  linear: the same, in B.
    ones: (lanes, R) what the number 1, which is ahead of features, adds up to in A; None where it is not.
    given: (lanes, ell, R, products, width), A where it is no sum of rows, but follows from coins.
    squares: (lanes, R, m), how often those of points are in V; None if they are not shared.
    """

    basis: Basis
    told: Callable[[], tuple[tuple[Array, ...], Array, Array]]
    points: Array
    zero: Array
    others: Array
    offset: Array
    product: Array | None
    sums: Array
    linear: Array
    ones: Array | None = None
    given: Array | None = None
    squares: Array | None = None

    def combine(self, values: Array, further: Array, *, threads: int = 1) -> Array:
        """sum c M (lanes, R) of (lanes, rows, m) and (lanes, more): replies, masked ones, or masks."""
        basis = self.basis
        lanes, repeats, zeros = self.zero.shape
        first, rest = further[:, : repeats * zeros], further[:, repeats * zeros :]
        total = sum_last(basis, basis.multiply(self.zero, first.reshape(lanes, repeats, zeros)))
        total = basis.add(total, sum_last(basis, basis.multiply(self.others, rest[:, None])))
        groups, factors, constants = self.told()
        if not groups:
            return total
        weighed = basis.weigh_groups(self.points, groups, values, threads=threads)
        each = basis.multiply(np.swapaxes(factors, 1, 2), weighed[:, :, :-1])
        each = basis.add(each, basis.multiply(np.swapaxes(constants, 1, 2), weighed[:, :, -1:]))
        found = np.swapaxes(sum_last(basis, each), 1, 2)
        return basis.add(total, sum_last(basis, np.ascontiguousarray(found)))

    def masked_row(self, rows: Any, columns: Array, zero: Array) -> Array:
        """A client's word for A: (lanes, R, products, width).  Uniform, to be opened to all who check.

        rows: its `CodedRows`.  columns: its shares of sums (lanes, k, width).  zero: of row 0.
        """
        basis = self.basis
        lanes, repeats, products, _ = zero.shape
        if self.product is None:
            weights = self.points
        else:
            belongs = np.arange(products)[:, None] == self.product
            weights = np.where(belongs, self.points[:, :, None], self.points.dtype.type(0))
            weights = weights.reshape(lanes, repeats * products, -1)
        if self.product is None or (self.product >= 0).any():
            # A row of ones is not among the coded features.
            found = rows.weighted_sums(np.ascontiguousarray(weights)).reshape(zero.shape)
        else:
            found = np.zeros_like(zero)
        if self.sums.any():
            flat = np.ascontiguousarray(self.sums.reshape(lanes, repeats * products, -1))
            found = basis.add(found, basis.matmul(flat, columns).reshape(found.shape))
        return basis.add(found, zero)

    def masked_products(
        self, opened: Array, columns: Array, masks: Array, squares: Array | None = None
    ) -> Array:
        """A client's words for V, one a segment: (lanes, R, ell).  Uniform, to be opened to all who check.

        opened: A at all segments, (lanes, ell, R, products, width).  columns: its shares of sums, (lanes, k,
        width), with a column above for a row of ones.  masks: of u, (lanes, R, zeros, ell).  squares: of
        points, (lanes, m), where they count.
        """
        basis = self.basis
        lanes, repeats, products, k = self.linear.shape
        flat = np.ascontiguousarray(self.linear.reshape(lanes, repeats * products, k))
        planes = basis.matmul(flat, columns).reshape(lanes, repeats, products, -1)
        if self.ones is not None:
            ones = np.broadcast_to(self.ones[:, None, :, None, None], (*opened.shape[:4], 1))
            opened = np.concatenate([ones, opened], axis=4)
        each = basis.multiply(opened, planes[:, None])
        found = sum_last(basis, each.reshape(*each.shape[:3], -1))
        hidden = basis.multiply(self.zero[..., None], masks)
        total = basis.add(np.swapaxes(found, 1, 2), sum_last(basis, np.swapaxes(hidden, 2, 3)))
        if self.squares is None or squares is None:
            return total
        whole = sum_last(basis, basis.multiply(self.squares, squares[:lanes, None]))
        return basis.add(total, whole[..., None])

    def fits(self, masked: Array, hiding: Array, value: Array, lanes: int | None = None) -> bool:
        """Whether V = sum c M - r in the first lanes, all by default, and every repetition.

        masked, hiding: `combine` of masked replies and of masks.  value: V (lanes, R), the sum over segments.
        """
        known = self.basis.add(self.basis.add(value, hiding), self.offset)
        return bool((known == masked)[:lanes].all())


def sum_last(basis: Basis, values: Array) -> Array:
    """Sums of residues (lanes, ..., q) over the last axis, lane by lane: (lanes, ...)."""
    shape = (-1,) + (1,) * (values.ndim - 2)
    primes = np.array(basis.primes, np.uint64).reshape(shape)
    # Residues below 2**31, or halves of 31 bits, of fewer than 2**33 of them: each sum is below 2**64.
    if basis.dtype == np.uint32:
        found = np.empty(values.shape[:-1], np.uint64)
        whole = np.require(values, requirements=["C", "W"]).reshape(found.size, values.shape[-1])
        sum_rows_wide(whole, found.reshape(-1))
        return np.asarray(found % primes, basis.dtype)
    low = (values & values.dtype.type((1 << 31) - 1)).sum(axis=-1, dtype=np.uint64) % primes
    high = (values >> np.uint64(31)).sum(axis=-1, dtype=np.uint64) % primes
    shift = np.full(high.shape, 1 << 31, basis.dtype)
    return basis.add(low, basis.multiply(high, shift))


# --------------------------------------------------------------------------------------------------
# Words on polynomials of the degree of a share.


class OffPolynomial(Exception):  # noqa: N818 - what they are
    """Words of clients that lie on no polynomial of the degree of a share: somebody told a false one."""


def open_words(code: LagrangeCode, basis: Basis, words: Mapping[int, Array]) -> Array:
    """The values (lanes, ell, *s) at the segments of what clients hold shares (lanes, *s) of, by number.

    So many clients are needed that the honest ones among them fix the polynomial if t lie.
    Raises ValueError for fewer, and OffPolynomial.
    """
    who = tuple(sorted(words))
    degree, least = code.threshold(1), code.threshold(1) + code.t
    if len(who) < least:
        raise ValueError(f"{len(who)} words: where t={code.t} deviate, {least} fix what honest clients say")
    points = tuple(code.alphas[j] for j in who)
    flat = np.stack([words[j].reshape(basis.lanes, -1) for j in who], axis=1)
    first = np.ascontiguousarray(flat[:, :degree])
    rest = points[degree:]  # nothing where nobody is to collude and nothing is divided
    if (
        rest
        and (basis.matmul(transfer_matrix(basis, points[:degree], rest), first) != flat[:, degree:]).any()
    ):
        raise OffPolynomial(f"the words of clients {list(who)} lie on no polynomial of degree {degree - 1}")
    values = basis.matmul(transfer_matrix(basis, points[:degree], code.betas[: code.ell]), first)
    return values.reshape(basis.lanes, code.ell, *words[who[0]].shape[1:])


def extend_words(
    code: LagrangeCode, basis: Basis, words: Mapping[int, Array], others: tuple[int, ...]
) -> tuple[dict[int, Array], Array]:
    """What other clients' words are where these (lanes, *s), threshold(1) of them, lie on a polynomial.

    And its values (lanes, ell, *s) at the segments.
    """
    who, shape = tuple(sorted(words)), next(iter(words.values())).shape
    points = (*(code.alphas[j] for j in others), *code.betas[: code.ell])
    matrix = transfer_matrix(basis, tuple(code.alphas[j] for j in who), points)
    found = basis.matmul(matrix, np.stack([words[j].reshape(basis.lanes, -1) for j in who], axis=1))
    values = np.ascontiguousarray(found[:, len(others) :]).reshape(basis.lanes, code.ell, *shape[1:])
    return {j: found[:, q].reshape(shape) for q, j in enumerate(others)}, values


def segment_weights(code: LagrangeCode, basis: Basis, responders: tuple[int, ...], me: int) -> Array:
    """(lanes, ell): by what client `me` multiplies a share, so that those of all responders add up to the
    value at each segment; their sum is its weight in a decoded reply."""
    points = tuple(code.alphas[j] for j in responders)
    return np.ascontiguousarray(
        transfer_matrix(basis, points, code.betas[: code.ell])[:, :, responders.index(me)]
    )


def weigh_further(basis: Basis, weights: Array, values: Array, masks: Array) -> Array:
    """A client's further replies, weighted so that they add up, with u: (lanes, more).

    weights: its `segment_weights`.  values: its share of the replies (`ReplyCheck.further_replies`).  masks:
    of u, (lanes, R, zeros, ell), each of which adds up at its own segment.
    """
    lanes, size = len(values), math.prod(masks.shape[1:3])
    out = basis.multiply(values, sum_last(basis, weights)[:, None])
    hiding = sum_last(basis, basis.multiply(masks.reshape(lanes, size, -1), weights[:, None]))
    out[:, :size] = basis.add(np.ascontiguousarray(out[:, :size]), hiding)
    return out


# --------------------------------------------------------------------------------------------------
# The kinds of replies.


def inverses_of(basis: Basis, numbers: list[int]) -> Array:
    """(lanes, numbers)."""
    return np.array([[pow(x, -1, p) for x in numbers] for p in basis.primes], basis.dtype)


def tell_rows(*told: Any) -> Callable[[], Any]:
    """Groups, factors and constants of `CheckWeights` that are there."""
    return lambda: told


def _groups(own: Array, k: int) -> tuple[Array, ...]:
    """Indices of the points of no cluster, and of each of k clusters, of numbers (m,) in [-1, k)."""
    # Short numbers are sorted by radix.
    order = np.argsort(own.astype(np.int16 if k < 1 << 15 else np.int64), kind="stable")
    return tuple(np.split(order, np.cumsum(np.bincount(own + 1, minlength=k + 1))[:-1]))


def balance_weights(basis: Basis, drawn: Array, masses: Array, start: Array) -> Array:
    """Residues (lanes, R, n), of which the last is chosen so that start + sum drawn masses = 0.

    masses: (lanes, n), of which the last has an inverse.  start: (lanes, R).
    """
    drawn[:, :, -1] = 0
    total = basis.add(start, sum_last(basis, drawn))
    # Nearly all masses are 1: of the others, what exceeds that.
    heavy = np.flatnonzero((masses[:, :-1] != 1).any(axis=0))
    if heavy.size:
        more = basis.add(masses[:, heavy], basis.reduce(np.full(heavy.size, -1)))
        total = basis.add(total, sum_last(basis, basis.multiply(drawn[:, :, heavy], more[:, None])))
    last = [pow(int(x), -1, p) for x, p in zip(masses[:, -1], basis.primes, strict=True)]
    drawn[:, :, -1] = basis.multiply(basis.negate(total), np.array(last, basis.dtype)[:, None])
    return drawn


def _distances(
    basis: Basis, x: Array, masses: Array, sums: Array, sizes: Array, squared: bool = False
) -> Array:
    """Shares of D (lanes, n, k) of vectors (lanes, n, width), of masses (lanes, n), to all clusters.

    squared: without squares of the vectors.
    """
    cross = basis.matmul(x, np.ascontiguousarray(np.swapaxes(sums, 1, 2)))
    twice, flat = basis.negate(basis.add(sizes, sizes)), basis.squares(sums)
    out = basis.add(basis.multiply(cross, twice[:, None]), basis.multiply(masses[:, :, None], flat[:, None]))
    if squared:
        return out
    squares = basis.squares(x)
    return basis.add(out, basis.multiply(squares[:, :, None], basis.multiply(sizes, sizes)[:, None]))


@dataclass(frozen=True, eq=False)
class DistanceCheck:
    """Distances of all points to all clusters; or by how much other clusters are nearer than a point's own.

    sizes: (k,) of clusters, all positive, below every prime.  own: (m,) the cluster of each point, -1 for
    none, None if nobody knows.  summed: whether sums are those of these points; else, as without own, they
    are answered for as rows.  margins: whether replies are `field.code.distances.distance_margins` (lanes,
    k - 1, m) over own.
    """

    m: int
    sizes: tuple[int, ...]
    own: Array | None
    summed: bool = True
    margins: bool = False

    products = vectors = 1
    squared: ClassVar[bool] = False  # whether squares of points are shared

    def __post_init__(self) -> None:
        if self.margins and (self.own is None or (self.own < 0).any()):
            raise ValueError("margins over a point's own cluster need a cluster of every point")

    def complete(self, factor: int) -> bool:
        """Whether no lie that the check misses changes a comparison by this factor.

        It misses kappa_i s_h**2 added to all replies of a point, as if this had one coordinate more.  That
        changes s_a**2 D_b - factor s_b**2 D_a by (1 - factor) kappa_i s_a**2 s_b**2.
        """
        return self.squared or factor == 1

    @property
    def zeros(self) -> int:
        return len(self.sizes)

    @property
    def centers(self) -> int:
        """How many replies there are of sums."""
        return 0 if self.is_summed else len(self.sizes) ** 2

    @property
    def is_summed(self) -> bool:
        """Whether each sum is that of public points."""
        return self.summed and self.own is not None

    @property
    def more(self) -> int:
        return REPETITIONS * self.zeros + self.centers

    def further_replies(self, basis: Basis, zero: Array, columns: Array) -> Array:
        lanes = basis.lanes
        sizes, x = basis.reduce(np.array(self.sizes)), zero[:, :, 0]
        one = np.ones((lanes, REPETITIONS), basis.dtype)
        parts = [_distances(basis, np.ascontiguousarray(x), one, columns, sizes, self.squared)]
        if not self.is_summed:
            parts.append(_distances(basis, columns, sizes, columns, sizes, self.squared))
        return np.concatenate([part.reshape(lanes, -1) for part in parts], axis=1)

    def draw_weights(self, basis: Basis, coins: Coins) -> CheckWeights:
        k, lanes, repeats = len(self.sizes), basis.lanes, REPETITIONS
        sizes = basis.reduce(np.array(self.sizes))
        masses = np.ones((lanes, self.m), basis.dtype)
        others = 0 if self.is_summed else k
        if others:
            masses = np.concatenate([sizes, masses], axis=1)  # a point last, which has an inverse
        a = basis.sample((repeats, self.m + others), coins)
        start = np.ones((lanes, repeats), basis.dtype)
        a = balance_weights(basis, a, masses, start)
        b = basis.sample((repeats, k), coins)
        b = balance_weights(basis, b, basis.multiply(sizes, sizes), np.zeros_like(start))
        drawn = basis.sample((repeats, k * (k - 1) // 2), coins)
        points, among = np.ascontiguousarray(a[:, :, others:]), a[:, :, :others]
        told: Callable[[], Any] = partial(self._of_points, basis, b, drawn)
        offset = np.zeros_like(start)
        if self.margins:
            groups, factors, constants = told()
            factors, constants, offset = self._of_margins(basis, points, groups, factors, constants)
            told = tell_rows(groups, factors, constants)
        each = np.zeros((lanes, repeats, 0), basis.dtype)
        if others:
            product = basis.multiply(among[:, :, :, None], b[:, :, None])
            w = _antisymmetric(basis, self.sizes, drawn)
            each = basis.add(product, w).reshape(lanes, repeats, -1)
        twice = basis.negate(basis.add(sizes, sizes))
        linear = basis.multiply(b, twice[:, None])
        sums = among if others else np.zeros_like(b)
        return CheckWeights(
            basis, told, points, b, each, offset, None, np.ascontiguousarray(sums[:, :, None]),
            linear[:, :, None],
        )  # fmt: skip

    def _of_points(self, basis: Basis, b: Array, drawn: Array) -> tuple[tuple[Array, ...], Array, Array]:
        """Groups, factors and constants of replies of points, of coins b (lanes, R, k) and those of W."""
        k, alike = len(self.sizes), b[:, :, None]
        if self.own is None:
            return (np.arange(self.m),), alike, np.zeros_like(alike)
        factors = np.repeat(alike, k + 1, axis=2)
        constants = np.zeros_like(factors)
        if self.is_summed:
            constants[:, :, 1:] = _antisymmetric(basis, self.sizes, drawn)
        return _groups(self.own, k), factors, constants

    def _of_margins(
        self, basis: Basis, points: Array, groups: tuple[Array, ...], factors: Array, constants: Array
    ) -> tuple[Array, Array, Array]:
        """Weights for margins (s_h**2 D_a - s_a**2 D_h) / g**2 + [h < a], of which D_a cancels.

        c_ih D_ih becomes -c_ih g**2 / s_a**2 times the margin, and an offset where h < a.
        """
        k, sizes = len(self.sizes), self.sizes
        others = [[h for h in range(k) if h != a] for a in range(k)]
        scale = [[-(math.gcd(sizes[a], sizes[h]) ** 2) for h in others[a]] for a in range(k)]
        down = inverses_of(basis, [s * s for s in sizes])[:, :, None]
        scaled = basis.multiply(basis.reduce(np.array(scale, object).reshape(k, k - 1)), down)
        scaled = np.concatenate([np.zeros_like(scaled[:, :1]), scaled], axis=1)[:, None]
        chosen = np.array([list(range(1, k)), *others]).reshape(k + 1, k - 1)[None, None]
        factors = basis.multiply(np.take_along_axis(factors, chosen, axis=3), scaled)
        constants = basis.multiply(np.take_along_axis(constants, chosen, axis=3), scaled)
        offset = np.zeros(points.shape[:2], basis.dtype)
        sums = basis.weigh_groups(points[:, :0], groups, points)
        for g in range(1, k + 1):
            lower = slice(0, g - 1)  # clusters before a = g - 1
            total = sums[:, g, 0]
            part = basis.multiply(total, sum_last(basis, np.ascontiguousarray(factors[:, :, g, lower])))
            count = basis.reduce(np.array([len(groups[g])]))
            more = basis.multiply(count, sum_last(basis, np.ascontiguousarray(constants[:, :, g, lower])))
            offset = basis.add(offset, basis.add(part, more))
        return factors, constants, offset


def _antisymmetric(basis: Basis, sizes: tuple[int, ...], drawn: Array) -> Array:
    """W (lanes, R, k, k) of residues w (lanes, R, k (k - 1) / 2), a row for each two clusters."""
    k = len(sizes)
    first, second = np.triu_indices(k, 1)
    inverse, flat = inverses_of(basis, list(sizes)), basis.reduce(np.array(sizes))
    w = np.zeros((*drawn.shape[:2], k, k), basis.dtype)
    w[:, :, first, second] = drawn
    w[:, :, second, first] = basis.negate(drawn)
    diagonal = sum_last(basis, basis.multiply(w, flat[:, None, None]))
    out = basis.multiply(w, inverse[:, None, None])
    square = basis.multiply(inverse, inverse)
    out[:, :, range(k), range(k)] = basis.multiply(basis.negate(diagonal), square[:, None])
    return out


@dataclass(frozen=True, eq=False)
class SquaredCheck(DistanceCheck):
    """Distances as of `DistanceCheck`, of points whose squares are shared; of row 0 and of centers without.

    a and b are free.  They leave ||S_h||**2 with b_h sum a_i mass_i, over row 0 as well.  The rows that add
    up to S_h have sum D_ih = s_h**2 sum q_i - s_h ||S_h||**2, a center itself -s_h ||S_h||**2: so each of
    these replies counts g_h = b_h / s_h sum a_i mass_i more, and squares s_h**2 g_h.  No lie is missed.
    """

    squared = True

    def draw_weights(self, basis: Basis, coins: Coins) -> CheckWeights:
        k, lanes, repeats = len(self.sizes), basis.lanes, REPETITIONS
        sizes, others = basis.reduce(np.array(self.sizes)), 0 if self.is_summed else k
        a, b = basis.sample((repeats, self.m), coins), basis.sample((repeats, k), coins)
        among = basis.sample((repeats, others), coins)
        heavy = basis.multiply(b, sizes[:, None])
        mass = basis.add(np.ones((lanes, repeats), basis.dtype), sum_last(basis, a))
        mass = basis.add(mass, sum_last(basis, basis.multiply(among, sizes[:, None, :others])))
        down = inverses_of(basis, list(self.sizes))[:, None]
        more = basis.multiply(basis.multiply(b, down), mass[:, :, None])
        groups: tuple[Array, ...] = (np.arange(self.m),)
        factors, each = b[:, :, None], np.zeros((lanes, repeats, 0), basis.dtype)
        constants = np.zeros_like(factors)
        squares = basis.multiply(a, sum_last(basis, basis.multiply(heavy, sizes[:, None]))[:, :, None])
        if others:
            product = basis.multiply(among[:, :, :, None], b[:, :, None])
            diagonal = product[:, :, range(k), range(k)]
            product[:, :, range(k), range(k)] = basis.add(diagonal, more)
            each = product.reshape(lanes, repeats, -1)
        elif self.own is not None:
            groups, factors = _groups(self.own, k), np.repeat(factors, k + 1, axis=2)
            constants = np.zeros_like(factors)
            constants[:, :, range(1, k + 1), range(k)] = more
            weighed = basis.multiply(heavy, mass[:, :, None])
            weighed = np.concatenate([weighed, constants[:, :, 0, :1]], axis=2)  # the last one is for -1
            squares = basis.add(squares, weighed[:, :, self.own])
        linear = basis.negate(basis.add(heavy, heavy))
        sums = among if others else np.zeros_like(b)
        return CheckWeights(
            basis, tell_rows(groups, factors, constants), a, b, each, np.zeros_like(mass), None,
            np.ascontiguousarray(sums[:, :, None]), linear[:, :, None], squares=squares,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class PlaneCheck:
    """Numbers w_q.x_i + c_q of m points and shared planes (c_q, w_q), as where nobody knows sizes.

    All weights are products a_i b_q, so no lie is missed.  columns: the planes, with c above.
    """

    m: int
    planes: int

    products = vectors = 1

    @property
    def zeros(self) -> int:
        return self.planes

    @property
    def more(self) -> int:
        return REPETITIONS * self.planes

    def further_replies(self, basis: Basis, zero: Array, columns: Array) -> Array:
        x = np.concatenate([np.ones_like(zero[:, :, 0, :1]), zero[:, :, 0]], axis=2)
        values = basis.matmul(np.ascontiguousarray(x), np.ascontiguousarray(np.swapaxes(columns, 1, 2)))
        return values.reshape(basis.lanes, -1)

    def draw_weights(self, basis: Basis, coins: Coins) -> CheckWeights:
        lanes, repeats = basis.lanes, REPETITIONS
        a, b = basis.sample((repeats, self.m), coins), basis.sample((repeats, self.planes), coins)
        one = np.ones((lanes, repeats), basis.dtype)
        none = np.zeros((lanes, repeats, 0), basis.dtype)
        return CheckWeights(
            basis, tell_rows((np.arange(self.m),), b[:, :, None], np.zeros_like(b[:, :, None])), a, b, none,
            np.zeros_like(one), None, np.zeros_like(b[:, :, None]), b[:, :, None],
            ones=basis.add(one, sum_last(basis, a)),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class SquareCheck:
    """Distances of m points, whose squares are shared as well, to public centers.

    flats: (k,) of centers, ||S_h||**2.  Replies of row 0 are -2 x_0.S_h alone.  All weights are products
    a_i b_h, so no lie is missed, nor a number added alike to all distances of a point.
    """

    m: int
    flats: tuple[int, ...]

    products = vectors = 1

    @property
    def zeros(self) -> int:
        return len(self.flats)

    @property
    def more(self) -> int:
        return REPETITIONS * self.zeros

    def further_replies(self, basis: Basis, zero: Array, columns: Array) -> Array:
        turned = np.ascontiguousarray(np.swapaxes(columns, 1, 2))
        cross = basis.matmul(np.ascontiguousarray(zero[:, :, 0]), turned)
        return basis.negate(basis.add(cross, cross)).reshape(basis.lanes, -1)

    def draw_weights(self, basis: Basis, coins: Coins) -> CheckWeights:
        lanes, repeats = basis.lanes, REPETITIONS
        a, b = basis.sample((repeats, self.m), coins), basis.sample((repeats, self.zeros), coins)
        none, once = np.zeros((lanes, repeats, 0), basis.dtype), b[:, :, None]
        flat = sum_last(basis, basis.multiply(b, basis.reduce(np.array(self.flats, object))[:, None]))
        return CheckWeights(
            basis, tell_rows((np.arange(self.m),), once, np.zeros_like(once)), a, b, none,
            basis.multiply(sum_last(basis, a), flat), None, np.zeros_like(once),
            basis.negate(basis.add(once, once)),
            squares=basis.multiply(a, sum_last(basis, b)[:, :, None]),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class SumCheck:
    """Sums of clusters, segment by segment: replies (lanes, k, ell * width), nothing multiplied.

    There is no row 0 but u, and A is what the coins say.
    """

    k: int
    ell: int
    width: int

    products = 1
    vectors = 0
    zeros = 1

    @property
    def more(self) -> int:
        return REPETITIONS

    def further_replies(self, basis: Basis, zero: Array, columns: Array) -> Array:
        return np.zeros((basis.lanes, REPETITIONS), basis.dtype)

    def draw_weights(self, basis: Basis, coins: Coins) -> CheckWeights:
        lanes, repeats = basis.lanes, REPETITIONS
        g = basis.sample((repeats, self.ell * self.width), coins)
        b = basis.sample((repeats, self.k), coins)
        one = np.ones((lanes, repeats), basis.dtype)
        given = np.moveaxis(g.reshape(lanes, repeats, self.ell, self.width), 2, 1)[:, :, :, None]
        return CheckWeights(
            basis,
            tell_rows((np.arange(self.ell * self.width),), b[:, :, None], np.zeros_like(b[:, :, None])), g,
            one[:, :, None], np.zeros((lanes, repeats, 0), basis.dtype), np.zeros_like(one), None,
            np.zeros_like(b[:, :, None]), b[:, :, None], given=np.ascontiguousarray(given),
        )  # fmt: skip
