"""Consent on record: what each party signs before anything of rows is said, and how the others look at it.

Every party signs the terms that it accepts, sends them to all with whom it speaks within the seal, right
after the greetings, and keeps what these signed.  A signature stays: whoever holds it can show, without any
party's help, that this identity accepted these terms.  So nobody's rows are shared before everybody's consent
is there, and whoever withholds one (a hub, a party) is silent, and the run waits.  Where not all speak with
each other (`secfc.roles.exchange.Links`), the server and the committee have everybody's consent, and go on no
earlier; another client's file has theirs alone.

A decision to go on without a client is signed likewise, and told to all others as soon as it is made: beside
all exchanges, since whoever decides is waiting (`secfc.transport.link.NOTE`).  It is encrypted under a key
that each party gives the others with its consent, so that a hub reads it as little as anything else.

What it shows is that the key was used on these words.  Time and software are its party's word; the digest of
floors binds a party to what stands in its own audit, and tells the others nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from field.secrets.channels import Identity
from field.secrets.coins import SystemCoins
from secfc.deploy.audit_log import Head
from secfc.errors import PartyId, PlanMismatch
from secfc.roles.description import Difference, describe_differences, describe_value
from secfc.roles.exchange import (
    GREET,
    PHASE,
    SERVER,
    Exchange,
    Role,
    blame_error,
    expect_all,
    expect_messages,
    to_all,
)
from secfc.roles.messages import Message, refuse_if
from secfc.transport.handshake import SIGNATURE, verify

R = TypeVar("R")

# After the greetings, and before anything is told of rows (`secfc.deploy.session.INTRODUCE`).
CONSENT = GREET + PHASE // 8
PURPOSE = b"secfc consent 1"
DECISION = b"secfc go-on 1"
# Bytes of the text of a consent; of a key, and of a nonce.
LONGEST = 1 << 14
KEY, NONCE = 32, 12
# Facts that are each party's own; all others are the same for all.
OWN = ("party", "floors", "software", "time", "audit.lines", "audit.last")


class SignedConsent(Message, tag=162):
    """Party to everyone, before the plan: the terms that it accepts, when, by which software, signed.

    key: 32 secret bytes, under which it tells what it decides later.

    Under "sealed transport": party, everyone it speaks with.  Seen: between organizations, before any row
    count: the terms that it accepts (digest of the run file, session, policy, budget), a salted digest of its
    floors, software, time, and where its audit ended, signed by its pinned key; and a key of its own for
    what follows.  By deviating: sign other terms: `PlanMismatch`. Not its key's signature:
    `FaultyClient`, `FaultyServer`. A false time, software, floors or end of audit: its word, which stays
    in everybody's audit.
    """

    text: bytes
    signature: bytes
    key: bytes

    def __post_init__(self) -> None:
        refuse_if(len(self.key) != KEY, f"a key has {KEY} bytes")
        refuse_if(len(self.signature) != SIGNATURE, f"a signature has {SIGNATURE} bytes")
        refuse_if(not 2 <= len(self.text) <= LONGEST, f"a consent has up to {LONGEST} bytes")

    def record(self, key: bytes) -> dict[str, str]:
        """What a file keeps of it, as text.  key: the public identity that signed."""
        return {"key": key.hex(), "text": self.text.decode(), "signature": self.signature.hex()}


@dataclass(frozen=True)
class AcceptedTerms:
    """What a party signs.

    session: of the run.  terms: digest of the run file in its canonical form.  policy: what it shows, by
    name. t: clients that may collude.  epsilon, delta: its budget.  party: who signs.  floors:
    `floors_digest`. software: and its version.  time: in UTC.  audit: where the party's own audit ended
    before it signed.
    """

    session: bytes
    terms: bytes
    policy: str
    t: int | None
    epsilon: float | None
    delta: float | None
    party: PartyId
    floors: bytes
    software: str
    time: str
    audit: Head

    def sign(self, identity: Identity, key: bytes = bytes(KEY)) -> SignedConsent:
        """Signed by this identity.  key: of what it tells later."""
        text = describe_value(self)
        return SignedConsent(text, identity.sign(PURPOSE + text), key)


def floors_digest(floors: bytes, salt: bytes) -> bytes:
    """32 bytes that bind a party to its floors.  floors: their description.  salt: 32 secret bytes."""
    return hashlib.blake2b(floors, key=salt, digest_size=32, person=b"secfc floors").digest()


def draw_salt() -> bytes:
    """32 secret bytes for `floors_digest`."""
    return SystemCoins().bytes(32)


def read_consent(record: Mapping[str, str], purpose: bytes = PURPOSE) -> dict[str, Any] | None:
    """The facts of a kept consent (`SignedConsent.record`); None where its key has not signed them.

    purpose: DECISION, of a kept decision.
    """
    try:
        key, signature = bytes.fromhex(record["key"]), bytes.fromhex(record["signature"])
        text = record["text"].encode()
        facts = json.loads(text)
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return None
    signed = verify(key, signature, purpose + text)
    return facts if signed and isinstance(facts, dict) else None


def head_in(facts: Mapping[str, Any]) -> Head | None:
    """Where its party's audit ended, by the facts of a consent; None where they say nothing readable."""
    try:
        lines, last = int(facts["audit.lines"]), bytes.fromhex(facts["audit.last"]["bytes"])
        return Head(lines, last) if lines >= 0 else None
    except (KeyError, ValueError, TypeError):
        return None


def consent_first(
    role: Role[R],
    me: PartyId,
    mine: SignedConsent,
    identities: Mapping[PartyId, bytes],
    keep: Callable[[Mapping[PartyId, SignedConsent]], None],
) -> Role[R]:
    """The same role, once all parties have sent what they accept.

    identities: the pinned keys of this party and of all with whom it speaks.  keep: given what these signed,
    before the role begins; called again where a party resumes.

    Raises TooFewReplies if one is missing; PlanMismatch for other terms; FaultyClient or FaultyServer for a
    signature that is none of the pinned key.
    """
    try:
        others = tuple(party for party in identities if party != me)
        inbox = yield Exchange(to_all(others, mine), others, round=CONSENT, phase="greet")
        found = dict(expect_all(expect_messages(inbox, SignedConsent), others))
        differing = {}
        for party, one in found.items():
            if not verify(identities[party], one.signature, PURPOSE + one.text):
                raise blame_error(party, "sent a consent that its key has not signed")
            if different := differing_terms(mine, party, one):
                differing[party] = different
        if differing:
            raise PlanMismatch(differing)
        keep({**found, me: mine})
        return (yield from role)
    finally:
        role.close()


def differing_terms(mine: SignedConsent, party: PartyId, theirs: SignedConsent) -> tuple[Difference, ...]:
    """What a party accepts that I do not, or says of itself that it may not; nothing where all fits."""
    here = json.loads(mine.text)
    try:
        there = json.loads(theirs.text)
        own = {name: there[name] for name in OWN}
    except (ValueError, KeyError, TypeError, RecursionError):
        return describe_differences(mine.text, b"")
    fits = all(type(own[name]) is type(here[name]) for name in OWN) and head_in(own) is not None
    want = json.dumps({**here, **own, "party": party}, sort_keys=True, separators=(",", ":")).encode()
    if want == theirs.text and fits:
        return ()
    return describe_differences(want, theirs.text)


# --------------------------------------------------------------------------------------------------
# Decisions to go on without somebody.


class SealedDecision(Message, tag=169):
    """Party to everyone, beside all exchanges: that it goes on without clients, signed and encrypted.

    Under "sealed transport": party, everyone that it is connected with.  Seen: beside all exchanges: that
    its operator goes on without these clients, signed for this run and its terms, and encrypted, so that
    a hub sees size and time.  By deviating: decide falsely, or tell some only: each that receives it
    keeps it, signed. A decision of another run, party or key, or beyond what can be spared, is dropped. A
    hub that drops one changes no result: it lacks in reports.
    """

    nonce: bytes
    ciphertext: bytes

    def __post_init__(self) -> None:
        refuse_if(len(self.nonce) != NONCE, f"a nonce has {NONCE} bytes")
        refuse_if(not 16 <= len(self.ciphertext) <= LONGEST, f"a decision has up to {LONGEST} bytes")


@dataclass(frozen=True)
class Decision:
    """What a party signs.  session, terms: of the run.  party: who signs.  without: clients.  time: UTC."""

    session: bytes
    terms: bytes
    party: PartyId
    without: tuple[PartyId, ...]
    time: str

    def sign(self, identity: Identity) -> dict[str, str]:
        """What a file keeps of it, signed by this identity."""
        text = describe_value(self)
        signature = identity.sign(DECISION + text).hex()
        return {"key": identity.public.hex(), "text": text.decode(), "signature": signature}


@dataclass
class DecisionExchange:
    """How a party tells its decision, and hears those of the others.

    session, terms: of the run.  identities: everybody's pinned key.  spared: how many clients the run can do
    without.  own: this party's decision, None for none yet.  keep: told whose decision came, and its record.
    """

    session: bytes
    terms: bytes
    identities: Mapping[PartyId, bytes]
    spared: int
    own: Callable[[], Mapping[str, str] | None]
    keep: Callable[[PartyId, Mapping[str, str]], None]
    me: PartyId
    keys: dict[PartyId, bytes] = field(default_factory=dict)
    waiting: dict[PartyId, SealedDecision] = field(default_factory=dict)
    said: tuple[Mapping[str, str], SealedDecision] | None = None

    def __repr__(self) -> str:
        return f"DecisionExchange({self.me!r})"

    def begin(self, consents: Mapping[PartyId, SignedConsent]) -> None:
        """Take everybody's key from the consents, and what came before them."""
        self.keys = {party: one.key for party, one in consents.items()}
        for party, note in self.waiting.items():
            self.hear(party, note)

    def note(self) -> SealedDecision | None:
        """What this party has to tell: the same object while it is the same decision."""
        own = self.own() if self.me in self.keys else None
        if own is None:
            return None
        if self.said is None or self.said[0] != own:
            nonce = SystemCoins().bytes(NONCE)
            text = json.dumps(dict(own)).encode()
            sealed = AESGCM(self.keys[self.me]).encrypt(nonce, text, self.session + self.me.encode())
            self.said = own, SealedDecision(nonce, sealed)
        return self.said[1]

    def hear(self, party: PartyId, note: object) -> None:
        """Keep what a peer has decided; what is no decision of its, on this run, is dropped."""
        if not isinstance(note, SealedDecision):
            return
        if party not in self.keys:
            self.waiting[party] = note
            return
        with suppress(InvalidTag, ValueError, TypeError, RecursionError):
            aad = self.session + party.encode()
            record = json.loads(AESGCM(self.keys[party]).decrypt(note.nonce, note.ciphertext, aad))
            if self.is_decision(party, record):
                self.keep(party, {name: record[name] for name in ("key", "text", "signature")})

    def is_decision(self, party: PartyId, record: Any) -> bool:
        """Whether this party has signed it, about this run, and about clients that the run can do without."""
        facts = read_consent(record, DECISION)
        if facts is None or record["key"] != self.identities[party].hex():
            return False
        of = facts.get("session"), facts.get("terms"), facts.get("party")
        without, others = facts.get("without"), set(self.identities) - {party, SERVER}
        agreed = of == ({"bytes": self.session.hex()}, {"bytes": self.terms.hex()}, party)
        if not (agreed and isinstance(without, list)):
            return False
        return set(map(str, without)) <= others and 0 < len(without) <= self.spared
