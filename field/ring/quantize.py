"""Data units to bounded integers (SecFC Appendix A, eq. (3)), and the range that exactness needs.

A value x becomes round(scale * x), or floor(scale * x) as in the paper's eq. (3).  With eta the largest
absolute integer, every scaled distance is at most d (2 eta s)**2, s the size of the cluster: a center sum
and s times a point are each at most s eta in absolute value, in each of d features.  Distances are not
negative, so a modulus P > d (2 eta s)**2 decides them; the paper's factor 2 for signs is not needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from field.arrays import Array
from field.ring.basis import Basis
from field.ring.errors import InvalidValue

# --------------------------------------------------------------------------------------------------
# Clipping on the integers: exact, enforced, and never in place.


def clip_norms(vectors: Array, bound: int) -> tuple[Array, Array]:
    """Integer vectors shortened to an L2 norm within a bound, and which ones were.

    Parameters
    ----------
    vectors
        (m, d) integers; never written to.
    bound
        Largest L2 norm, at least 0.

    Returns
    -------
    tuple of ndarray
        Shortened vectors (m, d) int64, and which were shortened, (m,) bool.

    Raises
    ------
    TypeError
        For floats.
    ValueError
        For a bound below 0.

    Notes
    -----
    A longer vector x becomes trunc(x bound / r) with r = ceil(||x||), so no rounding can exceed the bound:
    each entry is at most abs(x_i) bound / ||x|| in size.  Vectors within the bound are unchanged.
    """
    values = np.asarray(vectors)
    if values.dtype.kind not in "iuO":
        raise TypeError(f"an array of {values.dtype}: clipping is exact on integers; quantize first")
    if bound < 0:
        raise InvalidValue(f"bound={bound} must be at least 0")
    out = values.astype(np.int64)
    squares = squared_norms(values)
    clipped = np.asarray(squares > bound * bound, bool)
    if clipped.any():
        long = values[clipped].astype(object)
        lengths = np.array([_ceil_sqrt(int(s)) for s in squares[clipped]], object)[:, None]
        out[clipped] = (np.sign(long) * (np.abs(long) * bound // lengths)).astype(np.int64)
    return out, clipped


def squared_norms(vectors: Array) -> Array:
    """The exact squared L2 norms (m,) of integer vectors (m, d): int64, or Python integers where needed."""
    values = np.asarray(vectors)
    largest = max(abs(int(values.max())), abs(int(values.min()))) if values.size else 0
    # d squares of at most largest**2 each add up within an int64.
    if values.shape[-1] * largest * largest < 2**63:
        whole = values.astype(np.int64, copy=False)
        return np.asarray(np.einsum("...i,...i->...", whole, whole))
    wide = values.astype(object)
    return np.asarray((wide * wide).sum(axis=-1), object)


def _ceil_sqrt(square: int) -> int:
    root = math.isqrt(square)
    return root if root * root == square else root + 1


# --------------------------------------------------------------------------------------------------

# Beyond 2**52 a float64 no longer tells neighbouring integers apart.
MAX_INT = 2**52
# An automatic scale gives at least this many integer steps between 0 and the bound of the data.
LEAST_STEPS = 2**8


def distance_bound(d: int, max_int: int, size: int) -> int:
    """The largest scaled distance d (2 eta s)**2 to a cluster of `size` points, eta = max_int."""
    return d * (2 * max_int * size) ** 2


def headroom(m: int, largest: int | None = None, factor: int = 1) -> int:
    """How many times the largest scaled distance, d (2 eta s)**2 with s = largest or m, comparisons may need.

    2 (s_a**2 D_b - factor s_b**2 D_a) reaches 2 factor d (2 eta s_a s_b)**2, and two clusters of m points
    together, none above `largest`, have s_a s_b <= (m / 2)**2.
    """
    half = min(m // 2, largest or m)
    product = max(1, half * min(m - half, largest or m))
    return -(-2 * factor * product**2 // (largest or m) ** 2)


@dataclass(frozen=True)
class Quantizer:
    """Rounding of points in data units to integers (fixed-point precision).

    Parameters
    ----------
    scale
        Integers per data unit, positive and finite.
    bound
        Largest absolute value accepted, in data units.
    rounding
        "nearest", ties to even; or "floor", eq. (3) of the SecFC paper, which is biased by half a step.
    radius
        L2 norm, in steps, to which longer rows are shortened exactly; None shortens no row.  With a radius,
        values beyond the bound are moved to the bound instead of refused, since a refusal would reveal a row.

    Raises
    ------
    InvalidValue
        For a scale or bound that is not positive and finite, or whose integers floats cannot hold.
    """

    scale: float
    bound: float
    rounding: Literal["nearest", "floor"] = "nearest"
    radius: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("scale", self.scale), ("bound", self.bound)):
            if not (math.isfinite(value) and value > 0):
                raise InvalidValue(f"{name}={value} must be a positive finite number")
        if self.rounding not in ("nearest", "floor"):
            raise InvalidValue(f"rounding={self.rounding!r} must be 'nearest' or 'floor'")
        if self.radius is not None and self.radius < 1:
            raise InvalidValue(f"radius={self.radius} steps is too small: it must be at least 1")
        if self.max_int > MAX_INT:
            raise InvalidValue(
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
            raise InvalidValue(
                f"{owner}, row {first_row + int(row)}, feature {int(feature)} (counted from 0) is "
                + (f"{what} {rule}" if what == "outside" else f"{what}; every value must be finite")
                + ": raise the bound, or clean or rescale the data"
            )
        steps = values * self.scale
        whole = np.rint(steps) if self.rounding == "nearest" else np.floor(steps)
        if self.radius is None:
            return whole.astype(np.int64)
        return clip_norms(whole.astype(np.int64), self.radius)[0]


def finest_scale(basis: Basis, d: int, m: int, bound: float, *, most: int | None = None) -> float:
    """The largest power of two as scale whose scaled distances the basis holds for clusters of m points.

    most: a further limit on the largest integer.

    Raises ValueError if not even a single integer step per bound fits.
    """
    # d (2 eta m)**2 < modulus, so eta <= sqrt((modulus - 1) / d) / (2 m); scale * bound must not exceed it.
    held = min(math.isqrt((basis.modulus - 1) // d) // (2 * m), MAX_INT)
    most = held if most is None else min(held, most)
    if most < 1:
        raise InvalidValue(
            f"clusters of m={m} points leave no room for a single step in {basis.lanes} lanes: use more lanes"
        )
    scale = math.ldexp(1.0, math.frexp(most / bound)[1])
    while math.ceil(scale * bound) > most:
        scale /= 2
    return scale


# --------------------------------------------------------------------------------------------------
# Centers on a grid of 2**-q steps: what is computed where centers are rounded, and the room it takes.
#
# A rounded center c stands for 2**q equal points that sum up to c, so everything that is computed from sums
# and sizes of clusters is computed from c and 2**q as well: 2**q times a point and c are at most 2**q eta in
# absolute value, whatever the size of the cluster.  Of all points of the grid none is nearer to the points of
# a cluster, so the cost never rises from step to step.

# q: a sixteenth of a step of the data.
FRACTION = 4


def largest_rounded_center(largest: int, fraction: int, multiple: int = 1) -> int:
    """The largest rounded center of rows up to `largest`, `multiple` times their data, in absolute value."""
    return -((-largest << fraction) // multiple)


def rounding_modulus(size: int, largest: int, fraction: int, multiple: int = 1) -> int:
    """What the modulus must exceed to round the center of `size` rows up to `largest`.

    The largest numerator of `field.compare.rounding`.
    """
    offset = size * multiple + 2 * size * multiple * largest_rounded_center(largest, fraction, multiple)
    return (size * largest << (fraction + 1)) + offset


def clusters_rounding_modulus(d: int, size: int, largest: int, multiple: int = 1, factor: int = 1) -> int:
    """What the modulus must exceed to round centers of clusters of up to `size` rows, and to compare
    distances of d features to them by a factor."""
    compared = 2 * factor * distance_bound(d, largest, 1 << FRACTION)
    return max(compared, rounding_modulus(size, largest, FRACTION, multiple))


def cost_modulus(d: int, size: int, largest: int) -> int:
    """What the modulus must exceed to open what clusters of up to `size` honest rows cost."""
    return size * distance_bound(d, largest, 1 << FRACTION)


def round_centers(sums: Array, sizes: Array, fraction: int) -> Array:
    """The nearest point of the grid to every mean, in its steps: (k, d) int64, zeros for empty clusters.

    sums: (k, d) integers of any size, of means below 2**(62 - fraction), as all of quantized points are.
    sizes: (k,) points.  Ties go up, of either sign.
    """
    over = 2 * np.maximum(sizes, 1).astype(object)[:, None]
    centers = ((sums.astype(object) << (fraction + 1)) + over // 2) // over
    return np.where(sizes[:, None] > 0, centers, 0).astype(np.int64)


def rounded_weights(sizes: Array, fraction: int) -> Array:
    """How many points a rounded center stands for: 2**q, 0 for clusters without points, (k,) int64."""
    return np.where(np.asarray(sizes) > 0, 1 << fraction, 0).astype(np.int64)


# --------------------------------------------------------------------------------------------------
# How much of a column's variance labels explain, against what is allowed, in integers.
#
# Of m points in clusters of sizes s_h, a column has the sum T, the sum of squares Q, and sums S_h by cluster.
# Labels explain E of its V = Q - T**2 / m, with E = sum S_h**2 / s_h - T**2 / m.  For a bound of `allowed`
# thousandths, with W = `inverse_unit(m)`,
#
#     excess = 1000 (sum floor(W / s_h) S_h**2 - ceil(W / m) T**2) - allowed (W Q - floor(W / m) T**2)
#
# is rounded in favor of labels: above 0 only where these explain more than is allowed, and always where they
# explain more by 2**-10 Q / V, that is by 2**-10 of a column of mean 0.

# Bounds are in so many parts of the variance.
VARIANCE_PARTS = 1000


def inverse_unit(m: int) -> int:
    """W: a power of two, 2**12 m or more, over which sizes of m points are inverted."""
    return 1 << (12 + (m - 1).bit_length())


def excess_weights(sizes: Array, m: int, allowed: int) -> tuple[int, list[int], int]:
    """What squares of entries count in excess, those of sums of clusters of sizes (K,), and that of T."""
    unit = inverse_unit(m)
    inverses = [VARIANCE_PARTS * (unit // size) for size in sizes.tolist()]
    return -allowed * unit, inverses, allowed * (unit // m) + VARIANCE_PARTS * (-unit // m)


def excess_modulus(m: int, largest: int) -> int:
    """What the modulus must exceed to hold excess of m integers up to `largest`, of either sign.

    Twice 1000 W Q, with Q <= m largest**2.  Above 0, excess is at most 1000 W sum S_h**2 / s_h <= 1000 W Q.
    Below, it is at most `allowed` W Q <= 999 W Q, and 1000 (sum S_h**2 + T**2) <= 2000 m Q < W Q / 2 by
    rounding.
    """
    return 2 * VARIANCE_PARTS * inverse_unit(m) * m * largest**2
