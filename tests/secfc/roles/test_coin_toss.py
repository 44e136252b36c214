"""Coins that clients toss: equal for all, chosen by nobody, and survived by whoever is there."""

import dataclasses
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from field import SeededCoins
from secfc.errors import FaultyClient, FaultyServer, TooFewReplies
from secfc.roles.agreement import (
    Coin,
    CoinToss,
    Commitment,
    TossedCoins,
    derive_seed,
    toss_coins,
    toss_coins_at_server,
)
from secfc.roles.exchange import SERVER, TOSS, Exchange
from secfc.transport.simulate import simulate
from tests.secfc.lying import saying

NAMES = tuple("abcde")
TABLE = CoinToss(NAMES, bytes(32), needed=3)


def toss(faults=lambda e: (e,), roles=(), run=0, lenient=False, server=None):
    """What every client and the server got."""
    parties = {c: toss_coins(TABLE, c, SeededCoins(run, c)) for c in NAMES}
    parties |= {SERVER: server or toss_coins_at_server(TABLE, NAMES, lenient=lenient)} | dict(roles)
    return simulate(parties, faults=faults)


def lost(kind, *senders):
    return lambda e: () if e.kind == kind and e.sender in senders else (e,)


def test_all_get_one_seed_and_another_in_every_run():
    seeds = set()
    for number in range(20):
        results = toss(run=number).results
        seed, who = results[SERVER]
        assert {results[c] for c in NAMES} == {seed}
        assert who == NAMES
        assert len(seed) == 32
        seeds.add(seed)
    assert len(seeds) == 20
    assert derive_seed(seed, b"one") != derive_seed(seed, b"two")


def test_every_coin_and_what_was_agreed_change_the_seed():
    there, values = np.ones(5, np.bool_), np.zeros((5, 32), np.uint8)
    seeds = {TABLE.seed(there, values), dataclasses.replace(TABLE, digest=b"x" * 32).seed(there, values)}
    for j in range(5):
        other = values.copy()
        other[j, 7] = 1
        seeds.add(TABLE.seed(there, other))
    assert len(seeds) == 7


@pytest.mark.parametrize("kind", ["Commitment", "Coin"])
def test_whoever_falls_silent_is_left_out_and_the_rest_toss(kind):
    got = toss(lost(kind, "b", "d"))
    seed, who = got.results[SERVER]
    assert who == ("a", "c", "e")
    assert {got.results[c] for c in who} == {seed}
    assert set(got.silent) == {"b", "d"}
    with pytest.raises(TooFewReplies) as caught:
        toss(lost(kind, "b", "d", "e"))
    assert caught.value.got == ("a", "c")


def test_after_a_refusal_to_open_all_coins_are_new():
    sent = Counter()

    def faults(e):
        if e.kind == "Coin":
            sent[e.sender, e.body.value] += 1
            return () if e.sender == "b" else (e,)
        return (e,)

    assert toss(faults).results[SERVER][1] == ("a", "c", "d", "e")
    assert set(sent.values()) == {1}
    assert Counter(c for c, _ in sent) == {"a": 2, "b": 1, "c": 2, "d": 2, "e": 2}


def test_another_coin_than_was_committed_to_names_its_client():
    def other(to, message):
        return Coin(b"x" * 32) if isinstance(message, Coin) else message

    with pytest.raises(FaultyClient) as caught:
        toss(roles={"c": saying(toss_coins(TABLE, "c", SeededCoins(0, "c")), other)})
    assert caught.value.party == "c"
    left = toss(roles={"c": saying(toss_coins(TABLE, "c", SeededCoins(0, "c")), other)}, lenient=True)
    assert left.results[SERVER][1] == ("a", "b", "d", "e")


def scheming(first, then):
    """A server that tells changed tables: of commitments, and of coins."""
    number = iter((first, then))

    def change(role):
        exchange = next(role)
        while True:
            if exchange.send:
                how = next(number)
                exchange = dataclasses.replace(exchange, send={c: how(m) for c, m in exchange.send.items()})
            try:
                exchange = role.send((yield exchange))
            except StopIteration as done:
                return done.value

    return change(toss_coins_at_server(TABLE, NAMES))


def same(message):
    return message


def chosen(message):
    values = message.values.copy()
    values[-1] = 7
    return TossedCoins(message.there, values)


def without_a(message):
    there = message.there.copy()
    there[0] = False
    return TossedCoins(there, message.values[message.there[0].astype(int) :])


def few(message):
    return TossedCoins(np.arange(5) < 2, message.values[:2])


def strangers(message):
    return TossedCoins(np.ones(6, np.bool_), np.zeros((6, 32), np.uint8))


@pytest.mark.parametrize(
    ("first", "then", "why"),
    [
        (same, chosen, "a coin that nobody committed to"),
        (chosen, same, "another commitment than mine|a coin that nobody committed to"),
        (without_a, same, "left my coin out"),
        (same, without_a, "left my coin out"),
        (few, same, "fewer than 3"),
        (strangers, same, "other clients than there are"),
    ],
)
def test_a_server_that_chooses_is_refused(first, then, why):
    with pytest.raises(FaultyServer, match=why):
        toss(server=scheming(first, then))


def test_who_was_left_out_stays_out():
    """A coin that counts again after its owner refused to open it could be chosen by then."""

    def server():
        inbox = yield from collected(0)
        told = {c: m.digest for c, m in inbox.items()}
        yield from tell(TABLE.told(told), NAMES, 0)
        inbox = yield from collected(1)
        opened = {c: m.value for c, m in inbox.items() if c != "e"}
        yield from tell(TABLE.told(opened), NAMES[:4], 1)
        inbox = yield from collected(2)
        told = {c: m.digest for c, m in inbox.items()} | {"e": b"e" * 32}
        yield from tell(TABLE.told(told), NAMES[:4], 2)

    def collected(step):
        return (yield Exchange({}, NAMES, 4, round=TOSS + step))

    def tell(message, who, step):
        yield Exchange(dict.fromkeys(who, message), round=TOSS + step)

    with pytest.raises(FaultyServer, match="brought a coin back"):
        toss(server=server())


def test_commitments_are_bound_to_their_place():
    digests = {TABLE.commitment(attempt, j, bytes(32)) for attempt in range(3) for j in range(5)}
    assert len(digests) == 15


def test_messages_check_themselves():
    with pytest.raises(ValueError, match="32 bytes"):
        Commitment(b"x")
    with pytest.raises(ValueError, match="32 bytes"):
        Coin(b"x" * 33)
    with pytest.raises(ValueError, match="32 bytes a client"):
        TossedCoins(np.ones(2, np.bool_), np.zeros((1, 32), np.uint8))


def test_rounds_rise():
    rounds = {c: [] for c in NAMES}

    def faults(e):
        if e.recipient in rounds:
            rounds[e.recipient].append(e.round)
        return () if e.kind == "Coin" and e.sender == "b" else (e,)

    toss(faults)
    assert all(a < b for r in rounds.values() for a, b in pairwise(r))
