"""What messages of MaskedLloyd mean to whoever saw them: sums of the others' points, step by step."""

from __future__ import annotations

import numpy as np

from secfc.attacks.reconstruction import KnownSums
from secfc.attacks.views import View
from secfc.overlap.messages import SharedSums
from secfc.overlap.plan import OverlapPlan
from secfc.roles.exchange import SERVER, STRIDE, PartyId
from secfc.secure_sum.protocol import SumShares, decode_sum


def others_sums(view: View) -> KnownSums:
    """The sums that a coalition knows of all others' points: the server of all, clients on their features.

    Clients of the coalition subtract what they added, which follows from the shares that they dealt.
    """
    plan: OverlapPlan = view.plan
    columns, k = plan.columns, plan.k
    told = [e for e in view.messages if isinstance(e.body, SharedSums)]
    rounds = sorted({e.round for e in told})
    step = {number: t for t, number in enumerate(rounds)}
    sums = np.zeros((len(rounds), k, len(columns.shared)), np.int64)
    counts = np.zeros((len(rounds), k, len(columns.patterns)), np.int64)
    known = np.zeros(len(columns.shared), bool)
    for e in told:
        mine = columns.mine(e.recipient)
        known[mine.shared] = True
        sums[step[e.round]][:, mine.shared] = e.body.sums
        counts[step[e.round]][:, mine.patterns] = e.body.counts
    many = counts[:, :, columns.pattern]
    centers = np.divide(sums, many, out=np.full(sums.shape, np.nan), where=many > 0)
    for client in view.parties:
        if client == SERVER:
            continue
        mine = columns.mine(client)
        for number, vector in _added(view, client).items():
            if (t := step.get(number)) is None:
                continue
            own = vector[:-1].reshape(-1)
            cut = k * len(mine.shared)
            sums[t][:, mine.shared] -= own[:cut].reshape(k, -1)
            counts[t][:, mine.patterns] -= own[cut:].reshape(k, -1)
    return KnownSums(sums, counts, np.where(known, columns.pattern, -1), centers)


def _added(view: View, client: PartyId) -> dict[int, np.ndarray]:
    """What a client of the coalition added, by the round in which it was told the sums."""
    plan: OverlapPlan = view.plan
    dealt: dict[int, dict[PartyId, np.ndarray]] = {}
    for e in view.messages:
        if isinstance(e.body, SumShares) and e.sender == client:
            # Shares go in the first round of a sum, and its sums are told one stride after the question.
            dealt.setdefault(e.round - 1 + STRIDE, {})[e.recipient] = e.body.values
    length = len(plan.spread.places[client])
    return {number: decode_sum(plan.sums, shares, length) for number, shares in dealt.items()}
