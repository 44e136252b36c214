"""`secfc grid` and `secfc plot`."""

from __future__ import annotations

import importlib
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from secfc.cli.shell.errors import Interrupted, bad_input, tell_notes
from secfc.cli.shell.method import LedgerOptions
from secfc.cli.shell.options import Whole, argument, command, names_of, option, refuse_options
from secfc.cli.shell.outputs import check_output, check_picture, write_picture
from secfc.cli.shell.screen import Screen
from secfc.cli.shell.settings import EvaluateOption, Overwriting, TextFiles

if TYPE_CHECKING:
    from secfc.privacy.budget_file import LedgerTerms

NUMBERS = ("n", "m", "d", "k", "t", "ell", "seed")
WORDS = ("policy", "algorithm", "init")


def value_of(text: str) -> Any:
    """A value as people write it: 5, 1e3, 0.5, true, none, or a word."""
    text = text.strip()
    lowered = text.lower()
    if lowered in ("true", "false", "none"):
        return {"true": True, "false": False, "none": None}[lowered]
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def parse_values(context: click.Context, parameter: click.Parameter, text: str | None) -> Any:
    """Values between commas, or a range of whole numbers: 1..10."""
    if text is None:
        return None
    found: list[Any] = []
    for part in text.split(","):
        if not part.strip():
            raise click.BadParameter(f"{text!r} has an empty value: write 5,10,20.", context, parameter)
        first, dots, last = part.partition("..")
        if dots:
            ends = value_of(first), value_of(last)
            if not all(isinstance(end, int) for end in ends) or ends[0] > ends[1]:
                raise click.BadParameter(f"{part!r} is no range: write 1..10.", context, parameter)
            found += range(ends[0], ends[1] + 1)
        else:
            found.append(value_of(part))
    return found


def parse_axes(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, Any]:
    """Further axes, each name=values."""
    found = {}
    for text in texts:
        name, sign, listed = text.partition("=")
        if not sign or not name.strip().isidentifier():
            raise click.BadParameter(f"{text!r}: write name=values, as n_init=1,5.", context, parameter)
        found[name.strip()] = parse_values(context, parameter, listed)
    return found


def grid_axis(what: str) -> Any:
    """A field that is an option of several values."""
    return option(metavar="A,B,...", parse=parse_values, help=what)


@dataclass(frozen=True)
class GridOptions(TextFiles, LedgerOptions, EvaluateOption):
    """What `secfc grid` takes."""

    # fmt: off
    files: tuple[Path, ...] = argument("[FILE]...")
    n: Any = grid_axis("Clients; 1..10 is a range, and 1e3 a thousand.")
    m: Any = grid_axis("Points.")
    d: Any = grid_axis("Features.")
    k: Any = grid_axis("Clusters.")
    t: Any = grid_axis("Clients that may collude.")
    ell: Any = grid_axis("Segments a point is cut into.")
    policy: Any = grid_axis("Disclosure: default, distances, own-labels, final-labels, ...")
    algorithm: Any = grid_axis("secfc, federated-lloyd, lloyd, k-fed, feddp.")
    init: Any = grid_axis("How runs start: bisecting, random, k-means++, ...")
    seed: Any = grid_axis("Of data and starts.")
    more: Mapping[str, Any] = option({}, None, "--set", many=True, parse=parse_axes, metavar="NAME=A,B,...",
        help="Others: sigma, clusters_per_client, repeat, n_init, max_iter, ...")
    preset: str | None = option(help=
        "A figure of the papers; other axes then replace its own. `list` names them.")
    out: Path | None = option(metavar="ROWS.jsonl", help=
        "Rows are added to this file; those that are there are not measured again.")
    jobs: int = option(1, Whole(1), help="Runs at a time. Times are worth comparing with one only.")
    backend: str | None = option(None, ["loky", "threading", "dask"], help=
        "Where runs go: processes of this machine, or a cluster.")
    address: str | None = option(help="Of a Dask scheduler, as tcp://host:8786.")
    columns: str | None = option(metavar="A,B,...", help="Of files: features to use.")
    quiet: bool = option(False, help="No table and no progress.")
    # fmt: on


@command(GridOptions)
@click.pass_context
def grid(context: click.Context, given: GridOptions) -> None:
    """Run every combination of parameters; each becomes a row of numbers.

    Data are mixtures of k Gaussians, m points of d features, dealt out to n clients; or FILEs, one a client.
    A grid that was interrupted goes on with the same command. Exit code 1 if a run failed: its error is in
    its row, and the others are there.

    \b
    Examples:
      secfc grid --n 5,10,20 --m 1e3,1e4 --policy default,distances --out rows.jsonl
      secfc plot rows.jsonl --x n --y ms_per_step --hue policy
      secfc grid a.csv b.csv c.csv --k 2..8 --seed 0..4 --out rows.jsonl
      secfc grid --preset secfc-figure-1-n --out figure.jsonl
      secfc grid --k 4 --set sigma=1,20 --set n_init=1,5 --jobs 2 --out rows.jsonl
      secfc grid --n 50 --m 1e6 --seed 0..19 --backend dask --address tcp://scheduler:8786 --out rows.jsonl
    """
    from secfc.grids import PRESETS
    from secfc.grids.engine import all_cells
    from secfc.grids.engine import grid as run

    if given.preset == "list":
        for name, preset in PRESETS.items():
            click.echo(f"{name:<20} {preset.says}")
        return
    axes = axes_of(given)
    if not axes and given.preset is None:
        raise click.UsageError("name what varies, as --n 5,10,20 --m 1e3,1e4, or a --preset.", context)
    out, files = given.out, given.files
    if not files:
        refuse_options(context, [*names_of(TextFiles), "columns"], "{option} needs a FILE that it describes.")
        refuse_options(context, ["evaluate", "ledger"], "{option} is of FILEs: mixtures are nobody's data.")
    ledger = ledger_of(context, given)
    screen = Screen.stderr(given.quiet)
    with bad_input(OSError):
        for file in files:
            os.stat(file)
        if out is not None:
            check_output(out, "--out", files, force=True)
        listed = all_cells(given.preset, axes, files=bool(files))
        total = len({str(cell) for cell in listed})
        reached = connect_cluster(given.backend, given.address)
        with reached, explaining_interrupts(out), screen.show_count("Runs", total) as counted:
            rows = run(
                out=out, files=files, jobs=jobs_of(given), preset=given.preset,
                backend=given.backend, reading=reading_of(given), watch=counted, evaluate=given.evaluate,
                ledger=ledger, prefix="--set ", **axes,
            )  # fmt: skip
    tell_total(rows, given)
    told = Counter(row["notes"] for row in rows if row.get("notes"))
    tell_notes(f"{count} of {len(rows)} runs: {said.rstrip('.')}" for said, count in told.items())
    if not given.quiet:
        result_table(rows, axes, given.preset)
        if out is not None:
            from secfc.report.terminal import pluralize

            click.echo(f"{pluralize(len(rows), 'row')} in {out}: secfc plot {out} --x NAME --y ms_per_step")
    if show_errors(rows):
        context.exit(1)


@contextmanager
def explaining_interrupts(out: Path | None) -> Iterator[None]:
    """Within the body, Ctrl-C says what becomes of rows that are finished.  Raises Interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        kept = "No row was kept: --out ROWS.jsonl keeps those that are finished."
        if out is not None:
            kept = f"Finished rows stay in {out}; the same command goes on with the others."
        raise Interrupted(f"interrupted. {kept}") from None


def show_errors(rows: list[dict[str, Any]]) -> int:
    """How many rows failed, each error said once on stderr."""
    errors = Counter(row["error"] for row in rows if row["status"] != "ok")
    for error, count in errors.items():
        click.echo(f"Error: {count} of {len(rows)}: {error}", err=True)
    return errors.total()


def axes_of(given: GridOptions) -> dict[str, Any]:
    """What varies, by name."""
    axes = {name: getattr(given, name) for name in (*NUMBERS, *WORDS)}
    return {name: values for name, values in axes.items() if values is not None} | dict(given.more)


def ledger_of(context: click.Context, given: GridOptions) -> LedgerTerms | None:
    """Ledger of budgets, None without.  Raises UsageError for what is said of none."""
    from secfc.privacy.budget_file import LedgerTerms

    if given.ledger is None:
        refuse_options(context, ["total_epsilon", "same_people"], "{option} needs --ledger FILE.")
        return None
    return LedgerTerms(given.ledger, given.total_epsilon, given.same_people)


def tell_total(rows: list[dict[str, Any]], given: GridOptions) -> None:
    """What all runs with a budget spent together on the people of the files, on stderr."""
    spent = [row["epsilon_spent"] for row in rows if "epsilon_spent" in row]
    if not spent or not given.files:
        return
    where = "" if given.ledger else " Enter them with --ledger FILE, so that a total holds over runs."
    click.echo(
        f"Note: {len(spent)} runs on these people spent epsilon = {math.fsum(spent):.4g} together, and all "
        f"their deltas.{where}",
        err=True,
    )


def reading_of(given: GridOptions) -> dict[str, Any]:
    """How files are read, as keywords of `Federation.from_files`."""
    if given.columns is None:
        return {"dialect": given.dialect()}
    return {"dialect": given.dialect(), "columns": tuple(name.strip() for name in given.columns.split(","))}


def jobs_of(given: GridOptions) -> int:
    """A cluster has as many as it has."""
    return -1 if given.backend == "dask" and given.jobs == 1 else int(given.jobs)


def connect_cluster(backend: str | None, address: str | None) -> Any:
    """A connection to the cluster that was asked for.  Raises UsageError, InputError."""
    from contextlib import nullcontext

    from secfc.data.inputs import require_library

    if address is not None and backend != "dask":
        raise click.UsageError("--address needs --backend dask, whose it is.")
    if backend == "dask":
        require_library("--backend dask", "dask")
        distributed: Any = importlib.import_module("distributed")
        return distributed.Client(address) if address else distributed.Client(threads_per_worker=1)
    return nullcontext()


def result_table(rows: list[dict[str, Any]], axes: dict[str, Any], preset: str | None) -> None:
    """What varies, and the figures that people ask for first."""
    from rich.console import Console

    from secfc.report.terminal import Grid
    from secfc.report.terminal import cells_table as drawn

    cells = [row for row in rows if row["status"] == "ok"]
    if not cells:
        return
    names = [n for n in (*NUMBERS, *WORDS, *axes) if len({str(row.get(n)) for row in rows}) > 1]
    names = list(dict.fromkeys(names)) or ["k"]
    shown = [n for n in ("ms_per_step", "bytes_per_step", "n_iter", "cost", "accuracy") if n in cells[0]]
    lines = [
        [*(str(row.get(n, "")) for n in names), *(f"{row[n]:,.4g}" if n in row else "" for n in shown)]
        for row in cells[:60]
    ]
    console = Console(markup=False, highlight=False, emoji=False)
    console.print(drawn(Grid((*names, *shown), lines, len(names))))
    if len(cells) > 60:
        console.print(f"... and {len(cells) - 60} more")


def parse_where(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    """NAME=VALUE of rows that are kept."""
    if wrong := [value for value in values if not value.partition("=")[1]]:
        raise click.BadParameter(f"{wrong[0]!r}: NAME=VALUE is needed, as n=10.")
    return {name: value for name, _, value in (text.partition("=") for text in values)}


@dataclass(frozen=True)
class RowsOptions(Overwriting):
    """What commands on rows of a grid take."""

    rows: Path = argument("ROWS.jsonl")
    where: Mapping[str, str] = option({}, None, many=True, parse=parse_where, metavar="NAME=VALUE", help=
        "Only rows that have it; repeatable.")  # fmt: skip

    def chosen(self) -> list[dict[str, Any]]:
        """The rows.  Raises InputError."""
        from secfc.grids.rows import chosen_rows, read_whole_rows

        with bad_input(OSError):
            return chosen_rows(read_whole_rows(self.rows), self.where)


@dataclass(frozen=True)
class PlotOptions(RowsOptions):
    """What `secfc plot` takes."""

    x: str = option(required=True, help="The column along the bottom.")
    y: str = option(required=True, help="The column of numbers that is drawn.")
    hue: str | None = option(help="A line for each value of this column.")
    row: str | None = option(help="Panels below each other for its values.")
    col: str | None = option(help="Panels beside each other for its values.")
    log: str | None = option(None, ["x", "y", "both", "neither"], help=
        "Logarithmic axes. Default: those of values that span more than a factor of 30.")  # fmt: skip
    out: Path | None = option(metavar="OUT.png", help="Default: the rows' name, ending in .png.")


@command(PlotOptions)
def plot(given: PlotOptions) -> None:
    """Draw one column of a grid's rows over another; several seeds at a place give a median and quartiles.

    Rows of a place that differ in more than their seed are refused: name what varies, or keep one value.

    \b
    Examples:
      secfc plot rows.jsonl --x n --y ms_per_step --hue policy
      secfc plot rows.jsonl --x k --y cost --where n=10 --out costs.pdf
    """
    from secfc.data.inputs import require_library

    require_library("secfc plot", "plot")
    rows, target = given.rows, given.out or given.rows.with_suffix(".png")
    check_output(target, "--out", [rows], force=given.force)
    check_picture(target, "--out")
    from secfc.grids.rows import plot as picture

    figure = picture(given.chosen(), given.x, given.y, given.hue, given.row, given.col, given.log)
    write_picture(lambda: figure, target, "--out")
    click.echo(f"Picture written to {target}")


@dataclass(frozen=True)
class TableOptions(RowsOptions):
    """What `secfc table` takes."""

    row: str = option(required=True, help="The parameter down the side.")
    col: str | None = option(help="The parameter across.")
    value: str = option(required=True, help="The column of numbers in the table.")
    kind: str = option("markdown", ["markdown", "latex", "csv"], "--format", help="Of the table.")


@command(TableOptions, "table")
def print_table(given: TableOptions) -> None:
    """Print medians of one column of a grid's rows by one parameter, or by two, with quartiles over seeds.

    \b
    Examples:
      secfc table rows.jsonl --row n --col policy --value ms_per_step
      secfc table rows.jsonl --row m --value bytes --where n=10 --format latex
    """
    from secfc.grids.rows import format_table, pivot_table

    shown = pivot_table(given.chosen(), given.row, given.col, given.value, plain=given.kind == "csv")
    click.echo(format_table(*shown, given.kind), nl=False)
