"""Cluster on the columns that all clients share, by an algorithm for equal columns; refine at home, and say
nothing.

With differentially private centers on the common columns every client may use its other columns all the
same: it refines its own labels with centers of these, which it keeps, so nothing more is released and the
ledger's total is that of the algorithm.  (Labels refined so must not feed a later sum: one row would move
the labels of others.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from field.arrays import Array
from field.secrets.coins import Coins
from secfc.algorithm import Capabilities, Clustering, Driver, PartyOutcome, PublicFacts
from secfc.data.federation import Federation
from secfc.data.inputs import WHOLE, check_fields, names_listed, refuse_without_method
from secfc.data.party import Party
from secfc.errors import InputError
from secfc.federated.columns import Columns
from secfc.federated.model import FloatLabeler, OverlapModel
from secfc.roles.exchange import SERVER, PartyId, Role, SimulatedRun
from secfc.run_summary import RunSummary


@dataclass(frozen=True)
class CommonPlan:
    """inner: of the algorithm, on the common features.  common: their numbers, in the order of names.

    named: whether features have names.
    """

    columns: Columns
    common: tuple[int, ...]
    inner: Any
    named: bool

    @property
    def clients(self) -> tuple[PartyId, ...]:
        return self.columns.clients

    @property
    def description(self) -> bytes:
        """Description of the algorithm, which is all that is exchanged."""
        found: bytes = self.inner.description
        return found

    def split_columns(self, party: Party) -> tuple[Array, Array]:
        """A client's points on common features, and on its others, in the order of names."""
        rows = self.columns.rows(party)
        inside = np.isin(self.columns.mine(party.name).features, self.common)
        return rows[:, inside], rows[:, ~inside]


@dataclass(frozen=True, eq=False, repr=False)
class RefinedResult:
    """What a party has in the end: what the algorithm gave, and of a client labels, and centers if it knows
    any: on common features, then on its others, NaN of clusters that it has nothing of.
    """

    plan: CommonPlan
    inner: Any
    labels: Array | None = None
    centers: Array | None = None


@dataclass(frozen=True)
class CommonFeatures:
    """Algorithm for equal columns, such as `SecFC` or `FedDPKMeans`, on the columns that all clients observe.

    Parameters
    ----------
    algorithm
        The algorithm.  The server's points need the common columns, or all.
    home
        Number of steps in which a client refines its labels by its other columns, if the algorithm gives
        every client centers (`FedDPKMeans`); 0 for none.
    """

    algorithm: Any
    home: int = 10

    @property
    def capabilities(self) -> Capabilities:
        """Those of the algorithm that say what its plan holds and what is spent."""
        can: Capabilities = self.algorithm.capabilities
        return Capabilities(
            partial=True,
            counted=can.counted,
            bounded=can.bounded,
            inner=self.algorithm,
            promise=can.promise,
            threshold=can.threshold,
            account=self.account,
        )

    def __post_init__(self) -> None:
        check_fields(
            self, {"algorithm": refuse_without_method("collect", "an algorithm", "SecFC(k=4)"), "home": WHOLE}
        )

    def plan(self, public: PublicFacts) -> CommonPlan:
        """Raises InputError if no feature is common to all clients."""
        columns = Columns.of(public)
        common = tuple(np.flatnonzero(columns.mask.all(axis=0)).tolist())
        if not common:
            raise InputError(
                "no feature is common to all clients: on a chain of overlaps there is no private start, as "
                "any that matches local clusters shows the server what single clients have. Use "
                "FederatedLloyd, which does, or give all clients a common feature."
            )
        held = public.server_points
        if held is not None and held.shape[1] != len(common):
            held = held[:, [columns.places[f] for f in common]]
        elif held is not None:
            order = sorted(columns.places[f] for f in common)
            held = held[:, [order.index(columns.places[f]) for f in common]]
        names = tuple(columns.features[f] for f in common) if public.features is not None else None
        narrow = replace(public, d=len(common), features=names, observed=None, server_points=held)
        return CommonPlan(columns, common, self.algorithm.plan(narrow), names is not None)

    def client(self, plan: CommonPlan, party: Party, *, coins: Coins) -> Role[Any]:
        """The algorithm's role on my common columns; then my own labels, refined at home."""
        common, others = plan.split_columns(party)
        narrow = Party(party.name, common, party.truth, party.ids, persons=party.persons)
        returned = yield from self.algorithm.client(plan.inner, narrow, coins=coins)
        inner: PartyOutcome = self.algorithm.outcome(plan.inner, party.name, returned)
        if inner.centers is None or inner.labels is None:
            return RefinedResult(plan, returned, inner.labels)
        steps = self.home if others.shape[1] else 0
        labels, own = refine_labels(common, others, inner.centers, inner.labels, steps)
        whole = inner.centers if own is None else np.hstack([inner.centers, own])
        return RefinedResult(plan, returned, labels, whole)

    def server(self, plan: CommonPlan, *, rng: np.random.Generator, coins: Coins) -> Role[Any]:
        """The algorithm's, which sees common features only."""
        return RefinedResult(plan, (yield from self.algorithm.server(plan.inner, rng=rng, coins=coins)))

    def outcome(self, plan: Any, party: PartyId, returned: RefinedResult) -> PartyOutcome:
        """What the algorithm gives, with a client's refined labels.

        The plan is that of `returned`: outcomes keep that of the algorithm, and `Scaled` gives theirs.
        """
        plan = returned.plan
        found: PartyOutcome = self.algorithm.outcome(plan.inner, party, returned.inner)
        if party != SERVER:
            return replace(found, labels=returned.labels)
        names = [plan.columns.features[f] for f in plan.common]
        return replace(found, learned=(*found.learned, f"all of this on {names_listed(names)} only"))

    def account(self, result: Clustering, federation: Federation, *, ids: str | None = None) -> RunSummary:
        """What the algorithm says of its run, and on which columns."""
        inner: RunSummary = self.algorithm.account(result, federation, ids=ids)
        return replace(
            inner,
            title=f"{inner.title}, on common features",
            parameters={**inner.parameters, "home": self.home},
        )

    def collect(
        self, outcomes: Mapping[PartyId, PartyOutcome], run: SimulatedRun, counts: tuple[int, ...]
    ) -> Clustering:
        """The algorithm's result with refined labels; its centers are of the common features, in order of
        names.

        New points may have any columns where clients know centers: then everybody uses those on common
        features, and a client of the fit its own as well.  Else they need all common columns.
        """
        results = {name: had.inner for name, had in run.results.items()}
        found: Clustering = self.algorithm.collect(outcomes, replace(run, results=results), counts)
        ended = {name: had for name, had in run.results.items() if name != SERVER}
        return replace(found, model=common_model(ended, outcomes[SERVER].centers, found.model))


def common_model(ended: Mapping[PartyId, RefinedResult], centers: Array | None, inner: Any) -> Any:
    """What labels new points: nearest centers if clients know these, else the algorithm's model."""
    if not ended or inner is None:
        return None
    plan = next(iter(ended.values())).plan
    common = np.array(plan.common)
    names = tuple(plan.columns.features[f] for f in plan.common)
    if centers is None or any(had.centers is None for had in ended.values()):
        return CommonModel(names, inner)
    own = {}
    for name, had in ended.items():
        mine = plan.columns.mine(name).features
        known = np.concatenate([common, mine[~np.isin(mine, common)]])[: np.asarray(had.centers).shape[1]]
        own[name] = known, FloatLabeler(np.asarray(had.centers))
    return OverlapModel(plan.columns.features, (common, FloatLabeler(centers)), own, plan.named)


@dataclass(frozen=True, eq=False, repr=False)
class CommonModel:
    """The algorithm's own model, for new points that have all common columns, whatever else they have."""

    names: tuple[str, ...]
    inner: Any
    by_name: ClassVar[bool] = True

    def predict(
        self, federation: Federation, *, coins: Callable[[PartyId], Coins], drive: Driver
    ) -> list[Array]:
        """Labels of new points: one (m_j,) int32 array a client.  Raises InputError for a missing column."""
        parties = []
        for party in federation.parties:
            have = party.features or federation.feature_names or ()
            if missing := [name for name in self.names if name not in have]:
                raise InputError(
                    f"client {party.name!r} has no column {missing[0]!r}: its points are compared on "
                    f"{names_listed(self.names)}, over shares. Give all of these."
                )
            points = party.read()[:, [have.index(name) for name in self.names]]
            parties.append(Party(party.name, points, party.truth, party.ids))
        labels: list[Array] = self.inner.predict(Federation(tuple(parties)), coins=coins, drive=drive)
        return labels


def refine_labels(
    common: Array, others: Array, centers: Array, labels: Array, steps: int
) -> tuple[Array, Array | None]:
    """Labels (m,) int32 by centers (k, c) that are given and others (k, o) of one's own, in a few steps; and
    these, None if there are none.

    A cluster of which the client has no point has no center on its other columns (NaN), and is not offered.
    """
    from scipy.spatial.distance import cdist

    near = cdist(common, np.nan_to_num(centers), "sqeuclidean")
    near[:, np.isnan(centers).any(axis=1)] = np.inf
    own = None
    for _ in range(steps):
        there = np.unique(labels[labels >= 0])
        if not len(there):
            break
        own = np.full((len(centers), others.shape[1]), np.nan)
        own[there] = [others[labels == h].mean(axis=0) for h in there]
        far = near[:, there] + cdist(others, own[there], "sqeuclidean")
        new = there[far.argmin(axis=1)].astype(np.int32)
        if np.array_equal(new, labels):
            break
        labels = new
    return labels, own
