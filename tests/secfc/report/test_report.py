"""Reports: comparisons that can fail, sums that add up, strict JSON, text that fits."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

import psu
import secfc
from secfc import metrics, report
from secfc.algorithm import Capabilities, Clustering, PartyOutcome, join_outcomes
from secfc.attacks.judging import GuessJudgement
from secfc.coded.queries import Operation
from secfc.data.inputs import with_parameters
from secfc.disclosure.checked import messages
from secfc.errors import PrivacyError
from secfc.privacy import Bound, Budget
from secfc.privacy.events import Pure
from secfc.privacy.ledger import EXACT, Ledger
from secfc.report import Comparison, Report, compare_labelings
from secfc.report.costs import CONTENTS
from secfc.report.data import Origin
from secfc.report.leakage import ServerFinding
from secfc.roles.exchange import SERVER
from secfc.roles.messages import Message

SHOWN = secfc.Distances()


@pytest.fixture(scope="module")
def labeled() -> secfc.Federation:
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 3, 90)
    points = np.array([[0, 0, 0], [9, 0, 0], [0, 9, 9]])[truth] + rng.normal(size=(90, 3))
    return secfc.Federation.from_labelled(points, truth, n=5)


WAY = secfc.SecFC(
    3, threshold=secfc.Threshold(1, 2), init=secfc.RandomLabels(), n_init=2, disclosure=SHOWN
)  # of many steps


@pytest.fixture(scope="module")
def fitted(labeled: secfc.Federation) -> Clustering:
    return secfc.fit(WAY, labeled, seed=4)


def made(labeled: secfc.Federation, result: Clustering, algorithm: Any = WAY, **changes: Any) -> Report:
    fields: dict[str, Any] = {
        "source": "a test",
        "parameters": {"seed": 4},
        "notes": ("a note",),
        "comparison": Comparison(result.n_iter),
        "wall": {"fit": 1.5},
    }
    return report.make_report(result, federation=labeled, algorithm=algorithm, **fields | changes)


# --- comparing -------------------------------------------------------------------------------------


def relabelled(result: Clustering, step: int, points: int) -> Clustering:
    """The same run with other labels of some points after one step."""
    history = [labels.copy() for labels in result.history]
    history[step][:points] = (history[step][:points] + 1) % result.k
    return replace(result, history=tuple(history))


def test_a_run_equals_its_twin_and_itself(labeled: secfc.Federation, fitted: Clustering) -> None:
    plain = secfc.fit(secfc.Lloyd(3, init=secfc.RandomLabels(), n_init=2), labeled, seed=4)
    assert compare_labelings(fitted, plain) == compare_labelings(fitted, fitted) == Comparison(fitted.n_iter)
    assert compare_labelings(fitted, plain).equal


def test_the_first_step_that_differs_is_found(fitted: Clustering) -> None:
    assert fitted.n_iter >= 2
    for step in range(fitted.n_iter + 1):
        for points in (1, 7):
            expected = Comparison(fitted.n_iter, step, points)
            assert compare_labelings(fitted, relabelled(fitted, step, points)) == expected
            assert not expected.equal


def test_results_are_compared_and_not_only_the_history(fitted: Clustering) -> None:
    labels = [part.copy() for part in fitted.labels]
    labels[2][3] = (labels[2][3] + 1) % 3
    other = replace(fitted, labels=labels)
    assert compare_labelings(fitted, other) == Comparison(fitted.n_iter, fitted.n_iter, 1)


def test_a_hidden_history_is_compared_at_its_ends(fitted: Clustering) -> None:
    steps = fitted.n_iter
    hidden = replace(fitted, history=(fitted.history[0], fitted.history[-1]))
    assert steps > 1
    assert compare_labelings(hidden, fitted) == Comparison(steps, ends=True)
    assert compare_labelings(hidden, relabelled(fitted, 1, 3)) == Comparison(steps, ends=True)
    assert compare_labelings(hidden, relabelled(fitted, 0, 3)) == Comparison(steps, 0, 3, ends=True)
    labels = [part.copy() for part in fitted.labels]
    labels[2][3] = (labels[2][3] + 1) % 3
    assert compare_labelings(hidden, replace(fitted, labels=labels)) == Comparison(steps, steps, 1, ends=True)


def test_a_run_that_stops_earlier_or_later_differs(fitted: Clustering) -> None:
    longer = replace(fitted, history=(*fitted.history, fitted.history[-1]))
    assert not compare_labelings(fitted, longer).equal
    assert not compare_labelings(longer, fitted).equal
    assert compare_labelings(fitted, longer).points == 0


def test_without_a_history_nothing_is_claimed(labeled: secfc.Federation) -> None:
    one_shot = secfc.fit(secfc.KFed(3, k_local=2), labeled)
    with pytest.raises(ValueError, match="no history"):
        compare_labelings(one_shot, one_shot)


# --- times and traffic -----------------------------------------------------------------------------


def test_times_are_means_and_maxima_over_clients(fitted: Clustering) -> None:
    spent = {
        "a": {"share": 1.0, "distances": 2.0},
        "b": {"share": 3.0, "distances": 6.0, "centers": 1.0},
        SERVER: {"assign": 0.5},
    }
    found = report.phase_seconds(replace(fitted, seconds=spent))
    assert found == {
        "client_mean": {"share": 2.0, "distances": 4.0, "centers": 0.5},
        "client_max": {"share": 3.0, "distances": 6.0, "centers": 1.0},
        "server": {"assign": 0.5},
    }


def test_steps_count_all_restarts(labeled: secfc.Federation, fitted: Clustering) -> None:
    once = secfc.fit(replace(WAY, n_init=1), labeled, seed=4)
    assert report.count_rounds(once) == once.n_iter
    started = secfc.fit(replace(WAY, init=secfc.Bisecting(), n_init=1), labeled, seed=4)
    assert report.count_rounds(started) > started.n_iter + 2  # the start asks as well
    assert report.count_rounds(fitted) > fitted.n_iter
    stopped = secfc.fit(replace(WAY, n_init=1, max_iter=1), labeled, seed=4)
    assert report.count_rounds(stopped) == 2  # one iteration, and the cost of its result


def test_time_a_step_is_time_by_steps(fitted: Clustering) -> None:
    spent = {"a": {"distances": 2.0, "share": 1.0}, SERVER: {"assign": 1.0, "a new phase": 0.001}}
    result = replace(fitted, seconds=spent)
    steps = report.count_rounds(result)
    shown = _rows(report.time_table(report.phase_seconds(result), steps))
    assert shown["distances on shares"] == ["each client", "2,000", "2,000", f"{2000 / steps:,.0f}"]
    assert shown["share the points"][-1] == ""
    assert shown["decode and assign"] == ["server", "1,000", "", f"{1000 / steps:,.0f}"]
    assert shown["a new phase"][1] == "1.00"


def _rows(table: Any) -> dict[str, list[str]]:
    """Cells of a table by the cell of its second column."""
    return {row[1]: [row[0], *row[2:]] for row in table.rows}


def test_traffic_adds_up_to_the_transcript(labeled: secfc.Federation, fitted: Clustering) -> None:
    transcript = report.as_json(made(labeled, fitted))["transcript"]
    kinds = [entry for kinds in transcript["by_direction"].values() for entry in kinds.values()]
    assert sum(entry["bytes"] for entry in kinds) == transcript["bytes"] == fitted.transcript.nbytes()
    assert sum(entry["messages"] for entry in kinds) == transcript["messages"] == len(fitted.transcript)
    assert len(report.traffic_table(fitted.transcript.summary()).rows) == len(kinds)


def test_traffic_names_questions_and_messages_in_words() -> None:
    own = {name for name, kind in vars(messages).items() if Message in getattr(kind, "__bases__", ())}
    assert {"CheckedPart", "ProductWords"} <= own
    assert not (own | {one.kind for one in Operation}) - set(CONTENTS)


@pytest.mark.parametrize(
    ("size", "shown"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1687248, "1.7 MB"), (2 * 10**9, "2.0 GB"),
     (5 * 10**15, "5000.0 TB")],
)  # fmt: skip
def test_bytes_are_decimal(size: int, shown: str) -> None:
    assert report.terminal.size_of(size) == shown


# --- the whole report ------------------------------------------------------------------------------


def test_the_report_is_strict_json_with_and_without_centers(labeled: secfc.Federation) -> None:
    # More clusters than points near them: some end up empty, and an empty cluster has no center.
    for algorithm in (
        secfc.SecFC(
            60, 1, secfc.RandomLabels(), release=secfc.Release(reveal_centers=True, smallest_center=1)
        ),
        secfc.Lloyd(60),
        secfc.KFed(3, 2),
    ):
        result = secfc.fit(algorithm, labeled)
        found = report.as_json(made(labeled, result, algorithm, comparison=None))
        assert json.loads(json.dumps(found, allow_nan=False)) == found
        assert result.centers is not None
        empty = np.isnan(result.centers).any(axis=1)
        assert [None in center for center in found["centers"]] == empty.tolist()
        assert [size == 0 for size in found["cluster_sizes"]] == empty.tolist()
        assert found["verified"] is None
        assert sum(found["cluster_sizes"]) == found["m"] == 90


@pytest.mark.parametrize("policy", ["assignments", "own-labels", "final-labels", "distances"])
def test_centers_of_few_points_are_withheld_under_every_policy_and_said_to_be(policy: str) -> None:
    points = np.random.default_rng(0).normal(size=(60, 2))
    points[:2] = 30.0
    federation = secfc.Federation.from_arrays(np.array_split(points, 5))
    start = secfc.GivenLabels(np.where(np.arange(60) < 2, 1, 0) + 2 * (np.arange(60) % 7 == 3))
    algorithm = secfc.SecFC(
        4,
        1,
        disclosure=policy,
        init=start,
        release=secfc.Release(reveal_centers=True),
        quantization=secfc.Quantization(coarse="allow"),
    )
    result = secfc.fit(algorithm, federation)
    sizes = np.bincount(result.flat, minlength=4)
    assert result.withheld == (1,) == tuple(np.flatnonzero((sizes < 3) & (sizes > 0)).tolist())
    assert result.centers is not None
    assert np.isnan(result.centers[1]).all()
    found = made(federation, result, algorithm, comparison=None)
    assert report.as_json(found)["centers_withheld"] == [1]
    told = report.as_text(found, 300)
    assert "the center of cluster 1 (counted from 0)" in told
    everybody = secfc.fit(with_parameters(algorithm, smallest_center=1), federation)
    assert everybody.withheld == ()


def test_numbers_that_json_lacks_become_null() -> None:
    given = {"a": (np.float64("nan"), float("inf"), np.int32(3)), 4: np.bool_(True)}
    assert report.strict_json(given) == {"a": [None, None, 3], "4": True}


def test_a_cost_nobody_knows_is_computed_and_said_to_be(labeled: secfc.Federation) -> None:
    result = secfc.fit(secfc.KFed(3, k_local=2), labeled)
    found = made(labeled, result, secfc.KFed(3, k_local=2), comparison=None)
    assert found.cost == metrics.cost(labeled.stacked(), result.flat, 3)
    assert report.as_json(found)["cost_known_to_server"] is False
    shown = " ".join(report.as_text(found).split())
    assert "no party knows it" in shown
    assert "2 local clusters a client" in shown
    assert "Iterations" not in shown


def test_without_truth_nothing_is_scored(labeled: secfc.Federation, fitted: Clustering) -> None:
    bare = secfc.Federation.from_arrays([party.points for party in labeled.parties])
    assert report.as_json(made(bare, fitted))["truth"] is None
    assert "Accuracy" not in report.as_text(made(bare, fitted))
    assert "Accuracy" in report.as_text(made(labeled, fitted))


def test_the_text_says_what_is_true(labeled: secfc.Federation, fitted: Clustering) -> None:
    found = made(labeled, fitted)
    shown = report.as_text(found)
    for phrase in (
        "m = 90 points, d = 3 features, n = 5 clients (18 each)",
        "k = 3 clusters, start random, best of 2 starts",
        "t = 1: no client learns",
        "ell = 2: each point is cut into 2 segments",
        "\nNotes\na note",
        f"{fitted.n_iter} (converged)",
        "1.5 s",
        *fitted.learned[:1],
    ):
        assert phrase in shown, phrase
    stopped = replace(fitted, converged=False)
    assert "NOT converged: raise --max-iter" in report.as_text(made(labeled, stopped))
    open_code = replace(fitted.plan, code=replace(fitted.plan.code, t=0))
    assert "hide nothing" in report.as_text(made(labeled, replace(fitted, plan=open_code)))


def test_the_text_says_what_a_curious_server_could_rebuild(
    labeled: secfc.Federation, fitted: Clustering
) -> None:
    alone = GuessJudgement(("server",), "isometry", 90, 3, (1, 2), (0.8, 0.5))
    joint = GuessJudgement(("server", "client-4"), "none", 90, 3, (1, 2), (0.9, 0.6))
    guess = GuessJudgement(("server",), "similarity", 90, 3, (2, 2), (0.9, 0.9))
    tried = {"distances": alone, "distances and the points of client-4": joint, "labels alone": guess}

    def said(*finding: Any) -> str:
        return " ".join(report.as_text(made(labeled, fitted, finding=ServerFinding(*finding))).split())

    full = said("distances", tried, 2, 2)
    assert "with 75.0 % of their variance (rank 2 of 3, relative error 0.5); labels alone let it" in full
    assert "guess 19.0 % of their variance" in full
    assert "together with client-4" in full
    assert "in data units, with 64.0 % of their variance" in full
    assert "only the first" not in full
    assert "only the first 2 of its 9 questions were tried" in said("distances", tried, 9, 2)
    assert "was not tried, for the size of the data: secfc attack geometry" in said("distances", {}, 9, 0)
    only = said("labels", {"labels alone": guess}, 2, 2)
    assert "tried: labels alone let it guess 19.0 %" in only
    assert "place" not in only.split("What the server learned")[1]
    noisy = {name.replace("distances", "noisy distances"): judgement for name, judgement in tried.items()}
    shown = said("noisy distances", noisy, 2, 2)
    assert "from such noisy distances it rebuilds 75.0 % of their variance" in shown
    assert "together with client-4, whose points turn the shape into positions, 64.0 %" in shown
    assert "labels alone let it guess 19.0 %" in shown
    assert "other attacks may do better" in shown
    assert "tried: labels alone let it guess 19.0 %" in said("nothing", {"labels alone": guess}, 2, 2)
    assert "tried" not in said("distances", {}, 0, 0)
    assert "tried" not in report.as_text(made(labeled, fitted))
    programs = report.as_json(made(labeled, fitted, finding=ServerFinding("distances", tried, 9, 2)))
    assert programs["attack"]["judgements"]["distances"]["share"] == pytest.approx([0.36, 0.75])
    assert (programs["attack"]["questions"], programs["attack"]["questions_used"]) == (9, 2)
    assert json.loads(json.dumps(programs)) == programs


@pytest.mark.parametrize(
    ("comparison", "phrase"),
    [
        (None, "Not verified"),
        (Comparison(7), "at the start and after each of 7 iterations, all 90 points"),
        (Comparison(1), "after its only iteration"),
        (
            Comparison(7, ends=True),
            "the last of 7 iterations, all 90 points; those between are known to nobody",
        ),
        (Comparison(7, 0, 5), "differ from plaintext k-means (Lloyd) at the start, in 5 of 90 points"),
        (Comparison(7, 3, 1), "first after iteration 3, in 1 of 90 points"),
        (Comparison(7, 7, 0), "first after iteration 7, one of the two had already stopped"),
    ],
)
def test_the_verdict(
    labeled: secfc.Federation, fitted: Clustering, comparison: Comparison | None, phrase: str
) -> None:
    found = made(labeled, fitted, comparison=comparison)
    assert phrase in report.verdict_sentence(found)
    wrong = comparison is not None and not comparison.equal
    assert report.verdict_sentence(found).startswith("NOT EXACT") == wrong
    assert found.verified is (None if comparison is None else not wrong)


@pytest.mark.parametrize("width", [40, 80, 300])
def test_sentences_fit_the_terminal_without_trailing_blanks(
    labeled: secfc.Federation, fitted: Clustering, width: int
) -> None:
    shown = report.as_text(made(labeled, fitted), width).splitlines()
    assert max(map(len, shown)) <= width
    prose = shown[: shown.index("Computing time")]
    assert len(prose) > 10
    assert all(line == line.rstrip() for line in prose)


def test_many_clusters_are_abridged_and_empty_ones_counted(labeled: secfc.Federation) -> None:
    way = secfc.Lloyd(60, init=secfc.RandomLabels())
    result = secfc.fit(way, labeled)
    shown = report.as_text(made(labeled, result, way, comparison=None))
    empty = int((np.bincount(result.flat, minlength=60) == 0).sum())
    assert empty > 1
    assert f", ... ({empty} clusters empty)" in shown


# --- every algorithm, without the shell -------------------------------------------------------------

BUDGET, RADIUS = Budget(20, 1e-6), Bound.given(16.0)
WAYS: dict[str, Any] = {
    "assignments": secfc.SecFC(3, threshold=1),
    "no dealer": secfc.SecFC(3, threshold=1, disclosure=secfc.AssignmentsOnly(dealer=None)),
    "final labels": secfc.SecFC(3, threshold=1, disclosure="final-labels"),
    "own labels": secfc.SecFC(3, threshold=1, disclosure="own-labels"),
    "distances": secfc.SecFC(3, threshold=1, disclosure=SHOWN, init="k-means++"),
    "private": secfc.SecFC(3, threshold=1, membership="private"),
    "noise in shares": secfc.SecFC(3, 1, max_iter=1, disclosure=secfc.NoiseInShares(BUDGET, RADIUS)),
    "lloyd": secfc.Lloyd(3),
    "k-fed": secfc.KFed(3, k_local=2),
    "feddp": secfc.FedDPKMeans(3, 5.0, 1e-6),
}
TITLES = {"lloyd": "Plaintext k-means", "k-fed": "k-FED", "feddp": "FedDP-KMeans"}


@pytest.mark.parametrize("name", WAYS)
def test_every_algorithm_is_reported_from_python(labeled: secfc.Federation, name: str) -> None:
    held = replace(labeled, server_points=labeled.stacked()[:20])
    result = secfc.fit(WAYS[name], held, seed=1, bound=16.0)
    found = report.make_report(result, federation=held, algorithm=WAYS[name])
    programs, people = report.as_json(found), report.as_text(found)
    assert json.loads(json.dumps(programs, allow_nan=False)) == programs
    assert people.lstrip().startswith(TITLES.get(name, "SecFC"))
    parameters = programs["parameters"]
    assert parameters["algorithm"] == (name if name in TITLES else "secfc")
    assert (parameters["k"], programs["n"], programs["d"]) == (3, 5, 3)
    assert programs["source"] is None
    assert "Source" not in people
    assert ", seed" not in people
    assert all(fact[:60] in " ".join(people.split()) for fact in result.learned)
    noisy = "noise" in name or name == "feddp"
    assert ("Evaluation" in people) == noisy
    assert (programs["cost"] is None) == (found.seconds is None) == noisy
    assert (programs["m"] is None) == (found.counts is None) == (name == "feddp")
    assert ("epsilon" in parameters) == noisy
    told = report.as_json(report.make_report(result, federation=held, algorithm=WAYS[name], evaluate=True))
    best = metrics.cost(labeled.stacked(), result.flat, 3)
    assert (told["evaluation"] if noisy else told)["cost"] == pytest.approx(best)


def test_words_stand_for_values_in_parameters(labeled: secfc.Federation) -> None:
    result = secfc.fit(WAYS["private"], labeled, bound=16.0)
    parameters = report.as_json(made(labeled, result, WAYS["private"]))["parameters"]
    expected = {"membership": "private", "merge": True, "id_column": None, "disclosure": "assignments"}
    assert expected.items() <= parameters.items()
    assert {"init": "bisecting", "field": "ring", "dealer": "server"}.items() <= parameters.items()
    shown = " ".join(report.as_text(made(labeled, result, WAYS["private"])).split())
    assert "the rows themselves are the IDs" in shown
    named = secfc.Federation.from_arrays([p.points for p in labeled.parties], ids=[
        [f"{party.name} {i}" for i in range(18)] for party in labeled.parties
    ])  # fmt: skip
    shown = " ".join(report.as_text(made(named, result, WAYS["private"])).split())
    assert "rows with equal IDs are one point" in shown
    assert "rows with equal IDs (column 'pid')" in " ".join(
        report.as_text(made(named, result, WAYS["private"], ids="pid")).split()
    )


@pytest.mark.parametrize(
    ("mode", "phrase"),
    [
        (None, "any client together with the server"),
        (psu.Committee(2), "any 2 clients together with the server"),
        (psu.Server(), "from any 3 clients together, and from the server as long as it colludes with nobody"),
    ],
)
def test_a_union_claims_what_its_mode_keeps(labeled: secfc.Federation, mode: Any, phrase: str) -> None:
    way = secfc.SecFC(3, threshold=1, membership=secfc.Private(mode))
    result = secfc.fit(way, labeled, bound=16.0)
    found = made(labeled, result, way, comparison=None)
    assert phrase in found.account.hidden[-1]
    assert phrase in " ".join(report.as_text(found).split())


def test_points_that_do_not_count_are_counted_out(labeled: secfc.Federation) -> None:
    def lost(envelope: Any) -> Any:
        return () if envelope.sender == "client-4" else (envelope,)

    result = secfc.fit(WAYS["distances"], labeled, bound=16.0, faults=lost)
    assert result.excluded == ("client-4",)
    found = made(labeled, result, WAYS["distances"], comparison=None)
    assert found.counts is not None
    assert (found.counts.m, found.counts.held, sum(found.counts.clusters)) == (72, 90, 72)
    points = np.concatenate([party.read() for party in labeled.parties[:4]])
    assert found.cost == pytest.approx(metrics.cost(points, np.concatenate(result.labels[:4]), 3))
    assert "client-4: its rows do not count" in report.as_text(found)


@dataclass(frozen=True)
class Halves:
    """Points on either side of a public border.  Nobody says anything."""

    border: float
    words: tuple[str, ...] = ("left", "right")
    capabilities: ClassVar[Capabilities] = Capabilities()

    def plan(self, public: Any) -> Any:
        return public

    def client(self, plan: Any, party: Any, *, coins: Any) -> Any:
        yield from ()
        return (party.read()[:, 0] > self.border).astype(np.int32)

    def server(self, plan: Any, *, rng: Any, coins: Any) -> Any:
        yield from ()

    def outcome(self, plan: Any, party: str, returned: Any) -> PartyOutcome:
        ledger = EXACT if self.border < 9 else Ledger().record(Pure(1.0), what="nothing")
        return PartyOutcome(party, plan, labels=returned, ledger=ledger)

    def collect(self, outcomes: Any, run: Any, counts: tuple[int, ...]) -> Clustering:
        return join_outcomes(outcomes, run, counts, k=2, model=None)


def test_an_algorithm_that_reports_do_not_know_is_reported_too(labeled: secfc.Federation) -> None:
    result = secfc.fit(Halves(4.5), labeled)
    found = report.make_report(result, federation=labeled, algorithm=Halves(4.5))
    programs = report.as_json(found)
    values = {"algorithm": "Halves", "k": 2, "border": 4.5, "words": "('left', 'right')"}
    assert programs["parameters"] == values
    assert programs["cluster_sizes"] == np.bincount(result.flat).tolist()
    shown = report.as_text(found)
    assert shown.lstrip().startswith("Points on either side of a public border.  Nobody says anything\n")
    assert "Nothing to verify" in shown
    assert "k = 2 clusters\n" in shown
    assert "epsilon is infinite" in shown
    assert "released to everybody" not in shown  # owners alone may have the labels
    assert json.loads(json.dumps(programs, allow_nan=False)) == programs
    assert repr(found) == "Report(Halves, n=5, d=3, k=2)"


def test_one_that_claims_a_budget_is_believed_and_tells_no_numbers(labeled: secfc.Federation) -> None:
    result = secfc.fit(Halves(9.0), labeled)
    found = report.make_report(result, federation=labeled, algorithm=Halves(9.0))
    assert found.counts is found.cost is found.seconds is found.scores is None
    assert "90" not in report.as_text(found)
    assert report.as_json(found)["privacy"]["epsilon"]["everybody"] == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize("name", ["feddp", "noise in shares"])
def test_what_may_be_published_of_a_noisy_run_says_nothing_of_the_data(
    labeled: secfc.Federation, name: str
) -> None:
    algorithm = WAYS[name]
    held = secfc.Federation(labeled.parties, server_points=labeled.stacked()[::3] + 0.5)
    result = secfc.fit(algorithm, held, bound=None if name == "feddp" else 16.0, seed=4)
    # Other points and classes under the same releases; of feddp labels and numbers of rows are no release.
    others, labels = held, result.labels
    fewer = 1 if name == "feddp" else 0
    points = [party.read()[fewer:][::-1] * 0.7 for party in others.parties]
    truth = [np.roll(party.truth[fewer:], 1) for party in others.parties]
    if fewer:
        labels = tuple((own[1:] + 1) % 3 for own in labels)
    others = secfc.Federation(
        tuple(replace(p, points=x, truth=y) for p, x, y in zip(held.parties, points, truth, strict=True)),
        server_points=held.server_points,
    )
    origins = [Origin("secfc run", "now", ({"path": "a", "bytes": size, "sha256": "0"},)) for size in (1, 2)]
    said = [
        made(
            data, replace(result, labels=own), algorithm, origin=origin, evaluate=True, comparison=None,
            wall={"fit": size}, asides=(f"of {size} rows",),
        )
        for data, own, origin, size in zip(
            (held, others), (result.labels, labels), origins, (1, 2), strict=True
        )
    ]  # fmt: skip
    for shown in (report.as_json, report.as_text, report.as_html):
        assert shown(said[0]) != shown(said[1]) or shown is report.as_html
        assert shown(said[0].publishable) == shown(said[1].publishable)
    # So is all of a JSON report but what it marks as not paid for, and the page for everybody.
    paid = [{**report.as_json(found), "evaluation": None} for found in said]
    assert paid[0] == paid[1]
    assert report.as_html(said[0]) == report.as_html(said[1])
    assert report.as_json(said[0])["evaluation"]["notes_on_data"] == ["of 1 rows"]
    assert "Same labels" not in report.as_text(said[0])


def test_of_an_exact_run_nothing_in_particular_may_be_published(
    labeled: secfc.Federation, fitted: Clustering
) -> None:
    with pytest.raises(PrivacyError, match="has no budget of differential privacy"):
        _ = made(labeled, fitted).publishable


def test_a_report_holds_no_point_and_no_id() -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(20, 2)) for _ in range(3)]
    ids = [[f"secret-{j}-{i}" for i in range(20)] for j in range(3)]
    federation = secfc.Federation.from_arrays(arrays, ids=ids)
    result = secfc.fit(secfc.SecFC(2, 1), federation)
    found = report.make_report(result, federation=federation, algorithm=secfc.SecFC(2, 1))
    held = pickle.dumps(found)
    assert b"secret-" not in held
    assert not any(value.tobytes() in held for array in arrays for value in array.ravel())


def test_the_digest_of_labels_is_that_of_plaintext_with_any_threads():
    rng = np.random.default_rng(8)
    federation = secfc.Federation.from_arrays(np.split(rng.normal(size=(90, 3)), 5))
    found = []
    for threads in (1, 3):
        algorithm = secfc.SecFC(
            k=3,
            threshold=1,
            runtime=secfc.Runtime(threads=threads),
            quantization=secfc.Quantization(coarse="allow"),
        )
        result = secfc.fit(algorithm, federation)
        found.append(report.as_json(report.make_report(result, federation=federation, algorithm=algorithm)))
    plain = secfc.fit(secfc.Lloyd(3, quantization=secfc.Quantization(coarse="allow")), federation)
    assert {one["labels_digest"] for one in found} == {metrics.labels_digest(plain.labels)}
    for name, own in zip(federation.names, plain.labels, strict=True):
        assert found[0]["labels_digests"][name] == metrics.labels_digest([own])
    assert metrics.labels_digest([plain.labels[0] + 1]) != metrics.labels_digest([plain.labels[0]])


@pytest.mark.nightly
def test_the_digest_of_the_demonstration_is_the_same_with_portable_kernels(tmp_path):
    def digest(**environment):
        done = subprocess.run(
            [sys.executable, "-m", "secfc.cli", "run", "--json", "--no-attack"], capture_output=True,
            text=True, check=True, env={**os.environ, **environment},
        )  # fmt: skip
        return json.loads(done.stdout)["labels_digest"]

    portable = digest(SECFC_KERNELS="portable", NUMBA_CACHE_DIR=str(tmp_path / "portable"))
    narrow = digest(NUMBA_CPU_NAME="x86-64-v3", NUMBA_CACHE_DIR=str(tmp_path / "narrow"))
    assert digest() == portable == narrow
