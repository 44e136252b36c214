"""What clusters are: of each the points, and of each feature mean, deviation, median, and how far from all.

Whoever has the rows computes it without a protocol: a holder of its own rows, an experiment of all.  Means of
clusters over all holders are their centers, so a profile of all rows is for those alone who may see them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from secfc.data.inputs import Array
from secfc.errors import Caution, InputError

FEW = 10  # points, from which on a cluster within one site is told
MANY = 10  # different values of a column, from which on one that fills a cluster is told


@dataclass(frozen=True, eq=False, repr=False)
class ClusterProfile:
    """What k clusters of points with d features are, from the rows that whoever asks has.

    Parameters
    ----------
    names
        Of the features; those of categories, as "sex=f", have shares for means.
    sizes
        Points of each cluster, (k,).
    means, deviations, medians
        Of each cluster and feature, (k, d), in data units; NaN without a value.  Deviations are of the
        population.
    mean, deviation
        Of all labeled points, (d,).
    silhouettes
        Of each cluster, (k,), simplified: means of (b - a) / max(a, b), a and b the distances of a point
        from the mean of its own cluster and the nearest other one, every feature in its deviations; NaN of an
        empty one.
    cost
        Squared distances of points from the means of their clusters, summed, in squared data units.
    """

    names: tuple[str, ...]
    sizes: Array
    means: Array
    deviations: Array
    medians: Array
    mean: Array
    deviation: Array
    silhouettes: Array
    cost: float

    def __repr__(self) -> str:
        return f"ClusterProfile(k={len(self.sizes)}, d={len(self.names)}, m={int(self.sizes.sum())})"

    @property
    def k(self) -> int:
        """Clusters."""
        return len(self.sizes)

    @property
    def differences(self) -> Array:
        """Means less the mean of all, in deviations of all points, (k, d); 0 where nothing differs."""
        apart = self.means - self.mean
        return np.where(self.deviation > 0, apart / np.where(self.deviation > 0, self.deviation, 1.0), 0.0)

    def is_share(self, feature: int) -> bool:
        """Whether a feature is a category, so that its means are shares."""
        return "=" in self.names[feature]

    def telling(self, cluster: int, most: int = 3) -> tuple[tuple[str, float], ...]:
        """The features that tell a cluster apart most, and by how many deviations; half a one at least."""
        found = np.nan_to_num(self.differences[cluster])
        order = sorted(range(len(self.names)), key=lambda f: -abs(found[f]))
        return tuple((self.names[f], float(found[f])) for f in order[:most] if abs(found[f]) >= 0.5)

    def as_object(self) -> dict[str, Any]:
        """For programs."""
        return {
            "features": list(self.names),
            "sizes": self.sizes.tolist(),
            "silhouettes": self.silhouettes.tolist(),
            "cost": self.cost,
            "all": {"mean": self.mean.tolist(), "deviation": self.deviation.tolist()},
            "clusters": [
                {
                    "mean": self.means[h].tolist(), "deviation": self.deviations[h].tolist(),
                    "median": self.medians[h].tolist(), "difference": self.differences[h].tolist(),
                }
                for h in range(self.k)
            ],
        }  # fmt: skip


def profile_clusters(
    points: Array, labels: Array, k: int, names: Sequence[str] | None = None
) -> ClusterProfile:
    """What clusters of points (m, d) with labels (m,) are; -1 is none, and NaN is missing.

    Raises InputError for labels of other points.
    """
    values, labels = np.asarray(points, np.float64), np.asarray(labels)
    if values.ndim != 2 or labels.shape != values.shape[:1] or (labels.size and int(labels.max()) >= k):
        raise InputError(
            f"labels of shape {labels.shape} for points of shape {values.shape} in k={k} clusters: one label "
            "below k is needed a point. Give the data of the labels."
        )
    there = labels >= 0
    values, labels = values[there], labels[there]
    d = values.shape[1]
    known = tuple(map(str, names)) if names is not None else tuple(f"feature {i}" for i in range(d))
    parts = [values[labels == h] for h in range(k)]
    means, deviations, medians = (
        np.array([[figure(column) for column in part.T] for part in parts]).reshape(k, d)
        for figure in (_mean, _deviation, _median)
    )
    mean = np.array([_mean(column) for column in values.T])
    deviation = np.array([_deviation(column) for column in values.T])
    cost = sum(float(np.nansum((part - means[h]) ** 2)) for h, part in enumerate(parts) if len(part))
    sizes = np.array([len(part) for part in parts])
    silhouettes = _silhouettes(parts, means, deviation)
    return ClusterProfile(known, sizes, means, deviations, medians, mean, deviation, silhouettes, cost)


def _mean(column: Array) -> float:
    there = column[~np.isnan(column)]
    return float(there.mean()) if len(there) else math.nan


def _deviation(column: Array) -> float:
    there = column[~np.isnan(column)]
    return float(there.std()) if len(there) else math.nan


def _median(column: Array) -> float:
    there = column[~np.isnan(column)]
    return float(np.median(there)) if len(there) else math.nan


def _silhouettes(parts: Sequence[Array], means: Array, deviation: Array) -> Array:
    """Simplified silhouettes (k,); what is missing counts for nothing."""
    used, found = deviation > 0, np.full(len(parts), np.nan)
    filled = [h for h, part in enumerate(parts) if len(part)]
    if len(filled) < 2:
        return found
    for h in filled:
        scaled = parts[h][:, None, used] - means[None, filled][..., used]
        apart = np.sqrt(np.nansum((scaled / deviation[used]) ** 2, axis=2))
        own = apart[:, filled.index(h)].copy()
        apart[:, filled.index(h)] = np.inf
        other = apart.min(axis=1)
        largest = np.maximum(own, other)
        found[h] = float(np.divide(other - own, largest, out=np.zeros_like(own), where=largest > 0).mean())
    return found


# --------------------------------------------------------------------------------------------------
# What whoever has the rows should know of clusters: cautions that show no value.


def cluster_cautions(
    points: Mapping[str, Array],
    labels: Mapping[str, Array],
    k: int,
    converged: bool,
    names: Sequence[str] | None,
) -> tuple[Caution, ...]:
    """Cautions about clusters of sites' points (m_j, d), by name, with labels (m_j,)."""
    found = list[Caution]()
    whole, flat = np.concatenate(list(points.values())), np.concatenate(list(labels.values()))
    sizes = np.bincount(flat[flat >= 0], minlength=k)
    if 0 < (filled := int((sizes > 0).sum())) < k:
        found.append(
            Caution(
                f"of k={k} clusters {filled} have points",
                [("k", filled, "ask for as many"), ("n_init", 10, "try other starts")],
            )
        )
    if not converged:
        found.append(
            Caution(
                "the run stopped at its last iteration before labels stayed as they were",
                [("max_iter", ..., "allow more")],
            )
        )
    found += _of_one_value(np.asarray(whole, np.float64), flat, k, names)
    found += _within_one_site(labels, sizes)
    return tuple(found)


def _of_one_value(whole: Array, flat: Array, k: int, names: Sequence[str] | None) -> Iterator[Caution]:
    """Clusters that are all rows of one value of a column that has many."""
    for f in range(whole.shape[1]):
        column = whole[:, f]
        if len(np.unique(column[~np.isnan(column)])) <= MANY:
            continue
        for h in range(k):
            own = column[flat == h]
            if len(own) > 2 and (own == own[0]).all() and (flat[column == own[0]] == h).all():
                which = f"feature {f}" if names is None else f"column {names[f]!r}"
                yield Caution(
                    f"cluster {h} is all rows of one value of {which}, which others have none alike: does "
                    "this value stand for nothing",
                    [("absent", ..., "say so"), ("exclude", ..., "leave the column out")],
                )


def _within_one_site(labels: Mapping[str, Array], sizes: Array) -> Iterator[Caution]:
    """Clusters that lie within one of several sites."""
    if len(labels) < 2:
        return
    for h in np.flatnonzero(sizes >= FEW).tolist():
        holders = [name for name, own in labels.items() if (own == h).any()]
        if len(holders) == 1:
            yield Caution(
                f"cluster {h} lies within one site, {holders[0]!r}: people may differ, or measurements"
            )
