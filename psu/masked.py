"""Server mode: clients upload tables under pairwise masks that sum to zero; the server peels the sum.

The summed cell sum_x R_x (1, z, y) must be seen by nobody who knows some of the coefficients: a client
that saw it would compare R_x with its own coefficient and learn which of its IDs others hold too.  So the
server alone has it, and sends nothing back but sorted tags.  See psu.plan.Server for what that asks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from field.arrays import Array
from psu.blame import accuse_parties
from psu.errors import UnionAborted
from psu.keys import Secrets
from psu.messages import MaskedBlock
from psu.plan import Sheet, UnionPlan
from psu.tables import table_geometry, zero_table


def mask_chunk(plan: UnionPlan, secrets: Secrets, sheet: Sheet, table: Array, chunk: int) -> MaskedBlock:
    """One chunk of a client's table (rows, width) under its masks with every other client.

    Raises AlreadyUsed if this chunk of this sheet was masked before.
    """
    from psu import kernels

    values = table[sheet.span(chunk)].copy()
    flat, words = values.reshape(-1), np.empty(values.size, np.uint64)
    for j, channel in secrets.ring.channels.items():
        if j != secrets.me:
            channel.stream(f"mask {sheet.label} {chunk}").fill(words)
            (kernels.add_stream if secrets.me < j else kernels.subtract_stream)(flat, words)
    return MaskedBlock(secrets.me, sheet.label, chunk, values)


@dataclass(frozen=True, eq=False, repr=False)
class Tally:
    """The server's sum of masked tables so far: total (rows, width).  Steps consume it."""

    sheet: Sheet
    total: Array
    seen: set[tuple[int, int]] = field(default_factory=set)

    def __repr__(self) -> str:
        return f"Tally({self.sheet.label}, blocks={len(self.seen)})"


def empty_tally(sheet: Sheet) -> Tally:
    """Nothing yet."""
    return Tally(sheet, zero_table(sheet.rows, sheet.width))


def absorb_block(plan: UnionPlan, state: Tally, block: MaskedBlock) -> Tally:
    """Add a client's block.

    Raises UnionAborted naming the sender of a block that is out of place, repeated or of the wrong shape.
    """
    from psu import kernels

    key = (block.sender, block.chunk)
    if block.sheet != state.sheet.label or block.sender >= plan.n or block.chunk >= state.sheet.chunks:
        why = f"a block for {state.sheet.label!r} is out of place"
        raise accuse_parties("MaskedBlock", why, sender=block.sender)
    rows = state.total[state.sheet.span(block.chunk)]
    if key in state.seen or block.values.shape != rows.shape:
        why = f"a block for {state.sheet.label!r} is repeated or misshapen"
        raise accuse_parties("MaskedBlock", why, sender=block.sender)
    kernels.add_into(rows.reshape(-1), np.ascontiguousarray(block.values).reshape(-1))
    state.seen.add(key)
    return state


def unmasked_sum(plan: UnionPlan, state: Tally) -> Array:
    """The sum of all clients' tables (rows, width), the masks gone.

    Raises UnionAborted naming clients whose upload is incomplete: without it no mask goes away.
    """
    due = {(j, b) for j in range(plan.n) for b in range(state.sheet.chunks)}
    if due != state.seen:
        why = f"uploads of {state.sheet.label!r} are missing"
        raise accuse_parties("MaskedBlock", why, silent={j for j, _ in due - state.seen})
    return state.total


def peel_lines(plan: UnionPlan, sheet: Sheet, table: Array) -> tuple[Array, Array] | None:
    """The tags (z, y) in a summed table of lines (rows, 3), or None if it stalls.  Consumes the table.

    Raises UnionAborted if more comes out than the table has cells: some table was malformed.
    """
    from psu import kernels

    z, y = np.empty(sheet.rows + 1, np.uint64), np.empty(sheet.rows + 1, np.uint64)
    found, left = kernels.peel_lines(table, *table_geometry(plan, sheet), z, y)
    if found > sheet.rows:
        raise UnionAborted("the table contradicts itself: some client contributed a malformed one")
    return None if left else (z[:found].copy(), y[:found].copy())
