"""The kernels of secret comparisons: residues to bit planes, and the dealt comparison of
`field.compare.dealer_protocol`.

All planes are blocks (blocks, rows, width) of `field.compare.bitslice`.  Primes are 2**30 - c with c < 256
(folded bases): a -> (a mod 2**30) + c (a div 2**30) keeps a value modulo the prime.  Loops over the words of
a row are innermost, so the compiler turns each into vector instructions.

Kernels trust their input: callers check.  Their twins in `tests.oracles.field` are slow and obviously right.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from field.arrays import Array
from field.kernels import DIGIT_BITS, LANE_BITS, STEPS
from field.kernels.compiling import compiled

MASK = np.uint64((1 << LANE_BITS) - 1)
SHIFT = np.uint64(LANE_BITS)
MASK_32 = np.uint64((1 << 32) - 1)
# Words of a row handled at a time, so that what is combined stays in the first cache.
BLOCK = 256


@lru_cache(maxsize=16)
def garner(primes: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """What the Chinese remainder theorem needs of primes 2**30 - c, for the kernels.

    (primes, inverses, limbs): inverses[j, i] = p_j**-1 mod p_i for j < i; limbs[j, i] the coefficient of
    2**(30 i) in p_0 ... p_(j-1), a polynomial in 2**30 with small coefficients.
    """
    lanes = len(primes)
    inverses = np.zeros((lanes, lanes), np.uint64)
    limbs = np.zeros((lanes, lanes), np.int64)
    product = [1]
    for i, p in enumerate(primes):
        limbs[i, : len(product)] = product
        c = (1 << LANE_BITS) - p
        # (2**30 - c) times the polynomial: shifted by one place, minus c times itself.
        product = [up - c * here for up, here in zip([0, *product], [*product, 0], strict=True)]
        for j in range(i):
            inverses[j, i] = pow(primes[j], -1, p)
    # Digits are below 2**30 and the sum of each column's coefficients below 2**33, or limbs overflow int64.
    if int(np.abs(limbs).sum(axis=0).max()) >= 2**33 or not all(0 < 2**30 - p < 256 for p in primes):
        raise ValueError("integers are sliced over 30-bit lanes 2**30 - c with c < 256 only")
    return np.array(primes, np.uint64), inverses, limbs


@compiled(inline="always")
def _times(a: Any, b: Any) -> Any:
    """The product of two uint64 below 2**32: said so, vector instructions multiply halves of words."""
    return np.uint64(np.uint32(a)) * np.uint64(np.uint32(b))


@compiled(inline="always")
def _canonical(a: Any, p: Any, c: Any) -> Any:
    """a mod p = 2**30 - c for a < 2**62."""
    # 2**30 + 256 * 2**32 < 2**41 after the first fold, 2**30 + 256 * 2**11 after the second: below 2 p.
    a = (a & MASK) + _times(c, a >> SHIFT)
    a = (a & MASK) + _times(c, a >> SHIFT)
    return a - p if a >= p else a


@compiled(inline="always")
def _digits(values: Any, primes: Any, inverses: Any) -> None:
    """Mixed-radix digits (Garner) in place: values (lanes, 64) uint64, residues on entry."""
    for i in range(1, values.shape[0]):
        p = primes[i]
        c = np.uint64(1 << LANE_BITS) - p
        for j in range(i):
            inverse = inverses[j, i]
            for e in range(64):
                # The difference is below 3 * 2**30 and the inverse below 2**30: a product below 2**62.
                values[i, e] = _canonical(_times(values[i, e] + p + p - values[j, e], inverse), p, c)


@compiled(inline="always")
def _transpose(square: Any) -> None:
    """Transpose the 64 x 64 bits of every column of (64, width) words in place: Hacker's Delight 7-3."""
    width = square.shape[1]
    j = 32
    mask = np.uint64(0x00000000FFFFFFFF)
    while j:
        shift = np.uint64(j)
        row = 0
        while row < 64:
            for k in range(row, row + j):
                for w in range(width):
                    swap = ((square[k, w] >> shift) ^ square[k + j, w]) & mask
                    square[k + j, w] ^= swap
                    square[k, w] ^= swap << shift
            row += 2 * j
        j >>= 1
        mask ^= mask << np.uint64(j)


@compiled(inline="always")
def _limbs(values: Any, limbs: Any, carry: Any) -> None:
    """Mixed-radix digits (lanes, 64) to 30-bit limbs in place; carry (64,) int64 is scratch."""
    lanes = values.shape[0]
    for e in range(64):
        carry[e] = 0
    for i in range(lanes):
        for j in range(i, lanes):
            limb = limbs[j, i]
            for e in range(64):
                carry[e] += limb * np.int64(values[j, e])
        # Digit i is used up: later limbs take later digits only.
        for e in range(64):
            values[i, e] = np.uint64(carry[e]) & MASK
            carry[e] >>= np.int64(LANE_BITS)


@compiled(inline="always")
def _pair(values: Any, w: Any, squares: Any) -> None:
    """Limbs (lanes, 64), two a word, into column w of squares (pairs, 64, width)."""
    lanes = values.shape[0]
    for i in range(0, lanes, 2):
        if i + 1 < lanes:
            for e in range(64):
                squares[i >> 1, e, w] = values[i, e] | (values[i + 1, e] << np.uint64(32))
        else:
            for e in range(64):
                squares[i >> 1, e, w] = values[i, e]


@compiled(inline="always")
def _emit(squares: Any, lanes: Any, out: Any) -> None:
    """Transposed squares to the rows of one block: out (rows, width), 30 rows a limb."""
    for i in range(lanes):
        first = 32 * (i & 1)
        for b in range(LANE_BITS):
            for w in range(out.shape[1]):
                out[LANE_BITS * i + b, w] = squares[i >> 1, first + b, w]


@compiled()
def slice_integers(residues: Any, first: Any, primes: Any, inverses: Any, limbs: Any, out: Any) -> None:
    """Residues (lanes, integers) uint32 to binary digits out (blocks, at least 30 * lanes, width).

    out takes the blocks from number `first` on; rows beyond are zero.
    """
    lanes, width = residues.shape[0], out.shape[2]
    values = np.empty((lanes, 64), np.uint64)
    carry = np.empty(64, np.int64)
    squares = np.empty(((lanes + 1) // 2, 64, width), np.uint64)
    for block in range(out.shape[0]):
        for w in range(width):
            start = 64 * ((first + block) * width + w)
            for i in range(lanes):
                for e in range(64):
                    values[i, e] = residues[i, start + e]
            _digits(values, primes, inverses)
            _limbs(values, limbs, carry)
            _pair(values, w, squares)
        for q in range(squares.shape[0]):
            _transpose(squares[q])
        _emit(squares, lanes, out[block])
        out[block, LANE_BITS * lanes :] = np.uint64(0)


@compiled()
def slice_differences(
    masked: Any,
    pairs: Any,
    weights: Any,
    per: Any,
    first: Any,
    primes: Any,
    inverses: Any,
    limbs: Any,
    out: Any,
) -> None:
    """Binary digits of weights[q, 0] masked[pairs[q, 0]] + weights[q, 1] masked[pairs[q, 1]], block by block.

    masked (lanes, rows, 64 * per) uint32; pairs (Q, 2) rows; weights (Q, 2, lanes) canonical.  Comparison q
    has `per` words, and the comparisons follow one another; out (blocks, at least 30 * lanes, width) takes
    the blocks from number `first` on.  Words beyond the last comparison, and rows beyond, are zero.
    """
    lanes, width = masked.shape[0], out.shape[2]
    values = np.empty((lanes, 64), np.uint64)
    carry = np.empty(64, np.int64)
    squares = np.empty(((lanes + 1) // 2, 64, width), np.uint64)
    for block in range(out.shape[0]):
        for w in range(width):
            q, word = divmod((first + block) * width + w, per)
            if q >= pairs.shape[0]:
                squares[:, :, w] = np.uint64(0)
                continue
            for i in range(lanes):
                p = primes[i]
                c = np.uint64(1 << LANE_BITS) - p
                u, v = weights[q, 0, i], weights[q, 1, i]
                left = masked[i, pairs[q, 0], 64 * word : 64 * word + 64]
                right = masked[i, pairs[q, 1], 64 * word : 64 * word + 64]
                for e in range(64):
                    # Two products below 2**60.
                    values[i, e] = _canonical(_times(left[e], u) + _times(right[e], v), p, c)
            _digits(values, primes, inverses)
            _limbs(values, limbs, carry)
            _pair(values, w, squares)
        for s in range(squares.shape[0]):
            _transpose(squares[s])
        _emit(squares, lanes, out[block])
        out[block, LANE_BITS * lanes :] = np.uint64(0)


# --- points and the clusters they are in ------------------------------------------------------------


@compiled()
def leads(values: Any, own: Any, near: Any, far: Any, one: Any, p: Any, out: Any) -> None:
    """out[j, i] = far[a, h] values[a, i] - near[a, h] values[h, i] + one [h < a], modulo p = 2**30 - c.

    values (K, m) and out (K - 1, m) uint32; own (m,) with a = own[i], h the j-th other than a; near, far
    (K, K) canonical uint64.
    """
    c = np.uint64(1 << LANE_BITS) - p
    for j in range(out.shape[0]):
        for i in range(out.shape[1]):
            a = own[i]
            h = j if j < a else j + 1
            # Two products below 2**60, and one.
            x = _times(far[a, h], values[a, i]) + _times(p - near[a, h], values[h, i])
            if h < a:
                x += one
            out[j, i] = _canonical(x, p, c)


@compiled()
def leads_alike(values: Any, own: Any, one: Any, p: Any, out: Any) -> None:
    """`leads` where near and far are 1."""
    for j in range(out.shape[0]):
        for i in range(out.shape[1]):
            a = own[i]
            h = j if j < a else j + 1
            # Below 3 p: twice p is taken off at most.
            x = np.uint64(values[a, i]) + p - np.uint64(values[h, i])
            if h < a:
                x += one
            if x >= p:
                x -= p
            if x >= p:
                x -= p
            out[j, i] = x


# --- the leaves: digits of a few bits --------------------------------------------------------------


@compiled()
def thermometers(planes: Any, out: Any) -> None:
    """out[b, STEPS d + v] ^= [digit d of r > v] for v < STEPS.

    planes (blocks, DIGIT_BITS digits, width) of r.  Digit 0 is the most significant.
    """
    digits, width = planes.shape[1] // DIGIT_BITS, planes.shape[2]
    above = np.empty((DIGIT_BITS, width), np.uint64)
    for block in range(planes.shape[0]):
        for d in range(digits):
            row = DIGIT_BITS * (digits - 1 - d)
            for v in range(STEPS):
                # Bit by bit from the least significant: greater if this bit exceeds, or ties and was greater.
                for b in range(DIGIT_BITS):
                    one = (v >> b) & 1
                    for w in range(width):
                        bit = planes[block, row + b, w]
                        below = above[b - 1, w] if b else np.uint64(0)
                        above[b, w] = bit & below if one else bit | below
                for w in range(width):
                    out[block, STEPS * d + v, w] ^= above[DIGIT_BITS - 1, w]


@compiled(inline="always")
def _choose(table: Any, planes: Any, row: Any) -> None:
    """The entry of table (STEPS + 1, width) with the binary digits planes[row + b], into table[0]."""
    for b in range(DIGIT_BITS):
        for v in range(1 << (DIGIT_BITS - 1 - b)):
            for w in range(table.shape[1]):
                low = table[2 * v, w]
                table[v, w] = low ^ ((low ^ table[2 * v + 1, w]) & planes[row + b, w])


@compiled()
def leaves(planes: Any, tables: Any, masks: Any, lead: Any, out: Any, parity: Any) -> None:
    """A member's masked shares of equality and excess of every digit of r over the public y.

    planes (blocks, DIGIT_BITS digits, width) of y; tables (blocks, STEPS digits, width) its share of the
    thermometers;
    masks and out (blocks, 2 digits - 1, width): equality of all digits but the last, then excess of all.
    lead: all ones at one member, zero at the others.  parity (blocks, width): its share of the last bits
    of r and y, added.
    """
    digits, width = planes.shape[1] // DIGIT_BITS, planes.shape[2]
    table = np.empty((STEPS + 1, width), np.uint64)
    for block in range(planes.shape[0]):
        for d in range(digits):
            row, base = DIGIT_BITS * (digits - 1 - d), STEPS * d
            for v in range(STEPS):
                for w in range(width):
                    table[v, w] = tables[block, base + v, w]
            for w in range(width):
                table[STEPS, w] = np.uint64(0)
            _choose(table, planes[block], row)
            for w in range(width):
                out[block, digits - 1 + d, w] = table[0, w] ^ masks[block, digits - 1 + d, w]
            if d == digits - 1:
                continue
            # [r = y] = [r > y - 1] + [r > y], where [r > -1] = 1 and [r > STEPS] = 0.
            for w in range(width):
                table[0, w] = lead ^ tables[block, base, w]
                table[STEPS, w] = tables[block, base + STEPS - 1, w]
            for v in range(1, STEPS):
                for w in range(width):
                    table[v, w] = tables[block, base + v - 1, w] ^ tables[block, base + v, w]
            _choose(table, planes[block], row)
            for w in range(width):
                out[block, d, w] = table[0, w] ^ masks[block, d, w]
        # The number of v below a digit has the digit's parity.
        for w in range(width):
            parity[block, w] = lead & planes[block, 0, w]
        for v in range(STEPS):
            for w in range(width):
                parity[block, w] ^= tables[block, STEPS * (digits - 1) + v, w]


# --- the tree: nodes of a few neighbors ------------------------------------------------------------
#
# A node takes eq_0 .. eq_(A-1) and gt_0 .. gt_(A-1), most significant first, and gives their product eq and
# gt = gt_0 + eq_0 gt_1 + eq_0 eq_1 gt_2 + ...  Every input x is public as m = x + mask, so a product of
# inputs is the sum over subsets of products of the m outside times the product of masks inside: local, given
# shares of all products of masks.  Its rows, in this order: products of the eq masks over subsets of two and
# more, by rising bit pattern; then for d = 1 .. A-1 products of gt mask d with the eq masks of each non-empty
# subset of 0 .. d-1.  The last node of a level gives no eq and never uses its last eq.


@compiled()
def mask_products(masks: Any, nodes: Any, out: Any) -> None:
    """out[b] ^= the rows of all nodes of a level; masks (blocks, 2 n - 1, width), nodes (arity, first)."""
    width, inputs = masks.shape[2], (masks.shape[1] + 1) // 2
    product = np.empty((64, width), np.uint64)
    for block in range(masks.shape[0]):
        row = 0
        for node in range(nodes.shape[0]):
            arity, first = nodes[node, 0], nodes[node, 1]
            used = arity - 1 if node == nodes.shape[0] - 1 else arity
            for d in range(used):
                for w in range(width):
                    product[1 << d, w] = masks[block, first + d, w]
                for subset in range(1, 1 << d):
                    for w in range(width):
                        both = product[subset, w] & masks[block, first + d, w]
                        product[(1 << d) + subset, w] = both
                        out[block, row, w] ^= both
                    row += 1
            for d in range(1, arity):
                gt = inputs - 1 + first + d
                for subset in range(1, 1 << d):
                    for w in range(width):
                        out[block, row, w] ^= product[subset, w] & masks[block, gt, w]
                    row += 1


@compiled(inline="always")
def _fold(terms: Any, opened: Any, first: Any, count: Any) -> None:
    """Sum terms (2**count, width) over subsets, each times the opened bits outside it, into terms[0]."""
    for d in range(count - 1, -1, -1):
        for subset in range(1 << d):
            for w in range(terms.shape[1]):
                terms[subset, w] = (terms[subset, w] & opened[first + d, w]) ^ terms[(1 << d) + subset, w]


@compiled()
def evaluate(tables: Any, masks: Any, opened: Any, nodes: Any, lead: Any, next_masks: Any, out: Any) -> None:
    """A member's masked shares of the outputs of one level.

    tables (blocks, rows, width) and masks (blocks, 2 n - 1, width): its shares; opened: the public masked
    inputs; next_masks and out (blocks, 2 n' - 1, width) for n' nodes.
    """
    width, inputs, outputs = opened.shape[2], (opened.shape[1] + 1) // 2, nodes.shape[0]
    product = np.empty((64, width), np.uint64)
    terms = np.empty((64, width), np.uint64)
    total = np.empty(width, np.uint64)
    for block in range(opened.shape[0]):
        row = 0
        for node in range(outputs):
            arity, first = nodes[node, 0], nodes[node, 1]
            last = node == outputs - 1
            used = arity - 1 if last else arity
            for w in range(width):
                product[0, w] = lead
            for d in range(used):
                for w in range(width):
                    product[1 << d, w] = masks[block, first + d, w]
                for subset in range(1, 1 << d):
                    for w in range(width):
                        product[(1 << d) + subset, w] = tables[block, row, w]
                    row += 1
            for w in range(width):
                total[w] = next_masks[block, outputs - 1 + node, w]
            for d in range(arity):
                gt = inputs - 1 + first + d
                for w in range(width):
                    terms[0, w] = (product[0, w] & opened[block, gt, w]) ^ masks[block, gt, w]
                for subset in range(1, 1 << d):
                    for w in range(width):
                        terms[subset, w] = (product[subset, w] & opened[block, gt, w]) ^ tables[block, row, w]
                    row += 1
                _fold(terms, opened[block], first, d)
                for w in range(width):
                    total[w] ^= terms[0, w]
            for w in range(width):
                out[block, outputs - 1 + node, w] = total[w]
            if not last:
                _fold(product, opened[block], first, arity)
                for w in range(width):
                    out[block, node, w] = product[0, w] ^ next_masks[block, node, w]


@compiled()
def join_planes(planes: Any, out: Any) -> None:
    """Add to out (count,) int32, zero on entry, the numbers with these digits: planes (digits, words)."""
    for place in range(planes.shape[0]):
        for w in range((out.size + 63) // 64):
            word, part = planes[place, w], out[64 * w : 64 * w + 64]
            for i in range(part.size):
                part[i] |= np.int32(word >> np.uint64(i) & np.uint64(1)) << np.int32(place)


# --- products of a few factors --------------------------------------------------------------------


@compiled()
def fold_factors(
    bits: Any, masks: Any, first: Any, count: Any, table: Any, lead: Any, group: Any, out: Any
) -> None:
    """out[:, group] = a member's shares of the product of `count` factors from number `first` on.

    bits (outcomes, f, per): public, masked by masks, of which these are shares; table (2**count - 1 - count,
    outcomes, per): of products of masks over subsets, in the order of a node's; out (outcomes, groups, per).
    """
    terms = np.empty((1 << count, BLOCK), np.uint64)
    for outcome in range(out.shape[0]):
        for start in range(0, out.shape[2], BLOCK):
            stop = min(start + BLOCK, out.shape[2])
            part = terms[:, : stop - start]
            part[0] = lead
            row = 0
            for d in range(count):
                part[1 << d] = masks[outcome, first + d, start:stop]
                for subset in range(1, 1 << d):
                    part[(1 << d) + subset] = table[row, outcome, start:stop]
                    row += 1
            _fold(part, bits[outcome, :, start:stop], first, count)
            out[outcome, group, start:stop] = part[0]


# --- tournaments: who won a group stays secret --------------------------------------------------------

# Points handled at a time: rows of them stay in the fastest cache.
POINTS = 512


@compiled(inline="always")
def _turn(rows: Any, at: Any, width: Any) -> None:
    """Move row v ^ at[i] of column i to v for every v: rows (g, POINTS) uint32, g a power of two."""
    step, place = 1, np.uint32(0)
    while step < rows.shape[0]:
        for v in range(rows.shape[0]):
            if v & step == 0:
                here, there = rows[v], rows[v + step]
                for i in range(width):
                    every = np.uint32(0) - (np.uint32(np.uint32(at[i]) >> place) & np.uint32(1))
                    swap = (here[i] ^ there[i]) & np.uint32(every)
                    here[i] ^= swap
                    there[i] ^= swap
        step, place = 2 * step, np.uint32(place + np.uint32(1))


@compiled(inline="always")
def _load(values: Any, members: Any, begin: Any, width: Any, rows: Any) -> None:
    """rows[v] = values[members[v], begin : begin + width], zero for no member; values may be constants."""
    for v in range(members.size):
        row = rows[v]
        if members[v] < 0:
            for i in range(width):
                row[i] = np.uint32(0)
        elif values.shape[1] == 1:
            constant = np.uint32(values[members[v], 0])
            for i in range(width):
                row[i] = constant
        else:
            source = values[members[v], begin : begin + width]
            for i in range(width):
                row[i] = source[i]


@compiled()
def indicate(secret: Any, primes: Any, ones: Any) -> None:
    """What [secret number = 1 .. g - 1] exceed ones (lanes, groups, g - 1, m) by, in place.

    secret (groups, m): numbers below g.
    """
    for lane in range(ones.shape[0]):
        p = np.uint32(primes[lane])
        for group in range(ones.shape[1]):
            at = secret[group]
            for u in range(ones.shape[2]):
                share = ones[lane, group, u]
                for i in range(at.size):
                    total = np.uint32(at[i] == u + 1) + p - share[i]
                    share[i] = total - p if total >= p else total


@compiled()
def conceal(masks: Any, members: Any, secret: Any, primes: Any, tables: Any, fresh: Any, q: Any) -> None:
    """What the dealer's residues exceed tables by, in place, for every group.

    masks (lanes, rows, m), members and q as values in `select`; secret (groups, m) numbers below g.
    tables: fresh less the mask of the row at each place plus the number, digit by digit, (lanes, groups, g,
    m); or (lanes, groups, g - 1, m) of all places but the first.  Then fresh[:, q] is that of the first, and
    becomes fresh in place.
    """
    size, m = members.shape[1], secret.shape[1]
    free = size - tables.shape[2]
    rows = np.empty((size, POINTS), np.uint32)
    for lane in range(masks.shape[0]):
        p = np.uint32(primes[lane])
        for group in range(members.shape[0]):
            for begin in range(0, m, POINTS):
                width = min(POINTS, m - begin)
                _load(masks[lane], members[group], begin, width, rows)
                _turn(rows, secret[group, begin : begin + width], width)
                new = fresh[lane, q, group, begin : begin + width]
                if free:
                    row = rows[0]
                    for i in range(width):
                        total = new[i] + row[i]
                        new[i] = total - p if total >= p else total
                for v in range(free, size):
                    share, row = tables[lane, group, v - free, begin : begin + width], rows[v]
                    for i in range(width):
                        # Three residues and 2 p: below 2**32.
                        gap = new[i] + p - row[i]
                        gap = gap - p if gap >= p else gap
                        total = gap + p - share[i]
                        share[i] = total - p if total >= p else total


@compiled()
def select(
    values: Any,
    members: Any,
    index: Any,
    ones: Any,
    tables: Any,
    fresh: Any,
    q: Any,
    lead: Any,
    primes: Any,
    out: Any,
) -> None:
    """A member's shares of a value of the winner under a fresh mask, for every group: row q of out.

    values (lanes, rows, m), or (lanes, rows, 1) if all points have the same: public; members (groups, g) rows
    of a group, -1 for none, g a power of two; index (groups, m) the winner's place plus a secret number of
    the dealer, digit by digit; ones (lanes, groups, g - 1, m) shares of whether that number is 1 .. g - 1;
    tables (lanes, groups, g, m) shares of the fresh mask less that of the row at each place plus that number,
    or (lanes, groups, g - 1, m) with fresh[:, q] for the first place, or none where values have no masks, and
    fresh[:, q] is the fresh mask; fresh, out (lanes, values, groups, m).
    """
    size, m = members.shape[1], index.shape[1]
    free = size - tables.shape[2]
    rows = np.empty((size, POINTS), np.uint32)
    masks = np.empty_like(rows)
    total = np.empty(POINTS, np.uint64)
    for lane in range(values.shape[0]):
        p = primes[lane]
        c = np.uint64(1 << LANE_BITS) - p
        for group in range(members.shape[0]):
            for begin in range(0, m, POINTS):
                width = min(POINTS, m - begin)
                at = index[group, begin : begin + width]
                _load(values[lane], members[group], begin, width, rows)
                _turn(rows, at, width)
                own = fresh[lane, q, group, begin : begin + width]
                for v in range(size if free < size else 1):
                    share = own if v < free else tables[lane, group, v - free, begin : begin + width]
                    mask = masks[v]
                    for i in range(width):
                        mask[i] = share[i]
                if free < size:
                    _turn(masks, at, width)
                first, mask = rows[0], masks[0]
                for i in range(width):
                    total[i] = np.uint64(mask[i])
                if lead:
                    for i in range(width):
                        total[i] += np.uint64(first[i])
                for u in range(1, size):
                    one = ones[lane, group, u - 1, begin : begin + width]
                    other = rows[u]
                    for i in range(width):
                        # A residue below 2**30 times a difference below 2**31.
                        gap = np.uint64(other[i]) + p - np.uint64(first[i])
                        total[i] += _canonical(_times(one[i], gap), p, c)
                share = out[lane, q, group, begin : begin + width]
                for i in range(width):
                    share[i] = np.uint32(_canonical(total[i], p, c))


@compiled()
def cross(selected: Any, masks: Any, pairs: Any, lead: Any, primes: Any, out: Any) -> None:
    """Add a member's shares of 2 (S_a M_b - S_b M_a), less what its own masks add, for pairs (b, a).

    selected (lanes, 2, groups, m): M and S, public; masks, of the same shape: its shares of what M and S
    exceed the distance and the squared size by; out (lanes, pairs, m): fresh residues, added to in place.
    """
    for lane in range(selected.shape[0]):
        p = primes[lane]
        c = np.uint64(1 << LANE_BITS) - p
        for q in range(pairs.shape[0]):
            b, a = pairs[q, 0], pairs[q, 1]
            M_a, S_a = selected[lane, 0, a], selected[lane, 1, a]
            M_b, S_b = selected[lane, 0, b], selected[lane, 1, b]
            rho_a, sigma_a = masks[lane, 0, a], masks[lane, 1, a]
            rho_b, sigma_b = masks[lane, 0, b], masks[lane, 1, b]
            for i in range(selected.shape[3]):
                left, right = p - np.uint64(rho_b[i]), np.uint64(rho_a[i])
                if lead:
                    left += np.uint64(M_b[i])
                    right += p - np.uint64(M_a[i])
                # S_a (M_b - rho_b) - S_b (M_a - rho_a) + M_a sigma_b - M_b sigma_a: products below 2**61.
                total = _canonical(_times(S_a[i], left) + _times(S_b[i], right), p, c)
                total += _canonical(
                    _times(M_a[i], sigma_b[i]) + _times(M_b[i], p - np.uint64(sigma_a[i])), p, c
                )
                total = np.uint64(2) * total + np.uint64(out[lane, q, i])
                out[lane, q, i] = np.uint32(_canonical(total, p, c))


@compiled()
def crossed(masks: Any, pairs: Any, primes: Any, out: Any) -> None:
    """Add 2 (sigma_b rho_a - sigma_a rho_b) for pairs (b, a): what the dealer knows of `cross`.

    masks (lanes, 2, groups, m): rho and sigma; out (lanes, pairs, m) residues, added to in place.
    """
    for lane in range(masks.shape[0]):
        p = primes[lane]
        c = np.uint64(1 << LANE_BITS) - p
        for q in range(pairs.shape[0]):
            b, a = pairs[q, 0], pairs[q, 1]
            rho_a, sigma_a = masks[lane, 0, a], masks[lane, 1, a]
            rho_b, sigma_b = masks[lane, 0, b], masks[lane, 1, b]
            for i in range(masks.shape[3]):
                # Two products below 2**60 each.
                total = _times(sigma_b[i], rho_a[i]) + _times(sigma_a[i], p - np.uint64(rho_b[i]))
                total = np.uint64(2) * _canonical(total, p, c) + np.uint64(out[lane, q, i])
                out[lane, q, i] = np.uint32(_canonical(total, p, c))


@compiled()
def slice_fractions(
    values: Any, chosen: Any, factors: Any, primes: Any, limbs: Any, offset: Any, out: Any
) -> None:
    """The leading binary digits of offset + sum_l x_l / p_l modulo 1, for 64 * blocks * width columns.

    x_l = sum_q factors[l, q] values[l, chosen[q]] modulo p_l; values (lanes, rows, columns) uint32 residues,
    chosen (terms,), factors (lanes, terms) canonical.  limbs (lanes, B) uint64 are the 32-bit limbs of
    2**(32 B) // p, lowest first, and offset (B,) those of the offset; B is at least 4.  out (digits, blocks,
    width) takes at most 128 digits, the leading one last.
    """
    lanes, terms, count = len(primes), len(chosen), limbs.shape[1]
    digits, number, width = out.shape
    x = np.empty((lanes, 64), np.uint64)
    carry = np.empty(64, np.uint64)
    limb = np.empty((4, 64), np.uint64)
    squares = np.empty((2, 64, width), np.uint64)
    for block in range(number):
        for w in range(width):
            first = 64 * (block * width + w)
            for i in range(lanes):
                p = primes[i]
                c = np.uint64(1 << LANE_BITS) - p
                for e in range(64):
                    x[i, e] = 0
                # At most three products below 2**60.
                for q in range(terms):
                    factor = factors[i, q]
                    row = values[i, chosen[q]]
                    for e in range(64):
                        x[i, e] += factor * np.uint64(row[first + e])
                for e in range(64):
                    x[i, e] = _canonical(x[i, e], p, c)
            for e in range(64):
                carry[e] = 0
            for j in range(count):
                for e in range(64):
                    carry[e] += offset[j]
                # Four residues below 2**30 times limbs below 2**32, a carry and an offset: below 2**64.
                for i in range(lanes):
                    factor = limbs[i, j]
                    for e in range(64):
                        carry[e] += factor * x[i, e]
                for e in range(64):
                    limb[j & 3, e] = carry[e] & MASK_32
                    carry[e] >>= np.uint64(32)
            for e in range(64):
                high, low = limb[(count - 1) & 3, e], limb[(count - 2) & 3, e]
                squares[0, e, w] = (high << np.uint64(32)) | low
                high, low = limb[(count - 3) & 3, e], limb[(count - 4) & 3, e]
                squares[1, e, w] = (high << np.uint64(32)) | low
        for q in range(2 if digits > 64 else 1):
            _transpose(squares[q])
        for b in range(digits):
            # The leading digit is the last of out, and bit 63 of the high word.
            q, place = (b >> 6), 63 - (b & 63)
            for w in range(width):
                out[digits - 1 - b, block, w] = squares[q, place, w]


@compiled()
def bits_to_residues(words: Any, lead: Any, primes: Any, out: Any) -> None:
    """From shares of bits r and public bits c to shares of the bits c xor r = c + (1 - 2 c) r, in place.

    words (rows, words of m bits): c, uint64.  lead: whether to add the public part.  out (lanes, rows, m):
    this member's residues of r, then of the bits.
    """
    one = np.uint32(1) if lead else np.uint32(0)
    for lane in range(out.shape[0]):
        p = np.uint32(primes[lane])
        for row in range(out.shape[1]):
            share = out[lane, row]
            for i in range(out.shape[2]):
                if words[row, i >> 6] >> np.uint64(i & 63) & np.uint64(1):
                    total = one + p - share[i]
                    share[i] = total - p if total >= p else total


@compiled()
def bits_less(words: Any, primes: Any, out: Any) -> None:
    """What bits r exceed residues by, in place: words (rows, words of m bits), out (lanes, rows, m)."""
    for lane in range(out.shape[0]):
        p = np.uint32(primes[lane])
        for row in range(out.shape[1]):
            share = out[lane, row]
            for i in range(out.shape[2]):
                bit = np.uint32(words[row, i >> 6] >> np.uint64(i & 63) & np.uint64(1))
                total = bit + p - share[i]
                share[i] = total - p if total >= p else total


# --------------------------------------------------------------------------------------------------
# The kernels of `field.compare.replicated`: products of shared bits, 64 a word.
#
# Bits in words need no bounds: there is nothing to overflow.  Kernels trust their input: callers check.
# Their twins in `tests.oracles.field` are slow and obviously right.


@compiled()
def multiply(x: Any, left: Any, y: Any, right: Any, mine: Any, out: Any) -> None:
    """out[q] = XOR of x[c, left[q]] & y[e, right[q]] over all c, e with mine[c, e].

    x, y (held, rows, words), mine (held, held) bool, out (gates, words) uint64.
    """
    held, words = x.shape[0], x.shape[2]
    inner = np.empty(BLOCK, np.uint64)
    for q in range(left.size):
        for start in range(0, words, BLOCK):
            size = min(BLOCK, words - start)
            result = out[q, start : start + size]
            result[:] = 0
            for c in range(held):
                inner[:size] = 0
                for e in range(held):
                    if mine[c, e]:
                        other = y[e, right[q], start : start + size]
                        for w in range(size):
                            inner[w] ^= other[w]
                row = x[c, left[q], start : start + size]
                for w in range(size):
                    result[w] ^= inner[w] & row[w]


@compiled()
def add_rows(out: Any, rows: Any, values: Any) -> None:
    """out[rows[q]] ^= values[q]: one component, (rows, words) and (gates, words) uint64."""
    for q in range(rows.size):
        target, source = out[rows[q]], values[q]
        for w in range(source.size):
            target[w] ^= source[w]


@compiled()
def set_rows(out: Any, rows: Any, values: Any) -> None:
    """out[rows[q]] = values[q]."""
    for q in range(rows.size):
        target, source = out[rows[q]], values[q]
        for w in range(source.size):
            target[w] = source[w]
