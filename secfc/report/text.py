"""Words and numbers on a terminal of any width."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from secfc.report.parts import BAD, CAUTION, GOOD, Grid, Items, Pairs, Section, Words

STYLES = {GOOD: "bold green", BAD: "bold red", CAUTION: "yellow", "": ""}


def heading(console: Console, title: str) -> None:
    """A blank line and a title."""
    console.print()
    console.print(Text(title, "bold"))


def paragraph(console: Console, sentence: str, style: str = "", first: str = "", rest: str = "") -> None:
    """Print wrapped words; lines begin with `first` or `rest` and have no trailing blanks."""
    width = max(40, min(console.width, 100))
    lines = textwrap.wrap(
        sentence, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )
    console.print(Text("\n".join(lines), style), soft_wrap=True)


def pairs(console: Console, lines: Iterable[tuple[str, str]]) -> None:
    """Print names, and beside them sentences."""
    for name, value in lines:
        paragraph(console, value, first=f"{name:<11} ", rest=" " * 12)


def items(console: Console, sentences: Iterable[str]) -> None:
    """Print a list."""
    for sentence in sentences:
        paragraph(console, sentence, first="- ", rest="  ")


def section(console: Console, shown: Section) -> None:
    """Print a section; pictures are for pages."""
    heading(console, shown.title)
    for part in shown.parts:
        if isinstance(part, Words):
            paragraph(console, part.sentence, STYLES[part.tone])
        elif isinstance(part, Pairs):
            pairs(console, part.lines)
        elif isinstance(part, Items):
            items(console, part.sentences)
        elif isinstance(part, Grid):
            console.print(grid(part))


def grid(part: Grid) -> Table:
    """A table of these cells."""
    made = table(*part.columns, text=part.words)
    for row in part.rows:
        made.add_row(*row)
    return made


def table(*columns: str, text: int) -> Table:
    """A table whose first `text` columns are words and whose others are numbers."""
    made = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="")
    for place, name in enumerate(columns):
        made.add_column(name, justify="left" if place < text else "right", overflow="fold")
    return made


def clipped(sentence: str, most: int) -> str:
    """The sentence, cut at a word if it has more letters than this."""
    return textwrap.shorten(sentence, most, placeholder=" ...")


def count(number: int, what: str) -> str:
    """A number of things, in the plural if need be."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def number(value: float) -> str:
    """A number as short as it can be read, whole numbers with separators."""
    return f"{int(value):,}" if value == int(value) and abs(value) < 1e15 else f"{value:g}"


def ms(value: float) -> str:
    """Seconds as milliseconds, without the unit."""
    spent = 1000 * value
    return f"{spent:,.2f}" if spent < 100 else f"{spent:,.0f}"


def duration(value: float) -> str:
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
