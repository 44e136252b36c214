"""A client's contribution to each sheet: tables of random multiples of its tags, secret residues.

Every ID gets a fresh uniform coefficient r in F_q for every table.  The sum R_x over the holders of x is
then uniform however many hold it, so not even its vanishing (probability 1/q) depends on them; and no
client can make another's ID vanish to probe for it.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from field.arrays import Array
from field.ring.basis import MERSENNE_61
from field.secrets.coins import Coins
from psu.blame import accuse_parties
from psu.errors import UnionAborted
from psu.identify import Tags
from psu.keys import Secrets
from psu.messages import ShareBlock
from psu.plan import HASHES, SLOTS, Sheet, UnionPlan, lagrange_weights, share_point


def zero_table(rows: int, width: int) -> Array:
    """Zeros (rows, width) uint64.  Filled, not np.zeros, which large pages do not back: 4x faster."""
    table = np.empty((rows, width), np.uint64)
    table[:] = 0
    return table


def table_geometry(plan: UnionPlan, sheet: Sheet) -> tuple[int, int, np.uint64, np.uint64]:
    """(hashes, rows of each of the equal parts, salt, salt): where kernels place tags."""
    low, high = plan.salt(sheet.attempt)
    return HASHES, sheet.rows // HASHES, np.uint64(low), np.uint64(high)


def random_table(sheet: Sheet, coins: Coins) -> Array:
    """This client's table for a sheet of dealt coefficients: (rows, width) uniform secret residues."""
    return coins.residues(MERSENNE_61, sheet.rows * sheet.width).reshape(sheet.rows, sheet.width)


def fill_table(plan: UnionPlan, sheet: Sheet, tags: Tags, coins: Coins) -> Array:
    """This client's table for a sheet of slots, cells or lines: (rows, width) secret residues."""
    from psu import kernels

    table = zero_table(sheet.rows, sheet.width)
    r = coins.residues(MERSENNE_61, len(tags))
    if sheet.kind == "slots":
        # The sizing round has a salt of its own, so its slots say nothing about cells.
        low, high = (np.uint64(word) for word in plan.salt(plan.attempts))
        kernels.add_slots(tags.z, tags.y, r, table, plan.levels, SLOTS, low, high)
    else:
        add = kernels.add_gram if sheet.kind == "cells" else kernels.add_lines
        add(tags.z, tags.y, r, table, *table_geometry(plan, sheet))
    return table


# --------------------------------------------------------------------------------------------------
# How large is the union, without its IDs: linear counting at several sampling rates.
#
# Level l of a bitmap takes an ID with probability 2**-(l+1), the last level the rest; a hash picks its slot.
# Each client adds r to the slots of its IDs, and only whether a slot's sum is zero is opened.  The pattern,
# and so the estimate, is a function of the union and the salt.  Whang, Vander-Zanden and Taylor, ACM TODS
# 15(2), 1990, for one level; Estan, Varghese and Fisk, IMC 2003, for several.

# A level that is fuller counts too coarsely.
_FULL = 0.9


def estimate_size(plan: UnionPlan, values: Array) -> int:
    """The estimated size of the union from the opened slots (levels * SLOTS, 1): zero or not is all it reads.

    The standard deviation is about 1.5 % for large unions; below 500 IDs it is within a few IDs.

    Raises UnionAborted if every level is full: the union is far above the bound.
    """
    taken = np.count_nonzero(values.reshape(plan.levels, SLOTS), axis=1)
    usable = np.flatnonzero(taken <= _FULL * SLOTS)
    if not len(usable):
        raise UnionAborted(f"the union is larger than its bound of {plan.bound}: raise the bound")
    # Levels from `base` on hold a fraction 2**-base of all IDs.
    base = int(usable[0])
    counted = 0.0
    for count in taken[base:].tolist():
        counted -= SLOTS * math.log1p(-min(count, SLOTS - 1) / SLOTS)
    return math.ceil(counted * (1 << base))


# --------------------------------------------------------------------------------------------------
# Shamir sharing of a client's table among the committee, t of the shares expanded from pairwise keys.
#
# A polynomial of degree t with the secret at 0 is fixed by t more values.  These are the shares of t
# members, pseudorandom and expanded at both ends; the other members' shares are interpolated and sent.
# Which t rotates with the chunk.  Any t shares are (pseudo)random and independent of the table.


def expanding_members(plan: UnionPlan, chunk: int) -> tuple[int, ...]:
    """The t members that expand their shares of a chunk themselves."""
    members = plan.committee
    return tuple(sorted(members[(chunk * plan.t + i) % len(members)] for i in range(plan.t)))


def expected_chunks(plan: UnionPlan, sheet: Sheet, member: int) -> tuple[int, ...]:
    """The chunks of which a member is sent a block."""
    return tuple(b for b in range(sheet.chunks) if member not in expanding_members(plan, b))


def deal_blocks(
    plan: UnionPlan, secrets: Secrets, sheet: Sheet, table: Array, chunk: int
) -> dict[int, ShareBlock]:
    """Blocks of one chunk of a table (rows, width) for the members that are sent one, by member.

    The block of the client itself, if it is a member, is among them.  Raises AlreadyUsed if this chunk
    of this sheet was dealt before: two sharings under the same pads would show the difference.
    """
    from psu import kernels

    channels = secrets.ring.channels
    secret = table[sheet.span(chunk)].reshape(-1)
    holders = expanding_members(plan, chunk)
    pads = np.empty((len(holders), secret.size), np.uint64)
    for pad, member in zip(pads, holders, strict=True):
        channels[member].stream(_pad(sheet, chunk, secrets.me, member), side="give").fill(pad)
    kernels.to_residues(pads.reshape(-1))
    known = (0, *map(share_point, holders))
    blocks, share = {}, np.empty_like(secret)
    for member in plan.committee:
        if member not in holders:
            row = np.array(lagrange_weights(known, share_point(member)), np.uint64)
            kernels.interpolate(secret, pads, row, share)
            sealed = channels[member].seal(_block(sheet, chunk), share.tobytes())
            blocks[member] = ShareBlock(secrets.me, member, sheet.label, chunk, sealed)
    return blocks


@dataclass(frozen=True, eq=False, repr=False)
class Holding:
    """A member's share of the sum of tables so far: total (rows, width), secret.  Steps consume it.

    seen: (client, chunk) already added.
    """

    sheet: Sheet
    total: Array
    seen: set[tuple[int, int]] = field(default_factory=set)

    def __repr__(self) -> str:
        return f"Holding({self.sheet.label}, blocks={len(self.seen)})"


def empty_holding(sheet: Sheet) -> Holding:
    """Nothing yet."""
    return Holding(sheet, zero_table(sheet.rows, sheet.width))


def absorb_block(plan: UnionPlan, secrets: Secrets, holding: Holding, block: ShareBlock) -> Holding:
    """Add a client's block.  A deployment adds a client only once all its blocks have come.

    Raises UnionAborted naming the sender of a block that is altered, repeated, out of place, or (proof)
    genuine but not canonical residues of the right number.
    """
    from psu import kernels

    sheet, sender, chunk = holding.sheet, block.sender, block.chunk
    if (
        block.sheet != sheet.label
        or block.recipient != secrets.me
        or sender not in secrets.ring.channels
        or chunk >= sheet.chunks
        or secrets.me in expanding_members(plan, chunk)
    ):
        raise accuse_parties("ShareBlock", f"a block for {sheet.label!r} is out of place", sender=sender)
    payload = secrets.ring.open(sender, _block(sheet, chunk), block.sealed, "ShareBlock")
    rows = holding.total[sheet.span(chunk)].reshape(-1)
    if len(payload) != rows.nbytes:
        why = f"a block for {sheet.label!r} has the wrong size"
        raise accuse_parties("ShareBlock", why, proof=True, sender=sender)
    share = np.frombuffer(payload, np.uint64)
    if share.size and int(share.max()) >= int(kernels.M61):
        why = f"a block for {sheet.label!r} is not canonical"
        raise accuse_parties("ShareBlock", why, proof=True, sender=sender)
    kernels.add_into(rows, share)
    holding.seen.add((sender, chunk))
    return holding


def settle_share(
    plan: UnionPlan, secrets: Secrets, holding: Holding, contributors: Collection[int]
) -> Holding:
    """The share of the sum over exactly these clients: adds what this member expands itself.

    Raises UnionAborted naming clients whose blocks are missing, or whose blocks were added although they
    do not contribute, or if fewer than min_clients contribute.
    """
    from psu import kernels

    if len(contributors) < plan.min_clients:
        raise UnionAborted(f"{len(contributors)} clients contribute, {plan.min_clients} must")
    sheet = holding.sheet
    if sheet.kind == "coins" and len(contributors) <= plan.t:
        raise UnionAborted(f"{len(contributors)} clients deal coefficients, {plan.t + 1} must")
    due = {(j, b) for j in contributors for b in expected_chunks(plan, sheet, secrets.me)}
    if due != holding.seen:
        odd = {j for j, _ in due ^ holding.seen}
        why = f"blocks for {sheet.label!r} are missing, or too many"
        raise accuse_parties("ShareBlock", why, silent=odd)
    for chunk in range(sheet.chunks):
        if secrets.me not in expanding_members(plan, chunk):
            continue
        rows = holding.total[sheet.span(chunk)].reshape(-1)
        words = np.empty(rows.size, np.uint64)
        for j in sorted(contributors):
            pad = _pad(sheet, chunk, j, secrets.me)
            secrets.ring.channels[j].stream(pad, side="take").fill(words)
            kernels.add_stream(rows, words)
    return holding


def find_contributors(plan: UnionPlan, received: Collection[Collection[int]]) -> tuple[int, ...]:
    """The clients whose blocks are complete at every member that answered; the relay announces them.

    received: for each answering member, the clients it has complete.  Raises UnionAborted if fewer than
    2t+1 members answered or fewer than min_clients are complete.
    """
    if len(received) < plan.quorum:
        raise UnionAborted(f"{len(received)} committee members answer, {plan.quorum} are needed")
    everywhere = set(range(plan.n)).intersection(*map(set, received))
    if len(everywhere) < plan.min_clients:
        lost = set(range(plan.n)) - everywhere
        why = f"{len(everywhere)} clients contribute, {plan.min_clients} must"
        raise accuse_parties("ShareBlock", why, silent=lost)
    return tuple(sorted(everywhere))


def _pad(sheet: Sheet, chunk: int, sender: int, member: int) -> str:
    return f"pad {sender}>{member} {sheet.label} {chunk}"


def _block(sheet: Sheet, chunk: int) -> str:
    return f"share {sheet.label} {chunk}"
