"""The server's part of FedDP-KMeans: it asks, adds noise or trusts the clients', and computes the rest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from field.arrays import Array
from field.secrets.coins import Coins
from secfc.errors import FaultyClient
from secfc.feddp.clients import client_bounds
from secfc.feddp.messages import (
    MEAN,
    NOTHING,
    SHELLS,
    Choose,
    GroupAbout,
    Narrow,
    NoisyCenters,
    NoisyLabels,
    Project,
)
from secfc.feddp.noise import HonestCounts
from secfc.feddp.plan import PLACES, STARTS, FedDPPlan, NoisePart
from secfc.feddp.server_estimates import (
    GroupAnswer,
    Proxies,
    ProxyGroups,
    clean_weights,
    clipping_effect,
    clipping_error,
    costs_by_k,
    draw_to_mean,
    drawn_weights,
    group_about,
    group_proxies,
    leading_directions,
    mean_of_answers,
    merge_points,
    nearest_squares,
    place_centers,
    project_into_ball,
    reweighted_groups,
    split_candidates,
    weighted_kmeans,
    weighted_quantile,
)
from secfc.feddp.starts import (
    Cones,
    FedDPInit,
    PointSpread,
    Votes,
    candidate_weights,
    fit_histograms,
    mean_square_along,
    random_directions,
    resample_candidates,
    sample_ball,
    shell_radius,
    vote_positions,
)
from secfc.feddp.statistics import LEAST_REACH, UNIT, symmetric_matrix
from secfc.kmeans.elbow import CostCurve, Elbow
from secfc.privacy.events import DistributedDiscreteGaussian, NonPrivate
from secfc.privacy.ledger import Ledger
from secfc.roles.agreement import agree_with_workers
from secfc.roles.exchange import ITERATE, SERVER, STRIDE, Exchange, PartyId, Role, to_all
from secfc.roles.messages import check_all
from secfc.secure_sum.protocol import SecureSum, receive_sum

MOST = 0.5  # of the weight: where strong weights hold it, weak ones are dropped, else all drawn together
# Of distances of proxies to their anchors: radii to choose from, and the one without FedDP-Init's weights.
QUANTILES, QUANTILE_UNWEIGHTED = tuple(q / 10 for q in range(2, 11)), 0.85
TYPICAL = 0.9  # of rows, for which clusters' advantage over one center is not clipped
MOVED = 4.0  # times their noise, in squares, that centers must move for another question to pay


@dataclass(frozen=True, eq=False, repr=False)
class NoisyRelease:
    """One noisy release: its numbers, and for tables root mean squares of noise and of what was released.

    These are in units of the statistic: data units squared, points, data units.  signal is estimated from the
    release, its noise taken off in squares; so it is public.  values: the noisy integers (size,), which all
    may see.
    """

    what: str
    size: int
    noise: float
    signal: float
    values: Array

    def __repr__(self) -> str:
        return f"Released({self.what!r}, size={self.size}, noise={self.noise:.4g}, signal={self.signal:.4g})"


@dataclass(frozen=True, eq=False, repr=False)
class FedDPServerResult:
    """What the server has in the end.  All of it but exact sums, which it forgets, may be published.

    centers: (k, d) in data units.  initial: before FedDP-Lloyds.  proxies: of FedDP-Init or votes, or None.
    counted: the clients in every sum.  curve: that k was chosen by, or None.
    blur: (k,) how far its noise moves each center, as a root mean square in data units, by noisy counts; 0
    for a center that is one of the server's, because its count was within the noise.
    counts, miscounted: rows (k,) by the last sum that counted them, noise and all, and its deviation, of all
    noise that was dealt.  least: the count below which a cluster is taken for noise.
    """

    centers: Array
    initial: Array
    proxies: Proxies | None
    ledger: Ledger
    released: tuple[NoisyRelease, ...]
    counted: tuple[tuple[PartyId, ...], ...]
    blur: Array
    curve: CostCurve | None = None
    answers: ReleasedLabels | None = None
    counts: Array | None = None
    miscounted: float = 0.0
    least: float = 1.0


@dataclass(frozen=True, eq=False, repr=False)
class ReleasedLabels:
    """Labels that everybody may have, by client, and what they say of clusters.

    by_client: (m_j,) int32 of each client that answered; with slots (slots,) of all, -1 where one did not.
    right: the probability that one is the row's own.  sizes: (k,), unbiased; errors: (k,) their standard
    errors, in rows.
    """

    by_client: dict[PartyId, Array]
    right: float
    sizes: Array
    errors: Array


class Aggregator:
    """Asks for sums and keeps the books."""

    def __init__(self, plan: FedDPPlan, coins: Coins, seeds: np.random.Generator) -> None:
        self.plan, self.coins, self.seeds = plan, coins, seeds
        self.ledger = Ledger(plan.neighbors)
        self.released: list[NoisyRelease] = []
        self.counted: list[tuple[PartyId, ...]] = []
        self.question = ITERATE
        self.blur: Array = np.zeros(0)
        self.moments: tuple[Array, float] | None = None  # outer products, and the deviation of their noise
        self.counts: Array = np.zeros(0)
        self.counted_rows = np.zeros(0), 0.0, 1.0
        self.answers: list[
            tuple[GroupAnswer, Array]
        ] = []  # to all questions about groups, with their origins
        self.excess = 1.0  # of the last noise, its deviation over the declared: more clients deal than must

    def seed(self) -> int:
        return int(self.seeds.integers(2**31))

    def open_sum(self, message: Any, parts: list[NoisePart]) -> Role[SecureSum]:
        """The exact sum of what clients add after this message, of the size of all parts."""
        if message is not None:
            yield Exchange(to_all(self.plan.clients, message), round=self.question, phase="ask")
        size = sum(part.size for part in parts)
        summed = yield from receive_sum(self.plan.sums, size, self.question + 1)
        self.question += STRIDE
        return summed

    def sum(self, message: Any, parts: list[NoisePart], units: tuple[float, ...]) -> Role[list[Array]]:
        """Noisy sums of the parts, float64 in units of 1/units: what clients add after this message."""
        plan = self.plan
        summed = yield from self.open_sum(message, parts)
        self.counted.append(summed.clients)
        noisy, start = [], 0
        for part, unit in zip(parts, units, strict=True):
            exact = summed.total[start : start + part.size]
            start += part.size
            values, event = plan.placement.release_sum(
                part.noise,
                part.sensitivity,
                exact,
                HonestCounts.of(plan.sums),
                self.coins,
                complete=len(summed.clients) == plan.sums.n,
            )
            self.ledger = self.ledger.record(event, what=part.what)
            if plan.placement.server_view is not None:
                self.ledger = self.ledger.record(
                    plan.placement.server_view, what=f"{part.what}, the exact sum", seen_by=SERVER
                )
            if isinstance(event, DistributedDiscreteGaussian):
                dealt = len(summed.clients) * (1 + event.further)
                self.excess = math.sqrt(dealt) * event.sigma / part.deviation
            scaled = values.astype(np.float64) / unit
            noise = part.deviation / unit
            signal = float(np.sqrt(max(0.0, float(np.mean(scaled**2)) - noise**2)))
            self.released.append(NoisyRelease(part.what, part.size, noise, signal, values))
            noisy.append(scaled)
        return noisy

    def centers(
        self,
        number: int,
        groups: ProxyGroups,
        lie: ProxyGroups | PointSpread,
        before: GroupAnswer | None = None,
    ) -> Role[Array]:
        """Step 3 (number 0), or one of FedDP-Lloyds: centers (k, d) about the plan's origin.

        lie: how far rows lie from anchors: the same groups by the weights that say it best, or, where nobody
        has points of the server, what votes said.  before: the answer to the same question, which is then
        asked once more: both together are as good as one with the noise of both budgets.
        """
        plan, variant = self.plan, self.plan.variant
        origins = groups.anchors if variant.residuals else np.zeros(groups.anchors.shape)
        found = yield from self.ask_groups(number, groups, lie, origins, before)
        self.answer = found
        self.answers.append((found, origins))
        placed = place_centers(
            found, origins, groups.anchors, plan.radius.value, cleaned=variant.cleaned,
            shrunk=variant.shrunk and (plan.d > 2 or plan.repeats),
        )  # fmt: skip
        self.counts, self.blur, self.moved = placed.counts, placed.blur, placed.moved
        self.counted_rows = found.counts, found.miscounted * self.excess, placed.least
        return placed.centers

    def ask_groups(
        self,
        number: int,
        groups: ProxyGroups,
        lie: ProxyGroups | PointSpread,
        origins: Array,
        before: GroupAnswer | None,
    ) -> Role[GroupAnswer]:
        """Noisy sums and counts by group; together with those before, if these answered the same."""
        plan, k = self.plan, len(groups.centers)
        if before is not None:
            reach, kept = before.reach, before.kept
        elif isinstance(lie, PointSpread):
            reach, kept = self.steps(lie.reach), 1.0
        else:
            reach, kept = self.reach(lie, number)
        bounds = (
            client_bounds(
                plan,
                plan.noises.group(number),
                lambda one: one.groups(groups.projection, groups.centers, origins, reach),
                groups.weights,
                self.seed(),
            )
            if before is None
            else before.bounds
        )
        parts, unit = plan.group_parts(number, k, reach, bounds), plan.count_unit(reach)
        message = GroupAbout(groups.centers, origins, reach, bounds, groups.projection is not None)
        if plan.variant.joint:
            (both,) = yield from self.sum(message, parts, (plan.scale,))
            sums, counts = both[: k * plan.d], both[k * plan.d :] * (plan.scale / unit)
        else:
            sums, counts = yield from self.sum(message, parts, (plan.scale, float(UNIT)))
        found = GroupAnswer(
            sums.reshape(k, plan.d), counts, parts[0].deviation / plan.scale, parts[-1].deviation / unit,
            reach, kept, bounds,
        )  # fmt: skip
        return found if before is None else before.join(found)

    def reach(self, groups: ProxyGroups, number: int) -> tuple[int, float]:
        """Where rows are clipped about their origins, in steps, and what share of them that keeps.

        Both estimated on the server's points, or on candidates: post-processing of public points and noisy
        releases.
        """
        plan, there = self.plan, groups.weights > 0
        if not plan.variant.residuals:
            return plan.reach, 1.0
        # Proxies that are alone in their groups are no evidence of how far points lie from anchors.
        there &= groups.residuals > 0
        residuals, weights = groups.residuals[there], groups.weights[there]
        if len(residuals) < 2 * len(groups.centers):
            return plan.outer_reach, 1.0
        quantile = plan.variant.residual_quantile
        # Only FedDP-Init's weights say how many points there are, so only then what noise is beside them.
        # How candidates of votes scatter says how they were drawn, and nothing of clipped means.
        if quantile is None and not isinstance(plan.start, FedDPInit):
            quantile = QUANTILE_UNWEIGHTED
        if quantile is not None:
            reach = self.steps(weighted_quantile(residuals, weights, quantile))
            part = np.minimum(1.0, reach / plan.scale / np.maximum(residuals, 1e-300))
            return reach, float(np.average(part, weights=weights))
        noise, least = self.foreseen(number)
        # A step before has moved anchors off its centers by its noise; the first ones are means of proxies.
        blur = self.blur if len(self.blur) == len(groups.centers) else np.zeros(len(groups.centers))
        reach = min(
            sorted({self.steps(weighted_quantile(residuals, weights, q)) for q in QUANTILES}),
            key=lambda steps: clipping_error(groups, there, steps / plan.scale, noise, least, blur),
        )
        return reach, clipping_effect(groups, there, reach / plan.scale)[2]

    def find_splits(self, centers: Array) -> tuple[Array, ...]:
        """Centers (k, d) with one cluster split each, where noisy moments show that one should be."""
        if self.moments is None or not (self.counts > 0).all():
            return ()
        return split_candidates(*self.moments, centers, self.counts)

    def steps(self, radius: float) -> int:
        """A radius in integer steps, within what a plan allows."""
        plan = self.plan
        return min(max(int(radius * plan.scale), LEAST_REACH), plan.reach) if radius else plan.outer_reach

    def foreseen(self, number: int) -> tuple[float, float]:
        """The deviation of a sum's noise per unit of the radius, and the least count that is one.

        Where clients are protected, a sum of their rows about the right origin is sqrt(rows) as long as one.
        """
        plan = self.plan
        noise = plan.group_parts(number, len(self.blur) or 1, LEAST_REACH, (1, 1))[0].noise
        # Where noise is what counts, all answers that are left will be to this question.
        left = math.sqrt(len(plan.noises.lloyd) - number + 1) if plan.repeats and number else 1.0
        count = plan.variant.count if plan.variant.joint else 0.0
        factor = float(plan.neighbors.factor)
        one = math.sqrt(plan.rows) * factor if plan.by_client else math.sqrt(factor) * plan.neighbors.rows
        each = noise.deviation(one * math.hypot(1.0, count)) / left
        return each, 2 * each / count if count else 0.0

    def finish(self, centers: Array) -> Role[ReleasedLabels | None]:
        """Tell the centers (k, d), and hear what clients release of their labels, if anything."""
        plan, k = self.plan, len(centers)
        told = to_all(plan.clients, NoisyCenters(centers))
        if plan.labels is None:
            yield Exchange(told, round=self.question, phase="finish")
            return None
        inbox = yield Exchange(told, plan.clients, 0, round=self.question, phase="finish")
        slots, (counts, miscounted, _) = plan.labels.slots, self.counted_rows

        def check(client: PartyId, message: NoisyLabels) -> None:
            if message.labels.max(initial=0) >= k:
                raise FaultyClient(client, f"releases labels that are none of k={k}")
            if slots is not None and len(message.labels) != slots:
                raise FaultyClient(client, f"releases {len(message.labels)} labels, not slots={slots}")

        heard = check_all(inbox, NoisyLabels, check)
        nothing = {} if slots is None else dict.fromkeys(plan.clients, np.full(slots, -1, np.int32))
        found = {client: heard[client].labels.astype(np.int32) for client in plan.clients if client in heard}
        right = plan.labels.probability(k)
        what = f"labels of all rows, each right with probability {right:.4g}"
        self.ledger = self.ledger.record(plan.labels.event(k), what=what)
        every = np.concatenate([*found.values(), np.zeros(0, np.int32)])
        rows = None if slots is None else (float(counts.sum()), miscounted * math.sqrt(len(counts)))
        return ReleasedLabels(nothing | found, right, *plan.labels.estimate_sizes(every, k, rows))


def run_server(plan: FedDPPlan, rng: np.random.Generator, coins: Coins) -> Role[FedDPServerResult]:
    """Algorithm 1, then Algorithm 2, as far as the plan goes."""
    yield from agree_with_workers(plan, SERVER, plan.computing)
    return (yield from find_centers(plan, Aggregator(plan, coins, rng), rng))


def find_centers(plan: FedDPPlan, books: Aggregator, rng: np.random.Generator) -> Role[FedDPServerResult]:
    """All questions of a run, and the centers that their answers give."""
    if plan.radius.private:
        books.ledger = books.ledger.record(NonPrivate(), what="a bound read off private data")
    centers, proxies, spread, curve = yield from find_start(plan, books, rng)
    plan = books.plan
    initial = centers + plan.origin
    stand_in = plan.points if proxies is None else proxies.points
    weights = np.ones(len(stand_in)) if proxies is None else proxies.weights
    witnesses, before = weights if proxies is None else proxies.anchor_weights, None
    for number in range(plan.ahead + 1, len(plan.noises.lloyd) + 1):
        if plan.may_split(number):
            split = yield from choose_split(plan, books, centers, number)
            before = before if split is centers else None
            centers = split
        if before is None:
            groups = group_about(stand_in, weights, centers)
            about = reweighted_groups(groups, stand_in, witnesses) if spread is None else spread
        centers = yield from books.centers(number, groups, about, before)
        before = books.answer if plan.repeats and books.moved < MOVED else None
        spread = spread and spread.within(centers, books.counts)
    if plan.doubts:
        centers = yield from weigh_clusters(plan, books, centers)
    answers = yield from books.finish(centers)
    return FedDPServerResult(
        centers + plan.origin, initial, proxies, books.ledger, tuple(books.released), tuple(books.counted),
        books.blur, curve, answers, *books.counted_rows,
    )  # fmt: skip


def find_start(
    plan: FedDPPlan, books: Aggregator, rng: np.random.Generator
) -> Role[tuple[Array, Proxies | None, PointSpread | None, CostCurve | None]]:
    """Centers (k, d) to begin FedDP-Lloyds with about the plan's origin; what stands for clients' points,
    None for the server's; how points lie, where cones were added up; and what k was chosen by.
    """
    start = plan.start
    if plan.noises.boxes:
        plan = yield from find_ball(plan, books)
    if isinstance(start, Cones):
        centers, spread = yield from gather_cones(plan, books, start, rng)
        return centers, None, spread, None
    if isinstance(start, Votes):
        proxies = yield from vote_on_candidates(plan, books, start.rounds or 1, rng)
        return group_proxies(proxies, plan.most, books.seed()).anchors, proxies, None, None
    if not isinstance(start, FedDPInit):
        if not start.public:
            books.ledger = books.ledger.record(NonPrivate(), what="initial centers made of private data")
        drawn = start.draw_centers(plan.points + plan.origin, plan.most, rng)
        return drawn - plan.origin, None, None, None
    proxies, curve, k = (yield from weigh_proxies(plan, books)), None, plan.k
    if isinstance(k, Elbow):
        # The server's points that lie in no cluster have some weight left, as one more small one, which
        # logarithms show as large as another.
        curve = CostCurve(tuple(costs_by_k(proxies, plan.most, books.seed()).tolist()), k.least, plain=True)
        k = curve.k
    groups = group_proxies(proxies, k, books.seed())
    lie = reweighted_groups(groups, proxies.points, proxies.anchor_weights)
    centers = yield from books.centers(0, groups, lie)
    if plan.variant.chosen:
        proxies, centers = yield from choose_start(plan, books, proxies, centers)
    return centers, proxies, None, curve


def choose_start(
    plan: FedDPPlan, books: Aggregator, proxies: Proxies, centers: Array
) -> Role[tuple[Proxies, Array]]:
    """Centers (k, d) that FedDP-Init's sums made, if clients' points are nearer to them; else k-means of the
    server's points alone.

    Asked after the sums: before them both are means of the server's points, which says little of clusters
    that the server has few points of.
    """
    # All alike, and together as many as FedDP-Init found.
    total = float(proxies.anchor_weights.sum())
    alone = Proxies(plan.points, None, np.full(len(plan.points), total / len(plan.points)))
    fallback = draw_to_mean(group_proxies(alone, len(centers), books.seed()), plan.points)
    splits = () if plan.by_client else books.find_splits(centers)
    starts = np.stack([project_into_ball(each, plan.radius.value) for each in (centers, *splits, fallback)])
    first, last = (nearest_squares(plan.points, start) for start in (starts[0], starts[-1]))
    share = plan.variant.quantile if plan.by_client else clipped_least(plan, len(starts), total)
    typical = float(np.quantile(np.abs(last - first), share)) * plan.scale**2
    cap = int(np.clip(typical, LEAST_REACH, 4 * plan.reach**2))
    bounds = client_bounds(
        plan, (plan.noises.choice,), lambda one: one.sum_advantages(starts, cap), alone.weights, books.seed()
    )
    parts = plan.choice_parts(len(starts), cap, bounds)
    (gains,) = yield from books.sum(Choose(starts, cap, bounds), parts, (plan.scale**2,))
    best = int(gains.argmax())
    if best == 0 and gains[0] > 0:
        return proxies, centers
    books.blur = np.zeros(0)  # of other groups
    return (proxies, starts[best]) if gains[best] > 0 else (alone, fallback)


def clipped_least(plan: FedDPPlan, starts: int, rows: float) -> float:
    """The share of so many rows whose numbers a choice among starts had better not clip.

    Noise on a sum of numbers within [-cap, cap] is as large as z rows that say cap, z its multiplier.  What
    clipping takes off, at most, and noise are least together where as many rows say more than cap.
    """
    (one,) = plan.choice_parts(starts, 1, ())
    return 1 - min(one.deviation / max(rows, 1.0), 0.5)


def choose_split(plan: FedDPPlan, books: Aggregator, centers: Array, number: int) -> Role[Array]:
    """Centers (k, d) with two merged and one split, if clients' points are clearly nearer to these.

    Asked before this step of FedDP-Lloyds, and only where noisy moments show a center between two clusters:
    the choice of the start mends one of them.
    """
    splits = books.find_splits(centers)
    if not splits:
        return centers
    starts = np.stack([project_into_ball(each, plan.radius.value) for each in (*splits, centers)])
    # What a row in the middle of a new cluster says: no point of the server is there.
    apart = max(float(nearest_squares(each, starts[-1]).max()) for each in starts)
    cap = int(np.clip(apart * plan.scale**2, LEAST_REACH, 4 * plan.reach**2))
    (part,) = plan.choice_parts(len(starts), cap, (), number)
    (gains,) = yield from books.sum(Choose(starts, cap, ()), [part], (plan.scale**2,))
    best, noise = int(gains.argmax()), part.deviation / plan.scale**2
    # The largest of so many numbers that are noise alone is about sqrt(2 log) deviations, rarely one more.
    if gains[best] <= noise * (1 + math.sqrt(2 * math.log(len(starts)))):
        return centers
    books.blur = np.zeros(0)
    return np.asarray(starts[best])


def weigh_clusters(plan: FedDPPlan, books: Aggregator, centers: Array) -> Role[Array]:
    """Centers (k, d), if rows are nearer to them than to their mean, under noise; else that mean k times."""
    k, (_, miscounted, least) = len(centers), books.counted_rows
    mean, rows, blur = mean_of_answers(books.answers, plan.d)
    both = centers, np.tile(mean, (k, 1))
    starts = np.stack([project_into_ball(each, plan.radius.value) for each in both])
    # What a row in the middle of its cluster says, for most rows; where none is seen, anything.
    apart, seen = ((starts[0] - starts[1]) ** 2).sum(axis=1) * plan.scale**2, books.counts
    typical = weighted_quantile(apart, seen, TYPICAL) if seen.any() else plan.reach**2
    cap = int(np.clip(typical, LEAST_REACH, 4 * plan.reach**2))
    (part,) = plan.choice_parts(STARTS, cap, ())
    (gains,) = yield from books.sum(Choose(starts, cap, ()), [part], (plan.scale**2,))
    if gains[0] > 0:
        return centers
    books.blur = np.full(k, blur)
    books.counted_rows = np.append(rows, np.zeros(k - 1)), miscounted * math.sqrt(k), least
    return np.asarray(starts[1])


def find_ball(plan: FedDPPlan, books: Aggregator) -> Role[FedDPPlan]:
    """The plan about the ball that rows lie in: by means of all rows, and how far from them rows lie."""
    for asks in (MEAN, SHELLS) * (len(plan.noises.boxes) // 2):
        radius, (part,) = plan.radius.value, plan.box_parts(asks)
        about = Narrow(np.append(plan.origin, radius), asks)
        if asks == SHELLS:
            (counts,) = yield from books.sum(about, [part], (float(UNIT),))
            plan = plan.narrow(plan.origin, shell_radius(counts, part.deviation / UNIT, radius))
        else:
            (both,) = yield from books.sum(about, [part], (plan.scale,))
            rows = both[-1] * plan.scale / plan.count_unit(plan.reach)
            drowned = part.deviation / plan.scale * math.sqrt(plan.d) > rows * radius / 2
            way = (
                np.zeros(plan.d)
                if drowned
                else project_into_ball(both[None, :-1] / max(rows, 1.0), radius)[0]
            )
            plan = plan.narrow(plan.origin + way, radius)
        books.plan = plan
    yield Exchange(
        to_all(plan.clients, Narrow(np.append(plan.origin, plan.radius.value), NOTHING)),
        round=books.question,
        phase="ask",
    )
    books.question += STRIDE
    return plan


def measure_radius(plan: FedDPPlan, books: Aggregator, rng: np.random.Generator) -> Role[PointSpread]:
    """How far from 0 points lie, by their votes along random lines."""
    radius, found = plan.radius.value, []
    (part,) = plan.line_parts()
    for _ in range(plan.lines):
        line = random_directions(1, plan.d, rng).T
        asked = Project(line, vote_positions(PLACES, radius)[:, None], ())
        (votes,) = yield from books.sum(asked, [part], (float(UNIT),))
        found.append(mean_square_along(votes, part.deviation / UNIT, radius))
    return PointSpread.of(found, plan.d, radius)


def vote_on_candidates(
    plan: FedDPPlan, books: Aggregator, rounds: int, rng: np.random.Generator
) -> Role[Proxies]:
    """Candidates in the public ball and their noisy votes, drawn anew about those that had some.

    All that ever had some come of it, with the weights that explain the votes of all rounds.
    """
    radius = first = plan.radius.value
    if plan.lines:
        first = (yield from measure_radius(plan, books, rng)).ball_radius(radius)
    (part,) = plan.weight_parts(())
    deviation = part.deviation / UNIT
    candidates, weights = sample_ball(plan.weighted_count, plan.d, first, rng), np.ones(plan.weighted_count)
    asked, votes, able = [], [], []
    for number in range(rounds):
        if number:
            candidates = resample_candidates(candidates, weights, radius, rng)
        message = Project(np.eye(plan.d), candidates, ())
        (noisy,) = yield from books.sum(message, [part], (float(UNIT),))
        weights = candidate_weights(noisy, deviation, plan.most)
        asked.append(candidates)
        votes.append(noisy)
        able.append(candidates[weights > 0])
    every = np.unique(np.concatenate(able), axis=0)
    return Proxies(every, None, fit_histograms(every, asked, votes, deviation, plan.most))


def gather_cones(
    plan: FedDPPlan, books: Aggregator, start: Cones, rng: np.random.Generator
) -> Role[tuple[Array, PointSpread]]:
    """Centers (k, d) of groups that began as cones about the mean of all points, and how points lie then."""
    spread = yield from measure_radius(plan, books, rng)
    origin = np.zeros((1, plan.d))
    spread = spread.about((yield from books.centers(1, _unseen(origin, origin), spread)))
    (part,) = plan.group_parts(2, 1, plan.reach, ())
    most = plan.most_groups(2)
    multiplier = part.deviation / plan.reach
    centers = spread.draw_cones(spread.groups(float(books.counts.sum()), multiplier, plan.most, most), rng)
    anchors = np.tile(spread.mean, (len(centers), 1))
    for number in range(2, plan.ahead + 1):
        centers = anchors = yield from books.centers(number, _unseen(centers, anchors), spread)
        spread = spread.within(centers, books.counts)
    if len(centers) == plan.most:
        return centers, spread
    if len(np.unique(centers[books.counts > 0], axis=0)) < plan.most:
        return centers[np.argsort(-books.counts, kind="stable")[: plan.most]], spread
    return weighted_kmeans(centers, books.counts, plan.most, books.seed())[0], spread


def _unseen(centers: Array, anchors: Array) -> ProxyGroups:
    """Groups of no point of the server."""
    none = np.zeros(0)
    return ProxyGroups(
        None, centers, anchors, none, np.zeros(0, np.int64), none, np.zeros((0, centers.shape[1]))
    )


def weigh_proxies(plan: FedDPPlan, books: Aggregator) -> Role[Proxies]:
    """Steps 1 and 2: a projection, and weights for the server's points in it."""
    unit = plan.scale**2 * plan.weights[1]
    (part,) = plan.outer_parts()
    (triangle,) = yield from books.sum(None, [part], (unit,))
    matrix = symmetric_matrix(triangle * plan.weights[1], plan.d, plan.weights)
    books.moments = matrix, part.deviation / unit
    most = plan.variant.directions * plan.most
    # Of an unknown number of clusters only directions that are clear: in others centers of no cluster win.
    least = 0 if isinstance(plan.k, Elbow) else plan.most
    projection = leading_directions(matrix, part.deviation / unit, least, most)
    bins, labels = merge_points(plan.points @ projection, plan.weighted_count, books.seed())
    equal = np.ones(len(plan.points))
    bounds = client_bounds(
        plan, (plan.noises.weights,), lambda one: one.weights(projection, bins), equal, books.seed()
    )
    parts = plan.weight_parts(bounds)
    (weights,) = yield from books.sum(Project(projection, bins, bounds), parts, (float(UNIT),))
    cleaned = plan.variant.cleaned
    deviation, members = parts[0].deviation / UNIT, np.bincount(labels, minlength=len(bins))
    strong = clean_weights(
        weights,
        deviation,
        plan.variant.strong if cleaned else 0.0,
        min(len(weights), plan.most * (2 if cleaned else 1)),
    )
    drawn = drawn_weights(weights, members, deviation) if cleaned else None
    if drawn is not None and strong.sum() < MOST * drawn.sum():
        strong = drawn

    def shared(each: Array) -> Array:
        """Merged points share the weight of their mean; a mean that lost its last point keeps none."""
        return np.asarray((each / np.maximum(members, 1))[labels])

    return Proxies(plan.points, projection, shared(strong), None if drawn is None else shared(drawn))
