"""The script of differential privacy runs on its smallest grid, and its rows can be drawn."""

import pytest
from click.testing import CliRunner

from benchmarks import dp
from benchmarks.common import read_rows

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
        "split (0.25, 0.05, 0.7), T=0",
        "ablation + shrunk",
    ]
    printed = invoke(dp.main, *silo, *(word for m in methods for word in ("--method", m)))
    assert "Excess cost per point" in printed
    invoke(dp.main, "--setting", "device", "--clients", "20", "--rows", "5", *SMALL, "--method", "ours",
           "--out", file)  # fmt: skip
    rows = read_rows(file)
    assert len(rows) == 6
    for row in rows:
        assert row["excess"] > -1e-6 * row["cost"]
        assert row["spent"] == pytest.approx(2) or row["cell"]["method"] == "k-FED"
    again = invoke(dp.main, *silo, "--method", "ours")
    assert "ours" in again
    assert len(read_rows(file)) == 6
    drawn = invoke(plot, file, "--folder", tmp_path).split()
    assert {path.rsplit("/")[-1] for path in drawn} == {
        "dp-silo-6.png", "dp-ablation-silo-6.png", "dp-pareto-silo-6.png", "dp-device-20.png"
    }  # fmt: skip


def test_the_ladder_ends_at_ours():
    step = dp.PAPER
    for change in dp.LADDER.values():
        step = dp.replace(step, **change)
    assert step == dp.OURS
