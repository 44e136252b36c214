"""The nearest of many centers in several levels of contests: winners of small groups, then winners of these.

Comparing all pairs of k centers takes k (k - 1) / 2 comparisons; groups of g take k (g - 1) / 2, then a final
of all pairs of the k / g winners, or groups of these again: k - 1 comparisons if every group is a pair.  Who
won a group stays secret: its place p is opened as i = p + s, digit by digit, under a mask s that only the
dealer knows (of a pair that is the bit of its comparison), and from that every member finds shares of the
winner's value under a fresh mask f.  Of values V_v = D_v + rho_v, public among members, it is

    D_p + f = V_i - sum_(u > 0) [s = u] (V_i - V_(i + u)) + T_i,   T_v = f - rho_(v + s),

linear in what is dealt in shares: g - 1 bits [s = u] and the entries of T, modulo every prime.

Nobody but the dealer needs f alone where winners' values are compared as any others are, as where all sizes
are equal, like those of rounded centers.  There T_0 is whatever the members' streams of masks sum up to, so
that it takes no correction, and f = T_0 + rho_s, which the dealer knows.  What is opened stays uniform, given
all that any members but one, and all that was opened, tell:

- f is uniform and independent of rho, s and the distances, as T_0 is: in it is the stream of the member that
  is left, which serves nothing else.  So is D_p + f, even where i = 0 and that member's T_0 is used;
- T_v = T_0 + rho_s - rho_(v + s) is dealt: whoever gets corrections has it plus that member's stream of
  tables, used for this alone.  If that member gets them itself, others see streams of their own.  With i
  public, a member's share of one T_v at most is in what it opens, and corrections and opened value together
  are as many independent uniform residues as there are of T_0 and of streams of tables;
- f is fresh for every group and level, and masks the winner in comparisons and selections after that.

Where sizes differ, winners' squared sizes are secret too, and selected in the same way (they have no masks at
the first level, and take no table there).  With M = D + rho and S = s**2 + sigma opened, and
x = s_a**2 D_b - s_b**2 D_a,

    2 x + r = 2 (S_a (M_b - rho_b) - S_b (M_a - rho_a) + M_a sigma_b - M_b sigma_a) + fresh,
    r = fresh - 2 (sigma_a rho_b - sigma_b rho_a),

linear in what is shared, and the dealer knows r: so a comparison goes on as in
`field.compare.dealer_protocol`.  For this members need shares of rho and sigma, so these are what streams of
masks sum up to, and all entries of T are dealt.  Sizes are not divided by common factors here, as which sizes
meet is a secret.

Who won is a path from the final down: products of bits that are opened by then
(`field.compare.tournament_rounds`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from field.compare import tournament_rounds
from field.compare.argmin import ArgminContest
from field.compare.correlated_randomness import (
    DealerRandomness,
    PartyRandomness,
    residue_words,
)
from field.compare.dealer_protocol import (
    DealerSchedule,
    DealtContest,
    Moves,
    SlicedDifferences,
    SlicedValues,
    compare_masked,
    deal_compare,
    deal_factors,
    deal_multiply,
    multiply_bits,
    outcome_factors,
    winner_code,
)
from field.compare.tournament_rounds import (
    TournamentRound,
    WinningPaths,
    group_neighbors,
    nearest_contest,
    tournament_round,
)
from field.ring.basis import Basis
from field.ring.quantize import distance_bound


@dataclass(frozen=True, eq=False)
class Tournament(DealtContest):
    """Everything public about a contest for the nearest of many centers; played and dealt
    at once.

    contest: `ArgminContest.nearest` of all clusters.  A code is a place within a group of the first level,
    above it that group's place within one of the next, and so on, and the group that wins the final.
    counts: groups of each level, fewer than contestants, and two at least; the winners of the last meet in
    the final.  Groups are even, of neighbors; of one only if all clusters have the same size.

    Raises ValueError for other counts.
    """

    contest: ArgminContest
    basis: Basis
    m: int
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        before, least = (self.contest.outcomes, *self.counts), 1 if self.alike else 2
        fewer = all(b < a and a // b >= least for a, b in zip(before, self.counts, strict=False))
        if not self.counts or self.counts[-1] < 2 or not fewer:
            raise ValueError(
                f"counts={self.counts} groups of {before[0]} clusters: give at each level fewer than contest "
                f"it, of {least} at least each, and two or more in the end"
            )

    @staticmethod
    def needed(contest: ArgminContest, counts: tuple[int, ...], d: int, max_int: int) -> int:
        """What the modulus must exceed: as `ArgminContest.needed`, without dividing by common factors."""
        squares = _squares(contest)
        bounds: list[int] = [distance_bound(d, max_int, size) for size in contest.sizes]
        groups = group_neighbors(contest.outcomes, counts[0])
        inner = max(nearest_contest(contest.sizes, group).needed(d, max_int) for group in groups)
        crossed = [
            2 * squares[a] * bounds[b] for x in groups for y in groups if x is not y for a in x for b in y
        ]
        return max(inner, *crossed)

    @property
    def alike(self) -> bool:
        """Whether all clusters have the same size, so that a winner's size is no secret."""
        return len(set(self.contest.sizes)) == 1

    @cached_property
    def heats(self) -> tuple[TournamentRound, ...]:
        """All levels but the final."""
        sizes, out = self.contest.sizes, []
        for count in self.counts:
            out.append(tournament_round(sizes, count))
            sizes = (1,) * count
        return tuple(out)

    @cached_property
    def schedules(self) -> tuple[DealerSchedule, ...]:
        """The contests of all levels but the final."""
        return tuple(DealerSchedule(level.contest, self.basis, self.m) for level in self.heats)

    @cached_property
    def final(self) -> DealerSchedule:
        """The contest among the last groups' winners."""
        return DealerSchedule(_all_pairs(self.counts[-1]), self.basis, self.m)

    @property
    def places(self) -> int:
        """Binary digits of a code."""
        return sum(level.digits for level in self.heats) + self.final.contest.places

    @property
    def labels(self) -> Array:
        """(codes,) what each code means, -1 for none."""
        known = self.contest.labels[:, None]
        for level in self.heats:
            none = np.full((1, known.shape[1]), -1, np.int32)
            known = np.concatenate([known, none])[level.members].reshape(level.count, -1)
        return known.reshape(-1)

    @property
    def comparison_words(self) -> int:
        return self.final.comparison_words

    @property
    def squares(self) -> Array:
        """(lanes, k, 1) squared sizes, residues."""
        table = [[s % p for s in _squares(self.contest)] for p in self.basis.primes]
        return np.array(table, np.uint32)[:, :, None]

    @property
    def kinds(self) -> int:
        """How many values of a winner are secret: its distance, and where sizes differ its squared size."""
        return 1 if self.alike else 2

    def tables(self, level: int) -> tuple[int, ...]:
        """Entries of the tables that are dealt for each value of a winner of this level."""
        size = self.heats[level].members.shape[1]
        if self.alike:
            return (size - 1,)
        return (size, size if level else 0)

    @property
    def dealt(self) -> int:
        return self._dealt(codes=True)

    @property
    def dealt_wins(self) -> int:
        return self._dealt(codes=False)

    def _dealt(self, *, codes: bool) -> int:
        words, grown = self.final.dealt, self.final.products[-1][0]
        for level in range(len(self.heats) - 1, -1, -1):
            full, size = len(self.heats[level].full), self.heats[level].members.shape[1]
            for entries in (size - 1, *self.tables(level)):
                words += residue_words(self.basis, (full, entries, self.m))
            longer = tournament_rounds.path_words(grown, self._secrets(level, codes=codes))
            words += self.schedules[level].dealt + longer * self.comparison_words
            grown += 1
        return int(words)

    def _secrets(self, level: int, *, codes: bool) -> int:
        """Bits that say who won the groups of this level: digits of places where nothing else is needed."""
        stage = self.heats[level]
        return len(stage.full) * stage.digits if codes and level == 0 else len(stage.places)

    @property
    def openings(self) -> tuple[int, ...]:
        """Words that a member opens in each round of `compete`."""
        out: list[int] = []
        for level, (stage, schedule) in enumerate(zip(self.heats, self.schedules, strict=True)):
            out += [*self._crossed(level, schedule), *schedule.openings]
            if not stage.pairs:
                out.append(self._secrets(level, codes=True) * self.comparison_words)
            out.append(residue_words(self.basis, (self.kinds * len(stage.full), self.m)))
        return (*out, *self._crossed(len(self.heats), self.final), *self.final.openings)

    def _crossed(self, level: int, schedule: DealerSchedule) -> tuple[int, ...]:
        """What is opened before a level's comparisons."""
        if self.alike or not level:
            return ()
        return (residue_words(self.basis, (len(schedule.contest.pairs), self.m)),)

    # --- committee

    def code_digits(self, masked: Array, hand: PartyRandomness, constant: Any) -> Moves:
        path, won = yield from self._play(masked, hand, constant, codes=True)
        digits = [winner_code(self.final.contest, path.won)]
        for level in range(len(self.heats) - 1, 0, -1):
            stage, (bits, masks) = self.heats[level], won[level]
            wins, own = path.through(stage, bits, masks, hand)
            digits.append(_digits(stage, wins))
            path = path.extend_paths(stage, bits, own)
        digits.append(path.winner_digits(self.heats[0], *won[0], hand))
        return np.concatenate(digits[::-1])

    def winner_bits(self, masked: Array, hand: PartyRandomness, constant: Any) -> Moves:
        path, won = yield from self._play(masked, hand, constant, codes=False)
        out = path.won
        for level in range(len(self.heats) - 1, -1, -1):
            stage, (bits, masks) = self.heats[level], won[level]
            others, own = path.through(stage, bits, masks, hand)
            out = winners_within(stage, out, others)
            if level:
                path = path.extend_paths(stage, bits, own)
        return out

    def _play(self, masked: Array, hand: PartyRandomness, constant: Any, *, codes: bool) -> Moves:
        """The final's paths; of every level who won its groups, opened and under which masks, two arrays."""
        rows, fresh, won = masked[:, None], None, []
        for level, (stage, schedule) in enumerate(zip(self.heats, self.schedules, strict=True)):
            met = yield from self._met(schedule, rows, fresh, hand, constant)
            bits, masks = yield from compare_masked(schedule, met, hand, constant)
            if not stage.pairs:
                bits, masks = yield from outcome_factors(schedule, bits, masks, hand, constant)
                wins = multiply_bits(bits, masks, schedule.products[-1], hand, constant)[:, 0]
                found = self._found(level, wins[stage.outcomes], codes=codes)
                masks = hand.masks(found.shape)
                bits = yield found ^ masks
            won.append((bits, masks))
            rows, fresh = yield from self._select(level, rows, self._numbers(level, bits), hand, constant)
        met = yield from self._met(self.final, rows, fresh, hand, constant)
        bits, masks = yield from compare_masked(self.final, met, hand, constant)
        bits, masks = yield from outcome_factors(self.final, bits, masks, hand, constant)
        return WinningPaths.final(bits, masks, hand, constant), won

    def _met(
        self, schedule: DealerSchedule, rows: Array, fresh: Array | None, hand: PartyRandomness, constant: Any
    ) -> Moves:
        """What contestants are compared by, of their values (lanes, values, n, m).

        fresh: shares of the masks of these; None at the first level, and where sizes do not matter.
        """
        if fresh is None:
            return SlicedDifferences(schedule, rows[:, 0])
        from field.kernels import comparing

        pairs = schedule.contest.pairs
        share = hand.uniform(self.basis, (len(pairs), self.m))
        comparing.cross(rows, fresh, pairs, constant != 0, np.array(self.basis.primes, np.uint64), share)
        return SlicedValues(schedule, (yield share))

    def _select(self, level: int, rows: Array, index: Array, hand: PartyRandomness, constant: Any) -> Moves:
        """The values of a level's winners under fresh masks, and shares of these where they are needed.

        index: (full, m) places plus secret numbers.
        """
        from field.kernels import comparing

        stage, basis, primes = self.heats[level], self.basis, np.array(self.basis.primes, np.uint64)
        full, size = len(stage.full), stage.members.shape[1]
        ones = hand.residues(basis, (full, size - 1, self.m))
        tables = [hand.residues(basis, (full, entries, self.m)) for entries in self.tables(level)]
        fresh = hand.uniform(basis, (self.kinds, full, self.m))
        share = np.empty((basis.lanes, *fresh.shape[1:]), np.uint32)
        for q, table in enumerate(tables):
            values = np.ascontiguousarray(rows[:, q]) if q == 0 or level else self.squares
            comparing.select(
                values, stage.members[stage.full], index, ones, table, fresh, q, constant != 0, primes, share
            )
        selected = yield share
        return _going_on(stage, rows, selected), None if self.alike else fresh

    def _found(self, level: int, bits: Array, *, codes: bool) -> Array:
        """Shares of what is opened of who won the groups, of the places' bits (places, per)."""
        return self.heats[level].digits_of(bits) if codes and level == 0 else bits

    def _numbers(self, level: int, bits: Array) -> Array:
        """(full, m) numbers whose digits, or whose places' bits, these are, as `_found` has them."""
        stage = self.heats[level]
        if len(bits) != len(stage.full) * stage.digits:
            bits = stage.digits_of(bits)
        return stage.numbers(bits, self.m)

    # --- dealer

    def deal_codes(self, rho: Array, deck: DealerRandomness) -> None:
        terms, won = self._deal(rho, deck, codes=True)
        for level in range(len(self.heats) - 1, 0, -1):
            own = tournament_rounds.deal_through(terms, self.heats[level], won[level], deck)
            terms = tournament_rounds.extend_paths(terms, self.heats[level], own)
        tournament_rounds.deal_times(terms, self.heats[0], won[0], deck)

    def deal_wins(self, rho: Array, deck: DealerRandomness) -> None:
        terms, won = self._deal(rho, deck, codes=False)
        for level in range(len(self.heats) - 1, -1, -1):
            own = tournament_rounds.deal_through(terms, self.heats[level], won[level], deck)
            if level:
                terms = tournament_rounds.extend_paths(terms, self.heats[level], own)

    def _deal(self, rho: Array, deck: DealerRandomness, *, codes: bool) -> tuple[Array, list[Array]]:
        """The dealer's part of `_play`: the products of the final's masks, and the masks of who won."""
        rows, won = rho[:, None], []
        for level, (stage, schedule) in enumerate(zip(self.heats, self.schedules, strict=True)):
            masks = deal_compare(schedule, self._deal_met(level, schedule, rows, deck), deck)
            if not stage.pairs:
                deal_multiply(deal_factors(schedule, masks, deck), schedule.products[-1], deck)
                masks = deck.masks((self._secrets(level, codes=codes), self.comparison_words))
            won.append(masks)
            rows = self._deal_select(level, rows, self._numbers(level, masks), deck)
        masks = deal_compare(self.final, self._deal_met(len(self.heats), self.final, rows, deck), deck)
        return tournament_rounds.deal_final(deal_factors(self.final, masks, deck), deck), won

    def _deal_met(
        self, level: int, schedule: DealerSchedule, rows: Array, deck: DealerRandomness
    ) -> SlicedDifferences | SlicedValues:
        """What the compared numbers exceed those of `_met` by, of the masks (lanes, values, n, m)."""
        if self.alike or not level:
            return SlicedDifferences(schedule, rows[:, 0])
        from field.kernels import comparing

        pairs = schedule.contest.pairs
        r = deck.uniform(self.basis, (len(pairs), self.m))
        comparing.crossed(rows, pairs, np.array(self.basis.primes, np.uint64), r)
        return SlicedValues(schedule, r)

    def _deal_select(self, level: int, rows: Array, secret: Array, deck: DealerRandomness) -> Array:
        """The dealer's part of `_select`: the fresh masks.  secret: (full, m) numbers that places exceed."""
        from field.kernels import comparing

        stage, basis, primes = self.heats[level], self.basis, np.array(self.basis.primes, np.uint64)
        full, size = len(stage.full), stage.members.shape[1]
        comparing.indicate(secret, primes, deck.residues(basis, (full, size - 1, self.m)))
        tables = [deck.residues(basis, (full, entries, self.m)) for entries in self.tables(level)]
        fresh = deck.uniform(basis, (self.kinds, full, self.m))
        for q, table in enumerate(tables):
            if table.shape[2]:
                masks = np.ascontiguousarray(rows[:, q])
                comparing.conceal(masks, stage.members[stage.full], secret, primes, table, fresh, q)
        return _going_on(stage, rows, fresh)


def _squares(contest: ArgminContest) -> list[int]:
    common = math.gcd(*contest.sizes)
    return [(size // common) ** 2 for size in contest.sizes]


@lru_cache(maxsize=64)
def _all_pairs(count: int) -> ArgminContest:
    return ArgminContest.nearest(np.ones(count, np.int64))


def _going_on(stage: TournamentRound, rows: Array, winners: Array) -> Array:
    """Values of the next level's contestants, (lanes, values, count, m): winners', and of who was alone."""
    if not len(stage.alone):
        return winners
    out = np.empty((*winners.shape[:2], stage.count, winners.shape[3]), winners.dtype)
    out[:, :, stage.full] = winners
    out[:, :, stage.alone] = rows[:, :, stage.members[stage.alone, 0]]
    return out


def _digits(stage: TournamentRound, wins: Array) -> Array:
    """The place's digits (digits, per) of whoever wins, of the bits of the places (places, per)."""
    out = np.zeros((stage.digits, wins.shape[1]), np.uint64)
    for place, bit in zip(stage.places[:, 1].tolist(), wins, strict=True):
        for digit in range(stage.digits):
            if place >> digit & 1:
                out[digit] ^= bit
    return out


def winners_within(stage: TournamentRound, groups: Array, others: Array) -> Array:
    """Who wins, (n, per), of which group (count, per), and who of those that are not the first of theirs."""
    out = np.empty((len(stage.sizes), groups.shape[1]), np.uint64)
    out[stage.members[:, 0]] = groups  # who wins in the group that wins is its first, or one of the others
    for (group, _, contestant), bit in zip(stage.places.tolist(), others, strict=True):
        out[contestant] = bit
        out[stage.members[group, 0]] ^= bit
    return out
