"""What a test can reach at most: detections at a rate of false alarms, for a shift, and for (epsilon, delta).

To tell N(0, 1) from N(mu, 1) is as hard as to tell neighbors apart after a Gaussian mechanism of noise
multiplier 1/mu (Dong, Roth and Su, Gaussian Differential Privacy, 2022), and compositions of these are one,
whose squares add up.  Membership in a cluster whose exact center is opened is a shift as well:
sqrt(d / size), see `secfc.attacks.membership`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from secfc.privacy.accountant import Cost
from secfc.privacy.events import Event


@dataclass(frozen=True)
class Shift:
    """The test of N(0, 1) against N(mu, 1), the best one against whatever is such a shift; mu >= 0."""

    mu: float

    def __post_init__(self) -> None:
        if not 0 <= self.mu < math.inf:
            raise ValueError(f"mu={self.mu}: a shift is a finite number of deviations, not below 0")

    @classmethod
    def of_center(cls, d: float, size: float) -> Shift:
        """One of `size` points of d independent features, whose exact mean is seen by who knows their law.

        With dependent features d is how many independent ones say as much.
        """
        if not (d > 0 and size > 0):
            raise ValueError(f"d={d}, size={size}: both must be positive")
        return cls(math.sqrt(d / size))

    @classmethod
    def of_event(cls, event: Event) -> Shift:
        """All that the event composes, where it is Gaussian noise.

        A discrete Gaussian is taken for the continuous one of its zCDP bound, a sum of such for the one that
        it is a rounding of.

        Raises ValueError for other noise, or none.
        """
        cost = Cost.of(event)
        if not cost.private or cost.laplace or cost.pure:
            raise ValueError(
                "the event holds other than Gaussian noise, or none: no single shift describes it; "
                "use `most` with its epsilon and delta"
            )
        return cls(math.sqrt(cost.gaussian + 2 * cost.rho))

    @property
    def auc(self) -> float:
        """The area under the curve: how often a member's score exceeds another's."""
        return _cdf(self.mu / math.sqrt(2))

    def rate(self, alarms: float) -> float:
        """True detections at this rate of false alarms, in (0, 1)."""
        return _cdf(NormalDist().inv_cdf(alarms) + self.mu)


def most(epsilon: float, delta: float, alarms: float) -> float:
    """No test detects more at this rate of false alarms, under (epsilon, delta)-differential privacy."""
    # P <= e^epsilon Q + delta for the event, and for its complement.
    if epsilon > 700:
        return 1.0
    return min(1.0, math.exp(epsilon) * alarms + delta, 1 - math.exp(-epsilon) * (1 - delta - alarms))


def _cdf(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2
