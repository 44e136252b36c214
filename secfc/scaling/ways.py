"""How features are scaled, as values: by mean and deviation, by a range, or only where values are missing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from field.arrays import Array
from secfc.algorithm import power_of_two
from secfc.data.federation import Federation
from secfc.data.inputs import COLUMN_NAMES, REAL, check_fields, format_value, kind_name
from secfc.data.party import raw_blocks
from secfc.errors import IncompatibleOptions, InputError
from secfc.scaling import moments
from secfc.scaling.quartiles import CUTS, FINE, STEPS, QuantileSearch, search_quantiles, sorted_keys
from secfc.scaling.scaling import Outside, Scaling, check_outside, names_of

Missing = Literal["refuse", "mean"]
ScaleWord = Literal["standard", "robust", "range", "norm"]
Measure = Literal["deviation", "quartiles"]

POWERS = "of every feature the least power of two that none of its values exceeds"
MEANS = ", and the mean and the number of its values, over all clients"
COUNTS = (
    "of every feature the number of its values, and how many of all clients' lie below each of up to "
    f"{CUTS * 5 * STEPS} numbers, of which the last enclose the quartiles to 1/{FINE} of their range"
)


@dataclass(frozen=True)
class Standardize:
    """Scaling of every feature to mean 0 and standard deviation 1 (of the population, as in scikit-learn).

    Parameters
    ----------
    limit
        Number of deviations beyond which a value is outside, above 0; public, and the bound of the run.
    outside
        What happens to values outside: "clip" moves them to the limit; "refuse" refuses them; "missing"
        imputes the common center, which needs missing="mean".
    missing
        "mean" imputes NaN by the mean (by quartiles: the median); "refuse" refuses NaN.
    keep
        Features that stay unscaled, by name or number, such as bits of categories; they must lie within the
        limit.
    by
        "deviation"; or "quartiles": median 0, and the deviation of a normal law with this interquartile
        range, which outliers do not move.  If the quartiles are equal, the range of the middle nine tenths is
        used; if that is 0 too, the feature is left out.

    Examples
    --------
    >>> import numpy as np, secfc
    >>> years, grams = np.arange(60.0) % 30, 50_000.0 + np.arange(60) % 7
    >>> sites = np.split(np.stack([years, grams], axis=1), 3)
    >>> found = secfc.fit(secfc.SecFC(k=2), sites, scale_features=Standardize()).scaling.scaling
    >>> [float(center) for center in found.centers]  # exact; clients learn them
    [14.5, 50002.9]
    """

    limit: float = 10.0
    outside: Outside = "clip"
    missing: Missing = "refuse"
    keep: tuple[str | int, ...] = ()
    by: Measure = "deviation"

    def __post_init__(self) -> None:
        check_scaler_value(self.limit, self.outside, self.missing)
        check_fields(self, {"keep": COLUMN_NAMES})
        if self.by not in get_args(Measure):
            words = " or ".join(map(repr, get_args(Measure)))
            raise InputError(f"by={self.by!r}: features are scaled by {words}")

    @property
    def degree(self) -> int:
        return 2

    @property
    def opened(self) -> str:
        if is_robust(self):
            return COUNTS
        return f"{POWERS}, and the mean, the deviation and the number of its values, over all clients"

    def fixed(self, public: Any) -> Scaling | None:
        """By the server's points, where it holds some: they are public, so nobody's data is summed."""
        feature_numbers(self.keep, public.features, public.d)
        if (held := public.server_points) is None:
            return None
        if held.shape[1] < public.d:
            raise InputError(
                "the server's points have no values of features that only some clients have, and so no scale",
                ["give points with all features", ("ranges", ..., "give public ranges in place of a scale")],
            )
        return self._alone(np.asarray(held, np.float64), "the server", public.features)

    def scaling_alone(self, points: Array, owner: str) -> Scaling:
        """The scaling that follows from these rows (rows, d) alone."""
        return self._alone(np.asarray(points, np.float64), owner, None)

    def _alone(self, points: Array, owner: str, features: Any) -> Scaling:
        if is_robust(self):
            search = search_quantiles(sorted_keys([points], points.shape[1]))
            return self.scaling_by_quartiles(search, features)
        found, bits = moments.feature_exponents([points], points.shape[1], owner), moments.bits_for(1)
        return self.scaling(found, moments.integer_moments([points], found, bits), bits, features)

    def scaling(self, exponents: Array, totals: Array, bits: int, features: Any) -> Scaling:
        return self._scaling(
            feature_means(exponents, totals, bits, features),
            feature_deviations(exponents, totals, bits, features),
            features,
        )

    def scaling_by_quartiles(self, search: QuantileSearch, features: Any) -> Scaling:
        """What follows from a search that has ended.  Raises InputError."""
        return self._scaling(*search.scales(features), features)

    def _scaling(self, centers: list[float], units: list[float], features: Any) -> Scaling:
        fill = tuple(centers) if self.missing == "mean" else None
        for i in feature_numbers(self.keep, features, len(units)):
            centers[i], units[i] = 0.0, 1.0
        if not any(unit != 0 for unit in units):
            raise InputError(
                "every feature is the same in all rows: nothing tells points apart. Check the columns"
            )
        return Scaling(tuple(centers), tuple(units), self.limit, self.outside, fill)


def is_robust(way: Any) -> bool:
    """Whether a way finds its scale by counts."""
    return isinstance(way, Standardize) and way.by == "quartiles"


@dataclass(frozen=True)
class Range:
    """Scaling of every feature to [-1, 1]: by public ranges, or by powers of two that no value exceeds.

    Parameters
    ----------
    ranges
        (least, most) of each feature, in data units, as a sequence or by name.  None finds the powers of two,
        which clients learn.
    outside
        What happens to values beyond 1, as in `Standardize`.
    missing
        What happens to NaN, as in `Standardize`.
    """

    ranges: Any = None
    outside: Outside = "refuse"
    missing: Missing = "refuse"

    def __post_init__(self) -> None:
        check_scaler_value(1.0, self.outside, self.missing)
        if self.ranges is not None:
            object.__setattr__(self, "ranges", range_pairs(self.ranges))

    @property
    def limit(self) -> float:
        return 1.0

    @property
    def degree(self) -> int:
        return int(self.missing == "mean")

    @property
    def opened(self) -> str:
        return (
            f"{POWERS}, and the mean and the number of its values, over all clients"
            if self.degree
            else POWERS
        )

    def fixed(self, public: Any) -> Scaling | None:
        if self.ranges is None or self.missing == "mean":
            return None
        return self.public_scaling(public.features, public.d, None)

    def scaling(self, exponents: Array, totals: Array, bits: int, features: Any) -> Scaling:
        fill = None if not self.degree else tuple(feature_means(exponents, totals, bits, features))
        if self.ranges is not None:
            return self.public_scaling(features, len(exponents), fill)
        units = np.ldexp(1.0, exponents.astype(np.int32))
        return Scaling((0.0,) * len(units), tuple(units.tolist()), 1.0, self.outside, fill)

    def public_scaling(self, features: Any, d: int, fill: tuple[float, ...] | None) -> Scaling:
        """The public ranges as a scaling, with this fill.  Raises InputError."""
        rows = pairs_in_order(self.ranges, features, d, tuple(range(d)))
        centers = tuple((low + high) / 2 for low, high in rows)
        units = tuple((high - low) / 2 for low, high in rows)
        return Scaling(centers, units, 1.0, self.outside, fill)


@dataclass(frozen=True)
class UnitNorm:
    """Scaling of every row by its Euclidean norm, at its owner: its direction counts, not its length.

    Notes
    -----
    Nothing is opened.  Labels equal those of plaintext Lloyd on the scaled and quantized rows.  The nearest
    center is a mean of such rows, not scaled to norm 1 as in spherical k-means.  Rows of zeros are refused,
    as are missing values.

    Examples
    --------
    >>> import secfc
    >>> sites = [[[1.0, 0.1], [0.2, 9.0]], [[50.0, 2.0]], [[0.0, 0.5]]]
    >>> result = secfc.fit(secfc.SecFC(k=2), sites, scale_features=UnitNorm())
    >>> [labels.tolist() for labels in result.labels]
    [[1, 0], [1], [0]]
    """

    @property
    def limit(self) -> float:
        return 1.0

    @property
    def outside(self) -> Outside:
        return "refuse"

    @property
    def degree(self) -> int:
        return 0

    @property
    def opened(self) -> str:
        return "of norms of rows nothing"

    def fixed(self, public: Any) -> Scaling:
        """Known before the run.  Raises InputError where a row lies at several clients."""
        if public.observed is not None:
            raise InputError(
                "scale_features='norm' where clients observe other columns: nobody knows the norm of a row",
                ["give all of them the same columns", ("scale_features", "standard", "scale features")],
            )
        return Scaling((0.0,) * public.d, (1.0,) * public.d, self.limit, self.outside, norm=True)


@dataclass(frozen=True)
class FillMeans:
    """Features as they are, but for missing values, which become the mean.  limit: the public bound.

    outside: as in `Standardize`.
    """

    limit: float
    missing: Missing = "mean"
    outside: Outside = "refuse"

    def __post_init__(self) -> None:
        check_scaler_value(self.limit, self.outside, self.missing)

    @property
    def degree(self) -> int:
        return 1

    @property
    def opened(self) -> str:
        return f"{POWERS}{MEANS}"

    def fixed(self, public: Any) -> Scaling | None:
        return None

    def scaling(self, exponents: Array, totals: Array, bits: int, features: Any) -> Scaling:
        fill = tuple(feature_means(exponents, totals, bits, features))
        return Scaling((0.0,) * len(fill), (1.0,) * len(fill), self.limit, self.outside, fill)


def check_limits(way: Any, missing: str) -> None:
    """Raises IncompatibleOptions where values beyond a limit are missing, against the rule for such."""
    if way is None or way.outside != "missing":
        return
    if missing == "refuse" and isinstance(way, Standardize | Range):
        missing = way.missing
    known = isinstance(way, Scaling | FillMeans) or (isinstance(way, Range) and way.ranges is not None)
    if missing == "refuse" or (missing == "drop" and not known):
        raise IncompatibleOptions(
            {"outside": "missing", "missing": missing},
            "what is missing is refused"
            if missing == "refuse"
            else "rows are dropped before the limit is found",
            [("missing", "mean"), ("outside", "clip")],
        )


def limits_of_missing(way: Any, missing: str, features: Any, d: int) -> Scaling | None:
    """Limits that are known before anything is summed, where values beyond are missing; None without such.

    Raises IncompatibleOptions, `check_limits`.
    """
    check_limits(way, missing)
    if way is None or way.outside != "missing":
        return None
    if isinstance(way, FillMeans):
        return Scaling((0.0,) * d, (1.0,) * d, way.limit, "missing")
    if isinstance(way, Range) and way.ranges is not None:
        return way.public_scaling(features, d, None)
    return way if isinstance(way, Scaling) else None


def range_pairs(ranges: Any) -> tuple[tuple[Any, ...], ...]:
    """Public ranges as (least, most) or (name, least, most), of a sequence or mapping.  Raises InputError."""
    given = ranges
    if isinstance(given, Mapping):
        given = [
            (str(name), *(pair if isinstance(pair, tuple | list) else (pair,)))
            for name, pair in given.items()
        ]
    rows = []
    for item in given if isinstance(given, Iterable) else (given,):
        if not isinstance(item, tuple | list) or len(item) not in (2, 3) or isinstance(item, str):
            raise InputError(
                f"ranges have {kind_name(item)} where (least, most) of a feature is due: pass one pair a "
                "feature, as "
                '[(0, 120), (0, 1e6)], or {"age": (0, 120)}'
            )
        *name, low, high = item
        low, high = REAL.of("least", low), REAL.of("most", high)
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise InputError(f"the range ({low}, {high}) is none: its first end is less than its second")
        rows.append((*name, float(low), float(high)))
    return tuple(rows)


def pairs_in_order(
    ranges: Sequence[Any], features: Any, d: int, wanted: tuple[int, ...]
) -> list[tuple[float, float]]:
    """The (least, most) of each wanted feature, by name or in their order.  Raises InputError."""
    named = {row[0]: row[1:] for row in ranges if len(row) == 3}
    if named:
        all_of = [] if features is None else [features[i] for i in wanted]
        if features is None or set(named) != set(all_of):
            names = ", ".join(all_of) or "none has a name"
            raise InputError(f"ranges of {', '.join(named)} for the features ({names}): give all of them")
        return [named[name] for name in all_of]
    if len(ranges) != len(wanted):
        which = f"d={d} features" if len(wanted) == d else f"the {len(wanted)} features that are scaled"
        raise InputError(f"{len(ranges)} ranges for {which}: give one each")
    return list(ranges)


def feature_means(exponents: Array, totals: Array, bits: int, features: Any) -> list[float]:
    """The mean of every feature.  Raises InputError for one without a value."""
    for i, count in enumerate(totals[:, 0].tolist()):
        if count == 0:
            raise InputError(
                f"{names_of((i,), features)} is missing in every row of all clients: leave the column out"
            )
    rows = zip(totals.tolist(), exponents.tolist(), strict=True)
    return [moments.feature_mean(count, total, exponent, bits) for (count, total, _), exponent in rows]


def feature_deviations(exponents: Array, totals: Array, bits: int, features: Any) -> list[float]:
    """The deviation of every feature.  Raises InputError if its offset leaves too few digits for it."""
    for i, row in enumerate(totals.tolist()):
        if 0 < (steps := moments.steps_within(*row)) < moments.FEWEST:
            raise InputError(
                f"{names_of((i,), features)} has a deviation of {steps:.2g} of the steps that its largest "
                f"value leaves room for, and {moments.FEWEST} are needed: subtract what all its values have "
                "in common, or correct an outlier"
            )
    rows = zip(totals.tolist(), exponents.tolist(), strict=True)
    return [
        moments.feature_deviation(count, total, squares, exponent, bits)
        for (count, total, squares), exponent in rows
    ]


def feature_numbers(keep: tuple[str | int, ...], features: Any, d: int) -> tuple[int, ...]:
    """Numbers of features that are named or numbered.  Raises InputError for one that there is not."""
    found = []
    for item in keep:
        known = isinstance(item, int) and not isinstance(item, bool) and 0 <= item < d
        if not known and item not in (features or ()):
            raise InputError(f"keep={item!r} is no feature: give names of columns, or numbers below {d}")
        found.append(item if isinstance(item, int) else features.index(item))
    return tuple(found)


def check_scaler_value(limit: float, outside: str, missing: str) -> None:
    """Raise InputError for values that mean nothing."""
    check_outside(outside)
    check_missing(missing)
    if not (isinstance(limit, int | float) and math.isfinite(limit) and limit > 0):
        raise InputError(f"limit={limit!r}: it must be positive and finite, as limit=10.0")


def filling_scaler(scale: Any, missing: str, federation: Federation, bound: float | None) -> Any:
    """The way of this value or word, that also fills in missing values; without one, features as they are.

    bound: a public one on values; without it and a scale, it is read off all data, and counts as public.
    """
    if scale is None:
        if bound is None:
            largest = 0.0
            for party in federation.parties:
                for _, block in raw_blocks(party.points):
                    # Not NaN: comparisons with it do not hold.
                    largest = max(largest, float(np.fmax.reduce(np.abs(block), axis=None, initial=0.0)))
            bound = power_of_two(largest)
        return FillMeans(float(bound), check_missing(missing))
    way = scaler_of(scale)
    if isinstance(way, UnitNorm):
        raise IncompatibleOptions(
            {"missing": missing, "scale_features": "norm"},
            "rows of other lengths have no mean that stands for a value",
            [("missing", "drop"), ("scale_features", "standard", "scale features")],
        )
    if isinstance(way, Scaling):
        raise InputError(
            f"missing={missing!r} with a public Scaling: it says itself what stands for missing values (fill)"
        )
    return replace(way, missing=check_missing(missing))


def check_missing(missing: str) -> Missing:
    """Raise InputError for what is no value of `missing`."""
    if missing not in get_args(Missing):
        words = ", ".join(map(repr, (*get_args(Missing), "drop")))
        raise InputError(f"missing={missing!r}: it says what becomes of missing values, {words}")
    return missing  # type: ignore[return-value]


def scaler_of(word: Any) -> Any:
    """The way of this word, as "standard"; a way itself as it is.  Raises InputError."""
    if isinstance(word, str):
        if word == "standard":
            return Standardize()
        if word == "robust":
            return Standardize(by="quartiles")
        if word == "range":
            return Range()
        if word == "norm":
            return UnitNorm()
    elif hasattr(word, "limit") and not isinstance(word, type):
        return word
    raise InputError(
        f"scale_features={format_value(word)}: it must be 'standard', 'robust', 'range', 'norm', None or a "
        "value of these, as Standardize()"
    )
