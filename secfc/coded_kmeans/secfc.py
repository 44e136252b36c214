"""SecFC: exact k-means over Lagrange coded shares (Li, Hou, Buyukates, Avestimehr, Algorithm 1).

Clients share their points with a Lagrange code; in every iteration clients compute coded distances of all
points to all centers on their shares, every point goes to its nearest center, and the server announces the
labels.  In the paper the server decodes the distances and compares them; by default a committee of clients
compares them unseen.  The labels are those of plaintext Lloyd on the quantized points, bit for bit.

Assumes a server that follows the protocol and secure channels between clients; clients follow it as well,
except for the `max_cheaters` that a plan allows for: those may compute and deal falsely, together, and no
label is wrong for it; the server finds those whose replies it reads (`secfc.coded.blame` says what is
proven).
Nobody is kept from lying about its own points: a client that shares other data than it has, within the bound,
is a client with other data.  What it shares is tested before it is used (`secfc.coded.input_check`): rows far
beyond the bound, or off the code, end the run with its name.

Any t clients together learn nothing beyond the labels, if they follow the protocol.  What the server sees is
a policy (`secfc.disclosure`, and its README for the argument).  By default, `AssignmentsOnly()`, the server
deals masks and learns the labels of every iteration, as every client does, and with several starts the cost
of each; only together with a client of the committee does it learn distances.  `Distances()` is the paper's
protocol: the server decodes the exact distances of every iteration, from which it can rebuild much of the
shape of the data, and with a client place it by that one's points.  From t + 1 clients on nothing is
promised: they hold all points if ell = 1, and can read small or categorical values if ell > 1
(`secfc.coded_kmeans.parameters`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from field.code.lagrange_code import LagrangeCode
from field.code.rows import (
    MEMORY,
    ClusterSums,
    CodedRows,
    FileStorage,
    NoRoomError,
    RunningSums,
    cluster_sizes,
)
from field.ring.quantize import FRACTION
from field.secrets.coins import Coins
from secfc.algorithm import Capabilities, Clustering, PartyOutcome, PublicFacts, join_outcomes
from secfc.coded.blame import BlameState, CheaterIdentification
from secfc.coded.input_check import ReceivedShares
from secfc.coded.membership import (
    Membership,
    Open,
    PrivateMembershipPlan,
    RowContribution,
    contribute_own_rows,
    settle_single_owner,
)
from secfc.coded.messages import CodedCenters, RevealCenters, RevealSums, RunEnded
from secfc.coded.parameters import (
    Quantization,
    Release,
    Runtime,
    Threshold,
    check_enough_workers,
    parse_threshold,
    select_workers,
)
from secfc.coded.plan import (
    CodedPlan,
    HiddenOwnerLayout,
    RowLayout,
)
from secfc.coded.policy import OwnResult
from secfc.coded.queries import Query
from secfc.coded.questions import receive_query
from secfc.coded.ranges import choose_range
from secfc.coded.sharing import answer_query, settle_contributors, settle_contributors_at_server, share_rows
from secfc.coded_kmeans import parameters
from secfc.coded_kmeans.input_party import (
    agree_on_plan,
    check_result,
    labels_of_own_rows,
    send_results_to_input_parties,
    share_rows_and_await,
)
from secfc.coded_kmeans.parameters import (
    OF_LLOYD,
    OF_SECFC,
    check_max_cheaters,
    check_rounded_centers,
    check_start_for_k,
    check_workers,
    default_threshold,
    segment_cautions,
)
from secfc.coded_kmeans.predict import CodedModel, PredictionAllowance
from secfc.coded_kmeans.query_order import QueryValidator, RestartQueries
from secfc.coded_kmeans.run_summary import (
    PolicyBudget,
    leakage_to_clients,
    leakage_to_server,
    summarize_secfc,
)
from secfc.data.federation import Federation
from secfc.data.inputs import Caution, InputError, check_fields
from secfc.data.party import Party
from secfc.data.resolution import check_resolution_at_site
from secfc.disclosure import AssignmentsOnly, Disclosure, DistanceOracle, NoiseAtServer, NoiseInShares
from secfc.kmeans.elbow import CostCurve, Elbow, largest_k, parse_k
from secfc.kmeans.loop import Trace, best_of_restarts, is_cheaper
from secfc.kmeans.starts import RestartLabels, Start, restart_generators
from secfc.privacy.ledger import Promise
from secfc.roles.coin_toss import CoinToss, derive_seed, toss_coins, toss_coins_at_server
from secfc.roles.description import RunTerms
from secfc.roles.exchange import ITERATE, SERVER, Exchange, FaultyServer, PartyId, Role, TooManyHolders
from secfc.roles.messages import FinalResult
from secfc.roles.transcript import SimulatedRun
from secfc.run_summary import RunSummary

# --------------------------------------------------------------------------------------------------
# From what is public before rows are known to the plan of a run: a draft, which the algorithm completes.
#
# Where rows are public, the plan is complete before the parties talk, and is its own draft.

Array = NDArray[Any]
Draft = CodedPlan | PrivateMembershipPlan


class PlanCompleter(Protocol):
    """An algorithm that can plan a run as soon as the layout of its rows is known."""

    def complete(self, public: PublicFacts, layout: RowLayout) -> CodedPlan:
        """The plan for a known layout of rows."""
        ...


def complete_plan(way: PlanCompleter, draft: PrivateMembershipPlan, held: Array) -> CodedPlan:
    """The plan for rows that so many clients hold, (m,) int64: all ones without merging.

    Raises TooManyHolders, and ValueError for what does not fit in any case.
    """
    public, layout = draft.terms.public, draft.layout(held)
    if layout.multiple == 1:
        return way.complete(public, layout)
    try:
        return way.complete(public, layout)
    except ValueError as error:
        way.complete(
            public, HiddenOwnerLayout(layout.m, layout.n)
        )  # what fails here too is no matter of holders
        counts = np.unique(held).tolist() if draft.counted else range(1, layout.n + 1)
        raise TooManyHolders(counts, layout.multiple, str(error)) from error


def plan_from_all_data(way: PlanCompleter, draft: Draft, federation: Federation) -> CodedPlan:
    """The plan that the points of all will lead to, for a process that sees all data."""
    return draft if isinstance(draft, CodedPlan) else complete_plan(way, draft, draft.foreseen(federation))


def agree_on_rows(
    way: PlanCompleter, draft: Draft, party: Party, coins: Coins
) -> Role[tuple[CodedPlan, RowContribution]]:
    """A client agrees with the others on the rows: the plan, and what it brings."""
    if isinstance(draft, CodedPlan):
        return draft, contribute_own_rows(draft, party)
    union = yield from draft.client(party, coins=coins)
    plan = complete_plan(way, draft, union.held)
    return plan, union.contribution(plan)


def agree_on_rows_at_server(
    way: PlanCompleter, draft: Draft, coins: Coins
) -> Role[tuple[CodedPlan, Callable[[], Role[None]]]]:
    """The server's part of the same, and of settling."""
    if isinstance(draft, CodedPlan):
        return draft, settle_single_owner
    held, settle = yield from draft.server(coins=coins)
    plan = complete_plan(way, draft, held)
    return plan, partial(settle, plan)


def check_terms(way: PlanCompleter, draft: Draft) -> None:
    """Raises ValueError for a draft that was made on other terms than the algorithm's."""
    if draft.terms is not None:
        draft.terms.check(way)


# --------------------------------------------------------------------------------------------------
# Where a client's shares lie while it takes part: in memory, or in files of a folder that it names.


class StorageSettings(Protocol):
    """What of a run's parameters is each client's own business."""

    @property
    def runtime(self) -> Runtime: ...


def share_rows_in_storage(
    way: StorageSettings, plan: CodedPlan, mine: RowContribution, coins: Coins
) -> Role[ReceivedShares]:
    """Phase 1 of Algorithm 1, `share_rows`.  Raises InputError for a folder without room."""
    storage = MEMORY if way.runtime.scratch is None else FileStorage(Path(way.runtime.scratch))
    try:
        return (yield from share_rows(plan, mine, coins, threads=way.runtime.threads, storage=storage))
    except NoRoomError as error:
        raise InputError(f"{error.strerror}. Name another folder (scratch=), or None for memory") from error


# --------------------------------------------------------------------------------------------------
# The seed of random starts: public from the beginning, or tossed by clients once their rows are fixed.


def toss_start_seed(plan: CodedPlan, name: PartyId, coins: Coins) -> Role[int]:
    """The seed of random starts: the plan's, or one that the clients toss now that rows are fixed."""
    if plan.seed is not None:
        return plan.seed
    return _start((yield from toss_coins(start_toss(plan), name, coins)))


def toss_start_seed_at_server(plan: CodedPlan, screening: CheaterIdentification) -> Role[int]:
    """The same at the server; who falls silent is not there any more."""
    if plan.seed is not None:
        return plan.seed
    # Who is in a dispute, or was found lying, hears the result all the same.
    who = plan.clients if plan.liars else screening.present
    seed, who = yield from toss_coins_at_server(start_toss(plan), who, lenient=plan.liars > 0)
    screening.present = tuple(c for c in screening.present if c in who)
    return _start(seed)


def start_toss(plan: CodedPlan) -> CoinToss:
    """Who tosses coins for a run under this plan."""
    return CoinToss(plan.clients, plan.digest(), plan.code.threshold(2))


def _start(seed: bytes) -> int:
    return int.from_bytes(derive_seed(seed, b"secfc start"), "little")


# --------------------------------------------------------------------------------------------------

# --- client --------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False, eq=False)
class SecFCClientResult:
    """The plan as it was agreed; a client's own labels (m_j,) and their rows; centers, if they were opened.

    sums: its shares of the final centers, for `predict`, None if it did not hear them; secret.
    """

    plan: CodedPlan
    labels: Array
    rows: Array
    centers: Array | None
    sums: ClusterSums | None


def run_client(way: SecFC, draft: Draft, party: Party, *, coins: Coins) -> Role[SecFCClientResult]:
    """The client of Algorithm 1."""
    plan, mine = yield from agree_on_rows(way, draft, party, coins)
    yield from agree_on_plan(plan, party.name)
    check_resolution_at_site(way, plan.quantizer, party)
    if party.name in plan.resting:
        return (yield from run_input_party(plan, mine, coins))
    received = yield from share_rows_in_storage(way, plan, mine, coins)
    shared = plan
    kept, rows = yield from settle_contributors(shared, mine, received, coins)
    mine = mine.among(shared, kept)
    plan = kept.at_work
    seed = yield from toss_start_seed(shared.at_work, party.name, coins)
    yield from mine.settle(rows)
    rows.finish()
    answer = yield from way.disclosure.client(plan, party.name, coins=coins)
    courses = RestartQueries(plan, way.disclosure, np.random.default_rng(seed))
    referee = QueryValidator(plan, courses, opens=answer.opens)
    running = RunningSums(rows)
    consenting = party.name in plan.revealing
    wait = Exchange({}, (SERVER,), round=ITERATE, phase="share")
    while True:
        request, missed = yield from receive_query(plan, plan.k, wait)
        match request:
            case Query():
                message, due = None, referee.ask(request, missed)
                labels = request.labels.astype(np.int32)
                sizes = cluster_sizes(labels, request.k)
                if due:
                    sums = partial(running.of, labels, request.k)
                    measured = DistanceOracle(rows, sizes, sums, request.operation.halves, mine.rows)
                    message = yield from answer(request, measured)
                else:
                    yield from answer.watch(request, sizes)
                referee.opened = answer.opened
                strides = request.operation.strides(plan.max_iter)
                wait = answer_query(request.round, message, "distances", strides)
            case RevealCenters() if consenting:
                consenting = False  # to one opening, of the final centers
                referee.end(request.labels, missed)
                check_chosen_k(referee, courses, request.k)
                final = running.of(request.labels.astype(np.int32), request.k)
                shares = partial(zero_small_clusters, plan, rows, final)
                message = yield from way.disclosure.open_centers(plan, party.name, request, shares, coins)
                wait = answer_query(request.round, message, "centers")
            case RevealSums() if consenting:
                consenting, message = False, None
                referee.miss(missed)
                if answer.kept is not None and answer.kept.sums is not None:  # else I did not hear the end
                    referee.end(answer.kept.sums.sizes)
                    message = CodedCenters(zero_small_clusters(plan, rows, answer.kept.sums))
                wait = answer_query(request.round, message, "centers")
            case RunEnded():
                referee.end(request.sizes, missed)
                check_chosen_k(referee, courses, len(request.sizes))
                retained = answer.kept or OwnResult(np.full(plan.m, -1, np.int32), None)
                own, plan = mine.own(retained.labels), kept.chosen(len(request.sizes))
                return SecFCClientResult(plan, own, mine.rows, request.centers, retained.sums)
            case FinalResult():
                referee.end(request.labels, missed)
                check_chosen_k(referee, courses, request.k)
                final = running.of(request.labels.astype(np.int32), request.k)
                plan = kept.chosen(request.k)
                return SecFCClientResult(plan, mine.own(request.labels), mine.rows, request.centers, final)
            case _:
                raise FaultyServer(SERVER, f"sent {type(request).__name__}, which it may not")


def run_input_party(plan: CodedPlan, mine: RowContribution, coins: Coins) -> Role[SecFCClientResult]:
    """The client that does not work: deal, and hear the result."""
    result = yield from share_rows_and_await(plan, mine, coins)
    check_result(plan, result)
    labels, rows = labels_of_own_rows(mine, result), mine.rows
    if not len(result.labels):
        rows = np.full(len(rows), -1)
    return SecFCClientResult(plan.chosen(len(result.sizes)), labels, rows, result.centers, None)


def zero_small_clusters(plan: CodedPlan, rows: CodedRows, sums: ClusterSums) -> Array:
    """My shares of the sums of clusters (lanes, k, width), zeros for those too small to be opened."""
    shares = rows.residues(sums)
    shares[:, sums.sizes < plan.smallest_center] = 0
    return shares


def check_chosen_k(referee: QueryValidator, courses: RestartQueries, k: int) -> None:
    """Raises FaultyServer for another number of clusters than was chosen, if I heard which that is."""
    chosen = courses.drawing.k
    if isinstance(chosen, int) and chosen != k and not referee.gap:
        raise FaultyServer(SERVER, f"ended with k={k} clusters, where k={chosen} was chosen")


# --- server --------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False, eq=False)
class SecFCServerResult:
    """The plan that was agreed on, whose rows it leaves out, the best run, and revealed centers.

    standing: who was found lying.  curve: what k was chosen by, in integer units, or None.
    """

    plan: CodedPlan
    excluded: tuple[PartyId, ...]
    trace: Trace
    centers: Array | None
    standing: BlameState
    curve: CostCurve | None = None


def run_server(way: SecFC, draft: Draft, *, coins: Coins) -> Role[SecFCServerResult]:
    """The server of Algorithm 1, with restarts."""
    plan, settle = yield from agree_on_rows_at_server(way, draft, coins)
    yield from agree_on_plan(plan, SERVER)
    shared = plan
    kept, screening = yield from settle_contributors_at_server(shared, coins)
    plan = kept.at_work
    seed = yield from toss_start_seed_at_server(shared.at_work, screening)
    yield from settle()
    source = yield from way.disclosure.server(plan, screening, coins=coins, threads=way.runtime.threads)
    each = restart_generators(np.random.default_rng(seed), plan.n_init)
    drawing = RestartLabels(plan.init, plan.m, plan.choice)

    def once() -> Role[Trace]:
        start, k = yield from drawing(next(each), source)
        trace = yield from source.lloyd(start, k, plan.max_iter)
        if plan.n_init == 1 or trace.within is not None:
            return trace
        return replace(trace, within=(yield from source.costs(trace.labels.astype(np.int32), k)))

    trace: Trace = yield from best_of_restarts(plan.n_init, once, is_cheaper)
    centers = yield from source.ending.fit(source, plan.chosen(trace.k), trace)
    kept = kept.chosen(trace.k)
    if kept.resting:
        yield from send_results_to_input_parties(kept, trace.labels, centers, next(source.rounds))
    return SecFCServerResult(kept, kept.excluded(shared), trace, centers, screening.standing, drawing.curve)


# --- the algorithm -------------------------------------------------------------------------------


@dataclass(frozen=True)
class SecFC:
    """Exact secure k-means on Lagrange coded shares: the labels are those of plaintext Lloyd, bit for bit.

    Parameters
    ----------
    k
        Clusters, from 1 to m; or `Elbow(most, least)`, "auto" or "2..12" to choose k on the way of the first
        start, which must be `Bisecting()` or `Splitting()`.
    threshold
        Who may collude or cheat, a `Threshold`; a number is short for `Threshold(t=...)`, None for its
        defaults.
    init
        A start, as `KMeansPlusPlus()` or `GivenLabels(labels)`, or its word in the shell, as "k-means++".
        None for the best that the policy allows: `Bisecting()`, under `OwnLabels()` `Splitting()`, under
        final labels and noise `RandomLabels()`.
    n_init
        Restarts, from 1 on, of which the cheapest is kept.
    max_iter
        Steps a restart, from 1 on.
    quantization
        How points become integers, a `Quantization`.
    membership
        Who contributes which rows: `Open()`, or `Private()`, which hides who owns which; also "open" or
        "private".
    disclosure
        What the server may see: by default the labels, `AssignmentsOnly()`; else `OwnLabels()`,
        `FinalLabelsOnly()`, `Distances()`, or noisy ones; also "assignments", "own-labels", "final-labels" or
        "distances".
    runtime
        Who computes, over which network and with what, a `Runtime`; it changes no label.
    release
        What is opened of the centers, a `Release`.

    Raises
    ------
    InputError
        For a value of another kind.  What does not go together is refused by `plan`, before any data moves.

    Notes
    -----
    Any t clients together learn nothing beyond their output, if they follow the protocol.  The server sees
    what the policy says, and `secfc/disclosure/README.md` has the argument.

    References
    ----------
    Li, Hou, Buyukates and Avestimehr, Secure Federated Clustering, Algorithm 1.

    Examples
    --------
    >>> import secfc
    >>> secfc.SecFC(k=4, threshold=2).threshold
    Threshold(t=2, ell=1, max_cheaters=0)
    """

    k: int | Elbow
    threshold: Threshold = Threshold()
    init: Start = None  # type: ignore[assignment]  # resolved below
    n_init: int = 1
    max_iter: int = 300
    quantization: Quantization = Quantization()
    membership: Membership = Open()
    disclosure: Disclosure = AssignmentsOnly()
    runtime: Runtime = Runtime()
    release: Release = Release()

    def __post_init__(self) -> None:
        check_fields(self, OF_LLOYD | OF_SECFC)
        for name, meant in (
            ("threshold", parse_threshold),
            ("membership", parameters.parse_membership),
            ("disclosure", parameters.parse_disclosure),
        ):
            object.__setattr__(self, name, meant(getattr(self, name)))
        object.__setattr__(self, "k", parse_k(self.k))
        object.__setattr__(self, "init", parameters.default_start(self.init, self.disclosure))

    def plan(self, public: PublicFacts) -> Draft:
        """What is public before the parties talk: the `CodedPlan`, with open membership, else its draft.

        Warns (`Caution`) where t=0 or ell > 1.  Raises ValueError naming the value, the rule and the remedy.
        """
        if self.threshold.t is None:
            return self.among(public.clients).plan(public)
        check_max_cheaters(self)
        check_workers(self, public.clients)
        check_rounded_centers(self)
        check_start_for_k(self)
        t, terms = self.threshold.t, RunTerms(self, public)
        draft = self.membership.draft(public.clients, public.counts, t, public.session, terms)
        plan = draft if isinstance(draft, PrivateMembershipPlan) else self.complete(public, draft)
        if t == 0 and len(public.clients) > 1:
            warnings.warn(
                "t=0 protects nobody: shares carry no noise, so clients see each other's points. Raise t to "
                "at least 1, for which n >= 2*ell + 1 clients are needed",
                Caution,
                stacklevel=2,
            )
        for caution in segment_cautions(t, self.threshold.ell):
            warnings.warn(caution, Caution, stacklevel=2)
        return plan

    def complete(self, public: PublicFacts, layout: RowLayout) -> CodedPlan:
        """The plan for a known layout of rows, whose t is known."""
        ell, t = self.threshold.ell, self.threshold.t or 0
        elbow = self.k.among(layout.m) if isinstance(self.k, Elbow) else None
        chosen = choose_range(self, public, layout, ell, t)
        workers = select_workers(self.runtime.workers, public.clients)
        code = LagrangeCode(chosen.basis, len(workers), ell, t)
        revealing = self.release.reveal_centers
        if isinstance(revealing, bool):
            revealing = workers if revealing else ()
        predictions = self.release.predictions
        plan = CodedPlan(
            code, self.disclosure.clip(chosen.quantizer), public.clients, layout, public.d,
            largest_k(elbow or self.k), self.max_iter, self.n_init, self.init, tuple(revealing),
            self.quantization.largest or layout.m,
            chosen.headroom, self.threshold.max_cheaters, chosen.block, RunTerms(self, public), public.seed,
            self.release.smallest_center, 10 * layout.m if predictions is None else predictions,
            elbow, self.runtime.network, () if self.runtime.workers is None else workers,
            FRACTION if self.quantization.centers == "rounded" else None,
        )  # fmt: skip
        self.disclosure.check(plan.at_work)
        return plan

    def among(self, clients: tuple[PartyId, ...]) -> SecFC:
        """The same with a t for these clients, if it was left open.  Raises InputError if none fits."""
        threshold, workers = self.threshold, self.runtime.workers
        if threshold.t is not None:
            return self
        computing, ell, cheaters = (
            len(select_workers(workers, clients)),
            threshold.ell,
            threshold.max_cheaters,
        )
        check_enough_workers(workers, computing, ell, 1, cheaters)
        t = default_threshold(computing, ell, cheaters, policy=self.disclosure)
        return replace(self, threshold=replace(threshold, t=t))

    @property
    def capabilities(self) -> Capabilities:
        """All that an algorithm can have, but for clients with different features."""
        noisy = isinstance(self.disclosure, NoiseAtServer | NoiseInShares)
        budget = PolicyBudget(self) if noisy else None
        return Capabilities(
            counted=isinstance(self.membership, Open) or bool(budget and budget.by_client),
            policy=self.disclosure,
            membership=self.membership,
            coarse=self.quantization.coarse,
            max_iter=self.max_iter,
            restarts=self.n_init,
            budget=budget,
            promise=lambda: None if budget is None else Promise(budget.budget, budget.neighbors),
            threshold=lambda clients: self.among(clients).threshold.t,
            losses=self.losses,
            foresee=self.foreseen,
            account=self.account,
        )

    def losses(self, plan: Draft) -> int:
        """How many clients may fall silent once their rows are shared."""
        need = self.among(plan.clients).threshold  # the union comes first, and the code is known
        n = plan.code.n if isinstance(plan, CodedPlan) else len(plan.clients)
        return n - 2 * (need.ell + (need.t or 0) - 1) - 1 - 2 * need.max_cheaters

    def foreseen(self, plan: Draft, federation: Federation) -> CodedPlan:
        """The plan that the points of all will lead to, for a process that sees all data."""
        return plan_from_all_data(self.among(plan.clients), plan, federation)

    def client(self, plan: Draft, party: Party, *, coins: Coins) -> Role[SecFCClientResult]:
        """The role of one client; its coins are secret.  Raises ValueError for a plan on other terms."""
        way = self.among(plan.clients)
        check_terms(way, plan)
        return run_client(way, plan, party, coins=coins)

    def server(self, plan: Draft, *, rng: np.random.Generator, coins: Coins) -> Role[SecFCServerResult]:
        """The role of the server; its coins are secret.  It draws no start, so rng is not used.

        Raises ValueError for a plan on other terms.
        """
        way = self.among(plan.clients)
        check_terms(way, plan)
        return run_server(way, plan, coins=coins)

    def outcome(
        self, plan: Draft, party: PartyId, returned: SecFCClientResult | SecFCServerResult
    ) -> PartyOutcome:
        """A client's labels, their rows and its shares of the final centers; what the server learned."""
        if isinstance(returned, SecFCClientResult):
            return PartyOutcome(
                party,
                returned.plan,
                labels=returned.labels,
                rows=returned.rows,
                centers=returned.centers,
                learned=leakage_to_clients(self, returned.plan),
                share=returned.sums,
            )
        result = returned
        plan, trace = result.plan, result.trace
        return PartyOutcome(
            party,
            plan,
            centers=result.centers,
            cost=trace.cost(plan.scale) if self.disclosure.capabilities.exact else None,
            n_iter=trace.n_iter,
            converged=trace.converged,
            history=trace.history,
            sizes=trace.sizes,
            learned=leakage_to_server(self, plan),
            excluded=result.excluded,
            liars=result.standing.liars,
            disputes=result.standing.disputes,
            ledger=self.disclosure.ledger(plan),
            details=result.standing,
            curve=None if result.curve is None else result.curve.over(plan.scale**2),
        )

    def account(self, result: Clustering, federation: Federation, *, ids: str | None = None) -> RunSummary:
        """What reports say of a run.  ids: the column that names points, if one does."""
        return summarize_secfc(self, result, federation, ids)

    def collect(
        self, outcomes: Mapping[PartyId, PartyOutcome], run: SimulatedRun, counts: tuple[int, ...]
    ) -> Clustering:
        """The clustering all parties agree on."""
        plan, standing = outcomes[SERVER].plan, outcomes[SERVER].details
        shares = {name: own.share for name, own in outcomes.items() if name != SERVER}
        allowances = {c: PredictionAllowance(plan.predictions) for c in plan.clients}
        model = CodedModel(plan, self.disclosure, shares, standing, allowances)
        result = join_outcomes(
            outcomes, run, counts, k=plan.k, model=model if self.disclosure.capabilities.exact else None
        )
        return replace(result, details=None)
