"""`secfc audit`: what it finds, prints and refuses."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks.server_points import server_side_mixture
from field import SeededCoins
from secfc import pipeline
from secfc.cli import main
from secfc.feddp import clients


@pytest.fixture(autouse=True)
def seeded(monkeypatch):
    """Noise from fixed coins, so that figures that hold with some probability hold."""

    def fit(*arguments, seed, **more):
        return plain(*arguments, seed=seed, coins=lambda party: SeededCoins(seed, party), **more)

    plain = pipeline.fit
    monkeypatch.setattr(pipeline, "fit", fit)


@pytest.fixture
def files(tmp_path, monkeypatch):
    points, _, _, server = server_side_mixture(4, 60, np.random.default_rng(0), d=3, k=3, variance=0.005)
    for name, rows in [*((f"c{j}", points[60 * j : 60 * (j + 1)]) for j in range(4)), ("server", server)]:
        np.savetxt(tmp_path / f"{name}.csv", rows, delimiter=",", header="a,b,c", comments="")
    monkeypatch.chdir(tmp_path)
    return [*(f"c{j}.csv" for j in range(4)), "-k", "3", "--server-file", "server.csv", "--noise", "server"]


def audit(*arguments):
    return CliRunner().invoke(main, ["audit", *map(str, arguments)])


def test_a_right_run_is_not_refuted_and_a_planted_row_spends_nearly_all(files):
    done = audit(*files, "--epsilon", 4, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert 0.94 < found["share"] <= 1  # 2 % are for splits that nobody was asked for
    assert not found["refuted"]
    done = audit(*files, "--epsilon", 4, "--client", "c1", "--row", 7)
    assert "Canary: row 7 of client 'c1'" in done.output
    assert "Nothing refutes the claim." in done.output


def test_a_contribution_beyond_its_sensitivity_ends_with_exit_code_1(files, monkeypatch):
    plain = clients.outer_product
    monkeypatch.setattr(clients, "outer_product", lambda *a, **more: 3 * plain(*a, **more))
    done = audit(*files, "--epsilon", 4)
    assert done.exit_code == 1, done.output
    assert "outer product: the canary moves it by" in done.output
    assert "REFUTED" in done.output


def test_many_runs_stand_beside_one(files):
    done = audit(*files, "--epsilon", 4, "--runs", 20, "--json")
    assert done.exit_code == 0, done.output
    runs = json.loads(done.stdout)["runs"]
    assert (runs["runs"], runs["refuted"]) == (40, False)
    assert runs["auc"]["low"] < 0.723 < runs["auc"]["high"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--runs", 5), "give at least 20"),
        (("--client", "bank"), "is no client: the clients are c0, c1"),
        (("--row", 60), "row 60 of 'c0' is no point"),
        (("--row", 1, "--protect", "client", "--rows-per-client", 60), "--row has no meaning"),
        (("--runs", 20, "--protect", "client", "--rows-per-client", 60), "leave --runs out"),
    ],
)
def test_what_does_not_fit_is_refused(files, more, message):
    done = audit(*files, "--epsilon", 4, *more)
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())


def test_the_canary_of_a_person_is_all_its_rows_at_all_clients(files):
    for name in files[:4]:
        rows = np.loadtxt(name, delimiter=",", skiprows=1)
        whose = np.arange(len(rows))[:, None] // 3
        np.savetxt(
            name, np.hstack([whose, rows]), delimiter=",", header="who,a,b,c", fmt="%.12g", comments=""
        )
    done = audit(*files, "--epsilon", 2, "--protect", "person:8", "--id-column", "who", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["canary"].startswith("8 rows of one person planted at all clients")
    assert 0.94 < found["share"] <= 1
    done = audit(*files, "--epsilon", 2, "--protect", "person:8", "--id-column", "who", "--row", 3)
    assert "all rows of one person are the canary" in done.output


@pytest.mark.parametrize("more", [(), ("--runs", 20)])
def test_a_run_within_a_public_radius_is_audited_as_one_with_points_of_the_server(files, more):
    """What `secfc audit --help` says, and the error where both are missing."""
    here = [*files[:6], "--noise", "server", "--radius", 5]
    missing = audit(*here[:-2], "--epsilon", 2)
    assert "within a public radius around 0" in missing.output
    assert "(--radius)" in missing.output
    done = audit(*here, "--epsilon", 2, *more, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert "planted at" in found["canary"]
    assert found["releases"][0]["what"] == "votes along a line"
    assert 0.94 < found["share"] <= 1
