"""How a file of rows is written: what separates cells, what signs of numbers mean, where the table begins.

What a file says beyond doubt is taken; what could be read in two ways is refused, with the options that say
which.  `Dialect()` finds everything out from the first rows, so that a file is read once and in one pass.

encoding    a byte order mark decides, or zeros that only UTF-16 has; else UTF-8 if the file is that, as files
            of ASCII are.  Others (cp1252, latin-1, and so on) all decode any bytes to some letters, so they
            are only read if named.
delimiter   what a first line `sep=;` names; else of `,` `;` tab and `|` the one that stands in the header,
            outside quotes.  Several, of which each would make a table: refused.  Blanks if nothing else cuts
            rows and they cut all into as many numbers.
decimal     a point.  A comma if cells of the first rows can only be read so (1,5 or 0,25).
thousands   nothing, or what only groups digits (1'000, 1,000,000, 1,234.5).  What may be either is refused:
            1,234; and 1.010 where other cells of its column are whole, and none is written otherwise.
header      the first row, if none of its cells is a number, or if it holds all columns asked for.  A row of
            numbers is data, unless they count as names of columns do (0, 1, 2; 1, 2, 3; years): refused.
skip        nothing.  Lines ahead of the table or below its names, that are not like the others, are refused
            with their numbers.
absent      cells that are empty or hold NA, NaN, null, or an error of Excel.

Nothing here shows a cell.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import re
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

from secfc.errors import IncompatibleOptions, InputError, MissingFileError, UnknownEncoding

DELIMITERS = (",", ";", "\t", "|")
BLANKS = " "  # any number of them between two cells
WORDS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|", "blanks": BLANKS, "\\t": "\t"}
MARKS = (  # UTF-32's begins as UTF-16's does, so it comes first
    (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"), (codecs.BOM_UTF8, "utf-8-sig"),
)  # fmt: skip
LOOKED_AT = 200  # rows, by which a file is judged
PREAMBLE = 20  # lines, among which a table begins
NUMBER = re.compile(r"[+-]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][+-]?\d+)?")
COMMA = re.compile(r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?")  # a number, if commas are decimal
# What groups digits and stands in no number otherwise: apostrophes, and blanks that do not break.
ONLY_GROUPS = "'\u2019\u00a0\u202f"
GROUPING = (",", ".", " ", *ONLY_GROUPS)
SEPARATOR = re.compile(r"sep=(.)\s*", re.IGNORECASE)
# Cells of missing values, in lower case; the last are errors of Excel.
ABSENT = (
    "", "na", "n/a", "nan", "null", "#n/a", "#na", "#null!", "#div/0!", "#value!", "#ref!", "#name?", "#num!",
)  # fmt: skip
# Names of rows below a table that sum it up.
TOTALS = frozenset(("total", "totals", "sum", "summe", "gesamt", "mean", "average", "mittelwert", "total:"))


class NumberCell(str):
    """A cell that a program wrote as a number, and not as text: its decimal is a point."""

    __slots__ = ()


@lru_cache
def grouped(thousands: str, decimal: str) -> re.Pattern[str]:
    """Numbers whose digits are grouped by threes."""
    return re.compile(rf"[+-]?[1-9]\d{{0,2}}(?:{re.escape(thousands)}\d{{3}})+(?:{re.escape(decimal)}\d*)?")


@dataclass(frozen=True)
class NumberFormat:
    """decimal: . or ,  thousands: what groups digits, None for nothing."""

    decimal: str = "."
    thousands: str | None = None

    def plain(self, cell: str) -> str:
        """A number as Python reads it; what is written otherwise comes back as no number."""
        if isinstance(cell, NumberCell):
            return cell
        text = cell.strip()
        if self.thousands is not None and grouped(self.thousands, self.decimal).fullmatch(text):
            text = text.replace(self.thousands, "")
        if self.decimal == ",":
            return "a point" if "." in text else text.replace(",", ".")
        return text

    @property
    def is_plain(self) -> bool:
        """Whether numbers stand as Python reads them."""
        return self == NumberFormat()


@dataclass(frozen=True)
class Dialect:
    """How files are written; a field is None if each file tells it.

    Parameters
    ----------
    encoding
        Encoding of text files, as Python names it.
    delimiter
        A character, or one of the words comma, semicolon, tab, pipe, blanks.
    decimal
        Decimal sign, "." or ",".
    thousands
        Sign that groups digits by threes: a comma, point, apostrophe or blank.
    header
        Whether the first row has names of columns; otherwise columns are named by their positions, from 0.
    skip
        Numbers of lines, from 1, that are no part of the table: a sequence, or text such as "1-3,36".
    absent
        Words for missing values besides empty cells, NA, NaN and null: "?", or for one column "crp=-9".
    sheet
        Sheet of a workbook that has several.
    visible_only
        Whether hidden rows of a workbook are left out.

    Raises
    ------
    InputError
        For a value that means nothing, or values that do not go together.

    Examples
    --------
    >>> Dialect(delimiter="semicolon", skip="1-3,36").skip
    (1, 2, 3, 36)
    """

    encoding: str | None = None
    delimiter: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    header: bool | None = None
    skip: tuple[int, ...] | str = ()
    absent: tuple[str, ...] = ()
    sheet: str | None = None
    visible_only: bool = False

    def __post_init__(self) -> None:
        if self.delimiter is not None:
            object.__setattr__(self, "delimiter", _checked_delimiter(self.delimiter))
        if self.decimal not in (None, ".", ","):
            raise InputError('"." or "," is needed', [("decimal", ",")], {"decimal": self.decimal})
        if self.thousands is not None and self.thousands not in GROUPING:
            raise InputError(
                """"," "." "'" or " " is needed""", [("thousands", ",")], {"thousands": self.thousands}
            )
        if self.decimal is not None and self.decimal == self.thousands:
            raise IncompatibleOptions(
                {"decimal": self.decimal, "thousands": self.thousands}, "one sign cannot be both",
                [("thousands", None), ("decimal", None)],
            )  # fmt: skip
        if self.decimal == "," == self.delimiter:
            raise IncompatibleOptions(
                {"delimiter": ",", "decimal": ","}, "one comma cannot be both",
                [("delimiter", ";"), ("decimal", ".")],
            )  # fmt: skip
        _check_switches(header=self.header is not None and self.header, visible_only=self.visible_only)
        object.__setattr__(self, "skip", parse_lines(self.skip))
        if isinstance(self.absent, str) or any(not str(word).rpartition("=")[2] for word in self.absent):
            raise InputError(
                "words are needed, in a list", [("absent", ("?", "crp=-9"))], {"absent": self.absent}
            )
        object.__setattr__(self, "absent", tuple(self.absent))
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
    def opened(self, path: Path) -> Iterator[tuple[RowStream, NumberFormat]]:
        """The rows of a text file, plain or compressed, and how its numbers are written, as given or found.

        Raises InputError.
        """
        with self.text(path) as handle:
            numbered = ((n, line) for n, line in enumerate(handle, 1) if n not in self.skip)
            first = list(islice(numbered, LOOKED_AT))
            delimiter = self.delimiter
            if first and (named := SEPARATOR.fullmatch(first[0][1])):
                delimiter, first = delimiter or named[1], first[1:]
            head = [line for _, line in first]
            if not self.skip:
                _check_beginning(path, head, delimiter)
            delimiter = delimiter or _delimiter(path, head)
            numbers = self.numbers(path, head, delimiter)
            yield RowStream(_cells(chain(first, numbered), delimiter), delimiter, handle.encoding), numbers

    def advised(self, fault: InputError, encoding: str) -> Dialect | None:
        """This dialect in the encoding, or without the lines, of a fault; None if it has its own."""
        if isinstance(fault, UnknownEncoding) and self.encoding is None:
            return replace(self, encoding=encoding)
        lines = next((remedy[1] for remedy in fault.remedies if remedy[0] == "skip"), None)
        return None if lines is None or self.skip else replace(self, skip=lines)

    def numbers(self, path: Path, head: Sequence[str], delimiter: str) -> NumberFormat:
        """How numbers in these lines are written.  Raises InputError for what may mean two things."""
        try:
            cells = [cell for _, row in _cells(enumerate(head, 1), delimiter) for cell in row]
        except csv.Error:
            cells = []  # which the reader says better
        return self.numbers_of(path, cells)

    def numbers_of(self, path: Path, cells: Sequence[str]) -> NumberFormat:
        """How numbers in these cells are written.  Raises InputError for what may mean two things."""
        if self.decimal is not None or self.thousands is not None:
            return NumberFormat(self.decimal or ("," if self.thousands == "." else "."), self.thousands)
        return _number_format(path, [cell.strip() for cell in cells])

    @contextmanager
    def text(self, path: Path) -> Iterator[io.TextIOWrapper]:
        """A file, plain, .gz or .zip, as text with its line ends as they are.  Raises InputError."""
        encoding = self.encoding or ""
        try:
            with opened_bytes(path) as raw:
                encoding = encoding or _marked(raw.peek(64)[:64])
                with io.TextIOWrapper(raw, encoding, newline="") as handle:
                    yield handle
        except UnicodeError as error:
            raise UnknownEncoding(
                f"{path} is not {encoding.removesuffix('-sig').upper()} text. Files of older programs are "
                "often cp1252 (Western Europe) or latin-1",
                [("encoding", ..., "say which"), "save it in UTF-8"],
            ) from error
        except (EOFError, gzip.BadGzipFile, zipfile.BadZipFile, zlib.error) as error:
            raise InputError(f"{path} is no whole archive. Compress it again, or unpack it.") from error


def changed_words(dialect: Dialect) -> dict[str, Any]:
    """What a dialect says, by name: words, lists of words, truth values, as files of settings hold them."""
    said = {f.name: getattr(dialect, f.name) for f in fields(dialect)}
    said["skip"] = format_lines(said["skip"])
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in said.items()
        if value not in (None, (), "", False) or (name, value) == ("header", False)
    }


class RowStream:
    """Rows of cells, of which the first can be looked at before they are taken.

    line_num: of the row that was taken last, in the file, from 1; of a row over several lines the last.
    delimiter, encoding: of a text file.
    """

    def __init__(
        self, rows: Iterable[tuple[int, list[str]]], delimiter: str | None = None, encoding: str = ""
    ) -> None:
        self._rows, self._ahead, self.line_num = iter(rows), list[tuple[int, list[str]]](), 0
        self.delimiter, self.encoding = delimiter, encoding

    def __iter__(self) -> RowStream:
        return self

    def __next__(self) -> list[str]:
        self.line_num, row = self._ahead.pop(0) if self._ahead else next(self._rows)
        return row

    def ahead(self, count: int) -> list[tuple[int, list[str]]]:
        """The next rows that are not empty, with their lines, as far as there are so many."""
        self._ahead += list(islice(self._rows, max(count - len(self._ahead), 0)))
        return [(line, row) for line, row in self._ahead[:count] if any(cell.strip() for cell in row)]


def _check_switches(**switches: Any) -> None:
    """Raises InputError for the first that is neither True nor False."""
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise InputError("True or False is needed", [(name, True)], {name: value})


def parse_lines(lines: Any) -> tuple[int, ...]:
    """Numbers of lines, ascending, from numbers or text as "1-3,36".  Raises InputError."""
    parts: Any = lines.split(",") if isinstance(lines, str) else lines
    parts = parts if isinstance(parts, Iterable) else [parts]
    found: set[int] = set()
    for part in parts:
        span = re.fullmatch(r"\s*(\d{1,9})(?:\s*-\s*(\d{1,9}))?\s*", str(part))
        first, last = (int(span[1]), int(span[2] or span[1])) if span else (0, 0)
        if not 1 <= first <= last <= first + 10_000:
            raise InputError(
                "numbers of lines are needed, counted from 1, as 1-3,36", [("skip", "1-3")], {"skip": lines}
            )
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def format_lines(lines: Sequence[int]) -> str:
    """Numbers of lines, ascending, as "1-3,36"."""
    spans: list[list[int]] = []
    for line in lines:
        if spans and spans[-1][1] == line - 1:
            spans[-1][1] = line
        else:
            spans.append([line, line])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def lines_word(which: str) -> str:
    """Such numbers in a sentence."""
    return f"{'line' if which.isdigit() else 'lines'} {which}"


def file_extension(path: Path) -> str:
    """The extension in lower case, of a compressed file with the one before: .csv.gz."""
    parts = [suffix.lower() for suffix in path.suffixes[-2:]]
    return "".join(parts) if parts[-1:] in ([".gz"], [".zip"]) else "".join(parts[-1:])


def file_stem(path: Path) -> str:
    """The name of a file without its extension."""
    return path.name[: len(path.name) - len(file_extension(path))]


def check_paths(files: Collection[Path], known: Collection[str], dialect: Dialect | None = None) -> None:
    """Raise InputError unless all are files of known extensions that can be read, each once.

    dialect: how they are written (`refuse_unused`).
    """
    seen: set[Path] = set()
    for path in files:
        if path.is_dir():
            raise InputError(f"{path} is a directory: files are needed. Pass the files in it.")
        if not path.exists():
            several = "Name each file by itself" if {*"*?,;"} & {*path.name} else "Check the path"
            raise MissingFileError(f"{path} does not exist. {several}.")
        if not os.access(path, os.R_OK):
            raise InputError(f"{path} may not be read. Change its permissions.")
        refuse_page(path)
        if (extension := file_extension(path)) not in known:
            lines = " (.txt has one ID a line)" if ".txt" in known else ""
            raise InputError(
                f"{path} has the extension {extension!r}: {', '.join(known)} are read{lines}. Convert or "
                "rename it."
            )
        if path.resolve() in seen:
            raise InputError(f"{path} is given twice: each client has its own file. Drop one.")
        seen.add(path.resolve())
    refuse_unused(dialect or Dialect(), files)


def refuse_unused(dialect: Dialect, files: Collection[Path]) -> None:
    """Raise InputError for what a dialect says of workbooks, where no file is one."""
    said = {name: getattr(dialect, name) for name in ("sheet", "visible_only") if getattr(dialect, name)}
    if said and not any(file_extension(path) == ".xlsx" for path in files):
        rule = "no file is a workbook (.xlsx), so it has no effect"
        raise InputError(rule, [(name, None) for name in said], said)


def refuse_page(path: Path) -> None:
    """Raise InputError for a page of HTML, which web servers send and some programs call .xls."""
    if path.is_file():
        with path.open("rb") as file:
            begins = file.read(512).removeprefix(b"\xef\xbb\xbf").lstrip().lower()
        if begins.startswith((b"<!doctype html", b"<html", b"<head", b"<table")):
            raise InputError(
                f"{path} is a page of HTML, whatever its name says, as a login page or a table that "
                "programs call .xls. Download it again, or open it in a spreadsheet and save it as CSV."
            )


def is_number(cell: str) -> bool:
    """Whether Python reads a number in it."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def refuse_lines(path: Path, lines: Sequence[int], begins: int) -> InputError:
    """The error for lines that seem to be no part of a table."""
    which = format_lines(lines)
    return InputError(
        f"{path}: the table seems to begin in line {begins}, and {lines_word(which)} to be no part of it",
        [("skip", which, "leave these lines out"), "delete them"],
    )


def find_strange_lines(
    rows: Sequence[tuple[int, list[str]]], numbers: NumberFormat
) -> tuple[list[int], int] | None:
    """Lines ahead of a table or below its names that are not like the others, and where the table begins.

    rows: the first of a file, with their lines.  None where all are in order.
    """
    if len(rows) < 3:
        return None
    width = max(len(row) for _, row in rows)
    shapes = []
    for _, row in rows:
        cells = [cell for cell in row if cell.strip().lower() not in ABSENT]
        shapes.append((len(row), len(cells), sum(is_number(numbers.plain(cell)) for cell in cells)))
    for i, (count, filled, figures) in enumerate(shapes[:-1]):
        if count != width or figures or filled < count:
            continue
        # Names of all columns, below which numbers follow at once, or after one line, of units.
        after = [s for s in shapes[i + 1 : i + 4] if s[0] == width]
        if i and after and after[0][2] and not any(s[2] for s in shapes[:i]):
            return list(range(rows[0][0], rows[i][0])), rows[i][0]
        of_units = bool(after) and after[0] == (width, width, 0)
        if len(after) > 1 and of_units and all(s[2] == s[1] > 0 for s in after[1:]):
            return [*range(rows[0][0], rows[i][0]), rows[i + 1][0]], rows[i][0]
        return None
    return None


# Bytes that an archive may unpack to: beyond the first, no more than so many times its own.
UNPACKED, FOLD = 1 << 26, 200


def check_unpacked(path: Path) -> None:
    """Raise InputError for a .zip, or a file of that make, that unpacks to too much as it says itself."""
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(info.file_size for info in archive.infolist())
    except Exception:
        return
    if size > max(UNPACKED, FOLD * path.stat().st_size):
        raise _too_much(path)


def _too_much(path: Path) -> InputError:
    return InputError(
        f"{path} unpacks to more than {FOLD} times its bytes, as an archive that is to fill a memory does: "
        "unpack it yourself, and look what it is."
    )


class CappedBytes(io.RawIOBase):
    """What a compressed file unpacks to, up to a limit.  Raises InputError beyond."""

    def __init__(self, path: Path, inner: Any) -> None:
        self._path, self._inner = path, inner
        self._left = max(UNPACKED, FOLD * path.stat().st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        count: int = self._inner.readinto(buffer)
        self._left -= count
        if self._left < 0:
            raise _too_much(self._path)
        return count

    def close(self) -> None:
        self._inner.close()
        super().close()


def opened_bytes(path: Path) -> Any:
    """A buffered file of what is in a file that may be compressed.  Raises InputError, OSError."""
    kind = path.suffix.lower()
    if kind == ".gz":
        return io.BufferedReader(CappedBytes(path, gzip.open(path)), 1 << 16)
    if kind != ".zip":
        return path.open("rb")
    check_unpacked(path)
    with zipfile.ZipFile(path) as archive:
        names = [info.filename for info in archive.infolist() if not info.is_dir()]
        if len(names) != 1:
            raise InputError(f"{path} holds {len(names)} files: one is needed. Unpack it.")
        try:
            return io.BufferedReader(archive.open(names[0]))
        except (RuntimeError, NotImplementedError) as error:
            raise InputError(f"{path} has a password, or is packed in a rare way: unpack it.") from error


def _checked_delimiter(delimiter: Any) -> str:
    one = WORDS.get(delimiter, delimiter)
    if not isinstance(one, str) or len(one) != 1 or one.isalnum() or one in '"\r\n.+-_':
        raise InputError(
            "one character is needed that is in no number, or comma, semicolon, tab, pipe, blanks",
            [("delimiter", ";")],
            {"delimiter": delimiter},
        )
    return one


class BadRow(csv.Error):
    """A row that is no CSV.  line: where that shows."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(line, why)
        self.line, self.why = line, why

    def at(self, path: Path) -> InputError:
        """The error that says so of a file."""
        return InputError(f"{path}, line {self.line}: not valid CSV ({self.why}). Check the quotes.")


def _cells(lines: Iterable[tuple[int, str]], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Rows with the line that they end in.  Raises BadRow."""
    last = 0

    def each() -> Iterator[str]:
        nonlocal last
        for last, line in lines:  # noqa: B007
            yield line.strip() if delimiter == BLANKS else line

    reader = csv.reader(each(), strict=True, delimiter=delimiter, skipinitialspace=delimiter == BLANKS)
    try:
        for row in reader:
            yield last, row
    except csv.Error as error:
        raise BadRow(last, str(error)) from error


def _marked(first: bytes) -> str:
    """The encoding that the first bytes name, else UTF-8."""
    for mark, encoding in MARKS:
        if first.startswith(mark):
            return encoding
    even, odd = first[::2], first[1::2]
    if len(first) > 7 and not any(odd) and all(even):
        return "utf-16-le"
    if len(first) > 7 and not any(even) and all(odd):
        return "utf-16-be"
    return "utf-8-sig"


def _check_beginning(path: Path, head: Sequence[str], delimiter: str | None) -> None:
    """Raise InputError where the first lines are cut into other cells than all lines after them."""
    tried = DELIMITERS if delimiter is None else (delimiter,)
    if len(head) < 3 or any(_width(head, each) > 1 for each in tried):
        return
    for begins in range(1, min(PREAMBLE, len(head) - 2)):
        for each in tried:
            width = _width(head[begins:], each)
            if width > 1 and not any(_width([line], each) == width for line in head[:begins]):
                raise refuse_lines(path, range(1, begins + 1), begins + 1)


def _delimiter(path: Path, head: Sequence[str]) -> str:
    """The character that cuts all first rows into as many cells, more than one; a comma if none does."""
    if file_extension(path).startswith(".tsv"):
        return "\t"
    cutting = [each for each in DELIMITERS if _width(head, each) > 1]
    if len(cutting) > 1:  # 1,5;2,5 are three cells, or two numbers
        cutting = [each for each in cutting if _numeric(head, each)] or cutting
    if len(cutting) > 1:
        shown = " or ".join(repr(each) for each in cutting)
        raise InputError(
            f"{path} could be separated by {shown}: each cuts every row into as many cells",
            [("delimiter", ..., "say which")],
        )
    if not cutting and _width(head, BLANKS) > 1 and _numeric(head, BLANKS):
        return BLANKS
    if not cutting:  # some row is wrong: the first says what was meant, and the reader which it is
        first = next((line for line in head if line.strip()), "")
        cutting = [each for each in DELIMITERS if _width([first], each) > 1]
    return cutting[0] if len(cutting) == 1 else ","


def _width(head: Sequence[str], delimiter: str) -> int:
    """Cells of every one of these rows; 1 if they differ, or are no rows."""
    try:
        widths = {len(row) for _, row in _cells(enumerate(head, 1), delimiter) if row}
    except csv.Error:
        return 1
    return widths.pop() if len(widths) == 1 else 1


def _numeric(head: Sequence[str], delimiter: str) -> bool:
    """Whether all cells below the first row are numbers, or empty."""
    rows = [row for _, row in _cells(enumerate(head, 1), delimiter) if row]
    cells = [cell.strip() for row in rows[1:] or rows for cell in row]
    return all(NUMBER.fullmatch(cell) for cell in cells if cell)


def _number_format(path: Path, cells: Sequence[str]) -> NumberFormat:
    """How these cells write numbers; refused where a comma may be a decimal or group thousands."""
    for sign in ONLY_GROUPS:
        found = [d for d in ".," if any(grouped(sign, d).fullmatch(cell) for cell in cells if sign in cell)]
        if found:
            commas = any(COMMA.fullmatch(cell.replace(sign, "")) for cell in cells)
            return NumberFormat("," if commas or found == [","] else ".", sign)
    if any("." in c and "," in c and grouped(".", ",").fullmatch(c) for c in cells):
        return NumberFormat(",", ".")
    thousands = grouped(",", ".")
    numbers = [c for c in cells if "," in c and (COMMA.fullmatch(c) or thousands.fullmatch(c))]
    decimals = [cell for cell in numbers if not thousands.fullmatch(cell)]
    if not numbers:
        return NumberFormat()
    if decimals and all(COMMA.fullmatch(cell) for cell in numbers):
        return NumberFormat(",")
    if not decimals and any("." in cell or cell.count(",") > 1 for cell in numbers):
        return NumberFormat(".", ",")
    raise InputError(
        f"{path} has numbers with a comma before three digits, which may be a decimal or group thousands: "
        "nothing is guessed",
        [("decimal", ",", "say that it is a decimal"), ("thousands", ",", "say that it groups thousands")],
    )


class PointDoubt:
    """Columns in which every point stands before three digits, as a decimal or a sign of thousands would.

    Whole numbers beside them, or rows that no comma separates, leave that open: 950 and 1.010.  One cell that
    is written otherwise settles its column.
    """

    GROUP = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}")

    def __init__(self, positions: Sequence[int]) -> None:
        self.open = set(positions)
        self.first: dict[int, int] = {}  # line of the first such cell, by column
        self.whole: set[int] = set()

    def look(self, row: Sequence[str], line: int) -> None:
        """Take a row into account."""
        for at in tuple(self.open):
            cell = row[at]
            if cell.isdigit():
                self.whole.add(at)
            elif "." in cell:
                if isinstance(cell, NumberCell) or not self.GROUP.fullmatch(cell.strip()):
                    self.open.discard(at)
                else:
                    self.first.setdefault(at, line)

    def check(self, path: Path, names: Sequence[str]) -> None:
        """Raise InputError for the first column that is still in doubt."""
        for at in sorted(self.open & self.whole & set(self.first)):
            raise InputError(
                f"{path}, line {self.first[at]}, column {names[at]!r}: a point before three digits, in a "
                "column of whole numbers, may be a decimal or group thousands: nothing is guessed",
                [
                    ("decimal", ".", "say that it is a decimal"),
                    ("thousands", ".", "say that it groups thousands"),
                ],
            )


def check_first_row(path: Path, line: int, cells: Sequence[str]) -> None:
    """Raise InputError for a row of numbers that may be names of columns: 0, 1, 2, or 1, 2, 3, or years."""
    if len(cells) < 2 or not all(re.fullmatch(r"\d{1,4}", cell) for cell in cells):
        return
    numbers = [int(cell) for cell in cells]
    counts = numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    if counts and (numbers[0] == 0 or (numbers[0] == 1 and len(numbers) > 2) or 1900 <= numbers[0] <= 2100):
        raise InputError(
            f"{path}, line {line}: the first row counts up, so it may be names of columns, or data",
            [("header", True, "say that it has names"), ("header", False, "say that it is data")],
        )
