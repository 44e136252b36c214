"""What one party does in a run between organizations, over any carrier: one role, from keys to results.

    greet       keys of all pairs, and that all hold the same run file          (`secfc.transport.sealed`)
    introduce   numbers of rows, where the plan needs them                      (`secfc.deploy.introduction`)
    agree ...   the algorithm
    end         who ends by an error says so                                    (`secfc.roles.ending`)

Everything is sealed between the two whom it concerns, and kept in a journal, so that a party that dies goes
on where it was.  A carrier moves sealed messages and knows nothing of them: a hub, sockets, or FLARE.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from field.secrets.channels import Identity
from field.secrets.coins import Coins
from secfc.algorithm import LIMIT, Algorithm, Outcome, Public, power_of_two
from secfc.data.party import Party
from secfc.deploy.introduction import Needs, introduced
from secfc.roles.ending import told
from secfc.roles.exchange import SERVER, PartyId, Role
from secfc.transport.checkpoint import checkpointed
from secfc.transport.journal import Journal
from secfc.transport.sealed import sealed

R = TypeVar("R")

# Moves the messages of a role to its end, among these peers.
Carrier = Callable[[Role[Any], tuple[PartyId, ...]], Awaitable[Any]]
# What a server draws starts with, made of its secret coins.
Generator = Any


@dataclass(frozen=True)
class Work:
    """What is to be run, as all parties have it before they talk.

    public: with whatever numbers of rows, if they are to be told.  derived: whether the bound is.
    parties: all of them, the clients in their order.  identities: their public keys.  description: of all
    that they agreed on beforehand, which keys are bound to.  heed: whose word that it ended the run by an
    error ends it for all; None for everybody's.
    """

    algorithm: Algorithm
    public: Public
    derived: bool
    parties: tuple[PartyId, ...]
    identities: Mapping[PartyId, bytes]
    description: bytes
    heed: tuple[PartyId, ...] | None = None

    @property
    def needs(self) -> Needs:
        """What clients must tell of their rows."""
        return Needs(bool(getattr(self.algorithm, "counted", True)), self.derived)


def client(work: Work, party: Party, coins: Coins) -> Role[Outcome]:
    """A client's part, from what it holds to what it has in the end."""
    needs = work.needs
    power = LIMIT
    if needs.power:
        largest = max((float(abs(block).max()) for _, block in party.blocks()), default=0.0)
        power = round(math.log2(power_of_two(largest)))
    mine = needs.told(party.points.shape[0], power)
    public = yield from introduced(work.public, needs, party.name, mine)
    plan = work.algorithm.plan(public)
    returned = yield from work.algorithm.client(plan, party, coins=coins)
    return work.algorithm.outcome(plan, party.name, returned)


def server(work: Work, coins: Coins, rng: Generator) -> Role[Outcome]:
    """The server's part.  rng: of starts, from its coins or the public seed."""
    public = yield from introduced(work.public, work.needs, SERVER, None)
    plan = work.algorithm.plan(public)
    returned = yield from work.algorithm.server(plan, rng=rng, coins=coins)
    return work.algorithm.outcome(plan, SERVER, returned)


def protected(work: Work, me: PartyId, role: Role[R], identity: Identity, coins: Coins) -> Role[R]:
    """The same role, which says why it ends, and speaks with every peer in a sealed line of their own."""
    peers = tuple(party for party in work.parties if party != me)
    role = told(role, me, peers, heed=work.heed)
    return sealed(
        role, me, work.parties, work.description, coins, identity=identity, identities=work.identities
    )


async def attend(
    work: Work,
    me: PartyId,
    make: Callable[[Coins], Role[R]],
    identity: Identity,
    journal: Path,
    carrier: Carrier,
) -> R:
    """Take part, from the journal if there is one.

    make: the party's part (`client`, `server`) from its secret coins, the same whenever it is called.
    journal: a file that is begun if there is none; whoever has the result on disk deletes it.

    Raises JournalError for a journal of another run or of one that ended with blame, and what the role and
    the carrier raise.
    """
    from secfc.roles.description import digest_of

    with Journal.open(journal, me, digest_of(work.description)) as kept:
        coins = kept.coins()
        role = checkpointed(protected(work, me, make(coins), identity, coins), kept)
        result: R = await carrier(role, tuple(party for party in work.parties if party != me))
        return result
