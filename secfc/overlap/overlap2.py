"""Algorithm 2 of Maritan and Schenato: local clusters as distributions, merged once by attraction.  Not
private.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from threadpoolctl import threadpool_limits

from field.arrays import Array
from field.secrets.coins import Coins
from secfc.algorithm import Clustering, PublicFacts
from secfc.data.federation import Federation
from secfc.data.inputs import REAL, check_fields, positive_integer
from secfc.data.party import Party
from secfc.errors import FaultyServer, IncompatibleOptions, InputError
from secfc.overlap.local import (
    AFFINITIES,
    Affinity,
    Centroids,
    Local,
    LocalKMeans,
    Silhouette,
    point_outwards,
    renumber_labels,
)
from secfc.overlap.matching import find_local_clusters, gather_centroids
from secfc.overlap.messages import LocalGaussians, LocalGroups
from secfc.overlap.overlap1 import OverlapResult, PaperAlgorithm, centers_of
from secfc.overlap.plan import OpenPlan
from secfc.overlap.starts import LOCAL_KIND, check_enough, leftover_sentence
from secfc.roles.agreement import agree_with_server
from secfc.roles.description import LOCAL
from secfc.roles.exchange import (
    SERVER,
    SHARE,
    Exchange,
    Role,
    expect_all,
    expect_messages,
    expect_one,
)
from secfc.run_summary import RunSummary

# --------------------------------------------------------------------------------------------------
# What a client tells of its local clusters beside their means, and points that are drawn from it (section
# 5.2).


def covariance_factor(points: Array) -> Array:
    """Rows (r, d) whose Gram matrix is the covariance of points (m, d), r = d; also for fewer points than
    features.

    It follows from the covariance alone, by its eigenvectors: no row of the data is in it, and no matrix is
    inverted.
    """
    centered = points - points.mean(axis=0)
    values, vectors = np.linalg.eigh(centered.T @ centered / len(points))
    found: Array = np.sqrt(np.maximum(values, 0))[:, None] * vectors.T
    return found


def draw_gaussian(mean: Array, factors: Array, variance: Array, box: Array, many: int, rng: Any) -> Array:
    """Points (M, d) of a Gaussian: of its covariance if factors (r, d) are given, else of variances (d,).

    box: (2, d), where they are moved to, or (0, d).
    """
    if len(factors):
        found = mean + rng.standard_normal((many, len(factors))) @ factors
    else:
        found = mean + rng.standard_normal((many, len(mean))) * np.sqrt(variance)
    return np.asarray(np.clip(found, box[0], box[1]) if len(box) else found)


# --------------------------------------------------------------------------------------------------

Proxies = Literal["gaussian", "diagonal", "moments"]


@dataclass(frozen=True)
class Overlap2(PaperAlgorithm):
    """One-shot agglomeration of local clusters by attraction.

    Parameters
    ----------
    k
        Number of clusters; None for the number with the best silhouette of local clusters, up to `most`.
    proxies
        "gaussian" or "diagonal", from which the server draws points; or "moments", forces in closed form,
        which need no drawn points and no covariance.
    points
        Number of points drawn per cluster.
    w
        Exponent of the forces.
    apart
        Whether two clusters of one client are never merged, which is right as long as no client splits a
        cluster.
    boxes
        Whether clients send the least and largest values of each cluster, which are values of single rows, to
        keep drawn points inside.
    affinity
        How points are compared: "euclidean", or "cosine", which needs drawn points.
    most
        Largest number of clusters where k is None.
    local
        How clients find their local clusters; None for k each, or the number with the best silhouette of a
        client's own points.

    Notes
    -----
    The server sees a description of every client's clusters, on features that others observe too.
    """

    k: int | None
    proxies: Proxies = "moments"
    points: int = 100
    w: float = 2.0
    apart: bool = True
    boxes: bool = False
    affinity: Affinity = "euclidean"
    most: int = 16
    local: Local | None = field(default=None, metadata=LOCAL)
    learned_by_clients: ClassVar[str] = "which of its own clusters are of one cluster"

    def __post_init__(self) -> None:
        for name in ("points", "most") if self.k is None else ("k", "points", "most"):
            positive_integer(name, getattr(self, name))
        check_fields(self, {"w": REAL} if self.local is None else {"w": REAL, **LOCAL_KIND})
        if self.proxies not in get_args(Proxies):
            words = ", ".join(map(repr, get_args(Proxies)))
            raise InputError(f"proxies={self.proxies!r}: it says how clusters are compared, one of {words}")
        if self.affinity not in AFFINITIES:
            words = ", ".join(map(repr, AFFINITIES))
            raise InputError(f"affinity={self.affinity!r}: it says how points are compared, one of {words}")
        if self.affinity == "cosine" and self.proxies == "moments":
            raise IncompatibleOptions(
                {"affinity": "cosine", "proxies": "moments"},
                "means and variances do not tell the angles between points",
                [("proxies", "diagonal"), ("affinity", "euclidean")],
            )
        if not self.w > 1:
            raise InputError(f"w={self.w}: forces need an exponent above 1. Raise it.")

    def plan(self, public: PublicFacts) -> OpenPlan:
        """Raises ValueError, InputError for clients that no feature connects."""
        return OpenPlan.of(self, public, min(self.most, public.m) if self.k is None else self.k)

    def client(self, plan: OpenPlan, party: Party, *, coins: Coins) -> Role[OverlapResult]:
        """Lines 1 to 3: cluster my points, describe the clusters; then hear what became of them."""
        yield from agree_with_server(plan, party.name)
        points = plan.columns.rows(party).astype(np.float64)
        local = self.local or (Silhouette() if self.k is None else LocalKMeans())
        labels = find_local_clusters(plan, local, party.name, points, coins)
        count = int(labels.max()) + 1
        inside = plan.columns.mine(party.name).inside
        sent = self.describe_clusters([points[labels == a][:, inside] for a in range(count)])
        inbox = yield Exchange({SERVER: sent}, (SERVER,), round=SHARE, phase="cluster")
        told = expect_one(expect_messages(inbox, LocalGroups), SERVER)
        if told.k > plan.k or len(told.labels) != count:
            raise FaultyServer(SERVER, f"grouped other than my {count} local clusters into k={told.k}")
        own = np.append(told.labels, -1)[labels].astype(np.int32)
        return OverlapResult(centers_of(points, own, told.k), own)

    def describe_clusters(self, parts: list[Array]) -> LocalGaussians:
        """The message about local clusters (m_a, s)."""
        width = parts[0].shape[1]
        full = self.proxies == "gaussian"
        return LocalGaussians(
            np.stack([part.mean(axis=0) for part in parts]),
            np.stack([part.var(axis=0) for part in parts]),
            np.array([len(part) for part in parts], np.int64),
            np.stack([covariance_factor(part) if full else np.empty((0, width)) for part in parts]),
            np.stack(
                [
                    np.stack([part.min(axis=0), part.max(axis=0)]) if self.boxes else np.empty((0, width))
                    for part in parts
                ]
            ),
        )

    def server(self, plan: OpenPlan, *, rng: np.random.Generator, coins: Coins) -> Role[OverlapResult]:
        """Lines 4 to 12: measure forces, merge, tell every client what became of its clusters."""
        yield from agree_with_server(plan, SERVER)
        arrived = yield Exchange({}, plan.clients, round=SHARE, phase="receive")
        inbox = expect_all(expect_messages(arrived, LocalGaussians), plan.clients)
        found = gather_centroids(plan.columns, inbox, plan.k)
        labels, said = self.merged(found, self.force(plan, found, inbox, rng))
        k = int(labels.max()) + 1
        answers = {
            client: LocalGroups(k, labels[found.of(j)].astype(np.int32))
            for j, client in enumerate(found.clients)
        }
        yield Exchange(answers, round=SHARE, phase="merge")
        return OverlapResult(
            np.stack([found.merged(np.flatnonzero(labels == h)) for h in range(k)]), said=said
        )

    def force(self, plan: OpenPlan, found: Centroids, inbox: Any, rng: np.random.Generator) -> Array:
        """Forces (N, N) between local clusters, NaN where incomparable."""
        columns = plan.columns
        variances, proxies = np.full(found.values.shape, np.nan), []
        for j, client in enumerate(found.clients):
            sent, shared = inbox[client], columns.mine(client).shared
            for a, z in enumerate(found.of(j)):
                variances[z, shared] = sent.variances[a]
                if self.proxies != "moments":
                    wide = np.full((self.points, len(columns.shared)), np.nan)
                    wide[:, shared] = draw_gaussian(
                        sent.centers[a], sent.factors[a], sent.variances[a], sent.boxes[a], self.points, rng
                    )
                    proxies.append(wide)
        if self.proxies == "moments":
            return attraction_of_moments(found.values, variances, self.w)
        return attraction_of_points(
            proxies, found.owner, self.w, within=not self.apart, affinity=self.affinity
        )

    def merged(self, found: Centroids, force: Array) -> tuple[Array, tuple[str, ...]]:
        """The cluster of each local one (N,), numbered by its first member, and words about it."""
        if self.k is not None:
            check_enough(found, self.k)
        steps = agglomerate(force, found.owner, apart=self.apart)
        least = len(np.unique(steps[-1]))
        said: tuple[str, ...] = ()
        if self.k is not None:
            if least > self.k:
                labels = keep_largest(force, steps[-1], found.weights, self.k)
                stuck = f"{least - self.k} sets of local clusters were left over, and joined what attracts "
                "them most"
                return labels, (stuck, *leftover_sentence(found, labels, "they share no feature with any"))
            chosen = steps[len(found.values) - self.k]
        else:
            open_ = [labels for labels in steps if 2 <= len(np.unique(labels)) <= self.most] or [
                keep_largest(force, steps[-1], found.weights, self.most)
            ]
            chosen = max(open_, key=lambda labels: silhouette(force, labels, self.w))
            said = (f"k={len(np.unique(chosen))} has the largest silhouette of local clusters",)
        return renumber_labels(chosen), said

    def learned_by_server(self, plan: OpenPlan) -> str:
        what = {"gaussian": "covariances", "diagonal": "variances", "moments": "variances"}[self.proxies]
        boxes = ", the least and largest values of each" if self.boxes else ""
        return (
            f"every client's local centroids, {what}{boxes} and rows of each, on the "
            f"{len(plan.columns.shared)} features that others observe too: whose they are is known"
        )

    def account(self, result: Clustering, federation: Federation, *, ids: str | None = None) -> RunSummary:
        """What reports say of a run."""
        return RunSummary(
            "overlap-2",
            "Algorithm 2 for partly shared features: one-shot agglomeration, not private",
            {
                "proxies": self.proxies,
                "points": self.points,
                "w": self.w,
                "apart": self.apart,
                "boxes": self.boxes,
                "affinity": self.affinity,
            },
            setup=tuple(("Features", sentence) for sentence in result.plan.columns.sentences()),
        )


# Attraction between local clusters, and agglomeration by it (Maritan and Schenato, section 5.1).
#
# Two points attract each other by the inverse of their rescaled distance (eq. 3) to the power of w; two
# clusters by the mean over their pairs.  In closed form that needs no points: with means mu and variances v,
# the expected squared distance on common features is ||mu - mu'||^2 + sum v + sum v'.
#
# Eq. 11 as printed divides by all pairs, its first factor over the wrong set.  Here only pairs of clusters
# whose clients share a feature are summed and counted: dividing by all would punish sets for what cannot be
# compared.


ROWS = 256  # of one side of a block of pairs, which then stays in the cache
LEAST = 1e-12  # squared rescaled distance: points that coincide do not attract without end
# Squared distances are taken in 32 bits where all of a block are at least this part of the largest
# |x|**2 + |y|**2: roundings, at most 2**-24 of that each, then cancel to a relative error of 1e-5 or so.
FAR = 2**-6


def attraction_of_moments(means: Array, variances: Array, w: float) -> Array:
    """Forces (N, N) between clusters of means and variances (N, d), NaN where not observed; NaN:
    incomparable.

    The span of a feature is that of two standard deviations about all means.
    """
    seen = ~np.isnan(means)
    reach = 2 * np.sqrt(np.where(seen, variances, 0.0))
    span = feature_extent(np.where(seen, means - reach, np.nan), np.where(seen, means + reach, np.nan))
    mask = seen.astype(float)
    mu = np.where(seen, means - np.nan_to_num(_middle(means)), 0.0)
    power = np.where(seen, mu**2 + np.where(seen, variances, 0.0), 0.0)
    squared = power @ mask.T + mask @ power.T - 2 * mu @ mu.T
    return _forces(squared, (mask * span**2) @ mask.T, mask @ mask.T, w)


def attraction_of_points(
    proxies: list[Array], owner: Array, w: float, *, within: bool = True, affinity: Affinity = "euclidean"
) -> Array:
    """Forces (N, N) between clusters of points (M, d) each, by the mean over all pairs of their points.

    owner: the client of each, (N,).  within: also between clusters of one client, NaN otherwise.
    """
    points = np.stack(proxies)  # (N, M, d)
    count, many, _ = points.shape
    seen = ~np.isnan(points[:, 0])
    flat = points.reshape(count * many, -1)
    span = feature_extent(flat, flat)
    middle = np.nan_to_num(_middle(flat))
    found = np.full((count, count), np.nan)
    clients = np.unique(owner)

    def attraction_of_pair(pair: tuple[Any, Any]) -> tuple[Array, Array, Array] | None:
        left, right = (np.flatnonzero(owner == client) for client in pair)
        common = seen[left].all(axis=0) & seen[right].all(axis=0)
        if not common.any():
            return None
        a, b = (points[side][:, :, common].reshape(len(side) * many, -1) for side in (left, right))
        if affinity == "cosine":
            # Half the squared distance of directions, whose power of w is the distance's of 2 w.
            return left, right, _mean_force(point_outwards(a), point_outwards(b), 2.0, 2 * w, many)
        scale = float((span[common] ** 2).sum())
        return left, right, _mean_force(a - middle[common], b - middle[common], scale, w, many)

    pairs = [(one, other) for i, one in enumerate(clients) for other in clients[i if within else i + 1 :]]
    # A pair of clients a thread: products and passes leave the interpreter free, and no sum depends on it.
    with threadpool_limits(1), ThreadPoolExecutor(os.cpu_count()) as pool:
        for done in pool.map(attraction_of_pair, pairs):
            if done is not None:
                left, right, force = done
                found[np.ix_(left, right)] = force
                found[np.ix_(right, left)] = force.T
    return found


def _mean_force(a: Array, b: Array, scale: float, w: float, many: int) -> Array:
    """Mean forces between runs of `many` rows of a and of b: (A, B)."""
    found = np.empty((len(a) // many, len(b) // many))
    if scale <= 0:
        return np.zeros_like(found)  # no spread: nothing tells these clusters apart or together
    a, b = a / np.sqrt(scale), b / np.sqrt(scale)
    # |x|**2 + |y|**2 - 2 x . y in one product.
    rows = np.column_stack([a, (a**2).sum(axis=1), np.ones(len(a))])
    columns = np.column_stack([-2 * b, np.ones(len(b)), (b**2).sum(axis=1)]).T.copy()
    fast = rows.astype(np.float32), columns.astype(np.float32)
    least = FAR * (rows[:, -2].max() + columns[-1].max())
    step = max(1, ROWS // many) * many
    for first in range(0, len(a), step):
        block = slice(first, first + step)
        squared = fast[0][block] @ fast[1]
        if squared.min() < least:
            squared = np.maximum(rows[block] @ columns, LEAST)
        forces = _power(squared, w).reshape(-1, many, len(b)).sum(axis=1, dtype=squared.dtype)
        means = forces.reshape(-1, len(b) // many, many).sum(axis=2, dtype=np.float64) / many**2
        found[first // many :][: len(means)] = means
    return found


def _power(squared: Array, w: float) -> Array:
    """squared**(-w / 2), in place; by products for small even w, which takes a tenth as long."""
    if w not in (2, 4, 6, 8):
        return np.power(squared, -w / 2, out=squared)
    np.reciprocal(squared, out=squared)
    once = squared.copy() if w > 2 else squared
    for _ in range(int(w) // 2 - 1):
        squared *= once
    return squared


def _forces(squared: Array, scale: Array, common: Array, w: float) -> Array:
    relative = np.divide(np.maximum(squared, 0), scale, out=np.ones_like(squared), where=scale > 0)
    found = np.maximum(relative, LEAST) ** (-w / 2)
    found[scale <= 0] = 0.0
    found[common == 0] = np.nan
    return np.asarray(found)


def _middle(rows: Array) -> Array:
    """The mean of what is observed of each feature, NaN of what nobody does."""
    seen = ~np.isnan(rows)
    number = seen.sum(axis=0)
    total = np.where(seen, rows, 0.0).sum(axis=0)
    found: Array = np.divide(total, number, out=np.full(rows.shape[1], np.nan), where=number > 0)
    return found


def feature_extent(low: Array, high: Array) -> Array:
    """Largest of high less smallest of low, of each feature, 0 where nobody observes it."""
    seen = ~np.isnan(low)
    top = np.where(seen, high, -np.inf).max(axis=0)
    bottom = np.where(seen, low, np.inf).min(axis=0)
    return np.where(seen.any(axis=0), top - bottom, 0.0)


def agglomerate(force: Array, owner: Array, *, apart: bool) -> list[Array]:
    """Labels (N,) after none, one, two, ... merges, each of the two sets that attract each other most.

    apart: sets with clusters of one client in both are never merged.  Ties to the lowest numbers.  Ends when
    all are one, or none may be merged.
    """
    count = len(force)
    known = ~np.isnan(force)
    sums, pairs = np.where(known, force, 0.0), known.astype(float)
    np.fill_diagonal(sums, 0)
    np.fill_diagonal(pairs, 0)
    has = np.zeros((count, int(owner.max()) + 1), bool)
    has[np.arange(count), owner] = True
    barred: Array = np.asarray((has[:, None] & has[None]).any(axis=2)) & apart
    mean = np.divide(sums, pairs, out=np.full_like(sums, -1.0), where=(pairs > 0) & ~barred)
    labels = np.arange(count)
    found = [labels]
    for _ in range(count - 1):
        r, s = divmod(int(mean.argmax()), count)
        if mean[r, s] < 0:
            break
        labels = np.where(labels == s, r, labels)
        found.append(labels)
        # Sums and numbers of pairs add up: nothing is computed again (eq. 11, incremental).
        for table in (sums, pairs):
            table[r] += table[s]
            table[:, r] = table[r]
            table[r, r] = 0
            table[s] = table[:, s] = 0
        has[r] |= has[s]
        if apart:
            barred[r] = barred[:, r] = (has & has[r]).any(axis=1)
        row = np.divide(sums[r], pairs[r], out=np.full(count, -1.0), where=(pairs[r] > 0) & ~barred[r])
        mean[r] = mean[:, r] = row
        mean[s] = mean[:, s] = -1.0
    return found


def keep_largest(force: Array, labels: Array, weights: Array, k: int) -> Array:
    """Labels (N,) in [-1, k) where more than k sets are left: those of most rows stay, ties to the lowest
    number.

    Every other one joins what attracts it most, though both hold clusters of one client; -1 if nothing does.
    """
    sets, place = np.unique(labels, return_inverse=True)
    rows = np.bincount(place, weights)
    best = np.sort(np.argsort(-rows, kind="stable")[:k])
    member = place[:, None] == np.arange(len(sets))
    known = ~np.isnan(force)
    sums = member.T.astype(float) @ np.where(known, force, 0.0) @ member
    pairs = member.T.astype(float) @ known @ member
    mean = np.divide(sums, pairs, out=np.full_like(sums, -1.0), where=pairs > 0)[:, best]
    new = np.where(mean.max(axis=1) >= 0, mean.argmax(axis=1), -1)
    new[best] = range(len(best))
    return np.asarray(new[place])


def silhouette(force: Array, labels: Array, w: float) -> float:
    """The mean silhouette of local clusters by their distances, as far as they are comparable.

    One that is alone, or comparable to none of its own or of others, counts 0.
    """
    apart = np.where(force > 0, np.where(force > 0, force, 1.0) ** (-1 / w), np.nan)
    np.fill_diagonal(apart, np.nan)
    groups = np.unique(labels)
    if len(groups) < 2:
        return 0.0
    known = ~np.isnan(apart)
    member = labels[:, None] == groups[None]
    number = known.astype(float) @ member
    mean = np.divide(
        np.where(known, apart, 0.0) @ member, number, out=np.full(number.shape, np.inf), where=number > 0
    )
    own = mean[member]
    other = np.where(member, np.inf, mean).min(axis=1)
    valid = np.isfinite(own) & np.isfinite(other)
    top = np.maximum(own, other, where=valid, out=np.ones_like(own))
    return float(
        np.where(
            valid, (np.where(valid, other, 0) - np.where(valid, own, 0)) / np.maximum(top, 1e-300), 0
        ).mean()
    )
