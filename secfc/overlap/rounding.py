"""A site judges whether rounding leaves its own columns enough steps, before it says anything."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from secfc.data.party import Party
from secfc.data.resolution import FEW, FINE, Coarse, resolution, tell
from secfc.overlap.plan import OverlapPlan

Array = NDArray[Any]


def judged(plan: OverlapPlan, party: Party, coarse: Coarse) -> Array:
    """A client's points (m_j, d_j), its columns in the order of names.

    Warns (`Caution`) below FINE steps within the spread of a feature.  Raises InputError below LEAST, unless
    `coarse` says otherwise, and for other columns than the plan's.
    """
    points = plan.columns.rows(party)
    if coarse != "allow":
        own = plan.columns.observed[plan.columns.number(party.name)]
        found = resolution([points], plan.quantizer, [plan.columns.features[f] for f in own])
        if found.coarsest < FINE:
            few = points.shape[0] < FEW
            tell(
                found, found.sentence(f"much of the data of client {party.name!r}"), "warn" if few else coarse
            )
    return points
