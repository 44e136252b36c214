"""Final labels only: the end of plaintext Lloyd, and views in which nothing before it can be seen."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import secfc
from secfc.attacks.views import View
from secfc.coded.membership import Private
from secfc.coded.queries import Operation
from secfc.disclosure.checked.messages import ResharedPart
from secfc.disclosure.final_labels import FinalLabelsOnly
from secfc.disclosure.owner_labels import dealerless
from secfc.errors import FaultyClient, FaultyServer, SuspectedParties, TooFewReplies
from secfc.kmeans.loop import PlainSource, lloyd
from secfc.kmeans.starts import CenterSeparation, GivenLabels, KMeansPlusPlus, RandomPoints
from secfc.roles.exchange import ITERATE, SERVER, STRIDE, run_alone
from tests.nightly import trials
from tests.secfc.queries import altered
from tests.secfc.rowtest import kinds
from tests.small import cluster, federation


def cluster_to_the_end(data, stop=True, **settings):
    return cluster(data, FinalLabelsOnly(stop=stop), **{"max_iter": 8, **settings})


def assert_end_of_plaintext(result, data, max_iter=8):
    """The last labels and the number of steps of plaintext integer Lloyd from the same start."""
    points = result.plan.quantizer(data.stacked())
    start, *_, last = result.history
    trace = run_alone(lloyd(start.astype(np.int32), result.plan.k, max_iter, PlainSource(points)))
    assert len(result.history) == 2
    assert (last == trace.history[-1]).all()
    assert result.n_iter == trace.n_iter
    return trace


# --- exactness -----------------------------------------------------------------------------------


@trials(12)
@given(
    st.integers(1, 2), st.integers(0, 1), st.integers(1, 70), st.integers(1, 3), st.integers(1, 5),
    st.integers(0, 2**16), st.booleans(), st.booleans(),
)  # fmt: skip
def test_the_end_is_that_of_plaintext_lloyd(t, spare, m, d, k, seed, whole, points):
    # Whole numbers on a small grid make ties and duplicates; k near m makes empty clusters.
    n = 2 * t + 1 + spare
    m = max(m, n, k)
    data = federation(n, m, d, seed, whole)
    start = {"init": RandomPoints()} if points else {}
    assert_end_of_plaintext(cluster_to_the_end(data, k=k, t=t, seed=seed, max_iter=4, **start), data, 4)


@pytest.mark.parametrize("k", [8, 13])
def test_many_clusters_some_of_them_empty(k):
    data = federation(3, 90, 2, k, integers=True)
    assert_end_of_plaintext(cluster_to_the_end(data, k=k), data)
    # All points begin in two clusters: the others are empty for good, whatever their index.
    result = cluster_to_the_end(data, k=k, init=GivenLabels(np.where(np.arange(90) % 2, 5, 2)))
    assert_end_of_plaintext(result, data)
    assert set(np.unique(result.history[-1])) <= {2, 5}


def test_more_than_64_clusters():
    data = federation(3, 80, 1, 4, integers=True)
    assert_end_of_plaintext(cluster_to_the_end(data, k=66, max_iter=2, init=RandomPoints()), data, 2)


def test_three_of_seven_may_collude():
    data = federation(7, 50, 2)
    assert_end_of_plaintext(cluster_to_the_end(data, t=3), data)


def test_a_fixed_number_of_steps():
    data = federation(3, 60, 2)
    result = cluster_to_the_end(data, stop=False, max_iter=12)
    trace = run_alone(
        lloyd(result.history[0].astype(np.int32), 3, 12, PlainSource(result.plan.quantizer(data.stacked())))
    )
    assert trace.converged
    assert trace.n_iter < 12
    assert (result.n_iter, result.converged) == (12, False)
    assert (result.history[-1] == trace.history[-1]).all()
    assert not any(e.body.same for e in result.transcript.envelopes if e.kind == "SizeShare")


@pytest.mark.parametrize("labels", [[0] * 9, [-1, 0] * 4 + [-1]])
def test_one_cluster(labels):
    data = federation(3, 9, 2)
    assert_end_of_plaintext(cluster_to_the_end(data, k=1, init=GivenLabels(np.array(labels))), data)


def test_hidden_membership():
    data = federation(3, 40, 2)
    ids = [np.arange(a.shape[0]) + 100 * j for j, a in enumerate(p.read() for p in data.parties)]
    private = secfc.Federation.from_arrays([p.read() for p in data.parties], ids=ids)
    result = cluster_to_the_end(private, membership=Private(), max_iter=3)
    points = np.empty((40, 2), np.int64)
    for rows, party in zip(result.rows, private.parties, strict=True):
        points[rows] = result.plan.quantizer(party.read())
    trace = run_alone(lloyd(result.history[0].astype(np.int32), 3, 3, PlainSource(points)))
    assert (trace.history[-1] == result.history[-1]).all()


def test_new_points_are_labeled():
    data = federation(3, 60, 2)
    result = cluster_to_the_end(data)
    for mine, again in zip(result.labels, result.predict(data), strict=True):
        assert (mine == again).all() if result.converged else mine.shape == again.shape


# --- what is not stopped ---------------------------------------------------------------------------


def test_a_member_chooses_what_the_last_labels_tell_of_every_row(monkeypatch):
    # Each of two members has a part of how much nearer rows are to center 1, and deals any bits of it.
    data, parts, real = federation(3, 30, 1, integers=True), [], dealerless.winner_bits

    def end(added):
        def deal(joint, contest, basis, part, m):
            if part is not None:
                parts.append((basis, part.copy(), contest.comparisons[0][2:]))
            if joint.player.me == 0:
                part = part.copy()
                part[:, 0] = basis.add(part[:, 0], basis.reduce(np.full(m, added)))
            return (yield from real(joint, contest, basis, part, m))

        monkeypatch.setattr(dealerless, "winner_bits", deal)
        return cluster_to_the_end(data, k=2, max_iter=1).history[-1]

    honest, ((basis, mine, (u, v)), (_, other, _)) = end(0), parts
    one, two = basis.lift_signed(basis.add(mine, other)).astype(np.int64)
    nearer = v * one - u * two
    assert (honest == (nearer > 0)).all()
    for threshold in np.unique(nearer)[[1, -2]] // v:
        told = end(-threshold)
        assert (told == (nearer > v * threshold)).all()
        assert 0 < told.sum() < len(told)


# --- losses --------------------------------------------------------------------------------------


def test_a_lost_client_costs_a_new_beginning():
    data = federation(5, 60, 2)

    def faults(e):
        return () if e.sender == "client-1" and e.round > ITERATE + STRIDE else (e,)

    result = cluster_to_the_end(data, deviating=0, faults=faults)
    assert_end_of_plaintext(result, data)
    asked = {tuple(e.body.members) for e in result.transcript.envelopes if e.kind == "LloydStepQuery"}
    assert asked == {(0, 1, 2), (0, 2, 3)}
    with pytest.raises(TooFewReplies):
        cluster_to_the_end(federation(3, 30, 2), faults=faults)


def test_a_malformed_share_names_its_sender():
    def faults(e):
        if (e.kind, e.sender) == ("ResharedPart", "client-1"):
            object.__setattr__(e, "body", ResharedPart(e.body.values[:, :-1]))
        return (e,)

    with pytest.raises(FaultyClient, match="client-1 sent a malformed message"):
        cluster_to_the_end(federation(3, 30, 2), faults=faults)


@pytest.mark.parametrize("step", [0, 1])
def test_another_start_is_refused(step):
    """One run ends in one labeling; a server that may ask for more would see every step."""

    def faults(e):
        if e.kind == "LloydStepQuery" and e.body.at.step == step:
            object.__setattr__(e, "body", altered(e.body, labels=np.zeros(30, np.int8)))
        return (e,)

    with pytest.raises((FaultyServer, SuspectedParties), match=r"asked"):
        cluster_to_the_end(federation(4, 30, 2), faults=faults)


@pytest.mark.parametrize("asked", [Operation.COMPARE, Operation.REVEAL_LABELS])
def test_labels_of_a_step_are_refused(asked):
    def faults(e):
        if e.kind == "LloydStepQuery" and e.body.at.step == 1:
            object.__setattr__(e, "body", altered(e.body, operation=asked))
        return (e,)

    with pytest.raises((FaultyServer, SuspectedParties), match=r"asked"):
        cluster_to_the_end(federation(4, 30, 2), faults=faults)


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({"ell": 2}, "Use .*ell=1"),
        ({"n_init": 2}, "n_init=2"),
        ({"largest": 20}, "sizes are secret"),
        ({"init": CenterSeparation()}, "this start opens others"),
        ({"init": KMeansPlusPlus()}, "opens to the server"),
        ({"t": 4}, "t from 1 to 3"),
    ],
)
def test_what_would_be_opened_is_refused(parameters, why):
    with pytest.raises(ValueError, match=why):
        cluster_to_the_end(federation(9, 40, 2), **parameters)


# --- views ---------------------------------------------------------------------------------------

STEPS = 2


@pytest.fixture(scope="module")
def common():
    data = federation(3, 320, 3)
    return data, cluster_to_the_end(data, k=3, max_iter=STEPS)


# Per step: sums of points, products of these, and what numbers are made of, each dealt anew; parts of the
# winners' bits, of which the third client deals none; and their product.  Of each dealing one of two
# receivers expands its share.  The second step sums by shared labels, so its products are checked.
GOLDEN = {
    (SERVER,): {"Hello": 3, "SizeShare": 3 * STEPS, "LabelShare": 3},
    ("client-0",): {
        "Hello": 3, "RowShares": 2, "PublicKey": 2, "LloydStepQuery": STEPS, "RevealLabels": 1,
        "FinalResult": 1, "ResharedPart": 10, "CheckedPart": 2, "ProductWords": 2,
        "MaskedDistances": STEPS, "MaskedBits": 34, "SizeShare": 2 * STEPS,
        "LabelShare": 2, "CheckDealing": STEPS, "CheckCoin": STEPS + 6, "CheckDigest": STEPS + 2,
        "MaskedRow": 2 * STEPS, "MaskedProducts": 2 * STEPS, "PartSums": STEPS,
    },
    ("client-2",): {
        "Hello": 3, "RowShares": 2, "PublicKey": 2, "LloydStepQuery": STEPS, "RevealLabels": 1,
        "FinalResult": 1, "ResharedPart": 10, "CheckedPart": 2, "ProductWords": 2,
        "MaskedBits": 36, "SizeShare": 2 * STEPS, "SetKeys": 2,
        "LabelShare": 2, "CheckDealing": 2 * STEPS, "CheckCoin": 6, "CheckDigest": 2 * STEPS + 2,
        "MaskedRow": 2 * STEPS,
    },
}  # fmt: skip
GOLDEN = {
    parties: Counter(table) + Counter(kinds(3, 1, parties)["received"]) for parties, table in GOLDEN.items()
}


@pytest.mark.parametrize("parties", GOLDEN, ids="+".join)
def test_golden_kinds_of_messages(common, parties):
    _, result = common
    assert View.of(result, result.plan, parties).kinds()["received"] == Counter(GOLDEN[parties])


def test_nobody_is_told_labels_on_the_way(common):
    _, result = common
    last = max(e.round for e in result.transcript.envelopes if e.kind == "RevealLabels")
    for e in result.transcript.envelopes:
        assert e.kind not in ("DistanceQuery", "CompareQuery", "CodedDistances")
        assert e.kind != "LabelShare" or e.round >= last
        if e.kind == "LloydStepQuery":
            assert (e.body.labels == result.history[0]).all()
    assert result.cost is None


def is_uniform(octets):
    """Chi-square over 256 values; five sigma, so a false alarm in a million seeds."""
    counts = np.bincount(octets, minlength=256)
    expected = octets.size / 256
    return float(((counts - expected) ** 2 / expected).sum()) < 255 + 5 * (2 * 255) ** 0.5


def test_what_the_server_learned_is_said(common):
    _, result = common
    assert any("final labels" in fact and "number of steps" in fact for fact in result.learned)
