"""Bounds for clients' statistics, from clients simulated out of the server's public points.

Nothing here sees a client's data: bounds depend on public points, earlier noisy releases and a seed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secfc.feddp.clients import Statistics
from secfc.feddp.noise import Laplace, Noise
from secfc.feddp.plan import FedDPPlan
from secfc.feddp.statistics import LEAST_REACH

Array = NDArray[Any]

SIMULATED = 100


def client_bounds(
    plan: FedDPPlan,
    noises: tuple[Noise | None, ...],
    statistic: Callable[[Statistics], list[Array]],
    weights: Array,
    seed: int,
) -> tuple[int, ...]:
    """Where to clip each vector of a statistic: a quantile of its norms over simulated clients.

    A simulated client draws plan.rows rows among the server's points by weights (s,).  The norm is L1 where
    the noise is Laplace noise.  Empty where single points are protected: then rows are clipped alone.
    """
    if not plan.by_client:
        return ()
    rng = np.random.default_rng(seed)
    norms: list[list[float]] = []
    for _ in range(SIMULATED):
        drawn = rng.choice(len(plan.points), plan.rows, p=weights / weights.sum())
        vectors = statistic(Statistics(plan, plan.points[drawn] + plan.origin))
        norms.append(
            [
                float(np.linalg.norm(v.astype(np.float64), 1 if isinstance(noise, Laplace) else 2))
                for v, noise in zip(vectors, noises, strict=True)
            ]
        )
    quantiles = np.quantile(norms, plan.variant.client_quantile, axis=0)
    return tuple(max(LEAST_REACH, int(q)) for q in quantiles)
