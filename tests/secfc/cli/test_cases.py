"""Files that users of other software had trouble with, one of each kind: right clusters, or what is asked.

A row has the files of three clients, the words behind `secfc run`, and what comes of it: points in each
cluster and its center, and what is noted; or the words by which it is refused.  Where a refusal asks, the
next rows are its answers.  Row numbers beside gaps stand in `tests/secfc/data/test_doubts.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.small import invoke


class Case(NamedTuple):
    """A kind, what is run, and what is right."""

    files: Any  # a text for all clients, one for each, or rows of workbooks
    words: str
    sizes: list[int] | None = None
    centers: list[list[float]] | None = None
    says: str = ""
    name: str = "csv"


PLAIN = [[2, 0.5], [42, 9.5]]
READ = [6, 6]
TWO = "1,0.5\n3,0.5\n41,9.5\n43,9.5\n"
BLANKS, SEMICOLONS = TWO.replace(",", " "), TWO.replace(",", ";")
PEOPLE = [
    "people;stage\n940;1\n1.040;1\n",
    "people;stage\n980;1\n4.800;1\n",
    "people;stage\n1.000;1\n5.200;1\n",
]
NAMIBIA = "land,age\n" + "NA,1\nZA,21\nDE,41\n" * 4
GAPS = "x,y\n1,2\n,9\n3,2\n41,8\n43,\n"
CASES: dict[str, list[Case]] = {
    "names of columns that count": [
        Case("0,1\n" + TWO, "", says="--header"),
        Case("0,1\n" + TWO, "--header", READ, PLAIN),
        Case("0,1\n" + TWO, "--no-header", [6, 9], [[42, 9.5], [4 / 3, 2 / 3]]),
    ],
    "one header and one row": [Case("0,1\n1,.5\n41,9.5\n", "--header", [3, 3], [[1, 0.5], [41, 9.5]])],
    "points among whole numbers": [
        Case(PEOPLE, "", says="--thousands ."),
        Case(PEOPLE, "--thousands .", [2, 4], [[5000, 1], [990, 1]]),
    ],
    "commas that group thousands": [
        Case('cost,age\n"3,100",3\n"7,100",23\n', "", says="--thousands ,"),
        Case('cost,age\n"3,100",3\n"7,100",23\n', "--thousands ,", [3, 3], [[3100, 3], [7100, 23]]),
    ],
    "apostrophes that group thousands": [
        Case("x,y\n1'100.5,1\n2'100.5,1\n", "", [3, 3], [[1100.5, 1], [2100.5, 1]])
    ],
    "percentages": [Case("x,y\n1%,1\n41%,2\n", "", says="is a percentage")],
    "a category that is called NA": [
        Case(NAMIBIA, "-k 3 --categorical land=NA|ZA|DE --missing drop", [12, 12, 12],
             [[1, 1, 0, 0], [21, 0, 1, 0], [41, 0, 0, 1]]),
    ],
    "a client that is called NA": [
        Case(["who,x\nNA,1\nNA,41\nZA,3\nZA,43\nDE,2\nDE,42\n"], "--client-column who", [3, 3], [[2], [42]])
    ],
    "rows that are left out": [
        Case(GAPS, "--missing drop", [3, 6], [[2, 2], [41, 8]], "6 of 15 rows miss a value")
    ],
    "a word for nothing": [
        Case("x,y\n?,1\n" + TWO, "--missing drop", says="--absent"),
        Case("x,y\n?,1\n" + TWO, "--missing drop --absent ?", READ, PLAIN, "3 of 15 rows"),
    ],
    "an error cell": [
        Case([["x", "y"], [1, 2], [3, 2], ["#N/A", 2], [41, 2], [43, 2]], "--missing drop", READ,
             [[2, 2], [42, 2]], "3 of 15 rows", "xlsx"),
    ],
    "ties": [Case(["x\n0\n0\n", "x\n0\n1\n", "x\n1\n1\n"], "--seed 3", [3, 3], [[0], [1]])],
    "numbers as text in a workbook": [
        Case([["x", "y"], ["1,5", 1], ["41,5", 2]], "--decimal ,", [3, 3], [[1.5, 1], [41.5, 2]], "", "xlsx")
    ],
    "hidden rows": [
        Case([["x"], [1], [41], ["hidden", 9]], "", [6, 3], [[5], [41]], "--visible-only", "xlsx"),
        Case([["x"], [1], [41], ["hidden", 9]], "--visible-only", [3, 3], [[1], [41]], "", "xlsx"),
    ],
    "percent formats": [
        Case([["x"], ["%", 0.25], ["%", 0.75]], "", [3, 3], [[0.25], [0.75]], "as percentages", "xlsx")
    ],
    "a delimiter that is named": [Case("sep=;\nx;y\n" + SEMICOLONS, "", READ, PLAIN)],
    "a title": [
        Case("Report;;\n;;\nx;y;z\n1;2;0\n41;2;1\n", "", says="--skip 1-2"),
        Case("Report;;\n;;\nx;y;z\n1;2;0\n41;2;1\n", "--skip 1-2", [3, 3], [[1, 2, 0], [41, 2, 1]]),
    ],
    "units": [
        Case("x,y\nyears,mmHg\n" + TWO, "", says="--skip 2"),
        Case("x,y\nyears,mmHg\n" + TWO, "--skip 2", READ, PLAIN),
    ],
    "comments": [
        Case("# exported\n# mmHg\nx,y\n" + TWO, "", says="--skip 1-2"),
        Case("# exported\n# mmHg\nx,y\n" + TWO, "--skip 1-2", READ, PLAIN),
    ],
    "a sum": [
        Case("id,x\np1,1\np2,41\nTotal,42\n", "--id-column id", says="--skip 4"),
        Case("id,x\np1,1\np2,41\nTotal,42\n", "--id-column id --skip 4", [3, 3], [[1], [41]]),
    ],
    "blanks between cells": [Case("x y\n" + BLANKS, "", READ, PLAIN)],
    "blanks between numbers alone": [
        Case("1.0e+00 5.0e-01\n4.1e+01 9.5e+00\n", "", [3, 3], [[1, 0.5], [41, 9.5]])
    ],
    "UTF-16 without a mark": [Case([("x,y\n" + TWO).encode("utf-16-le")] * 3, "", READ, PLAIN)],
    "a letter of two signs": [
        Case([f"{name},y\n{TWO}" for name in ("o\u0308l", "\u00f6l", "\u00f6l")], "", READ, PLAIN)
    ],
    "a sign that nobody sees": [
        Case([f"x\u200b,y\n{TWO}", f"x,y\n{TWO}", f"x,y\n{TWO}"], "", says=r"'x\u200b'")
    ],
}  # fmt: skip


def write_book(path: Path, table: list[list[Any]]) -> None:
    """A workbook; a row that begins with "hidden" or "%" is that."""
    sheet = (book := pytest.importorskip("openpyxl").Workbook()).active
    for number, row in enumerate(table, 1):
        marked = row[0] in ("hidden", "%")
        sheet.append(row[1:] if marked else row)
        sheet.row_dimensions[number].hidden = row[0] == "hidden"
        if row[0] == "%":
            sheet.cell(number, 1).number_format = "0%"
    book.save(path)


def written(folder: Path, case: Case) -> list[Path]:
    """The files of a case: rows of a workbook, or a text, are those of all three clients."""
    alike = isinstance(case.files, str) or case.name == "xlsx"
    paths = []
    for name, content in zip("abc", [case.files] * 3 if alike else case.files, strict=False):
        paths.append(folder / f"{name}.{case.name}")
        if case.name == "xlsx":
            write_book(paths[-1], content)
        else:
            paths[-1].write_bytes(content if isinstance(content, bytes) else content.encode())
    return paths


@pytest.mark.parametrize(
    ("kind", "number"), [(kind, number) for kind, cases in CASES.items() for number in range(len(cases))]
)
def test_a_case_has_its_right_value_or_a_refusal_that_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, number: int
) -> None:
    monkeypatch.chdir(tmp_path)
    case = CASES[kind][number]
    words = ["run", *written(tmp_path, case), "--algorithm", "lloyd", "--json", *case.words.split()]
    found = invoke(*words, *([] if "-k" in words else ["-k", "2"]))
    refused = case.sizes is None
    assert found.exit_code == (2 if refused else 0), found.output
    report = {} if refused else json.loads(found.stdout)
    told = " ".join(f"{found.stderr} {' '.join(report.get('notes', ()))}".split())
    assert case.says in told
    if case.sizes is not None:
        centers = sorted(report["centers"])
        assert sorted(report["cluster_sizes"]) == sorted(case.sizes)
        assert centers == [pytest.approx(center, abs=1e-4) for center in sorted(case.centers or ())]
    assert ("left out" in told) == ("rows" in case.says)


def test_ids_that_a_spreadsheet_spoiled_are_refused_by_the_shell(tmp_path: Path) -> None:
    for name, ids in (("a", "7.0\n8.0"), ("b", "7\n9"), ("c", "7\n10")):
        (tmp_path / f"{name}.csv").write_text(f"id\n{ids}\n")
    found = invoke("psu", *sorted(tmp_path.iterdir()), "--id-column", "id")
    assert found.exit_code == 2
    assert "written as a float is" in found.stderr
