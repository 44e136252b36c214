"""The streaming pass of `field.code.consistency` over primes p = 2^30 - c: random sums of long shares.

One share of N residues is cut into blocks; block b is multiplied by two random coefficients and added
up, which leaves two rows of sums as long as a block, and a few words are taken of those.  Every residue
is read once, the coefficients are one pair a block, and nothing as large as a share is stored.  Assumes
c < 2^12 and trusts its arrays; the twin for every other prime is matrix language in `field.code.consistency`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, types  # type: ignore[attr-defined]
from numba.extending import intrinsic

from field.kernels.compiling import compiled

_MASK_30 = np.int64((1 << 30) - 1)

_intrinsic: Any = intrinsic  # numba declares no types for it


@_intrinsic
def _words_at(typing: Any, address: Any) -> Any:
    """The address as a pointer to int32, for carray."""
    signature = types.CPointer(types.int32)(address)  # type: ignore[no-untyped-call]

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        return b.inttoptr(args[0], ir.IntType(32).as_pointer())

    return signature, codegen


@compiled(inline="always")
def _fold(v: Any, c: Any) -> Any:
    """Congruent to v modulo 2^30 - c and below 2^46 for any int64 v and c < 2^12."""
    return (v & _MASK_30) + c * (v >> 30)


@compiled(inline="always")
def _centered(v: Any, c: Any) -> Any:
    """The residue of v in [-(p-1)/2, (p-1)/2], p = 2^30 - c, for any int64 v."""
    # The first fold leaves |v| < 2^46, the second -2^28 < v < 2^30 + 2^28.
    p = np.int64(1 << 30) - c
    v = _fold(_fold(v, c), c)
    v = v + p if v < 0 else v
    v = v - p if v >= p else v
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
def _combine(addresses: Any, size: Any, scales: Any, weights: Any, c: Any, out: Any) -> Any:
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


def combine(replies: Any, scales: Any, weights: Any, c: Any, out: Any) -> None:
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
    _combine(addresses, np.int64(size), scales, weights, c, out)
