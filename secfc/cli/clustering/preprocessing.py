"""How the shell prepares features before any algorithm: scales, gaps, and categories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from secfc.cli.shell.errors import bad_input, options_here
from secfc.cli.shell.method import AskedOptions
from secfc.cli.shell.settings import Settings
from secfc.errors import IncompatibleOptions, InputError
from secfc.remedies import Remedy

if TYPE_CHECKING:
    from secfc.algorithm import Clustering
    from secfc.data.federation import Federation
    from secfc.scaling.algorithm import AppliedScaling


def agree_on_categories(column: str, values: Sequence[Sequence[str]]) -> list[str]:
    """The categories of a column that clients agree on by a private set union, in ascending order."""
    import psu

    n = len(values)
    if n == 1:
        return sorted(values[0])
    mode = psu.Committee((n - 1) // 2) if n > 2 else psu.Server()
    result = psu.union(values, mode=mode, bound=max(64, 2 * sum(map(len, values))))
    # Each client learns the numbers of its own categories; this process has all, so it can order them.
    numbered = {
        int(row): text
        for own, rows in zip(values, result.rows, strict=True)
        for text, row in zip(own, () if rows is None else rows, strict=True)
    }
    return sorted(numbered.values())


def check_preprocessing(asked: AskedOptions) -> None:
    """Raise UsageError for options that contradict one another."""
    settings = asked.settings
    # A part of the budget pays for the scale, if it is not public points that give it.
    found = settings.standardize not in (None, "norm")
    paid = found and asked.noisy and asked.get("server_file") is None
    flags = {
        "--standardize": settings.standardize is not None,
        "--to-range": settings.to_range,
        "--ranges": settings.ranges is not None and not (paid and not settings.to_range),
    }
    scales = [name for name, given in flags.items() if given]
    _check_norm(settings)
    _check_scales(settings, scales, paid, asked.get("epsilon"))
    _check_limits(settings, scales, asked.get("bound"))
    _check_columns(settings)
    if scales and "bound" in asked.given:
        raise click.UsageError(
            f"--bound has no meaning with {scales[0]}, which gives the bound: leave it out."
        )
    if asked.noisy and not paid and asked.get("server_file") is None:
        _check_exact_facts(settings, asked.get("epsilon"))
    if settings.missing == "mean" and not scales and asked.get("bound") is None:
        raise InputError(
            "no bound is read off rows with gaps",
            [
                ("bound", ..., "give one"),
                ("standardize", "standard", "bring features to a scale, which has one"),
            ],
            {"missing": "mean"},
        )


def _check_norm(settings: Settings) -> None:
    if settings.standardize != "norm":
        return
    if (settings.limit, settings.outside) != (None, None):
        raise click.UsageError("--standardize norm has no limit to exceed: leave --limit and --outside out.")
    if settings.missing == "mean":
        raise click.UsageError(
            "--missing mean: of rows of other lengths no mean stands for a value. With --standardize norm "
            "take --missing drop."
        )


def _check_scales(settings: Settings, scales: Sequence[str], paid: bool, epsilon: float | None) -> None:
    if len(scales) > 1:
        both = scales == ["--standardize", "--ranges"] and epsilon is None
        more = " With --epsilon both are one." * both
        raise click.UsageError(f"{scales[0]} and {scales[1]} are two scales: choose one.{more}")
    if settings.scale_share is not None and not paid:
        raise click.UsageError(
            "--scale-share is a part of a budget that a scale takes: it needs --standardize and --epsilon, "
            "and no --server-file, whose points cost nothing."
        )
    if paid and settings.standardize == "robust":
        raise click.UsageError(
            "--standardize robust tells clients exact counts, which no budget covers: with --epsilon give "
            "--standardize, whose means and deviations a part of the budget pays for."
        )
    if paid and settings.ranges is None:
        raise IncompatibleOptions(
            {"standardize": settings.standardize, "epsilon": epsilon},
            "noise on means and deviations covers values within ranges that everybody may know",
            [
                ("ranges", ..., "give such ranges as well, or in its place, where they cost nothing"),
                ("standardize", None),
            ],
        )
    if paid and settings.outside in ("refuse", "missing"):
        raise click.UsageError(
            f"--outside {settings.outside} tells that there is such a value, which no budget covers: leave "
            "it out, and values beyond the limit are moved to it."
        )


def _check_limits(settings: Settings, scales: Sequence[str], bound: float | None) -> None:
    from secfc.scaling.ways import check_limits

    if settings.limit is not None and not settings.standardize:
        raise click.UsageError("--limit counts deviations: it needs --standardize.")
    if settings.outside is not None and not scales and (bound is None or settings.outside != "missing"):
        raise click.UsageError(
            "--outside needs --standardize, --to-range or --ranges, which set limits; --outside missing "
            "also goes with --bound."
        )
    check_limits(limiting_way(settings, bound), settings.missing)


def _check_columns(settings: Settings) -> None:
    if settings.categorical and (not settings.files or settings.features != "same"):
        raise click.UsageError("--categorical names columns that all FILEs have: leave it out here.")
    if settings.missing != "refuse" and settings.features != "same":
        raise click.UsageError(
            f"--missing has no meaning with --features {settings.features}, where columns may be absent and "
            "no cells: leave one of them out."
        )


def _check_exact_facts(settings: Settings, epsilon: float | None) -> None:
    """Raise IncompatibleOptions for what tells clients exact facts of the data."""
    facts: tuple[tuple[str, Any, list[Remedy]], ...] = (
        ("to_range", settings.to_range or None, [("ranges", ..., "give ranges that everybody may know")]),
        ("missing", settings.missing if settings.missing == "mean" else None, [("missing", "drop")]),
    )
    for name, value, remedies in facts:
        if value is not None:
            paid = "have a part of the budget pay for --standardize within public --ranges"
            raise IncompatibleOptions(
                {name: value, "epsilon": epsilon},
                "this tells clients exact facts of the data, which no budget covers",
                [*remedies, ("scale_share", ..., paid), (name, None)],
            )


def bits_of(settings: Settings, features: Sequence[str]) -> tuple[str, ...]:
    """Features that are categories: they are bits as they are, and not standardized; ranks of three are."""
    columns = [f"{name}=" for name, _ in settings.categorical]
    bits = (name for name in features if any(name.startswith(c) for c in columns))
    return tuple(name for name in bits if name.count("<") < 2)


def way_for(asked: AskedOptions, features: Sequence[str]) -> Any:
    """How features of these names are scaled, None if they are not."""
    from secfc.scaling.noisy import NoisyStandardize
    from secfc.scaling.ways import FillMeans, Range, Standardize, UnitNorm

    settings = asked.settings
    if settings.standardize == "norm":
        return UnitNorm()
    missing = "mean" if settings.missing == "mean" else "refuse"
    outside = {} if settings.outside is None else {"outside": settings.outside}
    if settings.standardize is not None:
        limit = {} if settings.limit is None else {"limit": settings.limit}
        keep = bits_of(settings, features)
        if settings.ranges is not None:
            bits = tuple((name, 0.0, 1.0) for name in keep if missing == "mean")
            share = {} if settings.scale_share is None else {"share": settings.scale_share}
            return NoisyStandardize((*settings.ranges, *bits), missing=missing, keep=keep, **limit, **share)  # type: ignore[arg-type]
        by = "quartiles" if settings.standardize == "robust" else "deviation"
        return Standardize(missing=missing, keep=keep, by=by, **limit, **outside)  # type: ignore[arg-type]
    if settings.to_range or settings.ranges is not None:
        return Range(settings.ranges, missing=missing, **outside)  # type: ignore[arg-type]
    return FillMeans(asked["bound"], **outside) if missing == "mean" else None  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False, repr=False)
class PreparedPoints:
    """The points that are clustered, and how they came about.

    points: scaled, as the algorithm sees them; where the scale is noisy, a stand-in until the run draws it.
    raw: as clients bring them.  bound: of the points, None if nobody gave one.  way, applied: the scale, None
    without; applied is None as well where the scale is noisy.
    """

    points: Federation
    raw: Federation
    bound: float | None
    way: Any = None
    applied: AppliedScaling | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know of it."""
        if self.noisy:
            return ()
        if self.applied is None:
            from secfc.data.resolution import scaling_hint

            note = scaling_hint(self.raw)
            return () if note is None else (note,)
        return self.applied.sentences(self.raw.feature_names, options_here())

    @property
    def noisy(self) -> bool:
        """Whether a part of a budget pays for the scale, so that it is known after the run only."""
        return self.way is not None and self.applied is None

    def found(self, result: Clustering) -> Federation:
        """The points that were clustered: under noise, by the scale that this run has drawn."""
        if not self.noisy:
            return self.points
        federation: Federation = result.scaling.scaling.federation(self.raw)
        return federation

    def told(self, result: Clustering) -> tuple[str, ...]:
        """What the user should know of a scale that a part of a budget paid for."""
        if not self.noisy:
            return ()
        return (
            f"{100 * self.way.share:g} % of the budget paid for the scale: every client learns "
            f"{self.way.opened}; the rest, epsilon={result.scaling.noise.rest.epsilon:g}, paid for labels",
            *result.scaling.released(self.raw.feature_names),
            "--radius is of scaled points, and centers are in data units",
        )

    def asked(self, asked: AskedOptions) -> AskedOptions:
        """What was asked for, with the bound that follows from the scale."""
        takes = self.way is not None and "bound" in asked.options
        return asked.with_values(bound=self.bound) if takes else asked

    def algorithm(self, algorithm: Any) -> Any:
        """The algorithm, on scaled points if they are."""
        from secfc.scaling.algorithm import Scaled

        return algorithm if self.way is None else Scaled(algorithm, self.way, told=True)


def prepare_points(asked: AskedOptions, federation: Federation) -> PreparedPoints:
    """The points of all clients as they will be clustered: what only a process that sees all data can say.

    Raises InputError.
    """
    from secfc.algorithm import PublicFacts
    from secfc.roles.description import RunTerms
    from secfc.scaling.algorithm import apply_scaling
    from secfc.scaling.noisy import NoisyStandardize
    from secfc.scaling.roles import ScaledPlan

    way = way_for(asked, federation.feature_names or ())
    if way is None or asked.settings.split == "columns":  # which each owner brings to scale by itself
        return PreparedPoints(federation, federation, None if way is None else way.limit)
    with bad_input():
        public = PublicFacts.of(federation, way.limit)
        if isinstance(way, NoisyStandardize):
            # What stands for them until noise is drawn: nothing but names and numbers of rows is read off it.
            within = replace(way.within(federation.feature_names, federation.d), limit=way.limit)
            return PreparedPoints(within.federation(federation), federation, way.limit, way)
        plan = ScaledPlan.of(way, public, None, RunTerms(way, public), way.fixed(public), 1)
        applied = apply_scaling(way, plan, federation)
        return PreparedPoints(applied.scaling.federation(federation), federation, way.limit, way, applied)


def limiting_way(settings: Settings, bound: float | None) -> Any:
    """What sets limits on values, and says what becomes of those beyond; None without limits."""
    from secfc.scaling.ways import FillMeans, Range, Standardize

    if settings.standardize not in (None, "norm"):
        return Standardize(outside=settings.outside or "clip")  # type: ignore[arg-type]
    if settings.outside is None:
        return None
    if settings.to_range or settings.ranges is not None:
        return Range(settings.ranges, settings.outside)  # type: ignore[arg-type]
    return None if bound is None else FillMeans(bound, outside=settings.outside)  # type: ignore[arg-type]


def without_outside(
    settings: Settings, federation: Federation, bound: float | None
) -> tuple[Federation, tuple[str, ...]]:
    """All rows, with gaps for what lies beyond limits known before the run, where such is missing; notes."""
    from secfc.scaling.scaling import missing_sentence
    from secfc.scaling.ways import limits_of_missing

    way = limiting_way(settings, bound)
    with bad_input():
        limits = limits_of_missing(way, settings.missing, federation.feature_names, federation.d)
    if limits is None:
        return federation, ()
    found, count = limits.without_outside(federation)
    return found, (missing_sentence(count, limits.limit),) * (count > 0)


def without_gaps(
    settings: Settings, federation: Federation, bound: float | None = None
) -> tuple[Federation, Any, tuple[str, ...]]:
    """The rows that will be clustered, which of its rows these are by client, None if all are, and notes.

    bound: a public one on values, beyond which they may be missing.

    Raises InputError if none is left.
    """
    from secfc.data.federation import drop_incomplete_rows as dropped

    federation, notes = without_outside(settings, federation, bound)
    if settings.missing != "drop":
        return federation, None, notes
    left, kept = dropped(federation)
    rows = dict(zip(federation.names, kept, strict=True))
    lost = {
        party.name: count
        for party in federation.parties
        if (count := party.points.shape[0] - len(rows[party.name]))
    }
    if not lost:
        return left, rows, notes
    named = [f"{name} {count}" for name, count in lost.items()]
    more = f", and {len(named) - 6} more clients" if len(named) > 6 else ""
    note = (
        f"{sum(lost.values())} of {federation.m} rows miss a value and are left out, by client: "
        f"{', '.join(named[:6])}{more}"
    )
    return left, rows, (*notes, note)
