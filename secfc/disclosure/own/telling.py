"""The end of a run on shared labels: who tells owners their labels, role fragments of every client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.code.parts import seeded
from field.secrets.coins import Coins
from secfc.coded.messages import Unheard
from secfc.coded.silence import NOBODY_MISSED
from secfc.disclosure.compare.match import Match
from secfc.disclosure.compare.participant import shown_in
from secfc.disclosure.joint.messages import Reshared
from secfc.disclosure.joint.steps import Stalled, Steps
from secfc.disclosure.own.owners import HiddenOwners, PublicOwners
from secfc.roles.accept import check_residues
from secfc.roles.exchange import STRIDE, Exchange, PartyId, Role, take
from secfc.roles.messages import Message

Array = NDArray[Any]
# Streams with these clients, the so many-th of a question: each gives every mask once.
Streams = Callable[[int, set[int]], dict[int, Coins]]

# The step after all others of an answer, in which owners hear their labels.
LAST = STRIDE - 1


def picked(
    owners: HiddenOwners, match: Match, steps: Steps, part: Array | None, streams: Streams
) -> Role[Mapping[int, Message] | None]:
    """What I tell each hidden owner, if I am to respond: nobody learns which rows are whose.

    part: my additive part of all labels' numbers (1, m), if I am in the committee.

    Raises Stalled if a member is not heard; who only owns points may be gone.
    """
    clients, me = match.plan.clients, owners.me
    responders, responds = tuple(match.question.responders.tolist()), clients[me] in match.responders
    expanded = owners.expanded_by(responders)
    seeds = streams(2, {*seeded(owners.code, me, responders), *expanded})
    dealt = owners.dealt(responders, part, seeds)
    send = {j: Reshared(share) for j, share in dealt.items() if j != me}
    awaited = [j for j in owners.asking if responds and j != me and j not in expanded]
    inbox, _ = yield from steps.heard(send, awaited, Reshared)
    if not responds:
        return None
    for j, message in inbox.items():
        check_residues(owners.code.basis, clients[j], message.values, (owners.size(match, j),))
    shares = {j: share for j, share in dealt.items() if j == me}
    shares |= {j: message.values for j, message in inbox.items()}
    shares |= {j: owners.share(match, j, seeds[j]) for j in expanded}
    missing = {*match.question.committee.tolist()} - set(shares)
    if missing:
        raise Stalled(steps.step, missing)
    return owners.picked(match, responders, shares, streams(3, {*responders}))


def my_labels(
    match: Match, k: int, owners: PublicOwners | HiddenOwners, told: Mapping[int, Message] | None
) -> Role[tuple[Array | None, set[int]]]:
    """The labels (m,) of my own rows, None if not all who tell told me; and who said nothing.

    told: what I tell owners, by number, None if I cannot.
    """
    clients, send = match.plan.clients, dict[PartyId, Message]()
    telling, name, asks = owners.telling(match), clients[owners.me], owners.me in owners.asking
    if name in telling:
        stalled = dict.fromkeys(owners.asking, Unheard(LAST, NOBODY_MISSED))
        send = {clients[j]: message for j, message in (stalled if told is None else told).items()}
    own = {c: send.pop(c) for c in (name,) if c in send}
    others = tuple(c for c in telling if c != name) if asks else ()
    inbox = yield Exchange(send, others, 0, round=shown_in(match.question), phase="open")
    if not asks:
        return np.full(match.plan.m, -1, np.int32), set()
    spoken = {c: m for c, m in (own | dict(inbox)).items() if not isinstance(m, Unheard)}
    heard = take(spoken, owners.kind)
    if len(heard) < len(telling):
        return None, {clients.index(c) for c in others if c not in inbox}
    return owners.labels(match, k, heard), set()
