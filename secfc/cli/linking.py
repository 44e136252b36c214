"""`secfc check-ids`, and the keys that `secfc psu --schema` links rows by.

Messages and reports name files, columns and counts, and never show a cell.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from secfc.cli.errors import bad_input
from secfc.cli.options import argument, command, option
from secfc.cli.outputs import json_text
from secfc.cli.settings import IdFiles, Printing
from secfc.data.dialects import Dialect, file_extension
from secfc.data.inputs import InputError
from secfc.data.tables import open_excel

if TYPE_CHECKING:
    from secfc.cli.ids import Client
    from secfc.data.linkage import KeyQuality, Linkage


@dataclass(frozen=True)
class CheckIdsOptions(IdFiles, Printing):
    """What `secfc check-ids` takes."""

    # fmt: off
    # fmt: off
    files: tuple[Path, ...] = argument("FILE...")
    schema: Path = option(metavar="SCHEMA.toml", required=True, help=
        "The linkage schema that all sites share: columns, their normalization, what they must look like.")
    # fmt: on
    # fmt: on
    HELP: ClassVar = {"as_json": "Print the counts as JSON on stdout, and nothing else."}


@command(CheckIdsOptions)
@click.pass_context
def check_ids(context: click.Context, given: CheckIdsOptions) -> None:
    """Count what is wrong with a site's IDs, before anything is sent: missing cells, placeholders such as
    9999999999 or 01.01.1900, wrong forms, wrong check digits, repeated keys. No value is shown.

    All sites must use the same schema: compare the digest that is printed.

    \b
    Examples:
      secfc check-ids mine.csv --schema study.toml
      secfc check-ids mine.csv --schema study.toml --encoding cp1252 --json

    Exit codes: 0 every row can take part; 1 some cannot; 2 bad usage or bad input; 130 interrupted.
    """
    from secfc.data.linkage import linkage_keys, read_linkage

    with bad_input(OSError):
        linkage = read_linkage(given.schema)
        dialect = Dialect(given.encoding, given.delimiter)
        found = {
            path: linkage_keys(linkage, read_fields(path, linkage.columns, dialect))[1]
            for path in given.files
        }
    if given.as_json:
        told = {str(path): asdict(quality) for path, quality in found.items()}
        click.echo(json_text({"schema": linkage.digest, "files": told}))
    else:
        click.echo(f"schema {linkage.digest}")
        for path, quality in found.items():
            click.echo("\n".join(quality_lines(str(path), quality)))
    if any(quality.unfit for quality in found.values()):
        context.exit(1)


def quality_lines(name: str, quality: KeyQuality) -> list[str]:
    """The counts as text, a line a field."""
    told = [
        f"{name}: {quality.rows} rows, {quality.unfit} cannot take part; {quality.distinct} different keys, "
        f"{quality.repeated} rows repeat one"
    ]
    for field in quality.fields:
        told.append(
            f"  {field.column}: {field.present} present, {field.missing} missing, "
            f"{field.misformed} of another form, {field.failed} with a wrong check digit, "
            f"{field.placeholders} placeholders, at most {field.most} rows of one value"
        )
        if field.hint:
            told.append(f"    {field.hint}")
    return told


def make_keys(
    files: Sequence[Path], linkage: Linkage, dialect: Dialect, drop: bool
) -> tuple[list[Client], list[str]]:
    """Each file's keys and the rows where they stand, as clients; and how many rows are left out, in words.

    drop: leave rows out that cannot take part.  Raises InputError, OSError; if not drop, also for such rows.
    """
    from secfc.cli.ids import Client, check_paths, names_of
    from secfc.data.linkage import linkage_keys

    check_paths(files)
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
        clients.append(Client(name, [key for _, key in held], [row for row, _ in held]))
    if len(clients) < 2:
        raise InputError(f"n={len(clients)}: a union needs at least 2 clients. Each FILE is one client.")
    return clients, left


def read_fields(path: Path, columns: Sequence[str], dialect: Dialect) -> list[tuple[str, ...]]:
    """Cells of these columns, a row each, empty ones as "".  Raises InputError, OSError."""
    from secfc.cli.ids import check_paths, column_position

    check_paths([path])
    kind = file_extension(path)
    if kind.startswith(".txt"):
        raise InputError(f"{path} is plain text and has no columns: a schema needs CSV, .xlsx or Parquet.")
    if kind == ".parquet":
        return _parquet(path, columns)
    if kind == ".xlsx":
        with open_excel(path) as rows:
            return _cells(path, rows, columns, column_position)
    with replace(dialect, decimal=".").opened(path) as (rows, _):
        return _cells(path, rows, columns, column_position)


def _cells(path: Path, reader: Any, columns: Sequence[str], position: Any) -> list[tuple[str, ...]]:
    try:
        first = next((row for row in reader if row), None)
        if first is None:
            raise InputError(f"{path} is empty: its first line must name the columns. Add it.")
        header = [cell.strip() for cell in first]
        at = [position(path, header, name) for name in columns]
        out = []
        for row in reader:
            if row and len(row) != len(header):
                raise InputError(
                    f"{path}, line {reader.line_num}: {len(row)} cells, and the first row has {len(header)}. "
                    "Every row needs the same number: correct the row."
                )
            if row:
                out.append(tuple(row[place] for place in at))
        return out
    except csv.Error as error:
        raise InputError(
            f"{path}, line {reader.line_num}: not valid CSV ({error}). Check the quotes."
        ) from error


def _parquet(path: Path, columns: Sequence[str]) -> list[tuple[str, ...]]:
    from secfc.cli.ids import column_position
    from secfc.data.tables import open_parquet

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
