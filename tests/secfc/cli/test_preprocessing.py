"""The shell prepares features: scales, ranges, gaps, and what it says of them."""

import csv
import itertools
import json
import re
from pathlib import Path

import click
import numpy as np
import pytest

import secfc
from secfc import metrics
from secfc.cli import main
from tests.nightly import by_night, every
from tests.small import invoke, run

FILES = ("a.csv", "b.csv", "c.csv", "d.csv")


def asked(*arguments):
    # Scales, gaps and categories are the same whatever a run begins with, and this start takes fewest steps.
    done = run(*FILES, "-k", "3", "--force", "--json", "--init", "random", *arguments)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture(autouse=True)
def _hospitals(tmp_path, monkeypatch):
    """Four hospitals: age in years, income in dollars, and a bit."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in FILES:
        kind = rng.integers(0, 3, 30)
        age, income = rng.normal(20 + 25 * kind, 4), rng.normal(2e4 + 3e4 * (kind % 2), 4e3)
        rows = [f"{a:.1f},{i:.0f},{b}" for a, i, b in zip(age, income, rng.integers(0, 2, 30), strict=True)]
        Path(name).write_text("age,income,smoker\n" + "\n".join(rows) + "\n")


def holes(text="", rows=(3, 7)):
    """Some cells of the first file become missing."""
    lines = Path("a.csv").read_text().splitlines()
    for row in rows:
        cells = lines[row + 1].split(",")
        lines[row + 1] = ",".join([text, *cells[1:]])
    Path("a.csv").write_text("\n".join(lines) + "\n")


def labels():
    with open("secfc-labels.csv", newline="") as file:
        return list(csv.reader(file))[1:]


def test_standardized_files_give_the_labels_of_the_library():
    found = asked("--standardize", "--labels", "secfc-labels.csv", "--init", "random-points")
    assert found["verified"] is True
    assert {**found["parameters"]}.items() >= {
        "scale_features": "standard",
        "limit": 10.0,
        "bound": 10.0,
    }.items()
    federation = secfc.Federation.from_files(FILES)
    result = secfc.fit(
        secfc.SecFC(3, 1, init=secfc.RandomPoints()), federation, seed=0, scale_features="standard"
    )
    assert [int(row[2]) for row in labels()] == result.flat.tolist()
    released = found["privacy"]["released"]
    assert any("the mean, the deviation" in one["what"] and len(one["seen_by"]) == 4 for one in released)
    assert not any("learn" in note or "scaled points" in note for note in found["notes"])
    assert found["parameters"]["bound_from_data"] is False
    # Its cost is of scaled points.
    points = result.scaling.scaling.federation(federation).stacked()
    assert found["cost"] == pytest.approx(metrics.cost(points, result.flat, 3))


@pytest.mark.parametrize(
    "line",
    every(3, [
        "--standardize robust --limit 2.5 --outside clip", "--to-range", "--standardize --algorithm lloyd",
        "--ranges age=0:120,income=0:100000,smoker=0:1", "--standardize --reveal-centers --sealed",
        "--standardize --disclosure final-labels", "--standardize --checkpoint kept",
    ]),
)  # fmt: skip
def test_every_way_is_exact_where_something_is_verified(line):
    found = asked(*line.split())
    assert found["verified"] is (None if "lloyd" in line else True)
    if found["centers"]:
        assert max(center[1] for center in found["centers"]) > 1e4  # dollars


def test_a_cell_beyond_the_limit_is_missing_where_that_is_asked_for(tmp_path):
    lines = Path("a.csv").read_text().splitlines()
    Path("a.csv").write_text(
        "\n".join([lines[0], "999" + lines[1][lines[1].index(",") :], *lines[2:]]) + "\n"
    )
    near = asked("--standardize", "robust")
    assert any("(--standardize robust --outside missing --missing mean)" in note for note in near["notes"])
    far = ("--outside", "missing")
    found = asked("--standardize", "robust", *far, "--missing", "mean", "--model", "m.npz")
    assert any("1 value lies more than 10 units" in note for note in found["notes"])
    assert any("1 missing value was taken for the median" in note for note in found["notes"])
    done = invoke("predict", "m.npz", *FILES, "--out", "again.csv")
    assert done.exit_code == 0, done.output
    assert "1 of 120 rows has a value more than 10 units" in " ".join(done.output.split())
    for line in ("--ranges age=0:120,income=0:100000,smoker=0:1", "--bound 200 --columns age"):
        dropped = asked(*line.split(), *far, "--missing", "drop")
        assert dropped["m"] == 119, line
    for line in ("--standardize --outside missing", "--standardize --outside missing --missing drop"):
        done = run(*FILES, "-k", "3", *line.split())
        assert done.exit_code == 2
        assert "Use --missing mean or --outside clip" in " ".join(done.stderr.split()), done.stderr


def test_a_common_scale_is_recommended_where_spreads_differ_a_hundredfold():
    found = asked("--coarse", "allow")
    said = "'income' spreads more than 10,000 times as wide as 'smoker'"
    assert any(said in note for note in found["notes"])
    assert not any("spreads more" in note for note in asked("--standardize")["notes"])
    assert not any("spreads more" in note for note in asked("--columns", "age,smoker")["notes"])


def test_the_comparison_takes_the_scale_of_the_run():
    # Of one client with all rows the automatic scale is another: blocks of tested rows are larger.
    assert asked("--columns", "income,smoker", "--coarse", "allow")["verified"] is True


@pytest.mark.parametrize("text", ["NA", *by_night("", "nan")])
def test_missing_values_are_refused_dropped_or_taken_for_the_mean(text):
    holes(text)
    refused = run(*FILES, "-k", "3")
    assert refused.exit_code == 2
    assert "--missing" in refused.stderr
    asked("--missing", "drop", "--standardize", "--labels", "secfc-labels.csv")
    left = [int(row) for client, row, _ in labels() if client == "a"]
    assert left == [i for i in range(30) if i not in (3, 7)]
    found = asked("--missing", "mean", "--standardize", "--labels", "secfc-labels.csv")
    assert found["verified"] is True
    assert found["m"] == len(labels()) == 120
    assert any("2 missing values were taken for the mean" in note for note in found["notes"])
    assert asked("--missing", "mean", "--bound", "100000", "--coarse", "allow")["verified"] is True


def test_dropping_everything_and_a_column_without_values_are_refused():
    for name in FILES:
        rows = Path(name).read_text().splitlines()
        Path(name).write_text("\n".join([rows[0], *("," + row.partition(",")[2] for row in rows[1:])]) + "\n")
    done = run(*FILES, "-k", "3", "--missing", "drop")
    assert done.exit_code == 2
    assert "every row of all 4 clients misses some value" in done.stderr
    done = run(*FILES, "-k", "3", "--missing", "mean", "--standardize")
    assert done.exit_code == 2
    assert "'age' is missing in every row of all clients" in done.stderr
    # Without one hospital the rest goes on.
    asked("--missing", "drop", "--columns", "income,smoker", "--standardize")


PUBLIC = "--ranges age=0:120,income=0:100000,smoker=0:1"
BAD = [
    ("--standardize --to-range", "two scales"),
    ("--standardize --bound 3", "--bound has no meaning with --standardize"),
    ("--limit 3", "it needs --standardize"),
    ("--outside clip", "--outside needs"),
    ("--ranges age", "is no range"),
    ("--ranges age=5:1", "is no range"),
    ("--ranges age=0:100", "ranges of age for the features"),
    ("--ranges age=0:30,income=0:1e5,smoker=0:1", "--outside clip"),
    ("--missing mean", "no bound is read off rows with gaps. Give one (--bound)"),
    ("--standardize --epsilon 3 --radius 2", "Give such ranges as well, or in its place"),
    (f"dp --standardize --epsilon 3 --radius 2 {PUBLIC}", "on centers alone | Leave --standardize out"),
    ("dp --missing mean --epsilon 3 --radius 2", "Use --missing drop, or leave --missing out"),
    (f"--missing mean --epsilon 3 --radius 2 {PUBLIC}", "exact facts of the data | Use --missing drop"),
    (f"--standardize --epsilon 3 --radius 2 --outside refuse {PUBLIC}", "which no budget covers"),
    ("--to-range --epsilon 3 --radius 2", "Give ranges that everybody may know (--ranges), have a part"),
    ("dp --to-range --epsilon 3 --radius 2", "it is for another command, `secfc run`"),
    (f"--standardize {PUBLIC}", "two scales: choose one. With --epsilon both are one"),
    ("--standardize --scale-share 0.2", "it needs --standardize and --epsilon"),
    (f"--standardize --epsilon 3 --radius 2 --scale-share 1 {PUBLIC}", "scale-share"),
    ("overlap --missing drop", "leave one of them out"),
]


@pytest.mark.parametrize(("line", "message"), BAD, ids=[line for line, _ in BAD])
def test_bad_usage_ends_with_2_and_a_message(line, message):
    *command, words = line.partition(" ")[::2] if line[0] != "-" else ("run", line)
    done = invoke(*command, *FILES, "-k", "3", *words.split())
    assert done.exit_code == 2, done.output
    for piece in message.split(" | "):
        assert piece in done.stderr.replace("\n", " ")
    assert not list(Path().glob("secfc-*"))


SCALES = ["", "--standardize", "--standardize robust", "--standardize norm", "--to-range", PUBLIC]
NOISE = ["", "--epsilon 3 --radius 2", "--epsilon 3 --server-file nowhere.csv"]


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("command", ["run nowhere.csv", "dp nowhere.csv", "plan", "plan --algorithm feddp"])
def test_what_an_error_offers_the_command_has_and_nobody_gave_already(command, noise, monkeypatch):
    def end(*given, **more):
        raise click.exceptions.Exit(0)

    monkeypatch.setattr("secfc.plan", end)
    options, ended = main.get_command(click.Context(main), command.split()[0]).params, set()
    known = {"--help", *(flag for option in options for flag in (*option.opts, *option.secondary_opts))}
    for scale, second, gaps in itertools.product(SCALES, ("", PUBLIC), ("", "--missing mean")):
        line = f"{command} -k 3 {noise} {scale} {second} {gaps}"
        done = invoke(*line.split())
        ended.add(done.exit_code)
        if "No such option" not in done.stderr:
            said = re.sub("`[^`]*`", "", done.stderr.replace("\n", " "))
            assert set(re.findall(r"(?<![\w'-])--[a-z][a-z-]*", said)) <= known, line
            assert not {*re.findall(r"\((--[a-z-]+)\)", said)} & {*line.split()}, line
    assert ended <= {0, 2}


def test_a_part_of_the_budget_pays_for_a_scale():
    holes()
    line = f"--standardize --epsilon 2000 --radius 6 {PUBLIC} --missing mean --scale-share 0.3"
    found = asked(*line.split(), "--noise", "shares")
    assert found["parameters"]["scale_share"] == 0.3
    assert found["parameters"]["epsilon"] == 2000
    assert found["parameters"]["epsilon_after_scaling"] < 2000
    assert found["privacy"]["epsilon"]["everybody"] <= 2000
    assert any(
        "scaling: of every feature a noisy mean" in one["what"] for one in found["privacy"]["released"]
    )
    assert any("30 % of the budget paid for the scale" in note for note in found["notes"])
    # What no budget paid for is not told: how many values lie beyond, or are missing, or what spreads differ.
    assert not any(
        "moved to" in note or "missing values" in note or "spreads" in note for note in found["notes"]
    )
    assert found["cost"] is None
    assert asked(*line.split(), "--evaluate")["evaluation"]["cost"] > 0
    # Public ranges alone take nothing of it.
    holes("50")
    found = asked("--epsilon", "2000", "--radius", "1.5", *PUBLIC.split())
    assert len(found["privacy"]["released"]) == 1


def test_two_files_cannot_be_standardized_and_one_is_at_home():
    done = run("a.csv", "b.csv", "-k", "2", "--standardize", "--algorithm", "lloyd")
    assert done.exit_code == 2
    assert "n=2 clients cannot scale features" in done.stderr
    done = run("a.csv", "-k", "2", "--standardize", "--algorithm", "lloyd", "--json")
    assert done.exit_code == 0
    assert "SumShares" not in done.stdout


def with_sites(names=("north", "south", "west")):
    """A column of text more in every file."""
    for j, name in enumerate(FILES):
        lines = Path(name).read_text().splitlines()
        sites = [names[(row + j) % len(names)] for row in range(len(lines) - 1)]
        rows = [f"{line},{site}" for line, site in zip(lines[1:], sites, strict=True)]
        Path(name).write_text("\n".join([f"{lines[0]},site", *rows]) + "\n")


def test_columns_of_text_become_a_bit_a_category_listed_or_agreed_on():
    with_sites()
    found = asked("--categorical", "site", "--standardize")
    bits = ["site=north", "site=south", "site=west"]
    assert found["columns"] == ["age", "income", "smoker", *bits]
    assert found["verified"] is True
    listed = asked("--categorical", "site=north|south|west|east", "--standardize")
    assert listed["columns"][3:] == [*bits, "site=east"]
    assert listed["verified"] is True
    federation = secfc.Federation.from_files(FILES, categorical={"site": None})
    assert (federation.stacked()[:, 3:].sum(axis=1) == 1).all()
    # Bits are not standardized: they stay bits.
    way = secfc.Standardize(keep=tuple(bits))
    result = secfc.fit(secfc.Lloyd(3), federation, scale_features=way)
    assert set(np.unique(result.scaling.scaling.federation(federation).stacked()[:, 3:])) == {0, 1}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--standardize", "column 'site': the cell is not a number"),
        ("--categorical site=north|south", "none of the 2 categories that were listed"),
        ("--categorical place", "no column 'place'"),
        ("--categorical site=north|north", "list each once"),
        ("--categorical site,site", "names a column twice"),
        ("overlap --categorical site", "leave it out here"),
    ],
)
def test_categories_that_do_not_fit_are_refused_and_never_shown(line, message):
    with_sites(("north", "south", "secret"))
    *command, words = line.partition(" ")[::2] if line[0] != "-" else ("run", line)
    done = invoke(*command, *FILES, "-k", "3", *words.split())
    assert done.exit_code == 2, done.output
    assert message in " ".join(done.stderr.split())
    assert "secret" not in done.stderr


def test_text_in_one_file_only_is_refused():
    lines = Path("b.csv").read_text().splitlines()
    Path("b.csv").write_text(
        "\n".join([lines[0], "old" + lines[1][lines[1].index(",") :], *lines[2:]]) + "\n"
    )
    done = run(*FILES, "-k", "3", "--standardize")
    assert done.exit_code == 2
    assert "b.csv, line 2, column 'age': the cell is not a number" in done.stderr


def test_a_missing_category_is_dropped_or_is_the_share_of_each():
    with_sites()
    text = Path("a.csv").read_text().splitlines()
    text[4] = text[4][: text[4].rindex(",") + 1]
    Path("a.csv").write_text("\n".join(text) + "\n")
    assert asked("--categorical", "site", "--standardize", "--missing", "drop")["m"] == 119
    found = asked("--categorical", "site", "--standardize", "--missing", "mean")
    assert any("3 missing values" in note for note in found["notes"])
    assert found["verified"] is True


def test_a_second_run_in_a_folder_does_not_fail_on_the_output_of_the_first():
    line = (*FILES, "-k", "3", "--algorithm", "lloyd", "--standardize")
    for _ in range(2):
        assert run(*line).exit_code == 0
    assert {path.name for path in Path().glob("secfc-*")} == {
        "secfc-labels.csv", "secfc-report.json", "secfc-labels-2.csv", "secfc-report-2.json",
    }  # fmt: skip
    assert run(*line, "--force").exit_code == 0
    assert len(list(Path().glob("secfc-*"))) == 4
    assert run(*line, "--labels", "secfc-labels.csv").exit_code == 2  # a name that was given is not changed
