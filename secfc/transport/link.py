"""A link to a peer, over any channel: frames, what is kept until the peer took it, and signs of life.

A frame is the length of a message (8 bytes), the round of its exchange (8, signed) and the message as
`secfc.transport.wire` encodes it, all little-endian.  With a length of 0 the round says how far the sender
took what it was sent, first when a connection begins and then after every exchange; GOODBYE there is a
goodbye, BEAT says only that the sender is there, and AGAIN asks for what the peer said and the sender did
not take.  KEEP less a round says that the sender, once resumed, will ask for what is newer than that round
again, however much of it was taken.  NOTE is the round of a message beside all exchanges: what a party that
waits has to say, the last of it again on each connection.  Any byte that arrives is a sign of life, also of a
frame that takes long.

Messages are written piece by piece as the connection takes them, and read into memory that is committed only
as bytes arrive: neither end holds a second copy.  What is short leaves together.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from secfc.roles.exchange import END
from secfc.transport import wire
from secfc.transport.channel import Channel, channel_of

GOODBYE, BEAT, AGAIN, NOTE, KEEP = -2, -3, -4, -5, -8
# Bytes of a note, at most.
SHORT = 1 << 15
# Bytes that are written, or read, at a time; and what is gathered to leave together.
PIECE, TOGETHER = 1 << 20, 1 << 16
# Signs of life are sent, and listened for, so many times in the longest silence that is believed; after half
# of it the connection is doubted.
BEATS = 6
# Bytes of as many signs of life and words on rounds as come in a part of that.
LIFE = 64


class Link:
    """What is said to one peer and heard of it, over one connection after the other."""

    def __init__(
        self, channel: Channel | asyncio.StreamReader, writer: asyncio.StreamWriter | None = None
    ) -> None:
        """`Link(channel)`, or `Link(reader, writer)` over an asyncio stream."""
        self.channel = channel_of(channel, writer)
        self.kept: dict[int, Any] = {}  # what was sent, by round, until the peer took it
        self.heard = -1  # the last round that the peer took
        self.repeated = -1  # the last round that was said again because the peer asked
        self.until = END  # the last round of which the peer needs nothing once it is resumed
        self.ready = False  # whether the peer has said, on this connection, how far it is
        self.leaving = False  # whether nothing will be sent any more but what is kept
        self.renewed = asyncio.Event()
        self.closed = False
        self.begun = False  # whether anything came on this connection
        self.sane = False  # whether a whole frame did
        self.listening = False  # whether the next bytes are awaited
        self.came = 0  # bytes that came since that was last asked
        self.inside = False  # whether the next bytes are of a message
        self.doubted = asyncio.Event()  # long silent: whoever can had better renew the connection
        self.away = False  # whether the connection broke, and the peer is awaited on another
        self.given_up = False  # whether this party goes on without the peer
        self.done = False  # whether the peer said goodbye
        self.idle = True  # whether nothing was written since that was last asked
        self.frames: deque[tuple[int, Any]] = deque()  # what is to be written, on this connection
        self.due_out = asyncio.Event()
        self.written = asyncio.Event()
        self.note: Any = None  # what this party says beside all exchanges
        self.told: Callable[[Any], None] = lambda note: None  # is told what the peer says so
        self.sent = self.received = 0  # bytes, over all connections

    def renew_connection(
        self, channel: Channel | asyncio.StreamReader, writer: asyncio.StreamWriter | None = None
    ) -> None:
        """Go on over a new connection to the same peer; the old one is closed, if it is not already.

        Whoever calls this knows that it is the same peer: a stranger's connection must never come here.
        """
        fresh = channel_of(channel, writer)
        if self.closed:  # too late: everybody went on without the peer
            fresh.abort()
            return
        old, self.channel, self.ready = self.channel, fresh, False
        self.begun = self.sane = False
        self.doubted.clear()
        self.frames.clear()
        self.renewed.set()
        old.abort()

    def give_up(self) -> None:
        """Go on without the peer: it is lost, whether or not it is there."""
        self.given_up = True
        self.renewed.set()
        self.channel.abort()

    # --- out

    def say(self, note: Any) -> None:
        """Say this beside all exchanges, in place of what was said so before."""
        if note is not self.note:
            self.note = note
            if self.ready:
                self.put(NOTE, note)

    def put(self, number: int, message: Any = None) -> None:
        """Write a frame, after all others; without a message, a word on the round."""
        self.frames.append((number, message))
        self.written.clear()
        self.due_out.set()

    async def write_frames(self) -> None:
        """Write frames as they are put; never ends."""
        while True:
            self.due_out.clear()
            while self.frames:
                await self.write()
            self.written.set()
            await self.due_out.wait()

    async def write(self) -> None:
        """Write the frames that are due, unless their connection breaks, or is renewed, meanwhile."""
        channel, short = self.channel, bytearray()
        self.idle = False
        with contextlib.suppress(OSError):  # a peer that has gone hears nothing
            while self.frames and self.channel is channel:
                for part in frame_parts(*self.frames.popleft()):
                    self.sent += len(part)
                    if len(short) + len(part) <= TOGETHER:
                        short += part
                        continue
                    await channel.write(bytes(short))
                    short.clear()
                    for start in range(0, len(part), PIECE):
                        if self.channel is not channel:
                            return
                        await channel.write(part[start : start + PIECE])
            if short and self.channel is channel:
                await channel.write(bytes(short))

    async def watch(self, pulse: float) -> None:
        """Give signs of life, and break the connection of a peer that gives none for so long; never ends."""
        quiet = 0
        while True:
            await asyncio.sleep(pulse / BEATS)
            if self.idle and self.written.is_set():
                self.put(BEAT)
            # Counted, and not taken from a clock, so that a pause of this process is not taken for one of the
            # peer.  A peer that has said nothing yet may still be reading its data.
            # Within a message no sign of life stands, so what is no more than these is the end of a message
            # that never comes: whoever carries it cut it off.
            few = self.came <= (LIFE if self.inside else 0)
            quiet = quiet + 1 if self.listening and self.begun and few else 0
            self.idle, self.came = True, 0
            if 2 * quiet >= BEATS:
                self.doubted.set()
            if quiet >= BEATS:
                self.channel.abort()

    def hear(self, number: int) -> None:
        """The peer has taken what it was sent up to this round; on a new connection, send it the rest."""
        # A peer that is resumed may ask for what it took before.
        self.heard = max(self.heard, number) if self.ready else number
        self.forget_messages()
        if not self.ready:
            self.ready = True
            if self.note is not None:
                self.put(NOTE, self.note)
            for later, message in sorted(self.kept.items(), key=lambda item: item[0]):
                if later > self.heard:
                    self.put(later, message)
            if self.leaving:
                self.put(GOODBYE)

    def take_word(self, number: int) -> None:
        """A frame without a message: how far the peer is, or what it asks for, or a sign of life."""
        if number >= -1:
            self.hear(number)
        elif number == AGAIN:
            self.repeat_kept()
        elif number < NOTE:
            self.keep_after(KEEP - number)

    def keep_after(self, number: int) -> None:
        """Keep what is newer than this round, though the peer has taken it: once resumed it needs that."""
        self.until = number
        self.forget_messages()

    def forget_messages(self) -> None:
        """Drop what the peer has taken and never needs again."""
        for known in [r for r in self.kept if r <= min(self.heard, self.until)]:
            del self.kept[known]

    def repeat_kept(self) -> None:
        """Say once more what the peer, which asks for it, has not taken: each message once, however often it
        asks.  The same bytes to the same peer tell nobody more than before.
        """
        for number, message in sorted(self.kept.items(), key=lambda item: item[0]):
            if number > max(self.repeated, self.heard):
                self.repeated = number
                self.put(number, message)

    def say_goodbye(self) -> None:
        """Say goodbye, after everything else."""
        self.leaving = True
        if self.ready:
            self.put(GOODBYE)

    # --- in

    async def read_some(self, count: int) -> bytes:
        """The next bytes of the peer, at least one.  Raises EOFError, OSError."""
        if self.renewed.is_set():  # the rest of a frame comes on no other connection than its beginning
            raise EOFError
        self.listening = True
        try:
            data = await self.channel.read(count)
        finally:
            self.listening = False
        if not data or self.renewed.is_set():
            raise EOFError
        self.begun = True
        self.came += len(data)
        self.received += len(data)
        return data

    async def read_exactly(self, count: int) -> memoryview:
        """So many bytes; nobody else changes them."""
        # Memory of this size is promised at once and used only as far as bytes come.
        data = np.empty(count, np.uint8).data
        at = 0
        while at < count:
            some = await self.read_some(min(PIECE, count - at))
            data[at : at + len(some)] = some
            at += len(some)
        return data

    async def read_message(self, size: int) -> memoryview:
        """The bytes of a message, of which some must come all the time."""
        self.inside = True
        try:
            return await self.read_exactly(size)
        finally:
            self.inside = False

    async def header(self) -> tuple[int, int]:
        """Size and number of the next frame."""
        header = await self.read_exactly(16)
        return int.from_bytes(header[:8], "little"), int.from_bytes(header[8:], "little", signed=True)


def frame_parts(number: int, message: Any) -> Iterator[bytes | memoryview]:
    """The parts of a frame."""
    parts = [] if message is None else wire.buffers(message)
    size = sum(map(len, parts))
    yield size.to_bytes(8, "little") + number.to_bytes(8, "little", signed=True)
    yield from parts
