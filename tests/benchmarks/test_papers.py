"""The page of the papers' tables and figures is made of its rows, and its verdicts can be either."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks import overlap, papers
from benchmarks.common import read_rows
from benchmarks.dp_methods import FRONTS
from benchmarks.exhibits import EXHIBITS, FILES, close, finds_stars, front_of

pytest.importorskip("matplotlib")
DOCS = Path(__file__).parents[2] / "docs"


def write_page(folder, *arguments):
    done = CliRunner().invoke(papers.main, [*arguments, "--out", str(folder)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return (folder / "papers.md").read_text()


def test_the_page_is_what_its_rows_say():
    """If this fails: python -m benchmarks.papers --only feddp-table-1, which writes the whole page."""
    rows = read_rows(DOCS / "papers.jsonl")
    page = papers.write_page(rows)
    assert (DOCS / "papers.md").read_text() == page
    # Every row is of a cell that the page asks for, and was measured once.
    cells = {json.dumps(row["cell"], sort_keys=True) for row in rows}
    asked = {
        json.dumps({"script": e.script, **cell}, sort_keys=True) for e in EXHIBITS for cell in e.cells(False)
    }
    assert cells <= asked
    assert papers.write_page([]).count("| reproduced |") == 0


def test_a_verdict_follows_its_rows():
    line = close("Lloyd", (88.2, 5.5), "accuracy", "of the box", times=100, algorithm="Lloyd", k_=2)
    exhibit = EXHIBITS[0]

    def verdict(*values):
        cell = {"script": "accuracy", "k'": 2}
        rows = [{"cell": cell, "algorithm": "Lloyd", "accuracy": value} for value in values]
        return papers.verdict_of(exhibit, line, rows)

    assert verdict(0.88, 0.89) == ("88.5 ± 0.5 (2)", "reproduced", "")
    assert verdict(0.70, 0.71) == ("70.5 ± 0.5 (2)", "not, because", "of the box")
    assert verdict(*(0.55, 0.85) * 5)[1] == "not, because"  # runs that scatter reproduce nothing
    assert verdict()[1] == "not run yet"
    for one in EXHIBITS:
        for each in one.lines:
            assert each.why, (one.name, each.what)
            absent = "not run: data absent" if one.needs else "not run yet"
            assert papers.verdict_of(one, each, [])[1] == absent


def test_of_sets_of_clusters_attraction_alone_finds_the_true_one():
    rows = [{"cell": {}, **row} for row in overlap.linkages()]
    assert finds_stars(rows)[1]
    rows[0]["merged"] = "stars"
    assert not finds_stars(rows)[1]


def test_a_front_has_what_nothing_cheaper_beats():
    names = list(FRONTS)[:3]
    cells = [(names[0], 1.0, 0.5), (names[1], 1.0, 0.4), (names[2], 2.0, 0.45), (names[0], 4.0, 0.1)]
    rows = [{"cell": {"method": m, "epsilon": e}, "excess": x} for m, e, x in cells]
    assert front_of(rows, {}) == [FRONTS[names[1]], FRONTS[names[0]]]


def test_what_is_there_is_not_measured_again(tmp_path, monkeypatch):
    page = write_page(tmp_path, "--quick", "--only", "slides-experiment-2")
    assert "| rebuilt (cosine near 1) | cosine 1.000, blind guess 0.999 | reproduced |" in page
    assert (tmp_path / "pictures" / "papers_time.svg").exists()
    for pattern, source in FILES.values():
        assert f"| not run: data absent | `{pattern}`: {source} |" in page
    calls = []
    monkeypatch.setattr(papers, "measure", lambda *a: calls.append(a) or [])
    monkeypatch.setattr(papers, "draw_pictures", lambda *a: None)  # seconds
    assert write_page(tmp_path, "--quick", "--only", "slides-experiment-2") == page
    assert not calls
    write_page(tmp_path, "--quick", "--only", "slides-experiment-2", "--again")
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "table-9"], "--only table-9 is no table or figure: there are secfc-table-1"),
        (["--quick"], "--quick writes no page of docs: name a folder with --out"),
    ],
)
def test_what_cannot_be_run_is_refused(arguments, message):
    done = CliRunner().invoke(papers.main, arguments)
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())


@pytest.mark.nightly
def test_all_of_it_runs_in_small(tmp_path):
    page = write_page(tmp_path, "--quick")
    for exhibit in EXHIBITS:
        if not exhibit.needs and any(True for _ in exhibit.cells(True)):
            assert papers.rows_of(exhibit, read_rows(tmp_path / "papers.jsonl"), quick=True), exhibit.name
    assert page.count("| reproduced |") > 5
