"""The hub: joins the two ends of every pair of parties, and forwards bytes between them.

Every party opens one WebSocket for each of its peers, all outwards, so that no pair waits for another.  It
says who it is and whom it waits for, and signs that with its identity, over what the hub drew; the hub knows
the public keys of a run, and nothing else.  When both ends of a pair are there, it tells them, and from then
on it reads from one as fast as the other takes (`secfc.deploy.pipe`): of bytes that it cannot read it holds
48 MiB at most, however many pairs there are.

What the hub learns: who takes part, when, and how much is said between whom.  What it can do: delay, cut, end
a run; not read, alter or repeat (`secfc.transport.sealed`).  It has no key, and no state that a run needs: if
it is restarted, parties come back, and go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, unquote

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from field.secrets.coins import SystemCoins
from secfc.deploy.frames import PIECE
from secfc.deploy.pipe import Pipe, Pipes
from secfc.logs import tell
from secfc.roles.exchange import PartyId

READY = b"\x01"
NONCE = 32
# Seconds in which who connects must say who it is.
GREETING = 10.0
# Refusals by their number in the closing frame.
UNKNOWN, REPLACED = 4001, 4002


def path_of(session: str, me: PartyId, peer: PartyId) -> str:
    """Where party `me` waits for its peer, in a run."""
    return "/" + "/".join(quote(part, safe="") for part in (session, me, peer))


def signed(nonce: bytes, path: str) -> bytes:
    """What a party signs to prove who it is: 32 bytes, of what the hub drew and where it came."""
    return hashlib.blake2b(nonce + path.encode(), digest_size=32, person=b"secfc hub").digest()


@dataclass
class Counters:
    """What a hub counts: see `secfc.deploy.metrics` for the questions that it answers."""

    pairs: int = 0
    joined: int = 0
    refused: int = 0
    forwarded: int = 0


@dataclass(eq=False)
class End:
    """One end of a pair.  pipe: once its other end is there."""

    socket: ServerConnection
    pipe: Pipe | None = None
    joined: asyncio.Event = field(default_factory=asyncio.Event)


class Hub:
    """runs: of every run, by its session, the public identities (32 bytes) of its parties."""

    def __init__(self, runs: Mapping[str, Mapping[PartyId, bytes]]) -> None:
        self.runs = runs
        self.counters = Counters()
        self._ends: dict[tuple[str, PartyId, PartyId], End] = {}
        self._pipes = Pipes(self._forwarded)

    def __repr__(self) -> str:
        return f"Hub({len(self.runs)} runs, {self.counters})"

    def held(self) -> int:
        """Bytes that wait here for parties that do not take them."""
        return self._pipes.held()

    @asynccontextmanager
    async def serving(
        self, host: str = "127.0.0.1", port: int = 0, *, tls: ssl.SSLContext | None = None
    ) -> AsyncIterator[Server]:
        """Accept parties for as long as the context is open.  Raises OSError for a port that is taken."""
        async with serve(
            self.meet, host, port, ssl=tls, max_size=PIECE, max_queue=2, compression=None, ping_interval=None,
            process_request=self.page, server_header=None,
        ) as server:  # fmt: skip
            try:
                yield server
            finally:
                for pipe in list(self._pipes.open):
                    pipe.transport.abort()

    def page(self, socket: ServerConnection, request: Any) -> Any:
        """Answer who asks whether a hub is here; its numbers are on another page (`secfc.deploy.metrics`)."""
        return socket.respond(HTTPStatus.OK, "ok\n") if request.path == "/healthz" else None

    async def meet(self, socket: ServerConnection) -> None:
        """Let a party in, wait for its peer, and forward until either end is gone."""
        where = await self.known(socket)
        if where is None:
            self.counters.refused += 1
            tell("deploy.hub", "refused", logging.WARNING)
            await socket.close(UNKNOWN, "unknown run or party, or a signature that does not fit")
            return
        session, me, peer = where
        mine = End(socket)
        if (older := self._ends.get(where)) is not None:
            # The same party again: its old connection is dead, whether it looks so or not.
            older.socket.transport.abort()
        self._ends[where] = mine
        try:
            tell("deploy.hub", "came", run=session[:8], party=me, peer=peer)
            await self.join(mine, self._ends.get((session, peer, me)))
            gone = asyncio.ensure_future(socket.wait_closed())
            joined = asyncio.ensure_future(mine.joined.wait())
            await asyncio.wait((gone, joined), return_when=asyncio.FIRST_COMPLETED)
            gone.cancel()
            joined.cancel()
            if mine.pipe is not None:
                await self.forward(mine.pipe)
        finally:
            if mine.pipe is not None:
                mine.pipe.transport.abort()
            tell("deploy.hub", "went", run=session[:8], party=me, peer=peer)
            if self._ends.get(where) is mine:
                del self._ends[where]

    async def join(self, mine: End, theirs: End | None) -> None:
        """Tell both ends that the other is there; from then on they are pipes."""
        if theirs is None or theirs.pipe is not None:
            return
        sockets = (theirs.socket, mine.socket)
        one, other = pipes = [Pipe(self._pipes, s.transport, s.connection_lost) for s in sockets]
        theirs.pipe, mine.pipe = pipes
        try:
            for socket in sockets:
                await socket.send(READY)
        except ConnectionClosed:  # both come again
            for socket in sockets:
                socket.transport.abort()
            theirs.pipe = mine.pipe = None
            return
        self._pipes.join(one, other)
        for end, pipe in ((theirs, one), (mine, other)):
            end.socket.transport.set_protocol(pipe)
            end.joined.set()

    async def known(self, socket: ServerConnection) -> tuple[str, PartyId, PartyId] | None:
        """Which end of which pair this is, None if it cannot prove that."""
        path = "" if socket.request is None else socket.request.path
        parts = [unquote(part) for part in path.split("/")[1:]]
        if len(parts) != 3:
            return None
        session, me, peer = parts
        keys = self.runs.get(session, {})
        if me not in keys or peer not in keys or me == peer:
            return None
        nonce = SystemCoins().bytes(NONCE)
        with contextlib.suppress(TimeoutError, ConnectionClosed, InvalidSignature, TypeError):
            await socket.send(nonce)
            async with asyncio.timeout(GREETING):
                signature = await socket.recv()
            if not isinstance(signature, bytes):
                return None
            Ed25519PublicKey.from_public_bytes(keys[me]).verify(signature, signed(nonce, path))
            return session, me, peer
        return None

    async def forward(self, pipe: Pipe) -> None:
        """Until this end of a pair is gone."""
        self.counters.joined += 1
        self.counters.pairs += 1
        try:
            await pipe.over
        finally:
            self.counters.pairs -= 1

    def _forwarded(self, nbytes: int) -> None:
        self.counters.forwarded += nbytes
