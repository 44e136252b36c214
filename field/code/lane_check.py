"""Whether small numbers that are shared modulo several primes are the same integers modulo each.

What is checked in every lane by itself may differ between lanes.  Where noise that is alike in all is added
before values are opened, this difference is told beside it: residues modulo one prime less those of another.

So sums T = sum_i c_i e_i + R are opened, of all numbers e_i, up to 2**8 in absolute value, with c_i from
COEFFICIENTS by coins that were opened once all numbers, and the noise R, were shared.  All lanes must say the
same T, up to BOUND in absolute value.

*Soundness.*  Let e_i be a modulo p and b modulo q, and all other coefficients be fixed, and whatever was
shared as R.  If T fits for c_i = c as well as for c', the difference of both values is at most 2 BOUND, and
is (c - c') a modulo p and (c - c') b modulo q, which are at most 2**10.  As 2 BOUND + 2**10 < p, q it is both
as an integer, so a = b.  Numbers that differ pass with one of four coefficients at most: with
probability 4**-REPETITIONS = 2**-40 in all sums.

*Completeness.*  A sum by coefficients, each a sign times 1 or 2, is subgaussian of variance 4 sum_i e_i**2;
so is discrete Gaussian noise of its own variance.  With both at most SPREAD**2, |T| exceeds BOUND, which is
REACH sqrt(2) SPREAD, with probability below 2 exp(-REACH**2 / 2) < 2**-120.

*Privacy.*  Numbers of one row, whose absolute values add up to w at most, add between -2 w and 2 w.  If it is
replaced all sums move by 4 w sqrt(REPETITIONS) at most, in the L2 norm.
"""

from __future__ import annotations

import math

import numpy as np

from field.arrays import Array
from field.ring.basis import Basis
from field.secrets.coins import Coins

COEFFICIENTS = (-2, -1, 1, 2)
REPETITIONS = 20
REACH = 13
BOUND = (1 << 29) - (1 << 10)
SPREAD = BOUND / REACH / math.sqrt(2)
LEAST_PRIME = 2 * BOUND + (1 << 10)

_TILE = 1 << 22
# The four coefficients that a byte says.
_OF_BYTES = np.array(COEFFICIENTS)[np.arange(256)[:, None] >> np.arange(0, 8, 2) & 3]


def count_sums(basis: Basis) -> int:
    """How many sums are opened: none where there is one lane.  Other primes must exceed LEAST_PRIME."""
    return REPETITIONS if basis.lanes > 1 else 0


def weigh_numbers(basis: Basis, numbers: Array, coins: Coins) -> Array:
    """My shares (lanes, REPETITIONS) of sums of numbers by coefficients; numbers: shares (lanes, n)."""
    by_byte = np.zeros((basis.lanes, REPETITIONS // 4, 256), np.int64)
    for first in range(0, numbers.shape[1], _TILE):
        each = numbers[:, first : first + _TILE].astype(np.float64)
        drawn = np.frombuffer(coins.bytes(each.shape[1] * by_byte.shape[1]), np.uint8)
        for place, said in enumerate(drawn.reshape(by_byte.shape[1], -1).astype(np.intp)):
            for lane, p in enumerate(basis.primes):
                # Below _TILE 2**30, and so exact.
                by_byte[lane, place] += np.bincount(said, each[lane], 256).astype(np.int64) % p
    # Below 2**30 a tile, of 256 bytes, twice at most.
    return np.asarray((by_byte @ _OF_BYTES).reshape(basis.lanes, -1) % basis.column(2), basis.dtype)


def lanes_agree(basis: Basis, opened: Array) -> bool:
    """Whether residues (lanes, *s) are, alike in all lanes, those of integers from -BOUND to BOUND."""
    primes = basis.column(opened.ndim)
    values = opened.astype(np.int64)
    values = np.where(values > primes // 2, values - primes, values)
    return bool((values == values[:1]).all() and (np.abs(values) <= BOUND).all())


def noise_deviation(dealers: int) -> float:
    """Standard deviation of what each of so many adds to each sum."""
    return SPREAD / math.sqrt(dealers)


def row_sensitivity(most: int, segments: int = 1) -> float:
    """How far all sums move in the L2 norm, at each of so many segments, if a row's numbers are replaced.

    most: what the absolute values of one row's add up to.
    """
    moved = (max(COEFFICIENTS) - min(COEFFICIENTS)) * most
    return moved * math.sqrt(REPETITIONS * segments) * (1 + 1e-12)
