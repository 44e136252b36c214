"""The plan of a FedDP-KMeans run: everything public, and what every step releases at what noise.

Made of public facts and the server's public points only, so that over-budget and unsupported runs are refused
before any client's data is touched.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from secfc.feddp.noise import Gaussian, Honest, Noise, Placement
from secfc.feddp.starts import Cones, FedDPInit, Start, Votes
from secfc.feddp.statistics import (
    PLAIN,
    SYMMETRIC,
    UNIT,
    advantages_sensitivity,
    histogram_sensitivity,
    outer_sensitivity,
    sums_sensitivity,
)
from secfc.feddp.variant import Variant
from secfc.lloyd.elbow import Elbow, largest
from secfc.privacy.accountant import Cost, gaussian_epsilon
from secfc.privacy.bounds import Bound
from secfc.privacy.calibration import Budget
from secfc.privacy.events import Composed
from secfc.privacy.neighbors import Neighbors
from secfc.privacy.tradeoff import Shift
from secfc.roles.description import LOCAL, Terms, described, digest_of
from secfc.roles.exchange import PartyId
from secfc.sums import SumPlan

Array = NDArray[Any]


# Starts to choose from: what FedDP-Init found, and the server's points alone.
STARTS = 2
# Along a line: on either side of 0, each nearer by sqrt(2) than the next, down to 1/128 of the radius.
PLACES = 30


@dataclass(frozen=True)
class Part:
    """A stretch of a summed vector with a noise of its own."""

    what: str
    size: int
    sensitivity: float
    noise: Noise

    @property
    def deviation(self) -> float:
        """The standard deviation of its noise, in steps of the integers."""
        return self.noise.deviation(self.sensitivity)


@dataclass(frozen=True)
class Noises:
    """The noise of every step; None where a step does not happen, or counts are in one vector with sums.

    lines: of votes along lines.  lloyd: of the steps of FedDP-Lloyds, those of `Cones` ahead of the others.
    """

    outer: Noise | None
    weights: Noise | None
    choice: Noise | None
    sums: Noise | None
    counts: Noise | None
    lloyd: tuple[tuple[Noise, Noise | None], ...]
    lines: Noise | None = None

    def group(self, number: int) -> tuple[Noise | None, ...]:
        """Of step 3 (number 0), or of a step of FedDP-Lloyds: for sums, and for counts on their own."""
        sums, counts = self.lloyd[number - 1] if number else (self.sums, self.counts)
        return (sums,) if counts is None else (sums, counts)


@dataclass(frozen=True, eq=False)
class FedDPPlan:
    """Everything public.

    points: (s, d) of the server, about the origin (d,); (0, d) where it holds none (`Votes`).
    scale: integer steps per data unit.
    radius: where rows are clipped in the first step, about the origin.  outer_bound: at client level, where a
    client's outer product is clipped, in steps squared.  rows: how many rows a simulated client has.
    session: 32 bytes that no other run uses.
    """

    sums: SumPlan
    k: int | Elbow
    d: int
    points: Array
    origin: Array
    scale: float
    radius: Bound
    outer_bound: int
    rows: int
    variant: Variant
    neighbors: Neighbors
    noises: Noises
    placement: Placement
    budget: Budget
    start: Start
    session: bytes
    terms: Terms | None = field(default=None, metadata=LOCAL)  # described beside it

    def __post_init__(self) -> None:
        if not self.radius.private:
            self.budget.check(self.event)

    @property
    def clients(self) -> tuple[PartyId, ...]:
        return self.sums.clients

    @property
    def computing(self) -> tuple[PartyId, ...]:
        """Who holds shares: the committee of the sums."""
        return self.sums.committee

    @property
    def most(self) -> int:
        """The largest k that may come of it: directions that points are projected to."""
        return largest(self.k)

    @property
    def bins(self) -> int:
        """How many points of the server, or means of merged ones, or candidates are weighted."""
        if isinstance(self.start, Votes):
            return (self.start.candidates or 1) * self.most
        merged = self.variant.merged
        return len(self.points) if merged is None else min(len(self.points), merged * self.most)

    @property
    def lines(self) -> int:
        """How many histograms along lines are asked for before anything else."""
        return self.start.lines or 0 if isinstance(self.start, Votes | Cones) else 0

    @property
    def ahead(self) -> int:
        """How many steps of FedDP-Lloyds the start takes: of `Cones` that for the mean, and its own."""
        return 1 + self.start.steps if isinstance(self.start, Cones) else 0

    def widest(self, number: int) -> int:
        """How many groups step 3 (number 0) or a step of FedDP-Lloyds may have at most."""
        if isinstance(self.start, Cones) and 1 < number <= self.ahead:
            return self.start.groups * self.most
        return self.most

    @property
    def by_client(self) -> bool:
        return self.neighbors.unit == "client"

    @cached_property
    def reach(self) -> int:
        """The radius in integer steps."""
        return self.radius.steps(self.scale)

    @property
    def weights(self) -> tuple[int, int]:
        """Of the entries of the outer product."""
        return SYMMETRIC if self.variant.symmetric else PLAIN

    @cached_property
    def event(self) -> Composed:
        """All that will be released, as everybody sees it."""
        parts: list[Part] = []
        if isinstance(self.start, FedDPInit):
            parts += self.outer_parts() + self.weight_parts((1,))
            if self.variant.chosen:
                parts += self.choice_parts(STARTS, 1, (1,))
            parts += self.group_parts(0, self.most, 1, (1, 1))
        if self.lines:
            parts += self.line_parts() * self.lines
        if isinstance(self.start, Votes):
            parts += self.weight_parts((1,)) * (self.start.rounds or 1)
        for number in range(1, len(self.noises.lloyd) + 1):
            parts += self.group_parts(number, self.widest(number), 1, (1, 1))
        honest = Honest.of(self.sums)
        return Composed(tuple(self.placement.event(p.noise, p.size, honest) for p in parts))

    # What every secure sum holds; all that sensitivities depend on is public when it is asked for.

    def outer_parts(self) -> list[Part]:
        """Step 1."""
        if self.by_client:
            sensitivity = float(self.outer_bound * self.neighbors.factor)
        else:
            sensitivity = outer_sensitivity(self.reach, self.weights, self.neighbors)
        return [_part("outer product", self.d * (self.d + 1) // 2, sensitivity, self.noises.outer)]

    def weight_parts(self, bounds: tuple[int, ...]) -> list[Part]:
        """Step 2.  bounds: where a client's histogram is clipped, in units of 1/UNIT, at client level."""
        sensitivity = (
            float(bounds[0] * self.neighbors.factor)
            if self.by_client
            else histogram_sensitivity(self.neighbors, 2 if self.variant.gaussian else 1)
        )
        what = "votes for candidates" if isinstance(self.start, Votes) else "weights of the server's points"
        return [_part(what, self.bins, sensitivity, self.noises.weights)]

    def line_parts(self) -> list[Part]:
        """Votes for places along a line: one point has one vote, whichever line the server chose."""
        sensitivity = histogram_sensitivity(self.neighbors)
        return [_part("votes along a line", PLACES, sensitivity, self.noises.lines)]

    def choice_parts(self, starts: int, cap: int, bounds: tuple[int, ...]) -> list[Part]:
        """The choice among so many starts.

        cap: where a row's numbers are clipped.  bounds: where a client's vector is, at client level only.
        """
        sensitivity = (
            float(bounds[0] * self.neighbors.factor)
            if self.by_client
            else advantages_sensitivity(cap, starts, self.neighbors)
        )
        return [_part("choice of the start", starts - 1, sensitivity, self.noises.choice)]

    def group_parts(self, number: int, k: int, reach: int, bounds: tuple[int, ...]) -> list[Part]:
        """Step 3 (number 0) and the steps of FedDP-Lloyds.

        reach: where rows are clipped about their anchors.  bounds: where a client's vectors are, at client
        level only.
        """
        noises = self.noises.group(number)
        name = f" of step {number} of FedDP-Lloyds" if number else ""
        if self.variant.joint:
            one = (
                float(bounds[0] * self.neighbors.factor)
                if self.by_client
                else sums_sensitivity(reach, self.count_unit(reach), self.neighbors)
            )
            return [_part("sums and counts" + name, k * (self.d + 1), one, noises[0])]
        if self.by_client:
            first, second = (float(bound * self.neighbors.factor) for bound in bounds)
        else:
            first = sums_sensitivity(reach, 0, self.neighbors)
            second = histogram_sensitivity(self.neighbors, 2 if self.variant.gaussian else 1)
        what = ("means", "non-empty clusters") if self.by_client else ("sums", "counts")
        return [
            _part(what[0] + name, k * self.d, first, noises[0]),
            _part(what[1] + name, k, second, noises[1]),
        ]

    def count_unit(self, reach: int) -> int:
        """What one point counts beside sums of rows of norm <= reach: UNIT in a vector of its own."""
        return max(1, round(self.variant.count * reach)) if self.variant.joint else UNIT

    @property
    def signal(self) -> float | None:
        """How many times the noise the sums of the last step are at most, at client level; else None.

        n vectors clipped to norm C sum to norm n C at most, and noise of z C on k (d + 1) numbers has norm
        z C sqrt(k (d + 1)): no bound C is in their ratio n / (z sqrt(k (d + 1))).
        """
        noise = self.noises.group(len(self.noises.lloyd))[0]
        if not self.by_client or not isinstance(noise, Gaussian):
            return None
        return self.sums.n / (noise.multiplier * self.neighbors.factor * math.sqrt(self.most * (self.d + 1)))

    @property
    def hopeless(self) -> str | None:
        """Why the centers will be mostly noise, and what helps; None where that is not certain."""
        signal = self.signal
        if signal is None or signal >= 1:
            return None
        needed = ""
        if Cost.of(self.event).only_gaussian:
            # The shift of the whole budget is in proportion to every step's 1 / multiplier.
            mu = Shift.of_event(self.event).mu / signal
            needed = f"epsilon={gaussian_epsilon(mu**2, self.budget.delta):.2g}, or "
        return (
            f"the sums of {self.sums.n} clients are at most {signal:.2g} times the noise that hides one of "
            f"them, with k={self.most} clusters of d={self.d} features at epsilon={self.budget.epsilon:g}: "
            f"centers will be mostly noise, whatever the bound. Once the noise would need {needed}"
            f"{math.ceil(self.sums.n / signal)} clients; fewer clusters or features help, or protecting data "
            'points instead (neighbors=Neighbors(unit="data point"))'
        )

    @cached_property
    def description(self) -> bytes:
        """All that is public, fact by fact, which parties compare (`secfc.roles.description`)."""
        return described(self, self.terms)

    def digest(self) -> bytes:
        """32 bytes that agree exactly when two parties hold the same public parameters."""
        return digest_of(self.description)


def _part(what: str, size: int, sensitivity: float, noise: Noise | None) -> Part:
    if noise is None:
        raise ValueError(f"the plan has no noise for {what}: plan the step first")
    return Part(what, size, sensitivity, noise)


def scale_for(radius: float, most: int) -> float:
    """The power of two that makes the radius more than `most`/2 and at most `most` integer steps."""
    return math.ldexp(1.0, math.floor(math.log2(most / radius)))
