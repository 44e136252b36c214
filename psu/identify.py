"""Keyed pseudonyms of data points: what parties that share a group key, and nobody else, can compute.

ID -> digest (BLAKE2b-128 of a typed canonical encoding) -> tag (AES-128 of the digest under a key of the
group) -> (z, y): z is 61 bits, y 21 further bits and a 40-bit check of both.  Both are residues modulo
2**61 - 1.  Two different IDs get equal pairs with probability 2**-82, so a union of m has a collision with
probability below m**2 / 2**83.

IDs are equal if Python says so and their types are equal: 1 and "1" and b"1" differ.  Strings are compared
by code points (normalize them before if your sources differ in that), integers may have any size.

A tag hides an ID from whoever lacks the group key (the relay).  Clients hold the key: each can test
whether a guessed ID is in the union, which the union tells them by definition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from field.arrays import Array
from field.ring.errors import InvalidValue

# Types are told apart by the personalization of BLAKE2b, not by bytes of the message.
PERSON = {
    "str": b"psu id str",
    "bytes": b"psu id bytes",
    "int": b"psu id int",
    "row": b"psu row float64",
    "pair": b"psu pair",
}


def digests(ids: Iterable[str | bytes | int] | Array) -> Array:
    """Digests of IDs, (N, 2) uint64, as secret as the IDs themselves.

    Parameters
    ----------
    ids
        Strings, bytes or integers, also NumPy arrays of them; one call may mix types.  An array (N, 2) of
        uint64 holds digests already, and is returned unchanged.

    Returns
    -------
    ndarray
        (N, 2) uint64, in the order of the IDs.

    Raises
    ------
    TypeError
        For any other type: floats and bools have no canonical form.
    InvalidValue
        For numbers beside equal text, as 7 and "7".
    """
    if isinstance(ids, np.ndarray):
        if ids.dtype == np.uint64 and ids.ndim == 2 and ids.shape[1] == 2:
            return np.ascontiguousarray(ids)
        if ids.ndim != 1:
            raise TypeError(f"IDs have shape {ids.shape}: pass one ID a point, or row_digests(points)")
        if ids.dtype.kind == "i" or (ids.dtype.kind == "u" and ids.dtype.itemsize < 8):
            return _hash("int", ids.astype("<i8").tobytes(), np.full(len(ids), 8))
        ids = ids.tolist()
    # A string would be taken apart into its characters.
    if isinstance(ids, str | bytes):
        raise TypeError(f"IDs are a single {type(ids).__name__}: pass a list of IDs")
    items = list(ids)
    kinds = [_kind(item) for item in items]
    out = np.empty((len(items), 2), np.uint64)
    for kind in sorted(set(kinds)):
        where = [i for i, k in enumerate(kinds) if k == kind]
        encoded = [_encode(items[i]) for i in where]
        out[where] = _hash(kind, b"".join(encoded), np.fromiter(map(len, encoded), np.int64, len(where)))
    return out


def refuse_two_spellings(sets: Sequence[Any]) -> None:
    """Raise ValueError for IDs of several clients of which one is a number and one its digits, 7 and "7".

    They would be two IDs, and are one in any file.
    """
    numbers, texts = set[int](), set[str]()
    for ids in sets:
        if isinstance(ids, np.ndarray) and ids.dtype.kind in "iu":
            numbers.update(ids.ravel().tolist() if ids.ndim == 1 else ())
        else:
            numbers.update(int(item) for item in ids if isinstance(item, int | np.integer))
            texts.update(item for item in ids if isinstance(item, str))
    if texts and any(str(number) in texts for number in numbers):
        raise InvalidValue(
            "some IDs are whole numbers and also text, as 7 and '7', which are never equal: convert all to "
            "one kind"
        )


def row_digests(points: Array) -> Array:
    """Digests of the rows of points, for data without an ID column: (N, 2) uint64, secret.

    Parameters
    ----------
    points
        (N, d) finite numbers.

    Returns
    -------
    ndarray
        (N, 2) uint64; two rows have equal digests if all their float64 values are equal (-0.0 equals 0.0).

    Raises
    ------
    ValueError
        For values that are not finite: NaN equals nothing, not even itself.
    """
    values = np.asarray(points)
    if values.ndim != 2:
        raise InvalidValue(f"points have shape {values.shape}: rows need two axes")
    rows = np.ascontiguousarray(values, "<f8") + 0.0  # -0.0 + 0.0 is 0.0
    if not np.isfinite(rows).all():
        raise InvalidValue("points hold NaN or infinity: impute or drop them, such rows have no identity")
    return _hash("row", rows.tobytes(), np.full(len(rows), 8 * rows.shape[1]))


def pair_digests(first: Array, second: Array) -> Array:
    """Digests of pairs of digests, (N, 2) each: (N, 2) uint64."""
    pairs = np.concatenate([first, second], axis=1).astype("<u8")
    return _hash("pair", pairs.tobytes(), np.full(len(pairs), 32))


def _kind(item: Any) -> str:
    if isinstance(item, str):
        return "str"
    if isinstance(item, bytes | bytearray | memoryview):
        return "bytes"
    if isinstance(item, int | np.integer) and not isinstance(item, bool):
        return "int"
    raise TypeError(f"an ID is a {type(item).__name__}: use str, bytes or int")


def _encode(item: Any) -> bytes:
    if isinstance(item, str):
        # Lone surrogates, which file names can hold, are code points like any other.
        return item.encode("utf-8", "surrogatepass")
    if isinstance(item, bytes | bytearray | memoryview):
        return bytes(item)
    # Two's complement in the fewest 8-byte words, so that int64 arrays need no Python integers.
    value = int(item)
    return value.to_bytes(8 * (value.bit_length() // 64 + 1), "little", signed=True)


def start_words(person: bytes) -> Array:
    """The initial state of an unkeyed 16-byte BLAKE2b with this personalization (RFC 7693, sec. 2.5)."""
    from psu.hashing import IV

    # Digest length 16, key length 0, fanout 1, depth 1; the last 16 of 64 bytes are the person.
    block = bytes([16, 0, 1, 1]) + bytes(44) + person.ljust(16, b"\0")
    return np.asarray(IV ^ np.frombuffer(block, "<u8"))


def _hash(kind: str, data: bytes, sizes: Array) -> Array:
    from psu.hashing import blake2b_128, blake2b_128_short

    # An empty buffer has no address that numba accepts.
    buffer = np.frombuffer(data or b"\0", np.uint8)
    short = not len(sizes) or int(sizes.max()) <= 128
    hashed = blake2b_128_short if short else blake2b_128
    words = hashed(buffer, np.cumsum(sizes, dtype=np.int64), start_words(PERSON[kind]))
    return np.asarray(words)


@dataclass(frozen=True, eq=False, repr=False)
class Tags:
    """Distinct tags in ascending order of (z, y): both (N,) uint64 residues modulo 2**61 - 1."""

    z: Array
    y: Array

    def __len__(self) -> int:
        return len(self.z)

    def __repr__(self) -> str:
        return f"Tags({len(self)})"


def tags(digest: Array, key: bytes) -> tuple[Tags, Array]:
    """The distinct tags of digests (N, 2) under a 16-byte key, and inverse (N,) with tag i of point i.

    Points of one client with equal IDs share a tag; they will share a row.
    """
    from psu.kernels import split_tags

    # AES without a mode is what is wanted here: equal digests must get equal tags.
    cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    blocks = np.frombuffer(cipher.update(digest.astype("<u8").tobytes()), "<u8").reshape(-1, 2)
    z, y = np.empty(len(blocks), np.uint64), np.empty(len(blocks), np.uint64)
    split_tags(blocks, z, y)
    order = ascending(z, y)
    z, y = z[order], y[order]
    new = np.ones(len(z), bool)
    new[1:] = (z[1:] != z[:-1]) | (y[1:] != y[:-1])
    inverse = np.empty(len(z), np.int64)
    inverse[order] = np.cumsum(new) - 1
    return Tags(z[new], y[new]), inverse


def ascending(z: Array, y: Array) -> Array:
    """The order that sorts pairs by (z, y): (N,) int64."""
    from psu import kernels

    order = np.asarray(kernels.ascending(z, y))
    return order if len(order) == len(z) else np.lexsort((y, z))
