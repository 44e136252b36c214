"""Rows that miss nothing: what is left where rows with gaps are dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from secfc.data.federation import Federation
from secfc.data.gaps import Gaps
from secfc.data.inputs import BLOCK_BYTES, Array, InputError
from secfc.data.party import Party


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
        return replace(party, points=party.points.values) if isinstance(party.points, Gaps) else party
    whole = np.asarray(party.points[0 : party.points.shape[0]])
    return replace(
        party,
        points=whole[rows],
        truth=None if party.truth is None else party.truth[rows],
        ids=None if party.ids is None else tuple(party.ids[row] for row in rows.tolist()),
        rows=party.places[rows],
    )


def spread(
    parts: Sequence[Array], left: tuple[str, ...], federation: Federation, kept: list[Array]
) -> list[Array]:
    """One value a row of all clients (m_j,) from those of the rows that were kept; -1 for the others.

    left: the clients that parts belong to.
    """
    whole = []
    for party, rows in zip(federation.parties, kept, strict=True):
        values = np.full(party.points.shape[0], -1, parts[0].dtype)
        if party.name in left:
            values[rows] = parts[left.index(party.name)]
        whole.append(values)
    return whole
