"""What events cost: the least epsilon that is proved for a delta.

Privacy loss distributions and Renyi divergences through `dp_accounting`, as two independent bounds.
Compositions of Gaussian mechanisms are one Gaussian mechanism, 1/noise_multiplier**2 adding up, whose
epsilon is known in closed form (Balle and Wang 2018); there is no need to discretize them, which for noise
on scaled integers would take minutes.

The distributions are dominating pairs for both orders of neighbors, so the accountant needs no neighboring
relation: it is in the sensitivities, and a ledger holds it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from secfc.data.inputs import require_library
from secfc.errors import InputError
from secfc.privacy.events import (
    DiscreteGaussian,
    DiscreteLaplace,
    DistributedDiscreteGaussian,
    Event,
    Gaussian,
    NonPrivate,
    NoOp,
    Pure,
    Response,
    RoundedGaussian,
    flatten_events,
)

# The loss of a discrete Laplace mechanism is enumerated over its sensitivity; beyond this only its pure
# epsilon is used.
_LARGEST_SENSITIVITY = 1 << 12


# A coordinate of summed discrete noise is this close to rounded continuous noise, or not treated as such.
SMOOTH = 2.0**-99


@dataclass(frozen=True)
class CompositionCost:
    """A composition by kinds: all that accountants need to know.

    gaussian: the sum of 1/noise_multiplier**2.  rho: the sum of zCDP parameters.  laplace: how often each
    discrete Laplace event happened; pure: how often each other epsilon.  distance: of the sampled
    from the ideal, in total variation.  added: epsilons of labels, which are added as they are: next to any
    Gaussian release nothing less is left of them.
    """

    gaussian: float = 0.0
    rho: float = 0.0
    laplace: tuple[tuple[DiscreteLaplace, int], ...] = ()
    pure: tuple[tuple[float, int], ...] = ()
    distance: float = 0.0
    private: bool = True
    added: float = 0.0

    @classmethod
    def of(cls, event: Event, *, smooth: bool = True) -> CompositionCost:
        """Raises TypeError for an event that it does not know.

        smooth: summed discrete noise counts as the continuous one that it is a rounding of, but for a
        distance, where that is no more than a sampler's; else, and without it, by its zCDP bound.
        """
        gaussian, rho, distance = [0.0], [0.0], [0.0]
        laplace: Counter[DiscreteLaplace] = Counter()
        pure: Counter[float] = Counter()
        private, added = True, [0.0]
        for part in flatten_events(event):
            match part:
                case NoOp():
                    pass
                case NonPrivate():
                    private = False
                case Gaussian(noise_multiplier=z):
                    gaussian.append(z**-2)
                case RoundedGaussian(noise_multiplier=z, distance=apart):
                    gaussian.append(z**-2)
                    distance.append(apart)
                case DistributedDiscreteGaussian() if smooth and part.distance <= SMOOTH * part.dimension:
                    gaussian.append(part.multiplier**-2)
                    distance.append(part.distance)
                case DiscreteGaussian() | DistributedDiscreteGaussian():
                    rho.append(part.rho)
                case DiscreteLaplace(sensitivity=moved) if moved <= _LARGEST_SENSITIVITY:
                    laplace[part] += 1
                case Response():
                    added.append(part.epsilon)
                case DiscreteLaplace() | Pure():
                    pure[part.epsilon] += 1
                case _:
                    raise TypeError(f"{part!r} is no event that can be accounted for: add it to Cost.of")
        return cls(
            math.fsum(gaussian),
            math.fsum(rho),
            tuple(laplace.items()),
            tuple(pure.items()),
            math.fsum(distance),
            private,
            math.fsum(added),
        )

    @property
    def only_gaussian(self) -> bool:
        return not (self.rho or self.laplace or self.pure)

    @property
    def pure_epsilon(self) -> float:
        """What the pure events cost without any delta, by basic composition."""
        return math.fsum(
            [each.epsilon * count for each, count in self.laplace]
            + [size * count for size, count in self.pure]
        )


def epsilon(event: Event, delta: float) -> float:
    """The least epsilon proved for (epsilon, delta)-differential privacy of all that the event composes.

    Closed form for Gaussian mechanisms, else the least of both bounds and, where all are pure, of the sum of
    their epsilons, which needs no delta.  Summed discrete noise counts as whichever is less.  Infinite after
    NonPrivate.
    """
    cost, plain = CompositionCost.of(event), CompositionCost.of(event, smooth=False)
    # Where rounding takes much of discrete noise, or its distance outweighs delta, its zCDP bound is better.
    found = _epsilon(cost, delta) if cost == plain else min(_epsilon(cost, delta), _epsilon(plain, delta))
    return found + cost.added


def _epsilon(cost: CompositionCost, delta: float) -> float:
    if not cost.private:
        return math.inf
    if cost.only_gaussian:
        return _apart(cost, delta, lambda left: gaussian_epsilon(cost.gaussian, left))
    basic = math.inf if cost.gaussian or cost.rho else _apart(cost, delta, lambda left: cost.pure_epsilon)
    return min(basic, _by_distributions(cost, delta), _by_divergences(cost, delta))


def pld_epsilon(event: Event, delta: float) -> float:
    """Epsilon by privacy loss distributions; infinite if some event is only known by its zCDP bound."""
    cost = CompositionCost.of(event)
    return _by_distributions(cost, delta) + cost.added


def _by_distributions(cost: CompositionCost, delta: float) -> float:
    if cost.rho:
        return math.inf
    if not (cost.gaussian or cost.laplace or cost.pure):
        return _apart(cost, delta, lambda left: 0.0)
    # Ten thousand cells up to about epsilon, so that neither tiny nor huge epsilons get slow or coarse.
    rough = _by_divergences(cost, delta)  # infinite without any delta
    distribution = _distribution(cost, max(rough, 1e-6) * 1e-4 if rough < math.inf else 1e-4)
    return _apart(cost, delta, lambda left: float(distribution.get_epsilon_for_delta(left)))


def rdp_epsilon(event: Event, delta: float) -> float:
    """Epsilon by Renyi divergences, converted at the best of many orders."""
    cost = CompositionCost.of(event)
    return _by_divergences(cost, delta) + cost.added


def _by_divergences(cost: CompositionCost, delta: float) -> float:
    if not cost.private:
        return math.inf
    require_library("a budget of differential privacy", "dp")
    from dp_accounting import rdp

    excess = np.geomspace(1e-2, 1e6, 800)
    curve = (cost.gaussian / 2 + cost.rho) * (1 + excess)
    for size, count in [(each.epsilon, count) for each, count in cost.laplace] + list(cost.pure):
        curve = curve + count * _pure_divergence(size, excess)
    orders = (1 + excess).tolist()
    return _apart(
        cost, delta, lambda left: float(rdp.rdp_privacy_accountant.compute_epsilon(orders, curve, left)[0])
    )


@lru_cache(maxsize=1024)
def gaussian_epsilon(inverse_square: float, delta: float) -> float:
    """Epsilon of a Gaussian mechanism with noise_multiplier**-2 = inverse_square."""
    if inverse_square == 0:
        return 0.0
    require_library("a budget of differential privacy", "dp")
    from dp_accounting import get_epsilon_gaussian

    with np.errstate(divide="ignore"):  # an epsilon of zero has log(0) on the way
        return float(get_epsilon_gaussian(inverse_square**-0.5, delta))


def _pure_divergence(size: float, excess: Any) -> Any:
    """The Renyi divergences of order 1 + excess of randomized response, the largest of epsilon-DP pairs."""
    # p**a (1-p)**(1-a) + (1-p)**a p**(1-a) with p = e**s / (1 + e**s) and a = 1 + excess.
    up, down = (1 + excess) * size, -excess * size
    return (np.logaddexp(up, down) - np.logaddexp(0, size)) / excess


def _distribution(cost: CompositionCost, interval: float) -> Any:
    require_library("a budget of differential privacy", "dp")
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    parts = []
    if cost.gaussian:
        parts.append(pld.from_gaussian_mechanism(cost.gaussian**-0.5, value_discretization_interval=interval))
    for each, count in cost.laplace:
        one = pld.from_discrete_laplace_mechanism(
            1 / each.scale, each.sensitivity, value_discretization_interval=interval, use_connect_dots=True
        )
        parts.append(one.self_compose(count))
    for size, count in cost.pure:
        one = pld.from_privacy_parameters(
            common.DifferentialPrivacyParameters(size, 0), value_discretization_interval=interval
        )
        parts.append(one.self_compose(count))
    total = parts[0]
    for part in parts[1:]:
        total = total.compose(part)
    return total


def _apart(cost: CompositionCost, delta: float, ideal: Callable[[float], float]) -> float:
    """Epsilon of the sampled mechanisms from that of the ideal ones as a function of delta.

    If M is (e, d)-DP, all within distance u of M is (e, d + (1 + exp(e)) u)-DP.
    """
    if not 0 <= delta < 1:
        raise InputError(f"delta={delta} must be in [0, 1), as 1e-6: the probability that the claim fails")
    if not cost.private:
        return math.inf
    if not cost.distance:
        return ideal(delta)
    guess = ideal(delta)
    for _ in range(20):
        if guess > 700:
            return math.inf
        left = delta - (1 + math.exp(guess)) * cost.distance
        if left <= 0:
            return math.inf
        if (found := ideal(left)) <= guess:
            return guess
        guess = found * (1 + 1e-9) + 1e-12
    return math.inf
