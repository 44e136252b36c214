"""Problems by number, on a page; and journals that are dead after blame."""

import re
from pathlib import Path

import pytest

import psu.errors
from secfc.deploy import floors, reconnect
from secfc.errors import PROBLEMS, JournalError, ProtocolError, TooFewReplies, problem_id
from secfc.roles.exchange import Exchange, Inbox
from secfc.transport.checkpoint import keep_journal
from secfc.transport.journal import Journal
from tests.loading import every_message

every_message()  # loads every module
PAGE = (Path(floors.__file__).parent / "problems.md").read_text()


def below(kind):
    for one in kind.__subclasses__():
        yield one
        yield from below(one)


ERRORS = sorted(set(below(ProtocolError)), key=lambda kind: kind.__name__)


def test_every_error_has_its_number_and_its_line_on_the_page():
    numbered = {*ERRORS, floors.BelowFloor, reconnect.NotAdmitted}
    for kind in numbered:
        if kind.__module__.startswith(("secfc", "psu")) and kind.__name__ != "FaultyParty":
            assert kind.__name__ in PROBLEMS, kind
    assert len(set(PROBLEMS.values())) == len(PROBLEMS)
    lines = re.findall(r"^\| (SECFC-\d+) \| `(\w+)` \|", PAGE, re.M)
    assert [(f"SECFC-{number}", name) for name, number in PROBLEMS.items()] == lines
    assert problem_id(ValueError()) is None
    assert psu.errors.UnionAborted.__name__ not in PROBLEMS  # reaches users as UnionFailed


def ending(kind):
    """A role that hears something and ends by such an error."""
    yield Exchange({}, ("a",))
    raise kind.__new__(kind)


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_after_blame_a_journal_is_dead_and_after_a_loss_it_goes_on(tmp_path, kind):
    path, run = tmp_path / "b.journal", bytes(32)
    with Journal.open(path, "b", run) as kept:
        seed = bytes(kept._seed)
        role = keep_journal(ending(kind), kept)
        next(role)
        with pytest.raises(kind):
            role.send(Inbox({}, {}))
    assert (PROBLEMS.get(kind.__name__, 999) < 200) == issubclass(kind, TooFewReplies)  # as the page says
    if issubclass(kind, TooFewReplies):
        Journal.open(path, "b", run).close()
        return
    assert seed not in path.read_bytes()
    with pytest.raises(JournalError, match="start again"):
        Journal.open(path, "b", run)
