"""The noise of a run: how wide it is on each entry, from the public clustering that it is measured to.

Pure functions of public values and coins.  Distances get noise of one standard deviation sigma on every D_ih
= ||x_i - mu_h||**2, which on what SecFC decodes, s_h**2 D_ih, is s_h**2 sigma; see
`secfc.disclosure.noise.noise` for the sensitivity.  Decoded integers have no sign, so every contributor
adds the same offset to D as well, out of reach of its noise: no comparison of distances to a point changes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from field.arrays import Array
from field.code.rows import cluster_sizes
from field.ring.basis import Basis
from field.ring.noise import SAMPLED, Sampler, wide_noise
from field.secrets.coins import Coins
from secfc.coded.plan import PublicOwnerLayout, RowLayout
from secfc.errors import PrivacyError
from secfc.privacy.events import Neighbors

# --------------------------------------------------------------------------------------------------
# How far one unit moves what SecFC decodes: sensitivities of scaled distances and of cluster sums.
#
# The clustering that distances are measured to is public: it follows from earlier releases, so iterations
# compose adaptively.  Neighbors replace the rows of one unit, a data point or a client, whose number and
# labels are public; all rows are integer vectors of norm at most B (`secfc.privacy.mechanisms`).
#
# Notation: x_i a row, S_h a cluster of s_h rows and mean mu_h, D_ih = ||x_i - mu_h||**2.  SecFC decodes
# s_h**2 D_ih, so noise of standard deviation s_h**2 sigma on column h is noise of sigma on D, for every
# column the same.  All bounds below are on D, in units of B**2.
#
# Lemma.  For ||x||, ||x'|| <= r and ||a|| >= r, | ||a + x||**2 - ||a + x'||**2 | <= 4 ||a|| r, since ||a +
# x|| lies in [||a|| - r, ||a|| + r].
#
# Let a unit own c rows, f_h s_h of them in cluster h.  Replacing them changes
#
# * an entry (i, h) of its own rows, in which both x_i and mu_h move, by at most 4: 0 <= D_ih <= 4, as means
# of
#   rows have norms of at most B.  c k' entries, k' clusters that are not empty.
# * an entry (i, h) of another row.  mu_h - x_i = a + X / s_h with X the sum of the unit's rows in S_h,
#   ||X / s_h|| <= f_h, and a = R / s_h - x_i with R the sum of the others' rows, ||a|| <= 2 - f_h.  Where
#   ||a|| >= f_h the lemma gives 4 (2 - f_h) f_h; else D_ih lies in [0, 4 f_h**2], and f_h <= 2 - f_h.
#   m - c entries for every h.
#
# Squares add up to the L2 sensitivity  16 c k' + (m - c) sum_h (4 (2 - f_h) f_h)**2.  For a data point in a
# cluster of s rows f = 1/s: 4 (2 - 1/s) / s is attained, by x_i = -B u, x = B u, x' = -B u and all else at B
# u.


# Sensitivities are floats, each within this of its value; the noise is calibrated to the larger.
_ROUNDING = 1 + 1e-12


def check_units(neighbors: Neighbors, owners: bool) -> None:
    """Raises PrivacyError for added or removed units, and for clients where owners of rows are hidden."""
    if neighbors.relation != "replace":
        raise PrivacyError(
            f"neighbors that {neighbors.relation} one {neighbors.unit}: SecFC's row counts are public, so "
            "units are replaced; use Neighbors('replace', ...)"
        )
    if neighbors.unit == "client" and not owners:
        raise PrivacyError(
            "clients are to be protected, but which rows are whose is hidden: how much one client moves is "
            "not known. Use open membership, or protect data points"
        )


def unit_parts(neighbors: Neighbors, layout: RowLayout, labels: Array, k: int) -> tuple[Array, Array]:
    """What single units own: rows (u,), and how many of them are in each cluster (u, k).

    labels (m,) in [-1, k).  Data points differ by their cluster only, so there are at most k + 1.

    Raises PrivacyError, `check_units`.
    """
    check_units(neighbors, isinstance(layout, PublicOwnerLayout))
    if neighbors.unit == "data point" or not isinstance(layout, PublicOwnerLayout):
        present = np.unique(labels)
        inside = np.zeros((len(present), k), np.int64)
        inside[np.arange(len(present)), present] = present >= 0
        return np.ones(len(present), np.int64), inside
    counts = [
        np.bincount(labels[a : a + c].astype(np.int64) + 1, minlength=k + 1)[1:] for a, c in layout.spans
    ]
    return np.array(layout.counts), np.stack(counts)


def parts_in_turn(neighbors: Neighbors, layout: RowLayout, k: int) -> tuple[Array, Array, Array]:
    """Sizes (k,), and parts as by `unit_parts`, of rows that fall to clusters in turn.

    Takes as long for any number of rows.

    Raises PrivacyError, `check_units`.
    """
    check_units(neighbors, isinstance(layout, PublicOwnerLayout))
    sizes = _count_in_turn(0, layout.m, k)
    if neighbors.unit == "data point" or not isinstance(layout, PublicOwnerLayout):
        inside = np.eye(k, dtype=np.int64)[sizes > 0]
        return sizes, np.ones(len(inside), np.int64), inside
    inside = np.stack([_count_in_turn(first, count, k) for first, count in layout.spans])
    return sizes, np.array(layout.counts), inside


def _count_in_turn(first: int, count: int, k: int) -> Array:
    """How many of these numbers have each remainder (k,) by k."""
    below = -1 - np.arange(k)
    return np.asarray((first + count + below) // k - (first + below) // k)


def distance_sensitivity(m: int, sizes: Array, rows: Array, inside: Array) -> float:
    """The L2 sensitivity of all squared distances (m, k) in units of B**2: the worst of these units.

    sizes (k,) of the clusters; rows (u,) and inside (u, k) as from `unit_parts`.
    """
    full = sizes > 0
    fractions = inside[:, full] / sizes[full]
    others = ((4 * (2 - fractions) * fractions) ** 2).sum(axis=1)
    squares = 16 * rows * int(full.sum()) + (m - rows) * others
    return math.sqrt(float(squares.max())) * _ROUNDING


def largest_distance_sensitivity(m: int, k: int, rows: int) -> float:
    """An upper bound on `distance_sensitivity` for units of at most `rows` rows, whatever the clustering."""
    # sum_h (4 (2 - f) f)**2 <= 16 for each cluster that the unit has rows in.
    return 4 * math.sqrt(rows * k + m * min(k, rows)) * _ROUNDING


def sum_sensitivity(inside: Array) -> float:
    """The L2 sensitivity of the cluster sums (k, d) in units of B: each of the rows moves by at most 2."""
    return 2 * math.sqrt(float((inside.astype(float) ** 2).sum(axis=1).max())) * _ROUNDING


# --------------------------------------------------------------------------------------------------

# No sampler goes further, in standard deviations.
REACH = 129


@dataclass(frozen=True)
class Noise:
    """What each of several contributors adds, such that `honest` of them suffice.

    radius: the norm that no row exceeds, in integer steps.  distances, sums: noise multipliers of one
    release of all distances, and of all cluster sums, by the honest contributors together.
    """

    sampler: Sampler
    neighbors: Neighbors
    radius: int
    distances: float
    sums: float
    honest: int = 1

    def on_distances(self, layout: RowLayout, labels: Array, k: int) -> Fraction:
        """The standard deviation that one contributor adds to every D, in squared steps."""
        parts = unit_parts(self.neighbors, layout, labels, k)
        return self._on_parts(len(labels), cluster_sizes(labels, k), *parts)

    def on_distances_in_turn(self, layout: RowLayout, k: int) -> Fraction:
        """The standard deviation that `on_distances` gives for rows that fall to clusters in turn."""
        return self._on_parts(layout.m, *parts_in_turn(self.neighbors, layout, k))

    def _on_parts(self, m: int, sizes: Array, rows: Array, inside: Array) -> Fraction:
        sensitivity = distance_sensitivity(m, sizes, rows, inside)
        return self.client_deviation(sensitivity * self.radius**2, self.distances, m * len(sizes))

    def on_sums(self, layout: RowLayout, labels: Array, k: int, d: int) -> Fraction:
        """The standard deviation that one contributor adds to every entry of the cluster sums, in steps."""
        _, inside = unit_parts(self.neighbors, layout, labels, k)
        return self.client_deviation(sum_sensitivity(inside) * self.radius, self.sums, k * d)

    def largest_on_sums(self, layout: RowLayout, k: int, d: int) -> Fraction:
        """The largest that `on_sums` gives: all rows of a unit are in one cluster."""
        own = self.neighbors.unit == "client" and isinstance(layout, PublicOwnerLayout) and layout.counts
        sensitivity = sum_sensitivity(np.array([[max(own or (1,))]]))
        return self.client_deviation(sensitivity * self.radius, self.sums, k * d)

    def client_deviation(self, sensitivity: float, multiplier: float, entries: int) -> Fraction:
        """The standard deviation of one contributor's noise on each of so many entries of a statistic."""
        # Wide noise has a unit of its own, worth sqrt(entries) 2**(1 - SAMPLED) sigma in sensitivity.
        coarse = 1 + multiplier * math.sqrt(entries) * 2.0 ** (2 - SAMPLED)
        # A relative 1e-12 covers the rounding of these floats.
        return Fraction(sensitivity * multiplier * coarse / math.sqrt(self.honest) * (1 + 1e-12))

    def offset(self, sigma: Fraction) -> int:
        """What one contributor adds to every D, so that its noise leaves no sum negative."""
        return math.ceil(REACH * sigma)

    def draw_distances(
        self, basis: Basis, layout: RowLayout, labels: Array, k: int, *, coins: Coins
    ) -> Array:
        """One contributor's noise and offset on scaled distances: (lanes, k, m) residues.

        An empty cluster gets none: its scaled distances are zero, and it never wins.
        """
        sigma, sizes = self.on_distances(layout, labels, k), cluster_sizes(labels, k)
        offset = self.offset(sigma)
        out = np.zeros((basis.lanes, k, len(labels)), basis.dtype)
        for h in np.flatnonzero(sizes).tolist():
            square = int(sizes[h]) ** 2
            noise = wide_noise(self.sampler, sigma * square, len(labels), basis, coins=coins)
            shift = basis.reduce(np.array([offset * square], object))
            out[:, h] = basis.add(noise, shift)
        return out

    def draw_sums(
        self, basis: Basis, layout: RowLayout, labels: Array, k: int, d: int, *, coins: Coins
    ) -> Array:
        """One contributor's noise on the cluster sums: (lanes, k, d) residues, of either sign."""
        sigma = self.on_sums(layout, labels, k, d)
        return wide_noise(self.sampler, sigma, (k, d), basis, coins=coins)

    def largest(self, m: int, k: int, rows: int) -> float:
        """The largest standard deviation on D that `on_distances` gives, in units of radius**2."""
        sensitivity = largest_distance_sensitivity(m, k, rows)
        return float(self.client_deviation(sensitivity, self.distances, m * k)) * (1 + 1e-9)
