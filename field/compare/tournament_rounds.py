"""One level of a tournament: contests within groups of neighbors, all at once.  Everything here is public."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from field.compare import bitslice
from field.compare.argmin import ArgminContest
from field.compare.correlated_randomness import (
    ONES,
    DealerRandomness,
    PartyRandomness,
    mask_monomials,
    subset_products,
)


@dataclass(frozen=True, eq=False)
class TournamentRound:
    """The contests of one level.  Whoever is alone in a group goes on without one.

    sizes: (n,) of the contestants' clusters, all 1 where they are equal or secret.  count: groups, fewer than
    contestants.  They are even, and of neighbors: a tie goes to the lower contestant of a group, and later to
    the lower group, so to the lowest of all.
    """

    sizes: tuple[int, ...]
    count: int

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The contestants of each group, ascending."""
        return group_neighbors(len(self.sizes), self.count)

    @cached_property
    def full(self) -> Array:
        """Numbers of the groups that have a contest."""
        return np.array([g for g, rows in enumerate(self.groups) if len(rows) > 1], np.int64)

    @cached_property
    def alone(self) -> Array:
        """Numbers of all other groups."""
        return np.array([g for g, rows in enumerate(self.groups) if len(rows) == 1], np.int64)

    @property
    def digits(self) -> int:
        """Binary digits of a place within a group."""
        return (max(map(len, self.groups)) - 1).bit_length()

    @property
    def pairs(self) -> bool:
        """Whether a group has one comparison at most, so that its bit is the winner's place."""
        return self.digits == 1

    @cached_property
    def members(self) -> Array:
        """(groups, 2**digits) the contestant at each place, -1 for none."""
        out = np.full((self.count, 1 << self.digits), -1, np.int64)
        for group, rows in enumerate(self.groups):
            out[group, : len(rows)] = rows
        return out

    @cached_property
    def places(self) -> Array:
        """(places, 3) group, place and contestant, of whoever is not the first of its group."""
        there = np.argwhere(self.members[:, 1:] >= 0) + np.array([0, 1])
        return np.concatenate([there, self.members[*there.T][:, None]], axis=1)

    @cached_property
    def contest(self) -> ArgminContest:
        """The contests within all groups, as one: its outcomes are the contestants of full groups."""
        literals: list[list[int]] = []
        wanted: list[list[bool]] = []
        comparisons: list[tuple[int, int, int, int]] = []
        most = max(map(len, self.groups)) - 1
        for group in self.full.tolist():
            rows = self.groups[group]
            own = nearest_contest(self.sizes, rows)
            for row, signs in zip(own.literals.tolist(), own.wanted.tolist(), strict=True):
                more = most - len(row)
                literals.append([len(comparisons) + q for q in row + row[:1] * more])
                wanted.append(signs + signs[:1] * more)
            comparisons += [(rows[a], rows[b], u, v) for a, b, u, v in own.comparisons]
        return ArgminContest(
            self.sizes, tuple(comparisons), np.array(literals), np.array(wanted),
            np.arange(len(literals), dtype=np.int32),
        )  # fmt: skip

    @cached_property
    def outcomes(self) -> Array:
        """(places,) the outcome of the contest that is whoever stands at a place."""
        number = {h: q for q, h in enumerate(h for g in self.full.tolist() for h in self.groups[g])}
        return np.array([number[h] for h in self.places[:, 2].tolist()], np.int64)

    def digits_of(self, bits: Array) -> Array:
        """The binary digits of each full group's place, (full * digits, per), of the places' bits."""
        out = np.zeros((self.count, self.digits, bits.shape[1]), np.uint64)
        for (group, place, _), bit in zip(self.places.tolist(), bits, strict=True):
            for digit in range(self.digits):
                if place >> digit & 1:
                    out[group, digit] ^= bit
        return out[self.full].reshape(-1, bits.shape[1])

    def numbers(self, digits: Array, m: int) -> Array:
        """(full, m) uint8 places with these binary digits (full * digits, per)."""
        planes = digits.reshape(len(self.full), self.digits, -1)
        return np.stack([bitslice.from_planes(group, m).astype(np.uint8) for group in planes])


@lru_cache(maxsize=512)
def tournament_round(sizes: tuple[int, ...], count: int) -> TournamentRound:
    """One object for equal values, which keeps what it computed."""
    return TournamentRound(sizes, count)


def group_neighbors(k: int, count: int) -> tuple[tuple[int, ...], ...]:
    """So many even groups of neighbors."""
    return tuple(tuple(range(g * k // count, (g + 1) * k // count)) for g in range(count))


def nearest_contest(sizes: tuple[int, ...], rows: Sequence[int]) -> ArgminContest:
    """The contest among these clusters alone."""
    return ArgminContest.nearest(np.array([sizes[h] for h in rows]))


# --------------------------------------------------------------------------------------------------
# Who wins at every level of a tournament: products of masked bits along paths from the final down.
#
# A contestant of a level wins the tournament if it wins its group and its group wins: the product of a bit
# for every level above it, and of the literals of the final (`field.compare.correlated_randomness`).  Of the
# products of masks, what contestants of a group have in common is dealt once, and for the first of a group,
# which wins where no other does, sums of the others' serve.  Bits that are opened before are all that is
# needed: no round, and nothing is opened.
#
# A path of f factors that grows by one takes 2**f - 1 words for each point word and each contestant but the
# first of its group; the last factor may be a digit of a place instead.


@dataclass(frozen=True, eq=False, repr=False)
class WinningPaths:
    """Opened bits (f, n, per) of f factors of n contestants, and secret terms (2**f, n, per).

    terms: a member's shares of the products of masks over subsets of factors; at the dealer these products.
    """

    bits: Array
    terms: Array

    @classmethod
    def final(cls, bits: Array, masks: Array, hand: PartyRandomness, constant: Any) -> WinningPaths:
        """A member's, of factors of who wins the final (n, f, per) each, as
        `field.compare.dealer_protocol.outcome_factors`.
        """
        outcomes, size, per = bits.shape
        table = hand.table(np.empty((2**size - 1 - size, outcomes, per), np.uint64))
        terms = mask_monomials(masks, table, np.broadcast_to(constant, (outcomes, per)))
        return cls(np.ascontiguousarray(bits.swapaxes(0, 1)), np.stack(terms))

    @property
    def won(self) -> Array:
        """Shares of who wins everything, (n, per)."""
        return _folded(self.terms, self.bits)

    def through(
        self, heat: TournamentRound, bits: Array, masks: Array, hand: PartyRandomness
    ) -> tuple[Array, Array]:
        """Shares of who of the places (places, per) wins everything, and of what their factors add to terms.

        bits, masks: (places, per) of who wins its group, opened and their masks.
        """
        group = heat.places[:, 0]
        own = self._own(group, masks, hand)
        return _folded(self.terms[:, group] & bits ^ own, self.bits[:, group]), own

    def extend_paths(self, heat: TournamentRound, bits: Array, own: Array) -> WinningPaths:
        """Those of all contestants; bits, own: as in `through`."""
        factor = np.empty((len(heat.sizes), bits.shape[1]), np.uint64)
        first, alone = _firsts(heat)
        factor[heat.places[:, 2]], factor[alone] = bits, ONES
        factor[first] = ~_by_group(heat, bits)
        factors = np.concatenate([self.bits[:, _whose(heat)], factor[None]])
        return WinningPaths(factors, extend_paths(self.terms, heat, own))

    def winner_digits(self, heat: TournamentRound, bits: Array, masks: Array, hand: PartyRandomness) -> Array:
        """Shares of the place's digits in the group that wins everything, (digits, per).

        bits, masks: (full * digits, per) of every full group's.
        """
        group = np.repeat(heat.full, heat.digits)
        found = _folded(self.terms[:, group] & bits ^ self._own(group, masks, hand), self.bits[:, group])
        sums: Array = np.bitwise_xor.reduce(found.reshape(len(heat.full), heat.digits, -1), axis=0)
        return sums

    def _own(self, group: Array, masks: Array, hand: PartyRandomness) -> Array:
        """Shares of the products of masks in which a new factor is, (2**f, factors, per)."""
        table = hand.table(np.empty((len(self.terms) - 1, *masks.shape), np.uint64))
        return np.concatenate([masks[None], table])


def deal_final(masks: Array, deck: DealerRandomness) -> Array:
    """Tables for `WinningPaths.final`; the products of masks, (2**f, n, per)."""
    outcomes, size, per = masks.shape
    table = deck.table((2**size - 1 - size, outcomes, per))
    return np.stack(subset_products(masks, table))


def deal_through(terms: Array, heat: TournamentRound, masks: Array, deck: DealerRandomness) -> Array:
    """Tables for `WinningPaths.through`; what the places' factors add to terms."""
    return _deal_own(terms, heat.places[:, 0], masks, deck)


def extend_paths(terms: Array, heat: TournamentRound, own: Array) -> Array:
    """The terms of all contestants, (2**(f + 1), n, per), of groups' terms and what the places' factors add.

    A member's shares, or the dealer's products.
    """
    return np.concatenate([terms[:, _whose(heat)], _grown(heat, own)])


def deal_times(terms: Array, heat: TournamentRound, masks: Array, deck: DealerRandomness) -> None:
    """Tables for `WinningPaths.winner_digits`."""
    _deal_own(terms, np.repeat(heat.full, heat.digits), masks, deck)


def path_words(factors: int, count: int) -> int:
    """Words a point word that are dealt where `count` paths of so many factors grow by one."""
    return ((1 << factors) - 1) * count


def _deal_own(terms: Array, group: Array, masks: Array, deck: DealerRandomness) -> Array:
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


def _grown(heat: TournamentRound, own: Array) -> Array:
    """What the places' new factors add, (2**f, places, per), as what those of all contestants add."""
    first, _ = _firsts(heat)
    out = np.zeros((len(own), len(heat.sizes), own.shape[2]), np.uint64)
    out[:, heat.places[:, 2]] = own
    for terms, sums in zip(out, own, strict=True):
        terms[first] = _by_group(heat, sums)
    return out


def _by_group(heat: TournamentRound, bits: Array) -> Array:
    """The sums (full, per) of what belongs to the places (places, per) of each full group."""
    sums: Array = np.bitwise_xor.reduceat(bits, np.flatnonzero(heat.places[:, 1] == 1), axis=0)
    return sums


def _firsts(heat: TournamentRound) -> tuple[Array, Array]:
    """The first contestants of full groups, and those who are alone."""
    return heat.members[heat.full, 0], heat.members[heat.alone, 0]


def _whose(heat: TournamentRound) -> Array:
    """(n,) the group of each contestant."""
    return np.repeat(np.arange(heat.count), [len(rows) for rows in heat.groups])
