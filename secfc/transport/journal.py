"""A party's journal: a file that holds its secret seed and all it was told, so that it can resume.

    file     header record, then records by turns: what the party sends, what it took in answer
    record   kind (1 byte)  size of the contents (8)  check (8)  checksum (16)  contents
    header   format version (1)  digest of the run (32)  secret seed (32)  the party's name in UTF-8
    sent     digest of one exchange: its round, and every message with its recipient (16)
    took     messages (4), for each: length of the sender's name (4), size (8), round (8, signed); then
             for each: the sender's name, the message as `secfc.transport.wire` encodes it; where the highest
             bit of its size is set, a digest (32) in place of a message that its sender says again
    settled  in place of all that was taken for a request, and sent, once it is over for everybody: names and
             rounds as above, of all senders and without messages; then deflated: how many numbers (4), they
             (8 each, signed), size of the request (8), the request and the labels that came of it (int32),
             both as what differs from those of the settled record before where they are as long
    outcome  before what is sent next, what came of a request that is over here: how many bytes before this
             record its first one is (8), the round of the server's first word in it (8, signed), names and
             rounds of what was sent last to each peer, those of what was taken last from each, and the rest
             as of a settled one, whole
    done     after what it took last, the party had its result: messages as above that were left out before,
             of requests without outcome, so that the file alone leads to the result
    over     the class of the error that ended the run; nothing but a header without seed is before it

Little-endian.  `checksum` is over the previous record's, so records cannot change places or vanish from the
middle; `check` is over kind, size and that same one, so a wrong size is noticed before it is believed.  All
are XXH3: they find accidents, at the speed of memory, and stop nobody who can write the file.  `digest` is
BLAKE2b: whoever says a message again may have chosen both.

A process that dies while it writes leaves a torn last record, which is dropped: nothing followed from it
yet.  Any other fault is refused, since to go on from an earlier state than the others have seen could put
two contents under one mask or key.  For the same reason a journal must never be replaced by an older copy
of itself, nor copied to resume twice: over a network a peer that took more than the file says was sent ends
that (`secfc.transport.network`).  While one process has it open, others are refused.

What is settled takes its place by way of a file beside the journal: the place (8), the checksum before it
(16), all records from there on, and a checksum of these (16).  Once that is on the disk the journal is cut
and they are put behind it, by whoever opens it next if not by this process; until then nothing has changed.

Secret: whoever reads the file knows the party's shares, masks and keys.  It is created with mode 0600, in a
directory that is created with mode 0700.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import xxhash
from filelock import lock_descriptor

from field.secrets.coins import StoredCoins, SystemCoins
from secfc.errors import Indispensable, JournalError
from secfc.roles.exchange import END, SERVER, Inbox, PartyId, Settled, blame_error
from secfc.transport import wire
from secfc.transport.records import (
    FRAME,
    SUM,
    Entry,
    Part,
    Place,
    RecordCopy,
    SettledStep,
    checksum,
    frame_of,
    listed_messages,
    message_table,
    pack_outcome,
    unpack_outcome,
)

VERSION = 5
HEADER, SENT, TOOK, OVER, DONE, SETTLED, OUTCOME = 1, 2, 3, 4, 5, 6, 7
DIGEST = 32
# Of a size: the message is left out.  Bytes of a message that is worth that.
LEFT_OUT, LARGE = 1 << 63, 1 << 10
START = b"secfc journal".ljust(SUM, b"\0")  # what the header is chained to

# Of files that no other program of this process inherits, and no link stands for; as far as a system knows.
SAFELY = sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_BINARY"))

OTHER_PARTY = "is the journal of"
OTHER_TERMS = "belongs to a run with other parameters or data"


def word_digest(parts: Sequence[Part]) -> bytes:
    """32 bytes that nobody can find two messages for, whoever chose them."""
    state = hashlib.blake2b(digest_size=DIGEST, person=b"secfc word")
    for part in parts:
        state.update(part)
    return state.digest()


class Journal:
    """One party's journal, open and locked.  Use `Journal.open`, and close it.

    taken: the last round that was taken from each sender, by all that is on file.
    created: whether there was no file before.  done: whether the party had its result, so that all that leads
    to it is on file.  left_out: of what was read last, by sender the digest of a message that is left out.
    missing: all of the server's messages that are left out, by round; None until it has said one again, and
    once nothing but the words of peers may need it.
    over: steps that have an outcome on file, by the bytes before them, until they are settled.
    """

    def __init__(self, path: Path, file: BinaryIO, party: PartyId, run: bytes) -> None:
        self.path, self._file, self.party = path, file, party
        self.taken: dict[PartyId, int] = {}
        self.left_out: dict[PartyId, bytes] = {}
        self.missing: dict[int, Any] = {}
        self._added: dict[int, tuple[int, int]] = {}  # where they are, and their size, once there is a result
        self.over: dict[int, SettledStep] = {}
        self._end, self._chain, self._last = 0, START, HEADER
        self._before = self._end, self._chain  # the same before the last record
        self._known = b"", b""  # request and labels of the settled record that was read or written last
        self._replace_settled()
        self._seed = self._scan(run)
        self._at, self._read_chain = self._first, self._first_chain

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
                frame = file.read(FRAME)
                _refuse_other_party(path, file.read(int.from_bytes(frame[1:9], "little") & 0xFFFF), party)
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
        """What the party took next, None at the end of the file; what came of a request that is settled
        stands there as the server's."""
        return self._inbox() if self._at < self._end else None

    @property
    def at_end(self) -> bool:
        """Whether nothing is left to be read."""
        return self._at >= self._end

    @property
    def next_place(self) -> Place:
        """Where the next record is read, or written."""
        return Place(self._at, self._read_chain)

    def skip_step(self, step: SettledStep) -> Inbox:
        """What came of a step that begins here, in place of all that was taken in it."""
        self._at, self._read_chain = step.over.at, step.over.chain
        return Inbox({SERVER: step.came}, step.taken)

    def skip_outcome(self) -> bool:
        """Whether an outcome is read next, which is passed over then."""
        self._file.seek(self._at)
        found = self._at < self._end and self._file.read(1) == bytes([OUTCOME])
        if found:
            self._frame()
        return found

    def _frame(self) -> tuple[int, int]:
        """Kind and size of the next record, the contents of which are read next."""
        self._file.seek(self._at)
        frame = self._file.read(FRAME)
        size = int.from_bytes(frame[1:9], "little")
        self._at, self._read_chain = self._at + FRAME + size, frame[17:]
        return frame[0], size

    def _read(self) -> bytes:
        return self._file.read(self._frame()[1])

    def _inbox(self) -> Inbox:
        kind, _ = self._frame()
        messages: dict[PartyId, object] = {}
        rounds = {}
        self.left_out = {}
        for length, size, number in message_table(self._file):
            sender = self._file.read(length).decode()
            rounds[sender] = number
            if size & LEFT_OUT:
                messages[sender] = self._message_added(number, sender, self._file.read(DIGEST))
            elif kind == TOOK:
                messages[sender] = wire.decode(self._file.read(size))
        if kind == SETTLED:
            rest = self._file.read(self._at - self._file.tell())
            messages[SERVER], self._known = unpack_outcome(rest, self._known)
        return Inbox(messages, rounds)

    def _message_added(self, number: int, sender: PartyId, digest: bytes) -> object:
        """A message that was left out, as it was put on file in the end; None, and noted, if it was not."""
        if number not in self._added:
            self.left_out[sender] = digest
            return None
        here, (at, size) = self._file.tell(), self._added[number]
        self._file.seek(at)
        message = wire.decode(self._file.read(size))
        self._file.seek(here)
        return message

    @property
    def again(self) -> Mapping[PartyId, int]:
        """The last round that the server may forget, where messages of later ones are left out here."""
        return {SERVER: min(self.missing) - 1} if self.missing else {}

    def take_again(self, inbox: Inbox, came: Mapping[PartyId, Any]) -> Mapping[PartyId, Any]:
        """What was taken, with what was left out of it and has come again; or the word that a peer ended.

        Raises JournalError where something else came than before, Indispensable where nothing did.
        """
        if isinstance(came, Inbox) and END in came.rounds.values():
            return came  # with what came beside it, as no driver says it twice
        for sender, digest in self.left_out.items():
            number = inbox.rounds[sender]
            if not isinstance(came, Inbox) or sender not in came:
                raise Indispensable(sender, "it has to say again what this party's journal does not hold")
            if word_digest(_encoded(sender, came[sender])) != digest:
                raise JournalError(
                    f"{sender} does not say again what it said in round {number}, as {self.path} has it: its "
                    f"journal is another. Put that back at {sender}, and the same command goes on; or end "
                    "this run at all parties, and start again in another directory"
                )
            inbox[sender] = self.missing[number] = came[sender]
        return inbox

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
        self._first, self._first_chain = self._end, self._chain
        self._refuse_if_over()
        self.done = False
        places, open_step = {self._end: self._chain}, b""
        while not self.done and (contents := self._check(*self._due)) is not None:
            places[self._end] = self._chain
            if self._last == OUTCOME:
                open_step = contents
            elif self._last == SENT:
                if open_step:
                    self._note_over(open_step, places, contents)
                open_step = b""
            else:
                self._note(contents)
                self._scan_done()
        self._file.truncate(self._end)
        return seed

    @property
    def _due(self) -> tuple[int, ...]:
        after = {SENT: (TOOK, SETTLED), TOOK: (SENT, OUTCOME)}
        return after.get(self._last, (SENT,))

    def _check(self, *due: int) -> bytes | None:
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
        if kind[0] not in due:
            raise self._damaged()
        self._before = self._end, self._chain
        self._end += FRAME + length
        self._chain, self._last = found, kind[0]
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
        version, found, seed = header[0], header[1:33], header[33:65]
        if version != VERSION:
            raise JournalError(
                f"{self.path} is a journal of version {version}, this software writes version {VERSION}: "
                "resume with the software that began the run, or start again in another directory"
            )
        _refuse_other_party(self.path, header, self.party)
        if found != run:
            raise JournalError(
                f"{self.path} {OTHER_TERMS}: repeat those of that run to "
                "resume it, or start this one in another directory"
            )
        return seed

    def _note(self, contents: bytes) -> None:
        file = io.BytesIO(contents)
        for length, size, number in message_table(file):
            self.taken[file.read(length).decode()] = number
            if size & LEFT_OUT:
                self.missing[number] = None
            file.seek(DIGEST if size & LEFT_OUT else size, io.SEEK_CUR)

    def _note_over(self, outcome: bytes, places: Mapping[int, bytes], sends: bytes) -> None:
        """A step whose outcome is on file, and what was sent after it."""
        file, over = io.BytesIO(outcome), Place(*self._before)
        begin = over.at - FRAME - len(outcome) - int.from_bytes(file.read(8), "little")
        since = int.from_bytes(file.read(8), "little", signed=True)
        sent, taken = (
            {file.read(length).decode(): number for length, _, number in message_table(file)}
            for _ in range(2)
        )
        came, _ = unpack_outcome(file.read(), (b"", b""))
        first, end = Place(begin, places[begin]), Place(self._end, self._chain)
        self.over[begin] = SettledStep(first, over, end, came, since, sent, taken, sends)

    def _scan_done(self) -> None:
        """Whether the party had its result then, and where what had been left out stands."""
        begin = self._end + FRAME
        if not self._next_is(DONE) or (contents := self._check(DONE)) is None:
            return
        self.done, file = True, io.BytesIO(contents)
        for length, size, number in message_table(file):
            self._added[number] = begin + file.tell() + length, size
            self.missing.pop(number, None)
            file.seek(length + size, io.SEEK_CUR)

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

    def write_took(self, inbox: Inbox, left_out: Collection[PartyId] = ()) -> None:
        """Put on file what was taken; of what is large, from some, its digest.

        It survives the end of this process at once, and a loss of power from the next `write_sent` on, before
        which nothing that follows from it leaves.  Raises FaultyParty for what is no message.
        """
        entries = []
        for sender, message in inbox.items():
            parts, flag = _encoded(sender, message), 0
            if sender in left_out and sum(map(len, parts)) > LARGE:
                self.missing[inbox.rounds[sender]] = message
                parts, flag = [word_digest(parts)], LEFT_OUT
            entries.append((sender, inbox.rounds[sender], parts, flag))
        self._write(TOOK, listed_messages(entries))

    def write_outcome(self, begin: Place, came: Settled, since: int, sent: Any, taken: Any) -> None:
        """Put on file what came of a step that begins there and is over here: see `SettledStep`.

        It is on the disk itself with what is sent next.
        """
        rounds: list[list[Entry]] = [[(p, r, [], 0) for p, r in said.items()] for said in (sent, taken)]
        head = (self._end - begin.at).to_bytes(8, "little") + since.to_bytes(8, "little", signed=True)
        packed = pack_outcome(came, (b"", b""))[0]
        self._write(OUTCOME, [head, *(part for said in rounds for part in listed_messages(said)), packed])

    def note_over(self, step: SettledStep) -> None:
        """This step has its outcome on file: the party needs none of its words for its own sake."""
        self.over[step.begin.at] = step
        for number in filter(step.has, self.missing):
            self.missing[number] = None

    def write_done(self) -> None:
        """Put on file that the party has its result, and wait until all is on the disk itself."""
        if not self.done:
            kept: list[Entry] = [
                (SERVER, number, _encoded(SERVER, one), 0)
                for number, one in self.missing.items()
                if not any(step.has(number) for step in self.over.values())
            ]
            self._write(DONE, listed_messages(kept))
            self.done = True
        self.sync()

    def settle_steps(self, steps: Sequence[SettledStep]) -> dict[int, Place]:
        """Keep of these steps, in their order, what came of them alone.

        Returns where each place behind them is now, by the bytes that were before it.

        A crash at any time leaves the file as it was, or as it shall be.
        """
        begin = steps[0].begin
        self.missing = {
            number: message
            for number, message in self.missing.items()
            if not any(step.has(number) for step in steps)
        }
        with self._beside(os.O_CREAT | os.O_TRUNC) as file:
            copy = RecordCopy(self._file, file, begin)
            for step in steps:
                copy.copy_until(step.begin.at)
                names: list[Entry] = [(sender, number, [], 0) for sender, number in step.taken.items()]
                packed, self._known = pack_outcome(step.came, self._known)
                copy.put_record(SETTLED, *listed_messages(names), packed)
                copy.put_record(SENT, step.sends)
                copy.skip_to(step.end.at)
            copy.copy_until(self._end)
            moved, here = copy.moved, copy.here
            file.write(copy.state.digest())
            file.flush()
            self.sync(file)
        self._sync_directory()
        self._replace_settled()
        self._before, self._last = (copy.before.at, copy.before.chain), copy.last
        self._at = self._end = here.at
        self._chain = self._read_chain = here.chain
        for step in steps:
            self.over.pop(step.begin.at, None)
        self.over = {
            moved[at].at: replace(step, begin=moved[at], over=moved[step.over.at], end=moved[step.end.at])
            for at, step in self.over.items()
        }
        return moved

    def _beside(self, more: int = 0) -> BinaryIO:
        path = settled_path(self.path)
        return os.fdopen(os.open(path, os.O_RDWR | more | SAFELY, 0o600), "r+b")

    def _replace_settled(self) -> None:
        """Put what stands beside the file into it, if that is whole."""
        try:
            file = self._beside()
        except FileNotFoundError:
            return
        with file:
            end = os.fstat(file.fileno()).st_size - SUM
            state = xxhash.xxh3_128()
            for piece in _pieces(file, 0, end):
                state.update(piece)
            if end >= 8 + SUM and file.read() == state.digest():
                file.seek(0)
                at = int.from_bytes(file.read(8), "little")
                if at <= os.fstat(self._file.fileno()).st_size:  # else it is of another file, which is gone
                    self._file.truncate(at)
                    self._file.seek(at)
                    for piece in _pieces(file, 8 + SUM, end):
                        self._file.write(piece)
                    self._file.flush()
                    self.sync()
        settled_path(self.path).unlink()
        self._sync_directory()

    def forget_took(self) -> None:
        """Take the last record off, if it is what the party took: then nothing followed from it."""
        if self._last == TOOK and self._at == self._end:
            self._end, self._chain = self._before
            self._at, self._read_chain, self._last = self._end, self._chain, SENT
            self._file.truncate(self._end)

    def _write(self, kind: int, parts: list[Part]) -> None:
        self._before = self._end, self._chain
        frame, self._chain = frame_of(kind, parts, self._chain)
        self._last, self._read_chain = kind, self._chain
        self._file.seek(self._end)
        for part in (frame, *parts):
            self._file.write(part)
        self._file.flush()
        self._at = self._end = self._file.tell()

    def _sync_directory(self) -> None:
        directory = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def sync(self, file: BinaryIO | None = None) -> None:
        """Wait until all that is on file, or in another file, is on the disk itself."""
        getattr(os, "fdatasync", os.fsync)((file or self._file).fileno())


def settled_path(journal: Path) -> Path:
    """The file beside a journal that is there while what is settled takes its place."""
    return journal.with_name(f".{journal.name}.tmp")


def _pieces(file: BinaryIO, begin: int, end: int) -> Iterator[bytes]:
    """The bytes of a file from one to another, a MiB at a time."""
    file.seek(begin)
    while begin < end:
        piece = file.read(min(1 << 20, end - begin))
        if not piece:
            return
        begin += len(piece)
        yield piece


def _encoded(sender: PartyId, message: object) -> list[Part]:
    try:
        return list(wire.buffers(message))
    except wire.WireError as error:
        raise blame_error(sender, f"sent bytes that are no message ({error})") from error


def _refuse_other_party(path: Path, header: bytes, party: PartyId) -> None:
    """Raise JournalError where a header, or as much of it as there is yet, is another party's."""
    found = header[65:].decode(errors="replace")
    if found not in ("", party):
        raise JournalError(
            f"{path} {OTHER_PARTY} {found!r}, not of {party!r}: each party needs a folder of its own"
        )


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
