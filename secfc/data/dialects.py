"""How a text file of rows is written: its encoding, what separates cells, and what a number's comma means.

What the file says beyond doubt is taken; what could be read in two ways is refused, with the options that say
which.  `Dialect()` finds everything out from the first rows, so that a file is read once and in one pass.

encoding    a byte order mark decides; else UTF-8 if the file is that, as files of ASCII are.  Others (cp1252,
            latin-1, and so on) all decode any bytes to some letters, so they are only read if named.
delimiter   of `,` `;` tab and `|` the one that stands in the header, outside quotes.  Several, of which each
            would make a table: refused.
decimal     a point.  A comma if cells of the first rows can only be read so (1,5 or 0,25); if all that have a
            comma could also be thousands (1,234), refused.

Nothing here shows a cell.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from secfc.data.inputs import IncompatibleOptions, InputError

DELIMITERS = (",", ";", "\t", "|")
WORDS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|", "\\t": "\t"}
MARKS = (  # UTF-32's begins as UTF-16's does, so it comes first
    (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"), (codecs.BOM_UTF8, "utf-8-sig"),
)  # fmt: skip
LOOKED_AT = 200  # rows, by which a file is judged
COMMA = re.compile(r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?")  # a number, if commas are decimal
NUMBER = re.compile(r"[+-]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][+-]?\d+)?")
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?")  # a number, if they group digits


@dataclass(frozen=True)
class Dialect:
    """encoding, delimiter and decimal of text files, None for what each file tells.

    encoding: as Python names it.  delimiter: a character or comma, semicolon, tab, pipe.  decimal: . or ,
    """

    encoding: str | None = None
    delimiter: str | None = None
    decimal: str | None = None

    def __post_init__(self) -> None:
        if self.delimiter is not None:
            one = WORDS.get(self.delimiter, self.delimiter)
            if not isinstance(one, str) or len(one) != 1 or one.isalnum() or one in '"\r\n.+-_ ':
                raise InputError(
                    "one character is needed that is in no number, or comma, semicolon, tab, pipe",
                    [("delimiter", ";")],
                    {"delimiter": self.delimiter},
                )
            object.__setattr__(self, "delimiter", one)
        if self.decimal not in (None, ".", ","):
            raise InputError('"." or "," is needed', [("decimal", ",")], {"decimal": self.decimal})
        if self.decimal == "," == self.delimiter:
            raise IncompatibleOptions(
                {"delimiter": ",", "decimal": ","}, "one comma cannot be both",
                [("delimiter", ";"), ("decimal", ".")],
            )  # fmt: skip
        if self.encoding is not None:
            try:
                "a".encode(self.encoding)
            except (LookupError, TypeError, UnicodeError) as error:
                raise InputError(
                    "a name such as utf-8, utf-16, cp1252 or latin-1 is needed",
                    [("encoding", "cp1252")],
                    {"encoding": self.encoding},
                ) from error

    @contextmanager
    def opened(self, path: Path) -> Iterator[tuple[Any, str]]:
        """A csv.reader of a file, plain or .gz, and its decimal, as given or found.  Raises InputError."""
        with self.text(path) as handle:
            head = list(islice(handle, LOOKED_AT))
            delimiter = self.delimiter or _delimiter(path, head)
            decimal = self.decimal or _decimal(path, head, delimiter)
            yield csv.reader(chain(head, handle), strict=True, delimiter=delimiter), decimal

    @contextmanager
    def text(self, path: Path) -> Iterator[io.TextIOWrapper]:
        """A file, plain or .gz, as text with its line ends as they are.  Raises InputError."""
        encoding = self.encoding or ""
        try:
            with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as raw:
                encoding = encoding or _marked(raw.peek(4))
                with io.TextIOWrapper(raw, encoding, newline="") as handle:
                    yield handle
        except UnicodeError as error:
            raise InputError(
                f"{path} is not {encoding.removesuffix('-sig').upper()} text. Files of older programs are "
                "often cp1252 (Western Europe) or latin-1",
                [("encoding", ..., "say which"), "save it in UTF-8"],
            ) from error
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise InputError(f"{path} is no whole gzip file. Compress it again, or unpack it.") from error


def with_decimal_point(cell: str) -> str:
    """A number whose decimal is a comma, as Python reads it; what has a point is none."""
    return "a point" if "." in cell else cell.replace(",", ".")


def file_extension(path: Path) -> str:
    """The extension in lower case, of a compressed file with the one before: .csv.gz."""
    parts = [suffix.lower() for suffix in path.suffixes[-2:]]
    return "".join(parts) if parts[-1:] == [".gz"] else "".join(parts[-1:])


def file_stem(path: Path) -> str:
    """The name of a file without its extension."""
    return path.name[: len(path.name) - len(file_extension(path))]


def _marked(first: bytes) -> str:
    """The encoding that the first bytes name, else UTF-8."""
    return next((encoding for mark, encoding in MARKS if first.startswith(mark)), "utf-8-sig")


def _delimiter(path: Path, head: Sequence[str]) -> str:
    """The character that cuts all first rows into as many cells, more than one; a comma if none does."""
    if file_extension(path).startswith(".tsv"):
        return "\t"
    cutting = _cutting(head)
    if len(cutting) > 1:  # 1,5;2,5 are three cells, or two numbers
        cutting = [each for each in cutting if _numeric(head, each)] or cutting
    if len(cutting) > 1:
        shown = " or ".join(repr(each) for each in cutting)
        raise InputError(
            f"{path} could be separated by {shown}: each cuts every row into as many cells",
            [("delimiter", ..., "say which")],
        )
    if not cutting:  # some row is wrong: the first says what was meant, and the reader which it is
        first = next((line for line in head if line.strip()), "")
        cutting = _cutting([first])
    return cutting[0] if len(cutting) == 1 else ","


def _cutting(head: Sequence[str]) -> list[str]:
    """Characters that cut every one of these rows into as many cells, more than one."""
    return [each for each in DELIMITERS if _width(head, each) > 1]


def _width(head: Sequence[str], delimiter: str) -> int:
    """Cells of every one of these rows; 1 if they differ, or are no rows."""
    try:
        widths = {len(row) for row in csv.reader(head, delimiter=delimiter) if row}
    except csv.Error:
        return 1
    return widths.pop() if len(widths) == 1 else 1


def _numeric(head: Sequence[str], delimiter: str) -> bool:
    """Whether all cells below the first row are numbers, or empty."""
    rows = [row for row in csv.reader(head, delimiter=delimiter) if row]
    cells = [cell.strip() for row in rows[1:] or rows for cell in row]
    return all(NUMBER.fullmatch(cell) for cell in cells if cell)


def _comma_numbers(head: Sequence[str], delimiter: str) -> list[str]:
    """Numbers with a comma in them ; none of rows that are no CSV, as the reader says."""
    try:
        cells = [cell.strip() for row in csv.reader(head, delimiter=delimiter) for cell in row]
    except csv.Error:
        return []
    return [cell for cell in cells if COMMA.fullmatch(cell) or THOUSANDS.fullmatch(cell)]


def _decimal(path: Path, head: Sequence[str], delimiter: str) -> str:
    """What a comma means in cells: a decimal, or nothing that is read; refused where it may mean either."""
    if delimiter == "," and not any('"' in line for line in head):
        return "."
    numbers = _comma_numbers(head, delimiter)
    decimals = [cell for cell in numbers if not THOUSANDS.fullmatch(cell)]
    if not numbers:
        return "."
    if not decimals or not all(COMMA.fullmatch(cell) for cell in numbers):
        raise InputError(
            f"{path} has numbers with a comma before three digits, which may be a decimal or group "
            "thousands: nothing is guessed",
            [("decimal", ",", "say that it is a decimal"), "save it without separators of thousands"],
        )
    return ","
