"""Sharing keys and rows: phase 1 of SecFC's Algorithm 1, as role fragments.

Every run over coded rows begins with these.  A peer that breaks the protocol is named; nothing of what it
sent is shown.
"""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from field.arrays import Array
from field.code.masking import PairKeys
from field.code.range_check import deal_masks, draw_masks
from field.code.rows import MEMORY, CodedRows, Storage, coded_rows
from field.secrets.coins import Coins
from secfc.coded.input_check import (
    ContributorsDigest,
    ReceivedShares,
    hide_row_test,
    judge_at_server,
    projection_round,
    prove_rows,
)
from secfc.coded.membership import RowContribution
from secfc.coded.messages import PublicKey, RowShares
from secfc.coded.plan import CodedPlan
from secfc.coded.quorum import BlameState, Screening
from secfc.errors import FaultyClient, TooFewReplies
from secfc.roles.blame import suspect_parties
from secfc.roles.exchange import (
    PAIR,
    SERVER,
    SHARE,
    STRIDE,
    Exchange,
    PartyId,
    Role,
    blame_error,
    expect_messages,
    to_all,
)
from secfc.roles.messages import check_all, check_residues, well_formed

# --------------------------------------------------------------------------------------------------
# Pairwise keys between clients: what masks that cancel are expanded from.
#
# Ephemeral X25519, and HKDF-SHA256 bound to the plan and both public keys.  The keys are as authentic as the
# transport between clients; a client whose message did not come has no key, and neither side masks with it.


def pair_keys(plan: CodedPlan, name: PartyId, coins: Coins) -> Role[PairKeys]:
    """The secret keys this client shares with every other that is there, by number of the client.

    Raises FaultyClient for a key that is none.
    """
    me = plan.clients.index(name)
    others = tuple(c for c in plan.clients if c != name)
    private = X25519PrivateKey.from_private_bytes(coins.bytes(32))
    public = private.public_key().public_bytes_raw()
    inbox = yield Exchange(to_all(others, PublicKey(public)), others, 0, round=PAIR, phase="pair")
    keys = {}
    # Where replies are corrected, a key that is none counts as one that did not come.
    came = (well_formed if plan.corrected else check_all)(inbox, PublicKey, lambda sender, message: None)
    for sender, message in came.items():
        j = plan.clients.index(sender)
        try:
            shared = private.exchange(X25519PublicKey.from_public_bytes(message.key))
        except ValueError as error:
            if plan.corrected:
                continue
            raise blame_error(sender, "sent a public key that is none") from error
        low, high = sorted(((me, public), (j, message.key)))
        info = b"secfc pair" + b"".join(i.to_bytes(4, "little") + key for i, key in (low, high))
        keys[j] = HKDF(algorithm=SHA256(), length=32, salt=plan.digest(), info=info).derive(shared)
    return PairKeys(keys)


def share_rows(
    plan: CodedPlan, mine: RowContribution, coins: Coins, *, threads: int = 1, storage: Storage = MEMORY
) -> Role[ReceivedShares]:
    """Phase 1 of Algorithm 1: deal out my rows, collect and add my shares of everybody's.

    Rows leave in chunks, so a client holds its shares of all m rows and a chunk of outgoing ones; with each
    go the masks that its test will be hidden under.  storage: where my shares lie.
    """
    me = plan.numbers[mine.name]
    width = plan.code.width(plan.d)
    rows = coded_rows(plan.code.basis, plan.m, width, threads=threads, storage=storage)
    masks: dict[PartyId, list[Array]] = {c: [] for c in plan.clients}
    dealt: list[Array] = []
    lost: set[PartyId] = set()
    for number in range(max(plan.chunks)):
        send: dict[PartyId, RowShares] = {}
        if number < plan.chunks[me]:
            shares, secret = share_chunk(plan, me, mine, number, coins)
            send = dict(zip(plan.computing, shares, strict=True))
            dealt.append(secret)
        own = {c: send.pop(c) for c in (mine.name,) if c in send}
        senders = tuple(
            c for j, c in enumerate(plan.clients) if j != me and number < plan.chunks[j] and c not in lost
        )
        inbox = yield Exchange(send, senders, 0, round=SHARE + number, phase="share")
        lost |= set(senders)
        for each in (own, *({c: message} for c, message in inbox.items())):
            # Where replies are corrected, a message that is none counts as one that did not come.
            due = (well_formed if plan.corrected else check_all)(
                each, RowShares, partial(check_shares, plan, number)
            )
            # Now, while it is in cache.
            for sender, message in due.items():
                rows.add_rows(message.start, widen_shares(plan, plan.numbers[sender], message.values))
                masks[sender].append(message.masks)
                lost.discard(sender)
    complete = np.array([c not in lost for c in plan.clients])
    return ReceivedShares(rows, masks, complete, dealt)


def deal_rows(plan: CodedPlan, mine: RowContribution, coins: Coins) -> Role[None]:
    """The part of a client that does not work: deal out my rows, and hide their test under the coins tossed.

    Raises MasksSpent, FaultyServer, TooFewReplies.
    """
    me, dealt = plan.numbers[mine.name], list[Array]()

    def dealing(number: int) -> Exchange:
        shares, secret = share_chunk(plan, me, mine, number, coins)
        dealt.append(secret)
        return Exchange(dict(zip(plan.computing, shares, strict=True)), round=SHARE + number, phase="share")

    for number in range(plan.chunks[me]):
        # Held by no name of this role: thousands of clients in one process wait without their shares.
        yield dealing(number)
    if dealt:
        yield from hide_row_test(plan, mine, dealt)


def settle_contributors(
    plan: CodedPlan, mine: RowContribution, received: ReceivedShares, coins: Coins
) -> Role[tuple[CodedPlan, CodedRows]]:
    """Test everybody's rows, agree through the server on whose count, and drop the rows of the others.

    A client that vanished while it shared left different rows at different peers; nobody may use them.

    Raises what `prove_rows` raises, and RowsLost if hidden membership spread somebody's rows over all others.
    """
    contributors = yield from prove_rows(plan, mine, received, coins)
    if plan.workers:
        yield from confirm_contributors(plan, mine.name, contributors)
    kept = plan.without(contributors)
    if kept is plan:
        return plan, received.rows
    return kept, received.rows.select_rows(plan.kept_rows(contributors))


def settle_contributors_at_server(
    plan: CodedPlan, coins: Coins, standing: BlameState | None = None
) -> Role[tuple[CodedPlan, Screening]]:
    """The server's part: the plan without those whose rows do not count, and whom it can ask.

    coins: the server's, secret.  standing: what is known of the clients from an earlier run.

    Raises TooFewReplies if fewer clients are there than decoding needs, TooManyDeviating, FaultyClient,
    SuspectedParties, RowsRefused.
    """
    screening = Screening(plan.at_work, coins, standing)
    counted = yield from judge_at_server(plan, screening)
    return plan.without(counted), screening


def confirm_contributors(plan: CodedPlan, name: PartyId, contributors: Array) -> Role[None]:
    """Workers tell one another whose rows count, as the server told them: who dealt may have left.

    So many must have been told the same that a server with t workers cannot have two sums of rows computed,
    unless more than t workers are there beyond those that are needed.

    Raises SuspectedParties, TooFewReplies.
    """
    told = np.packbits(contributors).tobytes() + len(contributors).to_bytes(4, "little")
    mine = ContributorsDigest(
        hashlib.blake2b(told, digest_size=32, key=plan.digest(), person=b"secfc counted").digest()
    )
    others = tuple(c for c in plan.computing if c != name)
    inbox = yield Exchange(to_all(others, mine), others, 0, round=projection_round(plan) + 2, phase="share")
    for sender, message in expect_messages(inbox, ContributorsDigest).items():
        if message.digest != mine.digest:
            why = f"{sender} says that it was told other contributors than were told here"
            raise suspect_parties("ContributorsDigest", why, server=SERVER, sender=sender)
    if len(inbox) + 1 < plan.code.threshold(2):
        raise TooFewReplies(plan.code.threshold(2), (name, *inbox))


def share_chunk(
    plan: CodedPlan, me: int, mine: RowContribution, number: int, coins: Coins
) -> tuple[list[RowShares], Array]:
    """One message a client with the shares of one chunk of my rows and of masks; and the masks themselves."""
    begin, end = plan.part(me, number)
    residues = plan.code.basis.reduce(mine.read(begin, end))
    start, shares = plan.layout.span(me)[0] + begin, plan.code.share(residues, coins)
    secret = draw_masks(plan.projections, plan.masks(me, number), coins)
    masks = deal_masks(plan.code, secret, coins)
    return [RowShares(start, *both) for both in zip(shares, masks, strict=True)], secret


def widen_shares(plan: CodedPlan, dealer: int, values: Array) -> Array:
    """Shares (lanes, rows, words) that a client dealt, in their place: (lanes, rows, width), zeros beside."""
    (first, words), width = plan.word_spans[dealer], plan.code.width(plan.d)
    if words == width:
        return values
    wide = np.zeros((*values.shape[:2], width), values.dtype)
    wide[:, :, first : first + words] = values
    return wide


def check_shares(plan: CodedPlan, number: int, sender: PartyId, message: RowShares) -> None:
    """Raises FaultyClient naming the sender of other shares than those that were due."""
    j = plan.numbers[sender]
    begin, end = plan.part(j, number)
    start = plan.layout.span(j)[0] + begin
    if message.start != start:
        raise FaultyClient(sender, f"shared rows from {message.start} where {start} was due")
    check_residues(plan.code.basis, sender, message.values, (end - begin, plan.word_spans[j][1]))
    check_residues(plan.code.basis, sender, message.masks, (plan.masks(j, number), plan.projections.words))


def answer_query(number: int, message: Any, phase: str) -> Exchange:
    """A client's answer to the server's question of this number, or silence, and the wait for the next."""
    send = {} if message is None else {SERVER: message}
    return Exchange(send, (SERVER,), round=number, accept=number + STRIDE, phase=phase)
