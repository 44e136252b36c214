"""A party's side of a hub: links to all peers, renewed whenever they break, until the run is over."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from field.secrets.channels import Identity
from secfc.deploy.hub import NONCE, READY, UNKNOWN, path_of, signed
from secfc.deploy.websocket import PIECE, Socket
from secfc.roles.exchange import PartyId, Role
from secfc.transport.link import Link
from secfc.transport.network import run_party

R = TypeVar("R")

# Seconds before the first attempt to come back, and between later ones at most.
SOON, LATER = 0.1, 5.0


class NotAdmitted(OSError):  # noqa: N818 - named for what happened
    """The hub does not know this run, or this party's identity: the run file is another, or the key."""


async def meet(
    url: str,
    session: str,
    me: PartyId,
    peer: PartyId,
    identity: Identity,
    *,
    tls: ssl.SSLContext | None = None,
) -> Socket:
    """A channel to the peer, as soon as both are at the hub.

    url: ws:// or wss:// and where the hub is; a proxy is taken from the environment, as usual.

    Raises NotAdmitted; OSError where the hub cannot be reached, or is gone again.
    """
    path = path_of(session, me, peer)
    try:
        socket = await connect(
            url.rstrip("/") + path, ssl=tls, max_size=PIECE, max_queue=2, compression=None,
            user_agent_header=None,
        )  # fmt: skip
    except WebSocketException as error:
        raise ConnectionRefusedError(f"{url} does not answer as a hub ({type(error).__name__})") from error
    try:
        nonce = await socket.recv()
        if not isinstance(nonce, bytes) or len(nonce) != NONCE:
            raise ConnectionRefusedError(f"{url} does not greet as a hub")
        await socket.send(identity.sign(signed(nonce, path)))
        if await socket.recv() != READY:
            raise ConnectionRefusedError(f"{url} does not speak as a hub")
        return Socket(socket)
    except ConnectionClosed as error:
        if error.rcvd is not None and error.rcvd.code == UNKNOWN:
            raise NotAdmitted(
                f"{url} does not let {me!r} in: its run file has another session, other names or another key "
                "for this party. Compare the digests of the run files, and this key's fingerprint"
            ) from error
        raise ConnectionResetError(f"{url} broke the connection") from error
    except BaseException:
        socket.transport.abort()
        raise


async def take_part(
    role: Role[R],
    url: str,
    session: str,
    me: PartyId,
    peers: tuple[PartyId, ...],
    identity: Identity,
    *,
    tls: ssl.SSLContext | None = None,
    arrival: float = 600.0,
    watch: Callable[[PartyId, str], None] = lambda peer, what: None,
    **waiting: Any,
) -> R:
    """Run a party's role among peers that are met at a hub.

    arrival: seconds to wait for all peers to be there, before the role begins.  watch: told whenever a peer
    "came", "broke" or "came back".  waiting: of `run_party`; rejoin is 60 s here, as connections over the
    open net do break.

    Raises what `run_party` raises; NotAdmitted; TimeoutError naming the peers that never came.
    """
    links: dict[PartyId, Link] = {}
    waiting = {"rejoin": 60.0, **waiting}

    async def hold(peer: PartyId) -> None:
        """Meet the peer, and meet it again whenever the connection is gone."""
        pause = SOON
        while True:
            try:
                socket = await meet(url, session, me, peer, identity, tls=tls)
            except NotAdmitted:
                raise
            except OSError:
                await asyncio.sleep(pause)
                pause = min(2 * pause, LATER)
                continue
            pause = SOON
            if peer not in links:
                links[peer] = Link(socket)
                watch(peer, "came")
            else:
                links[peer].renew(socket)
                watch(peer, "came back")
            await socket.ended.wait()
            watch(peer, "broke")
            await asyncio.sleep(SOON)

    holders = [asyncio.create_task(hold(peer)) for peer in peers]
    try:
        await _all_there(links, peers, holders, arrival)
        return await run_party(role, links, **waiting)
    finally:
        for task in holders:
            task.cancel()
        await asyncio.gather(*holders, return_exceptions=True)


async def _all_there(
    links: Mapping[PartyId, Link],
    peers: tuple[PartyId, ...],
    holders: list[asyncio.Task[None]],
    arrival: float,
) -> None:
    """Wait until every peer came once.  Raises what ended a holder, and TimeoutError."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(arrival):
            while len(links) < len(peers):
                done = [task for task in holders if task.done()]
                for task in done:
                    task.result()
                await asyncio.sleep(0.02)
            return
    missing = ", ".join(peer for peer in peers if peer not in links)
    raise TimeoutError(
        f"{missing} did not come to the hub within {arrival:g} s: see that it runs, with the same run file, "
        "and start this party again"
    )
