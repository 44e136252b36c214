"""Every message of a union: frozen, checked when built, silent about its contents.

`sealed` bytes are encrypted and authenticated from sender to recipient, so they may pass through the
relay.  The others go to or come from the relay, over an authenticated transport.
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any, ClassVar, dataclass_transform

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from field.ring.basis import MERSENNE_61

# Every message by its tag, as far as its module is loaded; a party speaks those of its own algorithm.
TAGS: dict[int, type[Message]] = {}
# Tags of messages that are no more, and never mean something else: 1 was a Hello that was a digest,
# 128 a Greeting without a nonce, 129 a Sealed without its round; the others were one query each.
RETIRED = frozenset({1, 5, 16, 24, 51, 74, 75, 76, 78, 128, 129, 142, 143, 144, 150, 151, 152, 155, 183, 184})


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(dataclasses.field,))
class Message:
    """Base of all messages, each a frozen dataclass: its repr shows types and shapes, never contents.

    A message that travels as bytes says its tag where it is defined, `class Hello(Message, tag=26)`; a tag
    that another message has, or had, is refused there.  The first line of its docstring is what people read
    of it: who says it to whom, and what.  Paragraphs that begin with "Under" are the lines about it in the
    tables of secfc/disclosure/README.md.
    """

    tag: ClassVar[int | None] = None

    def __init_subclass__(cls, tag: int | None = None, **rest: Any) -> None:
        """Raises TypeError for a tag that is taken, was used before, or has no two bytes."""
        super().__init_subclass__(**rest)
        dataclass(frozen=True, eq=False, repr=False)(cls)
        cls.tag = tag
        if tag is None:
            return
        if not 0 < tag < 1 << 16 or tag in RETIRED:
            raise TypeError(f"{cls.__name__} has tag={tag}: take one of two bytes that was never used")
        other = TAGS.get(tag)
        # A module that is loaded again defines the same message anew.
        if other is not None and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(f"{cls.__name__} has tag={tag}, which {other.__name__} has: take another")
        TAGS[tag] = cls

    @property
    def kind(self) -> str:
        """What transcripts and reports call it: its type, or what sets messages of one type apart."""
        return type(self).__name__

    @classmethod
    def meaning(cls) -> str:
        """What it is, for people: who says it to whom, and what."""
        return (cls.__doc__ or "").strip().split("\n")[0]

    def __repr__(self) -> str:
        return _shape(self)

    @property
    def nbytes(self) -> int:
        """Bytes of the contents on a wire, without framing."""
        return _size(self)


def _shape(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}"
    if dataclasses.is_dataclass(value):
        shown = ", ".join(f"{f.name}={_shape(getattr(value, f.name))}" for f in dataclasses.fields(value))
        return f"{type(value).__name__}({shown})"
    if isinstance(value, Enum):
        return value.name
    return f"{len(value)} bytes" if isinstance(value, bytes) else type(value).__name__


@cache
def _fields(kind: Any) -> tuple[str, ...] | None:
    """Names of the fields of a dataclass; None of another type."""
    return tuple(f.name for f in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else None


# What every value of a type takes: asked of each field of each message.
_SIZES: dict[type, int] = {int: 8, float: 8, bool: 1, type(None): 0}


def _size(value: Any) -> int:
    kind: Any = type(value)
    if kind is np.ndarray:
        return int(value.nbytes)
    if (known := _SIZES.get(kind)) is not None:
        return known
    if (names := _fields(kind)) is not None:
        return sum([_size(getattr(value, name)) for name in names])
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, tuple):
        return 4 * len(value)
    return 1 if isinstance(value, Enum) else 8


def _refuse(wrong: bool, rule: str) -> None:
    if wrong:
        raise ValueError(f"malformed message: {rule}")


def _residues(values: Array, ndim: int, what: str) -> None:
    _refuse(
        not isinstance(values, np.ndarray) or values.dtype != np.uint64 or values.ndim != ndim,
        f"{what} must be a uint64 array with {ndim} axes",
    )
    _refuse(bool(values.size) and int(values.max()) >= MERSENNE_61, f"{what} must be below 2**61 - 1")


class Offer(Message, tag=64):
    """Client to all clients: its ephemeral X25519 key, signed with its identity key.

    Under "with hidden membership": client, client.  Seen: a fresh key, signed.  By deviating: a signature
    covers session and sender: another's or an old one is refused.
    """

    sender: int
    ephemeral: bytes
    signature: bytes

    def __post_init__(self) -> None:
        _refuse(self.sender < 0, "senders are numbered from 0")
        _refuse(len(self.ephemeral) != 32, "an ephemeral key has 32 bytes")
        _refuse(len(self.signature) != 64, "a signature has 64 bytes")


class KeyPacket(Message, tag=65):
    """Client to client: the group key (from client 0) and keys of the common randomness, sealed.

    Under "with hidden membership": client 0 and committee, client.  Seen: common keys, sealed.  By
    deviating: client 0: different group keys would show it whose pseudonyms are whose; clients compare
    keys first. Unequal keys of the committee make the union fail, unnamed.
    """

    sender: int
    recipient: int
    sealed: bytes

    def __post_init__(self) -> None:
        _refuse(min(self.sender, self.recipient) < 0, "parties are numbered from 0")


class ShareBlock(Message, tag=66):
    """Client to committee member: its share of one chunk of a sheet, sealed.

    Under "with hidden membership": client, member (threshold).  Seen: uniform at any `t` members, of its
    table and, from `t = 6` on, of summands of the openings' coefficients.  By deviating: spoil a table:
    the union ends without naming anybody; sizes and ranges are checked, and proof. Claim guessed IDs:
    every client can test a guess anyway.
    """

    sender: int
    recipient: int
    sheet: str
    chunk: int
    sealed: bytes

    def __post_init__(self) -> None:
        _refuse(min(self.sender, self.recipient, self.chunk) < 0, "parties and chunks count from 0")


class MaskedBlock(Message, tag=67):
    """Client to server in server mode: one chunk of its table (rows, width) under masks that sum to zero.

    Under "with hidden membership": client, server (server mode).  Seen: uniform but for the sum:
    pseudonyms, and a random number for each.  By deviating: spoil a table, or claim guessed IDs, as by
    `ShareBlock`.
    """

    sender: int
    sheet: str
    chunk: int
    values: Array

    def __post_init__(self) -> None:
        _refuse(min(self.sender, self.chunk) < 0, "parties and chunks count from 0")
        _residues(self.values, 2, "masked values")


class Turn(Message, tag=68):
    """Relay to every committee member: what the last round recovered, and who opens what is next.

    number counts openings and never repeats.  history is the digest of everything recovered so far.
    z, y: (K,) the IDs recovered in the round before; pure: (K,) uint8, bit k if its k-th cell held it alone.

    Under "with hidden membership": server, member (threshold).  Seen: tags of the union recovered so far,
    under a key that only clients have.  By deviating: the server: different words to members: openings
    add up to nothing. Invent IDs or ask again: each answer is a fresh random vector that follows from the
    union.
    """

    sheet: str
    round: int
    number: int
    quorum: tuple[int, ...]
    history: bytes
    z: Array
    y: Array
    pure: Array

    def __post_init__(self) -> None:
        _refuse(self.round < 0 or self.number < 1, "rounds count from 0 and openings from 1")
        _refuse(len(self.history) != 32, "a history has 32 bytes")
        _refuse(list(self.quorum) != sorted(set(self.quorum)), "a quorum is ascending and distinct")
        _residues(self.z, 1, "z")
        _residues(self.y, 1, "y")
        _refuse(self.pure.dtype != np.uint8 or self.pure.ndim != 1, "pure must be a vector of uint8")
        _refuse(not len(self.z) == len(self.y) == len(self.pure), "z, y and pure have one length")
        _refuse(
            bool(self.pure.size) and not 1 <= int(self.pure.min()) <= int(self.pure.max()) < 16,
            "an ID was recovered from at least one of its 4 cells",
        )


class Opening(Message, tag=69):
    """Committee member to relay: its masked summand of every active row, (A, opened) residues.

    Under "with hidden membership": member, server (threshold).  Seen: a masked summand; with
    `verify=True` other members have it too, and learn the sums that the server learns.  By deviating:
    spoil an opening: the table stalls, or the union has IDs that nobody holds, unnamed. It cannot hide an
    ID: its holder misses it. With `verify=True`: send members another summand than the server, which
    makes suspects of both.
    """

    sender: int
    sheet: str
    number: int
    values: Array

    def __post_init__(self) -> None:
        _refuse(self.sender < 0 or self.number < 1, "parties count from 0 and openings from 1")
        _residues(self.values, 2, "opened values")


class Begin(Message, tag=70):
    """Relay to every client: an attempt begins, with a table for a union of about `size`.

    Under "with hidden membership": server, client.  Seen: how large the table is.  By deviating: the
    server: a size of its choice, up to the public bound; attempts are limited, each with fresh
    randomness.
    """

    attempt: int
    size: int

    def __post_init__(self) -> None:
        _refuse(self.attempt < 0 or self.size < 0, "attempts and sizes are not negative")


class UnionTags(Message, tag=71):
    """Relay to every client: the tags of the union in ascending order, (m,) each.

    Under "with hidden membership": server, client.  Seen: the union's pseudonyms.  By deviating: the
    server: different unions: confirmations differ, and all end. Rows that nobody holds: with
    `merge=False` all end; when merging unnoticed, unless `verify=True`, by which members suspect it
    (`SuspectedParties`).
    """

    z: Array
    y: Array

    def __post_init__(self) -> None:
        _residues(self.z, 1, "z")
        _residues(self.y, 1, "y")
        _refuse(len(self.z) != len(self.y), "z and y have one length")

    @cached_property
    def digest(self) -> bytes:
        """32 bytes that clients compare."""
        chain = hashlib.blake2b(digest_size=32, person=b"psu union")
        for part in (self.z, self.y):
            chain.update(part.tobytes())
        return chain.digest()


class HeldOnce(Message, tag=73):
    """Relay to every client: a residue, which is the clients' pad if every row has one holder.

    Else it is uniform (psu.disjoint).

    Under "with hidden membership": server, client (`merge=False`).  Seen: whether every row has one
    holder.  By deviating: the server: end the run by a false one; to hide shared rows it needs the pad,
    which only clients know (2^-59). A client: hide that it shares a row, or learn whether the shared rows
    are exactly a set that it names.
    """

    word: int

    def __post_init__(self) -> None:
        _refuse(not 0 <= self.word < MERSENNE_61, "the word is a residue below 2**61 - 1")


class Confirmation(Message, tag=72):
    """Client to client: the digest of the group key it was dealt, or of the union it was told, sealed.

    Under "with hidden membership": client, client.  Seen: a digest of the group key, then of the union.
    By deviating: a false or withheld one ends the union. Names are suspicion.
    """

    sender: int
    recipient: int
    sealed: bytes

    def __post_init__(self) -> None:
        _refuse(min(self.sender, self.recipient) < 0, "parties are numbered from 0")


class EvaluationKey(Message, tag=83):
    """Evaluator of oblivious tags to everybody: its public key, for this run alone.

    Under "with hidden membership": evaluator, everybody (oblivious tags).  Seen: a public key of one run.
    By deviating: different keys: signatures and channels are bound to all keys, so the union fails before
    an ID is used.
    """

    sender: int
    public: bytes

    def __post_init__(self) -> None:
        _refuse(self.sender < 0, "parties are numbered from 0")
        _refuse(len(self.public) != 32, "a public key of tags has 32 bytes")


class Blinded(Message, tag=84):
    """Client to evaluator: one batch of as many blinded IDs as everybody asks for; sealed to a client.

    Under "with hidden membership": client, evaluator (oblivious tags).  Seen: as many uniform elements as
    the public quota, and one more, sealed to clients.  By deviating: ask for guesses: as many as the
    quota in a run, in place of tags of its own IDs. Malformed, too many or changed ones are refused, and
    proof.
    """

    sender: int
    batch: int
    content: bytes

    def __post_init__(self) -> None:
        _refuse(min(self.sender, self.batch) < 0, "parties and batches count from 0")


class Evaluated(Message, tag=85):
    """Evaluator to client: the same batch under its key, the last with a proof; sealed by a client.

    Under "with hidden membership": evaluator, client (oblivious tags).  Seen: the batch times its key,
    sealed by clients; a proof.  By deviating: another key for one client, to know its pseudonyms apart:
    the proof or the client's check fails (but for 2^-252) and names it. Silence ends the run.
    """

    sender: int
    batch: int
    content: bytes

    def __post_init__(self) -> None:
        _refuse(min(self.sender, self.batch) < 0, "parties and batches count from 0")
