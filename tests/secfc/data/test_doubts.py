"""What files say in two ways is refused, with an option that settles it: a row for each kind."""

from __future__ import annotations

import re
import shlex
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secfc import Federation
from secfc.data.dialects import Dialect, NumberFormat, format_lines, parse_lines
from secfc.data.ids import load_ids
from secfc.errors import Caution, InputError, InputFaults
from tests.small import invoke

Options = dict[str, Any]

# A file, what is refused, and each option that settles it with what is then read.
DOUBTS: dict[str, tuple[str, str, list[tuple[Options, list[list[float]]]]]] = {
    "a header of positions": (
        "0,1\n2.5,3.5\n4.5,0.5\n", "counts up",
        [({"header": True}, [[2.5, 3.5], [4.5, 0.5]]), ({"header": False}, [[0, 1], [2.5, 3.5], [4.5, 0.5]])],
    ),
    "a header of years": (
        "2019,2020\n2.5,3.5\n", "counts up",
        [({"header": True}, [[2.5, 3.5]]), ({"header": False}, [[2019, 2020], [2.5, 3.5]])],
    ),
    "points among whole numbers": (
        "people;level\n870;2\n1.020;1\n", "line 3, column 'people': a point before three digits",
        [({"decimal": "."}, [[870, 2], [1.02, 1]]), ({"thousands": "."}, [[870, 2], [1020, 1]])],
    ),
    "commas before three digits": (
        'cost,age\n"3,300",4\n"8,107",22\n', "comma before three digits",
        [({"decimal": ",", "delimiter": ","}, []), ({"thousands": ","}, [[3300, 4], [8107, 22]])],
    ),
    "a title": (
        "Report;;\n;;\nage;bp;w\n0.5;0.25;0\n19.5;4.5;1\n", "begin in line 3, and lines 1-2 to be no part",
        [({"skip": "1-2"}, [[0.5, 0.25, 0], [19.5, 4.5, 1]])],
    ),
    "comments": (
        "# exported\n# mmHg\nage,bp\n0.5,0.25\n19.5,4.5\n", "begin in line 3, and lines 1-2 to be no part",
        [({"skip": (1, 2)}, [[0.5, 0.25], [19.5, 4.5]])],
    ),
    "units": (
        "age,bp\nyears,mmHg\n0.5,0.25\n19.5,4.5\n", "begin in line 1, and line 2 to be no part",
        [({"skip": "2"}, [[0.5, 0.25], [19.5, 4.5]])],
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", DOUBTS)
def test_doubt_is_refused_and_settled_by_the_option_that_is_named(tmp_path: Path, kind: str) -> None:
    text, message, settled = DOUBTS[kind]
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        Federation.from_files(path)
    for options, points in settled:
        assert any(f"{name}=" in str(caught.value) for name in options)
        if points:
            assert Federation.from_files(path, dialect=Dialect(**options)).stacked().tolist() == points


def rows_of_page() -> list[list[str]]:
    page = Path("docs/preparing.md").read_text(encoding="utf-8")
    lines = page.partition("## What is doubted")[2].partition("\n## ")[0].splitlines()
    rows = [line.strip("|").split("|") for line in lines if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


@pytest.mark.parametrize(("file", "option"), [(row[1], row[2]) for row in rows_of_page()])
def test_the_page_of_doubts_holds(tmp_path: Path, file: str, option: str) -> None:
    """Each file of the page is refused, and read with each of its options."""
    text, old = re.findall("`(.*?)`", file)[0].replace("⏎", "\n") + "\n", "cp1252" in file
    paths = []
    for name in ("a", "b", "c"):
        paths.append(str(tmp_path / f"{name}.csv"))
        Path(paths[-1]).write_bytes(text.encode("cp1252" if old else "utf-8"))
    plan = (
        "run",
        *paths,
        "-k",
        "1",
        "--labels",
        str(tmp_path / "l.csv"),
        "--report",
        str(tmp_path / "r.json"),
        "--force",
    )
    assert invoke(*plan).exit_code == 2
    for words in re.findall("`(.*?)`", option):
        found = invoke(*plan, *shlex.split(words.replace(" ?", " '?'").replace(" ;", " ';'")))
        assert found.exit_code == 0, found.output


CLEAR: dict[str, tuple[str, list[list[float]]]] = {
    "a delimiter that is named": ("sep=;\nage;bp\n1;2\n", [[1, 2]]),
    "apostrophes": ("x,y\n1'100.5,0.5\n2'000,1\n", [[1100.5, 0.5], [2000, 1]]),
    "blanks that do not break": ("x;y\n1\u00a0100,5;0,5\n2\u00a0000;1\n", [[1100.5, 0.5], [2000, 1]]),
    "points that group and a comma": ("x;y\n1.234,5;0,5\n", [[1234.5, 0.5]]),
    "commas that group twice": ('x;y\n"1,234,567";2\n', [[1234567, 2]]),
    "commas that group and a point": ('x,y\n"1,234.5",2\n', [[1234.5, 2]]),
    "three decimals of every number": ("x,y\n1.234,2.500\n3.000,0.125\n", [[1.234, 2.5], [3, 0.125]]),
    "one number that settles a column": ("x;y\n870;2\n1.020;1\n1.5;1\n", [[870, 2], [1.02, 1], [1.5, 1]]),
    "blanks between cells": ("age bp\n0.5  0.25\n19.5 4.5\n", [[0.5, 0.25], [19.5, 4.5]]),
    "numbers of savetxt": ("5.0e-01 -2.5e-01\n1.95e+01 4.5e+00\n", [[0.5, -0.25], [19.5, 4.5]]),
    "data that count up from 1": ("1,2\n3,4\n", [[1, 2], [3, 4]]),
}


@pytest.mark.parametrize("kind", CLEAR)
def test_what_is_clear_is_taken(tmp_path: Path, kind: str) -> None:
    text, points = CLEAR[kind]
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    assert Federation.from_files(tmp_path / "a.csv").stacked().tolist() == points


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_zeros_of_utf_16_name_it(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.csv").write_bytes("age,bp\n1,2\n".encode(encoding))
    assert Federation.from_files(tmp_path / "a.csv").stacked().tolist() == [[1, 2]]


def test_files_that_begin_alike_may_begin_with_names(tmp_path: Path) -> None:
    for name, row in (("a", "1,2"), ("b", "3,4")):
        (tmp_path / f"{name}.csv").write_text(f"7,12\n{row}\n")
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    with pytest.raises(InputError, match="begin with the same row"):
        Federation.from_files(paths)
    named = Federation.from_files(paths, dialect=Dialect(header=True))
    assert (named.stacked().tolist(), named.feature_names) == ([[1, 2], [3, 4]], ("7", "12"))
    bare = Federation.from_files(paths, dialect=Dialect(header=False))
    assert bare.stacked().tolist() == [[7, 12], [1, 2], [7, 12], [3, 4]]


def test_columns_without_names_are_called_by_position(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("p0,1,2\np1,3,4\n")
    read = Federation.from_files(tmp_path / "a.csv", id_column="0", dialect=Dialect(header=False))
    assert (read.stacked().tolist(), read.parties[0].ids) == ([[1, 2], [3, 4]], ("p0", "p1"))


def test_words_for_nothing_are_missing_by_column(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x,y\n?,-9\n-9,1\n#N/A,2\n")
    dialect = Dialect(absent=("?", "y=-9"))
    read = np.asarray(Federation.from_files(path, gaps=True, dialect=dialect).parties[0].points[0:3])
    assert np.array_equal(read, [[np.nan, np.nan], [-9, 1], [np.nan, 2]], equal_nan=True)
    path.write_text("x,y\n1,-9\n")
    with pytest.raises(InputError, match=r"column 'y': the cell stands for nothing.*missing="):
        Federation.from_files(path, dialect=dialect)
    with pytest.raises(InputError, match="no column 'z' is there"):
        Federation.from_files(path, gaps=True, dialect=Dialect(absent=("z=-9",)))


def test_a_category_that_is_listed_is_there(tmp_path: Path) -> None:
    """NA is Namibia where it is listed, and nothing where it is not."""
    path = tmp_path / "a.csv"
    path.write_text("country,age\nNA,1\nZA,2\n")
    listed = Federation.from_files(path, gaps=True, categorical={"country": ["NA", "ZA"]})
    assert np.asarray(listed.parties[0].points[0:2]).tolist() == [[1, 1, 0], [2, 0, 1]]
    other = Federation.from_files(path, gaps=True, categorical={"country": ["DE", "ZA"]})
    assert np.isnan(np.asarray(other.parties[0].points[0:1])[0, 1:]).all()


def test_a_last_row_that_sums_up_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,x\np0,1\np1,2\nTotal,3\n")
    with pytest.raises(InputError, match=r'line 4: the last row seems to sum up.*skip="4"'):
        Federation.from_files(path, id_column="id")
    read = Federation.from_files(path, id_column="id", dialect=Dialect(skip="4"))
    assert read.stacked().tolist() == [[1], [2]]


def test_columns_can_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("day,x\n2024-01-01,1\n")
    assert Federation.from_files(path, exclude=["day"]).feature_names == ("x",)
    with pytest.raises(InputError, match="no column 'noon'"):
        Federation.from_files(path, exclude=["noon"])
    with pytest.raises(InputError, match="to be left out, and has a use"):
        Federation.from_files(path, exclude=["x"], columns=["x"])


def test_all_faults_of_all_files_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,b\n1,2,3\n1,2\n")
    (tmp_path / "b.csv").write_text("x,y\n1,\n")
    with pytest.raises(InputFaults) as caught:
        Federation.from_files([tmp_path / "a.csv", tmp_path / "b.csv"])
    told = str(caught.value)
    for fault in ("a.csv, line 2, column 'y'", "a.csv, line 3: 3 cells", "b.csv, line 2, column 'y'"):
        assert fault in told
    assert len(caught.value.faults) == 3


def test_names_of_columns_are_composed(tmp_path: Path) -> None:
    """A letter with a mark is one sign or two: the same name."""
    for name, column in (("a", "gro\u0308\u00dfe"), ("b", "gr\u00f6\u00dfe")):
        (tmp_path / f"{name}.csv").write_text(f"{column},y\n1,2\n", encoding="utf-8")
    read = Federation.from_files([tmp_path / "a.csv", tmp_path / "b.csv"], columns=["gro\u0308\u00dfe"])
    assert read.feature_names == ("gr\u00f6\u00dfe",)
    (tmp_path / "b.csv").write_text("gr\u00f6\u00dfe\u200b,y\n1,2\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"gr\u00f6\u00dfe\\u200b"):
        Federation.from_files([tmp_path / "a.csv", tmp_path / "b.csv"])


def test_a_zipped_table_is_read(tmp_path: Path) -> None:
    for count in (1, 2):
        with zipfile.ZipFile(tmp_path / "a.csv.zip", "w") as archive:
            for number in range(count):
                archive.writestr(f"{number}.csv", "x,y\n1,2\n")
        if count == 1:
            assert Federation.from_files(tmp_path / "a.csv.zip").stacked().tolist() == [[1, 2]]
    with pytest.raises(InputError, match="holds 2 files"):
        Federation.from_files(tmp_path / "a.csv.zip")


def workbook(path: Path) -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.active
    for row in (["x", "y"], [0.25, "0,5"], [0.75, "1,5"], [9, "9,5"]):
        sheet.append(row)
    sheet.row_dimensions[4].hidden = True
    for number in (2, 3, 4):
        sheet.cell(number, 1).number_format = "0%"
    book.create_sheet("notes").append(["nothing"])
    book.save(path)
    return path


def test_a_workbook_is_read_by_sheet_and_what_it_hides_is_told(tmp_path: Path) -> None:
    path = workbook(tmp_path / "a.xlsx")
    with pytest.raises(InputError, match=r"'Sheet', 'notes': one is needed.*sheet="):
        Federation.from_files(path)
    with pytest.raises(InputError, match="has no sheet of this name: its sheets are"):
        Federation.from_files(path, dialect=Dialect(sheet="Tables"))
    with pytest.warns(Caution) as told:
        read = Federation.from_files(path, dialect=Dialect(sheet="Sheet"))
    assert read.stacked().tolist() == [[0.25, 0.5], [0.75, 1.5], [9, 9.5]]
    assert ["1 hidden row" in str(w.message) for w in told] == [True, False]
    assert "shows column A as percentages" in str(told[1].message)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*percentages", Caution)
        read = Federation.from_files(path, dialect=Dialect(sheet="Sheet", visible_only=True))
    assert read.stacked().tolist() == [[0.25, 0.5], [0.75, 1.5]]


@pytest.mark.parametrize("words", [{"sheet": "data"}, {"visible_only": True}])
def test_what_is_said_of_workbooks_is_refused_where_none_is_one(tmp_path: Path, words: Any) -> None:
    (tmp_path / "a.csv").write_text("id,x,y\n1,1,2\n2,3,4\n")
    (name,) = words
    for read in (
        lambda: Federation.from_files(tmp_path / "a.csv", dialect=Dialect(**words)),
        lambda: load_ids([tmp_path / "a.csv"], id_column="id", client_column=None, dialect=Dialect(**words)),
    ):
        with pytest.raises(InputError, match=rf"{name}=.*no file is a workbook.*Leave {name} out"):
            read()
    book = openpyxl_book(tmp_path / "b.xlsx")
    both = Federation.from_files([tmp_path / "a.csv", book], columns=["x", "y"], dialect=Dialect(**words))
    assert both.counts == (2, 1)  # one workbook among them is what it is about


def openpyxl_book(path: Path) -> Path:
    book = pytest.importorskip("openpyxl").Workbook()
    book.active.title = "data"
    for row in (["x", "y"], [5, 6]):
        book.active.append(row)
    book.save(path)
    return path


@given(st.sets(st.integers(1, 60), min_size=1))
def test_lines_are_written_as_they_are_read(lines: set[int]) -> None:
    assert parse_lines(format_lines(sorted(lines))) == tuple(sorted(lines))


@pytest.mark.parametrize("lines", ["0", "3-1", "x", "1-", 0, [1, -2], ""])
def test_lines_that_cannot_be_are_refused(lines: Any) -> None:
    with pytest.raises(InputError, match="numbers of lines are needed"):
        Dialect(skip=lines)


@given(st.integers(-(10**12), 10**12), st.sampled_from(".,"), st.sampled_from("., '"))
def test_grouped_numbers_come_back(number: int, decimal: str, thousands: str) -> None:
    if decimal == thousands:
        return
    text = f"{number:,}".replace(",", thousands) + f"{decimal}5"
    read = float(NumberFormat(decimal, thousands).plain(text))
    assert abs(read) == abs(number) + 0.5


@pytest.mark.parametrize("name", ["7.0", "1.2E+15"])
def test_ids_that_a_spreadsheet_spoiled_are_refused(tmp_path: Path, name: str) -> None:
    """By whatever reads IDs: a federation, and a union of IDs."""
    paths = []
    for file, ids in (("a", (name, "8.5x")), ("b", ("7", "9"))):
        paths.append(tmp_path / f"{file}.csv")
        paths[-1].write_text("id,x\n" + "".join(f"{one},1\n" for one in ids))
    with pytest.raises(InputError, match="written as a float"):
        Federation.from_files(paths, id_column="id")
    with pytest.raises(InputError, match="written as a float"):
        load_ids(paths, "id", None)
    paths[0].write_text("id,x\n7,1\n07,1\n")
    assert Federation.from_files(paths, id_column="id").parties[0].ids == ("7", "07")


def test_rows_that_are_left_out_and_row_numbers_beside_gaps_are_told(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        rows = "".join(f"{i},{'' if i == 4 else i % 3}\n" for i in range(1, 13))
        (tmp_path / f"{name}.csv").write_text("number,x\n" + rows)
    words = ["run", *(str(tmp_path / f"{name}.csv") for name in "abc"), "-k", "2", "--force"]
    words += ["--labels", str(tmp_path / "l.csv"), "--report", str(tmp_path / "r.json")]
    shown = " ".join(invoke(*words, "--missing", "drop").output.split())
    assert "3 of 36 rows miss a value and are left out, by client: a 1, b 1, c 1" in shown
    shown = " ".join(invoke(*words, "--missing", "mean", "--standardize").output.split())
    assert "column 'number' holds a different whole number in every row" in shown
