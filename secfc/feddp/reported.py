"""What a report may say of a private run to everybody: public facts, releases, and what follows from them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from secfc.account import Noisy
from secfc.feddp.aggregator import ServerResult
from secfc.feddp.noise import Honest
from secfc.feddp.plan import FedDPPlan
from secfc.lloyd.elbow import Elbow

Array = NDArray[Any]

SOURCES = {
    "given": "as given: known without looking at the data",
    "public data": "from the server's points",
    "private data": "READ OFF THE DATA, which no noise protects",
}


def setup(plan: FedDPPlan) -> tuple[tuple[str, str], ...]:
    """Who is protected, from whom, and what rows are cut to."""
    sums, honest = plan.sums, Honest.of(plan.sums)
    if plan.placement.server_view is not None:
        noise = "added by the server, which has seen the exact sums"
    else:
        there = f", {honest.most} where nobody is lost" if honest.most > honest.fewest else ""
        noise = f"dealt inside the shares: that of {honest.fewest} honest clients suffices{there}"
    few = "no member learns" if sums.code.t == 1 else f"no {sums.code.t} members together learn"
    return (
        ("Protected", f"{plan.neighbors}: epsilon = {plan.budget.epsilon:g}, delta = {plan.budget.delta:g}"),
        (
            "Sums",
            f"t = {sums.code.t}: {few} anything but the sum, of {len(sums.committee)} who hold shares",
        ),
        ("Losses", f"a sum of fewer than {sums.least} of n = {sums.n} clients is refused"),
        ("Noise", noise),
        ("Clipping", f"rows longer than {plan.radius.value:.6g} are shortened to it ({plan.radius.source})"),
    )


def assumed(plan: FedDPPlan) -> dict[str, Any]:
    """What the promise takes for public.  None of it may come from a look at clients' data."""
    k, own = plan.k, len(plan.points)
    facts: dict[str, Any] = {
        "clients": f"the names of n = {plan.sums.n} clients, and that they take part",
        "clusters": f"k chosen among {k.least} to {plan.most}" if isinstance(k, Elbow) else f"k = {k}",
        "features": f"d = {plan.d}, their names and units",
        "radius": f"{plan.radius.value:.6g}, {SOURCES[plan.radius.source]}",
        "server's points": f"{own:,}, which are published in effect" if own else "none",
    }
    if plan.by_client:
        facts["rows a client"] = f"about {plan.rows:,}, as given"
    return facts


def releases(found: ServerResult) -> tuple[Noisy, ...]:
    """Every release of the run, with its noise."""
    return tuple(Noisy(one.what, one.size, one.noise, one.signal) for one in found.released)


def drowned(found: ServerResult, epsilon: float) -> str | None:
    """Why clusters cannot be told apart, and what helps; None where noise is small beside gaps.

    A center whose noise moves it more than half the way to its nearest neighbor may lie in that one's
    cluster; one whose count is within the noise is not the clients' at all.  Both follow from the released
    centers and noisy counts, so they may be published.
    """
    centers, blur = found.centers, found.blur
    if not (blur > 0).any():
        return (
            f"no cluster of the k={len(centers)} has more points than noise at epsilon={epsilon:g}: clients' "
            "points have not moved the centers in the last step. Fewer clusters, more rows or a larger "
            "epsilon help"
        )
    if len(centers) < 2:
        return None
    gaps = np.array([[np.linalg.norm(a - b) for a in centers] for b in centers])
    np.fill_diagonal(gaps, np.inf)
    lost = int((blur > gaps.min(axis=1) / 2).sum())
    if not lost:
        return None
    which = "1 center lies" if lost == 1 else f"{lost} centers lie"
    return (
        f"{which} nearer to another of the k={len(centers)} than twice the noise on it at "
        f"epsilon={epsilon:g} (largest noise {blur.max():.3g}, in data units): such clusters may be one, or "
        "noise alone. Fewer clusters, more rows or a larger epsilon help; a smaller bound does if few rows "
        "are longer"
    )
