"""A link to a peer, over any channel: frames, what is kept until the peer took it, and signs of life.

A frame is the length of a message (8 bytes), the round of its exchange (8, signed) and the message as
`secfc.transport.wire` encodes it, all little-endian.  With a length of 0 the round says how far the sender
took what it was sent, first when a connection begins and then after every exchange; GOODBYE there is a
goodbye, and BEAT says only that the sender is there.  Any byte that arrives is a sign of life, also of a
frame that takes long.

Messages are written piece by piece as the connection takes them, and read into memory that is committed only
as bytes arrive: neither end holds a second copy.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Any

import numpy as np

from secfc.roles.exchange import FaultyParty
from secfc.transport import wire
from secfc.transport.channel import Channel
from secfc.transport.streams import channel_of

GOODBYE, BEAT = -2, -3
# Bytes that are written, or read, at a time.
PIECE = 1 << 20
# Signs of life are sent, and listened for, so many times in the longest silence that is believed.
BEATS = 5


class Silent(Exception):  # noqa: N818 - what happened
    """Nothing came of a peer for longer than one that is there is ever silent."""


class Link:
    """What is said to one peer and heard of it, over one connection after the other."""

    def __init__(
        self, channel: Channel | asyncio.StreamReader, writer: asyncio.StreamWriter | None = None
    ) -> None:
        """`Link(channel)`, or `Link(reader, writer)` over an asyncio stream."""
        self.channel = channel_of(channel, writer)
        self.kept: dict[int, Any] = {}  # what was sent, by round, until the peer took it
        self.heard = -1  # the last round that the peer took
        self.ready = False  # whether the peer has said, on this connection, how far it is
        self.leaving = False  # whether nothing will be sent any more but what is kept
        self.renewed = asyncio.Event()
        self.closed = False
        self.failure: FaultyParty | None = None
        self.begun = False  # whether anything came on this connection
        self.frames: deque[tuple[int, Any]] = deque()  # what is to be written, on this connection
        self.due_out = asyncio.Event()
        self.written = asyncio.Event()

    def renew(
        self, channel: Channel | asyncio.StreamReader, writer: asyncio.StreamWriter | None = None
    ) -> None:
        """Go on over a new connection to the same peer; the old one is closed, if it is not already."""
        fresh = channel_of(channel, writer)
        if self.closed:  # too late: everybody went on without the peer
            fresh.abort()
            return
        old, self.channel, self.ready = self.channel, fresh, False
        self.begun = False
        self.frames.clear()
        self.renewed.set()
        old.abort()

    # --- out

    def put(self, number: int, message: Any = None) -> None:
        """Write a frame, after all others; without a message, a word on the round."""
        self.frames.append((number, message))
        self.written.clear()
        self.due_out.set()

    async def speak(self, pulse: float) -> None:
        """Write frames as they are put, and a sign of life whenever there is none for a while; never ends."""
        while True:
            self.due_out.clear()
            while self.frames:
                await self.write(*self.frames.popleft())
            self.written.set()
            try:
                async with asyncio.timeout(pulse / BEATS):
                    await self.due_out.wait()
            except TimeoutError:
                await self.write(BEAT, None)

    async def write(self, number: int, message: Any) -> None:
        """Write one frame, unless its connection breaks, or is renewed, meanwhile."""
        channel = self.channel
        parts = [] if message is None else wire.buffers(message)
        size = sum(map(len, parts))
        header = size.to_bytes(8, "little") + number.to_bytes(8, "little", signed=True)
        with contextlib.suppress(OSError):  # a peer that has gone hears nothing
            for part in (header, *parts):
                for start in range(0, len(part), PIECE):
                    if self.channel is not channel:
                        return
                    await channel.write(part[start : start + PIECE])

    def hear(self, number: int) -> None:
        """The peer has taken what it was sent up to this round; on a new connection, send it the rest."""
        self.heard = max(self.heard, number)
        for known in [r for r in self.kept if r <= self.heard]:
            del self.kept[known]
        if not self.ready:
            self.ready = True
            for number, message in sorted(self.kept.items(), key=lambda item: item[0]):
                self.put(number, message)
            if self.leaving:
                self.put(GOODBYE)

    def leave(self) -> None:
        """Say goodbye, after everything else."""
        self.leaving = True
        if self.ready:
            self.put(GOODBYE)

    # --- in

    async def some(self, count: int, pulse: float) -> bytes:
        """The next bytes of the peer, at least one.  Raises Silent, EOFError, OSError."""
        # Asked several times, so that a pause of this process is not taken for one of the peer.  A peer that
        # has said nothing yet may still be reading its data.
        for _ in range(BEATS):
            if self.renewed.is_set():  # the rest of a frame comes on no other connection than its beginning
                raise EOFError
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pulse / BEATS if self.begun else None):
                    data = await self.channel.read(count)
                if not data:
                    raise EOFError
                self.begun = True
                return data
        raise Silent

    async def exactly(self, count: int, pulse: float) -> memoryview:
        """So many bytes; nobody else changes them."""
        # Memory of this size is promised at once and used only as far as bytes come.
        data = np.empty(count, np.uint8).data
        at = 0
        while at < count:
            some = await self.some(min(PIECE, count - at), pulse)
            data[at : at + len(some)] = some
            at += len(some)
        return data

    async def frame(self, maximum: int, pulse: float) -> tuple[int, int, memoryview | None]:
        """Size, number and bytes of the next frame; no bytes if there are none, or more than the maximum."""
        header = await self.exactly(16, pulse)
        size = int.from_bytes(header[:8], "little")
        number = int.from_bytes(header[8:], "little", signed=True)
        return size, number, await self.exactly(size, pulse) if 0 < size <= maximum else None
