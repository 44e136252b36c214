"""One client's private input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from secfc.data.inputs import (
    BLOCK_BYTES,
    Array,
    Rows,
    check_shape,
    checked_names,
    checked_points,
    in_memory,
    kind_name,
    names_listed,
    names_of,
    read_all,
    read_only,
    row_blocks,
)
from secfc.errors import InputError

Identifier = bytes | str | int

SERVER = "server"


@dataclass(frozen=True, eq=False, repr=False)
class Party:
    """Private input of one client.

    Parameters
    ----------
    name
        Name by which the other parties address this client; not empty, not "server".
    points
        (m_j, d) integers or floats, finite, m_j >= 1, d >= 1, in data units.
    truth
        (m_j,) integers or None; ground truth for evaluation, never sent to anybody.
    ids
        m_j distinct bytes, strings or integers (one kind) that name the points, or None.
    features
        d distinct names of the columns, where clients may observe different ones, or None.  A column of
        points in memory that is NaN throughout is not observed, and left out.
    unobserved
        Names of columns that were left out because they are NaN throughout; filled in.
    rows
        (m_j,) int64 position of each point in its file, counted from 0; None if points stand in file order.
    persons
        m_j bytes, strings or integers (one kind): the person of each row, where rows of a person are to be
        hidden together; None otherwise.  Kept as numbers (m_j,) in order of first appearance.

    Raises
    ------
    InputError
        For points or names that do not meet these rules.

    Notes
    -----
    A client that only computes has no points: `Party.without_data`.
    """

    name: str
    points: Rows
    truth: Array | None = None
    ids: tuple[Identifier, ...] | None = None
    features: tuple[str, ...] | None = None
    unobserved: tuple[str, ...] = ()
    rows: Array | None = None
    persons: Any = None

    def __post_init__(self) -> None:
        owner = _checked_name(self.name)
        points: Rows = self.points
        if self.features == () and tuple(points.shape) == (0, 0):
            return
        if self.features is not None:
            points, known = _observed(points, self.features, owner)
            lost = tuple(name for name in self.features if name not in known)
            object.__setattr__(self, "features", known)
            object.__setattr__(self, "unobserved", (*self.unobserved, *lost))
        object.__setattr__(self, "points", checked_points(points, owner, self.features))
        m = self.points.shape[0]
        if self.truth is not None:
            object.__setattr__(self, "truth", _checked_truth(self.truth, m, owner))
        if self.ids is not None:
            object.__setattr__(self, "ids", _checked_ids(self.ids, m, owner))
        if self.rows is not None:
            object.__setattr__(self, "rows", _checked_rows(self.rows, m, owner))
        if self.persons is not None:
            numbers: dict[Identifier, int] = {}
            each = _checked_ids(self.persons, m, owner, repeated=True)
            codes = np.fromiter((numbers.setdefault(one, len(numbers)) for one in each), np.int64, m)
            object.__setattr__(self, "persons", read_only(codes))

    def __repr__(self) -> str:
        return f"Party({self.name!r}, shape={tuple(self.points.shape)})"

    @classmethod
    def without_data(cls, name: str = "helper") -> Party:
        """A client without data, which computes for those that have some."""
        return cls(name, np.zeros((0, 0)), ids=(), features=())

    @property
    def named(self) -> tuple[Identifier, ...] | None:
        """IDs of the points, or whose each is, as numbers: what an ID column of them holds; None for none."""
        return self.ids if self.persons is None else tuple(self.persons.tolist())

    @property
    def places(self) -> Array:
        """Where in its file each point stands: (m_j,) int64."""
        return np.arange(self.points.shape[0]) if self.rows is None else self.rows

    def blocks(self) -> Iterator[tuple[int, Array]]:
        """Pairs (first row, (b, d) block) covering all points in order; see `row_blocks`."""
        return row_blocks(self.points, f"client {self.name!r}")

    def map_blocks(self, f: Callable[[int, Array], Any]) -> Iterable[Any]:
        """What a function gives of the first row and the points of each block, in order, where points are."""
        if hasattr(self.points, "map_blocks"):
            return cast("Iterable[Any]", self.points.map_blocks(f, f"client {self.name!r}"))
        return (f(first, block) for first, block in self.blocks())

    def label_blocks(self, label: Callable[[int, Array], Array]) -> Array:
        """Labels (m_j,) int32, block by block: of the number of its first row, and its points (b, d)."""
        if hasattr(self.points, "map_blocks"):
            return np.concatenate([part.astype(np.int32) for part in self.map_blocks(label)])
        labels = np.empty(self.points.shape[0], np.int32)
        for first, block in self.blocks():
            labels[first : first + len(block)] = label(first, block)
        return labels

    def read(self) -> Array:
        """All points in memory: (m_j, d), read-only, checked finite; no copy if already there."""
        return read_all(self.points, f"client {self.name!r}")


def _checked_name(name: str) -> str:
    """How errors speak of the client of this name."""
    if not isinstance(name, str):
        raise InputError(f"a client's name is {name!r}: a string is needed. Pass str(name).")
    if not name or name == SERVER:
        raise InputError(
            f"a client's name is {name!r}: it must not be empty and {SERVER!r} is taken. Rename it."
        )
    return f"client {name!r}"


def _observed(points: Rows, features: Sequence[str], owner: str) -> tuple[Rows, tuple[str, ...]]:
    """The columns that are not NaN throughout, with their names; lazy points as they come."""
    shape = tuple(getattr(points, "shape", ()))
    if len(shape) != 2:
        return points, tuple(features)  # refused with the points
    names = checked_names(features, shape[1], owner)
    if not in_memory(points) or points.dtype.kind != "f" or not shape[0]:
        return points, names
    there = ~np.isnan(np.asarray(points)).all(axis=0)
    if there.all():
        return points, names
    if not there.any():
        raise InputError(
            f"{owner} observes none of {names_listed(names)}: every column is absent or NaN throughout. "
            "Leave the client out."
        )
    return np.asarray(points)[:, there], tuple(n for n, kept in zip(names, there, strict=True) if kept)


def _checked_truth(truth: npt.ArrayLike, m: int, owner: str) -> Array:
    labels = np.asarray(truth)
    if labels.shape != (m,):
        raise InputError(
            f"{owner} has truth of shape {labels.shape} for {m} points: one label a point is "
            f"needed. Pass an array of shape ({m},)."
        )
    if labels.dtype.kind not in "iu":
        raise InputError(
            f"{owner} has truth of dtype {labels.dtype}: integers are needed. Convert the labels, "
            "for example with numpy.unique(truth, return_inverse=True)[1]."
        )
    return read_only(labels)


def _checked_rows(rows: npt.ArrayLike, m: int, owner: str) -> Array:
    places = np.asarray(rows)
    if places.shape != (m,) or places.dtype.kind not in "iu" or (m and int(places.min()) < 0):
        raise InputError(
            f"{owner} has rows of shape {places.shape} and dtype {places.dtype} for {m} points: where each "
            "stands in its file is needed, counted from 0. Pass integers, or leave them out."
        )
    return read_only(places.astype(np.int64))


def _checked_ids(
    ids: Iterable[Identifier], m: int, owner: str, *, repeated: bool = False
) -> tuple[Identifier, ...]:
    # The messages never show an ID: IDs name people.
    if isinstance(ids, str | bytes) or not hasattr(ids, "__len__"):
        raise InputError(f"{owner} has one {type(ids).__name__} for ids: pass a sequence of ids.")
    known = tuple(int(item) if isinstance(item, np.integer) else item for item in ids)
    if len(known) != m:
        raise InputError(f"{owner} has {len(known)} ids for {m} points: one a point is needed. Pass {m} ids.")
    rows: dict[Identifier, int] = {}
    for row, item in enumerate(known):
        if isinstance(item, bool) or not isinstance(item, bytes | str | int):
            raise InputError(
                f"{owner}, row {row}: the id is a {type(item).__name__}, not bytes, a string or an "
                "integer. Convert it, or fill it in if it is missing."
            )
        if _kind(item) is not _kind(known[0]):
            raise InputError(
                f"{owner}, row {row}: the id is a {_kind(item).__name__} and row 0's a "
                f"{_kind(known[0]).__name__}: all must be of one kind to be compared. Convert them."
            )
        if not repeated and rows.setdefault(item, row) != row:
            raise InputError(
                f"{owner} has the same id in rows {rows[item]} and {row} (counted from 0): ids "
                "must differ within a client. Drop one of the rows, or correct its id."
            )
    return known


def _kind(item: Identifier) -> type:
    return next(kind for kind in (bytes, str, int) if isinstance(item, kind))


# --------------------------------------------------------------------------------------------------
# Clients' tables, as callers list them.


def client_tables(data: Any) -> list[Any]:
    """Clients' tables, in order.  Raises InputError for what is no list of them."""
    if isinstance(data, Party):
        raise InputError(
            f"the federation is one client, {data.name!r}: a list of clients is needed. Use "
            "Federation((party, ...))."
        )
    if names_of(data) is not None or getattr(data, "ndim", 3) <= 2 or hasattr(data, "toarray"):
        raise InputError(
            f"the federation is one {type(data).__name__} of shape {getattr(data, 'shape', ())}: a list of "
            "them is needed, one a client. Cut it, or use Federation.from_labelled to deal it out."
        )
    files = [data] if isinstance(data, str | PathLike) else data if isinstance(data, list | tuple) else ()
    if any(isinstance(item, str | PathLike) for item in files):
        raise InputError(
            "the federation is given by names of files: points are needed. Use Federation.from_files(paths)."
        )
    if not isinstance(data, Iterable):
        raise InputError(
            f"the federation is {kind_name(data)}: a Federation, or a list of arrays, one a client, is "
            "needed. Use Federation.from_arrays, or pass such a list."
        )
    each = list(data)
    if not each:
        raise InputError("the federation has no clients: at least one is needed. Add an array.")
    return each


# --------------------------------------------------------------------------------------------------
# Missing values: points with gaps, which nothing clusters before they are filled in or dropped.
#
# A gap is NaN.  `RowsWithGaps` are rows that may have some: a `Party` takes them, as it does rows in a file,
# and who reads them as points meets a refusal at the first gap.  What fills gaps in (`secfc.scaling`) reads
# them raw.


@dataclass(frozen=True, eq=False, repr=False)
class RowsWithGaps:
    """Rows (m, d) in memory, floats, of which some may be NaN: missing."""

    values: Array

    def __post_init__(self) -> None:
        values = np.asarray(self.values, np.float64)
        check_shape(values.shape, "a table with gaps")
        object.__setattr__(self, "values", read_only(values))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    def __getitem__(self, rows: slice, /) -> Array:
        return self.values[rows]


def as_gap_rows(points: Any) -> Any:
    """Rows that may have gaps as `RowsWithGaps`, others as they are."""
    rows: Any = points if hasattr(points, "dtype") else np.asarray(points)
    whole = in_memory(rows) and rows.dtype.kind == "f" and rows.ndim == 2 and bool(np.isnan(rows).any())
    return RowsWithGaps(rows) if whole else rows


# --------------------------------------------------------------------------------------------------
# What a model saw, so that rows far outside can be told when they are labeled.

FAR = 10.0  # deviations from the mean of rows that were not scaled


def raw_blocks(points: Rows) -> Iterator[tuple[int, Array]]:
    """Pairs (first row, (b, d) block) covering points as they are, missing values as well."""
    step = max(1, BLOCK_BYTES // max(1, 8 * points.shape[1]))
    for start in range(0, points.shape[0], step):
        yield start, np.asarray(points[start : start + step])


def map_raw(points: Rows, f: Callable[[Array], Any]) -> Iterable[Any]:
    """What a function gives of each block of `raw_blocks`; of points in parts, where these are."""
    if hasattr(points, "map_blocks"):
        return cast("Iterable[Any]", points.map_blocks(lambda _, block: f(block), "a client"))
    return (f(block) for _, block in raw_blocks(points))


def _moments_of(first: Array, block: Array) -> Array:
    """How many values each feature has, their sum and that of their squares, about a row: (3, d)."""
    apart = block.astype(np.float64) - first
    return np.stack([(~np.isnan(apart)).sum(axis=0), np.nansum(apart, axis=0), np.nansum(apart**2, axis=0)])


def _count_far(centers: Array, reach: Array, block: Array) -> int:
    """Rows with a value farther from the center of its feature than it reaches."""
    return int((np.abs(block.astype(np.float64) - centers) > reach).any(axis=1).sum())


@dataclass(frozen=True, repr=False)
class SeenRows:
    """The center and unit of each feature of the rows of a fit, and so many units within which they lie."""

    centers: Sequence[float]
    units: Sequence[float]
    limit: float = FAR

    @classmethod
    def of(cls, parties: Iterable[Party]) -> SeenRows:
        """By means and deviations of values that are there."""
        count, total, squares, first = 0.0, 0.0, 0.0, np.zeros(0)
        for party in parties:
            if not len(first):  # which is subtracted, so that squares of far values lose nothing
                first = np.nan_to_num(np.asarray(party.points[0:1], np.float64).reshape(-1))
            for found in map_raw(party.points, partial(_moments_of, first)):
                count, total, squares = count + found[0], total + found[1], squares + found[2]
        mean = total / np.maximum(count, 1)
        spread = np.sqrt(np.maximum(squares / np.maximum(count, 1) - mean**2, 0.0))
        return cls((first + mean).tolist(), spread.tolist())

    def far_note(self, parties: Iterable[Party]) -> str | None:
        """How many new rows have values beyond the limit, which the model never saw; None if none has.

        One row of zeros alone stands for none.
        """
        centers, kept = np.array(self.centers), np.where(np.array(self.units) > 0, self.units, np.inf)
        rows = far = 0
        for party in parties:
            if party.points.shape[0] == 1 and not np.any(party.points[0:1]):
                continue
            rows += party.points.shape[0]
            far += sum(map_raw(party.points, partial(_count_far, centers, kept * self.limit)))
        return None if not far else (
            f"{far} of {rows} rows have a value more than {self.limit:g} units from the center of its "
            "feature, far outside what the model saw: their labels say little"
        )  # fmt: skip
