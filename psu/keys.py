"""Keys of a union: signed ephemeral key agreement, sealed channels, one-time streams, common randomness.

Every client signs a fresh X25519 key with its Ed25519 identity, which the others have pinned; each pair
derives keys with HKDF-SHA256, bound to the plan, both identities and both ephemerals.  A channel encrypts
with AES-256-GCM under a key of its own for every label, and expands AES-128-CTR streams the same way.  A
label is used once: asking again raises AlreadyUsed, a message that comes again is refused.

Assumes that the pinned identities are right.  An offer is as fresh as the session in the plan: whoever holds
an old ephemeral key can make its offer again in another run of the same session, so a session must never
repeat (`secfc.transport.handshake` signs the others' nonces as well).  Python cannot erase memory, so forward
secrecy begins when the process ends.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from field.secrets.coins import Coins
from psu.errors import AlreadyUsed, UnionAborted
from psu.messages import KeyPacket, Offer
from psu.plan import Plan

Array = NDArray[Any]

GROUP_BYTES, COMMON_BYTES = 32, 16
_ZEROS = bytes(1 << 18)


def subkey(root: bytes, label: str, size: int = 16) -> bytes:
    """A key for one purpose: BLAKE2b of the label keyed by the root."""
    return hashlib.blake2b(label.encode(), key=root, digest_size=size, person=b"psu subkey").digest()


class Stream:
    """Pseudorandom words: AES-128 in counter mode from block 0 under a key used for nothing else."""

    def __init__(self, key: bytes) -> None:
        self._cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()

    def __repr__(self) -> str:
        return "Stream(secret)"

    def fill(self, words: Array) -> None:
        """Overwrite a C-contiguous uint64 array with the next words."""
        view = memoryview(words.reshape(-1).view(np.uint8).data)
        for start in range(0, view.nbytes, len(_ZEROS)):
            piece = view[start : start + len(_ZEROS)]
            self._cipher.update_into(memoryview(_ZEROS)[: piece.nbytes], piece)


class Identity:
    """A long-lived signing key; hand `public` to the other parties over a channel you trust."""

    def __init__(self, secret: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(secret)
        self.public = self._key.public_key().public_bytes_raw()

    @classmethod
    def draw(cls, coins: Coins) -> Identity:
        """A new identity."""
        return cls(coins.bytes(32))

    def __repr__(self) -> str:
        return f"Identity(public={self.public.hex()[:16]}...)"

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)


def _places(label: str, count: int) -> list[str]:
    """What the pieces of a payload are bound to; the only piece of one, to the label itself."""
    return [label] if count == 1 else [f"{label} {i}/{count}" for i in range(count)]


class Channel:
    """What two clients share: seal, open, and streams both can expand.  One label, one use."""

    def __init__(self, me: int, peer: int, secret: bytes, context: bytes) -> None:
        low_to_high, high_to_low, self._root = secret[:32], secret[32:64], secret[64:96]
        if me == peer:
            high_to_low = low_to_high
        self._give, self._take = (low_to_high, high_to_low) if me <= peer else (high_to_low, low_to_high)
        self.me, self.peer, self._context = me, peer, context
        self._used: set[str] = set()

    def __repr__(self) -> str:
        return f"Channel(me={self.me}, peer={self.peer})"

    def _claim(self, use: str) -> bool:
        fresh = use not in self._used
        self._used.add(use)
        return fresh

    def seal(self, label: str, payload: bytes | memoryview) -> bytes:
        """The payload, encrypted and authenticated to the peer; 16 bytes longer.

        Raises AlreadyUsed.
        """
        return self.seal_pieces(label, (payload,), 1)[0]

    def seal_pieces(self, label: str, pieces: Iterable[bytes | memoryview], count: int) -> list[bytes]:
        """So many pieces of one payload, each encrypted under its place and 16 bytes longer.

        Raises AlreadyUsed.
        """
        if not self._claim("seal " + label):
            raise AlreadyUsed(f"the key that seals {label!r} to client {self.peer}")
        return [
            # A key of its own for every label, so the nonce can be constant.
            AESGCM(subkey(self._give, place, 32)).encrypt(bytes(12), piece, self._context + place.encode())
            for place, piece in zip(_places(label, count), pieces, strict=True)
        ]

    def open(self, label: str, sealed: bytes) -> bytes:
        """What the peer sealed under this label.

        Raises UnionAborted that suspects the peer (or a relay) if it was altered or comes again.
        """
        (payload,) = self.open_pieces(label, (sealed,), 1)
        return payload

    def open_pieces(self, label: str, pieces: Iterable[bytes | memoryview], count: int) -> Iterator[bytes]:
        """The pieces of what the peer sealed under this label, to be believed when all have come.

        Raises UnionAborted, as `open`.
        """
        for place, sealed in zip(_places(label, count), pieces, strict=True):
            cipher = AESGCM(subkey(self._take, place, 32))
            try:
                payload = cipher.decrypt(bytes(12), sealed, self._context + place.encode())
            except InvalidTag:
                why = f"the message {label!r} was altered or misdirected"
                raise UnionAborted(why, (self.peer,)) from None
            yield payload
        # Only a genuine message uses the label up, so a forgery cannot lock the genuine one out.
        if not self._claim("open " + label):
            raise UnionAborted(f"the message {label!r} came again", (self.peer,))

    def stream(self, label: str, *, side: str = "") -> Stream:
        """A stream that the peer can expand as well; each side may do so once.

        side tells the two uses apart if both parties are the same.  Raises AlreadyUsed.
        """
        if not self._claim(f"stream {side} {label}"):
            raise AlreadyUsed(f"the stream {label!r} with client {self.peer}")
        return Stream(subkey(self._root, label))


class Session(Protocol):
    """What keys are bound to: how many clients there are, and 32 bytes that name the run."""

    @property
    def n(self) -> int: ...

    @property
    def digest(self) -> bytes: ...


class Ephemeral:
    """One key agreement: offer, then agree, once."""

    def __init__(self, plan: Session, me: int, identity: Identity, coins: Coins) -> None:
        if not 0 <= me < plan.n:
            raise ValueError(f"client {me} is not among the {plan.n} of the plan")
        self._key: X25519PrivateKey | None = X25519PrivateKey.from_private_bytes(coins.bytes(32))
        self._own = coins.bytes(96)
        self.plan, self.me = plan, me
        public = self._key.public_key().public_bytes_raw()
        self.offer = Offer(me, public, identity.sign(_signed(plan, me, public)))

    def __repr__(self) -> str:
        return f"Ephemeral(me={self.me})"

    def agree(self, offers: Mapping[int, Offer], pinned: Mapping[int, bytes]) -> Ring:
        """Channels to every client, from the offers of all others and everybody's pinned identity.

        Raises UnionAborted naming who did not offer or whose signature is wrong; AlreadyUsed.
        """
        if self._key is None:
            raise AlreadyUsed("this ephemeral key")
        plan, me, key = self.plan, self.me, self._key
        self._key = None
        absent = [j for j in range(plan.n) if j != me and (j not in offers or j not in pinned)]
        if absent:
            raise UnionAborted("no key was offered", absent)
        everyone = dict(offers) | {me: self.offer}
        channels = {me: Channel(me, me, self._own, plan.digest)}
        for j in range(plan.n):
            offer = everyone[j]
            try:
                if offer.sender != j:
                    raise InvalidSignature
                verifier = Ed25519PublicKey.from_public_bytes(pinned[j])
                verifier.verify(offer.signature, _signed(plan, j, offer.ephemeral))
                if j != me:
                    shared = key.exchange(X25519PublicKey.from_public_bytes(offer.ephemeral))
            except (InvalidSignature, ValueError):
                raise UnionAborted("a key offer is not signed by the pinned identity", (j,)) from None
            if j != me:
                low, high = sorted((me, j))
                info = b"".join(pinned[i] + everyone[i].ephemeral for i in (low, high))
                info += low.to_bytes(4, "little") + high.to_bytes(4, "little")
                kdf = HKDF(algorithm=SHA256(), length=96, salt=plan.digest, info=b"psu pair" + info)
                channels[j] = Channel(me, j, kdf.derive(shared), plan.digest)
        return Ring(me, channels)


def _signed(plan: Session, sender: int, ephemeral: bytes) -> bytes:
    return b"psu offer" + plan.digest + sender.to_bytes(4, "little") + ephemeral


@dataclass(frozen=True, repr=False)
class Ring:
    """A client's channels to all clients, itself included."""

    me: int
    channels: Mapping[int, Channel]

    def __repr__(self) -> str:
        return f"Ring(me={self.me}, n={len(self.channels)})"


class Once:
    """Numbers that must rise: an opening is answered once, also if a state is used twice."""

    def __init__(self) -> None:
        self._last = 0

    def claim(self, number: int) -> None:
        """Raises AlreadyUsed unless the number is larger than all before."""
        if number <= self._last:
            raise AlreadyUsed(f"the randomness of opening {number}")
        self._last = number


@dataclass(frozen=True, repr=False)
class Secrets:
    """All keys of one client: its channels, the group key, its keys of the common randomness."""

    ring: Ring
    group: bytes
    common: Mapping[tuple[int, ...], bytes]
    openings: Once = field(default_factory=Once)

    def __repr__(self) -> str:
        return f"Secrets(me={self.ring.me})"

    @property
    def me(self) -> int:
        return self.ring.me

    @property
    def tag_key(self) -> bytes:
        """The AES key of tags: clients have it, the relay does not."""
        return subkey(self.group, "tag")


def deal_keys(plan: Plan, ring: Ring, coins: Coins) -> dict[int, KeyPacket]:
    """Draw the keys this client answers for, sealed to each client that shares some, itself included.

    Client 0 draws the group key; the lowest member of each subset draws its common key.
    """
    group = coins.bytes(GROUP_BYTES) if ring.me == 0 else b""
    drawn = {a: coins.bytes(COMMON_BYTES) for a in plan.subsets if a[0] == ring.me}
    packets = {}
    for peer, channel in ring.channels.items():
        payload = group + b"".join(key for a, key in drawn.items() if peer in a)
        if payload:
            packets[peer] = KeyPacket(ring.me, peer, channel.seal("keys", payload))
    return packets


def dealers(plan: Plan, me: int) -> tuple[int, ...]:
    """Whose key packets a client has to wait for."""
    return tuple(sorted({0} | {a[0] for a in plan.subsets if me in a}))


def take_keys(plan: Plan, ring: Ring, packets: Mapping[int, KeyPacket]) -> Secrets:
    """All keys of this client, from the packets of `dealers`.

    Raises UnionAborted naming who sent none, or one that is altered or of the wrong size.
    """
    absent = [j for j in dealers(plan, ring.me) if j not in packets]
    if absent:
        raise UnionAborted("no keys were dealt", absent)
    group, common = b"", {}
    for dealer in dealers(plan, ring.me):
        payload = ring.channels[dealer].open("keys", packets[dealer].sealed)
        mine = [a for a in plan.subsets if a[0] == dealer and ring.me in a]
        start = GROUP_BYTES if dealer == 0 else 0
        if len(payload) != start + COMMON_BYTES * len(mine):
            raise UnionAborted("a key packet has the wrong size", (dealer,), proof=True)
        group = payload[:start] or group
        for i, a in enumerate(mine):
            common[a] = payload[start + COMMON_BYTES * i : start + COMMON_BYTES * (i + 1)]
    return Secrets(ring, group, common)
