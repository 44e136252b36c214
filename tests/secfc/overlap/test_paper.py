"""The paper's own algorithms: forces and merges by hand, rounds and alignment, and what is sent."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.cluster import AgglomerativeClustering, MiniBatchKMeans
from sklearn.mixture import GaussianMixture

import secfc
from secfc.attacks.views import View
from secfc.errors import InputError
from secfc.kept_models import model_file_of
from secfc.metrics import accuracy
from secfc.overlap import local
from secfc.overlap import overlap2 as forces
from secfc.overlap.local import LocalKMeans, Silhouette
from secfc.overlap.overlap1 import damped_update
from secfc.overlap.overlap2 import covariance_factor, draw_gaussian
from secfc.roles.exchange import SERVER
from tests.secfc.overlap.cases import CHAIN, COMMON, KMEANS, clusters, hold_columns

NAN = np.nan


# --- forces


def attraction(cluster, w):
    """The force of a cluster at these distances on a point at 0, all under one span."""
    return float(np.mean(np.array(cluster, float) ** -w))


def test_forces_tell_an_outlier_from_neighbors_unless_w_is_large():
    """Hand case 3, also by the minimum and the mean distance, which choose the other cluster."""
    near, outlier = [2, 2, 2, 30, 30], [1, *[8] * 20]
    assert attraction(near, 2) > attraction(outlier, 2)
    assert attraction(near, 4) < attraction(outlier, 4)
    assert min(near) > min(outlier)
    assert np.mean(near) > np.mean(outlier)
    # The same of the code: one point against five, or as many against 21 points.
    for w, stronger in ((2.0, True), (4.0, False)):
        span = 30.0
        shown = []
        for others in (near, outlier):
            a, b = np.zeros((len(others), 1)), np.array(others, float)[:, None]
            shown.append(forces._mean_force(a, b, span**2, w, len(others))[0, 0])
            assert shown[-1] == pytest.approx(attraction(others, w) * span**w, rel=1e-9)
        assert (shown[0] > shown[1]) == stronger


def test_moments_are_the_expected_squared_distance():
    rng = np.random.default_rng(0)
    means = np.array([[0.0, 1, NAN], [4, 2, NAN], [NAN, 3, 5]])
    variances = np.where(np.isnan(means), NAN, [1.0, 4.0, 9.0])
    span = forces.feature_extent(means - 2 * np.sqrt(variances), means + 2 * np.sqrt(variances))
    found = forces.attraction_of_moments(means, variances, 2.0)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        on = ~np.isnan(means[i]) & ~np.isnan(means[j])
        a, b = (
            means[q][on] + rng.normal(size=(200_000, on.sum())) * np.sqrt(variances[q][on]) for q in (i, j)
        )
        measured = ((a - b) ** 2).sum(axis=1).mean()
        assert 1 / found[i, j] == pytest.approx(measured / (span[on] ** 2).sum(), rel=0.02)
    apart = forces.attraction_of_moments(
        np.array([[1.0, NAN], [NAN, 1.0]]), np.array([[1.0, NAN], [NAN, 1.0]]), 2.0
    )
    assert np.isnan(apart[0, 1])


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), w=st.sampled_from([1.5, 2.0, 4.0]))
def test_forces_between_proxies_are_means_over_all_pairs(seed, w):
    rng = np.random.default_rng(seed)
    owner = np.array([0, 0, 1, 2])
    mask = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1]], bool)
    proxies = [np.where(mask[j], rng.normal(size=(5, 3)), NAN) for j in owner]
    found = forces.attraction_of_points(proxies, owner, w)
    flat = np.concatenate(proxies)
    span = np.nanmax(flat, axis=0) - np.nanmin(flat, axis=0)
    for i in range(4):
        for j in range(4):
            on = mask[owner[i]] & mask[owner[j]]
            if not on.any():
                assert np.isnan(found[i, j])
            elif i != j:
                gaps = [((x[on] - y[on]) ** 2).sum() for x in proxies[i] for y in proxies[j]]
                expected = np.mean(np.maximum(np.array(gaps) / (span[on] ** 2).sum(), 1e-12) ** (-w / 2))
                assert found[i, j] == pytest.approx(expected, rel=2e-5)
    assert np.isnan(forces.attraction_of_points(proxies, owner, w, within=False)[0, 1])


@pytest.mark.parametrize("gap", [1e-4, 1e-2, 0.1, 0.2, 1.0])
def test_forces_between_close_points_far_from_the_middle_are_not_lost_to_rounding(gap, monkeypatch):
    rng = np.random.default_rng(2)
    one = rng.normal(size=(8, 40)) * 1e-3 + 10
    other = one[::-1] + gap
    ends = one - 20
    span = np.ptp(np.concatenate([one, other, ends]), axis=0)
    squared = ((one[:, None] - other[None]) ** 2).sum(axis=2) / (span**2).sum()
    expected = pytest.approx(np.mean(1 / squared), rel=2e-5)
    assert forces.attraction_of_points([one, other, ends], np.arange(3), 2.0)[0, 1] == expected
    if gap == 1e-2:  # 32 bits alone would lose it, whichever order a processor adds in
        monkeypatch.setattr(forces, "FAR", 0)
        assert forces.attraction_of_points([one, other, ends], np.arange(3), 2.0)[0, 1] != expected


def test_drawn_points_have_the_covariance_also_for_fewer_points_than_features():
    rng = np.random.default_rng(1)
    for rows in (3, 40):
        points = rng.normal(size=(rows, 5)) @ rng.normal(size=(5, 5))
        factors = covariance_factor(points)
        np.testing.assert_allclose(factors.T @ factors, np.cov(points.T, bias=True), atol=1e-10)
        none = np.empty((0, 5))
        many = draw_gaussian(points.mean(axis=0), factors, points.var(axis=0), none, 100_000, rng)
        np.testing.assert_allclose(np.cov(many.T), np.cov(points.T, bias=True), atol=0.15 * points.var())
        box = np.stack([points.min(axis=0), points.max(axis=0)])
        inside = draw_gaussian(points.mean(axis=0), none, points.var(axis=0), box, 1000, rng)
        assert (inside >= box[0]).all()
        assert (inside <= box[1]).all()


# --- merges

#         0 and 1 attract each other; 2 attracts 3 a little less; the client of 4 shares nothing with 0 and 2.
FORCE = np.array(
    [
        [0, 9, 1, 1, NAN],
        [9, 0, 1, 1, 4],
        [1, 1, 0, 8, NAN],
        [1, 1, 8, 0, 3],
        [NAN, 4, NAN, 3, 0],
    ]
)


def test_only_comparable_pairs_are_summed_and_counted():
    """Eq. 11 divided by all pairs is lower for sets of clients that cannot be compared, and merges others."""
    owner = np.array([0, 1, 0, 1, 2])
    steps = forces.agglomerate(FORCE, owner, apart=False)
    assert [step.tolist() for step in steps[:4]] == [
        [0, 1, 2, 3, 4], [0, 0, 2, 3, 4], [0, 0, 2, 2, 4], [0, 0, 2, 2, 0],
    ]  # fmt: skip
    # By all pairs, 4 is attracted to {0, 1} by 4 / 2 and to {2, 3} by 3 / 2; with one more incomparable in
    # the first set the order turns: 4 / 3 is less than 3 / 2.
    more = np.full((6, 6), NAN)
    more[:5, :5] = FORCE
    more[5, :2] = more[:2, 5] = 20
    joined = forces.agglomerate(more, np.array([0, 1, 0, 1, 2, 3]), apart=False)[3]
    assert joined.tolist() == [0, 0, 2, 2, 4, 0]
    assert forces.agglomerate(more, np.array([0, 1, 0, 1, 2, 3]), apart=False)[4].tolist() == [
        0,
        0,
        2,
        2,
        0,
        0,
    ]
    by_all = {"first": 4 / 3, "second": 3 / 2}
    assert by_all["first"] < by_all["second"]


@pytest.mark.parametrize("seed", range(3))
def test_on_a_chain_dividing_by_all_pairs_merges_ends_and_comparable_pairs_find_all(seed):
    """The hand case of eq. 11 as on HAR A1, where it makes E4 0.52 instead of 1: 30 clients, two clusters."""
    rng = np.random.default_rng(seed)
    means, owner = np.full((60, 31), NAN), np.repeat(np.arange(30), 2)
    for j in range(30):
        means[2 * j : 2 * j + 2, j : j + 2] = [[0.0], [3]] + 0.3 * rng.normal(size=(2, 2))
    force = forces.attraction_of_moments(means, np.where(np.isnan(means), NAN, 1.0), 2.0)
    truth = np.arange(60) % 2
    ours = forces.agglomerate(force, owner, apart=False)[58]
    printed = forces.agglomerate(np.nan_to_num(force), owner, apart=False)[58]
    assert accuracy(truth, ours) == 1
    assert accuracy(truth, printed) < 0.6


def test_clusters_of_one_client_stay_apart_if_asked():
    force = np.array([[0, 9, 1.0], [9, 0, 2], [1, 2, 0]])
    owner = np.array([0, 0, 1])
    assert forces.agglomerate(force, owner, apart=False)[1].tolist() == [0, 0, 2]
    assert forces.agglomerate(force, owner, apart=True)[1].tolist() == [0, 1, 1]
    assert len(forces.agglomerate(force, owner, apart=True)) == 2
    left = forces.agglomerate(force, owner, apart=True)[-1]
    assert forces.keep_largest(force, left, np.ones(3), 1).tolist() == [0, 0, 0]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), apart=st.booleans())
def test_incremental_merges_are_those_computed_anew(seed, apart):
    rng = np.random.default_rng(seed)
    owner = np.sort(rng.integers(0, 4, 9))
    force = rng.random((9, 9))
    force = force + force.T
    hidden = rng.random((4, 4)) < 0.2
    force[(hidden | hidden.T)[owner][:, owner]] = NAN
    steps = forces.agglomerate(force, owner, apart=apart)
    for before, after in pairwise(steps):
        best, chosen = -1.0, None
        for r in np.unique(before):
            for s in np.unique(before)[np.unique(before) > r]:
                a, b = np.flatnonzero(before == r), np.flatnonzero(before == s)
                block = force[np.ix_(a, b)]
                known = ~np.isnan(block)
                if known.any() and not (apart and set(owner[a]) & set(owner[b])):
                    mean = block[known].mean()
                    if mean > best + 1e-12:
                        best, chosen = mean, (r, s)
        assert chosen is not None
        np.testing.assert_array_equal(after, np.where(before == chosen[1], chosen[0], before))


# --- runs


@pytest.mark.parametrize("observed", [CHAIN, COMMON], ids=["chain", "common"])
@pytest.mark.parametrize(
    "way",
    [
        secfc.Overlap1(3),
        secfc.Overlap1(3, start=secfc.Constrained()),
        secfc.Overlap2(3),
        secfc.Overlap2(3, proxies="gaussian", points=30),
        secfc.Overlap2(3, proxies="diagonal", points=30, boxes=True),
        secfc.Overlap2(None, local=LocalKMeans(3)),
    ],
    ids=repr,
)
def test_separated_clusters_are_found(observed, way):
    parts, truth = clusters(observed, 3, 30, np.random.default_rng(0), spread=0.5)
    data = hold_columns(parts, observed, truth=truth)
    result = secfc.fit(way, data)
    assert accuracy(data.truth, result.flat) == 1
    assert result.k == 3
    points = data.stacked()
    means = [np.nanmean(points[result.flat == h], axis=0) for h in range(3)]
    np.testing.assert_allclose(result.centers, means, rtol=1e-6)
    for ours, theirs in zip(result.predict(data), result.labels, strict=True):
        np.testing.assert_array_equal(ours, theirs)


class Directions:
    """Local clusters of directions."""

    def label_points(self, points, k, seed, client):
        return KMEANS.label_points(local.point_outwards(points), k, seed, client)


@pytest.mark.parametrize(
    "way",
    [
        secfc.Overlap1(3, start=secfc.Constrained(local=Directions()), affinity="cosine"),
        secfc.Overlap2(3, proxies="gaussian", boxes=True, points=30, local=Directions(), affinity="cosine"),
    ],
    ids=["1", "2"],
)
def test_directions_are_found_by_cosines_and_not_by_distances(way):
    rng, truth = np.random.default_rng(4), [np.arange(40) % 3] * 4
    rays = np.array([[1, 4, 1, 4, 1, 4], [4, 1, 1, 1, 4, 4], [4, 4, 4, 1, 1, 1]])
    long = [4**j * np.exp(rng.random((40, 1))) * rng.normal(rays[own], 0.1) for j, own in enumerate(truth)]
    data = hold_columns([part[:, seen] for part, seen in zip(long, COMMON, strict=True)], COMMON, truth=truth)
    assert accuracy(data.truth, secfc.fit(way, data).flat) > 0.95
    assert accuracy(data.truth, secfc.fit(replace(way, affinity="euclidean"), data).flat) < 0.9


def test_new_points_are_labeled_by_the_affinity_of_the_fit():
    parts, _ = clusters(COMMON, 3, 40, np.random.default_rng(3), spread=2.0)
    result = secfc.fit(secfc.Overlap1(3, affinity="cosine"), hold_columns(parts, COMMON))
    longer = result.predict(hold_columns([100 * part for part in parts], COMMON))
    for ours, theirs in zip(longer, result.labels, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert model_file_of(result) is None  # a file says no affinity, so its labels would be other ones


def test_cosine_distances_by_hand():
    left = np.array([[3.0, 4, NAN], [0, 0, 0], [NAN, 1, 0]])
    right = np.array([[4.0, 3, 7], [-3, -4, NAN], [NAN, NAN, 2]])
    wanted = [[1 - 24 / 25, 2, NAN], [1, 1, 1], [1 - 3 / np.sqrt(58), 2, 1]]
    np.testing.assert_allclose(local.common_cosines(left, right), wanted)


@pytest.mark.parametrize("affinity", ["euclidean", "cosine"])
def test_a_medoid_is_the_row_with_the_least_sum_of_distances(affinity):
    rows = np.random.default_rng(0).normal(1, 1, (60, 3))
    wanted = rows[cdist(rows, rows, affinity).sum(axis=0).argmin()]
    np.testing.assert_array_equal(local.find_medoid(rows, affinity), wanted)


@pytest.mark.parametrize("send", ["means", "medoids"])
def test_medoids_are_rows_of_the_data_and_the_server_is_said_to_see_them(send):
    parts, truth = clusters(COMMON, 3, 30, np.random.default_rng(0), spread=0.5)
    parts = [part + np.random.default_rng(1).random(part.shape) for part in parts]
    data = hold_columns(parts, COMMON, truth=truth)
    result = secfc.fit(secfc.Overlap1(3, send=send), data, keep_bodies=True)
    assert accuracy(data.truth, result.flat) == 1
    sent = [e for e in result.transcript.envelopes if e.kind in ("LocalCentroids", "AlignedCentroids")]
    assert len(sent) == 16
    for envelope in sent:
        rows = parts[result.plan.clients.index(envelope.sender)]
        inside = result.plan.columns.mine(envelope.sender).inside
        there = (envelope.body.centers[:, None] == rows[:, inside]).all(axis=2).any(axis=1)
        assert there.all() == (send == "medoids")
    assert ("rows of its data" in result.learned[0]) == (send == "medoids")


@pytest.mark.parametrize(
    "refiner",
    [
        local.KMeansSteps(1),
        local.MedoidSteps(),
        local.ExternalSteps(MiniBatchKMeans(n_init=1, random_state=0)),
        local.ExternalSteps(GaussianMixture(random_state=0)),
    ],
    ids=lambda refiner: type(getattr(refiner, "estimator", refiner)).__name__,
)
def test_any_clusterer_that_begins_at_centers_takes_the_steps(refiner):
    parts, truth = clusters(COMMON, 3, 30, np.random.default_rng(0), spread=0.5)
    data = hold_columns(parts, COMMON, truth=truth)
    assert accuracy(data.truth, secfc.fit(secfc.Overlap1(3, refiner=refiner), data).flat) == 1
    points = np.array([[0.0], [1], [2], [10], [11], [12]])
    assert refiner.refine_labels(points, np.array([[11.0], [1]])).tolist() == [1, 1, 1, 0, 0, 0]


def test_a_step_takes_what_is_new_and_keeps_what_has_no_news():
    old, new = np.array([[0.0, NAN, 4]]), np.array([[10.0, 6, NAN]])
    np.testing.assert_array_equal(damped_update(old, new, 0.8), [[8, 6, 4]])
    assert np.isnan((1 - 0.8) * old + 0.8 * new)[0, 1:].all()  # as printed


def test_a_client_takes_part_in_clusters_that_it_has_enough_points_of():
    way = secfc.Overlap1(2, least=3)
    points = np.array([[0.0], [0.1], [0.2], [9.0], [9.1]])
    found, weights = way.align_centroids(points, np.array([[0.0], [9.0]]))
    assert weights.tolist() == [5, 0]
    found, weights = secfc.Overlap1(2).align_centroids(points, np.array([[9.0], [0.0]]))
    np.testing.assert_allclose(found, [[9.05], [0.1]])
    assert weights.tolist() == [2, 3]
    unknown, weights = secfc.Overlap1(2).align_centroids(points, np.array([[NAN], [0.0]]))
    assert weights.tolist() == [0, 5]
    assert np.isnan(unknown[0]).all()


@pytest.mark.parametrize(
    ("way", "received", "sent"),
    [
        (
            secfc.Overlap1(3),
            {"Hello": 4, "LocalCentroids": 4, "AlignedCentroids": 12},
            {"Hello": 4, "LocalGroups": 4, "GlobalCentroids": 16},
        ),
        (secfc.Overlap2(3), {"Hello": 4, "LocalGaussians": 4}, {"Hello": 4, "LocalGroups": 4}),
    ],
    ids=["1", "2"],
)
def test_golden_kinds_of_messages_and_nothing_of_one_holder(way, received, sent):
    parts, _ = clusters(CHAIN, 3, 30, np.random.default_rng(0))
    result = secfc.fit(way, hold_columns(parts, CHAIN), keep_bodies=True)
    assert View.of(result, result.plan, SERVER).kinds() == {"received": received, "sent": sent, "inside": {}}
    for envelope in result.transcript.envelopes:
        if envelope.kind.endswith(("Centroids", "Gaussians")):
            party = envelope.recipient if envelope.sender == SERVER else envelope.sender
            assert envelope.body.centers.shape[1] == len(result.plan.columns.mine(party).shared)
    assert "on the 3 features that others observe too" in result.learned[0]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: secfc.Overlap1(3, alpha=1.5), r"alpha=1\.5"),
        (lambda: secfc.Overlap1(3, rounds=0), "rounds=0"),
        (lambda: secfc.Overlap2(3, w=1.0), r"w=1\.0: forces need an exponent above 1"),
        (lambda: secfc.Overlap2(3, proxies="none"), "proxies='none'.*'moments'"),
        (lambda: secfc.Overlap2(None, most=0), "most=0"),
        (lambda: secfc.Overlap1(3, affinity="angle"), "affinity='angle'.*'cosine'"),
        (lambda: secfc.Overlap2(3, affinity="angle"), "affinity='angle'.*'cosine'"),
        (lambda: secfc.Overlap2(3, affinity="cosine"), "do not tell the angles"),
        (lambda: secfc.Overlap1(3, send="rows"), "send='rows'.*'medoids'"),
        (lambda: secfc.Overlap1(3, refiner=3), "refiner"),
        (lambda: local.ExternalSteps(AgglomerativeClustering()), "AgglomerativeClustering cannot begin at"),
    ],
)
def test_what_cannot_be_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_more_clusters_than_local_ones_are_refused_and_the_silhouette_finds_local_ones():
    parts, truth = clusters(COMMON, 3, 30, np.random.default_rng(0))
    data = hold_columns(parts, COMMON, truth=truth)
    with pytest.raises(InputError, match="k=9 clusters of 8 local ones"):
        secfc.fit(secfc.Overlap2(9, local=LocalKMeans(2)), data)
    found = secfc.fit(secfc.Overlap2(3, local=Silhouette()), data)
    assert accuracy(data.truth, found.flat) == 1
