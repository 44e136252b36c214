"""`secfc overlap`: files with different columns, from the shell."""

import json
import re
from functools import partial

import numpy as np
import pytest
from click.testing import CliRunner

from secfc.cli import main
from secfc.cli.clustering.run import run as program_run
from tests.secfc.overlap.cases import CHAIN, COMMON, NAMES, clusters
from tests.small import invoke, run

overlap = partial(invoke, "overlap", "--verbose")


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parts, truth = clusters(CHAIN, 2, 25, np.random.default_rng(0))
    return [
        write(f"site-{j}.csv", [NAMES[f] for f in own], part, labels)
        for j, (own, part, labels) in enumerate(zip(CHAIN, parts, truth, strict=True))
    ]


def write(name, columns, part, labels):
    rows = [",".join([*columns, "class"])]
    rows += [",".join(str(x) for x in row) + f",{label}" for row, label in zip(part, labels, strict=True)]
    with open(name, "w") as file:
        file.write("\n".join(rows))
    return name


def test_a_union_is_clustered_without_naming_an_algorithm(files):
    done = overlap(*files, "-k", 2, "--label-column", "class", "--report", "r.json")
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "a is seen by site-0 alone: its centers there are its own means" in said
    assert "b is seen by site-0 and site-1 alone: each can subtract its own" in said
    assert "differences can tell others' single rows: --floor 10 keeps rows back" in said
    with open("r.json") as file:
        found = json.load(file)
    assert found["parameters"]["algorithm"] == "federated-lloyd"
    assert found["columns"] == ["a", "b", "c", "d", "e"]
    with open("secfc-labels.csv") as file:
        assert len(file.readlines()) == 101


@pytest.mark.parametrize(
    "start", ["paper", "synchronized", "synchronized-distances", "constrained", "nearest-merge", "max-min"]
)
def test_every_start_has_a_word(files, start):
    done = invoke(
        "overlap",
        "--verbose",
        *files,
        "-k",
        2,
        "--label-column",
        "class",
        "--start",
        start,
        "--k-local",
        2,
        "--json",
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["parameters"]["algorithm"] == "federated-lloyd"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--algorithm secfc", "'secfc' is for another command: use `secfc run`"),
        ("--server-file x.csv", "No such option '--server-file'"),
        ("--helper", "No such option '--helper': it is for another command, `secfc run`"),
        (
            "--label-column class --local silhouette --k-local 2",
            "--k-local has no meaning for --local silhouette",
        ),
        ("--label-column class --start random", "Invalid value for '--start'"),
        ("--label-column class --scale 0.001", "rounding loses much of the data of client"),
        ("--label-column class --bound 3", "outside the public bound"),
    ],
)
def test_what_cannot_be_is_refused(files, options, message):
    done = overlap(*files, "-k", 2, *options.split())
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--algorithm overlap-1 --rounds 2", "at the start and in 2 rounds"),
        ("--algorithm overlap-1 --start constrained", "at the start and in 3 rounds"),
        ("--algorithm overlap-2", "variances and rows of each"),
        ("--algorithm overlap-2 --proxies gaussian --exponent 3", "covariances and rows of each"),
        ("--algorithm overlap-2 -k auto", "has the largest silhouette of local clusters"),
    ],
)
def test_the_papers_algorithms_have_words(files, options, said):
    done = overlap(*files, "-k", 2, "--label-column", "class", *options.split())
    assert done.exit_code == 0, done.output
    text = " ".join(done.output.split())
    assert "a is seen by site-0 alone" in text
    assert said in text
    assert "100.00 % of the points" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--algorithm overlap-1 --start synchronized-distances", "has no use in overlap-1"),
        ("--algorithm overlap-1 -k auto", "overlap-1 cannot choose k"),
        ("--algorithm overlap-1 --bound 3", "--bound has no meaning for --algorithm overlap-1"),
        ("--algorithm overlap-2 -k auto --plot o.png", "chooses k by silhouettes"),
        ("--algorithm overlap-2 -k 3..9", "chooses k from 2 on: -k 2..9"),
    ],
)
def test_what_the_papers_algorithms_cannot_is_refused(files, options, message):
    done = overlap(*files, "-k", 2, "--label-column", "class", *options.split())
    assert done.exit_code == 2, done.output
    assert message in " ".join(done.output.split())


@pytest.fixture
def common(tmp_path, monkeypatch):
    """Files that share two columns, and have one of their own, and one that is empty."""
    monkeypatch.chdir(tmp_path)
    parts, truth = clusters(COMMON, 2, 25, np.random.default_rng(0))
    held = np.concatenate([part[:, :2] for part in parts])
    held = held + np.random.default_rng(1).normal(size=held.shape)
    np.savetxt("server.csv", held, delimiter=",", header="a,b", comments="", fmt="%.6f")
    return [
        write(f"site-{j}.csv", [*(NAMES[f] for f in own), "none"], [[*row, ""] for row in part], labels)
        for j, (own, part, labels) in enumerate(zip(COMMON, parts, truth, strict=True))
    ]


@pytest.mark.parametrize("algorithm", ["secfc", "lloyd", "k-fed --k-local 2"])
def test_any_algorithm_takes_the_common_columns(common, algorithm):
    done = run(
        *common, "-k", 2, "--features", "common", "--label-column", "class", "--algorithm", *algorithm.split()
    )
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "clustered on the columns that all clients have: 'a', 'b'; left out: 'c', 'd', 'e', 'f'" in said
    assert "'none': empty at every client that has it, so left out" in said
    assert "100.00 % of the points" in said


def test_feddp_takes_the_common_columns_and_refines_at_home(common):
    more = ("--server-file", "server.csv", "--epsilon", "5", "--json")
    done = invoke(
        "dp", "--verbose", *common, "-k", 2, "--features", "common", "--label-column", "class", *more
    )
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["parameters"]["home"] == 10
    assert any("all of this on 'a', 'b' only" in sentence for sentence in found["learned"])


def test_files_without_a_common_column_are_refused_by_what_they_may_use(files):
    done = run(*files, "-k", 2, "--features", "common", "--label-column", "class")
    assert done.exit_code == 2
    assert "no feature is common to all clients" in " ".join(done.output.split())


def test_other_units_and_constant_columns_are_pointed_out(files):
    parts, truth = clusters(CHAIN, 2, 25, np.random.default_rng(0))
    wide = np.column_stack([parts[3] * [1000, 1], np.full(25, 7.0)])
    files[3] = write("site-3.csv", ["d", "e", "still"], wide, truth[3])
    done = invoke(
        "overlap",
        "--verbose",
        *files,
        "-k",
        2,
        "--label-column",
        "class",
        "--coarse",
        "allow",
        "--start",
        "constrained",
    )
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "times as far at site-3 as at site-2: the same units are needed" in said
    assert "column 'still' has one value everywhere" in said


# --- centers that every client may see


def test_the_word_for_centers_is_the_algorithm_that_shows_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    names = [f"{name}.csv" for name in "abc"]
    for name in names:
        rows = 9 * rng.integers(0, 2, (30, 2)) + rng.normal(size=(30, 2))
        np.savetxt(name, rows, delimiter=",", header="x,y", comments="", fmt="%.3f")
    said = run(
        *names, "-k", 4, "--disclosure", "centers", "--json", "--labels", "l.csv", "--model", "kept.model"
    )
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    assert found["parameters"]["algorithm"] == "federated-lloyd"
    assert any("under pads: no sum, center or label" in line for line in found["learned"])
    twin = run(*names, "-k", 4, "--algorithm", "federated-lloyd", "--json", "--labels", "m.csv")
    assert (tmp_path / "l.csv").read_text() == (tmp_path / "m.csv").read_text()
    assert twin.exit_code == 0
    # The centers, which all clients have, label rows without a protocol.
    assert CliRunner().invoke(main, ["predict", "kept.model", "a.csv"]).exit_code == 0
    first = [line.rpartition(",")[2] for line in (tmp_path / "l.csv").read_text().splitlines()[1:31]]
    assert [
        line.rpartition(",")[2] for line in (tmp_path / "secfc-predicted.csv").read_text().splitlines()[1:]
    ] == first


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            "--corrected 1",
            "no meaning for --disclosure centers: nothing is computed on shares. Leave it out, or use",
        ),
        ("--membership private", "whoever holds one knows that it counts"),
        (
            "--epsilon 1",
            "--disclosure centers adds no noise. For a budget use FedDP-KMeans (`secfc dp`), which is "
            "--disclosure centers with noise",
        ),
        ("--floor 60", "--floor 60: 3 clusters, beside the rows of any t=1 of the clients, need 360 rows"),
        ("--k-local 2", "--k-local: clusters are split over the rows of all clients"),
    ],
)
def test_what_centers_have_no_use_for_is_refused(words, why, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in "abc":
        np.savetxt(f"{name}.csv", np.arange(40).reshape(20, 2), delimiter=",", header="x,y", comments="")
    done = run("a.csv", "b.csv", "c.csv", "-k", 3, "--disclosure", "centers", *words.split())
    assert done.exit_code == 2
    assert why in " ".join(done.output.split())


def test_centers_start_by_samples_or_from_the_model_of_an_earlier_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    files = [f"{name}.csv" for name in "abc"]
    for name in files:
        points = 6 * rng.integers(0, 2, (60, 2)) + rng.normal(size=(60, 2))
        np.savetxt(name, points, delimiter=",", header="u,v", comments="")

    def centers(*options):
        done = run(*files, "-k", 4, "--disclosure", "centers", "--force", "--json", *options)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    first = centers("--model", "m.npz")
    again, sampled = centers("--init", "m.npz"), centers("--init", "sampled:40:2")
    (told,) = (one.help for one in program_run.params if one.name == "init")
    centers("--init", *re.findall(r"sampled:\d+:\d+", told))
    assert again["labels_digest"] == first["labels_digest"]
    # Three questions, and a whole start of the sample and steps of all rows.
    assert again["transcript"]["messages"] < first["transcript"]["messages"]
    assert sampled["cost"] == pytest.approx(first["cost"], rel=0.05)
    for options, message in (
        ("--disclosure centers --init bisecting", "--init bisecting is not for --disclosure centers"),
        ("--init sampled", "--init sampled is for --disclosure centers"),
        ("--init m.npz", "--init m.npz is for --disclosure centers"),
        ("--disclosure centers --init none.npz", "none.npz: No such file"),
        ("--disclosure centers --init m.npz --standardize", "leave --standardize out"),
        ("--disclosure centers --init sampled:3", "rows=3 of a sample"),
        ("--disclosure centers --init sampled:", "'sampled:' is not one of"),
    ):
        done = run(*files, "-k", 4, "--force", *options.split())
        assert (done.exit_code, message in " ".join(done.output.split())) == (2, True), done.output
    for name in files:
        (tmp_path / name).write_text((tmp_path / name).read_text().replace("v", "w"))
    done = run(*files, "-k", 4, "--disclosure", "centers", "--init", "m.npz")
    assert "m.npz has 2 columns, not those of these rows: u, v" in " ".join(done.output.split())
    done = invoke("plan", "-n", 3, "-m", 300, "-d", 3, "-k", 4, "--disclosure", "centers", "--init", "m.npz")
    assert "m.npz has 2 columns" in " ".join(done.output.split())
