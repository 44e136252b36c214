"""Rows that kernels shorten are those of the formula, none is beyond its bound, and what may be is left."""

import math

import numpy as np
import pytest

from field.kernels.shortening import EXACT, add_residuals, shorten_rows


def formula(vector, bound):
    """A vector as whole numbers, by Python's numbers one at a time, and whether it was shortened."""
    norm = math.sqrt(math.fsum(x * x for x in vector))
    if norm > bound:
        return [math.trunc(x * (bound / norm)) for x in vector], True
    return [round(x) for x in vector], False  # both round ties to even


def shorten(rows, bound):
    whole, (long, rest) = np.empty(rows.shape), np.empty((2, len(rows)), bool)
    shorten_rows(rows, bound, whole, long, rest)
    return whole, long, rest


@pytest.mark.parametrize("d", [1, 2, 7, 100])
@pytest.mark.parametrize("bound", [1, 32, 865, 4096, EXACT - 1])
def test_rows_are_those_of_the_formula_and_within_the_bound(d, bound):
    rng = np.random.default_rng([d, bound])
    rows = rng.normal(size=(60, d)) * bound / math.sqrt(d) * rng.choice([0.1, 0.99, 1, 1.01, 50], (60, 1))
    rows[:3] = np.array([[0], [-bound], [bound + 0.5]])
    whole, long, rest = shorten(rows, bound)
    assert [(w, b) for w, b in zip(whole.tolist(), long.tolist(), strict=True)] == [
        formula(row, bound) for row in rows.tolist()
    ]
    squares = [sum(int(x) ** 2 for x in row) for row in whole.tolist()]
    assert rest.tolist() == [square > bound * bound for square in squares]
    assert 0 < long.sum() < 60


def test_rows_that_rounding_lengthens_and_wide_bounds_are_left_to_the_caller():
    short = np.full((1, 4), 0.5000001)  # of norm 1.0000002, of norm 2 when rounded
    assert shorten(short * 0.9999, 1)[2].tolist() == [False]
    for rows, bound in ((np.full((1, 2), 1.6), 2.5), (np.ones((1, 2)), EXACT)):
        whole, long, rest = shorten(rows, bound)
        assert (long.tolist(), rest.tolist()) == ([False], [True])
        assert whole.tolist() == np.rint(rows).tolist()
    assert shorten(np.array([[math.nan, 1.0]]), 5)[2].tolist() == [True]
    assert shorten(np.empty((0, 3)), 5)[0].shape == (0, 3)


@pytest.mark.parametrize("d", [1, 3, 100])
def test_sums_are_those_of_residuals_that_are_shortened_one_by_one(d):
    rng, k, bound, scale = np.random.default_rng(d), 4, 40, 12.5
    rows, labels, centers = rng.normal(size=(90, d)) * 3, rng.integers(0, k, 90), rng.normal(size=(k, d))
    labels[labels == 2] = 1  # a cluster without rows
    sums, rest = np.zeros((k, d)), np.empty(90, bool)
    shortened = add_residuals(rows, labels, centers, scale, bound, sums, rest)
    whole, long, left = shorten((rows - centers[labels]) * scale, bound)
    assert rest.tolist() == left.tolist()
    assert shortened == (long & ~left).sum() > 0
    for h in range(k):
        assert sums[h].tolist() == whole[(labels == h) & ~left].sum(axis=0).tolist()
    assert sums[2].tolist() == [0] * d
