"""In how many blocks of rows a question's comparison goes, which planners ask before there is a run."""

from __future__ import annotations

from typing import Any

import numpy as np

from field.compare.in_turn import InTurn
from secfc.coded.messages import Compare
from secfc.coded.plan import Plan
from secfc.disclosure.compare.match import Match, Seating
from secfc.disclosure.own.messages import Cleave


def blocks_of(policy: Any, plan: Any, question: Any) -> tuple[int, int]:
    """How many blocks of the plan's rows there are, and how often bits are opened in each; (1, 0) for all at
    once.

    question: as it was asked in a rehearsal, of however few rows.  Clusters are taken to be nearly equally
    large: how many blocks there are depends on their sizes as little as bytes do, but for sizes that are all
    equal, which are no secret in a tournament, and take fewer lanes and rounds.
    """
    dealer = getattr(policy, "dealer", None)
    hidden = getattr(policy, "hidden", False) and getattr(question, "step", 0)
    if not (isinstance(plan, Plan) and isinstance(question, Compare) and dealer) or hidden:
        return 1, 0
    rivals = 2 * question.k if isinstance(question, Cleave) else question.k
    sizes = np.maximum(1, plan.m // rivals - np.arange(rivals))
    schedule = Match(plan, question, sizes, Seating(len(question.committee), dealer)).schedule
    if not isinstance(schedule, InTurn):
        return 1, 0
    return len(schedule.parts), len(schedule.whole.openings)
