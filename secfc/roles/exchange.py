"""Roles, exchanges and blame: how a party says what it sends and whom it waits for.

A role is a generator.  Each `yield` is one line of the paper's algorithm: it hands out messages, names the
peers whose next message it awaits, and is resumed with what came.  No role touches a transport, a clock
or a file; a driver moves the messages.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from field.cached import cached_property
from secfc.errors import PHASE as PHASE
from secfc.errors import FaultyClient, FaultyParty, FaultyServer, Indispensable, ProtocolError, TooFewReplies
from secfc.errors import PartyId as PartyId

SERVER: PartyId = "server"

M = TypeVar("M")
R = TypeVar("R")


# Rounds rise strictly from any party to any other.  Each phase of a run begins at one of these.
GREET, ALIGN, AGREE, SHARE, TOSS, SETTLE, PAIR, ITERATE = (phase * PHASE for phase in range(8))
# What parties do before anything of the clustering: they greeted each other, and align no rows yet.
PREPARE = GREET + PHASE // 2

# Of the word that a party ended by an error (`secfc.roles.abort`): after everything else that it says.
END = 1 << 62

# The server's questions are so many rounds apart; those between belong to the answers.
STRIDE = 1 << 10


@dataclass(frozen=True)
class Links:
    """Who speaks with whom at all.  central: parties that do with everybody; all others with these alone."""

    parties: tuple[PartyId, ...]
    central: tuple[PartyId, ...]

    @classmethod
    def of_all(cls, parties: tuple[PartyId, ...]) -> Links:
        """Between all of these."""
        return cls(parties, parties)

    def peers_of(self, me: PartyId) -> tuple[PartyId, ...]:
        """Whom a party speaks with, in the order of parties."""
        return tuple(p for p in (self.parties if me in self.central_set else self.central) if p != me)

    def common_parties(self, one: PartyId, other: PartyId) -> tuple[PartyId, ...]:
        """Two that speak with each other, and those with whom both do, in the order of parties."""
        if {one, other} <= self.central_set:
            return self.parties
        return tuple(sorted(self.central_set | {one, other}, key=self.party_places.__getitem__))

    @cached_property
    def central_set(self) -> frozenset[PartyId]:
        """The central parties."""
        return frozenset(self.central)

    @cached_property
    def party_places(self) -> Mapping[PartyId, int]:
        """The number of every party."""
        return {party: number for number, party in enumerate(self.parties)}


@dataclass(frozen=True)
class Exchange:
    """What a role yields.

    send: at most one message a peer.  expect: whose message I wait for.  enough: with how many of them I
    can go on without waiting for the rest (all by default); 0: without any, but only those may be missing who
    are gone.  round: stamped on what I send.  accept: the round of what I wait for, `round` by default.
    exact: that one only; without it that one or a newer one of the same phase, as I may have missed what the
    peer said last; step: one that is a multiple of this newer, so that what belongs to a question I missed is
    no question.
    What is newer waits for its turn.  Older and repeated messages are dropped, so a late reply is never
    taken for the next one, and one that is lost is missed, not mistaken.
    phase: what the work before this exchange is booked under.
    heed: whose word that it ended by an error ends the waiting, whoever is awaited.
    taken: set when this exchange repeats one from before a crash: the last round that was taken then from
    each sender.  A driver drops that one and older ones.
    said: of one that repeats none but what it sends, which was on file before a crash.
    again: by peer, the last round that it may forget although this party has taken later ones: it may ask for
    those once more.  A driver tells the peer.
    meets: peers of whom the party first hears how far they took what it said before it resumed.  A driver
    waits for a while.
    settles: of one that awaits the server's next word: whether the role can do with what comes of that.
    settled: what came of all since the exchange before that awaited the server's next word, if a resumed role
    can do with that (`Settled`); asked at once, or never.
    """

    send: Mapping[PartyId, Any] = field(default_factory=dict)
    expect: tuple[PartyId, ...] = ()
    enough: int | None = None
    round: int = 0
    accept: int | None = None
    exact: bool = True
    step: int = 1
    phase: str = ""
    taken: Mapping[PartyId, int] | None = None
    said: bool = False
    heed: tuple[PartyId, ...] = ()
    again: Mapping[PartyId, int] = field(default_factory=dict)
    meets: tuple[PartyId, ...] = ()
    settles: bool = False
    settled: Callable[[], Settled] | None = None

    @property
    def first(self) -> int:
        """The oldest round that is awaited: what is older is too late."""
        return self.round if self.accept is None else self.accept

    def change(self, **values: Any) -> Exchange:
        """Another one with these values in place of its own: `dataclasses.replace`, for thousands of them."""
        other = object.__new__(Exchange)
        other.__dict__.update(self.__dict__, **values)
        return other

    def due(self, rounds: Collection[int]) -> int | None:
        """Which of these rounds of a peer's messages is the one awaited, None if none is."""
        first = self.round if self.accept is None else self.accept
        if self.exact:
            return first if first in rounds else None
        last = first - first % PHASE + PHASE - 1
        return min((r for r in rounds if first <= r <= last and (r - first) % self.step == 0), default=None)


@dataclass(frozen=True, eq=False, repr=False)
class Settled:
    """What came of a request that was answered, in place of all that was said for it: secret.

    No message: what a journal hands to the role that it resumes, as the server's word.

    request: the server's message.  opened: labels (m,) int32 that the answer opened, None if none was heard.
    spent: how far the coins and keys of the party are.
    """

    request: Any
    opened: NDArray[np.int32] | None
    spent: tuple[int, ...]


class Inbox(dict[PartyId, Any]):
    """What a driver resumes a role with: messages by sender, and in `rounds` the round of each.

    heard: the last round of this party's that a peer has taken for good, so that it never asks for it again.
    """

    def __init__(
        self,
        messages: Mapping[PartyId, Any],
        rounds: Mapping[PartyId, int],
        heard: Callable[[PartyId], int] = lambda peer: -1,
    ) -> None:
        super().__init__(messages)
        self.rounds, self.heard = dict(rounds), heard


Role = Generator[Exchange, Mapping[PartyId, Any], R]


def blame_error(party: PartyId, why: str) -> FaultyParty:
    """The error that blames this party."""
    return (FaultyServer if party == SERVER else FaultyClient)(party, why)


def expect_messages(inbox: Mapping[PartyId, Any], kind: type[M]) -> dict[PartyId, M]:
    """The inbox, every message of which must be of this type.

    Raises FaultyClient or FaultyServer naming the sender of anything else.
    """
    for sender, message in inbox.items():
        if not isinstance(message, kind):
            due = getattr(kind, "__name__", kind)  # a union of types has no name
            raise blame_error(sender, f"sent {type(message).__name__} where {due} was due")
    return dict(inbox)


def expect_one(inbox: Mapping[PartyId, Any], party: PartyId) -> Any:
    """The message of the one peer that was awaited.

    Raises TooFewReplies if it fell silent, Indispensable if that was the server.
    """
    if party not in inbox:
        if party == SERVER:
            raise Indispensable(SERVER, "it asks the questions, and only its answers are awaited here")
        raise TooFewReplies(1, tuple(inbox))
    return inbox[party]


def expect_all(inbox: Mapping[PartyId, M], parties: Collection[PartyId]) -> Mapping[PartyId, M]:
    """The messages of peers who all were awaited.

    Raises TooFewReplies if any fell silent.
    """
    if len(inbox) < len(parties):
        raise TooFewReplies(len(parties), tuple(inbox))
    return inbox


def to_all(recipients: Iterable[PartyId], message: Any) -> dict[PartyId, Any]:
    """The same message to every recipient."""
    return dict.fromkeys(recipients, message)


def run_alone(role: Generator[Exchange, Any, R]) -> R:
    """Run a role, or a fragment of one, that has nobody to talk to.

    Raises ProtocolError if it wants to communicate.
    """
    try:
        next(role)
    except StopIteration as done:
        result: R = done.value
        return result
    raise ProtocolError("a role without peers wants to communicate")


# --------------------------------------------------------------------------------------------------
# What was said in a run: every message, who sent it to whom, and how large it was.


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
        """The message without its contents."""
        other = object.__new__(Envelope)  # as `Exchange.change`
        other.__dict__.update(self.__dict__, body=None)
        return other


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


@dataclass(frozen=True, repr=False)
class SimulatedRun:
    """results by party; silent: clients that were cut off from the others, and with what error.

    transcript; seconds[party][phase] of wall time spent computing, without loading kernels.
    """

    results: Mapping[PartyId, Any]
    silent: Mapping[PartyId, TooFewReplies]
    transcript: Transcript
    seconds: Mapping[PartyId, Mapping[str, float]]


# --------------------------------------------------------------------------------------------------
# The mailbox of a party: what came for it and was not handed over yet.  No transport, no clock.
#
# Messages are kept by sender and ordered by round, so one that overtakes another waits for its turn.  One
# that comes twice counts once, and the first counts.  Rounds rise between any two parties, in what is sent
# and in what is awaited, so once a party took a message, or waits for a newer one, older ones of that sender
# are too late.  They are dropped, whether they are there or still to come, so memory holds only what may be
# taken yet.


class Mailbox:
    """Messages of one party, who waits for one exchange after the other."""

    def __init__(self) -> None:
        self.awaited = Exchange()
        # By sender, made as senders turn up: most of thousands of clients never talk to one another.
        self._messages: defaultdict[PartyId, dict[int, Any]] = defaultdict(dict)  # by round
        self._taken: dict[PartyId, int] = {}
        self._first: dict[PartyId, int] = {}  # the oldest round that is not too late
        self._ends = False  # whether anybody ever said that it ended

    def wait(self, exchange: Exchange) -> None:
        """The party waits for this from now on: what it took before a crash, or is older, is too late."""
        # What the party says is not its mailbox's to keep: it may be all its shares.
        self.awaited = exchange.change(send={}) if exchange.send else exchange
        if exchange.taken:
            self.forget_rounds(exchange.taken)
        first = exchange.first
        for sender in exchange.expect:
            self._drop(sender, first)

    def keep_message(self, sender: PartyId, number: int, message: Any) -> None:
        """Keep the message of this round, unless it is too late or came before."""
        if number >= self._first.get(sender, 0):
            self._messages[sender].setdefault(number, message)
            self._ends = self._ends or number == END

    def ended(self) -> list[PartyId]:
        """Who said that it ended the run by an error, of those whose word on that counts."""
        return [sender for sender in self.awaited.heed if self.has_ended(sender)] if self._ends else []

    def has_ended(self, sender: PartyId) -> bool:
        """Whether it said that it ended the run by an error."""
        return END in self._messages[sender]

    def due(self, sender: PartyId) -> int | None:
        """The round of this sender's message that the party waits for, None if it has not come."""
        return self.awaited.due(self._messages[sender])

    def came(self) -> int:
        """How many of those awaited have sent what is awaited."""
        return sum(self.due(sender) is not None for sender in self.awaited.expect)

    def complete(self) -> bool:
        """Whether all of them have, or somebody ended the run."""
        if self.ended():
            return True
        due, messages = self.awaited.due, self._messages
        # Asked after every step of anybody; ends at the first that is missing, as one mostly is.
        return all(due(messages[sender]) is not None for sender in self.awaited.expect)

    def collect(self) -> Inbox:
        """What came of what the party waits for; with it older messages of the same senders are gone."""
        due, messages = self.awaited.due, self._messages
        awaited = {sender: due(messages[sender]) for sender in self.awaited.expect}
        if self._ends:
            awaited |= dict.fromkeys(self.ended(), END)
        rounds = {sender: number for sender, number in awaited.items() if number is not None}
        inbox = Inbox({sender: messages[sender][number] for sender, number in rounds.items()}, rounds)
        self.forget_rounds(rounds)
        return inbox

    def forget_rounds(self, rounds: Mapping[PartyId, int]) -> None:
        """The party has taken these rounds of these senders, so they and what is older are too late."""
        taken = self._taken
        for sender, number in rounds.items():
            if number > taken.get(sender, -1):
                taken[sender] = number
            self._drop(sender, number + 1)

    def taken(self, sender: PartyId) -> int:
        """The last round of this sender that the party took, -1 if none."""
        return self._taken.get(sender, -1)

    def count_waiting(self, sender: PartyId) -> int:
        """How many messages of this sender wait to be taken."""
        return len(self._messages[sender])

    def nbytes(self, sender: PartyId) -> int:
        """How many bytes they have."""
        return sum(int(message.nbytes) for message in self._messages[sender].values())

    def _drop(self, sender: PartyId, first: int) -> None:
        """What is older than this round is too late."""
        if first > self._first.get(sender, 0):
            self._first[sender] = first
            messages = self._messages[sender]
            # There is one message mostly, or none.
            if messages and min(messages) < first:
                self._messages[sender] = {number: m for number, m in messages.items() if number >= first}
