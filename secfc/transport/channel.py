"""What a transport is: bytes to one peer and from it, in order.

Whoever brings another transport writes one class with these four methods, whatever carries the bytes:
`secfc.transport.streams` is that of TCP and TLS.  All else, from frames to signs of life and what happens
after a break, is `secfc.transport.link`'s, and the same over any of them.

Nothing here protects anything.  Who is at the other end, and that nobody else reads or changes what is
said, is the transport's business, or that of `secfc.transport.sealed`.
"""

from __future__ import annotations

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
