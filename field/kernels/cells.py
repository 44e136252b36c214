"""What cells of a text file look like, by column, in one pass over its bytes; and short numbers, in a second.

Bytes are those of rows of cells between single delimiters, each row on a line of its own, without quotes.  A
table says what each byte makes of a cell that began in some way; the kernel follows it.
`tests/secfc/data/test_plain_cells.py` has a slow twin, of regular expressions.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from field.kernels.compiling import compiled

# Facts of a column, a bit each.  Cells of digits alone; a point before three digits, as it would group
# thousands; any other point; a 0 before another digit; 16 digits or more before the point, of which a
# float may not have all; letters, as of words for nothing; what else stands in no number; quotes and zero
# bytes, which may hide where a cell ends.
WHOLE, GROUP, POINT, ZERO, LONG, WORD, ODD, HIDDEN = (1 << bit for bit in range(8))
DIGITS = 16
# A whole number up to 2**53 is a float, as is a power of ten up to 10**22: their quotient is rounded once,
# and so is the float that is nearest to what is written.
LARGEST, TENS = 1 << 53, np.array([float(10**i) for i in range(23)])


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
def cell_table(point: int) -> tuple[Any, Any]:
    """Which start of a cell follows each by each byte, (s, 256) uint16, and its facts if it ends, (s,) uint8.

    The first is that of no byte.  point: ASCII code of the decimal sign.
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
    return np.array(rows, np.uint16), np.array([start.ended for start in known], np.uint8)


@compiled(boundscheck=False)
def scan_cells(data: Any, delimiter: int, steps: Any, facts: Any, found: Any) -> int:
    """The number of rows, -1 if not all are d cells wide; adds the facts of each column to found (d,) uint8.

    data: (n,) uint8 of whole lines, the last perhaps without its end.  delimiter: ASCII code.  steps, facts:
    of `cell_table`.
    """
    n, width = len(data), len(found)
    column, state, rows = 0, 0, 0
    for at in range(n + 1):
        c = data[at] if at < n else 10
        if c != delimiter and c != 10 and c != 13:
            state = steps[state, c]
        elif c == 13:
            if at + 1 >= n or data[at + 1] != 10:
                return -1
        elif c == delimiter or column or state:  # no empty line
            found[column] |= facts[state]
            state = 0
            if (column == width - 1) != (c == 10):
                return -1
            column = 0 if c == 10 else column + 1
            rows += c == 10
    return rows


@compiled(inline="always")
def nearest_float(whole: int, digits: int, power: int) -> float:
    """The float nearest to whole * 10**power, power <= 0, of so many digits; NaN for none, or too many."""
    if not 0 < digits <= 18 or whole > LARGEST or -power >= len(TENS):
        return np.nan
    return whole / TENS[-power] if power else float(whole)


@compiled(boundscheck=False)
def read_numbers(data: Any, delimiter: int, point: int, places: Any, gaps: bool, points: Any) -> int:
    """The number of empty cells, NaN in points, or -1 for one that is no number of a few digits alone.

    data: as in `scan_cells`, which found its rows even, and no cell of these columns odd or a word.
    delimiter, point: ASCII codes, not of signs or digits.  places: the column of points (width,) that each
    column goes to, -1 for none.  gaps: whether cells may be empty.  points: (rows, d), filled with the
    nearest floats.
    """
    n, column, row, place, absent, begin = len(data), 0, 0, places[0], 0, 0
    whole, digits, after, power, sign = 0, 0, 0, 0, 1  # after: 1 behind the point
    for at in range(n + 1):
        c = int(data[at]) if at < n else 10
        if 48 <= c <= 57:
            whole = 10 * whole + c - 48  # wraps beyond 18 digits, which are too many
            digits += 1
            power -= after
        elif c == 13:
            begin += begin == at
        elif c == delimiter or c == 10:
            ended = (c != 10) | (column > 0) | (at > begin)  # no empty line
            if ended and place >= 0:
                value = nearest_float(whole, digits, power)
                points[row, place] = sign * value
                absent += digits == 0
                if np.isnan(value) & ((at > begin) | (not gaps)):
                    return -1
            row += ended & (c == 10)
            column = (column + 1) * (c != 10)
            place = places[column]
            whole, digits, after, power, sign, begin = 0, 0, 0, 0, 1, at + 1
        elif c == point:
            after = 1
        elif abs(c - 44) == 1:  # + and -
            sign = 44 - c
        elif place >= 0:
            return -1
    return absent
