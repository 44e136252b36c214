"""A client that shares rows of its own making, and runs in which one does."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np

import secfc
from field import SeededCoins
from field.code.range_check import MaskSelection, MaskShortage, project_integers, select_masks
from field.compare.assignment_step import AssignmentStep
from secfc.algorithm import PublicFacts
from secfc.coded.plan import CodedPlan
from secfc.coded_kmeans import algorithm1
from secfc.roles.exchange import SERVER, SimulatedRun
from secfc.transport.simulate import simulate

BOUND = 8.0


def crafting(deviating: str, rows: Any) -> Any:
    """What `algorithm1.agree_on_rows` is where `deviating` shares these integers (m_j, d), of any size."""
    at_client = algorithm1.agree_on_rows

    def crafted(way: Any, draft: Any, party: Any, coins: Any) -> Any:
        plan, mine = yield from at_client(way, draft, party, coins)
        if party.name != deviating:
            return plan, mine
        made = rows(plan) if isinstance(draft, CodedPlan) else rows(plan, mine)
        values = np.asarray(made, object)
        return plan, dataclasses.replace(mine, read=lambda begin, end: values[begin:end])

    return crafted


def shameless(test: Any, sums: Any, masks: Any) -> MaskSelection:
    """Announces masks also where none hides the sums: those under which the most rows pass."""
    try:
        return select_masks(test, sums, masks)
    except MaskShortage:
        pass
    used = np.zeros((len(sums), test.words), np.bool_)
    for block, values in enumerate(sums):
        places, at = [], 0
        for row in range(test.rows):
            last = test.odds.spare + row
            good = [
                w for w in range(at, last + 1) if (np.abs(values[row] + masks[block, w]) <= test.most).all()
            ]
            at = good[0] if good else min(at, last)
            places.append(at)
            at += 1
        used[block, places] = True
    return MaskSelection(np.arange(len(sums), dtype=np.int32), used)


def forced(values: Any, ell: int, signs: Any) -> Any:
    """Projections of integers of any size, cut to 64 bits: who deviates needs them to choose."""
    try:
        return project_integers(values, ell, signs)
    except OverflowError:
        rows, d = values.shape
        width = -(-d // ell)
        padded = np.zeros((rows, ell * width), object)
        padded[:, :d] = values
        blocks = -(-rows * width // signs.shape[1])
        flat = np.zeros((ell, blocks * signs.shape[1]), object)
        flat[:, : rows * width] = padded.reshape(rows, ell, width).transpose(1, 0, 2).reshape(ell, -1)
        sums = flat.reshape(ell, blocks, -1) @ signs.T.astype(object)
        return np.clip(sums, -(2**61), 2**61).astype(np.int64).transpose(1, 2, 0)


def wrapped(plan: Any, values: Any) -> Any:
    """Any integers, centered modulo the plan's modulus: what arithmetic in code of one's own sees."""
    modulus = plan.code.basis.modulus
    values = np.asarray(values, object) % modulus
    return values - (values > modulus // 2).astype(object) * modulus


def honest(federation: Any, j: int) -> Callable[[Any], Any]:
    """Rows of client number j as its own quantizer gives them."""
    party = federation.parties[j]
    return lambda plan: plan.quantizer(party.read())


def deviate(
    way: secfc.SecFC,
    federation: Any,
    rows: Callable[..., Any],
    *,
    deviating: str,
    change: Callable[[Any], Any] = lambda role: role,
    seed: int = 0,
    **options: Any,
) -> SimulatedRun:
    """A run in which `deviating client` shares rows(plan); change: what else its role does.

    With hidden membership it shares rows(plan, mine), from its honest contribution.
    """
    plan = way.plan(dataclasses.replace(PublicFacts.of(federation, BOUND), session=bytes(32)))
    coins = {name: SeededCoins(seed, name) for name in (*federation.names, SERVER)}
    roles = {}
    for party in federation.parties:
        role = way.client(plan, party, coins=coins[party.name])
        roles[party.name] = change(role) if party.name == deviating else role
    roles[SERVER] = way.server(plan, rng=np.random.default_rng(seed), coins=coins[SERVER])
    with mock.patch.object(algorithm1, "agree_on_rows", crafting(deviating, rows)):
        return simulate(roles, **options)


def flip_dealt_bits(
    monkeypatch: Any, rows: tuple[int, ...], chosen: Callable[[AssignmentStep], bool]
) -> None:
    """Who deals for chosen steps flips bits in one of the lanes in which it deals them: of these rows, of the
    first outcome."""
    deal = AssignmentStep._deal_after

    def dealing(self: AssignmentStep, deck: Any) -> None:
        residues, masks, dealt = deck.residues, deck.masks, []
        deck.residues = lambda *of: dealt.append(residues(*of)) or dealt[-1]
        deck.masks = lambda *of: dealt.append(masks(*of)) or dealt[-1]
        deal(self, deck)
        (parts, bits), p = dealt[:2], self.basis.primes[0]
        for row in rows if chosen(self) else ():
            bit = int(bits[0, row // 64] >> np.uint64(row % 64) & np.uint64(1))
            parts[0, 0, row] = (int(parts[0, 0, row]) + 1 - 2 * bit) % p

    monkeypatch.setattr(AssignmentStep, "_deal_after", dealing)
