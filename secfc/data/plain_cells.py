"""Large text files of plain numbers: read at once, when a pass over their bytes has left nothing in doubt.

The reader of `secfc.data.tables` looks at every cell in Python.  Most large files have nothing for it to
find: programs wrote them.  So their bytes are looked at first (`field.kernels.cells`, on all threads).  Where
every row is as wide as the first, without quotes, and no column of numbers has a cell that could be read in
two ways or not at all, a kernel converts numbers of up to 19 digits, and pyarrow blocks with longer ones, and
texts.  Both round correctly, as Python does: the same floats, bit for bit.  Of whatever else a file has,
None is returned, and the other reader reads it and says what is wrong: doubt has one place.

pyarrow and not polars, which is faster: it reads Parquet and Feather here already, takes a decimal comma, and
leaves a cell that it cannot convert as an error, whatever else is asked.
"""

from __future__ import annotations

import codecs
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from secfc.data.dialects import BLANKS, TOTALS, opened_bytes
from secfc.data.inputs import Array, is_installed

R = TypeVar("R")
LARGE = 1 << 20  # bytes of a file, from which on kernels are worth loading
LONGEST = 1 << 16  # bytes of a line, beyond which a file is read cell by cell
STEP = 1 << 20  # bytes that are read at a time
# Words for nothing as programs write them.  Others are read cell by cell.
USUAL_WORDS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "#N/A")
ASCII_LIKE = frozenset(("utf-8", "utf-8-sig", "ascii", "iso8859-1", "cp1252"))


@dataclass(frozen=True)
class PlainTable:
    """How the rows of a text file begin and are cut, and which of their cells are numbers or texts.

    line: of the first row, from 1.  width: cells of a row.  gaps, empty: whether words for nothing, or empty
    cells alone, may stand for numbers.
    """

    path: Path
    line: int
    width: int
    delimiter: str
    encoding: str
    decimal: str
    numbers: Sequence[int]
    texts: Sequence[int]
    gaps: bool = False
    empty: bool = False

    @property
    def is_read(self) -> bool:
        """Whether such a table may be read here, as far as that shows without a look at it."""
        least = LARGE if self.path.suffix.lower() not in (".gz", ".zip") else LARGE // 4
        return (
            self.path.stat().st_size >= least
            and self.delimiter != BLANKS
            and self.delimiter.isascii()
            and not (self.delimiter.isalnum() or self.delimiter in "+-.")
            and codecs.lookup(self.encoding).name in ASCII_LIKE
            and is_installed("pyarrow")
        )

    def read(self, group_doubt: bool) -> tuple[Array, list[list[str]], tuple[int, ...]] | None:
        """Points (m, d) float64, texts by column, and columns of numbers that begin with a 0; None for doubt.

        group_doubt: whether a point before three digits may group thousands.
        """
        with _whole_bytes(self.path) as data:
            begins = _line_start(data, self.line)
            if begins is None or self._sums_up(data):
                return None
            if self.width == 1 and max(data.find(b"\n\n", begins - 1), data.find(b"\n\r\n", begins - 1)) >= 0:
                return None
            cuts = _line_ends(data, begins)
            found = self._facts(np.frombuffer(data, np.uint8), cuts)
            if found is None or self._in_doubt(found[0], group_doubt):
                return None
            return self._converted(data, cuts, *found)

    def _sums_up(self, data: Any) -> bool:
        """Whether the last row may be a sum of the others, or none shows."""
        last = bytes(data[-LONGEST:]).rstrip(b"\r\n")
        at = last.rfind(b"\n") + 1
        cells = last[at:].decode("latin-1").lower().split(self.delimiter)
        return not at or any(cell.strip() in TOTALS for cell in cells)

    def _facts(self, data: Array, cuts: Sequence[int]) -> tuple[Array, list[int]] | None:
        """Facts of every column (width,) uint8, and rows of every block.

        None for rows that are not even, and for bytes that are no letters.
        """
        from field.kernels.cells import HIDDEN, cell_table, scan_cells

        found = np.zeros((len(cuts) - 1, self.width), np.uint8)
        delimiter = ord(self.delimiter)
        table = cell_table(ord(self.decimal), delimiter)

        def scan(i: int) -> int:
            # A block ends with a line, so it cuts no letter.
            block = data[cuts[i] : cuts[i + 1]]
            if not is_text(block, self.encoding):
                return -1
            return int(scan_cells(block, delimiter, *table, found[i]))

        rows = _by_block(cuts, scan)
        facts: Array = np.bitwise_or.reduce(found)
        return None if min(rows) < 0 or (facts & HIDDEN).any() else (facts, rows)

    def _in_doubt(self, found: Array, group_doubt: bool) -> bool:
        """Whether some column of numbers has a cell that is to be looked at."""
        from field.kernels.cells import GROUP, LONG, ODD, POINT, WHOLE, WORD

        own = found[list(self.numbers)]
        odd = ODD | LONG | (0 if self.gaps else WORD)
        open_groups = (own & (GROUP | WHOLE | POINT)) == GROUP | WHOLE
        return bool((own & odd).any() or (group_doubt and open_groups.any()))

    def _converted(
        self, data: Any, cuts: Sequence[int], facts: Array, rows: list[int]
    ) -> tuple[Array, list[list[str]], tuple[int, ...]] | None:
        """What pyarrow reads; None for a cell that it does not."""
        import pyarrow as pa

        from field.kernels.cells import WORD, ZERO

        d, ends = len(self.numbers), np.cumsum([0, *rows])
        worded = (facts[list(self.numbers)] & WORD).any()  # of which one may be NaN, and no word for nothing
        words = self._words if worded else self._words[:1]
        if not ends[-1]:
            return None
        # Of the library's allocator: numpy asks for huge pages, for which a loaded machine first makes room.
        memory = pa.allocate_buffer(8 * d * int(ends[-1]))
        points, places = np.frombuffer(memory, np.float64).reshape(-1, d), np.full(self.width, -1)
        places[list(self.numbers)] = range(d)

        def convert(i: int) -> tuple[int, list[Any]]:
            return self._fill_block(
                memoryview(data)[cuts[i] : cuts[i + 1]], places, words, points[ends[i] : ends[i + 1]]
            )

        try:
            blocks = _by_block(cuts, convert)
        except (pa.ArrowException, ValueError):
            return None
        if worded and np.isnan(points).sum() != sum(nulls for nulls, _ in blocks):
            return None
        texts = [
            [text.strip() for _, columns in blocks for text in columns[at].to_pylist()]
            for at in range(len(self.texts))
        ]
        return points, texts, tuple(at for at in self.numbers if facts[at] & ZERO)

    def _fill_block(
        self, block: Any, places: Array, words: Sequence[str], points: Array
    ) -> tuple[int, list[Any]]:
        """Words for nothing, NaN in points (rows, d), and columns of texts.  Raises as `_arrow_table`."""
        import pyarrow as pa

        from field.kernels.cells import read_numbers

        codes, unread = (ord(self.delimiter), ord(self.decimal)), list[int]()
        known = np.array([int.from_bytes(word.encode(), "big") for word in words], np.uint64)
        absent = int(read_numbers(np.frombuffer(block, np.uint8), *codes, places, known, points))
        if absent >= 0 and not self.texts:
            return absent, []
        if absent < 0:
            absent, unread = 0, list(self.numbers)
        table = self._arrow_table(pa.py_buffer(block), words, unread)
        if table.num_rows != len(points):
            raise ValueError("other rows than were counted")
        for at, column in enumerate(table.columns[: len(unread)]):
            points[:, at] = column.to_numpy()
            absent += column.null_count
        return absent, table.columns[len(unread) :]

    @property
    def _words(self) -> tuple[str, ...]:
        """Words for nothing in columns of numbers."""
        return USUAL_WORDS if self.gaps else ("",) if self.empty else ()

    def _arrow_table(self, block: Any, words: Sequence[str], numbers: Sequence[int]) -> Any:
        """A pyarrow table of these columns of numbers, and then of texts.  Raises ArrowException."""
        import pyarrow as pa
        from pyarrow import csv

        kinds = {str(at): pa.float64() for at in numbers} | {str(at): pa.string() for at in self.texts}
        return csv.read_csv(
            pa.BufferReader(block),
            csv.ReadOptions(
                column_names=list(map(str, range(self.width))), block_size=block.size, use_threads=False
            ),
            csv.ParseOptions(delimiter=self.delimiter, quote_char=False),
            csv.ConvertOptions(
                column_types=kinds, include_columns=list(kinds), null_values=list(words),
                strings_can_be_null=False, decimal_point=self.decimal,
            ),
        )  # fmt: skip


def is_text(block: Array, encoding: str) -> bool:
    """Whether bytes (n,) are letters; those of an encoding of single bytes are looked at elsewhere."""
    if block.max(initial=0) < 128:
        return True
    if "utf-8" not in codecs.lookup(encoding).name:
        return False
    try:
        block.tobytes().decode()
    except UnicodeError:
        return False
    return True


def _by_block(cuts: Sequence[int], work: Callable[[int], R]) -> list[R]:
    """What comes of every block, on all threads: blocks stay in the cache, and their memory is used again."""
    from field.kernels.compiling import run_parallel

    threads = min(os.cpu_count() or 1, 8)
    return run_parallel([partial(work, i) for i in range(len(cuts) - 1)], threads)


def _line_ends(data: Any, begins: int) -> list[int]:
    """Where blocks of about STEP bytes begin, each at a line, and where the last one ends."""
    cuts = [begins]
    while cuts[-1] + STEP < len(data) and (at := data.find(b"\n", cuts[-1] + STEP) + 1):
        cuts.append(at)
    return cuts if cuts[-1] == len(data) > begins else [*cuts, len(data)]


@contextmanager
def _whole_bytes(path: Path) -> Iterator[Any]:
    """The bytes of a file: mapped, or unpacked from an archive."""
    with opened_bytes(path) as file:
        if path.suffix.lower() in (".gz", ".zip"):
            yield file.read()
        else:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            yield mapped  # closed with what was made of it, which pyarrow lets go later


def _line_start(data: Any, line: int) -> int | None:
    """Where a line begins, from 1; None where lines end otherwise than with a line feed."""
    at = 0
    for _ in range(line - 1):
        at = data.find(b"\n", at) + 1
        if not at:
            return None
    head = bytes(data[:at])
    return at if head.count(b"\r") == head.count(b"\r\n") else None
