"""Who wins at every level of a tournament: products of masked bits along paths from the final down.

A contestant of a level wins the tournament if it wins its group and its group wins: the product of a bit for
every level above it, and of the literals of the final (`field.compare.products`).  Of the products of masks,
what contestants of a group have in common is dealt once, and for the first of a group, which wins where no
other does, sums of the others' serve.  Bits that are opened before are all that is needed: no round, and
nothing is opened.

A path of f factors that grows by one takes 2**f - 1 words for each point word and each contestant but the
first of its group; the last factor may be a digit of a place instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.compare.heats import Heat
from field.compare.products import ONES, monomials, subsets
from field.compare.tables import Deck, Hand

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Paths:
    """Of n contestants: bits (f, n, per) opened, of f factors, and terms (2**f, n, per), which are secret.

    terms: a member's shares of the products of masks over subsets of factors; at the dealer these products.
    """

    bits: Array
    terms: Array

    @classmethod
    def final(cls, bits: Array, masks: Array, hand: Hand, constant: Any) -> Paths:
        """A member's, of factors of who wins the final (n, f, per) each, as `field.compare.dealt.factors`."""
        outcomes, size, per = bits.shape
        table = hand.table(np.empty((2**size - 1 - size, outcomes, per), np.uint64))
        terms = monomials(masks, table, np.broadcast_to(constant, (outcomes, per)))
        return cls(np.ascontiguousarray(bits.swapaxes(0, 1)), np.stack(terms))

    @property
    def won(self) -> Array:
        """Shares of who wins everything, (n, per)."""
        return _folded(self.terms, self.bits)

    def through(self, heat: Heat, bits: Array, masks: Array, hand: Hand) -> tuple[Array, Array]:
        """Shares of who of the places (places, per) wins everything, and of what their factors add to terms.

        bits, masks: (places, per) of who wins its group, opened and their masks.
        """
        group = heat.places[:, 0]
        own = self._own(group, masks, hand)
        return _folded(self.terms[:, group] & bits ^ own, self.bits[:, group]), own

    def longer(self, heat: Heat, bits: Array, own: Array) -> Paths:
        """Those of all contestants; bits, own: as in `through`."""
        factor = np.empty((len(heat.sizes), bits.shape[1]), np.uint64)
        first, alone = _firsts(heat)
        factor[heat.places[:, 2]], factor[alone] = bits, ONES
        factor[first] = ~_by_group(heat, bits)
        factors = np.concatenate([self.bits[:, _whose(heat)], factor[None]])
        return Paths(factors, longer(self.terms, heat, own))

    def times(self, heat: Heat, bits: Array, masks: Array, hand: Hand) -> Array:
        """Shares of the place's digits in the group that wins everything, (digits, per).

        bits, masks: (full * digits, per) of every full group's.
        """
        group = np.repeat(heat.full, heat.digits)
        found = _folded(self.terms[:, group] & bits ^ self._own(group, masks, hand), self.bits[:, group])
        sums: Array = np.bitwise_xor.reduce(found.reshape(len(heat.full), heat.digits, -1), axis=0)
        return sums

    def _own(self, group: Array, masks: Array, hand: Hand) -> Array:
        """Shares of the products of masks in which a new factor is, (2**f, factors, per)."""
        table = hand.table(np.empty((len(self.terms) - 1, *masks.shape), np.uint64))
        return np.concatenate([masks[None], table])


def deal_final(masks: Array, deck: Deck) -> Array:
    """Tables for `Paths.final`; the products of masks, (2**f, n, per)."""
    outcomes, size, per = masks.shape
    table = deck.table((2**size - 1 - size, outcomes, per))
    return np.stack(subsets(masks, table))


def deal_through(terms: Array, heat: Heat, masks: Array, deck: Deck) -> Array:
    """Tables for `Paths.through`; what the places' factors add to terms."""
    return _deal_own(terms, heat.places[:, 0], masks, deck)


def longer(terms: Array, heat: Heat, own: Array) -> Array:
    """The terms of all contestants, (2**(f + 1), n, per), of groups' terms and what the places' factors add.

    A member's shares, or the dealer's products.
    """
    return np.concatenate([terms[:, _whose(heat)], _grown(heat, own)])


def deal_times(terms: Array, heat: Heat, masks: Array, deck: Deck) -> None:
    """Tables for `Paths.times`."""
    _deal_own(terms, np.repeat(heat.full, heat.digits), masks, deck)


def rows(factors: int, count: int) -> int:
    """Words a point word that are dealt where `count` paths of so many factors grow by one."""
    return ((1 << factors) - 1) * count


def _deal_own(terms: Array, group: Array, masks: Array, deck: Deck) -> Array:
    table = deck.table((len(terms) - 1, *masks.shape))
    products = terms[1:, group] & masks
    table ^= products
    return np.concatenate([masks[None], products])


def _folded(terms: Array, bits: Array) -> Array:
    """The product of all factors, of their bits (f, n, per) and terms (2**f, n, per)."""
    for d in range(len(bits) - 1, -1, -1):
        terms = (terms[: 1 << d] & bits[d]) ^ terms[1 << d :]
    product: Array = terms[0]
    return product


def _grown(heat: Heat, own: Array) -> Array:
    """What the places' new factors add, (2**f, places, per), as what those of all contestants add."""
    first, _ = _firsts(heat)
    out = np.zeros((len(own), len(heat.sizes), own.shape[2]), np.uint64)
    out[:, heat.places[:, 2]] = own
    for terms, sums in zip(out, own, strict=True):
        terms[first] = _by_group(heat, sums)
    return out


def _by_group(heat: Heat, bits: Array) -> Array:
    """The sums (full, per) of what belongs to the places (places, per) of each full group."""
    sums: Array = np.bitwise_xor.reduceat(bits, np.flatnonzero(heat.places[:, 1] == 1), axis=0)
    return sums


def _firsts(heat: Heat) -> tuple[Array, Array]:
    """The first contestants of full groups, and those who are alone."""
    return heat.members[heat.full, 0], heat.members[heat.alone, 0]


def _whose(heat: Heat) -> Array:
    """(n,) the group of each contestant."""
    return np.repeat(np.arange(heat.count), [len(rows) for rows in heat.groups])
