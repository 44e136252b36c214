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

from field.arrays import Array
from field.ring.quantize import Quantizer
from field.secrets.coins import Coins
from secfc.algorithm import (
    Algorithm,
    Capabilities,
    Clustering,
    Driver,
    Model,
    PartyOutcome,
    PublicFacts,
    is_algorithm,
)
from secfc.data.federation import Federation
from secfc.data.inputs import format_value, kind_name
from secfc.data.party import Party
from secfc.data.resolution import (
    FINE,
    FINER_SCALED,
    Resolution,
    check_resolution,
    measure_resolution,
    sample_rows,
    sample_size,
    warn_of_resolution,
)
from secfc.errors import Caution, InputError
from secfc.privacy.events import NonPrivate
from secfc.privacy.ledger import EVERYBODY, Ledger
from secfc.remedies import PYTHON, WITHOUT_OUTLIERS, Interface, agree_in_number, in_words
from secfc.roles.description import LOCAL, RunTerms
from secfc.roles.exchange import SERVER, PartyId, Role, SimulatedRun
from secfc.scaling.noisy import NoisyStandardize, ScaleNoise
from secfc.scaling.roles import (
    ScaledPlan,
    help_to_scale,
    noisy_scale_at_client,
    plaintext_scaling,
    scale_at_client,
    scale_by_quartiles_at_client,
    sums_for,
)
from secfc.scaling.scaling import Scaling, missing_sentence, names_of
from secfc.scaling.ways import Standardize, is_robust, scaler_of

# Of a unit, for algorithms that do not round: a spread of fewer than `resolution.LEAST` is squashed.
STEPS = 1 << 14
WORDS = {
    "Standardize": "standard", "NoisyStandardize": "standard", "Range": "range", "Scaling": "given",
    "FillMeans": "none", "UnitNorm": "norm",
}  # fmt: skip


def scaling_word(way: Any) -> str:
    """What reports call a way of scaling."""
    name = type(way).__name__
    return "robust" if is_robust(way) else WORDS.get(name, name)


OUTSIDE = {"clip": "moved there", "refuse": "refused", "missing": "missing"}


# What the server learns of it.
SCALE_UNSEEN = "nothing about feature scales: clients reconstruct the sums among themselves"


@dataclass(frozen=True)
class AppliedScaling:
    """A scaling, and what became of points under it: values beyond the limit, and missing ones.

    Of a client: its own.  Of a `Clustering`: of all clients together, which only an experiment knows.
    hidden: features whose deviation noise hides.  noise: what it was, None without.  doubts: about units of
    clients, in sentences.  way: how it was found.  features: their names.
    """

    scaling: Scaling
    beyond: int = 0
    missing: int = 0
    hidden: tuple[int, ...] = ()
    noise: ScaleNoise | None = field(default=None, repr=False)
    doubts: tuple[str, ...] = ()
    way: Any = field(default=None, repr=False)
    features: tuple[str, ...] | None = field(default=None, repr=False)

    def centers_back(self, found: PartyOutcome | Clustering) -> Array | None:
        """Scaled centers in data units, if there are any; they may be of features that all clients have."""
        if found.centers is None:
            return None
        own, names = found.plan.terms.public.features, self.features
        columns = None if own is None or names is None else tuple(names.index(name) for name in own)
        return self.scaling.among(columns).back(found.centers)

    def released(self, names: tuple[str, ...] | None) -> tuple[str, ...]:
        """What users should know of the scaling itself."""
        found = self.scaling.sentences(names, "nine tenths of all" if is_robust(self.way) else "all")
        if self.hidden:
            found += (
                f"noise hides the deviation of {names_of(self.hidden, names)}, which was taken for the least "
                "that noise does not hide: give a narrower public range, a larger share of the budget, or "
                "leave the column out",
            )
        return found

    def sentences(self, names: tuple[str, ...] | None, interface: Interface = PYTHON) -> tuple[str, ...]:
        """What users should know of it, in words of an interface."""
        found = list(self.released(names))
        if self.beyond and self.scaling.outside == "clip":
            said = (
                f"{self.beyond} values lie more than {self.scaling.limit:g} units from the center of the "
                "feature, moved to that limit, where few of them can be a cluster of their own"
            )
            does = "take what is no measurement as missing, and that as the middle of the feature"
            ranges = f"{does} (outside missing with missing mean)"
            remedy = (
                ("scale_features", WITHOUT_OUTLIERS, does) if isinstance(self.way, Standardize) else ranges
            )
            found.append(in_words(said, {}, [remedy], interface).rstrip("."))
        if self.beyond and self.scaling.outside == "missing":
            found.append(missing_sentence(self.beyond, self.scaling.limit))
        taken = self.beyond * (self.scaling.outside == "missing")
        if self.missing + taken and self.scaling.fill is not None:
            middle = "median" if is_robust(self.way) else "mean"
            found.append(f"{self.missing + taken} missing values were taken for the {middle} of the feature")
        return (*map(agree_in_number, found), *self.doubts)


@dataclass(frozen=True)
class Scaled:
    """Algorithm on features that are first brought to a common scale.

    Parameters
    ----------
    algorithm
        The algorithm.  The scaling's limit is the bound on its data, so the bound follows from no data.
    scaling
        `Standardize()`, `Range()`, their words "standard" and "range", a public `Scaling`, or
        `NoisyStandardize(ranges)`, which a part of the algorithm's privacy budget pays for.
    told
        Whether somebody who sees all data has reported outliers already, so that clients do not warn.

    Notes
    -----
    `Clustering.centers` are in data units, as far as they are known; costs refer to scaled points.
    `Clustering.scaling` maps between the two.

    Examples
    --------
    `secfc.fit(Scaled(secfc.SecFC(k=4, threshold=1), Standardize()), federation)`.
    """

    algorithm: Algorithm
    scaling: Any = field(default_factory=Standardize)
    # Whether somebody who sees all data has told the user of it already.
    told: bool = field(default=False, repr=False, metadata=LOCAL)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scaling", scaler_of(self.scaling))
        if not is_algorithm(self.algorithm):
            raise InputError(
                f"algorithm={format_value(self.algorithm)} is {kind_name(self.algorithm)}: an algorithm is "
                f"needed. "
                "Pass a "
                "value such as SecFC(k=4)"
            )
        if self.algorithm.capabilities.scale_alone is not None:
            raise InputError(
                "each owner of joined columns brings them to scale by itself, so that nobody learns their "
                "means: pass fit(scale_features=), or Joined(scale=)"
            )
        if isinstance(self.algorithm, Scaled):
            raise InputError("features are scaled once: take the algorithm that is in this Scaled")

    @property
    def capabilities(self) -> Capabilities:
        """Those of the algorithm that say what clients bring and what is spent."""
        can = self.algorithm.capabilities
        return Capabilities(
            partial=can.partial,
            counted=can.counted,
            inner=self.algorithm,
            promise=can.promise,
            judge=self.judged,
        )

    @property
    def bound(self) -> float:
        """Bound on absolute values of scaled points."""
        return float(self.scaling.limit)

    def settle(self, public: PublicFacts) -> tuple[Scaling | None, ScaleNoise | None, PublicFacts]:
        """The scaling where it is known before the run; the noise where a budget pays for it; and the public
        facts of scaled points.

        Raises InputError.
        """
        held = public.server_points
        fixed: Scaling | None = self.scaling.fixed(public)
        if held is not None:
            if fixed is None:
                raise InputError(
                    "the server's points cannot be scaled by what only clients learn",
                    [
                        ("scale_features", "standard", "scale by the server's points"),
                        ("ranges", ..., "give public ranges"),
                    ],
                )
            held = fixed.held(held, public.observed)
        after = replace(public, bound=self.bound, derived=False, server_points=held)
        if fixed is not None or not isinstance(self.scaling, NoisyStandardize):
            return fixed, None, after
        self.scaling.within(public.features, public.d)
        honest = sums_for(public, 1, self._threshold(public)).honest
        return None, self.scaling.noise(self.algorithm, after, honest, len(public.clients)), after

    def _threshold(self, public: PublicFacts) -> int:
        return max(1, self.algorithm.capabilities.threshold(public.clients) or 1)

    def plan(self, public: PublicFacts) -> ScaledPlan:
        """Everything public of both parts.  Raises InputError, or what the algorithm's plan raises."""
        fixed, noise, after = self.settle(public)
        inner, terms = self.with_rest_of_budget(noise).plan(after), RunTerms(self, public)
        t = self._threshold(public)
        if noise is not None:
            return ScaledPlan.under(noise, public, inner, terms, t)
        return ScaledPlan.of(self.scaling, public, inner, terms, fixed, t)

    def with_rest_of_budget(self, noise: ScaleNoise | None) -> Any:
        """The algorithm, for what is left of its budget if a part paid for the scale."""
        budget = self.algorithm.capabilities.budget
        return self.algorithm if noise is None or budget is None else budget.within(noise.rest)

    def record_scale(self, noise: ScaleNoise | None, ledger: Ledger, clients: tuple[PartyId, ...]) -> Ledger:
        """A ledger, and that the scale was opened: to clients, or with noise to everybody."""
        what = self.scaling.opened
        if noise is None:
            return ledger.record(NonPrivate(), what=what, seen_by=clients)
        # All that follows is made of it, labels as well, so it is everybody's.
        return ledger.record(noise.event, what=f"scaling: {what}, noise in the shares", seen_by=EVERYBODY)

    def judged(self, plan: ScaledPlan, federation: Federation) -> tuple[Scaled, Resolution | None]:
        """All data against this scaling and the rounding after it, for a process that sees them.

        Warns (`Caution`) of features that are left out and values that are moved or filled in, and as
        `secfc.data.resolution.check_resolution`.  Raises InputError.
        """
        if plan.noise is not None:
            return self, None  # noise pays for what is released, and exact facts are not
        applied = apply_scaling(self.scaling, plan, federation)
        for sentence in applied.sentences(federation.feature_names):
            warnings.warn(sentence, Caution, stacklevel=3)
        scaled = applied.scaling.federation(federation)
        if federation.observed is None:
            inner, found = check_resolution(self.algorithm, plan.inner, scaled, scaled=True)
            if found is None:
                warn_of_outliers(
                    [block for party in scaled.parties for block in sample_points(party, scaled.m)],
                    self.bound,
                    federation.feature_names,
                    "some features",
                )
        else:
            inner, found = self.algorithm, None
        return replace(self, algorithm=inner, told=True), found

    def find_scale(
        self, plan: ScaledPlan, party: Party, *, coins: Coins
    ) -> Role[tuple[Scaling, tuple[int, ...]]]:
        """A client's part of finding the scale; with it the features whose deviation noise hides."""
        if plan.noise is not None:
            noisy = yield from noisy_scale_at_client(self.scaling, plan, party, coins=coins)
            return noisy.scaling, noisy.hidden
        scale = scale_by_quartiles_at_client if is_robust(self.scaling) else scale_at_client
        return (yield from scale(self.scaling, plan, party, coins=coins)), ()

    def client(self, plan: ScaledPlan, party: Party, *, coins: Coins) -> Role[tuple[AppliedScaling, Any]]:
        """Find the scale with the others, then take part with scaled points."""
        plan.terms.check(self)
        found, hidden = yield from self.find_scale(plan, party, coins=coins)
        columns = None if plan.observed is None else plan.columns(party.name)
        scaled = found.party(party, columns)
        beyond, missing = found.among(columns).count_outside(party.points)
        doubts = unit_doubts(self.scaling, plan, found, party)
        names = plan.terms.public.features
        applied = AppliedScaling(found, beyond, missing, hidden, plan.noise, doubts, self.scaling, names)
        if not self.told:
            if plan.noise is not None:
                for sentence in applied.released(names):  # the same at all clients
                    warnings.warn(sentence, Caution, stacklevel=2)
            else:
                for sentence in applied.sentences(names):
                    warnings.warn(f"client {party.name!r}: {sentence}", Caution, stacklevel=2)
            if self.algorithm.capabilities.coarse is None:
                warn_of_outliers(
                    sample_points(scaled, scaled.points.shape[0]),
                    self.bound,
                    party.features or names,
                    f"features of client {party.name!r}",
                )
        returned = yield from self.with_rest_of_budget(plan.noise).client(plan.inner, scaled, coins=coins)
        return applied, returned

    def server(self, plan: ScaledPlan, *, rng: np.random.Generator, coins: Coins) -> Role[Any]:
        """Help to add what it does not learn, then serve."""
        plan.terms.check(self)
        yield from help_to_scale(plan)
        return (yield from self.with_rest_of_budget(plan.noise).server(plan.inner, rng=rng, coins=coins))

    def outcome(self, plan: ScaledPlan, party: PartyId, returned: Any) -> PartyOutcome:
        """The algorithm's; a client also has the scaling, and centers that it learned in data units."""
        algorithm = self.with_rest_of_budget(plan.noise)
        if party == SERVER:
            own: PartyOutcome = algorithm.outcome(plan.inner, party, returned)
            noisy = plan.noise is not None
            return replace(own, ledger=self.record_scale(plan.noise, own.ledger, ())) if noisy else own
        applied, rest = returned
        own = algorithm.outcome(plan.inner, party, rest)
        learned = (*own.learned, self.scaling.opened) if plan.sums or plan.magnitudes else own.learned
        centers = applied.centers_back(own)
        return replace(own, learned=learned, centers=centers, scaling=applied)

    def collect(
        self, outcomes: Mapping[PartyId, PartyOutcome], run: SimulatedRun, counts: tuple[int, ...]
    ) -> Clustering:
        """The algorithm's, with centers in data units; its cost is of scaled points."""
        results = {name: had if name == SERVER else had[1] for name, had in run.results.items()}
        # As the algorithm has them: centers of clients that it joins are scaled yet.
        own = {name: one.scaling for name, one in outcomes.items() if name != SERVER}
        noise = next((applied.noise for applied in own.values()), None)
        algorithm = self.with_rest_of_budget(noise)
        inner = {name: algorithm.outcome(one.plan, name, results[name]) for name, one in outcomes.items()}
        result: Clustering = algorithm.collect(inner, replace(run, results=results), counts)
        scaling = unite_scalings([applied.scaling for applied in own.values()])
        applied = replace(
            next(iter(own.values())),
            scaling=scaling,
            beyond=sum(one.beyond for one in own.values()),
            missing=sum(one.missing for one in own.values()),
            doubts=all_doubts({name: one.doubts for name, one in own.items()}),
        )
        model = result.model and ScaledModel(result.model, scaling)
        ledger, learned = result.ledger, result.learned
        if any(e.kind == "OpenedSumsDigest" for e in run.transcript.envelopes):
            learned = (*learned, SCALE_UNSEEN)
            ledger = self.record_scale(noise, ledger, tuple(own))
        centers = applied.centers_back(result)
        return replace(result, centers=centers, model=model, learned=learned, ledger=ledger, scaling=applied)

    @property
    def sentence(self) -> str:
        """How features are scaled, for people."""
        way, name = self.scaling, scaling_word(self.scaling)
        said = {
            "standard": f"mean 0 and deviation 1, within {way.limit:g} deviations",
            "robust": "median 0, and deviation 1 by the interquartile range of a normal law, within "
            f"{way.limit:g} deviations",
            "range": "between -1 and 1",
            "norm": "rows divided by their norms",
            "given": f"scaled by public numbers, within {way.limit:g} units",
        }.get(name, "as they are")
        if name not in ("none", "norm") or way.outside == "missing":
            said += f"; values beyond are {OUTSIDE[way.outside]}"
        if isinstance(way, NoisyStandardize):
            said += f"; found by noisy sums within public ranges, for {100 * way.share:g} % of the budget"
        gaps = getattr(way, "missing", "mean" if getattr(way, "fill", None) is not None else "refuse")
        return said + f"; missing values are the {'median' if name == 'robust' else 'mean'}" * (
            gaps == "mean"
        )

    def parameters(self, result: Clustering) -> dict[str, Any]:
        """How features were scaled, in plain values for reports."""
        way = self.scaling
        found = {
            "scale_features": scaling_word(way),
            "limit": way.limit,
            "outside": getattr(way, "outside", "refuse"),
            "missing": getattr(way, "missing", "refuse"),
        }
        if (noise := getattr(result.scaling, "noise", None)) is not None:
            found |= {"scale_share": way.share, "epsilon_after_scaling": noise.rest.epsilon}
        quantizer = getattr(result.plan, "quantizer", None)
        return found | ({"steps_a_unit": quantizer.scale} if isinstance(quantizer, Quantizer) else {})


@dataclass(frozen=True, repr=False, eq=False)
class ScaledModel:
    """A model of scaled points, for points in data units."""

    model: Model
    scaling: Scaling

    @property
    def by_name(self) -> bool:
        return self.model.by_name

    def predict(
        self, federation: Federation, *, coins: Callable[[PartyId], Coins], drive: Driver
    ) -> list[Array]:
        """Labels of new points, which every client scales as those of the fit.

        Warns (`Caution`) of rows far outside what the model saw.
        """
        if federation.observed is None and (far := self.scaling.far_note(federation.parties)) is not None:
            warnings.warn(far, Caution, stacklevel=3)
        return self.model.predict(self.scaling.federation(federation), coins=coins, drive=drive)


def apply_scaling(way: Any, plan: ScaledPlan, federation: Federation) -> AppliedScaling:
    """The scaling that the clients of a federation will find, and what it does to their points.

    Plaintext, for a process that sees all data, and the oracle of the protocol.
    """
    scaling = plan.fixed or plaintext_scaling(way, plan, federation)
    observed = federation.observed or (None,) * federation.n
    tallies = [
        scaling.among(columns).count_outside(party.points)
        for party, columns in zip(federation.parties, observed, strict=True)
    ]
    doubts = {party.name: unit_doubts(way, plan, scaling, party) for party in federation.parties}
    beyond, missing = (sum(column) for column in zip(*tallies, strict=True))
    return AppliedScaling(scaling, beyond, missing, doubts=all_doubts(doubts), way=way)


def unit_doubts(way: Any, plan: ScaledPlan, found: Scaling, party: Party) -> tuple[str, ...]:
    """What a client doubts of its own units, by the common scale; nothing where that is no deviation."""
    if not isinstance(way, Standardize):
        return ()
    columns = None if plan.observed is None else plan.columns(party.name)
    return found.among(columns).unit_notes(party.points, party.features or plan.terms.public.features)


def all_doubts(doubts: Mapping[PartyId, tuple[str, ...]]) -> tuple[str, ...]:
    """Doubts of all clients, by their names."""
    return tuple(f"client {name!r}: {doubt}" for name, own in doubts.items() for doubt in own)


def sample_points(party: Party, of: int) -> list[Array]:
    """As many of a client's points as its part of `of` points that are looked at."""
    share = min(1.0, sample_size(party.points.shape[1]) / of)
    return list(sample_rows(party, max(1, round(share * party.points.shape[0]))))


def unite_scalings(scalings: list[Scaling]) -> Scaling:
    """What several clients know of the scale of different features, together.

    All know the same of what they share; an experiment in which no client heard anything knows none.
    """

    def first_known(columns: Any) -> tuple[float, ...]:
        return tuple(next((v for v in values if v == v), np.nan) for values in zip(*columns, strict=True))

    first = scalings[0]
    fill = None if first.fill is None else first_known(one.fill for one in scalings)
    centers = first_known(one.centers for one in scalings)
    return replace(first, centers=centers, units=first_known(one.units for one in scalings), fill=fill)


def warn_of_outliers(parts: list[Array], limit: float, names: Any, whose: str) -> None:
    """Warn, or raise InputError, where an outlier leaves a feature of scaled points no spread."""
    found = measure_resolution(parts, Quantizer(STEPS, limit), names)
    if found.coarsest < FINE:
        warn_of_resolution(found, found.sentence(whose), "refuse", FINER_SCALED)
