"""Rates of scores: laws that they must meet, intervals over runs, and what cannot be resolved."""

import math

import numpy as np
import pytest

from secfc.attacks.rates import RankedScores, score_rates
from secfc.privacy import Composed, DiscreteLaplace, Gaussian, NonPrivate
from secfc.privacy.audit import GaussianShift, max_detection_rate


def shifted(mu, runs=40, each=500, seed=0, common=0.0):
    """Runs of as many members as others; common: deviation of what all scores of a run share."""
    rng = np.random.default_rng(seed)
    members = [np.arange(2 * each) < each for _ in range(runs)]
    return [rng.normal(mu * m) + common * rng.normal() for m in members], members


@pytest.mark.parametrize("mu", [0.0, 0.7, 2.0])
def test_rates_of_a_shift_are_its_law(mu):
    found, law = score_rates(*shifted(mu), alarms=(0.01,)), GaussianShift(mu)
    assert law.auc in found.auc
    assert abs(found.auc.value - law.auc) < 0.01
    assert law.detection_rate(0.01) in found.at[0.01]
    assert mu in found.shift
    assert abs(found.fitted_detections(0.01) - law.detection_rate(0.01)) < 0.02
    assert (found.runs, found.members, found.others) == (40, 20_000, 20_000)
    assert found.curve[0][0] == 0
    assert found.curve[-1] == (1.0, 1.0)


def test_intervals_are_over_runs_and_not_over_targets():
    alone, together = (score_rates(*shifted(1.0, common=c), alarms=()).auc for c in (0.0, 2.0))
    # What runs share makes 20,000 targets as uncertain as 40 runs are.
    assert together.high - together.low > 3 * (alone.high - alone.low)


def test_ties_are_decided_by_a_coin():
    found = score_rates([np.zeros(20_000)], [np.arange(20_000) < 5000], alarms=(0.01,))
    assert found.auc.value == 0.5
    assert found.at[0.01].value == pytest.approx(0.01)
    assert math.isnan(found.auc.low)  # one run has no interval
    few = RankedScores.of([np.array([2.0, 1, 1, 0])], [np.array([True, True, False, False])])
    assert few.figures(np.ones(1), (0.5,))[0] == 0.875


def test_swapping_members_at_random_leaves_nothing():
    scores, members = shifted(2.0)
    rng = np.random.default_rng(1)
    found = score_rates(scores, [rng.permutation(m) for m in members], alarms=())
    assert 0.5 in found.auc
    assert abs(found.auc.value - 0.5) < 0.01


def test_what_rates_cannot_tell_is_refused():
    scores, members = shifted(1.0, runs=2, each=100)
    with pytest.raises(ValueError, match=r"200 non-members cannot resolve .* 0\.01 .* at least 10,000"):
        score_rates(scores, members, alarms=(0.01,))
    with pytest.raises(ValueError, match="at least 100,000"):
        score_rates(scores, members, alarms=(0.001,))
    assert score_rates(scores, members, alarms=(0.5,)).members == 200
    with pytest.raises(ValueError, match="200 members and 0 non-members"):
        score_rates([np.zeros(200)], [np.ones(200, bool)])
    with pytest.raises(ValueError, match=r"must lie in \(0, 1\)"):
        score_rates(scores, members, alarms=(0,))
    with pytest.raises(ValueError, match="not a number"):
        score_rates([np.array([np.nan, 1])], [np.array([True, False])])
    with pytest.raises(ValueError, match="no runs"):
        score_rates([], [])
    with pytest.raises(ValueError, match="as many scores"):
        score_rates(scores, members[:1])


def test_laws_against_the_table_of_a_gaussian_mechanism():
    # Slides' clusters of 10,000 points: why their attack was inconclusive.
    law = GaussianShift.of_center(100, 10_000)
    assert round(law.auc, 3) == 0.528
    assert round(law.detection_rate(0.01), 3) == 0.013
    law = GaussianShift.of_event(Composed((Gaussian(3.0), Gaussian(4.0))))
    assert law.mu == pytest.approx(math.hypot(1 / 3, 1 / 4))
    assert round(max_detection_rate(1, 1e-6, 0.01), 3) == 0.027
    assert round(max_detection_rate(4, 1e-6, 0.01), 3) == 0.546
    assert max_detection_rate(8, 1e-6, 0.01) <= 1
    assert max_detection_rate(1e6, 0, 0.01) == 1
    assert all(
        GaussianShift(0.237).detection_rate(a) <= max_detection_rate(1, 1e-6, a)
        for a in (0.001, 0.01, 0.5, 0.9)
    )
    for event in (NonPrivate(), DiscreteLaplace(2.0, 1)):
        with pytest.raises(ValueError, match="no single shift"):
            GaussianShift.of_event(event)
    with pytest.raises(ValueError, match="finite"):
        GaussianShift(-1.0)
    with pytest.raises(ValueError, match="must be positive"):
        GaussianShift.of_center(0, 10)
