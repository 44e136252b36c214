"""Additive parts shared anew: exact products, uniform shares at any t receivers, and the form that fell."""

from collections import Counter
from itertools import combinations, product

import numpy as np
import pytest

from field.code.lagrange_code import LagrangeCode, transfer_rows
from field.code.masking import (
    deal_part,
    deal_values,
    expand_share,
    seeded_receivers,
    uniform_receivers,
    weighted_part,
)
from field.code.reed_solomon import off_polynomial
from field.ring.basis import LANE_PRIMES, Basis
from field.secrets.coins import SeededCoins

CASES = [(3, 1, 1, 2), (6, 1, 1, 2), (5, 2, 1, 2), (7, 2, 2, 3), (9, 2, 3, 4), (11, 1, 5, 6), (2, 1, 0, 2)]


def shared(code, parts, holders, receivers):
    """Each receiver's share of the sum of the holders' parts (lanes, N)."""
    out = dict.fromkeys(receivers, 0)
    for part, holder in zip(parts, holders, strict=True):
        known = seeded_receivers(code, holder, receivers)
        seeds = [SeededCoins(holder, f"{j}") for j in known]
        shares = deal_part(code, part, known, receivers, seeds)
        shares |= {j: expand_share(code, part.shape[1], SeededCoins(holder, f"{j}")) for j in known}
        assert set(shares) == set(receivers)
        for j, share in shares.items():
            out[j] = code.basis.add(share, np.broadcast_to(out[j], share.shape).astype(code.basis.dtype))
    return out


@pytest.mark.parametrize(("n", "ell", "t", "members"), CASES)
def test_sums_of_points_by_shared_labels_are_exact(n, ell, t, members):
    basis = Basis(LANE_PRIMES[:2])
    code, coins = LagrangeCode(basis, n, ell, t), SeededCoins(1, "points")
    rng, m, d, k = np.random.default_rng(n), 9, 5, 3
    points = rng.integers(-50, 50, (m, d))
    bits = rng.integers(0, 2, (k, m))
    receivers = tuple(sorted(rng.choice(n, code.threshold(2), replace=False).tolist()))
    holders = tuple(range(members))
    parts = [basis.sample((k * m,), coins) for _ in holders[1:]]
    rest = basis.reduce(bits.reshape(-1))
    for part in parts:
        rest = basis.add(rest, basis.negate(part).astype(basis.dtype))
    labels = shared(code, [*parts, rest], holders, receivers)
    coded = code.share(basis.reduce(points), coins)
    dealt = [
        code.share(
            weighted_part(code, receivers, j, basis.matmul(labels[j].reshape(-1, k, m), coded[j])), coins
        )
        for j in receivers
    ]
    sums = {j: dealt[0][j] for j in range(n)}
    for others in dealt[1:]:
        sums = {j: basis.add(share, others[j]) for j, share in sums.items()}
    for some in (range(code.threshold(1)), range(n - code.threshold(1), n)):
        segments = basis.lift_signed(code.interpolate({j: sums[j] for j in some}, 1))
        assert (np.concatenate(list(segments), axis=-1)[:, :d] == bits @ points).all()


@pytest.mark.parametrize(("ell", "t"), [(1, 1), (2, 1), (1, 2), (2, 2)])
def test_any_t_shares_of_a_part_are_uniform(ell, t):
    """All seeds, modulo 13: every t receivers see every t values equally often, whatever the part."""
    p = 13
    code = LagrangeCode(Basis((p,)), 2 * (ell + t - 1) + 1, ell, t)
    receivers = tuple(range(code.n))
    known = seeded_receivers(code, 0, receivers)
    points = (*code.betas[:ell], *(code.alphas[j] for j in known))
    matrix = np.array(transfer_rows(points, code.alphas, p))
    for part in (0, 1):
        values = np.array([matrix @ [*[part] * ell, *free] % p for free in product(range(p), repeat=t)])
        for some in combinations(receivers, t):
            assert set(Counter(map(tuple, values[:, some].tolist())).values()) == {1}
    # The form that fell: degree t through the part at ell points has t - ell + 1 free coefficients; at
    # ell = 2, t = 1 none, so that every share is the part.
    if (ell, t) == (2, 1):
        line = np.array(transfer_rows(code.betas[:2], code.alphas, p))
        assert {tuple(line @ [part, part] % p) for part in (0, 1)} == {(0,) * code.n, (1,) * code.n}


def test_seeds_go_to_those_after_a_holder_or_to_the_first_where_it_receives_nothing():
    code, receivers = LagrangeCode(Basis(LANE_PRIMES[:1]), 20, 2, 2), (3, 5, 7, 9, 11)
    assert [seeded_receivers(code, j, receivers) for j in (7, 11, 4)] == [(9, 11), (3, 5), (3, 5)]
    uniform = [uniform_receivers(code, j, receivers) for j in (7, 11, 4)]
    assert uniform == [(9, 11, 3), (3, 5, 7), (3, 5, 7, 9)]


@pytest.mark.parametrize(("ell", "t"), [(1, 1), (2, 2)])
def test_shares_of_values_have_the_degree_of_a_product_and_no_more(ell, t):
    code, coins = LagrangeCode(Basis(LANE_PRIMES[:2]), 9, ell, t), SeededCoins(4, "values")
    values = code.basis.sample((ell, 5), coins)
    told = np.stack(deal_values(code, values, coins), axis=1)
    assert not off_polynomial(code, told, tuple(range(9)), 2).any()
    few = dict(enumerate(np.moveaxis(told, 1, 0)[: code.threshold(2)]))
    assert (code.interpolate(few, 2) == values).all()


@pytest.mark.parametrize("t", range(1, 6))
def test_no_seed_serves_twice(t):
    receivers = tuple(range(3, 3 + 2 * t + 1))
    code = LagrangeCode(Basis(LANE_PRIMES[:1]), 20, 1, t)
    pairs = [frozenset((p, j)) for p in receivers for j in seeded_receivers(code, p, receivers)]
    assert len(set(pairs)) == len(pairs)
    assert all(len(pair) == 2 for pair in pairs)
