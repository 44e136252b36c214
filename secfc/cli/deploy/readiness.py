"""Whether this site can take part: its values, memory, disk and kernels, and whether the hub answers.

If it does not, why: a firewall, a proxy, a certificate, a run file of another run.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cryptography.x509 import load_pem_x509_certificates
from websockets.exceptions import WebSocketException

from field.ring.errors import install_command
from secfc import tiny_runs
from secfc.cli.deploy.run_file import Built
from secfc.cli.deploy.site import LoadedSite
from secfc.cli.shell.errors import bad_input
from secfc.deploy.rendezvous import NEXT, NotAdmitted, meet_at_hub, open_socket
from secfc.errors import InputError
from secfc.logs import silence_logs
from secfc.roles.exchange import SERVER

if TYPE_CHECKING:
    from secfc.algorithm import PublicFacts
    from secfc.data.party import Party
    from secfc.scaling.scaling import Scaling

# Bytes of a process before it holds rows; of a compared pair of centers, for each row, that a party holds at
# once, and that its journal keeps in a step: as eight deployments of up to 250,000 rows were measured.
LOADED, HELD, KEPT = 250 << 20, 400, 90
# Where everybody is told labels, for each row and center but one: bytes that a party holds at once; and of a
# client's journal until every peer is past a step: what clients say.  As deployments of 250,000 rows were
# measured, over several steps with 4, 8 and 16 clusters, and over one with 4: 90 bytes.
TOLD_HELD, TOLD = 650, 90
# Steps that an estimate is for.
STEPS = 20
# Seconds in which a hub must answer.
ANSWER = 5.0
# Days before its end in which a certificate is warned of.
SOON = 30


@dataclass(frozen=True)
class CheckResult:
    """A finding.  state: "ok", "warn" or "fail"."""

    state: str
    what: str
    more: str


def check_bound(site: LoadedSite, asked: Built, party: Party, kept: Any) -> bool:
    """Whether the run file has a bound or ranges that end a run of values beyond, which all values keep.

    kept: which of the file's rows these are, None for all.  Raises InputError with the first cell beyond it,
    and for a row of zeros where rows are divided by their norms.
    """
    import numpy as np

    from secfc.data.party import raw_blocks

    public = asked.public
    if asked.asked.settings.standardize == "norm":
        check_directions(site, party, kept)
    if (limits := public_limits(asked)) is None:
        return False
    own = None if public.observed is None else public.observed[public.clients.index(party.name)]
    all_names = public.features or site.run.features
    names = all_names if own is None else [all_names[i] for i in own]
    limits = limits.among(own)
    for first, block in raw_blocks(party.points):
        far = np.abs(block - np.array(limits.centers)) > limits.limit * np.array(limits.units)
        if len(beyond := np.argwhere(far)):
            row, column = (first + beyond[0][0], beyond[0][1])
            at = int(row if kept is None else kept[row])
            least, most = (
                limits.centers[column] + sign * limits.units[column] * limits.limit for sign in (-1, 1)
            )
            what, word = ("public range", "--prepare ranges") if least + most else ("bound", "--set bound")
            path = None if site.file.data is None else site.file.data.path
            raise InputError(
                f"{path}, line {at + 2} (row {at}, from 0), column {names[column]!r}: the value is beyond "
                f"the {what} of the run, {least:g} to {most:g}. Correct it, or agree on a larger {what} "
                f"({word}=... of `secfc deploy init`)"
            )
    return True


def check_directions(site: LoadedSite, party: Party, kept: Any) -> None:
    """Raises InputError for the first row of zeros.  kept: as of `check_bound`."""
    import numpy as np

    from secfc.data.party import raw_blocks
    from secfc.scaling.scaling import unit_rows

    path = None if site.file.data is None else site.file.data.path
    for first, block in raw_blocks(party.points):
        for i in np.flatnonzero(~np.any(block, axis=1)).tolist():
            row = first + i if kept is None else int(kept[first + i])
            unit_rows(np.asarray(block[i : i + 1], np.float64), f"{path}, line {row + 2}", row)


def public_limits(asked: Built) -> Scaling | None:
    """Between which values all must lie, by feature; None where nothing public ends a run of others."""
    from secfc.scaling.algorithm import Scaled
    from secfc.scaling.scaling import Scaling
    from secfc.scaling.ways import FillMeans, Range

    features, d = asked.public.features, asked.public.d
    if asked.algorithm.capabilities.joins and asked.asked.settings.standardize:
        return None  # each owner brings its columns to scale by itself
    way = asked.algorithm.scaling if isinstance(asked.algorithm, Scaled) else FillMeans(asked.public.bound)
    if isinstance(way, Range) and way.ranges is not None and way.outside == "refuse":
        return way.public_scaling(features, d, None)
    if asked.derived or "bound" not in asked.method.names or not isinstance(way, FillMeans):
        return None
    return Scaling((0.0,) * d, (1.0,) * d, way.limit) if way.outside == "refuse" else None


def check_resources(
    site: LoadedSite, asked: Built, rows: int, known: PublicFacts | None = None
) -> Iterator[CheckResult]:
    """Memory and disk.  known: once the sites have told their rows."""
    public, when = (known, "") if known is not None else facts_to_judge(asked, rows)
    memory, journal = estimate_bytes(asked, public, settling=site.file.party != SERVER)
    free = available_memory()
    short = free is not None and memory > free
    yield CheckResult(
        "fail" if short else "ok", "memory",
        f"about {format_bytes(memory)} are needed{when}"
        + ("" if free is None else f", {format_bytes(free)} are free")
        + (": fewer rows, or another machine" if short else ""),
    )  # fmt: skip
    for folder in (site.file.journal, site.file.results):
        there = next(path for path in (folder, *folder.resolve().parents) if path.exists())
        if not os.access(there, os.W_OK):
            yield CheckResult(
                "fail", "disk", f"{there} may not be written to: change that, or name another directory"
            )
            continue
        left = shutil.disk_usage(there).free
        need = journal if folder == site.file.journal else rows * 40
        low = need > left
        yield CheckResult(
            "fail" if low else "ok", "disk",
            f"{folder}: about {format_bytes(need)} for {STEPS} steps, {format_bytes(left)} are free"
            + (": make room" if low else ""),
        )  # fmt: skip


def facts_to_judge(asked: Built, rows: int) -> tuple[PublicFacts, str]:
    """What a run is judged by before its sites met, and what that assumes, in words.

    All others are taken to have as many rows as this one, or few where so many could not be clustered.
    """
    try:
        asked.draft(alike := asked.guessed(rows, rows))
    except InputError:
        return asked.guessed(rows), " if the other sites have few rows; all as many could not be clustered"
    return alike, " if all sites have as many rows"


def estimate_bytes(asked: Built, public: PublicFacts, *, settling: bool) -> tuple[int, int]:
    """Bytes of memory and of a journal, roughly: shares of all rows, and what a comparing client hears.

    settling: whether the journal drops what is over for all, as a client's does unless labels stay shared.
    """
    from secfc.coded.plan import CodedPlan

    inner: Any = asked.draft(public)
    # Before a union of IDs a plan has no code, and says no k.
    lanes = inner.code.basis.lanes if isinstance(inner, CodedPlan) else 2
    m, k = sum(public.counts), int(getattr(inner, "k", 8) or 8)
    shares = 4 * lanes * m * (len(asked.public.features or ()) + 1)
    if asked.algorithm.capabilities.pairs:
        many = m * (m - 1) // 2
        return LOADED + 2 * shares + HELD * many, shares + KEPT * many
    if asked.stakes.policy not in ("assignments", "own-labels", "final-labels"):
        told = 4 * lanes * m * k if asked.stakes.policy not in ("feddp", "k-fed") else 1 << 16
        return LOADED + 2 * shares + 24 * lanes * m * k, shares + STEPS * told
    pairs = min(k * (k - 1) // 2, 8 * k)
    held, journal = HELD * m * pairs, STEPS * KEPT * m * pairs
    if asked.stakes.policy == "assignments":
        held = TOLD_HELD * m * max(1, k - 1)
        journal = shares + TOLD * m * max(1, k - 1) if settling else journal
    return LOADED + 2 * shares + held, shares + journal


def available_memory() -> int | None:
    """Bytes of memory that are free, None where the system does not say."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        return next(int(line.split()[1]) << 10 for line in text.splitlines() if "MemAvailable" in line)
    except (OSError, StopIteration, ValueError):
        return None


def format_bytes(nbytes: int) -> str:
    """For people."""
    power = min(3, (len(str(nbytes)) - 1) // 3)
    return f"{nbytes // 1000**power} {('B', 'KB', 'MB', 'GB')[power]}"


def prepare_kernels(asked: Built, public: PublicFacts) -> None:
    """Load or compile what the run needs, for these numbers of rows."""
    algorithm: Any = asked.algorithm.capabilities.inner or asked.algorithm
    plan = asked.draft(public)
    with bad_input(OverflowError):
        if hasattr(plan, "union"):  # only a draft, before IDs are united
            plan = asked.method.foresee(algorithm, public)
        with silence_logs():
            tiny_runs.prepare_kernels(algorithm, plan)


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
            async with open_socket(site.url, site.tls()) as socket:
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
            _, writer = await asyncio.open_connection(parts.hostname, port, happy_eyeballs_delay=NEXT)
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
        return f"the proxy {proxy} needs python-socks: {install_command('python-socks[asyncio]')}"
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
            _, writer = await asyncio.open_connection(host, port, happy_eyeballs_delay=NEXT)
            writer.close()
    except (OSError, TimeoutError):
        return CheckResult(
            "fail", "hub",
            f"{site.url} does not answer within {ANSWER:g} s: is it running, and is a firewall between?",
        )  # fmt: skip
    return CheckResult(
        "ok", "hub", f"{site.url} answers; `nvflare preflight-check -p KIT` asks FLARE's own questions"
    )
