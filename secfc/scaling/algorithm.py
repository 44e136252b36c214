"""`Scaled`: any algorithm on features that the clients bring to a common scale first.

A composition, not an option of every algorithm: its roles find the scale, then run the other's roles on
scaled points.  What is exact is exact on those: the labels of `Scaled(SecFC(...))` are those of plaintext
Lloyd on the same scaled and rounded points, bit for bit.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.ring.quantize import Quantizer
from field.secrets.coins import Coins
from secfc.algorithm import Algorithm, Clustering, Drive, Model, Outcome, Public
from secfc.data.federation import Federation
from secfc.data.inputs import Caution, InputError
from secfc.data.party import Party
from secfc.data.resolution import FINE, Resolution, judge, most, resolution, sampled, tell
from secfc.privacy.events import NonPrivate
from secfc.roles.description import LOCAL, Terms
from secfc.roles.exchange import SERVER, PartyId, Role
from secfc.roles.transcript import Run
from secfc.scaling.roles import ScaledPlan, help_to_scale, plaintext, scale_at_client
from secfc.scaling.scaling import Scaling
from secfc.scaling.ways import Standardize, way_of

Array = NDArray[Any]

# Of a unit, for algorithms that do not round: a spread of fewer than `resolution.LEAST` is squashed.
STEPS = 1 << 14
WORDS = {"Standardize": "standard", "Range": "range", "Scaling": "given", "FillMeans": "none"}


@dataclass(frozen=True)
class Applied:
    """A scaling, and what became of points under it: values beyond the limit, and missing ones.

    Of a client: its own.  Of a `Clustering`: of all clients together, which only an experiment knows.
    """

    scaling: Scaling
    beyond: int = 0
    missing: int = 0

    def sentences(self, names: tuple[str, ...] | None) -> tuple[str, ...]:
        """What users should know of it."""
        found = list(self.scaling.sentences(names))
        if self.beyond and self.scaling.outside == "clip":
            found.append(
                f"{self.beyond} values lie more than {self.scaling.limit:g} units from the center of their "
                "feature, and were moved to that limit"
            )
        if self.missing and self.scaling.fill is not None:
            found.append(f"{self.missing} missing values were taken for the mean of their feature")
        return tuple(found)


@dataclass(frozen=True)
class Scaled:
    """An algorithm on scaled features.

    scaling: `Standardize()`, `Range()`, their words "standard" and "range", or a public `Scaling`.  The bound
    on the data is the scaling's limit, so it follows from no data.  `Clustering.centers` are in data units,
    as far as they are known; costs are of scaled points.  `Clustering.scaling` maps between the two.

    Example: `secfc.fit(Scaled(secfc.SecFC(k=4, t=1), Standardize()), federation)`.
    """

    algorithm: Algorithm
    scaling: Any = field(default_factory=Standardize)
    # Whether somebody who sees all data has told the user of it already.
    told: bool = field(default=False, repr=False, metadata=LOCAL)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scaling", way_of(self.scaling))
        if isinstance(self.algorithm, Scaled):
            raise InputError("features are scaled once: take the algorithm that is in this Scaled")

    @property
    def partial(self) -> bool:
        """Whether clients may observe different features."""
        return bool(getattr(self.algorithm, "partial", False))

    @property
    def bound(self) -> float:
        """Of scaled points."""
        return float(self.scaling.limit)

    def plan(self, public: Public) -> ScaledPlan:
        """Everything public of both parts.  Raises InputError, or what the algorithm's plan raises."""
        fixed: Scaling | None = self.scaling.fixed(public)
        held = public.server_points
        if held is not None:
            if fixed is None:
                raise InputError(
                    "the server's points cannot be scaled by what only clients learn: scale by them "
                    "(Standardize()), by public ranges (Range(ranges=...)), or by a public Scaling"
                )
            held = fixed.forward(held, "the server")
        after = replace(public, bound=self.bound, derived=False, server_points=held)
        inner = self.algorithm.plan(after)
        t = max(1, getattr(self.algorithm, "t", None) or 1)
        return ScaledPlan.of(self.scaling, public, inner, Terms(self, public), fixed, t)

    def judged(self, plan: ScaledPlan, federation: Federation) -> tuple[Scaled, Resolution | None]:
        """All data against this scaling and the rounding after it, for a process that sees them.

        Warns (`Caution`) of features that are left out and values that are moved or filled in, and as
        `secfc.data.resolution.judge`.  Raises InputError.
        """
        applied = apply(self.scaling, plan, federation)
        for sentence in applied.sentences(federation.feature_names):
            warnings.warn(sentence, Caution, stacklevel=3)
        scaled = applied.scaling.federation(federation)
        if federation.observed is None:
            inner, found = judge(self.algorithm, plan.inner, scaled)
            if found is None:
                squashed(
                    [block for party in scaled.parties for block in some(party, scaled.m)],
                    self.bound,
                    federation.feature_names,
                    "some features",
                )
        else:
            inner, found = self.algorithm, None
        return replace(self, algorithm=inner, told=True), found

    def client(self, plan: ScaledPlan, party: Party, *, coins: Coins) -> Role[tuple[Applied, Any]]:
        """Find the scale with the others, then take part with scaled points."""
        plan.terms.check(self)
        found = yield from scale_at_client(self.scaling, plan, party, coins=coins)
        columns = None if plan.observed is None else plan.columns(party.name)
        scaled = found.party(party, columns)
        applied = Applied(found, *found.among(columns).tally(party.points))
        if not self.told:
            names = plan.terms.public.features
            for sentence in applied.sentences(names):
                warnings.warn(f"client {party.name!r}: {sentence}", Caution, stacklevel=2)
            if getattr(self.algorithm, "coarse", None) is None:
                squashed(
                    some(scaled, scaled.points.shape[0]),
                    self.bound,
                    party.features or names,
                    f"features of client {party.name!r}",
                )
        returned = yield from self.algorithm.client(plan.inner, scaled, coins=coins)
        return applied, returned

    def server(self, plan: ScaledPlan, *, rng: np.random.Generator, coins: Coins) -> Role[Any]:
        """Help to add what it does not learn, then serve."""
        plan.terms.check(self)
        yield from help_to_scale(plan)
        return (yield from self.algorithm.server(plan.inner, rng=rng, coins=coins))

    def outcome(self, plan: ScaledPlan, party: PartyId, returned: Any) -> Outcome:
        """The algorithm's; a client also has the scaling, and centers that it learned in data units."""
        if party == SERVER:
            return self.algorithm.outcome(plan.inner, party, returned)
        applied, rest = returned
        own = self.algorithm.outcome(plan.inner, party, rest)
        learned = (*own.learned, self.scaling.opened) if plan.magnitudes is not None else own.learned
        centers = None if own.centers is None else applied.scaling.back(own.centers)
        return replace(own, learned=learned, centers=centers, scaling=applied)

    def collect(self, outcomes: Mapping[PartyId, Outcome], run: Run, counts: tuple[int, ...]) -> Clustering:
        """The algorithm's, with centers in data units; its cost is of scaled points."""
        results = {name: had if name == SERVER else had[1] for name, had in run.results.items()}
        # As the algorithm has them: centers of clients that it joins are scaled yet.
        inner = {
            name: self.algorithm.outcome(one.plan, name, results[name]) for name, one in outcomes.items()
        }
        result = self.algorithm.collect(inner, replace(run, results=results), counts)
        own = {name: one.scaling for name, one in outcomes.items() if name != SERVER}
        scaling = united([applied.scaling for applied in own.values()])
        applied = Applied(
            scaling, sum(one.beyond for one in own.values()), sum(one.missing for one in own.values())
        )
        model = result.model and ScaledModel(result.model, scaling)
        ledger, learned = result.ledger, result.learned
        if any(e.kind == "Opened" for e in run.transcript.envelopes):
            learned = (*learned, "of the scale of features nothing: clients open the sums")
            ledger = ledger.record(NonPrivate(), what=self.scaling.opened, seen_by=tuple(own))
        centers = None if result.centers is None else scaling.back(result.centers)
        return replace(result, centers=centers, model=model, learned=learned, ledger=ledger, scaling=applied)

    @property
    def sentence(self) -> str:
        """How features are scaled, for people."""
        way, name = self.scaling, WORDS.get(type(self.scaling).__name__, "")
        said = {
            "standard": f"mean 0 and deviation 1, within {way.limit:g} deviations",
            "range": "between -1 and 1",
            "given": f"scaled by public numbers, within {way.limit:g} units",
        }.get(name, "as they are")
        if name != "none":
            said += "; values beyond are " + ("moved there" if way.outside == "clip" else "refused")
        gaps = getattr(way, "missing", "mean" if getattr(way, "fill", None) is not None else "refuse")
        return said + "; missing values are the mean" * (gaps == "mean")

    def parameters(self, result: Clustering) -> dict[str, Any]:
        """How features were scaled, in plain values for reports."""
        way = self.scaling
        found = {
            "scale_features": WORDS.get(type(way).__name__, type(way).__name__),
            "limit": way.limit,
            "outside": getattr(way, "outside", "refuse"),
            "missing": getattr(way, "missing", "refuse"),
        }
        quantizer = getattr(result.plan, "quantizer", None)
        return found | ({"steps_a_unit": quantizer.scale} if isinstance(quantizer, Quantizer) else {})


@dataclass(frozen=True, repr=False, eq=False)
class ScaledModel:
    """A model of scaled points, for points in data units."""

    model: Model
    scaling: Scaling

    @property
    def by_name(self) -> bool:
        return bool(getattr(self.model, "by_name", False))

    def predict(
        self, federation: Federation, *, coins: Callable[[PartyId], Coins], drive: Drive
    ) -> list[Array]:
        """Labels of new points, which every client scales as those of the fit."""
        return self.model.predict(self.scaling.federation(federation), coins=coins, drive=drive)


def apply(way: Any, plan: ScaledPlan, federation: Federation) -> Applied:
    """The scaling that the clients of a federation will find, and what it does to their points.

    Plaintext, for a process that sees all data, and the oracle of the protocol.
    """
    scaling = plan.fixed or plaintext(way, plan, federation)
    observed = federation.observed or (None,) * federation.n
    tallies = [
        scaling.among(columns).tally(party.points)
        for party, columns in zip(federation.parties, observed, strict=True)
    ]
    return Applied(scaling, *(sum(column) for column in zip(*tallies, strict=True)))


def some(party: Party, of: int) -> list[Array]:
    """As many of a client's points as its part of `of` points that are looked at."""
    share = min(1.0, most(party.points.shape[1]) / of)
    return list(sampled(party, max(1, round(share * party.points.shape[0]))))


def united(scalings: list[Scaling]) -> Scaling:
    """What several clients know of the scale of different features, together.

    All know the same of what they share; an experiment in which no client heard anything knows none.
    """

    def known(columns: Any) -> tuple[float, ...]:
        return tuple(next((v for v in values if v == v), np.nan) for values in zip(*columns, strict=True))

    first = scalings[0]
    fill = None if first.fill is None else known(one.fill for one in scalings)
    centers = known(one.centers for one in scalings)
    return replace(first, centers=centers, units=known(one.units for one in scalings), fill=fill)


def squashed(parts: list[Array], limit: float, names: Any, whose: str) -> None:
    """Warn, or raise InputError, where an outlier leaves a feature of scaled points no spread."""
    found = resolution(parts, Quantizer(STEPS, limit), names)
    if found.coarsest < FINE:
        tell(found, found.sentence(whose), "refuse")
