"""Parties that do not all speak with each other: what they agree on, and who hears why a run ends."""

from dataclasses import replace

import numpy as np
import pytest

import secfc
from field import SeededCoins
from field.secrets.channels import Identity
from secfc.algorithm import PublicFacts
from secfc.deploy import session
from secfc.errors import Ended, FaultyClient, FaultyServer, PlanMismatch, TamperedMessage, TooFewReplies
from secfc.feddp.starts import Votes
from secfc.privacy import Bound, Neighbors, RandomizedResponse
from secfc.roles.abort import broadcast_abort
from secfc.roles.exchange import SERVER, Exchange, Links, expect_all
from secfc.transport.handshake import Greeting
from secfc.transport.sealed import seal_role
from secfc.transport.simulate import simulate

RNG = np.random.default_rng(2)
FED = secfc.Federation.from_arrays(
    np.split(RNG.normal(RNG.integers(0, 3, (90, 1)) * 4, 0.5, (90, 2)), range(10, 90, 10))
)
PARTIES = (*FED.names, SERVER)
WAY = secfc.FederatedLloyd(3, committee=3, coarse="allow")
KEYS = {name: Identity(SeededCoins(3, name).bytes(32)) for name in PARTIES}
PINS = {name: key.public for name, key in KEYS.items()}
# Whom nobody but the committee and the server speaks with.
PLAIN = FED.names[1]


def work_of(way=WAY):
    public = PublicFacts.of(FED, 1.0)
    blank = replace(public, counts=(1,) * FED.n, session=bytes(32), seed=7)
    return session.AgreedWork(way, blank, True, PARTIES, PINS, b"the run file")


def roles_of(work, sealed=True):
    made = {}
    for name in PARTIES:
        coins = SeededCoins(1, name)
        if name == SERVER:
            made[name] = session.server_role(work, coins, np.random.default_rng(1))
        else:
            made[name] = session.client_role(work, FED.parties[FED.names.index(name)], coins)
        if sealed:
            made[name] = session.protected_role(work, name, made[name], KEYS[name], coins)
    return made


def pairs_in(run):
    return {frozenset((e.sender, e.recipient)) for e in run.transcript.envelopes}


def test_clients_of_shared_centers_speak_with_the_committee_and_the_server_alone():
    work = work_of()
    central = {*work.links.central}
    assert len(central) == 4
    assert PLAIN not in central
    run = simulate(roles_of(work))
    want = secfc.fit(WAY, FED, seed=7)
    for client, labels in zip(FED.names, want.labels, strict=True):
        assert (run.results[client].labels == labels).all()
    # 3 of 4 ends are central in 6 pairs, and 6 clients speak with 4: of 45 pairs 30.
    assert pairs_in(run) == {frozenset((p, q)) for p in central for q in PARTIES if p != q}
    assert len(pairs_in(run)) == 30
    assert all(e.recipient in work.links.peers_of(e.sender) for e in run.transcript.envelopes)
    # Where one client observes fewer features, or another algorithm runs, all do.
    partial = replace(work.public, observed=((0,), *((0, 1),) * 8))
    assert WAY.central_parties(partial) == PARTIES
    assert len(pairs_in(simulate(roles_of(work_of(secfc.SecFC(3, threshold=1)))))) == 45


def test_clients_of_noisy_sums_speak_with_the_committee_and_the_server_alone():
    base = secfc.FedDPKMeans(3, 50.0, 1e-6, committee=3, bound=Bound(9.0))
    for way in (
        replace(base, neighbors=Neighbors("replace"), labels=RandomizedResponse(2.0)),
        replace(base, start=Votes()),
    ):
        work = work_of(way)
        central = {*work.links.central}
        assert len(central) == 4
        run = simulate(roles_of(work))
        assert pairs_in(run) == {frozenset((p, q)) for p in central for q in PARTIES if p != q}
        assert all(e.recipient in work.links.peers_of(e.sender) for e in run.transcript.envelopes)
        assert all(len(run.results[name].labels) == 10 for name in FED.names)


@pytest.mark.parametrize(
    ("whose", "name", "error"),
    [
        (PLAIN, "rows", PlanMismatch),
        (FED.names[0], "rows", FaultyServer),
        (FED.names[0], "powers", FaultyServer),
    ],
)
def test_a_server_that_tells_other_rows_is_found_out(whose, name, error):
    at, there = FED.names.index(whose), FED.names[2]

    def change(envelope):
        if envelope.kind == "AllArrivals" and envelope.recipient == there:
            told = getattr(envelope.body, name).copy()
            told[at] -= 1
            return [replace(envelope, body=replace(envelope.body, **{name: told}))]
        return [envelope]

    with pytest.raises(error):
        simulate(roles_of(work_of(), sealed=False), faults=change)


@pytest.mark.parametrize("rows", [[5] * 8, [5] * 8 + [-1], [5] * 8 + [0]])
def test_rows_that_no_clients_have_are_refused(rows):
    told = np.array(rows)

    def change(envelope):
        if envelope.kind == "AllArrivals":
            return [replace(envelope, body=session.AllArrivals(told, told * 0))]
        return [envelope]

    with pytest.raises((FaultyServer, FaultyClient)):
        simulate(roles_of(work_of(), sealed=False), faults=change)


@pytest.mark.parametrize("passes_on", [True, False])
def test_the_server_passes_on_that_a_client_ended_the_run(passes_on):
    links, ends = Links(("a", "b", "m", SERVER), ("m", SERVER)), {}

    def speak(me):
        yield Exchange({}, round=1)
        if me == "a":
            raise FaultyServer(SERVER, "is called so")
        expect_all((yield Exchange({}, links.peers_of(me), round=2)), links.peers_of(me))

    def part(me):
        role = broadcast_abort(speak(me), me, links.peers_of(me), links=links if passes_on else None)
        try:
            yield from role
        except (Ended, FaultyServer, TooFewReplies) as error:
            ends[me] = error

    simulate({me: part(me) for me in links.parties})
    assert (ends["m"].by, ends[SERVER].by) == ("a", "a")
    # Nobody tells `b`, unless the server does.
    assert isinstance(ends["b"], Ended if passes_on else TooFewReplies)
    if passes_on:
        assert (ends["b"].by, ends["b"].error, ends["b"].party) == (SERVER, "Ended", "a")


def test_two_greetings_of_a_client_are_noticed_by_those_who_speak_with_it():
    work = work_of()
    member = work.links.central[0]
    other = {}

    def greet_twice(envelope):
        if envelope.kind == "Greeting" and envelope.sender == PLAIN and envelope.recipient == member:
            own = envelope.body
            contents = own.digest + own.identity + bytes(32) + own.ephemeral
            from secfc.transport.handshake import greeting_to_sign, hash_of_greeting, hash_of_parties

            name = hash_of_greeting(hash_of_parties(PARTIES), PARTIES.index(PLAIN), contents)
            signature = KEYS[PLAIN].sign(greeting_to_sign(name))
            other[0] = Greeting(own.digest, own.identity, bytes(32), own.ephemeral, signature)
            return [replace(envelope, body=other[0])]
        return [envelope]

    with pytest.raises(TamperedMessage):
        simulate(roles_of(work), faults=greet_twice)
    assert other


def test_parties_that_are_not_all_compared_need_pins():
    with pytest.raises(secfc.errors.InputError, match="pinned identities"):
        seal_role(iter(()), "a", ("a", "b", SERVER), b"", SeededCoins(1, "a"), central=(SERVER,))
