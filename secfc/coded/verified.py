"""Judging what clients deal to one another, before anybody relies on it: whom to believe, whom to leave out.

Rows are tested by `secfc.coded.validity`, a blinding by random words of it (`field.code.correct`): mask words
are dealt along, and once every receiver has said that all shares arrived, the server draws a challenge, and
receivers tell random words of what they were dealt, masked.  They lie on a polynomial of the degree if the
shares do, and say nothing else.  That assumes a server that does not collude with lying dealers: one that
knew the challenge before it dealt could pass.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.code.opened import Opened, Pattern
from field.secrets.coins import Coins
from secfc.coded.plan import Plan
from secfc.coded.screening import WORDS, Screening
from secfc.roles.exchange import SERVER, FaultyClient, FaultyServer, PartyId, only, take
from secfc.roles.messages import Contributors

Array = NDArray[Any]


def challenge_coins(seed: bytes, dealer: int) -> Coins:
    """The public coins by which all receivers combine the shares of one dealer, by its number."""
    digest = hashlib.blake2b(dealer.to_bytes(4, "little"), key=seed, digest_size=16, person=b"secfc dealing")
    return Coins(digest.digest())


# --- server ----------------------------------------------------------------------------------------


def judge_dealers(
    plan: Plan,
    screening: Screening,
    complete: Mapping[PartyId, Array],
    opened: Mapping[PartyId, Opened],
    pattern: Pattern,
) -> Array:
    """Whose rows count, (n,) bool, by who has them complete, (n,) bool, and what it opened under a pattern.

    A dealer is named if its shares lie on no polynomial or its rows are out of range, and left out if more
    receivers lack its rows than may lie, or it is gone.  A single receiver that doubts a dealer is believed
    as little as the dealer: the rows stay and neither is asked again.  One that contradicts more dealers than
    may lie is named.
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
        where = plan.block_slices[j]
        published = {plan.clients.index(c): opened[c].of(where) for c in active if c not in lacking}
        judgement = screening.judged_rows(pattern, published)
        if judgement.proof:
            screening.blame(dealer, judgement.why)
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
