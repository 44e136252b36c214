"""Starts on hand-worked cases, each with the variant that fails it."""

import numpy as np
import pytest

import secfc
from secfc.errors import Caution, InputError
from secfc.overlap.local import (
    Centroids,
    ExternalClusterer,
    LocalKMeans,
    Silhouette,
    common_distances,
    kmeans,
    merge_centroids,
    renumber_labels,
)
from secfc.overlap.starts import Automatic, Constrained, MaxMin, NearestMerge, Synchronized
from tests.secfc.overlap.cases import CHAIN, clusters, hold_columns

NAN = np.nan


def centroids(values, owner, weights=None):
    values = np.array(values, float)
    weights = np.ones(len(values)) if weights is None else np.array(weights, float)
    return Centroids(values, weights, np.array(owner), tuple(f"site-{j}" for j in range(max(owner) + 1)))


def groups(labels):
    """Sets of places, whatever their numbers."""
    return {tuple(np.flatnonzero(np.array(labels) == g).tolist()) for g in set(labels.tolist()) - {-1}}


# --- merging and comparing


def test_a_merged_centroid_is_a_mean_of_each_coordinate_over_those_who_observe_it():
    """Hand case 1: points (1, 2), (3, 4) of one client and (6, 5) of another, whose first feature is the
    second.
    """
    first = np.array([[1.0, 2, NAN], [3, 4, NAN]])
    values = np.array([first.mean(axis=0), [NAN, 6, 5]])
    np.testing.assert_array_equal(merge_centroids(values, np.array([2.0, 1.0])), [2, 4, 5])
    # As printed, eq. 1 divides sums by at most one: (4, 12, 5).
    printed = np.nansum(np.array([*first, [NAN, 6, 5]]), axis=0)
    assert printed.tolist() == [4, 12, 5]
    assert np.isnan(merge_centroids(values[:1], np.ones(1))[2])


def test_distances_are_over_common_features_and_their_span():
    left, right = np.array([[0.0, 0, NAN]]), np.array([[NAN, 3, 7], [4, 3, NAN], [NAN, NAN, 1]])
    found = common_distances(left, right, np.array([8.0, 6.0, 1.0]))
    np.testing.assert_allclose(found, [[0.5, 0.5, NAN]])
    assert common_distances(left, left, np.zeros(3)).tolist() == [[0]]


def test_one_feature_rescaled_changes_which_is_nearer_and_a_common_scale_does_not():
    """Hand case 4."""
    origin, others, span = np.zeros((1, 2)), np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([4.0, 3.0])
    found = common_distances(origin, others, span)[0]
    np.testing.assert_allclose(found, [0.82, 0.63], atol=5e-3)
    scaled = common_distances(origin, others * [1, 10], span * [1, 10])[0]
    np.testing.assert_allclose(scaled, [0.36, 0.99], atol=6e-3)
    np.testing.assert_allclose(common_distances(origin, 8 * others, 8 * span)[0], found)


# --- starts

SHIFTED = centroids([[0.0], [10], [6], [16]], [0, 0, 1, 1])


@pytest.mark.parametrize("start", [MaxMin(), Synchronized(), Automatic()], ids=repr)
def test_whole_clients_are_matched_where_the_nearest_centroid_is_wrong(start):
    """Hand case 2: clients {0, 10} and {6, 16}."""
    assert groups(start.group_centroids(SHIFTED, 2).labels) == {(0, 2), (1, 3)}


@pytest.mark.parametrize("start", [NearestMerge(), Constrained(), Automatic(paper=True)], ids=repr)
def test_the_nearest_centroids_are_merged_though_it_is_wrong(start):
    assert groups(start.group_centroids(SHIFTED, 2).labels) == {(0, 3), (1, 2)}


THREE = [[0.0, 0, NAN], [9, 9, NAN], [NAN, 1, 2], [NAN, 10, 8], [NAN, NAN, 3], [NAN, NAN, 7]]


@pytest.mark.parametrize("start", [NearestMerge(), Constrained(), Synchronized()], ids=repr)
def test_a_chain_is_matched_link_by_link(start):
    found = start.group_centroids(centroids(THREE, [0, 0, 1, 1, 2, 2]), 2)
    assert groups(found.labels) == {(0, 2, 4), (1, 3, 5)}
    assert found.said == ()


def test_no_two_local_clusters_of_a_client_are_merged():
    found = centroids([[0.0], [1], [50], [0.4], [51]], [0, 0, 0, 1, 1])
    for start in (NearestMerge(), Constrained(), Synchronized()):
        labels = start.group_centroids(found, 3).labels
        assert len(set(labels[:3].tolist())) == len(set(labels[3:].tolist())) + 1 == 3


def test_clients_with_fewer_clusters_than_there_are():
    found = centroids([[0.0], [10], [10.5], [20], [0.2], [20.3]], [0, 0, 1, 1, 2, 2])
    assert groups(Constrained().group_centroids(found, 3).labels) == {(0, 4), (1, 2), (3, 5)}
    assert groups(Automatic().group_centroids(found, 3).labels) == {(0, 4), (1, 2), (3, 5)}
    # No client has three: Method A begins at the first one's two and the farthest, and lands there too.
    assert groups(NearestMerge().group_centroids(found, 3).labels) == {(0, 4), (1, 2), (3, 5)}
    with pytest.raises(InputError, match=r"no client has k=3 local clusters .the most is 2"):
        Synchronized().group_centroids(found, 3)


def test_what_is_comparable_to_nothing_is_named_and_stays_out():
    found = centroids([[0.0, NAN], [9, NAN], [1, NAN], [8, NAN], [NAN, 5]], [0, 0, 1, 1, 2])
    for start in (NearestMerge(), Synchronized(), MaxMin()):
        made = start.group_centroids(found, 2)
        assert made.labels[4] == -1
        assert "1 local clusters of site-2 belong to no cluster" in made.said[-1]
    assert set(Constrained().group_centroids(found, 2).labels[:4].tolist()) == {0, 1}


def test_ties_go_to_the_lowest_number_and_equal_centroids_make_clusters_all_the_same():
    equal = centroids([[1.0]] * 4, [0, 0, 1, 1])
    for start in (NearestMerge(), Constrained(), Synchronized()):
        assert groups(start.group_centroids(equal, 2).labels) == {(0, 2), (1, 3)}
    assert MaxMin().group_centroids(equal, 2).labels.tolist() == [0, 0, 0, 0]
    assert MaxMin().group_centroids(equal, 1).labels.tolist() == [0, 0, 0, 0]


def test_more_clusters_than_local_ones_are_refused():
    for start in (NearestMerge(), Constrained(), Synchronized(), MaxMin(), Automatic()):
        with pytest.raises(InputError, match="k=5 clusters of 4 local ones at 2 clients"):
            start.group_centroids(SHIFTED, 5)


def test_the_papers_rule_chooses_by_what_is_said_and_by_features_and_warns():
    chain = centroids(THREE, [0, 0, 1, 1, 2, 2])
    assert Automatic(paper=True).chosen(chain, 2) == (NearestMerge(), ())
    assert Automatic(paper=True, identical=False).chosen(SHIFTED, 2) == (MaxMin(), ())
    with pytest.warns(Caution, match="case not supported, defaulting to Method B"):
        start, said = Automatic(paper=True, identical=False).chosen(chain, 2)
    assert start == MaxMin()
    assert "case not supported" in said[0]


# --- local clusterings


def test_local_clusters_are_as_many_as_told_or_as_the_silhouette_says():
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(10 * h, 1, (20, 2)) for h in range(3)])
    assert len(set(LocalKMeans().label_points(points, 5, 0, "a").tolist())) == 5
    assert len(set(LocalKMeans(2).label_points(points, 5, 0, "a").tolist())) == 2
    named = LocalKMeans({"a": 4})
    assert [len(set(named.label_points(points, 5, 0, who).tolist())) for who in ("a", "b")] == [4, 5]
    assert len(set(Silhouette().label_points(points, 6, 0, "a").tolist())) == 3
    assert Silhouette().label_points(points[:2], 6, 0, "a").tolist() == [0, 0]
    assert kmeans(np.ones((4, 2)), 3, 0, 1).tolist() == [0, 0, 0, 0]
    assert renumber_labels(np.array([5, -1, 2, 5])).tolist() == [1, -1, 0, 1]


def test_what_is_no_clusterer_is_refused_by_name():
    class Wrong:
        def get_params(self, deep=False):
            return {}

        def fit_predict(self, points):
            return np.zeros(len(points) + 1)

    with pytest.raises(InputError, match=r"Wrong labels 3 points by an array of shape \(4,\), float64"):
        ExternalClusterer(Wrong()).label_points(np.zeros((3, 1)), 2, 0, "a")
    with pytest.raises(InputError, match="k=0"):
        LocalKMeans(0)


def test_clusters_whose_holders_do_not_cover_all_features_are_said():
    parts, truth = clusters(CHAIN, 2, 12, np.random.default_rng(0))
    parts[3] = parts[3][truth[3] == 0]
    start = Automatic(local=LocalKMeans({"client-3": 1}))
    result = secfc.fit(secfc.FederatedLloyd(2, start=start), hold_columns(parts, CHAIN))
    assert any("nobody that has points of it observes 1 of 5 features (e)" in said for said in result.learned)
    whole = secfc.fit(
        secfc.FederatedLloyd(2), hold_columns(clusters(CHAIN, 2, 12, np.random.default_rng(0))[0], CHAIN)
    )
    assert not any("nobody that has points" in said for said in whole.learned)
