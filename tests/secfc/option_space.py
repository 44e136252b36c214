"""The option space of runs: a scenario for each value of each field of what is configured.

What a field may be follows from its annotation (`values_due`): each word of a Literal, each of an Enum, True
and False, None, and where these do not tell, other values than the default, of OTHERS.  Each becomes a
scenario of the campaign, sealed or open, in which that value is another (and what goes with it, of WITH and
ALONG).
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterator
from enum import Enum
from functools import cache
from typing import Any, Literal

import numpy as np

import psu
import secfc
from field.ring.basis import Basis
from secfc.coded.membership import Open, Private
from secfc.feddp import (
    PAPER,
    Cones,
    FedDPInit,
    GivenCenters,
    ServerKMeansPlusPlus,
    ServerLloyds,
    SharedNoise,
    SpherePacking,
    Votes,
)
from secfc.privacy import Bound, Budget, Neighbors, RandomizedResponse
from tests.secfc.campaign import (
    BASE,
    DISTANCES,
    PAIRS,
    PRIVATE_CENTERS,
    SCENARIOS,
    K,
    Outcome,
    Scenario,
    held_columns,
    hold_rounded,
    over_pairs,
    over_sums,
    vary,
)
from tests.secfc.overlap.cases import Blocks

HIDDEN = Private(bound=64, counts="hidden")
BUDGET = Budget(1e5, 1e-6)
SUMS = secfc.NoisySums(BUDGET, radius=Bound.given(16.0), steps=1)
NOISE = secfc.NoiseInShares(BUDGET, radius=Bound.given(16.0), neighbors=Neighbors("replace"), absent=1)


def whole_alone(scenario: Scenario, got: Outcome) -> Outcome:
    """An undisturbed run's labels where all rows count; else what came: nothing to compare with."""
    want = scenario.clean[0]
    return got if got.excluded or got.summed != want.summed or got.scalings != want.scalings else want


def as_came(scenario: Scenario, got: Outcome) -> Outcome:
    """What came: under noise, and where what is left out changes more than rows, blame alone is judged."""
    return got


def within(**field: Any) -> Callable[[Any], Any]:
    """SecFC's base run with a value in the place of this field."""
    (name,) = field
    return lambda value: vary(BASE, **{name: value, **field[name]})


ONCE = {"n_init": 1, "init": secfc.RandomLabels()}
SUMMED = secfc.FederatedLloyd(K, max_iter=3, scale=16.0, committee=4, t=1, coarse="allow")
MATCHED = SCENARIOS["overlapping"].algorithm
COMMON = vary(BASE, n_init=1, max_iter=2)
SCALED = SCENARIOS["scaled"].algorithm
# By class: a value of it to change one field of, and the algorithm that it becomes part of.
BASES: dict[type, tuple[Any, Callable[[Any], Any]]] = {
    secfc.SecFC: (BASE, lambda x: x),
    secfc.Threshold: (secfc.Threshold(1), within(threshold={})),
    secfc.Quantization: (BASE.quantization, within(quantization={})),
    secfc.Release: (BASE.release, within(release={})),
    Private: (Private(bound=64), within(membership={"n_init": 1})),
    secfc.Joined: (secfc.Joined(bound=64), within(membership={"n_init": 1, "disclosure": secfc.OwnLabels()})),
    secfc.Distances: (secfc.Distances(), within(disclosure={})),
    secfc.AssignmentsOnly: (secfc.AssignmentsOnly(), within(disclosure={"n_init": 1, "max_iter": 2})),
    secfc.OwnLabels: (secfc.OwnLabels(), within(disclosure={"n_init": 1, "max_iter": 2})),
    secfc.FinalLabelsOnly: (secfc.FinalLabelsOnly(), within(disclosure={"n_init": 1, "max_iter": 2})),
    secfc.Bisecting: (secfc.Bisecting(), within(init={})),
    secfc.Splitting: (secfc.Splitting(), within(init={"disclosure": secfc.OwnLabels()})),
    secfc.KMeansPlusPlus: (secfc.KMeansPlusPlus(), within(init={})),
    secfc.NoisySums: (SUMS, within(disclosure={**ONCE, "membership": HIDDEN})),
    secfc.NoiseInShares: (NOISE, within(disclosure=ONCE)),
    secfc.FederatedLloyd: (SUMMED, lambda x: x),
    secfc.Sampled: (secfc.Sampled(rows=30, batches=1), lambda x: vary(SUMMED, start=x)),
    secfc.KFed: (secfc.KFed(k=K, k_local=2), lambda x: x),
    secfc.Lloyd: (secfc.Lloyd(k=K, max_iter=3), lambda x: x),
    secfc.Overlap1: (secfc.Overlap1(2, rounds=2), lambda x: x),
    secfc.Overlap2: (secfc.Overlap2(2, points=6), lambda x: x),
    secfc.CommonFeatures: (secfc.CommonFeatures(COMMON), lambda x: x),
    secfc.DBSCAN: (PAIRS, lambda x: x),
    secfc.Precomputed: (DISTANCES, lambda x: x),
    secfc.FedDPKMeans: (PRIVATE_CENTERS, lambda x: x),
    secfc.Scaled: (SCALED, lambda x: x),
    secfc.Standardize: (SCALED.scaling, lambda x: dataclasses.replace(SCALED, scaling=x)),
    secfc.Elbow: (secfc.Elbow(5), within(k={"init": secfc.Bisecting()})),
    secfc.Network: (secfc.Network(), within(network={"disclosure": secfc.AssignmentsOnly(), "n_init": 1})),
    secfc.Automatic: (secfc.Automatic(), lambda x: vary(MATCHED, start=x)),
    secfc.Constrained: (secfc.Constrained(), lambda x: vary(MATCHED, start=x)),
    secfc.Synchronized: (secfc.Synchronized(Blocks()), lambda x: vary(MATCHED, start=x)),
}  # fmt: skip
CLASSES = {kind.__name__: kind for kind in (*BASES, Open, secfc.RandomLabels, secfc.RandomPoints)}

# Values of which annotations tell nothing.
OTHERS: dict[tuple[str, str], tuple[Any, ...]] = {
    ("SecFC", "k"): (3, secfc.Elbow(3)),
    ("SecFC", "threshold"): (),
    ("SecFC", "init"): (secfc.RandomLabels(), secfc.KMeansPlusPlus(), secfc.Bisecting(), secfc.Splitting()),
    ("SecFC", "n_init"): (3,),
    ("SecFC", "max_iter"): (1,),
    ("SecFC", "membership"): (Private(bound=64), secfc.Joined(bound=64)),
    ("SecFC", "disclosure"): (secfc.FinalLabelsOnly(), secfc.AssignmentsOnly(), secfc.OwnLabels()),
    ("Threshold", "t"): (2,),
    ("Threshold", "ell"): (2,),
    ("Threshold", "corrected"): (1,),
    ("Threshold", "deviating"): (0,),
    ("Quantization", "scale"): (8.0,),
    ("Quantization", "basis"): (Basis.for_bound(1 << 80),),
    ("Quantization", "rounding"): ("floor",),
    ("Quantization", "largest"): (12,),
    ("Release", "reveal_centers"): (("client-0", "client-1", "client-2"),),
    ("Release", "smallest_center"): (4,),
    ("Release", "predictions"): (5,),
    ("Private", "mode"): (psu.Server(), psu.Committee(2)),
    ("Private", "bound"): (128,),
    ("Private", "quota"): (6,),
    ("Joined", "mode"): (psu.Server(), psu.Committee(2)),
    ("Joined", "bound"): (128,),
    ("Joined", "quota"): (12,),
    ("Joined", "max_explained"): (0.999,),
    ("Distances", "colluding"): (2,),
    ("AssignmentsOnly", "dealer"): ("client-4",),
    ("OwnLabels", "dealer"): ("client-4",),
    ("FinalLabelsOnly", "dealer"): ("server",),
    ("Bisecting", "keep"): (0.3,),
    ("Bisecting", "steps"): (2,),
    ("Bisecting", "settle"): (1,),
    ("Bisecting", "spare"): (0.5,),
    ("KMeansPlusPlus", "trials"): (2,),
    ("NoisySums", "budget"): (Budget(10.0, 1e-6),),
    ("NoisySums", "radius"): (Bound.given(8.0),),
    ("NoisySums", "steps"): (2,),
    ("NoisySums", "dealer"): ("client-4",),
        ("NoisySums", "absent"): (1,),
    ("NoiseInShares", "budget"): (Budget(10.0, 1e-6),),
    ("NoiseInShares", "radius"): (Bound.given(8.0),),
        ("NoiseInShares", "center_share"): (0.5,),
    ("NoiseInShares", "absent"): (0,),
    ("FederatedLloyd", "k"): (3, secfc.Elbow(3, 3)),
    ("FederatedLloyd", "start"): (secfc.Automatic(),),
    ("FederatedLloyd", "n_init"): (2,),
    ("FederatedLloyd", "max_iter"): (2,),
    ("FederatedLloyd", "scale"): (8.0,),
    ("FederatedLloyd", "committee"): (5,),
    ("FederatedLloyd", "t"): (1,),
    ("FederatedLloyd", "losses"): (1,),
    ("FederatedLloyd", "floor"): (2,),
    ("Sampled", "rows"): (31,),
    ("Sampled", "batches"): (0, 2),
    ("KFed", "k"): (3,),
    ("KFed", "k_local"): (1,),
    ("KFed", "seed"): (5,),
    ("Lloyd", "k"): (3,),
    ("Lloyd", "init"): (secfc.RandomPoints(),),
    ("Lloyd", "n_init"): (2,),
    ("Lloyd", "max_iter"): (2,),
    ("Lloyd", "quantization"): (secfc.Quantization(scale=16.0),),
    ("Lloyd", "disclosure"): (),
    ("Overlap1", "k"): (3,),
    ("Overlap1", "start"): (secfc.Constrained(),),
    ("Overlap1", "rounds"): (1,),
    ("Overlap1", "alpha"): (0.5,),
    ("Overlap1", "refiner"): (),
    ("Overlap1", "least"): (2,),
    ("Overlap2", "k"): (3,),
    ("Overlap2", "points"): (8,),
    ("Overlap2", "w"): (3.0,),
    ("Overlap2", "most"): (2,),
    ("Overlap2", "local"): (),
    ("CommonFeatures", "home"): (1,),
    ("CommonFeatures", "algorithm"): (secfc.Lloyd(k=K),),
    ("DBSCAN", "eps"): (1.5,),
    ("DBSCAN", "min_samples"): (2,),
    ("DBSCAN", "dealer"): ("client-4",),
    ("FedDPKMeans", "k"): (3, secfc.Elbow(4)),
    ("FedDPKMeans", "epsilon"): (9.0,),
    ("FedDPKMeans", "delta"): (1e-5,),
    ("FedDPKMeans", "neighbors"): (
        Neighbors("replace"), Neighbors(unit="client"), Neighbors("replace", "client"),
        Neighbors(unit="person at one client", rows=2),
    ),
    ("FedDPKMeans", "steps"): (0, 2),
    ("FedDPKMeans", "start"): (
        FedDPInit(), Votes(), Cones(), ServerKMeansPlusPlus(), ServerLloyds(), SpherePacking(),
        GivenCenters(np.eye(2), public=True),
    ),
    ("FedDPKMeans", "variant"): (PAPER,),
    ("FedDPKMeans", "shares"): (),
    ("FedDPKMeans", "noise"): (SharedNoise(),),
    ("FedDPKMeans", "bound"): (12.0,),
    ("FedDPKMeans", "rows_per_client"): (3,),
    ("FedDPKMeans", "committee"): (4,),
    ("FedDPKMeans", "t"): (2,),
    ("FedDPKMeans", "losses"): (2,),
    ("FedDPKMeans", "labels"): (RandomizedResponse(3.0, slots=4),),
    ("Scaled", "scaling"): (secfc.Standardize(), secfc.Range(), secfc.UnitNorm()),
    ("Standardize", "limit"): (3.0,),
    ("Standardize", "keep"): ((0,),),
    ("Elbow", "most"): (4,),
    ("Elbow", "least"): (2,),
    ("Network", "latency"): (0.0,),
    ("Network", "bandwidth"): (1.0,),
}  # fmt: skip
OTHERS |= {("Splitting", name): OTHERS["Bisecting", name] for name in ("keep", "steps", "settle", "spare")}
OTHERS["Splitting", "merge"] = ("any",)

# What a value goes with.
WITH: dict[tuple[str, str, str], dict[str, Any]] = {
    ("Private", "tags", "'oblivious'"): {"quota": 6},
    ("Private", "quota", "other"): {"tags": "oblivious"},
    ("Joined", "tags", "'oblivious'"): {"quota": 12},
    ("Joined", "quota", "other"): {"tags": "oblivious"},
    ("Joined", "keep", "'union'"): {"scale": secfc.Standardize()},
    ("Overlap2", "affinity", "'cosine'"): {"proxies": "diagonal"},
    ("Distances", "dealt", "True"): {"colluding": 1},
    ("Distances", "colluding", "other"): {"dealt": True},
    ("FedDPKMeans", "neighbors", "other"): {"rows_per_client": 3},
    ("FedDPKMeans", "start", "other"): {"bound": 12.0},
    ("Scaled", "told", "False"): {"scaling": secfc.Standardize()},
    ("Standardize", "outside", "'refuse'"): {"limit": 10.0},
    ("Standardize", "outside", "'missing'"): {"missing": "mean"},
}
# What the whole run needs to go with a value.
ALONG: dict[tuple[str, str, str], dict[str, Any]] = {
    ("SecFC", "k", "Elbow"): {"init": secfc.Bisecting()},
    ("SecFC", "init", "Splitting"): {"disclosure": secfc.OwnLabels()},
    ("SecFC", "membership", "Joined"): {"disclosure": SUMS, **ONCE},
    ("SecFC", "disclosure", "FinalLabelsOnly"): {"n_init": 1},
    ("SecFC", "disclosure", "AssignmentsOnly"): {"n_init": 1},
    ("Quantization", "centers", "'rounded'"): {"disclosure": secfc.AssignmentsOnly(), "n_init": 1},
    ("Release", "dendrogram", "True"): {"n_init": 1},
    ("Joined", "keep", "'union'"): {"disclosure": secfc.AssignmentsOnly()},
}
# Values that no run of five clients is about, with the reason.
NOT_RUN = {
    ("Private", "schema"): "how IDs were made of columns before the run: no message depends on it",
    ("Joined", "schema"): "the same",
    ("Joined", "scale"): "a scale that an owner finds alone, of its own columns",
    ("SecFC", "threshold"): "a group, whose fields are values of their own",
    ("SecFC", "quantization"): "a group",
    ("SecFC", "release"): "a group",
    ("SecFC", "runtime"): "how a party computes; workers are scenarios by hand",
    ("NoisySums", "neighbors"): "rows of a person are replaced, under its only kind",
    ("NoiseInShares", "neighbors"): "replaced, its only kind",
    ("NoiseInShares", "repeats"): "ignored, and going",
    ("Lloyd", "disclosure"): "plaintext has none",
    ("Precomputed", "clusterer"): "computed by the server alone",
    ("Precomputed", "consent"): "the only value with which there is a run",
    **dict.fromkeys(
        (
            (way, name)
            for way in ("DBSCAN", "Precomputed")
            for name in ("threshold", "quantization", "runtime")
        ),
        "a group, whose fields are values of their own",
    ),
    (
        "Overlap1",
        "start",
        "'synchronized-distances'",
    ): "refused: a server that sees centroids needs no distances",
    ("FedDPKMeans", "shares"): "how a budget is divided: no message depends on it",
    ("Scaled", "algorithm"): "an algorithm, whose fields are values of their own",
    **{(way, "local"): "computed by a client alone" for way in ("Automatic", "Constrained", "Synchronized")},
    ("Overlap1", "refiner"): "computed by the server alone",
    ("Overlap2", "local"): "computed by a client alone",
}


def option_token(kind: type, name: str, value: Any) -> str:
    """A value of a field as one word: itself, its class, or whether it is the default."""
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, Enum):
        return value.name
    hint = annotation_of(kind, name)
    words = [part for part in parts_of(hint) if typing.get_origin(part) is Literal]
    if any(value in typing.get_args(part) for part in words):
        return repr(value)
    if type(value).__name__ in {*CLASSES, "Committee", "Server", "Elbow"}:
        return type(value).__name__
    default = next(f.default for f in dataclasses.fields(kind) if f.name == name)
    return "default" if value == default else "other"


def annotation_of(kind: type, name: str) -> Any:
    """The type of a field, Any where it is known to type checkers alone."""
    try:
        return typing.get_type_hints(kind)[name]
    except NameError:
        module = vars(__import__(kind.__module__, fromlist=["x"]))
        try:
            return eval(next(f.type for f in dataclasses.fields(kind) if f.name == name), dict(module))
        except (NameError, TypeError):
            return Any


def parts_of(hint: Any) -> tuple[Any, ...]:
    """The members of a union."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return tuple(part for one in typing.get_args(hint) for part in parts_of(one))
    return (hint,)


def values_due(kind: type) -> Iterator[tuple[str, Any]]:
    """Every field of a class, and each value that a scenario has to have."""
    base = BASES[kind][0]
    for field in dataclasses.fields(kind):
        key = kind.__name__, field.name
        if not field.init or key in NOT_RUN:
            continue
        found: list[Any] = [*OTHERS.get(key, ())]
        for part in parts_of(annotation_of(kind, field.name)):
            if typing.get_origin(part) is Literal:
                found += typing.get_args(part)
            elif part is bool:
                found += [False, True]
            elif part is type(None):
                found.append(None)
            elif isinstance(part, type) and issubclass(part, Enum):
                found += list(part)
        if not found:
            raise AssertionError(
                f"{key} has no value in the campaign: give OTHERS one, or NOT_RUN the reason"
            )
        for value in found:
            refused = (*key, option_token(kind, field.name, value)) in NOT_RUN
            if value != getattr(base, field.name) and not refused:
                yield field.name, value


def scenario_of(kind: type, name: str, value: Any) -> Scenario:
    """The base run of a class with this value of this field."""
    base, place = BASES[kind]
    key = kind.__name__, name, option_token(kind, name, value)
    changed = dataclasses.replace(base, **{name: value, **WITH.get(key, {})})
    algorithm = vary(place(changed), **ALONG.get(key, {}))
    noisy = kind in (secfc.NoisySums, secfc.NoiseInShares) or isinstance(value, secfc.Joined)
    if kind is secfc.FedDPKMeans:
        data = hold_persons if getattr(value, "of_persons", False) else hold_rounded
        return Scenario(algorithm, sealed=True, expected=over_sums, data=data)
    exact = kind in (secfc.SecFC, secfc.Threshold, secfc.Release, Private, secfc.Distances, secfc.KFed)
    exact = exact or kind in (secfc.Scaled, secfc.Standardize, secfc.Elbow, secfc.Network)
    scenario = Scenario(algorithm, sealed=True, expected=whole_alone if exact and not noisy else as_came)
    if exact and getattr(algorithm, "disclosure", None) == BASE.disclosure:
        scenario = Scenario(algorithm, sealed=True)  # as labels by distances are: plaintext Lloyd's
    if kind is secfc.DBSCAN and name != "min_samples":  # which makes noise, that looks as if unheard
        return dataclasses.replace(scenario, expected=over_pairs)
    if (kind, value) == (secfc.FederatedLloyd, "splitting"):  # of features that all observe
        return dataclasses.replace(scenario, data=hold_rounded)
    if kind is secfc.Sampled:  # three samples
        return dataclasses.replace(scenario, data=lambda: hold_rounded(m=93))
    if secfc.Joined in (kind, type(value)):
        return dataclasses.replace(scenario, data=held_columns)
    if kind in (secfc.Automatic, secfc.Constrained, secfc.Synchronized):
        return dataclasses.replace(scenario, data=SCENARIOS["overlapping"].data)
    overlaps = kind in (secfc.Overlap1, secfc.Overlap2, secfc.CommonFeatures)
    return dataclasses.replace(scenario, data=shared_features) if overlaps else scenario


@cache
def hold_persons() -> secfc.Federation:
    """The same rows and server's points, every two rows of one person."""
    same = hold_rounded()
    persons = [np.arange(len(party.points)) // 2 for party in same.parties]
    return secfc.Federation.from_arrays(
        [party.points for party in same.parties], server_points=same.server_points, persons=persons
    )


def shared_features() -> secfc.Federation:
    """Five clients that share one feature of three."""
    rng = np.random.default_rng(15)
    seen = [("a", "b"), ("a", "c"), ("a", "b"), ("a", "c"), ("a", "b", "c")]
    points = [np.round(rng.uniform(-8, 8, (6, len(own))) * 4) / 4 for own in seen]
    return secfc.Federation.from_arrays(points, features=[list(own) for own in seen])


def option_scenarios(*, sealed: bool = True) -> dict[str, Scenario]:
    """A scenario for every value of every field: by class, field and value."""
    return {
        f"{kind.__name__}.{name}={value!r:.40}": vary(scenario_of(kind, name, value), sealed=sealed)
        for kind in BASES
        for name, value in values_due(kind)
    }
