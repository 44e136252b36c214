"""Whether a step first asks which points another center wins, and then for the nearest centers of these.

A point stays where it is unless some other center beats its own: k - 1 comparisons, all at once, where a
contest among all centers takes more of them or selects winners on the way.  Once few points move, nearly all
of a step is that.  All labels are public, so nothing more is seen: which points move follows from the labels
before and after.  It takes the rounds of two comparisons, so what a network charges for rounds and bytes
decides, and how many points moved in the step before; all of it is public, and all parties decide alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.compare.contest import Contest
from field.compare.tables import residue_words
from secfc.coded.plan import Plan
from secfc.disclosure.compare.match import OPEN, Seating, arranged
from secfc.disclosure.compare.rivals import Centers, Own

Array = NDArray[Any]

# Centers with points below which asking first never saves a comparison.
LEAST = 3
# After clusters were split, and in the first step of a run from a start that splits, at most one point in so
# many moves: on ten data sets .21 of all, half of them below .05.
IN_SPLITS = 5


def asks_first(plan: Plan, labels: Array, sizes: Array, moved: int | None, seating: Seating) -> bool:
    """Whether the step from labels (m,) of clusters of these sizes asks in two questions.

    moved: how many points changed their label in the step before; None where none was counted.
    """
    if np.count_nonzero(sizes) < LEAST or (labels < 0).any():
        return False
    if moved is None:
        moved = plan.m // IN_SPLITS if plan.init.halves else plan.m
    weights = plan.weights(sizes)
    own, all_of = Own(labels, weights, plan.code.ell).contest, Centers(weights).contest
    if plan.code.basis.modulus <= own.needed(plan.d, plan.proven):
        return False
    at_once = _seconds(plan, all_of, plan.m, seating)
    return _seconds(plan, own, plan.m, seating) + _seconds(plan, all_of, max(1, moved), seating) < at_once


def _seconds(plan: Plan, contest: Contest, m: int, seating: Seating) -> float:
    """What the messages of one question about so many points take.

    As if they were dealt for: without a dealer every comparison sends more, and both ways alike.
    """
    schedule, size = arranged(plan, contest, m, seating), seating.size
    rows = 1 + max(max(a, b) for a, b, _, _ in contest.comparisons)
    # Responders but one or so send all their rows, and members to one another what they add up to.
    told = (plan.code.threshold(2) + size - 2) * residue_words(schedule.basis, (rows, m))
    words = told + schedule.dealt + sum(schedule.openings) * size * (size - 1)
    # Rounding centers takes about as many steps as the tree of a comparison.
    before = OPEN if plan.fraction is None else 2 * OPEN + len(schedule.openings)
    return plan.network.seconds(before + len(schedule.openings), 8 * words)
