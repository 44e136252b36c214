"""Sharing rows: phase 1 of SecFC's Algorithm 1, as role fragments.

Every run over coded rows begins with these.  A peer that breaks the protocol is named; nothing of what it
sent is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.coins import Coins
from field.correct import deal_mask, mask_words
from field.rows import CodedRows, coded_rows
from secfc.dealing import check_count, counted_by_server, judge_rows, publish_shares
from secfc.exchange import (
    SERVER,
    SHARE,
    STRIDE,
    Exchange,
    FaultyClient,
    FaultyServer,
    PartyId,
    Role,
    TooFewReplies,
    take,
    to_all,
)
from secfc.membership import Contribution
from secfc.messages import Contributors, MaskedShares, Shares
from secfc.plan import Plan
from secfc.screening import Screening, Standing, check_residues, checked, well_formed

Array = NDArray[Any]


def share_rows(plan: Plan, mine: Contribution, coins: Coins, *, threads: int = 1) -> Role[Received]:
    """Phase 1 of Algorithm 1: deal out my rows, collect and add my shares of everybody's.

    Rows leave in chunks, so a client holds its shares of all m rows and a chunk of outgoing ones.
    """
    me = plan.clients.index(mine.name)
    rows = coded_rows(plan.code.basis, plan.m, plan.code.width(plan.d), threads=threads)
    masks: dict[PartyId, Array] = {}
    lost: set[PartyId] = set()
    for number in range(max(plan.chunks)):
        send: dict[PartyId, Shares] = {}
        if number < plan.chunks[me]:
            send = dict(zip(plan.clients, share_chunk(plan, me, mine, number, coins), strict=True))
        own = {c: send.pop(c) for c in (mine.name,) if c in send}
        senders = tuple(
            c for j, c in enumerate(plan.clients) if j != me and number < plan.chunks[j] and c not in lost
        )
        inbox = yield Exchange(send, senders, 0, round=SHARE + number, exact=True, phase="share")
        # With liars planned for, a message that is none counts as one that did not come.
        due = (well_formed if plan.liars else checked)(inbox, Shares, partial(check_shares, plan, number))
        for sender, message in (own | due).items():
            rows.add(message.start, message.values)
            if isinstance(message, MaskedShares):
                masks[sender] = message.mask
        lost |= set(senders) - set(due)
    complete = np.array([c not in lost for c in plan.clients])
    return Received(rows, complete, masks)


@dataclass(frozen=True, eq=False)
class Received:
    """The rows a client holds after sharing, and of which clients it has them all: (n,) bool.

    masks: with liars planned for, the mask words that came, by dealer.
    """

    rows: CodedRows
    complete: Array
    masks: Mapping[PartyId, Array]


def settle_contributors(plan: Plan, received: Received) -> Role[tuple[Plan, CodedRows]]:
    """Agree through the server on whose rows everybody has; drop the rows of the others.

    With liars planned for, on whose shares lie on polynomials.

    A client that vanished while it shared left different rows at different peers; nobody may use them.

    Raises TooFewReplies if hidden membership spread somebody's rows over all others.
    """
    if plan.liars:
        contributors = yield from publish_shares(plan, received.rows, received.masks, received.complete)
    else:
        contributors = yield from count_shares(plan, received.complete)
    kept = plan.without(contributors)
    if kept is plan:
        return plan, received.rows
    return kept, received.rows.select(plan.kept_rows(contributors))


def count_shares(plan: Plan, complete: Array) -> Role[Array]:
    """Tell the server whose rows I have completely, and hear whose rows count: (n,) bool."""
    number = SHARE + max(plan.chunks)
    inbox = yield Exchange(
        {SERVER: Contributors(complete)}, (SERVER,), round=number, exact=True, phase="share"
    )
    contributors = counted_by_server(plan, inbox)
    if (contributors & ~complete).any():
        raise FaultyServer(SERVER, "counts on rows that did not come")
    return contributors


def settle_contributors_at_server(
    plan: Plan, coins: Coins, standing: Standing | None = None
) -> Role[tuple[Plan, Screening]]:
    """The server's part: the plan without those whose rows do not count, and whom it can ask.

    coins: the server's, secret.  standing: what is known of the clients from an earlier run.

    Raises TooFewReplies if fewer clients are there than decoding needs, LiarsExceeded.
    """
    screening = Screening(plan, coins, standing)
    if plan.liars:
        contributors = yield from judge_rows(plan, screening)
    else:
        contributors, screening.present = yield from count_at_server(plan)
    return plan.without(contributors), screening


def count_at_server(plan: Plan) -> Role[tuple[Array, tuple[PartyId, ...]]]:
    """Whose rows are everywhere, (n,) bool, and who is still there.  Raises TooFewReplies."""
    needed, number = plan.code.threshold(2), SHARE + max(plan.chunks)
    # Who is not counted now is not asked again, so all who are there are waited for.
    inbox = take((yield Exchange({}, plan.clients, 0, round=number, exact=True, phase="share")), Contributors)
    if len(inbox) < needed:
        raise TooFewReplies(needed, tuple(inbox))
    for sender, message in inbox.items():
        check_count(len(plan.clients), sender, message)
    everywhere = np.logical_and.reduce([message.complete for message in inbox.values()])
    present = tuple(c for c in plan.clients if c in inbox)
    yield Exchange(to_all(present, Contributors(everywhere)), round=number, phase="share")
    return everywhere, present


def share_chunk(plan: Plan, me: int, mine: Contribution, number: int, coins: Coins) -> list[Shares]:
    """One message a client with the shares of one chunk of my rows."""
    begin, end = plan.part(me, number)
    residues = plan.code.basis.reduce(mine.read(begin, end))
    start, shares = plan.layout.span(me)[0] + begin, plan.code.share(residues, coins)
    if number or not plan.liars:
        return [Shares(start, share) for share in shares]
    masks = deal_mask(plan.code, mask_words(plan.code, plan.liars), coins)
    return [MaskedShares(start, *both) for both in zip(shares, masks, strict=True)]


def check_shares(plan: Plan, number: int, sender: PartyId, message: Shares) -> None:
    """Raises FaultyClient naming the sender of other shares than those that were due."""
    j = plan.clients.index(sender)
    begin, end = plan.part(j, number)
    start = plan.layout.span(j)[0] + begin
    if message.start != start:
        raise FaultyClient(sender, f"shared rows from {message.start} where {start} was due")
    check_residues(plan.code.basis, sender, message.values, (end - begin, plan.code.width(plan.d)))
    if plan.liars and number == 0:
        (masked,) = take({sender: message}, MaskedShares).values()
        check_residues(plan.code.basis, sender, masked.mask, (mask_words(plan.code, plan.liars),))


def reply(number: int, message: Any, phase: str, strides: int = 1) -> Exchange:
    """A client's answer to the server's question of this number, or silence, and the wait for the next.

    strides: how many question numbers the answer takes.
    """
    send = {} if message is None else {SERVER: message}
    return Exchange(send, (SERVER,), round=number, accept=number + strides * STRIDE, phase=phase)
