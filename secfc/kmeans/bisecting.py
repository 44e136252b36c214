"""A start that splits clusters in two and merges what was cut, by labels and what that gains and costs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice

import numpy as np

from field.arrays import Array
from field.code.rows import cluster_sizes
from secfc.data.inputs import REAL, WHOLE, check_fields, require_library
from secfc.errors import InputError
from secfc.kmeans.elbow import CostCurve, Elbow, largest_k, merge_cost_curve
from secfc.kmeans.loop import Neighborhood, Pair, Source, WeighedClusters, all_pairs
from secfc.roles.exchange import Role

# Levels in a row that split nothing, after which nothing is taken to be left to split.  Points that are all
# equal are split by no halves.  Of others, where a side is a coin a point, two sides have the same mean with
# probability at most 1/2 (Littlewood and Offord): all levels but the first miss a cluster that can be split
# with at most 2**-9.
PATIENCE = 10


@dataclass(frozen=True)
class Bisecting:
    """Start from one cluster, split level by level into more than k clusters, which are merged to k.

    Parameters
    ----------
    keep
        Smallest gain of an accepted split, as a part of the largest gain, in [0, 1].
    steps
        Maximum number of steps of 2-means that improve the halves of all clusters in parallel.
    settle
        Maximum number of steps of k-means over the clusters so far, before the next level.
    spare
        Clusters beyond k at which splitting stops, as a part of k in [0, 1], rounded up.

    Notes
    -----
    On every level each cluster is cut into random halves of equal size, by public coins.  If a level splits
    nothing, as halves may have equal means, the next level puts each point on a side by a coin.  The gain of
    a split is the cost that it saves.  Splits that gain enough are accepted, the best first, and no more than
    are missing; the lowest cluster wins ties.  The second half of an accepted cluster becomes a new cluster,
    in the order of the clusters.  If a cluster lost all its points, the numbers of later clusters move up.

    In the end the two neighbors whose merging costs least become one (Ward's method; the lowest win ties),
    until k clusters are left.  Two clusters are neighbors if one was cut from the other, or if points moved
    between them; only their costs are requested.  Where k is chosen, any two clusters are neighbors.

    If points have fewer distinct values than k, clusters stay empty.  Accepting all splits would cut compact
    clusters, and one split at a time takes k - 1 levels; `python -m benchmarks.quality` compares costs.
    """

    keep: float = 0.5
    steps: int = 4
    settle: int = 1
    spare: float = 0.25

    reveals = (
        "distances of every point to both halves of its cluster on every level, and so what every split "
        "would gain, and distances to the centers of more clusters than k"
    )
    needs_distances = False
    halves = True
    grows = False
    factor = 1

    def __post_init__(self) -> None:
        check_fields(self, {"keep": REAL, "steps": WHOLE, "settle": WHOLE, "spare": REAL})
        if not 0 <= self.keep <= 1:
            raise InputError(f"keep={self.keep} must be in [0, 1]: a part of the largest gain")
        if self.steps < 1:
            raise InputError(f"steps={self.steps} of 2-means are too few: random halves need at least 1")
        if self.settle < 0:
            raise InputError(f"settle={self.settle} is negative: it counts steps of k-means")
        if not 0 <= self.spare <= 1:
            raise InputError(f"spare={self.spare} must be in [0, 1], a part of k to merge: give 0.25")

    def check_sizes(self, m: int, k: int) -> None:
        """Fits always: k <= m is checked with the plan."""

    def draw_labels(self, m: int, k: int, rng: np.random.Generator, source: Source) -> Role[Array]:
        labels, near = yield from self._grow(m, k, clusters_to_split(m, k, self.spare), rng, source)
        return (yield from self._merge(labels, k, near, source))

    def choose(
        self, m: int, elbow: Elbow, rng: np.random.Generator, source: Source
    ) -> Role[tuple[Array, CostCurve | None]]:
        """First labels for k at the elbow of the costs after merging, and these; see `starts.Choosing`.

        Clusters are split as for `most`.  Fewer than `least` come out where there are no more.
        """
        most = largest_k(elbow)
        labels, _ = yield from self._grow(m, elbow.least, clusters_to_split(m, most, self.spare), rng, source)
        sizes, curves = cluster_sizes(labels, int(labels.max()) + 1), []
        c = len(sizes)

        def chosen(weighed: WeighedClusters) -> Array:
            steps = tuple(merge_order(_by_pair(all_pairs(c), weighed.losses), sizes.tolist()))
            curves.append(merge_cost_curve(steps, weighed, labels, sizes, elbow))
            return number_clusters(apply_merges(steps[: max(c - curves[0].k, 0)], c))[labels]

        told = yield from source.weigh_merges(labels, c, chosen)
        labels = _whole(labels, told, min(elbow.least, c), min(max(elbow.least, most - 1), c))
        return labels, curves[0] if curves else None

    def _grow(
        self, m: int, k: int, most: int, rng: np.random.Generator, source: Source
    ) -> Role[tuple[Array, Neighborhood]]:
        """The labels (m,) of so many clusters, of which k will be left, or of fewer where nothing splits; and
        which of them are neighbors."""
        labels, near, idle = np.zeros(m, np.int32), Neighborhood(), 0
        for _ in range(most - 1 + PATIENCE):  # clusters that get lost might go on for ever
            c = int(labels.max()) + 1
            if c == most or idle == PATIENCE:
                break
            halves = _random_halves(labels, c, rng) if not idle else _random_sides(labels, c, rng)
            for _ in range(self.steps):
                before, halves = halves, (yield from source.halve_clusters(halves, c))
                if np.array_equal(before, halves):
                    break
            labels, new = yield from self._split(halves, c, most - c, source)
            if not new:
                idle += 1
                continue
            near.split(new, c)
            idle, c = 0, c + len(new)
            for _ in range(self.settle if c < most or c > k else 0):  # with k at last, they belong to the run
                before, labels = labels, (yield from source.take_step(labels, c)).labels
                if np.array_equal(before, labels):
                    break
                near.moved(before, labels)
            near.numbered(labels, c)
            labels = number_clusters(labels)
        return labels, near

    def _split(self, halves: Array, c: int, most: int, source: Source) -> Role[tuple[Array, list[int]]]:
        """The labels (m,) after the accepted splits, no more than `most`; and of which clusters these are."""

        def choose(gains: tuple[Fraction, ...]) -> Array:
            least = Fraction(self.keep) * max(gains)
            good = [h for h, gain in enumerate(gains) if gain > 0 and gain >= least]
            return accept_splits(halves, c, sorted(good, key=lambda h: (-gains[h], h))[:most])

        told = yield from source.split_clusters(halves, c, choose)
        # A client hears labels, and no gains: it takes the server's word for which splits these are, and for
        # nothing else.  Only clusters of which both halves have points can be split.
        sizes = cluster_sizes(halves, 2 * c)
        new = np.unique(halves[told >= c] // 2)
        accepted = [h for h in new.tolist() if sizes[2 * h] and sizes[2 * h + 1]][:most]
        return accept_splits(halves, c, accepted), accepted

    def _merge(self, labels: Array, k: int, near: Neighborhood, source: Source) -> Role[Array]:
        """The labels (m,) after the cheapest merges of neighbors, until k clusters are left."""
        sizes = cluster_sizes(labels, int(labels.max()) + 1)
        if len(sizes) <= k:
            return labels

        def choose(losses: tuple[Fraction, ...]) -> Array:
            return number_clusters(merge_map(_by_pair(near.pairs, losses), sizes.tolist(), k))[labels]

        return _whole(
            labels, (yield from source.merge_clusters(labels, len(sizes), near.pairs, choose)), k, k
        )


def clusters_to_split(m: int, k: int, spare: float) -> int:
    """How many clusters of m points are split, for k to be left; one cluster is whole from the beginning."""
    return min(m, k + math.ceil(spare * k)) if k > 1 else 1


def _by_pair(pairs: Array, losses: Sequence[Fraction]) -> dict[Pair, Fraction]:
    """What merging each of these (pairs, 2) costs."""
    return {(a, b): loss for (a, b), loss in zip(pairs.tolist(), losses, strict=True)}


def merge_map(losses: Mapping[Pair, Fraction], sizes: list[int], k: int) -> Array:
    """For each cluster the lowest one that it is in when k are left, see `merge_order`: (c,) int64."""
    return apply_merges(tuple(islice(merge_order(losses, sizes), len(sizes) - k)), len(sizes))


def apply_merges(steps: Sequence[tuple[int, int, Fraction]], c: int) -> Array:
    """For each of c clusters the lowest one that it is in after these merges: (c,) int64."""
    lowest = np.arange(c)
    for a, b, _ in steps:
        lowest[lowest == b] = a
    return lowest


def merge_order(losses: Mapping[Pair, Fraction], sizes: list[int]) -> Iterator[tuple[int, int, Fraction]]:
    """Cluster a, b that becomes part of it, and what that costs, until one is left.

    losses: what merging two costs, see `Source.merge_clusters`, of those that may be merged; those that cost
    least are, ties go to the lowest.  What merging costs after that follows from these (Lance and Williams
    1967).  Where a and b are merged, and of a alone it is known how far it is from h, b is taken to be as far
    as if the three means made a right angle at a: in many dimensions two differences are nearly orthogonal.
    """
    sizes, alive = list(sizes), set(range(len(sizes)))

    def weight(a: int, b: int) -> Fraction:
        return Fraction(sizes[a] * sizes[b], sizes[a] + sizes[b])

    apart = {pair: loss / weight(*pair) for pair, loss in losses.items()}  # squared distances of means
    while apart:
        lost, (a, b) = min((weight(*pair) * square, pair) for pair, square in apart.items())
        between, both = apart.pop((a, b)), sizes[a] + sizes[b]
        alive.remove(b)
        for h in alive - {a}:
            one = apart.pop((min(a, h), max(a, h)), None)
            other = apart.pop((min(b, h), max(b, h)), None)
            if one is None:
                if other is None:
                    continue
                one = other + between
            elif other is None:
                other = one + between
            apart[min(a, h), max(a, h)] = (
                sizes[a] * one + sizes[b] * other - Fraction(sizes[a] * sizes[b], both) * between
            ) / both
        sizes[a] = both
        yield a, b, lost


@dataclass(frozen=True, eq=False, repr=False)
class Dendrogram:
    """What merging each two of some clusters would cost, and hierarchies of them.

    Leaves are the clusters with points, in their order.  sizes: (k,) points of all.  costs: see
    `Source.merge_clusters`, of each two leaves in the order of `all_pairs`, exact where a protocol is.
    """

    sizes: Array
    costs: tuple[Fraction, ...]

    def __repr__(self) -> str:
        return f"Dendrogram({len(self.leaves)} clusters)"

    def over(self, unit: Fraction) -> Dendrogram:
        """The dendrogram with costs divided by this."""
        return Dendrogram(self.sizes, tuple(cost / unit for cost in self.costs))

    @property
    def leaves(self) -> Array:
        """Numbers (c,) of the clusters with points."""
        return np.flatnonzero(self.sizes)

    @property
    def distances(self) -> Array:
        """How far each two centers are apart, (pairs,), as `scipy.spatial.distance.pdist` has them."""
        pairs = self.sizes[self.leaves][all_pairs(len(self.leaves))].tolist()
        apart = (cost * Fraction(a + b, a * b) for cost, (a, b) in zip(self.costs, pairs, strict=True))
        return np.array([math.sqrt(square) for square in apart])

    def link_clusters(self, method: str = "ward") -> Array:
        """A hierarchy (c - 1, 4), as `scipy.cluster.hierarchy.linkage` has it, of leaves by their place.

        "ward": of all points, were each at its center.  Any other method of scipy, as "single", "average" or
        "complete", is one of the centers.  Raises InputError.
        """
        c = len(self.leaves)
        if method != "ward":
            require_library(f"linkage {method!r}", "estimators")
            from scipy.cluster.hierarchy import linkage

            try:
                found: Array = linkage(self.distances, method) if c > 1 else np.empty((0, 4))
                return found
            except ValueError as error:
                raise InputError(f"method={method!r}: {error}. Use 'ward', 'single' or 'average'") from error
        number, count, rows = list(range(c)), [1] * c, []
        for a, b, cost in merge_order(_by_pair(all_pairs(c), self.costs), self.sizes[self.leaves].tolist()):
            low, high = sorted((number[a], number[b]))
            count[a] += count[b]
            rows.append((low, high, math.sqrt(2 * cost), count[a]))
            number[a] = c + len(rows) - 1
        return np.array(rows, float).reshape(-1, 4)

    def cut_tree(self, count: int, method: str = "ward") -> Array:
        """The group (k,) int64 of each cluster when `count` are left, by their lowest; -1 without points.

        Raises InputError for more groups than clusters.
        """
        c = len(self.leaves)
        if not 1 <= WHOLE.of("cut", count) <= c:
            raise InputError(
                f"cut={count} of {c} clusters with points: from 1 to {c} are there",
                [("cut", c), "raise k"],
            )
        member = np.arange(c)
        for new, (a, b) in enumerate(self.link_clusters(method)[: c - count, :2], c):
            member[(member == a) | (member == b)] = new
        lowest, place = np.unique(member, return_index=True, return_inverse=True)[1:]
        groups = np.full(len(self.sizes), -1)
        groups[self.leaves] = np.argsort(np.argsort(lowest))[place]
        return groups


def pair_sides(sizes: Array) -> Array:
    """Each two clusters with points, of sizes (k,), as unions: (pairs, k) int8, see `loop.GainRequest`."""
    leaves = np.flatnonzero(sizes)
    pairs = leaves[all_pairs(len(leaves))]
    sides = np.zeros((len(pairs), len(sizes)), np.int8)
    for side in (0, 1):
        sides[np.arange(len(pairs)), pairs[:, side]] = side + 1
    return sides


def _whole(labels: Array, told: Array, least: int, most: int) -> Array:
    """The labels (m,) after merges that a client is told of: it takes the server's word for which these are.

    And for nothing else: clusters are merged whole, and from `least` to `most` are left.
    """
    firsts = np.unique(labels, return_index=True)[1]
    lowest, group = np.unique(told[firsts], return_index=True, return_inverse=True)[1:]
    # Of another number nothing follows that the server could go on with, but for these.
    fits = least <= len(lowest) <= most
    return number_clusters(lowest[group] if fits else np.minimum(np.arange(len(firsts)), most - 1))[labels]


def accept_splits(halves: Array, c: int, accepted: list[int]) -> Array:
    """Labels (m,) int32 with the second halves of these clusters, of c, as clusters of their own."""
    number = np.repeat(np.arange(c, dtype=np.int32), 2)
    for new, h in enumerate(sorted(accepted), c):
        number[2 * h + 1] = new
    return number[halves]


def _random_halves(labels: Array, c: int, rng: np.random.Generator) -> Array:
    """Every cluster's points dealt to its two halves in random order, the first half getting one more."""
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    sizes = cluster_sizes(labels, c)
    ranks = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    halves = np.empty(len(labels), np.int32)
    halves[order] = 2 * labels[order] + ranks % 2
    return halves


def _random_sides(labels: Array, c: int, rng: np.random.Generator) -> Array:
    """Every point of c clusters on one of the two sides of its own, by a coin."""
    return (2 * labels + rng.integers(0, 2, len(labels))).astype(np.int32)


def number_clusters(labels: Array) -> Array:
    """The same clusters (m,) int32 numbered from 0 in their order, without those that are empty."""
    return np.unique(labels, return_inverse=True)[1].astype(np.int32)
