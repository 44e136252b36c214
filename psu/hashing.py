"""BLAKE2b (RFC 7693) of many short messages at once, in numba: what IDs become before they are tags.

The standard library hashes one message a call, which costs more than the hash. Messages that fit one block
are hashed side by side on vectors; longer ones one after another. Both give the digests of hashlib, which
tests compare.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from field.kernels.compiling import compiled

U = np.uint64
ZERO = U(0)
_I64 = ir.IntType(64)

# Messages hashed side by side: a vector of the widest machines, two or four of the others.
LANES = 8
IV = np.array(
    [
        0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1,
        0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179,
    ],
    np.uint64,
)  # fmt: skip
SIGMA = np.array(
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
    ],
    np.int64,
)


@compiled(inline="always")
def _turn(x: Any, by: Any) -> Any:
    return (x >> U(by)) | (x << U(64 - by))


@compiled(inline="always")
def _blend(a: Any, b: Any, c: Any, d: Any, x: Any, y: Any) -> Any:
    a = a + b + x
    d = _turn(d ^ a, 32)
    c = c + d
    b = _turn(b ^ c, 24)
    a = a + b + y
    d = _turn(d ^ a, 16)
    c = c + d
    b = _turn(b ^ c, 63)
    return a, b, c, d


@compiled()
def _compress(h: Any, m: Any, size: Any, last: Any) -> None:
    # Sixteen names instead of an array: the compiler keeps them in registers.
    a0, a1, a2, a3, b0, b1, b2, b3 = h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7]
    c0, c1, c2, c3 = IV[0], IV[1], IV[2], IV[3]
    d0, d1, d2, d3 = IV[4] ^ U(size), IV[5], IV[6], IV[7]
    if last:
        d2 = ~d2
    for turn in range(12):
        s = SIGMA[turn % 10]
        a0, b0, c0, d0 = _blend(a0, b0, c0, d0, m[s[0]], m[s[1]])
        a1, b1, c1, d1 = _blend(a1, b1, c1, d1, m[s[2]], m[s[3]])
        a2, b2, c2, d2 = _blend(a2, b2, c2, d2, m[s[4]], m[s[5]])
        a3, b3, c3, d3 = _blend(a3, b3, c3, d3, m[s[6]], m[s[7]])
        a0, b1, c2, d3 = _blend(a0, b1, c2, d3, m[s[8]], m[s[9]])
        a1, b2, c3, d0 = _blend(a1, b2, c3, d0, m[s[10]], m[s[11]])
        a2, b3, c0, d1 = _blend(a2, b3, c0, d1, m[s[12]], m[s[13]])
        a3, b0, c1, d2 = _blend(a3, b0, c1, d2, m[s[14]], m[s[15]])
    h[0] ^= a0 ^ c0
    h[1] ^= a1 ^ c1
    h[2] ^= a2 ^ c2
    h[3] ^= a3 ^ c3
    h[4] ^= b0 ^ d0
    h[5] ^= b1 ^ d1
    h[6] ^= b2 ^ d2
    h[7] ^= b3 ^ d3


def _compress_lanes(typing: Any, words: Any, sizes: Any, start: Any, out: Any) -> Any:
    """The first two state words of LANES one-block messages at once: out (2, LANES).

    words (16, LANES), zero-padded; sizes (LANES,) in bytes, at most 128; start (8,), the initial state.
    Written on vectors, since the compiler does not find them in twelve rounds of scalars by itself.
    """
    signature = types.void(words, sizes, start, out)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = ir.VectorType(_I64, LANES)
        base = [
            context.make_array(kind)(context, builder, value).data
            for kind, value in zip(signature.args, args, strict=True)
        ]

        def constant(value: int) -> Any:
            return ir.Constant(vector, [value] * LANES)

        def turn(value: Any, by: int) -> Any:
            return builder.or_(builder.lshr(value, constant(by)), builder.shl(value, constant(64 - by)))

        def slot(pointer: Any, row: int) -> Any:
            place = builder.gep(pointer, [ir.Constant(_I64, row * LANES)])
            return builder.bitcast(place, vector.as_pointer())

        def load(pointer: Any, row: int) -> Any:
            return builder.load(slot(pointer, row), align=8)

        def splat(row: int) -> Any:
            word = builder.load(builder.gep(base[2], [ir.Constant(_I64, row)]))
            single = builder.insert_element(
                ir.Constant(vector, ir.Undefined), word, ir.Constant(ir.IntType(32), 0)
            )
            pick = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
            return builder.shuffle_vector(single, ir.Constant(vector, ir.Undefined), pick)

        message = [load(base[0], row) for row in range(16)]
        before = [splat(row) for row in range(8)]
        v = before + [constant(int(word)) for word in IV]
        v[12] = builder.xor(v[12], load(base[1], 0))
        v[14] = builder.xor(v[14], constant(2**64 - 1))
        for rounds in range(12):
            s = SIGMA[rounds % 10].tolist()
            for i in range(8):
                # Four columns, then four diagonals.
                a, b, c, d = i % 4, 4 + i % 4, 8 + i % 4, 12 + i % 4
                if i >= 4:
                    b, c, d = 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4
                for word, by_d, by_b in ((s[2 * i], 32, 24), (s[2 * i + 1], 16, 63)):
                    v[a] = builder.add(builder.add(v[a], v[b]), message[word])
                    v[d] = turn(builder.xor(v[d], v[a]), by_d)
                    v[c] = builder.add(v[c], v[d])
                    v[b] = turn(builder.xor(v[b], v[c]), by_b)
        for row in range(2):
            after = builder.xor(before[row], builder.xor(v[row], v[8 + row]))
            builder.store(after, slot(base[3], row), align=8)
        return context.get_dummy_value()

    return signature, codegen


compress_lanes: Any = intrinsic(_compress_lanes)


@compiled(inline="always")
def _word(data: Any, at: Any) -> Any:
    # One load: the compiler sees through the eight.
    low = U(data[at]) | U(data[at + 1]) << U(8) | U(data[at + 2]) << U(16) | U(data[at + 3]) << U(24)
    high = U(data[at + 4]) | U(data[at + 5]) << U(8) | U(data[at + 6]) << U(16) | U(data[at + 7]) << U(24)
    return low | high << U(32)


@compiled()
def blake2b_128_short(data: Any, ends: Any, start: Any) -> Any:
    """Digests as of `blake2b_128`, for messages of at most 128 bytes each, LANES at a time."""
    out = np.empty((ends.size, 2), np.uint64)
    words, sizes = np.zeros((16, LANES), np.uint64), np.zeros(LANES, np.uint64)
    digests = np.empty((2, LANES), np.uint64)
    begin = np.int64(0)
    for first in range(0, ends.size, LANES):
        count = min(LANES, ends.size - first)
        for lane in range(count):
            size = ends[first + lane] - begin
            full = size // 8
            for j in range(full):
                words[j, lane] = _word(data, begin + 8 * j)
            # Words up to where the message before in this lane ended; the rest is zero already.
            for j in range(full, (np.int64(sizes[lane]) + 7) // 8):
                words[j, lane] = ZERO
            if size % 8:
                word = ZERO
                for j in range(8 * full, size):
                    word |= U(data[begin + j]) << U(8 * (j % 8))
                words[full, lane] = word
            sizes[lane] = U(size)
            begin += size
        compress_lanes(words, sizes, start, digests)
        for lane in range(count):
            out[first + lane, 0], out[first + lane, 1] = digests[0, lane], digests[1, lane]
    return out


@compiled()
def blake2b_128(data: Any, ends: Any, start: Any) -> Any:
    """16-byte BLAKE2b digests (N, 2) of N messages laid end to end in `data` (uint8), the i-th up to ends[i].

    start: the eight words of the initial state, which carry the parameters.  Messages below 2**63 bytes.
    """
    out = np.empty((ends.size, 2), np.uint64)
    h, block = np.empty(8, np.uint64), np.empty(16, np.uint64)
    begin = np.int64(0)
    for i in range(ends.size):
        size = ends[i] - begin
        for j in range(8):
            h[j] = start[j]
        done = np.int64(0)
        last = False
        while not last:
            here = min(size - done, 128)
            for j in range(16):
                block[j] = ZERO
            for j in range(here):
                word = U(data[begin + done + j]) << U(8 * (j % 8))
                block[j // 8] |= word
            done += here
            last = done == size
            _compress(h, block, done, last)
        out[i, 0], out[i, 1] = h[0], h[1]
        begin = ends[i]
    return out
