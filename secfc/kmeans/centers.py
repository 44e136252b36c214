"""Centers that everybody knows: how they label points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from field.secrets.coins import Coins
from secfc.algorithm import Driver
from secfc.data.federation import Federation
from secfc.roles.exchange import PartyId

Array = NDArray[Any]

BLOCK = 1 << 16  # distances at a time, which a cache holds


@dataclass(frozen=True, repr=False, eq=False)
class CentersModel:
    """Known centers (k, d): new points go to the nearest, in floating point."""

    centers: Array
    by_name: ClassVar[bool] = False

    def predict(
        self, federation: Federation, *, coins: Callable[[PartyId], Coins], drive: Driver
    ) -> list[Array]:
        """Nearest centers: one (m_j,) int32 array a client.  Nobody says anything."""
        return [
            party.label_blocks(lambda _, block: nearest_center(block, self.centers))
            for party in federation.parties
        ]


def nearest_center(points: Array, centers: Array) -> Array:
    """The nearest center of every point (m, d), ties to the lowest index: (m,) int32."""
    nearest = np.empty(len(points), np.int32)
    rows = max(1, BLOCK // len(centers))
    for first in range(0, len(points), rows):
        nearest[first : first + rows] = squared_distances(points[first : first + rows], centers).argmin(
            axis=1
        )
    return nearest


def squared_distances(points: Array, centers: Array) -> Array:
    """Squared distances (m, k) in floating point, features added up in their order: the same anywhere."""
    points, centers = np.asarray(points, np.float64), np.asarray(centers, np.float64)
    total = np.zeros((len(points), len(centers)))
    for mine, theirs in zip(points.T, centers.T, strict=True):
        apart = mine[:, None] - theirs
        apart *= apart
        total += apart
    return total
