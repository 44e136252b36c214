"""Who contributes which rows: a value, so that sharing and iteration know nothing of it.

`Open` is SecFC's main protocol: every client shares its own rows, and everybody knows whose they are.
`Private` is its section 6 and Appendix B: rows are the union of all IDs, found by private set union, and
every client shares all of them, zeros where it owns none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from field.code.rows import CodedRows
from field.secrets.coins import Coins
from psu import merge
from psu import plan as psu_plan
from psu.identify import digests, row_digests, tags
from secfc.coded.layout import AllRows, Layout, OwnRows
from secfc.coded.plan import Plan
from secfc.coded.union import (
    Relay,
    Seat,
    blaming,
    count_holders,
    find_disputes,
    find_union,
    require_disjoint,
    row_numbers,
    take_seat,
)
from secfc.data.arguments import SWITCH, WHOLE, Kind, hold, optional
from secfc.data.federation import Federation
from secfc.data.party import Party
from secfc.roles.agreement import agree
from secfc.roles.description import LOCAL, Terms, described, digest_of
from secfc.roles.exchange import ALIGN, SERVER, SETTLE, DisputedRows, PartyId, Role

Array = NDArray[Any]
# The server's part of bringing shares to the plan's multiple of their data.
Settling = Callable[[], Role[None]]


@dataclass(frozen=True, repr=False, eq=False)
class Contribution:
    """What one client brings: how to read its part of a span of rows, and which rows are its own.

    read(begin, end): (end - begin, d) integers of rows begin, ... of its span; secret.
    rows: for each of its own points, in its own order, the row among all m; secret if owners are hidden.
    settle: a role fragment that brings the shares of all rows to the plan's multiple of their data.
    """

    name: str
    read: Callable[[int, int], Array]
    rows: Array
    settle: Callable[[CodedRows], Role[None]]

    def own(self, labels: Array) -> Array:
        """The labels of my own points, in my order: (m_j,) int32, -1 where my rows do not count."""
        return np.where(self.rows < 0, -1, labels[self.rows]).astype(np.int32)

    def among(self, shared: Plan, kept: Plan) -> Contribution:
        """The same contribution when only some clients' rows count; rows are -1 if mine do not."""
        if kept is shared:
            return self
        j = shared.clients.index(self.name)
        first, count = kept.layout.span(j)
        gone = np.full(len(self.rows), -1)
        return replace(self, rows=np.arange(first, first + count) if count else gone)


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


def settled(rows: CodedRows | None = None) -> Role[None]:
    """Nothing to settle: every row has one contributor."""
    yield from ()


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


def own_rows(plan: Plan, party: Party) -> Contribution:
    """What a client brings whose rows are its own."""
    first, count = plan.layout.span(plan.clients.index(party.name))

    def read(begin: int, end: int) -> Array:
        points = np.asarray(party.points[begin:end])
        return plan.quantizer(points, owner=f"client {party.name!r}", first_row=begin)

    return Contribution(party.name, read, np.arange(first, first + count), settled)


# --- rows that the parties find --------------------------------------------------------------------


@dataclass(frozen=True)
class Private:
    """Nobody learns which point belongs to whom, nor how many points any client has.

    mode: who may collude in the union, `psu.Threshold(t)` with SecFC's t by default, or `psu.Server()`;
    their docstrings say what leaks.  bound: a public bound on the size of the union, a matter of policy.
    sized: estimate the size of the union first, instead of making tables for the bound.
    merge: an ID that several clients hold counts once.  That opens, to the server and all clients, how
    many clients hold each row (not which), and which rows are in dispute.  Rows are then computed on as
    multiples of the points, by the least common multiple of these numbers, so nothing is divided modulo P;
    where that does not fit all raise TooManyHolders.  With merge=False nothing of
    this is opened, and the IDs must be disjoint, as a point held by c clients would be clustered as c times
    itself.  Before any point is shared, the parties find out whether they are, and that only (psu.disjoint);
    if not, all raise SharedIds.  That stops mistakes: a client that misstates which rows it holds can hide
    that it shares one.

    IDs are those of the parties, or the data themselves if a party has none; equal IDs within a client
    must have equal data and are one row.
    """

    mode: psu_plan.Mode | None = None
    bound: int = 1 << 24
    sized: bool = True
    merge: bool = True

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
                "merge": SWITCH,
            },
        )

    @property
    def learned(self) -> tuple[str, ...]:
        facts = ["the size of the union and pseudonyms of its IDs, not whose they are"]
        if self.merge:
            facts.append("how many clients hold each row (so did every client), not which")
        else:
            facts.append("that every row has one holder (so did every client)")
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
        union = psu_plan.Plan(len(clients), mode, session, self.bound, self.sized)
        return UnionDraft(union, clients, terms, self.merge)


@dataclass(frozen=True, repr=False, eq=False)
class Union:
    """The rows that a client found with the others.

    held: (m,) int64, how many clients hold each row: all ones without merging.  contribution: what the client
    brings to the run whose plan this completes.
    """

    held: Array
    contribution: Callable[[Plan], Contribution]


@dataclass(frozen=True)
class UnionDraft:
    """What is public before a union: its plan, the clients, and what the clustering after it is to be."""

    union: psu_plan.Plan
    clients: tuple[PartyId, ...]
    terms: Terms = field(metadata=LOCAL)  # described beside it
    merge: bool = True

    @cached_property
    def description(self) -> bytes:
        """All that is public before the union, which parties compare."""
        return described(self, self.terms, bound=self.terms.public.bound)

    def digest(self) -> bytes:
        """32 bytes that name this run and what its parties agreed on before it."""
        return digest_of(self.description)

    def foreseen(self, federation: Federation) -> Array:
        """How many clients will be found to hold each row, (m,) int64, for a process that sees all data."""
        found = [
            np.unique(digests(party.ids) if party.ids is not None else row_digests(party.read()), axis=0)
            for party in federation.parties
        ]
        _, held = np.unique(np.concatenate(found), axis=0, return_counts=True)
        return held if self.merge else np.ones(len(held), np.int64)

    def client(self, party: Party, *, coins: Coins) -> Role[Union]:
        """A client finds the rows with the others."""
        points = party.read()
        me = self.clients.index(party.name)
        digest = digests(party.ids) if party.ids is not None else row_digests(points)
        yield from agree(self, party.name, number=ALIGN)
        with blaming(self.clients):
            seat = yield from take_seat(self.union, self.clients, me, coins)
            own, inverse = tags(digest, seat.secrets.tag_key)
            union = yield from find_union(seat, own)
            rows = row_numbers(union, own, inverse)
            held = np.ones(len(union.z), np.int64)
            if self.merge:
                held = yield from count_holders(seat, union, rows)
            else:
                yield from require_disjoint(seat, union, rows)

        def contribution(plan: Plan) -> Contribution:
            integers = plan.quantizer(points, owner=f"client {party.name!r}")
            settle = partial(_settle, seat, party, digest, rows, integers, held) if self.merge else settled
            return Contribution(party.name, spread_out(rows, integers), rows, settle)

        return Union(held, contribution)

    def server(self) -> Role[tuple[Array, Settling]]:
        """The server's part of the same: how many clients hold each row; and its part of settling."""
        yield from agree(self, SERVER, number=ALIGN)
        relay = Relay(self.union, self.clients)
        with blaming(self.clients):
            union = yield from relay.find_union()
            held = np.ones(len(union.z), np.int64)
            if self.merge:
                held = yield from relay.count_holders(union)
            else:
                yield from relay.require_disjoint(union)
        return held, partial(_settle_at_server, relay, len(held)) if self.merge else settled


def _settle(
    seat: Seat, party: Party, ids: Array, rows: Array, integers: Array, held: Array, shares: CodedRows
) -> Role[None]:
    """Find out whether the holders of each row agree, and let each ID count once.

    ids: digests of the IDs of this party's points.  held: how many clients hold each row.
    """
    m, seat.clock.phase = shares.m, SETTLE
    prints = merge.fingerprints(row_digests(integers.astype(np.float64)), ids, seat.secrets)
    with blaming(seat.clients):
        disputed = yield from find_disputes(seat, rows, prints, m)
    if len(disputed):
        mine = np.flatnonzero(np.isin(rows, disputed))
        names = [party.ids[i] if party.ids is not None else f"row {i}" for i in mine]
        raise DisputedRows(disputed.tolist(), names)
    multiply(shares, merge.factors(held, shares.basis))


def _settle_at_server(relay: Relay, m: int) -> Role[None]:
    relay.clock.phase = SETTLE
    with blaming(relay.clients):
        disputed = yield from relay.find_disputes(m)
    if len(disputed):
        raise DisputedRows(disputed.tolist(), ())


def merged_rows(held: Array, n: int) -> AllRows:
    """The layout of rows that so many of n clients hold, (m,) int64: all ones without merging."""
    multiple = merge.multiple(held)
    if multiple == 1:
        return AllRows(len(held), n)
    return AllRows(len(held), n, multiple, digest_of_counts(held))


def digest_of_counts(held: Array) -> bytes:
    """32 bytes that agree exactly when two parties were told the same numbers of holders (m,)."""
    return hashlib.blake2b(held.astype("<i8").tobytes(), digest_size=32, person=b"secfc holders").digest()


def multiply(rows: CodedRows, factors: Array) -> None:
    """Multiply rows by one factor each, (lanes, m) canonical residues; before they are finished."""
    others = np.flatnonzero((factors != 1).any(axis=0))
    # A slice at a time, so that memory does not grow with m.
    for start in range(0, len(others), 1 << 14):
        chosen = others[start : start + (1 << 14)]
        rows.scale(chosen, factors[:, chosen])


def spread_out(rows: Array, integers: Array) -> Callable[[int, int], Array]:
    """A reader of all m rows: a client's integers (m_j, d) at their rows, zeros elsewhere."""
    # Equal IDs of one client share a row, which gets the first of them.
    at, first = np.unique(rows, return_index=True)

    def read(begin: int, end: int) -> Array:
        low, high = np.searchsorted(at, (begin, end))
        out = np.zeros((end - begin, integers.shape[1]), np.int64)
        out[at[low:high] - begin] = integers[first[low:high]]
        return out

    return read
