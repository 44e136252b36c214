"""Quantization: its two roundings, its refusals, and the range that makes distances exact."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from field import Basis, Quantizer
from field.ring.basis import LANE_PRIMES, MERSENNE_61, lanes_for
from field.ring.quantize import LEAST_STEPS, clip_norms, distance_bound, finest_scale, squared_norms


def test_rounding_by_hand():
    points = np.array([[0.5, 1.5, -0.5, -1.25, 2.0]])
    assert Quantizer(1.0, 4.0)(points).tolist() == [[0, 2, 0, -1, 2]]
    assert Quantizer(1.0, 4.0, "floor")(points).tolist() == [[0, 1, -1, -2, 2]]
    assert Quantizer(4.0, 4.0, "floor")(points).tolist() == [[2, 6, -2, -5, 8]]


@given(st.floats(-100, 100), st.floats(0.01, 1e6), st.sampled_from(["nearest", "floor"]))
def test_integers_stay_within_max_int(value, scale, rounding):
    quantizer = Quantizer(scale, 100.0, rounding)
    for x in (value, 100.0, -100.0):
        assert abs(int(quantizer(np.array([[x]]))[0, 0])) <= quantizer.max_int


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.nan, r"client 'a', row 12, feature 1 .* is NaN; every value must be finite"),
        (np.inf, r"row 12, feature 1 .* is infinite"),
        (-np.inf, r"row 12, feature 1 .* is infinite"),
        (8.0001, r"row 12, feature 1 .* outside the public bound \[-8, 8\].*raise the bound"),
    ],
)
def test_values_outside_the_bound_are_refused_with_their_place(bad, message):
    points = np.zeros((5, 3))
    points[2, 1] = bad
    with pytest.raises(ValueError, match=message) as caught:
        Quantizer(2.0, 8.0)(points, owner="client 'a'", first_row=10)
    assert "8.0001" not in str(caught.value), "a private value was shown"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, 1.0), "scale=0.0 must be"),
        ((1.0, np.nan), "bound=nan must be"),
        ((2.0**40, 2.0**20), r"exceeds 2\*\*52"),
        ((1.0, 2.0**52 + 1), r"exceeds 2\*\*52"),
        ((1.0, 1.0, "up"), "'nearest' or 'floor'"),
        ((1.0, 1.0, "floor", 0), "radius=0 steps is too small"),
    ],
)
def test_wrong_parameters_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Quantizer(*arguments)


def test_the_largest_integers_and_the_least_radius_are_taken():
    assert Quantizer(1.0, 2.0**52).max_int == 2**52
    assert Quantizer(1.0, 2.0, radius=1)(np.array([[2.0, 0.0]])).tolist() == [[1, 0]]


@pytest.mark.parametrize("off", [-1, 0, 1])
def test_squares_are_exact_about_the_edge_of_64_bits(off):
    # 2 (2**31)**2 is 2**63 itself.
    values = np.full((1, 2), 2**31 + off, np.int64)
    assert int(squared_norms(values)[0]) == 2 * (2**31 + off) ** 2


def test_a_clipped_vector_is_within_the_bound_whose_length_is_no_whole_number():
    clipped, was = clip_norms(np.array([[3, 3], [4, 0]]), 4)
    assert was.tolist() == [True, False]
    assert int(squared_norms(clipped).max()) <= 4**2


@given(st.integers(1, 1000), st.integers(1, 10**6), st.floats(1e-6, 1e9), st.integers(1, 4))
def test_the_finest_scale_is_the_finest(d, m, bound, lanes):
    basis = Basis(LANE_PRIMES[:lanes])
    try:
        scale = finest_scale(basis, d, m, bound)
    except ValueError:
        assert distance_bound(d, 1, m) >= basis.modulus
        return
    assert distance_bound(d, Quantizer(scale, bound).max_int, m) < basis.modulus
    try:
        finer = Quantizer(2 * scale, bound).max_int
    except ValueError:
        return
    assert distance_bound(d, finer, m) >= basis.modulus


def test_the_papers_field_is_one_lane_of_the_same_interface():
    assert finest_scale(Basis((MERSENNE_61,)), 20, 1000, 1.0) >= LEAST_STEPS


def test_lanes_for_counts_primes_at_the_boundary():
    primes = (7, 11, 13)
    assert [lanes_for(bound, primes) for bound in (0, 6, 7, 76, 77, 1000, 1001, 10**6)] == [
        1,
        1,
        2,
        2,
        3,
        3,
        3,
        3,
    ]


@pytest.mark.parametrize(
    ("primes", "message"),
    [
        ((), "at least one prime"),
        ((7, 7), "repeat"),
        ((9,), "not a prime"),
        ((2**32 - 5,), "has no kernel"),
        ((MERSENNE_61, 7), "stands alone"),
    ],
)
def test_wrong_primes_are_refused(primes, message):
    with pytest.raises(ValueError, match=message):
        Basis(primes)


def test_malformed_residues_are_refused_without_showing_them():
    basis = Basis((7, 11))
    good = basis.reduce(np.array([[5, 6]]))
    basis.check(good, (1, 2))
    with pytest.raises(ValueError, match="expected"):
        basis.check(good, (2, 1))
    bad = good.copy()
    bad[0, 0, 0] = 7
    with pytest.raises(ValueError, match="not canonical"):
        basis.check(bad, (1, 2))


def test_floats_are_not_reduced():
    with pytest.raises(TypeError, match="quantize"):
        Basis((7,)).reduce(np.array([1.5]))
