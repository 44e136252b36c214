"""Checking what clients deal to one another, before anybody relies on it: roles around `field.correct`.

A dealer adds a few mask words to its shares, dealt like them.  Once every receiver has said that all shares
arrived, the server draws a challenge; every receiver then tells the server random words of what it was
dealt, masked.  The words lie on a polynomial of the degree if the shares do, and say nothing else.

Assumes that the server does not collude with lying dealers: one that knew the challenge before it dealt
could pass the test.  Private membership mixes the shares of all dealers and cannot be checked like this.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.coins import Coins
from field.correct import combine_shares, mask_words
from field.rows import CodedRows
from secfc.exchange import (
    SERVER,
    SHARE,
    Exchange,
    FaultyClient,
    FaultyServer,
    PartyId,
    Role,
    TooFewReplies,
    only,
    take,
    to_all,
)
from secfc.messages import Challenge, Combined, Contributors
from secfc.plan import Plan
from secfc.screening import DEALING, WORDS, Screening, check_residues

Array = NDArray[Any]


def challenge_coins(seed: bytes, dealer: int) -> Coins:
    """The public coins by which all receivers combine the shares of one dealer, by its number."""
    digest = hashlib.blake2b(dealer.to_bytes(4, "little"), key=seed, digest_size=16, person=b"secfc dealing")
    return Coins(digest.digest())


# --- client ----------------------------------------------------------------------------------------


def publish_shares(
    plan: Plan, rows: CodedRows, masks: Mapping[PartyId, Array], complete: Array
) -> Role[Array]:
    """Say whose shares arrived, answer the server's challenge about them, hear whose rows count: (n,) bool.

    Rows may count that I lack: then nobody relies on me.
    """
    number = SHARE + max(plan.chunks)
    inbox = yield Exchange(
        {SERVER: Contributors(complete)}, (SERVER,), round=number, exact=True, phase="share"
    )
    seed = only(take(inbox, Challenge), SERVER).seed
    basis = plan.code.basis
    words = np.zeros((basis.lanes, len(plan.clients), mask_words(plan.code, plan.liars)), basis.dtype)
    for j in np.flatnonzero(complete).tolist():
        # One dealer's rows are read at a time.
        first, count = plan.layout.span(j)
        share, mask = rows.read(first, first + count), masks[plan.clients[j]]
        words[:, j] = combine_shares(plan.code, share, mask, challenge_coins(seed, j))
    inbox = yield Exchange({SERVER: Combined(words)}, (SERVER,), round=number + 1, exact=True, phase="share")
    return counted_by_server(plan, inbox)


# --- server ----------------------------------------------------------------------------------------


def judge_rows(plan: Plan, screening: Screening) -> Role[Array]:
    """Whose rows count, (n,) bool; the screening learns who is there and who lied.

    Raises TooFewReplies, LiarsExceeded.
    """
    number, n = SHARE + max(plan.chunks), len(plan.clients)
    # Who is not counted now is not asked again, so all who are there are waited for.
    said = yield Exchange({}, plan.clients, 0, round=number, exact=True, phase="share")
    reports = screening.checked(said, Contributors, partial(check_count, n))
    inbox = yield Exchange(
        to_all(said, screening.challenge()),
        tuple(reports),
        0,
        round=number,
        accept=number + 1,
        exact=True,
        phase="share",
    )
    shape = n, mask_words(plan.code, plan.liars)
    words = screening.checked(
        inbox, Combined, lambda c, m: check_residues(plan.code.basis, c, m.values, shape)
    )
    screening.present = tuple(c for c in plan.clients if c in words)
    if len(screening.active) < screening.needed(2):
        raise TooFewReplies(screening.needed(2), screening.active)
    complete = {c: reports[c].complete for c in words}
    contributors = judge_dealers(plan, screening, complete, {c: m.values for c, m in words.items()})
    yield Exchange(to_all(said, Contributors(contributors)), round=number + 1, phase="share")
    return contributors


def judge_dealers(
    plan: Plan, screening: Screening, complete: Mapping[PartyId, Array], words: Mapping[PartyId, Array]
) -> Array:
    """Whose rows count, (n,) bool, by who has them complete, (n,) bool, and words (lanes, n, words).

    A dealer is named if its shares lie on no polynomial, and left out if more receivers lack its rows than
    may lie, or it is gone.  A single receiver that doubts a dealer is believed as little as the dealer: the
    rows stay and neither is asked again.  One that contradicts more dealers than may lie is named.
    """
    counted = np.ones(len(plan.clients), np.bool_)
    doubts: dict[int, set[PartyId]] = {}
    # Whoever lacks the rows of most others is itself cut off: a loss, and nobody's lie.
    there = list(screening.numbers(screening.active))
    cut_off = {c for c in screening.active if 2 * complete[c][there].sum() < len(there)}
    screening.present = tuple(c for c in screening.present if c not in cut_off)
    contradicted: defaultdict[PartyId, set[PartyId]] = defaultdict(set)
    for j, dealer in enumerate(plan.clients):
        active = screening.active
        lacking = {c for c in active if not complete[c][j]}
        if lacking and (dealer not in active or len(lacking) > screening.left):
            counted[j] = False
            continue
        published = {plan.clients.index(c): words[c][:, j] for c in active if c not in lacking}
        judgement = screening.judged(published, 1)
        if judgement.proof:
            screening.blame(dealer, DEALING)
        elif j in judgement.doubted:
            screening.blame(dealer, WORDS)
        counted[j] = judgement.good
        for receiver in screening.names(judgement.doubted):
            contradicted[receiver].add(dealer)
        doubts[j] = lacking | set(screening.names(judgement.doubted))
    while liar := _contradicting(screening, contradicted):
        screening.blame(liar, WORDS)
    for j, doubting in doubts.items():
        remaining = doubting.intersection(screening.active)
        dealer = plan.clients[j]
        if not remaining or not counted[j]:
            continue
        if len(remaining) == 1 and dealer in screening.active:
            screening.part(dealer, *remaining)
        else:
            counted[j] = False
    return counted


def _contradicting(screening: Screening, contradicted: Mapping[PartyId, set[PartyId]]) -> PartyId | None:
    """A client whose words contradict more dealers than may still lie: were it honest, all these lied."""
    active = screening.active
    for receiver, dealers in contradicted.items():
        if receiver in active and len(dealers.intersection(active)) > screening.left:
            return receiver
    return None


def counted_by_server(plan: Plan, inbox: Mapping[PartyId, Any]) -> Array:
    """Whose rows count, (n,) bool, as the server says.  Raises FaultyServer, or TooFewReplies."""
    contributors: Array = only(take(inbox, Contributors), SERVER).complete
    if contributors.shape != (len(plan.clients),):
        raise FaultyServer(SERVER, "counted other clients than the plan has")
    return contributors


def check_count(count: int, sender: PartyId, message: Contributors) -> None:
    """Raises FaultyClient naming the sender of anything but one bool a dealer."""
    if message.complete.shape != (count,):
        raise FaultyClient(sender, "counted other dealers than there are")
