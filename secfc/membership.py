"""Who contributes which rows: a value, so that sharing and iteration know nothing of it.

`Open` is SecFC's main protocol: every client shares its own rows, and everybody knows whose they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from field.coins import Coins
from field.rows import CodedRows
from secfc.exchange import Role
from secfc.federation import Party
from secfc.layout import Layout, OwnRows
from secfc.plan import Plan

Array = NDArray[Any]
Complete = Callable[[Layout], Plan]


@dataclass(frozen=True, repr=False, eq=False)
class Contribution:
    """What one client brings: how to read its part of a span of rows, and which rows are its own.

    read(begin, end): (end - begin, d) points of rows begin, ... of its span, in data units; secret.
    rows: for each of its own points, in its own order, the row among all m; secret if owners are hidden.
    """

    name: str
    read: Callable[[int, int], Array]
    rows: Array

    def own(self, labels: Array) -> Array:
        """The labels of my own points, in my order: (m_j,) int32."""
        return np.asarray(labels[self.rows], np.int32)


class Membership(Protocol):
    """How rows come about.  All four are called in this order."""

    def draft(self, complete: Complete, clients: tuple[str, ...], counts: tuple[int, ...]) -> Any:
        """What is public before the parties talk; `complete` makes the plan once the layout is known."""
        ...

    def client(self, draft: Any, party: Party, *, coins: Coins) -> Role[tuple[Plan, Contribution]]:
        """A client agrees with the others on the rows: the plan, and what it brings."""
        ...

    def server(self, draft: Any) -> Role[Plan]:
        """The server's part of the same."""
        ...

    def merge(self, plan: Plan, mine: Contribution, rows: CodedRows, *, coins: Coins) -> Role[None]:
        """A client's part of settling rows that several clients contributed to."""
        ...

    def merge_at_server(self, plan: Plan) -> Role[None]:
        """The server's part of the same."""
        ...


@dataclass(frozen=True)
class Open:
    """Every client shares its own rows; row counts and owners are public.  Exchanges nothing."""

    def draft(self, complete: Complete, clients: tuple[str, ...], counts: tuple[int, ...]) -> Plan:
        return complete(OwnRows(counts))

    def client(self, draft: Plan, party: Party, *, coins: Coins) -> Role[tuple[Plan, Contribution]]:
        yield from ()
        first, count = draft.layout.span(draft.clients.index(party.name))
        rows = np.arange(first, first + count)
        return draft, Contribution(party.name, lambda begin, end: party.points[begin:end], rows)

    def server(self, draft: Plan) -> Role[Plan]:
        yield from ()
        return draft

    def merge(self, plan: Plan, mine: Contribution, rows: CodedRows, *, coins: Coins) -> Role[None]:
        yield from ()

    def merge_at_server(self, plan: Plan) -> Role[None]:
        yield from ()
