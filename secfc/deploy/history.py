"""What a site remembers of its runs, so that floors hold over all of them: budgets spent, and rows used.

A run is known by its journal (`Journal.name`), since that is what fixes its noise and its masks: the same
session with another journal is another run, and is refused.  A run is charged before the first word of its
rows leaves, so one that met nobody costs nothing, and one that ends for whatever reason afterwards has cost
all of it.

What is charged stands in the site's audit as well, first.  Whoever puts an older copy of the file back, or
loses it, finds the runs since then there; their rows are gone, and floors that are about rows refuse.

Rows are remembered as digests under a key of their own, from which they cannot be guessed without the file,
and the file is its owner's alone: one set for all runs on the same rows, 12 bytes a row.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.secrets.coins import SystemCoins
from secfc.data.inputs import lock_file, write_private
from secfc.data.party import Party
from secfc.deploy.floors import MONTH, BelowFloor
from secfc.errors import InputError
from secfc.roles.exchange import Exchange, Role

REMEMBERED = "remembered.json"
VERSION, SIZE, KEY = 2, 12, 32
PERSON = b"secfc history"
# Sorted digests (m,), of SIZE bytes each.
RowSet = NDArray[np.bytes_]

# Phases in which nothing is said of rows but their number and the magnitude of their values; with each, what
# a party says in it follows from, besides its coins.
BEFORE = {
    "greet": "its key, or what it signed in its audit.jsonl,",
    "introduce": "the number of its rows, or the power of two that their values reach,",
    "agree": "the plan, which follows from the run file, all row counts and this software,",
    "end": "what it ended by",
}


def charge_first(role: Role[Any], charge: Callable[[], None]) -> Role[Any]:
    """The same role; `charge` is called once, before the first exchange that says anything of rows.

    It may refuse: then nothing of rows was said.
    """
    inbox: Any = None
    charged = False
    try:
        while True:
            try:
                exchange: Exchange = role.send(inbox)
            except StopIteration as done:
                return done.value
            if not charged and exchange.phase not in BEFORE:
                charge()
                charged = True
            inbox = yield exchange
    finally:
        role.close()


@dataclass(frozen=True)
class PastRun:
    """A run that said something of rows.

    session: of its run file, hex.  epsilon: its budget of differential privacy, None without noise.  guesses:
    its quota of oblivious tags, of IDs that each other client may have tested.  rows: the name of the set of
    its rows, None for the server.  policy: what it shows, by its name.  time: when it was charged, in UTC.
    name: what people call it.
    """

    session: str
    epsilon: float | None = None
    guesses: int | None = None
    rows: str | None = None
    policy: str | None = None
    time: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if self.time is not None:
            datetime.fromisoformat(self.time)
        if not isinstance(self.session, str) or not isinstance(self.rows, str | None):
            raise ValueError(f"session {self.session!r} and rows {self.rows!r} are names")
        if self.epsilon is not None and not 0 <= self.epsilon < math.inf:
            raise ValueError(f"epsilon={self.epsilon} is no budget")
        if self.guesses is not None and not (isinstance(self.guesses, int) and self.guesses >= 0):
            raise ValueError(f"guesses={self.guesses} is no quota")


@dataclass(frozen=True, repr=False)
class SiteHistory:
    """What was spent, by the journal of each run (hex), and the sets of rows, by their names.

    lost: names of runs whose rows are not on file any more.
    """

    path: Path
    key: bytes
    runs: Mapping[str, PastRun] = field(default_factory=dict)
    rows: Mapping[str, RowSet] = field(default_factory=dict)
    lost: tuple[str, ...] = ()

    @classmethod
    def load(cls, path: Path) -> SiteHistory:
        """What the file says; nothing yet if there is none.  Raises InputError for what is no such file."""
        if not path.exists():
            return cls(path, SystemCoins().bytes(KEY))
        try:
            said = json.loads(path.read_text(encoding="utf-8"))
            if said["version"] == 1:
                return cls(path, _key(said), *_first_version(said))
            if said["version"] != VERSION or said["checksum"] != _checksum(said):
                raise ValueError("another version, or another checksum")
            runs = {str(name): PastRun(**run) for name, run in said["runs"].items()}
            rows = {str(name): _row_set(base64.b64decode(text)) for name, text in said["rows"].items()}
            if any(run.rows not in (None, *rows) for run in runs.values()):
                raise ValueError("a run is on rows that are not there")
            return cls(path, _key(said), runs, rows)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(
                f"{path} is not what a site remembers of its runs ({error}): restore it. Without it, budgets "
                "that were spent would count as unspent"
            ) from error

    def with_charges(self, entries: Iterable[Mapping[str, Any]], session: bytes) -> SiteHistory:
        """With runs that the site's audit holds as charged and this file does not, as an older copy.

        session: of the run that is judged, whose own rows are at hand.  Raises InputError.
        """
        runs, lost = dict(self.runs), []
        for said in entries:
            if said["what"] == "charge" and said.get("journal") not in self.runs:
                try:
                    run = PastRun(said["session"], **said["spends"])
                    runs[said["journal"]] = run
                    if said["of_rows"] and run.session != session.hex():
                        lost.append(run.name or run.session[:16])
                except (ValueError, KeyError, TypeError) as error:
                    raise InputError(
                        f"a line of what {self.path.parent} has on record says nothing of what a run spends "
                        f"({error}): see `secfc deploy audit verify`, and restore the file"
                    ) from error
        return replace(self, runs=runs, lost=tuple(lost))

    def spent(self, session: bytes) -> float:
        """Epsilon of all runs but those of this session."""
        return math.fsum(run.epsilon or 0.0 for run in self._others(session))

    def granted(self, session: bytes) -> int:
        """Quotas of all runs but those of this session."""
        return sum(run.guesses or 0 for run in self._others(session))

    def recent(self, session: bytes, now: datetime | None = None) -> int:
        """Runs of the last 30 days but those of this session; without a time is one of before they had it."""
        since = (now or datetime.now(UTC)) - timedelta(days=MONTH)
        times = (run.time for run in self._others(session) if run.time is not None)
        return sum(datetime.fromisoformat(time) > since for time in times)

    def _others(self, session: bytes) -> Iterator[PastRun]:
        return (run for run in self.runs.values() if run.session != session.hex())

    def check_session(self, session: bytes, journal: bytes | None) -> None:
        """Raise InputError for a session that was used, unless its run goes on with this journal.

        journal: its name; None if there is none.
        """
        name = None if journal is None else journal.hex()
        if any(run.session == session.hex() and known != name for known, run in self.runs.items()):
            raise InputError(
                f"session = {session.hex()[:16]}... was used at this site, and its run has ended or its "
                "journal is lost: what it spent stays spent, and noise drawn anew would be spent again. Make "
                "a run file with a new session (`secfc deploy init`), for all sites"
            )

    def check_rows(self, party: Party, least: int) -> None:
        """Raise BelowFloor if some of a client's rows, and fewer than these, differ from a run's before."""
        if not least:
            return
        if self.lost:
            raise BelowFloor(
                "changed_rows",
                f"a run, while the rows of earlier ones ({', '.join(self.lost)}) are not remembered any more",
                f"at least {least} must differ from theirs; {self.path} is older than this site's record of "
                "them, so put its latest copy back",
                "Nothing of these rows was sent",
            )
        now = self._digests(party)
        for before in self.rows.values():
            if 0 < (changed := changed_rows(now, before)) < least:
                raise BelowFloor(
                    "changed_rows",
                    f"a run on rows of which {changed} differ from those of an earlier one",
                    f"none, or at least {least}, as the difference of two outputs tells of the rows between",
                    "Nothing of these rows was sent",
                )

    def earlier_runs(self, party: Party, session: bytes) -> Iterator[tuple[PastRun, int]]:
        """Runs but those of this session that were on some of a client's rows, and on how many of them."""
        now = self._digests(party)
        shared = {name: common_rows(now, before) for name, before in self.rows.items()}
        for run in self._others(session):
            if run.rows is not None and shared[run.rows]:
                yield run, shared[run.rows]

    def with_run(self, journal: bytes, run: PastRun, party: Party | None) -> SiteHistory:
        """With this run of this journal, for `write`.  party: whose rows it is on; None for the server."""
        rows = self.rows
        if party is not None:
            own = self._digests(party)
            name = hashlib.blake2b(own.tobytes(), digest_size=SIZE, key=self.key).hexdigest()
            run, rows = replace(run, rows=name), {**rows, name: own}
        return replace(self, runs={**self.runs, journal.hex(): run}, rows=rows)

    def write(self) -> None:
        """To its file, of mode 0600, whole or not at all.  Raises OSError."""
        said: dict[str, Any] = {
            "version": VERSION, "key": self.key.hex(),
            "runs": {name: asdict(run) for name, run in self.runs.items()},
            "rows": {name: base64.b64encode(rows.tobytes()).decode() for name, rows in self.rows.items()},
        }  # fmt: skip
        write_private(self.path, json.dumps({**said, "checksum": _checksum(said)}).encode())

    def _digests(self, party: Party) -> RowSet:
        parts = []
        for _, block in party.blocks():
            rows: NDArray[np.float64] = np.ascontiguousarray(block, "<f8")
            parts += [hashlib.blake2b(row.tobytes(), digest_size=SIZE, key=self.key).digest() for row in rows]
        return _row_set(b"".join(parts))


@contextmanager
def history_locked(path: Path) -> Iterator[SiteHistory]:
    """What the file says, which no other process changes meanwhile.  Raises InputError, OSError."""
    with lock_file(path):
        yield SiteHistory.load(path)


def changed_rows(now: RowSet, before: RowSet) -> int:
    """How many rows differ between two sets, in the one that has more of them."""
    return max(len(now), len(before)) - common_rows(now, before)


def common_rows(now: RowSet, before: RowSet) -> int:
    """How many rows two sets have in common, each as often as both have it."""
    ours, times = np.unique(now, return_counts=True)
    theirs, others = np.unique(before, return_counts=True)
    _, i, j = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
    return int(np.minimum(times[i], others[j]).sum())


def _row_set(digests: bytes) -> RowSet:
    return np.sort(np.frombuffer(digests, f"S{SIZE}"))  # which refuses what is no multiple


def _key(said: dict[str, Any]) -> bytes:
    key = bytes.fromhex(said["key"])
    if len(key) != KEY:
        raise ValueError("another key")
    return key


def _checksum(said: Mapping[str, Any]) -> str:
    text = json.dumps({name: value for name, value in said.items() if name != "checksum"}, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16, person=PERSON).hexdigest()


def _first_version(said: Mapping[str, Any]) -> tuple[dict[str, PastRun], dict[str, RowSet]]:
    """Runs and rows of version 1, which knew sessions and no journals: all of them count as ended."""
    epsilon, guesses = said["epsilon"], said.get("guesses", {})
    runs = {
        f"{session}, version 1": PastRun(session, epsilon.get(session), guesses.get(session))
        for session in {**epsilon, **guesses}
    }
    rows = _row_set(b"".join(map(bytes.fromhex, said["rows"])))
    return runs, {"version 1": rows} if len(rows) else {}
