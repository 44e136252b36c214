"""Members of the committee compute again what the server announces of opened sums (`Private(verify=True)`).

Each member of a quorum tells its masked summand to the other members as well, and each member adds them up.
What they learn is what the server learns, and any t of them may learn that anyhow, as they may collude with
it.  Whatever the server then says of the sums, which IDs were recovered, how many hold a row, whose data
differ, must be what follows from them.  Else it is suspected, and with it members, of whom one may have told
the others another summand.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from field.arrays import Array
from psu import align, opening, peeling
from psu.blame import accuse_parties
from psu.messages import Opening, Turn, UnionTags
from psu.plan import Sheet, UnionPlan
from secfc.errors import SuspectedParties
from secfc.roles.blame import suspect_parties
from secfc.roles.exchange import SERVER, PartyId


@dataclass
class CommitteeRecheck:
    """What a member knows of one sheet by itself, and who the other members are.

    values: (rows, opened) of the last opening, None as long as it is not complete; missing: who did not tell.
    table: for a sheet that is peeled, what was recovered by the last round that the server ended.
    """

    plan: UnionPlan
    sheet: Sheet
    others: Collection[PartyId]
    values: Array | None = None
    missing: Collection[int] = ()
    table: peeling.Peeling | None = field(init=False)

    def __post_init__(self) -> None:
        self.table = peeling.start_peeling(self.plan, self.sheet) if self.sheet.kind == "cells" else None

    def __repr__(self) -> str:
        return f"Recheck({self.sheet.label})"

    def follow(self, turn: Turn) -> None:
        """Compare what the last round recovered, as told.  Raises SuspectedParties, UnionAborted."""
        if self.table is None or turn.round <= self.table.round:
            return
        self.table = peeling.read_values(self.table, self.complete())
        mine = self.table.fresh
        if not all(map(np.array_equal, (turn.z, turn.y, turn.pure), mine)):
            raise suspect_announcement("which IDs were recovered", self.others)

    def hear(self, turn: Turn, told: Mapping[int, Opening]) -> None:
        """Take in what members told of an opening.  Raises UnionAborted naming who told nonsense."""
        rows = self.sheet.rows if self.table is None else len(self.table.active)
        self.missing = set(turn.quorum) - set(told)
        self.values = None if self.missing else opening.gather_values(self.sheet, rows, turn, told)

    def complete(self) -> Array:
        """The values of the last opening.  Raises UnionAborted naming who told the server alone."""
        if self.values is None:
            why = "members told the server an opening, and this member none"
            raise accuse_parties("Opening", why, silent=self.missing)
        return self.values

    def check_union(self, union: UnionTags) -> None:
        """Compare the announced union.  Raises SuspectedParties, UnionAborted."""
        if self.table is None or not len(self.table.active):
            raise suspect_announcement("the union", self.others)
        end = peeling.read_values(self.table, self.complete())
        if not end.complete or align.announce_tags(*end.recovered_entries).digest != union.digest:
            raise suspect_announcement("the union", self.others)


def suspect_announcement(what: str, members: Collection[PartyId]) -> SuspectedParties:
    """What a member raises, who knows that it did not lie itself.  members: the others."""
    why = f"the server announced {what} otherwise than the sums say that members told each other"
    return suspect_parties("Opening", why, relay=SERVER, members=members)
