"""Checks at the door: rows of points, counts and seeds as callers hand them in.

Points may be larger than memory: anything with a shape, a dtype and row slices will do (`Rows`).
Arrays in memory are checked in full by `checked_points`.  Lazy points (a `numpy.memmap`, a Parquet
file) are not read there; `row_blocks` and `read_all` check every row they return.

Messages give the value, the rule and the remedy.  They name clients, rows and features, and show
shapes and types, but never the content of a data set.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from datetime import date, time, timedelta
from decimal import Decimal
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from field.arrays import Array as Array
from field.ring.errors import InvalidValue, install_command
from secfc.errors import InputError
from secfc.remedies import Remedy, current_name

BLOCK_BYTES = 1 << 25  # 32 MiB of float64: large enough for numpy's speed, small next to any memory


TIMES = (date, time, timedelta, np.datetime64, np.timedelta64)
TIMES_SAID = (
    ", which are times, and features must be numbers. Pass what distance means for them, as years of age or "
    "days since an event, or leave the column out."
)

# Remedies that several messages offer.
GAPS: tuple[Remedy, ...] = (
    ("missing", "mean", "let missing values be the mean"),
    ("missing", "drop", "let their rows be dropped"),
)
UNION: Remedy = ("union", True, "take the union of all columns, which some algorithms can cluster")
OTHER_USE: tuple[Remedy, ...] = (
    ("exclude", ..., "leave the column out"),
    ("id_column", ..., "name it as IDs"),
)


class Rows(Protocol):
    """Points as rows, perhaps not in memory: shape (m, d), dtype, and slices [a:b] as arrays."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    def __getitem__(self, rows: slice, /) -> Array: ...


def row_blocks(
    points: Rows, owner: str, features: Sequence[str] | None = None, first_row: int = 0
) -> Iterator[tuple[int, Array]]:
    """Pairs (first row, (b, d) block) covering points in order, BLOCK_BYTES a block, native bytes.

    owner and features (names of the columns) only serve the error message.  first_row: the number of theirs.

    Raises InputError at the first value that is NaN or infinite.
    """
    step = max(1, BLOCK_BYTES // max(1, 8 * points.shape[1]))
    for start in range(0, points.shape[0], step):
        block = np.asarray(points[start : start + step])
        block = block.astype(block.dtype.newbyteorder("="), copy=False)
        if block.dtype.kind == "f" and not (finite := np.isfinite(block)).all():
            row, column = np.argwhere(~finite)[0]
            feature = f"{column}" if features is None else f"{features[column]!r}"
            raise not_finite(
                f"{owner}, row {first_row + start + row}, feature {feature}",
                bool(np.isnan(block[row, column])),
            )
        if (row := first_inexact(block)) is not None:
            raise InputError(f"{owner}, row {first_row + start + row} (counted from 0): {INEXACT}")
        yield first_row + start, block


def not_finite(where: str, missing: bool) -> InputError:
    """The error for a value that is no finite number.  missing: whether it is NaN, and not infinite."""
    return InputError(
        f"{where}: the value is {'NaN' if missing else 'infinite'} (rows and features count from 0). Every "
        "value must be finite",
        ["fill the value in" if missing else "correct the value", "drop the row", *(GAPS if missing else ())],
    )


# Up to here every whole number is a float64.
WHOLE_FLOATS = 1 << 53
INEXACT = (
    "a whole number lies beyond 2**53, where floats have gaps, so it and its neighbors would become one "
    "number. Subtract an origin that all clients agree on, or give it in a larger unit; leave it out if it "
    "names something, as an ID does."
)


def first_inexact(numbers: Array) -> int | None:
    """The first row with a whole number that no float64 is, None if there is none.

    numbers: (m,) or (m, d), of any dtype of numbers, or of objects.  Of floats only longer ones have any.
    """
    if numbers.dtype.kind == "f" and numbers.itemsize > 8:
        rows = numbers.reshape(len(numbers), -1)
        lost = (abs(rows) > WHOLE_FLOATS) & (rows.astype(float) != rows) & (rows == np.trunc(rows))
        return int(lost.any(axis=1).argmax()) if lost.any() else None
    if numbers.dtype.kind not in "iuO":
        return None
    if numbers.dtype.kind != "O":
        large = (numbers > WHOLE_FLOATS) | (numbers < -WHOLE_FLOATS) if numbers.itemsize == 8 else np.zeros(1)
        if not large.any():
            return None
    for row, values in enumerate(numbers.reshape(len(numbers), -1).tolist()):
        if any(isinstance(v, int) and abs(v) > WHOLE_FLOATS and int(float(v)) != v for v in values):
            return row
    return None


def read_all(points: Rows, owner: str) -> Array:
    """All points in memory, (m, d), read-only, native bytes, finite; no copy if already so.

    points come from `checked_points`, which has checked arrays in memory.
    """
    native = points.dtype.newbyteorder("=")
    if in_memory(points):
        return read_only(np.asarray(points).astype(native, copy=False))
    whole = np.empty(points.shape, dtype=native)
    for start, block in row_blocks(points, owner):
        whole[start : start + len(block)] = block
    return read_only(whole)


def checked_points(points: object, owner: str, features: Sequence[str] | None = None) -> Rows:
    """points if they are usable rows, else InputError; arrays come back as read-only views.

    Arrays in memory are checked to be finite, lazy points are not read.  features (names of the columns) only
    serve the error message.
    """
    rows: Any = points
    _refuse_masked(rows, owner)
    if hasattr(rows, "toarray"):
        raise InputError(
            f"{owner} has a sparse {type(rows).__name__}: dense rows are needed. Pass points.toarray()."
        )
    if not isinstance(getattr(rows, "dtype", None), np.dtype):
        raise InputError(
            f"{owner} has points of type {type(rows).__name__}: an array is needed. "
            "Pass numpy.asarray(points)."
        )
    check_shape(tuple(rows.shape), owner)
    if rows.dtype.kind in "mM":
        raise InputError(f"{owner} has points of dtype {rows.dtype}{TIMES_SAID}")
    if rows.dtype.kind not in "iuf":
        raise InputError(
            f"{owner} has points of dtype {rows.dtype}: integers or floats are needed. "
            "Convert them, for example with points.astype(float), or leave columns of words out."
        )
    if isinstance(rows, np.ndarray):
        rows = read_only(rows if isinstance(rows, np.memmap) else np.asarray(rows))
    if in_memory(rows):
        for _ in row_blocks(rows, owner, features):
            pass
    checked: Rows = rows
    return checked


def check_losses(table: Any, owner: str) -> None:
    """Raise InputError for values that a library which makes floats of them would change without a word.

    table: an array, a data frame or nested lists: masks, times, and numbers that no float64 is.
    """
    _refuse_masked(table, owner)
    names = names_of(table)
    columns = [("", table)] if names is None else [(f", column {name!r}", table[name]) for name in names]
    for where, column in columns:
        try:
            values = np.asarray(column)
        except (TypeError, ValueError):
            return  # is no table; who converts it says so
        kinds = {type(v) for v in values.flat} if values.dtype.kind == "O" else {values.dtype.type}
        for kind in kinds:
            said = f"{owner}{where} has values of type {kind.__name__}"
            if issubclass(kind, TIMES):
                raise InputError(f"{said}{TIMES_SAID}")
            if issubclass(kind, Decimal | Fraction):
                raise InputError(
                    f"{said}, which floats would round: floats or integers are needed. Convert them, for "
                    "example with astype(float), if that will do."
                )
        row = first_inexact(values) if values.ndim in (1, 2) else None
        if row is not None:
            raise InputError(f"{owner}{where}, row {row} (counted from 0): {INEXACT}")


def _refuse_masked(rows: Any, owner: str) -> None:
    if isinstance(rows, np.ma.MaskedArray):
        raise InputError(
            f"{owner} has a masked array: masked values would be clustered as if they were data. "
            "Fill them in, or drop those rows."
        )


def positive_integer(name: str, value: int) -> int:
    """value as an int if it is a whole number of at least 1, else TypeError or InputError."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name}={value!r} is a {type(value).__name__}: pass an integer.")
    if value < 1:
        raise InputError(f"{name}={value}: at least 1 is needed. Raise {name}.")
    return int(value)


def seeded_generator(seed: int) -> np.random.Generator:
    """The generator of an experiment: public randomness, reproducible from a seed >= 0."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise TypeError(f"seed={format_value(seed)} is {kind_name(seed)}: pass an integer.")
    if seed < 0:
        raise InputError(f"seed={seed}: seeds are not negative. Pass an integer of at least 0.")
    return np.random.Generator(np.random.PCG64(int(seed)))


def check_shape(shape: tuple[int, ...], owner: str) -> None:
    """Raise InputError unless shape is that of one point or more with one feature or more."""
    if len(shape) == 1:
        raise InputError(
            f"{owner} has points of shape {shape}: two axes are needed, one row a point. Use "
            "points.reshape(-1, 1) if each value is a point, points.reshape(1, -1) if all are one."
        )
    if not shape:
        raise InputError(f"{owner} has no table of points: pass an array (m, d), one row a point.")
    if len(shape) != 2:
        raise InputError(
            f"{owner} has points of shape {shape}: two axes are needed, one row a point. Flatten "
            "each point, for example with points.reshape(len(points), -1)."
        )
    if shape[0] == 0:
        raise InputError(f"{owner} has no points: at least one is needed. Leave it out.")
    if shape[1] == 0:
        raise InputError(f"{owner} has points without features: at least one is needed. Add one.")


def as_rows(points: Any) -> Rows:
    """points as they are if they carry a numpy dtype or are sparse, else as an array."""
    if isinstance(getattr(points, "dtype", None), np.dtype) or hasattr(points, "toarray"):
        rows: Rows = points
        return rows
    try:
        rows = np.asarray(points)
    except (TypeError, ValueError) as error:
        raise InputError(
            "a client's points are not a table: every row needs the same number of features. "
            "Pass a rectangular array."
        ) from error
    # Among floats whole numbers have become floats already.
    large = rows.dtype.kind == "f" and rows.size and float(np.abs(rows).max()) >= WHOLE_FLOATS
    if large and (row := first_inexact(np.asarray(points, dtype=object))) is not None:
        raise InputError(f"row {row} of a client (counted from 0): {INEXACT}")
    return rows


def checked_names(names: Sequence[str], d: int, owner: str) -> tuple[str, ...]:
    """names if they are d distinct strings, else InputError."""
    if isinstance(names, str) or not hasattr(names, "__len__"):
        raise InputError(
            f"{owner} has {names!r} for feature names: a list of {d} distinct strings is needed. Pass one."
        )
    known = tuple(names)
    if len(known) != d or len(set(known)) != d or not all(isinstance(name, str) for name in known):
        twice = [name for name in known if known.count(name) > 1]
        raise InputError(
            f"{owner} has {len(known)} feature names ({len(set(known))} of them distinct)"
            + (f", {twice[0]!r} more than once," if twice else "")
            + f" for {d} features: one distinct string a feature is needed. Correct the names."
        )
    return known


def by_name(tables: Sequence[Any]) -> tuple[tuple[str, ...] | None, list[Any]]:
    """Names of the columns of data frames, and their values in the order of the first one's columns.

    None are passed on.  Tables without names, as arrays, are passed on as they are, and the names are None.

    Raises InputError where names differ, or only some tables have any.
    """
    found = [(table, names_of(table)) for table in tables if table is not None]
    expected = next((names for _, names in found if names is not None), None)
    if expected is None:
        return None, list(tables)
    ordered = []
    for number, table in enumerate(tables):
        names = None if table is None else names_of(table)
        if table is not None and (names is None or set(names) != set(expected)):
            raise InputError(
                f"table {number} (counted from 0) "
                + ("has no column names and another has" if names is None else _other(names, expected))
                + ": features are matched by name",
                ["give all the same columns", "pass plain arrays for all", UNION],
            )
        ordered.append(table if names is None else take_columns(table, expected))
    return expected, ordered


def names_of(table: Any) -> tuple[str, ...] | None:
    """The distinct names of a data frame's columns, None for what is none or has numbers for names."""
    names = getattr(table, "column_names", None)  # pyarrow, whose `columns` are values
    names = getattr(table, "columns", None) if names is None else names
    if names is None or not len(names) or not all(isinstance(name, str) for name in names):
        return None
    known = tuple(names)
    if len(set(known)) < len(known):
        twice = next(name for name in known if known.count(name) > 1)
        raise InputError(f"a table has several columns {twice!r}: names must differ. Rename one.")
    return known


def _other(names: Sequence[str], expected: Sequence[str]) -> str:
    missing = names_listed([name for name in expected if name not in names])
    extra = names_listed([name for name in names if name not in expected])
    return f"has other columns than the first: missing are {missing}, additional are {extra}"


def take_columns(table: Any, expected: Sequence[str]) -> Array:
    """The values of the expected columns, in their order, of whatever kind of data frame."""
    # One column at a time: that is what all kinds of data frames have in common.
    columns = [np.asarray(table[name]) for name in expected]
    for name, column in zip(expected, columns, strict=True):
        if (row := first_inexact(column)) is not None:
            raise InputError(f"row {row} (counted from 0), column {name!r}: {INEXACT}")
    return np.column_stack(columns)


def names_listed(names: Sequence[str]) -> str:
    """A few names, in words."""
    shown = ", ".join(repr(name) for name in names[:8])
    return f"{shown}, ... ({len(names)} in all)" if len(names) > 8 else shown or "none"


def in_memory(points: Rows) -> bool:
    """Whether reading all points again costs no more than a pass over memory."""
    return isinstance(points, np.ndarray) and not isinstance(points, np.memmap)


def read_only(array: Array) -> Array:
    """A view through which the array cannot be changed."""
    view = array.view()
    view.flags.writeable = False
    return view


@contextmanager
def refuse_as_input() -> Iterator[None]:
    """Values that a plan or a quantizer refuses as invalid are the caller's input; no other error is."""
    try:
        yield
    except InputError:
        raise
    except InvalidValue as error:
        raise InputError(str(error)) from error


# --------------------------------------------------------------------------------------------------
# Checks at the door of values that callers pass by name: of what kind they are, before any is used.
#
# What range a number must lie in is said where the range is known; here a wrong kind is met, which would end
# in some line far below, in words that are about that line.

SHOWN = 60  # characters of a value that an error shows


@dataclass(frozen=True)
class ValueKind:
    """What a value must be.

    rule: in words, before "is needed".  remedy: a sentence.  taken: the value as it is kept, or None if it is
    not of this kind.  none: whether None will do as well.
    """

    rule: str
    remedy: str
    taken: Callable[[Any], Any]
    none: bool = False

    def of(self, name: str, value: Any) -> Any:
        """The value as it is kept.  Raises InputError with value, rule and remedy."""
        if value is None and self.none:
            return None
        taken = self.taken(value)
        if taken is None:
            kind = "" if value is None else f" is {kind_name(value)}"
            raise InputError(f"{name}={format_value(value)}{kind}: {self.rule} is needed. {self.remedy}")
        return taken


def format_value(value: Any) -> str:
    """A value for an error: numbers and words as they are written, all else by its kind, as it may be
    data.
    """
    if isinstance(value, type):
        return value.__name__
    if value is None or isinstance(value, bool | int | float | str | np.number):
        text = repr(value)
        return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."
    return "..."


def kind_name(value: Any) -> str:
    """The kind of a value, with its article."""
    if isinstance(value, type):
        return "a class"
    if value is None:
        return "nothing"
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeio" else f"a {name}"


def _whole(value: Any) -> int | None:
    right = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return int(value) if right else None


def _real(value: Any) -> Any:
    right = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not right:
        return None
    return value.item() if isinstance(value, np.generic) else value


WHOLE = ValueKind("a whole number", "Pass an integer, such as 3", _whole)
COUNT = ValueKind(
    "a whole number of at least 1",
    "Pass an integer, such as 1",
    lambda v: n if (n := _whole(v) or 0) > 0 else None,
)
NATURAL = ValueKind(
    "a whole number of at least 0",
    "Pass an integer, such as 0",
    lambda v: n if (n := _whole(v)) is not None and n >= 0 else None,
)
REAL = ValueKind("a number", "Pass a float or an integer, such as 2.5", _real)
COLUMN_NAMES = ValueKind(
    "names or numbers of columns, in a list,",
    'Pass ["age", 3], for example',
    lambda v: None if isinstance(v, str) or not isinstance(v, Sequence) else tuple(v),
)
SWITCH = ValueKind(
    "True or False", "Pass one of the two", lambda v: bool(v) if isinstance(v, bool | np.bool_) else None
)


def instance_of(kind: type, example: str) -> ValueKind:
    """A value of a class, such as an example shows."""
    return ValueKind(
        f"a {kind.__name__}", f"Pass a value such as {example}", lambda v: v if isinstance(v, kind) else None
    )


def refuse_without_method(method: str, rule: str, example: str) -> ValueKind:
    """A value that offers what such values do."""

    def taken(value: Any) -> Any:
        return value if hasattr(value, method) and not isinstance(value, type) else None

    return ValueKind(rule, f"Pass a value such as {example}", taken)


def optional_kind(kind: ValueKind, meaning: str) -> ValueKind:
    """A kind of value that may also be None, which means something."""
    return ValueKind(f"{kind.rule}, or None ({meaning}),", kind.remedy, kind.taken, none=True)


def check_fields(owner: Any, kinds: Mapping[str, ValueKind] = MappingProxyType({})) -> None:
    """Check fields of a frozen dataclass that is being built, and keep numbers of NumPy as Python's.

    Fields that are a bool by their annotation are always checked: a word such as "no" would be true.
    Raises InputError for the first that is of another kind.
    """
    switches = {one.name: SWITCH for one in fields(owner) if one.init and one.type in ("bool", bool)}
    for name, kind in {**switches, **kinds}.items():
        value = getattr(owner, name)
        taken = kind.of(name, value)
        if taken is not value:
            object.__setattr__(owner, name, taken)


# --------------------------------------------------------------------------------------------------
# Parameters by their names, wherever an algorithm has them: among its own fields, or in those of a group.


class ParameterGroup:
    """A frozen value whose fields are parameters of an algorithm, each known by its own name."""


def parameter_names(kind: type) -> tuple[str, ...]:
    """All parameters of a class of algorithms, with those of each group in place of it."""
    found: list[str] = []
    for one in fields(kind):
        group = isinstance(one.default, ParameterGroup)
        found += parameter_names(type(one.default)) if group else [one.name] * one.init
    return tuple(found)


def _group_of(algorithm: Any, name: str) -> str | None:
    """The field whose group has this parameter, None for an own one or none at all."""
    if hasattr(algorithm, name):
        return None
    own = getattr(algorithm, "__dataclass_fields__", ())
    groups = (field for field in own if isinstance(getattr(algorithm, field, None), ParameterGroup))
    return next((group for group in groups if hasattr(getattr(algorithm, group), name)), None)


def get_parameter(algorithm: Any, name: str, default: Any = None) -> Any:
    """A parameter's value, the default where the algorithm has none of this name."""
    group = _group_of(algorithm, name)
    return getattr(algorithm if group is None else getattr(algorithm, group), name, default)


def build_algorithm(kind: type, /, **values: Any) -> Any:
    """An algorithm of a class, from parameters by their own names.  Raises TypeError for an unknown one."""
    own = {one.name for one in fields(kind)}
    made = kind(**{name: value for name, value in values.items() if name in own})
    return with_parameters(made, **{name: value for name, value in values.items() if name not in own})


def with_parameters(algorithm: Any, /, **values: Any) -> Any:
    """The algorithm with other values of some parameters.  Raises TypeError for one that it does not have."""
    changed: dict[str, Any] = {}
    for name, value in values.items():
        group = _group_of(algorithm, name)
        if group is None:
            changed[name] = value
        else:
            part = changed.get(group, getattr(algorithm, group))
            changed[group] = replace(part, **{current_name(part, name): value})
    return replace(algorithm, **changed)


# --------------------------------------------------------------------------------------------------
# What a small installation goes without: libraries that extras install, named before any work is done.

# Each extra and the modules that come with it.
EXTRAS = {
    "estimators": ("sklearn", "scipy"),
    "dp": ("dp_accounting", "scipy", "sklearn"),
    "attacks": ("scipy", "sklearn"),
    "oprf": ("rbcl",),
    "linkage": ("re2",),
    "files": ("pyarrow",),
    "excel": ("openpyxl",),
    "duckdb": ("duckdb",),
    "sql": ("sqlalchemy",),
    "plot": ("matplotlib",),
    "grid": ("joblib",),
    "dask": ("joblib", "distributed"),
}
KNOWN_AS = {"sklearn": "scikit-learn", "dp_accounting": "dp-accounting", "re2": "google-re2"}


def is_installed(module: str) -> bool:
    """Whether a library is there, without loading it."""
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # a finder that refuses; a module that was blocked
        return False


def require_library(what: str, extra: str) -> None:
    """Raise InputError if a library of this extra is missing.  what: needs it, as the message begins."""
    for module in EXTRAS[extra]:
        if not is_installed(module):
            raise InputError(
                f"{what} needs {KNOWN_AS.get(module, module)}, which is not installed. Run "
                f"{install_command(f'[{extra}]')}."
            )


# --------------------------------------------------------------------------------------------------
# Small files that are their owner's alone, written whole or not at all.


def write_private(path: Path, contents: bytes) -> None:
    """Put these bytes into a file of mode 0600; a crash leaves what was there, or all of them.  OSError."""
    draft = path.with_name(f".{path.name}.tmp")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(contents)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


# Seconds in which another process that writes a file must have finished.
PATIENCE = 30.0


@contextmanager
def lock_file(path: Path) -> Iterator[None]:
    """Within the body no other process of ours changes this file.

    Raises InputError if one holds it for longer than it takes; OSError.
    """
    import filelock

    guard = path.with_name(f".{path.name}.lock")
    guard.parent.stat()  # a folder that is not there is an error here, and would be made by the library
    try:
        with filelock.FileLock(guard, timeout=PATIENCE, mode=0o600):
            yield
    except filelock.Timeout:
        raise InputError(
            f"{path} is in use: another process holds {guard}. Let it finish, or end it"
        ) from None
