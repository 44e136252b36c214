"""What parties sign before anything of rows is said: nobody goes on without everybody's genuine consent."""

import json
from dataclasses import replace

import pytest

from field import SeededCoins
from field.secrets.channels import Identity
from secfc.deploy.audit_log import Head
from secfc.deploy.consent import (
    DECISION,
    LONGEST,
    AcceptedTerms,
    Decision,
    DecisionExchange,
    SealedDecision,
    SignedConsent,
    consent_first,
    floors_digest,
    head_in,
    read_consent,
)
from secfc.errors import FaultyClient, FaultyServer, PlanMismatch, TooFewReplies
from secfc.roles.exchange import SERVER, Exchange, expect_all, to_all
from secfc.roles.messages import Hello
from secfc.transport.simulate import simulate

PARTIES = ("a", "b", SERVER)
KEYS = {name: Identity(SeededCoins(4, name).bytes(32)) for name in (*PARTIES, "another")}
PINS = {name: KEYS[name].public for name in PARTIES}
TERMS = AcceptedTerms(
    bytes(32), bytes(range(32)), "own-labels", 1, None, None, "a", bytes(32), "secfc 1", "2026-01-01T00:00",
    Head(3, bytes(32)),
)  # fmt: skip


def consents(**changes):
    return {name: replace(TERMS, party=name, **changes).sign(KEYS[name]) for name in PARTIES}


def shares(me, said):
    """A role that says something of rows."""
    others = tuple(name for name in PARTIES if name != me)
    inbox = yield Exchange(to_all(others, Hello(b"{}")), others, round=1 << 40, phase="share")
    said.append(me)
    return len(expect_all(inbox, others))


def ask_consent(signed, kept=None, said=None, **more):
    kept, said = {} if kept is None else kept, [] if said is None else said
    roles = {
        name: consent_first(
            shares(name, said), name, one, PINS, lambda found, name=name: kept.update({name: found})
        )
        for name, one in signed.items()
    }
    return simulate(roles, keep_bodies=True, **more)


def test_each_party_keeps_what_all_signed_and_it_can_be_read_by_whoever_has_it():
    kept = {}
    assert set(ask_consent(consents(), kept).results.values()) == {2}
    assert {*kept} == {*PARTIES}
    for found in kept.values():
        records = {name: one.record(PINS[name]) for name, one in found.items()}
        assert {read_consent(record)["party"] for record in records.values()} == set(PARTIES)
        facts = read_consent(json.loads(json.dumps(records["b"])))
        assert facts["terms"] == {"bytes": TERMS.terms.hex()}
        assert head_in(facts) == TERMS.audit


@pytest.mark.parametrize(("changes", "fact"), [
    ({"terms": bytes(32)}, "terms"), ({"session": bytes([1]) * 32}, "session"),
    ({"policy": "assignments"}, "policy"), ({"t": 2}, "t is"), ({"epsilon": 1.0}, "epsilon"),
    ({"party": "a"}, "party"),
])  # fmt: skip
@pytest.mark.parametrize("who", ["b", SERVER])
def test_other_terms_than_mine_end_the_run_before_anything_of_rows(changes, fact, who):
    signed, said = consents(), []
    signed[who] = replace(TERMS, **{"party": who, **changes}).sign(KEYS[who])
    with pytest.raises(PlanMismatch, match=fact):
        ask_consent(signed, said=said)
    assert not said


@pytest.mark.parametrize("changes", [
    {"software": "secfc 2"}, {"time": "2020-01-01T00:00:00"}, {"floors": bytes([7]) * 32}, {"audit": Head()},
])  # fmt: skip
def test_what_is_each_partys_own_may_differ(changes):
    signed = consents()
    signed["b"] = replace(TERMS, party="b", **changes).sign(KEYS["b"])
    assert set(ask_consent(signed).results.values()) == {2}


@pytest.mark.parametrize(("who", "error"), [("b", FaultyClient), (SERVER, FaultyServer)])
def test_a_consent_that_the_pinned_key_has_not_signed_is_refused(who, error):
    for forged in (
        replace(TERMS, party=who).sign(KEYS["another"]),
        SignedConsent(replace(TERMS, party=who).sign(KEYS[who]).text, consents()["a"].signature, bytes(32)),
    ):
        said = []
        with pytest.raises(error, match="its key has not signed"):
            ask_consent({**consents(), who: forged}, said=said)
        assert not said


@pytest.mark.parametrize("text", [b"{}", b"[]", b"nothing", b'{"party":"b"}', b'{"a":' * 3000 + b"1"])
def test_a_signed_text_that_is_no_consent_is_refused(text):
    forged = SignedConsent(text[:LONGEST], KEYS["b"].sign(b"secfc consent 1" + text[:LONGEST]), bytes(32))
    with pytest.raises(PlanMismatch):
        ask_consent({**consents(), "b": forged})


def test_whoever_withholds_a_consent_is_waited_for_and_nothing_is_said_of_rows():
    def withhold(envelope):
        kept_back = envelope.kind == "SignedConsent" and envelope.sender == "a" and envelope.recipient == "b"
        return [] if kept_back else [envelope]

    said = []
    with pytest.raises(TooFewReplies):
        ask_consent(consents(), said=said, faults=withhold)
    assert "b" not in said
    assert set(ask_consent(consents(), said=said).results.values()) == {2}  # without the fault they go on


def test_floors_are_bound_by_a_digest_that_tells_nothing_without_its_salt():
    one = floors_digest(b'{"smallest_t":1}', bytes(32))
    assert one != floors_digest(b'{"smallest_t":2}', bytes(32))
    assert one != floors_digest(b'{"smallest_t":1}', bytes([1]) * 32)


# --- decisions to go on without somebody -----------------------------------------------------------------

CLIENTS = ("a", "b", "c", SERVER)
OWNERS = {name: Identity(SeededCoins(5, name).bytes(32)) for name in CLIENTS}
SECRETS = {name: SeededCoins(6, name).bytes(32) for name in CLIENTS}
DECIDED = Decision(bytes(32), bytes(range(32)), "a", ("c",), "2026-01-01T00:00")


def exchange(me, heard, decided=None):
    """A party's, which hears the others into a list."""
    own = None if decided is None else decided.sign(OWNERS[me])
    pins = {name: one.public for name, one in OWNERS.items()}
    return DecisionExchange(
        bytes(32), bytes(range(32)), pins, 1, lambda: own,
        lambda party, record: heard.append((party, read_consent(record, DECISION))), me,
    )  # fmt: skip


SIGNED = {name: replace(TERMS, party=name).sign(OWNERS[name], SECRETS[name]) for name in CLIENTS}


def told(decided, me="a", to="b", change=lambda note: note):
    """What one party keeps of what another decided."""
    heard = []
    there, here = exchange(to, heard), exchange(me, [], decided)
    assert here.note() is None  # before consents nobody could read it
    here.begin(SIGNED)
    there.hear(me, change(here.note()))
    assert not heard
    there.begin(SIGNED)  # whose consents came later than the decision
    return heard


def test_a_decision_is_kept_by_the_others_and_can_be_read_by_whoever_has_the_record():
    ((party, facts),) = told(DECIDED)
    assert (party, facts["without"]) == ("a", ["c"])
    assert read_consent(DECIDED.sign(OWNERS["a"])) is None  # it is no consent
    one = exchange("a", [], DECIDED)
    one.begin(SIGNED)
    assert one.note() is one.note()  # and is said once
    hidden = one.note().ciphertext + one.note().nonce
    assert b"without" not in hidden
    assert b'"c"' not in hidden


@pytest.mark.parametrize("changes", [
    {"session": bytes([1]) * 32}, {"terms": bytes(32)}, {"party": "b"}, {"party": "c"}, {"without": ()},
    {"without": ("a",)}, {"without": (SERVER,)}, {"without": ("x",)}, {"without": ("b", "c")},
])  # fmt: skip
def test_what_is_no_decision_on_this_run_is_dropped(changes):
    assert not told(replace(DECIDED, **changes))
    assert told(DECIDED)


def test_a_decision_that_was_altered_or_is_signed_by_another_is_dropped():
    other = exchange("a", [], replace(DECIDED, party="a"))
    other.own = lambda: DECIDED.sign(OWNERS["c"])
    other.begin(SIGNED)
    heard = []
    there = exchange("b", heard)
    there.begin(SIGNED)
    there.hear("a", other.note())
    there.hear("a", SIGNED["a"])
    assert not heard
    for party in ("c", SERVER):  # somebody else's connection
        good = exchange("a", [], DECIDED)
        good.begin(SIGNED)
        there.hear(party, good.note())
    flip = bytes([good.note().ciphertext[0] ^ 1]) + good.note().ciphertext[1:]
    there.hear("a", SealedDecision(good.note().nonce, flip))
    assert not heard
    there.hear("a", good.note())
    assert [party for party, _ in heard] == ["a"]
