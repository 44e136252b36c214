"""Records of a journal (`secfc.transport.journal`): how they are framed, listed, packed and copied."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import xxhash

from secfc.roles.exchange import SERVER, PartyId, Settled
from secfc.transport import wire

FRAME, SUM = 33, 16

Part = bytes | memoryview
# Of a message: its sender, its round, its parts, and what is set beside its size.
Entry = tuple[PartyId, int, list[Part], int]
# Of a request, and of labels, bytes from which later ones differ.
Known = tuple[bytes, bytes]


def checksum(*parts: Part) -> bytes:
    """16 bytes that differ wherever the bytes in sequence do, but for accidents of probability 2**-128."""
    state = xxhash.xxh3_128()
    for part in parts:
        state.update(part)
    return state.digest()


@dataclass(frozen=True, repr=False)
class Place:
    """Between two records: bytes before it, and the checksum of the record before."""

    at: int
    chain: bytes


@dataclass(frozen=True, eq=False, repr=False)
class SettledStep:
    """What stands between two places of a journal, but for what the party sent last: `sends`, its digest.

    over: before that, behind all else.  came: what came of it.  since: the round of the server's first word
    in it.  sent, taken: the last round that was sent to each peer, and taken from each sender, until then.
    """

    begin: Place
    over: Place
    end: Place
    came: Settled
    since: int
    sent: Mapping[PartyId, int]
    taken: Mapping[PartyId, int]
    sends: bytes

    def has(self, number: int) -> bool:
        """Whether the server's word of this round was taken in it."""
        return self.since <= number <= self.taken.get(SERVER, -1)


def frame_of(kind: int, parts: Sequence[Part], before: bytes) -> tuple[bytes, bytes]:
    """The frame of a record, and its checksum.  before: that of the record before."""
    frame = bytes([kind]) + sum(map(len, parts)).to_bytes(8, "little")
    chain = checksum(frame, before, *parts)
    return frame + checksum(frame, before)[:8] + chain, chain


class RecordCopy:
    """Records from one file to another, of which some are replaced: what is chained to what, and is where.

    begin: the place of the first of them.  moved: where places of the one file are in the other.  here: the
    end of the latter, and before: its last record; last: of which kind that is.  state: a checksum of all.
    """

    def __init__(self, source: BinaryIO, target: BinaryIO, begin: Place) -> None:
        self.source, self.target, self.at = source, target, begin.at
        self.here = self.before = begin
        self.last, self.moved, self.state = 0, {begin.at: begin}, xxhash.xxh3_128()
        self._put(begin.at.to_bytes(8, "little"), begin.chain)

    def _put(self, *parts: Part) -> None:
        for part in parts:
            self.state.update(part)
            self.target.write(part)

    def put_record(self, kind: int, *parts: Part) -> None:
        """Write a record."""
        frame, chain = frame_of(kind, parts, self.here.chain)
        self._put(frame, *parts)
        self.before, self.last = self.here, kind
        self.here = Place(self.here.at + FRAME + sum(map(len, parts)), chain)

    def skip_to(self, end: int) -> None:
        """Leave records out up to there, in place of which others were written."""
        self.at, self.moved[end] = end, self.here

    def copy_until(self, end: int) -> None:
        """Copy the records up to there."""
        while self.at < end:
            self.source.seek(self.at)
            frame = self.source.read(FRAME)
            length = int.from_bytes(frame[1:9], "little")
            self.put_record(frame[0], self.source.read(length))
            self.skip_to(self.at + FRAME + length)


def pack_outcome(came: Settled, known: Known) -> tuple[bytes, Known]:
    """What came of a request, beside request and labels that are known; and those that are known then."""
    labels = b"" if came.opened is None else came.opened.astype("<i4").tobytes()
    plain = wire.encode(came.request), labels
    parts = _differing(plain, known)
    numbers = np.array([*came.spent, len(parts[0])], "<i8").tobytes()
    return zlib.compress(b"".join((len(came.spent).to_bytes(4, "little"), numbers, *parts)), 1), plain


def unpack_outcome(data: bytes, known: Known) -> tuple[Settled, Known]:
    """What came of a request, from what `pack_outcome` made beside the same known ones."""
    plain = zlib.decompress(data)
    count = int.from_bytes(plain[:4], "little")
    *spent, size = np.frombuffer(plain, "<i8", count + 1, offset=4).tolist()
    begin = 4 + 8 * (count + 1)
    request, labels = known = _differing((plain[begin : begin + size], plain[begin + size :]), known)
    opened = np.frombuffer(labels, "<i4").astype(np.int32) if labels else None
    return Settled(wire.decode(request), opened, tuple(spent)), known


def listed_messages(entries: Sequence[Entry]) -> list[Part]:
    """Senders, rounds and contents as `message_table` reads them, each with what is set beside its size."""
    table: list[Part] = [len(entries).to_bytes(4, "little")]
    bodies: list[Part] = []
    for sender, number, parts, flag in entries:
        size, name = sum(map(len, parts)) | flag, sender.encode()
        table.append(len(name).to_bytes(4, "little") + size.to_bytes(8, "little"))
        table.append(number.to_bytes(8, "little", signed=True))
        bodies += [name, *parts]
    return [*table, *bodies]


def message_table(file: BinaryIO) -> list[tuple[int, int, int]]:
    """Length of the name, size of the message, and round, of all messages of a record."""
    entries = [file.read(20) for _ in range(int.from_bytes(file.read(4), "little"))]
    little = int.from_bytes
    return [
        (little(e[:4], "little"), little(e[4:12], "little"), little(e[12:], "little", signed=True))
        for e in entries
    ]


def _differing(parts: tuple[bytes, bytes], known: Known) -> tuple[bytes, bytes]:
    """Where these differ from known ones that are as long; the same again gives them back."""
    a, b = (
        (np.frombuffer(part, np.uint8) ^ np.frombuffer(before, np.uint8)).tobytes()
        if len(part) == len(before)
        else part
        for part, before in zip(parts, known, strict=True)
    )
    return a, b
