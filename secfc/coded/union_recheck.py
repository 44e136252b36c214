"""Members of the committee compute again what the server announces of opened sums (`Private(verify=True)`).

Each member of a quorum tells its masked summand to the other members as well, and each member adds them up.
What they learn is what the server learns, and any t of them may learn that anyhow, as they may collude with
it.  Whatever the server then says of the sums, which IDs were recovered, how many hold a row, whose data
differ, must be what follows from them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from field.arrays import Array
from psu import align, opening, peeling
from psu.errors import UnionAborted
from psu.messages import Opening, Turn, UnionTags
from psu.plan import Sheet, UnionPlan
from secfc.errors import FaultyServer
from secfc.roles.exchange import SERVER


@dataclass
class CommitteeRecheck:
    """What a member knows of one sheet by itself.

    values: (rows, opened) of the last opening, None as long as it is not complete; missing: who did not tell.
    table: for a sheet that is peeled, what was recovered by the last round that the server ended.
    """

    plan: UnionPlan
    sheet: Sheet
    values: Array | None = None
    missing: Collection[int] = ()
    table: peeling.Peeling | None = field(init=False)

    def __post_init__(self) -> None:
        self.table = peeling.start_peeling(self.plan, self.sheet) if self.sheet.kind == "cells" else None

    def __repr__(self) -> str:
        return f"Recheck({self.sheet.label})"

    def follow(self, turn: Turn) -> None:
        """Compare what the server says that the last round recovered.  Raises FaultyServer, UnionAborted."""
        if self.table is None or turn.round <= self.table.round:
            return
        self.table = peeling.read_values(self.table, self.complete())
        mine = self.table.fresh
        if not all(map(np.array_equal, (turn.z, turn.y, turn.pure), mine)):
            raise refuse_disagreement("which IDs were recovered")

    def hear(self, turn: Turn, told: Mapping[int, Opening]) -> None:
        """Take in what members told of an opening.  Raises UnionAborted naming who told nonsense."""
        rows = self.sheet.rows if self.table is None else len(self.table.active)
        self.missing = set(turn.quorum) - set(told)
        self.values = None if self.missing else opening.gather_values(self.sheet, rows, turn, told)

    def complete(self) -> Array:
        """The values of the last opening.  Raises UnionAborted naming who told the server alone."""
        if self.values is None:
            raise UnionAborted("members told the server an opening, and this member none", self.missing)
        return self.values

    def check_union(self, union: UnionTags) -> None:
        """Compare the announced union.  Raises FaultyServer, UnionAborted."""
        if self.table is None or not len(self.table.active):
            raise refuse_disagreement("the union")
        end = peeling.read_values(self.table, self.complete())
        if not end.complete or align.announce_tags(*end.recovered_entries).digest != union.digest:
            raise refuse_disagreement("the union")


def refuse_disagreement(what: str) -> FaultyServer:
    """Members are taken to follow the protocol: one of them could tell the others another summand."""
    return FaultyServer(SERVER, f"announced {what} otherwise than the sums say that members opened")
