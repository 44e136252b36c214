"""A hidden feature of known people: members minus others, which a center of many points does not tell.

The center's own value is the best guess: with x one of s points of variance v, x and c covary by v / s, as
much as c varies.  It explains 1 / s of the variance that the public law leaves, and -1 / s of a person who
was not there: so the difference of the two is what a center tells of people and not of the law.
"""

import numpy as np
import pytest

from secfc.attacks.membership import DistributionLaw, OpenedRun, match_centers
from tests.secfc.attacks.test_membership import D, K, clustered, drawn


def guess_feature(opened, law, targets, feature):
    """Guesses (p,) of one feature of targets (p, d), unread in them, and those by the law alone."""
    known = np.delete(np.arange(law.means.shape[1]), feature)
    squares = ((targets[:, None, known] - law.means[:, known]) ** 2).sum(axis=2)
    cluster = squares.argmin(axis=1)
    there = match_centers(opened.centers, law.means)[cluster]
    return opened.centers[there, feature], law.means[cluster, feature]


def explained_share(guess, truth, public):
    """The share that a guess explains of what the public one leaves of the truth; below 0 if it is worse."""
    return 1 - ((truth - guess) ** 2).sum() / ((truth - public) ** 2).sum()


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
