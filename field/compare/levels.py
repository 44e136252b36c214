"""How the digits of a compared number meet in a tree, three bits each: which is the first that differs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# How the digits of 30, 60, 90 or 120 bits meet in a tree: the arities of each level.  A comparison takes 110,
# 205, 327 or 449 bits of tables, and opens 25, 58, 84 or 112.  Digits of four bits that meet one level
# earlier take 158, 311, 575 and 830, and open 19, 37, 55 and 71: more to deal, and to expand for all.
TREES = {
    1: ((4, 3, 3), (3,)),
    2: ((3,) * 6 + (2,), (3, 2, 2), (3,)),
    3: ((3,) * 10, (4, 3, 3), (3,)),
    4: ((3,) * 12 + (4,), (4, 3, 3, 3), (4,)),
}


@dataclass(frozen=True, eq=False)
class Level:
    """Nodes of one level of the tree: nodes (n', 2) arity and first input; rows of its table, inputs n."""

    nodes: Array
    inputs: int
    rows: int

    @property
    def opened(self) -> int:
        """Bits a comparison that enter: equality of all inputs but the last, excess of all."""
        return 2 * self.inputs - 1


@lru_cache(maxsize=8)
def levels(lanes: int) -> tuple[Level, ...]:
    """The tree over the digits of that many lanes."""
    out = []
    for arities in TREES[lanes]:
        firsts = np.cumsum([0, *arities[:-1]])
        rows = 2 * sum(2**a - 1 - a for a in arities)
        # The last node multiplies no equality by its last input.
        rows -= 2 ** (arities[-1] - 1) - 1
        out.append(Level(np.array([arities, firsts], np.int64).T.copy(), sum(arities), rows))
    return tuple(out)
