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

from field.arrays import Array
from field.code.rows import ClusterSums
from field.secrets.coins import Coins
from secfc.algorithm import Driver, PublicFacts, heard_labels
from secfc.coded.joined import JoinedPlan, contribute_columns
from secfc.coded.membership import RowContribution, contribute_own_rows, scale_rows
from secfc.coded.messages import RunEnded
from secfc.coded.plan import CodedPlan, ColumnLayout, PublicOwnerLayout, RowLayout
from secfc.coded.queries import Query, receive_query
from secfc.coded.quorum import BlameState
from secfc.coded.sharing import answer_query, settle_contributors, settle_contributors_at_server, share_rows
from secfc.coded_kmeans.algorithm1 import (
    agree_on_plan,
    labels_of_own_rows,
    send_results_with_sizes,
    share_rows_and_await,
)
from secfc.coded_kmeans.parameters import PredictionAllowance
from secfc.coded_kmeans.query_order import QueryValidator, prediction_queries
from secfc.data.federation import Federation
from secfc.data.inputs import names_listed
from secfc.data.party import Party
from secfc.disclosure import Disclosure, DistanceOracle
from secfc.errors import IncompatibleOptions, InputError
from secfc.kmeans.starts import RandomLabels
from secfc.roles.description import RunTerms
from secfc.roles.exchange import ITERATE, SERVER, Exchange, PartyId, Role, expect_messages, expect_one
from secfc.roles.messages import FinalResult


@dataclass(frozen=True, repr=False, eq=False)
class CodedModel:
    """Every client's shares of the final centers, to label new points without opening a center.

    scales: by which each brought its columns to scale alone, if it did.
    """

    plan: CodedPlan
    disclosure: Disclosure
    centers: Mapping[PartyId, ClusterSums | None]
    standing: BlameState
    allowances: Mapping[PartyId, PredictionAllowance] = field(default_factory=dict)
    scales: Mapping[PartyId, Any] = field(default_factory=dict)

    @property
    def joined(self) -> bool:
        """Whether the columns of a new person lie at several clients."""
        return isinstance(self.plan.layout, ColumnLayout)

    @property
    def by_name(self) -> bool:
        """Whether clients bring different columns: of joined ones each its own of the fit."""
        return self.joined

    def predict(
        self, federation: Federation, *, coins: Callable[[PartyId], Coins], drive: Driver
    ) -> list[Array]:
        """Labels of new points, one (m_j,) int32 array a client.

        The server sees of the new points what the policy of the fit shows; see `Clustering.predict`.
        drive: runs the roles of all parties.

        Where columns lie at several clients, rows of new people are found as those of the fit were, and who
        is not at all owners of columns gets -1.  A client that missed the end of the fit gets labels of its
        new points, as long as enough others have their shares of the centers.

        Raises ValueError if the clients or the features are not those of the fit, TooFewReplies, BudgetSpent
        for more points, with those of earlier calls, than `Release(predictions=...)` allows.
        """
        # Joined columns are padded owner by owner.
        d = self.plan.d if self.plan.terms is None else self.plan.terms.public.d
        if federation.names != self.plan.clients or federation.d != d:
            raise InputError(
                f"prediction needs the {len(self.plan.clients)} clients of the fit and d={d} features, got "
                f"{federation.n} clients and d={federation.d}: give each of them, with "
                "at least one row"
            )
        if all(kept is None for kept in self.centers.values()):
            raise InputError("no client heard the result of the fit: fit again to predict")
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
                scale=self.scales.get(party.name),
            )
            for party in federation.parties
        }
        roles[SERVER] = predicting_server(self.disclosure, plan, sizes, self.standing, coins=secrets[SERVER])
        run = drive(roles, plan.description, secrets)
        return heard_labels(run, federation.names, federation.counts)

    def count_labeled(self, federation: Federation) -> int:
        """How many new points a prediction labels: of joined columns those of people whom it finds."""
        plan = self.plan_for(federation, np.ones(1, np.int64), bytes(32))
        return int(plan.rows.foreseen(federation).sum()) if isinstance(plan, JoinedPrediction) else plan.m

    def plan_for(self, federation: Federation, sizes: Array, session: bytes) -> CodedPlan | JoinedPrediction:
        """The plan under which this federation's points are labeled, or its draft where rows are found."""
        if self.joined:
            observed = match_columns(fitted_terms(self.plan).public, federation)
            return join_new_people(self.plan, federation.counts, observed, sizes, session)
        return prediction_plan(self.plan, federation.counts, federation.feature_names, sizes, session)


def match_columns(public: PublicFacts, new: Federation) -> tuple[tuple[int, ...], ...]:
    """Numbers that each client's columns had in the fit.  Raises InputError for other columns."""
    fitted, names = public.features or (), new.feature_names or ()
    for client, before, now in zip(public.clients, public.observed or (), new.observed or (), strict=False):
        had, has = ({listed[f] for f in own} for listed, own in ((fitted, before), (names, now)))
        if had != has:
            raise InputError(
                f"{client} had the columns {names_listed(sorted(had))} in the fit, and has "
                f"{names_listed(sorted(has))} now: bring the same"
            )
    return tuple(tuple(fitted.index(names[f]) for f in own) for own in new.observed or ())


@dataclass(frozen=True)
class JoinedPrediction:
    """What is public before the rows of new people are found whose columns lie at several clients.

    fitted: the plan of the fit.  rows: how they are found, on the terms of the prediction.
    """

    fitted: CodedPlan
    rows: JoinedPlan

    @property
    def description(self) -> bytes:
        """All that is public, which parties compare before the union."""
        return self.rows.description

    def complete(self, held: Array) -> CodedPlan:
        """The plan for the rows of a union that are kept, (m,) bool."""
        return relabeling_plan(self.fitted, self.rows.terms, self.rows.layout(held))

    def client(self, party: Party, coins: Coins, scale: Any) -> Role[tuple[CodedPlan, RowContribution]]:
        """A client finds the rows with the others: the plan, and what it brings."""
        union = yield from self.rows.client(party, coins=coins, scale=scale)
        plan = self.complete(union.held)
        return plan, union.contribution(plan)

    def server(self, coins: Coins) -> Role[CodedPlan]:
        """The server's part of the same."""
        held, _ = yield from self.rows.server(coins=coins)
        return self.complete(held)


def fitted_terms(plan: CodedPlan) -> RunTerms:
    """The terms of a fit.  Raises InputError for a plan that was made without."""
    if plan.terms is None:
        raise InputError("this plan does not say what was asked for: make it by an algorithm's `plan`")
    return plan.terms


def join_new_people(
    plan: CodedPlan,
    counts: tuple[int, ...],
    observed: tuple[tuple[int, ...], ...] | None,
    sizes: Array,
    session: bytes,
) -> CodedPlan | JoinedPrediction:
    """How new people are labeled whose columns lie at several clients, see `prediction_plan`.

    observed: the numbers that each client's columns had in the fit.

    Raises IncompatibleOptions where labels that explain too much were told to nobody.
    """
    fitted = fitted_terms(plan)
    if plan.layout.explained is not None:
        raise IncompatibleOptions(
            {"max_explained": fitted.way.membership.max_explained},
            "labels of new people are told however much they explain: an owner that brings one value for all "
            "reads the columns of others. Fit without it to predict",
            [("max_explained", None)],
        )
    terms = retained_terms(fitted, fitted.public.features, sizes, session)
    terms = replace(terms, public=replace(terms.public, observed=observed))
    rows = terms.way.membership.draft(plan.clients, counts, plan.code.t, session, terms)
    found = isinstance(rows, JoinedPlan)
    return JoinedPrediction(plan, rows) if found else relabeling_plan(plan, terms, rows)


def prediction_plan(
    plan: CodedPlan, counts: tuple[int, ...], features: tuple[str, ...] | None, sizes: Array, session: bytes
) -> CodedPlan:
    """The plan under which so many new points of each client are labeled.

    plan: of the fit.  sizes: (k,) points of the clusters whose centers are retained, which parties compare.
    session: 32 public bytes that no other run uses, nor the fit.
    """
    terms = None if plan.terms is None else retained_terms(plan.terms, features, sizes, session)
    return relabeling_plan(plan, terms, PublicOwnerLayout(counts, plan.layout.multiple))


def retained_terms(
    terms: RunTerms, features: tuple[str, ...] | None, sizes: Array, session: bytes
) -> RunTerms:
    """The terms of a prediction, by those of the fit, see `prediction_plan`."""
    public = replace(terms.public, session=session, features=features)
    return replace(terms, public=public, retained=tuple(sizes.tolist()))


def relabeling_plan(plan: CodedPlan, terms: RunTerms | None, layout: RowLayout) -> CodedPlan:
    """The plan of the fit for new rows, of this layout."""
    # The range depends on the retained clusters (`largest` stays), not on how many points are new,
    # and there may be fewer new points than centers.
    return replace(plan, terms=terms, layout=layout, k=1, n_init=1, init=RandomLabels(), revealing=())


def predicting_client(
    disclosure: Disclosure,
    plan: CodedPlan | JoinedPrediction,
    party: Party,
    centers: ClusterSums | None,
    k: int,
    *,
    coins: Coins,
    allowance: PredictionAllowance | None = None,
    scale: Any = None,
) -> Role[Array]:
    """Share new points, answer for the k retained centers, receive labels.

    centers: this client's shares of them, None if it missed the end of the fit: then it answers nothing, as
    if it were gone, and the others answer for it as long as they are enough.
    allowance: kept from one prediction to the next, see `contribute_new_rows`.  scale: by which it brought
    its columns of the fit to scale alone.
    """
    plan, mine = yield from contribute_new_rows(plan, party, coins, allowance, scale)
    yield from agree_on_plan(plan, party.name)
    if party.name in plan.resting:
        return labels_of_own_rows(mine, (yield from share_rows_and_await(plan, mine, coins)))
    received = yield from share_rows(plan, mine, coins)
    shared = plan
    kept, rows = yield from settle_contributors(shared, mine, received, coins)
    plan = kept.at_work
    if plan.layout.multiple > 1:
        # As the rows that the retained centers are the means of.
        factor = np.array([[plan.layout.multiple % p] for p in rows.basis.primes], rows.basis.dtype)
        scale_rows(rows, np.broadcast_to(factor, (rows.basis.lanes, rows.m)))
    rows.finish_rows()
    answer = yield from disclosure.client(plan, party.name, coins=coins)
    referee = None
    if centers is not None:
        courses = prediction_queries(plan, disclosure.capabilities.exposes, centers.sizes)
        referee = QueryValidator(plan, courses, opens=answer.opens)
    ask = partial(receive_query, plan, k)
    request, missed = yield from ask(Exchange({}, (SERVER,), round=ITERATE, phase="share"))
    while isinstance(request, Query):
        message = None
        if centers is not None and referee is not None:
            if referee.ask(request, missed):
                message = yield from answer(request, DistanceOracle(rows, centers.sizes, lambda: centers))
            else:
                yield from answer.watch(request, centers.sizes)
            referee.opened = answer.opened
        request, missed = yield from ask(answer_query(request.round, message, "distances"))
    if isinstance(request, RunEnded):
        end, labels = request.sizes, np.full(plan.m, -1, np.int32)
        labels = labels if answer.kept is None else answer.kept.labels
    else:
        end = labels = expect_one(expect_messages({SERVER: request}, FinalResult), SERVER).labels
    if referee is not None:
        referee.end(end, missed)
    return mine.restrict_clients(shared, kept).own(labels)


def contribute_new_rows(
    plan: CodedPlan | JoinedPrediction,
    party: Party,
    coins: Coins,
    allowance: PredictionAllowance | None = None,
    scale: Any = None,
) -> Role[tuple[CodedPlan, RowContribution]]:
    """The plan, and what a client brings: rows of its own, or its columns of all, which are found first.

    allowance: spent before anything is said of rows; where these are found by IDs first, how many follow from
    that, so nobody unites IDs once nothing is left.
    """
    if isinstance(plan, JoinedPrediction):
        if allowance is not None and not allowance.left:
            allowance.spend(1)
        plan, mine = yield from plan.client(party, coins, scale)
        if allowance is not None:
            allowance.spend(plan.m)
        return plan, mine
    if allowance is not None:
        allowance.spend(plan.m)
    if isinstance(plan.layout, ColumnLayout):
        rows, way = np.arange(party.points.shape[0]), fitted_terms(plan).way.membership
        return plan, contribute_columns(way.scale, party, party.read(), rows, plan, scale)
    return plan, contribute_own_rows(plan, party)


def predicting_server(
    disclosure: Disclosure,
    plan: CodedPlan | JoinedPrediction,
    sizes: Array,
    standing: BlameState,
    *,
    coins: Coins,
    threads: int = 1,
) -> Role[None]:
    """Find the nearest hidden centers of new points, and tell whom the policy lets know."""
    if isinstance(plan, JoinedPrediction):
        plan = yield from plan.server(coins)
    yield from agree_on_plan(plan, SERVER)
    kept, screening = yield from settle_contributors_at_server(plan, coins, standing)
    source = yield from disclosure.server(kept.at_work, screening, coins=coins, threads=threads)
    labels = yield from source.ending.finish_prediction(source, sizes)
    if labels is not None and kept.resting:
        yield from send_results_with_sizes(kept, labels, sizes, None, next(source.rounds))
