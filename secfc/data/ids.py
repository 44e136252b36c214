"""IDs from files: columns of tables of any kind, text with one ID a line, or keys by a linkage schema.

IDs are compared as text, blanks at both ends removed, so 7 in a Parquet file equals 7 in a CSV file, and
07 does not.  Messages name file, line and column and never show a cell, since IDs name people; neither do
they show the first line of a CSV file, which may be data by mistake.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from secfc.data.dialects import BadRow, Dialect, check_paths, file_extension, file_stem
from secfc.data.linkage import Linkage, linkage_keys
from secfc.data.sources import COLUMN_FILES, ROW_SOURCES, open_parquet
from secfc.data.tables import check_spelling
from secfc.errors import IncompatibleOptions, InputError

Identifier = str | bytes
SUFFIXES = (
    ".csv", ".csv.gz", ".csv.zip", ".tsv", ".tsv.gz", ".tsv.zip", ".txt", ".txt.gz",
    *ROW_SOURCES, *COLUMN_FILES,
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class IdClient:
    """One client's IDs, and the row of the file (counted from 0, without header) where each stands."""

    name: str
    ids: list[Identifier]
    rows: Sequence[int]

    @property
    def distinct(self) -> int:
        return len(set(self.ids))


@dataclass(frozen=True, repr=False)
class IdColumn:
    """A file's IDs, with the owner of each if a column tells it.  header: of the only column, if any."""

    ids: list[Identifier]
    owners: list[str] | None = None
    header: str | None = None


def load_ids(
    files: Sequence[Path], id_column: str | None, client_column: str | None, dialect: Dialect | None = None
) -> list[IdClient]:
    """The IDs of each client: one a file, or those of one file by the values of client_column.

    dialect: how text files are written; what they show, if none.

    Raises InputError.
    """
    if id_column is not None and id_column == client_column:
        raise InputError(f"client_column and id_column are both {id_column!r}: they must differ")
    if client_column is not None and len(files) > 1:
        raise InputError(f"client_column splits one file, and {len(files)} are given: pass one file")
    if client_column is not None and id_column is None:
        raise IncompatibleOptions(
            {"client_column": client_column},
            "whose an ID is can be told only of IDs in a column",
            [("id_column", ..., "name the column that holds the IDs")],
        )
    check_paths(files, SUFFIXES, dialect)
    columns = [_read(path, id_column, client_column, dialect or Dialect()) for path in files]
    _check_alike(files, columns)
    if client_column is None:
        names = names_of(files)
        clients = [IdClient(name, c.ids, range(len(c.ids))) for name, c in zip(names, columns, strict=True)]
    else:
        clients = list(_by_owner(columns[0]))
    if len(clients) < 2:
        raise InputError(
            f"n={len(clients)}: a union needs at least 2 clients. Each FILE is one client, unless "
            "client_column names the column that tells whose row it is."
        )
    return clients


def _check_alike(files: Sequence[Path], columns: Sequence[IdColumn]) -> None:
    """Raise InputError for IDs of several kinds, or that are spelled in ways that do not match."""
    for path, column in zip(files, columns, strict=True):
        check_spelling(path, column.ids)
    if len({column.header for column in columns if column.header is not None}) > 1:
        raise InputError(
            "the first lines of the files differ: a CSV file begins with the name of its column, the same in "
            "all files",
            [
                "add it",
                "rename the files to .txt if each line is an ID",
                ("id_column", ..., "name the column"),
            ],
        )
    kinds = {type(ids[0]) for ids in (column.ids for column in columns) if ids}
    if len(kinds) > 1:
        raise InputError("some files hold binary IDs and some text, which are never equal: convert them")


def names_of(files: Sequence[Path]) -> list[str]:
    """Names of clients that differ: a repeated one gets the first free of -2, -3, ..."""
    wanted = [file_stem(path) for path in files]
    names: list[str] = []
    for each in wanted:
        name, number = each, 1
        while name in names or (number > 1 and name in wanted):
            number += 1
            name = f"{each}-{number}"
        names.append(name)
    return names


def _by_owner(column: IdColumn) -> Iterator[IdClient]:
    """One client an owner, in order of first appearance."""
    rows: dict[str, list[int]] = {}
    for row, owner in enumerate(column.owners or ()):
        rows.setdefault(owner, []).append(row)
    for owner, own in rows.items():
        yield IdClient(owner, [column.ids[row] for row in own], own)


def _read(path: Path, id_column: str | None, client_column: str | None, dialect: Dialect) -> IdColumn:
    kind = file_extension(path)
    if kind in COLUMN_FILES:
        return _read_parquet(path, id_column, client_column)
    if kind.startswith(".txt"):
        if id_column is not None:
            raise InputError(f"{path} is plain text and has no column {id_column!r}: leave it out")
        with dialect.text(path) as file:
            return IdColumn(list(_lines(path, enumerate(file, 1))))
    with ROW_SOURCES.get(kind, _opened)(path, dialect) as rows:
        return _read_csv(path, rows, id_column, client_column)


def _lines(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[str]:
    """IDs from numbered lines; only after the last ID may lines be empty."""
    empty = None
    for number, line in lines:
        cell = line.strip()
        if not cell:
            empty = empty or number
            continue
        if empty is not None:
            raise _missing(path, f"line {empty}")
        yield cell


def _read_csv(path: Path, reader: Any, id_column: str | None, client_column: str | None) -> IdColumn:
    try:
        first = next((row for row in reader if row), None)
        if first is None:
            if id_column is not None:
                raise InputError(f"{path} is empty, so it has no column {id_column!r}. Leave it out.")
            return IdColumn([])
        if id_column is None:
            return _single_column(path, reader, first)
        names = [id_column] if client_column is None else [id_column, client_column]
        cells: list[list[str]] = [[] for _ in names]
        for row in _wanted_cells(path, reader, first, names):
            for name, cell, column in zip(names, row, cells, strict=True):
                column.append(cell.strip())
                if not column[-1]:
                    raise _missing(path, f"line {reader.line_num}, column {name!r}")
        return IdColumn(list(cells[0]), cells[1] if client_column else None)
    except BadRow as error:
        raise error.at(path) from error


def _wanted_cells(path: Path, reader: Any, first: list[str], names: Sequence[str]) -> Iterator[list[str]]:
    """The cells of these columns, row by row, where the first row is the header.  Raises InputError."""
    header = [cell.strip() for cell in first]
    at = [column_position(path, header, name) for name in names]
    for row in reader:
        if row and len(row) != len(header):
            raise InputError(
                f"{path}, line {reader.line_num}: {len(row)} cells, and the first row has {len(header)}. "
                "Every row needs the same number: correct the row."
            )
        if row:
            yield [row[place] for place in at]


def _single_column(path: Path, reader: Any, first: list[str]) -> IdColumn:
    """The only column of a CSV file.  Its first line is a header unless it is a number."""
    if len(first) > 1:
        raise InputError(
            f"{path} has {len(first)} columns",
            [("id_column", ..., "say which one holds the IDs"), "leave only that"],
        )
    if separator := next((s for s in ";\t|" if s in first[0]), None):
        raise InputError(
            f"{path}, line {reader.line_num}: one column, which contains {separator!r}. Columns are "
            "separated by commas: save the file with commas, or as .txt if each line is one ID."
        )
    header = first[0].strip()
    try:
        float(header)
        bare = True
    except ValueError:
        bare = False

    def lines() -> Iterator[tuple[int, str]]:
        if bare:
            yield reader.line_num, header
        for row in reader:
            if len(row) > 1:
                raise InputError(
                    f"{path}, line {reader.line_num}: {len(row)} cells, and the first row has 1."
                )
            yield reader.line_num, row[0] if row else ""

    return IdColumn(list(_lines(path, lines())), header=None if bare else header)


def column_position(path: Path, header: Sequence[str], name: str) -> int:
    """Where the only column of this name stands.  Raises InputError."""
    found = header.count(name)
    if found == 1:
        return header.index(name)
    if found:
        raise InputError(f"{path} has several columns {name!r}: names must differ. Rename one.")
    raise InputError(f"{path} has no column {name!r} among the {len(header)} of its first line. Correct it.")


def _read_parquet(path: Path, id_column: str | None, client_column: str | None) -> IdColumn:
    with open_parquet(path) as file:
        header = list(file.schema_arrow.names)
        if id_column is None and len(header) != 1:
            raise InputError(
                f"{path} has {len(header)} columns", [("id_column", ..., "say which one holds the IDs")]
            )
        wanted = [header[0] if id_column is None else id_column]
        wanted += [client_column] if client_column is not None else []
        for name in wanted:
            column_position(path, header, name)
        table = file.read(columns=wanted)
    columns = [list(_cells(path, name, table.column(name).to_pylist())) for name in wanted]
    if len({type(cell) for cell in columns[0]}) > 1:
        raise InputError(f"{path}, column {wanted[0]!r}: binary and text are mixed. Convert the column.")
    owners = None if client_column is None else [str(cell) for cell in columns[1]]
    return IdColumn(columns[0], owners, wanted[0] if id_column is None else None)


def _cells(path: Path, name: str, values: Iterable[Any]) -> Iterator[Identifier]:
    for row, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, str | bytes | int | None):
            raise InputError(
                f"{path}, column {name!r}: its cells are of type {type(value).__name__}, which has no one "
                "spelling. IDs are text, whole numbers or binary: convert the column."
            )
        cell = value if isinstance(value, bytes) else "" if value is None else str(value).strip()
        if not cell:
            raise _missing(path, f"row {row} (counted from 0), column {name!r}")
        yield cell


def _missing(path: Path, where: str) -> InputError:
    return InputError(f"{path}, {where}: the cell is empty. Every row needs one: fill it in or drop the row.")


# --------------------------------------------------------------------------------------------------
# Keys of rows, by a linkage schema.


def make_keys(
    files: Sequence[Path], linkage: Linkage, dialect: Dialect, drop: bool
) -> tuple[list[IdClient], list[str]]:
    """Each file's keys and the rows where they stand, as clients; and how many rows are left out, in words.

    drop: leave rows out that cannot take part.  Raises InputError, OSError; if not drop, also for such rows.
    """
    check_paths(files, SUFFIXES, dialect)
    clients, left = [], []
    for path, name in zip(files, names_of(files), strict=True):
        keys, quality = linkage_keys(linkage, read_fields(path, linkage.columns, dialect))
        if quality.unfit and not drop:
            raise InputError(
                f"{path}: {quality.unfit} of {quality.rows} rows cannot take part, as a required field is "
                "missing or one has another form than the schema's. `secfc check-ids` counts them by field: "
                "correct them, or leave them out with --drop-unfit."
            )
        if quality.unfit:
            left.append(
                f"{path}: {quality.unfit} of {quality.rows} rows do not fit the schema and are left out"
            )
        held = [(row, key) for row, key in enumerate(keys) if key is not None]
        clients.append(IdClient(name, [key for _, key in held], [row for row, _ in held]))
    if len(clients) < 2:
        raise InputError(f"n={len(clients)}: a union needs at least 2 clients. Each FILE is one client.")
    return clients, left


def read_fields(path: Path, columns: Sequence[str], dialect: Dialect) -> list[tuple[str, ...]]:
    """Cells of these columns, a row each, empty ones as "".  Raises InputError, OSError."""
    check_paths([path], SUFFIXES)
    kind = file_extension(path)
    if kind.startswith(".txt"):
        raise InputError(f"{path} is plain text and has no columns: a schema needs CSV, .xlsx or Parquet.")
    if kind in COLUMN_FILES:
        return _parquet_fields(path, columns)
    with ROW_SOURCES.get(kind, _opened)(path, dialect) as rows:
        try:
            first = next((row for row in rows if row), None)
            if first is None:
                raise InputError(f"{path} is empty: its first line must name the columns. Add it.")
            return [tuple(row) for row in _wanted_cells(path, rows, first, columns)]
        except BadRow as error:
            raise error.at(path) from error


@contextmanager
def _opened(path: Path, dialect: Dialect) -> Iterator[Any]:
    """The rows of a text file; no number is read, so no comma is in doubt."""
    with replace(dialect, decimal=".").opened(path) as (rows, _):
        yield rows


def _parquet_fields(path: Path, columns: Sequence[str]) -> list[tuple[str, ...]]:
    with open_parquet(path) as file:
        for name in columns:
            column_position(path, list(file.schema_arrow.names), name)
        table = file.read(columns=list(columns))
    read = []
    for name in columns:
        values = table.column(name).to_pylist()
        for value in values:
            if isinstance(value, bool) or not isinstance(value, str | int | None):
                raise InputError(
                    f"{path}, column {name!r}: its cells are of type {type(value).__name__}, which has no "
                    "one spelling. A schema takes text and whole numbers: convert the column."
                )
        read.append(["" if value is None else str(value) for value in values])
    return list(zip(*read, strict=True))
