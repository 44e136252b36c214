"""What messages of FedDPKMeans mean to whoever saw them: sums by step, exact or noisy, and centers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from secfc.attacks.reconstruction import KnownSums
from secfc.attacks.views import View
from secfc.feddp.messages import GroupAbout, NoisyCenters
from secfc.feddp.plan import FedDPPlan
from secfc.secure_sum.protocol import visible_sums

Array = NDArray[Any]


def read_sums(view: View) -> list[Array]:
    """All sums that a view tells, as integers, in order: the server's.

    Exact under `ServerNoise`, which it adds itself; as noisy as what is released under `SharedNoise`.
    """
    plan: FedDPPlan = view.plan
    return list(visible_sums(plan.sums, view.messages).values())


def step_sums(view: View) -> KnownSums:
    """Sums and numbers of points by cluster, of every question about clusters (a start's, then steps'), in
    integer steps of the data; of other numbers of clusters than the last (`Cones`) none.

    Of sums about origins: `KnownSums.sums` has these added again, rounded.  Empty without the server.  Noisy
    sums are what they are, so hardly any number of points is whole.
    """
    plan: FedDPPlan = view.plan
    asked = {e.round: e.body for e in view.messages if isinstance(e.body, GroupAbout)}
    told = visible_sums(plan.sums, view.messages)
    found, counted = [], []
    last = len(asked[max(asked)].origins) if asked else 0
    for number, about in sorted(asked.items()):
        total = told.get(number + 3)
        if total is None:
            continue
        k, d = about.origins.shape
        unit = plan.count_unit(about.reach)
        counts = total[k * d : k * d + k]
        if k != last:
            continue
        whole = np.where(counts % unit == 0, counts // unit, -1)
        origins = np.rint(about.origins * plan.scale).astype(np.int64)
        found.append(total[: k * d].reshape(k, d) + whole[:, None] * origins)
        counted.append(whole[:, None])
    if not found:
        return KnownSums(
            np.zeros((0, 0, plan.d), np.int64), np.zeros((0, 0, 1), np.int64), np.zeros(plan.d, int)
        )
    return KnownSums(np.stack(found), np.stack(counted), np.zeros(plan.d, np.int64))


def read_centers(view: View) -> Array | None:
    """The private centers (k, d) in data units, that every client is told; None in an outsider's view."""
    told = [e.body.centers for e in view.messages if isinstance(e.body, NoisyCenters)]
    found: Array | None = told[0] + view.plan.origin if told else None
    return found
