"""Signing identities, sealed channels between two parties, and streams that both can expand.

A channel encrypts with AES-256-GCM under a key of its own for every label, and expands AES-128-CTR streams
the same way.  A label is used once: asking again raises AlreadyUsed, a message that comes again is refused.
Where a channel's secret comes from is the business of a handshake.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from field.arrays import Array
from field.secrets.coins import Coins

_ZEROS = bytes(1 << 18)


class AlreadyUsed(RuntimeError):  # noqa: N818
    """A one-time key, mask or opening was requested again on this side; its reuse would reveal differences.

    Parameters
    ----------
    what
        What was requested again, in words.
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} was used before: start a new session, or go on from the latest state")
        self.what = what


class BrokenSeal(Exception):  # noqa: N818 - what happened
    """What came over a channel is not what its peer sealed for it there: altered, misdirected or repeated."""


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
    """Long-lived Ed25519 signing key; give `public` to the other parties over a channel that you trust.

    Parameters
    ----------
    secret
        32 secret bytes of the private key.
    """

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


class SealedChannel:
    """What two parties share: seal, open, and streams both can expand.  One label, one use."""

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
            raise AlreadyUsed(f"the key that seals {label!r} to party {self.peer}")
        return [
            # A key of its own for every label, so the nonce can be constant.
            AESGCM(subkey(self._give, place, 32)).encrypt(bytes(12), piece, self._context + place.encode())
            for place, piece in zip(_places(label, count), pieces, strict=True)
        ]

    def open(self, label: str, sealed: bytes) -> bytes:
        """What the peer sealed under this label.

        Raises Broken if it was altered, which the peer or a relay did, or comes again.
        """
        (payload,) = self.open_pieces(label, (sealed,), 1)
        return payload

    def open_pieces(self, label: str, pieces: Iterable[bytes | memoryview], count: int) -> Iterator[bytes]:
        """The pieces of what the peer sealed under this label, to be believed when all have come.

        Raises Broken, as `open`.
        """
        for place, sealed in zip(_places(label, count), pieces, strict=True):
            cipher = AESGCM(subkey(self._take, place, 32))
            try:
                payload = cipher.decrypt(bytes(12), sealed, self._context + place.encode())
            except InvalidTag:
                raise BrokenSeal(f"the message {label!r} was altered or misdirected") from None
            yield payload
        # Only a genuine message uses the label up, so a forgery cannot lock the genuine one out.
        if not self._claim("open " + label):
            raise BrokenSeal(f"the message {label!r} came again")

    def stream(self, label: str, *, side: str = "") -> Stream:
        """A stream that the peer can expand as well; each side may do so once.

        side tells the two uses apart if both parties are the same.  Raises AlreadyUsed.
        """
        if not self._claim(f"stream {side} {label}"):
            raise AlreadyUsed(f"the stream {label!r} with party {self.peer}")
        return Stream(subkey(self._root, label))
