"""New points of all sites are labeled together: a round that tells how many, then the roles of prediction.

Each client tells how many new points it has and the number of its last prediction; the next number names this
one, so that no two have the same keys' context, and what it costs is written down before anything else is
said.  A site without new points takes part with one of its own making, as its shares are needed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from secfc.deploy.introduction import INTRODUCE, MOST_ROWS
from secfc.roles.checks import refuse
from secfc.roles.exchange import SERVER, Exchange, PartyId, Role, everyone, take, to_all
from secfc.roles.messages import Message


@dataclass(frozen=True, eq=False, repr=False)
class NewRows(Message, tag=161):
    """Party to everyone, before new points are labeled: how many it has, and its last prediction's number.

    rows: 0 from the server.
    """

    rows: int
    number: int

    def __post_init__(self) -> None:
        refuse(not 0 <= self.rows <= MOST_ROWS, f"a client has up to {MOST_ROWS} rows")
        refuse(not 0 <= self.number < 2**62, "a prediction has a number")


class Labeling(Protocol):
    """One party's part of a model (`secfc.exact.retained.Retained`), bound to what it labels."""

    def __call__(self, counts: tuple[int, ...], session: bytes) -> Role[Any]:
        """The role, for so many new points of each client.  session: 32 bytes of this prediction alone."""
        ...


def forecast(
    session: bytes,
    clients: tuple[PartyId, ...],
    me: PartyId,
    mine: NewRows,
    spend: Callable[[int, int], None],
    labeling: Labeling,
) -> Role[Any]:
    """Label new points with the others.

    session: of the run.  spend: called with the number of this prediction and all points, before anything of
    them is said; it may refuse.

    Raises TooFewReplies if anybody is missing: all must know what is labeled.
    """
    parties = (*clients, SERVER)
    others = tuple(party for party in parties if party != me)
    inbox = yield Exchange(to_all(others, mine), others, round=INTRODUCE, phase="introduce")
    told = {**everyone(take(inbox, NewRows), others), me: mine}
    number = 1 + max(one.number for one in told.values())
    counts = tuple(told[client].rows for client in clients)
    spend(number, sum(counts))
    one = hashlib.blake2b(session + number.to_bytes(8, "little"), digest_size=32, person=b"secfc forecast")
    return (yield from labeling(counts, one.digest()))
