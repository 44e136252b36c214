"""SecFC: exact k-means over Lagrange coded shares (Li, Hou, Buyukates, Avestimehr, Algorithm 1).

Clients share their points with a Lagrange code; in every iteration clients compute coded distances of all
points to all centers on their shares, every point goes to its nearest center, and the server announces the
labels.  In the paper the server decodes the distances and compares them; by default a committee of clients
compares them unseen.  The labels are those of plaintext Lloyd on the quantized points, bit for bit.

Assumes a server that follows the protocol and secure channels between clients; clients follow it as well,
except for the `corrected` that a plan allows for: those may compute and deal falsely, together, and no
label is wrong for it; the server finds those whose replies it reads (`secfc.coded.quorum` says what is
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

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from field.arrays import Array
from field.code.rows import ClusterSums, CodedRows, NoRoomError, RunningSums, Storage, cluster_sizes
from field.ring.errors import InvalidValue
from field.secrets.coins import Coins
from secfc.coded.duplicates import FIRST
from secfc.coded.input_check import ReceivedShares
from secfc.coded.joined import Joined, JoinedPlan, contribute_columns
from secfc.coded.membership import (
    PrivateMembershipPlan,
    RowContribution,
    contribute_own_rows,
    settle_single_owner,
)
from secfc.coded.messages import CodedCenters, RevealCenters, RevealSums, RunEnded
from secfc.coded.plan import CodedPlan, HiddenOwnerLayout, PublicOwnerLayout
from secfc.coded.policy import ClientPolicy, OwnResult
from secfc.coded.queries import Query, check_centers, receive_query
from secfc.coded.quorum import BlameState, Screening
from secfc.coded.sharing import (
    answer_query,
    deal_rows,
    settle_contributors,
    settle_contributors_at_server,
    share_rows,
)
from secfc.coded_kmeans.parameters import SecFCSettings
from secfc.coded_kmeans.query_order import QueryValidator, RestartQueries
from secfc.data.federation import Federation
from secfc.data.party import Party
from secfc.data.resolution import check_resolution_at_site
from secfc.disclosure import DistanceOracle
from secfc.disclosure.checked.messages import ResharedPart
from secfc.disclosure.checked.products import SharedSquares, count_holders
from secfc.errors import FaultyServer, InputError, JournalError, ProtocolError, TooManyHolders
from secfc.kmeans.bisecting import Dendrogram
from secfc.kmeans.centers import nearest_center
from secfc.kmeans.elbow import CostCurve
from secfc.kmeans.loop import Trace, best_of_restarts, is_cheaper
from secfc.kmeans.starts import RestartLabels, restart_generators
from secfc.roles.agreement import (
    CoinToss,
    agree,
    agree_by_digest,
    derive_seed,
    toss_coins,
    toss_coins_at_server,
)
from secfc.roles.exchange import (
    ITERATE,
    SERVER,
    STRIDE,
    Exchange,
    PartyId,
    Role,
    Settled,
    expect_all,
    expect_messages,
    expect_one,
)
from secfc.roles.messages import FinalResult, InputPartyResult, Message, check_residues, compact_labels

# --- client --------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False, eq=False)
class SecFCClientResult:
    """The plan as it was agreed; a client's own labels (m_j,) and their rows; centers, if they were opened.

    sums: its shares of the final centers, for `predict`, None if it did not hear them; secret.
    trace: of the run that the result is of, None where it missed something.
    scale: see `RowContribution`.
    """

    plan: CodedPlan
    labels: Array
    rows: Array
    centers: Array | None
    sums: ClusterSums | None
    trace: Trace | None = None
    scale: Any = None


def run_client(way: SecFCSettings, draft: Draft, party: Party, *, coins: Coins) -> Role[SecFCClientResult]:
    """The client of Algorithm 1."""
    shared, mine = yield from agree_on_rows(way, draft, party, coins)
    yield from agree_on_plan(shared, party.name)
    if not isinstance(way.membership, Joined) or way.membership.scale is None:
        check_resolution_at_site(way, shared.quantizer, party)
    if party.name in shared.resting:
        return (yield from run_input_party(shared, mine, coins))
    received = yield from share_rows_in_storage(way, shared, mine, coins)
    kept, rows = yield from settle_contributors(shared, mine, received, coins)
    mine = mine.restrict_clients(shared, kept)
    seed = yield from toss_start_seed(shared.at_work, party.name, coins)
    squared = way.disclosure.squares(kept)
    yield from mine.settle(rows, partial(count_holders, kept, party.name, coins, squared))
    if squared and rows.squares is None:
        rows.squares = yield from share_squares(kept, party.name, coins, rows, mine.read)
    rows.finish_rows()
    answer = yield from way.disclosure.client(kept.at_work, party.name, coins=coins)
    courses = RestartQueries(kept.at_work, way.disclosure, np.random.default_rng(seed))
    return (
        yield from ClientSteps(way, kept, party.name, mine, rows, answer, courses, coins).run(
            kept.excluded(shared)
        )
    )


class ClientSteps:
    """The steps of a client whose rows are shared: a reply to each query that is due, until the run ends.

    kept: the plan for the rows that count, of all clients.  rows: its shares; secret, as mine and coins are.
    """

    def __init__(
        self,
        way: SecFCSettings,
        kept: CodedPlan,
        name: PartyId,
        mine: RowContribution,
        rows: CodedRows,
        answer: ClientPolicy,
        courses: RestartQueries,
        coins: Coins,
    ) -> None:
        self.way, self.kept, self.plan, self.name = way, kept, kept.at_work, name
        self.mine, self.rows, self.answer, self.courses, self.coins = mine, rows, answer, courses, coins
        self.validator = QueryValidator(self.plan, courses, opens=answer.opens)
        self.running = RunningSums(rows)
        self.consenting = name in self.plan.revealing  # to one opening, of the final centers

    def run(self, excluded: tuple[PartyId, ...]) -> Role[SecFCClientResult]:
        """The loop of Algorithm 1; errors of the protocol say who is excluded.

        Raises FaultyServer for what the plan does not expect.
        """
        try:
            return (yield from self.answer_queries())
        except ProtocolError as error:
            error.excluded = excluded
            raise

    def answer_queries(self) -> Role[SecFCClientResult]:
        """A reply to each query, until the run ends."""
        wait = Exchange({}, (SERVER,), round=ITERATE, phase="share")
        while True:
            wait = replace(wait, settles=self.answer.settled is not None)
            request, missed = yield from receive_query(self.plan, self.plan.k, wait)
            match request:
                case Query():
                    wait = yield from self.answer_query(request, missed)
                case Settled():
                    wait = self.go_over(request, missed)
                case RevealCenters() if self.consenting:
                    wait = yield from self.open_final_centers(request, missed)
                case RevealSums() if self.consenting:
                    wait = self.open_retained_sums(request, missed)
                case RunEnded():
                    return self.end_with_retained(request, missed)
                case FinalResult():
                    return self.end_with_labels(request, missed)
                case _:
                    raise FaultyServer(SERVER, f"sent {type(request).__name__}, which it may not")

    def answer_query(self, query: Query, missed: int) -> Role[Exchange]:
        """Compute on shares what is asked, if it is due; else hear what others open of it."""
        message, due = None, self.validator.ask(query, missed)
        settled = self.answer.settled if query.operation.opens == "labels" else None
        before = () if settled is None else settled.spent()
        labels = query.labels.astype(np.int32)
        sizes = cluster_sizes(labels, query.k)
        if due:
            sums = partial(self.running.of, labels, query.k)
            halves, mine = query.operation.halves, self.mine
            measured = DistanceOracle(self.rows, sizes, sums, halves, mine.rows, mine.read)
            message = yield from self.answer(query, measured)
        else:
            yield from self.answer.watch(query, sizes)
        self.validator.opened = opened = self.answer.opened
        wait = answer_query(query.round, message, "distances")
        if settled is None or message is not None or len(settled.spent()) > len(before):
            return wait
        return replace(wait, settled=partial(Settled, query, opened, settled.spent()))

    def go_over(self, step: Settled, missed: int) -> Exchange:
        """Be as after a query that I answered before, of which nobody needs anything any more."""
        self.validator.ask(step.request, missed)
        if self.answer.settled is None:
            raise JournalError("a step is on file as settled whose answer this policy must give again")
        self.answer.settled.go_over(step.request, step.spent)
        self.validator.opened = step.opened
        return answer_query(step.request.round, None, "distances")

    def open_final_centers(self, request: RevealCenters, missed: int) -> Role[Exchange]:
        """Send shares of the sums of final clusters, or what the policy makes of them."""
        self.consenting = False
        final = self.final_sums(request, missed)
        shares = partial(zero_small_clusters, self.plan, self.rows, final)
        policy = self.way.disclosure
        message = yield from policy.open_centers(self.plan, self.name, request, shares, self.coins)
        return answer_query(request.round, message, "centers")

    def open_retained_sums(self, request: RevealSums, missed: int) -> Exchange:
        """Send shares of the sums that are retained where labels stay shared; none if I missed the end."""
        self.consenting, message = False, None
        self.validator.note_missed(missed)
        retained = self.answer.kept
        if retained is not None and retained.sums is not None:
            self.validator.end(retained.sums.sizes)
            message = CodedCenters(zero_small_clusters(self.plan, self.rows, retained.sums))
        return answer_query(request.round, message, "centers")

    def end_with_retained(self, ended: RunEnded, missed: int) -> SecFCClientResult:
        """The result where no labels are opened to all: what the policy retained."""
        k = len(ended.sizes)
        self.validator.end(ended.sizes, missed)
        self.check_chosen_k(k)
        retained = self.answer.kept or self.label_by_centers(ended.centers)
        own = self.mine.own(retained.labels)
        trace, plan = self.trace_of(retained.labels), self.kept.chosen(k)
        return SecFCClientResult(
            plan, own, self.mine.rows, ended.centers, retained.sums, trace, self.mine.scale
        )

    def label_by_centers(self, centers: Array | None) -> OwnResult:
        """Labels of my own rows, where centers (k, d) alone decide them; of none if I missed the end.

        Nor of joined columns, of which others have some.
        """
        labels = np.full(self.plan.m, -1, np.int32)
        mine = self.mine.rows[self.mine.rows >= 0]
        decided = self.way.disclosure.capabilities.sums and not isinstance(self.way.membership, Joined)
        if decided and centers is not None and mine.size:
            points = self.mine.read(0, self.plan.m)[mine] / float(self.plan.quantizer.scale)
            labels[mine] = nearest_center(points, centers)
        return OwnResult(labels, None)

    def end_with_labels(self, result: FinalResult, missed: int) -> SecFCClientResult:
        """The result where everybody learns the labels."""
        final, own = self.final_sums(result, missed), self.mine.own(result.labels)
        trace, plan = self.trace_of(result.labels), self.kept.chosen(result.k)
        return SecFCClientResult(plan, own, self.mine.rows, result.centers, final, trace, self.mine.scale)

    def trace_of(self, labels: Array) -> Trace | None:
        """The run that ended so, if I heard all of it."""
        return None if self.validator.gap else self.courses.find_trace(labels)

    def final_sums(self, said: RevealCenters | FinalResult, missed: int) -> ClusterSums:
        """Shares of the sums of the clusters that the server says are the last, if these may be."""
        self.validator.end(said.labels, missed)
        self.check_chosen_k(said.k)
        return self.running.of(said.labels.astype(np.int32), said.k)

    def check_chosen_k(self, k: int) -> None:
        """Raises FaultyServer for another number of clusters than was chosen, if I heard which that is."""
        chosen = self.courses.drawing.k
        if isinstance(chosen, int) and chosen != k and not self.validator.gap:
            raise FaultyServer(SERVER, f"ended with k={k} clusters, where k={chosen} was chosen")


def run_input_party(plan: CodedPlan, mine: RowContribution, coins: Coins) -> Role[SecFCClientResult]:
    """The client that does not work: deal, and hear the result."""
    result = yield from share_rows_and_await(plan, mine, coins)
    check_result(plan, result)
    labels, rows = labels_of_own_rows(mine, result), mine.rows
    if not len(result.labels):
        rows = np.full(len(rows), -1)
    return SecFCClientResult(
        plan.chosen(len(result.sizes)), labels, rows, result.centers, None, None, mine.scale
    )


def zero_small_clusters(plan: CodedPlan, rows: CodedRows, sums: ClusterSums) -> Array:
    """My shares of the sums of clusters (lanes, k, width), zeros for those too small to be opened."""
    shares = rows.residues(sums)
    shares[:, sums.sizes < plan.smallest_center] = 0
    return shares


# --- server --------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False, eq=False)
class SecFCServerResult:
    """The plan that was agreed on, whose rows it leaves out, the best run, and revealed centers.

    standing: who was found to deviate.  curve: what k was chosen by, dendrogram: what merging the clusters
    costs, in integer units, or None.
    """

    plan: CodedPlan
    excluded: tuple[PartyId, ...]
    trace: Trace
    centers: Array | None
    standing: BlameState
    curve: CostCurve | None = None
    dendrogram: Dendrogram | None = None


def run_server(way: SecFCSettings, draft: Draft, *, coins: Coins) -> Role[SecFCServerResult]:
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

    def run_restart() -> Role[Trace]:
        start, k = yield from drawing(next(each), source)
        trace = yield from source.run_lloyd(start, k, plan.max_iter)
        if plan.n_init == 1 or trace.within is not None:
            return trace
        return replace(trace, within=(yield from source.cluster_costs(trace.labels.astype(np.int32), k)))

    trace: Trace = yield from best_of_restarts(plan.n_init, run_restart, is_cheaper)
    dendrogram = (yield from source.price_merges(trace)) if plan.dendrogram else None
    centers = yield from source.ending.finish_fit(source, plan.chosen(trace.k), trace)
    kept = kept.chosen(trace.k)
    if kept.resting:
        yield from send_results_to_input_parties(kept, trace.labels, centers, next(source.rounds))
    excluded, standing = kept.excluded(shared), screening.standing
    return SecFCServerResult(kept, excluded, trace, centers, standing, drawing.curve, dendrogram)


# --------------------------------------------------------------------------------------------------
# What comes before the first query of a run: rows agreed on, shares stored, the seed of starts tossed.

# --------------------------------------------------------------------------------------------------
# From what is public before rows are known to the plan of a run: a draft, which the algorithm completes.
#
# Where rows are public, the plan is complete before the parties talk, and is its own draft.

Draft = CodedPlan | PrivateMembershipPlan | JoinedPlan


def complete_plan(way: SecFCSettings, draft: PrivateMembershipPlan | JoinedPlan, held: Array) -> CodedPlan:
    """The plan for rows that so many clients hold, (m,) int64: all ones without merging; or that are kept.

    Raises TooManyHolders, and ValueError for what does not fit in any case.
    """
    public, layout = draft.terms.public, draft.layout(held)
    if layout.multiple == 1:
        return way.complete(public, layout)
    try:
        return way.complete(public, layout)
    except InvalidValue as error:
        way.complete(
            public, HiddenOwnerLayout(layout.m, layout.n)
        )  # what fails here too is no matter of holders
        counts = np.unique(held).tolist() if draft.counted else range(1, layout.n + 1)
        raise TooManyHolders(counts, layout.multiple, str(error)) from error


def plan_from_all_data(way: SecFCSettings, draft: Draft, federation: Federation) -> CodedPlan:
    """The plan that the points of all will lead to, for a process that sees all data."""
    return draft if isinstance(draft, CodedPlan) else complete_plan(way, draft, draft.foreseen(federation))


def agree_on_plan(plan: CodedPlan, me: PartyId) -> Role[None]:
    """Agree on the plan before anything secret moves: all with all, or where there are workers with them.

    Raises PlanMismatch.
    """
    return agree_by_digest(plan, me, plan.computing) if plan.workers else agree(plan, me)


def agree_on_rows(
    way: SecFCSettings, draft: Draft, party: Party, coins: Coins
) -> Role[tuple[CodedPlan, RowContribution]]:
    """A client agrees with the others on the rows: the plan, and what it brings."""
    if isinstance(draft, CodedPlan):
        return draft, contribute_rows(way, draft, party)
    union = yield from draft.client(party, coins=coins)
    plan = complete_plan(way, draft, union.held)
    return plan, union.contribution(plan)


def contribute_rows(way: SecFCSettings, plan: CodedPlan, party: Party) -> RowContribution:
    """What a client brings whose rows are known without talking: its own, or its columns of all."""
    if isinstance(way.membership, Joined):
        rows = np.arange(party.points.shape[0])
        return contribute_columns(way.membership.scale, party, party.read(), rows, plan)
    return contribute_own_rows(plan, party)


def agree_on_rows_at_server(
    way: SecFCSettings, draft: Draft, coins: Coins
) -> Role[tuple[CodedPlan, Callable[[], Role[None]]]]:
    """The server's part of the same, and of settling."""
    if isinstance(draft, CodedPlan):
        return draft, settle_single_owner
    held, settle = yield from draft.server(coins=coins)
    plan = complete_plan(way, draft, held)
    return plan, partial(settle, plan)


def check_terms(way: Any, draft: Draft) -> None:
    """Raises ValueError for a draft that was made on other terms than the algorithm's."""
    if draft.terms is not None:
        draft.terms.check(way)


# --------------------------------------------------------------------------------------------------
# Where a client's shares lie while it takes part: in memory, or in files of a folder that it names.


def share_rows_in_storage(
    way: SecFCSettings, plan: CodedPlan, mine: RowContribution, coins: Coins
) -> Role[ReceivedShares]:
    """Phase 1 of Algorithm 1, `share_rows`.  Raises InputError for a folder without room."""
    storage = Storage(None if way.runtime.scratch is None else Path(way.runtime.scratch))
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


def toss_start_seed_at_server(plan: CodedPlan, screening: Screening) -> Role[int]:
    """The seed of random starts at the server; a client that drops out stays excluded."""
    if plan.seed is not None:
        return plan.seed
    # Who is in a dispute, or was found to deviate, hears the result all the same.
    who = plan.clients if plan.corrected else screening.present
    seed, who = yield from toss_coins_at_server(start_toss(plan), who, lenient=plan.corrected > 0)
    screening.present = tuple(c for c in screening.present if c in who)
    return _start(seed)


def start_toss(plan: CodedPlan) -> CoinToss:
    """Who tosses coins for a run under this plan."""
    return CoinToss(plan.clients, plan.digest(), plan.code.threshold(2))


def _start(seed: bytes) -> int:
    return int.from_bytes(derive_seed(seed, b"secfc start"), "little")


def share_squares(
    plan: CodedPlan, name: PartyId, coins: Coins, rows: CodedRows, read: Callable[[int, int], Array]
) -> Role[Array]:
    """My shares (lanes, m) of squares of rows, of which I have these shares; read: my integers; secret.

    Raises TooFewReplies for clients that are lost.
    """
    if are_owned(plan):
        return (yield from deal_squares(plan, name, coins, read))
    working, points = plan.at_work, np.ascontiguousarray(rows.read_rows(0, plan.m))
    return (yield from SharedSquares(working, working.clients.index(name), coins).share(FIRST, points))


def are_owned(plan: CodedPlan) -> bool:
    """Whether all know whose each row is, and whoever has some works."""
    return isinstance(plan.layout, PublicOwnerLayout) and plan.layout.multiple == 1 and not plan.resting


def deal_squares(
    plan: CodedPlan, name: PartyId, coins: Coins, read: Callable[[int, int], Array]
) -> Role[Array]:
    """My shares (lanes, m) of squares of rows, which their owners deal, unchecked.

    A false square concerns a row of its own, as if this had a coordinate more than all others, or less.
    """
    code, basis, width = plan.code, plan.code.basis, plan.code.width(plan.d)
    counts = {c: plan.layout.span(j)[1] for j, c in enumerate(plan.clients) if plan.layout.span(j)[1]}
    found, send = dict[PartyId, Array](), dict[PartyId, Message]()
    if count := counts.get(name, 0):
        padded = np.zeros((count, code.ell * width), np.int64)
        padded[:, : plan.d] = read(0, count)
        squares: Array = basis.squares(basis.reduce(padded.reshape(-1, width)))
        shares = code.share(squares.reshape(-1, count, code.ell), coins)
        dealt = {c: np.ascontiguousarray(s[:, :, 0]) for c, s in zip(plan.clients, shares, strict=True)}
        found[name] = dealt.pop(name)
        send = {c: ResharedPart(values) for c, values in dealt.items()}
    others = tuple(c for c in counts if c != name)
    inbox = yield Exchange(send, others, 0, round=FIRST, phase="align")
    for c, message in expect_all(expect_messages(inbox, ResharedPart), others).items():
        check_residues(basis, c, message.values, (counts[c],))
        found[c] = message.values
    return np.concatenate([found[c] for c in counts], axis=1)


# --------------------------------------------------------------------------------------------------
# What clients do that do not work: they deal, may leave, and hear the labels of their own rows in the end.
#
# Role fragments, and the server's part.  Who works is said by `secfc.coded.plan`.


def share_rows_and_await(plan: CodedPlan, mine: RowContribution, coins: Coins) -> Role[InputPartyResult]:
    """Deal my rows to the workers, and hear what became of them.

    Raises FaultyServer for a result that is none; TooFewReplies if the server fell silent.
    """
    yield from deal_rows(plan, mine, coins)
    # It ends when it does: after as many questions as the workers were asked.
    wait = Exchange({}, (SERVER,), round=ITERATE, exact=False, step=STRIDE, phase="rest")
    result: InputPartyResult = expect_one(expect_messages((yield wait), InputPartyResult), SERVER)
    if len(result.labels) not in (0, len(mine.rows)):
        raise FaultyServer(SERVER, f"labeled {len(result.labels)} of my {len(mine.rows)} points")
    return result


def labels_of_own_rows(mine: RowContribution, result: InputPartyResult) -> Array:
    """The labels of my points (m_j,) int32, -1 where my rows do not count."""
    counts = len(result.labels) == len(mine.rows)
    return result.labels.astype(np.int32) if counts else np.full(len(mine.rows), -1, np.int32)


def send_results_to_input_parties(
    plan: CodedPlan, labels: Array, centers: Array | None, number: int
) -> Role[None]:
    """The server's part: the result for everybody who does not work, of the rows that count.

    labels: (m,) of all rows that do.
    """
    sizes = cluster_sizes(labels.astype(np.int32), plan.k)
    yield from send_results_with_sizes(plan, labels, sizes, centers, number)


def send_results_with_sizes(
    plan: CodedPlan, labels: Array, sizes: Array, centers: Array | None, number: int
) -> Role[None]:
    """Send results with sizes (k,) that are those of other points."""
    compact = compact_labels(labels)
    send = {}
    for name in plan.resting:
        first, count = plan.layout.span(plan.numbers[name])
        send[name] = InputPartyResult(compact[first : first + count], sizes.astype(np.int64), centers)
    yield Exchange(send, round=number, phase="finish")


def check_result(plan: CodedPlan, result: InputPartyResult) -> None:
    """Raises FaultyServer for a result of another run than the plan's."""
    k = len(result.sizes)
    if k > plan.k or (k != plan.k and plan.elbow is None):
        raise FaultyServer(SERVER, f"ended with k={k} clusters, where k={plan.choice}")
    if int(result.sizes.sum()) > plan.m:
        raise FaultyServer(SERVER, f"counts more points than m={plan.m}")
    check_centers(plan, result.centers)
