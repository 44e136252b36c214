"""k-FED: one-shot federated clustering by local centers.  Not private."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from field.secrets.coins import Coins
from secfc.algorithm import Capabilities, Clustering, PartyOutcome, PublicFacts, join_outcomes
from secfc.attacks.views import View
from secfc.data.federation import Federation
from secfc.data.inputs import (
    WHOLE,
    Array,
    Rows,
    as_rows,
    check_fields,
    checked_points,
    positive_integer,
    read_all,
    require_library,
    seeded_generator,
)
from secfc.data.party import Party
from secfc.errors import FaultyClient, FaultyServer, InputError
from secfc.kmeans.centers import CentersModel, nearest_center
from secfc.kmeans.elbow import CostCurve, Elbow, largest_k, monotone_costs, parse_k
from secfc.roles.agreement import agree_with_server
from secfc.roles.description import LOCAL, DescribedPlan, RunTerms
from secfc.roles.exchange import (
    ITERATE,
    SERVER,
    SHARE,
    Exchange,
    PartyId,
    Role,
    SimulatedRun,
    expect_all,
    expect_messages,
    expect_one,
)
from secfc.roles.messages import Message, check_centers, check_labels, is_array, refuse_if
from secfc.run_summary import RunSummary


class LocalCenters(Message, tag=11):
    """Client to server in k-FED: local centers (k', d) in data units, in the clear."""

    centers: Array

    def __post_init__(self) -> None:
        check_centers(self.centers, "local centers")


class CenterLabels(Message, tag=12):
    """Server to client in k-FED: the cluster of each of its centers (k',), and all centers (k, d)."""

    labels: Array
    centers: Array

    def __post_init__(self) -> None:
        check_centers(self.centers, "merged centers")
        check_labels(self.labels, len(self.centers), "the clusters of local centers", lowest=0)


class PointLabels(Message, tag=13):
    """Client to server in k-FED: the cluster of each of its points (m_j,), for the common result."""

    labels: Array

    def __post_init__(self) -> None:
        refuse_if(not is_array(self.labels, "i", 1), "labels are a vector of signed integers")
        refuse_if(bool((self.labels < 0).any()), "labels of points are not negative")


def local_centers(points: npt.ArrayLike | Rows, k_local: int, rng_seed: int) -> tuple[Array, Array]:
    """What a client sends: centers (k', d) float64, and the points of each, (k',) int64.

    k' is k_local, or the number of distinct points if that is smaller; then the distinct points are
    the centers, in lexicographic order.  Points are distinct if any feature differs at all.  Every
    center is the mean of its points, in data units; every count is 1 or more; counts sum to m_j.
    All points are read into memory.  Run by the client; the same seed gives the same result.
    """
    rows = checked_points(as_rows(points), "the client")
    k_local = positive_integer("k_local", k_local)
    whole = read_all(rows, "the client").astype(np.float64)
    if _distinct(whole, at_least=k_local + 1) <= k_local:
        return np.unique(whole, axis=0, return_counts=True)
    labels = _kmeans_labels(whole, k_local, int(seeded_generator(rng_seed).integers(2**32)))
    # scikit-learn may stop within its tolerance of a mean, and may leave a cluster empty when
    # points differ by less than rounding: the labels decide, not its centers.
    used = np.unique(labels)
    centers = np.stack([whole[labels == h].mean(axis=0) for h in used])
    return centers, np.bincount(labels)[used]


def merge_centers(centers: Sequence[npt.ArrayLike], k: int, seed: int) -> tuple[Array, list[Array]]:
    """What the server makes of all clients' centers: (k, d) float64 centers, and labels.

    centers[j] is (k'_j, d), from client j, k'_j <= k.  The second result has one (k'_j,) int64
    array a client: the merged cluster, 0 to k - 1, of each of its local clusters, and so of each of
    its points.  A merged center is the unweighted mean of its local centers; no cluster is empty.

    The start is the centers of one client drawn by the seed (the paper: any client), then again and
    again the center farthest from those picked; ties go to the first in client order.  One round of
    Lloyd's heuristic follows.  Run by the server; the same seed gives the same result.

    Raises InputError when a client sends more than k centers, or fewer than k differ in total.
    """
    k = positive_integer("k", k)
    sent = _checked_centers(centers, k)
    stacked = np.concatenate(sent)
    bounds = np.cumsum([0, *map(len, sent)])
    start = int(seeded_generator(seed).integers(len(sent)))
    picked: list[int] = []
    # Squared distance from every center to the closest picked one; a repeated center has 0.
    closest = np.full(len(stacked), np.inf)
    queue = list(range(bounds[start], bounds[start + 1]))
    while len(picked) < k:
        candidate = queue.pop(0) if queue else int(closest.argmax())
        if closest[candidate] > 0:
            picked.append(candidate)
            closest = np.minimum(closest, _squared(stacked, stacked[candidate]))
        elif not queue and closest.max() == 0:
            raise InputError(
                f"k={k} clusters cannot be made of {len(picked)} distinct local centers: at least "
                "k are needed. Lower k, raise k_local, or add clients."
            )
    # Every picked center is at distance 0 from itself and from no other, so no cluster is empty.
    labels = np.stack([_squared(stacked, stacked[p]) for p in picked]).argmin(axis=0)
    merged = np.stack([stacked[labels == h].mean(axis=0) for h in range(k)])
    return merged, np.split(labels, bounds[1:-1])


def choose_k(centers: Sequence[Array], elbow: Elbow, seed: int) -> CostCurve:
    """The costs of clustering all clients' centers, each counted once as in `merge_centers`: a choice of k.

    It is not below the number of centers of any client, which belong to different clusters.
    """
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    stacked = np.concatenate(centers)
    distinct = len(np.unique(stacked, axis=0))
    costs = [0.0] * largest_k(elbow)
    with threadpool_limits(limits=1):
        for k in range(1, min(distinct - 1, len(costs)) + 1):
            costs[k - 1] = KMeans(k, n_init=10, random_state=seed).fit(stacked).inertia_
    return CostCurve(monotone_costs(costs), max(elbow.least, *map(len, centers)))


def _kmeans_labels(points: Array, k: int, random_state: int) -> Array:
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    # Threads add up partial sums in the order in which they finish; one thread is reproducible.
    with threadpool_limits(limits=1):
        model = KMeans(k, init="k-means++", n_init=10, random_state=random_state).fit(points)
    labels: Array = model.labels_.astype(np.int64)
    return labels


def _distinct(points: Array, at_least: int) -> int:
    """Number of distinct rows, exactly; the count may stop early once it has reached at_least."""
    # Sorting all rows is slow, and a few rows nearly always suffice.
    take = 4 * at_least
    while True:
        found = len(np.unique(points[:take], axis=0))
        if found >= at_least or take >= len(points):
            return found
        take *= 4


def _squared(points: Array, center: Array) -> Array:
    """Squared distance of each of the points (m, d) to a center (d,): (m,)."""
    distances: Array = ((points - center) ** 2).sum(axis=1)
    return distances


def _checked_centers(centers: Sequence[npt.ArrayLike], k: int) -> list[Array]:
    sent: list[Array] = []
    for j, item in enumerate(centers):
        rows = checked_points(as_rows(item), f"client number {j}")
        sent.append(read_all(rows, f"client number {j}").astype(np.float64))
        if len(sent[j]) > k:
            raise InputError(
                f"client number {j} sent {len(sent[j])} local centers for k={k}: at most k are "
                "allowed. Lower k_local, or raise k."
            )
        if sent[j].shape[1] != sent[0].shape[1]:
            raise InputError(
                f"client number {j} sent centers of {sent[j].shape[1]} features and client number "
                f"0 of {sent[0].shape[1]}: all must have the same. Select the common features."
            )
    if not sent:
        raise InputError("there are no local centers: at least one client is needed. Add a client.")
    return sent


def local_clusters(view: View) -> dict[PartyId, tuple[Array, Array]]:
    """What the server has of every client: its local centers (k', d), and points of each (k',).

    Clients say the merged clusters of their points, so local clusters that were merged share theirs evenly.
    Raises ValueError for a view that has none.
    """
    received = {e.sender: e.body for e in view.received() if isinstance(e.body, LocalCenters)}
    groups = {e.recipient: e.body for e in view.sent() if isinstance(e.body, CenterLabels)}
    own = {e.sender: e.body for e in view.received() if isinstance(e.body, PointLabels)}
    if not received:
        raise InputError(f"{', '.join(view.parties)} saw no local centers: those are sent to the server only")
    found = {}
    for name, sent in received.items():
        merged = groups[name].labels
        points = np.bincount(own[name].labels, minlength=int(merged.max()) + 1)
        found[name] = (sent.centers, points[merged] / np.bincount(merged)[merged])
    return found


@dataclass(frozen=True)
class OneShotPlan(DescribedPlan):
    """Public parameters; `seed` makes the clients' local clustering reproducible."""

    clients: tuple[PartyId, ...]
    k: int | Elbow
    k_local: int
    seed: int
    counts: tuple[int, ...]
    d: int
    terms: RunTerms | None = field(default=None, compare=False, repr=False, metadata=LOCAL)


def default_local_clusters(k: int | Elbow) -> int:
    """Clusters within a client: k, as it may hold rows of each.  k-FED's guarantee is for up to sqrt(k).

    Where k is to be chosen, which is not below this, the least that it may be, but 2.
    """
    return max(2, k.least) if isinstance(k, Elbow) else k


@dataclass(frozen=True)
class KFed:
    """k-FED: one round of local clusters, merged at the server.

    Parameters
    ----------
    k
        Number of clusters; an `Elbow`, "auto" or "2..12" chooses it by the costs of merging local centers,
        from k_local on.
    k_local
        Clusters that each client looks for in its own points, from 1 to k; a client with fewer distinct
        points looks for fewer.  None for k (`default_local_clusters`).
    seed
        Seed of local starts, at least 0.

    Warnings
    --------
    Not private: the server receives local means of private points.

    References
    ----------
    Dennis, Li and Smith, Heterogeneity for the Win: One-Shot Federated Clustering, ICML 2021.
    """

    k: int | Elbow
    k_local: int = None  # type: ignore[assignment]  # a number from the moment it is made
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", parse_k(self.k))
        if self.k_local is None:
            object.__setattr__(self, "k_local", default_local_clusters(self.k))
        check_fields(self, {"k_local": WHOLE, "seed": WHOLE})
        if self.seed < 0:
            raise InputError(f"seed={self.seed}: seeds are not negative. Pass an integer of at least 0")

    @property
    def capabilities(self) -> Capabilities:
        """What reports say of it."""
        return Capabilities(account=self.account)

    def plan(self, public: PublicFacts) -> OneShotPlan:
        """Raises ValueError if k clusters cannot come of it, InputError without the extra `estimators`."""
        require_library("KFed", "estimators")
        k = self.k
        if isinstance(k, Elbow):
            k = k.among(min(public.m, len(public.clients) * self.k_local), "points or local centers")
        if not 1 <= self.k_local <= largest_k(k):
            raise InputError(f"it must lie in [1, k={largest_k(k)}]", parameters={"k_local": self.k_local})
        if largest_k(k) > public.m:
            raise InputError(f"k={k} clusters of m={public.m} points: lower k or add points")
        terms = RunTerms(self, public)
        return OneShotPlan(public.clients, k, self.k_local, self.seed, public.counts, public.d, terms)

    def client(self, plan: OneShotPlan, party: Party, *, coins: Coins) -> Role[tuple[Array, Array]]:
        """Cluster my points, send the centers, label my points by what became of my centers."""
        yield from agree_with_server(plan, party.name)
        points = party.read().astype(np.float64)
        number = plan.clients.index(party.name)
        centers, _ = local_centers(points, plan.k_local, plan.seed * len(plan.clients) + number)
        mine = nearest_center(points, centers)
        inbox = yield Exchange({SERVER: LocalCenters(centers)}, (SERVER,), round=SHARE, phase="cluster")
        merged = expect_one(expect_messages(inbox, CenterLabels), SERVER)
        count, d = merged.centers.shape
        fits = count == plan.k if isinstance(plan.k, int) else 1 <= count <= largest_k(plan.k)
        if merged.labels.shape != (len(centers),) or not fits or d != plan.d:
            raise FaultyServer(SERVER, f"merged other than {len(centers)} local centers into k={plan.k}")
        labels: Array = merged.labels[mine].astype(np.int32)
        yield Exchange({SERVER: PointLabels(labels)}, round=ITERATE, phase="label")
        return labels, merged.centers

    def server(
        self, plan: OneShotPlan, *, rng: np.random.Generator, coins: Coins
    ) -> Role[tuple[Array, CostCurve | None]]:
        """Group the local centers, tell every client what became of its own."""
        yield from agree_with_server(plan, SERVER)
        arrived = yield Exchange({}, plan.clients, round=SHARE, phase="receive")
        inbox = expect_all(expect_messages(arrived, LocalCenters), plan.clients)
        for sender, message in inbox.items():
            rows, d = message.centers.shape
            if not 1 <= rows <= plan.k_local or d != plan.d:
                raise FaultyClient(sender, f"sent {rows} local centers of {d} features")
        seed = int(rng.integers(2**31))
        sent, curve, k = [inbox[c].centers for c in plan.clients], None, plan.k
        if isinstance(k, Elbow):
            curve = choose_k(sent, k, seed)
            k = curve.k
        centers, groups = merge_centers(sent, k, seed)
        answers = {
            c: CenterLabels(group.astype(np.int32), centers)
            for c, group in zip(plan.clients, groups, strict=True)
        }
        arrived = yield Exchange(answers, plan.clients, round=SHARE, accept=ITERATE, phase="merge")
        for sender, own in expect_messages(arrived, PointLabels).items():
            count = plan.counts[plan.clients.index(sender)]
            if len(own.labels) != count or int(own.labels.max()) >= k:
                raise FaultyClient(sender, f"labeled other points than its {count}, or beyond k={k}")
        return centers, curve

    def outcome(self, plan: OneShotPlan, party: PartyId, returned: Any) -> PartyOutcome:
        """Labels of a client's points; of the server all centers.  No party knows the cost."""
        if party != SERVER:
            labels, centers = returned
            return PartyOutcome(party, plan, labels=labels, centers=centers, learned=("the merged centers",))
        centers, curve = returned
        return PartyOutcome(
            party,
            plan,
            centers=centers,
            curve=curve,
            n_iter=1,
            converged=True,
            learned=("every client's local centers in the clear", "all labels"),
        )

    def account(self, result: Clustering, federation: Federation, *, ids: str | None = None) -> RunSummary:
        """What reports say of a run."""
        title = "k-FED: one-shot federated clustering, not private"
        task = (f"{self.k_local} local clusters a client",)
        return RunSummary("k-fed", title, {"k_local": self.k_local}, task=task)

    def collect(
        self, outcomes: Mapping[PartyId, PartyOutcome], run: SimulatedRun, counts: tuple[int, ...]
    ) -> Clustering:
        """The clustering; its cost is not known to any party, see `metrics.cost`."""
        centers, _ = run.results[SERVER]
        return join_outcomes(outcomes, run, counts, k=len(centers), model=CentersModel(centers))
