"""`secfc deploy key` and `keys`: a site's identity, under a passphrase or not, and what becomes of it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import click

from secfc.cli.shell.errors import Lazily, bad_input
from secfc.cli.shell.options import argument, command, option
from secfc.data.inputs import write_private
from secfc.deploy import audit_log
from secfc.deploy.audit_log import AuditLog, read_seconds
from secfc.deploy.keys import (
    SIZE,
    VARIABLE,
    KeyNotice,
    KnownKeys,
    announce_key,
    change_passphrase,
    create_key_file,
    identity_fingerprint,
    is_protected,
    load_key_file,
    read_passphrase,
    read_public,
    revoke_key,
)
from secfc.deploy.runfile import RunFile
from secfc.deploy.site import SiteFile
from secfc.errors import InputError

# Where the passphrase is that takes the place of one.
AGAIN = "SECFC_NEW_PASSPHRASE"
# Where each command is, and its line in the help.
COMMANDS = {
    "show": ("secfc.cli.deploy.keys:show_keys", "This site's keys, and what it was told of others'."),
    "rotate": ("secfc.cli.deploy.keys:rotate_key", "Announce the key that follows this site's."),
    "revoke": ("secfc.cli.deploy.keys:revoke_keys", "Accept a key no more; tell the others of one's own."),
    "learn": ("secfc.cli.deploy.keys:learn_notices", "Take in what another site says of its keys."),
}


@dataclass(frozen=True)
class KeyOptions:
    """What `secfc deploy key` takes."""

    # fmt: off
    file: Path = argument()
    passphrase: bool | None = option(None, None, "--passphrase/--no-passphrase", help=
        "Put the key under a passphrase, or under none: of a new key, or from now on.")
    # fmt: on


def make_private() -> None:
    """Let files that this command makes be their owner's alone, and give the process its mask back then."""
    before = os.umask(0o077)
    click.get_current_context().call_on_close(lambda: os.umask(before))


@command(KeyOptions)
def key(given: KeyOptions) -> None:
    """Make a site's key in FILE, if it is not there; show what the others need of it.

    The file is secret and never leaves the site. The others need the public line, in the run file; read the
    fingerprint out to each other over the telephone.

    A passphrase is asked for at a terminal; else it is in SECFC_PASSPHRASE, or in the file that
    SECFC_PASSPHRASE_FILE names. One that takes its place is in SECFC_NEW_PASSPHRASE, or _FILE. Who guesses
    at it needs half a second and 128 MiB for each guess; without it the key is lost.

    \b
    Examples:
      secfc deploy key hospital-a.key
      secfc deploy key hospital-a.key --passphrase
    """
    path, wanted = given.file, given.passphrase
    with bad_input(OSError):
        if not path.exists():
            public = create_key_file(path, ask_passphrase(path, new=True) if wanted else None).public
        elif wanted is None or not (wanted or is_protected(path)):
            public = read_public(path)
        else:
            variable = AGAIN if is_protected(path) else VARIABLE
            public = change_passphrase(
                path, ask_passphrase, lambda: ask_passphrase(path, variable, new=True) if wanted else None
            ).public
    click.echo(f"public       {public.hex()}\nfingerprint  {identity_fingerprint(public)}")


def ask_passphrase(path: Path, variable: str = VARIABLE, *, new: bool = False) -> str:
    """The passphrase of a key file: from the environment, or whoever sits at the terminal.

    new: one that is to be, which is typed twice.  Raises InputError, OSError.
    """
    told = any(name in os.environ for name in (variable, f"{variable}_FILE"))
    if told or sys.stdin is None or not sys.stdin.isatty():
        found = read_passphrase(path, variable)
    else:
        which = f"{'New passphrase' if new else 'Passphrase'} of {path}"
        found = str(click.prompt(which, hide_input=True, confirmation_prompt=new, err=True))
    if not found:
        raise InputError(f"the passphrase of {path} is empty: choose one, or --no-passphrase")
    return found


# --------------------------------------------------------------------------------------------------
# What becomes of keys.


@click.group("keys", cls=Lazily, entries=COMMANDS)
def keys_group() -> None:
    """Change a site's key, revoke one, and take in what others say of theirs.

    \b
    A new key, while run files pin the old one:
      secfc deploy keys rotate site.toml next.key --until 2027-01-31     send what it writes to all sites
      secfc deploy keys learn site.toml next-key.json                    every other site, once
    """


@dataclass(frozen=True)
class KeysArgument:
    """What `secfc deploy keys show` takes."""

    site: Path = argument("SITE.toml")


@dataclass(frozen=True)
class RotateOptions:
    """What `secfc deploy keys rotate` takes."""

    # fmt: off
    site: Path = argument("SITE.toml")
    next: Path = argument("NEXT.key")
    until: str | None = option(metavar="DAY", help=
        "The last day, in UTC, on which run files may pin the present key, as 2027-01-31.")
    out: Path = option(Path("next-key.json"), metavar="FILE", help="Where the announcement goes.")
    # fmt: on


@dataclass(frozen=True)
class RevokeOptions(KeysArgument):
    """What `secfc deploy keys revoke` takes."""

    # fmt: off
    key: str | None = option(metavar="PUBLIC", help=
        "The public line of the key; of another's, only this site accepts it no more.")
    out: Path = option(Path("revoked-key.json"), metavar="FILE", help=
        "Where the word for the others goes, if the key is this site's.")
    # fmt: on


@dataclass(frozen=True)
class LearnOptions:
    """What `secfc deploy keys learn` takes."""

    site: Path = argument("SITE.toml")
    notices: tuple[Path, ...] = argument("NOTICE.json...")


@dataclass(frozen=True)
class Keyring:
    """A site's keys, and what it knows of others'; its run file may be wrong, or not there."""

    folder: Path
    file: SiteFile

    @classmethod
    def read(cls, path: Path) -> Keyring:
        """Raises InputError."""
        make_private()
        with bad_input(OSError):
            return cls(path.parent, SiteFile.read(path))

    def keep(self, notice: KeyNotice, what: str, known: KnownKeys, identity: Any) -> None:
        """Put a notice on record, and then among what this site knows.  Raises InputError, OSError."""
        after = known.with_notice(notice)
        audit = AuditLog(self.folder / audit_log.NAME, self.file.party, identity)
        audit.append(what, "kept", notice=notice.record())
        after.write()

    def names(self) -> dict[bytes, str]:
        """Names of parties by key, as floors and the run file have them."""
        found = {key: name for name, key in (self.file.floors.partners or {}).items()}
        with suppress(InputError, OSError):
            found |= {key: name for name, key in RunFile.read(self.file.run).identities.items()}
        return found | {read_public(path): self.file.party for path in self.file.keys}


@command(RotateOptions)
def rotate_key(given: RotateOptions) -> None:
    """Make NEXT.key, if it is not there, and announce that it follows the key of SITE.toml, signed by both.

    Send the announcement to all sites, and read out the new fingerprint: whoever stole the present key could
    announce one too. Until the day that it names both keys are accepted. A run that is under way goes on with
    the key that its run file has, so keep both files.

    \b
    Example:
      secfc deploy keys rotate site.toml next.key --until 2027-01-31
    """
    ring, day = Keyring.read(given.site), parse_day(given.until)
    present = ring.file.keys[0]
    with bad_input(OSError):
        old, known = load_key_file(present, ask_passphrase), KnownKeys.load(ring.folder)
        if given.next.exists():
            new = load_key_file(given.next, ask_passphrase)
        else:
            if known.following(old.public) is not None:
                raise InputError(
                    f"a key that follows {present} is announced already: name its file, to announce it anew "
                    "(`secfc deploy keys show` says which)"
                )
            under = is_protected(present)
            new = create_key_file(given.next, ask_passphrase(given.next, AGAIN, new=True) if under else None)
        if new.public == old.public:
            raise InputError(f"{given.next} is the present key, {present}: name another file")
        notice = announce_key(old, new, day, read_seconds())
        ring.keep(notice, "rotate", known, old)
        write_notice(given.out, notice)
    click.echo(
        f"public       {new.public.hex()}\nfingerprint  {identity_fingerprint(new.public)}\n"
        f"{given.out} is for all other sites (`secfc deploy keys learn`); read out the fingerprint. In "
        f"{given.site} name both keys, the new one first:\n  key = {json.dumps(key_names(ring, given.next))}"
        f"\nNew run files pin the new key. Until {day} old ones are accepted."
    )


def parse_day(text: str | None) -> date:
    """A day to come.  Raises UsageError, BadParameter."""
    if text is None:
        raise click.UsageError("--until is needed: the last day of the present key, as --until 2027-01-31.")
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"--until {text}: a day is needed, as 2027-01-31") from None
    if day < datetime.now(UTC).date():
        raise click.BadParameter(f"--until {text}: that day is over; run files must be made anew first")
    return day


def key_names(ring: Keyring, following: Path) -> list[str]:
    """Key files as the site file names them, the new one first."""
    return [os.path.relpath(path.resolve(), ring.folder.resolve()) for path in (following, *ring.file.keys)]


def write_notice(path: Path, notice: KeyNotice) -> None:
    """For other sites; nothing in it is secret.  Raises OSError."""
    write_private(path, (json.dumps(notice.record(), indent=1) + "\n").encode())


@command(RevokeOptions)
def revoke_keys(given: RevokeOptions) -> None:
    """Accept a key no more: this site's own, or with --key any other.

    Of this site's own key the word is signed with it and written for the others, who must learn it; a run
    with that key is refused then, also one that is under way. First announce the key that follows, if there
    is none (`secfc deploy keys rotate`); as a thief could have done so, the others should hear of it by
    telephone, and pin it themselves.

    \b
    Example:
      secfc deploy keys revoke site.toml --key 12ab...
    """
    ring = Keyring.read(given.site)
    with bad_input(OSError):
        known, publics = KnownKeys.load(ring.folder), {read_public(path): path for path in ring.file.keys}
        wanted = parse_public(given.key) if given.key is not None else None
        if wanted is None:
            raise click.UsageError(f"--key is needed: one of this site's is {next(iter(publics)).hex()}.")
        signer = load_key_file(ring.file.keys[0], ask_passphrase)
        if wanted not in publics:
            ring.keep(KeyNotice(wanted, read_seconds()), "revoke", known, signer)
            click.echo(f"{wanted.hex()} is accepted no more, at this site. Tell the others.")
            return
        if wanted == signer.public:
            raise InputError(
                f"{ring.file.keys[0]} is this site's present key, and what it signed last would be its end: "
                "announce the key that follows (`secfc deploy keys rotate`), name that first in the site "
                "file, and revoke this one then"
            )
        notice = revoke_key(load_key_file(publics[wanted], ask_passphrase), read_seconds())
        ring.keep(notice, "revoke", known, signer)
        write_notice(given.out, notice)
    click.echo(f"{given.out} is for all other sites (`secfc deploy keys learn`): they refuse the key then.")


def parse_public(text: str) -> bytes:
    """A public identity.  Raises BadParameter."""
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != SIZE:
        raise click.BadParameter(f"--key {text}: the 64 digits that `secfc deploy key` shows are needed")
    return key


@command(LearnOptions)
def learn_notices(given: LearnOptions) -> None:
    """Take in what other sites say of their keys, as their `secfc deploy keys rotate` and `revoke` wrote it.

    Each is verified: the keys that it is about have signed it. Whoever stole a key could announce the next:
    ask its owner by telephone for the fingerprint that is shown.

    \b
    Example:
      secfc deploy keys learn site.toml next-key.json
    """
    ring = Keyring.read(given.site)
    with bad_input(OSError):
        signer = load_key_file(ring.file.keys[0], ask_passphrase)
        for path in given.notices:
            known, notice = KnownKeys.load(ring.folder), read_notice(path)
            if notice not in known.notices:
                ring.keep(notice, "learn", known, signer)
            click.echo(f"{path}: {notice_sentence(notice, ring.names())}")


def read_notice(path: Path) -> KeyNotice:
    """What another site sent.  Raises InputError, OSError."""
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        said = None
    return KeyNotice.of(said, str(path))


def notice_sentence(notice: KeyNotice, names: Mapping[bytes, str]) -> str:
    """What a notice says, for people."""
    owner = names.get(notice.key, "of nobody in the run file or floors")
    who = f"{identity_fingerprint(notice.key)} ({owner})"
    if notice.following is None:
        return f"{who} is revoked"
    return f"{who} is accepted until {notice.until}; {identity_fingerprint(notice.following)} follows"


@command(KeysArgument)
def show_keys(given: KeysArgument) -> None:
    """Show this site's keys, and what it knows of its own and others'.

    \b
    Example:
      secfc deploy keys show site.toml
    """
    ring = Keyring.read(given.site)
    with bad_input(OSError):
        for path in ring.file.keys:
            under = "under a passphrase" if is_protected(path) else "as it is, for whoever reads the file"
            click.echo(f"{path}: {identity_fingerprint(read_public(path))}, {under}")
        names = ring.names()
        for notice in KnownKeys.load(ring.folder).notices:
            click.echo(f"{notice.time}  {notice_sentence(notice, names)}")
