"""`--ledger FILE`: a run is entered before it begins, and with what it cost when it has ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from secfc.cli.errors import RefusedInput

if TYPE_CHECKING:
    from secfc.algorithm import Clustering
    from secfc.cli.method import AskedOptions
    from secfc.data.federation import Federation

# In the directory of a checkpoint: the name under which the run was entered.
ENTRY = "ledger-entry"


class Entered:
    """A run that was entered.  after: how the ledger stands when it has ended, in words."""

    def __init__(self) -> None:
        self.cost: float | None = None
        self.after = ""

    def settle(self, result: Clustering, delta: float) -> None:
        """What the run cost, as its own ledger says."""
        self.cost = result.ledger.epsilon(delta)


@contextmanager
def spending_budget(asked: AskedOptions, algorithm: Any, federation: Federation) -> Iterator[Entered]:
    """Within the body the run may release what its budget pays for.  Does nothing without --ledger.

    Raises PrivacyError, OverBudget or InputError before anything is released.
    """
    from secfc.privacy.budget_file import RESTORE, BudgetLedger, RunRecord, digest_of_rows, exclusive_lock

    path, done, promised = asked.get("ledger"), Entered(), algorithm.capabilities.promise()
    if path is None or promised is None:
        yield done
        return
    try:
        with exclusive_lock(path):
            book = BudgetLedger.read(path)
            rows = (block for party in federation.parties for _, block in party.blocks())
            data = digest_of_rows(book.key, rows)
            book = book.about(data, promised.neighbors, same_people=asked["same_people"])
            run = RunRecord(
                name_of(asked.settings.checkpoint), datetime.now(UTC).isoformat(timespec="seconds"),
                type(algorithm.capabilities.inner or algorithm).__name__, asked["epsilon"], asked["delta"],
            )  # fmt: skip
            book.within(asked["total_epsilon"]).enter_run(run).write()
    except OSError as error:
        raise RefusedInput(
            f"--ledger {path}: {error.strerror or error}. Name a file that can be written."
        ) from error
    yield done
    with exclusive_lock(path):
        book = BudgetLedger.read(path)
        if not any(one.name == run.name for one in book.runs):
            raise RefusedInput(f"--ledger {path} has lost the entry of this run: {RESTORE}.")
        cost = run.epsilon if done.cost is None else min(done.cost, run.epsilon)
        book = book.enter_run(RunRecord(run.name, run.began, run.what, cost, run.delta, ended=True))
        book.write()
    epsilon, delta = book.spent()
    runs = "1 run" if len(book.runs) == 1 else f"{len(book.runs)} runs"
    of = "" if book.total is None else f" of {book.total:g}"
    done.after = f"{runs} on these people: epsilon = {epsilon:.4g}{of} at delta = {delta:.3g} spent"


def name_of(checkpoint: Path | None) -> str:
    """A new name for a run; that which it had where it resumes."""
    from secfc.data.inputs import write_private
    from secfc.privacy.budget_file import new_name

    fresh = new_name()
    if checkpoint is None:
        return fresh
    path = checkpoint / ENTRY
    if path.exists():
        return path.read_text().strip()
    checkpoint.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(path, fresh.encode())
    return fresh
