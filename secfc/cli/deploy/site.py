"""A site as its files say: what it is, what it agrees to, and its rows."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from secfc.cli.deploy.keys import ask_passphrase
from secfc.cli.deploy.run_file import Built, build_run, clustered_columns
from secfc.cli.shell.errors import bad_input, cautions_told, full_disc_told, tell_notes
from secfc.data.files import category_names
from secfc.data.inputs import require_library, with_parameters
from secfc.deploy.audit_log import NAME, AuditLog, read_seconds
from secfc.deploy.floors import Floors
from secfc.deploy.history import REMEMBERED, PastRun, SiteHistory, history_locked
from secfc.deploy.keys import KnownKeys, load_key_file
from secfc.deploy.runfile import RunFile
from secfc.deploy.session import AgreedWork
from secfc.deploy.site import SITE_FILE, SiteFile
from secfc.errors import InputError, JournalError
from secfc.roles.description import description_digest
from secfc.roles.exchange import SERVER
from secfc.transport.journal import OTHER_PARTY, OTHER_TERMS, Journal

if TYPE_CHECKING:
    from secfc.data.party import Party


@dataclass(frozen=True)
class LoadedSite:
    """A site's file, the run file it names, and its key: all that is known before data are opened."""

    file: SiteFile
    run: RunFile
    identity: Any
    folder: Path

    @classmethod
    def read(cls, path: Path) -> LoadedSite:
        """Raises InputError for files that do not fit each other."""
        with bad_input(OSError):
            file = SiteFile.read(path)
            run = RunFile.read(file.run)
        if file.party not in run.identities:
            raise InputError(
                f"{path}: party = {file.party!r}, and the run file has {', '.join(run.parties)}: correct one"
            )
        with bad_input(OSError):
            identity = file.identity(run.identities[file.party], ask_passphrase)
        return cls(file, run, identity, path.parent)

    @property
    def known_keys(self) -> KnownKeys:
        """What it was told of keys."""
        return KnownKeys.load(self.folder)

    @property
    def remembered(self) -> SiteHistory:
        """What it remembers of earlier runs, or has on record."""
        return self.with_charges(SiteHistory.load(self.folder / REMEMBERED))

    def with_charges(self, memory: SiteHistory) -> SiteHistory:
        """What it remembers, with what it has on record besides.  Raises InputError, OSError."""
        return memory.with_charges(self.audit.entries(), self.run.session)

    def agreed(self) -> Built:
        """What the run file asks for, if this site agrees.  Raises InputError, BelowFloor."""
        self.known_keys.refuse(self.run.identities, self.journal.exists())
        asked = self.own_machine(build_run(self.run))
        self.check_floors(asked, self.remembered)
        if self.file.party == SERVER and asked.asked.get("linkage") not in (None, "ward"):
            require_library(f"linkage = {asked.asked['linkage']!r}", "estimators")
        if asked.derived and self.file.party != SERVER and not self.file.derived_bound:
            raise InputError(
                "the run file has no bound, so all would learn the power of two that no value here exceeds, "
                "and this site does not consent: set derived_bound = true in the site file, or agree on a "
                "bound (--set bound=... of `secfc deploy init`)"
            )
        return asked

    def own_machine(self, asked: Built) -> Built:
        """The run with this machine's threads and folder; neither is part of what sites compare."""
        from secfc.coded_kmeans.secfc import SecFC

        inner: Any = asked.algorithm.capabilities.inner or asked.algorithm
        if not isinstance(inner, SecFC):
            return asked
        scratch = None if self.file.scratch is None else str(self.file.scratch)
        own: Any = with_parameters(inner, threads=self.file.threads, scratch=scratch)
        if inner is not asked.algorithm:
            own = with_parameters(asked.algorithm, algorithm=own)
        return replace(asked, algorithm=own)

    def check_floors(self, asked: Built, memory: SiteHistory) -> None:
        """Raise BelowFloor if this site does not agree to a run, after all that it remembers."""
        me, run, session = self.file.party, self.run, self.run.session
        others = {name: key for name, key in run.identities.items() if name != me}
        columns = () if me == SERVER else run.columns.get(me, run.features)
        stakes = replace(asked.stakes, partners=others, features=columns)
        spent, granted, recent = memory.spent(session), memory.granted(session), memory.recent(session)
        self.floors.check(stakes, spent, granted, recent)

    @property
    def floors(self) -> Floors:
        """Its floors, a key of a partner standing for that which was announced to follow, and the reverse."""
        own, known = self.file.floors, self.known_keys

        def as_in_run(name: str, pinned: bytes) -> bytes:
            key = self.run.identities.get(name, pinned)
            return key if known.is_same_owner(pinned, key) else pinned

        partners = own.partners and {name: as_in_run(name, key) for name, key in own.partners.items()}
        servers = own.coordinators and tuple(as_in_run(SERVER, key) for key in own.coordinators)
        return replace(own, partners=partners, coordinators=servers)

    def check_session(self) -> None:
        """Raise InputError for a session that was used, and whose journal is gone, or was put back; and where
        another party of this run has the same folder, whose end would count for this one's.
        """
        for said in self.audit.entries():
            self.audit.refuse_other_party(said, self.run.session.hex())
        if not self.journal.exists():
            self.remembered.check_session(self.run.session, None)
        elif any(self.is_end(said) for said in self.audit.entries()):
            with self.open_journal() as kept:
                if not kept.done:
                    raise InputError(
                        f"{self.journal} is older than the end of its run, which this site has on record: it "
                        "was put back. Its keys were used, and it would use them again: delete it. Start "
                        "anew with a new session (`secfc deploy init`)"
                    )
        else:
            self.check_terms()

    @property
    def has_spent(self) -> bool:
        """Whether this site has said anything of its rows in this session."""
        return any(run.session == self.run.session.hex() for run in self.remembered.runs.values())

    def check_terms(self) -> None:
        """Raise InputError where the journal of this session began under other terms."""
        try:
            self.open_journal().close()
        except JournalError as error:
            if OTHER_PARTY in str(error):
                raise InputError(str(error)) from error
            if OTHER_TERMS not in str(error):
                return  # told where the run begins
            rest = (
                "its rows were spoken of, so no other may take its session"
                if self.has_spent
                else "nothing of its rows was said: if all sites have the new one, `secfc deploy clean` at "
                "all, and the same command begins anew"
            )
            raise InputError(
                f"{self.file.run} was changed since {self.journal} began. Put back what it was, and the same "
                f"command goes on; {rest}"
            ) from error

    def open_journal(self) -> Journal:
        """The journal of this run, open and locked.  Raises JournalError, OSError."""
        return Journal.open(self.journal, self.file.party, description_digest(self.run.description))

    def is_end(self, said: Mapping[str, Any]) -> bool:
        """Whether a line on record says that this run ended here with results."""
        return (said["outcome"], said.get("session")) == ("finished", self.run.session.hex())

    def charge(self, asked: Built, party: Party | None, journal: bytes) -> None:
        """Write down what a run spends, once for its journal; floors are asked again, as others may have run.

        Raises InputError, BelowFloor, OSError; then nothing of rows may be said.
        """
        session, stakes = self.run.session, asked.stakes
        path = self.folder / REMEMBERED
        with full_disc_told(path), history_locked(path) as memory:
            known = self.with_charges(memory)
            known.check_session(session, journal)
            if journal.hex() in memory.runs:
                return
            self.check_floors(asked, known)
            if party is not None:
                known.check_rows(party, self.file.floors.changed_rows)
            run = PastRun(
                session.hex(), stakes.epsilon, asked.asked.get("quota"), policy=stakes.policy,
                time=read_seconds(), name=self.run.name,
            )  # fmt: skip
            # On record first, so that an older copy of what is remembered is known for one.
            if journal.hex() not in known.runs:
                spends = {
                    name: getattr(run, name) for name in ("epsilon", "guesses", "policy", "time", "name")
                }
                self.audit.append(
                    "charge", "spent", session=session.hex(), journal=journal.hex(), spends=spends,
                    of_rows=party is not None,
                )  # fmt: skip
            memory.with_run(journal, run, party).write()

    @property
    def audit(self) -> AuditLog:
        """What it has on record of its runs."""
        signer = self.identity
        if self.known_keys.is_revoked(signer.public):  # what it signs counts no more
            signer = load_key_file(self.file.keys[0], ask_passphrase)
        return AuditLog(self.folder / NAME, self.file.party, signer)

    @property
    def journal(self) -> Path:
        """Path of this run's journal: one a run, as a site may take part in several."""
        return self.file.journal_of(self.run.session)

    @property
    def decided(self) -> Path:
        """File of the clients that this site goes on without: a name a line."""
        return self.journal.with_suffix(".without")

    @property
    def board(self) -> Path:
        """Log file of a running party: lines for people."""
        return self.journal.with_suffix(".status")

    def still_without(self) -> tuple[str, ...]:
        """Clients that a run which goes on is to do without.

        Raises InputError once a key of the run file is revoked.
        """
        self.known_keys.refuse(self.run.identities, begun=True)
        return self.without()

    def without(self) -> tuple[str, ...]:
        """Clients that this site was told to go on without."""
        try:
            return tuple(self.decided.read_text(encoding="utf-8").splitlines())
        except FileNotFoundError:
            return ()

    @property
    def has_results(self) -> bool:
        """Whether the results that are there are those of this run, which has not left yet."""
        try:
            report = json.loads((self.file.results / "report.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        return self.journal.exists() and report.get("session") == self.run.session.hex()

    def forget_run(self) -> None:
        """Delete what a run needs to go on: its results are on disk."""
        for path in self.left_files:
            path.unlink(missing_ok=True)

    @property
    def left_files(self) -> tuple[Path, ...]:
        """Files of a run, its journal last; a death while one is written leaves a file beside it."""
        files = self.decided, self.board, self.journal
        return *(path.with_name(f".{path.name}.tmp") for path in files), *files

    def work(self, asked: Built) -> AgreedWork:
        """What this site runs with the others."""
        corrected, count = asked.asked.get("corrected"), asked.asked.get("cut")
        return AgreedWork(
            asked.algorithm, asked.public, asked.derived, self.run.parties, self.run.identities,
            self.run.description, heed=(SERVER,) if corrected else None,
            cut=None if count is None else (count, asked.asked["linkage"]),
        )  # fmt: skip

    def party(self, asked: Built) -> tuple[Party, Any]:
        """The site's rows as they are clustered, and which of its rows these are (None if all)."""
        from secfc.cli.clustering.preprocessing import without_gaps
        from secfc.data.federation import Federation
        from secfc.data.parted_rows import DaskRows

        data, settings = self.file.data, asked.asked.settings
        columns = self.run.columns.get(self.file.party)
        if data is None or columns == ():
            return self.without_data(columns)
        if data.drop_unfit and self.run.schema is None:
            raise InputError(
                "drop_unfit = true is about a linkage schema, and the run file has none: leave it out, or "
                "agree on one (`secfc deploy init --schema`)"
            )
        numbers, texts = clustered_columns(self.run, settings)
        columns = numbers if columns is None else columns
        try:
            with bad_input(OSError), cautions_told():
                read = Federation.from_files(
                    [data.path], columns=columns, id_column=data.id_column, gaps=settings.missing != "refuse",
                    categorical=texts, dialect=data.dialect, linkage=self.run.schema,
                    drop_unfit=data.drop_unfit, repeated=asked.asked.persons,
                )  # fmt: skip
        except InputError as error:
            raise InputError(error.text(SITE_FILE)) from error
        left, kept, dropped = without_gaps(
            settings, read.ordered((*columns, *category_names(texts))), asked.asked.get("bound")
        )
        tell_notes(dropped)
        one = replace(left.parties[0], name=self.file.party)
        if asked.asked.persons and one.persons is None:
            raise InputError(
                "persons are protected, and whose each row is is not said: add id_column to [data]"
            )
        if settings.split == "columns" and one.ids is None:
            raise InputError(
                "columns of the same people are joined by IDs: add id_column to [data], or agree on a "
                "linkage schema (`secfc deploy init --schema`)"
            )
        if data.dask is not None:
            with bad_input(OSError):
                one = replace(one, points=DaskRows.of_file(one.points, data.dask))
        return one, None if kept is None else kept[left.names[0]]

    def without_data(self, columns: tuple[str, ...] | None) -> tuple[Party, None]:
        """A party of joined columns that has none.  Raises InputError for another, and for one with rows."""
        from secfc.data.party import Party

        if columns != ():
            raise InputError(
                f"{self.file.party} has no rows: add [data], or if it serves use `secfc deploy serve`"
            )
        if self.file.data is not None:
            raise InputError(
                f"{self.file.party} has no column by the run file, and only computes: leave [data] out"
            )
        return Party.without_data(self.file.party), None

    def tls(self) -> ssl.SSLContext | None:
        """How the hub is known, None for one without TLS."""
        if not self.url.startswith("wss://"):
            return None
        context = ssl.create_default_context(cadata=self.run.authority)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return context

    @property
    def url(self) -> str:
        """Address of the hub."""
        return self.file.hub or self.run.hub
