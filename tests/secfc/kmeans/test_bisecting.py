"""The bisecting start: against Python integers and fractions, at its edges, and what it is worth."""

import dataclasses
import itertools
import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import fcluster
from scipy.cluster.hierarchy import linkage as scipy_linkage
from scipy.spatial.distance import pdist, squareform
from sklearn.datasets import make_circles, make_moons

import secfc
from field import Basis
from field.ring.basis import MERSENNE_61
from field.ring.uint128 import UInt128
from secfc.attacks.geometry import labels_only, reconstruct_geometry
from secfc.attacks.judging import align_guess
from secfc.coded.source import CodedSource
from secfc.coded_kmeans.adversary_view import DecodedView
from secfc.coded_kmeans.query_order import QueryValidator
from secfc.data.inputs import build_algorithm
from secfc.errors import FaultyServer, SuspectedParties
from secfc.kmeans.bisecting import PATIENCE, Bisecting, _random_halves, _random_sides, accept_splits
from secfc.kmeans.loop import (
    Neighborhood,
    PlainSource,
    all_pairs,
    gains_from_distances,
    halves_from_distances,
)
from secfc.kmeans.splitting import Splitting
from secfc.kmeans.starts import STARTS, CenterSeparation, KMeansPlusPlus
from secfc.metrics import adjusted_rand, cost
from secfc.privacy import Bound, Budget
from secfc.roles.exchange import SERVER, STRIDE
from tests.nightly import by_night, covering, every, short, trials
from tests.oracles import field as reference
from tests.secfc.queries import altered, query
from tests.small import cluster, grid, on_grid, same_runs


def drawn(points, k, seed, start=None):
    """The first labels on plaintext integers, without anybody to talk to."""
    role = (start or Bisecting()).draw_labels(
        len(points), k, np.random.default_rng(seed), PlainSource(points)
    )
    with pytest.raises(StopIteration) as done:
        next(role)
    return done.value.value


def fraction_cost(points, own):
    """Sum of squared distances to the mean, of these points: a fraction."""
    sums = [sum(int(x) for x in column) for column in points[own].T]
    return sum(
        (Fraction(int(x)) - Fraction(s, len(points[own]))) ** 2
        for column, s in zip(points[own].T, sums, strict=True)
        for x in column
    )


def halves_by_hand(points, labels, c):
    new = np.empty_like(labels)
    for h in range(c):
        own = np.flatnonzero(labels // 2 == h)
        if len(own):
            half = labels[own] - 2 * h
            scaled = reference.scaled_distances(points[own], half, 2)
            new[own] = 2 * h + np.array(reference.nearest(scaled, np.bincount(half, minlength=2)))
    return new


def gains_by_hand(points, labels, c):
    gains = []
    for h in range(c):
        a, b = (np.flatnonzero(labels == half) for half in (2 * h, 2 * h + 1))
        whole = np.concatenate([a, b])
        both = len(a) and len(b)
        gains.append(
            fraction_cost(points, whole) - fraction_cost(points, a) - fraction_cost(points, b)
            if both
            else Fraction(0)
        )
    return tuple(gains)


cases = st.tuples(
    st.integers(1, 30), st.integers(1, 4), st.integers(0, 3), st.integers(1, 6), st.integers(0, 2**32)
)


@given(cases)
def test_halves_and_gains_are_those_of_fractions(case):
    # Halves that are empty, or whole clusters, of few integers: ties and duplicates are the rule.
    m, d, reach, c, seed = case
    points = grid(m, d, seed, reach)
    labels = np.random.default_rng(seed).integers(0, 2 * c, m).astype(np.int32)
    pairs = PlainSource(points).pairs(labels, c)
    assert halves_from_distances(pairs, labels, c).tolist() == halves_by_hand(points, labels, c).tolist()
    assert gains_from_distances(pairs, labels, c) == gains_by_hand(points, labels, c)


def start_by_hand(points, k, rng, start):
    """What the class says, from fractions; numbering and halves are the library's."""
    labels, idle = np.zeros(len(points), np.int32), 0
    names, fresh, edges = (
        [0],
        itertools.count(1),
        set(),
    )  # clusters keep their names when they are numbered anew
    most = min(len(points), k + math.ceil(start.spare * k)) if k > 1 else 1
    while (c := labels.max() + 1) < most and idle < PATIENCE:
        halves = (_random_sides if idle else _random_halves)(labels, c, rng)
        for _ in range(start.steps):
            halves = halves_by_hand(points, halves, c)
        gains = gains_by_hand(points, halves, c)
        good = [h for h in range(c) if gains[h] and gains[h] >= max(gains) * Fraction(start.keep)]
        good.sort(key=lambda h: gains[h], reverse=True)  # stable: ties keep the order of clusters
        good = good[: most - c]
        labels = accept_splits(halves, c, good)
        for h in sorted(good):
            names.append(next(fresh))
            edges.add(frozenset({names[h], names[-1]}))
        idle = 0 if good else idle + 1
        for _ in range(start.settle if good and (labels.max() + 1 < most or most > k) else 0):
            count, before = labels.max() + 1, labels
            sizes = np.bincount(labels, minlength=len(names))
            scaled = reference.scaled_distances(points, labels, len(names))
            labels = np.array(reference.nearest(scaled, sizes))
            edges |= {frozenset({names[x], names[y]}) for x, y in zip(before, labels, strict=True) if x != y}
            assert count <= len(names)
        for lost in [name for h, name in enumerate(names) if h not in labels]:
            beside = {name for edge in edges if lost in edge for name in edge} - {lost}
            heir = min(beside, key=names.index)
            edges = {edge for edge in edges if lost not in edge} | {
                frozenset({heir, x}) for x in beside - {heir}
            }
            labels = np.where(labels > names.index(lost), labels - 1, labels).astype(np.int32)
            names.remove(lost)
    return merged_by_hand(points, labels, k, {tuple(sorted(map(names.index, edge))) for edge in edges})


def merged_by_hand(points, labels, k, near):
    """Neighbors merged one after the other; squared distances of means, where they are known or assumed."""
    own = {h: np.flatnonzero(labels == h) for h in range(labels.max() + 1)}
    means = {h: [Fraction(int(x), len(rows)) for x in points[rows].sum(axis=0)] for h, rows in own.items()}
    apart = {
        frozenset(pair): sum((x - y) ** 2 for x, y in zip(*map(means.get, pair), strict=True))
        for pair in near
    }
    while len(own) > k:

        def loss(pair):
            a, b = (len(own[h]) for h in pair)
            return apart[pair] * a * b / (a + b)

        both = min(apart, key=lambda pair: (loss(pair), sorted(pair)))
        a, b = sorted(both)
        between = apart.pop(both)
        share = Fraction(len(own[b]), len(own[a]) + len(own[b]))
        own[a] = np.concatenate([own[a], own.pop(b)])
        for h in set(own) - {a}:
            one, other = apart.pop(frozenset({a, h}), None), apart.pop(frozenset({b, h}), None)
            if one is not None or other is not None:
                one, other = (
                    other + between if one is None else one,
                    one + between if other is None else other,
                )
                # Stewart's theorem.
                apart[frozenset({a, h})] = (1 - share) * one + share * other - share * (1 - share) * between
    for new, h in enumerate(sorted(own)):
        labels = labels.copy()
        labels[own[h]] = new
    return labels


STARTED = [Bisecting(), Bisecting(1.0, 1, 0, 1.0), Bisecting(0.0, 3, 5, 0.2), Bisecting(spare=0)]


@given(cases, st.sampled_from(STARTED))
@example((7, 1, 3, 3, 7), Bisecting())  # a level that splits nothing
def test_the_start_is_that_of_fractions(case, start):
    m, d, reach, k, seed = case
    points, k = grid(m, d, seed, reach), min(k, m)
    labels = drawn(points, k, seed, start)
    assert labels.tolist() == start_by_hand(points, k, np.random.default_rng(seed), start).tolist()
    assert labels.dtype == np.int32
    assert labels.min() == 0
    assert labels.max() < k
    assert drawn(points, k, seed, start).tolist() == labels.tolist()


@given(st.integers(1, 12), st.integers(0, 2**32))
def test_as_many_clusters_as_different_points(m, seed):
    # Of cubes random halves of equal means, which split nothing, are rare.
    points = np.array([[x**3] for x in range(m)])
    labels = drawn(points, m, seed, Bisecting(steps=50, settle=1, spare=0.5))
    assert np.bincount(labels).tolist() == [1] * m


def test_points_that_are_equal_stay_together():
    points = np.array([[5, 5]] * 9 + [[7, 1]] * 3)
    labels = drawn(points, 6, 0)
    assert len(set(labels.tolist())) == 2
    assert len(set(labels[:9].tolist())) == 1
    assert drawn(points[:9], 4, 0).tolist() == [0] * 9


@pytest.mark.parametrize("k", [1, 2])
def test_one_and_two_points(k):
    assert sorted(drawn(np.array([[0], [4]]), k, 3).tolist()) == [0, k - 1]
    assert drawn(np.array([[4]]), 1, 3).tolist() == [0]


def test_random_halves_are_of_equal_size_and_inside_their_clusters():
    labels = np.repeat(np.arange(4), [1, 2, 7, 30]).astype(np.int32)
    halves = _random_halves(labels, 4, np.random.default_rng(0))
    assert (halves // 2 == labels).all()
    assert np.bincount(halves).tolist() == [1, 0, 1, 1, 4, 3, 15, 15]


def test_new_clusters_are_numbered_in_the_order_of_those_that_were_split():
    halves = np.array([0, 1, 2, 3, 4, 5], np.int32)
    assert accept_splits(halves, 3, [2, 0]).tolist() == [0, 3, 1, 1, 2, 4]
    assert accept_splits(halves, 3, []).tolist() == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"keep": 1.5}, "keep=1.5 must be in"),
        ({"steps": 0}, "steps=0"),
        ({"settle": -1}, "settle=-1"),
        ({"spare": -0.1}, "spare=-0.1 must be in"),
        ({"spare": float("nan")}, "spare=nan must be in"),
    ],
)
def test_values_that_make_no_start_are_refused(values, why):
    with pytest.raises(ValueError, match=why):
        Bisecting(**values)


# --- what it is worth ------------------------------------------------------------------------------


def test_it_finds_sixteen_separated_clusters_where_random_labels_do_not():
    rng = np.random.default_rng(0)
    points = rng.uniform(-10, 10, (16, 20))[np.arange(800) % 16] + rng.normal(size=(800, 20))
    data = secfc.Federation.from_arrays([points])
    truth = cost(points, np.arange(800) % 16, 16)
    found = {
        name: [
            cost(points, secfc.fit(secfc.Lloyd(16, init=STARTS[name]), data, seed=seed).flat, 16) / truth
            for seed in range(5)
        ]
        for name in ("random", "bisecting")
    }
    assert max(found["bisecting"]) < 1.001
    assert min(found["random"]) > 2


def test_separation_may_follow_it():
    points = np.array([[0], [2], [18], [20], [9], [11]])
    labels = drawn(points, 2, 0, CenterSeparation(Bisecting()))
    assert sorted(np.bincount(labels + 1).tolist()) == [2, 2, 2]


# --- greedy k-means++ ------------------------------------------------------------------------------


@pytest.mark.parametrize("trials", [None, 1])
@pytest.mark.parametrize("seed", range(20))
def test_a_chosen_point_is_not_drawn_again_whatever_a_deviating_client_says_of_it(trials, seed):
    class Lied(PlainSource):
        def draw_points(self, labels, k, draw):
            yield from ()
            # Every point is as far from itself as from all others.
            return draw(UInt128(*np.array([[[0] * len(labels)] * k, [[7] * len(labels)] * k], np.uint64)))

    role = KMeansPlusPlus(trials).draw_labels(9, 6, np.random.default_rng(seed), Lied(grid(9, 2, seed)))
    with pytest.raises(StopIteration) as done:
        next(role)
    assert sorted(done.value.value[done.value.value >= 0]) == list(range(6))


class Asked(PlainSource):
    """Writes down how many points each question of a draw names."""

    def __init__(self, points):
        super().__init__(points)
        self.counts = []

    def draw_points(self, labels, k, draw):
        assert sorted(labels[labels >= 0].tolist()) == list(range(k))
        self.counts.append(k)
        return super().draw_points(labels, k, draw)


def test_kmeans_plus_plus_takes_the_best_of_a_few_points():
    points = grid(200, 3, 1, reach=1000)
    source = Asked(points)
    role = KMeansPlusPlus().draw_labels(200, 8, np.random.default_rng(0), source)
    with pytest.raises(StopIteration) as done:
        next(role)
    chosen = np.flatnonzero(done.value.value >= 0)
    assert len(chosen) == 8
    assert source.counts[0] == 1
    assert len(source.counts) == 8
    assert max(source.counts) == 4  # 2 + floor(ln 8)


@given(cases)
def test_kmeans_plus_plus_chooses_k_different_points(case):
    m, d, reach, k, seed = case
    for drawings in (None, 1, 9):
        labels = drawn(grid(m, d, seed, reach), min(k, m), seed, KMeansPlusPlus(drawings))
        assert sorted(labels[labels >= 0].tolist()) == list(range(min(k, m)))


@pytest.mark.parametrize("policy", [secfc.Distances(), secfc.AssignmentsOnly(consent=True)])
@pytest.mark.parametrize("trials", [None, 1])
def test_clients_follow_the_points_that_kmeans_plus_plus_draws(policy, trials):
    init, data = KMeansPlusPlus(trials), on_grid()
    secure = cluster_halves(data, policy, k=4, init=init, n_init=2, keep_bodies=True)
    plain = secfc.Lloyd(
        4, init=init, n_init=2, disclosure=policy, quantization=secfc.Quantization(coarse="allow")
    )
    assert same_runs(secure, secfc.fit(plain, data, seed=0, bound=4.0))
    asked = {
        e.round: e.body.labels.max() + 1
        for e in secure.transcript.envelopes
        if e.kind == "DistanceQuery" and e.recipient == "client-0" and (e.body.labels < 0).sum() > 50
    }
    # Two starts of which each drew one point, and 3 for each of the others; then the first step.
    counts = [1, 3, 3, 3] if trials is None else [1, 1, 1]
    steps = [4] if policy == secfc.Distances() else []
    assert list(asked.values()) == 2 * (counts + steps)


def test_points_that_were_not_drawn_cannot_be_chosen():
    """A server whose first step is not from the points that it drew."""
    rounds = []

    def lie(e):
        if e.kind == "DistanceQuery":
            rounds.extend([e.round] * (e.round not in rounds))
            if rounds.index(e.round) == 4:
                return (dataclasses.replace(e, body=relabeled(e.body, np.roll(e.body.labels, 1))),)
        return (e,)

    with pytest.raises(FaultyServer, match="where the plan has DistanceQuery"):
        cluster_halves(on_grid(), secfc.Distances(), k=4, init=KMeansPlusPlus(), faults=lie)


def test_greedy_starts_cost_less_than_those_of_single_draws():
    points = grid(300, 2, 5, reach=500)

    def start_cost(seed, k=10):
        labels = drawn(points, k, seed, KMeansPlusPlus())
        centers = points[[int(np.flatnonzero(labels == h)[0]) for h in range(k)]]
        return ((points[:, None] - centers) ** 2).sum(axis=2).min(axis=1).sum()

    def single(seed, k=10):
        rng = np.random.default_rng(seed)
        centers = [points[rng.integers(300)]]
        for _ in range(k - 1):
            gaps = ((points[:, None] - np.array(centers)) ** 2).sum(axis=2).min(axis=1)
            centers.append(points[rng.choice(300, p=gaps / gaps.sum())])
        return ((points[:, None] - np.array(centers)) ** 2).sum(axis=2).min(axis=1).sum()

    assert np.mean([start_cost(s) for s in range(20)]) < 0.93 * np.mean([single(s) for s in range(20)])


# --- as a protocol ---------------------------------------------------------------------------------


def cluster_halves(data, policy, seed=0, k=6, **more):
    more = {"init": Bisecting(), "coarse": "allow", **more}
    return cluster(data, policy, k=k, seed=seed, bound=4.0, **more)


DISTANCES = {
    "masked": (secfc.Distances(), {}),
    "bare": (secfc.Distances(blind=False), {}),
    "dealt": (secfc.Distances(dealt=True), {}),
    "corrected": (secfc.Distances(), {"corrected": 1}),
    "two segments": (secfc.Distances(), {"ell": 2}),
    "one prime": (secfc.Distances(), {"basis": Basis((MERSENNE_61,))}),
    "merged": (secfc.Distances(), {"membership": secfc.Private()}),
}
COMPARED = {
    "dealt by the server": (secfc.AssignmentsOnly(), {}),
    "dealt by a client": (secfc.AssignmentsOnly(dealer="client-4"), {}),
    "undealt": (secfc.AssignmentsOnly(dealer=None), {}),
    "compared, two segments": (secfc.AssignmentsOnly(), {"ell": 2}),
    "compared, merged": (secfc.AssignmentsOnly(), {"membership": secfc.Private()}),
}


@pytest.mark.parametrize(("way", "n_init"), every(2, [
    *((way, 1) for way in [*DISTANCES, *COMPARED]), ("masked", 2), ("dealt by the server", 2),
    *by_night(*((way, 3) for way in [*DISTANCES, *COMPARED])),
]))  # fmt: skip
def test_labels_equal_those_of_plaintext_at_every_step(way, n_init):
    policy, more = (DISTANCES | COMPARED)[way]
    for seed in range(short(1, nightly=3)):
        secure = cluster_halves(on_grid(seed=seed), policy, seed, n_init=n_init, **more)
        data = on_grid(seed=seed)
        if "membership" in more:  # the union's rows, in the order it has them
            rows, first = np.unique(np.concatenate(secure.rows), return_index=True)
            data = secfc.Federation.from_arrays([data.stacked()[first]])
            assert rows.tolist() == list(range(len(rows)))
        plain = secfc.fit(
            secfc.Lloyd(
                6, init=Bisecting(), n_init=n_init, disclosure=policy,
                quantization=secfc.Quantization(scale=secure.plan.quantizer.scale, coarse="allow"),
            ),
            data, seed=seed, bound=4.0,
        )  # fmt: skip
        assert same_runs(secure, plain)
        # One restart under compared labels opens no cost.
        assert secure.cost == (None if way in COMPARED and n_init == 1 else plain.cost)


@trials(10, nightly=100)
@given(cases, st.integers(1, 2))
def test_small_runs_are_exact_with_ties_and_duplicates(case, n_init):
    m, d, reach, k, seed = case
    points = grid(max(m, 5), d, seed, reach).astype(float)
    k = min(k, len(points))
    data = secfc.Federation.from_arrays(np.array_split(points, 5))
    secure = cluster_halves(data, secfc.Distances(), seed % 1000, k, n_init=n_init)
    way = secfc.Lloyd(
        k,
        init=Bisecting(),
        n_init=n_init,
        disclosure=secfc.Distances(),
        quantization=secfc.Quantization(coarse="allow"),
    )
    assert same_runs(secure, secfc.fit(way, data, seed=seed % 1000, bound=4.0))


def test_a_point_is_measured_to_the_halves_of_its_own_cluster_only():
    result = cluster_halves(on_grid(), secfc.Distances(), keep_bodies=True)
    asked = [
        e.body
        for e in result.transcript.envelopes
        if e.kind == "HalfDistanceQuery" and e.recipient == "client-0"
    ]
    assert {q.k for q in asked} > {2, 4}
    sizes = {e.nbytes for e in result.transcript.envelopes if e.kind == "CodedDistances"}
    assert 2 * (2 * 60 + 2) * 4 in sizes  # two lanes of two distances a point, and what checks them
    assert any("halves of its cluster" in fact for fact in result.learned)


@pytest.mark.parametrize("lost", ["client-0", "client-3"])
def test_clients_that_fall_silent_change_nothing(lost):
    def faults(e):
        return () if e.sender == lost and e.kind == "CodedDistances" else (e,)

    data = on_grid()
    for policy in (secfc.Distances(), secfc.Distances(dealt=True)):
        assert same_runs(cluster_halves(data, policy, faults=faults), cluster_halves(data, policy))


def test_the_geometry_attack_takes_questions_that_are_whole():
    data = on_grid()
    result = cluster_halves(data, secfc.Distances(), keep_bodies=True)
    view = DecodedView.of(result, result.plan, SERVER)
    asked = list(view.questions())
    assert {q.whole for q in asked} == {True, False}
    assert reconstruct_geometry(view).ranks[-1] == 3
    assert labels_only(view) is not None


# --- neighbors ----------------------------------------------------------------------------------------


def test_neighbors_are_cut_from_one_another_or_exchange_points():
    near = Neighborhood()
    near.split([0], 1)
    near.split([0, 1], 2)
    assert near.pairs.tolist() == [[0, 1], [0, 2], [1, 3]]
    near.moved(np.array([2, 0, 3, 1]), np.array([3, 0, 2, 1]))
    assert near.pairs.tolist() == [[0, 1], [0, 2], [1, 3], [2, 3]]


def test_the_neighbors_of_a_lost_cluster_fall_to_one_of_them():
    near = Neighborhood()
    near.near = {(0, 2), (1, 2), (2, 3), (3, 4)}
    near.numbered(np.array([0, 1, 3, 4]), 5)  # without 2
    assert near.pairs.tolist() == [[0, 1], [0, 2], [2, 3]]
    near.numbered(np.array([3, 3]), 4)  # one after the other
    assert near.pairs.tolist() == []


@given(st.integers(1, 8), st.integers(0, 2**32))
def test_all_clusters_are_connected_whatever_is_lost(c, seed):
    rng, near = np.random.default_rng(seed), Neighborhood()
    for new in range(1, c):
        near.split([int(rng.integers(new))], new)
    before, after = rng.permutation(np.arange(20) % c), rng.integers(0, c, 20)
    near.moved(before, after)
    near.numbered(after, c)
    left = len(np.unique(after))
    group = list(range(left))
    for a, b in near.pairs.tolist():
        group = [group[a] if g == group[b] else g for g in group]
    assert len(set(group)) == 1


# --- what a server may ask --------------------------------------------------------------------------


def lying(change, count):
    """Changes the labels of the server's question number `count` that halves clusters."""
    rounds = []

    def faults(e):
        if e.kind == "HalfDistanceQuery":
            if e.round not in rounds:
                rounds.append(e.round)
            if rounds.index(e.round) == count:
                return (dataclasses.replace(e, body=change(e.body)),)
        return (e,)

    return faults


def relabeled(body, labels):
    return altered(body, labels=labels.astype(body.labels.dtype))


def moved(body):
    """One point in another cluster than it was in."""
    labels = body.labels.copy()
    labels[0] = (labels[0] + 2) % body.k
    return relabeled(body, labels)


LIES = {
    "other random halves": (lambda b: relabeled(b, b.labels[::-1]), 0),
    "other clusters": (moved, 12),
    "more halves": (lambda b: altered(b, k=b.k + 2), 5),
}


@pytest.mark.parametrize("lie", LIES)
def test_halves_that_the_plan_does_not_have_are_refused(lie, monkeypatch):
    change, count = LIES[lie]
    with pytest.raises(
        FaultyServer,
        match=r"asked HalfDistanceQuery\(k=\d+\) of some labels where the plan has HalfDistanceQuery",
    ):
        cluster_halves(on_grid(), secfc.Distances(), faults=lying(change, count))
    monkeypatch.setattr(QueryValidator, "ask", lambda self, question, missed=0: True)
    monkeypatch.setattr(QueryValidator, "end", lambda self, labels, missed=0: True)
    cluster_halves(on_grid(), secfc.Distances(dealt=True), faults=lying(change, count))


@pytest.mark.parametrize("dealer", [SERVER, None])
@pytest.mark.parametrize(("kind", "count"), [("CompareHalvesQuery", 2), ("GainQuery", 2), ("LossQuery", 1)])
def test_compared_halves_are_those_that_were_opened(dealer, kind, count):
    """Of another clustering than the last that clients heard the server gets neither labels nor a gain."""
    asked = set()

    def lie(e):
        if e.kind == kind:
            asked.add(e.round)
            if len(asked) == count:
                labels = e.body.labels.copy()
                labels[0] ^= 1  # in the other half of its cluster
                return (dataclasses.replace(e, body=relabeled(e.body, labels)),)
        return (e,)

    with pytest.raises((FaultyServer, SuspectedParties), match=rf"asked {kind}\(k=\d+\) of some labels"):
        cluster_halves(on_grid(), secfc.AssignmentsOnly(dealer=dealer), faults=lie)


def test_what_compared_halves_open():
    """Labels of all, one number a cluster and level, and no distance."""
    result = cluster_halves(on_grid(), secfc.AssignmentsOnly(), keep_bodies=True)
    sent = [e.body for e in result.transcript.envelopes if e.recipient == SERVER]
    kinds = {body.kind for body in sent}
    assert "CodedGains" in kinds
    assert not kinds & {"CodedDistances", "CodedCosts", "MaskedDistances"}
    questions = [e.body for e in result.transcript.envelopes if e.recipient == "client-0"]
    levels = [q.k // 2 for q in questions if q.kind == "GainQuery"]
    assert levels == sorted(levels)
    (merged,) = {id(q): q for q in questions if q.kind == "LossQuery"}.values()
    assert levels[-1] <= merged.k == 8
    assert merged.k - 1 <= len(merged.detail) < merged.k * (merged.k - 1) // 2
    counts = {body.values.shape[1] for body in sent if body.kind == "CodedGains"}
    assert counts == {*levels, len(merged.detail)}
    assert "the reduction in cost of each split that the start tried" in result.learned
    assert "how far the means of neighboring clusters were apart before the start merged some" in (
        result.learned
    )


def test_clusters_that_are_not_neighbors_stay_unmeasured():
    """A server that asks how far all means are apart."""

    def lie(e):
        if e.kind == "LossQuery":
            return (dataclasses.replace(e, body=altered(e.body, detail=all_pairs(e.body.k))),)
        return (e,)

    with pytest.raises((FaultyServer, SuspectedParties), match=r"asked LossQuery\(k=8\) of"):
        cluster_halves(on_grid(), secfc.AssignmentsOnly(), faults=lie)


@pytest.mark.parametrize(
    ("pairs", "rule"),
    [
        ([[1, 0]], "the lower first"),
        ([[1, 1]], "the lower first"),
        ([[0, 3]], "two of k=3"),
        ([[-1, 2]], "two of k=3"),
        ([[0, 2], [0, 1]], "ascending"),
        ([[0, 1], [0, 1]], "each once"),
        ([0, 1], "integers"),
    ],
)
def test_pairs_of_clusters_are_checked(pairs, rule):
    with pytest.raises(ValueError, match=rule):
        query(
            "LossQuery", 0, 3, np.zeros(2, np.int8), np.empty(0, np.int32), detail=np.array(pairs, np.int32)
        )


def test_masks_are_bound_to_the_pairs_that_are_asked_about():
    """Else answers to different pairs would add up to something."""
    labels, nobody = np.array([0, 1, 2], np.int8), np.empty(0, np.int32)
    subjects = {
        query("LossQuery", 0, 3, labels, nobody, detail=np.array(pairs, np.int32)).digest
        for pairs in ([[0, 1]], [[0, 2]], [[0, 1], [0, 2]])
    }
    assert len(subjects) == 3


def lying_split(honest, lie):
    def split(self, halves, c, most, source):
        told, new = yield from honest(self, halves, c, most, source)
        if isinstance(source, CodedSource):
            told = lie(told, halves, c)
            new = np.unique(halves[told >= c] // 2).tolist()
        return told, new

    return split


def test_which_splits_are_accepted_is_the_word_of_the_server(monkeypatch):
    """As are all labels that it decodes."""
    monkeypatch.setattr(
        Bisecting,
        "_split",
        lying_split(Bisecting._split, lambda told, halves, c: accept_splits(halves, c, [c - 1])),
    )
    assert cluster_halves(on_grid(), secfc.Distances()).n_iter


def test_labels_that_no_splits_give_are_refused(monkeypatch):
    monkeypatch.setattr(
        Bisecting, "_split", lying_split(Bisecting._split, lambda told, halves, c: told[::-1].copy())
    )
    with pytest.raises(FaultyServer, match="where the plan has"):
        cluster_halves(on_grid(), secfc.Distances())


MERGES = {
    "other clusters": (lambda told, joined: np.minimum(joined, 5), True),
    "too many": (lambda told, joined: np.minimum(joined, 4), False),
    "in a circle": (lambda told, joined: joined % 6, True),
    "other numbers": (lambda told, joined: 5 - told, False),
    "parts of clusters": (lambda told, joined: np.where(np.arange(60) == 0, 5 - told, told), False),
}


@pytest.mark.parametrize(("policy", "merges"), covering([secfc.Distances(), secfc.AssignmentsOnly()], MERGES))
def test_which_clusters_are_merged_is_the_word_of_the_server(merges, policy, monkeypatch):
    lie, taken = MERGES[merges]
    honest = Bisecting._merge

    def merge(self, labels, k, near, source):
        told = yield from honest(self, labels, k, near, source)
        return lie(told, labels).astype(np.int32) if isinstance(source, CodedSource) else told

    monkeypatch.setattr(Bisecting, "_merge", merge)
    if taken:
        assert cluster_halves(on_grid(), policy).n_iter
    else:
        with pytest.raises((FaultyServer, SuspectedParties), match="where the plan has"):
            cluster_halves(on_grid(), policy)


def test_more_levels_than_planned_are_refused(monkeypatch):
    """A server that splits nothing may try again, but not for ever."""
    levels = []

    def split(self, halves, c, most, source):
        if not isinstance(source, CodedSource):
            return (yield from honest(self, halves, c, most, source))
        levels.append(c)
        yield from source.split_clusters(halves, c, lambda gains: halves // 2)
        return halves // 2, []

    honest = Bisecting._split
    monkeypatch.setattr(Bisecting, "_split", split)
    cluster_halves(on_grid(), secfc.Distances())
    assert len(levels) == PATIENCE
    assert levels == [1] * PATIENCE


def corners(d, copies):
    """All 0/1 vectors of this length, and each so often."""
    return np.repeat(np.array(list(itertools.product((0, 1), repeat=d))), copies, axis=0)


FEW_VALUES = {
    "a 0/1 column of 4": (corners(1, 2), 2),
    "a 0/1 column of 8": (corners(1, 4), 2),
    "three points": (np.arange(3)[:, None], 3),
    "four corners twice": (corners(2, 2), 4),
    "one of five, twice": (np.repeat(np.eye(5, dtype=int), 2, axis=0), 5),
    "one of three, ten times": (np.repeat(np.eye(3, dtype=int), 10, axis=0), 3),
    "nine squares twice": (np.repeat(np.arange(9) ** 2, 2)[:, None], 9),
    "two far from many": (np.array([0] * 30 + [1, -1])[:, None], 3),
    "fewer values than k": (corners(1, 6), 4),
}


def lost(start, points, k):
    """Of 16 seeds, those after which points of two values share a cluster or more clusters are empty."""
    values = len(np.unique(points, axis=0))
    found = []
    for seed in range(16):
        rows = points[np.random.default_rng(seed).permutation(len(points))].astype(float)
        run = secfc.fit(secfc.Lloyd(k, init=start), secfc.Federation.from_arrays([rows]), seed=seed)
        own = run.labels[0]
        if len(np.unique(own)) < min(k, values) or cost(rows, own, k) > 1e-9:
            found.append(seed)
    return found


@pytest.mark.parametrize("start", [Bisecting(), Splitting()], ids=["bisecting", "splitting"])
@pytest.mark.parametrize(("points", "k"), FEW_VALUES.values(), ids=list(FEW_VALUES))
def test_as_many_clusters_as_different_points_are_found(points, k, start):
    """Each value is a cluster of its own, however often halves with the same mean are drawn."""
    assert lost(start, points, k) == []


def test_halves_that_are_drawn_once_lose_clusters(monkeypatch):
    """The control: without another draw, two points of each value are often cut into equal halves."""
    monkeypatch.setattr("secfc.kmeans.bisecting.PATIENCE", 1)
    assert lost(Bisecting(), *FEW_VALUES["a 0/1 column of 4"])


def test_clusters_to_spare_are_merged_in_one_question():
    """Asked about once, and twice with two restarts."""
    for n_init in (1, 2):
        start = {"init": Bisecting(steps=4, settle=0, spare=0.5), "n_init": n_init}
        result = cluster_halves(on_grid(), secfc.Distances(), keep_bodies=True, **start)
        asked = [e.body for e in result.transcript.envelopes if e.kind == "DistanceQuery"]
        assert sum(q.k == 9 for q in asked) == 5 * n_init


def test_secret_labels_refuse_it_before_anything_is_shared():
    for init in (Bisecting(), CenterSeparation(Bisecting())):
        with pytest.raises(ValueError, match=r"init=.*\(\) with disclosure=.*this start opens"):
            cluster_halves(on_grid(), secfc.FinalLabelsOnly(), init=init)


@pytest.mark.parametrize("policy", [secfc.Distances(), secfc.AssignmentsOnly()])
def test_a_bound_on_clusters_refuses_it_which_begins_with_one(policy):
    with pytest.raises(ValueError, match=r"largest=30\) with init=Bisecting\(\).*Leave largest out"):
        cluster_halves(on_grid(), policy, largest=30)


def test_noise_does_not_cover_it():
    noise = secfc.NoiseInShares(Budget(1.0, 1e-6), Bound.given(4.0))
    with pytest.raises(ValueError, match="Bisecting measures distances of its own"):
        cluster_halves(on_grid(), noise)


# --- dendrograms: what merging clusters would cost, told at the end


def linked(policy=None, points=None, k=5, **more):
    """A run with a dendrogram, its points as they were clustered, and the centers of its clusters."""
    points = np.random.default_rng(3).integers(-40, 41, (45, 3)) if points is None else points
    way = build_algorithm(
        secfc.SecFC,
        k=k,
        disclosure=policy or secfc.AssignmentsOnly(),
        scale=4.0,
        t=1,
        dendrogram=True,
        init="random",
        max_iter=3,
        **more,
    )
    result = secfc.fit(way, np.array_split(points / 4, 5), bound=16.0)
    centers = [points[result.flat == h].mean(axis=0) / 4 for h in result.dendrogram.leaves]
    return result, np.array(centers)


@pytest.mark.parametrize(
    ("policy", "n_init"),
    [
        (secfc.AssignmentsOnly(), 1),
        (secfc.OwnLabels(), 2),
        *by_night((secfc.AssignmentsOnly(), 2), (secfc.OwnLabels(), 1), (secfc.Distances(), 1)),
        *by_night((secfc.AssignmentsOnly(dealer=None), 1), (secfc.OwnLabels(dealer=None), 2)),
    ],
)
def test_hierarchies_are_those_of_scipy(policy, n_init):
    result, centers = linked(policy, n_init=n_init)
    tree, labels = result.dendrogram, result.flat
    # The oracle moves every point to its center; merges within a cluster cost nothing and come first.
    ward = scipy_linkage(centers[labels], "ward")
    np.testing.assert_allclose(tree.link_clusters()[:, 2], ward[-len(centers) + 1 :, 2], rtol=1e-12)
    np.testing.assert_allclose(tree.distances, pdist(centers), rtol=1e-12)
    for method, whole in (("ward", ward), ("single", scipy_linkage(centers[labels], "single"))):
        for count in range(1, len(centers) + 1):
            cut = np.concatenate(result.cut(count, method))
            assert adjusted_rand(fcluster(whole, count, "maxclust"), cut) == 1
            assert len(set(cut)) == count
    told = "how far their centers are apart"
    assert any(told in fact for fact in result.learned)
    plain = secfc.fit(
        secfc.SecFC(k=2, threshold=1, disclosure=policy, init="random"), np.array_split(np.eye(20), 5)
    )
    assert plain.dendrogram is None
    assert not any(told in fact for fact in plain.learned)
    with pytest.raises(secfc.InputError, match="no dendrogram"):
        plain.cut(2)


def similar_share(guess, points):
    """The share of variance that a guess explains after the best similarity."""
    found = align_guess(guess, points, "similarity")
    centered = points - points.mean(axis=0)
    return 1 - ((points - found) ** 2).sum() / (centered**2).sum()


def scale_distances(squared):
    """Positions (n, r) with these squared distances (n, n): classical scaling (Torgerson 1952)."""
    centered = squared - squared.mean(axis=0) - squared.mean(axis=1)[:, None] + squared.mean()
    spans, axes = np.linalg.eigh(-centered / 2)
    kept = spans > 1e-9 * spans[-1]
    return axes[:, kept] * np.sqrt(spans[kept])


@pytest.mark.parametrize(
    ("shape", "noise", "m", "k"),
    [
        (make_moons, 0.03, 240, 16),
        *by_night((make_moons, 0.06, 1500, 40), (partial(make_circles, factor=0.5), 0.05, 1500, 40)),
    ],
)
def test_single_linkage_of_many_clusters_finds_what_is_no_ball(shape, noise, m, k):
    points, truth = shape(m, noise=noise, random_state=0)
    order = np.random.default_rng(0).permutation(m)
    way = secfc.SecFC(k=k, threshold=1, release=secfc.Release(dendrogram=True))
    result = secfc.fit(way, np.array_split(points[order], 5))
    assert adjusted_rand(truth[order], np.concatenate(result.cut(2, "single"))) == 1
    two = secfc.fit(secfc.Lloyd(k=2), np.array_split(points[order], 5))
    assert adjusted_rand(truth[order], two.flat) < 0.5  # k-means does not
    # By how far centers are apart the server places points that labels hardly tell of.
    tree = result.dendrogram
    kinds = {"labels": np.ones((k, k)) - np.eye(k), "distances": squareform(tree.distances) ** 2}
    placed = {name: scale_distances(square)[result.flat] for name, square in kinds.items()}
    shares = {name: similar_share(guess, points[order]) for name, guess in placed.items()}
    assert shares["labels"] < 0.5
    assert shares["distances"] > 0.9
    # The question is the last one, and all that is said in its rounds.
    last = max(e.round for e in result.transcript.envelopes if e.kind == "LossQuery")
    more = sum(e.nbytes for e in result.transcript.envelopes if last <= e.round < last + STRIDE)
    assert 0 < more < (0.01 if m == 1500 else 0.03) * result.transcript.nbytes()


def test_a_dendrogram_at_its_edges():
    equal, _ = linked(points=np.ones((20, 2), int), k=3)
    tree = equal.dendrogram
    assert tree.link_clusters().shape == tree.link_clusters("single").shape == (0, 4)
    assert {*np.concatenate(equal.cut(1))} == {0}
    with pytest.raises(secfc.InputError, match="cut=2 of 1 cluster "):
        equal.cut(2)
    result, _ = linked()
    with pytest.raises(secfc.InputError, match="method='nearest'"):
        result.cut(2, "nearest")
    for policy in (secfc.FinalLabelsOnly(), secfc.OwnLabels(sizes="hidden")):
        with pytest.raises(secfc.InputError, match="opens to nobody"):
            linked(policy)
    with pytest.raises(secfc.InputError, match="n_init=1"):
        linked(secfc.Distances(), n_init=2)


def test_a_server_may_ask_what_merging_costs_of_final_clusters_alone():
    points = np.random.default_rng(3).integers(-40, 41, (45, 3)) / 4

    def other_labels(e):
        if e.kind == "LossQuery" and e.round == last:
            swapped = e.body.labels.copy()
            swapped[np.flatnonzero(swapped != swapped[0])[0]] = swapped[0]
            return (dataclasses.replace(e, body=altered(e.body, labels=swapped)),)
        return (e,)

    way = build_algorithm(secfc.SecFC, k=6, t=1, dendrogram=True, init="random", max_iter=3)
    honest = secfc.fit(way, np.array_split(points, 5))
    last = max(e.round for e in honest.transcript.envelopes if e.kind == "LossQuery")
    with pytest.raises((FaultyServer, SuspectedParties), match="LossQuery"):
        secfc.fit(way, np.array_split(points, 5), faults=other_labels)
    with pytest.raises((FaultyServer, SuspectedParties)):  # nor where the plan has no such question
        asked_late(points)


@pytest.mark.parametrize(
    ("policy", "ell"),
    [
        (secfc.AssignmentsOnly(), 1),
        *by_night((secfc.OwnLabels(), 1), (secfc.OwnLabels(), 2), (secfc.AssignmentsOnly(), 2)),
        *by_night((secfc.OwnLabels(dealer=None), 1), (secfc.Distances(), 1)),
    ],
)
def test_at_the_last_question_a_lie_is_noticed_and_a_client_may_be_lost(policy, ell):
    points = np.array_split(np.random.default_rng(3).integers(-40, 41, (45, 3)) / 4, 6)
    way = build_algorithm(
        secfc.SecFC, k=6, t=1, ell=ell, dendrogram=True, disclosure=policy, init="random", max_iter=3
    )
    honest = secfc.fit(way, points)
    sent = honest.transcript.envelopes
    kinds = ("LossQuery", "SplitGainQuery", "DistanceQuery")
    last = max(e.round for e in sent if e.kind in kinds)
    replies = [e for e in sent if e.round >= last and e.kind in ("CodedGains", "CodedDistances")]

    def lie(e):
        if (e.kind, e.sender) != (replies[0].kind, replies[0].sender) or e.round < last:
            return (e,)
        values = e.body.values.copy()
        values[..., 0] = (values[..., 0] + 1) % 1_000_003
        return (dataclasses.replace(e, body=dataclasses.replace(e.body, values=values)),)

    with pytest.raises(SuspectedParties):
        secfc.fit(way, points, faults=lie)
    gone = replies[0].sender
    found = secfc.fit(way, points, faults=lambda e: () if e.sender == gone and e.round >= last else (e,))
    assert found.dendrogram.costs == honest.dendrogram.costs


def asked_late(points):
    """A server asks for a dendrogram that clients did not plan."""
    way = build_algorithm(secfc.SecFC, k=6, t=1, init="random", max_iter=3)
    plain = CodedSource.run_lloyd

    def and_ask(self, labels, k, max_iter):
        trace = yield from plain(self, labels, k, max_iter)
        yield from self.price_merges(trace)
        return trace

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CodedSource, "run_lloyd", and_ask)
        secfc.fit(way, np.array_split(points, 5))
