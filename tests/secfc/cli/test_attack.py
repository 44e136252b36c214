"""`secfc attack geometry`: what it prints, draws and refuses."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from secfc.cli import main


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    paths = []
    for j in range(5):
        path = tmp_path / f"site{j}.csv"
        np.savetxt(path, rng.normal(size=(30, 3)) * 10, delimiter=",", header="a,b,c", comments="")
        paths.append(str(path))
    return paths


def attack(*arguments):
    return CliRunner().invoke(main, ["attack", "geometry", *arguments])


def test_distances_recover_everything_and_labels_alone_do_not(files):
    done = attack(*files, "-k", "4", "--n-init", "5", "--json")
    assert done.exit_code == 0, done.output
    judgements = json.loads(done.stdout)
    assert judgements["distances"]["share"][-1] > 0.999999
    assert judgements["distances"]["ranks"][-1] == 3
    assert judgements["labels alone"]["share"][-1] < 0.9
    assert set(judgements) == {"distances", "labels alone"}


def test_without_blinding_segments_show_more_in_one_question(files):
    done = attack(*files, "-k", "2", "-t", "1", "--ell", "2", "--max-iter", "1", "--no-blind", "--json")
    judgements = json.loads(done.stdout)
    split, summed = judgements["distances of every segment"], judgements["distances"]
    assert split["share"][0] > summed["share"][0] + 0.05


def test_a_known_client_turns_the_shape_into_positions(files):
    done = attack(*files, "-k", "4", "--n-init", "5", "--known", "site2")
    assert done.exit_code == 0, done.output
    assert "the server and site2 can place all 150 points, in data units" in done.stdout
    assert "100.0% of variance" in done.stdout


def test_the_demonstration_says_what_the_server_learns():
    done = attack("--max-iter", "3")
    assert done.exit_code == 0, done.output
    assert "the server can place all 732 points, up to rotation and reflection" in done.stdout
    assert "From labels alone" in done.stdout


def test_the_figures_that_the_readme_gives_for_the_demonstration():
    judgements = json.loads(attack("--json").stdout)
    readme = " ".join((Path(__file__).parents[3] / "README.md").read_text().split())
    for known, does in (
        ("labels alone", "labels of all steps let it guess"),
        ("distances", "all points and recovers"),
    ):
        assert f"{does} {100 * judgements[known]['share'][-1]:.0f} % of their variance" in readme


def test_the_picture_is_written_once(files, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "shares.png"
    assert attack(*files, "-k", "2", "--plot", str(path)).exit_code == 0
    assert path.read_bytes().startswith(b"\x89PNG")
    again = attack(*files, "-k", "2", "--plot", str(path))
    assert again.exit_code == 2
    assert "--force" in again.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "-k is missing"),
        (("-k", "2", "--known", "nobody"), "'nobody' is no client: the clients are site0"),
        (("-k", "1000"), "k=1000 clusters of m=150"),
        (("-k", "2", "-t", "3"), "n=5 clients cannot decode"),
    ],
)
def test_bad_input_ends_with_exit_code_2_and_no_traceback(files, arguments, message):
    done = attack(*files, *arguments)
    assert done.exit_code == 2
    assert message in done.output
    assert "Traceback" not in done.output


def test_help_has_examples():
    assert "secfc attack geometry a.csv" in attack("--help").stdout
    assert "secfc attack geometry" in CliRunner().invoke(main, ["attack", "--help"]).stdout


def test_run_reports_the_same_figures_without_keeping_any_message(files, tmp_path):
    run = CliRunner().invoke(
        main,
        [
            "run",
            *files,
            "-k",
            "4",
            "--n-init",
            "3",
            "--json",
            "--force",
            "--disclosure",
            "distances",
            "--labels",
            str(tmp_path / "x.csv"),
        ],
    )
    assert run.exit_code == 0, run.output
    found = json.loads(run.stdout)["attack"]
    assert found["questions"] == found["questions_used"]
    tried = json.loads(attack(*files, "-k", "4", "--n-init", "3", "--json").stdout)
    assert found["judgements"]["distances"]["ranks"] == tried["distances"]["ranks"]
    for name in ("distances", "labels alone"):
        assert found["judgements"][name]["share"] == pytest.approx(tried[name]["share"], abs=1e-6)


def test_run_does_not_attack_when_told_so(files, tmp_path):
    run = ["run", *files, "-k", "4", "--json", "--force", "--labels", str(tmp_path / "x.csv")]
    assert json.loads(CliRunner().invoke(main, [*run, "--no-attack"]).stdout)["attack"] is None
    refused = CliRunner().invoke(main, [*run, "--algorithm", "lloyd", "--no-attack"])
    assert refused.exit_code == 2
    assert "--attack has no meaning for --algorithm lloyd" in refused.output
