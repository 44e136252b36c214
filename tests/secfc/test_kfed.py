"""k-FED: its two steps on separated, duplicate and degenerate data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secfc.data.federation import Federation
from secfc.data.mixtures import gaussian_mixture
from secfc.data.party import Party
from secfc.errors import InputError
from secfc.kfed import local_centers, merge_centers
from secfc.metrics import accuracy


def nearest(points: np.ndarray[Any, Any], centers: np.ndarray[Any, Any]) -> Any:
    return ((points[:, None, :] - centers) ** 2).sum(axis=2).argmin(axis=1)


# --- client


def test_continuous_points_are_clustered_and_never_sent() -> None:
    # Points that all differ must not be mistaken for fewer than k' distinct ones, which would send
    # raw points as centers.
    points = np.random.default_rng(0).normal(size=(200, 3))
    centers, counts = local_centers(points, 5, 0)
    assert centers.shape == (5, 3)
    assert counts.sum() == 200
    assert counts.min() > 1
    squared = ((points[:, None, :] - centers) ** 2).sum(axis=2)
    assert squared.min() > 0


def test_centers_are_the_means_of_their_points() -> None:
    points = np.random.default_rng(1).normal(size=(300, 2)) + 1e6
    centers, counts = local_centers(points, 4, 0)
    labels = nearest(points, centers)
    np.testing.assert_array_equal(np.bincount(labels, minlength=4), counts)
    for h in range(4):
        np.testing.assert_allclose(centers[h], points[labels == h].mean(axis=0), rtol=1e-13)


def test_separated_clusters_are_found_exactly() -> None:
    points = np.array([[0.0, 0], [0, 2], [10, 0], [10, 2], [10, 4], [50, 50]])
    centers, counts = local_centers(points, 3, 0)
    order = np.argsort(centers[:, 0])
    np.testing.assert_allclose(centers[order], [[0, 1], [10, 2], [50, 50]])
    np.testing.assert_array_equal(counts[order], [2, 3, 1])


@pytest.mark.parametrize("k_local", [3, 4, 10])
def test_few_distinct_points_are_their_own_centers(k_local: int) -> None:
    distinct = np.array([[0.0, 1.0], [0.0, 2.0], [7.0, 1.0]])
    points = distinct[[2, 0, 0, 1, 2, 0]]
    centers, counts = local_centers(points, k_local, 0)
    np.testing.assert_array_equal(centers, distinct)
    np.testing.assert_array_equal(counts, [3, 1, 2])


def test_points_are_distinct_if_they_differ_at_all() -> None:
    close = np.array([[1.0], [1.0 + 2.0**-52], [5.0]])
    centers, counts = local_centers(close, 3, 0)
    np.testing.assert_array_equal(centers, close)
    np.testing.assert_array_equal(counts, [1, 1, 1])


def test_distinct_points_are_counted_beyond_a_long_run_of_duplicates() -> None:
    points = np.concatenate([np.zeros((500, 1)), [[11.0], [12.0], [13.0], [14.0]]])
    centers, counts = local_centers(points, 2, 0)
    np.testing.assert_array_equal(np.sort(centers[:, 0]), [0.0, 12.5])
    np.testing.assert_array_equal(np.sort(counts), [4, 500])
    centers, _ = local_centers(points, 5, 0)
    np.testing.assert_array_equal(centers[:, 0], [0, 11, 12, 13, 14])


def test_distinct_points_after_k_prime_others_are_not_sent_as_centers() -> None:
    points = np.array([0.0, 1.0] * 50 + [50.0, 51.0, 52.0])[:, None]
    centers, counts = local_centers(points, 2, 0)
    np.testing.assert_array_equal(np.sort(centers[:, 0]), [0.5, 51.0])
    np.testing.assert_array_equal(np.sort(counts), [3, 100])


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30),
    st.integers(1, 6),
)
def test_centers_account_for_every_point(rows: list[tuple[int, int]], k_local: int) -> None:
    points = np.array(rows)
    before = points.copy()
    centers, counts = local_centers(points, k_local, 3)
    assert len(centers) == min(k_local, len(set(rows)))
    assert counts.min() >= 1
    assert counts.sum() == len(rows)
    np.testing.assert_allclose(counts @ centers, points.sum(axis=0))
    np.testing.assert_array_equal(points, before)


def test_client_result_depends_on_the_seed_alone() -> None:
    points = np.random.default_rng(2).normal(size=(3000, 2))
    first = local_centers(points, 8, 2**40)
    again = local_centers(points, 8, 2**40)
    other = local_centers(points, 8, 1)
    np.testing.assert_array_equal(first[0], again[0])
    assert not np.array_equal(first[0], other[0])


@pytest.mark.parametrize(
    ("points", "k_local", "message"),
    [
        (np.zeros(3), 1, r"the client has points of shape \(3,\)"),
        (np.array([[np.nan]]), 1, "row 0, feature 0"),
        (np.zeros((3, 1)), 0, "k_local=0: at least 1"),
    ],
)
def test_unusable_client_input_is_refused(points: Any, k_local: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        local_centers(points, k_local, 0)


# --- server


def test_merging_a_case_worked_by_hand() -> None:
    # From either client the farthest centers are (9, 0) and (0, 8), or (10, 0) and (0, 0).
    sent = [np.array([[0.0, 0.0], [10.0, 0.0]]), np.array([[9.0, 0.0], [0.0, 8.0]])]
    for seed in range(8):
        centers, labels = merge_centers(sent, 3, seed)
        assert labels[0][1] == labels[1][0]
        assert len({labels[0][0], labels[0][1], labels[1][1]}) == 3
        np.testing.assert_array_equal(centers[labels[0][0]], [0, 0])
        np.testing.assert_array_equal(centers[labels[0][1]], [9.5, 0])
        np.testing.assert_array_equal(centers[labels[1][1]], [0, 8])


def test_start_is_one_clients_centers_drawn_by_the_seed() -> None:
    # With k centers a client, the start is complete: labels of the drawn client are 0, 1.
    sent = [np.array([[0.0], [10.0]]), np.array([[11.0], [1.0]])]
    starts = {tuple(merge_centers(sent, 2, seed)[1][0].tolist()) for seed in range(20)}
    assert starts == {(0, 1), (1, 0)}  # fails by chance once in 2**19


@settings(deadline=None)
@given(st.integers(0, 2**63), st.integers(1, 6), st.integers(1, 6))
def test_merging_gives_k_clusters_that_are_means(seed: int, n: int, k: int) -> None:
    rng = np.random.default_rng(seed % 1000)
    # Integers on a small grid: repeated centers within and across clients are common.
    sent = [rng.integers(0, 4, (int(rng.integers(1, k + 1)), 2)) for _ in range(n)]
    stacked = np.concatenate(sent)
    distinct = len(np.unique(stacked, axis=0))
    if distinct < k:
        with pytest.raises(InputError, match=f"k={k} clusters .* {distinct} distinct"):
            merge_centers(sent, k, seed)
        return
    centers, labels = merge_centers(sent, k, seed)
    assert [len(part) for part in labels] == [len(part) for part in sent]
    flat = np.concatenate(labels)
    assert set(flat.tolist()) == set(range(k))
    for h in range(k):
        np.testing.assert_allclose(centers[h], stacked[flat == h].mean(axis=0))
    for point in np.unique(stacked, axis=0):  # equal centers share a cluster
        assert len(set(flat[(stacked == point).all(axis=1)].tolist())) == 1


def test_server_result_depends_on_the_seed_alone_and_inputs_stay() -> None:
    sent = [np.random.default_rng(j).normal(size=(3, 2)) for j in range(5)]
    before = [part.copy() for part in sent]
    one, labels = merge_centers(sent, 4, 7)
    two, again = merge_centers(sent, 4, 7)
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(np.concatenate(labels), np.concatenate(again))
    for part, old in zip(sent, before, strict=True):
        np.testing.assert_array_equal(part, old)


@pytest.mark.parametrize(
    ("sent", "k", "message"),
    [
        ([], 1, "no local centers: at least one client"),
        ([np.zeros((3, 1))], 2, "client number 0 sent 3 local centers for k=2"),
        ([np.zeros((1, 1)), np.zeros((1, 2))], 1, "client number 1 sent centers of 2 features"),
        ([np.zeros((1, 1)), np.full((1, 1), np.inf)], 1, "client number 1, row 0, feature 0"),
        ([np.zeros((1, 1)), np.zeros((1, 1))], 2, "k=2 clusters .* 1 distinct local centers"),
        ([np.zeros((1, 1))], 0, "k=0: at least 1"),
    ],
)
def test_unusable_centers_are_refused(sent: Any, k: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        merge_centers(sent, k, 0)


# --- both steps


def cluster_in_the_clear(parties: tuple[Party, ...], k_local: int, k: int, seed: int) -> Any:
    sent = [local_centers(party.points, k_local, seed) for party in parties]
    _, labels = merge_centers([centers for centers, _ in sent], k, seed)
    return np.concatenate(
        [
            part[nearest(party.read(), centers)]
            for party, (centers, _), part in zip(parties, sent, labels, strict=True)
        ]
    )


@pytest.mark.parametrize("k_local", [1, 2])
def test_separated_clusters_few_a_client_are_recovered(k_local: int) -> None:
    """The case of k-FED's guarantee: k' <= sqrt(k), clusters far apart, many points each."""
    points, truth = gaussian_mixture(2000, 20, 4, 0.5, np.random.default_rng(5))
    federation = Federation.from_labelled(points, truth, n=10, clusters_per_client=k_local)
    assert federation.truth is not None
    assert accuracy(federation.truth, cluster_in_the_clear(federation.parties, k_local, 4, 0)) == 1.0
