"""Reports as one JSON object."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from secfc.kmeans.bisecting import Dendrogram
from secfc.kmeans.elbow import CostCurve
from secfc.report.costs import privacy_as_json
from secfc.report.data import Comparison, Report, library_versions
from secfc.report.leakage import attacks_as_json

# What is computed from the exact data, and what numbers of points tell.
EXACT = ("profile", "stability", "truth", "cost", "seconds", "attack", "files", "notes_on_data")
COUNTS = ("m", "points_held", "clients", "cluster_sizes", "labels_digest", "labels_digests")


def as_json(found: Report) -> dict[str, Any]:
    """Report as one object of plain values: strictly JSON, no NaN.

    Parameters
    ----------
    found
        The report.

    Returns
    -------
    dict
        What no privacy budget paid for is under "evaluation" alone.
    """
    plain: dict[str, Any] = strict_json(_paid(_whole(found), found) if found.noisy else _whole(found))
    return plain


def _whole(found: Report) -> dict[str, Any]:
    """All that it says."""
    account = found.account
    origin = {} if found.origin is None else asdict(found.origin)
    counts = {} if found.counts is None else asdict(found.counts)
    report: dict[str, Any] = {
        "format": 1,
        "versions": library_versions(),
        "source": found.source,
        "parameters": found.parameters,
        "n": found.n,
        "m": counts.get("m"),
        "points_held": counts.get("held"),
        "d": found.d,
        "columns": found.columns,
        "command": origin.get("command"),
        "started": origin.get("started"),
        "files": origin.get("files"),
        "clients": counts.get("clients"),
        "verified": found.verified,
        "verification": _verification(found.comparison),
        "unrounded": None if found.ordinary is None else asdict(found.ordinary),
        "steps_in_spread": _steps(found),
        "truth": found.scores,
        "cost": found.cost,
        "cost_known_to_server": found.cost_known,
        "choice": _choice(found.curve),
        "dendrogram": tree_as_object(account.dendrogram),
        "n_iter": found.n_iter,
        "converged": found.converged,
        "held_by_floor": found.held,
        "labels_digest": None if found.digests is None else found.digests[""],
        "labels_digests": _of_clients(found.digests),
        "cluster_sizes": counts.get("clusters"),
        "centers": None if found.centers is None else found.centers.tolist(),
        "centers_withheld": list(found.withheld),
        "seconds": None if found.seconds is None else {**found.seconds, "wall": found.wall},
        "steps": found.steps if found.simulated else None,
        "transcript": _transcript(found) if found.simulated else None,
        "learned": found.learned,
        "clients_learned": account.heard,
        "attack": attacks_as_json(found.finding),
        "privacy": _privacy(found),
        "deviated": found.deviated,
        "disputes": found.disputes,
        "excluded": found.excluded,
        "membership": {"hidden": account.hidden, "opened": account.opened} if account.hidden else None,
        "membership_risk": None if found.risk is None else found.risk.as_object(),
        "notes": found.notes if found.noisy else (*found.notes, *found.asides),
        "notes_on_data": found.asides if found.noisy else (),
        "profile": None if found.profile is None else found.profile.as_object(),
        "stability": None if found.stability is None else asdict(found.stability),
        "evaluation": None,
    }
    return report


def _privacy(found: Report) -> dict[str, Any]:
    """What was spent, on what, under how much noise, and how sure what was released is."""
    account = found.account
    return {
        **privacy_as_json(found.ledger, found.delta),
        "noise": [asdict(one) for one in account.noise],
        "assumed": dict(account.assumed),
        "labels": None if account.labels is None else asdict(account.labels),
        "centers": None if account.centers is None else asdict(account.centers),
    }


def _transcript(found: Report) -> dict[str, Any]:
    """Messages and bytes, in all and by direction and kind."""
    sent = [entry for kinds in found.traffic.values() for entry in kinds.values()]
    return {
        "messages": sum(count for count, _ in sent),
        "bytes": sum(size for _, size in sent),
        "by_direction": {
            direction: {kind: {"messages": count, "bytes": size} for kind, (count, size) in kinds.items()}
            for direction, kinds in found.traffic.items()
        },
    }


def _paid(report: dict[str, Any], found: Report) -> dict[str, Any]:
    """The report with what no budget paid for set apart, and marked."""
    unpaid = EXACT if found.labels_paid else (*EXACT, *COUNTS)
    evaluation = None
    if found.evaluated:
        evaluation = {"covered_by_epsilon": False, **{name: report[name] for name in unpaid}}
    return {**_whole(found.publishable), **dict.fromkeys(unpaid), "evaluation": evaluation}


def _verification(comparison: Comparison | None) -> dict[str, Any] | None:
    if comparison is None:
        return None
    return {
        "against": comparison.beside or "plaintext Lloyd, same start and seed",
        "iterations": comparison.steps,
        "first_difference": comparison.first,
        "points_that_differ": comparison.points,
    }


def _choice(curve: CostCurve | None) -> dict[str, Any] | None:
    """The costs by which k was chosen, of 1, 2, ... clusters; silhouettes are of 2, 3, ..."""
    if curve is None:
        return None
    return {
        "k": curve.k,
        "least": curve.least,
        "most": len(curve.costs),
        "costs": [float(cost) for cost in curve.costs],
        "depths": curve.depths,
        "depth": curve.depth,
        "second": curve.second,
        "clarity": curve.clarity,
        "silhouettes": curve.silhouettes or None,
        "silhouette": curve.silhouette,
        "words": curve.words,
    }


def tree_as_object(dendrogram: Dendrogram | None) -> dict[str, Any] | None:
    """Ward's linkage of the clusters with points, in SciPy's form, and how far each two centers are apart."""
    if dendrogram is None:
        return None
    rows, apart = dendrogram.link_clusters(), dendrogram.distances
    return {"clusters": dendrogram.leaves.tolist(), "ward": rows.tolist(), "distances": apart.tolist()}


def _steps(found: Report) -> dict[str, float] | None:
    """Steps of rounding within the spread of every feature, null where rounding changes nothing."""
    judged = found.resolution
    return None if judged is None else dict(zip(judged.names, judged.steps, strict=True))


def strict_json(value: Any) -> Any:
    """The same value with null where JSON has no number."""
    if isinstance(value, Mapping):
        return {str(key): strict_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict_json(item) for item in value]
    if isinstance(value, np.generic):
        return strict_json(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _of_clients(digests: Mapping[str, str] | None) -> dict[str, str] | None:
    return None if digests is None else {name: digest for name, digest in digests.items() if name}
