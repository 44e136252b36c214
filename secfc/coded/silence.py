"""Who is left out when an answer did not come about: those that are gone, and as few others as possible.

Everybody who was asked to play answers the server, be it only that somebody was not heard (`Unheard`).  So
who says nothing is gone, and is what most reports are about.  Between two that are there, one of whom did not
hear the other, nobody can tell who is at fault: then one of the two is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from secfc.coded.messages import Unheard
from secfc.coded.plan import Plan
from secfc.roles.exchange import PartyId, faulty

NOBODY_MISSED = np.empty(0, np.int32)


def unheard(plan: Plan, sender: PartyId, report: Unheard) -> set[PartyId]:
    """Whom a report says that its sender did not hear, perhaps nobody.

    Raises FaultyClient or FaultyServer naming the sender if there are no such clients.
    """
    missing = report.missing
    if missing.size and not 0 <= int(missing.min()) <= int(missing.max()) < len(plan.clients):
        raise faulty(sender, f"missed clients of other numbers than 0 to {len(plan.clients) - 1}")
    return {plan.clients[j] for j in missing.tolist()} - {sender}


def left_out(
    plan: Plan,
    gone: Collection[PartyId],
    reports: Mapping[PartyId, Unheard],
    spared: Collection[PartyId] = (),
) -> set[PartyId]:
    """Whom to do without: who is gone, and one of every two of whom one did not hear the other.

    Only the earliest reports that name anybody count: later ones follow from what they say.  Whoever is in
    most such pairs goes first, so a client that hears nobody costs nobody else its place; of two that are in
    no other, the one that was not heard.  spared: who cannot be replaced.
    """
    out = set(gone)
    missed = {c: unheard(plan, c, report) for c, report in reports.items()}
    first = min((reports[c].step for c, names in missed.items() if names), default=0)
    pairs = [(c, other) for c in missed if reports[c].step == first for other in sorted(missed[c])]
    while pairs := [pair for pair in pairs if not out & {*pair}]:
        said = {c: sum(c == named for _, named in pairs) for pair in pairs for c in pair}
        within = {c: sum(c in pair for pair in pairs) for c in said}
        out.add(max(said, key=lambda c: (c not in spared, within[c], said[c])))
    return out
