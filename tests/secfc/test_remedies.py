"""Errors and cautions as data: the same rule in Python, in the shell and in a site file."""

from __future__ import annotations

import ast
import copy
import itertools
import re
import shlex
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

import secfc
from secfc import cli
from secfc.cli.deploy.run_file import RUN_FILE
from secfc.cli.methods import options
from secfc.cli.methods.secfc import METHOD
from secfc.cli.shell.errors import FLAGS, ShellInterface
from secfc.cli.shell.method import AskedOptions
from secfc.cli.shell.options import Workers
from secfc.cli.shell.settings import Settings
from secfc.data.inputs import with_parameters
from secfc.deploy.site import SITE_FILE
from secfc.errors import IncompatibleOptions, InputError
from secfc.remedies import CLASSES, PYTHON, SAME, THINGS, VERBS, agree_in_number
from tests.nightly import short
from tests.test_house import SOURCES

CLASH = IncompatibleOptions(
    {"centers": "rounded", "disclosure": secfc.OwnLabels(dealer=None)},
    "nobody deals",
    [
        ("centers", "exact"),
        ("disclosure", "assignments"),
        ("ell", None),
        ("missing", "mean", "fill gaps"),
        "wait",
    ],
)


def test_one_error_speaks_to_everybody():
    assert str(CLASH) == (
        'quantization=Quantization(centers="rounded") with disclosure=OwnLabels(dealer=None): nobody deals. '
        'Use quantization=Quantization(centers="exact") or disclosure=AssignmentsOnly(), leave ell out, '
        'fill gaps (missing="mean"), or wait.'
    )
    assert CLASH.text(ShellInterface()) == (
        "--centers rounded with --disclosure own-labels --dealer none: nobody deals. Use --centers exact or "
        "--disclosure assignments, leave --ell out, fill gaps (--missing mean), or wait."
    )
    assert CLASH.text(RUN_FILE) == (
        'centers = "rounded" with disclosure = "own-labels": nobody deals. Use centers = "exact" or '
        'disclosure = "assignments", leave ell out, or wait.'
    )


def test_what_a_command_lacks_is_not_offered():
    some = ShellInterface({"--centers", "--disclosure"})
    assert CLASH.text(some).endswith("Use --centers exact or --disclosure assignments, or wait.")
    assert CLASH.text(SITE_FILE).endswith("Fill gaps (`secfc deploy init --prepare missing=mean`), or wait.")
    assert InputError("no", [("ell", 1)]).text(ShellInterface(())) == "no"


@pytest.mark.parametrize(("parameter", "word"), CLASSES)
def test_every_word_is_an_option_here_and_a_value_there(parameter, word):
    assert word in options()[parameter].type.choices
    built = eval(
        PYTHON.setting(parameter, word).partition("=")[2],
        vars(secfc) | {n: getattr(secfc, n) for n in secfc.__all__},
    )
    assert ShellInterface().setting(parameter, built).split()[:2] == [f"--{parameter}", word]
    taken = secfc.SecFC(2, **{parameter: word})
    assert type(getattr(taken, parameter)) is type(built)


@pytest.mark.parametrize(
    "error", [CLASH, InputError("a", ["b"], {"c": 1}), secfc.Caution("a", [("bound", ...)])]
)
def test_errors_can_be_copied_as_between_processes(error):
    assert str(copy.deepcopy(error)) == str(error)


def wishes():
    """Every option of `--algorithm secfc` with each of its words, and a few numbers."""
    for option in METHOD.options:
        if option.is_flag:
            yield option.name, [option.opts[0]]
            yield from ((option.name, [flag]) for flag in option.secondary_opts)
        elif isinstance(option.type, click.Choice):
            yield from ((option.name, [option.opts[0], word]) for word in option.type.choices)
        elif isinstance(option.type, click.IntRange | Workers):
            yield from ((option.name, [option.opts[0], str(value)]) for value in (1, 2, 5))
    yield "dealer", ["--dealer", "none"]


def settled(line):
    """What is asked by this line is settled, as `secfc run` does: the error, or None."""
    context = click.Command("run", params=list(METHOD.options)).make_context("run", list(line))
    try:
        METHOD.settle(AskedOptions.of(context, METHOD, Settings(files=(Path("a.csv"),), k=3)))
    except (IncompatibleOptions, click.UsageError) as error:
        return error
    return None


def test_remedies_of_all_pairs_of_options_are_options_and_help():
    known = {flag for option in METHOD.options for flag in (*option.opts, *option.secondary_opts)}
    shell, clashes = ShellInterface(known), set()
    for (one, first), (other, second) in itertools.islice(
        itertools.combinations(wishes(), 2), 0, None, short(8, nightly=1)
    ):
        error = None if one == other else settled(first + second)
        if not isinstance(error, IncompatibleOptions):
            continue
        said = error.text(shell)
        clashes.add(frozenset(error.parameters))
        assert set(re.findall(r"(?<![\w-])--?[a-z][a-z+-]*", said)) <= known, said
        assert not re.search(r"\w=|\(\)", said), said
        for remedy in error.remedies:
            if isinstance(remedy, str) or remedy[1] is ...:
                continue
            name, value = remedy[:2]
            setting = () if value is None else shlex.split(shell.setting(name, value))
            option = FLAGS.get(name, "--" + name.replace("_", "-"))
            kept = [part for part in (first, second) if part[0] != option]
            again = settled([*itertools.chain(*kept), *setting])
            assert str(again) != str(error), (said, remedy)
    assert len(clashes) >= short(4, nightly=11), clashes


def test_messages_have_the_singular_after_a_1():
    """Whatever is counted in a sentence of the sources; figures, names and what is quoted stay."""
    for text, want in {
        "1 values lie beyond, 1 of 20 rows have one": "1 value lies beyond, 1 of 20 rows has one",
        "k=1 clusters of m=1 points, 1 missing values were": "k=1 cluster of m=1 point, 1 missing value was",
        "1 of 1 rows are left, 1 replies came": "1 of 1 row is left, 1 reply came",
    }.items():
        assert agree_in_number(text) == want
    for text in (
        "21 rows are",
        "0.1 units",
        "1,001 rows are",
        "column '1 rows are'",
        "1 clients' rows are",
        "client number 1 sent centers",
        "client 1 takes values",
    ):
        assert agree_in_number(text) == text
    plural = re.compile(
        rf"(?<![\w.,'-])1(?: (?!of )[a-z]+)? ((?!ones)[A-Za-z]+s) (?:{'|'.join(VERBS)}|{SAME})\b"
    )
    counted = set()
    for path, source in SOURCES.items():
        for node in ast.walk(ast.parse(source)) if path.startswith(("secfc/", "psu/")) else ():
            if isinstance(node, ast.JoinedStr):
                parts = ("1" if isinstance(x, ast.FormattedValue) else x.value for x in node.values)
                text = "".join(parts)
                counted |= set(plural.findall(text))
                assert not plural.search(agree_in_number(text)), text
    assert counted <= set(THINGS.split("|"))
    assert {"rows", "values"} <= counted
    for error in (InputError("1 rows are"), secfc.errors.ProtocolError("1 rows are")):
        assert str(error) == "1 row is"


# --- names that have others now, which work for one version more: see `accept_old_names`


@pytest.mark.parametrize(
    ("old", "new", "read"),
    [
        ("max_cheaters", "corrected", lambda: secfc.Threshold(2, max_cheaters=1).corrected),
        ("max_cheaters", "corrected", lambda: secfc.Threshold(2, corrected=1).max_cheaters),
        (
            "max_cheaters",
            "corrected",
            lambda: with_parameters(secfc.SecFC(3), max_cheaters=1).threshold.corrected,
        ),
        ("liars", "corrected", lambda: secfc.TooManyDeviating(1, ()).liars),
        ("LiarsExceeded", "TooManyDeviating", lambda: secfc.LiarsExceeded(1, ()).corrected),
        ("LiarsExceeded", "TooManyDeviating", lambda: secfc.errors.LiarsExceeded(1, ()).corrected),
        ("liars", "deviated", lambda: len(secfc.fit(secfc.Lloyd(2), [np.eye(3)]).liars) + 1),
    ],
)
def test_an_old_name_works_and_says_what_to_write(old, new, read):
    with pytest.warns(DeprecationWarning, match=f"^{old} is called {new} now: write {new}$") as told:
        assert read() == 1
    assert told[-1].filename == __file__ or "inputs.py" in told[-1].filename


def test_a_parameter_by_both_names_is_refused():
    with pytest.raises(TypeError, match=r"write corrected, and leave max_cheaters out"):
        secfc.Threshold(2, corrected=1, max_cheaters=1)
    with pytest.raises(AttributeError, match="no attribute 'CheatersExceeded'"):
        _ = secfc.errors.CheatersExceeded


def test_an_old_option_works_and_notes_what_to_write():
    told = CliRunner().invoke(cli.main, ["plan", "--liars=-1"])
    assert "Note: --liars is called --corrected now: write --corrected." in told.stderr
    assert "'--corrected': -1 is not in the range" in told.stderr
    assert "Note" not in CliRunner().invoke(cli.main, ["plan", "--corrected=-1"]).stderr
