"""What columns of files hold: read cell by cell, of files that no run would take, too.

A profile is of a site's own file and for its own screen: it shows values, which errors never do.  Nothing of
it is sent.
"""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from secfc.data.dialects import (
    LOOKED_AT,
    Dialect,
    NumberCell,
    NumberFormat,
    file_extension,
    file_stem,
    is_number,
    refuse_page,
)
from secfc.data.inputs import Array
from secfc.data.row_reader import DATE, WantedColumns, absent_words, normalize_name
from secfc.data.sources import COLUMN_FILES, ROW_SOURCES, cell_text, open_parquet
from secfc.data.tables import UnnamedColumn, find_header
from secfc.errors import Caution, InputError, UnknownEncoding
from secfc.remedies import WITHOUT_OUTLIERS, Remedy

MOST_WORDS = 1000  # different texts of a column that are counted
FEW = 10  # rows, which may all differ by chance
CATEGORIES = 20  # different texts, up to which a column is one of categories
FOLD = 100.0  # between the spreads of a column at two sites, from which on units are doubted
FAR = 10.0  # interquartile ranges from the quartiles, beyond which a value is an outlier
# Numbers that programs of many kinds write for nothing; below 0 only where no other value is.
CODES = frozenset((-1.0, -9.0, -99.0, -999.0, -9999.0, 99.0, 999.0, 9999.0, 99999.0))
FIGURES = re.compile(
    r"[-+\u2010-\u2015\u2212\ufe63\uff0d]?[\d.,' %]*\d[\d.,' %]*"
)  # as numbers are written somewhere
DAYS, DAY_NAME = (30_000, 60_000), re.compile(r"date|day|time|datum|zeit", re.IGNORECASE)  # 1982 to 2064
OFTEN = 3  # times, from which on any number far beyond the others may stand for nothing


@dataclass(frozen=True)
class ColumnProfile:
    """What a column of a site holds.

    Parameters
    ----------
    name
        Of the column.
    rows
        Cells.
    missing, numbers, dates, texts
        How many of them are empty or words for nothing, numbers, days or times, and all else.
    words
        Texts and how often each stands there, the most frequent first; at most `CATEGORIES`.
    distinct
        Different values; of texts up to `MOST_WORDS`.
    least, most, mean, deviation, quartiles
        Of the numbers, placeholders as well; NaN without any.  The deviation is of the population.
    outliers
        Numbers more than `FAR` interquartile ranges beyond the quartiles.
    placeholders
        Numbers that may stand for nothing, and how often they do.
    whole, even
        Whether all numbers are whole, and equally far from the next larger one, as those of rows are.
    repeats_elsewhere
        Whether another site's column of this name has values more than once, so that it holds no IDs.
    """

    name: str
    rows: int
    missing: int
    numbers: int
    dates: int
    texts: int
    words: tuple[tuple[str, int], ...]
    distinct: int
    least: float
    most: float
    mean: float
    deviation: float
    quartiles: tuple[float, float, float]
    outliers: int
    placeholders: tuple[tuple[float, int], ...]
    whole: bool
    even: bool
    repeats_elsewhere: bool = False

    @property
    def kind(self) -> str:
        """numbers, dates, IDs, categories, text, mixed (numbers and text), or nothing."""
        if self.missing == self.rows:
            return "nothing"
        if self.id_like and not self.repeats_elsewhere:
            return "IDs"
        if not (self.dates or self.texts):
            return "numbers"
        if self.dates >= max(self.texts, self.numbers):
            return "dates"
        if self.numbers > self.texts:
            return "mixed"
        return "categories" if self.distinct <= CATEGORIES and self.distinct < self.rows else "text"

    @property
    def id_like(self) -> bool:
        """Whether every row holds another whole number or text, as an ID does."""
        there = self.rows - self.missing
        named = self.texts == there or (self.whole and self.numbers == there)
        return there >= FEW and self.distinct == there and named

    @property
    def looks_otherwise(self) -> bool:
        """Whether some text is a number as it is written somewhere, and no date."""
        return any(FIGURES.fullmatch(word) and not DATE.fullmatch(word) for word, _ in self.words)

    @property
    def constant(self) -> bool:
        """Whether all cells that are there are the same."""
        return self.distinct == 1


@dataclass(frozen=True)
class SiteProfile:
    """The columns of one site, and what its user should know of them."""

    name: str
    path: Path
    rows: int
    columns: tuple[ColumnProfile, ...]

    def column(self, name: str) -> ColumnProfile | None:
        """The column of this name, if there is one."""
        return next((column for column in self.columns if column.name == name), None)


class ColumnTally:
    """Cells of a column, counted one by one."""

    def __init__(self, name: str, absent: frozenset[str], numbers: NumberFormat) -> None:
        self.name, self.absent, self.format = name, absent, numbers
        self.values, self.words = array("d"), Counter[str]()
        self.rows = self.missing = self.dates = self.texts = 0

    def add(self, cell: str) -> None:
        """Take a cell into account."""
        self.rows += 1
        text = cell.strip()
        if text.lower() in self.absent:
            self.missing += 1
            return
        plain = self.format.plain(cell)
        if "_" not in plain and is_number(plain) and math.isfinite(value := float(plain)):
            self.values.append(value)
            return
        if DATE.fullmatch(text):
            self.dates += 1
        else:
            self.texts += 1
        if text in self.words or len(self.words) < MOST_WORDS:
            self.words[text] += 1

    def profile(self) -> ColumnProfile:
        """What was counted."""
        values = np.array(self.values)
        found, counts = np.unique(values, return_counts=True)
        quartiles = (math.nan,) * 3
        outliers, whole = 0, bool(len(values)) and bool((values == np.rint(values)).all())
        if len(values):
            low, middle, high = (float(q) for q in np.percentile(values, (25, 50, 75)))
            quartiles, reach = (low, middle, high), FAR * (high - low)
            outliers = int(((values < low - reach) | (values > high + reach)).sum()) if reach else 0
        with np.errstate(over="ignore", invalid="ignore"):
            moments = (values.mean(), values.std()) if len(values) else (math.nan, math.nan)
        return ColumnProfile(
            self.name, self.rows, self.missing, len(values), self.dates, self.texts,
            tuple(self.words.most_common(CATEGORIES)), len(found) + len(self.words),
            float(found[0]) if len(found) else math.nan, float(found[-1]) if len(found) else math.nan,
            float(moments[0]), float(moments[1]), quartiles, outliers,
            find_placeholders(found, counts), whole, bool(len(set(np.diff(found).tolist())) == 1),
        )  # fmt: skip


def find_placeholders(found: Array, counts: Array) -> tuple[tuple[float, int], ...]:
    """Numbers at an end of all others that may stand for nothing, and how often they stand there.

    found: the different numbers, ascending; counts: of each.  What repeats, or is such a number in many
    programs, and lies farther from its neighbor than half of the others lie apart; or is alone below 0.
    """
    placeholders = []
    for end in (0, -1):
        for _ in range(3):
            if len(found) < 4:
                break
            value, count = float(found[end]), int(counts[end])
            rest, often = (found[1:], counts[1:]) if end == 0 else (found[:-1], counts[:-1])
            low, high = np.percentile(np.repeat(rest, often), (25, 75))
            far = abs(value - float(rest[end])) > max(high - low, 0.0)
            coded = value in CODES
            if not (far and (coded or count >= OFTEN)) and not (coded and value < 0 <= rest[0] and count > 1):
                break
            placeholders.append((value, count))
            found, counts = rest, often
    return tuple(placeholders)


# --------------------------------------------------------------------------------------------------
# Rows of files of every kind, as text.


@contextmanager
def open_rows(path: Path, wanted: WantedColumns) -> Iterator[tuple[Iterable[list[str]], NumberFormat, Any]]:
    """Rows of a file, how its numbers are written, and names of columns if they do not stand in a row.

    Raises InputError for what cannot be read, or in two ways.
    """
    refuse_page(path)
    kind = file_extension(path)
    if kind in (".npz", ".npy"):
        yield (*_array_rows(path),)
    elif kind in COLUMN_FILES:
        with open_parquet(path) as file:
            names = tuple(map(normalize_name, file.schema_arrow.names))
            rows = (
                [cell_text(value) for value in row]
                for batch in file.iter_batches(1000)
                for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
            )
            yield rows, NumberFormat(), names
    elif kind in ROW_SOURCES:
        with ROW_SOURCES[kind](path, wanted.dialect) as sheet:
            ahead = sheet.ahead(LOOKED_AT)
            cells = [cell for _, row in ahead for cell in row if not isinstance(cell, NumberCell)]
            yield sheet, wanted.dialect.numbers_of(path, cells), None
    else:
        with wanted.dialect.opened(path) as (lines, numbers):
            yield lines, numbers, None


def _array_rows(path: Path) -> tuple[Iterable[list[str]], NumberFormat, tuple[str, ...]]:
    try:
        loaded = np.load(path, allow_pickle=False)
        whole = loaded["X"] if hasattr(loaded, "files") and "X" in loaded.files else loaded
        whole = whole[whole.files[0]] if hasattr(whole, "files") else whole
        if whole.ndim != 2:
            raise InputError(f"{path} is no table: two axes are needed. Save one row a point.")
    except (ValueError, OSError, EOFError, KeyError, IndexError) as error:
        raise InputError(f"{path} is not a readable file of numbers. Save it again.") from error
    names = tuple(map(str, range(whole.shape[1])))
    return ([repr(value) for value in row.tolist()] for row in whole), NumberFormat(), names


def profile_file(
    path: Path, wanted: WantedColumns, encodings: Sequence[str] = ("cp1252", "latin-1")
) -> tuple[list[SiteProfile], Dialect]:
    """The sites of a file, and how it was read: in one of the encodings and without lines where it has to be.

    Raises InputError for a file of which nothing can be told.
    """
    try:
        return _profile(path, wanted), wanted.dialect
    except InputError as fault:
        advised = wanted.dialect.advised(fault, encodings[0])
        if advised is None:
            raise
        first = replace(wanted, dialect=advised)
        try:
            return profile_file(path, first, encodings)
        except UnknownEncoding:
            if advised.encoding != encodings[0] or len(encodings) == 1:
                raise
            return profile_file(path, wanted, encodings[1:])


def _profile(path: Path, wanted: WantedColumns) -> list[SiteProfile]:
    with open_rows(path, wanted) as (rows, numbers, names):
        each = (row for row in rows if row)
        first = next(each, None) if names is None else None
        if names is None:
            if first is None:
                raise InputError(f"{path} is empty: a client needs at least one point. Leave it out.")
            header = find_header(path, 1, first, wanted, numbers)
            names = header or tuple(map(str, range(len(first))))
            first = None if header else first
        words = absent_words(replace(wanted, union=True), names)
        owner = names.index(wanted.client) if wanted.client in names else None
        sites: dict[str, list[ColumnTally]] = {}
        for row in each if first is None else chain((first,), each):
            if len(row) == len(names):
                _add(sites, row, names, words, numbers, owner, file_stem(path))
    return [
        SiteProfile(name, path, tallies[0].rows, tuple(tally.profile() for tally in tallies))
        for name, tallies in sites.items()
    ]


def _add(
    sites: dict[str, list[ColumnTally]],
    row: Sequence[str],
    names: Sequence[str],
    words: Mapping[str, frozenset[str]],
    numbers: NumberFormat,
    owner: int | None,
    file: str,
) -> None:
    site = file if owner is None else row[owner].strip()
    tallies = sites.get(site)
    if tallies is None:
        tallies = sites[site] = [ColumnTally(name, words[name], numbers) for name in names]
    for tally, cell in zip(tallies, row, strict=True):
        tally.add(cell)


# --------------------------------------------------------------------------------------------------
# What a site should know of its columns, with what would help.


Held = list[tuple[str, ColumnProfile]]  # a column at each site that has it


def held_columns(sites: Sequence[SiteProfile], features: frozenset[str] | None) -> dict[str, Held]:
    """The columns that are clustered, by name; features: their names, None for all."""
    found: dict[str, Held] = {}
    for site in sites:
        for column in site.columns:
            if features is None or column.name in features:
                found.setdefault(column.name, []).append((site.name, column))
    return found


def has_outliers(column: ColumnProfile) -> bool:
    """Whether values lie far beyond most others that are no placeholders."""
    return column.outliers > sum(count for _, count in column.placeholders)


def column_notes(
    sites: Sequence[SiteProfile], features: frozenset[str] | None, scalable: bool = False
) -> Iterator[Caution]:
    """Cautions about columns that are clustered; features: their names, None for all.

    scalable: whether a scale that outliers do not move would help, and was not asked for.
    """
    said_so = "use a scale that they do not move, and fill them in"
    robust: list[Remedy] = [("scale_features", WITHOUT_OUTLIERS, said_so)]
    for name, held in held_columns(sites, features).items():
        yield from _placeholder_notes(name, held)
        yield from _use_notes(name, [column for _, column in held])
        far = [
            f"{site} {column.outliers} (from {column.least:g} to {column.most:g})"
            for site, column in held
            if has_outliers(column)
        ]
        if far:
            said = f"column {name!r}: values far beyond most others, by site: {', '.join(far)}"
            yield Caution(said, robust if scalable else [])


def _placeholder_notes(name: str, held: Held) -> Iterator[Caution]:
    for code in sorted({value for _, column in held for value, _ in column.placeholders}):
        counts = [(site, n) for site, column in held for value, n in column.placeholders if value == code]
        shown = ", ".join(f"{site} {n}" for site, n in counts)
        yield Caution(
            f"column {name!r}: {code:g} stands apart from all other values and may stand for nothing; "
            f"rows that have it, by site: {shown}",
            [("absent", f"{name}={code:g}", "say so")],
        )


def _use_notes(name: str, columns: Sequence[ColumnProfile]) -> Iterator[Caution]:
    if all(c.constant for c in columns) and len({(c.least, c.words[:1]) for c in columns}) == 1:
        yield Caution(
            f"column {name!r}: all values are the same, so it tells no points apart",
            [("exclude", name, "leave it out")],
        )
    elif all(may_be_days(name, c.least, c.most, whole=c.whole) for c in columns):
        yield Caution(days_sentence(name), [("exclude", name, "leave it out"), "write days since an event"])
    elif all(column.id_like for column in columns):
        what = "whole number" if columns[0].numbers else "text"
        yield Caution(
            f"column {name!r}: every row of a site has another {what}, as IDs have",
            [("id_column", name, "name it as IDs"), ("exclude", name, "leave it out")],
        )


def may_be_days(name: str, least: float, most: float, *, whole: bool) -> bool:
    """Whether a column may hold days as spreadsheets number them, by its name and its ends."""
    return whole and DAYS[0] <= least and most <= DAYS[1] and DAY_NAME.search(name) is not None


def days_sentence(name: str) -> str:
    """What a user should know of such a column."""
    return (
        f"column {name!r}: whole numbers of {DAYS[0]:,} to {DAYS[1]:,} under this name are days as "
        "spreadsheets number them, and are clustered as numbers"
    )


def unit_notes(sites: Sequence[SiteProfile], features: frozenset[str] | None) -> Iterator[Caution]:
    """Cautions about columns whose spread differs `FOLD`-fold between sites, as it does in other units."""
    for name, held in held_columns(sites, features).items():
        spreads = {
            site: column.quartiles[2] - column.quartiles[0] or column.deviation
            for site, column in held
            if column.kind == "numbers" and not column.constant
        }
        if len(spreads) > 1 and max(spreads.values()) > FOLD * min(spreads.values()):
            wide, narrow = max(spreads, key=lambda s: spreads[s]), min(spreads, key=lambda s: spreads[s])
            yield Caution(
                f"column {name!r} spreads {spreads[wide] / spreads[narrow]:,.0f} times as wide at {wide} as "
                f"at {narrow}: is it in the same unit?"
            )


# --------------------------------------------------------------------------------------------------
# Options with which files of such columns may be read: a proposal, which people look at.


def propose_columns(sites: Sequence[SiteProfile], wanted: WantedColumns) -> dict[str, Any]:
    """How columns that are no numbers may be used, as values of parameters; empty where nothing is proposed.

    Nothing is where a column of text looks like numbers that are written in another way.
    """
    chosen = None if wanted.columns is None else frozenset(wanted.columns)
    held = {
        name: [column for _, column in each]
        for name, each in held_columns(sites, chosen).items()
        if name not in (*wanted.apart, *wanted.exclude)
    }
    if any(column.looks_otherwise for columns in held.values() for column in columns):
        return {}
    uses = {name: _use_of(name, columns) for name, columns in held.items()}
    ids = [name for name, use in uses.items() if use == "IDs"]
    named = ids[:1] if wanted.ids is None else []
    words = {
        name: sorted({word for column in columns for word, _ in column.words})
        for name, columns in held.items()
        if uses[name] == "numbers"
    }
    gaps = any(column.missing for name in words for column in held[name]) or any(words.values())
    found = {
        "id_column": "".join(named),
        "exclude": [
            name for name, use in uses.items() if use == "none" or (name in ids and name not in named)
        ],
        "categorical": [name for name, use in uses.items() if use == "categories"],
        "absent": [f"{name}={word}" for name, some in words.items() for word in some],
        "missing": "mean" * (gaps and not wanted.gaps),
    }
    return {name: value for name, value in found.items() if value}


def _use_of(name: str, columns: Sequence[ColumnProfile]) -> str:
    """What a column may be used for: IDs, none, categories or numbers."""
    kinds = {column.kind for column in columns}
    nameless = isinstance(name, UnnamedColumn)
    if all(column.id_like and (column.texts or column.even or nameless) for column in columns):
        return "IDs"
    if nameless or kinds & {"dates", "text", "nothing"}:
        return "none"
    return "categories" if kinds == {"categories"} else "numbers"
