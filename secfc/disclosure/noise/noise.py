"""The noise of a run: how wide it is on each entry, from the public clustering that it is measured to.

Pure functions of public values and coins.  Distances get noise of one standard deviation sigma on every D_ih
= ||x_i - mu_h||**2, which on what SecFC decodes, s_h**2 D_ih, is s_h**2 sigma; see
`secfc.disclosure.noise.sensitivity` for the sensitivity.  Decoded integers have no sign, so every contributor
adds the same offset to D as well, out of reach of its noise: no comparison of distances to a point changes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.code.rows import cluster_sizes
from field.ring.basis import Basis
from field.ring.noise import SAMPLED, Sampler, wide_noise
from field.secrets.coins import Coins
from secfc.coded.layout import Layout
from secfc.disclosure.noise.sensitivity import (
    distance_sensitivity,
    largest_distance_sensitivity,
    parts,
    sum_sensitivity,
)
from secfc.privacy.neighbors import Neighbors

Array = NDArray[Any]

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

    def on_distances(self, layout: Layout, labels: Array, k: int) -> Fraction:
        """The standard deviation that one contributor adds to every D, in squared steps."""
        rows, inside = parts(self.neighbors, layout, labels, k)
        sensitivity = distance_sensitivity(len(labels), cluster_sizes(labels, k), rows, inside)
        return self._each(sensitivity * self.radius**2, self.distances, len(labels) * k)

    def on_sums(self, layout: Layout, labels: Array, k: int, d: int) -> Fraction:
        """The standard deviation that one contributor adds to every entry of the cluster sums, in steps."""
        _, inside = parts(self.neighbors, layout, labels, k)
        return self._each(sum_sensitivity(inside) * self.radius, self.sums, k * d)

    def _each(self, sensitivity: float, multiplier: float, entries: int) -> Fraction:
        # Wide noise has a unit of its own, worth sqrt(entries) 2**(1 - SAMPLED) sigma in sensitivity.
        coarse = 1 + multiplier * math.sqrt(entries) * 2.0 ** (2 - SAMPLED)
        # A relative 1e-12 covers the rounding of these floats.
        return Fraction(sensitivity * multiplier * coarse / math.sqrt(self.honest) * (1 + 1e-12))

    def offset(self, sigma: Fraction) -> int:
        """What one contributor adds to every D, so that its noise leaves no sum negative."""
        return math.ceil(REACH * sigma)

    def draw_distances(self, basis: Basis, layout: Layout, labels: Array, k: int, *, coins: Coins) -> Array:
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
        self, basis: Basis, layout: Layout, labels: Array, k: int, d: int, *, coins: Coins
    ) -> Array:
        """One contributor's noise on the cluster sums: (lanes, k, d) residues, of either sign."""
        sigma = self.on_sums(layout, labels, k, d)
        return wide_noise(self.sampler, sigma, (k, d), basis, coins=coins)

    def largest(self, m: int, k: int, rows: int) -> float:
        """The largest standard deviation on D that `on_distances` gives, in units of radius**2."""
        sensitivity = largest_distance_sensitivity(m, k, rows)
        return float(self._each(sensitivity, self.distances, m * k)) * (1 + 1e-9)
