"""Choosing k: the rule, the value, and every algorithm that takes it."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secfc.data.inputs import InputError
from secfc.lloyd.elbow import Curve, Elbow, clusters, depths, elbow, largest

# --- the rule -------------------------------------------------------------------------------------------

falls = st.lists(st.integers(1, 10**9), min_size=3, max_size=15).map(lambda costs: sorted(costs)[::-1])


@given(falls)
def test_depths_are_those_of_floats(costs):
    if costs[0] == costs[-1]:
        assert set(depths(costs)) == {0}
        return
    logs = np.log(np.array(costs, float))
    heights = (logs - logs[-1]) / (logs[0] - logs[-1])
    places = np.log(np.arange(1, len(costs) + 1)) / math.log(len(costs))
    found = np.array(depths(costs), float)
    assert found == pytest.approx(1 - places - heights, abs=1e-5 / (logs[0] - logs[-1]))
    assert found.max() < 1


@given(falls, st.integers(1, 10**30), st.integers(1, 3))
def test_the_unit_of_costs_and_of_data_changes_no_choice(costs, unit, least):
    scaled = [Fraction(cost, unit) for cost in costs]
    assert elbow(scaled, least) == elbow(costs, least) == Curve(tuple(costs), least).over(Fraction(unit)).k


def test_elbows_by_hand():
    assert elbow([100, 60, 10, 9, 8, 7]) == 3
    assert elbow([100, 10, 9, 8, 7, 6]) == 2
    assert elbow([100, 10, 9, 8, 7, 6], least=3) == 3  # all of them lie below, the first the farthest
    assert elbow([5, 5, 5]) == 1
    assert elbow([5, 5, 5], least=2) == 2
    assert elbow([9, 0, 0, 0]) == 2  # two different values
    assert elbow([9, 8, 7, 0, 0, 0]) == 4
    assert elbow([0, 0, 0]) == 1


@pytest.mark.parametrize("d", [1, 2, 3, 20])
@pytest.mark.parametrize("most", [3, 12, 100])
def test_costs_that_fall_as_without_clusters_have_no_elbow(d, most):
    """On plain axes the same costs lie up to 0.87 below their chord."""
    costs = [1e6 * k ** (-2 / d) for k in range(1, most + 1)]
    assert max(map(abs, depths(costs))) < 1e-9
    above = [costs[0], *(1.01 * cost for cost in costs[1:-1]), costs[-1]]
    assert [elbow(above, least) for least in (1, 2)] == [1, 2]


def test_the_last_candidate_is_none():
    costs = [100, 99, 98, 97, 1]
    assert elbow(costs) == 1
    assert elbow([*costs, 1]) == 5


def test_ties_go_to_the_lowest():
    # Depths of 2 and 4 of 8 are equal: ln 2, ln 4 and ln 8 are as 1, 2, 3.
    costs = [2**12, 2**6, 2**6, 2**2, 2**2, 2**2, 2**2, 1]
    assert float(depths(costs)[1]) == pytest.approx(float(depths(costs)[3]))
    assert elbow(costs) == 2


# --- the value ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ((2,), r"most=2, least=1: an elbow needs at least three candidates. Raise most to 3"),
        ((4, 3), r"most=4, least=3: .* Raise most to 5"),
        ((3, 5), r"most=3 is below least=5: exchange them"),
        ((3, 0), r"least=0: there is at least 1 cluster"),
    ],
)
def test_values_that_leave_no_choice_are_refused(values, why):
    with pytest.raises(ValueError, match=why):
        Elbow(*values)


@pytest.mark.parametrize(("m", "most"), [(4, 3), (9, 3), (40, 6), (399, 19), (10**6, 20)])
def test_automatic_candidates(m, most):
    assert Elbow().among(m) == Elbow(most)
    assert largest(Elbow().among(m)) == most


def test_too_few_points_to_choose():
    with pytest.raises(ValueError, match="most=3 clusters of 3 points: .* Give k as a number"):
        Elbow().among(3)
    with pytest.raises(ValueError, match="most=12 clusters of 12 points: .* Lower most"):
        Elbow(12).among(12)
    assert Elbow(12).among(13) == Elbow(12)


def test_words():
    assert clusters("auto") == Elbow()
    assert clusters(" 2..12 ") == Elbow(12, 2)
    assert clusters("4") == 4
    assert clusters(Elbow(5)) == Elbow(5)
    assert [str(e) for e in (Elbow(), Elbow(12, 2), Elbow(least=2))] == ["auto", "2..12", "2.."]
    for word in ("", "few", "2..", "2-12", "-3", "2...4"):
        with pytest.raises(InputError, match=r"k=.* is no number of clusters: give one"):
            clusters(word)


# --- in words -------------------------------------------------------------------------------------------


def test_a_curve_says_how_clear_its_elbow_is():
    clear = Curve((100, 60, 10, 9, 8, 7), silhouettes=(0.3, 0.9, 0.5, 0.4, 0.3))
    assert clear.k == 3
    assert "k = 3 is clear: 0.253 deep" in clear.words
    assert "silhouette is largest at k = 3 (0.90)" in clear.words
    assert "No elbow among 1 to 6, so k = 1" in Curve((100, 90, 80, 70, 60, 1)).words
    assert "no less" in Curve((5, 5, 5)).words
    open_ = Curve((2**12, 2**6, 2**6, 2**2, 2**2, 2**2, 2**2, 1))
    assert open_.second == 4
    assert "k = 4 is nearly as good" in open_.words
    assert "allow more than 4" in Curve((100, 90, 10, 9)).words
    assert "nothing" not in repr(clear)
