"""Fit a federation in this process: where an algorithm and a driver meet, and nowhere else."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from field.secrets.coins import Coins, SystemCoins
from secfc.algorithm import Algorithm, Array, Clustering, Model, PublicFacts, check_columns, gather_result
from secfc.data.federation import as_federation, drop_incomplete_rows, scatter_values
from secfc.data.inputs import (
    SWITCH,
    Caution,
    InputError,
    ValueKind,
    format_value,
    kind_name,
    offering,
    optional_kind,
    refuse_as_input,
    seeded_generator,
)
from secfc.data.resolution import check_resolution
from secfc.logs import log_event
from secfc.privacy.ledger import Promise
from secfc.roles.exchange import SERVER, PartyId, ProtocolError, Role
from secfc.roles.transcript import SimulatedRun
from secfc.scaling.algorithm import Scaled
from secfc.scaling.ways import filling_scaler
from secfc.transport.checkpoint import Checkpoint, parameters_fingerprint
from secfc.transport.simulate import Faults, Watch, deliver_all, simulate


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
    scale_features: Any = None,
    missing: str = "refuse",
) -> Clustering:
    """Run an algorithm on a federation in this process.

    federation: a `Federation`, or a list of arrays (m_j, d) or data frames, one a client, or a mapping of
    clients' names to such.
    seed: reproduces starts, as a part of the public plan; it never makes a share predictable.  None for
    starts from coins that the clients toss.  bound: a public bound on absolute values, in data units; derived
    from the data if None (see `PublicFacts.of`).  coins: secret coins by party,
    the operating system's by default; pass `SeededCoins` only to reproduce a test.  keep_bodies: the
    transcript holds contents too.  faults: what the network does to messages.  watch: called with
    (party, exchange) at every exchange, before it is sealed, for progress.  sealed: what any party says to
    another is encrypted and authenticated between the two, as over a network; not needed inside one process.
    checkpoint: a directory in which every party keeps a journal, so that the same call resumes after a crash
    where it ended (`secfc.transport.checkpoint`).  The files are secret, and stay when the run has finished.
    scale_features: "standard", "range", or a value of `secfc.scaling`: features are brought to a common scale
    first, as by `Scaled(algorithm, scale_features)`; the bound then follows from it, and from no data.
    missing: what becomes of NaN, which points may have that were given with `gaps=True`: "refuse", "drop" the
    rows, whose labels are -1, or "mean" of the feature over all clients, which they learn.

    Warns (`Caution`) of rounding that loses data, see `secfc.data.resolution`.
    Raises InputError or ValueError for parameters that do not fit, ProtocolError for peers' faults; with a
    checkpoint also OSError, and JournalError (an InputError) for files that cannot be resumed.

    >>> import secfc
    >>> sites = {"rome": [[0, 0], [9, 9]], "oslo": [[0, 1]], "bern": [[9, 8], [1, 0]]}
    >>> result = secfc.fit(secfc.SecFC(k=2), sites)
    >>> [labels.tolist() for labels in result.labels]
    [[1, 0], [1], [0, 1]]
    >>> result.flat.tolist() == secfc.fit(secfc.Lloyd(k=2), sites).flat.tolist()
    True
    """
    algorithm = check_algorithm(algorithm)
    federation = as_federation(
        federation, union=bool(getattr(algorithm, "partial", False)), gaps=missing != "refuse"
    )
    check_callbacks(coins=coins, faults=faults, watch=watch)
    SWITCH.of("sealed", sealed), optional_kind(PATH, "no files").of("checkpoint", checkpoint)
    start = None if seed is None else int(seeded_generator(seed).integers(2**63))
    if missing == "drop":
        left, chosen = drop_incomplete_rows(federation)
        result = fit(
            algorithm, left, seed=seed, bound=bound, coins=coins, keep_bodies=keep_bodies, faults=faults,
            watch=watch, sealed=sealed, checkpoint=checkpoint, scale_features=scale_features,
        )  # fmt: skip
        labels = scatter_values(result.labels, left.names, federation, chosen)
        rows = None if result.rows is None else scatter_values(result.rows, left.names, federation, chosen)
        return replace(result, labels=labels, rows=rows)
    if missing != "refuse":
        scale_features, bound = filling_scaler(scale_features, missing, federation, bound), None
    if scale_features is not None:
        algorithm = Scaled(algorithm, scale_features)
    if isinstance(algorithm, Scaled):
        if bound is not None:
            raise InputError(f"bound={bound:g} with scaled features: their limit is the bound. Leave it out")
        bound = algorithm.bound
    with refuse_as_input():
        public = replace(PublicFacts.of(federation, bound), seed=start)
        check_columns(algorithm, public)
    begun = time.monotonic()
    log_event(
        "fitting", "begin", algorithm=type(algorithm).__name__, clients=federation.n, features=federation.d
    )
    # The session is drawn, and differs in a run that resumes until its coins are restored: not a parameter.
    run = parameters_fingerprint(algorithm, public, seed, sealed)
    with Checkpoint.open(checkpoint, (*federation.names, SERVER), run) as kept:
        make = coins or kept.coins
        secrets = {name: COINS.of("coins", make(name)) for name in (*federation.names, SERVER)}
        rng = np.random.default_rng(
            int.from_bytes(secrets[SERVER].bytes(32), "little") if start is None else start
        )
        with refuse_as_input():
            plan = algorithm.plan(replace(public, session=secrets[SERVER].bytes(32)))
            algorithm, _ = check_resolution(algorithm, plan, federation)
        promise = Promise.of(algorithm)
        if promise is not None and (wide := promise.wide(federation.n, federation.m)):
            warnings.warn(wide, Caution, stacklevel=2)
        roles: dict[PartyId, Role[Any]] = {
            party.name: algorithm.client(plan, party, coins=secrets[party.name])
            for party in federation.parties
        }
        roles[SERVER] = algorithm.server(plan, rng=rng, coins=secrets[SERVER])
        if sealed:
            if watch is not None:
                roles, watch = {name: watch_role(name, role, watch) for name, role in roles.items()}, None
            roles = seal_roles(roles, plan.description, secrets)
        roles = {name: kept.role(name, role) for name, role in roles.items()}
        try:
            with refuse_as_input():
                done = simulate(roles, faults=faults, keep_bodies=keep_bodies, watch=watch)
        except ProtocolError as error:
            error.promise = promise
            raise
    result = gather_result(algorithm, plan, done, federation.counts)
    log_event("fitting", "end", steps=result.n_iter, seconds=time.monotonic() - begun)
    return replace(result, features=federation.feature_names, drive=run_roles)


def check_algorithm(algorithm: Any) -> Algorithm:
    """The algorithm, if it is one.  Raises InputError."""
    if isinstance(algorithm, type) or not hasattr(algorithm, "collect"):
        raise InputError(
            f"the algorithm is {kind_name(algorithm)}: the first argument of fit is a value such as "
            f"SecFC(k=4), "
            "Lloyd(k=4) or KFed(k=4, k_local=2), the second its data. "
            + (f"Build it: {algorithm.__name__}(k=4)" if isinstance(algorithm, type) else "Pass one")
        )
    found: Algorithm = algorithm
    return found


COINS = offering("bytes", "a source of secret coins a party", "SystemCoins() for each name, or leave it out")
PATH = ValueKind("a directory", "Pass its path", lambda v: v if isinstance(v, str | Path) else None)


def check_callbacks(**calls: Any) -> None:
    """Check what `fit` calls later.  Raises InputError for what cannot be called."""
    for name, call in calls.items():
        if call is not None and not callable(call):
            raise InputError(
                f"{name}={format_value(call)} is {kind_name(call)}: a function is needed, or nothing. Leave "
                f"it out"
            )


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


def predict_with_model(model: Model, federation: Any) -> list[Array]:
    """Labels of new points by a model that was kept: one (m_j,) int32 array a client, all in this process.

    Raises what `Model.predict` raises.
    """
    return model.predict(federation, coins=lambda party: SystemCoins(), drive=run_roles)


def seal_roles(
    roles: Mapping[PartyId, Role[Any]], description: bytes, secrets: Mapping[PartyId, Coins]
) -> dict[PartyId, Role[Any]]:
    """The roles of all parties of a run, every message between any two of them sealed."""
    from secfc.transport.sealed import sealed

    return {
        name: sealed(role, name, tuple(roles), description, secrets[name]) for name, role in roles.items()
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
