"""How well scores tell members from others: the curve, its area, detections at few false alarms.

One threshold holds for all targets.  Scores of one run share what was released in it, so they are dependent,
and intervals resample runs, never targets (a cluster bootstrap).  A rate of false alarms that the number of
non-members cannot resolve is refused.

Nothing here knows where scores come from: who is a member is the judge's knowledge (`secfc.attacks.judging`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from secfc.errors import InputError
from secfc.privacy.audit import GaussianShift

ALARMS = (0.01, 0.001)
PER_ALARM = 100  # non-members that a rate of false alarms needs, times that rate
RESAMPLES = 200
LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """A figure, and where it lies with probability `LEVEL` over runs; NaN with fewer than two."""

    value: float
    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.value:.3g} ({self.low:.3g} to {self.high:.3g})"


@dataclass(frozen=True)
class Rates:
    """What scores achieved.  at: by rate of false alarms.  runs: independent ones.

    shift: of the members' scores in deviations, taking both for Gaussian: what few runs tell of rates that
    they are too few to count.  curve: some points (false alarms, detections) of the ROC.
    """

    auc: Interval
    at: Mapping[float, Interval]
    shift: Interval
    runs: int
    members: int
    others: int
    curve: tuple[tuple[float, float], ...]

    def fitted_detections(self, alarms: float) -> float:
        """Detections at this rate by the fitted shift: a law's figure, nothing that was counted."""
        return GaussianShift(max(0.0, self.shift.value)).detection_rate(alarms)


def score_rates(
    scores: Sequence[Array],
    members: Sequence[Array],
    *,
    alarms: Sequence[float] = ALARMS,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Rates:
    """Rates of scores, large for members: one array of targets a run, and as many bool.

    alarms: rates of false alarms to count detections at, each needing 100 / rate non-members.

    Raises ValueError for too few of them, and without members or non-members at all.
    """
    ranked = RankedScores.of(scores, members)
    others = int((~ranked.inside).sum())
    inside = len(ranked.inside) - others
    if not others or not inside:
        raise InputError(f"{inside} members and {others} non-members: rates need both; draw more targets")
    for rate in alarms:
        if not 0 < rate < 1:
            raise InputError(f"a rate of {rate} false alarms: it must lie in (0, 1)")
        if others * rate < PER_ALARM * (1 - 1e-9):
            raise InputError(
                f"{others:,} non-members cannot resolve a rate of {rate:g} false alarms: at least "
                f"{math.ceil(PER_ALARM / rate - 1e-6):,} are needed. Draw more of them, in more runs, or ask "
                f"for a rate of {PER_ALARM / others:.2g} or more."
            )
    rng = np.random.default_rng(seed)
    once = np.ones(ranked.runs)
    figures = ranked.figures(once, alarms)
    drawn = [
        ranked.figures(rng.multinomial(ranked.runs, once / ranked.runs).astype(float), alarms)
        for _ in range(resamples if ranked.runs > 1 else 0)
    ]
    # A draw without members, or without others, has no rates; with ten runs or more that is rare.
    usable = np.array([row for row in drawn if np.isfinite(row).all()] or [[np.nan] * len(figures)])
    low, high = np.quantile(usable, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    auc, shift, *at = (Interval(*map(float, one)) for one in zip(figures, low, high, strict=True))
    return Rates(
        auc, dict(zip(alarms, at, strict=True)), shift, ranked.runs, inside, others, ranked.thin_curve(200)
    )


@dataclass(frozen=True, eq=False, repr=False)
class RankedScores:
    """Targets of all runs from the highest score down.  run, inside, values: of each; ends: of ties."""

    values: Array
    run: Array
    inside: Array
    runs: int

    @classmethod
    def of(cls, scores: Sequence[Array], members: Sequence[Array]) -> RankedScores:
        if len(scores) != len(members) or any(len(s) != len(m) for s, m in zip(scores, members, strict=True)):
            raise InputError("every run needs as many scores as it is known of whom they are")
        if not len(scores):
            raise InputError("no runs: nothing to rate")
        values = np.concatenate([np.asarray(s, float) for s in scores])
        if np.isnan(values).any():
            raise InputError("a score is not a number: give a target without evidence the score 0")
        run = np.repeat(np.arange(len(scores)), [len(s) for s in scores])
        order = np.argsort(-values, kind="stable")
        inside = np.concatenate([np.asarray(m, bool) for m in members])
        return cls(values[order], run[order], inside[order], len(scores))

    @cached_property
    def ends(self) -> Array:
        """The last of each group of equal scores: between them no threshold lies."""
        return np.flatnonzero(np.append(self.values[1:] != self.values[:-1], True))

    def curve(self, weights: Array) -> tuple[Array, Array]:
        """False alarms and detections at every threshold, every run counted so often."""
        counted = weights[self.run]
        hits = np.append(0.0, np.cumsum(counted * self.inside)[self.ends])
        alarms = np.append(0.0, np.cumsum(counted * ~self.inside)[self.ends])
        with np.errstate(invalid="ignore"):
            return alarms / alarms[-1], hits / hits[-1]

    def figures(self, weights: Array, alarms: Sequence[float]) -> list[float]:
        """Area, shift, and detections at rates of false alarms."""
        false, true = self.curve(weights)
        area = float(((true[1:] + true[:-1]) / 2 * np.diff(false)).sum())
        return [area, self.shift(weights), *(_at(false, true, rate) for rate in alarms)]

    def shift(self, weights: Array) -> float:
        """The difference of the means, in root mean squares of both deviations."""
        moments = []
        for side in (self.inside, ~self.inside):
            counted = weights[self.run[side]]
            total = float(counted.sum())
            if not total:
                return float("nan")
            mean = float(counted @ self.values[side]) / total
            moments.append((mean, float(counted @ (self.values[side] - mean) ** 2 / total)))
        (first, a), (second, b) = moments
        apart = first - second
        if a + b > 0:
            return apart / math.sqrt((a + b) / 2)
        return math.copysign(math.inf, apart) if apart else 0.0

    def thin_curve(self, most: int) -> tuple[tuple[float, float], ...]:
        """At most so many points of the curve, evenly in false alarms."""
        false, true = self.curve(np.ones(self.runs))
        at = np.unique(np.concatenate([np.linspace(0, 1, most - 20), np.geomspace(1e-4, 1, 20)]))
        return tuple((float(a), _at(false, true, float(a))) for a in at)


def _at(false: Array, true: Array, rate: float) -> float:
    """Detections at a rate of false alarms; between two thresholds a coin decides which holds."""
    i = int(np.searchsorted(false, rate, "right")) - 1
    if i + 1 >= len(false) or not np.isfinite(false[-1]):
        return float(true[-1])
    part = (rate - false[i]) / (false[i + 1] - false[i])
    return float(true[i] + part * (true[i + 1] - true[i]))
