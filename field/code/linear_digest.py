"""Short digests that add up like what they are of: of bits with exclusive or, of residues modulo primes.

Players who opened sums of shares compare digests of their shares: those of all shares together are the
digest of what was opened, so a false share shows, and whose it was.  The key is public, but drawn when all
shares are told; then two different arrays have the same digest with probability below 2**-100 for words, and
with (2 / p)**2 a lane for residues.

Words: GMAC of them less GMAC of as many zeros.  GHASH is a polynomial in the key, linear in the blocks of the
text (NIST SP 800-38D), and what the length and the last block add is in both.  Who holds a part of what is
opened learns from another part's digest one combination of its shares.  These are uniform subject to what is
opened, each under a mask of its own, so the digest is uniform subject to the digest of that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from field.code.reply_check import sum_last
from field.ring.basis import Basis
from field.secrets.coins import Coins

Array = NDArray[Any]

SIZE = 16
# Random sums of residues a lane.
SUMS = 2
# Residues are put in so many rows.
ROWS = 64
_BLOCK = 1 << 20
_ZEROS = bytes(_BLOCK)


@dataclass(frozen=True, eq=False, repr=False)
class LinearDigest:
    """Digests under one key, from 32 bytes that nobody knew when what they are of was fixed."""

    seed: bytes

    def __post_init__(self) -> None:
        if len(self.seed) != 32:
            raise ValueError(f"a digest takes a seed of 32 bytes, not of {len(self.seed)}")

    def words(self, arrays: Iterable[Array]) -> bytes:
        """16 bytes of uint64 arrays in their order: of a ^ b, the exclusive or of those of a and b."""
        total = 0
        text = _tag(self._key(b"words"))
        plain = _tag(self._key(b"words"))
        for array in arrays:
            if array.dtype != np.uint64:
                raise TypeError(f"words are uint64, these are {array.dtype}")
            # Little-endian on every machine, so that parties on different ones agree.
            view = np.ascontiguousarray(array, "<u8").reshape(-1).data.cast("B")
            for start in range(0, view.nbytes, _BLOCK):
                piece = view[start : start + _BLOCK]
                text.authenticate_additional_data(piece)
                plain.authenticate_additional_data(memoryview(_ZEROS)[: piece.nbytes])
            total += view.nbytes
        if not total:
            return bytes(SIZE)
        text.finalize()
        plain.finalize()
        return bytes(x ^ y for x, y in zip(text.tag, plain.tag, strict=True))

    def residues(self, basis: Basis, arrays: Iterable[Array]) -> Array:
        """(lanes, 2) of residues (lanes' <= lanes, ...) in their order: sums of these by random factors."""
        coins = Coins(self._key(b"residues"))
        total = np.zeros((basis.lanes, SUMS), basis.dtype)
        for array in arrays:
            lanes = len(array)
            some = basis.prefix(lanes)
            flat = array.reshape(lanes, -1)
            rows = min(ROWS, max(1, flat.shape[1]))
            spare = -flat.shape[1] % rows
            table = np.pad(flat, ((0, 0), (0, spare))).reshape(lanes, rows, -1)
            # The factor of an entry is that of its row times that of its column, so few are drawn.
            columns = some.matmul(some.sample((SUMS, rows), coins), table)
            factors = some.sample(columns.shape[1:], coins)
            total[:lanes] = some.add(
                np.ascontiguousarray(total[:lanes]), sum_last(some, some.multiply(factors, columns))
            )
        return total

    def _key(self, purpose: bytes) -> bytes:
        return hashlib.blake2b(purpose, key=self.seed, digest_size=16, person=b"secfc-linear").digest()


def combine_words(digests: Iterable[bytes]) -> bytes:
    """The digest of the exclusive or of what these are digests of."""
    total = 0
    for digest in digests:
        total ^= int.from_bytes(digest, "little")
    return total.to_bytes(SIZE, "little")


def _tag(key: bytes) -> Any:
    return Cipher(algorithms.AES(key), modes.GCM(bytes(12))).encryptor()
