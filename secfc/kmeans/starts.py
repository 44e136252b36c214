"""Where Lloyd's heuristic starts: values with one method, each a role fragment over a source.

A start returns labels (m,) int32 in [-1, k); -1 is a point that is in no cluster yet.  Every start works on
plaintext and on coded distances alike, so the oracle and the protocol start from the same labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from field.arrays import Array
from field.code.rows import cluster_sizes
from field.ring.uint128 import UInt128
from secfc.data.inputs import WHOLE, check_fields, kind_name, optional_kind, refuse_without_method
from secfc.errors import IncompatibleOptions, InputError
from secfc.kmeans.bisecting import Bisecting
from secfc.kmeans.elbow import CostCurve, Elbow
from secfc.kmeans.loop import Source
from secfc.kmeans.splitting import Splitting
from secfc.roles.exchange import Role


class Start(Protocol):
    """A way to draw the first labels."""

    def check_sizes(self, m: int, k: int) -> None:
        """Raises ValueError if this start does not fit m points and k clusters."""
        ...

    def draw_labels(self, m: int, k: int, rng: np.random.Generator, source: Source) -> Role[Array]:
        """The first labels (m,) int32."""
        ...

    @property
    def reveals(self) -> str:
        """What a server that sees distances learns beyond those of the iterations, or an empty string."""
        ...

    @property
    def factor(self) -> int:
        """The largest factor that it compares squared distances by."""
        ...

    @property
    def halves(self) -> bool:
        """Whether it measures to halves of clusters, and opens labels on the way."""
        ...

    @property
    def grows(self) -> bool:
        """Whether it goes by sizes and gains of clusters that a source grows, and by no label."""
        ...

    @property
    def spare(self) -> float:
        """How many more clusters than k it asks about, as a part of k."""
        ...

    @property
    def needs_distances(self) -> bool:
        """Whether it draws from the distances themselves, so that the server must see them."""
        ...


# Starts that can choose k on their way, by their method `choose`.
CHOOSE_K = Bisecting | Splitting


def check_choice(init: Start, k: int | Elbow) -> None:
    """Raises ValueError for a start that cannot choose k, where that is asked of it."""
    if isinstance(k, Elbow) and not isinstance(init, CHOOSE_K):
        raise IncompatibleOptions(
            {"k": k, "init": init},
            "k is chosen by what merging clusters costs, which this start does not measure",
            [("init", "bisecting"), "give k as a number"],
        )


class RestartLabels:
    """First labels, restart after restart: of k clusters, or of as many as the first one chooses.

    k: an Elbow until then.  curve: what it was chosen by, None if it was not, or at who hears labels only.
    """

    def __init__(self, init: Start, m: int, k: int | Elbow) -> None:
        self.init, self.m, self.k = init, m, k
        self.curve: CostCurve | None = None

    def __call__(self, rng: np.random.Generator, source: Source) -> Role[tuple[Array, int]]:
        """First labels (m,) int32, and of how many clusters."""
        if isinstance(self.k, int):
            return (yield from self.init.draw_labels(self.m, self.k, rng, source)), self.k
        check_choice(self.init, self.k)
        labels, self.curve = yield from self.init.choose(self.m, self.k, rng, source)  # type: ignore[attr-defined]
        self.k = found = (
            labels.k if self.init.grows and not isinstance(labels, np.ndarray) else int(labels.max()) + 1
        )
        return labels, found


@dataclass(frozen=True)
class RandomLabels:
    """Start with every point in a uniformly random cluster, which reveals nothing.

    References
    ----------
    SecFC, Algorithm 1, line 6.
    """

    reveals = ""
    needs_distances = False
    halves = False
    grows = False
    spare = 0.0
    factor = 1

    def check_sizes(self, m: int, k: int) -> None:
        """Fits always."""

    def draw_labels(self, m: int, k: int, rng: np.random.Generator, source: Source) -> Role[Array]:
        yield from ()
        return rng.integers(0, k, m).astype(np.int32)


@dataclass(frozen=True)
class RandomPoints:
    """Start from k distinct random points as the first centers (Forgy).

    Notes
    -----
    A server that sees distances then sees those of all points to k private points in the first step.
    """

    reveals = "distances of every point to k randomly chosen points"
    needs_distances = False
    halves = False
    grows = False
    spare = 0.0
    factor = 1

    def check_sizes(self, m: int, k: int) -> None:
        """Fits always: k <= m is checked with the plan."""

    def draw_labels(self, m: int, k: int, rng: np.random.Generator, source: Source) -> Role[Array]:
        yield from ()
        return _singletons(rng.choice(m, k, replace=False), m)


@dataclass(frozen=True, eq=False)
class GivenLabels:
    """Start from labels that are already known.

    Parameters
    ----------
    labels
        (m,) in client order, or one array a client; in [0, k), or -1 for no cluster.

    Notes
    -----
    Parties compare the labels of all points, however they were handed over.
    """

    labels: Array | Sequence[Any] = field(repr=False, metadata={"described": "flat"})
    reveals = ""
    needs_distances = False
    halves = False
    grows = False
    spare = 0.0
    factor = 1

    def __post_init__(self) -> None:
        # Arrays of clients differ in length, so they are no array of arrays.
        given = self.labels if hasattr(self.labels, "__len__") else ()
        if isinstance(given, str) or getattr(given, "shape", None) == () or not len(given):
            raise InputError(
                f"starting labels are {kind_name(self.labels)}: an array with an integer a point is needed, "
                f"or "
                "one such "
                "array a client. Pass GivenLabels(numpy.zeros(m, int)), for example"
            )

    def flat(self) -> Array:
        """The labels of all clients in one (m,) array."""
        given = self.labels
        parts = [given] if isinstance(given, np.ndarray) or np.ndim(given[0]) == 0 else list(given)
        flat = np.concatenate([np.asarray(part).reshape(-1) for part in parts])
        if flat.dtype.kind not in "iu":
            raise InputError(f"starting labels are {flat.dtype}: they must be integers in [-1, k)")
        return flat.astype(np.int64)

    def check_sizes(self, m: int, k: int) -> None:
        """Raises ValueError for the wrong number of labels or a label outside [-1, k)."""
        flat = self.flat()
        if len(flat) != m:
            raise InputError(f"{len(flat)} starting labels for m={m} points: give one a point")
        outside = (flat < -1) | (flat >= k)
        if outside.any():
            i = int(np.argmax(outside))
            raise InputError(
                f"starting label {int(flat[i])} of point {i} is outside [-1, {k}): use labels below k"
            )
        if (flat < 0).all():
            raise InputError("starting labels are all -1: no point is in a cluster. Give some from 0 on")

    def draw_labels(self, m: int, k: int, rng: np.random.Generator, source: Source) -> Role[Array]:
        yield from ()
        return self.flat().astype(np.int32)


@dataclass(frozen=True)
class KMeansPlusPlus:
    """Start that draws points by their squared distances to the nearest center chosen so far.

    Parameters
    ----------
    trials
        Points drawn for each center after the first, from 1 on; the point that leaves the lowest cost becomes
        the center.  None for 2 + floor(ln k), as in scikit-learn.

    Notes
    -----
    The server sees the exact distances of all points to all points that were drawn, and every client learns
    which points these are.  trials=1 draws the fewest points, k - 1, and gives a worse start.

    References
    ----------
    Arthur and Vassilvitskii, SODA 2007.  SecFC's Remark 2 leaves starts open.
    """

    trials: int | None = None

    reveals = (
        "distances of every point to the points that k-means++ drew, some for each of the k that it chose, "
        "and which points they are"
    )
    needs_distances = True
    halves = False
    grows = False
    spare = 0.0
    factor = 1

    def check_sizes(self, m: int, k: int) -> None:
        """Fits always: k <= m is checked with the plan."""

    def __post_init__(self) -> None:
        check_fields(self, {"trials": optional_kind(WHOLE, "2 + floor(ln k)")})
        if self.trials is not None and self.trials < 1:
            raise InputError(f"trials={self.trials} is too small: a center is one of at least 1 point")

    def draw_labels(self, m: int, k: int, rng: np.random.Generator, source: Source) -> Role[Array]:
        # No more than k clusters are asked about at once.
        most = min(k, 2 + int(np.log(k)) if self.trials is None else self.trials)
        gaps, tried, chosen = np.full(m, np.inf), [np.array([rng.integers(m)])], []

        def draw(scaled: UInt128) -> Array:
            # Exact distances become floats only as drawing weights, the same on every source.
            left = np.minimum(gaps, scaled.to_floats())
            best = int(left.sum(axis=1).argmin())
            gaps[:] = left[best]
            chosen.append(int(tried[-1][best]))
            return np.array(chosen) if len(chosen) == k else _draw_proportional(gaps, chosen, most, rng)

        for _ in range(k - 1):
            drawn = yield from source.draw_points(_singletons(tried[-1], m), len(tried[-1]), draw)
            # A client hears of a last point, if it is the only one drawn, with all that were chosen before.
            tried.append(drawn[-1:] if most == 1 else drawn[:most])
        if most == 1:
            return _singletons(np.concatenate(tried), m)
        drawn = yield from source.draw_points(_singletons(tried[-1], m), len(tried[-1]), draw)
        # A client hears from the server which points it chose, and takes its word for no others than these.
        told = len(drawn) == k and all(point in points for point, points in zip(drawn, tried, strict=True))
        return _singletons(drawn if told else np.array([points[0] for points in tried]), m)


@dataclass(frozen=True)
class CenterSeparation:
    """Start from the points of each cluster that lie within a third of the distance to every other center.

    Parameters
    ----------
    base
        Start whose clusters are separated.  From random labels hardly any point is separated, as all centers
        are then near the common mean.

    Notes
    -----
    S'_h = {i : ||x_i - mu_h|| <= ||x_i - mu_s|| / 3 for all s}; the means of S' are the first centers.
    Compared as 9 d_h <= d_s on exact integers.  A cluster whose S' would be empty keeps those of its points
    that no other S' took.

    So that nobody lies about d, clients share squares of their rows first: all that have rows must be there.

    References
    ----------
    SecFC sec. 5, after Awasthi and Sheffet.
    """

    base: Start = RandomLabels()
    factor = 9

    def __post_init__(self) -> None:
        check_fields(self, {"base": refuse_without_method("draw_labels", "a start", "RandomLabels()")})

    @property
    def reveals(self) -> str:
        return self.base.reveals

    @property
    def needs_distances(self) -> bool:
        return self.base.needs_distances

    @property
    def halves(self) -> bool:
        return self.base.halves

    @property
    def grows(self) -> bool:
        return self.base.grows

    @property
    def spare(self) -> float:
        return self.base.spare

    def check_sizes(self, m: int, k: int) -> None:
        """As the base start."""
        self.base.check_sizes(m, k)

    def draw_labels(self, m: int, k: int, rng: np.random.Generator, source: Source) -> Role[Array]:
        labels = yield from self.base.draw_labels(m, k, rng, source)
        if (labels < 0).any():
            labels = (yield from source.take_step(labels, k)).labels
        cores = yield from source.separate_points(labels, k, self.factor)
        kept = cluster_sizes(cores, k) > 0
        return np.where((cores < 0) & (labels >= 0) & ~kept[labels], labels, cores).astype(np.int32)


def restart_generators(rng: np.random.Generator, count: int) -> Iterator[np.random.Generator]:
    """One a restart: rng itself, and others of its seed, whatever the restarts before have drawn."""
    yield rng
    yield from rng.spawn(count - 1)


def _singletons(points: Array, m: int) -> Array:
    labels = np.full(m, -1, np.int32)
    labels[points] = np.arange(len(points), dtype=np.int32)
    return labels


def _draw_proportional(weights: Array, chosen: list[int], most: int, rng: np.random.Generator) -> Array:
    """Up to so many different points that are not chosen yet, in the order in which they were drawn."""
    # Their distances to themselves are 0, unless somebody lied about them.
    weights = weights.copy()
    weights[chosen] = 0
    total = np.cumsum(weights)
    if total[-1] > 0:
        drawn = np.searchsorted(total, rng.random(most) * total[-1], side="right")
        drawn = np.minimum(drawn, np.flatnonzero(weights)[-1])  # a product may round up to the total
        return np.array(list(dict.fromkeys(drawn.tolist())))
    # Every point equals a chosen one: any point not chosen yet, which makes an empty cluster.
    left = np.setdiff1d(np.arange(len(weights)), chosen)
    return rng.choice(left, 1)


STARTS: dict[str, Start] = {
    "random": RandomLabels(),
    "random-points": RandomPoints(),
    "k-means++": KMeansPlusPlus(),
    "center-separation": CenterSeparation(),
    "bisecting": Bisecting(),
    "splitting": Splitting(),
}
