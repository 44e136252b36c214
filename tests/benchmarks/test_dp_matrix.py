"""The page of where private clustering wins and loses is made of its rows, and a lost cell is marked."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks import dp_data, dp_matrix, dp_page
from benchmarks.common import read_rows
from benchmarks.dp_unseen import UNSEEN
from docs.tables import lost

DOCS = Path(__file__).parents[2] / "docs"


def invoke(*arguments):
    return CliRunner().invoke(dp_matrix.main, [str(a) for a in arguments])


def row(method, cost, seed=0, *, name="cube", epsilon=1.0, part="points"):
    cell = {"part": part, "set": name, "method": method, "epsilon": epsilon, "seed": seed}
    measured = {"cost": cost, "optimal_cost": 2.0, "one_center": 12.0, "seconds": 0.25}
    return {"cell": cell, "code": "0", **measured}


def kept_row(method, *excess, epsilon=1.0, part="points"):
    return {
        "part": part, "set": "cube", "epsilon": epsilon, "method": method, "excess": list(excess),
        "above": 0.0, "seconds": 0.1, "code": "0",
    }  # fmt: skip


def test_the_page_is_what_its_rows_say():
    """If this fails: python -m benchmarks.dp_page, and python -m docs.tables."""
    kept = read_rows(dp_page.ROWS)
    page = (DOCS / "dp_matrix.md").read_text()
    assert page == dp_page.write_page(kept)
    assert lost() in (DOCS.parent / "secfc/feddp/README.md").read_text()
    # Every cell of the grid was measured once, by one code, and as often as any other.
    measured = [row for row in kept if row["part"] != "sets"]
    asked = {
        (part, cell["set"], cell["epsilon"], cell["method"])
        for part, chosen in dp_matrix.PARTS.items()
        for cell in dp_matrix.cells(part, chosen.sets, (), tuple(chosen.methods), 1)
    }
    assert sorted(asked, key=repr) == sorted(
        ((row["part"], row["set"], row["epsilon"], row["method"]) for row in measured), key=repr
    )
    assert len({row["code"] for row in measured}) == 1
    assert all(len(row["excess"]) >= 8 and min(row["excess"]) >= 0 for row in measured)
    runs = {(row["part"], row["set"] in dp_matrix.SEEN, len(row["excess"])) for row in measured}
    assert len(runs) == 1 + len(dp_matrix.PARTS)
    found = dp_matrix.lines(kept)
    assert page.count("**lost**") == sum(line.lost for line in found)
    listed = page.split("## Every lost cell")[1].split("\n## ")[0]
    for line in found:
        start = f"| {line.part}, {line.own} | {line.set} | {line.epsilon:g} |"
        assert listed.count(start) == (line.lost and line.set not in dp_matrix.SEEN)


def test_quartiles_of_known_rows():
    costs = {3: 2.9, 0: 2.1, 4: 3.3, 1: 2.2, 2: 2.6}
    rows = [row("ours", cost, seed) for seed, cost in costs.items()]
    rows += [row("one center", 12.0, seed, epsilon=None) for seed in costs]
    ours, one = dp_matrix.gather(rows)
    assert ours["excess"] == [0.01, 0.02, 0.06, 0.09, 0.13]
    assert (ours["above"], one["excess"], one["epsilon"]) == (0.6, [1.0] * 5, None)
    (line,) = dp_matrix.lines([ours, one])
    assert line.ours == pytest.approx((0.02, 0.06, 0.09))
    assert (line.rival, line.excess["one center"]) == ("one center", (1.0, 1.0, 1.0))
    assert dp_page.tell_cell(line) == ".0600 [.0200, .0900]; 1.0000 one center"
    # Excess is above the best of all methods, where the k-means without privacy found less.
    better, other = dp_matrix.gather([row("published", 1.0), row("ours", 3.2)])
    assert (better["excess"], other["excess"], other["above"]) == ([0.0], [0.2], 2.2)


@pytest.mark.parametrize("part", ["points", "people", "alone"])
def test_a_cell_is_lost_from_the_border_on_and_not_just_below(part):
    own, best = dp_matrix.PARTS[part].own[0], dp_matrix.PARTS[part].rivals[0]
    border = 1.1 * 0.02 + 0.003

    def write(ours):
        near = [kept_row(own, ours, part=part), kept_row(best, 0.02, part=part)]
        kept = [*near, kept_row("one center", 1.0, epsilon=None, part=part)]
        (line,) = (line for line in dp_matrix.lines(kept) if line.own == own)
        assert line.rival == best
        return line, dp_page.write_page(kept)

    line, page = write(border)
    assert line.lost
    assert f"; .0200 {best}; **lost** |" in page
    listed = f"| {part}, {own} | cube | 1 | .0250 [.0250, .0250] | {best} | .0200 [.0200, .0200] | 1.2 |"
    assert listed in page
    assert f"| {part} | {own} | 1 of 1 | 1 of 1 | 0 of 1 | 1 of 1 |" in page
    line, page = write(math.nextafter(border, 0))
    assert not line.lost
    assert "**lost**" not in page
    assert "None." in page
    assert f"| {part} | {own} | 0 of 1 | 0 of 1 | 0 of 1 | 1 of 1 |" in page
    assert f"| {part} | {own} | 0 of 1 | 0 of 1 | 1 of 1 | 0 of 1 |" in write((0.02 - 0.003) / 1.1)[1]


def test_a_ball_is_marked_beyond_twice_what_the_right_box_has():
    values = dict.fromkeys(dp_matrix.PARTS["radius"].methods, 0.2)
    values |= {"public box, x 1": 0.01, "private ball, x 4": 0.02, "private ball, x 30": 0.0201}
    kept = [kept_row(method, value, part="radius") for method, value in values.items()]
    page = dp_page.write_radius(kept)
    assert page.startswith("With a private ball 3 of 4 cells are above twice")
    assert "2 of them by more than 0.003." in page
    assert "| .0200 [.0200, .0200] | **.0201 [.0201, .0201]** |" in page


def test_generated_sets_lie_in_their_box_and_are_their_own_by_seed():
    """Equal by seed, so whoever has the script has the set."""
    for name, chosen in UNSEEN.items():
        if chosen.file is None:
            one, same, other = (chosen.make(None, np.random.default_rng(seed)) for seed in (1, 1, 2))
            for values in (one.points, one.server):
                assert values.shape[1] == one.points.shape[1]
                assert chosen.low <= values.min() < values.max() <= chosen.high, name
            np.testing.assert_array_equal(one.points, same.points)
            np.testing.assert_array_equal(one.server, same.server)
            assert not np.array_equal(one.points, other.points)
            assert not chosen.rows or len(one.points) % chosen.rows == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--page", "--set", "cube"], "--page is of all of it: leave out --part, --set and --epsilon"),
        (["--set", "a3"], "a3 is a file: name its folder with --data"),
        (["--part", "radius", "--set", "digits"], "digits states no box of its values: leave out --part"),
    ],
)
def test_what_cannot_be_run_is_refused(arguments, message):
    done = invoke(*arguments)
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())


@pytest.mark.nightly
def test_every_part_is_measured_and_its_picture_frames_what_is_lost(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    file = tmp_path / "matrix.jsonl"
    few = ["--set", "few rows", "--epsilon", "1", "--runs", "1", "--out", file]
    printed = invoke(*few, *(word for part in dp_matrix.PARTS for word in ("--part", part)))
    assert printed.exit_code == 0, printed.output
    rows = read_rows(file)
    for part, chosen in dp_matrix.PARTS.items():
        mine = [row for row in rows if row["cell"]["part"] == part]
        assert {row["cell"]["method"] for row in mine} == set(chosen.methods)
    spent = [row["spent"] for row in rows if row["cell"]["method"] == "ours" and row["spent"]]
    assert 0.9 < spent[0] <= 1  # what questions that were not asked would have cost is not spent
    kept = dp_matrix.gather(rows)
    monkeypatch.setattr(dp_page, "ROWS", tmp_path / "dp_matrix.jsonl")
    monkeypatch.setattr(dp_page, "DOCS", tmp_path)
    dp_page.keep_rows([*kept, kept_row("ours", 0.5), kept_row("published", 0.1)], None)
    dp_page.write_files()
    assert "| points, ours | cube | 1 | .5000" in (tmp_path / "dp_matrix.md").read_text()
    sizes = [json.loads(line) for line in (tmp_path / "dp_matrix.jsonl").read_text().splitlines()]
    assert {row["set"] for row in sizes if row["part"] == "sets"} == {
        name for name, each in UNSEEN.items() if each.file is None
    }
    framed = (tmp_path / "pictures" / "dp_matrix.svg").read_text().count("stroke-width: 1.8")
    assert framed == sum(line.lost for line in dp_matrix.lines(read_rows(dp_page.ROWS)))


@pytest.mark.nightly
def test_sets_of_the_repository_are_finite():
    for name in ("digits", "texts, 5 of 20 topics"):
        held = dp_data.SETS[name].make(None, np.random.default_rng(0))
        assert np.isfinite(held.points).all()
        assert held.points.shape[1] == held.server.shape[1]
