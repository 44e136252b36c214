"""Differential privacy for SecFC: noise on decoded distances and on opened centers.

Two mechanisms with two names, and two entries in the ledger.  `NoiseAtServer` protects what is published; the
server itself decodes exact distances.  `NoiseInShares` protects against the server too: every client deals
shares of its own noise before it replies, and what the server decodes has the noise of all of them on it.

Both claim a total (epsilon, delta) for everything that follows from the labels of all iterations, and the
centers if they are opened.  The clusters that distances are measured to are the previous release, so
iterations compose.  All questions that a run may ask are paid for, also if it converges earlier.

What it means, honestly: one point moves its own k distances by as much as they can differ at all, so noise
of that size is nearly local privacy.  At small epsilon the assignments are near random; that is a property
of releasing distances, not of this code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from field.blind import deal_blinding
from field.coins import Coins, SystemCoins
from field.noise import DISTANCE, discrete_gaussian, rounded_gaussian
from field.quantize import Quantizer
from field.rows import cluster_sizes
from secfc.disclosure.distances import BlindedSource, Distances
from secfc.disclosure.policy import Answer, Exposure
from secfc.exchange import SERVER, Exchange, FaultyServer, PartyId, Role, TooFewReplies, take, to_all
from secfc.layout import Layout
from secfc.lloyd import Step
from secfc.messages import (
    Assignment,
    CodedCenters,
    CodedDistances,
    Contributors,
    NoiseShares,
    RevealCenters,
    compact_labels,
)
from secfc.plan import Plan
from secfc.privacy.bounds import Bound
from secfc.privacy.calibration import Budget, solve, split
from secfc.privacy.distances import parts
from secfc.privacy.errors import PrivacyError
from secfc.privacy.events import (
    Composed,
    DiscreteGaussian,
    DistributedDiscreteGaussian,
    Event,
    NonPrivate,
    RoundedGaussian,
)
from secfc.privacy.ledger import EVERYBODY, Ledger
from secfc.privacy.neighbors import Neighbors
from secfc.privacy.noisy import REACH, Noise
from secfc.sharing import check_residues
from secfc.source import CodedSource
from secfc.starts import GivenLabels, RandomLabels

Array = NDArray[Any]


@dataclass(frozen=True)
class Steps:
    """What a run releases at most: so many questions about distances, and the centers or not, 1 or 0."""

    n: int
    t: int
    k: int
    questions: int
    centers: int

    @classmethod
    def of(cls, plan: Any) -> Steps:
        """Of a plan."""
        code = plan.code
        return cls(code.n, code.t, plan.k, asked(plan), int(bool(plan.revealing)))


def asked(plan: Any) -> int:
    """How many clusterings distances are measured to: every iteration of every start, and its cost."""
    return int(plan.n_init * (plan.max_iter + 1))


@lru_cache(maxsize=64)
def discrete_multiplier(budget: Budget) -> float:
    """The noise multiplier of one discrete Gaussian mechanism that spends the budget."""
    return solve(budget, DiscreteGaussian)


@dataclass(frozen=True)
class _Noisy:
    """The common part: a budget for a run, and what it takes to fit one."""

    budget: Budget
    radius: Bound
    neighbors: Neighbors = field(default_factory=lambda: Neighbors("replace"))
    center_share: float = 0.1

    predicts: ClassVar[bool] = False  # labels of new points would cost more than the budget

    def __post_init__(self) -> None:
        if not 0 < self.center_share < 1:
            raise ValueError(f"center_share={self.center_share} must be in (0, 1): a part of the budget")

    def contributors(self, n: int) -> int:
        """How many parties add noise."""
        raise NotImplementedError

    def noise(self, steps: Steps, radius: int) -> Noise:
        """What each of them adds."""
        raise NotImplementedError

    def released(self, plan: Plan) -> Event:
        """All that a run releases at most."""
        raise NotImplementedError

    def weights(self, steps: Steps) -> tuple[float, ...]:
        """Shares of the budget: of every question, and of the centers if they are opened."""
        if not steps.centers:
            return (1 / steps.questions,) * steps.questions
        return ((1 - self.center_share) / steps.questions,) * steps.questions + (self.center_share,)

    def clip(self, quantizer: Quantizer) -> Quantizer:
        return replace(quantizer, radius=self.radius.steps(quantizer.scale))

    def headroom(self, way: Any, public: Any, layout: Layout) -> int:
        if public.derived:
            raise PrivacyError(
                "the bound on absolute values would be read off the private data, which no noise protects: "
                "give fit a bound that you know, such as the radius"
            )
        steps = Steps(len(public.clients), way.t, way.k, asked(way), int(bool(way.reveal_centers)))
        rows = 1 if self.neighbors.unit == "data point" else max(public.counts)
        parties = self.contributors(steps.n)
        widest = self.noise(steps, 1).largest(layout.m, steps.k, rows)
        # D <= 4 B**2 and 2 REACH sigma of every contributor, against d (2 eta)**2; B / eta is at most
        # radius / bound, and what ceil adds is below one step for each.
        wide = (self.radius.value / public.bound) ** 2 * (1 + REACH * widest * parties / 2) / public.d
        return int(math.ceil(wide * (1 + 1e-9)) + 1 + parties)

    def check(self, plan: Plan) -> None:
        """Raises PrivacyError or ValueError for a run that this noise does not cover."""
        if not isinstance(plan.init, RandomLabels | GivenLabels):
            raise PrivacyError(
                f"init={type(plan.init).__name__} measures distances of its own, which the budget does not "
                "cover: start from RandomLabels or from GivenLabels that are public"
            )
        labels = np.zeros(plan.m, np.int32)
        parts(self.neighbors, plan.layout, labels, plan.k)  # refuses neighbors that cannot be protected
        self.budget.check(self.released(plan))
        steps = Steps.of(plan)
        noise = self.noise(steps, plan.quantizer.radius or 1)
        if steps.centers:
            one = noise.on_sums(plan.layout, labels, plan.k, plan.d)
            reach = plan.largest * noise.radius + self.contributors(steps.n) * REACH * one
            if 2 * reach >= plan.code.basis.modulus:
                raise ValueError("noisy cluster sums do not fit the modulus: lower the scale")

    def _ledger(self, plan: Plan, how: str) -> Ledger:
        centers = " and opened centers" if plan.revealing else ""
        event = NonPrivate() if self.radius.private else self.released(plan)
        what = f"labels of at most {Steps.of(plan).questions} iterations{centers}, {how}"
        return Ledger(self.neighbors).record(event, what=what, seen_by=EVERYBODY)


@dataclass(frozen=True)
class NoiseAtServer(_Noisy):
    """The server adds noise to the distances it decodes, and to the centers it publishes.

    budget: for everything that clients and the public see: labels and centers.  The server itself sees exact
    distances, and exact cluster sums if they are opened: for its view the run is not private.
    radius: no point is longer, in data units; longer ones are shortened before they are shared.
    neighbors: replace one data point, or one client.  center_share: of the budget, if centers are opened.
    colluding: see `Distances`.  coins: makes the server's secret coins.

    Noise is rounded Gaussian, accounted as the continuous one.
    """

    exposes: ClassVar[Exposure] = "distances"

    colluding: int = 1
    coins: Callable[[], Coins] = field(default=SystemCoins, repr=False)

    def contributors(self, n: int) -> int:
        return 1

    def noise(self, steps: Steps, radius: int) -> Noise:
        each = split(self.budget, self.weights(steps))
        return Noise(rounded_gaussian, self.neighbors, radius, each[0], each[-1])

    def released(self, plan: Plan) -> Event:
        steps = Steps.of(plan)
        noise = self.noise(steps, 1)
        asked = RoundedGaussian(noise.distances, plan.m * plan.k * DISTANCE)
        opened = RoundedGaussian(noise.sums, plan.k * plan.d * DISTANCE)
        return Composed((asked,) * steps.questions + (opened,) * steps.centers)

    def client(self, plan: Plan, name: PartyId, *, coins: Coins) -> Role[Answer]:
        return Distances(colluding=self.colluding).client(plan, name, coins=coins)

    def open_centers(
        self, plan: Plan, name: PartyId, question: RevealCenters, compute: Callable[[], Array], coins: Coins
    ) -> Role[CodedCenters | None]:
        return Distances().open_centers(plan, name, question, compute, coins)

    def server(self, plan: Plan, present: tuple[PartyId, ...], *, threads: int) -> Role[CodedSource]:
        yield from ()
        noise = self.noise(Steps.of(plan), plan.quantizer.radius or 1)
        return NoisingSource(plan, present, noise, self.coins(), threads=threads)

    def ledger(self, plan: Plan) -> Ledger:
        ledger = self._ledger(plan, "noise added by the server")
        return ledger.record(NonPrivate(), what="exact distances in every iteration", seen_by=SERVER)

    def learned(self, plan: Plan) -> tuple[str, ...]:
        return (
            *Distances(colluding=self.colluding).learned(plan),
            "noise protects what it publishes, not what it sees itself",
        )


@dataclass(frozen=True)
class NoiseInShares(_Noisy):
    """Every client deals shares of its own noise with each reply: the server decodes noisy distances only.

    budget: for everything that anybody sees, also the server together with t clients: noise of the
    other n - t - absent clients alone suffices.  absent: how many clients may vanish after they shared.
    radius, neighbors, center_share: as for `NoiseAtServer`.  If centers are opened, at least as many
    clients must consent as noise needs, and all who consent must be there.

    Noise is discrete Gaussian; of the sum of several its zCDP bound is known, which costs some 7 % of
    epsilon over `NoiseAtServer`.  Every client sends every other k m residues a lane with every question.
    """

    # Of the noisy distances at least the labels; the attacks on exact ones do not apply.
    exposes: ClassVar[Exposure] = "labels"

    absent: int = 0

    def contributors(self, n: int) -> int:
        return n

    def honest(self, n: int, t: int) -> int:
        """How many clients' noise must suffice."""
        if n - t - self.absent < 1:
            raise ValueError(
                f"n={n} clients, t={t} of them colluding and {self.absent} absent, leave nobody whose noise "
                "counts: lower t or absent"
            )
        return n - t - self.absent

    def noise(self, steps: Steps, radius: int) -> Noise:
        one = discrete_multiplier(self.budget)
        each = [one / math.sqrt(w) for w in self.weights(steps)]
        honest = self.honest(steps.n, steps.t)
        return Noise(discrete_gaussian, self.neighbors, radius, each[0], each[-1], honest)

    def released(self, plan: Plan) -> Event:
        steps = Steps.of(plan)
        radius = plan.quantizer.radius or 1
        noise = self.noise(steps, radius)
        # Sensitivities are at least 4 and 2 in units of radius**2 and radius, and s_h at least 1.
        each = noise.distances / math.sqrt(noise.honest)
        asked = DistributedDiscreteGaussian(each, 4 * each * radius**2, noise.honest, plan.m * plan.k)
        each = noise.sums / math.sqrt(noise.honest)
        opened = DistributedDiscreteGaussian(each, 2 * each * radius, noise.honest, plan.k * plan.d)
        return Composed((asked,) * steps.questions + (opened,) * steps.centers)

    def check(self, plan: Plan) -> None:
        super().check(plan)
        needed = self.honest(plan.code.n, plan.code.t) + plan.code.t
        if plan.revealing and len(plan.revealing) < needed:
            raise PrivacyError(
                f"{len(plan.revealing)} clients open the centers, but the noise of {needed} is needed on "
                "them: let more consent, or plan for more absent ones"
            )

    def client(self, plan: Plan, name: PartyId, *, coins: Coins) -> Role[Answer]:
        yield from ()
        noise = self.noise(Steps.of(plan), plan.quantizer.radius or 1)
        return partial(noised, plan, name, noise, coins)

    def open_centers(
        self, plan: Plan, name: PartyId, question: RevealCenters, compute: Callable[[], Array], coins: Coins
    ) -> Role[CodedCenters | None]:
        noise = self.noise(Steps.of(plan), plan.quantizer.radius or 1)
        code, labels = plan.code, question.labels.astype(np.int32)
        total = noise.draw_sums(code.basis, plan.layout, labels, question.k, plan.d, coins=coins)
        shares = dict(zip(plan.clients, code.share(total, coins), strict=True))
        values, lost = yield from exchanged(plan, name, plan.revealing, shares, question.round)
        return None if lost else CodedCenters(code.basis.add(values, compute()))

    def server(self, plan: Plan, present: tuple[PartyId, ...], *, threads: int) -> Role[CodedSource]:
        yield from ()
        noise = self.noise(Steps.of(plan), plan.quantizer.radius or 1)
        return NoisedSource(plan, present, noise, threads=threads)

    def ledger(self, plan: Plan) -> Ledger:
        return self._ledger(
            plan, f"noise in the shares, also for the server and {plan.code.t} clients together"
        )

    def learned(self, plan: Plan) -> tuple[str, ...]:
        return (
            "all labels and cluster sizes, in every iteration (so did every client)",
            "noisy distances of every point to every center, in every iteration",
        )


# --- client --------------------------------------------------------------------------------------


def noised(
    plan: Plan,
    name: PartyId,
    noise: Noise,
    coins: Coins,
    question: Assignment,
    compute: Callable[[], Array],
) -> Role[CodedDistances | Contributors | None]:
    """Deal my noise to all who reply, add everybody's shares to my reply; or say whose did not come."""
    code = plan.code
    numbers = question.responders.tolist()
    dealers = tuple(plan.clients[j] for j in numbers)
    if name not in dealers:
        return None
    if len(dealers) < noise.honest + code.t:
        raise FaultyServer(SERVER, "asked for distances under less noise than was agreed")
    labels, k = question.labels.astype(np.int32), question.k
    basis = code.basis.prefix(plan.lanes(cluster_sizes(labels, k)))
    total = noise.draw_distances(basis, plan.layout, labels, k, coins=coins)
    shares = deal_blinding(code, basis.lanes, (k, plan.m), coins, total)
    dealt = dict(zip(plan.clients, shares, strict=True))
    values, lost = yield from exchanged(plan, name, dealers, dealt, question.round)
    if lost:
        return Contributors(np.array([c not in lost for c in plan.clients]))
    return CodedDistances(basis.add(values, compute()))


def exchanged(
    plan: Plan, name: PartyId, dealers: tuple[PartyId, ...], shares: Mapping[PartyId, Array], number: int
) -> Role[tuple[Array, set[PartyId]]]:
    """Send my noise's shares to the other dealers; the sum of those I hold, and of whom none came."""
    mine = shares[name]
    others = tuple(c for c in dealers if c != name)
    send = {c: NoiseShares(shares[c]) for c in others}
    inbox = yield Exchange(send, others, 0, round=number + 1, exact=True, phase="noise")
    basis = plan.code.basis.prefix(len(mine))
    total = mine
    for sender, message in take(inbox, NoiseShares).items():
        check_residues(basis, sender, message.values, mine.shape[1:])
        total = basis.add(total, message.values)
    return total, set(others) - set(inbox)


# --- server --------------------------------------------------------------------------------------


class NoisySource(CodedSource):
    """Steps from distances that carry noise and the offsets of their contributors."""

    noise: Noise

    def shifted(self, step: Step, labels: Array, k: int, contributors: int) -> Step:
        """The step without the offsets in its costs; these are noisy, and may be negative."""
        if step.within is None:
            return step
        offset = contributors * self.noise.offset(self.noise.on_distances(self.plan.layout, labels, k))
        sizes = cluster_sizes(labels, k).tolist()
        # s_h own points with s_h**2 times the offset each.
        within = tuple(w - offset * s**3 for w, s in zip(step.within, sizes, strict=True))
        return Step(step.labels, within)


class NoisingSource(BlindedSource, NoisySource):
    """Exact distances under noise that the server adds before it compares them."""

    def __init__(
        self, plan: Plan, present: tuple[PartyId, ...], noise: Noise, coins: Coins, *, threads: int = 1
    ) -> None:
        super().__init__(plan, present, threads=threads)
        self.noise, self.coins = noise, coins

    def replies(self, labels: Array, k: int, sizes: Array | None = None) -> Role[dict[int, Array]]:
        """Replies of which one carries the noise, weighted such that decoding adds it once."""
        values = yield from super().replies(labels, k, sizes)
        chosen, weights = self.plan.code.decoding(tuple(sorted(values)), 2)
        lanes = len(values[chosen[0]])
        basis = self.plan.code.basis.prefix(lanes)
        noise = self.noise.draw_distances(basis, self.plan.layout, labels, k, coins=self.coins)
        # Some 30-bit weight is zero with probability 2**-30: another reply then carries the noise.
        q = int(np.argmax((weights[:lanes] != 0).all(axis=0)))
        inverse = [pow(int(w), -1, p) for w, p in zip(weights[:, q], basis.primes, strict=False)]
        share = basis.multiply(noise, np.array(inverse, basis.dtype).reshape(-1, 1, 1))
        values[chosen[q]] = basis.add(values[chosen[q]], share)
        return values

    def step(self, labels: Array, k: int) -> Role[Step]:
        step = yield from super().step(labels, k)
        return self.shifted(step, labels, k, 1)

    def opened(self, labels: Array, k: int) -> Role[Array]:
        sums = yield from super().opened(labels, k)
        basis = self.plan.code.basis
        noise = self.noise.draw_sums(basis, self.plan.layout, labels, k, self.plan.d, coins=self.coins)
        return np.asarray(sums + basis.lift_signed(noise))


class NoisedSource(NoisySource):
    """Distances that already carry the noise of all who were asked; they all must hear one another."""

    def __init__(self, plan: Plan, present: tuple[PartyId, ...], noise: Noise, *, threads: int = 1) -> None:
        super().__init__(plan, present, threads=threads)
        self.noise, self.dealers = noise, present

    def question(self, labels: Array, k: int) -> Role[Mapping[PartyId, Any]]:
        """Ask all who are there; without those who vanish, ask anew, so with fresh noise."""
        code = self.plan.code
        needed = max(code.threshold(2), self.noise.honest + code.t)
        while len(self.dealers) >= needed:
            numbers = np.array([self.plan.clients.index(c) for c in self.dealers], np.int32)
            question = Assignment(next(self.rounds), k, compact_labels(labels), numbers)
            inbox = yield Exchange(
                to_all(self.present, question),
                self.dealers,
                0,
                round=question.round,
                exact=True,
                phase="assign",
            )
            complaints = {c: m for c, m in inbox.items() if isinstance(m, Contributors)}
            replies = {c: m for c, m in inbox.items() if c not in complaints}
            lost = set(self.dealers) - set(inbox)
            for message in take(complaints, Contributors).values():
                lost |= {c for c, came in zip(self.plan.clients, message.complete, strict=True) if not came}
            asked = len(self.dealers)
            self.dealers = tuple(c for c in self.dealers if c not in lost)
            if len(replies) >= code.threshold(2):
                self.carried = asked
                return replies
            if not lost:
                break
        raise TooFewReplies(needed, self.dealers)

    def step(self, labels: Array, k: int) -> Role[Step]:
        step = yield from super().step(labels, k)
        return self.shifted(step, labels, k, self.carried)
