"""A model of hidden centers in plain values: what a process that held all parties keeps of a run, for a file.

Between organizations each site keeps its own part only (`secfc.exact.retained`); here all of them are
together, so whoever reads the file reads the centers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.code.lagrange_code import LagrangeCode
from field.code.rows import ClusterSums
from field.ring.basis import Basis
from field.ring.quantize import Quantizer
from secfc.algorithm import Public
from secfc.coded.layout import OwnRows
from secfc.coded.network import Network
from secfc.coded.plan import Plan
from secfc.coded.screening import Standing
from secfc.disclosure import AssignmentsOnly, Disclosure, Distances, FinalLabelsOnly, OwnLabels
from secfc.exact.predict import Allowance, CodedModel
from secfc.lloyd.starts import RandomLabels
from secfc.roles.description import Terms

Array = NDArray[Any]

POLICIES: Mapping[str, Any] = {
    kind.__name__: kind for kind in (AssignmentsOnly, OwnLabels, FinalLabelsOnly, Distances)
}


def values_of(model: CodedModel) -> tuple[dict[str, Any], dict[str, Array]]:
    """Numbers and words, as JSON has them, and arrays: the shares of all clients, secret."""
    plan, policy = model.plan, model.disclosure
    public = None if plan.terms is None else plan.terms.public
    facts = {
        "policy": type(policy).__name__, "of policy": asdict(policy),  # type: ignore[call-overload]
        "primes": list(plan.code.basis.primes), "ell": plan.code.ell, "t": plan.code.t,
        "quantizer": asdict(plan.quantizer), "clients": list(plan.clients), "d": plan.d,
        "multiple": plan.layout.multiple, "largest": plan.largest, "headroom": plan.headroom,
        "liars": plan.liars, "block": plan.block, "network": asdict(plan.network),
        "features": None if public is None or public.features is None else list(public.features),
        "found": dict(model.standing.liars), "disputes": [list(pair) for pair in model.standing.disputes],
        "left": {name: one.left for name, one in model.allowances.items()},
        "limit": plan.predictions, "workers": list(plan.workers), "fraction": plan.fraction,
    }  # fmt: skip
    arrays: dict[str, Array] = {}
    for i, client in enumerate(plan.clients):
        if (sums := model.centers.get(client)) is not None:
            arrays |= {f"values.{i}": sums.values, f"sizes.{i}": sums.sizes, f"labels.{i}": sums.labels}
    return facts, arrays


def model_of(facts: Mapping[str, Any], arrays: Mapping[str, Array]) -> CodedModel:
    """The model that these are of.  Raises KeyError, TypeError, ValueError for what are none."""
    clients = tuple(facts["clients"])
    quantizer, d = Quantizer(**facts["quantizer"]), int(facts["d"])
    policy: Disclosure = POLICIES[facts["policy"]](**facts["of policy"])
    features = None if facts["features"] is None else tuple(facts["features"])
    public = Public(clients, (1,) * len(clients), d, quantizer.bound, features=features)
    basis, workers = Basis(tuple(facts["primes"])), tuple(facts.get("workers", ()))
    plan = Plan(
        LagrangeCode(basis, len(workers or clients), facts["ell"], facts["t"]), quantizer, clients,
        OwnRows((1,) * len(clients), facts["multiple"]), d, 1, 1, 1, RandomLabels(), (), facts["largest"],
        facts["headroom"], facts["liars"], facts["block"], Terms(policy, public), predictions=facts["limit"],
        network=Network(**facts["network"]), workers=workers, fraction=facts.get("fraction"),
    )  # fmt: skip
    centers: dict[str, ClusterSums | None] = {}
    for i, client in enumerate(clients):
        there = f"values.{i}" in arrays
        parts = [np.asarray(arrays[f"{name}.{i}"]) for name in ("values", "sizes", "labels")] if there else []
        centers[client] = ClusterSums(*parts) if there else None
    allowances = {}
    for client in clients:
        allowances[client] = Allowance(facts["limit"])
        allowances[client].left = int(facts["left"].get(client, facts["limit"]))
    standing = Standing(dict(facts["found"]), tuple((a, b) for a, b in facts["disputes"]))
    return CodedModel(plan, policy, centers, standing, allowances)
