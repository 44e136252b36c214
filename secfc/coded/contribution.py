"""What one client brings to a run: how to read its part of the rows, and which of them are its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.code.rows import CodedRows
from secfc.coded.plan import Plan
from secfc.data.party import Party
from secfc.roles.exchange import Role

Array = NDArray[Any]


@dataclass(frozen=True, repr=False, eq=False)
class Contribution:
    """What one client brings: how to read its part of a span of rows, and which rows are its own.

    read(begin, end): (end - begin, d) integers of rows begin, ... of its span; secret.
    rows: for each of its own points, in its own order, the row among all m; secret if owners are hidden.
    settle: a role fragment that brings the shares of all rows to the plan's multiple of their data.
    """

    name: str
    read: Callable[[int, int], Array]
    rows: Array
    settle: Callable[[CodedRows], Role[None]]

    def own(self, labels: Array) -> Array:
        """The labels of my own points, in my order: (m_j,) int32, -1 where my rows do not count."""
        return np.where(self.rows < 0, -1, labels[self.rows]).astype(np.int32)

    def among(self, shared: Plan, kept: Plan) -> Contribution:
        """The same contribution when only some clients' rows count; rows are -1 if mine do not."""
        if kept is shared:
            return self
        j = shared.clients.index(self.name)
        first, count = kept.layout.span(j)
        gone = np.full(len(self.rows), -1)
        return replace(self, rows=np.arange(first, first + count) if count else gone)


def settled(rows: CodedRows | Plan | None = None) -> Role[None]:
    """Nothing to settle: every row has one contributor."""
    yield from ()


def own_rows(plan: Plan, party: Party) -> Contribution:
    """What a client brings whose rows are its own."""
    first, count = plan.layout.span(plan.clients.index(party.name))

    def read(begin: int, end: int) -> Array:
        points = np.asarray(party.points[begin:end])
        return plan.quantizer(points, owner=f"client {party.name!r}", first_row=begin)

    return Contribution(party.name, read, np.arange(first, first + count), settled)


def spread_out(rows: Array, integers: Array) -> Callable[[int, int], Array]:
    """A reader of all m rows: a client's integers (m_j, d) at their rows, zeros elsewhere."""
    # Equal IDs of one client share a row, which gets the first of them.
    at, first = np.unique(rows, return_index=True)

    def read(begin: int, end: int) -> Array:
        low, high = np.searchsorted(at, (begin, end))
        out = np.zeros((end - begin, integers.shape[1]), np.int64)
        out[at[low:high] - begin] = integers[first[low:high]]
        return out

    return read
