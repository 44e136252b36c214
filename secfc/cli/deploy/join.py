"""`secfc deploy join` and `serve`: one party of a run, from its site file to its results."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from secfc.cli.deploy.keys import make_private
from secfc.cli.deploy.logs import Log, Page, with_metrics_page
from secfc.cli.deploy.readiness import check_bound, check_resources, prepare_kernels
from secfc.cli.deploy.record import decision_exchange, failures_recorded, keep_consents, sign_terms
from secfc.cli.deploy.results import REPORT, Results, failure_digest, file_digest, software_versions
from secfc.cli.deploy.run_file import Built
from secfc.cli.deploy.site import LoadedSite
from secfc.cli.shell.errors import (
    Failed,
    FewerSites,
    RefusedInput,
    Suspended,
    bad_input,
    cautions_noted,
    full_disc_told,
)
from secfc.cli.shell.options import argument, command, option
from secfc.cli.shell.settings import Overwriting, Publishing
from secfc.deploy.consent import KEY, DecisionExchange, consent_first
from secfc.deploy.floors import write_disputed
from secfc.deploy.history import charge_first
from secfc.deploy.session import Carrier, client_role, run_from_journal, server_role
from secfc.errors import DisputedRows, JournalError, ProtocolError, TooFewReplies, problem_id
from secfc.roles.exchange import SERVER
from secfc.transport.journal import OTHER_PARTY

if TYPE_CHECKING:
    from secfc.algorithm import PublicFacts
    from secfc.data.party import Party


@dataclass(frozen=True)
class PartyOptions(Page, Overwriting):
    """What `secfc deploy join` and `serve` take."""

    # fmt: off
    site: Path = argument("SITE.toml")
    over: Path | None = option(metavar="SOCKET", help=
        "Let the process at this local socket carry the messages: what a job of NVIDIA FLARE starts.")
    # fmt: on
    HELP: ClassVar = {"force": "Overwrite the results of an earlier run."}


@command(PartyOptions)
def join(given: PartyOptions) -> None:
    """Take part in a run as a data owner, as SITE.toml says; the labels of its rows end up in its results.

    The same command again, after a crash or an interruption, goes on where the run was.

    \b
    Example:
      secfc deploy join site.toml
    """
    take_part_as(given, "join")


@dataclass(frozen=True)
class ServerOptions(Publishing, PartyOptions):
    """What `secfc deploy serve` takes."""

    HELP: ClassVar = {
        **PartyOptions.HELP,
        "publish": "Of a run with a budget: a second file, .json or .html, of what may be published, which "
        "results have as publishable.json; released labels go to OUT-labels.csv.",
    }


@command(ServerOptions)
def serve(given: ServerOptions) -> None:
    """Take part in a run as the server, as SITE.toml says; what it learns ends up in its results.

    Of a run with a budget of differential privacy these hold what may be published, too.

    \b
    Examples:
      secfc deploy serve server.toml
      secfc deploy serve server.toml --publish statement.html
    """
    take_part_as(given, "serve")


@dataclass(frozen=True)
class CarrierOptions:
    """over: a local socket that carries messages, None for the hub.  page: the port for its operator."""

    over: Path | None = None
    page: int | None = None

    def carrier(self, site: LoadedSite, log: Log, decisions: DecisionExchange | None = None) -> Carrier:
        """Who takes this site's messages, and what it decides, to the others."""
        meter = None
        if self.page is not None:
            from secfc.deploy.metrics import SiteMetrics as Meter

            meter = Meter()
        waiting = waiting_of(site, log) | {"meter": meter}
        if decisions is not None:
            waiting |= {"note": decisions.note, "told": decisions.hear}
        return with_metrics_page(carrying(site, self.over, waiting), meter, self.page)


def take_part_as(given: PartyOptions, name: str) -> None:
    """Everything that a site does in a run.

    Raises Refused, InputError, ProtocolError, Failed.
    """
    site, way = LoadedSite.read(given.site), CarrierOptions(given.over, given.page)
    if (site.file.party == SERVER) != (name == "serve"):
        other = "join" if name == "serve" else "serve"
        raise RefusedInput(f"{site.file.party!r} is not who this command is for: use `secfc deploy {other}`.")
    if way.over is None and site.url.startswith("nvflare://"):
        raise RefusedInput(
            f"this run goes over NVIDIA FLARE ({site.url}): its job starts this command. Fit this site's "
            "startup kit with `secfc deploy flare-kit`, start it, and submit the job of `secfc deploy flare`."
        )
    make_private()
    with failures_recorded(site, name, lambda: failure_digest(site)):
        take_part(given, site, way, name)


def take_part(given: PartyOptions, site: LoadedSite, way: CarrierOptions, name: str) -> None:
    """Everything from the files that are read to the results.  Raises what `take_part_as` raises."""
    asked = site.agreed()
    site.check_session()
    party, kept = (None, None) if site.file.party == SERVER else site.party(asked)
    rows = 0 if party is None else party.points.shape[0]
    if party is not None:
        check_bound(site, asked, party, kept)
    published = given.publish if isinstance(given, ServerOptions) else None
    results = Results.at(site.file.results, force=given.force or site.has_results, published=published)
    results.check_published(asked)
    results.check_room(rows)
    if party is not None:
        site.remembered.check_rows(party, site.file.floors.changed_rows)
    with Log.open(site.file.party, site.board) as log, cautions_noted():
        for note in asked.notes:
            log.say("note", note=note)
        tell_shortage(site, asked, log, rows)
        started = datetime.now(UTC)

        fewer: list[str] = []

        def finished(outcome: Any) -> None:
            fewer[:] = dict.fromkeys((*outcome.excluded, *site.without()))
            with full_disc_told(site.file.results):
                results.write(site, asked, party, kept, outcome, log, started)
            record_end(site, name, "finished", excluded=list(outcome.excluded))
            log.say("results", note=f"results are in {site.file.results}")

        kept_if_it_fails = failures_kept(results, site, asked, log, started)
        with kept_if_it_fails, bad_input(OSError), full_disc_told(site.journal):
            decisions = decision_exchange(site, asked)
            carrier = way.carrier(site, log, decisions)
            run_at(site, asked, party, log, carrier, decisions, finished)
            if fewer and results.add_decisions(site):
                record_end(site, name, "amended")
            site.forget_run()
        log.say("done", note=f"results are in {site.file.results}")
    if fewer:
        raise FewerSites(
            f"finished, with fewer sites than agreed: without {', '.join(fewer)}. Results are in "
            f"{site.file.results}."
        )


def tell_shortage(
    site: LoadedSite, asked: Built, log: Log, rows: int, known: PublicFacts | None = None
) -> None:
    """Warn where memory or disc will hardly do.  known: once the sites have told their rows."""
    for found in check_resources(site, asked, rows, known):
        if found.state == "fail":
            log.say("short", logging.WARNING, note=f"{found.what}: {found.more}")


def record_end(site: LoadedSite, name: str, outcome: str, **facts: Any) -> None:
    """Put on record that results are on disk, and of which kind.  Raises Suspended, OSError."""
    with full_disc_told(site.audit.path):
        site.audit.append(
            name, outcome, session=site.run.session.hex(), gone_on_without=list(site.without()),
            versions=software_versions(), report=file_digest(site.file.results / REPORT), **facts,
        )  # fmt: skip


def run_at(
    site: LoadedSite,
    asked: Built,
    party: Party | None,
    log: Log,
    carrier: Carrier,
    decisions: DecisionExchange,
    finished: Callable[[Any], None],
) -> None:
    """A party's run.  decisions: told all consents.  finished: told its outcome, before the party leaves."""

    def prepare(public: PublicFacts) -> None:
        if work.needs.rows:
            site.file.floors.check_rows(sum(public.counts))
        log.say("prepare", note="compiling or loading the kernels")
        tell_shortage(site, asked, log, 0, public)
        prepare_kernels(asked, public)

    work = replace(site.work(asked), prepare=prepare)

    def make(coins: Any, journal: bytes) -> Any:
        site.remembered.check_session(site.run.session, journal)
        role = (
            server_role(work, coins, start_generator(asked, coins))
            if party is None
            else client_role(work, party, coins)
        )
        mine = sign_terms(site, asked, journal, coins.bytes(KEY))

        def keep(found: Any) -> None:
            keep_consents(site, journal, found)
            decisions.begin(found)

        me, pins = site.file.party, site.run.identities
        linked = {party: pins[party] for party in (me, *work.links.peers_of(me))}
        role = consent_first(role, me, mine, linked, keep)
        return log.watched(charge_first(role, lambda: site.charge(asked, party, journal)))

    with problems_told(site.journal, log, site.has_spent), disputes_kept(site):
        asyncio.run(
            run_from_journal(work, site.file.party, make, site.identity, site.journal, carrier, finished)
        )


# What OpenSSL says of a certificate that is not valid yet, or no more.
OUT_OF_DATE = 9, 10


@contextmanager
def failures_kept(
    results: Results, site: LoadedSite, asked: Built, log: Log, started: datetime
) -> Iterator[None]:
    """Within the body, a run that does not end well leaves a report of what is known here.

    None where another process takes part in it, or another party: that one's run has not ended.
    """
    try:
        yield
    except Exception as error:
        others = isinstance(error, JournalError) and ("is in use" in str(error) or OTHER_PARTY in str(error))
        if not others:
            results.write_failure(site, asked, log, started, error)
        raise


@contextmanager
def disputes_kept(site: LoadedSite) -> Iterator[None]:
    """Within the body, IDs of this site that are found in dispute go to a private file beside its own."""
    try:
        yield
    except DisputedRows as error:
        if not error.ids:
            raise
        with bad_input(OSError):
            path = write_disputed(site.folder, error.ids)
        raise error.kept_in(str(path)) from error


@contextmanager
def problems_told(journal: Path, log: Log, begun: bool = False) -> Iterator[None]:
    """Within the body, what the protocol and the network do wrong is logged, and named by its number.

    Where it left no journal nothing of rows was said: a mistake to be mended, after which the same command
    runs, as any other that is found before.  begun: whether this site spoke of its rows before; then a hub
    whose certificate is not trusted is waited for, as in a run.  One that is out of date always is.
    """
    from secfc.deploy.rendezvous import NotAdmitted

    try:
        yield
    except NotAdmitted as error:
        cause, told = error.__cause__, f"{error} [{problem_id(error)}]"
        if isinstance(cause, ssl.SSLCertVerificationError) and (begun or cause.verify_code in OUT_OF_DATE):
            log.say("suspended", logging.WARNING, problem=problem_id(error), error=type(error).__name__)
            raise Suspended(f"{told}. The hub can mend that, and the same command goes on") from error
        raise Failed(told) from error
    except TooFewReplies as error:
        log.say("suspended", logging.WARNING, problem=problem_id(error), error=type(error).__name__)
        raise Suspended(f"the run is suspended, not over: {error} [{problem_id(error)}]") from error
    except ProtocolError as error:
        log.say("failed", logging.ERROR, problem=problem_id(error), error=type(error).__name__)
        if journal.exists():
            raise
        raise RefusedInput(f"nothing of rows was said: {error} [{problem_id(error)}]") from error
    except (TimeoutError, ssl.SSLError, ConnectionError) as error:
        log.say("suspended", logging.WARNING, error=type(error).__name__)
        raise Suspended(f"the network failed: {error}. The same command goes on") from error


def start_generator(asked: Built, coins: Any) -> Any:
    """Randomness of starts: from the public seed, or else from the server's coins."""
    import numpy as np

    seed = asked.public.seed
    return np.random.default_rng(int.from_bytes(coins.bytes(32), "little") if seed is None else seed)


def waiting_of(site: LoadedSite, log: Log) -> dict[str, Any]:
    """How long this party waits, and who hears of peers that come and go."""
    waiting = site.run.waiting
    # Others may be waiting for the same silent party: the server waits longest.
    patience = waiting.patience * (1.5 if site.file.party == SERVER else 1.0)
    return {
        "arrival": waiting.arrival, "watch": log.peer, "patience": patience, "rejoin": waiting.rejoin,
        "pulse": waiting.pulse, "resuming": site.journal.exists(), "suspend": True,
        "without": site.still_without,
    }  # fmt: skip


def carrying(site: LoadedSite, over: Path | None, waiting: dict[str, Any]) -> Carrier:
    """Among peers that are met at the hub of the run, or to whom another process of this machine goes."""
    session, me, pins = site.run.session.hex(), site.file.party, site.run.identities
    if over is not None:
        from secfc.deploy import local
        from secfc.transport.channel import ConnectionKeys

        return local.local_carrier(over, ConnectionKeys(session, me, site.identity, pins), **waiting)
    from secfc.deploy.rendezvous import take_part_at_hub

    async def carry(role: Any, peers: tuple[str, ...]) -> Any:
        return await take_part_at_hub(
            role, site.url, session, me, peers, site.identity, pins, tls=site.tls(), **waiting
        )

    return carry
