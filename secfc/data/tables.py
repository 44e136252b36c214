"""Files as tables: CSV, Excel, Parquet, .npz and .npy, read one at a time.

Every reader takes (path, wanted, expected): the columns the caller named, and the feature names of
the first file, whose order all files follow (None for the first).  It returns the tables found in
the file; `files` joins them to a federation and documents what each format may hold.

Messages name file, line and column and never show a cell, which may be private.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from secfc.data.dialects import (
    LOOKED_AT,
    PREAMBLE,
    BadRow,
    NumberCell,
    NumberFormat,
    RowStream,
    check_first_row,
    file_extension,
    file_stem,
    find_strange_lines,
    is_number,
    refuse_lines,
)
from secfc.data.inputs import UNION, Rows, check_shape, names_listed
from secfc.data.linkage import SPOILED
from secfc.data.row_reader import RowReader, WantedColumns, normalize_name
from secfc.data.sources import COLUMN_FILES, ROW_SOURCES, ArrayArchive, ParquetRows, open_arrays, open_parquet
from secfc.errors import InputError


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
    """The error for a column that a file lacks, with what it may be that was read otherwise than meant."""
    rule = f"{path} has no column {name!r}: its columns are {names_listed(known)}"
    if len(known) == 1 and {*",;|\t"} & {*known[0]}:
        return InputError(rule, [("delimiter", None), "correct the name"])
    if [str(column) for column in known] == [str(i) for i in range(len(known))]:
        return InputError(
            rule, [("header", True, "take names from its first line"), "name a column by its number"]
        )
    return InputError(rule, ["correct it"])


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


def _read_rows(path: Path, wanted: WantedColumns, expected: tuple[str, ...] | None) -> list[FileTable]:
    kind = file_extension(path)
    if kind == ".sql":  # whose columns have names always
        wanted = replace(wanted, dialect=replace(wanted.dialect, header=True))
    with ROW_SOURCES[kind](path, wanted.dialect) as rows:
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
    **dict.fromkeys(ROW_SOURCES, _read_rows),
    **dict.fromkeys(COLUMN_FILES, _read_parquet),
    ".npz": _read_npz,
    ".npy": _read_npy,
}
