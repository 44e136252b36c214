"""The two ends of a pair, each a local connection, joined by calls between the processes at both ends.

A party's process (`secfc.deploy.local`) connects here once for each peer.  A connection has an identity drawn
here, and a pair is two of these: bytes go to the connection for which they were meant, or nowhere.  Whenever
either connection is gone, so is the other, and both parties come again: what was under way they send again
(`secfc.transport.link`).

Bytes travel in pieces, some at the same time, each acknowledged when the other party's connection has taken
it; a slow reader stops its own pair only.  Nothing here knows FLARE: calls are a function that is handed in.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from field.secrets.coins import SystemCoins
from secfc.deploy.local import READY, peer_of
from secfc.roles.exchange import PartyId

# Bytes of a piece, and pieces of one direction of a pair that are under way: together what a pair holds.
PIECE, WINDOW = 1 << 20, 8
# Seconds before a peer that could not be called is called again.
AGAIN = 0.5

Call = Callable[..., Awaitable[Any]]


@dataclass(eq=False)
class BridgeEnd:
    """One connection of this process's party, to one peer.  other: the connection that it is joined with."""

    name: bytes
    writer: asyncio.StreamWriter
    other: asyncio.Future[bytes]
    sent: int = 0
    taken: int = 0
    news: asyncio.Condition = field(default_factory=asyncio.Condition)

    def joined(self, other: bytes) -> bool:
        """Whether it is joined with this one; if it was joined with none, now it is."""
        if not self.other.done():
            self.other.set_result(other)
            self.writer.write(READY)
        return not self.other.cancelled() and self.other.result() == other

    def gone(self) -> None:
        self.other.cancel()
        self.writer.transport.abort()


class Bridge:
    """One party's ends.  call: `await call(peer, method, *arguments)` is that method of the peer's bridge.

    Its methods hello, deliver and bye are for peers: whoever hands calls to them vouches for who calls.
    Raises OSError where a peer cannot be called.
    """

    def __init__(self, call: Call) -> None:
        self.call = call
        self.ends: dict[PartyId, BridgeEnd] = {}
        self.bytes = 0  # of pieces that were acknowledged
        self._serving: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"Bridge({len(self.ends)} ends, {self.bytes} bytes)"

    async def listen(self, path: Path) -> asyncio.Server:
        """Let the party in at this socket."""

        def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(self.serve(reader, writer))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)

        return await asyncio.start_unix_server(serve, path, limit=2 * PIECE)

    async def close(self) -> None:
        """Break all connections, and wait until peers have heard of it, or cannot."""
        for end in list(self.ends.values()):
            end.gone()
        await asyncio.gather(*self._serving)

    # --- the party's side

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of the party, from its first line to its end."""
        peer = await peer_of(reader)
        if peer is None:
            writer.transport.abort()
            return
        # What is unsent here a peer has not acknowledged: little of it, so that a slow party is felt.
        writer.transport.set_write_buffer_limits(high=PIECE)
        end = BridgeEnd(SystemCoins().bytes(16), writer, asyncio.get_running_loop().create_future())
        if (older := self.ends.get(peer)) is not None:
            older.gone()
        self.ends[peer] = end
        try:
            reading = asyncio.create_task(self.forward(peer, end, reader))
            meeting = asyncio.create_task(self.meet(peer, end))
            await asyncio.wait([reading])
            meeting.cancel()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                reading.result()
        finally:
            other = end.other.result() if end.other.done() and not end.other.cancelled() else b""
            end.gone()
            async with end.news:
                end.news.notify_all()
            if self.ends.get(peer) is end:
                del self.ends[peer]
            if other:
                with contextlib.suppress(OSError):
                    await self.call(peer, "bye", end.name, other)

    async def meet(self, peer: PartyId, end: BridgeEnd) -> None:
        """Tell the peer that this end is there, until it has heard."""
        while not end.other.done():
            try:
                theirs = await self.call(peer, "hello", end.name)
            except OSError:
                await asyncio.sleep(AGAIN)
                continue
            if theirs:
                end.joined(theirs)
            return

    async def forward(self, peer: PartyId, end: BridgeEnd, reader: asyncio.StreamReader) -> None:
        """Hand on what the party writes, until it ends or a piece is not taken."""
        window = asyncio.Semaphore(WINDOW)
        failed: list[BaseException] = []

        async def piece(number: int, data: bytes) -> None:
            try:
                if not await self.call(peer, "deliver", end.name, end.other.result(), number, data):
                    raise ConnectionResetError("the peer's connection is another one now")
                self.bytes += len(data)
            except (OSError, asyncio.CancelledError) as error:
                failed.append(error)
                end.writer.transport.abort()
            finally:
                window.release()

        tasks: set[asyncio.Task[None]] = set()
        # Before the pair is joined a party says nothing; it may leave, which is noticed here.
        while data := await reader.read(PIECE):
            await asyncio.shield(end.other)
            await window.acquire()
            if failed:
                return
            task = asyncio.create_task(piece(end.sent, data))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            end.sent += 1
        # A party that closes has said all: it is delivered before the peer hears of the end.
        if tasks:
            await asyncio.wait(tasks)

    # --- the peer's side

    async def hello(self, peer: PartyId, theirs: bytes) -> bytes:
        """A new connection of the peer is there: mine, if it is joined with that now, or nothing."""
        end = self.ends.get(peer)
        if end is None:
            return b""
        if not end.joined(theirs):
            end.gone()  # it was joined with an older one
            return b""
        return end.name

    async def deliver(self, peer: PartyId, theirs: bytes, mine: bytes, number: int, data: bytes) -> bool:
        """A piece of what the peer says: whether it was for the connection that is there, and is taken."""
        end = self.ends.get(peer)
        if end is None or end.name != mine or not end.joined(theirs) or number >= end.taken + 2 * WINDOW:
            return False
        async with end.news:
            await end.news.wait_for(lambda: end.taken == number or end.writer.is_closing())
            try:
                if end.writer.is_closing():
                    return False
                end.writer.write(data)
                await end.writer.drain()
            except OSError:
                return False
            finally:
                end.taken += 1
                end.news.notify_all()
        return True

    async def bye(self, peer: PartyId, theirs: bytes, mine: bytes) -> None:
        """The peer's connection is gone, after all that it said: so is the one that was joined with it."""
        end = self.ends.get(peer)
        if end is not None and end.name == mine and end.other.done():
            end.writer.close()  # once the party's connection has taken what was said
