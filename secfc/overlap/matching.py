"""How clients' local clusters become global ones: the part of a start that exchanges messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.secrets.coins import Coins
from secfc.errors import FaultyClient, FaultyServer, InputError
from secfc.federated.columns import Columns
from secfc.overlap import pairwise_distances
from secfc.overlap.local import Centroids, Local, renumber_labels
from secfc.overlap.messages import LocalCentroids, LocalGroups
from secfc.overlap.plan import local_seed
from secfc.overlap.starts import MatchedGroups, MatchingStart
from secfc.roles.exchange import (
    SERVER,
    SHARE,
    Exchange,
    PartyId,
    Role,
    expect_all,
    expect_messages,
    expect_one,
)

Array = NDArray[Any]


@dataclass(frozen=True)
class MatchingView:
    """What the server sees of local clusters, and how: the parts of a client and of the server, and words.

    tell(plan, me, means (K_i, s_i) in integer steps, weights (K_i,), coins) ends with the server's answer;
    hear(plan) with what a start takes; the server answers in this round.
    """

    tell: Callable[[Any, PartyId, Array, Array, Coins], Role[LocalGroups]]
    hear: Callable[[Any], Role[Any]]
    round: int
    words: Callable[[Any], str]


def tell_means(plan: Any, me: PartyId, means: Array, weights: Array, coins: Coins) -> Role[LocalGroups]:
    """A client's part: send the means, hear what became of them."""
    sent = LocalCentroids(means / plan.unit, weights)
    inbox = yield Exchange({SERVER: sent}, (SERVER,), round=SHARE, phase="cluster")
    told: LocalGroups = expect_one(expect_messages(inbox, LocalGroups), SERVER)
    return told


def hear_means(plan: Any) -> Role[Centroids]:
    """The server's part: all means."""
    arrived = yield Exchange({}, plan.clients, round=SHARE, phase="receive")
    return gather_centroids(
        plan.columns, expect_all(expect_messages(arrived, LocalCentroids), plan.clients), plan.k
    )


def leakage_of_means(plan: Any) -> str:
    """What the server learned."""
    shared = len(plan.columns.shared)
    return (
        f"every client's local centroids on the {shared} features that others observe too, and rows of each: "
        "whose they are is known"
    )


def leakage_of_distances(plan: Any) -> str:
    """What the server learned."""
    measure = pairwise_distances.DistanceMeasure(plan)
    alone = f"; {measure.alone} pairs share one, where these are gaps between values" * bool(measure.alone)
    return (
        "how many local clusters every client has, and the squared distance between any two of different "
        f"clients on the features that both observe, of {len(measure.common)} pairs of clients{alone}: no "
        "centroid, but enough of them fix centroids up to shift, rotation and reflection"
    )


WAYS = {
    "centroids": MatchingView(tell_means, hear_means, SHARE, leakage_of_means),
    "distances": MatchingView(
        pairwise_distances.share_centroids,
        pairwise_distances.receive_distances,
        pairwise_distances.ASK,
        leakage_of_distances,
    ),
}


def matching_view(start: MatchingStart) -> MatchingView:
    """What the server sees for a start: the means, unless it says otherwise (`over`)."""
    return WAYS[getattr(start, "over", "centroids")]


def match_at_client(plan: Any, start: MatchingStart, me: PartyId, points: Array, coins: Coins) -> Role[Array]:
    """A client's part: cluster my points (m_j, d_j), tell of the clusters, hear what became of them: (m_j,)
    int32.
    """
    labels = find_local_clusters(plan, start.local, me, points, coins)
    count = int(labels.max()) + 1
    inside = plan.columns.mine(me).inside
    means = np.stack([points[labels == a].mean(axis=0) for a in range(count)])[:, inside]
    weights = np.bincount(labels[labels >= 0]).astype(np.int64)
    told = yield from matching_view(start).tell(plan, me, means, weights, coins)
    if told.k != plan.k or len(told.labels) != count:
        raise FaultyServer(SERVER, f"grouped other than my {count} local clusters into k={plan.k}")
    return np.append(told.labels, -1)[labels].astype(np.int32)


def find_local_clusters(plan: Any, local: Local, me: PartyId, points: Array, coins: Coins) -> Array:
    """A client's local clusters: labels (m_j,) from 0, none without points; -1 for a point of none.

    Raises InputError for more than k of them, or none.
    """
    seed = local_seed(plan, me)
    seed = int.from_bytes(coins.bytes(4), "little") if seed is None else seed
    labels = renumber_labels(local.label_points(points / plan.unit, plan.k, seed, me))
    count = int(labels.max()) + 1
    if not 1 <= count <= plan.k:
        raise InputError(
            f"client {me!r} has {count} local clusters of k={plan.k}: one to k are needed. Choose another "
            "local clustering for the start (local=)."
        )
    return labels


@dataclass(frozen=True, eq=False, repr=False)
class Matched:
    """What the server has of a start: whose clusters belong together, what it saw, and the words about it."""

    groups: MatchedGroups
    found: Any
    seen: str

    def holders(self, k: int) -> list[tuple[PartyId, ...]]:
        """Of each cluster the clients that have some of it, in the order of names."""
        return [
            tuple(self.found.clients[j] for j in np.unique(self.found.owner[self.groups.labels == h]))
            for h in range(k)
        ]


def match_at_server(plan: Any, start: MatchingStart) -> Role[Matched]:
    """The server's part: hear of all local clusters, group them, tell every client what became of its own."""
    way = matching_view(start)
    found = yield from way.hear(plan)
    groups = start.group_centroids(found, plan.k)
    answers = {
        client: LocalGroups(plan.k, groups.labels[found.of(j)].astype(np.int32))
        for j, client in enumerate(found.clients)
    }
    yield Exchange(answers, round=way.round, phase="match")
    return Matched(groups, found, way.words(plan))


def gather_centroids(columns: Columns, inbox: Any, k: int) -> Centroids:
    """All local centroids, on shared features, clients in the order of their names.  Raises FaultyClient."""
    names = tuple(columns.clients[j] for j in columns.by_name)
    values, owner = [], []
    for j, client in enumerate(names):
        sent, mine = inbox[client].centers, columns.mine(client)
        if sent.shape[1] != len(mine.shared) or not 1 <= len(sent) <= k:
            raise FaultyClient(client, f"sent {len(sent)} local centroids of {sent.shape[1]} features")
        wide = np.full((len(sent), len(columns.shared)), np.nan)
        wide[:, mine.shared] = sent
        values.append(wide)
        owner += [j] * len(sent)
    weights = np.concatenate([inbox[client].weights for client in names]).astype(np.float64)
    return Centroids(np.concatenate(values), weights, np.array(owner), names)


def uncovered_warnings(columns: Columns, holders: list[tuple[PartyId, ...]]) -> tuple[str, ...]:
    """Words about clusters whose holders do not observe all features (Assumption 1.2), by cluster."""
    said = []
    for h, who in enumerate(holders):
        seen = columns.mask[[columns.number(client) for client in who]].any(axis=0)
        if len(lacking := np.flatnonzero(~seen & columns.mask.any(axis=0))):
            some = ", ".join(columns.features[f] for f in lacking[:6]) + (", ..." if len(lacking) > 6 else "")
            said.append(
                f"cluster {h}: nobody that has points of it observes {len(lacking)} of {columns.d} features "
                f"({some})"
            )
    more = len(said) - 6
    return tuple(said) if more <= 0 else (*said[:6], f"{more} more clusters are not seen on all features")
