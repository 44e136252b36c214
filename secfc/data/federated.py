"""The federation that callers mean by what they have at hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from secfc.data.clients import each
from secfc.data.federation import Federation
from secfc.data.inputs import InputError, names_of
from secfc.data.party import Party


def federated(data: Any, *, union: bool = False, gaps: bool = False) -> Federation:
    """The federation that is meant by what callers have at hand.

    data: a `Federation`; or a list of arrays (m_j, d), of data frames or of parties, one a client; or a
    mapping of a client's name to its array or frame.  union: frames may have different columns.
    gaps: values may be NaN.

    Raises InputError, for one table too: whose rows are whose must be said.
    """
    if isinstance(data, Federation):
        return data
    if isinstance(data, Mapping):
        if not data:
            raise InputError("the federation has no clients: at least one is needed. Add name: points.")
        given, names = list(data.values()), [str(name) for name in data]
    else:
        names, given = None, each(data)
        if given and all(isinstance(item, Party) for item in given):
            return Federation(tuple(given))
    tables = [names_of(item) for item in given]
    differ = all(tables) and len({frozenset(table or ()) for table in tables}) > 1
    return Federation.from_arrays(given, names=names, union=union and differ, gaps=gaps)
