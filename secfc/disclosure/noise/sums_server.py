"""The server in a run of noisy sums: what it asks, where it starts, and the centers that answers give."""

from __future__ import annotations

import math

import numpy as np

from field.arrays import Array
from field.compare.assignment_step import AssignmentStep
from field.compare.shells import UNIT
from field.ring.noise import Deviation, discrete_gaussian
from field.secrets.coins import Coins
from secfc.coded.messages import CodedCenters, RunEnded
from secfc.coded.plan import CodedPlan
from secfc.coded.queries import Operation, Subject
from secfc.coded.source import CodedSource
from secfc.disclosure.compare.server import CommitteeServer
from secfc.disclosure.noise.noise import Noise
from secfc.disclosure.noise.sums_question import GROUPS, LEAST_RADIUS, SumsQuestion, opened_numbers
from secfc.disclosure.owner_labels.server import collect_shares
from secfc.errors import TooFewReplies
from secfc.feddp.server_estimates import (
    GroupAnswer,
    PlacedCenters,
    directions_of_sums,
    join_groups,
    mean_of_groups,
    nearest_squares,
    place_centers,
    project_into_ball,
    weighted_kmeans,
)
from secfc.kmeans.loop import Source, Trace
from secfc.roles.exchange import Exchange, Role, to_all
from secfc.roles.messages import compact_labels

FINDING = 2  # questions that look for a start among the server's points, or among cones
NEAR, FAR = 0.97, 0.85  # of what rows may weigh: above it they lie near, below it far


def next_radius(found: GroupAnswer, plan: CodedPlan, radius: int) -> int:
    """Within which radius to ask next: the less rows weigh together, of a public number, the wider."""
    weight, noise = found.counts.sum(), 2 * found.miscounted * math.sqrt(len(found.counts))
    if weight - noise > NEAR * plan.m:
        return max(LEAST_RADIUS, math.floor(radius / math.sqrt(2)))
    far = weight + noise < FAR * plan.m
    return min(2 * plan.radius, math.floor(radius * math.sqrt(2))) if far else radius


class NoisySumsServer:
    """A whole run: questions, and the centers that their answers give; and its end."""

    def __init__(self, committees: CommitteeServer, noise: Noise, steps: int) -> None:
        self.committees, self.noise, self.steps = committees, noise, steps
        self.plan, self.centers = committees.plan, np.zeros(0)
        self.radius = self.plan.radius  # of questions without points of the server

    def __call__(self, start: Array, k: int, max_iter: int, source: Source) -> Role[Trace]:
        """Centers after all steps; labels have no part in them.  Everything here is in steps."""
        plan, points = self.plan, self.public_points(k)
        if points is None:
            anchors, asked = np.zeros((1, plan.d)), 0
        else:
            anchors, asked = yield from self.find_start(points, k)
        drawn = None
        for number in range(asked, self.steps):
            anchors, found = yield from self.ask(number, anchors, self.reach(points, anchors))
            drawn = anchors if drawn is None else drawn
            placed = place_centers(found, anchors, drawn, plan.radius, cleaned=True, shrunk=plan.d > 2)
            anchors, drawn = placed.centers, None
            if points is None and number + 1 < self.steps:
                self.radius = next_radius(found, plan, self.radius) if number else self.radius
                anchors = self.next_groups(number, placed, k)
                drawn = np.broadcast_to(placed.centers, anchors.shape) if number == 0 else None
        self.centers = np.empty((k, plan.d))
        self.centers[:, plan.feature_order] = np.resize(anchors, (k, plan.d)) / float(plan.scale)
        return Trace(k, (), None, False, self.steps, placed=(found, placed))

    def next_groups(self, number: int, placed: PlacedCenters, k: int) -> Array:
        """What to ask about after this question, without points of the server.

        After the mean of all rows it is about cones from there, more than clusters; from their means, which
        move once more where steps allow, centers (k, d) are made.
        """
        anchors, counts = placed.centers, placed.counts
        if number == 0 and k > 1:
            return self.cones_about(anchors[0], GROUPS * k if self.steps > FINDING else k)
        if number != min(FINDING, self.steps - 2) or len(anchors) == k:
            return anchors
        if len(np.unique(anchors[counts > 0], axis=0)) < k:
            return np.asarray(anchors[np.argsort(-counts, kind="stable")[:k]])
        return weighted_kmeans(anchors, counts, k, 0)[0]

    def public_points(self, k: int) -> Array | None:
        """The server's points (s, d), in steps; None if it has fewer than centers."""
        terms = self.plan.terms
        points = None if terms is None else terms.public.server_points
        if points is None or len(points) < k:
            return None
        return np.asarray(points)[:, self.plan.feature_order] * float(self.plan.scale)

    def reach(self, points: Array | None, centers: Array) -> int:
        """Within which radius to ask about centers: most of the server's points lie nearer."""
        if points is None:
            return self.radius
        away = math.sqrt(np.quantile(nearest_squares(points, centers), 0.95))
        return int(np.clip(away, LEAST_RADIUS, 2 * self.plan.radius))

    def find_start(self, points: Array, k: int) -> Role[tuple[Array, int]]:
        """Centers (k, d) of the server's points, as rows lie among them; and how many questions that took.

        One about means of more groups of points says in which directions groups of rows lie apart.  The next,
        about means along these alone, says how many rows there are beside each, and where.
        """
        plan, count, alike = self.plan, min(GROUPS * k, len(points) // 2), np.ones(len(points))
        wide = count > k and self.steps > FINDING
        centers, _, _ = weighted_kmeans(points, alike, count if wide else k, 0)
        if not wide:
            return centers, 0
        centers, found = yield from self.ask(0, centers, self.reach(points, centers))
        mean = project_into_ball(mean_of_groups(found, centers, points)[None], plan.radius)[0]
        moved = found.sums + found.counts[:, None] * (centers - mean)
        ways = directions_of_sums(moved, found.deviation, points - mean, min(k, plan.d))
        along, labels, _ = weighted_kmeans((points - mean) @ ways, np.ones(len(points)), count, 0)
        means = np.stack([points[labels == h].mean(axis=0) for h in range(count)])
        centers, found = yield from self.ask(
            1, mean + along @ ways.T, self.reach(points, mean + along @ ways.T)
        )
        placed = place_centers(found, centers, means, plan.radius, cleaned=True, shrunk=plan.d > 2)
        held = placed.counts if np.count_nonzero(placed.counts) >= k else np.bincount(labels).astype(float)
        return join_groups(placed.centers, held, (placed.centers - mean) @ ways, k), FINDING

    def cones_about(self, mean: Array, count: int) -> Array:
        """Centers (count, d) about the mean of all rows, in public directions: their cells are cones."""
        coins = Coins(self.plan.digest()[:16])
        ways = discrete_gaussian(Deviation.at_least(1 << 40), (count, self.plan.d), coins=coins)
        ways = ways / np.linalg.norm(ways, axis=1, keepdims=True) * self.radius / 8
        if self.plan.d == 1:  # where cones are two
            ways *= np.arange(1, count + 1)[:, None] * 8 / count
        return np.asarray(mean + ways)

    def ask(self, number: int, near: Array, radius: int) -> Role[tuple[Array, GroupAnswer]]:
        """Whole-number centers, as near these (k, d) as rows lie; noisy sums about them, weights in rows."""
        k, d = near.shape
        # No rounded one is farther away than comparisons decide.
        within = project_into_ball(near, max(0.0, 2 * self.plan.radius - math.sqrt(d) / 2))
        centers = np.rint(within).astype(np.int64)
        values, asked = yield from self.open_sums(number, centers, radius)
        one = self.noise.client_deviation(asked.sensitivity, self.noise.sums, k * (d + 1))
        sigma, values = float(one) * math.sqrt(len(asked.dealers)) / UNIT, values.astype(float) / UNIT
        counts, away = values[:, d] / asked.unit, sigma / asked.unit
        return centers.astype(float), GroupAnswer(values[:, :d], counts, sigma, away, radius, 1.0, ())

    def open_sums(self, number: int, centers: Array, radius: int) -> Role[tuple[Array, SumsQuestion]]:
        """Noisy sums and weights about centers (k, d), integers (k, d + 1), and the question they answer.

        Asked again without who falls silent.  Raises TooFewReplies where too few are left to deal noise.
        """
        plan, committees, (k, d) = self.plan, self.committees, centers.shape
        needed, n = self.noise.honest + plan.code.t, len(plan.clients)
        nobody = compact_labels(np.full(plan.m, -1, np.int32))
        while True:
            there = [c for c in committees.desk.there if c not in committees.quorum.silent]
            if len(there) < needed:
                raise TooFewReplies(needed, tuple(there))
            asked = SumsQuestion(number, radius, centers, tuple(plan.clients.index(c) for c in there))
            subject = Subject(Operation.NOISY_SUMS, k, nobody, detail=asked.detail(n))
            match = asked.match(plan, committees.seats().asked(subject), committees.seating)
            game = AssignmentStep(match.schedule, plan.code.basis, tested=False)
            who = {*there, *match.players}
            shape = k, plan.code.width(d) + 1
            shares = yield from collect_shares(committees, match, who, game, CodedCenters, shape)
            if shares is not None:
                return opened_numbers(plan, shares), asked

    def finish_fit(self, source: CodedSource, plan: CodedPlan, trace: Trace) -> Role[Array | None]:
        """Tell everybody the centers, by which owners label their own rows."""
        ended = RunEnded(np.ones(trace.k, np.int64), self.centers)
        yield Exchange(to_all(plan.clients, ended), round=next(source.rounds), phase="finish")
        return self.centers

    def finish_prediction(self, source: CodedSource, sizes: Array) -> Role[Array | None]:
        """New points are labeled by whoever has them, as centers are public."""
        raise ValueError("nothing is predicted on shares where centers are public")
