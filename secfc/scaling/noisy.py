"""Means and deviations of features under differential privacy: noisy sums within public ranges.

A value x of a feature with the public range c - w .. c + w becomes the integer z = round(S (x - c) / w), at
most S = STEPS in absolute value, and adds to three sums:

    z,    q = floor(BETA z**2 / S),    and, where values may be missing, g = GAMMA S for one that is there.

Lemma.  One row that is replaced moves these sums of one feature by at most 2 S + 1 in the L2 norm, which is
what it may move the first sum alone by: squares and counts cost nothing.  For two values, with
D = |z - z'| / S and |z + z'| <= (2 - D) S, the square of the distance of (z, BETA z**2 / S) is at most
S**2 D**2 (1 + BETA**2 (2 - D)**2), which is at most 4 S**2 wherever BETA**2 <= (2 + D) / (D**2 (2 - D)).
The right side is least at D = sqrt(5) - 1, and there (11 + 5 sqrt(5)) / 8 = 2.7725.  For a value and a
missing one the square is at most (1 + BETA**2 + GAMMA**2) S**2 <= 4 S**2.  Rounding down adds less than 1.

So d features move by at most (2 S + 1) sqrt(d), and r rows of one client by r times that.  How many rows
there are is public among neighbors that replace (`Neighbors`), and is added up without noise.

Every client adds discrete Gaussian noise inside its shares, so that the clients that do not collude reach the
variance by themselves: nobody sees an exact sum, the server sees none at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from field.ring.noise import Deviation, discrete_gaussian
from field.secrets.coins import Coins
from secfc.algorithm import PublicFacts, SplittableBudget
from secfc.data.inputs import COLUMN_NAMES, REAL, check_fields
from secfc.errors import InputError, PrivacyError
from secfc.privacy import accountant
from secfc.privacy.calibration import Budget, discrete_multiplier
from secfc.privacy.events import Composed, DistributedDiscreteGaussian, Event
from secfc.scaling.scaling import Outside, Scaling
from secfc.scaling.ways import (
    Missing,
    Standardize,
    check_scaler_value,
    feature_numbers,
    pairs_in_order,
    range_pairs,
)

# Integer steps of half a public range.
STEPS = 1 << 20
BETA, GAMMA = Fraction(53, 32), Fraction(15, 32)
# Noise reaches no further, in standard deviations, with probability above 2**-1000.
REACH = 40
# A deviation below that many deviations of its noise is taken for so many.
CLEAR = 2.0


@dataclass(frozen=True)
class NoisyStandardize:
    """Scaling to mean 0 and deviation 1 from noisy sums, which a part of the privacy budget pays for.

    Parameters
    ----------
    ranges
        Public (least, most) of each feature, in data units, as a sequence or by name.  Values beyond count as
        the end of the range.  The noise is a part of the range, so narrow ranges are better.
    share
        Part of the algorithm's budget for the scale, in (0, 1); the algorithm gets the rest, and both
        together never cost more than the budget.
    limit
        Number of deviations beyond which values are moved to the limit; public, and the bound of the run.
    missing
        What happens to NaN, as in `Standardize`.
    keep
        Features that stay unscaled, as in `Standardize`; they need no range, unless their mean is imputed.

    Notes
    -----
    If noise hides the deviation of a feature, the smallest deviation that it does not hide is used, at most
    half of the range: noise inflates no feature, and a constant feature stays constant.

    `NoisyStandardize` needs an algorithm with a budget, such as `SecFC(..., disclosure=NoiseInShares(...))`,
    and 3 clients.  Where the server holds points, they give the scale at no cost, as with `Standardize`.

    Examples
    --------
    `Scaled(noisy_secfc, NoisyStandardize({"age": (0, 120), "income": (0, 1e6)}))`.
    """

    ranges: Any
    share: float = 0.1
    limit: float = 10.0
    missing: Missing = "refuse"
    keep: tuple[str | int, ...] = ()

    def __post_init__(self) -> None:
        check_scaler_value(self.limit, "clip", self.missing)
        object.__setattr__(self, "ranges", range_pairs(self.ranges))
        check_fields(self, {"keep": COLUMN_NAMES, "share": REAL})
        if not 0 < self.share < 1:
            raise InputError(f"share={self.share} must be in (0, 1): the part of the budget for the scale")

    @property
    def outside(self) -> Outside:
        """A refusal would tell of a value, at no cost to the budget."""
        return "clip"

    @property
    def opened(self) -> str:
        return "of every feature a noisy mean and deviation" + (
            " and number of values" if self.missing == "mean" else ""
        )

    def fixed(self, public: Any) -> Scaling | None:
        """By the server's points, where it holds some: they are public, and nothing is spent."""
        if public.server_points is None:
            return None
        return Standardize(self.limit, "clip", self.missing, self.keep).fixed(public)

    def summed(self, features: Any, d: int) -> tuple[int, ...]:
        """The features of which sums are needed."""
        kept = () if self.missing == "mean" else feature_numbers(self.keep, features, d)
        return tuple(i for i in range(d) if i not in kept)

    def within(self, features: Any, d: int) -> Scaling:
        """The public ranges as a scaling to [-1, 1]; missing values are at the center of theirs."""
        summed = self.summed(features, d)
        rows = pairs_in_order(self.ranges, features, d, summed)
        centers, units = np.zeros(d), np.ones(d)
        for i, (low, high) in zip(summed, rows, strict=True):
            centers[i], units[i] = (low + high) / 2, (high - low) / 2
        fill = tuple(centers.tolist()) if self.missing == "mean" else None
        return Scaling(tuple(centers.tolist()), tuple(units.tolist()), 1.0, "clip", fill)

    def noise(self, algorithm: Any, public: PublicFacts, honest: int, n: int) -> ScaleNoise:
        """The noise that the share of the budget buys, and the rest for the algorithm.

        honest: whose noise counts, of n contributors.  Raises InputError for an algorithm without a budget,
        PrivacyError for neighbors that noise does not cover, and what the plan of the algorithm raises.
        """
        spending: SplittableBudget | None = algorithm.capabilities.budget
        if spending is None:
            raise InputError(
                f"noise on the scale needs a part of a budget, and {type(algorithm).__name__} has none as it "
                "is: use SecFC(disclosure=NoiseInShares(Budget(epsilon, delta), radius)), find the scale "
                "without noise (Standardize()), or give public ranges in its place, which cost nothing "
                "(Range(...); in the shell --ranges without --standardize)"
            )
        budget = spending.budget
        if budget.delta == 0:
            raise PrivacyError(
                "delta=0: Gaussian noise never meets it. Give a delta well below 1 / number of units"
            )
        if (neighbors := spending.neighbors).relation != "replace":
            raise PrivacyError(
                f"neighbors that {neighbors.relation} one {neighbors.unit}: the sums of scaling have a "
                "public number of rows, so units are replaced; use Neighbors('replace', ...)"
            )
        rows = max(public.counts) if neighbors.unit == "client" else 1
        kinds = 3 if self.missing == "mean" else 2
        summed = len(self.summed(public.features, public.d))
        sensitivity = (2 * STEPS + 1) * math.sqrt(summed) * rows * (1 + 1e-12)

        def cost(rest: Budget) -> Event:
            return spending.releases(rest, public)

        if accountant.CompositionCost.of(cost(budget), smooth=False).distance:
            budget = budget.check_provable()  # what is sampled close to its law proves no more
        multiplier = round_up(discrete_multiplier(budget, honest, sensitivity) / math.sqrt(self.share))
        draft = ScaleNoise(multiplier, sensitivity, honest, n, kinds, summed, budget)
        return replace(draft, rest=remaining_budget(budget, draft.event, cost))


@dataclass(frozen=True)
class ScaleNoise:
    """The noise on the sums that a scale is made of.

    multiplier: of the noise of the honest together, in units of the sensitivity.  sensitivity: of all sums of
    all features, in integer steps, in the L2 norm.  n: how many contribute noise at most.  kinds: sums of a
    feature, of `features` of them.  rest: what is left of the budget for the algorithm.
    """

    multiplier: float
    sensitivity: float
    honest: int
    n: int
    kinds: int
    features: int
    rest: Budget

    @property
    def size(self) -> int:
        """Noisy sums."""
        return self.kinds * self.features

    @cached_property
    def each(self) -> Deviation:
        """The standard deviation that one contributor adds."""
        return Deviation.at_least(self.multiplier * self.sensitivity / math.sqrt(self.honest) * (1 + 1e-12))

    @property
    def whole(self) -> float:
        """The standard deviation of the noise of all contributors."""
        return float(self.each.value) * math.sqrt(self.n)

    @property
    def event(self) -> Event:
        """What is released: to everybody, as all that follows is made of it."""
        one = self.multiplier / math.sqrt(self.honest)
        return DistributedDiscreteGaussian(one, one * self.sensitivity, self.honest, self.size)

    @property
    def largest(self) -> int:
        """What noise adds at most to one client's sums."""
        return math.ceil(REACH * self.each.value)


@dataclass(frozen=True)
class NoisyScaling:
    """A scaling, and which of its features have a deviation that noise hides."""

    scaling: Scaling
    hidden: tuple[int, ...] = ()


def remaining_budget(budget: Budget, spent: Event, cost: Callable[[Budget], Event]) -> Budget:
    """The largest budget whose cost and what is spent stay within this one together, to some 1e-4 of it.

    cost(b): all that is released under b.  Rounded down to few digits, so that all parties find the same.
    Raises PrivacyError if nothing is left.
    """

    def total(epsilon: float) -> float:
        both = Composed((spent, cost(Budget(epsilon, budget.delta))))
        return accountant.epsilon(both, budget.delta)

    low, high = 0.0, budget.epsilon
    while high - low > 1e-4 * budget.epsilon:
        middle = (low + high) / 2
        low, high = (middle, high) if total(middle) <= budget.epsilon else (low, middle)
    digits = 5 - math.floor(math.log10(budget.epsilon))
    rest = math.floor(low * 10**digits) / 10**digits
    if rest <= 0:
        raise PrivacyError(
            f"nothing is left of epsilon={budget.epsilon:g} after the scale of features: lower the share"
        )
    return Budget(rest, budget.delta)


def round_up(value: float) -> float:
    """The next number of six digits that is not smaller, so that all parties find the same."""
    digits = 5 - math.floor(math.log10(value))
    return float(math.ceil(value * 10**digits) / 10**digits)


# --- sums ----------------------------------------------------------------------------------------


def unit_integers(part: Array) -> Array:
    """Values in [-1, 1] as integers z of at most STEPS, int64."""
    return np.asarray(np.rint(part * STEPS), np.int64)


def unit_squares(z: Array) -> Array:
    """floor(BETA z**2 / STEPS), exact: 53 z**2 < 2**46."""
    return np.asarray(BETA.numerator * z * z // (BETA.denominator * STEPS), np.int64)


def client_statistics(parts: Iterable[tuple[Array, Array]], kinds: int, features: int) -> Array:
    """The sums (1 + kinds * features,) int64 of a client's rows, the number of rows first.

    parts: pairs of values (rows, features) in [-1, 1], 0 where they are missing, and whether they are there.
    Up to 2**28 rows, of which each adds less than 2**21, sum to less than 2**49.
    """
    total = np.zeros((kinds, features), np.int64)
    rows = 0
    for values, there in parts:
        z = unit_integers(values)
        rows += len(z)
        total[0] += z.sum(axis=0)
        total[1] += unit_squares(z).sum(axis=0)
        if kinds == 3:
            total[2] += there.sum(axis=0) * int(GAMMA * STEPS)
    return np.concatenate([[rows], total.reshape(-1)])


def add_noise_part(exact: Array, noise: ScaleNoise, coins: Coins) -> Array:
    """A client's sums with its part of the noise, but for the number of rows."""
    drawn = discrete_gaussian(noise.each, (noise.size,), coins=coins)
    return np.concatenate([exact[:1], exact[1:] + drawn])


def scaling_from_sums(
    way: NoisyStandardize, noise: ScaleNoise, totals: Array, features: Any, d: int
) -> NoisyScaling:
    """What follows from noisy sums (1 + kinds * features,): the same doubles at every client.

    totals: Python integers.  A mean outside of the range is at its end.  A variance is at most what the
    range and the mean allow, and at least CLEAR standard deviations of its noise.
    """
    summed, public = way.summed(features, d), way.within(features, d)
    rows, sums = max(1, int(totals[0])), totals[1:].reshape(noise.kinds, noise.features)
    centers, units, fill = list(public.centers), list(public.units), list(public.centers)
    hidden = []
    for place, i in enumerate(summed):
        count: Fraction = Fraction(rows)
        if noise.kinds == 3:
            count = min(count, max(Fraction(1), int(sums[2, place]) / (GAMMA * STEPS)))
        step = float(1 / (STEPS * count))
        mean = min(1.0, max(-1.0, int(sums[0, place]) * step))
        first = noise.whole * step
        second = first / float(BETA)
        # The square of a noisy mean is too large by its variance.
        variance = int(sums[1, place]) * step / float(BETA) - mean * mean + first * first
        least = CLEAR * math.hypot(second, 2 * mean * first, math.sqrt(2) * first * first)
        if variance <= least or least >= 1:
            hidden.append(i)
        # No values between -1 and 1 of this mean vary more.
        deviation = math.sqrt(max(min(variance, 1.0 - mean * mean), min(least, 1.0)))
        fill[i] = centers[i] = public.centers[i] + public.units[i] * mean
        units[i] = public.units[i] * deviation
    for i in feature_numbers(way.keep, features, d):
        centers[i], units[i] = 0.0, 1.0
    filled = tuple(fill) if way.missing == "mean" else None
    hidden = [i for i in hidden if i not in feature_numbers(way.keep, features, d)]
    return NoisyScaling(Scaling(tuple(centers), tuple(units), way.limit, "clip", filled), tuple(hidden))
