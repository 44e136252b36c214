"""Bit-sliced integers: 64 of them a word, one plane for every binary digit.

Bit j of word w of plane b is bit b of the integer with number 64 w + j, so one machine instruction on
planes works on 64 integers at once.  Planes are kept in blocks (blocks, rows, width): the rows of a block
lie together, so that a kernel which reads hundreds of rows stays within the processor's cache.

Plain arrays without a type of their own: planes are shares, masks or public, and who holds them knows.
"""

from __future__ import annotations

import numpy as np

from field.arrays import Array

WORD = 64
# Words of a row in a block: a few vector registers, and a block of 600 rows is 150 kB.
WIDTH = 32


def word_count(count: int) -> int:
    """Words that hold one bit of each of `count` integers."""
    return -(-count // WORD)


def block_shape(count: int) -> tuple[int, int]:
    """(blocks, width) of the layout that holds rows of `count` words: below WIDTH words one block."""
    width = max(1, min(count, WIDTH))
    return -(-count // width), width


def pack_bits(bits: Array) -> Array:
    """Words of bits (..., count) of 0 and 1: (..., words(count)) uint64, zero beyond the count."""
    count = bits.shape[-1]
    padded = np.zeros((*bits.shape[:-1], word_count(count) * WORD), np.uint8)
    padded[..., :count] = bits
    return np.packbits(padded, axis=-1, bitorder="little").view("<u8").astype(np.uint64, copy=False)


def unpack_bits(planes: Array, count: int) -> Array:
    """Bits of words (..., words(count)) uint64: (..., count) uint8 of 0 and 1."""
    octets = np.ascontiguousarray(planes.astype("<u8", copy=False)).view(np.uint8)
    return np.unpackbits(octets, axis=-1, count=count, bitorder="little")


def from_planes(planes: Array, count: int) -> Array:
    """The integers with these binary digits, least significant plane first: (count,) int32."""
    from field.kernels.comparing import join_planes

    total = np.zeros(count, np.int32)
    join_planes(np.require(planes, requirements=["C", "W"]), total)
    return total
