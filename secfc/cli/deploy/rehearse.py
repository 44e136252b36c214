"""`secfc deploy rehearse`: what would happen if each party were away in each phase, on made-up rows, here."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from field.ring.errors import install_command
from secfc.cli.deploy.join import start_generator
from secfc.cli.deploy.logs import PHASES
from secfc.cli.deploy.run_file import Built, build_run, spare_sentence
from secfc.cli.shell.errors import Failed, RefusedInput, bad_input, cautions_noted
from secfc.cli.shell.help_lines import echo_folded
from secfc.cli.shell.options import Whole, argument, command, option
from secfc.deploy.history import BEFORE
from secfc.deploy.keys import create_key_file, draw_identity
from secfc.deploy.runfile import RunFile, new_session
from secfc.deploy.session import AgreedWork, client_role, protected_role, server_role
from secfc.errors import PartyId, ProtocolError, TooFewReplies, problem_id
from secfc.roles.description import description_digest
from secfc.roles.exchange import SERVER, Exchange, Role
from secfc.transport.checkpoint import keep_journal
from secfc.transport.journal import Journal
from secfc.transport.simulate import simulate

# What is done to a party when it comes to a phase.
KILLED, AWAY = "killed and started again", "away for good, and the others are told to go on without it"
SAME, WAITS = "same labels", "all wait"


@dataclass(frozen=True)
class RehearsalOptions:
    """What `secfc deploy rehearse` takes."""

    # fmt: off
    run: Path = argument("RUN.toml")
    rows: int = option(40, Whole(10, 10_000), help="Made-up rows of each client.")
    flare: bool = option(False, help=
        "Run it over NVIDIA FLARE instead: its server and sites are started here, by its POC mode.")
    # fmt: on


@command(RehearsalOptions, "rehearse")
def rehearse_run(given: RehearsalOptions) -> None:
    """Try out, in this process and on made-up rows, what becomes of the run of RUN.toml if a party is away.

    All parties run here as their sites would run them, from greetings to labels, sealed and with journals,
    but for the network. Each in turn is killed in each phase and started again, and is away from each phase
    on. No site's file, key or row is read. Lines, hubs, discs and clocks are not tried.

    With --flare NVIDIA FLARE's processes, kits and scheduler are tried, on this machine: a whole run, and the
    same job again, which has nothing to do any more.

    \b
    Examples:
      secfc deploy rehearse run.toml
      secfc deploy rehearse run.toml --flare

    Exit codes: 0 all labels were the same; 1 they were not.
    """
    with bad_input(OSError):
        run = RunFile.read(given.run)
    bad = False
    with tempfile.TemporaryDirectory(prefix="secfc-rehearsal-") as folder, cautions_noted():
        if given.flare and find_spec("nvflare") is None:
            raise RefusedInput(f"--flare: {flare_sentence()}")
        if given.flare:
            run = replace(run, session=new_session(), seed=run.seed or 0)
        stage = Stage.of(run, build_run(run), given.rows, Path(folder))
        for line, fine in poc_lines(stage, run) if given.flare else rehearsal_lines(stage):
            echo_folded(line, 30 if "  " in line else 0)
            bad = bad or not fine
    if run.hub.startswith("nvflare://") and not given.flare:
        click.echo(flare_sentence())
    if bad:
        raise click.exceptions.Exit(1)


def flare_sentence() -> str:
    """What a rehearsal says of NVIDIA FLARE."""
    if find_spec("nvflare") is None:
        return (
            "NVIDIA FLARE is not installed here: what it carries was not rehearsed "
            f"({install_command('[nvflare]')})."
        )
    return "What NVIDIA FLARE carries was not rehearsed: --flare tries its processes, here, by its POC mode."


@dataclass(frozen=True)
class Stage:
    """A run with made-up rows.  folder: of journals that have begun, which every rehearsal copies."""

    run: RunFile
    asked: Built
    work: AgreedWork
    identities: dict[PartyId, Any]
    rows: dict[PartyId, Any]
    folder: Path

    @classmethod
    def of(cls, run: RunFile, asked: Built, rows: int, folder: Path) -> Stage:
        """Raises RefusedInput for a run whose rows cannot be made up."""
        from secfc.planning.dry_run import synthetic_rows

        if run.schema is not None or run.preparing:
            raise RefusedInput(
                "rows for a linkage schema or [preparing] cannot be made up: rehearse a copy of the run file "
                "without them."
            )
        inner: Any = asked.algorithm.capabilities.inner or asked.algorithm
        membership = inner.capabilities.membership
        federation = synthetic_rows(asked.public, rows * len(run.clients), 3, membership=membership)
        identities = {name: draw_identity() for name in run.parties}
        work = AgreedWork(
            asked.algorithm, asked.public, asked.derived, run.parties,
            {name: one.public for name, one in identities.items()}, run.description,
        )  # fmt: skip
        for name in run.parties:
            Journal.open(folder / "begun" / name, name, description_digest(run.description)).close()
        return cls(run, asked, work, identities, {p.name: p for p in federation.parties}, folder)

    def part(self, name: PartyId, journal: Journal) -> Role[Any]:
        """A party's role from its journal, as its site runs it."""
        coins = journal.coins()
        role = (
            server_role(self.work, coins, start_generator(self.asked, coins))
            if name == SERVER
            else client_role(self.work, self.rows[name], coins)
        )
        role = protected_role(self.work, name, role, self.identities[name], coins)
        return keep_journal(role, journal, harmless=BEFORE)

    def perform(self, disturbed: Disturbance | None = None, seen: Callable[..., None] | None = None) -> Any:
        """Results of all parties.  seen: told each exchange of each.  Raises what their roles raise."""
        folder = self.folder / "now"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder / "begun", folder)
        run = description_digest(self.work.description)
        opened: list[Journal] = []

        def begin(name: PartyId) -> Role[Any]:
            opened.append(Journal.open(folder / name, name, run))
            return self.part(name, opened[-1])

        roles = {
            name: disturb_role(disturbed, lambda name=name: begin(name), opened)  # type: ignore[misc]
            if disturbed is not None and disturbed.party == name
            else begin(name)
            for name in self.work.parties
        }
        try:
            return simulate(roles, watch=seen).results
        finally:
            for journal in opened:
                journal.close()


@dataclass(frozen=True)
class Disturbance:
    """party: whom something happens to.  phase: when it first comes to this, in words.  what: of the two."""

    party: PartyId
    phase: str
    what: str


def phase_words(exchange: Exchange) -> str:
    """The phase of an exchange, as sites say it."""
    return PHASES.get(exchange.phase, exchange.phase)


def disturb_role(disturbed: Disturbance, begin: Callable[[], Role[Any]], opened: list[Journal]) -> Role[Any]:
    """A party's role, to which that happens once.  begin: its role from its journal; opened: that, last."""
    role = begin()
    own, done, inbox = opened[-1], False, None
    try:
        while True:
            try:
                exchange = role.send(inbox)  # type: ignore[arg-type]
            except StopIteration as end:
                return end.value
            if not done and phase_words(exchange) == disturbed.phase:
                done = True
                role.close()
                own.close()
                if disturbed.what == AWAY:
                    raise TooFewReplies(1, ())
                role, inbox = begin(), None
                continue
            inbox = yield exchange
    finally:
        role.close()


def rehearsal_lines(stage: Stage) -> Iterator[tuple[str, bool]]:
    """Two tables, a line a phase and a column a party, and whether each line is as it should be."""
    phases: dict[str, list[PartyId]] = {}

    def note(name: PartyId, exchange: Exchange) -> None:
        parties = phases.setdefault(phase_words(exchange), [])
        if name not in parties:
            parties.append(name)

    wanted = stage.perform(seen=note)
    parties = stage.work.parties
    yield f"{spare_sentence(stage.run, stage.asked)}.", True
    for what in (KILLED, AWAY):
        widths = [max(len(name), len(SAME), len(WAITS)) for name in parties]
        yield f"\nIf a party is {what}:", True
        names = "  ".join(f"{name:{width}}" for name, width in zip(parties, widths, strict=True))
        yield f"{'phase':28}  {names}", True
        for phase, there in phases.items():
            cells = [
                outcome_words(stage, Disturbance(name, phase, what), wanted) if name in there else "-"
                for name in parties
            ]
            shown = "  ".join(f"{cell:{width}}" for cell, width in zip(cells, widths, strict=True))
            yield f"{phase:28}  {shown}".rstrip(), what == AWAY or set(cells) <= {SAME, "-"}


def outcome_words(stage: Stage, disturbed: Disturbance, wanted: Any) -> str:
    """What becomes of the run."""
    try:
        found = stage.perform(disturbed)
    except TooFewReplies:
        return WAITS
    except ProtocolError as error:
        return problem_id(error) or type(error).__name__
    clients = [name for name in stage.rows if name in found]
    same = all((found[name].labels == wanted[name].labels).all() for name in clients)
    if disturbed.what == AWAY:
        return "can do without" if disturbed.party not in found else "nothing"
    return SAME if same and len(clients) == len(stage.rows) else "other labels"


# --------------------------------------------------------------------------------------------------
# The same run over NVIDIA FLARE, all of whose processes are here.

LEAD = "lead@secfc.invalid"
# Seconds in which a job must have ended, and those of FLARE that are shown where it has not.
ENOUGH, LAST_LINES = 600, 5


@dataclass(frozen=True)
class Proof:
    """FLARE's proof of concept: its server, a site for each client, and a folder of each party.

    folder: of all of it.  run: whose hub is FLARE's server here, with keys of its own.
    """

    folder: Path
    run: RunFile

    @classmethod
    def prepare(cls, stage: Stage, run: RunFile) -> Proof:
        """Keys, site files, made-up rows and kits of all parties.  Raises Failed where FLARE refuses."""
        from secfc.deploy.flare.cards import Kit
        from secfc.deploy.flare.policy import write_site_rules
        from secfc.deploy.flare.project import write_project

        folder = stage.folder / "flare"
        for name in run.parties:
            (folder / name).mkdir(parents=True)
        keys = {name: create_key_file(folder / name / "site.key").public for name in run.parties}
        here = replace(run, hub=f"nvflare://localhost:{free_ports()}", identities=keys)
        (folder / "run.toml").write_text(here.toml(), encoding="utf-8")
        made = cls(folder, here)
        project, _ = write_project(here, folder / "project", LEAD)
        # POC mode knows no other administrator.
        project.write_text(
            project.read_text(encoding="utf-8").replace('"role": "lead"', '"role": "project_admin"'),
            encoding="utf-8",
        )
        made.ask("poc", "prepare", "-i", str(project))
        for name in run.parties:
            columns = run.columns.get(name, run.features)
            site = write_made_up(folder / name, name, columns, stage.rows.get(name))
            kit = Kit(made.kits / ("localhost" if name == SERVER else name))
            write_site_rules(kit, here.session, site, (sys.executable, "-m", "secfc.cli"))
        return made

    @property
    def kits(self) -> Path:
        """Directory of the startup kits of POC mode."""
        return self.folder / "poc/secfc/prod_00"

    def ask(self, *words: str, seconds: float = ENOUGH, fails: bool = False) -> str:
        """What a command of FLARE's prints.  fails: whether it may.  Raises Failed, with its last lines."""
        own = {"HOME": str(self.folder), "NVFLARE_POC_WORKSPACE": str(self.folder / "poc")}
        command = [str(Path(sys.executable).parent / "nvflare"), *words]
        with suppress(subprocess.TimeoutExpired):
            done = subprocess.run(
                command, env={**os.environ, **own}, cwd=self.folder, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", timeout=seconds,
                check=False,
            )  # fmt: skip
            if done.returncode == 0 or fails:
                return done.stdout
            said = "\n".join(done.stdout.strip().splitlines()[-LAST_LINES:])
            raise Failed(f"`nvflare {' '.join(words[:2])}` ended with {done.returncode}:\n{said}")
        raise Failed(f"`nvflare {' '.join(words[:2])}` took more than {seconds:g} s.")

    def job(self) -> tuple[str, str]:
        """How the job of this run ends if it is submitted, in FLARE's word, and what its server has on file.

        Raises Failed.
        """
        kit = ("--startup-kit", str(self.kits / LEAD))
        said = self.ask("job", "submit", "-j", str(self.folder / "project/job"), *kit)
        number = next(line.split()[-1] for line in said.splitlines() if line.startswith("job_id:"))
        ended = self.ask("job", "wait", number, "--interval", "1", *kit, fails=True)
        found = re.search(r"\((\w+:\w+)\)", ended)
        if found is None:
            raise Failed(f"job {number}: {ended.strip()}")
        log = self.kits / "localhost/poc_console.log"
        return found[1], log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""

    def labels(self, name: PartyId) -> list[int]:
        """A client's, in the order of its rows, -1 where it has none; none without results."""
        results = self.folder / name / "results"
        try:
            if not (results / "labels.csv").exists():  # of a run that gives nobody labels
                return [-1] * json.loads((results / "report.json").read_text(encoding="utf-8"))["rows"]
            with (results / "labels.csv").open(encoding="utf-8") as file:
                return [int(line["label"]) for line in csv.DictReader(file)]
        except OSError:
            return []

    def end(self) -> None:
        """End all its processes."""
        with suppress(Failed):
            self.ask("poc", "stop", seconds=120)
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if str(self.folder).encode() in (entry / "cmdline").read_bytes():
                    os.kill(int(entry.name), signal.SIGKILL)


def free_ports() -> int:
    """A port of this machine that is free, as is the next one."""
    while True:
        with socket.socket() as one, socket.socket() as two, suppress(OSError):
            one.bind(("127.0.0.1", 0))
            port: int = one.getsockname()[1]
            two.bind(("127.0.0.1", port + 1))
            return port


def write_made_up(folder: Path, name: PartyId, columns: tuple[str, ...], rows: Any) -> Path:
    """A party's site file, and its rows, None for the server: the file's path."""
    text = (
        f'[site]\nparty = {json.dumps(name)}\nrun = "../run.toml"\nkey = "site.key"\nderived_bound = true\n'
    )
    if rows is not None and columns:
        with (folder / "rows.csv").open("w", newline="", encoding="utf-8") as file:
            out = csv.writer(file)
            named = rows.named
            out.writerow([*(["id"] if named is not None else []), *columns])
            for i, row in enumerate(rows.read().tolist()):
                out.writerow([*([named[i]] if named is not None else []), *map(repr, row)])
        text += '[data]\npath = "rows.csv"\n' + ('id_column = "id"\n' if rows.named is not None else "")
    if rows is not None:
        text += "[floors]\nsmallest_t = 0\nsmallest_center = 1\n"
    (folder / "site.toml").write_text(text, encoding="utf-8")
    return folder / "site.toml"


def poc_lines(stage: Stage, run: RunFile) -> Iterator[tuple[str, bool]]:
    """What becomes of the run over FLARE, and of its job once it has ended; whether it is as it should be."""
    from secfc.deploy.flare.child import DONE_BEFORE, explain_exit_code

    wanted = stage.perform()
    proof = Proof.prepare(stage, run)
    try:
        proof.ask("poc", "start", "--timeout", "180")
        yield f"NVIDIA FLARE's server and {len(run.clients)} sites are up, each its own process.", True
        how, log = proof.job()
        same = all(proof.labels(name) == wanted[name].labels.tolist() for name in run.clients)
        yield f"The run's job: {how}, {SAME if same else 'other labels'} at every site.", same
        if not same:
            lines = log.strip().splitlines()
            yield "\n".join([line for line in lines if "Unfit" in line] or lines[-LAST_LINES:]), False
        how, log = proof.job()
        why = explain_exit_code(DONE_BEFORE)
        yield (
            f"The same job again: {how}. Its error {'says' if why in log else 'does not say'}: {why}.",
            why in log,
        )
    finally:
        proof.end()
