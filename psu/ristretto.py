"""The group ristretto255 and its hashes, as RFC 9497 uses them for oblivious pseudorandom functions.

Elements are 32 bytes (RFC 9496), scalars are Python integers modulo ORDER.  The group has prime order, so
no element but the neutral one has a small order.  libsodium computes, through rbcl: in constant time for
elements and the scalars they are multiplied by.  Not constant in time: arithmetic of scalars alone.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from field.ring.errors import install_command
from field.secrets.coins import Coins

ORDER = 2**252 + 27742317777372353535851937790883648493
ELEMENT, SCALAR = 32, 32
NEUTRAL = bytes(ELEMENT)
# What hashes are told apart by: the verifiable mode of this suite (RFC 9497, sections 3.1 and 4.1).
CONTEXT = b"OPRFV1-\x01-ristretto255-SHA512"
# SHA-512 of the block of zeros that expand_message_xmd begins with (RFC 9380, section 5.3.1).
_START = hashlib.sha512(bytes(128))


@cache
def _sodium() -> Any:
    try:
        import rbcl
    except ImportError as error:
        raise ImportError(
            f"oblivious tags need rbcl, which brings libsodium: {install_command('[oprf]')}, or use "
            'tags="shared key"'
        ) from error
    except OSError as error:
        raise ImportError(
            f"rbcl could not load its libsodium from a temporary folder ({error}): set TMPDIR to a folder "
            "that may hold programs"
        ) from error
    # rbcl writes the library to a temporary file each time it is imported, and leaves it there.
    library = getattr(getattr(rbcl, "_sodium", None), "_name", "")
    if os.name == "posix" and os.path.basename(library).startswith("tmp"):
        with suppress(OSError):
            os.unlink(library)
    return rbcl


def require_libsodium() -> None:
    """Raises ImportError, which says what to install, where libsodium is missing."""
    _sodium()


def multiply(scalar: int, element: bytes) -> bytes:
    """The element times the scalar.

    Raises ValueError if the bytes are no element in canonical form, or the product is neutral.
    """
    try:
        return bytes(_sodium().crypto_scalarmult_ristretto255(scalar.to_bytes(SCALAR, "little"), element))
    except (RuntimeError, TypeError, ValueError):
        raise ValueError("these 32 bytes are no element of the group, or the neutral one") from None


def generate(scalar: int) -> bytes:
    """The generator times a scalar that is not 0 modulo ORDER."""
    return bytes(_sodium().crypto_scalarmult_ristretto255_base(scalar.to_bytes(SCALAR, "little")))


def add(a: bytes, b: bytes) -> bytes:
    """The sum of two elements that were checked before, or come from here."""
    return bytes(_sodium().crypto_core_ristretto255_add(a, b))


def is_element(candidate: bytes) -> bool:
    """Whether these bytes are an element in its canonical form, and not the neutral one."""
    if len(candidate) != ELEMENT or candidate == NEUTRAL:
        return False
    return bool(_sodium().crypto_core_ristretto255_is_valid_point(candidate))


def combine(scalars: Sequence[int], elements: Sequence[bytes]) -> bytes:
    """The sum of the elements, times a scalar each.  Raises ValueError as `multiply`."""
    total = NEUTRAL
    for scalar, element in zip(scalars, elements, strict=True):
        total = add(total, multiply(scalar, element))
    return total


def draw(coins: Coins, count: int) -> list[int]:
    """So many uniform scalars in [1, ORDER): 64 bytes each, so that the remainder is uniform to 2**-259."""
    data = coins.bytes(64 * count)
    return [1 + int.from_bytes(data[i : i + 64], "little") % (ORDER - 1) for i in range(0, len(data), 64)]


def derive_nonce(coins: Coins, key: int, transcript: bytes) -> int:
    """A scalar in [1, ORDER) from fresh coins, the secret key and what is proven.

    A nonce that repeats, or that somebody can guess, gives the key away; so coins that repeat or are weak
    still make another nonce for another statement, and one that needs the key (as RFC 8032 has it).
    """
    secret = key.to_bytes(SCALAR, "little") + coins.bytes(64)
    data = hashlib.sha512(b"secfc nonce of a proof" + secret + transcript).digest()
    return 1 + int.from_bytes(data, "little") % (ORDER - 1)


def inverses(scalars: Sequence[int]) -> list[int]:
    """Inverses of scalars that are not 0: one inversion for all (Montgomery), three products each."""
    before, product = [], 1
    for scalar in scalars:
        before.append(product)
        product = product * scalar % ORDER
    rest = pow(product, -1, ORDER)
    found = [0] * len(scalars)
    for i in range(len(scalars) - 1, -1, -1):
        found[i] = rest * before[i] % ORDER
        rest = rest * scalars[i] % ORDER
    return found


def hash_to_group(message: bytes) -> bytes:
    """An element of which nobody knows the logarithm (RFC 9497, section 4.1; RFC 9380, appendix B)."""
    return bytes(_sodium().crypto_core_ristretto255_from_hash(_expand(message, b"HashToGroup-" + CONTEXT)))


def hash_to_scalar(message: bytes) -> int:
    """A scalar that follows from the message (RFC 9497, section 4.1)."""
    return int.from_bytes(_expand(message, b"HashToScalar-" + CONTEXT), "little") % ORDER


def _expand(message: bytes, tag: bytes) -> bytes:
    """expand_message_xmd with SHA-512 to 64 bytes (RFC 9380, section 5.3.1)."""
    ending = tag + bytes([len(tag)])
    first = _START.copy()
    first.update(message + b"\x00\x40\x00" + ending)
    return hashlib.sha512(first.digest() + b"\x01" + ending).digest()
