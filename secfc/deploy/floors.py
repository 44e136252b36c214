"""What a site takes part in at all: its own least demands, held against what a run file asks for.

They stand in the site's own file and are judged at the site, before its data are opened, so whoever runs the
hub, the server or another site cannot lower them.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.secrets.coins import SystemCoins
from secfc.data.inputs import InputError, write_private
from secfc.data.party import Party
from secfc.deploy.toml_tables import TomlTable

LEAST_ROWS = 10


class BelowFloor(InputError):  # noqa: N818 - named for what happened
    """A run asks for more than the site gives.  floor: which of its demands.  No data were opened."""

    exit_code = 4  # of commands

    def __init__(self, floor: str, asked: object, rule: str) -> None:
        super().__init__(
            f"the run asks for {asked}, and this site's floor `{floor}` says: {rule}. Nothing was sent, and "
            "no data file was opened. Agree on other terms with the other sites, or change [floors] in the "
            "site file, which is this site's alone"
        )
        self.floor = floor


@dataclass(frozen=True)
class Stakes:
    """What a run would show, in terms of floors.

    policy: a word of `secfc run --disclosure`, "noise", or another algorithm's name.  t: clients that may
    collude; None if nothing is shared.  epsilon, delta: the budget, None without noise.  centers: whether any
    are opened; smallest: points of the smallest cluster whose center is.  sizes: whether clusters' sizes are
    shown.  coordinator: the server's public identity.  guesses: of IDs that a client may test against a
    union, by the quota of its tags; inf under a key of tags that all share, None without a union.
    """

    policy: str
    t: int | None
    epsilon: float | None
    delta: float | None
    centers: bool
    smallest: int
    sizes: bool
    coordinator: bytes
    guesses: float | None = None


@dataclass(frozen=True)
class Floors:
    """The least that a site demands; None and empty demand nothing of that kind.

    policies: those it accepts.  smallest_t: clients that may collude and learn nothing.  largest_epsilon,
    largest_delta: of one run; a run with noise needs both to fit.  total_epsilon: over all runs of this site,
    basic composition.  open_centers: whether centers may be opened; smallest_center: points of a cluster
    whose exact center may be.  show_sizes: whether sizes of clusters may be shown.  changed_rows: rows that
    must differ from those of the last run whose output was opened, if any do: 0, or at least 10, as the
    difference of two outputs tells of the rows between.  coordinators: public identities of servers.
    total_quota: IDs of which any one other client may test whether they are in a union, over all runs of this
    site: quotas add up, and a key of tags that all clients share is more than any.
    """

    policies: tuple[str, ...] | None = None
    smallest_t: int = 1
    largest_epsilon: float | None = None
    largest_delta: float | None = None
    total_epsilon: float | None = None
    open_centers: bool = True
    smallest_center: int = 10
    show_sizes: bool = True
    changed_rows: int = 0
    coordinators: tuple[bytes, ...] | None = None
    total_quota: int | None = None

    def __post_init__(self) -> None:
        if 0 < self.changed_rows < LEAST_ROWS or self.changed_rows < 0:
            raise InputError(
                f"changed_rows = {self.changed_rows}: 0 for no demand, or at least {LEAST_ROWS}: fewer rows "
                "between two outputs can be told from their difference"
            )

    @classmethod
    def of(cls, table: TomlTable) -> Floors:
        """From [floors] of a site file.  Raises InputError."""
        policies = table.get("policies", list, None)
        coordinators = table.get("coordinators", list, None)
        number = {name: table.get(name, (int, float), None) for name in BUDGETS}
        found = cls(
            None if policies is None else table.texts("policies"),
            table.get("smallest_t", int, 1),
            open_centers=table.get("open_centers", bool, True),
            smallest_center=table.get("smallest_center", int, 10),
            show_sizes=table.get("show_sizes", bool, True),
            changed_rows=table.get("changed_rows", int, 0),
            coordinators=None if coordinators is None else _identities(table),
            total_quota=table.get("total_quota", int, None),
            **number,
        )
        table.finish()
        return found

    def check(self, stakes: Stakes, spent: float = 0.0, granted: int = 0) -> None:
        """Raise BelowFloor for the first demand that a run does not meet.

        spent: epsilon of earlier runs of this site; granted: their quotas of guesses, together.
        """
        for floor, asked, rule in self._refusals(stakes, spent):
            raise BelowFloor(floor, asked, rule)
        if self.total_quota is not None and granted + (stakes.guesses or 0) > self.total_quota:
            asked = (
                "tags of IDs under a key that all clients share, by which each can test any guess"
                if stakes.guesses == math.inf
                else f"a quota of {stakes.guesses:g}, after {granted} in earlier runs"
            )
            raise BelowFloor(
                "total_quota", asked, f"at most {self.total_quota} IDs over all runs (quota = ...)"
            )

    def _refusals(self, stakes: Stakes, spent: float) -> Iterator[tuple[str, str, str]]:
        if self.policies is not None and stakes.policy not in self.policies:
            yield "policies", stakes.policy, f"one of {', '.join(self.policies) or 'none at all'}"
        if self.coordinators is not None and stakes.coordinator not in self.coordinators:
            yield "coordinators", f"the server {stakes.coordinator.hex()}", "another server's identity"
        if stakes.t is not None and stakes.t < self.smallest_t:
            yield "smallest_t", f"t={stakes.t}", f"at least {self.smallest_t} colluding clients learn nothing"
        for name in ("epsilon", "delta"):
            most, asked = getattr(self, f"largest_{name}"), getattr(stakes, name)
            if most is not None and (asked is None or asked > most):
                what = f"no noise at all (no {name})" if asked is None else f"{name}={asked:g}"
                yield f"largest_{name}", what, f"at most {most:g}"
        if self.total_epsilon is not None:
            if stakes.epsilon is None:
                yield "total_epsilon", "no noise at all (no epsilon)", f"at most {self.total_epsilon:g}"
            elif spent + stakes.epsilon > self.total_epsilon:
                asked = f"epsilon={stakes.epsilon:g}, after {spent:g} in earlier runs"
                yield "total_epsilon", asked, f"at most {self.total_epsilon:g} over all runs"
        if stakes.centers and not self.open_centers:
            yield "open_centers", "opened centers", "they stay closed"
        # Under a budget centers are noisy, and it covers clusters of any size.
        exact = stakes.centers and stakes.epsilon is None
        if exact and stakes.smallest < self.smallest_center:
            asked = f"opened centers of clusters of {stakes.smallest} points"
            yield "smallest_center", asked, f"at least {self.smallest_center} points"
        if stakes.sizes and not self.show_sizes:
            yield "show_sizes", "sizes of clusters that are shown", (
                "they are hidden: --disclosure own-labels with --sizes hidden hides them"
            )  # fmt: skip


# Of a party that has nothing to protect.
NOTHING = Floors(smallest_t=0, smallest_center=1)
BUDGETS = tuple(f.name for f in fields(Floors) if f.name.endswith(("epsilon", "delta")))


def _identities(table: TomlTable) -> tuple[bytes, ...]:
    found = []
    for text in table.texts("coordinators"):
        try:
            key = bytes.fromhex(text)
        except ValueError:
            key = b""
        if len(key) != 32:
            raise InputError(f"{table.where}: coordinators hold 64 hexadecimal digits each, not {text!r}")
        found.append(key)
    return tuple(found)


# --------------------------------------------------------------------------------------------------
# The IDs of a site that are in dispute, in a file of its own: on no screen and in no log.

NAME = "disputed-ids.csv"


def write_disputed(folder: Path, ids: Collection[Any]) -> Path:
    """Write a line an ID, under the heading `id`, for its owner's eyes only (mode 0600): where.

    A file of an earlier run is replaced.  Raises OSError.
    """
    path, draft = folder / NAME, folder / f"{NAME}.draft"
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", newline="") as file:
        csv.writer(file).writerows([["id"], *([name] for name in ids)])
    draft.replace(path)
    return path


# --------------------------------------------------------------------------------------------------
# What a site remembers of its runs, so that floors hold over all of them: budgets spent, and rows used.
#
# Rows are remembered as digests under a key of their own, from which they cannot be guessed without the file,
# and the file is its owner's alone.  What is spent is written down before anything is said.

VERSION, SIZE = 1, 12


@dataclass(frozen=True, repr=False)
class SiteHistory:
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
    def load(cls, path: Path) -> SiteHistory:
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
    ) -> SiteHistory:
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
