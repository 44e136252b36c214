"""Algorithm 2 of Maritan and Schenato: local clusters as distributions, merged once by attraction.  Not
private.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from field.secrets.coins import Coins
from secfc.algorithm import Capabilities, Clustering, PartyOutcome, PublicFacts
from secfc.data.federation import Federation
from secfc.data.inputs import REAL, check_fields, positive_integer
from secfc.data.party import Party
from secfc.errors import FaultyServer, InputError
from secfc.federated.model import FloatLabeler
from secfc.overlap import attraction
from secfc.overlap.local import Centroids, Local, LocalKMeans, Silhouette, renumber_labels
from secfc.overlap.matching import find_local_clusters, gather_centroids
from secfc.overlap.messages import LocalGaussians, LocalGroups
from secfc.overlap.overlap1 import OverlapResult, means_of
from secfc.overlap.plan import OpenPlan, complete_clustering, scatter_features
from secfc.overlap.starts import check_enough, leftover_sentence
from secfc.roles.agreement import agree_with_server
from secfc.roles.description import LOCAL
from secfc.roles.exchange import (
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
from secfc.run_summary import RunSummary

# --------------------------------------------------------------------------------------------------
# What a client tells of its local clusters beside their means, and points that are drawn from it (section
# 5.2).

Array = NDArray[Any]


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
class Overlap2:
    """One-shot agglomeration of local clusters by attraction.

    Parameters
    ----------
    k
        Clusters, or None for as many as the silhouette of local clusters says, up to `most`.
    proxies
        "gaussian" or "diagonal", whose points the server draws; or "moments", forces in closed form, which
        draws none and needs no covariance.
    points
        Points drawn a cluster.
    w
        The exponent of forces.
    apart
        Whether no two clusters of one client are merged, which is right as long as no client splits a
        cluster.
    boxes
        Whether clients send the least and largest values of each cluster, which are values of single rows, to
        keep drawn points inside.
    most
        The most clusters where k is None.
    local
        How clients find their clusters, by default k each, or as many as the silhouette of their own points
        says.

    Notes
    -----
    The server sees what describes every client's clusters, on features that others observe too.
    """

    k: int | None
    proxies: Proxies = "moments"
    points: int = 100
    w: float = 2.0
    apart: bool = True
    boxes: bool = False
    most: int = 16
    local: Local | None = field(default=None, metadata=LOCAL)

    def __post_init__(self) -> None:
        for name in ("points", "most") if self.k is None else ("k", "points", "most"):
            positive_integer(name, getattr(self, name))
        check_fields(self, {"w": REAL})
        if self.proxies not in get_args(Proxies):
            words = ", ".join(map(repr, get_args(Proxies)))
            raise InputError(f"proxies={self.proxies!r}: it says how clusters are compared, one of {words}")
        if not self.w > 1:
            raise InputError(f"w={self.w}: forces need an exponent above 1. Raise it.")

    @property
    def capabilities(self) -> Capabilities:
        """Clients may observe different features."""
        return Capabilities(partial=True, account=self.account)

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
        return OverlapResult(means_of(points, own, told.k), own)

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
            return attraction.attraction_of_moments(found.values, variances, self.w)
        return attraction.attraction_of_points(proxies, found.owner, self.w, within=not self.apart)

    def merged(self, found: Centroids, force: Array) -> tuple[Array, tuple[str, ...]]:
        """The cluster of each local one (N,), numbered by its first member, and words about it."""
        if self.k is not None:
            check_enough(found, self.k)
        steps = attraction.agglomerate(force, found.owner, apart=self.apart)
        least = len(np.unique(steps[-1]))
        said: tuple[str, ...] = ()
        if self.k is not None:
            if least > self.k:
                labels = attraction.keep_largest(force, steps[-1], found.weights, self.k)
                stuck = f"{least - self.k} sets of local clusters were left over, and joined what attracts "
                "them most"
                return labels, (stuck, *leftover_sentence(found, labels, "they share no feature with any"))
            chosen = steps[len(found.values) - self.k]
        else:
            open_ = [labels for labels in steps if 2 <= len(np.unique(labels)) <= self.most] or [
                attraction.keep_largest(force, steps[-1], found.weights, self.most)
            ]
            chosen = max(open_, key=lambda labels: attraction.silhouette(force, labels, self.w))
            said = (f"k={len(np.unique(chosen))} has the largest silhouette of local clusters",)
        return renumber_labels(chosen), said

    def outcome(self, plan: OpenPlan, party: PartyId, returned: OverlapResult) -> PartyOutcome:
        """Labels of a client's points, and means of its own; the server's centers on shared features."""
        columns = plan.columns
        if party != SERVER:
            features = columns.mine(party).features
            return PartyOutcome(
                party,
                plan,
                labels=returned.labels,
                centers=scatter_features(columns, returned.centers, features),
                learned=("which of its own clusters are of one cluster",),
                share=returned.centers,
            )
        what = {"gaussian": "covariances", "diagonal": "variances", "moments": "variances"}[self.proxies]
        boxes = ", the least and largest values of each" if self.boxes else ""
        return PartyOutcome(
            SERVER,
            plan,
            centers=scatter_features(columns, returned.centers, columns.shared),
            n_iter=1,
            converged=True,
            learned=(
                f"every client's local centroids, {what}{boxes} and rows of each, on the "
                f"{len(columns.shared)} features that others observe too: whose they are is known",
                *returned.said,
            ),
            share=returned.centers,
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
            },
            setup=tuple(("Features", sentence) for sentence in result.plan.columns.sentences()),
        )

    def collect(
        self, outcomes: Mapping[PartyId, PartyOutcome], run: SimulatedRun, counts: tuple[int, ...]
    ) -> Clustering:
        """The clustering; its cost is not known to any party, see `metrics.observed_cost`."""
        labelers = {name: FloatLabeler(outcome.share) for name, outcome in outcomes.items()}
        return complete_clustering(outcomes, run, counts, k=len(outcomes[SERVER].share), labelers=labelers)
