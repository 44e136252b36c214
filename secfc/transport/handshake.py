"""The handshake of a sealed run: pure steps, a message in and a message out.

    1  to every peer   Greeting: digest of the plan, identity, fresh nonce, fresh X25519 key, signed
    2  to every peer   Countersign: the hashes of the greetings of all with whom both speak, signed for this
                       peer, and the plan's description where digests differ, encrypted under a key of the two
    then               keys of each pair, from the hash of those greetings

A signature in step 2 covers greetings as the signer got them: nonces, ephemeral keys, identities, digests
and numbers, the names of all parties in order, and for whom it is.  So it is worth nothing in another
run, to another peer, from another party or with other keys, and whoever makes it holds the identity now: an
old greeting, or an old journal, in which the ephemeral key of its session is, does not suffice.  That it is
encrypted under the pair's key shows that the peer has computed that key.  Where two parties got different
greetings of a third, both notice, though their own line is sound.  Those that do not speak with each other
(`secfc.roles.exchange.Links`) greet each other neither, and compare nothing.

Forward secrecy: keys follow from ephemeral keys alone, so an identity that is stolen later opens nothing of
before; a journal (`secfc.transport.journal`) that is stolen opens the session that it belongs to.  An
identity that is stolen before lets others speak in its owner's name, and in nobody else's to its owner.

tests/secfc/transport/test_handshake_model.py searches all runs of a small model of this for one that deceives
a party.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from field.secrets.channels import BrokenSeal, Identity, SealedChannel
from field.secrets.coins import Coins
from secfc.roles.description import MAXIMUM, description_digest
from secfc.roles.exchange import Links, PartyId
from secfc.roles.messages import Message

HASH, SIGNATURE, TAG = 32, 64, 16


class HandshakeRefused(Exception):  # noqa: N818 - named for what happened
    """A peer's part of the handshake is not genuine: `party` is the number of whom that points at."""

    def __init__(self, party: int, why: str) -> None:
        super().__init__(why)
        self.party, self.why = party, why


class Greeting(Message, tag=131):
    """Party to party, first: the digest of its plan, its identity, a nonce and an ephemeral key, signed.

    Under "sealed transport": party, party.  Seen: a fresh key and nonce, signed, and a digest of the
    plan.  By deviating: a signature that does not fit the pinned identity is refused. Without pins
    whoever carries all messages can take anybody's place.
    """

    digest: bytes
    identity: bytes
    nonce: bytes
    ephemeral: bytes
    signature: bytes

    def __post_init__(self) -> None:
        parts = (self.digest, self.identity, self.nonce, self.ephemeral, self.signature)
        if [len(x) for x in parts] != [32, 32, 32, 32, SIGNATURE]:
            raise ValueError("a greeting has four times 32 bytes and a signature of 64")

    @property
    def contents(self) -> bytes:
        """All but the signature."""
        return self.digest + self.identity + self.nonce + self.ephemeral


class Countersign(Message, tag=132):
    """Party to party, second: that it got these greetings, signed, and its plan; encrypted to the peer.

    Under "sealed transport": party, party.  Seen: ciphertext: the hashes of the greetings of all with whom
    both speak, signed for this peer, and the plan where digests differ.  By deviating: an old journal is not
    enough to sign it. Different greetings to different parties are noticed by both, as suspicion; another
    plan is a `PlanMismatch`.
    """

    ciphertext: bytes

    def __post_init__(self) -> None:
        if len(self.ciphertext) < SIGNATURE + 2 * HASH + TAG:
            raise ValueError("a countersignature covers two greetings at least")


def _hash(person: bytes, *parts: bytes) -> bytes:
    return hashlib.blake2b(b"".join(parts), digest_size=HASH, person=person).digest()


def hash_of_parties(parties: tuple[PartyId, ...]) -> bytes:
    """32 bytes that name all parties in their order."""
    names = [name.encode() for name in parties]
    return _hash(b"secfc parties", *(len(name).to_bytes(8, "little") + name for name in names))


def hash_of_greeting(parties: bytes, number: int, contents: bytes) -> bytes:
    """32 bytes that name the greeting of the party of this number, among parties of that hash."""
    return _hash(b"secfc greeting", parties, number.to_bytes(4, "little"), contents)


def greeting_to_sign(name: bytes) -> bytes:
    """What step 1 signs: that the identity made this greeting, some time."""
    return b"secfc greeting 1" + name


def transcript_to_sign(sender: int, recipient: int, seen: tuple[bytes, ...]) -> bytes:
    """What step 2 signs: for whom, and the hashes of greetings as the sender got them."""
    numbers = sender.to_bytes(4, "little") + recipient.to_bytes(4, "little")
    return b"secfc transcript 1" + numbers + b"".join(seen)


def derive_keys(shared: bytes, salt: bytes, purpose: bytes, low: int, high: int) -> bytes:
    """96 bytes for a channel between two parties."""
    info = purpose + low.to_bytes(4, "little") + high.to_bytes(4, "little")
    return HKDF(algorithm=SHA256(), length=96, salt=salt, info=info).derive(shared)


def verify(identity: bytes, signature: bytes, message: bytes) -> bool:
    """Whether the holder of this identity signed this."""
    try:
        Ed25519PublicKey.from_public_bytes(identity).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


class Handshake:
    """One party's state in one handshake; each method is called once, in this order."""

    def __init__(
        self, me: int, parties: tuple[PartyId, ...], description: bytes, identity: Identity, coins: Coins,
        links: Links | None = None,
    ) -> None:  # fmt: skip
        self.me, self._names, self._description, self._identity = me, parties, description, identity
        self._parties, self._links = hash_of_parties(parties), links or Links.of_all(parties)
        nonce = coins.bytes(32)
        self._key = X25519PrivateKey.from_private_bytes(coins.bytes(32))
        ephemeral = self._key.public_key().public_bytes_raw()
        contents = description_digest(description) + identity.public + nonce + ephemeral
        signature = identity.sign(greeting_to_sign(hash_of_greeting(self._parties, me, contents)))
        self.greeting = Greeting(
            description_digest(description), identity.public, nonce, ephemeral, signature
        )

    def __repr__(self) -> str:
        return f"Handshake(me={self.me}, n={len(self._names)})"

    def _common(self, j: int) -> tuple[int, ...]:
        """The numbers of a peer, of this party, and of all with whom both speak."""
        common = self._links.common_parties(self._names[self.me], self._names[j])
        return tuple(map(self._links.party_places.__getitem__, common))

    def _seen_with(self, j: int) -> tuple[bytes, ...]:
        """The hashes of their greetings."""
        return tuple(self._seen[i] for i in self._common(j))

    def countersign(self, greetings: Mapping[int, Greeting]) -> dict[int, Countersign]:
        """Step 2, to each peer, from the greetings of all peers.  Raises Refused."""
        self._greetings = dict(greetings)
        everyone = self._greetings | {self.me: self.greeting}
        self._seen = {j: hash_of_greeting(self._parties, j, one.contents) for j, one in everyone.items()}
        self._shared: dict[int, bytes] = {}
        self._confirming: dict[int, SealedChannel] = {}
        out = {}
        for j, greeting in sorted(self._greetings.items()):
            if not verify(greeting.identity, greeting.signature, greeting_to_sign(self._seen[j])):
                raise HandshakeRefused(j, "a greeting with a wrong signature came")
            try:
                peer = X25519PublicKey.from_public_bytes(greeting.ephemeral)
                self._shared[j] = self._key.exchange(peer)
            except ValueError:
                raise HandshakeRefused(j, "a greeting with a key that is none came") from None
            low, high = sorted((self.me, j))
            salt = _hash(b"secfc pair greet", self._seen[low], self._seen[high])
            secret = derive_keys(self._shared[j], salt, b"secfc confirm", low, high)
            self._confirming[j] = SealedChannel(self.me, j, secret, salt)
            seen = self._seen_with(j)
            signature = self._identity.sign(transcript_to_sign(self.me, j, seen))
            told = b"" if greeting.digest == self.greeting.digest else self._description
            payload = signature + b"".join(seen) + told
            out[j] = Countersign(self._confirming[j].seal("countersign", payload))
        return out

    def open(self, j: int, message: Countersign) -> bytes:
        """The description of the peer's plan, if its countersignature is genuine.  Raises Refused."""
        try:
            payload = self._confirming[j].open("countersign", message.ciphertext)
        except BrokenSeal:
            raise HandshakeRefused(j, "a countersignature that cannot be opened came") from None
        common = self._common(j)
        end = SIGNATURE + HASH * len(common)
        if not end <= len(payload) <= end + MAXIMUM:
            raise HandshakeRefused(j, "a countersignature of another size came")
        signature, views, description = payload[:SIGNATURE], payload[SIGNATURE:end], payload[end:]
        told = tuple(views[at : at + HASH] for at in range(0, len(views), HASH))
        theirs, seen = self._greetings[j], dict(zip(common, told, strict=True))
        if not verify(theirs.identity, signature, transcript_to_sign(j, self.me, told)):
            raise HandshakeRefused(j, "a countersignature with a wrong signature came")
        if seen[self.me] != self._seen[self.me] or seen[j] != self._seen[j]:
            raise HandshakeRefused(j, "a countersignature of another handshake came")
        for i, one in seen.items():
            if one != self._seen[i]:
                raise HandshakeRefused(i, "different greetings to different parties came")
        if theirs.digest == self.greeting.digest and not description:
            return self._description
        if description_digest(description) != theirs.digest:
            raise HandshakeRefused(j, "another plan than in its greeting came")
        return description

    def channels(self) -> dict[int, SealedChannel]:
        """The line to each peer, once all have countersigned."""
        out = {}
        for j, shared in self._shared.items():
            salt = _hash(b"secfc all greet", *self._seen_with(j))
            low, high = sorted((self.me, j))
            out[j] = SealedChannel(self.me, j, derive_keys(shared, salt, b"secfc line", low, high), salt)
        del self._key, self._shared, self._confirming
        return out
