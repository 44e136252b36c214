"""Register-blocked kernels modulo p = 2^30 - c, written once as LLVM vectors through numba.

A panel is a few rows of one operand against up to four weights of the other, with every sum in a
vector register.  Three facts make it exact, whatever the order of the additions:

- Operands are centered, |x| <= (p - 1)/2 < 2^29, so a product is below 2^58 and 31 of them plus a
  folded carry stay below 2^63.
- 2^32 = 4c (mod p), so a -> (a mod 2^32) + 4c * (a >> 32) shrinks any int64 to below 2^45 without
  changing it modulo p ("folding").  It needs only a 32 x 32 -> 64 bit product.
- At the end a Montgomery step divides by 2^32 modulo p: q = a / p mod 2^32 makes a - q p a
  multiple of 2^32.  The weights are multiplied by 2^32 = 4c beforehand, so the division restores
  the plain sum.

Two neighboring int32 rows share a 64-bit word.  The multiply reads the low half of each word, so
one load and one shift feed two products and nothing is ever widened.

Every public function takes arrays it trusts; c is below 2^12.  Results are canonical residues and
therefore equal on every processor.  Which panel is compiled depends on the processor numba
compiles for, see VECTOR_BITS; where it is 0 use the portable loops of `field.kernels.scalar` instead.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from field.kernels.compiling import compiled

TILE = 48  # rows of one tile
GROUP = 4  # centers (or output rows) of one group of weights

_I32 = ir.IntType(32)
_I64 = ir.IntType(64)


def _vector_bits() -> int:
    """Width in bits of the vector registers that numba compiles for.

    512 with AVX-512 (panels of 48 rows x 4 weights in 32 registers), 256 with AVX2 (24 rows x 2 in
    16 registers), and 0 elsewhere: without a signed 32 x 32 -> 64 bit vector product on whole words
    the panels gain nothing over loops the compiler vectorizes by itself.
    """
    features = cpu_target.target_context.codegen().magic_tuple()[2].split(",")
    if "+avx512f" in features and "+avx512dq" in features:
        return 512
    return 256 if "+avx2" in features else 0


VECTOR_BITS = _vector_bits()

_LANES = (VECTOR_BITS or 128) // 64  # words in a register
_WORDS = 3  # registers of row pairs in a panel
_ROWS = 2 * _WORDS * _LANES  # rows of a panel; divides TILE


_intrinsic: Any = intrinsic  # numba declares no types for it


# --- LLVM building blocks --------------------------------------------------------------------


def _int(value: Any) -> Any:
    return ir.Constant(_I64, value)


def _words(value: Any, lanes: Any) -> Any:
    return ir.Constant(ir.VectorType(_I64, lanes), [value] * lanes)


def _splat(b: Any, value: Any, lanes: Any) -> Any:
    empty = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    first = b.insert_element(empty, value, ir.Constant(_I32, 0))
    return b.shuffle_vector(first, empty, ir.Constant(ir.VectorType(_I32, lanes), [0] * lanes))


def _splat_half(b: Any, value32: Any, lanes: Any) -> Any:
    """An int32 in every half of every word: one broadcasting load, ready for a product."""
    return _low(b, b.bitcast(_splat(b, value32, 2 * lanes), ir.VectorType(_I64, lanes)))


def _low(b: Any, v: Any) -> Any:
    """The low half of every word, sign-extended.  The product ignores high halves: it is free."""
    shift = _words(32, v.type.count)
    return b.ashr(b.shl(v, shift), shift)


def _high(b: Any, v: Any) -> Any:
    """The high half of every word, sign-extended."""
    return b.ashr(v, _words(32, v.type.count))


def _at(b: Any, pointer: Any, offset: Any, target: Any) -> Any:
    return b.bitcast(b.gep(pointer, [offset]), ir.PointerType(target))


def _smaller(b: Any, x: Any, y: Any) -> Any:
    return b.select(b.icmp_unsigned("<", x, y), x, y)


def _fold(b: Any, a: Any, four_c: Any) -> Any:
    # |a| < 2^63, so the high half is below 2^31 and 4c times it below 2^45 for c < 2^12.
    rest = b.and_(a, _words((1 << 32) - 1, a.type.count))
    return b.add(rest, b.mul(_high(b, a), four_c))


def _divide(b: Any, a: Any, p: Any, inverse: Any) -> Any:
    """A word whose high half t is a / 2^32 mod p and whose low half is zero."""
    # |a| <= 23 * 2^58 + 2^45 and |q p| <= 2^61 = 8 * 2^58, so the difference stays below 2^63 and
    # |t| <= (23/16) 2^30 + p/2 + 2^14 < 2p.
    q = b.mul(_low(b, a), inverse)
    return b.sub(a, b.mul(_low(b, q), p))


def _canonical(b: Any, even: Any, odd: Any, p: Any, inverse: Any) -> Any:
    """Residues in [0, p) of the sums of even rows and of odd rows, back in row order."""
    lanes = even.type.count
    t = b.or_(b.lshr(_divide(b, even, p, inverse), _words(32, lanes)),
              _divide(b, odd, p, inverse))  # fmt: skip
    t = b.bitcast(t, ir.VectorType(_I32, 2 * lanes))
    p = _splat(b, b.trunc(b.extract_element(p, ir.Constant(_I32, 0)), _I32), 2 * lanes)
    # As unsigned numbers negative t are the large ones, so the smaller of t and t + 2p lies in
    # [0, 2p), and then the smaller of t and t - p in [0, p).
    t = _smaller(b, t, b.add(t, b.add(p, p)))
    return _smaller(b, t, b.sub(t, p))


def _panel(weights_across: Any, most: Any) -> Any:
    """An intrinsic that writes one panel of sums.

    panel(x, x_at, x_step, terms, weights, w_at, init, init_at, p, inverse, out, out_at, out_step)
    sets out[out_at + h * out_step + i] = init[init_at + h]
        + sum_f x[x_at + f * x_step + i] * weights[w_at + f * GROUP + h]   mod p
    for h < weights_across and i < _ROWS.  weights and init carry the factor 2^32, and arrays are
    indexed as flat memory.

    At most `most` products are added between two folds: 31 for |x| < 2^29, 15 for |x| < 2^30.  The
    last run has at most 3/4 as many (23 and 11), as _divide requires.
    """
    last = 3 * most // 4
    grid = [(h, v) for h in range(weights_across) for v in range(2 * _WORDS)]
    word = ir.VectorType(_I64, _LANES)
    halves = ir.VectorType(_I32, 2 * _LANES)

    def build(
        b: Any,
        x: Any,
        x_at: Any,
        x_step: Any,
        terms: Any,
        weights: Any,
        w_at: Any,
        init: Any,
        init_at: Any,
        p: Any,
        inverse: Any,
        out: Any,
        out_at: Any,
        out_step: Any,
    ) -> Any:
        inverse = _splat_half(b, b.trunc(inverse, _I32), _LANES)
        four_c = b.shl(b.sub(_int(1 << 30), p), _int(2))
        four_c = _splat_half(b, b.trunc(four_c, _I32), _LANES)
        p = _splat_half(b, b.trunc(p, _I32), _LANES)

        first = {}
        for h in range(weights_across):
            start = b.load(b.gep(init, [b.add(init_at, _int(h))]), align=8)
            start = _splat(b, start, _LANES)
            first.update({(h, v): start for v in range(2 * _WORDS)})

        entry = b.block
        names = ("run", "term", "last", "fold", "end")
        run_block, term_block, last_block, fold_block, end_block = (
            b.append_basic_block(name) for name in names
        )
        b.branch(run_block)

        # A run is what is added between two folds.
        b.position_at_end(run_block)
        left, x_run, w_run = b.phi(_I64), b.phi(_I64), b.phi(_I64)
        carried = {key: b.phi(word) for key in grid}
        short = b.sub(left, _int(1))
        short = b.select(b.icmp_signed("<", short, _int(most)), short, _int(most))
        take = b.select(b.icmp_signed("<=", left, _int(last)), left, short)
        b.branch(term_block)

        b.position_at_end(term_block)
        f, x_now, w_now = b.phi(_I64), b.phi(_I64), b.phi(_I64)
        sums = {key: b.phi(word) for key in grid}
        rows = []
        for v in range(_WORDS):
            place = _at(b, x, b.add(x_now, _int(2 * _LANES * v)), halves)
            pair = b.bitcast(b.load(place, align=4), word)
            rows += [_low(b, pair), _high(b, pair)]
        total = {}
        for h in range(weights_across):
            place = _at(b, weights, b.add(w_now, _int(h)), _I32)
            weight = _splat_half(b, b.load(place, align=4), _LANES)
            for v in range(2 * _WORDS):
                # |sum| <= most * 2^58 + 2^45 < 2^63 (most * 2^59 where |x| < 2^30).
                total[h, v] = b.add(sums[h, v], b.mul(rows[v], weight))
        f_next = b.add(f, _int(1))
        x_next = b.add(x_now, x_step)
        w_next = b.add(w_now, _int(GROUP))
        b.cbranch(b.icmp_signed("<", f_next, take), term_block, last_block)

        b.position_at_end(last_block)
        rest = b.sub(left, take)
        b.cbranch(b.icmp_signed(">", rest, _int(0)), fold_block, end_block)

        b.position_at_end(fold_block)
        folded = {key: _fold(b, total[key], four_c) for key in grid}
        b.branch(run_block)

        for phi, before, after in [
            (left, terms, rest), (x_run, x_at, x_next), (w_run, w_at, w_next),
            *((carried[key], first[key], folded[key]) for key in grid),
        ]:  # fmt: skip
            phi.add_incoming(before, entry)
            phi.add_incoming(after, fold_block)
        for phi, before, after in [
            (f, _int(0), f_next), (x_now, x_run, x_next), (w_now, w_run, w_next),
            *((sums[key], carried[key], total[key]) for key in grid),
        ]:  # fmt: skip
            phi.add_incoming(before, run_block)
            phi.add_incoming(after, term_block)

        b.position_at_end(end_block)
        for h in range(weights_across):
            row = b.add(out_at, b.mul(out_step, _int(h)))
            for v in range(_WORDS):
                residues = _canonical(b, total[h, 2 * v], total[h, 2 * v + 1], p, inverse)
                place = _at(b, out, b.add(row, _int(2 * _LANES * v)), halves)
                b.store(residues, place, align=4)

    @_intrinsic
    def panel(
        typing: Any,
        x: Any,
        x_at: Any,
        x_step: Any,
        terms: Any,
        weights: Any,
        w_at: Any,
        init: Any,
        init_at: Any,
        p: Any,
        inverse: Any,
        out: Any,
        out_at: Any,
        out_step: Any,
    ) -> Any:
        n = types.int64
        signature = types.void(x, n, n, n, weights, n, init, n, n, n, out, n, n)

        def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
            flat = [
                context.make_array(t)(context, b, a).data if isinstance(t, types.Array) else a
                for t, a in zip(signature.args, args, strict=True)
            ]
            build(b, *flat)
            return context.get_dummy_value()

        return signature, codegen

    return panel


# Centered rows, |x| < 2^29, and rows in (-2^30, 2^30), for one to four weights.
_panel1, _panel2, _panel3, _panel4 = (_panel(h, 31) for h in (1, 2, 3, 4))
_loose1, _loose2, _loose3, _loose4 = (_panel(h, 15) for h in (1, 2, 3, 4))


# --- scalars ---------------------------------------------------------------------------------


@compiled()
def _inverse(p: Any) -> Any:
    """1 / p mod 2^32 as a signed number; p is odd."""
    # Newton's iteration doubles the number of correct bits: 3, 6, 12, 24, 48.
    p = np.uint64(p)
    x = p
    for _ in range(4):
        x *= np.uint64(2) - p * x
    return np.int64(np.int32(np.uint32(x & np.uint64(0xFFFFFFFF))))


@compiled()
def _reduce(v: Any, c: Any) -> Any:
    """The centered residue of any int64 v, |v| <= 2^62."""
    # |v >> 30| <= 2^32, so the first fold leaves |v| < 2^45 and the second (-2^27, 2^30 + 2^27).
    mask = np.int64((1 << 30) - 1)
    p = np.int64(1 << 30) - c
    v = (v & mask) + c * (v >> 30)
    v = (v & mask) + c * (v >> 30)
    return v - p if v > p >> 1 else v


@compiled()
def _times_2_32(a: Any, c: Any) -> Any:
    """2^32 a mod p, centered, in the shape of a; entries of a are centered."""
    out = np.empty_like(a)
    source, target = a.reshape(-1), out.reshape(-1)
    for i in range(source.size):
        target[i] = _reduce(4 * c * source[i], c)
    return out


@compiled(inline="always")
def _copy(source: Any, target: Any) -> None:
    """The beginnings of rows.  As one assignment of arrays it compiles for five seconds: what it would say
    of shapes that do not fit takes strings.
    """
    for i in range(target.shape[0]):
        for j in range(target.shape[1]):
            target[i, j] = source[i, j]


# --- distances -------------------------------------------------------------------------------

if VECTOR_BITS == 512:

    @compiled(inline="always")
    def _group(
        x: Any,
        x_at: Any,
        x_step: Any,
        terms: Any,
        weights: Any,
        w_at: Any,
        init: Any,
        h: Any,
        k: Any,
        p: Any,
        inverse: Any,
        out: Any,
        at: Any,
        step: Any,
    ) -> Any:
        left = k - h
        if left >= 4:
            _panel4(x, x_at, x_step, terms, weights, w_at, init, h, p, inverse, out, at, step)
        elif left == 3:
            _panel3(x, x_at, x_step, terms, weights, w_at, init, h, p, inverse, out, at, step)
        elif left == 2:
            _panel2(x, x_at, x_step, terms, weights, w_at, init, h, p, inverse, out, at, step)
        else:
            _panel1(x, x_at, x_step, terms, weights, w_at, init, h, p, inverse, out, at, step)

    @compiled(inline="always")
    def _loose_group(
        x: Any,
        x_at: Any,
        x_step: Any,
        terms: Any,
        weights: Any,
        w_at: Any,
        init: Any,
        h: Any,
        k: Any,
        p: Any,
        inverse: Any,
        out: Any,
        at: Any,
        step: Any,
    ) -> Any:
        left = k - h
        if left >= 4:
            _loose4(x, x_at, x_step, terms, weights, w_at, init, h, p, inverse, out, at, step)
        elif left == 3:
            _loose3(x, x_at, x_step, terms, weights, w_at, init, h, p, inverse, out, at, step)
        elif left == 2:
            _loose2(x, x_at, x_step, terms, weights, w_at, init, h, p, inverse, out, at, step)
        else:
            _loose1(x, x_at, x_step, terms, weights, w_at, init, h, p, inverse, out, at, step)

else:

    @compiled(inline="always")
    def _group(
        x: Any,
        x_at: Any,
        x_step: Any,
        terms: Any,
        weights: Any,
        w_at: Any,
        init: Any,
        h: Any,
        k: Any,
        p: Any,
        inverse: Any,
        out: Any,
        at: Any,
        step: Any,
    ) -> Any:
        for g in range(0, min(GROUP, k - h) - 1, 2):
            _panel2(x, x_at, x_step, terms, weights, w_at + g, init, h + g, p, inverse,
                    out, at + g * step, step)  # fmt: skip
        if (k - h) < GROUP and (k - h) % 2:
            g = k - h - 1
            _panel1(x, x_at, x_step, terms, weights, w_at + g, init, h + g, p, inverse,
                    out, at + g * step, step)  # fmt: skip

    @compiled(inline="always")
    def _loose_group(
        x: Any,
        x_at: Any,
        x_step: Any,
        terms: Any,
        weights: Any,
        w_at: Any,
        init: Any,
        h: Any,
        k: Any,
        p: Any,
        inverse: Any,
        out: Any,
        at: Any,
        step: Any,
    ) -> Any:
        for g in range(0, min(GROUP, k - h) - 1, 2):
            _loose2(x, x_at, x_step, terms, weights, w_at + g, init, h + g, p, inverse,
                    out, at + g * step, step)  # fmt: skip
        if (k - h) < GROUP and (k - h) % 2:
            g = k - h - 1
            _loose1(x, x_at, x_step, terms, weights, w_at + g, init, h + g, p, inverse,
                    out, at + g * step, step)  # fmt: skip


@compiled()
def _one_tile(
    tiles: Any,
    t: Any,
    weights: Any,
    init: Any,
    k: Any,
    p: Any,
    inverse: Any,
    out: Any,
    at: Any,
    step: Any,
) -> Any:
    terms = tiles.shape[1]
    for h in range(0, k, GROUP):
        w_at = h * terms
        for row in range(0, TILE, _ROWS):
            _group(tiles, t * terms * TILE + row, TILE, terms, weights, w_at, init, h, k,
                   p, inverse, out, at + h * step + row, step)  # fmt: skip


@compiled()
def _last_tile(tiles: Any, weights: Any, init: Any, p: Any, inverse: Any, out: Any) -> Any:
    k, m = out.shape
    start = m // TILE * TILE
    if start < m:
        whole = np.empty((k, TILE), np.uint32)
        _one_tile(tiles, m // TILE, weights, init, k, p, inverse, whole, 0, TILE)
        _copy(whole, out[:, start:])


@compiled()
def distance_tiles(tiles: Any, weights: Any, init: Any, c: Any, out: Any) -> Any:
    """out[h, i] = init[h] + sum_f tiles[i // 48, f, i % 48] * weights[h // 4, f, h % 4] mod p.

    tiles    int32 (ceil(m / 48), width + 1, 48), centered; rows from m on are ignored
    weights  int64 (ceil(k / 4), width + 1, 4), centered
    init     int64 (4 ceil(k / 4),), centered
    out      uint32 (k, m), canonical; rows contiguous, any stride between them

    All but out are C-contiguous.
    """
    k, m = out.shape
    p = np.int64(1 << 30) - c
    inverse = _inverse(p)
    weights, init = _times_2_32(weights, c), _times_2_32(init, c)
    step = out.strides[0] // 4
    for t in range(m // TILE):
        _one_tile(tiles, t, weights, init, k, p, inverse, out, t * TILE, step)
    _last_tile(tiles, weights, init, p, inverse, out)


# --- tiles, sums and weights -----------------------------------------------------------------


@_intrinsic
def _prefetch(typing: Any, array: Any, at: Any) -> Any:
    """Ask for the cache line of element `at` of an int32 array, counted in flat memory."""
    signature = types.void(array, types.int64)

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32])
        prefetch = b.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        data = context.make_array(signature.args[0])(context, b, args[0]).data
        read, near, of_data = (ir.Constant(_I32, v) for v in (0, 3, 1))
        b.call(prefetch, [_at(b, data, args[1], ir.IntType(8)), read, near, of_data])
        return context.get_dummy_value()

    return signature, codegen


@compiled()
def add_rows(tiles: Any, rows: Any, start: Any, c: Any) -> Any:
    """Add canonical rows, uint32 (r, width), to global rows start..start + r - 1 of the tiles.

    Entries of the tiles are centered before and after; the norm slot is left alone.
    """
    # |x + y| < 2^29 + 2^30 fits int32, and one subtraction of p centers each step.
    p = np.int32((1 << 30) - c)
    half = np.int32(p >> 1)
    count, width = rows.shape
    # Rows are turned in blocks that stay in the first-level cache, then added along whole vectors.
    block = np.empty((16, TILE), np.int32)
    done = 0
    while done < count:
        tile, lane = (start + done) // TILE, (start + done) % TILE
        n = min(TILE - lane, count - done)
        for first in range(0, width, 16):
            w = min(16, width - first)
            if w == 16:  # a constant length lets the compiler unroll
                for i in range(n):
                    row = rows[done + i, first : first + 16]
                    for f in range(16):
                        block[f, i] = np.int32(row[f])
            else:
                for i in range(n):
                    row = rows[done + i, first : first + w]
                    for f in range(w):
                        block[f, i] = np.int32(row[f])
            for f in range(w):
                target, source = tiles[tile, first + f, lane : lane + n], block[f]
                for i in range(n):
                    v = np.int32(target[i] + source[i])
                    v = np.int32(v - p) if v > half else v
                    target[i] = np.int32(v - p) if v > half else v
        done += n


@compiled()
def fill_norms(tiles: Any, c: Any) -> Any:
    """Set the last slot of every row to the centered sum of squares of the slots before it."""
    n_tiles, terms, _ = tiles.shape
    mask = np.int64((1 << 30) - 1)
    norms = np.empty(TILE, np.int64)
    for t in range(n_tiles):
        norms[:] = 0
        for f in range(terms - 1):
            x = tiles[t, f]
            # x^2 < 2^58, so 31 squares and a carry below 2^46 stay below 2^63.
            for lane in range(TILE):
                norms[lane] += np.int64(x[lane]) * np.int64(x[lane])
            if f % 31 == 30:
                for lane in range(TILE):
                    norms[lane] = (norms[lane] & mask) + c * (norms[lane] >> 30)
        for lane in range(TILE):
            # One fold brings any int64 below 2^46, as _reduce wants.
            v = (norms[lane] & mask) + c * (norms[lane] >> 30)
            tiles[t, terms - 1, lane] = np.int32(_reduce(v, c))


@compiled()
def _move_by_row(tiles: Any, old: Any, new: Any, sums: Any) -> None:
    # sums[h] is exactly the integer sum of the centered members: below 2^29 m <= 2^59, unreduced.
    m = old.size
    width = sums.shape[1]
    terms = width + 1
    row = np.empty(width, np.int64)
    i = 0
    while i < m and old[i] == new[i]:
        i += 1
    while i < m:
        # Rows are strided through the tiles; the next one is fetched while this one is added.
        ahead = i + 1
        while ahead < m and old[ahead] == new[ahead]:
            ahead += 1
        tile, lane = tiles[i // TILE], i % TILE
        if ahead // TILE == i // TILE or ahead == m:
            for f in range(width):
                row[f] = tile[f, lane]
        else:
            at = ahead // TILE * terms * TILE + ahead % TILE
            for f in range(width):
                row[f] = tile[f, lane]
                _prefetch(tiles, at + f * TILE)
        if new[i] >= 0:
            s = sums[new[i]]
            for f in range(width):
                s[f] += row[f]
        if old[i] >= 0:
            s = sums[old[i]]
            for f in range(width):
                s[f] -= row[f]
        i = ahead


@compiled()
def _move_by_tile(tiles: Any, old: Any, new: Any, sums: Any) -> None:
    # As in _move_by_row, each entry is an exact sum of fewer than 2^30 values below 2^29.
    k, width = sums.shape
    lanes = np.empty(TILE, np.int64)
    # Features by clusters, so that all moved rows of a tile are read in one pass over its features.
    delta = np.zeros((width, k), np.int64)
    for t in range(tiles.shape[0]):
        first = t * TILE
        count = 0
        for lane in range(min(TILE, old.size - first)):
            lanes[count] = lane
            count += old[first + lane] != new[first + lane]
        for f in range(width if count else 0):
            x, row = tiles[t, f], delta[f]
            for i in range(count):
                v = np.int64(x[lanes[i]])
                a, b = old[first + lanes[i]], new[first + lanes[i]]
                if a >= 0:
                    row[a] -= v
                if b >= 0:
                    row[b] += v
    for h in range(k):
        for f in range(width):
            sums[h, f] += delta[f, h]


def update_sums(tiles: Any, old: Any, new: Any, sums: Any) -> int:
    """Move rows between clusters: add to sums[new[i]], take from sums[old[i]] where they differ.

    tiles int32 (n_tiles, width + 1, 48); old and new int32 (m,), -1 for no cluster; sums int64
    (k, width), changed in place.  With old all -1 and sums zero this is the full sum.  Returns the
    number of rows moved.

    Tiles beyond the caches of which a few rows in a hundred moved are walked tile by tile, which reads
    each cache line once; everything else row by row.  The rule is measured; results are the same.
    """
    moved = int(np.count_nonzero(old != new))
    by_tile = tiles.nbytes > 1 << 26 and 3 * old.size < 100 * moved < 20 * old.size
    (_move_by_tile if by_tile else _move_by_row)(tiles, old, new, sums)
    return moved


@compiled()
def fill_weights(sums: Any, sizes: Any, c: Any, weights: Any, init: Any) -> Any:
    """Weights with which distance_tiles yields s_h^2 |x - S_h / s_h|^2 mod p.

    sums     int64 (k, width), any representatives with |sum| <= 2^62
    sizes    int64 (k,), s_h < 2^30
    weights  int64 (ceil(k / 4), width + 1, 4) result: -2 s_h S_hf, then s_h^2 in the last slot
    init     int64 (4 ceil(k / 4),) result: |S_h|^2

    Results are centered; groups are padded with zeros.
    """
    k, width = sums.shape
    mask = np.int64((1 << 30) - 1)
    weights[:] = 0
    init[:] = 0
    for h in range(k):
        g, lane = h // GROUP, h % GROUP
        twice = _reduce(-2 * sizes[h], c)
        square = np.int64(0)
        for f in range(width):
            s = _reduce(sums[h, f], c)
            # Products are below 2^58; the running square is folded back below 2^41 every time.
            weights[g, f, lane] = _reduce(twice * s, c)
            square += s * s
            square = (square & mask) + c * (square >> 30)
        size = _reduce(sizes[h], c)
        weights[g, width, lane] = _reduce(size * size, c)
        init[h] = _reduce(square, c)


# --- matrix products by columns --------------------------------------------------------------


@compiled()
def _columns(
    x: Any,
    x_at: Any,
    x_step: Any,
    terms: Any,
    weights: Any,
    init: Any,
    k: Any,
    p: Any,
    inverse: Any,
    out: Any,
    at: Any,
    step: Any,
) -> Any:
    for h in range(0, k, GROUP):
        _loose_group(x, x_at, x_step, terms, weights, h * terms, init, h, k,
                     p, inverse, out, at + h * step, step)  # fmt: skip


@compiled()
def _last_columns(weights: Any, x: Any, init: Any, p: Any, inverse: Any, out: Any) -> Any:
    terms, n = x.shape
    k = out.shape[0]
    if n >= _ROWS:
        # The last panel may overlap the one before; it writes the same numbers again.
        _columns(x, n - _ROWS, x.strides[0] // 4, terms, weights, init, k, p, inverse,
                 out, n - _ROWS, out.strides[0] // 4)  # fmt: skip
    else:
        whole = np.zeros((terms, _ROWS), x.dtype)
        _copy(x, whole[:, :n])
        result = np.empty((k, _ROWS), np.uint32)
        _columns(whole, 0, _ROWS, terms, weights, init, k, p, inverse, result, 0, _ROWS)
        _copy(result, out)


@compiled()
def matmul_columns(weights: Any, x: Any, c: Any, out: Any) -> Any:
    """out = W x mod p, where W[j, u] = weights[j // 4, u, j % 4].

    weights  int64 (ceil(n / 4), K, 4), centered, C-contiguous
    x        int32 or uint32 (K, N) with |x| < 2^30: centered and canonical residues both will do
    out      uint32 (n, N), canonical

    Rows of x and out are contiguous, with any stride between them.  Fastest when x and out fit in
    the L2 cache together: pass a few thousand columns at a time.
    """
    terms, n = x.shape
    k = out.shape[0]
    p = np.int64(1 << 30) - c
    inverse = _inverse(p)
    weights = _times_2_32(weights, c)
    init = np.zeros(GROUP * weights.shape[0], np.int64)
    x_step, step = x.strides[0] // 4, out.strides[0] // 4
    for i in range(n // _ROWS):
        at = i * _ROWS
        _columns(x, at, x_step, terms, weights, init, k, p, inverse, out, at, step)
    if n % _ROWS:
        _last_columns(weights, x, init, p, inverse, out)


# --------------------------------------------------------------------------------------------------
# Sums of rows by secret weights modulo p = 2^30 - c, from tiles as they lie.
#
# The other product of tiles than the distances of `field.kernels.microkernel`: it runs along points, so both
# operands are read as vectors of points, and every sum is a register until a few hundred points are added.
# Exact for the same reasons: operands are centered, products below 2^58, and at most 30 of them and a folded
# carry stay below 2^63.

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
