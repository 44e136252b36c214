"""Queries, Arrow files, booleans and categories with an order: one reader for whatever holds a table."""

from __future__ import annotations

import json
import sqlite3
import traceback
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import secfc
from secfc import Federation
from secfc.data import sources
from secfc.data.dialects import Dialect
from secfc.data.ids import load_ids
from secfc.data.sources import ArrowRows, fill_address
from secfc.errors import InputError
from tests.small import invoke

TABLE = "create table visits (patient text, age integer, crp double, smoker boolean)"
ROWS = [("p0", 31, 0.5, True), ("p1", 44, 9.25, False), ("p2", 70, 1e-3, True)]
SELECT = "select age, crp, smoker from visits order by age -- a // b\n"
POINTS = [[31, 0.5, 1], [44, 9.25, 0], [70, 1e-3, 1]]


def database(kind: str, path: Path, rows: list[tuple[Any, ...]] = ROWS) -> None:
    """A file of a database with these visits."""
    connected: Any = (sqlite3 if kind == "sqlite" else pytest.importorskip("duckdb")).connect(str(path))
    connected.execute(TABLE)
    connected.executemany("insert into visits values (?, ?, ?, ?)", rows)
    connected.commit()
    connected.close()


def query(path: Path, source: str, text: str = SELECT) -> Path:
    """A file that asks for rows."""
    path.write_text(f"-- source: {source}\n{text}")
    return path


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_query_is_a_table(tmp_path: Path, kind: str) -> None:
    database(kind, tmp_path / "h.db")
    path = query(tmp_path / "a.sql", f"{kind}:h.db", SELECT.replace("age,", "patient, age,"))
    read = Federation.from_files(path, id_column="patient")
    assert read.names == ("a",)
    # SQLite has no booleans, and gives 0 and 1.
    assert read.stacked().tolist() == POINTS
    assert read.parties[0].ids == ("p0", "p1", "p2")
    with pytest.raises(InputError, match="has no column 'hb'"):
        Federation.from_files(path, columns=["hb"])
    other = query(tmp_path / "b.sql", f"{kind}:h.db", "select patient from visits")
    assert load_ids([path, other], "patient", None)[1].ids == ["p0", "p1", "p2"]


def test_a_query_over_sqlalchemy_takes_secrets_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sqlalchemy")
    database("sqlite", tmp_path / "h.db")
    monkeypatch.setenv("CLINIC", str(tmp_path / "h.db"))
    path = query(tmp_path / "a.sql", "sqlite:///${CLINIC}")
    assert Federation.from_files(path).stacked().tolist() == POINTS
    monkeypatch.delenv("CLINIC")
    with pytest.raises(InputError, match="the environment has no variable CLINIC"):
        Federation.from_files(path)


def test_a_query_over_adbc_is_a_table_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("adbc_driver_sqlite")
    database("sqlite", tmp_path / "h.db")
    monkeypatch.setenv("CLINIC", str(tmp_path / "h.db"))
    path = query(tmp_path / "a.sql", "adbc:sqlite:${CLINIC}")
    for text, said in (
        ("delete from visits", "finds no rows|no query"),
        ("select nothing from visits", "did not answer"),
    ):
        with pytest.raises(InputError, match=said):
            Federation.from_files(query(tmp_path / "b.sql", "adbc:sqlite:${CLINIC}", text))
    assert Federation.from_files(path).stacked().tolist() == POINTS


SECRET = "tr0ub4dor"
FAILING = {
    "a password that is written": (f"postgresql://me:{SECRET}@host/db", "a password stands in a file"),
    "a password behind its key": (f"postgresql://host/db?password={SECRET}", "a password stands in a file"),
    "a variable": ("postgresql://me:${PGPASSWORD}@127.0.0.1:1/db", "did not answer|which is not installed"),
    "an address that is none": ("nobody:${PGPASSWORD}", "did not answer"),
    "a driver that is not there": ("adbc:nobody:${PGPASSWORD}", "pip install .*adbc-driver-nobody"),
    "a driver that is none": ("adbc:../x:${PGPASSWORD}", "names no driver"),
    "a file that is not there": ("sqlite:x.db", "there is no file .*x.db"),
}


@pytest.mark.parametrize("kind", FAILING)
def test_no_error_shows_a_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    pytest.importorskip("sqlalchemy")
    monkeypatch.setenv("PGPASSWORD", SECRET)
    source, said = FAILING[kind]
    path = query(tmp_path / "a.sql", source)
    with pytest.raises(InputError, match=said) as refused:
        Federation.from_files(path)
    assert SECRET not in "".join(traceback.format_exception(refused.value))
    assert SECRET not in invoke("check", path).output


def test_a_secret_of_any_letters_fills_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = pytest.importorskip("sqlalchemy.engine")
    monkeypatch.setenv("PW", "a@b/c:${PW}%41")
    address = engine.make_url(fill_address(tmp_path, "postgresql://me:${PW}@host/db"))
    assert (address.password, address.host) == ("a@b/c:${PW}%41", "host")


def test_queries_that_fail_or_find_nothing_are_refused(tmp_path: Path) -> None:
    database("sqlite", tmp_path / "h.db")
    for text, said in (
        ("select nothing from visits", "did not answer"),
        ("delete from visits", "did not answer"),  # it is opened to be read
        ("select age from visits where age < 0", "has a header and no data"),
        ("select age, null as crp from visits", "the cell is empty"),
        ("select 9007199254740993 as id", r"beyond 2\*\*53"),
        ("select '1,234' as x", "may be a decimal or group thousands"),
    ):
        with pytest.raises(InputError, match=said):
            Federation.from_files(query(tmp_path / "a.sql", "sqlite:h.db", text))
    (tmp_path / "a.sql").write_text("select 1\n")
    with pytest.raises(InputError, match="does not say which database is asked"):
        Federation.from_files(tmp_path / "a.sql")
    read = Federation.from_files(query(tmp_path / "a.sql", "sqlite:h.db", "select 1 as '0', 2 as '1'"))
    assert read.feature_names == ("0", "1")


def test_all_commands_read_queries_and_a_model_keeps_the_order_of_categories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in "abc":
        rows = [(f"{name}{i}", 30 * (i % 2) + i, i / 4, bool(i % 2)) for i in range(8)]
        database("sqlite", tmp_path / f"{name}.db", rows)
        stage = "select *, case when age < 30 then 'II' else 'III' end as stage from visits"
        query(tmp_path / f"{name}.sql", f"sqlite:{name}.db", stage)
    files = [*(f"{name}.sql" for name in "abc"), "--id-column", "patient"]
    found = json.loads(invoke("check", *files, "--json", "--categorical", "stage=I<II<III").stdout)
    assert (found["accepted"], found["sites"][0]["rows"]) == (True, 8)
    assert invoke("psu", *files, "--json").exit_code == 0
    more = ["-k", "2", "--json", "--model", "m.secfc", "--labels", "l.csv", "--categorical", "stage=I<II<III"]
    ran = json.loads(invoke("run", *files, *more).stdout)
    assert ran["columns"] == ["age", "crp", "smoker", "stage=I<II<III"]
    assert sorted(ran["cluster_sizes"]) == [12, 12]
    found = invoke("predict", "m.secfc", *files, "--out", "p.csv")
    assert found.exit_code == 0, found.output
    assert (tmp_path / "p.csv").read_text() == (tmp_path / "l.csv").read_text()


FRAMES = {"x": [0.5, 1.5, 2.5], "n": [1, 2, 3], "b": [True, False, True]}


@pytest.mark.parametrize("name", ["a.feather", "a.arrow", "a.parquet"])
@pytest.mark.parametrize("writer", ["pandas", "polars"])
def test_files_of_data_frames_are_read(tmp_path: Path, name: str, writer: str) -> None:
    frame = pytest.importorskip(writer).DataFrame({**FRAMES, "id": ["p", "q", "r"]})
    verb = {"pandas": "to_", "polars": "write_"}[writer]
    kind = "parquet" if name == "a.parquet" else "feather" if writer == "pandas" else "ipc"
    getattr(frame, verb + kind)(tmp_path / name)
    read = Federation.from_files(tmp_path / name, id_column="id")
    assert np.asarray(read.parties[0].points[0:3]).tolist() == [[0.5, 1, 1], [1.5, 2, 0], [2.5, 3, 1]]
    assert read.parties[0].ids == ("p", "q", "r")
    other = (tmp_path / name).with_stem("b")
    other.write_bytes((tmp_path / name).read_bytes())
    assert load_ids([tmp_path / name, other], "id", None)[1].ids == ["p", "q", "r"]
    assert invoke("check", other, "--id-column", "id").exit_code == 0


def test_arrow_files_are_read_by_batch_with_gaps_and_refused_if_damaged(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"x": [0.5, None, 2.5, 3.5], "b": [True, None, False, True]})
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
        out.write_table(table, max_chunksize=3)
    read = Federation.from_files(tmp_path / "a.arrow", gaps=True)
    assert np.array_equal(read.parties[0].points[1:4], [[np.nan, np.nan], [2.5, 0], [3.5, 1]], equal_nan=True)
    with pytest.raises(InputError, match="1 value is missing"):
        Federation.from_files(tmp_path / "a.arrow").stacked()
    (tmp_path / "b.feather").write_bytes((tmp_path / "a.arrow").read_bytes()[:-40])
    with pytest.raises(InputError, match="not a readable Arrow file"):
        Federation.from_files(tmp_path / "b.feather")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_are_read_as_files_are(library: str) -> None:
    frames = pytest.importorskip(library)
    read = Federation.from_arrays([frames.DataFrame(FRAMES), frames.DataFrame(FRAMES)])
    assert read.stacked().tolist() == [[0.5, 1, 1], [1.5, 2, 0], [2.5, 3, 1]] * 2
    assert read.feature_names == ("x", "n", "b")
    for bad, said in (
        ([2**53 + 1, 1, 2], r"beyond 2\*\*53"), ([Decimal("0.1")] * 3, "points of dtype object"),
        (["a", "b", "c"], "points of dtype"), ([None, 1.5, 2.5], "NaN"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=said):
            Federation.from_arrays([frames.DataFrame({"x": bad, "y": [1.5, 2.5, 3.5]})] * 2)


@pytest.mark.parametrize(("true", "false"), [("True", "False"), ("TRUE", "FALSE"), ("true", "false")])
def test_booleans_are_0_and_1(tmp_path: Path, true: str, false: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"x,b\n1,{true}\n2,{false}\n,{true}\n4,\n")
    read = np.asarray(Federation.from_files(path, gaps=True).parties[0].points[0:4])
    assert np.array_equal(read, [[1, 1], [2, 0], [np.nan, 1], [4, np.nan]], equal_nan=True)
    path.write_text(f"x,b\n1,{true}\n2,0\n")
    with pytest.raises(InputError, match="line 2, column 'b': the cell is true or false, and others"):
        Federation.from_files(path)
    path.write_text(f"x,b\n1,{true}\n2,maybe\n")
    with pytest.raises(InputError, match="line 3, column 'b': the cell is not a number"):
        Federation.from_files(path)


def test_categories_with_an_order_are_one_feature(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("stage,smoker,x\nII,no,1\nI,yes,2\nIII,no,3\n")
    read = Federation.from_files(path, categorical={"stage": "I<II<III", "smoker": "no<yes"})
    assert read.feature_names == ("x", "stage=I<II<III", "smoker=no<yes")
    assert read.stacked().tolist() == [[1, 1, 0], [2, 0, 1], [3, 2, 0]]
    with pytest.raises(InputError, match="none of the 2 categories that were listed"):
        Federation.from_files(path, categorical={"stage": "I<II", "smoker": "no<yes"})
    with pytest.raises(InputError, match="has no categories, an empty one"):
        Federation.from_files(path, categorical={"stage": "I<", "smoker": "no<yes"})


def test_sheets_and_dialects_do_not_touch_queries(tmp_path: Path) -> None:
    database("sqlite", tmp_path / "h.db")
    path = query(tmp_path / "a.sql", "sqlite:h.db")
    assert Federation.from_files(path, dialect=Dialect(decimal=",")).stacked().tolist() == POINTS


# --- streams of Arrow


def streams(path: Path) -> dict[str, Any]:
    """What gives the columns of a Parquet file as a stream of Arrow, by the name of its library."""
    dataset = pytest.importorskip("pyarrow.dataset")
    found = {"dataset": lambda: dataset.dataset(path).scanner().to_reader()}
    for name, read in (("polars", "read_parquet"), ("pandas", "read_parquet"), ("duckdb", "read_parquet")):
        library = pytest.importorskip(name)
        found[name] = lambda library=library, read=read: getattr(library, read)(str(path))
    return found


def test_what_gives_no_stream_is_refused() -> None:
    with pytest.raises(InputError, match="a list gives no stream of Arrow: pass a function that opens one"):
        ArrowRows(lambda: [[1.0, 2.0]])


@pytest.mark.parametrize("library", ["dataset", "polars", "pandas", "duckdb"])
def test_a_stream_is_rows_by_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    monkeypatch.setattr(sources, "STREAMED", 7)
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    points = np.random.default_rng(0).integers(-9, 9, (40, 2))
    pq.write_table(pa.table({"x": points[:, 0], "y": points[:, 1].astype(float)}), tmp_path / "a.parquet")
    rows = ArrowRows(streams(tmp_path / "a.parquet")[library])
    assert (rows.names, rows.shape, rows.dtype) == (("x", "y"), (40, 2), np.float64)
    for part in (
        slice(0, 3),
        slice(3, 20),
        slice(25, 31),
        slice(2, 5),
        slice(39, 99),
        slice(8, 8),
        slice(None),
    ):
        assert (rows[part] == points[part]).all()
        assert len(rows._left) < 7  # no more than a batch is in memory
    assert (ArrowRows(streams(tmp_path / "a.parquet")[library], ["y"])[:] == points[:, 1:]).all()
    data = Federation.from_arrays([rows, points[:20]])
    assert (
        secfc.fit(secfc.Lloyd(2), data, seed=0).flat
        == secfc.fit(secfc.Lloyd(2), Federation.from_arrays([points.astype(float), points[:20]]), seed=0).flat
    ).all()


def test_a_stream_that_is_no_rows_is_refused() -> None:
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"x": [1.0, None, 3.0], "name": ["a", "b", "c"]})
    with pytest.raises(InputError, match="column 'name': its type is string"):
        ArrowRows(lambda: table)
    with pytest.raises(InputError, match="has no column 'y'"):
        ArrowRows(lambda: table, ["y"])
    with pytest.raises(InputError, match="column 'x': 1 value is missing in rows 0 to 2"):
        ArrowRows(lambda: table, ["x"])[:]
    ends = iter([3, 3, 2])  # its schema, its rows, and then
    rows = ArrowRows(lambda: pa.table({"x": np.zeros(next(ends))}))
    with pytest.raises(InputError, match="has 2 rows and had 3 before"):
        rows[:]


@pytest.mark.parametrize("gaps", [False, True])
def test_a_large_row_group_is_read_by_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gaps: bool
) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(sources, "STREAMED", 7)
    monkeypatch.setattr(sources, "LARGE_GROUP", 79)
    opened = []
    monkeypatch.setattr(
        pq, "ParquetFile", lambda *a, real=pq.ParquetFile, **how: opened.append(how) or real(*a, **how)
    )
    points = np.arange(80.0).reshape(40, 2)
    points[5, 1] = np.nan if gaps else 0.0
    pq.write_table(
        pa.table({"x": points[:, 0], "y": pa.array(points[:, 1], from_pandas=True)}), tmp_path / "a.parquet"
    )
    rows = sources.ParquetRows(tmp_path / "a.parquet", ["x", "y"], gaps=gaps)
    for part in (slice(0, 3), slice(3, 20), slice(2, 5), slice(None)):
        np.testing.assert_array_equal(rows[part], points[part])
    assert rows._stream is not None
    assert not rows._cache
    # Arrow fetches the whole file ahead if nobody says otherwise.
    assert {how["pre_buffer"] for how in opened} == {False}
    monkeypatch.setattr(sources, "LARGE_GROUP", 80)
    assert sources.ParquetRows(tmp_path / "a.parquet", ["x", "y"])._stream is None
