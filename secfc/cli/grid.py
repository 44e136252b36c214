"""`secfc grid` and `secfc plot`."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from secfc.cli.errors import Remembering, bad_input
from secfc.cli.outputs import ANY_PATH, check_output, write_picture
from secfc.cli.screen import Screen
from secfc.cli.settings import Whole, of_text_files

Command = Callable[..., Any]

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


def axis_option(name: str, what: str) -> Callable[[Command], Command]:
    """A decorator that adds an option of several values."""
    return click.option(f"--{name}", callback=parse_values, metavar="A,B,...", help=what)


@click.command(cls=Remembering, short_help="Run every combination of parameters, a tidy row each.")
@click.argument("files", nargs=-1, metavar="[FILE]...", type=ANY_PATH)
@axis_option("n", "Clients; 1..10 is a range, and 1e3 a thousand.")
@axis_option("m", "Points.")
@axis_option("d", "Features.")
@axis_option("k", "Clusters.")
@axis_option("t", "Clients that may collude.")
@axis_option("ell", "Segments a point is cut into.")
@axis_option("policy", "Disclosure: default, distances, own-labels, final-labels, ...")
@axis_option("algorithm", "secfc, lloyd, k-fed, feddp.")
@axis_option("init", "How runs start: bisecting, random, k-means++, ...")
@axis_option("seed", "Of data and starts.")
@click.option("--set", "more", multiple=True, callback=parse_axes, metavar="NAME=A,B,...",
              help="Others: sigma, clusters_per_client, repeat, n_init, max_iter, ...")  # fmt: skip
@click.option("--preset", help="A figure of the papers; other axes then replace its own. `list` names them.")
@click.option("--out", type=ANY_PATH, metavar="ROWS.jsonl", required=False,
              help="Rows are added to this file; those that are there are not measured again.")  # fmt: skip
@click.option("--jobs", type=Whole(min=1), default=1, show_default=True,
              help="Runs at a time. Times are worth comparing with one only.")  # fmt: skip
@click.option("--backend", type=click.Choice(["loky", "threading", "dask"]),
              help="Where runs go: processes of this machine, or a cluster.")  # fmt: skip
@click.option("--address", help="Of a Dask scheduler, as tcp://host:8786.")
@of_text_files
@click.option("--columns", metavar="A,B,...", help="Of files: features to use.")
@click.option("--quiet", is_flag=True, help="No table and no progress.")
@click.pass_context
def grid(context: click.Context, /, **given: Any) -> None:
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

    if given["preset"] == "list":
        for name, preset in PRESETS.items():
            click.echo(f"{name:<20} {preset.says}")
        return
    axes = {name: given[name] for name in (*NUMBERS, *WORDS) if given[name] is not None} | given["more"]
    if not axes and given["preset"] is None:
        raise click.UsageError("name what varies, as --n 5,10,20 --m 1e3,1e4, or a --preset.", context)
    out, files = given["out"], given["files"]
    reading = {name: given[name] for name in ("delimiter", "decimal", "encoding") if given[name] is not None}
    if given["columns"] is not None:
        reading["columns"] = tuple(name.strip() for name in given["columns"].split(","))
    for name in reading:
        if not files:
            raise click.UsageError(f"--{name} needs a FILE that it describes.", context)
    screen = Screen.stderr(given["quiet"])
    with bad_input(OSError):
        for file in files:
            os.stat(file)
        if out is not None:
            check_output(out, "--out", files, force=True)
        listed = all_cells(given["preset"], axes, files=bool(files))
        total = len({str(cell) for cell in listed})
        reached = connect_cluster(given["backend"], given["address"])
        with reached, screen.counting("Runs", total) as counted:
            rows = run(
                out=out, files=files, jobs=jobs_of(given), preset=given["preset"],
                backend=given["backend"], reading=reading, watch=counted, **axes,
            )  # fmt: skip
    failed = [row for row in rows if row["status"] != "ok"]
    if not given["quiet"]:
        result_table(rows, axes, given["preset"])
        if out is not None:
            click.echo(f"{len(rows)} rows in {out}: secfc plot {out} --x NAME --y ms_per_step")
    for error in dict.fromkeys(row["error"] for row in failed):
        click.echo(f"Error: {sum(row['error'] == error for row in failed)} of {len(rows)}: {error}", err=True)
    if failed:
        context.exit(1)


def jobs_of(given: dict[str, Any]) -> int:
    """A cluster has as many as it has."""
    return -1 if given["backend"] == "dask" and given["jobs"] == 1 else int(given["jobs"])


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


@click.command(cls=Remembering, short_help="Draw rows of a grid.")
@click.argument("rows", type=ANY_PATH, metavar="ROWS.jsonl")
@click.option("--x", required=True, help="The column along the bottom.")
@click.option("--y", required=True, help="The column of numbers that is drawn.")
@click.option("--hue", help="A line for each value of this column.")
@click.option("--out", type=ANY_PATH, metavar="OUT.png", help="Default: the rows' name, ending in .png.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def plot(rows: Path, x: str, y: str, hue: str | None, out: Path | None, force: bool) -> None:
    """Draw one column of a grid's rows over another; several rows at a place give a median and quartiles.

    \b
    Examples:
      secfc plot rows.jsonl --x n --y ms_per_step --hue policy
      secfc plot rows.jsonl --x k --y cost --out costs.pdf
    """
    from secfc.data.inputs import require_library

    require_library("secfc plot", "plot")
    target = out or rows.with_suffix(".png")
    check_output(target, "--out", [rows], force=force)
    from secfc.grids.pictures import plot as picture
    from secfc.grids.rows import read_whole_rows

    with bad_input(OSError):
        figure = picture(read_whole_rows(rows), x, y, hue)
    write_picture(lambda: figure, target, "--out")
    click.echo(f"Picture written to {target}")
