"""By how much other centers are nearer: against Python integers, at the modulus, and in a contest."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from field import Basis
from field.code.distances import distance_margins
from field.code.lagrange_code import LagrangeCode
from field.compare.argmin import ArgminContest
from field.ring.basis import LANE_PRIMES
from field.ring.quantize import distance_bound
from field.secrets.coins import SeededCoins

BASIS = Basis(LANE_PRIMES[:3])


def by_hand(scaled, own, sizes):
    """v D_a - u D_h + [h < a] of the other clusters h in their order, Python integers (K - 1, m)."""
    out = []
    for i, a in enumerate(own.tolist()):
        column = []
        for h in range(len(sizes)):
            if h != a:
                g = math.gcd(sizes[a], sizes[h])
                far, near = (sizes[h] // g) ** 2, (sizes[a] // g) ** 2
                column.append(far * scaled[a][i] - near * scaled[h][i] + (h < a))
        out.append(column)
    return np.array(out, object).T


def residues(values, basis=BASIS):
    return basis.reduce(np.array(values, object))


@given(st.integers(2, 7), st.integers(1, 70), st.booleans(), st.integers(0, 2**32))
def test_leads_are_those_of_python_integers(k, m, alike, seed):
    rng = np.random.default_rng(seed)
    sizes = np.full(k, 16) if alike else rng.integers(1, 40, k)
    scaled = rng.integers(0, 2**40, (k, m)).tolist()
    own = rng.integers(0, k, m)
    found = distance_margins(BASIS, residues(scaled), own, sizes, 1, threads=2)
    assert found.dtype == BASIS.dtype
    assert (BASIS.lift_signed(found) == by_hand(scaled, own, sizes.tolist())).all()


def test_residues_at_the_ends_of_the_range_are_canonical():
    # Distances of 0 and p - 1 in every lane, own centers first and last, in both kernels.
    top = np.array([p - 1 for p in BASIS.primes], BASIS.dtype)[:, None, None]
    values = np.concatenate([np.zeros((3, 2, 4), BASIS.dtype), np.broadcast_to(top, (3, 2, 4))], axis=1)
    own = np.arange(4)
    for sizes in (np.full(4, 16), np.array([3, 5, 7, 11])):
        found = distance_margins(BASIS, values, own, sizes, 1)
        BASIS.check(found, (3, 4))
        for lane, p in enumerate(BASIS.primes):
            expected = by_hand(values[lane].tolist(), own, sizes.tolist()) % p
            assert (found[lane] == expected).all()


@pytest.mark.parametrize("ell", [1, 2, 3])
def test_the_constant_is_one_however_many_segments_a_value_is_the_sum_of(ell):
    # Shares of numbers, decoded as the sum over the segments.
    code = LagrangeCode(BASIS, 2 * ell + 1, ell, 1)
    rng = np.random.default_rng(ell)
    parts = rng.integers(0, 2**20, (3 * 5, ell))
    shares = code.share(BASIS.reduce(parts), SeededCoins(ell, "leads"))
    own, sizes = np.array([2, 1, 0, 2, 1]), np.array([2, 3, 5])
    scaled = parts.sum(axis=1).reshape(3, 5).tolist()
    told = {
        j: distance_margins(BASIS, share[:, :, 0].reshape(3, 3, 5), own, sizes, ell)
        for j, share in enumerate(shares)
    }
    found = BASIS.lift_signed(code.decode(told, 2))
    assert (found == by_hand(scaled, own, sizes.tolist())).all()


@given(st.lists(st.integers(0, 9), min_size=2, max_size=7), st.integers(0, 2**32))
def test_a_point_stays_exactly_where_no_other_center_wins(sizes, seed):
    # Small distances, so that ties are the rule; sizes of 0 take no part.
    if np.count_nonzero(sizes) < 2:
        sizes = [*sizes, 2, 3]
    rng = np.random.default_rng(seed)
    alive = [s for s in sizes if s]
    m, k = 50, len(alive)
    own = rng.integers(0, k, m)
    squares = rng.integers(0, 4, (k, m))  # D_h / s_h**2
    scaled = [[int(x) * s**2 for x in row] for row, s in zip(squares, alive, strict=True)]
    contest = ArgminContest.unbeaten(np.array(sizes))
    rows = by_hand(scaled, own, alive)
    won = np.array([[x > 0 for x in row] for row in rows])
    (literals,), (wanted,) = contest.literals, contest.wanted
    stays = (won[literals] == wanted[:, None]).all(axis=0)
    nearest = squares.argmin(axis=0)  # ties to the lowest
    assert (contest.labels[stays.astype(int) * contest.first] == (nearest == own)).all()
    assert contest.outcomes == 1
    assert not contest.places - 1


def test_what_is_needed_holds_the_largest_difference_with_what_is_added():
    # Sizes 2 and 3: 9 D_a - 4 D_h + 1 with D_a at its largest is the bound plus one.
    contest = ArgminContest.unbeaten(np.array([3, 0, 2]))
    most = distance_bound(5, 7, 6)
    assert contest.needed(5, 7) == 2 * (most + 1)
    rows = by_hand([[0], [distance_bound(5, 7, 2)]], np.array([1]), [3, 2])
    assert rows.max() == most + 1
    assert 2 * rows.max() <= contest.needed(5, 7)
