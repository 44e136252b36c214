"""The clients' part of FedDP-KMeans: what goes into each secure sum, and the role that says when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from types import UnionType
from typing import Any

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from field.secrets.coins import Coins
from secfc.data.party import Party
from secfc.errors import FaultyServer, InputError
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
from secfc.feddp.noise import HonestCounts, Laplace, Noise
from secfc.feddp.plan import PLACES, SHELLS_ABOUT, STARTS, FedDPPlan, NoisePart
from secfc.feddp.server_estimates import nearest_proxy, one_thread
from secfc.feddp.starts import FedDPInit, Votes
from secfc.feddp.statistics import (
    LEAST_REACH,
    MAX_REACH,
    MAX_ROWS,
    UNIT,
    advantage_sums,
    first_rows,
    histogram,
    labels_of,
    means_of,
    outer_product,
    residual_sums,
    shells_of,
    shorten_l1,
    shorten_one,
    shorten_whole,
    sums_of,
    whole_centers,
)
from secfc.kmeans.loop import FEW_VALUES
from secfc.roles.agreement import agree_with_workers
from secfc.roles.exchange import ITERATE, SERVER, STRIDE, Exchange, Role, expect_one
from secfc.roles.messages import compact_labels
from secfc.secure_sum.protocol import ToldDigests, compare_last, contribute_vector

FAR = 2.0**20  # radii from the origin, beyond which no value is looked at


class ClientStatistics:
    """One client's statistics, of rows (m_j, d) about the plan's origin; the caller's array stays as it is.

    `shortened` counts what was clipped, for the client's own eyes: part -> (clipped, of how many).
    """

    def __init__(self, plan: FedDPPlan, points: Array) -> None:
        if len(points) > MAX_ROWS:
            raise InputError(
                f"a client has {len(points)} rows, at most {MAX_ROWS} are summed exactly: split it"
            )
        self.points = points
        long = self.place_rows(plan)
        self.shortened: dict[str, tuple[int, int]] = {"rows": (int(long.sum()), len(long))}

    def place_rows(self, plan: FedDPPlan) -> Array:
        """Rows about the plan's origin and within its radius; which were clipped to it: (m_j,) bool."""
        # A row this far out is clipped in any case.  Beyond, squares would leave the range of floats, and
        # whether a run fails must not depend on one row.
        self.plan, far = plan, FAR * plan.radius.value
        self.rows = np.subtract(self.points, plan.origin, order="C")
        if max(self.rows.max(initial=0), -self.rows.min(initial=0)) > far / 2:
            inside = np.clip(self.points, plan.origin - far, plan.origin + far)
            self.rows = np.subtract(inside, plan.origin, order="C")
        self.clipped, long = shorten_whole(self.rows * plan.scale, plan.reach)
        return long

    def about_ball(self, asks: int) -> list[Array]:
        """The sum and number of all rows within the radius, or how many lie in each shell about 0."""
        plan, none = self.plan, np.zeros(len(self.clipped), np.int64)
        if asks == MEAN:
            return [np.append(sums_of(self.clipped, none, 1), len(none) * plan.count_unit(plan.reach))]
        return [histogram(shells_of(self.clipped, plan.reach, SHELLS_ABOUT), SHELLS_ABOUT)]

    @cached_property
    def tiles(self) -> Array:
        """The clipped rows as `field.kernels.labeling` has them."""
        from field.kernels.labeling import tile_rows

        return tile_rows(self.clipped, MAX_REACH)

    def label_rows(self, projection: Array | None, centers: Array) -> Array:
        """The nearest center of every row: (m,), those of `labels_of`."""
        scale = self.plan.scale
        if projection is not None or self.clipped.size < FEW_VALUES:
            return labels_of(self.clipped, projection, centers, scale)
        from field.kernels.labeling import CenterFilter, label_tiles

        whole, one = whole_centers(centers, scale).astype(np.int64), np.ones((len(centers), 1), np.int64)
        labels = np.full(len(self.clipped), -1, np.int32)
        near = CenterFilter.of(
            whole, one, np.arange(len(whole)), lambda r: labels_of(r, None, centers, scale)
        )
        label_tiles(self.tiles, near, labels)
        return labels

    def outer(self) -> list[Array]:
        """Step 1, Algorithm 1 line 4."""
        plan = self.plan
        traceless = plan.by_client and plan.variant.symmetric
        rows = self.clipped
        if plan.outer_reach < plan.reach:
            rows, _ = shorten_whole(self.rows * plan.scale, plan.outer_reach)
        with one_thread():
            return [outer_product(rows, plan.weights, traceless=traceless)]

    def weights(self, projection: Array, proxies: Array) -> list[Array]:
        """Step 2, line 12: for each proxy (s, p) how many rows are nearest to it."""
        with one_thread():
            labels = labels_of(self.clipped, projection, proxies, self.plan.scale)
            return [histogram(labels, len(proxies))]

    def sum_advantages(self, starts: Array, cap: int) -> list[Array]:
        """The choice among starts: how much nearer each is than the last one."""
        with one_thread():
            return [advantage_sums(self.clipped, starts, self.plan.scale, cap)]

    def groups(self, projection: Array | None, centers: Array, origins: Array, reach: int) -> list[Array]:
        """Step 3, lines 20 and 21, or one of FedDP-Lloyds: the vectors of `FedDPPlan.group_parts`.

        projection None: centers are in full space.  Rows are clipped to `reach` about the origin (k, d) of
        their group.
        """
        plan, k = self.plan, len(centers)
        with one_thread():
            labels = self.label_rows(projection, centers)
            sums, shortened = residual_sums(self.rows, labels, origins, plan.scale, reach)
            self.shortened["residuals"] = (shortened, len(labels))
            counts = np.bincount(labels, minlength=k)
            if plan.variant.joint:
                return [np.append(sums, counts * plan.count_unit(reach))]
            if plan.by_client:
                means, there = means_of(sums, counts)
                return [means.reshape(-1), there * UNIT]
            return [sums.reshape(-1), counts * UNIT]

    def shorten_to_bounds(
        self, parts: list[NoisePart], vectors: list[Array], bounds: tuple[int, ...]
    ) -> list[Array]:
        """The vectors, each shortened to its bound as its noise needs it where clients are the unit."""
        if not self.plan.by_client:
            return vectors
        short = []
        for part, vector, bound in zip(parts, vectors, bounds, strict=True):
            clipped, long = (shorten_l1 if isinstance(part.noise, Laplace) else shorten_one)(vector, bound)
            self.shortened[part.what] = (int(long), 1)
            short.append(clipped)
        return short


Question = Project | Choose | GroupAbout | Narrow


def votes_on_line(plan: FedDPPlan, told: Project) -> bool:
    """Whether votes are asked for along a line: in one of several features, which no other votes are."""
    return plan.lines > 0 and told.projection.shape == (plan.d, 1)


def client_contributions(
    mine: ClientStatistics, told: Question | None, number: int = 0, projection: Array | None = None
) -> tuple[list[NoisePart], list[Array]]:
    """What a client adds after a message of the server, in parts, each with the noise that it will get.

    told: None for the first sum, which answers nothing.  number: of a step of FedDP-Lloyds, 0 before them.
    projection: in which projected centers lie.
    """
    if isinstance(told, Narrow):
        plan = mine.plan.narrow(told.origin, told.radius)
        mine.place_rows(plan)
        return (plan.box_parts(told.asks), mine.about_ball(told.asks)) if told.asks != NOTHING else ([], [])
    plan = mine.plan
    bounds = (plan.outer_bound,) if told is None else told.bounds
    if told is None:
        parts, vectors = plan.outer_parts(), mine.outer()
    elif isinstance(told, Project):
        parts = plan.line_parts() if votes_on_line(plan, told) else plan.weight_parts(bounds)
        vectors = mine.weights(told.projection, told.proxies)
    elif isinstance(told, Choose):
        parts = plan.choice_parts(len(told.starts), told.cap, bounds, number)
        vectors = mine.sum_advantages(told.starts, told.cap)
    else:
        parts = plan.group_parts(number, len(told.centers), told.reach, bounds)
        vectors = mine.groups(projection if told.projected else None, told.centers, told.origins, told.reach)
    return parts, mine.shorten_to_bounds(parts, vectors, bounds)


def own_rows(party: Party, most: int | None) -> Array:
    """Which of a client's rows are among the first `most` of their person: (m_j,) bool; all for None.

    Raises InputError where it does not say whose they are.
    """
    if most is None:
        return np.ones(party.points.shape[0], bool)
    if party.persons is None:
        raise InputError(
            f"client {party.name!r} does not say whose each of its rows is, and persons are to be protected: "
            "give Party.persons, in the shell an ID column, DPKMeans fit(persons=...); or protect data points"
        )
    return first_rows(np.asarray(party.persons), most)


class FedDPClient:
    """One client's side of a run: it adds to every sum that the plan has, in the order of the plan.

    question: the round of the next message of the server.  projection: (d, p) of the initial steps, None
    before it came and where there are none.  told: a digest of all that the server told so far.
    """

    def __init__(self, plan: FedDPPlan, party: Party, coins: Coins) -> None:
        self.plan, self.me, self.coins = plan, party.name, coins
        points, kept = party.read(), own_rows(party, plan.rows_at(party.name))
        self.mine, self.question = ClientStatistics(plan, points if kept.all() else points[kept]), ITERATE
        if not kept.all():
            self.mine.shortened["rows of persons with more"] = (int((~kept).sum()), len(kept))
        self.widest = plan.radius.value
        self.projection: Array | None = None
        self.told = b""

    @property
    def heard(self) -> ToldDigests:
        """What to compare with others of all that the server told so far."""
        return ToldDigests(self.plan.sums.same_to_all, {0: self.told})

    def add(self, told: Question | None, number: int = 0) -> Role[None]:
        """Add to the sum that a message asks for, None for the first one; arguments as of
        `client_contributions`.
        """
        coins = self.coins
        parts, vectors = client_contributions(self.mine, told, number, self.projection)
        plan = self.plan = self.mine.plan
        honest, place = HonestCounts.of(plan.sums), plan.placement
        shared = [
            place.share_noise(part.noise, part.sensitivity, vector, honest, coins)
            for part, vector in zip(parts, vectors, strict=True)
        ]
        spare = None
        if place.shares_spare(honest):
            spare = np.concatenate(
                [place.spare_noise(part.noise, part.sensitivity, part.size, honest, coins) for part in parts]
            )
        heard = None if told is None else self.heard
        yield from contribute_vector(
            plan.sums, self.me, np.concatenate(shared), self.question + 1, coins, spare=spare, told=heard
        )
        self.question += STRIDE

    def receive(self, kind: type[Any] | UnionType, bounds: int) -> Role[Any]:
        """The next message of the server, of these kinds, with so many bounds on vectors of a client.

        Raises FaultyServer for another.
        """
        inbox = yield Exchange({}, (SERVER,), round=self.question, phase="listen")
        told = expect_one(inbox, SERVER)
        self.refuse_if(not isinstance(told, kind), f"sent {type(told).__name__} out of turn")
        if kind not in (NoisyCenters, Narrow):
            why = f"sends {len(told.bounds)} bounds on vectors of a client"
            self.refuse_if(len(told.bounds) != bounds, why)
        said = (getattr(told, one.name) for one in fields(told))
        self.told = ToldDigests.digest(self.told, type(told).__name__, *said)
        return told

    def refuse_if(self, wrong: bool, why: str) -> None:
        """Raises FaultyServer for what the plan does not allow."""
        if wrong:
            raise FaultyServer(SERVER, why)

    def find_proxies(self) -> Role[None]:
        """Algorithm 1, steps 1 and 2: outer product and weights of proxies."""
        plan = self.plan
        yield from self.add(None)
        told = yield from self.receive(Project, plan.by_client)
        self.projection = told.projection
        self.refuse_if(
            len(told.projection) != plan.d or len(told.proxies) != plan.weighted_count,
            "projects to other features or points than the plan has",
        )
        yield from self.add(told)

    def compare_starts(self) -> Role[None]:
        """The choice between what steps found and the server's points alone, or one center for all."""
        told = yield from self.receive(Choose, self.plan.by_client)
        yield from self.answer_choice(told, 1)

    def answer_choice(self, told: Choose, number: int) -> Role[None]:
        """One choice, before this step of FedDP-Lloyds."""
        plan = self.plan
        count, k, d = told.starts.shape
        # Distances within the ball: what is beyond has no meaning, and would overflow the sum.
        most = plan.most if plan.may_split(number) else plan.most_starts
        other = not STARTS <= count <= most or k > plan.most or d != plan.d
        other |= told.cap > 4 * plan.reach**2
        self.refuse_if(other, "lets choose among other starts than the plan has")
        yield from self.add(told, number)

    def find_ball(self) -> Role[None]:
        """How rows lie, in place of a public ball that may be too large or not about the middle."""
        for number in range(len(self.plan.noises.boxes) + 1):
            told = yield from self.receive(Narrow, 0)
            asks = NOTHING if number == len(self.plan.noises.boxes) else (MEAN, SHELLS)[number % 2]
            wrong = told.asks != asks or len(told.origin) != self.plan.d or told.radius > self.widest
            self.refuse_if(wrong, "asks about another ball than the plan has")
            if asks != NOTHING:
                yield from self.add(told)
                continue
            client_contributions(self.mine, told)
            self.plan = self.mine.plan
            self.question += STRIDE

    def send_votes(self) -> Role[None]:
        """Votes along lines, and for candidates in full space."""
        plan = self.plan
        for _ in range(plan.lines):
            told = yield from self.receive(Project, 0)
            other = not votes_on_line(plan, told) or len(told.proxies) != PLACES
            self.refuse_if(other, "lets vote along other lines than the plan has")
            yield from self.add(told)
        for _ in range(plan.start.rounds or 1 if isinstance(plan.start, Votes) else 0):
            told = yield from self.receive(Project, 0)
            # Nothing is projected away.
            other = (
                not np.array_equal(told.projection, np.eye(plan.d))
                or len(told.proxies) != plan.weighted_count
            )
            self.refuse_if(other, "lets vote on other features or candidates than the plan has")
            yield from self.add(told)

    def move_centers(self, number: int) -> Role[None]:
        """Sums about centers: step 3 of Algorithm 1 (number 0), or one of FedDP-Lloyds."""
        plan = self.plan
        bounds = plan.by_client * len(plan.noises.group(number))
        kinds = GroupAbout | Choose if plan.may_split(number) else GroupAbout
        told = yield from self.receive(kinds, bounds)
        if isinstance(told, Choose):
            yield from self.answer_choice(told, number)
            told = yield from self.receive(GroupAbout, bounds)
        k, features = len(told.centers), plan.d
        if told.projected:
            if number or self.projection is None:
                raise FaultyServer(SERVER, "sends projected centers where there is no projection")
            features = self.projection.shape[1]
        self.refuse_if(
            told.centers.shape != (k, features) or told.origins.shape != (k, plan.d),
            f"sends centers that are not rows of {features} features",
        )
        self.refuse_if(
            not 1 <= k <= plan.most_groups(number) or not LEAST_REACH <= told.reach <= MAX_REACH,
            f"asks for k={k} clusters within {told.reach} steps: the plan forbids it",
        )
        yield from self.add(told, number)


def run_client(
    plan: FedDPPlan, party: Party, coins: Coins
) -> Role[tuple[Array, dict[str, tuple[int, int]], Array]]:
    """My labels (m_j,), how many of my contributions were shortened, and the centers.

    Of labels nobody has more than `FedDPPlan.labels` lets out.
    """
    if plan.labels is not None:
        plan.labels.check_rows(party.points.shape[0], f"client {party.name!r}")
    yield from agree_with_workers(plan, party.name, plan.computing)
    client, initial = FedDPClient(plan, party, coins), isinstance(plan.start, FedDPInit)
    if initial:
        yield from client.find_proxies()
    if plan.noises.boxes:
        yield from client.find_ball()
    yield from client.send_votes()
    for number in range(0 if initial else 1, len(plan.noises.lloyd) + 1):
        yield from client.move_centers(number)
        if not number and plan.variant.chosen:
            yield from client.compare_starts()
    if plan.doubts:
        yield from client.compare_starts()
    told = yield from client.receive(NoisyCenters, 0)
    if told.centers.shape[1] != plan.d or not 1 <= len(told.centers) <= plan.most:
        raise FaultyServer(SERVER, "sends centers of other features or clusters than the plan has")
    yield from compare_last(client.plan.sums, party.name, client.heard, client.question)
    mine = client.mine
    every = mine if len(mine.points) == party.points.shape[0] else ClientStatistics(client.plan, party.read())
    with one_thread():
        labels = nearest_proxy(every.rows, told.centers)
    if plan.labels is not None:
        # Whatever centers came: each is a function of one row, so false ones gain a server nothing.
        answer = NoisyLabels(compact_labels(plan.labels(labels, len(told.centers), coins=coins)))
        yield Exchange({SERVER: answer}, round=client.question, phase="label")
    return labels.astype(np.int32), mine.shortened, told.centers + client.plan.origin


# --------------------------------------------------------------------------------------------------
# Bounds for clients' statistics, from clients simulated out of the server's public points.
#
# Nothing here sees a client's data: bounds depend on public points, earlier noisy releases and a seed.

SIMULATED = 100


def client_bounds(
    plan: FedDPPlan,
    noises: tuple[Noise | None, ...],
    statistic: Callable[[ClientStatistics], list[Array]],
    weights: Array,
    seed: int,
) -> tuple[int, ...]:
    """Where to clip each vector of a statistic: a quantile of its norms over simulated clients.

    A simulated client draws plan.rows rows among the server's points by weights (s,).  The norm is L1 where
    the noise is Laplace noise.  Empty where single points are protected: then rows are clipped alone.
    """
    if not plan.by_client:
        return ()
    rng = np.random.default_rng(seed)
    norms: list[list[float]] = []
    for _ in range(SIMULATED):
        drawn = rng.choice(len(plan.points), plan.rows, p=weights / weights.sum())
        vectors = statistic(ClientStatistics(plan, plan.points[drawn] + plan.origin))
        norms.append(
            [
                float(np.linalg.norm(v.astype(np.float64), 1 if isinstance(noise, Laplace) else 2))
                for v, noise in zip(vectors, noises, strict=True)
            ]
        )
    quantiles = np.quantile(norms, plan.variant.client_quantile, axis=0)
    return tuple(max(LEAST_REACH, int(q)) for q in quantiles)
