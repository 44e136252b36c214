"""Agreeing on the plan and sharing rows: phase 1 of SecFC's Algorithm 1, as role fragments.

Every run over coded rows begins with these.  A peer that breaks the protocol is named; nothing of what it
sent is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.basis import Basis
from field.coins import Coins
from field.rows import CodedRows, coded_rows
from secfc.exchange import (
    AGREE,
    SERVER,
    SHARE,
    STRIDE,
    Exchange,
    FaultyClient,
    FaultyServer,
    PartyId,
    PlanMismatch,
    Role,
    TooFewReplies,
    only,
    take,
    to_all,
)
from secfc.membership import Contribution
from secfc.messages import Contributors, Hello, Shares
from secfc.plan import Plan

Array = NDArray[Any]


def agree(plan: Plan, me: PartyId) -> Role[None]:
    """Compare the plan's digest with every other party before anything secret moves.

    Raises PlanMismatch naming who differs.
    """
    peers = tuple(p for p in (*plan.clients, SERVER) if p != me)
    hello = Hello(plan.digest())
    inbox = yield Exchange(to_all(peers, hello), peers, 0, round=AGREE, exact=True, phase="agree")
    differing = [p for p, hello in take(inbox, Hello).items() if hello.digest != plan.digest()]
    if differing:
        raise PlanMismatch(differing)


def share_rows(plan: Plan, mine: Contribution, coins: Coins, *, threads: int = 1) -> Role[Received]:
    """Phase 1 of Algorithm 1: deal out my rows, collect and add my shares of everybody's.

    Rows leave in chunks, so a client holds its shares of all m rows and a chunk of outgoing ones.
    """
    me = plan.clients.index(mine.name)
    rows = coded_rows(plan.code.basis, plan.m, plan.code.width(plan.d), threads=threads)
    lost: set[PartyId] = set()
    for number in range(max(plan.chunks)):
        send: dict[PartyId, Any] = {}
        if number < plan.chunks[me]:
            start, shares = share_chunk(plan, me, mine, number, coins)
            send = {c: Shares(start, s) for c, s in zip(plan.clients, shares, strict=True)}
            rows.add(start, send.pop(mine.name).values)
        senders = tuple(
            c for j, c in enumerate(plan.clients) if j != me and number < plan.chunks[j] and c not in lost
        )
        inbox = yield Exchange(send, senders, 0, round=SHARE + number, exact=True, phase="share")
        for sender, message in take(inbox, Shares).items():
            rows.add(message.start, check_shares(plan, sender, number, message))
        lost |= set(senders) - set(inbox)
    complete = np.array([c not in lost for c in plan.clients])
    return Received(rows, complete)


@dataclass(frozen=True, eq=False)
class Received:
    """The rows a client holds after sharing, and of which clients it has them all: (n,) bool."""

    rows: CodedRows
    complete: Array


def settle_contributors(plan: Plan, received: Received) -> Role[tuple[Plan, CodedRows]]:
    """Agree through the server on whose rows everybody has; drop the rows of the others.

    A client that vanished while it shared left different rows at different peers; nobody may use them.

    Raises TooFewReplies if hidden membership spread somebody's rows over all others.
    """
    number = SHARE + max(plan.chunks)
    inbox = yield Exchange(
        {SERVER: Contributors(received.complete)}, (SERVER,), round=number, exact=True, phase="share"
    )
    contributors = only(take(inbox, Contributors), SERVER).complete
    if contributors.shape != received.complete.shape:
        raise FaultyServer(SERVER, "counted other clients than the plan has")
    if (contributors & ~received.complete).any():
        raise FaultyServer(SERVER, "counts on rows that did not come")
    remaining, kept = plan.without(contributors), plan.kept_rows(contributors)
    return remaining, received.rows if len(kept) == plan.m else received.rows.select(kept)


def settle_contributors_at_server(plan: Plan) -> Role[tuple[Plan, tuple[PartyId, ...]]]:
    """The server's part: the plan without those whose rows are not everywhere, and who is still there.

    Raises TooFewReplies if fewer clients are there than decoding needs.
    """
    needed, number = plan.code.threshold(2), SHARE + max(plan.chunks)
    inbox = take(
        (yield Exchange({}, plan.clients, needed, round=number, exact=True, phase="share")), Contributors
    )
    if len(inbox) < needed:
        raise TooFewReplies(needed, tuple(inbox))
    for sender, message in inbox.items():
        if message.complete.shape != (len(plan.clients),):
            raise FaultyClient(sender, "counted other clients than the plan has")
    everywhere = np.logical_and.reduce([message.complete for message in inbox.values()])
    present = tuple(c for c in plan.clients if c in inbox)
    yield Exchange(to_all(present, Contributors(everywhere)), round=number, phase="share")
    return plan.without(everywhere), present


def share_chunk(
    plan: Plan, me: int, mine: Contribution, number: int, coins: Coins
) -> tuple[int, list[Array]]:
    """The first row, and one share a client, of one chunk of my rows."""
    begin, end = plan.part(me, number)
    residues = plan.code.basis.reduce(mine.read(begin, end))
    return plan.layout.span(me)[0] + begin, plan.code.share(residues, coins)


def check_shares(plan: Plan, sender: PartyId, number: int, message: Shares) -> Array:
    """The values of a message of shares, if it is the one that was due.

    Raises FaultyClient.
    """
    j = plan.clients.index(sender)
    begin, end = plan.part(j, number)
    start = plan.layout.span(j)[0] + begin
    if message.start != start:
        raise FaultyClient(sender, f"shared rows from {message.start} where {start} was due")
    check_residues(plan.code.basis, sender, message.values, (end - begin, plan.code.width(plan.d)))
    return message.values


def check_residues(basis: Basis, sender: PartyId, values: Array, shape: tuple[int, ...]) -> None:
    """Raises FaultyClient naming the sender of anything but (lanes, *shape) canonical residues."""
    try:
        basis.check(values, shape)
    except ValueError as error:
        raise FaultyClient(sender, f"sent a malformed message ({error})") from error


def reply(number: int, message: Any, phase: str) -> Exchange:
    """A client's answer to the server's question of this number, or silence, and the wait for the next."""
    send = {} if message is None else {SERVER: message}
    return Exchange(send, (SERVER,), round=number, accept=number + STRIDE, phase=phase)
