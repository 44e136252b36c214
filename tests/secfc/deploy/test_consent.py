"""What parties sign before anything of rows is said: nobody goes on without everybody's genuine consent."""

import json
from dataclasses import replace

import pytest

from field import SeededCoins
from field.secrets.channels import Identity
from secfc.deploy.audit_log import Head
from secfc.deploy.consent import (
    LONGEST,
    AcceptedTerms,
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


def run(signed, kept=None, said=None, **more):
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
    assert set(run(consents(), kept).results.values()) == {2}
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
        run(signed, said=said)
    assert not said


@pytest.mark.parametrize("changes", [
    {"software": "secfc 2"}, {"time": "2020-01-01T00:00:00"}, {"floors": bytes([7]) * 32}, {"audit": Head()},
])  # fmt: skip
def test_what_is_each_partys_own_may_differ(changes):
    signed = consents()
    signed["b"] = replace(TERMS, party="b", **changes).sign(KEYS["b"])
    assert set(run(signed).results.values()) == {2}


@pytest.mark.parametrize(("who", "error"), [("b", FaultyClient), (SERVER, FaultyServer)])
def test_a_consent_that_the_pinned_key_has_not_signed_is_refused(who, error):
    for forged in (
        replace(TERMS, party=who).sign(KEYS["another"]),
        SignedConsent(replace(TERMS, party=who).sign(KEYS[who]).text, consents()["a"].signature),
    ):
        said = []
        with pytest.raises(error, match="its key has not signed"):
            run({**consents(), who: forged}, said=said)
        assert not said


@pytest.mark.parametrize("text", [b"{}", b"[]", b"nothing", b'{"party":"b"}', b'{"a":' * 3000 + b"1"])
def test_a_signed_text_that_is_no_consent_is_refused(text):
    forged = SignedConsent(text[:LONGEST], KEYS["b"].sign(b"secfc consent 1" + text[:LONGEST]))
    with pytest.raises(PlanMismatch):
        run({**consents(), "b": forged})


def test_whoever_withholds_a_consent_is_waited_for_and_nothing_is_said_of_rows():
    def withhold(envelope):
        kept_back = envelope.kind == "SignedConsent" and envelope.sender == "a" and envelope.recipient == "b"
        return [] if kept_back else [envelope]

    said = []
    with pytest.raises(TooFewReplies):
        run(consents(), said=said, faults=withhold)
    assert "b" not in said
    assert set(run(consents(), said=said).results.values()) == {2}  # without the fault they go on


def test_floors_are_bound_by_a_digest_that_tells_nothing_without_its_salt():
    one = floors_digest(b'{"smallest_t":1}', bytes(32))
    assert one != floors_digest(b'{"smallest_t":2}', bytes(32))
    assert one != floors_digest(b'{"smallest_t":1}', bytes([1]) * 32)
