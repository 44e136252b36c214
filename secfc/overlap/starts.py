"""What a start says: the global cluster of every local one; and what all starts share."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, get_args

import numpy as np

from field.arrays import Array
from secfc.data.inputs import NATURAL, check_fields, refuse_without_method
from secfc.errors import Caution, InputError
from secfc.overlap.local import Centroids, Local, LocalKMeans
from secfc.roles.description import LOCAL


@dataclass(frozen=True, eq=False, repr=False)
class MatchedGroups:
    """labels: the global cluster of each local one, (N,) in [-1, k); -1: none.  said: to everybody, in
    words.
    """

    labels: Array
    said: tuple[str, ...] = ()


class MatchingStart(Protocol):
    """A way to match local clusters.  `local`: how clients find theirs.

    One that takes distances between them, and no centroids, has an attribute `over` that says "distances".
    """

    @property
    def local(self) -> Local: ...

    def group_centroids(self, found: Any, k: int) -> MatchedGroups:
        """The global clusters of all local ones, of which found is `Centroids`, or `PairwiseDistances`.

        Raises InputError if these centroids do not make k clusters.
        """
        ...


def check_enough(found: Any, k: int) -> None:
    """Raises InputError if there are fewer local clusters than global ones are asked for."""
    if len(found.owner) < k:
        raise InputError(
            f"k={k} clusters of {len(found.owner)} local ones at {len(found.clients)} clients: at least k "
            "are needed. Lower k, or let clients look for more local clusters."
        )


def farthest_first(found: Centroids, chosen: list[int], k: int) -> list[int]:
    """The chosen centroids, and then always the one that is farthest from the nearest of them, up to k.

    One that is comparable to none of them counts as nearest; ties to the lowest number.
    """
    chosen = list(chosen)
    while len(chosen) < k:
        apart = found.apart[:, chosen]
        gap = np.where(
            np.isnan(apart).all(axis=1), -1.0, np.where(np.isnan(apart), np.inf, apart).min(axis=1)
        )
        gap[chosen] = -2.0
        chosen.append(int(gap.argmax()))
    return chosen


def leftover_sentence(found: Centroids, labels: Array, why: str) -> tuple[str, ...]:
    """A sentence about local clusters that got no global one, by client."""
    left = np.flatnonzero(labels < 0)
    if not len(left):
        return ()
    who = sorted({found.clients[j] for j in found.owner[left]})
    shown = ", ".join(who[:6]) + (f", ... ({len(who)} in all)" if len(who) > 6 else "")
    return (f"{len(left)} local clusters of {shown} belong to no cluster: {why}",)


def to_groups(found: Centroids, values: Array, centers: Array) -> Array:
    """Distances of rows (A, d) to centers (k, d), infinite where they have no feature in common: (A, k)."""
    apart = found.compare(values, centers)
    return np.where(np.isnan(apart), np.inf, apart)


LOCAL_KIND = {"local": refuse_without_method("label_points", "a way to cluster a client", "LocalKMeans()")}


class LocalStart:
    """What starts by local centroids share: how a client finds its own."""

    def __post_init__(self) -> None:
        check_fields(self, LOCAL_KIND)


# --------------------------------------------------------------------------------------------------
# Agglomeration of local clusters, no two of one client into one group.


@dataclass(frozen=True)
class Constrained(LocalStart):
    """Start that merges the two nearest groups without a client in common until k are left.

    Parameters
    ----------
    local
        How a client clusters its own points; every local cluster begins as a group.

    Notes
    -----
    If no two groups can be merged before k are left, the k groups with most rows stay, and others join the
    nearest of these.  The start is right where a client's local clusters belong to different global clusters,
    also if the client has fewer than k.
    """

    local: Local = field(default=LocalKMeans(), metadata=LOCAL)

    def group_centroids(self, found: Centroids, k: int) -> MatchedGroups:
        check_enough(found, k)
        count = len(found.values)
        labels, alive = np.arange(count), np.ones(count, bool)
        centers = found.values.copy()
        has = np.zeros((count, len(found.clients)), bool)
        has[np.arange(count), found.owner] = True

        def near(g: int) -> Array:
            row: Array = to_groups(found, centers[g][None], centers)[0]
            row[~alive | (has & has[g]).any(axis=1)] = np.inf
            row[g] = np.inf
            return row

        apart = np.where(np.isnan(found.apart), np.inf, found.apart)
        apart[found.owner[:, None] == found.owner] = np.inf
        while alive.sum() > k:
            a, b = np.unravel_index(int(apart.argmin()), apart.shape)
            if not np.isfinite(apart[a, b]):
                break
            labels[labels == b], alive[b] = a, False
            has[a] |= has[b]
            centers[a] = found.merged(np.flatnonzero(labels == a))
            apart[b], apart[:, b] = np.inf, np.inf
            apart[a] = apart[:, a] = near(int(a))
        return MatchedGroups(*keep_k_groups(found, labels, centers, np.flatnonzero(alive), k))


def keep_k_groups(
    found: Centroids, labels: Array, centers: Array, groups: Array, k: int
) -> tuple[Array, tuple[str, ...]]:
    """Labels in [-1, k) by the k groups of most rows; others join the nearest of these, and words about them.

    labels (N,): numbers of groups.  centers: by number.  Ties to the lowest number.
    """
    rows = np.bincount(labels[labels >= 0], found.weights[labels >= 0], minlength=len(found.values))[groups]
    best = np.sort(groups[np.argsort(-rows, kind="stable")[:k]])
    place = np.full(len(found.values), -1)
    place[best] = range(len(best))
    said: tuple[str, ...] = ()
    rest = [g for g in groups.tolist() if place[g] < 0]
    if rest:
        near = to_groups(found, centers[rest], centers[best])
        place[rest] = np.where(np.isfinite(near.min(axis=1)), near.argmin(axis=1), -1)
        said = (f"{len(rest)} groups of local clusters were left over, and joined the nearest of {k}",)
    result = np.where(labels < 0, -1, place[labels])
    return result, said + leftover_sentence(found, result, "they have no feature in common with any")


# --------------------------------------------------------------------------------------------------
# Method B: the farthest local centroids, then k-means of centroids (Maritan and Schenato, section 4.1.2).


@dataclass(frozen=True)
class MaxMin(LocalStart):
    """Start from the two farthest centroids, followed by k - 2 more, each farthest from its nearest.

    Parameters
    ----------
    local
        How a client clusters its own points.
    max_iter
        Maximum number of steps of the k-means of centroids.

    Notes
    -----
    `MaxMin` is meant for clients that all share features (Assumption 2).  Distances on different overlaps are
    rescaled (eq. 3), but are not comparable enough: the two farthest centroids often belong to one cluster
    (see the measurements).  An empty group keeps its last centroid.
    """

    local: Local = field(default=LocalKMeans(), metadata=LOCAL)
    max_iter: int = 100

    def __post_init__(self) -> None:
        check_fields(self, {**LOCAL_KIND, "max_iter": NATURAL})

    def group_centroids(self, found: Centroids, k: int) -> MatchedGroups:
        check_enough(found, k)
        apart = np.where(np.isnan(found.apart), -1.0, found.apart)
        first = list(divmod(int(apart.argmax()), len(apart)))
        if first[0] == first[1]:
            first = [0, 1]  # all are equal, or have nothing in common
        centers = found.values[farthest_first(found, first[:k], k)]
        labels, _ = cluster_centroids(found, centers, self.max_iter)
        return MatchedGroups(
            labels, leftover_sentence(found, labels, "they have no feature in common with any")
        )


def cluster_centroids(found: Centroids, centers: Array, max_iter: int) -> tuple[Array, float]:
    """K-means of local centroids from centers (k, d): the group of each, (N,), and their squared distances.

    Eq. 5, of rescaled distances on common features.  An empty group keeps its last centroid.
    """
    k, labels = len(centers), np.full(len(found.values), -1)
    for _ in range(max_iter):
        apart = to_groups(found, found.values, centers)
        new = np.where(np.isfinite(apart.min(axis=1)), apart.argmin(axis=1), -1)
        if (new == labels).all():
            break
        labels = new
        centers = np.stack(
            [found.merged(own) if len(own := np.flatnonzero(labels == h)) else centers[h] for h in range(k)]
        )
    near = to_groups(found, found.values, centers).min(axis=1)
    return labels, float((near[np.isfinite(near)] ** 2).sum())


# --------------------------------------------------------------------------------------------------
# Method A: the nearest local centroid joins, one after another (Maritan and Schenato, section 4.1.2).


@dataclass(frozen=True)
class NearestMerge(LocalStart):
    """Start with the client of most local clusters, into whose groups the nearest centroids are merged.

    Parameters
    ----------
    local
        How a client clusters its own points.

    Notes
    -----
    The nearest pair of a group and a centroid is merged repeatedly, but never two centroids of one client
    into one group.  `NearestMerge` is meant for clusters with equal distributions at all clients (Assumption
    1). Two lines of the paper's algorithm are corrected: line 6 stops at 0, and line 18 reads the merged
    group.  If no client has k clusters, the farthest centroids are added; `Constrained` is better there.
    """

    local: Local = field(default=LocalKMeans(), metadata=LOCAL)

    def group_centroids(self, found: Centroids, k: int) -> MatchedGroups:
        check_enough(found, k)
        # The first in the order of names wins ties.
        seeds = farthest_first(found, found.of(int(found.counts.argmax())).tolist()[:k], k)
        labels = np.full(len(found.values), -1)
        labels[seeds] = range(k)
        taken = np.zeros((len(found.clients), k), bool)
        taken[found.owner[seeds], labels[seeds]] = True
        apart = to_groups(found, found.values, found.values[seeds])
        while (labels < 0).any():
            open_ = (labels < 0)[:, None] & ~taken[found.owner]
            near = np.where(open_, apart, np.inf)
            z, g = np.unravel_index(int(near.argmin()), near.shape)
            if not np.isfinite(near[z, g]):
                break
            labels[z] = g
            taken[found.owner[z], g] = True
            center = found.merged(np.flatnonzero(labels == g))
            apart[:, g] = to_groups(found, found.values, center[None])[:, 0]
        why = "each has no feature in common with a cluster that holds none of its client's yet"
        return MatchedGroups(labels, leftover_sentence(found, labels, why))


# --------------------------------------------------------------------------------------------------
# Clients matched one to one by the distances of their local clusters alone: permutation synchronization.
#
# Every two clients that share a feature are matched by the Hungarian method.  These matchings may contradict
# one another; leading eigenvectors of all of them together say what they agree on (Pachauri, Kondor and
# Singh, Solving the multi-way matching problem by permutation synchronization, NeurIPS 2013).

LEAST = 1e-6  # the weight of a matching that is no better than any other, so that it still connects
STEPS = 50  # of matching all clients to groups and averaging these


def spectral(squared: Array, owner: Array, k: int) -> Array:
    """Groups (N,) in [0, k) of local clusters, each group with at most one of a client.

    squared: (N, N) distances, NaN where unknown.  owner: the client of each, (N,) ascending; one client at
    least has k.  A pair of clients weighs 1 - cost / mean cost, so distances of different pairs need no
    common scale.  Groups are numbered as the clusters of the first client that has k of them.
    """
    from scipy.optimize import linear_sum_assignment

    clients = [np.flatnonzero(owner == j) for j in range(int(owner.max()) + 1)]
    agreed = np.zeros(squared.shape)
    for i, own in enumerate(clients):
        for other in clients[i + 1 :]:
            block = squared[np.ix_(own, other)]
            if np.isnan(block).any():
                continue
            rows, columns = linear_sum_assignment(block)
            mean = float(block.mean()) * len(rows)
            weight = max(1 - float(block[rows, columns].sum()) / mean, LEAST) if mean > 0 else LEAST
            agreed[own[rows], other[columns]] = agreed[other[columns], own[rows]] = weight
    degree = np.sqrt(np.maximum(agreed.sum(axis=1), LEAST * LEAST))
    _, vectors = np.linalg.eigh(agreed / degree[:, None] / degree[None] + np.eye(len(owner)))
    rows = vectors[:, -k:]
    rows = rows / np.maximum(np.sqrt((rows**2).sum(axis=1, keepdims=True)), 1e-300)
    whole = [own for own in clients if len(own) == k]
    best, labels = -np.inf, np.full(len(owner), -1)
    for own in whole:
        found = _matched(rows, clients, rows[own])
        groups = np.stack([rows[found == g].sum(axis=0) for g in range(k)])
        # How much the rows of a group point in one direction.
        score = float(np.sqrt((groups**2).sum(axis=1)).sum())
        if score > best + 1e-9:
            best, labels = score, found
    order = np.empty(k, np.int64)
    order[labels[whole[0]]] = range(k)
    return np.asarray(order[labels])


def _matched(rows: Array, clients: list[Array], groups: Array) -> Array:
    """Every client's rows matched one to one to groups (k, .), which then become their means, and again."""
    from scipy.optimize import linear_sum_assignment

    labels = np.full(len(rows), -1)
    for _ in range(STEPS):
        new = np.full(len(rows), -1)
        for own in clients:
            at, group = linear_sum_assignment(-rows[own] @ groups.T)
            new[own[at]] = group
        if (new == labels).all():
            break
        labels = new
        groups = np.stack([rows[labels == g].mean(axis=0) for g in range(len(groups))])
    return labels


# --------------------------------------------------------------------------------------------------
# Clients matched one to one: local clusters of a client are of different global ones, so whole clients are
# matched.
#
# Both ways, the tree and `spectral`, compare distances only on what one client shares with others, so nothing
# must be rescaled.

FAR = 1e3  # in place of a distance that is not known: rescaled ones are about 1 at most


@dataclass(frozen=True)
class Synchronized(LocalStart):
    """Start that matches local clusters along the tree of largest overlap.

    Parameters
    ----------
    local
        How a client clusters its own points; some client must have k local clusters (`Constrained` needs
        none).
    over
        "centroids"; or "distances", where the server sees no centroid and no number of rows, but squared
        distances between local centroids of different clients on the features that both observe.  Members of
        the committee, at least 2 t + 1, compute them over shares; all pairs of clients are matched, and the
        start follows from what these matchings agree on (`spectral`).

    Raises
    ------
    InputError
        For another word.

    Notes
    -----
    The start begins at the client with most local clusters (ties by name).  The next client is always the one
    that shares most features with those placed; its local clusters are matched one to one to the groups so
    far by the Hungarian method, and merged into them.
    """

    local: Local = field(default=LocalKMeans(), metadata=LOCAL)
    over: Literal["centroids", "distances"] = "centroids"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.over not in ("centroids", "distances"):
            raise InputError(
                f"over={self.over!r}: clients are matched by what the server sees, 'centroids' or 'distances'"
            )

    def group_centroids(self, found: Any, k: int) -> MatchedGroups:
        check_enough(found, k)
        check_some_client(found, k)
        if self.over == "distances":
            return MatchedGroups(spectral(found.squared, found.owner, k))
        return along_the_tree(found, k)


def along_the_tree(found: Centroids, k: int) -> MatchedGroups:
    """Clients one after another, matched to those before."""
    from scipy.optimize import linear_sum_assignment

    first = int(found.counts.argmax())
    labels = np.full(len(found.values), -1)
    labels[found.of(first)] = range(k)
    centers = found.values[found.of(first)].copy()
    placed, seen = {first}, found.mask[first].copy()
    while len(placed) < len(found.clients):
        overlap = [-1 if j in placed else int((own & seen).sum()) for j, own in enumerate(found.mask)]
        client = int(np.argmax(overlap))
        if overlap[client] <= 0:
            break
        own = found.of(client)
        apart = np.minimum(to_groups(found, found.values[own], centers), FAR)
        rows, groups = linear_sum_assignment(apart)
        labels[own[rows]] = groups
        for g in groups:
            centers[g] = found.merged(np.flatnonzero(labels == g))
        placed.add(client)
        seen |= found.mask[client]
    why = "their client shares no feature with any that was placed, or has more than k"
    return MatchedGroups(labels, leftover_sentence(found, labels, why))


def check_some_client(found: Any, k: int) -> None:
    """Raises InputError if no client has k local clusters, so that none could be matched to all others."""
    if found.counts.max() < k:
        raise InputError(
            f"no client has k={k} local clusters (the most is {found.counts.max()}), so clients cannot be "
            "matched one to one: use Constrained(), which merges what clients have, or let clients look for "
            "more."
        )


# --------------------------------------------------------------------------------------------------
# The start that fits: by how many local clusters clients have, or by the paper's rule.


@dataclass(frozen=True)
class Automatic(LocalStart):
    """Start by `Synchronized` where every client has k local clusters, else by `Constrained`.

    Parameters
    ----------
    paper
        Whether Algorithm 1, lines 5 to 11, decides instead: `NearestMerge` under Assumption 1, `MaxMin` under
        Assumption 2, and otherwise `MaxMin` with a warning.
    identical
        Whether a cluster has equal distributions at all clients that have it (Assumption 1.3), which data of
        one client cannot tell.
    local
        How a client clusters its own points.

    Notes
    -----
    The features decide two of the assumptions: whether clients are connected, and whether all pairs share a
    feature.
    """

    paper: bool = False
    identical: bool = True
    local: Local = field(default=LocalKMeans(), metadata=LOCAL)

    def group_centroids(self, found: Centroids, k: int) -> MatchedGroups:
        check_enough(found, k)
        start, said = self.chosen(found, k)
        made = start.group_centroids(found, k)
        return replace(
            made, said=(f"local clusters were matched by {type(start).__name__}", *said, *made.said)
        )

    def chosen(self, found: Centroids, k: int) -> tuple[MatchingStart, tuple[str, ...]]:
        """The start for these centroids, and words about it."""
        if not self.paper:
            return (Synchronized() if (found.counts == k).all() else Constrained()), ()
        shared = (found.mask[:, None] & found.mask[None]).any(axis=2)
        # Clients that nothing connects are refused before any data move.
        if self.identical:
            return NearestMerge(), ()
        if shared.all():
            return MaxMin(), ()
        sentence = "case not supported, defaulting to Method B (MaxMin): some clients share no feature, and "
        sentence += "clusters are said to differ between clients"
        warnings.warn(
            f"{sentence}. Automatic() without the paper's rule is made for this.", Caution, stacklevel=2
        )
        return MaxMin(), (sentence,)


# --------------------------------------------------------------------------------------------------
# The words for starts, as the shell spells them.

MatchingWord = Literal[
    "automatic", "paper", "synchronized", "synchronized-distances", "constrained", "nearest-merge", "max-min"
]  # fmt: skip
WORDS = get_args(MatchingWord)


def parse_matching_start(word: str) -> MatchingStart:
    """The start that a word stands for, as the shell spells it, with its defaults.  Raises InputError."""
    plain = word.strip().lower().replace("_", "-").replace(" ", "-")
    if plain not in WORDS:
        raise InputError(
            f"start={word!r} is unknown: use one of the words {', '.join(map(repr, WORDS))}, or a value such "
            "as Automatic()"
        )
    return matching_start_named(plain, LocalKMeans())


def matching_start_named(word: str, local: Local) -> MatchingStart:
    """The start of this name, as the shell spells it.  Raises KeyError."""
    if word == "paper":
        return Automatic(paper=True, local=local)
    if word == "synchronized-distances":
        return Synchronized(local=local, over="distances")
    kinds = {
        "automatic": Automatic,
        "synchronized": Synchronized,
        "constrained": Constrained,
        "nearest-merge": NearestMerge,
        "max-min": MaxMin,
    }
    made: MatchingStart = kinds[word](local=local)
    return made
