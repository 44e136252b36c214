"""The streaming pass of `field.code.range_check`: sums of words under a matrix of 0, 1 and -1, a block at a
time.

Trusts its arrays; the twin in `tests.oracles.field` is slow and obviously right.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from field.kernels.compiling import compiled
from field.kernels.microkernel import VECTOR_BITS


@compiled()
def project(words: Any, signs: Any, out: Any) -> None:
    """out[b, r] = sum_i signs[r, i] words[b N + i]: flat int64 words, of which N fit in 64 bits.

    signs (rows, N), out int64 (blocks, rows).  The last block may be short.
    """
    rows, size = signs.shape
    for b in range(out.shape[0]):
        first = b * size
        count = min(size, words.size - first)
        for r in range(rows):
            total = np.int64(0)
            for i in range(count):
                total += words[first + i] * np.int64(signs[r, i])
            out[b, r] = total


_I16, _I32, _I64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)
_STEP = 16
# Rows of signs that are read together: 16 sums and 8 factors of 32 registers, or 8 and 6 of 16.
_ACROSS = 4 if VECTOR_BITS == 512 else 2
# Words that are projected under all rows before others are: four digits of so many stay in the first cache.
_CHUNK = 1024
_intrinsic: Any = intrinsic  # numba declares no types for these
_cgutils: Any = cgutils


@_intrinsic
def _products(typing: Any, digits: Any, signs: Any, size: Any, count: Any, out: Any) -> Any:
    """out[4 r + q] = sum_i signs[r, i] digits[q, i] over i < count, a multiple of 16: int64.

    digits (4, _CHUNK), signs (_ACROSS, size) int16 and out (4 _ACROSS,) int64, by address; sums stay in 32
    bits.  Neighbors are multiplied and added together, for which processors have an instruction that loops do
    not get.
    """
    n = types.int64

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        digits, signs, size, count, out = args
        part, wide, half = (ir.VectorType(*of) for of in ((_I16, _STEP), (_I32, _STEP), (_I32, _STEP // 2)))
        even, odd = (ir.Constant(half, list(range(first, _STEP, 2))) for first in (0, 1))
        zero = ir.Constant(half, [0] * (_STEP // 2))
        sums = [_cgutils.alloca_once_value(b, zero) for _ in range(4 * _ACROSS)]
        for total in sums:
            b.store(zero, total)

        def load(base: Any, row: int, length: Any, i: Any) -> Any:
            place = b.add(base, b.mul(_I64(2), b.add(b.mul(_I64(row), length), i)))
            return b.sext(b.load(b.inttoptr(place, part.as_pointer()), align=2), wide)

        with _cgutils.for_range_slice(b, _I64(0), count, _I64(_STEP)) as (i, _):
            four = [load(digits, q, _I64(_CHUNK), i) for q in range(4)]
            several = [load(signs, r, size, i) for r in range(_ACROSS)]
            for total, (sign, digit) in zip(sums, itertools.product(several, four), strict=True):
                product = b.mul(digit, sign)
                pairs = [b.shuffle_vector(product, product, places) for places in (even, odd)]
                b.store(b.add(b.load(total), b.add(*pairs)), total)
        for q, total in enumerate(sums):
            whole, vector = _I64(0), b.load(total)
            for lane in range(_STEP // 2):
                whole = b.add(whole, b.sext(b.extract_element(vector, _I32(lane)), _I64))
            b.store(whole, b.inttoptr(b.add(out, _I64(8 * q)), _I64.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(n, n, n, n, n), codegen


@compiled()
def project_blocks(words: Any, firsts: Any, counts: Any, signs: Any, p: Any, out: Any) -> None:
    """Projections of blocks, block b of counts[b] of int32 words from firsts[b] on; signs (rows, N) int16.

    Words are residues modulo p, and sums int64 of their centered representatives; or, for p = 0, integers
    below 2**30 in absolute value, and their sums.  A word is cut into digits w = low + 2**15 high, within
    2**15 in absolute value: sums of _CHUNK of them stay below 2**26 in any order, and those of all N <= 4096
    words below 2**42.  Two blocks are read together, so that a sign serves four digits; and all of them under
    the signs of a chunk, which stay in the second cache, before the next.
    """
    rows, size = signs.shape
    blocks = len(firsts)
    prime, half = np.int32(p), np.int32(p >> 1 if p else np.int64(1) << 30)
    digits = np.zeros((4, _CHUNK), np.int16)
    sums = np.zeros(4 * _ACROSS, np.int64)
    out[:] = 0
    for begin in range(0, size, _CHUNK):
        for b in range(0, blocks, 2):
            # The last block stands alone where their number is odd.
            pair = min(2, blocks - b)
            most = counts[b] if pair == 1 else max(counts[b], counts[b + 1])
            part = min(_CHUNK, most - begin)
            if part <= 0:
                continue
            if size >= _STEP:
                part = (part + _STEP - 1) // _STEP * _STEP
            for q in range(2):
                count = max(0, min(_CHUNK, counts[b + q] - begin)) if q < pair else 0
                low, high = digits[2 * q], digits[2 * q + 1]
                if count:
                    own = words[firsts[b + q] + begin : firsts[b + q] + begin + count]
                    for i in range(count):
                        word = np.int32(own[i] - prime) if own[i] > half else own[i]
                        low[i], high[i] = np.int16(word & np.int32(0x7FFF)), np.int16(word >> np.int32(15))
                low[count:part] = 0
                high[count:part] = 0
            for r in range(0, rows, _ACROSS):
                several = min(_ACROSS, rows - r)
                if size >= _STEP and several == _ACROSS:
                    at = signs.ctypes.data + 2 * (r * size + begin)
                    _products(digits.ctypes.data, at, size, part, sums.ctypes.data)
                else:
                    for row in range(several):
                        for q in range(4):
                            total = np.int64(0)
                            for i in range(part):
                                total += np.int64(digits[q, i]) * np.int64(signs[r + row, begin + i])
                            sums[4 * row + q] = total
                for row in range(several):
                    for q in range(pair):
                        out[b + q, r + row] += sums[4 * row + 2 * q] + (sums[4 * row + 2 * q + 1] << 15)


@compiled()
def combine_signs(signs: Any, weights: Any, p: Any, out: Any) -> None:
    """out[j, i] = sum_r weights[r, j] signs[r, i] modulo p, canonical: out int64 (checks, N), weights int64.

    Residues below 2**31 under fewer than 2**32 signs: sums stay below 2**63.
    """
    rows, size = signs.shape
    for j in range(weights.shape[1]):
        out[j] = 0
        for r in range(rows):
            weight = weights[r, j]
            for i in range(size):
                out[j, i] += weight * np.int64(signs[r, i])
        for i in range(size):
            out[j, i] %= p


@compiled()
def combine_blocks(words: Any, firsts: Any, counts: Any, halves: Any, p: Any, out: Any) -> None:
    """out[b, j] = sum_i factors[j, i] words[firsts[b] + i] modulo p over the words of block b, canonical.

    words int32 residues; halves int32 (2 checks, N): the low 16 bits of factors below 2**31, then the others.
    A product is below 2**47, so a sum of N <= 4096 stays below 2**59.  checks even.
    """
    checks = halves.shape[0] // 2
    for b in range(len(firsts)):
        block = words[firsts[b] : firsts[b] + counts[b]]
        for j in range(0, checks, 2):
            low, high = halves[j], halves[checks + j]
            below, above = halves[j + 1], halves[checks + j + 1]
            x0, x1, y0, y1 = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
            for i in range(counts[b]):
                word = np.int64(block[i])
                x0 += word * np.int64(low[i])
                x1 += word * np.int64(high[i])
                y0 += word * np.int64(below[i])
                y1 += word * np.int64(above[i])
            out[b, j] = (x0 % p + ((x1 % p) << 16)) % p
            out[b, j + 1] = (y0 % p + ((y1 % p) << 16)) % p


@compiled()
def add_masks(masks: Any, numbers: Any, used: Any, p: Any, sums: Any) -> None:
    """Add to sums (blocks, rows) the used (blocks, words) words of masks (count, words), in their order.

    All canonical residues modulo p, below 2**62; used has at most `rows` words of a block.
    """
    for b in range(len(numbers)):
        r = 0
        for word in range(used.shape[1]):
            if used[b, word]:
                total = np.uint64(sums[b, r]) + np.uint64(masks[numbers[b], word])
                sums[b, r] = total - p if total >= p else total
                r += 1


@compiled()
def serving(sums: Any, mask: Any, most: Any, spare: Any, places: Any) -> bool:
    """Whether words of a mask (words, ell) hide sums (rows, ell), at most `spare` of them skipped.

    places (rows,) is filled with those that do, ascending.  A sum and a mask add up to less than 2**62.
    """
    skipped = 0
    for r in range(sums.shape[0]):
        while True:
            inside = True
            for segment in range(sums.shape[1]):
                inside &= abs(sums[r, segment] + mask[r + skipped, segment]) <= most
            if inside:
                break
            skipped += 1
            if skipped > spare:
                return False
        places[r] = r + skipped
    return True


@compiled()
def project_wide(words: Any, firsts: Any, counts: Any, signs: Any, p: Any, out: Any) -> None:
    """`project_blocks` of canonical uint64 residues modulo p < 2**62, canonical: two sum below 2**63."""
    for b in range(len(firsts)):
        for r in range(signs.shape[0]):
            total = np.uint64(0)
            for i in range(counts[b]):
                if signs[r, i] == 0:
                    continue
                word = words[firsts[b] + i]
                total += word if signs[r, i] > 0 else p - word
                if total >= p:
                    total -= p
            out[b, r] = total
