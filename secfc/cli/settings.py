"""What the user asked of the shell itself, and what options may hold."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource


@dataclass(frozen=True)
class Settings:
    """What is asked whatever the algorithm: data, clusters, and where results go; None is "choose for me"."""

    files: tuple[Path, ...]
    k: Any  # int | Elbow | None
    client_column: str | None
    columns: tuple[str, ...] | None
    id_column: str | None
    label_column: str | None
    seed: int
    force: bool
    as_json: bool
    sealed: bool = False
    evaluate: bool = False
    checkpoint: Path | None = None
    labels: Path | None = None
    site_labels: Path | None = None
    report: tuple[Path, ...] = ()
    readers: str = "everybody"
    publish: Path | None = None
    verbose: bool = False
    plot: Path | None = None
    officer: Path | None = None
    fill: Mapping[str, str] = field(default_factory=dict)
    model: Path | None = None
    processes: bool = False
    features: str = "same"
    standardize: bool = False
    to_range: bool = False
    ranges: tuple[tuple[str, float, float], ...] | None = None
    scale_share: float | None = None
    limit: float | None = None
    outside: str | None = None
    missing: str = "refuse"
    categorical: tuple[tuple[str, tuple[str, ...] | None], ...] = ()
    encoding: str | None = None
    delimiter: str | None = None
    decimal: str | None = None
    schema: Path | None = None
    linkage: Any = None  # Linkage | None, what the schema says
    drop_unfit: bool = False


def of_schema(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what says which rows are the same person's."""
    from secfc.cli.outputs import ANY_PATH

    unfit = click.option(
        "--drop-unfit", is_flag=True,
        help="With --schema: leave rows out that lack a required field or have another form.",
    )  # fmt: skip
    return click.option(
        "--schema", type=ANY_PATH, metavar="SCHEMA.toml",
        help="A linkage schema: rows are linked by its columns, normalized by its rules (see check-ids).",
    )(unfit(command))  # fmt: skip


def load_schema(context: click.Context, schema: Path | None) -> Any:
    """What a linkage schema says, None without one.  Raises UsageError, InputError."""
    from secfc.cli.errors import bad_input
    from secfc.data.linkage import read_linkage

    if schema is None:
        refuse_options(context, ("drop_unfit",), "{option} needs --schema: add it, or leave it out.")
        return None
    refuse_options(context, ("id_column",), "{option} has no meaning with --schema: leave it out.")
    with bad_input(OSError):
        return read_linkage(schema)


TEXT_FILES = (
    click.option("--delimiter", metavar="C", help="What separates cells of CSV files: a character, or tab. "
                 "Default: what each file shows."),
    click.option("--decimal", type=click.Choice([".", ","]), help="The decimal sign of CSV files. Default: "
                 "what each file shows; 1,234 alone is refused."),
    click.option("--encoding", metavar="NAME", help="Of CSV files, as cp1252. Default: UTF-8, or what a byte "
                 "order mark says."),
)  # fmt: skip


def of_text_files(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what says how text files are written."""
    for option in reversed(TEXT_FILES):
        command = option(command)
    return command


def of_id_files(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same where no numbers are read."""
    for option in (TEXT_FILES[2], TEXT_FILES[0]):
        command = option(command)
    return command


class Whole(click.IntRange):
    """A whole number within bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """An int."""
        try:
            int(value)
        except ValueError:
            self.fail(f"{value!r} is no whole number.", param, ctx)
        return super().convert(value, param, ctx)


class Number(click.FloatRange):
    """A number within bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """A float."""
        try:
            float(value)
        except ValueError:
            self.fail(f"{value!r} is no number.", param, ctx)
        return super().convert(value, param, ctx)


class Clusters(click.ParamType[Any]):
    """A number of clusters, or among which to choose it."""

    name = "clusters"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """An int or an Elbow."""
        from secfc.kmeans.elbow import parse_k

        try:
            k = parse_k(value)
        except ValueError as error:
            self.fail(f"{error}.".replace("k=", ""), param, ctx)
        if isinstance(k, int) and k < 1:
            self.fail(f"{k} is not in the range x>=1.", param, ctx)
        return k


def parse_positive(context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """A positive finite number, or none."""
    if value is not None and not (math.isfinite(value) and value > 0):
        raise click.BadParameter(f"{value:g} is not a positive finite number.")
    return value


def parse_names(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[str, ...] | None:
    """Comma-separated names; a name that holds a comma is quoted as in CSV."""
    if value is None:
        return None
    found = tuple(name.strip() for name in next(csv.reader([value], skipinitialspace=True), []))
    if not found or "" in found:
        raise click.BadParameter(f"{value!r} is not a list of column names: write --columns age,weight")
    return found


def refuse_options(context: click.Context, options: Iterable[str], why: str) -> None:
    """Raise UsageError for the first of these options that was given.  why: "{option}" is its name."""
    for option in options:
        if context.get_parameter_source(option) is ParameterSource.COMMANDLINE:
            flag = next(p.opts[0] for p in context.command.params if p.name == option)
            raise click.UsageError(why.format(option=flag))


def check_k(settings: Settings) -> None:
    """Raise UsageError if nobody said how many clusters files are to have."""
    if settings.files and settings.k is None:
        raise click.UsageError("-k is missing: say how many clusters to look for, for example -k 4.")


def check_choice(settings: Settings, name: str, chooses: bool) -> None:
    """Raise UsageError for an algorithm of this name that cannot choose k, and for a picture of no choice."""
    chosen = settings.k is not None and not isinstance(settings.k, int)
    if chosen and not chooses:
        raise click.UsageError(f"--algorithm {name} cannot choose k: give a number, for example -k 4.")
    if settings.plot is not None and not chosen:
        raise click.UsageError("--plot draws the costs by which k is chosen: add -k auto, or leave it out.")
