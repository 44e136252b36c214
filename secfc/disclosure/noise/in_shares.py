"""Noise that clients deal in shares with their replies: the server decodes noisy distances only.

Claimed is a total (epsilon, delta) for everything that follows from the labels of all iterations, and the
centers if they are opened.  The clusters that distances are measured to are the previous release, so
iterations compose.  All questions that a run may ask are paid for, also if it converges earlier.

What it means, honestly: one point moves its own k distances by as much as they can differ at all, so noise
of that size is nearly local privacy.  At small epsilon the assignments are near random; that is a property
of releasing distances, not of this code.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from field.arrays import Array
from field.code.masking import deal_blinding
from field.code.rows import cluster_sizes
from field.ring.basis import Basis
from field.ring.noise import discrete_gaussian
from field.ring.quantize import Quantizer
from field.secrets.coins import Coins, StoredCoins
from secfc.coded.input_check import check_count
from secfc.coded.membership import Open
from secfc.coded.messages import CodedCenters, CodedDistances, NoiseShares, RevealCenters
from secfc.coded.parameters import select_workers
from secfc.coded.plan import CodedPlan, PublicOwnerLayout, RowLayout
from secfc.coded.policy import ClientPolicy, DecodedAnswers, DistanceOracle, PolicyCapabilities
from secfc.coded.queries import Operation, Query, Subject
from secfc.coded.quorum import Quorum, Screening, ServerContext
from secfc.coded.source import CodedSource, decoding_source
from secfc.data.inputs import NATURAL, REAL, check_fields, instance_of
from secfc.disclosure.noise.noise import REACH, Noise, check_units
from secfc.errors import (
    BudgetSpent,
    Caution,
    FaultyServer,
    InputError,
    PrivacyError,
    TooFewReplies,
)
from secfc.kmeans.starts import GivenLabels, RandomLabels, Start
from secfc.privacy.calibration import Bound, Budget, delta_warning, discrete_multiplier
from secfc.privacy.events import Composed, DistributedDiscreteGaussian, Event, Neighbors, NonPrivate
from secfc.privacy.ledger import EVERYBODY, Ledger
from secfc.roles.blame import suspect_parties
from secfc.roles.exchange import SERVER, Exchange, PartyId, Role, expect_messages, to_all
from secfc.roles.messages import Contributors, check_all, check_residues, compact_labels


@dataclass(frozen=True)
class ReleaseCounts:
    """What a run releases at most: so many questions about distances, and the centers or not, 1 or 0."""

    n: int
    t: int
    k: int
    questions: int
    centers: int

    @classmethod
    def of(cls, plan: Any) -> ReleaseCounts:
        """What a run under this plan releases at most."""
        code = plan.code
        return cls(code.n, code.t, plan.k, count_queries(plan), int(bool(plan.revealing)))


def count_queries(plan: Any) -> int:
    """How many clusterings distances are measured to: every iteration of every start, and its cost."""
    return int(plan.n_init * (plan.max_iter + 1))


KINDS = {
    "budget": instance_of(Budget, "Budget(epsilon=1.0, delta=1e-6)"),
    "radius": instance_of(Bound, "Bound.given(8.0)"),
    "neighbors": instance_of(Neighbors, 'Neighbors("replace")'),
    "center_share": REAL,
    "absent": NATURAL,
}


@dataclass(frozen=True)
class NoiseInShares:
    """Policy by which every client deals shares of its own noise, so that the server decodes noisy distances.

    Parameters
    ----------
    budget
        Privacy budget for everything that anybody sees, also the server together with t clients: the noise of
        the other n - t - absent clients alone suffices.
    radius
        Maximum norm of a point, in data units; longer points are shortened before they are shared.
    neighbors
        Neighboring data sets: replace one data point, or one client.
    center_share
        Part of the budget, in (0, 1), for opening centers.  As many clients as the noise needs must consent,
        and all that consent must be present.
    absent
        Clients that may vanish after they shared.
    repeats
        Ignored, with a DeprecationWarning: repeated queries cost nothing.

    Notes
    -----
    A query that is repeated because replies were lost carries unchanged noise, and is no further release.
    Clients stop at the paid number of other queries with BudgetSpent.

    Noise is discrete Gaussian; the sum of several costs what continuous noise of a few steps less costs
    (`DistributedDiscreteGaussian`).  With every query each client sends each other client k m residues per
    RNS channel.
    """

    capabilities: ClassVar[PolicyCapabilities] = PolicyCapabilities("noisy distances", exact=False)
    start: ClassVar[Start] = RandomLabels()  # others measure on the way, at a price
    sharing: ClassVar[None] = None
    public_start: ClassVar[str] = "the labels of the start"

    budget: Budget
    radius: Bound
    neighbors: Neighbors = field(default_factory=lambda: Neighbors("replace"))
    center_share: float = 0.1
    absent: int = 0
    repeats: int = 0

    def __post_init__(self) -> None:
        check_fields(self, KINDS)
        if (why := delta_warning(self.budget.delta)) is not None:
            raise InputError(why)
        if self.neighbors.of_persons:
            raise InputError(
                f"neighbors that {self.neighbors}: noise on distances hides a data point or a client. Use "
                "FedDPKMeans, or Neighbors('replace')"
            )
        if not 0 < self.center_share < 1:
            raise InputError(f"center_share={self.center_share} must be in (0, 1): a part of the budget")
        if self.repeats:
            warnings.warn(
                f"repeats={self.repeats} is ignored: questions that are put anew carry the same noise, and "
                "cost nothing. Leave it out.",
                DeprecationWarning,
                stacklevel=3,
            )

    def check_people(self, membership: Any) -> None:
        """Raises PrivacyError for neighbors that this noise does not cover, before rows are found."""
        check_units(self.neighbors, isinstance(membership, Open))

    def committee_choice(self, plan: CodedPlan) -> None:
        """No step asks in two questions."""
        return None

    def steps(self, plan: CodedPlan) -> ReleaseCounts:
        """What a run releases at most."""
        return ReleaseCounts.of(plan)

    def weights(self, steps: ReleaseCounts) -> tuple[float, ...]:
        """Shares of the budget: of every question, and of the centers if they are opened."""
        if not steps.centers:
            return (1 / steps.questions,) * steps.questions
        return ((1 - self.center_share) / steps.questions,) * steps.questions + (self.center_share,)

    def clip_quantizer(self, quantizer: Quantizer) -> Quantizer:
        return replace(quantizer, radius=self.radius.steps(quantizer.scale))

    def headroom(self, way: Any, public: Any, layout: RowLayout) -> int:
        if public.derived:
            raise PrivacyError(
                "the bound on absolute values would be read off the private data, which no noise protects: "
                "give fit a bound that you know, such as the radius"
            )
        computing = select_workers(way.runtime.workers, public.clients)
        centers = int(bool(way.release.reveal_centers))
        steps = ReleaseCounts(len(computing), way.threshold.t, way.k, count_queries(way), centers)
        rows = 1 if self.neighbors.unit == "data point" else max(public.counts)
        parties = steps.n
        widest = self.noise(steps, 1).largest(layout.m, steps.k, rows)
        # D <= 4 B**2 and 2 REACH sigma of every contributor, against d (2 eta)**2; B / eta is at most
        # radius / bound, and what ceil adds is below one step for each.
        wide = (self.radius.value / public.bound) ** 2 * (1 + REACH * widest * parties / 2) / public.d
        return int(math.ceil(wide * (1 + 1e-9)) + 1 + parties)

    def stretch_headroom(self, headroom: int, stretch: int, layout: RowLayout) -> int:
        # Noise is as large as honest rows ask for; only the distances grow.
        return headroom + stretch**2

    def blurred(self, plan: CodedPlan) -> tuple[float, float]:
        """What one squared distance carries, and can be, for clusters of equal sizes: in squared data units.

        The standard deviation of the noise of all contributors together, and the square of twice the radius.
        Both are public before anything is asked.
        """
        steps = self.steps(plan)
        one = float(self.noise(steps, plan.radius).on_distances_in_turn(plan.layout, plan.k))
        every = math.sqrt(steps.n) * one / float(plan.scale) ** 2
        return every, (2 * self.radius.value) ** 2

    def worth(self, plan: CodedPlan) -> str | None:
        """What labels are worth at best under this noise, in a sentence; None where 9 in 10 may be right.

        No row's label is right more often than that of one on its center, with all others as far as can be;
        and no release of labels at all more often than `RandomizedResponse`, whose law is the bound.
        """
        noise, most = self.blurred(plan)
        nodes, weights = np.polynomial.hermite_e.hermegauss(60)
        beaten = [0.5 * (1 + math.erf((most / noise - z) / math.sqrt(2))) for z in nodes]
        best = float(weights @ np.power(beaten, plan.k - 1)) / math.sqrt(2 * math.pi)
        if best >= 0.9:
            return None
        allowed = 1 / (1 + (plan.k - 1) * math.exp(-min(self.budget.epsilon, 700)))
        return (
            f"of 100 labels at most {100 * best:.0f} are right under this noise, {100 / plan.k:.0f} by "
            f"chance. At epsilon={self.budget.epsilon:g} a release of labels can have {100 * allowed:.0f}: "
            "FedDPKMeans(labels=RandomizedResponse(...)) comes near that, and its centers have far less noise"
        )

    def hopeless(self, plan: CodedPlan) -> str | None:
        """Why labels will be mostly noise, and what helps; None where the noise is below every distance."""
        noise, most = self.blurred(plan)
        if noise <= most:
            return None
        return (
            f"noise of {noise:.3g} lies on every squared distance, and with radius={self.radius.value:g} "
            f"none exceeds {most:.3g}: labels will be mostly noise at epsilon={self.budget.epsilon:g} and "
            f"{self.steps(plan).questions} questions. What hides a point's own distances must be as wide as "
            "they are: FedDPKMeans releases sums over all points for the same budget; a larger epsilon or "
            "fewer steps (max_iter) help"
        )

    def paid_noise(self, plan: CodedPlan) -> tuple[int, int]:
        """How many questions are paid for, and how many clients' noise suffices."""
        steps = self.steps(plan)
        return steps.questions, self.honest(steps.n, steps.t)

    def released_noise(self, plan: CodedPlan) -> tuple[str, int, float]:
        """What is released, how many numbers, and the deviation of the noise on one."""
        what = "squared distances of every step, between clusters of equal sizes"
        return what, plan.m * plan.k, self.blurred(plan)[0]

    def notes(self, plan: CodedPlan) -> tuple[str, ...]:
        """What somebody should know of the labels, in sentences."""
        return tuple(note for note in (self.worth(plan), self.hopeless(plan)) if note is not None)

    def honest(self, n: int, t: int) -> int:
        """How many clients' noise must suffice."""
        if n - t - self.absent < 1:
            raise InputError(
                f"n={n} clients, t={t} of them colluding and {self.absent} absent, leave nobody whose noise "
                "counts: lower t or absent"
            )
        return n - t - self.absent

    def noise(self, steps: ReleaseCounts, radius: int) -> Noise:
        honest = self.honest(steps.n, steps.t)
        # Of all that is released, the sums of centers are the least sensitive: see `released`.
        one = discrete_multiplier(self.budget, honest, 2.0 * radius)
        each = [one / math.sqrt(w) for w in self.weights(steps)]
        return Noise(discrete_gaussian, self.neighbors, radius, each[0], each[-1], honest)

    def deviation(self, plan: CodedPlan, labels: Array, k: int) -> float:
        """Standard deviation of the noise of all contributors together."""
        noise = self.noise(self.steps(plan), plan.radius)
        one = float(noise.on_distances(plan.layout, labels, k))
        return math.sqrt(plan.code.n) * one / float(plan.scale) ** 2

    def released(self, plan: CodedPlan) -> Event:
        steps = self.steps(plan)
        radius = plan.radius
        noise = self.noise(steps, radius)
        # Sensitivities are at least 4 and 2 in units of radius**2 and radius, and s_h at least 1.
        each = noise.distances / math.sqrt(noise.honest)
        asked = DistributedDiscreteGaussian(each, 4 * each * radius**2, noise.honest, plan.m * plan.k)
        each = noise.sums / math.sqrt(noise.honest)
        opened = DistributedDiscreteGaussian(each, 2 * each * radius, noise.honest, plan.k * plan.d)
        return Composed((asked,) * steps.questions + (opened,) * steps.centers)

    def squares(self, plan: CodedPlan) -> bool:
        return False

    def check(self, plan: CodedPlan) -> None:
        """Raises PrivacyError or ValueError for a run that this noise does not cover."""
        if not isinstance(plan.init, RandomLabels | GivenLabels):
            raise PrivacyError(
                f"init={type(plan.init).__name__} measures distances of its own, which the budget does not "
                "cover: start from RandomLabels or from GivenLabels that are public"
            )
        check_units(self.neighbors, isinstance(plan.layout, PublicOwnerLayout))
        self.budget.check(self.released(plan))
        if (why := self.hopeless(plan)) is not None:
            warnings.warn(why, Caution, stacklevel=2)
        self._check_opening(plan)

    def _check_opening(self, plan: CodedPlan) -> None:
        """Raises PrivacyError, InputError for centers that cannot be opened under the noise."""
        steps = self.steps(plan)
        if not steps.centers:
            return
        noise = self.noise(steps, plan.radius)
        one = noise.largest_on_sums(plan.layout, plan.k, plan.d)
        if 2 * (plan.largest * plan.proven + steps.n * REACH * one) >= plan.code.basis.modulus:
            raise InputError("noisy cluster sums do not fit the modulus: lower the scale")
        needed = noise.honest + plan.code.t
        if len(plan.revealing) < needed:
            raise PrivacyError(
                f"{len(plan.revealing)} clients open the centers, but the noise of {needed} is needed on "
                "them: let more consent, or plan for more absent ones"
            )

    def client(self, plan: CodedPlan, name: PartyId, *, coins: Coins) -> Role[ClientPolicy]:
        yield from ()
        noise = self.noise(self.steps(plan), plan.radius)
        paid = self.steps(plan).questions
        return DecodedAnswers(NoiseDealer(plan, name, noise, coins, paid))

    def open_centers(
        self,
        plan: CodedPlan,
        name: PartyId,
        question: RevealCenters,
        compute: Callable[[], Array],
        coins: Coins,
    ) -> Role[CodedCenters | None]:
        noise = self.noise(self.steps(plan), plan.radius)
        code, labels = plan.code, question.labels.astype(np.int32)
        total = noise.draw_sums(code.basis, plan.layout, labels, question.k, plan.d, coins=coins)
        shares = dict(zip(plan.clients, code.share(total, coins), strict=True))
        asked = digest_of_labels(b"centers", labels, question.k, plan.revealing)
        values, lost = yield from exchange_noise_shares(
            plan, name, plan.revealing, shares, asked, question.round
        )
        return None if lost else CodedCenters(code.basis.add(values, compute()))

    def server(
        self, plan: CodedPlan, screening: Screening, *, coins: Coins, threads: int
    ) -> Role[CodedSource]:
        yield from ()
        noise = self.noise(self.steps(plan), plan.radius)
        return decoding_source(NoiseDealerQuorum(ServerContext(plan, screening), noise), threads)

    def ledger(self, plan: CodedPlan) -> Ledger:
        centers = " and opened centers" if plan.revealing else ""
        event = NonPrivate() if self.radius.private else self.released(plan)
        how = f"noise in the shares, also for the server and {plan.code.t} clients together"
        what = f"labels of at most {self.steps(plan).questions} iterations{centers}, {how}"
        return Ledger(self.neighbors).record(event, what=what, seen_by=EVERYBODY)

    def learned(self, plan: CodedPlan) -> tuple[str, ...]:
        return (
            "all labels and cluster sizes, in every iteration (so did every client)",
            "noisy distances of every point to every center, in every iteration",
        )


# --- client --------------------------------------------------------------------------------------


class NoiseDealer:
    """Deals my noise with each reply, the same for the same question.  No frozen value: it counts and keeps.

    A question that is put anew carries the noise that it had, so it tells nothing new: two answers to it
    differ by the noise of dealers that are in one and not in the other, and to whoever knows that, both are
    one release under the noise of the common ones.  These are held to be as many as noise needs; a question
    with fewer is a release of its own, which has to be paid for.  All noise on it is of one release: who
    was left out, and paid for something else meanwhile, would deal the noise of the release before, which the
    difference of two answers to that tells.
    """

    def __init__(self, plan: CodedPlan, name: PartyId, noise: Noise, coins: Coins, limit: int) -> None:
        self.plan, self.name, self.noise, self.coins = plan, name, noise, coins
        self.limit, self.left = limit, limit
        self.kept: dict[bytes, tuple[bytes, frozenset[PartyId], int]] = {}

    def __call__(
        self, question: Query, measured: DistanceOracle
    ) -> Role[CodedDistances | Contributors | None]:
        """Deal my noise to all who reply, add everybody's shares to my reply; or say whose did not come.

        Raises BudgetSpent for a question beyond those that the noise pays for, SuspectedParties if another
        dealer was asked something else.
        """
        plan, code = self.plan, self.plan.code
        dealers = tuple(plan.clients[j] for j in question.responders.tolist())
        if self.name not in dealers:
            return None
        if len(dealers) < self.noise.honest + code.t:
            raise FaultyServer(SERVER, "asked for distances under less noise than was agreed")
        labels, k = question.labels.astype(np.int32), question.k
        basis = code.basis.prefix(plan.lanes(cluster_sizes(labels, k)))
        about = digest_of_labels(b"distances", labels, k)
        coins = StoredCoins(self.seed(about, frozenset(dealers)))
        asked = digest_of_labels(b"asked", labels, k, dealers, self.number_release(about))
        total = self.noise.draw_distances(basis, plan.layout, labels, k, coins=coins)
        # The polynomials are fresh where the noise is not: t receivers see uniform shares of each.
        shares = deal_blinding(code, basis.lanes, (k, plan.m), self.coins, total)
        dealt = dict(zip(plan.clients, shares, strict=True))
        values, lost = yield from exchange_noise_shares(
            plan, self.name, dealers, dealt, asked, question.round
        )
        if lost:
            return Contributors(np.array([c not in lost for c in plan.clients]))
        return CodedDistances(basis.add(values, measured.distances(basis.lanes)))

    def seed(self, question: bytes, dealers: frozenset[PartyId]) -> bytes:
        """Noise of this client on a question: unchanged, while enough of those who dealt then still do."""
        seed, common, number = self.kept.get(question, (b"", frozenset[PartyId](), 0))
        common &= dealers
        if len(common) < self.noise.honest + self.plan.code.t:
            if not self.left:
                raise BudgetSpent(
                    "more noisy question", 1, self.left, self.limit,
                    "Each is a release: ask for fewer steps, or plan for more lost clients (absent=...)",
                )  # fmt: skip
            self.left -= 1
            seed, common, number = self.coins.bytes(32), dealers, self.limit - self.left
        self.kept[question] = (seed, common, number)
        return seed

    def number_release(self, question: bytes) -> int:
        """Which paid release a question's noise is of, from 1 on; 0 of one that I have dealt none for."""
        return self.kept[question][2] if question in self.kept else 0


def digest_of_labels(
    purpose: bytes, labels: Array, k: int, dealers: tuple[PartyId, ...] = (), release: int = 0
) -> bytes:
    """32 bytes that agree exactly when the question does, who deals noise on it, and of which release."""
    named = [name.encode() for name in sorted(dealers)]
    head = [purpose, str(k).encode(), str(release).encode(), str(len(named)).encode(), *named]
    body = np.ascontiguousarray(labels, "<i4").tobytes()
    # Every part after its length: no two questions are the same bytes.
    return hashlib.sha256(b"".join(b"%d:" % len(part) + part for part in (*head, body))).digest()


def exchange_noise_shares(
    plan: CodedPlan,
    name: PartyId,
    dealers: tuple[PartyId, ...],
    shares: Mapping[PartyId, Array],
    asked: bytes,
    number: int,
) -> Role[tuple[Array, set[PartyId]]]:
    """Send my noise's shares to the other dealers; the sum of those I hold, and of whom none came.

    asked: what they are for, which all must agree on.  A server that asked some about one clustering and the
    rest about another would get two answers under the very same noise, and their difference without any.
    """
    mine = shares[name]
    others = tuple(c for c in dealers if c != name)
    send = {c: NoiseShares(shares[c], asked) for c in others}
    inbox = yield Exchange(send, others, 0, round=number + 1, phase="noise")
    basis = plan.code.basis.prefix(len(mine))
    total = mine
    for sender, message in expect_messages(inbox, NoiseShares).items():
        if message.asked != asked:
            why = f"{sender} dealt noise for another question than mine"
            raise suspect_parties("NoiseShares", why, server=SERVER, sender=sender)
        check_residues(basis, sender, message.values, mine.shape[1:])
        total = basis.add(total, message.values)
    return total, set(others) - set(inbox)


# --- server --------------------------------------------------------------------------------------


class NoiseDealerQuorum(Quorum):
    """All who are there answer under the noise of all of them, so they all must hear one another."""

    def __init__(self, desk: ServerContext, noise: Noise) -> None:
        super().__init__(desk)
        self.noise, self.dealers = noise, desk.there
        self.carried = 0  # whose noise the last replies carry, a number of clients

    def ask_distances(
        self, labels: Array, k: int, basis: Basis, operation: Operation = Operation.DISTANCE
    ) -> Role[dict[int, Array]]:
        replies = yield from self.answered(labels, k)
        return self.desk.believed(replies, CodedDistances, basis, (k, self.plan.m), 2)

    def answered(self, labels: Array, k: int) -> Role[Mapping[PartyId, Any]]:
        """Ask all who are there; without those who vanish, ask anew, under the noise of the others."""
        code, desk = self.plan.code, self.desk
        needed = max(code.threshold(2), self.noise.honest + code.t)
        while len(self.dealers) >= needed:
            numbers = np.array([self.plan.clients.index(c) for c in self.dealers], np.int32)
            subject = Subject(Operation.DISTANCE, k, compact_labels(labels))
            question = Query(next(desk.rounds), subject, numbers)
            inbox = yield Exchange(
                to_all(desk.there, question), self.dealers, 0, round=question.round, phase="assign"
            )
            complaints = {c: m for c, m in inbox.items() if isinstance(m, Contributors)}
            replies = {c: m for c, m in inbox.items() if c not in complaints}
            lost = set(self.dealers) - set(inbox)
            check = partial(check_count, len(self.plan.clients))
            for message in check_all(complaints, Contributors, check).values():
                lost |= {c for c, came in zip(self.plan.clients, message.complete, strict=True) if not came}
            asked = len(self.dealers)
            self.dealers = tuple(c for c in self.dealers if c not in lost)
            if len(replies) >= code.threshold(2):
                self.carried = asked
                return replies
            if not lost:
                break
        raise TooFewReplies(needed, self.dealers)

    def offset(self, labels: Array, k: int) -> int:
        return self.carried * self.noise.offset(self.noise.on_distances(self.plan.layout, labels, k))
