"""Who comes with how many rows: a round inside of the seal, before the plan of a run can be made.

What must be public of the rows stands in no run file, as nobody knows it beforehand.  Each client tells all
others, and the server, its number of rows, if the plan needs it, and the power of two that its values do not
exceed, if no bound was agreed on and its site consents.  The plan that follows is compared by all, so whoever
tells different parties different things ends the run before anything of a point is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from secfc.algorithm import LIMIT, Public
from secfc.roles.checks import refuse
from secfc.roles.exchange import (
    PHASE,
    PREPARE,
    SERVER,
    Exchange,
    PartyId,
    Role,
    everyone,
    faulty,
    take,
    to_all,
)
from secfc.roles.messages import Message

# After the greetings, and before whatever the algorithm says first.
INTRODUCE = PREPARE - PHASE // 4
MOST_ROWS = 1 << 40


@dataclass(frozen=True, eq=False, repr=False)
class Arrival(Message, tag=160):
    """Client to everyone, before the plan: its number of rows, 0 if the plan has no need of it, and the power
    of two that its values do not exceed.

    power: the exponent; LIMIT where a bound was agreed on, so that nothing is told.
    """

    rows: int
    power: int

    def __post_init__(self) -> None:
        refuse(not 0 <= self.rows <= MOST_ROWS, f"a client has up to {MOST_ROWS} rows")
        refuse(not -LIMIT < self.power <= LIMIT, "a power of two lies within the range of bounds")


@dataclass(frozen=True)
class Needs:
    """What clients tell of themselves.  rows: how many they have.  power: how large values are."""

    rows: bool
    power: bool

    def told(self, rows: int, power: int) -> Arrival:
        """What a client says that has so many rows, of values up to that power of two."""
        return Arrival(rows if self.rows else 0, power if self.power else LIMIT)


def introduced(public: Public, needs: Needs, me: PartyId, mine: Arrival | None) -> Role[Public]:
    """What is public, with what the clients told.  mine: what this one tells; None for the server.

    Raises TooFewReplies if a client is missing, FaultyClient for one that tells too little or too much.
    """
    if not (needs.rows or needs.power):
        return public
    clients = public.clients
    others = tuple(c for c in clients if c != me)
    peers = others if me == SERVER else (*others, SERVER)
    send = {} if mine is None else to_all(peers, mine)
    inbox = yield Exchange(send, others, round=INTRODUCE, phase="introduce")
    told: dict[PartyId, Arrival] = dict(everyone(take(inbox, Arrival), others))
    if mine is not None:
        told[me] = mine
    for client, one in told.items():
        if (one.rows > 0) != needs.rows or (one.power < LIMIT) != needs.power:
            raise faulty(client, "told of its rows what was not asked for, or not what was")
    return with_introductions(public, needs, told)


def with_introductions(public: Public, needs: Needs, told: Mapping[PartyId, Arrival]) -> Public:
    """What is public, with what the clients told."""
    changes: dict[str, Any] = {}
    if needs.rows:
        changes["counts"] = tuple(told[client].rows for client in public.clients)
    if needs.power:
        changes["bound"] = 2.0 ** max(one.power for one in told.values())
    return replace(public, **changes)
