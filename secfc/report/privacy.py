"""What a run costs in differential privacy, by view: in sentences and for programs."""

from __future__ import annotations

import math
from typing import Any

from secfc.privacy.ledger import EVERYBODY, Ledger
from secfc.roles.exchange import SERVER

DELTA = 1e-6  # for runs that name none


def spent(ledger: Ledger, delta: float) -> list[str]:
    """What each view costs in total, and what was released."""
    lines = []
    for view, epsilon in totals(ledger, delta).items():
        whose = f"the {view}" if view == SERVER else view
        who = "everybody, from what all may see" if view == EVERYBODY else f"{whose}, from all it sees"
        if math.isinf(epsilon):
            lines.append(f"{who}: not private, epsilon is infinite")
        else:
            lines.append(f"{who}: epsilon = {epsilon:.4g} at delta = {delta:g}, {ledger.neighbors}")
    lines += [f"released to {', '.join(sorted(e.seen_by))}: {e.what}" for e in ledger.entries]
    return lines


def totals(ledger: Ledger, delta: float) -> dict[str, float]:
    """The proved epsilon of every view."""
    common = ledger.epsilon(delta, EVERYBODY)
    # Where nothing is promised to anybody, no view has less.
    views = (EVERYBODY,) if math.isinf(common) else ledger.views
    return {view: ledger.epsilon(delta, view) for view in views}


def as_object(ledger: Ledger, delta: float) -> dict[str, Any]:
    """The same for programs; an infinite epsilon is null."""
    return {
        "neighbors": str(ledger.neighbors),
        "delta": delta,
        "epsilon": {v: None if math.isinf(e) else e for v, e in totals(ledger, delta).items()},
        "released": [{"what": e.what, "seen_by": sorted(e.seen_by)} for e in ledger.entries],
    }
