"""What one party keeps of a run to label new points later, in plain values: for files, and other processes.

A client keeps its shares of the final centers, which are secret as any share is; the server keeps how large
clusters are and who was found to deviate.  The plan is not kept but made again, from the same terms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

import psu
from field.arrays import Array
from field.code.lagrange_code import LagrangeCode
from field.code.rows import ClusterSums
from field.ring.basis import Basis
from field.ring.quantize import Quantizer
from field.secrets.coins import Coins
from secfc.algorithm import PartyOutcome, PublicFacts
from secfc.coded.joined import Joined, check_blocks
from secfc.coded.parameters import Network, Threshold
from secfc.coded.plan import CodedPlan, ColumnLayout, HiddenOwnerLayout, PublicOwnerLayout
from secfc.coded.quorum import BlameState
from secfc.coded_kmeans.parameters import PredictionAllowance
from secfc.coded_kmeans.predict import (
    CodedModel,
    JoinedPrediction,
    fitted_terms,
    join_new_people,
    predicting_client,
    predicting_server,
    prediction_plan,
)
from secfc.data.linkage import linkage_of
from secfc.data.party import Party
from secfc.disclosure import AssignmentsOnly, Disclosure, Distances, FinalLabelsOnly, OwnLabels
from secfc.kmeans.starts import RandomLabels
from secfc.roles.description import RunTerms
from secfc.roles.exchange import PartyId, Role

if TYPE_CHECKING:
    from secfc.coded_kmeans.secfc import SecFC


@dataclass(frozen=True, eq=False, repr=False)
class ModelShare:
    """One party's part of a model.

    plan: of the run.  sizes: (k,) points of each cluster, as far as all know them.  sums: a client's
    shares of the centers, None for the server, and for a client that missed the end.  standing: the server's.
    scale: by which a client brought joined columns to scale alone, None if it did not.
    """

    plan: CodedPlan
    sizes: Array
    sums: ClusterSums | None
    standing: BlameState
    scale: Any = None

    @classmethod
    def of(cls, way: SecFC, outcome: PartyOutcome) -> ModelShare | None:
        """From what a party has of a run; None if it cannot help to label anything."""
        if not way.disclosure.capabilities.exact:
            return None
        nobody = BlameState({})
        if isinstance(outcome.share, ClusterSums):
            return cls(outcome.plan, outcome.share.sizes, outcome.share, nobody, outcome.details)
        if not isinstance(outcome.details, BlameState):
            return None
        if outcome.sizes:
            sizes = np.asarray(outcome.sizes[-1], np.int64)
        elif outcome.history:
            labels = outcome.history[-1]
            sizes = np.bincount(labels[labels >= 0], minlength=outcome.plan.k).astype(np.int64)
        else:
            return None
        if way.disclosure.capabilities.exposes == "steps":
            sizes = (sizes > 0).astype(np.int64)  # all that anybody knows
        return cls(outcome.plan, sizes, None, outcome.details)

    # --- in plain values

    def values(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Numbers and words, as JSON has them, and arrays."""
        layout = self.plan.layout
        hidden, joined = isinstance(layout, HiddenOwnerLayout), isinstance(layout, ColumnLayout)
        found: Any = layout
        facts = {
            "rows": list(layout.counts) if isinstance(layout, PublicOwnerLayout) else layout.m,
            "hidden": hidden,
            "joined": joined,
            "multiple": layout.multiple,
            "held": (found.held if hidden else found.kept if joined else b"").hex(),
            "bound": self.plan.terms.public.bound if self.plan.terms else None,
            "deviated": dict(self.standing.deviated),
            "disputes": [list(pair) for pair in self.standing.disputes],
        }
        arrays = {"sizes": self.sizes}
        if self.sums is not None:
            arrays |= {"values": self.sums.values, "labels": self.sums.labels}
        return facts, arrays

    @classmethod
    def read(
        cls,
        way: SecFC,
        public: PublicFacts,
        facts: Mapping[str, Any],
        arrays: Mapping[str, Array],
        scale: Any = None,
    ) -> ModelShare:
        """From plain values, and the terms of the run.  Raises ValueError for what does not fit them."""
        public = replace(public, bound=float(facts["bound"]))
        layout: Any
        held, multiple = bytes.fromhex(facts["held"]), int(facts["multiple"])
        if facts["hidden"]:
            layout = HiddenOwnerLayout(int(facts["rows"]), len(public.clients), multiple, held)
        elif facts.get("joined"):
            blocks = check_blocks(public.clients, public.observed, public.features)
            layout = ColumnLayout(int(facts["rows"]), blocks, held)
        else:
            counts = tuple(map(int, facts["rows"]))
            public = replace(public, counts=counts)
            layout = PublicOwnerLayout(counts, multiple)
        plan, sizes, sums = way.complete(public, layout), arrays["sizes"], None
        if "values" in arrays:
            sums = ClusterSums(arrays["values"], sizes, arrays["labels"])
            if sums.values.shape[:2] != (plan.code.basis.lanes, len(sizes)):
                raise ValueError("the shares do not fit the plan of the run")
        standing = BlameState(
            dict(facts["deviated" if "deviated" in facts else "liars"]),
            tuple((a, b) for a, b in facts["disputes"]),
        )
        return cls(plan, sizes, sums, standing, scale)

    # --- roles

    @property
    def blocks(self) -> tuple[tuple[int, ...], ...] | None:
        """Numbers of the columns of each client, where these lie at several."""
        layout = self.plan.layout
        return layout.blocks if isinstance(layout, ColumnLayout) else None

    def most_labeled(self, counts: tuple[int, ...]) -> int:
        """How many new points are labeled at most, where each client has so many.

        Of joined columns, as many people as the clients with the same columns have, who have the fewest.
        """
        if self.blocks is None or fitted_terms(self.plan).way.membership.keep == "union":
            return sum(counts)
        totals = Counter[tuple[int, ...]]()
        for block, count in zip(self.blocks, counts, strict=True):
            totals[block] += count
        return min(total for block, total in totals.items() if block)

    def plan_for(self, counts: tuple[int, ...], session: bytes) -> CodedPlan | JoinedPrediction:
        """The plan under which so many new points of each client are labeled; session: see `PublicFacts`."""
        if self.blocks is not None:
            observed = fitted_terms(self.plan).public.observed
            return join_new_people(self.plan, counts, observed, self.sizes, session)
        features = None if self.plan.terms is None else self.plan.terms.public.features
        return prediction_plan(self.plan, counts, features, self.sizes, session)

    def client(
        self,
        way: SecFC,
        plan: CodedPlan | JoinedPrediction,
        party: Party,
        coins: Coins,
        allowance: PredictionAllowance | None,
    ) -> Role[Array]:
        """Labels of a client's new points."""
        return predicting_client(
            way.disclosure, plan, party, self.sums, len(self.sizes), coins=coins, allowance=allowance,
            scale=self.scale,
        )  # fmt: skip

    def server(self, way: SecFC, plan: CodedPlan | JoinedPrediction, coins: Coins) -> Role[None]:
        """The server's part."""
        return predicting_server(way.disclosure, plan, self.sizes, self.standing, coins=coins)


# --------------------------------------------------------------------------------------------------
# A model of hidden centers in plain values: what a process that held all parties keeps of a run, for a file.
#
# Between organizations each site keeps its own part only (`secfc.coded_kmeans.model_share`); here all of them
# are together, so whoever reads the file reads the centers.

POLICIES: Mapping[str, Any] = {
    kind.__name__: kind for kind in (AssignmentsOnly, OwnLabels, FinalLabelsOnly, Distances)
}


def to_plain_values(model: CodedModel) -> tuple[dict[str, Any], dict[str, Array]]:
    """Numbers and words, as JSON has them, and arrays: the shares of all clients, secret."""
    plan, policy = model.plan, model.disclosure
    public = None if plan.terms is None else plan.terms.public
    facts = {
        "policy": type(policy).__name__, "of policy": asdict(policy),  # type: ignore[call-overload]
        "primes": list(plan.code.basis.primes), "ell": plan.code.ell, "t": plan.code.t,
        "quantizer": asdict(plan.quantizer), "clients": list(plan.clients), "d": plan.d,
        "multiple": plan.layout.multiple, "largest": plan.largest, "headroom": plan.headroom,
        "corrected": plan.corrected, "block": plan.block, "network": asdict(plan.network),
        "features": None if public is None or public.features is None else list(public.features),
        "found": dict(model.standing.deviated), "disputes": [list(pair) for pair in model.standing.disputes],
        "left": {name: one.left for name, one in model.allowances.items()},
        "limit": plan.predictions, "workers": list(plan.workers), "fraction": plan.fraction,
        "joined": joined_columns_as_values(model) if model.joined else None,
    }  # fmt: skip
    arrays: dict[str, Array] = {}
    for i, client in enumerate(plan.clients):
        if (sums := model.centers.get(client)) is not None:
            arrays |= {f"values.{i}": sums.values, f"sizes.{i}": sums.sizes, f"labels.{i}": sums.labels}
    return facts, arrays


# What a union of new people needs to know of that of the fit.
OF_UNION = ("keep", "align", "bound", "sized", "verify", "tags", "quota")


def joined_columns_as_values(model: CodedModel) -> dict[str, Any]:
    """Who has which columns, and how people are found."""
    terms = fitted_terms(model.plan)
    way: Joined = terms.way.membership
    mode = way.mode
    return {
        "d": terms.public.d, "observed": [list(own) for own in terms.public.observed or ()],
        "union": {name: getattr(way, name) for name in OF_UNION},
        "mode": asdict(mode) if isinstance(mode, psu.Committee) else mode and "server",
        "schema": None if way.schema is None else way.schema.tables(),
    }  # fmt: skip


def joined_columns_from_values(
    joined: Mapping[str, Any], public: PublicFacts, scale: Any
) -> tuple[PublicFacts, Joined, ColumnLayout]:
    """What is public, how people are found, and a layout of columns.  scale: see `Joined`."""
    observed, mode = tuple(map(tuple, joined["observed"])), joined["mode"]
    public = replace(public, d=int(joined["d"]), observed=observed)
    mode = psu.Committee(**mode) if isinstance(mode, Mapping) else psu.Server() if mode else None
    schema = None if joined["schema"] is None else linkage_of(joined["schema"], "the model's schema")
    way = Joined(scale=scale, mode=mode, schema=schema, **joined["union"])
    return public, way, ColumnLayout(1, check_blocks(public.clients, observed, public.features))


def from_plain_values(
    facts: Mapping[str, Any],
    arrays: Mapping[str, Array],
    scale: Any = None,
    scales: Mapping[PartyId, Any] = MappingProxyType({}),
) -> CodedModel:
    """The model that these are of.  Raises KeyError, TypeError, ValueError for what are none.

    scale: how owners of joined columns brought these to scale, scales: by which each did.
    """
    from secfc.coded_kmeans.secfc import SecFC

    clients = tuple(facts["clients"])
    quantizer, d = Quantizer(**facts["quantizer"]), int(facts["d"])
    policy: Disclosure = POLICIES[facts["policy"]](**facts["of policy"])
    features = None if facts["features"] is None else tuple(facts["features"])
    public = PublicFacts(clients, (1,) * len(clients), d, quantizer.bound, features=features)
    layout: Any = PublicOwnerLayout((1,) * len(clients), facts["multiple"])
    way: Any = policy
    if facts.get("joined"):
        public, joined, layout = joined_columns_from_values(facts["joined"], public, scale)
        way = SecFC(1, Threshold(facts["t"], facts["ell"]), membership=joined, disclosure=policy)
    basis, workers = Basis(tuple(facts["primes"])), tuple(facts.get("workers", ()))
    plan = CodedPlan(
        LagrangeCode(basis, len(workers or clients), facts["ell"], facts["t"]),
        quantizer,
        clients,
        layout,
        d,
        1,
        1,
        1,
        RandomLabels(),
        (),
        facts["largest"],
        facts["headroom"],
        facts["corrected" if "corrected" in facts else "liars"],
        facts["block"],
        RunTerms(way, public),
        predictions=facts["limit"],
        network=Network(**facts["network"]),
        workers=workers,
        fraction=facts.get("fraction"),
    )
    centers: dict[str, ClusterSums | None] = {}
    for i, client in enumerate(clients):
        there = f"values.{i}" in arrays
        parts = [np.asarray(arrays[f"{name}.{i}"]) for name in ("values", "sizes", "labels")] if there else []
        centers[client] = ClusterSums(*parts) if there else None
    allowances = {}
    for client in clients:
        allowances[client] = PredictionAllowance(facts["limit"])
        allowances[client].left = int(facts["left"].get(client, facts["limit"]))
    standing = BlameState(dict(facts["found"]), tuple((a, b) for a, b in facts["disputes"]))
    return CodedModel(plan, policy, centers, standing, allowances, scales)
