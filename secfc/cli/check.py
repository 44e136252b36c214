"""`secfc check`: all faults of all files at once, and what their columns hold, before anything is sent."""

from __future__ import annotations

import ast
import math
import re
import shlex
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from secfc.cli.clustering.execute import prepare_run, read_files
from secfc.cli.clustering.preprocessing import check_preprocessing, without_gaps
from secfc.cli.methods import methods, options
from secfc.cli.shell.errors import ShellInterface, bad_input, caution_text, options_here
from secfc.cli.shell.method import AskedOptions
from secfc.cli.shell.options import argument, command, select_fields
from secfc.cli.shell.outputs import json_text
from secfc.cli.shell.screen import Screen
from secfc.cli.shell.settings import DataFiles, Linked, Matching, Preparing, Printing, Settings, load_schema
from secfc.errors import Caution, InputError, InputFaults

if TYPE_CHECKING:
    from secfc.data.profiles import ColumnProfile, SiteProfile
    from secfc.data.row_reader import WantedColumns
    from secfc.report.terminal import Section

SHARED = 3  # clients from which on a run hides points


@dataclass(frozen=True)
class CheckOptions(DataFiles, Linked, Matching, Preparing, Printing):
    """What `secfc check` takes: how `secfc run` reads and prepares."""

    files: tuple[Path, ...] = argument("FILE...")
    HELP: ClassVar = {"as_json": "Print faults, notes and profiles as JSON on stdout, and nothing else."}


@dataclass(frozen=True)
class FoundFault:
    """A fault of the input.

    text: what, the rule and the remedy.  files, line, column: where it is, as far as it has a place; the line
    is the first.
    options: those that help, as they are written.
    """

    text: str
    files: tuple[str, ...]
    line: int | None
    column: str | None
    options: tuple[str, ...]


@dataclass(frozen=True)
class CheckedFiles:
    """What is wrong with files, what they hold, and what people should know of it.

    accepted: whether a run would take them.  proposal: options with which it does, None for none that help.
    """

    accepted: bool
    faults: tuple[FoundFault, ...]
    notes: tuple[str, ...]
    sites: tuple[SiteProfile, ...]
    proposal: tuple[str, ...] | None


@command(CheckOptions, "check", more=[options()["bound"]])
@click.pass_context
def check_inputs(context: click.Context, given: CheckOptions) -> None:
    """Say all that is wrong with FILEs at once, and what their columns hold.

    It takes the options by which `secfc run` reads and prepares, refuses what that refuses, and tells of each
    site rows, missing cells, ranges, outliers, categories, and numbers that may stand for nothing. Values of
    the files are shown, so the screen is for those who may see the data. Nothing is sent.

    \b
    Examples:
      secfc check mine.csv
      secfc check a.csv b.csv c.csv --id-column patient --missing drop
      secfc check mine.csv --json

    Exit codes: 0 a run would take the files; 2 it would refuse them, or bad usage.
    """
    found = check_files(settings_of(context, given), context.params["bound"])
    if given.as_json:
        click.echo(json_text(as_object(found)))
    else:
        print_check(found)
    if not found.accepted:
        context.exit(2)


def settings_of(context: click.Context, given: CheckOptions) -> Settings:
    """What a run with these options would be asked.  Raises UsageError."""
    values = {f.name: getattr(given, f.name) for f in fields(given)}
    return select_fields(Settings, values, k=2, linkage=load_schema(context, given.schema))


def check_files(settings: Settings, bound: float | None) -> CheckedFiles:
    """All that is wrong with the files, and what they hold.  Raises UsageError for options that clash."""
    from secfc.data.dialects import refuse_unused
    from secfc.data.profiles import column_notes, unit_notes

    wanted, interface = wanted_columns(settings), options_here()
    refuse_unused(wanted.dialect, settings.files)
    refused, notes = refusals(settings, bound)
    sites, tried = profile_files(settings.files, wanted)
    repeated = {c.name for site in sites for c in site.columns if not c.id_like}
    for at, site in enumerate(sites):
        columns = tuple(replace(c, repeats_elsewhere=c.name in repeated) for c in site.columns)
        sites[at] = replace(site, columns=columns)
    features = features_of(sites, wanted)
    scalable = may_scale_robustly(settings)
    cautions = (*column_notes(sites, features, scalable), *unit_notes(sites, features))
    notes += [caution_text(note) for note in cautions]
    faults = tuple(fault_of(fault, settings.files, interface) for fault in refused)
    notes += notes_of_files(settings.files, tried, faults)
    encodings = {changes["encoding"] for changes in tried.values() if "encoding" in changes}
    proposal = propose_options(settings, bound, sites, wanted, encodings, refused) if refused else None
    return CheckedFiles(not refused, faults, tuple(dict.fromkeys(notes)), tuple(sites), proposal)


def notes_of_files(
    files: Sequence[Path], tried: Mapping[str, Mapping[str, str]], faults: Sequence[FoundFault]
) -> Iterator[str]:
    """What files show beside one another, how they were profiled, and where cells were not looked at."""
    from secfc.data.dialects import lines_word
    from secfc.data.files import doubts_of_files

    yield from doubts_of_files([path for path in files if path.is_file()])
    for file, changes in tried.items():
        if "encoding" in changes:
            yield f"{file} was profiled as {changes['encoding']} text: look at its letters below"
        if "skip" in changes:
            yield f"{file} was profiled without {lines_word(changes['skip'])}"
    for path in map(str, files):
        own = [fault for fault in faults if path in fault.files]
        if own and not any(fault.column for fault in own):
            yield (
                f"{path}: cells beyond a fault of the whole file, below, were not looked at: check again "
                "when it is mended"
            )


def profile_files(
    files: Sequence[Path], wanted: WantedColumns
) -> tuple[list[SiteProfile], dict[str, dict[str, str]]]:
    """The sites of all files that can be read, and by file what was settled for that, as options say it."""
    from secfc.data.dialects import changed_words
    from secfc.data.profiles import profile_file

    sites: list[SiteProfile] = []
    tried, given = dict[str, dict[str, str]](), changed_words(wanted.dialect)
    for path in files:
        with suppress(InputError, OSError):  # which stand among the refusals
            found, dialect = profile_file(path, wanted)
            sites += found
            tried[str(path)] = {n: said for n, said in changed_words(dialect).items() if said != given.get(n)}
    return sites, tried


def tried_options(
    settings: Settings, bound: float | None, more: dict[str, Any], *, far: bool
) -> list[dict[str, Any]]:
    """Options to try, one after the other.  more: what files ask for.  far: whether values lie far out."""
    scaled = settings.standardize or settings.to_range or settings.ranges is not None or bound is not None
    robust = {"standardize": "robust", "outside": "missing", "missing": "mean"}
    plain, wider = dict(more), more | (robust if far else {"standardize": "standard"})
    # A mean needs a bound or a scale, and where columns are in other units rounding asks for one.
    tries = [plain] if more and (scaled or "missing" not in more) else []
    if far and bound is None and may_scale_robustly(settings):
        return [wider, *tries]  # else outliers stay, at the limit, and few of them are a cluster
    return [*tries, wider] if more and not scaled else tries


def may_scale_robustly(settings: Settings) -> bool:
    """Whether neither a scale of another kind was asked for nor what becomes of values far outside."""
    kinds = settings.to_range, settings.ranges, settings.outside, settings.standardize == "norm"
    return not any(kinds)


def wanted_columns(settings: Settings) -> WantedColumns:
    """The columns that were named, and how files are written."""
    from secfc.data.row_reader import WantedColumns

    return WantedColumns(
        settings.columns, settings.client_column, settings.id_column, settings.label_column,
        settings.features != "same", settings.missing != "refuse", dict(settings.categorical),
        settings.dialect(), () if settings.linkage is None else settings.linkage.columns,
        settings.exclude or (),
    )  # fmt: skip


def features_of(sites: Sequence[SiteProfile], wanted: WantedColumns) -> frozenset[str]:
    """Names of the columns that are clustered."""
    names = {column.name for site in sites for column in site.columns}
    return frozenset(names - {*wanted.apart, *wanted.exclude} if wanted.columns is None else wanted.columns)


def refusals(settings: Settings, bound: float | None) -> tuple[list[InputError], list[str]]:
    """What a run would refuse files for, and what it would note of them.

    Fewer than three files are read and prepared by what each says alone.
    """
    alone = settings.features == "same"
    try:
        with bad_input(OSError), warnings.catch_warnings(record=True) as cautions:
            warnings.simplefilter("always", Caution)
            federation, _, dropped = without_gaps(settings, read_files(settings), bound)
            alone = alone and federation.n < SHARED
            name = "federated-lloyd" if settings.features != "same" else "lloyd" if alone else "secfc"
            method = methods()[name]
            asked = AskedOptions(settings, method.defaults() | {"bound": bound})
            check_preprocessing(asked)
            if not (alone and (settings.standardize or settings.to_range or settings.missing == "mean")):
                prepare_run(method, asked, federation, Screen.stderr(quiet=True))
    except InputFaults as faults:
        return list(faults.faults), []
    except InputError as fault:
        return [fault], []
    told = [caution_text(one.message) for one in cautions if issubclass(one.category, Caution)]
    return [], [*told, *dropped]


LINE = re.compile(r", line (\d+)")
COLUMN = re.compile(r", column ('[^']*'|\"[^\"]*\")")


def fault_of(fault: InputError, files: Sequence[Path], interface: ShellInterface) -> FoundFault:
    """A fault with the place that its rule begins with."""
    head = fault.rule.partition(": ")[0]
    line, column = LINE.search(head), COLUMN.search(head)
    options = [interface.setting(*remedy[:2]) for remedy in fault.remedies if not isinstance(remedy, str)]
    return FoundFault(
        fault.text(interface), tuple(str(path) for path in files if str(path) in head),
        int(line[1]) if line else None, ast.literal_eval(column[1]) if column else None,
        tuple(one for one in options if one is not None),
    )  # fmt: skip


# --------------------------------------------------------------------------------------------------
# Options with which a run would take the files.


def propose_options(
    settings: Settings,
    bound: float | None,
    sites: Sequence[SiteProfile],
    wanted: WantedColumns,
    encodings: set[str],
    refused: Sequence[InputError],
) -> tuple[str, ...] | None:
    """Options that were tried, and with which a run takes the files; None if none were found.

    Doubt about what files say is not settled here: of two meanings people choose one.  But lines that
    seem to be no part of the table in any of the files are left out.
    """
    from secfc.data.dialects import format_lines, parse_lines
    from secfc.data.profiles import has_outliers, held_columns, propose_columns

    more = propose_columns(sites, wanted)
    if len(encodings) == 1:
        more["encoding"] = encodings.pop()
    common = [fault for fault in refused if all(str(path) in fault.rule for path in settings.files)]
    lines = [remedy[1] for fault in common for remedy in fault.remedies if remedy[0] == "skip"]
    if lines:
        more["skip"] = format_lines(parse_lines(",".join(filter(None, (settings.skip, *lines)))))
    columns = chain(*held_columns(sites, features_of(sites, wanted)).values())
    far = any(has_outliers(column) for _, column in columns)
    for tried in tried_options(settings, bound, more, far=far):
        if _would_run(settings, bound, tried):
            return tuple(_written(tried | _whole_lists(_joined_lists(settings, tried))))
    return None


def _would_run(settings: Settings, bound: float | None, more: Mapping[str, Any]) -> bool:
    """Whether a run takes the files with these options too."""
    changed = {**more, **_joined_lists(settings, more)}
    try:
        return not refusals(replace(settings, **changed), bound)[0]
    except click.UsageError:
        return False


def _joined_lists(settings: Settings, more: Mapping[str, Any]) -> dict[str, Any]:
    """Options that are lists: what was given, and what is added."""
    joined: dict[str, Any] = {
        name: (*(getattr(settings, name) or ()), *more[name])
        for name in ("exclude", "absent")
        if name in more
    }
    if "categorical" in more:
        joined["categorical"] = (*settings.categorical, *((name, None) for name in more["categorical"]))
    return joined


def _whole_lists(changed: Mapping[str, Any]) -> dict[str, Any]:
    """Lists of options that are given once: what was given before, and what is added."""
    from secfc.data.files import category_names

    listed = {name: list(changed[name]) for name in ("exclude", "absent") if name in changed}
    if "categorical" in changed:
        listed["categorical"] = [
            name if known is None else "|".join(category_names({name: known})).replace(f"|{name}=", "|")
            for name, known in changed["categorical"]
        ]
    return listed


def _written(more: Mapping[str, Any]) -> Iterator[str]:
    """Options as they are typed."""
    for name, value in more.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            yield flag
        else:
            shown = ",".join(_quoted(one) for one in value) if isinstance(value, list) else str(value)
            yield f"{flag} {shlex.quote(shown)}"


def _quoted(name: str) -> str:
    """A name of a list, as CSV has it."""
    return '"' + name.replace('"', '""') + '"' if re.search(r'[",]', name) or name != name.strip() else name


# --------------------------------------------------------------------------------------------------


def as_object(found: CheckedFiles) -> dict[str, Any]:
    """For programs."""
    from secfc.report.json import strict_json

    sites = [
        {
            "name": site.name, "file": str(site.path), "rows": site.rows,
            "columns": [
                asdict(column)
                | {"holds": column.kind, "constant": column.constant, "id_like": column.id_like}
                for column in site.columns
            ],
        }
        for site in found.sites
    ]  # fmt: skip
    plain: dict[str, Any] = strict_json(
        {
            "accepted": found.accepted,
            "faults": [asdict(fault) for fault in found.faults],
            "notes": found.notes,
            "proposal": found.proposal,
            "sites": sites,
        }
    )
    return plain


def print_check(found: CheckedFiles) -> None:
    """For people."""
    from rich.console import Console

    from secfc.report.terminal import Items, Section, Words, pluralize, print_section

    console = Console(markup=False, highlight=False, emoji=False)
    for site in found.sites:
        print_section(console, section_of(site))
    if found.notes:
        print_section(console, Section("Notes", (Items(found.notes),)))
    if found.faults:
        title = f"{pluralize(len(found.faults), 'fault')}, for which a run would refuse these files"
        print_section(console, Section(title, (Items([fault.text for fault in found.faults]),)))
        if found.proposal:
            said = (
                "With these options a run takes the files. Look whether each says what your columns mean:",
                " ".join(found.proposal),
            )
            print_section(console, Section("Proposal", tuple(map(Words, said))))
    else:
        print_section(console, Section("A run would take these files.", ()))


def section_of(site: SiteProfile) -> Section:
    """The columns of a site as a table, and what their words are."""
    from secfc.report.terminal import Grid, Items, Section, pluralize

    rows = [row_of(column) for column in site.columns]
    grid = Grid(("column", "holds", "empty", "differ", "least", "median", "most", "deviation"), rows, words=2)
    words = [
        f"{column.name}: " + ", ".join(f"{text or '(blank)'} ({count})" for text, count in column.words)
        for column in site.columns
        if column.words and column.kind in ("categories", "mixed")
    ]
    title = f"{site.name}: {pluralize(site.rows, 'row')}, {pluralize(len(site.columns), 'column')}"
    return Section(title, (grid, Items(words)))


def row_of(column: ColumnProfile) -> tuple[str, ...]:
    """A line of that table."""
    from secfc.report.terminal import measured_number

    figures = (column.least, column.quartiles[1], column.most, column.deviation)
    shown = ("" if math.isnan(value) else measured_number(value) for value in figures)
    return (column.name, column.kind, str(column.missing), str(column.distinct), *shown)
