"""A party's key: made once, kept in a file that nobody else reads, known to others by its fingerprint."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from field.secrets.channels import Identity
from field.secrets.coins import SystemCoins
from secfc.data.inputs import InputError

HEAD = "secfc identity, secret: "
SIZE = 32


def fingerprint(public: bytes) -> str:
    """Eight groups of four characters that stand for a public identity (32 bytes), to be read out aloud.

    >>> fingerprint(bytes(32))
    'inf4 5igl gzng irpl xwyb hzs6 vokh 4f5q'
    """
    import base64

    digest = hashlib.blake2b(public, digest_size=20, person=b"secfc fingerprin").digest()
    text = base64.b32encode(digest).decode().lower()
    return " ".join(text[i : i + 4] for i in range(0, len(text), 4))


def draw(path: Path) -> Identity:
    """A new identity, in a new file of mode 0600.

    Raises InputError for a file that is there; OSError.
    """
    secret = SystemCoins().bytes(SIZE)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        descriptor = os.open(path, flags, 0o600)
    except FileExistsError:
        raise InputError(
            f"{path} exists: a key that is replaced makes every run file wrong that pins it. Name another "
            "file, or move this one away"
        ) from None
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(HEAD + secret.hex() + "\n")
        file.flush()
        os.fsync(file.fileno())
    return Identity(secret)


def load(path: Path) -> Identity:
    """The identity in a file.  Raises InputError for a file that is none or is open to others; OSError."""
    if path.is_dir():
        raise InputError(f"{path} is a directory: name the file of a key in it")
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise InputError(f"{path} may be read by others: a key is its owner's alone. Run chmod 600 {path}")
    text = path.read_text(encoding="ascii", errors="replace").strip()
    try:
        secret = bytes.fromhex(text.removeprefix(HEAD)) if text.startswith(HEAD) else b""
    except ValueError:
        secret = b""
    if len(secret) != SIZE:
        raise InputError(f"{path} is no key: `secfc deploy key` makes one")
    return Identity(secret)
