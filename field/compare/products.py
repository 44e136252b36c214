"""Products of bits that are opened under masks of which all products are shared.

Each factor is public as b = x + a under a mask a, so the product of the x is the sum over sets S of factors
of the product of the b outside of S, times that of the a in S: local, given shares of the products of masks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.compare.tables import Deck, Hand

Array = NDArray[Any]

ONES = np.uint64(2**64 - 1)


def multiply(bits: Array, masks: Array, groups: tuple[int, ...], hand: Hand, constant: Any) -> Array:
    """A share of the product of each group: (outcomes, groups, per), of masked bits (outcomes, f, per)."""
    outcomes, _, per = bits.shape
    out = np.empty((outcomes, len(groups), per), np.uint64)
    begin = 0
    for number, size in enumerate(groups):
        table = hand.table(np.empty((2**size - 1 - size, outcomes, per), np.uint64))
        terms = monomials(masks[:, begin : begin + size], table, np.broadcast_to(constant, (outcomes, per)))
        for d in range(size - 1, -1, -1):
            terms = [(terms[s] & bits[:, begin + d]) ^ terms[2**d + s] for s in range(2**d)]
        out[:, number] = terms[0]
        begin += size
    return out


def monomials(masks: Array, table: Array, constant: Array) -> list[Array]:
    """Shares of the products of masks (outcomes, f, per) over subsets, 2**f of (outcomes, per).

    Those of two masks and more are in the table (2**f - 1 - f, outcomes, per); constant: of none.
    """
    terms, row = [constant], 0
    for d in range(masks.shape[1]):
        terms.append(masks[:, d])
        terms.extend(table[row : row + 2**d - 1])
        row += 2**d - 1
    return terms


def deal_multiply(masks: Array, groups: tuple[int, ...], deck: Deck) -> None:
    """Tables of the products of masks (outcomes, f, per) over subsets of two and more of each group."""
    outcomes, _, per = masks.shape
    begin = 0
    for size in groups:
        subsets(masks[:, begin : begin + size], deck.table((2**size - 1 - size, outcomes, per)))
        begin += size


def subsets(masks: Array, table: Array) -> list[Array]:
    """The products of masks (outcomes, f, per) over subsets, in the order of `monomials`.

    Those of two masks and more are added to the table (2**f - 1 - f, outcomes, per).
    """
    products, row = [np.broadcast_to(ONES, (len(masks), masks.shape[2]))], 0
    for d in range(masks.shape[1]):
        mask = masks[:, d]
        fresh = [product & mask for product in products[1:]]
        for product in fresh:
            table[row] ^= product
            row += 1
        products += [mask, *fresh]
    return products
