"""All parties in one process: the driver of experiments, and the transcript of what everyone saw.

Knows no algorithm.  Roles run in lockstep, each with a mailbox (`secfc.roles.exchange`).  When nobody can
go on, the waiting roles are resumed with whatever came, as a deadline would, and judge for themselves whether
it suffices.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from field.kernels.compiling import working_clock
from secfc.errors import Indispensable, ProtocolError, TooFewReplies
from secfc.logs import log_exchange
from secfc.roles.exchange import SERVER, Envelope, Exchange, Mailbox, PartyId, Role, SimulatedRun, Transcript

# After a role has taken so many bytes, what it freed of them goes back to the system.
LARGE = 1 << 26
# The C library keeps what is freed up to twice the largest block that it mapped by itself, of at most 32 MiB.
MAPPED = (1 << 25) - (1 << 16)

Faults = Callable[[Envelope], Iterable[Envelope]]
Watch = Callable[[PartyId, Exchange], None]


def deliver_all(envelope: Envelope) -> Iterable[Envelope]:
    """The fault model of a perfect network."""
    return (envelope,)


def simulate(
    roles: Mapping[PartyId, Role[Any]],
    *,
    faults: Faults = deliver_all,
    keep_bodies: bool = False,
    watch: Watch | None = None,
    again: bool = False,
) -> SimulatedRun:
    """Run every role to its end.

    faults maps each envelope to the envelopes that arrive: drop, corrupt, repeat.  keep_bodies makes the
    transcript hold the messages themselves, which takes their memory.  again: whether a party asks once
    more for a message before it goes on without, as in `secfc.transport.network`; faults befall that anew.

    Raises what a role raises, and closes the others; only a client that hears nothing any more ends
    alone, unless all do.
    """
    keep_memory()
    driver = _Driver(dict(roles), faults, keep_bodies, watch)
    driver.keeps = again
    try:
        return driver.run()
    finally:
        for role in roles.values():
            role.close()


class _Driver:
    def __init__(
        self, roles: dict[PartyId, Role[Any]], faults: Faults, keep_bodies: bool, watch: Watch | None
    ) -> None:
        self.roles, self.faults, self.keep_bodies, self.watch = roles, faults, keep_bodies, watch
        self.mailboxes = {name: Mailbox() for name in roles}
        self.waiting: dict[PartyId, Mailbox] = {}
        self.results: dict[PartyId, Any] = {}
        self.silent: dict[PartyId, TooFewReplies] = {}
        self.log: list[Envelope] = []
        self.arrived = dict.fromkeys(roles, 0)  # bytes since the role went on
        self.seconds: dict[PartyId, dict[str, float]] = {name: {} for name in roles}
        self.keeps = False
        self.kept: dict[tuple[PartyId, PartyId], dict[int, Envelope]] = {}  # by recipient, sender and round

    def run(self) -> SimulatedRun:
        for name in self.roles:
            self.advance(name, None)
        while self.waiting:
            ready = [name for name, mailbox in self.waiting.items() if mailbox.complete()]
            if not ready:
                if self.repeat_missing():
                    continue
                ready = [self.most_served()]
            for name in ready:
                inbox = self.waiting[name].collect()
                inbox.heard = partial(self.heard_round, name)
                self.advance(name, inbox)
        if self.silent and len(self.silent) == len(self.roles) - 1:
            raise next(iter(self.silent.values()))
        return SimulatedRun(self.results, self.silent, Transcript(tuple(self.log)), self.seconds)

    def heard_round(self, name: PartyId, peer: PartyId) -> int:
        """The last round of one party's that a peer has taken, and gone on with."""
        return self.mailboxes[peer].taken(name)

    def most_served(self) -> PartyId:
        """Who goes on when nobody has everything: who has enough, else who has received most.

        The server is the most patient: it gives up on a client only when no client gives up on another.
        """

        def order(name: PartyId) -> tuple[bool, bool, int]:
            came, exchange = self.waiting[name].came(), self.waiting[name].awaited
            enough = len(exchange.expect) if exchange.enough is None else exchange.enough
            return came < enough, name == SERVER, -came

        return min(self.waiting, key=order)

    def repeat_missing(self) -> bool:
        """Whether anything was said once more, to parties that would go on without it."""
        due = []
        for name, mailbox in self.waiting.items() if self.kept else ():
            for sender in mailbox.awaited.expect:
                said = self.kept.get((name, sender), {})
                number = mailbox.awaited.due([r for r in said if r > mailbox.taken(sender)])
                if number is not None and mailbox.due(sender) is None:
                    due.append(said.pop(number))
        for envelope in due:
            self.deliver(envelope)
        return bool(due)

    def advance(self, name: PartyId, value: Any) -> None:
        start, large, self.arrived[name] = working_clock(), self.arrived[name] > LARGE, 0
        try:
            exchange = self.roles[name].send(value)
        except StopIteration as done:
            self.results[name] = done.value
        except TooFewReplies as error:
            # A client that hears nothing any more ends for itself; the others may well go on.
            if name == SERVER:
                # Whom the first client missed, of which others heard nothing then.
                lost = (e for e in self.silent.values() if isinstance(e, Indispensable))
                raise next((e for e in lost if e.party != SERVER), error) from error
            self.silent[name] = error
        else:
            self.book(name, exchange.phase, working_clock() - start)
            self.wait(name, exchange)
            del value
            if large:
                release_memory()
            return
        self.waiting.pop(name, None)
        self.book(name, "finish", working_clock() - start)

    def wait(self, name: PartyId, exchange: Exchange) -> None:
        self.waiting[name] = self.mailboxes[name]
        self.mailboxes[name].wait(exchange)
        log_exchange("transport", name, exchange)
        if self.watch is not None:
            self.watch(name, exchange)
        sizes: dict[int, int] = {}  # of each message, which may go to many
        for recipient, body in exchange.send.items():
            if id(body) not in sizes:
                sizes[id(body)] = body.nbytes
            self.post(name, recipient, exchange, body, sizes[id(body)])

    def book(self, name: PartyId, phase: str, seconds: float) -> None:
        table = self.seconds[name]
        table[phase] = table.get(phase, 0.0) + seconds

    def post(self, sender: PartyId, recipient: PartyId, exchange: Exchange, body: Any, nbytes: int) -> None:
        if recipient not in self.mailboxes:
            raise ProtocolError(f"{sender} wants to send to {recipient!r}, who takes no part")
        kept = body if self.keep_bodies or self.faults is not deliver_all else None
        envelope = Envelope(exchange.round, sender, recipient, body.kind, nbytes, exchange.phase, kept)
        if kept is None:  # nothing happens to a message, and its contents need no envelope
            self.log.append(envelope)
            self.mailboxes[recipient].keep_message(sender, exchange.round, body)
            self.arrived[recipient] += nbytes
            return
        if self.keeps:
            self.kept.setdefault((recipient, sender), {})[exchange.round] = envelope
        self.deliver(envelope)

    def deliver(self, envelope: Envelope) -> None:
        """What faults leave of a message reaches the mailboxes."""
        for arriving in self.faults(envelope):
            self.log.append(arriving if self.keep_bodies else arriving.header())
            self.mailboxes[arriving.recipient].keep_message(arriving.sender, arriving.round, arriving.body)
            self.arrived[arriving.recipient] += envelope.nbytes


def keep_memory() -> None:
    """Have the C library keep what a step frees for the next: pages that come anew are cleared each time."""
    np.empty(MAPPED, np.uint8)  # mapped and freed, never touched


def release_memory() -> None:
    """Hand free memory back to the system, where the C library can.

    Shares of thousands of clients are so small that they lie in the heap between those of other recipients:
    their holes fit nothing larger, and a process that holds all parties would need memory for both.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if hasattr(ctypes, "RTLD_GLOBAL") else None
    if trim is not None:
        trim(0)
