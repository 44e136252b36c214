"""Labels of new points with any columns: nearest by the features that are observed and known."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from field.ring.quantize import Quantizer
from field.secrets.coins import Coins
from secfc.algorithm import Driver
from secfc.data.federation import Federation
from secfc.data.inputs import Caution, InputError
from secfc.data.party import Party
from secfc.overlap.missing_features import KnownCenters, nearest_offered
from secfc.roles.exchange import PartyId

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class ExactLabeler:
    """Centers as fractions of integers: new points are rounded as those of the fit were."""

    quantizer: Quantizer
    known: KnownCenters

    def label(self, points: Array, features: Array, owner: str) -> Array:
        return nearest_offered(self.quantizer(points, owner=owner), self.known.on(features))


@dataclass(frozen=True, eq=False, repr=False)
class FloatLabeler:
    """Centers (k, d) as floats, NaN where there is none."""

    centers: Array

    def label(self, points: Array, features: Array, owner: str) -> Array:
        return nearest_known(points, self.centers[:, features])


Labeler = ExactLabeler | FloatLabeler


def nearest_known(points: Array, centers: Array) -> Array:
    """The nearest of the centers (k, d) without gaps, ties to the lowest index; -1 if all have gaps: (m,)
    int32.
    """
    from scipy.spatial.distance import cdist

    whole = np.flatnonzero(~np.isnan(centers).any(axis=1))
    if not len(whole):
        return np.full(len(points), -1, np.int32)
    return np.asarray(whole[cdist(points, centers[whole], "sqeuclidean").argmin(axis=1)], np.int32)


@dataclass(frozen=True, eq=False, repr=False)
class OverlapModel:
    """shared: centers on the features (d,) that several clients observe, which all parties may know.

    own: of each client the centers that it knows, on all its features, and the numbers of these.  named:
    whether the fit had names of features.
    """

    features: tuple[str, ...]
    shared: tuple[Array, Labeler]
    own: Mapping[PartyId, tuple[Array, Labeler]]
    named: bool
    by_name: ClassVar[bool] = True

    def predict(
        self, federation: Federation, *, coins: Callable[[PartyId], Coins], drive: Driver
    ) -> list[Array]:
        """Labels of new points: one (m_j,) int32 array a client.  Nobody says anything.

        A client of the fit, by name, knows centers on its own features too, anybody else on shared ones.
        Columns that no center is known on are left aside.  -1 where that leaves none, with a `Caution`.
        """
        names = federation.feature_names
        if names is None and (self.named or federation.d != len(self.features)):
            raise InputError(
                f"new points have {federation.d} columns without names: columns are matched by name. Name "
                "them (Party.features, or feature_names)."
            )
        labels = [self._of(party, names) for party in federation.parties]
        lost = {
            p.name: n
            for p, own in zip(federation.parties, labels, strict=True)
            if (n := int((own < 0).sum()))
        }
        if lost:
            shown = ", ".join(f"{n} of {name}" for name, n in list(lost.items())[:6])
            warnings.warn(
                f"{sum(lost.values())} new points are labeled -1 ({shown}): they share no feature with any "
                "center, or lack of every center some feature that they have.",
                Caution,
                stacklevel=4,
            )
        return labels

    def _of(self, party: Party, names: tuple[str, ...] | None) -> Array:
        at, known = self.own.get(party.name, self.shared)
        columns = party.features or names or self.features
        place = {name: i for i, name in enumerate(columns)}
        common = [
            (i, place[self.features[f]]) for i, f in enumerate(at.tolist()) if self.features[f] in place
        ]
        if not common:
            return np.full(party.points.shape[0], -1, np.int32)
        here, there = (np.array(side) for side in zip(*common, strict=True))
        return known.label(party.read()[:, there], here, f"client {party.name!r}")
