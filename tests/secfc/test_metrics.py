"""Metrics against hand-worked cases, scikit-learn, brute force and their invariances."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score, calinski_harabasz_score, fowlkes_mallows_score

from secfc.data import inputs
from secfc.errors import InputError
from secfc.metrics import (
    accuracy,
    adjusted_rand,
    calinski_harabasz,
    cost,
    fowlkes_mallows,
    purity,
    same_clustering,
)


@st.composite
def labelings(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    m = draw(st.integers(1, 25))
    one = st.lists(st.integers(-1, 4), min_size=m, max_size=m)
    return draw(one), draw(one)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=25))
def test_accuracy_is_the_best_over_all_one_to_one_renamings(pairs: list[tuple[int, int]]) -> None:
    truth, labels = np.array(pairs).T
    # Three labels, four classes, and three names that are no class, for labels left unmatched.
    best = max(int((np.array(renaming)[labels] == truth).sum()) for renaming in permutations(range(7), 3))
    assert accuracy(truth, labels) == best / len(pairs)


@given(labelings(), st.permutations(range(-1, 5)))
def test_names_do_not_matter(case: tuple[list[int], list[int]], names: list[int]) -> None:
    truth, labels = case
    renamed = [f"cluster {names[label + 1]}" for label in labels]
    for metric in (accuracy, purity, adjusted_rand, fowlkes_mallows):
        assert metric(truth, labels) == metric(truth, renamed)
    assert same_clustering(labels, renamed)


@given(labelings())
def test_laws_between_metrics(case: tuple[list[int], list[int]]) -> None:
    truth, labels = case
    assert 0 < accuracy(truth, labels) <= purity(truth, labels) <= 1
    assert accuracy(truth, labels) == accuracy(labels, truth)
    assert adjusted_rand(truth, labels) == pytest.approx(adjusted_rand(labels, truth))
    assert same_clustering(truth, labels) == (accuracy(truth, labels) == 1)
    assert same_clustering(truth, labels) == (adjusted_rand(truth, labels) == 1)


@given(labelings())
def test_indices_of_pairs_agree_with_scikit_learn(case: tuple[list[int], list[int]]) -> None:
    assert adjusted_rand(*case) == pytest.approx(adjusted_rand_score(*case), abs=1e-12)
    both_alone = all(len(set(labels)) == len(labels) for labels in case)  # 0 / 0, which it takes for 0
    assert fowlkes_mallows(*case) == pytest.approx(
        1.0 if both_alone else fowlkes_mallows_score(*case), abs=1e-12
    )


@pytest.mark.parametrize("k", [2, 5])
def test_calinski_harabasz_agrees_with_scikit_learn(k: int) -> None:
    rng = np.random.default_rng(k)
    points, labels = rng.normal(size=(40, 3)), rng.integers(k, size=40)
    found = calinski_harabasz(points, labels, k + 1)  # of which one has no points
    assert found == pytest.approx(calinski_harabasz_score(points, labels))
    assert calinski_harabasz([[0.0], [0.0], [1.0]], [0, 0, 1], 2) == np.inf
    for clusters in (np.zeros(3, int), np.arange(3)):
        with pytest.raises(InputError, match="have no Calinski-Harabasz index: from 2 to m - 1 have"):
            calinski_harabasz(points[:3], clusters, 3)


def test_a_case_worked_by_hand() -> None:
    truth = [0, 0, 0, 1, 1, 2]
    labels = [9, 9, 4, 4, 4, 4]
    # 9 -> 0 (2 right), 4 -> 1 (2 right); class 2 is left without a cluster.
    assert accuracy(truth, labels) == 4 / 6
    assert purity(truth, labels) == 4 / 6
    # Pairs together: both 1 + 1 = 2, truth 3 + 1 = 4, labels 1 + 6 = 7, all 15.
    expected = 4 * 7 / 15
    assert adjusted_rand(truth, labels) == pytest.approx((2 - expected) / (5.5 - expected))


def test_more_clusters_than_classes_count_as_errors_but_are_pure() -> None:
    assert accuracy([0, 0, 0, 0], [0, 1, 2, 3]) == 0.25
    assert purity([0, 0, 0, 0], [0, 1, 2, 3]) == 1.0
    assert accuracy([0, 1, 2, 3], [0, 0, 0, 0]) == 0.25
    assert not same_clustering([0, 0, 1], [0, 1, 2])


def test_a_label_of_minus_one_is_not_ignored() -> None:
    assert accuracy([0, 0, 1, 1], [0, -1, 1, 1]) == 0.75


def test_many_labels_do_not_need_a_square_table() -> None:
    m = 100_000  # an (m, m) table of int64 would be 80 GB
    labels = np.arange(m)
    assert same_clustering(labels, labels[::-1])
    assert adjusted_rand(labels, labels) == 1.0
    assert purity(labels, labels) == 1.0


@pytest.mark.parametrize("metric", [accuracy, purity, adjusted_rand, fowlkes_mallows, same_clustering])
@pytest.mark.parametrize(
    ("truth", "labels", "message"),
    [
        ([0, 1], [0], "2 labels cannot be compared with 1"),
        ([], [], r"truth has shape \(0,\).*not empty"),
        ([0, 1], [[0, 1]], r"labels has shape \(1, 2\)"),
        ([0, 1], [0.0, 1.0], "labels has shape .*float64: one axis of integers or strings"),
    ],
)
def test_unusable_labelings_are_refused(metric: Any, truth: Any, labels: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        metric(truth, labels)


# --- cost


def test_cost_of_a_case_worked_by_hand() -> None:
    points = np.array([[0.0, 0.0], [2.0, 0.0], [5.0, 5.0], [5.0, 9.0]])
    # Means (1, 0) and (5, 7): 1 + 1 + 4 + 4.  Cluster 1 of 3 is empty and costs nothing.
    assert cost(points, [0, 0, 2, 2], 3) == 10.0
    assert cost(points, [0, 1, 2, 3], 4) == 0.0


@given(st.integers(1, 30), st.integers(1, 4), st.integers(1, 5), st.integers(0, 99), st.booleans())
def test_cost_agrees_with_its_definition(m: int, d: int, k: int, seed: int, whole: bool) -> None:
    rng = np.random.default_rng(seed)
    points = rng.integers(0, 256, (m, d)).astype(np.uint8) if whole else rng.normal(size=(m, d))
    labels = rng.integers(k, size=m)
    expected = sum(
        ((points[labels == h] - points[labels == h].mean(axis=0)) ** 2).sum() for h in np.unique(labels)
    )
    assert cost(points, labels, k) == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_cost_does_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    points, labels = rng.normal(size=(50, 3)), rng.integers(4, size=50)
    whole = cost(points, labels, 4)
    monkeypatch.setattr(inputs, "BLOCK_BYTES", 7 * 3 * 8)
    assert cost(points, labels, 4) == pytest.approx(whole, rel=1e-13)


def test_cost_far_from_the_origin_keeps_its_digits() -> None:
    # The identity sum x^2 - m mean^2 would lose all of them.
    points = 1e8 + np.array([[0.0], [1.0], [0.0], [1.0]])
    assert cost(points, [0, 0, 0, 0], 1) == 1.0


def test_cost_agrees_with_scikit_learn() -> None:
    from sklearn.cluster import KMeans

    points = np.random.default_rng(1).normal(size=(100, 3))
    model = KMeans(4, n_init=2, random_state=0, tol=0).fit(points)
    assert cost(points, model.labels_, 4) == pytest.approx(model.inertia_, rel=1e-10)


@pytest.mark.parametrize(
    ("labels", "k", "message"),
    [
        ([0, 1], 2, r"labels have shape \(2,\) and dtype int64 for 3 points"),
        ([0.0, 1.0, 1.0], 2, "dtype float64"),
        ([0, 1, 2], 2, "labels run from 0 to 2: 0 to k - 1 = 1"),
        ([-1, 0, 1], 2, "labels run from -1 to 1"),
        ([0, 0, 0], 0, "k=0: at least 1"),
    ],
)
def test_unusable_labels_are_refused_by_cost(labels: Any, k: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        cost(np.zeros((3, 2)), labels, k)


def test_cost_refuses_a_single_axis() -> None:
    with pytest.raises(InputError, match=r"reshape\(-1, 1\)"):
        cost(np.zeros(3), [0, 0, 0], 1)
