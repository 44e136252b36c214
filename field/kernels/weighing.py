"""Sums of rows by secret weights modulo p = 2^30 - c, from tiles as they lie.

The other product of tiles than the distances of `field.kernels.microkernel`: it runs along points, so both
operands are read as vectors of points, and every sum is a register until a few hundred points are added.
Exact for the same reasons: operands are centered, products below 2^58, and at most 30 of them and a folded
carry stay below 2^63.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from field.kernels.compiling import compiled
from field.kernels.microkernel import (
    _I32,
    _I64,
    _LANES,
    TILE,
    VECTOR_BITS,
    _at,
    _fold,
    _high,
    _int,
    _low,
    _reduce,
    _splat_half,
)

# Rows of either operand that meet in registers: 16 sums and 12 factors of 32 registers, or 4 and 6 of 16.
ACROSS = 4 if VECTOR_BITS == 512 else 2
# Tiles between two folds: a register takes 48 / (2 * _LANES) * 2 products a tile.
_VECTORS = TILE // (2 * _LANES)
_TILES = 30 // (2 * _VECTORS)
# Bytes of weights that stay in the second cache while tiles pass.
_CACHED = 1 << 17


def _build(
    b: Any, x: Any, x_at: Any, x_step: Any, y: Any, y_at: Any, y_step: Any, count: Any, c: Any, out: Any
) -> None:
    word, halves = ir.VectorType(_I64, _LANES), ir.VectorType(_I32, 2 * _LANES)
    four_c = _splat_half(b, b.trunc(b.shl(c, _int(2)), _I32), _LANES)
    grid = [(h, w) for h in range(ACROSS) for w in range(ACROSS)]
    zero = ir.Constant(word, [0] * _LANES)
    entry = b.block
    run, tile, ran, fold, end = (b.append_basic_block(n) for n in ("run", "tile", "ran", "fold", "end"))
    b.branch(run)

    b.position_at_end(run)
    left, x_run, y_run = b.phi(_I64), b.phi(_I64), b.phi(_I64)
    carried = {key: b.phi(word) for key in grid}
    take = b.select(b.icmp_signed("<", left, _int(_TILES)), left, _int(_TILES))
    b.branch(tile)

    b.position_at_end(tile)
    t, x_now, y_now = b.phi(_I64), b.phi(_I64), b.phi(_I64)
    sums = {key: b.phi(word) for key in grid}
    total = dict(sums)

    def pairs(source: Any, begin: Any, v: int) -> list[tuple[Any, Any]]:
        found = []
        for row in range(ACROSS):
            place = _at(b, source, b.add(begin, _int(row * TILE + 2 * _LANES * v)), halves)
            both = b.bitcast(b.load(place, align=4), word)
            found.append((_low(b, both), _high(b, both)))
        return found

    for v in range(_VECTORS):
        rows, weights = pairs(x, x_now, v), pairs(y, y_now, v)
        for h, w in grid:
            for half in (0, 1):
                # |sum| <= 30 * 2^58 + 2^45 < 2^63.
                total[h, w] = b.add(total[h, w], b.mul(rows[w][half], weights[h][half]))
    t_next, x_next, y_next = b.add(t, _int(1)), b.add(x_now, x_step), b.add(y_now, y_step)
    b.cbranch(b.icmp_signed("<", t_next, take), tile, ran)

    b.position_at_end(ran)
    folded = {key: _fold(b, total[key], four_c) for key in grid}
    rest = b.sub(left, take)
    b.cbranch(b.icmp_signed(">", rest, _int(0)), fold, end)
    b.position_at_end(fold)
    b.branch(run)

    for phi, before, after in [
        (left, count, rest), (x_run, x_at, x_next), (y_run, y_at, y_next),
        *((carried[key], zero, folded[key]) for key in grid),
    ]:  # fmt: skip
        phi.add_incoming(before, entry)
        phi.add_incoming(after, fold)
    for phi, before, after in [
        (t, _int(0), t_next), (x_now, x_run, x_next), (y_now, y_run, y_next),
        *((sums[key], carried[key], total[key]) for key in grid),
    ]:  # fmt: skip
        phi.add_incoming(before, run)
        phi.add_incoming(after, tile)

    b.position_at_end(end)
    for h, w in grid:
        value, size = folded[h, w], _LANES
        while size > 1:
            size //= 2
            order = ir.Constant(ir.VectorType(_I32, _LANES), [(i + size) % _LANES for i in range(_LANES)])
            value = b.add(value, b.shuffle_vector(value, value, order))
        first = b.extract_element(value, ir.Constant(_I32, 0))
        b.store(first, b.gep(out, [_int(h * ACROSS + w)]), align=8)


def _products(
    typing: Any, x: Any, x_at: Any, x_step: Any, y: Any, y_at: Any, y_step: Any, count: Any, c: Any, out: Any
) -> Any:
    """out[h * ACROSS + w] = a number of the residue of the sum of products of ACROSS rows of either.

    Over `count` tiles of x and y, flat, whose first words are x_at and y_at.  |out| < 2^48.
    """
    n = types.int64
    signature = types.void(x, n, n, y, n, n, n, n, out)

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        flat = [
            context.make_array(t)(context, b, a).data if isinstance(t, types.Array) else a
            for t, a in zip(signature.args, args, strict=True)
        ]
        _build(b, *flat)
        return context.get_dummy_value()

    return signature, codegen


_block: Any = intrinsic(_products)  # numba declares no types for it


@compiled()
def tile_weights(weights: Any, p: Any, first: Any, out: Any) -> None:
    """Canonical residues (k, m) uint32 of the points of tiles from number `first` on, centered, as tiles.

    out: (tiles, rows, 48) int32 of zeros, rows >= k.
    """
    k, m = weights.shape
    half = p >> 1
    for t in range(out.shape[0]):
        begin = (first + t) * TILE
        for h in range(k):
            for i in range(min(TILE, m - begin)):
                value = np.int64(weights[h, begin + i])
                out[t, h, i] = value - p if value > half else value


@compiled()
def weigh_tiles(tiles: Any, weights: Any, c: Any, sums: Any) -> None:
    """sums[h, f] = sums[h, f] + sum_i weights[i // 48, h, i % 48] tiles[i // 48, f, i % 48] mod p, centered.

    tiles    int32 (n_tiles, width + 1, 48), centered, width + 1 >= ACROSS
    weights  int32 (n_tiles, rows, 48), centered, rows a multiple of ACROSS
    sums     int64 (rows, width), centered
    """
    count, terms = tiles.shape[0], tiles.shape[1]
    rows, width = sums.shape
    out = np.empty(ACROSS * ACROSS, np.int64)
    size = max(_TILES, _CACHED // (4 * TILE * rows))
    for begin in range(0, count, size):
        n = min(size, count - begin)
        for f in range(0, width, ACROSS):
            # The last rows may overlap those before, of which the sums are done.
            at = min(f, terms - ACROSS)
            for h in range(0, rows, ACROSS):
                _block(tiles, (begin * terms + at) * TILE, terms * TILE,
                       weights, (begin * rows + h) * TILE, rows * TILE, n, c, out)  # fmt: skip
                for i in range(ACROSS):
                    for j in range(f, min(at + ACROSS, width)):
                        sums[h + i, j] = _reduce(sums[h + i, j] + out[i * ACROSS + j - at], c)
