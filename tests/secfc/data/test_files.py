"""Federations from files: exact round trips, lazy reading, and every kind of bad file."""

from __future__ import annotations

import csv
import pickle
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from field.ring.errors import install_command
from secfc.data.dialects import Dialect
from secfc.data.federation import Federation
from secfc.data.files import ParquetRows
from secfc.errors import InputError, MissingFileError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

SECRET = "topsecret"


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def write_csv(path: Path, points: Any, header: Any = None) -> Path:
    with path.open("w", newline="") as handle:
        writer = csv.writer(handle)
        if header is not None:
            writer.writerow(header)
        writer.writerows([[repr(float(value)) for value in row] for row in points])
    return path


def write_parquet(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    pq.write_table(pa.table(columns), path, **options)
    return path


def names(d: int) -> list[str]:
    return [f"x{i}" for i in range(d)]


# --- round trips

FINITE = st.floats(allow_nan=False, allow_infinity=False)
TABLES = st.tuples(st.integers(1, 8), st.integers(1, 4)).flatmap(
    lambda shape: st.lists(
        arrays(np.float64, st.tuples(st.integers(1, 8), st.just(shape[1])), elements=FINITE),
        min_size=1,
        max_size=3,
    )
)


def as_csv(folder: Path, tables: list[Any]) -> Federation:
    paths = [write_csv(folder / f"p{j}.csv", t, names(t.shape[1])) for j, t in enumerate(tables)]
    return Federation.from_files(paths)


def as_bare_csv(folder: Path, tables: list[Any]) -> Federation:
    # Files that begin with the same whole numbers are doubted.
    paths = [write_csv(folder / f"p{j}.csv", t) for j, t in enumerate(tables)]
    return Federation.from_files(paths, dialect=Dialect(header=False))


def as_parquet(folder: Path, tables: list[Any]) -> Federation:
    paths = [
        write_parquet(
            folder / f"p{j}.parquet",
            {name: t[:, i] for i, name in enumerate(names(t.shape[1]))},
            row_group_size=3,
        )
        for j, t in enumerate(tables)
    ]
    return Federation.from_files(paths)


def as_npy(folder: Path, tables: list[Any]) -> Federation:
    for j, table in enumerate(tables):
        np.save(folder / f"p{j}.npy", table)
    return Federation.from_files([folder / f"p{j}.npy" for j in range(len(tables))])


def as_npz(folder: Path, tables: list[Any]) -> Federation:
    np.savez(folder / "all.npz", **{f"p{j}": table for j, table in enumerate(tables)})
    return Federation.from_files(folder / "all.npz")


def as_npz_files(folder: Path, tables: list[Any]) -> Federation:
    for j, table in enumerate(tables):
        np.savez_compressed(folder / f"p{j}.npz", X=table)
    return Federation.from_files([folder / f"p{j}.npz" for j in range(len(tables))])


@pytest.mark.parametrize("through", [as_csv, as_bare_csv, as_parquet, as_npy, as_npz, as_npz_files])
@settings(deadline=None, max_examples=25)
@given(tables=TABLES)
def test_values_survive_bit_for_bit(
    through: Callable[[Path, list[Any]], Federation], tables: list[Any]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        federation = through(Path(folder), tables)
        alone = through is as_npz and len(tables) == 1
        expected = ("all",) if alone else tuple(f"p{j}" for j in range(len(tables)))
        assert federation.names == expected
        for party, table in zip(federation.parties, tables, strict=True):
            points = party.read()
            assert points.dtype == np.float64
            assert points.tobytes() == np.ascontiguousarray(table).tobytes()  # even the sign of 0
        named = through in (as_csv, as_parquet)
        assert federation.feature_names == (tuple(names(tables[0].shape[1])) if named else None)
        del federation, party, points  # unmap before the folder goes


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_one_file_is_split_by_client_in_order_of_first_appearance(tmp_path: Path, suffix: str) -> None:
    who = ["north", "south", "north", "east", "south"]
    x, y, label, ident = [1.0, 2, 3, 4, 5], [6.0, 7, 8, 9, 10], [3, 3, 1, 2, 1], [7, 7, 8, 9, 6]
    path = tmp_path / f"all{suffix}"
    if suffix == ".csv":
        rows = zip(who, x, label, y, ident, strict=True)
        text = "site,x,class,y,key\n" + "\n".join(",".join(map(str, row)) for row in rows)
        write(path, text + "\n")
    elif suffix == ".parquet":
        write_parquet(path, {"site": who, "x": x, "class": label, "y": y, "key": ident})
    else:
        arrays_by_key: dict[str, Any] = {"site": who, "class": label, "key": ident}
        np.savez(path, X=np.stack([x, y], axis=1), feature_names=["x", "y"], **arrays_by_key)
    federation = Federation.from_files(path, client_column="site", label_column="class", id_column="key")
    assert federation.names == ("north", "south", "east")
    assert federation.feature_names == ("x", "y")
    np.testing.assert_array_equal(federation.stacked(), [[1, 6], [3, 8], [2, 7], [5, 10], [4, 9]])
    np.testing.assert_array_equal(federation.truth, [3, 1, 3, 1, 2])
    ids = tuple(party.ids for party in federation.parties)
    assert ids == (("7", "8"), ("7", "6"), ("9",))  # a number is compared as text, whatever the file


def test_npz_keys_y_and_client_are_used_by_default(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=np.arange(6.0).reshape(3, 2), y=[4, 5, 6], client=[2, 1, 2], other=[0])
    federation = Federation.from_files(tmp_path / "a.npz")
    assert federation.names == ("2", "1")
    np.testing.assert_array_equal(federation.truth, [4, 6, 5])


def test_npz_key_named_for_one_use_is_not_used_for_another(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=np.zeros((2, 1)), y=["u", "v"])
    federation = Federation.from_files(tmp_path / "a.npz", client_column="y")
    assert federation.names == ("u", "v")
    assert federation.truth is None


def test_npz_of_one_array_is_named_after_its_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", anything=np.zeros((2, 1)))
    np.savez(tmp_path / "b.npz", anything=np.ones((2, 1)))
    assert Federation.from_files([tmp_path / "a.npz", tmp_path / "b.npz"]).names == ("a", "b")


# --- columns


def test_columns_are_matched_by_name_in_the_order_of_the_first_file(tmp_path: Path) -> None:
    one = write(tmp_path / "a.csv", "x,y\n1,2\n")
    two = write(tmp_path / "b.csv", "y,x\n4,3\n")
    three = write_parquet(tmp_path / "c.parquet", {"y": [6], "x": [5]})
    np.savez(tmp_path / "d.npz", X=[[8, 7]], feature_names=["y", "x"])
    federation = Federation.from_files([one, two, three, tmp_path / "d.npz"])
    assert federation.feature_names == ("x", "y")
    np.testing.assert_array_equal(federation.stacked(), [[1, 2], [3, 4], [5, 6], [7, 8]])


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_chosen_columns_come_in_the_chosen_order(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    if suffix == ".csv":
        write(path, f"x,y,z\n1,{SECRET},3\n")
    elif suffix == ".parquet":
        write_parquet(path, {"x": [1.0], "y": [SECRET], "z": [3.0]})
    else:
        np.savez(path, X=[[1.0, 2.0, 3.0]], feature_names=["x", "y", "z"])
    federation = Federation.from_files(path, columns=["z", "x"])
    assert federation.feature_names == ("z", "x")
    np.testing.assert_array_equal(federation.stacked(), [[3, 1]])


@pytest.mark.parametrize(
    ("labels", "codes"),
    [
        (["b", "a", "b"], [1, 0, 1]),
        (["7", "-2", "+3"], [7, -2, 3]),
        (["1.0", "2", "1"], [1, 2, 1]),
        (["1", "x", "10"], [0, 2, 1]),
        (["1_0", "10", "2"], [1, 0, 2]),
        (["0.5", "1.5", "0.5"], [0, 1, 0]),
        ([str(2**63), "1", "2"], [2, 0, 1]),
    ],
)
def test_labels_become_integers(tmp_path: Path, labels: list[str], codes: list[int]) -> None:
    body = "".join(f"0,{label}\n" for label in labels)
    path = write(tmp_path / "a.csv", "x,label\n" + body)
    federation = Federation.from_files(path, label_column="label")
    # "10" < "1_0" and "1" < "2" < "9..." as strings.
    np.testing.assert_array_equal(federation.truth, codes)


def test_label_codes_are_the_same_for_all_clients(tmp_path: Path) -> None:
    one = write(tmp_path / "a.csv", "x,label\n0,cat\n0,dog\n")
    two = write_parquet(tmp_path / "b.parquet", {"x": [0.0], "label": ["dog"]})
    three = write(tmp_path / "c.csv", "x,label\n0,ant\n")
    federation = Federation.from_files([one, two, three], label_column="label")
    np.testing.assert_array_equal(federation.truth, [1, 2, 2, 0])


def test_clients_are_named_after_files_and_names_made_unique(tmp_path: Path) -> None:
    paths = []
    for folder, stem in [("a", "data"), ("b", "data"), ("c", "data-2"), ("d", "data")]:
        (tmp_path / folder).mkdir()
        paths.append(write(tmp_path / folder / f"{stem}.csv", "1,1\n"))
    federation = Federation.from_files([str(path) for path in paths])
    assert federation.names == ("data", "data-3", "data-2", "data-4")


# --- CSV


def test_csv_dialect(tmp_path: Path) -> None:
    text = '\ufeff"height, m", "name" ,w\r\n 1.5 ,"o ""b"" ,\r\nc",-2e3\r\n\r\n1,d,+.5\r\n\r\n'
    path = tmp_path / "A.CSV"
    path.write_bytes(text.replace(' "name" ', "name").encode())
    federation = Federation.from_files(path, id_column="name")
    assert federation.feature_names == ("height, m", "w")
    np.testing.assert_array_equal(federation.stacked(), [[1.5, -2000], [1, 0.5]])
    assert federation.parties[0].ids == ('o "b" ,\r\nc', "d")


def test_header_of_numbers_is_a_header_if_columns_are_asked_for_by_it(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "id,0,1\nu,5,6\n")
    federation = Federation.from_files(path, id_column="id")
    assert federation.feature_names == ("0", "1")
    np.testing.assert_array_equal(federation.stacked(), [[5, 6]])


CSV_ERRORS: list[tuple[str, dict[str, Any], str]] = [
    ("x,y\n1,2\n3\n", {}, r"a.csv, line 3: 1 cell, and the first row has 2.*correct the row"),
    ("x,y\n1,2\n\n3,4,5\n", {}, r"a.csv, line 4: 3 cells"),
    ("1,2\n3,4,5\n", {}, r"line 2: 3 cells"),
    ("", {}, r"a.csv is empty: a client needs at least one point"),
    ("\n\n", {}, r"a.csv is empty"),
    ("x,y\n", {}, r"a.csv has a header and no data"),
    (f"x,y\n1,2\n3,{SECRET}\n", {}, r"a.csv, line 3, column 'y': the cell is not a number"),
    ("x,y\n1,2\n3,1_0\n", {}, r"line 3, column 'y': the cell is not a number"),
    (f"1,2\n3,{SECRET}\n", {}, r"line 2, column '1': the cell is not a number"),
    ("x,y\n1,2\n,4\n", {}, r"line 3, column 'x': the cell is empty"),
    ("x,y\n1,2\n3, \n", {}, r"line 3, column 'y': the cell is empty"),
    ("x,y\n1,2\n3,nan\n", {}, r"client 'a', row 1, feature 'y': .*is NaN"),
    ("x,y\n1,-inf\n", {}, r"client 'a', row 0, feature 'y': .*is infinite"),
    ("x,y\n1,1e999\n", {}, r"client 'a', row 0, feature 'y': .*is infinite"),
    ("1,2\nnan,4\n", {}, r"client 'a', row 1, feature 0"),
    ("x,x\n1,2\n", {}, r"a.csv has several columns 'x': names must differ"),
    ("x,y\n1,2\n", {"columns": ["z"]}, r"a.csv has no column 'z': its columns are 'x', 'y'"),
    ("x,y\n1,2\n", {"label_column": "z"}, r"a.csv has no column 'z'"),
    ("x,y\n1,2\n", {"id_column": "z"}, r"a.csv has no column 'z'"),
    ("x,y\n1,2\n", {"client_column": "z"}, r"a.csv has no column 'z'"),
    ("1,2\n3,4\n", {"columns": ["x"]}, r"a.csv has no header row, so it has no column 'x'"),
    ("5.1,3.5,setosa\n4,3,setosa\n", {}, r"a.csv, line 1: some cells are numbers .* neither"),
    (",x,y\n0,1,2\n", {}, r"a.csv, column 1 has no name: it looks like a row number"),
    ('x,y\n1,"2\n', {}, r"a.csv, line 2: not valid CSV"),
    ("x,u\n1,\n", {"id_column": "u"}, r"line 2, column 'u': the cell is empty"),
    (f"x,u\n1,{SECRET}\n2,{SECRET}\n", {"id_column": "u"}, r"client 'a' has the same id in rows 0"),
    ("x,u\n1,server\n", {"client_column": "u"}, r"'server' is taken"),
    ("u\na\n", {"id_column": "u"}, r"a.csv has no feature columns"),
    ("x,y\n1,2\n", {"columns": "x"}, r"columns='x' is one string: pass a list"),
    ("x,y\n1,2\n", {"columns": []}, r"the columns asked for are none: .*one feature or more"),
    ("x,y\n1,2\n", {"columns": ["x", "x"]}, r"'x', 'x': every column has one use"),
    ("x,y\n1,2\n", {"columns": ["x"], "label_column": "x"}, r"every column has one use"),
]


def test_ids_that_are_persons_may_be_repeated(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("who,x\np,1\nq,2\np,3\n", encoding="utf-8")
    (party,) = Federation.from_files(path, id_column="who", repeated=True).parties
    assert party.ids is None
    assert party.persons.tolist() == [0, 1, 0] == list(party.named)
    with pytest.raises(InputError, match="same id in rows 0 and 2"):
        Federation.from_files(path, id_column="who")


@pytest.mark.parametrize(("text", "arguments", "message"), CSV_ERRORS)
def test_bad_csv_is_refused_without_showing_cells(
    tmp_path: Path, text: str, arguments: dict[str, Any], message: str
) -> None:
    path = write(tmp_path / "a.csv", text)
    with pytest.raises(InputError, match=message) as caught:
        Federation.from_files(path, **arguments)
    assert SECRET not in str(caught.value)


def test_csv_in_another_encoding_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("größe\n1\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"a.csv is not UTF-8 text"):
        Federation.from_files(tmp_path / "a.csv")


def test_long_lists_of_columns_are_cut(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", np.zeros((1, 500)), names(500))
    with pytest.raises(InputError, match=r"'x7', \.\.\. \(500 in all\)"):
        Federation.from_files(path, columns=["z"])


# --- paths


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"a.csv does not exist. Check the path"):
        Federation.from_files(tmp_path / "a.csv")
    assert issubclass(MissingFileError, InputError)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda folder: folder, r"is a directory: files are needed"),
        (lambda folder: [], r"no files are given"),
        (lambda folder: write(folder / "a.xls", "1"), r"extension '.xls': .csv, .*.tsv, .*.parquet"),
        (lambda folder: write(folder / "a", "1"), r"extension ''"),
        (
            lambda folder: [write(folder / "a.csv", "1\n"), folder / ".." / folder.name / "a.csv"],
            r"a.csv is given twice",
        ),
    ],
)
def test_bad_paths_are_refused(tmp_path: Path, build: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Federation.from_files(build(tmp_path))


# --- several files


def test_files_with_other_columns_are_refused(tmp_path: Path) -> None:
    one = write(tmp_path / "a.csv", "x,y,z\n1,2,3\n")
    two = write(tmp_path / "b.csv", "x,q,z\n1,2,3\n")
    with pytest.raises(InputError, match=r"b.csv has other columns .* missing are 'y', additional are 'q'"):
        Federation.from_files([one, two])
    np.testing.assert_array_equal(
        Federation.from_files([one, two], columns=["x", "z"]).stacked(), [[1, 3], [1, 3]]
    )


def test_files_of_other_widths_are_refused(tmp_path: Path) -> None:
    one, two = write(tmp_path / "a.csv", "1,2\n"), write(tmp_path / "b.csv", "1,2,4\n")
    with pytest.raises(InputError, match="client 'b' has 3 features and client 'a' 2"):
        Federation.from_files([one, two])


@pytest.mark.parametrize("first", ["a.csv", "b.csv"])
def test_files_with_and_without_header_are_refused(tmp_path: Path, first: str) -> None:
    write(tmp_path / "a.csv", "x,y\n1,2\n")
    write(tmp_path / "b.csv", "1,2\n")
    second = "b.csv" if first == "a.csv" else "a.csv"
    with pytest.raises(InputError, match=r"b.csv has no column names and other files have"):
        Federation.from_files([tmp_path / first, tmp_path / second])


def test_several_files_each_with_several_clients_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", p=np.zeros((1, 1)), q=np.zeros((1, 1)))
    single = write(tmp_path / "b.csv", "x,site\n1,n\n")
    with pytest.raises(InputError, match=r"a.npz holds several clients and is one of 2 files"):
        Federation.from_files([tmp_path / "a.npz", single])
    other = write(tmp_path / "c.csv", "x,site\n1,n\n")
    with pytest.raises(InputError, match=r"b.csv holds several clients"):
        Federation.from_files([single, other], client_column="site")


def test_ids_of_different_kinds_are_refused(tmp_path: Path) -> None:
    one = write(tmp_path / "a.csv", "x,key\n1,7\n")
    two = write_parquet(tmp_path / "b.parquet", {"x": [1.0], "key": [b"7"]})
    with pytest.raises(InputError, match="'a' has str ids and client 'b' bytes ids"):
        Federation.from_files([one, two], id_column="key")


# --- numpy files


def test_npy_is_mapped_and_not_read(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([[np.nan, 1.0]]))
    federation = Federation.from_files(tmp_path / "a.npy")
    assert isinstance(federation.parties[0].points, np.memmap)
    with pytest.raises(InputError, match="client 'a', row 0, feature 0"):
        federation.stacked()


def save(name: str, **content: Any) -> Callable[[Path], Path]:
    def saved(folder: Path) -> Path:
        path = folder / name
        if name.endswith(".npz"):
            np.savez(path, **content)
        else:
            np.save(path, content["X"])
        return path

    return saved


def pickled(name: str) -> Callable[[Path], Path]:
    def saved(folder: Path) -> Path:
        (folder / name).write_bytes(pickle.dumps({"a": [1, 2]}))
        return folder / name

    return saved


def cut_short(name: str) -> Callable[[Path], Path]:
    def saved(folder: Path) -> Path:
        path = save(name, X=np.zeros((100, 3)))(folder)
        path.write_bytes(path.read_bytes()[:200])
        return path

    return saved


def under_other_name(name: str, other: str) -> Callable[[Path], Path]:
    return lambda folder: save(name, X=np.zeros((2, 2)))(folder).rename(folder / other)


OBJECTS = np.array([[1, None]], dtype=object)
SQUARE = np.eye(2)


@pytest.mark.parametrize(
    ("build", "arguments", "message"),
    [
        (save("a.npy", X=OBJECTS), {}, r"a.npy is not a readable .npy .*pickled .*plain arrays"),
        (save("a.npz", X=OBJECTS), {}, r"a.npz is not a readable .npz .*pickled"),
        (save("a.npz", p=OBJECTS), {}, r"a.npz is not a readable .npz .*pickled"),
        (pickled("a.npy"), {}, r"a.npy is not a readable"),
        (pickled("a.npz"), {}, r"a.npz is not a readable"),
        (cut_short("a.npy"), {}, r"a.npy is not a readable .npy .*cut short"),
        (cut_short("a.npz"), {}, r"a.npz is not a readable .npz .*cut short"),
        (lambda f: write(f / "a.npy", ""), {}, r"a.npy is not a readable"),
        (lambda f: write(f / "a.npz", ""), {}, r"a.npz is not a readable"),
        (under_other_name("a.npy", "b.npz"), {}, r"b.npz is no .npz archive. Rename"),
        (under_other_name("a.npz", "b.npy"), {}, r"b.npy is an .npz archive. Rename"),
        (save("a.npy", X=np.zeros(3)), {}, r"a.npy has points of shape \(3,\).*reshape\(-1, 1\)"),
        (save("a.npy", X=np.zeros((0, 3))), {}, r"a.npy (has no points|is not a readable)"),
        (save("a.npy", X=np.array([["x"]])), {}, r"client 'a' has points of dtype <U1"),
        (save("a.npy", X=SQUARE), {"columns": ["x"]}, r"a.npy has no column names, so 'x'"),
        (save("a.npz", X=np.zeros(3)), {}, r"a.npz, array 'X', has points of shape \(3,\)"),
        (save("a.npz", X=np.zeros((0, 3)), client=[]), {}, r"array 'X', has no points"),
        (save("a.npz", p=SQUARE, q=np.zeros(3)), {}, r"a.npz, array 'q', has points of shape"),
        (save("a.npz", p=SQUARE, q=SQUARE.astype(bool)), {}, r"client 'q' has points of dtype bool"),
        (save("a.npz", p=SQUARE), {"label_column": "y"}, r"a.npz has no array X, so 'y' is unknown"),
        (save("a.npz"), {}, r"a.npz is empty: one array a client"),
        (save("a.npz", X=SQUARE), {"label_column": "z"}, r"has no column 'z': its columns are 'X'"),
        (save("a.npz", X=SQUARE), {"columns": ["x"]}, r"a.npz has no feature_names"),
        (save("a.npz", X=SQUARE, feature_names=["x"]), {}, r"1 feature_names and X of shape"),
        (save("a.npz", X=SQUARE, feature_names=["x", "x"]), {}, r"several columns 'x'"),
        (save("a.npz", X=SQUARE, y=[0]), {}, r"column 'y': one value for each of 2 points"),
        (save("a.npz", X=SQUARE, y=3), {}, r"column 'y': one value for each of 2 points"),
        (save("a.npz", X=SQUARE, y=[0, np.nan]), {}, r"column 'y', row 1 .*missing"),
        (save("a.npz", X=SQUARE, y=[[0], [1]]), {}, r"column 'y', row 0 .*no single value"),
    ],
)
def test_bad_numpy_files_are_refused(
    tmp_path: Path, build: Callable[[Path], Path], arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Federation.from_files(build(tmp_path), **arguments)


# --- Parquet


def groups(tmp_path: Path) -> tuple[Path, np.ndarray[Any, Any]]:
    """A file of 10 rows in groups of 3, 3, 3, 1."""
    points = np.random.default_rng(0).normal(size=(10, 2))
    columns = {"x": points[:, 0], "y": points[:, 1]}
    return write_parquet(tmp_path / "a.parquet", columns, row_group_size=3), points


def test_parquet_slices_equal_those_of_the_array(tmp_path: Path) -> None:
    path, points = groups(tmp_path)
    rows = ParquetRows(path, ["x", "y"])
    assert rows.shape == (10, 2)
    assert len(rows) == 10
    for start in [None, *range(-11, 12)]:
        for stop in [None, *range(-11, 12)]:
            np.testing.assert_array_equal(rows[start:stop], points[start:stop])
            assert rows[start:stop].shape == points[start:stop].shape
    np.testing.assert_array_equal(np.asarray(rows), points)


def test_parquet_reads_only_the_groups_of_a_slice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = groups(tmp_path)
    read: list[int] = []
    original = pq.ParquetFile.read_row_group

    def spy(self: Any, group: int, **options: Any) -> Any:
        read.append(group)
        return original(self, group, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", spy)
    federation = Federation.from_files(path)
    rows = federation.parties[0].points
    assert isinstance(rows, ParquetRows)
    assert read == []
    rows[4:5]
    assert read == [1]
    rows[4:8]
    rows[3:9]
    assert read == [1, 2]  # the last two groups are kept
    rows[0:1]
    rows[6:7]
    assert read == [1, 2, 0]
    rows[9:10]
    rows[6:7]
    assert read == [1, 2, 0, 3]  # group 2 was used after group 0, so 0 made way


def test_parquet_dtype_holds_all_columns(tmp_path: Path) -> None:
    narrow = write_parquet(
        tmp_path / "a.parquet",
        {"x": pa.array([1, 2], pa.uint8()), "y": pa.array([-1, 2], pa.int16())},
    )
    assert ParquetRows(narrow, ["x", "y"]).dtype == np.int16
    mixed = write_parquet(
        tmp_path / "b.parquet", {"x": pa.array([1], pa.int32()), "y": pa.array([0.5], pa.float32())}
    )
    points = Federation.from_files(mixed).stacked()
    assert points.dtype == np.float64
    np.testing.assert_array_equal(points, [[1, 0.5]])


def test_parquet_blocks_cannot_change_what_is_kept(tmp_path: Path) -> None:
    path, points = groups(tmp_path)
    rows = ParquetRows(path, ["x", "y"])
    with pytest.raises(ValueError, match="read-only"):
        rows[0:2][0, 0] = 7
    np.testing.assert_array_equal(rows[:], points)


@pytest.mark.parametrize("key", [0, slice(0, 4, 2), slice(None, None, -1), [1, 2]])
def test_parquet_rows_are_read_by_plain_slices_only(tmp_path: Path, key: Any) -> None:
    path, _ = groups(tmp_path)
    with pytest.raises(TypeError, match=r"ParquetRows\('a.parquet', shape=\(10, 2\)\) is read by"):
        ParquetRows(path, ["x", "y"])[key]


def test_parquet_rows_pickle_so_that_processes_can_share_them(tmp_path: Path) -> None:
    path, points = groups(tmp_path)
    rows = ParquetRows(path, ["y"])
    rows[0:1]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(rows))[:], points[:, 1:])  # noqa: S301


def test_parquet_with_ids_and_labels_stays_lazy(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", {"x": [1.0, 2.0], "key": [b"u", b"v"], "kind": ["p", "o"]})
    federation = Federation.from_files(path, id_column="key", label_column="kind")
    assert isinstance(federation.parties[0].points, ParquetRows)
    assert federation.parties[0].ids == (b"u", b"v")
    np.testing.assert_array_equal(federation.truth, [1, 0])


def nameless_index(folder: Path) -> Path:
    return write_parquet(folder / "a.parquet", {"x": [1.0], "__index_level_0__": [0]})


def twice(folder: Path) -> Path:
    table = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["x", "x"])
    pq.write_table(table, folder / "a.parquet")
    return folder / "a.parquet"


def parquet(**columns: Any) -> Callable[[Path], Path]:
    return lambda folder: write_parquet(folder / "a.parquet", columns)


@pytest.mark.parametrize(
    ("build", "arguments", "message"),
    [
        (parquet(x=[1.0], y=[SECRET]), {}, r"a.parquet, column 'y': its type is string. Features"),
        (parquet(x=[[1.0]]), {}, r"column 'x': its type is list<"),
        (parquet(x=pa.array([1], pa.date32())), {}, r"column 'x': its type is date32"),
        (parquet(x=pa.array([1], pa.timestamp("s", "UTC"))), {}, r"'x': its type is timestamp"),
        (parquet(x=[1.0, None, None]), {}, r"a.parquet, column 'x': 2 values are missing in rows 0"),
        (parquet(x=[1, None]), {}, r"column 'x': 1 value is missing"),
        (parquet(x=[1.0, np.nan]), {}, r"client 'a', row 1, feature 0: .*NaN"),
        (parquet(x=[1.0], k=[None]), {"id_column": "k"}, r"column 'k', row 0 .*missing"),
        (
            parquet(x=[1.0], k=[0.5]),
            {"id_column": "k"},
            r"column 'k': its cells are of type float, which has no one",
        ),
        (parquet(x=[1.0], k=[None]), {"label_column": "k"}, r"column 'k', row 0 .*missing"),
        (parquet(x=[1.0], k=[None]), {"client_column": "k"}, r"column 'k', row 0 .*missing"),
        (parquet(x=[1.0]), {"columns": ["z"]}, r"a.parquet has no column 'z'"),
        (parquet(x=pa.array([], pa.float64())), {}, r"a.parquet has no points"),
        (
            parquet(x=pa.array([], pa.float64()), k=pa.array([], pa.string())),
            {"client_column": "k"},
            r"a.parquet has no points",
        ),
        (parquet(k=["u"]), {"id_column": "k"}, r"a.parquet has no feature columns"),
        (nameless_index, {}, r"column 2 has no name: it looks like a row number"),
        (twice, {}, r"a.parquet has several columns 'x'"),
        (lambda f: write(f / "a.parquet", "x,y\n1,2\n"), {}, r"a.parquet is not a readable Parquet"),
        (lambda f: write(f / "a.parquet", ""), {}, r"a.parquet is not a readable Parquet"),
    ],
)
def test_bad_parquet_is_refused(
    tmp_path: Path, build: Callable[[Path], Path], arguments: dict[str, Any], message: str
) -> None:
    path = build(tmp_path)
    with pytest.raises(InputError, match=message) as caught:
        Federation.from_files(path, **arguments).stacked()
    assert SECRET not in str(caught.value)


def test_parquet_rows_of_an_unknown_column_are_refused(tmp_path: Path) -> None:
    path, _ = groups(tmp_path)
    with pytest.raises(InputError, match="no column 'z'"):
        ParquetRows(path, ["x", "z"])


def test_missing_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.parquet", "")
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=f"needs pyarrow, .* {re.escape(install_command('[files]'))}"):
        Federation.from_files(path)
    assert Federation.from_files(write(tmp_path / "a.csv", "1\n")).m == 1
