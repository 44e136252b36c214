"""Centers that everybody knows: how they label points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.secrets.coins import Coins
from secfc.algorithm import Drive
from secfc.data.federation import Federation
from secfc.roles.exchange import PartyId

Array = NDArray[Any]


@dataclass(frozen=True, repr=False, eq=False)
class CentersModel:
    """Known centers (k, d): new points go to the nearest, in floating point."""

    centers: Array

    def predict(
        self, federation: Federation, *, coins: Callable[[PartyId], Coins], drive: Drive
    ) -> list[Array]:
        """Nearest centers: one (m_j,) int32 array a client.  Nobody says anything."""
        return [nearest_center(party.read(), self.centers) for party in federation.parties]


def nearest_center(points: Array, centers: Array) -> Array:
    """The nearest center of every point (m, d), ties to the lowest index: (m,) int32."""
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(points, centers, "sqeuclidean").argmin(axis=1), np.int32)
