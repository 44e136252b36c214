"""Labels of all steps and restarts: what they give away beyond the final ones, and that they can fail to."""

from itertools import pairwise

import numpy as np
import pytest

import secfc
from secfc.algorithm import Clustering
from secfc.attacks.geometry import Simplex, labels_only
from secfc.attacks.history import (
    APART,
    AnsweredLabeling,
    History,
    _Likelihood,
    fit_axes,
    informative_answers,
    label_history,
    linked_answers,
    main_directions,
)
from secfc.attacks.judging import align_guess, judge_guess
from secfc.coded_kmeans.adversary_view import DecodedView, QueryRecorder
from secfc.report.leakage import curious_server
from secfc.roles.exchange import SERVER
from tests.nightly import by_night, short
from tests.secfc.attacks.test_geometry import mixture


def lloyd(points, k, restarts, seed=0):
    """Labelings of plain Lloyd's heuristic from random labels, one list a restart."""
    rng, runs = np.random.default_rng(seed), []
    for _ in range(restarts):
        labels = [rng.integers(0, k, len(points))]
        while len(labels) < 2 or not np.array_equal(labels[-1], labels[-2]):
            means = [points[labels[-1] == h].mean(axis=0) for h in range(k)]
            labels.append(np.argmin([((points - c) ** 2).sum(axis=1) for c in means], axis=0))
        runs.append(labels)
    return runs


def seen(runs, k, d):
    labelings = tuple(labels for run in runs for labels in run)
    return History((SERVER,), labelings, (k,) * len(labelings), d)


def share(guess, points):
    return judge_guess(guess, points).share[-1]


@pytest.fixture(scope="module")
def gaussian():
    """One Gaussian: no clusters, so final labels say little, and every step is a measurement."""
    points = np.random.default_rng(3).standard_normal((400, 6))
    return points, lloyd(points, 4, 8)


def test_steps_and_restarts_say_more_than_final_labels(gaussian):
    points, runs = gaussian
    final = share(Simplex((SERVER,), (runs[0][-1],), 4), points)
    curve = judge_guess(seen(runs, 4, 6), points).share
    fewer = short((1, 3), nightly=(1, 2, 4))
    shares = [*(share(seen(runs[:n], 4, 6), points) for n in fewer), curve[-1]]
    # Must succeed: 0.3 of final labels becomes 0.8 and more.
    assert final < 0.35 < shares[0]
    assert shares == sorted(shares)
    assert shares[-1] > 0.8
    # What was once guessed is not forgotten.
    assert list(curve) == sorted(curve)


@pytest.mark.parametrize("k", [3, 4])  # of which one and two end empty
def test_the_question_of_a_dendrogram_is_no_step_and_leaves_empty_clusters_out(k):
    federation = secfc.Federation.from_arrays(np.split(np.repeat([[0.0, 0.0], [1.0, 1.0]], 10, axis=0), 4))
    shares = []
    for tree in (False, True):
        way = secfc.SecFC(k, 1, secfc.RandomLabels(), release=secfc.Release(dendrogram=tree))
        witness = QueryRecorder()
        result = secfc.fit(way, federation, seed=1, watch=witness)
        assert not tree or len(result.dendrogram.leaves) < k
        shares.append(
            curious_server(witness, result, way.disclosure, federation).judgements["labels alone"].share
        )
    assert list(shares[0]) == list(shares[1])


def test_baseline_permuted_labels_say_nothing(gaussian):
    # Must fail: the same labels, of other rows; and of every labeling on its own.
    points, runs = gaussian
    rng = np.random.default_rng(0)
    together = rng.permutation(len(points))
    assert share(seen([[labels[together] for labels in run] for run in runs], 4, 6), points) < 0.03
    apart = [[rng.permutation(labels) for labels in run] for run in runs]
    assert share(seen(apart, 4, 6), points) < 0.03


def test_the_fit_finds_what_directions_forget(gaussian):
    # The control of the fit: which means were compared.  With pairs of mixed-up restarts it is lost.
    points, runs = gaussian
    pairs = [AnsweredLabeling(a, b, 4) for run in runs for a, b in pairwise(run[:5])]
    start = main_directions([pair.answer for pair in pairs], [4] * len(pairs), 6)

    def found(pairs):
        columns, weights = fit_axes(pairs, start)
        moved = align_guess(columns * weights, points, "similarity")
        return 1 - ((moved - points) ** 2).sum() / ((points - points.mean(axis=0)) ** 2).sum()

    mixed = [pair._replace(asked=pairs[(i + 5) % len(pairs)].asked) for i, pair in enumerate(pairs)]
    assert found(pairs) > 0.8
    assert found(mixed) < found(pairs) - 0.2


def test_the_gradient_of_the_likelihood_is_that_of_its_value():
    rng = np.random.default_rng(1)
    pairs = [(rng.integers(-1, 3, 40), rng.integers(0, 3, 40)) for _ in range(3)]
    pairs[0][0][pairs[0][0] == 2] = 1  # an empty cluster,
    pairs[0][1][pairs[0][1] == 2] = 0  # which nobody is in
    value = _Likelihood([AnsweredLabeling(a, b, 3) for a, b in pairs])
    at, way = rng.normal(size=80), rng.normal(size=80)
    slope = (value(at + 1e-2 * way)[0] - value(at - 1e-2 * way)[0]) / 2e-2
    assert slope == pytest.approx(float(value(at)[1] @ way), rel=1e-2)
    # By hand: means of a's clusters, and the probability of b.
    y, expected = at.reshape(40, 2), 0.5 * float(at @ at)
    for a, b in pairs:
        alive = [h for h in range(3) if (a == h).any()]
        scores = np.array([-((y - y[a == h].mean(axis=0)) ** 2).sum(axis=1) for h in alive])
        mine = scores[[alive.index(h) for h in b], np.arange(40)]
        expected += float((np.log(np.exp(scores).sum(axis=0)) - mine).sum())
    assert value(at)[0] == pytest.approx(expected, rel=1e-5)


def test_the_final_labels_alone_give_what_final_labels_allow():
    points = mixture(300, 8, 4, 20)
    final = lloyd(points, 4, 1)[0][-1]
    alone = judge_guess(seen([[final]], 4, 8), points)
    simplex = share(Simplex((SERVER,), (final,), 4), points)
    # Directions of one labeling are the simplex; the judge may choose powers and ranks besides.
    # The search for it ends within a millionth, on any processor.
    assert simplex - 1e-6 <= alone.share[0] < simplex + 0.05
    guess = seen([[final]], 4, 8).after(0)
    centered = np.eye(4)[final] - np.eye(4)[final].mean(axis=0)
    np.testing.assert_allclose(guess @ guess.T, centered @ centered.T, atol=1e-5)


@pytest.mark.parametrize(
    ("policy", "n_init"),
    [(secfc.AssignmentsOnly(), 1), *by_night((secfc.AssignmentsOnly(), 3)), (secfc.FinalLabelsOnly(), 1)],
)
def test_a_report_uses_all_labels_that_its_policy_shows_and_no_others(policy, n_init):
    points = mixture(300, 8, 4, 30, seed=4)
    federation, witness = secfc.Federation.from_arrays(np.array_split(points, 5)), QueryRecorder()
    way = secfc.SecFC(k=4, threshold=1, n_init=n_init, disclosure=policy)
    result: Clustering = secfc.fit(way, federation, watch=witness, keep_bodies=True)
    found = curious_server(witness, result, policy, federation).judgements["labels alone"]
    assert found.parties == (SERVER,)
    truth = result.plan.quantizer(points) / result.plan.quantizer.scale
    final = share(Simplex((SERVER,), (result.history[-1],), 4), truth)
    if isinstance(policy, secfc.FinalLabelsOnly):
        assert len(found.share) == 1
        assert found.share[-1] < final + 0.05
        return
    assert found.share[-1] > final + 0.03
    # Any client saw the same.
    for party in (SERVER, "client-3"):
        view = DecodedView.of(result, result.plan, party, federation)
        np.testing.assert_allclose(
            judge_guess(label_history(view, result), truth).share, found.share, rtol=1e-8
        )
        assert found.share[-1] > share(labels_only(view), truth)


# --- which labelings count -----------------------------------------------------------------------


def test_starts_are_told_from_answers(gaussian):
    _, runs = gaussian
    starts = np.cumsum([0, *map(len, runs[:-1])])
    assert (
        np.flatnonzero(
            ~np.array(linked_answers(seen(runs, 4, 6).labelings, [4] * sum(map(len, runs))))
        ).tolist()
        == starts.tolist()
    )
    # A start that is repeated, as somebody fell silent, and one that leaves points out.
    first, second = runs[0][:2]
    chosen = np.full_like(first, -1)
    chosen[:4] = np.arange(4)
    assert linked_answers([first, first, second, chosen, second], [4] * 5) == [
        False,
        False,
        True,
        False,
        True,
    ]


def test_halves_answer_halves_of_the_same_clusters():
    rng = np.random.default_rng(0)
    whole = np.arange(40) % 2
    halves = [2 * whole + rng.integers(0, 2, 40) for _ in range(3)]
    split = np.where(halves[2] == 3, 2, whole)
    others = [2 * split + rng.integers(0, 2, 40) for _ in range(2)]
    labelings, ks = [*halves, split, *others, split], [4, 4, 4, 3, 6, 6, 3]
    halved = frozenset({0, 1, 2, 4, 5})
    assert linked_answers(labelings, ks, halved)[:2] == [False, True]
    # Splits, halves of other clusters, and whole clusters after halves.
    assert linked_answers(labelings, ks, halved)[3:] == [False, False, True, False]


def halving(points, clusters, rng, steps=4):
    """Halves of clusters, random and after steps of 2-means in each."""
    halves = [2 * clusters + rng.integers(0, 2, len(points))]
    for _ in range(steps):
        means = np.array([points[halves[-1] == h].mean(axis=0) for h in range(2 * clusters.max() + 2)])
        near = ((points[None] - means[clusters * 2 + np.arange(2)[:, None]]) ** 2).sum(axis=2)
        halves.append(2 * clusters + near.argmin(axis=0))
    return halves


def test_halves_of_clusters_say_more(gaussian):
    points, runs = gaussian
    rng = np.random.default_rng(5)
    steps = [AnsweredLabeling(a, b, 4) for run in runs[:4] for a, b in pairwise(run[:5])]
    levels = [halving(points, run[-1], rng) for run in runs[:4]]
    halves = [AnsweredLabeling(a, b, 8) for level in levels for a, b in pairwise(level)]

    def found(pairs):
        start = main_directions([pair.answer for pair in pairs], [pair.k for pair in pairs], 6)
        columns, weights = fit_axes(pairs, start)
        moved = align_guess(columns * weights, points, "similarity")
        return 1 - ((moved - points) ** 2).sum() / ((points - points.mean(axis=0)) ** 2).sum()

    swapped = [pair._replace(answer=pair.answer ^ (rng.random(400) < 0.5)) for pair in halves]
    assert found([*steps, *halves]) > found(steps) + 0.05
    assert found([*steps, *swapped]) < found(steps)  # the control


def test_what_moved_few_points_does_not_count():
    a = np.zeros(100, int)
    moved = [a.copy() for _ in range(6)]
    for s, row in enumerate(moved):
        row[: 4 * s] = 1  # four more a step: every third counts, and the last
    answers = [False, True, True, True, True, True]
    assert informative_answers(moved, answers, APART, 99) == [1, 4, 5]
    assert informative_answers(moved, answers, 0.0, 99) == [1, 2, 3, 4, 5]
    assert informative_answers(moved, answers, APART, 2) == [1, 5]  # a larger share is asked for
    assert informative_answers(moved, answers, APART, 1) == [1]
    assert informative_answers(moved, [False] * 6, APART, 99) == []


def test_points_without_clusters_or_features_without_spread_are_no_error():
    nobody = np.full(30, -1, np.int32)
    judgement = judge_guess(History((SERVER,), (nobody,), (3,), 2), np.zeros((30, 2)))
    assert judgement.share == (0.0,)
    one = np.zeros(30, np.int32)
    single = History((SERVER,), (one, one), (1, 1), 2)
    assert share(single, np.random.default_rng(0).normal(size=(30, 2))) == 0
    assert "2 labelings" in repr(single)
