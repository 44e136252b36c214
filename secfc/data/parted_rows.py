"""Rows whose parts are on a cluster: functions travel to them, and what they give comes back.

For a client whose rows outgrow its machine.  Who asks for rows as of any file has them part by part; who
takes sums of them alone (`FederatedLloyd`, bounds, predictions) has these from where the parts are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from field.arrays import Array
from secfc.data.inputs import (
    Rows,
    as_rows,
    check_shape,
    kind_name,
    names_of,
    require_library,
    row_blocks,
    take_columns,
)
from secfc.data.sources import ParquetRows, decode_columns, open_parquet
from secfc.errors import InputError


class Parts(ABC):
    """Parts of something that are elsewhere, always the same in the same order.

    Functions take a part as their last argument, and before it one of each of `each`, as many as parts.
    """

    @abstractmethod
    def run(self, f: Callable[..., Any], *each: Sequence[Any]) -> list[Any]:
        """What a function gives of each part, in their order."""

    @abstractmethod
    def keep(self, f: Callable[..., Any], *each: Sequence[Any]) -> Parts:
        """Parts that a function gives of each, kept where it is, or computed again whenever asked for."""

    @abstractmethod
    def run_one(self, number: int, f: Callable[[Any], Any]) -> Any:
        """What a function gives of one part."""


class PartedRows:
    """Points (m, d) in parts: tables that may be empty, as `Parts` of any cluster; see `DaskRows`."""

    def __init__(self, parts: Parts, columns: Sequence[str] | None = None) -> None:
        self.names = None if columns is None else tuple(columns)
        if columns is None:
            self.names, *others = parts.run(names_of)
            for number, names in enumerate(others, 1):
                if set(names or ()) != set(self.names or ()):
                    raise InputError(
                        f"part {number} (counted from 0) of a client's rows has columns {names}, and part 0 "
                        f"has {self.names}: all need the same. Name the columns, or correct the part."
                    )
        self._parts = parts
        found = self.run(_describe_part)
        d = found[0][0][1]
        for number, (shape, _) in enumerate(found):
            if shape[1] != d:
                raise InputError(
                    f"part {number} (counted from 0) of a client's rows has {shape[1]} columns, and part 0 "
                    f"has {d}: all need the same, in one order. Name the columns, or correct the part."
                )
        self._starts = np.concatenate([[0], np.cumsum([shape[0] for shape, _ in found], dtype=np.int64)])
        self.shape: tuple[int, ...] = (int(self._starts[-1]), d)
        kinds = [dtype for shape, dtype in found if shape[0]] or [np.dtype(float)]
        self.dtype: np.dtype[Any] = np.result_type(*kinds)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.firsts)} parts, shape={self.shape})"

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice, /) -> Array:
        if not isinstance(rows, slice) or rows.step not in (None, 1):
            raise TypeError(f"{self!r} is read by slices [a:b]. Use numpy.asarray for all rows.")
        start, stop, _ = rows.indices(len(self))
        found = [np.empty((0, self.shape[1]), self.dtype)]
        for number in range(int(np.searchsorted(self._starts, start, side="right")) - 1, len(self.firsts)):
            first = int(self._starts[number])
            if first >= stop:
                break
            cut = partial(_cut_part, self.names, slice(max(start - first, 0), stop - first))
            found.append(self._parts.run_one(number, cut).astype(self.dtype, copy=False))
        return found[1] if len(found) == 2 else np.concatenate(found)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype=dtype)

    @property
    def firsts(self) -> list[int]:
        """The number of the first row of each part."""
        return [int(first) for first in self._starts[:-1]]

    @property
    def sizes(self) -> list[int]:
        """How many rows each part has."""
        return [int(size) for size in np.diff(self._starts)]

    def split_labels(self, labels: Array) -> list[Array]:
        """Labels (m,) of rows by part."""
        return np.split(labels, self._starts[1:-1])

    def run(self, f: Callable[..., Any], *each: Sequence[Any]) -> list[Any]:
        """As of `Parts`, of functions of rows (b, d)."""
        return self._parts.run(partial(_run_decoded, f, self.names), *each)

    def keep(self, f: Callable[..., Any], *each: Sequence[Any]) -> Parts:
        """As of `Parts`, of functions of rows (b, d)."""
        return self._parts.keep(partial(_run_decoded, f, self.names), *each)

    def map_blocks(self, f: Callable[[int, Array], Any], owner: str) -> list[Any]:
        """What a function gives of the first row and the rows of each block there, see `row_blocks`."""
        return [found for part in self.run(partial(_map_part, f, owner), self.firsts) for found in part]


def _run_decoded(f: Callable[..., Any], names: Sequence[str] | None, *own: Any) -> Any:
    return f(*own[:-1], _decode_part(names, own[-1]))


def _cut_part(names: Sequence[str] | None, rows: slice, part: Any) -> Array:
    return _decode_part(names, part)[rows]


def _decode_part(names: Sequence[str] | None, part: Any) -> Array:
    """The values (b, d) of a part, of columns of these names if it has names."""
    if names is None:
        return np.asarray(as_rows(part))
    if unknown := [name for name in names if name not in (names_of(part) or ())]:
        raise InputError(f"a part of a client's rows has no column {unknown[0]!r}. Correct the name.")
    # Frames often have no numbers for types where they have no row.
    return take_columns(part, names) if len(part) else np.empty((0, len(names)))


def _describe_part(part: Array) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Its shape and type, checked; it may have no row."""
    check_shape((max(1, len(part)), *part.shape[1:]), "a part of a client's rows")
    if part.dtype.kind not in "iuf":
        raise InputError(
            f"a part of a client's rows has dtype {part.dtype}: integers or floats are needed. Convert them, "
            "or name columns of numbers."
        )
    return part.shape, part.dtype


def _map_part(f: Callable[[int, Array], Any], owner: str, first: int, part: Array) -> list[Any]:
    return [f(at, block) for at, block in row_blocks(part, owner, first_row=first)]


# --------------------------------------------------------------------------------------------------


class DaskParts(Parts):
    """`Parts` of `dask.delayed`."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self._parts = list(parts)

    def run(self, f: Callable[..., Any], *each: Sequence[Any]) -> list[Any]:
        """As of `Parts`.  Raises ConnectionError where the cluster is lost, and OSError for its files."""
        try:
            return list(_dask().compute(*self._plan(f, *each)))
        except Exception as error:
            if isinstance(error, OSError) or not type(error).__module__.startswith("distributed"):
                raise
            raise ConnectionError(f"the Dask cluster lost its work ({type(error).__name__})") from error

    def keep(self, f: Callable[..., Any], *each: Sequence[Any]) -> DaskParts:
        """As of `Parts`: in the memory of workers of the `distributed.Client` that there is; without one,
        on one machine, whose memory they might outgrow, computed whenever asked for.
        """
        planned = self._plan(f, *each)
        try:
            import_module("distributed").get_client()
        except ValueError:
            return DaskParts(planned)
        return DaskParts(_dask().persist(*planned))

    def run_one(self, number: int, f: Callable[[Any], Any]) -> Any:
        """As of `Parts`."""
        return DaskParts([self._parts[number]]).run(f)[0]

    def _plan(self, f: Callable[..., Any], *each: Sequence[Any]) -> list[Any]:
        # A function with its arguments is one value, so that dask looks into no array or dataclass of these.
        later = partial(_dask().delayed, pure=False, traverse=False)
        return [later(partial(f, *own))(part) for *own, part in zip(*each, self._parts, strict=True)]


def _dask() -> Any:
    return import_module("dask")


class DaskRows(PartedRows):
    """Points (m, d) in parts on the Dask cluster of the current `distributed.Client`.

    Parameters
    ----------
    collection
        A dask.dataframe, a dask.array (m, d), or a list of `dask.delayed` tables, which must compute to equal
        rows in equal order every time: `FederatedLloyd` ends a run in which a part later rounds to other
        rows.
    columns
        Names of the columns of frames; None for all.  `names` has them.

    Raises
    ------
    InputError
        For columns that are not numeric, and parts with other columns than the first.

    Notes
    -----
    `FederatedLloyd` rounds each part once, keeps it on its worker in 2 to 8 bytes per value, and labels and
    sums it there.  Sums and numbers of rows come back, and no row except a sample that judges the rounding.
    `result.labels[j].write(folder)` writes labels on the workers.  Under a `floor` labels move both ways,
    as a client compares all that were opened.  Everything else reads rows part by part.

    Examples
    --------
    >>> import dask, secfc
    >>> rows = secfc.DaskRows([dask.delayed([[1.0, 2.0], [3.0, 4.0]]), dask.delayed([[5.0, 6.0]])])
    >>> rows.shape, rows[1:].tolist()
    ((3, 2), [[3.0, 4.0], [5.0, 6.0]])
    """

    client: Any = None

    def __init__(self, collection: Any, columns: Sequence[str] | None = None) -> None:
        if hasattr(collection, "rechunk") and collection.ndim == 2:
            collection = collection.rechunk({1: -1})  # whole rows
        parts: Any = collection.to_delayed() if hasattr(collection, "to_delayed") else collection
        if not hasattr(parts, "__iter__"):
            raise InputError(
                f"rows in Dask are {kind_name(collection)}: pass a dask.dataframe, a dask.array (m, d), or a "
                "list of dask.delayed tables."
            )
        require_library("rows in Dask", "dask")
        found = list(parts.ravel() if hasattr(collection, "rechunk") else parts)
        if not found:
            raise InputError("rows in Dask have no parts: at least one is needed. Give a table of some rows.")
        super().__init__(DaskParts(found), columns)

    @classmethod
    def of_file(cls, rows: Rows, scheduler: str) -> DaskRows:
        """The rows of a Parquet file, a part a row group, which workers of a scheduler, as
        "tcp://host:8786", read at the same path.  Raises InputError for what is no such file; OSError.
        """
        require_library("rows in Dask", "dask")
        if not isinstance(rows, ParquetRows):
            raise InputError(
                "dask is of rows in one Parquet file, from which none are left out and to which nothing is "
                "added. Leave it out, or write such a file."
            )
        client, later = (
            import_module("distributed").Client(scheduler),
            _dask().delayed(_read_group, pure=False),
        )
        found = cls([later(rows.path.absolute(), rows.names, group) for group in range(rows.groups)])
        found.client = client  # which ends with the last that refers to it
        return found


def _read_group(path: Path, names: Sequence[str], group: int) -> Array:
    with open_parquet(path) as file:
        table = file.read_row_group(group, columns=list(names))
    return decode_columns(table, names, None, str(path), 0)
