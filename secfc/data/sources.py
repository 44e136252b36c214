"""Rows of workbooks and queries, as of text files, and of Parquet and Arrow files, as they are asked for."""

from __future__ import annotations

import datetime
import os
import re
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from decimal import Decimal
from importlib import import_module
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from field.ring.errors import install_command
from secfc.data.dialects import LOOKED_AT, Dialect, NumberCell, RowStream, check_unpacked
from secfc.data.inputs import (
    GAPS,
    INEXACT,
    OTHER_USE,
    Array,
    first_inexact,
    kind_name,
    names_listed,
    read_only,
    require_library,
)
from secfc.errors import Caution, InputError, refuse_damaged

# --------------------------------------------------------------------------------------------------
# Rows of an Excel workbook, one sheet, as a text file gives them.


def _sheet_rows(rows: Iterable[tuple[Any, ...]], hidden: Collection[int]) -> Iterator[tuple[int, list[str]]]:
    """Numbers of rows, from 1, and their cells as text, as wide as the first that is not empty.

    Empty rows are [].  Numbers are written so that they come back bit for bit.
    """
    width = 0
    for line, values in enumerate(rows, 1):
        if line in hidden:
            continue
        cells = [cell_text(value) for value in values]
        while len(cells) > width and not cells[-1]:
            cells.pop()
        if not any(cells):
            yield line, []
            continue
        width = width or len(cells)
        yield line, cells + [""] * (width - len(cells))


def _guarded(rows: Iterator[Any], path: Path) -> Iterator[Any]:
    """Rows as a library finds them.  Raises InputError where it cannot go on."""
    while True:
        with _damaged(path):
            row = next(rows, None)
        if row is None:
            return
        yield row


def _damaged(path: Path) -> Any:
    return refuse_damaged(f"{path} is not a readable .xlsx file. Save it again, or as CSV.")


def cell_text(value: Any) -> str:
    """A value of a workbook or a Parquet file as a cell of a text file."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return NumberCell(repr(value))
    if isinstance(value, Decimal):
        return NumberCell(str(value))
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value)


@contextmanager
def open_excel(path: Path, dialect: Dialect | None = None) -> Iterator[RowStream]:
    """The rows of a workbook's sheet, read as they are asked for.

    Formulas count as what they came to when the file was saved.  Rows that are hidden, and columns that are
    shown as percentages, are told by a `Caution`.  Raises InputError for several sheets.
    """
    dialect = dialect or Dialect()
    require_library(f"{path} is an Excel file, which", "excel")
    from openpyxl import load_workbook

    check_unpacked(path)
    with ExitStack() as opened:
        handle = opened.enter_context(path.open("rb"))
        with warnings.catch_warnings(), _damaged(path):
            warnings.simplefilter("ignore", UserWarning)  # of styles and validations, which are not read
            book = load_workbook(handle, read_only=True, data_only=True)
        opened.callback(book.close)
        sheet = _choose_sheet(path, book, dialect.sheet)
        with _damaged(path):
            hidden, percent = _hidden_rows(path, sheet), _percent_columns(sheet)
        if hidden and not dialect.visible_only:
            warnings.warn(
                Caution(
                    f"{path} has {len(hidden)} hidden rows, which are read as all others",
                    [("visible_only", True, "leave them out")],
                ),
                stacklevel=2,
            )
        if shown := percent:
            warnings.warn(
                Caution(
                    f"{path} shows column {', '.join(shown)} as percentages: its numbers are read as they "
                    "are kept, so 69 % is 0.69. Other files must write it so"
                ),
                stacklevel=2,
            )
        skipped = {*dialect.skip, *(hidden if dialect.visible_only else ())}
        yield RowStream(_sheet_rows(_guarded(sheet.iter_rows(values_only=True), path), skipped))


def _choose_sheet(path: Path, book: Any, name: str | None) -> Any:
    """The sheet of this name, or the only one that is shown.  Raises InputError."""
    shown = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"]
    if name is not None:
        named = [sheet for sheet in book.worksheets if sheet.title == name]
        if not named:
            raise InputError(
                f"{path} has no sheet of this name: its sheets are {names_listed(book.sheetnames)}",
                ["correct the name"],
                {"sheet": name},
            )
        return named[0]
    if len(shown) != 1:
        raise InputError(
            f"{path} has {len(shown)} visible sheets, {names_listed([sheet.title for sheet in shown])}: one "
            "is needed, and none is guessed",
            [("sheet", ..., "say which"), "save the sheet with the data as a file of its own"],
        )
    return shown[0]


HIDDEN = re.compile(rb"<row\b[^>]*>")


def _hidden_rows(path: Path, sheet: Any) -> frozenset[int]:
    """Numbers of the rows that are hidden, or filtered out, from 1.

    openpyxl tells them only of workbooks that it holds in memory as a whole.
    """
    found = set()
    with zipfile.ZipFile(path) as archive, archive.open(sheet._worksheet_path) as part:
        rest = b""
        while block := part.read(1 << 20):
            block = rest + block
            for row in HIDDEN.findall(block):
                number = re.search(rb'\br="(\d+)"', row)
                if number and re.search(rb'\bhidden="(?:1|true)"', row):
                    found.add(int(number[1]))
            rest = block[block.rfind(b"<") :]
    return frozenset(found)


def _percent_columns(sheet: Any) -> list[str]:
    """Letters of the columns of which numbers among the first rows are shown as percentages."""
    found = {
        cell.column_letter
        for row in sheet.iter_rows(max_row=LOOKED_AT)
        for cell in row
        if isinstance(cell.value, int | float) and "%" in (cell.number_format or "")
    }
    return sorted(found, key=lambda letters: (len(letters), letters))


# --------------------------------------------------------------------------------------------------
# Rows of a query, whose text is a file: its first line says which database is asked.

SOURCE = re.compile(r"\s*--\s*source:\s*(\S+)\s*\n(.*)", re.DOTALL)
# A password that is written down: anything but a variable between a name and a host, or behind its key.
WRITTEN = re.compile(r"://[^/@\s]*:(?!\$\{\w+\}@)[^@\s]+@|(?i:password|passwd|pwd|token)=(?!\$\{\w+\}(?!\w))")


@contextmanager
def open_query(path: Path, dialect: Dialect | None = None) -> Iterator[RowStream]:
    """Names and rows of what a query finds, read as they are asked for; NULL is empty.

    `-- source: duckdb:FILE`, `sqlite:FILE` (beside the query, opened to be read), `adbc:DRIVER:URI` or an
    address of SQLAlchemy, in which ${NAME} is taken from the environment.  Raises InputError, which shows
    neither the address nor what the database says, as both may hold secrets.
    """
    with (dialect or Dialect()).text(path) as handle:
        found = SOURCE.fullmatch(handle.read())
    if found is None:
        raise InputError(
            f"{path} does not say which database is asked: its first line must be a comment such as "
            "`-- source: duckdb:hospital.duckdb`. Add it."
        )
    if WRITTEN.search(found[1]):
        raise InputError(
            f"{path}, line 1: a password stands in a file. Write ${{NAME}} for it, and keep it in the "
            "environment."
        )
    address = fill_address(path, found[1])
    with ExitStack() as opened:
        failed = _query_failure(path)
        with failed:
            cursor = _ask_database(path, opened, address, found[2])
            names = [str(column[0]) for column in cursor.description or ()]
        if not names:
            raise InputError(f"{path} is no query that finds rows. Write one SELECT.")
        each = ([cell_text(value) for value in row] for row in _fetched(cursor, path))
        yield RowStream(enumerate(chain([names], each), 1))


def fill_address(path: Path, address: str) -> str:
    """An address with its variables from the environment; what stands before a host as addresses have it."""

    def filled(name: re.Match[str]) -> str:
        found = os.environ.get(name[1])
        if found is None:
            raise InputError(f"{path}, line 1: the environment has no variable {name[1]}. Set it.")
        return quote(found, safe="") if re.match(r"[^/@]*@", address[name.end() :]) else found

    return re.sub(r"\$\{(\w+)\}", filled, address)


def _ask_database(path: Path, opened: ExitStack, address: str, query: str) -> Any:
    """A cursor with the answer.  Raises what the database does."""
    kind, _, rest = address.partition(":")
    if kind == "adbc":
        return _ask_by_adbc(path, opened, rest, query)
    if kind not in ("duckdb", "sqlite") or rest.startswith("//"):
        require_library(f"{path} asks a database by SQLAlchemy, which", "sql")
        from sqlalchemy import create_engine

        engine = create_engine(address, hide_parameters=True)
        opened.callback(engine.dispose)
        return opened.enter_context(engine.connect()).exec_driver_sql(query).cursor
    file = path.parent / rest
    if not file.is_file():
        raise InputError(f"{path}, line 1: there is no file {file}. Correct the path.")
    if kind == "sqlite":
        import sqlite3

        asked: Any = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)
    else:
        require_library(f"{path} asks a DuckDB file, which", "duckdb")
        import duckdb

        asked = duckdb.connect(str(file), read_only=True)
    return opened.enter_context(closing(asked)).execute(query)


def _ask_by_adbc(path: Path, opened: ExitStack, address: str, query: str) -> Any:
    """A cursor with the answer of a driver of Arrow Database Connectivity; what it changed is rolled back."""
    driver, _, uri = address.partition(":")
    if not re.fullmatch(r"[a-z0-9_]+", driver) or not uri:
        raise InputError(
            f"{path}, line 1: adbc: names no driver and address. Write both, as in "
            "`-- source: adbc:postgresql:postgresql://reader:${PGPASSWORD}@db.clinic/emr`."
        )
    try:
        module = import_module(f"adbc_driver_{driver}.dbapi")
    except ImportError as error:
        raise InputError(
            f"{path} asks a database by ADBC, and its driver is not installed. Run "
            f"`{install_command('adbc-driver-' + driver.replace('_', '-'), 'pyarrow')}`."
        ) from error
    cursor = opened.enter_context(closing(opened.enter_context(closing(module.connect(uri))).cursor()))
    cursor.execute(query)
    return cursor


@contextmanager
def _query_failure(path: Path) -> Iterator[None]:
    """Whatever a database raises as an InputError without its words."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        kind = type(error).__name__
    else:
        return
    raise InputError(
        f"{path}: the database did not answer ({kind}; its words may hold secrets and are not shown). Try "
        "the query with its own program."
    ) from None


def _fetched(cursor: Any, path: Path) -> Iterator[Sequence[Any]]:
    while True:
        with _query_failure(path):
            rows = cursor.fetchmany(10_000)
        if not rows:
            return
        yield from rows


ROW_SOURCES = {".xlsx": open_excel, ".sql": open_query}


# --------------------------------------------------------------------------------------------------
# Rows of a Parquet file, decoded when they are asked for.

DURATION = "write what distance means for it, as years of age or days since an event"
CACHED_GROUPS = 2  # so that a block across a boundary of row groups decodes neither of them twice


class ParquetRows:
    """The rows of some numeric columns of a Parquet file, read by row group when sliced.

    shape is (m, d), dtype the numpy dtype that holds all d columns.  The last row groups decoded
    are kept; memory is a few row groups, whose size the writer of the file chose.  The file is
    opened for each read, so that many clients do not need many open files.  Where a row group has more than
    LARGE_GROUP values, it is gone through in smaller batches instead, in the order of rows (`BatchedRows`).

    Slices must have step 1.  gaps: missing values are NaN, and all are float64; else a row group that has
    some raises InputError when it is read.
    """

    def __init__(self, path: str | PathLike[str], columns: Sequence[str], *, gaps: bool = False) -> None:
        self.path, self._gaps = Path(path), gaps
        self.names = tuple(columns)
        with open_parquet(self.path) as file:
            self._metadata = groups = file.metadata
            sizes = [groups.row_group(g).num_rows for g in range(groups.num_row_groups)]
            schema = file.schema_arrow
        if unknown := [name for name in self.names if name not in schema.names]:
            raise InputError(f"{self.path} has no column {unknown[0]!r}. Correct the name.")
        self.dtype: np.dtype[Any] = np.result_type(
            *(_numpy_type(self.path, schema.field(name)) for name in self.names)
        )
        if gaps:
            self.dtype = np.dtype(np.float64)
        self._starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        self.shape: tuple[int, ...] = (int(self._starts[-1]), len(self.names))
        self._cache: OrderedDict[int, Array] = OrderedDict()
        self._stream: BatchedRows | None = None
        if max(sizes, default=0) * len(self.names) > LARGE_GROUP:
            dtype = None if gaps else self.dtype
            self._stream = BatchedRows(self._batches, self.names, self.shape[0], dtype, str(self.path))

    def _batches(self) -> Generator[Any, None, None]:
        with open_parquet(self.path, self._metadata) as file:
            yield from file.iter_batches(STREAMED, columns=list(self.names))

    @property
    def groups(self) -> int:
        """How many row groups the file has."""
        return len(self._starts) - 1

    def __repr__(self) -> str:
        return f"ParquetRows({self.path.name!r}, shape={self.shape})"

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice, /) -> Array:
        if not isinstance(rows, slice) or rows.step not in (None, 1):
            raise TypeError(f"{self!r} is read by slices [a:b]. Use numpy.asarray for all rows.")
        if self._stream is not None:
            return self._stream[rows]
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
        with open_parquet(self.path, self._metadata) as file:
            table = file.read_row_group(group, columns=list(self.names))
        first, dtype = int(self._starts[group]), None if self._gaps else self.dtype
        self._cache[group] = read_only(decode_columns(table, self.names, dtype, str(self.path), first))
        while len(self._cache) > CACHED_GROUPS:
            self._cache.popitem(last=False)
        return self._cache[group]


def decode_columns(
    table: Any, columns: Sequence[str], dtype: np.dtype[Any] | None, source: str, first: int
) -> Array:
    """Columns of an Arrow table or batch as rows (m, d) of a type; None: float64, NaN where one is missing.

    first: the number of its first row.  Raises InputError.
    """
    decoded = np.empty((table.num_rows, len(columns)), dtype=dtype or np.float64)
    for position, name in enumerate(columns):
        column = table.column(name)
        if column.type == "bool":
            column = column.cast("uint8")
        if column.null_count and dtype is not None:
            raise InputError(
                f"{source}, column {name!r}: {column.null_count} values are missing in "
                f"rows {first} to {first + table.num_rows - 1}. Every value must be there",
                ["fill the values in or drop the rows", *GAPS],
            )
        # Missing values make floats of whole numbers, and so does another column of floats.
        if (row := first_inexact(column.drop_null().to_numpy(zero_copy_only=False))) is not None:
            raise InputError(f"{source}, column {name!r}, value {row}: {INEXACT}")
        decoded[:, position] = column.to_numpy(zero_copy_only=False)
    return decoded


STREAMED = 1 << 16  # rows of a batch
LARGE_GROUP = 1 << 23  # values of a row group


class BatchedRows:
    """Rows (m, d) of Arrow batches, in their order, one batch in memory; a slice further up begins anew.

    batches: gives all of them whenever it is called, with these columns and `rows` rows.  dtype None:
    float64, and NaN where values are missing.  source: in errors.
    """

    def __init__(
        self,
        batches: Callable[[], Generator[Any, None, None]],
        names: Sequence[str],
        rows: int,
        dtype: np.dtype[Any] | None,
        source: str,
    ) -> None:
        self.names, self._batches, self._source, self._kind = tuple(names), batches, source, dtype
        self.shape: tuple[int, ...] = (rows, len(self.names))
        self.dtype: np.dtype[Any] = np.dtype(np.float64) if dtype is None else dtype
        self._open = batches()
        self._rewind()

    def _rewind(self) -> None:
        """Begin anew; rows that were decoded and not yet asked for begin with row `_at`."""
        self._open.close()  # a connection to a database may have one open result
        self._open, self._at = self._batches(), 0
        self._left: Array = np.empty((0, self.shape[1]), self.dtype)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape})"

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice, /) -> Array:
        if not isinstance(rows, slice) or rows.step not in (None, 1):
            raise TypeError(f"{self!r} is read by slices [a:b]. Use numpy.asarray for all rows.")
        start, stop, _ = rows.indices(len(self))
        if start < self._at:
            self._rewind()
        parts = [self._left[:0]]
        while self._at < stop:
            if not len(self._left):
                self._left = self._decode_next()
            before = max(0, min(start - self._at, len(self._left)))
            parts.append(self._left[before : max(before, stop - self._at)])
            taken = before + len(parts[-1])
            self._left, self._at = self._left[taken:], self._at + taken
        if self._at == len(self):
            self._open.close()
        return np.concatenate(parts)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype=dtype)

    def _decode_next(self) -> Array:
        batch = next(self._open, None)
        if batch is None:
            raise InputError(
                f"{self._source} has {self._at} rows and had {len(self)} before: it changed, or is one that "
                "ends when it was read. Give one that begins anew whenever it is opened."
            )
        return decode_columns(batch, self.names, self._kind, self._source, self._at)


class ArrowRows(BatchedRows):
    """Numeric columns of an Arrow stream as points (m, d), read by batches.

    Parameters
    ----------
    reopen
        Function that returns the stream from its beginning, with rows in the same order in every call.  A
        stream is an object with `__arrow_c_stream__`: a relation of DuckDB (on a connection of its own), a
        frame of polars or pandas, or a reader of pyarrow.dataset.
    columns
        Names of the columns; None for all.  `names` has them.

    Raises
    ------
    InputError
        For columns that are not numeric, and, when rows are read, for missing values.

    Examples
    --------
    >>> import pyarrow, secfc
    >>> rows = secfc.ArrowRows(lambda: pyarrow.table({"age": [31.0, 44.0], "bmi": [22.5, 30.0]}), ["bmi"])
    >>> rows[1:].tolist()
    [[30.0]]
    """

    def __init__(self, reopen: Callable[[], Any], columns: Sequence[str] | None = None) -> None:
        require_library("a stream of Arrow", "files")
        if not callable(reopen):
            raise InputError(
                f"reopen is {kind_name(reopen)}: a function is needed that gives the stream from its "
                "beginning. Pass lambda: table, for example"
            )
        from pyarrow import RecordBatchReader

        def open_stream() -> Any:
            stream = reopen()
            if not hasattr(stream, "__arrow_c_stream__"):
                raise InputError(
                    f"{kind_name(stream)} gives no stream of Arrow: pass a function that opens one, "
                    "such as lambda: duckdb.connect(file).sql(...), or a frame of polars 1.3 or later"
                )
            return RecordBatchReader.from_stream(stream)

        def read_batches() -> Generator[Any, None, None]:
            with open_stream() as reader:
                for batch in reader:  # which may be all that a library has in memory
                    yield from (batch.slice(at, STREAMED) for at in range(0, batch.num_rows, STREAMED))

        with open_stream() as reader:
            schema, source = reader.schema, "the stream"
        names = schema.names if columns is None else columns
        if unknown := [name for name in names if name not in schema.names]:
            raise InputError(f"{source} has no column {unknown[0]!r}. Correct the name.")
        dtype = np.result_type(*(_numpy_type(source, schema.field(name)) for name in names))
        super().__init__(read_batches, names, sum(len(batch) for batch in read_batches()), dtype, source)


def _numpy_type(path: Path | str, field: Any) -> np.dtype[Any]:
    from pyarrow.types import is_boolean, is_floating, is_integer, is_temporal

    if is_boolean(field.type):
        return np.dtype(np.uint8)

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


COLUMN_FILES = (".parquet", ".feather", ".arrow")


class ArrowFile:
    """An Arrow file, as Feather is, with what `ParquetRows` asks of a Parquet file: batches are groups."""

    def __init__(self, file: Any) -> None:
        self._file, self.schema_arrow, self.num_row_groups = file, file.schema, file.num_record_batches
        self.metadata = self

    def row_group(self, group: int) -> Any:
        return self._file.get_batch(group)

    def read_row_group(self, group: int, columns: Sequence[str]) -> Any:
        from pyarrow import Table

        return Table.from_batches([self.row_group(group)]).select(columns)

    def read(self, columns: Sequence[str]) -> Any:
        return self._file.read_all().select(columns)

    def iter_batches(self, size: int) -> Iterator[Any]:
        return iter(self._file.read_all().to_batches(size))


@contextmanager
def open_parquet(path: Path, metadata: Any = None) -> Iterator[Any]:
    """An open pyarrow.parquet.ParquetFile, or an `ArrowFile`."""
    try:
        from pyarrow import ArrowException, ipc, memory_map
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise InputError(
            f"{path} is a Parquet or Arrow file, and pyarrow, which reads these, is not installed. Run "
            f"`{install_command('pyarrow')}`, or convert the file to CSV."
        ) from error
    try:
        if path.suffix.lower() != ".parquet":
            with memory_map(str(path)) as source:
                yield ArrowFile(ipc.open_file(source))
            return
        # Arrow would else fetch the whole file ahead of whoever reads it by parts.
        with ParquetFile(path, metadata=metadata, pre_buffer=False) as file:
            yield file
    except InputError:
        raise
    except (ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        kind = "Parquet" if path.suffix.lower() == ".parquet" else "Arrow"
        raise InputError(f"{path} is not a readable {kind} file. Write it again.") from error


# --------------------------------------------------------------------------------------------------
# Arrays of .npz and .npy.


class ArrayArchive:
    """Arrays of an archive by name, loaded when they are asked for.  Raises InputError for a damaged one."""

    def __init__(self, loaded: Any, message: str) -> None:
        self._loaded, self._message, self.files = loaded, message, tuple(loaded.files)

    def __getitem__(self, name: str) -> Array:
        with refuse_damaged(self._message):
            found = self._loaded[name]
        if not isinstance(found, np.ndarray):  # a part that is no .npy comes as its bytes
            raise InputError(self._message)
        return found


@contextmanager
def open_arrays(path: Path, source: Any, mmap_mode: Any) -> Iterator[Any]:
    """What numpy.load makes of source, never unpickling, an `ArrayArchive` or an array; closed afterwards.

    source is the path for a mapped array, else a file: numpy leaves a broken archive open.
    """
    message = (
        f"{path} is not a readable {path.suffix} file of numbers: it is cut short, or holds "
        "pickled objects, which are refused since loading them can run code. Save plain arrays."
    )
    if path.suffix.lower() == ".npz":
        check_unpacked(path)
    try:
        with refuse_damaged(message):
            loaded = np.load(source, mmap_mode=mmap_mode, allow_pickle=False)
    except OSError as error:
        raise InputError(message) from error
    if isinstance(loaded, np.lib.npyio.NpzFile):
        with loaded:
            yield ArrayArchive(loaded, message)
    else:
        yield loaded
