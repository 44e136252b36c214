"""Missing values: points with gaps, which nothing clusters before they are filled in or dropped.

A gap is NaN.  `Gaps` are rows that may have some: a `Party` takes them, as it does rows in a file, and who
reads them as points meets a refusal at the first gap.  What fills gaps in (`secfc.scaling`) reads them raw.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from secfc.data.inputs import Array, check_shape, in_memory, read_only


@dataclass(frozen=True, eq=False, repr=False)
class Gaps:
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


def with_gaps(points: Any) -> Any:
    """Rows that may have gaps as `Gaps`, others as they are."""
    rows: Any = points if hasattr(points, "dtype") else np.asarray(points)
    whole = in_memory(rows) and rows.dtype.kind == "f" and rows.ndim == 2 and bool(np.isnan(rows).any())
    return Gaps(rows) if whole else rows
