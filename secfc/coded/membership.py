"""Who contributes which rows: a value, so that sharing and iteration know nothing of it.

`Open` is SecFC's main protocol: every client shares its own rows, and everybody knows whose they are.
`Private` is its section 6 and Appendix B: rows are the union of all IDs, found by private set union, and
every client shares all of them, zeros where it owns none.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

from numpy.typing import NDArray

from psu import plan as psu_plan
from psu import ristretto
from secfc.coded.contribution import Contribution as Contribution
from secfc.coded.contribution import own_rows as own_rows
from secfc.coded.contribution import settled as settled
from secfc.coded.contribution import spread_out as spread_out
from secfc.coded.hidden import Conflict as Conflict
from secfc.coded.hidden import Counts as Counts
from secfc.coded.hidden import Settling as Settling
from secfc.coded.hidden import Union as Union
from secfc.coded.hidden import UnionDraft as UnionDraft
from secfc.coded.hidden import digest_of_counts as digest_of_counts
from secfc.coded.hidden import merged_rows as merged_rows
from secfc.coded.hidden import multiply as multiply
from secfc.coded.layout import Layout, OwnRows
from secfc.data.arguments import SWITCH, WHOLE, Kind, hold, optional
from secfc.data.inputs import Caution
from secfc.data.linkage import Linkage
from secfc.roles.description import Terms
from secfc.roles.exchange import PartyId

Array = NDArray[Any]
# Who can compute tags of IDs: any client, or only the server and t+1 clients together.
Tagging = Literal["shared key", "oblivious"]
SHARED_KEY = (
    "all clients share the key of tags, so any one of them can test guesses of IDs against the union at will "
    "and see their clusters"
)


class Membership(Protocol):
    """How rows come about."""

    def draft(
        self,
        clients: tuple[PartyId, ...],
        counts: tuple[int, ...],
        t: int,
        session: bytes,
        terms: Terms,
    ) -> Layout | UnionDraft:
        """The layout of rows, where it is public; else what is public before the parties find it.

        session: 32 public bytes that no other run uses.  terms: what the run was asked for.
        """
        ...

    @property
    def learned(self) -> tuple[str, ...]:
        """What the server learned from it, in sentences."""
        ...


# --- rows that are public ------------------------------------------------------------------------


@dataclass(frozen=True)
class Open:
    """Every client shares its own rows; row counts and owners are public.  Exchanges nothing."""

    learned = ()

    def draft(
        self,
        clients: tuple[PartyId, ...],
        counts: tuple[int, ...],
        t: int,
        session: bytes,
        terms: Terms,
    ) -> OwnRows:
        return OwnRows(counts)


# --- rows that the parties find --------------------------------------------------------------------


@dataclass(frozen=True)
class Private:
    """Nobody learns which point belongs to whom, nor how many points any client has.

    mode: who may collude in the union, `psu.Threshold(t)` with SecFC's t by default, or `psu.Server()`;
    their docstrings say what leaks.  bound: a public bound on the size of the union, a matter of policy.
    sized: estimate the size of the union first, instead of making tables for the bound.
    merge: an ID that several clients hold counts once.  With merge=False the IDs must be disjoint, as a point
    held by c clients would be clustered as c times itself.  Before any point is shared, the parties find out
    whether they are, and that only (psu.disjoint); if not, all raise SharedIds.  That stops mistakes: a
    client that misstates which rows it holds can hide that it shares one.
    counts: "hidden", nobody learns how many clients hold a row (`secfc.coded.merging`), as long as clients
    follow the protocol; or "opened", to the server and all clients (not which clients).  Opened ones
    withstand clients that share false data: rows are then computed on as multiples of the points, by the
    least common multiple of the counts, so nothing is divided modulo P; where that does not fit all raise
    TooManyHolders.
    on_conflict: of an ID whose holders have different data.  "fail": all learn which rows are in dispute, and
    raise DisputedRows.  "separate": each version is a row of its own, and what has equal data still one; data
    are compared as they are given, before rounding.  "mean": the mean of all holders, each with the same
    weight; nobody learns that they differ, and all rows grow by the least common multiple of the counts (of
    1, ..., n where those are hidden: 5, 12 and 23 bits more of distances for 3, 5 and 10 clients).

    schema: how IDs were made of columns, which the parties compare before anything moves: PlanMismatch names
    the field where two differ.  The IDs are keys already (`Federation.from_files(linkage=)`); None if they
    stand as they are.

    verify: members of the committee tell each other what they open, and compute again what the server
    announces: which IDs there are, how many hold a row, which rows are in dispute; with `counts="hidden"` all
    clients also divide as it does.  A server that announces something else is caught, and named
    (FaultyServer), if these clients follow the protocol.  Not in the server mode, which has no committee.
    tags: of IDs, what the union is found by.  "shared key": all clients have the key, and any one can test
    guesses of IDs at will, of which there are few where IDs are numbers.  "oblivious": it takes the server
    and t+1 clients to compute one, and each answers a client for at most `quota` IDs (psu/README.md).
    quota: a public number, at least as large as anybody's number of IDs and not derived from it; every client
    computes for all of it, about a second for 2,000.  It is of one run: whoever runs again grants it again.

    IDs are those of the parties, or the data themselves if a party has none; equal IDs within a client
    must have equal data and are one row.

    >>> import secfc
    >>> ids = [["ann", "bob"], ["bob", "dan"], ["eve"]]
    >>> rows = [[[0, 0], [9, 9]], [[9, 9], [0, 1]], [[8, 9]]]
    >>> federation = secfc.Federation.from_arrays(rows, ids=ids)
    >>> result = secfc.fit(secfc.SecFC(k=2, t=1, membership=Private()), federation)
    >>> len(result.history[-1]), bool(result.labels[0][1] == result.labels[1][0])
    (4, True)
    """

    mode: psu_plan.Mode | None = None
    bound: int = 1 << 24
    sized: bool = True
    merge: bool = True
    counts: Counts = "opened"
    on_conflict: Conflict = "fail"
    schema: Linkage | None = None
    verify: bool = False
    tags: Tagging = "shared key"
    quota: int | None = None

    def __post_init__(self) -> None:
        mode = Kind(
            "a mode of psu",
            "Pass Threshold(t) or Server() of psu",
            lambda v: v if isinstance(v, psu_plan.Mode) else None,
        )
        hold(
            self,
            {
                "mode": optional(mode, "a threshold of SecFC's t"),
                "bound": WHOLE,
                "sized": SWITCH,
                "verify": SWITCH,
                "merge": SWITCH,
                "quota": optional(WHOLE, "none, for tags under a shared key"),
            },
        )
        for name, kind in (("counts", Counts), ("on_conflict", Conflict), ("tags", Tagging)):
            words = get_args(kind)
            if getattr(self, name) not in words:
                raise ValueError(f"{name}={getattr(self, name)!r} is none of {', '.join(map(repr, words))}")
        if self.schema is not None and not isinstance(self.schema, Linkage):
            raise ValueError(
                f"schema is a {type(self.schema).__name__}: a Linkage is needed, as "
                "secfc.data.linkage.read_linkage has it of a file"
            )
        if self.verify and isinstance(self.mode, psu_plan.Server):
            raise ValueError(
                "verify=True with mode=Server(): there is no committee to check the server. Use Threshold(t)"
            )
        if (self.tags == "oblivious") != (self.quota is not None) or self.quota == 0:
            raise ValueError(
                f"tags={self.tags!r} with quota={self.quota}: oblivious tags need a quota of at least 1, a "
                'public number of IDs that no client exceeds, as Private(tags="oblivious", quota=100_000); '
                "others have none"
            )
        if not self.merge and self.on_conflict == "mean":
            raise ValueError(
                'on_conflict="mean" with merge=False: there no two clients hold the same ID, so there is no '
                "mean. Use merge=True, or leave on_conflict out"
            )

    @property
    def learned(self) -> tuple[str, ...]:
        facts = ["the size of the union and pseudonyms of its IDs, not whose they are"]
        if not self.merge:
            facts.append("that every row has one holder (so did every client)")
        elif self.counts == "opened":
            facts.append("how many clients hold each row (so did every client), not which")
        if self.merge and self.on_conflict == "fail":
            facts.append("that holders of the same ID have the same data (so did every client)")
        return tuple(facts)

    def draft(
        self,
        clients: tuple[PartyId, ...],
        counts: tuple[int, ...],
        t: int,
        session: bytes,
        terms: Terms,
    ) -> UnionDraft:
        mode = self.mode or psu_plan.Threshold(t)
        if self.quota:
            ristretto.require()
        else:
            more = 'tags="oblivious" and a quota prevent that (psu/README.md)'
            warnings.warn(f"{SHARED_KEY}; {more}", Caution, stacklevel=3)
        union = psu_plan.Plan(len(clients), mode, session, self.bound, self.sized, quota=self.quota or 0)
        return UnionDraft(union, clients, terms, self.merge, self.counts, self.on_conflict, self.verify)
