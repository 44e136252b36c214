"""What is compared of points: distances to all centers, to their own and others, to halves of a cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from field.code.distances import distance_margins, pair_distances, widest_multiple
from field.code.pair_check import AcrossCheck, HalfCheck, NearCheck
from field.code.reply_check import DistanceCheck, PlaneCheck, ReplyCheck, SquareCheck, SquaredCheck
from field.code.rows import NOBODYS, ClusterSums
from field.compare.argmin import ArgminContest
from field.compare.shells import shell_contest, shell_squares
from secfc.coded.policy import DistanceOracle
from secfc.coded.queries import Operation, Subject

# Numbers of pairs that are made at a time.
PART = 1 << 18


class Candidates(Protocol):
    """Rows of distances that compete for each point, and what winning means.  Everything here is public."""

    @property
    def contest(self) -> ArgminContest:
        """Which comparisons decide."""
        ...

    @property
    def rows(self) -> int:
        """How many distances of a point compete."""
        ...

    def count_points(self, m: int) -> int:
        """Number of points, of m, whose distances compete."""
        ...

    def labels_by_sizes(self, m: int) -> Array | None:
        """The labels (m,) int32 that follow from sizes alone, so that nobody is asked; None if none do."""
        ...

    def competing_distances(self, measured: DistanceOracle, lanes: int) -> Array:
        """The coded rows (lanes, rows, points): a share, secret."""
        ...

    def labels_of_winners(self, winners: Array) -> Array:
        """The labels (m,) int32 that winners (points,) mean."""
        ...

    @property
    def columns(self) -> Array:
        """The clusters whose sums these distances are made of."""
        ...

    def restrict_points(self, measured: DistanceOracle) -> DistanceOracle:
        """Distances of the points that compete."""
        ...

    def reply_check(self, labels: Array, summed: bool) -> ReplyCheck:
        """What replies are checked by.  summed: whether sums are those of the points of these labels (m,)."""
        ...


class AllPoints:
    """All points compete."""

    def count_points(self, m: int) -> int:
        return m

    def restrict_points(self, measured: DistanceOracle) -> DistanceOracle:
        return measured


@dataclass(frozen=True, eq=False)
class NearestCenter(AllPoints):
    """The nearest center of clusters of these sizes (k,), for a factor above 1 the one that much nearer."""

    sizes: Array
    factor: int = 1

    @cached_property
    def contest(self) -> ArgminContest:
        return _contest(tuple(self.sizes.tolist()), self.factor)

    @cached_property
    def alive(self) -> Array:
        """The clusters that take part: those with points."""
        return np.flatnonzero(self.sizes > 0)

    @property
    def rows(self) -> int:
        return len(self.alive)

    def labels_by_sizes(self, m: int) -> Array | None:
        if not self.rows:
            return np.full(m, -1, np.int32)
        return np.full(m, self.contest.labels[-1], np.int32) if self.rows == 1 else None

    def competing_distances(self, measured: DistanceOracle, lanes: int) -> Array:
        values = measured.distances(lanes)
        return values if self.rows == values.shape[1] else np.ascontiguousarray(values[:, self.alive])

    def labels_of_winners(self, winners: Array) -> Array:
        return winners

    @property
    def columns(self) -> Array:
        return self.alive

    def reply_check(self, labels: Array, summed: bool) -> ReplyCheck:
        own = _numbers(self.alive, labels) if summed else None
        kind = DistanceCheck if self.factor == 1 else SquaredCheck
        return kind(len(labels), tuple(self.sizes[self.alive].tolist()), own)


@dataclass(frozen=True, eq=False)
class OwnCenterWins(AllPoints):
    """Whether no other center wins a point from that of its cluster: a label is then as before, else -1.

    own: (m,) in [0, k), the cluster of each point.  sizes: (k,) of those that distances are measured to.
    ell: segments of a point.
    """

    own: Array
    sizes: Array
    ell: int

    @cached_property
    def alive(self) -> Array:
        """The clusters that take part: those with points."""
        return np.flatnonzero(self.sizes > 0)

    @cached_property
    def contest(self) -> ArgminContest:
        return _unbeaten(tuple(self.sizes.tolist()))

    @property
    def rows(self) -> int:
        return len(self.alive) - 1

    def labels_by_sizes(self, m: int) -> Array | None:
        return self.own.astype(np.int32) if self.rows < 1 else None

    def competing_distances(self, measured: DistanceOracle, lanes: int) -> Array:
        values = NearestCenter(self.sizes).competing_distances(measured, lanes)
        basis, own = measured.rows.basis.prefix(lanes), _numbers(self.alive, self.own)
        sizes, threads = self.sizes[self.alive], measured.rows.threads
        return distance_margins(basis, values, own, sizes, self.ell, threads=threads)

    def labels_of_winners(self, winners: Array) -> Array:
        return np.where(winners == 1, self.own, -1).astype(np.int32)

    @property
    def columns(self) -> Array:
        return self.alive

    def reply_check(self, labels: Array, summed: bool) -> ReplyCheck:
        sizes, own = tuple(self.sizes[self.alive].tolist()), _numbers(self.alive, self.own)
        return DistanceCheck(len(labels), sizes, own, summed=summed, margins=True)


@dataclass(frozen=True, eq=False)
class MovedPoints:
    """The nearest centers of some points alone; the others keep their labels (m,).  moved: bits (m,)."""

    own: Array
    sizes: Array
    moved: Array

    @property
    def contest(self) -> ArgminContest:
        return NearestCenter(self.sizes).contest

    @property
    def rows(self) -> int:
        return NearestCenter(self.sizes).rows

    def count_points(self, m: int) -> int:
        return int(np.count_nonzero(self.moved))

    def labels_by_sizes(self, m: int) -> Array | None:
        known = NearestCenter(self.sizes).labels_by_sizes(m)
        return None if known is None else self.labels_of_winners(known[self.moved])

    def competing_distances(self, measured: DistanceOracle, lanes: int) -> Array:
        return NearestCenter(self.sizes).competing_distances(self.restrict_points(measured), lanes)

    def labels_of_winners(self, winners: Array) -> Array:
        out: Array = self.own.astype(np.int32)
        out[self.moved] = winners
        return out

    @property
    def columns(self) -> Array:
        return NearestCenter(self.sizes).alive

    def restrict_points(self, measured: DistanceOracle) -> DistanceOracle:
        rows, sums = measured.rows.select_rows(np.flatnonzero(self.moved)), measured.sums
        return replace(measured, rows=rows, compute=lambda: sums)

    def reply_check(self, labels: Array, summed: bool) -> ReplyCheck:
        return DistanceCheck(self.count_points(len(labels)), tuple(self.sizes[self.columns].tolist()), None)


@dataclass(frozen=True, eq=False)
class NearerHalf(AllPoints):
    """The nearer half of a point's own cluster, after halves (m,) in [0, 2 c) of these sizes (2 c,).

    Of every point one number competes, whose sign says which half is nearer: the difference of its distances,
    each multiplied by what makes both halves of a cluster as large.  So one contest serves all points, within
    the modulus that distances to any two clusters may need (`field.ring.quantize.headroom`).
    """

    halves: Array
    sizes: Array

    @cached_property
    def contest(self) -> ArgminContest:
        return _sign(widest_multiple(self.sizes))

    @property
    def rows(self) -> int:
        return 1

    def labels_by_sizes(self, m: int) -> Array | None:
        return None if widest_multiple(self.sizes) else self.halves.astype(np.int32)

    def competing_distances(self, measured: DistanceOracle, lanes: int) -> Array:
        return np.ascontiguousarray(measured.gaps(lanes)[:, None])

    def labels_of_winners(self, winners: Array) -> Array:
        # Where a half is empty the number is 0: the points stay where they are.
        a, b = self.sizes.reshape(-1, 2).T
        own = self.halves // 2
        return np.where(((a > 0) & (b > 0))[own], 2 * own + winners, self.halves).astype(np.int32)

    @property
    def columns(self) -> Array:
        return np.arange(len(self.sizes))

    def reply_check(self, labels: Array, summed: bool) -> ReplyCheck:
        return HalfCheck(self.halves, tuple(self.sizes.tolist()), summed)


@dataclass(frozen=True, eq=False)
class BisectorSide(AllPoints):
    """The nearest center of clusters whose sizes nobody knows; sizes: (k,), 0 where nothing can be.

    points: how many.  Of every point a number competes for each two clusters, whose sign says which is nearer
    (`field.compare.shared_step.signed_bisectors`).
    """

    sizes: Array
    points: int

    @cached_property
    def contest(self) -> ArgminContest:
        nearest = _contest(tuple((self.sizes > 0).astype(int).tolist()), 1)
        # The bit [0 < D] of a row of its own.
        return replace(nearest, comparisons=tuple((q, q, 0, 1) for q in range(self.rows)))

    @property
    def rows(self) -> int:
        count = int(np.count_nonzero(self.sizes))
        return count * (count - 1) // 2

    def labels_by_sizes(self, m: int) -> Array | None:
        return NearestCenter(self.sizes).labels_by_sizes(m)

    def competing_distances(self, measured: DistanceOracle, lanes: int) -> Array:
        planes = np.ascontiguousarray(measured.rows.residues(measured.sums)[:lanes])
        normals, offsets = (np.ascontiguousarray(part) for part in (planes[:, :, 1:], planes[:, :, 0]))
        return np.ascontiguousarray(measured.rows.multiply_rows(normals, offsets))

    def labels_of_winners(self, winners: Array) -> Array:
        return winners

    @property
    def columns(self) -> Array:
        return np.arange(self.rows)

    def reply_check(self, labels: Array, summed: bool) -> ReplyCheck:
        return PlaneCheck(self.points, self.rows)


@dataclass(frozen=True, eq=False)
class NearestShell(AllPoints):
    """The shell about the nearest of public centers, see `field.compare.shells`.

    flats: (k,) their squared norms, and radius: both in steps.
    """

    flats: tuple[int, ...]
    radius: int

    @property
    def rows(self) -> int:
        return len(self.flats)

    @cached_property
    def contest(self) -> ArgminContest:
        return shell_contest(self.rows, self.radius)

    @property
    def known(self) -> tuple[int, ...]:
        """Rows of the contest that all know."""
        return shell_squares(self.radius)

    def labels_by_sizes(self, m: int) -> Array | None:
        return None

    def competing_distances(self, measured: DistanceOracle, lanes: int) -> Array:
        return measured.distances(lanes)

    def labels_of_winners(self, winners: Array) -> Array:
        return winners

    @property
    def columns(self) -> Array:
        return np.arange(self.rows)

    def reply_check(self, labels: Array, summed: bool) -> ReplyCheck:
        return SquareCheck(len(labels), self.flats)


@dataclass(frozen=True, eq=False)
class NearPairs:
    """Which pairs of points are near: the square of their distance is at most this.  ell: segments.

    Of two blocks of points, or of one and the first point of all.  The "points" that are compared are pairs
    of one number each: square + 1 - D, above 0 where they are near.  Of one block they are in the order of
    `numpy.triu_indices`, of two those of a point of the other block follow one another.
    """

    square: int
    ell: int
    block: range
    other: range

    @property
    def within(self) -> bool:
        """Whether it is about one block."""
        return self.block == self.other

    @cached_property
    def points(self) -> Array:
        """Numbers of the points: of a block, with the first of all ahead."""
        ahead = [0] if self.within and self.block.start else []
        return np.array([*ahead, *self.block])

    @property
    def contest(self) -> ArgminContest:
        return _sign(1)

    @property
    def rows(self) -> int:
        return 1

    def count_points(self, m: int) -> int:
        count = len(self.points)
        return count * (count - 1) // 2 if self.within else count * len(self.other)

    def labels_by_sizes(self, m: int) -> Array | None:
        return None if self.count_points(m) else np.zeros(0, np.int32)

    def competing_distances(self, measured: DistanceOracle, lanes: int) -> Array:
        sums, rows = measured.sums, self.restrict_points(measured).rows
        others = self.points if self.within else np.array(self.other)
        about = ClusterSums(sums.values[:, others], sums.sizes[others], NOBODYS)
        basis, count = rows.basis.prefix(lanes), self.count_points(0)
        # What is shared is the sum over segments, so each has its part of a constant.
        part = np.array([[(self.square + 1) * pow(self.ell, -1, p) % p] for p in basis.primes], basis.dtype)
        values = pair_distances(rows, about, lanes) if self.within else rows.measure_distances(about, lanes)
        values = values.reshape(lanes, count)
        for begin in range(0, count, PART):
            part_of = values[:, begin : begin + PART]
            part_of[...] = basis.add(basis.negate(np.ascontiguousarray(part_of)), part)
        return values[:, None]

    def labels_of_winners(self, winners: Array) -> Array:
        return winners

    @property
    def columns(self) -> Array:
        return self.points if self.within else np.array([*self.other, 0])

    def restrict_points(self, measured: DistanceOracle) -> DistanceOracle:
        if len(self.points) == measured.rows.m:
            return measured
        rows, sums = measured.rows.select_rows(self.points), measured.sums
        return replace(measured, rows=rows, compute=lambda: sums)

    def reply_check(self, labels: Array, summed: bool) -> ReplyCheck:
        count = len(self.points)
        if self.within:
            return NearCheck(count, self.square)
        return AcrossCheck(count, self.square, len(self.other), self.block.start == 0)


def about_block(subject: Subject, block: range) -> Subject:
    """What is asked about two blocks of points, asked about one."""
    ends = block.start, block.stop
    return replace(subject, detail=np.array([subject.needed_detail[0], *ends, *ends], np.int64))


def first_pairs(rivals: Candidates, values: Array) -> Array | None:
    """Replies about the first point, of those (lanes, 1, pairs) to a question about one block: a copy."""
    if not isinstance(rivals, NearPairs) or not rivals.within:
        return None
    return np.ascontiguousarray(values[:, 0, : len(rivals.points) - 1]).copy()


class FirstPairs:
    """What one party has of the replies about each block's points and the first of all, or of their masks.

    They were checked with their block, so between two blocks nothing can be added to any
    (`field.code.pair_check`).  A committee has its own: with another one all blocks are asked once more.
    """

    def __init__(self) -> None:
        self.committee: tuple[int, ...] = ()
        self.kept: dict[range, Array] = {}

    def __repr__(self) -> str:
        return f"FirstPairs({len(self.kept)} blocks, secret)"

    def keep(self, members: Array, rivals: Candidates, pairs: Array | None) -> None:
        """Keep what a question about one block gives.  pairs: see `first_pairs`; None at who has none."""
        if not isinstance(rivals, NearPairs) or not rivals.within:
            return
        if self.committee != tuple(members.tolist()):
            self.committee, self.kept = tuple(members.tolist()), {}
        self.kept[rivals.block] = np.empty((0, 0)) if pairs is None else pairs

    def keep_masks(self, members: Array, rivals: Candidates, masks: tuple[Array, Array] | None) -> None:
        """Keep what a dealer has, once members have checked their replies: before, the server may have asked
        it alone.  masks: as it dealt them, None at who deals nothing."""
        if masks is not None:
            self.keep(members, rivals, first_pairs(rivals, masks[0]))

    def forget(self, rivals: Candidates) -> None:
        """Drop what is kept of a block that is asked about again: of this question others may keep theirs."""
        if isinstance(rivals, NearPairs) and rivals.within:
            self.kept.pop(rivals.block, None)

    def lacking(self, members: Array, rivals: Candidates) -> list[range]:
        """The blocks that this committee was not asked about, of two that it is asked about."""
        if not isinstance(rivals, NearPairs) or rivals.within:
            return []
        there = self.kept if self.committee == tuple(members.tolist()) else {}
        return [block for block in (rivals.block, rivals.other) if block not in there]

    def beside(self, rivals: Candidates, further: Array) -> Array:
        """Further replies (lanes, more), or their masks, with what is kept of two blocks behind them."""
        if not isinstance(rivals, NearPairs) or rivals.within:
            return further
        return np.concatenate([further, self.kept[rivals.block], self.kept[rivals.other]], axis=1)


def _numbers(alive: Array, labels: Array) -> Array:
    """The number of each point's cluster (m,) among those that are alive, -1 for none."""
    number = np.full(int(max(alive.max(initial=0), labels.max(initial=0))) + 2, -1)
    number[alive] = np.arange(len(alive))
    return number[labels]  # the last one is for -1


def candidates_in(subject: Subject, sizes: Array, ell: int, d: int) -> Candidates:
    """What is compared; sizes: of the clusters that distances are measured to.

    ell, d: segments and features of a point.
    """
    match subject.operation:
        case Operation.COMPARE_OWN:
            return OwnCenterWins(subject.labels, sizes, ell)
        case Operation.COMPARE_MOVED:
            return MovedPoints(subject.labels, sizes, moved_points(subject))
        case Operation.NOISY_SUMS:
            centers = subject.needed_detail[2 : 2 + subject.k * d].reshape(-1, d)
            flats = tuple((centers**2).sum(axis=1).tolist())
            return NearestShell(flats, int(subject.needed_detail[1]))
        case Operation.WITHIN:
            square, *ends = subject.needed_detail.tolist()
            return NearPairs(square, ell, range(*ends[:2]), range(*ends[2:]))
        case halves if halves.halves:
            return NearerHalf(subject.labels, sizes)
    return NearestCenter(sizes, subject.factor)


def moved_points(subject: Subject) -> Array:
    """Which points moved, (m,) truth values, of those that `Operation.COMPARE_MOVED` is about."""
    bits = np.unpackbits(subject.needed_detail, count=len(subject.labels), bitorder="little")
    return bits.astype(np.bool_)


@lru_cache(maxsize=8)
def _sign(width: int) -> ArgminContest:
    return ArgminContest.sign(width)


@lru_cache(maxsize=8)
def _unbeaten(sizes: tuple[int, ...]) -> ArgminContest:
    return ArgminContest.unbeaten(np.array(sizes))


@lru_cache(maxsize=8)
def _contest(sizes: tuple[int, ...], factor: int) -> ArgminContest:
    """Public, so that parties in one process may have it together."""
    return (
        ArgminContest.nearest(np.array(sizes))
        if factor == 1
        else ArgminContest.separated(np.array(sizes), factor)
    )
