"""SecFC: exact k-means over Lagrange coded shares (Li, Hou, Buyukates, Avestimehr, Algorithm 1).

Clients share their points with a Lagrange code; in every iteration clients compute coded distances of all
points to all centers on their shares, every point goes to its nearest center, and the server announces the
labels.  In the paper the server decodes the distances and compares them; by default a committee of clients
compares them unseen.  The labels are those of plaintext Lloyd on the quantized points, bit for bit.

Assumes a server that follows the protocol and secure channels between clients; clients follow it as well,
except for the `liars` that a plan allows for: those may compute and deal falsely, together, and no label is
wrong for it; the server finds those whose replies it reads (`secfc.coded.screening` says what is proven).
Nobody is kept from lying about its own points: a client that shares other data than it has, within the bound,
is a client with other data.  What it shares is tested before it is used (`secfc.coded.validity`): rows far
beyond the bound, or off the code, end the run with its name.

Any t clients together learn nothing beyond the labels, if they follow the protocol.  What the server sees is
a policy (`secfc.disclosure`, and its README for the argument).  By default, `AssignmentsOnly()`, the server
deals masks and learns the labels of every iteration, as every client does, and with several starts the cost
of each; only together with a client of the committee does it learn distances.  `Distances()` is the paper's
protocol: the server decodes the exact distances of every iteration, from which it can rebuild much of the
shape of the data, and with a client place it by that one's points.  From t + 1 clients on nothing is
promised: they hold all points if ell = 1, and can read small or categorical values if ell > 1
(`secfc.exact.cautions`).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.code.lagrange_code import LagrangeCode
from field.code.rows import ClusterSums, CodedRows, RunningSums, cluster_sizes
from field.ring.basis import Basis
from field.ring.rounded import FRACTION
from field.secrets.coins import Coins
from secfc.account import Account
from secfc.algorithm import Clustering, Outcome, Public, union
from secfc.coded.layout import Layout
from secfc.coded.membership import Contribution, Membership, Open, UnionDraft
from secfc.coded.messages import Assignment, CodedCenters, Ended, RevealCenters, RevealSums
from secfc.coded.network import Network
from secfc.coded.plan import Plan
from secfc.coded.policy import Kept
from secfc.coded.questions import question
from secfc.coded.ranges import choose_range
from secfc.coded.screening import Standing
from secfc.coded.sharing import reply, settle_contributors, settle_contributors_at_server
from secfc.coded.workers import Workers, check_enough, seated
from secfc.data.arguments import hold
from secfc.data.federation import Federation
from secfc.data.inputs import Caution
from secfc.data.party import Party
from secfc.data.resolution import Coarse, check_word, judge_at_site
from secfc.disclosure import AssignmentsOnly, Disclosure, Measured, NoiseAtServer, NoiseInShares
from secfc.exact import drafts, words
from secfc.exact.account import of_secfc
from secfc.exact.cautions import cautions
from secfc.exact.collusion import tolerated
from secfc.exact.combinations import check_centers, check_liars, check_start, check_workers
from secfc.exact.course import Referee
from secfc.exact.drafts import Draft
from secfc.exact.kinds import OF_SECFC
from secfc.exact.learned import heard_by_all, learned
from secfc.exact.predict import Allowance, CodedModel
from secfc.exact.restarts import Restarts
from secfc.exact.resting import agree_on, check_result, deal_and_hear, own_labels, tell_resting
from secfc.exact.scratch import share
from secfc.exact.spending import Spending
from secfc.exact.tossed import start_seed, start_seed_at_server
from secfc.exact.words import Centers
from secfc.lloyd.elbow import Curve, Elbow, clusters, largest
from secfc.lloyd.loop import Trace, cheaper, restarts
from secfc.lloyd.starts import Drawing, Start, generators
from secfc.roles.description import LOCAL, Terms
from secfc.roles.exchange import ITERATE, SERVER, Exchange, FaultyServer, PartyId, Role
from secfc.roles.messages import Final
from secfc.roles.transcript import Run

Array = NDArray[Any]


# --- client --------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False, eq=False)
class ClientResult:
    """The plan as it was agreed; a client's own labels (m_j,) and their rows; centers, if they were opened.

    sums: its shares of the final centers, for `predict`, None if it did not hear them; secret.
    """

    plan: Plan
    labels: Array
    rows: Array
    centers: Array | None
    sums: ClusterSums | None


def client(way: SecFC, draft: Draft, party: Party, *, coins: Coins) -> Role[ClientResult]:
    """The client of Algorithm 1."""
    plan, mine = yield from drafts.at_client(way, draft, party, coins)
    yield from agree_on(plan, party.name)
    judge_at_site(way, plan.quantizer, party)
    if party.name in plan.resting:
        return (yield from rest(plan, mine, coins))
    received = yield from share(way, plan, mine, coins)
    shared = plan
    kept, rows = yield from settle_contributors(shared, mine, received, coins)
    mine = mine.among(shared, kept)
    plan = kept.at_work
    seed = yield from start_seed(shared.at_work, party.name, coins)
    yield from mine.settle(rows)
    rows.finish()
    answer = yield from way.disclosure.client(plan, party.name, coins=coins)
    courses = Restarts(plan, way.disclosure, np.random.default_rng(seed))
    referee = Referee(plan, courses, opens=answer.opens)
    running = RunningSums(rows)
    consenting = party.name in plan.revealing
    wait = Exchange({}, (SERVER,), round=ITERATE, phase="share")
    while True:
        request, missed = yield from question(plan, plan.k, wait)
        match request:
            case Assignment():
                message, due = None, referee.ask(request, missed)
                labels = request.labels.astype(np.int32)
                sizes = cluster_sizes(labels, request.k)
                if due:
                    sums = partial(running.of, labels, request.k)
                    measured = Measured(rows, sizes, sums, request.halves, mine.rows)
                    message = yield from answer(request, measured)
                else:
                    yield from answer.watch(request, sizes)
                referee.opened = answer.opened
                wait = reply(request.round, message, "distances", request.strides)
            case RevealCenters() if consenting:
                consenting = False  # to one opening, of the final centers
                referee.end(request.labels, missed)
                check_chosen(referee, courses, request.k)
                final = running.of(request.labels.astype(np.int32), request.k)
                shares = partial(large_only, plan, rows, final)
                message = yield from way.disclosure.open_centers(plan, party.name, request, shares, coins)
                wait = reply(request.round, message, "centers")
            case RevealSums() if consenting:
                consenting, message = False, None
                referee.miss(missed)
                if answer.kept is not None and answer.kept.sums is not None:  # else I did not hear the end
                    referee.end(answer.kept.sums.sizes)
                    message = CodedCenters(large_only(plan, rows, answer.kept.sums))
                wait = reply(request.round, message, "centers")
            case Ended():
                referee.end(request.sizes, missed)
                check_chosen(referee, courses, len(request.sizes))
                retained = answer.kept or Kept(np.full(plan.m, -1, np.int32), None)
                own, plan = mine.own(retained.labels), kept.chosen(len(request.sizes))
                return ClientResult(plan, own, mine.rows, request.centers, retained.sums)
            case Final():
                referee.end(request.labels, missed)
                check_chosen(referee, courses, request.k)
                final = running.of(request.labels.astype(np.int32), request.k)
                plan = kept.chosen(request.k)
                return ClientResult(plan, mine.own(request.labels), mine.rows, request.centers, final)
            case _:
                raise FaultyServer(SERVER, f"sent {type(request).__name__}, which it may not")


def rest(plan: Plan, mine: Contribution, coins: Coins) -> Role[ClientResult]:
    """The client that does not work: deal, and hear the result."""
    result = yield from deal_and_hear(plan, mine, coins)
    check_result(plan, result)
    labels, rows = own_labels(mine, result), mine.rows
    if not len(result.labels):
        rows = np.full(len(rows), -1)
    return ClientResult(plan.chosen(len(result.sizes)), labels, rows, result.centers, None)


def large_only(plan: Plan, rows: CodedRows, sums: ClusterSums) -> Array:
    """My shares of the sums of clusters (lanes, k, width), zeros for those too small to be opened."""
    shares = rows.residues(sums)
    shares[:, sums.sizes < plan.smallest_center] = 0
    return shares


def check_chosen(referee: Referee, courses: Restarts, k: int) -> None:
    """Raises FaultyServer for another number of clusters than was chosen, if I heard which that is."""
    chosen = courses.drawing.k
    if isinstance(chosen, int) and chosen != k and not referee.gap:
        raise FaultyServer(SERVER, f"ended with k={k} clusters, where k={chosen} was chosen")


# --- server --------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False, eq=False)
class ServerResult:
    """The plan that was agreed on, whose rows it leaves out, the best run, and revealed centers.

    standing: who was found lying.  curve: what k was chosen by, in integer units, or None.
    """

    plan: Plan
    excluded: tuple[PartyId, ...]
    trace: Trace
    centers: Array | None
    standing: Standing
    curve: Curve | None = None


def server(way: SecFC, draft: Draft, *, coins: Coins) -> Role[ServerResult]:
    """The server of Algorithm 1, with restarts."""
    plan, settle = yield from drafts.at_server(way, draft, coins)
    yield from agree_on(plan, SERVER)
    shared = plan
    kept, screening = yield from settle_contributors_at_server(shared, coins)
    plan = kept.at_work
    seed = yield from start_seed_at_server(shared.at_work, screening)
    yield from settle()
    source = yield from way.disclosure.server(plan, screening, coins=coins, threads=way.threads)
    each = generators(np.random.default_rng(seed), plan.n_init)
    drawing = Drawing(plan.init, plan.m, plan.choice)

    def once() -> Role[Trace]:
        start, k = yield from drawing(next(each), source)
        trace = yield from source.lloyd(start, k, plan.max_iter)
        if plan.n_init == 1 or trace.within is not None:
            return trace
        return replace(trace, within=(yield from source.costs(trace.labels.astype(np.int32), k)))

    trace: Trace = yield from restarts(plan.n_init, once, cheaper)
    centers = yield from source.ending.fit(source, plan.chosen(trace.k), trace)
    kept = kept.chosen(trace.k)
    if kept.resting:
        yield from tell_resting(kept, trace.labels, centers, next(source.rounds))
    return ServerResult(kept, kept.excluded(shared), trace, centers, screening.standing, drawing.curve)


# --- the algorithm -------------------------------------------------------------------------------


@dataclass(frozen=True)
class SecFC:
    """Exact secure k-means.

    k: clusters, or `Elbow(most, least)` to choose k on the way of the first start, which must be
    `Bisecting()` or `Splitting()`; also "auto", "2..12". t: colluding clients tolerated; t + 1 may read all
    that others share; None for the most that the clients allow, up to a third of them
    (`secfc.exact.collusion`). ell: segments of a point; more mean less work and traffic, and no more privacy
    (`secfc.exact.cautions`). n >= 2 (ell + t - 1) + 1 clients are needed. init: a start (`Bisecting()`,
    `RandomLabels()`, `RandomPoints()`, `KMeansPlusPlus()`, `CenterSeparation()`, `GivenLabels(labels)`), or
    its word in the shell, as "k-means++"; None for the best that the policy allows: `Bisecting()`, under
    `OwnLabels()` `Splitting()`, under final labels and noise `RandomLabels()`. n_init: restarts, the cheapest
    is kept. max_iter: steps a restart. scale: integers per data unit, None for the finest that two lanes hold
    (three, if distances are compared). basis: primes, None to choose; `Basis((MERSENNE_61,))` is the paper's
    field, for `Distances()`. rounding: "nearest", or "floor" (eq. (3)). largest: points of the largest
    cluster that distances are exact for, None for all m. A smaller number (if distances are compared unseen,
    below m / 2) buys a finer automatic scale; a run in which a cluster outgrows it ends with RangeExceeded.
    threads: processor threads for distances and decoding; changes no result. liars: how many clients may lie;
    labels are exact all the same. Each needs two more clients, n >= 2 (ell + t - 1) + 1 + 2 liars. Found,
    named and no longer asked are those whose replies are read, or whose dealt shares are checked: the server
    reads as many replies as it needs, so who lies in others, and changes nothing by it, may stay unnamed.
    Needs `Open()` membership and `Distances()`. membership: who contributes which rows, `Open()` or
    `Private()` (hides who owns which); also "open" or "private". disclosure: what the server may see, by
    default the labels, `AssignmentsOnly()`; else `Distances()`, or noisy ones; also "assignments",
    "own-labels", "final-labels" or "distances" (`secfc.exact.words`). smallest_center: points of the smallest
    cluster whose center is opened; smaller ones stay closed, a row of NaN. The center of one point is that
    point, and who owns one of two reads the other. predictions: new points that may be labeled after the run,
    None for ten times as many as it has. Each label of a chosen point tells a side of a hyperplane between
    two hidden centers: enough fix the centers. reveal_centers: True, or the names of at least ell + t clients
    that consent to open the centers. So many are needed to compute them; t + 1 that collude can read small or
    categorical values without asking. coarse: what to do where rounding leaves a feature fewer than 8 steps
    of its spread (`secfc.data.resolution`): "refuse" raises InputError, "warn" warns as it does below 64,
    "allow" does neither. network: what a round and a byte cost between the parties: where clients compare for
    a dealer, centers meet in the shape that costs least, all pairs or groups in levels, at once or against a
    point's own first; labels are the same. workers: who holds shares and computes, names of clients, or a
    number of them, which is spread evenly over the clients; None for all. At least 2 (ell + t - 1) + 1 are
    needed, and one more for each that may be lost. All other clients deal, hear the labels of their own rows
    and the sizes in the end, and may leave in between; t counts colluding workers, and any others may join
    them. centers: "rounded" to measure distances to means on a grid of 1/16 step of the data, ties up, each
    coordinate rounded by the committee that compares: narrower numbers, about half the work and traffic with
    many points. Labels are those of `Lloyd(centers="rounded")`, bit for bit, which is not k-means with exact
    centers; for policies with a dealer that open labels or sizes. Costs that are opened are to rounded
    centers, opened means are exact. scratch: a folder on a fast disc, where a client's shares lie instead of
    in memory (`field.code.storage`).
    """

    k: int | Elbow
    t: int | None = None
    ell: int = 1
    init: Start = None  # type: ignore[assignment]  # resolved below
    n_init: int = 1
    max_iter: int = 300
    scale: float | None = None
    basis: Basis | None = None
    rounding: Any = "nearest"
    reveal_centers: bool | tuple[PartyId, ...] = False
    largest: int | None = None
    # Not what names a run: it may change when that resumes, and from party to party.
    threads: int = field(default=1, repr=False, metadata=LOCAL)
    membership: Membership = Open()
    disclosure: Disclosure = AssignmentsOnly()
    liars: int = 0
    smallest_center: int = 3
    predictions: int | None = None
    network: Network = Network()
    workers: Workers = None
    centers: Centers = "exact"
    coarse: Coarse = field(default="refuse", repr=False, metadata=LOCAL)
    scratch: str | None = field(default=None, repr=False, metadata=LOCAL)

    def __post_init__(self) -> None:
        check_word(self.coarse)
        hold(self, OF_SECFC)
        for name, meant in (("membership", words.membership), ("disclosure", words.disclosure)):
            object.__setattr__(self, name, meant(getattr(self, name)))
        object.__setattr__(self, "k", clusters(self.k))
        words.check_centers(self.centers)
        object.__setattr__(self, "init", words.start_for(self.init, self.disclosure))

    def plan(self, public: Public) -> Draft:
        """What is public before the parties talk: the `Plan`, with open membership, else its draft.

        Warns (`Caution`) where t=0 or ell > 1.  Raises ValueError naming the value, the rule and the remedy.
        """
        if self.t is None:
            return self.among(public.clients).plan(public)
        check_liars(self)
        check_workers(self, public.clients)
        check_centers(self)
        check_start(self)
        terms = Terms(self, public)
        draft = self.membership.draft(public.clients, public.counts, self.t, public.session, terms)
        plan = draft if isinstance(draft, UnionDraft) else self.complete(public, draft)
        if self.t == 0 and len(public.clients) > 1:
            warnings.warn(
                "t=0 protects nobody: shares carry no noise, so clients see each other's points. Raise t to "
                "at least 1, for which n >= 2*ell + 1 clients are needed",
                Caution,
                stacklevel=2,
            )
        for caution in cautions(self.t, self.ell):
            warnings.warn(caution, Caution, stacklevel=2)
        return plan

    def complete(self, public: Public, layout: Layout) -> Plan:
        """The plan for a known layout of rows, whose t is known."""
        t = self.t or 0
        elbow = self.k.among(layout.m) if isinstance(self.k, Elbow) else None
        chosen = choose_range(self, public, layout, self.ell, t)
        workers = seated(self.workers, public.clients)
        code = LagrangeCode(chosen.basis, len(workers), self.ell, t)
        revealing = self.reveal_centers
        if isinstance(revealing, bool):
            revealing = workers if revealing else ()
        plan = Plan(
            code, self.disclosure.clip(chosen.quantizer), public.clients, layout, public.d,
            largest(elbow or self.k), self.max_iter, self.n_init, self.init, tuple(revealing),
            self.largest or layout.m,
            chosen.headroom, self.liars, chosen.block, Terms(self, public), public.seed,
            self.smallest_center, 10 * layout.m if self.predictions is None else self.predictions,
            elbow, self.network, () if self.workers is None else workers,
            FRACTION if self.centers == "rounded" else None,
        )  # fmt: skip
        self.disclosure.check(plan.at_work)
        return plan

    def among(self, clients: tuple[PartyId, ...]) -> SecFC:
        """The same with a t for these clients, if it was left open.  Raises InputError if none fits."""
        if self.t is not None:
            return self
        computing = len(seated(self.workers, clients))
        check_enough(self.workers, computing, self.ell, 1, self.liars)
        return replace(self, t=tolerated(computing, self.ell, self.liars, policy=self.disclosure))

    @property
    def counted(self) -> bool:
        """Whether the plan says how many rows each client has."""
        return isinstance(self.membership, Open) or bool(self.spending and self.spending.by_client)

    @property
    def spending(self) -> Spending | None:
        """The budget of differential privacy that it spends, None without noise."""
        return Spending(self) if isinstance(self.disclosure, NoiseAtServer | NoiseInShares) else None

    def foreseen(self, plan: Draft, federation: Federation) -> Plan:
        """The plan that the points of all will lead to, for a process that sees all data."""
        return drafts.foreseen(self.among(plan.clients), plan, federation)

    def client(self, plan: Draft, party: Party, *, coins: Coins) -> Role[ClientResult]:
        """The role of one client; its coins are secret.  Raises ValueError for a plan on other terms."""
        way = self.among(plan.clients)
        drafts.check_terms(way, plan)
        return client(way, plan, party, coins=coins)

    def server(self, plan: Draft, *, rng: np.random.Generator, coins: Coins) -> Role[ServerResult]:
        """The role of the server; its coins are secret.  It draws no start, so rng is not used.

        Raises ValueError for a plan on other terms.
        """
        way = self.among(plan.clients)
        drafts.check_terms(way, plan)
        return server(way, plan, coins=coins)

    def outcome(self, plan: Draft, party: PartyId, returned: ClientResult | ServerResult) -> Outcome:
        """A client's labels, their rows and its shares of the final centers; what the server learned."""
        if isinstance(returned, ClientResult):
            return Outcome(
                party,
                returned.plan,
                labels=returned.labels,
                rows=returned.rows,
                centers=returned.centers,
                learned=heard_by_all(self, returned.plan),
                share=returned.sums,
            )
        result = returned
        plan, trace = result.plan, result.trace
        return Outcome(
            party,
            plan,
            centers=result.centers,
            cost=trace.cost(plan.scale) if self.disclosure.exact else None,
            n_iter=trace.n_iter,
            converged=trace.converged,
            history=trace.history,
            sizes=trace.sizes,
            learned=learned(self, plan),
            excluded=result.excluded,
            liars=result.standing.liars,
            disputes=result.standing.disputes,
            ledger=self.disclosure.ledger(plan),
            details=result.standing,
            curve=None if result.curve is None else result.curve.over(plan.scale**2),
        )

    def account(self, result: Clustering, federation: Federation, *, ids: str | None = None) -> Account:
        """What reports say of a run.  ids: the column that names points, if one does."""
        return of_secfc(self, result, federation, ids)

    def collect(self, outcomes: Mapping[PartyId, Outcome], run: Run, counts: tuple[int, ...]) -> Clustering:
        """The clustering all parties agree on."""
        plan, standing = outcomes[SERVER].plan, outcomes[SERVER].details
        shares = {name: own.share for name, own in outcomes.items() if name != SERVER}
        allowances = {c: Allowance(plan.predictions) for c in plan.clients}
        model = CodedModel(plan, self.disclosure, shares, standing, allowances)
        result = union(outcomes, run, counts, k=plan.k, model=model if self.disclosure.exact else None)
        return replace(result, details=None)
