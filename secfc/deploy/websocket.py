"""A WebSocket as a channel: what passes firewalls and proxies that let HTTPS out and nothing in."""

from __future__ import annotations

import asyncio
from typing import Any

from websockets.exceptions import ConnectionClosed, ConnectionClosedOK

# Bytes of one message.  Links write no longer pieces; a hub holds one a direction, and what the sockets hold.
PIECE = 1 << 20


class Socket:
    """One end of a pair (`secfc.transport.channel.Channel`).

    ended: set as soon as nothing more can be read, or it was closed or broken here.
    """

    def __init__(self, socket: Any) -> None:
        self.socket = socket
        self.ended = asyncio.Event()
        self._rest = memoryview(b"")
        self._broken = False

    def __repr__(self) -> str:
        return f"Socket(ended={self.ended.is_set()})"

    async def read(self, count: int) -> bytes:
        while not self._rest and not self._broken:
            try:
                data = await self.socket.recv()
            except ConnectionClosedOK:
                self.ended.set()
                return b""
            except ConnectionClosed as error:
                self.ended.set()
                raise ConnectionResetError("the connection broke") from error
            if isinstance(data, str):
                self.abort()
                raise ConnectionResetError("text came where bytes were due")
            self._rest = memoryview(data)
        if self._broken:
            return b""
        data, self._rest = self._rest[:count], self._rest[count:]
        return bytes(data)

    async def write(self, data: bytes | memoryview) -> None:
        if self._broken:
            raise ConnectionResetError("the connection is closed")
        for start in range(0, len(data), PIECE):
            try:
                await self.socket.send(data[start : start + PIECE])
            except ConnectionClosed as error:
                self.ended.set()
                raise ConnectionResetError("the connection broke") from error

    def abort(self) -> None:
        self._broken = True
        self.ended.set()
        self.socket.transport.abort()

    async def close(self) -> None:
        self._broken = True
        self.ended.set()
        await self.socket.close()
