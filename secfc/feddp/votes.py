"""Candidates that clients vote for, where the server holds no points: from a public ball to the clusters.

After private evolution (PE-means): every point votes for its nearest candidate, and only a noisy histogram
leaves.  Candidates of noise are dropped and those of many votes have others drawn about them, as far as the
next one is.  In the end all histograms together say how much each candidate stands for.  Where d is large, a
few votes only say how far points lie, and sums over cones follow.  Everything here is a function of the
public ball, of noisy statistics and of a generator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secfc.feddp.estimates import clean_weights, nearest, weighted_quantile, within_ball

Array = NDArray[Any]

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


def in_ball(count: int, d: int, radius: float, rng: np.random.Generator) -> Array:
    """Points (count, d) uniform in the ball of this radius about 0."""
    return np.asarray(directions(count, d, rng) * (radius * rng.random((count, 1)) ** (1 / d)))


def directions(count: int, d: int, rng: np.random.Generator) -> Array:
    """Unit vectors (count, d), uniform."""
    found = rng.normal(size=(count, d))
    return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True))


def places(count: int, radius: float) -> Array:
    """Where votes are counted along a line: (count,), on either side of 0, from the radius inwards."""
    out = radius * 2.0 ** (-0.5 * np.arange(count // 2))
    return np.concatenate([-out, out[::-1]])


def along(votes: Array, deviation: float, radius: float) -> float:
    """The mean square of what lies along a line, from noisy votes (count,) for its `places`.

    Votes far out may be noise, or few: places beyond two deviations count as there.
    """
    weights = clean_weights(votes, deviation, ALONG, 2)
    far = np.abs(places(len(votes), radius))
    far = np.minimum(far, 2 * weighted_quantile(far, weights, WITHIN))
    return float(weights @ far**2 / weights.sum())


def elected(votes: Array, deviation: float, k: int) -> Array:
    """Weights (s,) of candidates from noisy votes: 0 where they may be noise; at least k are kept."""
    return clean_weights(votes, deviation, STRONG, k)


def descendants(candidates: Array, weights: Array, radius: float, rng: np.random.Generator) -> Array:
    """As many candidates (s, d) anew: those with a weight, and others about them, within the ball.

    More are drawn about a candidate of many votes and far from the next: in proportion to sqrt(weight) times
    that distance, as costs that better ones could save are.
    """
    kept, weight = candidates[weights > 0], weights[weights > 0]
    apart = _apart(kept, radius)
    chance = np.sqrt(weight) * np.maximum(apart, 1e-9 * radius)
    parents = rng.choice(len(kept), len(candidates) - len(kept), p=chance / chance.sum())
    drawn = kept[parents] + in_ball(len(parents), kept.shape[1], NEAR, rng) * apart[parents][:, None]
    return np.concatenate([kept, within_ball(drawn, radius)])


def _apart(points: Array, radius: float) -> Array:
    """How far the next point is from each (s,), at most the radius."""
    from scipy.spatial import cKDTree

    if len(points) < 2:
        return np.full(len(points), radius)
    return np.asarray(np.minimum(cKDTree(points).query(points, k=2)[0][:, 1], radius))


def explained(
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
    """As `nearest`, with few distances in memory."""
    blocks = np.array_split(points, max(1, len(points) * len(centers) // BLOCK))
    return np.concatenate([nearest(block, centers) for block in blocks])


@dataclass(frozen=True, eq=False)
class Spread:
    """What is known of how points lie, from noisy statistics alone.

    square: the mean square of their distance from 0, or from `mean` (1, d) once that is known.  reach: where
    rows are clipped about the means of their groups.
    """

    square: float
    reach: float
    mean: Array

    @classmethod
    def of(cls, squares: Sequence[float], d: int, radius: float) -> Spread:
        """From mean squares along lines: a random direction has a d-th of the whole, in the mean."""
        square = d * float(np.mean(squares))
        return cls(square, min(radius, WIDER * math.sqrt(square)), np.zeros((1, d)))

    def ball(self, radius: float) -> float:
        """The radius of a ball in which points that are uniform lie as far from 0 in the mean square."""
        d = self.mean.shape[1]
        return min(radius, math.sqrt(self.square * (d + 2) / d))

    def about(self, mean: Array) -> Spread:
        """About the mean (1, d) of all points."""
        square = max(self.square - float((mean**2).sum()), 0.1 * self.square)
        return Spread(square, min(self.reach, WIDER * math.sqrt(square)), mean)

    def within(self, centers: Array, counts: Array) -> Spread:
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

    def cones(self, count: int, rng: np.random.Generator) -> Array:
        """Centers (count, d), as far from the mean as points are: their cells are cones from there.

        Of any distance cells would be the same; of one that is far above the integer step they stay so.
        """
        d = self.mean.shape[1]
        return np.asarray(self.mean + math.sqrt(self.square) * directions(count, d, rng))
