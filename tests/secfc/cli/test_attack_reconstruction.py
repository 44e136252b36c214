"""`secfc attack differences` and `reconstruct`: what they print, draw and refuse."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from secfc.cli import main


@pytest.fixture
def files(tmp_path):
    return written(tmp_path, 6.0)


def written(tmp_path, spread):
    """Four sites with rows of five clusters, whose means lie so far apart."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(5, 4)) * spread
    paths = []
    for j in range(4):
        path = tmp_path / f"site{j}.csv"
        points = np.rint((means[rng.integers(0, 5, 40)] + rng.normal(size=(40, 4)) * 10) * 4) / 4
        np.savetxt(path, points, delimiter=",", header="a,b,c,d", comments="")
        paths.append(str(path))
    return paths


def attack(*arguments):
    return CliRunner().invoke(main, ["attack", *arguments])


def test_what_is_opened_tells_rows_and_the_default_tells_none(files, tmp_path):
    done = attack(
        "reconstruct", *files, "-k", "5", "--max-iter", "9", "--json", "--plot", str(tmp_path / "rows.png")
    )
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["k-means by messages in the clear"]["exact"] > 10
    assert found["Lloyd over secure sums"]["exact"] > 0
    assert found["SecFC, the default"]["guessed"] == 0
    assert (tmp_path / "rows.png").stat().st_size > 1000
    again = attack("reconstruct", *files, "-k", "8", "--plot", str(tmp_path / "rows.png"))
    assert again.exit_code == 2
    assert "--force" in again.stderr


def test_two_runs_that_differ_by_a_row_tell_it_where_clusters_are_clear(tmp_path):
    done = attack("reconstruct", *written(tmp_path, 40.0), "-k", "5", "--json")
    assert json.loads(done.stdout)["SecFC with centers opened, twice"]["exact"] == 1


def test_a_client_takes_differences_of_what_others_added(files):
    done = attack("differences", *files, "-k", "8", "--known", "site1")
    assert done.exit_code == 0, done.output
    assert "m = 160 points, d = 4 features, n = 4 clients" in done.stdout
    assert "of 120 were rebuilt exactly" in " ".join(done.stdout.split())
    assert "What stops it: sums that nobody opens" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["differences", "-k", "3", "--known", "mars"], "the clients are site0, site1"),
        (["reconstruct", "-k", "3", "--row", "40"], "has the rows 0 to 39"),
        (["reconstruct", "-k", "161"], "k=161"),
        (["differences"], "-k is missing"),
    ],
)
def test_bad_input(files, arguments, said):
    command, *rest = arguments
    done = attack(command, *files, *rest)
    assert done.exit_code == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_too_few_clients(files):
    done = attack("reconstruct", files[0], "-k", "3")
    assert done.exit_code == 2
    assert "at least 3 clients" in done.stderr
