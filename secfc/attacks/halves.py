"""Membership on any data: many runs on random halves, each attacked with what the others tell.

No law of real data is known, so the attacker has it from shadow runs: in every run a coin keeps half of each
client's rows.  The rows kept are members and the others are not, of one law and of the same client, whatever
the data are; every other run is a shadow of the one that is attacked (Carlini et al., Membership inference
attacks from first principles, 2022).  That is a strong attacker: it knows the pool of rows that halves come
from, and the algorithm, and sees what the run opens.  The mean of half a pool varies half as much as
that of as many points of the law, so its shift is up to sqrt(2 d / s) instead of sqrt(d / s).

The control are the same scores against coins that decided nothing, where nothing must be found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secfc.attacks.membership import Law, from_centers, shadow
from secfc.attacks.views import View
from secfc.data.federation import Federation

Array = NDArray[Any]

LEAST_RUNS = 4


@dataclass(frozen=True, eq=False, repr=False)
class Opened:
    """What everybody sees of a run whose centers are opened: these (k, d), NaN where one stays closed.

    sizes: points of each cluster (k,), as labels tell them, or as many as an attacker may expect.
    """

    centers: Array
    sizes: Array

    @classmethod
    def of(cls, view: View, expected: float) -> Opened:
        """What this view has of the output.  expected: points a cluster, where sizes are not told.

        Raises ValueError where no centers were opened, and for a coalition that holds all points.
        """
        if view.parties and set(view.plan.clients) <= set(view.parties):
            raise ValueError(
                "the coalition holds all points itself: it knows who is in, nothing is to attack"
            )
        output = view.output
        if output is None or output.centers is None or not np.isfinite(output.centers).any():
            raise ValueError(
                "no centers were opened: nothing to attack but the labels, which tell at most the sizes of "
                "clusters. Open them (reveal_centers=True), or attack an algorithm that does"
            )
        sizes = np.full(len(output.centers), expected) if output.sizes is None else output.sizes
        return cls(output.centers, sizes)

    def __repr__(self) -> str:
        return f"Opened(centers={self.centers.shape})"


def coin(federation: Federation, rng: np.random.Generator) -> tuple[Array, ...]:
    """Which rows of every client are kept, half of them: one (m_j,) bool array a client.

    Of a client with an odd number of rows the larger half.
    """
    kept = []
    for count in federation.counts:
        mine = np.zeros(count, bool)
        mine[rng.permutation(count)[: (count + 1) // 2]] = True
        kept.append(mine)
    return tuple(kept)


def half(federation: Federation, kept: Sequence[Array]) -> Federation:
    """The federation of the rows that were kept, without ids and truth."""
    parties = tuple(
        replace(party, points=party.read()[mine], ids=None, truth=None)
        for party, mine in zip(federation.parties, kept, strict=True)
    )
    return replace(federation, parties=parties)


def scores(opened: Sequence[Opened], targets: Array) -> list[Array]:
    """Scores (p,) of all targets (p, d) in every run, each by the law that the other runs tell.

    A target is in half of them.  Raises ValueError for fewer than four runs, or where nothing was opened.
    """
    if len(opened) < LEAST_RUNS:
        raise ValueError(
            f"{len(opened)} runs: at least {LEAST_RUNS} are needed, as all but one are shadows of that one"
        )
    if not all(np.isfinite(one.centers).any() for one in opened):
        raise ValueError("no centers were opened: nothing to attack")
    found = []
    for number, one in enumerate(opened):
        law = law_of([*opened[:number], *opened[number + 1 :]])
        found.append(from_centers(one.centers, one.sizes, law, targets, held=0.5))
    return found


def law_of(opened: Sequence[Opened]) -> Law:
    """The law that an attacker has from these runs."""
    return shadow([one.centers for one in opened], [one.sizes for one in opened])
