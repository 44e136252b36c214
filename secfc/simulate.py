"""All parties in one process: the driver of experiments, and the transcript of what everyone saw.

Knows no algorithm.  Roles run in lockstep; mailboxes are per sender, so a message that overtakes another
waits for its turn.  When nobody can go on, the waiting roles are resumed with whatever came, as a
deadline would, and judge for themselves whether it suffices.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from secfc.exchange import SERVER, Exchange, PartyId, ProtocolError, Role


@dataclass(frozen=True)
class Envelope:
    """One message under way.  `body` is None in a transcript that keeps headers only."""

    round: int
    sender: PartyId
    recipient: PartyId
    kind: str
    nbytes: int
    phase: str
    body: Any = None

    def header(self) -> Envelope:
        """The same without its contents."""
        return Envelope(self.round, self.sender, self.recipient, self.kind, self.nbytes, self.phase)


@dataclass(frozen=True, repr=False)
class Transcript:
    """Every message of a run, in order: who sent what to whom, how large, and, if kept, its contents."""

    envelopes: tuple[Envelope, ...]

    def __repr__(self) -> str:
        return f"Transcript({len(self.envelopes)} messages, {self.nbytes()} bytes)"

    def __len__(self) -> int:
        return len(self.envelopes)

    def nbytes(self, sender: PartyId | None = None, recipient: PartyId | None = None) -> int:
        """Bytes sent, optionally by one sender or to one recipient."""
        return sum(
            e.nbytes
            for e in self.envelopes
            if sender in (None, e.sender) and recipient in (None, e.recipient)
        )

    def received(self, *parties: PartyId) -> tuple[Envelope, ...]:
        """What these parties received from anyone outside their coalition."""
        return tuple(e for e in self.envelopes if e.recipient in parties and e.sender not in parties)

    def summary(self) -> dict[str, dict[str, tuple[int, int]]]:
        """Per direction and kind of message: how many, and how many bytes."""
        table: dict[str, dict[str, tuple[int, int]]] = {}
        for e in self.envelopes:
            direction = f"{_side(e.sender)} -> {_side(e.recipient)}"
            count, size = table.setdefault(direction, {}).get(e.kind, (0, 0))
            table[direction][e.kind] = (count + 1, size + e.nbytes)
        return table


def _side(party: PartyId) -> str:
    return "server" if party == SERVER else "client"


Faults = Callable[[Envelope], Iterable[Envelope]]
Watch = Callable[[PartyId, Exchange], None]


def deliver(envelope: Envelope) -> Iterable[Envelope]:
    """The fault model of a perfect network."""
    return (envelope,)


@dataclass(frozen=True, repr=False)
class Run:
    """results by party; transcript; seconds[party][phase] of wall time spent computing."""

    results: Mapping[PartyId, Any]
    transcript: Transcript
    seconds: Mapping[PartyId, Mapping[str, float]]


def simulate(
    roles: Mapping[PartyId, Role[Any]],
    *,
    faults: Faults = deliver,
    keep_bodies: bool = False,
    watch: Watch | None = None,
) -> Run:
    """Run every role to its end.

    faults maps each envelope to the envelopes that arrive: drop, corrupt, repeat.  keep_bodies makes the
    transcript hold the messages themselves, which takes their memory.

    Raises what a role raises; the other roles are closed.
    """
    driver = _Driver(dict(roles), faults, keep_bodies, watch)
    try:
        return driver.run()
    finally:
        for role in roles.values():
            role.close()


class _Driver:
    def __init__(
        self,
        roles: dict[PartyId, Role[Any]],
        faults: Faults,
        keep_bodies: bool,
        watch: Watch | None,
    ) -> None:
        self.roles, self.faults, self.keep_bodies, self.watch = roles, faults, keep_bodies, watch
        self.waiting: dict[PartyId, Exchange] = {}
        self.results: dict[PartyId, Any] = {}
        self.log: list[Envelope] = []
        self.seconds: dict[PartyId, dict[str, float]] = {name: {} for name in roles}
        # inbox[recipient][sender] holds (round, message), oldest first.
        self.inbox: dict[PartyId, dict[PartyId, deque[tuple[int, Any]]]] = {
            name: {peer: deque() for peer in roles} for name in roles
        }

    def run(self) -> Run:
        for name in self.roles:
            self.advance(name, None)
        while self.waiting:
            ready = [name for name in self.waiting if self.missing(name) == 0]
            if not ready:
                ready = [self.most_served()]
            for name in ready:
                self.advance(name, self.collect(name))
        return Run(self.results, Transcript(tuple(self.log)), self.seconds)

    def missing(self, name: PartyId) -> int:
        exchange, boxes = self.waiting[name], self.inbox[name]
        count = 0
        for peer in exchange.expect:
            box = boxes[peer]
            while box and box[0][0] < exchange.round:
                box.popleft()  # a late answer to an earlier question
            count += not box
        return count

    def most_served(self) -> PartyId:
        """Who goes on when nobody has everything: who has enough, else who has received most."""

        def order(name: PartyId) -> tuple[bool, int]:
            exchange = self.waiting[name]
            came = len(exchange.expect) - self.missing(name)
            enough = len(exchange.expect) if exchange.enough is None else exchange.enough
            return came < enough, -came

        return min(self.waiting, key=order)

    def collect(self, name: PartyId) -> dict[PartyId, Any]:
        boxes = self.inbox[name]
        expect = self.waiting[name].expect
        return {peer: boxes[peer].popleft()[1] for peer in expect if boxes[peer]}

    def advance(self, name: PartyId, value: Any) -> None:
        start = time.perf_counter()
        try:
            exchange = self.roles[name].send(value)
        except StopIteration as done:
            self.results[name] = done.value
            self.waiting.pop(name, None)
            self.book(name, "finish", time.perf_counter() - start)
            return
        self.book(name, exchange.phase, time.perf_counter() - start)
        self.waiting[name] = exchange
        if self.watch is not None:
            self.watch(name, exchange)
        for recipient, body in exchange.send.items():
            self.post(name, recipient, exchange, body)

    def book(self, name: PartyId, phase: str, seconds: float) -> None:
        table = self.seconds[name]
        table[phase] = table.get(phase, 0.0) + seconds

    def post(self, sender: PartyId, recipient: PartyId, exchange: Exchange, body: Any) -> None:
        if recipient not in self.inbox:
            raise ProtocolError(f"{sender} wants to send to {recipient!r}, who takes no part")
        envelope = Envelope(
            exchange.round,
            sender,
            recipient,
            type(body).__name__,
            body.nbytes,
            exchange.phase,
            body,
        )
        for arriving in self.faults(envelope):
            self.log.append(arriving if self.keep_bodies else arriving.header())
            self.inbox[recipient][sender].append((arriving.round, arriving.body))
