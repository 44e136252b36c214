"""Keys of a union: signed ephemeral key agreement, sealed channels, one-time streams, common randomness.

Every client signs a fresh X25519 key with its Ed25519 identity, which the others have pinned; each pair
derives keys with HKDF-SHA256, bound to the plan, both identities and both ephemerals.

Assumes that the pinned identities are right.  An offer is as fresh as the session in the plan: whoever holds
an old ephemeral key can make its offer again in another run of the same session, so a session must never
repeat (`secfc.transport.handshake` signs the others' nonces as well).  Python cannot erase memory, so forward
secrecy begins when the process ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from field.secrets.channels import BrokenSeal, Identity, SealedChannel, subkey
from field.secrets.channels import Stream as Stream
from field.secrets.coins import Coins
from psu.blame import accuse_parties
from psu.errors import AlreadyUsed
from psu.messages import KeyPacket, Offer
from psu.plan import UnionPlan

GROUP_BYTES, COMMON_BYTES = 32, 16


class Ephemeral:
    """One key agreement: offer, then agree, once."""

    def __init__(self, plan: UnionPlan, me: int, identity: Identity, coins: Coins) -> None:
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
            raise accuse_parties("Offer", "no key was offered", silent=absent)
        everyone = dict(offers) | {me: self.offer}
        channels = {me: SealedChannel(me, me, self._own, plan.digest)}
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
                why = "a key offer is not signed by the pinned identity"
                raise accuse_parties("Offer", why, sender=j) from None
            if j != me:
                low, high = sorted((me, j))
                info = b"".join(pinned[i] + everyone[i].ephemeral for i in (low, high))
                info += low.to_bytes(4, "little") + high.to_bytes(4, "little")
                kdf = HKDF(algorithm=SHA256(), length=96, salt=plan.digest, info=b"psu pair" + info)
                channels[j] = SealedChannel(me, j, kdf.derive(shared), plan.digest)
        return Ring(me, channels)


def _signed(plan: UnionPlan, sender: int, ephemeral: bytes) -> bytes:
    return b"psu offer" + plan.digest + sender.to_bytes(4, "little") + ephemeral


@dataclass(frozen=True, repr=False)
class Ring:
    """A client's channels to all clients, itself included."""

    me: int
    channels: Mapping[int, SealedChannel]

    def __repr__(self) -> str:
        return f"Ring(me={self.me}, n={len(self.channels)})"

    def open(self, peer: int, label: str, sealed: bytes, kind: str) -> bytes:
        """What a client sealed to this one under a label, in a message of this kind.

        Raises UnionAborted that suspects the peer (or a relay) if it was altered or comes again.
        """
        try:
            return self.channels[peer].open(label, sealed)
        except BrokenSeal as error:
            raise accuse_parties(kind, str(error), sender=peer) from None


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


def deal_keys(plan: UnionPlan, ring: Ring, coins: Coins) -> dict[int, KeyPacket]:
    """Draw the keys this client answers for, sealed to each client that shares some, itself included.

    Client 0 draws the group key; the lowest member of each subset draws its common key.
    """
    group = coins.bytes(GROUP_BYTES) if ring.me == 0 else b""
    drawn = {a: coins.bytes(COMMON_BYTES) for a in plan.key_subsets if a[0] == ring.me}
    packets = {}
    for peer, channel in ring.channels.items():
        payload = group + b"".join(key for a, key in drawn.items() if peer in a)
        if payload:
            packets[peer] = KeyPacket(ring.me, peer, channel.seal("keys", payload))
    return packets


def key_dealers(plan: UnionPlan, me: int) -> tuple[int, ...]:
    """Whose key packets a client has to wait for."""
    return tuple(sorted({0} | {a[0] for a in plan.key_subsets if me in a}))


def take_keys(plan: UnionPlan, ring: Ring, packets: Mapping[int, KeyPacket]) -> Secrets:
    """All keys of this client, from the packets of `key_dealers`.

    Raises UnionAborted naming who sent none, or one that is altered or of the wrong size.
    """
    absent = [j for j in key_dealers(plan, ring.me) if j not in packets]
    if absent:
        raise accuse_parties("KeyPacket", "no keys were dealt", silent=absent)
    group, common = b"", {}
    for dealer in key_dealers(plan, ring.me):
        payload = ring.open(dealer, "keys", packets[dealer].sealed, "KeyPacket")
        mine = [a for a in plan.key_subsets if a[0] == dealer and ring.me in a]
        start = GROUP_BYTES if dealer == 0 else 0
        if len(payload) != start + COMMON_BYTES * len(mine):
            raise accuse_parties("KeyPacket", "a key packet has the wrong size", proof=True, sender=dealer)
        group = payload[:start] or group
        for i, a in enumerate(mine):
            common[a] = payload[start + COMMON_BYTES * i : start + COMMON_BYTES * (i + 1)]
    return Secrets(ring, group, common)
