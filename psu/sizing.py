"""How large is the union, without its IDs: linear counting at several sampling rates.

Level l of a bitmap takes an ID with probability 2**-(l+1), the last level the rest; a hash picks its slot.
Each client adds r to the slots of its IDs, and only whether a slot's sum is zero is opened.  The pattern,
and so the estimate, is a function of the union and the salt.  Whang, Vander-Zanden and Taylor, ACM TODS
15(2), 1990, for one level; Estan, Varghese and Fisk, IMC 2003, for several.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psu.errors import UnionAborted
from psu.plan import SLOTS, UnionPlan

Array = NDArray[Any]

# A level that is fuller counts too coarsely.
_FULL = 0.9


def estimate_size(plan: UnionPlan, values: Array) -> int:
    """The estimated size of the union from the opened slots (levels * SLOTS, 1): zero or not is all it reads.

    The standard deviation is about 1.5 % for large unions; below 500 IDs it is within a few IDs.

    Raises UnionAborted if every level is full: the union is far above the bound.
    """
    taken = np.count_nonzero(values.reshape(plan.levels, SLOTS), axis=1)
    usable = np.flatnonzero(taken <= _FULL * SLOTS)
    if not len(usable):
        raise UnionAborted(f"the union is larger than its bound of {plan.bound}: raise the bound")
    # Levels from `base` on hold a fraction 2**-base of all IDs.
    base = int(usable[0])
    counted = 0.0
    for count in taken[base:].tolist():
        counted -= SLOTS * math.log1p(-min(count, SLOTS - 1) / SLOTS)
    return math.ceil(counted * (1 << base))
