"""The six tasks of whoever is new, three commands each, run as they stand in secfc/cli/README.md."""

import csv
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from secfc.cli import main
from tests.nightly import by_night

PAGE = (Path(__file__).parent.parent / "secfc/cli/README.md").read_text()
TASKS = {
    title: block.strip().splitlines()
    for title, block in re.findall(
        r"^## ([^\n]+)\n(?:(?!^## ).)*?```sh\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL
    )
}
OWN, CHOOSE, SEE, GRID, OFFICER, NEXT = TASKS


@pytest.fixture(scope="module")
def hospital(tmp_path_factory):
    """Three hospitals' patients, of three kinds, in years and kilograms; and those of next month."""
    folder = tmp_path_factory.mktemp("hospitals")
    rng = np.random.default_rng(0)
    (folder / "next").mkdir()
    for path, count in (("a", 30), ("b", 24), ("c", 27), ("next/a", 4), ("next/b", 3)):
        kinds = np.arange(count) % 3
        values = np.stack([20 + 25 * kinds, 60_000 + 20_000 * (kinds == 1)], 1) + rng.normal(size=(count, 2))
        with (folder / f"{path}.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(("patient", "age", "grams"))
            rows.writerows((f"{path}-{i}", *row) for i, row in enumerate(values.round(2).tolist()))
    return folder


def do_task(task):
    for line in TASKS[task]:
        program, *words = shlex.split(line)
        assert program == "secfc"
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 0, done.output
    return done.stdout


def labels(path):
    """Labels by patient, as a file has them."""
    with open(path, newline="") as file:
        return {row["id"]: row["label"] for row in csv.DictReader(file)}


def kinds_of(found):
    """The labels of each kind of patient: one each, if all are told apart."""
    return [
        {label for name, label in found.items() if int(name.rpartition("-")[2]) % 3 == k} for k in range(3)
    ]


def test_own_files_are_told_apart_on_a_common_scale_and_so_are_next_months(hospital, monkeypatch):
    monkeypatch.chdir(hospital)
    assert "those of plaintext k-means" in do_task(OWN)
    first = labels("secfc-labels.csv")
    assert len(first) == 81
    assert sorted(map(len, kinds_of(first))) == [1, 1, 1]
    assert "7 labels" in do_task(NEXT)
    assert len(labels("next.csv")) == 7
    assert kinds_of(labels("next.csv")) == kinds_of(first)


@pytest.mark.nightly
def test_an_officer_gets_one_page(hospital, monkeypatch):
    monkeypatch.chdir(hospital)
    do_task(OFFICER)
    page = Path("officer.html").read_text()
    assert "<script" not in page
    assert "://" not in re.sub(r"http://www\.w3\.org/\S+", "", page)
    assert "a-0" not in page  # no patient


@pytest.mark.parametrize("task", by_night(CHOOSE, SEE, GRID))
def test_the_others_run(hospital, monkeypatch, task):
    monkeypatch.chdir(hospital)
    said = do_task(task)
    if task == CHOOSE:
        assert "3" in said
        assert sorted(map(len, kinds_of(labels("chosen.csv")))) == [1, 1, 1]
        assert Path("costs.png").stat().st_size > 5000
    if task == SEE:
        assert "<svg" in Path("seen.html").read_text()
    if task == GRID:
        assert len(Path("rows.jsonl").read_text().splitlines()) == 2
        assert Path("time.png").stat().st_size > 5000


def test_there_are_six_tasks_of_three_commands_at_most():
    assert len(TASKS) == 6
    assert all(1 <= len(lines) <= 3 for lines in TASKS.values())
