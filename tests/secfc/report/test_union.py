"""The report of a union: sums by role, sentences by mode."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

import psu
from secfc.report import union as report

SETS = [["a", "b", "b"], ["b", "c"], ["c"], ["d"], ["e", "a"]]


def found(mode: psu.Committee | psu.Server, sets: list[list[str]] = SETS) -> report.UnionReport:
    result = psu.union(sets, mode=mode)
    ids = {f"client-{j}": len(own) for j, own in enumerate(sets)}
    distinct = {f"client-{j}": len(set(own)) for j, own in enumerate(sets)}
    return report.UnionReport(result, ids, distinct, "a test", ("a note",), {"union": 2.0})


def text(union: report.UnionReport, width: int = 100) -> str:
    out = io.StringIO()
    report.print_union(Console(file=out, width=width, markup=False, highlight=False), union)
    return out.getvalue()


def test_roles_are_means_and_maxima() -> None:
    union = found(psu.Committee(1))
    spent = {"client 0": 1.0, "client 1": 3.0, "member 0": 5.0, "server": 0.5}
    traffic = {
        ("client 0", "member 0", "A"): (1, 10), ("client 0", "client 1", "B"): (2, 20),
        ("member 0", "server", "C"): (1, 7), ("server", "client 1", "D"): (1, 3),
    }  # fmt: skip
    result = replace(union.result, seconds=spent, traffic=traffic)
    assert report.role_seconds(result) == {
        "client": {"mean": 2.0, "max": 3.0},
        "member": {"mean": 5.0, "max": 5.0},
        "server": {"mean": 0.5, "max": 0.5},
    }
    assert report.role_bytes(result)["client"] == {"mean": 15.0, "max": 30}
    assert report.total_bytes(result) == 40
    by_direction = report.as_json(replace(union, result=result))["bytes"]["by_direction"]
    assert by_direction["client -> client"] == {"B": {"messages": 2, "bytes": 20}}
    cells = [list(column.cells) for column in report.cost_table(result).columns]
    assert cells[1] == ["2,000", "5,000", "500"]
    assert cells[2] == ["3,000", "5,000", ""]


@pytest.mark.parametrize(
    ("mode", "phrases", "not_phrases"),
    [
        (
            psu.Committee(1),
            ["Any client together with the server", "other 4 clients", "2 or more of the 3"],
            [],
        ),
        (psu.Committee(2), ["Any 2 clients together with", "other 3 clients", "3 or more of the 5"], []),
        (psu.Committee(1, 2), ["2 or more of the 5", "2 of them may fall silent"], []),
        (
            psu.Server(),
            ["Any 3 clients together", "A client together with the server"],
            ["committee", "member"],
        ),
    ],
)
def test_what_is_learned_depends_on_the_mode(
    mode: psu.Committee | psu.Server, phrases: list[str], not_phrases: list[str]
) -> None:
    flat = " ".join(text(found(mode)).split())
    assert all(phrase in flat for phrase in phrases), flat
    assert not any(phrase in flat for phrase in not_phrases)
    assert "The union has 5 IDs." in flat
    assert "Note: a note" in flat
    assert "Together: 2.0 s" in flat


def test_two_clients_with_a_server_are_promised_nothing_against_each_other() -> None:
    facts = report.leakage_sentences(found(psu.Server(), SETS[:2]))
    assert list(facts) == [
        "every client", "the server", "whoever sees when messages come", "a client together with the server"
    ]  # fmt: skip


@pytest.mark.parametrize("mode", [psu.Committee(2), psu.Server()])
def test_the_json_is_strict_and_counts_repetitions(mode: psu.Committee | psu.Server) -> None:
    union = found(mode)
    plain = report.as_json(union)
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert union.repeated == {"client-0": 1}
    assert plain["clients"]["client-0"] == {"ids": 3, "distinct": 2}
    assert plain["parameters"]["committee"] == (5 if isinstance(mode, psu.Committee) else 0)
    assert plain["rounds"] == union.result.rounds
