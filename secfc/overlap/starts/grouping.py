"""What a start says: the global cluster of every local one; and what all starts share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from secfc.data.inputs import InputError
from secfc.overlap.centroids import Centroids, distances
from secfc.overlap.local import Local

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Groups:
    """labels: the global cluster of each local one, (N,) in [-1, k); -1: none.  said: to everybody, in
    words.
    """

    labels: Array
    said: tuple[str, ...] = ()


class Start(Protocol):
    """A way to match local clusters.  `local`: how clients find theirs.

    One that takes distances between them, and no centroids, has an attribute `over` that says "distances".
    """

    @property
    def local(self) -> Local: ...

    def groups(self, found: Any, k: int) -> Groups:
        """The global clusters of all local ones, of which found is `Centroids`, or `Apart`.

        Raises InputError if these centroids do not make k clusters.
        """
        ...


def check_enough(found: Any, k: int) -> None:
    """Raises InputError if there are fewer local clusters than global ones are asked for."""
    if len(found.owner) < k:
        raise InputError(
            f"k={k} clusters of {len(found.owner)} local ones at {len(found.clients)} clients: at least k "
            "are needed. Lower k, or let clients look for more local clusters."
        )


def farthest(found: Centroids, chosen: list[int], k: int) -> list[int]:
    """The chosen centroids, and then always the one that is farthest from the nearest of them, up to k.

    One that is comparable to none of them counts as nearest; ties to the lowest number.
    """
    chosen = list(chosen)
    while len(chosen) < k:
        apart = found.apart[:, chosen]
        gap = np.where(
            np.isnan(apart).all(axis=1), -1.0, np.where(np.isnan(apart), np.inf, apart).min(axis=1)
        )
        gap[chosen] = -2.0
        chosen.append(int(gap.argmax()))
    return chosen


def leftovers(found: Centroids, labels: Array, why: str) -> tuple[str, ...]:
    """A sentence about local clusters that got no global one, by client."""
    left = np.flatnonzero(labels < 0)
    if not len(left):
        return ()
    who = sorted({found.clients[j] for j in found.owner[left]})
    shown = ", ".join(who[:6]) + (f", ... ({len(who)} in all)" if len(who) > 6 else "")
    return (f"{len(left)} local clusters of {shown} belong to no cluster: {why}",)


def to_groups(found: Centroids, values: Array, centers: Array) -> Array:
    """Distances of rows (A, d) to centers (k, d), infinite where they have no feature in common: (A, k)."""
    apart = distances(values, centers, found.span)
    return np.where(np.isnan(apart), np.inf, apart)
