"""What comes before the first query of a run: rows agreed on, shares stored, the seed of starts tossed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.code.rows import NoRoomError, Storage, cluster_sizes
from field.ring.errors import InvalidValue
from field.secrets.coins import Coins
from secfc.coded.blame import CheaterIdentification
from secfc.coded.input_check import ReceivedShares
from secfc.coded.membership import (
    PrivateMembershipPlan,
    RowContribution,
    contribute_own_rows,
    settle_single_owner,
)
from secfc.coded.plan import CodedPlan, HiddenOwnerLayout
from secfc.coded.questions import check_centers
from secfc.coded.sharing import deal_rows, share_rows
from secfc.coded_kmeans.parameters import SecFCSettings
from secfc.data.federation import Federation
from secfc.data.party import Party
from secfc.errors import FaultyServer, InputError, TooManyHolders
from secfc.roles.agreement import agree, agree_by_digest
from secfc.roles.coin_toss import CoinToss, derive_seed, toss_coins, toss_coins_at_server
from secfc.roles.exchange import ITERATE, SERVER, STRIDE, Exchange, PartyId, Role, expect_messages, expect_one
from secfc.roles.messages import InputPartyResult, compact_labels

# --------------------------------------------------------------------------------------------------
# From what is public before rows are known to the plan of a run: a draft, which the algorithm completes.
#
# Where rows are public, the plan is complete before the parties talk, and is its own draft.

Array = NDArray[Any]
Draft = CodedPlan | PrivateMembershipPlan


def complete_plan(way: SecFCSettings, draft: PrivateMembershipPlan, held: Array) -> CodedPlan:
    """The plan for rows that so many clients hold, (m,) int64: all ones without merging.

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
        return draft, contribute_own_rows(draft, party)
    union = yield from draft.client(party, coins=coins)
    plan = complete_plan(way, draft, union.held)
    return plan, union.contribution(plan)


def agree_on_rows_at_server(
    way: SecFCSettings, draft: Draft, coins: Coins
) -> Role[tuple[CodedPlan, Callable[[], Role[None]]]]:
    """The server's part of the same, and of settling."""
    if isinstance(draft, CodedPlan):
        return draft, settle_single_owner
    held, settle = yield from draft.server(coins=coins)
    plan = complete_plan(way, draft, held)
    return plan, partial(settle, plan)


def check_terms(way: SecFCSettings, draft: Draft) -> None:
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
