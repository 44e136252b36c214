"""How a committee member answers: openings that are random functions of the union, one use each.

A row is opened as a product of two sharings of degree t, so as a polynomial of degree 2t that 2t+1
members know at a point each; the weighted values are sent under masks that sum to zero, so the relay,
even with t members, gets their sum and nothing else.  Fresh secret coefficients come from keys shared by
all subsets of c - t members (Cramer, Damgard and Ishai, TCC 2005): nobody sends anything for them, and
any t members lack one of the keys.  Where there are too many subsets, clients deal them instead
(`UnionPlan.dealt`): all add random numbers into a sheet of their own, whose sum any t clients lack a summand
of.

    slots   rho s                a uniform multiple of the sum: shows only whether it is zero
    cells   g^T M                see psu.plan.Committee
    counts  s                    the sum itself: multiplicities, where they are wanted
    spread  s0 s2 - s1^2         zero if and only if all holders of a row agree (psu.merge)
    once    rho s, rho s + pad   whether every row has one holder (psu.disjoint)

Keys of an opening are bound to its number, its quorum and everything recovered before: members that were
told different things get values that do not add up to anything.  When a member of the quorum stays
silent the round is asked again with another quorum and number, so with fresh coefficients and masks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from field.arrays import Array
from field.secrets.channels import Stream, subkey
from psu import disjoint
from psu.blame import RELAY, accuse_parties
from psu.errors import UnionAborted
from psu.keys import Secrets
from psu.messages import Opening, Turn
from psu.plan import Sheet, UnionPlan, lagrange_weights, share_point
from psu.tables import Holding, table_geometry

# Streams are expanded for this many rows at a time, which stay in the cache.
_ROWS = 1 << 12


def first_history(plan: UnionPlan, sheet: Sheet) -> bytes:
    """The digest of an empty history of a sheet: 32 bytes."""
    return hashlib.blake2b(
        sheet.label.encode(), key=plan.digest, digest_size=32, person=b"psu history"
    ).digest()


def next_history(history: bytes, z: Array, y: Array, pure: Array) -> bytes:
    """The digest of a history followed by one more list of recovered IDs.

    SHA-256, which processors have instructions for: lists are long, and every party hashes all of them.
    The three parts have one length, so the bytes determine them.
    """
    chain = hashlib.sha256(b"psu history" + history)
    for part in (z, y, pure):
        chain.update(np.ascontiguousarray(part).data)
    return chain.digest()


# --- the relay's side ----------------------------------------------------------------------------


@dataclass(frozen=True)
class OpeningPoll:
    """The relay's count of openings, over the whole session, and who was ever silent."""

    plan: UnionPlan
    number: int = 0
    unreliable: frozenset[int] = frozenset()

    def choose(self, silent: Collection[int] = ()) -> tuple[OpeningPoll, tuple[int, ...]]:
        """Who opens next: 2t+1 members, none of whom was silent in this round; the number rises.

        Raises UnionAborted naming the silent members if fewer are left.
        """
        unreliable = self.unreliable | set(silent)
        ranked = sorted(self.plan.committee, key=lambda i: (i in unreliable, i))
        live = [i for i in ranked if i not in silent]
        if len(live) < self.plan.quorum:
            raise accuse_parties(
                "Opening",
                f"{len(live)} of {len(self.plan.committee)} committee members answer, "
                f"{self.plan.quorum} are needed: plan with more spares or a smaller t",
                silent=silent,
            )
        quorum = tuple(sorted(live[: self.plan.quorum]))
        return replace(self, number=self.number + 1, unreliable=frozenset(unreliable)), quorum


def open_all_rows(sheet: Sheet, poll: OpeningPoll, silent: Collection[int] = ()) -> tuple[OpeningPoll, Turn]:
    """Ask for all rows of a sheet that is opened in a single round."""
    poll, quorum = poll.choose(silent)
    none = np.empty(0, np.uint64)
    history = first_history(poll.plan, sheet)
    return poll, Turn(sheet.label, 0, poll.number, quorum, history, none, none, none.astype(np.uint8))


def gather_values(sheet: Sheet, rows: int, turn: Turn, openings: Mapping[int, Opening]) -> Array:
    """The opened values (rows, opened): the sum of what the whole quorum sent.

    Raises UnionAborted naming members whose opening is missing or malformed.
    """
    from psu import kernels

    absent = set(turn.quorum) - set(openings)
    if absent:
        raise accuse_parties("Opening", f"opening {turn.number} is incomplete", silent=absent)
    values = np.zeros((rows, sheet.opened), np.uint64)
    for member in turn.quorum:
        opening = openings[member]
        if (opening.sender, opening.sheet, opening.number) != (member, sheet.label, turn.number):
            why = f"an answer to another question than opening {turn.number}"
            raise accuse_parties("Opening", why, sender=member)
        if opening.values.shape != values.shape:
            raise accuse_parties("Opening", f"opening {turn.number} has the wrong shape", sender=member)
        kernels.add_into(values.reshape(-1), np.ascontiguousarray(opening.values).reshape(-1))
    return values


# --- a member's side -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class OpeningMember:
    """A committee member between two turns: shares (rows, width), secret; active rows, ascending.

    `open_rows` consumes it: use the state it returns.  bank: its shares of dealt coefficients, secret, a word
    each; spent: how many belong to rounds before.  A round that is asked again has the same coefficients, and
    so the same opened values: two quorums have an honest member in common, which follows one history.
    """

    plan: UnionPlan
    secrets: Secrets
    sheet: Sheet
    shares: Array
    active: Array
    round: int
    history: bytes
    bank: Array | None = None
    spent: int = 0

    def __repr__(self) -> str:
        return f"Member({self.sheet.label}, round={self.round}, active={len(self.active)})"


def begin_opening(
    plan: UnionPlan, secrets: Secrets, holding: Holding, coefficients: Holding | None = None
) -> OpeningMember:
    """A member that has settled its share of the sum and awaits the first turn.

    coefficients: the same of those that are dealt for this sheet, if any are.
    """
    sheet = holding.sheet
    start = first_history(plan, sheet)
    bank = None if coefficients is None else coefficients.total.reshape(-1)
    return OpeningMember(plan, secrets, sheet, holding.total, np.arange(sheet.rows), 0, start, bank)


def open_rows(member: OpeningMember, turn: Turn) -> tuple[OpeningMember, Opening | None]:
    """Take in what was recovered, and open the active rows if this member is in the quorum.

    Raises UnionAborted if the relay contradicts what it said before, AlreadyUsed if this opening, or a
    later one, was answered before: an answer from an older state would show a difference of secrets.
    """
    plan, me = member.plan, member.secrets.me
    if turn.sheet != member.sheet.label or turn.round not in (member.round, member.round + 1):
        raise UnionAborted(f"round {turn.round} of {turn.sheet!r} does not follow round {member.round}")
    if len(turn.quorum) != plan.quorum or not set(turn.quorum) <= set(plan.committee):
        raise accuse_parties("Turn", "the relay names a quorum that is none", proof=True, relay=RELAY)
    if turn.round > member.round:
        member = _advance(member, turn)
    if turn.history != member.history:
        raise accuse_parties("Turn", "the relay contradicts what it said before", proof=True, relay=RELAY)
    if me not in turn.quorum:
        return member, None
    member.secrets.openings.claim(turn.number)
    return member, Opening(me, turn.sheet, turn.number, _open(member, turn))


def _advance(member: OpeningMember, turn: Turn) -> OpeningMember:
    """Subtract what was recovered; the next active cells are its cells that held other IDs as well."""
    from psu import kernels

    if member.sheet.kind != "cells" or not kernels.all_valid(turn.z, turn.y):
        raise accuse_parties("Turn", "the relay announces IDs that are none", proof=True, relay=RELAY)
    status = np.full(member.sheet.rows, kernels.UNKNOWN, np.int32)
    kernels.remove(
        member.shares, turn.z, turn.y, turn.pure, *table_geometry(member.plan, member.sheet), status
    )
    return replace(
        member,
        active=kernels.changed_cells(status),
        round=turn.round,
        history=next_history(member.history, turn.z, turn.y, turn.pure),
        spent=member.spent + len(member.active) * member.sheet.opened,
    )


def _open(member: OpeningMember, turn: Turn) -> Array:
    """This member's masked summand of every active row: (A, opened) residues."""
    from psu import kernels

    secrets, sheet = member.secrets, member.sheet
    me, active, wide = secrets.me, member.active, sheet.opened
    label = f"{turn.sheet} {turn.number} {turn.quorum} {turn.history.hex()}"
    weight = np.uint64(lagrange_weights(tuple(map(share_point, turn.quorum)), 0)[turn.quorum.index(me)])
    masks = {j: secrets.ring.channels[j].stream(f"mask {label}") for j in turn.quorum if j != me}
    common = _common_streams(member, label) if sheet.kind in ("cells", "slots", "once") else []
    bank, spent = member.bank, member.spent
    if bank is not None and spent + len(active) * wide > len(bank):
        raise UnionAborted("a table takes more openings than coefficients were dealt for: it is malformed")
    out = np.zeros((len(active), wide), np.uint64)
    for start in range(0, len(active), _ROWS):
        rows, part = active[start : start + _ROWS], out[start : start + _ROWS]
        words, g = np.empty(part.size, np.uint64), np.zeros(part.shape, np.uint64)
        for j, mask in masks.items():
            mask.fill(words)
            (kernels.add_stream if me < j else kernels.subtract_stream)(part.reshape(-1), words)
        for stream, factor in common:
            stream.fill(words)
            kernels.accumulate_stream(g.reshape(-1), words, factor)
        if bank is not None:
            first = spent + start * wide
            g = np.ascontiguousarray(bank[first : first + part.size].reshape(part.shape))
        _open_rows(member, rows, g, weight, part)
    return out


def _common_streams(member: OpeningMember, label: str) -> list[tuple[Stream, np.uint64]]:
    """Streams of common randomness that this member has a part of, and its factor in each."""
    plan, secrets = member.plan, member.secrets
    return [
        (Stream(subkey(key, label)), _common_factor(plan, subset, secrets.me))
        for subset, key in secrets.common.items()
    ]


def _open_rows(member: OpeningMember, rows: Array, g: Array, weight: np.uint64, part: Array) -> None:
    """Add to part (rows, opened) what the sheet opens of these rows; g: coefficients of that shape."""
    from psu import kernels

    shares, kind = member.shares, member.sheet.kind
    if kind == "cells":
        kernels.open_gram(shares, rows, g, weight, part)
    elif kind in ("slots", "once"):
        kernels.open_scaled(shares, rows, g, weight, part)
        if kind == "once":
            disjoint.add_pad(part, member.secrets, weight)
    elif kind == "counts":
        kernels.open_plain(shares, rows, weight, part)
    else:
        kernels.open_spread(shares, rows, weight, part)


@lru_cache(maxsize=8192)
def _common_factor(plan: UnionPlan, subset: tuple[int, ...], member: int) -> np.uint64:
    """The value at a member's point of the polynomial that is 1 at 0 and 0 outside the subset."""
    outside = tuple(share_point(i) for i in plan.committee if i not in subset)
    return np.uint64(lagrange_weights((0, *outside), share_point(member))[0])
