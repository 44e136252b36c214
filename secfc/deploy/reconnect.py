"""Links to all peers, renewed whenever they break, until a role is over; wherever peers are met."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import ssl
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, TypeVar

from secfc.logs import log_event
from secfc.roles.exchange import PartyId, Role
from secfc.transport import network
from secfc.transport.channel import Channel, ClosingChannel, ConnectionKeys
from secfc.transport.link import Link
from secfc.transport.network import run_party

R = TypeVar("R")

# Seconds before the first attempt to come back, and between later ones at most.
SOON, LATER = 0.1, 5.0
# Seconds in which who is missing may come back, unless others are given; a party that resumes keeps in memory
# what it said to peers until these have come, so it waits for the rest of them, but not for long.
REJOIN = REST = 60.0
# Seconds in which both ends of a connection must have said who they are, unless others are given.
PULSE = 30.0
# Seconds between two looks at whom this party is told to give up.
LOOK = 1.0


class NotAdmitted(OSError):  # noqa: N818 - named for what happened
    """The hub does not know this run, this party or this key, or has a certificate that this site does not
    trust: to ask again is of no use, but a site in a run waits for a certificate to be mended.

    By: a mistake, mostly.  What to do: compare the digest of the run file, and the `authority` in it,
    with whoever runs the hub, who renews a certificate that ran out.
    """


class UnconnectedChannel:
    """The channel to a peer that has not come yet."""

    async def read(self, count: int) -> bytes:
        return b""

    async def write(self, data: bytes | memoryview) -> None:
        raise ConnectionResetError("the peer has not come yet")

    def abort(self) -> None:
        pass

    async def close(self) -> None:
        pass


async def run_with_reconnect(
    role: Role[R],
    meet: Callable[[PartyId], Awaitable[ClosingChannel]],
    peers: tuple[PartyId, ...],
    keys: ConnectionKeys | None,
    *,
    arrival: float = 600.0,
    resuming: bool = False,
    watch: Callable[[PartyId, str], None] = lambda peer, what: None,
    meter: network.Meter | None = None,
    without: Callable[[], Collection[PartyId]] = tuple,
    note: Callable[[], Any] = lambda: None,
    told: Callable[[PartyId, Any], None] = lambda peer, note: None,
    **waiting: Any,
) -> R:
    """Run a party's role among peers that are met, and met again whenever a connection is gone.

    meet: a channel to a peer, as soon as the peer is there; OSError where that cannot be now.  keys: what
    protects each connection from whoever carries it; None where they are protected otherwise.  arrival:
    seconds to wait for all peers to be there, before the role begins.  resuming: whether the run began
    before: then peers may be away for long, and the role begins without those that do not come soon after the
    first that does.  without: peers that this party is told to go on without, asked again and again.  note:
    what it says to all beside exchanges, None for nothing, asked likewise; told: is told what a peer says so,
    in a thread.  watch:
    told whenever a peer "came", "broke" or "came back"; "fell silent", too, so
    that its connection is made anew; once, that one "cannot be met yet" where no connection can be made.
    meter: told how this party fares.  waiting: of `run_party`.

    Raises what `run_party` raises; NotAdmitted; TimeoutError naming the peers that never came.
    """
    links: dict[PartyId, Link] = {}
    why: dict[PartyId, str] = {}  # a connection failed last
    news = asyncio.Event()  # a peer came, or cannot be met any more
    pulse = waiting.get("pulse", PULSE)
    if meter is not None:
        meter.links = links

    def noted_link(peer: PartyId, channel: Channel) -> Link:
        link = Link(channel)
        link.told = lambda note: told(peer, note)
        return link

    async def keep(peer: PartyId) -> None:
        """Meet the peer, and meet it again whenever the connection is gone."""
        pause = SOON
        while True:
            try:
                channel = await meet(peer)
                if keys is not None:
                    channel = await keys.protect(channel, peer, pulse)
            except OSError as error:
                # A hub that was known shall renew its certificate, or somebody is in between: neither is told
                # anything, and both pass.
                expired = peer in links and isinstance(error.__cause__, ssl.SSLCertVerificationError)
                if isinstance(error, NotAdmitted) and not expired:
                    raise
                if expired and why.get(peer) != str(error):
                    log_event("deploy", "not-trusted", logging.WARNING, peer=peer, note=str(error))
                if not links and not why:  # nobody was met yet, so it is no matter of this peer
                    watch(peer, "cannot be met yet")
                why[peer] = str(error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LATER)
                continue
            pause = SOON
            if peer not in links:
                links[peer] = noted_link(peer, channel)
                watch(peer, "came")
                news.set()
            else:
                links[peer].renew_connection(channel)
                watch(peer, "came back")
            if not await _broken(channel.ended, links[peer].doubted):
                channel.abort()
                watch(peer, "fell silent")
            await asyncio.sleep(SOON)
            if links[peer].closed:  # it said goodbye, or is lost for good
                return
            watch(peer, "broke")
            if meter is not None:
                meter.breaks += 1

    keepers = [asyncio.create_task(keep(peer)) for peer in peers]
    for keeper in keepers:
        keeper.add_done_callback(lambda _: news.set())
    running: asyncio.Future[R] | None = None
    try:
        rejoin = waiting.get("rejoin", REJOIN)
        rest = min(rejoin, REST) if resuming else arrival
        longest = max(arrival, rejoin) if resuming else arrival
        await _all_there(links, peers, keepers, news, longest, rest, why)
        for peer in peers:
            if peer not in links:
                links[peer] = noted_link(peer, UnconnectedChannel())
        keepers.append(asyncio.create_task(_look_after(links, without, note)))
        running = asyncio.ensure_future(run_party(role, links, meter=meter, **waiting))
        everything: set[asyncio.Future[Any]] = {running, *keepers}
        await asyncio.wait(everything, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():  # a keeper ends only if no peer can be met any more
            _raise_from_ended(keepers)
        return await running
    finally:
        left: list[asyncio.Future[Any]] = [*keepers, *([] if running is None else [running])]
        for one in left:
            one.cancel()
        await asyncio.gather(*left, return_exceptions=True)


def _raise_from_ended(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        if task.done():
            task.result()


async def _look_after(
    links: Mapping[PartyId, Link], without: Callable[[], Collection[PartyId]], note: Callable[[], Any]
) -> None:
    """Give up whom this party is told to, as soon as it is, and say so to the others; never ends."""
    while True:
        left = without()  # before what is said of it, so that nothing follows from it that nobody was told
        if (said := note()) is not None:
            for link in links.values():
                link.say(said)
        for peer in left:
            if peer in links and not links[peer].given_up:
                log_event("deploy", "given-up", logging.WARNING, peer=peer)
                links[peer].give_up()
        await asyncio.sleep(LOOK)


async def _broken(ended: asyncio.Event, doubted: asyncio.Event) -> bool:
    """Whether the connection ended, which is awaited; not so if it is doubted before."""
    waits = [asyncio.ensure_future(event.wait()) for event in (ended, doubted)]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    return ended.is_set()


async def _all_there(
    links: Mapping[PartyId, Link],
    peers: tuple[PartyId, ...],
    keepers: list[asyncio.Task[None]],
    news: asyncio.Event,
    arrival: float,
    rest: float,
    why: Mapping[PartyId, str],
) -> None:
    """Wait until every peer came once, or some did and the rest had so many seconds from then on.

    Raises what ended a keeper, and TimeoutError.
    """
    now = asyncio.get_running_loop().time
    limit, rested = now() + arrival, math.inf
    while len(links) < len(peers):
        news.clear()
        _raise_from_ended(keepers)
        if links and rested == math.inf:
            rested = now() + rest
        if now() >= min(limit, rested):
            break
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(min(limit, rested)):
                await news.wait()
    if len(links) == len(peers) or rested < limit:
        return
    missing = [peer for peer in peers if peer not in links]
    if why and not links:
        raise TimeoutError(
            f"nobody could be met within {arrival:g} s ({next(iter(why.values()))}): see that whoever joins "
            "the parties runs and can be reached from here (`secfc deploy check`), and start this party again"
        )
    reasons = "".join(f" ({why[peer]})" for peer in missing if peer in why)
    raise TimeoutError(
        f"{', '.join(missing)} did not come within {arrival:g} s{reasons}: see that it runs, with the same "
        "run file and over the same hub, and start this party again"
    )
