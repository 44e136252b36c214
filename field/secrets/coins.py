"""Secret randomness: uniform words and residues from a stream cipher.

Shares, masks, keys and noise are drawn from `Coins`; experiment randomness (data, splits, starts) is a
`numpy.random.Generator`.  The two types are never exchanged.  The stream is AES-128 in counter mode
(through `cryptography`), keyed by the operating system for `SystemCoins`, by a secret seed that was kept for
`StoredCoins`, and by a hash of a seed anybody may know and a label for `SeededCoins`.

Assumes AES is a pseudorandom permutation.  Does not protect against somebody who reads this process's
memory, and rejection sampling is not constant time.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

from field.arrays import Array
from field.cached import cached_property

_BLOCK = 1 << 20
_ZEROS = memoryview(bytes(_BLOCK))
# One key encrypts one counter stream from block 0: 2**64 bytes and more before it repeats.
_COUNTER = modes.CTR(bytes(16))


class Coins:
    """Stream of secret uniform bytes (AES-128 in counter mode); construct `SystemCoins` or `SeededCoins`.

    Parameters
    ----------
    key
        16 secret bytes.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.drawn = 0  # bytes so far

    @cached_property
    def _stream(self) -> CipherContext:
        # Made when it is drawn from: of streams with all peers a reply needs few.
        return Cipher(algorithms.AES(self._key), _COUNTER).encryptor()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(secret)"

    def __reduce__(self) -> Any:
        raise TypeError(f"{type(self).__name__} is secret: it is never copied or stored")

    def fill(self, out: Array) -> None:
        """Overwrite a C-contiguous array with uniform bytes."""
        view = _octets(out)
        self.drawn += view.nbytes
        # update_into writes exactly as many bytes as it reads for a stream mode.
        for start in range(0, view.nbytes, _BLOCK):
            piece = view[start : start + _BLOCK]
            self._stream.update_into(_ZEROS[: piece.nbytes], piece)

    def mask(self, out: Array) -> None:
        """XOR uniform bytes into a C-contiguous array, the same bytes that `fill` would have written."""
        view = _octets(out)
        self.drawn += view.nbytes
        for start in range(0, view.nbytes, _BLOCK):
            piece = view[start : start + _BLOCK]
            self._stream.update_into(piece, piece)

    def bytes(self, size: int) -> bytes:
        """`size` secret uniform bytes."""
        self.drawn += size
        return self._stream.update(bytes(size))

    def skip_to(self, drawn: int) -> None:
        """Leave out what was drawn before, up to so many bytes in all: nothing of it is drawn again.

        Raises ValueError if more was drawn already.
        """
        if drawn < self.drawn:
            raise ValueError(f"{self.drawn} bytes were drawn: coins do not go back to {drawn}")
        while left := drawn - self.drawn:
            self.bytes(min(left, _BLOCK))

    def below(self, bound: int) -> int:
        """A secret uniform Python integer in [0, bound), by rejection."""
        if bound < 1:
            raise ValueError(f"bound={bound}: a uniform integer needs a bound of at least 1")
        bits = (bound - 1).bit_length()
        size = (bits + 7) // 8
        while True:
            value = int.from_bytes(self.bytes(size), "little") & ((1 << bits) - 1)
            if value < bound:
                return value

    def residues(self, prime: int, shape: int | tuple[int, ...], *, dtype: Any = None) -> Array:
        """Secret uniform residues in [0, prime), by rejection: shape `shape`, uint32 or uint64."""
        dtype = np.dtype(dtype or (np.uint32 if prime < 2**32 else np.uint64))
        out = np.empty(shape, dtype)
        self.fill_residues(prime, out)
        return out

    def fill_residues(self, prime: int, out: Array) -> None:
        """Overwrite a C-contiguous uint32 or uint64 array with secret uniform residues."""
        if not 1 < prime <= 1 << (8 * out.itemsize):
            raise ValueError(f"prime={prime} does not fit {out.dtype}: use uint64 for primes above 2**32")
        from field.kernels.scalar import mask_and_find

        self.fill(out)
        flat = out.reshape(-1)
        mask = flat.dtype.type((1 << (prime - 1).bit_length()) - 1)
        rejected = mask_and_find(flat, mask, flat.dtype.type(prime - 1))
        # A word is masked to the bit length of the prime and drawn again until it is below the prime,
        # so every residue has the same probability exactly.
        while rejected.size:
            again = np.empty(rejected.size, flat.dtype)
            self.fill(again)
            bad = mask_and_find(again, mask, flat.dtype.type(prime - 1))
            flat[rejected] = again
            rejected = rejected[bad]


def _octets(out: Array) -> memoryview:
    if not out.flags.c_contiguous:
        raise ValueError("coins fill C-contiguous arrays only: pass a contiguous buffer")
    # Views of no bytes cannot be cast.
    return out.data.cast("B") if out.size else memoryview(bytearray())


class _OwnedCoins(Coins):
    """Coins of one process.

    A child process made by `fork` would repeat its parent's stream, so drawing in another process than
    the one that made the coins is refused.
    """

    def __init__(self, key: bytes) -> None:
        super().__init__(key)
        self._owner = os.getpid()

    def _check(self) -> None:
        if os.getpid() != self._owner:
            raise RuntimeError(
                f"these coins belong to process {self._owner}, this is process {os.getpid()}: "
                f"a forked stream would repeat secrets; make {type(self).__name__} in the child"
            )

    def fill(self, out: Array) -> None:
        self._check()
        super().fill(out)

    def mask(self, out: Array) -> None:
        self._check()
        super().mask(out)

    def bytes(self, size: int) -> bytes:
        self._check()
        return super().bytes(size)


class SystemCoins(_OwnedCoins):
    """Coins keyed by the operating system: the default everywhere a secret is drawn."""

    def __init__(self) -> None:
        super().__init__(os.urandom(16))


class StoredCoins(_OwnedCoins):
    """Coins from a secret seed of 32 bytes that was kept: whoever resumes with it draws the same again.

    The seed must be drawn from `SystemCoins`, and one seed must never serve two runs.
    """

    def __init__(self, seed: bytes) -> None:
        if len(seed) != 32:
            raise ValueError(f"a seed of {len(seed)} bytes: 32 secret bytes are needed")
        super().__init__(hashlib.blake2b(key=seed, digest_size=16, person=b"secfc-stored").digest())


class SeededCoins(Coins):
    """Reproducible coins for tests and vectors: anyone who knows the seed knows all coins.

    Parameters
    ----------
    seed
        Integer from which the key is derived; public.
    label
        Purpose or party; a draw under one label does not shift the draws under another.
    """

    def __init__(self, seed: int, label: str) -> None:
        digest = hashlib.blake2b(f"{seed}|{label}".encode(), digest_size=16, person=b"secfc-coins")
        super().__init__(digest.digest())
