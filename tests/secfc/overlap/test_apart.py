"""Starts over distances: exact, blinded by enumeration, matched right, and no centroid on the way."""

import itertools
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import secfc
from field import SeededCoins
from field.code.lagrange_code import LagrangeCode
from field.ring.basis import Basis
from secfc.algorithm import PublicFacts
from secfc.attacks.views import View
from secfc.errors import FaultyClient, InputError, SuspectedParties, TooFewReplies
from secfc.metrics import accuracy
from secfc.overlap.local import LocalKMeans
from secfc.overlap.matching import (
    DistanceMeasure,
    deal_centroids,
    measure_distances,
    reconstruct_distances,
)
from secfc.overlap.messages import CentroidShares, CodedPairDistances
from secfc.overlap.starts import Synchronized, matching_start_named, spectral
from secfc.roles.exchange import SERVER
from tests.secfc.overlap.cases import CHAIN, COMMON, SAME, clusters, hold_columns

WAY = secfc.FederatedLloyd(3, start=Synchronized(over="distances"))


def measure_of(observed, k=3, bound=None):
    parts, _ = clusters(observed, 2, 8, np.random.default_rng(0))
    way = secfc.FederatedLloyd(k)
    return DistanceMeasure(way.plan(PublicFacts.of(hold_columns(parts, observed), bound)))


def dealings(measure, centroids):
    """What every member holds of these centroids of each client, in integer steps."""
    per_client = {
        c: deal_centroids(measure, c, own, SeededCoins(3, c))
        for c, own in zip(measure.names, centroids, strict=True)
    }
    return [{c: per_client[c][seat] for c in measure.names} for seat in range(measure.code.n)]


@pytest.mark.parametrize("observed", [CHAIN, COMMON, SAME], ids=["chain", "common", "same"])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32), edge=st.booleans())
def test_distances_are_exact_from_any_members(observed, seed, edge):
    rng = np.random.default_rng(seed)
    measure = measure_of(observed)
    largest = measure.plan.quantizer.max_int
    columns, counts = measure.plan.columns, rng.integers(1, 4, len(observed))
    centroids = []
    for client, count in zip(measure.names, counts, strict=True):
        shape = (count, len(columns.mine(client).shared))
        values = (
            rng.choice([-largest, largest], shape) if edge else rng.integers(-largest, largest + 1, shape)
        )
        centroids.append(values.astype(np.int64))
    replies = {
        c: measure_distances(measure, held)
        for c, held in zip(measure.names, dealings(measure, centroids), strict=True)
    }
    for message in replies.values():
        assert message.counts.tolist() == counts.tolist()
    some = rng.permutation(len(measure.names))[: measure.code.threshold(2)]
    found = reconstruct_distances(
        measure, {measure.names[s]: replies[measure.names[s]].values for s in some}, counts
    )
    wide = np.full((counts.sum(), len(columns.shared)), np.nan)
    for j, client in enumerate(measure.names):
        wide[np.ix_(found.of(j), columns.mine(client).shared)] = centroids[j]
    for i, j in itertools.product(range(len(wide)), repeat=2):
        on = ~np.isnan(wide[i]) & ~np.isnan(wide[j])
        if found.owner[i] == found.owner[j] or not on.any():
            assert np.isnan(found.squared[i, j])
        else:
            exact = sum((int(a) - int(b)) ** 2 for a, b in zip(wide[i][on], wide[j][on], strict=True))
            assert found.squared[i, j] == pytest.approx(exact / measure.plan.unit**2, rel=1e-12)
    assert "secret" in repr(found)


# --- privacy, exhaustively


class Script:
    """Coins that read given residues, one after another."""

    def __init__(self, values):
        self.values = iter(values)

    def fill_residues(self, prime, out):
        out.reshape(-1)[...] = [next(self.values) for _ in range(out.size)]


PAIR = ("a", "b")
TINY = SimpleNamespace(
    code=LagrangeCode(Basis((7,)), 3, 1, 1),
    names=PAIR,
    common={PAIR: (np.array([0]), np.array([0]))},
    pairs=lambda client: (PAIR,),
    plan=SimpleNamespace(k=1),
)


def law(x, y, zeros_of=PAIR):
    """How often each joint view of the server and client a, who is a member, arises over all coins of b.

    The view: what b dealt a, and what all three members tell the server.  a's own coins are fixed.
    """
    views = Counter()
    for noise in itertools.product(range(7), repeat=3):
        both = {
            "a": deal_centroids(TINY, "a", np.array([[x]]), Script([3, 1, 4])),
            "b": deal_centroids(TINY, "b", np.array([[y]]), Script(noise)),
        }
        for client in set(PAIR) - set(zeros_of):
            both[client] = [CentroidShares(m.values, np.zeros_like(m.zeros)) for m in both[client]]
        said = [
            int(measure_distances(TINY, {c: both[c][seat] for c in PAIR}).values[0, 0]) for seat in range(3)
        ]
        seen = both["b"][0]
        views[int(seen.values[0, 0, 0]), int(seen.zeros[0, 0, 0, 0]), *said] += 1
    return views


def test_the_server_and_a_client_learn_the_distance_to_its_centroid_alone():
    # (1 - 3)^2 = (1 - 6)^2 = 4 modulo 7; (1 - 4)^2 is another.
    assert law(1, 3) == law(1, 6)
    assert law(1, 3) != law(1, 4)
    # Controls: without the zeros of the one outside, those inside do not hide what its shares tell.
    assert law(1, 3, zeros_of=("a",)) != law(1, 6, zeros_of=("a",))


# --- matching


def between(values, owner):
    """Squared distances between clients of values on a line."""
    values, owner = np.array(values, float), np.array(owner)
    squared = (values[:, None] - values[None]) ** 2
    squared[owner[:, None] == owner[None]] = np.nan
    return squared, owner


def test_whole_clients_are_matched_where_the_nearest_centroid_is_wrong():
    """Hand case 2: clients {0, 10} and {6, 16}."""
    assert spectral(*between([0, 10, 6, 16], [0, 0, 1, 1]), 2).tolist() == [0, 1, 0, 1]


def test_what_matchings_agree_on_outvotes_one_that_is_wrong():
    squared, owner = between([0, 10, 11, 1, 2, 12, 0.5, 9], [0, 0, 1, 1, 2, 2, 3, 3])
    assert spectral(squared, owner, 2).tolist() == [0, 1, 1, 0, 0, 1, 0, 1]
    wrong = squared.copy()
    wrong[:2, 2:4], wrong[2:4, :2] = squared[:2, 2:4][:, ::-1], squared[2:4, :2][::-1]
    assert spectral(wrong, owner, 2).tolist() == [0, 1, 1, 0, 0, 1, 0, 1]
    # Control: with nobody else to say so, it is believed.
    assert spectral(wrong[:4, :4], owner[:4], 2).tolist() == [0, 1, 0, 1]


def test_one_cluster_equal_clusters_and_clients_with_fewer():
    assert spectral(*between([4, 9, 2], [0, 1, 2]), 1).tolist() == [0, 0, 0]
    assert sorted(spectral(*between([5, 5, 5, 5], [0, 0, 1, 1]), 2).tolist()) == [0, 0, 1, 1]
    found = spectral(*between([0, 10, 20, 11, 19, 1, 21], [0, 0, 0, 1, 1, 2, 2]), 3)
    assert found.tolist() == [0, 1, 2, 1, 2, 0, 2]


@pytest.mark.parametrize("observed", [CHAIN, COMMON], ids=["chain", "common"])
def test_clusters_are_found_and_no_centroid_is_sent(observed):
    parts, truth = clusters(observed, 3, 30, np.random.default_rng(0), spread=0.5)
    data = hold_columns(parts, observed, truth=truth)
    result = secfc.fit(WAY, data, keep_bodies=True)
    assert accuracy(data.truth, result.flat) == 1
    n, sums = data.n, result.n_iter + 1
    kinds = View.of(result, result.plan, SERVER).kinds()
    assert kinds["received"] == {
        "Hello": n,
        "CodedPairDistances": n,
        "Contributors": n * (sums + 1),
        "CodedSum": n * sums,
    }
    assert Counter(e.kind for e in result.transcript.envelopes)["CentroidShares"] == n * (n - 1)
    assert "no centroid" in result.learned[0]
    assert ("3 pairs share one" in result.learned[0]) == (observed == CHAIN)
    assert not any("local centroids on" in sentence for sentence in result.learned)
    # From the same start the same labels as in the clear.
    clear = secfc.fit(secfc.FederatedLloyd(3, start=Synchronized()), data)
    assert accuracy(clear.flat, result.flat) == 1
    assert matching_start_named("synchronized-distances", LocalKMeans()) == WAY.start


# --- what goes wrong


def shares(observed=CHAIN):
    measure = measure_of(observed)
    centroids = [np.ones((2, len(measure.plan.columns.mine(c).shared)), np.int64) for c in measure.names]
    return measure, dealings(measure, centroids)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: replace(m, values=m.values[:, :, :0]),
        lambda m: replace(m, values=np.repeat(m.values, 2, axis=1)),
        lambda m: replace(m, zeros=m.zeros[:, :0]),
        lambda m: replace(m, values=np.full_like(m.values, 2**31)),
    ],
    ids=["features", "clusters", "zeros", "residues"],
)
def test_shares_of_another_form_name_their_sender(change):
    from secfc.overlap.matching import check_dealt

    measure, (held, *_) = shares()
    check_dealt(measure, "client-1", held["client-1"])
    with pytest.raises(FaultyClient, match="client-1"):
        check_dealt(measure, "client-1", change(held["client-1"]))


def faulty(change):
    """A network in which what client-1 tells the server of distances is changed."""
    return lambda e: change(e) if (e.kind, e.sender) == ("CodedPairDistances", "client-1") else (e,)


def test_members_that_contradict_each_other_are_suspected_and_a_lost_client_is_no_guess():
    parts, _ = clusters(CHAIN, 3, 12, np.random.default_rng(1))
    data = hold_columns(parts, CHAIN)
    longer = faulty(lambda e: (replace(e, body=CodedPairDistances(e.body.values, e.body.counts + 1)),))
    with pytest.raises(SuspectedParties, match="count different local clusters"):
        secfc.fit(WAY, data, faults=longer)
    with pytest.raises(FaultyClient, match="client-1"):
        secfc.fit(
            WAY,
            data,
            faults=faulty(
                lambda e: (replace(e, body=CodedPairDistances(e.body.values[:, 1:], e.body.counts)),)
            ),
        )
    # 2 t + 1 = 3 of four members are enough, and every client's shares are needed.
    assert secfc.fit(WAY, data, faults=faulty(lambda e: ())).n_iter >= 1
    with pytest.raises(TooFewReplies):
        secfc.fit(
            WAY, data, faults=lambda e: () if e.sender == "client-2" and e.kind == "CentroidShares" else (e,)
        )


def test_what_cannot_be_is_refused():
    parts, _ = clusters(CHAIN, 3, 12, np.random.default_rng(1))
    data = hold_columns(parts, CHAIN)
    with pytest.raises(InputError, match="over='sums'"):
        Synchronized(over="sums")
    with pytest.raises(InputError, match=r"no client has k=3 local clusters"):
        secfc.fit(secfc.FederatedLloyd(3, start=Synchronized(LocalKMeans(2), "distances")), data)
    with pytest.raises(InputError, match="the server sees centroids in every round, so"):
        secfc.fit(secfc.Overlap1(3, start=Synchronized(over="distances")), data)
