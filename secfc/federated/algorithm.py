"""FederatedLloyd: Lloyd's heuristic with missing features, over secure sums of integers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.secrets.coins import Coins
from secfc.algorithm import Capabilities, Clustering, PartyOutcome, PublicFacts
from secfc.attacks.reconstruction import KnownSums
from secfc.attacks.views import View
from secfc.data.federation import Federation
from secfc.data.inputs import REAL, WHOLE, check_fields, optional_kind, refuse_without_method
from secfc.data.party import Party
from secfc.data.resolution import FEW, FINE, Coarse, check_coarse, measure_resolution, warn_of_resolution
from secfc.federated.model import ExactLabeler, KnownCenters, nearest_offered, sums_of
from secfc.federated.plan import FederatedPlan, SharedSums, make_plan
from secfc.overlap.matching import match_at_client, match_at_server, uncovered_warnings
from secfc.overlap.plan import complete_clustering, scatter_features
from secfc.overlap.starts import Automatic, MatchingStart, parse_matching_start
from secfc.roles.agreement import agree
from secfc.roles.description import LOCAL
from secfc.roles.exchange import (
    ITERATE,
    SERVER,
    STRIDE,
    Exchange,
    PartyId,
    Role,
    SimulatedRun,
    expect_messages,
    expect_one,
)
from secfc.roles.messages import compact_labels
from secfc.run_summary import RunSummary
from secfc.secure_sum.protocol import SumShares, ToldDigests, contribute_vector, decode_sum, receive_sum

# --------------------------------------------------------------------------------------------------
# A site judges whether rounding leaves its own columns enough steps, before it says anything.

Array = NDArray[Any]


def judge_rounding(plan: FederatedPlan, party: Party, coarse: Coarse) -> Array:
    """A client's points (m_j, d_j), its columns in the order of names.

    Warns (`Caution`) below FINE steps within the spread of a feature.  Raises InputError below LEAST, unless
    `coarse` says otherwise, and for other columns than the plan's.
    """
    points = plan.columns.rows(party)
    if coarse != "allow":
        own = plan.columns.observed[plan.columns.number(party.name)]
        found = measure_resolution([points], plan.quantizer, [plan.columns.features[f] for f in own])
        if found.coarsest < FINE:
            few = points.shape[0] < FEW
            warn_of_resolution(
                found, found.sentence(f"much of the data of client {party.name!r}"), "warn" if few else coarse
            )
    return points


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class FederatedClientResult:
    """What a client has in the end: its labels at the start and after every step, and the centers that it
    knows.
    """

    history: tuple[Array, ...]
    known: KnownCenters
    converged: bool


@dataclass(frozen=True, eq=False, repr=False)
class FederatedServerResult:
    """What the server has in the end: centers on shared features, and whose points were in every sum.

    changed: of each step the number of clients any of whose labels changed.  said: what it saw for the start,
    then other words.
    """

    known: KnownCenters
    n_iter: int
    converged: bool
    counted: tuple[tuple[PartyId, ...], ...]
    changed: tuple[int, ...]
    said: tuple[str, ...]


KINDS = {
    "start": refuse_without_method("local", "a start", "Automatic(), or its word in the shell"),
    "max_iter": WHOLE,
    "scale": optional_kind(REAL, "the finest that few lanes hold"),
    "committee": optional_kind(WHOLE, "at most 15"),
    "t": optional_kind(WHOLE, "a third of the committee"),
    "losses": optional_kind(WHOLE, "as many as leave every feature two"),
}


@dataclass(frozen=True)
class FederatedLloyd:
    """k-means of points that are observed on different, partly shared features.

    Parameters
    ----------
    k
        Clusters.
    start
        How local clusters are matched, or its word in the shell, as "max-min"; it decides the result (random
        starts fail).
    max_iter
        Steps of Lloyd's heuristic, from 1 on.
    scale
        Integer steps a data unit, by default the finest that few lanes hold.
    committee
        Clients that hold shares of sums, by default 15.
    t
        How many of these may collude, by default a third.
    losses
        Clients that may vanish, by default as many as leave every shared feature two.
    coarse
        What to do where rounding leaves a feature few steps, as in `Quantization`.

    Warnings
    --------
    Not private where sums are not: exact sums of successive steps tell rows.

    Notes
    -----
    The cost is the sum of squared distances to centers over observed coordinates.  Sums and numbers of points
    are summed securely (`secfc.secure_sum.protocol`), numbers by the pattern of clients that observe a
    feature; labels stay with clients, and so does every coordinate that one client alone observes.

    References
    ----------
    Maritan and Schenato, Distributed clustering in partially overlapping feature spaces; the objective is
    that of k-POD.
    """

    k: int
    start: MatchingStart = Automatic()
    max_iter: int = 300
    scale: float | None = None
    committee: int | None = None
    t: int | None = None
    losses: int | None = None
    coarse: Coarse = field(default="refuse", repr=False, metadata=LOCAL)

    def __post_init__(self) -> None:
        check_coarse(self.coarse)
        if isinstance(self.start, str):
            object.__setattr__(self, "start", parse_matching_start(self.start))
        check_fields(self, KINDS)

    @property
    def capabilities(self) -> Capabilities:
        """Clients may observe different features."""
        return Capabilities(
            partial=True,
            coarse=self.coarse,
            max_iter=self.max_iter,
            threshold=lambda clients: self.t,
            losses=lambda plan: int(plan.sums.losses),
            account=self.account,
        )

    def plan(self, public: PublicFacts) -> FederatedPlan:
        """Raises ValueError, InputError for clients that no feature connects."""
        return make_plan(
            self,
            public,
            k=self.k,
            max_iter=self.max_iter,
            scale=self.scale,
            committee=self.committee,
            t=self.t,
            losses=self.losses,
        )

    def client(self, plan: FederatedPlan, party: Party, *, coins: Coins) -> Role[FederatedClientResult]:
        """Find local clusters, have them matched; then sum, hear the centers, label, until nothing
        changes.
        """
        me = party.name
        yield from agree(plan, me, (SERVER, *plan.sums.peers(me)))
        points = plan.quantizer(judge_rounding(plan, party, self.coarse), owner=f"client {me!r}")
        labels = yield from match_at_client(plan, self.start, me, points, coins)
        mine, k = plan.columns.mine(me), plan.k
        history, changed = [compact_labels(labels)], True
        known = KnownCenters.no_centers(k, len(mine.features))
        heard: ToldDigests | None = None
        for question in range(ITERATE, ITERATE + (plan.max_iter + 1) * STRIDE, STRIDE):
            sums, counts = sums_of(points, labels, k)
            vector = plan.contribution(me, sums, counts, changed)
            yield from contribute_vector(
                plan.sums, me, vector, question + 1, coins, spread=plan.summand_layout, told=heard
            )
            inbox = yield Exchange({}, (SERVER,), round=question + STRIDE, phase="listen")
            told = expect_one(expect_messages(inbox, SharedSums), SERVER)
            plan.check(me, told.sums, told.counts)
            heard = plan.digests(me, told)
            # What I alone observe, I alone sum; of the rest everybody's sums.
            wide, many = sums.copy(), np.repeat(counts[:, None], len(mine.features), axis=1)
            wide[:, mine.inside] = told.sums
            many[:, mine.inside] = told.counts[:, np.searchsorted(mine.patterns, mine.of)]
            known = known.update_centers(wide, many, told.there)
            if told.last:
                break
            new = nearest_offered(points, known)
            changed, labels = not np.array_equal(new, labels), new
            history.append(compact_labels(labels))
        return FederatedClientResult(tuple(history), known, not changed)

    def server(
        self, plan: FederatedPlan, *, rng: np.random.Generator, coins: Coins
    ) -> Role[FederatedServerResult]:
        """Match local clusters; then add, tell every client the sums on its features, until nothing
        changes.
        """
        yield from agree(plan, SERVER)
        matched = yield from match_at_server(plan, self.start)
        columns, known = plan.columns, KnownCenters.no_centers(plan.k, len(plan.columns.shared))
        counted, moved = [], []
        for step in range(plan.max_iter + 1):
            question = ITERATE + step * STRIDE
            got = yield from receive_sum(plan.sums, plan.length, question + 1)
            counted.append(got.clients)
            sums, counts, changed = plan.split(got.total)
            moved.append(changed)
            there, last = np.asarray(counts.any(axis=1)), changed == 0 or step == plan.max_iter
            known = known.update_centers(sums, counts[:, columns.pattern], there)
            answers = {}
            for client in plan.clients:
                mine = columns.mine(client)
                answers[client] = SharedSums(sums[:, mine.shared], counts[:, mine.patterns], there, last)
            yield Exchange(answers, round=question + STRIDE, phase="tell")
            if last:
                break
        said = (matched.seen, *matched.groups.said, *uncovered_warnings(columns, matched.holders(plan.k)))
        return FederatedServerResult(known, step, moved[-1] == 0, tuple(counted), tuple(moved), said)

    def outcome(self, plan: FederatedPlan, party: PartyId, returned: Any) -> PartyOutcome:
        """A client's labels, and centers on its features; the server's centers on shared ones, NaN
        elsewhere.
        """
        columns, scale = plan.columns, plan.quantizer.scale
        if party != SERVER:
            mine = columns.mine(party)
            steps, shared = len(returned.history) - 1, len(mine.shared)
            return PartyOutcome(
                party,
                plan,
                labels=returned.history[-1].astype(np.int32),
                centers=scatter_features(columns, returned.known.means / scale, mine.features),
                n_iter=steps,
                converged=returned.converged,
                history=returned.history,
                learned=(
                    f"sums and numbers of all clients' points by cluster, on its {shared} shared features, "
                    f"in each of {steps + 1} steps; of a feature that one other observes it can subtract "
                    f"its own",
                ),
                share=returned.known,
                details=returned,
            )
        return PartyOutcome(
            SERVER,
            plan,
            centers=scatter_features(columns, returned.known.means / scale, columns.shared),
            n_iter=returned.n_iter,
            converged=returned.converged,
            learned=federated_leakage(plan, returned),
            excluded=tuple(c for c in plan.clients if any(c not in there for there in returned.counted)),
            share=returned.known,
            details=returned,
        )

    def account(self, result: Clustering, federation: Federation, *, ids: str | None = None) -> RunSummary:
        """What reports say of a run."""
        plan = result.plan
        return RunSummary(
            "federated-lloyd",
            "FederatedLloyd: k-means where clients observe different features, over secure sums",
            {"start": type(self.start).__name__, "max_iter": self.max_iter, "t": plan.sums.code.t},
            "Labels are those of Lloyd's heuristic with missing features on the rounded points, from "
            "matched local clusters; nothing was compared.",
            task=(f"start {type(self.start).__name__}",),
            setup=tuple(("Features", sentence) for sentence in plan.columns.sentences()),
        )

    def collect(
        self, outcomes: Mapping[PartyId, PartyOutcome], run: SimulatedRun, counts: tuple[int, ...]
    ) -> Clustering:
        """The clustering.  Its centers are complete, as only an experiment that has all clients' can make
        them; its cost is not known to any party, see `metrics.observed_cost`.
        """
        plan = outcomes[SERVER].plan
        own = {name: outcomes[name] for name in plan.clients if name in outcomes}
        labelers = {name: ExactLabeler(plan.quantizer, outcome.share) for name, outcome in outcomes.items()}
        result = complete_clustering(outcomes, run, counts, k=self.k, labelers=labelers)
        return replace(result, history=join_labels(plan, own, counts))


def join_labels(
    plan: FederatedPlan, own: Mapping[PartyId, PartyOutcome], counts: tuple[int, ...]
) -> tuple[Array, ...]:
    """Labels of all points (m,) at the start and after every step; -1 of a client that was cut off."""
    steps = max(len(outcome.history) for outcome in own.values())
    nothing = {name: np.full(count, -1, np.int8) for name, count in zip(plan.clients, counts, strict=True)}
    return tuple(
        np.concatenate([own[name].history[step] if name in own else nothing[name] for name in plan.clients])
        for step in range(steps)
    )


def federated_leakage(plan: FederatedPlan, found: FederatedServerResult) -> tuple[str, ...]:
    """What the server learned, in sentences."""
    columns, (start, *more) = plan.columns, found.said
    return (
        start,
        f"sums and numbers of points by cluster on the {len(columns.shared)} features that several clients "
        f"observe, and how many clients' labels changed, in "
        f"each of {found.n_iter + 1} steps; no label, and nothing of the {plan.d - len(columns.shared)} "
        "features that one client observes alone",
        *more,
    )


# --------------------------------------------------------------------------------------------------
# What messages of FederatedLloyd mean to whoever saw them: sums of the others' points, step by step.


def others_sums(view: View) -> KnownSums:
    """The sums that a coalition knows of all others' points: the server of all, clients on their features.

    Clients of the coalition subtract what they added, which follows from the shares that they dealt.
    """
    plan: FederatedPlan = view.plan
    columns, k = plan.columns, plan.k
    told = [e for e in view.messages if isinstance(e.body, SharedSums)]
    rounds = sorted({e.round for e in told})
    step = {number: t for t, number in enumerate(rounds)}
    sums = np.zeros((len(rounds), k, len(columns.shared)), np.int64)
    counts = np.zeros((len(rounds), k, len(columns.patterns)), np.int64)
    known = np.zeros(len(columns.shared), bool)
    for e in told:
        mine = columns.mine(e.recipient)
        known[mine.shared] = True
        sums[step[e.round]][:, mine.shared] = e.body.sums
        counts[step[e.round]][:, mine.patterns] = e.body.counts
    many = counts[:, :, columns.pattern]
    centers = np.divide(sums, many, out=np.full(sums.shape, np.nan), where=many > 0)
    for client in view.parties:
        if client == SERVER:
            continue
        mine = columns.mine(client)
        for number, vector in _added(view, client).items():
            if (t := step.get(number)) is None:
                continue
            own = vector[:-1].reshape(-1)
            cut = k * len(mine.shared)
            sums[t][:, mine.shared] -= own[:cut].reshape(k, -1)
            counts[t][:, mine.patterns] -= own[cut:].reshape(k, -1)
    return KnownSums(sums, counts, np.where(known, columns.pattern, -1), centers)


def _added(view: View, client: PartyId) -> dict[int, np.ndarray]:
    """What a client of the coalition added, by the round in which it was told the sums."""
    plan: FederatedPlan = view.plan
    dealt: dict[int, dict[PartyId, np.ndarray]] = {}
    for e in view.messages:
        if isinstance(e.body, SumShares) and e.sender == client:
            # Shares go in the first round of a sum, and its sums are told one stride after the question.
            dealt.setdefault(e.round - 1 + STRIDE, {})[e.recipient] = e.body.values
    length = len(plan.summand_layout.places[client])
    return {number: decode_sum(plan.sums, shares, length) for number, shares in dealt.items()}
