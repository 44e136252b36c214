"""Whose rows are whose: from what scikit-learn's callers pass to a federation, and labels back into their
order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secfc.data.federation import Federation
from secfc.data.inputs import InputError, names_of

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class ClientTables:
    """Data as they came: one table a client, with clients' names or None."""

    tables: tuple[Any, ...]
    names: tuple[str, ...] | None


@dataclass(frozen=True, eq=False, repr=False)
class DealtFederation:
    """A federation, and of each of its clients the rows of X that are its own, in its order; -1 for none."""

    federation: Federation
    rows: tuple[Array, ...]

    def gathered(self, labels: Sequence[Array], m: int) -> Array:
        """Labels of clients' points as labels of the rows of X: (m,) int32."""
        flat = np.full(m, -1, np.int32)
        for own, rows in zip(labels, self.rows, strict=True):
            flat[rows[rows >= 0]] = own[rows >= 0]
        return flat


def tables_of(X: Any) -> ClientTables | None:
    """What X holds for each client, or None if it is one table.

    Several tables are a mapping of names to tables, a `Federation`, or a list of tables; a list of lists of
    numbers is one table, as everywhere in scikit-learn.
    """
    if isinstance(X, Federation):
        names = X.feature_names
        if names is not None and X.observed is not None:
            raise InputError(
                "this federation's clients observe different features: pass one data frame a client, whose "
                "columns "
                "are matched by name"
            )
        return ClientTables(tuple(party.read() for party in X.parties), X.names)
    if isinstance(X, Mapping) and not hasattr(X, "toarray"):  # some sparse arrays are mappings
        return ClientTables(tuple(X.values()), tuple(map(str, X)))
    if isinstance(X, list | tuple) and X and all(map(_table, X)):
        return ClientTables(tuple(X), None)
    return None


def _table(item: Any) -> bool:
    if isinstance(item, list | tuple):
        return bool(item) and isinstance(item[0], list | tuple | np.ndarray)
    return names_of(item) is not None or len(getattr(item, "shape", ())) == 2


def consecutive_blocks(m: int, n: int, least: int = 1) -> list[Array]:
    """m rows in n runs of consecutive ones, as equal as can be; rows of -1 fill up those that have too
    few.
    """
    parts = np.array_split(np.arange(m), n)
    return [np.concatenate([part, np.full(max(0, least - len(part)), -1, part.dtype)]) for part in parts]


def by_group(groups: Any, m: int) -> tuple[tuple[str, ...], list[Array]]:
    """Names of clients in order of first appearance, and the rows of each.

    Raises InputError for other than one name a row.
    """
    known = np.asarray(groups)
    if known.shape != (m,):
        raise InputError(
            f"groups have shape {known.shape} for {m} rows: the name of its client is needed for each. Pass "
            f"({m},)."
        )
    if known.dtype.kind == "O":
        if any(name is None or name != name for name in known):
            raise InputError("groups have missing names: each row needs its client. Fill them in.")
        known = known.astype(str)
    elif known.dtype.kind == "f" and not np.isfinite(known).all():
        raise InputError("groups have missing names: each row needs its client. Fill them in.")
    names, first, codes = np.unique(known, return_index=True, return_inverse=True)
    order = np.argsort(first)
    sorted_rows = np.argsort(codes, kind="stable")
    parts = np.split(sorted_rows, np.cumsum(np.bincount(codes))[:-1])
    return tuple(str(names[g]) for g in order), [parts[g] for g in order]


def federation_of(
    X: Array, names: Sequence[str] | None, rows: Sequence[Array], **more: Any
) -> DealtFederation:
    """Rows of X dealt to clients.  A row of -1 is a row of zeros, of whose label nobody will ask."""
    arrays = []
    for own in rows:
        if len(own) and own[-1] - own[0] == len(own) - 1 and own[0] >= 0:
            arrays.append(X[own[0] : own[-1] + 1])  # consecutive, and no copy
        else:
            points = X[own]
            points[own < 0] = 0
            arrays.append(points)
    return DealtFederation(Federation.from_arrays(arrays, names=names, **more), tuple(rows))
