"""One interface for every algorithm: fit a federation, get a clustering.

An algorithm is a frozen dataclass with five methods (`Algorithm`).  `fit` joins them to the driver in one
process; a deployment calls `client` and `server` itself.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np

from field.arrays import Array
from field.secrets.coins import Coins, SystemCoins
from secfc.data.clusters import ClusterProfile, cluster_cautions, profile_clusters
from secfc.data.federation import Federation, as_federation
from secfc.data.inputs import REAL, format_value, kind_name, names_listed
from secfc.data.party import Party, SeenRows
from secfc.errors import Caution, InputError
from secfc.privacy.calibration import Budget
from secfc.privacy.events import Event, Neighbors
from secfc.privacy.ledger import EXACT, Ledger, Promise
from secfc.remedies import accept_old_names
from secfc.roles.description import LOCAL
from secfc.roles.exchange import SERVER, PartyId, Role, SimulatedRun, Transcript
from secfc.run_summary import facts_table

LIMIT = 400  # bounds lie within 2**-LIMIT to 2**LIMIT


@dataclass(frozen=True)
class PublicFacts:
    """What every party knows before the protocol: names, row counts, features and a bound on the data.

    bound: no absolute value exceeds it, in data units; infinite if the algorithm needs none
    (`Capabilities.bounded`).  derived: it was read off the data.
    session: 32 public bytes that no other run uses; one party draws them, and all must hold the same.
    server_points: (s, d), the points that the server holds and may show to everybody, or None.
    features: names of the d features in the order of the columns, so that no site has another; or None.
    observed: of each client the numbers of the features that its columns are, in their order; None if all
    clients observe all d.  A plan that takes such clients holds it.
    Parties compare all of it but counts, bound and server_points, which their plan holds if it uses them.
    seed: of random starts, the same for all parties; None for coins that clients toss, or, in an algorithm
    whose clients do not check starts, for the server's choice.
    """

    clients: tuple[PartyId, ...]
    counts: tuple[int, ...] = field(metadata=LOCAL)  # hidden where a plan has no need of them
    d: int
    bound: float = field(metadata=LOCAL)  # as is a bound
    derived: bool = field(default=False, metadata=LOCAL)
    session: bytes = field(default_factory=lambda: SystemCoins().bytes(32), repr=False)
    server_points: Array | None = field(default=None, compare=False, repr=False, metadata=LOCAL)
    features: tuple[str, ...] | None = None
    observed: tuple[tuple[int, ...], ...] | None = field(default=None, metadata=LOCAL)
    seed: int | None = None

    @property
    def m(self) -> int:
        """Points in total."""
        return sum(self.counts)

    @classmethod
    def of(cls, federation: Federation, bound: float | None = None, *, bounded: bool = True) -> PublicFacts:
        """The public facts of a federation.

        Without a bound, the smallest power of two that no value exceeds is made public: that much of
        the data is then known to all.  bounded: False for an algorithm that needs none, so nobody looks.
        """
        derived = bound is None and bounded
        if bound is None:
            bound = power_of_two(federation.largest()) if bounded else math.inf
        elif bounded or bound != math.inf:
            check_bound(bound)
        return cls(
            federation.names,
            federation.counts,
            federation.d,
            float(bound),
            derived,
            server_points=federation.server_points,
            features=federation.feature_names,
            observed=federation.observed,
        )

    @property
    def common(self) -> tuple[int, ...]:
        """The features that all clients observe."""
        sets = [set(columns) for columns in self.observed or ()]
        return tuple(f for f in range(self.d) if all(f in columns for columns in sets))


def check_columns(algorithm: Any, public: PublicFacts) -> None:
    """Raise InputError if clients observe different features and the algorithm does not take that."""
    can = algorithm.capabilities
    if public.observed is None or (can.partial and (can.joins or all(public.observed))):
        return
    if not all(public.observed):
        idle = f"client {public.clients[public.observed.index(())]!r} has no data"
        where = "as one may where columns are joined: leave it out, or say SecFC(membership='joined')"
        raise InputError(f"{idle}, {where}")
    names = public.features or tuple(map(str, range(public.d)))
    common = [names[f] for f in public.common]
    raise InputError(
        f"{type(algorithm).__name__} needs the same features at all clients, and of {public.d} features "
        + (f"{len(common)} {'is' if len(common) == 1 else 'are'}" if common else "none is")
        + (f" common to all: {names_listed(common)}" if common else " common to all"),
        [*[("columns", ..., "choose from these")] * bool(common), ("algorithm", "federated-lloyd")],
    )


def check_bound(bound: float) -> None:
    """Raise InputError for a bound whose squares, and sums of them, leave the range of floats."""
    REAL.of("bound", bound)
    if not (math.isfinite(bound) and bound > 0):
        raise InputError(f"bound={bound}: the public bound on the data must be positive and finite, as 10.0")
    if not -LIMIT < math.frexp(bound)[1] < LIMIT:
        raise InputError(
            f"bound={bound:g} is outside 2**-{LIMIT} to 2**{LIMIT} (about 1e-120 to 1e120), beyond which "
            "squared distances leave the range of floats: rescale the data, or give one near their largest"
        )


def power_of_two(largest: float) -> float:
    """The smallest power of two that is at least `largest`; 1 if that is 0.

    Raises InputError beyond 2**LIMIT, where squares and sums of them leave the range of floats.
    """
    if largest == 0:
        return 1.0
    fraction, exponent = math.frexp(largest)
    if not -LIMIT < exponent < LIMIT:
        raise InputError(
            f"the largest absolute value is about 2**{exponent}: rescale the data to within 2**-{LIMIT} to "
            f"2**{LIMIT}"
        )
    return math.ldexp(1.0, exponent - (fraction == 0.5))


# How the roles of all parties are run together, for whoever has roles and knows no driver: of roles, the
# description of the plan, which keys are bound to, and coins, what the roles returned and said.
Driver = Callable[[Mapping[PartyId, Role[Any]], bytes, Mapping[PartyId, Coins]], SimulatedRun]


class Model(Protocol):
    """What the parties keep after a run, able to label new points."""

    @property
    def by_name(self) -> bool:
        """Whether clients may bring any of the columns of the fit, which it matches by name."""
        ...

    def predict(
        self, federation: Federation, *, coins: Callable[[PartyId], Coins], drive: Driver
    ) -> list[Array]:
        """Labels of new points: one (m_j,) array a client.  drive: runs roles, if that takes any."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class PartyOutcome:
    """What one party has of a run, and nothing that it has not: what a site keeps, shows and predicts with.

    plan: as it was agreed.  labels: of a client's own points, (m_j,) int32; None for the server.  rows: the
    row in [0, m) of each of them (m_j,), if points have common rows; secret where owners are hidden.
    share: what the party keeps to label new points together with the others; secret.
    scaling: how a client brought its features to a common scale first (`secfc.scaling`), None if it did not.
    curve: the costs by which the server chose k (`secfc.kmeans.elbow.CostCurve`), None if k was given.
    dendrogram: what the server was told of merging the final clusters (`Clustering`).  groups: (k,) the group
    of each cluster, where labels are of groups.  Both are None without.
    A client's centers are in data units; the server, which does not learn the scale, has them scaled.
    learned: of others' data, in sentences.  Everything else is as in `Clustering`, as far as this party knows
    it: a client does not know the cost, nor what the server found out about others.
    released_labels: the server's, of each client that answered.
    """

    party: PartyId
    plan: Any
    labels: Array | None = None
    rows: Array | None = None
    centers: Array | None = None
    cost: float | None = None
    n_iter: int | None = None
    converged: bool | None = None
    held: int | None = None
    history: tuple[Array, ...] = ()
    sizes: tuple[Array, ...] = ()
    learned: tuple[str, ...] = ()
    excluded: tuple[PartyId, ...] = ()
    deviated: Mapping[PartyId, str] = field(default_factory=dict)
    disputes: tuple[tuple[PartyId, PartyId], ...] = ()
    ledger: Ledger = EXACT
    share: Any = None
    details: Any = None
    scaling: Any = None
    curve: Any = None
    dendrogram: Any = None
    groups: Array | None = None
    stability: float | None = None
    released_labels: Mapping[PartyId, Array] | None = None
    released_sizes: tuple[Array, Array] | None = None

    def __repr__(self) -> str:
        points = "" if self.labels is None else f", points={len(self.labels)}"
        return f"Outcome({self.party!r}{points})"


def no_threshold(clients: tuple[PartyId, ...]) -> None:
    """No threshold: the algorithm hides nothing from clients."""


def no_promise() -> None:
    """No promise: the algorithm has no differential privacy."""


def no_losses(plan: Any) -> int:
    """No losses: the algorithm needs every client to its end."""
    return 0


@dataclass(frozen=True, eq=False)
class SplittableBudget:
    """A budget of differential privacy of which a part can pay for what comes before the algorithm.

    budget: for everything that the algorithm releases.  neighbors: whom it protects.  within: the algorithm
    for another budget, such as what is left of one.  releases: all that it releases at most for a budget, on
    these public facts; raises as its plan does.
    """

    budget: Budget
    neighbors: Neighbors
    within: Callable[[Budget], Any]
    releases: Callable[[Budget, PublicFacts], Event]


@dataclass(frozen=True, eq=False)
class Capabilities:
    """What an algorithm can do, or holds, that another does not: each declares its own.

    `fit`, planners, reports and the shell read these, and probe for no other name.

    partial: whether clients may observe different features.  level: whether no message grows with rows.
    joins: whether they are then of the same people, each at one client, and a client may have none.
    scale_alone: the algorithm whose clients bring features to a scale each by itself; None where all do it.
    pairs: what it asks, by the plan, if that is about every two points once; else None.
    counted: whether its plan says how many rows each client has; without, these numbers stay at home.
    bounded: whether its plan needs a bound on values; without, nobody looks for the largest one.  inner: the
    algorithm that it runs on points that it changed first, None of one that stands alone.
    policy: what the server may see (`secfc.coded.policy.Disclosure`), None where there is no such choice.
    membership: whose rows are whose (`secfc.coded.membership`), None where there is no such choice.
    coarse: what is done about rounding that loses data, "refuse", "warn" or "allow", as its field `coarse`
    says; None if it has no such field.
    max_iter: steps of a restart at most, None where it has no such bound.  restarts: how many there are.
    budget: of differential privacy, None where there is none that can be split.
    promise: of differential privacy for all that a run releases; raises as `plan` does for what is none.
    central: with whom all others speak, and with nobody else, by what is public before rows are counted; None
    for all.  threshold: how many of these clients may collude, None if none may.  losses: how many may fall
    silent once their rows are shared, by the plan.  least: how many rows its rules need, by the plan.
    foresee: the plan that the points of all will lead to, by a plan and a federation; None: that plan.
    judge: all data against the rounding of a plan, for one that changes points before they are rounded, as
    `secfc.data.resolution.check_resolution`.  account: what reports say of a run (`secfc.run_summary`), by a
    result, a federation and `ids`, the column that names points; None: its class and its values.
    """

    partial: bool = False
    level: bool = False
    joins: bool = False
    scale_alone: Callable[[Any], Any] | None = None
    pairs: Callable[[Any], tuple[Any, ...]] | None = None
    counted: bool = True
    bounded: bool = True
    inner: Any = None
    policy: Any = None
    membership: Any = None
    coarse: str | None = None
    max_iter: int | None = None
    restarts: int = 1
    budget: SplittableBudget | None = None
    promise: Callable[[], Promise | None] = no_promise
    central: Callable[[PublicFacts], tuple[PartyId, ...]] | None = None
    threshold: Callable[[tuple[PartyId, ...]], int | None] = no_threshold
    losses: Callable[[Any], int] = no_losses
    least: Callable[[Any], int] = lambda plan: 0
    foresee: Callable[[Any, Federation], Any] | None = None
    judge: Callable[[Any, Federation], tuple[Any, Any]] | None = None
    account: Callable[..., Any] | None = None


class Algorithm(Protocol):
    """Five methods and what it declares, and `fit` can run it."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do, or holds, that another does not."""
        ...

    def plan(self, public: PublicFacts) -> Any:
        """Everything public, checked before any data is touched."""
        ...

    def client(self, plan: Any, party: Party, *, coins: Coins) -> Role[Any]:
        """The role of one client."""
        ...

    def server(self, plan: Any, *, rng: np.random.Generator, coins: Coins) -> Role[Any]:
        """The role of the server: rng draws starts only, and its coins are secret."""
        ...

    def outcome(self, plan: Any, party: PartyId, returned: Any) -> PartyOutcome:
        """What a party has in the end, from what its role returned: in one process and at its own site."""
        ...

    def collect(
        self, outcomes: Mapping[PartyId, PartyOutcome], run: SimulatedRun, counts: tuple[int, ...]
    ) -> Clustering:
        """The result of an experiment: what all parties have, put together (`join_outcomes`).

        counts: points of every client.
        """
        ...


@accept_old_names(liars="deviated")
@dataclass(frozen=True, eq=False, repr=False)
class Clustering:
    """Result of `fit`.

    Parameters
    ----------
    k
        Number of clusters, as requested or chosen.
    labels
        One (m_j,) int32 array a client, in its own row order.
    cost
        Sum of squared distances of points to the means of their clusters, in squared data units; of clusters
        as sums have them under a floor.  None if no party may know it, or only with noise.
    n_iter
        Steps of Lloyd's heuristic in the best restart.
    converged
        Whether the last step changed no label, as far as a party can know and a floor allows.
    history
        Flat labels (m,) before the first step and after each; empty if there were none, or nobody knows those
        of all points.
    centers
        (k, d) in data units, None if hidden; a row of NaN is an empty cluster, or one that is `withheld`.
    plan
        The public parameters of the run.
    learned
        What the server learned, in sentences.
    model
        Model that labels new points (`predict`).
    transcript
        All messages.
    seconds
        Computing time by party and phase, without compiling or loading kernels.
    rows
        For each client the row in [0, m) of each of its points, (m_j,); a client knows its own only.  Flat
        labels are in the order of rows.
    excluded
        Clients that vanished while they shared, or shared falsely, so that their rows do not count: labels
        -1, unless centers that others made label them too.
    ledger
        What the run costs in differential privacy, by view: `ledger.epsilon(delta, view)`.
    deviated
        Clients that deviated, with the server's proof of each: sound if no more did than are corrected.
    disputes
        Pairs (dealer, receiver) of whom one lied.
    details
        Further facts of the run, which the algorithm defines.
    features
        Names of the features, if the federation had any; `predict` matches others by them.
    scaling
        How features were brought to a common scale first (`secfc.scaling`), None if they were not.  Costs are
        of scaled points then, and centers in data units all the same.
    curve
        Costs of 1, 2, ... clusters by which k was chosen (`secfc.kmeans.elbow.CostCurve`), None if k was
        given; of scaled points, as cost is.
    dendrogram
        What merging each two of the final clusters would cost, and hierarchies that follow
        (`secfc.kmeans.bisecting.Dendrogram`), if that was opened (`Release(dendrogram=True)`), else None.
    sizes
        Points (k,) of every cluster before the first step and after each, where they are known.
    held
        Rows that a floor kept in another cluster's sums than of their nearest center, None without a floor.
    stability
        Mean adjusted Rand index of the labels of each restart and those of the one that is kept: 1 if all
        found the same clusters, 0 if by chance alone.  None of a single start (`n_init=1`), and where labels
        of restarts are hidden or noisy: only who sees them anyway computes it.
    released_labels
        As `labels`, what everybody may have of them (`RandomizedResponse`), -1 of a client that did not
        answer, and with slots as many of each client, of rows first; None where none were released.
    released_sizes
        By these labels, unbiased sizes (k,) of clusters and their standard errors (k,), in rows; else None.
    drive
        Driver of the run and of predictions (`sealed=` says how); None if the parties ran elsewhere.
    simulated
        The data of all clients, which a simulation has and no party: for `profile` and `cautions`.  A copy
        or pickle leaves it out.
    """

    k: int
    labels: list[Array]
    cost: float | None
    n_iter: int
    converged: bool
    history: tuple[Array, ...]
    centers: Array | None
    plan: Any
    learned: tuple[str, ...]
    model: Model | None
    transcript: Transcript
    seconds: Mapping[PartyId, Mapping[str, float]] = field(default_factory=dict)
    rows: list[Array] | None = None
    excluded: tuple[PartyId, ...] = ()
    ledger: Ledger = EXACT
    deviated: Mapping[PartyId, str] = field(default_factory=dict)
    disputes: tuple[tuple[PartyId, PartyId], ...] = ()
    details: Any = None
    features: tuple[str, ...] | None = None
    scaling: Any = None
    curve: Any = None
    dendrogram: Any = None
    sizes: tuple[Array, ...] = ()
    held: int | None = None
    stability: float | None = None
    released_labels: list[Array] | None = None
    released_sizes: tuple[Array, Array] | None = None
    drive: Callable[..., SimulatedRun] | None = None
    simulated: Federation | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"simulated": None}

    def __repr__(self) -> str:
        cost = "hidden" if self.cost is None else f"{self.cost:.6g}"
        held = f", held={self.held}" if self.held else ""
        facts = f"cost={cost}, n_iter={self.n_iter}, converged={self.converged}{held}"
        return f"Clustering(k={self.k}, m={sum(map(len, self.labels))}, {facts})"

    def _repr_html_(self) -> str:
        """What notebooks show: facts of the run and what the server learned; no label and no point."""
        labels = self.flat
        sizes = self.sizes[-1] if self.sizes else np.bincount(labels[labels >= 0], minlength=self.k)
        hidden = "hidden from all parties; of the simulation: .profile()"
        opened = hidden if self.centers is None else f"open, in data units: .centers {self.centers.shape}"
        if self.withheld:
            opened += f"; closed where few points are: {', '.join(map(str, self.withheld))}"
        named = names_listed(list(self.plan.clients))
        values = {
            "clusters": self.k,
            "points": f"{len(labels)} of {len(self.labels)} clients ({named})",
            "points by cluster": ", ".join(map(str, sizes.tolist())),
            "steps": f"{self.n_iter}, {'converged' if self.converged else 'stopped before it converged'}"
            + (f", but the floor held {self.held:,} rows" if self.held else ""),
            "cost": hidden if self.cost is None else f"{self.cost:.6g}",
            "centers": opened,
        }
        if self.excluded:
            values["left out"] = names_listed(list(self.excluded))
        if self.deviated:
            values["deviated"] = names_listed(list(self.deviated))
        first = "A simulation: this computer saw the data of all clients."
        return facts_table(
            "Clustering", first, values, self.learned, "The server learned, beyond the public plan:"
        )

    @property
    def flat(self) -> Array:
        """All labels in client order: (m,)."""
        return np.concatenate(self.labels)

    def cut(self, count: int, method: str = "ward") -> list[Array]:
        """Labels of so many groups of clusters, one (m_j,) int32 array a client, -1 where they were.

        By a hierarchy of the clusters, see `dendrogram`.  Raises InputError without one.
        """
        if self.dendrogram is None:
            raise InputError("no dendrogram was opened: fit SecFC(k, release=Release(dendrogram=True))")
        groups = np.append(self.dendrogram.cut_tree(count, method), -1).astype(np.int32)
        return [groups[own] for own in self.labels]

    @property
    def withheld(self) -> tuple[int, ...]:
        """The clusters that have points, and whose centers stay closed where others are open.

        They have fewer points than clients agreed to open the center of, as `Release(smallest_center=)`.
        """
        if self.centers is None:
            return ()
        labels = self.flat
        sizes = self.sizes[-1] if self.sizes else np.bincount(labels[labels >= 0], minlength=self.k)
        closed = [bool(np.isnan(center).all()) for center in self.centers]
        return tuple(h for h, size in enumerate(sizes.tolist()) if size and closed[h])

    def predict(
        self, federation: Any, *, coins: Callable[[PartyId], Coins] | None = None, sealed: bool = False
    ) -> list[Array]:
        """Labels of new private points, one (m_j,) array a client of the same federation.

        federation: a `Federation`, a list of arrays or data frames in the order of its clients, or a mapping
        by their names.

        Under SecFC a second protocol over shares, which opens no center.  All parties learn the labels of all
        new points; beyond them the server sees what the policy of the fit shows of one step: nothing under
        `AssignmentsOnly` and `FinalLabelsOnly`, under `Distances` the exact distance of every new point to
        every center, and so the centers as soon as it knows a few of the points.  Policies with noise keep no
        model.  Whoever chooses points can find hidden centers by calling this often, also from labels alone:
        each call halves an interval for every feature at once.  sealed: as in `fit`.

        Raises ValueError if clients, features or the range of data differ from the fit, or there is no model.
        """
        if self.model is None:
            raise InputError("this algorithm keeps no model: cluster old and new rows in one run")
        if self.drive is None:
            raise InputError("this result is not one of `secfc.fit`: predict with the roles of its parties")
        matched = self.model.by_name  # a model for any columns matches them itself
        federation = self._of_the_fit(federation, union=matched)
        if self.features is not None and federation.feature_names is not None and not matched:
            federation = federation.ordered(self.features)
        if coins is not None and not callable(coins):
            raise InputError(
                f"coins={format_value(coins)} is {kind_name(coins)}: a function of a party's name is needed. "
                "Leave it out"
            )
        drive = partial(self.drive, sealed=sealed)
        labels = self.model.predict(federation, coins=coins or (lambda party: SystemCoins()), drive=drive)
        self._note_far(federation)
        return labels

    def _note_far(self, new: Federation) -> None:
        """Warn (`Caution`) of new rows far outside what the model saw, where no common scale says so."""
        seen = self.simulated
        if seen is None or self.scaling is not None or seen.observed is not None or new.d != seen.d:
            return
        if (far := SeenRows.of(seen.parties).far_note(new.parties)) is not None:
            warnings.warn(far, Caution, stacklevel=3)

    def profile(self, federation: Any = None, client: PartyId | None = None) -> ClusterProfile:
        """What the clusters are: points, and of each feature means, deviations and medians, in data units.

        Computed from the rows that are given, by whoever has them, without a protocol: of all clients, as
        only an experiment has them, or of one client, as it does at home.  Means of all rows are the centers,
        also where no party of the run learned them.

        Parameters
        ----------
        federation
            The data of the fit, as there, with its gaps.  None for those of a simulation: what comes out is
            then the simulation's, which knows more than any party (`means`, `cost`).
        client
            Whose rows, None for all.

        Returns
        -------
        ClusterProfile
            See there; cost, too.

        Raises
        ------
        InputError
            For other data than those of the fit.
        """
        points, labels, names = self._rows_of_the_fit(federation)
        if client is not None and client not in points:
            raise InputError(f"client={format_value(client)} took no part: {names_listed(list(points))} did")
        chosen = list(points) if client is None else [client]
        return profile_clusters(
            np.concatenate([points[name] for name in chosen]),
            np.concatenate([labels[name] for name in chosen]), self.k, names,
        )  # fmt: skip

    def cautions(self, federation: Any = None) -> tuple[Caution, ...]:
        """What whoever has all rows should know of the clusters: cautions that show no value.

        Of clusters without points, a run that stopped before it converged, a cluster of one repeated value,
        and one within one site; of features of a client that lie as if they were in another unit.
        federation: the data of the fit, None for those of a simulation.  Raises InputError.
        """
        points, labels, names = self._rows_of_the_fit(federation)
        doubts = () if self.scaling is None else self.scaling.doubts
        found = cluster_cautions(points, labels, self.k, self.converged, names)
        return (*found, *(Caution(doubt) for doubt in doubts))

    def _rows_of_the_fit(
        self, data: Any
    ) -> tuple[dict[PartyId, Array], dict[PartyId, Array], tuple[str, ...] | None]:
        """Rows as they are, gaps as NaN, and labels, by client; and names of features."""
        if data is None and (data := self.simulated) is None:
            raise InputError(
                "this result was not made here, or was copied, so it has no rows: pass the data of the fit"
            )
        federation = self._of_the_fit(data, union=False, gaps=True)
        rows = dict[PartyId, Array]()
        for j, party in enumerate(federation.parties):  # what a client does not observe is a gap
            own = np.full((party.points.shape[0], federation.d), np.nan)
            own[:, slice(None) if federation.observed is None else federation.observed[j]] = party.points[
                0 : party.points.shape[0]
            ]
            rows[party.name] = own
        if [len(part) for part in rows.values()] != [len(own) for own in self.labels]:
            raise InputError(
                f"these data have {federation.counts} rows, and labels are of "
                f"{tuple(len(own) for own in self.labels)}: give the data of the fit"
            )
        return rows, dict(zip(rows, self.labels, strict=True)), federation.feature_names

    def _of_the_fit(self, data: Any, *, union: bool, gaps: bool = False) -> Federation:
        """New points of the clients of the fit, whose names are taken for a list that has none."""
        listed = isinstance(data, list | tuple) and not any(isinstance(item, Party) for item in data)
        if listed and len(data) == len(self.plan.clients):
            data = dict(zip(self.plan.clients, data, strict=True))
        return as_federation(data, union=union, gaps=gaps)

    def __getattr__(self, name: str) -> Any:
        ours = MEANT.get(name, name.rstrip("_"))  # of names that a result does not have
        meant = f"it is called {ours!r} here" if name in MEANT or ours in vars(self) else "dir() lists others"
        raise AttributeError(f"a Clustering has no attribute {name!r}: {meant}", name=name, obj=self)


# What other libraries call it.
MEANT = {
    "labels_": "flat", "cluster_centers_": "centers", "centres": "centers", "centroids": "centers",
    "inertia_": "cost", "inertia": "cost", "n_iter_": "n_iter", "n_clusters": "k",
}  # fmt: skip


def is_algorithm(value: object) -> bool:
    """Whether this is an algorithm, and not its class."""
    return not isinstance(value, type) and isinstance(getattr(value, "capabilities", None), Capabilities)


def gather_result(algorithm: Algorithm, plan: Any, run: SimulatedRun, counts: tuple[int, ...]) -> Clustering:
    """The result of an experiment, from what the roles of all parties returned."""
    outcomes = {party: algorithm.outcome(plan, party, had) for party, had in run.results.items()}
    return algorithm.collect(outcomes, run, counts)


def join_outcomes(
    outcomes: Mapping[PartyId, PartyOutcome],
    run: SimulatedRun,
    counts: tuple[int, ...],
    *,
    k: int,
    model: Model | None,
) -> Clustering:
    """What all parties have, put together: labels from clients, all else from the server.

    outcomes: of all parties that heard the end.  counts: points of every client.
    """
    server = outcomes[SERVER]
    labels, rows = [], []
    for name, count in zip(server.plan.clients, counts, strict=True):
        nothing = np.full(count, -1, np.int32)
        own = outcomes.get(name, PartyOutcome(name, server.plan))
        labels.append(nothing if own.labels is None else own.labels)
        rows.append(nothing.astype(np.int64) if own.rows is None else own.rows)
    numbered = any(own.rows is not None for own in outcomes.values())
    told = server.released_labels
    return Clustering(
        k=k,
        labels=labels,
        cost=server.cost,
        n_iter=server.n_iter or 0,
        converged=bool(server.converged),
        history=server.history,
        centers=server.centers,
        plan=server.plan,
        learned=server.learned,
        model=model,
        transcript=run.transcript,
        seconds=run.seconds,
        rows=rows if numbered else None,
        excluded=server.excluded,
        ledger=server.ledger,
        deviated=server.deviated,
        disputes=server.disputes,
        details=server.details,
        curve=server.curve,
        dendrogram=server.dendrogram,
        sizes=server.sizes,
        stability=server.stability,
        released_labels=None
        if told is None
        else [
            told.get(name, np.full(count, -1, np.int32))
            for name, count in zip(server.plan.clients, counts, strict=True)
        ],
        released_sizes=server.released_sizes,
    )


def heard_labels(run: SimulatedRun, clients: tuple[PartyId, ...], counts: tuple[int, ...]) -> list[Array]:
    """The labels each client returned, (m_j,); -1 for one that was cut off before it heard the result."""
    nothing = (np.full(count, -1, np.int32) for count in counts)
    return [run.results.get(c, nobody) for c, nobody in zip(clients, nothing, strict=True)]
