"""One party over byte streams: the driver of a deployment, for any role.

A frame is the length of a message (8 bytes), the round of its exchange (8, signed) and the message as
`secfc.wire` encodes it, all little-endian; a length of 0 says goodbye.  Who is at the other end of a link,
and that nobody else can read it, is the business of whoever opens it (TLS with both certificates checked);
`secfc.sealed` protects what clients say to one another even so.

A role computes in the thread of the event loop, so every party should have a loop of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from secfc import wire
from secfc.exchange import Exchange, FaultyParty, PartyId, ProtocolError, Role, faulty

R = TypeVar("R")

# A peer that runs ahead by this many messages is made to wait, so memory stays bounded.
BACKLOG = 64


@dataclass(eq=False)
class Link:
    """An open connection to one peer."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    box: dict[int, Any] = field(default_factory=dict)  # messages by round
    taken: int = -1  # the last round that was handed over
    closed: bool = False
    failure: FaultyParty | None = None

    def arrive(self, number: int, message: Any) -> None:
        """Keep a message, unless that round came or was handed over before."""
        if number > self.taken:
            self.box.setdefault(number, message)

    def due(self, exchange: Exchange) -> int | None:
        """The round of the message that this exchange waits for, if it is there."""
        accept = exchange.round if exchange.accept is None else exchange.accept
        for late in [r for r in self.box if r < accept]:
            del self.box[late]
        if exchange.exact:
            return accept if accept in self.box else None
        return min(self.box, default=None)

    def take(self, number: int) -> Any:
        """Hand over the message of this round."""
        self.taken = number
        return self.box.pop(number)


async def run_party(
    role: Role[R],
    links: Mapping[PartyId, Link],
    *,
    patience: float = 600.0,
    grace: float = 5.0,
    maximum: int = wire.MAXIMUM,
) -> R:
    """Run one party's role to its end, over a link to every peer, and close the links.

    patience: seconds to wait for the messages of one exchange; then the role judges what came.  grace:
    seconds to wait for the rest once enough have come.  maximum: bytes of a message.

    Raises what the role raises, and FaultyClient or FaultyServer for bytes that are no message.
    """
    post = _Post(links, maximum)
    readers = [asyncio.create_task(post.receive(peer)) for peer in links]
    try:
        inbox: Any = None
        while True:
            try:
                exchange = role.send(inbox)
            except StopIteration as done:
                await post.farewell(readers, patience)
                result: R = done.value
                return result
            for peer, message in exchange.send.items():
                await post.send(peer, exchange.round, message)
            inbox = await post.collect(exchange, patience, grace)
    finally:
        role.close()
        for task in readers:
            task.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        for link in links.values():
            link.writer.close()
            with contextlib.suppress(OSError):
                await link.writer.wait_closed()


class _Post:
    def __init__(self, links: Mapping[PartyId, Link], maximum: int) -> None:
        self.links, self.maximum = links, maximum
        self.news = asyncio.Condition()
        self.leaving = False

    async def receive(self, peer: PartyId) -> None:
        """Read frames of a peer until its link closes."""
        link = self.links[peer]
        try:
            while True:
                header = await link.reader.readexactly(16)
                size = int.from_bytes(header[:8], "little")
                if size == 0:
                    return
                if size > self.maximum:
                    link.failure = faulty(peer, f"announced {size} bytes, {self.maximum} are allowed")
                    return
                data = await link.reader.readexactly(size)
                if self.leaving:
                    continue
                message = wire.decode(data, self.maximum)
                async with self.news:
                    await self.news.wait_for(lambda: len(link.box) < BACKLOG or self.leaving)
                    link.arrive(int.from_bytes(header[8:], "little", signed=True), message)
                    self.news.notify_all()
        except wire.WireError as error:
            link.failure = faulty(peer, f"sent bytes that are no message ({error})")
        except (asyncio.IncompleteReadError, OSError):
            pass  # whoever awaits this peer will find it silent
        finally:
            link.closed = True
            async with self.news:
                self.news.notify_all()

    async def send(self, peer: PartyId, number: int, message: Any) -> None:
        if peer not in self.links:
            raise ProtocolError(f"a message is due to {peer!r}, to whom there is no link")
        writer = self.links[peer].writer
        parts = wire.buffers(message)
        size = sum(map(len, parts))
        with contextlib.suppress(OSError):  # a peer that has gone hears nothing
            writer.write(size.to_bytes(8, "little") + number.to_bytes(8, "little", signed=True))
            for part in parts:
                writer.write(part)
            await writer.drain()

    async def collect(self, exchange: Exchange, patience: float, grace: float) -> dict[PartyId, Any]:
        """What came from those awaited, when all have come, or time is up, or the rest has gone."""
        links = {peer: self.links[peer] for peer in exchange.expect}
        enough = len(links) if exchange.enough is None else exchange.enough
        now = asyncio.get_running_loop().time

        def came() -> int:
            return sum(link.due(exchange) is not None for link in links.values())

        def complete() -> bool:
            return all(link.due(exchange) is not None or link.closed for link in links.values())

        deadline = now() + patience
        async with self.news:
            for condition in (lambda: complete() or came() >= enough, complete):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(deadline):
                        self.news.notify_all()  # readers whose late messages were dropped go on
                        await self.news.wait_for(condition)
                deadline = min(deadline, now() + grace)
            inbox = {}
            for peer, link in links.items():
                number = link.due(exchange)
                if number is not None:
                    inbox[peer] = link.take(number)
                elif link.failure is not None:
                    raise link.failure
            self.news.notify_all()
        return inbox

    async def farewell(self, readers: list[asyncio.Task[None]], patience: float) -> None:
        """Wait for everybody's goodbye: to close with unread messages would destroy those under way."""
        async with self.news:
            self.leaving = True
            self.news.notify_all()
        for link in self.links.values():
            with contextlib.suppress(OSError):
                link.writer.write(bytes(16))
                await link.writer.drain()
        if readers:
            await asyncio.wait(readers, timeout=patience)
