"""`secfc psu`, the union of several clients' IDs, and `secfc check-ids`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from field.ring.errors import InvalidValue
from secfc.cli.clustering.execute import ALONE
from secfc.cli.shell.errors import RefusedInput, bad_input
from secfc.cli.shell.options import Whole, argument, command, option, refuse_options
from secfc.cli.shell.outputs import check_output, csv_of, explaining_writes, json_text, write_all
from secfc.cli.shell.screen import Screen, time_compiled
from secfc.cli.shell.settings import IdFiles, Linked, Overwriting, Owners, Printing, load_schema
from secfc.cli.shell.verbosity import is_quiet
from secfc.remedies import agree_in_number

if TYPE_CHECKING:
    from psu import Committee, Server
    from secfc.data.ids import IdClient
    from secfc.data.linkage import KeyQuality
    from secfc.report.union import UnionReport

OUT = Path("secfc-psu.csv")


@dataclass(frozen=True)
class UnionOptions(Owners, Linked, IdFiles, Printing, Overwriting):
    """What `secfc psu` takes."""

    # fmt: off
    files: tuple[Path, ...] = argument("FILE...")
    mode: str = option("threshold", ["threshold", "server"], help=
        "Who may collude. threshold: any t clients and the server. server: any n-2 clients, but the server "
        "with nobody; faster.")
    t: int | None = option(None, Whole(1), "-t", metavar="T", help=
        "threshold: clients that may collude. Default: the most that n clients allow, n >= 2 t + 1 + spares.")
    spares: int = option(0, Whole(0), help="threshold: committee members that may fall silent in a round.")
    bound: int | None = option(None, Whole(1, 1 << 24), metavar="M", help=
        "A size of the union that everybody may know; tables are made for it, so time and memory grow with "
        "it, and a much larger union fails. Default: the size is estimated in a round of its own.")
    quota: int | None = option(None, Whole(1, 1 << 24), metavar="IDS", help=
        "Let the server and t+1 clients compute pseudonyms together, for at most so many IDs of each client, "
        "so that nobody tests guesses at will. A public number; half a millisecond an ID at each client.")
    out: Path = option(OUT, metavar="OUT.csv", help="Where row numbers go.")
    # fmt: on
    HELP: ClassVar = {
        "id_column": "The column with the IDs. Not needed for .txt, or for a file with one column only."
    }


@command(UnionOptions, "psu")
@click.pass_context
def union(context: click.Context, given: UnionOptions) -> None:
    """Number the union of several clients' IDs, so that equal IDs have equal numbers at all of them, and
    nobody learns which client holds which ID (private set union).

    FILE is CSV (.csv, .tsv, .csv.gz), .xlsx, Parquet, or .txt with one ID a line: one file a client, or one
    file for all with --client-column. A CSV file begins with the names of its columns; in a file with a
    single column a number in the first line is an ID. IDs are compared as text: 7 and 07 differ, unless a
    --schema says otherwise. An ID that a client holds several times counts once.

    Written are the columns client, row (of the file, counted from 0 without the header) and union_row, in
    [0, size of the union).

    All clients are simulated in this process, so whoever runs it sees all IDs.

    \b
    Examples:
      secfc psu a.txt b.txt c.txt
      secfc psu a.csv b.csv c.csv --id-column patient
      secfc psu all.parquet --client-column hospital --id-column patient -t 2 --spares 1
      secfc psu a.txt b.txt --mode server --out rows.csv
      secfc psu a.csv b.csv c.csv --schema study.toml --drop-unfit
      secfc psu a.txt b.txt c.txt --bound 100000 --json
      secfc psu a.txt b.txt c.txt --quota 10000

    Exit codes: 0 success; 1 the protocol failed, for example at a union far above --bound; 2 bad usage or bad
    input; 130 interrupted.
    """
    from secfc.coded.union import blame_union_failure
    from secfc.data.ids import load_ids, make_keys

    if given.mode == "server":
        refuse_options(context, ("t", "spares"), "{option} has no meaning for --mode server: leave it out.")
    linkage = load_schema(context, given.schema)
    if linkage is not None:
        refuse_options(context, ("client_column",), "{option} has no meaning with --schema: leave it out.")
    screen = Screen.stderr(given.as_json)
    about: tuple[str, ...] = ()
    with screen.status("Reading the IDs"), bad_input(OSError):
        dialect = given.dialect()
        if linkage is None:
            clients = load_ids(given.files, given.id_column, given.client_column, dialect)
        else:
            clients, left = make_keys(given.files, linkage, dialect, given.drop_unfit)
            about = (f"rows are linked by a schema with the digest {linkage.digest}", *left)
    read = given.files if given.schema is None else (*given.files, given.schema)
    check_output(given.out, "--out", read, force=given.force)
    with bad_input():
        mode, notes = choose_mode(len(clients), given.mode, given.t, given.spares)
    with blame_union_failure(tuple(client.name for client in clients)):
        report = find_union(clients, mode, given, (*about, *notes), screen)
    with explaining_writes("--out"):
        write_all({given.out: csv_of(row_lines(clients, report))}, overwrite=given.force)
    if given.as_json or not is_quiet():
        _print(report, given.out, given.as_json)


def choose_mode(n: int, mode: str, t: int | None, spares: int) -> tuple[Committee | Server, tuple[str, ...]]:
    """Who may collude, and notes on it.  By default as many as n clients allow.

    Raises ValueError.
    """
    import psu

    if n == 2:
        alone = "with 2 clients each learns which IDs the other has: those of the union that it lacks"
        if mode == "server":
            return psu.Server(), (alone,)
        raise InvalidValue(
            "n=2 clients cannot hide anything from one another, and threshold mode needs n >= 2 t + 1 + "
            "spares: add clients, or use --mode server, which hides the IDs from the server"
        )
    if mode == "server":
        return psu.Server(), ()
    if t is None:
        t = max((n - 1 - spares) // 2, 1)  # if 1 is too much for n, the plan says so
        return psu.Committee(t, spares), (f"t={t} was chosen: the most that n={n} clients allow",)
    return psu.Committee(t, spares), ()


def check_union(clients: Sequence[IdClient], mode: Committee | Server, given: UnionOptions) -> None:
    """Raise RefusedInput for clients and options of which no union can be made."""
    import psu
    from psu.ristretto import require_libsodium

    quota = given.quota
    try:
        psu.UnionPlan(len(clients), mode, bytes(16), given.bound or 1)
        if quota is not None:
            require_libsodium()
    except (ValueError, ImportError) as error:
        raise RefusedInput(str(error).replace("mode=Server()", "--mode server")) from error
    for client in clients:
        if quota is not None and client.distinct > quota:
            raise RefusedInput(
                f"--quota {quota}: {client.name} has {client.distinct:,} different IDs. Agree on a larger "
                "one, which must not follow from who holds how many."
            )


def find_union(
    clients: Sequence[IdClient], mode: Committee | Server, given: UnionOptions, notes: tuple[str, ...],
    screen: Screen,
) -> UnionReport:  # fmt: skip
    """The union, and what it took.  Raises InputError, UnionAborted."""
    import psu
    from secfc.report.union import UnionReport

    check_union(clients, mode, given)
    wall: dict[str, float] = {}
    try:
        with screen.status("Finding the union"), screen.remark_compiling():
            sets = [client.ids for client in clients]
            result = time_compiled(
                lambda: psu.union(sets, mode=mode, bound=given.bound, quota=given.quota or 0), wall, "union"
            )
    except MemoryError as error:
        raise RefusedInput("there is not enough memory for tables of this size: lower --bound.") from error
    if clients[1:] and result.m == sum(client.distinct for client in clients) > 0:
        notes = (*notes, ALONE)
    return UnionReport(
        result,
        {client.name: len(client.ids) for client in clients},
        {client.name: client.distinct for client in clients},
        _source(given.files),
        notes,
        wall,
    )


def row_lines(clients: Sequence[IdClient], union: UnionReport) -> Iterator[Sequence[Any]]:
    """Rows of the output file, its header first."""
    yield ("client", "row", "union_row")
    for client, rows in zip(clients, union.result.rows, strict=True):
        if rows is not None:
            for row, number in zip(client.rows, rows.tolist(), strict=True):
                yield (client.name, row, number)


def _source(files: Sequence[Path]) -> str:
    more = f" and {len(files) - 4} more" if len(files) > 4 else ""
    return ", ".join(str(path) for path in files[:4]) + more


def _print(union: UnionReport, out: Path, as_json: bool) -> None:
    from rich.console import Console

    from secfc.report import union as report

    if as_json:
        click.echo(json_text(report.as_json(union)))
        return
    console = Console(markup=False, highlight=False, emoji=False)
    report.print_union(console, union)
    console.print(f"\nRow numbers written to {out}", soft_wrap=True)


# --------------------------------------------------------------------------------------------------
# `secfc check-ids`: messages and reports name files, columns and counts, and never show a cell.


@dataclass(frozen=True)
class CheckIdsOptions(IdFiles, Printing):
    """What `secfc check-ids` takes."""

    # fmt: off
    files: tuple[Path, ...] = argument("FILE...")
    schema: Path = option(metavar="SCHEMA.toml", required=True, help=
        "The linkage schema that all sites share: columns, their normalization, what they must look like.")
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
    from secfc.data.ids import read_fields
    from secfc.data.linkage import linkage_keys, read_linkage

    with bad_input(OSError):
        linkage = read_linkage(given.schema)
        dialect = given.dialect()
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
    return [agree_in_number(line) for line in told]
