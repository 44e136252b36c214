"""FederatedLloyd: k-means over secure sums of integers, also where clients observe different features."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np

from field.arrays import Array
from field.secrets.coins import Coins
from secfc.algorithm import Capabilities, Clustering, PartyOutcome, PublicFacts
from secfc.data.federation import Federation
from secfc.data.inputs import (
    REAL,
    SWITCH,
    WHOLE,
    check_fields,
    names_listed,
    optional_kind,
    refuse_without_method,
)
from secfc.data.parted_rows import PartedRows
from secfc.data.party import Party
from secfc.data.resolution import (
    FEW,
    FINE,
    Coarse,
    check_coarse,
    measure_resolution,
    sample_rows,
    sample_size,
    warn_of_resolution,
)
from secfc.errors import FaultyServer
from secfc.federated.columns import Columns
from secfc.federated.course import CourseEnd, Near, Restarts, Totals
from secfc.federated.model import ClientRows, CrowdRows, ExactLabeler, KnownCenters
from secfc.federated.parts import PartRows
from secfc.federated.plan import FederatedPlan, RunKey, SharedTotals, make_plan
from secfc.federated.starts import GivenRows, parse_centers, parse_start
from secfc.kmeans.elbow import Elbow, largest_k, parse_k
from secfc.kmeans.sampled import Sampled
from secfc.kmeans.splitting import Splitting
from secfc.overlap.matching import match_at_client, match_at_server, uncovered_warnings
from secfc.overlap.plan import complete_clustering, scatter_features
from secfc.overlap.starts import MatchingStart, MatchingWord
from secfc.roles.agreement import agree_with_workers
from secfc.roles.description import LOCAL
from secfc.roles.exchange import (
    AGREE,
    ITERATE,
    SERVER,
    STRIDE,
    Exchange,
    PartyId,
    Role,
    SimulatedRun,
    expect_messages,
    expect_one,
    to_all,
)
from secfc.run_summary import RunSummary
from secfc.secure_sum.plan import count_colluders, seat_members
from secfc.secure_sum.protocol import (
    compare_last,
    contribute_vector,
    digest_of_counted,
    receive_residues,
)
from secfc.secure_sum.seeds import ShareSeeds, deal_seeds

# --------------------------------------------------------------------------------------------------
# A site judges whether rounding leaves its own columns enough steps, before it says anything.


def round_rows(plan: FederatedPlan, party: Party, coarse: Coarse) -> ClientRows:
    """A client's rounded rows (m_j, d_j), its columns in the order of names.

    Warns (`Caution`) below FINE steps within the spread of a feature.  Raises InputError below LEAST, unless
    `coarse` says otherwise, and for other columns than the plan's.
    """
    places, m = plan.columns.places_of(party), party.points.shape[0]
    if coarse != "allow":
        own = plan.columns.observed[plan.columns.number(party.name)]
        seen = [part[:, places] for part in sample_rows(party, sample_size(len(places)))]
        found = measure_resolution(seen, plan.quantizer, [plan.columns.features[f] for f in own])
        if found.coarsest < FINE:
            few = m < FEW
            warn_of_resolution(
                found, found.sentence(f"much of the data of client {party.name!r}"), "warn" if few else coarse
            )
    owner = f"client {party.name!r}"
    if isinstance(party.points, PartedRows) and not plan.matches:
        return PartRows(party.points, plan.quantizer, places, owner)
    blocks = (
        (first, plan.quantizer(block[:, places], owner=owner, first_row=first))
        for first, block in party.blocks()
    )
    return ClientRows(blocks, (m, len(places)), plan.quantizer.max_int)


def round_all(plan: FederatedPlan, parties: tuple[Party, ...], coarse: Coarse) -> ClientRows:
    """The rounded rows of clients that speak together, or of one, see `round_rows`."""
    each = [round_rows(plan, party, coarse) for party in parties]
    return each[0] if len(each) == 1 else CrowdRows(each, plan.quantizer.max_int)


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class FederatedClientResult:
    """What a client has in the end: its labels, those that sums are of before the first step of Lloyd's and
    after every one, and the centers that it knows.

    questions: how many sums were opened.  end: of the run that is kept.
    """

    labels: Array
    history: tuple[Array, ...]
    known: KnownCenters
    end: CourseEnd
    questions: int


@dataclass(frozen=True, eq=False, repr=False)
class FederatedServerResult:
    """What the server has in the end: whose points were in every sum, and words on what it saw for the start.

    end: of the run that is kept, None if it opened totals under pads.
    """

    counted: tuple[tuple[PartyId, ...], ...]
    end: CourseEnd | None
    said: tuple[str, ...]


KINDS = {
    "max_iter": WHOLE,
    "n_init": WHOLE,
    "scale": optional_kind(REAL, "the finest that few lanes hold"),
    "committee": optional_kind(WHOLE, "at most 15"),
    "t": optional_kind(WHOLE, "a third of the committee"),
    "losses": optional_kind(WHOLE, "as many as leave every feature two"),
    "floor": WHOLE,
    "blind": SWITCH,
}
MATCHING = refuse_without_method("local", "a start", "Automatic(), or its word in the shell")


@dataclass(frozen=True)
class FederatedLloyd:
    """k-means over secure sums: all clients see the centers of every step, and traffic grows with no row.

    Parameters
    ----------
    k
        Number of clusters; "auto", "2..12" or `Elbow` chooses it by the costs of merging, where all clients
        observe all features.  "8..8" is 8, and as every choice without a floor tells the mean silhouette of
        the clusters in the end, `curve.silhouette`, for one query more.
    start
        Initialization: a value; its word in the shell, such as "max-min"; or centers (k, d) in data units,
        such as those of an earlier run, which the server then knows too.  None for `Splitting(merge="any")`
        where all clients observe all features (under a floor `steps=0, settle=0`: cuts alone), and otherwise
        for `Automatic()`, which matches local clusters.
    n_init
        Restarts by splitting, in parallel, of which the cheapest is kept.
    max_iter
        Maximum number of steps of Lloyd's heuristic, from 1 on.
    scale
        Fixed-point precision: integers per data unit; None for the finest that few RNS channels hold.
    committee
        Number of clients that hold shares of sums; None for at most 15.
    t
        Colluding clients tolerated among the committee; None for a third.
    losses
        Clients that may vanish; None for as many as leave every shared feature two clients.
    floor
        Minimum number of rows, beside those of any t clients, by which sums of clusters of any two queries
        differ, if they differ; 1 for no such rule.  With a floor, labels depend on who holds which row, and a
        client that is lost between two queries ends the run.
    blind
        Whether the server opens totals under masks of the clients, so that it learns none.
    coarse
        What happens if rounding leaves a feature few steps, as in `Quantization`.

    Warnings
    --------
    Differences of exact sums reveal rows to clients, unless `floor` withholds those that any two queries
    would reveal.  Three queries together are not bounded, and several runs over equal rows reveal single rows
    even with a floor.

    Notes
    -----
    Sums and numbers of points are added securely (`secfc.secure_sum.protocol`), and every next step follows
    from totals alone (`secfc.federated.course`), so who holds which row changes no label.  Labels stay with
    clients. Where clients observe different features, the cost is the sum of squared distances over observed
    coordinates, and what one client alone observes stays with it.

    References
    ----------
    Maritan and Schenato, Distributed clustering in partially overlapping feature spaces, for different
    features; the objective is that of k-POD.
    """

    k: int | Elbow
    start: Splitting | Sampled | MatchingStart | MatchingWord | Literal["splitting"] | GivenRows | None = None
    n_init: int = 1
    max_iter: int = 300
    scale: float | None = None
    committee: int | None = None
    t: int | None = None
    losses: int | None = None
    floor: int = 1
    blind: bool = True
    coarse: Coarse = field(default="refuse", repr=False, metadata=LOCAL)

    def __post_init__(self) -> None:
        check_coarse(self.coarse)
        object.__setattr__(self, "k", parse_k(self.k))
        if isinstance(self.start, str):
            object.__setattr__(self, "start", parse_start(self.start))
        elif isinstance(self.start, np.ndarray | list | tuple):
            object.__setattr__(self, "start", parse_centers(self.start))
        matching = not isinstance(self.start, Splitting | Sampled | tuple | None)
        check_fields(self, {**KINDS, **({"start": MATCHING} if matching else {})})

    @property
    def capabilities(self) -> Capabilities:
        """Clients may observe different features."""
        return Capabilities(
            partial=True,
            level=True,
            coarse=self.coarse,
            max_iter=self.max_iter,
            restarts=self.n_init,
            central=self.central_parties,
            threshold=lambda clients: count_colluders(clients, self.committee, self.t),
            # With a floor no sum may lack rows that one before had.
            losses=lambda plan: int(plan.sums.spared) * (plan.floor == 1),
            least=lambda plan: plan.floor * (plan.sums.code.t + 1) * largest_k(plan.k) * (plan.floor > 1),
            account=self.account,
        )

    def central_parties(self, public: PublicFacts) -> tuple[PartyId, ...]:
        """The committee and the server; all where clients are told different things."""
        partial = not Columns.of(public).mask.all()
        return (*(public.clients if partial else seat_members(public.clients, self.committee)), SERVER)

    def plan(self, public: PublicFacts) -> FederatedPlan:
        """Raises ValueError, InputError for clients that no feature connects."""
        return make_plan(self, public)

    def client(self, plan: FederatedPlan, party: Party, *, coins: Coins) -> Role[FederatedClientResult]:
        """Sum the first labels, hear totals, compute what is next, label, until all runs have ended."""
        return (yield from self.clients(plan, (party,), coins=coins))[party.name]

    def clients(
        self, plan: FederatedPlan, parties: tuple[Party, ...], *, coins: Coins
    ) -> Role[dict[PartyId, FederatedClientResult]]:
        """As `client`, for clients of whom the first speaks for all (`FederatedPlan.join_speakers`)."""
        me = parties[0].name
        yield from agree_with_workers(plan, me, plan.sums.committee, plan.sums.speakers)
        key = yield from share_key(plan, me, coins)
        seeds = (yield from deal_seeds(plan.sums, me, coins, AGREE + 3)) if plan.seeded else None
        rows = round_all(plan, parties, self.coarse)
        samples = plan.draw_samples(rows, parties, key)
        labels = samples[plan.first_sample].first_labels()
        if plan.matches:
            labels = yield from match_at_client(plan, plan.start, me, rows.points, coins)
        sums = ClientSums(plan, me, samples, key, coins, seeds)
        new = {0: np.ones(len(parties) if len(parties) > 1 else (), bool)}
        first = yield from sums.open_totals({0: labels}, {0: plan.first_clusters}, new, plan.priced)
        sums.note_labels(labels, plan.first_clusters)
        runs, current = plan.begin_runs(first[0], key), dict.fromkeys(range(plan.n_init), labels)
        histories: dict[int, list[Array]] = {run: [] for run in current}
        while runs.asked:
            if runs.levels:
                yield from sums.open_silhouettes(runs, current[0])
                continue
            sizes = {run: len(near.centers.counts) for run, near in runs.asked.items()}
            before = {run: rows.number_labels(current[run], near.groups) for run, near in runs.asked.items()}
            after = sums.label_rows(runs.asked, before)
            held: dict[int, int] = {}
            if plan.floor > 1:
                after, held, sizes = yield from sums.hold_moves(before, after, sizes)
            changed = {run: sums.rows[run].find_changed(before[run], after[run]) for run in sizes}
            for run, near in runs.asked.items():
                history = histories[run]
                if near.step:
                    history += map(rows.keep_labels, (before[run], after[run])[bool(history) :])
            current |= after
            told = (yield from sums.open_totals(after, sizes, changed, plan.prices_each)) if sizes else {}
            runs.hear(told, held, sums.others)
        yield from compare_last(plan.sums, me, sums.heard, sums.number + 1, ends=True)
        end, kept = runs.ends[runs.best], tuple(histories[runs.best])
        # Labels stay here, so rows that a floor keeps in another cluster's sums have that of the nearest.
        labels = current[runs.best] if plan.floor == 1 else rows.label_rows(end.centers)
        return divide_result(
            FederatedClientResult(labels, kept, end.centers, end, sums.opened), parties, rows
        )

    def server(
        self, plan: FederatedPlan, *, rng: np.random.Generator, coins: Coins
    ) -> Role[FederatedServerResult]:
        """Match local clusters, if the start does; then tell every client totals until members end it."""
        yield from agree_with_workers(plan, SERVER, plan.sums.committee, plan.sums.speakers)
        said: tuple[str, ...] = ()
        if plan.matches:
            matched = yield from match_at_server(plan, plan.start)
            holders = matched.holders(largest_k(plan.k))
            said = (matched.seen, *matched.groups.said, *uncovered_warnings(plan.columns, holders))
        reading, counted, runs = None if plan.blind else plan.follow_runs(), list[tuple[PartyId, ...]](), None
        if reading is not None:
            next(reading)
        for question in itertools.count(ITERATE, STRIDE):
            due = counted[0] if counted and plan.floor > 1 else None
            got = yield from receive_residues(plan.sums, question + 1, due=due)
            if got is None:
                break
            counted.append(got.clients)
            there = set(got.clients)
            digest = digest_of_counted(np.array([c in there for c in plan.clients]))
            told: dict[PartyId, Any] = to_all(plan.sums.speakers, SharedTotals(got.total, digest))
            if plan.partial:
                parts = {c: np.ascontiguousarray(got.total[:, plan.places(c)]) for c in plan.clients}
                told = {c: SharedTotals(part, digest) for c, part in parts.items()}
            if reading is not None:
                try:
                    reading.send((plan.sums.code.basis.lift_signed(got.total), digest))
                except StopIteration as done:
                    reading, runs = None, done.value
            yield Exchange(told, round=question + STRIDE, phase="tell")
        return FederatedServerResult(tuple(counted), None if runs is None else runs.ends[runs.best], said)

    def outcome(self, plan: FederatedPlan, party: PartyId, returned: Any) -> PartyOutcome:
        """A client's labels, and centers on its features; the server's on shared ones, NaN elsewhere, if it
        may read totals.
        """
        columns, unit = plan.columns, plan.quantizer.scale
        end, found = returned.end, PartyOutcome(party, plan, details=returned)
        if end is not None:
            features = columns.seen_by(party).features
            found = replace(
                found,
                centers=scatter_features(columns, end.centers.means / unit, features),
                cost=None if end.cost is None else float(end.cost / Fraction(unit) ** 2),
                n_iter=end.n_iter,
                converged=end.converged,
                held=end.held if plan.floor > 1 else None,
                curve=None if end.curve is None else end.curve.over(Fraction(unit) ** 2),
                share=end.centers,
            )
        if party == SERVER:
            always = set(plan.clients).intersection(*returned.counted)
            lost = (c for c in plan.clients if c not in always)
            return replace(found, learned=federated_leakage(plan, returned), excluded=tuple(lost))
        return replace(
            found,
            labels=returned.labels,
            history=returned.history,
            learned=(leakage_to_client(plan, party, returned.questions),),
        )

    def account(self, result: Clustering, federation: Federation, *, ids: str | None = None) -> RunSummary:
        """What reports say of a run."""
        plan = result.plan
        start = "given centers" if isinstance(plan.start, tuple) else type(plan.start).__name__
        partial = "where clients observe different features, " * plan.partial
        questions = len(result.details.counted)
        first = "matched local clusters; nothing was compared" if plan.partial else f"the start {start}"
        claim = (
            f"Labels are those of Lloyd's heuristic {'with missing features ' * plan.partial}on the rounded "
            f"points, from {first}{', each step over the rows in its sums' * bool(result.excluded)}."
        )
        if plan.floor > 1:
            claim = (
                f"Labels are of the nearest center. Centers are those of Lloyd's heuristic from {first}, as "
                f"far as floor={plan.floor} lets rows move."
            )
        held: tuple[str, ...] = ()
        if result.held:
            held = (
                f"floor={plan.floor} kept {result.held:,} of {plan.m:,} rows in the sums of another cluster "
                "than that of their nearest center, so centers are off by these, and the cost may be higher "
                "than without a floor: take fewer clusters, or a lower floor",
            )
        return RunSummary(
            "federated-lloyd",
            f"FederatedLloyd: k-means {partial}over secure sums",
            {
                "start": start, "n_init": self.n_init, "max_iter": self.max_iter, "floor": self.floor,
                "blind": self.blind, "t": plan.sums.code.t,
            },
            claim,
            task=(f"start {start}",),
            setup=tuple(("Features", sentence) for sentence in plan.columns.sentences()),
            heard=tuple(dict.fromkeys(leakage_to_client(plan, c, questions) for c in plan.clients)),
            notes=held,
        )  # fmt: skip

    def collect(
        self, outcomes: Mapping[PartyId, PartyOutcome], run: SimulatedRun, counts: tuple[int, ...]
    ) -> Clustering:
        """The clustering.  Its centers are complete, as only an experiment that has all clients' can make
        them; where features differ, its cost is not known to any party, see `metrics.observed_cost`.
        """
        plan = outcomes[SERVER].plan
        own = {name: outcomes[name] for name in plan.clients if name in outcomes}
        one = next(iter(own.values()))
        # What the server knows if it may read totals, all clients know together.
        known = server_view(plan, own) if outcomes[SERVER].share is None else outcomes[SERVER].share
        means = scatter_features(plan.columns, known.means / plan.quantizer.scale, plan.columns.shared)
        outcomes = {**outcomes, SERVER: replace(outcomes[SERVER], centers=means, share=known)}
        labelers = {name: ExactLabeler(plan.quantizer, outcome.share) for name, outcome in outcomes.items()}
        result = complete_clustering(outcomes, run, counts, k=len(known.there), labelers=labelers)
        return replace(
            result, history=join_labels(plan, own, counts), cost=one.cost, n_iter=one.n_iter or 0,
            converged=bool(one.converged), curve=one.curve, held=one.held,
        )  # fmt: skip


def divide_result(
    found: FederatedClientResult, parties: tuple[Party, ...], rows: ClientRows
) -> dict[PartyId, FederatedClientResult]:
    """What each of several clients has, of the labels of all of them, one after another."""
    steps = map(rows.split_rows, (found.labels, *found.history))
    return {
        party.name: replace(found, labels=labels, history=tuple(history))
        for party, (labels, *history) in zip(parties, zip(*steps, strict=True), strict=True)
    }


def share_key(plan: FederatedPlan, me: PartyId, coins: Coins) -> Role[bytes]:
    """The key of a run, which the first member of the committee draws and tells all clients."""
    first, round_ = plan.sums.committee[0], AGREE + 2
    if me == first:
        key = RunKey(coins.bytes(32))
        yield Exchange(to_all((c for c in plan.sums.speakers if c != me), key), round=round_, phase="agree")
        return key.key
    inbox = yield Exchange({}, (first,), round=round_, phase="agree")
    told: RunKey = expect_one(expect_messages(inbox, RunKey), first)
    return told.key


class ClientSums:
    """A client's part in the sums of a run, one after another, and what it hears of them.

    rows: those that are labeled now, by run.  number: the round of the next.  opened: how many there were.
    others: whether the last counted others than the one before.  trails: the clusters (trails, s) of rows of
    mine in all labels opened so far, of which there were `sizes`; trail: that of each row (m_j,).
    """

    def __init__(
        self,
        plan: FederatedPlan,
        me: PartyId,
        samples: Mapping[int | None, ClientRows],
        key: bytes,
        coins: Coins,
        seeds: ShareSeeds | None,
    ) -> None:
        self.plan, self.me, self.whole, self.key = plan, me, samples[None], key
        self.samples, self.rows = samples, {0: samples[plan.first_sample]}
        self.coins, self.seeds = coins, seeds
        self.number, self.opened = ITERATE, 0
        self.heard: Any = None  # `ToldDigests`, once there was a sum
        self.counted, self.others = b"", False
        self.squares = plan.square_digits(self.whole.sum_squares()) if plan.priced else np.zeros(0, np.int64)
        self.sizes, self.trails = list[int](), np.zeros((1, 0), np.int64)
        self.trail = np.zeros(self.whole.shape[0], np.int64)

    def __repr__(self) -> str:
        return f"ClientSums({self.me!r}, opened={self.opened})"

    def label_rows(self, asked: Mapping[int, Near], before: Mapping[int, Array]) -> dict[int, Array]:
        """Labels (m_j,) of what runs ask for next, by run, of those before; and which rows go."""
        self.rows = {run: self.samples[near.sample] for run, near in asked.items()}
        return {run: self.rows[run].label_rows(near.centers, before[run]) for run, near in asked.items()}

    def open_totals(
        self,
        labels: Mapping[int, Array],
        sizes: Mapping[int, int],
        changed: Mapping[int, Array],
        squares: bool,
    ) -> Role[dict[int, Totals]]:
        """Totals of labels (m_j,) of so many clusters each, by the number of their run."""
        plan, me = self.plan, self.me
        own = {run: self.rows[run].sum_rows(labels[run], c) for run, c in sizes.items()}
        blocks = [plan.block(me, *own[run]) for run in sizes]
        ends = [np.stack([changed[run] for run in sizes], axis=-1).astype(np.int64)]
        if squares:
            ends.append(self.squares)
        length = sum(map(plan.block_length, sizes.values())) + sum(end.shape[-1] for end in ends)
        values = yield from self.open_sum(np.concatenate([*blocks, *ends], axis=-1), length)
        found = plan.read_totals(me, values, tuple(sizes.values()), squares=squares)
        return {run: self.add_own(total, *own[run]) for run, total in zip(sizes, found, strict=True)}

    def open_silhouettes(self, runs: Restarts, labels: Array) -> Role[None]:
        """Tell the only run mean silhouettes of all clients' rows, which it asks for, by labels (m_j,)."""
        vector = self.plan.pack_silhouettes(self.whole.sum_silhouettes(labels, runs.levels))
        counted = self.counted
        values = yield from self.open_sum(vector, vector.shape[-1])
        self.counted = counted  # totals are compared with those before, as to whom they count
        runs.hear_silhouettes(self.plan.read_silhouettes(self.me, values, len(runs.levels)))

    def hold_moves(
        self, before: Mapping[int, Array], after: Mapping[int, Array], sizes: Mapping[int, int]
    ) -> Role[tuple[dict[int, Array], dict[int, int], dict[int, int]]]:
        """Labels (m_j,) after those moves that the floor lets through, by run: others keep their labels.

        Rows of a light cell (`find_light`) of new labels with any opened before neither enter nor leave their
        cluster; then the next labels are tried.  Besides, how many rows of all clients were held by each run,
        and the sizes of those runs in which any moves.
        """
        labels, held, moved = dict[int, Array](), dict[int, int](), dict[int, int]()
        for run, c in sizes.items():
            # Rows in no sum are of a cluster c, of which nothing is opened.
            old, new = (np.where(np.equal(x, -1), c, x) for x in (before[run], after[run]))
            stay, wide = np.zeros(self.whole.shape[0], bool), c + self.plan.samples
            judging = self.plan.judge_moves(self.me, self.sizes, wide)
            next(judging)
            while True:
                values = yield from self.count_cells(old, new, wide)
                try:
                    found = judging.send((values, self.counted))
                except StopIteration as done:
                    moving, held[run] = done.value
                    break
                light = np.any([cells[self.trails[:, at]] for at, cells in enumerate(found)], axis=0)
                stay |= light[self.trail, new] | light[self.trail, old]
                new = np.where(stay, old, new)
            kept = (new if moving else old).astype(np.int32)
            labels[run] = np.where(kept == c, np.int32(-1), kept)
            if moving:
                self.note_labels(labels[run], c)
                moved[run] = c
        return labels, held, moved

    def count_cells(self, old: Array, new: Array, c: int) -> Role[Array]:
        """The sum of all clients' rows in cells of new labels (m_j,) with each opened before, as
        `FederatedPlan.find_held` reads it.
        """
        mine = np.bincount(self.trail * c + new, minlength=len(self.trails) * c).reshape(-1, c)
        flows = [np.zeros((b, c), np.int64) for b in self.sizes]
        for at, flow in enumerate(flows):
            np.add.at(flow, self.trails[:, at], mine)
        vector = self.plan.pack_flows(flows, int((old != new).sum()))
        return (yield from self.open_sum(vector, len(vector)))

    def note_labels(self, labels: Array, c: int) -> None:
        """Keep labels (m_j,) of c clusters that are opened, to compare later ones with under a floor."""
        if self.plan.floor == 1:
            return
        wide = c + self.plan.samples
        cells = self.trail * wide + np.where(np.equal(labels, -1), c, labels)
        found = np.bincount(cells, minlength=len(self.trails) * wide) > 0
        kept, self.trail = np.flatnonzero(found), (np.cumsum(found) - 1)[cells]
        self.trails = np.concatenate([self.trails[kept // wide], kept[:, None] % wide], axis=1)
        self.sizes.append(wide)

    def add_own(self, told: Totals, sums: Array, counts: Array) -> Totals:
        """Totals on all my features: what I alone observe, I alone sum."""
        mine = self.plan.columns.mine(self.me)
        if mine.inside.all():
            return told
        wide, many = sums.copy(), np.repeat(counts[:, None], len(mine.features), axis=1)
        wide[:, mine.inside], many[:, mine.inside] = told.sums, told.counts
        return replace(told, sums=wide, counts=many)

    def open_sum(self, vector: Array, length: int) -> Role[Array]:
        """The sum of all clients' vectors, on the places of mine (D_j,) and zeros that fill its last share.

        length: places of all.
        """
        plan, me, number, basis = self.plan, self.me, self.number, self.plan.sums.code.basis
        pad = partial(self.pad_sum, number, plan.pad_length(length)) if plan.blind or plan.floor > 1 else None
        yield from contribute_vector(
            plan.sums,
            me,
            vector,
            number + 1,
            self.coins,
            spread=plan.summand_layout,
            told=self.heard,
            pad=pad,
            seeds=self.seeds,
        )
        inbox = yield Exchange({}, (SERVER,), round=number + STRIDE, phase="listen")
        told: SharedTotals = expect_one(expect_messages(inbox, SharedTotals), SERVER)
        try:
            basis.check(told.values, (plan.pad_length(vector.shape[-1]),))
        except ValueError as error:
            raise FaultyServer(SERVER, f"sent totals that are none ({error})") from error
        self.heard, self.number, self.opened = plan.digests(me, told), number + STRIDE, self.opened + 1
        hidden = None if pad is None else np.ascontiguousarray(pad(told.counted)[:, plan.places(me)])
        self.others, self.counted = self.counted not in (b"", told.counted), told.counted
        if hidden is None:
            return basis.lift_signed(told.values)
        return basis.lift_signed(basis.add(told.values, basis.negate(hidden)))

    def pad_sum(self, number: int, length: int, counted: bytes) -> Array:
        """The pad of a sum of these clients.  Raises FaultyServer for others than before, under a floor."""
        if self.plan.floor > 1 and self.counted not in (b"", counted):
            raise FaultyServer(
                SERVER,
                "wants a sum of other clients than before: the difference would be rows below the floor",
            )
        if self.plan.blind:
            return self.plan.draw_pad(self.key, number, length, counted)
        return np.zeros((self.plan.sums.code.basis.lanes, length), self.plan.sums.code.basis.dtype)


def server_view(plan: FederatedPlan, own: Mapping[PartyId, PartyOutcome]) -> KnownCenters:
    """Centers on shared features, of what clients know of them."""
    columns = plan.columns
    first = next(iter(own.values())).share
    known = KnownCenters.no_centers(len(first.there), len(columns.shared))
    for name, outcome in own.items():
        mine = columns.mine(name)
        known.sums[:, mine.shared] = outcome.share.sums[:, mine.inside]
        known.counts[:, mine.shared] = outcome.share.counts[:, mine.inside]
    return replace(known, there=first.there)


def join_labels(
    plan: FederatedPlan, own: Mapping[PartyId, PartyOutcome], counts: tuple[int, ...]
) -> tuple[Array, ...]:
    """Labels of all points (m,) at the start and after every step; -1 of a client that was cut off.

    None where labels of a step stay with parts of rows.
    """
    if any(not isinstance(labels, np.ndarray) for outcome in own.values() for labels in outcome.history):
        return ()
    steps = max(len(outcome.history) for outcome in own.values())
    nothing = {name: np.full(count, -1, np.int8) for name, count in zip(plan.clients, counts, strict=True)}
    return tuple(
        np.concatenate([own[name].history[step] if name in own else nothing[name] for name in plan.clients])
        for step in range(steps)
    )


def federated_leakage(plan: FederatedPlan, found: FederatedServerResult) -> tuple[str, ...]:
    """What the server learned, in sentences."""
    shared, sums = len(plan.columns.shared), len(found.counted)
    alone = f", and nothing of the {plan.d - shared} features that one client observes alone"
    kept = alone * (shared < plan.d)
    where = f" on the {shared} features that several clients observe" * plan.partial
    said = (
        f"how many numbers each of {sums} questions summed, under pads: no sum, center or label"
        if plan.blind
        else f"sums and numbers of points by cluster{where}, and how many clients' labels changed, in each "
        f"of {sums} questions{plan.said_besides}; no label"
    )
    given = "; the centers that the run starts from, which are in the plan" * isinstance(plan.start, tuple)
    return (*found.said[:1], said + kept + given, *found.said[1:], *say_who_came(plan, found.counted))


def say_who_came(plan: FederatedPlan, counted: Sequence[tuple[PartyId, ...]]) -> tuple[str, ...]:
    """Which questions, from 1 on, counted whose rows, of clients that some did not count, in sentences."""
    asked: dict[tuple[int, ...], list[PartyId]] = {}
    for client in plan.clients:
        asked.setdefault(tuple(q for q, names in enumerate(counted, 1) if client in names), []).append(client)
    found = list[str]()
    for questions, names in asked.items():
        # Questions that follow one another differ from their places by the same.
        places = itertools.groupby(enumerate(questions), lambda pair: pair[1] - pair[0])
        spans = [[q for _, q in span] for _, span in places]
        said = ", ".join(f"{s[0]}-{s[-1]}" if len(s) > 1 else f"{s[0]}" for s in spans)
        where = f"the sums of questions {said} alone" if said else "no sum"
        if len(questions) < len(counted):
            found.append(f"that rows of {names_listed(names)} are in {where}")
    return tuple(found)


def leakage_to_client(plan: FederatedPlan, party: PartyId, questions: int) -> str:
    """What a client learned, in a sentence."""
    said = "sums and numbers of all clients' points by cluster"
    if plan.partial:
        return (
            f"{said}, on its {len(plan.columns.mine(party).shared)} shared features, and how many clients "
            f"have points of each cluster, in each of {questions} questions; of a feature that one other "
            "observes it can subtract its own"
        )
    whose = "its own" if plan.sums.code.t == 1 else f"those of any {plan.sums.code.t} clients"
    rows = (
        f"beside {whose} sums of clusters of any two questions differ by at least {plan.floor} rows, if by "
        "any; three together, and other runs, can tell single rows; how many rows clusters of two questions "
        "share, capped, and how many would move"
        if plan.floor > 1
        else "differences of questions can tell single rows (floor=1), and do tell the sums of a client that "
        "comes late, leaves or is lost"
    )
    return f"{said} in each of {questions} questions{plan.said_besides}; {rows}"
