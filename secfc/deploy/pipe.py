"""What a hub does with a joined pair: what one end says, the other hears, piece by piece.

A hub that gathered messages would hold megabytes a pair.  Here bytes leave as they come: of each direction it
holds what it has just read and what the other end has not taken yet, and reads no further once that is more
than the direction's part of `TOTAL`.  So a slow reader slows whoever writes to it, and nobody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from secfc.deploy.frames import BINARY, CLOSE, PING, PONG, Frames, NoFrame, framed

# Bytes that a hub holds, of all pairs together; of one direction, at most; and what it reads at a time.
TOTAL, MOST, LEAST, READ = 3 << 24, 1 << 20, 1 << 12, 1 << 18
# Seconds in which the other end of a pair that is over must have taken the rest.
LINGER = 10.0
# What each end says first, once it hears pieces and no messages any more.
GO = b"\x02"


@dataclass(eq=False)
class Pipes:
    """All directions of a hub: how much each may hold.  counted: told of bytes that were handed on."""

    counted: Callable[[int], Any]
    open: set[Pipe] = field(default_factory=set)
    # One for all, as what was read is handed on at once.
    buffer: memoryview = field(default_factory=lambda: memoryview(bytearray(READ)), repr=False)

    def share(self) -> tuple[int, int]:
        """Bytes of a direction that may wait, and that are read at a time."""
        part = TOTAL // max(1, len(self.open))
        read = max(LEAST, min(READ, part // 2))
        return max(LEAST, min(MOST, part) - read), read

    def join(self, one: Pipe, other: Pipe) -> None:
        """Two ends of a pair."""
        one.other, other.other = other, one
        self.open |= {one, other}
        self.limit()

    def limit(self) -> None:
        """Give each direction its part."""
        high, _ = self.share()
        for pipe in self.open:
            pipe.transport.set_write_buffer_limits(high=high)

    def held(self) -> int:
        """Bytes that wait now."""
        return sum(pipe.transport.get_write_buffer_size() for pipe in self.open)


class Pipe(asyncio.BufferedProtocol):
    """One end of a pair.  over: set when its connection is gone."""

    def __init__(self, pipes: Pipes, transport: Any, ended: Callable[[Exception | None], None]) -> None:
        self.pipes, self.ended = pipes, ended
        self.transport = cast(asyncio.Transport, transport)
        self.other: Pipe | None = None
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
                    self.transport.write(framed(piece, code=PONG))
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
            self.other.transport.write(framed(piece))
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
            self.transport.write(framed(reason[:2], code=CLOSE))
            self.transport.close()
        if first and self.other is not None:
            self.other.finish()

    def finish(self) -> None:
        """The other end is over: this one may take the rest, and nothing more is heard of it."""
        if self.closing:
            return
        self.closing = True
        if not self.transport.is_closing():
            self.transport.write(framed(b"\x03\xe8", code=CLOSE))
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
