"""Lloyd's steps with rounded centers, over points that one party holds: what the protocol does, in the clear.

A rounded center stands for 2**q equal points (`field.ring.quantize`), so distances, halves and gains are
those of exact centers with its coordinates for a sum and 2**q for a size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.code.rows import cluster_sizes
from field.ring.quantize import round_centers, rounded_weights
from field.ring.uint128 import UInt128
from secfc.kmeans.divisive_seeding import Moves, run_divisive_seeding
from secfc.kmeans.loop import PlainSource, Step, WeighedClusters, all_pairs, cluster_members
from secfc.roles.exchange import Role

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class RoundedSource:
    """Steps over integer points (m, d), whose centers have `fraction` binary digits behind the point."""

    plain: PlainSource
    fraction: int

    def centers(self, labels: Array, k: int) -> tuple[Array, Array]:
        """Rounded centers (k, d) in steps of the grid, and how many points each stands for (k,)."""
        return self.center_clusters(self.sum_clusters(labels, k), cluster_sizes(labels, k))

    def take_step(self, labels: Array, k: int, moved: int | None = None) -> Role[Step]:
        centers, stand = self.centers(labels, k)
        found = distances_to_rounded(self.plain.points, centers, stand)
        within = scaled_costs(found.within(labels), cluster_sizes(labels, k), self.fraction)
        return _nobody(Step(found.nearest(stand), within))

    def draw_points(self, labels: Array, k: int, draw: Callable[[UInt128], Array]) -> Role[Array]:
        """Distances to single points are exact."""
        return self.plain.draw_points(labels, k, draw)

    def halve_clusters(self, labels: Array, c: int) -> Role[Array]:
        new = np.empty(len(labels), np.int32)
        centers, stand = self.centers(labels, 2 * c)
        for h, own in cluster_members(labels, c):
            pair = slice(2 * h, 2 * h + 2)
            near = distances_to_rounded(self.plain.points[own], centers[pair], stand[pair]).nearest(
                stand[pair]
            )
            # With an empty half points stay where they are.
            new[own] = 2 * h + near if stand[pair].all() else labels[own]
        return _nobody(new)

    def split_clusters(
        self, labels: Array, c: int, choose: Callable[[tuple[Fraction, ...]], Array]
    ) -> Role[Array]:
        return _nobody(choose(self.gains_of_pairs(labels, 2 * c, np.arange(2 * c).reshape(-1, 2))))

    def merge_clusters(
        self, labels: Array, c: int, pairs: Array, choose: Callable[[tuple[Fraction, ...]], Array]
    ) -> Role[Array]:
        return _nobody(choose(self.gains_of_pairs(labels, c, pairs)))

    def weigh_merges(self, labels: Array, c: int, choose: Callable[[WeighedClusters], Array]) -> Role[Array]:
        losses = self.gains_of_pairs(labels, c, all_pairs(c))
        return _nobody(choose(WeighedClusters(losses, self.price_clusters(labels, c), None)))

    def separate_points(self, labels: Array, k: int, factor: int) -> Role[Array]:
        centers, stand = self.centers(labels, k)
        return _nobody(distances_to_rounded(self.plain.points, centers, stand).separated(stand, factor))

    def grow_clusters(self, moves: Callable[[int], Moves]) -> Role[Array]:
        return _nobody(run_divisive_seeding(self, moves))

    @property
    def points(self) -> Array:
        return self.plain.points

    def sum_clusters(self, labels: Array, k: int) -> Array:
        return self.plain.sum_clusters(labels, k)

    def center_clusters(self, sums: Array, sizes: Array) -> tuple[Array, Array]:
        return round_centers(sums, sizes, self.fraction), rounded_weights(sizes, self.fraction)

    def gains_of_unions(self, sums: Array, sizes: Array) -> tuple[Fraction, ...]:
        means = round_centers(sums.reshape(-1, sums.shape[2]), sizes.reshape(-1), self.fraction)
        gaps = (means[::2] - means[1::2]).astype(object)
        return gains_of_squares((gaps**2).sum(axis=1).tolist(), sizes, self.fraction)

    def price_clusters(self, labels: Array, c: int) -> tuple[Fraction, ...]:
        centers, stand = self.centers(labels, c)
        within = distances_to_rounded(self.plain.points, centers, stand).within(labels)
        return scaled_costs(within, cluster_sizes(labels, c), self.fraction)

    def gains_of_pairs(self, labels: Array, k: int, pairs: Array) -> tuple[Fraction, ...]:
        """What two clusters of each of these (pairs, 2) gain over one, see `gains_of_squares`."""
        centers, _ = self.centers(labels, k)
        gaps = (centers[pairs[:, 0]] - centers[pairs[:, 1]]).astype(object)
        squares = (gaps**2).sum(axis=1).tolist()
        return gains_of_squares(squares, cluster_sizes(labels, k)[pairs], self.fraction)


def gains_of_squares(squares: Sequence[int], sizes: Array, fraction: int) -> tuple[Fraction, ...]:
    """s_a s_b / (s_a + s_b) times these squared distances of centers, of clusters of sizes (pairs, 2).

    0 if one is empty.  What both cost as one more than as two if the centers are their means, and up to
    rounding if not.  squares: in squared steps of the grid.
    """
    pairs, one = zip(squares, sizes.tolist(), strict=True), 4**fraction
    return tuple(
        Fraction(square * a * b, (a + b) * one) if a and b else Fraction(0) for square, (a, b) in pairs
    )


def scaled_costs(within: Sequence[int], sizes: Array, fraction: int) -> tuple[Fraction, ...]:
    """Sums of squared distances in steps of the grid, of clusters of sizes (k,), as of `Step.within`."""
    return tuple(Fraction(w * s * s, 4**fraction) for w, s in zip(within, sizes.tolist(), strict=True))


def distances_to_rounded(points: Array, centers: Array, stand: Array) -> UInt128:
    """Exact sum_f (c_hf - s_h x_if)**2 for centers that stand for s_h points each, 0 or 2**q: (k, m)."""
    from field.kernels import scalar as kernels

    high, low = np.empty((2, len(stand), len(points)), np.uint64)
    kernels.plain_distances(points, centers, stand, high, low)
    return UInt128(high, low)


def _nobody(value: Any) -> Role[Any]:
    """A role fragment that exchanges nothing and returns a value."""
    yield from ()
    return value
