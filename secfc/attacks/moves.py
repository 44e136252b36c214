"""Rows from exact sums of successive steps: where one moves between two clusters, it is the change.

Sums of k clusters are opened at every step, with numbers of points.  If between two steps one cluster has a
point more, another one less, and what the first gained the other lost, then one row most likely moved, and
the gain is that row.  Rows that move in a circle can feign it.  Where features are observed by few clients,
a sum over these is of fewer rows, so more often one moves alone.

More follows from any two steps, however far apart (`nested`): a cluster that has one point more in one than
in the other, and otherwise the same, gives that point as the difference.  Whether it is otherwise the same
can be checked: the difference must lie within the range of the data, and be nearest to that cluster's center
in the one step and to another's in the other, by centers that the sums tell.  So several times as many rows
are found as those that move alone, and hardly a false one (the page has figures).
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
    group: that of each feature (s,), -1 for one of which nothing is known.  centers: (T, k, s) that points
    were labeled by after each step, NaN where none is, if these are not the means of what the sums are of.
    """

    sums: Array
    counts: Array
    group: Array
    centers: Array | None = None

    def __repr__(self) -> str:
        return f"Sums(steps={len(self.sums)}, features={self.sums.shape[2]}, secret)"


@dataclass(frozen=True, eq=False, repr=False)
class Move:
    """A guess: a row with these values on these features is in cluster `after` at this step, and was in
    `before` a step earlier, None if only some other one is known, in some other step.
    """

    step: int
    group: int
    features: Array
    values: Array
    before: int | None
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


def nested(known: Sums, low: Array, high: Array) -> list[Move]:
    """Rows that one cluster has in one step and not in another, its others being the same; each once.

    low, high: between which all values lie, (s,) integers: public.  Only where one group has all features, as
    else the centers that a row was compared with are not known.  O(T**2 k s) for T steps.
    """
    if not len(known.sums) or known.counts.shape[2] != 1 or (known.group != 0).any():
        return []
    sums, counts = known.sums, known.counts[:, :, 0]
    features = np.arange(sums.shape[2])
    there = counts > 0
    centers = known.centers
    if centers is None:
        centers = np.full(sums.shape, np.nan)
        np.divide(sums, counts[:, :, None], out=centers, where=there[:, :, None])

    def consistent(row: Array, step: int, cluster: int, inside: bool) -> bool:
        """Whether the centers that the labels of a step were made by put the row into the cluster, or not."""
        if step == 0 or np.isnan(centers[step - 1]).all():
            return True  # labels of the start were made by nothing that is known
        return bool((int(np.nanargmin(((centers[step - 1] - row) ** 2).sum(axis=1))) == cluster) == inside)

    found: dict[bytes, Move] = {}
    for other in range(len(sums)):
        steps, clusters = np.nonzero((counts - counts[other] == 1) & (counts[other] >= 0))
        rows = sums[steps, clusters] - sums[other, clusters]
        fits = ((rows >= low) & (rows <= high)).all(axis=1)
        for step, cluster, row in zip(steps[fits].tolist(), clusters[fits].tolist(), rows[fits], strict=True):
            if consistent(row, step, cluster, True) and consistent(row, other, cluster, False):
                found.setdefault(row.tobytes(), Move(step, 0, features, row, None, cluster))
    return list(found.values())
