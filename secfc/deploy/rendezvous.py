"""A party's side of a hub: a connection to each peer, which `secfc.deploy.reconnect` renews when it
breaks.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Iterator, Mapping
from typing import Any, TypeVar

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from field.secrets.channels import Identity
from secfc.deploy.hub import GO, NONCE, READY, UNKNOWN, challenge_to_sign, waiting_path
from secfc.deploy.reconnect import NotAdmitted as NotAdmitted
from secfc.deploy.reconnect import run_with_reconnect
from secfc.deploy.websocket import Socket
from secfc.roles.exchange import PartyId, Role
from secfc.transport.channel import ConnectionKeys

R = TypeVar("R")

# Connections that a party opens at a time: one that speaks with a thousand others is no storm.
OPENING = 64
# Seconds after which a hub that says nothing is asked whether it is there, and in which it must answer.
ASK = 10.0
# Seconds after which the next address of a hub's name is tried besides, where one is silent (RFC 8305).
NEXT = 0.25


def open_socket(url: str, tls: ssl.SSLContext | None) -> connect:
    """A connection to a hub, at whichever address of its name answers first."""
    return connect(
        url, ssl=tls, compression=None, ping_interval=None, user_agent_header=None, happy_eyeballs_delay=NEXT
    )  # fmt: skip


async def meet_at_hub(
    url: str,
    session: str,
    me: PartyId,
    peer: PartyId,
    identity: Identity,
    *,
    tls: ssl.SSLContext | None = None,
    opening: asyncio.Semaphore | None = None,
) -> Socket:
    """A channel to the peer, as soon as both are at the hub.

    url: ws:// or wss:// and where the hub is; a proxy is taken from the environment, as usual.  opening: held
    until the hub knows who comes, None for one of its own.

    Raises NotAdmitted, also for a hub whose certificate is not trusted; OSError where it cannot be reached,
    or is gone again.
    """
    path = waiting_path(session, me, peer)
    async with opening or contextlib.nullcontext():
        socket = await show_identity(url, me, path, identity, tls)
    with hearing_hub(url, me, socket):
        if await _ready(socket) != READY:
            raise ConnectionRefusedError(f"{url} does not speak as a hub")
        # Nothing else comes before the hub heard that this end is ready.
        channel = Socket.take_over(socket.transport, socket.connection_lost)
        await channel.write(GO)
        return channel


@contextlib.contextmanager
def hearing_hub(url: str, me: PartyId, socket: ClientConnection) -> Iterator[None]:
    """Say what it means that the hub closes a connection before the peer is there, or says nothing."""
    try:
        yield
    except ConnectionClosed as error:
        if error.rcvd is not None and error.rcvd.code == UNKNOWN:
            raise NotAdmitted(
                f"{url} does not let {me!r} in: its run file has another session, other names or another key "
                "for this party. Compare the digests of the run files, and this key's fingerprint"
            ) from error
        raise ConnectionResetError(f"{url} broke the connection") from error
    except TimeoutError as error:
        socket.transport.abort()
        raise TimeoutError(f"{url} took the connection and said nothing for {ASK:g} s") from error
    except BaseException:
        socket.transport.abort()
        raise


async def show_identity(
    url: str, me: PartyId, path: str, identity: Identity, tls: ssl.SSLContext | None
) -> ClientConnection:
    """A connection to the hub, over which it was shown who comes to this path.

    Raises as `meet_at_hub`.
    """
    try:
        socket = await open_socket(url.rstrip("/") + path, tls)
    except ssl.SSLCertVerificationError as error:
        raise NotAdmitted(
            f"{url} has a certificate that this site does not trust ({error.verify_message}). If the hub is "
            "the right one, put the certificate that signed its own into the run file (--authority of `secfc "
            "deploy init`); else somebody is in between, or `hub` names another machine"
        ) from error
    except WebSocketException as error:
        raise ConnectionRefusedError(f"{url} does not answer as a hub ({type(error).__name__})") from error
    with hearing_hub(url, me, socket):
        async with asyncio.timeout(ASK):
            nonce = await socket.recv()
        if not isinstance(nonce, bytes) or len(nonce) != NONCE:
            raise ConnectionRefusedError(f"{url} does not greet as a hub")
        await socket.send(identity.sign(challenge_to_sign(nonce, path)))
        return socket


async def _ready(socket: ClientConnection) -> Any:
    """What the hub says next, however long that takes while it is there.  Raises TimeoutError."""
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ASK):
                return await socket.recv()
        answer = await socket.ping()
        async with asyncio.timeout(ASK):
            await answer


async def take_part_at_hub(
    role: Role[R],
    url: str,
    session: str,
    me: PartyId,
    peers: tuple[PartyId, ...],
    identity: Identity,
    pins: Mapping[PartyId, bytes] | None,
    *,
    tls: ssl.SSLContext | None = None,
    opening: asyncio.Semaphore | None = None,
    **holding: Any,
) -> R:
    """Run a party's role among peers that are met at a hub.

    pins: their public identities, so that a hub can delay what is said and nothing else; None where it is
    trusted with the order and number of messages.
    opening: how many connections are opened at a time, of parties of one process together.
    holding: of `secfc.deploy.reconnect.run_with_reconnect` (arrival, watch) and of `run_party`.

    Raises what `run_with_reconnect` raises.
    """

    opening = opening or asyncio.Semaphore(OPENING)

    def meet_peer(peer: PartyId) -> Awaitable[Socket]:
        return meet_at_hub(url, session, me, peer, identity, tls=tls, opening=opening)

    keys = None if pins is None else ConnectionKeys(session, me, identity, pins)
    return await run_with_reconnect(role, meet_peer, peers, keys, **holding)
