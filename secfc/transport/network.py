"""One party over links to its peers: the driver of a deployment, for any role.

`secfc.transport.link` says what is written, over any `secfc.transport.channel`; what came waits in a
`secfc.roles.exchange`.  Who is at the other end of a link, and that nobody else reads, drops or repeats
what is said there, is the business of whoever opens it: TLS with both certificates checked, or
`secfc.transport.channel.ConnectionKeys` through whoever carries it.  `secfc.transport.sealed` protects what
clients say to one another even so, but not how often connections tell it.

A party keeps what it sent until the peer has taken it for good, so a connection that breaks can be renewed: a
party that crashed resumes from its journal (`secfc.transport.checkpoint`), connects again, and loses nothing.
What does not come over a connection that holds is asked for once more after half of `patience`, or `grace`,
whatever it is: the peer says the same again, which tells nobody more.

A role computes in a thread of its own, so that its party is heard meanwhile: every link carries signs of
life.  One that is there is waited for, however long it computes, up to `patience`.  One whose connection
broke, or of whom no sign of life came for `pulse`, is away, and awaited for `rejoin`, in which patience does
not run out.  Lost is who says goodbye, does not come back, or is given up (`Link.give_up`).

A party that hears too little (`TooFewReplies`) leaves without goodbye, so that it can come back: to the
others it is away.  Waiting is counted in small parts and not taken from a clock, so that a pause of this
process, as of a machine that sleeps, is not taken for an absence of the peers.

Bytes that are no message break the connection that they came over, and prove nothing: whoever carries them
can have made them.  What the peer really said it keeps, and says again over the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Protocol, TypeVar

from secfc.errors import JournalError, PartiesAway, ProtocolError
from secfc.logs import log_event
from secfc.roles.abort import is_loss
from secfc.roles.exchange import END, Exchange, Inbox, Mailbox, PartyId, Role
from secfc.transport import wire
from secfc.transport.link import AGAIN, GOODBYE, KEEP, NOTE, SHORT, Link

__all__ = ["Link", "run_party"]

R = TypeVar("R")

# A peer that runs ahead by this many messages, or bytes, is made to wait, so memory stays bounded.
BACKLOG, BYTES = 64, 1 << 23
# What an encoding adds to the contents of a message, at most.
FRAMING = 1 << 12
# A party that ends by an error waits so many seconds, at most, for its last words to be read.
FLUSH = 2.0
# Parts of a wait that are counted: a pause of this process takes one of them, at most.
PARTS = 20


class Meter(Protocol):
    """What is told how a party fares, exchange by exchange (`secfc.deploy.metrics.SiteMetrics`).

    links: to its peers, and breaks of these, both from who meets them again.
    """

    links: Mapping[PartyId, Link]
    breaks: int

    def computed(self, seconds: float) -> None: ...

    def waited(self, seconds: float) -> None: ...


async def run_party(
    role: Role[R],
    links: Mapping[PartyId, Link],
    *,
    patience: float = 600.0,
    grace: float | None = None,
    pulse: float = 30.0,
    rejoin: float = 60.0,
    suspend: bool = False,
    maximum: int = wire.MAXIMUM,
    meter: Meter | None = None,
) -> R:
    """Run one party's role to its end, over a link to every peer, and close the links.

    patience: seconds to wait for the messages of one exchange; then the role judges what came.  Others may be
    waiting for the same peer at that time, so give the server more than clients.  grace: seconds to wait for
    the rest once as many came as the exchange calls enough, a pulse by default: so long does it take to
    notice what was cut off on the way to them, and to hear it again; an exchange that calls none enough waits
    for all that are there.  pulse: seconds of silence after which a connection counts as broken; all parties
    agree on about the same.  rejoin: seconds after that in which the peer may come back: whoever accepts its
    new connection, and knows that it is that peer's, calls `Link.renew_connection`; 0 where nobody does.
    suspend: of a role that keeps a journal, whether it ends where a peer is lost that is neither given up nor
    said that it ended by an error; else the role judges.  maximum: bytes of a message, sent or received.
    meter: told what this party's time goes into.

    Raises what the role raises, ValueError for a message to be sent that is larger than the maximum;
    PartiesAway, if it suspends.
    """
    post = _Post(links, maximum, rejoin)
    readers = [asyncio.create_task(post.receive(peer)) for peer in links]
    speakers = [
        asyncio.create_task(work)
        for link in links.values()
        for work in (link.write_frames(), link.watch(pulse))
    ]
    try:
        result = await _exchange_all(role, post, meter, patience, pulse if grace is None else grace, suspend)
        await post.await_goodbyes(readers, patience)
        return result
    except Exception as error:
        if not is_loss(error):  # else it comes back, with what it said last
            if post.anybody_away():
                note = f"waits for who is away, to tell that it ends: {error}"
                log_event("transport", "ends", logging.ERROR, error=type(error).__name__, note=note)
            # What this party said last, perhaps why it ends, shall reach the others.
            await post.await_goodbyes(readers, FLUSH)
        raise
    finally:
        role.close()
        for task in (*readers, *speakers):
            task.cancel()
        await asyncio.gather(*readers, *speakers, return_exceptions=True)
        for link in links.values():
            with contextlib.suppress(OSError):
                await link.channel.close()


async def _exchange_all(
    role: Role[R], post: _Post, meter: Meter | None, patience: float, grace: float, suspend: bool
) -> R:
    """Every exchange of a role, one after the other, and what it returns."""
    now, inbox = asyncio.get_running_loop().time, None
    while True:
        # Readers start after the first exchange, so they know what was taken before a crash.
        begin = now()
        exchange, results = await _advance(role, inbox)
        if meter is not None:
            meter.computed(now() - begin)
        if exchange is None:
            return results[0]
        # Whatever the role keeps on file is there now: peers need not keep it any longer.  A sealed role has
        # emptied the inbox by now, so that what came is held once.
        await post.wait(exchange, {} if inbox is None else inbox.rounds)
        post.begin.set()
        await post.refuse_older_copy(exchange, grace)
        for peer, message in exchange.send.items():
            post.send(peer, exchange.round, message)
        begin = now()
        inbox = await post.collect(patience, grace, suspend)
        if meter is not None:
            meter.waited(now() - begin)


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


async def _times_out(waiting: Awaitable[Any], seconds: float) -> bool:
    """Whether this wait took longer, and was ended."""
    try:
        async with asyncio.timeout(seconds):
            await waiting
    except TimeoutError:
        return True
    return False


class _Post:
    def __init__(self, links: Mapping[PartyId, Link], maximum: int, rejoin: float) -> None:
        self.links, self.maximum, self.rejoin = links, maximum, rejoin
        self.mailbox = Mailbox()
        self.news = asyncio.Condition()
        self.begin = asyncio.Event()
        self.leaving = False
        self.kept: dict[PartyId, int] = {}  # by sender, the last round that this party took for good
        self.again: Mapping[PartyId, int] = {}  # of the exchange that it waits for
        self.said: dict[PartyId, int] = {}  # what of it peers were told on the connection that they have
        self.resumed = False  # whether this party repeated something
        self.unmet: tuple[PartyId, ...] = ()  # whose first word is waited for

    async def receive(self, peer: PartyId) -> None:
        """Read frames of a peer until it says goodbye, or is lost."""
        link, parts = self.links[peer], PARTS
        await self.begin.wait()
        try:
            while not link.given_up:
                link.renewed.clear()
                link.away = False
                if peer in self.again or peer in self.said:
                    self.said[peer] = self.again.get(peer, END)
                    link.put(KEEP - self.said[peer])
                link.put(self.kept.get(peer, -1))
                with contextlib.suppress(EOFError, OSError, wire.WireError):
                    await self.read(peer, link)
                    link.done = True
                    return
                link.away = True
                if not link.renewed.is_set():
                    link.ready = False
                    link.channel.abort()
                if link.sane:  # connections over which nothing comes but noise give no more time
                    parts = PARTS
                while parts and not link.renewed.is_set():
                    parts -= await _times_out(link.renewed.wait(), self.rejoin / PARTS)
                if not parts:
                    break
            log_event("transport", "lost", logging.WARNING, peer=peer)  # who awaits it will find it silent
        finally:
            link.closed = True
            link.written.set()
            async with self.news:
                self.news.notify_all()

    async def read(self, peer: PartyId, link: Link) -> None:
        """Read frames from one connection until a goodbye.  Raises WireError for what is no frame."""
        while True:
            size, number = await link.header()
            if size and number == NOTE:
                await self.read_note(link, size)
                continue
            if size > self.maximum or (number < 0 and (size or NOTE >= number > KEEP + 1)):
                raise wire.WireError(f"{size} bytes are announced, {self.maximum} are allowed")
            if not size:
                link.sane = True
                if number == GOODBYE:
                    return
                link.take_word(number)
                if self.mailbox.awaited.meets or self.unmet:
                    async with self.news:
                        self.news.notify_all()
                continue
            if number != END:
                await self.room(peer)
            data = await link.read_message(size)
            if self.leaving:
                continue
            message = wire.decode(data, self.maximum)
            del data
            link.sane = True
            async with self.news:
                self.mailbox.keep_message(peer, number, message)
                self.news.notify_all()
            del message

    async def read_note(self, link: Link, size: int) -> None:
        """Read what a peer says beside all exchanges, and tell it.  Raises WireError for what is too long."""
        if size > SHORT:
            raise wire.WireError(f"a note of {size} bytes is announced, {SHORT} are allowed")
        note = wire.decode(await link.read_exactly(size), SHORT)
        await asyncio.to_thread(link.told, note)

    async def room(self, peer: PartyId) -> None:
        """Wait until little of what this peer sent waits to be taken."""
        mailbox = self.mailbox

        def has_room() -> bool:
            return self.leaving or (mailbox.count_waiting(peer) < BACKLOG and mailbox.nbytes(peer) < BYTES)

        if not has_room():
            async with self.news:
                await self.news.wait_for(has_room)

    async def wait(self, exchange: Exchange, rounds: Mapping[PartyId, int]) -> None:
        """This party waits for this now, and has taken messages of these rounds for good: say so."""
        async with self.news:
            self.mailbox.wait(exchange)
            self.again = exchange.again
            for peer in {*self.said, *self.again}:
                number = self.again.get(peer, END)
                # Before what was taken: a peer that heard of that alone would forget what is asked for again.
                if number != self.said.get(peer, END) and self.links[peer].ready:
                    self.said[peer] = number
                    self.links[peer].put(KEEP - number)
            for peer, number in {**(exchange.taken or {}), **rounds}.items():
                self.kept[peer] = number
                if self.links[peer].ready:
                    self.links[peer].put(number)
            self.news.notify_all()  # readers whose late messages were dropped go on

    async def meet(self, peers: Collection[PartyId], grace: float) -> None:
        """Hear how far these took what they were sent; whoever calls this holds `news`.

        One that is away for long is not waited for: others may need this party.
        """

        def met() -> bool:
            return all(self.links[peer].ready or self.links[peer].closed for peer in peers)

        if not met():
            await _times_out(self.news.wait_for(met), grace)

    async def refuse_older_copy(self, exchange: Exchange, grace: float) -> None:
        """Raise JournalError where a peer took more of this party, which resumed, than that has on file.

        Rounds rise between two parties, so the journal has been replaced by an older copy, or another process
        goes on with a second one: two contents under one mask or key would show both.  What peers took is
        their word, so one that lies stops a party that resumed, and is named; no party that did not.
        """
        self.resumed = self.resumed or exchange.said or exchange.taken is not None
        if not self.resumed or exchange.taken is not None:
            return
        async with self.news:
            self.unmet = tuple(peer for peer in exchange.send if peer in self.links)
            await self.meet(self.unmet, grace)
            ahead = [p for p in self.unmet if self.links[p].heard >= exchange.round + exchange.said]
            self.unmet = ()
        if ahead:
            raise JournalError(
                f"{', '.join(ahead)} took more than the journal of this party says was sent: it is an older "
                "copy, unless that is a lie. Put back the one that was written last; if that is lost, end "
                "this run at all parties, and start again in another directory"
            )

    def send(self, peer: PartyId, number: int, message: Any) -> None:
        if peer not in self.links:
            raise ProtocolError(f"a message is due to {peer!r}, to whom there is no link")
        link = self.links[peer]
        if number <= min(link.heard, link.until) or number in link.kept or link.closed:
            return
        # What is far from the limit need not be measured.
        size = wire.encoded_size(message) if message.nbytes + FRAMING > self.maximum else 0
        if size > self.maximum:
            raise ValueError(
                f"{type(message).__name__} for {peer} has {size} bytes, {self.maximum} are allowed in one "
                "message: allow more, here and at the peer (run_party's maximum), or cluster fewer points"
            )
        link.kept[number] = message
        if link.ready and number > link.heard:
            link.put(number, message)

    async def collect(self, patience: float, grace: float, suspend: bool = False) -> Inbox:
        """What came from those awaited, when all have come, or time is up, or the rest has gone.

        Raises PartiesAway, if it suspends, where that is too little and not for good; then nothing was taken.
        """
        exchange = self.mailbox.awaited
        links = {peer: self.links[peer] for peer in exchange.expect}
        enough = len(links) if exchange.enough is None else exchange.enough
        missing = list(links)  # asked after every message, of a thousand peers: who is there stays so

        def complete() -> bool:
            while missing and (self.mailbox.due(missing[-1]) is not None or links[missing[-1]].closed):
                missing.pop()
            return not missing or bool(self.mailbox.ended())

        def suffices() -> bool:
            # Where none are enough, all who are there are waited for.
            return complete() or 0 < enough <= self.mailbox.came()

        async with self.news:
            await self.meet(exchange.meets, grace)
            if await self.await_enough(links, suffices, patience) and await _times_out(
                self.news.wait_for(complete), grace / 2
            ):
                self.ask_again(links)
                await _times_out(self.news.wait_for(complete), grace / 2)
            if suspend:
                self.refuse_without(links, enough)
            inbox = self.mailbox.collect()
            inbox.heard = self.heard_round
            self.news.notify_all()
        return inbox

    async def await_enough(
        self, links: Mapping[PartyId, Link], suffices: Callable[[], bool], patience: float
    ) -> bool:
        """Whether enough came before time was up; after half of it, what is missing is asked for again."""
        parts = PARTS
        while parts and not suffices():
            late = await _times_out(self.news.wait_for(suffices), patience / PARTS)
            # Whom this party awaits may itself await whoever is away.
            parts = PARTS if self.anybody_away() else parts - late
            if late and parts == PARTS // 2:
                self.ask_again(links)
        return parts > 0

    def ask_again(self, links: Mapping[PartyId, Link]) -> None:
        """Ask these peers once more for what is missing: whoever carries it may have lost it."""
        for peer, link in links.items():
            if link.ready and self.mailbox.due(peer) is None:
                link.put(AGAIN)

    def heard_round(self, peer: PartyId) -> int:
        """The last round that a peer has taken for good; any of one that asks for nothing any more."""
        link = self.links[peer]
        return END if link.given_up else link.heard

    def anybody_away(self) -> bool:
        """Whether a peer is away that may come back."""
        return any(link.away and not link.closed for link in self.links.values())

    def refuse_without(self, links: Mapping[PartyId, Link], enough: int) -> None:
        """Raise PartiesAway if too few of these said something, and one of the others may come back."""
        if self.mailbox.ended() or 0 < enough <= self.mailbox.came():
            return
        missing = (peer for peer in links if self.mailbox.due(peer) is None)
        # Whoever carries a goodbye can have made it: one that leaves for good has sent its last word before.
        if lost := [peer for peer in missing if not (links[peer].given_up or self.mailbox.has_ended(peer))]:
            raise PartiesAway(lost)

    async def await_goodbyes(self, readers: list[asyncio.Task[None]], patience: float) -> None:
        """Wait for everybody's goodbye: to close with unread messages would destroy those under way.

        One that is away and has not taken all that it was sent is waited for like any other.
        """
        self.begin.set()
        async with self.news:
            self.leaving = True
            self.news.notify_all()
        for link in self.links.values():
            link.say_goodbye()

        async def all_left() -> None:
            await asyncio.gather(
                *map(asyncio.shield, readers), *(link.written.wait() for link in self.links.values())
            )

        parts = PARTS
        while parts and await _times_out(all_left(), patience / PARTS):
            owed = any(link.away and link.kept and not link.closed for link in self.links.values())
            parts = PARTS if owed else parts - 1
