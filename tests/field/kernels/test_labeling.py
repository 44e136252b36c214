"""Labels and sums of tiled rows are those of Python integers, at ties, near ties and at every bound."""

import dataclasses
import math
import os
import subprocess
import sys
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from field.kernels.labeling import (
    LARGEST,
    TILE,
    CenterFilter,
    LabelBounds,
    find_free,
    label_tiles,
    largest_value,
    sum_tiles,
    tile_rows,
)
from tests.nightly import short, trials

WIDE = 2**31  # from here on a number takes eight bytes


def nearest_by_integers(rows, sums, counts, numbers):
    """The nearest of sums / counts for each row, ties to the lowest number, by integers of any size."""
    whole = 1
    for n in counts[numbers].reshape(-1).tolist():
        whole = whole * n // np.gcd(whole, n)
    scaled = sums[numbers].astype(object) * (whole // counts[numbers].astype(object))
    gaps = rows.astype(object)[:, None, :] * int(whole) - scaled[None]
    return np.asarray(numbers)[(gaps**2).sum(axis=2).argmin(axis=1)].astype(np.int32)


class Decision:
    """What decides where floats do not, and how many rows it was asked for."""

    def __init__(self, sums, counts, numbers):
        self.centers, self.rows = (sums, counts, numbers), 0

    def __call__(self, rows):
        self.rows += len(rows)
        return nearest_by_integers(rows, *self.centers)


def check_step(rows, sums, counts, numbers, old):
    """One step from labels old (m,); every number that comes out against Python's.  Returns the decision."""
    decision, k = Decision(sums, counts, numbers), len(sums)
    labels, clusters = old.copy(), np.arange(-1, k)
    totals = np.array([rows[old == h].sum(axis=0) for h in clusters[1:]])
    sizes = np.bincount(old + 1, minlength=k + 1)[1:]
    filtered = CenterFilter.of(sums, counts, numbers, decision)
    moved = label_tiles(tile_rows(rows), filtered, labels, totals, sizes)
    expected = nearest_by_integers(rows, sums, counts, numbers)
    assert (labels == expected).all()
    assert moved == (expected != old).sum()
    assert (totals == [rows[expected == h].sum(axis=0) for h in range(k)]).all()
    assert (sizes == np.bincount(expected, minlength=k)).all()
    summed, counted = np.zeros_like(totals), np.zeros_like(sizes)
    sum_tiles(tile_rows(rows), labels, summed, counted)
    assert (summed == totals).all()
    assert (counted == sizes).all()
    alone = np.full(len(rows), -1, np.int32)
    assert label_tiles(tile_rows(rows), filtered, alone, largest=largest_value(rows)) == len(rows)
    assert (alone == expected).all()
    return decision


@trials(25)
@given(
    st.sampled_from([1, 3, 127, 128, 129, 300]),
    st.integers(1, 9),
    st.integers(1, 9),
    st.sampled_from(short([2, 2**15 - 1, 2**30, WIDE - 1], [2, 2**15 - 1, 2**30, WIDE - 1, LARGEST - 1])),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_a_step_equals_python_integers(m, d, k, largest, apart, seed):
    rng = np.random.default_rng(seed)
    # Small spreads far from 0 as well as the whole range.
    low = -largest if apart else max(-largest, largest - 6)
    rows = rng.integers(low, largest, (m, d), endpoint=True)
    counts = rng.integers(1, 4, (k, d if apart else 1))
    sums = counts * rng.integers(low, largest, (k, d), endpoint=True) + rng.integers(-1, 2, (k, d))
    numbers = np.flatnonzero(rng.integers(0, 4, k) > 0)
    numbers = numbers if len(numbers) else np.array([k - 1])
    check_step(rows, sums, counts, numbers, rng.integers(-1, k, m).astype(np.int32))


def test_a_tie_goes_to_the_lowest_number_and_equal_centers_to_the_first():
    rows = np.array([[0, 0], [1, 1], [2, 2], [3, 3]])
    sums = np.array([[4, 4], [0, 0], [2, 2], [2, 2]])
    decision = check_step(rows, sums, np.ones((4, 1), int), np.arange(4), np.zeros(4, np.int32))
    assert decision.rows == 2 * 3  # of each of two passes: (1, 1), (3, 3), and (2, 2) at two equal centers


@pytest.mark.parametrize("largest", [2**15 - 1, 2**15, WIDE - 1])
@pytest.mark.parametrize("sign", [1, -1])
def test_sums_of_a_tile_at_the_bound(largest, sign):
    # All rows of a tile at the bound, so that no more can be added up; odd, so that a lost bit is seen.
    assert TILE * 2**15 < 2**24
    rows = np.full((TILE + 1, 3), sign * largest)
    rows[::2, 1] = -sign * largest
    assert tile_rows(rows).dtype == (np.int16 if largest < 2**15 else np.int32)
    sums, old = sign * np.array([[largest, 0, largest], [0, 0, 0]]), np.full(len(rows), -1, np.int32)
    check_step(rows, sums, np.ones((2, 1), int), np.arange(2), old)


def test_differences_of_int32_that_could_wrap_take_float64():
    ends = np.array([[WIDE - 1], [1 - WIDE], [WIDE // 2]])
    filtered = CenterFilter.of(ends, np.ones((3, 1), int), np.arange(3), None)
    rows, found = np.array([[1 - WIDE], [2 - WIDE], [WIDE - 1]] * 100), np.empty((2, 300), np.int32)
    rows[::3] = 1 - WIDE
    decide = Decision(ends, np.ones((3, 1), int), np.arange(3))
    filtered = dataclasses.replace(filtered, decide=decide)
    for labels, largest in zip(found, (largest_value(rows), 0), strict=True):
        label_tiles(tile_rows(rows), filtered, labels, largest=largest)
    expected = nearest_by_integers(rows, *decide.centers)
    assert (found[0] == expected).all()
    # Control: told that no row is large, differences wrap.
    assert (found[1] != expected).any()


@pytest.mark.parametrize("largest", [2**30 - 1, 2**30])
@pytest.mark.parametrize("sign", [1, -1])
def test_differences_just_within_and_just_beyond_int32(largest, sign):
    # From the middle, -2^30, to a row: 2^31 - 1, which an int32 holds, and 2^31, which wraps.
    centers, rows = sign * np.array([[-(2**30) - 5], [-(2**30) + 5]]), np.full((300, 1), sign * largest)
    check_step(rows, centers, np.ones((2, 1), int), np.arange(2), np.full(300, -1, np.int32))


def near_ties(d, k, seed, rows=600):
    """Rows that are almost as far from each of k centers as from another, with errors of float32 between."""
    rng = np.random.default_rng(seed)
    points = rng.integers(-(2**14), 2**14, (rows, d))
    middle = points.mean(axis=0).astype(int)
    away = rng.integers(-(2**13), 2**13, (k, d))
    counts = np.full((k, 1), 10**6 + 3)
    # Pairs of centers around a row, one of them a millionth of a step nearer.
    sums = counts * (middle + away) + rng.integers(-9, 9, (k, d))
    for h in range(0, k - 1, 2):
        sums[h] = counts[h] * (points[h] + away[h]) + 1
        sums[h + 1] = counts[h] * (points[h] - away[h])
    points[k:] = points[rng.integers(0, k - 1, rows - k) // 2 * 2]
    return points, sums, counts


@pytest.mark.parametrize("d", [1, 3, 20, 101])
def test_near_ties_are_decided_by_integers(d, monkeypatch):
    points, sums, counts = near_ties(d, 6, d)
    assert check_step(points, sums, counts, np.arange(6), np.zeros(600, np.int32)).rows
    if d == 20:  # without slack float32 decides, wrongly
        monkeypatch.setattr(CenterFilter, "slack", np.zeros(2, np.float32))
        with pytest.raises(AssertionError):
            check_step(points, sums, counts, np.arange(6), np.zeros(600, np.int32))


@pytest.mark.parametrize(("d", "largest"), [(2, 2**15 - 1), (7, WIDE - 1)])
def test_scores_stay_within_the_slack(d, largest):
    # One row between two centers: the exact lead is at least what decided, less the slack.
    rng = np.random.default_rng(d)
    for _ in range(60):
        row, ends = rng.integers(-largest, largest, (1, d)), rng.integers(-largest, largest, (2, d))
        counts, numbers = np.ones((2, 1), int), np.arange(2)
        filtered = CenterFilter.of(ends, counts, numbers, Decision(ends, counts, numbers))
        middle = filtered.middle.astype(int)
        reach = np.sqrt(((row - middle).astype(float) ** 2).sum())
        exact = [
            sum((Fraction(int(c)) - int(x)) ** 2 for c, x in zip(end, row[0], strict=True)) for end in ends
        ]
        x32 = (row[0] - middle).astype(np.float32)
        scores = [filtered.squares[h] + np.float32(filtered.centers[h, :d] @ x32) for h in range(2)]
        error = abs(Fraction(float(scores[0])) - Fraction(float(scores[1])) - (exact[0] - exact[1]))
        assert error <= filtered.slack[0] + filtered.slack[1] * reach


def test_a_common_shift_costs_no_digit():
    # Far from 0, parts of a step apart: float64 centers less a middle would lose bits, integers do not.
    rows = WIDE - 1 - np.arange(200).reshape(-1, 1)
    counts = np.array([[10**9], [10**9]])
    sums = counts * (WIDE - 100) + np.array([[40 * 10**9 + 1], [-39 * 10**9]])
    decision = check_step(rows, sums, counts, np.arange(2), np.zeros(200, np.int32))
    assert decision.rows <= 2
    filtered = CenterFilter.of(sums, counts, np.arange(2), decision)
    assert abs(filtered.centers[0, 0] / -2 + filtered.middle[0] - (WIDE - 60)) < 1e-5


def test_with_too_many_features_integers_decide_all():
    rows = np.arange(2 * 8200).reshape(2, -1) % 7
    assert check_step(rows, rows.copy(), np.ones((2, 1), int), np.arange(2), np.zeros(2, np.int32)).rows == 4


@pytest.mark.nightly
def test_any_processor_labels_alike(tmp_path):
    # Without vectors, fused products, or kernels that were kept.
    plain = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            __file__,
            "-k",
            "python_integers or near_ties",
        ],
        env={**os.environ, **plain},
        check=True,
    )


# --- bounds: rows that no center came near to keep their labels, unseen


def walk_centers(rows, sums, counts, steps, seed, stride):
    """Labels of steps of centers that go a little, with bounds, against Python integers; rows looked at."""
    rng, m = np.random.default_rng(seed), len(rows)
    tiles, numbers, seen = tile_rows(rows), np.arange(len(sums)), []
    labels, bounds = np.full(m, -1, np.int32), LabelBounds(m)
    totals, sizes = np.zeros(sums.shape, np.int64), np.zeros(len(sums), np.int64)
    for _ in range(steps):
        decide = Decision(sums.copy(), counts, numbers)
        bounds.follow_centers(CenterFilter.of(sums.copy(), counts, numbers, decide))
        bounds.moved = 0
        places = np.empty(m + 1, np.int64)
        seen.append(find_free(labels, bounds.until, bounds.gone, places))
        own = bounds.of_rows(slice(None))
        label_tiles(tiles, bounds.last, labels, totals, sizes, largest=largest_value(rows), bounds=own)
        expected = nearest_by_integers(rows, sums, counts, numbers)
        assert (labels == expected).all()
        assert (totals == [rows[expected == h].sum(axis=0) for h in numbers]).all()
        assert (sizes == np.bincount(expected, minlength=len(sums))).all()
        sums = sums + counts * rng.integers(-stride, stride + 1, sums.shape) + rng.integers(-1, 2, sums.shape)
    return seen


@pytest.mark.parametrize(("d", "largest", "shift"), [(1, 99, 0), (3, 2**15 - 1, 0), (5, 2**20, 2**30)])
def test_rows_that_keep_their_labels_are_not_looked_at(d, largest, shift, monkeypatch):
    rng = np.random.default_rng(d)
    rows = rng.integers(-largest, largest, (700, d)) + shift
    counts = rng.integers(1, 9, (6, 1))
    sums = counts * (rng.integers(-largest, largest, (6, d)) + shift)
    seen = walk_centers(rows, sums, counts, 12, d, max(1, largest // 200))
    assert seen[0] == 700
    assert 0 < min(seen[1:]) < 700 // 4  # both ways are taken
    # Control: if centers did not go, rows would keep labels that are wrong.
    monkeypatch.setattr(CenterFilter, "bound_moves", lambda self, last: np.zeros(6))
    with pytest.raises(AssertionError):
        walk_centers(rows, sums, counts, 12, d, max(1, largest // 200))


@pytest.mark.parametrize("last", [9, 8, 7])
def test_a_row_is_looked_at_when_a_center_of_a_lower_number_comes_as_near(last):
    # Row 4 is 4 from center 1, at 0, and 6 from center 0, at 10; from 8 on center 0 has it, by the tie.
    rows, one = np.full((1, 1), 4), np.ones((2, 1), int)
    labels, bounds = np.full(1, -1, np.int32), LabelBounds(1)
    for end in (10, last):
        ends = np.array([[end], [0]])
        bounds.follow_centers(CenterFilter.of(ends, one, np.arange(2), Decision(ends, one, np.arange(2))))
        bounds.moved = 0
        label_tiles(tile_rows(rows), bounds.last, labels, bounds=bounds.of_rows(slice(None)))
    assert labels == (1 if last == 9 else 0)


@pytest.mark.parametrize(("d", "largest"), [(1, 99), (4, 2**15 - 1), (20, 2**30), (300, WIDE - 1)])
def test_bounds_are_below_what_distances_allow(d, largest):
    rng, found = np.random.default_rng(d), []
    rows, ends = rng.integers(-largest, largest, (200, d)), rng.integers(-largest, largest, (3, d))
    rows[:3], rows[3] = ends, ends[0] + (ends[1] - ends[0]) // 2 - 1
    one, numbers, bounds = np.ones((3, 1), int), np.arange(3), LabelBounds(200)
    bounds.moved = 0
    decide = Decision(ends, one, numbers)
    bounds.follow_centers(CenterFilter.of(ends, one, numbers, decide))
    labels = np.full(200, -1, np.int32)
    label_tiles(tile_rows(rows), bounds.last, labels, bounds=bounds.of_rows(slice(None)))
    with localcontext(prec=60):
        for row, label, until in zip(rows, labels, bounds.until, strict=True):
            apart = [
                Decimal(int(((row.astype(object) - end.astype(object)) ** 2).sum())).sqrt() for end in ends
            ]
            gap = sorted(apart)[1] - apart[label]
            assert Decimal(float(until)) <= gap
            found.append(float(until) / max(1e-9, float(gap)))
    assert np.median(found) > 0.9  # and not far below
    after = ends + rng.integers(-9, 10, ends.shape)
    filtered = CenterFilter.of(after, one, numbers, decide)
    gone = [math.isqrt(int(x)) for x in ((after - ends).astype(object) ** 2).sum(axis=1)]
    moves = filtered.bound_moves(bounds.last)
    for h in range(3):
        least = gone[h] + max(gone[:h] + gone[h + 1 :])
        assert least <= moves[h] <= least + 2 + 1e-3


def test_bounds_of_other_centers_or_after_many_moves_are_none():
    rows = np.arange(300).reshape(-1, 1)
    ends, one, bounds = np.array([[0], [100], [250]]), np.ones((3, 1), int), LabelBounds(300)
    labels, tiles, looked = np.full(300, -1, np.int32), tile_rows(rows), []
    for numbers, moved in (
        ([0, 1, 2], 0),
        ([0, 1, 2], 0),
        ([0, 2], 0),
        ([0, 2], 300),
        ([0, 2], 0),
        ([0, 1], 0),
    ):
        decide = Decision(ends, one, np.array(numbers))
        bounds.moved = moved
        bounds.follow_centers(CenterFilter.of(ends, one, np.array(numbers), decide))
        assert labels.max() < len(bounds.gone)  # also of a center that is gone
        looked.append(find_free(labels, bounds.until, bounds.gone, np.empty(301, np.int64)))
        assert (bounds.of_rows(slice(None)) is None) == (moved > 0)
        label_tiles(tiles, bounds.last, labels, bounds=bounds.of_rows(slice(None)))
        assert (labels == nearest_by_integers(rows, ends, one, np.array(numbers))).all()
    assert [looked[0], *looked[2:]] == [300] * 5
    assert looked[1] < 9
