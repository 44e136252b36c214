"""Results of parties that observe different features, put together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secfc.algorithm import Clustering, Outcome, union
from secfc.overlap.columns import Columns
from secfc.overlap.model import Labeler, OverlapModel
from secfc.roles.exchange import SERVER, PartyId
from secfc.roles.transcript import Run

Array = NDArray[Any]


def in_place(columns: Columns, centers: Array, features: Array) -> Array:
    """Centers on some features (k, c), in the federation's order of columns: (k, d), NaN elsewhere."""
    ordered = np.full((len(centers), columns.d), np.nan)
    ordered[:, np.array(columns.places)[features]] = centers
    return ordered


def completed(
    outcomes: Mapping[PartyId, Outcome],
    run: Run,
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
    return replace(union(outcomes, run, counts, k=k, model=model), centers=centers)
