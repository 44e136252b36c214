"""`secfc run a.csv b.csv --split columns`: files that hold other columns of the same people."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.small import invoke


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Two files of two columns each, of 40 people of 50."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    centers = rng.uniform(-5, 5, (3, 4))
    points = (centers[rng.integers(0, 3, 50)] + rng.normal(size=(50, 4))) * [1, 20, 1, 300]
    for name, columns, header in (("a", [0, 1], "age,bmi"), ("b", [2, 3], "score,income")):
        lines = [
            f"p{i:02d},{points[i, columns[0]]:.3f},{points[i, columns[1]]:.3f}"
            for i in rng.permutation(50)[:40]
        ]
        (tmp_path / f"{name}.csv").write_text("\n".join([f"patient,{header}", *lines, ""]))
    return ["a.csv", "b.csv"]


SPLIT = ["--split", "columns", "--id-column", "patient", "-k", 3]


def test_two_owners_and_a_helper_get_labels_of_lloyd_on_the_joined_table(files):
    done = invoke("run", *files, *SPLIT, "--helper", "--standardize", "--json", "--labels", "out.csv")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["parameters"]["membership"] == "joined"
    assert found["parameters"]["disclosure"] == "own-labels"
    assert found["verified"] is True
    lines = [line.split(",") for line in Path("out.csv").read_text().split()[1:]]
    labels = {who: {name: label for client, _, name, label in lines if client == who} for who in "ab"}
    assert {client for client, *_ in lines} == {"a", "b"}
    both = labels["a"].keys() & labels["b"].keys()
    assert all(labels["a"][name] == labels["b"][name] for name in both)
    assert {name for own in labels.values() for name, label in own.items() if label != "-1"} == both


def test_the_report_says_who_has_which_columns_and_that_labels_tell_of_them(files):
    done = invoke("run", *files, *SPLIT, "--helper", "--verbose")
    assert done.exit_code == 0, done.output
    said = " ".join(done.stdout.split())
    assert (
        "each at one client: a 'age', 'bmi'; b 'score', 'income'; helper none. Any 2 clients together" in said
    )
    assert "labels tell an owner of the columns of others" in said
    assert "which IDs all owners of columns hold" in said


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "2 parties hold columns, t=1 needs 3 that compute: add --helper"),
        (["--membership", "private"], "--split columns and --membership"),
        (
            ["--features", "common"],
            "--split columns and --features common: here all files have other columns",
        ),
        (["--to-range", "--helper"], "--split columns and --to-range: take --standardize"),
        (["--algorithm", "lloyd"], "columns of the same people are joined by secfc alone"),
        (["--on-conflict", "mean", "--helper"], "with --split columns all do: leave it out"),
        (["--reveal-centers", "--helper"], "each computes its part from the labels of its rows"),
    ],
)
def test_what_does_not_go_with_columns_is_refused(files, more, message):
    done = invoke("run", *files, *SPLIT, *more)
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())


def test_columns_need_people_that_are_named_and_stand_in_one_file_each(files):
    done = invoke("run", *files, "--split", "columns", "-k", 3, "--helper")
    assert "no --id-column: say which column names the people" in " ".join(done.output.split())
    done = invoke("run", *files, "-k", 3, "--helper")
    assert "--helper computes for owners of columns: add --split columns" in " ".join(done.output.split())
    Path("b.csv").write_text(Path("b.csv").read_text().replace("score", "age", 1))
    done = invoke("run", *files, *SPLIT, "--helper")
    assert done.exit_code == 2
    assert "a and b both have column 'age', and not all others: each column is at one client" in " ".join(
        done.output.split()
    )


def test_a_plan_tells_what_a_run_of_columns_will_send_and_show():
    words = ["-m", 120, "-d", 5, "-k", 2, "--steps", 2, "--split", "columns"]
    done = invoke("plan", "-n", 2, *words, "--helper", "--standardize", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["plan"]["n"], found["plan"]["m"], found["plan"]["policy"]) == (3, 120, "OwnLabels")
    assert any("of the columns of others what labels tell" in said for said in found["clients_learn"])
    kinds = {line["kind"]: line for line in found["traffic"]}
    assert kinds["RowShares"]["messages"] == 4  # two owners deal to two others each
    assert "KeptRows" in kinds
    done = invoke("plan", "-n", 2, *words)
    assert done.exit_code == 2
    assert "2 parties hold columns, t=1 needs 3 that compute: add --helper" in done.output
    assert "n=3 (not 2)" in done.output
    for more, message in (
        (["-d", 2], "d=2 columns of n=3 clients: each needs one"),
        (["--membership", "open"], "--membership"),
    ):
        done = invoke("plan", "-n", 3, *words, *more)
        assert done.exit_code == 2
        assert message in " ".join(done.output.split())
