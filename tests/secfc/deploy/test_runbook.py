"""The runbook's commands, typed at a run of real processes; and the alerts, whose numbers must exist."""

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("websockets")

from secfc.cli.deploy.logs import OFTEN, Log
from secfc.cli.deploy.site import LoadedSite
from secfc.cli.shell import errors
from secfc.cli.shell.program import main
from secfc.deploy import metrics
from tests.secfc.deploy.sites import HERE, Sites, blobs, sites

pytestmark = pytest.mark.deployment

FOLDER = Path(metrics.__file__).parent
PAGE = (FOLDER / "runbook.md").read_text()


def typed(name, folder, *changes):
    """The commands between two marks, typed in a folder: exit code and what was said."""
    part = PAGE.split(f"<!-- {name} -->")[1].split(f"<!-- end of {name} -->")[0]
    (script,) = re.findall(r"```sh\n(.*?)```", part, re.DOTALL)
    for old, new in changes:
        assert old in script
        script = script.replace(old, new)
    tool = folder / "secfc"
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m secfc.cli "$@"\n')
    tool.chmod(0o755)
    done = subprocess.run(
        ["bash", "-c", f"PATH={folder}:$PATH\n{script}"], cwd=folder, env=HERE, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL, timeout=240,
    )  # fmt: skip
    return done.returncode, done.stdout


def test_alerts_are_about_numbers_that_there_are_and_lead_to_the_runbook():
    yaml = pytest.importorskip("yaml")
    rules = [rule for group in yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
             for rule in group["rules"]]  # fmt: skip
    known = set(metrics.__doc__.split())
    anchors = {
        f"#{line[3:].lower().replace(' ', '-')}" for line in PAGE.splitlines() if line.startswith("## ")
    }
    for rule in rules:
        names = re.findall(r"secfc_\w+", rule["expr"])
        assert names
        assert set(names) <= known, rule
        page, _, anchor = rule["annotations"]["runbook"].partition("#")
        assert (page, f"#{anchor}" in anchors) == ("runbook.md", True), rule
    for name in re.findall(r"`(secfc_\w+)`", PAGE):
        assert name in known, name


def test_units_start_again_what_is_suspended_or_died_and_nothing_that_has_ended():
    units = re.findall(r"```ini\n(\[Unit\].*?)```", (FOLDER / "README.md").read_text(), re.DOTALL)
    ends = [re.search(r"^RestartPreventExitStatus=(.*)$", unit, re.MULTILINE)[1].split() for unit in units]
    final = (errors.Failed, errors.RefusedInput, errors.BelowFloorRefusal, errors.FewerSites)
    assert [sorted(map(int, codes)) for codes in ends] == [
        sorted(one.exit_code for one in final), [errors.RefusedInput.exit_code]
    ]  # fmt: skip
    assert re.findall(r"^Restart=(.*)$", "".join(units), re.MULTILINE) == ["on-failure", "always"]


def test_operators_decide_on_record_what_the_run_and_their_floors_allow_and_nothing_else(tmp_path):
    run = Sites(tmp_path, blobs((12, 15, 14, 13, 11)), k=3, options={"bound": 32.0, "t": 1})
    path = tmp_path / "site-0" / "site.toml"

    def asked(command, *more):
        done = CliRunner().invoke(main, ["deploy", command, str(path), *more])
        return done.exit_code, done.output

    def recorded():
        return [(said["what"], said["outcome"]) for said in LoadedSite.read(path).audit.entries()]

    assert asked("go-on", "--without", "site-1")[0] == 2  # no run is under way
    LoadedSite.read(path).open_journal().close()
    for names, why in (
        ("server", "nobody can take the server's place"), ("site-9", "no other client"),
        ("site-1,site-2,site-3", "too few are left"),
    ):  # fmt: skip
        code, said = asked("go-on", "--without", names)
        assert (code, why in said) == (2, True), said
    run.write_site("site-0", named=False, floors="fewest_clients = 5\n")
    code, said = asked("go-on", "--without", "site-1")
    assert (code, "fewest_clients" in said) == (4, True), said
    assert recorded() == []
    run.write_site("site-0", named=False)
    assert asked("go-on", "--without", "site-1")[0] == 0
    assert recorded() == [("go-on", "decided")]
    said = asked("status")[1]
    assert "no process runs; the same command goes on" in said
    assert "to go on without site-1" in said
    assert "not yet heard of: site-2, site-3, site-4, server" in said
    assert asked("clean")[0] == 2
    assert asked("abort")[0] == 0
    assert recorded() == [("go-on", "decided"), ("abort", "decided")]
    assert "AbortedByOperator" in asked("status")[1]
    code, said = asked("clean")
    assert (code, "deleted" in said) == (0, True), said


@pytest.mark.nightly
def test_what_the_runbook_says_to_type_does_what_it_says(tmp_path):
    options = {"bound": 32.0, "t": 1, "init": "random", "n_init": 4}
    with sites(tmp_path, blobs((17, 20, 14, 22, 19)), k=3, options=options) as run:
        run.start("hub")
        for name in ("site-0", "site-1", "site-2", "site-4", "server"):
            run.start(name)
        run.until_said("hub", "listens")
        code, said = typed("moves", tmp_path / "site-3")  # which was away, and joins
        assert (code, "knows this party" in said, "results are in" in said) == (0, True, True), said
        assert set(run.wait("site-0", "site-1", "site-2", "site-4", "server")) == {0}
        # Another run, which one site leaves.
        run.kill("hub")
        run.change(session=bytes(32), options={**options, "n_init": 40})
        for name in (*run.rows, "server"):
            shutil.rmtree(tmp_path / name / "results")
        run.start_all()
        run.until("site-3", "clustering")
        run.processes["server"].send_signal(signal.SIGSTOP)  # or the run may end while somebody types
        code, said = typed("abort", tmp_path / "site-3")
        assert (code, "in use" in said, "a process takes part" in said) == (2, True, True), said
        run.kill("site-3")
        run.until_said("site-0", '"event": "broke", "party": "site-0", "peer": "site-3"')
        code, said = typed("status", tmp_path / "site-0", ("curl -s", "true"))
        assert (code, "a process runs" in said, "away      site-3" in said) == (0, True, True), said
        code, said = typed("clean", tmp_path / "site-3")
        assert (code, "the run goes on" in said) == (2, True), said
        for name in ("site-0", "site-1", "site-2", "site-4", "server"):
            code, said = typed("go-on", tmp_path / name, ("h1", "site-3"))
            assert (code, "goes on without site-3" in said) == (0, True), said
        run.processes["server"].send_signal(signal.SIGCONT)
        assert set(run.wait("site-0", "site-1", "site-2", "site-4", "server")) == {5}
        code, said = typed("abort", tmp_path / "site-3")
        assert (code, "takes no further part" in said, "deleted" in said) == (0, True, True), said
        assert typed("clean", tmp_path / "site-3") == (0, "nothing is left of a run that is over.\n")


def test_connections_that_break_again_and_again_are_said_once_and_on_the_board(tmp_path, caplog):
    log = Log("a", tmp_path / "a.status")
    with caplog.at_level("WARNING", "secfc.deploy"):
        for peer in ("b", "c", "server"):  # the hub was restarted a few times, and nothing is wrong
            for _ in range(OFTEN - 1):
                log.peer(peer, "broke")
        assert not log.breaks_often
        assert "note" not in log.board.read_text()
        assert "away      server, since 20" in log.board.read_text()
        for _ in range(3):
            log.peer("b", "broke")
    assert caplog.text.count("second process takes part with this site's key") == 1
    assert "second process takes part with this site's key" in log.board.read_text()
