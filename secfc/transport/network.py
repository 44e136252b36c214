"""One party over links to its peers: the driver of a deployment, for any role.

`secfc.transport.link` says what is written, over any `secfc.transport.channel`; what came waits in a
`secfc.transport.mailbox`.  Who is at the other end of a link, and that nobody else can read it, is the
business of whoever opens it (TLS with both certificates checked); `secfc.transport.sealed` protects what
clients say to one another even so.

A party keeps what it sent until the peer has taken it for good, so a connection that breaks can be renewed: a
party that crashed resumes from its journal (`secfc.transport.checkpoint`), connects again, and loses nothing.

A role computes in a thread of its own, so that its party is heard meanwhile: every link carries signs of
life.  One that is there is waited for, however long it computes, up to `patience`.  Lost is who says goodbye,
whose connection broke and was not renewed within `rejoin`, or of whom no sign of life came for `pulse`.

Bytes that are no message break the connection that they came over, and prove nothing: whoever carries them
can have made them.  What the peer really said it keeps, and says again over the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from secfc.logs import log_event
from secfc.roles.exchange import END, Exchange, Inbox, PartyId, ProtocolError, Role
from secfc.transport import wire
from secfc.transport.link import BEAT, GOODBYE, Link, Silent
from secfc.transport.mailbox import Mailbox

__all__ = ["Link", "run_party"]

R = TypeVar("R")

# A peer that runs ahead by this many messages, or bytes, is made to wait, so memory stays bounded.
BACKLOG, BYTES = 64, 1 << 23
# What an encoding adds to the contents of a message, at most.
FRAMING = 1 << 12
# A party that ends by an error waits so many seconds, at most, for its last words to be read.
FLUSH = 2.0


class Meter(Protocol):
    """What is told how long a party computes, and how long it waits, exchange by exchange."""

    def computed(self, seconds: float) -> None: ...

    def waited(self, seconds: float) -> None: ...


async def run_party(
    role: Role[R],
    links: Mapping[PartyId, Link],
    *,
    patience: float = 600.0,
    grace: float = 5.0,
    pulse: float = 30.0,
    rejoin: float = 60.0,
    maximum: int = wire.MAXIMUM,
    meter: Meter | None = None,
) -> R:
    """Run one party's role to its end, over a link to every peer, and close the links.

    patience: seconds to wait for the messages of one exchange; then the role judges what came.  Others may be
    waiting for the same peer at that time, so give the server more than clients.  grace: seconds to wait for
    the rest once as many came as the exchange calls enough; one that calls none enough waits for all that are
    there.  pulse: seconds of silence after which a peer is gone; all parties agree on about the same.
    rejoin: seconds after a connection broke in which the peer may come back: whoever accepts its new
    connection, and knows that it is that peer's, calls `Link.renew`; 0 where nobody does.  maximum: bytes of
    a message, sent or received.  meter: told what this party's time goes into.

    Raises what the role raises, ValueError for a message to be sent that is larger than the maximum.
    """
    post, now = _Post(links, maximum, rejoin, pulse), asyncio.get_running_loop().time
    readers = [asyncio.create_task(post.receive(peer)) for peer in links]
    speakers = [
        asyncio.create_task(work) for link in links.values() for work in (link.speak(), link.watch(pulse))
    ]
    try:
        inbox: Any = None
        while True:
            # Readers start after the first exchange, so they know what was taken before a crash.
            begin = now()
            exchange, results = await _advance(role, inbox)
            if meter is not None:
                meter.computed(now() - begin)
            if exchange is None:
                await post.farewell(readers, patience)
                return results[0]
            # Whatever the role keeps on file is there now: peers need not keep it any longer.
            await post.wait(exchange, inbox.rounds if inbox else {})
            post.begin.set()
            for peer, message in exchange.send.items():
                post.send(peer, exchange.round, message)
            begin = now()
            inbox = await post.collect(patience, grace)
            if meter is not None:
                meter.waited(now() - begin)
    except (ProtocolError, ValueError):
        # What this party said last, perhaps why it ends, shall reach those that are there.
        await post.farewell(readers, FLUSH)
        raise
    finally:
        role.close()
        for task in (*readers, *speakers):
            task.cancel()
        await asyncio.gather(*readers, *speakers, return_exceptions=True)
        for link in links.values():
            with contextlib.suppress(OSError):
                await link.channel.close()


async def _advance(role: Role[R], inbox: Any) -> tuple[Exchange | None, list[R]]:
    """The role's next exchange, or none and its result, computed in a thread."""

    def step() -> tuple[Exchange | None, list[R]]:
        try:
            return role.send(inbox), []
        except StopIteration as done:  # which no thread can raise into a loop
            return None, [done.value]

    work = asyncio.ensure_future(asyncio.to_thread(step))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        # A role that computes cannot be closed, however often its end is asked for.
        while not work.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([work])
        raise


class _Post:
    def __init__(self, links: Mapping[PartyId, Link], maximum: int, rejoin: float, pulse: float) -> None:
        self.links, self.maximum, self.rejoin, self.pulse = links, maximum, rejoin, pulse
        self.mailbox = Mailbox()
        self.news = asyncio.Condition()
        self.begin = asyncio.Event()
        self.leaving = False

    async def receive(self, peer: PartyId) -> None:
        """Read frames of a peer until it says goodbye, or is lost."""
        link = self.links[peer]
        now = asyncio.get_running_loop().time
        await self.begin.wait()
        try:
            until = 0.0
            while not link.silent:
                link.renewed.clear()
                link.put(self.mailbox.taken(peer))
                with contextlib.suppress(EOFError, OSError, Silent, wire.WireError):
                    await self.read(peer, link)
                    return
                if not link.renewed.is_set():
                    link.ready = False
                    link.channel.abort()
                if link.sane or not until:
                    # Who was silent before has had half of its time.  Connections over which nothing comes
                    # but noise give no more of it.
                    until = now() + (
                        min(self.pulse / 2, self.rejoin) if link.doubted.is_set() else self.rejoin
                    )
                async with asyncio.timeout_at(until):
                    await link.renewed.wait()
        except TimeoutError:  # whoever awaits this peer will find it silent
            log_event("transport", "lost", logging.WARNING, peer=peer)
        finally:
            link.closed = True
            link.written.set()
            async with self.news:
                self.news.notify_all()

    async def read(self, peer: PartyId, link: Link) -> None:
        """Read frames from one connection until a goodbye.  Raises WireError for what is no frame."""
        while True:
            size, number = await link.header()
            if size > self.maximum or number < (0 if size else BEAT):
                raise wire.WireError(f"{size} bytes are announced, {self.maximum} are allowed")
            if not size:
                link.sane = True
                if number == GOODBYE:
                    return
                if number >= -1:
                    link.hear(number)
                continue
            if number != END:
                await self.room(peer)
            data = await link.exactly(size)
            if self.leaving:
                continue
            message = wire.decode(data, self.maximum)
            del data
            link.sane = True
            async with self.news:
                self.mailbox.arrive(peer, number, message)
                self.news.notify_all()
            del message

    async def room(self, peer: PartyId) -> None:
        """Wait until little of what this peer sent waits to be taken."""
        mailbox = self.mailbox

        def has_room() -> bool:
            return self.leaving or (mailbox.backlog(peer) < BACKLOG and mailbox.nbytes(peer) < BYTES)

        if not has_room():
            async with self.news:
                await self.news.wait_for(has_room)

    async def wait(self, exchange: Exchange, rounds: Mapping[PartyId, int]) -> None:
        """This party waits for this now, and has taken messages of these rounds for good: say so."""
        async with self.news:
            self.mailbox.wait(exchange)
            for peer, number in {**(exchange.taken or {}), **rounds}.items():
                if self.links[peer].ready:
                    self.links[peer].put(number)
            self.news.notify_all()  # readers whose late messages were dropped go on

    def send(self, peer: PartyId, number: int, message: Any) -> None:
        if peer not in self.links:
            raise ProtocolError(f"a message is due to {peer!r}, to whom there is no link")
        link = self.links[peer]
        if number <= link.heard or number in link.kept or link.closed:
            return
        # What is far from the limit need not be measured.
        size = wire.encoded_size(message) if message.nbytes + FRAMING > self.maximum else 0
        if size > self.maximum:
            raise ValueError(
                f"{type(message).__name__} for {peer} has {size} bytes, {self.maximum} are allowed in one "
                "message: allow more, here and at the peer (run_party's maximum), or cluster fewer points"
            )
        link.kept[number] = message
        if link.ready:
            link.put(number, message)

    async def collect(self, patience: float, grace: float) -> Inbox:
        """What came from those awaited, when all have come, or time is up, or the rest has gone."""
        exchange = self.mailbox.awaited
        links = {peer: self.links[peer] for peer in exchange.expect}
        enough = len(links) if exchange.enough is None else exchange.enough
        now = asyncio.get_running_loop().time

        def complete() -> bool:
            due = self.mailbox.due
            return bool(self.mailbox.ended()) or all(
                due(peer) is not None or link.closed for peer, link in links.items()
            )

        def suffices() -> bool:
            # Where none are enough, all who are there are waited for.
            return complete() or 0 < enough <= self.mailbox.came()

        deadline = now() + patience
        async with self.news:
            for condition in (suffices, complete):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(deadline):
                        await self.news.wait_for(condition)
                deadline = min(deadline, now() + grace)
            inbox = self.mailbox.collect()
            self.news.notify_all()
        return inbox

    async def farewell(self, readers: list[asyncio.Task[None]], patience: float) -> None:
        """Wait for everybody's goodbye: to close with unread messages would destroy those under way."""
        self.begin.set()
        async with self.news:
            self.leaving = True
            self.news.notify_all()
        for link in self.links.values():
            link.leave()
        written = [asyncio.create_task(link.written.wait()) for link in self.links.values()]
        tasks = [*readers, *written]
        if tasks:
            await asyncio.wait(tasks, timeout=patience)
        for task in written:
            task.cancel()
