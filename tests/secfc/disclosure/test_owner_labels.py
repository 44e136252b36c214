"""Own labels: at every step those of plaintext Lloyd, and views that show no other point's label."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import secfc
from field.compare.bitslice import unpack_bits
from secfc.coded.membership import Private
from secfc.disclosure import OwnLabels
from secfc.disclosure.owner_labels.client import OwnerLabelsClient
from secfc.disclosure.owner_labels.run_state import ClientRunState
from secfc.errors import SuspectedParties
from secfc.kmeans.loop import PlainSource, lloyd
from secfc.kmeans.starts import GivenLabels, KMeansPlusPlus, RandomPoints
from secfc.roles.exchange import SERVER, run_alone
from tests.nightly import by_night, every, short, trials
from tests.secfc.coded.test_membership import overlapping
from tests.small import cluster, federation


def tell_owners(data, dealer=SERVER, sizes="open", consent=False, **settings):
    settings = {"max_iter": 8, "init": secfc.RandomLabels(), **settings}
    return cluster(data, OwnLabels(dealer, consent, sizes), **settings)


def oracle(result, data, start, max_iter):
    """Plaintext integer Lloyd from the same start."""
    points = result.plan.quantizer(data.stacked())
    return run_alone(lloyd(start.astype(np.int32), result.plan.k, max_iter, PlainSource(points)))


def start_of(result):
    """The first labels, as the server told them."""
    asked = [e.body for e in result.transcript.envelopes if e.kind in ("LloydStepQuery", "DeliverLabels")]
    return asked[0].labels if asked else result.history[0]


def assert_that_of_plaintext(result, data, max_iter=8):
    """Own labels, sizes after every step, how many there were, and whether the run converged."""
    trace = oracle(result, data, start_of(result), max_iter)
    assert (np.concatenate(result.labels) == trace.labels).all()
    assert (result.n_iter, result.converged) == (trace.n_iter, trace.converged)
    if result.sizes:
        want = [np.bincount(labels[labels >= 0], minlength=result.plan.k) for labels in trace.history]
        assert [s.tolist() for s in result.sizes] == [w.tolist() for w in want]
        assert result.history == ()
    return trace


@pytest.fixture
def shared(monkeypatch):
    """All parts' shares of every step, added up: labels by step, of the last run."""
    kept = {}
    answer = OwnerLabelsClient.state

    def state(self, match):
        found = answer(self, match)
        if found is not None:
            alive = np.flatnonzero(match.sizes)
            at, new = match.question.at.step, {"sum": (0, 0), "who": set(), "alive": alive, "shares": {}}
            step = kept.setdefault(at, new)
            primes = np.array(self.plan.code.basis.primes, np.int64)[:, None, None]
            for q, each in found.parts.items():
                bits, parts = step["sum"]
                step["shares"][self.me] = each.parts
                if q not in step["who"]:
                    step["who"].add(q)
                    step["sum"] = each.bits ^ np.uint64(bits), (each.parts + parts) % primes
        return found

    monkeypatch.setattr(OwnerLabelsClient, "state", state)
    return kept


# --- exactness -----------------------------------------------------------------------------------


@trials(7, nightly=100)
@given(
    st.integers(1, 3), st.integers(1, 2), st.integers(0, 2), st.integers(1, 70), st.integers(1, 4),
    st.integers(1, 12), st.integers(0, 2**16), st.booleans(), st.booleans(), st.booleans(),
)  # fmt: skip
def test_every_owner_has_the_labels_of_plaintext_lloyd(t, ell, spare, m, d, k, seed, whole, points, client):
    # Whole numbers on a small grid make ties and duplicates; k near m makes empty clusters.
    n = 2 * (ell + t - 1) + 1 + spare + client
    m = max(m, n, k)
    data = federation(n, m, d, seed, whole)
    start = {"init": RandomPoints()} if points else {}
    dealer = "client-0" if client else SERVER
    result = tell_owners(data, k=k, t=t, ell=ell, seed=seed, max_iter=4, dealer=dealer, **start)
    assert_that_of_plaintext(result, data, 4)


@pytest.mark.parametrize(("k", "dealer"), [(3, SERVER), (9, SERVER), (17, SERVER), (5, None)])
def test_labels_are_exact_at_every_step(k, dealer, shared):
    data = federation(4, 150, 2, k, integers=True)
    result = tell_owners(data, k=k, max_iter=20, dealer=dealer)
    trace = assert_that_of_plaintext(result, data, 20)
    assert len(trace.history) > 2
    assert set(shared) == set(range(len(trace.history)))
    for step, found in shared.items():
        bits, parts = found["sum"]
        if dealer is None:  # members have shares of residues
            parts = result.plan.code.interpolate(found["shares"], 1)[:, 0]
        want = trace.history[step] == found["alive"][:, None]
        assert (unpack_bits(bits, 150) == want).all()
        assert all((lane == want[:-1]).all() for lane in parts)
        assert len(found["who"]) == (3 if dealer else 2)


@pytest.mark.parametrize(
    ("t", "ell", "dealer"), [(1, 2, "client-1"), *by_night((1, 1, SERVER), (2, 1, SERVER), (1, 1, None))]
)
def test_of_restarts_the_cheapest_is_told_to_owners(t, ell, dealer):
    data, starts = federation(2 * (ell + t) + 1, 50, 3), RandomPoints()
    kinds = []
    for seed in range(short(2, nightly=3)):
        result = tell_owners(
            data, k=4, t=t, ell=ell, n_init=3, init=starts, max_iter=4, dealer=dealer, seed=seed
        )
        plain = secfc.Lloyd(
            k=4,
            n_init=3,
            init=starts,
            max_iter=4,
            quantization=secfc.Quantization(scale=float(result.plan.scale)),
            disclosure=OwnLabels(),
        )
        want = secfc.fit(plain, data, seed=seed)
        assert result.cost == want.cost
        assert (result.flat == want.flat).all()
        assert (result.n_iter, result.converged) == (want.n_iter, want.converged)
        assert [s.tolist() for s in result.sizes] == [
            np.bincount(h[h >= 0], minlength=4).tolist() for h in want.history
        ]
        kinds.append(next(e.body.at.run for e in result.transcript.envelopes if e.kind == "DeliverLabels"))
    assert len(set(kinds)) > 1  # not always the first, nor the last


def test_a_restart_whose_points_are_all_in_one_cluster_costs_what_it_costs():
    data = secfc.Federation.from_arrays([np.ones((4, 2))] * 4)
    result = tell_owners(data, k=2, n_init=3)
    assert result.cost == 0
    assert (result.flat == 0).all()


@pytest.mark.parametrize(
    ("kind", "turn"),
    [
        ("DeliverLabels", 0),
        *by_night(("ClusterCostQuery", 0), ("ClusterCostQuery", 1), ("LloydStepQuery", 3)),
    ],
)
def test_restarts_survive_a_member_that_goes_with_its_part_of_the_labels(kind, turn):
    """Whoever takes its place shares no labels yet: runs whose labels are wanted begin again."""
    data, told = federation(6, 70, 3), []

    def faults(e):
        if e.kind == kind and e.recipient == "client-0":
            told.append(e)
        gone = len(told) > turn and "client-0" in (e.sender, e.recipient)
        return () if gone else (e,)

    want = tell_owners(data, k=4, n_init=3, init=RandomPoints())
    result = tell_owners(data, k=4, n_init=3, init=RandomPoints(), faults=faults)
    assert len(told) > turn
    assert result.cost == want.cost
    assert [s.tolist() for s in result.sizes] == [s.tolist() for s in want.sizes]
    for ours, theirs in zip(result.labels[1:], want.labels[1:], strict=True):
        assert (ours == theirs).all()


def test_points_in_no_cluster_clusters_without_points_and_one_cluster():
    data = federation(3, 90, 2, 8, integers=True)
    for labels in (
        np.where(np.arange(90) % 2, 5, 2), np.where(np.arange(90) < 4, np.arange(90), -1),
        np.zeros(90, int), np.full(90, 3), np.where(np.arange(90) % 2, 5, -1),
    ):  # fmt: skip
        for max_iter in (1, 2, 8):
            result = tell_owners(data, k=8, init=GivenLabels(labels), max_iter=max_iter)
            assert_that_of_plaintext(result, data, max_iter)
    assert_that_of_plaintext(tell_owners(data, k=1), data)


def test_a_run_that_ends_before_it_converges_says_so():
    data = federation(5, 200, 3)
    steps = tell_owners(data, k=4, max_iter=50).n_iter
    for max_iter in range(1, steps + 2):
        assert_that_of_plaintext(tell_owners(data, k=4, max_iter=max_iter), data, max_iter)


@pytest.mark.parametrize("dealer", [SERVER, None])
def test_a_start_may_open_distances_by_consent(dealer):
    data = federation(5, 40, 2)
    result = tell_owners(data, init=KMeansPlusPlus(), dealer=dealer, consent=True)
    assert_that_of_plaintext(result, data)
    assert any(e.kind == "DistanceQuery" for e in result.transcript.envelopes)


def test_clients_with_one_point_and_none():
    points = np.random.default_rng(0).normal(size=(9, 2))
    data = secfc.Federation.from_arrays([points[:1], points[1:2], points[2:8], points[8:]])
    result = tell_owners(data, k=2)
    assert_that_of_plaintext(result, data)
    assert [len(labels) for labels in result.labels] == [1, 1, 6, 1]


def test_labels_of_new_points_go_to_their_owners():
    data, new = federation(4, 120, 2), federation(4, 33, 2, 7)
    for k in (3, 11):
        result = tell_owners(data, k=k, max_iter=60)
        assert result.converged
        for mine, again in zip(result.labels, result.predict(data), strict=True):
            assert (mine == again).all()
        same = secfc.SecFC(k=k, threshold=1, max_iter=60, init=GivenLabels(start_of(result)))
        want = secfc.fit(same, data).predict(new)
        assert [a.tolist() for a in result.predict(new)] == [b.tolist() for b in want]


def test_centers_are_opened_by_consent_and_not_of_small_clusters():
    data = federation(5, 60, 2)
    result = tell_owners(data, k=3, reveal_centers=True, smallest_center=1)
    labels, points = np.concatenate(result.labels), result.plan.quantizer(data.stacked())
    for h, center in enumerate(result.centers):
        assert center == pytest.approx(points[labels == h].mean(axis=0) / result.plan.quantizer.scale)
    least = int(np.bincount(labels, minlength=3).max())
    some = tell_owners(data, k=3, reveal_centers=("client-0", "client-2"), smallest_center=least).centers
    assert np.isnan(some).any()
    assert np.nanmax(np.abs(some - result.centers)) == pytest.approx(0)
    assert tell_owners(data, k=3).centers is None


def test_a_step_that_is_taken_again_opens_the_same_sizes():
    run = ClientRunState()
    run.opened(1, [3, 4], ("client-0",))
    run.opened(1, [3, 4], ("client-1",))
    with pytest.raises(SuspectedParties, match="opened other sizes than before"):
        run.opened(1, [4, 3], ("client-1",))


def test_sizes_that_add_up_to_more_than_all_points_end_the_run():
    data = federation(5, 60, 2)
    way = partial(tell_owners, data, k=3, threshold=secfc.Threshold(1, deviating=0))
    prime = way().plan.code.basis.primes[0]

    def faults(e):
        if e.kind == "SizeShare" and e.sender == "client-0":
            # Each is that of some clusters, and what is left for the last is below 0.
            values = e.body.values.astype(np.uint64)
            values[0, :2] = (values[0, :2] + 25) % prime
            e = replace(e, body=replace(e.body, values=values.astype(e.body.values.dtype)))
        return (e,)

    with pytest.raises(SuspectedParties, match="add up to what no labels have"):
        way(faults=faults)


@pytest.mark.parametrize("kind", every(2, ["DeliverLabels", "OwnShare", "LloydStepQuery", "SizeShare"]))
def test_a_client_that_misses_the_end_blames_nobody(kind):
    """It has no labels, or its own; the others have theirs, and the centers are opened without it."""
    data = federation(5, 60, 2)
    want = tell_owners(data, k=3, reveal_centers=True)

    def faults(e):
        return () if e.kind == kind and e.recipient == "client-4" else (e,)

    result = tell_owners(data, k=3, reveal_centers=True, faults=faults)
    for j, labels in enumerate(want.labels[:4]):
        assert (result.labels[j] == labels).all()
    assert (result.labels[4] == -1).all() or (result.labels[4] == want.labels[4]).all()
    assert np.array_equal(result.centers, want.centers, equal_nan=True)


# --- hidden membership -----------------------------------------------------------------------------

HIDDEN = Private(bound=64, sized=False)


def assert_that_of_the_union(result, data, max_iter=8, told=None):
    """Every owner that was told has the labels of plaintext Lloyd on the union at the rows that it holds."""
    points = np.full((result.plan.m, data.d), np.nan)
    for rows, party in zip(result.rows, data.parties, strict=True):
        there = np.asarray(rows) >= 0  # who is gone does not say which were its own
        points[rows[there]] = party.points[there]
    integers = result.plan.quantizer(points)
    trace = run_alone(
        lloyd(start_of(result).astype(np.int32), result.plan.k, max_iter, PlainSource(integers))
    )
    assert (result.n_iter, result.converged) == (trace.n_iter, trace.converged)
    for name, labels, rows in zip(data.names, result.labels, result.rows, strict=True):
        assert (labels == (trace.labels[rows] if told is None or name in told else -1)).all()


@trials(6)
@given(
    st.integers(1, 2), st.integers(1, 2), st.integers(0, 1), st.integers(2, 20), st.integers(1, 10),
    st.integers(0, 2**16), st.booleans(),
)  # fmt: skip
def test_holders_have_the_labels_of_plaintext_lloyd_on_the_union(t, ell, spare, held, k, seed, client):
    n = 2 * (ell + t - 1) + 1 + spare + client
    data, _ = overlapping(n, 30, held, seed=seed)
    dealer = "client-0" if client else SERVER
    k = min(k, held)
    result = tell_owners(
        data, k=k, t=t, ell=ell, dealer=dealer, membership=HIDDEN, max_iter=4, coarse="allow"
    )
    assert_that_of_the_union(result, data, 4)


def test_hidden_owners_of_one_row_of_all_rows_and_of_rows_that_nobody_else_has():
    points = np.random.default_rng(4).normal(size=(30, 2))
    ids = [f"p{i}" for i in range(30)]
    for held in ([[0], range(30), [3, 7], range(2, 9)], [range(10), range(10, 29), [29], [0]]):
        data = secfc.Federation.from_arrays(
            [points[list(own)] for own in held], ids=[[ids[i] for i in own] for own in held]
        )
        result = tell_owners(data, k=3, membership=HIDDEN)
        assert_that_of_the_union(result, data)
        new = data.parties[1].points
        again = result.predict(data)
        assert result.converged
        assert (again[1] == result.labels[1]).all()
        assert len(again[1]) == len(new)


def test_equal_points_without_ids_are_one_row_that_all_who_have_them_hold():
    points = np.random.default_rng(4).normal(size=(12, 2))
    arrays = [points[[0, 1, 1, 2]], points[[1, 2, 3, 4]], points[4:], points[[5]]]
    result = tell_owners(secfc.Federation.from_arrays(arrays), k=3, membership=HIDDEN)
    assert result.plan.m == 12
    assert_that_of_the_union(result, secfc.Federation.from_arrays(arrays))


@pytest.mark.parametrize("kind", ["DeliverLabels", "ResharedPart"])
def test_of_hidden_owners_one_that_is_gone_at_the_end_costs_nobody_else_its_labels(kind):
    data, _ = overlapping(5, 30, 12)
    ending = set()

    def faults(e):
        # The last client only owns points: it neither responds nor compares.
        if e.kind == "DeliverLabels":
            ending.add(e.round)
        gone = e.recipient if kind == "DeliverLabels" else e.sender
        return () if ending and gone == "client-4" and e.kind != "RunEnded" else (e,)

    result = tell_owners(data, k=3, membership=HIDDEN, faults=faults)
    assert_that_of_the_union(result, data, told=set(data.names[:4]))


def test_of_hidden_owners_one_whose_points_others_compute_on_is_replaced_at_the_end():
    data, _ = overlapping(6, 30, 20)
    ending = set()

    def faults(e):
        if e.kind == "DeliverLabels":
            ending.add(e.round)
        return () if ending and "client-2" in (e.sender, e.recipient) else (e,)

    result = tell_owners(data, k=3, membership=HIDDEN, faults=faults)
    assert len(ending) == 2
    assert_that_of_the_union(result, data, told=set(data.names) - {"client-2"})
