"""What a site takes part in at all: its own least demands, held against what a run file asks for.

They stand in the site's own file and are judged at the site, before its data are opened, so whoever runs the
hub, the server or another site cannot lower them.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from secfc.deploy.toml_tables import TomlTable
from secfc.errors import InputError
from secfc.roles.exchange import SERVER

LEAST_ROWS = 10
# Days over which `runs_per_month` counts.
MONTH = 30


class BelowFloor(InputError):  # noqa: N818 - named for what happened
    """A run asks for more than this site gives; no share of a row was sent.

    By: nobody.  What to do: agree on other terms, or change this site's floors.

    floor: which of its demands.  spared: what did not happen.
    """

    exit_code = 4  # of commands

    def __init__(
        self,
        floor: str,
        asked: object,
        rule: str,
        spared: str = "Nothing was sent, and no data file was opened",
    ) -> None:
        super().__init__(
            f"the run asks for {asked}, and this site's floor `{floor}` says: {rule}. {spared}. Agree on "
            "other terms with the other sites, or change [floors] in the site file, which is its own"
        )
        self.floor = floor


@dataclass(frozen=True)
class Stakes:
    """What a run would show, in terms of floors.

    policy: a word of `secfc run --disclosure`, "noise", or another algorithm's name.  t: clients that may
    collude; None if nothing is shared.  epsilon, delta: the budget, None without noise.  centers: whether any
    are opened; smallest: points of the smallest cluster whose center is.  sizes: whether clusters' sizes are
    shown; dendrogram: whether the server is told what merging any two clusters, of however few points, would
    cost.  coordinator: the server's public identity.  guesses: of IDs that a client may test against a
    union, by the quota of its tags; inf under a key of tags that all share, None without a union.
    clients: data owners.  deviating: clients that a committee withstands that deviate.  explained: the part
    of a column's variance that labels may explain which owners of other columns are told.  largest_k: the
    most clusters, inf where the data choose.  counted: whether clients tell each other their numbers of
    rows.  partners: public identities of the other parties, as this site sees them; features: names of this
    site's own columns.
    """

    policy: str
    t: int | None
    epsilon: float | None
    delta: float | None
    centers: bool
    smallest: int
    sizes: bool
    coordinator: bytes
    dendrogram: bool = False
    guesses: float | None = None
    clients: int = 0
    deviating: int = 0
    explained: float = 0
    largest_k: float = 0
    counted: bool = True
    partners: Mapping[str, bytes] = field(default_factory=dict)
    features: tuple[str, ...] = ()


@dataclass(frozen=True)
class Floors:
    """The least that a site demands; None and empty demand nothing of that kind.

    policies: those it accepts.  smallest_t: clients that may collude and learn nothing; deviating: that may
    deviate in a committee, and learn nothing more.  largest_epsilon,
    largest_delta: of one run; a run with noise needs both to fit.  total_epsilon: over all runs of this site,
    basic composition.  open_centers: whether centers may be opened; smallest_center: points of a cluster
    whose exact center may be; open_dendrogram: whether the server may be told how far centers are apart, of
    clusters of any size.  show_sizes: whether sizes of clusters may be shown.  changed_rows: rows that
    must differ from those of each earlier run that said anything of rows, if any do: 0, or at least 10, as
    the difference of two outputs tells of the rows between.  coordinators: public identities of servers.
    total_quota: IDs of which any one other client may test whether they are in a union, over all runs of this
    site: quotas add up, and a key of tags that all clients share is more than any.  fewest_clients: data
    owners, this site among them: of the run file, and of those left where this site is to go on without some.
    partners: names and public identities of those that this site works with; a run with any other party is
    refused (of the server `coordinators` says so, if there are any).  fewest_rows: of all clients together,
    as they tell them.  runs_per_month: in any 30 days, this one among them.  features: names of columns that
    may be clustered.  largest_k: clusters.  max_explained: part of the variance of a column that labels may
    explain, where other sites have other columns.
    """

    policies: tuple[str, ...] | None = None
    smallest_t: int = 1
    largest_epsilon: float | None = None
    largest_delta: float | None = None
    total_epsilon: float | None = None
    open_centers: bool = True
    smallest_center: int = 10
    open_dendrogram: bool = False
    show_sizes: bool = True
    changed_rows: int = 0
    coordinators: tuple[bytes, ...] | None = None
    total_quota: int | None = None
    fewest_clients: int = 0
    deviating: int = 0
    partners: Mapping[str, bytes] | None = None
    fewest_rows: int = 0
    runs_per_month: int | None = None
    features: tuple[str, ...] | None = None
    largest_k: int | None = None
    max_explained: float | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            # What is no number compares as neither more nor less, and would let everything pass.
            if isinstance(value, int | float) and not 0 <= value < math.inf:
                raise InputError(
                    f"{each.name} = {value} is no floor: a finite number of at least 0 is. Correct it in "
                    "[floors]"
                )
        if 0 < self.changed_rows < LEAST_ROWS:
            raise InputError(
                f"changed_rows = {self.changed_rows}: 0 for no demand, or at least {LEAST_ROWS}: fewer rows "
                "between two outputs can be told from their difference"
            )

    @classmethod
    def of(cls, table: TomlTable) -> Floors:
        """From [floors] of a site file.  Raises InputError."""
        policies = table.get("policies", list, None)
        coordinators = table.get("coordinators", list, None)
        partners = None if table.get("partners", dict, None) is None else table.table("partners")
        features = table.get("features", list, None)
        number = {name: table.get(name, (int, float), None) for name in BUDGETS}
        found = cls(
            None if policies is None else table.texts("policies"),
            table.get("smallest_t", int, 1),
            deviating=table.get("deviating", int, 0),
            open_centers=table.get("open_centers", bool, True),
            smallest_center=table.get("smallest_center", int, 10),
            open_dendrogram=table.get("open_dendrogram", bool, False),
            show_sizes=table.get("show_sizes", bool, True),
            changed_rows=table.get("changed_rows", int, 0),
            coordinators=None if coordinators is None else _identities(table),
            total_quota=table.get("total_quota", int, None),
            fewest_clients=table.get("fewest_clients", int, 0),
            partners=None
            if partners is None
            else {name: partners.bytes(name, 32) for name in partners.names},
            fewest_rows=table.get("fewest_rows", int, 0),
            runs_per_month=table.get("runs_per_month", int, None),
            features=None if features is None else table.texts("features"),
            largest_k=table.get("largest_k", int, None),
            max_explained=table.get("max_explained", (int, float), None),
            **number,
        )
        table.finish()
        return found

    def check(self, stakes: Stakes, spent: float = 0.0, granted: int = 0, recent: int = 0) -> None:
        """Raise BelowFloor for the first demand that a run does not meet.

        spent: epsilon of earlier runs of this site; granted: their quotas of guesses, together; recent: how
        many runs there were in the last 30 days.
        """
        for floor, asked, rule in (*self._strangers(stakes), *self._refusals(stakes, spent)):
            raise BelowFloor(floor, asked, rule)
        if self.runs_per_month is not None and not recent < self.runs_per_month:
            asked = f"another run, after {recent} in the last {MONTH} days"
            raise BelowFloor("runs_per_month", asked, f"at most {self.runs_per_month} in {MONTH} days")
        if self.total_quota is not None and not granted + (stakes.guesses or 0) <= self.total_quota:
            asked = (
                "tags of IDs under a key that all clients share, by which each can test any guess"
                if stakes.guesses == math.inf
                else f"a quota of {stakes.guesses:g}, after {granted} in earlier runs"
            )
            raise BelowFloor(
                "total_quota", asked, f"at most {self.total_quota} IDs over all runs (quota = ...)"
            )

    def check_rows(self, rows: int) -> None:
        """Raise BelowFloor where all clients together tell too few rows."""
        if not rows >= self.fewest_rows:
            raise BelowFloor(
                "fewest_rows", f"{rows} rows of all clients", f"at least {self.fewest_rows}",
                "No share of a row was sent",
            )  # fmt: skip

    def _strangers(self, stakes: Stakes) -> Iterator[tuple[str, str, str]]:
        """With whom, and on what."""
        if self.partners is not None:
            for name, key in stakes.partners.items():
                if key != self.partners.get(name) and not (name == SERVER and self.coordinators is not None):
                    rule = f"{name} is no partner of this site" if name not in self.partners else (
                        f"{name}'s key is {self.partners[name].hex()}"
                    )  # fmt: skip
                    yield "partners", f"{name} with the key {key.hex()}", rule
        if self.features is not None:
            for name in stakes.features:
                if name not in self.features:
                    yield "features", f"the column {name!r}", f"of {', '.join(map(repr, self.features))} only"
        if self.largest_k is not None and not stakes.largest_k <= self.largest_k:
            yield "largest_k", f"{stakes.largest_k:g} clusters", f"at most {self.largest_k}"
        if self.fewest_rows and not stakes.counted:
            yield "fewest_rows", "numbers of rows that nobody tells", f"at least {self.fewest_rows} together"

    def _refusals(self, stakes: Stakes, spent: float) -> Iterator[tuple[str, str, str]]:
        """Who computes and serves under which policy, and what that opens."""
        if self.policies is not None and stakes.policy not in self.policies:
            yield "policies", stakes.policy, f"one of {', '.join(self.policies) or 'none at all'}"
        if not stakes.clients >= self.fewest_clients:
            yield "fewest_clients", f"a run of {stakes.clients} clients", f"at least {self.fewest_clients}"
        if self.coordinators is not None and stakes.coordinator not in self.coordinators:
            yield "coordinators", f"the server {stakes.coordinator.hex()}", "another server's identity"
        if stakes.t is not None and not stakes.t >= self.smallest_t:
            yield "smallest_t", f"t={stakes.t}", f"at least {self.smallest_t} colluding clients learn nothing"
        if stakes.t is not None and not stakes.deviating >= self.deviating:
            rule = f"at least {self.deviating} clients that deviate learn nothing more"
            yield "deviating", f"deviating={stakes.deviating}", rule
        yield from self._overdrawn(stakes, spent)
        yield from self._too_open(stakes)

    def _too_open(self, stakes: Stakes) -> Iterator[tuple[str, str, str]]:
        """Centers and sizes."""
        if stakes.centers and not self.open_centers:
            yield "open_centers", "opened centers", "they stay closed"
        # Under a budget centers are noisy, and it covers clusters of any size.
        exact = stakes.centers and stakes.epsilon is None
        if exact and not stakes.smallest >= self.smallest_center:
            asked = f"opened centers of clusters of {stakes.smallest} points"
            yield "smallest_center", asked, f"at least {self.smallest_center} points"
        if stakes.dendrogram and not self.open_dendrogram:
            yield (
                "open_dendrogram",
                "a dendrogram, by which the server learns how far centers are apart",
                "these stay closed (leave linkage out of [options])",
            )
        if self.max_explained is not None and not stakes.explained <= self.max_explained:
            yield (
                "max_explained",
                f"labels that explain up to {stakes.explained:g} of a column",
                f"at most {self.max_explained:g}, else nobody is told any (max_explained in [options])",
            )
        if stakes.sizes and not self.show_sizes:
            yield "show_sizes", "sizes of clusters that are shown", (
                "they are hidden: --disclosure own-labels with --sizes hidden hides them"
            )  # fmt: skip

    def _overdrawn(self, stakes: Stakes, spent: float) -> Iterator[tuple[str, str, str]]:
        """Budgets of differential privacy."""
        for name in ("epsilon", "delta"):
            most, asked = getattr(self, f"largest_{name}"), getattr(stakes, name)
            if most is not None and (asked is None or not asked <= most):
                what = f"no noise at all (no {name})" if asked is None else f"{name}={asked:g}"
                yield f"largest_{name}", what, f"at most {most:g}"
        if self.total_epsilon is not None:
            if stakes.epsilon is None:
                yield "total_epsilon", "no noise at all (no epsilon)", f"at most {self.total_epsilon:g}"
            elif not spent + stakes.epsilon <= self.total_epsilon:
                asked = f"epsilon={stakes.epsilon:g}, after {spent:g} in earlier runs"
                yield "total_epsilon", asked, f"at most {self.total_epsilon:g} over all runs"


# Of a party that has nothing to protect.
NOTHING = Floors(smallest_t=0, smallest_center=1, open_dendrogram=True)
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
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["id"], *([name] for name in ids)])
    draft.replace(path)
    return path
