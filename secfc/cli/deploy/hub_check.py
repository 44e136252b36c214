"""Whether the hub answers, and why not: a firewall, a proxy, a certificate, a run file of another run."""

from __future__ import annotations

import asyncio
import os
import ssl
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from cryptography.x509 import load_pem_x509_certificates
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from secfc.cli.deploy.readiness import CheckResult
from secfc.cli.deploy.site import LoadedSite
from secfc.deploy.rendezvous import NotAdmitted, meet_at_hub

# Seconds in which a hub must answer.
ANSWER = 5.0
# Days before its end in which a certificate is warned of.
SOON = 30


def tls_reason(url: str, error: ssl.SSLError) -> str:
    """Why a hub is not known by its certificate, and what helps."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        return f"{url} does not speak TLS 1.3 ({error.reason}): is it another service?"
    why = error.verify_message
    helps = "put the one that signed it into the run file (--authority)"
    if "expired" in why:
        helps = "whoever runs the hub renews it; and is the clock of this machine right?"
    elif "not yet valid" in why:
        helps = "is the clock of this machine right?"
    elif "ismatch" in why or "not valid for" in why:
        helps = "it is for another name: correct `hub`, or have one made for this name"
    return f"{url} has a certificate that this site does not trust ({why}): {helps}"


def certificate_term(what: str, ends: datetime) -> Iterator[CheckResult]:
    """A warning where a certificate ends soon."""
    days = (ends - datetime.now(UTC)).days
    if days < SOON:
        said = f"{what} expires in {days} days, on {ends:%Y-%m-%d}: have it renewed before a run needs it"
        yield CheckResult("warn", "certificate", said)


def ends_of(site: LoadedSite, socket: Any) -> Iterator[CheckResult]:
    """Warnings about the hub's certificate, and those of the run file by which it is known."""
    tls = socket.transport.get_extra_info("ssl_object")
    if tls is None:
        return
    ends = datetime.fromtimestamp(ssl.cert_time_to_seconds(tls.getpeercert()["notAfter"]), UTC)
    yield from certificate_term(f"the certificate of {site.url}", ends)
    if site.run.authority is not None:
        ends = min(one.not_valid_after_utc for one in load_pem_x509_certificates(site.run.authority.encode()))
        yield from certificate_term("a certificate of the run file (authority)", ends)


async def check_hub(site: LoadedSite, ends: list[CheckResult]) -> CheckResult:
    """Whether the hub answers, and knows this party.  ends: takes warnings about its certificate."""
    if site.url.startswith("nvflare://"):
        return await check_flare(site)
    away = f"{site.url} does not answer within {ANSWER:g} s: is it running, and is a firewall between?"
    proxy = proxy_for(site.url)
    if proxy is not None and (why := await proxy_silence(proxy)):
        return CheckResult("fail", "hub", why)
    try:
        async with asyncio.timeout(ANSWER):
            async with connect(site.url, ssl=site.tls(), user_agent_header=None) as socket:
                ends += ends_of(site, socket)
                await socket.wait_closed()  # it knows no such path, and says so
    except TimeoutError:
        return CheckResult("fail", "hub", away if proxy is None else f"{away} {way_sentence(proxy)}")
    except ssl.SSLError as error:
        return CheckResult("fail", "hub", tls_reason(site.url, error))
    except (OSError, WebSocketException, ImportError) as error:
        return CheckResult("fail", "hub", refusal_sentence(site.url, proxy, error))
    if site.journal.exists():  # whose peers would take this for its return
        return CheckResult(
            "warn", "hub", f"{site.url} answers. Whether it knows this party was not asked: a run is under "
            "way here, or was interrupted"
        )  # fmt: skip
    return await ask_who_i_am(site, away)


async def ask_who_i_am(site: LoadedSite, away: str) -> CheckResult:
    """Whether a hub that answers knows this party.  away: what is said where it answers no more."""
    me = site.file.party
    peer = next(name for name in site.run.parties if name != me)
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


def proxy_for(url: str) -> str | None:
    """The proxy that the environment names for the hub, without name and password; None for none."""
    parts = urlsplit(url)
    if parts.hostname is None or urllib.request.proxy_bypass(parts.netloc):
        return None
    known, secure = urllib.request.getproxies(), url.startswith("wss://")
    schemes = ("wss", "socks", "https") if secure else ("ws", "socks", "https", "http")
    found = next((known[scheme] for scheme in schemes if scheme in known), None)
    if found is None:
        return None
    there = urlsplit(found)
    return f"{there.scheme}://{there.netloc.rpartition('@')[2]}"


async def proxy_silence(proxy: str) -> str | None:
    """Why a proxy cannot be reached at all; None if it can."""
    parts = urlsplit(proxy)
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        async with asyncio.timeout(ANSWER / 2):
            _, writer = await asyncio.open_connection(parts.hostname, port)
            writer.close()
            await writer.wait_closed()
    except TimeoutError:
        return f"the proxy {proxy} does not answer within {ANSWER / 2:g} s: {PROXY}"
    except (OSError, ValueError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        return f"the proxy {proxy} cannot be reached ({reason}): {PROXY}"
    return None


PROXY = (
    "the environment names it (https_proxy); correct it there, or add the hub's host to no_proxy if it can "
    "be reached without"
)


def way_sentence(proxy: str) -> str:
    """A sentence about the way."""
    return f"The way went through the proxy {proxy}, which was reached"


def refusal_sentence(url: str, proxy: str | None, error: Exception) -> str:
    """What a hub or a proxy before it refused, and what to do."""
    if proxy is None:
        return (
            f"{url} cannot be reached ({str(error) or type(error).__name__}): is it running, with TLS as its "
            "address says, and may this machine go out to it?"
        )
    if isinstance(error, ImportError):
        return f"the proxy {proxy} needs python-socks: pip install 'python-socks[asyncio]'"
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status == 407:
        return (
            f"the proxy {proxy} asks for a name and a password: write them into https_proxy, as "
            "http://NAME:PASSWORD@..."
        )
    if type(error).__name__.startswith(("Proxy", "InvalidProxy")):
        said = f"with HTTP status {status}" if status is not None else f"({type(error).__name__})"
        return (
            f"the proxy {proxy} does not let this machine through to {url} {said}: ask whoever runs it to "
            "allow CONNECT to that host and port"
        )
    return f"{url} cannot be reached ({error}): is it running? {way_sentence(proxy)}"


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
