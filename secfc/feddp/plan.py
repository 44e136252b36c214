"""The plan of a FedDP-KMeans run: everything public, and what every step releases at what noise.

Made of public facts and the server's public points only, so that over-budget and unsupported runs are refused
before any client's data is touched.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from field.arrays import Array
from field.cached import cached_property
from secfc.errors import InputError
from secfc.feddp.messages import MEAN, SHELLS
from secfc.feddp.noise import GaussianStep, HonestCounts, Noise, NoisePlacement
from secfc.feddp.starts import Cones, FedDPInit, Start, Votes
from secfc.feddp.statistics import (
    MAX_REACH,
    MAX_ROWS,
    PLAIN,
    SYMMETRIC,
    UNIT,
    advantages_sensitivity,
    histogram_sensitivity,
    outer_sensitivity,
    sums_sensitivity,
)
from secfc.kmeans.elbow import Elbow, largest_k
from secfc.privacy.accountant import CompositionCost, gaussian_epsilon
from secfc.privacy.audit import GaussianShift
from secfc.privacy.calibration import Bound, Budget
from secfc.privacy.events import Composed, Neighbors
from secfc.privacy.mechanisms import RandomizedResponse
from secfc.roles.description import LOCAL, DescribedPlan, RunTerms
from secfc.roles.exchange import PartyId
from secfc.secure_sum.protocol import SumPlan

# --------------------------------------------------------------------------------------------------
# Variants of FedDP-KMeans as values: the paper's, ours, and every one between them.


@dataclass(frozen=True)
class Variant:
    """Differences from the FedDP-KMeans paper; all False is the paper, with the sensitivities that it needs.

    Parameters
    ----------
    centered
        Subtract the public mean of the server's points before clipping.
    symmetric
        Add symmetric noise to the outer product, a factor sqrt(2) smaller off the diagonal.  At client level
        the trace is left out of what is clipped.
    gaussian
        Add Gaussian noise to histograms and counts too, and calibrate all steps as one mechanism.
    joint
        Release sums and counts as one vector with one noise.  At client level they replace means of means.
    chosen
        Spend `CHOICE` of the budget to ask clients, after FedDP-Init's weights, whether its centers are
        nearer to their points than those of k-means of the server's points alone; start from the latter
        without evidence.
    residuals
        Sum differences to the weighted means of the server's points, which are shorter than points.
    cleaned
        Drop weights within the noise before clustering the server's points, or merge them where their sum
        exceeds the noise.
    shrunk
        Shrink centers towards those means as far as the noise explains the distance (Stein).
    quantile
        Quantile of the norms of public points at which rows are clipped, in (0, 1].
    residual_quantile
        Quantile of the residuals of proxies at which residuals of rows are clipped.  None minimizes the
        predicted error from noise and clipping (`estimates.clipping_error`).
    client_quantile
        Quantile of the norms of simulated clients' statistics at which those are clipped.
    count
        Unit of counts in joint vectors, as a multiple of the bound on rows.
    strong
        Weights below this many standard deviations of the noise are dropped.
    merged
        Most points per cluster into which the server's points are merged, so that each stands for more points
        than noise; None merges none.
    directions
        Most directions per cluster that are kept of the outer product, at least one, as far as they exceed
        the noise.
    """

    centered: bool = True
    symmetric: bool = True
    gaussian: bool = True
    joint: bool = True
    chosen: bool = True
    residuals: bool = True
    cleaned: bool = True
    shrunk: bool = True
    quantile: float = 0.9
    residual_quantile: float | None = None
    client_quantile: float = 0.5
    count: float = 0.1
    strong: float = 3.0
    merged: int | None = 30
    directions: int = 2

    def __post_init__(self) -> None:
        if self.joint and not self.gaussian:
            raise InputError("joint=True with gaussian=False: one vector has one noise. Set gaussian=True.")
        if self.chosen and not self.gaussian:
            raise InputError(
                "chosen=True with gaussian=False: choices have Gaussian noise. Set chosen=False."
            )
        for name in ("quantile", "residual_quantile", "client_quantile"):
            value = getattr(self, name)
            if value is not None and not 0 < value <= 1:
                raise InputError(f"{name}={value} must lie in (0, 1]")
        if self.directions < 1:
            raise InputError(f"directions={self.directions}: at least one a cluster")
        if self.merged is not None and self.merged < 2:
            raise InputError(f"merged={self.merged}: at least two points a cluster, or None for all")
        for name in ("count", "strong"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name}={getattr(self, name)} must be positive")


OURS = Variant()
# The bound on rows is the radius of the server's points (sec. 5.1); nothing is dropped, drawn or joined.
PAPER = Variant(
    centered=False, symmetric=False, gaussian=False, joint=False, chosen=False, residuals=False,
    cleaned=False, shrunk=False, quantile=1.0, client_quantile=0.9, merged=None, directions=1,
)  # fmt: skip
# Shares of the sum of all epsilons for outer product, weights, sums, counts, by level: App. G.4.
PAPER_SHARES = {"data point": (0.2, 0.2, 0.45, 0.15), "client": (0.35, 0.1, 0.45, 0.1)}
# Weights of the steps of one Gaussian mechanism, for outer product, weights, sums and counts.
OUR_WEIGHTS = {"data point": (0.25, 0.05, 0.7), "client": (0.35, 0.1, 0.55)}
# With steps of FedDP-Lloyds behind, whose sums decide: those of step 3 need only tell clusters apart.  From
# these totals on, by level: the smaller the budget, the more the start is in want of it.
OUR_WEIGHTS_BEFORE_LLOYD = {
    "data point": (
        (0.0, (0.22, 0.05, 0.12, 0.61)),
        (0.3, (0.1, 0.05, 0.12, 0.73)),
        (0.5, (0.08, 0.04, 0.1, 0.78)),
        (1.0, (0.06, 0.03, 0.08, 0.83)),
    ),
    "client": ((0.0, (0.2, 0.06, 0.12, 0.62)), (1.0, (0.12, 0.06, 0.12, 0.7))),
}
# The share of a choice among starts, and of each question for a split after it, taken off the others' alike.
CHOICE, SPLIT = 0.02, 0.01


# --------------------------------------------------------------------------------------------------


# Starts to choose from: what FedDP-Init found, and the server's points alone; between them, if any, splits.
STARTS = 2
# Along a line: on either side of 0, each nearer by sqrt(2) than the next, down to 1/128 of the radius.
PLACES = 30
# About a center, each smaller by sqrt(2) than the next: down to 1/1448 of the radius.
SHELLS_ABOUT = 22


def choice_shares(variant: Variant, unit: str, steps: int, least: int) -> tuple[float, ...]:
    """What part of the budget each choice has: of the start, then of splits, where rows are protected.

    least: of the numbers of clusters and of features, of both of which a split takes two.
    """
    if not variant.chosen:
        return ()
    return CHOICE, *(() if unit == "client" or least < 2 else (SPLIT,) * (steps - 1))


@dataclass(frozen=True)
class NoisePart:
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
class StepNoises:
    """The noise of every step; None where a step does not happen, or counts are in one vector with sums.

    lines: of votes along lines.  boxes: of the sum of all rows and of shells about
    it, in turn.  lloyd: of the steps of FedDP-Lloyds, those of `Cones` ahead of the others.  splits: of the
    choice between centers and those with one cluster split, before each of these but the first.
    """

    outer: Noise | None
    weights: Noise | None
    choice: Noise | None
    sums: Noise | None
    counts: Noise | None
    lloyd: tuple[tuple[Noise, Noise | None], ...]
    lines: Noise | None = None
    boxes: tuple[Noise, ...] = ()
    splits: tuple[Noise, ...] = ()

    def group(self, number: int) -> tuple[Noise | None, ...]:
        """Noise of step 3 (number 0) or of a step of FedDP-Lloyds, for sums and for separate counts."""
        sums, counts = self.lloyd[number - 1] if number else (self.sums, self.counts)
        return (sums,) if counts is None else (sums, counts)


@dataclass(frozen=True, eq=False)
class FedDPPlan(DescribedPlan):
    """Everything public.

    points: (s, d) of the server, about the origin (d,); (0, d) where it holds none (`Votes`).
    scale: integer steps per data unit.
    radius: where rows are clipped, about the origin.  outer_reach: where they are for the outer product, in
    steps.  outer_bound: at client level, where a
    client's outer product is clipped, in steps squared.  rows: how many rows a simulated client has.
    session: 32 bytes that no other run uses.  budget, event: of the sums; labels: what clients release of
    their labels beside them, None for nothing.
    """

    sums: SumPlan
    k: int | Elbow
    d: int
    points: Array
    origin: Array
    scale: float
    radius: Bound
    outer_reach: int
    outer_bound: int
    rows: int
    variant: Variant
    neighbors: Neighbors
    noises: StepNoises
    placement: NoisePlacement
    budget: Budget
    start: Start
    session: bytes
    labels: RandomizedResponse | None = None
    terms: RunTerms | None = field(default=None, metadata=LOCAL)  # described beside it

    def __post_init__(self) -> None:
        if not self.radius.private:
            self.budget.check(self.event)

    @property
    def total(self) -> Budget:
        """For everything: sums, and labels by plain addition."""
        more = 0.0 if self.labels is None else self.labels.epsilon
        return replace(self.budget, epsilon=self.budget.epsilon + more)

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
        return largest_k(self.k)

    @property
    def weighted_count(self) -> int:
        """How many points of the server, or means of merged ones, or candidates are weighted."""
        if isinstance(self.start, Votes):
            return (self.start.candidates or 1) * self.most
        merged = self.variant.merged
        return len(self.points) if merged is None else min(len(self.points), merged * self.most)

    @property
    def doubts(self) -> bool:
        """Whether clusters are compared with one center in the end, where the server has no points."""
        return isinstance(self.start, Votes | Cones) and self.noises.choice is not None

    @property
    def repeats(self) -> bool:
        """Whether a question of FedDP-Lloyds is asked again where centers moved by no more than noise."""
        return isinstance(self.start, FedDPInit) and self.variant.joint

    @property
    def lines(self) -> int:
        """How many histograms along lines are asked for before anything else."""
        return self.start.lines or 0 if isinstance(self.start, Votes | Cones) else 0

    @property
    def ahead(self) -> int:
        """How many steps of FedDP-Lloyds the start takes: of `Cones` that for the mean, and its own."""
        return 1 + self.start.steps if isinstance(self.start, Cones) else 0

    def most_groups(self, number: int) -> int:
        """How many groups step 3 (number 0) or a step of FedDP-Lloyds may have at most."""
        if isinstance(self.start, Cones) and 1 < number <= self.ahead:
            return self.start.groups * self.most
        return self.most

    @property
    def by_client(self) -> bool:
        return self.neighbors.unit == "client"

    def rows_at(self, client: PartyId) -> int | None:
        """How many rows of a person a client adds at most; None where rows are not persons'."""
        return self.neighbors.rows_at(self.clients.index(client), len(self.clients))

    @cached_property
    def reach(self) -> int:
        """The radius in integer steps."""
        return self.radius.steps(self.scale)

    @property
    def weights(self) -> tuple[int, int]:
        """Weights of the entries of the outer product."""
        return SYMMETRIC if self.variant.symmetric else PLAIN

    def may_split(self, number: int) -> bool:
        """Whether clients may be asked for a split before this step of FedDP-Lloyds."""
        return 1 < number <= 1 + len(self.noises.splits)

    @property
    def most_starts(self) -> int:
        """Starts to choose from, at most: where rows are protected, each cluster split in two is one more."""
        return STARTS + (0 if self.by_client else self.most - 1)

    @cached_property
    def event(self) -> Composed:
        """All sums that will be released, as everybody sees them."""
        parts: list[NoisePart] = []
        if isinstance(self.start, FedDPInit):
            parts += self.outer_parts() + self.weight_parts((1,))
            if self.variant.chosen:
                parts += self.choice_parts(self.most_starts, 1, (1,))
            for number in range(len(self.noises.splits)):
                parts += self.choice_parts(max(self.most, STARTS), 1, (), number + 2)
            parts += self.group_parts(0, self.most, 1, (1, 1))
        for number in range(len(self.noises.boxes)):
            parts += self.box_parts((MEAN, SHELLS)[number % 2])
        if self.lines:
            parts += self.line_parts() * self.lines
        if isinstance(self.start, Votes):
            parts += self.weight_parts((1,)) * (self.start.rounds or 1)
        for number in range(1, len(self.noises.lloyd) + 1):
            parts += self.group_parts(number, self.most_groups(number), 1, (1, 1))
        if self.doubts:
            parts += self.choice_parts(STARTS, 1, ())
        honest = HonestCounts.of(self.sums)
        return Composed(tuple(self.placement.event(p.noise, p.size, honest) for p in parts))

    # What every secure sum holds; all that sensitivities depend on is public when it is asked for.

    def outer_parts(self) -> list[NoisePart]:
        """Step 1."""
        if self.by_client:
            sensitivity = float(self.outer_bound * self.neighbors.factor)
        else:
            sensitivity = outer_sensitivity(self.outer_reach, self.weights, self.neighbors)
        return [_part("outer product", self.d * (self.d + 1) // 2, sensitivity, self.noises.outer)]

    def weight_parts(self, bounds: tuple[int, ...]) -> list[NoisePart]:
        """Step 2.  bounds: where a client's histogram is clipped, in units of 1/UNIT, at client level."""
        sensitivity = (
            float(bounds[0] * self.neighbors.factor)
            if self.by_client
            else histogram_sensitivity(self.neighbors, 2 if self.variant.gaussian else 1)
        )
        what = "votes for candidates" if isinstance(self.start, Votes) else "weights of the server's points"
        return [_part(what, self.weighted_count, sensitivity, self.noises.weights)]

    def narrow(self, origin: Array, radius: float) -> FedDPPlan:
        """About another origin, within another radius, both found privately: all else is as planned."""
        scale = scale_for(radius, MAX_REACH // 2)
        bound = replace(self.radius, value=radius)
        return replace(self, origin=origin, radius=bound, scale=scale, outer_reach=bound.steps(scale))

    def box_parts(self, asks: int) -> list[NoisePart]:
        """A question about a ball: the sum of all rows and their number (MEAN), or rows in shells (SHELLS).

        A row adds to the sums of one group, or to one shell.
        """
        noise = self.noises.boxes[asks == SHELLS]
        if asks == SHELLS:
            sensitivity = histogram_sensitivity(self.neighbors)
            return [_part("rows in shells about a center", SHELLS_ABOUT, sensitivity, noise)]
        sensitivity = sums_sensitivity(self.reach, self.count_unit(self.reach), self.neighbors)
        return [_part("sum and number of all rows", self.d + 1, sensitivity, noise)]

    def line_parts(self) -> list[NoisePart]:
        """Votes for places along a line: one point has one vote, whichever line the server chose."""
        sensitivity = histogram_sensitivity(self.neighbors)
        return [_part("votes along a line", PLACES, sensitivity, self.noises.lines)]

    def choice_parts(
        self, starts: int, cap: int, bounds: tuple[int, ...], number: int = 1
    ) -> list[NoisePart]:
        """The choice among so many starts, before this step of FedDP-Lloyds.

        cap: where a row's numbers are clipped.  bounds: where a client's vector is, at client level only.
        """
        if self.may_split(number):
            sensitivity = advantages_sensitivity(cap, starts, self.neighbors)
            return [_part("choice of a split", starts - 1, sensitivity, self.noises.splits[number - 2])]
        sensitivity = (
            float(bounds[0] * self.neighbors.factor)
            if self.by_client
            else advantages_sensitivity(cap, starts, self.neighbors)
        )
        what = "choice against one center" if self.doubts else "choice of the start"
        return [_part(what, starts - 1, sensitivity, self.noises.choice)]

    def group_parts(self, number: int, k: int, reach: int, bounds: tuple[int, ...]) -> list[NoisePart]:
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
        steps = len(self.noises.lloyd)
        # Where noise is what counts all steps are one question, whose answers are put together.
        last = range(1, steps + 1) if steps and self.repeats else (steps,)
        noises = [self.noises.group(step)[0] for step in last]
        if not self.by_client or not all(isinstance(noise, GaussianStep) for noise in noises):
            return None
        inverse = math.sqrt(math.fsum(noise.deviation(1.0) ** -2 for noise in noises if noise is not None))
        return self.sums.n * inverse / (self.neighbors.factor * math.sqrt(self.most * (self.d + 1)))

    @property
    def hopeless(self) -> str | None:
        """Why the centers will be mostly noise, and what helps; None where that is not certain."""
        signal = self.signal
        if signal is None or signal >= 1:
            return None
        needed = ""
        if CompositionCost.of(self.event).only_gaussian:
            # The shift of the whole budget is in proportion to every step's 1 / multiplier.
            mu = GaussianShift.of_event(self.event).mu / signal
            needed = f"epsilon={gaussian_epsilon(mu**2, self.budget.delta):.2g}, or "
        return (
            f"the sums of {self.sums.n} clients are at most {signal:.2g} times the noise that hides one of "
            f"them, with k={self.most} clusters of d={self.d} features at epsilon={self.budget.epsilon:g}: "
            f"centers will be mostly noise, whatever the bound. Once the noise would need {needed}"
            f"{math.ceil(self.sums.n / signal)} clients; fewer clusters or features help, or protecting data "
            "points, not clients"
        )


def _part(what: str, size: int, sensitivity: float, noise: Noise | None) -> NoisePart:
    if noise is None:
        raise ValueError(f"the plan has no noise for {what}: plan the step first")
    return NoisePart(what, size, sensitivity, noise)


def scale_for(radius: float, most: int) -> float:
    """The power of two that makes the radius more than `most`/2 and at most `most` integer steps."""
    return math.ldexp(1.0, math.floor(math.log2(most / radius)))


def largest_number(plan: FedDPPlan, initial: bool) -> int:
    """No number that a client adds to a sum exceeds this."""
    # MAX_ROWS rows add at most the square of their reach to an entry of the outer product, times its weight,
    # and at most their reach, or UNIT, to one of sums or histograms.
    rows = MAX_ROWS * max(UNIT, plan.reach, max(plan.weights) * plan.reach**2)
    if not plan.placement.server_view and initial:
        # Noise inside the shares: 40 of its standard deviations are exceeded with probability below 2**-1000.
        parts = plan.outer_parts() + ([] if plan.by_client else plan.weight_parts((1,)))
        most = math.ceil(40 * max(part.deviation for part in parts))
        # A spare comes to what is added, in a layer of its own.
        rows += most * (1 + plan.placement.shares_spare(HonestCounts.of(plan.sums)))
    return rows
