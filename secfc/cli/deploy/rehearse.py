"""`secfc deploy rehearse`: what would happen if each party were away in each phase, on made-up rows, here."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from secfc.cli.deploy.join import start_generator
from secfc.cli.deploy.logs import PHASES
from secfc.cli.deploy.run_file import Built, build_run, spare_sentence
from secfc.cli.errors import RefusedInput, bad_input, cautions_noted
from secfc.cli.options import Whole, argument, command, option
from secfc.deploy.history import BEFORE
from secfc.deploy.keys import draw_identity
from secfc.deploy.runfile import RunFile
from secfc.deploy.session import AgreedWork, client_role, protected_role, server_role
from secfc.errors import PartyId, ProtocolError, TooFewReplies, problem_id
from secfc.roles.description import description_digest
from secfc.roles.exchange import SERVER, Exchange, Role
from secfc.transport.checkpoint import keep_journal
from secfc.transport.journal import Journal
from secfc.transport.simulate import simulate

# What is done to a party when it comes to a phase.
KILLED, AWAY = "killed and started again", "away for good, and the others are told to go on without it"
SAME, WAITS = "the same labels", "all wait"


@dataclass(frozen=True)
class RehearsalOptions:
    """What `secfc deploy rehearse` takes."""

    run: Path = argument("RUN.toml")
    rows: int = option(40, Whole(10, 10_000), help="Made-up rows of each client.")


@command(RehearsalOptions, "rehearse")
def rehearse_run(given: RehearsalOptions) -> None:
    """Try out, in this process and on made-up rows, what becomes of the run of RUN.toml if a party is away.

    All parties run here as their sites would run them, from greetings to labels, sealed and with journals,
    but for the network. Each in turn is killed in each phase and started again, and is away from each phase
    on. No site's file, key or row is read. Lines, hubs, discs and clocks are not tried.

    \b
    Example:
      secfc deploy rehearse run.toml

    Exit codes: 0 whoever was killed and started again changed nothing; 1 somebody did.
    """
    with bad_input(OSError):
        run = RunFile.read(given.run)
    bad = False
    with tempfile.TemporaryDirectory(prefix="secfc-rehearsal-") as folder, cautions_noted():
        stage = Stage.of(run, build_run(run), given.rows, Path(folder))
        for line, fine in rehearsal_lines(stage):
            click.echo(line)
            bad = bad or not fine
    if run.hub.startswith("nvflare://"):
        click.echo(flare_sentence())
    if bad:
        raise click.exceptions.Exit(1)


def flare_sentence() -> str:
    """What a rehearsal says of NVIDIA FLARE."""
    if find_spec("nvflare") is None:
        return (
            "NVIDIA FLARE is not installed here: what it carries was not rehearsed (pip install "
            "'secfc-clustering[nvflare]')."
        )
    return "What NVIDIA FLARE carries was not rehearsed: its POC mode tries its processes (`nvflare poc`)."


@dataclass(frozen=True)
class Stage:
    """A run with made-up rows.  folder: of journals that have begun, which every rehearsal copies."""

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
        private = asked.asked.get("membership") == "private"
        federation = synthetic_rows(asked.public, rows * len(run.clients), 3, ids=private, server_points=0)
        identities = {name: draw_identity() for name in run.parties}
        work = AgreedWork(
            asked.algorithm, asked.public, asked.derived, run.parties,
            {name: one.public for name, one in identities.items()}, run.description,
        )  # fmt: skip
        for name in run.parties:
            Journal.open(folder / "begun" / name, name, description_digest(run.description)).close()
        return cls(asked, work, identities, {p.name: p for p in federation.parties}, folder)

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
    yield f"{spare_sentence(stage.asked)}.", True
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
