"""A start by sizes and gains alone: exact on labels that nobody knows, and nothing else is opened."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

import secfc
from field.compare.bitslice import unpack_bits
from secfc.coded.membership import Private
from secfc.coded.queries import Query
from secfc.data.inputs import build_algorithm
from secfc.disclosure import OwnLabels
from secfc.disclosure.owner_labels.client import OwnerLabelsClient
from secfc.errors import FaultyServer, SuspectedParties
from secfc.kmeans import loop
from secfc.kmeans.bisecting import clusters_to_split
from secfc.kmeans.loop import PlainSource, lloyd
from secfc.kmeans.splitting import Splitting, SplitTree
from secfc.metrics import cost
from secfc.roles.exchange import SERVER, run_alone
from tests.nightly import by_night, every, trials
from tests.secfc.coded.test_membership import overlapping
from tests.secfc.queries import altered
from tests.small import federation


def both(data, *, seed=0, bound=None, faults=None, dealer=SERVER, **values):
    """The same run on labels that nobody knows, and on plaintext."""
    way = build_algorithm(
        secfc.SecFC, disclosure=OwnLabels(dealer), coarse="allow", **{"init": Splitting(), "t": 1, **values}
    )
    more = {} if faults is None else {"faults": faults}
    result = secfc.fit(way, data, seed=seed, bound=bound, keep_bodies=True, **more)
    same = {name: values[name] for name in ("k", "n_init", "max_iter", "init") if name in values}
    plain = build_algorithm(
        secfc.Lloyd,
        disclosure=OwnLabels(),
        coarse="allow",
        scale=result.plan.quantizer.scale,
        **{"init": Splitting(), **same},
    )
    return result, secfc.fit(plain, data, seed=seed, bound=bound)


def assert_same(result, plain, told=slice(None)):
    for ours, theirs in zip(result.labels[told], plain.labels[told], strict=True):
        assert (ours == theirs).all()
    assert (result.k, result.n_iter, result.converged) == (plain.k, plain.n_iter, plain.converged)
    if result.sizes:
        sizes = [np.bincount(labels, minlength=plain.k).tolist() for labels in plain.history]
        assert [s.tolist() for s in result.sizes] == sizes
    assert (result.curve is None) == (plain.curve is None)
    assert result.curve is None or result.curve.costs == plain.curve.costs


@trials(4)
@given(
    st.integers(1, 2), st.integers(1, 3), st.integers(0, 1), st.integers(1, 40), st.integers(1, 4),
    st.integers(1, 9), st.integers(0, 2**16), st.booleans(), st.integers(0, 2), st.integers(1, 2),
    st.sampled_from(["cut", "any"]),
)  # fmt: skip
def test_owners_have_the_labels_of_plaintext(t, ell, spare, m, d, k, seed, whole, client, n_init, merge):
    # Whole numbers on a small grid make ties, duplicates, and splits that gain nothing.
    n = 2 * (ell + t - 1) + 1 + spare + client
    m = max(m, n, k)
    data = federation(n, m, d, seed, whole)
    dealer = {0: SERVER, 1: "client-0", 2: None}[client if ell == 1 else client % 2]
    init = Splitting(merge=merge)
    result, plain = both(
        data, k=k, t=t, ell=ell, seed=seed, max_iter=2, n_init=n_init, dealer=dealer, init=init
    )
    assert_same(result, plain)
    assert n_init == 1 or result.cost == plain.cost


def test_labels_are_exact_at_every_step(monkeypatch):
    seen, wanted, state = {}, [], OwnerLabelsClient.state

    def spy(self, match):
        found = state(self, match)
        if found is not None:
            groups, step = match.question.at.groups, match.question.at.step
            held = seen.setdefault(step, {})
            held[self.name] = (self.run(match.question).states[step], groups)
        return found

    def record(function):
        def recorded(*args):
            out = function(*args)
            wanted.append(out)
            return out

        return recorded

    monkeypatch.setattr(OwnerLabelsClient, "state", spy)
    monkeypatch.setattr(loop, "split_in_halves", record(loop.split_in_halves))
    monkeypatch.setattr(loop, "nearest_step", record(loop.nearest_step))
    result, plain = both(federation(5, 150, 3, 2), k=9, max_iter=20)
    assert_same(result, plain)
    wanted = [np.zeros(150, int), *wanted, *plain.history[1:]]
    assert sorted(seen) == list(range(len(wanted)))[: len(seen)]
    assert len(wanted) - len(seen) in (0, 1)
    assert len(wanted) > 12
    for step, held in seen.items():
        told = [labels for labels, _ in held.values()]
        parts = {number: shared for labels in told for number, shared in labels.parts.items()}
        alive = told[0].clusters
        bits = unpack_bits(np.bitwise_xor.reduce([part.bits for part in parts.values()]), 150)
        assert (bits == (wanted[step] == alive[:, None])).all()


@pytest.mark.parametrize("words", every(2, ["2..7", "auto"]))
def test_k_is_chosen_by_the_same_costs(words):
    rng = np.random.default_rng(3)
    centers = rng.normal(size=(4, 3)) * 12
    points = centers[rng.integers(0, 4, 120)] + rng.normal(size=(120, 3))
    data = secfc.Federation.from_arrays(np.array_split(points, 5))
    result, plain = both(data, k=words, n_init=2)
    assert_same(result, plain)
    assert result.k == 4
    assert result.cost == plain.cost
    assert all(len(centers) == 4 for centers in [s for s in result.sizes])
    again = result.predict(data)
    assert all((a == b).all() for a, b in zip(result.labels, again, strict=True))
    # The lowest costs are those of clusterings: never below what the chosen one costs in the end.
    assert float(result.curve.costs[3]) >= result.cost - 1e-9


def test_points_that_are_all_equal_stay_in_one_cluster():
    data = secfc.Federation.from_arrays([np.ones((4, 2))] * 4)
    for k in (2, "1..4"):
        result, plain = both(data, k=k, n_init=2)
        assert_same(result, plain)
        assert result.cost == 0


# --- the start itself ------------------------------------------------------------------------------


def test_a_cut_is_across_the_mean_and_ties_go_to_the_first_half():
    points = np.array([[4, 0], [0, 0], [-4, 0], [0, 0]])
    halves = loop.split_in_halves(PlainSource(points), np.zeros(4, np.int32), np.array([[1, -1]], np.int8))
    assert halves.tolist() == [0, 0, 1, 0]
    # Two clusters, each by its own direction.
    points = np.concatenate([points, points + 100])
    labels = np.repeat(np.arange(2, dtype=np.int32), 4)
    halves = loop.split_in_halves(PlainSource(points), labels, np.array([[1, 1], [-1, 1]], np.int8))
    assert halves.tolist() == [0, 0, 1, 0, 3, 2, 2, 2]


@given(st.integers(2, 200), st.integers(1, 12), st.integers(0, 2**16), st.booleans())
def test_it_leads_to_k_clusters_or_to_as_many_as_there_are(m, k, seed, whole):
    k = min(k, m)
    points = (federation(1, m, 2, seed, whole).stacked() * 50).astype(np.int64)
    labels = run_alone(Splitting().draw_labels(m, k, np.random.default_rng(seed), PlainSource(points)))
    found = np.unique(labels)
    assert found.tolist() == list(range(len(found)))
    # Points that coincide are never cut apart.
    where = np.unique(points, axis=0, return_inverse=True)[1].reshape(-1)
    assert all(len(np.unique(labels[where == i])) == 1 for i in range(int(where.max()) + 1))
    assert len(found) <= k
    if len(np.unique(points, axis=0)) >= 4 * k:
        assert len(found) == k
    assert clusters_to_split(m, k, 0.25) >= len(found)


def test_a_tree_prunes_what_gains_least_and_keeps_unions_whole():
    tree = SplitTree(((0, 0), (1, 0), (0, 1, 0), (1, 1), (0, 1, 1)))
    assert tree.nodes == ((), (0,), (1,), (0, 1))
    assert tree.sides.tolist() == [[1, 2, 1, 2, 1], [1, 0, 2, 0, 2], [0, 1, 0, 2, 0], [0, 0, 1, 0, 2]]
    gains = dict(zip(tree.nodes, map(Fraction, (1, 2, 9, 3)), strict=True))
    # Not the root, which gains least, before what is below it.
    assert [node for node, _ in tree.pruning_order(gains)] == [(0, 1), (0,), (1,), ()]
    assert tree.prune_groups(gains, 3).tolist() == [0, 1, 0, 2, 0]
    assert tree.prune_groups(gains, 9).tolist() == [0, 1, 2, 3, 4]
    # Somebody's word is taken for unions that were one, of the right number, and for nothing else.
    assert tree.trusted_groups(np.array([5, 1, 5, 2, 5]), 3, 3).tolist() == [0, 1, 0, 2, 0]
    for told in ([0, 0, 1, 2, 1], [0, 1, 0, 2, 3], [0, 0, 0, 0, 0]):
        assert tree.trusted_groups(np.array(told), 3, 3).max() == 2


def test_its_costs_are_those_of_the_bisecting_start():
    rng, ratios = np.random.default_rng(1), []
    for k, d in ((4, 5), (8, 3), (12, 6)):
        points = (rng.normal(size=(k, d)) * 6)[rng.integers(0, k, 400)] + rng.normal(size=(400, d))
        data = secfc.Federation.from_arrays([points])
        for seed in range(3):
            found = [
                cost(points, secfc.fit(secfc.Lloyd(k, init=start), data, seed=seed).flat, k)
                for start in (Splitting(), secfc.Bisecting())
            ]
            ratios.append(found[0] / found[1])
    assert np.exp(np.log(ratios).mean()) < 1.01


def test_it_is_for_labels_that_stay_secret():
    with pytest.raises(ValueError, match=r"Bisecting\(\)"):
        secfc.fit(secfc.SecFC(k=3, threshold=1, init=Splitting()), federation(4, 30, 2))


# --- what is opened --------------------------------------------------------------------------------


def test_the_server_hears_sizes_and_what_splits_gain():
    data = federation(5, 80, 2)
    result, _ = both(data, k=4)
    heard = {e.kind for e in result.transcript.envelopes if e.recipient == SERVER and e.round >= 7 << 32}
    assert heard == {"SizeShare", "MissingMessages", "CodedGains", "CheckDigest"}
    asked = [
        e.body for e in result.transcript.envelopes if e.recipient == "client-4" and isinstance(e.body, Query)
    ]
    assert {q.kind for q in asked} == {
        "SplitQuery",
        "LloydStepQuery",
        "SplitGainQuery",
        "DeliverLabels",
    }
    # The first labels, by which questions name a run, say nothing.
    assert not any(q.labels.any() for q in asked)
    # Gains alone of what was cut from one another: of both halves of a cluster, in the end of inner splits.
    pairs = [q.detail for q in asked if q.kind == "SplitGainQuery"]
    halves = [np.flatnonzero(row) for sides in pairs[:-1] for row in sides]
    assert all(len(own) == 2 and own[0] % 2 == 0 and own[1] == own[0] + 1 for own in halves)
    assert len(pairs[-1]) == pairs[-1].shape[1] - 1


def opened(result):
    """All that parties hear after rows are shared, but for own labels and what is uniform but for sums."""
    gains = {}
    for e in result.transcript.envelopes:
        if e.kind == "CodedGains":
            gains.setdefault(e.round, {})[result.plan.clients.index(e.sender)] = e.body.values
    basis, code = result.plan.code.basis, result.plan.code
    numbers = [basis.lift(code.decode(values, 2)).tolist() for _, values in sorted(gains.items())]
    asked = [
        (q.at.sizes.tolist(), q.at.groups.tolist())
        for e in result.transcript.envelopes
        if e.recipient == "client-4" and isinstance(q := e.body, Query)
    ]
    return numbers, asked, [s.tolist() for s in result.sizes]


def test_what_is_opened_tells_no_row_from_another():
    """Other owners and another order open the same numbers; from random labels they do not."""
    points = federation(1, 60, 2).stacked()
    others = points[np.random.default_rng(1).permutation(60)]
    seen = {}
    for start in (Splitting(), secfc.RandomLabels()):
        runs = [
            both(secfc.Federation.from_arrays(np.array_split(rows, 5)), k=4, init=start, bound=4.0)[0]
            for rows in (points, others)
        ]
        seen[start] = [opened(result) for result in runs]
        assert len(seen[start][0][1]) > 4
    assert seen[Splitting()][0] == seen[Splitting()][1]
    assert len(seen[Splitting()][0][0]) > 2
    assert seen[secfc.RandomLabels()][0] != seen[secfc.RandomLabels()][1]


def test_gains_leave_clients_in_shares_that_are_uniform():
    firsts = []
    for seed in range(6):
        result, _ = both(federation(5, 40, 2, seed % 2), k=3, seed=seed)
        p = result.plan.code.basis.primes[0]
        shares = [e.body.values[0] for e in result.transcript.envelopes if e.kind == "CodedGains"]
        firsts.append(np.concatenate(shares).astype(np.int64) * 8 // p)
    counts = np.bincount(np.concatenate(firsts), minlength=8).astype(float)
    assert counts.sum() > 100
    assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < chi2.isf(1e-9, 7)


def test_hidden_owners_have_the_labels_of_plaintext():
    data, _ = overlapping(4, 30, 14, seed=3)
    hidden = Private(bound=64, sized=False)
    way = secfc.SecFC(
        k=4,
        threshold=1,
        disclosure=OwnLabels(),
        membership=hidden,
        quantization=secfc.Quantization(coarse="allow"),
    )
    result = secfc.fit(way, data, seed=5)
    points = np.full((result.plan.m, data.d), np.nan)
    for rows, party in zip(result.rows, data.parties, strict=True):
        points[rows] = party.points
    source = PlainSource(result.plan.quantizer(points))
    start = run_alone(
        Splitting().draw_labels(len(points), 4, np.random.default_rng(result.plan.seed), source)
    )
    trace = run_alone(lloyd(start, 4, 300, source))
    assert result.n_iter == trace.n_iter
    for labels, rows in zip(result.labels, result.rows, strict=True):
        assert (labels == trace.labels[rows]).all()


@pytest.mark.parametrize(
    ("kind", "turn"),
    [
        ("SplitQuery", 0),
        *by_night(("ClusterCostQuery", 0), ("LloydStepQuery", 3), ("SplitGainQuery", 2)),
        *by_night(("SplitQuery", 2), ("SplitGainQuery", 0), ("ClusterCostQuery", 1)),
    ],
)
def test_members_may_go_while_a_start_is_drawn(kind, turn):
    """Whoever takes a member's place takes all steps again, and no step leads elsewhere."""
    data, told = federation(6, 40, 3), []

    def faults(e):
        if e.kind == kind and e.recipient == "client-0":
            told.append(e)
        gone = len(told) > turn and "client-0" in (e.sender, e.recipient)
        return () if gone else (e,)

    result, plain = both(data, k="2..4", n_init=2, faults=faults)
    assert len(told) > turn
    assert_same(result, plain, slice(1, None))


@pytest.mark.parametrize("kind", every(4, ["SizeShare", "LloydStepQuery", "SplitQuery", "SplitGainQuery"]))
@pytest.mark.parametrize("nth", [0, *by_night(2, 5)])
def test_a_client_that_misses_a_message_of_a_start_blames_nobody(kind, nth):
    data, seen = federation(5, 60, 2), []

    def faults(e):
        if e.kind == kind and e.recipient == "client-4":
            seen.append(e)
            return () if len(seen) == nth + 1 else (e,)
        return (e,)

    result, plain = both(data, k=5, faults=faults)
    assert len(seen) > min(nth, 2)
    assert_same(result, plain, slice(0, 4))


def changed(body, change):
    """The question with something else in it than what is due, or nothing if it has no such thing."""
    name = body.kind
    if change == "directions" and name == "SplitQuery":
        return altered(body, detail=-body.detail)
    if change == "sides" and name == "SplitGainQuery":
        return altered(body, detail=np.where(body.detail, 3 - body.detail, 0).astype(np.int8))
    if change == "groups" and name == "SplitQuery" and body.k > 1:
        return altered(body, groups=np.roll(body.at.groups, 1))
    if change == "sizes" and name == "LloydStepQuery" and body.at.step > 1:
        return altered(body, sizes=np.roll(body.at.sizes, 1))
    if change == "step" and name == "LloydStepQuery" and body.at.step > 1:
        return altered(body, step=body.at.step + 1)
    return None


@pytest.mark.parametrize("change", ["directions", "sides", "groups", "sizes", "step"])
def test_a_server_that_asks_for_more_is_refused(change):
    asked = []

    def faults(e):
        told = changed(e.body, change) if e.recipient == "client-2" and not asked else None
        if told is None:
            return (e,)
        asked.append(told)
        return (type(e)(e.round, e.sender, e.recipient, e.kind, e.nbytes, e.phase, told),)

    with pytest.raises((FaultyServer, SuspectedParties), match=r"asked|told"):
        both(federation(5, 60, 2), k=5, faults=faults)
    assert asked
