"""What a noise budget will cost in quality, and how it is best split: simulated before anybody is asked.

Half of the server's points stand for the server, clients are drawn from the other half, and the algorithm
itself runs on them.  Everything is made of points that the server may show, so it costs no budget; results of
runs on clients' data have no part in it, and must have none: a split that is chosen by them spends.

What it cannot know: clients that differ from the server's points, or from one another.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secfc.algorithm import PublicFacts
from secfc.data.federation import Federation
from secfc.errors import Caution, InputError
from secfc.feddp.algorithm import FedDPKMeans
from secfc.feddp.plan import OUR_WEIGHTS, OURS
from secfc.feddp.starts import FedDPInit
from secfc.kmeans.centers import nearest_center
from secfc.logs import silence_logs
from secfc.pipeline import fit

Array = NDArray[Any]

TRIALS, RESTARTS = 7, 5
# Shares that go to the start, over its usual ones.
TILTS = (0.6, 1.0, 1.5)


@dataclass(frozen=True)
class Split:
    """A way to spend a budget.  steps: of FedDP-Lloyds; shares: as `FedDPKMeans` has them; None: as usual."""

    steps: int | None = None
    shares: tuple[float, ...] | None = None

    def of(self, algorithm: FedDPKMeans) -> FedDPKMeans:
        """The algorithm with this split."""
        return replace(algorithm, steps=self.steps, shares=self.shares)

    def __str__(self) -> str:
        if self == USUAL:
            return "as usual"
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
    nobody asked; one: of a single center.  held_out: points that clients were drawn from.
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
        """Whether asking clients is better than k-means of the server's points alone, by a tenth at least."""
        return self.best.median < 0.9 * median(self.alone)

    def as_object(self) -> dict[str, Any]:
        """For programs: plain values."""
        return {
            "tried": [
                {"steps": one.split.steps, "shares": one.split.shares, "excess": list(one.excess)}
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
    outer, weights, sums = OUR_WEIGHTS[algorithm.neighbors.unit]
    tilted = [Split(0, (round(tilt * outer, 3), round(tilt * weights, 3), sums)) for tilt in TILTS]
    # As usual is with one step: so these are without, with more, and with one after a start that costs more.
    return (*tilted, Split(1, (outer, weights, sums)), Split(2), Split(3))


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

    public: as a deployment has it, with server_points (s, d), s >= 4 k; its clients and their numbers of rows
    are simulated, rows drawn from held-out points as often as needed.  trials: simulations, each with another
    half held out.  others: splits to try beside that of the algorithm, such as `candidate_splits(algorithm)`.
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
    excess: list[list[float]] = [[] for _ in ways]
    alone, one = list[float](), list[float]()
    for _ in range(trials):
        order = rng.permutation(len(points))
        server, clients = points[order[: len(points) // 2]], points[order[len(points) // 2 :]]
        drawn = [clients[rng.integers(len(clients), size=count)] for count in public.counts]
        rows = np.concatenate(drawn)
        best = _cost(rows, _means(rows, k, rng))
        if not best > 0:
            raise InputError(
                f"the server's {len(points)} points have no more than k={k} places: there is nothing to lose "
                "to noise"
            )
        federation = Federation.from_arrays(drawn, names=public.clients, server_points=server)
        for way, found in zip(ways, excess, strict=True):
            with warnings.catch_warnings(), silence_logs():
                warnings.simplefilter("ignore", Caution)
                result = fit(way, federation, seed=int(rng.integers(2**31)))
            found.append(_cost(rows, np.asarray(result.centers)) / best - 1)
            done(sum(map(len, excess)), trials * len(ways))
        alone.append(_cost(rows, _means(server, k, rng)) / best - 1)
        one.append(_cost(rows, server.mean(axis=0)[None]) / best - 1)
    asked = Split(algorithm.steps, algorithm.shares)
    tried = tuple(SplitTrial(s, tuple(e)) for s, e in zip((asked, *others), excess, strict=True))
    return UtilityForecast(tried, tuple(alone), tuple(one), len(points) - len(points) // 2)


def _budgeted(algorithm: Any) -> FedDPKMeans:
    if isinstance(algorithm, FedDPKMeans):
        return algorithm
    raise InputError(
        f"{type(algorithm).__name__} has no budget that is split over steps: only FedDPKMeans is simulated"
    )


def _checked(algorithm: Any, public: PublicFacts, trials: int) -> tuple[int, Array]:
    """k, and the server's points."""
    algorithm = _budgeted(algorithm)
    if trials < 1:
        raise InputError(f"trials={trials}: at least one simulation is needed")
    if not isinstance(algorithm.k, int):
        raise InputError("k is chosen by the run: give a number, as costs of different k cannot be compared")
    points = public.server_points
    least, have = max(4 * algorithm.k, 8), 0 if points is None else len(points)
    if points is None or have < least:
        raise InputError(
            f"the server holds {have} points: half of them stand for clients, so simulating k={algorithm.k} "
            f"clusters takes at least {least}. Give the server more points, or plan without simulating"
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
