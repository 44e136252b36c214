"""The check that small numbers are alike modulo all primes: bounds at their edges, sound by enumeration."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from field import SeededCoins
from field.code import lane_check
from field.code.lane_check import (
    BOUND,
    COEFFICIENTS,
    LEAST_PRIME,
    REPETITIONS,
    SPREAD,
    lanes_agree,
    noise_deviation,
    row_sensitivity,
    weigh_numbers,
)
from field.compare.shells import CODED, UNIT
from field.ring.basis import LANE_PRIMES, MERSENNE_61, Basis
from field.ring.noise import discrete_gaussian, wide_noise

TWO, THREE = Basis(LANE_PRIMES[:2]), Basis(LANE_PRIMES[:3])
P, Q = TWO.primes


def drawn(count, seed):
    """The coefficients (REPETITIONS, count) of these coins."""
    coins, found = SeededCoins(seed, "x"), []
    for first in range(0, count, lane_check._TILE):
        here = min(lane_check._TILE, count - first)
        said = np.frombuffer(coins.bytes(here * REPETITIONS // 4), np.uint8).reshape(-1, 1, here)
        places = said >> np.arange(0, 8, 2, dtype=np.uint8)[:, None] & 3
        found.append(np.array(COEFFICIENTS)[places].reshape(REPETITIONS, here))
    return np.concatenate(found, axis=1)


@pytest.mark.parametrize("count", [1, 7, 64, 65, 200])
def test_sums_are_those_of_integers_by_coefficients(monkeypatch, count):
    monkeypatch.setattr(lane_check, "_TILE", 64)
    shares = THREE.sample((count,), SeededCoins(1, "shares"))
    got, by = weigh_numbers(THREE, shares, SeededCoins(count, "x")), drawn(count, count)
    for lane, p in enumerate(THREE.primes):
        assert got[lane].tolist() == [int(x) % p for x in by.astype(object) @ shares[lane].astype(object)]
    assert got.dtype == THREE.dtype


def test_each_coefficient_comes_as_often():
    counts = np.bincount(drawn(5000, 1).reshape(-1) + 2, minlength=5)
    assert counts[2] == 0
    assert (np.abs(counts[[0, 1, 3, 4]] - 25_000) < 6 * math.sqrt(100_000 * 3 / 16)).all()


@pytest.mark.parametrize("value", [0, 1, -1, BOUND - 1, BOUND, -BOUND])
def test_numbers_up_to_the_bound_agree_in_all_lanes(value):
    assert lanes_agree(THREE, THREE.reduce(np.array([[0, value]])))


@pytest.mark.parametrize("value", [BOUND + 1, -BOUND - 1])
def test_beyond_it_none_do(value):
    assert not lanes_agree(THREE, THREE.reduce(np.array([[0, value]])))


def test_other_numbers_in_one_lane_never_agree():
    one = THREE.reduce(np.array([5, 6]))
    for lane in range(3):
        other = one.copy()
        other[lane, 1] += 1
        assert not lanes_agree(THREE, other)


def test_of_numbers_that_differ_one_coefficient_passes_at_most():
    """Whatever is shared beside it: of this all that makes one of the coefficients pass, at the edges too."""
    values = 0, 1, -3, 22, -44, 64, -64, 90, 128, -255, 256, -256
    edges = 0, 1, -1, 300, BOUND, -BOUND, BOUND - 256, 256 - BOUND
    best = 0
    for a in values:
        for b in values:
            if a == b:
                continue
            for c in COEFFICIENTS:
                for end in edges:  # the value that all lanes say under this coefficient
                    sums = np.array(
                        [[end + (x - c) * a for x in COEFFICIENTS], [end + (x - c) * b for x in COEFFICIENTS]]
                    )
                    lanes = np.stack([sums[0] % P, sums[1] % Q]).astype(TWO.dtype)
                    passed = sum(lanes_agree(TWO, lanes[:, i : i + 1]) for i in range(4))
                    assert passed <= 1
                    best = max(best, passed)
    assert best == 1


def test_within_a_wider_bound_two_would_pass(monkeypatch):
    """A control: two values that differ by a prime, less as much as makes it the same in the other lane."""
    assert min(LANE_PRIMES) > LEAST_PRIME == 2 * BOUND + (max(COEFFICIENTS) - min(COEFFICIENTS)) * 256
    last, a, b = Q // 2 - 1, 5, 2  # 2 (a - b) = P - Q
    lanes = np.array([[last, last + 2 * a], [last, (last + 2 * b) % Q]], TWO.dtype)
    assert not lanes_agree(TWO, lanes)
    monkeypatch.setattr(lane_check, "BOUND", P // 2)
    assert lanes_agree(TWO, lanes)


def test_honest_sums_of_ever_so_many_rows_stay_within_the_bound():
    m = 1 << 31  # as many as labels have numbers for; the variance of a sum of their codes
    assert 4 * m * (3**2 + (2 * UNIT) ** 2) <= SPREAD**2
    assert pytest.approx(BOUND) == lane_check.REACH * math.hypot(SPREAD, SPREAD)
    assert all(dealers * noise_deviation(dealers) ** 2 <= SPREAD**2 * (1 + 1e-12) for dealers in range(1, 99))
    third = Fraction(noise_deviation(3))
    noise = sum(
        TWO.lift_signed(wide_noise(discrete_gaussian, third, (5000,), TWO, coins=SeededCoins(j, "noise")))
        for j in range(3)
    )
    assert np.std(noise) == pytest.approx(SPREAD, rel=0.05)
    assert lanes_agree(TWO, TWO.reduce(noise))


def test_a_row_that_is_replaced_moves_sums_as_far_as_is_said():
    most, far = CODED, 0
    for old in ((3, 256), (-3, 0), (0, 0)):
        for new in ((3, -256), (1, 90), (0, 0)):
            for signs in np.ndindex(4, 4, 4, 4):
                a, b, c, d = (COEFFICIENTS[i] for i in signs)
                far = max(far, abs(a * old[0] + b * old[1] - c * new[0] - d * new[1]))
    assert far == 4 * most
    assert row_sensitivity(most) == pytest.approx(far * math.sqrt(REPETITIONS))
    assert row_sensitivity(most, 2) == pytest.approx(far * math.sqrt(2 * REPETITIONS))


def test_one_lane_has_none_that_it_could_differ_from():
    assert lane_check.count_sums(Basis((MERSENNE_61,))) == 0
    assert lane_check.count_sums(TWO) == REPETITIONS
