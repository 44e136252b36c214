"""Single rows, rebuilt exactly where sums or centers are opened; nothing where they are not."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

import secfc
from secfc.attacks.judging import RebuiltRows, judge_rows, plot_rebuilt
from secfc.attacks.reconstruction import (
    REMEDIES,
    KnownSums,
    RowGuesses,
    nested_differences,
    run_differences,
    singleton_rows,
    site_differences,
    site_messages,
    step_differences,
)
from secfc.attacks.views import OUTSIDER, PublicOutput, View
from secfc.feddp import FedDPKMeans, ServerNoise, SharedNoise
from secfc.feddp.auditing import step_sums
from secfc.federated.views import others_sums
from secfc.kfed import local_clusters
from secfc.roles.exchange import SERVER
from secfc.secure_sum.protocol import CodedSum, visible_sums

# Without structure, so that rows move for many steps.
POINTS = np.rint(np.random.default_rng(0).normal(size=(500, 8)) * 16).clip(-48, 48)
OTHERS = np.rint(np.random.default_rng(1).normal(size=(500, 8)) * 16).clip(-48, 48)
LOW, HIGH = np.full(8, -48.0), np.full(8, 48.0)


def opened(points=POINTS, n=6, k=10, seed=1):
    """Lloyd over exact sums that the server and clients see."""
    data = secfc.Federation.from_arrays(np.array_split(points, n))
    return data, secfc.fit(secfc.FederatedLloyd(k, blind=False), data, seed=seed, keep_bodies=True)


@pytest.fixture(scope="module")
def opened_run():
    return opened()


@pytest.mark.parametrize("who", [SERVER, "client-2"])
def test_two_steps_that_differ_by_a_row_give_it(opened_run, who):
    data, result = opened_run
    unit = result.plan.quantizer.scale
    seen = others_sums(View.of(result, result.plan, who, data))
    alone = judge_rows(step_differences(seen, unit), POINTS, 1 / unit)
    any_two = judge_rows(step_differences(seen, unit, low=LOW, high=HIGH), POINTS, 1 / unit)
    assert any_two.exact > alone.exact
    assert any_two.exact >= 8
    assert any_two.false_guesses <= 0.25 * any_two.exact
    if who != SERVER:  # it knows its own rows, and guesses others'
        others = [p.points for p in data.parties if p.name != who]
        guessed = step_differences(seen, unit, low=LOW, high=HIGH)
        assert judge_rows(guessed, np.concatenate(others), 1 / unit).exact == any_two.exact


def test_control_guesses_at_other_data_are_false(opened_run):
    _, result = opened_run
    unit = result.plan.quantizer.scale
    rows = step_differences(others_sums(View.of(result, result.plan, SERVER)), unit, low=LOW, high=HIGH)
    judged = judge_rows(rows, OTHERS, 1 / unit)
    assert judged.exact == 0
    assert judged.false_guesses >= 8
    assert judged.error > 0.3


def test_an_attack_reads_its_view_and_nothing_else():
    data, result = opened(POINTS.copy())
    view = View.of(result, result.plan, SERVER)
    before = step_differences(others_sums(view), 1.0).values
    for party in data.parties:
        party.points.flags.writeable = True
        party.points[:] = np.nan
    for poisoned in (*result.labels, *result.history, result.centers):
        poisoned.flags.writeable = True
        poisoned[:] = -1
    np.testing.assert_array_equal(step_differences(others_sums(view), 1.0).values, before)


def test_noisy_sums_and_shares_give_no_row():
    data = secfc.Federation.from_arrays(np.array_split(POINTS, 6), server_points=OTHERS[:60])
    way = FedDPKMeans(10, 1.0, 1e-6, steps=4, noise=SharedNoise())
    result = secfc.fit(way, data, seed=0, keep_bodies=True)
    view = View.of(result, result.plan, SERVER, data)
    assert len(visible_sums(result.plan.sums, view.messages)) == 8
    unit = result.plan.scale
    rows = step_differences(step_sums(view), unit, low=LOW, high=HIGH)
    assert judge_rows(rows, POINTS, 1 / unit).exact == 0
    # Exact sums at the server are what `ServerNoise` says it sees; clients see none of either.
    exact = secfc.fit(
        FedDPKMeans(10, 1.0, 1e-6, steps=1, noise=ServerNoise()), data, seed=0, keep_bodies=True
    )
    seen = step_sums(View.of(exact, exact.plan, SERVER))
    assert (seen.counts.sum(axis=1) == len(POINTS)).all()
    assert visible_sums(exact.plan.sums, View.of(exact, exact.plan, "client-1").messages) == {}
    # Under the default there is no sum to read.
    safe = secfc.fit(secfc.SecFC(10, 1), data, seed=0, keep_bodies=True)
    assert not [e for e in View.of(safe, safe.plan, SERVER).messages if isinstance(e.body, CodedSum)]


def test_messages_of_each_site_give_many_rows():
    parts = np.array_split(POINTS.astype(np.int64), 20)
    sites = site_messages(parts, 10, seed=0)
    judged = judge_rows(site_differences(sites, 1.0, low=LOW, high=HIGH), POINTS)
    assert judged.exact > 100
    assert judged.false_guesses < 0.1 * judged.exact
    assert "messages of each site" in judged.sentence


def test_two_runs_that_differ_by_a_row_give_it():
    points = np.round(load_iris().data[:, :3] * 8) / 8
    outputs = []
    for rows in (points, np.delete(points, 77, axis=0)):
        data = secfc.Federation.from_arrays(np.array_split(rows, 5))
        way = secfc.SecFC(
            3,
            1,
            release=secfc.Release(reveal_centers=True, smallest_center=1),
            quantization=secfc.Quantization(scale=8.0, coarse="allow"),
        )
        result = secfc.fit(way, data, bound=16.0, seed=0, keep_bodies=True)
        outputs.append(View.of(result, result.plan, OUTSIDER).output)
    rows = run_differences(*outputs)
    np.testing.assert_allclose(rows.values, points[77:78], rtol=1e-9)
    np.testing.assert_allclose(run_differences(*outputs[::-1]).values, rows.values)
    assert judge_rows(rows, points).exact == 1
    # One row more somewhere and other labels as well: nothing is claimed.
    centers = outputs[1].centers.copy()
    centers[0] += 0.01
    assert len(run_differences(outputs[0], PublicOutput(centers, outputs[1].sizes)).values) == 0
    assert len(run_differences(outputs[0], outputs[0]).values) == 0


def test_a_cluster_of_one_is_its_row_and_of_two_the_other():
    centers = np.array([[1.0, 2.0], [5.0, 5.0], [np.nan, np.nan], [9.0, 0.0]])
    output = PublicOutput(centers, np.array([1, 2, 0, 5]))
    assert singleton_rows(output).values.tolist() == [[1.0, 2.0]]
    assert singleton_rows(output, np.array([[5.5, 4.0], [9.0, 1.0]])).values.tolist() == [
        [1.0, 2.0],
        [4.5, 6.0],
    ]
    # Both are mine: nothing to learn.
    assert singleton_rows(output, np.array([[5.5, 4.0], [4.5, 6.0]])).values.tolist() == [[1.0, 2.0]]


def test_what_was_not_opened_is_not_attacked():
    for closed in (PublicOutput(None, np.array([1, 2])), PublicOutput(np.ones((2, 2)), None)):
        with pytest.raises(ValueError, match="nothing to attack"):
            singleton_rows(closed)
        with pytest.raises(ValueError, match="nothing to attack"):
            run_differences(closed, closed)


def test_a_difference_that_no_label_rule_allows_is_no_row():
    centers = np.array([[0, 0], [100, 0]])
    counts = np.array([[5, 5], [5, 5], [6, 4]])
    sums_ = centers[None] * counts[:, :, None]
    sums_[2] += np.array([[40, 7], [60 - 100, -7]])
    group = np.zeros(2, int)
    low, high = np.array([-200, -200]), np.array([200, 200])
    (row,) = nested_differences(KnownSums(sums_, counts[:, :, None], group), low, high)
    assert row.values.tolist() == [40, 7]
    assert nested_differences(KnownSums(sums_, counts[:, :, None], group), low, np.array([30, 30])) == []
    far = sums_ + np.array([[[0, 0]] * 2, [[0, 0]] * 2, [[50, 0], [-50, 0]]])
    assert (
        nested_differences(KnownSums(far, counts[:, :, None], group), low, high) == []
    )  # 90 is nearest to the other


@pytest.mark.parametrize(
    "way",
    [
        secfc.SecFC(3, 1), secfc.SecFC(3, 1, disclosure=secfc.OwnLabels()), secfc.Lloyd(3), secfc.KFed(3, 2),
        FedDPKMeans(3, 4.0, 1e-6), secfc.FederatedLloyd(3, coarse="allow"),
    ],
    ids=lambda way: type(way).__name__,
)  # fmt: skip
def test_every_algorithm_has_views(way):
    points = np.random.default_rng(0).normal(size=(60, 3))
    data = secfc.Federation.from_arrays(np.array_split(points, 5), server_points=points[:20] + 1)
    result = secfc.fit(way, data, seed=0, keep_bodies=True)
    view = View.of(result, result.plan, (SERVER, "client-1"), data)
    np.testing.assert_array_equal(view.held["client-1"].points, data.parties[1].points)
    assert view.held["client-1"].rows.tolist() == list(range(12, 24))
    outside = View.of(result, result.plan, OUTSIDER, data)
    assert (outside.messages, dict(outside.held), outside.parties) == ((), {}, ())
    assert (outside.output.centers is None) == (result.centers is None)
    assert repr(outside).startswith("View(outsider")
    if isinstance(way, secfc.KFed):
        assert set(local_clusters(view)) == set(data.names) - {"client-1"}
        with pytest.raises(ValueError, match="sent to the server only"):
            local_clusters(View.of(result, result.plan, "client-1"))


def test_findings_have_a_sentence_figures_and_a_picture():
    rows = RowGuesses(np.array([[1.0, np.nan], [3.0, 3.0]]), np.zeros(2), "clusters of one")
    judged = judge_rows(rows, np.array([[1.0, 7.0], [2.0, 2.0]]))
    assert (judged.exact, judged.false_guesses, judged.m) == (1, 1, 2)
    assert judged.figures()["exact"] == 1
    assert REMEDIES["clusters of one"] in judged.sentence
    assert plot_rebuilt([judged]).axes
    nothing = RebuiltRows("clusters of one", 5, 0, 0, None)
    assert nothing.sentence == "From clusters of one no row could be rebuilt."
