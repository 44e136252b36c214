"""k-FED on the common interface: one shot of local centers, no privacy (see `secfc.kfed`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.coins import Coins
from secfc.agreement import agree_with_server
from secfc.centers import CentersModel, nearest_center
from secfc.clustering import Clustering, Public, heard
from secfc.description import LOCAL, Terms, described, digest_of
from secfc.exchange import (
    ITERATE,
    SERVER,
    SHARE,
    Exchange,
    FaultyClient,
    FaultyServer,
    PartyId,
    Role,
    everyone,
    only,
    take,
)
from secfc.federation import Party
from secfc.kfed import local_centers, merge_centers
from secfc.messages import CenterLabels, LocalCenters, OwnLabels
from secfc.simulate import Run

Array = NDArray[Any]


@dataclass(frozen=True)
class OneShotPlan:
    """Public parameters; `seed` makes the clients' local clustering reproducible."""

    clients: tuple[PartyId, ...]
    k: int
    k_local: int
    seed: int
    counts: tuple[int, ...]
    d: int
    terms: Terms | None = field(default=None, compare=False, repr=False, metadata=LOCAL)

    @cached_property
    def description(self) -> bytes:
        """All that is public, which the server and every client compare (`secfc.description`)."""
        return described(self, self.terms)

    def digest(self) -> bytes:
        """32 bytes that agree exactly when two parties hold the same public parameters."""
        return digest_of(self.description)


@dataclass(frozen=True)
class KFed:
    """k-FED (Dennis, Li, Smith, ICML 2021).  k_local: clusters a client looks for in its own points.

    A client has at most k_local local clusters, fewer if it has fewer distinct points.  Works well while
    k_local <= sqrt(k).  Non-private: the server receives local means of private points.
    """

    k: int
    k_local: int
    seed: int = 0

    def plan(self, public: Public) -> OneShotPlan:
        """Raises ValueError if k clusters cannot come of it."""
        if not 1 <= self.k_local <= self.k:
            raise ValueError(f"k_local={self.k_local}: it must lie in [1, k={self.k}]")
        if self.k > public.m:
            raise ValueError(f"k={self.k} clusters of m={public.m} points: lower k or add points")
        terms = Terms(self, public)
        return OneShotPlan(public.clients, self.k, self.k_local, self.seed, public.counts, public.d, terms)

    def client(self, plan: OneShotPlan, party: Party, *, coins: Coins) -> Role[Array]:
        """Cluster my points, send the centers, label my points by what became of my centers."""
        yield from agree_with_server(plan, party.name)
        points = party.read().astype(np.float64)
        number = plan.clients.index(party.name)
        centers, _ = local_centers(points, plan.k_local, plan.seed * len(plan.clients) + number)
        mine = nearest_center(points, centers)
        inbox = yield Exchange({SERVER: LocalCenters(centers)}, (SERVER,), round=SHARE, phase="cluster")
        merged = only(take(inbox, CenterLabels), SERVER)
        if merged.labels.shape != (len(centers),) or merged.centers.shape != (plan.k, plan.d):
            raise FaultyServer(SERVER, f"merged other than {len(centers)} local centers into k={plan.k}")
        labels: Array = merged.labels[mine].astype(np.int32)
        yield Exchange({SERVER: OwnLabels(labels)}, round=ITERATE, phase="label")
        return labels

    def server(self, plan: OneShotPlan, *, rng: np.random.Generator, coins: Coins) -> Role[Array]:
        """Group the local centers, tell every client what became of its own."""
        yield from agree_with_server(plan, SERVER)
        arrived = yield Exchange({}, plan.clients, round=SHARE, phase="receive")
        inbox = everyone(take(arrived, LocalCenters), plan.clients)
        for sender, message in inbox.items():
            rows, d = message.centers.shape
            if not 1 <= rows <= plan.k_local or d != plan.d:
                raise FaultyClient(sender, f"sent {rows} local centers of {d} features")
        seed = int(rng.integers(2**31))
        centers, groups = merge_centers([inbox[c].centers for c in plan.clients], plan.k, seed)
        answers = {
            c: CenterLabels(group.astype(np.int32), centers)
            for c, group in zip(plan.clients, groups, strict=True)
        }
        arrived = yield Exchange(answers, plan.clients, round=SHARE, accept=ITERATE, phase="merge")
        for sender, own in take(arrived, OwnLabels).items():
            count = plan.counts[plan.clients.index(sender)]
            if len(own.labels) != count or int(own.labels.max()) >= plan.k:
                raise FaultyClient(sender, f"labeled other points than its {count}, or beyond k={plan.k}")
        return centers

    def collect(self, plan: OneShotPlan, run: Run, counts: tuple[int, ...]) -> Clustering:
        """The clustering; its cost is not known to any party, see `metrics.cost`."""
        return Clustering(
            k=plan.k,
            labels=heard(run, plan.clients, counts),
            cost=None,
            n_iter=1,
            converged=True,
            history=(),
            centers=run.results[SERVER],
            plan=plan,
            learned=("every client's local centers in the clear", "all labels"),
            model=CentersModel(run.results[SERVER]),
            transcript=run.transcript,
            seconds=run.seconds,
        )
