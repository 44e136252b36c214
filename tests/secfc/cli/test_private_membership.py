"""`secfc run --membership private`: exactness over the union, refusals, disputes, and what it says."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import psu
import secfc
from secfc import metrics, report
from secfc.coded_kmeans.parameters import choose_code
from tests.small import run

FILES = ("a.csv", "b.csv", "c.csv")
PRIVATE = ("-k", "3", "--membership", "private")
IDS = ("--id-column", "pid")


def write(name: str, rows: list[int], points: Any, kinds: Any) -> None:
    lines = [f"P{i:02d},{points[i, 0]:.3f},{points[i, 1]:.3f},{kinds[i]}" for i in rows]
    Path(name).write_text("pid,age,weight,kind\n" + "\n".join(lines) + "\n")


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """Three hospitals that share some of 30 patients: which patients each has."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    kinds = np.arange(30) % 3
    points = np.array([[0, 0], [30, 5], [5, 30]])[kinds] + rng.normal(size=(30, 2))
    own = {"a": list(range(0, 16)), "b": list(range(10, 26)), "c": [3, 12, *range(20, 30)]}
    for name, rows in own.items():
        write(f"{name}.csv", rows, points, kinds)
    return own


def labels() -> list[dict[str, str]]:
    with open("secfc-labels.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("ids", [IDS, ("--columns", "age,weight")], ids=["column", "rows"])
def test_a_point_that_several_hold_counts_once_and_is_verified(
    held: dict[str, list[int]], ids: tuple[str, ...]
) -> None:
    result = run(*FILES, *PRIVATE, *ids, "--label-column", "kind", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["verified"] is True
    assert (found["m"], found["points_held"]) == (30, 44)
    assert sum(found["cluster_sizes"]) == 30
    assert (found["parameters"]["membership"], found["parameters"]["merge"]) == ("private", True)
    assert found["parameters"]["id_column"] == ("pid" if ids == IDS else None)
    assert {"UnionTags", "Multiplicities"} <= set(found["transcript"]["by_direction"]["server -> client"])
    by_patient: dict[int, set[str]] = {}
    lines = iter(labels())
    for rows in held.values():
        for row, patient in enumerate(rows):
            line = next(lines)
            assert line["row"] == str(row)
            by_patient.setdefault(patient, set()).add(line["label"])
    assert all(len(found) == 1 for found in by_patient.values())


def test_the_scores_are_those_of_each_point_once(held: dict[str, list[int]]) -> None:
    result = run(*FILES, *PRIVATE, *IDS, "--label-column", "kind", "--json", "--max-iter", "1")
    found = json.loads(result.stdout)
    once = {}
    lines = iter(labels())
    for rows in held.values():
        once |= {patient: int(next(lines)["label"]) for patient in rows}
    truth = np.array([patient % 3 for patient in once])
    assert found["truth"]["accuracy"] == metrics.accuracy(truth, np.array(list(once.values())))


def test_a_wrong_label_of_one_client_is_noticed(
    held: dict[str, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def tamper(secure: Any, plain: Any) -> Any:
        secure.labels[1][0] = (secure.labels[1][0] + 1) % 3
        return compare(secure, plain)

    compare = report.compare_labelings
    monkeypatch.setattr(report, "compare_labelings", tamper)
    result = run(*FILES, *PRIVATE, *IDS)
    assert result.exit_code == 1
    assert "NOT EXACT" in result.stdout
    assert not Path("secfc-labels.csv").exists()


def test_the_comparison_is_with_the_union_in_row_order(
    held: dict[str, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Positive control: the same points in another order are another problem from the same random start.
    def reversed_rows(federation: Any, result: Any) -> secfc.Federation:
        return secfc.Federation.from_arrays([pooled(federation, result).stacked()[::-1]])

    pooled = report.pool_points
    monkeypatch.setattr(report, "pool_points", reversed_rows)
    result = run(*FILES, *PRIVATE, *IDS, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["verified"] is False


def test_the_text_says_what_is_hidden_and_what_is_opened(held: dict[str, list[int]]) -> None:
    named = " ".join(run(*FILES, *PRIVATE, *IDS).stdout.split())
    for phrase in (
        "m = 30 points (the union of 44 rows)",
        "rows with equal IDs (column 'pid') are one point",
        "all 30 points",
        "What private membership hides - which client holds which point",
        "each of these belongs to some of the other 2 clients",
        "to all: how many clients hold each point (not which)",
        "find the union of the IDs",
        "pseudonyms of the union",
        "the same --seed gives other starts",
    ):
        assert phrase in named, phrase
    rows = " ".join(run(*FILES, *PRIVATE, "--columns", "age,weight", "--force").stdout.split())
    assert "no ID column was named, so the rows themselves are the IDs" in rows
    assert "test of a guessed row" in rows
    plain = run(*FILES, "-k", "3", "--columns", "age,weight", "--force").stdout
    assert "private membership" not in plain
    assert "union" not in plain


def test_without_merging_nothing_is_opened_and_ids_must_be_disjoint(held: dict[str, list[int]]) -> None:
    result = run(*FILES, *PRIVATE, *IDS, "--no-merge")
    assert result.exit_code == 2
    assert "client 'a', row 10 and client 'b', row 0 (counted from 0) have the same ID" in result.stderr
    assert "P10" not in result.stderr
    for name, rows in {"a": range(0, 10), "b": range(10, 20), "c": range(20, 30)}.items():
        write(f"{name}.csv", list(rows), np.arange(60.0).reshape(30, 2), np.zeros(30, int))
    found = json.loads(run(*FILES, *PRIVATE, *IDS, "--label-column", "kind", "--no-merge", "--json").stdout)
    assert found["verified"] is True
    assert "Multiplicities" not in found["transcript"]["by_direction"]["server -> client"]
    assert not any("how many clients hold" in fact for fact in found["membership"]["opened"])


def test_different_data_for_one_id_end_with_1_and_name_the_places(held: dict[str, list[int]]) -> None:
    lines = Path("b.csv").read_text().splitlines()
    lines[3] = "P12,99.0,99.0,0"  # row 2; client a has it in row 12
    Path("b.csv").write_text("\n".join(lines) + "\n")
    result = run(*FILES, *PRIVATE, *IDS, "--label-column", "kind")
    assert result.exit_code == 1
    assert "1 ID has different data at different holders" in result.stderr
    assert "client 'a', row 12 and client 'b', row 2 (counted from 0) have the same ID" in result.stderr
    assert not Path("secfc-labels.csv").exists()


def test_a_union_that_fails_ends_with_1(held: dict[str, list[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (
        secfc.UnionFailed("the union of IDs failed: b is silent", ("b",), False),
        psu.UnionAborted("b is silent", [1]),
    ):

        def fit(*_: Any, _error: Exception = error, **__: Any) -> Any:
            raise _error

        monkeypatch.setattr("secfc.pipeline.fit", fit)
        result = run(*FILES, *PRIVATE, *IDS)
        assert result.exit_code == 1
        assert "failed: b is silent" in result.stderr


BAD = [
    ("-k 3 --membership private -t 0", "needs t of at least 1"),
    ("-k 3 --membership private --algorithm lloyd", "--membership has no meaning for --algorithm lloyd"),
    ("-k 3 --membership private --algorithm k-fed", "--membership has no meaning"),
    ("-k 3 --no-merge", "no meaning for --membership open"),
    ("-k 45 --membership private", "k=45 clusters of m=44 points"),
    ("-k 31 --membership private", "k=31 clusters of m=30 points"),
    ("-k 3 --membership private -t 2", "Lower ell or t, or add clients"),
    ("-k 3 --membership private --bound 3", "outside the public bound"),
    ("-k 3 --membership private --scale 1e30", "lower the scale"),
    ("-k 3 --membership closed", "'--membership'"),
]


@pytest.mark.parametrize(("line", "message"), BAD, ids=[line for line, _ in BAD])
def test_what_cannot_be_is_refused(held: dict[str, list[int]], line: str, message: str) -> None:
    result = run(*FILES, "--columns", "age,weight", *line.split())
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("n", range(3, 60))
def test_the_default_t_is_one_a_union_can_be_found_for(n: int) -> None:
    t = choose_code(n, None, None)[0]
    assert psu.UnionPlan(n, psu.Committee(t), bytes(16)).dealt == (t > 5)


def test_the_demonstration_runs_privately() -> None:
    result = run("--membership", "private", "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["verified"] is True
    assert found["m"] == 732
