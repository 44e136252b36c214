"""What users of other software reported of files that were read wrongly: read right, or asked about.

Each case is by hand after the report that its name links to.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from secfc import Federation
from secfc.data.dialects import Dialect
from secfc.errors import InputError

NOTHING = float("nan")
GITHUB = "https://github.com/"
# A file, how it is read, and its points, or what is asked.
REPORTS: dict[str, tuple[str, dict[str, Any], list[list[float]] | str]] = {
    "pandas-dev/pandas/issues/59299": (
        "a;b\n1;1,20\n2;22,3\n3;1.234,56\n", {}, [[1, 1.2], [2, 22.3], [3, 1234.56]],
    ),
    "wireservice/csvkit/issues/876": ('x,y\n"2523,00","2143,50"\n', {}, [[2523, 2143.5]]),
    "pola-rs/polars/issues/18797": ("x;y\n1.299,99;1\n2,5;2\n", {}, [[1299.99, 1], [2.5, 2]]),
    "tidyverse/readr/issues/799": (
        'x,y\n1,2\n"3,300",4\n', {}, "a comma before three digits, which may be a decimal or group thousands",
    ),
    "biolab/orange3/issues/5266": ("A\n-9999,0\n-12,5\n", {}, "2 cells, and the first row has 1"),
    "wireservice/csvkit/issues/968": (
        "continent,x\nNA,1\nEU,2\n", {"categorical": {"continent": ["EU", "NA"]}, "gaps": True},
        [[1, 0, 1], [2, 1, 0]],
    ),
    "pandas-dev/pandas/issues/16078": ("x,y\n1,n/a\n2,3\n", {"gaps": True}, [[1, NOTHING], [2, 3]]),
    "Stan125/GREA/issues/26": (
        "x,y\n1,-99\n2,--\n3,4\n", {"gaps": True, "dialect": Dialect(absent=("-99", "--"))},
        [[1, NOTHING], [2, NOTHING], [3, 4]],
    ),
    "turi-code/SFrame/issues/44": (
        "k,v\n-8,1\n2,-8\n", {"gaps": True, "dialect": Dialect(absent=("v=-8",))}, [[-8, 1], [2, NOTHING]],
    ),
    "JuliaData/DataFrames.jl/issues/304": (
        'x,y\n1,\n2,""\n3,NULL\n4,5\n', {"gaps": True},
        [[1, NOTHING], [2, NOTHING], [3, NOTHING], [4, 5]],
    ),
    "chrisalbon/short_notes_on_machine_learning/issues/23": (
        "x,y\n1,.\n2,3\n", {"gaps": True, "dialect": Dialect(absent=(".",))}, [[1, NOTHING], [2, 3]],
    ),
    "NVIDIA/cudf/issues/6677": (
        ",a\n0,0.43\n1,_NA_\n", {}, "column 1 has no name: it looks like a row number or IDs",
    ),
    "swiftcsv/SwiftCSV/issues/134": ("en,de,en\n1,2,3\n", {}, "several columns 'en': names must differ"),
    "mholt/PapaParse/issues/982": ("c;c;c;c_1\n1;2;3;4\n", {}, "several columns 'c': names must differ"),
    "deephaven/deephaven-core/issues/1800": ("A|B|C|\n1|2|3|\n", {"exclude": ["column 4"]}, [[1, 2, 3]]),
    "duckdb/duckdb/issues/8231": ("id,lat,lon\n1,0,0,\n2,0,1\n", {}, "4 cells, and the first row has 3"),
    "thephpleague/csv/issues/543": ("a,b,,\n1,2,,\n", {"exclude": ["column 3", "column 4"]}, [[1, 2]]),
    "tidyverse/readxl/issues/379": (
        "age,weight\nyears,kg\n50,70\n60,80.5\n", {}, "line 2 to be no part of it",
    ),
    "MarkPflug/Sylvan.Data.Excel/issues/158": (
        "Merged,,\na,b,c\n1,2.5,3\n4,5,6\n", {}, "begin in line 2, and line 1 to be no part of it",
    ),
    "MarkPflug/Sylvan.Data.Excel/issues/192": (
        "Merged,,\na,b,c\n1,2.5,3\n", {"dialect": Dialect(skip="1")}, [[1, 2.5, 3]],
    ),
}  # fmt: skip
IDS = {
    "wireservice/csvkit/issues/977": ("001", "002"),
    "turicas/rows/issues/302": ("09340192213", "00798360000180"),
    "jakob/TableTool/issues/84": ("03333056899", "3333056899"),
}


@pytest.mark.parametrize("source", REPORTS)
def test_a_reported_file_is_read_right_or_asked_about(tmp_path: Path, source: str) -> None:
    text, how, expected = REPORTS[source]
    path = tmp_path / "a.csv"
    path.write_text(text, encoding="utf-8")
    if isinstance(expected, str):
        with pytest.raises(InputError, match=re.escape(expected)):
            Federation.from_files(path, **how)
        return
    points = Federation.from_files(path, **how).parties[0].points
    np.testing.assert_array_equal(np.asarray(points[0 : points.shape[0]]), expected, GITHUB + source)


@pytest.mark.parametrize("source", IDS)
def test_zeros_of_ids_stay(tmp_path: Path, source: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,x\n" + "".join(f"{name},1\n" for name in IDS[source]))
    assert Federation.from_files(path, id_column="id").parties[0].ids == IDS[source]
