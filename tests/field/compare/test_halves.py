"""Clusters in halves: coded rows against Python integers, and the bound on what is compared."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from field import Basis
from field.code import distances
from field.code.rows import coded_rows
from field.compare.argmin import ArgminContest
from field.ring.basis import MERSENNE_61
from field.ring.quantize import distance_bound

FOLDED = Basis.for_bound(2**110)


def rows_of(basis, points):
    rows = coded_rows(basis, *points.shape)
    rows.add_rows(0, basis.reduce(points))
    rows.finish_rows()
    return rows


def by_hand(points, labels, c):
    """D_a and D_b of each row, ||b S_a - a S_b||**2 of all pairs of halves, sizes: Python integers."""
    points = points.astype(object)
    sums = [points[labels == h].sum(axis=0) + 0 * points[0] for h in range(2 * c)]
    sizes = np.bincount(labels, minlength=2 * c).tolist()
    first = labels // 2 * 2
    own = [
        [sum((sums[h] - sizes[h] * x) ** 2) for h, x in zip(first + q, points, strict=True)] for q in (0, 1)
    ]
    between = [[sum((b * first - a * second) ** 2) for b, second in zip(sizes, sums, strict=True)]
               for a, first in zip(sizes, sums, strict=True)]  # fmt: skip
    return own, between, sizes


cases = st.tuples(st.integers(1, 100), st.integers(1, 3), st.integers(1, 5), st.integers(0, 2**32))


BASES = {"folded": FOLDED, "61 bits": Basis((MERSENNE_61,)), "tiny": Basis((101, 103))}


@pytest.mark.parametrize("name", BASES)
@given(cases)
def test_halves_are_measured_as_python_does(name, case):
    # More points than a tile has, halves that are empty, clusters without points.
    (m, d, c, seed), basis = case, BASES[name]
    rng = np.random.default_rng(seed)
    points, labels = rng.integers(-50, 51, (m, d)), rng.integers(0, 2 * c, m).astype(np.int32)
    rows = rows_of(basis, points)
    sums = rows.sum_clusters(labels, 2 * c)
    (near, far), between, sizes = by_hand(points, labels, c)
    assert (
        distances.half_distances(rows, sums, basis.lanes) == basis.reduce(np.array([near, far], object))
    ).all()
    for pairs in (distances.split_halves(c), np.triu_indices(2 * c, 1)):
        expected = basis.reduce(np.array(between, object)[pairs])
        assert (distances.between_pairs(rows, sums, *pairs) == expected).all()
    pairs = [(sizes[2 * (h // 2)], sizes[2 * (h // 2) + 1]) for h in labels]
    common = [math.gcd(a, b) for a, b in pairs]
    weighed = [
        [x * (b // g) ** 2 for x, (_, b), g in zip(near, pairs, common, strict=True)],
        [x * (a // g) ** 2 for x, (a, _), g in zip(far, pairs, common, strict=True)],
    ]
    gaps = [x - y for x, y in zip(*weighed, strict=True)]
    assert (distances.half_gaps(rows, sums, basis.lanes) == basis.reduce(np.array(gaps, object))).all()
    assert max(map(max, weighed)) <= distance_bound(d, 50, distances.widest_multiple(sums.sizes))


@pytest.mark.parametrize(("a", "b"), [(7, 5), (6, 4), (1, 9)])
def test_the_bound_on_what_is_compared_is_reached(a, b):
    # A half at one corner, the other at the opposite one.
    points = np.array([[50, 50]] * a + [[-50, -50]] * b)
    labels = np.repeat([0, 1], [a, b]).astype(np.int32)
    rows = rows_of(FOLDED, points)
    sums = rows.sum_clusters(labels, 2)
    width, gaps = (
        distances.widest_multiple(sums.sizes),
        FOLDED.lift_signed(distances.half_gaps(rows, sums, FOLDED.lanes)),
    )
    largest = distance_bound(2, 50, math.lcm(a, b))
    assert width == math.lcm(a, b)
    assert gaps.tolist() == [-largest] * a + [largest] * b
    assert ArgminContest.sign(width).needed(2, 50) == 2 * largest


def test_clusters_without_two_halves_compare_nothing():
    assert distances.widest_multiple(np.array([3, 0, 0, 5, 0, 0])) == 0
    assert distances.widest_multiple(np.array([3, 0, 2, 4])) == 4
