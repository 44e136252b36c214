"""Arithmetic over 30-bit lanes p = 2**30 - c: which compiled path runs, and how arrays reach it.

Two paths give the same bits.  The register-blocked one needs AVX2 or AVX-512 and is declared available
by `microkernel.VECTOR_BITS`; everywhere else, and when the environment variable SECFC_KERNELS is
"portable", plain loops run that the compiler vectorizes by itself.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from field.arrays import Array
from field.kernels import LANE_BITS, microkernel
from field.kernels import scalar as kernels


def vectorized() -> bool:
    """Whether the register-blocked path runs."""
    return microkernel.VECTOR_BITS > 0 and os.environ.get("SECFC_KERNELS") != "portable"


def group_rows(matrix: Array, p: int | Array) -> Array:
    """Canonical residues (..., rows, q), centered, in groups of four rows: (..., ceil(rows/4), q, 4) int64.

    p: the prime, or those of all lanes in a shape that broadcasts: small matrices are grouped in one go.
    """
    *lanes, rows, q = matrix.shape
    groups = -(-rows // kernels.GROUP)
    padded = np.zeros((*lanes, groups * kernels.GROUP, q), np.int64)
    padded[..., :rows, :] = kernels.centered(matrix, p)
    return np.ascontiguousarray(padded.reshape(*lanes, groups, kernels.GROUP, q).swapaxes(-1, -2))


def matmul(matrix: Array, columns: Array, primes: Sequence[int]) -> Array:
    """(lanes, r, q) times (lanes, q, N) modulo each prime: (lanes, r, N) uint32, canonical."""
    if not vectorized():
        return kernels.folded_matmul(matrix, columns, primes)
    out = np.empty((len(primes), matrix.shape[1], columns.shape[2]), np.uint32)
    weights = group_rows(matrix, np.array(primes, np.int64)[:, None, None])
    for lane, p in enumerate(primes):
        # Columns are read by address: a transposed view would be read as something else.
        part = np.ascontiguousarray(columns[lane])
        microkernel.matmul_columns(weights[lane], part, np.int64((1 << LANE_BITS) - p), out[lane])
    return out


def center_weights(sums: Array, sizes: Array, slots: int, p: int) -> tuple[Array, Array]:
    """What `distances` multiplies rows with, and starts from: see `microkernel.fill_weights`."""
    groups = -(-len(sizes) // kernels.GROUP)
    weights = np.empty((groups, slots, kernels.GROUP), np.int64)
    initial = np.empty(groups * kernels.GROUP, np.int64)
    microkernel.fill_weights(sums, sizes, np.int64((1 << LANE_BITS) - p), weights, initial)
    return weights, initial


def distances(tiles: Array, weights: Array, initial: Array, p: int, out: Array) -> None:
    """Scaled distances of tiled rows to the centers of one lane, into out (k, rows) uint32."""
    c = np.int64((1 << LANE_BITS) - p)
    if vectorized():
        microkernel.distance_tiles(tiles, weights, initial, c, out)
    else:
        kernels.distance_tiles(tiles, weights, initial, c, np.int64(p), out)


def weighted_sums(tiles: Array, first: int, weights: Array, p: int, out: Array) -> None:
    """Sums of the tiled rows of one lane times weights, into out (k, width) int64, centered.

    tiles: those from number `first` on.  weights: (k, m) canonical residues, of all rows.  If `vectorized`.
    """
    k, rows = len(weights), -(-len(weights) // microkernel.DOWN) * microkernel.DOWN
    tiled = np.zeros((len(tiles), rows, microkernel.TILE), np.int32)
    microkernel.tile_weights(weights, np.int64(p), first, tiled)
    sums = np.zeros((rows, out.shape[1]), np.int64)
    microkernel.weigh_tiles(tiles, tiled, np.int64((1 << LANE_BITS) - p), sums)
    out[:] = sums[:k]
