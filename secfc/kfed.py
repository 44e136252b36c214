"""k-FED: one-shot federated clustering.  Pure steps; not private.

Dennis, Li and Smith, Heterogeneity for the Win: One-Shot Federated Clustering, ICML 2021,
Algorithm 2: each client clusters its points into k' local clusters and sends their centers; the
server picks k of all centers that are far from one another, and groups the centers by them.
It is the baseline of SecFC section 5, and works where clients hold few clusters, k' <= sqrt(k).

What the server learns: every client's local centers, in the clear.  They are means of private
points; the center of a local cluster of one point is that point, and a client with at most k'
distinct points sends all of them.  The clients learn what the server sends back, the merged centers
or labels.  There is no noise and no secure aggregation.

Deviation from the paper: its clients run Lloyd's heuristic with the start of Awasthi and Sheffet;
here they run scikit-learn's KMeans on all local points, k-means++ with 10 restarts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from secfc.inputs import Array, InputError, Rows, as_rows, checked_points, positive, read, seeded


def local_centers(points: npt.ArrayLike | Rows, k_local: int, rng_seed: int) -> tuple[Array, Array]:
    """What a client sends: centers (k', d) float64, and the points of each, (k',) int64.

    k' is k_local, or the number of distinct points if that is smaller; then the distinct points are
    the centers, in lexicographic order.  Points are distinct if any feature differs at all.  Every
    center is the mean of its points, in data units; every count is 1 or more; counts sum to m_j.
    All points are read into memory.  Run by the client; the same seed gives the same result.
    """
    rows = checked_points(as_rows(points), "the client")
    k_local = positive("k_local", k_local)
    whole = read(rows, "the client").astype(np.float64)
    if _distinct(whole, at_least=k_local + 1) <= k_local:
        return np.unique(whole, axis=0, return_counts=True)
    labels = _kmeans_labels(whole, k_local, int(seeded(rng_seed).integers(2**32)))
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
    k = positive("k", k)
    sent = _checked_centers(centers, k)
    stacked = np.concatenate(sent)
    bounds = np.cumsum([0, *map(len, sent)])
    start = int(seeded(seed).integers(len(sent)))
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
        sent.append(read(rows, f"client number {j}").astype(np.float64))
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
