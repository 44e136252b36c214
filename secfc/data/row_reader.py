"""Rows of cells as numbers: read one at a time, or at once, with what is noted and all that is wrong.

Messages name file, line and column and never show a cell, which may be private.
"""

from __future__ import annotations

import math
import re
import unicodedata
import warnings
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from secfc.data.dialects import (
    ABSENT,
    TOTALS,
    Dialect,
    NumberFormat,
    PointDoubt,
    RowStream,
    is_number,
    parse_lines,
)
from secfc.data.inputs import GAPS, INEXACT, OTHER_USE, WHOLE_FLOATS, Array, names_listed
from secfc.data.plain_cells import PlainTable
from secfc.data.sources import DURATION
from secfc.errors import Caution, InputError, InputFaults
from secfc.remedies import Remedy

# Days and times as people and spreadsheets write them.
DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ]\d{1,2}:\d{2}.*)?"
    r"|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})( \d{1,2}:\d{2}.*)?"
    r"|\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?"
    r"|\d{4}-\d{2}|\d{1,2}\.? ?[A-Za-z]{3,9}\.?,? ?\d{4}|[A-Za-z]{3,9}\.? \d{1,2},? \d{4}"
)
# So many digits before the decimal point that a float may not have them all.
DIGITS = 16
TRUTH = {"true": "1", "false": "0"}
CODE = re.compile(r"\s*[+-]?0\d", re.MULTILINE)  # a number that begins with a 0
LONG = re.compile(rf"(?<![.\d])\d{{{DIGITS}}}")


@dataclass(frozen=True)
class WantedColumns:
    """The columns the caller named.  union: files may have other features than the first, and some only.

    gaps: values may be missing.  texts: columns of categories, and those that are listed, None for any.
    dialect: how files are written.  keys: columns of a linkage schema, whose cells may be empty.
    exclude: columns that nothing is read of.
    """

    columns: tuple[str, ...] | None
    client: str | None
    ids: str | None
    label: str | None
    union: bool = False
    gaps: bool = False
    texts: Mapping[str, Sequence[str] | None] = field(default_factory=dict)
    dialect: Dialect = field(default_factory=Dialect)
    keys: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("client", "ids", "label"):
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, normalize_name(given))
        for name in ("columns", "keys", "exclude"):
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, tuple(map(normalize_name, given)))
        if both := set(self.exclude) & set(self.named):
            raise InputError(
                f"column {min(both)!r} is to be left out, and has a use: name it for one of the two."
            )
        if len(set(self.named)) < len(self.named) or self.columns == ():
            raise InputError(
                f"the columns asked for are {names_listed(self.named)}: every column has one use, and "
                "columns lists one feature or more. Name each column once."
            )

    @property
    def apart(self) -> tuple[str, ...]:
        """Columns that are no features."""
        return tuple(
            name for name in (self.client, self.ids, self.label, *self.texts, *self.keys) if name is not None
        )

    @property
    def linking(self) -> tuple[str, ...]:
        """Columns that say which rows are the same."""
        return (*self.keys, *((self.ids,) if self.ids is not None else ()))

    @property
    def named(self) -> tuple[str, ...]:
        return self.apart + (self.columns or ())


# Kinds of faults of a file that are told at once, and faults after which it is read no further.
MOST_FAULTS, MOST_CELLS = 20, 10_000


class RowReader:
    """Rows of cells as numbers and as columns set apart; faults are kept, and told at the end."""

    def __init__(
        self,
        path: Path,
        names: tuple[str, ...],
        features: tuple[str, ...],
        wanted: WantedColumns,
        numbers: NumberFormat,
    ) -> None:
        self.path, self.features, self.wanted, self.numbers = path, features, wanted, numbers
        place = {name: at for at, name in enumerate(names)}
        self.width, self.positions = len(names), [place[name] for name in features]
        self.apart: dict[str, list[str]] = {name: [] for name in wanted.apart if name in names}
        self.columns = [(names.index(name), name, column) for name, column in self.apart.items()]
        self.absent = absent_words(wanted, names)
        self.words = [self.absent[name] for name in features]
        dialect = wanted.dialect
        given = dialect.decimal is not None or dialect.thousands is not None
        self.doubt = PointDoubt([] if given or not numbers.is_plain else self.positions)
        self.names, self.values = names, array("d")
        self.truths: dict[int, list[int]] = {}  # lines of true and false, by feature
        self.zeros: set[str] = set()  # columns of numbers, in which some begin with a 0 as codes do
        self.line, self.last = 0, list[str]()  # what was read last
        self.faults: dict[str, list[Any]] = {}  # the first of its kind, its line, and how many there are

    def add(self, row: list[str], line: int) -> None:
        """Take a row.  Raises InputError, InputFaults for the last of as many faults as are told at once."""
        try:
            self._take(row, line)
        except InputFaults as faults:
            found: Sequence[InputError] = faults.faults
        except InputError as fault:
            found = (fault,)
        else:
            return
        for one in found:
            kind = self.faults.setdefault(one.rule.replace(f"line {line}", "line"), [one, line, 0])
            kind[2] += 1
        if len(self.faults) >= MOST_FAULTS or sum(kind[2] for kind in self.faults.values()) >= MOST_CELLS:
            self._tell()

    def read(self, rows: RowStream, first: list[str] | None) -> tuple[Array, dict[str, list[str]]]:
        """Points (m, d) float64, and the columns set apart, of all rows.  Raises InputError, InputFaults.

        first: the row that was taken last, if it is one of them.  Numbers that look like codes are noted.
        """
        found = self.read_at_once(rows, rows.line_num + (first is None))
        if found is None:
            if first is not None:
                self.add(first, rows.line_num)
            empty = 0
            for row in rows:
                if row:
                    self._refuse_empty(empty)
                    self.add(row, rows.line_num)
                elif self.width == 1:
                    empty = empty or rows.line_num
            self._refuse_empty(empty if rows.delimiter is not None else 0)  # sheets end in empty rows
            found = self.finished()
        if self.zeros:
            names = ", ".join(map(repr, sorted(self.zeros)))
            warnings.warn(
                Caution(
                    f"{self.path}, column {names}: some cells begin with a 0, as codes do, and numbers do "
                    "not keep it: 00501 is 501",
                    [("exclude", ..., "leave it out"), ("categorical", ..., "name it as one of categories")],
                ),
                stacklevel=2,
            )
        return found

    def _refuse_empty(self, line: int) -> None:
        """Raise InputError for an empty line of a table of one column, 0 for none."""
        if line:
            raise InputError(
                f"{self.path}, line {line}: the line is empty in a table of one column: a value is missing, "
                "or none",
                [("skip", str(line), "leave the line out"), "write NA for a missing value"],
            )

    def read_at_once(self, rows: RowStream, line: int) -> tuple[Array, dict[str, list[str]]] | None:
        """As `finished` of all rows from a line on, if nothing in them needs a look; else None."""
        dialect = self.wanted.dialect
        own = bool(dialect.absent or self.numbers.thousands or parse_lines(dialect.skip)[-1:] >= (line,))
        if rows.delimiter is None or own:
            return None
        table = PlainTable(
            self.path, line, self.width, rows.delimiter, rows.encoding, self.numbers.decimal, self.positions,
            [at for at, *_ in self.columns], self.wanted.gaps, self.wanted.union,
        )  # fmt: skip
        found = table.read(bool(self.doubt.open)) if table.is_read else None
        if found is None:
            return None
        points, texts, zeros = found
        self.zeros.update(self.names[at] for at in zeros)
        apart = self._texts_apart(texts)
        return None if apart is None else (points, apart)

    def _texts_apart(self, texts: Sequence[list[str]]) -> dict[str, list[str]] | None:
        """Columns set apart, "" for nothing where that may be; None where it may not."""
        apart = dict(zip(self.apart, texts, strict=True))
        if any("" in cells for name, cells in apart.items() if name not in self.wanted.keys):
            return None
        for name in self.wanted.texts if self.wanted.gaps else ():
            apart[name] = ["" if cell.lower() in self.absent[name] else cell for cell in apart[name]]
        return apart

    def _tell(self, *late: InputError) -> None:
        """Raise what is wrong, each kind once, if something is.  late: what the whole file has shown."""
        told = []
        for fault, line, count in self.faults.values():
            more = f" and {count - 1} more" if count > 1 else ""
            told.append(
                InputError(fault.rule.replace(f"line {line}", f"line {line}{more}"), fault.remedies)
                if more
                else fault
            )
        told += late
        if told:
            raise told[0] if len(told) == 1 else InputFaults(told)

    def finished(self) -> tuple[Array, dict[str, list[str]]]:
        """Points (m, d) float64, and the columns set apart.  Raises InputError, InputFaults."""
        points = np.frombuffer(self.values, dtype=np.float64).reshape(-1, len(self.features))
        late = []
        for check in (
            partial(self.doubt.check, self.path, self.names),
            self._check_last,
            partial(self._check_truths, points),
        ):
            try:
                check()
            except InputError as fault:
                late.append(fault)
        self._tell(*late)
        if not self.values:
            raise InputError(
                f"{self.path} has a header and no data: a client needs at least one point. Leave it out."
            )
        return points, self.apart

    def _check_last(self) -> None:
        """Raise InputError for a last row that seems to be a sum."""
        if self.last and any(cell.strip().lower() in TOTALS for cell in self.last):
            raise InputError(
                f"{self.path}, line {self.line}: the last row seems to sum up the others",
                [("skip", str(self.line), "leave it out"), "delete it"],
            )

    def _take(self, row: list[str], line: int) -> None:
        if len(row) != self.width:
            raise InputError(
                f"{self.path}, line {line}: {len(row)} cells, and the first row has {self.width}. "
                "Every row needs the same number: correct the row."
            )
        self.line, self.last = line, row
        self.doubt.look(row, line)
        cells = self._convert(self._cells(row, line), row, line)
        self._look_at_signs(cells, line)
        if max(map(len, cells)) >= DIGITS and (at := _first_inexact(cells)) is not None:
            raise InputError(f"{self.path}, line {line}, column {self.features[at]!r}: {INEXACT}")
        for position, name, column in self.columns:
            column.append(self._apart(name, row[position].strip(), line))

    def _convert(self, cells: list[str], row: list[str], line: int) -> list[str]:
        """Cells as they were converted: true and false as 1 and 0.  Raises InputError, InputFaults."""
        try:
            self.values.extend(map(float, cells))
        except ValueError:
            del self.values[len(self.values) // len(cells) * len(cells) :]
        else:
            return cells
        known = [TRUTH.get(cell.strip().lower(), cell) for cell in cells]
        bad = [
            _bad_cell(self.path, line, name, cell, row[position].strip())
            for name, cell, position in zip(self.features, known, self.positions, strict=True)
            if "_" in cell or not is_number(cell)
        ]
        if bad:
            raise bad[0] if len(bad) == 1 else InputFaults(bad)
        for at, (cell, plain) in enumerate(zip(cells, known, strict=True)):
            if cell is not plain:
                self.truths.setdefault(at, []).append(line)
        self.values.extend(map(float, known))
        return known

    def _check_truths(self, points: Array) -> None:
        """Raise InputError for a column of which some cells are true or false, and others numbers."""
        for at, lines in self.truths.items():
            if len(lines) < np.count_nonzero(~np.isnan(points[:, at])):
                raise InputError(
                    f"{self.path}, line {lines[0]}, column {self.features[at]!r}: the cell is true or false, "
                    "and others of the column are numbers",
                    ["write all alike", OTHER_USE[0]],
                )

    def _look_at_signs(self, cells: Sequence[str], line: int) -> None:
        """Note numbers that begin with a 0.  Raises InputError for 1_2, which Python reads as twelve."""
        joined = "\n".join(cells)
        if "_" in joined:
            name, cell = next((n, c) for n, c in zip(self.features, cells, strict=True) if "_" in c)
            raise _bad_cell(self.path, line, name, cell, cell)
        if CODE.search(joined):
            self.zeros.update(name for name, c in zip(self.features, cells, strict=True) if CODE.match(c))

    def _cells(self, row: list[str], line: int) -> list[str]:
        """Cells of the features, as Python reads numbers; nan where nothing is and may be."""
        written = [row[position] for position in self.positions]
        plain = self.numbers.plain
        cells = written if self.numbers.is_plain else [plain(cell) for cell in written]
        if self.wanted.gaps:
            return [
                "nan" if cell.strip().lower() in words else number
                for cell, words, number in zip(written, self.words, cells, strict=True)
            ]
        if self.wanted.union:
            # Whether a column is empty throughout, which is to say not observed, shows in the end.
            cells = [cell if cell.strip() else "nan" for cell in cells]
        if self.wanted.dialect.absent:
            for name, cell, words in zip(self.features, written, self.words, strict=True):
                if cell.strip() and cell.strip().lower() in words:
                    raise InputError(
                        f"{self.path}, line {line}, column {name!r}: the cell stands for nothing, and every "
                        "value must be there",
                        GAPS,
                    )
        return cells

    def _apart(self, name: str, cell: str, line: int) -> str:
        """A cell of a column set apart, "" for nothing."""
        if self.wanted.gaps and name in self.wanted.texts:
            return "" if cell.lower() in self.absent[name] else cell
        if not cell and name not in self.wanted.keys:
            raise InputError(
                f"{self.path}, line {line}, column {name!r}: the cell is empty, and each row needs one",
                ["fill it in", "drop the row"],
            )
        return cell


def absent_words(wanted: WantedColumns, names: Sequence[str]) -> dict[str, frozenset[str]]:
    """Words for nothing of each column, in lower case; a category that is listed is none.

    Raises InputError for words of a column that there is not.
    """
    found = {name: set(ABSENT) for name in names}
    for entry in wanted.dialect.absent:
        column, of_column, word = entry.rpartition("=")
        if of_column and column not in found and not wanted.union:
            raise InputError(
                f"no column {column!r} is there: the columns are {names_listed(names)}",
                ["correct the name"],
                {"absent": wanted.dialect.absent},
            )
        for name in (column,) if of_column else names:
            found.setdefault(name, set()).add(word.strip().lower())
    for name, listed in wanted.texts.items():
        if name in found:
            found[name] -= {category.lower() for category in listed or ()}
    return {name: frozenset(words) for name, words in found.items()}


DASHES = r"[\u2010-\u2015\u2212\ufe63\uff0d]"  # what looks like a minus and is none


def normalize_name(name: str) -> str:
    """The name of a column: without blanks at its ends, and composed, as a letter with a mark may be two."""
    return unicodedata.normalize("NFC", name.strip())


def _bad_cell(path: Path, line: int, name: str, cell: str, written: str) -> InputError:
    """The error for a cell of a column: as it was read, and as it stands in the file."""
    if DATE.fullmatch(written):
        return InputError(
            f"{path}, line {line}, column {name!r}: the cell is a date or a time, and features must "
            "be numbers",
            [DURATION, OTHER_USE[0]],
        )
    if re.fullmatch(r"[+-]?[\d.,]+ ?%", written):
        return InputError(
            f"{path}, line {line}, column {name!r}: the cell is a percentage: features must be numbers",
            ["write the number without a sign, alike in all files", OTHER_USE[0]],
        )
    if re.fullmatch(rf"{DASHES}[\d.,]+", written):
        return InputError(
            f"{path}, line {line}, column {name!r}: the cell begins with U+{ord(written[0]):04X}, which "
            "looks like a minus and is none",
            ["write the hyphen of the keyboard (U+002D) there, alike in all files", OTHER_USE[0]],
        )
    if re.fullmatch(r"[+-]?\d[\d.,]*", written):
        return InputError(
            f"{path}, line {line}, column {name!r}: the cell is a number of another kind than the "
            "rows above, or groups thousands",
            [("decimal", ..., "say what its comma is"), ("thousands", ..., "say what groups digits")],
        )
    what = "is not a number" if cell.strip() else "is empty"
    absent = cell.strip().lower() in ABSENT
    more: tuple[Remedy, ...] = ()
    if absent:
        more = GAPS
    elif cell.strip():
        more = (
            ("categorical", ..., "have every category of a text made a feature"),
            ("absent", ..., "say that a word stands for nothing"),
        )
    return InputError(
        f"{path}, line {line}, column {name!r}: the cell {what}. Every cell must be filled in, and "
        "features must be numbers",
        ["correct the cell", *(OTHER_USE if cell.strip() else OTHER_USE[:1]), *more],
    )


def _first_inexact(cells: Sequence[str]) -> int | None:
    """The first cell with more whole digits than a float has, and other ones than the float that is read."""
    for at, cell in enumerate(cells):
        # Beyond the largest float a number is infinite, and refused as that.
        large = LONG.search(cell) and WHOLE_FLOATS <= abs(float(cell)) < math.inf
        if large and Decimal(cell) != Decimal(float(cell)):
            return at
    return None
