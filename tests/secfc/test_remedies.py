"""Errors and cautions as data: the same rule in Python, in the shell and in a site file."""

from __future__ import annotations

import copy

import pytest

import secfc
from secfc.cli.deploy.run_file import RUN_FILE
from secfc.cli.errors import ShellInterface
from secfc.cli.methods import options
from secfc.data.inputs import IncompatibleOptions, InputError
from secfc.deploy.site import SITE_FILE
from secfc.remedies import CLASSES, PYTHON

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
