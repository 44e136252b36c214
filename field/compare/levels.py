"""How the digits of a compared number meet in a tree, four bits each: which is the first that differs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# How the digits of 30, 60, 90 or 120 bits meet in a tree: the arities of each level.
TREES = {1: ((4, 4), (2,)), 2: ((4, 4, 4, 3), (4,)), 3: ((5, 5, 5, 4, 4), (5,)), 4: ((5,) * 6, (6,))}


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
