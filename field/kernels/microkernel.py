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
from numba.core import cgutils as _untyped
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


_intrinsic: Any = intrinsic  # numba declares no types for these
cgutils: Any = _untyped


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


_EDGE = 8  # rows and columns of a square that is turned in registers


def _interleave(b: Any, rows: list[Any], width: int) -> list[Any]:
    """Rows of which every two neighbors among groups of `width` have exchanged halves, in pieces as wide."""
    low = [h * _EDGE + i + j for i in range(0, _EDGE, 2 * width) for h in (0, 1) for j in range(width)]
    found = list(rows)
    for first in range(0, _EDGE, 2 * width):
        for i in range(first, first + width):
            for to, places in ((i, low), (i + width, [place + width for place in low])):
                order = ir.Constant(ir.VectorType(_I32, _EDGE), places)
                found[to] = b.shuffle_vector(rows[i], rows[i + width], order)
    return found


@_intrinsic
def _turn(typing: Any, source: Any, source_step: Any, target: Any, target_step: Any, p: Any, to: Any) -> Any:
    """Turn 8 x 8 int32 words, by address, from rows of one step in words to rows of another.

    to: a literal, 0 to copy words, 1 where centered ones become canonical, 2 to add canonical ones to
    centered ones of the target, which stay centered.
    """
    n = types.int64
    if not isinstance(to, types.IntegerLiteral):
        return None
    way = to.literal_value

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        source, source_step, target, target_step, p, _ = args
        vector = ir.VectorType(_I32, _EDGE)
        prime, zero = _splat(b, b.trunc(p, _I32), _EDGE), ir.Constant(vector, [0] * _EDGE)
        half = b.ashr(prime, ir.Constant(vector, [1] * _EDGE))

        def place(base: Any, step: Any, row: int) -> Any:
            at = b.add(base, b.mul(_int(4), b.mul(_int(row), step)))
            return b.inttoptr(at, vector.as_pointer())

        rows = [b.load(place(source, source_step, r), align=4) for r in range(_EDGE)]
        for width in (1, 2, 4):
            rows = _interleave(b, rows, width)
        for r, row in enumerate(rows):
            at = place(target, target_step, r)
            if way == 1:
                row = b.select(b.icmp_signed("<", row, zero), b.add(row, prime), row)
            if way == 2:
                row = b.add(row, b.load(at, align=4))
                for _ in range(2):
                    row = b.select(b.icmp_signed(">", row, half), b.sub(row, prime), row)
            b.store(row, at, align=4)
        return context.get_dummy_value()

    return types.void(n, n, n, n, n, to), codegen


@compiled()
def add_rows(tiles: Any, rows: Any, start: Any, c: Any) -> Any:
    """Add canonical rows, uint32 (r, width), to global rows start..start + r - 1 of the tiles.

    Entries of the tiles are centered before and after; the norm slot is left alone.
    """
    # |x + y| < 2^29 + 2^30 fits int32, and one subtraction of p centers each step.
    p = np.int32((1 << 30) - c)
    half = np.int32(p >> 1)
    count, width = rows.shape
    terms = tiles.shape[1]
    done = 0
    while done < count:
        tile, lane = (start + done) // TILE, (start + done) % TILE
        n = min(TILE - lane, count - done)
        wide, high = width // _EDGE * _EDGE, n // _EDGE * _EDGE
        for f in range(0, wide, _EDGE):
            for i in range(0, high, _EDGE):
                _turn(rows.ctypes.data + 4 * ((done + i) * width + f), width,
                      tiles.ctypes.data + 4 * ((tile * terms + f) * TILE + lane + i), TILE,
                      np.int64(p), 2)  # fmt: skip
        for i in range(n):
            for f in range(wide if i < high else 0, width):
                v = np.int32(tiles[tile, f, lane + i] + np.int32(rows[done + i, f]))
                v = np.int32(v - p) if v > half else v
                tiles[tile, f, lane + i] = np.int32(v - p) if v > half else v
        done += n


@compiled()
def read_rows(tiles: Any, start: Any, c: Any, rows: Any) -> None:
    """Copy global rows from `start` on of the tiles to canonical ones, uint32 (r, width), contiguous."""
    p = np.int32((1 << 30) - c)
    count, width = rows.shape
    terms = tiles.shape[1]
    done = 0
    while done < count:
        tile, lane = (start + done) // TILE, (start + done) % TILE
        n = min(TILE - lane, count - done)
        wide, high = width // _EDGE * _EDGE, n // _EDGE * _EDGE
        for i in range(0, high, _EDGE):
            for f in range(0, wide, _EDGE):
                _turn(tiles.ctypes.data + 4 * ((tile * terms + f) * TILE + lane + i), TILE,
                      rows.ctypes.data + 4 * ((done + i) * width + f), width,
                      np.int64(p), 1)  # fmt: skip
        for i in range(n):
            for f in range(wide if i < high else 0, width):
                v = tiles[tile, f, lane + i]
                rows[done + i, f] = np.uint32(v + p if v < 0 else v)
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
def select_rows(tiles: Any, rows: Any, out: Any) -> None:
    """Put these rows (c,) of tiles, with all that the tiles hold of each, into the slots of other ones."""
    tile, slot = np.empty(TILE, np.int64), np.empty(TILE, np.int64)
    for t in range(out.shape[0]):
        n = min(TILE, rows.size - t * TILE)
        for i in range(n):
            tile[i], slot[i] = rows[t * TILE + i] // TILE, rows[t * TILE + i] % TILE
        for f in range(tiles.shape[1]):
            for i in range(n):
                out[t, f, i] = tiles[tile[i], f, slot[i]]


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


@_intrinsic
def _add_words(typing: Any, source: Any, target: Any, count: Any, sign: Any) -> Any:
    """Add int32 words to int64 ones, by address, or take them off where `sign` is a literal -1."""
    n = types.int64
    if not isinstance(sign, types.IntegerLiteral):
        return None
    change = ir.IRBuilder.add if sign.literal_value > 0 else ir.IRBuilder.sub

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        source, target, count, _ = args
        wide = b.and_(count, _int(-_EDGE))

        def move(i: Any, step: int) -> None:
            narrow, word = (ir.VectorType(of, step) for of in (_I32, _I64))
            words = b.load(b.inttoptr(b.add(source, b.mul(i, _int(4))), narrow.as_pointer()), align=4)
            at = b.inttoptr(b.add(target, b.mul(i, _int(8))), word.as_pointer())
            b.store(change(b, b.load(at, align=8), b.sext(words, word)), at, align=8)

        with cgutils.for_range_slice(b, _int(0), wide, _int(_EDGE)) as (i, _):
            move(i, _EDGE)
        with cgutils.for_range_slice(b, wide, count, _int(1)) as (i, _):
            move(i, 1)
        return context.get_dummy_value()

    return types.void(n, n, n, sign), codegen


@compiled()
def _move_by_square(tiles: Any, old: Any, new: Any, sums: Any) -> None:
    # Exact as in _move_by_row.  Rows beyond the last one of the last tile are read, and count nothing.
    width = sums.shape[1]
    wide = width // _EDGE * _EDGE
    rows = np.empty((_EDGE, width), np.int32)
    for first in range(0, old.size, _EDGE):
        n = min(_EDGE, old.size - first)
        tile, lane = tiles[first // TILE], first % TILE
        # A sixth of the next tile, in the order in which it lies, is fetched meanwhile.
        at = ((first // TILE + 1) * TILE + lane) * (width + 1)
        for word in range(at, at + _EDGE * (width + 1), 16):
            _prefetch(tiles, word)
        for f in range(0, wide, _EDGE):
            _turn(tile.ctypes.data + 4 * (f * TILE + lane), TILE, rows.ctypes.data + 4 * f, width,
                  np.int64(0), 0)  # fmt: skip
        for f in range(wide, width):
            for i in range(n):
                rows[i, f] = tile[f, lane + i]
        for i in range(n):
            a, b = old[first + i], new[first + i]
            if a != b and b >= 0:
                _add_words(rows.ctypes.data + 4 * i * width, sums.ctypes.data + 8 * b * width, width, 1)
            if a != b and a >= 0:
                _add_words(rows.ctypes.data + 4 * i * width, sums.ctypes.data + 8 * a * width, width, -1)


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

    Where many rows moved, eight are turned together.  Tiles beyond the caches of which a few rows in a
    hundred moved are walked tile by tile, which reads each cache line once; everything else row by row.  The
    rules are measured; results are the same.
    """
    moved = int(np.count_nonzero(old != new))
    if 4 * moved > old.size:
        _move_by_square(tiles, old, new, sums)
        return moved
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

# Rows of weights and of tiles that meet in registers: 16 sums of 32 registers, or 4 of 16.  A check has two
# rows of weights, one a repetition.
DOWN, ACROSS = 2, 8 if VECTOR_BITS == 512 else 2
# Tiles between two folds: a register takes 48 / (2 * _LANES) * 2 products a tile.
_VECTORS = TILE // (2 * _LANES)
_TILES = 30 // (2 * _VECTORS)
# Rows of weights that pass together: what they add up to stays in the first cache.
_SEVERAL = 4 * DOWN


def _build(b: Any, x: Any, x_at: Any, y: Any, y_at: Any, fold: Any, c: Any, sums: Any, sums_at: Any) -> None:
    word, halves = ir.VectorType(_I64, _LANES), ir.VectorType(_I32, 2 * _LANES)
    four_c = _splat_half(b, b.trunc(b.shl(c, _int(2)), _I32), _LANES)
    grid = [(h, w) for h in range(DOWN) for w in range(ACROSS)]
    places = {(h, w): _at(b, sums, b.add(sums_at, _int((h * ACROSS + w) * _LANES)), word) for h, w in grid}
    total = {key: b.load(place, align=8) for key, place in places.items()}

    def pairs(source: Any, begin: Any, v: int, count: int) -> list[tuple[Any, Any]]:
        found = []
        for row in range(count):
            place = _at(b, source, b.add(begin, _int(row * TILE + 2 * _LANES * v)), halves)
            both = b.bitcast(b.load(place, align=4), word)
            found.append((_low(b, both), _high(b, both)))
        return found

    for v in range(_VECTORS):
        rows, weights = pairs(x, x_at, v, ACROSS), pairs(y, y_at, v, DOWN)
        for h, w in grid:
            for half in (0, 1):
                # |sum| <= 30 * 2^58 + 2^45 < 2^63.
                total[h, w] = b.add(total[h, w], b.mul(rows[w][half], weights[h][half]))
    with b.if_else(b.icmp_signed("!=", fold, _int(0))) as (then, otherwise):
        with then:
            for key, place in places.items():
                b.store(_fold(b, total[key], four_c), place, align=8)
        with otherwise:
            for key, place in places.items():
                b.store(total[key], place, align=8)


def _products(
    typing: Any, x: Any, x_at: Any, y: Any, y_at: Any, fold: Any, c: Any, sums: Any, sums_at: Any
) -> Any:
    """Add to sums, flat, from sums_at on, products of ACROSS rows of x and DOWN of y of a tile each.

    All of one row of each: _LANES numbers that add up to it, smaller than 2^45 if `fold`ed after the last.
    """
    n = types.int64
    signature = types.void(x, n, y, n, n, n, sums, n)

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
    weights  int32 (n_tiles, rows, 48), centered, rows a multiple of DOWN
    sums     int64 (rows, width), centered

    Tiles are read in the order in which they lie, which memory is fastest in.
    """
    count, terms = tiles.shape[0], tiles.shape[1]
    rows, width = sums.shape
    mask = np.int64((1 << 30) - 1)
    for first in range(0, rows, _SEVERAL):
        pairs = min(_SEVERAL, rows - first) // DOWN
        parts = np.zeros((-(-width // ACROSS), pairs, DOWN, ACROSS, _LANES), np.int64)
        for t in range(count):
            fold = np.int64(t % _TILES == _TILES - 1)
            for q in range(parts.shape[0]):
                # The last rows may overlap those before, of which the sums are done.
                at = min(q * ACROSS, terms - ACROSS)
                for h in range(pairs):
                    _block(tiles, (t * terms + at) * TILE, weights, (t * rows + first + h * DOWN) * TILE,
                           fold, c, parts, (q * pairs + h) * DOWN * ACROSS * _LANES)  # fmt: skip
        for q in range(parts.shape[0]):
            at = min(q * ACROSS, terms - ACROSS)
            for h in range(pairs * DOWN):
                for j in range(q * ACROSS, min(at + ACROSS, width)):
                    for value in parts[q, h // DOWN, h % DOWN, j - at]:
                        # One fold brings any int64 below 2^46, as _reduce wants.
                        v = (value & mask) + c * (value >> 30)
                        sums[first + h, j] = _reduce(sums[first + h, j] + v, c)
