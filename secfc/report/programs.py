"""Reports as one JSON object."""

from __future__ import annotations

import importlib.metadata
import math
import platform
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

import secfc
from field.ring.quantize import Quantizer
from secfc.algorithm import Clustering
from secfc.coded.plan import Plan
from secfc.report import privacy
from secfc.report.attacks import as_object
from secfc.report.costs import rounds, seconds
from secfc.report.membership import hidden, opened
from secfc.report.outcome import Comparison, Outcome


def as_json(outcome: Outcome) -> dict[str, Any]:
    """The report as one object of plain values: strictly JSON, no NaN."""
    result, federation = outcome.result, outcome.federation
    report: dict[str, Any] = {
        "format": 1,
        "versions": versions(),
        "source": outcome.source,
        "parameters": parameters(outcome),
        "n": federation.n,
        "m": outcome.m,
        "points_held": federation.m,
        "d": federation.d,
        "columns": None if federation.feature_names is None else list(federation.feature_names),
        "command": None if outcome.origin is None else outcome.origin.command,
        "started": None if outcome.origin is None else outcome.origin.started,
        "files": None if outcome.origin is None else list(outcome.origin.files),
        "clients": dict(zip(federation.names, federation.counts, strict=True)),
        "verified": outcome.verified,
        "verification": _verification(outcome.comparison),
        "unrounded": None if outcome.ordinary is None else asdict(outcome.ordinary),
        "steps_in_spread": _steps(outcome),
        "truth": outcome.scores,
        "cost": outcome.cost,
        "cost_known_to_server": result.cost is not None,
        "n_iter": result.n_iter,
        "converged": result.converged,
        "cluster_sizes": outcome.sizes,
        "centers": None if result.centers is None else result.centers.tolist(),
        "seconds": {**seconds(result), "wall": dict(outcome.wall)},
        "steps": rounds(result),
        "transcript": {
            "messages": len(result.transcript),
            "bytes": result.transcript.nbytes(),
            "by_direction": {
                direction: {kind: {"messages": count, "bytes": size} for kind, (count, size) in kinds.items()}
                for direction, kinds in result.transcript.summary().items()
            },
        },
        "learned": list(result.learned),
        "attack": as_object(outcome.finding),
        "privacy": privacy.as_object(result.ledger, outcome.delta),
        "liars": dict(result.liars),
        "disputes": [list(pair) for pair in result.disputes],
        "excluded": list(result.excluded),
        "membership": {"hidden": hidden(outcome), "opened": opened(outcome)} if outcome.private else None,
        "notes": list(outcome.notes),
    }
    plain: dict[str, Any] = strict(_paid(report, outcome))
    return plain


def _paid(report: dict[str, Any], outcome: Outcome) -> dict[str, Any]:
    """The report with what no budget paid for set apart, and marked; or left out."""
    hidden = {name: report[name] for name in outcome.unpaid}
    evaluation = None
    if hidden and outcome.evaluate:
        evaluation = {"covered_by_epsilon": False, **hidden}
    return {**report, **dict.fromkeys(hidden), "evaluation": evaluation}


def versions() -> dict[str, str]:
    """Versions of what computed the result."""
    return {
        "secfc": secfc.__version__,
        "python": platform.python_version(),
        "numpy": importlib.metadata.version("numpy"),
        "numba": importlib.metadata.version("numba"),
    }


def parameters(outcome: Outcome) -> dict[str, Any]:
    """Every parameter of the run, chosen by the user or for the user."""
    plan = outcome.result.plan
    chosen: dict[str, Any] = {"algorithm": outcome.algorithm, "k": outcome.result.k, **outcome.settings}
    if isinstance(plan, Plan):
        basis = plan.code.basis
        chosen |= {
            "t": plan.code.t,
            "ell": plan.code.ell,
            "primes": list(basis.primes),
            "lanes": basis.lanes,
            "modulus_bits": basis.modulus.bit_length(),
            "reveal_centers": list(plan.revealing),
            "liars": plan.liars,
        }
    if quantizer := quantizer_of(outcome.result):
        chosen |= {"scale": quantizer.scale, "bound": quantizer.bound, "rounding": quantizer.rounding}
    return chosen


def quantizer_of(result: Clustering) -> Quantizer | None:
    """How a run made integers of its points, None if it did not."""
    quantizer = getattr(result.plan, "quantizer", None)
    return quantizer if isinstance(quantizer, Quantizer) else None


def _verification(comparison: Comparison | None) -> dict[str, Any] | None:
    if comparison is None:
        return None
    return {
        "against": "plaintext Lloyd, same start and seed",
        "iterations": comparison.steps,
        "first_difference": comparison.first,
        "points_that_differ": comparison.points,
    }


def _steps(outcome: Outcome) -> dict[str, float] | None:
    """Steps of rounding within the spread of every feature, null where rounding changes nothing."""
    found = outcome.resolution
    return None if found is None else dict(zip(found.names, found.steps, strict=True))


def strict(value: Any) -> Any:
    """The same value with null where JSON has no number."""
    if isinstance(value, Mapping):
        return {str(key): strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict(item) for item in value]
    if isinstance(value, np.generic):
        return strict(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
