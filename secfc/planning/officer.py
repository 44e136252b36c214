"""The page for whoever has to approve a run, of its plan: attacks are tried on a rehearsal's made-up rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from secfc.coded.plan import CodedPlan
from secfc.coded_kmeans.adversary_view import QueryRecorder
from secfc.coded_kmeans.secfc import SecFC
from secfc.errors import Caution
from secfc.logs import silence_logs
from secfc.pipeline import fit
from secfc.planning.dry_run import shrink_algorithm, synthetic_rows
from secfc.planning.estimate import rehearsal_sizes
from secfc.planning.planned import Planned
from secfc.report.leakage import attack_sentences, curious_server
from secfc.report.officer import Practice, as_html

MOST = 1000  # rows to attack


def plan_page(planned: Planned, fill: Mapping[str, str] | None = None) -> str:
    """The page, as HTML.  fill: what only people know (`secfc.report.officer.FILLED`)."""
    return as_html(replace(plan_practice(planned), fill=fill or {}))


def plan_practice(planned: Planned) -> Practice:
    """What is told of a plan."""
    tried, on = rebuilt_rows_sentences(planned)
    counted = planned.algorithm.capabilities.counted
    return Practice(
        planned.algorithm, planned.plan, len(planned.public.clients), planned.public.d,
        planned.public.m if counted else None, planned.traffic, planned.learned, planned.heard, tried, on,
        budget_sentences(planned),
    )  # fmt: skip


def rebuilt_rows_sentences(planned: Planned) -> tuple[tuple[str, ...], str]:
    """What a curious server rebuilds of made-up rows, in sentences, and on what."""
    way, public = planned.algorithm, planned.public
    if not isinstance(way, SecFC) or not isinstance(planned.plan, CodedPlan) or planned.plan.layout.mixed:
        return (), ""
    k = planned.plan.k
    rows = min(max(rehearsal_sizes(public, k, 0)[1], 1), MOST, public.m)
    federation = synthetic_rows(public, rows, k, ids=False, server_points=0)
    witness = QueryRecorder()
    with warnings.catch_warnings(), silence_logs():
        warnings.simplefilter("ignore", Caution)
        small: Any = shrink_algorithm(way, planned.plan, rows, public.m)
        result = fit(small, federation, bound=public.bound, watch=witness)
        finding = curious_server(witness, result, way.disclosure, federation)
    return tuple(attack_sentences(finding)), (
        f"{rows:,} made-up rows of {len(public.clients)} clients in {k} clusters, under this policy: a run's "
        "own page says what was found on its rows"
    )


def budget_sentences(planned: Planned) -> tuple[str, ...]:
    """What is spent of differential privacy, in sentences."""
    from secfc.privacy.ledger import EXACT

    way = planned.algorithm
    promise = way.capabilities.promise()
    if promise is None:
        return ()
    delta = promise.budget
    ledger = way.disclosure.ledger(planned.plan) if isinstance(way, SecFC) else EXACT
    if ledger is EXACT:
        return (f"differential privacy: epsilon = {delta.epsilon:g} at delta = {delta.delta:g} in total",)
    from secfc.report.data import privacy_spent

    return tuple(privacy_spent(ledger, delta.delta))
