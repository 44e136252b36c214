"""Is every row of a union held by exactly one client?  For runs that need it, and are to open nothing else.

Clients deal one more sheet, of two rows, before anything else is shared.  Into row a each client adds the sum
of e_a[x] over the rows x that it holds, and client 0 takes away the sum over all rows.  e is a stream of
residues that all clients expand from the group key, and the relay cannot.  With c_x holders of row x, the
sum over all clients is

    E_a = sum_x e_a[x] (c_x - 1):  zero if every row has one holder, else uniform (over e).

What the relay gets is rho_0 E_0 and rho_1 E_1 + pad, rho secret and uniform from the common randomness of the
committee, pad from the group key; in server mode, where nobody else sees it and it knows no e, E_0 and
E_1 + pad.  It reads the first, and tells clients the second.

What that shows.  If every row has one holder: 0 and the pad.  Else two uniform numbers, whichever rows have
however many holders.  To a relay with t clients, who know e, that holds as long as E_0 and E_1 are not zero,
which they are with probability 1/q each.  So: whether IDs are disjoint, and nothing more.  A server that
colludes with a client, against the rules of server mode, learns e: if few rows are shared, E_0 then says
which.

Errors.  One of E_1 and rho_1 vanishes, and shared IDs pass, with probability at most 2/q < 2**-59.  Disjoint
ones always pass.

Who can make shared IDs pass.  Not the relay alone: it would have to tell clients the pad, of which a uniform
summand hides everything from it (1/q).  Not t members of the committee: what they add to an opening is
independent of rho.  A client, if it misstates what it holds and knows which rows the others share: e gives
every row its own weight, so their number is not enough.  And the relay with any client, who knows the pad.
Anybody can make disjoint IDs fail, which ends the run.
"""

from __future__ import annotations

import numpy as np

from field.arrays import Array
from field.ring.basis import MERSENNE_61
from field.secrets.channels import Stream, subkey
from psu.keys import Secrets
from psu.messages import UnionTags
from psu.plan import Sheet, UnionPlan

# Weights are expanded for this many rows at a time.
_ROWS = 1 << 16


def question_sheet() -> Sheet:
    """The sheet of this question: the relay reads its first row, clients the second."""
    return Sheet("once", 0, 2)


def question_table(plan: UnionPlan, secrets: Secrets, rows: Array, union: UnionTags) -> Array:
    """This client's part of the sheet, (2, 1) secret residues, for its rows of the union (any order)."""
    held = np.zeros(len(union.z), bool)
    held[rows] = True
    first = secrets.me == 0
    sums = [_weigh(secrets, union, row, held, whole=first) for row in range(2)]
    if first and not plan.committee:
        sums[1] += draw_pad(secrets)
    return np.array([[s % MERSENNE_61] for s in sums], np.uint64)


def _weigh(secrets: Secrets, union: UnionTags, row: int, held: Array, *, whole: bool) -> int:
    """The sum of the weights of the rows held, less that of all rows if `whole`; not reduced."""
    from psu import kernels

    stream = Stream(subkey(secrets.group, f"once {row} {union.digest.hex()}"))
    total = 0
    for start in range(0, len(held), _ROWS):
        mine = held[start : start + _ROWS]
        weights = np.empty(len(mine), np.uint64)
        stream.fill(weights)
        kernels.to_residues(weights)
        total += _sum(weights[mine]) - (_sum(weights) if whole else 0)
    return total


def _sum(residues: Array) -> int:
    # Halves are below 2**31 and 2**30, and at most 2**16 of them are added: below 2**47.
    low = (1 << 30) - 1
    return (int((residues >> np.uint64(30)).sum()) << 30) + int((residues & np.uint64(low)).sum())


def draw_pad(secrets: Secrets) -> int:
    """The residue under which clients are told the answer: within 2**-67 of uniform, unknown to the relay."""
    return int.from_bytes(subkey(secrets.group, "once pad"), "little") % MERSENNE_61


def add_pad(opened: Array, secrets: Secrets, weight: np.uint64) -> None:
    """Add a committee member's summand of the pad to its summands of both rows, (2, 1), in place.

    The weights of a quorum sum to 1, so the pad is added once.
    """
    summand = draw_pad(secrets) * int(weight) % MERSENNE_61
    opened[1, 0] = (int(opened[1, 0]) + summand) % MERSENNE_61


def held_once(word: int, secrets: Secrets) -> bool:
    """Whether every row has one holder, by what the relay tells clients."""
    return word == draw_pad(secrets)
