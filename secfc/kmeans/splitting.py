"""A start that splits clusters by sizes and costs alone, for labels that nobody knows."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from field.arrays import Array
from secfc.data.inputs import REAL, WHOLE, check_fields
from secfc.errors import InputError
from secfc.kmeans.bisecting import PATIENCE, apply_merges, clusters_to_split, merge_order
from secfc.kmeans.elbow import CostCurve, Elbow, largest_k, merge_cost_curve
from secfc.kmeans.loop import (
    CostRequest,
    GainRequest,
    Moves,
    Pair,
    RefineRequest,
    SplitRequest,
    WeighedClusters,
    all_pairs,
)
from secfc.roles.exchange import Role

# Cuts that no steps of k-means follow differ by their directions alone: so many in turn may split nothing.
FEW_CUTS = 3
# Where a cluster came from: which half of which half of all points.
Path = tuple[int, ...]


@dataclass(frozen=True)
class Splitting:
    """Start from one cluster, split level by level into more than k clusters, which are pruned to k.

    Parameters
    ----------
    keep
        Smallest gain of an accepted split, as a part of the largest gain, in [0, 1].
    steps
        Maximum number of steps of k-means among all halves.  With 0, three levels in a row that split nothing
        end the start.
    settle
        Maximum number of steps of k-means over the clusters so far, before the next level.
    spare
        Clusters beyond k at which splitting stops, as a part of k in [0, 1], rounded up.
    merge
        Which two clusters may be merged in the end: "cut", two that were cut from one another; "any", any
        two, by Ward's method, which opens the gain of keeping any two apart.

    Notes
    -----
    `Splitting` needs sizes and gains alone, so it works where labels stay secret (`OwnLabels`); otherwise it
    proceeds as `Bisecting`.  On every level each cluster is cut in two through its mean, across a direction
    in {+1, -1}^d from public coins.  Splits that gain enough are accepted, the best first; the lowest cluster
    wins ties.  In the end the two clusters that `merge` allows and that gain least become one, again and
    again.

    A direction chooses no points, as random halves do: the sizes of such halves would be linear measurements
    of labels.  The sizes of all clusters and halves are opened, and the gain of each split.

    References
    ----------
    Linde, Buzo and Gray, An Algorithm for Vector Quantizer Design, 1980.
    """

    keep: float = 0.5
    steps: int = 2
    settle: int = 1
    spare: float = 0.25
    merge: str = "cut"

    reveals = ""
    needs_distances = False
    halves = False
    grows = True
    factor = 1

    def __post_init__(self) -> None:
        check_fields(self, {"keep": REAL, "steps": WHOLE, "settle": WHOLE, "spare": REAL})
        if not 0 <= self.keep <= 1:
            raise InputError(f"keep={self.keep} must be in [0, 1]: a part of the largest gain")
        if self.steps < 0 or self.settle < 0:
            raise InputError(f"steps={self.steps}, settle={self.settle} count steps of k-means: at least 0")
        if not 0 <= self.spare <= 1:
            raise InputError(f"spare={self.spare} must be in [0, 1], a part of k to merge: give 0.25")
        if self.merge not in ("cut", "any"):
            raise InputError(f'merge={self.merge!r} is no way to merge: choose "cut" or "any"')

    def check_sizes(self, m: int, k: int) -> None:
        """Fits always: k <= m is checked with the plan."""

    def draw_labels(self, m: int, k: int, rng: np.random.Generator, source: Any) -> Role[Any]:
        def moves(d: int) -> Moves:
            tree, groups, sizes = yield from self._grow(m, clusters_to_split(m, k, self.spare), d, rng)
            if tree.count <= k:
                return groups
            ends = self._merges(tree, sizes)
            told = yield GainRequest(
                groups, ends.sides, lambda gains: ends.prune_groups(ends.by_node(gains), k)
            )
            return _after(groups, ends.trusted_groups(told, k, k))

        return (yield from source.grow_clusters(moves))

    def choose(
        self, m: int, elbow: Elbow, rng: np.random.Generator, source: Any
    ) -> Role[tuple[Any, CostCurve | None]]:
        """First labels for k at the elbow of the costs of pruning, and these; see `starts.Choosing`."""
        curves: list[CostCurve] = []

        def moves(d: int) -> Moves:
            most = largest_k(elbow)
            tree, groups, sizes = yield from self._grow(m, clusters_to_split(m, most, self.spare), d, rng)
            within, ends = (yield CostRequest(groups)), self._merges(tree, sizes)

            def chosen(gains: tuple[Fraction, ...]) -> Array:
                order = list(ends.pruning_order(ends.by_node(gains)))
                steps = tuple((0, 0, loss) for _, loss in order)
                curve = merge_cost_curve(steps, WeighedClusters((), within, None), groups, sizes, elbow)
                left = [ends.group_pruned(order[: tree.count - k]) for k in range(1, tree.count + 1)]
                curves.append(replace(curve, levels=tuple(_after(groups, one) for one in left[1:most])))
                return left[min(curve.k, tree.count) - 1]

            if tree.count == 1:
                if within is not None:
                    chosen(())
                return groups
            told = yield GainRequest(groups, ends.sides, chosen)
            least, highest = (min(k, tree.count) for k in (elbow.least, max(elbow.least, most - 1)))
            return _after(groups, ends.trusted_groups(told, least, highest))

        found = yield from source.grow_clusters(moves)
        return found, curves[0] if curves else None

    def _merges(self, tree: SplitTree, sizes: Array) -> SplitTree | PairwiseMerges:
        """What may become one of clusters of these sizes (c,)."""
        return tree if self.merge == "cut" else PairwiseMerges(tuple(sizes.tolist()))

    def _grow(
        self, m: int, most: int, d: int, rng: np.random.Generator
    ) -> Generator[Any, Any, tuple[SplitTree, Array, Array]]:
        """At most so many clusters: where they came from, their groups, and their sizes (c,)."""
        tree, groups, sizes, idle = SplitTree(((),)), np.zeros(1, np.int64), np.array([m]), 0
        patience = (FEW_CUTS, PATIENCE)[self.steps > 0]
        for _ in range(most - 1 + PATIENCE):  # clusters that get lost might go on for ever
            if tree.count >= most or idle == patience:
                break
            c = tree.count
            directions = (2 * rng.integers(0, 2, (c, d)) - 1).astype(np.int8)
            halves, groups = (yield SplitRequest(groups, directions)), np.arange(2 * c)
            for _ in range(self.steps):
                if np.count_nonzero(halves) < 2:
                    break
                same, halves = yield RefineRequest(groups)
                if same:
                    break
            both = np.flatnonzero(halves.reshape(-1, 2).min(axis=1))
            accepted: list[int] = []
            if len(both):
                sides = np.zeros((len(both), 2 * c), np.int8)
                sides[np.arange(len(both)), 2 * both], sides[np.arange(len(both)), 2 * both + 1] = 1, 2
                choose = partial(self._accepted, both, halves, most - c)
                told = yield GainRequest(groups, sides, choose)
                # A party takes another's word for which splits these are, and for nothing else.
                accepted = [h for h in both.tolist() if told[2 * h] != told[2 * h + 1]][: most - c]
            groups, kept = _split(halves, accepted)
            tree, sizes = tree.split(accepted, kept), _sizes(halves, groups)
            idle = 0 if accepted else idle + 1
            for _ in range(self.settle if accepted else 0):
                if tree.count < 2:
                    break
                same, sizes = yield RefineRequest(groups)
                groups, kept = _numbered(sizes)
                tree, sizes = tree.among(kept), sizes[kept]
                if same:
                    break
        return tree, groups, sizes

    def _accepted(self, both: Array, halves: Array, most: int, gains: tuple[Fraction, ...]) -> Array:
        """The groups (2 c,) after the best splits."""
        least = Fraction(self.keep) * max(gains)
        good = [(-gain, int(h)) for h, gain in zip(both, gains, strict=True) if gain > 0 and gain >= least]
        return _split(halves, [h for _, h in sorted(good)[:most]])[0]


@dataclass(frozen=True)
class SplitTree:
    """Where clusters came from.  paths: of each of them; nodes: what was cut and has points on both sides."""

    paths: tuple[Path, ...]

    @property
    def count(self) -> int:
        return len(self.paths)

    def split(self, accepted: Sequence[int], kept: Array) -> SplitTree:
        """After these clusters were split and the new ones appended, those that are kept."""
        whole = [path if h not in accepted else (*path, 0) for h, path in enumerate(self.paths)]
        return SplitTree((*whole, *((*self.paths[h], 1) for h in sorted(accepted)))).among(kept)

    def among(self, kept: Array) -> SplitTree:
        return SplitTree(tuple(self.paths[h] for h in kept.tolist()))

    def under(self, path: Path) -> list[int]:
        """The clusters cut from one."""
        return [h for h, own in enumerate(self.paths) if own[: len(path)] == path]

    @property
    def nodes(self) -> tuple[Path, ...]:
        """In the order of the lowest of their clusters, outer ones first."""
        found = {path[:depth] for path in self.paths for depth in range(len(path))}
        alive = [p for p in found if self.under((*p, 0)) and self.under((*p, 1))]
        return tuple(sorted(alive, key=lambda p: (min(self.under(p)), len(p))))

    @property
    def sides(self) -> Array:
        """(nodes, c) int8, as in `GainRequest`."""
        out = np.zeros((len(self.nodes), self.count), np.int8)
        for row, path in zip(out, self.nodes, strict=True):
            row[self.under((*path, 0))], row[self.under((*path, 1))] = 1, 2
        return out

    def by_node(self, gains: Sequence[Fraction]) -> dict[Any, Fraction]:
        return dict(zip(self.nodes, gains, strict=True))

    def pruning_order(self, gains: Mapping[Path, Fraction]) -> Iterator[tuple[Path, Fraction]]:
        """Nodes and what they gain, the least first, each after all below it, until one cluster is left."""
        left = list(self.nodes)
        while left:
            ready = [p for p in left if not any(q[: len(p)] == p for q in left if q != p)]
            best = min(ready, key=lambda p: gains[p])  # ties: the first in order
            left.remove(best)
            yield best, gains[best]

    def prune_groups(self, gains: Mapping[Path, Fraction], k: int) -> Array:
        """The groups (c,) when k clusters are left, or all if they are fewer."""
        return self.group_pruned([*islice(self.pruning_order(gains), max(self.count - k, 0))])

    def group_pruned(self, order: Sequence[tuple[Path, Fraction]]) -> Array:
        """The groups (c,) after these of `pruning_order`."""
        return self._groups([p for p, _ in order])

    def trusted_groups(self, told: Array, least: int, most: int) -> Array:
        """The groups of which somebody tells (c,): unions that were one, from `least` to `most` of them.

        Anything else becomes some that are, which nobody who told something else goes on with.
        """
        one = [p for p in self.nodes if len(np.unique(told[self.under(p)])) == 1]
        groups = self._groups(one)
        if least <= int(groups.max()) + 1 <= most:
            return groups
        return self.prune_groups(dict.fromkeys(self.nodes, Fraction(0)), most)

    def _groups(self, one: Sequence[Path]) -> Array:
        lowest = np.arange(self.count)
        for path in one:
            own = self.under(path)
            lowest[own] = lowest[own].min()
        return np.unique(lowest, return_inverse=True)[1]


@dataclass(frozen=True)
class PairwiseMerges:
    """Merges of any two clusters of these sizes, each above 0, as `SplitTree` has them of what was cut."""

    sizes: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.sizes)

    @property
    def sides(self) -> Array:
        """(pairs, c) int8, as in `GainRequest`."""
        pairs = all_pairs(self.count)
        out = np.zeros((len(pairs), self.count), np.int8)
        rows = np.arange(len(pairs))
        out[rows, pairs[:, 0]], out[rows, pairs[:, 1]] = 1, 2
        return out

    def by_node(self, gains: Sequence[Fraction]) -> dict[Any, Fraction]:
        return {(a, b): gain for (a, b), gain in zip(all_pairs(self.count).tolist(), gains, strict=True)}

    def pruning_order(self, gains: Mapping[Pair, Fraction]) -> Iterator[tuple[Pair, Fraction]]:
        """Pairs and what they cost as one, by Ward's method, until one cluster is left."""
        return (((a, b), loss) for a, b, loss in merge_order(gains, list(self.sizes)))

    def prune_groups(self, gains: Mapping[Pair, Fraction], k: int) -> Array:
        """The groups (c,) when k clusters are left, or all if they are fewer."""
        return self.group_pruned([*islice(self.pruning_order(gains), max(self.count - k, 0))])

    def group_pruned(self, order: Sequence[tuple[Any, Fraction]]) -> Array:
        """The groups (c,) after these of `pruning_order`."""
        steps = tuple((a, b, loss) for (a, b), loss in order)
        return np.unique(apply_merges(steps, self.count), return_inverse=True)[1]

    def trusted_groups(self, told: Array, least: int, most: int) -> Array:
        """The groups of which somebody tells (c,), if they are from `least` to `most`; else some that are."""
        groups = np.unique(told, return_inverse=True)[1]
        if least <= int(groups.max()) + 1 <= most:
            return groups
        return np.minimum(np.arange(self.count), most - 1)


def _split(halves: Array, accepted: Sequence[int]) -> tuple[Array, Array]:
    """Groups (2 c,) of halves of these sizes after these clusters were split, and which clusters are kept.

    Kept are those with points: of the c clusters, then the second halves, in their order.
    """
    c = len(halves) // 2
    numbers = np.repeat(np.arange(c), 2)
    for new, h in enumerate(sorted(accepted), c):
        numbers[2 * h + 1] = new
    groups, kept = _numbered(np.bincount(numbers, halves, c + len(accepted)))
    return np.where(halves > 0, groups[numbers], -1), kept


def _numbered(sizes: Array) -> tuple[Array, Array]:
    """The numbers (c,) of clusters of these sizes without those that are empty, -1; and which have points."""
    kept = np.flatnonzero(sizes)
    groups = np.full(len(sizes), -1)
    groups[kept] = np.arange(len(kept))
    return groups, kept


def _sizes(sizes: Array, groups: Array) -> Array:
    """Sizes of groups of clusters of these sizes."""
    there = groups >= 0
    return np.bincount(groups[there], sizes[there], int(groups.max()) + 1).astype(np.int64)


def _after(groups: Array, then: Array) -> Array:
    """Groups of groups."""
    return np.where(groups >= 0, then[groups], -1)
