"""The benchmark of partly shared features on a small data set of its own: its rows, and its judges."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks import overlap, splits


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Four Gaussians at ten clients in place of DIM-128."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    truth = np.arange(240) % 4
    points = 200 * rng.permutation(np.arange(4 * 40)).reshape(4, 40)[truth] + rng.normal(size=(240, 40))
    np.savez(folder / "dimsets.npz", dim128_X=points, dim128_y=truth + 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(splits.CLIENTS, "dim", (10, 4))
        yield folder
    overlap.data_of.cache_clear()


def test_one_split(folder):
    cell = {"data": "dim", "split": "A1", "rule": "ranked", "seed": 1}
    for part, exact in (("starts", "Synchronized"), ("distances", "Synchronized, distances")):
        of = {row["method"]: row for row in overlap.measure({**cell, "part": part}, folder)}
        assert (of[exact]["E1"], of[exact]["accuracy"]) == (1, 100)
        lines = list(overlap.summary([{"cell": cell, **row} for row in of.values()]))
        assert [line[1] for line in lines] == list(of)


def test_centers_are_judged_by_means_over_those_who_observe_a_feature():
    """Equation 1: where clients differ, means over all rows are others than any method could find."""
    parts = [np.array([[0.0, 1.0], [9.0, 8.0]]), np.array([[4.0, 5.0], [9.0, 8.0]])]
    mask = np.array([[True, False], [True, True]])
    split = splits.Problem(parts, [np.array([0, 1])] * 2, mask, 2)
    means, counts = overlap.masked_means(split)
    assert means.tolist() == [[2.0, 5.0], [9.0, 8.0]]
    assert counts.tolist() == [[2, 1], [2, 1]]

    class Found:
        k, features, centers = 2, ("f0000", "f0001"), means[::-1]

    assert overlap.e3(split, Found) == pytest.approx({"E3 distance": 0, "E3 cosine": 1, "lacking": 0})
    # Means over complete rows, which were taken here before, are a fifth of a norm off.
    Found.centers = np.array([[2.0, 3.0], [9.0, 8.0]])
    assert overlap.e3(split, Found)["E3 distance"] == pytest.approx(np.sqrt(4 / 29) / 2)


@pytest.fixture(scope="module")
def rows(folder):
    """Rows of one split of every kind, as the script writes them."""
    command = ["--data", folder, "--set", "dim", "--rule", "ranked", "--runs", 1, "--out", folder / "rows"]
    done = CliRunner().invoke(overlap.main, list(map(str, command)), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "Accuracy in percent" in done.output
    return [json.loads(line) for line in (folder / "rows").read_text().splitlines()]


@pytest.mark.nightly
def test_every_method_has_a_row_on_every_split(rows):
    found = {}
    for row in rows:
        found.setdefault(row["cell"]["split"], {})[row["method"]] = row
    assert set(found) == {"A1", "A2", "circle"}
    methods = {
        "Assumption 8", "ceiling", "k-means, complete data", *overlap.STARTS, "rows told by sums", "a step",
        "from the truth", "random starts", "k-means, means for gaps", "Algorithm 1, A", "Algorithm 1, B",
        "Algorithm 2, as printed", "Algorithm 2, one a client", "Algorithm 2, moments",
        "Algorithm 2, over all pairs", "Synchronized, distances",
    }  # fmt: skip
    assert all(set(of) == methods for of in found.values())
    for split in ("A1", "A2"):
        of = found[split]
        for name in ("Synchronized", "Synchronized, distances", "Constrained", "Algorithm 2, moments"):
            assert (of[name]["E1"], of[name]["accuracy"]) == (1, 100)
            assert of[name]["E3 distance"] < 0.01 < 0.999 < of[name]["E3 cosine"]
        assert of["a step"]["MB"] > 0
    assert found["circle"]["Synchronized"]["refused"] == found["circle"]["Synchronized, distances"]["refused"]
    # What must fail does.
    assert found["A1"]["random starts"]["accuracy"] < 90


@pytest.mark.nightly
def test_the_judge_of_rows_knows_rows_from_other_values(rows):
    for row in rows:
        if row["method"] == "rows told by sums":
            assert row["guesses"] >= row["true"] >= row["rows"] >= 0
            assert row["of"] == 240
