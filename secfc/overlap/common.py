"""Cluster on the columns that all clients share, by an algorithm for equal columns; refine at home, and say
nothing.

With differentially private centers on the common columns every client may use its other columns all the
same: it refines its own labels with centers of these, which it keeps, so nothing more is released and the
ledger's total is that of the algorithm.  (Labels refined so must not feed a later sum: one row would move
the labels of others.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from field.secrets.coins import Coins
from secfc.account import Account
from secfc.algorithm import Clustering, Outcome, Public
from secfc.data.federation import Federation
from secfc.data.inputs import InputError, names_listed
from secfc.data.party import Party
from secfc.overlap.columns import Columns
from secfc.roles.exchange import SERVER, PartyId, Role
from secfc.roles.transcript import Run

Array = NDArray[Any]


@dataclass(frozen=True)
class CommonPlan:
    """inner: of the algorithm, on the common features.  common: their numbers, in the order of names."""

    columns: Columns
    common: tuple[int, ...]
    inner: Any

    @property
    def clients(self) -> tuple[PartyId, ...]:
        return self.columns.clients

    @property
    def description(self) -> bytes:
        """That of the algorithm, which is all that is exchanged."""
        found: bytes = self.inner.description
        return found

    def parted(self, party: Party) -> tuple[Array, Array]:
        """A client's points on common features, and on its others, in the order of names."""
        rows = self.columns.rows(party)
        inside = np.isin(self.columns.mine(party.name).features, self.common)
        return rows[:, inside], rows[:, ~inside]


@dataclass(frozen=True)
class CommonFeatures:
    """An algorithm for equal columns, such as `SecFC` or `FedDPKMeans`, on those that all clients observe.

    home: steps in which a client refines its labels by its other columns, where the algorithm gives every
    client centers (`FedDPKMeans`); 0 for none.  The server's points need the common columns, or all.
    """

    algorithm: Any
    home: int = 10
    partial: ClassVar[bool] = True  # clients may observe different features

    def plan(self, public: Public) -> CommonPlan:
        """Raises InputError if no feature is common to all clients."""
        columns = Columns.of(public)
        common = tuple(np.flatnonzero(columns.mask.all(axis=0)).tolist())
        if not common:
            raise InputError(
                "no feature is common to all clients: on a chain of overlaps there is no private start, as "
                "any that matches local clusters shows the server what single clients have. Use "
                "MaskedLloyd, which does, or give all clients a common feature."
            )
        held = public.server_points
        if held is not None and held.shape[1] != len(common):
            held = held[:, [columns.places[f] for f in common]]
        elif held is not None:
            order = sorted(columns.places[f] for f in common)
            held = held[:, [order.index(columns.places[f]) for f in common]]
        names = tuple(columns.features[f] for f in common) if public.features is not None else None
        narrow = replace(public, d=len(common), features=names, observed=None, server_points=held)
        return CommonPlan(columns, common, self.algorithm.plan(narrow))

    def client(self, plan: CommonPlan, party: Party, *, coins: Coins) -> Role[Any]:
        """The algorithm's role on my common columns; then my own labels, refined at home."""
        common, others = plan.parted(party)
        narrow = Party(party.name, common, party.truth, party.ids)
        returned = yield from self.algorithm.client(plan.inner, narrow, coins=coins)
        inner: Outcome = self.algorithm.outcome(plan.inner, party.name, returned)
        labels = inner.labels
        if inner.centers is not None and labels is not None and others.shape[1] and self.home:
            labels = refined(common, others, inner.centers, labels, self.home)
        return returned, labels

    def server(self, plan: CommonPlan, *, rng: np.random.Generator, coins: Coins) -> Role[Any]:
        """The algorithm's, which sees common features only."""
        return (yield from self.algorithm.server(plan.inner, rng=rng, coins=coins))

    def outcome(self, plan: CommonPlan, party: PartyId, returned: Any) -> Outcome:
        """What the algorithm gives, with a client's refined labels."""
        if party == SERVER:
            inner: Outcome = self.algorithm.outcome(plan.inner, SERVER, returned)
            names = [plan.columns.features[f] for f in plan.common]
            return replace(inner, learned=(*inner.learned, f"all of this on {names_listed(names)} only"))
        own, labels = returned
        found: Outcome = self.algorithm.outcome(plan.inner, party, own)
        return replace(found, labels=labels)

    def account(self, result: Clustering, federation: Federation, *, ids: str | None = None) -> Account:
        """What the algorithm says of its run, and on which columns."""
        inner: Account = self.algorithm.account(result, federation, ids=ids)
        return replace(
            inner,
            title=f"{inner.title}, on common features",
            parameters={**inner.parameters, "home": self.home},
        )

    def collect(self, outcomes: Mapping[PartyId, Outcome], run: Run, counts: tuple[int, ...]) -> Clustering:
        """The algorithm's result with refined labels; its centers are of the common features, in order of
        names.

        It keeps no model: label new points with the algorithm on common columns.
        """
        results = {name: had if name == SERVER else had[0] for name, had in run.results.items()}
        found: Clustering = self.algorithm.collect(outcomes, replace(run, results=results), counts)
        return replace(found, model=None)


def refined(common: Array, others: Array, centers: Array, labels: Array, steps: int) -> Array:
    """Labels (m,) int32 by centers (k, c) that are given and others (k, o) of one's own, in a few steps.

    A cluster of which the client has no point has no center on its other columns, and is not offered.
    """
    from scipy.spatial.distance import cdist

    near = cdist(common, np.nan_to_num(centers), "sqeuclidean")
    near[:, np.isnan(centers).any(axis=1)] = np.inf
    for _ in range(steps):
        there = np.unique(labels[labels >= 0])
        own = np.stack([others[labels == h].mean(axis=0) for h in there])
        new = there[(near[:, there] + cdist(others, own, "sqeuclidean")).argmin(axis=1)].astype(np.int32)
        if np.array_equal(new, labels):
            break
        labels = new
    return labels
