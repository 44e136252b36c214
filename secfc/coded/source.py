"""Lloyd's steps from coded replies: what the server asks for and decodes (Algorithm 1, lines 14 to 18)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from field.arrays import Array
from field.code.distances import decode_nearest, decode_scaled
from field.code.rows import cluster_sizes
from field.ring.uint128 import UInt128
from secfc.coded.plan import CodedPlan
from secfc.coded.queries import Operation
from secfc.coded.quorum import Quorum
from secfc.kmeans.bisecting import Dendrogram, number_clusters
from secfc.kmeans.loop import (
    Moves,
    Source,
    Step,
    Trace,
    WeighedClusters,
    all_pairs,
    gains_from_distances,
    halves_from_distances,
    lloyd,
    losses_from_distances,
    weigh_by_distances,
)
from secfc.roles.exchange import Exchange, Role, to_all
from secfc.roles.messages import FinalResult, compact_labels

# A whole run of the heuristic from labels, with so many clusters and at most so many steps of this source.
WholeRun = Callable[[Array, int, int, Source], Role[Trace]]


class LabelingRule(Protocol):
    """What turns replies into labels."""

    def take_step(self, labels: Array, k: int, moved: int | None = None) -> Role[Step]:
        """The next assignment after labels (m,) in [-1, k), of which the step before moved so many."""
        ...

    def separate_points(self, labels: Array, k: int, factor: int) -> Role[Array]:
        """The center whose factor-fold squared distance is at most every other's, or -1: (m,) int32."""
        ...

    def label_new_points(self, sizes: Array) -> Role[Array]:
        """The nearest of the centers that clients retained, of clusters of these sizes: (m,) int32."""
        ...

    def cluster_costs(self, labels: Array, k: int) -> Role[tuple[int | Fraction, ...]]:
        """For each cluster the sum of scaled distances of its own points: k integers."""
        ...

    def halve_clusters(self, labels: Array, c: int) -> Role[Array]:
        """The nearer half of its own cluster for each point, see `lloyd.Source`: (m,) int32."""
        ...

    def gains_of_halves(self, labels: Array, c: int) -> Role[tuple[Fraction, ...]]:
        """What the halves of each cluster gain, see `lloyd.Source`."""
        ...

    def losses_of_merges(self, labels: Array, c: int, pairs: Array) -> Role[tuple[Fraction, ...]]:
        """What merging these clusters costs, (pairs, 2) of them, see `lloyd.Source`."""
        ...

    def weigh_merges(self, labels: Array, c: int) -> Role[WeighedClusters]:
        """What merging every two clusters costs, and what the clusters cost."""
        ...


class OutputPhase(Protocol):
    """How a run ends: what the server opens and tells everybody."""

    def finish_fit(self, source: CodedSource, plan: CodedPlan, trace: Trace) -> Role[Array | None]:
        """The end of a run, of which trace is the best restart: the centers (k, d), if they are opened."""
        ...

    def finish_prediction(self, source: CodedSource, sizes: Array) -> Role[Array | None]:
        """New points are labeled by retained centers, of clusters of these sizes (k,).

        Their labels (m,), None where the server does not learn them.
        """
        ...


class PublishedLabels:
    """All learn all labels from the server."""

    def finish_fit(self, source: CodedSource, plan: CodedPlan, trace: Trace) -> Role[Array | None]:
        centers = None
        if plan.revealing:
            centers = yield from source.reveal_centers(trace.labels.astype(np.int32), plan.k)
        final = FinalResult(plan.k, trace.labels, centers)
        yield Exchange(to_all(plan.clients, final), round=next(source.rounds), phase="finish")
        return centers

    def finish_prediction(self, source: CodedSource, sizes: Array) -> Role[Array | None]:
        labels: Array = compact_labels((yield from source.label_new_points(sizes)))
        final = FinalResult(len(sizes), labels, None)
        clients = source.quorum.plan.clients
        yield Exchange(to_all(clients, final), round=next(source.rounds), phase="finish")
        return labels


PUBLISHED = PublishedLabels()


@dataclass(frozen=True, eq=False, repr=False)
class CodedSource:
    """A `lloyd.Source` of what clients answer about shares.

    quorum: who is asked.  labeling: what turns replies into labels.  run: how a whole run goes, step by step
    if nothing else is said.  ending: what is told of its result.  growing: how clusters grow
    where labels stay shared.  pricing: what merging the last clusters of a run costs, there.
    """

    quorum: Quorum
    labeling: LabelingRule
    run: WholeRun = lloyd
    ending: OutputPhase = PUBLISHED
    growing: Callable[[Callable[[int], Moves]], Role[Any]] | None = None
    pricing: Callable[[Trace], Role[Dendrogram]] | None = None

    @property
    def rounds(self) -> Iterator[int]:
        """Numbers of questions that were not asked yet."""
        return self.quorum.desk.rounds

    def halve_clusters(self, labels: Array, c: int) -> Role[Array]:
        """See `LabelingRule`."""
        return self.labeling.halve_clusters(labels, c)

    def split_clusters(
        self, labels: Array, c: int, choose: Callable[[tuple[Fraction, ...]], Array]
    ) -> Role[Array]:
        return choose((yield from self.labeling.gains_of_halves(labels, c)))

    def merge_clusters(
        self, labels: Array, c: int, pairs: Array, choose: Callable[[tuple[Fraction, ...]], Array]
    ) -> Role[Array]:
        return choose((yield from self.labeling.losses_of_merges(labels, c, pairs)))

    def weigh_merges(self, labels: Array, c: int, choose: Callable[[WeighedClusters], Array]) -> Role[Array]:
        return choose((yield from self.labeling.weigh_merges(labels, c)))

    def draw_points(self, labels: Array, k: int, draw: Callable[[UInt128], Array]) -> Role[Array]:
        distances = yield from decode_scaled_distances(self.quorum, labels, k)
        # A draw rounds them to floats, so it gets those of the points themselves.
        return draw(distances.divided(self.quorum.plan.layout.multiple**2))

    def grow_clusters(self, moves: Callable[[int], Moves]) -> Role[Any]:
        """What stands for the clusters that moves lead to, see `secfc.kmeans.splitting`."""
        if self.growing is None:
            raise ValueError("no clusters grow here: the plan should have been refused")
        return self.growing(moves)

    def take_step(self, labels: Array, k: int, moved: int | None = None) -> Role[Step]:
        return self.labeling.take_step(labels, k, moved)

    def separate_points(self, labels: Array, k: int, factor: int) -> Role[Array]:
        return self.labeling.separate_points(labels, k, factor)

    def label_new_points(self, sizes: Array) -> Role[Array]:
        """See `LabelingRule`."""
        return self.labeling.label_new_points(sizes)

    def cluster_costs(self, labels: Array, k: int) -> Role[tuple[int | Fraction, ...]]:
        """See `LabelingRule`."""
        return self.labeling.cluster_costs(labels, k)

    def price_merges(self, trace: Trace) -> Role[Dendrogram]:
        """What merging each two of the clusters costs that a run ended with; of fewer nobody is asked."""
        if self.pricing is not None:
            return (yield from self.pricing(trace))
        sizes = cluster_sizes(trace.labels.astype(np.int32), trace.k)
        labels, c = number_clusters(trace.labels), int(np.count_nonzero(sizes))
        costs = () if c < 2 else (yield from self.labeling.losses_of_merges(labels, c, all_pairs(c)))
        return Dendrogram(sizes, costs)

    def run_lloyd(self, labels: Array, k: int, max_iter: int) -> Role[Trace]:
        """A whole run of the heuristic."""
        return self.run(labels, k, max_iter, self)

    def reveal_centers(self, labels: Array, k: int) -> Role[Array]:
        """The centers (k, d) in data units, from the shares of the clients that consent."""
        sums = yield from self.quorum.ask_sums(labels, k)
        return centers_of(self.quorum.plan, sums, cluster_sizes(labels, k))


def centers_of(plan: CodedPlan, sums: Array, sizes: Array) -> Array:
    """The centers (k, d) in data units of clusters of these sizes (k,), from sums (k, d) of their rows."""
    # Sums without noise are so many times those of the points, and this division of integers leaves
    # nothing; with noise it leaves less than a step.
    values, counts = (sums // plan.layout.multiple).astype(np.float64), sizes[:, None]
    # A cluster without points, or of too few, has no center, also where there is noise on its sum.
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(counts >= plan.smallest_center, values / (counts * plan.quantizer.scale), np.nan)


@dataclass(frozen=True, eq=False, repr=False)
class DistanceDecoding:
    """The server decodes distances, and compares them itself."""

    quorum: Quorum
    threads: int = 1

    def take_step(self, labels: Array, k: int, moved: int | None = None) -> Role[Step]:
        values = yield from self.quorum.replies(labels, k)
        sizes = cluster_sizes(labels, k)
        code, offset = self.quorum.plan.code, self.quorum.offset(labels, k)
        nearest, within = decode_nearest(code, values, sizes, labels, threads=self.threads)
        # s_h own points with s_h**2 times the offset each.  Costs under noise may be negative.
        costs = zip(within, sizes.tolist(), strict=True)
        return Step(nearest, tuple(w - offset * s**3 for w, s in costs))

    def separate_points(self, labels: Array, k: int, factor: int) -> Role[Array]:
        return (yield from decode_scaled_distances(self.quorum, labels, k)).separated(
            cluster_sizes(labels, k), factor
        )

    def pairs(self, labels: Array, c: int) -> Role[UInt128]:
        """Exact scaled distances (2, m) of each point to both halves of its cluster."""
        return decode_scaled(
            self.quorum.plan.code,
            (yield from self.quorum.replies(labels, 2 * c, operation=Operation.HALF_DISTANCE)),
        )

    def halve_clusters(self, labels: Array, c: int) -> Role[Array]:
        return halves_from_distances((yield from self.pairs(labels, c)), labels, c)

    def gains_of_halves(self, labels: Array, c: int) -> Role[tuple[Fraction, ...]]:
        return gains_from_distances((yield from self.pairs(labels, c)), labels, c)

    def losses_of_merges(self, labels: Array, c: int, pairs: Array) -> Role[tuple[Fraction, ...]]:
        return losses_from_distances(
            (yield from decode_scaled_distances(self.quorum, labels, c)), labels, c, pairs
        )

    def weigh_merges(self, labels: Array, c: int) -> Role[WeighedClusters]:
        return weigh_by_distances((yield from decode_scaled_distances(self.quorum, labels, c)), labels, c)

    def label_new_points(self, sizes: Array) -> Role[Array]:
        plan = self.quorum.plan
        nobody = np.full(plan.m, -1, np.int32)
        values = yield from self.quorum.replies(nobody, len(sizes), sizes)
        return decode_nearest(plan.code, values, sizes, nobody, threads=self.threads)[0]

    def cluster_costs(self, labels: Array, k: int) -> Role[tuple[int | Fraction, ...]]:
        return (yield from decode_scaled_distances(self.quorum, labels, k)).within(labels)


def decode_scaled_distances(quorum: Quorum, labels: Array, k: int) -> Role[UInt128]:
    """Scaled distances (k, m) to the centers of labels, decoded from the replies of a quorum."""
    values = yield from quorum.replies(labels, k)
    return decode_scaled(quorum.plan.code, values)


def decoding_source(quorum: Quorum, threads: int) -> CodedSource:
    """The source of a server that decodes what this quorum answers."""
    return CodedSource(quorum, DistanceDecoding(quorum, threads))
