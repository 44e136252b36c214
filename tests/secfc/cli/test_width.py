"""What the shell says fits a screen of 80 columns: helps, the main commands' screens, what sites check."""

import json
import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from secfc.cli import main
from secfc.cli.shell import help_lines
from secfc.cli.shell.help_lines import fold_line
from tests.nightly import by_night
from tests.secfc.cli.test_options import COMMANDS

GROUPS = {name.rpartition(" ")[0] for name in COMMANDS}
RUN = "run a.csv b.csv c.csv -k 3 --id-column patient --force"
SCREENS = (
    f"{RUN} --standardize --disclosure own-labels",
    "check a.csv b.csv c.csv --id-column patient",
    "describe secfc-labels.csv a.csv b.csv c.csv --id-column patient",
    "attack reconstruct a.csv b.csv c.csv -k 3 --exclude patient",
)
SLOW = (
    "run --init random --seed 68",
    f"{RUN} --standardize -k 2..6",
    f"{RUN} --preset private",
    f"{RUN} --preset centers",
    "plan -n 5 -m 10000 -d 20 -k 4 --verbose",
    "grid --n 3,5 --m 60 --d 2 --k 3 --out rows.jsonl",
    "attack geometry a.csv b.csv c.csv -k 3 --exclude patient",
    "attack dictionary --ids 50 --digits 3 --quota 50",
    "dp a.csv b.csv c.csv -k 3 --epsilon 4 --radius 200 --exclude patient --force",
    "overlap a.csv b.csv c.csv -k 3 --exclude patient --force",
    "psu a.csv b.csv c.csv --id-column patient",
)


def say(line):
    done = CliRunner().invoke(main, shlex.split(line), env={"COLUMNS": "80"})
    assert done.exit_code == 0, done.output
    return done.output.splitlines()


@pytest.mark.parametrize("line", [*SCREENS, *by_night(*SLOW)])
def test_a_screen_has_no_line_of_more_than_80_columns(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    say("example .")
    if line.startswith("describe"):
        say(RUN)
    assert [wide for wide in say(line) if len(wide) > 80] == []


def test_no_help_has_a_line_of_more_than_80_columns():
    for name in sorted({*COMMANDS, *GROUPS}):
        words = name.split()[1:]
        flags = [flag for p in getattr(COMMANDS.get(name), "params", ()) for flag in p.opts]
        for asked in ("--help", *(flag for flag in flags if flag == "--help-all")):
            said = say(shlex.join([*words, asked]))
            assert [line for line in said if len(line) > 80] == [], (name, asked)


def test_what_is_folded_can_be_copied_and_says_the_same():
    command = "secfc plan " + "-n 10 " * 20
    folded = fold_line(f"    {command}   what it costs").splitlines()
    assert max(map(len, folded)) <= 80
    *copied, purpose = folded
    assert purpose.strip() == "what it costs"
    assert all(line.endswith(" \\") for line in copied[:-1])
    assert not copied[-1].endswith("\\")
    assert "\n".join(copied).replace("\\\n", "").split() == command.split()
    choice = "  --start [" + "|".join(["automatic"] * 9) + "]"
    assert max(map(len, fold_line(choice).splitlines())) <= 80
    assert "".join(fold_line(choice).split()) == "".join(choice.split())
    assert fold_line("    " + "x " * 38) == "    " + "x " * 38


def test_what_sites_check_is_folded_on_terminals_alone(capsys, monkeypatch):
    line = "ok    key         " + "it lies as it is, for whoever reads the file; " * 4
    help_lines.echo_folded(line, 18)
    assert capsys.readouterr().out == line + "\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    help_lines.echo_folded(line, 18)
    first, *rest = capsys.readouterr().out.splitlines()
    assert max(map(len, (first, *rest))) <= 80
    assert rest
    assert all(more.startswith(" " * 18) and more[18] != " " for more in rest)


OTHER = ({"cell": '{"n": 3, "m": 5}'},)
WRONG = ("run x.csv y.csv -k 2", "plot rows.jsonl --x n --y ms", "run --disclosure none")


@pytest.mark.parametrize("line", WRONG)
def test_errors_fit_a_terminal_and_are_one_line_for_a_pipe(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_text("a,b\n1,2\n3,4\n")
    Path("y.csv").write_text("a,b\n1,2\n3,4\n")
    row = {"n": 3, "cell": '{"n": 3, "m": 4}', "ms": 1}
    Path("rows.jsonl").write_text("".join(f"{json.dumps(row)}\n{json.dumps(row | more)}\n" for more in OTHER))
    command = [sys.executable, "-m", "secfc.cli", *shlex.split(line)]
    piped = subprocess.run(command, capture_output=True, text=True)
    (wide,) = [one for one in piped.stderr.splitlines() if one.startswith("Error: ")]
    assert len(wide) > 80
    ours, theirs = pty.openpty()
    shown = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    told = read_terminal(ours)
    assert shown.wait(60) == piped.returncode
    start = told.index("Error: ")
    assert max(map(len, told[start:].splitlines())) <= 80
    assert " ".join(told[start:].split()) == " ".join(wide.split())


def read_terminal(ours):
    """What a program wrote to the other end, until it ended."""
    told = b""
    try:
        while part := os.read(ours, 4096):
            told += part
    except OSError:  # the other end was closed
        os.close(ours)
    return told.decode().replace("\r", "")


@pytest.mark.parametrize(("spread", "word"), [(0.3, "a clear elbow"), (0.7, "faint"), (1.0, "not clear")])
def test_a_screen_says_how_clear_the_number_of_clusters_is_that_it_chose(spread, word, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    centers = np.array([[0, 0], [3, 0], [0, 3]]).repeat(40, axis=0)
    points = np.random.default_rng(0).normal(centers, spread)
    for client, name in enumerate("abc"):
        np.savetxt(f"{name}.csv", points[client::3], delimiter=",", header="x,y", comments="")
    (said,) = [line for line in say("run a.csv b.csv c.csv -k auto --algorithm lloyd") if "chosen" in line]
    assert f"chosen among 1 to 10: {word})" in said
