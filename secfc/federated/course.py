"""The public course of `FederatedLloyd`: what everybody does next, computed by every party from totals alone.

All that a start or a step of Lloyd's asks for follows from the sums and the numbers of points of the clusters
so far, exactly: centers, what splits gain, what merging any two costs, whether anything changed.  So the
server, which adds up, decides nothing.  Every instruction is of one kind, to go to the nearest of centers;
halves of a cluster are the nearest of two centers on both sides of its mean.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

import numpy as np

from field.arrays import Array
from secfc.federated.model import KnownCenters
from secfc.kmeans.elbow import CostCurve, Elbow
from secfc.kmeans.loop import CostRequest, GainRequest, Moves, RefineRequest, SplitRequest, exact_gains
from secfc.kmeans.splitting import Splitting
from secfc.kmeans.starts import RestartLabels


@dataclass(frozen=True, eq=False, repr=False)
class Totals:
    """What is opened of some labels, as a party knows it on its d_j features, in integer steps.

    sums: (c, d_j) int64.  counts: points that have a value there, (c, d_j) int64.  there: clusters that have
    points anywhere, (c,).  changed: clients any of whose labels changed, and one more if others are counted
    than in the sum before.  square: the sum of squared norms of all points, None if it is not asked for.
    held: points that a floor kept where they were.  silhouettes: the mean of points by each of
    `Near.levels`.
    """

    sums: Array
    counts: Array
    there: Array
    changed: int
    square: int | None = None
    held: int = 0
    silhouettes: tuple[float, ...] = ()

    def group_clusters(self, groups: Array, least: int = 0) -> Totals:
        """Totals after clusters got these numbers (c,), -1 for one without points; several may become one.

        least: how many clusters there are at least.
        """
        c, kept = max(least, int(groups.max()) + 1), groups >= 0
        sums, counts = np.zeros((2, c, self.sums.shape[1]), np.int64)
        np.add.at(sums, groups[kept], self.sums[kept])
        np.add.at(counts, groups[kept], self.counts[kept])
        return Totals(sums, counts, np.asarray(counts.any(axis=1)), 0)

    @property
    def sizes(self) -> Array:
        """Points of every cluster (c,), where all clients observe all features."""
        return self.counts[:, 0]

    @property
    def means(self) -> Array:
        """Centers (c, d) of clusters that all have points."""
        return np.asarray(self.sums / self.counts)


@dataclass(frozen=True, eq=False, repr=False)
class Near:
    """Every point to the nearest of centers.  groups: the number that each cluster so far has first, as in
    `Totals.group_clusters`.  step: whether this is a step of Lloyd's, and not of its start.  levels: instead,
    how well clusters so far are apart, with these groups (c,) of them and their centers (k, d), in integer
    steps: simplified silhouettes, see `CostCurve`.  sample: the number of the sample whose rows go alone,
    None for all rows.
    """

    groups: Array
    centers: KnownCenters
    step: bool = False
    sample: int | None = None
    levels: tuple[tuple[Array, Array], ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class CourseEnd:
    """Where a course ends.  cost: in squared integer steps, exact; None without `Totals.square`.  held: as in
    the last totals.
    """

    centers: KnownCenters
    n_iter: int
    converged: bool
    cost: Fraction | None = None
    curve: CostCurve | None = None
    held: int = 0


Course = Generator[Near, Totals, CourseEnd]


def cost_of_totals(told: Totals, square: int) -> Fraction:
    """The sum of squared distances of all points to their means, in squared integer steps."""
    parts = (
        Fraction(sum(x * x for x in row), n)
        for row, n in zip(told.sums.tolist(), told.sizes.tolist(), strict=True)
        if n
    )
    return square - sum(parts, start=Fraction(0))


def iterate_lloyd(
    known: KnownCenters, groups: Array, max_iter: int, square: int | None = None, step: int = 0
) -> Course:
    """Lloyd's steps from centers, of which `step` are done, until no label and nobody counted changes, or
    max_iter are done.  square: of totals that do not say theirs.
    """
    while True:
        told = yield Near(groups, known, step=True)
        known, groups = known.update_centers(told.sums, told.counts, told.there), np.arange(len(told.sums))
        step += 1
        square = square if told.square is None else told.square
        if not told.changed or step >= max_iter:
            cost = None if square is None else cost_of_totals(told, square)
            return CourseEnd(known, step, not told.changed, cost, held=told.held)


def iterate_from_labels(told: Totals, max_iter: int) -> Course:
    """A run from labels that clients have, of which these are the totals."""
    none = KnownCenters.no_centers(*told.sums.shape)
    known = none.update_centers(told.sums, told.counts, told.there)
    return iterate_lloyd(known, np.arange(len(told.sums)), max_iter, told.square)


def iterate_from_centers(
    known: KnownCenters, max_iter: int, groups: Array | None = None, square: int | None = None
) -> Course:
    """A run from centers that all have: of the labels of the nearest, as from any labels.  groups, square: of
    the labels before, by default one cluster.
    """
    told = yield Near(np.zeros(1, np.int64) if groups is None else groups, known)
    return (yield from iterate_from_labels(replace(told, square=told.square or square), max_iter))


def find_light(flows: Array, caps: Sequence[int], floor: int, t: int) -> Array:
    """Cells (b, c), bool, of few points between clusters of two openings, of how many points are in both.

    flows: (caps, b, c); of each cell a client counts at most so many of its own points as the cap says, so of
    those that t clients do not hold it has the total less t caps.  Clusters of either opening are joined
    while surely `floor` points are in cells between two groups of them; what has points between groups that
    stay apart is light.  Without such cells each sum of clusters of both openings, of any weights, has
    of the points of all but any t clients none or at least `floor` at weights other than 0: points that
    separate weights are a cut between groups, and each cut parts two groups that were joined.
    """
    sure = np.max([flow - t * cap for flow, cap in zip(flows, caps, strict=True)], axis=0, initial=0)
    b, c = sure.shape
    between, groups = np.zeros((b + c, b + c)), np.arange(b + c)
    between[:b, b:] = sure  # doubles hold numbers of rows below 2**53 exactly
    between += between.T
    while True:
        each = (groups == np.arange(b + c)[:, None]).astype(float)
        heavy = each @ between @ each.T >= floor
        np.fill_diagonal(heavy, True)
        first = heavy.argmax(axis=1)  # what a group is joined with: two that join one meet at last
        if (first == np.arange(b + c)).all():
            return np.asarray((flows.max(axis=0) > 0) & (groups[:b, None] != groups[None, b:]))
        groups = first[groups]


class OpenedSums:
    """What a start asks for, answered from totals; a cluster's labels move by instructions only.

    places: of each feature of the totals its column in directions.
    """

    def __init__(self, told: Totals, places: Sequence[int]) -> None:
        self.told, self.square, self.places = told, told.square, list(places)

    def grow_clusters(self, moves: Callable[[int], Moves]) -> Generator[Near, Totals, Array]:
        """The groups of the clusters so far that moves end with, see `secfc.kmeans.splitting`."""
        course, answer = moves(len(self.places)), cast("Any", None)
        while True:
            try:
                move = course.send(answer)
            except StopIteration as done:
                return np.asarray(done.value)
            now, self.square = self.told.group_clusters(move.groups), self.told.square or self.square
            match move:
                case SplitRequest():
                    # Before it, all points of a cluster are in its first half.
                    firsts = np.where(move.groups < 0, -1, 2 * move.groups)
                    self.told = yield Near(firsts, self.cut_clusters(now, move.directions))
                    answer = self.told.sizes
                case RefineRequest():
                    self.told = yield Near(move.groups, KnownCenters(now.sums, now.counts, now.there))
                    answer = self.told.changed == 0, self.told.sizes
                case GainRequest():
                    unions = np.stack([move.sides == 1, move.sides == 2], axis=1).astype(np.int64)
                    answer = move.choose(exact_gains(unions @ now.sums, unions @ now.sizes))
                case CostRequest():
                    answer = self.price_clusters(now)

    def cut_clusters(self, now: Totals, directions: Array) -> KnownCenters:
        """Two centers of each cluster, beside its mean: a step along its direction, and against it."""
        aside = now.counts * directions[:, self.places].astype(np.int64)
        both = np.stack([now.sums + aside, now.sums - aside], axis=1).reshape(-1, len(self.places))
        return KnownCenters(both, np.repeat(now.counts, 2, axis=0), np.repeat(now.there, 2))

    def price_clusters(self, now: Totals) -> tuple[Fraction, ...]:
        """What clusters cost, as `CostRequest` has it: all in the first, as only the total is known."""
        if self.square is None:
            raise AssertionError("k is chosen by costs, for which squares are asked for")
        rest = [Fraction(0)] * (len(now.sums) - 1)
        return (cost_of_totals(now, self.square) * int(now.sizes[0]) ** 2, *rest)


def split_and_iterate(
    told: Totals,
    places: Sequence[int],
    start: Splitting,
    m: int,
    k: int | Elbow,
    max_iter: int,
    rng: np.random.Generator,
    *,
    judged: bool = False,
) -> Course:
    """A run from all m points in one cluster, of which these are the totals.

    judged: whether silhouettes are asked for: where k is chosen of each, and of the clusters in the end.
    """
    source, drawing = OpenedSums(told, places), RestartLabels(start, m, k)
    # It answers what such starts ask for, in other instructions than exchanges.
    groups, found = yield from cast("Any", drawing(rng, cast("Any", source)))
    curve = drawing.curve
    if judged and curve is not None and curve.levels and curve.has_choice:
        curve = replace(curve, silhouettes=(yield from judge_clusters(source.told, curve.levels)))
    first = source.told.group_clusters(groups)
    known = KnownCenters(*(_padded(part, found) for part in (first.sums, first.counts, first.there)))
    end = yield from iterate_lloyd(known, groups, max_iter, source.square)
    there = end.centers.there
    if judged and curve is not None and np.count_nonzero(there) > 1:
        ends = Totals(end.centers.sums, end.centers.counts, there, 0)
        (silhouette,) = yield from judge_clusters(ends, [np.where(there, np.cumsum(there) - 1, -1)])
        curve = replace(curve, silhouette=silhouette)
    return replace(end, curve=curve)


def judge_clusters(now: Totals, levels: Sequence[Array]) -> Generator[Near, Totals, tuple[float, ...]]:
    """The mean silhouette of points by each of these groups (c,) of clusters, see `Near.levels`."""
    groups, none = np.arange(len(now.sums)), KnownCenters.no_centers(*now.sums.shape)
    each = tuple((one, now.group_clusters(one).means) for one in levels)
    return (yield Near(groups, none, levels=each)).silhouettes


def sample_and_iterate(first: Totals, course: Course, batches: int, max_iter: int) -> Course:
    """A run over all rows, from where a course ends that is of the first sample, with these totals, and so
    many others.

    Each of these adds to the sums so far, so a center goes towards the mean of a sample's rows by their part
    of all that it had.
    """
    near = next(course)
    while True:
        told = yield replace(near, step=False, sample=0)
        try:
            near = course.send(told)
        except StopIteration as done:
            known: KnownCenters = done.value.centers
            break
    groups = np.arange(len(known.there))
    sums, counts = (part * known.there[:, None] for part in (known.sums, known.counts))
    for sample in range(1, 1 + batches):
        told = yield Near(groups, known, sample=sample)
        if not told.changed:  # a floor kept all rows where they were, so these totals are those before
            continue
        sums, counts = sums + told.sums, counts + told.counts
        known = known.update_centers(sums, counts, known.there | told.there)
    return (yield from iterate_from_centers(known, max_iter, groups, first.square))


class Restarts:
    """Runs side by side, each with a course of its own, from labels of which `first` are the totals.

    asked: what each that goes on asks for, by its number.  ends: of those that ended.  max_iter: Lloyd's
    steps in each.
    """

    def __init__(self, courses: Sequence[Course], first: Totals, max_iter: int) -> None:
        self.courses, self.max_iter = dict(enumerate(courses)), max_iter
        self.asked = {number: next(course) for number, course in self.courses.items()}
        self.told = dict.fromkeys(self.courses, first)
        self.ends: dict[int, CourseEnd] = {}

    def hear(self, told: Mapping[int, Totals], held: Mapping[int, int], others: bool = False) -> None:
        """Totals of what was asked for, by number, without those in which no point moves: these follow from
        the ones before.  held: of each run, as in `Totals`; 0 where it is not said.  others: whether others
        are counted than before; then, if runs had ended, all that have take a step more, as costs are of
        those counted last.  Those that end now step with them, or two would end in turn for ever.
        """
        again = others and bool(self.ends)
        for number, near in tuple(self.asked.items()):
            totals = told.get(number) or self.told[number].group_clusters(
                near.groups, len(near.centers.counts)
            )
            changed = totals.changed + others
            self.told[number] = totals = replace(totals, held=held.get(number, 0), changed=changed)
            self.tell_course(number, totals)
        for number, end in tuple(self.ends.items()) if again else ():
            groups = np.arange(len(end.centers.there))
            self.courses[number] = iterate_lloyd(end.centers, groups, self.max_iter, step=end.n_iter)
            self.asked[number] = next(self.courses[number])
            del self.ends[number]

    def hear_silhouettes(self, found: tuple[float, ...]) -> None:
        """Means of what the only run asks for."""
        (number,) = self.courses
        self.tell_course(number, replace(self.told[number], silhouettes=found))

    def tell_course(self, number: int, totals: Totals) -> None:
        """Ask next what a course answers to totals, unless it ends."""
        try:
            self.asked[number] = self.courses[number].send(totals)
        except StopIteration as done:
            self.ends[number] = done.value
            del self.asked[number]

    @property
    def levels(self) -> tuple[tuple[Array, Array], ...]:
        """What the only run asks silhouettes of, see `Near.levels`; else nothing."""
        return next((near.levels for near in self.asked.values() if near.levels), ())

    @property
    def best(self) -> int:
        """The number of the run of least cost, the first of several."""
        costs = {number: end.cost for number, end in self.ends.items()}
        return min(costs, key=lambda number: (costs[number] or 0, number))


def _padded(rows: Array, k: int) -> Array:
    """Rows for k clusters, where fewer have points."""
    return np.concatenate([rows, np.zeros((k - len(rows), *rows.shape[1:]), rows.dtype)])
