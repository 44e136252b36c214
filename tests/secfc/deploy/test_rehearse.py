"""A rehearsal says what becomes of a run when a party is away, and notices where a crash would change it."""

import pytest

pytest.importorskip("websockets")

from click.testing import CliRunner

from secfc.cli.deploy import rehearse
from secfc.cli.deploy.rehearse import AWAY, KILLED, SAME, WAITS, Disturbance, Stage, outcome_words
from secfc.cli.deploy.run_file import build_run
from secfc.cli.program import main
from secfc.deploy.runfile import RunFile
from secfc.roles.exchange import SERVER

OPTIONS = {"t": 1, "bound": 8.0, "init": "random", "max_iter": 2}


def run_file(clients=4, **words):
    names = (*(f"site-{i}" for i in range(clients)), SERVER)
    keys = {name: bytes([i]) * 32 for i, name in enumerate(names, 1)}
    words = {"hub": "ws://hub", "k": 3, "options": OPTIONS, **words}
    return RunFile(name="a run", session=bytes(32), identities=keys, features=("x", "y"), **words)


@pytest.fixture
def stage(tmp_path):
    return Stage.of(run := run_file(), build_run(run), 10, tmp_path)


def test_a_crash_changes_nothing_and_who_can_be_spared_is_found_by_trying(stage):
    wanted = stage.perform()

    def becomes(party, phase, what):
        return outcome_words(stage, Disturbance(party, phase, what), wanted)

    assert becomes("site-1", "clustering", KILLED) == SAME
    assert becomes("site-3", "clustering", AWAY) == "can do without"
    assert becomes("site-3", "greeting the others", AWAY) == WAITS


def test_a_party_that_begins_anew_without_its_journal_is_noticed(stage, monkeypatch):
    wanted = stage.perform()
    disturb = rehearse.disturb_role

    def forgetful(disturbed, begin, opened):
        def begin_without_journal():
            if opened:
                opened[-1].path.unlink()
            return begin()

        return disturb(disturbed, begin_without_journal, opened)

    monkeypatch.setattr(rehearse, "disturb_role", forgetful)
    assert outcome_words(stage, Disturbance("site-1", "clustering", KILLED), wanted) != SAME


def test_the_command_prints_both_tables_and_says_that_flare_was_not_tried(tmp_path, monkeypatch):
    monkeypatch.setattr(rehearse, "outcome_words", lambda stage, disturbed, wanted: disturbed.what)
    path = tmp_path / "run.toml"
    path.write_text(run_file(3, hub="nvflare://hub:8002").toml())
    done = CliRunner().invoke(main, ["deploy", "rehearse", str(path), "--rows", "10"])
    assert done.exit_code == 1  # as no cell says that labels were the same
    for words in (KILLED, AWAY, "clustering", "site-2", "nobody can be done without", "not rehearsed"):
        assert words in done.output


def test_rows_that_cannot_be_made_up_are_refused(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(run_file(3, options={"t": 1}, preparing={"standardize": True}).toml())
    done = CliRunner().invoke(main, ["deploy", "rehearse", str(path)])
    assert done.exit_code == 2
    assert "rehearse a copy of the run file without them" in done.output
