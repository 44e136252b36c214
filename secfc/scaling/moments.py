"""Means and deviations of features from exact integer sums, and the powers of two below which features lie.

Values become integers: multiples of 2**(e - bits), where 2**e is the least power of two that no absolute
value of the feature exceeds.  Of these the count, the sum and the sum of squares are exact, in whatever order
and by however many clients they are added.  The mean and the deviation (of the population, as that of
scikit-learn's StandardScaler) are the doubles nearest to what follows from them, a rational number and an
integer root: no float.  So every party that has the sums has the same scale, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from field.arrays import Array
from secfc.errors import InputError

# Exponents of features: values up to 2**LEAST count as that, and none may exceed 2**MOST.
LEAST, MOST = -64, 64
# Of one client.
ROWS = 1 << 28
# Integer steps within a deviation, below which a feature's offset has eaten its digits.
FEWEST = 64
# Squares of the upper and lower halves of integers below 2**52, and products, are below 2**53: so many rows
# of them add up below 2**63.
SLICE = 1 << 10


def feature_exponents(blocks: Iterable[Array], d: int, owner: str) -> Array:
    """Least e in [LEAST, MOST] with all |x| <= 2**e of each feature, missing values aside: (d,) int64.

    Raises InputError for infinite values and those beyond 2**MOST.
    """
    largest = np.zeros(d)
    for block in blocks:
        values = np.abs(np.asarray(block, np.float64))
        largest = np.fmax(largest, np.fmax.reduce(values, axis=0, initial=0.0))
    fraction, exponent = np.frexp(largest)
    found = np.where(largest > 0, exponent - (fraction == 0.5), LEAST).astype(np.int64)
    if not np.isfinite(largest).all() or (found > MOST).any():
        feature = int(np.flatnonzero(~np.isfinite(largest) | (found > MOST))[0])
        raise InputError(
            f"{owner}, feature {feature} (counted from 0) has values beyond 2**{MOST}, or infinite ones: "
            "correct them, or give the column in larger units"
        )
    return np.maximum(found, LEAST)


def exponent_bits(found: Array) -> Array:
    """Exponents (d,) as bits (d, MOST - LEAST): bit b says that the feature exceeds 2**(LEAST + b)."""
    return np.asarray(found)[:, None] > np.arange(LEAST, MOST)


def decode_thermometers(bits: Array) -> Array:
    """The exponents (d,) of the disjunction of thermometers."""
    steps = np.arange(1, MOST - LEAST + 1)
    return np.asarray(LEAST + np.where(bits, steps, 0).max(axis=1), np.int64)


def bits_for(n: int, modulus_bits: int = 119) -> int:
    """Binary digits of an integer, so that sums of squares of n clients' ROWS rows fit 2**modulus_bits."""
    return min(50, (modulus_bits - (2 * n).bit_length() - ROWS.bit_length()) // 2)


def to_integers(block: Array, exponent: Array, bits: int) -> Array:
    """Values (rows, d) as multiples of 2**(exponent - bits), ties to even; missing ones are 0: int64."""
    values = np.nan_to_num(np.asarray(block, np.float64), nan=0.0)
    # A power of two changes no digit, and |values| <= 2**bits < 2**52 are rounded exactly.
    return np.rint(np.ldexp(values, bits - exponent.astype(np.int32))).astype(np.int64)


def integer_moments(blocks: Iterable[Array], exponent: Array, bits: int) -> Array:
    """Count, sum and sum of squares of each feature's integers: (d, 3) Python integers."""
    d, half = len(exponent), bits // 2 + 1
    total = np.zeros((d, 3), object)
    for block in blocks:
        for start in range(0, len(block), SLICE):
            part = np.asarray(block[start : start + SLICE], np.float64)
            whole = np.abs(signed := to_integers(part, exponent, bits))
            high, low = whole >> half, whole & ((1 << half) - 1)
            # x**2 = high**2 2**(2 half) + high low 2**(half + 1) + low**2
            squares = [(a * b).sum(axis=0).astype(object) for a, b in ((high, high), (high, low), (low, low))]
            total[:, 0] += (~np.isnan(part)).sum(axis=0).astype(object)
            total[:, 1] += signed.sum(axis=0).astype(object)
            total[:, 2] += (squares[0] << 2 * half) + (squares[1] << half + 1) + squares[2]
    return total


def feature_mean(count: int, total: int, exponent: int, bits: int) -> float:
    """The double nearest to the mean, in data units."""
    return float(Fraction(total, count) * Fraction(2) ** (exponent - bits))


def feature_deviation(count: int, total: int, squares: int, exponent: int, bits: int) -> float:
    """The double nearest to the deviation, in data units; 0 exactly where all values are the same."""
    # The variance is (count squares - total**2) / count**2, in steps; its root to 64 binary digits.
    root = math.isqrt((count * squares - total * total) << 128)
    return float(Fraction(root, count << 64) * Fraction(2) ** (exponent - bits))


def steps_within(count: int, total: int, squares: int) -> float:
    """Integer steps within a deviation."""
    return math.sqrt(max(0, count * squares - total * total)) / count
