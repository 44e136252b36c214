"""Decoding replies modulo primes p = 2^30 - c to integers, and the nearest center of every row.

Plain loops on purpose: decoding reads every reply once and is bound by memory; a register-blocked
version gained 15 % on large inputs and lost with many replies.  Works chunk by chunk, so that
nothing as large as a reply is stored.  Assumes c < 2^12 and trusts its arrays.

Parity checks (`field.code.consistency` draws them) are sums of the replies that vanish if nobody lies.

Random sums of long shares (`sum_words`, the streaming pass of `field.code.consistency`): one share of N
residues is cut into blocks; block b is multiplied by two random coefficients and added up, which leaves two
rows of sums as long as a block, and a few words are taken of those.  Every residue is read once, the
coefficients are one pair a block, and nothing as large as a share is stored.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, types  # type: ignore[attr-defined]
from numba.extending import intrinsic

from field.kernels.compiling import compiled

CHUNK = 2112  # rows decoded at a time; k CHUNK integers should stay in the L2 cache
BLOCK = 528  # rows summed at a time; their sums stay in the L1 cache

_MASK_30 = np.int64((1 << 30) - 1)


_intrinsic: Any = intrinsic  # numba declares no types for it


@_intrinsic
def _words_at(typing: Any, address: Any) -> Any:
    """The address as a pointer to int32, for carray."""
    signature = types.CPointer(types.int32)(address)  # type: ignore[no-untyped-call]

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        return b.inttoptr(args[0], ir.IntType(32).as_pointer())

    return signature, codegen


@_intrinsic
def _product(typing: Any, a: Any, b: Any) -> Any:
    """(high, low): the 128-bit product of two uint64."""
    pair: Any = types.UniTuple
    signature = pair(types.uint64, 2)(types.uint64, types.uint64)

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        i128 = ir.IntType(128)
        wide = b.mul(b.zext(args[0], i128), b.zext(args[1], i128))
        i64 = ir.IntType(64)
        high = b.trunc(b.lshr(wide, ir.Constant(i128, 64)), i64)
        return context.make_tuple(b, signature.return_type, (high, b.trunc(wide, i64)))

    return signature, codegen


@compiled(inline="always")
def _fold(v: Any, c: Any) -> Any:
    """Congruent to v modulo 2^30 - c and below 2^46 for any int64 v and c < 2^12."""
    return (v & _MASK_30) + c * (v >> 30)


@compiled(inline="always")
def _canonical(v: Any, c: Any) -> Any:
    """The residue of v in [0, p), p = 2^30 - c, for any int64 v."""
    # The first fold leaves |v| < 2^46, the second -2^28 < v < 2^30 + 2^28.
    p = np.int64(1 << 30) - c
    v = _fold(_fold(v, c), c)
    v = v + p if v < 0 else v
    return v - p if v >= p else v


@compiled()
def _combine_row(rows: Any, start: Any, stop: Any, weights: Any, c: Any, out: Any) -> Any:
    """out[i - start] = sum_j weights[j] * row_j[i] mod p for start <= i < stop.

    Row j is canonical uint32 residues at the address rows[j]; weights are centered.
    """
    terms = rows.size
    sums = np.empty(BLOCK, np.int64)  # allocated here, the compiler knows that nothing aliases it
    for at in range(start, stop, BLOCK):
        n = min(BLOCK, stop - at)
        sums[:n] = 0
        # Products are below 2^59.  Sums are folded every 12 terms, so with the at most 3 odd terms
        # after the loop they stay below 15 * 2^59 + 2^46 < 2^63.
        for j in range(0, terms - 3, 4):
            x0 = carray(_words_at(rows[j] + 4 * at), n)
            x1 = carray(_words_at(rows[j + 1] + 4 * at), n)
            x2 = carray(_words_at(rows[j + 2] + 4 * at), n)
            x3 = carray(_words_at(rows[j + 3] + 4 * at), n)
            # Weights that are visibly 32 bits wide let the compiler choose the short product.
            w0, w1 = np.int64(np.int32(weights[j])), np.int64(np.int32(weights[j + 1]))
            w2, w3 = np.int64(np.int32(weights[j + 2])), np.int64(np.int32(weights[j + 3]))
            if j % 12 == 8:
                for i in range(n):
                    v = sums[i] + np.int64(x0[i]) * w0 + np.int64(x1[i]) * w1
                    sums[i] = _fold(v + np.int64(x2[i]) * w2 + np.int64(x3[i]) * w3, c)
            else:
                for i in range(n):
                    v = sums[i] + np.int64(x0[i]) * w0 + np.int64(x1[i]) * w1
                    sums[i] = v + np.int64(x2[i]) * w2 + np.int64(x3[i]) * w3
        for j in range(terms // 4 * 4, terms):
            x0 = carray(_words_at(rows[j] + 4 * at), n)
            w0 = np.int64(np.int32(weights[j]))
            for i in range(n):
                sums[i] += np.int64(x0[i]) * w0
        for i in range(n):
            out[at - start + i] = _canonical(sums[i], c)


@compiled()
def _check_pair(rows: Any, start: Any, stop: Any, first: Any, second: Any, c: Any) -> Any:
    """The first i in start..stop - 1 where either sum is not zero mod p, or -1.

    Twice `_combine_row` with two rows of weights, reading every residue once; the bounds are the same.
    """
    terms = rows.size
    a = np.empty(BLOCK, np.int64)
    b = np.empty(BLOCK, np.int64)
    for at in range(start, stop, BLOCK):
        n = min(BLOCK, stop - at)
        a[:n] = 0
        b[:n] = 0
        for j in range(0, terms - 3, 4):
            x0 = carray(_words_at(rows[j] + 4 * at), n)
            x1 = carray(_words_at(rows[j + 1] + 4 * at), n)
            x2 = carray(_words_at(rows[j + 2] + 4 * at), n)
            x3 = carray(_words_at(rows[j + 3] + 4 * at), n)
            v0, v1 = np.int64(np.int32(first[j])), np.int64(np.int32(first[j + 1]))
            v2, v3 = np.int64(np.int32(first[j + 2])), np.int64(np.int32(first[j + 3]))
            w0, w1 = np.int64(np.int32(second[j])), np.int64(np.int32(second[j + 1]))
            w2, w3 = np.int64(np.int32(second[j + 2])), np.int64(np.int32(second[j + 3]))
            if j % 12 == 8:
                for i in range(n):
                    y0, y1, y2, y3 = np.int64(x0[i]), np.int64(x1[i]), np.int64(x2[i]), np.int64(x3[i])
                    a[i] = _fold(a[i] + y0 * v0 + y1 * v1 + y2 * v2 + y3 * v3, c)
                    b[i] = _fold(b[i] + y0 * w0 + y1 * w1 + y2 * w2 + y3 * w3, c)
            else:
                for i in range(n):
                    y0, y1, y2, y3 = np.int64(x0[i]), np.int64(x1[i]), np.int64(x2[i]), np.int64(x3[i])
                    a[i] += y0 * v0 + y1 * v1 + y2 * v2 + y3 * v3
                    b[i] += y0 * w0 + y1 * w1 + y2 * w2 + y3 * w3
        for j in range(terms // 4 * 4, terms):
            x0 = carray(_words_at(rows[j] + 4 * at), n)
            v0, w0 = np.int64(np.int32(first[j])), np.int64(np.int32(second[j]))
            for i in range(n):
                a[i] += np.int64(x0[i]) * v0
                b[i] += np.int64(x0[i]) * w0
        off = np.int64(0)
        for i in range(n):
            off |= _canonical(a[i], c) | _canonical(b[i], c)
        if off:
            for i in range(n):
                if _canonical(a[i], c) | _canonical(b[i], c):
                    return at + i
    return -1


@compiled()
def _check_one(rows: Any, start: Any, stop: Any, weights: Any, c: Any, scratch: Any) -> Any:
    """The first i in start..stop - 1 where the sum is not zero mod p, or -1."""
    _combine_row(rows, start, stop, weights, c, scratch)
    off = np.uint32(0)
    for i in range(stop - start):
        off |= scratch[i]
    if off:
        for i in range(stop - start):
            if scratch[i]:
                return start + i
    return -1


@compiled()
def _check_row(rows: Any, start: Any, stop: Any, checks: Any, c: Any, scratch: Any) -> Any:
    """The first column found in start..stop - 1 where a check (s, replies) is not zero mod p, or -1."""
    count = checks.shape[0]
    for s in range(0, count - 1, 2):
        i = _check_pair(rows, start, stop, checks[s], checks[s + 1], c)
        if i >= 0:
            return i
    if count % 2:
        return _check_one(rows, start, stop, checks[count - 1], c, scratch)
    return -1


@compiled()
def _check(addresses: Any, steps: Any, k: Any, m: Any, checks: Any, c: Any, done: Any, found: Any) -> Any:
    rows = np.empty(addresses.size, np.int64)
    scratch = np.empty(CHUNK, np.uint32)
    chunks = (m + CHUNK - 1) // CHUNK
    for chunk in range(done[0], chunks):
        done[0] = chunk
        start, stop = chunk * CHUNK, min(m, chunk * CHUNK + CHUNK)
        for h in range(k):
            for lane in range(c.size):
                for j in range(rows.size):
                    rows[j] = addresses[j] + 4 * (lane * steps[j, 0] + h * steps[j, 1])
                i = _check_row(rows, start, stop, checks[lane], c[lane], scratch)
                if i >= 0:
                    found[0], found[1] = h, i
                    return
    done[0] = chunks


@compiled()
def _power(a: Any, e: Any, p: Any) -> Any:
    r = np.int64(1)
    while e:
        if e & 1:
            r = r * a % p
        a = a * a % p
        e >>= 1
    return r


@compiled()
def _radix_inverses(c: Any) -> Any:
    """v[i, j] = 1 / p_i mod p_j, centered, for i < j."""
    lanes = c.size
    v = np.zeros((lanes, lanes), np.int64)
    for j in range(lanes):
        p = np.int64(1 << 30) - c[j]
        for i in range(j):
            # Fermat: p_i^(p_j - 2).
            a = _power((np.int64(1 << 30) - c[i]) % p, p - 2, p)
            v[i, j] = a - p if a > p >> 1 else a
    return v


@compiled(inline="always")
def _digit(x: Any, y: Any, inverse: Any, c: Any) -> Any:
    """(x - y) * inverse mod p, canonical, for x and y in [0, 2^30) and a centered inverse."""
    # The product is below 2^59.
    return _canonical((x - y) * inverse, c)


@compiled()
def _lift(residues: Any, n: Any, c: Any, inverses: Any, low: Any, high: Any) -> Any:
    """low[i] + p_0 p_1 high[i] has the given residues: mixed radix digits in pairs, i < n.

    residues uint32 (lanes, >= n) with 1 <= lanes <= 4; low < p_0 p_1 and high < p_2 p_3.
    """
    lanes = c.size
    p0 = np.int64(1 << 30) - c[0]
    if lanes == 1:
        for i in range(n):
            low[i] = residues[0, i]
        return
    a, b = residues[0], residues[1]
    v01, c1 = inverses[0, 1], c[1]
    for i in range(n):
        x = np.int64(a[i])
        low[i] = np.uint64(x + p0 * _digit(np.int64(b[i]), x, v01, c1))
    if lanes == 2:
        return
    d, c2 = residues[2], c[2]
    v02, v12 = inverses[0, 2], inverses[1, 2]
    for i in range(n):
        x = np.int64(a[i])
        y = _digit(np.int64(b[i]), x, v01, c1)
        high[i] = np.uint64(_digit(_digit(np.int64(d[i]), x, v02, c2), y, v12, c2))
    if lanes == 3:
        return
    e, c3 = residues[3], c[3]
    p2 = np.int64(1 << 30) - c2
    v03, v13, v23 = inverses[0, 3], inverses[1, 3], inverses[2, 3]
    for i in range(n):
        x = np.int64(a[i])
        y = _digit(np.int64(b[i]), x, v01, c1)
        z = np.int64(high[i])
        u = _digit(_digit(_digit(np.int64(e[i]), x, v03, c3), y, v13, c3), z, v23, c3)
        high[i] = np.uint64(z + p2 * u)


@compiled()
def _radix(c: Any) -> Any:
    """p_0 p_1, or p_0 with one lane: what the high digits count."""
    radix = np.uint64(np.int64(1 << 30) - c[0])
    if c.size > 1:
        radix *= np.uint64(np.int64(1 << 30) - c[1])
    return radix


@compiled()
def _decode_row(
    addresses: Any,
    steps: Any,
    h: Any,
    start: Any,
    stop: Any,
    weights: Any,
    c: Any,
    inverses: Any,
    residues: Any,
    low: Any,
    high: Any,
) -> Any:
    """Fill low and high with the digits of the integers for cluster h, rows start..stop - 1."""
    rows = np.empty(addresses.size, np.int64)
    for lane in range(c.size):
        for j in range(rows.size):
            rows[j] = addresses[j] + 4 * (lane * steps[j, 0] + h * steps[j, 1])
        _combine_row(rows, start, stop, weights[lane], c[lane], residues[lane])
    _lift(residues, stop - start, c, inverses, low, high)


@compiled()
def _combine(addresses: Any, steps: Any, weights: Any, c: Any, low: Any, high: Any) -> Any:
    k, m = low.shape
    inverses, radix = _radix_inverses(c), _radix(c)
    residues = np.empty((c.size, CHUNK), np.uint32)
    for start in range(0, m, CHUNK):
        stop = min(m, start + CHUNK)
        for h in range(k):
            a = low[h, start:stop]
            b = high[h, start:stop] if c.size > 2 else high[0, :0]
            _decode_row(addresses, steps, h, start, stop, weights, c, inverses, residues, a, b)
            if c.size > 2:
                for i in range(stop - start):
                    # low + radix * high is below 2^120.
                    top, bottom = _product(radix, b[i])
                    a[i] += bottom
                    b[i] = top + np.uint64(a[i] < bottom)


@compiled()
def _decode_residues(
    addresses: Any,
    steps: Any,
    weights: Any,
    c: Any,
    wanted: Any,
    most: Any,
    groups: Any,
    out: Any,
    beyond: Any,
) -> Any:
    inverses, radix = _radix_inverses(c), np.int64(_radix(c))
    width = min(out.shape[2], CHUNK)
    residues = np.empty((c.size, width), np.uint32)
    low, high = np.empty(width, np.uint64), np.empty(width, np.uint64)
    for start in range(0, out.shape[2], CHUNK):
        stop = min(out.shape[2], start + CHUNK)
        for h in range(out.shape[1]):
            _decode_row(addresses, steps, h, start, stop, weights, c, inverses, residues, low, high)
            for i in range(stop - start):
                g = groups[start + i]
                bottom, top = most[0, h, g], most[1, h, g]
                above = high[i] if c.size > 2 else np.uint64(0)
                beyond[start + i] |= above > top or (above == top and low[i] > bottom)
            for lane in range(wanted.size):
                part, w = out[lane, h, start:stop], wanted[lane]
                if lane < c.size:
                    part[:] = residues[lane, : stop - start]
                    continue
                # Digits are below 2^60, and a product of two residues is as well.
                factor = _canonical(radix, w) if c.size > 2 else np.int64(0)
                for i in range(stop - start):
                    upper = _canonical(np.int64(high[i]), w) * factor if c.size > 2 else np.int64(0)
                    part[i] = _canonical(np.int64(low[i]) + upper, w)


@compiled()
def _weigh(low: Any, high: Any, radix: Any, factor: Any) -> Any:
    """(low + radix * high) * factor as three words, most significant first; below 2^192."""
    top, bottom = _product(radix, high)
    bottom += low
    top += np.uint64(bottom < low)
    carry, first = _product(bottom, factor)
    third, second = _product(top, factor)
    second += carry
    third += np.uint64(second < carry)
    return third, second, first


@compiled()
def _exact_nearest(low: Any, high: Any, wide: Any, i: Any, radix: Any, squares: Any) -> Any:
    """Label minimizing D_h / s_h^2 exactly; lowest on ties; -1 if every cluster is empty."""
    zero = np.uint64(0)
    best = -1
    for h in range(squares.size):
        if squares[h] == zero:
            continue
        if best >= 0:
            # D_h < 2^120 and s^2 < 2^60 (s < 2^30), so both sides are below 2^180.
            x = _weigh(low[h, i], high[h, i] if wide else zero, radix, squares[best])
            y = _weigh(low[best, i], high[best, i] if wide else zero, radix, squares[h])
            if x >= y:
                continue
        best = h
    return best


@compiled()
def _nearest_chunk(
    start: Any,
    stop: Any,
    addresses: Any,
    steps: Any,
    weights: Any,
    c: Any,
    inverses: Any,
    squares: Any,
    old: Any,
    residues: Any,
    low: Any,
    high: Any,
    best: Any,
    close: Any,
    label: Any,
    labels: Any,
    within: Any,
) -> Any:
    """Labels for rows start..stop - 1 and their contribution to within; the rest is scratch."""
    n, k = stop - start, squares.size
    wide = c.size > 2
    radix = _radix(c)
    scale = np.float64(radix)
    # Rounding disturbs a quotient by less than 2^-50 of it, so two that differ by more than 2^-48
    # are in the right order.  Rows that ever see a closer pair are decided exactly below.
    near = 2.0**-48
    best[:n] = 1e300
    close[:n] = 0
    label[:n] = -1
    for h in range(k):
        if squares[h] == 0:
            continue
        a, b = low[h], high[h if wide else 0]
        _decode_row(addresses, steps, h, start, stop, weights, c, inverses, residues, a, b)
        per = 1.0 / np.float64(squares[h])
        if wide:
            for i in range(n):
                v = (np.float64(a[i]) + scale * np.float64(b[i])) * per
                close[i] |= abs(v - best[i]) <= near * best[i]
                label[i] = h if v < best[i] else label[i]
                best[i] = min(v, best[i])
        else:
            for i in range(n):
                v = np.float64(a[i]) * per
                close[i] |= abs(v - best[i]) <= near * best[i]
                label[i] = h if v < best[i] else label[i]
                best[i] = min(v, best[i])
    one = np.uint64(1)
    for i in range(n):
        if close[i]:
            label[i] = _exact_nearest(low, high, wide, i, radix, squares)
        h = old[start + i]
        labels[start + i] = label[i]
        if h >= 0 and squares[h] > 0:
            _, mid, bottom = _weigh(low[h, i], high[h, i] if wide else np.uint64(0), radix, one)
            # 192-bit sum of 128-bit numbers, least significant word first.
            within[h, 0] += bottom
            mid += np.uint64(within[h, 0] < bottom)
            within[h, 1] += mid
            within[h, 2] += np.uint64(within[h, 1] < mid)


@compiled()
def _decode_nearest(
    addresses: Any,
    steps: Any,
    weights: Any,
    c: Any,
    sizes: Any,
    old: Any,
    labels: Any,
    within: Any,
) -> Any:
    """Chunk by chunk."""
    within[:] = 0
    m, k = labels.size, sizes.size
    squares = (sizes * sizes).astype(np.uint64)
    inverses = _radix_inverses(c)
    width = min(m, CHUNK)
    residues = np.empty((c.size, width), np.uint32)
    low = np.empty((k, width), np.uint64)
    high = np.empty((k if c.size > 2 else 1, width), np.uint64)
    best = np.empty(width, np.float64)
    close = np.empty(width, np.int64)
    label = np.empty(width, np.int64)
    for start in range(0, m, CHUNK):
        _nearest_chunk(start, min(m, start + CHUNK), addresses, steps, weights, c,
                       inverses, squares, old, residues, low, high, best, close, label,
                       labels, within)  # fmt: skip


def _addressed(replies: Any) -> Any:
    """Addresses (R,) and element strides (R, 2) of the lanes and rows of the replies."""
    addresses = np.array([r.__array_interface__["data"][0] for r in replies], np.int64)
    steps = np.array([[r.strides[0] // 4, r.strides[1] // 4] for r in replies], np.int64)
    return addresses, steps


def combine(replies: Any, weights: Any, c: Any, low: Any, high: Any = None) -> None:
    """Decode R replies into integers: low + 2^64 high, below the product of the primes.

    replies  R uint32 arrays (lanes, k, m), canonical; rows contiguous, lanes and rows any stride
    weights  int64 (lanes, R), centered: the value is sum_j weights[lane, j] replies[j][lane] mod p
    c        int64 (lanes,), the primes are 2^30 - c; 1 to 4 lanes
    low      uint64 (k, m) result
    high     uint64 (k, m) result, needed for 3 and 4 lanes
    """
    addresses, steps = _addressed(replies)
    if high is None:
        high = np.empty((1, 1), np.uint64)
    _combine(addresses, steps, weights, c, low, high)


def decode_residues(
    replies: Any, weights: Any, c: Any, wanted: Any, most: Any, groups: Any, out: Any, beyond: Any
) -> None:
    """Residues modulo further primes of the integers that `combine` would give.

    wanted: int64 (lanes,), c of the primes, first those of the replies.  most: uint64 (2, k, groups), digits
    of bounds, the lower first.  groups: int64 (m,), of which bound is of a row.  out: uint32 (lanes, k, m)
    result.  beyond: bool (m,), set where an integer of a row exceeds its bound.
    """
    addresses, steps = _addressed(replies)
    _decode_residues(addresses, steps, weights, c, wanted, most, groups, out, beyond)


def decode_nearest(
    replies: Any,
    weights: Any,
    c: Any,
    sizes: Any,
    old: Any,
    labels: Any,
    within: Any,
) -> None:
    """Label every row with its nearest center, exactly, straight from R replies.

    D[h, i] is what `combine` would give: s_h^2 times a squared distance.  Nothing of size m k is
    stored.

    sizes    int64 (k,), s_h < 2^30; a cluster with s_h = 0 is never chosen
    old      int32 (m,), labels of the rows now, -1 for none; may be the array labels
    labels   int32 (m,) result: the h minimizing D[h, i] / s_h^2, the lowest on ties, compared as
             integers; -1 if every cluster is empty
    within   uint64 (k, 3) result: sum of D[h, i] over the rows with old[i] = h, as three words,
             least significant first; zero for an empty cluster
    """
    addresses, steps = _addressed(replies)
    _decode_nearest(addresses, steps, weights, c, sizes, old, labels, within)


def check(replies: Any, checks: Any, c: Any, done: Any) -> Any:
    """Some (h, i) where a check of the replies is not zero, or None.

    checks: int64 (lanes, rows, replies), centered: sums that vanish if nobody lies.  done: int64 (1,), how
    many chunks of CHUNK columns passed already, and in the end how many before the first that does not.
    """
    addresses, steps = _addressed(replies)
    _, k, m = replies[0].shape
    found = np.full(2, -1, np.int64)
    _check(addresses, steps, np.int64(k), np.int64(m), checks, c, done, found)
    return None if found[1] < 0 else (int(found[0]), int(found[1]))


@compiled(inline="always")
def _centered(v: Any, c: Any) -> Any:
    """The residue of v in [-(p-1)/2, (p-1)/2], p = 2^30 - c, for any int64 v."""
    p = np.int64(1 << 30) - c
    v = _canonical(v, c)
    return v - p if v > p >> 1 else v


@compiled()
def _sketch(address: Any, size: Any, scale: Any, c: Any, sums: Any) -> Any:
    """sums[s, a] = sum_b scale[s, b] * r[b width + a], centered, s < 2, of the residues at the address."""
    width = sums.shape[1]
    first = np.zeros(width, np.int64)  # allocated here, the compiler knows that nothing aliases them
    second = np.zeros(width, np.int64)
    full = size // width
    # A residue is below 2^30 and a coefficient at most 2^29, so a product is below 2^59: eight and a
    # folded carry below 2^46 stay below 2^62 + 2^46 < 2^63.
    for b in range(0, full - 7, 8):
        at = address + 4 * width * b
        r0 = carray(_words_at(at), width)
        r1 = carray(_words_at(at + 4 * width), width)
        r2 = carray(_words_at(at + 8 * width), width)
        r3 = carray(_words_at(at + 12 * width), width)
        r4 = carray(_words_at(at + 16 * width), width)
        r5 = carray(_words_at(at + 20 * width), width)
        r6 = carray(_words_at(at + 24 * width), width)
        r7 = carray(_words_at(at + 28 * width), width)
        # Coefficients that are visibly 32 bits wide let the compiler choose the short product.
        x0, y0 = np.int64(np.int32(scale[0, b])), np.int64(np.int32(scale[1, b]))
        x1, y1 = np.int64(np.int32(scale[0, b + 1])), np.int64(np.int32(scale[1, b + 1]))
        x2, y2 = np.int64(np.int32(scale[0, b + 2])), np.int64(np.int32(scale[1, b + 2]))
        x3, y3 = np.int64(np.int32(scale[0, b + 3])), np.int64(np.int32(scale[1, b + 3]))
        x4, y4 = np.int64(np.int32(scale[0, b + 4])), np.int64(np.int32(scale[1, b + 4]))
        x5, y5 = np.int64(np.int32(scale[0, b + 5])), np.int64(np.int32(scale[1, b + 5]))
        x6, y6 = np.int64(np.int32(scale[0, b + 6])), np.int64(np.int32(scale[1, b + 6]))
        x7, y7 = np.int64(np.int32(scale[0, b + 7])), np.int64(np.int32(scale[1, b + 7]))
        for i in range(width):
            q0, q1, q2, q3 = np.int64(r0[i]), np.int64(r1[i]), np.int64(r2[i]), np.int64(r3[i])
            q4, q5, q6, q7 = np.int64(r4[i]), np.int64(r5[i]), np.int64(r6[i]), np.int64(r7[i])
            v = first[i] + q0 * x0 + q1 * x1 + q2 * x2 + q3 * x3
            first[i] = _fold(v + q4 * x4 + q5 * x5 + q6 * x6 + q7 * x7, c)
            v = second[i] + q0 * y0 + q1 * y1 + q2 * y2 + q3 * y3
            second[i] = _fold(v + q4 * y4 + q5 * y5 + q6 * y6 + q7 * y7, c)
    for b in range(full // 8 * 8, (size + width - 1) // width):
        n = min(width, size - b * width)
        r0 = carray(_words_at(address + 4 * width * b), n)
        x0, y0 = np.int64(np.int32(scale[0, b])), np.int64(np.int32(scale[1, b]))
        # One product below 2^59 and a carry below 2^46 before each fold.
        for i in range(n):
            q0 = np.int64(r0[i])
            first[i] = _fold(first[i] + q0 * x0, c)
            second[i] = _fold(second[i] + q0 * y0, c)
    for i in range(width):
        sums[0, i] = _centered(first[i], c)
        sums[1, i] = _centered(second[i], c)


@compiled()
def _sum_words(addresses: Any, size: Any, scales: Any, weights: Any, c: Any, out: Any) -> Any:
    lanes, words = weights.shape[0], weights.shape[1]
    rows, width = scales.shape[1], weights.shape[3]
    sums = np.empty((rows, width), np.int32)
    for lane in range(lanes):
        p = np.int64(1 << 30) - c[lane]
        for j in range(addresses.shape[0]):
            for s in range(0, rows, 2):
                _sketch(addresses[j, lane], size, scales[lane, s : s + 2], c[lane], sums[s : s + 2])
            for w in range(words):
                low, high = np.int64(0), np.int64(0)
                for s in range(rows):
                    # |sums| < 2^29 and a weight is below 2^30, so |v| < 2^59, v mod 2^30 < 2^30 and
                    # |v div 2^30| <= 2^29: rows * width <= 2^32 of them fit easily.
                    for i in range(width):
                        v = np.int64(sums[s, i]) * np.int64(weights[lane, w, s, i])
                        low += v & _MASK_30
                        high += v >> 30
                total = low + c[lane] * (high % p)
                out[lane, j, w] = np.uint32(total % p)


def sum_words(replies: Any, scales: Any, weights: Any, c: Any, out: Any) -> None:
    """Words of replies: out[lane, j, w] = sum_{s,b,a} weights[w, s, a] scales[s, b] r_j[b width + a].

    replies  uint32 arrays (lanes, N), canonical; rows contiguous, lanes any stride
    scales   int32 (lanes, rows, ceil(N / width)), centered, rows even
    weights  uint32 (lanes, words, rows, width), canonical
    c        int64 (lanes,), the primes are 2^30 - c
    out      uint32 (lanes, replies, words) result, canonical
    """
    size = replies[0].shape[1]
    starts = np.array([[r.__array_interface__["data"][0]] for r in replies], np.int64)
    steps = np.array([[r.strides[0]] for r in replies], np.int64)
    addresses = starts + steps * np.arange(c.size)
    _sum_words(addresses, np.int64(size), scales, weights, c, out)
