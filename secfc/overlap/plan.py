"""What parties agree on before anything moves."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from field.arrays import Array
from secfc.algorithm import Clustering, PartyOutcome, PublicFacts, join_outcomes
from secfc.data.inputs import require_library
from secfc.errors import InputError
from secfc.federated.columns import Columns
from secfc.federated.model import Labeler, OverlapModel
from secfc.roles.description import LOCAL, DescribedPlan, RunTerms
from secfc.roles.exchange import SERVER, PartyId, SimulatedRun


@dataclass(frozen=True)
class OpenPlan(DescribedPlan):
    """Plan of the paper's own algorithms, in which the server sees centroids: columns, k, seed as in
    `FederatedPlan`.
    """

    columns: Columns
    k: int
    seed: int | None
    terms: RunTerms = field(compare=False, repr=False, metadata=LOCAL)
    unit: ClassVar[float] = 1.0  # values stay floats

    @classmethod
    def of(cls, way: Any, public: PublicFacts, k: int) -> OpenPlan:
        """Raises ValueError, InputError for clients that no feature connects."""
        require_library(type(way).__name__, "estimators")
        columns = Columns.of(public)
        columns.check()
        check_k(way, k, public.m)
        return cls(columns, k, public.seed, RunTerms(way, public))

    @property
    def clients(self) -> tuple[PartyId, ...]:
        return self.columns.clients

    @property
    def d(self) -> int:
        """Features of all clients together."""
        return self.columns.d


def check_k(way: Any, k: Any, m: int) -> None:
    """Raises ValueError for what is no number of clusters of m points."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer):
        raise InputError(
            f"k={k!s}: {type(way).__name__} cannot choose k, since nobody learns the costs of its clusters: "
            "give a number, or let Overlap2(k=None) find as many clusters as the silhouette says"
        )
    if not 1 <= k <= m:
        raise InputError(f"k={k} clusters of m={m} points: 1 <= k <= m is needed")


def local_seed(plan: Any, client: PartyId) -> int | None:
    """A public seed below 2**32 for a client's local clustering, by its name."""
    if plan.seed is None:
        return None
    digest = hashlib.blake2b(f"{plan.seed} {client}".encode(), digest_size=4, person=b"secfc local")
    return int.from_bytes(digest.digest(), "little")


# --------------------------------------------------------------------------------------------------
# Results of parties that observe different features, put together.


def scatter_features(columns: Columns, centers: Array, features: Array) -> Array:
    """Centers on some features (k, c), in the federation's order of columns: (k, d), NaN elsewhere."""
    ordered = np.full((len(centers), columns.d), np.nan)
    ordered[:, np.array(columns.places)[features]] = centers
    return ordered


def complete_clustering(
    outcomes: Mapping[PartyId, PartyOutcome],
    run: SimulatedRun,
    counts: tuple[int, ...],
    *,
    k: int,
    labelers: Mapping[PartyId, Labeler],
) -> Clustering:
    """The clustering of an experiment: labels from clients, and from the server centers where it knows them.

    Where one client alone does, its own; so that they are complete, as only an experiment can make them.
    labelers: of every party, its centers in the order of names.
    """
    server = outcomes[SERVER]
    columns, public = server.plan.columns, server.plan.terms.public
    own = {name: outcomes[name] for name in columns.clients if name in outcomes}
    centers = np.array(server.centers)
    for outcome in own.values():
        centers = np.where(np.isnan(centers), np.asarray(outcome.centers), centers)
    model = OverlapModel(
        columns.features,
        (columns.shared, labelers[SERVER]),
        {name: (columns.mine(name).features, labelers[name]) for name in own},
        public.features is not None,
    )
    return replace(join_outcomes(outcomes, run, counts, k=k, model=model), centers=centers)
