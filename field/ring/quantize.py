"""Data units to bounded integers (SecFC Appendix A, eq. (3)), and the range that exactness needs.

A value x becomes round(scale * x), or floor(scale * x) as in the paper's eq. (3).  With eta the largest
absolute integer, every scaled distance is at most d (2 eta s)**2, s the size of the cluster: a center sum
and s times a point are each at most s eta in absolute value, in each of d features.  Distances are not
negative, so a modulus P > d (2 eta s)**2 decides them; the paper's factor 2 for signs is not needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from field.ring.basis import LANE_PRIMES, Basis
from field.ring.clipping import clip

Array = NDArray[Any]

# Beyond 2**52 a float64 no longer tells neighbouring integers apart.
MAX_INT = 2**52
# An automatic scale gives at least this many integer steps between 0 and the bound of the data.
LEAST_STEPS = 2**8


def distance_bound(d: int, max_int: int, size: int) -> int:
    """The largest scaled distance d (2 eta s)**2 to a cluster of `size` points, eta = max_int."""
    return d * (2 * max_int * size) ** 2


@dataclass(frozen=True)
class Quantizer:
    """scale: integers per data unit.  bound: the largest absolute value accepted, in data units.

    rounding "nearest" (ties to even) or "floor" (the paper's eq. (3), biased by half a step).
    radius: the L2 norm, in steps, that rows are shortened to, exactly; then values beyond the bound are moved
    to it instead of refused, since a refusal would tell of one row.  None: rows are as they come.
    """

    scale: float
    bound: float
    rounding: Literal["nearest", "floor"] = "nearest"
    radius: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("scale", self.scale), ("bound", self.bound)):
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name}={value} must be a positive finite number")
        if self.rounding not in ("nearest", "floor"):
            raise ValueError(f"rounding={self.rounding!r} must be 'nearest' or 'floor'")
        if self.radius is not None and self.radius < 1:
            raise ValueError(f"radius={self.radius} steps is too small: it must be at least 1")
        if self.max_int > MAX_INT:
            raise ValueError(
                f"scale*bound = {self.scale * self.bound:.3g} exceeds 2**52, where floats stop being "
                "exact integers: lower the scale"
            )

    @property
    def max_int(self) -> int:
        """The largest absolute integer this quantizer returns."""
        return math.ceil(self.scale * self.bound)

    def __call__(self, points: Array, *, owner: str = "the data", first_row: int = 0) -> Array:
        """Integers of points (rows, d) in data units: (rows, d) int64.

        `owner` and `first_row` name the offender in errors; no value is shown.

        Raises ValueError for NaN, infinite or out-of-bound values; with a radius for NaN only.
        """
        values = np.asarray(points, np.float64)
        if self.radius is not None:
            values = np.clip(values, -self.bound, self.bound)
        # One pass decides the usual case: NaN fails every comparison.
        if not bool((np.abs(values) <= self.bound).all()):
            row, feature = np.argwhere(~(np.abs(values) <= self.bound))[0]
            value = values[row, feature]
            what = "NaN" if math.isnan(value) else "infinite" if math.isinf(value) else "outside"
            rule = f"the public bound [-{self.bound:g}, {self.bound:g}]"
            raise ValueError(
                f"{owner}, row {first_row + int(row)}, feature {int(feature)} (counted from 0) is "
                + (f"{what} {rule}" if what == "outside" else f"{what}; every value must be finite")
                + ": raise the bound, or clean or rescale the data"
            )
        steps = values * self.scale
        whole = np.rint(steps) if self.rounding == "nearest" else np.floor(steps)
        if self.radius is None:
            return whole.astype(np.int64)
        return clip(whole.astype(np.int64), self.radius)[0]


def finest_scale(basis: Basis, d: int, m: int, bound: float, *, most: int | None = None) -> float:
    """The largest power of two as scale whose scaled distances the basis holds for clusters of m points.

    most: a further limit on the largest integer.

    Raises ValueError if not even a single integer step per bound fits.
    """
    # d (2 eta m)**2 < modulus, so eta <= sqrt((modulus - 1) / d) / (2 m); scale * bound must not exceed it.
    held = min(math.isqrt((basis.modulus - 1) // d) // (2 * m), MAX_INT)
    most = held if most is None else min(held, most)
    if most < 1:
        raise ValueError(
            f"clusters of m={m} points leave no room for a single step in {basis.lanes} lanes: use more lanes"
        )
    scale = math.ldexp(1.0, math.frexp(most / bound)[1])
    while math.ceil(scale * bound) > most:
        scale /= 2
    return scale


def plan_quantization(
    d: int,
    m: int,
    bound: float,
    *,
    scale: float | None = None,
    basis: Basis | None = None,
    rounding: Literal["nearest", "floor"] = "nearest",
    least_lanes: int = 2,
) -> tuple[Basis, Quantizer]:
    """A basis and a quantizer that are exact for m points of d features within `bound`.

    With a scale: the smallest basis that holds it.  With a basis: its finest scale.  With neither: the
    fewest lanes (at least `least_lanes`) that leave LEAST_STEPS steps between 0 and the bound, at their
    finest scale.

    Raises ValueError if the wish cannot be held.
    """
    if scale is not None:
        quantizer = Quantizer(scale, bound, rounding)
        needed = distance_bound(d, quantizer.max_int, m)
        if basis is None:
            return Basis.holding(needed), quantizer
        if basis.modulus <= needed:
            raise ValueError(
                f"scale={scale:g} with bound={bound:g}, m={m} makes distances, or what is computed from "
                f"them, up to 2**{needed.bit_length()}, the modulus is below "
                f"2**{basis.modulus.bit_length()}: lower the scale or add lanes"
            )
        return basis, quantizer
    if basis is not None:
        return basis, Quantizer(finest_scale(basis, d, m, bound), bound, rounding)
    steps = distance_bound(d, LEAST_STEPS, m)
    smallest = Basis.holding(steps)
    if smallest.lanes < least_lanes:
        smallest = Basis(LANE_PRIMES[:least_lanes])
    return smallest, Quantizer(finest_scale(smallest, d, m, bound), bound, rounding)
