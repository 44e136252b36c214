"""A hidden feature of known people: members minus others, which a center of many points does not tell."""

import numpy as np
import pytest

from secfc.attacks.judging import explained_share
from secfc.attacks.membership import DistributionLaw, OpenedRun, guess_feature
from tests.secfc.attacks.test_membership import D, K, clustered, drawn


@pytest.mark.parametrize(("size", "runs"), [(10, 60), (100, 15)])
def test_members_lose_one_over_size_of_the_variance_and_others_gain_it(size, runs):
    members, others = [], []
    for seed in range(runs):
        points, means, rng = drawn(size, seed)
        inside = np.isin(np.arange(len(points)), rng.permutation(len(points))[: len(points) // 2])
        opened = OpenedRun(*clustered(points[inside], means))
        law = DistributionLaw(means, np.eye(D) / 2, np.full(K, 1 / K))
        for feature in range(0, D, 10):
            hidden = points.copy()
            hidden[:, feature] = np.nan  # nobody may look
            found, public = guess_feature(opened, law, hidden, feature)
            truth = points[:, feature]
            members.append(explained_share(found[inside], truth[inside], public[inside]))
            others.append(explained_share(found[~inside], truth[~inside], public[~inside]))
    assert np.mean(members) == pytest.approx(1 / size, abs=0.02)
    assert np.mean(others) == pytest.approx(-1 / size, abs=0.02)
    assert np.mean(members) > np.mean(others)


def test_a_feature_that_there_is_not_is_refused():
    law = DistributionLaw(np.zeros((1, 2)), np.eye(2), np.ones(1))
    with pytest.raises(ValueError, match="feature 2 of d=2"):
        guess_feature(OpenedRun(np.zeros((1, 2)), np.ones(1)), law, np.zeros((1, 2)), 2)
