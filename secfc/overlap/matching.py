"""How clients' local clusters become global ones: the part of a start that exchanges messages.

Squared distances between clients' local centroids on features that both observe, computed over shares.

Every client deals Lagrange shares of its centroids to the committee of the sums.  A member subtracts and
squares its shares: so it has a share, on a polynomial of twice the degree, of the squared distance between
any two centroids of different clients.  Before it tells the server, it adds shares of zeros, uniform among
such polynomials, that each of the two clients dealt it for this distance.

What a coalition sees: t members uniform shares, and how many local clusters each client has.  The server
these distances, in whole steps, and together with t clients nothing else of the others: of two clients, as
long as one is outside of the coalition, its zeros hide all but their distance.

Distances on one common feature are gaps between values, so they give these up to shift and reflection; on
more, positions up to a shift, rotation and reflection, if there are enough of them.  A client that joins the
server knows its own centroids, and so places those of others on the features that it shares with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from field.code.lagrange_code import LagrangeCode
from field.code.masking import deal_blinding
from field.code.reed_solomon import off_polynomial
from field.ring.basis import Basis
from field.secrets.coins import Coins
from secfc.errors import FaultyClient, FaultyServer, InputError, TooFewReplies
from secfc.federated.columns import Columns
from secfc.overlap.local import Affinity, Centroids, Local, find_mean, renumber_labels
from secfc.overlap.messages import CentroidShares, CodedPairDistances, LocalCentroids, LocalGroups
from secfc.overlap.plan import local_seed
from secfc.overlap.starts import MatchedGroups, MatchingStart
from secfc.roles.blame import suspect_parties
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
from secfc.roles.messages import check_residues

ASK = SHARE + 1  # the round in which the server hears of distances, and answers


@dataclass(frozen=True, eq=False, repr=False)
class PairwiseDistances:
    """squared: (N, N) in squared data units, NaN within a client and where two clients share no feature.

    owner: the number of the client of each local cluster among `clients`, which are in the order of their
    names, (N,) ascending.
    """

    squared: Array
    owner: Array
    clients: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Apart(N={len(self.owner)}, clients={len(self.clients)}, secret)"

    def __len__(self) -> int:
        return len(self.owner)

    @cached_property
    def counts(self) -> Array:
        """Local clusters of each client, (n,)."""
        return np.bincount(self.owner, minlength=len(self.clients))

    def of(self, client: int) -> Array:
        """Numbers of the local clusters of a client, ascending."""
        return np.flatnonzero(self.owner == client)


@dataclass(frozen=True, eq=False)
class DistanceMeasure:
    """What is public about it: follows from the plan of a run, with nothing to be compared anew."""

    plan: Any

    @cached_property
    def code(self) -> LagrangeCode:
        """The committee's, with room for distances."""
        largest = self.plan.quantizer.max_int
        # A sum of s squares of differences of numbers in [-largest, largest]; it is not negative.
        basis = Basis.for_bound(len(self.plan.columns.shared) * (2 * largest) ** 2)
        sums = self.plan.sums.code
        return LagrangeCode(basis, sums.n, 1, sums.t)

    @cached_property
    def names(self) -> tuple[PartyId, ...]:
        """Clients in the order of their names."""
        return tuple(self.plan.columns.clients[j] for j in self.plan.columns.by_name)

    @cached_property
    def common(self) -> Mapping[tuple[PartyId, PartyId], tuple[Array, Array]]:
        """Places of shared features among those of each, for every two clients that share some, in order."""
        found = {}
        for i, one in enumerate(self.names):
            for other in self.names[i + 1 :]:
                a, b = (self.plan.columns.mine(c).shared for c in (one, other))
                _, left, right = np.intersect1d(a, b, return_indices=True)
                if len(left):
                    found[one, other] = left, right
        return found

    def pairs(self, client: PartyId) -> tuple[tuple[PartyId, PartyId], ...]:
        """The pairs in which a client is."""
        return tuple(pair for pair in self.common if client in pair)

    @property
    def alone(self) -> int:
        """Pairs of clients that have one feature in common."""
        return sum(len(left) == 1 for left, _ in self.common.values())


# --- pure steps -------------------------------------------------------------------------------------


def deal_centroids(
    measure: DistanceMeasure, me: PartyId, centroids: Array, coins: Coins
) -> list[CentroidShares]:
    """A message a member: shares of centroids (K_i, s_i) in whole steps, and of a zero a distance."""
    code, k = measure.code, measure.plan.k
    coded = code.share(code.basis.reduce(centroids), coins)
    # Nobody knows yet how many clusters others have: zeros for as many as there may be.
    zeros = deal_blinding(code, code.basis.lanes, (len(measure.pairs(me)), k, k), coins)
    return [CentroidShares(*both) for both in zip(coded, zeros, strict=True)]


def measure_distances(measure: DistanceMeasure, held: Mapping[PartyId, CentroidShares]) -> CodedPairDistances:
    """A member's shares of all distances, pair after pair in order, from what all clients dealt it."""
    basis = measure.code.basis
    blocks = [np.empty((basis.lanes, 0), basis.dtype)]
    for pair, on in measure.common.items():
        a, b = (held[c].values[:, :, own] for c, own in zip(pair, on, strict=True))
        negated = basis.negate(b)
        shape = (basis.lanes, a.shape[1], b.shape[1], a.shape[2])
        left, right = np.broadcast_to(a[:, :, None], shape), np.broadcast_to(negated[:, None], shape)
        total = basis.squares(basis.add(np.ascontiguousarray(left), np.ascontiguousarray(right)))
        for client in pair:
            zeros = held[client].zeros[:, measure.pairs(client).index(pair)]
            total = basis.add(total, np.ascontiguousarray(zeros[:, : shape[1], : shape[2]]))
        blocks.append(total.reshape(basis.lanes, -1))
    counts = np.array([held[c].values.shape[1] for c in measure.names], np.int64)
    return CodedPairDistances(np.concatenate(blocks, axis=1), counts)


def reconstruct_distances(
    measure: DistanceMeasure, replies: Mapping[PartyId, Array], counts: Sequence[int]
) -> PairwiseDistances:
    """All distances, from shares of enough members."""
    seats = measure.plan.sums.seats
    values = measure.code.interpolate({seats[c]: share for c, share in replies.items()}, 2)[:, 0]
    steps = measure.code.basis.lift(np.ascontiguousarray(values)).astype(np.float64)
    owner = np.repeat(np.arange(len(counts)), counts)
    squared = np.full((len(owner), len(owner)), np.nan)
    for pair, part in _blocks(measure, counts):
        own, other = (np.flatnonzero(owner == measure.names.index(c)) for c in pair)
        block = steps[part].reshape(len(own), len(other)) / measure.plan.unit**2
        squared[np.ix_(own, other)], squared[np.ix_(other, own)] = block, block.T
    return PairwiseDistances(squared, owner, measure.names)


def _blocks(
    measure: DistanceMeasure, counts: Sequence[int]
) -> Iterator[tuple[tuple[PartyId, PartyId], slice]]:
    """Where the distances of every pair stand."""
    many, start = dict(zip(measure.names, counts, strict=True)), 0
    for pair in measure.common:
        end = start + many[pair[0]] * many[pair[1]]
        yield pair, slice(start, end)
        start = end


# --- role fragments ---------------------------------------------------------------------------------


def share_centroids(plan: Any, me: PartyId, means: Array, weights: Array, coins: Coins) -> Role[LocalGroups]:
    """A client's part: deal shares of its centroids (K_i, s_i), in integer steps, and help to measure.

    weights, the rows of each, are told nobody.
    """
    measure, members = DistanceMeasure(plan), plan.sums.committee
    shares = dict(
        zip(members, deal_centroids(measure, me, np.rint(means).astype(np.int64), coins), strict=True)
    )
    others = tuple(c for c in plan.clients if c != me) if me in shares else ()
    send = {c: share for c, share in shares.items() if c != me}
    inbox = yield Exchange(send, others, round=SHARE, phase="cluster")
    reply = {}
    if me in shares:
        held = {me: shares[me], **expect_all(expect_messages(inbox, CentroidShares), others)}
        for sender, message in held.items():
            check_dealt(measure, sender, message)
        reply = {SERVER: measure_distances(measure, held)}
    inbox = yield Exchange(reply, (SERVER,), round=ASK, phase="cluster")
    told: LocalGroups = expect_one(expect_messages(inbox, LocalGroups), SERVER)
    return told


def check_dealt(measure: DistanceMeasure, sender: PartyId, message: CentroidShares) -> None:
    """Raises FaultyClient for shares of other features, or of more local clusters than there may be."""
    plan, basis, count = measure.plan, measure.code.basis, message.values.shape[1]
    if not 1 <= count <= plan.k:
        raise FaultyClient(sender, f"dealt {count} local centroids of k={plan.k}")
    check_residues(basis, sender, message.values, (count, len(plan.columns.mine(sender).shared)))
    check_residues(basis, sender, message.zeros, (len(measure.pairs(sender)), plan.k, plan.k))


def receive_distances(plan: Any) -> Role[PairwiseDistances]:
    """The server's part: all distances, of which all members that are there tell shares.

    Of w shares w - 2 t - 1 false ones are noticed.

    Raises TooFewReplies; SuspectedParties if members count different local clusters, or tell shares on no
    polynomial.
    """
    measure, needed = DistanceMeasure(plan), DistanceMeasure(plan).code.threshold(2)
    committee = plan.sums.committee
    arrived = yield Exchange({}, committee, 0, round=ASK, phase="receive")
    inbox = expect_messages(arrived, CodedPairDistances)
    if len(inbox) < needed:
        raise TooFewReplies(needed, tuple(inbox))
    counts = next(iter(inbox.values())).counts
    if any(not np.array_equal(message.counts, counts) for message in inbox.values()):
        raise suspect_parties(
            "CodedPairDistances", "they count different local clusters of the same clients", tellers=inbox
        )
    if counts.shape != (len(plan.clients),) or counts.max() > plan.k:
        raise FaultyClient(
            next(iter(inbox)), f"counts local clusters of {len(counts)} clients, up to {counts.max()}"
        )
    length = sum(part.stop - part.start for _, part in _blocks(measure, counts.tolist()))
    for sender, message in inbox.items():
        check_residues(measure.code.basis, sender, message.values, (length,))
    seats = {plan.sums.seats[c]: message.values for c, message in inbox.items()}
    numbers = tuple(sorted(seats))
    if off_polynomial(measure.code, np.stack([seats[j] for j in numbers], axis=1), numbers, 2).any():
        why = "shares of distances lie on no polynomial: told falsely, or dealt falsely by a client"
        raise suspect_parties("CodedPairDistances", why, tellers=inbox, dealers=plan.clients)
    return reconstruct_distances(
        measure, {c: message.values for c, message in inbox.items()}, counts.tolist()
    )


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
    measure = DistanceMeasure(plan)
    alone = f"; {measure.alone} pairs share one, where these are gaps between values" * bool(measure.alone)
    return (
        "how many local clusters every client has, and the squared distance between any two of different "
        f"clients on the features that both observe, of {len(measure.common)} pairs of clients{alone}: no "
        "centroid, but enough of them fix centroids up to shift, rotation and reflection"
    )


WAYS = {
    "centroids": MatchingView(tell_means, hear_means, SHARE, leakage_of_means),
    "distances": MatchingView(
        share_centroids,
        receive_distances,
        ASK,
        leakage_of_distances,
    ),
}


def matching_view(start: MatchingStart) -> MatchingView:
    """What the server sees for a start: the means, unless it says otherwise (`over`)."""
    return WAYS[getattr(start, "over", "centroids")]


def match_at_client(
    plan: Any,
    start: MatchingStart,
    me: PartyId,
    points: Array,
    coins: Coins,
    center: Callable[[Array], Array] = find_mean,
) -> Role[Array]:
    """A client's part: cluster my points (m_j, d_j), tell of the clusters, hear what became of them: (m_j,)
    int32.

    center: what stands for a cluster's points (m_a, d_j), a row (d_j,).
    """
    labels = find_local_clusters(plan, start.local, me, points, coins)
    count = int(labels.max()) + 1
    inside = plan.columns.mine(me).inside
    means = np.stack([center(points[labels == a]) for a in range(count)])[:, inside]
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
        """Clients that have points of each cluster, in the order of names."""
        return [
            tuple(self.found.clients[j] for j in np.unique(self.found.owner[self.groups.labels == h]))
            for h in range(k)
        ]


def match_at_server(plan: Any, start: MatchingStart, affinity: Affinity = "euclidean") -> Role[Matched]:
    """The server's part: hear of all local clusters, group them, tell every client what became of its own.

    affinity: how centroids are compared; distances come by themselves.
    """
    way = matching_view(start)
    found = yield from way.hear(plan)
    if affinity != "euclidean":
        found = replace(found, affinity=affinity)
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
