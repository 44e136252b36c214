"""What messages of `FederatedLloyd` mean to whoever saw them: sums of the others' points, step by step."""

from __future__ import annotations

import numpy as np

from field.arrays import Array
from secfc.attacks.reconstruction import KnownSums
from secfc.attacks.views import View
from secfc.federated.columns import OwnColumns
from secfc.federated.plan import FederatedPlan, RunKey, SharedTotals
from secfc.roles.exchange import SERVER, STRIDE, PartyId
from secfc.secure_sum.protocol import SumShares, decode_sum
from secfc.secure_sum.seeds import ShareSeed, expand_seeds


def others_sums(view: View) -> KnownSums:
    """The sums that a coalition knows of all others' points, of the steps with as many clusters as the last.

    Of none under pads, unless a client is in it.  Clients of the coalition subtract what they added, which
    follows from the shares that they dealt.
    """
    plan: FederatedPlan = view.plan
    columns, told = plan.columns, told_values(view)
    clusters = plan.count_clusters(pair_counted(view, told))
    k = clusters[max(clusters)] if clusters else 0
    rounds = [number for number, c in clusters.items() if c == k]
    sums = np.zeros((len(rounds), k, len(columns.shared)), np.int64)
    counts = np.zeros((len(rounds), k, len(columns.patterns)), np.int64)
    for t, number in enumerate(rounds):
        for client, values in told[number].items():
            mine = columns.mine(client)
            sums[t][:, mine.shared], counts[t][:, mine.patterns] = split_block(mine, values, k)
    known = np.zeros(len(columns.shared), bool)
    for client in {client for heard in told.values() for client in heard}:
        known[columns.mine(client).shared] = True
    many = counts[:, :, columns.pattern]
    centers = np.divide(sums, many, out=np.full(sums.shape, np.nan), where=many > 0)
    for client in view.parties:
        added = {} if client == SERVER else added_values(view, client)
        for t, number in enumerate(rounds):
            if number in added:
                mine = columns.mine(client)
                own_sums, own_counts = split_block(mine, added[number], k)
                sums[t][:, mine.shared] -= own_sums
                counts[t][:, mine.patterns] -= own_counts
    return KnownSums(sums, counts, np.where(known, columns.pattern, -1), centers)


def pair_counted(view: View, told: dict[int, dict[PartyId, Array]]) -> dict[int, tuple[Array, bytes]]:
    """What one client was told (D_j,), and a digest of whom it counts, by round."""
    counted = {e.round: e.body.counted for e in view.messages if isinstance(e.body, SharedTotals)}
    return {number: (next(iter(heard.values())), counted[number]) for number, heard in told.items()}


def split_block(mine: OwnColumns, values: Array, k: int) -> tuple[Array, Array]:
    """Sums (k, s_j) and numbers of points (k, p_j) at the beginning of a client's numbers."""
    cut = k * len(mine.shared)
    counts = values[cut : cut + k * len(mine.patterns)]
    return values[:cut].reshape(k, -1), counts.reshape(k, -1)


def told_values(view: View) -> dict[int, dict[PartyId, Array]]:
    """What a coalition can read of what the server told clients, by round and client: (D_j,) each."""
    plan: FederatedPlan = view.plan
    basis = plan.sums.code.basis
    key = next((e.body.key for e in view.messages if isinstance(e.body, RunKey)), None)
    found: dict[int, dict[PartyId, Array]] = {}
    for e in view.messages:
        if not isinstance(e.body, SharedTotals) or (plan.blind and key is None):
            continue
        values = e.body.values
        if key is not None and plan.blind:
            length = values.shape[1] if plan.summand_layout is None else plan.length
            hidden = plan.draw_pad(key, e.round - STRIDE, length, e.body.counted)
            values = basis.add(
                values, basis.negate(np.ascontiguousarray(hidden[:, plan.places(e.recipient)]))
            )
        found.setdefault(e.round, {})[e.recipient] = basis.lift_signed(values)
    return found


def added_values(view: View, client: PartyId) -> dict[int, Array]:
    """What a client of the coalition added, by the round in which it was told the sums."""
    plan: FederatedPlan = view.plan
    own = [e for e in view.messages if e.sender == client]
    seeds = {e.recipient: e.body.seeds for e in own if isinstance(e.body, ShareSeed)}
    dealt: dict[int, dict[PartyId, Array]] = {}
    for e in own:
        if isinstance(e.body, SumShares):
            # Shares go in the first round of a sum, and its sums are told one stride after the question.
            table = dealt.setdefault(e.round - 1 + STRIDE, {})
            table[e.recipient] = e.body.values
            for member, seed in seeds.items():
                width = e.body.values.shape[1]
                table[member] = expand_seeds(plan.sums.code.basis, (seed,), e.round, width)[:, 0]
    return {
        number: decode_sum(plan.sums, shares, plan.sums.code.ell * next(iter(shares.values())).shape[1])
        for number, shares in dealt.items()
    }
