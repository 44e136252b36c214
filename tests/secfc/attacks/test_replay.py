"""The server's view computed again is the one that was recorded, and the attack on it is the same."""

import dataclasses

import numpy as np
import pytest

import secfc
from field.secrets.coins import SeededCoins
from secfc.attacks.geometry import Simplex, locate_points, reconstruct_geometry
from secfc.attacks.judging import judge_guess
from secfc.coded_kmeans.adversary_view import DecodedView, QueryRecorder, ServerView
from secfc.data.inputs import build_algorithm
from secfc.kmeans.starts import KMeansPlusPlus, RandomLabels
from secfc.privacy import Bound, Budget
from secfc.report.leakage import curious_server
from secfc.roles.exchange import SERVER
from tests.nightly import every
from tests.secfc.attacks.test_geometry import mixture


def witnessed(points, n=5, **parameters):
    """(result with a full transcript, federation, witness)."""
    federation = secfc.Federation.from_arrays(np.array_split(points, n))
    witness = QueryRecorder()
    way = build_algorithm(secfc.SecFC, k=4, t=1, **{"disclosure": secfc.Distances(), **parameters})
    return secfc.fit(way, federation, keep_bodies=True, watch=witness), federation, witness


@pytest.mark.parametrize("init", [RandomLabels(), KMeansPlusPlus()], ids=repr)
@pytest.mark.parametrize("blind", [True, False])
def test_the_replay_is_what_was_recorded(init, blind):
    disclosure = secfc.Distances(blind=blind)
    result, federation, witness = witnessed(
        mixture(200, 6, 4, 20), init=init, n_init=2, ell=2, disclosure=disclosure
    )
    recorded = DecodedView.of(result, result.plan, (SERVER, federation.names[1]), federation)
    replay = ServerView.of_recording(witness, result, federation, federation.names[1])
    pairs = list(zip(recorded.questions(), replay.questions(), strict=True))
    # Restarts and starts are among the questions, more than the history of the best start.
    assert len(pairs) > len(result.history)
    for a, b in pairs:
        assert (a.number, a.k) == (b.number, b.k)
        assert (a.labels == b.labels).all()
        assert np.allclose(recorded.distances(a), replay.distances(b), rtol=1e-9, equal_nan=True)
    assert replay.parties == recorded.parties
    for ours, theirs in zip(replay.known(), recorded.known(), strict=True):
        assert np.array_equal(ours, theirs)


def test_what_the_curious_server_finds_is_what_the_attack_on_the_transcript_finds():
    result, federation, witness = witnessed(mixture(203, 6, 4, 20), n_init=2)
    found = curious_server(witness, result, secfc.Distances(), federation)
    assert found.used == found.asked == len(witness.questions)
    quantizer = result.plan.quantizer
    points = np.concatenate([quantizer(p.read()) for p in federation.parties]) / quantizer.scale
    alone = judge_guess(reconstruct_geometry(DecodedView.of(result, result.plan, SERVER)), points)
    assert found.judgements["distances"].ranks == alone.ranks
    assert found.judgements["distances"].parties == (SERVER,)
    assert np.allclose(found.judgements["distances"].error, alone.error, atol=1e-6)
    # The first of the clients with most points is the one that helps.
    joint = judge_guess(
        locate_points(DecodedView.of(result, result.plan, (SERVER, "client-0"), federation)), points
    )
    assert np.allclose(found.judgements["distances and the points of client-0"].error, joint.error, atol=1e-6)
    # Controls: all is recovered here; labels alone, and the distances of another run, do not do it.
    assert alone.share[-1] > 1 - 1e-9
    assert found.judgements["labels alone"].share[-1] < 0.9
    other = secfc.Federation.from_arrays(np.array_split(mixture(203, 6, 4, 20, seed=1), 5))
    wrong = ServerView.of_recording(witness, result, other)
    assert judge_guess(reconstruct_geometry(wrong), points).share[-1] < 0.5


def test_the_policy_says_what_is_tried():
    for policy, exposes in (
        (secfc.Distances(), "distances"), (secfc.AssignmentsOnly(), "labels"),
        (secfc.FinalLabelsOnly(), "nothing"),
    ):  # fmt: skip
        result, federation, witness = witnessed(mixture(100, 6, 4, 20), disclosure=policy)
        found = curious_server(witness, result, policy, federation)
        assert found.exposes == policy.capabilities.exposes == exposes
        assert ("distances" in found.judgements) == (exposes == "distances")
        assert "labels alone" in found.judgements


def test_large_runs_are_attacked_with_their_first_questions_only():
    result, federation, witness = witnessed(mixture(100, 20, 4, 20), n_init=3)
    full = curious_server(witness, result, secfc.Distances(), federation)
    once = 100 * 20 * (4 + 20 / 16 + 16)
    some = curious_server(witness, result, secfc.Distances(), federation, limit=2.5 * once)
    assert (some.used, some.asked) == (2, full.asked)
    assert some.judgements["distances"].ranks == full.judgements["distances"].ranks[:2]
    assert some.judgements["distances"].share[-1] < full.judgements["distances"].share[-1]
    none = curious_server(witness, result, secfc.Distances(), federation, limit=0.5 * once)
    assert (none.used, dict(none.judgements)) == (0, {})


def test_points_that_several_clients_hold_count_once():
    points = mixture(120, 4, 4, 20)
    parties = [
        secfc.Party(f"c{j}", points[rows], ids=tuple(int(i) for i in rows))
        for j, rows in enumerate([*np.split(np.arange(120), 3), np.arange(30, 60), np.arange(10)])
    ]
    federation = secfc.Federation(tuple(parties))
    witness = QueryRecorder()
    result = secfc.fit(secfc.SecFC(k=4, threshold=1, membership=secfc.Private()), federation, watch=witness)
    found = curious_server(witness, result, secfc.Distances(), federation)
    assert found.judgements["distances"].m == 120
    assert found.judgements["distances"].share[-1] > found.judgements["labels alone"].share[-1]


def test_a_run_that_left_rows_out_is_not_replayed():
    result, federation, witness = witnessed(mixture(60, 3, 4, 20))
    with pytest.raises(ValueError, match="left out a client's rows"):
        ServerView.of_recording(witness, dataclasses.replace(result, excluded=("client-1",)), federation)


def test_a_run_that_was_resumed_is_witnessed_whole(tmp_path):
    federation = secfc.Federation.from_arrays(np.array_split(mixture(100, 4, 4, 20), 5))
    algorithm, whole = secfc.SecFC(k=4, threshold=1), QueryRecorder()
    secfc.fit(algorithm, federation, watch=whole)
    assert len(whole.questions) > 3
    seen = QueryRecorder()

    def crash(party, exchange):
        seen(party, exchange)
        if len(seen.questions) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        secfc.fit(algorithm, federation, watch=crash, checkpoint=tmp_path)
    resumed = QueryRecorder()
    secfc.fit(algorithm, federation, watch=resumed, checkpoint=tmp_path)
    for a, b in zip(whole.questions, resumed.questions, strict=True):
        assert (a.labels == b.labels).all()


def noisy(epsilon, points):
    """A run under noise in shares: its finding, and the attack on what was really decoded."""
    bound = float(np.abs(points).max())
    radius = Bound.given(float(np.linalg.norm(points, axis=1).max()))
    policy = secfc.NoiseInShares(Budget(epsilon, 1e-6), radius=radius)
    federation, witness = secfc.Federation.from_arrays(np.array_split(points, 5)), QueryRecorder()
    way = secfc.SecFC(k=4, threshold=1, max_iter=6, disclosure=policy)
    options = {"keep_bodies": True, "watch": witness, "coins": lambda name: SeededCoins(5, name)}
    result = secfc.fit(way, federation, seed=0, bound=bound, **options)
    found = curious_server(witness, result, policy, federation)
    view = DecodedView.of(result, result.plan, SERVER, federation)

    def deviation(question):
        return policy.deviation(result.plan, question.labels, question.k)

    truth = ServerView.of_recording(witness, result, federation).points
    return found, judge_guess(reconstruct_geometry(view, deviation=deviation), truth)


def test_noisy_distances_are_attacked_as_such():
    points = mixture(200, 4, 4, 2)
    # Next to no noise: the attack finds what it finds in exact distances, also in those that were decoded.
    found, recorded = noisy(1e11, points)
    assert set(found.judgements) == {
        "noisy distances", "noisy distances and the points of client-0", "labels alone",
        "labels of other points",
    }  # fmt: skip
    assert found.judgements["noisy distances"].freedom == "similarity"
    for judgement in (found.judgements["noisy distances"], recorded):
        assert judgement.share[-1] > 0.98 > found.judgements["labels alone"].share[-1]
    # More, and noise that is drawn anew misleads as much as the run's own.
    found, recorded = noisy(1e9, points)
    assert found.judgements["noisy distances"].error[-1] == pytest.approx(recorded.error[-1], abs=0.05)
    assert 0.02 < recorded.error[-1] < 0.2
    # A budget that protects.
    found, recorded = noisy(1.0, points)
    assert max(found.judgements["noisy distances"].share[-1], recorded.share[-1]) < 0.1


def test_noise_that_is_taken_for_data_is_no_direction():
    # The control: the attack on the same view, told that its distances are exact.
    points = mixture(200, 4, 4, 2)
    result, federation, witness = witnessed(points)
    view = ServerView.of_recording(witness, result, federation)
    assert max(reconstruct_geometry(dataclasses.replace(view, deviation=lambda q: 1e6)).ranks) > 0
    loud = dataclasses.replace(view, deviation=lambda q: 1e6)
    assert max(reconstruct_geometry(loud, deviation=loud.deviation).ranks) == 0


@pytest.mark.parametrize("policy", [secfc.AssignmentsOnly(consent=True), secfc.FinalLabelsOnly(consent=True)])
@pytest.mark.parametrize(("trials", "rank"), every(2, [(1, 2), (None, 6)]))
def test_distances_that_a_start_opens_are_attacked(policy, trials, rank):
    points = mixture(120, 6, 4, 20)
    result, federation, witness = witnessed(points, init=KMeansPlusPlus(trials), disclosure=policy)
    found = curious_server(witness, result, policy, federation).judgements
    # With single draws the server knows all distances of all points but the last that it chose: they span two
    # dimensions.  Of ten points that were drawn: all of them.
    assert found["distances"].ranks[-1] == rank
    truth = ServerView.of_recording(witness, result, federation).points
    final = judge_guess(Simplex((SERVER,), (result.history[-1],), 4), truth)
    assert found["distances"].share[-1] > final.share[-1]
    # The control: the same policy with a start that opens nothing.
    result, federation, witness = witnessed(points, disclosure=policy)
    judged = curious_server(witness, result, policy, federation).judgements
    assert set(judged) == {"labels alone", "labels of other points"}


def test_the_last_labels_are_attacked_where_others_are_hidden():
    result, federation, witness = witnessed(mixture(120, 6, 4, 20), disclosure=secfc.FinalLabelsOnly())
    found = curious_server(witness, result, secfc.FinalLabelsOnly(), federation)
    (share,) = found.judgements["labels alone"].share
    assert len(result.history) == 2  # the first are random
    points = ServerView.of_recording(witness, result, federation).points
    final = judge_guess(Simplex((SERVER,), result.history[-1:], 4), points).share[0]
    assert final <= share + 1e-9 < final + 0.05
