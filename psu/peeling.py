"""The relay's side of peeling: read opened cells, recover IDs, say which cells to open next.

A pure function of opened values, which are random functions of the union (psu.plan.Committee).  An
invertible Bloom lookup table (Goodrich and Mitzenmacher, Allerton 2011) is peeled in parallel rounds,
about log log of its size.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from field.arrays import Array
from psu.errors import UnionAborted
from psu.messages import Turn
from psu.opening import OpeningPoll, first_history, next_history
from psu.plan import MAX_ROUNDS, Sheet, UnionPlan
from psu.tables import table_geometry


@dataclass(frozen=True, eq=False, repr=False)
class Peeling:
    """The relay between two rounds.  Nothing in it is secret from the relay.

    status (rows,): what is known of each cell.  active: the cells to open, ascending.  found: lists of
    recovered (z, y), fresh: the last of them with its `pure` bits.  opened: cells, over all rounds before.
    `read_values` consumes it.
    """

    plan: UnionPlan
    sheet: Sheet
    status: Array
    active: Array
    round: int
    history: bytes
    found: tuple[tuple[Array, Array], ...]
    fresh: tuple[Array, Array, Array]
    opened: int = 0

    def __repr__(self) -> str:
        return f"Peeling({self.sheet.label}, round={self.round}, active={len(self.active)})"

    @property
    def done(self) -> bool:
        """Nothing is left to open: the table is complete or has stalled."""
        # Where coefficients are dealt they may, rarely, be too few: the table then counts as stalled.
        short = self.plan.dealt and self.opened + len(self.active) > self.plan.budget(self.sheet)
        return not len(self.active) or self.round >= MAX_ROUNDS or short

    @property
    def complete(self) -> bool:
        """Every cell is known to be empty: the whole union was recovered."""
        from psu import kernels

        return bool((self.status == kernels.RESOLVED).all())

    @property
    def recovered_entries(self) -> tuple[Array, Array]:
        """All recovered (z, y), in no particular order: (m,) each."""
        none = np.empty(0, np.uint64)
        return (
            np.concatenate([none, *(z for z, _ in self.found)]),
            np.concatenate([none, *(y for _, y in self.found)]),
        )


def start_peeling(plan: UnionPlan, sheet: Sheet) -> Peeling:
    """Before the first round: every cell of the table is to be opened."""
    from psu import kernels

    none = np.empty(0, np.uint64)
    return Peeling(
        plan,
        sheet,
        np.full(sheet.rows, kernels.UNKNOWN, np.int32),
        np.arange(sheet.rows),
        0,
        first_history(plan, sheet),
        (),
        (none, none, none.astype(np.uint8)),
    )


def next_turn(peeling: Peeling, poll: OpeningPoll, silent: Collection[int] = ()) -> tuple[OpeningPoll, Turn]:
    """The turn that opens the active cells; again, without those who stayed silent in this round.

    Raises UnionAborted naming the silent members if too few are left.
    """
    poll, quorum = poll.choose(silent)
    return poll, Turn(
        peeling.sheet.label, peeling.round, poll.number, quorum, peeling.history, *peeling.fresh
    )


def read_values(peeling: Peeling, values: Array) -> Peeling:
    """Read the opened values (A, 3) of the active cells.

    Raises UnionAborted if they contradict one another: some client's table was malformed.
    """
    from psu import kernels

    active, status, place = peeling.active, peeling.status, table_geometry(peeling.plan, peeling.sheet)
    z, y = np.zeros(len(active), np.uint64), np.zeros(len(active), np.uint64)
    pure = np.zeros(len(active), np.uint8)
    kernels.read_cells(values, active, status, z, y, *place[1:])
    count = kernels.collect(active, status, z, y, *place, pure)
    total = sum(len(known) for known, _ in peeling.found) + count
    if count < 0 or total > peeling.sheet.rows:
        raise UnionAborted("the table contradicts itself: some client contributed a malformed one")
    fresh = (z[:count].copy(), y[:count].copy(), pure[:count].copy())
    return replace(
        peeling,
        active=kernels.changed_cells(status),
        round=peeling.round + 1,
        history=next_history(peeling.history, *fresh),
        found=(*peeling.found, fresh[:2]),
        fresh=fresh,
        opened=peeling.opened + len(active),
    )
