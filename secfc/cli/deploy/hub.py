"""`secfc deploy hub`: forwards what parties seal, for as many runs as there are run files."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import ssl
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from secfc.cli.deploy.keys import ask_passphrase, read_notice
from secfc.cli.deploy.logs import Page
from secfc.cli.shell.errors import RefusedInput, bad_input
from secfc.cli.shell.options import Whole, argument, command, option
from secfc.cli.shell.verbosity import log_to_stderr
from secfc.deploy.hub import Hub
from secfc.deploy.reconnect import LOOK
from secfc.deploy.runfile import RunFile
from secfc.errors import InputError
from secfc.logs import log_event

# The folder beside a run file in which its operator puts what sites say of revoked keys, a file each.
NOTICES = "notices"


@dataclass(frozen=True)
class HubOptions(Page):
    """What `secfc deploy hub` takes."""

    # fmt: off
    runs: tuple[Path, ...] = argument("RUN.toml...")
    host: str = option("0.0.0.0", help=
        "The address to listen on; '' for all, of IPv4 and IPv6.")
    port: int = option(443, Whole(0, 65535), help="0 for any.")
    certificate: Path | None = option(metavar="PEM", help="The hub's certificate, with those that signed it.")
    key: Path | None = option(metavar="PEM", help="Of the certificate.")
    plain: bool = option(False, help=
        "Without TLS, as behind a proxy that has it; everything that parties say is sealed all the same, but "
        "who is there is not.")
    # fmt: on


@command(HubOptions)
def hub(given: HubOptions) -> None:
    """Forward what the parties of these runs say to each other: sealed, so that the hub can read nothing.

    It keeps no state: end it and start it again, and the parties come back. Ctrl-C ends it. Whoever has a key
    that is revoked by a file in the folder "notices" beside a run file, as `secfc deploy keys revoke` writes
    it, is not let in, and cut off; the folder is read again every second.

    \b
    Examples:
      secfc deploy hub run.toml --certificate hub.pem --key hub.key
      secfc deploy hub run.toml --plain --host 127.0.0.1 --port 8443    to try it, or behind a proxy
    """
    with bad_input(OSError):
        files = [RunFile.read(path) for path in given.runs]
    tls = None if given.plain else _tls(given.certificate, given.key)
    served = {run.session.hex(): run.identities for run in files}
    if len(served) < len(files):
        raise RefusedInput("two of the run files have the same session: `secfc deploy init` draws a new one.")
    allow_connections()
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(_serve(Hub(served), given, tls))


def take_revocations(hub: Hub, folders: Iterable[Path]) -> set[str]:
    """Let nobody in whose key a notice in these folders revokes; what is wrong with others."""
    revoked, faults = [], set()
    for path in (path for folder in folders for path in folder.glob("*.json")):
        try:
            notice = read_notice(path)
        except (InputError, OSError) as error:
            faults.add(str(error))
        else:
            revoked += [notice.key] if notice.following is None else []
    hub.revoke_keys(revoked)
    return faults


async def _wait_until(done: asyncio.Event, hub: Hub, folders: Collection[Path]) -> None:
    """Take revocations again and again until the end; what is wrong with notices is told once."""
    told: set[str] = set()
    while not done.is_set():
        faults = take_revocations(hub, folders) - told
        for fault in faults:
            log_event("deploy.hub", "no-notice", logging.WARNING, note=fault)
        told |= faults
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK):
                await done.wait()


def allow_connections() -> None:
    """Let this process hold as many connections as the system permits at all."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _tls(certificate: Path | None, key: Path | None) -> ssl.SSLContext:
    if certificate is None:
        raise click.UsageError(
            "the hub needs --certificate and --key, or --plain where a proxy before it has them."
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_cert_chain(certificate, key, lambda: ask_passphrase(key or certificate))
    except (OSError, ssl.SSLError) as error:
        raise RefusedInput(
            f"--certificate {certificate}, --key {key}: {error}. Give PEM files that fit."
        ) from error
    return context


async def _serve(hub: Hub, given: HubOptions, tls: ssl.SSLContext | None) -> None:
    host, port, page, done = given.host, given.port, given.page, asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # where signals reach no loop
            asyncio.get_running_loop().add_signal_handler(number, done.set)
    try:
        async with hub.serving(host, port, tls=tls) as server:
            address = server.sockets[0].getsockname()
            name = f"[{address[0]}]" if ":" in address[0] else address[0]
            scheme = "ws" if tls is None else "wss"
            with log_to_stderr():
                log_event("deploy", "listens", note=f"The hub listens: {scheme}://{name}:{address[1]}")
                async with _numbers(hub, page):
                    await _wait_until(done, hub, {path.parent / NOTICES for path in given.runs})
                log_event("deploy", "ends", note="The hub ends")
    except OSError as error:
        where = f"--host {host} --port {port}" + ("" if page is None else f" --page {page}")
        raise RefusedInput(f"{where}: {error.strerror or error}. Choose another.") from error


def _numbers(hub: Hub, port: int | None) -> contextlib.AbstractAsyncContextManager[Any]:
    """The page for its operator, if there is one."""
    if port is None:
        return contextlib.nullcontext()
    from secfc.deploy.metrics import hub_metrics, hub_trouble, serve_metrics

    return serve_metrics(hub_metrics(hub), port, trouble=lambda: hub_trouble(hub))
