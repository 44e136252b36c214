"""`secfc check` refuses what `secfc run` refuses, all of it at once, and says what columns hold."""

from __future__ import annotations

import json
import shlex
import socket
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from secfc.data.dialects import Dialect
from secfc.data.profiles import find_placeholders, profile_file
from secfc.data.row_reader import WantedColumns
from tests.secfc.data.test_doubts import CLEAR, DOUBTS
from tests.small import invoke


def written(folder: Path, text: str, encoding: str = "utf-8", names: str = "abc") -> list[str]:
    for name in names:
        (folder / f"{name}.csv").write_bytes(text.encode(encoding))
    return [str(folder / f"{name}.csv") for name in names]


def runs(folder: Path, paths: list[str], *more: str) -> int:
    out = ["--labels", str(folder / "l.csv"), "--report", str(folder / "r.json"), "--force"]
    return invoke("run", *paths, "-k", "2", "--init", "random", *out, *more).exit_code


EXPORT = "PatID;Aufnahme;Sex;Größe;CRP;Raucher;Hb\n" + "".join(
    f"p{i};2024-03-{1 + i % 9:02};{'wm'[i % 2]};{160 + i % 23},5;{'<5' if i % 7 == 0 else f'{i % 11},1'};"
    f"{'ja' if i % 3 else 'nein'};{'' if i % 8 == 0 else f'{11 + i % 4},2'}\n"
    for i in range(40)
)


@pytest.mark.parametrize("around", [("", ""), ("Laborbericht\nStand: heute\n\n", "Summe;;;;;;\n")])
def test_an_export_takes_two_commands(tmp_path: Path, around: tuple[str, str]) -> None:
    """All faults stand in one answer, with options that a run then takes as they are."""
    paths = written(tmp_path, around[0] + EXPORT + around[1], "cp1252")
    assert runs(tmp_path, paths) == 2
    found = invoke("check", *paths, "--json")
    assert found.exit_code == 2
    told = json.loads(found.stdout)
    assert {fault["column"] for fault in told["faults"]} >= {
        "PatID",
        "Aufnahme",
        "Sex",
        "CRP",
        "Raucher",
        "Hb",
    }
    assert any("--encoding" in fault["options"] for fault in told["faults"])
    skipped = [option for fault in told["faults"] for option in fault["options"] if "--skip" in option]
    assert len(skipped) == 2 * bool(around[0])  # what stands above the table, and the sum below it
    assert all(fault["files"] == paths for fault in told["faults"])
    proposal = shlex.split(" ".join(told["proposal"]))
    assert runs(tmp_path, paths, *proposal) == 0
    assert json.loads(invoke("check", *paths, "--json", *proposal).stdout)["accepted"]


CASES = {name: text for name, (text, *_) in {**DOUBTS, **CLEAR}.items()} | {
    "an empty file": "", "a header alone": "x,y\n", "a gap": "x,y\n1,\n2,3\n", "one value": "x,y\n1,1\n1,1\n",
    "another width": "x,y\n1,2,3\n1,2\n", "two columns of one name": "x,x\n1,2\n",
    "beyond floats": "x,y\n12345678901234567,1\n2,3\n", "an infinite number": "x,y\ninf,1\n2,3\n",
    "an outlier": "x,y\n" + "".join(f"{i}.5,{1e12 if i == 7 else i}\n" for i in range(30)),
}  # fmt: skip


@pytest.mark.parametrize("kind", CASES)
def test_check_refuses_what_run_refuses(tmp_path: Path, kind: str) -> None:
    paths = written(tmp_path, CASES[kind])
    assert invoke("check", *paths).exit_code == runs(tmp_path, paths), kind


def test_outliers_come_with_a_scale_that_they_do_not_move(tmp_path: Path) -> None:
    """Proposed where it is not given, and where another scale is none; of clean columns not."""
    text = "x,y\n" + "".join(f"{i}.5,{i % 2}.25\n" for i in range(30))
    clean, spoiled = written(tmp_path, text, names="abc"), text + "1e6,0.25\n"
    assert "--standardize" not in invoke("check", *clean).output
    paths = written(tmp_path, spoiled, names="abc")
    advice = "--standardize robust --outside missing --missing mean"
    for line in ("", "--standardize", "--standardize robust", advice):
        done = invoke("check", *paths, *line.split())
        assert done.exit_code == 2 * ("robust" not in line)  # one cell leaves the others no steps
        assert "far beyond most others" in done.output
        assert (advice in " ".join(done.output.split())) == (line != advice)
    assert " ".join(json.loads(invoke("check", *paths, "--json").stdout)["proposal"]) == advice
    gaps = written(tmp_path, spoiled + ",1.25\n", names="abc")
    proposal = json.loads(invoke("check", *gaps, "--json").stdout)["proposal"]
    assert runs(tmp_path, gaps, *shlex.split(" ".join(proposal))) == 0


def test_what_is_advised_of_one_extreme_cell_finds_the_clusters_of_the_clean_data(tmp_path: Path) -> None:
    """By the proposal, and by the note of the run that keeps the cell at the limit, with k = 2."""
    rng = np.random.default_rng(1)
    clean = np.repeat([[0.0, 0.0], [3.0, 2.0]], 60, axis=0) + rng.normal(0, 0.4, (120, 2))
    spoiled = clean.copy()
    spoiled[7, 1] = 1e9
    paths = [str(tmp_path / f"{name}.csv") for name in "abc"]

    def labels_of(points: np.ndarray, *more: str) -> list[int]:
        for i, path in enumerate(paths):
            pd.DataFrame(points[i::3], columns=["x", "y"]).to_csv(path, index=False)
        assert runs(tmp_path, paths, "--seed", "1", *more) == 0
        return pd.read_csv(tmp_path / "l.csv")["label"].tolist()

    def same_split(one: list[int], other: list[int]) -> bool:
        return len(set(zip(one, other, strict=True))) == 2

    right = labels_of(clean, "--standardize", "robust")
    advice = "--standardize robust --outside missing --missing mean"
    labels_of(spoiled, "--standardize", "robust")
    notes = json.loads((tmp_path / "r.json").read_text())["notes"]
    assert any(advice in note for note in notes)
    proposal = json.loads(invoke("check", *paths, "--json").stdout)["proposal"]
    assert " ".join(proposal) == advice
    assert same_split(right, labels_of(spoiled, *advice.split()))


def test_files_that_were_copied_cut_off_or_hold_days_are_noted_by_check_and_run(tmp_path: Path) -> None:
    text = "x,visit_date\n" + "".join(f"{i % 7}.5,{43000 + i % 9}\n" for i in range(30))
    paths = written(tmp_path, text)
    Path(paths[2]).write_text(text.replace("0.5", "1.5") + "3.10,43001")

    assert runs(tmp_path, paths, "--standardize") == 0
    told = json.loads((tmp_path / "r.json").read_text())["notes"]
    told = " ".join(told + json.loads(invoke("check", *paths, "--json", "--standardize").stdout)["notes"])
    for piece in (f"{paths[0]} and {paths[1]} hold the same", f"{paths[2]} ends within its last line",
                  "'visit_date': whole numbers of 30,000 to 60,000"):  # fmt: skip
        assert told.count(piece) == 2, piece
    Path(paths[1]).write_text(text.replace("0.5", "2.5").replace("visit_date", "y"))
    Path(paths[0]).write_text(text.replace("visit_date", "y"))
    Path(paths[2]).write_text(text.replace("0.5", "1.5").replace("visit_date", "y"))
    assert not json.loads(invoke("check", *paths, "--json", "--standardize").stdout)["notes"]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "x,y\n1.5,2\n\u22123.10,1\n2.5,3\n", "the cell begins with U+2212"),
        ("a.csv", "\n<!DOCTYPE html>\n<html><table>", "is a page of HTML"),
        ("a.xls", "<html><table>", "is a page of HTML"),
        ("a.xlsx", "<table>", "is a page of HTML"),
    ],
)
def test_what_only_looks_like_numbers_or_a_table_is_named(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    found = json.loads(invoke("check", str(tmp_path / name), "--json").stdout)
    assert said in found["faults"][0]["text"]
    assert found["proposal"] is None
    assert not any("column" in note for note in found["notes"])


def test_check_says_where_a_fault_kept_it_from_cells(tmp_path: Path) -> None:
    for text, told in (("x,x\n1,2\nabc,3\n", True), ("x,y\n1,2\nabc,3\n", False)):
        (path,) = written(tmp_path, text, names="a")
        notes = json.loads(invoke("check", path, "--json").stdout)["notes"]
        assert any("were not looked at" in note for note in notes) is told


def test_a_site_checks_its_file_alone_and_without_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("no network is needed")

    monkeypatch.setattr(socket, "socket", refuse)
    (path,) = written(tmp_path, "x,y\n1.5,2\n2,3\n4,4\n", names="a")
    for more in ([], ["--standardize"], ["--missing", "mean", "--standardize"]):
        assert invoke("check", path, *more).exit_code == 0
    assert invoke("check", path, "--standardize", "--to-range").exit_code == 2


def test_the_profile_is_that_of_pandas(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"age": rng.integers(20, 90, 50), "crp": rng.lognormal(size=50), "sex": rng.choice(["f", "m"], 50)}
    )
    frame.loc[::7, "crp"] = np.nan
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    for name in ("a.csv", "a.parquet"):
        (site,), dialect = profile_file(tmp_path / name, WantedColumns(None, None, None, None))
        assert (site.rows, dialect) == (50, Dialect())
        for column in site.columns:
            have, want = frame[column.name], frame[column.name].describe()
            assert column.rows - column.missing == want["count"]
            assert column.distinct == have.nunique()
            if column.name == "sex":
                assert dict(column.words) == have.value_counts().to_dict()
                continue
            figures = (column.least, *column.quartiles, column.most, column.mean)
            np.testing.assert_allclose(figures, want[["min", "25%", "50%", "75%", "max", "mean"]])
            np.testing.assert_allclose(column.deviation, have.std(ddof=0))


def test_different_whole_numbers_at_one_site_are_no_ids_where_they_repeat_at_another(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.csv", "b.csv")]
    for file, age in zip(files, (range(30, 42), [30, 31] * 6), strict=True):
        file.write_text("key,age\n" + "".join(f"{i},{n}\n" for i, n in enumerate(age, 100)))
    for some, holds in ((files, "numbers"), (files[:1], "IDs")):
        found = json.loads(invoke("check", *some, "--json").stdout)
        kinds = [{c["name"]: c["holds"] for c in site["columns"]} for site in found["sites"]]
        assert kinds == [{"key": "IDs", "age": holds}] * len(some)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([40, 50, 61, 72, 999], {999: 1}),
        ([40, 50, 61, 72, 777, 777, 777], {777: 3}),
        ([40, 50, 61, 72, 777], {}),  # one value that is no code may be true
        ([3, 4, 8, 12, -9, -9], {-9: 2}),
        ([-20, -12, 3, 8, -9, -9], {}),  # other values are below 0 too
        ([96, 97, 98, 99, 99], {}),
        ([0, 0, 1, 1, 1], {}),
    ],
)
def test_numbers_that_may_stand_for_nothing(values: list[float], found: dict[float, int]) -> None:
    distinct, counts = np.unique(np.array(values, float), return_counts=True)
    assert dict(find_placeholders(distinct, counts)) == found


def test_notes_name_options_that_help(tmp_path: Path) -> None:
    """Placeholders, IDs, constants and other units are noted, and not once their option is given."""
    rows = "".join(f"{i},{999 if i % 10 == 0 else 30 + i % 23},5,{70 + i % 20}\n" for i in range(1, 41))
    a, b, c = written(tmp_path, f"number,age,unit,weight\n{rows}")
    grams = "".join(f"{i},{30 + i % 23},5,{1000 * (70 + i % 20)}\n" for i in range(1, 41))
    Path(c).write_text(f"number,age,unit,weight\n{grams}")
    notes = " ".join(json.loads(invoke("check", a, b, c, "--json").stdout)["notes"])
    assert "column 'age': 999 stands apart" in notes
    assert "a 4, b 4." in notes
    assert "'number': every row of a site has another whole number" in notes
    assert "'unit': all values are the same" in notes
    assert "'weight' spreads 1,000 times as wide at c as at a" in notes
    for option in ("--absent age=999", "--id-column number", "--exclude unit"):
        assert option in notes
    more = shlex.split("--absent age=999 --id-column number --exclude unit --missing drop")
    notes = " ".join(json.loads(invoke("check", a, b, c, "--json", *more).stdout)["notes"])
    assert "may stand for nothing" not in notes
    assert "as IDs have" not in notes
    assert "the same, so" not in notes
    assert "'weight' spreads 1,000 times" in notes


def test_the_screen_fits_80_columns_and_shows_categories(tmp_path: Path) -> None:
    paths = written(tmp_path, EXPORT, "cp1252")
    shown = invoke("check", *paths, env={"COLUMNS": "80"}).output
    assert max(map(len, shown.splitlines())) <= 80
    assert "Sex: w (20), m (20)" in shown
    assert "Proposal" in shown
