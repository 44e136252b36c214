"""Fit a federation in this process: prepare, plan, run, result.

Here an algorithm and a driver meet, and nowhere else.  `fit` takes the four steps one after the other;
whoever needs something in between, as `secfc run` does, takes them by itself.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from field.arrays import Array
from field.secrets.coins import Coins, SystemCoins
from secfc.algorithm import (
    Algorithm,
    Clustering,
    Model,
    PublicFacts,
    check_columns,
    gather_result,
    is_algorithm,
)
from secfc.data.federation import Federation, as_federation, drop_incomplete_rows, scatter_values
from secfc.data.inputs import (
    SWITCH,
    ValueKind,
    format_value,
    kind_name,
    optional_kind,
    refuse_as_input,
    refuse_without_method,
    seeded_generator,
)
from secfc.data.party import Party
from secfc.data.resolution import Resolution, check_resolution
from secfc.errors import Caution, InputError, ProtocolError
from secfc.logs import log_event
from secfc.privacy.ledger import Promise
from secfc.roles.description import DescribedPlan
from secfc.roles.exchange import SERVER, PartyId, Role, SimulatedRun
from secfc.scaling.algorithm import Scaled
from secfc.scaling.roles import help_to_scale
from secfc.scaling.scaling import missing_sentence
from secfc.scaling.ways import (
    Missing,
    Range,
    ScaleWord,
    Standardize,
    filling_scaler,
    limits_of_missing,
    scaler_of,
)
from secfc.transport.checkpoint import Checkpoint, parameters_fingerprint
from secfc.transport.simulate import Faults, Watch, deliver_all, simulate

if TYPE_CHECKING:
    from secfc.scaling.noisy import NoisyStandardize


def fit(
    algorithm: Algorithm,
    federation: Any,
    *,
    seed: int | None = 0,
    bound: float | None = None,
    coins: Callable[[PartyId], Coins] | None = None,
    keep_bodies: bool = False,
    faults: Faults = deliver_all,
    watch: Watch | None = None,
    sealed: bool = False,
    checkpoint: Path | str | None = None,
    scale_features: ScaleWord | Standardize | Range | NoisyStandardize | None = None,
    missing: Missing | Literal["drop"] = "refuse",
) -> Clustering:
    """Run an algorithm on a federation in this process.

    Parameters
    ----------
    algorithm
        Algorithm to run, such as `SecFC(k=4)`.
    federation
        A `Federation`; or a list of arrays (m_j, d) or data frames, one per client; or a mapping from
        clients' names to such.
    seed
        Seed of starts, at least 0, a part of the public plan; it never makes a share predictable.  None
        starts from coins that the clients toss.
    bound
        Public bound on absolute values, in data units; None derives it from the data (see `PublicFacts.of`).
    coins
        Source of secret coins by party, by default the operating system's; pass `SeededCoins` only to
        reproduce a test.
    keep_bodies
        Whether the transcript holds contents of messages.  Without it, `faults`, `sealed` and `checkpoint`,
        more than 1,024 clients of `FederatedLloyd` without a floor are simulated in groups of 512.
    faults
        What the network does to messages.
    watch
        Function for progress, called with (party, exchange) at every exchange, before it is sealed.
    sealed
        Whether messages between two parties are encrypted and authenticated, as over a network; not needed
        inside one process.
    checkpoint
        Directory in which every party keeps a journal, so that an equal call resumes after a crash
        (`secfc.transport.checkpoint`).  The files are secret, and stay when the run has finished.
    scale_features
        Feature scaling first, as by `Scaled(algorithm, scale_features)`: "standard", "robust", "range",
        "norm", or a value of `secfc.scaling`.  The bound then follows from it, and from no data.
    missing
        What happens to NaN in the points: "refuse"; "drop" drops the rows, whose labels are -1; "mean"
        imputes the mean of the feature over all clients, which they learn.

    Returns
    -------
    Clustering
        Labels for every client, and all else that is known of the run.

    Raises
    ------
    InputError, ValueError
        For parameters that do not fit; JournalError, an InputError, for files that cannot be resumed.
    ProtocolError
        For faults of peers.
    OSError
        For files of a checkpoint.

    Warns
    -----
    Caution
        If rounding loses data, see `secfc.data.resolution`.

    Examples
    --------
    >>> import secfc
    >>> sites = {"rome": [[0, 0], [9, 9]], "oslo": [[0, 1]], "bern": [[9, 8], [1, 0]]}
    >>> result = secfc.fit(secfc.SecFC(k=2), sites)
    >>> [labels.tolist() for labels in result.labels]
    [[1, 0], [1], [0, 1]]
    >>> result.flat.tolist() == secfc.fit(secfc.Lloyd(k=2), sites).flat.tolist()
    True
    """
    simulation = Simulation(coins, keep_bodies, faults, watch, sealed, checkpoint)
    experiment = prepare(
        algorithm, federation, seed=seed, bound=bound, scale_features=scale_features, missing=missing
    )
    begun, points = time.monotonic(), experiment.federation
    kind = type(experiment.algorithm).__name__
    log_event("fitting", "begin", algorithm=kind, clients=points.n, features=points.d)
    with open_journals(experiment, simulation) as journals:
        secrets = draw_secrets(experiment, simulation, journals)
        planned = make_plan(experiment, secrets.session)
        run = run_parties(planned, secrets, simulation, journals)
    result = make_result(planned, run)
    log_event("fitting", "end", steps=result.n_iter, seconds=time.monotonic() - begun)
    return result


# --------------------------------------------------------------------------------------------------
# Prepare: from what callers have at hand to an algorithm, points and public facts.


@dataclass(frozen=True)
class Experiment:
    """What is run: an algorithm on the points of all clients, and what all of them know of it.

    public: its session is no run's; `make_plan` is given that.  seed: as it was asked for.
    dropped: the federation with the rows that were left out for what they miss, and of each of its clients
    the numbers (r_j,) of those that were kept; None if all were.
    """

    algorithm: Algorithm
    federation: Federation
    public: PublicFacts
    seed: int | None = None
    dropped: tuple[Federation, list[Array]] | None = None

    @property
    def parties(self) -> tuple[PartyId, ...]:
        """Everybody who takes part: the clients, and the server."""
        return (*self.federation.names, SERVER)


def prepare(
    algorithm: Any,
    federation: Any,
    *,
    seed: int | None = 0,
    bound: float | None = None,
    scale_features: Any = None,
    missing: str = "refuse",
) -> Experiment:
    """The experiment that these arguments of `fit` ask for.  Raises InputError for what does not fit."""
    algorithm, dropped = check_algorithm(algorithm), None
    union = algorithm.capabilities.partial
    points = as_federation(federation, union=union, gaps=missing != "refuse")
    start = None if seed is None else int(seeded_generator(seed).integers(2**63))
    limits = scale_features and limits_of_missing(
        scaler_of(scale_features), missing, points.feature_names, points.d
    )
    if limits is not None:
        points, beyond = limits.without_outside(points)
        if beyond:
            warnings.warn(missing_sentence(beyond, limits.limit), Caution, stacklevel=3)
    if missing == "drop":
        whole = points
        points, kept = drop_incomplete_rows(whole)
        dropped = whole, kept
    elif missing != "refuse":
        scale_features, bound = filling_scaler(scale_features, missing, points, bound), None
    algorithm, bound = with_scaling(algorithm, scale_features, bound)
    with refuse_as_input():
        bounded = algorithm.capabilities.bounded
        public = replace(PublicFacts.of(points, bound, bounded=bounded), seed=start)
        check_columns(algorithm, public)
    return Experiment(algorithm, points, public, seed, dropped)


def with_scaling(
    algorithm: Algorithm, scale_features: Any, bound: float | None
) -> tuple[Algorithm, float | None]:
    """The algorithm on features of a common scale, if one is asked for, and the bound of what it clusters."""
    alone = algorithm.capabilities.scale_alone
    if scale_features is not None and alone is not None:
        scale = scaler_of(scale_features)
        return alone(scale), float(scale.limit)
    scaled = algorithm if scale_features is None else Scaled(algorithm, scale_features)
    if not isinstance(scaled, Scaled):
        return scaled, bound
    if bound is not None:
        raise InputError(f"bound={bound:g} with scaled features: their limit is the bound. Leave it out")
    return scaled, scaled.bound


def check_algorithm(algorithm: Any) -> Algorithm:
    """The algorithm, if it is one.  Raises InputError."""
    if not is_algorithm(algorithm):
        raise InputError(
            f"the algorithm is {kind_name(algorithm)}: the first argument of fit is a value such as "
            f"SecFC(k=4), "
            "Lloyd(k=4) or KFed(k=4, k_local=2), the second its data. "
            + (
                f"Build it: {algorithm.__name__}(...), with its parameters"
                if isinstance(algorithm, type)
                else "Pass one"
            )
        )
    found: Algorithm = algorithm
    return found


# --------------------------------------------------------------------------------------------------
# Plan: everything public, with the rounding of the data judged.


@dataclass(frozen=True)
class PlannedExperiment:
    """An experiment with the plan that its parties agree on.

    algorithm: that of the experiment; its data were judged, so that no party judges them again.
    resolution: of the data under its rounding; None where nothing is rounded, or where noise pays for it.
    promise: of differential privacy, None without.
    """

    experiment: Experiment
    algorithm: Algorithm
    plan: Any
    resolution: Resolution | None
    promise: Promise | None


def make_plan(experiment: Experiment, session: bytes) -> PlannedExperiment:
    """Plan an experiment.  session: 32 public bytes that no other run uses.

    Warns (`Caution`) of rounding that loses data, and of a promise too wide for so many clients or points.
    Raises InputError.
    """
    federation = experiment.federation
    with refuse_as_input():
        plan = experiment.algorithm.plan(replace(experiment.public, session=session))
        algorithm, resolution = check_resolution(experiment.algorithm, plan, federation)
    promise = algorithm.capabilities.promise()
    if promise is not None and (wide := promise.wide(federation.n, federation.m)):
        warnings.warn(wide, Caution, stacklevel=3)
    return PlannedExperiment(experiment, algorithm, plan, resolution, promise)


# --------------------------------------------------------------------------------------------------
# Run: the roles of all parties in this process, under secret coins.

# More clients than that speak together, if the algorithm lets them and nobody asks what each says.
MANY = 1024
COINS = refuse_without_method(
    "bytes", "a source of secret coins a party", "SystemCoins() for each name, or leave it out"
)
DIRECTORY = optional_kind(
    ValueKind("a directory", "Pass its path", lambda v: v if isinstance(v, str | Path) else None), "no files"
)


@dataclass(frozen=True)
class Simulation:
    """How the parties of an experiment are run in this process: arguments of `fit`, checked.

    Nothing of it changes what comes out, but for faults.  Raises InputError.
    """

    coins: Callable[[PartyId], Coins] | None = field(default=None, repr=False)
    keep_bodies: bool = False
    faults: Faults = deliver_all
    watch: Watch | None = None
    sealed: bool = False
    checkpoint: Path | str | None = None

    def __post_init__(self) -> None:
        for name, call in (("coins", self.coins), ("faults", self.faults), ("watch", self.watch)):
            if call is not None and not callable(call):
                raise InputError(
                    f"{name}={format_value(call)} is {kind_name(call)}: a function is needed, or nothing. "
                    "Leave it out"
                )
        SWITCH.of("sealed", self.sealed)
        SWITCH.of("keep_bodies", self.keep_bodies)
        DIRECTORY.of("checkpoint", self.checkpoint)

    @property
    def is_plain(self) -> bool:
        """Whether nobody asks for what each party says by itself."""
        asked = self.keep_bodies or self.sealed or self.checkpoint is not None
        return not asked and self.faults is deliver_all


@dataclass(frozen=True, repr=False)
class RunSecrets:
    """What is drawn for one run: secret coins by party, a generator of starts, and the public session."""

    coins: Mapping[PartyId, Coins]
    rng: np.random.Generator
    session: bytes


def open_journals(experiment: Experiment, simulation: Simulation) -> Checkpoint:
    """The journals of all parties, a context; none without a checkpoint.  Raises JournalError, OSError."""
    if simulation.checkpoint is None:
        return Checkpoint({})
    # The session is drawn, and differs in a run that resumes until its coins are restored: not a parameter.
    run = parameters_fingerprint(experiment.algorithm, experiment.public, experiment.seed, simulation.sealed)
    try:
        return Checkpoint.open(simulation.checkpoint, experiment.parties, run)
    except (FileNotFoundError, NotADirectoryError, FileExistsError, PermissionError) as error:
        raise InputError(
            f"{error.strerror}: a directory is needed in which files can be written",
            [("checkpoint", ..., "name another")],
            {"checkpoint": str(simulation.checkpoint)},
        ) from error


def draw_secrets(experiment: Experiment, simulation: Simulation, journals: Checkpoint) -> RunSecrets:
    """What a run draws: again the same where it resumes, or where its coins are seeded."""
    make, start = simulation.coins or journals.coins, experiment.public.seed
    coins = {name: COINS.of("coins", make(name)) for name in experiment.parties}
    if start is None:
        start = int.from_bytes(coins[SERVER].bytes(32), "little")
    return RunSecrets(coins, np.random.default_rng(start), coins[SERVER].bytes(32))


def run_parties(
    planned: PlannedExperiment, secrets: RunSecrets, simulation: Simulation, journals: Checkpoint
) -> SimulatedRun:
    """What all parties return and say.  Raises ProtocolError, with the promise that it may have cost."""
    algorithm, plan, watch = planned.algorithm, planned.plan, simulation.watch
    parties = {party.name: party for party in planned.experiment.federation.parties}
    together = len(parties) > MANY and simulation.is_plain and isinstance(plan, DescribedPlan)
    if together and (many := plan.join_speakers()) is not None:
        return run_together(algorithm, many, parties, secrets, simulation)
    roles: dict[PartyId, Role[Any]] = {
        name: algorithm.client(plan, party, coins=secrets.coins[name]) for name, party in parties.items()
    }
    roles[SERVER] = algorithm.server(plan, rng=secrets.rng, coins=secrets.coins[SERVER])
    if simulation.sealed:
        if watch is not None:
            roles, watch = {name: watch_role(name, role, watch) for name, role in roles.items()}, None
        roles = seal_roles(roles, plan.description, secrets.coins)
    roles = {name: journals.role(name, role) for name, role in roles.items()}
    try:
        with refuse_as_input():
            return simulate(roles, faults=simulation.faults, keep_bodies=simulation.keep_bodies, watch=watch)
    except ProtocolError as error:
        error.promise = planned.promise
        raise


def run_together(
    algorithm: Any,
    plan: Any,
    parties: Mapping[PartyId, Party],
    secrets: RunSecrets,
    simulation: Simulation,
) -> SimulatedRun:
    """As `run_parties`, of clients some of whom speak for others: what each returns, and what was said."""
    roles: dict[PartyId, Role[Any]] = {}
    for name in plan.sums.speakers:
        spoken = tuple(parties[client] for client in plan.sums.speaks_for(name))
        roles[name] = algorithm.clients(plan, spoken, coins=secrets.coins[name])
    roles[SERVER] = algorithm.server(plan, rng=secrets.rng, coins=secrets.coins[SERVER])
    watch = None if simulation.watch is None else plan.watch_each(simulation.watch)
    with refuse_as_input():
        run = simulate(roles, watch=watch)
    results = {SERVER: run.results[SERVER]}
    for name in plan.sums.speakers:
        results |= run.results[name]
    return replace(run, results=results)


# --------------------------------------------------------------------------------------------------
# Result: what all parties have, put together, as only one process can.


def make_result(planned: PlannedExperiment, run: SimulatedRun) -> Clustering:
    """The clustering of an experiment; rows that were left out are labeled -1."""
    federation, dropped = planned.experiment.federation, planned.experiment.dropped
    result = gather_result(planned.algorithm, planned.plan, run, federation.counts)
    whole = federation if dropped is None else dropped[0]
    result = replace(result, features=federation.feature_names, drive=run_roles, simulated=whole)
    if dropped is None:
        return result
    labels = scatter_values(result.labels, federation.names, *dropped)
    rows = None if result.rows is None else scatter_values(result.rows, federation.names, *dropped)
    return replace(result, labels=labels, rows=rows)


# --------------------------------------------------------------------------------------------------
# Roles: what they are wrapped in, and what runs those that come after a fit.


def run_roles(
    roles: Mapping[PartyId, Role[Any]],
    description: bytes,
    secrets: Mapping[PartyId, Coins],
    *,
    sealed: bool = False,
) -> SimulatedRun:
    """Run the roles of all parties in this process, as `fit` does, for what comes after a fit.

    description: of their plan.  secrets: coins of every party, for the keys of sealed messages.
    """
    return simulate(seal_roles(roles, description, secrets) if sealed else roles)


def find_scale(scaled: Scaled, plan: Any, federation: Federation, watch: Watch) -> None:
    """The exchanges in which parties of a plan of `Scaled` find the scale, and nothing after."""
    roles = {c.name: scaled.find_scale(plan, c, coins=SystemCoins()) for c in federation.parties}
    simulate(roles | {SERVER: help_to_scale(plan)}, watch=watch)


def predict_with_model(model: Model, federation: Any) -> list[Array]:
    """Labels of new points by a model that was kept: one (m_j,) int32 array a client, all in this process.

    Raises what `Model.predict` raises.
    """
    return model.predict(federation, coins=lambda party: SystemCoins(), drive=run_roles)


def seal_roles(
    roles: Mapping[PartyId, Role[Any]], description: bytes, secrets: Mapping[PartyId, Coins]
) -> dict[PartyId, Role[Any]]:
    """The roles of all parties of a run, every message between any two of them sealed."""
    from secfc.transport.sealed import seal_role

    return {
        name: seal_role(role, name, tuple(roles), description, secrets[name]) for name, role in roles.items()
    }


def watch_role(name: PartyId, role: Role[Any], watch: Watch) -> Role[Any]:
    """The same role, each exchange of which is shown to `watch` first."""
    inbox: Any = None
    try:
        while True:
            try:
                exchange = role.send(inbox)
            except StopIteration as done:
                return done.value
            watch(name, exchange)
            inbox = yield exchange
    finally:
        role.close()
