"""Noise on the integers from secret coins: discrete Laplace, discrete Gaussian, rounded Gaussian.

No float is drawn or added, so attacks on floating-point noise do not apply.  The samplers take a varying
number of coins and are not constant time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from field.arrays import Array
from field.ring.basis import Basis
from field.ring.errors import InvalidValue
from field.secrets.coins import Coins

# `discrete_gaussian` or `rounded_gaussian`: of a deviation, a shape, and coins.
Sampler = Callable[..., Array]


# Digits of a standard deviation; 25 binary places, so that the smallest is 2**-25.
_DIGITS, _PLACES = 24, 25
# Standard deviations and scales below this leave room for the tails in an int64.
LARGEST = 2**56
# The statistical distance of one rounded Gaussian from its ideal: far fewer than 2**20 comparisons of 128
# digits, each undecided with probability 2**-128, and digits beyond the 192nd, worth sigma 2**-192.
DISTANCE = 2.0**-100

_WORDS = 1 << 15


@dataclass(frozen=True)
class Deviation:
    """A standard deviation that samplers hold exactly: numerator * 2**exponent.

    `Deviation.at_least(x)` is the least one not below x: at most 2**-23 relative above it for x >= 1/2.
    """

    numerator: int
    exponent: int

    def __post_init__(self) -> None:
        if not (1 <= self.numerator <= 2**_DIGITS and self.exponent >= -_PLACES):
            raise InvalidValue(
                f"{self.numerator} * 2**{self.exponent} is no standard deviation of at most {_DIGITS} digits "
                f"and {_PLACES} binary places: use Deviation.at_least"
            )
        if self.value >= LARGEST:
            raise InvalidValue(
                f"a standard deviation of {float(self.value):.3g} leaves no room in 64 bits, it must be "
                "below 2**56: lower the scale of the integers"
            )

    @classmethod
    def at_least(cls, least: float | Fraction) -> Deviation:
        """The smallest deviation on the grid that is at least `least`."""
        if not 0 < least < math.inf:
            raise InvalidValue(f"least={float(least)}: a standard deviation is positive and finite")
        exact = Fraction(least)
        # exact < 2**e, so that the numerator has at most 24 digits, or is 2**24 itself.
        e = exact.numerator.bit_length() - exact.denominator.bit_length() + 1
        exponent = max(e - _DIGITS, -_PLACES)
        return cls(math.ceil(exact / Fraction(2) ** exponent), exponent)

    @property
    def value(self) -> Fraction:
        return Fraction(self.numerator) * Fraction(2) ** self.exponent

    def __float__(self) -> float:
        return float(self.value)


def discrete_laplace(scale: Fraction | int, shape: int | tuple[int, ...], *, coins: Coins) -> Array:
    """Integers x with probability proportional to exp(-abs(x) / scale): shape `shape`, int64.

    Raises ValueError if numerator or denominator of the scale reach 2**56.
    """
    exact = Fraction(scale)
    if not (0 < exact.numerator < LARGEST and exact.denominator < LARGEST):
        raise InvalidValue(f"scale={exact}: numerator and denominator must be positive and below 2**56")
    from field.kernels import sampling

    t, s = np.uint64(exact.numerator), np.uint64(exact.denominator)
    return _fill(lambda words, at, out: sampling.laplace(words, at, t, s, out), shape, coins)


def discrete_gaussian(sigma: Deviation, shape: int | tuple[int, ...], *, coins: Coins) -> Array:
    """Integers x with probability proportional to exp(-x**2 / (2 sigma**2)): shape `shape`, int64."""
    from field.kernels import sampling

    s, f = sigma.numerator, -sigma.exponent
    while f > 0 and s % 2 == 0:
        s, f = s // 2, f - 1
    if f < 0:
        s, f = s << -f, 0
    numerator, places = np.uint64(s), np.uint64(f)
    return _fill(lambda words, at, out: sampling.gaussian(words, at, numerator, places, out), shape, coins)


def rounded_gaussian(sigma: Deviation, shape: int | tuple[int, ...], *, coins: Coins) -> Array:
    """Normal variables of standard deviation sigma, rounded to integers: shape `shape`, int64.

    Within statistical distance DISTANCE of that law, each.
    """
    from field.kernels import sampling

    s, e = np.uint64(sigma.numerator), np.int64(sigma.exponent)
    return _fill(lambda words, at, out: sampling.rounded(words, at, s, e, out), shape, coins)


def _fill(kernel: Callable[[Array, Array, Array], int], shape: int | tuple[int, ...], coins: Coins) -> Array:
    out = np.empty(shape, np.int64)
    flat = out.reshape(-1)
    words = np.empty(min(_WORDS, 64 + 32 * flat.size), np.uint64)
    coins.fill(words)
    at = np.zeros(1, np.int64)
    done = 0
    while (done := done + kernel(words, at, flat[done:])) < flat.size:
        # The words of an unfinished sample are kept: the sample begins anew with more of them behind.
        kept = words[at[0] :]
        more = np.empty(max(len(words) - len(kept), len(kept)), np.uint64)
        coins.fill(more)
        words = np.concatenate([kept, more])
        at[0] = 0
    return out


# --- noise modulo every prime, of any width --------------------------------------------------------

# Wider noise has this many digits from a sampler, and uniform digits below them.
SAMPLED = 50


def uniform_digits(sigma: Fraction) -> int:
    """How many low digits of noise of this standard deviation are uniform instead of sampled."""
    return max(0, math.floor(sigma).bit_length() - SAMPLED)


def wide_noise(
    sampler: Sampler, sigma: Fraction, shape: int | tuple[int, ...], basis: Basis, *, coins: Coins
) -> Array:
    """Residues (lanes, *shape) of noise of standard deviation at least sigma, up to 2**110.

    Below 2**SAMPLED the sampler's law itself.  Beyond, with f = grain(sigma), it is 2**f Y + U: Y from
    the sampler at sigma / 2**f, U uniform in [0, 2**f).  The last f digits V of x + 2**f Y + U are uniform
    and independent of x, and given them the rest is ceil((x - V) / 2**f) + Y.  So adding it is the
    sampler's mechanism on integers of unit 2**f, in which each entry that changes changes by at most one
    unit more, 2**(1 - SAMPLED) sigma.
    """
    f = uniform_digits(sigma)
    if f > 64:
        raise InvalidValue(f"noise of 2**{SAMPLED + f} leaves no room: lower the scale of the integers")
    y = basis.reduce(sampler(Deviation.at_least(sigma / 2**f), shape, coins=coins))
    if not f:
        return y
    words = np.empty(shape, np.uint64)
    coins.fill(words)
    factor = np.array([2**f % p for p in basis.primes], basis.dtype).reshape(-1, *[1] * (y.ndim - 1))
    return basis.add(basis.multiply(y, factor), basis.reduce(words >> np.uint64(64 - f)))
