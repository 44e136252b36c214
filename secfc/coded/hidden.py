"""Hidden membership: what is public before a union, and roles that find rows and let an ID count once."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from field.code.rows import CodedRows
from field.secrets.coins import Coins
from psu import merge, oblivious
from psu import plan as psu_plan
from psu.identify import digests, pair_digests, row_digests, tags
from secfc.coded.clock import Clock
from secfc.coded.contribution import Contribution, spread_out
from secfc.coded.dividing import divide, divide_at_server
from secfc.coded.layout import AllRows
from secfc.coded.plan import Plan
from secfc.coded.tags import draw_keys, draw_keys_at_server, evaluate_at_server, evaluated
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
from secfc.data.federation import Federation
from secfc.data.party import Party
from secfc.roles.agreement import agree
from secfc.roles.description import LOCAL, Terms, described, digest_of
from secfc.roles.exchange import ALIGN, SERVER, SETTLE, DisputedRows, PartyId, Role

Array = NDArray[Any]
# The server's part of bringing shares to the plan's multiple of their data.
Settling = Callable[[Plan], Role[None]]
# Whether it is opened how many clients hold a row; what becomes of an ID whose holders have different data.
Counts = Literal["hidden", "opened"]
Conflict = Literal["fail", "separate", "mean"]


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
    counts: Counts = "opened"
    on_conflict: Conflict = "fail"
    verify: bool = False

    @cached_property
    def description(self) -> bytes:
        """All that is public before the union, which parties compare."""
        return described(self, self.terms, bound=self.terms.public.bound)

    def digest(self) -> bytes:
        """32 bytes that name this run and what its parties agreed on before it."""
        return digest_of(self.description)

    @property
    def counted(self) -> bool:
        """Whether it is opened how many clients hold each row."""
        return self.merge and self.counts == "opened"

    @property
    def divides(self) -> bool:
        """Whether rows are divided by how many hold them, unseen."""
        return self.merge and self.counts == "hidden"

    def layout(self, held: Array) -> AllRows:
        """The layout of rows that so many clients hold, (m,) int64: all ones if that is hidden."""
        n = len(self.clients)
        if self.divides and self.on_conflict == "mean":
            return AllRows(len(held), n, math.lcm(*range(1, n + 1)))
        return merged_rows(held, n)

    def identities(self, party: Party, points: Array) -> Array:
        """Digests (m_j, 2) of what makes points of this party the same row as others', secret."""
        if party.ids is None:
            return row_digests(points)
        ids = digests(party.ids)
        return pair_digests(row_digests(points), ids) if self.on_conflict == "separate" else ids

    def foreseen(self, federation: Federation) -> Array:
        """How many clients will be found to hold each row, (m,) int64, for a process that sees all data."""
        found = [np.unique(self.identities(party, party.read()), axis=0) for party in federation.parties]
        _, held = np.unique(np.concatenate(found), axis=0, return_counts=True)
        return held if self.counted else np.ones(len(held), np.int64)

    def client(self, party: Party, *, coins: Coins) -> Role[Union]:
        """A client finds the rows with the others."""
        points = party.read()
        me = self.clients.index(party.name)
        digest = self.identities(party, points)
        oblivious.check_quota(self.union, digest)
        yield from agree(self, party.name, number=ALIGN)
        with blaming(self.clients):
            clock = Clock()
            plan, evaluator = yield from draw_keys(self.union, self.clients, me, coins, clock)
            seat = yield from take_seat(plan, self.clients, me, coins, clock, verify=self.verify)
            digest = yield from evaluated(seat, evaluator, digest)
            own, inverse = tags(digest, seat.secrets.tag_key)
            union = yield from find_union(seat, own)
            rows = row_numbers(union, own, inverse)
            held = np.ones(len(union.z), np.int64)
            if self.counted:
                held = yield from count_holders(seat, union, rows)
            elif not self.merge:
                yield from require_disjoint(seat, union, rows)

        def contribution(plan: Plan) -> Contribution:
            integers = plan.quantizer(points, owner=f"client {party.name!r}")
            merge.same_of_one(rows, integers)
            settle = partial(self._settle, plan, seat, party, digest, rows, integers, held)
            return Contribution(party.name, spread_out(rows, integers), rows, settle)

        return Union(held, contribution)

    def _settle(
        self,
        plan: Plan,
        seat: Seat,
        party: Party,
        ids: Array,
        rows: Array,
        integers: Array,
        held: Array,
        shares: CodedRows,
    ) -> Role[None]:
        """Find out whether the holders of each row agree, if they must, and let each ID count once.

        ids: digests of the IDs of its points, or what became of them.  held: how many clients hold each row,
        if that is open.
        """
        if self.compares:
            seat.clock.phase = SETTLE
            prints = merge.fingerprints(row_digests(integers.astype(np.float64)), ids, seat.secrets)
            with blaming(seat.clients):
                disputed = yield from find_disputes(seat, rows, prints, shares.m)
            if len(disputed):
                mine = np.flatnonzero(np.isin(rows, disputed))
                names = [party.ids[i] if party.ids is not None else f"row {i}" for i in mine]
                raise DisputedRows(disputed.tolist(), names)
        if self.divides:
            holding = np.zeros(shares.m, bool)
            holding[rows] = True
            yield from divide(plan, seat.me, holding, shares, seat.coins, verify=self.verify)
        else:
            multiply(shares, merge.factors(held, shares.basis))

    @property
    def compares(self) -> bool:
        """Whether holders of the same ID must have the same data."""
        return self.merge and self.on_conflict == "fail"

    def server(self, *, coins: Coins) -> Role[tuple[Array, Settling]]:
        """The server's part of the same: how many clients hold each row; and its part of settling."""
        yield from agree(self, SERVER, number=ALIGN)
        with blaming(self.clients):
            clock = Clock()
            keyed, evaluator = yield from draw_keys_at_server(self.union, self.clients, coins, clock)
            yield from evaluate_at_server(keyed, self.clients, evaluator, clock)
            relay = Relay(keyed, self.clients, clock)
            union = yield from relay.find_union()
            held = np.ones(len(union.z), np.int64)
            if self.counted:
                held = yield from relay.count_holders(union)
            elif not self.merge:
                yield from relay.require_disjoint(union)
        return held, partial(self._settle_at_server, relay)

    def _settle_at_server(self, relay: Relay, plan: Plan) -> Role[None]:
        if self.compares:
            relay.clock.phase = SETTLE
            with blaming(relay.clients):
                disputed = yield from relay.find_disputes(plan.m)
            if len(disputed):
                raise DisputedRows(disputed.tolist(), ())
        if self.divides:
            yield from divide_at_server(plan)


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
