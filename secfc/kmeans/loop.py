"""Lloyd's heuristic, once: the same loop is the plaintext oracle and the secure protocol.

The loop asks a `Source` for one step, and a source may be plaintext integers or coded replies of clients.
The policy both share, without which exactness has no meaning:

* the nearest center wins by comparison of exact integers, ties go to the lowest index;
* an empty cluster never wins, so it stays empty;
* equal points are separate points, each counted;
* the loop ends when no label changes, or after max_iter steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from field.code.rows import cluster_sizes
from field.ring.uint128 import UInt128
from secfc.kmeans.divisive_seeding import Moves, exact_gains, run_divisive_seeding
from secfc.roles.exchange import Role
from secfc.roles.messages import compact_labels

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Step:
    """One step of Lloyd's heuristic from some labels.

    labels: (m,) int32, the nearest center of each point.  within: for each cluster of the labels that
    the step started from, the sum of scaled distances of its own points, or None if nobody may know it.
    """

    labels: Array
    within: tuple[int | Fraction, ...] | None


@dataclass(frozen=True, eq=False, repr=False)
class WeighedClusters:
    """Some clusters, each with points: what they cost, and what merging each two of them does.

    losses: see `Source.merge_clusters`, of every two.  within: see `Step`.  distances: scaled, (c, m),
    or None if nobody may know them.
    """

    losses: tuple[Fraction, ...]
    within: tuple[int | Fraction, ...]
    distances: UInt128 | None


class Stepper(Protocol):
    """Where steps come from: a role fragment, driven with `yield from`."""

    def take_step(self, labels: Array, k: int, moved: int | None = None) -> Role[Step]:
        """The next assignment after labels (m,) in [-1, k).

        moved: how many of them the step before changed, None if there was none.
        """
        ...


class Source(Stepper, Protocol):
    """Where steps, and what starts need, come from."""

    def draw_points(self, labels: Array, k: int, draw: Callable[[UInt128], Array]) -> Role[Array]:
        """The points that `draw` chooses by distances (k, m) to the k points that labels name, one each."""
        ...

    def halve_clusters(self, labels: Array, c: int) -> Role[Array]:
        """A step of 2-means inside each of c clusters at once: halves (m,) int32 after labels (m,).

        A point of cluster h has label 2 h or 2 h + 1, before and after.  Ties go to the lowest label, and an
        empty half never wins.
        """
        ...

    def split_clusters(
        self, labels: Array, c: int, choose: Callable[[tuple[Fraction, ...]], Array]
    ) -> Role[Array]:
        """Labels (m,) that `choose` makes of what halves (m,), as of `halve_clusters`, gain: c exact numbers.

        What a cluster gains is its cost less the costs of its halves, up to one factor that all share.
        """
        ...

    def merge_clusters(
        self, labels: Array, c: int, pairs: Array, choose: Callable[[tuple[Fraction, ...]], Array]
    ) -> Role[Array]:
        """The labels (m,) that `choose` makes of what merging two of c clusters costs, each with points.

        labels: (m,) in [0, c).  pairs: (pairs, 2) of them, the lower first, ascending.  For each an exact
        number: what both cost as one more than as two, up to one factor that all share.
        """
        ...

    def weigh_merges(self, labels: Array, c: int, choose: Callable[[WeighedClusters], Array]) -> Role[Array]:
        """The same of every two; `choose` is also told what the clusters cost, and distances if shown."""
        ...

    def separate_points(self, labels: Array, k: int, factor: int) -> Role[Array]:
        """The center whose factor-fold squared distance is at most every other's, or -1: (m,) int32."""
        ...


def step_from_distances(scaled: UInt128, labels: Array, k: int) -> Step:
    """The step that distances (k, m) decide."""
    return Step(scaled.nearest(cluster_sizes(labels, k)), scaled.within(labels))


def halves_from_distances(pairs: UInt128, labels: Array, c: int) -> Array:
    """The halves (m,) int32 that distances (2, m) of each point to both halves of its cluster decide.

    Scaled as all distances are, by the squared size of the half; labels (m,) in [0, 2 c) as of
    `Source.halve_clusters`.
    """
    new, sizes = np.empty(len(labels), np.int32), cluster_sizes(labels, 2 * c)
    for h, own in cluster_members(labels, c):
        new[own] = 2 * h + pairs.of_points(own).nearest(sizes[2 * h : 2 * h + 2])
    return new


def gains_from_distances(pairs: UInt128, labels: Array, c: int) -> tuple[Fraction, ...]:
    """What the halves of each cluster gain, 0 if one is empty; arguments as of `halves_from_distances`.

    For halves a and b the points of b cost s_b ||mu_a - mu_b||**2 more at mu_a than at mu_b, and a cluster
    costs s_a s_b / (s_a + s_b) ||mu_a - mu_b||**2 more than its halves.
    """
    gains, sizes = [Fraction(0)] * c, cluster_sizes(labels, 2 * c).tolist()
    for h, own in cluster_members(labels, c):
        a, b = sizes[2 * h : 2 * h + 2]
        if a and b:
            near, half = pairs.of_points(own), labels[own] - 2 * h
            more = Fraction(near.within(1 - half)[0], a**2) - Fraction(near.within(half)[1], b**2)
            gains[h] = Fraction(a, a + b) * more
    return tuple(gains)


def gains_between(squares: Sequence[int], sizes: Array) -> tuple[Fraction, ...]:
    """Gains of splits from ||s_b S_a - s_a S_b||**2 of the halves of each cluster, of these sizes (2 c,)."""
    pairs = zip(squares, sizes.reshape(-1, 2).tolist(), strict=True)
    return tuple(Fraction(square, a * b * (a + b)) if a and b else Fraction(0) for square, (a, b) in pairs)


def losses_from_distances(scaled: UInt128, labels: Array, c: int, pairs: Array) -> tuple[Fraction, ...]:
    """What merging two clusters costs, from distances (c, m) to their centers; see `Source.merge_clusters`.

    As of halves in `gains_from_distances`.
    """
    sizes = cluster_sizes(labels, c).tolist()
    # Row a, column b: what the points of cluster b sum up to at the center of a.
    sums = np.empty((c, c), object)
    for turn in {0, *((pairs[:, 0] - pairs[:, 1]) % c).tolist()}:
        sums[np.arange(c), np.arange(c) - turn] = scaled.within((labels + np.int32(turn)) % np.int32(c))
    return tuple(
        Fraction(sizes[a], sizes[a] + sizes[b])
        * (Fraction(sums[a, b], sizes[a] ** 2) - Fraction(sums[b, b], sizes[b] ** 2))
        for a, b in pairs.tolist()
    )


def weigh_by_distances(scaled: UInt128, labels: Array, c: int) -> WeighedClusters:
    """What distances (c, m) say of c clusters."""
    return WeighedClusters(
        losses_from_distances(scaled, labels, c, all_pairs(c)), scaled.within(labels), scaled
    )


def cluster_members(labels: Array, c: int) -> Iterator[tuple[int, Array]]:
    """Of each cluster with points its number and these, ascending; labels (m,) in [0, 2 c) are of halves."""
    order = np.argsort(labels // 2, kind="stable")
    ends = np.cumsum(cluster_sizes(labels // 2, c))
    for h, own in enumerate(np.split(order, ends[:-1])):
        if len(own):
            yield h, own


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """A finished run of the heuristic.

    history: the labels before the first step and after every one, in the smallest integer type.
    within: see Step, for the last labels.  steps: how many there were, if not all of them are in the history.
    sizes: (k,) points of each cluster before the first step and after every one, where nobody knows all
    labels: then the history is empty.  run: its number among the runs of a source, there.  last: the labels
    in the end, if all know them without knowing those of all steps.
    """

    k: int
    history: tuple[Array, ...]
    within: tuple[int | Fraction, ...] | None
    converged: bool
    steps: int | None = None
    sizes: tuple[Array, ...] = ()
    run: int = 0
    last: Array | None = None

    @property
    def labels(self) -> Array:
        return self.history[-1] if self.last is None else self.last

    @property
    def n_iter(self) -> int:
        return len(self.history) - 1 if self.steps is None else self.steps

    def cost(self, scale: float | Fraction) -> float | None:
        """Cost in squared data units, for rows of so many steps a unit."""
        scaled = self.scaled_cost
        return None if scaled is None else float(scaled / Fraction(scale) ** 2)

    @property
    def scaled_cost(self) -> Fraction | None:
        """Sum of squared distances of points to the means of their clusters, in integer units."""
        if self.within is None:
            return None
        return cost_of(self.within, self.sizes[-1] if self.sizes else cluster_sizes(self.labels, self.k))


def cost_of(within: Sequence[int | Fraction], sizes: Array) -> Fraction:
    """The cost of clusters of these sizes from scaled distances, see `Step`."""
    parts = (Fraction(w, s**2) for w, s in zip(within, sizes.tolist(), strict=True) if s)
    return sum(parts, start=Fraction(0))


def is_cheaper(a: Trace, b: Trace) -> bool:
    """Whether a has the lower cost, exactly."""
    left, right = a.scaled_cost, b.scaled_cost
    return left is not None and right is not None and left < right


def lloyd(labels: Array, k: int, max_iter: int, source: Stepper) -> Role[Trace]:
    """Lloyd's heuristic from labels (m,) until nothing changes or max_iter steps are done."""
    history, moved = [compact_labels(labels)], None
    for _ in range(max_iter):
        step = yield from source.take_step(labels, k, moved)
        history.append(compact_labels(step.labels))
        moved = int(np.count_nonzero(step.labels != labels))
        if not moved:
            return Trace(k, tuple(history), step.within, True)
        labels = step.labels
    # The cost belongs to the labels that are returned, so their own centers are measured once more.
    step = yield from source.take_step(labels, k, moved)
    return Trace(k, tuple(history), step.within, bool(np.array_equal(step.labels, labels)))


class PlainSource:
    """Steps over integer points (m, d) that one party holds: needs no messages."""

    def __init__(self, points: Array) -> None:
        self.points = points

    def sum_clusters(self, labels: Array, k: int) -> Array:
        """Integer sums of every cluster: (k, d) int64."""
        from field.kernels import scalar as kernels

        sums = np.zeros((k, self.points.shape[1]), np.int64)
        kernels.sum_points(self.points, labels, sums)
        return sums

    def scaled(self, labels: Array, k: int) -> UInt128:
        """Exact sum_f (S_hf - s_h x_if)**2: (k, m)."""
        from field.kernels import scalar as kernels

        sums = self.sum_clusters(labels, k)
        high, low = np.empty((2, k, len(self.points)), np.uint64)
        kernels.plain_distances(self.points, sums, cluster_sizes(labels, k), high, low)
        return UInt128(high, low)

    def pairs(self, labels: Array, c: int) -> UInt128:
        """Exact scaled distances of each point to both halves of its cluster: (2, m)."""
        high, low = np.empty((2, 2, len(labels)), np.uint64)
        for h, own in cluster_members(labels, c):
            part = PlainSource(self.points[own]).scaled(labels[own] - 2 * np.int32(h), 2)
            high[:, own], low[:, own] = part.high, part.low
        return UInt128(high, low)

    def take_step(self, labels: Array, k: int, moved: int | None = None) -> Role[Step]:
        return _nobody(step_from_distances(self.scaled(labels, k), labels, k))

    def draw_points(self, labels: Array, k: int, draw: Callable[[UInt128], Array]) -> Role[Array]:
        return _nobody(draw(self.scaled(labels, k)))

    def halve_clusters(self, labels: Array, c: int) -> Role[Array]:
        return _nobody(halves_from_distances(self.pairs(labels, c), labels, c))

    def split_clusters(
        self, labels: Array, c: int, choose: Callable[[tuple[Fraction, ...]], Array]
    ) -> Role[Array]:
        return _nobody(choose(gains_from_distances(self.pairs(labels, c), labels, c)))

    def merge_clusters(
        self, labels: Array, c: int, pairs: Array, choose: Callable[[tuple[Fraction, ...]], Array]
    ) -> Role[Array]:
        return _nobody(choose(losses_from_distances(self.scaled(labels, c), labels, c, pairs)))

    def weigh_merges(self, labels: Array, c: int, choose: Callable[[WeighedClusters], Array]) -> Role[Array]:
        return _nobody(choose(weigh_by_distances(self.scaled(labels, c), labels, c)))

    def grow_clusters(self, moves: Callable[[int], Moves]) -> Role[Array]:
        """The labels (m,) that moves lead to, see `secfc.kmeans.splitting`."""
        return _nobody(run_divisive_seeding(self, moves))

    def center_clusters(self, sums: Array, sizes: Array) -> tuple[Array, Array]:
        """See `secfc.kmeans.divisive_seeding.PointSource`."""
        return sums, sizes

    def gains_of_unions(self, sums: Array, sizes: Array) -> tuple[Fraction, ...]:
        """See `secfc.kmeans.divisive_seeding.PointSource`."""
        return exact_gains(sums, sizes)

    def price_clusters(self, labels: Array, c: int) -> tuple[int, ...]:
        """See `secfc.kmeans.divisive_seeding.PointSource`."""
        return tuple(self.scaled(labels, c).within(labels))

    def separate_points(self, labels: Array, k: int, factor: int) -> Role[Array]:
        return _nobody(self.scaled(labels, k).separated(cluster_sizes(labels, k), factor))


def _nobody(value: Any) -> Role[Any]:
    """A role fragment that exchanges nothing and returns a value."""
    yield from ()
    return value


def best_of_restarts(
    n_init: int, run: Callable[[], Role[Any]], better: Callable[[Any, Any], bool]
) -> Role[Any]:
    """Run a role fragment n_init times and return the best of its results."""
    best = yield from run()
    for _ in range(n_init - 1):
        other = yield from run()
        if better(other, best):
            best = other
    return best


# --------------------------------------------------------------------------------------------------
# Which clusters lie side by side, as far as labels tell: nothing beyond them is asked for.

Pair = tuple[int, int]  # numbers of clusters, the lower first


class Neighborhood:
    """Pairs of clusters of which one was cut from the other, or between which points moved.

    So all clusters are connected through neighbors, whatever happens to them.  Public, as labels are.
    """

    def __init__(self) -> None:
        self.near: set[Pair] = set()

    def __repr__(self) -> str:
        return f"Neighborhood({len(self.near)} pairs)"

    @property
    def pairs(self) -> Array:
        """Ascending: (pairs, 2) int32."""
        return np.array(sorted(self.near), np.int32).reshape(-1, 2)

    def split(self, halves: Sequence[int], c: int) -> None:
        """The second halves of these clusters, of c so far, became clusters c, c + 1, ..."""
        self.near |= {(h, new) for new, h in enumerate(halves, c)}

    def moved(self, before: Array, after: Array) -> None:
        """Points went from cluster to cluster: labels (m,) before and after."""
        changed = before != after
        ends = np.sort(np.stack([before[changed], after[changed]], axis=1), axis=1)
        self.near |= {(a, b) for a, b in np.unique(ends, axis=0).tolist()}

    def numbered(self, labels: Array, c: int) -> None:
        """Of c clusters those with points, by labels (m,), are numbered from 0 in their order.

        The neighbors of one without points become those of the lowest of them.
        """
        kept = np.unique(labels).tolist()
        for lost in sorted(set(range(c)).difference(kept)):
            beside = {a + b - lost for a, b in self.near if lost in (a, b)}
            self.near = {pair for pair in self.near if lost not in pair}
            heir = min(beside)
            self.near |= {(min(heir, h), max(heir, h)) for h in beside - {heir}}
        number = {h: new for new, h in enumerate(kept)}
        self.near = {(number[a], number[b]) for a, b in self.near}


def all_pairs(c: int) -> Array:
    """All pairs of c clusters, ascending: (c (c - 1) / 2, 2) int32."""
    return np.stack(np.triu_indices(c, 1), axis=1).astype(np.int32)
