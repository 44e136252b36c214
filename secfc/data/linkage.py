"""Linkage schemas: what makes two rows one person, in a file (TOML) that all sites share.

    [[field]]
    column = "insurance"
    drop = " -"              # signs that are removed
    zeros = "keep"           # of the left: keep, strip; or width = 10 fills up
    pattern = "[0-9]{10}"    # of the whole normalized text, as RE2 has it (extra "linkage")
    check = "luhn"

    [[field]]
    column = "surname"
    form = "NFKC"            # or NFC, the default
    case = "upper"           # or lower, keep (the default)
    missing = ["unknown"]    # besides empty cells
    required = false

A row's key is the normalized text of its field, or of all fields, each with its length before it, so that
no two lists of texts have the same key.  A row without a required field has no key.  A field that is not
required may be empty, and then equals only empty ones: two rows that lack it are one person if all else is
equal.

Nothing here shows a cell: counts and names of columns only.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal

import numpy as np

from field.arrays import Array
from secfc.data.inputs import require_library
from secfc.errors import Caution, InputError

# --------------------------------------------------------------------------------------------------
# Check digits of identifiers.  Each function takes normalized text and says whether its last sign fits.
#
# Further ones are plug-ins: entry points of the group `secfc.check_digits`, whose name a schema gives.

Check = Callable[[str], bool]

# The dihedral group of order 10 and the powers of a permutation (Verhoeff 1969).
_PRODUCT = (
    "0123456789", "1234067895", "2340178956", "3401289567", "4012395678",
    "5987604321", "6598710432", "7659821043", "8765932104", "9876543210",
)  # fmt: skip
_POWERS = (
    "0123456789", "1576283094", "5803796142", "8916043527", "9453126870", "4286573901", "2793806415",
    "7046913258",
)  # fmt: skip


def passes_luhn(text: str) -> bool:
    """ISO/IEC 7812-1: from the right, every second digit doubled, digits summed to a multiple of 10."""
    if not _digits(text):
        return False
    doubled = (int(digit) * (1 + i % 2) for i, digit in enumerate(reversed(text)))
    return sum(value // 10 + value % 10 for value in doubled) % 10 == 0


def mod11(text: str) -> bool:
    """Weights 1, 2, 3, ... from the right sum to a multiple of 11; a last X is 10 (ISBN-10, NHS numbers)."""
    body, last = text[:-1], text[-1:]
    if not _digits(body) or not (last == "X" or _digits(last)):
        return False
    values = [10 if last == "X" else int(last), *(int(digit) for digit in reversed(body))]
    return sum(weight * value for weight, value in enumerate(values, 1)) % 11 == 0


def passes_verhoeff(text: str) -> bool:
    """Verhoeff's dihedral code, which finds every single error and every swap of neighbors."""
    if not _digits(text):
        return False
    product = 0
    for i, digit in enumerate(reversed(text)):
        product = int(_PRODUCT[product][int(_POWERS[i % 8][int(digit)])])
    return product == 0


CHECKS: dict[str, Check] = {"luhn": passes_luhn, "mod11": mod11, "verhoeff": passes_verhoeff}


def check_digit(name: str) -> Check:
    """The check of this name, of ours or of a plug-in.  Raises InputError."""
    if name in CHECKS:
        return CHECKS[name]
    for entry in entry_points(group="secfc.check_digits", name=name):
        found: Check = entry.load()
        return found
    raise InputError(
        f"check={name!r} is none of {', '.join(CHECKS)}, and no installed package offers it as an entry "
        "point of the group secfc.check_digits. Correct it, or install that package at every site."
    )


def _digits(text: str) -> bool:
    return text.isascii() and text.isdigit()


# --------------------------------------------------------------------------------------------------


def compile_pattern(pattern: str) -> Any:
    """A regular expression that takes time linear in the text, so a schema that somebody sent stops nobody.

    RE2 has neither references nor lookaround, and its classes of digits and letters are ASCII.  Raises
    InputError for what is none of its expressions, or where it is not installed.
    """
    require_library("a schema's pattern", "linkage")
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise InputError(f"{pattern!r} is no regular expression of RE2 ({error.args[0].decode()}).") from None


# --------------------------------------------------------------------------------------------------

CHOICES = {"form": ("NFC", "NFKC"), "case": ("keep", "upper", "lower"), "zeros": ("keep", "strip")}
# Dates and numbers that programs write where nothing is known.
PLACEHOLDERS = re.compile(
    r"(\d)\1{3,}|0?1[./-]0?1[./-](1900|1901|1970)|(1900|1901|1970)-0?1-0?1|(19000101|01011900)|12345678|0?123456789|1234567890"
)
_FRACTION = re.compile(r"[+-]?[0-9]+\.0+")
# What programs make of whole numbers that they take for floats.
SPOILED = re.compile(r"[+-]?\d+\.0+|[+-]?\d+(?:[.,]\d+)?[eE]\+\d+")
_ROUNDS = 8  # normalizing settles after two or three


@dataclass(frozen=True)
class LinkageField:
    """One column, and how its cells are compared.  All of it is public.  Raises InputError.

    whole: 7.0 is 7, as spreadsheets write numbers; else it has another form, as 1.2E+15 has, but where the
    pattern takes such a cell.  width: texts of digits are filled with zeros on the left.
    missing: words for nothing, compared after normalization, in any case.
    """

    column: str
    form: Literal["NFC", "NFKC"] = "NFC"
    case: str = "keep"
    drop: str = ""
    whole: bool = False
    zeros: str = "keep"
    width: int = 0
    pattern: str = ""
    check: str = ""
    missing: tuple[str, ...] = ()
    required: bool = True

    def __post_init__(self) -> None:
        where = f"the schema's field {self.column!r}"
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise InputError(
                    f"{where} has {name}={getattr(self, name)!r}, which is none of {', '.join(choices)}. "
                    "Correct it."
                )
        if not 0 <= self.width <= 64:
            raise InputError(f"{where} has width={self.width}, which must be in [0, 64]. Correct it.")
        if self.pattern:
            try:
                compile_pattern(self.pattern)
            except InputError as error:
                raise InputError(f"{where}: {error}") from None
        if self.check:
            check_digit(self.check)

    def normalize(self, cell: str) -> str:
        """The text that is compared, "" if the cell says nothing.  Normalizing twice is normalizing once."""
        text = self._settled(cell)
        return "" if text.casefold() in {self._settled(word).casefold() for word in self.missing} else text

    def _settled(self, text: str) -> str:
        for _ in range(_ROUNDS):
            before, text = text, self._once(text)
            if text == before:
                break
        return text

    def _once(self, text: str) -> str:
        # Signs of the category Cf have no width: byte order marks, joiners, soft hyphens.
        text = "".join(c for c in unicodedata.normalize(self.form, text) if unicodedata.category(c) != "Cf")
        text = {"keep": text, "upper": text.upper(), "lower": text.lower()}[self.case]
        text = "".join(c for c in " ".join(text.split()) if c not in self.drop).strip()
        if self.whole and _FRACTION.fullmatch(text):
            text = text.partition(".")[0]
        if text.isascii() and text.isdigit():
            text = (text.lstrip("0") or "0" if self.zeros == "strip" else text).zfill(self.width)
        return unicodedata.normalize(self.form, text)


# Which words there are, and of what type; choices are text.
_TYPES = {field.name: "str" if field.name == "form" else field.type for field in fields(LinkageField)}


@dataclass(frozen=True)
class Linkage:
    """The fields of a key, in order.  Raises InputError if none is required or one stands twice."""

    fields: tuple[LinkageField, ...]

    def __post_init__(self) -> None:
        if not any(field.required for field in self.fields):
            raise InputError("the schema has no required field: rows without a key are nobody. Require one.")
        if repeated := [name for name, n in Counter(self.columns).items() if n > 1]:
            raise InputError(f"the schema names the column {repeated[0]!r} twice. Drop one.")

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(field.column for field in self.fields)

    @property
    def digest(self) -> str:
        """64 hexadecimal digits: equal schemas have equal ones, however their files are written."""
        canonical = [asdict(field) for field in self.fields]
        return hashlib.sha256(json.dumps(canonical, sort_keys=True).encode()).hexdigest()

    def key(self, texts: Sequence[str]) -> str | None:
        """The key of normalized texts, secret like them; None if a required one is empty."""
        if any(field.required and not text for field, text in zip(self.fields, texts, strict=True)):
            return None
        return texts[0] if len(texts) == 1 else "".join(f"{len(text)}:{text}" for text in texts)

    def texts(self, key: str) -> tuple[str, ...]:
        """The normalized texts that a key was made of, secret like it."""
        if len(self.fields) == 1:
            return (key,)
        found = []
        for _ in self.fields:
            size, _, rest = key.partition(":")
            found.append(rest[: int(size)])
            key = rest[int(size) :]
        return tuple(found)

    def tables(self) -> dict[str, Any]:
        """The schema as TOML has it: what differs from the defaults."""
        usual = asdict(LinkageField(""))
        each = ({n: v for n, v in asdict(f).items() if v != usual[n]} for f in self.fields)
        return {"field": [{n: list(v) if isinstance(v, tuple) else v for n, v in t.items()} for t in each]}


def read_linkage(path: Path) -> Linkage:
    """The schema of a file.  Raises InputError, OSError."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is no TOML file ({error}). Correct it.") from error
    return linkage_of(found, f"{path}")


def linkage_of(found: Mapping[str, Any], where: str) -> Linkage:
    """The schema that a table of TOML is.  where: how errors speak of it.  Raises InputError."""
    tables = found.get("field")
    if set(found) != {"field"} or not isinstance(tables, list | tuple):
        raise InputError(f"{where} must hold tables [[field]], and nothing else. Correct it.")
    if not all(isinstance(table, Mapping) for table in tables):
        raise InputError(f"{where} must hold tables [[field]], and nothing else. Correct it.")
    return Linkage(tuple(_field(where, number, table) for number, table in enumerate(tables, 1)))


def _field(path: str, number: int, table: Mapping[str, Any]) -> LinkageField:
    named = table.get("column")
    where = f"{path}, field {number}" + (f" ({named!r})" if isinstance(named, str) else "")
    for name, value in table.items():
        if name not in _TYPES:
            raise InputError(f"{where}: there is no {name!r} among {', '.join(_TYPES)}. Correct it.")
        listed = isinstance(value, list | tuple) and all(isinstance(word, str) for word in value)
        kind = "tuple[str, ...]" if listed else type(value).__name__
        if kind != _TYPES[name]:
            wanted = "a list of texts" if name == "missing" else _TYPES[name]
            raise InputError(
                f"{where}: {name} is a {type(value).__name__}, and must be {wanted}. Correct it."
            )
    if not named:
        raise InputError(f"{where} has no column: name the column of the data that holds it.")
    checked: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in table.items()}
    return LinkageField(**checked)


@dataclass(frozen=True)
class FieldQuality:
    """How many of a site's rows, by what is wrong with one field; every row counts in each.  No values.

    most: rows of the value that most rows have.  lengths: of texts that are digits only, how many there are.
    """

    column: str
    present: int
    missing: int
    placeholders: int
    misformed: int
    spoiled: int
    failed: int
    most: int
    lengths: dict[int, int]

    @property
    def hint(self) -> str:
        """What spoiled cells or the lengths suggest, or nothing."""
        if self.spoiled:
            return (
                f"{self.spoiled} are written as a float is, with .0 or an exponent: write IDs as text, as "
                "they were given; whole = true in the schema takes 7.0 for 7"
            )
        usual = max(self.lengths, key=lambda size: (self.lengths[size], size), default=0)
        fewer = sum(n for size, n in self.lengths.items() if size < usual)
        if not fewer or fewer * 2 > self.lengths[usual]:
            return ""
        return (
            f"{fewer} have fewer than {usual} digits, {self.lengths[usual]} have {usual}: leading zeros lost?"
        )


@dataclass(frozen=True)
class KeyQuality:
    """What a site should know of its keys before anything is sent.  unfit: rows that cannot take part."""

    rows: int
    unfit: int
    distinct: int
    repeated: int
    fields: tuple[FieldQuality, ...]


def linkage_keys(linkage: Linkage, rows: Sequence[Sequence[str]]) -> tuple[list[str | None], KeyQuality]:
    """The key of every row, None where it may not take part, and the counts.

    rows: cells, in the schema's order.
    A row takes part if no required field is missing, and every field that is there has its form and check.
    """
    columns = [[field.normalize(row[at]) for row in rows] for at, field in enumerate(linkage.fields)]
    judged = [
        judge_field(field, texts, [row[at] for row in rows])
        for at, (field, texts) in enumerate(zip(linkage.fields, columns, strict=True))
    ]
    unfit = [any(wrong) for wrong in zip(*(each for _, each in judged), strict=True)]
    made = (linkage.key(texts) for texts in zip(*columns, strict=True))
    keys = [None if wrong else key for key, wrong in zip(made, unfit, strict=True)]
    held = [key for key in keys if key is not None]
    distinct = len(set(held))
    found = tuple(quality for quality, _ in judged)
    return keys, KeyQuality(len(rows), keys.count(None), distinct, len(held) - distinct, found)


def _digit_lengths(texts: Sequence[str]) -> dict[int, int]:
    """How many of these texts are numbers of so many digits."""
    return dict(sorted(Counter(len(t) for t in texts if t.isascii() and t.isdigit()).items()))


def is_spoiled(cell: str, field: LinkageField, pattern: Any) -> bool:
    """Whether a program wrote a number as a float, and no rule of the field takes it so."""
    if SPOILED.fullmatch(cell) is None or (field.whole and _FRACTION.fullmatch(cell)):
        return False
    return pattern is None or pattern.fullmatch(cell) is None


def find_misfits(
    field: LinkageField, texts: Sequence[str], cells: Sequence[str]
) -> tuple[list[bool], list[bool], list[bool]]:
    """Which texts were spoiled, which have another form, as those have, and which fail the check."""
    pattern = compile_pattern(field.pattern) if field.pattern else None
    check = check_digit(field.check) if field.check else None
    spoiled = [
        bool(t) and is_spoiled(cell.strip(), field, pattern) for t, cell in zip(texts, cells, strict=True)
    ]
    unlike = [bool(t and pattern is not None and pattern.fullmatch(t) is None) for t in texts]
    failed = [bool(t and check is not None and not check(t)) for t in texts]
    return spoiled, [a or b for a, b in zip(spoiled, unlike, strict=True)], failed


def judge_field(
    field: LinkageField, texts: Sequence[str], cells: Sequence[str]
) -> tuple[FieldQuality, list[bool]]:
    """The counts of a field, and of each of its texts whether it lacks the form or fails the check.

    cells: what the texts were normalized from; 7.0 may have lost its point since.
    """
    spoiled, misformed, failed = find_misfits(field, texts, cells)
    there = [text for text in texts if text]
    quality = FieldQuality(
        field.column,
        len(there),
        len(texts) - len(there),
        sum(PLACEHOLDERS.fullmatch(text) is not None for text in there),
        sum(misformed),
        sum(spoiled),
        sum(failed),
        max(Counter(there).values(), default=0),
        _digit_lengths(there),
    )
    return quality, [a or b for a, b in zip(misformed, failed, strict=True)]


# --------------------------------------------------------------------------------------------------
# Rows of a site's file by the keys of a linkage schema.


def keyed_rows(
    linkage: Linkage, texts: Mapping[str, Sequence[str]], owner: str, *, drop: bool
) -> tuple[list[str], Array]:
    """The keys of rows that can take part, and which rows these are (r,) int64, counted from 0.

    texts: cells by column.  owner: how errors speak of whose rows they are.  drop: leave out rows that cannot
    take part, and say how many in a Caution.  Keys are secret.

    Raises InputError for such rows if not drop, for two rows of one key, and if no row is left.
    """
    keys, quality = linkage_keys(linkage, list(zip(*(texts[name] for name in linkage.columns), strict=True)))
    if quality.unfit and not drop:
        raise InputError(
            f"{owner}: {quality.unfit} of {quality.rows} rows cannot take part, as a required field is "
            "missing or one has another form than the schema's. `secfc check-ids` counts them by field",
            ["correct them", ("drop_unfit", True, "leave them out")],
        )
    rows = [row for row, key in enumerate(keys) if key is not None]
    if not rows:
        raise InputError(
            f"{owner}: none of its {quality.rows} rows can take part. `secfc check-ids` says why."
        )
    first: dict[str, int] = {}
    for row in rows:
        if (before := first.setdefault(str(keys[row]), row)) != row:
            raise InputError(
                f"{owner}: rows {before} and {row} (counted from 0) have the same key, and so have "
                f"{quality.repeated} rows in all: which of them is the person's? Keep one row a person."
            )
    if quality.unfit:
        warnings.warn(
            f"{owner}: {quality.unfit} of {quality.rows} rows do not fit the schema and are left out",
            Caution,
            stacklevel=2,
        )
    return [str(keys[row]) for row in rows], np.array(rows, np.int64)
