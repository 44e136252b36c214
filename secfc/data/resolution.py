"""Whether integers are fine enough for the data: steps of rounding within the spread of every feature.

Values become multiples of 1/scale, the same step for all features, and the scale that the ring holds follows
from the bound on all values.  So one outlier, or one column in other units, can make the step so coarse that
every other feature rounds to the same few integers.  Labels are then exactly those of k-means on the rounded
points, and have little to do with the points.

The spread of a feature is its interquartile range, which outliers do not move; where most values are equal,
as in sparse features, the median distance of the others from them, if that is more.  A feature that rounding
does not change, or that is constant, has lost nothing.

Who judges.  In one process `fit` sees all data and judges them together (`check_resolution`).  In a
deployment nobody
does: every site judges its own rows before it shares any (`check_resolution_at_site`), and tells its own user
alone. Nothing of that is sent; that a site refuses is seen, as with a value outside the bound.  Where noise
pays for what is released, nothing is judged.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from field.ring.quantize import Quantizer
from secfc.data.federation import Federation
from secfc.data.inputs import Array, get_parameter, with_parameters
from secfc.data.party import Party
from secfc.errors import Caution, InputError
from secfc.remedies import WITHOUT_OUTLIERS, Remedy

Coarse = Literal["refuse", "warn", "allow"]

FINE = 64  # steps within the spread, below which a user is warned
LEAST = 8  # below which a run is refused
SAMPLE = 1 << 18  # values that are looked at, but no fewer than a thousand rows: enough for quartiles
SLICES = 64  # of neighboring rows, spread over all
FEW = 20  # rows of a site below which it only warns: their quartiles say little of all data

FOLD = 100  # between the spreads of two features, from which on a common scale is recommended


@dataclass(frozen=True)
class Resolution:
    """Steps of 1/scale within the spread of each feature: (d,) floats, infinite where nothing is lost.

    names: of the features, or their numbers.
    """

    steps: tuple[float, ...]
    names: tuple[str, ...]
    quantizer: Quantizer

    def below(self, steps: int) -> tuple[int, ...]:
        """Features of fewer steps than this, the coarsest first."""
        order = sorted(range(len(self.steps)), key=lambda i: self.steps[i])
        return tuple(i for i in order if self.steps[i] < steps)

    @property
    def coarsest(self) -> float:
        """The fewest steps that any feature has."""
        return min(self.steps)

    def sentence(self, whose: str, widest: str | None = None) -> str:
        """What rounding does to the features of fewer than FINE steps, and why."""
        coarse = self.below(FINE)
        shown = ", ".join(f"{_steps(self.steps[i])} in {self.names[i]}" for i in coarse[:6])
        more = f", and {len(coarse) - 6} more" if len(coarse) > 6 else ""
        q = self.quantizer
        where = "" if widest is None else f", the largest of which is in {widest},"
        return (
            f"rounding loses {whose}: the spread of {len(coarse)} of {len(self.steps)} features has fewer "
            f"than {FINE} of its steps ({shown}{more}). All features share one step, here of "
            f"{1 / q.scale:g} data units, and the bound {q.bound:g} on all values{where} decides how fine it "
            "can be"
        )


FINER: tuple[Remedy, ...] = (
    ("scale_features", "standard", "bring features to a common scale"),
    ("scale_features", WITHOUT_OUTLIERS, "bring them to one that outliers do not move, and fill these in"),
    "mend or drop outliers",
    ("columns", ..., "leave columns out"),
    ("bound", ..., "give the bound that then holds"),
    ("scale", ..., "raise the scale if you set it"),
)


# Of points that are on a common scale, whose limit is the bound.
FINER_SCALED = tuple(
    one for one in FINER if isinstance(one, str) or (one[:2] != FINER[0][:2] and one[0] != "bound")
)


class RoundingLoss(Caution):
    """Rounding leaves features few steps of their spread."""


def measure_resolution(
    parts: Sequence[Array], quantizer: Quantizer, names: Sequence[str] | None
) -> Resolution:
    """The resolution of points that lie in one or more (rows, d) arrays, in data units."""
    scaled = np.concatenate([np.asarray(part, np.float64) for part in parts]) * quantizer.scale
    rows, d = scaled.shape
    known = tuple(f"feature {i}" for i in range(d)) if names is None else tuple(map(repr, names))
    # What is no number is refused when it is rounded, not here.
    same = (np.rint(scaled) == scaled) | ~np.isfinite(scaled)
    lossy = np.flatnonzero(~same.all(axis=0) & (scaled != scaled[0]).any(axis=0))
    steps = np.full(d, np.inf)
    last = rows - 1
    low, middle, high = last // 4, last // 2, last - last // 4
    ordered = np.partition(scaled[:, lossy], sorted({low, middle, high}), axis=0)
    steps[lossy] = ordered[high] - ordered[low]
    for place, i in enumerate(lossy):
        if steps[i] < FINE:
            apart = np.abs(scaled[:, i] - ordered[middle, place])
            steps[i] = max(steps[i], float(np.median(apart[apart > 0])))
    return Resolution(tuple(steps.tolist()), known, quantizer)


def sample_rows(party: Party, rows: int) -> Iterator[Array]:
    """About so many of a party's points, (b, d) blocks: all, or slices spread evenly over them."""
    m = party.points.shape[0]
    if m <= rows:
        yield np.asarray(party.points[0:m])
        return
    count = max(1, min(SLICES, rows))
    size = max(1, rows // count)
    for first in np.linspace(0, m - size, count).astype(np.int64).tolist():
        yield np.asarray(party.points[first : first + size])


def sample_size(d: int) -> int:
    """Rows of d features that are looked at."""
    return max(1000, SAMPLE // d)


def of_federation(federation: Federation, quantizer: Quantizer) -> Resolution:
    """The resolution of all points together: what only a process that sees all data can say."""
    share = min(1.0, sample_size(federation.d) / federation.m)
    parts = [
        block
        for party in federation.parties
        for block in sample_rows(party, max(1, round(share * party.points.shape[0])))
    ]
    return measure_resolution(parts, quantizer, federation.feature_names)


def widest_feature(federation: Federation) -> str:
    """The feature that holds the largest absolute value of all points."""
    largest: Array = np.zeros(federation.d)
    for party in federation.parties:
        for _, block in party.blocks():
            largest = np.maximum(largest, np.abs(block.astype(np.float64)).max(axis=0))
    at = int(largest.argmax())
    names = federation.feature_names
    return f"feature {at}" if names is None else repr(names[at])


def check_resolution(
    algorithm: Any, plan: Any, federation: Federation, *, scaled: bool = False
) -> tuple[Any, Resolution | None]:
    """All data against the rounding of this run: its resolution, and the algorithm with its data judged.

    scaled: whether the points are on a common scale already.

    Algorithms that do not round, and those whose output noise pays for, come back as they are, with None.  Of
    others, no site judges its part again.

    Warns (`Caution`) below FINE steps.  Raises InputError below LEAST.  Its `coarse` may ask for less.
    An algorithm that changes points before they are rounded judges itself (`Capabilities.judge`).
    """
    if (judge := algorithm.capabilities.judge) is not None:
        own: tuple[Any, Resolution | None] = judge(plan, federation)
        return own
    quantizer = quantizer_of(algorithm, plan, federation)
    if quantizer is None:
        return algorithm, None
    found = of_federation(federation, quantizer)
    coarse = get_parameter(algorithm, "coarse")
    if found.coarsest < FINE and coarse != "allow":
        sentence = found.sentence("much of the data", widest_feature(federation))
        warn_of_resolution(found, sentence, coarse, FINER_SCALED if scaled else FINER)
    return with_parameters(algorithm, coarse="allow"), found


def check_resolution_at_site(algorithm: Any, quantizer: Quantizer, party: Party) -> None:
    """A site's judgement of its own rows, before it shares any; as `check_resolution`, but FEW rows only
    warn.
    """
    coarse = algorithm.capabilities.coarse
    if coarse == "allow" or not algorithm.disclosure.capabilities.exact or not party.points.shape[0]:
        return
    found = measure_resolution(list(sample_rows(party, sample_size(party.points.shape[1]))), quantizer, None)
    if found.coarsest < FINE:
        whose = f"much of the data of client {party.name!r}"
        warn_of_resolution(found, found.sentence(whose), "warn" if party.points.shape[0] < FEW else coarse)


def warn_of_resolution(
    found: Resolution, sentence: str, coarse: Coarse, finer: tuple[Remedy, ...] = FINER
) -> None:
    """Warn, or raise InputError, of a resolution below FINE.  finer: what helps."""
    if found.coarsest < LEAST and coarse == "refuse":
        raise InputError(
            f"{sentence}. Below {LEAST} steps this is refused",
            (*finer, ("coarse", "allow", "cluster the rounded points all the same")),
        )
    warnings.warn(RoundingLoss(sentence, finer), stacklevel=3)


def quantizer_of(algorithm: Any, plan: Any, federation: Federation) -> Quantizer | None:
    """How the data of this run will be rounded, None if they are not, or if that is not to be judged.

    With hidden membership it follows from the size of the union, which here can be foreseen.  Where clients
    observe different columns, each judges its own.
    """
    can = algorithm.capabilities
    apart = can.partial and federation.observed is not None
    exact = can.policy is None or can.policy.capabilities.exact
    if can.coarse is None or apart or not exact:
        return None
    quantizer: Quantizer = (can.foresee(plan, federation) if can.foresee else plan).quantizer
    return quantizer


def check_coarse(coarse: str) -> None:
    """Raise InputError for what is no value of `coarse`."""
    if coarse not in get_args(Coarse):
        words = ", ".join(map(repr, get_args(Coarse)))
        raise InputError(f"coarse={coarse!r}: it says what is done about coarse rounding, one of {words}")


def _steps(value: float) -> str:
    return f"{value:.2g}" if value < 10 else f"{value:.0f}"


# --------------------------------------------------------------------------------------------------
# Columns that look alike by name only: other units at one client, or no differences anywhere.
#
# What only a process that sees all data can say; nothing of it is sent in a deployment.

FOLD = 100  # times the range of another client, from which on units are doubted


def unit_mismatches(federation: Federation) -> tuple[str, ...]:
    """Sentences about features whose ranges differ FOLD-fold between clients, or that are constant
    everywhere.

    No value is shown.
    """
    names = federation.feature_names or tuple(map(str, range(federation.d)))
    everybody = (tuple(range(federation.d)),) * federation.n
    low, high = np.full((2, federation.n, federation.d), np.nan)
    for j, (party, own) in enumerate(zip(federation.parties, federation.observed or everybody, strict=True)):
        for _, block in party.blocks():
            low[j, list(own)] = np.fmin(low[j, list(own)], block.min(axis=0))
            high[j, list(own)] = np.fmax(high[j, list(own)], block.max(axis=0))
    said = []
    for f, name in enumerate(names):
        seen = np.flatnonzero(~np.isnan(low[:, f]))
        if not len(seen):
            continue
        ranges = (high - low)[seen, f]
        if low[seen, f].min() == high[seen, f].max():
            said.append(f"column {name!r} has one value everywhere: it tells no points apart")
        elif ranges.min() > 0 and ranges.max() >= FOLD * ranges.min():
            wide, narrow = (federation.names[seen[i]] for i in (ranges.argmax(), ranges.argmin()))
            said.append(
                f"column {name!r} ranges {ranges.max() / ranges.min():.0f} times as far at {wide} as at "
                f"{narrow}: "
                "the same units are needed"
            )
    return tuple(said)


def scaling_hint(federation: Federation) -> str | None:
    """A note where spreads of features differ so much that some of them hardly count."""
    if federation.observed is not None or federation.d < 2:
        return None
    share = min(1.0, sample_size(federation.d) / federation.m)
    rows = np.concatenate(
        [
            np.asarray(block, np.float64)
            for party in federation.parties
            for block in sample_rows(party, max(1, round(share * party.points.shape[0])))
        ]
    )
    deviations = rows.std(axis=0)
    there = np.flatnonzero(deviations > 0)
    if len(there) < 2:
        return None
    wide, narrow = there[deviations[there].argmax()], there[deviations[there].argmin()]
    fold = deviations[wide] / deviations[narrow]
    if fold < FOLD:
        return None
    names = federation.feature_names
    first, second = (f"feature {i}" if names is None else repr(names[i]) for i in (wide, narrow))
    # To one digit: how wide a column is is a fact of the data.
    shown = 10 ** int(np.log10(fold))
    return (
        f"{first} spreads more than {shown:,} times as wide as {second}, which so hardly counts: bring "
        "features to a common scale with --standardize"
    )
