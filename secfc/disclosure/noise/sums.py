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

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from field.arrays import Array
from field.code.lane_check import LEAST_PRIME, REPETITIONS, SPREAD, noise_deviation, row_sensitivity
from field.compare.shells import CODED, UNIT, shell_modulus, shell_sensitivity
from field.ring.noise import discrete_gaussian
from field.ring.quantize import Quantizer
from field.secrets.coins import Coins
from secfc.coded.joined import Joined
from secfc.coded.membership import Private
from secfc.coded.messages import CodedCenters, RevealCenters
from secfc.coded.plan import CodedPlan, ColumnLayout, RowLayout
from secfc.coded.policy import ClientPolicy, ExactPolicy, LabelSharing, PolicyCapabilities
from secfc.coded.quorum import Screening
from secfc.coded.source import CodedSource
from secfc.data.inputs import WHOLE, check_fields, instance_of
from secfc.disclosure.compare.server import TrustedDealer
from secfc.disclosure.compare.session import Rule, refuse_broken
from secfc.disclosure.dealerless.policy import Dealerless
from secfc.disclosure.decoded.distances import CheckedQuorum
from secfc.disclosure.noise.noise import REACH, Noise
from secfc.disclosure.noise.sums_client import NoisySumsClient
from secfc.disclosure.noise.sums_question import GROUPS, LEAST_RADIUS, count_unit
from secfc.disclosure.noise.sums_server import NoisySumsServer
from secfc.disclosure.owner_labels.client import sharing_client
from secfc.errors import FaultyServer, IncompatibleOptions, InputError, PrivacyError
from secfc.kmeans.starts import RandomLabels, Start
from secfc.privacy.calibration import Bound, Budget, delta_warning, discrete_multiplier
from secfc.privacy.events import Composed, DistributedDiscreteGaussian, Event, Neighbors, NonPrivate
from secfc.privacy.ledger import EVERYBODY, Ledger
from secfc.roles.exchange import SERVER, PartyId, Role

STEPS = 1920  # of the integers, within the radius: of few more than these one lane tells no shells apart
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
                "a person's row counts once, whoever holds it, and may be replaced; none may be added, as "
                "the size of the union is public, and padding hides no person, who fills one row of it and "
                "c places at c clients",
                [("neighbors", Neighbors("replace"))],
                {"neighbors": self.neighbors},
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
            why = "each owner finds its scale in rows, which no noise then covers"
            remedies = (("scale_features", None), "bring columns to public ranges at home")
            scaled = membership.scale is not None
            refuse_broken(self, Rule(scaled, "scale_features", membership.scale, why, remedies))
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
        left = whole**-2 - self.cost_of_checks(n, t)
        if left <= 0:
            raise PrivacyError(
                f"epsilon={self.budget.epsilon:g} for {self.steps} steps of n={n} clients: checks of "
                "labels cost as much. Raise epsilon, or ask for fewer steps"
            )
        each = math.sqrt(self.steps / left)
        return Noise(discrete_gaussian, self.neighbors, 1, each, each, honest)

    @property
    def checks(self) -> int:
        """Checks of labels that a client takes part in, at most: without who is lost it is asked anew."""
        return self.steps + self.absent

    def cost_of_checks(self, n: int, t: int) -> float:
        """z**-2, z the multiplier of the Gaussian noise on all that checks of labels open together.

        They have R = 2 ell + 2 t - 1 responders, whose noises have the variance `SPREAD`**2 / R each; t of
        them may collude.  If the server has others respond each time there are (n - t) / (R - t) checks for
        one that a client is in.  With ell segments' sums that is ell R / (R - t)**2 <= 3/4 of n - t.
        """
        moved = row_sensitivity(CODED)
        return 0.75 * self.checks * (n - t) * (moved / SPREAD) ** 2 if t else 0.0

    def releases(self, n: int, t: int, k: int, d: int) -> Event:
        """All that a run opens at most: no question has a smaller radius, and none more numbers.

        What checks of labels open counts as one sum more, of t + 1 noises.
        """
        noise, least = self.noise(n, t), shell_sensitivity(LEAST_RADIUS, 1)
        each = noise.sums / math.sqrt(noise.honest)
        asked = DistributedDiscreteGaussian(each, each * least, noise.honest, GROUPS * k * (d + 1))
        if not t:
            return Composed((asked,) * self.steps)
        each = 1 / math.sqrt((t + 1) * self.cost_of_checks(n, t))
        size = self.checks * n * n * REPETITIONS
        checked = DistributedDiscreteGaussian(each, noise_deviation(n), t + 1, size)
        return Composed((asked,) * self.steps + (checked,))

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
        small = basis.lanes > 1 and min(basis.primes) <= LEAST_PRIME
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
                small, "basis", basis.primes,
                f"of primes below {LEAST_PRIME} labels are not checked to be alike modulo all",
                (("basis", None),),
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
        return NoisySumsClient(keeper, self.noise(plan.code.n, plan.code.t), coins, self.steps, self.checks)

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
            f"noisy sums and weights of the clusters after each of {self.steps} steps (so did every client, "
            "and noisy sums of labels)",
            "no label of any point, no size of a cluster, and no distance of a point",
        )
