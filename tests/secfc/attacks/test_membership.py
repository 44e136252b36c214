"""Membership by likelihood ratio: what it must reach on centers that are opened, and where it must fail."""

import numpy as np
import pytest
from sklearn.cluster import KMeans

from secfc.attacks.membership import (
    DistributionLaw,
    check_targets,
    match_centers,
    scores_from_centers,
    scores_from_local_centers,
    scores_from_sizes,
    shadow_law,
)
from secfc.attacks.rates import score_rates
from secfc.kfed import local_centers
from secfc.privacy.audit import GaussianShift
from tests.nightly import by_night

D, K = 100, 10
DEVIATION = 0.5**0.5


def drawn(size, seed, d=D, k=K, means=None):
    """Twice as many points as are clustered, in a random order, and the means that they are about."""
    rng = np.random.default_rng([seed, size])
    means = rng.random((k, d)) if means is None else means
    which = rng.integers(k, size=2 * size * k)
    return means[which] + DEVIATION * rng.normal(size=(len(which), d)), means, rng


def clustered(points, means):
    """Centers and sizes of plaintext k-means, from the means: in no bad optimum."""
    found = KMeans(len(means), init=means, n_init=1).fit(points)
    return found.cluster_centers_, np.bincount(found.labels_, minlength=len(means))


def game(size, runs, score, *, other=0, d=D, swap=False):
    """Scores and who is in: members and non-members are drawn alike, then a coin says who is in.

    other: added to the seed of what is clustered, so that other than 0 it is independent of the targets.
    """
    scores, members = [], []
    for seed in range(runs):
        points, means, rng = drawn(size, seed, d)
        inside = np.isin(np.arange(len(points)), rng.permutation(len(points))[: len(points) // 2])
        held = points[inside] if not other else drawn(size, seed + other, d, means=means)[0][: inside.sum()]
        law = DistributionLaw(means, np.eye(d) / 2, np.full(K, 1 / K))
        scores.append(score(*clustered(held, means), law, points))
        members.append(rng.permutation(inside) if swap else inside)
    return scores, members


@pytest.mark.parametrize(("size", "runs"), [(50, 20), *by_night((10, 100), (200, 20), (1000, 10))])
def test_centers_tell_members_as_the_law_has_it(size, runs):
    found, law = (
        score_rates(*game(size, runs, scores_from_centers), alarms=(0.01,)),
        GaussianShift.of_center(D, size),
    )
    assert abs(found.auc.value - law.auc) < 0.02
    assert abs(found.at[0.01].value - law.detection_rate(0.01)) < 0.05


@pytest.mark.parametrize("how", [{"swap": True}, {"other": 1000}])
def test_nothing_is_found_where_nothing_is(how):
    found = score_rates(*game(10, 30, scores_from_centers, **how), alarms=())
    assert 0.47 < found.auc.value < 0.53


def test_the_law_may_come_from_public_points_or_from_shadow_runs():
    means = 4 * np.random.default_rng(0).random((K, 10))
    points, _, _ = drawn(20, 0, d=10, means=means)
    known = DistributionLaw.of(drawn(200, 1, d=10, means=means)[0], K)
    assert abs(float(np.trace(known.covariance)) / 10 - 0.5) < 0.05
    assert known.features == 10
    runs = [clustered(drawn(20, 2 + i, d=10, means=means)[0][:200], means) for i in range(60)]
    learned = shadow_law(*zip(*runs, strict=True))
    for law in (known, learned):
        assert np.abs(law.means[match_centers(law.means, means)] - means).max() < 0.25
    inside = np.arange(400) < 200
    seen = clustered(points[inside], means)
    ideal = DistributionLaw(means, np.eye(10) / 2, np.full(K, 1 / K))
    expected = score_rates([scores_from_centers(*seen, ideal, points)], [inside], alarms=()).auc.value
    assert expected > 0.65
    for law in (known, learned):
        assert (
            score_rates([scores_from_centers(*seen, law, points)], [inside], alarms=()).auc.value
            > expected - 0.05
        )


def test_local_centers_of_a_small_client_tell_more():
    scores, members = [], []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        means = rng.random((K, D))
        mine = means[rng.choice(K, 3, replace=False)]
        points = mine[rng.integers(3, size=100)] + DEVIATION * rng.normal(size=(100, D))
        inside = np.isin(np.arange(100), rng.permutation(100)[:50])
        centers, sizes = local_centers(points[inside], 3, seed)
        law = DistributionLaw(means, np.eye(D) / 2, np.full(K, 1 / K))
        scores.append(scores_from_local_centers(centers, sizes, law, points))
        members.append(inside)
    assert 0.9 < score_rates(scores, members, alarms=()).auc.value < 0.98


def test_who_draws_non_members_from_everybody_measures_the_client_and_not_the_attack():
    """The score is minus the distance to the nearest true mean of the client: it never sees data."""
    rng = np.random.default_rng(0)
    found = {}
    for others in ("population", "client"):
        scores, members = [], []
        for _ in range(20):
            means = rng.random((K, D))
            mine = means[rng.choice(K, 3, replace=False)]
            law = means if others == "population" else mine
            points = np.concatenate([
                which[rng.integers(len(which), size=200)] + DEVIATION * rng.normal(size=(200, D))
                for which in (mine, law)
            ])  # fmt: skip
            scores.append(-((points[:, None] - mine) ** 2).sum(axis=2).min(axis=1))
            members.append(np.arange(400) < 200)
        found[others] = score_rates(scores, members, alarms=()).auc
    assert found["population"].low > 0.7
    assert abs(found["client"].value - 0.5) < 0.03


def test_sizes_alone_are_the_floor_of_what_publishes_labels():
    found = score_rates(
        *game(10, 100, lambda _, sizes, law, points: scores_from_sizes(sizes, law, points)), alarms=()
    )
    assert found.auc.low > 0.55
    assert found.auc.high < 0.61


def test_a_target_whose_cluster_has_no_center_scores_nothing():
    points, means, _ = drawn(10, 0)
    law = DistributionLaw(means, np.eye(D) / 2, np.full(K, 1 / K))
    centers, sizes = clustered(points[:100], means)
    scores = scores_from_centers(centers[1:], sizes[1:], law, points)
    assert (scores[law.cluster(points) == 0] == 0).all()
    assert (scores[law.cluster(points) == 1] != 0).all()


def test_targets_that_were_in_no_data_are_refused():
    law = DistributionLaw(np.zeros((1, 2)), np.eye(2), np.ones(1))
    with pytest.raises(ValueError, match=r"targets of shape \(1, 3\): the run is of d=2"):
        scores_from_centers(np.zeros((1, 2)), np.ones(1), law, np.zeros((1, 3)))
    with pytest.raises(ValueError, match=r"target 1 has a value beyond bound=2"):
        check_targets(np.array([[0.0, 1.0], [2.5, 0.0]]), 2, 2.0)
    with pytest.raises(ValueError, match="not finite"):
        scores_from_sizes(np.ones(1), law, np.array([[np.nan, 0]]))
    with pytest.raises(ValueError, match="at least 3"):
        shadow_law([np.zeros((1, 2))] * 2, [np.ones(1)] * 2)
    with pytest.raises(ValueError, match="at least 8 are needed"):
        DistributionLaw.of(np.zeros((5, 2)), 4)
    with pytest.raises(ValueError, match="beside 1 means of 2 features"):
        DistributionLaw(np.zeros((1, 2)), np.eye(3), np.ones(1))
