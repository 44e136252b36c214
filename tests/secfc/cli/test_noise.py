"""`secfc run --epsilon`: what it reports, writes and refuses."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from secfc import cli


@pytest.fixture(autouse=True)
def _sites(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in "abc":
        np.save(f"{name}.npy", rng.uniform(-1, 1, (20, 2)))


def run_noisy(*arguments):
    return CliRunner().invoke(
        cli.main, ["run", "--verbose", "a.npy", "b.npy", "c.npy", "-k", "2", *arguments]
    )


NOISY = ("--epsilon", "4", "--radius", "1.5", "--bound", "1")


@pytest.mark.parametrize("more", [(), ("--protect", "client"), ("--reveal-centers",)])
def test_a_noisy_run_reports_its_ledger(more):
    done = run_noisy(*NOISY, *more)
    assert done.exit_code == 0, done.output
    assert "differential privacy: k-means on noisy distances" in done.output
    assert "Not exact, by intent" in done.output
    assert "epsilon = 4 at delta = 1e-06, replace one" in " ".join(done.output.split())
    assert "not private, epsilon is infinite" not in done.output


def test_the_radius_bounds_values_where_no_bound_is_given():
    done = run_noisy("--epsilon", "4", "--radius", "1.5", "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["parameters"]["bound_from_data"] is False


def test_an_extreme_radius_is_no_trouble():
    # Far beyond the bound, so noise is wide, and so far below it that points are all but zero.
    for radius in ("1000", "0.02"):
        done = run_noisy("--epsilon", "0.05", "--bound", "1", "--radius", radius, "--force")
        assert done.exit_code == 0, done.output


def test_programs_read_the_ledger_too():
    found = json.loads(run_noisy(*NOISY, "--json").stdout)
    assert found["privacy"]["epsilon"] == {"everybody": pytest.approx(4, rel=1e-5)}
    assert found["privacy"]["neighbors"] == "replace one data point"
    assert found["verified"] is None
    # Every iteration costs, so few are planned; a wish of the user stands.
    assert found["parameters"]["max_iter"] == 5
    assert (
        json.loads(run_noisy(*NOISY, "--json", "--force", "--max-iter", "2").stdout)["parameters"]["max_iter"]
        == 2
    )


def test_an_exact_run_says_that_it_is_not_private():
    assert "not private, epsilon is infinite" in run_noisy("--bound", "1").output


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--epsilon 1 --bound 1", "--epsilon needs --radius"),
        ("--radius 1", "--radius needs --epsilon"),
        ("--noise server", "--noise needs --epsilon"),
        ("--epsilon 1 --radius 1 --bound 1 --noise server", "or use FedDP-KMeans (`secfc dp`)"),
        ("--epsilon 0 --radius 1 --bound 1", "positive"),
        ("--epsilon 1 --radius 1 --bound 1 --init k-means++", "distances of its own"),
        ("--epsilon 1 --radius 1 --bound 1 --verify", "no meaning with --epsilon"),
        ("--algorithm lloyd --epsilon 1", "--algorithm lloyd adds no noise"),
        ("--epsilon 1 --radius 1 --bound 1 --protect client --membership private", "open membership"),
    ],
)
def test_what_is_refused(line, message):
    done = run_noisy(*line.split())
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())


# --- what the budget has not paid for ---------------------------------------------------------------

EXACT = ("cost", "seconds", "attack", "files")  # and truth, which these files do not have


@pytest.mark.parametrize("more", [(), ("--protect", "client")])
def test_a_file_that_claims_an_epsilon_holds_nothing_exact(more):
    found = json.loads(run_noisy(*NOISY, *more, "--json").stdout)
    assert [found[name] for name in EXACT] == [None] * len(EXACT)
    assert found["evaluation"] is None
    # Labels follow from noisy distances, and the plan with its row counts is public.
    assert sum(found["cluster_sizes"]) == found["m"] == 60
    shown = run_noisy(*NOISY, *more, "--force").stdout
    assert "Left out is what was computed from the exact data" in " ".join(shown.split())
    for exact in ("Cost  ", "Computing time", "tried:"):
        assert exact not in shown, exact


def test_evaluation_is_asked_for_and_marked():
    found = json.loads(run_noisy(*NOISY, "--json", "--evaluate").stdout)
    assert [found[name] for name in EXACT] == [None] * len(EXACT)
    assert found["evaluation"]["covered_by_epsilon"] is False
    assert found["evaluation"]["cost"] > 0
    assert found["evaluation"]["files"][0]["path"] == "a.npy"
    assert found["evaluation"]["attack"]["exposes"] == "noisy distances"
    shown = run_noisy(*NOISY, "--evaluate", "--force").stdout
    before, after = shown.split("NOT covered by epsilon")
    for exact in ("Cost  ", "Computing time", "tried:"):
        assert exact not in before, exact
        assert exact in after, exact


def test_without_noise_there_is_nothing_to_ask_for():
    refused = run_noisy("--evaluate")
    assert refused.exit_code == 2
    assert "everything is reported" in refused.output
    found = json.loads(run_noisy("--json").stdout)
    assert found["evaluation"] is None
    assert found["cost"] > 0
