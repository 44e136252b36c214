"""In how many blocks of rows a question's comparison goes, which planners ask before there is a run."""

from __future__ import annotations

from typing import Any

import numpy as np

from field.compare.blockwise import BlockwiseContest
from secfc.coded.plan import CodedPlan
from secfc.coded.queries import Operation, Query
from secfc.disclosure.compare.session import CommitteeChoice, ComparisonSession, committee_size


def count_blocks(policy: Any, plan: Any, question: Any) -> tuple[int, int]:
    """How many blocks of the plan's rows there are, and how often bits are opened in each; (1, 0) for all at
    once.

    question: as it was asked in a rehearsal, of however few rows.  Clusters are taken to be nearly equally
    large: how many blocks there are depends on their sizes as little as bytes do, but for sizes that are all
    equal, which are no secret in a tournament, and take fewer lanes and rounds.
    """
    if policy is None or not isinstance(plan, CodedPlan) or not isinstance(question, Query):
        return 1, 0
    dealer = policy.capabilities.dealer
    if dealer is None or not question.operation.compares:
        return 1, 0
    if policy.capabilities.exposes == "steps" and question.operation.shared and question.at.step:
        return 1, 0
    rivals = 2 * question.k if question.operation is Operation.SPLIT else question.k
    sizes = np.maximum(1, plan.m // rivals - np.arange(rivals))
    seating = CommitteeChoice(committee_size(plan.code.t), dealer)
    schedule = ComparisonSession(plan, question, sizes, seating).schedule
    if not isinstance(schedule, BlockwiseContest):
        return 1, 0
    return len(schedule.parts), len(schedule.whole.openings)
