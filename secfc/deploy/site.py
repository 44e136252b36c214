"""The site file: what one party keeps to itself.  Where its data and key are, and what it agrees to at all.

It is TOML, belongs to the site, and is read by nobody else; no other party, and no hub, can weaken it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from field.secrets.channels import Identity
from secfc.data.dialects import Dialect
from secfc.deploy.floors import NOTHING, Floors
from secfc.deploy.keys import Ask, load_key_file, read_public
from secfc.deploy.toml_tables import TomlTable, read_table
from secfc.errors import InputError
from secfc.roles.exchange import SERVER, PartyId


@dataclass(frozen=True)
class Data:
    """The file of a client's rows, and how it is read: as `secfc run` reads files.

    dask: address of a scheduler whose workers read it, of Parquet, at the same path.
    drop_unfit: leave out rows that do not fit the run file's linkage schema, instead of refusing them.
    """

    path: Path
    id_column: str | None = None
    columns: tuple[str, ...] | None = None
    dialect: Dialect = field(default_factory=Dialect)
    drop_unfit: bool = False
    dask: str | None = None


def _dialect(data: TomlTable) -> Dialect:
    """How the file is written, where it does not say so itself."""
    try:
        return Dialect(
            data.get("encoding", str, None), data.get("delimiter", str, None), data.get("decimal", str, None),
            data.get("thousands", str, None), data.get("header", bool, None), data.get("skip", str, ()),
            tuple(data.get("absent", list, ())), data.get("sheet", str, None),
            data.get("visible_only", bool, False),
        )  # fmt: skip
    except InputError as error:
        raise InputError(f"{data.where}: {error.text(SITE_FILE)}") from error


def _threads(site: TomlTable) -> int:
    found: int = site.get("threads", int, 1)
    if not 1 <= found <= 1024:
        raise InputError(f"{site.where}: threads = {found}: from 1 on, as many as this machine has cores")
    return found


def _scratch(site: TomlTable, path: Path) -> Path:
    if not path.is_dir():
        raise InputError(f"{site.where}: scratch = {str(path)!r} is no folder: make it, or name another")
    return path


def _key_names(site: TomlTable) -> tuple[str, ...]:
    """One key, or several."""
    found = site.get("key", (str, list))
    names = (found,) if isinstance(found, str) else site.texts("key")
    if not names:
        raise InputError(f"{site.where}: key = []: the file of a key is needed. `secfc deploy key` makes one")
    return names


class SiteFileInterface:
    """How files are read, in words of a site file; what all sites agree on is in the run file."""

    def name(self, parameter: str) -> str | None:
        """The key, None for what is none."""
        return f"{parameter} in [data]" if parameter in OWN else None

    def setting(self, parameter: str, value: Any) -> str | None:
        """As a line, or as `secfc deploy init` takes it.

        >>> SITE_FILE.setting("decimal", ","), SITE_FILE.setting("missing", "mean")
        ('decimal = ","', '`secfc deploy init --prepare missing=mean`')
        """
        if parameter in OWN:
            return f'{parameter} = "..." in [data]' if value is ... else f"{parameter} = {json.dumps(value)}"
        if parameter in ("columns", "exclude"):
            return "`secfc deploy init --features`"
        return f"`secfc deploy init --prepare missing={value}`" if parameter == "missing" else None


SITE_FILE = SiteFileInterface()
OWN = (*(f.name for f in fields(Dialect)), "id_column", "drop_unfit")


@dataclass(frozen=True)
class SiteFile:
    """One party's own settings.

    party: its name in the run file.  run: that file.  keys: files of its identities: the present one first,
    then those of before, which run files may still pin.  data: None for the server, and who has no columns.
    journal: a directory for what it must not forget if it dies; results: one for what it learns.
    hub: where the hub is, if not where the run file says.  derived_bound: whether the others may learn the
    power of two that no value of its rows exceeds.  threads: of the processor, for what can be spread over
    them.  scratch: a folder on a fast disc, where shares lie instead of in memory.
    """

    party: PartyId
    run: Path
    keys: tuple[Path, ...]
    data: Data | None = None
    journal: Path = Path("journal")
    results: Path = Path("results")
    hub: str | None = None
    derived_bound: bool = False
    threads: int = 1
    scratch: Path | None = None
    floors: Floors = field(default_factory=Floors)

    def journal_of(self, session: bytes) -> Path:
        """Where the journal of this run is, while it goes on."""
        return self.journal / f"{session.hex()[:16]}.journal"

    def identity(self, pinned: bytes, ask: Ask | None = None) -> Identity:
        """The identity that a run file has for this site, of whichever of its keys that is.

        Raises InputError if it is of none; OSError.
        """
        publics = {path: read_public(path) for path in self.keys}
        for path, public in publics.items():
            if public == pinned:
                return load_key_file(path, ask)
        path, public = next(iter(publics.items()))
        raise InputError(
            f"{path} is another key than the run file has for {self.party}: its public line is "
            f"{public.hex()}. Correct the run file, at all sites, or name the right key; after a change of "
            'keys both, as key = ["next.key", "site.key"]'
        )

    @classmethod
    def read(cls, path: Path) -> SiteFile:
        """The site file at this path; paths in it are beside it.  Raises InputError, OSError."""
        table = read_table(path, f"site file {path}")
        site, data, folder = table.table("site"), table.table("data", {}), path.parent
        party = site.text("party")
        own: Data | None = None
        if party != SERVER and data.names:
            columns = data.get("columns", list, None)
            own = Data(
                folder / data.text("path"),
                data.get("id_column", str, None),
                None if columns is None else data.texts("columns"),
                _dialect(data),
                data.get("drop_unfit", bool, False),
                data.get("dask", str, None),
            )
        elif data.names:
            raise InputError(f"site file {path}: the server has no rows. Leave [data] out")
        floors = Floors.of(table.table("floors", {}))
        found = cls(
            party,
            folder / site.text("run"),
            tuple(folder / name for name in _key_names(site)),
            own,
            folder / site.text("journal", "journal"),
            folder / site.text("results", "results"),
            site.get("hub", str, None),
            site.get("derived_bound", bool, False),
            _threads(site),
            None if (scratch := site.get("scratch", str, None)) is None else _scratch(site, folder / scratch),
            # Whoever serves holds no rows to protect, and demands what it says.
            floors if party != SERVER or table.get("floors", dict, None) else NOTHING,
        )
        table.get("floors", dict, None)
        for part in (site, data, table):
            part.finish()
        return found
