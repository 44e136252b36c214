"""`secfc deploy check`: would a run work at this site, and does the site agree to it?"""

from __future__ import annotations

import asyncio
import platform
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from secfc.cli.deploy.readiness import (
    CheckResult,
    check_bound,
    check_resources,
    facts_to_judge,
    prepare_kernels,
)
from secfc.cli.deploy.run_file import Built, leakage_sentences, spare_sentence, spared_clients
from secfc.cli.deploy.site import LoadedSite
from secfc.cli.errors import cautions_noted
from secfc.cli.options import argument, command, option
from secfc.cli.screen import time_work
from secfc.deploy.rendezvous import NotAdmitted, meet_at_hub
from secfc.deploy.site import identity_fingerprint
from secfc.roles.exchange import SERVER

if TYPE_CHECKING:
    from secfc.data.party import Party

# Seconds in which a hub must answer.
ANSWER = 5.0

STEPS = 20


@dataclass(frozen=True)
class SiteCheckOptions:
    """What `secfc deploy check` takes."""

    site: Path = argument("SITE.toml")
    offline: bool = option(False, help="Without asking the hub.")


@command(SiteCheckOptions)
@click.pass_context
def check(context: click.Context, given: SiteCheckOptions) -> None:
    """Look at everything that a run needs at this site, without taking part.

    Files, key, floors, plan, data, memory, disk, kernels, and the hub. Where a floor refuses the run, no data
    are opened. Compare the digest and the fingerprints with the other sites over the telephone.

    \b
    Example:
      secfc deploy check site.toml

    Exit codes: 0 all is well; 1 the hub or the machine is not ready; 2 the files are not; 4 the site does not
    agree.
    """
    place = LoadedSite.read(given.site)
    code = 0
    with cautions_noted():
        for line in check_lines(place, offline=given.offline):
            click.echo(f"{line.state:4}  {line.what:10}  {line.more}")
            code = code or (line.state == "fail")
    context.exit(int(code))


def check_lines(site: LoadedSite, *, offline: bool) -> Iterator[CheckResult]:
    """Findings, as they are found.  Raises InputError for files that are not ready, BelowFloor."""
    run = site.run
    yield CheckResult("ok", "run file", f"{run.name!r}, digest  {identity_fingerprint(run.digest)}")
    for name, key in run.identities.items():
        own = "  (this site)" if name == site.file.party else ""
        yield CheckResult("ok", "party", f"{name:16}  {identity_fingerprint(key)}{own}")
    asked = site.agreed()
    site.check_session()
    if run.schema is not None:
        columns = ", ".join(run.schema.columns)
        yield CheckResult("ok", "schema", f"rows are linked by {columns}; digest  {run.schema.digest[:16]}")
    yield CheckResult("ok", "floors", "this site agrees to what the run asks for")
    for sentence in leakage_sentences(asked):
        yield CheckResult("ok", "shows", sentence)
    yield CheckResult("ok" if spared_clients(asked) else "warn", "losses", spare_sentence(asked))
    for note in asked.notes:
        yield CheckResult("warn" if "protects nobody" in note else "ok", "note", note)
    rows = 1
    if site.file.party != SERVER:
        party, kept = site.party(asked)
        rows = party.points.shape[0]
        yield from load_rows(site, asked, party, kept)
        site.remembered.check_rows(party, site.file.floors.changed_rows)
    yield from check_machine(site, asked, rows)
    if not offline:
        yield asyncio.run(check_hub(site))


def load_rows(site: LoadedSite, asked: Built, party: Party, kept: Any) -> Iterator[CheckResult]:
    """The site's rows.  Their number is shown on this screen only."""
    yield CheckResult(
        "ok", "data", f"{party.points.shape[0]} rows of {', '.join(map(repr, site.run.features[:6]))}"
    )
    if check_bound(site, asked, party, kept):
        yield CheckResult("ok", "bound", f"no value is beyond {asked.public.bound:g}")


def check_machine(site: LoadedSite, asked: Built, rows: int) -> Iterator[CheckResult]:
    """Versions, kernels, and what `check_resources` finds."""
    import numpy as np

    import secfc
    from secfc.roles.description import PROTOCOL

    yield CheckResult(
        "ok", "versions",
        f"secfc {secfc.__version__}, protocol {PROTOCOL}, Python {platform.python_version()}, NumPy "
        f"{np.__version__}; all sites need the same protocol",
    )  # fmt: skip
    _, spent = time_work(lambda: prepare_kernels(asked, facts_to_judge(asked, rows)[0]))
    yield CheckResult("ok", "kernels", f"ready after {spent:.1f} s")
    yield from check_resources(site, asked, rows)


async def check_hub(site: LoadedSite) -> CheckResult:
    """Whether the hub answers, and knows this party."""
    if site.url.startswith("nvflare://"):
        return await check_flare(site)
    me = site.file.party
    peer = next(name for name in site.run.parties if name != me)
    away = f"{site.url} does not answer within {ANSWER:g} s: is it running, and is a firewall between?"
    try:
        async with asyncio.timeout(ANSWER):
            async with connect(site.url, ssl=site.tls(), user_agent_header=None) as socket:
                await socket.wait_closed()  # it knows no such path, and says so
    except TimeoutError:
        return CheckResult("fail", "hub", away)
    except ssl.SSLError as error:
        return CheckResult(
            "fail", "hub",
            f"{site.url} has a certificate that this site does not trust ({error.reason}): put the one that "
            "signed it into the run file (--authority)",
        )  # fmt: skip
    except (OSError, WebSocketException) as error:
        return CheckResult(
            "fail", "hub",
            f"{site.url} cannot be reached ({error}): is it running, and may this machine go out to it? A "
            "proxy is taken from the environment (https_proxy)",
        )  # fmt: skip
    if site.journal.exists():  # whose peers would take this for its return
        return CheckResult(
            "warn", "hub", f"{site.url} answers. Whether it knows this party was not asked: a run is under "
            "way here, or was interrupted"
        )  # fmt: skip
    try:
        async with asyncio.timeout(ANSWER / 2):
            found = await meet_at_hub(
                site.url, site.run.session.hex(), me, peer, site.identity, tls=site.tls()
            )
            await found.close()
    except TimeoutError:
        return CheckResult("ok", "hub", f"{site.url} knows this party; {peer} is not there yet")
    except NotAdmitted as error:
        return CheckResult("fail", "hub", str(error))
    except OSError:
        return CheckResult("fail", "hub", away)
    return CheckResult("ok", "hub", f"{site.url} knows this party, and {peer} is there")


async def check_flare(site: LoadedSite) -> CheckResult:
    """Whether the server of NVIDIA FLARE can be reached; its own certificates say the rest."""
    from secfc.deploy.flare.project import server_of

    host, port = server_of(site.url)
    try:
        async with asyncio.timeout(ANSWER):
            _, writer = await asyncio.open_connection(host, port)
            writer.close()
    except (OSError, TimeoutError):
        return CheckResult(
            "fail", "hub",
            f"{site.url} does not answer within {ANSWER:g} s: is it running, and is a firewall between?",
        )  # fmt: skip
    return CheckResult(
        "ok", "hub", f"{site.url} answers; `nvflare preflight-check -p KIT` asks FLARE's own questions"
    )
