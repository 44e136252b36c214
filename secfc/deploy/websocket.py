"""A WebSocket as a channel: what passes firewalls and proxies that let HTTPS out and nothing in."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Any, cast

from field.secrets.coins import SystemCoins
from secfc.deploy.frames import BINARY, CLOSE, PIECE, PING, PONG, Frames, NoFrame, make_frame

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
