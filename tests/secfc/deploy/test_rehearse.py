"""A rehearsal says what becomes of a run when a party is away, and notices where a crash would change it."""

from pathlib import Path

import pytest

pytest.importorskip("websockets")

from click.testing import CliRunner

from field.ring.errors import install_command
from secfc.cli.deploy import rehearse
from secfc.cli.deploy.rehearse import AWAY, KILLED, SAME, WAITS, Disturbance, Stage, outcome_words
from secfc.cli.deploy.run_file import build_run
from secfc.cli.shell.errors import Failed
from secfc.cli.shell.program import main
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


def test_over_flare_it_is_refused_with_a_remedy_where_flare_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setattr(rehearse, "find_spec", lambda name: None)
    path = tmp_path / "run.toml"
    path.write_text(run_file(3).toml())
    done = CliRunner().invoke(main, ["deploy", "rehearse", str(path), "--flare"])
    assert done.exit_code == 2
    assert install_command("[nvflare]") in " ".join(done.output.split())


def test_what_flare_says_where_it_refuses_is_shown_and_no_more(tmp_path, monkeypatch):
    tool = tmp_path / "nvflare"
    tool.write_text("#!/bin/sh\nseq 100; exit 4\n")
    tool.chmod(0o700)
    monkeypatch.setattr(rehearse.sys, "executable", str(tmp_path / "python"))
    proof = rehearse.Proof(tmp_path, run_file(3))
    with pytest.raises(Failed, match=r"`nvflare poc prepare` ended with 4:\n96\n97\n98\n99\n100$"):
        proof.ask("poc", "prepare", "-i", "x")
    assert proof.ask("poc", "stop", fails=True).endswith("100\n")
    tool.write_text("#!/bin/sh\nsleep 60\n")
    with pytest.raises(Failed, match=r"took more than 0\.1 s"):
        proof.ask("poc", "stop", seconds=0.1)
    assert proof.labels("site-0") == []


@pytest.mark.deployment
@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
def test_flare_in_its_poc_mode_carries_the_run_to_the_same_labels_and_its_job_ends_once(tmp_path):
    pytest.importorskip(
        "nvflare", reason="NVIDIA FLARE is not installed: pip install 'secfc-clustering[nvflare]'"
    )
    path = tmp_path / "run.toml"
    path.write_text(run_file(3, options={**OPTIONS, "n_init": 2}).toml())
    done = CliRunner().invoke(main, ["deploy", "rehearse", str(path), "--flare", "--rows", "20"])
    assert done.exit_code == 0, done.output
    assert "FINISHED:COMPLETED, the same labels at every site" in done.output
    assert "Its error says: its part of this run was done before" in done.output
    folders = [line.read_bytes() for line in Path("/proc").glob("[0-9]*/cmdline")]
    assert not [line for line in folders if b"secfc-rehearsal-" in line]  # nothing of it runs any more


def test_rows_that_cannot_be_made_up_are_refused(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(run_file(3, options={"t": 1}, preparing={"standardize": True}).toml())
    done = CliRunner().invoke(main, ["deploy", "rehearse", str(path)])
    assert done.exit_code == 2
    assert "rehearse a copy of the run file without them" in done.output
