"""The run file: everything that all sites of a run agree on, in one file that all of them hold.

It is TOML, and public.  What two sites compare is not the file but what it says (`RunFile.description`), so
that comments and the order of lines are everybody's own; where it says different things, both are told which.
The words of the algorithm are those of `secfc run`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from field.secrets.coins import SystemCoins
from secfc.data.linkage import Linkage, linkage_of
from secfc.deploy.toml_tables import TomlTable, read_table
from secfc.errors import InputError
from secfc.roles.description import LOCAL, describe_value, description_digest
from secfc.roles.exchange import SERVER, PartyId

SESSION = IDENTITY = 32  # bytes


def new_session() -> bytes:
    """32 bytes that no other run has."""
    return SystemCoins().bytes(SESSION)


@dataclass(frozen=True)
class Waiting:
    """How long parties wait, in seconds.

    arrival: for all to be there, before anything begins.  patience: for the messages of one exchange, of a
    peer that is there; the server has half as much again.  rejoin: for one that is away.  After either a
    party ends, its run suspended, and the same command goes on.  pulse: without a sign of life, after which a
    peer counts as away.
    """

    arrival: float = 12 * 3600.0
    patience: float = 600.0
    rejoin: float = 12 * 3600.0
    pulse: float = 30.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not 0 < value < 1e9:
                raise InputError(f"waiting.{name} = {value}: seconds above 0 are needed, as {name} = 60")


@dataclass(frozen=True)
class RunFile:
    """What a run is, for all its sites.

    name: for people.  session: 32 bytes that no other run uses.  hub: ws:// or wss:// and where it is.
    identities: the public identity (32 bytes) of every party; the clients in their order, and the server.
    algorithm, k, options: as `secfc run` calls them, options by name; their defaults where they are not
    given.  preparing: how features are prepared, in the words of `secfc run` (standardize, ranges, ...).
    served_by: whose organization serves, a client's name or another's; None if the file does not say.
    features: names of the columns, in their order.  columns: of clients that have only some of them, theirs.
    split: what clients divide, "people" or "columns" of the same people, each its own, a helper none.
    seed: of the start, None for coins that clients toss.  schema: by which rows are linked, in hidden
    membership; sites then read its columns instead of IDs.  waiting: clocks, no part of the terms.
    authority: certificates (PEM) by which the hub is known; None for those that the system trusts.
    """

    name: str
    session: bytes
    hub: str = field(metadata=LOCAL)
    identities: Mapping[PartyId, bytes]
    features: tuple[str, ...]
    algorithm: str = "secfc"
    k: int | str = 4
    options: Mapping[str, Any] = field(default_factory=dict)
    preparing: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[PartyId, tuple[str, ...]] = field(default_factory=dict)
    split: str = "people"
    seed: int | None = None
    served_by: str | None = None
    schema: Linkage | None = None
    waiting: Waiting = field(default_factory=Waiting, metadata=LOCAL)
    authority: str | None = field(default=None, metadata=LOCAL)
    folder: Path = field(default=Path(), metadata=LOCAL, compare=False)

    def __post_init__(self) -> None:
        for name in ("identities", "options", "preparing", "columns"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        for text in run_file_problems(self):
            raise InputError(f"{text}")

    def __repr__(self) -> str:
        return f"RunFile({self.name!r}, {len(self.clients)} clients, digest {self.digest.hex()[:16]})"

    @property
    def clients(self) -> tuple[PartyId, ...]:
        """In their order."""
        return tuple(name for name in self.identities if name != SERVER)

    @property
    def parties(self) -> tuple[PartyId, ...]:
        """The clients, and the server."""
        return (*self.clients, SERVER)

    @property
    def description(self) -> bytes:
        """What parties compare, and keys are bound to: all of it but where the hub is, and clocks."""
        # The order of clients is a fact of its own: mappings are compared by name.
        return describe_value(_Terms(self, self.clients))

    @property
    def digest(self) -> bytes:
        """32 bytes that are equal exactly when descriptions are: for the telephone."""
        return description_digest(self.description)

    @classmethod
    def read(cls, path: Path) -> RunFile:
        """The run file at this path.  Raises InputError for what is no run file; OSError."""
        return cls.of(read_table(path, f"run file {path}"), path.parent)

    @classmethod
    def of(cls, table: TomlTable, folder: Path = Path()) -> RunFile:
        """From what a file says.  folder: where other files that it names are.  Raises InputError."""
        run, waiting = table.table("run"), table.table("waiting", {})
        parties, schema = table.table("parties"), table.get("schema", dict, {})
        found = cls(
            name=run.text("name"),
            session=run.bytes("session", SESSION),
            hub=run.text("hub"),
            identities={name: parties.bytes(name, IDENTITY) for name in parties.names},
            features=run.texts("features"),
            algorithm=run.text("algorithm", "secfc"),
            k=run.get("k", (int, str), 4),
            options=table.plain("options"),
            preparing=table.plain("preparing"),
            columns={name: columns for name, columns in table.lists("columns").items()},
            split=run.text("split", "people"),
            seed=run.get("seed", int, None),
            served_by=run.get("served_by", str, None),
            schema=linkage_of(schema, f"{table.where}, [schema]") if schema else None,
            waiting=Waiting(**{f.name: waiting.number(f.name, f.default) for f in fields(Waiting)}),
            authority=run.get("authority", str, None),
            folder=folder,
        )
        for part in (run, waiting, table):
            part.finish()
        return found

    def toml(self) -> str:
        """The file's text.  Reads back as this."""
        import tomli_w

        run: dict[str, Any] = {
            "name": self.name, "session": self.session.hex(), "hub": self.hub, "algorithm": self.algorithm,
            "k": self.k, "features": list(self.features), "seed": self.seed, "served_by": self.served_by,
            "authority": self.authority, "split": self.split if self.split != "people" else None,
        }  # fmt: skip
        tables: dict[str, Any] = {
            "run": {key: value for key, value in run.items() if value is not None},
            "options": dict(self.options),
            "preparing": dict(self.preparing),
            "columns": {name: list(columns) for name, columns in self.columns.items()},
            "schema": {} if self.schema is None else self.schema.tables(),
            "waiting": asdict(self.waiting),
            "parties": {name: key.hex() for name, key in self.identities.items()},
        }
        return tomli_w.dumps({key: table for key, table in tables.items() if table})


@dataclass(frozen=True)
class _Terms:
    run: RunFile
    clients: tuple[PartyId, ...]


def identity_problems(identities: Mapping[PartyId, bytes]) -> Iterator[str]:
    """What is wrong with keys of parties, and with names."""
    if len(set(identities.values())) < len(identities):
        yield "two parties have the same identity: each makes its own with `secfc deploy key`"
    for name, key in identities.items():
        if len(key) != IDENTITY:
            need = f"{IDENTITY} are needed: `secfc deploy key` shows them"
            yield f"the identity of {name} has {len(key)} bytes, {need}"
        if not 0 < len(name) <= 100 or not name.isprintable():
            yield f"{name!r} is no name of a party: up to 100 printable characters are"
        if name.strip() in ("", ".", "..") or "/" in name or "\\" in name:  # files of a rehearsal
            yield f"{name!r} is no name of a file, as a party's must be: leave / and \\ out, as in site-1"


def run_file_problems(run: RunFile) -> Iterator[str]:
    """What is wrong with it: the value, the rule, the remedy."""
    if SERVER not in run.identities:
        yield "no party is called server: its key's `secfc deploy key` line belongs under [parties]"
    if not run.clients:
        yield "no client stands under [parties]: add a line for every data owner"
    yield from identity_problems(run.identities)
    if len(run.session) != SESSION:
        yield f"session has {len(run.session)} bytes, {SESSION} are needed: `secfc deploy init` draws them"
    if not run.hub.startswith(("ws://", "wss://", "nvflare://")):
        yield (
            f"hub = {run.hub!r} is no address of a hub: write wss://hub.example.org, or "
            "nvflare://host:8002 for a server of NVIDIA FLARE"
        )
    elif bare := re.match(r"wss?://([^/\[\]]*:[^/\[\]]*:[^/\[\]]*)", run.hub):
        yield f"hub = {run.hub!r}: an IPv6 address stands in brackets, as wss://[{bare[1]}]:443"
    if not run.features or len(set(run.features)) < len(run.features) or "" in run.features:
        yield "features must name every column that is clustered, each once"
    yield from column_problems(run)


def column_problems(run: RunFile) -> Iterator[str]:
    """What is wrong with the columns of clients, and with what these divide."""
    if run.split not in ("people", "columns"):
        yield f"split = {run.split!r}: write people or columns, whichever clients divide"
    if run.split == "columns" and (lost := [name for name in run.clients if name not in run.columns]):
        yield f"split = 'columns', and {lost[0]} has no line in [columns]: write its own, or [] for none"
    for name, columns in run.columns.items():
        if name not in run.clients:
            yield f"columns are given for {name}, who is no client"
        if lost := [c for c in columns if c not in run.features]:
            yield f"{name} has the column {lost[0]!r}, which is none of features: add it there"
