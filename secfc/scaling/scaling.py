"""A scale for every feature: how data units become deviations, and centers data units again.

Of a value x, a center c and a unit u, all doubles, (x - c) / u is computed: one subtraction and one division,
which IEEE 754 rounds alike everywhere.  So scaled points, and the integers they become, are a function of the
points and of numbers that all parties agreed on, and plaintext k-means on them is an exact oracle.  So are
norms of rows: squares are added in the order of features.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from field.arrays import Array
from secfc.data.federation import Federation
from secfc.data.inputs import SWITCH, Rows, check_fields, in_memory, names_listed, not_finite
from secfc.data.party import Party, RowsWithGaps, SeenRows, raw_blocks
from secfc.errors import InputError
from secfc.remedies import agree_in_number

Outside = Literal["clip", "refuse", "missing"]

FEW, NARROW = 10, 0.01  # points that tell of a spread, and common deviations below which a unit is doubted
APART, ALONE = 0.5, 0.1  # a mean that far from the common one, and a spread of so little of that, are doubted
CLIPPED = 0.05  # of a feature's values at a client, moved to the limit, from which on it is told


@dataclass(frozen=True)
class Scaling:
    """Center and unit of every feature: x becomes (x - center) / unit.

    Parameters
    ----------
    centers
        (d,) center of each feature, in data units.
    units
        (d,) unit of each feature, in data units, at least 0; a unit of 0 sets the feature to 0 for all
        points.
    limit
        Largest absolute scaled value, above 0.
    outside
        What happens to values beyond the limit: "clip" moves them to it, "refuse" refuses them, "missing"
        treats them as missing.
    fill
        (d,) values that replace missing ones (NaN), in data units, NaN for features that only others observe;
        None refuses missing values.
    norm
        Whether each row is divided by its Euclidean norm first.

    Notes
    -----
    As a value for `Scaled` a scaling is public: all parties compare it, and nothing is summed.
    """

    centers: tuple[float, ...]
    units: tuple[float, ...]
    limit: float
    outside: Outside = "clip"
    fill: tuple[float, ...] | None = None
    norm: bool = False

    def __post_init__(self) -> None:
        check_outside(self.outside)
        check_fields(self, {"norm": SWITCH})
        for name in ("centers", "units", "fill"):
            if (values := getattr(self, name)) is not None:
                object.__setattr__(self, name, tuple(map(float, values)))
        if len(self.centers) != len(self.units) or len(self.fill or self.units) != len(self.units):
            raise InputError(
                f"{len(self.centers)} centers and {len(self.units)} units: one each a feature is needed"
            )
        if any(unit < 0 or unit == np.inf for unit in self.units) or not 0 < self.limit < np.inf:
            raise InputError("units are finite and not negative, and the limit is finite and positive")

    @property
    def d(self) -> int:
        """Features."""
        return len(self.units)

    @property
    def constant(self) -> tuple[int, ...]:
        """Features that tell no points apart, and are left out of distances."""
        return tuple(i for i, unit in enumerate(self.units) if unit == 0)

    def among(self, columns: tuple[int, ...] | None) -> Scaling:
        """The scaling of these features, in this order; of all without."""
        if columns is None:
            return self

        def chosen(values: tuple[float, ...]) -> tuple[float, ...]:
            return tuple(values[i] for i in columns)

        fill = None if self.fill is None else chosen(self.fill)
        return replace(self, centers=chosen(self.centers), units=chosen(self.units), fill=fill)

    def fixed(self, public: Any) -> Scaling:
        """Itself, for all who take part.  Raises InputError for other features."""
        if self.d != public.d:
            raise InputError(f"a scaling of {self.d} features for d={public.d}: give one unit a feature")
        return self

    def forward(self, points: Array, owner: str = "the data", first_row: int = 0) -> Array:
        """Scaled points (rows, d) float64.  Missing values need a fill.

        Raises InputError for values that are missing without one, infinite, or outside and to be refused, and
        for rows of zeros where rows are divided by their norms; the message names row and feature, and shows
        no value.
        """
        values, centers, units = np.asarray(points, np.float64), np.array(self.centers), np.array(self.units)
        missing = np.isnan(values)
        if self.fill is not None:
            values = np.where(missing, np.array(self.fill), values)
        if not (finite := np.isfinite(values)).all():
            row, feature = np.argwhere(~finite)[0]
            where = f"{owner}, row {first_row + int(row)}, feature {int(feature)}"
            raise not_finite(where, bool(missing[row, feature]))
        values = unit_rows(values, owner, first_row) if self.norm else values
        kept = np.where(units > 0, units, 1.0)
        scaled: Array = np.asarray((values - centers) / kept)
        scaled[:, units == 0] = 0.0
        if self.outside == "clip":
            return np.asarray(np.clip(scaled, -self.limit, self.limit))
        beyond = np.abs(scaled) > self.limit
        if self.outside == "missing" and self.fill is not None:
            middle = (np.array(self.fill) - centers) / kept
            return np.asarray(np.where(beyond, np.clip(middle, -self.limit, self.limit), scaled))
        if beyond.any():
            row, feature = np.argwhere(beyond)[0]
            raise InputError(
                f"{owner}, row {first_row + int(row)}, feature {int(feature)} (counted from 0) lies more "
                f"than {self.limit:g} units from its center, one of {int(beyond.sum())} such values",
                [
                    "correct it",
                    "raise the limit",
                    ("outside", "clip", "move such values to the limit")
                    if self.outside == "refuse"
                    else ("missing", "drop", "leave such rows out"),
                ],
            )
        return scaled

    def back(self, centers: Array) -> Array:
        """Scaled rows (k, d), such as centers, in data units; of a feature left out, its constant."""
        return np.asarray(np.array(self.centers) + np.asarray(centers) * np.array(self.units))

    def count_outside(self, points: Rows) -> tuple[int, int]:
        """How many values lie beyond the limit, and how many are missing."""
        beyond = missing = 0
        kept = np.where(np.array(self.units) > 0, self.units, np.inf)
        for _, block in raw_blocks(points):
            values = block.astype(np.float64)
            missing += int(np.isnan(values).sum())
            if self.norm:  # no value exceeds the norm of its row
                continue
            beyond += int((np.abs((values - np.array(self.centers)) / kept) > self.limit).sum())
        return beyond, missing

    def unit_notes(self, points: Rows, names: tuple[str, ...] | None) -> tuple[str, ...]:
        """Features (names, or numbers) of a client's raw points that lie as if they were in another unit.

        What a client computes of its own points and the common scale: a spread below a hundredth of the
        common deviation; a mean half a deviation from the common one, ten times the spread; and values beyond
        the limit, a twentieth of all.  Too few points, constants, and features that stay as they are tell
        nothing.
        """
        centers, units = np.array(self.centers), np.array(self.units)
        scaled = (units > 0) & ~((centers == 0) & (units == 1)) & ~np.isnan(units)
        kept = np.where(scaled, units, 1.0)
        count, total, squares, far = np.zeros((4, self.d))
        for _, block in raw_blocks(points):
            values = (block.astype(np.float64) - centers) / kept
            count += (~np.isnan(values)).sum(axis=0)
            total, squares = total + np.nansum(values, axis=0), squares + np.nansum(values**2, axis=0)
            far += (np.abs(values) > self.limit).sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = np.sqrt(np.maximum(squares / count - (total / count) ** 2, 0.0))
            # Below, the spread is what rounding leaves of a constant.
            mean, share = total / count, far / count
            told = scaled & (count >= FEW) & (spread > 1e-6 * np.abs(mean))
            alone = told & (np.abs(mean) >= APART) & (spread < ALONE * np.abs(mean))
            narrow, beyond = told & (spread < NARROW), told & (share >= CLIPPED)
        called = [names_of((f,), names) for f in range(self.d)]
        return (
            *(
                f"{called[f]} spreads {spread[f]:.1g} of the common deviation: is it in the same unit"
                for f in np.flatnonzero(narrow).tolist()
            ),
            *(
                f"the mean of {called[f]} lies {abs(mean[f]):.2g} common deviations from that of all, and it "
                f"spreads {spread[f]:.1g} of one: is it in the same unit"
                for f in np.flatnonzero(alone & ~narrow).tolist()
            ),
            *(
                f"{share[f]:.0%} of {called[f]} lies beyond the limit of {self.limit:g}: is it in the same "
                "unit, or the limit too low"
                for f in np.flatnonzero(beyond).tolist()
            ),
        )

    def far_note(self, parties: Iterable[Party]) -> str | None:
        """How many new rows have values beyond the limit, which the model never saw; None if none has."""
        if self.norm:
            return None
        return SeenRows(self.centers, self.units, self.limit).far_note(parties)

    def party(self, party: Party, columns: tuple[int, ...] | None = None) -> Party:
        """A client with its points scaled: in memory if they were, else as they are read.

        columns: which of the d features its columns are, None if all.
        """
        own = self.among(columns)
        if party.points.shape[1] != own.d:
            raise InputError(
                f"client {party.name!r} has {party.points.shape[1]} features and the scaling is of {own.d}: "
                "give the columns that were scaled"
            )
        rows: Rows = ScaledRows(own, party.points, f"client {party.name!r}")
        return replace(party, points=rows[0 : rows.shape[0]] if is_in_memory(party.points) else rows)

    def without_outside(self, federation: Federation) -> tuple[Federation, int]:
        """All clients with NaN for what lies beyond a limit that is known before the run, and how many."""
        kept, count = np.where(np.array(self.units) > 0, self.units, np.inf), 0
        observed, parties = federation.observed or (None,) * federation.n, []
        for party, columns in zip(federation.parties, observed, strict=True):
            own = self.among(columns)
            if (found := own.count_outside(party.points)[0]) == 0:
                parties.append(party)
                continue
            count += found
            values = np.concatenate([np.asarray(block, np.float64) for _, block in raw_blocks(party.points)])
            some = list(range(self.d)) if columns is None else list(columns)
            far = np.abs((values - np.array(own.centers)) / kept[some]) > self.limit
            parties.append(replace(party, points=RowsWithGaps(np.where(far, np.nan, values))))
        return replace(federation, parties=tuple(parties)), count

    def federation(self, federation: Federation) -> Federation:
        """All clients, and the server if it holds points, with their points scaled: for experiments."""
        observed = federation.observed or (None,) * federation.n
        parties = tuple(
            self.party(party, columns) for party, columns in zip(federation.parties, observed, strict=True)
        )
        held = federation.server_points
        held = None if held is None else self.held(held, federation.observed)
        return replace(federation, parties=parties, server_points=held)

    def held(self, points: Array, observed: tuple[tuple[int, ...], ...] | None) -> Array:
        """The server's points scaled, of all features or of those that all clients observe."""
        common = tuple(sorted(set(range(self.d)).intersection(*(observed or ()))))
        return self.among(common if points.shape[1] < self.d else None).forward(points, "the server")

    def sentences(self, names: tuple[str, ...] | None, rows: str = "all") -> tuple[str, ...]:
        """What became of the features, for reports.  rows: in which one that is left out is the same."""
        if not self.constant:
            return ()
        listed = names_of(self.constant, names)
        return (
            f"{listed} is the same in {rows} rows, and is left out of distances"
            if len(self.constant) == 1
            else f"{listed} are each the same in {rows} rows, and are left out of distances",
        )


@dataclass(frozen=True, eq=False, repr=False)
class ScaledRows:
    """Points (m, d) that are scaled when they are read."""

    scaling: Scaling
    points: Rows
    owner: str

    @property
    def shape(self) -> tuple[int, ...]:
        return self.points.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64)

    def __getitem__(self, rows: slice, /) -> Array:
        first = rows.indices(self.points.shape[0])[0]
        return self.scaling.forward(np.asarray(self.points[rows]), self.owner, first)


def unit_rows(values: Array, owner: str, first_row: int) -> Array:
    """Rows (rows, d) float64, finite, divided by their Euclidean norms.

    Raises InputError for a row of zeros, which has no direction.
    """
    _, exponents = np.frexp(np.abs(values).max(axis=1, initial=0.0))
    # So that no square overflows, and none of the largest is lost; exact.
    values = np.ldexp(values, -exponents[:, None])
    squares = np.zeros(len(values))
    for column in values.T:
        squares += column * column
    if not squares.all():
        zeros = np.flatnonzero(squares == 0)
        raise InputError(
            f"{owner}, row {first_row + int(zeros[0])} (counted from 0) has only zeros, one of {len(zeros)} "
            "such rows: it has no direction",
            ["leave such rows out", ("scale_features", "standard", "scale features, not rows")],
        )
    return np.asarray(values / np.sqrt(squares)[:, None])


def is_in_memory(points: Any) -> bool:
    """Whether these rows are in memory, or only gaps around such."""
    return in_memory(getattr(points, "values", points))


def names_of(features: tuple[int, ...], names: tuple[str, ...] | None) -> str:
    """These features in words."""
    if names is not None:
        return names_listed([names[i] for i in features])
    return names_listed([f"feature {i}" for i in features]).replace("'", "")


def missing_sentence(count: int, limit: float) -> str:
    """What became of values beyond a limit that are missing."""
    return agree_in_number(
        f"{count} values lie more than {limit:g} units from the center of the feature, taken as missing"
    )


def check_outside(outside: str) -> None:
    """Raise InputError for what is no value of `outside`."""
    if outside not in get_args(Outside):
        words = ", ".join(map(repr, get_args(Outside)))
        raise InputError(f"outside={outside!r}: it says what becomes of values beyond the limit, {words}")
