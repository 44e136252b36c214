"""`secfc psu`: the union of several clients' IDs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from field.ring.errors import InvalidValue
from secfc.cli.errors import RefusedInput, bad_input
from secfc.cli.execute import ALONE
from secfc.cli.outputs import ANY_PATH, check_output, csv_of, explaining_writes, json_text, write_all
from secfc.cli.screen import COMPILING, Screen, time_work
from secfc.cli.settings import Whole, load_schema, of_id_files, of_schema, refuse_options
from secfc.cli.tiny_runs import tiny_union
from secfc.cli.verbosity import is_quiet

if TYPE_CHECKING:
    from psu import Committee, Server
    from secfc.cli.ids import Client
    from secfc.report.union import UnionReport

OUT = Path("secfc-psu.csv")


@click.command("psu", short_help="Number the union of several clients' IDs; nobody learns who holds which.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=ANY_PATH)
@click.option(
    "--id-column", metavar="NAME",
    help="The column with the IDs. Not needed for .txt, or for a file with one column only.",
)  # fmt: skip
@click.option("--client-column", metavar="NAME", help="One file holds all clients; this column tells whose.")
@of_schema
@of_id_files
@click.option(
    "--mode", type=click.Choice(["threshold", "server"]), default="threshold", show_default=True,
    help="Who may collude. threshold: any t clients and the server. server: any n-2 clients, but the "
    "server with nobody; faster.",
)  # fmt: skip
@click.option(
    "-t", type=Whole(1), metavar="T",
    help="threshold: clients that may collude. Default: the most that n clients allow, "
    "n >= 2 t + 1 + spares.",
)  # fmt: skip
@click.option(
    "--spares", type=Whole(0), default=0, show_default=True,
    help="threshold: committee members that may fall silent in a round.",
)  # fmt: skip
@click.option(
    "--bound", type=Whole(1, 1 << 24), metavar="M",
    help="A size of the union that everybody may know; tables are made for it, so time and memory grow with "
    "it, and a much larger union fails. Default: the size is estimated in a round of its own.",
)  # fmt: skip
@click.option(
    "--quota", type=Whole(1, 1 << 24), metavar="IDS",
    help="Let the server and t+1 clients compute pseudonyms together, for at most so many IDs of each "
    "client, so that nobody tests guesses at will. A public number; half a millisecond an ID at each client.",
)  # fmt: skip
@click.option(
    "--out", type=ANY_PATH, default=OUT, show_default=True, metavar="OUT.csv", help="Where row numbers go."
)
@click.option("--force", is_flag=True, help="Overwrite an existing output file.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON on stdout, and nothing else.")
@click.pass_context
def union(
    context: click.Context,
    /,
    files: tuple[Path, ...],
    id_column: str | None,
    client_column: str | None,
    schema: Path | None,
    drop_unfit: bool,
    delimiter: str | None,
    encoding: str | None,
    mode: str,
    t: int | None,
    spares: int,
    bound: int | None,
    quota: int | None,
    out: Path,
    force: bool,
    as_json: bool,
) -> None:
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
    from secfc.cli.ids import load_ids
    from secfc.cli.linking import make_keys
    from secfc.coded.union import blame_union_failure
    from secfc.data.dialects import Dialect

    if mode == "server":
        refuse_options(context, ("t", "spares"), "{option} has no meaning for --mode server: leave it out.")
    linkage = load_schema(context, schema)
    if linkage is not None:
        refuse_options(context, ("client_column",), "{option} has no meaning with --schema: leave it out.")
    screen = Screen.stderr(as_json)
    about: tuple[str, ...] = ()
    with screen.status("Reading the IDs"), bad_input(OSError):
        dialect = Dialect(encoding, delimiter)
        if linkage is None:
            clients = load_ids(files, id_column, client_column, dialect)
        else:
            clients, left = make_keys(files, linkage, dialect, drop_unfit)
            about = (f"rows are linked by a schema with the digest {linkage.digest}", *left)
    check_output(out, "--out", files if schema is None else (*files, schema), force=force)
    with bad_input():
        chosen, notes = choose_mode(len(clients), mode, t, spares)
    with blame_union_failure(tuple(client.name for client in clients)):
        report = find_union(clients, chosen, bound, quota, _source(files), (*about, *notes), screen)
    with explaining_writes("--out"):
        write_all({out: csv_of(row_lines(clients, report))}, overwrite=force)
    if as_json or not is_quiet():
        _print(report, out, as_json)


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


def find_union(
    clients: Sequence[Client],
    mode: Committee | Server,
    bound: int | None,
    quota: int | None,
    source: str,
    notes: tuple[str, ...],
    screen: Screen,
) -> UnionReport:
    """The union, and what it took.  Raises InputError, UnionAborted."""
    import psu
    from psu.ristretto import require_libsodium
    from secfc.report.union import UnionReport

    try:
        psu.UnionPlan(len(clients), mode, bytes(16), bound or 1)
        if quota is not None:
            require_libsodium()
    except (ValueError, ImportError) as error:
        raise RefusedInput(str(error).replace("mode=Server()", "--mode server")) from error
    many = [client for client in clients if quota is not None and client.distinct > quota]
    if many:
        raise RefusedInput(
            f"--quota {quota}: {many[0].name} has {many[0].distinct:,} different IDs. Agree on a larger one, "
            "which must not follow from who holds how many."
        )
    wall: dict[str, float] = {}
    with screen.status("Preparing the compiled kernels"), screen.remark(COMPILING):
        _, wall["prepare"] = time_work(lambda: tiny_union(mode))
    try:
        with screen.status("Finding the union"):
            sets = [client.ids for client in clients]
            result, wall["union"] = time_work(
                lambda: psu.union(sets, mode=mode, bound=bound, quota=quota or 0)
            )
    except MemoryError as error:
        raise RefusedInput("there is not enough memory for tables of this size: lower --bound.") from error
    if clients[1:] and result.m == sum(client.distinct for client in clients) > 0:
        notes = (*notes, ALONE)
    return UnionReport(
        result,
        {client.name: len(client.ids) for client in clients},
        {client.name: client.distinct for client in clients},
        source,
        notes,
        wall,
    )


def row_lines(clients: Sequence[Client], union: UnionReport) -> Iterator[Sequence[Any]]:
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
