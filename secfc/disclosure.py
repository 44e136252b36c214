"""What the server may see of the distances: a value, not a flag.

A policy has two halves.  The client's turns coded distances into a reply, or into silence; the server's
turns replies into steps of Lloyd's heuristic.  Roles know neither.

What was tried and does not work is not offered: distances that are shuffled or scaled by secret integers
fall to greatest common divisors, to self-consistent scales and to linking by cluster sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from field.blind import blind, mask_context, partners
from field.coins import Coins
from secfc.exchange import PartyId, Role
from secfc.messages import Assignment, CodedDistances
from secfc.pairing import pair_keys
from secfc.plan import Plan
from secfc.source import BlindedSource, CodedSource

Array = NDArray[Any]

# A client's reply to an assignment, given how to compute its coded distances (lanes, k, m); None is silence.
Answer = Callable[[Assignment, Callable[[], Array]], CodedDistances | None]


class Disclosure(Protocol):
    """A policy.  Both fragments run once, after the rows are shared and before the first iteration."""

    def client(self, plan: Plan, name: PartyId, *, coins: Coins) -> Role[Answer]:
        """What a client replies with."""
        ...

    def server(self, plan: Plan, present: tuple[PartyId, ...], *, threads: int) -> Role[CodedSource]:
        """Where the server's steps come from."""
        ...

    def learned(self, plan: Plan) -> tuple[str, ...]:
        """What the server learned, in sentences for people."""
        ...


@dataclass(frozen=True)
class Distances:
    """The server decodes the exact distance of every point to every center, as in the paper.

    Warning: over iterations these fix the shape of the data up to rotation and reflection, and with d + 1
    known points the data themselves (`secfc.attacks.geometry`).

    blind: replies are masked so that their weighted sum, the distance, is all that the server gets of
    them.  Unblinded replies fix the whole polynomial: the distance of every segment of the features, and
    values at the noise points.  Blinding is by zero-sum masks of a fixed set of threshold(2) responders; if
    one stays silent, others are asked with fresh masks.
    colluding: how many clients may join the server and still get no more than distances out of the replies
    of the others; each two more cost every responder two more streams of masks.
    """

    blind: bool = True
    colluding: int = 1

    def client(self, plan: Plan, name: PartyId, *, coins: Coins) -> Role[Answer]:
        if not self.blind:
            yield from ()
            return lambda question, compute: CodedDistances(compute())
        keys = yield from pair_keys(plan, name, coins)
        me = plan.clients.index(name)

        def answer(question: Assignment, compute: Callable[[], Array]) -> CodedDistances | None:
            responders = tuple(question.responders.tolist())
            if me not in responders:
                return None
            values = compute()
            peers = partners(plan.code, responders, me, len(values), self.colluding)
            context = mask_context(plan.code, responders, len(values), values.shape[1:])
            streams = keys.streams(question.round, context, peers)
            if len(streams) < len(peers):
                return None  # a partner's key never came: without its mask the reply would be bare
            blind(plan.code, responders, me, streams, values, self.colluding)
            return CodedDistances(values)

        return answer

    def server(self, plan: Plan, present: tuple[PartyId, ...], *, threads: int) -> Role[CodedSource]:
        yield from ()
        return (BlindedSource if self.blind else CodedSource)(plan, present, threads=threads)

    def learned(self, plan: Plan) -> tuple[str, ...]:
        facts = [
            "all labels and cluster sizes, in every iteration (so did every client)",
            "the exact distance of every point to every center, in every iteration: over iterations these "
            "fix the shape of the data up to rotation and reflection",
        ]
        if plan.code.ell > 1 and not self.blind:
            facts.append(
                f"the same distances for each of the ell={plan.code.ell} segments of the features, if it "
                "interpolates the replies instead of summing them"
            )
        return tuple(facts)
