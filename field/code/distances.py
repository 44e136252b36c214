"""From coded replies to labels: decode, lift, compare, in one pass over the replies.

Over 30-bit lanes a fused kernel works chunk by chunk, so that no integer of m times k is stored; over any
other basis the same result comes from the separate steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache, partial

import numpy as np

from field.arrays import Array
from field.code.lagrange_code import LagrangeCode
from field.code.rows import NOBODYS, ClusterSums, CodedRows
from field.kernels.compiling import run_parallel, split_range
from field.kernels.scalar import centered
from field.ring.basis import LANE, Basis
from field.ring.uint128 import UInt128

# Rows whose distances to all others are computed at a time.
PAIR_TILE = 48

# Replies (lanes, k, m) of enough clients, by number; or what they decode to, residues of the same lanes.
Replies = Mapping[int, Array] | Array


def decode_scaled(code: LagrangeCode, values: Replies) -> UInt128:
    """Exact scaled distances (k, m) from replies.

    Raises TooFewValues.
    """
    replies, weights, c = _prepare(code, values)
    basis = code.basis.prefix(len(replies[0]))
    if not basis.can_fold:
        return UInt128.lift(basis, code.decode(values, 2) if isinstance(values, Mapping) else values)
    from field.kernels import decoding

    low = np.empty(replies[0].shape[1:], np.uint64)
    high = np.zeros_like(low)
    decoding.combine(replies, weights, c, low, high)
    return UInt128(high, low)


def decode_residues(
    code: LagrangeCode, values: Mapping[int, Array], lanes: int, most: Array, groups: Array
) -> tuple[Array, Array]:
    """Residues (lanes, k, m), in as many lanes, of the integers that replies (of fewer lanes) decode to.

    Also whether an integer of a row exceeds its bound, (m,) bool.  most: (k, c) bounds, Python integers, by
    the group of a row.  groups: (m,) in [0, c).

    Raises TooFewValues.
    """
    replies, weights, c = _prepare(code, values)
    basis, told = code.basis.prefix(lanes), code.basis.prefix(len(replies[0]))
    if not basis.can_fold:
        integers = told.lift(code.decode(values, 2)).astype(object)
        return basis.reduce(integers), np.any(integers > most[:, groups], axis=0)
    from field.kernels import decoding

    radix = math.prod(told.primes[:2])
    top = np.minimum(most, told.modulus - 1)
    edges = np.stack([top % radix, top // radix]).astype(np.uint64)
    out = np.empty((lanes, *replies[0].shape[1:]), basis.dtype)
    beyond = np.zeros(out.shape[2], np.bool_)
    wanted = np.array([LANE - p for p in basis.primes], np.int64)
    decoding.decode_residues(replies, weights, c, wanted, edges, groups.astype(np.int64), out, beyond)
    return out, beyond


def decode_nearest(
    code: LagrangeCode, values: Replies, sizes: Array, labels: Array, *, threads: int = 1
) -> tuple[Array, tuple[int, ...]]:
    """The nearest center of every row, and each cluster's sum of scaled distances of its own rows.

    values as in `decode_scaled`; sizes (k,); labels (m,) int32, the clusters that the centers belong to.
    The first result is (m,) int32, as `UInt128.nearest` decides; the second as `UInt128.within` sums.

    Raises TooFewValues.
    """
    if not code.basis.can_fold:
        scaled = decode_scaled(code, values)
        return scaled.nearest(sizes), scaled.within(labels)
    from field.kernels import decoding

    replies, weights, c = _prepare(code, values)
    parts = split_range(len(labels), threads)
    nearest, counts = np.empty(len(labels), np.int32), sizes.astype(np.int64)
    within = np.zeros((len(parts), len(sizes), 3), np.uint64)
    run_parallel(
        [
            partial(
                decoding.decode_nearest, [reply[:, :, rows] for reply in replies], weights, c, counts,
                labels[rows], nearest[rows], within[q],
            )
            for q, rows in enumerate(parts)
        ],
        threads,
    )  # fmt: skip
    totals = within.astype(object).sum(axis=0)
    return nearest, tuple(sum(word << (64 * q) for q, word in enumerate(row)) for row in totals)


def _prepare(code: LagrangeCode, values: Replies) -> tuple[list[Array], Array, Array]:
    """The replies that are used, centered decoding weights (lanes, R), and c of every lane."""
    if not isinstance(values, Mapping):
        primes = code.basis.primes[: len(values)]
        return [values], np.ones((len(values), 1), np.int64), np.array([LANE - p for p in primes], np.int64)
    responders = tuple(sorted(values))
    chosen, weights, c = _factors(code, responders, len(values[responders[0]]) if responders else 0)
    return [values[j] for j in chosen], weights, c


@lru_cache(maxsize=256)
def _factors(
    code: LagrangeCode, responders: tuple[int, ...], lanes: int
) -> tuple[tuple[int, ...], Array, Array]:
    chosen, weights = code.decoding_weights(responders, 2)
    primes = code.basis.primes[:lanes]
    rows = [centered(row, p) for row, p in zip(weights, primes, strict=False)]
    return chosen, np.stack(rows), np.array([LANE - p for p in primes], np.int64)


# --------------------------------------------------------------------------------------------------
# Clusters in two halves each: what coded rows say of them, for a start that splits clusters.
#
# Labels (m,) in [0, 2 c) are of halves: cluster h has the halves 2 h and 2 h + 1, with sums S_a and S_b and
# sizes a and b.  A row x is measured to the halves of its own cluster only: D_a = ||S_a - a x||**2, and D_b.


def half_distances(rows: CodedRows, sums: ClusterSums, lanes: int) -> Array:
    """Coded D_a and D_b of every row: (lanes, 2, m) residues."""
    values = rows.measure_distances(sums, lanes)
    first = sums.labels // 2 * 2
    nearby = np.take_along_axis(values, np.stack([first, first + 1])[None].astype(np.intp), axis=1)
    return np.ascontiguousarray(nearby)


def half_gaps(rows: CodedRows, sums: ClusterSums, lanes: int) -> Array:
    """Coded (b / g)**2 D_a - (a / g)**2 D_b of every row, g = gcd(a, b): (lanes, m) residues.

    Above 0 where half b is strictly nearer, whatever the sizes, and 0 if a half is empty.  Neither term
    exceeds the distances to a cluster of lcm(a, b) points (`widest_multiple`).  The squares of rows cancel:

        (b**2 ||S_a||**2 - a**2 ||S_b||**2) / g**2 - 2 a b / g**2 (b S_a - a S_b) . x
    """
    basis, c = rows.basis.prefix(lanes), len(sums.sizes) // 2
    pairs = [(a, b, math.gcd(a, b) or 1) for a, b in sums.sizes.reshape(-1, 2).tolist()]
    near, far, twice = basis.reduce(
        np.array([[(b // g) ** 2, -((a // g) ** 2), -2 * (a // g) * (b // g)] for a, b, g in pairs], object).T
    ).transpose(1, 0, 2)
    squares = basis.squares(rows.residues(sums)[:lanes])
    initial = basis.add(basis.multiply(near, squares[:, ::2]), basis.multiply(far, squares[:, 1::2]))
    factors = basis.multiply(_crossed(rows, sums, lanes, *split_halves(c)), twice[:, :, None])
    values = rows.multiply_rows(factors, initial)
    return values[:, sums.labels // 2, np.arange(rows.m)] if c > 1 else values[:, 0]


def widest_multiple(sizes: Array) -> int:
    """lcm(a, b) of the cluster where that is largest; 0 if none has points in both halves."""
    return max((math.lcm(a, b) for a, b in sizes.reshape(-1, 2).tolist()), default=0)


def between_pairs(rows: CodedRows, sums: ClusterSums, firsts: Array, seconds: Array) -> Array:
    """Coded ||b S_a - a S_b||**2 of pairs, of each its first and its second: (lanes, pairs) residues.

    Halves of a cluster, or any two clusters.  a**2 b**2 times the squared distance of their means; 0 if one
    is empty.
    """
    return rows.basis.squares(_crossed(rows, sums, rows.basis.lanes, firsts, seconds))


def pair_distances(rows: CodedRows, sums: ClusterSums, lanes: int) -> Array:
    """Coded squared distances of every two rows, as `numpy.triu_indices` has them: (lanes, pairs) residues.

    sums: of clusters of one row each, in the order of the rows.
    """
    m, at = rows.m, 0
    out = np.empty((lanes, m * (m - 1) // 2), rows.basis.dtype)
    for begin in range(0, m, PAIR_TILE):
        tile = slice(begin, begin + PAIR_TILE)
        part = ClusterSums(sums.values[:, tile], sums.sizes[tile], NOBODYS)
        values = rows.measure_distances(part, lanes)
        for i in range(begin, begin + len(part.sizes)):
            out[:, at : at + m - i - 1] = values[:, i - begin, i + 1 :]
            at += m - i - 1
    return out


def split_halves(c: int) -> tuple[Array, Array]:
    """The first half of every cluster, and the second: (c,) each."""
    return np.arange(0, 2 * c, 2), np.arange(1, 2 * c, 2)


def _crossed(rows: CodedRows, sums: ClusterSums, lanes: int, firsts: Array, seconds: Array) -> Array:
    """Coded b S_a - a S_b of pairs: (lanes, pairs, width) residues."""
    basis, values = rows.basis.prefix(lanes), rows.residues(sums)[:lanes]
    sizes = basis.reduce(sums.sizes)[:, :, None]
    return basis.add(
        basis.multiply(values[:, firsts], sizes[:, seconds]),
        basis.negate(basis.multiply(values[:, seconds], sizes[:, firsts])),
    )


# --------------------------------------------------------------------------------------------------
# By how much the centers of other clusters are nearer to a point than that of its own.
#
# Of a point in cluster a, and for each other cluster h of those with points, in their order,
#
#     v D_a - u D_h + [h < a],   u = (s_a / g)**2,   v = (s_h / g)**2,   g = gcd(s_a, s_h),
#
# which is above 0 exactly where h wins: it is strictly nearer, or as near and the lower index.  D_h is the
# scaled distance, so neither term exceeds the distances to a cluster of lcm(s_a, s_h) points, and one is less
# than the largest of these.  Linear in distances, so a share of these gives one of it; labels and sizes are
# public.


def distance_margins(
    basis: Basis, distances: Array, own: Array, sizes: Array, ell: int, *, threads: int = 1
) -> Array:
    """A share of these numbers (lanes, K - 1, m) of shares of distances (lanes, K, m), canonical residues.

    own: (m,) the number of each point's cluster among the K, of these sizes, all positive.  ell: how many
    points of the code a value is the sum over, so each has its part of a constant.
    """
    from field.kernels import comparing

    count = len(sizes)
    weights = [[_weights(a, h) for h in sizes.tolist()] for a in sizes.tolist()]
    near, far = np.array(weights, object).transpose(2, 0, 1)
    out = np.empty((basis.lanes, count - 1, distances.shape[2]), basis.dtype)
    alike = len(set(sizes.tolist())) == 1
    tasks: list[Callable[[], None]] = []
    for lane, p in enumerate(basis.primes):
        values, one = np.ascontiguousarray(distances[lane]), np.uint64(pow(ell, -1, p))
        if alike:
            tasks.append(partial(comparing.leads_alike, values, own, one, np.uint64(p), out[lane]))
        else:
            u, v = ((part % p).astype(np.uint64) for part in (near, far))
            tasks.append(partial(comparing.leads, values, own, u, v, one, np.uint64(p), out[lane]))
    run_parallel(tasks, threads)
    return out


def _weights(own: int, other: int) -> tuple[int, int]:
    common = math.gcd(own, other)
    return (own // common) ** 2, (other // common) ** 2
