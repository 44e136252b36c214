"""A party's journal: a file that holds its secret seed and all it was told, so that it can resume.

    file     header record, then records by turns: what the party sends, what it took in answer
    record   kind (1 byte)  size of the contents (8)  check (8)  checksum (16)  contents
    header   format version (1)  digest of the run (32)  secret seed (32)  the party's name in UTF-8
    sent     digest of one exchange: its round, and every message with its recipient (16)
    took     messages (4), for each: length of the sender's name (4), size (8), round (8, signed); then
             for each: the sender's name, the message as `secfc.transport.wire` encodes it
    done     nothing: after what it took last, the party had its result
    over     the class of the error that ended the run; nothing but a header without seed is before it

Little-endian.  `checksum` is over the previous record's, so records cannot change places or vanish from the
middle; `check` is over kind, size and that same one, so a wrong size is noticed before it is believed.  All
are XXH3: they find accidents, at the speed of memory, and stop nobody who can write the file.

A process that dies while it writes leaves a torn last record, which is dropped: nothing followed from it
yet.  Any other fault is refused, since to go on from an earlier state than the others have seen could put
two contents under one mask or key.  For the same reason a journal must never be replaced by an older copy
of itself, nor copied to resume twice; while one process has it open, others are refused.

Secret: whoever reads the file knows the party's shares, masks and keys.  It is created with mode 0600, in a
directory that is created with mode 0700.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import xxhash
from filelock import lock_descriptor

from field.secrets.coins import StoredCoins, SystemCoins
from secfc.errors import JournalError
from secfc.roles.exchange import Inbox, PartyId, blame_error
from secfc.transport import wire

VERSION = 2
HEADER, SENT, TOOK, OVER, DONE = 1, 2, 3, 4, 5
FRAME, DIGEST, SUM = 33, 32, 16
START = b"secfc journal".ljust(SUM, b"\0")  # what the header is chained to

# Of files that no other program of this process inherits, and no link stands for; as far as a system knows.
SAFELY = sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_BINARY"))

Part = bytes | memoryview


def checksum(*parts: Part) -> bytes:
    """16 bytes that differ wherever the bytes in sequence do, but for accidents of probability 2**-128."""
    state = xxhash.xxh3_128()
    for part in parts:
        state.update(part)
    return state.digest()


class Journal:
    """One party's journal, open and locked.  Use `Journal.open`, and close it.

    taken: the last round that was taken from each sender, by all that is on file.
    created: whether there was no file before.  done: whether the party had its result, so that all that leads
    to it is on file.
    """

    def __init__(self, path: Path, file: BinaryIO, party: PartyId, run: bytes) -> None:
        self.path, self._file, self.party = path, file, party
        self.taken: dict[PartyId, int] = {}
        self._end, self._chain, self._last = 0, START, HEADER
        self._before = self._end, self._chain  # the same before the last record
        self._seed = self._scan(run)
        self._at = self._first

    def __repr__(self) -> str:
        return f"Journal({str(self.path)!r}, {self.party!r}, {self._end} bytes)"

    @classmethod
    def open(cls, path: Path, party: PartyId, run: bytes) -> Journal:
        """The journal of this party at this path, begun if there is none.

        run: 32 bytes that name the parameters of the run, the same whenever it resumes.

        Raises JournalError: it is in use, damaged, or of another party, run or version; OSError.
        """
        if len(run) != DIGEST:
            raise ValueError(f"run has {len(run)} bytes: the digest of a run has {DIGEST}")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | SAFELY
        file = os.fdopen(os.open(path, flags, 0o600), "r+b")
        try:
            if not lock_descriptor(file.fileno(), blocking=False):
                raise JournalError(f"{path} is in use: let the other process finish, or end it")
            if hasattr(os, "fchmod"):  # elsewhere a file is its owner's by where it is
                os.fchmod(file.fileno(), 0o600)
            return cls(path, file, party, run)
        except BaseException:
            file.close()
            raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and let others open it."""
        with suppress(OSError):  # what a full disk refused to take is a torn record
            self._file.close()

    def coins(self) -> StoredCoins:
        """The party's coins from their beginning: the same whenever the journal is opened."""
        return StoredCoins(self._seed)

    @property
    def name(self) -> bytes:
        """16 bytes that no other journal has, and that say nothing of the seed that they are made of."""
        return hashlib.blake2b(self._seed, digest_size=16, person=b"secfc journal").digest()

    @property
    def fresh(self) -> bool:
        """Whether nothing was written yet but the header."""
        return self._end == self._first

    # --- reading

    def next_sent(self) -> bytes | None:
        """The digest of the next exchange on file, None when the party was never that far."""
        return self._read() if self._at < self._end else None

    def next_took(self) -> Inbox | None:
        """What the party took next, None at the end of the file."""
        return self._inbox() if self._at < self._end else None

    def _read(self) -> bytes:
        self._file.seek(self._at)
        size = int.from_bytes(self._file.read(FRAME)[1:9], "little")
        self._at += FRAME + size
        return self._file.read(size)

    def _inbox(self) -> Inbox:
        self._file.seek(self._at)
        frame = self._file.read(FRAME)
        self._at += FRAME + int.from_bytes(frame[1:9], "little")
        messages, rounds = {}, {}
        for length, size, number in _table(self._file):
            sender = self._file.read(length).decode()
            messages[sender], rounds[sender] = wire.decode(self._file.read(size)), number
        return Inbox(messages, rounds)

    def _scan(self, run: bytes) -> bytes:
        """Check every record, cut off a torn last one, and return the seed."""
        self._size = os.fstat(self._file.fileno()).st_size
        header = self._check(HEADER)
        self.created = header is None
        if header is None:
            if self._size:
                raise self._damaged()
            seed = SystemCoins().bytes(DIGEST)
            self._write(HEADER, [bytes([VERSION]), run, seed, self.party.encode()])
            self.sync()
            self._sync_directory()
        else:
            seed = self._identify(header, run)
        self._first = self._end
        self._refuse_if_over()
        self.done = False
        while not self.done and (contents := self._check(TOOK if self._last == SENT else SENT)) is not None:
            if self._last == TOOK:
                self._note(contents)
                self.done = self._next_is(DONE) and self._check(DONE) is not None
        self._file.truncate(self._end)
        return seed

    def _check(self, due: int) -> bytes | None:
        """The contents of the next record, None if there is none or only the beginning of one."""
        left = self._size - self._end
        self._file.seek(self._end)
        frame = self._file.read(FRAME)
        kind, size = frame[:1], frame[1:9]
        if len(frame) == FRAME and frame[9:17] != checksum(kind, size, self._chain)[:8]:
            if any(frame) or any(any(piece) for piece in iter(lambda: self._file.read(1 << 20), b"")):
                raise self._damaged()
            return None  # the file grew, and its end was never written
        length = int.from_bytes(size, "little")
        if len(frame) < FRAME or left < FRAME + length:
            return None
        contents = self._file.read(length)
        found = checksum(kind, size, self._chain, contents)
        if frame[17:] != found:
            if left > FRAME + length:
                raise self._damaged()
            return None
        if kind[0] != due:
            raise self._damaged()
        self._before = self._end, self._chain
        self._end += FRAME + length
        self._chain, self._last = found, due
        return contents

    def _next_is(self, kind: int) -> bool:
        self._file.seek(self._end)
        return self._file.read(1) == bytes([kind])

    def _refuse_if_over(self) -> None:
        """Raises JournalError where the run ended with blame."""
        if self._next_is(OVER) and (why := self._check(OVER)) is not None:
            raise JournalError(
                f"{self.path} is of a run that ended with {why.decode()}, so its keys are gone and it cannot "
                "go on: mend the cause, remove the journals, or name another directory, and start again"
            )

    def _identify(self, header: bytes, run: bytes) -> bytes:
        """The seed in a header of the right version, run and party."""
        version, found, seed, party = header[0], header[1:33], header[33:65], header[65:].decode()
        if version != VERSION:
            raise JournalError(
                f"{self.path} is a journal of version {version}, this software writes version {VERSION}: "
                "resume with the software that began the run, or start again in another directory"
            )
        if party != self.party:
            raise JournalError(
                f"{self.path} is the journal of {party!r}, not of {self.party!r}: name another"
            )
        if found != run:
            raise JournalError(
                f"{self.path} belongs to a run with other parameters or data: repeat those of that run to "
                "resume it, or start this one in another directory"
            )
        return seed

    def _note(self, contents: bytes) -> None:
        file = io.BytesIO(contents)
        for length, size, number in _table(file):
            self.taken[file.read(length).decode()] = number
            file.seek(size, io.SEEK_CUR)

    def _damaged(self) -> JournalError:
        return JournalError(
            f"{self.path} is no journal, or damaged at byte {self._end}: it cannot be resumed safely. Start "
            "again in another directory"
        )

    # --- writing

    def end(self, why: str) -> None:
        """Forget the seed and all that was told: nobody resumes a run that ended with this class of error.

        In place of the file stands one that says so; it is there whole, or the old one is.
        """
        fresh = self.path.with_name(self.path.name + ".over")
        self._file.seek(FRAME + 1)
        run = self._file.read(DIGEST)
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | SAFELY
        with self._file as old, os.fdopen(os.open(fresh, flags, 0o600), "r+b") as self._file:
            self._end, self._chain, self._size = 0, START, 0
            self._write(HEADER, [bytes([VERSION]), run, bytes(DIGEST), self.party.encode()])
            self._write(OVER, [why.encode()])
            self.sync()
            fresh.replace(self.path)
            self._sync_directory()
            old.seek(0)
            old.truncate()  # of other names of the same file nothing is left either

    def discard(self) -> None:
        """Forget the seed and all that was told, and delete the file: nothing was said under its keys."""
        self.end("nothing")
        self.path.unlink()

    def write_sent(self, digest: bytes) -> None:
        """Put on file, and on the disk itself with all before it, what is about to be sent."""
        self._write(SENT, [digest])
        self.sync()

    def write_took(self, inbox: Inbox) -> None:
        """Put on file what was taken.

        It survives the end of this process at once, and a loss of power from the next `write_sent` on, before
        which nothing that follows from it leaves.  Raises FaultyParty for what is no message.
        """
        table: list[Part] = [len(inbox).to_bytes(4, "little")]
        bodies: list[Part] = []
        for sender, message in inbox.items():
            name, parts = sender.encode(), _encoded(sender, message)
            table.append(len(name).to_bytes(4, "little") + sum(map(len, parts)).to_bytes(8, "little"))
            table.append(inbox.rounds[sender].to_bytes(8, "little", signed=True))
            bodies += [name, *parts]
        self._write(TOOK, [*table, *bodies])

    def write_done(self) -> None:
        """Put on file that the party has its result, and wait until all is on the disk itself."""
        if not self.done:
            self._write(DONE, [])
            self.done = True
        self.sync()

    def forget_took(self) -> None:
        """Take the last record off, if it is what the party took: then nothing followed from it."""
        if self._last == TOOK and self._at == self._end:
            self._end, self._chain = self._before
            self._at, self._last = self._end, SENT
            self._file.truncate(self._end)

    def _write(self, kind: int, parts: list[Part]) -> None:
        frame = bytes([kind]) + sum(map(len, parts)).to_bytes(8, "little")
        check = checksum(frame, self._chain)[:8]
        self._before = self._end, self._chain
        self._chain, self._last = checksum(frame, self._chain, *parts), kind
        self._file.seek(self._end)
        for part in (frame, check, self._chain, *parts):
            self._file.write(part)
        self._file.flush()
        self._at = self._end = self._file.tell()

    def _sync_directory(self) -> None:
        directory = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def sync(self) -> None:
        """Wait until all that is on file is on the disk itself."""
        getattr(os, "fdatasync", os.fsync)(self._file.fileno())


def _table(file: BinaryIO) -> list[tuple[int, int, int]]:
    """Length of the name, size of the message, and round, of all messages of a record."""
    entries = [file.read(20) for _ in range(int.from_bytes(file.read(4), "little"))]
    little = int.from_bytes
    return [
        (little(e[:4], "little"), little(e[4:12], "little"), little(e[12:], "little", signed=True))
        for e in entries
    ]


def _encoded(sender: PartyId, message: object) -> list[Part]:
    try:
        return list(wire.buffers(message))
    except wire.WireError as error:
        raise blame_error(sender, f"sent bytes that are no message ({error})") from error


def exchange_digest(number: int, send: Mapping[PartyId, object]) -> bytes:
    """16 bytes that name what an exchange sends: the round, and each message with its recipient."""
    known: dict[int, bytes] = {}  # one message often goes to everybody
    parts = [number.to_bytes(8, "little", signed=True)]
    for recipient, message in sorted(send.items(), key=lambda item: item[0]):
        if id(message) not in known:
            known[id(message)] = checksum(*wire.buffers(message))
        parts += [checksum(recipient.encode()), known[id(message)]]
    return checksum(*parts)


def parameters_fingerprint(*parts: object) -> bytes:
    """32 bytes that name the parameters of a run: of values whose repr says all and never changes."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=DIGEST, person=b"secfc run").digest()
