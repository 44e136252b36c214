"""Initial centers: FedDP-Init, and those it is compared with, all continued by the same FedDP-Lloyds.

Paper sec. 5 (baselines) and App. G.3.  Only FedDP-Init, votes and cones spend privacy budget; the others are
functions of the server's public points, or given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from secfc.data.inputs import InputError
from secfc.feddp.estimates import RESTARTS

Array = NDArray[Any]

LINES = 2  # along which points vote before anything else
# Of the budget for votes, and of one below this total for so many clusters.
SHARE, SHARE_OF_LITTLE, EPSILON_FOR_SHARE, CLUSTERS_FOR_SHARE = 0.7, 0.85, 0.5, 16


class InitialCenters(Protocol):
    """Centers without client data."""

    def draw(self, points: Array, k: int, rng: np.random.Generator) -> Array:
        """Centers (k, d), in data units, from the server's points (s, d)."""
        ...

    @property
    def public(self) -> bool:
        """Whether they tell nothing of the clients' points."""
        ...


@dataclass(frozen=True)
class FedDPInit:
    """Algorithm 1: three private steps make initial centers out of clients' data and the server's points."""


@dataclass(frozen=True)
class Votes:
    """Without points at the server: candidates in a public ball, for which clients' points vote under noise.

    lines: histograms along random lines that are asked for first, which say in how small a ball candidates
    are drawn; None: 2, and 0 of less than 3 features, where the ball is not empty.  candidates: a cluster, in
    every round.  rounds: histograms of them; from each one candidates are drawn anew about those that had
    votes, and those of all rounds are clustered, with the weights that explain all votes.  None: 7 d^(3/4),
    at least 10, and 4 sqrt(d), as a random direction of d helps so much less, and fewer candidates have more
    votes each.  share: of the budget, lines included; FedDP-Lloyds has the rest.  None: .7, and .85
    of 16 clusters and more below epsilon .5: finding them is harder there than placing their centers.
    """

    candidates: int | None = None
    rounds: int | None = None
    share: float | None = None
    lines: int | None = None

    def among(self, k: int, d: int, epsilon: float) -> Votes:
        """The same for k clusters of d features and this total budget: all are numbers."""
        wide, usual, many = d**0.75, LINES if d > 2 else 0, k >= CLUSTERS_FOR_SHARE
        return replace(
            self,
            candidates=self.candidates or max(10, round(7 * wide)),
            rounds=self.rounds or max(3, math.ceil(4 * math.sqrt(d))),
            share=self.share or (SHARE_OF_LITTLE if many and epsilon < EPSILON_FOR_SHARE else SHARE),
            lines=0 if d == 1 else usual if self.lines is None else self.lines,
        )

    def __post_init__(self) -> None:
        few = self.candidates is not None and self.candidates < 2
        if few or (self.rounds is not None and self.rounds < 1) or (self.lines or 0) < 0:
            raise InputError(
                f"candidates={self.candidates}, rounds={self.rounds}, lines={self.lines}: give at least two "
                "candidates a cluster, one round and no negative lines"
            )
        if self.share is not None and not 0 < self.share < 1:
            raise InputError(f"share={self.share} must lie between 0 and 1: the steps need the rest")


@dataclass(frozen=True)
class Cones:
    """Without points at the server, of many features: sums over cones about the mean of all points.

    Votes along lines say how far points lie from 0, then a step with one center where their mean is.  Cones
    about random directions from there are groups as good as any, and steps of FedDP-Lloyds move their centers
    to where points are: every sum tells of all features at once, a vote of one direction among them.

    lines: as of `Votes`.  steps: with up to `groups` groups a cluster, fewer where noise is large beside the
    noisy number of points; then these are clustered, and the steps of FedDP-KMeans follow.
    """

    lines: int = LINES
    steps: int = 3
    groups: int = 3

    def __post_init__(self) -> None:
        if min(self.lines, self.steps, self.groups) < 1:
            raise InputError(
                f"lines={self.lines}, steps={self.steps}, groups={self.groups}: give at least one of each"
            )


@dataclass(frozen=True)
class ServerKMeansPlusPlus:
    """k-means++ seeding on the server's points, once."""

    public = True

    def draw(self, points: Array, k: int, rng: np.random.Generator) -> Array:
        from sklearn.cluster import kmeans_plusplus

        return np.asarray(kmeans_plusplus(points, k, random_state=int(rng.integers(2**32)))[0])


@dataclass(frozen=True)
class ServerLloyds:
    """k-means of the server's points, the best of 20 restarts."""

    public = True

    def draw(self, points: Array, k: int, rng: np.random.Generator) -> Array:
        from sklearn.cluster import KMeans

        model = KMeans(k, n_init=RESTARTS, random_state=int(rng.integers(2**32))).fit(points)
        return np.asarray(model.cluster_centers_)


@dataclass(frozen=True)
class SpherePacking:
    """Su et al. (CODASPY 2016): random centers far from one another and from the walls of a cube.

    The cube [-r, r]**d, r the radius of the server's points.  Centers are at least a from every wall and 2a
    from one another, a the largest radius found feasible by bisection: within `attempts` draws a center.
    (Paper App. G.3 says "corners"; spheres of radius a inside the cube are what Su et al. pack.)
    """

    attempts: int = 1000
    precision: float = 1e-3
    public = True

    def draw(self, points: Array, k: int, rng: np.random.Generator) -> Array:
        r = float(np.linalg.norm(points, axis=1).max())
        low, high, best = 0.0, 1.0, None
        while high - low > self.precision:
            middle = (low + high) / 2
            found = self._pack(middle * r, r, points.shape[1], k, rng)
            if found is None:
                high = middle
            else:
                low, best = middle, found
        if best is None:
            raise InputError(
                f"no {k} spheres fit the cube [-{r:g}, {r:g}]**{points.shape[1]}: raise attempts, or lower k"
            )
        return best

    def _pack(self, a: float, r: float, d: int, k: int, rng: np.random.Generator) -> Array | None:
        centers: list[Array] = []
        for _ in range(k):
            tries = rng.uniform(a - r, r - a, (self.attempts, d))
            free = np.ones(self.attempts, bool)
            for center in centers:
                free &= ((tries - center) ** 2).sum(axis=1) >= (2 * a) ** 2
            if not free.any():
                return None
            centers.append(tries[int(free.argmax())])
        return np.stack(centers)


@dataclass(frozen=True, eq=False)
class GivenCenters:
    """Centers (k, d) in data units from elsewhere.

    public: whether they tell nothing of the clients' points.  Those of k-FED or of k-means on pooled data do
    tell: the ledger then says that the run is not private.
    """

    centers: Array
    public: bool = False

    def draw(self, points: Array, k: int, rng: np.random.Generator) -> Array:
        centers = np.asarray(self.centers, np.float64)
        if centers.shape != (k, points.shape[1]):
            raise InputError(
                f"initial centers have shape {centers.shape}, expected {(k, points.shape[1])}: "
                "give one row a cluster"
            )
        return centers


Start = FedDPInit | Votes | Cones | InitialCenters
