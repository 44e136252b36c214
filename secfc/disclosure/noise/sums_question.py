"""What a step of noisy sums asks: about which centers, within which radius, and under whose noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from field.arrays import Array
from field.compare.shells import shell_sensitivity
from field.ring.quantize import squared_norms
from secfc.coded.plan import CodedPlan
from secfc.coded.queries import Query
from secfc.disclosure.compare.session import ComparisonSession
from secfc.errors import FaultyServer
from secfc.roles.exchange import SERVER

LEAST_RADIUS = 1 << 4  # steps, of shells: a step is then little beside it
GROUPS = 2  # a cluster, that questions may be about


def count_unit(radius: int, d: int) -> int:
    """What a row's weight counts beside the sum of rows within the radius: a whole number of steps.

    Centers that move by .3 of the radius have the least noise if its square is .3 / sqrt(d) of the radius's.
    """
    return max(1, round(radius * math.sqrt(0.3 / math.sqrt(d))))


@dataclass(frozen=True, eq=False, repr=False)
class SumsQuestion:
    """What sums are opened: their number, about centers (k, d) and a radius in steps, and who deals noise.

    dealers: numbers of clients.
    """

    number: int
    radius: int
    centers: Array
    dealers: tuple[int, ...]

    @classmethod
    def of(cls, plan: CodedPlan, question: Query) -> SumsQuestion:
        """What a question asks.  Raises FaultyServer for what no plan asks."""
        k, d, n, detail = question.k, plan.d, len(plan.clients), question.detail
        if k > GROUPS * plan.k or len(detail) != 2 + k * d + n or not np.isin(detail[-n:], (0, 1)).all():
            raise FaultyServer(SERVER, f"asked for sums of other than d={d} features, or n={n} clients")
        centers, most = detail[2:-n].reshape(k, d), 2 * plan.radius
        if (squared_norms(centers) > most**2).any() or not LEAST_RADIUS <= detail[1] <= most:
            raise FaultyServer(
                SERVER, "asked for sums about centers, or within a radius, that rows do not have"
            )
        return cls(int(detail[0]), int(detail[1]), centers, tuple(np.flatnonzero(detail[-n:]).tolist()))

    def detail(self, n: int) -> Array:
        """As `Subject` has it."""
        dealing = np.isin(np.arange(n), self.dealers)
        return np.concatenate([[self.number, self.radius], self.centers.reshape(-1), dealing]).astype(
            np.int64
        )

    @property
    def unit(self) -> int:
        """See `count_unit`."""
        return count_unit(self.radius, self.centers.shape[1])

    @property
    def sensitivity(self) -> float:
        """In steps, see `field.compare.shells.shell_sensitivity`."""
        return shell_sensitivity(self.radius, self.unit)

    def match(self, plan: CodedPlan, question: Query, seating: Any) -> ComparisonSession:
        """Who compares, and what: centers are the sums of clusters of size 1."""
        return ComparisonSession(plan, question, np.ones(question.k, np.int64), seating)


def opened_numbers(plan: CodedPlan, values: Array) -> Array:
    """Integers (k, d + 1), sums and weights, of residues (lanes, ell, k, width + 1) at data points."""
    whole = plan.code.basis.lift_signed(values)
    sums = whole[..., :-1].swapaxes(0, 1).reshape(whole.shape[1], -1)[:, : plan.d]
    return np.concatenate([sums, whole[0, :, -1:]], axis=1)
