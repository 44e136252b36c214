"""All parties in one process: the driver of experiments, and the transcript of what everyone saw.

Knows no algorithm.  Roles run in lockstep; mailboxes are per sender and ordered by round, so a message that
overtakes another waits for its turn, and one that comes twice counts once.  When nobody can go on, the
waiting roles are resumed with whatever came, as a deadline would, and judge for themselves whether it
suffices.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from field.kernels.compiling import working_clock
from secfc.roles.exchange import SERVER, Exchange, Inbox, PartyId, ProtocolError, Role, TooFewReplies
from secfc.roles.transcript import Envelope, Run, Transcript

Faults = Callable[[Envelope], Iterable[Envelope]]
Watch = Callable[[PartyId, Exchange], None]


def deliver(envelope: Envelope) -> Iterable[Envelope]:
    """The fault model of a perfect network."""
    return (envelope,)


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

    Raises what a role raises, and closes the others; only a client that hears nothing any more ends
    alone, unless all do.
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
        self.silent: dict[PartyId, TooFewReplies] = {}
        self.log: list[Envelope] = []
        self.seconds: dict[PartyId, dict[str, float]] = {name: {} for name in roles}
        # inbox[recipient][sender] holds messages by round; taken[...] is the last round handed over.
        # Both are made as senders turn up: most of thousands of clients never talk to one another.
        self.inbox: dict[PartyId, dict[PartyId, dict[int, Any]]] = {name: defaultdict(dict) for name in roles}
        self.taken: dict[PartyId, dict[PartyId, int]] = {name: defaultdict(lambda: -1) for name in roles}

    def run(self) -> Run:
        for name in self.roles:
            self.advance(name, None)
        while self.waiting:
            ready = [name for name in self.waiting if self.served(name)]
            if not ready:
                ready = [self.most_served()]
            for name in ready:
                self.advance(name, self.collect(name))
        if self.silent and len(self.silent) == len(self.roles) - 1:
            raise next(iter(self.silent.values()))
        return Run(self.results, self.silent, Transcript(tuple(self.log)), self.seconds)

    def served(self, name: PartyId) -> bool:
        """Whether everything came that this party waits for."""
        exchange, boxes = self.waiting[name], self.inbox[name]
        # Ends at the first that is missing, as one mostly is.
        return all(exchange.due(boxes[peer]) is not None for peer in exchange.expect)

    def missing(self, name: PartyId) -> int:
        exchange = self.waiting[name]
        return sum(self.due(name, peer) is None for peer in exchange.expect)

    def due(self, name: PartyId, peer: PartyId) -> int | None:
        """The round of the peer's message that this party waits for, if it is there."""
        return self.waiting[name].due(self.inbox[name][peer])

    def most_served(self) -> PartyId:
        """Who goes on when nobody has everything: who has enough, else who has received most.

        The server is the most patient: it gives up on a client only when no client gives up on another.
        """

        def order(name: PartyId) -> tuple[bool, bool, int]:
            exchange = self.waiting[name]
            came = len(exchange.expect) - self.missing(name)
            enough = len(exchange.expect) if exchange.enough is None else exchange.enough
            return came < enough, name == SERVER, -came

        return min(self.waiting, key=order)

    def collect(self, name: PartyId) -> Inbox:
        """What came of what this party waits for; older messages of the same peers are forgotten."""
        awaited = {peer: self.due(name, peer) for peer in self.waiting[name].expect}
        rounds = {peer: number for peer, number in awaited.items() if number is not None}
        messages = {peer: self.inbox[name][peer][number] for peer, number in rounds.items()}
        self.forget(name, rounds)
        return Inbox(messages, rounds)

    def forget(self, name: PartyId, rounds: Mapping[PartyId, int]) -> None:
        """What this party took is gone, and so is what is older; later copies will be dropped."""
        for peer, number in rounds.items():
            self.taken[name][peer] = max(self.taken[name][peer], number)
            box = self.inbox[name][peer]
            for old in [r for r in box if r <= number]:
                del box[old]

    def advance(self, name: PartyId, value: Any) -> None:
        start = working_clock()
        try:
            exchange = self.roles[name].send(value)
        except StopIteration as done:
            self.results[name] = done.value
        except TooFewReplies as error:
            # A client that hears nothing any more ends for itself; the others may well go on.
            if name == SERVER:
                raise
            self.silent[name] = error
        else:
            self.book(name, exchange.phase, working_clock() - start)
            self.wait(name, exchange)
            return
        self.waiting.pop(name, None)
        self.book(name, "finish", working_clock() - start)

    def wait(self, name: PartyId, exchange: Exchange) -> None:
        self.waiting[name] = exchange
        self.forget(name, exchange.taken or {})
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
        if recipient not in self.inbox:
            raise ProtocolError(f"{sender} wants to send to {recipient!r}, who takes no part")
        envelope = Envelope(
            exchange.round,
            sender,
            recipient,
            type(body).__name__,
            nbytes,
            exchange.phase,
            body,
        )
        for arriving in self.faults(envelope):
            self.log.append(arriving if self.keep_bodies else arriving.header())
            self.arrive(arriving)

    def arrive(self, envelope: Envelope) -> None:
        """Put a message into its mailbox, unless that round of its sender came or was handed over before."""
        recipient, sender = envelope.recipient, envelope.sender
        if envelope.round > self.taken[recipient][sender]:
            self.inbox[recipient][sender].setdefault(envelope.round, envelope.body)
