"""A client that shares rows of its own making, and runs in which one does."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import secfc
from field import SeededCoins
from field.code.opened import project_integers
from field.code.projections import Choice, MaskShortage, choose
from secfc.algorithm import Public
from secfc.coded.membership import Open, Private
from secfc.exact import secfc as coded
from secfc.roles.exchange import SERVER
from secfc.roles.transcript import Run
from secfc.transport.simulate import simulate

BOUND = 8.0


@dataclass(frozen=True)
class Crafted(Open):
    """Open membership of a client whose rows are these integers (m_j, d), of any size."""

    rows: Any = None

    def client(self, draft: Any, party: Any, *, coins: Any) -> Any:
        plan, honest = yield from super().client(draft, party, coins=coins)
        crafted = np.asarray(self.rows(plan), object)
        return plan, dataclasses.replace(honest, read=lambda begin, end: crafted[begin:end])


@dataclass(frozen=True)
class CraftedPrivate(Private):
    """Hidden membership of a client that says what it holds, and shares these integers (m, d) instead."""

    rows: Any = None

    def client(self, draft: Any, party: Any, *, coins: Any) -> Any:
        plan, honest = yield from super().client(draft, party, coins=coins)
        crafted = np.asarray(self.rows(plan, honest), object)
        return plan, dataclasses.replace(honest, read=lambda begin, end: crafted[begin:end])


def crafted(membership: Any, rows: Any) -> Any:
    """The same membership of a client that shares these rows."""
    if isinstance(membership, Open):
        return Crafted(rows=rows)
    return CraftedPrivate(membership.mode, membership.bound, membership.sized, membership.merge, rows)


def shameless(test: Any, sums: Any, masks: Any) -> Choice:
    """Announces masks also where none hides the sums: those under which the most rows pass."""
    try:
        return choose(test, sums, masks)
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
    return Choice(np.arange(len(sums), dtype=np.int32), used)


def forced(values: Any, ell: int, signs: Any) -> Any:
    """Projections of integers of any size, cut to 64 bits: all that a cheater needs them for is to choose."""
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
    """Any integers, centered modulo the plan's modulus: what the arithmetic of a cheater's own code sees."""
    modulus = plan.code.basis.modulus
    values = np.asarray(values, object) % modulus
    return values - (values > modulus // 2).astype(object) * modulus


def honest(federation: Any, j: int) -> Callable[[Any], Any]:
    """Rows of client number j as its own quantizer gives them."""
    party = federation.parties[j]
    return lambda plan: plan.quantizer(party.read())


def run(
    way: secfc.SecFC,
    federation: Any,
    rows: Callable[..., Any],
    *,
    cheater: str,
    change: Callable[[Any], Any] = lambda role: role,
    seed: int = 0,
    **options: Any,
) -> Run:
    """A run in which `cheater` shares rows(plan); change: what else its role does.

    With hidden membership it shares rows(plan, mine), from its honest contribution.
    """
    plan = way.plan(dataclasses.replace(Public.of(federation, BOUND), session=bytes(32)))
    coins = {name: SeededCoins(seed, name) for name in (*federation.names, SERVER)}
    roles = {}
    for party in federation.parties:
        own = way
        if party.name == cheater:
            own = dataclasses.replace(way, membership=crafted(way.membership, rows))
        role = coded.client(own, plan, party, coins=coins[party.name])
        roles[party.name] = change(role) if party.name == cheater else role
    roles[SERVER] = way.server(plan, rng=np.random.default_rng(seed), coins=coins[SERVER])
    return simulate(roles, **options)
