"""`secfc run --model` and `secfc predict`: labels of new points as in the run, and budgets are kept."""

import csv

import numpy as np
import pytest

from secfc.data.model_file import ModelFile
from tests.nightly import by_night
from tests.small import invoke

COUNTS = {"a": 12, "b": 15, "c": 20}


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(3)
    paths = []
    for name, count in COUNTS.items():
        points = rng.normal(rng.integers(0, 3, (count, 1)) * 9.0, 1.0, (count, 2)).round(3)
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("id", "x", "y"))
            writer.writerows((f"{name}{i}", *row) for i, row in enumerate(points.tolist()))
        paths.append(str(tmp_path / f"{name}.csv"))
    return paths


def labels(path):
    with open(path) as file:
        return {line["id"]: line["label"] for line in csv.DictReader(file)}


@pytest.mark.parametrize("options", [
    ("--bound", "4000"), ("--standardize", "robust"),
    *by_night(*((("--standardize", "robust", *more),) for more in (
        ("--disclosure", "own-labels"), ("--disclosure", "distances"), ("--disclosure", "final-labels"),
        ("--membership", "private"),
    ))),
])  # fmt: skip
def test_the_points_of_a_run_get_their_labels_again(files, tmp_path, monkeypatch, options):
    model, first, second = tmp_path / "m.npz", tmp_path / "first.csv", tmp_path / "second.csv"
    words = ("run", *files, "-k", 3, "--id-column", "id", "--no-attack", "--model", model)
    words += ("--labels", first)
    done = invoke(*words, "--report", tmp_path / "r.json", *options)
    assert done.exit_code == 0, done.output
    assert model.stat().st_mode & 0o777 == 0o600
    done = invoke("predict", model, *files, "--id-column", "id", "--out", second)
    assert done.exit_code == 0, done.output
    assert labels(second) == labels(first)
    assert "far outside" not in done.output
    monkeypatch.chdir(tmp_path)
    for name in ("secfc-predicted.csv", "secfc-predicted-2.csv"):  # a second run keeps the first's file
        assert f"written to {name}\n" in invoke("predict", model, *files, "--id-column", "id").output
        assert labels(tmp_path / name) == labels(first)
    # A row of another kind is labeled, with a note, also where no common scale says what is far.
    with open(files[1], "a") as file:
        file.write("far,7.9,1900\n")
    done = invoke("predict", model, files[1], "--id-column", "id", "--out", tmp_path / "third.csv")
    assert done.exit_code == 0, done.output
    assert "rows has a value more than" in done.output


def test_new_points_of_one_client_budgets_and_wrong_files(files, tmp_path):
    model, out = tmp_path / "m.npz", tmp_path / "out.csv"
    way = ("run", *files, "-k", 3, "--init", "random", "--id-column", "id", "--no-attack")
    words = (*way, "--labels", tmp_path / "l.csv")
    assert invoke(*words, "--report", tmp_path / "r.json", "--model", model).exit_code == 0
    new = tmp_path / "next"
    new.mkdir()
    rows = (tmp_path / "b.csv").read_text().splitlines()
    (new / "b.csv").write_text("\n".join(["y,x,id", *(",".join(row.split(",")[::-1]) for row in rows[1:4])]))
    done = invoke("predict", model, new / "b.csv", "--id-column", "id", "--out", out)
    assert done.exit_code == 0, done.output
    known = labels(tmp_path / "l.csv")  # columns are matched by name
    assert labels(out) == {name: known[name] for name in ("b0", "b1", "b2")}
    (new / "b.csv").rename(new / "march.csv")
    named = ("predict", model, new / "march.csv", "--id-column", "id", "--out", tmp_path / "march-labels.csv")
    done = invoke(*named)
    assert done.exit_code == 2
    assert "--client" in done.stderr
    for wrong in ("nobody", "b,b", "a,b"):
        done = invoke(*named, "--client", wrong)
        assert done.exit_code == 2
        assert "a client of the run is needed for each" in done.stderr
    assert invoke(*named, "--client", "b").exit_code == 0
    assert labels(tmp_path / "march-labels.csv") == labels(out)
    (new / "march.csv").rename(new / "b.csv")
    left = ModelFile.read(model).facts["model"]["left"]
    assert set(left.values()) == {10 * sum(COUNTS.values()) - 10}  # with a row of zeros of each other client
    for _ in range(10):
        done = invoke("predict", model, *files, "--id-column", "id", "--out", out, "--force")
    assert done.exit_code == 1
    assert "new points to be labeled" in done.stderr
    for wrong, why in (
        (("predict", files[0], files[0]), "is no model"),
        (("predict", model, new / "b.csv", files[0], files[2], "--out", out), "exists already"),
        (("predict", model, tmp_path / "l.csv", "--out", tmp_path / "o.csv"), "'x'"),
        (("predict", tmp_path / "none", files[0]), "No such file"),
    ):
        done = invoke(*wrong)
        assert done.exit_code == 2
        assert why in done.stderr
    noisy = invoke(*words, "--epsilon", 5, "--radius", 30, "--force", "--model", tmp_path / "n.npz")
    assert noisy.exit_code == 2
    assert "no model that could be kept" in noisy.output + noisy.stderr


def test_columns_of_text_are_those_of_the_run(tmp_path):
    files = []
    for name, cities in (("a", "rome bonn"), ("b", "bonn kiel"), ("c", "rome kiel")):
        files.append(tmp_path / f"{name}.csv")
        rows = [f"{city},{5 * i}" for i, city in enumerate(cities.split() * 3)]
        files[-1].write_text("\n".join(["city,age", *rows]) + "\n")
    model, out = tmp_path / "model.npz", tmp_path / "new.csv"
    run = ("run", *files, "-k", 2, "--categorical", "city", "--model", model, "--labels", tmp_path / "l.csv")
    assert invoke(*run, "--report", tmp_path / "r.json").exit_code == 0
    done = invoke("predict", model, *files, "--out", out)
    assert done.exit_code == 0, done.output
    assert out.read_text() == (tmp_path / "l.csv").read_text()
    new = tmp_path / "next.csv"
    new.write_text("age,city\n3,paris\n")
    done = invoke("predict", model, new, files[1], files[2], "--out", tmp_path / "o.csv")
    assert done.exit_code == 2
    assert "column 'city': the value is none of the 3 categories" in done.stderr
    assert "paris" not in done.stderr
