"""What a client accepts from the server: questions and results that fit the plan.

The constructors of messages check what can be told from a message alone; here it is compared with the plan,
so that neither a broken server nor a broken link can make a client compute, or allocate, what was not due.
What fits the plan and is a lie is not noticed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from secfc.coded.messages import RevealCenters, RevealSums, RunEnded
from secfc.coded.plan import CodedPlan
from secfc.coded.queries import Query
from secfc.errors import FaultyServer
from secfc.kmeans.bisecting import clusters_to_split
from secfc.roles.exchange import ITERATE, PHASE, SERVER, STRIDE, Exchange, Inbox, Role, expect_one
from secfc.roles.messages import FinalResult


def receive_query(plan: CodedPlan, k: int, wait: Exchange) -> Role[tuple[Any, int]]:
    """The server's next word, after this exchange: of another type than these, or as the plan has it.

    Also how many questions before it did not come: lost, or put to others.

    k: clusters, of which starts may ask for fewer, for spare ones, or for both halves of each.

    Raises FaultyServer; TooFewReplies if the server fell silent.
    """
    # Every question begins a stride of rounds in the last phase of a run.
    inbox = yield replace(wait, exact=False, step=STRIDE)
    message = expect_one(inbox, SERVER)
    due = wait.round if wait.accept is None else wait.accept
    number = inbox.rounds[SERVER] if isinstance(inbox, Inbox) else due
    match message:
        case Query() | RevealCenters() | RevealSums():
            number = message.round
            _refuse(
                not due <= message.round < ITERATE + PHASE or (message.round - due) % STRIDE != 0,
                "numbered its question out of turn",
            )
            # Of new points there may be fewer than clusters.
            start = isinstance(message, Query)
            most = max(k, clusters_to_split(plan.m, k, plan.init.spare)) if start else k
            twice = isinstance(message, Query) and (message.operation.halves or plan.init.grows)
            most *= 2 if twice else 1
            _refuse(message.k > most, f"asked for more than {most} clusters, where k={k}")
            if not isinstance(message, RevealSums):
                _refuse(len(message.labels) != plan.m, f"labeled {len(message.labels)} points of m={plan.m}")
            if isinstance(message, Query) and len(message.responders):
                strangers = int(message.responders.max()) >= len(plan.clients)
                _refuse(strangers, f"asked more than {len(plan.clients)} clients")
                few = len(message.responders) < plan.code.threshold(2)
                _refuse(few, "asked fewer clients than decoding needs")
        case FinalResult():
            check_clusters(plan, k, message.k)
            _refuse(len(message.labels) != plan.m, f"labeled {len(message.labels)} points of m={plan.m}")
            check_centers(plan, message.centers)
        case RunEnded():
            check_clusters(plan, k, len(message.sizes))
            check_centers(plan, message.centers)
    return message, (number - due) // STRIDE


def check_clusters(plan: CodedPlan, k: int, count: int) -> None:
    """Raises FaultyServer for a run that ended with another number of clusters than is due."""
    other = count > k if plan.elbow else count != k
    _refuse(other, f"ended with another number of clusters than k={plan.choice}")


def check_centers(plan: CodedPlan, shown: Any) -> None:
    """Raises FaultyServer for centers that the plan keeps closed, or of other features."""
    _refuse((shown is None) == bool(plan.revealing), "shows centers where it may not, or hides them")
    if shown is not None:
        _refuse(shown.shape[1] != plan.d, f"shows centers of other than d={plan.d} features")


def _refuse(wrong: bool, why: str) -> None:
    if wrong:
        raise FaultyServer(SERVER, why)
