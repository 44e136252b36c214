"""The nearest of public centers, and how far a row lies from it: shells that weigh rows and clip none.

A row x counts at its nearest center C_h by a weight w that falls with the distance: with radius r, x lies in
shell j if it is the first with ||x - C_h||**2 <= 2**j r**2, and w_j = floor(2**7 2**(-j/2)); beyond the last
it counts nothing.  So w ||x - C_h|| <= 2**7 r wherever x lies, and

    R_h = sum_i w_i (x_i - C_h),   N_h = v sum_i w_i   over the rows i of cluster h

move by no more than `shell_sensitivity` if a row is replaced by any other.  Scaling a row to length r, as
clipping does, needs the root of a secret.

One contest decides both: squared distances are rows of it, as ever, and 2**j r**2 are further rows that all
know.  A tournament finds the nearest center, whose distance is selected under a fresh mask; to this members
append the known rows, and the dealer appends masks of 0: an appended row is compared with a masked one, so
what members see stays uniform.

A difference that wraps around the modulus would put a row of any length into the first shell.  The contest
decides rows of the length that honest ones are clipped to: where an honest client holds a row, nobody makes
it another one (`secfc.disclosure.checked.products.HolderCheck`), and who alone holds a false row could add
as much to a sum in its noise.  Of joined columns an owner's false ones would have the honest ones of others
count as near, whatever they are: there contests decide rows of any length that passes the test of rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, product
from typing import Any

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from field.compare.argmin import ArgminContest
from field.compare.correlated_randomness import DealerRandomness, PartyRandomness
from field.compare.dealer_protocol import DealerSchedule, Moves
from field.compare.shared_step import subtract
from field.compare.tournament import Tournament, winners_within
from field.compare.tournament_rounds import (
    TournamentRound,
    WinningPaths,
    deal_through,
    extend_paths,
    path_words,
    tournament_round,
)
from field.ring.basis import Basis

SHELLS = 6
UNIT = 1 << 7
# floor(UNIT 2**(-j/2)) is the root of UNIT**2 / 2**j, rounded down.
WEIGHTS = tuple(math.isqrt(UNIT**2 >> j) for j in range(SHELLS))
# By which shells are told apart in one number, and clusters, four in each of further ones.
SHELL_CODES, CLUSTER_CODES = (-3, -2, -1, 1, 2, 3), (-2, -1, 1, 2)
CODED = 3 + 2 * UNIT  # what absolute values of one row's codes add up to, at most


def shell_squares(radius: int) -> tuple[int, ...]:
    """The squared distances at which shells about a center end, ascending; radius in steps."""
    return tuple(radius**2 << j for j in range(SHELLS))


def shell_modulus(radius: int, longest: int, farthest: int) -> int:
    """What the modulus must exceed, of rows up to so many steps from 0, and centers up to as many others."""
    return 2 * ((longest + farthest) ** 2 + shell_squares(radius)[-1])


def shell_contest(k: int, radius: int) -> ArgminContest:
    """The shell about the nearest of k centers: outcome SHELLS h + j, the last for rows beyond all shells.

    Rows of squared distances to centers first, then those of `shell_squares`.  Ties of centers go to the
    lowest.  Nothing wins a row beyond all shells: one minus all other outcomes says that it is there.
    """
    pairs = [(a, b, 1, 1) for a, b in combinations(range(k), 2)]
    number = {(a, b): q for q, (a, b, _, _) in enumerate(pairs)}
    beyond = [(h, k + j, 1, 1) for h in range(k) for j in range(SHELLS)]  # [square j < D_h]
    literals, wanted = [], []
    for h, j in product(range(k), range(SHELLS)):
        rivals = [x for x in range(k) if x != h]
        end = len(pairs) + SHELLS * h + j
        literals.append([number[min(h, x), max(h, x)] for x in rivals] + [end, end - (j > 0)])
        # Within the first shell there is none to be beyond: its end is asked for twice.
        wanted.append([x < h for x in rivals] + [False, j > 0])
    first = len(pairs)
    literals.append([first] * (k + 1))
    wanted.append([True] + [False] * k)
    return ArgminContest(
        (1,) * (k + SHELLS), (*pairs, *beyond), np.array(literals, np.int64), np.array(wanted, np.bool_),
        np.arange(len(literals), dtype=np.int32), known=shell_squares(radius),
    )  # fmt: skip


@lru_cache(maxsize=16)
def _ends() -> ArgminContest:
    """Within which ends of shells the first of rows lies, that all others are: an outcome each, nested."""
    ends = np.arange(SHELLS)
    comparisons = tuple((0, 1 + j, 1, 1) for j in range(SHELLS))
    return ArgminContest(
        (1,) * (1 + SHELLS), comparisons, ends[:, None], np.zeros((SHELLS, 1), np.bool_),
        ends.astype(np.int32),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class ShellTournament(Tournament):
    """A contest of shells in levels: winners of groups, and of these one, which ends of shells are told from.

    contest: of `shell_contest`.  counts: groups of each level, 1 in the end; none of a single center.
    known: squares of shells' ends, which nobody sends.  Plays for `winner_bits` alone.
    """

    known: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        pass  # `arrange` says which counts there are

    @classmethod
    def arrange(
        cls, contest: ArgminContest, basis: Basis, m: int, known: tuple[int, ...], counts: tuple[int, ...]
    ) -> ShellTournament:
        """In levels of so many groups, as a contest of the centers alone is best put (`choose_levels`)."""
        alone = len(contest.sizes) == 1 + SHELLS
        return cls(contest, basis, m, () if alone else (*counts, 1), known)

    @property
    def alike(self) -> bool:
        return True

    @cached_property
    def heats(self) -> tuple[TournamentRound, ...]:
        before = (len(self.contest.sizes) - SHELLS, *self.counts)
        return tuple(tournament_round((1,) * k, n) for k, n in zip(before, self.counts, strict=False))

    @cached_property
    def final(self) -> DealerSchedule:
        return DealerSchedule(_ends(), self.basis, self.m)

    @property
    def dealt_wins(self) -> int:
        # Each shell has paths of its own, of one factor in the end.
        paths = (
            path_words(1 + grown, self._secrets(level, codes=False))
            for grown, level in enumerate(range(len(self.heats) - 1, -1, -1))
        )
        return int(super().dealt_wins + (SHELLS - 1) * sum(paths) * self.comparison_words)

    def _met(self, schedule: DealerSchedule, rows: Array, *more: Any) -> Moves:
        if schedule is self.final:
            column = self.basis.reduce(np.array(self.known, object)[:, None])
            ends = np.repeat(column, self.m, axis=2)
            rows = np.concatenate([rows, ends[:, None].astype(rows.dtype)], axis=2)
        return (yield from super()._met(schedule, rows, *more))

    def _deal_met(self, level: int, schedule: DealerSchedule, rows: Array, deck: DealerRandomness) -> Any:
        if schedule is self.final:
            ends = np.zeros((*rows.shape[:2], SHELLS, self.m), rows.dtype)
            rows = np.concatenate([rows, ends], axis=2)
        return super()._deal_met(level, schedule, rows, deck)

    def winner_bits(self, masked: Array, hand: PartyRandomness, constant: Any) -> Moves:
        path, won = yield from self._play(masked, hand, constant, codes=False)
        bits, out = shells_of_ends(path.bits), list[Array]()
        for j, terms in enumerate(shells_of_ends(path.terms[1:]).swapaxes(0, 1)):
            shell = WinningPaths(bits[:, j : j + 1], np.stack([path.terms[0, j : j + 1], terms]))
            wins = shell.won
            for level in range(len(self.heats) - 1, -1, -1):
                stage, (opened, masks) = self.heats[level], won[level]
                others, own = shell.through(stage, opened, masks, hand)
                wins = winners_within(stage, wins, others)
                if level:
                    shell = shell.extend_paths(stage, opened, own)
            out.append(wins)
        found = np.stack(out, axis=1).reshape(-1, self.comparison_words)
        return np.concatenate([found, np.zeros_like(found[:1])])

    def deal_wins(self, rho: Array, deck: DealerRandomness) -> None:
        path, won = self._deal(rho, deck, codes=False)
        for j, masks in enumerate(shells_of_ends(path[1:]).swapaxes(0, 1)):
            terms = np.stack([path[0, j : j + 1], masks])
            for level in range(len(self.heats) - 1, -1, -1):
                own = deal_through(terms, self.heats[level], won[level], deck)
                if level:
                    terms = extend_paths(terms, self.heats[level], own)


def shells_of_ends(inside: Array) -> Array:
    """Which shell each row lies in, (1, SHELLS, per), of within which ends: linear, as these are nested."""
    return np.concatenate([inside[:, :1], inside[:, 1:] ^ inside[:, :-1]], axis=1)


def sum_outcomes(basis: Basis, one_hot: Array) -> Array:
    """Shares (lanes, SHELLS + k - 1, m) of shells, whatever the cluster, and of weights in all but the last.

    one_hot: of outcomes but the last, (lanes, SHELLS k, m).  Linear: of a sixth of the numbers, that tell all
    that sums take.
    """
    each = one_hot.reshape(len(one_hot), -1, SHELLS, one_hot.shape[2])
    column = basis.column(2, np.uint64)
    # Below k 2**30, and SHELLS 2**7 2**30.
    found = [each[:, :, j].sum(axis=1, dtype=np.uint64) % column for j in range(SHELLS)]
    for h in range(each.shape[1] - 1):
        total = np.zeros_like(found[0])
        for j, weight in enumerate(WEIGHTS):
            total += each[:, h, j] * np.uint64(weight)
        found.append(total % column)
    return np.stack(found, axis=1).astype(basis.dtype)


def shell_weights(basis: Basis, summed: Array) -> tuple[Array, Array]:
    """Shares (lanes, m) of what rows weigh, and (lanes, k, m) in each cluster; summed: of `sum_outcomes`."""
    weights = np.array(WEIGHTS, np.uint64)[:, None]
    total = (summed[:, :SHELLS] * weights).sum(axis=1) % basis.column(2, np.uint64)
    whole, others = total.astype(basis.dtype), summed[:, SHELLS:]
    last = subtract(basis, whole, others.sum(axis=1, dtype=np.uint64) % basis.column(2, np.uint64))
    return whole, np.concatenate([others, last[:, None]], axis=1).astype(basis.dtype)


def code_rows(basis: Basis, summed: Array) -> Array:
    """Shares (lanes, 1 + ceil((k - 1) / 4), m) of few numbers a row that tell its shell and its cluster.

    summed: of `sum_outcomes`.  Rows of different shells differ in the first, and rows of one shell that weigh
    in different clusters in others.
    """
    each, width = summed.astype(np.int64), len(CLUSTER_CODES)
    found = [np.array(SHELL_CODES) @ each[:, :SHELLS]]  # below 12 * 2**30
    for first in range(SHELLS, each.shape[1], width):
        part = each[:, first : first + width]
        found.append(np.array(CLUSTER_CODES[: part.shape[1]]) @ part)
    return np.asarray(np.stack(found, axis=1) % basis.column(3), basis.dtype)


def residual_sums(basis: Basis, sums: Array, weights: Array, centers: Array, unit: int) -> Array:
    """Shares (lanes, k, width + 1) of R and of N, of twice the degree; unit: v.

    sums: (lanes, k, width) of rows times weights, of twice the degree.  weights: as of `shell_weights`.
    centers: (lanes, k, width), public ones as shares.
    """
    counts = np.asarray(weights.sum(axis=2, dtype=np.uint64) % basis.column(2, np.uint64), basis.dtype)
    moved = subtract(basis, sums, basis.multiply(counts[:, :, None], centers))
    scaled = basis.multiply(counts, basis.reduce(np.array([unit], object)))
    return np.concatenate([moved, scaled[:, :, None]], axis=2)


def shell_sensitivity(radius: int, unit: int) -> float:
    """How far R and N move together in the L2 norm if one row is replaced, at most; up to rounding attained.

    A row in shell j adds at most w_j 2**(j/2) r and v w_j.  Two in one cluster may lie on opposite sides; in
    two clusters their parts are apart.
    """
    rows = [(w * radius * 2 ** (j / 2), unit * w) for j, w in enumerate(WEIGHTS)] + [(0.0, 0)]
    together = (math.hypot(a + b, v - w) for (a, v), (b, w) in product(rows, rows))
    apart = (math.hypot(a, v, b, w) for (a, v), (b, w) in product(rows, rows))
    return max(*together, *apart) * (1 + 1e-12)
