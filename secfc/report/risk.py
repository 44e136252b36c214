"""What opened centers tell of who was clustered: the law for exact ones, the budget for noisy ones.

A center of s points of d independent features tells whoever knows their law whether a person is among them
with a shift of sqrt(d / s) (`secfc.attacks.membership`): the smallest cluster is the most at risk.  With
dependent features it is as of fewer, so this is the law's figure at most.  Under differential privacy nobody
detects more than the budget allows, whatever is known.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from secfc.algorithm import Clustering
from secfc.privacy.ledger import EVERYBODY
from secfc.privacy.tradeoff import Shift, most

ALARMS = 0.01


@dataclass(frozen=True)
class Risk:
    """How many of 1 that took part are recognized at a rate `alarms` of false alarms.

    size: points of the smallest cluster whose center is open, and shift: of one of them, both None where the
    centers carry noise.  auc: how often a member looks more like one than another person does, None then.
    detected: expected of exact centers, and at most of noisy ones.  unit: who is recognized.
    """

    detected: float
    alarms: float
    size: int | None = None
    shift: float | None = None
    auc: float | None = None
    unit: str = "data point"

    @property
    def sentence(self) -> str:
        """For people."""
        hundred = f"{100 * self.detected:.0f} of 100" if self.detected >= 0.005 else "fewer than 1 of 100"
        at = f"at {100 * self.alarms:.0f} false alarm in 100"
        if self.size is None:
            who = "people" if self.unit == "data point" else "clients"
            return f"whoever took part: at most {hundred} {who} are recognized {at}, whatever is known"
        points = "1 point" if self.size == 1 else f"{self.size:,} points"
        said = (
            f"the smallest cluster whose center is open has {points}: who knows the law of the data "
            f"recognizes about {hundred} of its people {at} (shift sqrt(d / size) = {self.shift:.2f}; less "
            "where features depend on one another)"
        )
        return f"{said}. The center of one point is that point" if self.size == 1 else said

    def as_object(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


def risk(result: Clustering, labels: Any, delta: float, *, noisy: bool) -> Risk | None:
    """The risk of a run with labels (m,), None where no center was opened, or none has a point.

    noisy: whether a budget covers what was released, which is at this delta.
    """
    centers = result.centers
    if centers is None or not np.isfinite(centers).any():
        return None
    if noisy:
        epsilon = result.ledger.epsilon(delta, EVERYBODY)
        if math.isinf(epsilon):
            return None
        return Risk(most(epsilon, delta, ALARMS), ALARMS, unit=result.ledger.neighbors.unit)
    sizes = np.bincount(labels[labels >= 0], minlength=len(centers))[: len(centers)]
    # Features that a cluster's clients do not observe are no coordinates of its center.
    known = np.isfinite(centers).sum(axis=1)
    there = (sizes > 0) & (known > 0)
    if not there.any():
        return None
    shifts = np.where(there, np.sqrt(known / np.maximum(sizes, 1)), 0.0)
    h = int(shifts.argmax())
    law = Shift(float(shifts[h]))
    return Risk(law.rate(ALARMS), ALARMS, int(sizes[h]), law.mu, law.auc)
