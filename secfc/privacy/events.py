"""What happened, as far as privacy is concerned.

Each docstring is a definition from which an accountant can be written.  The meaning of an event never
changes; another mechanism is another event.  Throughout, x is a statistic of the data, and its sensitivity
is the largest change of x between neighbors, under the neighboring relation of the ledger that holds the
event.  Events say what was released, never what it costs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class NoOp:
    """Nothing was released that depends on the data."""


@dataclass(frozen=True)
class NonPrivate:
    """Something was released without protection: epsilon is infinite."""


@dataclass(frozen=True)
class Gaussian:
    """x + noise_multiplier * D * Z was released, Z standard normal in every coordinate independently.

    x is a real vector of any dimension and D its sensitivity in the L2 norm.  Also any function of that.
    """

    noise_multiplier: float

    def __post_init__(self) -> None:
        positive("noise_multiplier", self.noise_multiplier)


@dataclass(frozen=True)
class RoundedGaussian:
    """x + round(noise_multiplier * D * Z) was released, x a vector of integers.

    With x whole this is round(x + noise_multiplier * D * Z), a function of what `Gaussian` releases.
    Z is sampled within total variation distance `distance` of independent standard normals, all
    coordinates together.
    """

    noise_multiplier: float
    distance: float

    def __post_init__(self) -> None:
        positive("noise_multiplier", self.noise_multiplier)
        if not 0 <= self.distance < 1:
            raise ValueError(f"distance={self.distance} must be in [0, 1)")


@dataclass(frozen=True)
class DiscreteGaussian:
    """x + Y was released, x and Y vectors of integers, P(Y_i = y) ~ exp(-y**2 / (2 s**2)) independently.

    s is noise_multiplier * D, D the sensitivity of x in the L2 norm.  It is rho-zCDP with
    rho = 1 / (2 noise_multiplier**2), in any dimension (Canonne, Kamath, Steinke 2020, theorem 4 and
    composition).
    """

    noise_multiplier: float

    def __post_init__(self) -> None:
        positive("noise_multiplier", self.noise_multiplier)

    @property
    def rho(self) -> float:
        return 1 / (2 * self.noise_multiplier**2)


@dataclass(frozen=True)
class DistributedDiscreteGaussian:
    """x + Y_1 + ... + Y_h was released, Y_j independent discrete Gaussian vectors of parameter s each.

    Y_j is what contributor j adds, and h = `honest` counts those whose noise the adversary neither knows nor
    withholds: n - t of n, if t clients may collude.  s = each * D, D the sensitivity of the
    integer vector x of `dimension` coordinates in the L2 norm, and sigma = s is at least 1/2.
    It is rho-zCDP with rho = (1 / (sqrt(h) each) + tau sqrt(dimension))**2 / 2,
    tau = 10 sum_{i=1}^{h-1} exp(-2 pi**2 sigma**2 i / (i + 1))
    (Kairouz, Liu, Steinke 2021, theorem 1, the last of its bounds).
    """

    each: float
    sigma: float
    honest: int
    dimension: int

    def __post_init__(self) -> None:
        positive("each", self.each)
        if not 0.5 <= self.sigma < math.inf:
            raise ValueError(f"sigma={self.sigma}: the bound holds from 1/2 on; scale the integers up")
        for name in ("honest", "dimension"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")

    @property
    def tau(self) -> float:
        # The terms fall with i towards exp(-2 pi**2 sigma**2); each of those left out is below the last.
        terms = [math.exp(-2 * (math.pi * self.sigma) ** 2 * i / (i + 1)) for i in range(1, self.honest)]
        return 10 * math.fsum(terms)

    @property
    def rho(self) -> float:
        return (1 / (math.sqrt(self.honest) * self.each) + self.tau * math.sqrt(self.dimension)) ** 2 / 2


@dataclass(frozen=True)
class DiscreteLaplace:
    """x + Y was released, x and Y vectors of integers, P(Y_i = y) ~ exp(-abs(y) / scale) independently.

    Neighbors differ in one coordinate of x, by at most the integer `sensitivity`: a histogram to which
    one point was added, or a single count.
    """

    scale: float
    sensitivity: int

    def __post_init__(self) -> None:
        positive("scale", self.scale)
        if self.sensitivity < 1:
            raise ValueError(f"sensitivity={self.sensitivity} must be at least 1; a constant is NoOp")

    @property
    def epsilon(self) -> float:
        return self.sensitivity / self.scale


@dataclass(frozen=True)
class Pure:
    """Something epsilon-differentially private was released, of which no more is known.

    So is x + Y with Y as for `DiscreteLaplace`: epsilon = D / scale, D the sensitivity of x in the L1 norm.
    """

    epsilon: float

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)


@dataclass(frozen=True)
class Composed:
    """All of these happened, each perhaps chosen after seeing the results of those before."""

    events: tuple[Event, ...]


Event: TypeAlias = (
    "NoOp | NonPrivate | Gaussian | RoundedGaussian | DiscreteGaussian | DistributedDiscreteGaussian"
    " | DiscreteLaplace | Pure | Composed"
)


def positive(name: str, value: float) -> None:
    """Raises ValueError unless the value is positive and finite."""
    if not 0 < value < math.inf:
        raise ValueError(f"{name}={value} must be positive and finite; a release without noise is NonPrivate")


def flat(event: Event) -> tuple[Event, ...]:
    """The events that are no compositions, in order."""
    if isinstance(event, Composed):
        return tuple(part for inner in event.events for part in flat(inner))
    return (event,)
