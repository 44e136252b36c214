"""Initial centers: FedDP-Init, and those it is compared with, all continued by the same FedDP-Lloyds.

Paper sec. 5 (baselines) and App. G.3.  Only FedDP-Init, votes and cones spend privacy budget; the others are
functions of the server's public points, or given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from field.arrays import Array
from secfc.errors import InputError
from secfc.feddp.server_estimates import (
    RESTARTS,
    clean_weights,
    nearest_proxy,
    project_into_ball,
    weighted_quantile,
)

LINES = 2  # along which points vote before anything else
# Of the budget for votes, and of one below this total for so many clusters.
BALL = (0.04, 0.03)  # of it all, for each ball: the mean of all rows, and how far they lie from it
BEYOND = 0.01  # of the rows may lie beyond a ball
SHARE, SHARE_OF_LITTLE, EPSILON_FOR_SHARE, CLUSTERS_FOR_SHARE = 0.7, 0.85, 0.5, 16


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
    boxes: how many times a ball about the points is found first, in place of the public one (`BALL`): 2 for a
    radius that may be too large, or not about the middle.
    """

    candidates: int | None = None
    rounds: int | None = None
    share: float | None = None
    lines: int | None = None
    boxes: int = 0

    def among(self, k: int, d: int, epsilon: float) -> Votes:
        """Votes for k clusters of d features and this total budget: all are numbers."""
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
        if few or (self.rounds is not None and self.rounds < 1) or min(self.lines or 0, self.boxes) < 0:
            raise InputError(
                f"candidates={self.candidates}, rounds={self.rounds}, lines={self.lines}, "
                f"boxes={self.boxes}: give at least two candidates a cluster, one round and no negative "
                "lines or boxes"
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
    noisy number of points; then these are clustered, and the steps of FedDP-KMeans follow.  boxes: as of
    `Votes`.
    """

    lines: int = LINES
    steps: int = 3
    groups: int = 3
    boxes: int = 0

    def __post_init__(self) -> None:
        if min(self.lines, self.steps, self.groups) < 1 or self.boxes < 0:
            raise InputError(
                f"lines={self.lines}, steps={self.steps}, groups={self.groups}, boxes={self.boxes}: give at "
                "least one of each, and no negative boxes"
            )


@dataclass(frozen=True)
class ServerKMeansPlusPlus:
    """k-means++ seeding on the server's points, once."""

    public = True

    def draw_centers(self, points: Array, k: int, rng: np.random.Generator) -> Array:
        from sklearn.cluster import kmeans_plusplus

        return np.asarray(kmeans_plusplus(points, k, random_state=int(rng.integers(2**32)))[0])


@dataclass(frozen=True)
class ServerLloyds:
    """k-means of the server's points, the best of 20 restarts."""

    public = True

    def draw_centers(self, points: Array, k: int, rng: np.random.Generator) -> Array:
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

    def draw_centers(self, points: Array, k: int, rng: np.random.Generator) -> Array:
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

    def draw_centers(self, points: Array, k: int, rng: np.random.Generator) -> Array:
        centers = np.asarray(self.centers, np.float64)
        if centers.shape != (k, points.shape[1]):
            raise InputError(
                f"initial centers have shape {centers.shape}, expected {(k, points.shape[1])}: "
                "give one row a cluster"
            )
        return centers


Start = FedDPInit | Votes | Cones | ServerKMeansPlusPlus | ServerLloyds | SpherePacking | GivenCenters


# --------------------------------------------------------------------------------------------------
# Candidates that clients vote for, where the server holds no points: from a public ball to the clusters.
#
# After private evolution (PE-means): every point votes for its nearest candidate, and only a noisy histogram
# leaves.  Candidates of noise are dropped and those of many votes have others drawn about them, as far as the
# next one is.  In the end all histograms together say how much each candidate stands for.  Where d is large,
# a few votes only say how far points lie, and sums over cones follow.  Everything here is a function of the
# public ball, of noisy statistics and of a generator.

STRONG = 2.0  # deviations of the noise that a candidate's votes must exceed
NEAR = 0.7  # how far from a candidate others are drawn at most, in distances to the next one
ALONG = 2.5  # as STRONG, for a place along a line
WITHIN = 0.68  # of votes along a line: for a normal law they are within a deviation
PULL = 1.5  # deviations of the noise by which all histograms together draw a candidate's weight to 0
LEAST = 0.3  # deviations that a weight must exceed then
EVEN = (
    0.1  # of the weight on all candidates alike, before votes are explained; the rest as the last round said
)
ITERATIONS = 60
TOGETHER = 16  # rounds whose votes are explained: cells of earlier ones are coarse, and each costs time
BLOCK = 1 << 22  # distances at a time
WIDER = 1.1  # where rows are clipped, in root mean squares of what lies about a mean
TELLING = 3.5  # how many times the noise of a group's mean points lie about the mean of all, at least


def sample_ball(count: int, d: int, radius: float, rng: np.random.Generator) -> Array:
    """Points (count, d) uniform in the ball of this radius about 0."""
    return np.asarray(random_directions(count, d, rng) * (radius * rng.random((count, 1)) ** (1 / d)))


def random_directions(count: int, d: int, rng: np.random.Generator) -> Array:
    """Unit vectors (count, d), uniform."""
    found = rng.normal(size=(count, d))
    return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True))


def vote_positions(count: int, radius: float) -> Array:
    """Where votes are counted along a line: (count,), on either side of 0, from the radius inwards."""
    out = radius * 2.0 ** (-0.5 * np.arange(count // 2))
    return np.concatenate([-out, out[::-1]])


def mean_square_along(votes: Array, deviation: float, radius: float) -> float:
    """The mean square of what lies along a line, from noisy votes (count,) for its `vote_positions`.

    Votes far out may be noise, or few: places beyond two deviations count as there.
    """
    weights = clean_weights(votes, deviation, ALONG, 2)
    far = np.abs(vote_positions(len(votes), radius))
    far = np.minimum(far, 2 * weighted_quantile(far, weights, WITHIN))
    return float(weights @ far**2 / weights.sum())


def candidate_weights(votes: Array, deviation: float, k: int) -> Array:
    """Weights (s,) of candidates from noisy votes: 0 where they may be noise; at least k are kept."""
    return clean_weights(votes, deviation, STRONG, k)


def resample_candidates(candidates: Array, weights: Array, radius: float, rng: np.random.Generator) -> Array:
    """As many candidates (s, d) anew: those with a weight, and others about them, within the ball.

    More are drawn about a candidate of many votes and far from the next: in proportion to sqrt(weight) times
    that distance, as costs that better ones could save are.
    """
    kept, weight = candidates[weights > 0], weights[weights > 0]
    apart = _apart(kept, radius)
    chance = np.sqrt(weight) * np.maximum(apart, 1e-9 * radius)
    parents = rng.choice(len(kept), len(candidates) - len(kept), p=chance / chance.sum())
    drawn = kept[parents] + sample_ball(len(parents), kept.shape[1], NEAR, rng) * apart[parents][:, None]
    return np.concatenate([kept, project_into_ball(drawn, radius)])


def _apart(points: Array, radius: float) -> Array:
    """How far the next point is from each (s,), at most the radius."""
    from scipy.spatial import cKDTree

    if len(points) < 2:
        return np.full(len(points), radius)
    return np.asarray(np.minimum(cKDTree(points).query(points, k=2)[0][:, 1], radius))


def fit_histograms(
    candidates: Array, asked: Sequence[Array], votes: Sequence[Array], deviation: float, k: int
) -> Array:
    """Weights (s,) of candidates (s, d), not negative, that explain all noisy histograms; at least k stay.

    asked: the candidates (s_r, d) of every round.  votes: theirs, (s_r,).  One histogram says how much lies
    about its candidates; the cells of several overlap, and noise that one of them has the others refuse.
    Least squares by multiplications (Lee and Seung), each weight drawn to 0 by PULL deviations of what the
    rounds say of it together.
    """
    asked, votes = asked[-TOGETHER:], votes[-TOGETHER:]
    cells = [_nearest(candidates, each) for each in asked]
    drawn = PULL * deviation * math.sqrt(len(votes))
    wanted = sum(np.maximum(v, 0.0)[c] for v, c in zip(votes, cells, strict=True))
    against = drawn + sum(np.maximum(-v, 0.0)[c] for v, c in zip(votes, cells, strict=True))
    mean = float(np.mean([v.sum() for v in votes]))
    # Where votes explain no more than cells have together, the last ones, which are the finest, decide.
    last = (candidates == asked[-1][cells[-1]]).all(axis=1)
    weights = np.where(last, clean_weights(votes[-1], deviation, STRONG, 1)[cells[-1]], 0.0)
    weights = (1 - EVEN) * weights + EVEN * max(mean, 1.0) / len(candidates)
    for _ in range(ITERATIONS):
        told = sum(np.bincount(c, weights, minlength=len(v))[c] for v, c in zip(votes, cells, strict=True))
        weights = weights * wanted / (told + against + 1e-12)
    return clean_weights(weights, deviation, LEAST, k)


def _nearest(points: Array, centers: Array) -> Array:
    """As `nearest_proxy`, with few distances in memory."""
    blocks = np.array_split(points, max(1, len(points) * len(centers) // BLOCK))
    return np.concatenate([nearest_proxy(block, centers) for block in blocks])


@dataclass(frozen=True, eq=False)
class PointSpread:
    """What is known of how points lie, from noisy statistics alone.

    square: the mean square of their distance from 0, or from `mean` (1, d) once that is known.  reach: where
    rows are clipped about the means of their groups.
    """

    square: float
    reach: float
    mean: Array

    @classmethod
    def of(cls, squares: Sequence[float], d: int, radius: float) -> PointSpread:
        """From mean squares along lines: a random direction has a d-th of the whole, in the mean."""
        square = d * float(np.mean(squares))
        return cls(square, min(radius, WIDER * math.sqrt(square)), np.zeros((1, d)))

    def ball_radius(self, radius: float) -> float:
        """The radius of a ball in which points that are uniform lie as far from 0 in the mean square."""
        d = self.mean.shape[1]
        return min(radius, math.sqrt(self.square * (d + 2) / d))

    def about(self, mean: Array) -> PointSpread:
        """About the mean (1, d) of all points."""
        square = max(self.square - float((mean**2).sum()), 0.1 * self.square)
        return PointSpread(square, min(self.reach, WIDER * math.sqrt(square)), mean)

    def within(self, centers: Array, counts: Array) -> PointSpread:
        """About centers (k, d) of groups with noisy counts (k,): what they have apart is no more within."""
        weights = np.maximum(counts, 0.0)
        between = weights @ ((centers - self.mean) ** 2).sum(axis=1) / max(float(weights.sum()), 1.0)
        left = max(self.square - float(between), 0.1 * self.square)
        return replace(self, reach=min(self.reach, WIDER**2 * math.sqrt(left)))

    def groups(self, rows: float, multiplier: float, k: int, most: int) -> int:
        """How many groups, k to most, of so many rows have means that noise does not drown.

        A mean of rows / groups rows within the spread has noise of multiplier groups sqrt(d) / rows of it.
        """
        telling = rows / (TELLING * multiplier * math.sqrt(self.mean.shape[1]))
        return int(np.clip(telling, k, most))

    def draw_cones(self, count: int, rng: np.random.Generator) -> Array:
        """Centers (count, d), as far from the mean as points are: their cells are cones from there.

        Of any distance cells would be the same; of one that is far above the integer step they stay so.
        """
        d = self.mean.shape[1]
        return np.asarray(self.mean + math.sqrt(self.square) * random_directions(count, d, rng))


def shell_radius(counts: Array, deviation: float, radius: float) -> float:
    """The radius of a ball that all but BEYOND of the rows lie in, by noisy counts (shells,) of `shells_of`.

    From the outside in, until what lies beyond is clearly there; the radius as it was where counts together
    are within their noise.
    """
    whole, beyond = float(counts.sum()), np.cumsum(counts)
    if whole <= 4 * deviation * math.sqrt(len(counts)):
        return radius
    clear = np.maximum(BEYOND * whole, ALONG * deviation * np.sqrt(np.arange(1, len(counts) + 1)))
    there = np.flatnonzero(beyond >= clear)
    return float(radius * 2.0 ** (-0.5 * (int(there[0]) if len(there) else 0)))
