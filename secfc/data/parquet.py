"""Rows of a Parquet file, decoded when they are asked for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from secfc.data.inputs import Array, InputError, read_only

CACHED_GROUPS = 2  # so that a block across a boundary of row groups decodes neither of them twice


class ParquetRows:
    """The rows of some numeric columns of a Parquet file, read by row group when sliced.

    shape is (m, d), dtype the numpy dtype that holds all d columns.  The last row groups decoded
    are kept; memory is a few row groups, whose size the writer of the file chose.  The file is
    opened for each read, so that many clients do not need many open files.

    Slices must have step 1.  gaps: missing values are NaN, and all are float64; else a row group that has
    some raises InputError when it is read.
    """

    def __init__(self, path: str | PathLike[str], columns: Sequence[str], *, gaps: bool = False) -> None:
        self._path, self._gaps = Path(path), gaps
        self._columns = tuple(columns)
        with open_parquet(self._path) as file:
            self._metadata = file.metadata
            schema = file.schema_arrow
        if unknown := [name for name in self._columns if name not in schema.names]:
            raise InputError(f"{self._path} has no column {unknown[0]!r}. Correct the name.")
        self.dtype: np.dtype[Any] = np.result_type(
            *(_numpy_type(self._path, schema.field(name)) for name in self._columns)
        )
        if gaps:
            self.dtype = np.dtype(np.float64)
        sizes = [self._metadata.row_group(g).num_rows for g in range(self._metadata.num_row_groups)]
        self._starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        self.shape: tuple[int, ...] = (int(self._starts[-1]), len(self._columns))
        self._cache: OrderedDict[int, Array] = OrderedDict()

    def __repr__(self) -> str:
        return f"ParquetRows({self._path.name!r}, shape={self.shape})"

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice, /) -> Array:
        if not isinstance(rows, slice) or rows.step not in (None, 1):
            raise TypeError(f"{self!r} is read by slices [a:b]. Use numpy.asarray for all rows.")
        start, stop, _ = rows.indices(len(self))
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        parts = [np.empty((0, self.shape[1]), dtype=self.dtype)]
        for group in range(first, len(self._starts) - 1):
            offset = int(self._starts[group])
            if offset >= stop:
                break
            parts.append(self._group(group)[max(start - offset, 0) : stop - offset])
        return parts[1] if len(parts) == 2 else np.concatenate(parts)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype=dtype)

    def _group(self, group: int) -> Array:
        if group in self._cache:
            self._cache.move_to_end(group)
            return self._cache[group]
        with open_parquet(self._path, self._metadata) as file:
            table = file.read_row_group(group, columns=list(self._columns))
        decoded = np.empty((table.num_rows, len(self._columns)), dtype=self.dtype)
        for position, name in enumerate(self._columns):
            column = table.column(name)
            if column.null_count and not self._gaps:
                raise InputError(
                    f"{self._path}, column {name!r}: {column.null_count} values are missing in "
                    f"rows {self._starts[group]} to {self._starts[group + 1] - 1}. Every value "
                    "must be there: fill the values in or drop the rows, or let missing values be the mean "
                    'or their rows be dropped (missing="mean", missing="drop").'
                )
            decoded[:, position] = column.to_numpy()
        self._cache[group] = read_only(decoded)
        while len(self._cache) > CACHED_GROUPS:
            self._cache.popitem(last=False)
        return self._cache[group]


def _numpy_type(path: Path, field: Any) -> np.dtype[Any]:
    from pyarrow.types import is_floating, is_integer, is_temporal

    if is_temporal(field.type):
        raise InputError(
            f"{path}, column {field.name!r}: its type is {field.type}, a date or a time, and features must "
            "be numbers. Write what distance means for it, as years of age or days since an event, or leave "
            "the column out with columns=."
        )
    if not (is_integer(field.type) or is_floating(field.type)):
        raise InputError(
            f"{path}, column {field.name!r}: its type is {field.type}. Features must be integers "
            "or floats: convert the column, or leave it out with columns=, id_column= or "
            "label_column=."
        )
    kind: np.dtype[Any] = np.dtype(field.type.to_pandas_dtype())
    return kind


@contextmanager
def open_parquet(path: Path, metadata: Any = None) -> Iterator[Any]:
    """An open pyarrow.parquet.ParquetFile."""
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise InputError(
            f"{path} is a Parquet file, and pyarrow, which reads these, is not installed. Run "
            "`pip install pyarrow`, or convert the file to CSV."
        ) from error
    try:
        with ParquetFile(path, metadata=metadata) as file:
            yield file
    except (ArrowException, OSError) as error:
        raise InputError(f"{path} is not a readable Parquet file. Write it again.") from error
