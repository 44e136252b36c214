"""The machine arithmetic of the union: numba kernels modulo q = 2**61 - 1.

Residues are canonical uint64 in [0, q).  A product of two is below 2**122, so 63 of them and one residue
sum to less than 2**128 and one 128-bit accumulator holds a whole dot product; `_reduce` takes any
128-bit value.  Words from a stream cipher become residues by their low 61 bits, with 2**61 - 1 read as 0:
a statistical distance below 2**-61 a word from uniform.

Kernels trust their input: callers check.  `tests.oracles.psu` has slow twins, with the prime a parameter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from field.kernels.compiling import compiled

U = np.uint64
M61 = U((1 << 61) - 1)
ZERO, ONE, THREE = U(0), U(1), U(3)
# The cells of an ID are asked for while those of this many IDs before it are worked on; a power of two.
AHEAD = 32
# Tags in a bucket of a sort: on average, and at most.  A Poisson variable of mean 8 exceeds 64 with
# probability below 1e-30.
CROWD, MAX_CROWD = 8, 64
CHECK_BITS = U(40)
CHECK_MASK = U((1 << 40) - 1)
# Odd 64-bit constants of the mixing function; any odd constants without structure do.
MIX_A, MIX_B, STEP = U(0xA0761D6478BD642F), U(0xE7037ED1A0B428DB), U(0x9E3779B97F4A7C15)

_I64, _I128 = ir.IntType(64), ir.IntType(128)
_tuple: Any = types.containers.UniTuple
PAIR = _tuple(types.uint64, 2)


def _wide(builder: Any, value: Any) -> Any:
    return builder.zext(value, _I128)


def _halves(context: Any, builder: Any, signature: Any, value: Any) -> Any:
    high = builder.trunc(builder.lshr(value, ir.Constant(_I128, 64)), _I64)
    return context.make_tuple(builder, signature.return_type, (high, builder.trunc(value, _I64)))


def _product_128(typing: Any, a: Any, b: Any) -> Any:
    """(high, low) of the 128-bit product of two uint64."""
    u64 = types.uint64
    signature = PAIR(u64, u64)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        product = builder.mul(_wide(builder, args[0]), _wide(builder, args[1]))
        return _halves(context, builder, signature, product)

    return signature, codegen


def _add_product_128(typing: Any, high: Any, low: Any, a: Any, b: Any) -> Any:
    """(high, low) + a*b modulo 2**128."""
    u64 = types.uint64
    signature = PAIR(u64, u64, u64, u64)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        shifted = builder.shl(_wide(builder, args[0]), ir.Constant(_I128, 64))
        total = builder.or_(shifted, _wide(builder, args[1]))
        product = builder.mul(_wide(builder, args[2]), _wide(builder, args[3]))
        return _halves(context, builder, signature, builder.add(total, product))

    return signature, codegen


def _prefetch_row(typing: Any, table: Any, row: Any) -> Any:
    """Ask for the cache lines of both ends of a row of a C-contiguous array (rows, width) or (rows,).

    A hint: it changes nothing, and never faults.
    """
    if not isinstance(table, types.Array) or table.layout != "C":
        return None
    signature = types.void(table, types.int64)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte] + [ir.IntType(32)] * 3)
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        # For writing, to all levels of the cache, data.
        how = [ir.Constant(ir.IntType(32), flag) for flag in (1, 3, 1)]
        flat = signature.args[0].ndim == 1
        width = ir.Constant(_I64, 1) if flat else builder.extract_value(array.shape, 1)
        first = builder.mul(args[1], width)
        last = builder.sub(builder.add(first, width), ir.Constant(_I64, 1))
        # A row may straddle two lines.
        for at in (first,) if flat else (first, last):
            builder.call(prefetch, [builder.bitcast(builder.gep(array.data, [at]), byte), *how])
        return context.get_dummy_value()

    return signature, codegen


product_128: Any = intrinsic(_product_128)
add_product_128: Any = intrinsic(_add_product_128)
prefetch_row: Any = intrinsic(_prefetch_row)


# --- the field -----------------------------------------------------------------------------------


@compiled(inline="always")
def _reduce(high: Any, low: Any) -> Any:
    # value = a + 2**61 b + 2**122 c with a, b < 2**61 and c < 2**6, and 2**61 = 1 modulo q.  The sum is
    # below 2**62 + 2**6, its fold at most q + 2, so one subtraction makes it canonical.
    folded = (low & M61) + (((low >> U(61)) | (high << THREE)) & M61) + (high >> U(58))
    folded = (folded & M61) + (folded >> U(61))
    return folded - M61 if folded >= M61 else folded


@compiled(inline="always")
def _mul(a: Any, b: Any) -> Any:
    high, low = product_128(a, b)
    return _reduce(high, low)


@compiled(inline="always")
def _add(a: Any, b: Any) -> Any:
    total = a + b
    return total - M61 if total >= M61 else total


@compiled(inline="always")
def _sub(a: Any, b: Any) -> Any:
    return a - b if a >= b else a + M61 - b


@compiled(inline="always")
def _residue(word: Any) -> Any:
    value = word & M61
    return ZERO if value == M61 else value


@compiled()
def _inverse(a: Any) -> Any:
    """a**(q-2): the inverse of a nonzero residue, and 0 for 0."""
    result, exponent = ONE, U((1 << 61) - 3)
    while exponent > ZERO:
        if exponent & ONE:
            result = _mul(result, a)
        a = _mul(a, a)
        exponent >>= ONE
    return result


@compiled()
def multiply(a: Any, b: Any) -> Any:
    """Elementwise products of flat residues."""
    out = np.empty(a.size, np.uint64)
    for i in range(a.size):
        out[i] = _mul(a[i], b[i])
    return out


@compiled()
def add_into(total: Any, values: Any) -> None:
    """total += values, flat residues."""
    for i in range(total.size):
        total[i] = _add(total[i], values[i])


@compiled()
def to_residues(words: Any) -> None:
    """Flat cipher words to residues, in place."""
    for i in range(words.size):
        words[i] = _residue(words[i])


@compiled()
def add_stream(total: Any, words: Any) -> None:
    """total += residues of flat cipher words."""
    for i in range(total.size):
        total[i] = _add(total[i], _residue(words[i]))


@compiled()
def subtract_stream(total: Any, words: Any) -> None:
    """total -= residues of flat cipher words."""
    for i in range(total.size):
        total[i] = _sub(total[i], _residue(words[i]))


@compiled()
def accumulate_stream(total: Any, words: Any, factor: Any) -> None:
    """total += factor * residues of flat cipher words."""
    for i in range(total.size):
        # factor * word < 2**122 and total < 2**61: far below 2**128.
        high, low = product_128(_residue(words[i]), factor)
        high, low = add_product_128(high, low, total[i], ONE)
        total[i] = _reduce(high, low)


@compiled()
def interpolate(secret: Any, pads: Any, weights: Any, out: Any) -> None:
    """out = weights[0] secret + sum_i weights[i+1] pads[i]: a share from a secret and t other shares.

    secret, out (N,); pads (t, N) residues; weights (t+1,), t <= 62 so that the sum stays below 2**128.
    """
    if pads.shape[0] == 1:
        # The most frequent case, without the inner loop.
        w0, w1, pad = weights[0], weights[1], pads[0]
        for i in range(secret.size):
            high, low = product_128(w0, secret[i])
            high, low = add_product_128(high, low, w1, pad[i])
            out[i] = _reduce(high, low)
        return
    for i in range(secret.size):
        high, low = product_128(weights[0], secret[i])
        for j in range(pads.shape[0]):
            high, low = add_product_128(high, low, weights[j + 1], pads[j, i])
        out[i] = _reduce(high, low)


# --- tags and positions --------------------------------------------------------------------------


@compiled(inline="always")
def _mix(a: Any, b: Any) -> Any:
    high, low = product_128(a ^ MIX_A, b ^ MIX_B)
    return high ^ low


@compiled(inline="always")
def _check(z: Any, e: Any) -> Any:
    return _mix(_mix(z, STEP), e) >> U(24)


@compiled(inline="always")
def _valid(z: Any, y: Any) -> Any:
    return _check(z, y >> CHECK_BITS) == (y & CHECK_MASK)


@compiled(inline="always")
def _position(z: Any, y: Any, k: Any, part: Any, salt0: Any, salt1: Any) -> Any:
    # The high half of hash * part is uniform on [0, part) up to part / 2**64.
    mixed = _mix(_mix(z ^ salt1, y ^ salt0), salt0 + U(k) * STEP)
    high, _low = product_128(mixed, U(part))
    return np.int64(high) + np.int64(k) * part


@compiled()
def split_tags(blocks: Any, z: Any, y: Any) -> None:
    """128-bit tags (N, 2) to z, 61 bits, and y, 21 further bits and a 40-bit check of both.

    y = 2**61 - 1 is congruent to 0 and would fail its own check: probability 2**-61 an ID.
    """
    for i in range(blocks.shape[0]):
        z[i] = _residue(blocks[i, 0])
        e = blocks[i, 1] >> U(43)
        y[i] = (e << CHECK_BITS) | _check(z[i], e)


@compiled()
def ascending(z: Any, y: Any) -> Any:
    """The order that sorts residue pairs by (z, y): (N,) int64, or empty if z is far from uniform.

    Buckets by the upper bits of z hold at most CROWD pairs each on average, sorted by insertion.
    The work is at most N MAX_CROWD steps: fuller buckets, which uniform z do not make, are refused.
    """
    bits = 0
    while (z.size >> bits) > CROWD:
        bits += 1
    shift = U(61 - bits)
    ends = np.zeros((1 << bits) + 1, np.int64)
    for i in range(z.size):
        ends[(z[i] >> shift) + ONE] += 1
    for b in range(1 << bits):
        if ends[b + 1] > MAX_CROWD:
            return np.empty(0, np.int64)
        ends[b + 1] += ends[b]
    # Every entry of ends becomes the end of its bucket as the bucket fills.
    keys, order = np.empty(z.size, np.uint64), np.empty(z.size, np.int64)
    for i in range(z.size):
        at = ends[z[i] >> shift]
        ends[z[i] >> shift] = at + 1
        keys[at], order[at] = z[i], i
    for i in range(1, z.size):
        key, tag, at = keys[i], order[i], i
        while at > 0 and (keys[at - 1] > key or (keys[at - 1] == key and y[order[at - 1]] > y[tag])):
            keys[at], order[at] = keys[at - 1], order[at - 1]
            at -= 1
        keys[at], order[at] = key, tag
    return order


@compiled()
def all_valid(z: Any, y: Any) -> Any:
    """Whether every pair is a residue pair with the right check."""
    good = True
    for i in range(z.size):
        good &= z[i] < M61 and y[i] < M61 and _valid(z[i], y[i])
    return good


@compiled()
def positions(z: Any, y: Any, hashes: Any, part: Any, salt0: Any, salt1: Any) -> Any:
    """The cells of each tag: (N, hashes) int64, the k-th in [k part, (k+1) part)."""
    out = np.empty((z.size, hashes), np.int64)
    for i in range(z.size):
        for k in range(hashes):
            out[i, k] = _position(z[i], y[i], k, part, salt0, salt1)
    return out


@compiled()
def add_slots(z: Any, y: Any, r: Any, table: Any, levels: Any, slots: Any, salt0: Any, salt1: Any) -> None:
    """Add r to the slot of each tag: level l with probability 2**-(l+1), the last level takes the rest."""
    for i in range(z.size):
        mixed = _mix(_mix(z[i] ^ salt0, y[i] ^ salt1), salt1 + STEP)
        level, bits = 0, mixed
        while level + 1 < levels and bits & ONE:
            level += 1
            bits >>= ONE
        # The slot comes from a second hash, so it does not depend on the level.
        high, _low = product_128(_mix(mixed, salt0), U(slots))
        at = level * slots + np.int64(high)
        table[at, 0] = _add(table[at, 0], r[i])


@compiled(inline="always")
def _fetch(table: Any, z: Any, y: Any, at: Any, place: Any) -> Any:
    """The cells of a tag into at (hashes,); asks for their rows.

    Tags fall anywhere in a table much larger than the caches.  The kernels below run in two steps, AHEAD
    IDs apart: ask for the rows, later update them, so that many IDs wait for memory together.
    """
    hashes, part, salt0, salt1 = place
    for k in range(hashes):
        c = _position(z, y, k, part, salt0, salt1)
        at[k] = c
        prefetch_row(table, c)


@compiled()
def add_gram(z: Any, y: Any, r: Any, table: Any, hashes: Any, part: Any, salt0: Any, salt1: Any) -> None:
    """Add r (1, z, y, zz, zy, yy) to the cells of each tag; table (cells, 6)."""
    at = np.empty((AHEAD, hashes), np.int64)
    for later in range(z.size + AHEAD):
        cells, i = at[later % AHEAD], later - AHEAD
        if i >= 0:
            r0, r1, r2 = r[i], _mul(r[i], z[i]), _mul(r[i], y[i])
            r3, r4, r5 = _mul(r1, z[i]), _mul(r1, y[i]), _mul(r2, y[i])
            for k in range(hashes):
                row = table[cells[k]]
                row[0] = _add(row[0], r0)
                row[1] = _add(row[1], r1)
                row[2] = _add(row[2], r2)
                row[3] = _add(row[3], r3)
                row[4] = _add(row[4], r4)
                row[5] = _add(row[5], r5)
        if later < z.size:
            _fetch(table, z[later], y[later], cells, (hashes, part, salt0, salt1))


@compiled()
def add_lines(z: Any, y: Any, r: Any, table: Any, hashes: Any, part: Any, salt0: Any, salt1: Any) -> None:
    """Add r (1, z, y) to the cells of each tag; table (cells, 3)."""
    at = np.empty((AHEAD, hashes), np.int64)
    for later in range(z.size + AHEAD):
        cells, i = at[later % AHEAD], later - AHEAD
        if i >= 0:
            r0, r1, r2 = r[i], _mul(r[i], z[i]), _mul(r[i], y[i])
            for k in range(hashes):
                row = table[cells[k]]
                row[0] = _add(row[0], r0)
                row[1] = _add(row[1], r1)
                row[2] = _add(row[2], r2)
        if later < z.size:
            _fetch(table, z[later], y[later], cells, (hashes, part, salt0, salt1))


# --- openings on shares --------------------------------------------------------------------------


@compiled(inline="always")
def _dot3(a: Any, b: Any, c: Any, x: Any, y: Any, z: Any) -> Any:
    # Three products below 2**122 each.
    high, low = product_128(a, x)
    high, low = add_product_128(high, low, b, y)
    high, low = add_product_128(high, low, c, z)
    return _reduce(high, low)


@compiled()
def open_gram(shares: Any, active: Any, g: Any, weight: Any, out: Any) -> None:
    """out += weight g^T M for the symmetric 3 x 3 share M of each active cell; g, out (A, 3)."""
    for a in range(active.size):
        # After the first round active cells are scattered.
        prefetch_row(shares, active[min(a + AHEAD, active.size - 1)])
        s = shares[active[a]]
        g0, g1, g2 = _mul(g[a, 0], weight), _mul(g[a, 1], weight), _mul(g[a, 2], weight)
        out[a, 0] = _add(out[a, 0], _dot3(g0, g1, g2, s[0], s[1], s[2]))
        out[a, 1] = _add(out[a, 1], _dot3(g0, g1, g2, s[1], s[3], s[4]))
        out[a, 2] = _add(out[a, 2], _dot3(g0, g1, g2, s[2], s[4], s[5]))


@compiled()
def open_scaled(shares: Any, active: Any, g: Any, weight: Any, out: Any) -> None:
    """out += weight g s for the share s of each active row, width 1; g, out (A, 1)."""
    for a in range(active.size):
        out[a, 0] = _add(out[a, 0], _mul(_mul(g[a, 0], weight), shares[active[a], 0]))


@compiled()
def open_plain(shares: Any, active: Any, weight: Any, out: Any) -> None:
    """out += weight s for the share s of each active row, width 1; out (A, 1)."""
    for a in range(active.size):
        out[a, 0] = _add(out[a, 0], _mul(weight, shares[active[a], 0]))


@compiled()
def open_spread(shares: Any, active: Any, weight: Any, out: Any) -> None:
    """out += weight (s0 s2 - s1 s1) for the shares of each active row, width 3; out (A, 1)."""
    for a in range(active.size):
        s = shares[active[a]]
        spread = _sub(_mul(s[0], s[2]), _mul(s[1], s[1]))
        out[a, 0] = _add(out[a, 0], _mul(weight, spread))


# --- peeling -------------------------------------------------------------------------------------

# What the relay knows of a cell: still unknown, resolved (opened empty, or its only ID was removed),
# changed in this round; a number of at least 0 is the opening that showed it to hold one ID.
UNKNOWN, RESOLVED, CHANGED = -1, -2, -3


@compiled()
def read_cells(
    values: Any, active: Any, status: Any, z: Any, y: Any, part: Any, salt0: Any, salt1: Any
) -> None:
    """Judge opened cells: values (A, 3); sets status[cell], and (z, y)[a] of cells with one ID.

    A cell holds one ID if (1, z, y) is proportional to its value, the check is right and the ID belongs
    there.  All inverses come from one (Montgomery's trick).
    """
    count = active.size
    prefix = np.empty(count + 1, np.uint64)
    prefix[0] = ONE
    for a in range(count):
        prefix[a + 1] = prefix[a] if values[a, 0] == ZERO else _mul(prefix[a], values[a, 0])
    inverse = _inverse(prefix[count])
    for a in range(count - 1, -1, -1):
        if values[a, 0] == ZERO:
            if values[a, 1] == ZERO and values[a, 2] == ZERO:
                status[active[a]] = RESOLVED
            continue
        one = _mul(inverse, prefix[a])
        inverse = _mul(inverse, values[a, 0])
        z[a] = _mul(values[a, 1], one)
        y[a] = _mul(values[a, 2], one)
        k = active[a] // part
        if _valid(z[a], y[a]) and _position(z[a], y[a], k, part, salt0, salt1) == active[a]:
            status[active[a]] = a


@compiled()
def collect(
    active: Any, status: Any, z: Any, y: Any, hashes: Any, part: Any, salt0: Any, salt1: Any, pure: Any
) -> Any:
    """Move the recovered IDs to the front of z, y; pure[i] has bit k if the k-th cell held only that ID.

    Their other cells become CHANGED.  Returns how many were recovered, or -1 if an ID contradicts what
    its other cells showed: some contribution was malformed.
    """
    found = 0
    for a in range(active.size):
        if status[active[a]] != a:
            continue
        zi, yi = z[a], y[a]
        bits = 0
        for k in range(hashes):
            at = _position(zi, yi, k, part, salt0, salt1)
            other = status[at]
            if other >= 0:
                # Entries in front of `found` were overwritten, but their cells are RESOLVED by now.
                if z[other] != zi or y[other] != yi:
                    return -1
                bits |= 1 << k
                status[at] = RESOLVED
            elif other == RESOLVED:
                return -1
            else:
                status[at] = CHANGED
        z[found], y[found], pure[found] = zi, yi, bits
        found += 1
    return found


@compiled()
def changed_cells(status: Any) -> Any:
    """The CHANGED cells, ascending, which become UNKNOWN again."""
    count = 0
    for c in range(status.size):
        count += status[c] == CHANGED
    # One place more: without a branch, an unchanged cell is written too, and then written over.
    out = np.empty(count + 1, np.int64)
    count = 0
    for first in range(0, status.size, 64):
        block = status[first : first + 64]
        some = 0
        for c in range(block.size):
            some += block[c] == CHANGED
        if some:
            for c in range(block.size):
                out[count] = first + c
                changed = block[c] == CHANGED
                count += changed
                block[c] = UNKNOWN if changed else block[c]
    return out[:count]


@compiled()
def remove(
    shares: Any, z: Any, y: Any, pure: Any, hashes: Any, part: Any, salt0: Any, salt1: Any, status: Any
) -> None:
    """Subtract recovered IDs from the shares of all their cells; the others become CHANGED in status.

    The share of an ID's contribution is the share of a cell that holds only that ID, so its unknown
    coefficient cancels.  No other recovered ID is in that cell: the order does not matter.  shares
    (cells, 6); status int32.
    """
    at = np.empty((AHEAD, hashes), np.int64)
    for later in range(z.size + AHEAD):
        cells, i = at[later % AHEAD], later - AHEAD
        if i >= 0:
            source = np.int64(-1)
            for k in range(hashes):
                if not (pure[i] >> k) & 1:
                    status[cells[k]] = CHANGED
                elif source < 0:
                    source = cells[k]
            held = shares[source]
            r0, r1, r2, r3, r4, r5 = held[0], held[1], held[2], held[3], held[4], held[5]
            for k in range(hashes):
                row = shares[cells[k]]
                row[0] = _sub(row[0], r0)
                row[1] = _sub(row[1], r1)
                row[2] = _sub(row[2], r2)
                row[3] = _sub(row[3], r3)
                row[4] = _sub(row[4], r4)
                row[5] = _sub(row[5], r5)
        if later < z.size:
            _fetch(shares, z[later], y[later], cells, (hashes, part, salt0, salt1))
            for k in range(hashes):
                prefetch_row(status, cells[k])


@compiled()
def peel_lines(table: Any, hashes: Any, part: Any, salt0: Any, salt1: Any, z: Any, y: Any) -> Any:
    """Peel a table (cells, 3) of sums of r (1, z, y), in place.

    Fills z, y and returns (how many were recovered, how many cells stay nonzero).  Stops as soon as more
    IDs come out than there are cells: only a malformed table does that.
    """
    cells = table.shape[0]
    # Every cell waits at most once, so a ring of `cells` places is enough.
    ring = np.arange(cells)
    waits = np.ones(cells, np.bool_)
    head, waiting, found = 0, cells, 0
    while waiting > 0 and found < z.size:
        c = ring[head]
        head = (head + 1) % cells
        waiting -= 1
        waits[c] = False
        r = table[c, 0]
        if r == ZERO:
            continue
        one = _inverse(r)
        zi, yi = _mul(table[c, 1], one), _mul(table[c, 2], one)
        if not _valid(zi, yi) or _position(zi, yi, c // part, part, salt0, salt1) != c:
            continue
        z[found], y[found] = zi, yi
        found += 1
        b, d = _mul(r, zi), _mul(r, yi)
        for k in range(hashes):
            at = _position(zi, yi, k, part, salt0, salt1)
            table[at, 0] = _sub(table[at, 0], r)
            table[at, 1] = _sub(table[at, 1], b)
            table[at, 2] = _sub(table[at, 2], d)
            if not waits[at]:
                ring[(head + waiting) % cells] = at
                waiting += 1
                waits[at] = True
    left = 0
    for c in range(cells):
        left += table[c, 0] != ZERO or table[c, 1] != ZERO or table[c, 2] != ZERO
    return found, left
