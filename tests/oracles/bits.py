"""Planes of integers in blocks, as kernels take them, from arrays that tests can read."""

from __future__ import annotations

import numpy as np

from field.compare.bitslice import WORD, block_shape, word_count
from field.kernels import comparing
from field.ring.basis import Basis

Array = np.ndarray


def to_blocks(planes: Array) -> Array:
    """Planes (rows, words) as blocks (blocks, rows, width), zero beyond the last word."""
    count, width = block_shape(planes.shape[1])
    padded = np.zeros((len(planes), count * width), np.uint64)
    padded[:, : planes.shape[1]] = planes
    return np.ascontiguousarray(padded.reshape(len(planes), count, width).transpose(1, 0, 2))


def from_blocks(sliced: Array, count: int) -> Array:
    """Blocks (blocks, rows, width) as planes (rows, count), without the padding."""
    rows = sliced.shape[1]
    return np.ascontiguousarray(sliced.transpose(1, 0, 2).reshape(rows, -1)[:, :count])


def planes_of_residues(basis: Basis, residues: Array) -> Array:
    """Binary digits of the integers in [0, modulus) with residues (lanes, count) of a folded basis.

    (blocks, 30 * lanes, width) uint64, row b the bits of weight 2**b: the Chinese remainder theorem and a
    transposition in one pass.  Beyond the count the integers are 0.
    """
    count = residues.shape[1]
    number, width = block_shape(word_count(count))
    out = np.zeros((number, 30 * basis.lanes, width), np.uint64)
    padded = np.zeros((basis.lanes, number * width * WORD), np.uint32)
    padded[:, :count] = residues
    comparing.slice_integers(padded, 0, *comparing.garner(basis.primes), out)
    return out
