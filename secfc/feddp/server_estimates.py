"""What the server makes of noisy aggregates: post-processing, free of privacy cost.

Algorithm 1, lines 7, 17 and 24; Algorithm 2, line 11.  Everything here is a function of public points and of
noisy releases.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from field.arrays import Array
from secfc.kmeans.elbow import Elbow, elbow, monotone_costs

P = ParamSpec("P")
T = TypeVar("T")

# --------------------------------------------------------------------------------------------------
# One thread for small matrix products: many clients' are faster so, and sums are reproducible.


@cache
def _controller(learning: bool) -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def one_thread() -> Any:
    """A context, or a decorator's context, in which matrix products use one thread."""
    # A controller knows the libraries of its time, and scikit-learn brings threads of its own.
    return _controller("sklearn.cluster" in sys.modules).limit(limits=1)


def on_one_thread(function: Callable[P, T]) -> Callable[P, T]:
    """The function, whose matrix products use one thread: others wait for the next at full speed."""

    @wraps(function)
    def alone(*given: P.args, **named: P.kwargs) -> T:
        with one_thread():
            return function(*given, **named)

    return alone


# --------------------------------------------------------------------------------------------------


RESTARTS = 20


@dataclass(frozen=True, eq=False, repr=False)
class Proxies:
    """The server's points as a stand-in for the clients' (Algorithm 1, step 2).

    points: (s, d) about the origin.  projection: (d, p), or None.  weights: (s,) noisy, not negative, 0 where
    dropped.  drawn: (s,) the same drawn together, or None: worse for finding clusters, as points that are far
    from all of them count too, and better for the mean of one, as they are many.
    """

    points: Array
    projection: Array | None
    weights: Array
    drawn: Array | None = None

    @property
    def projected(self) -> Array:
        """(s, p); the points themselves without a projection."""
        return self.points if self.projection is None else np.asarray(self.points @ self.projection)

    @property
    def anchor_weights(self) -> Array:
        """Weights (s,) for how far points lie from anchors, and to which side: strong ones lie close."""
        return self.weights if self.drawn is None else self.drawn


@dataclass(frozen=True, eq=False, repr=False)
class ProxyGroups:
    """Clusters of proxies: centers (k, p) under a projection (d, p), or (k, d) with None.

    anchors: (k, d), the weighted means of the proxies in full space.  weights: (s,) of the proxies.
    labels: (s,) the group of each.
    residuals: distance (s,) of every proxy with a weight to the anchor that it has without itself; 0 else.
    away: (s, d), every proxy less the weighted mean of its group.
    """

    projection: Array | None
    centers: Array
    anchors: Array
    weights: Array
    labels: Array
    residuals: Array
    away: Array


@on_one_thread
def nearest_proxy(points: Array, centers: Array) -> Array:
    """The nearest center (k, p) of every point (m, p), the lowest index in a tie: (m,) int64, in floats."""
    scores = points @ (-2.0 * centers.T)
    scores += np.einsum("ij,ij->i", centers, centers)
    return np.asarray(scores.argmin(axis=1))


@on_one_thread
def nearest_squares(points: Array, centers: Array) -> Array:
    """The squared distance of every point (m, p) to the nearest of centers (k, p): (m,), in floats."""
    scores = points @ (-2.0 * centers.T)
    scores += np.einsum("ij,ij->i", centers, centers)
    return np.asarray(np.maximum(scores.min(axis=1) + np.einsum("ij,ij->i", points, points), 0.0))


def leading_directions(matrix: Array, deviation: float, least: int, most: int) -> Array:
    """Eigenvectors (d, p) of the largest eigenvalues of a noisy symmetric matrix, the largest last.

    As many of `most` as exceed the mean eigenvalue by more than noise does, 2 deviation sqrt(d) (Wigner), but
    at least `least`, and all of them if none does: what clusters have in all directions alike tells nothing
    about them.  deviation: of the noise on every entry off the diagonal.
    """
    from scipy.linalg import eigh

    d = len(matrix)
    with one_thread():
        values, vectors = eigh(matrix, subset_by_index=(max(0, d - most), d - 1))
    clear = int((values - np.trace(matrix) / d > 2 * deviation * math.sqrt(d)).sum())
    return np.ascontiguousarray(vectors[:, -(max(clear, min(least, d)) or len(values)) :])


def merge_points(projected: Array, bins: int, seed: int) -> tuple[Array, Array]:
    """At most `bins` means (bins, p) of projected points (s, p) that are close, and whose each is: (s,)."""
    if len(projected) <= bins:
        return projected, np.arange(len(projected))
    centers, labels, _ = weighted_kmeans(projected, np.ones(len(projected)), bins, seed, restarts=1)
    return centers, labels


def clean_weights(weights: Array, deviation: float, strong: float, least: int) -> Array:
    """Weights (s,) without the negative ones and those of fewer than `strong` deviations; at least `least`.

    With strong=0 only the negative ones become 0.  Should fewer than `least` survive, the largest do.
    """
    kept = np.where(weights > strong * deviation, weights, 0.0)
    if np.count_nonzero(kept) < least:
        top = np.argsort(-weights, kind="stable")[:least]
        kept = np.zeros(len(weights))
        # Even the largest may be negative under heavy noise: all that is known then is that there are points.
        kept[top] = np.maximum(weights[top], max(deviation, 1e-9))
    return kept


def drawn_weights(weights: Array, members: Array, deviation: float) -> Array | None:
    """Noisy weights (s,) drawn to what members (s,) let expect, as far as noise explains the distance.

    James and Stein's estimator, about every bin's share of the sum.  Weights that are weak one by one may be
    much together: where bins hold few points, nearly all are.  None where the sum is within 3 of its
    deviations: then there is nothing to draw to.
    """
    s, total = len(weights), float(weights.sum())
    if total <= 3 * deviation * math.sqrt(s):
        return None
    expected = total * members / members.sum()
    distance = float(((weights - expected) ** 2).sum())
    kept = max(0.0, 1.0 - max(s - 3, 0) * deviation**2 / max(distance, 1e-300))
    return np.asarray(np.maximum(expected + kept * (weights - expected), 0.0))


def weighted_kmeans(
    points: Array, weights: Array, k: int, seed: int, *, restarts: int = RESTARTS
) -> tuple[Array, Array, float]:
    """Centers (k, p), labels (s,) and cost of the best of several weighted k-means; weight 0: left out."""
    from sklearn.cluster import KMeans

    there = weights > 0
    # Threads add up partial sums in the order in which they finish; one thread is reproducible.
    with one_thread():
        model = KMeans(k, n_init=restarts, random_state=seed)
        model.fit(points[there], sample_weight=weights[there])
    centers = np.asarray(model.cluster_centers_, np.float64)
    return centers, nearest_proxy(points, centers), float(model.inertia_)


@on_one_thread
def group_proxies(proxies: Proxies, k: int, seed: int) -> ProxyGroups:
    """Cluster the weighted, projected points of the server (line 17)."""
    centers, labels, _ = weighted_kmeans(proxies.projected, proxies.weights, k, seed)
    mass = np.bincount(labels, proxies.weights, minlength=k)
    anchors = np.tile(proxies.weights @ proxies.points / proxies.weights.sum(), (k, 1))
    for h in np.flatnonzero(mass):
        anchors[h] = proxies.weights[labels == h] @ proxies.points[labels == h] / mass[h]
    # Without itself, the mean of a point's group is 1/(1 - w/mass) times as far away.
    share = proxies.weights / np.maximum(mass[labels], 1e-300)
    away = proxies.points - anchors[labels]
    distance = np.linalg.norm(away, axis=1) / np.maximum(1 - share, 0.5)
    return ProxyGroups(proxies.projection, centers, anchors, proxies.weights, labels, distance, away)


def draw_to_mean(groups: ProxyGroups, points: Array) -> Array:
    """Centers (k, d) of the server's points (s, d) alone, drawn to the mean of all where clusters of few
    points scatter no more than such means do: by 1 - 1 / F, F the ratio of the analysis of variance.
    """
    anchors, (s, k) = groups.anchors, (len(points), len(groups.anchors))
    if s <= k or k < 2:
        return anchors
    mean, counts = points.mean(axis=0), np.bincount(groups.labels, minlength=k)
    within = float((groups.away**2).sum()) / (s - k)
    between = float(counts @ ((anchors - mean) ** 2).sum(axis=1)) / (k - 1)
    return np.asarray(mean + max(0.0, 1 - within / max(between, 1e-300)) * (anchors - mean))


def split_candidates(moments: Array, deviation: float, centers: Array, counts: Array) -> tuple[Array, ...]:
    """Centers (k, d) with the cheapest two merged and one split, a candidate for each that may be two.

    moments: the noisy sum of outer products of rows, deviation that of an entry's noise; counts (k,) noisy.
    What centers leave of the moments is spread within clusters.  If one direction of it stands out of all
    others, by more than all have in the mean and than noise explains, a center stands between two clusters,
    as where the server has a point of neither.  Which one, moments do not tell.  Empty if nothing stands out.
    """
    from scipy.linalg import eigh

    d, k = centers.shape[1], len(centers)

    def left(centers: Array, counts: Array) -> tuple[float, float, float, Array]:
        rest = moments - (centers.T * counts) @ centers
        with one_thread():
            values, vectors = eigh(rest, subset_by_index=(max(0, d - 2), d - 1))
        return float(values[-1]), float(values[0]), float(np.trace(rest)) / d, vectors[:, -1]

    first, second, mean, _ = left(centers, counts)
    if k < 2 or d < 2 or first - second < max(mean, 4 * deviation * math.sqrt(d)):
        return ()
    pairs = [(r, s) for s in range(k) for r in range(s)]
    apart = [((centers[r] - centers[s]) ** 2).sum() / (1 / counts[r] + 1 / counts[s]) for r, s in pairs]
    r, s = pairs[int(np.argmin(apart))]
    joined = (counts[r] * centers[r] + counts[s] * centers[s]) / (counts[r] + counts[s])
    fewer = np.vstack([np.delete(centers, [r, s], axis=0), joined])
    sizes = np.append(np.delete(counts, [r, s]), counts[r] + counts[s])
    first, _, mean, direction = left(fewer, sizes)
    return tuple(
        np.vstack([np.delete(fewer, q, axis=0), fewer[q] + step, fewer[q] - step])
        for q in range(k - 1)
        for step in [direction * math.sqrt(max(first - mean, 0.0) / sizes[q])]
    )


def group_about(points: Array, weights: Array, centers: Array) -> ProxyGroups:
    """Proxies (s, d) grouped by the nearest of centers (k, d), which are the anchors too."""
    labels = nearest_proxy(points, centers)
    away = points - centers[labels]
    found = ProxyGroups(None, centers, centers, weights, labels, np.linalg.norm(away, axis=1), away)
    return reweighted_groups(found, points, weights)


def weighted_quantile(values: Array, weights: Array, quantile: float) -> float:
    """The least value below which lies this share of the weight."""
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(cumulative, quantile * cumulative[-1])])


def reweighted_groups(groups: ProxyGroups, points: Array, weights: Array) -> ProxyGroups:
    """The same groups of points (s, d) by other weights (s,): anchors and residuals stay."""
    mass = np.bincount(groups.labels, weights, minlength=len(groups.anchors))
    means = np.zeros(groups.anchors.shape)
    np.add.at(means, groups.labels, weights[:, None] * points)
    means /= np.maximum(mass, 1e-300)[:, None]
    return replace(groups, weights=weights, away=points - means[groups.labels])


@on_one_thread
def clipping_effect(groups: ProxyGroups, there: Array, radius: float) -> tuple[Array, Array, float]:
    """What clipping to a radius keeps: of a proxy's distance and of a small move of it, (s,) each; and of
    all moves together.

    there: (s,) bool, the proxies that count.  A row at distance r > radius becomes radius / r as long, and
    so does a move of it; of a move along the row nothing is left.  Moves are like the sampling error of a
    mean, of the covariance S of all, so that is tr(S^2) / tr(S)^2 of them.  Post-processing.
    """
    weights, residuals, away = groups.weights[there], groups.residuals[there], groups.away[there]
    covariance = (away * weights[:, None]).T @ away
    along = float((covariance**2).sum()) / max(float(np.trace(covariance)) ** 2, 1e-300)
    share = np.minimum(1.0, radius / np.maximum(residuals, 1e-300))
    moved = np.where(residuals > radius, share * (1 - along), share)
    return share, moved, max(float(np.average(moved, weights=weights)), 1e-9)


def clipping_error(
    groups: ProxyGroups, there: Array, radius: float, noise: float, least: float, blur: Array
) -> float:
    """What clipping residuals to a radius costs: squared error of centers, times their points, summed.

    In data units squared, estimated on the proxies, of which `there` (s,) bool count: four terms.

    - noise: the deviation of every feature of a sum, per unit of the radius.  It grows with the radius, and
      is scaled up by what clipping takes off.
    - Rows of a group that lie farther out on one side than on the other: its clipped mean is not its mean.
    - Groups that lose another share than all together: their ways from their anchors are scaled up wrongly.
      blur (k,): how long these are, if known from noise; where 0, as sampling of the proxies lets expect.
    - Clients' rows are a sample too, and the mean of clipped ones is not that of the sample.

    Of the second and third, what sampling of proxies lets expect is taken off.  least: groups of less weight
    get no center out of sums, and do not count.
    """
    k, d = groups.anchors.shape
    labels, weights, away = groups.labels[there], groups.weights[there], groups.away[there]
    share, moved, whole = clipping_effect(groups, there, radius)
    mass = np.bincount(labels, weights, minlength=k)
    counted = mass >= max(least, 1e-9)
    heavy = np.where(counted, mass, 1.0)

    def mean(values: Array) -> Array:
        return np.asarray(np.bincount(labels, weights * values, minlength=k) / heavy)

    alone = mean(weights) / heavy  # 1 / how many proxies of equal weight there would be
    off = (share / whole - 1)[:, None] * away
    lengths = np.einsum("ij,ij->i", off, off)
    bias = np.zeros((k, d))
    np.add.at(bias, labels, weights[:, None] * off)
    lopsided = (bias**2).sum(axis=1) / heavy**2 - mean(weights * lengths) / heavy
    way = np.where(blur > 0, blur**2, alone * mean(groups.residuals[there] ** 2))
    uneven = mean(moved / whole - 1) ** 2
    uneven = (uneven - alone * (mean((moved / whole - 1) ** 2) - uneven)) * way
    sampled = mean(lengths) / heavy
    noisy = d * (noise * radius / whole / heavy) ** 2
    there_are = np.where(counted, mass, 0.0)
    return float(max(0.0, there_are @ (lopsided + uneven)) + there_are @ (sampled + noisy))


def centers_of_sums(sums: Array, counts: Array, origins: Array, fallback: Array, least: float) -> Array:
    """Centers (k, d) from noisy sums (k, d) about origins (k, d) and noisy counts (k,), in data units.

    A count below `least` says nothing about its cluster, which becomes its row of fallback (k, d).
    """
    there = (counts >= least)[:, None]
    return np.where(there, origins + sums / np.maximum(counts, least)[:, None], fallback)


@dataclass(frozen=True, eq=False, repr=False)
class GroupAnswer:
    """Noisy sums (k, d) about origins in data units and counts (k,), and what they were asked with.

    deviation: of the noise on every feature of a sum, in data units.  miscounted: of that on a count.
    reach: where rows were clipped, in steps; kept: what share of them that keeps; bounds: of clients.
    """

    sums: Array
    counts: Array
    deviation: float
    miscounted: float
    reach: int
    kept: float
    bounds: tuple[int, ...]

    def join(self, other: GroupAnswer) -> GroupAnswer:
        """Both answers to one question as one: their mean, each by its precision."""
        mine, theirs = self.deviation**-2, other.deviation**-2
        part = theirs / (mine + theirs)
        less = math.sqrt(mine / (mine + theirs))
        return replace(
            self,
            sums=self.sums + part * (other.sums - self.sums),
            counts=self.counts + part * (other.counts - self.counts),
            deviation=self.deviation * less,
            miscounted=self.miscounted * less,
        )


@dataclass(frozen=True, eq=False, repr=False)
class PlacedCenters:
    """Centers (k, d) that a noisy answer gives; counts (k,) of rows, 0 where noise explains them.

    blur: (k,) how far noise moves each center, as a root mean square; 0 where it is its anchor.  moved: how
    many times their noise, in squares, they moved.  least: the count below which there is none.
    """

    centers: Array
    counts: Array
    blur: Array
    moved: float
    least: float


def place_centers(
    found: GroupAnswer, origins: Array, anchors: Array, radius: float, *, cleaned: bool, shrunk: bool
) -> PlacedCenters:
    """Where centers are by noisy sums about origins (k, d), from where anchors (k, d) were, within a radius.

    cleaned: counts within their noise are none, and what lies beyond the radius is noise.  shrunk: as far as
    noise explains the way, a center stays at its anchor.
    """
    counts = found.counts
    # A count within its noise is no count; the paper's variant refuses only what cannot divide.
    least = max(1.0, 2 * found.miscounted) if cleaned else 1.0
    kept = np.where(counts >= least, counts, 0.0)
    centers = centers_of_sums(found.sums / found.kept, counts, origins, anchors, least)
    deviations = found.deviation / found.kept / np.maximum(counts, least)
    # To first order: of S / c noise on S moves d features, noise on c the way from the origin.
    ways = np.linalg.norm(centers - origins, axis=1) * found.miscounted / np.maximum(counts, least)
    blur = np.where(counts >= least, np.hypot(math.sqrt(anchors.shape[1]) * deviations, ways), 0.0)
    ways = np.einsum("ij,ij->i", centers - anchors, centers - anchors)
    noise = kept @ blur**2
    moved = float(kept @ ways - noise) / max(noise, 1e-300)
    if shrunk:
        blur = blur * shrinkage_kept(centers, anchors, deviations)
        centers = shrink_to_anchors(centers, anchors, deviations)
    return PlacedCenters(project_into_ball(centers, radius) if cleaned else centers, kept, blur, moved, least)


def mean_of_groups(found: GroupAnswer, centers: Array, points: Array) -> Array:
    """Mean (d,) of all rows, by sums about centers (k, d); of points (s, d) if noise explains the counts."""
    counts = np.maximum(found.counts, 0.0)
    if counts.sum() <= 3 * found.miscounted * math.sqrt(len(counts)):
        return np.asarray(points.mean(axis=0))
    return np.asarray((found.sums + counts[:, None] * centers).sum(axis=0) / counts.sum())


def mean_of_answers(answers: Sequence[tuple[GroupAnswer, Array]], d: int) -> tuple[Array, float, float]:
    """Mean (d,) of all rows about 0, their number, and how far noise moves the mean, as a root mean square.

    answers: with the origins (k, d) of their sums; each counts by its precision.  As far as noise explains it
    the mean stays at 0, which is the middle of a public ball.
    """
    total, rows, weight = np.zeros(d), 0.0, 0.0
    for found, origins in answers:
        noise = origins.size * found.deviation**2 + found.miscounted**2 * float((origins**2).sum())
        total = total + (found.sums / found.kept + found.counts[:, None] * origins).sum(axis=0) / noise
        rows, weight = rows + float(found.counts.sum()) / noise, weight + 1 / noise
    mean, rows = total / max(rows, weight), max(rows / weight, 1.0)
    blur = 1 / (rows * math.sqrt(weight))
    kept = shrinkage_kept(mean[None], np.zeros((1, d)), np.array([blur / math.sqrt(d)]))[0]
    return kept * mean, rows, float(blur)


def directions_of_sums(moved: Array, deviation: float, points: Array, most: int) -> Array:
    """Directions (d, most) in which groups lie apart, orthonormal, by noisy sums (k, d) of them about a mean.

    Noise alone has singular values of deviation (sqrt(d) + sqrt(k)) at most: below, the leading directions of
    public points (s, d) about that mean serve, beside those that are clear.
    """
    from scipy.linalg import svd

    with one_thread():
        _, lengths, ways = svd(moved, full_matrices=False)
        clear = int((lengths > deviation * (math.sqrt(moved.shape[1]) + math.sqrt(len(moved)))).sum())
        kept = ways[: min(clear, most)].T
        left = svd(points - points @ kept @ kept.T, full_matrices=False)[2]
    return np.concatenate([kept, left[: most - kept.shape[1]].T], axis=1)


def join_groups(means: Array, counts: Array, along: Array, k: int) -> Array:
    """Means (k, d) of the clusters that means (n, d) of so many rows (n,) have by their places (n, p)."""
    _, labels, _ = weighted_kmeans(along, counts, k, 0)
    mass = np.bincount(labels, counts, minlength=k)
    joined = np.zeros((k, means.shape[1]))
    np.add.at(joined, labels, counts[:, None] * means)
    return joined / np.maximum(mass, 1e-300)[:, None]


def shrink_to_anchors(centers: Array, anchors: Array, deviations: Array) -> Array:
    """Centers (k, d) drawn towards public anchors as far as noise explains the distance between them.

    deviations: (k,) the noise of every feature of a center.  James and Stein's estimator with the noise known
    and the positive part taken: for d >= 3 closer to the noiseless centers in the mean, wherever these are.
    """
    return np.asarray(anchors + shrinkage_kept(centers, anchors, deviations)[:, None] * (centers - anchors))


def shrinkage_kept(centers: Array, anchors: Array, deviations: Array) -> Array:
    """What part (k,) of the way from its anchor a center keeps in `shrink_to_anchors`, and so of its
    noise.

    One center has that estimator from 3 features on; of fewer all centers together are one vector of k d.
    """
    k, d = centers.shape
    difference = centers - anchors
    square = np.maximum(np.einsum("ij,ij->i", difference, difference), 1e-300)
    if d > 2:
        return np.asarray(np.maximum(0.0, 1.0 - (d - 2) * deviations**2 / square))
    moved = square > 1e-300  # others are their anchors
    whole = float((square[moved] / deviations[moved] ** 2).sum())
    return np.full(k, max(0.0, 1.0 - max(d * int(moved.sum()) - 2, 0) / max(whole, 1e-300)))


def project_into_ball(centers: Array, radius: float) -> Array:
    """Centers (k, d) no farther from 0 than clipped points are: what is beyond is noise."""
    norms = np.linalg.norm(centers, axis=1)
    return np.asarray(centers * np.minimum(1.0, radius / np.maximum(norms, 1e-300))[:, None])


# --------------------------------------------------------------------------------------------------
# Choosing k on the weighted, projected points of the server: free, as these are public or noisy already.
#
# The authors' answer to their reviewers: Algorithm 1 up to line 16 with a large number of directions, then
# line 17 for k = 1, 2, ..., and the elbow of the costs (`secfc.kmeans.elbow`).

__all__ = ["Elbow", "costs_by_k", "elbow"]


def costs_by_k(proxies: Proxies, most: int, seed: int) -> Array:
    """Weighted k-means costs (most,) of the projected proxies for k = 1, ..., most."""
    runs = (weighted_kmeans(proxies.projected, proxies.weights, k, seed) for k in range(1, most + 1))
    return np.array(monotone_costs([cost for _, _, cost in runs]))
