"""What sites tell where they add up k-means in the clear: the messages that secure sums replace.

As federated examples of other frameworks do it: in every step each site tells the sum (or center) and number
of its points in each cluster, and the coordinator adds.  Only a control for attacks: it must fall.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secfc.attacks.moves import Sums

Array = NDArray[Any]


def site_messages(parts: Sequence[Array], k: int, *, seed: int, max_iter: int = 300) -> list[Sums]:
    """What every site tells, in integers: parts are its points (m_j, d), integers; until no label changes.

    The start is k random points.
    """
    points = np.concatenate(parts).astype(np.int64)
    ends = np.cumsum([len(part) for part in parts])[:-1]
    rng = np.random.default_rng(seed)
    means = points[rng.choice(len(points), k, replace=False)].astype(np.float64)
    before, told = None, []
    for _ in range(max_iter + 1):
        squares = (means**2).sum(axis=1) - 2 * points @ means.T
        labels = squares.argmin(axis=1)
        member = labels[:, None] == np.arange(k)
        told.append(
            [(own.T @ rows, own.sum(axis=0)) for own, rows in zip(
                np.split(member.astype(np.int64), ends), np.split(points, ends), strict=True)]
        )  # fmt: skip
        if before is not None and (labels == before).all():
            break
        sums = sum(sums for sums, _ in told[-1])
        counts = sum(counts for _, counts in told[-1])
        means = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], means)
        before = labels
    group = np.zeros(points.shape[1], np.int64)
    totals = np.stack([sum(sums for sums, _ in step) for step in told]).astype(np.float64)
    many = np.stack([sum(counts for _, counts in step) for step in told])[:, :, None]
    centers = np.divide(totals, many, out=np.full(totals.shape, np.nan), where=many > 0)
    return [
        Sums(
            np.stack([step[j][0] for step in told]),
            np.stack([step[j][1] for step in told])[:, :, None],
            group,
            centers,
        )
        for j in range(len(parts))
    ]
