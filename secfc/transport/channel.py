"""What a transport is: bytes to one peer and from it, in order.

Whoever brings another transport writes one class with these four methods, whatever carries the bytes:
`secfc.transport.channel` is that of TCP and TLS.  All else, from frames to signs of life and what happens
after a break, is `secfc.transport.link`'s, and the same over any of them.

Nothing here protects anything.  Who is at the other end, and that nobody else reads or changes what is
said, is the transport's business, or that of `secfc.transport.sealed`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol


class Channel(Protocol):
    """One connection to one peer.

    Bytes come out in the order in which they went in; where they end need not be where they were cut.  One
    task reads and one writes, at the same time.
    """

    async def read(self, count: int) -> bytes:
        """The next bytes of the peer: at least one as soon as there are any, at most `count`; b"" at the end.

        Cancelled, it has taken nothing: the next call goes on where this one began.

        Raises OSError if the connection is broken.
        """

    async def write(self, data: bytes | memoryview) -> None:
        """Take these bytes to be sent; wait while the peer is slow to read, so that few pile up here.

        They do not change afterwards, so need not be copied.

        Raises OSError if the connection is broken, or was closed here.
        """

    def abort(self) -> None:
        """Break the connection at once: what waits to be sent may be lost, and reading ends at both ends."""

    async def close(self) -> None:
        """End the connection once the peer can read all that was written.

        Raises OSError if it is broken.
        """


# --------------------------------------------------------------------------------------------------
# TCP, TLS and local sockets: an asyncio stream as a channel.


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
