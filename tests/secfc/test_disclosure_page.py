"""The security argument names exactly the messages that runs under each policy send."""

import re
from pathlib import Path

import numpy as np
import pytest

import secfc
from tests.secfc import test_assignments, test_final_labels, test_undealt

PAGE = (Path(secfc.__file__).parent / "disclosure" / "README.md").read_text()
TABLES = {
    title: set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    for title, table in re.findall(r"<!-- messages: (.*?) -->\n((?:\|.*\n)+)", PAGE)
}
ALWAYS = TABLES.pop("every policy")


def kinds(tree):
    """The names of messages in a golden list, however it is nested."""
    inner = [kinds(value) for value in tree.values() if isinstance(value, dict)]
    return set().union({key for key in tree if isinstance(key, str) and key[0].isupper()}, *inner)


def sent(policy):
    """What a run sends; nothing falls silent and there is one start."""
    points = np.random.default_rng(0).normal(size=(30, 2))
    federation = secfc.Federation.from_arrays(np.array_split(points, 5))
    result = secfc.fit(secfc.SecFC(k=2, t=1, max_iter=2, disclosure=policy), federation)
    return {e.kind for e in result.transcript.envelopes}


EXPECTED = {
    "Distances()": lambda: sent(secfc.Distances()),
    "Distances(dealt=True)": lambda: sent(secfc.Distances(dealt=True)),
    "AssignmentsOnly()": lambda: kinds(test_assignments.GOLDEN),
    "AssignmentsOnly(dealer=None)": lambda: kinds(test_undealt.GOLDEN),
    "FinalLabelsOnly()": lambda: kinds(test_final_labels.GOLDEN),
}


def test_every_policy_has_a_table():
    assert set(TABLES) == set(EXPECTED)


@pytest.mark.parametrize("policy", EXPECTED)
def test_the_table_of_a_policy_names_its_messages(policy):
    assert TABLES[policy] | ALWAYS == EXPECTED[policy]()
    assert not TABLES[policy] & ALWAYS


def test_the_default_is_what_the_page_and_the_readme_say():
    assert secfc.SecFC(k=2, t=1).disclosure == secfc.Lloyd(k=2).disclosure == secfc.AssignmentsOnly()
    assert "secfc/disclosure/README.md" in (Path(secfc.__file__).parent.parent / "README.md").read_text()
