"""The short suite ends soon where a property fails, and the same way every time."""

import os
import threading
import time
import tomllib
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from tests import night, nightly
from tests.conftest import pytest_collection_modifyitems
from tests.mutation.__main__ import KNOWN, TARGETS, explains, importing_tests, mutated_files
from tests.mutation.mutants import mutants
from tests.night import ShardRecord, due_shards, read_record, summarize, write_record
from tests.nightly import NIGHTLY, by_night, covering, every, tonight


def examples_of_failure(profile):
    """Each example of a property that fails above 100, in order."""
    seen = []

    @settings(settings.get_profile(profile), database=None)
    @given(st.integers(0, 1000))
    def property_(number):
        seen.append(number)
        assert number <= 100

    with pytest.raises(AssertionError):
        property_()
    return seen


def test_a_failing_example_is_reproduced_and_shrunk_only_on_request():
    first = examples_of_failure("ci")
    failing = [number for number in first if number > 100]
    assert len(set(failing)) == 1
    assert examples_of_failure("ci") == first
    assert examples_of_failure("shrink")[-1] == 101 < failing[0]


def split_cases(cases):
    """Values of cases that the short suite takes, and of those left to nights."""
    night = [case.values for case in cases if hasattr(case, "marks")]
    assert all({mark.name for mark in c.marks} == {"nightly"} for c in cases if hasattr(c, "marks"))
    return [case for case in cases if not hasattr(case, "marks")], night


@pytest.mark.parametrize("sizes", [(2, 3), (3, 3), (2, 3, 4), (2, 2, 5, 2), (5, 1)])
def test_by_day_each_value_is_covered_and_nights_take_all_that_is_left(sizes):
    day, night = split_cases(covering(*map(range, sizes)))
    assert sorted([*day, *night]) == sorted(product(*map(range, sizes)))
    assert [{*values} for values in zip(*day, strict=True)] == [{*range(size)} for size in sizes]
    assert len(day) == max(sizes)


def test_by_day_two_short_axes_of_one_length_do_not_go_together():
    day, _ = split_cases(covering("ab", range(5), "cd"))
    assert {(one, other) for one, _, other in day} == {*product("ab", "cd")}


def test_one_in_so_many_runs_by_day_and_what_nights_have_stays_there():
    cases = every(2, ["a", "b", ("c", "d"), *by_night(("e", "f"), "g")])
    day, night = split_cases(cases)
    assert day == ["a", ("c", "d")]
    assert sorted(night) == [("b",), ("e", "f"), ("g",)]


def test_a_matrix_product_takes_one_thread_by_day():
    np.ones((2, 2)) @ np.ones((2, 2))
    threads = {found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas"}
    assert threads
    assert NIGHTLY or threads == {1}


def test_files_that_are_mutated_and_the_tests_that_hold_them_are_there():
    named = {*TARGETS, *(test for tests in TARGETS.values() for test in tests)}
    assert not [name for name in named if not (night.ROOT / name).exists()]
    assert not [file for file in mutated_files() if not (TARGETS.get(file) or importing_tests(file))]


def unexplained(entries):
    """Entries of mutants that no test can notice, of which there is no mutant any more."""
    files = {entry["file"]: mutants(night.ROOT / entry["file"]) for entry in entries}
    return [entry for entry in entries if not any(explains(entry, m) for m in files[entry["file"]])]


def test_every_mutant_that_is_explained_is_one():
    entries = tomllib.loads(KNOWN.read_text())["mutant"]
    assert not unexplained(entries)
    gone = {**entries[0], "old": "no such number"}
    assert unexplained([gone]) == [gone]


def test_what_lives_a_files_own_tests_is_tried_by_those_that_import_it():
    found = importing_tests("field/compare/shared_step.py")
    assert found[0].startswith("tests/field/compare/")
    assert "tests/secfc/disclosure/checked/test_checked_products.py" in found
    assert "tests/field/compare/test_signs.py" not in found


# --- shards, and the record of them ----------------------------------------------------------------


def row(name, day="2026-11-01", commit="abcdef0", failed=0):
    return ShardRecord(name, day, commit, 7, 12, 1, failed, 33, "test_a[x / y]" if failed else "")


def test_what_was_recorded_is_not_run_again_and_the_oldest_is_run_first(tmp_path):
    rows = {r.name: r for r in (row("a"), row("b", "2026-11-03", "old"), row("c", "2026-11-02", "old", 1))}
    page = tmp_path / "nightly.md"
    write_record(rows, [], page)
    assert read_record(page.read_text()) == rows
    due = ["d", "c", "b"]
    assert due_shards(["a", "b", "c", "d"], rows, lambda commit: commit != "old", []) == due
    assert due_shards(["a", "b", "c", "d"], rows, lambda commit: commit != "old", ["c"]) == ["c"]


def test_parts_of_a_file_that_takes_hours_are_all_its_tests(monkeypatch):
    for file, count in night.PARTS.items():
        assert [name for name in night.shard_names() if file in name] == [
            f"{file} {part}/{count}" for part in range(1, count + 1)
        ]
    config, found = SimpleNamespace(getoption=lambda _: "nightly"), []
    for part in range(1, 4):
        monkeypatch.setenv("PART", f"{part}/3")
        pytest_collection_modifyitems(config, items := [*range(10)])
        found += items
    assert sorted(found) == [*range(10)]
    assert found != sorted(found)


def test_each_night_takes_another_part_and_leaves_none(monkeypatch):
    found = []
    for at in range(20261129, 20261132):
        monkeypatch.setattr(nightly, "NIGHT", at)
        found.append(tonight("abcdefgh", 3))
    assert sorted(map(len, found)) == [2, 3, 3]
    assert sorted("".join(map("".join, found))) == [*"abcdefgh"]


@pytest.mark.parametrize(("minutes", "ran"), [("0", ["a"]), ("9", ["a", "mutants of x"])])
def test_a_night_ends_with_minutes_of_mutants(tmp_path, monkeypatch, minutes, ran):
    page = tmp_path / "nightly.md"
    write_record({}, [], page)
    monkeypatch.setattr(night, "RECORD", page)
    monkeypatch.setattr(night, "write_record", lambda rows, scores: write_record(rows, scores, page))
    monkeypatch.setattr(night, "shard_names", lambda: ["mutants of x", "a"])
    monkeypatch.setattr(night, "run_shard", lambda name, seed: row(name))
    monkeypatch.setattr("sys.argv", ["nightly", "--mutants", minutes])
    assert night.main() == 0
    assert sorted(read_record(page.read_text())) == ran


def test_shards_that_began_are_waited_for_and_none_begins_after_the_end():
    both = threading.Barrier(2)

    def run_one(name):
        if len(os.sched_getaffinity(0)) > 1:
            both.wait(60)  # two of them run at once, or it breaks
        return row(name)

    far = time.monotonic() + 60
    assert {each.name for each in night.run_shards(["a", "b", "c", "d"], run_one, far)} == {*"abcd"}
    assert not [*night.run_shards(["a"], run_one, time.monotonic())]


def test_parts_of_several_days_add_up_by_the_files_that_they_were_of():
    lives = ShardRecord("mutants of x.py", "2026-11-02", "old", 7, 4, 0, 1, 33, "x.py:12: a -> b")
    ended = ShardRecord("mutants of y.py", "2026-11-02", "old", 7, 0, 0, 1, 33, "exit code 1")
    rows = [row("a"), row("b", "2026-11-03", "old", 2), row("c", "2026-11-01", "old"), lives, ended]
    _, _, *sums = night.sum_by_commit({each.name: each for each in rows})
    assert sums == [
        "| abcdef0 | 2026-11-01 | 1 | 0 | 0 | 0 | 0 |",
        "| old | 2026-11-01 to 2026-11-03 | 2 | 3 | 2 | 5 | 1 |",
        "| all | 2026-11-01 to 2026-11-03 | 3 | 3 | 2 | 5 | 1 |",
    ]
    kept = [night.Score("2026-11-01", "older", 6, 3, 30, 2)]
    for each in (*rows, lives):  # which ran a second time, by the same files
        kept = night.keep_score(kept, each)
    assert kept[1:] == [night.Score("2026-11-02", "old", 7, 2, 10, 2)]
    *_, last = table = [*night.add_up(kept)]
    assert night.read_scores("\n".join(table)) == kept
    assert last == "| all | | | 5 | 40 | 4 |"


def test_the_record_that_is_kept_is_of_shards_that_there_are(tmp_path):
    text, names = night.RECORD.read_text(), set(night.shard_names())
    rows = read_record(text)
    write_record(rows, night.read_scores(text), tmp_path / "nightly.md")
    assert (tmp_path / "nightly.md").read_text() == text
    assert {"tests/test_nightly.py", "mutants of field/code/masking.py"} <= names
    assert rows
    assert rows.keys() <= names


@pytest.mark.parametrize(
    ("name", "output", "code", "expected"),
    [
        ("tests/a.py", "..\n1340 passed, 7 skipped, 2 xpassed in 2.1s\n", 0, (1340, 7, 0, "")),
        (
            "tests/a.py",
            "FAILED tests/a.py::test_b[c, d] - E\nERROR tests/a.py::test_e\n1 failed, 2 passed, 1 error in",
            1,
            (2, 0, 2, "test_b[c, d]; test_e"),
        ),
        ("tests/a.py", "Killed\n", -9, (0, 0, 1, "exit code -9")),
        ("tests/a.py", "no tests ran in 0.1s\n", 5, (0, 0, 0, "")),
        ("mutants of x.py", "x.py: 10 mutants in 9 s, {'killed': 10}\n", 0, (10, 0, 0, "")),
        (
            "mutants of x.py",
            "x.py:12: a -> b\nx.py: 10 mutants in 9 s, {'killed': 9, 'lived': 1}\n",
            1,
            (9, 0, 1, "x.py:12: a -> b"),
        ),
        ("mutants of x.py", "the tests of x.py fail without any mutant\n", 1, (0, 0, 1, "exit code 1")),
    ],
)
def test_a_shard_that_fails_is_never_recorded_as_well(name, output, code, expected):
    assert summarize(name, output, code) == expected
