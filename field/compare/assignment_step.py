"""One step of Lloyd's heuristic after which nobody knows the labels: they stay shared among a committee.

A member's labels are one-hot bits, shared by exclusive or, and the same bits as residues, shared by addition
modulo every prime: on residues others compute sums.  After the contest of a step
(`field.compare.dealer_protocol`, `field.compare.tournament`)

1. bits become residues: the dealer shares random bits r both ways, the members open c = b xor r among
   themselves, and b = c + (1 - 2 c) r is linear in what is shared.  The last row is one minus the others;
2. one bit says whether any label changed, if labels before were secret or whole: with L the cluster of a
   point as a number, z_a = sum_i rho_ai (L_i - L'_i), a = 1, 2, 3, modulo the first prime p, for rho that the
   members draw together after step 1; F z stays shared, F a 3 x 3 matrix that is the sum of the members'
   own coins, multiplied by dealt triples.  If z is not 0, F z is uniform; it is 0, or z is by chance, with
   probability below 2 p**-3 < 2**-88.  It is told with sizes, when all that was opened is checked: who
   falsified a bit within the comparison, and saw F z before, would learn whether that changed a label.

Members open c, and what F and z exceed fresh uniform residues by, to one another only: whoever knows what the
dealer knows, and sees these, knows every label.  Everything else that is said of masks and tables in
`field.compare.dealer_protocol` holds here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from field.compare.bitslice import pack_bits, unpack_bits
from field.compare.blockwise import BlockwiseContest
from field.compare.correlated_randomness import (
    NEXT,
    NOTHING,
    DealerRandomness,
    PartyRandomness,
    Portion,
    deal_portions,
    residue_words,
)
from field.compare.dealer_protocol import ONES, DealerSchedule, Moves
from field.compare.tournament import Tournament
from field.ring.basis import Basis
from field.secrets.coins import Coins

# Numbers whose being zero is tested at once.
TESTS = 3


@dataclass(frozen=True, eq=False, repr=False)
class SharedLabels:
    """A member's share of labels among K clusters: bits (K, words), and residues (lanes, K - 1, m), secret.

    Residues are of all clusters but the last.
    """

    bits: Array
    parts: Array

    @classmethod
    def public(cls, basis: Basis, labels: Array, clusters: Array, *, lead: bool) -> SharedLabels:
        """Shares of labels (m,) that everybody knows, among these clusters (K,); lead: at one member."""
        known = (labels[None, :] == clusters[:, None]) if lead else np.zeros((len(clusters), len(labels)))
        return cls(pack_bits(known.astype(np.uint8)), basis.reduce(known[:-1].astype(np.int64)))

    def among(self, rows: Array) -> SharedLabels:
        """The same labels among fewer clusters, the numbers (K',) of those that are kept, ascending.

        Nobody is in the others: whoever is sure of that, from sizes say.
        """
        if len(rows) == len(self.bits):
            return self
        return SharedLabels(self.bits[rows], np.ascontiguousarray(self.parts[:, rows[:-1]]))

    def merge_groups(self, basis: Basis, groups: Array, ones: Array) -> SharedLabels:
        """The same labels among unions of clusters, the number (K,) of each cluster's; all numbers occur.

        ones: (lanes, m) a share of 1 for every point.
        """
        count = int(groups.max()) + 1
        if count == len(groups) and (groups == np.arange(count)).all():
            return self
        others = np.asarray(self.parts.sum(axis=1, dtype=np.uint64) % basis.column(2, np.uint64), basis.dtype)
        last = basis.add(ones, basis.negate(others).astype(basis.dtype))
        parts = np.concatenate([self.parts, last[:, None]], axis=1)
        bits = np.zeros((count, self.bits.shape[1]), np.uint64)
        sums = np.zeros((basis.lanes, count, parts.shape[2]), np.uint64)
        for h, g in enumerate(groups.tolist()):
            bits[g] ^= self.bits[h]
            sums[:, g] += parts[:, h]  # of fewer than 2**30 residues
        rest = sums[:, :-1] % basis.column(3, np.uint64)
        return SharedLabels(bits, np.ascontiguousarray(rest.astype(basis.dtype)))


@dataclass(frozen=True, eq=False)
class SharedContest:
    """A contest of which the bits that say who wins stay shared, and nothing after it."""

    schedule: DealerSchedule | Tournament | BlockwiseContest

    @property
    def portions(self) -> tuple[int, ...]:
        """Words of each portion that the dealer sends to one member."""
        return self.schedule.portions_of_wins

    @property
    def openings(self) -> int:
        """How often members open something, at most."""
        return len(self.schedule.openings)

    def play(self, masked: Array, hand: PartyRandomness, *, lead: bool) -> Moves:
        """A member's part, as `DealtContest.compete`: its share of who wins, (K, words)."""
        return self.schedule.winner_bits(masked, hand, ONES if lead else np.uint64(0))

    def deal_words(
        self, rho: Array, streams: Sequence[Coins], corrected: int, before: Array = NOTHING
    ) -> Iterator[Array]:
        """The corrections for one member, portion by portion; as `DealtContest.deal_words`."""
        return deal_portions(self.schedule.dealing_wins(rho), streams, corrected, before)


@dataclass(frozen=True, eq=False)
class AssignmentStep:
    """Everything public about one step: the contest, and what comes after it.

    basis: all lanes, that residues are shared in; the contest may be decided in fewer.  tested: whether a bit
    says if labels changed.  Plays like a `field.compare.dealer_protocol.DealerSchedule`.
    """

    schedule: DealerSchedule | Tournament | BlockwiseContest
    basis: Basis
    tested: bool

    @property
    def m(self) -> int:
        return self.schedule.m

    @property
    def rows(self) -> int:
        """Clusters whose bits become residues: all but one."""
        return self.schedule.contest.outcomes - 1

    @property
    def openings(self) -> int:
        """How often members open something, at most."""
        return len(self.schedule.openings) + 1 + self.tested

    @cached_property
    def first(self) -> Basis:
        """The prime modulo which numbers are tested."""
        return self.basis.prefix(1)

    @property
    def portions(self) -> tuple[int, ...]:
        """Words of each portion that the dealer sends to one member: the last may serve what comes after the
        contest alone."""
        *before, last = self.schedule.portions_of_wins
        return (*before, last, self._after) if before else (last + self._after,)

    @property
    def _after(self) -> int:
        """Words for what comes after the contest."""
        tested = residue_words(self.first, (TESTS,)) if self.tested else 0
        return residue_words(self.basis, (self.rows, self.m)) + tested

    # --- committee

    def play(
        self, masked: Array, old: SharedLabels, hand: PartyRandomness, coins: Coins, *, lead: bool
    ) -> Moves:
        """A member's part: yields what it opens, is sent the sum of what all opened.

        masked: (lanes, k, m) distances plus the dealer's masks.  old: its share of the labels before.  coins:
        its own, secret.  Returns its share of the labels, and one of F z, residues (1, 3) that are all 0 if
        labels are as before; None if that is not tested.
        """
        from field.kernels import comparing

        bits = yield from self.schedule.winner_bits(masked, hand, ONES if lead else np.uint64(0))
        if len(self.portions) > 1:
            yield NEXT
        shape = bits[:-1].shape
        parts = hand.residues(self.basis, (self.rows, self.m)).copy()
        # Behind the bits goes a seed that nobody chose alone, fixed together with them.
        seed = np.empty(2, np.uint64)
        coins.fill(seed)
        opened = yield np.concatenate([(bits[:-1] ^ hand.masks(shape)).reshape(-1), seed])
        words, seed = np.ascontiguousarray(opened[:-2].reshape(shape)), opened[-2:]
        comparing.bits_to_residues(words, lead, np.array(self.basis.primes, np.uint64), parts)
        new = SharedLabels(bits, parts)
        if not self.tested:
            return new, None
        before, after = (cluster_numbers(self.first, shared.parts) for shared in (old, new))
        rho = self.first.sample((TESTS, self.m), Coins(seed.tobytes()))
        gaps = self.first.add(before, self.first.negate(after))
        z = self.first.matmul(rho, np.ascontiguousarray(gaps[:, :, None]))[:, :, 0]
        own = np.concatenate([self.first.sample((TESTS**2,), coins), z], axis=1)
        fresh = hand.uniform(self.first, own.shape[1:])
        products = hand.residues(self.first, (TESTS,))
        gaps = yield self.first.add(own, self.first.negate(fresh)).astype(np.uint32)
        return new, self._multiplied(gaps, fresh, products, lead)

    def _multiplied(self, gaps: Array, fresh: Array, products: Array, lead: bool) -> Array:
        """A share (1, 3) of F z, from what F and z exceed A and B by, shares of these, and of A B."""
        p = self.first.primes[0]
        (e, g), (a, b) = (_split(part) for part in (gaps, fresh))
        # Sums of three products of residues below 2**30 each.
        total = (e @ b % p + a @ g % p + products[0]) % p
        if lead:
            total = (total + e @ g) % p
        return np.asarray(total, np.uint32)[None]

    # --- dealer

    def deal_words(
        self, rho: Array, streams: Sequence[Coins], corrected: int, before: Array = NOTHING
    ) -> Iterator[Array]:
        """The corrections for one member, portion by portion; as `DealtContest.deal_words`."""
        return deal_portions(self.deal_portions(rho), streams, corrected, before)

    def deal_portions(self, rho: Array) -> Iterator[Portion]:
        """What is dealt, portion by portion: one for all, if the contest has one."""
        wins = self.schedule.dealing_wins(rho)
        if len(self.portions) > 1:
            yield from wins
            yield self._after, self._deal_after
            return

        def whole(deck: DealerRandomness) -> None:
            for _, fill in wins:
                fill(deck)
            self._deal_after(deck)

        yield self.portions[0], whole

    def _deal_after(self, deck: DealerRandomness) -> None:
        from field.kernels import comparing

        parts = deck.residues(self.basis, (self.rows, self.m))
        masks = deck.masks((self.rows, self.schedule.comparison_words))
        comparing.bits_less(masks, np.array(self.basis.primes, np.uint64), parts)
        if self.tested:
            p = self.first.primes[0]
            a, b = _split(deck.uniform(self.first, (TESTS**2 + TESTS,)))
            products = deck.residues(self.first, (TESTS,))
            products[0] = (a @ b + p - products[0]) % p


def cluster_numbers(basis: Basis, parts: Array) -> Array:
    """The cluster of each point as a number (lanes, m), 0 for the last, of residues (lanes, K - 1, m).

    basis: as many lanes as it is wanted in.
    """
    weights = basis.reduce(np.arange(1, parts.shape[1] + 1)[None])
    return np.asarray(basis.matmul(weights, np.ascontiguousarray(parts[: basis.lanes]))[:, 0])


def _split(values: Array) -> tuple[Array, Array]:
    """A matrix (3, 3) and a vector (3,), uint64, of residues (1, 12)."""
    wide = values[0].astype(np.uint64)
    return wide[: TESTS**2].reshape(TESTS, TESTS), wide[TESTS**2 :]


def cluster_code(clusters: Array, bits: Array, places: int) -> Array:
    """Binary digits (places, words) of each point's cluster, from bits (K, words) of these clusters (K,)."""
    out = np.zeros((places, bits.shape[1]), np.uint64)
    for h, won in zip(clusters.tolist(), bits, strict=True):
        for place in range(places):
            if h >> place & 1:
                out[place] ^= won
    return out


def select_planes(planes: Array, begin: int, end: int) -> Array:
    """Planes (places, words) of the points begin, ..., end - 1 alone."""
    return pack_bits(unpack_bits(planes, end)[..., begin:])
