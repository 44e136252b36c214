"""Tables that other programs wrote come back as the same numbers, or are refused: never as others."""

from __future__ import annotations

import csv
import io
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secfc import Federation
from secfc.data import plain_cells
from secfc.data.dialects import Dialect
from secfc.errors import InputError
from tests.nightly import trials

Column = list[float | None]
KINDS = {
    "floats": st.floats(-1e300, 1e300),  # of 15 digits the largest is none
    "measurements": st.decimals(-1000, 10_000, places=3).map(float),
    "prices": st.integers(0, 10**7).map(lambda cents: cents / 100),
    "whole": st.integers(-(2**53), 2**53).map(float),
    "small whole": st.integers(0, 3000).map(float),
    "bits": st.sampled_from([0.0, 1.0]),
}


@st.composite
def columns(draw: Any) -> dict[str, Column]:
    """Columns of numbers of which some may be missing, none throughout."""
    m = draw(st.integers(2, 8))
    found: dict[str, Column] = {}
    for name in draw(st.lists(st.sampled_from(["age", "größe", "a b", "crp,mg", "x;y", "v1"]), min_size=1,
                              max_size=3, unique=True)):  # fmt: skip
        values = KINDS[draw(st.sampled_from(sorted(KINDS)))]
        gaps = st.one_of(values, values, values, st.none()) if draw(st.booleans()) else values
        found[name] = [draw(values), *(draw(gaps) for _ in range(m - 1))]
    return found


def as_r(value: float | None, decimal: str) -> str:
    """A number as R 4.2 writes it, which was compared: the fewest of 15 digits, in the shorter form."""
    if value is None:
        return "NA"
    mantissa, _, power = f"{float(f'{value:.15g}'):.14e}".partition("e")
    mantissa = mantissa.rstrip("0").rstrip(".")
    digits = len(mantissa.partition(".")[2])
    fixed, scientific = f"{value:.{max(0, digits - int(power))}f}", f"{mantissa}e{power}"
    return (fixed if len(fixed) <= len(scientific) else scientific).replace(".", decimal)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def r_text(table: dict[str, Column], semicolons: bool, rows: bool) -> str:
    """What write.csv, or with semicolons write.csv2, writes: quoted names, and those of rows if kept."""
    delimiter, decimal = (";", ",") if semicolons else (",", ".")
    cells = [[as_r(value, decimal) for value in values] for values in table.values()]
    names = [*(['""'] if rows else []), *map(quoted, table)]
    lines = [names] + [
        [*([f'"{i}"'] if rows else []), *row] for i, row in enumerate(zip(*cells, strict=True), 1)
    ]
    return "".join(delimiter.join(line) + "\n" for line in lines)


def excel_text(table: dict[str, Column], german: bool) -> str:
    """What Excel saves as CSV: as cells are shown, here with two decimals and thousands, or in general."""
    out = io.StringIO()
    writer = csv.writer(out, delimiter=";" if german else ",", lineterminator="\r\n")
    writer.writerow(table)
    swap = str.maketrans(",.", ".,") if german else {}
    for row in zip(*table.values(), strict=True):
        writer.writerow(["" if v is None else f"{v:,.2f}".translate(swap) for v in row])
    return out.getvalue()


def read(path: Path, **how: Any) -> np.ndarray[Any, Any] | None:
    """What is read, None for a refusal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            points = Federation.from_files(path, gaps=True, **how).parties[0].points
        except InputError:
            return None
    return np.asarray(points[0 : points.shape[0]])


def matrix(table: dict[str, Column], shown: Callable[[float], str] = repr) -> np.ndarray[Any, Any]:
    """The numbers, as exactly as they are written."""
    rows = zip(*table.values(), strict=True)
    return np.array([[math.nan if v is None else float(shown(v)) for v in row] for row in rows])


READ: dict[str, list[bool]] = {}


def check(writer: str, path: Path, wanted: np.ndarray[Any, Any], **how: Any) -> None:
    """Read it cell by cell and at once: the same, or refused."""
    for least in (0, 1 << 60):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(plain_cells, "LARGE", least)
            found = read(path, **how)
        READ.setdefault(writer, []).append(found is not None)
        if found is not None:
            np.testing.assert_array_equal(found, wanted)


def write_and_read(folder: Path, table: dict[str, Column], flag: bool, other: bool) -> None:
    """By each program, with points or commas, and with names of rows or a byte order mark."""
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    if flag and len(table) == 1:  # a name with a comma is the same text as of two columns
        table = {name.replace(",", " "): values for name, values in table.items()}
    path, exact = folder / "a.csv", matrix(table)
    how = {"sep": ";", "decimal": ","} if flag else {}
    pd.DataFrame(table, dtype=float).to_csv(path, index=False, **how)
    check("pandas", path, exact)
    frame = pl.DataFrame(table, schema=dict.fromkeys(table, pl.Float64))
    frame.write_csv(path, separator="\t" if flag else ",", include_bom=other)
    check("polars", path, exact)
    path.write_text(r_text(table, flag, other), encoding="utf-8")
    check("R", path, matrix(table, lambda v: as_r(v, ".")), exclude=["column 1"] if other else [])
    path.write_text(excel_text(table, flag), encoding="utf-8-sig" if other else "cp1252")
    check(
        "Excel's CSV",
        path,
        matrix(table, lambda v: f"{v:.2f}"),
        dialect=Dialect(encoding=None if other else "cp1252"),
    )
    for suffix in ("parquet", "feather"):
        getattr(pd.DataFrame(table, dtype=float), f"to_{suffix}")(folder / f"a.{suffix}")
        check(suffix, folder / f"a.{suffix}", exact)


@trials(8)
@given(columns(), st.sampled_from(["General", "0.00", "#,##0.00", '#,##0.00\\ "€"', "#.##0,00"]))
def test_workbooks_come_back_whatever_numbers_look_like(
    tmp_path_factory: Any, table: dict[str, Column], shown: str
) -> None:
    """A format is how a workbook is shown, in German or in English; what it holds is the number."""
    book = pytest.importorskip("openpyxl").Workbook()
    book.active.append(list(table))
    for row in zip(*table.values(), strict=True):
        book.active.append(list(row))
    for cells in book.active.iter_rows(min_row=2):
        for cell in cells:
            cell.number_format = shown
    path = tmp_path_factory.getbasetemp() / "a.xlsx"
    book.save(path)
    wanted = matrix(table, lambda v: f"{v:.16g}")  # as openpyxl writes them
    wanted = wanted[~np.isnan(wanted).all(axis=1)]  # an empty row of a sheet is none
    found = read(path)
    READ.setdefault("xlsx", []).append(found is not None)
    if found is not None:
        np.testing.assert_array_equal(found, wanted)


def test_what_is_written_comes_back_or_is_refused(tmp_path: Path) -> None:
    """Refusals are for doubt: of each writer more than a fifth comes back."""
    trials(15)(given(st.just(tmp_path), columns(), st.booleans(), st.booleans())(write_and_read))()
    for writer, found in READ.items():
        assert sum(found) > len(found) / 5, (writer, sum(found), len(found))
