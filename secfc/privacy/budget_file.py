"""What runs on one data set have spent of a budget: a file of its owner, so that it lasts over runs.

Costs add up by basic composition: epsilons, and deltas.  A run is entered with its whole budget before
anything of it is released, and with what it really cost when it has ended; one that crashed, or was
interrupted, stays entered with its whole budget, as nobody knows how far it came.  A run that resumes is the
same run.

The file names the data by a digest under a key of its own, which says nothing of them without the file.  It
is secret all the same: it tells when which data were used.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.secrets.coins import SystemCoins
from secfc.data.inputs import lock_file, write_private
from secfc.errors import InputError, OverBudget, PrivacyError
from secfc.privacy.events import Neighbors

VERSION, PERSON = 1, b"secfc ledger"


@dataclass(frozen=True)
class RunRecord:
    """A run: its name (hex), when it began (ISO 8601), what ran, and its cost; ended: that cost is known."""

    name: str
    began: str
    what: str
    epsilon: float
    delta: float
    ended: bool = False


@dataclass(frozen=True, repr=False)
class BudgetLedger:
    """A ledger file as it stands: secret.  Made by `BudgetLedger.read` and `entered`, changed by neither.

    key: of the digest of the data.  data: that digest, empty before the first run.  neighbors: whom the
    budget protects, in words.  total: what all runs may cost together, None for any amount.
    """

    path: Path
    key: bytes
    data: str = ""
    neighbors: str = ""
    total: float | None = None
    runs: tuple[RunRecord, ...] = ()

    def __repr__(self) -> str:
        return f"Spendings({str(self.path)!r}, {len(self.runs)} runs)"

    @classmethod
    def read(cls, path: Path) -> BudgetLedger:
        """What the file says; nothing spent yet if there is none.

        Raises InputError for a file that is none, or was changed or cut off; OSError.
        """
        if not path.exists():
            return cls(path, SystemCoins().bytes(32))
        text = path.read_bytes()
        try:
            said = json.loads(text)
            whole = said.pop("checksum") == _checksum(said)
            version = said["version"]
            runs = tuple(RunRecord(**run) for run in said["runs"])
            key, total = bytes.fromhex(said["key"]), said["total"]
            found = cls(path, key, said["data"], said["neighbors"], total, runs)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise InputError(f"{path} is no ledger of spent budgets: {RESTORE}") from None
        if not whole:
            raise InputError(f"{path} was changed since it was written: {RESTORE}")
        if version != VERSION:
            raise InputError(f"{path} is of version {version}, and this software reads {VERSION}: update it")
        return found

    def write(self) -> None:
        """To its file, of mode 0600, whole or not at all.  Raises OSError."""
        said = {
            "version": VERSION, "key": self.key.hex(), "data": self.data, "neighbors": self.neighbors,
            "total": self.total, "runs": [asdict(run) for run in self.runs],
        }  # fmt: skip
        text = json.dumps({**said, "checksum": _checksum(said)}, indent=1)
        write_private(self.path, text.encode())

    def spent(self) -> tuple[float, float]:
        """All that was entered, added up: epsilon and delta."""
        return math.fsum(run.epsilon for run in self.runs), math.fsum(run.delta for run in self.runs)

    def about(self, data: str, neighbors: Neighbors, *, same_people: bool) -> BudgetLedger:
        """For these data, of this digest.

        Raises PrivacyError for a ledger of others; same_people: they are of the people that it is of.
        """
        if self.data and self.data != data and not same_people:
            raise PrivacyError(
                f"{self.path} is the ledger of other data: budgets add up over runs on the same people. Give "
                "these data a ledger of their own; if they are new rows of the same people, add --same-people"
            )
        if self.neighbors and self.neighbors != str(neighbors):
            raise PrivacyError(
                f"{self.path} counts for neighbors that {self.neighbors}, this run for such that "
                f"{neighbors}: costs under different relations do not add up. Protect the same, or keep "
                "another ledger"
            )
        return replace(self, data=data, neighbors=str(neighbors))

    def within(self, total: float | None) -> BudgetLedger:
        """With this total, which is set once.  Raises PrivacyError for another than was set."""
        if total is None or total == self.total:
            return self
        if self.total is not None:
            raise PrivacyError(
                f"a total of epsilon={total:g}, and {self.path} has one of {self.total:g}: a total that is "
                "raised afterwards promised nothing. Leave --total-epsilon out, or keep another ledger"
            )
        return replace(self, total=total)

    def enter_run(self, run: RunRecord) -> BudgetLedger:
        """With this run, in place of what stood there of it.  Raises OverBudget beyond the total.

        One that goes on costs no less than it was entered with before; one that ended what it says.
        """
        was = max((one.epsilon for one in self.runs if one.name == run.name), default=0.0)
        if not run.ended:
            run = replace(run, epsilon=max(run.epsilon, was))
        others = tuple(one for one in self.runs if one.name != run.name)
        before = math.fsum(one.epsilon for one in others)
        left = 0.0 if self.total is None else math.floor(1e4 * (self.total - before)) / 1e4
        if self.total is not None and before + run.epsilon > self.total * (1 + 1e-9):
            raise OverBudget(
                f"epsilon={run.epsilon:g} after {before:g} in earlier runs is more than the "
                f"total of {self.total:g} in {self.path}: "
                + (f"run with epsilon={left:.4g} or less" if left > 0 else "nothing is left for these data")
            )
        return replace(self, runs=(*others, run))


RESTORE = "restore it from a backup. Without it, budgets that were spent would count as unspent"


def new_name() -> str:
    """A name for a run, of no other run (hex)."""
    return SystemCoins().bytes(16).hex()


def digest_of_rows(key: bytes, blocks: Iterable[NDArray[Any]]) -> str:
    """A digest (hex) of rows, blocks (m, d) of floats, that is the same in whatever order they come."""
    total = 0
    for block in blocks:
        for row in np.ascontiguousarray(block, "<f8"):
            one = hashlib.blake2b(row.tobytes(), digest_size=32, key=key, person=PERSON).digest()
            total += int.from_bytes(one, "little")
    return f"{total % 2**256:064x}"


@dataclass(frozen=True)
class LedgerTerms:
    """Where a ledger is, what all runs in it may cost together, and whether the people are as before."""

    path: Path
    total: float | None = None
    same_people: bool = False


@dataclass
class EnteredRun:
    """A run that was entered.  cost: what it really cost, if that is known when it ends; after: how the
    ledger stands then, in words.
    """

    cost: float | None = None
    after: str = ""


@contextmanager
def entering_run(
    terms: LedgerTerms, run: RunRecord, neighbors: Neighbors, parties: Iterable[Any]
) -> Iterator[EnteredRun]:
    """Within the body the run may release what it is entered with.  parties: whose rows it uses.

    Raises PrivacyError, OverBudget or InputError before the body; InputError for a file that cannot be
    written, or that has lost the entry.
    """
    path, done = terms.path, EnteredRun()
    try:
        with lock_file(path):
            book = BudgetLedger.read(path)
            rows = (block for party in parties for _, block in party.blocks())
            book = book.about(digest_of_rows(book.key, rows), neighbors, same_people=terms.same_people)
            book.within(terms.total).enter_run(run).write()
    except OSError as error:
        raise InputError(
            f"ledger {path}: {error.strerror or error}. Name a file that can be written"
        ) from error
    yield done
    with lock_file(path):
        book = BudgetLedger.read(path)
        if not any(one.name == run.name for one in book.runs):
            raise InputError(f"ledger {path} has lost the entry of this run: {RESTORE}")
        cost = run.epsilon if done.cost is None else min(done.cost, run.epsilon)
        book = book.enter_run(replace(run, epsilon=cost, ended=True))
        book.write()
    epsilon, delta = book.spent()
    runs = "1 run" if len(book.runs) == 1 else f"{len(book.runs)} runs"
    of = "" if book.total is None else f" of {book.total:g}"
    done.after = f"{runs} on these people: epsilon = {epsilon:.4g}{of} at delta = {delta:.3g} spent"


def _checksum(said: dict[str, Any]) -> str:
    text = json.dumps({name: value for name, value in said.items() if name != "checksum"}, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16, person=PERSON).hexdigest()
