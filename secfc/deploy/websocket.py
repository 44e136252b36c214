"""A WebSocket as a channel: what passes firewalls and proxies that let HTTPS out and nothing in.

Frames are those of RFC 6455, section 5, as far as a stream of bytes needs them.  Where they are cut means
nothing.  What leaves is one binary frame at a time; what comes is handed on as it arrives, not first gathered
to whole messages, so nobody holds more than what was just read.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterator
from typing import Any, cast

from field.secrets.coins import SystemCoins

try:
    from websockets.speedups import apply_mask
except ImportError:  # where its wheel has no compiled part
    from websockets.utils import apply_mask

CONTINUED, BINARY, CLOSE, PING, PONG = 0, 2, 8, 9, 10
# Bytes of one frame, at most.
PIECE = 1 << 20


class NoFrame(ValueError):  # noqa: N818 - what came
    """These bytes are no frame of a stream of bytes."""


def make_frame(data: bytes | bytearray | memoryview, mask: bytes = b"", code: int = BINARY) -> bytes:
    """One frame of up to 1 MiB; who goes out to a hub masks, with four bytes that nobody can foresee."""
    size, masked = len(data), 0x80 if mask else 0
    first = 0x80 | code
    if size < 126:
        head = bytes((first, masked | size))
    elif size < 1 << 16:
        head = bytes((first, masked | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((first, masked | 127)) + size.to_bytes(8, "big")
    return b"".join((head, mask, apply_mask(data, mask) if mask else data))


class Frames:
    """Takes frames apart, as they come.  masked: whether the other end must mask, as who goes out does."""

    def __init__(self, masked: bool) -> None:
        self._masked = masked
        self._head = bytearray()
        self._left, self._mask, self._code = 0, b"", BINARY
        self._control = bytearray()

    def feed(self, data: memoryview) -> Iterator[tuple[int, bytes]]:
        """What these bytes bring: pieces of the stream (BINARY), and whole control frames.

        Raises NoFrame.
        """
        while len(data):
            if not self._left:
                data = self._begin(data)
                if self._head:  # which is not complete
                    return
                if not self._left and self._code >= CLOSE:
                    yield self._code, b""
                continue
            piece, data = data[: self._left], data[self._left :]
            self._left -= len(piece)
            body = apply_mask(piece, self._mask) if self._masked else bytes(piece)
            turn = len(piece) % 4
            self._mask = self._mask[turn:] + self._mask[:turn]
            if self._code < CLOSE:
                yield BINARY, body
                continue
            self._control += body
            if not self._left:
                yield self._code, bytes(self._control)
                self._control.clear()

    def _begin(self, data: memoryview) -> memoryview:
        """Take what is missing of a head; the rest."""
        head = self._head
        while len(data) and len(head) < (size := self._size()):
            taken = data[: size - len(head)]
            head += taken
            data = data[len(taken) :]
        if len(head) < self._size():
            return data
        code, length = head[0] & 0x0F, head[1] & 0x7F
        if head[0] & 0x70 or bool(head[1] & 0x80) != self._masked:
            raise NoFrame("a frame is compressed, or masked by the wrong end")
        if code not in (CONTINUED, BINARY, CLOSE, PING, PONG):
            raise NoFrame("a frame is of no kind that a stream of bytes has")
        end = len(head) - (4 if self._masked else 0)
        if length >= 126:
            length = int.from_bytes(head[2:end], "big")
        if length > (PIECE if code < CLOSE else 125):
            raise NoFrame(f"a frame of {length} bytes came, {PIECE} are allowed")
        self._left, self._mask, self._code = length, bytes(head[end:]), code
        head.clear()
        return data

    def _size(self) -> int:
        """How long this head is, as far as one can tell."""
        head = self._head
        if len(head) < 2:
            return 2
        return 2 + {126: 2, 127: 8}.get(head[1] & 0x7F, 0) + (4 if head[1] & 0x80 else 0)


# Bytes that wait to be read, before the other end is made to wait.
ROOM = 1 << 20
# Seconds in which the hub must answer that it heard the end.
CLOSING = 5.0


class Socket(asyncio.Protocol):
    """One end of a pair (`secfc.transport.channel.Channel`): what a connection is after the greetings.

    ended: set as soon as nothing more can be read, or it was closed or broken here.
    """

    def __init__(self, transport: Any) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.ended = asyncio.Event()
        self._frames = Frames(masked=False)
        self._pieces: deque[memoryview] = deque()
        self._waiting = 0  # bytes of them
        self._reading: asyncio.Future[None] | None = None
        self._writing: asyncio.Future[None] | None = None
        self._lost = asyncio.get_running_loop().create_future()
        self._over = self._broken = self._stopped = False
        self._coins = SystemCoins()

    @classmethod
    def take_over(cls, transport: Any, ended: Any) -> Socket:
        """The channel of a connection on which nothing is under way; `ended` is told when it is gone."""
        socket = cls(transport)
        socket._lost.add_done_callback(lambda lost: ended(lost.result()))
        transport.set_protocol(socket)
        return socket

    def __repr__(self) -> str:
        return f"Socket(ended={self.ended.is_set()})"

    # --- of the channel

    async def read(self, count: int) -> bytes:
        while not self._pieces and not self._over:
            self._reading = asyncio.get_running_loop().create_future()
            try:
                await self._reading
            finally:
                self._reading = None
        if not self._pieces or self._broken:
            if self._broken and not self.ended.is_set():
                raise ConnectionResetError("the connection broke")
            return b""
        first = self._pieces.popleft()
        if len(first) > count:
            self._pieces.appendleft(first[count:])
        data = bytes(first[:count])
        self._waiting -= len(data)
        if self._stopped and self._waiting <= ROOM // 2:
            self._stopped = False
            self.transport.resume_reading()
        return data

    async def write(self, data: bytes | memoryview) -> None:
        for start in range(0, len(data), PIECE):
            if self._broken or self._over or self.transport.is_closing():
                raise ConnectionResetError("the connection is closed")
            self.transport.write(make_frame(data[start : start + PIECE], self._coins.bytes(4)))
            if self._writing is not None:
                await asyncio.shield(self._writing)

    def abort(self) -> None:
        self._end(broken=True)
        self.transport.abort()

    async def close(self) -> None:
        if self._broken or self.transport.is_closing():
            return
        self.transport.write(make_frame(b"\x03\xe8", self._coins.bytes(4), CLOSE))
        self._end(broken=True)
        if self._stopped:
            self.transport.resume_reading()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSING):
                await asyncio.shield(self._lost)
        self.transport.abort()

    # --- of the connection

    def data_received(self, data: bytes) -> None:
        try:
            for code, piece in self._frames.feed(memoryview(data)):
                if code == BINARY and not self._broken:
                    self._pieces.append(memoryview(piece))
                    self._waiting += len(piece)
                elif code == PING:
                    self.transport.write(make_frame(piece, self._coins.bytes(4), PONG))
                elif code == CLOSE:
                    if self._broken:  # it answers what was said here
                        self.transport.abort()
                    self._end()
        except NoFrame:
            self.abort()
        if self._waiting > ROOM and not self._stopped:
            self._stopped = True
            self.transport.pause_reading()
        self._wake()

    def pause_writing(self) -> None:
        self._writing = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        if self._writing is not None and not self._writing.done():
            self._writing.set_result(None)
        self._writing = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(broken=exc is not None)
        self.resume_writing()
        if not self._lost.done():
            self._lost.set_result(exc)

    def _end(self, *, broken: bool = False) -> None:
        """Nothing more comes; what has come can be read, unless it broke."""
        self._over = True
        self._broken |= broken
        self.ended.set()
        self._wake()

    def _wake(self) -> None:
        if self._reading is not None and not self._reading.done():
            self._reading.set_result(None)
