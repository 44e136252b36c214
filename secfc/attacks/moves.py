"""Rows from exact sums of successive steps: where one moves between two clusters, it is the change.

Sums of k clusters are opened at every step, with numbers of points.  If between two steps one cluster has a
point more, another one less, and what the first gained the other lost, then one row most likely moved, and
the gain is that row.  Rows that move in a circle can feign it.  Where features are observed by few clients,
a sum over these is of fewer rows, so more often one moves alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Sums:
    """What somebody knows of sums in all steps, in integers.

    sums: (T, k, s) by feature.  counts: (T, k, p), by groups of features that the same clients observe.
    group: that of each feature (s,), -1 for one of which nothing is known.
    """

    sums: Array
    counts: Array
    group: Array

    def __repr__(self) -> str:
        return f"Sums(steps={len(self.sums)}, features={self.sums.shape[2]}, secret)"


@dataclass(frozen=True, eq=False, repr=False)
class Move:
    """A guess: at a step, a row with these values on these features went from one cluster to another."""

    step: int
    group: int
    features: Array
    values: Array
    before: int
    after: int

    def __repr__(self) -> str:
        return f"Move(step={self.step}, features={len(self.features)}, secret)"


def moves(known: Sums) -> list[Move]:
    """All rows that seem to have moved alone, by step and group."""
    found = []
    for group in range(known.counts.shape[2]):
        features = np.flatnonzero(known.group == group)
        if not len(features):
            continue
        gained = np.diff(known.sums[:, :, features], axis=0)
        more = np.diff(known.counts[:, :, group], axis=0)
        for step, (values, change) in enumerate(zip(gained, more, strict=True), start=1):
            for after in np.flatnonzero(change == 1).tolist():
                for before in np.flatnonzero(change == -1).tolist():
                    if (values[after] == -values[before]).all():
                        found.append(Move(step, group, features, values[after], before, after))
    return found
