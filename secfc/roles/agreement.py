"""What parties agree on before anything secret moves, as role fragments: the plan, and coins."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from field.arrays import Array
from field.secrets.coins import Coins
from secfc.errors import FaultyServer, PlanMismatch, TooFewReplies
from secfc.roles.description import Difference, describe_differences, description_digest
from secfc.roles.exchange import (
    AGREE,
    SERVER,
    TOSS,
    Exchange,
    PartyId,
    Role,
    blame_error,
    expect_all,
    expect_messages,
    expect_one,
    to_all,
)
from secfc.roles.messages import Hello, Message, PlanDigest, is_array, refuse_if


class AgreedPlan(Protocol):
    """A plan that parties compare."""

    @property
    def clients(self) -> tuple[PartyId, ...]: ...

    @property
    def description(self) -> bytes: ...


def agree(
    plan: AgreedPlan, me: PartyId, peers: tuple[PartyId, ...] | None = None, *, number: int = AGREE
) -> Role[None]:
    """Compare the plan with every peer, all other parties by default, before anything secret moves.

    number: the round of the exchange.

    Raises PlanMismatch naming who differs, and in what.
    """
    if peers is None:
        peers = tuple(p for p in (*plan.clients, SERVER) if p != me)
    hello = to_all(peers, Hello(plan.description))
    inbox = yield Exchange(hello, peers, 0, round=number, phase="agree")
    if differing := compare_descriptions(plan, inbox):
        raise PlanMismatch(differing)


def agree_with_server(plan: AgreedPlan, me: PartyId) -> Role[None]:
    """Compare the plan where clients talk to the server alone: none goes on before it found that all agree.

    Raises PlanMismatch; TooFewReplies at a client that hears nothing, as when others differ.
    """
    hello = Hello(plan.description)
    if me != SERVER:
        inbox = yield Exchange({SERVER: hello}, (SERVER,), round=AGREE, phase="agree")
        expect_all(inbox, (SERVER,))
    else:
        inbox = yield Exchange({}, plan.clients, 0, round=AGREE, phase="agree")
        differing = compare_descriptions(plan, inbox)
        yield Exchange(to_all(differing or plan.clients, hello), round=AGREE, phase="agree")
    if differing := compare_descriptions(plan, inbox):
        raise PlanMismatch(differing)


def agree_by_digest(
    plan: AgreedPlan,
    me: PartyId,
    computing: tuple[PartyId, ...],
    speaking: tuple[PartyId, ...] | None = None,
) -> Role[None]:
    """Compare digests where clients talk to workers and the server alone: n descriptions are long.

    speaking: the clients that say anything, all by default.

    A client hears from every worker what it agreed to, before any share leaves.  To whom its plan differs
    from the server's, the server says what its own is, and hears the other.

    Raises PlanMismatch.
    """
    mine = PlanDigest(description_digest(plan.description))
    working, clients = (*computing, SERVER), plan.clients if speaking is None else speaking
    peers = tuple(p for p in ((*clients, SERVER) if me in working else working) if p != me)
    inbox = yield Exchange(to_all(peers, mine), peers, 0, round=AGREE, phase="agree")
    heard = expect_messages(inbox, PlanDigest)
    others = tuple(p for p, message in heard.items() if message.digest != mine.digest)
    if not others:
        return
    hello = to_all((p for p in others if SERVER in (me, p)), Hello(plan.description))
    # Whom the server differs from as well, it says in what: it is heard before a client blames another.
    awaited = others if me == SERVER else (SERVER,)
    inbox = yield Exchange(hello, awaited, 0, round=AGREE + 1, phase="agree")
    unexplained = {
        p: (Difference("the digest of the plan", mine.digest.hex()[:16], heard[p].digest.hex()[:16]),)
        for p in others
    }
    raise PlanMismatch(unexplained | compare_descriptions(plan, inbox))


def agree_with_workers(
    plan: AgreedPlan,
    me: PartyId,
    computing: tuple[PartyId, ...],
    speaking: tuple[PartyId, ...] | None = None,
) -> Role[None]:
    """Compare the plan where not all clients may compute: digests if some do not, else all of it.

    speaking: the clients that say anything, all by default.

    Raises PlanMismatch.
    """
    if len(computing) < len(plan.clients):
        yield from agree_by_digest(plan, me, computing, speaking)
    else:
        yield from agree(plan, me)


def compare_descriptions(
    plan: AgreedPlan, inbox: Mapping[PartyId, Any]
) -> dict[PartyId, tuple[Difference, ...]]:
    """What differs from the plan, for each peer whose description is another."""
    mine = plan.description
    heard = {peer: hello.description for peer, hello in expect_messages(inbox, Hello).items()}
    return {p: describe_differences(mine, theirs) for p, theirs in heard.items() if theirs != mine}


# --------------------------------------------------------------------------------------------------
# Coins that clients toss together, through the server: nobody chooses or foresees the result.
#
# Every client commits to a coin; the server tells all commitments to all; every client opens its coin; the
# server tells all coins to all.  A client opens only where its own commitment is among those told, and goes
# on only if its own coin counts.  So its seed is uniform to everybody else, whoever they are: all other coins
# in it were fixed before it opened its own.  That holds against the server with all other clients.
#
# Whoever commits and does not open is left out, and all others toss anew.  A coalition that dislikes a seed
# may so refuse it: once for each of its members, and once for each client that the server calls silent.  That
# is at most n - needed times, so it takes the best of that many more seeds, and no more.
#
# A server may tell different clients different coins: their seeds then differ, and none of them is its
# choice.  What is done with a seed must be bound to it (`exchange_digest` is public), or fail where clients
# disagree.


SIZE = 32


# --- messages ------------------------------------------------------------------------------------


class Commitment(Message, tag=46):
    """Client to server: the digest (32 bytes) of a coin that it opens once all have committed.

    Under "every policy": client, server.  Seen: hides 32 random bytes.  By deviating: commit and not
    open: it is left out and the others toss anew, at most `n - needed` times.
    """

    digest: bytes

    def __post_init__(self) -> None:
        refuse_if(len(self.digest) != SIZE, f"a commitment has {SIZE} bytes, this one has {len(self.digest)}")


class Coin(Message, tag=47):
    """Client to server: the coin (32 bytes) that it committed to; random, and public from now on.

    Under "every policy": client, server.  Seen: 32 random bytes, public from now on.  By deviating: send
    another than it committed to: `FaultyClient`.
    """

    value: bytes

    def __post_init__(self) -> None:
        refuse_if(len(self.value) != SIZE, f"a coin has {SIZE} bytes, this one has {len(self.value)}")


class TossedCoins(Message, tag=48):
    """Server to clients: who committed, or opened, (n,) bool, and what, (count, 32) uint8 in their order.

    Under "every policy": server, client.  Seen: all commitments, then all coins.  By deviating: the
    server: leave out a coin, or add one that nobody committed to: `FaultyServer`. Different coins to
    clients: a dealer's `MaskChoice` does not fit (`SuspectedParties`).
    """

    there: Array
    values: Array

    def __post_init__(self) -> None:
        refuse_if(not is_array(self.there, "b", 1), "who tossed is one truth value a client")
        shape = int(np.count_nonzero(self.there)), SIZE
        bytes_each = is_array(self.values, "u", 2) and self.values.dtype == np.uint8
        refuse_if(not bytes_each or self.values.shape != shape, f"tossed values are {SIZE} bytes a client")


# --- pure steps ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class CoinToss:
    """Who tosses, and for what: public.

    digest: of what the parties agreed on, which every coin is bound to.  needed: the clients that must take
    part, at least one of them honest.  first: the round that the toss begins with.
    """

    clients: tuple[PartyId, ...]
    digest: bytes
    needed: int
    first: int = TOSS

    def commitment(self, attempt: int, client: int, coin: bytes) -> bytes:
        """What client number `client` says of its coin before it opens it."""
        place = attempt.to_bytes(4, "little") + client.to_bytes(4, "little")
        return hashlib.blake2b(self.digest + place + coin, digest_size=SIZE, person=b"secfc-commit").digest()

    def seed(self, there: Array, values: Array) -> bytes:
        """What the coins (count, 32) of those who are there (n,) give: 32 bytes, public."""
        text = self.digest + there.astype(np.uint8).tobytes() + values.tobytes()
        return hashlib.blake2b(text, digest_size=SIZE, person=b"secfc-toss").digest()

    def told(self, values: Mapping[PartyId, bytes]) -> TossedCoins:
        """The message that tells these values."""
        there = np.array([c in values for c in self.clients])
        flat = b"".join(values[c] for c in self.clients if c in values)
        return TossedCoins(there, np.frombuffer(flat, np.uint8).reshape(-1, SIZE))


def derive_seed(seed: bytes, purpose: bytes) -> bytes:
    """32 bytes that are as public and as random as the seed, one use each: purpose is up to 16 bytes."""
    return hashlib.blake2b(seed, digest_size=SIZE, person=purpose).digest()


# --- client --------------------------------------------------------------------------------------


def toss_coins(table: CoinToss, name: PartyId, coins: Coins) -> Role[bytes]:
    """32 public bytes that this client's coin makes uniform, whatever all others do.

    Raises what `toss_coins_with_parties` raises.
    """
    return (yield from toss_coins_with_parties(table, name, coins))[0]


def toss_coins_with_parties(table: CoinToss, name: PartyId, coins: Coins) -> Role[tuple[bytes, Array]]:
    """32 public bytes as of `toss_coins`, and whose coins count, (n,) bool: the seed is bound to them.

    Raises FaultyServer for coins that break the rules above; TooFewReplies if the server fell silent, as it
    does to a client that it did not hear.
    """
    me = table.clients.index(name)
    left = np.ones(len(table.clients), np.bool_)
    for attempt in range(len(table.clients)):
        number, coin = table.first + 2 * attempt, coins.bytes(SIZE)
        mine = table.commitment(attempt, me, coin)
        committed = yield from _told(table, me, number, Commitment(mine), left)
        if committed[me] != mine:
            raise FaultyServer(SERVER, "told another commitment than mine")
        there = np.array([j in committed for j in range(len(left))])
        opened = yield from _told(table, me, number + 1, Coin(coin), there)
        if any(table.commitment(attempt, j, value) != committed[j] for j, value in opened.items()):
            raise FaultyServer(SERVER, "told a coin that nobody committed to")
        left = np.array([j in opened for j in range(len(left))])
        if opened.keys() == committed.keys():
            values = np.frombuffer(b"".join(opened.values()), np.uint8)
            return table.seed(left, values), left
    raise FaultyServer(SERVER, "had coins tossed more often than clients can fall silent")


def _told(table: CoinToss, me: int, number: int, mine: Message, left: Array) -> Role[dict[int, bytes]]:
    """Tell the server, and hear what everybody who is left told it: by number, ascending."""
    inbox = yield Exchange({SERVER: mine}, (SERVER,), round=number, phase="toss")
    heard = expect_one(expect_messages(inbox, TossedCoins), SERVER)
    rules = (
        (heard.there.shape != left.shape, "told coins of other clients than there are"),
        (heard.there.shape == left.shape and bool((heard.there & ~left).any()), "brought a coin back"),
        (heard.there.shape == left.shape and not heard.there[me], "left my coin out and told me"),
        (len(heard.values) < table.needed, f"tossed fewer than {table.needed} coins"),
    )
    for broken, why in rules:
        if broken:
            raise FaultyServer(SERVER, why)
    numbers = np.flatnonzero(heard.there).tolist()
    return {j: value.tobytes() for j, value in zip(numbers, heard.values, strict=True)}


# --- server --------------------------------------------------------------------------------------


def toss_coins_at_server(
    table: CoinToss, who: tuple[PartyId, ...], *, lenient: bool = False
) -> Role[tuple[bytes, tuple[PartyId, ...]]]:
    """The seed that these clients toss, and who of them is still there, in the order of the table.

    lenient: whoever breaks the rules is left out instead of ending the run.

    Raises TooFewReplies, FaultyClient.
    """
    for attempt in range(len(table.clients)):
        number = table.first + 2 * attempt
        inbox = yield Exchange({}, who, table.needed, round=number, phase="toss")
        committed = {c: m.digest for c, m in _only(inbox, Commitment, lenient).items()}
        who = _enough(table, committed)
        inbox = yield Exchange(
            to_all(who, table.told(committed)), who, table.needed,
            round=number, accept=number + 1, phase="toss",
        )  # fmt: skip
        opened = {}
        for c, message in _only(inbox, Coin, lenient).items():
            if table.commitment(attempt, table.clients.index(c), message.value) == committed[c]:
                opened[c] = message.value
            elif not lenient:
                raise blame_error(c, "opened another coin than it committed to")
        there, who = who, _enough(table, opened)
        told = table.told(opened)
        yield Exchange(to_all(who, told), round=number + 1, phase="toss")
        if who == there:
            return table.seed(told.there, told.values), who
    raise TooFewReplies(table.needed, who)


def _only(inbox: Mapping[PartyId, Any], kind: Any, lenient: bool) -> dict[PartyId, Any]:
    if lenient:
        return {c: m for c, m in inbox.items() if isinstance(m, kind)}
    return expect_messages(inbox, kind)


def _enough(table: CoinToss, values: Mapping[PartyId, bytes]) -> tuple[PartyId, ...]:
    if len(values) < table.needed:
        raise TooFewReplies(table.needed, tuple(values))
    return tuple(c for c in table.clients if c in values)
