"""What a site did in its runs, when and with what outcome: signed lines, each chained to the one before.

A line is a JSON object in canonical form: `n` counts from 0, `before` is the hash of the line before, `key`
the public identity that `signature` is of: the site's first one, or one that follows it by a line that holds
an announcement signed by both (`secfc.deploy.keys.KeyNotice`), and that no line revokes.  Nothing of data is
in it: names, terms, times, outcomes.

Found in the file alone: a line that was altered, left out in between, put elsewhere or added by whoever has
not the site's key, and half a line at the end.  Lines that are cut off at the end, and a file that the owner
of the key wrote anew, are found by what others hold of it: each consent (`secfc.deploy.consent`) says how
many lines its party's file had then, and the hash of the last (`check_heads`).  What was written since the
last consent that others hold can be cut unseen, but for results that lie beside it without the line of their
end.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from field.secrets.channels import Identity
from secfc.data.inputs import lock_file
from secfc.deploy.keys import KeyNotice
from secfc.errors import InputError, PartyId
from secfc.transport.handshake import verify

NAME = "audit.jsonl"
HASH = 32
START = bytes(HASH)
PURPOSE = b"secfc audit 1"
# What append and verification give every line.
FORM = ("n", "before", "time", "party", "by", "what", "outcome", "key", "signature")


def canonical_json(value: Mapping[str, Any]) -> bytes:
    """The one text of a JSON object: names sorted, no blanks, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def hash_line(line: bytes) -> bytes:
    """32 bytes that name a line, without its end, and so all lines up to it."""
    return hashlib.blake2b(line, digest_size=HASH, person=b"secfc audit").digest()


def read_seconds() -> str:
    """The time in UTC, to seconds, as this machine has it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def operator_name() -> str:
    """Who runs this process, as the system calls them."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user has no name
        return f"uid {os.getuid()}"


@dataclass(frozen=True)
class Head:
    """Where a chain ends: its number of lines, and the hash of the last."""

    lines: int = 0
    last: bytes = START


@dataclass(frozen=True)
class AuditLog:
    """A site's file, which only its own processes append to.  identity: signs every line."""

    path: Path
    party: PartyId
    identity: Identity

    def append(self, what: str, outcome: str, **facts: Any) -> Mapping[str, Any]:
        """Add a line, on disk when this returns: the line.  Raises InputError for what is no audit, or
        another party's of this run; OSError.

        Half a line, which a crash has left at the end, is cut off, and the new line says so (`torn`: bytes).
        """
        flags = os.O_RDWR | os.O_CREAT
        with lock_file(self.path), os.fdopen(os.open(self.path, flags, 0o600), "r+b") as file:
            data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            head = head_of(whole, self.path)
            if whole:
                self.refuse_other_party(json.loads(whole.splitlines()[-1]), facts.get("session"))
            if torn := len(data) - len(whole):
                facts["torn"] = torn
            said = facts | {
                "n": head.lines, "before": head.last.hex(), "time": read_seconds(), "party": self.party,
                "by": operator_name(), "what": what, "outcome": outcome, "key": self.identity.public.hex(),
            }  # fmt: skip
            said["signature"] = self.identity.sign(PURPOSE + canonical_json(said)).hex()
            file.seek(len(whole))
            file.truncate()
            file.write(canonical_json(said) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        return said

    def refuse_other_party(self, said: Mapping[str, Any], session: str | None) -> None:
        """Raise InputError for a line of another party in the same run: two have one folder."""
        if session is not None and said.get("session") == session and said.get("party") != self.party:
            raise InputError(
                f"{self.path} is the record of {said.get('party')!r} in this run, not of {self.party!r}: "
                "each party needs a folder of its own. Move the site file and key of one of them to another"
            )

    def entries(self) -> list[dict[str, Any]]:
        """All lines, unverified; none without a file.  Raises InputError for what is no audit; OSError."""
        return list(read_entries(self.path)) if self.path.exists() else []

    def head(self) -> Head:
        """Where the chain ends now."""
        return head_of(self.path.read_bytes(), self.path) if self.path.exists() else Head()


def head_of(data: bytes, path: Path) -> Head:
    """Where a file's chain ends.  Raises InputError where its last whole line is none."""
    lines = data[: data.rfind(b"\n") + 1].splitlines()
    if not lines:
        return Head()
    try:
        number = json.loads(lines[-1])["n"]
    except (ValueError, KeyError, TypeError):
        number = None
    if number != len(lines) - 1:
        raise InputError(
            f"{path}: its last line is not the end of a chain of {len(lines)} lines. See `secfc deploy audit "
            "verify`; keep the file for whoever asks, restore it, or move it away, and a new one begins"
        )
    return Head(len(lines), hash_line(lines[-1]))


def read_entries(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file, unverified; half a line at the end is none.  Raises InputError, OSError."""
    data = path.read_bytes()
    for number, line in enumerate(data[: data.rfind(b"\n") + 1].splitlines(), 1):
        try:
            said = json.loads(line)
            if not isinstance(said, dict) or not isinstance(said["what"], str):
                raise ValueError("no line of an audit")
        except (ValueError, KeyError, RecursionError):
            raise InputError(f"{path}, line {number}: it is no line of {NAME}. Restore the file") from None
        yield said


@dataclass(frozen=True)
class Finding:
    """What is wrong.  line: from 1; None where it concerns the whole file."""

    line: int | None
    why: str

    def __str__(self) -> str:
        return self.why if self.line is None else f"line {self.line}: {self.why}"


def verify_chain(data: bytes) -> Iterator[Finding]:
    """What is wrong with the contents of a file, by itself; nothing if every line is as its site wrote it."""
    *lines, rest = data.split(b"\n")
    if rest:
        yield Finding(
            len(lines) + 1, f"half a line of {len(rest)} bytes: the file was cut, or a process died"
        )
    before, keys = START, set[str]()
    for number, line in enumerate(lines):
        said = parse_line(line)
        if said is None:
            yield Finding(number + 1, "it is no line in canonical form: it was altered")
        else:
            if said["n"] != number or said["before"] != before.hex():
                yield Finding(
                    number + 1, "it does not follow the line before: one was altered, left out or moved"
                )
            if not is_signed(said):
                yield Finding(number + 1, "its signature is not of its words: it was altered")
            if keys and said["key"] not in keys:
                yield Finding(
                    number + 1, "another key signed it than the lines before, and none of these announced it"
                )
            keys.add(said["key"])
            if (notice := announced_key(said)) is not None and notice.key.hex() in keys:
                if notice.following is None:
                    keys.remove(notice.key.hex())
                else:
                    keys.add(notice.following.hex())
        before = hash_line(line)


def parse_line(line: bytes) -> dict[str, Any] | None:
    """A line, None for what no site writes."""
    try:
        said = json.loads(line)
        fits = isinstance(said, dict) and set(FORM) <= said.keys() and canonical_json(said) == line
    except (ValueError, RecursionError):
        return None
    return said if fits else None


def is_signed(said: Mapping[str, Any]) -> bool:
    """Whether the identity that a line names has signed it."""
    rest = {name: value for name, value in said.items() if name != "signature"}
    try:
        key, signature = bytes.fromhex(said["key"]), bytes.fromhex(said["signature"])
    except (TypeError, ValueError):
        return False
    return verify(key, signature, PURPOSE + canonical_json(rest))


def announced_key(said: Mapping[str, Any], signed: bool = True) -> KeyNotice | None:
    """What a line says of a key, signed by that key; None where it says nothing of the kind.

    signed: whether it must be; what a site decided for itself alone is not.
    """
    try:
        return KeyNotice.of(said["notice"], "", signed)
    except (KeyError, InputError):
        return None


def check_heads(data: bytes, heads: Iterable[tuple[str, Head]]) -> Iterator[Finding]:
    """What is wrong with the contents of a file, by heads of it that others hold.

    heads: who holds it, in words, and the head.
    """
    hashes = [START, *map(hash_line, data[: data.rfind(b"\n") + 1].splitlines())]
    for holder, head in heads:
        if head.lines >= len(hashes):
            yield Finding(
                None, f"{holder} holds its word that it had {head.lines} lines; it has {len(hashes) - 1}: "
                "lines at its end were cut, or it was begun anew"
            )  # fmt: skip
        elif hashes[head.lines] != head.last:
            yield Finding(
                head.lines or None, f"{holder} holds its word that the first {head.lines} lines were others: "
                "they were written anew"
            )  # fmt: skip
