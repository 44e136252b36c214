"""What the user asked of the shell itself, whatever the algorithm: data, clusters, and where results go."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from secfc.cli.shell.options import (
    CLUSTERS,
    DATA,
    OUTPUT,
    PRIVACY,
    RUN,
    Clusters,
    Number,
    Positive,
    Whole,
    argument,
    names_of,
    option,
    parse_names,
    refuse_options,
)

if TYPE_CHECKING:
    from secfc.data.dialects import Dialect

LABELS, REPORT = Path("secfc-labels.csv"), Path("secfc-report.json")


def parse_ranges(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
    """NAME=LOW:HIGH,... as pairs by name."""
    if value is None:
        return None
    found: dict[str, tuple[float, float]] = {}
    for item in value.split(","):
        name, _, ends = item.rpartition("=")
        low, _, high = ends.partition(":")
        try:
            pair = float(low), float(high)
        except ValueError:
            pair = (math.nan, math.nan)
        if not name.strip() or not -math.inf < pair[0] < pair[1] < math.inf:
            raise click.BadParameter(f"{item!r} is no range: write --ranges age=0:120,weight=0:300")
        found[name.strip()] = pair
    return tuple((name, *pair) for name, pair in found.items())


def parse_categories(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
    """NAME, NAME=A|B|... or NAME=A<B<..., separated by commas, as pairs of a column and its categories.

    None stands for categories to agree on.
    """
    from secfc.data.files import parse_listed

    found = []
    for item in parse_names(context, parameter, value) or ():
        name, given, listed = item.partition("=")
        found.append((name, parse_listed(listed) if given else None))
    if len({name for name, _ in found}) < len(found):
        raise click.BadParameter(f"{value!r} names a column twice")
    return tuple(found)


def parse_filled(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    """What only people know, by name."""
    if not values:
        return {}
    from secfc.report.officer import FILLED

    names = [name.lower() for name in FILLED]
    found: dict[str, str] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not (equals and text.strip()) or name.strip().lower() not in names:
            raise click.BadParameter(f"{value!r}: NAME=TEXT is needed, NAME one of {', '.join(names)}.")
        found[name.strip().lower()] = text.strip()
    return found


# --------------------------------------------------------------------------------------------------
# Options that several commands take.


# fmt: off
@dataclass(frozen=True)
class IdFiles:
    """How text files are written where no numbers are read."""

    delimiter: str | None = option(metavar="C", group=DATA, help=
        "What separates cells of CSV files: a character, or tab. Default: what each file shows.")
    encoding: str | None = option(metavar="NAME", group=DATA, help=
        "Of CSV files, as cp1252. Default: UTF-8, or what a byte order mark says.")
    skip: str | None = option(metavar="1-3,36", group=DATA, help=
        "Lines that are no part of the table, as titles, units or totals, counted from 1. Default: none.")
    sheet: str | None = option(metavar="NAME", group=DATA, help=
        "The sheet of workbooks that have several.")
    visible_only: bool = option(False, group=DATA, help=
        "Leave hidden rows of workbooks out.")

    def dialect(self) -> Dialect:
        """How files are written, where they do not say it themselves.  Raises InputError."""
        from secfc.data.dialects import Dialect

        said = {f.name: getattr(self, f.name) for f in fields(self) if f.name in names_of(Dialect)}
        return Dialect(**{name: value for name, value in said.items() if value is not None})


@dataclass(frozen=True)
class TextFiles(IdFiles):
    """How files with numbers are written."""

    decimal: str | None = option(None, [".", ","], group=DATA, help=
        "The decimal sign of CSV files. Default: what each file shows; 1,234 alone is refused.")
    thousands: str | None = option(metavar="C", group=DATA, help=
        "What groups digits by threes: a comma, point, apostrophe or blank. Default: what each file shows.")
    header: bool | None = option(None, None, "--header/--no-header", group=DATA, help=
        "Whether the first row has names of columns; columns without are called 0, 1, 2. Default: what each "
        "file shows.")
    absent: tuple[str, ...] | None = option(metavar="WORD,NAME=WORD,...", parse=parse_names, group=DATA, help=
        "Words for missing values, of all columns or of one, besides empty cells, NA, NaN, null and errors "
        "of Excel.")


@dataclass(frozen=True)
class Owners:
    """Whose rows are whose, and what they are called."""

    client_column: str | None = option(metavar="NAME", group=DATA, common=True, help=
        "The column that names the client of a row; where one file holds all clients.")
    id_column: str | None = option(metavar="NAME", group=DATA, common=True, help=
        "Names of the points; copied to the labels file, and with --membership private also what makes two "
        "rows the same point.")


@dataclass(frozen=True)
class DataFiles(Owners, TextFiles):
    """The files of all clients, one each or one for all, and their columns."""

    files: tuple[Path, ...] = argument("[FILE]...")
    columns: tuple[str, ...] | None = option(metavar="A,B,...", parse=parse_names, group=DATA, common=True,
        help="Features to use. Default: all columns.")
    exclude: tuple[str, ...] | None = option(metavar="A,B,...", parse=parse_names, group=DATA,
        help="Columns that nothing is read of, as dates.")
    label_column: str | None = option(metavar="NAME", group=DATA, help=
        "Known classes: only used to score the result.")


@dataclass(frozen=True)
class Linked:
    """Which rows are the same person's."""

    schema: Path | None = option(metavar="SCHEMA.toml", group=DATA, help=
        "A linkage schema: rows are linked by its columns, normalized by its rules (see check-ids).")
    drop_unfit: bool = option(False, group=DATA, help=
        "With --schema: leave rows out that lack a required field or have another form.")


@dataclass(frozen=True)
class Matching:
    """Which columns of several files are the same features."""

    features: str = option("same", ["same", "union", "common"], group=DATA, help=
        "same: all files have the same columns. union: every client observes its own, matched by name; a "
        "column that is empty throughout is not observed. common: the same, clustered on the columns that "
        "all have; with feddp every client then refines its own labels by its others.")


@dataclass(frozen=True)
class Categories:
    """Which columns are text."""

    categorical: tuple[tuple[str, tuple[str, ...] | None], ...] = option((), metavar="A,B=X|Y,...",
        parse=parse_categories, group=DATA, help=
        "Columns of text: each category becomes a feature, 1 where a row has it and else 0. Categories are "
        "listed after =, and everybody may know them, or found by a private set union. A<B<C lists them in "
        "their order: one feature of ranks from 0, of two categories one of 0 and 1.")


@dataclass(frozen=True)
class Preparing(Categories):
    """How features are prepared; what all sites of a deployment must have alike."""

    standardize: str | None = option(None, ["standard", "robust", "norm"], group=DATA, common=True,
        bare="standard", metavar="[robust|norm]", help=
        "Bring every feature to mean 0 and deviation 1 first, over all clients: they add sums in secret and "
        "learn these, the server does not. The limit is then the bound. robust: to median 0 and, by the "
        "interquartile range, deviation 1, which outliers do not move; clients learn counts around the "
        "quartiles. norm: divide each row by its norm, of which nothing is learned. Alone it means standard.")
    to_range: bool = option(False, group=DATA, help=
        "Bring every feature between -1 and 1 first, by the least power of two that no value exceeds, which "
        "clients learn.")
    ranges: tuple[tuple[str, float, float], ...] | None = option(metavar="NAME=LOW:HIGH,...",
        parse=parse_ranges, group=DATA, help=
        "The same by ranges of all features that everybody may know: nothing is learned, and no budget is "
        "spent. With --standardize and --epsilon: the ranges that noise covers.")
    scale_share: float | None = option(None, Number(0, 1, min_open=True, max_open=True), metavar="W",
        group=DATA, help=
        "With --standardize and --epsilon: the part of the budget that pays for means and deviations, found "
        "by noisy sums within --ranges.  [default: 0.1]")
    limit: float | None = option(None, Positive(), metavar="D", group=DATA, help=
        "With --standardize: deviations from the mean that a value may have.  [default: 10]")
    outside: str | None = option(None, ["clip", "refuse", "missing"], group=DATA, help=
        "Values beyond the limit, range or --bound: move them there, refuse them, or take them for missing, "
        "by the rule of --missing.  [default: clip with --standardize, else refuse]")
    missing: str = option("refuse", ["refuse", "drop", "mean"], group=DATA, common=True, help=
        "Empty cells, and NA or NaN: refuse, drop their rows, or take the mean of the feature over all "
        "clients, which they learn.")


@dataclass(frozen=True)
class Overwriting:
    """Whether what is there may be replaced."""

    force: bool = option(False, group=OUTPUT, common=True, help="Overwrite existing output files.")


@dataclass(frozen=True)
class Printing:
    """What goes to stdout."""

    as_json: bool = option(False, None, "--json", group=OUTPUT, common=True, help=
        "Print the report as JSON on stdout, and nothing else.")


@dataclass(frozen=True)
class Seeded:
    """What makes a run repeatable."""

    seed: int = option(0, Whole(0), group=RUN, common=True, help="Reproduces the starts.")


@dataclass(frozen=True)
class ForOfficers:
    """The page for whoever has to approve runs."""

    officer: Path | None = option(metavar="PAGE.html", group=OUTPUT, help=
        "Where a page goes for whoever has to approve such runs: what left a site, who saw it, what was "
        "tried.")
    fill: Mapping[str, str] = option({}, None, many=True, parse=parse_filled, metavar="NAME=TEXT",
        group=OUTPUT, help=
        "On that page: what only people know, as purpose='heart failure study'; also 'categories of data "
        "subjects', 'legal basis', 'controllers and processors', retention. Repeatable.")


@dataclass(frozen=True)
class EvaluateOption:
    """What a simulation can tell and no budget pays for."""

    # fmt: off
    evaluate: bool = option(False, group=PRIVACY, help=
        "With --epsilon: also report what the budget has not paid for, marked as that: cost, accuracy, "
        "times, what a curious server could rebuild; with feddp also row counts and cluster sizes.")
    # fmt: on


@dataclass(frozen=True)
class Publishing:
    """Output file of the report that may be published."""

    publish: Path | None = option(metavar="OUT", group=OUTPUT, help=
        "With --epsilon: one more report, .json or .html, of what may be published: what is public, or noisy "
        "and paid for; also with --evaluate.")


@dataclass(frozen=True)
class Settings(
    DataFiles, Linked, Matching, Preparing, ForOfficers, Publishing, Printing, Overwriting, Seeded,
    EvaluateOption,
):
    """What is asked whatever the algorithm; None is "choose for me".

    linkage: what the schema says (Linkage), None without.
    """

    split: str = option("people", ["people", "columns"], group=DATA, help=
        "What files divide. columns: each has other columns of the same people, whom --id-column names; who "
        "is in all files is clustered on all columns, and nobody sees another's.")
    helper: bool = option(False, group=DATA, help=
        "With --split columns: a client more, which has no data and computes for two that have.")
    k: Any = option(None, Clusters(), "-k", metavar="K", group=CLUSTERS, common=True, help=
        "Number of clusters, required with files but for dbscan; 2..12 chooses it among these, auto among "
        "1 to 20 or fewer, by the elbow of the costs.")
    sealed: bool = option(False, group=RUN, help=
        "Encrypt and authenticate every message from party to party, as over a network. Changes no result.")
    checkpoint: Path | None = option(None, click.Path(file_okay=False, path_type=Path), metavar="DIR",
        group=RUN, help=
        "Keep what is needed to resume in this directory: after a crash, the same command goes on from "
        "there. The files hold secrets of all parties, and are deleted once the results are written.")
    processes: bool = option(False, group=RUN, help=
        "A rehearsal: every party a process of this machine, by the commands of `secfc deploy`, over a hub. "
        "It takes several cores, and shows what a deployment will need.")
    labels: Path | None = option(metavar="OUT.csv", group=OUTPUT, common=True, help=
        f"Where labels go; - is stdout, and the report then goes to stderr. Default with files: {LABELS}.")
    site_labels: Path | None = option(metavar="DIR", group=OUTPUT, help=
        "A directory for a file of each client, with its own IDs and labels, readable by its owner only.")
    report: tuple[Path, ...] = option((), metavar="OUT", many=True, group=OUTPUT, common=True, help=
        "Where the report goes: .json for programs, .html for people, a page that needs no network and is "
        f"printed to PDF by any browser; may be repeated. Default with files and without --json: {REPORT}.")
    readers: str = option("everybody", ["everybody", "holders"], group=OUTPUT, help=
        "Of the page: what may be published, or also what only those should see who may see the data.")
    plot: Path | None = option(metavar="OUT.png", group=OUTPUT, help=
        "With -k auto or 2..12: a picture of the costs by which k was chosen; with --linkage of the tree.")
    model: Path | None = option(metavar="MODEL.npz", group=OUTPUT, common=True, help=
        "Keep the model for `secfc predict`. The file is secret: it holds the shares of all clients.")
    verbose: bool = option(False, group=OUTPUT, common=True, help=
        "The whole report on the screen, and its summary last.")
    linkage: Any = field(default=None)
# fmt: on

# --------------------------------------------------------------------------------------------------


def load_schema(context: click.Context, schema: Path | None) -> Any:
    """What a linkage schema says, None without one.  Raises UsageError, InputError."""
    from secfc.cli.shell.errors import bad_input
    from secfc.data.linkage import read_linkage

    if schema is None:
        refuse_options(context, ("drop_unfit",), "{option} needs --schema: add it, or leave it out.")
        return None
    refuse_options(context, ("id_column",), "{option} has no meaning with --schema: leave it out.")
    with bad_input(OSError):
        return read_linkage(schema)


def check_split(settings: Settings, method: str, given: Collection[str]) -> None:
    """Raise UsageError for what does not go with the way in which files divide a table.  given: options."""
    if settings.split == "people":
        if settings.helper:
            raise click.UsageError("--helper computes for owners of columns: add --split columns.")
        return
    named = settings.id_column is not None or settings.linkage is not None
    instead = "bring columns to public ranges at home" if "epsilon" in given else "take --standardize"
    wrong = {
        "--epsilon: add --disclosure noisy-sums": "epsilon" in given and "disclosure" not in given,
        f"--algorithm {method}: columns of the same people are joined by secfc alone": method != "secfc",
        "--membership: it says whose rows are whose, where files divide people": "membership" in given,
        f"--features {settings.features}: here all files have other columns": settings.features != "same",
        "--client-column: give a file for each owner of columns": settings.client_column is not None,
        "--categorical: code categories in the files": bool(settings.categorical),
        f"--missing {settings.missing}: fill cells in the files": settings.missing != "refuse",
        "--standardize norm: no owner knows the norm of a row": settings.standardize == "norm",
        f"--to-range: {instead}": settings.to_range,
        f"--ranges: {instead}": settings.ranges is not None,
        "no --id-column: say which column names the people": not named,
    }
    for why in (why for why, is_so in wrong.items() if is_so):
        raise click.UsageError(f"--split columns and {why}.")


def check_k(settings: Settings, finds: bool = False) -> None:
    """Raise UsageError if neither a user nor the algorithm (finds) says how many clusters files have."""
    if settings.files and settings.k is None and not finds:
        raise click.UsageError("-k is missing: say how many clusters to look for, for example -k 4.")


def check_choice(settings: Settings, method: Any, tree: bool = False) -> None:
    """Raise UsageError for an algorithm that cannot choose k, and for a picture of nothing.

    method: `secfc.cli.shell.method.Method`.  tree: whether there is a tree of clusters to draw.
    """
    name = method.name
    chosen = settings.k is not None and not isinstance(settings.k, int)
    if method.finds:
        chosen = _refuse_k(settings, name)
    if chosen and not method.chooses:
        raise click.UsageError(f"--algorithm {name} cannot choose k: give a number, for example -k 4.")
    if settings.plot is not None and not chosen and not tree:
        ways = " or ".join(["-k auto"] * method.chooses + ["--linkage"] * (name == "secfc"))
        raise click.UsageError(
            "--plot draws the costs by which k is chosen, or a tree of clusters: "
            f"{f'add {ways}, or ' if ways else ''}leave it out."
        )


def _refuse_k(settings: Settings, name: str) -> bool:
    """Raise UsageError for a k of an algorithm that finds how many clusters there are; else False."""
    from secfc.kmeans.elbow import parse_k

    if settings.k not in (None, parse_k("auto")):
        raise click.UsageError(
            f"-k: --algorithm {name} finds how many clusters there are. Leave it out; in a run file write "
            'k = "auto".'
        )
    return False
