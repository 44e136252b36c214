"""A site's keys: in files that nobody else reads, perhaps under a passphrase; followed by others, or revoked.

A key that takes the place of another is announced: its owner signs with both that the next one follows, and
until which day the older one is accepted beside it (`KeyNotice`).  A key that is lost to somebody else is
revoked, signed with that key.  A site keeps what it was told in a file beside its own, and believes no
announcement that a revoked key signed: whoever stole it could have made it.  No announcement says who owns a
key; that is what the telephone is for.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from field.secrets.channels import Identity
from field.secrets.coins import SystemCoins
from secfc.data.inputs import write_private
from secfc.errors import InputError
from secfc.transport.handshake import verify

# Of a file that holds a secret as it is; and of one that holds it encrypted, a line each.
HEAD = "secfc identity, secret: "
PUBLIC, PROTECTED = "secfc identity, public: ", "secfc identity, under a passphrase: "
SIZE, SALT, NONCE = 32, 16, 12
# Work of one guess at a passphrase: 2**17 blocks of 1 KiB, so 128 MiB, about half a second (RFC 7914).
COST = 1 << 17
# Where a passphrase is found by commands that nobody sits at.
VARIABLE = "SECFC_PASSPHRASE"
# Characters that a new passphrase has, and how many different ones: of less, whoever has the file tries all.
SHORTEST, DIFFERENT = 12, 6

# The passphrase of the key file at this path.
Ask = Callable[[Path], str]


def identity_fingerprint(public: bytes) -> str:
    """Eight groups of four characters that stand for a public identity (32 bytes), to be read out aloud.

    >>> identity_fingerprint(bytes(32))
    'inf4 5igl gzng irpl xwyb hzs6 vokh 4f5q'
    """
    digest = hashlib.blake2b(public, digest_size=20, person=b"secfc fingerprin").digest()
    text = base64.b32encode(digest).decode().lower()
    return " ".join(text[i : i + 4] for i in range(0, len(text), 4))


def draw_identity() -> Identity:
    """A new identity, which no file keeps."""
    return Identity.draw(SystemCoins())


def create_key_file(path: Path, passphrase: str | None = None) -> Identity:
    """A new identity, in a new file of mode 0600, as it is or under a passphrase.

    Raises InputError for a file that is there, and a passphrase that is short; OSError.
    """
    secret = SystemCoins().bytes(SIZE)
    text = key_text(secret, passphrase)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        descriptor = os.open(path, flags, 0o600)
    except FileExistsError:
        raise InputError(
            f"{path} exists: a key that is replaced makes every run file wrong that pins it. Name another "
            "file, or move this one away"
        ) from None
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return Identity(secret)


def key_text(secret: bytes, passphrase: str | None) -> str:
    """What a key file holds.  Under a passphrase the secret is AES-256-GCM of a key that scrypt derives.

    Raises InputError for a passphrase that is short.
    """
    if passphrase is None:
        return f"{HEAD}{secret.hex()}\n"
    if len(passphrase) < SHORTEST or len(set(passphrase)) < DIFFERENT:
        raise InputError(
            f"a passphrase of {len(passphrase)} characters, {len(set(passphrase))} of them different, was "
            f"chosen: {SHORTEST} are needed, {DIFFERENT} of them different, as whoever has the file can try "
            "as often as it likes. Choose a longer one, as five words drawn at random; or --no-passphrase"
        )
    public, drawn = Identity(secret).public, SystemCoins().bytes(SALT + NONCE)
    sealed = _cipher(passphrase, drawn[:SALT]).encrypt(drawn[SALT:], secret, public)
    return f"{PUBLIC}{public.hex()}\n{PROTECTED}{(drawn + sealed).hex()}\n"


def _cipher(passphrase: str, salt: bytes) -> AESGCM:
    return AESGCM(Scrypt(salt=salt, length=32, n=COST, r=8, p=1).derive(passphrase.encode()))


def change_passphrase(path: Path, ask: Ask, choose: Callable[[], str | None]) -> Identity:
    """Put a key under another passphrase, or none; a crash leaves the file of before, or the new one.

    choose: asked for the new one once the file is open.  Raises InputError, OSError.
    """
    secret = _read_secret(path, ask)
    write_private(path, key_text(secret, choose()).encode())
    return Identity(secret)


def load_key_file(path: Path, ask: Ask | None = None) -> Identity:
    """The identity in a file.  ask: for its passphrase; by default the environment knows it.

    Raises InputError for a file that is none or is open to others, or another passphrase; OSError.
    """
    return Identity(_read_secret(path, read_passphrase if ask is None else ask))


def read_public(path: Path) -> bytes:
    """The public identity of a key file, without its passphrase.  Raises InputError, OSError."""
    found = _key_lines(path)
    return bytes.fromhex(found[PUBLIC]) if PUBLIC in found else Identity(bytes.fromhex(found[HEAD])).public


def is_protected(path: Path) -> bool:
    """Whether a key file is under a passphrase.  Raises InputError, OSError."""
    return PROTECTED in _key_lines(path)


def _read_secret(path: Path, ask: Ask) -> bytes:
    found = _key_lines(path)
    if HEAD in found:
        return bytes.fromhex(found[HEAD])
    public, kept = bytes.fromhex(found[PUBLIC]), bytes.fromhex(found[PROTECTED])
    salt, nonce, sealed = kept[:SALT], kept[SALT : SALT + NONCE], kept[SALT + NONCE :]
    try:
        secret = _cipher(ask(path), salt).decrypt(nonce, sealed, public)
    except InvalidTag:
        raise InputError(
            f"this passphrase does not open {path}, or the file was altered: try again, or restore the file"
        ) from None
    return secret


def _key_lines(path: Path) -> dict[str, str]:
    """Digits of a key file by what they are, in one of its two forms.  Raises InputError, OSError."""
    if path.is_dir():
        raise InputError(f"{path} is a directory: name the file of a key in it")
    refuse_readable(path, "a key")
    text = path.read_text(encoding="utf-8-sig", errors="replace").strip()
    found = {
        head: line.removeprefix(head).strip()
        for line in text.splitlines()
        for head in (HEAD, PUBLIC, PROTECTED)
        if line.startswith(head)
    }
    sizes = {HEAD: SIZE, PUBLIC: SIZE, PROTECTED: SALT + NONCE + SIZE + 16}
    for form in ({HEAD}, {PUBLIC, PROTECTED}):
        if found.keys() == form and all(_is_hex(found[head], sizes[head]) for head in form):
            return found
    raise InputError(
        f"{path} is no key: `secfc deploy key` makes one. If it was one restore it, as run files pin a key"
    )


def _is_hex(text: Any, size: int) -> bool:
    try:
        return len(bytes.fromhex(text)) == size
    except (ValueError, TypeError):
        return False


def refuse_readable(path: Path, what: str) -> None:
    """Raise InputError for a secret file that others than its owner may read; OSError."""
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise InputError(f"{path} may be read by others: {what} is its owner's alone. Run chmod 600 {path}")


def read_passphrase(path: Path, variable: str = VARIABLE) -> str:
    """The passphrase of a key file, from the environment: itself, or in the file that a variable names.

    Raises InputError where there is none, or its file is open to others; OSError.
    """
    if variable in os.environ:
        return os.environ[variable]
    if (named := os.environ.get(f"{variable}_FILE")) is None:
        raise InputError(
            f"{path} needs a passphrase, and nobody is there to ask: start this command at a terminal, or "
            f"let {variable}_FILE name a file that holds it"
        )
    refuse_readable(Path(named), "a passphrase")
    return Path(named).read_text(encoding="utf-8").rstrip("\r\n")


# --------------------------------------------------------------------------------------------------
# What is said of keys, and what a site keeps of it.

NAME = "keys.jsonl"
PURPOSE = b"secfc key notice 1"


@dataclass(frozen=True)
class KeyNotice:
    """What is said of a key.

    key: of whom.  time: in UTC, by who signs.  following: the key that takes its place, and until: the last
    day (UTC, as 2027-01-31) on which both are accepted; None for a key that is revoked.  signature: of key;
    proof: of the following one.  Both are empty for what a site decided for itself.
    """

    key: bytes
    time: str
    following: bytes | None = None
    until: str | None = None
    signature: bytes = b""
    proof: bytes = b""

    @property
    def text(self) -> bytes:
        """What is signed."""
        said = {name: value for name, value in self.record().items() if name not in ("signature", "proof")}
        return PURPOSE + json.dumps(said, sort_keys=True).encode()

    def record(self) -> dict[str, str]:
        """As files have it: digits, without what is None."""
        values = vars(self).items()
        return {n: v.hex() if isinstance(v, bytes) else str(v) for n, v in values if v is not None}

    @classmethod
    def of(cls, said: Any, where: str, signed: bool = True) -> KeyNotice:
        """From a file.  Raises InputError for what is no notice, or is not signed by the keys that it names.

        signed: whether it must be.
        """
        try:
            values: dict[str, Any] = {
                name: str(value) if name in ("time", "until") else bytes.fromhex(value)
                for name, value in said.items()
            }
            found = cls(**values)
            sizes = [len(found.key), *([] if found.following is None else [len(found.following)])]
            if set(sizes) != {SIZE} or (found.following is None) != (found.until is None):
                raise ValueError("other keys")
            if found.until is not None:
                date.fromisoformat(found.until)
        except (ValueError, TypeError, AttributeError):
            raise InputError(f"{where} is no notice of a key: `secfc deploy keys` writes them") from None
        if signed and not found.is_signed:
            raise InputError(
                f"{where}: the notice is not signed by the keys that it is about: it was altered, or made by "
                "somebody else. Ask its sender for it again"
            )
        return found

    @property
    def is_signed(self) -> bool:
        """Whether the keys that it is about have signed it."""
        proven = self.following is None or verify(self.following, self.proof, self.text)
        return proven and verify(self.key, self.signature, self.text)


def announce_key(old: Identity, new: Identity, until: date, time: str) -> KeyNotice:
    """Notice that a key follows another, which is accepted beside it until that day (UTC)."""
    said = KeyNotice(old.public, time, new.public, until.isoformat())
    return replace(said, signature=old.sign(said.text), proof=new.sign(said.text))


def revoke_key(identity: Identity, time: str) -> KeyNotice:
    """Notice that nobody shall accept this key any more."""
    said = KeyNotice(identity.public, time)
    return replace(said, signature=identity.sign(said.text))


@dataclass(frozen=True)
class KnownKeys:
    """What a site was told of keys, in a file beside its own; of several announcements the latest counts."""

    path: Path
    notices: tuple[KeyNotice, ...] = ()

    @classmethod
    def load(cls, folder: Path) -> KnownKeys:
        """What the file says; nothing if there is none.  Raises InputError for a damaged one; OSError."""
        path = folder / NAME
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        try:
            said = [json.loads(line) for line in lines]
        except ValueError:
            raise InputError(f"{path} is damaged: restore it, or learn its notices again") from None
        signed = [bool(one.get("signature")) if isinstance(one, dict) else True for one in said]
        found = [
            KeyNotice.of(one, f"{path}, line {i}", must)
            for i, (one, must) in enumerate(zip(said, signed, strict=True), 1)
        ]
        return cls(path, tuple(found))

    def with_notice(self, notice: KeyNotice) -> KnownKeys:
        """With this one too.

        Raises InputError for what a revoked key announces, and for a second key that follows the same one.
        """
        if notice.following is not None:
            if self.is_revoked(notice.key) or self.is_revoked(notice.following):
                raise InputError(
                    "a key of this notice is revoked, so that anybody may have made it: ask its owner by "
                    "telephone which key is theirs, and pin that one in run files and [floors.partners]"
                )
            known = self.following(notice.key)
            if known is not None and known != notice.following and not self.is_revoked(known):
                raise InputError(
                    f"two keys are announced to follow {notice.key.hex()}: {known.hex()} and "
                    f"{notice.following.hex()}. One is not its owner's: ask by telephone, and revoke the key "
                    "(`secfc deploy keys revoke --key`)"
                )
        return replace(self, notices=(*self.notices, notice))

    def write(self) -> None:
        """To its file, whole or not at all.  Raises OSError."""
        lines = (json.dumps(one.record(), sort_keys=True) + "\n" for one in self.notices)
        write_private(self.path, "".join(lines).encode())

    def is_revoked(self, key: bytes) -> bool:
        """Whether nobody shall use this key any more."""
        return any(one.key == key and one.following is None for one in self.notices)

    def following(self, key: bytes) -> bytes | None:
        """The key that was announced to follow, None for none, or if this one is revoked."""
        found = self._announced(key)
        return None if found is None or self.is_revoked(key) else found.following

    def _announced(self, key: bytes) -> KeyNotice | None:
        found = (one for one in self.notices if one.key == key and one.following is not None)
        return max(found, key=lambda one: one.time, default=None)

    def until(self, key: bytes) -> date | None:
        """The last day on which a key is accepted, None if no end is known."""
        found = self._announced(key)
        return None if found is None or found.until is None else date.fromisoformat(found.until)

    def followers(self, key: bytes) -> Iterator[bytes]:
        """This key, and those that were announced to follow, one after the other."""
        seen: set[bytes] = set()
        now: bytes | None = key
        while now is not None and now not in seen:
            seen.add(now)
            yield now
            now = self.following(now)

    def is_same_owner(self, pinned: bytes, key: bytes) -> bool:
        """Whether one of two keys was announced to follow the other."""
        return key in self.followers(pinned) or pinned in self.followers(key)

    def refuse(self, identities: Mapping[str, bytes], begun: bool, today: date | None = None) -> None:
        """Raise InputError for a run file with a key that is not accepted any more.

        begun: whether the run is under way here: then it goes on beyond the last day of a key, and not with
        one that is revoked.
        """
        now = datetime.now(UTC).date() if today is None else today
        for name, key in identities.items():
            last = self.until(key)
            if self.is_revoked(key):
                why = "is revoked"
            elif last is not None and now > last and not begun:
                why = f"was accepted until {last}, and another has followed it"
            else:
                continue
            following = self.following(key)
            which = f"its key {following.hex()}" if following else "the key that it tells you by telephone"
            raise InputError(
                f"the run file has the key {key.hex()} for {name}, which {why}: make a run file with {which} "
                "and a new session (`secfc deploy init`), for all sites"
                + (", and end this run here (`secfc deploy abort`)" if begun else "")
            )

    def words(self, key: bytes) -> str | None:
        """What is known of a key, in words; None for nothing."""
        if self.is_revoked(key):
            return "revoked"
        if (following := self.following(key)) is not None:
            return f"accepted until {self.until(key)}; {identity_fingerprint(following)} follows"
        return None
