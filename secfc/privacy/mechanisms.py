"""Mechanisms: integers and coins in, noisy integers and the event out.

A mechanism carries the sensitivity of the statistic it is made for, under the caller's neighboring
relation, and refuses integers beyond its declared range.  Statistics are integers already: quantizing and
clipping come before (`secfc.privacy.mechanisms`), so that no rounding happens between sensitivity and noise.
Samplers are exact (`field.ring.noise`) but not constant time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, Protocol

import numpy as np

from field.arrays import Array
from field.ring.noise import DISTANCE, Deviation, discrete_laplace, rounded_gaussian
from field.ring.quantize import clip_norms as clip_norms
from field.ring.quantize import squared_norms as squared_norms
from field.secrets.coins import Coins
from secfc.data.inputs import REAL, WHOLE, check_fields, optional_kind
from secfc.errors import InputError, PrivacyError
from secfc.privacy.events import (
    DiscreteLaplace,
    Event,
    Pure,
    Response,
    RoundedGaussian,
    require_positive,
)

# Noise reaches 127 standard deviations of less than 2**56; with entries below this, sums fit an int64.
LARGEST_ENTRY = 2**62


class MechanismOutput(NamedTuple):
    """Noisy integers and the event of their release.

    Parameters
    ----------
    values
        Noisy integers in the shape of the statistic.
    event
        What was released, for a ledger.
    """

    values: Array
    event: Event


class Mechanism(Protocol):
    """Anything that turns integers into a release."""

    def event(self, size: int) -> Event:
        """What a call on `size` integers will be, known before any data is."""
        ...

    def __call__(self, values: Array, *, coins: Coins) -> MechanismOutput: ...


@dataclass(frozen=True)
class RoundedGaussianNoise:
    """Mechanism that adds round(N(0, sigma**2)) to every integer, at the cost of the continuous Gaussian.

    Parameters
    ----------
    sensitivity
        L2 sensitivity of the whole statistic.
    noise_multiplier
        Lower bound on sigma / sensitivity; sigma is the next larger number that the sampler holds.
    largest
        Public bound on absolute entries.
    """

    sensitivity: float
    noise_multiplier: float
    largest: int = LARGEST_ENTRY

    def __post_init__(self) -> None:
        require_positive("sensitivity", self.sensitivity)
        require_positive("noise_multiplier", self.noise_multiplier)
        _check_largest(self.largest)
        _ = self.sigma

    @property
    def sigma(self) -> Deviation:
        return _deviation(self.sensitivity, self.noise_multiplier)

    def event(self, size: int) -> RoundedGaussian:
        return RoundedGaussian(self.noise_multiplier, min(size * DISTANCE, 0.5))

    def __call__(self, values: Array, *, coins: Coins) -> MechanismOutput:
        checked = checked_integers(values, self.largest)
        noise = rounded_gaussian(self.sigma, checked.shape, coins=coins)
        return MechanismOutput(checked + noise, self.event(checked.size))


@dataclass(frozen=True)
class DiscreteLaplaceNoise:
    """Mechanism that adds discrete Laplace noise of scale sensitivity / epsilon: a pure guarantee.

    Parameters
    ----------
    sensitivity
        L1 sensitivity of the whole statistic, a whole number.
    epsilon
        Cost of one release.
    one_entry
        Whether neighbors differ in one entry only, as histograms do to which one point is added; this
        composes better.
    largest
        Public bound on absolute entries.
    """

    sensitivity: int
    epsilon: float
    one_entry: bool = False
    largest: int = LARGEST_ENTRY

    def __post_init__(self) -> None:
        if self.sensitivity < 1:
            raise InputError(f"sensitivity={self.sensitivity} must be a whole number of at least 1")
        require_positive("epsilon", self.epsilon)
        _check_largest(self.largest)

    @property
    def scale(self) -> Fraction:
        """sensitivity / epsilon, rounded up to 24 binary digits."""
        return Deviation.at_least(self.sensitivity / Fraction(self.epsilon)).value

    def event(self, size: int) -> DiscreteLaplace | Pure:
        return DiscreteLaplace(float(self.scale), self.sensitivity) if self.one_entry else Pure(self.epsilon)

    def __call__(self, values: Array, *, coins: Coins) -> MechanismOutput:
        checked = checked_integers(values, self.largest)
        noise = discrete_laplace(self.scale, checked.shape, coins=coins)
        return MechanismOutput(checked + noise, self.event(checked.size))


def checked_integers(values: Array, largest: int) -> Array:
    """The values as int64.  Raises TypeError unless they are integers, PrivacyError beyond `largest`."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise TypeError(
            f"an array of {array.dtype}: mechanisms add whole noise to whole numbers; quantize first"
        )
    if array.size and (int(array.max()) > largest or int(array.min()) < -largest):
        raise PrivacyError(
            f"an entry exceeds the declared range of +-{largest}: the claimed sensitivity may not hold; clip "
            "the inputs or declare a larger range"
        )
    return array.astype(np.int64)


def _check_largest(largest: int) -> None:
    if not 0 < largest <= LARGEST_ENTRY:
        raise InputError(f"largest={largest} must be in [1, 2**62]: noisy entries are 64-bit integers")


def _deviation(sensitivity: float, noise_multiplier: float) -> Deviation:
    return Deviation.at_least(Fraction(sensitivity) * Fraction(noise_multiplier))


# --------------------------------------------------------------------------------------------------
# Clipping on the integers, which quantizers do as well: see `field.ring.quantize`.


# --------------------------------------------------------------------------------------------------
# Labels for others: each row's own, or another.

UNIT = 1 << 24  # the weight of every label but a row's own
PLACE = 1 << 40  # where rows may be absent: the weight of every label of a place without one
# Below, labels say nothing; beyond, hardly one of a billion is another, and weights leave 64 bits.
LEAST_RESPONSE, MOST_RESPONSE = 1e-3, 25.0


@dataclass(frozen=True)
class RandomizedResponse:
    """Labels for everybody: each row's own label with exp(epsilon) times the probability of any other.

    Parameters
    ----------
    epsilon
        Budget of all labels, from 0.001 to 25.
    slots
        Public number of labels that each client releases, at least its number of rows.  It hides whether a
        row is at its place (`Neighbors("add/remove")`): an empty place releases a uniform label.  None
        releases one label per row, for `Neighbors("replace")`.

    Notes
    -----
    No epsilon-DP release of labels where a row is replaced is right more often: mean P[right] over clusters
    is at most 1 / (1 + (k - 1) exp(-epsilon)), as P[y | x] >= exp(-epsilon) P[y | y] for all y.  With slots
    P[right] is min(exp(epsilon) / k, 1 - (k - 1) exp(-epsilon) / k), the most that this relation allows.
    Weights are integers, rounded in favor of privacy, and draws from them are exact.
    """

    epsilon: float
    slots: int | None = None

    def __post_init__(self) -> None:
        check_fields(self, {"epsilon": REAL, "slots": optional_kind(WHOLE, "none: one row is replaced")})
        if self.slots is not None and self.slots < 1:
            raise InputError(f"slots={self.slots} must be at least 1: the most rows that a client may have")
        if not LEAST_RESPONSE <= self.epsilon <= MOST_RESPONSE:
            raise InputError(
                f"epsilon={self.epsilon:g} of labels must be in [{LEAST_RESPONSE:g}, {MOST_RESPONSE:g}]: "
                "below, labels are random, beyond, nothing protects them. Give a number such as 3.0"
            )

    def label_weights(self, k: int) -> tuple[int, int]:
        """Weights of a row's own label, and of each other of k, below 2**62 together.

        One row replaced: own <= exp(epsilon) other.  With slots, where an absent row has weight PLACE for
        each: own <= exp(epsilon) PLACE, PLACE <= exp(epsilon) other, own + (k - 1) other = k PLACE.
        """
        # A relative 2**-50 covers the rounding of floats.
        over, under = math.exp(self.epsilon) * (1 - 2.0**-50), math.exp(-self.epsilon) * (1 + 2.0**-50)
        if self.slots is None or k == 1:
            return max(UNIT, math.floor(UNIT * over)), UNIT
        other = min(PLACE, math.ceil(PLACE * max(under, (k - min(over, k)) / (k - 1))))
        # The second bound on it, exactly: (k - other (k - 1) / PLACE) <= over.
        while k * PLACE - (k - 1) * other > over * PLACE and other < PLACE:
            other += 1
        return k * PLACE - (k - 1) * other, other

    def probability(self, k: int) -> float:
        """Probability that, of k clusters, a released label is the row's own."""
        own, other = self.label_weights(k)
        return own / (own + (k - 1) * other)

    def event(self, k: int) -> Response:
        return Response(self.epsilon, k, self.slots is not None)

    def check_rows(self, m: int, owner: str) -> None:
        """Raises InputError for more rows than slots."""
        if self.slots is not None and m > self.slots:
            raise InputError(
                f"{owner} has {m} rows, and slots={self.slots} labels are released of each client: give "
                "at least as many slots as any client may have rows, a number known without the data"
            )

    def __call__(self, labels: Array, k: int, *, coins: Coins) -> Array:
        """Released labels (m,) int32 for exact ones (m,) in [0, k); with slots (slots,), rows first."""
        own, other = self.label_weights(k)
        drawn = _draw_below(own + (k - 1) * other, len(labels), coins)
        away = np.where(drawn < own, 0, (drawn - own) // other + 1)
        told = (labels + away) % k
        if self.slots is not None:
            told = np.append(told, _draw_below(k, self.slots - len(labels), coins))
        return np.asarray(told, np.int32)

    def estimate_sizes(
        self, labels: Array, k: int, rows: tuple[float, float] | None = None
    ) -> tuple[Array, Array]:
        """Unbiased sizes (k,) of clusters from released labels (m,), and their standard errors (k,).

        rows: with slots how many rows there are, as estimated elsewhere, and its standard error: labels say
        how clusters differ, not how many rows there are.
        """
        p, m = self.probability(k), len(labels)
        q = (1 - p) / max(k - 1, 1)
        there, miss = (float(m), 0.0) if rows is None else rows
        there = min(max(there, 0.0), m)
        sizes = there / k + (np.bincount(labels, minlength=k) - m / k) / (p - q)
        inside = np.clip(sizes, 0, there)
        spread = inside * p * (1 - p) + (there - inside) * q * (1 - q) + (m - there) * (k - 1) / k**2
        return sizes, np.sqrt(spread / (p - q) ** 2 + (miss / k) ** 2)

    def warning(self, k: int) -> str | None:
        """Why such labels are of little use, and what helps; None where half of them are right."""
        p = self.probability(k)
        if p >= 0.5:
            return None
        return (
            f"labels-epsilon={self.epsilon:g} with k={k}: {100 * p:.0f} of 100 labels are right, "
            f"{100 / k:.0f} by chance. From {self._useful(k):.1f} on 9 in 10 are."
        )

    def sentence(self, k: int) -> str:
        """What is released, for reports."""
        of = "every row"
        if self.slots is not None:
            of = f"each of {self.slots:,} places of every client, with a row or without"
        return (
            f"a label of {of}, drawn by its owner under randomized response of "
            f"epsilon={self.epsilon:g}: of k={k} clusters it is the row's own with probability "
            f"{self.probability(k):.2f}"
        )

    def _useful(self, k: int) -> float:
        """The epsilon from which nine in ten labels are right."""
        if self.slots is None:
            return math.log(9 * (k - 1))
        return max(math.log(0.9 * k), math.log(10 * (k - 1) / k))


def _draw_below(bound: int, size: int, coins: Coins) -> Array:
    """Secret uniform integers (size,) int64 in [0, bound), by rejection; bound below 2**62."""
    found, left = np.empty(size, np.int64), np.arange(size)
    last = (1 << 64) // bound * bound - 1
    while len(left):
        drawn = np.empty(len(left), np.uint64)
        coins.fill(drawn)
        fair = drawn <= last
        found[left[fair]] = drawn[fair] % np.uint64(bound)
        left = left[~fair]
    return found
