"""What cells of a text file look like, by column, in one pass over its bytes; and their numbers, in a second.

Bytes are those of rows of cells between single delimiters, each row on a line of its own, without quotes.  A
table says what each byte makes of a cell that began in some way; the kernel follows it.
`tests/secfc/data/test_plain_cells.py` has a slow twin, of regular expressions.

Numbers are rounded after one product with 128 bits of a power of five (D. Lemire, "Number Parsing at a
Gigabyte per Second", 2021).  What bits that are not kept could change is left to others.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from field.kernels.compiling import compiled

# Facts of a column, a bit each.  Cells of digits alone; a point before three digits, as it would group
# thousands; any other point; a 0 before another digit; 16 digits or more before the point, of which a
# float may not have all; letters, as of words for nothing; what else stands in no number; quotes and zero
# bytes, which may hide where a cell ends.
WHOLE, GROUP, POINT, ZERO, LONG, WORD, ODD, HIDDEN = (1 << bit for bit in range(8))
DIGITS = 16
ENDS = 1  # of a table of starts, which are multiples of 256
# Numbers whose digits make a whole number of 64 bits, and which are floats of full precision whatever it is:
# 10**-307 > 2**-1022 and 2**64 * 10**288 < 2**1024.
FULL, LEAST, MOST = 10**18, -307, 288  # from FULL on, a digit more may be too many
NOTHING, LAST = 0x7FF8 << 48, (1 << 64) - 1  # bits of NaN; the largest word


def _scale_five(power: int) -> tuple[int, int, int]:
    """(high, low, offset): (2**64 high + low) 2**e <= 5**power, of 128 bits, which low + 1 exceeds.

    offset: what `round_decimal` adds in the exponent of a float, which counts from -1022.
    """
    exact = 5 ** abs(power)
    e = exact.bit_length() - 128 if power >= 0 else -exact.bit_length() - 127
    kept = (exact << 128) >> (e + 128) if power >= 0 else (1 << -e) // exact
    return kept >> 64, kept & LAST, e + power + 180 + 1022


FIVES = np.array([_scale_five(power) for power in range(LEAST, MOST + 1)], np.uint64)
_intrinsic: Any = intrinsic  # numba declares no types for it


class CellStart(NamedTuple):
    """How a cell begins: what its last byte belongs to, digits of that part, and facts that are settled."""

    part: str = ""  # nothing, sign, whole, point, power, rest
    digits: int = 0
    signed: bool = False
    zero: bool = False
    grouped: bool = False  # whether digits before a point are as those before a group
    facts: int = 0

    @property
    def ended(self) -> int:
        """Facts if the cell ends here."""
        if self.part == "point":
            return self.facts | (GROUP if self.grouped and self.digits == 3 else POINT)
        return self.facts | (WHOLE if self.part == "whole" and not self.signed else 0)

    def then(self, c: str, point: str) -> CellStart:
        """This start with one more byte, which ends no cell."""
        if c.isdigit() and self.part != "rest":
            return self._with_digit(c)
        if c in "+-" and self.part == "":
            return CellStart("sign", signed=True)
        if c in "+-" and self.part == "power" and not self.digits:
            return self._replace(digits=1)
        if c == point and self.part in ("", "sign", "whole"):
            grouped = 1 <= self.digits <= 3 and not self.zero
            return CellStart("point", grouped=grouped, facts=self.facts)
        if c in "eE" and self.part in ("whole", "point"):
            return CellStart("power", facts=self.facts | POINT * (self.part == "point"))
        return CellStart("rest", facts=self.ended | self._facts_of_sign(c))

    def _facts_of_sign(self, c: str) -> int:
        """Facts of a sign that is no part of a number."""
        if c in '"\0':
            return HIDDEN
        if self.part == "rest":
            return ODD if c <= " " or c == "_" else 0
        return WORD if c == "#" or (c > "@" and c != "_") else ODD

    def _with_digit(self, c: str) -> CellStart:
        if self.part in ("", "sign"):
            return CellStart("whole", 1, self.signed, c == "0")
        count = min(self.digits + 1, {"whole": DIGITS, "point": 4, "power": 1}[self.part])
        facts = 0
        if self.part == "whole":
            facts = (ZERO if self.zero else 0) | (LONG if count == DIGITS else 0)
        return self._replace(digits=count, facts=self.facts | facts)


@lru_cache
def cell_table(point: int, delimiter: int) -> tuple[Any, Any]:
    """Which start of a cell follows each by each byte, (256 s,) uint32, and its facts if it ends, (s,) uint8.

    A start is 256 times its number, so that what follows it by byte c stands at start + c; the first is that
    of no byte.  ENDS after the delimiter and bytes of line ends.  point, delimiter: ASCII codes.
    """
    # Bytes that are alike in all that counts are asked for once.
    alike = [c if c in '"\0#_eE+-.,0' else "1" if c.isdigit() else "A" if c > "@" else "%" if c > " " else " "
             for c in map(chr, range(256))]  # fmt: skip
    starts, rows = {CellStart(): 0}, []
    for start in (known := [CellStart()]):
        after = {c: start.then(c, chr(point)) for c in sorted(set(alike))}
        for then in after.values():
            if then not in starts:
                starts[then] = len(known)
                known.append(then)
        rows.append([starts[after[c]] for c in alike])
    steps = np.array(rows, np.uint32) * 256
    steps[:, [delimiter, 10, 13]] = ENDS
    return steps.ravel(), np.array([start.ended for start in known], np.uint8)


@compiled(boundscheck=False)
def scan_cells(data: Any, delimiter: int, steps: Any, facts: Any, found: Any) -> int:
    """The number of rows, -1 if not all are d cells wide; adds the facts of each column to found (d,) uint8.

    data: (n,) uint8 of whole lines, the last perhaps without its end.  delimiter: ASCII code.  steps, facts:
    of `cell_table`.
    """
    n, width = len(data), len(found)
    column, rows, start = 0, 0, np.uint64(0)
    for at in range(n + 1):
        c = np.uint64(data[at]) if at < n else np.uint64(10)
        then = np.uint64(steps[start | c])
        if then != np.uint64(ENDS):
            start = then
        elif c == np.uint64(13):
            if at + 1 >= n or data[at + 1] != 10:
                return -1
        elif c == np.uint64(delimiter) or column > 0 or start > np.uint64(0):  # no empty line
            found[column] |= facts[start >> np.uint64(8)]
            start, last = np.uint64(0), c == np.uint64(10)
            if (column == width - 1) != last:
                return -1
            column = 0 if last else column + 1
            rows += last
    return rows


@_intrinsic
def _multiply(typing: Any, whole: Any, high: Any, low: Any) -> Any:
    """(zeros, high, low): leading zeros of whole > 0; bits 64 to 191 of whole 2**zeros (2**64 high + low)."""
    triple: Any = types.UniTuple
    signature = triple(types.uint64, 3)(types.uint64, types.uint64, types.uint64)

    def codegen(context: Any, b: Any, signature: Any, args: Any) -> Any:
        i64, i192 = ir.IntType(64), ir.IntType(192)
        zeros = b.ctlz(args[0], ir.Constant(ir.IntType(1), 1))
        whole, high, low = (b.zext(word, i192) for word in (b.shl(args[0], zeros), *args[1:]))
        product = b.mul(whole, b.or_(b.shl(high, ir.Constant(i192, 64)), low))
        words = (b.trunc(b.lshr(product, ir.Constant(i192, bits)), i64) for bits in (128, 64))
        return context.make_tuple(b, signature.return_type, (zeros, *words))

    return signature, codegen


@compiled(inline="always")
def round_decimal(whole: Any, power: int) -> Any:
    """Bits of the float nearest to whole * 10**power, uint64; those of NaN where that is not certain.

    Let P = 2**64 high + low.  Of the power of five less than 1 is not kept, so that less than 2**64 lacks in
    the product, and as much in P: 2**64 P <= exactly < 2**64 (P + 2).  The first 53 bits of P are a float's.
    The rest decides, unless halfway lies at P, where a tie may be, or at P + 1.
    """
    if whole == 0:
        return np.uint64(0)
    if power < LEAST or power > MOST:
        return np.uint64(NOTHING)
    five = FIVES[power - LEAST]
    zeros, high, low = _multiply(whole, five[0], five[1])
    shift = np.uint64(10) + (high >> np.uint64(63))
    half = np.uint64(1) << (shift - np.uint64(1))
    rest = high & (half + half - np.uint64(1))
    if (rest == half and low == 0) or (rest + np.uint64(1) == half and low == np.uint64(LAST)):
        return np.uint64(NOTHING)
    # The first of 53 bits counts in the exponent, as does a carry.
    return ((five[2] + shift - zeros) << np.uint64(52)) + (high >> shift) + np.uint64(rest >= half)


@compiled(boundscheck=False)
def read_numbers(data: Any, delimiter: int, point: int, places: Any, words: Any, points: Any) -> int:
    """The number of words for nothing, NaN in points, or -1 for a cell that is neither, or may be misrounded.

    data: as in `scan_cells`, which found its rows even, and no cell of these columns odd.  delimiter, point:
    ASCII codes, not of signs or digits.  places: the column of points (width,) that each column goes to, -1
    for none.  words: of 8 letters at most, big-endian, uint64.  points: (rows, d), filled with the nearest
    floats.
    """
    n, column, row, place, absent, begin = len(data), 0, 0, places[0], 0, 0
    none: Any = np.uint64(0)
    whole, digits, after, power, sign, lost = none, 0, 0, 0, 1, False  # after: 1 behind the point
    scaled, mantissa, shift, minus = False, none, 0, 1  # of the cell, if an exponent is being read
    word, letters, bits = none, 0, points.view(np.uint64)
    for at in range(n + 1):
        c = int(data[at]) if at < n else 10
        if 48 <= c <= 57:
            lost |= whole >= np.uint64(FULL)  # less, ten times and with a digit, is below 10 FULL < 2**64
            whole = np.uint64(10) * whole + np.uint64(c - 48)
            digits += 1
            power -= after
        elif c == 13:
            begin += 1  # counts as none of the cell
        elif (c == delimiter) | (c == 10):
            ended = (c != 10) | (column > 0) | (at > begin)  # no empty line
            if ended & (place >= 0):
                if scaled:  # by 10**shift and a whole that, if it wraps, is far from LEAST to MOST
                    added: Any = np.int64(whole)
                    whole, power, sign = mantissa, shift + sign * added, minus
                read = np.uint64(NOTHING)
                if (digits > 0) & (letters == 0) & (not lost):
                    read = round_decimal(whole, power)
                if read == np.uint64(NOTHING):
                    if (at - begin != letters) | (word not in words):
                        return -1
                    absent += 1
                bits[row, place] = read | np.uint64(sign < 0) << np.uint64(63)
            row += ended & (c == 10)
            column = (column + 1) * (c != 10)
            place = places[column]
            whole, digits, after, power, sign, lost = none, 0, 0, 0, 1, False
            scaled, begin, word, letters = False, at + 1, none, 0
        elif c == point:
            after = 1
        elif abs(c - 44) == 1:  # + and -
            sign = 44 - c
        elif (abs(c - 85) == 16) & (digits > 0) & (not scaled):  # E or e
            scaled, mantissa, shift, minus = True, whole, power, sign
            whole, digits, after, power, sign = none, 0, 0, 0, 1
        else:
            word = word << np.uint64(8) | np.uint64(c)
            letters += 1
    return absent
