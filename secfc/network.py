"""One party over byte streams: the driver of a deployment, for any role.

A frame is the length of a message (8 bytes), the round of its exchange (8, signed) and the message as
`secfc.wire` encodes it, all little-endian.  With a length of 0 the round says how far the sender took what it
was sent, first when a connection begins and then after every exchange; GOODBYE there is a goodbye.  Who is
at the other end of a link, and that nobody else can read it, is the business of whoever opens it (TLS with
both certificates checked); `secfc.sealed` protects what clients say to one another even so.

A party keeps what it sent until the peer has taken it for good, so a connection that breaks can be renewed: a
party that crashed resumes from its journal (`secfc.checkpoint`), connects again, and loses nothing.

A role computes in the thread of the event loop, so every party should have a loop of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from secfc import wire
from secfc.exchange import Exchange, FaultyParty, Inbox, PartyId, ProtocolError, Role, faulty

R = TypeVar("R")

# A peer that runs ahead by this many messages is made to wait, so memory stays bounded.
BACKLOG = 64
GOODBYE = -2


@dataclass(eq=False)
class Link:
    """A connection to one peer."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    box: dict[int, Any] = field(default_factory=dict)  # messages by round
    taken: int = -1  # the last round that was handed over
    kept: dict[int, Any] = field(default_factory=dict)  # what was sent, by round, until the peer took it
    heard: int = -1  # the last round that the peer took
    ready: bool = False  # whether the peer has said, on this connection, how far it is
    leaving: bool = False  # whether nothing will be sent any more but what is kept
    renewed: asyncio.Event = field(default_factory=asyncio.Event)
    closed: bool = False
    failure: FaultyParty | None = None

    def renew(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Go on over a new connection to the same peer; the old one is closed, if it is not already."""
        if self.closed:  # too late: everybody went on without the peer
            writer.close()
            return
        old, self.reader, self.writer, self.ready = self.writer, reader, writer, False
        self.renewed.set()
        old.close()

    def put(self, number: int, message: Any = None) -> None:
        """Write a frame; without a message, a word on the round."""
        if self.writer.is_closing():
            return
        parts = [] if message is None else wire.buffers(message)
        size = sum(map(len, parts))
        with contextlib.suppress(OSError):  # a peer that has gone hears nothing
            self.writer.write(size.to_bytes(8, "little") + number.to_bytes(8, "little", signed=True))
            for part in parts:
                self.writer.write(part)

    def hear(self, number: int) -> None:
        """The peer has taken what it was sent up to this round; on a new connection, send it the rest."""
        self.heard = max(self.heard, number)
        for known in [r for r in self.kept if r <= self.heard]:
            del self.kept[known]
        if not self.ready:
            self.ready = True
            # Without waiting for room: both ends may be doing this, and neither reads meanwhile.
            for number, message in sorted(self.kept.items(), key=lambda item: item[0]):
                self.put(number, message)
            if self.leaving:
                self.put(GOODBYE)

    def leave(self) -> None:
        """Say goodbye, after everything else."""
        self.leaving = True
        if self.ready:
            self.put(GOODBYE)

    def forget(self, number: int) -> None:
        """Drop this round and older ones: they were handed over."""
        self.taken = max(self.taken, number)
        for old in [r for r in self.box if r <= number]:
            del self.box[old]

    def arrive(self, number: int, message: Any) -> None:
        """Keep a message, unless that round came or was handed over before."""
        if number > self.taken:
            self.box.setdefault(number, message)

    def due(self, exchange: Exchange) -> int | None:
        """The round of the message that this exchange waits for, if it is there."""
        accept = exchange.round if exchange.accept is None else exchange.accept
        for late in [r for r in self.box if r < accept]:
            del self.box[late]
        return exchange.due(self.box)

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
    rejoin: float = 0.0,
    maximum: int = wire.MAXIMUM,
) -> R:
    """Run one party's role to its end, over a link to every peer, and close the links.

    patience: seconds to wait for the messages of one exchange; then the role judges what came.  grace:
    seconds to wait for the rest once enough have come.  rejoin: seconds after a connection broke in which
    the peer may come back: whoever accepts its new connection calls `Link.renew`.  maximum: of bytes.

    Raises what the role raises, and FaultyClient or FaultyServer for bytes that are no message.
    """
    post = _Post(links, maximum, rejoin)
    readers = [asyncio.create_task(post.receive(peer)) for peer in links]
    try:
        inbox: Any = None
        while True:
            # Readers start after the first exchange, so they know what was taken before a crash.
            try:
                exchange = role.send(inbox)
            except StopIteration as done:
                await post.farewell(readers, patience)
                result: R = done.value
                return result
            # Whatever the role keeps on file is there now: peers need not keep it any longer.
            await post.took({**(exchange.taken or {}), **(inbox.rounds if inbox else {})})
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
    def __init__(self, links: Mapping[PartyId, Link], maximum: int, rejoin: float) -> None:
        self.links, self.maximum, self.rejoin = links, maximum, rejoin
        self.news = asyncio.Condition()
        self.leaving = False

    async def receive(self, peer: PartyId) -> None:
        """Read frames of a peer until it says goodbye, or its connection breaks and is not renewed."""
        link = self.links[peer]
        try:
            while True:
                link.renewed.clear()
                link.put(link.taken)
                with contextlib.suppress(asyncio.IncompleteReadError, OSError):
                    await self.read(peer, link.reader)
                    return
                link.ready &= link.renewed.is_set()
                async with asyncio.timeout(self.rejoin):
                    await link.renewed.wait()
        except wire.WireError as error:
            link.failure = faulty(peer, f"sent bytes that are no message ({error})")
        except TimeoutError:
            pass  # whoever awaits this peer will find it silent
        finally:
            link.closed = True
            async with self.news:
                self.news.notify_all()

    async def read(self, peer: PartyId, reader: asyncio.StreamReader) -> None:
        """Read frames from one connection until a goodbye, or one that is too large."""
        link = self.links[peer]
        while True:
            header = await reader.readexactly(16)
            size = int.from_bytes(header[:8], "little")
            number = int.from_bytes(header[8:], "little", signed=True)
            if size > self.maximum:
                link.failure = faulty(peer, f"announced {size} bytes, {self.maximum} are allowed")
                return
            if size == 0:
                if number == GOODBYE:
                    return
                link.hear(number)
                continue
            data = await reader.readexactly(size)
            if self.leaving:
                continue
            message = wire.decode(data, self.maximum)
            async with self.news:
                await self.news.wait_for(lambda: len(link.box) < BACKLOG or self.leaving)
                link.arrive(number, message)
                self.news.notify_all()

    async def took(self, rounds: Mapping[PartyId, int]) -> None:
        """This party took messages of these rounds for good: say so."""
        async with self.news:
            for peer, number in rounds.items():
                self.links[peer].forget(number)
                if self.links[peer].ready:
                    self.links[peer].put(number)
            self.news.notify_all()
        await asyncio.sleep(0)  # a party that repeats itself waits for nothing else

    async def send(self, peer: PartyId, number: int, message: Any) -> None:
        if peer not in self.links:
            raise ProtocolError(f"a message is due to {peer!r}, to whom there is no link")
        link = self.links[peer]
        if number <= link.heard or number in link.kept or link.closed:
            return
        link.kept[number] = message
        if link.ready:
            link.put(number, message)
            with contextlib.suppress(OSError):
                await link.writer.drain()

    async def collect(self, exchange: Exchange, patience: float, grace: float) -> Inbox:
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
            messages, rounds = {}, {}
            for peer, link in links.items():
                number = link.due(exchange)
                if number is not None:
                    messages[peer], rounds[peer] = link.take(number), number
                elif link.failure is not None:
                    raise link.failure
            self.news.notify_all()
        return Inbox(messages, rounds)

    async def farewell(self, readers: list[asyncio.Task[None]], patience: float) -> None:
        """Wait for everybody's goodbye: to close with unread messages would destroy those under way."""
        async with self.news:
            self.leaving = True
            self.news.notify_all()
        for link in self.links.values():
            link.leave()
            with contextlib.suppress(OSError):
                await link.writer.drain()
        if readers:
            await asyncio.wait(readers, timeout=patience)
