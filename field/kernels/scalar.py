"""The machine arithmetic: every numba kernel of the project, and the thin functions that call them.

Two families, one for each storage:

* folded: primes p = 2**30 - c, 0 < c < 256.  Residues are uint32; for products they are centered to
  int32, |x| <= (p-1)/2 < 2**29, so a product is below 2**58 and 31 of them with a carry below 2**61 stay
  below 2**63.  A fold a -> (a mod 2**30) + c (a div 2**30) is congruent modulo p; from |a| < 2**63 the
  first leaves |a| < 2**30 + 256 * 2**33 < 2**42, the second -2**20 < a < 2**30 + 2**20, and one
  correction by +-p makes it canonical.  Nothing depends on the order of terms: the results are the same
  bits on every machine.
* scalar: any other prime below 2**31 (a product below 2**62 and one remainder each), and 2**61 - 1
  (128-bit products, Mersenne reduction).  Exact and plain; for tests, tiny fields and the paper's field.

Kernels trust their input: callers check.  A twin of each in `tests.oracles.field` is slow and obviously
right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from field.arrays import Array
from field.kernels.compiling import compiled

MASK_30 = np.int64((1 << 30) - 1)
M61 = np.uint64((1 << 61) - 1)
MASK_32 = np.uint64((1 << 32) - 1)
# Rows are stored in feature-major tiles of this many rows: six vectors of eight 64-bit accumulators.
TILE = 48
# Centers are handled in groups of this many.
GROUP = 4
# 31 products below 2**58 and a folded carry below 2**42 sum to less than 2**63.
FOLD_EVERY = 31


# --- coins ---------------------------------------------------------------------------------------


@compiled()
def reduce_small(ints: Any, p: Any, out: Any) -> None:
    """out[i] = ints[i] mod p for flat int64; fast where |ints[i]| < p."""
    for i in range(ints.size):
        x = ints[i]
        if x < 0:
            x += p
        if x < 0 or x >= p:
            x %= p
        out[i] = x


@compiled()
def _mask_and_count(words: Any, mask: Any, largest: Any) -> Any:
    count = 0
    for i in range(words.size):
        words[i] &= mask
        count += words[i] > largest
    return count


def mask_and_find(words: Array, mask: Any, largest: Any) -> Array:
    """Mask words in place; return the positions of those above `largest`."""
    if _mask_and_count(words, mask, largest) == 0:
        return np.empty(0, np.int64)
    return np.flatnonzero(words > largest)


@compiled()
def add_flat(a: Any, b: Any, p: Any, out: Any) -> None:
    """out = a + b mod p of flat canonical residues; sums of two stay within their 32 or 64 bits."""
    for i in range(a.size):
        total = a[i] + b[i]
        out[i] = total - p if total >= p else total


@compiled()
def add_into(out: Any, a: Any, p: Any) -> None:
    """out += a mod p of flat canonical residues, in place."""
    for i in range(a.size):
        total = out[i] + a[i]
        out[i] = total - p if total >= p else total


@compiled()
def count_labels(labels: Any, counts: Any) -> Any:
    """Count labels h in [-1, k) in the columns h + 1 of counts (4, k + 1); whether there are no others."""
    k, inside = counts.shape[1] - 1, True
    for i in range(labels.size):
        h = labels[i]
        if -1 <= h < k:
            # In turns, as a count waits for the one before of the same place.
            counts[i & 3, h + 1] += 1
        else:
            inside = False
    return inside


@compiled()
def fold_flat(wide: Any, c: Any, p: Any, out: Any) -> None:
    """out = wide mod p = 2**30 - c of flat uint64 below 2**62."""
    for i in range(out.size):
        out[i] = np.uint32(_canonical(np.int64(wide[i]), c, p))


@compiled()
def add_scaled_lane(out: Any, words: Any, lane: Any, factors: Any, c: Any, p: Any) -> None:
    """out += sum_q factors[q] words[q, lane] mod p = 2**30 - c: flat uint32, words (q, lanes, >= N).

    Factors are centered, residues canonical.
    """
    count = factors.size
    for q in range(0, count - 1, 2):
        v, w = np.int64(np.int32(factors[q])), np.int64(np.int32(factors[q + 1]))
        for i in range(out.size):
            # Two products below 2**59 each and a residue below 2**30.
            total = np.int64(words[q, lane, i]) * v + np.int64(words[q + 1, lane, i]) * w
            out[i] = np.uint32(_canonical(np.int64(out[i]) + total, c, p))
    if count % 2:
        w = np.int64(np.int32(factors[count - 1]))
        for i in range(out.size):
            total = np.int64(words[count - 1, lane, i]) * w
            out[i] = np.uint32(_canonical(np.int64(out[i]) + total, c, p))


@compiled()
def add_scaled_plain(out: Any, words: Any, factor: Any, p: Any) -> None:
    """out += factor * words mod p for flat canonical residues of any other prime."""
    for i in range(out.size):
        term = _multiply(np.uint64(words[i]), factor, p)
        out[i] = _add(np.uint64(out[i]), term, p)


# Points whose weights and values are gathered at a time.
BLOCK = 512


@compiled()
def sum_rows_wide(values: Any, out: Any) -> None:
    """Sums of each row of values (n, q) uint32, fewer than 2**32 a row, into out (n,) uint64."""
    for r in range(out.size):
        total = np.uint64(0)
        for i in range(values.shape[1]):
            total += np.uint64(values[r, i])
        out[r] = total


@compiled()
def weigh_groups(weights: Any, order: Any, ends: Any, values: Any, p: Any, out: Any) -> None:
    """What values add up to by weights and, in a last row, by one, group by group, modulo p < 2**31.

    weights (R, m) and values (rows, m) uint32, canonical; order: indices below m, of group g those from
    ends[g] up to ends[g + 1], fewer than 2**32; out (groups, R + 1, rows) uint64.
    """
    repeats, rows = weights.shape[0], values.shape[0]
    chosen, value = np.empty((repeats, BLOCK), np.uint32), np.empty(BLOCK, np.uint32)
    low, high = np.empty((repeats + 1, rows), np.uint64), np.empty((repeats, rows), np.uint64)
    for group in range(out.shape[0]):
        low[:] = 0
        high[:] = 0
        for begin in range(ends[group], ends[group + 1], BLOCK):
            at = order[begin : min(begin + BLOCK, ends[group + 1])]
            for r in range(repeats):
                for i in range(at.size):
                    chosen[r, i] = weights[r, at[i]]
            for row in range(rows):
                total = np.uint64(0)
                for i in range(at.size):
                    value[i] = values[row, at[i]]
                    total += np.uint64(value[i])
                low[repeats, row] += total
                for r in range(repeats):
                    below, above = np.uint64(0), np.uint64(0)
                    for i in range(at.size):
                        # Halves below 2**32 of products below 2**62, of which there are fewer than 2**32.
                        product = np.uint64(chosen[r, i]) * np.uint64(value[i])
                        below += product & MASK_32
                        above += product >> np.uint64(32)
                    low[r, row] += below
                    high[r, row] += above
        for row in range(rows):
            for r in range(repeats):
                out[group, r, row] = ((high[r, row] % p << np.uint64(32)) % p + low[r, row] % p) % p
            out[group, repeats, row] = low[repeats, row] % p


# --- one modular product, any scalar prime -------------------------------------------------------


@compiled(inline="always")
def _fold(a: Any, c: Any) -> Any:
    return (a & MASK_30) + c * (a >> np.int64(30))


@compiled(inline="always")
def _canonical(a: Any, c: Any, p: Any) -> Any:
    a = _fold(_fold(a, c), c)
    if a < 0:
        a += p
    if a >= p:
        a -= p
    return a


@compiled(inline="always")
def _product_128(a: Any, b: Any) -> Any:
    """The 128-bit product of two uint64 as (high, low), by 32-bit halves."""
    a0, a1 = a & MASK_32, a >> np.uint64(32)
    b0, b1 = b & MASK_32, b >> np.uint64(32)
    low = a0 * b0
    # Each partial product is at most (2**32-1)**2, so adding two 32-bit carries cannot overflow.
    middle = a1 * b0 + (low >> np.uint64(32))
    other = a0 * b1 + (middle & MASK_32)
    high = a1 * b1 + (middle >> np.uint64(32)) + (other >> np.uint64(32))
    return high, (other << np.uint64(32)) | (low & MASK_32)


@compiled(inline="always")
def _multiply(a: Any, b: Any, p: Any) -> Any:
    """a*b mod p for canonical uint64 residues, p < 2**31 or p = 2**61 - 1."""
    if p == M61:
        high, low = _product_128(a, b)
        # a*b = high 2**64 + low = (high 2**3 + low div 2**61) 2**61 + low mod 2**61, and 2**61 = 1.
        folded = (low & M61) + ((high << np.uint64(3)) | (low >> np.uint64(61)))
        return folded - M61 if folded >= M61 else folded
    return a * b % p


@compiled(inline="always")
def _add(a: Any, b: Any, p: Any) -> Any:
    total = a + b
    return total - p if total >= p else total


@compiled()
def multiply_61(a: Any, b: Any) -> Any:
    """Elementwise products modulo 2**61 - 1 of flat uint64 residues."""
    out = np.empty(a.size, np.uint64)
    for i in range(a.size):
        out[i] = _multiply(a[i], b[i], M61)
    return out


@compiled()
def _scalar_matmul(matrix: Any, columns: Any, p: Any, out: Any) -> None:
    rows, inner = matrix.shape
    for r in range(rows):
        for i in range(columns.shape[1]):
            total = np.uint64(0)
            for q in range(inner):
                term = _multiply(np.uint64(matrix[r, q]), np.uint64(columns[q, i]), p)
                total = _add(total, term, p)
            out[r, i] = total


def scalar_matmul(matrix: Array, columns: Array, primes: Sequence[int]) -> Array:
    """(lanes, r, q) times (lanes, q, N) modulo each prime: (lanes, r, N), canonical."""
    out = np.empty((len(primes), matrix.shape[1], columns.shape[2]), columns.dtype)
    for lane, p in enumerate(primes):
        _scalar_matmul(matrix[lane], columns[lane], np.uint64(p), out[lane])
    return out


@compiled()
def weigh_groups_plain(weights: Any, order: Any, ends: Any, values: Any, p: Any, out: Any) -> None:
    """`weigh_groups` modulo any prime, of the storage of its residues; out is zero on entry."""
    for group in range(out.shape[0]):
        for at in order[ends[group] : ends[group + 1]]:
            for row in range(values.shape[0]):
                value = np.uint64(values[row, at])
                for r in range(weights.shape[0]):
                    term = _multiply(np.uint64(weights[r, at]), value, p)
                    out[group, r, row] = _add(np.uint64(out[group, r, row]), term, p)
                last = out[group, weights.shape[0]]
                last[row] = _add(np.uint64(last[row]), value, p)


# --- folded matrix products: encoding and decoding ----------------------------------------------


def centered(residues: Array, p: int | Array) -> Array:
    """Canonical residues moved to |x| <= (p-1)/2: int64.  p: a prime, or several that broadcast."""
    wide = residues.astype(np.int64)
    return np.where(wide > p // 2, wide - p, wide)


@compiled()
def _folded_matmul(matrix: Any, columns: Any, c: Any, p: Any, out: Any) -> None:
    rows, inner = matrix.shape
    block = 1024
    half = p // 2
    values = np.empty((inner, block), np.int32)
    total = np.empty(block, np.int64)
    for start in range(0, columns.shape[1], block):
        width = min(block, columns.shape[1] - start)
        for q in range(inner):
            for i in range(width):
                x = np.int64(columns[q, start + i])
                values[q, i] = np.int32(x - p if x > half else x)
        for r in range(rows):
            for i in range(width):
                total[i] = 0
            for q in range(inner):
                # Products of centered residues are below 2**58: fold before the 32nd.
                w = np.int64(np.int32(matrix[r, q]))
                if q % FOLD_EVERY == FOLD_EVERY - 1:
                    for i in range(width):
                        total[i] = _fold(total[i] + w * np.int64(values[q, i]), c)
                else:
                    for i in range(width):
                        total[i] += w * np.int64(values[q, i])
            for i in range(width):
                out[r, start + i] = np.uint32(_canonical(total[i], c, p))


def folded_matmul(matrix: Array, columns: Array, primes: Sequence[int]) -> Array:
    """(lanes, r, q) times (lanes, q, N) modulo each 2**30 - c: (lanes, r, N) uint32, canonical."""
    out = np.empty((len(primes), matrix.shape[1], columns.shape[2]), np.uint32)
    for lane, p in enumerate(primes):
        weights = centered(matrix[lane], p)
        _folded_matmul(weights, columns[lane], np.int64((1 << 30) - p), np.int64(p), out[lane])
    return out


# --- coded rows, folded: the portable twin of the register-blocked kernel ---------------------------


@compiled()
def _distance_tile(tiles: Any, tile: Any, weights: Any, initial: Any, c: Any, p: Any, out: Any) -> None:
    slots = tiles.shape[1]
    k, m = out.shape
    width = min(TILE, m - tile * TILE)
    total = np.empty((GROUP, TILE), np.int64)
    for group in range((k + GROUP - 1) // GROUP):
        for h in range(GROUP):
            for i in range(TILE):
                total[h, i] = initial[group * GROUP + h]
        for f in range(slots):
            x = tiles[tile, f]
            # initial is below 2**30; with it, 31 products below 2**58 stay below 2**63.
            fold = f % FOLD_EVERY == FOLD_EVERY - 1
            for h in range(GROUP):
                w = np.int64(np.int32(weights[group, f, h]))
                row = total[h]
                for i in range(TILE):
                    row[i] += np.int64(x[i]) * w
                if fold:
                    for i in range(TILE):
                        row[i] = _fold(row[i], c)
        for h in range(min(GROUP, k - group * GROUP)):
            for i in range(width):
                out[group * GROUP + h, tile * TILE + i] = np.uint32(_canonical(total[h, i], c, p))


@compiled()
def distance_tiles(tiles: Any, weights: Any, initial: Any, c: Any, p: Any, out: Any) -> None:
    """The portable twin of `microkernel.distance_tiles`: the same results, bit for bit."""
    for tile in range(tiles.shape[0]):
        _distance_tile(tiles, tile, weights, initial, c, p, out)


# --- coded rows, scalar: the paper's formula as it stands -----------------------------------------


@compiled()
def add_to_rows(rows: Any, start: Any, values: Any, p: Any) -> None:
    """Add canonical residues (c, width) into rows start, start+1, ... of (m, width) residues."""
    for r in range(values.shape[0]):
        for f in range(values.shape[1]):
            rows[start + r, f] = _add(np.uint64(rows[start + r, f]), np.uint64(values[r, f]), p)


@compiled()
def sum_rows(rows: Any, labels: Any, p: Any, sums: Any) -> None:
    """Add labelled rows modulo p into sums (k, width) uint64."""
    for i in range(labels.size):
        h = labels[i]
        if h >= 0:
            for f in range(rows.shape[1]):
                sums[h, f] = _add(sums[h, f], np.uint64(rows[i, f]), p)


@compiled()
def distance_rows(rows: Any, sums: Any, sizes: Any, p: Any, out: Any) -> None:
    """out[h, i] = sum_f (S_hf - s_h x_if)**2 mod p, as SecFC Algorithm 1 line 10 has it."""
    for h in range(sums.shape[0]):
        s = np.uint64(sizes[h]) % p
        for i in range(rows.shape[0]):
            total = np.uint64(0)
            for f in range(rows.shape[1]):
                scaled = _multiply(s, np.uint64(rows[i, f]), p)
                gap = _add(sums[h, f], p - scaled if scaled else scaled, p)
                total = _add(total, _multiply(gap, gap, p), p)
            out[h, i] = total


# --- exact integers past 64 bits: distances, comparisons, totals -----------------------------------


@compiled()
def plain_distances(points: Any, sums: Any, sizes: Any, high: Any, low: Any) -> None:
    """(high, low)[h, i] = sum_f (S_hf - s_h x_if)**2 over the integers: (k, m) halves of 128 bits.

    Exact while d (2 eta s)**2 < 2**127; then a gap |S - s x| is below 2**63 and fits int64.
    """
    for h in range(sums.shape[0]):
        for i in range(points.shape[0]):
            top, bottom = np.uint64(0), np.uint64(0)
            for f in range(points.shape[1]):
                gap = np.uint64(abs(sums[h, f] - sizes[h] * points[i, f]))
                a, b = _product_128(gap, gap)
                bottom += b
                top += a + np.uint64(bottom < b)
            high[h, i], low[h, i] = top, bottom


@compiled()
def sum_points(points: Any, labels: Any, sums: Any) -> None:
    """Integer sums (k, d) of labelled points (m, d); exact while m eta < 2**63."""
    for i in range(labels.size):
        if labels[i] >= 0:
            for f in range(points.shape[1]):
                sums[labels[i], f] += points[i, f]


@compiled()
def join_digits(digits: Any, primes: Any, high: Any, low: Any) -> None:
    """128-bit values of mixed-radix digits (lanes, N): high, low (N,).  At most four 30-bit lanes."""
    lanes = digits.shape[0]
    for i in range(digits.shape[1]):
        top, bottom = np.uint64(0), np.uint64(digits[lanes - 1, i])
        for lane in range(lanes - 2, -1, -1):
            p = np.uint64(primes[lane])
            carry, scaled = _product_128(bottom, p)
            bottom = scaled + np.uint64(digits[lane, i])
            top = top * p + carry + np.uint64(bottom < scaled)
        high[i], low[i] = top, bottom


@compiled(inline="always")
def _times(high: Any, low: Any, weight: Any) -> Any:
    """The 192-bit product of a 128-bit value and a uint64, as three words, most significant first."""
    carry, w0 = _product_128(low, weight)
    w2, w1 = _product_128(high, weight)
    w1 += carry
    return w2 + np.uint64(w1 < carry), w1, w0


@compiled(inline="always")
def _below(ah: Any, al: Any, aw: Any, bh: Any, bl: Any, bw: Any) -> Any:
    """Whether a*aw < b*bw exactly, for 128-bit a, b and 64-bit weights."""
    x2, x1, x0 = _times(ah, al, aw)
    y2, y1, y0 = _times(bh, bl, bw)
    if x2 != y2:
        return x2 < y2
    if x1 != y1:
        return x1 < y1
    return x0 < y0


@compiled(inline="always")
def _nearer(ah: Any, al: Any, aw: Any, bh: Any, bl: Any, bw: Any) -> Any:
    """Whether a/bw < b/aw, that is a*aw < b*bw, with floats only as a certified filter.

    Converting 128 bits and one product err by less than 2**-50 relatively, so a gap of 2**-48 decides.
    """
    x = (np.float64(ah) * 18446744073709551616.0 + np.float64(al)) * np.float64(aw)
    y = (np.float64(bh) * 18446744073709551616.0 + np.float64(bl)) * np.float64(bw)
    slack = y * 3.552713678800501e-15
    if x < y - slack:
        return True
    if x > y + slack:
        return False
    return _below(ah, al, aw, bh, bl, bw)


@compiled()
def nearest_center(high: Any, low: Any, sizes: Any, labels: Any) -> None:
    """labels[i] = the h that minimizes scaled[h, i] / sizes[h]**2; ties to the lowest h.

    An empty cluster never wins.  Sizes are below 2**31, so their squares fit 64 bits.
    """
    k = high.shape[0]
    for i in range(labels.size):
        best = -1
        for h in range(k):
            if sizes[h] > 0:
                if best < 0:
                    best = h
                    continue
                wb = np.uint64(sizes[best]) * np.uint64(sizes[best])
                wh = np.uint64(sizes[h]) * np.uint64(sizes[h])
                if _nearer(high[h, i], low[h, i], wb, high[best, i], low[best, i], wh):
                    best = h
        labels[i] = best


@compiled()
def separated_center(high: Any, low: Any, sizes: Any, factor: Any, labels: Any) -> None:
    """labels[i] = the h with factor * distance**2 to h at most that to every other center, else -1.

    SecFC sec. 5 (center separation) has factor 9, one third of the distance.  factor * size**2 must
    fit 64 bits.  Empty clusters take no part.
    """
    k = high.shape[0]
    for i in range(labels.size):
        labels[i] = -1
        for h in range(k):
            if sizes[h] == 0:
                continue
            separated = True
            for g in range(k):
                if g != h and sizes[g] > 0:
                    wg = np.uint64(factor) * np.uint64(sizes[g]) * np.uint64(sizes[g])
                    wh = np.uint64(sizes[h]) * np.uint64(sizes[h])
                    # Not separated if d_g/s_g**2 < factor d_h/s_h**2.
                    if _nearer(high[g, i], low[g, i], wh, high[h, i], low[h, i], wg):
                        separated = False
                        break
            if separated:
                labels[i] = h
                break


@compiled()
def total_within(high: Any, low: Any, labels: Any, totals: Any) -> None:
    """totals[h, q] = sum over the points labelled h of the q-th 32-bit digit of scaled[h, i].

    totals is (k, 4) uint64; fewer than 2**31 digits below 2**32 sum to less than 2**63.
    """
    for i in range(labels.size):
        h = labels[i]
        if h >= 0:
            totals[h, 0] += low[h, i] & MASK_32
            totals[h, 1] += low[h, i] >> np.uint64(32)
            totals[h, 2] += high[h, i] & MASK_32
            totals[h, 3] += high[h, i] >> np.uint64(32)
