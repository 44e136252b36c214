"""Which clusters lie side by side, as far as labels tell: nothing beyond them is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Pair = tuple[int, int]  # numbers of clusters, the lower first


class Neighborhood:
    """Pairs of clusters of which one was cut from the other, or between which points moved.

    So all clusters are connected through neighbors, whatever happens to them.  Public, as labels are.
    """

    def __init__(self) -> None:
        self.near: set[Pair] = set()

    def __repr__(self) -> str:
        return f"Neighborhood({len(self.near)} pairs)"

    @property
    def pairs(self) -> Array:
        """Ascending: (pairs, 2) int32."""
        return np.array(sorted(self.near), np.int32).reshape(-1, 2)

    def split(self, halves: Sequence[int], c: int) -> None:
        """The second halves of these clusters, of c so far, became clusters c, c + 1, ..."""
        self.near |= {(h, new) for new, h in enumerate(halves, c)}

    def moved(self, before: Array, after: Array) -> None:
        """Points went from cluster to cluster: labels (m,) before and after."""
        changed = before != after
        ends = np.sort(np.stack([before[changed], after[changed]], axis=1), axis=1)
        self.near |= {(a, b) for a, b in np.unique(ends, axis=0).tolist()}

    def numbered(self, labels: Array, c: int) -> None:
        """Of c clusters those with points, by labels (m,), are numbered from 0 in their order.

        The neighbors of one without points become those of the lowest of them.
        """
        kept = np.unique(labels).tolist()
        for lost in sorted(set(range(c)).difference(kept)):
            beside = {a + b - lost for a, b in self.near if lost in (a, b)}
            self.near = {pair for pair in self.near if lost not in pair}
            heir = min(beside)
            self.near |= {(min(heir, h), max(heir, h)) for h in beside - {heir}}
        number = {h: new for new, h in enumerate(kept)}
        self.near = {(number[a], number[b]) for a, b in self.near}


def all_pairs(c: int) -> Array:
    """All pairs of c clusters, ascending: (c (c - 1) / 2, 2) int32."""
    return np.stack(np.triu_indices(c, 1), axis=1).astype(np.int32)
