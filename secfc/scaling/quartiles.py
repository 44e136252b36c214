"""Medians and interquartile ranges by counts alone: what no single cell moves.

Values become keys, integers in the order of the values: the power of two below |x| and DIGITS binary digits
after it, with the sign of x.  A search holds of each quantile a bracket of keys and asks how many values lie
below each of three keys within it; the sums of these counts over all clients say in which quarter the
quantile lies.  After STEPS questions a bracket is one key, 2**-DIGITS of its value.  Most end sooner: as soon
as all three quartiles are known to FINE of the range between them, nothing of the feature is asked any more.

The r-th smallest of N values, r = ceil(q N), lies in the bracket, whoever holds which: the counts are
integers, so all clients that opened the same sums have the same scale, bit for bit.  Where a client's counts
were lost on the way, the rest of the search is of the others' values.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from field.arrays import Array
from secfc.errors import InputError
from secfc.scaling import moments
from secfc.scaling.scaling import names_of

DIGITS = 24
# Keys lie in [-2**31, 2**31), as magnitudes lie in [2**LEAST, 2**MOST): a search of 4**STEPS = 2**32 keys.
STEPS = 16
# The median, the quartiles, and the twentieths that are looked for where the quartiles are the same.
QUANTILES = (Fraction(1, 2), Fraction(1, 4), Fraction(3, 4), Fraction(1, 20), Fraction(19, 20))
# Thresholds of a question, and numbers that a feature has in a sum: the count of its values first.
CUTS = 3
WIDTH = 1 + CUTS * len(QUANTILES)
FINE = 64
# What of a normal law lies between these quantiles, in its deviations.
NORMAL = {1: 1.3489795003921634, 3: 3.2897072539029444}


def value_keys(values: Array) -> Array:
    """Keys of values of any shape, |x| <= 2**MOST and not NaN: int32, in the order of the values."""
    fraction, exponent = np.frexp(np.abs(np.asarray(values, np.float64)))
    # 2 fraction - 1 in [0, 1) has at most 52 digits: no step below rounds but the floor.
    whole = (exponent.astype(np.int64) - 1 - moments.LEAST) << DIGITS
    keys = whole + np.floor(np.ldexp(2 * fraction - 1, DIGITS)).astype(np.int64)
    kept = np.where(fraction == 0, 0, np.clip(keys, 0, 2**31 - 1))
    return np.asarray(np.copysign(kept, values), np.int32)


def key_values(keys: Array) -> Array:
    """The value of least magnitude with each of these keys, float64; 0 for key 0."""
    whole = np.abs(keys.astype(np.int64))
    digits = (whole & ((1 << DIGITS) - 1)) / 2.0**DIGITS
    found = np.ldexp(1 + digits, ((whole >> DIGITS) + moments.LEAST).astype(np.int32))
    return np.asarray(np.where(whole == 0, 0.0, np.copysign(found, keys)))


def sorted_keys(blocks: Iterable[Array], d: int) -> list[Array]:
    """Keys of the values of each of d features that are there, ascending: int32, 4 bytes a value."""
    parts: list[list[Array]] = [[np.zeros(0, np.int32)] for _ in range(d)]
    for block in blocks:
        for f, part in enumerate(parts):
            column = np.asarray(block[:, f], np.float64)
            part.append(value_keys(column[~np.isnan(column)]))
    return [np.sort(np.concatenate(part)) for part in parts]


@dataclass(frozen=True, eq=False)
class QuantileSearch:
    """Brackets of QUANTILES of d features: keys from low (d, 5) on, width (d, 5) of them.  Public."""

    low: Array
    width: Array

    @classmethod
    def of_features(cls, d: int) -> QuantileSearch:
        """A search of which nothing is known."""
        shape = (d, len(QUANTILES))
        return cls(np.full(shape, -(1 << 31), np.int64), np.full(shape, 1 << 2 * STEPS, np.int64))

    @property
    def high(self) -> Array:
        """The last key of every bracket (d, 5)."""
        return self.low + self.width - 1

    def ranges(self, pair: int) -> Array:
        """What lies between two quantiles at least, (d,); at most 0 while their brackets meet."""
        apart = self.low[:, pair + 1] > self.high[:, pair]
        between = key_values(self.low[:, pair + 1]) - key_values(self.high[:, pair])
        return np.where(apart, between, 0.0)

    @property
    def asked(self) -> Array:
        """Whether more is asked of quantiles, (d, 5): of the outer ones only if the inner may be equal."""
        inner, outer = self.ranges(1), self.ranges(3)
        blur = FINE * (key_values(self.high) - key_values(self.low))
        wanted = np.repeat((inner <= 0) | (blur[:, :3].max(axis=1) > inner), len(QUANTILES)).reshape(
            blur.shape
        )
        wanted[:, 3:] = ((inner <= 0) & ((outer <= 0) | (blur[:, 3:].max(axis=1) > outer)))[:, None]
        return np.asarray(wanted & (self.width > 1))

    def cuts(self) -> Array:
        """The keys (d, 5, 3) below which values are counted."""
        return np.asarray(self.low[:, :, None] + self.width[:, :, None] // 4 * np.arange(1, CUTS + 1))

    def counts(self, keys: list[Array]) -> Array:
        """A client's part of a sum (d, WIDTH) int64, secret, of its sorted keys: how many, and below cuts."""
        cuts, asked = self.cuts(), self.asked
        found = np.zeros((len(keys), WIDTH), np.int64)
        for f, own in enumerate(keys):
            below = np.searchsorted(own, cuts[f].astype(np.int32))
            found[f, 1:] = np.where(asked[f][:, None], below, 0).reshape(-1)
            found[f, 0] = len(own)
        return found

    def narrowed(self, totals: Array) -> QuantileSearch:
        """The search after sums (d, WIDTH) of the counts of all clients, as integers."""
        n, below = totals[:, 0].astype(np.int64), totals[:, 1:].astype(np.int64)
        rank = np.stack([-(-q.numerator * n // q.denominator) for q in QUANTILES], axis=1)
        place = (below.reshape(*rank.shape, CUTS) < rank[:, :, None]).sum(axis=2)
        asked, quarter = self.asked, self.width // 4
        low = np.where(asked, self.low + place * quarter, self.low)
        return QuantileSearch(low, np.where(asked, quarter, self.width))

    def scales(self, features: Any) -> tuple[list[float], list[float]]:
        """Medians, and units as deviations of a normal law with these quartiles; 0 where nine tenths of all
        values have one key.  Raises InputError where an offset leaves the range too few keys.
        """
        middle = (key_values(self.low) + key_values(self.high)) / 2
        step = key_values(np.abs(self.low) + 1) - key_values(np.abs(self.low))
        units = np.zeros(len(middle))
        for pair, normal in ((3, NORMAL[3]), (1, NORMAL[1])):
            between = middle[:, pair + 1] - middle[:, pair]
            apart = self.ranges(pair) > 0
            units = np.where(apart, between / normal, units)
            for i in np.flatnonzero(apart & (between < FINE * step[:, pair : pair + 2].max(axis=1)))[:1]:
                raise InputError(
                    f"{names_of((int(i),), features)} has quartiles that differ by less than {FINE} steps of "
                    f"2**-{DIGITS} of its values: subtract what all its values have in common"
                )
        return middle[:, 0].tolist(), units.tolist()


def search_quantiles(keys: list[Array]) -> QuantileSearch:
    """The search for one client alone, or for whoever has all keys."""
    search = QuantileSearch.of_features(len(keys))
    for _ in range(STEPS):
        search = search.narrowed(search.counts(keys))
    return search


def are_counts(totals: Array, rows: int) -> bool:
    """Whether so many rows may have these sums (d, WIDTH): counts within the values, and ascending."""
    n, below = totals[:, :1], totals[:, 1:].reshape(len(totals), len(QUANTILES), CUTS)
    ascending = (below[:, :, 1:] >= below[:, :, :-1]).all()
    return bool(ascending and (n <= rows).all() and (below >= 0).all() and (below <= n[:, :, None]).all())


def check_present(totals: Array, known: list[int], features: Any) -> None:
    """Raise InputError for one of these features that has no value.  totals: its count first."""
    for i in [i for i in known if totals[i, 0] == 0][:1]:
        raise InputError(
            f"{names_of((i,), features)} is missing in every row of all clients: leave the column out"
        )
