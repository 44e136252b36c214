"""The script of differential privacy runs on its smallest grid, and its rows can be drawn."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks import dp, dp_alone, dp_data, dp_methods
from benchmarks.common import read_rows
from secfc.disclosure import NoisySums
from secfc.feddp import OURS, PAPER
from secfc.feddp.clients import ClientStatistics, client_contributions
from secfc.privacy import Bound, Budget
from tests.field.compare.test_shells import plain_step
from tests.nightly import every

pytest.importorskip("matplotlib")

SMALL = ["--seeds", "1", "--runs", "1", "--epsilon", "2", "--k", "3"]


def invoke(command, *arguments):
    outcome = CliRunner().invoke(command, [str(a) for a in arguments], catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


def test_rows_say_what_was_spent_and_can_be_drawn(tmp_path):
    from benchmarks.plot import main as plot

    file = tmp_path / "dp.jsonl"
    silo = ["--setting", "silo", "--clients", "6", "--rows", "60", *SMALL, "--out", file]
    methods = [
        "ours",
        "ServerLloyds, T=1",
        "k-FED",
        "Optimal",
        "Optimal, T=1",
        "SecFC, noise on distances, T=1",
        "SecFC, noisy sums",
        "ours, labels by response",
        "one center",
        "split (0.25, 0.05, 0.7), T=0",
        "ablation + shrunk",
    ]
    printed = invoke(dp.main, *silo, *(word for m in methods for word in ("--method", m)))
    assert "Excess cost per point" in printed
    bound, noisy = (
        [float(word) for word in line.split("│") if word.strip().replace(".", "").isdigit()]
        for name in ("at most, whatever", "SecFC, noise on distances")
        for line in printed.split("Labels:")[1].splitlines()
        if name in line
    )
    assert bound == [78.7]
    assert noisy[0] < 50
    invoke(dp.main, "--setting", "device", "--clients", "20", "--rows", "5", *SMALL, "--method", "ours",
           "--method", "SecFC, noise on distances, T=1", "--out", file)  # fmt: skip
    rows = read_rows(file)
    assert len(rows) == 13
    for row in rows:
        assert row["excess"] > -1e-6 * row["cost"]
        method = row["cell"]["method"]
        free = isinstance(dp_methods.METHODS[method], dp_methods.NotPrivate)
        # What starts from the data's own optimum is not private, whatever noise follows.
        # Of splits, 2 %, nobody was asked here.
        rest = 0.02 if row["cell"]["unit"] == "data point" and method.startswith(("ours", "abl")) else 1e-4
        spent = None if free else math.inf if method == "Optimal, T=1" else pytest.approx(2, rel=rest)
        assert row["spent"] == spent
    again = invoke(dp.main, *silo, "--method", "ours")
    assert "ours" in again
    assert len(read_rows(file)) == 13
    drawn = invoke(plot, file, "--folder", tmp_path).split()
    assert {path.rsplit("/")[-1] for path in drawn} == {
        "dp-silo-6-data-point.png", "dp-ablation-silo-6-data-point.png", "dp-pareto-silo-6-data-point.png",
        "dp-device-20-client.png",
    }  # fmt: skip


def test_noise_on_distances_is_played_to_1024_by_default():
    fixed = {"setting": "silo"}
    grid = [(c["method"], c["epsilon"]) for c in dp.cells(fixed, (), dp_methods.USUAL, 1)]
    assert ("SecFC, noise on distances, T=1", 1024.0) in grid
    assert ("ours", 1024.0) not in grid
    assert dp_methods.most_right(2.0, 10) == pytest.approx(0.4509, abs=1e-4)


def test_persons_with_rows_at_several_clients_take_noise_so_many_times_as_wide(monkeypatch):
    seen = []
    monkeypatch.setattr(dp_methods.FedDP, "play", lambda self, cell, *rest: seen.append(cell["epsilon"]))
    dp_methods.PEOPLE["ours, persons at up to 2 clients"].play({"epsilon": 1.0}, None, 0)
    one = dp_methods.gaussian_multiplier(dp_methods.Budget(1.0, 1e-6))
    half = dp_methods.gaussian_multiplier(dp_methods.Budget(seen[0], 1e-6))
    assert half == pytest.approx(2 * one, rel=1e-6)


def test_sums_in_the_plain_are_those_that_comparing_on_shares_opens():
    rng = np.random.default_rng(0)
    rows, centers = rng.integers(-900, 900, (200, 3)), rng.integers(-500, 500, (4, 3))
    code, silent = SimpleNamespace(n=5, t=1), SimpleNamespace(normal=lambda size: np.zeros(size))
    policy = NoisySums(Budget(1.0, 1e-6), Bound.given(1.0))
    plan = SimpleNamespace(code=code, d=3, radius=900)
    server = dp_methods.PlainSums(plan, policy, rows.astype(float), silent)
    with pytest.raises(StopIteration) as end:
        next(server.open_sums(0, centers, 200))
    got, asked = end.value.value
    expected, outcomes = plain_step(rows, centers, 200, asked.unit)
    assert (got == expected).all()
    assert len(set(outcomes)) > 12


@pytest.mark.parametrize("method", every(2, ["ours", "paper", "ServerLloyds, T=1"]))
@pytest.mark.parametrize(("setting", "unit"), [("device", "client"), ("silo", "data point")])
def test_sums_in_one_place_are_those_of_all_clients(method, setting, unit, monkeypatch):
    cell = {"setting": setting, "unit": unit, "k": 3, "rows": 6, "epsilon": 4.0}
    given = dp.problem(setting, 12, 6, 3, 0, None, "")
    seen = []

    class Compared(dp_methods.PlainAggregator):
        def open_sum(self, told, parts):
            clients = [ClientStatistics(self.plan, part) for part in given.points.reshape(12, 6, -1)]
            number, projection = self.number, getattr(told, "projection", self.projection)
            each = [client_contributions(one, told, number, projection)[1] for one in clients]
            found = yield from super().open_sum(told, parts)
            assert (found.total == sum(np.concatenate(vectors) for vectors in each)).all()
            seen.append(type(told).__name__)
            return found

    monkeypatch.setattr(dp_methods, "PlainAggregator", Compared)
    played = dp_methods.METHODS[method].play(cell, given, 0)
    rest = 0.02 if (method, unit) == ("ours", "data point") else 1e-4  # splits that nobody was asked for
    assert played.ledger.epsilon(dp_methods.DELTA) == pytest.approx(4, rel=rest)
    first = ["NoneType", "Project", "GroupAbout"] if "Lloyds" not in method else ["GroupAbout"]
    assert seen[: len(first)] == first


def test_shells_cost_little_more_than_clipping_and_finding_a_start_first_pays():
    """Of a mixture, parts of a single center's excess, medians: server points alone leave most of it."""
    cell = {"k": 5, "epsilon": 4.0, "unit": "data point"}
    given = dp.problem("silo", 10, 400, 5, 0, None, "")
    one = dp.cost_per_point(given.points, given.points.mean(axis=0)[None]) - given.cost

    def excess(method, **more):
        runs = [method.play(cell, given, run, **more).centers for run in range(3)]
        return np.median([dp.cost_per_point(given.points, c) - given.cost for c in runs]) / one

    shells, clipped = excess(dp_methods.Sums()), excess(dp_methods.Sums(), clipped=True)
    assert shells < 0.02
    assert shells <= 1.15 * clipped + 0.001
    assert excess(dp_methods.Sums(steps=2)) > 0.2


def test_the_ladder_ends_at_ours():
    step = PAPER
    for change in dp_methods.LADDER.values():
        step = replace(step, **change)
    assert step == OURS


def test_secfc_refuses_thousands_of_clients(tmp_path):
    few = ["--setting", "device", "--clients", "101", "--rows", "2", *SMALL]
    outcome = CliRunner().invoke(dp.main, [*few, "--method", "SecFC, noise on distances, T=1"])
    assert outcome.exit_code == 2
    assert "101 are too many" in outcome.output


def test_scales_come_from_the_servers_rows_alone(monkeypatch):
    """A far row of a client moves no scale, of which the server's rows would tell."""
    from sklearn import datasets

    points = datasets.load_breast_cancer().data
    order = np.random.default_rng(0).permutation(len(points))
    far = points.copy()
    far[order[100:]] *= 1000
    make, found = dp_data.shipped("breast_cancer", 100), []
    for given in (points, far):
        monkeypatch.setattr(datasets, "load_breast_cancer", lambda given=given: SimpleNamespace(data=given))
        found.append(make(None, np.random.default_rng(0)))
    np.testing.assert_array_equal(found[0].server, found[1].server)
    assert found[1].points.max() == pytest.approx(1000 * found[0].points.max())


@pytest.mark.nightly
def test_without_public_points_ours_and_the_rebuilt_rival_find_blobs_within_the_budget(tmp_path, monkeypatch):
    monkeypatch.setitem(dp_alone.SETS, "digits", dp_alone.Set(dp_alone.blobs(600, 2, 3), -15, 15, 3))
    few = ("--set", "digits", "--epsilon", "8", "--runs", "1", "--out", str(tmp_path / "rows.jsonl"))
    printed = invoke(dp_alone.main, *few, "--method", "ours", "--method", "PE-means")
    assert "digits" in printed
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert {row["cell"]["method"] for row in rows} == {"ours", "PE-means"}
    for row in rows:
        assert -1e-9 < row["excess"] < 0.3  # one center: 1
        assert 7.9 < row["spent"] < 8.0001


def test_candidates_of_the_rebuilt_rival_lie_in_the_ball_and_apart():
    assert dp_alone.threshold(np.array([5.0, 9.0, -1.0, 3.0]), 14) == 5.0
    assert dp_alone.threshold(np.array([5.0, 9.0]), 40) == 0.0
    apart = dp_alone.packed(12, 3, 2.0, np.random.default_rng(0))
    assert (np.linalg.norm(apart, axis=1) <= 2).all()
    gaps = np.linalg.norm(apart[:, None] - apart, axis=2)[np.triu_indices(12, 1)]
    assert gaps.min() > 0.2
    moved = dp_alone.mutated(apart, 4, 2.0, np.random.default_rng(0))
    assert moved.shape == (48, 3)
    assert (np.linalg.norm(moved, axis=1) <= 2 + 1e-12).all()
