"""IDs that several clients hold, on the dense rows after a union: how many hold each, and do they agree?

Two more sheets of m rows, dealt and opened like any other.

counts: a holder adds 1, and the sum itself is opened: everybody who sees it learns how many clients hold
each row, not which.  With L the least common multiple of all counts, a row that c clients hold is multiplied
by L / c: then every row is L times what each of its holders has.  Nothing is divided, so if holders have
different data, what comes out is still an integer, and no larger than L times their sum.

spread: a holder adds r (1, f, f^2), r a fresh secret coefficient and f a keyed fingerprint of its data and
their ID.  With the sums s0, s1, s2 over the holders, s0 s2 - s1^2 = sum_{i<j} r_i r_j (f_i - f_j)^2.  It is
zero if all holders agree.  If they do not, it is within about 2/q of uniform, also to a coalition that holds
the row itself and knows its own r and f, as long as one holder is honest: what is opened is which rows are
in dispute, not how nor by whom.  In server mode the server computes the same from the sums, and sees the
fingerprint s1 / s0 of each row in agreement.  It lacks the key, and as the ID is part of what is
fingerprinted no two rows have equal ones: to the server they are random numbers, whatever the data are.
"""

from __future__ import annotations

import math

import numpy as np

from field.arrays import Array
from field.ring.basis import MERSENNE_61, Basis
from field.ring.errors import InvalidValue
from field.secrets.channels import subkey
from field.secrets.coins import Coins
from psu.errors import UnionAborted
from psu.keys import Secrets
from psu.plan import Sheet


def merge_sheets(m: int) -> tuple[Sheet, Sheet]:
    """The sheets (counts, spread) of a union of m."""
    return Sheet("counts", 0, m), Sheet("spread", 0, m)


def count_table(rows: Array, m: int) -> Array:
    """This client's table of counts: (m, 1), 1 at its rows."""
    table = np.zeros((m, 1), np.uint64)
    table[rows, 0] = 1
    return table


def count_holders(values: Array, n: int) -> Array:
    """How many of n clients hold each row, from the opened sums (m, 1): (m,) int64 in [1, n].

    Raises UnionAborted if a sum is out of range: some client's table was malformed.
    """
    flat = values.reshape(-1)
    if flat.size and not 1 <= int(flat.min()) <= int(flat.max()) <= n:
        raise UnionAborted(f"a row is held by no client or by more than {n}: some table was malformed")
    return flat.astype(np.int64)


def common_multiple(held: Array) -> int:
    """L, the least common multiple of the counts (m,) that occur: at least 1."""
    return math.lcm(*np.unique(held).tolist())


def row_factors(held: Array, basis: Basis) -> Array:
    """L / c for counts (m,) in every lane of a basis: (lanes, m) canonical residues.

    A sum over the c holders of equal data times this is L times the data, as integers.
    """
    top, common = int(held.max(initial=1)), common_multiple(held)
    # Where c does not divide L no row has c holders.
    table = [[0, *(common // c % p for c in range(1, top + 1))] for p in basis.primes]
    return np.asarray(np.array(table, basis.dtype)[:, held])


def fingerprints(data: Array, ids: Array, secrets: Secrets) -> Array:
    """Keyed fingerprints of points, from digests (N, 2) of their data and of their IDs: (N,) residues.

    Points with one ID get equal fingerprints at every client if their data are equal, else with probability
    2**-61.  Points with other IDs get other fingerprints, also if their data are equal; and whoever has the
    key can test a guess of the data only for an ID that it knows.
    """
    from psu.identify import tags

    distinct, inverse = tags(bind_digests(data, ids), subkey(secrets.group, "data"))
    return np.asarray(distinct.z[inverse])


def bind_digests(data: Array, ids: Array) -> Array:
    """Digests of data and ID together, from the digests (N, 2) of each: (N, 2)."""
    from psu.identify import pair_digests

    return pair_digests(data, ids)


def spread_table(rows: Array, prints: Array, m: int, coins: Coins) -> Array:
    """This client's table of spread: (m, 3) secret residues.

    Raises ValueError if two of its own points share a row and differ.
    """
    from psu import kernels

    same_of_one(rows, prints)
    f = np.zeros(m, np.uint64)
    f[rows] = prints
    r = np.zeros(m, np.uint64)
    r[rows] = coins.residues(MERSENNE_61, m)[rows]
    rf = kernels.multiply(r, f)
    return np.stack([r, rf, kernels.multiply(rf, f)], axis=1)


def same_of_one(rows: Array, data: Array) -> None:
    """Raises ValueError if two points of one client share a row, (N,), and their data, (N, ...), differ."""
    _, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
    apart = (data != data[first[inverse]]).reshape(len(data), -1).any(axis=1)
    if apart.any():
        where = int(np.flatnonzero(apart)[0])
        raise InvalidValue(
            f"points with equal IDs differ, such as point {where}: give them distinct IDs, or keep one"
        )


def disagreeing_rows(values: Array) -> Array:
    """Rows whose holders disagree: ascending int64, from opened values (m, 1) or server-mode sums (m, 3)."""
    from psu import kernels

    if values.shape[1] == 1:
        return np.flatnonzero(values[:, 0])
    s0, s1, s2 = (np.ascontiguousarray(values[:, i]) for i in range(3))
    return np.flatnonzero(kernels.multiply(s0, s2) != kernels.multiply(s1, s1))
