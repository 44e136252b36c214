"""Missing values: points with gaps, which nothing clusters before they are filled in or dropped.

A gap is NaN.  `Gaps` are rows that may have some: a `Party` takes them, as it does rows in a file, and who
reads them as points meets a refusal at the first gap.  What fills gaps in (`secfc.scaling`) reads them raw.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from secfc.data.federation import Federation
from secfc.data.inputs import BLOCK_BYTES, Array, InputError, check_shape, in_memory, read_only
from secfc.data.party import Party


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


def with_gaps(points: npt.ArrayLike) -> Any:
    """Rows that may have gaps as `Gaps`, others as they are."""
    rows: Any = points if hasattr(points, "dtype") else np.asarray(points)
    whole = in_memory(rows) and rows.dtype.kind == "f" and rows.ndim == 2 and bool(np.isnan(rows).any())
    return Gaps(rows) if whole else rows


def without_gaps(federation: Federation) -> tuple[Federation, list[Array]]:
    """The rows of every client that miss nothing, and which rows these are: (m_j,) int64 each.

    A client whose rows all miss something takes no part.  Nothing is said to anybody; how many rows are left
    is public where row counts are.

    Raises InputError if no row is left.
    """
    parties, kept = [], []
    for party in federation.parties:
        rows = whole_rows(party)
        kept.append(rows)
        if len(rows):
            parties.append(chosen(party, rows))
    if not parties:
        raise InputError(
            f"every row of all {federation.n} clients misses some value: none would be left. Leave columns "
            'out that are often missing, or take missing values for the mean (missing="mean")'
        )
    return replace(federation, parties=tuple(parties)), kept


def whole_rows(party: Party) -> Array:
    """Rows that miss nothing: (r,) int64."""
    m, d = party.points.shape
    step = max(1, BLOCK_BYTES // (8 * d))
    found = [
        ~np.isnan(np.asarray(party.points[a : a + step], np.float64)).any(axis=1) for a in range(0, m, step)
    ]
    return np.flatnonzero(np.concatenate(found))


def chosen(party: Party, rows: Array) -> Party:
    """A client with these of its rows, in memory; the client itself if these are all."""
    if len(rows) == party.points.shape[0]:
        if hasattr(party.points, "values"):
            return replace(party, points=party.points.values)
        return party
    whole = np.asarray(party.points[0 : party.points.shape[0]])
    return replace(
        party,
        points=whole[rows],
        truth=None if party.truth is None else party.truth[rows],
        ids=None if party.ids is None else tuple(party.ids[row] for row in rows.tolist()),
    )
