"""Who adds the noise to a secure sum: the server to what it decodes, or the clients to what they share.

Two mechanisms, two names, two ledger entries.  `ServerNoise` protects what is published from then on, while
the server itself has seen the exact sum.  `SharedNoise` is dealt inside the shares: every client adds
discrete Gaussian noise of variance sigma**2 / h, h the fewest clients in a sum that do not collude, so that
these alone reach sigma**2; nobody sees an exact statistic of the data, the server included.

Noise for clients that may be lost is too much where none is.  So clients deal it in two layers: the first of
variance sigma**2 / H, H the honest clients if nobody is lost, and a spare one of sigma**2 (1/h - 1/H), in
shares beside it, which the committee adds in only if a client is missing.  No layer is ever opened and taken
off (as by XNoise, arXiv 2209.14528): a member adds shares in itself, once it knows that a quorum was told of
the same clients.  So no lie about losses helps:

- Told that clients are lost who are not, members add the spare: more noise than is needed.
- A sum without the spare has all n vectors in it, and so the noise of H honest clients.  Told that all are
  there, a member that misses one's shares refuses.
- Two sums, one with it and one without, would tell the difference: less noise than either.  Two quorums above
  (c + t) / 2 have an honest member in common, which says one digest and adds once
  (`SumPlan.exclusive_quorum`).
- Shares of either layer lie on polynomials with t fresh masks each.  What t members and the server have of
  the others is one sum of shares, and so what they decode: the sum, with or without the spare.
- A client that deals other noise, or none, is one of the t, whose noise counts for nothing.  One that is lost
  after it dealt is in the sum with both layers, or with the first alone, as the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from field.arrays import Array
from field.ring.noise import DISTANCE, Deviation, discrete_gaussian
from field.secrets.coins import Coins
from secfc.errors import InputError
from secfc.feddp.statistics import LEAST_REACH
from secfc.privacy.accountant import SMOOTH
from secfc.privacy.calibration import Budget, gaussian_multiplier, least_factor, split_budget
from secfc.privacy.events import (
    Composed,
    DiscreteLaplace,
    DistributedDiscreteGaussian,
    Event,
    NonPrivate,
    Pure,
    RoundedGaussian,
)
from secfc.privacy.mechanisms import DiscreteLaplaceNoise, Mechanism, MechanismOutput, RoundedGaussianNoise
from secfc.secure_sum.protocol import SumPlan


@dataclass(frozen=True)
class GaussianStep:
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


Noise = GaussianStep | Laplace


class HonestCounts(NamedTuple):
    """How many vectors of a sum are of clients that do not collude: at least, and where nobody is lost."""

    fewest: int
    most: int

    @classmethod
    def of(cls, sums: SumPlan) -> HonestCounts:
        """Both the same where layers of noise would cost a quorum that is not there after planned losses."""
        return cls(sums.honest, sums.honest_there if sums.is_affordable else sums.honest)


@dataclass(frozen=True)
class ServerNoise:
    """The server adds rounded Gaussian or discrete Laplace noise after decoding: it sees exact sums."""

    def calibrate_noise(
        self, budget: Budget, weights: tuple[float, ...], honest: HonestCounts
    ) -> tuple[GaussianStep, ...]:
        """Gaussian noise for steps of these weights that meets the budget in total."""
        return tuple(GaussianStep(z) for z in split_budget(budget, weights))

    def event(self, noise: Noise, size: int, honest: HonestCounts) -> Event:
        """What a step will be to everybody, the least favorable case, known before any data is."""
        return noise.event(size)

    def share_noise(
        self, noise: Noise, sensitivity: float, values: Array, honest: HonestCounts, coins: Coins
    ) -> Array:
        """What a client shares of its statistic."""
        return values

    def shares_spare(self, honest: HonestCounts) -> bool:
        """Whether clients share something beside their statistic, for sums in which a client is missing."""
        return False

    def spare_noise(
        self, noise: Noise, sensitivity: float, size: int, honest: HonestCounts, coins: Coins
    ) -> Array:
        """What it shares beside it: (size,)."""
        return np.zeros(size, np.int64)

    def release_sum(
        self,
        noise: Noise,
        sensitivity: float,
        total: Array,
        honest: HonestCounts,
        coins: Coins,
        *,
        complete: bool,
    ) -> MechanismOutput:
        """What the server makes of the sum, complete if of all clients, and everybody's event."""
        return noise.mechanism(sensitivity)(total, coins=coins)

    @property
    def server_view(self) -> Event | None:
        """What the server saw beyond that, if anything."""
        return NonPrivate()


@dataclass(frozen=True)
class SharedNoise:
    """Clients add discrete Gaussian noise of variance sigma**2 / h to what they share.

    The sum of such noises costs what `ServerNoise` costs (`DistributedDiscreteGaussian`); the noise of the
    clients beyond h comes on top.  Gaussian steps only.

    layered: noise for clients that may be lost is dealt apart and stays out where none is: with n = 15, t = 5
    and nobody lost its variance is 1.5 times what is needed, and not 2.14 times.  Clients deal twice as much,
    and of a committee of c only (c - t - 1) // 2 members may be lost, not c - t - 1.  So there are layers
    where that suffices for the planned losses (`SumPlan.is_affordable`): by default with up to 15 clients,
    with more if `losses` are fewer.  One client lost costs what all planned losses do.
    """

    layered: bool = True

    def calibrate_noise(
        self, budget: Budget, weights: tuple[float, ...], honest: HonestCounts
    ) -> tuple[GaussianStep, ...]:
        return _shared_multipliers(self, budget, weights, honest)

    def event(self, noise: Noise, size: int, honest: HonestCounts) -> Event:
        each, further = self._layers(noise, honest)
        # Of noise of less than half a step nothing is proved; so an enormous budget is not spent to the end.
        if each * LEAST_REACH < 0.5:
            return NonPrivate()
        # No sensitivity is below LEAST_REACH, and tau falls as noise in steps of the integers grows.
        return DistributedDiscreteGaussian(each, each * LEAST_REACH, honest.fewest, size, further)

    def share_noise(
        self, noise: Noise, sensitivity: float, values: Array, honest: HonestCounts, coins: Coins
    ) -> Array:
        each, _ = self._layers(noise, honest)
        return values + discrete_gaussian(_deviation(each * sensitivity), values.shape, coins=coins)

    def shares_spare(self, honest: HonestCounts) -> bool:
        return self.layered and honest.most > honest.fewest

    def spare_noise(
        self, noise: Noise, sensitivity: float, size: int, honest: HonestCounts, coins: Coins
    ) -> Array:
        each, further = self._layers(noise, honest)
        if not further:
            return np.zeros(size, np.int64)
        return discrete_gaussian(_deviation(each * sensitivity * math.sqrt(further)), (size,), coins=coins)

    def release_sum(
        self,
        noise: Noise,
        sensitivity: float,
        total: Array,
        honest: HonestCounts,
        coins: Coins,
        *,
        complete: bool,
    ) -> MechanismOutput:
        each, further = self._layers(noise, honest)
        sigma = float(_deviation(each * sensitivity))
        if further and complete:
            event = DistributedDiscreteGaussian(each, sigma, honest.most, total.size)
        else:
            event = DistributedDiscreteGaussian(each, sigma, honest.fewest, total.size, further)
        return MechanismOutput(np.asarray(total), event)

    @property
    def server_view(self) -> Event | None:
        return None

    def _layers(self, noise: Noise, honest: HonestCounts) -> tuple[float, float]:
        """Noise multiplier of a client's first layer, and of the spare one how many times that variance.

        No spare where it would be so narrow that only the first layer would be known to hide anything.
        """
        if not isinstance(noise, GaussianStep):
            raise InputError("noise inside the shares is Gaussian: choose a variant without Laplace noise")
        if self.shares_spare(honest):
            each, further = noise.multiplier / math.sqrt(honest.most), honest.most / honest.fewest - 1
            sigma = each * LEAST_REACH
            if sigma >= 0.5:
                narrowest = DistributedDiscreteGaussian(each, sigma, honest.fewest, 1, further)
                if narrowest.distance <= SMOOTH:
                    return each, further
        return noise.multiplier / math.sqrt(honest.fewest), 0.0


# Who adds the noise.
NoisePlacement = ServerNoise | SharedNoise


def _deviation(sigma: float) -> Deviation:
    # A relative 1e-12 covers the rounding of float products.
    return Deviation.at_least(sigma * (1 + 1e-12))


@lru_cache(maxsize=256)
def _shared_multipliers(
    placement: SharedNoise, budget: Budget, weights: tuple[float, ...], honest: HonestCounts
) -> tuple[GaussianStep, ...]:
    whole = math.fsum(weights)
    # A long vector at the least deviation that an event allows for is the least favorable case.
    longest = 1 << 24

    def noises(factor: float) -> tuple[GaussianStep, ...]:
        return tuple(GaussianStep(factor * math.sqrt(whole / w)) for w in weights)

    def event(factor: float) -> Event:
        return Composed(tuple(placement.event(n, longest, honest) for n in noises(factor)))

    return noises(least_factor(budget, event))


@lru_cache(maxsize=256)
def proportional_noise(
    budget: Budget, shares: tuple[float, ...], laplace: tuple[Laplace | None, ...]
) -> tuple[Noise, ...]:
    """Noise for steps that take these shares of the sum of the steps' epsilons, delta each (App. G.4).

    laplace: for each step None if it is Gaussian, or the kind of its Laplace noise.  The common factor is
    found so that the composition meets the budget, by privacy loss distributions.
    """
    budget = budget.check_provable()

    def noises(factor: float) -> tuple[Noise, ...]:
        found: list[Noise] = []
        for share, kind in zip(shares, laplace, strict=True):
            epsilon = share * budget.epsilon / factor
            if kind is None:
                found.append(GaussianStep(gaussian_multiplier(Budget(epsilon, budget.delta))))
            else:
                found.append(Laplace(epsilon, kind.one_entry, kind.unit))
        return tuple(found)

    return noises(least_factor(budget, lambda factor: Composed(tuple(n.event(1) for n in noises(factor)))))
