"""What every disclosure policy offers to the roles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

from numpy.typing import NDArray

from field.coins import Coins
from secfc.exchange import PartyId, Role
from secfc.messages import Assignment, Message
from secfc.plan import Plan
from secfc.source import CodedSource

Array = NDArray[Any]

# A client's part in answering an assignment, given how to compute its coded distances (lanes, k, m): a
# fragment that may talk to others in rounds after the question's, and returns what the server is due,
# None for silence.
Answer = Callable[[Assignment, Callable[[], Array]], Role[Message | None]]

# What the server sees in every iteration beside the public parameters, and so what it can attack:
# "distances" of all points to all centers, and labels; "labels" alone; or "nothing" but the result.
Exposure = Literal["distances", "labels", "nothing"]


class Disclosure(Protocol):
    """A policy.  Both fragments run once, after the rows are shared and before the first iteration."""

    @property
    def exposes(self) -> Exposure:
        """What the server sees in every iteration."""
        ...

    def client(self, plan: Plan, name: PartyId, *, coins: Coins) -> Role[Answer]:
        """How a client answers."""
        ...

    def server(self, plan: Plan, present: tuple[PartyId, ...], *, threads: int) -> Role[CodedSource]:
        """Where the server's steps come from."""
        ...

    def learned(self, plan: Plan) -> tuple[str, ...]:
        """What the server learned, in sentences for people."""
        ...
