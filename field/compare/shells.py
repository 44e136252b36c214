"""The nearest of public centers, and how far a row lies from it: shells that weigh rows and clip none.

A row x counts at its nearest center C_h by a weight w that falls with the distance: with radius r, x lies in
shell j if it is the first with ||x - C_h||**2 <= 2**j r**2, and w_j = floor(2**7 2**(-j/2)); beyond the last
it counts nothing.  So w ||x - C_h|| <= 2**7 r wherever x lies, and

    R_h = sum_i w_i (x_i - C_h),   N_h = v sum_i w_i   over the rows i of cluster h

move by no more than `shell_sensitivity` if a row is replaced by any other.  Scaling a row to length r, as
clipping does, needs the root of a secret.

One contest decides both: squared distances are rows of it, as ever, and 2**j r**2 are further rows that all
know.  Members append these to what they hold under masks, and the dealer appends masks of 0: an appended row
is compared with a masked one, so what members see stays uniform.

The contest must decide the rows that a test lets pass, not those of honest clients alone: where several
clients share a row, one of them can add to another's, and a difference that wraps around would put a row of
any length into the first shell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from field.compare.argmin import ArgminContest
from field.compare.correlated_randomness import DealerRandomness, PartyRandomness
from field.compare.dealer_protocol import DealerSchedule, Moves
from field.compare.shared_step import subtract
from field.ring.basis import Basis

SHELLS = 6
UNIT = 1 << 7
# floor(UNIT 2**(-j/2)) is the root of UNIT**2 / 2**j, rounded down.
WEIGHTS = tuple(math.isqrt(UNIT**2 >> j) for j in range(SHELLS))


def shell_squares(radius: int) -> tuple[int, ...]:
    """The squared distances at which shells about a center end, ascending; radius in steps."""
    return tuple(radius**2 << j for j in range(SHELLS))


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
        np.arange(len(literals), dtype=np.int32), shift=shell_squares(radius)[-1],
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class ShellSchedule(DealerSchedule):
    """A contest whose last rows are numbers that all know, which nobody sends."""

    known: tuple[int, ...] = ()

    @cached_property
    def _known_rows(self) -> Array:
        """(lanes, numbers, m) residues."""
        column = self.basis.reduce(np.array(self.known, object)[:, None])
        return np.repeat(column, self.m, axis=2)

    def winner_bits(self, masked: Array, hand: PartyRandomness, constant: Any) -> Moves:
        return super().winner_bits(np.concatenate([masked, self._known_rows], axis=1), hand, constant)

    def deal_wins(self, rho: Array, deck: DealerRandomness) -> None:
        super().deal_wins(np.concatenate([rho, np.zeros_like(self._known_rows)], axis=1), deck)


def shell_weights(basis: Basis, one_hot: Array) -> Array:
    """Shares (lanes, k, m) of what rows weigh in each cluster.

    one_hot: of outcomes, (lanes, SHELLS k + 1, m).
    """
    each = one_hot[:, :-1].reshape(len(one_hot), -1, SHELLS, one_hot.shape[2])
    weights = np.array(WEIGHTS, np.uint64)[:, None]
    # Below SHELLS 2**7 2**30.
    total = (each.astype(np.uint64) * weights).sum(axis=2)
    return np.asarray(total % basis.column(3, np.uint64), basis.dtype)


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
