"""Candidates that clients vote for, where the server holds no points: from a public ball to the clusters.

After private evolution (PE-means): every point votes for its nearest candidate, and only a noisy histogram
leaves.  Candidates of noise are dropped and those of many votes have others drawn about them, as far as the
next one is.  Everything here is a function of the public ball, of noisy histograms and of a generator.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from secfc.feddp.estimates import clean_weights, within_ball

Array = NDArray[Any]

STRONG = 2.0  # deviations of the noise that a candidate's votes must exceed
NEAR = 0.7  # how far from a candidate others are drawn at most, in distances to the next one


def in_ball(count: int, d: int, radius: float, rng: np.random.Generator) -> Array:
    """Points (count, d) uniform in the ball of this radius about 0."""
    directions = rng.normal(size=(count, d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return np.asarray(directions * (radius * rng.random((count, 1)) ** (1 / d)))


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
