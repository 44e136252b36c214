"""What version 0.1.0 offered still imports, from where it was."""

import importlib
import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

OLD = json.loads((Path(__file__).parent / "names-0.1.0.json").read_text())
# What is called otherwise is found under its new name only.
RENAMED = json.loads((Path(__file__).parent / "renamed-0.1.0.json").read_text())
# What is no more, as nothing does it any more.
GONE = {
    "field.tournament": "DIRECT",  # what a network costs decides which shape a contest takes
    "secfc.coded": "unheard",  # outcomes say what who missed the end has
    "psu.merge": "reciprocals",  # merged rows are multiplied, never divided
    "secfc.dealing": "judge_rows publish_shares",  # challenges, which the test of rows replaced
    "secfc.disclosure.match": "contest_of unheard",  # losses are told to the server by whoever notices
    # There is one source of steps, made of whom it asks and of what turns replies into labels.
    "secfc.disclosure.budgeted": "NoisySource",
    "secfc.disclosure.compared": "ComparedSource",
    "secfc.disclosure.dealt": "DealtSource",
    "secfc.disclosure.distances": "BlindedSource",
    "secfc.disclosure.noise_at_server": "NoisingSource",
    "secfc.disclosure.noise_in_shares": "NoisedSource noised",
    "secfc.disclosure.undealt": "NOBODY UndealtSource",
    "secfc.disclosure.policy": "Comparing",  # no policy inherits from another
    "secfc.membership": "Complete",  # the algorithm completes a draft, which knows none
    "secfc.messages": "Combined MaskedShares",  # messages of challenges
    "secfc.sealed": "Session",  # the handshake has two steps
    "secfc.sharing": "Agreed agree count_at_server count_shares",
    "secfc.disclosure.final": "FinalSource STEP_ROUNDS",
    # Reports are made of results, not of the settings of the shell.
    "secfc.report": "Outcome",
    "secfc.report.outcome": "Outcome",
    "secfc.report.people": "TITLES",
    "secfc.report.programs": "parameters quantizer_of",
    "secfc.feddp.variant": "EPSILON_FOR_LLOYD",  # a step is taken at every budget
}


@pytest.mark.parametrize("module", OLD)
def test_a_module_of_0_1_0_still_has_its_names(module):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        found = importlib.import_module(module)
        missing = [name for name in OLD[module].split() if not hasattr(found, name)]
    renamed = RENAMED.get(module, {})
    assert [name for name in missing if name not in renamed] == GONE.get(module, "").split()
    assert all(hasattr(found, name) for name in renamed.values())


def test_an_old_module_says_where_its_names_are():
    code = "import warnings; warnings.simplefilter('error'); import secfc.exchange"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "secfc.exchange has moved: its names are in secfc.roles.exchange now" in done.stderr


def test_an_old_module_does_not_hide_a_function_of_its_name():
    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "import secfc, secfc.plan\n"
        "from secfc.plan import CodedPlan\n"
        "print(type(secfc.plan(secfc.SecFC(k=2, t=1), n=3, m=60, d=2)).__name__, CodedPlan.__module__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["Planned", "secfc.coded.plan"], done.stderr


def test_a_module_that_never_was_is_not_found():
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("secfc.never")


def test_an_old_module_has_no_other_names():
    sys.modules.pop("secfc.readers", None)
    with pytest.warns(DeprecationWarning, match="has moved"):
        old = importlib.import_module("secfc.readers")
    with pytest.raises(AttributeError, match="no attribute 'never'"):
        _ = old.never
