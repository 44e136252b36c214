"""How much noise a budget buys: multipliers from a *total* epsilon and delta, and over-budget refusal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import numpy as np

from field.arrays import Array
from secfc.data.inputs import REAL, check_fields, require_library
from secfc.errors import InputError, OverBudget, PrivacyError
from secfc.privacy import accountant
from secfc.privacy.events import DiscreteGaussian, DistributedDiscreteGaussian, Event

# Calibration solves to this precision, towards more noise.
_PRECISION = 1e-6


# A promise that fails with more than this probability is none.
MOST_DELTA = 0.1


def delta_warning(delta: float) -> str | None:
    """Why such a delta promises nothing to a person, in a sentence; None if it may."""
    if delta <= MOST_DELTA:
        return None
    return (
        f"delta={delta:g}: with at most that probability the promise to a person fails, and above "
        f"{MOST_DELTA} it is none. Give less than 1 / number of units, such as 1e-6"
    )


@dataclass(frozen=True)
class Budget:
    """Total (epsilon, delta) for everything that one view receives.

    Parameters
    ----------
    epsilon
        Above 0 and finite.
    delta
        Probability that the claim fails, in [0, 1).

    Raises
    ------
    InputError
        For numbers out of these ranges.
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        check_fields(self, {"epsilon": REAL, "delta": REAL})
        if not self.epsilon > 0:
            raise InputError(f"epsilon={self.epsilon} must be positive: with less nothing can be released")
        if math.isinf(self.epsilon):
            raise InputError("epsilon=inf promises nothing: leave the noise out, as FederatedLloyd does")
        if not 0 <= self.delta < 1:
            raise InputError(
                f"delta={self.delta} must be in [0, 1), as 1e-6: the probability that the claim fails"
            )

    def check_provable(self) -> Budget:
        """This budget, if noise proves it which is sampled close to its law, not from it.

        exp(epsilon) 2**20 `field.ring.noise.DISTANCE` <= 2**-25 delta: what a million entries pay is then
        lost in the rounding of `gaussian_multiplier`.  Raises InputError beyond.
        """
        if self.delta == 0:
            return self
        most = max(1.0, math.log(self.delta) + 55 * math.log(2))
        if self.epsilon > most:
            raise InputError(
                f"epsilon={self.epsilon:g}: Gaussian noise of one party proves at most {most:.2f} at "
                f"delta={self.delta:g}. Give at most {math.floor(100 * most) / 100:g}, or let clients add "
                "the noise in shares"
            )
        return self

    def check(self, event: Event) -> None:
        """Call before data is touched.  Raises OverBudget if the event costs more than the budget."""
        cost = accountant.epsilon(event, self.delta)
        if cost > self.epsilon * (1 + 1e-9):
            raise OverBudget(
                f"these steps cost epsilon={cost:.6g} at delta={self.delta:g}, more than the budget of "
                f"epsilon={self.epsilon:g}: use more noise or fewer steps, or raise the budget"
            )


@lru_cache(maxsize=1024)  # plans are made by every party, with one budget
def gaussian_multiplier(budget: Budget) -> float:
    """Least noise multiplier of one Gaussian mechanism that meets a budget.

    Parameters
    ----------
    budget
        Total of the release.

    Returns
    -------
    float
        Standard deviation of the noise over the L2 sensitivity.

    References
    ----------
    Balle and Wang, Improving the Gaussian Mechanism for Differential Privacy, ICML 2018.
    """
    if budget.delta == 0:
        raise PrivacyError(
            "delta=0: Gaussian noise never meets it. Give a delta well below 1 / number of units, or use "
            "Laplace noise"
        )
    require_library("a budget of differential privacy", "dp")
    from dp_accounting import get_sigma_gaussian

    # The root is found to an absolute 1e-12; a relative 1e-9 puts it on the safe side.
    return float(get_sigma_gaussian(budget.epsilon, budget.delta)) * (1 + 1e-9)


@lru_cache(maxsize=256)
def discrete_multiplier(budget: Budget, honest: int = 1, sensitivity: float = 0.0) -> float:
    """The noise multiplier z of discrete Gaussian noise, of `honest` contributors together, for the budget.

    sensitivity: in steps of the integers, of the statistic that z times it is added to; the more, the closer
    is the noise to a continuous one.  0: known by its zCDP bound alone.  Divided up among releases of this
    sensitivity and more (`split_budget`), z meets the budget too: 1 / (z**2 / w - c) <= w / (z**2 - c) for w
    <= 1.
    """

    def event(factor: float) -> Event:
        each = factor / math.sqrt(honest)
        # Below, the sum's zCDP bound has a further term; above, so many entries are a run of any size.
        if each * sensitivity < 3:
            return DiscreteGaussian(factor)
        return DistributedDiscreteGaussian(each, each * sensitivity, honest, 1 << 36)

    return least_factor(budget, event)


def split_budget(budget: Budget, weights: Sequence[float]) -> tuple[float, ...]:
    """Noise multipliers of Gaussian steps that together meet a budget: sigma / sqrt(w_i), sum w_i = 1.

    Parameters
    ----------
    budget
        Total of all steps.
    weights
        Positive shares of the budget, one per step; normalized here.

    Returns
    -------
    tuple of float
        One multiplier per step.  Gaussian mechanisms with multipliers z_i compose to one with z**-2 = sum
        z_i**-2, so the split loses nothing.
    """
    if not weights or not all(0 < w < math.inf for w in weights):
        raise InputError(f"weights={tuple(weights)} must be positive numbers, one a step")
    sigma, total = gaussian_multiplier(budget.check_provable()), math.fsum(weights)
    return tuple(sigma / math.sqrt(w / total) for w in weights)


def least_factor(budget: Budget, make: Callable[[float], Event]) -> float:
    """Least factor, to a relative 1e-6, by which noise must be scaled to meet a budget.

    Parameters
    ----------
    budget
        Total of all releases.
    make
        Event of all releases whose noise is scaled by a factor; its cost must fall as the factor rises.

    Returns
    -------
    float
        Found by bisection on the accountant's total, for any mix of mechanisms.

    Raises
    ------
    PrivacyError
        If no amount of noise meets the budget.
    """

    def meets(factor: float) -> bool:
        return accountant.epsilon(make(factor), budget.delta) <= budget.epsilon

    high = 1.0
    while not meets(high):
        high *= 4
        if high > 2.0**60:
            raise PrivacyError(
                f"no noise brings these steps within epsilon={budget.epsilon:g}, delta={budget.delta:g}: one "
                "of them is not private, or delta is smaller than the samplers' own distance"
            )
    low = high / 4
    while meets(low):
        high, low = low, low / 4
        if low < 2.0**-60:
            return high
    from scipy.optimize import brentq

    def excess(exponent: float) -> float:
        """log of the cost over the budget; nearly a straight line in the exponent."""
        cost = accountant.epsilon(make(math.exp(exponent)), budget.delta)
        return math.log(cost / budget.epsilon) if 0 < cost < math.inf else math.copysign(50, cost - 1)

    # The root is found to a third of the precision, then put on the safe side.
    root = brentq(excess, math.log(low), math.log(high), xtol=_PRECISION / 3)
    found = math.exp(float(root) + _PRECISION / 2)
    while not meets(found):  # the accountant's own grid is coarser
        found *= 1 + _PRECISION
    return found


# --------------------------------------------------------------------------------------------------
# Bounds on contributions: numbers that must not depend on private data, with where they come from.

Source = Literal["given", "public data", "private data"]


@dataclass(frozen=True)
class Bound:
    """Radius or clipping bound in data units, and its source.

    Parameters
    ----------
    value
        The bound, above 0 and finite.
    source
        "given", "public data" or "private data": what it was read from.

    Notes
    -----
    Construct by `given`, `from_public` or `from_private`.
    """

    value: float
    source: Source = "given"

    def __post_init__(self) -> None:
        check_fields(self, {"value": REAL})
        if not 0 < self.value < math.inf:
            raise InputError(f"a bound of {self.value} must be positive and finite: give one such as 8.0")
        if self.source not in get_args(Source):
            raise InputError(
                f"source={self.source!r} must be one of {', '.join(map(repr, get_args(Source)))}"
            )

    @classmethod
    def given(cls, value: float) -> Bound:
        """A number that the caller knows without looking at private data."""
        return cls(value, "given")

    @classmethod
    def from_public(cls, points: Array, quantile: float = 0.9, center: Array | None = None) -> Bound:
        """A quantile of the norms of public points (q, d), about a public center if one is given."""
        if not 0 < quantile <= 1:
            raise InputError(f"quantile={quantile} must be in (0, 1]")
        with np.errstate(over="ignore", invalid="ignore"):
            norms = np.linalg.norm(
                np.asarray(points, np.float64) - (0.0 if center is None else center), axis=-1
            )
        if not np.isfinite(norms).all():
            worst = np.abs(points).max(axis=-1).argmax()  # a center that is a mean may be as far out
            raise InputError(
                f"row {worst} of the public points is so far out that its square leaves the range of floats "
                "(rows count from 0): correct it, or drop it"
            )
        return cls(float(np.quantile(norms, quantile)), "public data")

    @classmethod
    def from_private(cls, value: float, *, leak: bool = False) -> Bound:
        """A number read off private data, refused unless the caller accepts that it leaks.

        Raises PrivacyError without leak=True.
        """
        if not leak:
            raise PrivacyError(
                "a bound read off private data is itself a release that no noise protects: pass a number you "
                "know (Bound.given), take it from public server data (Bound.from_public), or accept the "
                "leak explicitly with leak=True"
            )
        return cls(float(value), "private data")

    @property
    def private(self) -> bool:
        """Whether it was read off private data: then the run is NonPrivate."""
        return self.source == "private data"

    def steps(self, scale: float) -> int:
        """The bound on the integers of a quantizer: the largest whole number within scale * value."""
        whole = math.floor(scale * self.value)
        if whole < 1:
            raise InputError(f"scale={scale:g} leaves no integer within the bound {self.value:g}: raise it")
        return whole
