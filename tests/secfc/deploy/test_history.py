"""Budgets and rows over runs: charged by journal, once each, and never less than what was said."""

import itertools
import json
import random
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pytest
from click.testing import CliRunner

from secfc.cli.deploy.site import LoadedSite
from secfc.cli.shell.program import main
from secfc.data.party import Party
from secfc.deploy.audit_log import verify_chain
from secfc.deploy.floors import BelowFloor
from secfc.deploy.history import PastRun, SiteHistory, changed_rows, charge_first
from secfc.errors import InputError
from secfc.roles.description import description_digest
from secfc.roles.exchange import Exchange, Inbox
from secfc.transport.checkpoint import keep_journal
from secfc.transport.journal import Journal
from tests.secfc.deploy.sites import HERE, Sites, blobs

NOISE = {"t": 1, "epsilon": 3.0, "radius": 20.0, "max_iter": 1}
FLOORS = "total_epsilon = 7\nlargest_epsilon = 9\nchanged_rows = 10"
ROWS = blobs((40, 15, 15, 15, 15))
PARTY = Party("site-0", ROWS["site-0"])


def journal(number):
    return bytes([number]) * 16


class OneSite:
    """A site, and runs that it takes part in up to where something of its rows is said."""

    def __init__(self, folder, floors=FLOORS, **options):
        self.sites = Sites(folder, ROWS, options={**NOISE, **options}, k=3)
        self.sites.write_site("site-0", named=False, floors=floors)
        self.folder = folder / "site-0"

    def begin(self, session, name, party=PARTY):
        """Say something of these rows, in a run of this session that has this journal."""
        self.sites.change(session=bytes([session]) * 32)
        site = LoadedSite.read(self.folder / "site.toml")
        asked = site.agreed()
        site.charge(asked, party, journal(name))

    @property
    def remembered(self):
        return SiteHistory.load(self.folder / "remembered.json")


def without(count):
    """Its rows without the last few."""
    return Party("site-0", PARTY.points[: len(PARTY.points) - count])


def test_one_run_file_run_twice_is_refused_once_its_journal_is_gone(tmp_path):
    site = OneSite(tmp_path)
    site.begin(1, 1)
    site.begin(1, 1)  # the same command resumes
    assert site.remembered.spent(b"") == 3.0
    with pytest.raises(InputError, match="was used at this site"):
        site.begin(1, 2)
    assert site.remembered.spent(b"") == 3.0


def test_a_session_that_is_used_again_for_less_is_refused(tmp_path):
    site = OneSite(tmp_path)
    site.begin(1, 1)
    site.sites.change(options={**NOISE, "epsilon": 0.1})
    with pytest.raises(InputError, match="Make a run file with a new session"):
        site.begin(1, 2)
    assert site.remembered.spent(b"") == 3.0


def test_an_attempt_that_met_nobody_costs_nothing_and_is_no_run_on_its_rows():
    def role():
        for phase in ("greet", "introduce", "agree"):
            yield Exchange(phase=phase)
        yield Exchange(phase="share")
        yield Exchange(phase="share")

    spent = []
    watched = charge_first(role(), lambda: spent.append(True))
    for before in range(3):
        assert watched.send(None if not before else {}).phase != "share"
        assert not spent
    watched.send({})
    watched.send({})
    assert spent == [True]


def test_rows_are_held_against_those_of_every_run_and_not_of_the_last_alone(tmp_path):
    site = OneSite(tmp_path, "changed_rows = 10")
    site.begin(1, 1)
    site.begin(2, 2, without(20))  # far from the first
    with pytest.raises(BelowFloor, match="1 differ"):
        site.begin(3, 3, without(1))  # far from the second
    with pytest.raises(BelowFloor, match="1 differ"):
        site.begin(3, 3, without(19))
    site.begin(3, 3)
    assert len(site.remembered.rows) == 2  # the same rows are kept once


def test_budgets_add_up_to_the_floor_and_no_further(tmp_path):
    site = OneSite(tmp_path)
    site.begin(1, 1)
    site.begin(2, 2)
    with pytest.raises(BelowFloor, match="after 6 in earlier runs"):
        site.begin(3, 3)
    site.begin(1, 1)
    assert sorted(site.remembered.runs) == [journal(1).hex(), journal(2).hex()]


def test_two_runs_at_once_do_not_both_have_what_one_may_spend(tmp_path):
    site = OneSite(tmp_path, "total_epsilon = 5")
    first, second = [], []
    for session, found in ((1, first), (2, second)):
        site.sites.change(session=bytes([session]) * 32)
        place = LoadedSite.read(site.folder / "site.toml")
        found += [place, place.agreed()]  # both are agreed to
    first[0].charge(first[1], PARTY, journal(1))
    with pytest.raises(BelowFloor, match="after 3 in earlier runs"):
        second[0].charge(second[1], PARTY, journal(2))


@pytest.mark.parametrize("seed", range(5))
def test_random_histories_spend_no_more_than_floors_say(tmp_path, seed):
    rng = random.Random(seed)
    site = OneSite(tmp_path)
    said, sets = {}, []  # epsilon by journal, and rows, of all that was really said
    journals, numbers = {}, itertools.count()
    for _ in range(12):
        session, party = rng.randrange(4), without(rng.choice((0, 1, 15, 16, 30)))
        if rng.random() < 0.4:
            journals.pop(session, None)  # it ended, or its journal is lost
        name = journals.setdefault(session, next(numbers))
        try:
            site.begin(session, name, party)
        except InputError:
            continue
        if name not in said:  # which repeats itself, so that its journal would not have other rows
            said[name] = 3.0
            sets.append(party.points)
    assert sum(said.values()) <= 7
    sizes = [len(rows) for rows in sets]
    assert all(a == b or abs(a - b) >= 10 for a in sizes for b in sizes)
    assert said


def test_changed_rows_are_counted_with_their_times():
    def rows(*numbers):
        return np.array([bytes([n]) * 12 for n in numbers])

    assert changed_rows(rows(1, 1, 2), rows(1, 1, 2)) == 0
    assert changed_rows(rows(1, 1, 2), rows(1, 2)) == 1
    assert changed_rows(rows(1, 2), rows(1, 1, 2)) == 1
    assert changed_rows(rows(1, 2, 3), rows(3, 4, 5)) == 2
    assert changed_rows(rows(), rows(3, 4)) == 2


def test_the_file_reads_back_and_holds_no_rows(tmp_path):
    path = tmp_path / "remembered.json"
    memory = SiteHistory.load(path).with_run(journal(1), PastRun("11" * 32, 2.0, 300), PARTY)
    memory.write()
    back = SiteHistory.load(path)
    assert back.runs == memory.runs
    assert (back.spent(b""), back.granted(b"")) == (2.0, 300)
    assert back.granted(bytes([0x11]) * 32) == 0
    back.check_rows(PARTY, 10)
    assert path.stat().st_mode & 0o777 == 0o600


DAMAGE = {
    "a digit": lambda said: said["runs"][journal(1).hex()].update(epsilon=1.0),
    "another version": lambda said: said.update(version=3),
    "no checksum": lambda said: said.pop("checksum"),
    "a run less": lambda said: said["runs"].clear(),
    "rows less": lambda said: said["rows"].clear(),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_file_that_is_not_as_it_was_written_is_refused(tmp_path, name):
    path = tmp_path / "remembered.json"
    SiteHistory.load(path).with_run(journal(1), PastRun("11" * 32, 2.0, 300), PARTY).write()
    said = json.loads(path.read_text())
    DAMAGE[name](said)
    path.write_text(json.dumps(said))
    with pytest.raises(InputError, match="restore it"):
        SiteHistory.load(path)


def test_a_run_was_charged_at_a_time():
    assert PastRun("ab", time="2026-11-28T10:00:00+00:00").time
    with pytest.raises(ValueError, match="isoformat"):
        PastRun("ab", time="last month")


@pytest.mark.parametrize("change", [
    {"epsilon": -1.0}, {"epsilon": float("nan")}, {"epsilon": float("inf")}, {"guesses": -1},
    {"guesses": 1.5}, {"session": 3},
])  # fmt: skip
def test_what_is_no_budget_is_refused(change):
    with pytest.raises(ValueError, match=r"no budget|no quota|are names"):
        replace(PastRun("11" * 32, 2.0, 300), **change)


def test_sessions_of_version_1_count_as_ended(tmp_path):
    path, session = tmp_path / "remembered.json", bytes([0x11]) * 32
    rows = [(bytes([i]) * 12).hex() for i in range(20)]
    old = {"version": 1, "key": "22" * 32, "epsilon": {session.hex(): 2.0}, "rows": rows}
    path.write_text(json.dumps({**old, "guesses": {session.hex(): 5, "33" * 32: 6}}))
    memory = SiteHistory.load(path)
    assert (memory.spent(b""), memory.granted(b"")) == (2.0, 11)
    assert [len(own) for own in memory.rows.values()] == [20]
    with pytest.raises(InputError, match="was used at this site"):
        memory.check_session(session, journal(1))
    memory.write()
    assert SiteHistory.load(path).runs == memory.runs
    path.write_text(json.dumps({**old, "epsilon": {session.hex(): float("nan")}}))
    with pytest.raises(InputError, match="no budget"):
        SiteHistory.load(path)


def test_runs_are_counted_over_30_days_and_a_run_that_goes_on_is_none(tmp_path):
    site = OneSite(tmp_path, "runs_per_month = 2")
    site.begin(1, 1)
    site.begin(2, 2)
    site.begin(2, 2)  # the same command goes on
    with pytest.raises(BelowFloor, match=r"`runs_per_month`|after 2 in the last 30 days"):
        site.begin(3, 3)
    remembered = site.remembered
    now = max(datetime.fromisoformat(run.time) for run in remembered.runs.values())
    assert remembered.recent(b"", now + timedelta(days=29)) == 2
    assert remembered.recent(b"", now + timedelta(days=31)) == 0
    old = {name: replace(run, time=None) for name, run in remembered.runs.items()}
    replace(remembered, runs=old).write()  # of before runs had a time
    site.begin(3, 3)


# --- what an older copy, a clock or another name would give back -------------------------------------------


def test_an_older_copy_of_what_is_remembered_gives_no_budget_back(tmp_path):
    site = OneSite(tmp_path)
    path = site.folder / "remembered.json"
    site.begin(1, 1)
    older = path.read_bytes()
    site.begin(2, 2)
    for copy in (older, None):  # put back, or lost
        path.write_bytes(copy) if copy is not None else path.unlink()
        with pytest.raises(BelowFloor, match="after 6 in earlier runs"):
            site.begin(3, 3)
        with pytest.raises(InputError, match="was used at this site"):
            site.begin(2, 9)
    # The control: without the record the file alone is believed.
    (site.folder / "audit.jsonl").unlink()
    site.begin(3, 3)


def test_rows_that_are_not_remembered_any_more_are_no_reason_to_let_others_pass(tmp_path):
    site = OneSite(tmp_path, "changed_rows = 10")
    site.begin(1, 1)
    older = (site.folder / "remembered.json").read_bytes()
    site.begin(2, 2, without(20))
    newer = (site.folder / "remembered.json").read_bytes()
    (site.folder / "remembered.json").write_bytes(older)
    with pytest.raises(BelowFloor, match="put its latest copy back"):
        site.begin(3, 3, without(19))
    site.begin(2, 2, without(20))  # the run itself goes on, with its rows at hand
    assert len(SiteHistory.load(site.folder / "remembered.json").rows) == 2
    (site.folder / "remembered.json").write_bytes(newer)
    with pytest.raises(BelowFloor, match="1 differ"):
        site.begin(3, 3, without(19))


def test_a_crash_between_the_record_and_the_file_charges_once(tmp_path, monkeypatch):
    site = OneSite(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(SiteHistory, "write", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            site.begin(1, 1)
    site.begin(1, 1)
    site.begin(2, 2)
    assert site.remembered.spent(b"") == 6.0
    record = (site.folder / "audit.jsonl").read_text().splitlines()
    assert [json.loads(line)["what"] for line in record] == ["charge", "charge"]
    assert not list(verify_chain((site.folder / "audit.jsonl").read_bytes()))


def test_a_clock_that_is_set_back_gives_no_run_back(tmp_path, monkeypatch):
    site = OneSite(tmp_path, "runs_per_month = 2")
    site.begin(1, 1)
    site.begin(2, 2)
    remembered = site.remembered
    now = max(datetime.fromisoformat(run.time) for run in remembered.runs.values())
    for days in (-1, -31, -20_000):
        assert remembered.recent(b"", now + timedelta(days=days)) == 2


def ends():
    yield Exchange(phase="greet")


def test_a_journal_that_is_put_back_after_the_end_of_its_run_is_refused(tmp_path):
    site = OneSite(tmp_path)
    site.begin(1, 1)
    place = LoadedSite.read(site.folder / "site.toml")
    Journal.open(place.journal, "site-0", description_digest(place.run.description)).close()
    place.check_session()
    place.audit.append("join", "finished", session=place.run.session.hex())
    with pytest.raises(InputError, match="it was put back"):
        place.check_session()
    with Journal.open(place.journal, "site-0", description_digest(place.run.description)) as kept:
        role = keep_journal(ends(), kept)
        next(role)
        with pytest.raises(StopIteration):
            role.send(Inbox({}, {}))
    place.check_session()  # it died while it left


def test_a_changed_run_file_is_named_and_its_journal_goes_only_where_nothing_of_rows_was_said(tmp_path):
    site, path = OneSite(tmp_path), tmp_path / "site-0" / "site.toml"
    clean = ["deploy", "clean", str(path)]

    def begun_and_changed(k):
        place = LoadedSite.read(path)
        place.open_journal().close()
        site.sites.change(k=k)
        return place.journal

    begun = begun_and_changed(4)
    with pytest.raises(
        InputError, match=r"run\.toml was changed since .* nothing of its rows was said.* clean"
    ):
        LoadedSite.read(path).check_session()
    assert begun.exists()
    assert CliRunner().invoke(main, clean).exit_code == 0
    assert not begun.exists()
    LoadedSite.read(path).check_session()

    site.begin(1, 1)
    begun = begun_and_changed(5)
    with pytest.raises(InputError, match=r"run\.toml was changed since .* its rows were spoken of"):
        LoadedSite.read(path).check_session()
    done = CliRunner().invoke(main, clean)
    assert (done.exit_code, "put that back" in done.output, begun.exists()) == (2, True, True)


@pytest.mark.nightly
def test_processes_at_once_spend_no_more_than_one_after_the_other(tmp_path):
    site = OneSite(tmp_path, "total_epsilon = 7")
    script = (
        "import sys; from pathlib import Path; from secfc.cli.deploy.site import LoadedSite\n"
        "place = LoadedSite.read(Path(sys.argv[1])); asked = place.agreed()\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "place.charge(asked, None, bytes([int(sys.argv[2])]) * 16)"
    )
    begun = []
    for number in range(4):
        folder = tmp_path / f"run-{number}.toml"
        folder.write_text(replace(site.sites.run, session=bytes([number]) * 32).toml())
        own = site.folder / f"site-{number}.toml"
        own.write_text((site.folder / "site.toml").read_text().replace("run.toml", folder.name))
        words = [sys.executable, "-c", script, str(own), str(number)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        begun.append(subprocess.Popen(words, env=HERE, text=True, **pipes))
    for process in begun:
        assert process.stdout.readline() == "ready\n"
    for process in begun:
        process.stdin.write("\n")
        process.stdin.flush()
    codes = []
    for process in begun:
        process.communicate(timeout=60)
        codes.append(process.returncode)
    assert (codes.count(0), site.remembered.spent(b"")) == (2, 6.0)
