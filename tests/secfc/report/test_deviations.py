"""The table of who deviates: what it claims has tests, and officers see the rows about their run."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import secfc
from secfc.privacy import Bound, Budget
from secfc.report.deviations import TABLE, DeviationRow, kinds_of, rows_about

ROOT = Path(__file__).parents[3]
NEVER = ("skip", "xfail", "nightly")


@cache
def functions_of(path: str) -> dict[str, str]:
    """The tests of a file with their decorators and those of the file."""
    tree = ast.parse((ROOT / path).read_text())
    marks = [
        ast.unparse(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    return {
        node.name: " ".join([*marks, *(ast.unparse(one) for one in node.decorator_list)])
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }


def faults(row: DeviationRow) -> list[str]:
    """What is wrong with what a row claims."""
    found = []
    if row.seen not in ("noticed", "named", "unnoticed"):
        found.append(f"seen={row.seen!r} is none of three words")
    if row.seen != "unnoticed" and not row.tests:
        found.append("what is noticed has tests")
    for test in row.tests:
        path, _, name = test.partition("::")
        known = functions_of(path) if (ROOT / path).exists() else {}
        if name not in known or not name.startswith("test_"):
            found.append(f"there is no {test}")
        elif any(word in known[name] for word in NEVER):
            found.append(f"{test} is not run by default")
    return found


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.who[:60])
def test_a_row_that_claims_has_tests_that_run(row: DeviationRow) -> None:
    assert not faults(row)


def test_a_claim_without_a_test_is_refused() -> None:
    """The positive control."""
    here = "tests/secfc/report/test_deviations.py"
    for seen, tests in (
        ("noticed", ()),
        ("named", (f"{here}::test_that_nobody_wrote",)),
        ("named", ("tests/no_file.py::test_that_nobody_wrote",)),
        ("noticed", (f"{here}::test_of_the_night",)),
        ("unnoticed", (f"{here}::test_of_the_night",)),
        ("perhaps", ()),
    ):
        assert faults(DeviationRow("a", "b", "c", "d", seen, "", tests)), (seen, tests)


@pytest.mark.nightly
def test_of_the_night() -> None:
    """Stands for a test that the suite leaves out."""


@pytest.mark.parametrize(
    ("way", "kinds"),
    [
        (secfc.SecFC(3), {"labels", "dealt", "several"}),
        (secfc.SecFC(3, secfc.Threshold(deviating=0)), {"labels", "dealt", "alone"}),
        (secfc.SecFC(3, disclosure=secfc.AssignmentsOnly(dealer=None)), {"labels", "dealerless", "several"}),
        (
            secfc.SecFC(3, secfc.Threshold(deviating=0), disclosure=secfc.AssignmentsOnly(dealer=None)),
            {"labels", "dealerless", "alone"},
        ),
        (secfc.SecFC(3, disclosure=secfc.OwnLabels()), {"owners", "dealt", "several"}),
        (
            secfc.SecFC(3, quantization=secfc.Quantization(centers="rounded")),
            {"labels", "dealt", "several", "rounded"},
        ),
        (secfc.SecFC(3, disclosure=secfc.FinalLabelsOnly()), {"final", "dealerless", "several"}),
        (secfc.SecFC(3, disclosure=secfc.Distances()), {"distances"}),
        (secfc.SecFC(3, disclosure=secfc.NoiseInShares(Budget(1.0, 1e-6), Bound.given(1.0))), {"blurred"}),
        (
            secfc.SecFC(3, disclosure=secfc.NoisySums(Budget(1.0, 1e-6), Bound.given(1.0), dealer=None)),
            {"added", "dealerless", "several"},
        ),
        (  # where nobody has labels that could tell columns
            secfc.SecFC(
                3,
                membership=secfc.Joined(),
                disclosure=secfc.NoisySums(Budget(1.0, 1e-6), Bound.given(1.0)),
            ),
            {"added", "dealt", "several", "joined"},
        ),
        (secfc.FederatedLloyd(3), {"sums", "lost"}),
        (secfc.FederatedLloyd(3, floor=10), {"sums", "steps"}),
        (secfc.FederatedLloyd(3, secfc.Sampled()), {"sums", "lost", "sampled"}),
        (secfc.KFed(3, k_local=2), set()),
        (secfc.DBSCAN(0.5), {"pairs"}),
    ],
)
def test_a_run_is_told_of_the_rows_about_it(way: object, kinds: set[str]) -> None:
    assert kinds_of(way) == kinds
    told = rows_about(kinds)
    assert told
    assert all(row in told for row in TABLE if not row.concerns)
    assert len(told) < len(TABLE)


@pytest.mark.parametrize(
    ("word", "more"),
    [
        ("separated", {"init": secfc.CenterSeparation(secfc.RandomPoints())}),
        ("workers", {"runtime": secfc.Runtime(workers=3)}),
        ("joined", {"membership": secfc.Joined()}),
        ("told", {"membership": secfc.Joined()}),
    ],
)
def test_what_few_runs_have_is_told_of(word: str, more: dict[str, Any]) -> None:
    assert word in kinds_of(secfc.SecFC(3, **more))
    assert word not in kinds_of(secfc.SecFC(3))


def test_rows_of_parts_played_by_two_are_told_where_it_is_so() -> None:
    two, dealt, alone = (
        next(row for row in TABLE if text in row.who)
        for text in (
            "without a dealer (`dealer=None`) with",
            "parts are played by two",
            "compares, where each part is played by one",
        )
    )
    for dealer, deviating, told in ((None, None, two), (None, 0, alone), ("server", None, dealt)):
        way = secfc.SecFC(
            3, secfc.Threshold(deviating=deviating), disclosure=secfc.AssignmentsOnly(dealer=dealer)
        )
        found = rows_about(kinds_of(way))
        assert [row for row in (two, dealt, alone) if row in found] == [told]


def test_every_row_is_told_to_somebody() -> None:
    words = {
        "labels",
        "owners",
        "final",
        "distances",
        "dealt",
        "dealerless",
        "private",
        "counted",
        "unseen",
        "sums",
        "steps",
        "several",
        "alone",
        "counts",
        "profile",
        "rounded",
        "joined",
        "told",
        "lost",
        "sampled",
        "pairs",
        "added",
        "separated",
        "workers",
        "blurred",
    }
    assert rows_about(words) == TABLE
    named = {w for row in TABLE for w in row.concerns.replace("+", "|").split("|")} - {""}
    assert named <= words
