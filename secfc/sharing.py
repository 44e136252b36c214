"""Agreeing on the plan and sharing rows: phase 1 of SecFC's Algorithm 1, as role fragments.

Every run over coded rows begins with these.  A peer that breaks the protocol is named; nothing of what it
sent is shown.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from field.basis import Basis
from field.coins import Coins
from field.rows import CodedRows, coded_rows
from secfc.exchange import (
    SERVER,
    Exchange,
    FaultyClient,
    PartyId,
    PlanMismatch,
    Role,
    TooFewReplies,
    take,
    to_all,
)
from secfc.membership import Contribution
from secfc.messages import Hello, Shares
from secfc.plan import Plan

Array = NDArray[Any]


def agree(plan: Plan, me: PartyId) -> Role[None]:
    """Compare the plan's digest with every other party before anything secret moves.

    Raises PlanMismatch naming who differs.
    """
    peers = tuple(p for p in (*plan.clients, SERVER) if p != me)
    inbox = yield Exchange(to_all(peers, Hello(plan.digest())), peers, phase="agree")
    differing = [p for p, hello in take(inbox, Hello).items() if hello.digest != plan.digest()]
    if differing:
        raise PlanMismatch(differing)


def share_rows(plan: Plan, mine: Contribution, coins: Coins, *, parallel: bool = False) -> Role[CodedRows]:
    """Phase 1 of Algorithm 1: deal out my rows, collect and add my shares of everybody's.

    Rows leave in chunks, so a client holds its shares of all m rows and a chunk of outgoing ones.  The
    rows still want `finish`.
    """
    me = plan.clients.index(mine.name)
    rows = coded_rows(plan.code.basis, plan.m, plan.code.width(plan.d), parallel=parallel)
    for number in range(max(plan.chunks)):
        send: dict[PartyId, Any] = {}
        if number < plan.chunks[me]:
            start, shares = share_chunk(plan, me, mine, number, coins)
            send = {c: Shares(start, s) for c, s in zip(plan.clients, shares, strict=True)}
            rows.add(start, send.pop(mine.name).values)
        senders = tuple(c for j, c in enumerate(plan.clients) if j != me and number < plan.chunks[j])
        inbox = yield Exchange(send, senders, round=number, phase="share")
        for sender, message in take(inbox, Shares).items():
            rows.add(message.start, check_shares(plan, sender, number, message))
        missing = set(senders) - set(inbox)
        if missing:
            raise TooFewReplies(len(senders), tuple(inbox))
    return rows


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
    """A client's answer to the server's question of this number, and the wait for the next one."""
    return Exchange({SERVER: message}, (SERVER,), round=number, phase=phase)
