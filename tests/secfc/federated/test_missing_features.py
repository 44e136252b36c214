"""FederatedLloyd against plaintext: labels at every step, what is sent, who may be lost."""

import dataclasses
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import secfc
from secfc.algorithm import PublicFacts
from secfc.attacks.views import View
from secfc.errors import Caution, FaultyServer, InputError, SuspectedParties, TooFewReplies
from secfc.federated import model
from secfc.federated.algorithm import FederatedLloyd
from secfc.federated.columns import Columns
from secfc.federated.model import KnownCenters, nearest_offered, possible_sums, sums_of
from secfc.kmeans.starts import GivenLabels
from secfc.metrics import accuracy, observed_cost
from secfc.overlap.local import ExternalClusterer, LocalKMeans
from secfc.overlap.starts import Automatic, Synchronized
from secfc.roles.exchange import SERVER
from tests.oracles.overlap import masked_lloyd
from tests.secfc.overlap.cases import CHAIN, COMMON, SAME, Blocks, Turned, clusters, hold_columns


def starts_of(result, data):
    return [own.tolist() for own in np.split(result.history[0], np.cumsum(data.counts)[:-1])]


def plain(result, data, parts, observed, k, max_iter=300, present=None):
    """The oracle from the start of a run: its history, flat, and its costs."""
    whole = [np.rint(np.asarray(part) * result.plan.quantizer.scale).astype(np.int64) for part in parts]
    history, costs, _ = masked_lloyd(whole, observed, starts_of(result, data), k, max_iter, present)
    return [[label for own in step for label in own] for step in history], costs


# --- labels


@pytest.mark.parametrize("observed", [CHAIN, COMMON, SAME], ids=["chain", "common", "same"])
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32), k=st.integers(1, 4), values=st.sampled_from(["grid", "real", "edge"]))
def test_labels_equal_plaintext_at_every_step_and_the_cost_never_rises(observed, seed, k, values):
    rng = np.random.default_rng(seed)
    rows = rng.integers(4, 9, len(observed))
    draw = {
        "grid": lambda size: rng.integers(-2, 3, size).astype(float),
        "real": lambda size: np.rint(1000 * rng.normal(size=size)),
        "edge": lambda size: rng.choice([-1000.0, 999.0, 1000.0], size),
    }[values]
    parts = [draw((m, len(own))) for m, own in zip(rows, observed, strict=True)]
    data = hold_columns(parts, observed)
    result = secfc.fit(FederatedLloyd(k, start=Turned(), scale=1.0, coarse="allow"), data, seed=seed)
    history, costs = plain(result, data, parts, observed, k)
    assert [step.tolist() for step in result.history] == history
    assert result.n_iter == len(history) - 1
    assert costs == sorted(costs, reverse=True)
    assert result.converged
    if (result.flat >= 0).all():
        cost = observed_cost(data.stacked(), result.flat, k)
        assert cost == pytest.approx(float(costs[-1]), rel=1e-9, abs=1e-6)


def test_an_end_before_convergence_is_said():
    rng = np.random.default_rng(3)
    parts = [rng.integers(-9, 10, (40, len(own))).astype(float) for own in CHAIN]
    data = hold_columns(parts, CHAIN)
    whole = secfc.fit(FederatedLloyd(3, start=Turned(), scale=1.0, coarse="allow"), data)
    assert whole.n_iter > 2
    short = secfc.fit(FederatedLloyd(3, start=Turned(), scale=1.0, coarse="allow", max_iter=2), data)
    assert (short.n_iter, short.converged) == (2, False)
    for ours, theirs in zip(short.history, whole.history, strict=False):
        np.testing.assert_array_equal(ours, theirs)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32), k=st.integers(1, 5))
def test_with_all_features_everywhere_labels_are_those_of_lloyd_bit_for_bit(seed, k):
    rng = np.random.default_rng(seed)
    # Coarse values make ties, and clusters that become empty.
    parts = [rng.integers(-3, 4, (int(rng.integers(4, 12)), 3)).astype(float) for _ in range(4)]
    data = secfc.Federation.from_arrays(parts)
    ours = secfc.fit(FederatedLloyd(k, start=Turned(), scale=4.0), data)
    theirs = secfc.fit(
        secfc.Lloyd(
            k,
            init=GivenLabels(ours.history[0].astype(np.int64)),
            quantization=secfc.Quantization(scale=4.0, coarse="allow"),
        ),
        data,
    )
    assert len(ours.history) == len(theirs.history)
    for a, b in zip(ours.history, theirs.history, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(np.nan_to_num(ours.centers), np.nan_to_num(centers(theirs, data, k)))


def centers(result, data, k):
    points = data.stacked()
    return np.stack(
        [
            points[own].mean(axis=0) if (own := result.flat == h).any() else np.full(3, np.nan)
            for h in range(k)
        ]
    )


def test_a_tie_to_the_last_digit_goes_to_the_lowest_index():
    # Floats cannot tell 1/3 of these from their thirds; the exact comparison can, either way.
    sums = np.array([[3 * 2**40 + 1], [-3 * 2**40 - 1], [3 * 2**40 + 2]], np.int64)
    known = KnownCenters(sums, np.full((3, 1), 3, np.int64), np.ones(3, bool))
    assert nearest_offered(np.array([[0]]), known).tolist() == [0]
    assert nearest_offered(np.array([[2**41]]), known).tolist() == [2]
    closer = KnownCenters(sums + np.array([[0], [1], [0]]), known.counts, known.there)
    assert nearest_offered(np.array([[0]]), closer).tolist() == [1]
    denominators = KnownCenters(np.array([[2**50], [3 * 2**50 + 1]]), np.array([[1], [3]]), np.ones(2, bool))
    assert nearest_offered(np.array([[2**51]]), denominators).tolist() == [1]
    assert nearest_offered(np.array([[0]]), denominators).tolist() == [0]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), shift=st.sampled_from([0, 2**20, 2**40]), d=st.integers(1, 5))
def test_the_filter_never_decides_wrongly(seed, shift, d):
    rng = np.random.default_rng(seed)
    points = shift + rng.integers(-2, 3, (30, d))
    counts = np.repeat(rng.integers(1, 4, (4, 1)), d, axis=1)
    sums = shift * counts + rng.integers(-6, 7, (4, d))
    known = KnownCenters(sums, counts, np.ones(4, bool))
    exact = [
        min((sum((int(x) * int(n) - int(s)) ** 2 * int(36 // n) ** 2 for x, s, n in zip(row, s_, n_,
        strict=True)), h) for h, (s_, n_) in enumerate(zip(sums, counts, strict=True)))[1]
        for row in points
    ]  # fmt: skip
    assert nearest_offered(points, known).tolist() == exact
    with pytest.MonkeyPatch.context() as patch:  # as many rows have it: where they are no larger, by tiles
        patch.setattr(model, "FEW_VALUES", 1)
        assert nearest_offered(points, known).tolist() == exact


@pytest.mark.parametrize("most", [3, 2**40])
def test_what_no_points_sum_to_is_told_from_what_some_do(most):
    pattern, rows = np.array([0, 0, 1]), np.array([5, 2**20])

    def fits(sums, counts):
        return possible_sums(np.array([sums]), np.array([counts]), pattern, rows, most)

    assert fits([5 * most, -5 * most, 2**20 * most], [5, 2**20])
    assert fits([0, 0, 0], [0, 0])
    for sums, counts in (
        ([5 * most + 1, 0, 0], [5, 1]),
        ([0, -5 * most - 1, 0], [5, 1]),
        ([0, 0, 1], [5, 0]),
        ([0, 0, 0], [6, 1]),
        ([0, 0, 0], [-1, 1]),
        ([0, 0, -(2**63)], [0, 2**20]),
    ):
        assert not fits(sums, counts)
    assert not possible_sums(np.zeros((3, 1), int), np.full((3, 1), 2**62), pattern[:1], rows[:1], most)


def test_impossible_sums_end_a_run_with_suspicion_or_blame(chain):
    blind = chain[2].plan
    # Whose fault it is, only the server can tell, and only where it reads what it tells.
    for plan, party, error in (
        (blind, SERVER, SuspectedParties), (blind, "client-1", SuspectedParties),
        (dataclasses.replace(blind, blind=False), "client-1", FaultyServer),
    ):  # fmt: skip
        length = plan.length if party == SERVER else len(plan.places(party))
        total = np.zeros(length, np.int64)
        (read,) = plan.read_totals(party, total, [3])
        assert read.sums.shape == read.counts.shape == (3, len(plan.columns.seen_by(party).shared))
        for place, value in ((0, 1), (length - 7, -1), (length - 1, len(plan.clients) + 1), (0, 2**63)):
            wrong = np.where(np.arange(length) == place, value, total.astype(object))
            with pytest.raises(error, match="no points have"):
                plan.read_totals(party, wrong if value == 2**63 else wrong.astype(np.int64), [3])
        with pytest.raises(FaultyServer, match="are due"):
            plan.read_totals(party, total[1:], [3])


def test_sums_are_of_labeled_points_only():
    sums, counts = sums_of(np.array([[1], [10], [100], [1000]]), np.array([1, -1, 1, 0]), 3)
    assert sums.tolist() == [[1000], [101], [0]]
    assert counts.tolist() == [1, 2, 0]


# --- what changes nothing


@pytest.mark.parametrize(
    "start", [Automatic(), Synchronized(over="distances")], ids=["centroids", "distances"]
)
def test_the_order_of_clients_and_of_columns_changes_nothing(start):
    rng = np.random.default_rng(1)
    parts, truth = clusters(CHAIN, 3, 15, rng, spread=9.0)
    names = ["one", "two", "three", "four"]
    ours = secfc.fit(
        FederatedLloyd(3, start=start), hold_columns(parts, CHAIN, names=names, truth=truth), seed=4
    )
    turn = [2, 0, 3, 1]
    turned = hold_columns(
        [parts[j][:, ::-1] for j in turn], [CHAIN[j][::-1] for j in turn], names=[names[j] for j in turn]
    )
    theirs = secfc.fit(FederatedLloyd(3, start=start), turned, seed=4)
    for place, j in enumerate(turn):
        np.testing.assert_array_equal(theirs.labels[place], ours.labels[j])
    order = [turned.feature_names.index(name) for name in NAMES_OF[:5]]
    np.testing.assert_array_equal(theirs.centers[:, order], ours.centers)


NAMES_OF = ("a", "b", "c", "d", "e")


def test_a_common_shift_and_scale_changes_nothing_and_a_scale_of_one_feature_may():
    rng = np.random.default_rng(5)
    # All three features tell 0, 1 from 2, 3; the one in the middle also 0, 2 from 1, 3, and wins if scaled
    # up.
    truth = [np.arange(24) % 4 for _ in range(4)]
    wide = [np.stack([own // 2 * 64, own // 2 * 16 + own % 2 * 24, own // 2 * 64], axis=1) for own in truth]
    observed = ((0, 1), (1, 2), (0, 1), (1, 2))
    parts = [
        (points + rng.integers(-4, 5, (24, 3)))[:, list(own)]
        for points, own in zip(wide, observed, strict=True)
    ]

    def labels(change, scale=1.0):
        changed = [change(part, own) for part, own in zip(parts, observed, strict=True)]
        return secfc.fit(FederatedLloyd(2, scale=scale), hold_columns(changed, observed)).flat

    ours = labels(lambda part, own: part)
    np.testing.assert_array_equal(labels(lambda part, own: part / 4 + 32, 4.0), ours)
    other = labels(lambda part, own: part * [10 if f == 1 else 1 for f in own])
    assert accuracy(ours, other) < 0.9


def test_a_client_without_a_point_of_a_cluster_changes_no_center_of_it():
    parts, truth = clusters(COMMON, 2, 12, np.random.default_rng(2))
    # The last client moves all it has of the other cluster, and has nothing of this one.
    few = [*parts[:3], parts[3][truth[3] == 1]]
    more = [*parts[:3], parts[3][truth[3] == 1] + 2]
    start = Automatic(local=LocalKMeans({f"client-{j}": 2 for j in range(3)} | {"client-3": 1}))
    found = [
        secfc.fit(FederatedLloyd(2, start=start, scale=1.0, coarse="allow"), hold_columns(changed, COMMON))
        for changed in (few, more)
    ]
    same = [result.centers[int(result.labels[0][truth[0] == 0][0])][:5] for result in found]
    np.testing.assert_array_equal(same[0], same[1])
    assert not np.array_equal(found[0].centers[:, :5], found[1].centers[:, :5])


# --- what is sent


@pytest.fixture(scope="module")
def chain():
    parts, truth = clusters(CHAIN, 3, 12, np.random.default_rng(7), spread=8.0)
    data = hold_columns(parts, CHAIN, truth=truth)
    return parts, data, secfc.fit(FederatedLloyd(3), data, keep_bodies=True)


def test_golden_kinds_of_messages(chain):
    _, data, result = chain
    n, sums = data.n, result.n_iter + 1
    server = View.of(result, result.plan, SERVER)
    # After the last sum all say that there is none.
    assert server.kinds() == {
        "received": {"Hello": n, "LocalCentroids": n, "Contributors": n * (sums + 1), "CodedSum": n * sums},
        "sent": {"Hello": n, "LocalGroups": n, "Contributors": n * sums, "SharedTotals": n * sums},
        "inside": {},
    }
    client = View.of(result, result.plan, "client-1")
    assert Counter(e.kind for e in client.received()) == {
        "Hello": n, "LocalGroups": 1, "Contributors": sums, "SharedTotals": sums, "SumShares": (n - 1) * sums,
        "SumDigest": (n - 1) * sums, "RunKey": 1, "LastDigest": n - 1,
    }  # fmt: skip


def test_no_message_carries_a_coordinate_of_one_holder(chain):
    parts, data, _ = chain
    result = secfc.fit(FederatedLloyd(3, blind=False), data, keep_bodies=True)
    plan = result.plan
    assert plan.columns.shared.tolist() == [1, 2, 3]
    for envelope in result.transcript.envelopes:
        if envelope.kind == "LocalCentroids":
            assert envelope.body.centers.shape[1] == len(plan.columns.mine(envelope.sender).shared)
        if envelope.kind == "SharedTotals":
            mine = plan.columns.mine(envelope.recipient)
            assert envelope.body.values.shape[1] == 3 * (len(mine.shared) + len(mine.patterns) + 1) + 1
    assert plan.length == 3 * (3 + 3 + 1) + 1
    # Other values there: the same messages, to the byte, but for shares and the session; control: a shared
    # one.
    for column, same in ((0, True), (1, False)):
        changed = [parts[0].copy(), *parts[1:]]
        changed[0][:, column] += np.arange(12) % 2 * 1e-3
        other = secfc.fit(FederatedLloyd(3, blind=False), hold_columns(changed, CHAIN), keep_bodies=True)
        pairs = [(e.body, f.body) for e, f in zip(clear(result), clear(other), strict=False)]
        assert all(map(equal, *zip(*pairs, strict=True))) == same


def clear(result):
    kinds = ("LocalCentroids", "LocalGroups", "SharedTotals")
    return [e for e in result.transcript.envelopes if e.kind in kinds]


def equal(one, other):
    return type(one) is type(other) and all(
        np.array_equal(getattr(one, f.name), getattr(other, f.name)) for f in dataclasses.fields(one)
    )


def test_centers_of_one_holder_are_known_to_it_alone(chain):
    _, data, result = chain
    algorithm = FederatedLloyd(3, blind=False)
    assert np.isfinite(result.centers).all()
    assert algorithm.outcome(result.plan, SERVER, result.details).centers is None
    seeing = secfc.fit(algorithm, data)
    server = algorithm.outcome(seeing.plan, SERVER, seeing.details)
    np.testing.assert_array_equal(seeing.centers, result.centers)
    assert np.isnan(server.centers[:, [0, 4]]).all()
    assert np.isfinite(server.centers[:, 1:4]).all()
    labels = np.concatenate(result.labels)
    means = [np.nanmean(data.stacked()[labels == h], axis=0) for h in range(3)]
    np.testing.assert_allclose(result.centers, means, rtol=1e-12)
    assert any("no label" in sentence for sentence in seeing.learned)
    assert any("under pads: no sum, center or label" in sentence for sentence in result.learned)
    assert "centers" not in repr(result.model)
    assert not any(word in repr(result.details) + repr(server) for word in ("array", "sums="))


def test_reports_say_who_sees_what_and_the_observed_cost(chain):
    from secfc.report import as_text, make_report

    _, data, result = chain
    found = make_report(result, federation=data, algorithm=FederatedLloyd(3))
    assert found.cost == pytest.approx(observed_cost(data.stacked(), result.flat, 3))
    assert result.cost is None
    text = as_text(found)
    assert "a is seen by client-0 alone: its centers there are its own means" in text
    assert "b is seen by client-0 and client-1 alone: each can subtract its own" in " ".join(text.split())


# --- losses and bad input


@pytest.mark.parametrize("observed", [SAME, CHAIN], ids=["same", "chain"])
@pytest.mark.parametrize("what", ["sums", "ends", "counted"])
def test_a_server_that_tells_two_clients_different_sums_is_noticed_before_they_add_again(observed, what):
    data = hold_columns(
        [np.random.default_rng(j).normal(size=(19, len(own))) for j, own in enumerate(observed)], observed
    )
    way, seen = FederatedLloyd(3, coarse="allow"), Counter()
    honest = secfc.fit(way, data, seed=0)
    assert honest.n_iter > 1

    def faults(e):
        seen[e.kind] += 1
        if e.kind != "SharedTotals" or e.recipient != "client-1" or seen["SharedTotals"] > len(observed):
            return (e,)
        if what == "counted":
            return (dataclasses.replace(e, body=dataclasses.replace(e.body, counted=bytes(32))),)
        told = e.body.values.copy()
        place = 0 if what == "sums" else told.shape[1] - 1
        primes = np.array(honest.plan.sums.code.basis.primes)
        told[:, place] = (told[:, place] + primes - 1) % primes
        return (dataclasses.replace(e, body=dataclasses.replace(e.body, values=told)),)

    # Of other clients than were counted the pad is another, and what is left of it no sum of points.
    said = "no points have the sums" if what == "counted" else "told something else before a sum"
    with pytest.raises(SuspectedParties, match=said) as caught:
        secfc.fit(way, data, seed=0, faults=faults)
    assert SERVER in caught.value.parties
    assert seen["CodedSum"] <= len(observed), "no second sum leaves a member"


def dying(client, after):
    """A network that carries nothing of a client once it has sent so many vectors."""
    sent = Counter()

    def faults(envelope):
        sent[envelope.sender] += envelope.kind == "SumShares" and envelope.recipient == "client-0"
        return () if envelope.sender == client and sent[client] > after else (envelope,)

    return faults


def test_a_client_lost_in_the_middle_counts_no_more_where_sums_still_hide_the_others():
    observed = tuple((0, 1, 2 + j) for j in range(8))
    rng = np.random.default_rng(11)
    parts = [rng.integers(-30, 31, (15, 3)).astype(float) for _ in observed]
    data = hold_columns(parts, observed)
    way = FederatedLloyd(3, start=Turned(), scale=1.0, coarse="allow")
    result = secfc.fit(way, data, faults=dying("client-5", 2))
    assert result.excluded == ("client-5",)
    history, _ = plain(result, data, parts, observed, 3, present=lambda step, i: step < 2 or i != 5)
    others = np.concatenate([np.full(15, j != 5) for j in range(8)])
    for ours, theirs in zip(result.history, history, strict=False):
        np.testing.assert_array_equal(ours[others], np.array(theirs)[others])
    assert result.n_iter > 2


def test_on_a_chain_a_client_lost_in_the_middle_ends_the_run_by_name():
    parts, _ = clusters(CHAIN, 3, 12, np.random.default_rng(7), spread=8.0)
    data = hold_columns(parts, CHAIN)
    assert FederatedLloyd(3).plan(PublicFacts.of(data)).sums.losses == 0
    with pytest.raises(TooFewReplies, match="4 replies are needed, 3 came") as caught:
        secfc.fit(FederatedLloyd(3), data, faults=dying("client-2", 1))
    assert "client-2" not in caught.value.got
    with pytest.raises(InputError, match="losses=1: feature 'b' is seen by 2 clients"):
        secfc.fit(FederatedLloyd(3, losses=1), data)


def bad(observed=CHAIN, k=2, rows=8, change=lambda parts: parts, **more):
    parts, _ = clusters(observed, 2, rows, np.random.default_rng(0))
    return secfc.fit(FederatedLloyd(k, **more), hold_columns(change(parts), observed))


def test_clients_that_no_feature_connects_are_named():
    named = r"2 groups that share no feature.*'client-0', 'client-1'; 'client-2', 'client-3'"
    with pytest.raises(InputError, match=named):
        bad(((0, 1), (0, 1), (2, 3), (2, 3)))
    # A fourth client on both connects them, though two still share nothing (design, hand case 5).
    result = bad(((0, 1), (0, 1), (2, 3), (1, 2)))
    assert not result.plan.columns.all_pairs
    assert result.plan.columns.connected_groups == (("client-0", "client-1", "client-2", "client-3"),)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: bad(k=40), "k=40 clusters of m=32 points"),
        (lambda: bad(k="auto"), r"k=auto: FederatedLloyd cannot choose k.* Overlap2\(k=None\)"),
        (lambda: bad(k=secfc.Elbow(6)), r"k=1\.\.6: FederatedLloyd cannot choose k"),
        (lambda: bad(k=2.5), r"k=2\.5 is a float: a whole number of clusters is needed"),
        (lambda: bad(k=9, rows=4, start=Automatic(local=LocalKMeans(2))), "k=9 clusters of 8 local ones"),
        (lambda: bad(start=Automatic(local=LocalKMeans(3))), "client 'client-.' has 3 local clusters of k=2"),
        (lambda: bad(start=Synchronized(local=LocalKMeans(1))), "no client has k=2 local clusters"),
        (lambda: bad(scale=2.0**60), r"exceeds 2\*\*52"),
        (lambda: bad(scale=2.0**44, rows=300), r"2\*\*62 is the most"),
        (lambda: bad(max_iter=0), "max_iter=0 is too small"),
        (lambda: bad(((0, 1), (0, 1))), "n=2: each client has the other's sum by subtraction"),
        (lambda: bad(coarse="no"), "coarse='no'"),
        (lambda: bad(scale=0.01, rows=30), "rounding loses much of the data of client"),
        (lambda: Columns(("a",), ("x",), ((0, 0),), ((0, 1),), (0,)), "2 features, 1 of them distinct"),
    ],
)
def test_what_cannot_be_is_refused(build, message):
    with pytest.raises(InputError, match=message):
        build()


def test_other_columns_than_planned_are_refused_at_the_site():
    parts, _ = clusters(CHAIN, 2, 8, np.random.default_rng(0))
    plan = FederatedLloyd(2).plan(PublicFacts.of(hold_columns(parts, CHAIN)))
    wrong = secfc.Party("client-1", parts[1], features=("b", "q"))
    with pytest.raises(InputError, match=r"client 'client-1' has 'b', 'q', and the plan .* 'b', 'c'"):
        plan.columns.rows(wrong)
    right = secfc.Party("client-1", parts[1][:, ::-1], features=("c", "b"))
    np.testing.assert_array_equal(plan.columns.rows(right), parts[1])


def test_few_points_and_equal_ones_are_few_local_clusters():
    parts, _ = clusters(CHAIN, 3, 12, np.random.default_rng(1))
    parts[0] = parts[0][:2]
    parts[2] = np.repeat(parts[2][:1], 12, axis=0)
    result = secfc.fit(FederatedLloyd(3), hold_columns(parts, CHAIN))
    assert "local clusters were matched by Constrained" in result.learned
    assert len(set(result.labels[2].tolist())) == 1
    assert (result.flat >= 0).all()


def test_a_client_all_of_whose_clusters_are_empty_keeps_its_last_labels_or_none():
    """Clusters of which nobody has a value on a client's features are not offered to it: label -1, not a
    guess.
    """

    class Lost(Turned):
        def group_centroids(self, found, k):
            groups = super().group_centroids(found, k)
            groups.labels[found.owner == 0] = -1
            return groups

    parts, _ = clusters(CHAIN, 2, 8, np.random.default_rng(4))
    result = secfc.fit(FederatedLloyd(2, start=Lost(), scale=1.0, coarse="allow"), hold_columns(parts, CHAIN))
    # Nobody else observes the first client's own feature, so no center has a value there.
    assert (result.labels[0] == -1).all()
    assert (np.concatenate(result.labels[1:]) >= 0).all()


def test_noise_of_a_local_clusterer_joins_at_the_first_step():
    from sklearn.cluster import DBSCAN

    parts, truth = clusters(COMMON, 2, 20, np.random.default_rng(6), apart=40.0)
    parts[1][0] += 15
    data = hold_columns(parts, COMMON, truth=truth)
    result = secfc.fit(
        FederatedLloyd(2, start=Automatic(local=ExternalClusterer(DBSCAN(eps=6.0, min_samples=3)))), data
    )
    assert (result.history[0] == -1).any()
    assert accuracy(data.truth, result.flat) > 0.97


# --- new points


def test_points_of_the_fit_are_labeled_as_they_were(chain):
    _, data, result = chain
    again = result.predict(data)
    for ours, theirs in zip(again, result.labels, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_new_points_may_have_any_columns(chain):
    parts, _, result = chain
    stranger = secfc.Party("stranger", parts[1][:, [1, 0]], features=("c", "b"))
    more = np.column_stack([parts[1], np.full(12, 1e9)])
    wide = secfc.Party("wide", more, features=("b", "c", "elsewhere"))
    own = secfc.Party("client-0", parts[0], features=("a", "b"))
    apart = secfc.Party("apart", parts[3][:, :1], features=("a",))  # where only client-0 knows centers
    new = secfc.Federation((stranger, wide, own, apart))
    with pytest.warns(Caution, match=r"12 new points are labeled -1 \(12 of apart\)"):
        labels = result.predict(new)
    np.testing.assert_array_equal(labels[0], result.labels[1])
    np.testing.assert_array_equal(labels[1], result.labels[1])
    np.testing.assert_array_equal(labels[2], result.labels[0])
    assert (labels[3] == -1).all()
    with pytest.raises(InputError, match="2 columns without names"):
        result.predict(secfc.Federation.from_arrays([parts[1]]))


def test_blocks_are_what_the_oracle_starts_from():
    assert Blocks().label_points(np.zeros((5, 1)), 2, 0, "x").tolist() == [0, 0, 0, 1, 1]
