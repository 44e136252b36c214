"""The hub: joins the two ends of every pair of parties, and forwards bytes between them.

Every party opens one WebSocket for each of its peers, all outwards, so that no pair waits for another.  It
says who it is and whom it waits for, and signs that with its identity, over what the hub drew; the hub knows
the public keys of a run, and nothing else.  When both ends of a pair are there, it tells them, and from then
on it reads from one as fast as the other takes (`secfc.deploy.hub`): of bytes that it cannot read it holds
48 MiB at most, however many pairs there are.

What the hub learns: who takes part, when, and how much is said between whom.  What it can do: delay, also for
good; not read (`secfc.transport.sealed`), alter, drop, repeat or make up (`ConnectionKeys`).  It has no key,
and no state that a run needs: if it is restarted, parties come back, and go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import ssl
import time
from asyncio.sslproto import SSLProtocol
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import quote, unquote

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from field.secrets.coins import SystemCoins
from secfc.deploy.websocket import BINARY, CLOSE, PIECE, PING, PONG, Frames, NoFrame, make_frame
from secfc.logs import log_event
from secfc.roles.exchange import PartyId

# --------------------------------------------------------------------------------------------------
# What a hub does with a joined pair: what one end says, the other hears, piece by piece.
#
# A hub that gathered messages would hold megabytes a pair.  Here bytes leave as they come: of each direction
# it holds what it has just read and what the other end has not taken yet, and reads no further once that is
# more than the direction's part of `TOTAL`.  So a slow reader slows whoever writes to it, and nobody else.

# Bytes that a hub holds, of all pairs together; of one direction, at most; and what it reads at a time.
TOTAL, MOST, LEAST, READ = 3 << 24, 1 << 20, 1 << 12, 1 << 18
# Bytes of TLS that each connection reads at a time, which Python keeps room for: 256 KiB by itself.
TLS_PIECE = 1 << 15
# Seconds in which the other end of a pair that is over must have taken the rest.
LINGER = 10.0
# What each end says first, once it hears pieces and no messages any more.
GO = b"\x02"


@dataclass(eq=False)
class ForwardingPipes:
    """All directions of a hub.  counted: told of bytes handed on.  given: how many may wait of each."""

    counted: Callable[[int], Any]
    open: set[ForwardingPipe] = field(default_factory=set)
    given: int = 0
    # One for all, as what was read is handed on at once.
    buffer: memoryview = field(default_factory=lambda: memoryview(bytearray(READ)), repr=False)

    def share(self) -> tuple[int, int]:
        """Bytes of a direction that may wait, and that are read at a time."""
        # For a power of two of them, so that a thousand that come change it ten times.
        part = TOTAL // (1 << max(0, len(self.open) - 1).bit_length())
        read = max(LEAST, min(READ, part // 2))
        return max(LEAST, min(MOST, part) - read), read

    def join(self, one: ForwardingPipe, other: ForwardingPipe) -> None:
        """Two ends of a pair."""
        one.other, other.other = other, one
        self.open |= {one, other}
        self.limit({one, other})

    def limit(self, new: Collection[ForwardingPipe] = ()) -> None:
        """Give each direction its part: new ones alone, where that of the others has not changed."""
        high, _ = self.share()
        for pipe in new if high == self.given else self.open:
            pipe.transport.set_write_buffer_limits(high=high)
        self.given = high

    def held(self) -> int:
        """Bytes that wait now."""
        return sum(pipe.transport.get_write_buffer_size() for pipe in self.open)


class ForwardingPipe(asyncio.BufferedProtocol):
    """One end of a pair.  over: set when its connection is gone."""

    def __init__(
        self, pipes: ForwardingPipes, transport: Any, ended: Callable[[Exception | None], None]
    ) -> None:
        self.pipes, self.ended = pipes, ended
        self.transport = cast(asyncio.Transport, transport)
        self.other: ForwardingPipe | None = None
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.going = self.closing = self.paused = False
        self.early = b""  # what this end said before the other was ready to hear it
        self._frames = Frames(masked=True)

    def __repr__(self) -> str:
        return f"Pipe(going={self.going}, over={self.over.done()})"

    # --- what comes of this end

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.pipes.buffer[: self.pipes.share()[1]]

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for code, piece in self._frames.feed(self.pipes.buffer[:nbytes]):
                if code == BINARY:
                    self._said(piece)
                elif code == PING:
                    self.transport.write(make_frame(piece, code=PONG))
                elif code == CLOSE:
                    self._closed(piece)
        except NoFrame:
            self.transport.abort()

    def _said(self, piece: bytes) -> None:
        if not self.going:
            if piece[:1] != GO:
                raise NoFrame("this is no end of a pair")
            self.going, piece = True, piece[1:]
            if self.other is not None and self.other.going:
                self._hears()
                self.other._hears()
        if not piece or self.closing or self.other is None:
            return
        if not self.other.going:
            self.early += piece
            self.transport.pause_reading()
            return
        self._hand_on(piece)

    def _hand_on(self, piece: bytes) -> None:
        if self.other is not None and not self.other.transport.is_closing():
            self.other.transport.write(make_frame(piece))
            self.pipes.counted(len(piece))

    def _hears(self) -> None:
        """Both are ready: what the other said early comes first."""
        if self.other is not None and self.other.early:
            self.other._hand_on(self.other.early)
            self.other.early = b""
            if not self.paused:
                self.other.transport.resume_reading()

    def _closed(self, reason: bytes) -> None:
        """This end has said everything.  What it said is written before the word that it did."""
        first, self.closing = not self.closing, True
        if not self.transport.is_closing():
            self.transport.write(make_frame(reason[:2], code=CLOSE))
            self.transport.close()
        if first and self.other is not None:
            self.other.finish()

    def finish(self) -> None:
        """The other end is over: this one may take the rest, and nothing more is heard of it."""
        if self.closing:
            return
        self.closing = True
        if not self.transport.is_closing():
            self.transport.write(make_frame(b"\x03\xe8", code=CLOSE))
            asyncio.get_running_loop().call_later(LINGER, self.transport.abort)

    # --- what the other end says is written here

    def pause_writing(self) -> None:
        self.paused = True
        if self.other is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        self.paused = False
        if self.other is not None and not self.other.transport.is_closing():
            self.other.transport.resume_reading()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.pipes.open.discard(self)
        if not self.closing and self.other is not None:
            self.other.transport.abort()
        elif self.other is not None and not self.other.transport.is_closing():
            self.other.transport.resume_reading()
        self.pipes.limit()
        if not self.over.done():
            self.over.set_result(None)
        self.ended(exc)


# --------------------------------------------------------------------------------------------------

READY = b"\x01"
NONCE = 32
# Seconds in which who connects must say who it is.
GREETING = 10.0
# Connections that have not done so, of one address and of all.
OF_AN_ADDRESS, OF_ALL = 1 << 10, 1 << 11
# Numbers of refusals in the closing frame, the second of RFC 6455's registry: try again later.
UNKNOWN, LATER = 4001, 1013
REFUSALS = {
    UNKNOWN: "unknown run or party, or a signature that does not fit",
    LATER: f"nobody said within {GREETING:g} s who comes",
}


def waiting_path(session: str, me: PartyId, peer: PartyId) -> str:
    """Where party `me` waits for its peer, in a run."""
    return "/" + "/".join(quote(part, safe="") for part in (session, me, peer))


def challenge_to_sign(nonce: bytes, path: str) -> bytes:
    """What a party signs to prove who it is: 32 bytes, of what the hub drew and where it came."""
    return hashlib.blake2b(nonce + path.encode(), digest_size=32, person=b"secfc hub").digest()


@dataclass
class Counters:
    """What a hub counts: see `secfc.deploy.metrics` for the questions that it answers."""

    pairs: int = 0
    joined: int = 0
    refused: int = 0
    forwarded: int = 0
    turned_away: int = 0


class Strangers:
    """Connections that have not said yet who they are, by address: so many at most of one, and in all.

    Whoever proves to be a party counts no longer, so that a thousand of them may share one address.
    """

    def __init__(self) -> None:
        self.by_address: Counter[str] = Counter()

    @property
    def now(self) -> int:
        """How many there are."""
        return self.by_address.total()

    def enter(self, address: str) -> bool:
        """One more of this address, unless there are too many."""
        if self.by_address[address] >= OF_AN_ADDRESS or self.now >= OF_ALL:
            return False
        self.by_address[address] += 1
        return True

    def leave(self, address: str) -> None:
        """One of this address is known now, or gone."""
        self.by_address[address] -= 1
        if not self.by_address[address]:
            del self.by_address[address]


class Arriving(ServerConnection):
    """A connection that is counted until it is known, or aborted at once where there are too many."""

    hub: Hub
    address: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        address = str((transport.get_extra_info("peername") or ("",))[0])
        if not self.hub.strangers.enter(address):
            self.hub.counters.turned_away += 1
            cast(asyncio.Transport, transport).abort()
            return
        self.address = address
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if hasattr(self, "transport"):
            self.become_known()
            super().connection_lost(exc)

    def become_known(self) -> None:
        """Count it no longer."""
        if self.address is not None:
            self.hub.strangers.leave(self.address)
            self.address = None


@dataclass(eq=False)
class HubEnd:
    """One end of a pair.  pipe: once its other end is there."""

    socket: ServerConnection
    pipe: ForwardingPipe | None = None
    joined: asyncio.Event = field(default_factory=asyncio.Event)
    since: float = field(default_factory=time.monotonic)


class Hub:
    """runs: of every run, by its session, the public identities (32 bytes) of its parties.  revoked: those
    that are not let in, whatever a run says.
    """

    def __init__(self, runs: Mapping[str, Mapping[PartyId, bytes]]) -> None:
        self.runs = runs
        self.counters, self.strangers, self.revoked = Counters(), Strangers(), set[bytes]()
        self._ends: dict[tuple[str, PartyId, PartyId], HubEnd] = {}
        self._pipes = ForwardingPipes(self._forwarded)

    def __repr__(self) -> str:
        return f"Hub({len(self.runs)} runs, {self.counters})"

    def revoke_keys(self, keys: Collection[bytes]) -> None:
        """Let nobody in with these identities any more, and cut the connections of whoever is there."""
        self.revoked |= set(keys)
        for (session, me, _), end in list(self._ends.items()):
            if self.runs[session][me] in self.revoked:
                end.socket.transport.abort()

    def held(self) -> int:
        """Bytes that wait here for parties that do not take them."""
        return self._pipes.held()

    def waits(self) -> list[float]:
        """Since how many seconds each end waits for its peer."""
        return [time.monotonic() - end.since for end in self._ends.values() if end.pipe is None]

    @asynccontextmanager
    async def serving(
        self, host: str = "127.0.0.1", port: int = 0, *, tls: ssl.SSLContext | None = None
    ) -> AsyncIterator[Server]:
        """Accept parties for as long as the context is open.  Raises OSError for a port that is taken."""
        greet: dict[str, Any] = {} if tls is None else {"ssl_handshake_timeout": GREETING}
        SSLProtocol.max_size = TLS_PIECE
        arriving = type("ArrivingHere", (Arriving,), {"hub": self})
        async with serve(
            self.meet, host, port, ssl=tls, max_size=PIECE, max_queue=2, compression=None, ping_interval=None,
            process_request=self.page, server_header=None, open_timeout=GREETING, create_connection=arriving,
            **greet,
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
        try:
            where, why = await self.known(socket), UNKNOWN
        except TimeoutError:  # of a machine, or a hub, that has much to do: it may come again
            where, why = None, LATER
        if where is None:
            self.counters.refused += 1
            log_event("deploy.hub", "refused", logging.WARNING)
            await socket.close(why, REFUSALS[why])
            return
        session, me, peer = where
        cast(Arriving, socket).become_known()
        mine = HubEnd(socket)
        if (older := self._ends.get(where)) is not None:
            # The same party again: its old connection is dead, whether it looks so or not.
            older.socket.transport.abort()
        self._ends[where] = mine
        try:
            log_event("deploy.hub", "came", run=session[:8], party=me, peer=peer)
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
            log_event("deploy.hub", "went", run=session[:8], party=me, peer=peer)
            if self._ends.get(where) is mine:
                del self._ends[where]

    async def join(self, mine: HubEnd, theirs: HubEnd | None) -> None:
        """Tell both ends that the other is there; from then on they are pipes."""
        if theirs is None or theirs.pipe is not None:
            return
        sockets = (theirs.socket, mine.socket)
        one, other = pipes = [ForwardingPipe(self._pipes, s.transport, s.connection_lost) for s in sockets]
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
        """Which end of which pair this is, None if it cannot prove that.  Raises TimeoutError."""
        path = "" if socket.request is None else socket.request.path
        parts = [unquote(part) for part in path.split("/")[1:]]
        if len(parts) != 3:
            return None
        session, me, peer = parts
        keys = self.runs.get(session, {})
        if me not in keys or peer not in keys or me == peer or keys[me] in self.revoked:
            return None
        nonce = SystemCoins().bytes(NONCE)
        with contextlib.suppress(ConnectionClosed, InvalidSignature, TypeError):
            await socket.send(nonce)
            async with asyncio.timeout(GREETING):
                signature = await socket.recv()
            if not isinstance(signature, bytes):
                return None
            Ed25519PublicKey.from_public_bytes(keys[me]).verify(signature, challenge_to_sign(nonce, path))
            return session, me, peer
        return None

    async def forward(self, pipe: ForwardingPipe) -> None:
        """Until this end of a pair is gone."""
        self.counters.joined += 1
        self.counters.pairs += 1
        try:
            await pipe.over
        finally:
            self.counters.pairs -= 1

    def _forwarded(self, nbytes: int) -> None:
        self.counters.forwarded += nbytes
