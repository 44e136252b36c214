"""Labels of new private points: nearest hidden centers, over shares.

After a run every client keeps its shares of the final centers (SecFC's centers stay hidden).  New points
are shared like old ones, and clients answer for the retained centers as the disclosure policy of the fit
says: the server learns of the new points what it learned of the old ones in one iteration, and all parties
their labels.  Labels of chosen points locate the hidden centers, more exactly with every call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.code.rows import ClusterSums
from field.secrets.coins import Coins
from secfc.algorithm import Drive, heard
from secfc.coded.layout import OwnRows
from secfc.coded.membership import multiply, own_rows
from secfc.coded.messages import Assignment, Ended
from secfc.coded.plan import Plan
from secfc.coded.questions import question
from secfc.coded.screening import Standing
from secfc.coded.sharing import reply, settle_contributors, settle_contributors_at_server, share_rows
from secfc.data.federation import Federation
from secfc.data.party import Party
from secfc.disclosure import Disclosure, Measured
from secfc.exact.course import Referee, prediction
from secfc.exact.resting import agree_on, deal_and_hear, own_labels, tell_results
from secfc.lloyd.starts import RandomLabels
from secfc.roles.exchange import ITERATE, SERVER, BudgetSpent, Exchange, PartyId, Role, only, take
from secfc.roles.messages import Final

Array = NDArray[Any]


@dataclass(frozen=True, repr=False, eq=False)
class CodedModel:
    """Every client's shares of the final centers, to label new points without opening a center."""

    plan: Plan
    disclosure: Disclosure
    centers: Mapping[PartyId, ClusterSums | None]
    standing: Standing
    allowances: Mapping[PartyId, Allowance] = field(default_factory=dict)

    def predict(
        self, federation: Federation, *, coins: Callable[[PartyId], Coins], drive: Drive
    ) -> list[Array]:
        """Labels of new points, one (m_j,) int32 array a client.

        The server sees of the new points what the policy of the fit shows; see `Clustering.predict`.
        drive: runs the roles of all parties.

        A client that missed the end of the fit gets labels of its new points, as long as enough others have
        their shares of the centers.

        Raises ValueError if the clients or the features are not those of the fit, TooFewReplies, BudgetSpent
        for more points, with those of earlier calls, than `SecFC(predictions=...)` allows.
        """
        if federation.names != self.plan.clients or federation.d != self.plan.d:
            raise ValueError(
                f"prediction needs the {len(self.plan.clients)} clients of the fit and d="
                f"{self.plan.d} features, got {federation.n} clients and d={federation.d}"
            )
        if all(kept is None for kept in self.centers.values()):
            raise ValueError("no client heard the result of the fit: fit again to predict")
        sizes = next(kept for kept in self.centers.values() if kept is not None).sizes
        secrets = {name: coins(name) for name in (*federation.names, SERVER)}
        plan = self.plan_for(federation, sizes, secrets[SERVER].bytes(32))
        roles: dict[PartyId, Role[Any]] = {
            party.name: predicting_client(
                self.disclosure,
                plan,
                party,
                self.centers.get(party.name),
                len(sizes),
                coins=secrets[party.name],
                allowance=self.allowances.get(party.name),
            )
            for party in federation.parties
        }
        roles[SERVER] = predicting_server(self.disclosure, plan, sizes, self.standing, coins=secrets[SERVER])
        run = drive(roles, plan.description, secrets)
        return heard(run, federation.names, federation.counts)

    def plan_for(self, federation: Federation, sizes: Array, session: bytes) -> Plan:
        """The plan under which this federation's points are labeled, see `prediction_plan`."""
        return prediction_plan(self.plan, federation.counts, federation.feature_names, sizes, session)


def prediction_plan(
    plan: Plan, counts: tuple[int, ...], features: tuple[str, ...] | None, sizes: Array, session: bytes
) -> Plan:
    """The plan under which so many new points of each client are labeled.

    plan: of the fit.  sizes: (k,) points of the clusters whose centers are retained, which parties compare.
    session: 32 public bytes that no other run uses, nor the fit.
    """
    # The range depends on the retained clusters (`largest` stays), not on how many points are new,
    # and there may be fewer new points than centers.
    terms = plan.terms
    if terms is not None:
        public = replace(terms.public, session=session, features=features)
        terms = replace(terms, public=public, retained=tuple(sizes.tolist()))
    return replace(
        plan,
        terms=terms,
        layout=OwnRows(counts, plan.layout.multiple),
        k=1,
        n_init=1,
        init=RandomLabels(),
        revealing=(),
    )


class Allowance:
    """How many new points a client still helps to label.  No frozen value: what is left is what changes."""

    def __init__(self, limit: int) -> None:
        self.limit = self.left = limit

    def spend(self, points: int) -> None:
        """Raises BudgetSpent, and spends nothing, for more points than are left."""
        if points > self.left:
            raise BudgetSpent(
                "new points to be labeled", points, self.left, self.limit,
                "Each label tells where hidden centers lie: plan for more with SecFC(predictions=...)",
            )  # fmt: skip
        self.left -= points


def predicting_client(
    disclosure: Disclosure,
    plan: Plan,
    party: Party,
    centers: ClusterSums | None,
    k: int,
    *,
    coins: Coins,
    allowance: Allowance | None = None,
) -> Role[Array]:
    """Share new points, answer for the k retained centers, receive labels.

    centers: this client's shares of them, None if it missed the end of the fit: then it answers nothing, as
    if it were gone, and the others answer for it as long as they are enough.
    allowance: kept from one prediction to the next, and spent before anything is said.
    """
    if allowance is not None:
        allowance.spend(plan.m)
    mine = own_rows(plan, party)
    yield from agree_on(plan, party.name)
    if party.name in plan.resting:
        return own_labels(mine, (yield from deal_and_hear(plan, mine, coins)))
    received = yield from share_rows(plan, mine, coins)
    shared = plan
    kept, rows = yield from settle_contributors(shared, mine, received, coins)
    plan = kept.at_work
    if plan.layout.multiple > 1:
        # As the rows that the retained centers are the means of.
        factor = np.array([[plan.layout.multiple % p] for p in rows.basis.primes], rows.basis.dtype)
        multiply(rows, np.broadcast_to(factor, (rows.basis.lanes, rows.m)))
    rows.finish()
    answer = yield from disclosure.client(plan, party.name, coins=coins)
    referee = None
    if centers is not None:
        courses = prediction(plan, disclosure.exposes, centers.sizes)
        referee = Referee(plan, courses, opens=answer.opens)
    ask = partial(question, plan, k)
    request, missed = yield from ask(Exchange({}, (SERVER,), round=ITERATE, phase="share"))
    while isinstance(request, Assignment):
        message = None
        if centers is not None and referee is not None:
            if referee.ask(request, missed):
                message = yield from answer(request, Measured(rows, centers.sizes, lambda: centers))
            else:
                yield from answer.watch(request, centers.sizes)
            referee.opened = answer.opened
        request, missed = yield from ask(reply(request.round, message, "distances"))
    if isinstance(request, Ended):
        end, labels = request.sizes, np.full(plan.m, -1, np.int32)
        labels = labels if answer.kept is None else answer.kept.labels
    else:
        end = labels = only(take({SERVER: request}, Final), SERVER).labels
    if referee is not None:
        referee.end(end, missed)
    return mine.among(shared, kept).own(labels)


def predicting_server(
    disclosure: Disclosure, plan: Plan, sizes: Array, standing: Standing, *, coins: Coins, threads: int = 1
) -> Role[None]:
    """Find the nearest hidden centers of new points, and tell whom the policy lets know."""
    yield from agree_on(plan, SERVER)
    kept, screening = yield from settle_contributors_at_server(plan, coins, standing)
    source = yield from disclosure.server(kept.at_work, screening, coins=coins, threads=threads)
    labels = yield from source.ending.prediction(source, sizes)
    if labels is not None and kept.resting:
        yield from tell_results(kept, labels, sizes, None, next(source.rounds))
