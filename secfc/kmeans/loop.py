"""Lloyd's heuristic, once: the same loop is the plaintext oracle and the secure protocol.

The loop asks a `Source` for one step, and a source may be plaintext integers or coded replies of clients.
The policy both share, without which exactness has no meaning:

* the nearest center wins by comparison of exact integers, ties go to the lowest index;
* an empty cluster never wins, so it stays empty;
* equal points are separate points, each counted;
* the loop ends when no label changes, or after max_iter steps.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol, cast

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from field.code.rows import cluster_sizes
from field.ring.quantize import round_centers, rounded_weights
from field.ring.uint128 import UInt128
from secfc.roles.exchange import Role
from secfc.roles.messages import compact_labels

# --------------------------------------------------------------------------------------------------
# What a start asks for that is told sizes and gains, and no label: see `secfc.kmeans.splitting`.


@dataclass(frozen=True, eq=False)
class SplitRequest:
    """Every cluster in two, on both sides of its mean; answered with the sizes (2 c,) of the halves.

    Each point goes to the nearest of the means plus, for half 2 h, and minus, for half 2 h + 1, one unit of
    the integers along a direction.  groups: the number that each cluster so far has now, -1 for one without
    points; several may become one.  directions: (c, d) of +1 and -1.
    """

    groups: Array
    directions: Array


@dataclass(frozen=True, eq=False)
class RefineRequest:
    """A step of k-means; answered with whether no label changed, and the sizes (c,).  groups: as in
    `SplitRequest`.
    """

    groups: Array


@dataclass(frozen=True, eq=False)
class GainRequest:
    """What keeping pairs of unions of clusters apart gains; answered with the groups that `choose` makes of
    that.

    sides: (pairs, c), 1 in one union, 2 in the other, 0 in none.  groups: as in `SplitRequest`.  A party that
    does not hear the gains is answered with somebody's word for the groups.
    """

    groups: Array
    sides: Array
    choose: Callable[[tuple[Fraction, ...]], Array]


@dataclass(frozen=True, eq=False)
class CostRequest:
    """What clusters cost; answered with the sums of scaled distances within each (c), or None for a party
    that does not hear them.  groups: as in `SplitRequest`."""

    groups: Array


# What a start asks for: everything in it is public, and it ends with groups, as in `SplitRequest`.
Move = SplitRequest | RefineRequest | GainRequest | CostRequest
Moves = Generator[Move, Any, Array]


# --------------------------------------------------------------------------------------------------
# What a start by sizes and gains alone leads to on points that one party holds.


def run_divisive_seeding(source: PlainSource | RoundedSource, moves: Callable[[int], Moves]) -> Array:
    """The labels (m,) int32 of the clusters that moves lead to from a single one."""
    m, d = source.points.shape
    labels, course, answer = np.zeros(m, np.int32), moves(d), cast("Any", None)
    while True:
        try:
            move = course.send(answer)
        except StopIteration as done:
            return done.value[labels].astype(np.int32)  # type: ignore[no-any-return]
        now, c = move.groups[labels].astype(np.int32), int(move.groups.max()) + 1
        match move:
            case SplitRequest():
                labels = split_in_halves(source, now, move.directions)
                answer = cluster_sizes(labels, 2 * c)
            case RefineRequest():
                labels = nearest_step(source, now, c)
                answer = bool((now == labels).all()), cluster_sizes(labels, c)
            case GainRequest():
                answer = move.choose(union_gains(source, now, c, move.sides))
            case CostRequest():
                answer = source.price_clusters(now, c)


def nearest_step(source: PlainSource | RoundedSource, labels: Array, c: int) -> Array:
    """The nearest of c centers (m,) int32."""
    return source.label_points(
        *source.center_clusters(source.sum_clusters(labels, c), cluster_sizes(labels, c))
    )


def split_in_halves(source: PlainSource | RoundedSource, labels: Array, directions: Array) -> Array:
    """The halves (m,) of c clusters, see `SplitRequest`."""
    c = len(directions)
    centers, stand = source.center_clusters(source.sum_clusters(labels, c), cluster_sizes(labels, c))
    aside = stand[:, None] * directions.astype(np.int64)
    both = np.stack([centers + aside, centers - aside], axis=1).reshape(2 * c, -1)
    return source.label_points(both, np.repeat(stand, 2))


def union_gains(
    source: PlainSource | RoundedSource, labels: Array, c: int, sides: Array
) -> tuple[Fraction, ...]:
    """What keeping these unions of clusters apart gains, see `GainRequest`."""
    sums, sizes = source.sum_clusters(labels, c), cluster_sizes(labels, c)
    unions = np.stack([sides == 1, sides == 2], axis=1).astype(np.int64)
    return source.gains_of_unions(unions @ sums, unions @ sizes)


def exact_gains(sums: Array, sizes: Array) -> tuple[Fraction, ...]:
    """Gains of exact means, see `PlainSource.gains_of_unions`."""
    found = []
    for (a, b), (first, second) in zip(sizes.tolist(), sums.tolist(), strict=True):
        square = sum((b * x - a * y) ** 2 for x, y in zip(first, second, strict=True))
        found.append(Fraction(square, a * b * (a + b)))
    return tuple(found)


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


class Source(Protocol):
    """Where steps, and what starts need, come from: role fragments, driven with `yield from`."""

    def take_step(self, labels: Array, k: int, moved: int | None = None) -> Role[Step]:
        """The next assignment after labels (m,) in [-1, k).

        moved: how many of them the step before changed, None if there was none.
        """
        ...

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
        """Labels (m,) as of `merge_clusters` of all pairs; `choose` also gets costs, and shown distances."""
        ...

    def separate_points(self, labels: Array, k: int, factor: int) -> Role[Array]:
        """The center whose factor-fold squared distance is at most every other's, or -1: (m,) int32."""
        ...


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
    """Number and points, ascending, of each cluster with points; labels (m,) in [0, 2 c) are of halves."""
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
    in the end, if all know them without knowing those of all steps.  stability: see `measure_stability`.
    placed: of noisy sums the last ones, and how they placed the centers (`secfc.feddp.server_estimates`).
    """

    k: int
    history: tuple[Array, ...]
    within: tuple[int | Fraction, ...] | None
    converged: bool
    steps: int | None = None
    sizes: tuple[Array, ...] = ()
    run: int = 0
    last: Array | None = None
    stability: float | None = None
    placed: Any = None

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


def lloyd(labels: Array, k: int, max_iter: int, source: Source) -> Role[Trace]:
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


# Fewer values (m d) take single steps of milliseconds as it is.
FEW_VALUES = 1 << 17


def sum_members(points: Array, labels: Array, k: int) -> Array:
    """Integer sums (k, d) int64 of labeled points (m, d); -1 is no label."""
    from field.kernels import scalar as kernels

    sums = np.zeros((k, points.shape[1]), np.int64)
    kernels.sum_points(points, labels, sums)
    return sums


def distances_to_centers(points: Array, centers: Array, stand: Array) -> UInt128:
    """Exact sum_f (c_hf - s_h x_if)**2 for centers (k, d) that are sums of s_h points each: (k, m)."""
    from field.kernels import scalar as kernels

    high, low = np.empty((2, len(stand), len(points)), np.uint64)
    kernels.plain_distances(points, np.ascontiguousarray(centers), stand, high, low)
    return UInt128(high, low)


class PlainSource:
    """Steps over integer points (m, d) that one party holds: needs no messages."""

    def __init__(self, points: Array) -> None:
        self.points = points
        # What the last step led to, with sums (k, d) and sizes (k,), which the next one begins with.
        self._last: tuple[Array, Array, Array] | None = None

    @cached_property
    def tiles(self) -> Array | None:
        """The points as `field.kernels.labeling` has them; None if they are too few to gain, or too large."""
        from field.kernels import labeling

        largest = labeling.largest_value(self.points) if self.points.size >= FEW_VALUES else 2**63
        # The squares of all points add up within an int64.
        fits = largest < labeling.LARGEST and self.points.size * largest**2 < 2**63
        return labeling.tile_rows(self.points, largest) if fits else None

    @cached_property
    def squares(self) -> Array:
        """The squared norm of every point, exact where there are tiles: (m, 1) int64."""
        return np.asarray(np.einsum("ij,ij->i", self.points, self.points)[:, None])

    def sum_clusters(self, labels: Array, k: int) -> Array:
        """Integer sums of every cluster: (k, d) int64."""
        return sum_members(self.points, labels, k)

    def scaled(self, labels: Array, k: int) -> UInt128:
        """Exact sum_f (S_hf - s_h x_if)**2: (k, m)."""
        return distances_to_centers(self.points, self.sum_clusters(labels, k), cluster_sizes(labels, k))

    def label_points(
        self, centers: Array, stand: Array, labels: Array | None = None, *totals: Array
    ) -> Array:
        """The nearest of centers as of `center_clusters`, ties to the lowest, none that stands for no point.

        (m,) int32, in place of labels (m,) if given; totals: their sums (k, d) and sizes (k,), which follow.
        Both only where there are tiles.
        """
        from field.kernels.labeling import CenterFilter, label_tiles

        def decide(rows: Array) -> Array:
            return distances_to_centers(rows, centers, stand).nearest(stand)

        if self.tiles is None or not stand.any():
            return decide(self.points)
        new = np.full(len(self.points), -1, np.int32) if labels is None else labels
        label_tiles(
            self.tiles, CenterFilter.of(centers, stand[:, None], np.flatnonzero(stand), decide), new, *totals
        )
        return new

    def move_points(
        self, labels: Array, k: int, center: Callable[[Array, Array], tuple[Array, Array]]
    ) -> Step:
        """The step from labels (m,) to the centers that `center` makes of sums and sizes of k clusters."""
        if self._last is None or self._last[0] is not labels or len(self._last[2]) != k:
            self._last = labels, self.sum_clusters(labels, k), cluster_sizes(labels, k)
        _, sums, sizes = self._last
        centers, stand = center(sums, sizes)
        if self.tiles is None or not stand.any():
            found = distances_to_centers(self.points, centers, stand)
            return Step(found.nearest(stand), found.within(labels))
        squares = sum_members(self.squares, labels, k)[:, 0].astype(object)
        c, own, s, n = (x.astype(object) for x in (centers, sums, stand, sizes))
        within = s * s * squares - 2 * s * (c * own).sum(axis=1) + n * (c * c).sum(axis=1)
        totals = sums.copy(), sizes.astype(np.int64)
        self._last = self.label_points(centers, stand, labels.astype(np.int32), *totals), *totals
        return Step(self._last[0], tuple(within.tolist()))

    def pairs(self, labels: Array, c: int) -> UInt128:
        """Exact scaled distances of each point to both halves of its cluster: (2, m)."""
        high, low = np.empty((2, 2, len(labels)), np.uint64)
        for h, own in cluster_members(labels, c):
            part = PlainSource(self.points[own]).scaled(labels[own] - 2 * np.int32(h), 2)
            high[:, own], low[:, own] = part.high, part.low
        return UInt128(high, low)

    def take_step(self, labels: Array, k: int, moved: int | None = None) -> Role[Step]:
        return _nobody(self.move_points(labels, k, self.center_clusters))

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
        """Centers of clusters of these sums (k, d) and sizes (k,): sums of as many points as they stand for,
        and how many these are (k,)."""
        return sums, sizes

    def gains_of_unions(self, sums: Array, sizes: Array) -> tuple[Fraction, ...]:
        """What unions of these sums (pairs, 2, d) and sizes (pairs, 2) gain over one of both."""
        return exact_gains(sums, sizes)

    def price_clusters(self, labels: Array, c: int) -> tuple[int, ...]:
        """The sums of scaled distances within c clusters."""
        return tuple(self.scaled(labels, c).within(labels))

    def separate_points(self, labels: Array, k: int, factor: int) -> Role[Array]:
        return _nobody(self.scaled(labels, k).separated(cluster_sizes(labels, k), factor))


def _nobody(value: Any) -> Role[Any]:
    """A role fragment that exchanges nothing and returns a value."""
    yield from ()
    return value


def best_of_restarts(
    n_init: int, run: Callable[[], Role[Trace]], better: Callable[[Trace, Trace], bool]
) -> Role[Trace]:
    """Run a role fragment n_init times and return the best of its results, with its stability."""
    best, place = (yield from run()), 0
    ends = [last_labels(best)]
    for number in range(1, n_init):
        other = yield from run()
        ends.append(last_labels(other))
        if better(other, best):
            best, place = other, number
    return replace(best, stability=measure_stability(ends, place))


def last_labels(trace: Trace) -> Array | None:
    """The labels (m,) that a run ended with, None where they are hidden."""
    return trace.labels if trace.history else None


def measure_stability(ends: Sequence[Array | None], place: int) -> float | None:
    """Mean adjusted Rand index of labels (m,) that restarts ended with and those of the one that is kept.

    1 if all found the same clusters, about 0 if they agree as random labels do.  place: of the kept one.
    None of a single run, and where the labels of one are hidden.
    """
    from secfc.metrics import adjusted_rand

    known = [labels for labels in ends if labels is not None]
    if len(known) < max(len(ends), 2):
        return None
    others = known[:place] + known[place + 1 :]
    return sum(adjusted_rand(known[place], other) for other in others) / len(others)


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
        """Labels (m,) of c clusters, renumbered from 0 in their order so that each has points.

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


# --------------------------------------------------------------------------------------------------
# Lloyd's steps with rounded centers, over points that one party holds: what the protocol does, in the clear.
#
# A rounded center stands for 2**q equal points (`field.ring.quantize`), so distances, halves and gains are
# those of exact centers with its coordinates for a sum and 2**q for a size.


@dataclass(frozen=True, eq=False, repr=False)
class RoundedSource:
    """Steps over integer points (m, d), whose centers have `fraction` binary digits behind the point."""

    plain: PlainSource
    fraction: int

    def centers(self, labels: Array, k: int) -> tuple[Array, Array]:
        """Rounded centers (k, d) in steps of the grid, and how many points each stands for (k,)."""
        return self.center_clusters(self.sum_clusters(labels, k), cluster_sizes(labels, k))

    def take_step(self, labels: Array, k: int, moved: int | None = None) -> Role[Step]:
        step = self.plain.move_points(labels, k, self.center_clusters)
        within = scaled_costs(step.within or (), cluster_sizes(labels, k), self.fraction)
        return _nobody(Step(step.labels, within))

    def draw_points(self, labels: Array, k: int, draw: Callable[[UInt128], Array]) -> Role[Array]:
        """Distances to single points are exact."""
        return self.plain.draw_points(labels, k, draw)

    def halve_clusters(self, labels: Array, c: int) -> Role[Array]:
        new = np.empty(len(labels), np.int32)
        centers, stand = self.centers(labels, 2 * c)
        for h, own in cluster_members(labels, c):
            pair = slice(2 * h, 2 * h + 2)
            near = distances_to_centers(self.plain.points[own], centers[pair], stand[pair]).nearest(
                stand[pair]
            )
            # With an empty half points stay where they are.
            new[own] = 2 * h + near if stand[pair].all() else labels[own]
        return _nobody(new)

    def split_clusters(
        self, labels: Array, c: int, choose: Callable[[tuple[Fraction, ...]], Array]
    ) -> Role[Array]:
        return _nobody(choose(self.gains_of_pairs(labels, 2 * c, np.arange(2 * c).reshape(-1, 2))))

    def merge_clusters(
        self, labels: Array, c: int, pairs: Array, choose: Callable[[tuple[Fraction, ...]], Array]
    ) -> Role[Array]:
        return _nobody(choose(self.gains_of_pairs(labels, c, pairs)))

    def weigh_merges(self, labels: Array, c: int, choose: Callable[[WeighedClusters], Array]) -> Role[Array]:
        losses = self.gains_of_pairs(labels, c, all_pairs(c))
        return _nobody(choose(WeighedClusters(losses, self.price_clusters(labels, c), None)))

    def separate_points(self, labels: Array, k: int, factor: int) -> Role[Array]:
        centers, stand = self.centers(labels, k)
        return _nobody(distances_to_centers(self.plain.points, centers, stand).separated(stand, factor))

    def grow_clusters(self, moves: Callable[[int], Moves]) -> Role[Array]:
        return _nobody(run_divisive_seeding(self, moves))

    @property
    def points(self) -> Array:
        return self.plain.points

    def sum_clusters(self, labels: Array, k: int) -> Array:
        return self.plain.sum_clusters(labels, k)

    def label_points(self, centers: Array, stand: Array) -> Array:
        return self.plain.label_points(centers, stand)

    def center_clusters(self, sums: Array, sizes: Array) -> tuple[Array, Array]:
        return round_centers(sums, sizes, self.fraction), rounded_weights(sizes, self.fraction)

    def gains_of_unions(self, sums: Array, sizes: Array) -> tuple[Fraction, ...]:
        means = round_centers(sums.reshape(-1, sums.shape[2]), sizes.reshape(-1), self.fraction)
        gaps = (means[::2] - means[1::2]).astype(object)
        return gains_of_squares((gaps**2).sum(axis=1).tolist(), sizes, self.fraction)

    def price_clusters(self, labels: Array, c: int) -> tuple[Fraction, ...]:
        centers, stand = self.centers(labels, c)
        within = distances_to_centers(self.plain.points, centers, stand).within(labels)
        return scaled_costs(within, cluster_sizes(labels, c), self.fraction)

    def gains_of_pairs(self, labels: Array, k: int, pairs: Array) -> tuple[Fraction, ...]:
        """What two clusters of each of these (pairs, 2) gain over one, see `gains_of_squares`."""
        centers, _ = self.centers(labels, k)
        gaps = (centers[pairs[:, 0]] - centers[pairs[:, 1]]).astype(object)
        squares = (gaps**2).sum(axis=1).tolist()
        return gains_of_squares(squares, cluster_sizes(labels, k)[pairs], self.fraction)


def gains_of_squares(squares: Sequence[int], sizes: Array, fraction: int) -> tuple[Fraction, ...]:
    """s_a s_b / (s_a + s_b) times these squared distances of centers, of clusters of sizes (pairs, 2).

    0 if one is empty.  What both cost as one more than as two if the centers are their means, and up to
    rounding if not.  squares: in squared steps of the grid.
    """
    pairs, one = zip(squares, sizes.tolist(), strict=True), 4**fraction
    return tuple(
        Fraction(square * a * b, (a + b) * one) if a and b else Fraction(0) for square, (a, b) in pairs
    )


def scaled_costs(within: Sequence[int | Fraction], sizes: Array, fraction: int) -> tuple[Fraction, ...]:
    """Sums of squared distances in steps of the grid, of clusters of sizes (k,), as of `Step.within`."""
    return tuple(Fraction(w * s * s, 4**fraction) for w, s in zip(within, sizes.tolist(), strict=True))
