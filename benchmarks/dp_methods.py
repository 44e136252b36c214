"""What `benchmarks.dp` compares: a name for every method, and how it is played on a cell's data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Protocol

import click
import numpy as np

import secfc
from benchmarks.common import Row
from field.compare.shells import UNIT, WEIGHTS, shell_squares
from field.secrets.coins import SystemCoins
from secfc.algorithm import PublicFacts
from secfc.coded.plan import PublicOwnerLayout
from secfc.data.federation import Federation
from secfc.disclosure.noise.in_shares import ReleaseCounts
from secfc.disclosure.noise.sums import NoisySums
from secfc.disclosure.noise.sums_question import SumsQuestion
from secfc.disclosure.noise.sums_server import NoisySumsServer
from secfc.feddp import (
    OURS,
    PAPER,
    FedDPKMeans,
    GivenCenters,
    ServerKMeansPlusPlus,
    ServerLloyds,
    ServerNoise,
    SharedNoise,
    SpherePacking,
)
from secfc.feddp import statistics as feddp_statistics
from secfc.feddp.aggregator import Aggregator, find_centers
from secfc.feddp.algorithm import Details
from secfc.feddp.clients import ClientStatistics, client_contributions
from secfc.feddp.messages import Choose, GroupAbout, Project
from secfc.feddp.noise import Laplace
from secfc.feddp.server_estimates import one_thread, project_into_ball, shrink_to_anchors
from secfc.privacy import Bound, Budget, Neighbors, RandomizedResponse, gaussian_multiplier
from secfc.privacy.accountant import gaussian_epsilon
from secfc.privacy.mechanisms import MOST_RESPONSE
from secfc.roles.exchange import Role
from secfc.secure_sum.protocol import SecureSum

Array = Any

DELTA = 1e-6
# Sites that hold the points of all clients where SecFC protects data points.
SITES = 5
# SecFC's clients deal to one another: more of them than this take hours.
MOST = 100


@dataclass(frozen=True, eq=False)
class Problem:
    """points (m, d): of all clients.  best (k, d), cost: the centers of the optimum, its cost per point."""

    federation: Any
    points: Array
    best: Array
    cost: float


@dataclass(frozen=True, eq=False)
class Played:
    """centers (k', d) in data units and labels (m,); what a private run says of itself."""

    centers: Array
    labels: Array
    ledger: Any = None
    details: Any = None


class Method(Protocol):
    """A line of the tables.

    reader: who has its labels.  beyond: epsilons for which it is played besides, where data points are
    protected and nobody says which.
    """

    reader: str
    beyond: tuple[float, ...]

    def play(self, cell: Row, problem: Problem, seed: int) -> Played:
        """Play one run."""
        ...


class NotPrivate:
    """Methods without a budget: played once on every data set."""

    reader, beyond = "everybody", ()


class Optimal(NotPrivate):
    """What excess is measured from."""

    def play(self, cell: Row, problem: Problem, seed: int) -> Played:
        return Played(problem.best, nearest(problem.points, problem.best))

    def start(self, cell: Row, problem: Problem) -> GivenCenters:
        return GivenCenters(problem.best)


class KFed(NotPrivate):
    """One round of k-FED."""

    def play(self, cell: Row, problem: Problem, seed: int) -> Played:
        federation, k = problem.federation, cell["k"]
        k_local = min(k, int(np.median(federation.counts)))
        result = secfc.fit(secfc.KFed(k, k_local=k_local, seed=seed), federation, seed=seed)
        return Played(result.centers, result.flat)

    def start(self, cell: Row, problem: Problem) -> GivenCenters:
        return GivenCenters(self.play(cell, problem, 0).centers)


class OneCenter(NotPrivate):
    """The mean of all points: what a method is worth nothing above."""

    def play(self, cell: Row, problem: Problem, seed: int) -> Played:
        return Played(problem.points.mean(axis=0)[None], np.zeros(len(problem.points), int))


def nearest(points: Array, centers: Array) -> Array:
    """The label (m,) of the nearest center, in floats."""
    return np.argmin((centers**2).sum(axis=1) - 2 * points @ centers.T, axis=1)


ROWS = 1 << 13  # of clients that are computed at once


class PlainAggregator(Aggregator):
    """Adds up what `secfc.feddp.clients` would share, all rows (m, d) in one place: the same sums, sooner.

    Where data points are protected, it makes no difference who holds a row; where clients are, all have the
    same number of rows, and the vectors of many are made and shortened at once.
    """

    def __init__(self, plan: Any, points: Array, each: int, rng: Any) -> None:
        super().__init__(plan, SystemCoins(), rng)
        self.each, self.projection, self.number = each, None, int(plan.noises.outer is None)
        size = each * max(1, ROWS // each)
        self.blocks = [ClientStatistics(plan, points[i : i + size]) for i in range(0, len(points), size)]

    def open_sum(self, told: Any, parts: Any) -> Role[SecureSum]:
        yield from ()
        if isinstance(told, Project):
            self.projection = told.projection
        with one_thread():
            total = sum(self.add_block(block, told, parts) for block in self.blocks)
        self.number += isinstance(told, GroupAbout)
        return SecureSum(np.asarray(total), self.plan.clients)

    def add_block(self, block: ClientStatistics, told: Any, parts: Any) -> Array:
        """The sum of the vectors of the clients of a block."""
        if not self.plan.by_client:
            return np.concatenate(client_contributions(block, told, self.number, self.projection)[1])
        bounds = (self.plan.outer_bound,) if told is None else told.bounds
        short = []
        for part, vectors, bound in zip(parts, self.client_vectors(block, told), bounds, strict=True):
            if isinstance(part.noise, Laplace):
                clipped, long = zip(
                    *(feddp_statistics.shorten_l1(each, bound) for each in vectors), strict=True
                )
            else:
                clipped, long = feddp_statistics.shorten_to_bound(vectors.astype(float), bound)
            block.shortened[part.what] = (int(np.sum(long)), len(vectors))
            short.append(np.sum(clipped, axis=0))
        return np.concatenate(short)

    def client_vectors(self, block: ClientStatistics, told: Any) -> list[Array]:
        """What each client of a block adds before it is shortened: a vector a client, (n, size) a part."""
        plan, n = self.plan, len(block.clipped) // self.each

        def by_client(rows: Array) -> Array:
            return np.asarray(rows.reshape(n, self.each, -1))

        if told is None:
            return [self.outer_products(by_client(self.rows_for_outer(block)))]
        if isinstance(told, Choose):
            gains = feddp_statistics.row_advantages(block.clipped, told.starts, plan.scale, told.cap)
            return [by_client(gains).sum(axis=1)]
        if isinstance(told, Project):
            centers, projection = told.proxies, told.projection
        else:
            centers, projection = told.centers, self.projection if told.projected else None
        labels = feddp_statistics.labels_of(block.clipped, projection, centers, plan.scale)
        member = by_client(labels) == np.arange(len(centers))  # (n, rows, k)
        counts = member.sum(axis=1)
        if isinstance(told, Project):
            return [counts * feddp_statistics.UNIT]
        away = (block.rows - told.origins[labels]) * plan.scale
        rows = by_client(feddp_statistics.shorten_whole(away, told.reach)[0])
        sums = member.transpose(0, 2, 1).astype(float) @ rows
        if plan.variant.joint:
            unit = plan.count_unit(told.reach)
            return [np.concatenate([sums.reshape(n, -1), counts * unit], axis=1)]
        means = np.rint(sums / np.maximum(counts, 1)[:, :, None])
        return [means.reshape(n, -1), (counts > 0) * feddp_statistics.UNIT]

    def rows_for_outer(self, block: ClientStatistics) -> Array:
        """Rows within the reach of the outer product."""
        if self.plan.outer_reach >= self.plan.reach:
            return block.clipped
        return feddp_statistics.shorten_whole(block.rows * self.plan.scale, self.plan.outer_reach)[0]

    def outer_products(self, rows: Array) -> Array:
        """`feddp_statistics.outer_product` of each client's rows, (n, rows, d)."""
        traceless = self.plan.variant.symmetric
        return np.stack(
            [feddp_statistics.outer_product(own, self.plan.weights, traceless=traceless) for own in rows]
        )

    def finish(self, centers: Array) -> Role[None]:
        yield from ()


def play_in_one_place(algorithm: FedDPKMeans, problem: Problem, seed: int) -> Played:
    """What `secfc.fit` gives, without shares: sums are the same, and the server adds the noise."""
    plan, rng = algorithm.plan(PublicFacts.of(problem.federation, bounded=False)), np.random.default_rng(seed)
    each = problem.federation.counts[0] if plan.by_client else 1
    books = PlainAggregator(plan, problem.points, each, rng)
    try:
        next(find_centers(plan, books, rng))
    except StopIteration as end:
        found = end.value
    shortened: dict[str, tuple[int, int]] = {}
    for block in books.blocks:
        for part, (some, of) in block.shortened.items():
            before = shortened.get(part, (0, 0))
            shortened[part] = (before[0] + some, before[1] + of)
    labels = nearest(problem.points, found.centers)
    return Played(found.centers, labels, found.ledger, Details(found, shortened))


@dataclass(frozen=True, eq=False)
class FedDP:
    """FedDPKMeans with these arguments; `after`: from the centers of a method that is not private."""

    arguments: Mapping[str, Any] = field(default_factory=dict)
    after: Any = None
    reader: ClassVar[str] = "owners"
    beyond: ClassVar[tuple[float, ...]] = ()

    def play(self, cell: Row, problem: Problem, seed: int) -> Played:
        unit, more = cell["unit"], dict(self.arguments)
        if self.after is not None:
            more["start"] = self.after.start(cell, problem)
        algorithm = FedDPKMeans(
            cell["k"], cell["epsilon"], DELTA,
            neighbors=Neighbors(unit=unit),
            # Publicly known: what a device holds in the mixture, about what a user holds in the others.
            rows_per_client=cell["rows"] if unit == "client" else None,
            # A small committee: results are the same for any, and thousands of clients simulated in time.
            committee=min(5, problem.federation.n), **({"noise": ServerNoise()} | more),
        )  # fmt: skip
        alike = unit == "data point" or len(set(problem.federation.counts)) == 1
        if alike and algorithm.noise == ServerNoise():
            return play_in_one_place(algorithm, problem, seed)
        result = secfc.fit(algorithm, problem.federation, seed=seed)
        return Played(result.centers, result.flat, result.ledger, result.details)


@dataclass(frozen=True, eq=False)
class Released:
    """Ours for a tenth of the budget, and of all rows labels by randomized response; one row replaced."""

    share: float = 0.1
    reader: ClassVar[str] = "everybody"
    beyond: ClassVar[tuple[float, ...]] = (4.0, 8.0)

    def play(self, cell: Row, problem: Problem, seed: int) -> Played:
        labels = RandomizedResponse(min((1 - self.share) * cell["epsilon"], MOST_RESPONSE))
        algorithm = FedDPKMeans(
            cell["k"], cell["epsilon"] - labels.epsilon, DELTA, neighbors=Neighbors("replace"),
            committee=min(5, problem.federation.n), noise=ServerNoise(), labels=labels,
        )  # fmt: skip
        result = secfc.fit(algorithm, problem.federation, seed=seed)
        return Played(result.centers, np.concatenate(result.released_labels), result.ledger, result.details)


@dataclass(frozen=True, eq=False)
class Persons(FedDP):
    """FedDPKMeans for persons who have rows at up to so many clients: noise that many times as wide.

    What one row costs of a Gaussian budget is its shift, and the shifts of a person's rows add up.
    """

    clients: int = 2

    def play(self, cell: Row, problem: Problem, seed: int) -> Played:
        shift = 1 / gaussian_multiplier(Budget(cell["epsilon"], DELTA)) / self.clients
        return super().play({**cell, "epsilon": gaussian_epsilon(shift**2, DELTA)}, problem, seed)


@dataclass(frozen=True, eq=False)
class Noisy:
    """SecFC with noise on distances and on the opened centers, for so many iterations.

    What serves it best: points about the public mean of the server's, shortened to the 90 % quantile of
    their norms, few iterations, and the noise of n - 1 of n clients, t = 1 colluding.  Neighbors are
    replaced, which is the only relation that public row counts allow.
    """

    steps: int
    reader: ClassVar[str] = "everybody"
    beyond: ClassVar[tuple[float, ...]] = (4.0, 8.0, 32.0, 1024.0)

    def play(self, cell: Row, problem: Problem, seed: int) -> Played:
        federation, unit = problem.federation, cell["unit"]
        origin = federation.server_points.mean(axis=0)
        radius = Bound.from_public(federation.server_points, 0.9, origin)
        noise = secfc.NoiseInShares(
            Budget(cell["epsilon"], DELTA), radius=radius, neighbors=Neighbors("replace", unit)
        )
        way = secfc.SecFC(
            cell["k"],
            threshold=1,
            max_iter=self.steps,
            disclosure=noise,
            release=secfc.Release(reveal_centers=True),
        )
        moved = problem.points - origin
        if unit == "client":
            if federation.n > MOST:
                raise click.UsageError(
                    f"SecFC protects clients who deal to one another, and {federation.n} are too many: "
                    f"give --clients {MOST} or fewer, or leave SecFC out"
                )
            held = Federation.from_arrays(federation.split(moved))
        else:
            held = Federation.from_arrays(np.array_split(moved, SITES))
        result = secfc.fit(way, held, bound=radius.value, seed=seed)
        centers = result.centers[np.isfinite(result.centers).all(axis=1)]
        # Centers are drawn to the public mean as far as noise explains them: it is public, so at no cost.
        plan, sizes = result.plan, np.bincount(result.flat, minlength=cell["k"])
        wide = noise.noise(ReleaseCounts.of(plan), plan.quantizer.radius)
        one = wide.on_sums(plan.layout, result.flat, plan.k, plan.d) / Fraction(plan.quantizer.scale)
        sigma = float(one) * np.sqrt(held.n) / sizes[sizes > 0]
        centers = project_into_ball(shrink_to_anchors(centers, np.zeros_like(centers), sigma), radius.value)
        return Played(centers + origin, result.flat, result.ledger)


class PlainSums(NoisySumsServer):
    """What `NoisySums` opens, of integers (m, d) in one place; clipped: rows shortened exactly, no shells."""

    def __init__(self, plan: Any, policy: NoisySums, rows: Array, rng: Any, clipped: bool = False) -> None:
        self.plan, self.steps, self.noise = plan, policy.steps, policy.noise(plan.code.n, plan.code.t)
        self.rows, self.rng, self.clipped, self.radius = rows, rng, clipped, plan.radius

    def open_sums(self, number: int, centers: Array, radius: int) -> Any:
        yield from ()
        asked = SumsQuestion(number, radius, centers, tuple(range(self.plan.code.n)))
        exact = np.zeros((len(centers), self.plan.d + 1))
        scores = (centers**2).sum(axis=1) - 2.0 * self.rows @ centers.T
        squares = scores.min(axis=1) + np.einsum("ij,ij->i", self.rows, self.rows)
        weights = np.array([*WEIGHTS, 0])[np.searchsorted(shell_squares(radius), squares)]
        if self.clipped:
            weights = UNIT * np.minimum(1, radius / np.sqrt(np.maximum(squares, 1)))
        for h, of in enumerate(scores.argmin(axis=1) == np.arange(len(centers))[:, None]):
            exact[h, :-1] = weights[of] @ (self.rows[of] - centers[h])
            exact[h, -1] = asked.unit * weights[of].sum()
        one = float(self.noise.client_deviation(asked.sensitivity, self.noise.sums, exact.size))
        noise = one * math.sqrt(self.plan.code.n) * self.rng.normal(size=exact.shape)
        return np.rint(exact + noise), asked


@dataclass(frozen=True, eq=False)
class Sums:
    """SecFC with noisy sums, for persons whose rows lie at any number of clients: each counts once.

    Its law is played on integers in one place, as comparing on shares opens the same (`PlainSums`): 5 clients
    deal noise, of whom 1 may collude.  Rows are about the public mean of the server's points; neighbors are
    replaced.
    """

    steps: int = 4
    reader: ClassVar[str] = "owners"
    beyond: ClassVar[tuple[float, ...]] = ()

    def play(self, cell: Row, problem: Problem, seed: int, clipped: bool = False) -> Played:
        public = problem.federation.server_points
        origin = public.mean(axis=0)
        radius = Bound.from_public(public, 1.0, origin)
        policy = NoisySums(Budget(cell["epsilon"], DELTA), radius, self.steps)
        held = Federation.from_arrays(
            np.array_split(problem.points - origin, SITES), server_points=public - origin
        )
        way = secfc.SecFC(cell["k"], threshold=1, disclosure=policy)
        plan = way.complete(PublicFacts.of(held, radius.value), PublicOwnerLayout(held.counts))
        rows = plan.quantizer(np.asarray(problem.points - origin, float)).astype(float)
        server = PlainSums(plan, policy, rows, np.random.default_rng([seed, 5]), clipped)
        list(server(np.zeros(0), cell["k"], self.steps, None))
        centers = server.centers + origin
        return Played(centers, nearest(problem.points, centers), policy.ledger(plan))


# One improvement after the other, from the paper's variant to ours.
LADDER: dict[str, dict[str, Any]] = {
    "paper": {},
    "+ centered on the public mean": {"centered": True, "quantile": 0.9},
    "+ symmetric noise": {"symmetric": True},
    "+ one Gaussian mechanism": {"gaussian": True, "client_quantile": 0.5},
    "+ weak weights dropped, points merged": {"cleaned": True, "merged": 30},
    "+ sums and counts as one": {"joint": True},
    "+ residuals": {"residuals": True},
    "+ shrunk": {"shrunk": True},
    "+ more directions": {"directions": 2},
    "+ a choice of the start": {"chosen": True},
    "+ a step of Lloyd (ours)": {},
}
# Ours without one of them.
WITHOUT: dict[str, dict[str, Any]] = {
    "not centered": {"centered": False},
    "not symmetric": {"symmetric": False},
    "not one vector": {"joint": False},
    "no residuals": {"residuals": False},
    "not cleaned": {"cleaned": False},
    "not shrunk": {"shrunk": False},
    "k directions": {"directions": 1},
    "no choice": {"chosen": False},
}
STARTS = {
    "ServerKMeans++": ServerKMeansPlusPlus(),
    "ServerLloyds": ServerLloyds(),
    "SpherePacking": SpherePacking(),
}
NOT_PRIVATE: dict[str, Any] = {"k-FED": KFed(), "Optimal": Optimal()}


def lloyd() -> dict[str, Method]:
    """Other initial centers than FedDP-Init's, continued by FedDP-Lloyds."""
    table: dict[str, Method] = {}
    for steps in (1, 3):
        for name, start in STARTS.items():
            table[f"{name}, T={steps}"] = FedDP({"start": start, "steps": steps, "variant": PAPER})
        for name, after in NOT_PRIVATE.items():
            table[f"{name}, T={steps}"] = FedDP({"steps": steps, "variant": PAPER}, after)
    return table


def noisy() -> dict[str, Method]:
    """SecFC with noise on distances."""
    return {f"SecFC, noise on distances, T={t}": Noisy(t) for t in (1, 10)}


def ablation() -> dict[str, Method]:
    """The improvements, one after the other and one by one."""
    table: dict[str, Method] = {}
    step = PAPER
    for name, change in LADDER.items():
        step = replace(step, **change)
        more = {"variant": step, "steps": None if name.endswith("(ours)") else 0}
        table[f"ablation {name}"] = FedDP(more)
    for name, change in WITHOUT.items():
        table[f"ablation ours, {name}"] = FedDP({"variant": replace(OURS, **change)})
    return table


def splits() -> dict[str, Method]:
    """Splits of the budget: outer product, weights of the server's points, sums and counts."""
    chosen = ((0.1, 0.05, 0.85), (0.12, 0.08, 0.8), (0.25, 0.05, 0.7), (0.4, 0.05, 0.55), (0.5, 0.1, 0.4))
    return {f"split {s}, T={t}": FedDP({"shares": s, "steps": t}) for s in chosen for t in (0, 1)}


def fronts() -> dict[str, Method]:
    """The paper's variant with budgets split otherwise, and 0 to 2 steps: what Pareto fronts are made of."""
    return {
        f"front {s}, T={t}": FedDP({"variant": PAPER, "shares": s, "steps": t})
        for s in TRIED
        for t in (0, 1, 2)
    }


# Of the start, for outer product, weights, sums and counts: as the paper found best, and others about them.
TRIED = ((0.2, 0.2, 0.45, 0.15), (0.4, 0.1, 0.4, 0.1), (0.1, 0.1, 0.65, 0.15), (0.3, 0.3, 0.3, 0.1))
FEDDP: dict[str, Method] = {
    "ours": FedDP(),
    "paper": FedDP({"variant": PAPER}),
    "ours, noise in shares": FedDP({"noise": SharedNoise()}),
}
RELEASED: dict[str, Method] = {"ours, labels by response": Released()}
ABLATION, SPLITS, FRONTS = ablation(), splits(), fronts()
PEOPLE: dict[str, Method] = {f"ours, persons at up to {c} clients": Persons(clients=c) for c in (2, 3, 5)}
PEOPLE["SecFC, noisy sums"] = Sums()
METHODS: dict[str, Method] = (
    FEDDP | RELEASED | lloyd() | noisy() | NOT_PRIVATE | ABLATION | SPLITS | FRONTS | PEOPLE
)
METHODS["one center"] = OneCenter()
USUAL = (
    "ours", "paper", *(name for name in METHODS if name.split(",")[0] in STARTS),
    "SecFC, noise on distances, T=1", "SecFC, noisy sums", "ours, labels by response", "one center", "k-FED",
    "k-FED, T=1", "Optimal",
)  # fmt: skip
# What protects data points alone, or few clients: not among the usual ones where clients are protected.
BY_POINT = ("SecFC, noise on distances, T=1", "SecFC, noisy sums", "ours, labels by response")


def most_right(epsilon: float, k: int) -> float:
    """Part of labels that others see that may be right where a row is replaced, in the mean over clusters."""
    return 1 / (1 + (k - 1) * math.exp(-min(epsilon, 700)))
