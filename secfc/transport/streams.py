"""TCP, TLS and local sockets: an asyncio stream as a channel."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from secfc.transport.channel import Channel


@dataclass(frozen=True, eq=False)
class AsyncioStream:
    """What `asyncio.open_connection` returns, or hands to whoever `asyncio.start_server` serves."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def read(self, count: int) -> bytes:
        return await self.reader.read(count)

    async def write(self, data: bytes | memoryview) -> None:
        if self.writer.is_closing():  # which asyncio itself would only log
            raise ConnectionResetError("the connection is closed")
        self.writer.write(data)
        await self.writer.drain()

    def abort(self) -> None:
        self.writer.transport.abort()

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


def channel_of(end: Channel | asyncio.StreamReader, writer: asyncio.StreamWriter | None = None) -> Channel:
    """The channel over an asyncio stream's reader and writer; a channel is one already.

    Raises TypeError for half a stream.
    """
    if isinstance(end, asyncio.StreamReader):
        if writer is None:
            raise TypeError("a stream without its writer: give both, Link(reader, writer)")
        return AsyncioStream(end, writer)
    if writer is not None:
        raise TypeError(f"{type(end).__name__} with a writer: a channel writes itself, give it alone")
    return end
