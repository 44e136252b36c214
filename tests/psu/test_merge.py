"""Multiplicities and agreement on dense rows, in both modes."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

import psu
from field import Basis, SeededCoins
from field.ring.basis import LANE_PRIMES, MERSENNE_61
from psu import masked, merge, opening, tables
from psu.errors import UnionAborted
from psu.plan import UnionPlan
from tests.oracles import psu as reference

from .test_steps import secrets_of

HELD = [[0, 1, 2, 5], [1, 2, 3, 5], [2, 4, 5]]
DATA = [[10.0, 11.0, 12.0, 15.0], [11.0, 12.5, 13.0, 15.0], [12.0, 14.0, 15.0]]  # row 2 is disputed


def summed(mode: Any) -> tuple[Any, Any]:
    plan = UnionPlan(3, mode, bytes(16), bound=6, sized=False)
    secrets = secrets_of(plan)
    out = []
    poll = opening.OpeningPoll(plan)
    for sheet in merge.merge_sheets(6):
        made = []
        for j, rows in enumerate(map(np.array, HELD)):
            if sheet.kind == "counts":
                made.append(merge.count_table(rows, 6))
            else:
                data = psu.row_digests(np.array(DATA[j])[:, None])
                prints = merge.fingerprints(data, psu.digests(rows), secrets[j])
                made.append(merge.spread_table(rows, prints, 6, SeededCoins(5, f"{j}")))
        if not plan.committee:
            state = masked.empty_tally(sheet)
            for j in range(3):
                state = masked.absorb_block(
                    plan, state, masked.mask_chunk(plan, secrets[j], sheet, made[j], 0)
                )
            out.append(masked.unmasked_sum(plan, state))
            continue
        holdings = [tables.empty_holding(sheet) for _ in range(3)]
        for j in range(3):
            for i, block in tables.deal_blocks(plan, secrets[j], sheet, made[j], 0).items():
                holdings[i] = tables.absorb_block(plan, secrets[i], holdings[i], block)
        poll, turn = opening.open_all_rows(sheet, poll)
        answers: Any = {}
        for i in range(3):
            settled = tables.settle_share(plan, secrets[i], holdings[i], range(3))
            _, answers[i] = opening.open_rows(opening.begin_opening(plan, secrets[i], settled), turn)
        out.append(opening.gather_values(sheet, 6, turn, answers))
    return out[0], out[1]


@pytest.mark.parametrize("mode", [psu.Committee(1), psu.Server()])
def test_counts_and_disagreement(mode: Any) -> None:
    sums, spreads = summed(mode)
    held = merge.count_holders(sums, 3)
    assert held.tolist() == [1, 2, 3, 1, 1, 3]
    assert merge.disagreeing_rows(spreads).tolist() == [2]
    assert merge.common_multiple(held) == 6
    factors = merge.row_factors(held, Basis(LANE_PRIMES[:2]))
    assert (factors * held == 6).all()


@pytest.mark.parametrize("primes", [LANE_PRIMES[:3], (MERSENNE_61,)])
def test_factors_are_whole_numbers_also_beyond_a_lane(primes: tuple[int, ...]) -> None:
    held = np.arange(1, 30)[[0, 3, 28, 22, 16, 12, 10, 24, 26, 15, 18, 6]]
    common = math.lcm(*held.tolist())
    assert merge.common_multiple(held) == common > 2**30
    for lane, p in zip(merge.row_factors(held, Basis(primes)), primes, strict=True):
        assert lane.tolist() == [common // c % p for c in held.tolist()]
    assert merge.common_multiple(np.empty(0, np.int64)) == 1


def test_counts_out_of_range() -> None:
    for bad in ([1, 0], [4, 1]):
        with pytest.raises(UnionAborted, match="malformed"):
            merge.count_holders(np.array(bad, np.uint64)[:, None], 3)
    assert merge.count_holders(np.empty((0, 1), np.uint64), 3).shape == (0,)
    assert merge.row_factors(np.empty(0, np.int64), Basis(LANE_PRIMES[:1])).shape == (1, 0)


def test_own_points_with_equal_ids_must_agree() -> None:
    prints = np.array([7, 8], np.uint64)
    with pytest.raises(ValueError, match="distinct IDs"):
        merge.spread_table(np.array([1, 1]), prints, 3, SeededCoins(0, "x"))
    merge.spread_table(np.array([1, 1]), prints[:1].repeat(2), 3, SeededCoins(0, "x"))


def test_spread_shows_disagreement_and_not_how() -> None:
    # All coefficients of two holders over a tiny field: what is opened depends on whether the
    # fingerprints are equal, not on which they are.
    p = 7
    laws = {}
    for f1, f2 in product(range(p), repeat=2):
        seen = sorted(reference.spread((f1, f2), r, p) for r in product(range(p), repeat=2))
        laws.setdefault(f1 == f2, set()).add(tuple(seen))
    assert len(laws[True]) == 1
    assert len(laws[False]) == 1
    assert laws[True] == {(0,) * p**2}
    # The same with the first holder's coefficient known, unless it is zero.
    for r1 in range(1, p):
        known = {
            tuple(sorted(reference.spread((f1, f2), (r1, r2), p) for r2 in range(p)))
            for f1, f2 in product(range(p), repeat=2)
            if f1 != f2
        }
        assert len(known) == 1
    # Equal data is opened as zero for three holders as well.
    assert {reference.spread((3, 3, 3), r, p) for r in product(range(p), repeat=3)} == {0}
