"""Whole numbers that no float is: refused at every door where they would become their neighbors."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import secfc
from secfc.estimators import SecFCKMeans

EDGE = 2**53
TABLES = {
    "int64": lambda v: np.array([[v], [1]], np.int64),
    "uint64": lambda v: np.array([[abs(v)], [1]], np.uint64),
    "big endian": lambda v: np.array([[v], [1]], ">i8"),
    "a list": lambda v: [[v, 0.5], [1, 2]],
    "a list of whole numbers": lambda v: [[v], [1]],
    "pandas": lambda v: pd.DataFrame({"x": [v, 1], "y": [0.5, 1.0]}),
    "polars": lambda v: pl.DataFrame({"x": [v, 1], "y": [0.5, 1.0]}),
}
if np.finfo(np.longdouble).nmant > 60:
    TABLES["longer floats"] = lambda v: np.array([[v], [1]], np.longdouble)
FILES = {
    "csv": lambda path, v: path.with_suffix(".csv").write_text(f"x,y\n{v},.5\n1,2\n"),
    "csv, decimal point": lambda path, v: path.with_suffix(".csv").write_text(f"x,y\n{v}.0,.5\n1,2\n"),
    "xlsx": lambda path, v: pd.DataFrame({"x": [str(v), "1"], "y": [0.5, 1.0]}).to_excel(
        path.with_suffix(".xlsx"), index=False
    ),
    "parquet": lambda path, v: pd.DataFrame({"x": [v, 1], "y": [0.5, 1.0]}).to_parquet(
        path.with_suffix(".parquet")
    ),
    "parquet, gaps": lambda path, v: pd.DataFrame({"x": pd.array([v, None], "Int64")}).to_parquet(
        path.with_suffix(".parquet")
    ),
    "npy": lambda path, v: np.save(path.with_suffix(".npy"), np.array([[v], [1]])),
}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("value", [EDGE + 1, -EDGE - 1, 2**62 + 1])
def test_a_table_with_a_whole_number_that_is_no_float_is_refused(kind, value):
    tables = [TABLES[kind](value), TABLES[kind](2), TABLES[kind](3)]
    with pytest.raises(secfc.InputError, match=r"row 0.*beyond 2\*\*53.*Subtract an origin"):
        secfc.fit(secfc.SecFC(k=2), tables)


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("value", [EDGE - 1, EDGE, EDGE + 2, -EDGE])
def test_whole_numbers_that_are_floats_are_taken(kind, value):
    tables = [TABLES[kind](value), TABLES[kind](2), TABLES[kind](3)]
    got = secfc.Federation.from_arrays(tables).parties[0].read()
    assert float(got[0, 0]) == (abs(value) if kind == "uint64" else value)


@pytest.mark.parametrize("kind", FILES)
def test_a_file_with_a_whole_number_that_is_no_float_is_refused(kind, tmp_path):
    def read(value):
        for old in tmp_path.iterdir():
            old.unlink()
        for name in "abc":
            FILES[kind](tmp_path / name, value if name == "a" else 5)
        found = secfc.Federation.from_files(sorted(tmp_path.iterdir()), gaps="gaps" in kind)
        party = found.parties[0]
        return party.points[:] if "gaps" in kind else party.read()

    with pytest.raises(secfc.InputError, match=r"beyond 2\*\*53") as caught:
        read(EDGE + 1)
    assert str(EDGE + 1) not in str(caught.value)
    for value in (EDGE, EDGE + 2):
        assert read(value)[0, 0] == value


def test_long_decimals_and_floats_are_no_whole_numbers(tmp_path):
    (tmp_path / "a.csv").write_text("x\n0.12345678901234567890\n1234567890.12345678901234567\n1e300\n")
    assert secfc.Federation.from_files([tmp_path / "a.csv"]).m == 3


def test_the_estimator_refuses_it_too():
    with pytest.raises(secfc.InputError, match=r"beyond 2\*\*53"):
        SecFCKMeans(2).fit(np.array([[EDGE + 1], [1], [2]] * 3))
