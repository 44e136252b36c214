"""What a report consists of before anything is drawn: sections, and parts of them that renderers show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
    """Points of a plane, each with the number of its color.  what: they are, in words."""

    what: str
    points: Sequence[tuple[float, float, int]]


Part = Pairs | Words | Items | Grid | Bars | Dots


@dataclass(frozen=True)
class Section:
    """Parts under a title.  holders: only who may see the data should read it."""

    title: str
    parts: tuple[Part, ...]
    holders: bool = False

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
        if isinstance(part, Grid):
            return bool(part.rows)
        return bool(part.values if isinstance(part, Bars) else part.points)
