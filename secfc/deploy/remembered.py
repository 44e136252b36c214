"""What a site remembers of its runs, so that floors hold over all of them: budgets spent, and rows used.

Rows are remembered as digests under a key of their own, from which they cannot be guessed without the file,
and the file is its owner's alone.  What is spent is written down before anything is said.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from field.secrets.coins import SystemCoins
from secfc.data.inputs import InputError
from secfc.data.party import Party
from secfc.data.private_file import write_private
from secfc.deploy.floors import BelowFloor

VERSION, SIZE = 1, 12


@dataclass(frozen=True, repr=False)
class Remembered:
    """What was spent, by the session of each run, and the last rows.

    epsilon: budgets of differential privacy.  guesses: quotas of oblivious tags, of IDs that each other
    client may have tested.  rows: digests of the rows of the last run.
    """

    path: Path
    key: bytes
    epsilon: dict[str, float] = field(default_factory=dict)
    rows: tuple[str, ...] = ()
    guesses: dict[str, int] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> Remembered:
        """What the file says; nothing yet if there is none.  Raises InputError for what is no such file."""
        if not path.exists():
            return cls(path, SystemCoins().bytes(32))
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            if found["version"] != VERSION:
                raise ValueError
            epsilon = {str(session): float(value) for session, value in found["epsilon"].items()}
            guesses = {str(session): int(value) for session, value in found.get("guesses", {}).items()}
            return cls(path, bytes.fromhex(found["key"]), epsilon, tuple(map(str, found["rows"])), guesses)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"{path} is not what a site remembers of its runs: restore it. Without it, budgets that were "
                "spent would count as unspent"
            ) from error

    def spent(self, session: bytes) -> float:
        """Epsilon of all runs but this one."""
        return sum(value for name, value in self.epsilon.items() if name != session.hex())

    def granted(self, session: bytes) -> int:
        """Quotas of all runs but this one."""
        return sum(value for name, value in self.guesses.items() if name != session.hex())

    def check_rows(self, party: Party, least: int) -> None:
        """Raise BelowFloor if some of a client's rows changed since the last run, and fewer than these."""
        if not least or not self.rows:
            return
        now, before = Counter(self._digests(party)), Counter(self.rows)
        changed = max(sum((now - before).values()), sum((before - now).values()))
        if 0 < changed < least:
            raise BelowFloor(
                "changed_rows",
                f"a run on rows of which {changed} differ from those of the last",
                f"none, or at least {least}, as the difference of two outputs tells of the rows between",
            )

    def with_run(
        self, session: bytes, epsilon: float | None, party: Party | None, guesses: int | None = None
    ) -> Remembered:
        """With this run, for `write`."""
        spent = self.epsilon if epsilon is None else {**self.epsilon, session.hex(): epsilon}
        rows = self.rows if party is None else tuple(sorted(self._digests(party)))
        granted = self.guesses if guesses is None else {**self.guesses, session.hex(): guesses}
        return replace(self, epsilon=spent, rows=rows, guesses=granted)

    def write(self) -> None:
        """To its file, of mode 0600, whole or not at all.  Raises OSError."""
        told = {"version": VERSION, "key": self.key.hex(), "epsilon": self.epsilon, "rows": self.rows}
        if self.guesses:
            told["guesses"] = self.guesses
        write_private(self.path, json.dumps(told).encode())

    def _digests(self, party: Party) -> Iterable[str]:
        for _, block in party.blocks():
            rows: NDArray[np.float64] = np.ascontiguousarray(block, "<f8")
            for row in rows:
                yield hashlib.blake2b(row.tobytes(), digest_size=SIZE, key=self.key).hexdigest()
