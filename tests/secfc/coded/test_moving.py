"""Steps in two questions: which points another center wins, and the nearest centers of these alone."""

import dataclasses
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import secfc
from field.code.rows import cluster_sizes
from field.secrets.coins import SeededCoins
from secfc.attacks.views import View
from secfc.coded.parameters import Network
from secfc.coded.queries import Operation
from secfc.coded_kmeans.adversary_view import DecodedView
from secfc.data.inputs import build_algorithm
from secfc.disclosure import AssignmentsOnly
from secfc.disclosure.compare.session import CommitteeChoice, should_prune
from secfc.errors import FaultyServer, SuspectedParties, TooFewReplies
from secfc.kmeans.bisecting import Bisecting
from secfc.kmeans.elbow import Elbow
from secfc.kmeans.starts import GivenLabels, RandomLabels, RandomPoints
from secfc.roles.exchange import ITERATE, SERVER, STRIDE
from secfc.transport.wire import over_wire
from tests import small
from tests.nightly import by_night, covering, short, trials
from tests.secfc.queries import altered, query
from tests.small import cluster, same_runs

# On which bytes cost all, and rounds nothing.
SLOW = Network(latency=0.0, bandwidth=1.0)


federation = partial(small.federation, m=160)


def run_moved(data, dealer=SERVER, **settings):
    shared = {"k": 5, "network": SLOW, "init": RandomLabels(), "coarse": "allow", "bound": 6.0}
    return cluster(data, AssignmentsOnly(dealer), **{**shared, **settings})


def plain(data, *, k=5, seed=0, **parameters):
    shared = {"init": RandomLabels(), "coarse": "allow", **parameters}
    return secfc.fit(
        build_algorithm(secfc.Lloyd, k=k, disclosure=AssignmentsOnly(), **shared), data, seed=seed, bound=6.0
    )


def asked(result, recipient="client-0"):
    """The questions about labels that a client heard, in their order."""
    kinds = ("CompareQuery", "CompareOwnQuery", "CompareMovedQuery")
    return [e.body for e in result.transcript.envelopes if e.kind in kinds and e.recipient == recipient]


def moved_of(question):
    return np.unpackbits(question.detail, count=len(question.labels), bitorder="little").astype(bool)


# --- exactness -----------------------------------------------------------------------------------


@trials(4, nightly=100)
@given(
    st.sampled_from([(1, 3, 1), (2, 5, 1), (1, 5, 2), (1, 2, 0)]), st.integers(1, 9), st.integers(1, 4),
    st.integers(0, 2**20), st.sampled_from(["server", "client", "nobody"]),
    st.sampled_from(["exact", "rounded"]),
)  # fmt: skip
def test_labels_are_those_of_plaintext(shape, k, d, seed, deals, centers):
    # Small integers as points: duplicates, ties and empty clusters are the rule.
    ell, _, t = shape
    n = max(2 * (ell + t - 1) + 1, max(2, t + 1) + 1)
    data = federation(n=n, m=90, d=d, seed=seed, integers=True)
    dealer = {"server": SERVER, "client": f"client-{n - 1}", "nobody": None}[deals]
    if dealer is None:  # then committees are of responders, and centers exact
        t, centers = max(1, t), "exact"
        data = federation(n=max(n, 2 * (ell + t - 1) + 1), m=90, d=d, seed=seed, integers=True)
    shared = {"k": k, "seed": seed, "centers": centers, "max_iter": 5}
    assert same_runs(run_moved(data, t=t, ell=ell, dealer=dealer, **shared), plain(data, **shared))


@pytest.mark.parametrize("centers", ["exact", *by_night("rounded")])
def test_all_that_a_run_may_have_goes_along(centers):
    data, new = federation(n=7), federation(n=7, m=30, seed=1)
    ways = (
        {"n_init": 2, "scale": 64.0, "t": 2}, {"k": Elbow(6), "init": Bisecting()}, {"workers": 4},
        {"n_init": 3}, {"init": Bisecting()}, {"init": RandomPoints()}, {"reveal_centers": True},
        {"scale": 64.0, "t": 2},
    )  # fmt: skip
    for more in short(ways[:2], nightly=ways):
        shared = {name: more[name] for name in more if name not in ("workers", "t", "reveal_centers")}
        ours, theirs = run_moved(data, centers=centers, **more), plain(data, centers=centers, **shared)
        assert same_runs(ours, theirs)
        assert "CompareOwnQuery" in {e.kind for e in ours.transcript.envelopes}
        if "n_init" in more:
            assert ours.cost == theirs.cost
        if "workers" not in more:
            pairs = zip(ours.predict(new), theirs.predict(new), strict=True)
            assert all((a == b).all() for a, b in pairs)


def test_bytes_and_seals_change_nothing():
    data = federation(m=90)
    bare, theirs = run_moved(data), plain(data)
    assert same_runs(bare, theirs)
    assert same_runs(run_moved(data, faults=over_wire()), theirs)
    assert same_runs(run_moved(data, sealed=True), theirs)


@pytest.mark.nightly
def test_hidden_membership_changes_nothing():
    data = federation(m=90)
    union = [
        secfc.fit(
            secfc.SecFC(4, threshold=1, init=RandomLabels(),
                        runtime=secfc.Runtime(network=network),
                        quantization=secfc.Quantization(scale=2.0**8), membership=secfc.Private()),
            data, coins=lambda name: SeededCoins(3, name),
        )
        for network in (SLOW, Network())
    ]  # fmt: skip
    kinds = [{e.kind for e in found.transcript.envelopes} for found in union]
    assert "CompareOwnQuery" in kinds[0]
    assert "CompareOwnQuery" not in kinds[1]
    assert same_runs(*union)


def test_blocks_of_rows_change_nothing(monkeypatch):
    monkeypatch.setattr("field.compare.blockwise.LEAST", 64)
    data = federation(m=330)
    ours = run_moved(data)
    assert "RequestCorrections" in {e.kind for e in ours.transcript.envelopes}
    assert same_runs(ours, plain(data))


# --- what is asked, and when -----------------------------------------------------------------------


def test_the_second_question_is_about_the_points_that_move_and_no_others():
    data = federation()
    result = run_moved(data)
    first, second = (
        [q for q in asked(result) if q.kind == kind] for kind in ("CompareOwnQuery", "CompareMovedQuery")
    )
    after = {
        before.tobytes(): after for before, after in zip(result.history, result.history[1:], strict=False)
    }
    assert len(first) > 3
    for question in second:
        new = after.get(question.labels.tobytes(), question.labels)
        assert (moved_of(question) == (new != question.labels)).all()
    # The last step moves nothing, and asks once.
    assert result.converged
    assert asked(result)[-1].kind == "CompareOwnQuery"


def test_few_points_a_fast_network_and_many_that_move_are_asked_at_once():
    data = federation()
    plan = run_moved(data, network=Network(), max_iter=2).plan
    labels = (np.arange(160) % 5).astype(np.int32)
    sizes, seating = cluster_sizes(labels, 5), CommitteeChoice(2, SERVER)
    slow = dataclasses.replace(plan, network=SLOW)
    assert should_prune(slow, labels, sizes, 8, seating)
    assert not should_prune(plan, labels, sizes, 8, seating)  # rounds would cost more than bytes
    assert not should_prune(slow, labels, sizes, 160, seating)  # nearly all are compared again
    assert not should_prune(slow, labels, sizes, None, seating)  # nobody counted, and random labels all move
    split = dataclasses.replace(slow, init=Bisecting())
    assert should_prune(split, labels, sizes, None, seating)  # after splits few do
    assert should_prune(slow, labels, sizes, 8, CommitteeChoice(3))  # nobody deals
    assert not should_prune(slow, np.where(labels == 0, -1, labels), sizes, 8, seating)
    assert not should_prune(
        slow, labels % 2, cluster_sizes(labels % 2, 5), 8, seating
    )  # one comparison anyway


def test_a_step_in_which_few_points_move_sends_much_less():
    data = federation(m=short(800, nightly=6400), d=2, seed=3)
    totals = []
    for network in (SLOW, Network(latency=10.0)):
        result = run_moved(data, k=8, network=network, centers="rounded", max_iter=40)
        (at,) = {q.round for q in asked(result)[-1:]}
        totals.append(sum(e.nbytes for e in result.transcript.envelopes if at <= e.round < at + STRIDE))
    assert totals[0] < 0.6 * totals[1]


def test_without_a_dealer_most_of_a_step_is_spared():
    data = federation(m=640, seed=3)
    totals = []
    for network in (SLOW, Network(latency=10.0)):
        result = run_moved(data, k=8, dealer=None, network=network, max_iter=40)
        assert same_runs(result, plain(data, k=8, max_iter=40))
        (at,) = {q.round for q in asked(result)[-1:]}
        totals.append(sum(e.nbytes for e in result.transcript.envelopes if at <= e.round < at + STRIDE))
    assert totals[0] < 0.4 * totals[1]


# --- silence, lies -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("centers", "lost", "kind"),
    covering(
        ["exact", "rounded"], ["MaskedDistances", "MaskedBits", "LabelShare"],
        ["CompareMovedQuery", "CompareOwnQuery"],
    ),
)  # fmt: skip
def test_members_and_responders_that_fall_silent_change_no_label(kind, lost, centers):
    data, state = federation(n=6), {"on": False, "gone": False}

    def faults(e):
        if e.sender == SERVER and e.kind == kind:
            state["on"] = True
        if state["on"] and e.sender == "client-1" and e.kind == lost:
            state["gone"] = True
        return () if state["gone"] and e.sender == "client-1" else (e,)

    lossy = run_moved(data, faults=faults, centers=centers)
    assert state["gone"]
    assert same_runs(lossy, plain(data, centers=centers))


def test_too_many_silent_parties_end_the_run():
    def faults(e):
        return () if e.sender in ("client-1", "client-2", "client-4") and e.round > ITERATE else (e,)

    with pytest.raises(TooFewReplies):
        run_moved(federation(), faults=faults)


def changed(kind, change):
    def faults(e):
        if e.kind == kind and e.sender == SERVER:
            e = dataclasses.replace(e, body=change(e.body))
        return (e,)

    return faults


def bits(which):
    return np.packbits(which, bitorder="little")


@pytest.mark.parametrize(
    "change",
    [
        lambda q: altered(q, detail=bits(np.arange(160) < 1)),  # a point that may have stayed
        lambda q: altered(q, detail=bits(np.arange(160) >= 0)),
        lambda q: altered(q, operation=Operation.COMPARE_OWN, detail=None),
    ],
)
def test_a_server_that_asks_about_other_points_is_refused(change):
    with pytest.raises((FaultyServer, SuspectedParties), match="where the plan has CompareMovedQuery"):
        run_moved(federation(), faults=changed("CompareMovedQuery", change))


def test_a_server_that_compares_all_where_few_move_is_refused():
    def whole(q):
        return altered(q, operation=Operation.COMPARE)

    with pytest.raises((FaultyServer, SuspectedParties), match="where the plan has CompareOwnQuery"):
        run_moved(federation(), faults=changed("CompareOwnQuery", whole))


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"detail": np.zeros(1, np.uint8)}, "at least one point moved"),
        ({"detail": np.array([1, 0], np.uint8)}, "a bit a point"),
        ({"detail": np.array([1], np.int8)}, "a bit a point"),
        ({"detail": np.array([32], np.uint8)}, "there are zeros"),
        ({"factor": 2}, "by a factor"),
    ],
)
def test_messages_refuse_what_no_server_would_ask(change, rule):
    labels, some = np.zeros(5, np.int8), np.array([0, 1, 2], np.int32)
    good = query("CompareMovedQuery", 0, 2, labels, some, some, detail=np.array([17], np.uint8))
    with pytest.raises(ValueError, match=rule):
        altered(good, **change)
    with pytest.raises(ValueError, match="every point is in a cluster"):
        query("CompareOwnQuery", 0, 2, np.array([0, -1], np.int8), some, some)


@pytest.mark.parametrize("init", [RandomLabels(), *by_night(Bisecting())])
def test_a_client_that_missed_a_question_follows_again(init):
    # It did not hear the second question of a step, so it takes what moved from the next one.
    data, seen = federation(n=6), []

    def faults(e):
        if e.kind == "CompareMovedQuery" and e.recipient == "client-5":
            seen.append(e.round)
            return () if len(seen) == 1 else (e,)
        return (e,)

    assert same_runs(run_moved(data, init=init, faults=faults), plain(data, init=init))
    assert len(seen) > 1


# --- views ---------------------------------------------------------------------------------------


def test_what_members_and_server_receive_is_uniform():
    # Two points apart, so that only masks can vary; each test has a false alarm below 1e-7.
    points = np.where(
        np.arange(1200)[:, None] % 3 == 0, 0.25, np.where(np.arange(1200)[:, None] % 3 == 1, 1, -2)
    )
    data = secfc.Federation.from_arrays(np.array_split(points.repeat(2, axis=1), 5))
    start = np.arange(1200) % 3
    start[:90] = 0
    result = run_moved(data, k=3, init=GivenLabels(start))
    assert {q.kind for q in asked(result)} >= {"CompareOwnQuery"}
    rounds = {q.round for q in asked(result) if q.kind == "CompareOwnQuery"}

    def spread(values, top):
        counts = np.bincount((values.reshape(-1).astype(float) * 32 / top).astype(int), minlength=32)
        return stats.chisquare(counts).pvalue > 1e-7

    seen = {"MaskedDistances": 0, "MaskedSum": 0, "Corrections": 0}
    for e in result.transcript.envelopes:
        if not any(at <= e.round < at + STRIDE for at in rounds):
            continue
        if e.kind in ("MaskedDistances", "MaskedSum"):
            if not e.body.values.size:
                continue  # what these are checked by
            assert e.body.values.shape[1] == 2  # the other centers
            for lane, p in zip(e.body.values, result.plan.code.basis.primes, strict=False):
                assert spread(lane, p)
        elif e.kind == "Corrections":
            assert spread(e.body.words.view(np.uint8), 256)
        seen[e.kind] = seen.get(e.kind, 0) + 1
    assert all(seen[kind] for kind in ("MaskedDistances", "MaskedSum", "Corrections"))
    # Control: the same test on numbers as they are.
    assert not spread(np.full((1, 2, 400), 12345), result.plan.code.basis.primes[0])


def test_the_first_answer_opens_one_bit_a_point_and_the_second_the_labels_of_some():
    result = run_moved(federation())
    questions = {q.round: q for q in asked(result)}
    shares = [e for e in result.transcript.envelopes if e.kind == "LabelShare" and e.recipient == SERVER]
    for e in shares:
        question = questions[e.round - e.round % STRIDE]
        # A share of every part that its sender speaks for: of a triple two, one and none.
        told, words = 2 - question.members.tolist().index(int(e.sender[-1])), e.body.words.shape[-1]
        if question.kind == "CompareOwnQuery":
            assert (len(e.body.words), words) == (told, -(-160 // 64))
        elif question.kind == "CompareMovedQuery":
            assert words == -(-int(moved_of(question).sum()) // 64)
    # Nobody but the server and clients themselves is told more kinds than where all points meet at once.
    data = federation()
    for parties in ((SERVER,), ("client-0", "client-1"), ("client-4",)):
        views = [
            View.of(run_moved(data, network=network, max_iter=3), result.plan, parties, data).kinds()[
                "received"
            ]
            for network in (SLOW, Network())
        ]
        assert set(views[0]) - {"CompareOwnQuery", "CompareMovedQuery"} == set(views[1])


def test_attacks_read_the_labels_of_all_questions():
    data = federation()
    result = run_moved(data)
    found = [q.labels for q in DecodedView.of(result, result.plan, SERVER, data).questions()]
    assert {labels.tobytes() for labels in found} == {h.astype(np.int32).tobytes() for h in result.history}
