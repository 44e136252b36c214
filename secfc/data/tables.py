"""Files as tables: CSV, Excel, Parquet, .npz and .npy, read one at a time.

Every reader takes (path, wanted, expected): the columns the caller named, and the feature names of
the first file, whose order all files follow (None for the first).  It returns the tables found in
the file; `files` joins them to a federation and documents what each format may hold.

Messages name file, line and column and never show a cell, which may be private.
"""

from __future__ import annotations

import math
import re
import unicodedata
import warnings
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from secfc.data.dialects import (
    ABSENT,
    LOOKED_AT,
    PREAMBLE,
    TOTALS,
    BadRow,
    Dialect,
    NumberCell,
    NumberFormat,
    PointDoubt,
    RowStream,
    check_first_row,
    file_stem,
    find_strange_lines,
    is_number,
    parse_lines,
    refuse_lines,
)
from secfc.data.inputs import (
    GAPS,
    INEXACT,
    OTHER_USE,
    UNION,
    WHOLE_FLOATS,
    Array,
    Rows,
    check_shape,
    names_listed,
)
from secfc.data.plain_cells import PlainTable
from secfc.data.sources import (
    DURATION,
    ArrayArchive,
    ParquetRows,
    open_arrays,
    open_excel,
    open_parquet,
)
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


@dataclass(frozen=True)
class FileTable:
    """What a file holds: points, and the columns set apart, a value a row."""

    path: Path
    name: str
    points: Rows
    features: tuple[str, ...] | None
    clients: Sequence[Any] | None = None
    ids: Sequence[Any] | None = None
    labels: Sequence[Any] | None = None
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        several = self.name != file_stem(self.path)
        owner = f"{self.path}, array {self.name!r}," if several else f"{self.path}"
        check_shape(tuple(self.points.shape), owner)


def _read_csv(path: Path, wanted: WantedColumns, expected: tuple[str, ...] | None) -> list[FileTable]:
    with wanted.dialect.opened(path) as (rows, numbers):
        try:
            return [row_table(path, rows, wanted, expected, numbers)]
        except BadRow as error:
            raise error.at(path) from error


def row_table(
    path: Path, rows: RowStream, wanted: WantedColumns, expected: Any, numbers: NumberFormat
) -> FileTable:
    """Rows as a table.  Raises InputError, or InputFaults for several faults."""
    if not wanted.dialect.skip and (strange := find_strange_lines(rows.ahead(PREAMBLE), numbers)):
        raise refuse_lines(path, *strange)
    first = next((row for row in rows if row), None)
    if first is None:
        raise InputError(f"{path} is empty: a client needs at least one point. Leave it out.")
    header = find_header(path, rows.line_num, first, wanted, numbers)
    names = header or tuple(str(column) for column in range(len(first)))
    chosen = bool(header or wanted.named or wanted.exclude)
    features = _choose(path, names, wanted, expected) if chosen else names
    reader = RowReader(path, names, features, wanted, numbers)
    points, apart = reader.read(rows, first if header is None else None)
    return _set_apart(FileTable(path, file_stem(path), points, features if chosen else None), wanted, apart)


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
            for row in rows:
                if row:
                    self.add(row, rows.line_num)
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

    def _tell(self) -> None:
        """Raise what is wrong, each kind once, if something is."""
        told = []
        for fault, line, count in self.faults.values():
            more = f" and {count - 1} more" if count > 1 else ""
            told.append(
                InputError(fault.rule.replace(f"line {line}", f"line {line}{more}"), fault.remedies)
                if more
                else fault
            )
        if told:
            raise told[0] if len(told) == 1 else InputFaults(told)

    def finished(self) -> tuple[Array, dict[str, list[str]]]:
        """Points (m, d) float64, and the columns set apart.  Raises InputError, InputFaults."""
        self._tell()
        if not self.values:
            raise InputError(
                f"{self.path} has a header and no data: a client needs at least one point. Leave it out."
            )
        self.doubt.check(self.path, self.names)
        if self.last and any(cell.strip().lower() in TOTALS for cell in self.last):
            raise InputError(
                f"{self.path}, line {self.line}: the last row seems to sum up the others",
                [("skip", str(self.line), "leave it out"), "delete it"],
            )
        points = np.frombuffer(self.values, dtype=np.float64).reshape(-1, len(self.features))
        return points, self.apart

    def _take(self, row: list[str], line: int) -> None:
        if len(row) != self.width:
            raise InputError(
                f"{self.path}, line {line}: {len(row)} cells, and the first row has {self.width}. "
                "Every row needs the same number: correct the row."
            )
        self.line, self.last = line, row
        self.doubt.look(row, line)
        cells = self._cells(row, line)
        try:
            self.values.extend(map(float, cells))
        except ValueError:
            del self.values[len(self.values) // len(cells) * len(cells) :]
            bad = [
                _bad_cell(self.path, line, name, cell, row[position].strip())
                for name, cell, position in zip(self.features, cells, self.positions, strict=True)
                if "_" in cell or not is_number(cell)
            ]
            raise bad[0] if len(bad) == 1 else InputFaults(bad) from None
        self._look_at_signs(cells, line)
        if max(map(len, cells)) >= DIGITS and (at := _first_inexact(cells)) is not None:
            raise InputError(f"{self.path}, line {line}, column {self.features[at]!r}: {INEXACT}")
        for position, name, column in self.columns:
            column.append(self._apart(name, row[position].strip(), line))

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


class UnnamedColumn(str):
    """What a column without a name is called: by its position, from 1."""

    __slots__ = ()


def find_header(
    path: Path, line: int, first: list[str], wanted: WantedColumns, numbers: NumberFormat
) -> tuple[str, ...] | None:
    """Column names if the first row has them, None if it is data."""
    cells = tuple(normalize_name(c) or UnnamedColumn(f"column {i}") for i, c in enumerate(first, 1))
    if wanted.dialect.header is not None:
        return cells if wanted.dialect.header else None
    if wanted.named and set(wanted.named) <= set(cells):
        return cells
    figures = [is_number(numbers.plain(cell)) for cell in first]
    if not any(figures):
        return cells
    if not all(figures):
        raise InputError(
            f"{path}, line {line}: some cells are numbers and some are not, so the row is neither "
            "a header nor data",
            [
                "name every column in a header row", "correct the cells",
                ("header", True, "say that these are names"), ("header", False, "say that this is data"),
            ],
        )  # fmt: skip
    check_first_row(path, line, cells)
    if wanted.named:
        raise InputError(
            f"{path} has no header row, so it has no column {wanted.named[0]!r}",
            ["add a header row", "ask for no columns", ("header", False, "call columns by position, from 0")],
        )
    return None


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


def _read_parquet(path: Path, wanted: WantedColumns, expected: tuple[str, ...] | None) -> list[FileTable]:
    with open_parquet(path) as file:
        features = _choose(path, tuple(file.schema_arrow.names), wanted, expected)
        table = file.read(columns=list(wanted.apart))
        apart = {name: table.column(name).to_pylist() for name in wanted.apart}
    rows = ParquetRows(path, features, gaps=wanted.gaps)
    points = rows if wanted.client is None else rows[:]
    return [_set_apart(FileTable(path, path.stem, points, features), wanted, apart)]


def _read_npz(path: Path, wanted: WantedColumns, expected: tuple[str, ...] | None) -> list[FileTable]:
    with path.open("rb") as handle, open_arrays(path, handle, None) as file:
        if not isinstance(file, ArrayArchive):
            raise InputError(f"{path} is no .npz archive. Rename it to .npy if it is one array.")
        if "X" not in file.files:
            return _npz_clients(path, file, wanted)
        free = set(file.files) - set(wanted.named)
        wanted = replace(
            wanted,
            client=wanted.client or next(iter(free & {"client"}), None),
            label=wanted.label or next(iter(free & {"y"}), None),
        )
        for name in wanted.apart:
            if name not in file.files:
                raise _unknown(path, name, file.files)
        points = file["X"]
        check_shape(points.shape, f"{path}, array 'X',")
        names = file["feature_names"].tolist() if "feature_names" in file.files else None
        apart = {name: file[name].tolist() for name in wanted.apart}
    if names is None:
        if wanted.columns:
            raise InputError(f"{path} has no feature_names, so columns cannot be chosen. Add them.")
        return [_set_apart(FileTable(path, path.stem, points, None), wanted, apart)]
    if len(names) != points.shape[1]:
        raise InputError(
            f"{path}: {len(names)} feature_names and X of shape {points.shape}: one name a "
            "column is needed. Correct feature_names."
        )
    names = [str(name) for name in names]
    features = _choose(
        path, tuple(names), replace(wanted, client=None, ids=None, label=None, texts={}), expected
    )
    points = points[:, [names.index(name) for name in features]]
    return [_set_apart(FileTable(path, path.stem, points, features), wanted, apart)]


def _npz_clients(path: Path, file: Any, wanted: WantedColumns) -> list[FileTable]:
    if wanted.named:
        raise InputError(f"{path} has no array X, so {wanted.named[0]!r} is unknown. Save X and it.")
    if not file.files:
        raise InputError(f"{path} is empty: one array a client is needed. Leave it out.")
    single = len(file.files) == 1
    return [FileTable(path, path.stem if single else key, file[key], None) for key in file.files]


def _read_npy(path: Path, wanted: WantedColumns, expected: tuple[str, ...] | None) -> list[FileTable]:
    if wanted.named:
        raise InputError(
            f"{path} has no column names, so {wanted.named[0]!r} is unknown. Use .npz, CSV or Parquet."
        )
    with open_arrays(path, path, "r") as mapped:
        if isinstance(mapped, ArrayArchive):
            raise InputError(f"{path} is an .npz archive. Rename it to .npz.")
        return [FileTable(path, path.stem, mapped, None)]


def _choose(
    path: Path, header: tuple[str, ...], wanted: WantedColumns, expected: tuple[str, ...] | None
) -> tuple[str, ...]:
    """The feature columns, in the order of the first file's (expected, None for the first)."""
    if repeated := sorted(name for name, count in Counter(header).items() if count > 1):
        raise InputError(f"{path} has several columns {repeated[0]!r}: names must differ. Rename one.")
    # Of a union a file holds some features, and an ID or a label perhaps.
    known, unused = frozenset(header), {*wanted.apart, *wanted.exclude}
    for name in wanted.apart if wanted.union else (*wanted.named, *wanted.exclude):
        if name not in known:
            raise _unknown(path, name, header)
    chosen = wanted.columns or tuple(name for name in header if name not in unused)
    features = tuple(name for name in chosen if name in known) if wanted.union else chosen
    _refuse_features(path, header, features, wanted)
    if expected is None:
        return features
    _refuse_other_columns(path, features, expected)
    return expected


def _refuse_features(
    path: Path, header: tuple[str, ...], features: tuple[str, ...], wanted: WantedColumns
) -> None:
    """Raises InputError for no feature, or one without a name."""
    nameless = [name for name in features if isinstance(name, UnnamedColumn) or name == "__index_level_0__"]
    if nameless and wanted.columns is None:
        raise InputError(
            f"{path}, column {header.index(nameless[0]) + 1} has no name: it looks like a row number or IDs, "
            "which are no feature",
            [
                ("exclude", str(nameless[0]), "leave it out"),
                ("id_column", str(nameless[0]), "name it as IDs"),
                "write the file without it",
            ],
        )
    if not features and wanted.columns:
        raise InputError(
            f"{path} has none of the columns asked for, {names_listed(wanted.columns)}: a client observes "
            "at least one. Leave it out, or ask for more columns."
        )
    if not features:
        raise InputError(f"{path} has no feature columns: at least one is needed. Add one.")


def _refuse_other_columns(path: Path, features: Sequence[str], expected: Sequence[str]) -> None:
    """Raises InputError for features that are not those of the first file."""
    here, due = frozenset(features), frozenset(expected)
    missing, extra = [name for name in expected if name not in here], [n for n in features if n not in due]
    if missing or extra:
        raise InputError(
            f"{path} has other columns than the first file: missing are {names_listed(missing)}, "
            f"additional are {names_listed(extra)}. All files need the same",
            [("columns", ..., "list the common ones"), UNION],
        )


def _unknown(path: Path, name: str, known: Sequence[str]) -> InputError:
    return InputError(f"{path} has no column {name!r}: its columns are {names_listed(known)}. Correct it.")


def _set_apart(table: FileTable, wanted: WantedColumns, apart: dict[str, list[Any]]) -> FileTable:
    """The table with its columns set apart, one value a row and none missing."""
    for name, column in apart.items():
        _check_apart(table, wanted, name, column)
    clients, ids, labels = (
        None if name is None else apart[name] for name in (wanted.client, wanted.ids, wanted.label)
    )
    if ids is not None:
        ids = [normalize_id(value) for value in ids]
        check_spelling(table.path, ids)
    texts = {
        name: ["" if value is None or value != value else str(value) for value in apart[name]]
        for name in (*wanted.texts, *wanted.keys)
    }
    return replace(table, clients=clients, ids=ids, labels=labels, texts=texts)


def _check_apart(table: FileTable, wanted: WantedColumns, name: str, column: Any) -> None:
    """Raises InputError for a column set apart that lacks a value, or has one of a kind that it may not."""
    if not isinstance(column, list) or len(column) != table.points.shape[0]:
        raise InputError(
            f"{table.path}, column {name!r}: one value for each of {table.points.shape[0]} "
            "points is needed. Correct its length."
        )
    optional = name in wanted.keys or (wanted.gaps and name in wanted.texts)
    for row, value in enumerate(column):
        empty = value is None or value != value
        if empty and optional:
            continue
        if empty or isinstance(value, list | dict) or (name == wanted.ids and value == ""):
            raise InputError(
                f"{table.path}, column {name!r}, row {row} (counted from 0): the value is "
                "missing or no single value. Fill it in or drop the row."
            )
        if name in wanted.linking and not _spelled(value, binary=name == wanted.ids):
            raise InputError(
                f"{table.path}, column {name!r}: its cells are of type {type(value).__name__}, which has "
                "no one spelling. IDs are text or whole numbers: convert the column."
            )


def normalize_id(name: Any) -> Any:
    """An ID as it is compared: text without blanks at its ends, so 7 of Parquet is 7 of CSV; or bytes."""
    return name if isinstance(name, bytes) else str(name).strip()


# What programs make of whole numbers that they take for floats.
SPOILED = re.compile(r"[+-]?\d+\.0+|[+-]?\d+(?:[.,]\d+)?[eE]\+\d+")


def check_spelling(path: Path, ids: Iterable[Any]) -> None:
    """Raise InputError for an ID that a program wrote as a float: 7.0 and 7 are two IDs, 1.2E+15 is many."""
    for row, name in enumerate(ids):
        if isinstance(name, str) and SPOILED.fullmatch(name):
            raise InputError(
                f"{path}, row {row} (counted from 0): the ID is written as a float is, with .0 or an "
                "exponent, as spreadsheets and data frames do to whole numbers; another file may have it "
                "otherwise. Write IDs as text, as they were given"
            )


def _spelled(value: Any, *, binary: bool) -> bool:
    return isinstance(value, str | int | (bytes if binary else str)) and not isinstance(value, bool)


def _read_excel(path: Path, wanted: WantedColumns, expected: tuple[str, ...] | None) -> list[FileTable]:
    with open_excel(path, wanted.dialect) as rows:
        cells = [cell for _, row in rows.ahead(LOOKED_AT) for cell in row if not isinstance(cell, NumberCell)]
        return [row_table(path, rows, wanted, expected, wanted.dialect.numbers_of(path, cells))]


READERS: dict[str, Callable[[Path, WantedColumns, tuple[str, ...] | None], list[FileTable]]] = {
    ".csv": _read_csv,
    ".csv.gz": _read_csv,
    ".csv.zip": _read_csv,
    ".tsv": _read_csv,
    ".tsv.gz": _read_csv,
    ".tsv.zip": _read_csv,
    ".txt": _read_csv,
    ".data": _read_csv,
    ".xlsx": _read_excel,
    ".parquet": _read_parquet,
    ".npz": _read_npz,
    ".npy": _read_npy,
}
