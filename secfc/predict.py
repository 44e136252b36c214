"""Labels of new private points: nearest hidden centers, over shares.

After a run every client keeps its shares of the final centers (SecFC's centers stay hidden).  New points
are shared like old ones, clients return coded distances to the retained centers, and the server decodes
the nearest.  The server sees the exact scaled distances of the new points to all centers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.coins import Coins
from field.nearest import decode_nearest
from field.rows import ClusterSums
from secfc.exchange import ITERATE, SERVER, Exchange, PartyId, Role, only, take, to_all
from secfc.federation import Federation, Party
from secfc.layout import OwnRows
from secfc.membership import Open
from secfc.messages import CodedDistances, Final, compact_labels
from secfc.plan import Plan
from secfc.sharing import (
    agree,
    reply,
    settle_contributors,
    settle_contributors_at_server,
    share_rows,
)
from secfc.simulate import simulate
from secfc.source import CodedSource
from secfc.starts import RandomLabels

Array = NDArray[Any]


@dataclass(frozen=True, repr=False, eq=False)
class CodedModel:
    """Every client's shares of the final centers, to label new points without opening a center."""

    plan: Plan
    centers: Mapping[PartyId, ClusterSums]

    def predict(self, federation: Federation, *, coins: Callable[[PartyId], Coins]) -> list[Array]:
        """Labels of new points, one (m_j,) int32 array a client.

        The server sees the exact scaled distances of the new points to the hidden centers.

        Raises ValueError if the clients or the features are not those of the fit.
        """
        if federation.names != self.plan.clients or federation.d != self.plan.d:
            raise ValueError(
                f"prediction needs the {len(self.plan.clients)} clients of the fit and d="
                f"{self.plan.d} features, got {federation.n} clients and d={federation.d}"
            )
        # The range depends on the retained clusters (`largest` stays), not on how many points are new,
        # and there may be fewer new points than centers.
        plan = replace(self.plan, layout=OwnRows(federation.counts), k=1, init=RandomLabels(), revealing=())
        sizes = next(iter(self.centers.values())).sizes
        roles: dict[PartyId, Role[Any]] = {
            party.name: predicting_client(plan, party, self.centers[party.name], coins=coins(party.name))
            for party in federation.parties
        }
        roles[SERVER] = predicting_server(plan, sizes)
        results = simulate(roles).results
        return [results[name] for name in federation.names]


def predicting_client(plan: Plan, party: Party, centers: ClusterSums, *, coins: Coins) -> Role[Array]:
    """Share new points, return their coded distances to the retained centers, receive labels."""
    _, mine = yield from Open().client(plan, party, coins=coins)
    yield from agree(plan, party.name)
    received = yield from share_rows(plan, mine, coins)
    plan, rows = yield from settle_contributors(plan, received)
    rows.finish()
    values = rows.distances(centers, plan.lanes(centers.sizes))
    inbox = yield reply(ITERATE, CodedDistances(values), "distances")
    return mine.own(only(take(inbox, Final), SERVER).labels)


def predicting_server(plan: Plan, sizes: Array) -> Role[Array]:
    """Decode the distances of new points to the hidden centers and tell everybody the nearest."""
    yield from agree(plan, SERVER)
    plan, present = yield from settle_contributors_at_server(plan)
    source = CodedSource(plan, present)
    number = next(source.rounds)
    replies = yield Exchange({}, present, plan.code.threshold(2), round=number, exact=True, phase="assign")
    basis = plan.code.basis.prefix(plan.lanes(sizes))
    values = source.coded(take(replies, CodedDistances), basis, (len(sizes), plan.m), 2)
    nobody = np.full(plan.m, -1, np.int32)
    labels = compact_labels(decode_nearest(plan.code, values, sizes, nobody)[0])
    final = Final(len(sizes), labels, None)
    yield Exchange(to_all(plan.clients, final), round=number + 1, phase="finish")
    return labels
