"""Who adds the noise to a secure sum: the server to what it decodes, or the clients to what they share.

Two mechanisms, two names, two ledger entries.  `ServerNoise` protects what is published from then on, while
the server itself has seen the exact sum.  `SharedNoise` is dealt inside the shares: every client adds
discrete Gaussian noise of variance sigma**2 / h, h the fewest clients in a sum that do not collude, so that
these alone reach sigma**2; nobody sees an exact statistic of the data, the server included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from field.ring.noise import DISTANCE, Deviation, discrete_gaussian
from field.secrets.coins import Coins
from secfc.feddp.statistics import LEAST_REACH
from secfc.privacy.calibration import Budget, gaussian_multiplier, solve, split
from secfc.privacy.events import (
    Composed,
    DiscreteLaplace,
    DistributedDiscreteGaussian,
    Event,
    NonPrivate,
    Pure,
    RoundedGaussian,
)
from secfc.privacy.mechanisms import DiscreteLaplaceNoise, Mechanism, Release, RoundedGaussianNoise

Array = NDArray[Any]


@dataclass(frozen=True)
class Gaussian:
    """Noise of this many times the L2 sensitivity, on every entry."""

    multiplier: float

    def event(self, size: int) -> Event:
        return RoundedGaussian(self.multiplier, min(size * DISTANCE, 0.5))

    def mechanism(self, sensitivity: float) -> Mechanism:
        return RoundedGaussianNoise(sensitivity, self.multiplier)

    def deviation(self, sensitivity: float) -> float:
        """The standard deviation of the noise."""
        return self.multiplier * sensitivity


@dataclass(frozen=True)
class Laplace:
    """Pure epsilon-DP noise.  one_entry: neighbors differ in one entry, by `unit`: composes better."""

    epsilon: float
    one_entry: bool = False
    unit: int = 1

    def event(self, size: int) -> Event:
        if not self.one_entry:
            return Pure(self.epsilon)
        return DiscreteLaplace(float(self.mechanism(float(self.unit)).scale), self.unit)

    def mechanism(self, sensitivity: float) -> DiscreteLaplaceNoise:
        return DiscreteLaplaceNoise(math.ceil(sensitivity), self.epsilon, one_entry=self.one_entry)

    def deviation(self, sensitivity: float) -> float:
        return math.sqrt(2) * sensitivity / self.epsilon


Noise = Gaussian | Laplace


class Placement(Protocol):
    """Who adds the noise."""

    def calibrate(self, budget: Budget, weights: tuple[float, ...], honest: int) -> tuple[Gaussian, ...]:
        """Gaussian noise for steps of these weights that meets the budget in total."""
        ...

    def event(self, noise: Noise, size: int, honest: int) -> Event:
        """What a step will be to everybody, the least favorable case, known before any data is."""
        ...

    def share(self, noise: Noise, sensitivity: float, values: Array, honest: int, coins: Coins) -> Array:
        """What a client shares of its statistic."""
        ...

    def release(self, noise: Noise, sensitivity: float, total: Array, honest: int, coins: Coins) -> Release:
        """What the server makes of the sum, and the event for everybody's view."""
        ...

    @property
    def server_view(self) -> Event | None:
        """What the server saw beyond that, if anything."""
        ...


@dataclass(frozen=True)
class ServerNoise:
    """The server adds rounded Gaussian or discrete Laplace noise after decoding: it sees exact sums."""

    def calibrate(self, budget: Budget, weights: tuple[float, ...], honest: int) -> tuple[Gaussian, ...]:
        return tuple(Gaussian(z) for z in split(budget, weights))

    def event(self, noise: Noise, size: int, honest: int) -> Event:
        return noise.event(size)

    def share(self, noise: Noise, sensitivity: float, values: Array, honest: int, coins: Coins) -> Array:
        return values

    def release(self, noise: Noise, sensitivity: float, total: Array, honest: int, coins: Coins) -> Release:
        return noise.mechanism(sensitivity)(total, coins=coins)

    @property
    def server_view(self) -> Event | None:
        return NonPrivate()


@dataclass(frozen=True)
class SharedNoise:
    """Clients add discrete Gaussian noise of variance sigma**2 / h to what they share.

    The sum of such noises costs what `ServerNoise` costs (`DistributedDiscreteGaussian`); the noise of the
    clients beyond h comes on top.  Gaussian steps only.
    """

    def calibrate(self, budget: Budget, weights: tuple[float, ...], honest: int) -> tuple[Gaussian, ...]:
        return _shared_multipliers(budget, weights, honest)

    def event(self, noise: Noise, size: int, honest: int) -> Event:
        each = self._multiplier(noise) / math.sqrt(honest)
        # Of noise of less than half a step nothing is proved; so an enormous budget is not spent to the end.
        if each * LEAST_REACH < 0.5:
            return NonPrivate()
        # No sensitivity is below LEAST_REACH, and tau falls as noise in steps of the integers grows.
        return DistributedDiscreteGaussian(each, each * LEAST_REACH, honest, size)

    def share(self, noise: Noise, sensitivity: float, values: Array, honest: int, coins: Coins) -> Array:
        return values + discrete_gaussian(
            self._deviation(noise, sensitivity, honest), values.shape, coins=coins
        )

    def release(self, noise: Noise, sensitivity: float, total: Array, honest: int, coins: Coins) -> Release:
        sigma = self._deviation(noise, sensitivity, honest)
        each = self._multiplier(noise) / math.sqrt(honest)
        event = DistributedDiscreteGaussian(each, float(sigma), honest, total.size)
        return Release(np.asarray(total), event)

    @property
    def server_view(self) -> Event | None:
        return None

    def _multiplier(self, noise: Noise) -> float:
        if not isinstance(noise, Gaussian):
            raise ValueError("noise inside the shares is Gaussian: choose a variant without Laplace noise")
        return noise.multiplier

    def _deviation(self, noise: Noise, sensitivity: float, honest: int) -> Deviation:
        # A relative 1e-12 covers the rounding of the float product.
        return Deviation.above(self._multiplier(noise) * sensitivity / math.sqrt(honest) * (1 + 1e-12))


@lru_cache(maxsize=256)
def _shared_multipliers(budget: Budget, weights: tuple[float, ...], honest: int) -> tuple[Gaussian, ...]:
    whole = math.fsum(weights)
    # A long vector at the least deviation that an event allows for is the least favorable case.
    longest = 1 << 24

    def noises(factor: float) -> tuple[Gaussian, ...]:
        return tuple(Gaussian(factor * math.sqrt(whole / w)) for w in weights)

    def event(factor: float) -> Event:
        return Composed(tuple(SharedNoise().event(n, longest, honest) for n in noises(factor)))

    return noises(solve(budget, event))


@lru_cache(maxsize=256)
def proportional(
    budget: Budget, shares: tuple[float, ...], laplace: tuple[Laplace | None, ...]
) -> tuple[Noise, ...]:
    """Noise for steps that take these shares of the sum of the steps' epsilons, delta each (App. G.4).

    laplace: for each step None if it is Gaussian, or the kind of its Laplace noise.  The common factor is
    found so that the composition meets the budget, by privacy loss distributions.
    """
    budget = budget.provable

    def noises(factor: float) -> tuple[Noise, ...]:
        found: list[Noise] = []
        for share, kind in zip(shares, laplace, strict=True):
            epsilon = share * budget.epsilon / factor
            if kind is None:
                found.append(Gaussian(gaussian_multiplier(Budget(epsilon, budget.delta))))
            else:
                found.append(Laplace(epsilon, kind.one_entry, kind.unit))
        return tuple(found)

    return noises(solve(budget, lambda factor: Composed(tuple(n.event(1) for n in noises(factor)))))
