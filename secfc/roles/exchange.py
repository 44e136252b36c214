"""Roles, exchanges and blame: how a party says what it sends and whom it waits for.

A role is a generator.  Each `yield` is one line of the paper's algorithm: it hands out messages, names the
peers whose next message it awaits, and is resumed with what came.  No role touches a transport, a clock
or a file; a driver moves the messages.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from secfc.errors import PHASE as PHASE
from secfc.errors import (
    FaultyClient,
    FaultyParty,
    FaultyServer,
    Indispensable,
    ProtocolError,
    TooFewReplies,
)
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
    genuine: whether a message of a round is really its sender's, as far as that can be told before it is
    taken.  One that is not is asked for again by whatever driver can.
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
    heed: tuple[PartyId, ...] = ()
    genuine: Callable[[PartyId, int, Any], bool] | None = None
    settled: Callable[[], Settled] | None = None

    @property
    def first(self) -> int:
        """The oldest round that is awaited: what is older is too late."""
        return self.round if self.accept is None else self.accept

    def due(self, rounds: Collection[int]) -> int | None:
        """Which of these rounds of a peer's messages is the one awaited, None if none is."""
        first = self.first
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
