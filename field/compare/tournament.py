"""The nearest of many centers in two rounds of contests: winners of small groups, then the winners' winner.

Comparing all pairs of k centers takes k (k - 1) / 2 comparisons; groups of g take k (g - 1) / 2 and then
k / g (k / g - 1) / 2.  Who won a group stays secret: its place is opened under a mask that only the dealer
knows, and from that every member finds shares of the winner's distance and squared size under fresh masks.
With M = D + rho and S = s**2 + sigma opened, and x = s_a**2 D_b - s_b**2 D_a,

    2 x + r = 2 (S_a (M_b - rho_b) - S_b (M_a - rho_a) + M_a sigma_b - M_b sigma_a) + fresh,
    r = fresh - 2 (sigma_a rho_b - sigma_b rho_a),

linear in what is shared, and the dealer knows r: so a comparison goes on as in `field.compare.dealt`.  Sizes
are not divided by common factors here, as which sizes meet is a secret.  Where all sizes are equal, as those
of rounded centers are, winners' distances alone are opened under fresh masks, and compared as any others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.compare import bitslice
from field.compare.contest import Contest
from field.compare.dealt import (
    Differences,
    Moves,
    Schedule,
    Values,
    codes,
    compare,
    compete,
    deal,
    deal_compare,
    deal_factors,
    deal_multiply,
    factors,
    multiply,
)
from field.compare.portions import Portion
from field.compare.tables import NOTHING, Deck, Hand, residue_words
from field.ring.basis import Basis
from field.ring.quantize import distance_bound
from field.secrets.coins import Coins

Array = NDArray[Any]

# Shares of what of each group's winner meets the bit that says whether the group wins: (groups, rows, per).
Secrets = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class Tournament:
    """Everything public about a contest for the nearest of many centers; plays like a
    `field.compare.dealt.Schedule`.

    contest: `Contest.nearest` of all clusters.  A code is a place within a group, and its group above.
    count: groups, at least two, of at least two clusters each.
    """

    contest: Contest
    basis: Basis
    m: int
    count: int

    @staticmethod
    def needed(contest: Contest, count: int, d: int, max_int: int) -> int:
        """What the modulus must exceed: as `Contest.needed`, without dividing by common factors."""
        squares = _squares(contest)
        bounds: list[int] = [distance_bound(d, max_int, size) for size in contest.sizes]
        groups = _grouping(contest.outcomes, count)
        inner = max(_group(contest, group).needed(d, max_int) for group in groups)
        crossed = [
            2 * squares[a] * bounds[b] for x in groups for y in groups if x is not y for a in x for b in y
        ]
        return max(inner, *crossed)

    @property
    def alike(self) -> bool:
        """Whether all clusters have the same size, so that a winner's size is no secret."""
        return len(set(self.contest.sizes)) == 1

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The clusters of each group, ascending."""
        return _grouping(self.contest.outcomes, self.count)

    @property
    def places(self) -> int:
        """Binary digits of a code."""
        return self.digits + self.outer.contest.places

    @property
    def labels(self) -> Array:
        """(codes,) what each code means, -1 for none."""
        return np.append(self.contest.labels, np.int32(-1))[self.members.reshape(-1)]

    @property
    def digits(self) -> int:
        """Binary digits of a place within a group."""
        return max(1, (max(map(len, self.groups)) - 1).bit_length())

    @cached_property
    def members(self) -> Array:
        """(groups, 2**digits) the cluster at each place, -1 for none."""
        out = np.full((len(self.groups), 1 << self.digits), -1, np.int64)
        for group, rows in enumerate(self.groups):
            out[group, : len(rows)] = rows
        return out

    @cached_property
    def inner(self) -> Schedule:
        """The contests within all groups, as one: outcome h is the cluster h."""
        literals: list[list[int]] = []
        wanted: list[list[bool]] = []
        comparisons: list[tuple[int, int, int, int]] = []
        most = max(map(len, self.groups)) - 1
        for rows in self.groups:
            own = _group(self.contest, rows)
            for row, signs in zip(own.literals.tolist(), own.wanted.tolist(), strict=True):
                more = most - len(row)
                literals.append([len(comparisons) + q for q in row + row[:1] * more])
                wanted.append(signs + signs[:1] * more)
            comparisons += [(rows[a], rows[b], u, v) for a, b, u, v in own.comparisons]
        contest = Contest(
            self.contest.sizes, tuple(comparisons), np.array(literals), np.array(wanted), self.contest.labels
        )
        return Schedule(contest, self.basis, self.m)

    @cached_property
    def outer(self) -> Schedule:
        """The contest among the groups' winners; ties go to the lower group."""
        return Schedule(Contest.nearest(np.ones(len(self.groups), np.int64)), self.basis, self.m)

    @property
    def per(self) -> int:
        return self.inner.per

    @property
    def squares(self) -> Array:
        """(lanes, k) squared sizes, residues."""
        return np.array([[s % p for s in _squares(self.contest)] for p in self.basis.primes], np.uint64)

    @property
    def dealt(self) -> int:
        """Words that the dealer sends to one member."""
        return self._dealt(self.digits)

    @property
    def openings(self) -> tuple[int, ...]:
        """Words that a member opens in each round of `compete`."""
        count, pairs = self.count, len(self.outer.contest.pairs)
        shown = (count,) if self.alike else (2 * count, pairs)
        shared = (residue_words(self.basis, (n, self.m)) for n in shown)
        chosen = count * self.digits * self.per
        return (*self.inner.openings, chosen, *shared, *self.outer.openings)

    @property
    def dealt_wins(self) -> int:
        """Words that are dealt to one member for `wins`."""
        return self._dealt(self.members.shape[1] - 1)

    def _dealt(self, rows: int) -> int:
        """The same, if so many bits of each group's winner meet the bit that says whether the group wins."""
        groups, size = self.members.shape
        last = self.outer.products[-1][0] + 1
        longer = rows * (2**last - 1 - last) * groups * self.per
        ones, tables = (residue_words(self.basis, (groups, n, self.m)) for n in (size - 1, size))
        return int(self.inner.dealt + ones + tables + self.outer.dealt + longer)

    def compete(self, masked: Array, hand: Hand, *, lead: bool) -> Moves:
        """See `field.compare.dealt.compete`."""
        return compete(self, masked, hand, lead=lead)

    def codes(self, masked: Array, hand: Hand, constant: Any) -> Moves:
        """A member's share of the codes' binary digits, as `field.compare.dealt.Schedule.codes`."""
        groups, digits = yield from self._play(masked, hand, constant, self._digits)
        return self._codes(groups, digits)

    def wins(self, masked: Array, hand: Hand, constant: Any) -> Moves:
        """A member's share of who wins each point, as `field.compare.dealt.Schedule.wins`."""
        groups, others = yield from self._play(masked, hand, constant, self._places)
        # Who wins in the group that wins is nobody but the first, or one of the others.
        inside = np.stack([groups ^ np.bitwise_xor.reduce(others, axis=0), *others], axis=1)
        return np.ascontiguousarray(inside[self.members >= 0])

    def _play(self, masked: Array, hand: Hand, constant: Any, secrets: Secrets) -> Moves:
        """Shares of which group wins, (groups, per), and of that times each of its secrets, rows of it."""
        from field.kernels import comparing

        basis, (groups, size), primes = self.basis, self.members.shape, np.array(self.basis.primes, np.uint64)
        # Within the groups.
        bits, masks = yield from compare(self.inner, Differences(self.inner, masked), hand, constant)
        bits, masks = yield from factors(self.inner, bits, masks, hand, constant)
        wins = multiply(bits, masks, self.inner.products[-1], hand, constant)[:, 0]
        found = secrets(wins)
        hiding = hand.masks(found.shape)
        winners = yield found ^ hiding
        # The winners, under fresh masks.
        shape = (1 if self.alike else 2, groups, self.m)
        ones, shifted = (hand.residues(basis, (groups, n, self.m)) for n in (size - 1, size))
        fresh = hand.uniform(basis, shape)
        share = np.empty((basis.lanes, *shape), np.uint32)
        comparing.select(
            np.ascontiguousarray(masked), self.squares, self.members, self._numbers(winners), ones, shifted,
            fresh, constant != 0, primes, share,
        )  # fmt: skip
        selected = yield share
        met: Differences | Values
        if self.alike:
            met = Differences(self.outer, selected[:, 0])
        else:
            pairs = self.outer.contest.pairs
            share = hand.uniform(basis, (len(pairs), self.m))
            comparing.cross(selected, fresh, pairs, constant != 0, primes, share)
            met = Values(self.outer, (yield share))
        # Among them.
        bits, masks = yield from compare(self.outer, met, hand, constant)
        bits, masks = yield from factors(self.outer, bits, masks, hand, constant)
        wins = multiply(bits, masks, self.outer.products[-1], hand, constant)[:, 0]
        # What is secret of the winning group: the same product with one factor more.
        products = []
        for row in range(found.shape[1]):
            longer = [
                np.concatenate([x, y[:, row, None]], axis=1) for x, y in ((bits, winners), (masks, hiding))
            ]
            products.append(multiply(longer[0], longer[1], (bits.shape[1] + 1,), hand, constant)[:, 0])
        return wins, products

    def deal(
        self, rho: Array, streams: Sequence[Coins], corrected: int, before: Array = NOTHING
    ) -> Iterator[Array]:
        """See `field.compare.dealt.deal`."""
        return deal(self, rho, streams, corrected, before)

    @property
    def portions(self) -> tuple[int, ...]:
        """Words of each portion that is dealt for `compete`."""
        return (self.dealt,)

    @property
    def portions_of_wins(self) -> tuple[int, ...]:
        """The same for `wins`."""
        return (self.dealt_wins,)

    def dealing(self, rho: Array) -> Iterator[Portion]:
        """What is dealt for `compete`, portion by portion."""
        yield self.dealt, partial(self.deal_codes, rho)

    def dealing_wins(self, rho: Array) -> Iterator[Portion]:
        """The same for `wins`."""
        yield self.dealt_wins, partial(self.deal_wins, rho)

    def deal_codes(self, rho: Array, deck: Deck) -> None:
        """The dealer's part of `codes`, into a deck for more than this contest."""
        self._deal(rho, deck, self.digits)

    def deal_wins(self, rho: Array, deck: Deck) -> None:
        """The dealer's part of `wins`, into a deck for more than this contest."""
        self._deal(rho, deck, self.members.shape[1] - 1)

    def _deal(self, rho: Array, deck: Deck, rows: int) -> None:
        """The dealer's part of `_play` with so many rows of secrets a group."""
        from field.kernels import comparing

        basis = self.basis
        (groups, size), primes = self.members.shape, np.array(self.basis.primes, np.uint64)
        masks = deal_compare(self.inner, Differences(self.inner, rho), deck)
        deal_multiply(deal_factors(self.inner, masks, deck), self.inner.products[-1], deck)
        hiding = deck.masks((groups, rows, self.per))
        ones, shifted = (deck.residues(basis, (groups, n, self.m)) for n in (size - 1, size))
        comparing.conceal(rho, self.members, self._numbers(hiding), primes, ones, shifted)
        fresh = deck.uniform(basis, (1 if self.alike else 2, groups, self.m))
        met: Differences | Values
        if self.alike:
            met = Differences(self.outer, fresh[:, 0])
        else:
            pairs = self.outer.contest.pairs
            r = deck.uniform(basis, (len(pairs), self.m))
            comparing.crossed(fresh, pairs, primes, r)
            met = Values(self.outer, r)
        masks = deal_compare(self.outer, met, deck)
        last = deal_factors(self.outer, masks, deck)
        deal_multiply(last, self.outer.products[-1], deck)
        for row in range(rows):
            longer = np.concatenate([last, hiding[:, row, None]], axis=1)
            deal_multiply(longer, (longer.shape[1],), deck)

    def _places(self, wins: Array) -> Array:
        """A share of whether each but the first wins its group, (groups, size - 1, per), of wins (k, per)."""
        out = np.zeros((*self.members[:, 1:].shape, self.per), np.uint64)
        there = self.members[:, 1:] >= 0
        out[there] = wins[self.members[:, 1:][there]]
        return out

    def _digits(self, wins: Array) -> Array:
        """A share of each group's winner's place, (groups, digits, per), of who wins its group (k, per)."""
        return self._place(self._places(wins))

    def _place(self, places: Array) -> Array:
        """The binary digits of a place, (groups, digits, per), of bits of all places but the first."""
        out = np.zeros((len(places), self.digits, self.per), np.uint64)
        for number in range(1, places.shape[1] + 1):
            for place in range(self.digits):
                if number >> place & 1:
                    out[:, place] ^= places[:, number - 1]
        return out

    def _numbers(self, planes: Array) -> Array:
        """(groups, m) uint8 numbers with these binary digits, or these bits of places (groups, rows, per).

        A group has two places and one digit, or more places than digits.
        """
        if planes.shape[1] > self.digits:
            planes = self._place(planes)
        return np.stack([bitslice.numbers(group, self.m).astype(np.uint8) for group in planes])

    def _codes(self, wins: Array, digits: list[Array]) -> Array:
        """A share of the code (places, per): each group's digits if it wins (groups, per), and who wins."""
        below = np.stack([np.bitwise_xor.reduce(digit, axis=0) for digit in digits])
        return np.concatenate([below, codes(self.outer.contest, wins)])


def _squares(contest: Contest) -> list[int]:
    common = math.gcd(*contest.sizes)
    return [(size // common) ** 2 for size in contest.sizes]


def _grouping(k: int, count: int) -> tuple[tuple[int, ...], ...]:
    """So many even groups of neighbors."""
    return tuple(tuple(range(g * k // count, (g + 1) * k // count)) for g in range(count))


def _group(contest: Contest, rows: Sequence[int]) -> Contest:
    return Contest.nearest(np.array([contest.sizes[h] for h in rows]))
