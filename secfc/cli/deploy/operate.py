"""`secfc deploy status`, `go-on`, `abort` and `clean`: what operators ask and decide of a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from secfc.cli.deploy.keys import make_private
from secfc.cli.deploy.record import decided_without, kept_decisions, sign_decision
from secfc.cli.deploy.run_file import build_run, spare_sentence, spared_clients
from secfc.cli.deploy.site import LoadedSite
from secfc.cli.shell.errors import RefusedInput, bad_input
from secfc.cli.shell.options import argument, command, option, parse_names
from secfc.data.inputs import write_private
from secfc.deploy.floors import BelowFloor
from secfc.errors import InputError, JournalError
from secfc.roles.exchange import SERVER
from secfc.transport.journal import OTHER_TERMS


@dataclass(frozen=True)
class SiteArgument:
    """What `secfc deploy status` and `abort` take."""

    site: Path = argument("SITE.toml")


@dataclass(frozen=True)
class GoOnOptions(SiteArgument):
    """What `secfc deploy go-on` takes."""

    # fmt: off
    without: tuple[str, ...] | None = option(metavar="A,B,...", parse=parse_names, help=
        "Clients that are away, and without which this site goes on.")
    # fmt: on


@command(GoOnOptions)
def go_on(given: GoOnOptions) -> None:
    """Go on without clients that are away, for good, and with their rows where these are shared.

    Each site decides for itself, and the run goes on once all that are left, the server too, have decided so;
    until then they wait. A party that runs hears of it within a second, one that does not when it is started
    again. The decision is signed, told to all that go on, and on record with theirs. What a client has shared
    cannot be called back.

    \b
    Example:
      secfc deploy go-on site.toml --without h1
    """
    make_private()
    site = LoadedSite.read(given.site)
    names, me = tuple(dict.fromkeys(given.without or ())), site.file.party
    if not names:
        raise click.UsageError("--without is needed: the clients that are away, as --without h1.")
    others = [client for client in site.run.clients if client != me]
    if SERVER in names:
        raise RefusedInput("nobody can take the server's place: start it again, or abort the run here.")
    for name in names:
        if name not in others:
            raise RefusedInput(f"{name!r} is no other client of this run: those are {', '.join(others)}.")
    if not site.journal.exists():
        raise RefusedInput(
            "no run is under way here: before it begins, a run file without the client is needed."
        )
    asked, least = build_run(site.run), site.file.floors.fewest_clients
    left = tuple(dict.fromkeys((*site.without(), *names)))
    if len(left) > spared_clients(asked):
        raise RefusedInput(f"without {', '.join(left)} too few are left: {spare_sentence(site.run, asked)}.")
    if len(site.run.clients) - len(left) < least:
        asked_for = f"{len(site.run.clients) - len(left)} clients, without {', '.join(left)}"
        raise BelowFloor("fewest_clients", asked_for, f"at least {least}")
    with bad_input(OSError):
        # The line is this site's signature under the decision, so it comes first.
        sign_decision(site, left)
        write_private(site.decided, "".join(f"{name}\n" for name in left).encode())
    rest = ", ".join(p for p in site.run.parties if p != me and p not in left)
    click.echo(f"{me} goes on without {', '.join(left)}. So must {rest}: the same command there.")


@command(SiteArgument)
def show_status(given: SiteArgument) -> None:
    """Show what this site's run is doing, since when, and what was decided.

    \b
    Example:
      secfc deploy status site.toml
    """
    for line in status_lines(LoadedSite.read(given.site)):
        click.echo(line)


def status_lines(site: LoadedSite) -> Iterator[str]:
    """What is on file of this site's run."""
    yield f"run       {site.run.name!r}, session {site.run.session.hex()[:16]}, party {site.file.party}"
    if site.journal.exists():
        yield f"journal   {site.journal}, {site.journal.stat().st_size:,} bytes: {journal_state(site)}"
    else:
        yield f"journal   none: {missing_state(site)}"
    if site.board.exists():
        yield from site.board.read_text(encoding="utf-8").splitlines()
    left, heard = site.without(), kept_decisions(site)
    for party, record in heard.items():
        yield f"decided   {party}: to go on without {', '.join(decided_without(record))}"
    if rest := [party for party in site.run.parties if left and party not in (*left, *heard)]:
        yield f"decided   not yet heard of: {', '.join(rest)}"


def missing_state(site: LoadedSite) -> str:
    """Why there is no journal."""
    if not site.has_spent:
        return "nothing of the run was said here"
    ended = ("finished", "amended", "failed", "decided")
    session = site.run.session.hex()
    if any(said.get("session") == session and said["outcome"] in ended for said in site.audit.entries()):
        return "this site's part in it is over"
    return (
        "it was deleted or moved, as no end is on record. A process that runs can still finish; none can go "
        f"on without it. Put {site.journal} back; or abort at all sites, and take a new session (init)"
    )


def journal_state(site: LoadedSite) -> str:
    """Whether a process has the journal, or what would become of one that takes it."""
    try:
        site.open_journal().close()
    except JournalError as error:
        return "a process runs" if "is in use" in str(error) else str(error)
    return "no process runs; the same command goes on"


@command(SiteArgument)
def abort_run(given: SiteArgument) -> None:
    """End this site's part in a run for good: its keys are forgotten, and its journal refuses to go on.

    Stop the party first. The others are not told: they wait for this site, until their operators go on
    without it or abort as well. What was shared cannot be called back, and what was spent stays spent.

    \b
    Example:
      secfc deploy abort site.toml
    """
    make_private()
    site = LoadedSite.read(given.site)
    if not site.journal.exists():
        raise RefusedInput("no run is under way here: there is nothing to abort.")
    try:
        with site.open_journal() as journal:
            journal.end("AbortedByOperator")
    except JournalError as error:
        raise InputError(f"{error}") from error
    with bad_input(OSError):
        site.audit.append("abort", "decided", session=site.run.session.hex())
    for path in (site.decided, site.board):
        path.unlink(missing_ok=True)
    click.echo(f"{site.file.party} takes no further part in {site.run.name!r}. Tell the other sites.")


@command(SiteArgument)
def clean_site(given: SiteArgument) -> None:
    """Delete what runs that are over left at this site: a journal that refuses to go on, boards, decisions.

    A run that goes on is left alone: end it first, by `secfc deploy abort`. Results, keys and what this site
    remembers of its budgets are never touched.

    \b
    Example:
      secfc deploy clean site.toml
    """
    site = LoadedSite.read(given.site)
    with bad_input(OSError):
        gone = list(leftover_files(site))
        for path in gone:
            path.unlink(missing_ok=True)
            click.echo(f"deleted {path}")
    if not gone:
        click.echo("nothing is left of a run that is over.")


def leftover_files(site: LoadedSite) -> Iterator[Path]:
    """Files of this run, if it is over here, and those beside journals that are gone.

    Raises Refused for a run that goes on.
    """
    if site.journal.exists():
        try:
            site.open_journal().close()
        except JournalError as error:
            if "is in use" in str(error):
                raise RefusedInput(
                    "a process takes part in the run: let it end, or stop it and abort the run here."
                ) from error
            if OTHER_TERMS in str(error) and site.has_spent:
                raise RefusedInput(
                    f"{site.journal} is of a run that goes on, under another run file: put that back."
                ) from error
            yield from (path for path in site.left_files if path.exists())
        else:
            raise RefusedInput(
                "the run goes on: start it again, or end it here by `secfc deploy abort`, and then clean. "
                f"Without {site.journal} it could not go on, and what it spent stays spent."
            )
    for suffix in (".without", ".status"):
        for path in sorted(site.file.journal.glob(f"*{suffix}")):
            if path not in (site.decided, site.board) and not path.with_suffix(".journal").exists():
                yield path
