"""What a noise budget will cost in quality, and how it is best split: simulated before anybody is asked.

Half of the server's points stand for the server, clients are drawn from the other half, and the algorithm
itself runs on them.  Everything is made of points that the server may show, so it costs no budget; results of
runs on clients' data have no part in it, and must have none: a split that is chosen by them spends.

What it cannot know: clients that differ from the server's points, or from one another.  Where the server
holds none, clients are drawn from made-up clusters within the public radius: that says what noise costs where
rows are easy to cluster; others may lose more.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np

from field.arrays import Array
from secfc.algorithm import PublicFacts
from secfc.data.federation import Federation
from secfc.errors import Caution, InputError
from secfc.feddp.algorithm import FedDPKMeans
from secfc.feddp.plan import OUR_WEIGHTS, OURS
from secfc.feddp.starts import FedDPInit, ServerLloyds, sample_ball
from secfc.kmeans.centers import nearest_center
from secfc.logs import silence_logs
from secfc.pipeline import fit
from secfc.privacy.calibration import Bound

TRIALS, RESTARTS = 7, 5
# Shares that go to the start, over its usual ones.
TILTS = (0.6, 1.0, 1.5)


@dataclass(frozen=True)
class Split:
    """A way to spend a budget.  steps: of FedDP-Lloyds; shares: as `FedDPKMeans` has them; None: as usual.
    alone: steps begin at k-means of the server's points, so nothing is spent to find clusters.
    """

    steps: int | None = None
    shares: tuple[float, ...] | None = None
    alone: bool = False

    def of(self, algorithm: FedDPKMeans) -> FedDPKMeans:
        """The algorithm with this split."""
        start = ServerLloyds() if self.alone else algorithm.start
        return replace(algorithm, steps=self.steps, shares=self.shares, start=start)

    def __str__(self) -> str:
        if self == USUAL:
            return "as usual"
        if self.alone:
            return f"start=ServerLloyds(), steps={self.steps}"
        steps = "steps as usual" if self.steps is None else f"steps={self.steps}"
        return steps if self.shares is None else f"{steps}, shares={self.shares}"


USUAL = Split()


@dataclass(frozen=True)
class SplitTrial:
    """A split, and what its centers cost above the best ones in every simulation: .05 is 5 % more."""

    split: Split
    excess: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.excess)

    def is_better(self, other: SplitTrial) -> bool:
        """In all simulations, of which one may be none: each is of the same clients."""
        better = sum(mine < theirs for mine, theirs in zip(self.excess, other.excess, strict=True))
        return self.median < other.median and better >= len(self.excess) - 1


@dataclass(frozen=True)
class UtilityForecast:
    """tried: splits, that which was asked for first.  alone: excess of k-means of the server's points, with
    nobody asked, empty where it holds none; one: of a single center.  held_out: points that clients were
    drawn from, 0 where these were made up.
    """

    tried: tuple[SplitTrial, ...]
    alone: tuple[float, ...]
    one: tuple[float, ...]
    held_out: int

    @property
    def asked(self) -> SplitTrial:
        """The split of the algorithm as it was given."""
        return self.tried[0]

    @property
    def best(self) -> SplitTrial:
        """The split to take: the one that was asked for, unless another beats it."""
        rivals = [one for one in self.tried[1:] if one.is_better(self.asked)]
        return min(rivals, key=lambda one: one.median, default=self.asked)

    @property
    def is_worthwhile(self) -> bool:
        """Whether asking clients is better than doing without them, by a tenth at least: than k-means of the
        server's points alone, or where it holds none than a single center."""
        return self.best.median < 0.9 * median(self.alone or self.one)

    def as_object(self) -> dict[str, Any]:
        """For programs: plain values."""
        return {
            "tried": [
                {
                    "steps": one.split.steps, "shares": one.split.shares, "server_start": one.split.alone,
                    "excess": list(one.excess),
                }
                for one in self.tried
            ],
            "best": self.tried.index(self.best), "server_alone": list(self.alone),
            "one_center": list(self.one), "held_out": self.held_out,
        }  # fmt: skip


def candidate_splits(algorithm: Any) -> tuple[Split, ...]:
    """A few ways to spend the budget, by what is protected; no data has part in them.

    Raises InputError for an algorithm without a budget.
    """
    algorithm = _budgeted(algorithm)
    if algorithm.variant != OURS or not isinstance(algorithm.start, FedDPInit):
        return tuple(Split(steps) for steps in (1, 2, 3))
    outer, weights, sums = OUR_WEIGHTS[algorithm.neighbors.level]
    tilted = [Split(0, (round(tilt * outer, 3), round(tilt * weights, 3), sums)) for tilt in TILTS]
    # As usual is with three steps: so these are without, with one, and from the server's points.
    return (*tilted, Split(1), Split(1, (outer, weights, sums)), Split(1, alone=True), Split(3, alone=True))


def forecast_utility(
    algorithm: FedDPKMeans,
    public: PublicFacts,
    *,
    trials: int = TRIALS,
    others: Sequence[Split] = (),
    seed: int = 0,
    done: Callable[[int, int], None] = lambda number, total: None,
) -> UtilityForecast:
    """What the algorithm's centers will cost above the best ones, and with other splits of its budget.

    public: as a deployment has it, with server_points (s, d), s >= 4 k, or None for a way with a bound; its
    clients and their numbers of rows are simulated, rows drawn from held-out points as often as needed,
    or without points from made-up clusters.  trials: simulations, each with another half held out, or others
    made up.  others: splits to try beside that of the algorithm, such as `candidate_splits(algorithm)`.
    done: called after every run with its number and how many there are.  seed: of what is drawn; noise is
    fresh.

    Raises InputError for another algorithm, for too few server points, and for splits that cannot be.

    >>> import numpy as np
    >>> from secfc import FedDPKMeans
    >>> points = np.random.default_rng(0).normal(size=(200, 2))
    >>> public = PublicFacts(("a", "b", "c"), (500, 500, 500), 2, 4.0, server_points=points)
    >>> found = forecast_utility(FedDPKMeans(k=3, epsilon=2.0, delta=1e-6), public, trials=3)
    >>> bool(found.asked.median < np.median(found.one))
    True
    """
    k, points = _checked(algorithm, public, trials)
    rng = np.random.default_rng(seed)
    algorithm = replace(algorithm, labels=None)  # they are made of the centers
    ways = [algorithm, *(split.of(algorithm) for split in others)]
    excess: list[list[float]] = [[] for _ in (*ways, "alone", "one")]
    for trial in range(trials):
        server, drawn = _drawn_clients(algorithm, public, points, k, rng)
        rows = np.concatenate(drawn)
        best = _cost(rows, _means(rows, k, rng))
        if not best > 0:
            raise InputError(
                f"the {len(rows)} rows have no more than k={k} places: there is nothing to lose to noise"
            )
        costs = []
        for way in ways:
            costs.append(_run_cost(way, public, server, drawn, int(rng.integers(2**31))))
            done(trial * len(ways) + len(costs), trials * len(ways))
        middle = rows if server is None else server
        costs.append(math.inf if server is None else _cost(rows, _means(server, k, rng)))
        costs.append(_cost(rows, middle.mean(axis=0)[None]))
        # Restarts of k-means may miss what a candidate found: nothing costs less than nothing.
        least = min(best, *costs)
        for found, cost in zip(excess, costs, strict=True):
            found.append(cost / least - 1)
    *excess, alone, one = excess
    alone = [] if points is None else alone
    asked = Split(algorithm.steps, algorithm.shares)
    tried = tuple(SplitTrial(s, tuple(e)) for s, e in zip((asked, *others), excess, strict=True))
    held_out = 0 if points is None else len(points) - len(points) // 2
    return UtilityForecast(tried, tuple(alone), tuple(one), held_out)


def _run_cost(
    way: FedDPKMeans, public: PublicFacts, server: Array | None, drawn: list[Array], seed: int
) -> float:
    """What the centers of one run on simulated clients cost them."""
    persons = [range(len(own)) for own in drawn] if way.neighbors.of_persons else None
    federation = Federation.from_arrays(drawn, names=public.clients, persons=persons, server_points=server)
    with warnings.catch_warnings(), silence_logs():
        warnings.simplefilter("ignore", Caution)
        result = fit(way, federation, seed=seed)
    return _cost(np.concatenate(drawn), np.asarray(result.centers))


def _drawn_clients(
    algorithm: FedDPKMeans, public: PublicFacts, points: Array | None, k: int, rng: np.random.Generator
) -> tuple[Array | None, list[Array]]:
    """The server's points of a simulation, None where it holds none, and rows (m_j, d) of each client."""
    if points is not None:
        order = rng.permutation(len(points))
        server, held = points[order[: len(points) // 2]], points[order[len(points) // 2 :]]
        return server, [held[rng.integers(len(held), size=count)] for count in public.counts]
    bound = algorithm.bound
    radius = bound.value if isinstance(bound, Bound) else float(bound or 0.0)
    centers = sample_ball(k, public.d, 0.8 * radius, rng)
    gaps = np.linalg.norm(centers[:, None] - centers, axis=2) + np.diag(np.full(k, np.inf))
    gap = float(np.median(gaps.min(axis=1))) if k > 1 else radius
    # From far apart to touching: rows lie so far from their centers.
    away = gap * rng.uniform(1 / 8, 1 / 2) / math.sqrt(public.d)
    which = [rng.integers(k, size=count) for count in public.counts]
    return None, [centers[own] + away * rng.normal(size=(len(own), public.d)) for own in which]


def _budgeted(algorithm: Any) -> FedDPKMeans:
    if isinstance(algorithm, FedDPKMeans):
        return algorithm
    raise InputError(
        f"{type(algorithm).__name__} has no budget that is split over steps: only FedDPKMeans is simulated"
    )


def _checked(algorithm: Any, public: PublicFacts, trials: int) -> tuple[int, Array | None]:
    """k, and the server's points, None where it holds none and rows are made up."""
    algorithm = _budgeted(algorithm)
    if trials < 1:
        raise InputError(f"trials={trials}: at least one simulation is needed")
    if not isinstance(algorithm.k, int):
        raise InputError("k is chosen by the run: give a number, as costs of different k cannot be compared")
    points = public.server_points
    least, have = max(4 * algorithm.k, 8), 0 if points is None else len(points)
    if points is None and algorithm.bound is not None:
        return algorithm.k, None
    if points is None or have < least:
        raise InputError(
            f"the server holds {have} points: half of them stand for clients, so simulating k={algorithm.k} "
            f"clusters takes at least {least}. Give the server more points, or none and a "
            "bound, or plan without simulating"
        )
    return algorithm.k, np.asarray(points, np.float64)


def _means(points: Array, k: int, rng: np.random.Generator) -> Array:
    """Centers of k-means, the best of some restarts."""
    from sklearn.cluster import KMeans

    distinct, counts = np.unique(points, axis=0, return_counts=True)
    made = KMeans(min(k, len(distinct)), n_init=RESTARTS, random_state=int(rng.integers(2**31)))
    return np.asarray(made.fit(distinct, sample_weight=counts).cluster_centers_)


def _cost(points: Array, centers: Array) -> float:
    """The sum of squared distances to the nearest center."""
    return float(((points - centers[nearest_center(points, centers)]) ** 2).sum())
