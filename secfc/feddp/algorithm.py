"""FedDP-KMeans on the common interface: differentially private federated k-means with server-side data.

Scott, Lampert and Saulpic (ICML 2025): FedDP-Init (Algorithm 1), then FedDP-Lloyds (Algorithm 2), over a
secure sum.  `variant=PAPER` is theirs with the sensitivities it needs; `OURS` is better for the same budget.

What is released, to everybody: noisy outer products, weights of the server's points, sums and counts, under
the declared total budget; and the centers, which are made of them.  Labels stay with the clients, but for
what `RandomizedResponse` lets out.  With
`ServerNoise` the server sees exact sums over all clients; with `SharedNoise` nobody does.  t members of the
committee of the secure sum may collude (`secfc.secure_sum.protocol`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from field.arrays import Array
from field.secrets.coins import Coins
from secfc.algorithm import Capabilities, Clustering, PartyOutcome, PublicFacts, join_outcomes
from secfc.data.federation import Federation
from secfc.data.inputs import (
    COUNT,
    NATURAL,
    REAL,
    ValueKind,
    check_fields,
    instance_of,
    optional_kind,
    refuse_without_method,
    require_library,
)
from secfc.data.party import Party
from secfc.errors import Caution, InputError
from secfc.feddp import aggregator, clients
from secfc.feddp.aggregator import FedDPServerResult, ReleasedLabels
from secfc.feddp.clients import client_bounds
from secfc.feddp.noise import (
    HonestCounts,
    Laplace,
    Noise,
    NoisePlacement,
    ServerNoise,
    SharedNoise,
    proportional_noise,
)
from secfc.feddp.plan import (
    CHOICE,
    OUR_WEIGHTS,
    OUR_WEIGHTS_BEFORE_LLOYD,
    OURS,
    PAPER_SHARES,
    FedDPPlan,
    StepNoises,
    Variant,
    choice_shares,
    largest_number,
    scale_for,
)
from secfc.feddp.starts import BALL, SHARE, Cones, FedDPInit, Start, Votes
from secfc.feddp.statistics import LEAST_REACH, MAX_REACH, UNIT
from secfc.kmeans.centers import CentersModel
from secfc.kmeans.elbow import Elbow, largest_k, parse_k
from secfc.privacy.calibration import Bound, Budget, delta_warning
from secfc.privacy.events import Neighbors
from secfc.privacy.ledger import Promise
from secfc.privacy.mechanisms import RandomizedResponse
from secfc.remedies import Remedy
from secfc.roles.description import RunTerms
from secfc.roles.exchange import SERVER, PartyId, Role, SimulatedRun
from secfc.run_summary import CentersSummary, LabelsSummary, NoisyReleaseSummary, RunSummary
from secfc.secure_sum.plan import count_colluders, seat_members
from secfc.secure_sum.protocol import SumPlan

# --------------------------------------------------------------------------------------------------
# What a report may say of a private run to everybody: public facts, releases, and what follows from them.


SOURCES = {
    "given": "as given: known without looking at the data",
    "public data": "from the server's points",
    "private data": "READ OFF THE DATA, which no noise protects",
}


def threat_model(plan: FedDPPlan) -> tuple[tuple[str, str], ...]:
    """Who is protected, from whom, and what rows are cut to."""
    sums, honest = plan.sums, HonestCounts.of(plan.sums)
    if plan.placement.server_view is not None:
        noise = "added by the server, which has seen the exact sums"
    else:
        there = f", {honest.most} where nobody is lost" if honest.most > honest.fewest else ""
        noise = f"dealt inside the shares: that of {honest.fewest} honest clients suffices{there}"
    few = "no member learns" if sums.code.t == 1 else f"no {sums.code.t} members together learn"
    return (
        ("Protected", f"{plan.neighbors}: epsilon = {plan.total.epsilon:g}, delta = {plan.budget.delta:g}"),
        ("Sums", f"t = {sums.code.t}: {few} anything but the sum, of {len(sums.committee)} who hold shares"),
        ("Losses", f"a sum of fewer than {sums.least} of n = {sums.n} clients is refused"),
        ("Noise", noise),
        ("Clipping", f"rows longer than {plan.radius.value:.6g} are shortened to it ({plan.radius.source})"),
        (
            "Not said",
            "how many rows were shortened, which no budget pays for; rows beyond that length and groups of "
            "fewer rows than the noise count for less than others",
        ),
    )


def public_assumptions(plan: FedDPPlan) -> dict[str, Any]:
    """What the promise takes for public.  None of it may come from a look at clients' data."""
    k, own = plan.k, len(plan.points)
    facts: dict[str, Any] = {
        "clients": f"the names of n = {plan.sums.n} clients, and that they take part",
        "clusters": f"k chosen among {k.least} to {plan.most}" if isinstance(k, Elbow) else f"k = {k}",
        "features": f"d = {plan.d}, their names and units",
        "radius": f"{plan.radius.value:.6g}, {SOURCES[plan.radius.source]}",
        "server's points": f"{own:,}, which are published in effect" if own else "none",
    }
    if plan.neighbors.of_persons:
        most = sorted({plan.rows_at(client) or 0 for client in plan.clients})
        each = f"{most[0]}" if len(most) == 1 else f"{most[0]} or {most[1]}"
        facts["rows a person"] = (
            f"each client adds at most {each} of one person, by its own IDs; further ones are in no sum"
        )
    if plan.by_client:
        facts["rows a client"] = f"about {plan.rows:,}, as given"
    if plan.labels is not None and plan.labels.slots is not None:
        facts["places for rows"] = (
            f"{plan.labels.slots:,} a client, as given; rows keep theirs if one is gone"
        )
    return facts


def noise_releases(found: FedDPServerResult) -> tuple[NoisyReleaseSummary, ...]:
    """Every release of the run, with its noise."""
    return tuple(NoisyReleaseSummary(one.what, one.size, one.noise, one.signal) for one in found.released)


def noise_warning(found: FedDPServerResult, epsilon: float) -> str | None:
    """Why clusters cannot be told apart, and what helps; None where noise is small beside gaps.

    A center whose noise moves it more than half the way to its nearest neighbor may lie in that one's
    cluster; one whose count is within the noise is not the clients' at all.  Both follow from the released
    centers and noisy counts, so they may be published.
    """
    centers, blur = found.centers, found.blur
    if not (blur > 0).any():
        return (
            f"no cluster of the k={len(centers)} has more points than noise at epsilon={epsilon:g}: clients' "
            "points have not moved the centers in the last step. Fewer clusters, more rows or a larger "
            "epsilon help"
        )
    if len(centers) < 2:
        return None
    gaps = np.array([[np.linalg.norm(a - b) for a in centers] for b in centers])
    np.fill_diagonal(gaps, np.inf)
    lost = int((blur > gaps.min(axis=1) / 2).sum())
    if not lost:
        return None
    which = "1 center lies" if lost == 1 else f"{lost} centers lie"
    return (
        f"{which} nearer to another of the k={len(centers)} than twice the noise on it at "
        f"epsilon={epsilon:g} (largest noise {blur.max():.3g}, in data units): such clusters may be one, or "
        "noise alone. Fewer clusters, more rows or a larger epsilon help; a smaller bound does if few rows "
        "are longer"
    )


# --------------------------------------------------------------------------------------------------


def _numbers(value: Any) -> tuple[float, ...] | None:
    right = isinstance(value, tuple | list) and all((REAL.taken(item) or 0) > 0 for item in value)
    return tuple(value) if right else None


KINDS = {
    "epsilon": REAL,
    "delta": REAL,
    "neighbors": instance_of(Neighbors, 'Neighbors(unit="client")'),
    "steps": optional_kind(NATURAL, "0 to 3, by the start and the variant"),
    "start": ValueKind(
        "a start",
        "Pass a value such as FedDPInit() or ServerKMeansPlusPlus() of secfc.feddp",
        lambda v: v if isinstance(v, FedDPInit | Votes | Cones) or hasattr(v, "draw_centers") else None,
    ),
    "variant": instance_of(Variant, "OURS or PAPER of secfc.feddp"),
    "shares": optional_kind(
        ValueKind("a tuple of positive numbers", "Pass one a release, such as (0.25, 0.05, 0.7)", _numbers),
        "the usual ones",
    ),
    "noise": refuse_without_method(
        "calibrate_noise", "a placement of noise", "ServerNoise() or SharedNoise()"
    ),
    "bound": optional_kind(
        ValueKind(
            "a finite number above 0 or a Bound",
            "Pass the radius where rows are clipped, such as 20.0",
            lambda v: v if isinstance(v, Bound) or 0 < (REAL.taken(v) or 0) < math.inf else None,
        ),
        "from the server's points",
    ),
    "rows_per_client": optional_kind(COUNT, "not known"),
    "committee": optional_kind(COUNT, "at most 15"),
    "t": optional_kind(NATURAL, "a third of the committee"),
    "losses": optional_kind(NATURAL, "a quarter of the clients"),
    "labels": optional_kind(
        instance_of(RandomizedResponse, "RandomizedResponse(3.0) of secfc.privacy"), "of nobody's labels"
    ),
}

STEPS_AFTER_INIT = STEPS_AFTER_VOTES = 3
STEPS_AFTER_CONES = 2
# Of more features than this a vote tells too little: steps about cones instead.  Not where clusters are many:
# cones about as many directions often have two of them, and none of another.
FEATURES_FOR_VOTES, FEATURES_A_CLUSTER = 24, 2
# Of the budget of a start: for votes along lines, and for the mean of all points.
LINES, MEAN = 0.05, 0.08
# Integer steps within the radius where rows are clipped.
STEPS = MAX_REACH // 2
Shares = tuple[float, ...]  # of a budget


def default_noise(variant: Variant) -> NoisePlacement:
    """Who adds noise where nobody says it: clients inside their shares, or of Laplace noise the server.

    The server then sees exact sums over all clients: noise in shares is Gaussian.
    """
    return SharedNoise() if variant.gaussian else ServerNoise()


@dataclass(frozen=True)
class FedDPKMeans:
    """Differentially private federated k-means with the server's points (`Federation.server_points`).

    Parameters
    ----------
    k
        Number of clusters; `Elbow(most)`, "auto" or "2..12" chooses it on the noisy, weighted server's
        points, at no cost.
    epsilon
        Total budget of everything released, above 0, under `neighbors`.
    delta
        Second part of the budget, in (0, 1).
    neighbors
        Neighboring data: by default one data point more or less; `Neighbors(unit="client")` for a client's
        whole data set.
    steps
        FedDP-Lloyds after the initial centers; None is 3 after FedDP-Init and votes, 2 after cones, 1 after
        others, but 0 after FedDP-Init for PAPER.
    start
        `FedDPInit()`, or what it is compared with.  Without server's points clients vote for candidates in
        the ball of radius `bound` about 0 (`Votes`); of more than 24 features and of 2 k or more, where votes
        tell little, they add up points in cones (`Cones`).
    variant
        `OURS`, `PAPER`, or any other `Variant`.
    shares
        How the budget is split over outer product, weights, sums (and counts, if they are not in one vector
        with sums): shares of the steps' epsilons with Laplace noise, weights of one Gaussian mechanism
        without.
    noise
        Who adds the noise; None is `default_noise`: clients, so that nobody sees exact sums, but the server
        for Laplace noise.
    bound
        Norm to which rows are clipped, in data units; None derives it from the server's points.
    rows_per_client
        Public rough number of rows of a client; needed at client level only.
    committee
        Clients that hold shares of the secure sums, see `SumPlan.of`.
    t
        Colluding clients tolerated among the committee.
    losses
        Clients that may vanish.
    labels
        `RandomizedResponse(epsilon)` releases a label of every row to everybody, for an epsilon of its own
        that is added to the other; it takes `Neighbors("replace")`, or slots, a public number that hides how
        many rows a client has.  See `Clustering.released_labels`.

    Notes
    -----
    How many rows a client has is never used; names of clients and d are public.  `Clustering.excluded` names
    clients that are missing from a sum; those that hear of the centers have labels all the same.
    """

    k: int | Elbow
    epsilon: float
    delta: float
    neighbors: Neighbors = Neighbors()
    steps: int | None = None
    start: Start = FedDPInit()
    variant: Variant = OURS
    shares: tuple[float, ...] | None = None
    noise: NoisePlacement = None  # type: ignore[assignment]  # a placement from the moment it is made
    bound: Bound | float | None = None
    rows_per_client: int | None = None
    committee: int | None = None
    t: int | None = None
    losses: int | None = None
    labels: RandomizedResponse | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", parse_k(self.k))
        if self.noise is None and isinstance(self.variant, Variant):
            object.__setattr__(self, "noise", default_noise(self.variant))
        check_fields(self, KINDS)
        Budget(self.epsilon, self.delta)  # refuses what is none
        if self.t is not None and self.committee is not None and self.t >= self.committee:
            raise InputError(f"t={self.t} of a committee of {self.committee}: fewer may collude. Lower t")
        if self.labels is None:
            return
        if self.neighbors.unit != "data point":
            raise InputError(
                f"labels protect a row, and a {self.neighbors.unit} has many: protect data points, or leave "
                "them out"
            )
        if self.neighbors.relation != "replace" and self.labels.slots is None:
            raise InputError(
                "labels under add/remove tell how many rows a client has: give "
                'neighbors=Neighbors("replace"), or RandomizedResponse(epsilon, slots=200), a public number '
                "to pad to"
            )
        if self.neighbors.relation == "replace" and self.labels.slots is not None:
            raise InputError(
                f"slots={self.labels.slots} hide whether a row is there, and where one is replaced they cost "
                'twice the epsilon: give neighbors=Neighbors("add/remove"), or leave slots out'
            )

    @property
    def capabilities(self) -> Capabilities:
        """A promise, and that nobody learns how many rows a client has, or how large the largest value is."""
        return Capabilities(
            counted=False,
            bounded=False,
            central=lambda public: (*seat_members(public.clients, self.committee), SERVER),
            promise=lambda: Promise(self._total, self.neighbors),
            threshold=lambda clients: count_colluders(clients, self.committee, self.t),
            losses=lambda plan: int(plan.sums.spared),
            account=self.account,
        )

    @property
    def _total(self) -> Budget:
        """For everything that is released."""
        return Budget(self.epsilon + (self.labels.epsilon if self.labels else 0.0), self.delta)

    def plan(self, public: PublicFacts) -> FedDPPlan:
        """Raises InputError, PrivacyError or ValueError; no client's data is needed to plan.

        Warns (`Caution`) where clients are protected whose sums are less than the noise (`FedDPPlan.signal`).
        """
        require_library("FedDP-KMeans", "dp")
        self._check_rows_of_persons(len(public.clients))
        if self.labels is not None and (why := self.labels.warning(largest_k(self.k))) is not None:
            warnings.warn(why, Caution, stacklevel=2)
        points = public.server_points
        if points is None or not len(points) or isinstance(self.start, Votes | Cones):
            return self._voted(public)
        k, steps = self._checked_steps(len(points))
        initial = isinstance(self.start, FedDPInit)
        points = np.asarray(points, np.float64)
        origin = points.mean(axis=0) if self.variant.centered else np.zeros(points.shape[1])
        radius = self._radius(points, origin)
        by_client = self.neighbors.unit == "client"
        if by_client and self.rows_per_client is None:
            raise InputError(
                "rows_per_client=None: bounds on a client's statistics are found by simulating clients out "
                "of public points. Say about how many rows a client has, as publicly known."
            )
        if (why := delta_warning(self.delta)) is not None:
            raise InputError(why)
        budget, draft = Budget(self.epsilon, self.delta), self._sums(public, 1)
        asked = choice_shares(self.variant, self.neighbors.unit, steps, min(largest_k(k), public.d))
        noises = self._noises(budget, initial, steps, asked, draft)
        scale = scale_for(radius.value, STEPS)
        common: dict[str, Any] = {
            "k": k, "d": public.d, "points": points - origin, "origin": origin, "scale": scale,
            "outer_reach": self._outer_reach(points - origin, radius, scale), "radius": radius,
            "rows": self.rows_per_client or 0, "variant": self.variant,
            "neighbors": self.neighbors, "noises": noises, "placement": self.noise, "budget": budget,
            "start": self.start, "session": public.session, "labels": self.labels,
            "terms": RunTerms(self, public),
        }  # fmt: skip
        plan = FedDPPlan(sums=draft, outer_bound=1, **common)
        if by_client and initial:
            equal = np.ones(len(points))
            (bound,) = client_bounds(plan, (noises.outer,), lambda one: one.outer(), equal, 0)
            plan = FedDPPlan(sums=draft, outer_bound=bound, **common)
        done = FedDPPlan(
            sums=self._sums(public, largest_number(plan, initial)), outer_bound=plan.outer_bound, **common
        )
        if (why := done.hopeless) is not None:
            protect: Remedy = ("neighbors", Neighbors(), "protect data points")
            warnings.warn(Caution(why, [protect]), stacklevel=2)
        return done

    def _check_rows_of_persons(self, n: int) -> None:
        """Raises InputError where a client could take no row of a person."""
        who = self.neighbors
        if who.unit == "person" and who.rows < n:
            apart = replace(who, unit="person at one client")
            more: Remedy = ("neighbors", replace(who, rows=n), "have a row at each")
            raise InputError(
                f"rows={who.rows} of one person at n={n} clients, each of which takes its part: too few",
                [more, ("neighbors", apart, "protect at each client alone")],
            )

    def _checked_steps(self, held: int) -> tuple[int | Elbow, int]:
        """Clusters, and steps of FedDP-Lloyds, where the server holds so many points.  Raises InputError."""
        k = self.k.among(held, "points of the server") if isinstance(self.k, Elbow) else self.k
        most = largest_k(k)
        if held < max(most, 2):
            raise InputError(
                f"the server holds {held} points, k={most} clusters need at least {max(most, 2)}: "
                "lower k, or give the server more points"
            )
        initial = isinstance(self.start, FedDPInit)
        if isinstance(self.k, Elbow) and not initial:
            raise InputError("an Elbow needs the weights that FedDPInit finds: give k as a number")
        steps = self._steps(initial)
        if not initial and steps == 0:
            raise InputError("steps=0 without FedDPInit: nothing would be learned from the clients")
        return k, steps

    def _voting_start(self, public: PublicFacts) -> Votes | Cones:
        """The start without points at the server.  Raises InputError for one that needs them."""
        start = self.start
        if isinstance(start, FedDPInit):
            wide = public.d > max(FEATURES_FOR_VOTES, FEATURES_A_CLUSTER * largest_k(self.k) - 1)
            start = Cones() if wide else Votes()
        if not isinstance(start, Votes | Cones):
            raise InputError(
                f"the server holds 0 points, {type(start).__name__} starts from them: give the federation "
                "server_points, or start=Votes() and a bound"
            )
        if isinstance(start, Votes):
            return start.among(largest_k(self.k), public.d, self.epsilon)
        if public.d == 1:
            raise InputError("Cones about the mean of d=1 feature are two: give start=Votes()")
        return start

    def _check_without_points(self) -> int:
        """The number of clusters.  Raises InputError for what points of the server are needed for."""
        if self.bound is None:
            raise InputError(
                "the server holds 0 points and bound=None: give the federation server_points, or the radius "
                "about 0 within which rows lie, such as bound=20.0, known without looking at the data"
            )
        if self.neighbors.unit == "client":
            raise InputError(
                "the server holds 0 points: bounds on a client's statistics come from clients simulated out "
                'of them. Give the federation server_points, or protect data points: Neighbors("add/remove")'
            )
        if isinstance(self.k, Elbow):
            raise InputError("the server holds 0 points, an Elbow weighs them: give k as a number")
        if not self.variant.joint or not self.variant.residuals:
            raise InputError(
                "the server holds 0 points: votes are for variants of joint sums of residuals, such as OURS"
            )
        if self.shares is not None:
            raise InputError(f"shares={self.shares} without server points: give Votes(share=...) instead")
        return self.k

    def _voted(self, public: PublicFacts) -> FedDPPlan:
        """The plan without points at the server: candidates in the public ball instead."""
        start = self._voting_start(public)
        k = self._check_without_points()
        usual = STEPS_AFTER_VOTES if isinstance(start, Votes) else STEPS_AFTER_CONES
        steps = usual if self.steps is None else self.steps
        if k < 1 or steps < 1:
            raise InputError(f"k={k}, steps={steps}: at least one cluster and one step are needed")
        if (why := delta_warning(self.delta)) is not None:
            raise InputError(why)
        budget = Budget(self.epsilon, self.delta)
        radius = self._radius(np.zeros((0, public.d)), np.zeros(public.d))
        scale = scale_for(radius.value, STEPS)
        draft = self._sums(public, 1)
        lines, votes, moves = _split(start, steps)
        boxes, choice = BALL * start.boxes, (CHOICE,) * self.variant.chosen
        rest = tuple(share * (1 - math.fsum(boxes + choice)) for share in lines + votes + moves)
        found = self.noise.calibrate_noise(budget, boxes + choice + rest, HonestCounts.of(draft))
        asked, chosen, found = found[: len(boxes)], found[len(boxes) :], found[len(boxes + choice) :]
        groups = tuple((one, None) for one in found[len(lines + votes) :])
        noises = StepNoises(
            None, found[len(lines)] if votes else None, chosen[0] if choice else None, None, None, groups,
            found[0] if lines else None, asked,
        )  # fmt: skip
        plan = FedDPPlan(
            sums=draft, k=k, d=public.d, points=np.zeros((0, public.d)), origin=np.zeros(public.d),
            scale=scale, radius=radius, outer_reach=radius.steps(scale), outer_bound=1, rows=0,
            variant=self.variant,
            neighbors=self.neighbors, noises=noises,
            placement=self.noise, budget=budget, start=start, session=public.session,
            labels=self.labels, terms=RunTerms(self, public),
        )  # fmt: skip
        return replace(plan, sums=self._sums(public, largest_number(plan, False)))

    def _steps(self, initial: bool) -> int:
        """Steps of FedDP-Lloyds: as asked for, or by the variant alone."""
        if self.steps is not None:
            return self.steps
        # The paper mostly finds none best (Tables 4, 5).  About public anchors they pay: those are near,
        # and it shrinks to the sums before.  More than are of use cost nothing: one question is asked again.
        return STEPS_AFTER_INIT if initial and self.variant.joint else int(not initial)

    def _sums(self, public: PublicFacts, bound: int) -> SumPlan:
        plan = SumPlan.of(public.clients, bound, committee=self.committee, t=self.t, losses=self.losses)
        spares = self.noise.shares_spare(HonestCounts.of(plan))
        return replace(plan, quorum=plan.exclusive_quorum) if spares else plan

    def _radius(self, points: Array, origin: Array) -> Bound:
        if isinstance(self.bound, Bound):
            return self.bound
        if self.bound is not None:
            return Bound.given(self.bound)
        return Bound.from_public(points, 1.0, origin)

    def _outer_reach(self, points: Array, radius: Bound, scale: float) -> int:
        """Where rows are clipped for the outer product, in steps: its noise grows with the square."""
        found = Bound.from_public(points, self.variant.quantile)
        # In a far larger radius points lie within one step of the middle, which is no fault.
        return min(radius.steps(scale), max(math.floor(scale * found.value), LEAST_REACH))

    def _weights(self, budget: Budget, initial: bool, steps: int, choices: Shares) -> Shares:
        """What each sum counts for in the budget, in the order of sums.  Raises InputError."""
        unit, joint = self.neighbors.level, self.variant.joint
        usual = OUR_WEIGHTS[unit] if joint else PAPER_SHARES[unit]
        shares = self.shares or usual
        if len(shares) != len(usual) or not all(share > 0 for share in shares):
            raise InputError(f"shares={shares}: {len(usual)} positive numbers are needed for this variant")
        wanted = (shares if initial else ()) + shares[2:] * steps
        if joint and initial and steps and not self.shares:
            *before, last = [w for least, w in OUR_WEIGHTS_BEFORE_LLOYD[unit] if budget.epsilon >= least][-1]
            wanted = (*before, *((last / steps,) * steps))
        whole = math.fsum(wanted) / (1 - math.fsum(choices))
        return (*wanted[:2], *(share * whole for share in choices), *wanted[2:])

    def _noises(self, budget: Budget, initial: bool, steps: int, asked: Shares, sums: SumPlan) -> StepNoises:
        """The noise of every step, so that all of them meet the budget together."""
        wanted = self._weights(budget, initial, steps, asked if initial else ())
        joint = self.variant.joint
        found: tuple[Noise, ...]
        if self.variant.gaussian:
            # Shares of epsilons are about shares of inverse noise multipliers, whose squares add up.
            weights = wanted if joint or self.shares else tuple(share**2 for share in wanted)
            found = self.noise.calibrate_noise(budget, weights, HonestCounts.of(sums))
        else:
            one_entry = self.neighbors == Neighbors()
            count = Laplace(1.0, one_entry, UNIT)
            kinds = ((None, count, None, count) if initial else ()) + (None, count) * steps
            found = proportional_noise(budget, wanted, kinds)
        each = found[2 + len(asked) if initial else 0 :]
        groups: tuple[tuple[Noise, Noise | None], ...] = tuple((one, None) for one in each)
        if not joint:
            groups = tuple(zip(each[::2], each[1::2], strict=True))
        if not initial:
            return StepNoises(None, None, None, None, None, groups)
        choice, splits = found[2] if asked else None, found[3 : 2 + len(asked)]
        return StepNoises(found[0], found[1], choice, *groups[0], groups[1:], splits=splits)

    def client(self, plan: FedDPPlan, party: Party, *, coins: Coins) -> Role[Any]:
        """Contribute to every sum, then label my points: labels, and what of mine was clipped."""
        return clients.run_client(plan, party, coins)

    def server(
        self, plan: FedDPPlan, *, rng: np.random.Generator, coins: Coins
    ) -> Role[aggregator.FedDPServerResult]:
        """Ask for sums, and make centers of them.  coins: for the noise."""
        return aggregator.run_server(plan, rng, coins)

    def outcome(self, plan: FedDPPlan, party: PartyId, returned: Any) -> PartyOutcome:
        """Labels of a client's points, and what of its contributions was clipped; the server's centers."""
        if party != SERVER:
            labels, shortened, centers = returned
            heard = ("the noisy centers",)
            return PartyOutcome(party, plan, labels=labels, centers=centers, learned=heard, details=shortened)
        epsilon, said = returned.ledger.epsilon(plan.budget.delta), returned.answers
        learned = [
            f"{len(returned.released)} noisy releases under {plan.neighbors}, epsilon={epsilon:.4g} at "
            f"delta={plan.budget.delta:g} in total"
        ]
        if plan.labels is not None:
            learned.append(plan.labels.sentence(len(returned.centers)))
        if plan.placement.server_view is not None:
            learned.append("the exact sums over all clients, before it added the noise")
        return PartyOutcome(
            party,
            plan,
            centers=returned.centers,
            n_iter=len(plan.noises.lloyd),
            converged=True,
            learned=tuple(learned),
            excluded=tuple(c for c in plan.clients if any(c not in there for there in returned.counted)),
            ledger=returned.ledger,
            details=returned,
            curve=returned.curve,
            released_labels=None if said is None else said.by_client,
            released_sizes=None if said is None else (said.sizes, said.errors),
        )

    def account(self, result: Clustering, federation: Federation, *, ids: str | None = None) -> RunSummary:
        """What reports say of a run: every client labels its own points, so their numbers are its own."""
        plan, found = result.plan, result.details
        if isinstance(found, Details):  # of an experiment; a server alone has its own
            found = found.server
        lost = noise_warning(found, self.epsilon)
        return RunSummary(
            "feddp",
            "FedDP-KMeans: differentially private centers, from noisy sums",
            {
                "epsilon": self.epsilon,
                "labels_epsilon": self.labels.epsilon if self.labels else None,
                "delta": self.delta,
                "radius": self.bound.value if isinstance(self.bound, Bound) else self.bound,
                "noise": "shares" if self.noise.server_view is None else "server",
                "protect": self.neighbors.word,
            },
            "Not exact, by intent: centers are made of sums that carry noise.",
            setup=threat_model(plan),
            labels=_labels_summary(plan, found.answers),
            centers=_centers_summary(plan, found),
            delta=self.delta,
            follows=False,
            noise=noise_releases(found),
            assumed=public_assumptions(plan),
            notes=() if lost is None else (lost,),
        )

    def collect(
        self, outcomes: Mapping[PartyId, PartyOutcome], run: SimulatedRun, counts: tuple[int, ...]
    ) -> Clustering:
        """The clustering; its cost is not known to any party, see `metrics.cost`."""
        found = outcomes[SERVER].details
        shortened: dict[str, tuple[int, int]] = {}
        for own in [own for name, own in outcomes.items() if name != SERVER]:
            for part, (some, of) in own.details.items():
                before = shortened.get(part, (0, 0))
                shortened[part] = (before[0] + some, before[1] + of)
        if (lost := noise_warning(found, self.epsilon)) is not None:
            warnings.warn(lost, Caution, stacklevel=2)
        model = CentersModel(found.centers)
        result = join_outcomes(outcomes, run, counts, k=len(found.centers), model=model)
        return replace(result, details=Details(found, shortened))


@dataclass(frozen=True, eq=False, repr=False)
class Details:
    """server: what the server has in the end.  shortened: of every kind of contribution, how many were
    clipped, and of how many; in an experiment only, as no party knows it.
    """

    server: aggregator.FedDPServerResult
    shortened: dict[str, tuple[int, int]]


def _centers_summary(plan: FedDPPlan, found: FedDPServerResult) -> CentersSummary | None:
    """How sure centers and sizes are, from what was released and what is public."""
    if found.counts is None or len(found.counts) != len(found.centers):
        return None
    lost, held = int((found.counts < found.least).sum()), len(plan.points)
    instead = "has a center of the server's points" if held else "keeps the center that it had"
    beyond = f"rows beyond {plan.radius.value:.6g} count as if they lay there"
    if held:
        far = np.linalg.norm(plan.points, axis=1) > plan.radius.value
        beyond += f", as do {100 * far.mean():.0f} of 100 of the server's points"
    bias = (
        f"A cluster of fewer than {found.least:,.0f} rows is within the noise: it {instead}, so small groups "
        f"are not seen ({lost} of {len(found.counts)} here).",
        f"Clipping: {beyond}, and rows far from their center pull it less. How many of the clients' rows "
        "these are is not released: each client knows its own, and a count would take a part of the budget.",
    )
    sizes = None if plan.by_client else found.counts.tolist()
    return CentersSummary.of(sizes, found.miscounted, found.blur, found.least, bias)


def _labels_summary(plan: FedDPPlan, found: ReleasedLabels | None) -> LabelsSummary | None:
    """What reports say of released labels."""
    if plan.labels is None or found is None:
        return None
    return LabelsSummary(
        plan.budget.epsilon, plan.labels.epsilon, found.right, found.sizes.tolist(), found.errors.tolist()
    )


def _split(start: Votes | Cones, steps: int) -> tuple[Shares, ...]:
    """Shares of the budget of every histogram along a line, of every other, and of every step."""
    whole = 1.0 if isinstance(start, Cones) else start.share or SHARE
    lines = (LINES * whole / start.lines,) * start.lines if start.lines else ()
    left = whole - math.fsum(lines)
    if isinstance(start, Cones):
        moves = start.steps + steps
        return lines, (), (MEAN, *(((left - MEAN) / moves,) * moves))
    rounds = start.rounds or 1
    return lines, (left / rounds,) * rounds, ((1 - whole) / steps,) * steps
