"""The `secfc` command: its help, and where the commands under it are."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

import secfc
from secfc.cli.shell.errors import Commands
from secfc.cli.shell.options import argument, command
from secfc.cli.shell.outputs import check_output, csv_of, explaining_writes, write_all
from secfc.cli.shell.settings import Overwriting

# Where each command is, and its line in the help.
COMMANDS = {
    "run": ("secfc.cli.clustering.run:run", "Cluster files, or a demonstration data set."),
    "dp": ("secfc.cli.clustering.run:dp", "Find centers under differential privacy."),
    "overlap": ("secfc.cli.clustering.run:overlap", "Cluster files that have different columns."),
    "check": ("secfc.cli.check:check_inputs", "Say all that is wrong with files, and what they hold."),
    "example": (
        "secfc.cli.shell.program:write_example",
        "Write files of three made-up hospitals, to try commands on.",
    ),
    "plan": ("secfc.cli.plan:plan", "Say what a run will cost and show, before it is agreed on."),
    "predict": ("secfc.cli.predict:predict", "Label new points by the model of a run."),
    "describe": (
        "secfc.cli.describe:describe_labels",
        "Say what clusters are, from the rows that were labeled.",
    ),
    "grid": ("secfc.cli.grid:grid", "Run every combination of parameters, a tidy row each."),
    "plot": ("secfc.cli.grid:plot", "Draw rows of a grid."),
    "table": ("secfc.cli.grid:print_table", "Print rows of a grid as a table, also as LaTeX."),
    "psu": (
        "secfc.cli.union:union",
        "Number the union of several clients' IDs; nobody learns who holds which.",
    ),
    "check-ids": (
        "secfc.cli.union:check_ids",
        "Count what is wrong with a site's IDs, before anything is sent.",
    ),
    "attack": ("secfc.cli.attacks:attack", "Try what a curious party learns."),
    "audit": ("secfc.cli.audit:audit", "Check that a private run keeps what it claims."),
    "deploy": ("secfc.cli.deploy:deploy", "Run between organizations: every site its own machine and file."),
    "warmup": (
        "secfc.cli.shell.program:warmup",
        "Compile all kernels once, so that later runs start at once.",
    ),
}


@click.group(
    cls=Commands,
    entries=COMMANDS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(secfc.__version__, "--version", prog_name="secfc", message="%(prog)s %(version)s")
@click.help_option("--help-all", hidden=True)
@click.pass_context
def main(context: click.Context) -> None:
    """Exact, secure k-means over data that several parties hold (SecFC).

    \b
    Examples:
      secfc run                                  a demonstration on handwritten digits
      secfc run a.csv b.csv c.csv -k 4           one file a client
      secfc run all.csv --client-column site -k 4
      secfc plan -n 10 -m 10000 -d 20 -k 4       what a run will cost and show, before there is one
      secfc predict model.npz new.csv            labels of new points, by what `run --model` kept
      secfc grid --n 5,10,20 --m 1e3,1e4 --out rows.jsonl    every combination; secfc plot draws it
      secfc psu a.txt b.txt c.txt                only the union of their IDs
      secfc attack geometry                      what the server could learn from a run
      secfc audit *.csv -k 4 --server-file public.csv --epsilon 1    what a private run keeps
      secfc deploy --help                        between organizations: every site its own machine and file
      secfc run --help                           its common options, and --help-all the others
    """
    for stream in (sys.stdout, sys.stderr):  # names of clients may not fit the terminal's encoding
        if callable(reconfigure := getattr(stream, "reconfigure", None)):
            reconfigure(errors="backslashreplace")
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@dataclass(frozen=True)
class ExampleOptions(Overwriting):
    """What `secfc example` takes."""

    folder: Path = argument("[DIR]")


@command(ExampleOptions, "example")
def write_example(given: ExampleOptions) -> None:
    """Write a.csv, b.csv and c.csv of three made-up hospitals into DIR, here if none is named, and rows of
    the next month into DIR/next.

    \b
    Examples:
      secfc example hospitals
      secfc run hospitals/*.csv -k 3 --id-column patient --standardize
    """
    folder = given.folder or Path()
    files = {folder / name: lines for name, lines in hospital_files().items()}
    for path in files:
        with explaining_writes("DIR"):
            path.parent.mkdir(parents=True, exist_ok=True)
        check_output(path, "DIR", (), force=given.force)
    write_all({path: csv_of(lines) for path, lines in files.items()}, overwrite=given.force)
    click.echo(f"Written to {folder}: {', '.join(str(path.relative_to(folder)) for path in files)}")


def hospital_files() -> dict[str, list[tuple[Any, ...]]]:
    """Lines of each file: IDs, ages and weights of patients of three kinds."""
    import numpy as np

    rng, found = np.random.default_rng(0), dict[str, list[tuple[Any, ...]]]()
    for name, count in (("a", 40), ("b", 30), ("c", 35), ("next/a", 6), ("next/b", 4)):
        kind = rng.integers(0, 3, count)
        age = rng.normal(30 + 20 * kind, 4).round()
        weight = rng.normal(70 + 15 * (kind == 1), 4).round(1)
        rows = zip(age.tolist(), weight.tolist(), strict=True)
        lines = [(f"{name.replace('/', '-')}-{i}", *row) for i, row in enumerate(rows)]
        found[f"{name}.csv"] = [("patient", "age", "weight"), *lines]
    return found


@click.command()
def warmup() -> None:
    """Compile the kernels, and keep them on disk.

    They are compiled on first use anyway; this does it at a time of your choice, for example while an
    image is built.  NUMBA_CACHE_DIR names another directory if the package may not be written to.

    \b
    Examples:
      secfc warmup
      NUMBA_CACHE_DIR=/var/cache/secfc secfc warmup
    """
    from secfc.cli.shell.screen import Screen, time_work
    from secfc.cli.shell.verbosity import is_quiet
    from secfc.tiny_runs import PIECES, cache_directory, compile_all

    screen = Screen.stderr()
    with screen.counted("Compiling the kernels", PIECES) as done:
        _, spent = time_work(lambda: compile_all(done))
    where = cache_directory()
    if is_quiet() and where is not None:
        return
    click.echo(f"The kernels are ready ({spent:.1f} s).")
    if where is None:
        click.echo(
            "No directory for them may be written to, so every run compiles them again: set "
            "NUMBA_CACHE_DIR to one that may."
        )
    else:
        click.echo(f"They are kept in {where}")
