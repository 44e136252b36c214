"""`secfc psu`: ID columns in, row numbers out; what it refuses, what it never shows."""

from __future__ import annotations

import csv
import json
import os
import pty
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import psu
from secfc.cli import union
from secfc.cli.shell import screen
from tests.small import invoke

PROGRAM = [sys.executable, "-m", "secfc.cli", "psu"]
TXT = ("a.txt", "b.txt", "c.txt")
SETS = {"a": ["ann", "bob", "bob", "zoë"], "b": ["bob", "eve"], "c": ["eve", "dan", "ann"]}


run = partial(invoke, "psu")


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, ids in SETS.items():
        Path(f"{name}.txt").write_text("\n".join(ids) + "\n", encoding="utf-8")


def rows(path: str = "secfc-psu.csv") -> list[tuple[str, int, int]]:
    with open(path, newline="", encoding="utf-8") as file:
        lines = list(csv.reader(file))
    assert lines[0] == ["client", "row", "union_row"]
    return [(client, int(row), int(number)) for client, row, number in lines[1:]]


def check(found: list[tuple[str, int, int]], sets: dict[str, list[Any]]) -> None:
    """Equal IDs have equal numbers, different IDs different ones, and all of [0, m) are used."""
    assert [(client, row) for client, row, _ in found] == [
        (client, row) for client, ids in sets.items() for row in range(len(ids))
    ]
    flat = [i for ids in sets.values() for i in ids]
    number = dict(zip(flat, [n for _, _, n in found], strict=True))
    assert [n for _, _, n in found] == [number[i] for i in flat]
    assert sorted(number.values()) == list(range(len(set(flat))))


# --- formats ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["threshold", "server"])
def test_the_union_of_text_files_is_the_union(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "SLOW", 600.0)  # the first run on a machine compiles
    result = run(*TXT, "--mode", mode)
    assert result.exit_code == 0, result.output
    check(rows(), SETS)
    assert "The union has 5 IDs." in result.stdout
    assert "Row numbers written to secfc-psu.csv" in result.stdout
    assert result.stderr == ""


def test_columns_are_chosen_and_formats_mix() -> None:
    Path("a.csv").write_text('name,"pid, local"\nx, 7\ny,8\n\nz,"9"\n')
    pq.write_table(pa.table({"pid, local": pa.array([9, 10], pa.int64()), "v": [0.5, 1.5]}), "b.parquet")
    pq.write_table(pa.table({"pid, local": pa.array(["7", " 10 "]).dictionary_encode()}), "c.parquet")
    result = run("a.csv", "b.parquet", "c.parquet", "--id-column", "pid, local")
    assert result.exit_code == 0, result.output
    check(rows(), {"a": ["7", "8", "9"], "b": ["9", "10"], "c": ["7", "10"]})


def test_single_columns_need_no_name_and_numbers_no_header() -> None:
    Path("a.csv").write_text("\ufeffid\n1\n2\n\n\n")
    Path("b.csv").write_text("2\n3\n")
    pq.write_table(pa.table({"id": [3, 1]}), "c.parquet")
    assert run("a.csv", "b.csv", "c.parquet").exit_code == 0
    check(rows(), {"a": ["1", "2"], "b": ["2", "3"], "c": ["3", "1"]})


def test_binary_ids_stay_binary() -> None:
    sets = {
        name: [bytes([i, 255]) for i in own] for name, own in (("a", (0, 1)), ("b", (1, 2)), ("c", (2, 3)))
    }
    for name, ids in sets.items():
        pq.write_table(pa.table({"hash": pa.array(ids, pa.binary())}), f"{name}.parquet")
    assert run("a.parquet", "b.parquet", "c.parquet").exit_code == 0
    check(rows(), sets)
    result = run("a.parquet", "b.parquet", "c.txt", "--force")
    assert result.exit_code == 2
    assert "some files hold binary IDs and some text" in result.stderr


def test_one_file_for_all_clients_keeps_the_rows_of_the_file() -> None:
    lines = [("x", "p1"), ("y", "p2"), ("x", "p2"), ("z", "p1"), ("x", "p3")]
    Path("all.csv").write_text("site,pid\n" + "".join(f"{s},{p}\n" for s, p in lines))
    result = run("all.csv", "--client-column", "site", "--id-column", "pid")
    assert result.exit_code == 0, result.output
    found = rows()
    assert [(client, row) for client, row, _ in found] == [("x", 0), ("x", 2), ("x", 4), ("y", 1), ("z", 3)]
    number = {row: n for _, row, n in found}
    assert number[0] == number[3]
    assert number[1] == number[2]
    assert len(set(number.values())) == 3


def test_equal_names_of_files_become_different_clients_and_empty_sets_count() -> None:
    Path("x").mkdir()
    Path("x/a.txt").write_text("")
    assert run("a.txt", "x/a.txt", "c.txt", "--json").exit_code == 0
    assert {client for client, _, _ in rows()} == {"a", "c"}
    found = json.loads(run("a.txt", "x/a.txt", "c.txt", "--json", "--force").stdout)
    assert found["clients"]["a-2"] == {"ids": 0, "distinct": 0}
    for name in "abc":
        Path(f"{name}.txt").write_text("")
    assert json.loads(run(*TXT, "--json", "--force").stdout)["m"] == 0


# --- the report ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["threshold", "server"])
def test_the_json_report_adds_up(mode: str) -> None:
    result = run(*TXT, "--json", "--mode", mode, "--bound", "40")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    found = json.loads(result.stdout)
    assert (found["n"], found["m"], found["attempts"], found["estimate"]) == (3, 5, 1, None)
    assert found["clients"]["a"] == {"ids": 4, "distinct": 3}
    roles = {"client", "server"} | ({"member"} if mode == "threshold" else set())
    assert set(found["seconds"]) == roles | {"wall"}
    assert set(found["bytes"]["sent"]) == roles
    assert found["rounds"] >= 1
    kinds = [kind for kinds in found["bytes"]["by_direction"].values() for kind in kinds.values()]
    assert sum(kind["bytes"] for kind in kinds) == found["bytes"]["total"] > 0
    parties = {"client": 3, "member": 3, "server": 1}
    by_role = {role: found["bytes"]["sent"][role]["mean"] * parties[role] for role in roles}
    assert sum(by_role.values()) == pytest.approx(found["bytes"]["total"])
    parameters = found["parameters"]
    assert (parameters["mode"], parameters["bound"], parameters["sized"]) == (mode, 40, False)
    assert parameters["t"] == (1 if mode == "threshold" else None)
    assert any("colludes" in fact for fact in found["learned"]["the server"]) == (mode == "server")
    estimated = json.loads(run(*TXT, "--json", "--force").stdout)
    assert estimated["estimate"] >= 1
    assert estimated["parameters"]["sized"] is True


@pytest.mark.parametrize("width", [40, 80])
def test_the_text_fits_and_never_shows_an_id(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    result = run(*TXT)
    assert max(map(len, result.stdout.splitlines())) <= width
    flat = " ".join(result.stdout.split())
    for phrase in (
        "9 at n = 3 clients (2 to 4 each)",
        "1 within a client; each counts once",
        "threshold, t = 1: a committee of 3 clients",
        "Any client together with the server: - the union and no more from messages",
        "each of these belongs to some of the other 2 clients",
        " member ",
    ):
        assert phrase in flat, phrase
    assert not any(re.search(rf"\b{i}\b", flat) for ids in SETS.values() for i in ids)


def test_repetitions_are_not_mentioned_where_there_are_none() -> None:
    Path("a.txt").write_text("ann\n")
    assert "Repeated" not in run(*TXT).stdout


def test_two_clients_are_told_that_they_see_each_other() -> None:
    result = run("a.txt", "b.txt", "--mode", "server")
    assert result.exit_code == 0
    assert "each learns which IDs the other has" in " ".join(result.stdout.split())


@pytest.mark.parametrize("n", range(3, 40))
@pytest.mark.parametrize("spares", [0, 1, 2])
def test_the_default_t_is_the_largest_that_a_plan_accepts(n: int, spares: int) -> None:
    def accepted(t: int) -> bool:
        try:
            psu.UnionPlan(n, psu.Committee(t, spares), bytes(16))
        except ValueError:
            return False
        return True

    mode, notes = union.choose_mode(n, "threshold", None, spares)
    assert isinstance(mode, psu.Committee)
    fitting = [t for t in range(1, n) if accepted(t)]
    assert mode.t == max(fitting, default=1)
    assert f"t={mode.t} was chosen" in notes[0]


def test_spares_and_t_reach_the_union() -> None:
    for name in "de":
        Path(f"{name}.txt").write_text("ann\n")
    found = json.loads(run(*TXT, "d.txt", "e.txt", "-t", "1", "--spares", "2", "--json").stdout)
    assert (found["parameters"]["t"], found["parameters"]["spares"], found["parameters"]["committee"]) == (
        1,
        2,
        5,
    )


# --- refusals --------------------------------------------------------------------------------------


def _bad_files() -> None:
    Path("table.csv").write_text("pid,age\nsecret-1,5\n")
    Path("ragged.csv").write_text("pid,age\nsecret-1,5\nsecret-2\n")
    Path("hole.csv").write_text("pid,age\nsecret-1,5\n ,6\n")
    Path("quote.csv").write_text('pid,age\n"secret-1"x,5\n')
    Path("twice.csv").write_text("pid,pid\nsecret-1,5\n")
    Path("owner.csv").write_text("pid,site\nsecret-1,x\nsecret-2,\n")
    Path("same.csv").write_text("pid,site\nsecret-1,x\nsecret-2,x\n")
    Path("semicolon.csv").write_text("pid;age\nsecret-1;5\n")
    Path("bare.csv").write_text("secret-1\nsecret-2\n")
    Path("barer.csv").write_text("secret-3\nsecret-2\n")
    Path("wide.csv").write_text("pid\nsecret-1,7\n")
    Path("hole.txt").write_text("secret-1\n\nsecret-2\n")
    Path("latin.txt").write_bytes(b"secret-\xe9\n")
    Path("notes.doc").write_text("secret-1\n")
    Path("broken.parquet").write_bytes(b"secret-1")
    pq.write_table(pa.table({"pid": ["secret-1", None]}), "hole.parquet")
    pq.write_table(pa.table({"pid": [1.5, 2.5]}), "float.parquet")
    pq.write_table(pa.table({"pid": [1], "age": [2]}), "table.parquet")
    Path("b.csv").write_text("x\n")
    os.mkfifo("pipe")


BAD = [
    ("", "Missing argument 'FILE...'"),
    ("a.txt", "n=1: a union needs at least 2 clients"),
    ("a.txt a.txt b.txt", "a.txt is given twice"),
    ("nowhere.txt b.txt", "nowhere.txt does not exist"),
    (". b.txt", "is a directory"),
    ("notes.doc b.txt", "notes.doc has the extension '.doc': .csv,"),
    ("a.txt b.txt", "use --mode server"),
    ("a.txt b.txt c.txt --id-column pid", "plain text and has no column 'pid'"),
    ("table.csv b.txt c.txt", "table.csv has 2 columns. Say which one holds the IDs (--id-column)"),
    (
        "table.parquet b.txt c.txt",
        "table.parquet has 2 columns. Say which one holds the IDs (--id-column)",
    ),
    ("table.csv ragged.csv b.csv --id-column pid", "ragged.csv, line 3: 1 cell"),
    ("table.csv hole.csv b.csv --id-column pid", "hole.csv, line 3, column 'pid': the cell is empty"),
    ("table.csv quote.csv b.csv --id-column pid", "quote.csv, line 2: not valid CSV"),
    ("twice.csv table.csv b.csv --id-column pid", "several columns 'pid'"),
    ("table.csv b.csv same.csv --id-column pid", "b.csv has no column 'pid' among the 1"),
    ("owner.csv --client-column site --id-column pid", "owner.csv, line 3, column 'site': the cell is empty"),
    ("same.csv --client-column site --id-column pid", "n=1: a union needs at least 2 clients"),
    ("same.csv --client-column site", "Name the column that holds the IDs (--id-column)"),
    ("same.csv --client-column pid --id-column pid", "must differ"),
    ("same.csv owner.csv --client-column site --id-column pid", "splits one file"),
    (
        "semicolon.csv b.txt c.txt",
        "semicolon.csv has 2 columns. Say which one holds the IDs (--id-column)",
    ),
    ("bare.csv barer.csv c.txt", "the first lines of the files differ"),
    ("wide.csv b.txt c.txt", "wide.csv, line 2: 2 cells"),
    ("hole.txt b.txt c.txt", "hole.txt, line 2: the cell is empty"),
    ("latin.txt b.txt c.txt", "latin.txt is not UTF-8"),
    ("broken.parquet b.txt c.txt", "not a readable Parquet file"),
    ("hole.parquet b.txt c.txt", "hole.parquet, row 1 (counted from 0), column 'pid': the cell is empty"),
    ("float.parquet b.txt c.txt", "of type float"),
    ("a.txt b.txt c.txt -t 0", "'-t'"),
    ("a.txt b.txt c.txt -t 2", "Lower t or spares, or use --mode server"),
    ("a.txt b.txt c.txt --spares 1", "Lower t or spares"),
    ("a.txt b.txt c.txt --mode server -t 1", "-t has no meaning for --mode server"),
    ("a.txt b.txt c.txt --mode server --spares 0", "--spares has no meaning for --mode server"),
    ("a.txt b.txt c.txt --bound 0", "'--bound'"),
    ("a.txt b.txt c.txt --bound 16777217", "'--bound'"),
    ("a.txt b.txt c.txt --out missing/out.csv", "does not exist. Create it first"),
    ("a.txt b.txt c.txt --out a.txt --force", "one of the input files"),
    ("a.txt b.txt c.txt --out pipe --force", "would be replaced"),
    ("a.txt b.txt c.txt --out table.csv", "exists already"),
]


@pytest.mark.parametrize(("line", "message"), BAD, ids=[line for line, _ in BAD])
def test_bad_usage_and_bad_input_end_with_2_and_show_no_id(line: str, message: str) -> None:
    _bad_files()
    before = set(os.listdir())
    result = run(*line.split(), "--json")
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert "secret" not in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert set(os.listdir()) == before


def test_an_existing_file_is_replaced_with_force_only() -> None:
    Path("secfc-psu.csv").write_text("precious")
    assert run(*TXT).exit_code == 2
    assert Path("secfc-psu.csv").read_text() == "precious"
    assert run(*TXT, "--force").exit_code == 0
    check(rows(), SETS)


def test_a_union_far_above_the_bound_ends_with_1_and_no_file() -> None:
    Path("a.txt").write_text("".join(f"{i}\n" for i in range(3000)))
    result = run(*TXT, "--bound", "5")
    assert result.exit_code == 1, result.output
    assert "the union of IDs failed: 3 tables stalled" in result.stderr
    assert not Path("secfc-psu.csv").exists()


def test_blame_names_clients_and_not_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise psu.UnionAborted("fell silent", [1])

    monkeypatch.setattr(psu, "union", fail, raising=False)
    result = run(*TXT)
    assert result.exit_code == 1
    assert "fell silent (b: suspicion only)" in result.stderr


def test_a_bug_keeps_its_traceback_and_memory_has_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(error: Exception) -> Any:
        def raising(*_: Any, **__: Any) -> Any:
            raise error

        return raising

    bug = IndexError("ours")
    monkeypatch.setattr(psu, "union", fail(bug), raising=False)
    assert run(*TXT).exception is bug
    monkeypatch.setattr(psu, "union", fail(MemoryError()), raising=False)
    result = run(*TXT)
    assert result.exit_code == 2
    assert "lower --bound" in result.stderr


# --- true processes --------------------------------------------------------------------------------


def test_a_terminal_gets_progress_on_stderr_only() -> None:
    Path("a.txt").write_text("".join(f"{i}\n" for i in np.arange(5000)))
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    process = subprocess.Popen([*PROGRAM, *TXT], stdout=subprocess.PIPE, stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:  # the other end was closed
        pass
    out = process.communicate()[0].decode()
    assert process.returncode == 0
    assert b"Finding the union" in shown
    assert "Private set union" in out
    assert "\x1b" not in out


def test_control_c_leaves_no_file_and_no_traceback() -> None:
    os.mkfifo("slow.txt")
    process = subprocess.Popen(
        [*PROGRAM, "slow.txt", "b.txt", "c.txt"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A child in the background of a shell would inherit that interrupts are ignored.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    with open("slow.txt", "w") as pipe:
        pipe.write("1\n")
        pipe.flush()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert process.returncode == 130
    assert (out, err) == ("", "Error: interrupted. Output files are written whole or not at all.\n")
    assert not Path("secfc-psu.csv").exists()
