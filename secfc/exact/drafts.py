"""From what is public before rows are known to the plan of a run: a draft, which the algorithm completes.

Where rows are public, the plan is complete before the parties talk, and is its own draft.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from field.secrets.coins import Coins
from secfc.algorithm import Public
from secfc.coded.layout import AllRows, Layout
from secfc.coded.membership import Contribution, UnionDraft, own_rows, settled
from secfc.coded.plan import Plan
from secfc.data.federation import Federation
from secfc.data.party import Party
from secfc.roles.exchange import Role, TooManyHolders

Array = NDArray[Any]
Draft = Plan | UnionDraft


class Completing(Protocol):
    """An algorithm that can plan a run as soon as the layout of its rows is known."""

    def complete(self, public: Public, layout: Layout) -> Plan:
        """The plan for a known layout of rows."""
        ...


def completed(way: Completing, draft: UnionDraft, held: Array) -> Plan:
    """The plan for rows that so many clients hold, (m,) int64: all ones without merging.

    Raises TooManyHolders, and ValueError for what does not fit in any case.
    """
    public, layout = draft.terms.public, draft.layout(held)
    if layout.multiple == 1:
        return way.complete(public, layout)
    try:
        return way.complete(public, layout)
    except ValueError as error:
        way.complete(public, AllRows(layout.m, layout.n))  # what fails here too is no matter of holders
        counts = np.unique(held).tolist() if draft.counted else range(1, layout.n + 1)
        raise TooManyHolders(counts, layout.multiple, str(error)) from error


def foreseen(way: Completing, draft: Draft, federation: Federation) -> Plan:
    """The plan that the points of all will lead to, for a process that sees all data."""
    return draft if isinstance(draft, Plan) else completed(way, draft, draft.foreseen(federation))


def at_client(way: Completing, draft: Draft, party: Party, coins: Coins) -> Role[tuple[Plan, Contribution]]:
    """A client agrees with the others on the rows: the plan, and what it brings."""
    if isinstance(draft, Plan):
        return draft, own_rows(draft, party)
    union = yield from draft.client(party, coins=coins)
    plan = completed(way, draft, union.held)
    return plan, union.contribution(plan)


def at_server(way: Completing, draft: Draft, coins: Coins) -> Role[tuple[Plan, Callable[[], Role[None]]]]:
    """The server's part of the same, and of settling."""
    if isinstance(draft, Plan):
        return draft, settled
    held, settle = yield from draft.server(coins=coins)
    plan = completed(way, draft, held)
    return plan, partial(settle, plan)


def check_terms(way: Completing, draft: Draft) -> None:
    """Raises ValueError for a draft that was made on other terms than the algorithm's."""
    if draft.terms is not None:
        draft.terms.check(way)
