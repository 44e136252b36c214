"""The script of differential privacy runs on its smallest grid, and its rows can be drawn."""

import math
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks import dp, dp_data, dp_matrix, dp_methods
from benchmarks.common import read_rows
from secfc.feddp import OURS, PAPER

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
        "SecFC, noise at server, T=1",
        "SecFC, noise in shares, T=1",
        "split (0.25, 0.05, 0.7), T=0",
        "ablation + shrunk",
    ]
    printed = invoke(dp.main, *silo, *(word for m in methods for word in ("--method", m)))
    assert "Excess cost per point" in printed
    invoke(dp.main, "--setting", "device", "--clients", "20", "--rows", "5", *SMALL, "--method", "ours",
           "--method", "SecFC, noise at server, T=1", "--out", file)  # fmt: skip
    rows = read_rows(file)
    assert len(rows) == 11
    for row in rows:
        assert row["excess"] > -1e-6 * row["cost"]
        method = row["cell"]["method"]
        free = method in dp_methods.NOT_PRIVATE
        # What starts from the data's own optimum is not private, whatever noise follows.
        spent = None if free else math.inf if method == "Optimal, T=1" else pytest.approx(2, rel=1e-4)
        assert row["spent"] == spent
    again = invoke(dp.main, *silo, "--method", "ours")
    assert "ours" in again
    assert len(read_rows(file)) == 11
    drawn = invoke(plot, file, "--folder", tmp_path).split()
    assert {path.rsplit("/")[-1] for path in drawn} == {
        "dp-silo-6-data-point.png", "dp-ablation-silo-6-data-point.png", "dp-pareto-silo-6-data-point.png",
        "dp-device-20-client.png",
    }  # fmt: skip


def test_the_ladder_ends_at_ours():
    step = PAPER
    for change in dp_methods.LADDER.values():
        step = replace(step, **change)
    assert step == OURS


def test_secfc_refuses_thousands_of_clients(tmp_path):
    few = ["--setting", "device", "--clients", "101", "--rows", "2", *SMALL]
    outcome = CliRunner().invoke(dp.main, [*few, "--method", "SecFC, noise at server, T=1"])
    assert outcome.exit_code == 2
    assert "101 are too many" in outcome.output


@pytest.mark.nightly
def test_the_matrix_marks_what_is_lost(tmp_path, monkeypatch):
    file = tmp_path / "matrix.jsonl"
    few = ["--set", "breast cancer", "--epsilon", "1", "--runs", "1", "--out", file]
    printed = invoke(dp_matrix.main, *few)
    assert all(word in printed for word in ("breast cancer", "server alone", "one"))
    rows = read_rows(file)
    # Rivals that ask nobody are played once, and stand in every line.
    (line,) = dp_matrix.table(rows).values()
    assert set(line) == set(dp_matrix.METHODS)
    assert min(line.values()) >= 0
    spent = [row["spent"] for row in rows if row["cell"]["method"] == "ours"]
    assert spent == [pytest.approx(1, rel=1e-4)]
    assert dp_matrix.loses(line | {"ours": 2 * max(line.values())})
    assert not dp_matrix.loses(line | {"ours": min(line.values())})
    for name, chosen in dp_data.SETS.items():
        if name in ("digits", "texts, 5 of 20 topics"):
            held = chosen.make(None, np.random.default_rng(0))
            assert np.isfinite(held.points).all()
            assert held.points.shape[1] == held.server.shape[1]
