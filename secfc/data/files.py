"""The parties of a federation from tables of many kinds, one file a client or one for all.

What is read, by extension:

.csv      also .tsv, .txt, .data, and .gz and .zip of .csv and .tsv.  How they are written is given, or what
          the file says beyond doubt (`secfc.data.dialects`).
.xlsx     the only sheet, or the one that is named, as a CSV.  Needs openpyxl (the extra `excel`).
.parquet  numeric columns.  One client's points stay in the file and are read by row group.
          Needs pyarrow (the extra `files`), as do .feather and .arrow, which are read so too.
.sql      a query, and the database that it is asked of (`secfc.data.sources.open_query`), as a workbook.
.npz      either one (m_j, d) array a client, named by its key, or by the file if it is alone; or X
          (m, d) with, optionally, y (m,) labels, client (m,) and feature_names (d,).  Other keys
          are not read.
.npy      one (m_j, d) array, mapped and not read.

Nothing is guessed about values: no missing value is filled in here, no text is turned into numbers, no
pickled object is loaded.  Messages name file, line and column and never show a cell, which may be
private.  Files are trusted to stay as they are while a lazy federation is in use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from filecmp import cmp
from os import SEEK_END, PathLike
from pathlib import Path
from typing import Any

import numpy as np

from secfc.data.dialects import Dialect, check_paths, file_extension
from secfc.data.inputs import (
    Array,
    checked_points,
    format_value,
    in_memory,
    kind_name,
    names_listed,
    read_all,
    require_library,
    row_blocks,
)
from secfc.data.linkage import Linkage, keyed_rows
from secfc.data.party import Identifier, Party, as_gap_rows
from secfc.data.row_reader import WantedColumns
from secfc.data.sources import COLUMN_FILES, ParquetRows
from secfc.data.tables import READERS, FileTable
from secfc.errors import IncompatibleOptions, InputError, InputFaults

# --------------------------------------------------------------------------------------------------
# Text columns as bits: one feature a category, 1 where a row has it.  Categories that have an order are one
# feature, of ranks from 0; of two this is one bit.
#
# All clients need the same categories in the same order.  They are public, and listed; or they are agreed on
# by a union of what clients have, which a caller brings (`Agree`): a private one (`psu`) hides who has which.

# From each client's distinct values, the categories of all in an order that all share.
Agree = Callable[[str, Sequence[Sequence[str]]], Sequence[str]]

MOST = 1000  # categories of a column, beyond which it is more likely a name than a category


class Ranks(tuple[str, ...]):
    """Categories in their order, the lowest first, which are one feature."""

    __slots__ = ()


def parse_listed(listed: str) -> tuple[str, ...]:
    """Categories as they are listed: A|B, or A<B where they have an order.

    >>> parse_listed("I<II<III") == Ranks(("I", "II", "III"))
    True
    """
    ordered = "<" in listed and "|" not in listed
    each = tuple(text.strip() for text in listed.split("<" if ordered else "|"))
    return Ranks(each) if ordered else each


def agree_categories(
    columns: Mapping[str, Sequence[str] | None], values: Sequence[Mapping[str, Sequence[str]]], agree: Agree
) -> dict[str, tuple[str, ...]]:
    """The categories of every column: as listed, or agreed on.

    values: of each client, by column, a text a row; "" is missing.  Raises InputError.
    """
    found = {}
    for name, listed in columns.items():
        if isinstance(listed, str):
            listed = parse_listed(listed)
        if listed is None:
            listed = agree(name, [sorted({text for text in own[name] if text}) for own in values])
        if len(set(listed)) < len(listed) or not listed or "" in listed:
            raise InputError(f"column {name!r} has no categories, an empty one or one twice: list each once")
        if len(listed) > MOST:
            raise InputError(
                f"column {name!r} has {len(listed)} categories, at most {MOST} become features: is it a name "
                "or a number? Leave it out, or group its values"
            )
        found[name] = listed if isinstance(listed, Ranks) else tuple(listed)
    return found


def union_of_categories(column: str, values: Sequence[Sequence[str]]) -> list[str]:
    """All categories that any client has, in ascending order, by whoever sees them all."""
    return sorted({text for own in values for text in own})


def one_hot_columns(texts: Sequence[str], categories: tuple[str, ...], owner: str, column: str) -> Array:
    """One bit a category, or of `Ranks` one rank, for each text: (m, features) float64; NaN if missing.

    Raises InputError for a text that is no category; the message names the row and shows no text.
    """
    place = {category: i for i, category in enumerate(categories)}
    ranked = isinstance(categories, Ranks)
    whole = np.zeros((len(texts), 1 if ranked else len(categories)))
    for row, text in enumerate(texts):
        if not text:
            whole[row] = np.nan
        elif text in place:
            whole[row, 0 if ranked else place[text]] = place[text] if ranked else 1
        else:
            raise InputError(
                f"{owner}, row {row} (counted from 0), column {column!r}: the value is none of the "
                f"{len(categories)} categories that were listed. Correct it, or list it for all clients"
            )
    return whole


def category_names(categories: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Names of the features: column=category, or column=lowest<...<highest."""
    return tuple(
        f"{name}={category}"
        for name, listed in categories.items()
        for category in (("<".join(listed),) if isinstance(listed, Ranks) else listed)
    )


# --------------------------------------------------------------------------------------------------

# Extensions whose readers come with an extra.
NEEDS = {".xlsx": "excel", **dict.fromkeys(COLUMN_FILES, "files")}

__all__ = ["ParquetRows", "load_parties"]


def load_parties(
    paths: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    client_column: str | None = None,
    columns: Sequence[str] | None = None,
    id_column: str | None = None,
    label_column: str | None = None,
    union: bool = False,
    gaps: bool = False,
    categorical: Mapping[str, Sequence[str] | None] | None = None,
    agree: Agree = union_of_categories,
    dialect: Dialect | None = None,
    exclude: Sequence[str] = (),
    linkage: Linkage | None = None,
    drop_unfit: bool = False,
    repeated: bool = False,
) -> tuple[tuple[Party, ...], tuple[str, ...] | None]:
    """Clients from one file each, or from one file split by client_column; and the names of features.

    columns: the features, in this order; by default all columns not named otherwise, in the order of the
    first file.  All files need the same ones.
    union: files may have different columns, in any order; they are matched by name, and each client observes
    its own.  One that is empty or NaN throughout a client's rows is not observed.  All are read into memory.
    gaps: values may be missing (empty, NA or NaN), and are NaN in points that nothing clusters as they are
    (`secfc.data.party`).
    categorical: columns of text, each with its categories, which are public, or None: then `agree` finds
    them from what all clients have.  Each becomes a feature of bits, COLUMN=CATEGORY, after the others;
    "I<II<III" becomes one feature of ranks from 0.
    dialect: how files are written, None for what they tell.  exclude: columns that nothing is read of.
    id_column becomes the ids of points, as text; linkage makes them of several columns, by a schema that all
    sites share, and rows that cannot take part are refused, or left out (drop_unfit; a Caution counts them).
    repeated: IDs may be repeated within a client, as they say whose row each is (`Party.persons`), no more.
    label_column is their truth, integers as they are, anything else as codes in sorted order.
    Clients are named after their files (a repeated name gets -2, -3, ...), or by the values of
    client_column, in order of first appearance.

    Raises InputError, or MissingFileError (an InputError and a FileNotFoundError).
    """
    chosen = _chosen_columns(columns)
    if linkage is not None and id_column is not None:
        raise IncompatibleOptions(
            {"id_column": id_column, "schema": ...}, "a schema names its columns", [("id_column", None)]
        )
    wanted = WantedColumns(
        chosen, client_column, id_column, label_column, union, gaps, dict(categorical or {}),
        dialect or Dialect(), () if linkage is None else linkage.columns, tuple(exclude),
    )  # fmt: skip
    tables = _read_all(_checked_paths(paths, dialect), wanted)
    tables = _by_client(tables[0]) if tables[0].clients is not None else _renamed(tables)
    if union:
        tables = _in_union(tables, chosen)
    if categorical:
        tables = _with_bits(tables, agree_categories(categorical, [table.texts for table in tables], agree))
    if gaps:
        tables = [replace(table, points=as_gap_rows(table.points)) for table in tables]
    own = [table.features if union else None for table in tables]
    parties = _as_parties(tables, own, linkage, drop_unfit, union or gaps, repeated)
    return parties, None if union else tables[0].features


def _chosen_columns(columns: Sequence[str] | None) -> tuple[str, ...] | None:
    """The features that are asked for, None for all.  Raises InputError for what is no list of names."""
    if columns is None:
        return None
    if isinstance(columns, str):
        raise InputError(f"columns={columns!r} is one string: pass a list, as in [{columns!r}].")
    if not isinstance(columns, Iterable):
        raise InputError(f"columns={format_value(columns)} is {kind_name(columns)}: pass a list of names.")
    return tuple(columns)


def _in_union(tables: list[FileTable], chosen: tuple[str, ...] | None) -> list[FileTable]:
    """Tables of different columns in memory.  Raises InputError where they cannot be matched by name."""
    here = {name for table in tables for name in table.features or ()}
    if nowhere := [name for name in chosen or () if name not in here]:
        known = names_listed(sorted(here))
        raise InputError(f"no file has a column {nowhere[0]!r}: their columns are {known}. Correct it.")
    for table in tables:
        if table.features is None:
            raise InputError(
                f"{table.path} has no column names: columns of a union are matched by name. Add a header "
                "row, or feature_names."
            )
    return [replace(table, points=table.points[0 : table.points.shape[0]]) for table in tables]


def _check_numbers(tables: list[FileTable]) -> None:
    """Raises InputError naming the feature of a value that is no number, as `Party` cannot."""
    for table in tables:
        if in_memory(table.points) and table.features is not None:
            for _ in row_blocks(table.points, f"client {table.name!r}", table.features):
                pass


def _as_parties(
    tables: list[FileTable],
    own: Sequence[Any],
    linkage: Linkage | None,
    drop: bool,
    holes: bool,
    repeated: bool,
) -> tuple[Party, ...]:
    """Clients of these tables; own: features that each observes, None for all; holes: NaN may be.

    Raises InputError, which names the feature of a value that is no number.
    """
    each = zip(tables, _codes([table.labels for table in tables]), own, strict=True)
    try:
        return tuple(
            _linked(table, truth, linkage, drop, features, repeated) for table, truth, features in each
        )
    except InputError:
        if not holes:
            _check_numbers(tables)
        raise


def _linked(
    table: FileTable,
    truth: Array | None,
    linkage: Linkage | None,
    drop: bool,
    features: tuple[str, ...] | None,
    repeated: bool,
) -> Party:
    """A client, by the keys of a schema if there is one.  Raises InputError for rows that do not fit."""
    if linkage is None:
        keys, rows = table.ids, np.arange(table.points.shape[0])
    else:
        keys, rows = keyed_rows(linkage, table.texts, f"{table.path}, client {table.name!r}", drop=drop)
    names: dict[str, Any] = {} if keys is None else {"persons" if repeated else "ids": tuple(keys)}
    if len(rows) == table.points.shape[0]:
        return Party(table.name, table.points, truth, features=features, **names)
    points = np.asarray(table.points[0 : table.points.shape[0]])[rows]
    truth = None if truth is None else truth[rows]
    return Party(table.name, points, truth, features=features, rows=rows, **names)


def load_points(
    path: str | PathLike[str], columns: Sequence[str] | None = None, dialect: Dialect | None = None
) -> Array:
    """Public points (s, d) from one file; columns: features, in this order.  dialect: of text files.

    Raises InputError, or MissingFileError (an InputError and a FileNotFoundError).
    """
    chosen = None if columns is None else tuple(columns)
    wanted = WantedColumns(chosen, None, None, None, dialect=dialect or Dialect())
    tables = _read_all(_checked_paths(path), wanted)
    owner = str(path)
    return np.concatenate([read_all(checked_points(table.points, owner), owner) for table in tables])


def _read_all(files: list[Path], wanted: WantedColumns) -> list[FileTable]:
    """The tables of all files, in their order: one a file, unless there is only one file."""
    tables: list[FileTable] = []
    faults: list[tuple[Path, InputError]] = []
    for path in files:
        expected = tables[0].features if tables and not wanted.union else None
        try:
            found = READERS[file_extension(path)](path, wanted, expected)
        except InputError as fault:
            faults += [(path, one) for one in _faults_of(path, wanted, fault)]
            continue
        if len(files) > 1 and (len(found) > 1 or found[0].clients is not None):
            raise InputError(
                f"{path} holds several clients and is one of {len(files)} files: either one file a "
                "client, or one file with all, is read",
                ["pass it alone", ("client_column", None)],
            )
        tables += found
    _tell_faults(faults)
    _check_first_rows(tables, wanted)
    bare = [table.path for table in tables if table.features is None]
    if 0 < len(bare) < len(tables):
        raise InputError(
            f"{bare[0]} has no column names and other files have: features could not be matched. "
            "Add a header row, or remove the others'."
        )
    return tables


def _faults_of(path: Path, wanted: WantedColumns, fault: InputError) -> Sequence[InputError]:
    """What is wrong in a file, and what else is if it is read as the fault advises, as far as that shows."""
    if isinstance(fault, InputFaults):
        return fault.faults
    advised = wanted.dialect.advised(fault, "latin-1")
    if advised is None:
        return (fault,)
    wanted = replace(wanted, dialect=advised)
    try:
        READERS[file_extension(path)](path, wanted, None)
    except InputError as other:
        return (fault, *_faults_of(path, wanted, other))
    return (fault,)


def _tell_faults(faults: Sequence[tuple[Path, InputError]]) -> None:
    """Raise what is wrong in files, if something is; what is wrong in the same way in several, once."""
    alike: dict[str, list[tuple[Path, InputError]]] = {}
    for path, fault in faults:
        alike.setdefault(fault.rule.replace(str(path), "", 1), []).append((path, fault))
    told = []
    for (first, fault), *others in alike.values():
        *most, last = (str(path) for path, _ in [(first, fault), *others])
        paths = f"{', '.join(most)} and {last}" if most else last
        rule = fault.rule.replace(str(first), paths, 1)
        if others:
            rule = rule.replace(f"{paths} has ", f"{paths} have ").replace(f"{paths} is ", f"{paths} are ")
        told.append(InputError(rule, fault.remedies, fault.parameters) if others else fault)
    if told:
        raise told[0] if len(told) == 1 else InputFaults(told)


def _check_first_rows(tables: Sequence[FileTable], wanted: WantedColumns) -> None:
    """Raise InputError if all files begin with the same whole numbers, no two alike, as names might be."""
    read = [table for table in tables if READERS[file_extension(table.path)] is READERS[".csv"]]
    if wanted.dialect.header is not None or len(read) < 2 or any(t.features is not None for t in read):
        return
    rows = {tuple(np.asarray(table.points[0:1])[0].tolist()) for table in read}
    first = rows.pop()
    whole = len(first) > 1 and all(value.is_integer() for value in first)
    if not rows and whole and len(set(first)) == len(first):
        raise InputError(
            f"{len(read)} files begin with the same row of whole numbers, so it may be names of columns, or "
            "data",
            [("header", True, "say that it has names"), ("header", False, "say that it is data")],
        )


def _checked_paths(paths: Any, dialect: Dialect | None = None) -> list[Path]:
    if not isinstance(dialect, Dialect | None):
        raise InputError(
            f"dialect={format_value(dialect)} is {kind_name(dialect)}: a Dialect is needed. Pass "
            'secfc.Dialect(delimiter=";"), for example.'
        )
    listed = (
        [paths] if isinstance(paths, str | PathLike) else list(paths) if isinstance(paths, Iterable) else None
    )
    if listed is None or not all(isinstance(path, str | PathLike) for path in listed):
        raise InputError(
            f"paths={format_value(paths)} is {kind_name(paths)}: names of files are needed. Pass a path, or "
            f"a list."
        )
    files = [Path(path) for path in listed]
    if not files:
        raise InputError("no files are given: at least one is needed. Pass a path.")
    check_paths(files, READERS, dialect)
    for path in files:
        if extra := NEEDS.get(file_extension(path)):
            require_library(f"{path}", extra)
    return files


def doubts_of_files(files: Sequence[Path]) -> Iterator[str]:
    """What files show beside one another: that one is another's copy, or ends within a line as no other does.

    For a process that has all files.  files: that can be read.
    """
    sizes: dict[int, list[Path]] = {}
    for path in files:
        same = sizes.setdefault(path.stat().st_size, [])
        if copied := next((other for other in same if cmp(other, path, shallow=False)), None):
            yield f"{copied} and {path} hold the same bytes: if they are one table, its rows count twice"
        same.append(path)
    texts = [path for path in files if file_extension(path) in (".csv", ".tsv", ".data")]
    cut = [path for path in texts if not _ends_line(path)]
    for path in cut if len(cut) < len(texts) else ():
        yield f"{path} ends within its last line, which other files end: was it cut off, within a number?"


def _ends_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-min(1, path.stat().st_size), SEEK_END)
        return file.read(1) in b"\r\n"


def _by_client(table: FileTable) -> list[FileTable]:
    """One table a client, in order of first appearance, rows in their order."""
    rows: dict[str, list[int]] = {}
    for row, client in enumerate(table.clients or ()):
        rows.setdefault(str(client), []).append(row)
    points = np.asarray(table.points)

    def of(column: Sequence[Identifier] | None, chosen: list[int]) -> list[Any] | None:
        return None if column is None else [column[row] for row in chosen]

    return [
        replace(
            table,
            name=client,
            points=points[chosen],
            ids=of(table.ids, chosen),
            labels=of(table.labels, chosen),
            texts={name: [column[row] for row in chosen] for name, column in table.texts.items()},
        )
        for client, chosen in rows.items()
    ]


def _with_bits(tables: list[FileTable], categories: Mapping[str, tuple[str, ...]]) -> list[FileTable]:
    """Tables with a feature more for every category."""
    found = []
    for table in tables:
        owner = f"client {table.name!r}"
        if table.features is None:
            raise InputError(f"{table.path} has no column names, so none has categories. Add a header row.")
        parts = [
            one_hot_columns(table.texts[name], listed, owner, name) for name, listed in categories.items()
        ]
        points = np.asarray(table.points[0 : table.points.shape[0]])
        names = (*table.features, *category_names(categories))
        if len(set(names)) < len(names):
            raise InputError(f"{table.path} has a column that is called as a category is. Rename it.")
        found.append(replace(table, points=np.concatenate([points, *parts], axis=1), features=names))
    return found


def _renamed(tables: list[FileTable]) -> list[FileTable]:
    """Tables under names that differ: a repeated name gets the first free of -2, -3, ..."""
    taken = {table.name for table in tables}
    used: set[str] = set()
    renamed = []
    for table in tables:
        name, count = table.name, 1
        while name in used or (count > 1 and name in taken):
            count += 1
            name = f"{table.name}-{count}"
        used.add(name)
        renamed.append(replace(table, name=name))
    return renamed


def _codes(columns: Sequence[Sequence[Any] | None]) -> list[Array | None]:
    """Labels as integers: whole numbers as they are, else codes, sorted over all clients."""
    values = {str(value) for column in columns if column is not None for value in column}
    whole = {v: int(m[1]) for v in values if (m := re.fullmatch(r"([+-]?\d+)(?:\.0*)?", v))}
    if len(whole) < len(values) or any(abs(number) >= 2**63 for number in whole.values()):
        whole = {value: code for code, value in enumerate(sorted(values))}
    return [
        None if column is None else np.array([whole[str(v)] for v in column], dtype=np.int64)
        for column in columns
    ]
