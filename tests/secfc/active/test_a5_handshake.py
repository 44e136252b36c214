"""Who has stolen an old journal cannot speak in its owner's name later, nor sit between two parties."""

import dataclasses

import pytest

from field import SeededCoins, SystemCoins
from field.secrets.channels import Identity
from secfc.errors import PlanMismatch, TamperedMessage
from secfc.roles.exchange import GREET, SERVER, Exchange
from secfc.roles.messages import Hello
from secfc.transport import handshake
from secfc.transport.handshake import Handshake, HandshakeRefused, hash_of_parties
from secfc.transport.sealed import seal_role
from secfc.transport.simulate import simulate

PARTIES = ("a", "b", SERVER)
OWN = {name: Identity.draw(SeededCoins(5, name)) for name in PARTIES}
PINS = {name: key.public for name, key in OWN.items()}
PLAN = b"the plan of both sessions"


def tells(me, word):
    """A role that tells every other party a word, and returns what it was told."""
    others = tuple(p for p in PARTIES if p != me)
    inbox = yield Exchange(dict.fromkeys(others, Hello(word)), others, round=GREET + 2)
    return {peer: message.description for peer, message in inbox.items()}


def seal(me, word, coins, identity, **options):
    options = {"identities": PINS, **options}
    return seal_role(tells(me, word), me, PARTIES, PLAN, coins, identity=identity, **options)


class Recorded:
    """The identity of a, and all that it signed: whoever has the journal decrypts the countersignatures."""

    public = PINS["a"]

    def __init__(self):
        self.signatures = []

    def sign(self, message):
        self.signatures.append(OWN["a"].sign(message))
        return self.signatures[-1]


class Stolen:
    """Signatures of an earlier session, in the place of an identity."""

    public = PINS["a"]

    def __init__(self, signatures):
        self._signatures = list(signatures)

    def sign(self, message):
        return self._signatures.pop(0)


def journal():
    """The secret coins of a in the first session, as its journal has them."""
    return SeededCoins(7, "a")


def impersonate():
    """What b and the server tell somebody who has the journal and all messages of a session of a, later."""
    owner = Recorded()
    roles = {name: seal(name, b"first", SystemCoins(), OWN[name]) for name in PARTIES[1:]}
    simulate({"a": seal("a", b"first", journal(), owner), **roles})
    thief = Stolen(owner.signatures)
    roles = {name: seal(name, b"second, secret", SystemCoins(), OWN[name]) for name in PARTIES[1:]}
    return simulate({"a": seal("a", b"I am a", journal(), thief), **roles}).results


def test_an_old_journal_and_its_greeting_do_not_impersonate_their_owner(monkeypatch):
    with pytest.raises(TamperedMessage, match="a countersignature with a wrong signature came from a"):
        impersonate()
    # With signatures of the own greeting only, as they were, they do.
    monkeypatch.setattr(handshake, "transcript_to_sign", lambda sender, recipient, seen: seen[sender])
    got = impersonate()
    assert got["a"] == {"b": b"second, secret", SERVER: b"second, secret"}
    assert got["b"]["a"] == b"I am a"


def test_signatures_name_who_makes_them_and_for_whom():
    seen = tuple(bytes([i]) * 32 for i in range(3))
    signed = {(s, r): handshake.transcript_to_sign(s, r, seen) for s in range(3) for r in range(3) if s != r}
    assert len(set(signed.values())) == 6
    assert handshake.transcript_to_sign(0, 1, seen) != handshake.transcript_to_sign(0, 1, seen[::-1])
    assert not any(text.startswith(b"secfc greeting") for text in signed.values())
    assert hash_of_parties(("a", "b")) != hash_of_parties(("b", "a"))
    assert hash_of_parties(("ab", "c")) != hash_of_parties(("a", "bc"))


# --- a relay in the middle ----------------------------------------------------------------------------


def hands(name, plan=PLAN, parties=PARTIES):
    return Handshake(parties.index(name), parties, plan, Identity.draw(SystemCoins()), SystemCoins())


def others(of, everyone):
    return {j: h.greeting for j, h in everyone.items() if j != of}


def test_a_relay_between_one_pair_is_noticed_without_pins():
    # It speaks to a as b and to b as a, and cannot reach their lines to the server.
    a, b, server = (hands(name) for name in PARTIES)
    to_a, to_b = hands("b"), hands("a")
    said_a = a.countersign({1: to_a.greeting, 2: server.greeting})
    said_b = b.countersign({0: to_b.greeting, 2: server.greeting})
    to_a.countersign({0: a.greeting, 2: server.greeting})
    to_b.countersign({1: b.greeting, 2: server.greeting})
    told = server.countersign({0: a.greeting, 1: b.greeting})
    for me, message in ((a, told[0]), (b, told[1])):
        with pytest.raises(HandshakeRefused, match="different greetings to different parties") as caught:
            me.open(2, message)
        assert caught.value.party == 1 - me.me
    for j, message in ((0, said_a[2]), (1, said_b[2])):
        with pytest.raises(HandshakeRefused, match="different greetings to different parties") as caught:
            server.open(j, message)
        assert caught.value.party == 1 - j
    # Between the relay and a all is well: nothing that b says tells a otherwise.
    assert to_a.open(0, said_a[1]) == PLAN


def test_a_relay_between_all_pairs_is_not_noticed_without_pins():
    # As the page says: identities must be pinned, or introduced honestly.
    genuine = {j: hands(name) for j, name in enumerate(PARTIES)}
    relayed = {}
    for j in genuine:  # to each party the relay plays all others, consistently
        mine = {i: hands(PARTIES[i]) for i in genuine if i != j}
        table = {**mine, j: genuine[j]}
        said = {i: h.countersign(others(i, table)) for i, h in table.items()}
        for i in mine:
            assert genuine[j].open(i, said[i][j]) == PLAN
            assert mine[i].open(j, said[j][i]) == PLAN
        relayed[j] = mine
    lines = genuine[0].channels()
    assert relayed[0][1].channels()[0].open("x", lines[1].seal("x", b"to b")) == b"to b"


def exchanged(*plans):
    """Three handshakes after their first step, and what each countersigned."""
    everyone = {j: hands(PARTIES[j], plan) for j, plan in enumerate(plans)}
    return everyone, {j: h.countersign(others(j, everyone)) for j, h in everyone.items()}


def test_reflected_and_misdirected_countersignatures_are_refused():
    everyone, said = exchanged(PLAN, PLAN, PLAN)
    for wrong in (said[0][1], said[1][2], said[2][1], said[2][0]):
        with pytest.raises(HandshakeRefused, match="cannot be opened came"):
            everyone[0].open(1, wrong)
    assert everyone[0].open(1, said[1][0]) == PLAN
    with pytest.raises(HandshakeRefused):  # it comes again
        everyone[0].open(1, said[1][0])


@pytest.mark.parametrize("place", [0, 1])
def test_who_countersigns_another_greeting_of_either_side_is_named(place):
    everyone = {j: hands(PARTIES[j]) for j in range(3)}
    heard = everyone[1]._seen_with
    everyone[1]._seen_with = lambda j: tuple(bytes(32) if i == place else h for i, h in enumerate(heard(j)))
    said = {j: h.countersign(others(j, everyone)) for j, h in everyone.items()}
    with pytest.raises(HandshakeRefused, match="of another handshake came") as caught:
        everyone[0].open(1, said[1][0])
    assert caught.value.party == 1


def test_a_greeting_of_another_party_is_nobodys():
    # c, who takes part, hands on the greeting of b as its own: bound to b's number, it is not.
    everyone = {j: hands(PARTIES[j]) for j in range(3)}
    greetings = others(0, everyone) | {2: everyone[1].greeting}
    with pytest.raises(HandshakeRefused, match="wrong signature") as caught:
        everyone[0].countersign(greetings)
    assert caught.value.party == 2
    everyone = {j: hands(PARTIES[j]) for j in range(3)}
    again = Handshake(1, PARTIES[::-1], PLAN, OWN["b"], SystemCoins()).greeting  # among others
    with pytest.raises(HandshakeRefused, match="wrong signature"):
        everyone[0].countersign(others(0, everyone) | {1: again})


def test_keys_follow_from_all_greetings():
    everyone, said = exchanged(PLAN, PLAN, PLAN)
    for j, messages in said.items():
        for i, message in messages.items():
            assert everyone[i].open(j, message) == PLAN
    lines = {j: h.channels() for j, h in everyone.items()}
    for j in range(3):
        for i in range(3):
            if i != j:
                assert lines[i][j].open("x", lines[j][i].seal("x", b"word")) == b"word"
    assert "secret" not in repr(everyone[0])
    assert everyone[0].greeting.nonce != everyone[1].greeting.nonce


def test_a_low_order_key_is_refused():
    everyone = {j: hands(PARTIES[j]) for j in range(3)}
    me = everyone[1]
    zero = dataclasses.replace(me.greeting, ephemeral=bytes(32))
    name = handshake.hash_of_greeting(hash_of_parties(PARTIES), 1, zero.contents)
    zero = dataclasses.replace(zero, signature=me._identity.sign(handshake.greeting_to_sign(name)))
    with pytest.raises(HandshakeRefused, match="a key that is none"):
        everyone[0].countersign(others(0, everyone) | {1: zero})


# --- plans ------------------------------------------------------------------------------------------------


def test_another_plan_is_named_with_its_facts_inside_the_handshake():
    plans = {name: b'{"k":3,"t":1}' for name in PARTIES} | {"b": b'{"k":4,"t":1}'}
    roles = {
        name: seal_role(tells(name, b"x"), name, PARTIES, plans[name], SystemCoins(), identity=OWN[name])
        for name in PARTIES
    }
    kinds = []

    def watch(party, exchange):
        kinds.extend(type(m).__name__ for m in exchange.send.values())

    with pytest.raises(PlanMismatch, match="b holds a different plan: k is 3 here and 4 there") as caught:
        simulate(roles, watch=watch)
    assert set(kinds) == {"Greeting", "Countersign"}
    assert caught.value.parties == ("b",)


def test_a_countersignature_with_another_plan_than_its_greeting():
    everyone = {j: hands(PARTIES[j]) for j in range(3)}
    everyone[1] = hands("b", plan=b"one thing")
    everyone[1]._description = b"another"
    said = {j: h.countersign(others(j, everyone)) for j, h in everyone.items()}
    with pytest.raises(HandshakeRefused, match="another plan than in its greeting"):
        everyone[0].open(1, said[1][0])
