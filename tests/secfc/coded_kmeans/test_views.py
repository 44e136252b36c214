"""Views: what each coalition holds, sends and receives, and what it can decode from that."""

import dataclasses
from collections import Counter
from functools import partial

import numpy as np
import pytest

import secfc
from field.ring.basis import LANE_PRIMES, MERSENNE_61, Basis
from secfc.attacks.views import CannotDecode, View
from secfc.coded_kmeans.adversary_view import DecodedView
from secfc.kmeans.starts import GivenLabels, KMeansPlusPlus
from secfc.roles.exchange import SERVER
from tests import small
from tests.secfc.rowtest import with_rowtest
from tests.small import cluster

N, T, STEPS = 9, 2, 3
# max_iter reached: so many questions are asked, and one more for the cost of the result.
ASKED = STEPS + 1


federation = partial(small.federation, n=N, m=90, d=5)


def cluster_unblinded(data, **settings):
    # Unblinded, so that segments can be read, and of clients of whom one may lie, so that everybody answers.
    shared = {"t": T, "ell": 2, "corrected": 1, "init": secfc.RandomLabels()}
    return cluster(data, secfc.Distances(blind=False), **{**shared, **settings})


@pytest.fixture(scope="module")
def common():
    data = federation()
    result = cluster_unblinded(data, max_iter=STEPS)
    assert not result.converged
    return data, result


def quantized(result, data):
    quantizer = result.plan.quantizer
    return quantizer(data.stacked()) / quantizer.scale


# --- what is in a view ---------------------------------------------------------------------------

# Golden lists: a message that newly reaches somebody is a difference here.
GOLDEN = {
    (SERVER,): {
        "received": {"Hello": N, "CodedDistances": N * ASKED},
        "sent": {"Hello": N, "DistanceQuery": N * ASKED, "FinalResult": N},
        "inside": {},
    },
    ("client-0", "client-4"): {
        "received": {
            "Hello": 2 * (N - 1), "RowShares": 2 * (N - 2), "DistanceQuery": 2 * ASKED,
            "FinalResult": 2,
        },
        "sent": {
            "Hello": 2 * (N - 1), "RowShares": 2 * (N - 2), "CodedDistances": 2 * ASKED,
        },
        "inside": {"Hello": 2, "RowShares": 2},
    },
    (SERVER, "client-0"): {
        "received": {
            "Hello": 2 * (N - 1), "RowShares": N - 1, "CodedDistances": (N - 1) * ASKED,
        },
        "sent": {
            "Hello": 2 * (N - 1), "RowShares": N - 1, "DistanceQuery": (N - 1) * ASKED,
            "FinalResult": N - 1,
        },
        "inside": {"Hello": 2, "DistanceQuery": ASKED, "CodedDistances": ASKED, "FinalResult": 1},
    },
}  # fmt: skip
GOLDEN = with_rowtest(GOLDEN, N, T)


@pytest.mark.parametrize("parties", GOLDEN, ids="+".join)
def test_golden_kinds_of_messages(common, parties):
    data, result = common
    view = View.of(result, result.plan, parties, data)
    assert view.kinds() == GOLDEN[parties]
    assert Counter(e.kind for e in view.received()) == GOLDEN[parties]["received"]
    assert Counter(e.kind for e in view.sent()) == GOLDEN[parties]["sent"]


def test_no_client_receives_a_coded_distance(common):
    _, result = common
    view = View.of(result, result.plan, ["client-0", "client-4"])
    assert "CodedDistances" not in view.kinds()["received"]
    assert "CodedDistances" not in view.kinds()["inside"]


def test_messages_between_others_are_not_in_a_view(common):
    _, result = common
    for parties in GOLDEN:
        for e in View.of(result, result.plan, parties).messages:
            assert {e.sender, e.recipient} & set(parties)


def test_everybody_together_sees_everything(common):
    _, result = common
    view = View.of(result, result.plan, (SERVER, *result.plan.clients))
    assert view.messages == result.transcript.envelopes
    assert not view.received()
    assert not view.sent()


def test_held_points_are_those_of_the_coalition_only(common):
    data, result = common
    view = View.of(result, result.plan, [SERVER, "client-4"], data)
    assert set(view.held) == {"client-4"}
    rows, points = DecodedView(view).known()
    assert (rows == np.arange(40, 50)).all()
    assert (points == quantized(result, data)[rows]).all()
    assert (view.known()[1] == data.parties[4].read()).all()
    # Control: neither the server alone nor a view without a federation holds a point.
    for other in (View.of(result, result.plan, SERVER, data), View.of(result, result.plan, "client-4")):
        assert other.known()[0].shape == (0,)
        assert other.known()[1].shape[0] == 0


def test_a_transcript_alone_suffices(common):
    _, result = common
    assert View.of(result.transcript, result.plan, SERVER).kinds() == GOLDEN[(SERVER,)]


BASELINES = {
    secfc.Lloyd(k=3): {
        (SERVER,): ({"Hello": N, "RawPoints": N}, {"Hello": N, "FinalResult": N}),
        ("client-0", "client-4"): ({"Hello": 2, "FinalResult": 2}, {"Hello": 2, "RawPoints": 2}),
    },
    secfc.KFed(k=3, k_local=2): {
        (SERVER,): ({"Hello": N, "LocalCenters": N, "PointLabels": N}, {"Hello": N, "CenterLabels": N}),
        ("client-0", "client-4"): (
            {"Hello": 2, "CenterLabels": 2},
            {"Hello": 2, "LocalCenters": 2, "PointLabels": 2},
        ),
    },
}


@pytest.mark.parametrize("algorithm", BASELINES, ids=lambda algorithm: type(algorithm).__name__)
def test_views_exist_of_every_algorithm(algorithm):
    data = federation()
    result = secfc.fit(algorithm, data, keep_bodies=True)
    rows, points = View.of(result, result.plan, (SERVER, "client-1"), data).known()
    assert (rows == np.arange(10, 20)).all()
    assert (points == data.parties[1].read()).all()
    for parties, (received, sent) in BASELINES[algorithm].items():
        kinds = View.of(result, result.plan, parties).kinds()
        assert kinds == {"received": received, "sent": sent, "inside": {}}


# --- questions and distances ---------------------------------------------------------------------


def true_distances(points, labels, k):
    """(k, m) squared distances to cluster means, NaN for an empty cluster."""
    out = np.full((k, len(points)), np.nan)
    for h in set(labels[labels >= 0].tolist()):
        out[h] = ((points - points[labels == h].mean(axis=0)) ** 2).sum(axis=1)
    return out


@pytest.mark.parametrize("basis", [None, Basis((MERSENNE_61,)), Basis(LANE_PRIMES[:3])])
@pytest.mark.parametrize("ell", [1, 2, 3])
def test_distances_are_those_of_the_quantized_points(basis, ell):
    data = federation(n=9, d=5)
    result = cluster_unblinded(data, t=1, ell=ell, basis=basis, max_iter=STEPS)
    points = quantized(result, data)
    view = DecodedView.of(result, result.plan, SERVER)
    questions = list(view.questions())
    assert len(questions) == ASKED
    for question, labels in zip(questions, result.history, strict=True):
        assert (question.labels == labels).all()
        assert len(question.replies) == 9
        found = view.distances(question)
        np.testing.assert_allclose(found, true_distances(points, labels, 3), rtol=1e-12)
        width = -(-5 // ell)
        parts = view.segment_distances(question)
        assert parts.shape == (ell, 3, 90)
        for u in range(ell):
            segment = points[:, u * width : (u + 1) * width]
            np.testing.assert_allclose(parts[u], true_distances(segment, labels, 3), rtol=1e-12, atol=1e-12)


def test_questions_of_a_start_have_points_in_no_cluster():
    data = federation()
    result = cluster_unblinded(data, init=KMeansPlusPlus())
    view = DecodedView.of(result, result.plan, SERVER)
    first = next(view.questions())
    assert first.k == 1
    assert (first.labels >= 0).sum() == 1
    chosen = int(first.labels.argmax())
    points = quantized(result, data)
    np.testing.assert_allclose(view.distances(first)[0], ((points - points[chosen]) ** 2).sum(axis=1))


def test_an_empty_cluster_has_no_distances():
    data = federation()
    result = cluster_unblinded(data, init=GivenLabels(np.arange(90) % 2), max_iter=1)
    view = DecodedView.of(result, result.plan, SERVER)
    for question in view.questions():
        assert np.isnan(view.distances(question)).all(axis=1).tolist() == [False, False, True]


def test_every_coalition_with_the_server_decodes_the_same(common):
    data, result = common
    alone, joined = (DecodedView.of(result, result.plan, p, data) for p in (SERVER, (SERVER, "client-0")))
    for a, b in zip(alone.questions(), joined.questions(), strict=True):
        assert (alone.distances(a) == joined.distances(b)).all()


def test_t_clients_see_labels_and_decode_nothing_but_enough_clients_do(common):
    _, result = common
    needed = result.plan.code.threshold(2)
    clients = result.plan.clients
    for count in (1, T, needed - 1):
        view = DecodedView.of(result, result.plan, clients[:count])
        for question, labels in zip(view.questions(), result.history, strict=True):
            assert (question.labels == labels).all()
            with pytest.raises(CannotDecode, match=rf"saw {count} repl(y|ies) .* {needed} are needed"):
                view.distances(question)
            with pytest.raises(CannotDecode):
                view.segment_distances(question)
    # Control: their own replies suffice once they are as many as the code needs.
    view = DecodedView.of(result, result.plan, clients[:needed])
    assert np.isfinite(view.distances(next(view.questions()))).all()


def test_a_lost_reply_is_missing_and_a_repeated_one_counts_once():
    def faults(envelope):
        if envelope.kind == "CodedDistances" and envelope.sender == "client-2":
            return ()
        return (envelope, envelope) if envelope.kind == "CodedDistances" else (envelope,)

    result = secfc.fit(
        secfc.SecFC(
            k=3,
            threshold=secfc.Threshold(T, 2, corrected=1),
            init=secfc.RandomLabels(),
            max_iter=STEPS,
            disclosure=secfc.Distances(blind=False),
        ),
        federation(),
        keep_bodies=True,
        faults=faults,
    )
    view = DecodedView.of(result, result.plan, SERVER)
    for question in view.questions():
        assert sorted(question.replies) == [0, 1, 3, 4, 5, 6, 7, 8]
        assert np.isfinite(view.distances(question)).all()


# --- secrecy and errors --------------------------------------------------------------------------


def test_repr_shows_shapes_only(common):
    _, result = common
    marked = secfc.Federation.from_arrays([np.full((10, 5), 0.123456)] * N)
    view = View.of(result, result.plan, [SERVER, "client-0"], marked)
    text = repr(view) + repr(view.held) + repr(list(DecodedView(view).questions())) + repr(DecodedView(view))
    assert "0.123" not in text
    assert "[" not in repr(view)
    assert "(10, 5)" in repr(view)


def test_without_contents_the_error_names_the_remedy():
    result = cluster_unblinded(federation(), keep_bodies=False, max_iter=1)
    with pytest.raises(ValueError, match=r"keep_bodies=True"):
        View.of(result, result.plan, SERVER)


@pytest.mark.parametrize("parties", ["client-99", ["client-0", "nobody"], []])
def test_who_took_no_part_has_no_view(common, parties):
    _, result = common
    with pytest.raises(ValueError, match="took no part"):
        View.of(result, result.plan, parties)


def test_another_federation_is_refused(common):
    _, result = common
    with pytest.raises(ValueError, match="differ in clients or row counts"):
        View.of(result, result.plan, "client-0", federation(m=99))


def test_views_do_not_change(common):
    _, result = common
    view = View.of(result, result.plan, SERVER)
    with pytest.raises(dataclasses.FrozenInstanceError):
        view.parties = ("client-0",)
