"""What one party does in a run between organizations, over any carrier: one role, from keys to results.

    greet       keys of all links, and that all hold the same run file          (`secfc.transport.sealed`)
    introduce   numbers of rows, where the plan needs them                      (`secfc.deploy.session`)
    agree ...   the algorithm
    finish      which clusters make a group, where a tree of them is cut        (`secfc.deploy.session`)
    end         who ends by an error says so                                    (`secfc.roles.abort`)

Everything is sealed between the two whom it concerns, and kept in a journal, so that a party that dies goes
on where it was.  A carrier moves sealed messages and knows nothing of them: a hub, sockets, or FLARE.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from field.arrays import Array
from field.secrets.channels import Identity
from field.secrets.coins import Coins
from secfc.algorithm import LIMIT, Algorithm, PartyOutcome, PublicFacts, power_of_two
from secfc.data.party import Party
from secfc.deploy.history import BEFORE
from secfc.errors import FaultyServer, TooFewReplies
from secfc.roles.abort import broadcast_abort
from secfc.roles.description import description_digest
from secfc.roles.exchange import (
    ITERATE,
    PHASE,
    PREPARE,
    SERVER,
    Exchange,
    Links,
    PartyId,
    Role,
    blame_error,
    expect_all,
    expect_messages,
    expect_one,
    to_all,
)
from secfc.roles.messages import Message, check_labels, is_array, refuse_if
from secfc.transport.checkpoint import keep_journal, replay
from secfc.transport.journal import Journal
from secfc.transport.sealed import seal_role

# --------------------------------------------------------------------------------------------------
# Who comes with how many rows: a round inside of the seal, before the plan of a run can be made.
#
# What must be public of the rows stands in no run file, as nobody knows it beforehand.  Each client tells all
# peers its number of rows, if the plan needs it, and the power of two that its values do not exceed, if no
# bound was agreed on and its site consents.  To clients that do not speak with all others the server tells
# what these said.  The plan that follows is compared by all that speak with each other, so whoever tells
# different parties different things ends the run before anything of a point is said.

# After the greetings, and before whatever the algorithm says first.
INTRODUCE = PREPARE - PHASE // 4
MOST_ROWS = 1 << 40


class Arrival(Message, tag=160):
    """Client to everyone, before the plan: its number of rows, 0 if the plan has no need of it, and the power
    of two that its values do not exceed.

    power: the exponent; LIMIT where a bound was agreed on, so that nothing is told.

    Under "sealed transport": client, everyone it speaks with.  Seen: between organizations, before the plan:
    its number of rows, where the plan needs it; and the power of two that its values do not exceed, only if
    no bound was agreed on and its site consents.  By deviating: different numbers to parties:
    `PlanMismatch`. A wrong one to all: the run ends at once with its own error.
    """

    rows: int
    power: int

    def __post_init__(self) -> None:
        refuse_if(not 0 <= self.rows <= MOST_ROWS, f"a client has up to {MOST_ROWS} rows")
        refuse_if(not -LIMIT < self.power <= LIMIT, "a power of two lies within the range of bounds")


class AllArrivals(Message, tag=240):
    """Server to a client that does not speak with all others, before the plan: what all clients said of
    themselves (`Arrival`), in their order: rows (n,) and powers (n,).

    Under "sealed transport": server, client.  Seen: numbers of rows, and powers, of those with whom it does
    not speak, as members of the committee have heard them.  By deviating: the server: other numbers than
    clients said: `PlanMismatch` with all members.
    """

    rows: Array
    powers: Array

    def __post_init__(self) -> None:
        whole = is_array(self.rows, "i", 1) and is_array(self.powers, "i", 1)
        refuse_if(not whole or self.rows.shape != self.powers.shape, "arrivals are two vectors of integers")

    @classmethod
    def of(cls, told: Iterable[Arrival]) -> AllArrivals:
        """What these said."""
        pairs = [(one.rows, one.power) for one in told]
        return cls(*np.array(pairs, np.int64).T.copy())

    def list_arrivals(self) -> list[Arrival]:
        """What each client said, in their order.  Raises ValueError for what no client says."""
        return [*map(Arrival, self.rows.tolist(), self.powers.tolist())]


@dataclass(frozen=True)
class Needs:
    """What clients tell of themselves.  rows: how many they have.  power: how large values are."""

    rows: bool
    power: bool

    def told(self, rows: int, power: int) -> Arrival:
        """What a client says that has so many rows, of values up to that power of two."""
        return Arrival(rows if self.rows else 0, power if self.power else LIMIT)


def introduce_parties(
    public: PublicFacts, needs: Needs, links: Links, me: PartyId, mine: Arrival | None
) -> Role[PublicFacts]:
    """What is public, with what the clients told.  mine: what this one tells; None for the server.

    Raises TooFewReplies if a client is missing, FaultyClient for one that tells too little or too much;
    FaultyServer if it tells what a client did not say.
    """
    if not (needs.rows or needs.power):
        return public
    peers = links.peers_of(me)
    others = tuple(p for p in peers if p != SERVER)
    send = {} if mine is None else to_all(peers, mine)
    inbox = yield Exchange(send, others, round=INTRODUCE, phase="introduce")
    told: dict[PartyId, Arrival] = dict(expect_all(expect_messages(inbox, Arrival), others))
    if mine is not None:
        told[me] = mine
    told = yield from relay_arrivals(public.clients, links, me, told)
    for client, one in told.items():
        if (one.rows > 0) != needs.rows or (one.power < LIMIT) != needs.power:
            raise blame_error(client, "told of its rows what was not asked for, or not what was")
    return introduce_then_run(public, needs, told)


def relay_arrivals(
    clients: tuple[PartyId, ...], links: Links, me: PartyId, told: dict[PartyId, Arrival]
) -> Role[dict[PartyId, Arrival]]:
    """What all clients said: the server tells those that do not speak with all.  told: to this party.

    Raises FaultyServer for something else than was told here, or what no client says.
    """
    if me == SERVER and (apart := [c for c in clients if c not in links.central_set]):
        all_told = AllArrivals.of(told[c] for c in clients)
        yield Exchange(to_all(apart, all_told), round=INTRODUCE + 1, phase="introduce")
    if len(told) == len(clients):
        return told
    inbox = yield Exchange({}, (SERVER,), round=INTRODUCE + 1, phase="introduce")
    heard: AllArrivals = expect_one(expect_messages(inbox, AllArrivals), SERVER)
    try:
        found = dict(zip(clients, heard.list_arrivals(), strict=True))
    except ValueError as error:
        raise FaultyServer(SERVER, f"told what no clients say of their rows ({error})") from None
    if any((found[c].rows, found[c].power) != (one.rows, one.power) for c, one in told.items()):
        raise FaultyServer(SERVER, "told something else of a client's rows than that client said")
    return found


def introduce_then_run(public: PublicFacts, needs: Needs, told: Mapping[PartyId, Arrival]) -> PublicFacts:
    """What is public, with what the clients told."""
    changes: dict[str, Any] = {}
    if needs.rows:
        changes["counts"] = tuple(told[client].rows for client in public.clients)
    if needs.power:
        changes["bound"] = 2.0 ** max(one.power for one in told.values())
    return replace(public, **changes)


# --------------------------------------------------------------------------------------------------

R = TypeVar("R")

# Moves the messages of a role to its end, among these peers.
Carrier = Callable[[Role[Any], tuple[PartyId, ...]], Awaitable[Any]]
# What a server draws starts with, made of its secret coins.
Generator = Any


@dataclass(frozen=True)
class AgreedWork:
    """What is to be run, as all parties have it before they talk.

    public: with whatever numbers of rows, if they are to be told.  derived: whether the bound is.
    parties: all of them, the clients in their order.  identities: their public keys.  description: of all
    that they agreed on beforehand, which keys are bound to.  heed: whose word that it ended the run by an
    error ends it for all; None for everybody's.  prepare: what this party does once all row counts are known,
    while it is connected and before it says anything else; it may take long, and refuse.
    cut: into how many groups clusters are joined in the end, and by which linkage, None if they are not.
    """

    algorithm: Algorithm
    public: PublicFacts
    derived: bool
    parties: tuple[PartyId, ...]
    identities: Mapping[PartyId, bytes]
    description: bytes
    heed: tuple[PartyId, ...] | None = None
    prepare: Callable[[PublicFacts], None] = lambda public: None
    cut: tuple[int, str] | None = None

    @property
    def needs(self) -> Needs:
        """What clients must tell of their rows."""
        return Needs(self.algorithm.capabilities.counted, self.derived)

    @property
    def links(self) -> Links:
        """Who speaks with whom."""
        central = self.algorithm.capabilities.central
        return Links(self.parties, self.parties if central is None else central(self.public))


def client_role(work: AgreedWork, party: Party, coins: Coins) -> Role[PartyOutcome]:
    """A client's part, from what it holds to what it has in the end."""
    needs = work.needs
    power = LIMIT
    if needs.power:
        largest = max(party.map_blocks(lambda _, block: float(abs(block).max())), default=0.0)
        power = round(math.log2(power_of_two(largest)))
    mine = needs.told(party.points.shape[0], power)
    public = yield from introduce_parties(work.public, needs, work.links, party.name, mine)
    plan = work.algorithm.plan(public)
    work.prepare(public)
    returned = yield from work.algorithm.client(plan, party, coins=coins)
    outcome = work.algorithm.outcome(plan, party.name, returned)
    return outcome if work.cut is None else (yield from join_own_clusters(outcome, work.cut[0]))


def server_role(work: AgreedWork, coins: Coins, rng: Generator) -> Role[PartyOutcome]:
    """The server's part.  rng: of starts, from its coins or the public seed."""
    public = yield from introduce_parties(work.public, work.needs, work.links, SERVER, None)
    plan = work.algorithm.plan(public)
    work.prepare(public)
    returned = yield from work.algorithm.server(plan, rng=rng, coins=coins)
    outcome = work.algorithm.outcome(plan, SERVER, returned)
    return outcome if work.cut is None else (yield from join_clusters(outcome, work.public.clients, work.cut))


# --------------------------------------------------------------------------------------------------
# Which clusters make a group: the server alone has their tree, so it cuts it and tells the sites.

GROUP = ITERATE + PHASE  # after everything of the algorithm
GROUPS_TOLD = "which of the clusters make a group, and no cost of merging any"


class ClusterGroups(Message, tag=168):
    """Server to every client, in the end: the group (k,) of each cluster, -1 of one without points.

    Under "sealed transport": server, client.  Seen: between organizations, where a tree of clusters is cut:
    which of them make a group, and no cost of merging.  By deviating: other groups, to one or all: they
    label rows by these, unnoticed.
    """

    groups: Array

    def __post_init__(self) -> None:
        rule = "a group for each cluster is a vector of signed integers"
        refuse_if(not is_array(self.groups, "i", 1), rule)
        check_labels(self.groups, max(len(self.groups), 1), "a group for each cluster")


def join_clusters(
    outcome: PartyOutcome, clients: tuple[PartyId, ...], cut: tuple[int, str]
) -> Role[PartyOutcome]:
    """The server's part: cut the tree, and tell which clusters make a group, of as many as there are."""
    count, method = cut
    tree = outcome.dendrogram
    groups = tree.cut_tree(min(count, len(tree.leaves)), method)
    yield Exchange(to_all(clients, ClusterGroups(groups)), round=GROUP, phase="finish")
    return replace(outcome, groups=groups)


def join_own_clusters(outcome: PartyOutcome, most: int) -> Role[PartyOutcome]:
    """A client's part: its labels (m_j,), of groups in place of clusters.

    Raises FaultyServer for groups that do not fit the clusters.
    """
    told: ClusterGroups = expect_one(
        expect_messages((yield Exchange({}, (SERVER,), round=GROUP, phase="finish")), ClusterGroups), SERVER
    )
    groups, k, labels = told.groups.astype(np.int32), outcome.plan.k, np.asarray(outcome.labels)
    if len(groups) != k or groups.max() >= most or -1 in groups[labels[labels >= 0]]:
        raise FaultyServer(
            SERVER, f"told of {len(groups)} clusters which make a group, which does not fit k={k}"
        )
    joined = np.append(groups, np.int32(-1))[labels]
    return replace(outcome, labels=joined, groups=groups, learned=(*outcome.learned, GROUPS_TOLD))


def protected_role(work: AgreedWork, me: PartyId, role: Role[R], identity: Identity, coins: Coins) -> Role[R]:
    """The same role, which says why it ends, and speaks with every peer in a sealed line of their own."""
    links = work.links
    role = broadcast_abort(role, me, links.peers_of(me), heed=work.heed, links=links)
    return seal_role(
        role, me, work.parties, work.description, coins, identity=identity, identities=work.identities,
        central=links.central,
    )  # fmt: skip


async def run_from_journal(
    work: AgreedWork,
    me: PartyId,
    make: Callable[[Coins, bytes], Role[R]],
    identity: Identity,
    journal: Path,
    carrier: Carrier,
    finished: Callable[[R], None] = lambda result: None,
) -> R:
    """Take part, from the journal if there is one.

    make: the party's part (`client_role`, `server_role`) from its secret coins and the journal's name, the
    same whenever it is called; it may refuse.
    journal: a file that is begun if there is none; whoever has the result on disk deletes it.
    finished: told the result before this party says goodbye, or stays for peers that lack its last words.

    Of a journal whose party had its result, that comes from the file alone; peers are then sought once more,
    for those that lack this party's last words, and done without.

    Raises JournalError for a journal of another run or of one that ended with blame, and what the role, the
    carrier and `finished` raise.
    """

    def journaled(kept: Journal, finished: Callable[[R], None]) -> Role[R]:
        coins = kept.coins()
        role = make(coins, kept.name)
        role = protected_role(work, me, role, identity, coins)
        role = keep_journal(role, kept, harmless=BEFORE, settling=True)
        return tell_result(role, finished)

    run, peers = description_digest(work.description), work.links.peers_of(me)
    with Journal.open(journal, me, run) as kept:
        if not kept.done:
            result: R = await carrier(journaled(kept, finished), peers)
            return result
        result = await asyncio.to_thread(replay, journaled(kept, finished))
    with Journal.open(journal, me, run) as kept, suppress(TooFewReplies, TimeoutError, ConnectionError):
        await carrier(journaled(kept, lambda result: None), peers)
    return result


def tell_result(role: Role[R], finished: Callable[[R], None]) -> Role[R]:
    """The same role, whose result is told before it ends."""
    result = yield from role
    finished(result)
    return result


# --------------------------------------------------------------------------------------------------
# New points of all sites are labeled together: a round that tells how many, then the roles of prediction.
#
# Each client tells how many new points it has and the number of its last prediction; the next number names
# this one, so that no two have the same keys' context, and what it costs is written down before anything else
# is said.  A site without new points takes part with one of its own making, as its shares are needed.


class NewRows(Message, tag=161):
    """Party to everyone, before new points are labeled: how many it has, and its last prediction's number.

    rows: 0 from the server.

    Under "sealed transport": party, everyone.  Seen: between organizations, before new rows are labeled:
    how many each site has, and how many predictions there were.  By deviating: different numbers:
    `PlanMismatch`. Too many: what the sites agreed to label is spent sooner, at all of them. A number
    near the largest: no later prediction.
    """

    rows: int
    number: int

    def __post_init__(self) -> None:
        refuse_if(not 0 <= self.rows <= MOST_ROWS, f"a client has up to {MOST_ROWS} rows")
        refuse_if(not 0 <= self.number < 2**62, "a prediction has a number")


# One party's part of a model (`secfc.coded_kmeans.model_share.ModelShare`), bound to what it labels: the role
# for so many new points of each client, and 32 bytes that name this prediction alone.
PredictionPart = Callable[[tuple[int, ...], bytes], Role[Any]]


def predict_together(
    session: bytes,
    clients: tuple[PartyId, ...],
    me: PartyId,
    mine: NewRows,
    spend: Callable[[int, tuple[int, ...]], None],
    labeling: PredictionPart,
) -> Role[Any]:
    """Label new points with the others.

    session: of the run.  spend: called with the number of this prediction and the points that clients have,
    before anything of them is said; it may refuse.

    Raises TooFewReplies if anybody is missing: all must know what is labeled.
    """
    parties = (*clients, SERVER)
    others = tuple(party for party in parties if party != me)
    inbox = yield Exchange(to_all(others, mine), others, round=INTRODUCE, phase="introduce")
    told = {**expect_all(expect_messages(inbox, NewRows), others), me: mine}
    number = 1 + max(one.number for one in told.values())
    counts = tuple(told[client].rows for client in clients)
    spend(number, counts)
    one = hashlib.blake2b(session + number.to_bytes(8, "little"), digest_size=32, person=b"secfc forecast")
    return (yield from labeling(counts, one.digest()))
