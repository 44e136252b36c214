"""Files as people have them: what is found out, what must be said, and what is refused."""

from __future__ import annotations

import datetime
import gzip
import io
import zipfile
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner

from secfc.cli import main
from secfc.data.dialects import Dialect
from secfc.data.federation import Federation
from secfc.data.ids import load_ids
from secfc.errors import InputError


def packed(content: bytes) -> bytes:
    """A .gz that is the same at any time, as names of tests must be."""
    return gzip.compress(content, mtime=0)


def zipped(content: bytes) -> bytes:
    """A .zip that is the same at any time."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(zipfile.ZipInfo("a.csv"), content)
    return out.getvalue()


POINTS = [[1.5, -20.25], [1000.0, 0.125]]
PLAIN = "größe,y\n1.5,-20.25\n1000,0.125\n"
EUROPEAN = "größe;y\n1,5;-20,25\n1000;0,125\n"


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("a.csv", PLAIN.encode(), {}),
        ("a.csv", PLAIN.encode("utf-8-sig"), {}),
        ("a.csv", PLAIN.encode("utf-16"), {}),
        ("a.csv", PLAIN.encode("utf-32"), {}),
        ("a.csv", PLAIN.encode("cp1252"), {"encoding": "cp1252"}),
        ("a.csv", EUROPEAN.encode(), {}),
        ("a.csv", EUROPEAN.encode(), {"delimiter": ";", "decimal": ","}),
        ("a.csv", EUROPEAN.encode("utf-16"), {"delimiter": "semicolon"}),
        ("a.csv", EUROPEAN.replace(";", "|").encode(), {}),
        ("a.csv", PLAIN.replace(",", "\t").encode(), {}),
        ("a.tsv", EUROPEAN.replace(";", "\t").encode(), {}),
        ("a.csv", PLAIN.replace(",", ":").encode(), {"delimiter": ":"}),
        ("a.csv.gz", packed(EUROPEAN.encode()), {}),
        ("a.tsv.gz", packed(PLAIN.replace(",", "\t").encode("utf-16")), {}),
        ("a.csv", b'"gr","y"\n"1,5","-20,25"\n1000,"0,125"\n', {}),
        ("a.csv", b"1,5;-20,25\n1000;0,125\n", {}),
    ],
)
def test_what_a_file_says_is_taken(
    tmp_path: Path, name: str, content: bytes, options: dict[str, Any]
) -> None:
    (tmp_path / name).write_bytes(content)
    federation = Federation.from_files(tmp_path / name, dialect=Dialect(**options))
    assert federation.stacked().tolist() == POINTS
    assert federation.names == ("a",)


LATE = "x;y\n" + "1;2\n" * 300
REFUSED: list[tuple[str, bytes, dict[str, Any], str]] = [
    ("a.csv", b"x;y\n1,234;2\n", {}, 'may be a decimal or group thousands.*decimal=","'),
    ("a.csv", b"x;y\n1,5;2\n1,234.5;3\n", {}, "may be a decimal or group thousands"),
    ("a.csv", b"x;y\n1,5;2\n1.5;3\n", {}, "line 3, column 'x': .*another kind"),
    ("a.csv", (LATE + "1,5;2\n").encode(), {}, "line 302, column 'x'.*another kind"),
    ("a.csv", (LATE + "1,234;2\n").encode(), {}, "line 302, column 'x'.*another kind"),
    ("a.csv", b"x,a;b\nu,a;b\n", {}, "could be separated by ',' or ';'.*Say which .delimiter=."),
    ("a.csv", PLAIN.encode("cp1252"), {}, "a.csv is not UTF-8 text.*cp1252.*encoding="),
    ("a.csv", PLAIN.encode(), {"encoding": "ascii"}, "a.csv is not ASCII text"),
    ("a.csv", PLAIN.encode(), {"encoding": "klingon"}, 'encoding="klingon": a name .*cp1252'),
    ("a.csv", b"x\n1\n", {"delimiter": "ab"}, 'delimiter="ab": one character'),
    ("a.csv", b"x\n1\n", {"delimiter": "1"}, 'delimiter="1": one character'),
    ("a.csv", b"x\n1\n", {"decimal": "'"}, 'decimal="\'": "." or ","'),
    ("a.csv", b"x\n1\n", {"delimiter": ",", "decimal": ","}, "one comma cannot be both"),
    ("a.csv.gz", b"x\n1\n", {}, "no whole archive"),
    ("a.csv.gz", packed(b"x\n" + b"1\n" * 9)[:-6], {}, "no whole archive"),
    ("a.txt.gz", b"", {}, "extension '.txt.gz'"),
    ("a.csv", b"x,day\n1,2024-01-31\n", {}, "line 2, column 'day': the cell is a date or a time.*exclude="),
    ("a.csv", b"x,day\n1,31.01.2024\n", {}, "is a date"),
    ("a.csv", b"x,day\n1,1/31/24 12:30\n", {}, "is a date"),
    ("a.csv", b"x,at\n1,12:30\n", {}, "is a date"),
    ("a.csv", b"x;day\n1,5;31.01.2024\n", {}, "is a date"),
]


@pytest.mark.parametrize(("name", "content", "options", "message"), REFUSED)
def test_doubt_is_refused(
    tmp_path: Path, name: str, content: bytes, options: dict[str, Any], message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        Federation.from_files(tmp_path / name, dialect=Dialect(**options))
    assert "2024" not in str(caught.value)
    assert "1,234;" not in str(caught.value)


def test_a_comma_before_three_digits_is_a_decimal_if_told_or_if_others_are(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x;y\n1,234;2\n")
    assert Federation.from_files(path, dialect=Dialect(decimal=",")).stacked().tolist() == [[1.234, 2]]
    path.write_text("x;y\n1,234;2,5\n")
    assert Federation.from_files(path).stacked().tolist() == [[1.234, 2.5]]
    with pytest.raises(InputError, match="another kind"):
        Federation.from_files(path, dialect=Dialect(decimal="."))


def test_dialects_know_words() -> None:
    assert Dialect(delimiter="tab") == Dialect(delimiter="\t")


def workbook(path: Path, *sheets: list[list[Any]]) -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for number, rows in enumerate(sheets):
        sheet = book.create_sheet(f"s{number}")
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def test_excel_is_read_as_it_was_written(tmp_path: Path) -> None:
    values = np.round(np.random.default_rng(0).normal(size=(20, 3)) * 1e5, 6)  # openpyxl writes 16 digits
    rows = [["x", "y", "z", "who"], *([*row, f"p{i}"] for i, row in enumerate(values.tolist())), [None] * 4]
    path = workbook(tmp_path / "a.xlsx", rows)
    federation = Federation.from_files(path, id_column="who")
    assert federation.stacked().tobytes() == values.tobytes()
    assert federation.parties[0].ids[-1] == "p19"


@pytest.mark.parametrize(
    ("sheets", "message"),
    [
        ([[["x", "y"], [1, datetime.date(2024, 1, 31)]]], "line 2, column 'y': the cell is a date"),
        ([[["x", "y"], [1, datetime.datetime(2024, 1, 31, 5, 6)]]], "the cell is a date"),
        ([[["x", "y"], [1, None]]], "line 2, column 'y': the cell is empty"),
        ([[["x", "y"], [1, 2, 3]]], "line 2: 3 cells"),
        ([[["x", "y"], [1, True], [2, 3]]], "line 2, column 'y': the cell is true or false, and others"),
        ([[["x"], [1]], [["x"], [2]]], "has 2 visible sheets, 's0', 's1': one is needed.*sheet="),
        ([[]], "is empty"),
    ],
)
def test_bad_excel_is_refused(tmp_path: Path, sheets: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Federation.from_files(workbook(tmp_path / "a.xlsx", *sheets))


def test_what_is_no_workbook_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    (tmp_path / "a.xlsx").write_text("x\n1\n")
    with pytest.raises(InputError, match=r"not a readable \.xlsx"):
        Federation.from_files(tmp_path / "a.xlsx")


COMMANDS = [
    "run",
    "audit",
    "attack geometry",
    "attack differences",
    "attack reconstruct",
    "attack membership",
    "predict",
    "deploy init",
    "psu",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_all_commands_take_the_same_options(command: str, tmp_path: Path) -> None:
    found: Any = main
    for word in command.split():
        found = found.get_command(click.Context(found), word)
    shown = {flag for parameter in found.params for flag in parameter.opts}
    wanted = ("--delimiter", "--decimal", "--encoding")
    assert all(option in shown for option in (wanted if command != "psu" else wanted[::2]))


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"x;y\n1,234;2\n", "", "Say that it is a decimal (--decimal ,)"),
        (PLAIN.encode("cp1252"), "", "Say which (--encoding)"),
        (b"x\n1\n", "--delimiter ab", "--delimiter ab: one character is needed"),
        (b"x\n1\n", "--encoding klingon", "--encoding klingon: a name such as"),
        (b"x\n1\n", "--decimal x", "'x' is not one of '.', ','"),
    ],
)
def test_the_shell_speaks_of_options(tmp_path: Path, content: bytes, options: str, message: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    done = CliRunner().invoke(main, ["run", str(path), "-k", "2", "--json", *options.split()])
    assert done.exit_code == 2
    assert message in done.stderr


def ids_of(path: Path, dialect: Dialect | None = None) -> list[Any]:
    """IDs of a file beside another client's."""
    plain = path.suffixes[0] == ".txt"
    other = path.parent / ("other.txt" if plain else "other.csv")
    other.write_text("1\n" if plain else "id\n1\n")
    return list(load_ids([path, other], None if plain else "id", None, dialect)[0].ids)


@pytest.mark.parametrize(
    ("name", "content", "dialect"),
    [
        ("a.csv", "id;x\nähm;1,5\n7;1,234\n".encode(), None),
        ("a.csv", "id;x\nähm;1\n7;2\n".encode("cp1252"), Dialect("cp1252")),
        ("a.tsv", "x\tid\n1\tähm\n2\t7\n".encode(), None),
        ("a.csv.gz", packed("id,x\nähm,1\n7,2\n".encode()), None),
        ("a.csv.zip", zipped("id,x\nähm,1\n7,2\n".encode()), None),
        ("a.txt.gz", packed("ähm\r\n7\r\n".encode("utf-16")), None),
        ("a.txt", "ähm\n7\n".encode("latin-1"), Dialect("latin-1")),
    ],
)
def test_ids_are_read_from_such_files_too(
    tmp_path: Path, name: str, content: bytes, dialect: Dialect | None
) -> None:
    (tmp_path / name).write_bytes(content)
    assert ids_of(tmp_path / name, dialect) == ["ähm", "7"]


def test_ids_are_read_from_excel_and_doubt_is_refused(tmp_path: Path) -> None:
    book = pytest.importorskip("openpyxl").Workbook()
    for row in (("id", "x"), ("ähm", 1.5), (7, 2)):
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    assert ids_of(tmp_path / "a.xlsx") == ["ähm", "7"]
    (tmp_path / "b.csv").write_bytes("id\nähm\n".encode("cp1252"))
    with pytest.raises(InputError, match=r"Say which \(encoding=\)"):
        ids_of(tmp_path / "b.csv")


@pytest.mark.parametrize("cell", ["2024-01-31", "31.1.2024", "2024-01", "5 Jan 2024", "Jan 5, 2024", "10:30"])
def test_dates_are_refused_with_what_to_do(tmp_path: Path, cell: str) -> None:
    (tmp_path / "a.csv").write_text(f'x,y\n1,"{cell}"\n')
    with pytest.raises(
        InputError, match=r"a date or a time.*as years of age.*leave the column out"
    ) as refused:
        Federation.from_files(tmp_path / "a.csv")
    assert cell not in str(refused.value)


def test_new_points_are_read_as_those_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in "abc":
        rows = (f"{name}{i};{20 * (i % 2) + i / 100:.2f};{i % 2}" for i in range(12))
        text = "\n".join(["nämlich;x;y", *rows]).replace(".", ",")
        (tmp_path / f"{name}.csv").write_bytes(text.encode("cp1252"))
    (tmp_path / "next").mkdir()
    (tmp_path / "next/b.csv").write_bytes("nämlich;x;y\nü;0,5;\nv;20,5;1\nw;;0\n".encode("cp1252"))
    (tmp_path / "next/c.csv").write_bytes(b"x;y\n;1,5\n")

    def shell(line: str, code: int = 0) -> str:
        done = CliRunner().invoke(main, [*line.split(), "--encoding", "cp1252", "--force"])
        assert done.exit_code == code, done.output
        return done.output

    read = "--id-column nämlich"
    shell(f"run a.csv b.csv c.csv -k 2 --init random --missing mean --bound 64 --model m.npz {read}")
    assert "(--missing mean), or let their rows be dropped (--missing drop)" in shell(
        f"predict m.npz next/b.csv {read}", 2
    )
    assert "1 label written" in shell(f"predict m.npz next/b.csv --missing drop {read}")
    low, high = Path("secfc-labels.csv").read_text().splitlines()[1:3]
    assert Path("secfc-predicted.csv").read_text() == f"client,row,id,label\nb,1,v,{high[-1]}\n"
    shell(f"predict m.npz next/b.csv --missing mean {read}")
    rows = Path("secfc-predicted.csv").read_text().splitlines()
    assert rows[1:3] == [f"b,0,ü,{low[-1]}", f"b,1,v,{high[-1]}"]
    assert len(rows) == 4
    assert "every row" in shell("predict m.npz next/c.csv --missing drop", 2)
    shell("run a.csv b.csv c.csv -k 2 --init random --model m.npz --id-column nämlich")
    assert "no mean is known. Use --missing drop" in shell(
        f"predict m.npz next/b.csv --missing mean {read}", 2
    )
