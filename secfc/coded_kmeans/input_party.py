"""What clients do that do not work: they deal, may leave, and hear the labels of their own rows in the end.

Role fragments, and the server's part.  Who works is said by `secfc.coded.plan`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.code.rows import cluster_sizes
from field.secrets.coins import Coins
from secfc.coded.membership import RowContribution
from secfc.coded.plan import CodedPlan
from secfc.coded.questions import check_centers
from secfc.coded.sharing import deal_rows
from secfc.roles.exchange import (
    ITERATE,
    SERVER,
    STRIDE,
    Exchange,
    FaultyServer,
    Role,
    expect_messages,
    expect_one,
)
from secfc.roles.messages import InputPartyResult, compact_labels

Array = NDArray[Any]


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
