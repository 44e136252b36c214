"""A bounded search for attacks on the handshake: all that an intruder can make of a few sessions.

ProVerif and Tamarin are not among Debian's packages, so this is no proof for any number of sessions.  It is
an exhaustive search within bounds: terms instead of bytes, perfect cryptography, an intruder that is the
network (Dolev and Yao), and every choice of which greeting each session takes for its peer's.  Modeled are
pairs: `secfc.transport.handshake` with two parties; that parties compare what others greeted is tested
elsewhere.

A session is deceived if it accepts a peer that had no session with it that took both greetings the same way
(agreement), or accepts one that another session of the same party accepted too (once), or accepts and the
intruder can make its key (secrecy).  Weakened variants of the handshake must be found deceived.
"""

import itertools
from dataclasses import dataclass, replace

import pytest

# --- terms and the intruder -------------------------------------------------------------------------------
# A term is a string (an atom) or a tuple that begins with what it is: pub x, dh {x, y}, sig k m, enc k m,
# hash m, pair m...  Nothing but decryption and reading takes terms apart.


def can(known, term):
    """Whether the intruder can make this term."""
    if term in known:
        return True
    match term:
        case ("pub", private):
            return can(known, private)
        case ("dh", privates):
            x, y = sorted(privates) if len(privates) == 2 else (*privates, *privates)
            return any(can(known, a) and can(known, ("pub", b)) for a, b in ((x, y), (y, x)))
        case ("sig", key, message) | ("enc", key, message):
            return can(known, key) and can(known, message)
        case ("hash" | "pair", *parts):
            return all(can(known, part) for part in parts)
    return False


def analyzed(terms):
    """All that the intruder reads out of these terms."""
    known = set(terms)
    while True:
        more = set()
        for term in known:
            match term:
                case ("pair", *parts):
                    more |= set(parts)
                case ("sig", _, message):
                    more.add(message)
                case ("enc", key, message) if can(known, key):
                    more.add(message)
        if more <= known:
            return known
        known |= more


# --- the handshake ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Session:
    """One run of the handshake by its owner with a peer; old ones ended before anything was stolen."""

    owner: str
    peer: str
    number: int
    old: bool = False

    @property
    def name(self):
        return f"{self.owner}{self.peer}{self.number}"

    @property
    def ephemeral(self):
        return f"ephemeral of {self.name}"

    @property
    def nonce(self):
        return f"nonce of {self.name}"


@dataclass(frozen=True)
class Handshake:
    """What the handshake does; each False or weaker value is a variant that must be found wanting.

    signs: "transcript" of both greetings, or "greeting", its own only.  named: signatures name who is meant.
    pinned: identities are known before.  placed: a greeting is bound to the parties and its sender's place.
    sealed: the countersignature is encrypted under the pair's key.
    """

    signs: str = "transcript"
    named: bool = True
    pinned: bool = True
    placed: bool = True
    sealed: bool = True

    def contents(self, party, peer, identity, nonce, public):
        """The hash of a greeting of this party among these two."""
        place = ("pair", *sorted((party, peer)), party) if self.placed else "anybody"
        return ("hash", ("pair", "greeting", place, identity, nonce, public))

    def greeting(self, party, peer, key, nonce, public):
        """A greeting: a tuple of fields, not yet a term.  key: the identity's secret."""
        identity = ("pub", key)
        made = self.contents(party, peer, identity, nonce, public)
        return identity, nonce, public, ("sig", key, ("pair", "greet", made))

    def own(self, session):
        key = f"identity of {session.owner}"
        return self.greeting(session.owner, session.peer, key, session.nonce, ("pub", session.ephemeral))

    def seen(self, session, taken):
        """The hashes of the two greetings, lower party first, as this session got them."""
        mine = self.contents(session.owner, session.peer, *self.own(session)[:3])
        theirs = self.contents(session.peer, session.owner, *taken[:3])
        return (mine, theirs) if session.owner < session.peer else (theirs, mine)

    def secret(self, session, taken):
        return ("dh", frozenset((session.ephemeral, taken[2][1])))

    def key(self, session, taken, purpose, sender):
        """A key of this session, given the greeting it took."""
        return ("hash", ("pair", purpose, sender, self.secret(session, taken), *self.seen(session, taken)))

    def countersignature(self, sender, recipient, key, session, taken):
        """What `sender` says in step 2, as this session would make it or expects it."""
        seen = self.seen(session, taken)
        if self.signs == "greeting":
            own = seen[0] if sender < recipient else seen[1]
            signed = ("pair", "transcript", own)
        else:
            signed = ("pair", "transcript", *((sender, recipient) if self.named else ()), *seen)
        text = ("pair", ("sig", key, signed), *seen)
        return ("enc", self.key(session, taken, "confirm", sender), text) if self.sealed else text


def readable(greeting):
    return ("pair", *greeting)


# --- the search -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scenario:
    """Sessions of honest parties, and what is stolen: journals (of old sessions), identities, and when.

    later: identities that are stolen when all is over; keys must stay secret even so.
    """

    sessions: tuple[Session, ...]
    journals: tuple[str, ...] = ()
    identities: tuple[str, ...] = ()
    later: tuple[str, ...] = ()


OWN = {"intruder's ephemeral", "intruder's nonce", "identity of E", "greeting", "greet", "transcript"} | {
    "confirm", "line", "anybody", "A", "B", "E",
}  # fmt: skip


def greetings_for(handshake, session, known):
    """Every greeting that the intruder can hand to this session as its peer's."""
    atoms = sorted(t for t in known if isinstance(t, str))
    nonces = [t for t in atoms if t.startswith("nonce")] + ["intruder's nonce"]
    publics = [t for t in known if isinstance(t, tuple) and t[0] == "pub" and "ephemeral" in t[1]]
    publics = sorted({*publics, ("pub", "intruder's ephemeral")})
    keys = [f"identity of {p}" for p in (session.peer, *(() if handshake.pinned else ("E",)))]
    for key, nonce, public in itertools.product(dict.fromkeys(keys), nonces, publics):
        fields = handshake.greeting(session.peer, session.owner, key, nonce, public)
        if can(known, readable(fields)):
            yield fields


def choices(handshake, sessions, known):
    """What these sessions may take for their peers' greetings, all combinations."""
    options = [list(greetings_for(handshake, s, known)) for s in sessions]
    return itertools.product(*options)


def deceived(handshake, scenario):
    """Every way in which a session of an honest party accepts what it should not."""
    found = set()
    public = OWN | {("pub", f"identity of {p}") for p in "ABE"}
    old = [s for s in scenario.sessions if s.old]
    new = [s for s in scenario.sessions if not s.old]
    before = analyzed(public | {readable(handshake.own(s)) for s in old})
    for first in choices(handshake, old, before):
        taken = dict(zip(old, first, strict=True))
        said = {_said(handshake, s, taken[s]) for s in old}
        stolen = {x for s in old if s.owner in scenario.journals for x in (s.ephemeral, s.nonce)}
        stolen |= {f"identity of {p}" for p in scenario.identities}
        between = analyzed(before | said | stolen | {readable(handshake.own(s)) for s in new})
        for second in choices(handshake, new, between):
            everyone = taken | dict(zip(new, second, strict=True))
            known = analyzed(between | {_said(handshake, s, everyone[s]) for s in new})
            found |= set(_judged(handshake, scenario, everyone, known))
    return found


def _said(handshake, session, greeting):
    key = f"identity of {session.owner}"
    return handshake.countersignature(session.owner, session.peer, key, session, greeting)


def _judged(handshake, scenario, taken, known):
    """The claims that do not hold for sessions with peers whose identity is their own."""
    accepted = {}
    for s, greeting in taken.items():
        if s.peer == "E" or s.peer in scenario.identities:
            continue
        key = greeting[0][1]  # of the identity in the greeting
        if s.old or not can(known, handshake.countersignature(s.peer, s.owner, key, s, greeting)):
            continue
        partners = [
            p
            for p, other in taken.items()
            if (p.owner, p.peer) == (s.peer, s.owner)
            and handshake.own(p)[:3] == greeting[:3]
            and other[:3] == handshake.own(s)[:3]
        ]
        if not partners:
            yield f"agreement: {s.owner} with {s.peer}"
        accepted.setdefault((s.owner, s.peer), []).extend(partners)
        after = known | {f"identity of {p}" for p in scenario.later}
        if can(after, handshake.key(s, greeting, "line", s.owner)):
            yield f"secrecy: {s.owner} with {s.peer}"
    for (owner, peer), partners in accepted.items():
        if len(set(partners)) < len(partners):
            yield f"once: {owner} with {peer}"


# --- results ----------------------------------------------------------------------------------------

AB, BA, AB2, BA2 = (Session(*who) for who in (("A", "B", 1), ("B", "A", 1), ("A", "B", 2), ("B", "A", 2)))
EARLIER = replace(AB, old=True), replace(BA, old=True)
SCENARIOS = {
    # The journal of A of an earlier session with B is stolen, and B starts a session with A, who may too.
    "journal": Scenario((*EARLIER, BA2, AB2), ("A",)),
    "journals of both": Scenario((*EARLIER, BA2), ("A", "B")),
    "two sessions at once": Scenario((AB, BA, AB2, BA2)),
    "the intruder takes part": Scenario((AB, BA, Session("A", "E", 1), Session("B", "E", 1))),
    # A's identity is stolen: nobody may speak to A in the name of B all the same.
    "identity": Scenario((AB, BA, AB2), (), ("A",)),
    "identities later": Scenario((AB, BA, AB2), (), (), ("A", "B")),
    "alone": Scenario((AB, AB2)),
}  # fmt: skip


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_session_is_deceived(name):
    assert not deceived(Handshake(), SCENARIOS[name])


def test_sessions_do_accept():
    # So that "nobody is deceived" is not said of sessions that never end.
    scenario, handshake = SCENARIOS["two sessions at once"], Handshake()
    taken = {AB: handshake.own(BA), BA: handshake.own(AB)}
    known = analyzed(OWN | {_said(handshake, s, greeting) for s, greeting in taken.items()})
    for s, greeting in taken.items():
        key = f"identity of {s.peer}"
        assert can(known, handshake.countersignature(s.peer, s.owner, key, s, greeting))
    assert len(scenario.sessions) == 4


@pytest.mark.parametrize(
    ("name", "weak", "attack"),
    [
        # The handshake as it was: a signature of the own greeting is worth something later.
        ("journal", Handshake(signs="greeting"), {"agreement: B with A", "secrecy: B with A"}),
        ("journals of both", Handshake(signs="greeting"), {"agreement: B with A", "secrecy: B with A"}),
        # Without pins the intruder says that its identity is that of B.
        ("alone", Handshake(pinned=False), {"agreement: A with B", "secrecy: A with B"}),
    ],
)
def test_weakened_handshakes_are_found_wanting(name, weak, attack):
    assert attack <= deceived(weak, SCENARIOS[name])


def test_what_is_there_for_depth_is_not_all_that_holds_it():
    # Names in signatures, places in greetings or encryption of the second step: one of them may be missing.
    for weak in (Handshake(named=False), Handshake(placed=False), Handshake(sealed=False)):
        for name in ("journal", "two sessions at once"):
            assert not deceived(weak, SCENARIOS[name])


def test_the_intruder():
    known = analyzed({("enc", "k", ("pair", "x", ("sig", "s", "y"))), "k", ("pub", "z"), "e"})
    assert {"x", "y"} <= known
    assert can(known, ("dh", frozenset(("e", "z"))))
    assert not can(known, ("dh", frozenset(("w", "z"))))
    assert not can(known, ("sig", "s", "x"))
    assert can(known, ("sig", "s", "y"))
    assert "x" not in analyzed({("enc", "k", "x"), ("hash", "k")})
