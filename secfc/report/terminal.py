"""Words and numbers on a terminal of any width."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

# --------------------------------------------------------------------------------------------------
# What a report consists of before anything is drawn: sections, and parts of them that renderers show.

# How a sentence is meant: good, bad, a caution, or nothing of these.
GOOD, BAD, CAUTION = "good", "bad", "caution"


@dataclass(frozen=True)
class Pairs:
    """Names, and beside them sentences."""

    lines: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Words:
    """A paragraph.  tone: GOOD, BAD, CAUTION or empty."""

    sentence: str
    tone: str = ""


@dataclass(frozen=True)
class Items:
    """A list of sentences."""

    sentences: Sequence[str]


@dataclass(frozen=True)
class Grid:
    """A table whose first `words` columns are words and whose others are numbers, all written out."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1


@dataclass(frozen=True)
class Bars:
    """Named numbers, each with a bar of its length.  what: they are, in words."""

    what: str
    values: Sequence[tuple[str, int]]


@dataclass(frozen=True)
class Dots:
    """Points of a plane, each with the number of its color.

    what: they are, in words.  axes: what lies to the right, and above.  colors: what each color is.
    """

    what: str
    points: Sequence[tuple[float, float, int]]
    axes: tuple[str, str] = ("", "")
    colors: Sequence[str] = ()


@dataclass(frozen=True)
class Tiles:
    """Named rows of signed numbers, a tile each, under names of columns.  what: they are, in words."""

    what: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[float]]]


Part = Pairs | Words | Items | Grid | Bars | Dots | Tiles


@dataclass(frozen=True)
class Section:
    """Parts under a title.  folded: whether pages show it to those only who ask."""

    title: str
    parts: tuple[Part, ...]
    folded: bool = False

    @property
    def empty(self) -> bool:
        """Whether there is nothing in it."""
        return not any(self._full(part) for part in self.parts)

    @property
    def trimmed(self) -> Section:
        """Without empty parts."""
        return replace(self, parts=tuple(part for part in self.parts if self._full(part)))

    @staticmethod
    def _full(part: Part) -> bool:
        if isinstance(part, Words):
            return bool(part.sentence)
        if isinstance(part, Pairs):
            return bool(part.lines)
        if isinstance(part, Items):
            return bool(part.sentences)
        if isinstance(part, Grid | Tiles):
            return bool(part.rows)
        return bool(part.values if isinstance(part, Bars) else part.points)


# --------------------------------------------------------------------------------------------------

STYLES = {GOOD: "bold green", BAD: "bold red", CAUTION: "yellow", "": ""}


def print_heading(console: Console, title: str) -> None:
    """A blank line and a title."""
    console.print()
    console.print(Text(title, "bold"))


def print_paragraph(
    console: Console, sentence: str, style: str = "", first: str = "", rest: str = ""
) -> None:
    """Print wrapped words; lines begin with `first` or `rest` and have no trailing blanks."""
    width = max(40, min(console.width, 100))
    lines = textwrap.wrap(
        sentence, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )
    console.print(Text("\n".join(lines), style), soft_wrap=True)


def print_pairs(console: Console, lines: Iterable[tuple[str, str]]) -> None:
    """Print names, and beside them sentences."""
    for name, value in lines:
        print_paragraph(console, value, first=f"{name:<11} ", rest=" " * 12)


def print_items(console: Console, sentences: Iterable[str]) -> None:
    """Print a list."""
    for sentence in sentences:
        print_paragraph(console, sentence, first="- ", rest="  ")


def print_section(console: Console, shown: Section) -> None:
    """Print a section; pictures are for pages."""
    print_heading(console, shown.title)
    for part in shown.parts:
        if isinstance(part, Words):
            print_paragraph(console, part.sentence, STYLES[part.tone])
        elif isinstance(part, Pairs):
            print_pairs(console, part.lines)
        elif isinstance(part, Items):
            print_items(console, part.sentences)
        elif isinstance(part, Grid):
            console.print(cells_table(part))


def cells_table(part: Grid) -> Table:
    """A table of these cells."""
    made = rich_table(*part.columns, text=part.words)
    for row in part.rows:
        made.add_row(*row)
    return made


def rich_table(*columns: str, text: int) -> Table:
    """A table whose first `text` columns are words and whose others are numbers."""
    made = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="")
    for place, name in enumerate(columns):
        made.add_column(name, justify="left" if place < text else "right", overflow="fold")
    return made


def pluralize(number: int, what: str) -> str:
    """A number of things, in the plural if need be."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def first_sentences(sentences: tuple[str, ...], most: int = 2, *, rest: str = "--verbose") -> str:
    """The first sentences, and that there are more.  rest: where.

    >>> first_sentences(("all labels", "sizes", "gains of splits"))
    'all labels; sizes; 1 more: --verbose'
    """
    more = len(sentences) - most
    return "; ".join(sentences[:most]) + (f"; {more} more: {rest}" if more > 0 else "")


def measured_number(value: float, digits: int = 4) -> str:
    """A measurement to so many digits, or to ones where it has more, without an exponent below ten million.

    >>> [measured_number(x) for x in (28961.2, 0.38331, 12.0, 3e9)]
    ['28,961', '0.3833', '12', '3e+09']
    """
    whole = 10 ** (digits - 1) <= abs(value) < 1e7
    return f"{value:,.0f}" if whole else f"{value:.{digits}g}"


def short_number(value: float) -> str:
    """A number as short as it can be read, whole numbers with separators."""
    return f"{int(value):,}" if value == int(value) and abs(value) < 1e15 else f"{value:g}"


def in_milliseconds(value: float) -> str:
    """Seconds as milliseconds, without the unit."""
    spent = 1000 * value
    return f"{spent:,.2f}" if spent < 100 else f"{spent:,.0f}"


def duration_text(value: float) -> str:
    """Seconds as people say them."""
    return f"{1000 * value:.0f} ms" if value < 1 else f"{value:.1f} s"


def size_of(size: int) -> str:
    """Bytes in decimal units."""
    value, unit = float(size), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{size} B" if unit == "B" else f"{value:.1f} {unit}"
