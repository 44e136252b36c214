"""Files as tables: CSV, Excel, Parquet, .npz and .npy, read one at a time.

Every reader takes (path, wanted, expected): the columns the caller named, and the feature names of
the first file, whose order all files follow (None for the first).  It returns the tables found in
the file; `files` joins them to a federation and documents what each format may hold.

Messages name file, line and column and never show a cell, which may be private.
"""

from __future__ import annotations

import csv
import datetime
import re
import warnings
import zipfile
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from secfc.data.dialects import Dialect, file_stem, with_decimal_point
from secfc.data.inputs import (
    GAPS,
    INEXACT,
    OTHER_USE,
    UNION,
    WHOLE_FLOATS,
    Array,
    InputError,
    Rows,
    check_shape,
    first_inexact,
    names_listed,
    read_only,
    require_library,
)
from secfc.remedies import Remedy

# --------------------------------------------------------------------------------------------------
# Rows of an Excel workbook, one sheet, as a reader of CSV gives them.


class SheetRows:
    """Rows as lists of text, as wide as the first that is not empty; empty rows are [].

    Numbers are written so that they come back bit for bit.  line_num: of the row that was read last, from 1.
    """

    def __init__(self, rows: Iterator[tuple[Any, ...]]) -> None:
        self._rows, self._width, self.line_num = rows, 0, 0

    def __iter__(self) -> SheetRows:
        return self

    def __next__(self) -> list[str]:
        cells = [_text(value) for value in next(self._rows)]
        self.line_num += 1
        while len(cells) > self._width and not cells[-1]:
            cells.pop()
        if not any(cells):
            return []
        self._width = self._width or len(cells)
        return cells + [""] * (self._width - len(cells))


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value)


@contextmanager
def open_excel(path: Path) -> Iterator[SheetRows]:
    """The rows of a workbook's only sheet, read as they are asked for.

    Formulas count as what they came to when the file was saved.  Raises InputError for several sheets.
    """
    require_library(f"{path} is an Excel file, which", "excel")
    from openpyxl import load_workbook
    from openpyxl.utils.exceptions import InvalidFileException

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of styles and validations, which are not read
            book = load_workbook(path, read_only=True, data_only=True)
    except (InvalidFileException, zipfile.BadZipFile, KeyError, ValueError, OSError) as error:
        raise InputError(f"{path} is not a readable .xlsx file. Save it again, or as CSV.") from error
    try:
        sheets = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"]
        if len(sheets) != 1:
            raise InputError(
                f"{path} has {len(sheets)} visible sheets: one is needed, and none is guessed. Save the "
                "sheet with the data as a file of its own."
            )
        yield SheetRows(sheets[0].iter_rows(values_only=True))
    finally:
        book.close()


# --------------------------------------------------------------------------------------------------
# Rows of a Parquet file, decoded when they are asked for.

CACHED_GROUPS = 2  # so that a block across a boundary of row groups decodes neither of them twice


class ParquetRows:
    """The rows of some numeric columns of a Parquet file, read by row group when sliced.

    shape is (m, d), dtype the numpy dtype that holds all d columns.  The last row groups decoded
    are kept; memory is a few row groups, whose size the writer of the file chose.  The file is
    opened for each read, so that many clients do not need many open files.

    Slices must have step 1.  gaps: missing values are NaN, and all are float64; else a row group that has
    some raises InputError when it is read.
    """

    def __init__(self, path: str | PathLike[str], columns: Sequence[str], *, gaps: bool = False) -> None:
        self._path, self._gaps = Path(path), gaps
        self._columns = tuple(columns)
        with open_parquet(self._path) as file:
            self._metadata = file.metadata
            schema = file.schema_arrow
        if unknown := [name for name in self._columns if name not in schema.names]:
            raise InputError(f"{self._path} has no column {unknown[0]!r}. Correct the name.")
        self.dtype: np.dtype[Any] = np.result_type(
            *(_numpy_type(self._path, schema.field(name)) for name in self._columns)
        )
        if gaps:
            self.dtype = np.dtype(np.float64)
        sizes = [self._metadata.row_group(g).num_rows for g in range(self._metadata.num_row_groups)]
        self._starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        self.shape: tuple[int, ...] = (int(self._starts[-1]), len(self._columns))
        self._cache: OrderedDict[int, Array] = OrderedDict()

    def __repr__(self) -> str:
        return f"ParquetRows({self._path.name!r}, shape={self.shape})"

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice, /) -> Array:
        if not isinstance(rows, slice) or rows.step not in (None, 1):
            raise TypeError(f"{self!r} is read by slices [a:b]. Use numpy.asarray for all rows.")
        start, stop, _ = rows.indices(len(self))
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        parts = [np.empty((0, self.shape[1]), dtype=self.dtype)]
        for group in range(first, len(self._starts) - 1):
            offset = int(self._starts[group])
            if offset >= stop:
                break
            parts.append(self._group(group)[max(start - offset, 0) : stop - offset])
        return parts[1] if len(parts) == 2 else np.concatenate(parts)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype=dtype)

    def _group(self, group: int) -> Array:
        if group in self._cache:
            self._cache.move_to_end(group)
            return self._cache[group]
        with open_parquet(self._path, self._metadata) as file:
            table = file.read_row_group(group, columns=list(self._columns))
        decoded = np.empty((table.num_rows, len(self._columns)), dtype=self.dtype)
        for position, name in enumerate(self._columns):
            column = table.column(name)
            if column.null_count and not self._gaps:
                raise InputError(
                    f"{self._path}, column {name!r}: {column.null_count} values are missing in "
                    f"rows {self._starts[group]} to {self._starts[group + 1] - 1}. Every value "
                    "must be there",
                    ["fill the values in or drop the rows", *GAPS],
                )
            # Missing values make floats of whole numbers, and so does another column of floats.
            if (row := first_inexact(column.drop_null().to_numpy())) is not None:
                raise InputError(f"{self._path}, column {name!r}, value {row}: {INEXACT}")
            decoded[:, position] = column.to_numpy()
        self._cache[group] = read_only(decoded)
        while len(self._cache) > CACHED_GROUPS:
            self._cache.popitem(last=False)
        return self._cache[group]


def _numpy_type(path: Path, field: Any) -> np.dtype[Any]:
    from pyarrow.types import is_floating, is_integer, is_temporal

    if is_temporal(field.type):
        raise InputError(
            f"{path}, column {field.name!r}: its type is {field.type}, a date or a time, and features must "
            "be numbers",
            [DURATION, OTHER_USE[0]],
        )
    if not (is_integer(field.type) or is_floating(field.type)):
        raise InputError(
            f"{path}, column {field.name!r}: its type is {field.type}. Features must be integers or floats",
            ["convert the column", *OTHER_USE],
        )
    kind: np.dtype[Any] = np.dtype(field.type.to_pandas_dtype())
    return kind


@contextmanager
def open_parquet(path: Path, metadata: Any = None) -> Iterator[Any]:
    """An open pyarrow.parquet.ParquetFile."""
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise InputError(
            f"{path} is a Parquet file, and pyarrow, which reads these, is not installed. Run "
            "`pip install pyarrow`, or convert the file to CSV."
        ) from error
    try:
        with ParquetFile(path, metadata=metadata) as file:
            yield file
    except (ArrowException, OSError) as error:
        raise InputError(f"{path} is not a readable Parquet file. Write it again.") from error


# --------------------------------------------------------------------------------------------------

# Cells of missing values, in lower case.
DURATION = "write what distance means for it, as years of age or days since an event"
ABSENT = ("", "na", "n/a", "nan", "null")
# Days and times as people and spreadsheets write them.
DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ]\d{1,2}:\d{2}.*)?"
    r"|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})( \d{1,2}:\d{2}.*)?"
    r"|\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?"
    r"|\d{4}-\d{2}|\d{1,2}\.? ?[A-Za-z]{3,9}\.?,? ?\d{4}|[A-Za-z]{3,9}\.? \d{1,2},? \d{4}"
)


# So many digits before the decimal point that a float may not have them all.
DIGITS = 16
LONG = re.compile(rf"(?<![.\d])\d{{{DIGITS}}}")


@dataclass(frozen=True)
class WantedColumns:
    """The columns the caller named.  union: files may have other features than the first, and some only.

    gaps: values may be missing.  texts: columns of categories.  dialect: how text files are written.
    keys: columns of a linkage schema, whose cells may be empty.
    """

    columns: tuple[str, ...] | None
    client: str | None
    ids: str | None
    label: str | None
    union: bool = False
    gaps: bool = False
    texts: tuple[str, ...] = ()
    dialect: Dialect = field(default_factory=Dialect)
    keys: tuple[str, ...] = ()

    def __post_init__(self) -> None:
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
    with wanted.dialect.opened(path) as (lines, decimal):
        try:
            return [row_table(path, lines, wanted, expected, decimal)]
        except csv.Error as error:
            raise InputError(
                f"{path}, line {lines.line_num}: not valid CSV ({error}). Check the quotes."
            ) from error


def row_table(path: Path, lines: Any, wanted: WantedColumns, expected: Any, decimal: str = ".") -> FileTable:
    """Rows of a csv.reader, or what has its line_num, as a table; line numbers are the reader's."""
    first = next((row for row in lines if row), None)
    if first is None:
        raise InputError(f"{path} is empty: a client needs at least one point. Leave it out.")
    header = _header(path, lines.line_num, first, wanted, decimal)
    width = len(first)
    names = list(header) if header else [str(column) for column in range(width)]
    features = _choose(path, header, wanted, expected) if header else tuple(names)
    positions = [names.index(name) for name in features]
    apart: dict[str, list[Any]] = {name: [] for name in wanted.apart}
    columns = [(names.index(name), name, apart[name]) for name in apart]
    other, values = decimal == "," or wanted.gaps or wanted.union, array("d")
    for row in filter(None, lines if header else chain([first], lines)):
        if len(row) != width:
            raise InputError(
                f"{path}, line {lines.line_num}: {len(row)} cells, and the first row has {width}. "
                "Every row needs the same number: correct the row."
            )
        cells = [row[position] for position in positions]
        if other:
            cells = _number_cells(cells, wanted, decimal)
        try:
            values.extend(map(float, cells))
        except ValueError:
            raise _bad_cell(path, lines.line_num, features, cells, row, positions) from None
        if "_" in "".join(cells):  # Python reads 1_2 as twelve.
            raise _bad_cell(path, lines.line_num, features, cells)
        if max(map(len, cells)) >= DIGITS and (at := _first_inexact(cells)) is not None:
            raise InputError(f"{path}, line {lines.line_num}, column {features[at]!r}: {INEXACT}")
        for position, name, column in columns:
            column.append(_cell_apart(row[position].strip(), name, wanted))
            if column[-1] is None:
                raise _bad_cell(path, lines.line_num, (name,), [""])
    if not values:
        raise InputError(f"{path} has a header and no data: a client needs at least one point. Leave it out.")
    points = np.frombuffer(values, dtype=np.float64).reshape(-1, len(features))
    return _set_apart(FileTable(path, file_stem(path), points, features if header else None), wanted, apart)


def _cell_apart(text: str, name: str, wanted: WantedColumns) -> str | None:
    """The text of a cell set apart, None where it may not be empty and is."""
    if wanted.gaps and name in wanted.texts:
        return "" if text.lower() in ABSENT else text
    return text if text or name in wanted.keys else None


def _number_cells(cells: list[str], wanted: WantedColumns, decimal: str) -> list[str]:
    """Cells of features as Python spells numbers, "nan" for values that may be missing and are."""
    if decimal == ",":
        cells = [with_decimal_point(cell) for cell in cells]
    if wanted.gaps:
        return ["nan" if cell.strip().lower() in ABSENT else cell for cell in cells]
    if wanted.union:
        # Whether a column is empty throughout, which is to say not observed, shows in the end.
        return [cell if cell.strip() else "nan" for cell in cells]
    return cells


def _header(
    path: Path, line: int, first: list[str], wanted: WantedColumns, decimal: str
) -> tuple[str, ...] | None:
    """Column names if the first row has them, None if it is data."""
    cells = tuple(cell.strip() for cell in first)
    if wanted.named and set(wanted.named) <= set(cells):
        return cells
    numbers = [_is_number(with_decimal_point(cell) if decimal == "," else cell) for cell in cells]
    if not any(numbers):
        return cells
    if not all(numbers):
        raise InputError(
            f"{path}, line {line}: some cells are numbers and some are not, so the row is neither "
            "a header nor data. Name every column in a header row, or correct the cells."
        )
    if wanted.named:
        raise InputError(
            f"{path} has no header row, so it has no column {wanted.named[0]!r}. Add a header row, "
            "or ask for no columns."
        )
    return None


def _bad_cell(
    path: Path,
    line: int,
    features: Sequence[str],
    cells: Sequence[str],
    row: Sequence[str] | None = None,
    positions: Sequence[int] = (),
) -> InputError:
    """cells: as they were read.  row: as they stand in the file, those of features at positions."""
    at = next(i for i, cell in enumerate(cells) if "_" in cell or not _is_number(cell))
    written = (cells[at] if row is None else row[positions[at]]).strip()
    if DATE.fullmatch(written):
        return InputError(
            f"{path}, line {line}, column {features[at]!r}: the cell is a date or a time, and features must "
            "be numbers",
            [DURATION, OTHER_USE[0]],
        )
    if re.fullmatch(r"[+-]?\d[\d.,]*", written):
        return InputError(
            f"{path}, line {line}, column {features[at]!r}: the cell is a number of another kind than the "
            "rows above, or groups thousands",
            [("decimal", ..., "say what its comma is"), "save the file without separators of thousands"],
        )
    what = "is not a number" if cells[at].strip() else "is empty"
    absent = cells[at].strip().lower() in ABSENT
    more: tuple[Remedy, ...] = ()
    if absent:
        more = GAPS
    elif cells[at].strip():
        more = (("categorical", ..., "have every category of a text made a feature"),)
    return InputError(
        f"{path}, line {line}, column {features[at]!r}: the cell {what}. Every cell must be filled in, and "
        "features must be numbers",
        ["correct the cell", *OTHER_USE, *more],
    )


def _first_inexact(cells: Sequence[str]) -> int | None:
    """The first cell with more whole digits than a float has, and other ones than the float that is read."""
    for at, cell in enumerate(cells):
        if (
            LONG.search(cell)
            and Decimal(cell) != Decimal(value := float(cell))
            and abs(value) >= WHOLE_FLOATS
        ):
            return at
    return None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _read_parquet(path: Path, wanted: WantedColumns, expected: tuple[str, ...] | None) -> list[FileTable]:
    with open_parquet(path) as file:
        features = _choose(path, tuple(file.schema_arrow.names), wanted, expected)
        table = file.read(columns=list(wanted.apart))
        apart = {name: table.column(name).to_pylist() for name in wanted.apart}
    rows = ParquetRows(path, features, gaps=wanted.gaps)
    points = rows if wanted.client is None else rows[:]
    return [_set_apart(FileTable(path, path.stem, points, features), wanted, apart)]


def _read_npz(path: Path, wanted: WantedColumns, expected: tuple[str, ...] | None) -> list[FileTable]:
    with path.open("rb") as handle, _loaded(path, handle, None) as file:
        if not isinstance(file, np.lib.npyio.NpzFile):
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
    features = _choose(path, tuple(names), replace(wanted, client=None, ids=None, label=None), expected)
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
    with _loaded(path, path, "r") as mapped:
        if isinstance(mapped, np.lib.npyio.NpzFile):
            raise InputError(f"{path} is an .npz archive. Rename it to .npz.")
        return [FileTable(path, path.stem, mapped, None)]


@contextmanager
def _loaded(path: Path, source: Any, mmap_mode: Any) -> Iterator[Any]:
    """What numpy.load makes of source, never unpickling; an archive is closed afterwards.

    source is the path for a mapped array, else a file: numpy leaves a broken archive open.
    """
    try:
        loaded = np.load(source, mmap_mode=mmap_mode, allow_pickle=False)
        if isinstance(loaded, np.lib.npyio.NpzFile):
            with loaded:
                yield loaded
        else:
            yield loaded
    except InputError:
        raise
    except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise InputError(
            f"{path} is not a readable {path.suffix} file of numbers: it is cut short, or holds "
            "pickled objects, which are refused since loading them can run code. Save plain arrays."
        ) from error


def _choose(
    path: Path, header: tuple[str, ...], wanted: WantedColumns, expected: tuple[str, ...] | None
) -> tuple[str, ...]:
    """The feature columns, in the order of the first file's (expected, None for the first)."""
    if repeated := sorted({name for name in header if header.count(name) > 1}):
        raise InputError(f"{path} has several columns {repeated[0]!r}: names must differ. Rename one.")
    # Of a union a file holds some features, and an ID or a label perhaps.
    for name in wanted.apart if wanted.union else wanted.named:
        if name not in header:
            raise _unknown(path, name, header)
    chosen = wanted.columns or tuple(name for name in header if name not in wanted.apart)
    features = tuple(name for name in chosen if name in header) if wanted.union else chosen
    _refuse_features(path, header, features, wanted)
    if expected is None:
        return features
    _refuse_other_columns(path, features, expected)
    return expected


def _refuse_features(
    path: Path, header: tuple[str, ...], features: tuple[str, ...], wanted: WantedColumns
) -> None:
    """Raises InputError for no feature, or one without a name."""
    if nameless := {"", "__index_level_0__"} & set(features):
        raise InputError(
            f"{path}, column {header.index(nameless.pop()) + 1} has no name: it looks like a row "
            "number, which is no feature. Write the file without it, or list the columns."
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
    missing = [name for name in expected if name not in features]
    extra = [name for name in features if name not in expected]
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


def _spelled(value: Any, *, binary: bool) -> bool:
    return isinstance(value, str | int | (bytes if binary else str)) and not isinstance(value, bool)


def _read_excel(path: Path, wanted: WantedColumns, expected: tuple[str, ...] | None) -> list[FileTable]:
    with open_excel(path) as rows:
        return [row_table(path, rows, wanted, expected)]


READERS: dict[str, Callable[[Path, WantedColumns, tuple[str, ...] | None], list[FileTable]]] = {
    ".csv": _read_csv,
    ".csv.gz": _read_csv,
    ".tsv": _read_csv,
    ".tsv.gz": _read_csv,
    ".xlsx": _read_excel,
    ".parquet": _read_parquet,
    ".npz": _read_npz,
    ".npy": _read_npy,
}
