"""Differential privacy for SecFC: noise on decoded distances and on opened centers.

`NoiseInShares` protects against the server too: every client deals shares of its own noise before it replies,
and what the server decodes has the noise of all of them on it.

Claimed is a total (epsilon, delta) for everything that follows from the labels of all iterations, and the
centers if they are opened.  The clusters that distances are measured to are the previous release, so
iterations compose.  All questions that a run may ask are paid for, also if it converges earlier.

What it means, honestly: one point moves its own k distances by as much as they can differ at all, so noise
of that size is nearly local privacy.  At small epsilon the assignments are near random; that is a property
of releasing distances, not of this code.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from field.ring.quantize import Quantizer
from secfc.coded.parameters import select_workers
from secfc.coded.plan import CodedPlan, RowLayout
from secfc.data.inputs import REAL, check_fields, instance_of
from secfc.disclosure.noise.noise import REACH, Noise, unit_parts
from secfc.errors import Caution, InputError, PrivacyError
from secfc.kmeans.starts import GivenLabels, RandomLabels, Start
from secfc.privacy.calibration import Bound, Budget, delta_warning
from secfc.privacy.events import Event, Neighbors, NonPrivate
from secfc.privacy.ledger import EVERYBODY, Ledger

Array = NDArray[Any]


@dataclass(frozen=True)
class ReleaseCounts:
    """What a run releases at most: so many questions about distances, and the centers or not, 1 or 0."""

    n: int
    t: int
    k: int
    questions: int
    centers: int

    @classmethod
    def of(cls, plan: Any) -> ReleaseCounts:
        """What a run under this plan releases at most."""
        code = plan.code
        return cls(code.n, code.t, plan.k, count_queries(plan), int(bool(plan.revealing)))


def count_queries(plan: Any) -> int:
    """How many clusterings distances are measured to: every iteration of every start, and its cost."""
    return int(plan.n_init * (plan.max_iter + 1))


KINDS = {
    "budget": instance_of(Budget, "Budget(epsilon=1.0, delta=1e-6)"),
    "radius": instance_of(Bound, "Bound.given(8.0)"),
    "neighbors": instance_of(Neighbors, 'Neighbors("replace")'),
    "center_share": REAL,
}


@dataclass(frozen=True)
class BudgetedPolicy(ABC):
    """The common part: a budget for a run, and what it takes to fit one."""

    budget: Budget
    radius: Bound
    neighbors: Neighbors = field(default_factory=lambda: Neighbors("replace"))
    center_share: float = 0.1

    start: ClassVar[Start] = RandomLabels()  # others measure on the way, at a price
    sharing: ClassVar[None] = None

    def __post_init__(self) -> None:
        check_fields(self, KINDS)
        if (why := delta_warning(self.budget.delta)) is not None:
            raise InputError(why)
        if not 0 < self.center_share < 1:
            raise InputError(f"center_share={self.center_share} must be in (0, 1): a part of the budget")

    def committee_choice(self, plan: CodedPlan) -> None:
        """No step asks in two questions."""
        return None

    @abstractmethod
    def contributors(self, n: int) -> int:
        """How many parties add noise."""

    @abstractmethod
    def noise(self, steps: ReleaseCounts, radius: int) -> Noise:
        """What each of them adds."""

    @abstractmethod
    def released(self, plan: CodedPlan) -> Event:
        """All that a run releases at most."""

    def steps(self, plan: CodedPlan) -> ReleaseCounts:
        """What a run releases at most."""
        return ReleaseCounts.of(plan)

    def weights(self, steps: ReleaseCounts) -> tuple[float, ...]:
        """Shares of the budget: of every question, and of the centers if they are opened."""
        if not steps.centers:
            return (1 / steps.questions,) * steps.questions
        return ((1 - self.center_share) / steps.questions,) * steps.questions + (self.center_share,)

    def clip_quantizer(self, quantizer: Quantizer) -> Quantizer:
        return replace(quantizer, radius=self.radius.steps(quantizer.scale))

    def headroom(self, way: Any, public: Any, layout: RowLayout) -> int:
        if public.derived:
            raise PrivacyError(
                "the bound on absolute values would be read off the private data, which no noise protects: "
                "give fit a bound that you know, such as the radius"
            )
        computing = select_workers(way.runtime.workers, public.clients)
        centers = int(bool(way.release.reveal_centers))
        steps = ReleaseCounts(len(computing), way.threshold.t, way.k, count_queries(way), centers)
        rows = 1 if self.neighbors.unit == "data point" else max(public.counts)
        parties = self.contributors(steps.n)
        widest = self.noise(steps, 1).largest(layout.m, steps.k, rows)
        # D <= 4 B**2 and 2 REACH sigma of every contributor, against d (2 eta)**2; B / eta is at most
        # radius / bound, and what ceil adds is below one step for each.
        wide = (self.radius.value / public.bound) ** 2 * (1 + REACH * widest * parties / 2) / public.d
        return int(math.ceil(wide * (1 + 1e-9)) + 1 + parties)

    def stretch_headroom(self, headroom: int, stretch: int) -> int:
        # Noise is as large as honest rows ask for; only the distances grow.
        return headroom + stretch**2

    def check(self, plan: CodedPlan) -> None:
        """Raises PrivacyError or ValueError for a run that this noise does not cover."""
        if not isinstance(plan.init, RandomLabels | GivenLabels):
            raise PrivacyError(
                f"init={type(plan.init).__name__} measures distances of its own, which the budget does not "
                "cover: start from RandomLabels or from GivenLabels that are public"
            )
        labels = np.zeros(plan.m, np.int32)
        unit_parts(self.neighbors, plan.layout, labels, plan.k)  # refuses neighbors that cannot be protected
        self.budget.check(self.released(plan))
        if (why := self.hopeless(plan)) is not None:
            warnings.warn(why, Caution, stacklevel=2)
        steps = self.steps(plan)
        noise = self.noise(steps, plan.radius)
        if steps.centers:
            one = noise.on_sums(plan.layout, labels, plan.k, plan.d)
            reach = plan.largest * plan.proven + self.contributors(steps.n) * REACH * one
            if 2 * reach >= plan.code.basis.modulus:
                raise InputError("noisy cluster sums do not fit the modulus: lower the scale")

    def blurred(self, plan: CodedPlan) -> tuple[float, float]:
        """What one squared distance carries, and can be, for clusters of equal sizes: in squared data units.

        The standard deviation of the noise of all contributors together, and the square of twice the radius.
        Both are public before anything is asked.
        """
        labels = (np.arange(plan.m) % plan.k).astype(np.int32)
        steps = self.steps(plan)
        one = float(self.noise(steps, plan.radius).on_distances(plan.layout, labels, plan.k))
        every = math.sqrt(self.contributors(steps.n)) * one / float(plan.scale) ** 2
        return every, (2 * self.radius.value) ** 2

    def hopeless(self, plan: CodedPlan) -> str | None:
        """Why labels will be mostly noise, and what helps; None where the noise is below every distance."""
        noise, most = self.blurred(plan)
        if noise <= most:
            return None
        return (
            f"noise of {noise:.3g} lies on every squared distance, and with radius={self.radius.value:g} "
            f"none exceeds {most:.3g}: labels will be mostly noise at epsilon={self.budget.epsilon:g} and "
            f"{self.steps(plan).questions} questions. What hides a point's own distances must be as wide as "
            "they are: FedDPKMeans releases sums over all points for the same budget; a larger epsilon or "
            "fewer steps (max_iter) help"
        )

    def _ledger(self, plan: CodedPlan, how: str) -> Ledger:
        centers = " and opened centers" if plan.revealing else ""
        event = NonPrivate() if self.radius.private else self.released(plan)
        what = f"labels of at most {self.steps(plan).questions} iterations{centers}, {how}"
        return Ledger(self.neighbors).record(event, what=what, seen_by=EVERYBODY)
