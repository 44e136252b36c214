"""Choosing k: the rule, the value, and every algorithm that takes it."""

import dataclasses
import json
import math
import sys
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import secfc
from secfc.cli import main as program
from secfc.coded.source import CodedSource
from secfc.data.inputs import build_algorithm
from secfc.errors import FaultyServer, InputError, SuspectedParties
from secfc.kmeans import bisecting
from secfc.kmeans.bisecting import Bisecting, clusters_to_split
from secfc.kmeans.elbow import CLEAR, NEAR, CostCurve, Elbow, chord_depths, elbow, largest_k, parse_k
from secfc.kmeans.loop import PlainSource, all_pairs
from secfc.privacy import Bound, Budget
from secfc.report import plot_curve
from secfc.roles.exchange import SERVER
from tests.nightly import covering, in_turns, trials
from tests.secfc.queries import altered
from tests.small import cluster, grid, on_grid

# --- the rule -------------------------------------------------------------------------------------------

falls = st.lists(st.integers(1, 10**9), min_size=3, max_size=15).map(lambda costs: sorted(costs)[::-1])


@given(falls)
def test_depths_are_those_of_floats(costs):
    if costs[0] == costs[-1]:
        assert set(chord_depths(costs)) == {0}
        return
    logs = np.log(np.array(costs, float))
    heights = (logs - logs[-1]) / (logs[0] - logs[-1])
    places = np.log(np.arange(1, len(costs) + 1)) / math.log(len(costs))
    found = np.array(chord_depths(costs), float)
    assert found == pytest.approx(1 - places - heights, abs=1e-5 / (logs[0] - logs[-1]))
    assert found.max() < 1


@given(falls, st.integers(1, 10**30), st.integers(1, 3))
def test_the_unit_of_costs_and_of_data_changes_no_choice(costs, unit, least):
    scaled = [Fraction(cost, unit) for cost in costs]
    assert (
        elbow(scaled, least) == elbow(costs, least) == CostCurve(tuple(costs), least).over(Fraction(unit)).k
    )


def test_elbows_by_hand():
    assert elbow([100, 60, 10, 9, 8, 7]) == 3
    assert elbow([100, 10, 9, 8, 7, 6]) == 2
    assert elbow([100, 10, 9, 8, 7, 6], least=3) == 3  # all of them lie below, the first the farthest
    assert elbow([5, 5, 5]) == 1
    assert elbow([5, 5, 5], least=2) == 2
    assert elbow([9, 0, 0, 0]) == 2  # two different values
    assert elbow([9, 8, 7, 0, 0, 0]) == 4
    assert elbow([0, 0, 0]) == 1


@pytest.mark.parametrize("d", [1, 2, 3, 20])
@pytest.mark.parametrize("most", [3, 12, 100])
def test_costs_that_fall_as_without_clusters_have_no_elbow(d, most):
    """On plain axes the same costs lie up to 0.87 below their chord."""
    costs = [1e6 * k ** (-2 / d) for k in range(1, most + 1)]
    assert max(map(abs, chord_depths(costs))) < 1e-9
    above = [costs[0], *(1.01 * cost for cost in costs[1:-1]), costs[-1]]
    assert [elbow(above, least) for least in (1, 2)] == [1, 2]


def test_the_last_candidate_is_none():
    costs = [100, 99, 98, 97, 1]
    assert elbow(costs) == 1
    assert elbow([*costs, 1]) == 5


def test_ties_go_to_the_lowest():
    # Depths of 2 and 4 of 8 are equal: ln 2, ln 4 and ln 8 are as 1, 2, 3.
    costs = [2**12, 2**6, 2**6, 2**2, 2**2, 2**2, 2**2, 1]
    assert float(chord_depths(costs)[1]) == pytest.approx(float(chord_depths(costs)[3]))
    assert elbow(costs) == 2


# --- the value ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ((2,), r"most=2, least=1: an elbow needs at least three candidates. Raise most to 3"),
        ((4, 3), r"most=4, least=3: .* Raise most to 5"),
        ((3, 5), r"most=3 is below least=5: exchange them, or raise most to 7"),
        ((3, 0), r"least=0: there is at least 1 cluster"),
        ((1, 1), r"most=1, least=1: an elbow needs at least three candidates"),
    ],
)
def test_values_that_leave_no_choice_are_refused(values, why):
    with pytest.raises(ValueError, match=why):
        Elbow(*values)


@pytest.mark.parametrize("start", ["splitting", "bisecting"])
def test_one_candidate_is_k_with_the_curve_of_fewer(start):
    points = np.random.default_rng(0).normal(size=(60, 2)) + 8 * np.eye(2)[np.arange(60) % 2]
    data = secfc.Federation.from_arrays(np.array_split(points, 3))
    for k in (2, 7):
        only, plain = (secfc.fit(secfc.Lloyd(way, init=start), data, seed=0) for way in (f"{k}..{k}", k))
        # Halves merge with neighbors alone where k is a number.
        assert start == "bisecting" or (only.flat == plain.flat).all()
        assert (only.k, len(only.curve.costs)) == (k, k)
        assert only.curve.words.startswith(f"k = {k} was given")
    # Control: as the largest of several it is never chosen.
    assert secfc.fit(secfc.Lloyd("5..7", init=start), data, seed=0).k < 7


@pytest.mark.parametrize(("m", "most"), [(4, 3), (9, 3), (40, 6), (399, 19), (10**6, 20)])
def test_automatic_candidates(m, most):
    assert Elbow().among(m) == Elbow(most)
    assert largest_k(Elbow().among(m)) == most


def test_too_few_points_to_choose():
    with pytest.raises(ValueError, match=r"most=3 clusters of 3 points: .* Give k as a number"):
        Elbow().among(3)
    with pytest.raises(ValueError, match=r"most=12 clusters of 12 points: .* Lower most"):
        Elbow(12).among(12)
    assert Elbow(12).among(13) == Elbow(12)


def test_words():
    assert parse_k("auto") == Elbow()
    assert parse_k(" 2..12 ") == Elbow(12, 2)
    assert parse_k("4") == 4
    assert parse_k(Elbow(5)) == Elbow(5)
    assert [str(e) for e in (Elbow(), Elbow(12, 2), Elbow(least=2))] == ["auto", "2..12", "2.."]
    for word in ("", "few", "2..", "2-12", "-3", "2...4"):
        with pytest.raises(InputError, match=r"k=.* is no number of clusters: give one"):
            parse_k(word)


# --- in words -------------------------------------------------------------------------------------------


def test_a_curve_says_how_clear_its_elbow_is():
    clear = CostCurve((100, 60, 10, 9, 8, 7), silhouettes=(0.3, 0.9, 0.5, 0.4, 0.3))
    assert clear.k == 3
    assert "k = 3 is clear: 0.253 deep" in clear.words
    assert "silhouette is largest at k = 3 (0.90)" in clear.words
    assert "No elbow among 1 to 6, so k = 1" in CostCurve((100, 90, 80, 70, 60, 1)).words
    assert "no less" in CostCurve((5, 5, 5)).words
    two = CostCurve((2**12, 2**6, 2**6, 2**2, 2**2, 2**2, 2**2, 1))
    assert two.second == 4
    assert "k = 2 is close: 0.167 deep" in two.words
    assert "k = 4 is nearly as deep with 0.167" in two.words
    assert "next comes k = 4 with" in clear.words
    assert "not clear" in CostCurve((100, 48, 32, 24, 20, 17)).words
    assert "allow more than 4" in CostCurve((100, 90, 10, 9)).words
    assert "nothing" not in repr(clear)


def test_an_elbow_with_another_nearly_as_deep_is_called_close_however_deep():
    # Both are deep; what differs is how far the next one is.
    for three, second, clarity in ((256, 5, "clear"), (128, 3, "close")):
        curve = CostCurve((4096, 512, three, 64, 48, 40, 36, 32))
        assert (curve.k, curve.second, curve.clarity) == (4, second, clarity)
        assert curve.depth > CLEAR
        near = curve.depths[second - 1] / curve.depth >= NEAR
        assert near == (clarity == "close") == ("k = 3 is nearly as deep with 0.186" in curve.words)
        assert f"k = 4 is {clarity}: 0.190 deep" in curve.words
    assert CostCurve((100, 48, 32, 24, 20, 17)).clarity == "none"


# --- merging --------------------------------------------------------------------------------------------


def fraction_cost(points, labels):
    parts = (points[labels == h] for h in set(labels.tolist()))
    return sum(
        (sum(Fraction(int(x)) ** 2 for x in column) - Fraction(int(column.sum())) ** 2 / len(part))
        for part in parts
        for column in part.T
    )


def drawn(role):
    """What a role fragment returns that waits for nobody."""
    with pytest.raises(StopIteration) as done:
        next(role)
    return done.value.value


cases = st.tuples(st.integers(4, 30), st.integers(1, 3), st.integers(0, 3), st.integers(0, 2**32))


@given(
    cases, st.integers(1, 3), st.sampled_from([Bisecting(), Bisecting(spare=0), Bisecting(1.0, 1, 0, 1.0)])
)
def test_the_curve_is_that_of_the_labels_that_merging_leads_to(case, least, start):
    m, d, reach, seed = case
    points, elbow = grid(m, d, seed, reach), Elbow(least=min(least, m - 3)).among(m)
    source = PlainSource(points)

    def chosen(one):
        return drawn(start.choose(m, one, np.random.default_rng(seed), source))

    labels, curve = chosen(elbow)
    assert len(curve.costs) == elbow.most
    assert all(a >= b for a, b in pairwise(curve.costs))
    assert labels.max() + 1 == min(curve.k, len(np.unique(labels)))
    assert curve.costs[0] == fraction_cost(points, np.zeros(m, int))
    assert curve.costs[labels.max()] == fraction_cost(points, labels)
    # What was chosen is what a start for k alone would be merged to, from as many clusters.
    clusters_, own = clusters_to_split(m, elbow.most, start.spare), np.random.default_rng(seed)
    grown, near = drawn(start._grow(m, elbow.least, clusters_, own, source))
    near.near |= set(map(tuple, all_pairs(grown.max() + 1).tolist()))
    assert drawn(start._merge(grown, curve.k, near, source)).tolist() == labels.tolist()
    # Silhouettes are those of distances to means.
    for k, silhouette in enumerate(curve.silhouettes, 2):
        merged = drawn(start._merge(grown, k, near, source))
        means = np.array([points[merged == h].mean(axis=0) for h in range(k)])
        gaps = np.sqrt(((points[:, None] - means) ** 2).sum(axis=2))
        own = gaps[np.arange(m), merged]
        gaps[np.arange(m), merged] = np.inf
        far = gaps.min(axis=1)
        wider = np.maximum(own, far)
        expected = ((far - own) / np.where(wider > 1e-6, wider, np.inf)).mean()
        assert silhouette == pytest.approx(expected, abs=1e-6)


def test_points_that_are_equal_are_one_cluster():
    points = np.full((30, 2), 7.0)
    found = secfc.fit(secfc.Lloyd("auto", init="bisecting"), secfc.Federation.from_arrays([points]))
    assert (found.k, set(found.flat.tolist())) == (1, {0})
    assert set(found.curve.costs) == {0}
    assert "as if all points were equal" in found.curve.words


def test_two_different_values_are_two_clusters():
    points = np.repeat([[0.0], [1.0]], [20, 5], axis=0)
    found = secfc.fit(secfc.Lloyd("auto", init="bisecting"), secfc.Federation.from_arrays([points]))
    assert (found.k, found.cost) == (2, 0)
    assert found.curve.costs[1:] == (0,) * 4
    least = secfc.fit(secfc.Lloyd("4..6", init="bisecting"), secfc.Federation.from_arrays([points]))
    assert least.k == 2  # there are no more


# --- as a protocol --------------------------------------------------------------------------------------


def blobs(m=60, k=3, n=5):
    rng = np.random.default_rng(k)
    points = 8 * rng.normal(size=(k, 2))[np.arange(m) % k] + rng.normal(size=(m, 2))
    return secfc.Federation.from_arrays(np.array_split(points.round(1), n))


def choose_k(data, policy, **more):
    return cluster(data, policy, **{"k": "auto", "coarse": "allow", **more})


def twin(secure, data, k="auto", seed=0, **more):
    way = build_algorithm(
        secfc.Lloyd, k=k, init=Bisecting(), scale=secure.plan.quantizer.scale, coarse="allow", **more
    )  # fmt: skip
    return secfc.fit(way, data, seed=seed)


def same(a, b):
    return a.k == b.k and len(a.history) == len(b.history) and all(map(np.array_equal, a.history, b.history))


POLICIES = {
    "distances": secfc.Distances(),
    "dealt distances": secfc.Distances(dealt=True),
    "dealt by the server": secfc.AssignmentsOnly(),
    "dealt by a client": secfc.AssignmentsOnly(dealer="client-4"),
    "undealt": secfc.AssignmentsOnly(dealer=None),
}


@pytest.mark.parametrize(("policy", "n_init"), in_turns([*POLICIES], [1, 2]))
def test_labels_and_curve_equal_those_of_plaintext(policy, n_init):
    for data in (blobs(), on_grid(seed=1)):
        secure = choose_k(data, POLICIES[policy], n_init=n_init)
        plain = twin(secure, data, n_init=n_init)
        assert same(secure, plain)
        assert secure.curve.costs == plain.curve.costs
        assert secure.curve.k == plain.curve.k == secure.k
        assert (secure.curve.silhouettes == ()) == ("distances" not in policy)
        assert secure.plan.k == secure.k


@pytest.mark.parametrize(("centers", "n_init"), covering(["exact", "rounded"], [1, 2]))
def test_a_single_cluster_that_is_chosen_of_shared_labels_is_no_fault_of_the_server(centers, n_init):
    rng = np.random.default_rng(0)
    data = secfc.Federation.from_arrays([rng.normal(size=(14, 3)) for _ in range(5)])  # one cloud
    way = secfc.SecFC(
        "1..5",
        threshold=1,
        disclosure=secfc.OwnLabels(),
        n_init=n_init,
        quantization=secfc.Quantization(centers=centers),
    )
    result = secfc.fit(way, data, bound=6.0, seed=2)
    assert result.k == 1
    assert all((labels == 0).all() for labels in result.labels)


@given(cases, st.integers(1, 2), st.sampled_from(["distances", "dealt by the server"]))
@trials(5, nightly=100)
def test_small_runs_are_exact_with_ties_and_duplicates(case, n_init, policy):
    m, d, reach, seed = case
    data = on_grid(5, max(m, 5), d, seed)
    if not reach:
        data = secfc.Federation.from_arrays(np.array_split(np.ones((max(m, 5), d)), 5))
    secure = choose_k(data, POLICIES[policy], n_init=n_init, seed=seed % 1000)
    plain = twin(secure, data, n_init=n_init, seed=seed % 1000)
    assert same(secure, plain)
    assert secure.curve == dataclasses.replace(plain.curve, silhouettes=secure.curve.silhouettes)


def test_no_cost_is_opened_but_those_of_the_clusters_that_are_merged():
    secure = choose_k(blobs(), secfc.AssignmentsOnly(), keep_bodies=True)
    kinds = [e.kind for e in secure.transcript.envelopes if e.recipient == "client-0" and e.sender == SERVER]
    assert kinds.count("CostQuery") == kinds.count("LossQuery") == 1
    given_k = choose_k(blobs(), secfc.AssignmentsOnly(), k=3, keep_bodies=True)
    shown = {e.kind for e in given_k.transcript.envelopes if e.recipient == SERVER}
    assert {e.kind for e in secure.transcript.envelopes if e.recipient == SERVER} - shown == {"CodedCosts"}
    assert any("and so what fewer clusters cost" in fact for fact in secure.learned)


@pytest.mark.parametrize("kind", ["CodedCosts", "CodedGains"])
def test_replies_that_are_lost_change_no_choice(kind):
    def faults(e):
        return () if e.sender == "client-1" and e.kind == kind else (e,)

    data = blobs(n=6)
    whole, lossy = (choose_k(data, secfc.AssignmentsOnly(), **more) for more in ({}, {"faults": faults}))
    assert same(whole, lossy)
    assert whole.curve == lossy.curve


def other_labels(e):
    labels = e.body.labels.copy()
    labels[0] = (labels[0] + 1) % e.body.k
    return dataclasses.replace(e, body=altered(e.body, labels=labels))


@pytest.mark.parametrize("kind", ["CostQuery", "LossQuery"])
def test_costs_of_other_clusters_than_were_opened_are_refused(kind):
    def lie(e):
        return (other_labels(e),) if e.kind == kind else (e,)

    with pytest.raises((FaultyServer, SuspectedParties), match=rf"asked {kind}\(k=\d+\) of some labels"):
        choose_k(blobs(), secfc.AssignmentsOnly(), faults=lie)


@pytest.mark.parametrize("policy", ["distances", "dealt by the server"])
def test_labels_that_no_merges_give_are_refused(policy, monkeypatch):
    honest = CodedSource.weigh_merges

    def lying(self, labels, c, choose):
        told = yield from honest(self, labels, c, choose)
        return np.roll(told, 1)

    monkeypatch.setattr(CodedSource, "weigh_merges", lying)
    monkeypatch.setattr(bisecting, "_whole", whole_for_clients(bisecting._whole))
    with pytest.raises((FaultyServer, SuspectedParties), match="where the plan has"):
        choose_k(blobs(), POLICIES[policy])


def whole_for_clients(honest):
    """The check that only honest parties make: a lying server goes on with what it said."""

    def whole(labels, told, least, most):
        caller = sys._getframe(1).f_locals
        return told if isinstance(caller["source"], CodedSource) else honest(labels, told, least, most)

    return whole


def test_another_k_at_the_end_than_was_chosen_is_refused():
    def lie(e):
        if e.kind == "FinalResult":
            return (dataclasses.replace(e, body=dataclasses.replace(e.body, k=e.body.k + 1)),)
        return (e,)

    with pytest.raises(FaultyServer, match="ended with k=4 clusters, where k=3 was chosen"):
        choose_k(blobs(), secfc.AssignmentsOnly(), faults=lie)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"init": "random"}, r"k=auto with init=RandomLabels\(\): .* Use init=Bisecting\(\), or give k"),
        ({"k": "2..60"}, r"most=60 clusters of 60 points: .* Lower most"),
        (
            {"policy": secfc.FinalLabelsOnly()},
            r"k=auto with .*FinalLabelsOnly.*: .* opens to nobody. Give k as",
        ),
        (
            {"policy": secfc.NoiseInShares(Budget(1.0, 1e-6), Bound.given(4.0))},
            r"k=auto with disclosure=NoiseInShares.*: .* Give k as a number",
        ),
        ({"data": on_grid(m=3, n=3)}, r"most=3 clusters of 3 points: .* Give k as a number"),
    ],
)
def test_runs_that_cannot_choose_are_refused_before_anything_is_shared(more, why):
    given_ = {"data": blobs(), "policy": secfc.AssignmentsOnly(), **more}
    with pytest.raises(ValueError, match=why):
        choose_k(**given_)


def test_plaintext_refuses_the_same():
    with pytest.raises(ValueError, match=r"k=2..9 with init=RandomLabels\(\)"):
        secfc.fit(secfc.Lloyd("2..9", init="random"), blobs())
    with pytest.raises(ValueError, match="most=3 clusters of 3 points"):
        secfc.fit(secfc.Lloyd("auto", init="bisecting"), on_grid(m=3, n=3))


# --- k-FED ----------------------------------------------------------------------------------------------


def islands(k=4, n=12):
    """Clients of two clusters each."""
    rng = np.random.default_rng(1)
    means = 30 * np.array([[0, 0], [0, 1], [1, 0], [1, 1]])[:k]
    own = [rng.choice(k, 2, replace=False) for _ in range(n)]
    return secfc.Federation.from_arrays(
        [means[np.repeat(pair, 30)] + rng.normal(size=(60, 2)) for pair in own]
    )


def test_k_fed_chooses_by_the_centers_that_it_has():
    result = secfc.fit(secfc.KFed("2..9", k_local=2), islands(), seed=0)
    given_k = secfc.fit(secfc.KFed(4, k_local=2), islands(), seed=0)
    assert result.k == result.curve.k == 4
    assert np.array_equal(result.flat, given_k.flat)
    assert result.curve.depth > 0.2
    assert given_k.curve is None


def test_k_fed_chooses_no_less_than_any_client_has():
    result = secfc.fit(secfc.KFed("auto", k_local=3), islands(k=2), seed=0)
    assert result.curve.least == result.k == 3
    with pytest.raises(ValueError, match="most=9 clusters of 8 points or local centers"):
        secfc.fit(secfc.KFed("2..9", k_local=2), islands(n=4))
    alike = secfc.Federation.from_arrays([np.ones((9, 1)) * (j % 2) for j in range(6)])
    assert secfc.fit(secfc.KFed("1..5", k_local=1), alike).k == 2


# --- in the shell ---------------------------------------------------------------------------------------


def shell(folder, *arguments):
    return CliRunner().invoke(program, ["run", *map(str, arguments), "--force"], catch_exceptions=False)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for party in blobs(k=3, m=90).parties:
        np.savetxt(folder / f"{party.name}.csv", party.points, delimiter=",", header="x,y", comments="")
    return folder


@pytest.mark.parametrize("algorithm", ["secfc", "lloyd", "k-fed"])
def test_the_shell_chooses_k_and_draws_why(algorithm, files):
    out = ["--labels", files / "labels.csv", "--report", files / "report.json", "--plot", files / "k.png"]
    found = shell(files, *sorted(files.glob("client*.csv")), "-k", "2..8", "--algorithm", algorithm, *out)
    assert found.exit_code == 0, found.output
    report = json.loads((files / "report.json").read_text())
    assert report["parameters"]["k"] == report["choice"]["k"]
    # Two local centers of a client that has all three clusters mix them.
    assert report["choice"]["k"] == (2 if algorithm == "k-fed" else 3)
    assert len(report["choice"]["costs"]) == report["choice"]["most"] == 8
    assert (report["choice"]["silhouettes"] is None) == (algorithm != "lloyd")
    assert report["choice"]["words"].startswith(f"The elbow at k = {report['choice']['k']}")
    assert " (chosen among " in found.output
    assert (files / "k.png").read_bytes().startswith(b"\x89PNG")
    assert report["verified"] is (True if algorithm == "secfc" else None)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["-k", "8..2"], "most=2 is below least=8: exchange them"),
        (["-k", "many"], "'many' is no number of clusters"),
        (["-k", "0"], "not in the range"),
        (["-k", "auto", "--init", "random"], "Use --init bisecting, or give k as a number"),
        (["-k", "auto", "--disclosure", "final-labels"], "or use --disclosure assignments"),
        (["-k", "2..90"], "to choose k there must be more of them than clusters. Lower most"),
        (["-k", "3", "--plot", "k.png"], "--plot draws the costs by which k is chosen"),
        (["-k", "auto", "--algorithm", "overlap-1"], "use `secfc overlap`"),
    ],
)
def test_the_shell_says_what_is_wrong_and_how_to_mend_it(arguments, why, files):
    found = shell(files, *sorted(files.glob("client*.csv")), *arguments)
    assert found.exit_code == 2
    assert why in " ".join(found.output.split())


@pytest.mark.parametrize("costs", [(5, 5, 5), (0, 0, 0), (9, 2, 0, 0), (1e-9, 1e-10, 9e-11)])
def test_any_curve_is_drawn(costs, tmp_path):
    plot_curve(CostCurve(costs)).savefig(tmp_path / "curve.png")
