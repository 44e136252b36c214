"""A carrier behind a local socket: another process of this machine takes a party's bytes to its peers.

That process listens on a Unix socket in a directory of mode 0700.  A party opens one connection there for
each of its peers and writes the peer's name, quoted, on a line; it reads READY once both ends of the pair are
there, and from then on whatever the peer's end writes.  If the process is gone, so is the party: it ends, and
whoever starts it again finds its journal.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from secfc.deploy.reconnect import NotAdmitted, run_with_reconnect
from secfc.roles.exchange import PartyId, Role
from secfc.transport.channel import AsyncioStream, ConnectionKeys

READY = b"\x01"
# Bytes of the longest line that names a peer: 100 characters, quoted.
LONGEST = 1 << 11


class LocalPipe:
    """A local connection as a channel that tells when it is over."""

    def __init__(self, stream: AsyncioStream) -> None:
        self.stream = stream
        self.ended = asyncio.Event()

    def __repr__(self) -> str:
        return f"Pipe(ended={self.ended.is_set()})"

    async def read(self, count: int) -> bytes:
        try:
            data = await self.stream.read(count)
        except OSError:
            self.ended.set()
            raise
        if not data:
            self.ended.set()
        return data

    async def write(self, data: bytes | memoryview) -> None:
        try:
            await self.stream.write(data)
        except OSError:
            self.ended.set()
            raise

    def abort(self) -> None:
        self.ended.set()
        self.stream.abort()

    async def close(self) -> None:
        self.ended.set()
        await self.stream.close()


async def meet_locally(path: Path, peer: PartyId) -> LocalPipe:
    """A channel to the peer, as soon as the process at this socket says that it is there.

    Raises NotAdmitted if no process listens there any more; OSError where the peer is gone again.
    """
    try:
        reader, writer = await asyncio.open_unix_connection(path)
    except (ConnectionRefusedError, FileNotFoundError) as error:
        raise NotAdmitted(
            f"nobody listens at {path}: the process that carried this party's messages has ended. Start its "
            "job again; the party goes on from its journal"
        ) from error
    pipe = LocalPipe(AsyncioStream(reader, writer))
    try:
        await pipe.write(quote(peer, safe="").encode() + b"\n")
        if await pipe.read(len(READY)) != READY:
            raise ConnectionResetError(f"{peer} is not there any more")
    except BaseException:
        pipe.abort()
        raise
    return pipe


async def peer_of(reader: asyncio.StreamReader) -> PartyId | None:
    """The other side's first line: whom a party wants to meet, None if it says nothing of the kind."""
    with contextlib.suppress(OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        line = await reader.readuntil(b"\n")
        if len(line) <= LONGEST:
            return unquote(line[:-1].decode("ascii"), errors="strict")
    return None


def local_carrier(
    path: Path, keys: ConnectionKeys | None, **waiting: Any
) -> Callable[[Role[Any], tuple[PartyId, ...]], Awaitable[Any]]:
    """The carrier at this socket (`secfc.deploy.session.Carrier`).  keys, waiting: of `run_with_reconnect`
    and `run_party`.
    """

    def meet_peer(peer: PartyId) -> Awaitable[LocalPipe]:
        return meet_locally(path, peer)

    def carry(role: Role[Any], peers: tuple[PartyId, ...]) -> Awaitable[Any]:
        return run_with_reconnect(role, meet_peer, peers, keys, **waiting)

    return carry
