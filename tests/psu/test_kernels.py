"""Kernels against their twins in Python integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from field import MERSENNE_61 as Q
from field import SeededCoins
from psu import identify, kernels
from psu.plan import HASHES
from tests.oracles import psu as reference

EDGES = [0, 1, 2, Q - 1, Q - 2, 2**60, 2**32, 2**32 - 1]


def residues(size: int, label: str) -> Any:
    drawn = SeededCoins(0, label).residues(Q, size)
    drawn[: len(EDGES)] = EDGES[: len(drawn)]
    return drawn


def test_products_and_sums() -> None:
    a = np.repeat(np.array(EDGES, np.uint64), len(EDGES))
    b = np.tile(np.array(EDGES, np.uint64), len(EDGES))
    assert kernels.multiply(a, b).tolist() == [x * y % Q for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    total = a.copy()
    kernels.add_into(total, b)
    assert total.tolist() == [(x + y) % Q for x, y in zip(a.tolist(), b.tolist(), strict=True)]


def test_streams() -> None:
    words = np.array([2**64 - 1, Q, Q - 1, 0, 2**63 + 5], np.uint64)
    low = [w & Q if w & Q != Q else 0 for w in words.tolist()]
    total = np.array([Q - 1, 0, Q - 1, 7, 9], np.uint64)
    for step, sign in ((kernels.add_stream, 1), (kernels.subtract_stream, -1)):
        got = total.copy()
        step(got, words)
        assert got.tolist() == [(x + sign * w) % Q for x, w in zip(total.tolist(), low, strict=True)]
    got = total.copy()
    kernels.accumulate_stream(got, words, np.uint64(Q - 1))
    assert got.tolist() == [(x + (Q - 1) * w) % Q for x, w in zip(total.tolist(), low, strict=True)]


@pytest.mark.parametrize("t", [1, 4, 62])
def test_interpolation_at_the_largest_sums(t: int) -> None:
    secret = np.full(3, Q - 1, np.uint64)
    pads, weights = np.full((t, 3), Q - 1, np.uint64), np.full(t + 1, Q - 1, np.uint64)
    out = np.empty(3, np.uint64)
    kernels.interpolate(secret, pads, weights, out)
    assert out.tolist() == [(t + 1) * (Q - 1) ** 2 % Q] * 3


def test_cells_and_openings() -> None:
    z, y, r, part = residues(40, "z"), residues(40, "y"), residues(40, "r"), 7
    salt = (np.uint64(5), np.uint64(2**64 - 3))
    at = kernels.positions(z, y, HASHES, part, *salt)
    assert (at // part == np.arange(HASHES)).all()
    table, lines = np.zeros((HASHES * part, 6), np.uint64), np.zeros((HASHES * part, 3), np.uint64)
    kernels.add_gram(z, y, r, table, HASHES, part, *salt)
    kernels.add_lines(z, y, r, lines, HASHES, part, *salt)
    g = residues(3 * len(table), "g").reshape(-1, 3)
    active = np.arange(len(table))
    out = np.zeros((len(table), 3), np.uint64)
    kernels.open_gram(table, active, g, np.uint64(3), out)
    for c in range(len(table)):
        inside = [i for i in range(len(z)) if c in at[i]]
        cell = reference.gram([(int(z[i]), int(y[i])) for i in inside], [int(r[i]) for i in inside], Q)
        assert tuple(table[c].tolist()) == cell
        assert tuple(lines[c].tolist()) == cell[:3]
        shown = reference.opened(cell, tuple(g[c].tolist()), Q)
        assert out[c].tolist() == [3 * v % Q for v in shown]


def test_removal_and_changed_cells() -> None:
    # More IDs than the kernel works on at once, one after another in the plain twin.
    count, part, salt = 150, 10_000, (np.uint64(5), np.uint64(7))
    z, y = residues(count, "z"), residues(count, "y")
    at = kernels.positions(z, y, HASHES, part, *salt)
    pure = np.array([1 + i % 15 for i in range(count)], np.uint8)
    shares = residues(6 * HASHES * part, "shares").reshape(-1, 6)
    status = np.full(HASHES * part, kernels.UNKNOWN, np.int32)
    want, changed = shares.copy(), set()
    for i in range(count):
        bits = [k for k in range(HASHES) if pure[i] >> k & 1]
        row = want[at[i, bits[0]]].astype(object)
        for k in range(HASHES):
            want[at[i, k]] = ((want[at[i, k]].astype(object) - row) % Q).astype(np.uint64)
            if k not in bits:
                changed.add(int(at[i, k]))
    kernels.remove(shares, z, y, pure, HASHES, part, *salt, status)
    assert np.array_equal(shares, want)
    assert np.flatnonzero(status == kernels.CHANGED).tolist() == sorted(changed)
    assert kernels.changed_cells(status).tolist() == sorted(changed)
    assert (status == kernels.UNKNOWN).all()
    status[:3] = [kernels.RESOLVED, 7, kernels.CHANGED]
    assert kernels.changed_cells(status).tolist() == [2]
    assert status[:3].tolist() == [kernels.RESOLVED, 7, kernels.UNKNOWN]
    assert kernels.changed_cells(status[:0]).tolist() == []


@pytest.mark.parametrize("size", [0, 1, 2, 8, 9, 1000, 30_000])
def test_the_order_of_tags(size: int) -> None:
    z, y = residues(size, "z"), residues(size, "y")
    z[::7] = z[: len(z[::7])]
    order = kernels.ascending(z, y)
    assert np.array_equal(order, np.lexsort((y, z)))
    assert np.array_equal(identify.ascending(z, y), order)


@pytest.mark.parametrize("distinct", [1, 2, 1000])
def test_the_order_of_crowded_tags(distinct: int) -> None:
    z, y = np.arange(1000, dtype=np.uint64)[::-1] % np.uint64(distinct), residues(1000, "y")
    assert not len(kernels.ascending(z, y))
    assert np.array_equal(identify.ascending(z, y), np.lexsort((y, z)))


@pytest.mark.parametrize("t", [1, 2])
def test_shares_are_interpolated(t: int) -> None:
    secret, pads, weights = residues(100, "s"), residues(100 * t, "p").reshape(t, 100), residues(t + 1, "w")
    out = np.empty(100, np.uint64)
    kernels.interpolate(secret, pads, weights, out)
    rows = np.concatenate([secret[None], pads]).T.tolist()
    assert out.tolist() == [
        sum(a * b for a, b in zip(row, weights.tolist(), strict=True)) % Q for row in rows
    ]


def test_single_round_openings() -> None:
    rows = residues(30, "rows").reshape(10, 3)
    active, g = np.array([1, 4, 9]), residues(3, "rho").reshape(3, 1)
    out = np.zeros((3, 1), np.uint64)
    kernels.open_spread(rows, active, np.uint64(2), out)
    want = [2 * (a * c - b * b) % Q for a, b, c in rows[active].tolist()]
    assert out[:, 0].tolist() == want
    column, scaled = np.ascontiguousarray(rows[:, :1]), np.zeros((3, 1), np.uint64)
    kernels.open_scaled(column, active, g, np.uint64(5), scaled)
    assert scaled[:, 0].tolist() == [
        5 * v * x % Q for v, x in zip(g[:, 0].tolist(), column[active, 0].tolist(), strict=True)
    ]
    plain = np.full((3, 1), Q - 1, np.uint64)
    kernels.open_plain(column, active, np.uint64(5), plain)
    assert plain[:, 0].tolist() == [(5 * x - 1) % Q for x in column[active, 0].tolist()]


def trial(m: int, rows: int, rng: np.random.Generator) -> bool:
    """Whether a random table of this many cells is peeled completely."""
    words = rng.integers(0, 2**64, (m, 2), np.uint64)
    z, y = np.empty(m, np.uint64), np.empty(m, np.uint64)
    kernels.split_tags(words, z, y)
    table = np.zeros((rows, 3), np.uint64)
    place = (HASHES, rows // HASHES, np.uint64(1), np.uint64(2))
    kernels.add_lines(z, y, rng.integers(1, Q, m, np.uint64), table, *place)
    out_z, out_y = np.empty(rows + 1, np.uint64), np.empty(rows + 1, np.uint64)
    found, left = kernels.peel_lines(table, *place, out_z, out_y)
    assert found <= m
    assert set(out_z[:found].tolist()) <= set(z.tolist())
    assert (left == 0) == (found == m)
    return bool(left == 0)


@pytest.mark.parametrize("m", [0, 1, 2, 16, 64, 700])
def test_tables_of_the_planned_size_are_peeled(m: int) -> None:
    import psu

    rows = psu.UnionPlan(3, psu.Server(), bytes(16), bound=max(m, 1), sized=False).cells(m, 0).rows
    rng = np.random.default_rng(m)
    # At a failure rate of 1e-3 six failures of 1000 have probability below 1e-3, and the seed is fixed.
    assert sum(not trial(m, rows, rng) for _ in range(1000)) < 6


def test_an_overloaded_table_stalls_and_recovers_nothing_wrong() -> None:
    rng = np.random.default_rng(0)
    assert not any(trial(200, 160, rng) for _ in range(20))
