"""Sums of rows about public centers under differential privacy, for people whose rows lie at several clients.

A step begins with whole-number centers and a radius that all know.  A committee finds, unseen, the nearest
center of every row and the shell about it that the row lies in (`field.compare.shells`); labels stay shared
(`secfc.disclosure.owner_labels`).  Responders add up rows by them, every client deals noise of the degree of
these products, and one vector is opened: for each center the weighted sum of rows about it, and their weight.
The next centers follow from it as FedDP-KMeans places them (`secfc.feddp.server_estimates.place_centers`).

A person's row is in the union once, so it moves the vector once, however many clients hold it.  Of joined
columns nobody has the row: no owner learns a label, which would be exact, and of others' columns.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from field.arrays import Array
from field.code.masking import deal_values
from field.code.rows import ClusterSums, CodedRows
from field.compare import shells
from field.compare.assignment_step import AssignmentStep, SharedLabels
from field.compare.shells import UNIT, residual_sums, shell_modulus, shell_sensitivity
from field.ring.noise import Deviation, discrete_gaussian, wide_noise
from field.ring.quantize import Quantizer, squared_norms
from field.secrets.coins import Coins, StoredCoins
from secfc.coded.joined import Joined
from secfc.coded.membership import Private
from secfc.coded.messages import CodedCenters, MissingMessages, NoiseShares, RevealCenters, RunEnded
from secfc.coded.plan import CodedPlan, ColumnLayout, RowLayout
from secfc.coded.policy import (
    ClientPolicy,
    DistanceOracle,
    ExactPolicy,
    LabelSharing,
    PolicyCapabilities,
)
from secfc.coded.queries import Operation, Query, Subject
from secfc.coded.quorum import NOBODY_MISSED, Screening
from secfc.coded.source import CodedSource
from secfc.data.inputs import WHOLE, check_fields, instance_of
from secfc.disclosure.checked.messages import CheckedPart
from secfc.disclosure.checked.products import checking_steps, one_hot_claim, weight_claim
from secfc.disclosure.compare.server import CommitteeServer, TrustedDealer
from secfc.disclosure.compare.session import ComparisonSession, Rule, refuse_broken
from secfc.disclosure.dealerless.policy import Dealerless
from secfc.disclosure.dealerless.steps import AnswerRounds, StalledStep
from secfc.disclosure.decoded.distances import CheckedQuorum
from secfc.disclosure.noise.in_shares import NoiseDealer
from secfc.disclosure.noise.noise import REACH, Noise
from secfc.disclosure.owner_labels.client import OwnerLabelsClient, sharing_client
from secfc.disclosure.owner_labels.multiplication import cut_segments, public_shares
from secfc.disclosure.owner_labels.run_state import HeldLabels
from secfc.disclosure.owner_labels.server import collect_shares
from secfc.errors import (
    FaultyServer,
    IncompatibleOptions,
    InputError,
    PrivacyError,
    TooFewReplies,
)
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
from secfc.kmeans.starts import RandomLabels, Start
from secfc.privacy.calibration import Bound, Budget, delta_warning, discrete_multiplier
from secfc.privacy.events import Composed, DistributedDiscreteGaussian, Event, Neighbors, NonPrivate
from secfc.privacy.ledger import EVERYBODY, Ledger
from secfc.roles.blame import suspect_parties
from secfc.roles.exchange import SERVER, STRIDE, Exchange, PartyId, Role, to_all
from secfc.roles.messages import Message, check_residues, compact_labels

STEPS = 1920  # of the integers, within the radius: of few more than these one lane tells no shells apart
LEAST_RADIUS = 1 << 4  # steps, of shells: a step is then little beside it
GROUPS = 2  # a cluster, that questions may be about
FINDING = 2  # questions that look for a start among the server's points, or among cones
NEAR, FAR = 0.97, 0.85  # of what rows may weigh: above it they lie near, below it far
KINDS = {
    "budget": instance_of(Budget, "Budget(epsilon=1.0, delta=1e-6)"),
    "radius": instance_of(Bound, "Bound.given(8.0)"),
    "steps": WHOLE,
    "neighbors": instance_of(Neighbors, 'Neighbors("replace")'),
    "absent": WHOLE,
}


@dataclass(frozen=True)
class NoisySums(ExactPolicy):
    """Policy by which only noisy sums of rows by cluster are opened, and the centers that follow.

    Parameters
    ----------
    budget
        Privacy budget for everything that anybody sees, also the server together with t clients outside the
        committee.  Which rows have holders with different data is opened outside the budget, and ends a run.
    radius
        Maximum norm of a row, in data units; longer rows are shortened before they are shared, of joined
        columns each owner's part of one.
    steps
        Number of times that sums are opened, from 1 on; the budget pays for all.  From 3 on the first two
        find a start among the server's points.  Without server's points the first finds the mean of all rows,
        and the next two the means of cones around it.
    dealer
        Trusted dealer, as in `OwnLabels`: the server or a client; None for nobody, which needs ell = 1 and t
        at most 3.
    neighbors
        Neighboring data sets: replace the row of one person, who may have it at several clients.  An added
        person changes the public size of the union; where clients pad their rows to public numbers, one who
        is at c clients makes it c - 1 smaller.  Of joined columns all of a person's values may differ; that
        all owners hold the person is told outside the budget.
    absent
        Clients that may vanish after they shared; the noise of the others suffices.

    Notes
    -----
    Each client computes labels of its own rows from the rows and the opened centers; of joined columns, whose
    labels tell one owner of another's values, nobody has any.  No labels, sizes or
    costs are opened, nor labels by `RandomizedResponse`: nobody knows who else holds a row, so each of c
    holders would answer for it, at c times the epsilon.  Where each row lies at one client alone,
    `FedDPKMeans(noise=SharedNoise())` releases noisy sums of the same kind at far less work.
    """

    start: ClassVar[Start] = RandomLabels()
    public_start: ClassVar[str] = "points of the server, if it has some"

    budget: Budget
    radius: Bound
    steps: int = 4
    dealer: PartyId | None = SERVER
    neighbors: Neighbors = field(default_factory=lambda: Neighbors("replace"))
    absent: int = 0

    def __post_init__(self) -> None:
        check_fields(self, KINDS)
        if (why := delta_warning(self.budget.delta)) is not None:
            raise InputError(why)
        if self.steps < 1 or self.absent < 0:
            raise InputError(
                f"steps={self.steps}, absent={self.absent}: at least 1 step, and 0 clients or more"
            )
        if self.neighbors != Neighbors("replace"):
            raise PrivacyError(
                f"neighbors that {self.neighbors}: the size of the union is public, and padding hides no "
                "added person, who fills one row of it and c places at c clients; use Neighbors('replace')"
            )

    @property
    def capabilities(self) -> PolicyCapabilities:
        return PolicyCapabilities(
            "noisy sums", dealer=self.dealer, exact=False, checks_words=True, sums=self.steps
        )

    def how(self, plan: CodedPlan) -> TrustedDealer | Dealerless:
        """How committees compare."""
        return Dealerless(deviating=plan.deviating) if self.dealer is None else TrustedDealer(self.dealer)

    def clip_quantizer(self, quantizer: Quantizer) -> Quantizer:
        scale = min(quantizer.scale, STEPS / self.radius.value)
        return replace(quantizer, scale=scale, radius=self.radius.steps(scale))

    def stretch_headroom(self, headroom: int, stretch: int, layout: RowLayout) -> int:
        # See `CodedPlan.longest`.
        return headroom * stretch**2 if isinstance(layout, ColumnLayout) else headroom

    def headroom(self, way: Any, public: Any, layout: RowLayout) -> int:
        if public.derived:
            raise PrivacyError(
                "the bound on absolute values would be read off the private data, which no noise protects: "
                "give fit a bound that you know, such as the radius"
            )
        return 1

    def check_people(self, membership: Any) -> None:
        """Raises IncompatibleOptions where each person's row lies at one client, or more is told of them."""
        if isinstance(membership, Joined):
            private, at_home = membership.scale is not None, "bring columns to public ranges at home"
            why = "each owner finds its scale in rows, which no noise then covers"
            remedies = (("scale_features", None, at_home),)
            refuse_broken(self, Rule(private, "scale_features", membership.scale, why, remedies))
            return
        if not isinstance(membership, Private) or not membership.merge:
            counted = "have people that several clients have counted once"
            raise IncompatibleOptions(
                {"membership": membership, "disclosure": self},
                "noisy sums of whole rows, each at one client, release what feddp does with noise in the "
                "shares, at many times the work",
                [("algorithm", "feddp"), ("membership", Private(counts="hidden"), counted)],
            )
        refuse_broken(
            self,
            Rule(
                membership.counts != "hidden", "counts", membership.counts,
                "how many clients hold a person's row would be told beside the budget",
                (("counts", "hidden"),),
            ),
            Rule(
                membership.on_conflict == "separate", "on_conflict", membership.on_conflict,
                "a person with rows that differ counts more than once", (("on_conflict", None),),
            ),
        )  # fmt: skip

    def noise(self, n: int, t: int) -> Noise:
        """The noise of one question: of so many contributors, that the honest ones among them suffice."""
        honest = n - t - self.absent
        if honest < 1:
            raise InputError(
                f"n={n} clients, t={t} of them colluding and {self.absent} absent, leave nobody whose noise "
                "counts: lower t or absent"
            )
        whole = discrete_multiplier(self.budget, honest, shell_sensitivity(LEAST_RADIUS, 1))
        each = whole * math.sqrt(self.steps)
        return Noise(discrete_gaussian, self.neighbors, 1, each, each, honest)

    def releases(self, n: int, t: int, k: int, d: int) -> Event:
        """All that a run opens at most: no question has a smaller radius, and none more numbers."""
        noise, least = self.noise(n, t), shell_sensitivity(LEAST_RADIUS, 1)
        each = noise.sums / math.sqrt(noise.honest)
        asked = DistributedDiscreteGaussian(each, each * least, noise.honest, GROUPS * k * (d + 1))
        return Composed((asked,) * self.steps)

    def released(self, plan: CodedPlan) -> Event:
        """All that a run under this plan opens at most."""
        return self.releases(plan.code.n, plan.code.t, plan.k, plan.d)

    def deviation_within(self, plan: CodedPlan, radius: int) -> float:
        """Standard deviation of one client's noise on a sum about centers within this radius."""
        noise = self.noise(plan.code.n, plan.code.t)
        sensitivity = shell_sensitivity(radius, count_unit(radius, plan.d))
        return float(noise.client_deviation(sensitivity, noise.sums, GROUPS * plan.k * (plan.d + 1)))

    def paid_noise(self, plan: CodedPlan) -> tuple[int, int]:
        """How many questions are paid for, and how many clients' noise suffices."""
        return self.steps, self.noise(plan.code.n, plan.code.t).honest

    def released_noise(self, plan: CodedPlan) -> tuple[str, int, float]:
        """What is released, how many numbers, and the deviation of the noise on one, in data units."""
        what = "sums of rows about centers within the radius, in every step"
        every = math.sqrt(plan.code.n) * self.deviation_within(plan, plan.radius)
        return what, plan.k * (plan.d + 1), every / UNIT / float(plan.scale)

    def notes(self, plan: CodedPlan) -> tuple[str, ...]:
        """What somebody should know of the start, in a sentence."""
        if plan.terms is not None and plan.terms.public.server_points is not None:
            return ()
        return (
            "without points of the server the first questions find a start among cones around the mean of "
            "all rows: clusters close together may be missed",
        )

    def squares(self, plan: CodedPlan) -> bool:
        return True

    def check(self, plan: CodedPlan) -> None:
        """Raises PrivacyError or ValueError for a run that this noise does not cover."""
        self.how(plan).check(plan)
        widest, basis = 2 * plan.radius, plan.code.basis
        one = math.ceil(self.deviation_within(plan, widest))
        sums = 2 * (plan.m * UNIT * max(widest, count_unit(widest, plan.d)) + plan.code.n * REACH * one)
        needed = max(sums, shell_modulus(widest, plan.longest, 2 * plan.radius))
        refuse_broken(
            self,
            Rule(
                plan.code.ell != 1 and (self.dealer is None or isinstance(plan.layout, ColumnLayout)),
                "ell", plan.code.ell,
                "without a dealer labels multiply whole points, and centers do of joined columns",
                (("ell", 1),),
            ),
            Rule(
                plan.n_init != 1, "n_init", plan.n_init, "of restarts nobody knows the cost", (("n_init", 1),)
            ),
            Rule(
                not isinstance(plan.init, RandomLabels), "init", plan.init,
                "steps start about the mean of all rows, or at means of the server's points",
                (("init", "random"),),
            ),
            Rule(
                needed >= basis.modulus, "basis", basis.primes,
                f"weighted sums and their noise take a modulus above 2**{needed.bit_length()}",
                (("basis", None),),
            ),
        )  # fmt: skip
        self.budget.check(self.released(plan))

    def client(self, plan: CodedPlan, name: PartyId, *, coins: Coins) -> Role[ClientPolicy]:
        sharing = LabelSharing(hidden=True)
        keeper = yield from sharing_client(self.how(plan), sharing, plan, name, coins)
        return NoisySumsClient(keeper, self.noise(plan.code.n, plan.code.t), coins, self.steps)

    def server(
        self, plan: CodedPlan, screening: Screening, *, coins: Coins, threads: int
    ) -> Role[CodedSource]:
        committees = yield from self.how(plan).committees(plan, screening)
        steps = NoisySumsServer(committees, self.noise(plan.code.n, plan.code.t), self.steps)
        return CodedSource(CheckedQuorum(committees.quorum), committees, steps, steps)

    def open_centers(
        self,
        plan: CodedPlan,
        name: PartyId,
        question: RevealCenters,
        compute: Callable[[], Array],
        coins: Coins,
    ) -> Role[CodedCenters | None]:
        raise FaultyServer(SERVER, "asked for sums of clusters without noise")

    def ledger(self, plan: CodedPlan) -> Ledger:
        event = NonPrivate() if self.radius.private else self.released(plan)
        server = "or without the server" if self.dealer is None else "the server if outside the committee"
        who = f"for any t={plan.code.t} of the clients, with {server}"
        how = f"noise in the shares, also {who}"
        what = f"centers of {self.steps} steps, {how}"
        return Ledger(self.neighbors).record(event, what=what, seen_by=EVERYBODY)

    def learned(self, plan: CodedPlan) -> tuple[str, ...]:
        return (
            f"noisy sums and weights of the clusters after each of {self.steps} steps (so did every client)",
            "no label of any point, no size of a cluster, and no distance of a point",
        )


def count_unit(radius: int, d: int) -> int:
    """What a row's weight counts beside the sum of rows within the radius: a whole number of steps.

    Centers that move by .3 of the radius have the least noise if its square is .3 / sqrt(d) of the radius's.
    """
    return max(1, round(radius * math.sqrt(0.3 / math.sqrt(d))))


def next_radius(found: GroupAnswer, plan: CodedPlan, radius: int) -> int:
    """Within which radius to ask next: the less rows weigh together, of a public number, the wider."""
    weight, noise = found.counts.sum(), 2 * found.miscounted * math.sqrt(len(found.counts))
    if weight - noise > NEAR * plan.m:
        return max(LEAST_RADIUS, math.floor(radius / math.sqrt(2)))
    far = weight + noise < FAR * plan.m
    return min(2 * plan.radius, math.floor(radius * math.sqrt(2))) if far else radius


@dataclass(frozen=True, eq=False, repr=False)
class SumsQuestion:
    """What sums are opened: their number, about centers (k, d) and a radius in steps, and who deals noise.

    dealers: numbers of clients.
    """

    number: int
    radius: int
    centers: Array
    dealers: tuple[int, ...]

    @classmethod
    def of(cls, plan: CodedPlan, question: Query) -> SumsQuestion:
        """What a question asks.  Raises FaultyServer for what no plan asks."""
        k, d, n, detail = question.k, plan.d, len(plan.clients), question.detail
        if k > GROUPS * plan.k or len(detail) != 2 + k * d + n or not np.isin(detail[-n:], (0, 1)).all():
            raise FaultyServer(SERVER, f"asked for sums of other than d={d} features, or n={n} clients")
        centers, most = detail[2:-n].reshape(k, d), 2 * plan.radius
        if (squared_norms(centers) > most**2).any() or not LEAST_RADIUS <= detail[1] <= most:
            raise FaultyServer(
                SERVER, "asked for sums about centers, or within a radius, that rows do not have"
            )
        return cls(int(detail[0]), int(detail[1]), centers, tuple(np.flatnonzero(detail[-n:]).tolist()))

    def detail(self, n: int) -> Array:
        """As `Subject` has it."""
        dealing = np.isin(np.arange(n), self.dealers)
        return np.concatenate([[self.number, self.radius], self.centers.reshape(-1), dealing]).astype(
            np.int64
        )

    @property
    def unit(self) -> int:
        """See `count_unit`."""
        return count_unit(self.radius, self.centers.shape[1])

    @property
    def sensitivity(self) -> float:
        """In steps, see `field.compare.shells.shell_sensitivity`."""
        return shell_sensitivity(self.radius, self.unit)

    def match(self, plan: CodedPlan, question: Query, seating: Any) -> ComparisonSession:
        """Who compares, and what: centers are the sums of clusters of size 1."""
        return ComparisonSession(plan, question, np.ones(question.k, np.int64), seating)


def opened_numbers(plan: CodedPlan, values: Array) -> Array:
    """Integers (k, d + 1), sums and weights, of residues (lanes, ell, k, width + 1) at data points."""
    whole = plan.code.basis.lift_signed(values)
    sums = whole[..., :-1].swapaxes(0, 1).reshape(whole.shape[1], -1)[:, : plan.d]
    return np.concatenate([sums, whole[0, :, -1:]], axis=1)


# --- client --------------------------------------------------------------------------------------

# The step of an answer before that in which labels are dealt to responders: a comparison takes fewer.
COMPARED = STRIDE // 4


class NoisySumsClient:
    """A client's answers.  keeper: how it compares and shares labels.  limit: of paid questions.

    A question that is put anew carries the noise that it had, see `NoiseDealer`.
    """

    opens: ClassVar[bool] = False
    opened: ClassVar[None] = None
    kept: ClassVar[None] = None
    settled: ClassVar[None] = None

    def __init__(self, keeper: OwnerLabelsClient, noise: Noise, coins: Coins, limit: int) -> None:
        self.keeper, self.noise, self.coins = keeper, noise, coins
        self.plan, self.name, self.me = keeper.plan, keeper.name, keeper.me
        self.paid = NoiseDealer(keeper.plan, keeper.name, noise, coins, limit)

    def __repr__(self) -> str:
        return f"NoisySumsClient({self.name!r}, secret)"

    def watch(self, question: Query, sizes: Array) -> Role[None]:
        yield from ()

    def __call__(self, question: Query, measured: DistanceOracle) -> Role[Message | None]:
        """My part.  Raises FaultyServer for anything but noisy sums, BudgetSpent for unpaid ones."""
        if question.operation is not Operation.NOISY_SUMS:
            raise FaultyServer(SERVER, f"sent {question.kind}, which this policy never answers")
        self.keeper.participant.check_players(question)
        asked = SumsQuestion.of(self.plan, question)
        if len(asked.dealers) < self.noise.honest + self.plan.code.t:
            raise FaultyServer(SERVER, "asked for sums under less noise than was agreed")
        match = asked.match(self.plan, question, self.keeper.way.seating)
        return self.keeper.unless_stalled(match, self.add_up(match, asked, measured))

    def add_up(
        self, match: ComparisonSession, asked: SumsQuestion, measured: DistanceOracle
    ) -> Role[Message | None]:
        """Compare, share the labels, add up rows and noise, as far as these are my roles."""
        if self.me not in asked.dealers and self.name not in match.players:
            return None
        dealt, subject = self.deal(match.question, asked), self.subject(match.question)
        steps, k = self.keeper.steps(match), match.question.k
        labels = yield from self.compare(match, steps, asked, measured)
        summed = yield from self.keeper.products.dealt(match, steps, labels, shells.SHELLS + k - 1)
        yield from self.check_labels(match, steps, summed)
        total = None if summed is None else self.sums(asked, measured.rows, summed)
        responders = match.question.responders.tolist()
        awaited = [j for j in asked.dealers if j != self.me] if total is not None else []
        send = {j: NoiseShares(dealt[j], subject) for j in responders if dealt and j != self.me}
        received = yield from steps.exchange(send, awaited, NoiseShares)
        if total is None:
            return MissingMessages(0, NOBODY_MISSED)
        return CodedCenters(self.noised(total, subject, [dealt[self.me]] if dealt else [], received))

    def compare(
        self, match: ComparisonSession, steps: AnswerRounds, asked: SumsQuestion, measured: DistanceOracle
    ) -> Role[HeldLabels | None]:
        """At a member its parts' shares of the shells that rows lie in, and of their weights in clusters."""
        way, basis = self.keeper.way, self.plan.code.basis
        game = AssignmentStep(match.schedule, basis, tested=False)

        def about() -> ClusterSums:
            centers = public_shares(self.plan, self.me, asked.centers)
            return measured.rows.encode_sums(centers, match.sizes)

        try:
            begun = yield from way.begin(match, steps, game)
            # Nothing is compared with labels before: there are none.
            before = None
            if self.name in match.committee:
                nothing = np.zeros(0, np.uint64)
                before = dict.fromkeys(way.parts(match), SharedLabels(nothing, nothing))
            measured = DistanceOracle(measured.rows, match.sizes, about)
            found = yield from way.moved(match, steps, begun, measured, before)
        except StalledStep as stalled:
            raise StalledStep(stalled.step, stalled.missing.tolist(), COMPARED + 1) from None
        steps.step = COMPARED
        if found is None:
            return None
        held = {q: SharedLabels(x.bits, shells.sum_outcomes(basis, x.parts)) for q, x in found[0].items()}
        return HeldLabels(held, np.arange(match.contest.outcomes), begun.keys)

    def check_labels(self, match: ComparisonSession, steps: AnswerRounds, summed: Array | None) -> Role[None]:
        """Check that each row is in one shell, and weighs in one cluster, if I respond; else others do.

        A row counted more often would move sums further than noise covers.  Raises SuspectedParties.
        """
        products, code = self.keeper.products, self.plan.code
        verifier = None if summed is None else products.verifier(match, 3 * self.plan.m)
        if verifier is None or summed is None:
            steps.step += checking_steps(self.plan) and 1 + checking_steps(self.plan)
            return
        nothing = np.empty((code.basis.lanes, code.ell, 0), code.basis.dtype)
        send, _ = verifier.deal(nothing)
        received = yield from steps.exchange(send, list(send), CheckedPart)
        verifier.take(received, 0)
        once = one_hot_claim(code.basis, np.ascontiguousarray(summed[:, : shells.SHELLS]))
        weighs = weight_claim(code.basis, *shells.shell_weights(code.basis, summed))
        yield from products.verify(match, steps, verifier, [once, weighs])

    def sums(self, asked: SumsQuestion, rows: CodedRows, summed: Array) -> Array:
        """My share (lanes, k, width + 1) of the sums without noise."""
        basis, (_, weights) = self.plan.code.basis, shells.shell_weights(self.plan.code.basis, summed)
        about = public_shares(self.plan, self.me, asked.centers)
        return residual_sums(basis, rows.weighted_sums(weights), weights, about, asked.unit)

    def subject(self, question: Query) -> bytes:
        """32 bytes that agree where the same was asked, of the same, and its noise is of the same release."""
        release = self.paid.number_release(self.about(question))
        return hashlib.sha256(question.digest + str(release).encode()).digest()

    def about(self, question: Query) -> bytes:
        """32 bytes of what is asked, whoever deals noise on it."""
        return hashlib.sha256(question.detail[: -len(self.plan.clients)].tobytes()).digest()

    def deal(self, question: Query, asked: SumsQuestion) -> Sequence[Array]:
        """Shares (lanes, k, width + 1) of my noise, for every client; nothing if I deal none.

        At the first data point weights have noise, and at others values that say nothing.

        Raises BudgetSpent.
        """
        if self.me not in asked.dealers:
            return ()
        code, (k, d) = self.plan.code, asked.centers.shape
        sigma = self.noise.client_deviation(asked.sensitivity, self.noise.sums, k * (d + 1))
        names = frozenset(self.plan.clients[j] for j in asked.dealers)
        seed = self.paid.seed(self.about(question), names)
        noise = wide_noise(discrete_gaussian, sigma, (k, d + 1), code.basis, coins=StoredCoins(seed))
        weighed = code.basis.sample((code.ell, k, 1), self.coins)
        weighed[:, 0] = noise[:, :, d:]
        noise = np.concatenate([cut_segments(self.plan, noise[:, :, :d]), weighed], axis=3)
        # The polynomials are fresh where the noise is not.
        return deal_values(code, noise, self.coins)

    def noised(
        self, total: Array, subject: bytes, own: Sequence[Array], received: dict[int, NoiseShares]
    ) -> Array:
        """My share of the sums, with noise.  Raises SuspectedParties if another was asked something else."""
        basis = self.plan.code.basis
        for share in own:
            total = basis.add(total, share)
        for j, message in received.items():
            sender = self.plan.clients[j]
            if message.asked != subject:
                why = f"{sender} dealt noise for another question than mine"
                raise suspect_parties("NoiseShares", why, server=SERVER, sender=sender)
            check_residues(basis, sender, message.values, total.shape[1:])
            total = basis.add(total, message.values)
        return np.asarray(total)


# --- server --------------------------------------------------------------------------------------


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
