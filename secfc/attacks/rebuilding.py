"""Single rows, rebuilt exactly: from steps of a run, two runs, clusters of one, or messages in the clear.

Every attack takes what a coalition knows (a `View`'s reading, its `Output`), and public facts; it ends with
`Rows`, which `judging.found` holds against the truth.  What stops each stands in `REMEDIES`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secfc.attacks.moves import Sums, moves, nested
from secfc.attacks.views import Output

Array = NDArray[Any]

# How close two floating-point centers of the same points are, relative to their size.
SAME = 1e-9

REMEDIES = {
    "step differences": "sums that nobody opens: SecFC computes on shares, and opens none on the way",
    "run differences": "centers stay closed (the default), or open them with noise, or not for every update",
    "clusters of one": "a smallest cluster whose center may be opened (smallest_center, at least 10)",
    "messages of each site": "SecFC, or sums that are added in secret, with noise (FedDPKMeans)",
}


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """Guesses at single rows.

    values (g, d): in data units, NaN where nothing is guessed.  guess (d,): what is guessed of any row by who
    saw none of this, the mean of the data as far as it is public.  how: the attack's name in `REMEDIES`.
    """

    values: Array
    guess: Array
    how: str

    def __repr__(self) -> str:
        return f"Rows({self.how}: {len(self.values)}, secret)"


def step_differences(
    known: Sums, unit: float, *, low: Array | None = None, high: Array | None = None
) -> Rows:
    """Rows from exact sums of a run's steps.

    unit: integer steps a data unit.  low, high: the public range of every feature (s,), in data units; with
    it rows are found that differ between any two steps, and without only those that move alone.
    """
    d = known.sums.shape[2]
    if known.counts.shape[2] == 1 and low is not None and high is not None:
        found = nested(known, np.floor(low * unit), np.ceil(high * unit))
    else:
        found = moves(known)
    values = np.full((len(found), d), np.nan)
    for row, move in zip(values, found, strict=True):
        row[move.features] = move.values / unit
    return Rows(distinct(values), _mean(known, unit), "step differences")


def site_differences(
    sites: Iterable[Sums], unit: float, *, low: Array | None = None, high: Array | None = None
) -> Rows:
    """Rows from sums that every site sends of its own points, in the clear: steps, and clusters of one.

    Source: the trajectory attack of arXiv 2511.07073 on intermediate centroids of federated k-means.
    """
    sites = list(sites)
    parts = [step_differences(site, unit, low=low, high=high).values for site in sites]
    parts += [site.sums[site.counts[:, :, 0] == 1] / unit for site in sites]
    total = Sums(
        np.sum([site.sums[:1] for site in sites], axis=0),
        np.sum([site.counts[:1] for site in sites], axis=0),
        sites[0].group,
    )
    return Rows(distinct(np.concatenate(parts)), _mean(total, unit), "messages of each site")


def run_differences(one: Output, other: Output) -> Rows:
    """The row that one of two runs has and the other has not, if it changed no other label.

    Raises ValueError where centers or sizes were not opened.
    """
    first, many = _opened(one)
    second, fewer = _opened(other)
    if many.sum() < fewer.sum():
        (first, many), (second, fewer) = (second, fewer), (first, many)
    found = []
    if first.shape == second.shape and many.sum() - fewer.sum() == 1:
        size = np.abs(first).max() + 1e-300
        for h in range(len(first)):
            gaps = np.abs(second - first[h]).max(axis=1) + np.where(fewer == many[h] - 1, 0, np.inf)
            for g in np.flatnonzero(np.isfinite(gaps)):
                # All the others are the same, in whatever order.
                rest, others = np.delete(first, h, axis=0), np.delete(second, g, axis=0)
                close = np.abs(rest[:, None] - others[None]).max(axis=2) <= SAME * size
                alike = close & (np.delete(many, h)[:, None] == np.delete(fewer, g)[None])
                if alike.any(axis=1).all():
                    found.append(many[h] * first[h] - fewer[g] * second[g] * (fewer[g] > 0))
    values = np.array(found) if len(found) == 1 else np.zeros((0, first.shape[1]))
    weights = many / many.sum()
    return Rows(values, weights @ np.nan_to_num(first), "run differences")


def lone(output: Output, held: Array | None = None) -> Rows:
    """Rows that are clusters by themselves; of a cluster of two, the other than one that is held, (p, d).

    Raises ValueError where centers or sizes were not opened.
    """
    centers, sizes = _opened(output)
    found = list(centers[sizes == 1])
    if held is not None and len(held):
        squares = ((held[:, None] - centers[None]) ** 2).sum(axis=2)
        mine = np.where(np.isnan(squares), np.inf, squares).argmin(axis=1)
        for h in np.flatnonzero(sizes == 2):
            if (mine == h).sum() == 1:
                found.append(2 * centers[h] - held[mine == h][0])
    values = np.array(found).reshape(-1, centers.shape[1])
    weights = sizes / max(1, sizes.sum())
    return Rows(values, weights @ np.nan_to_num(centers), "clusters of one")


def distinct(values: Array) -> Array:
    """Each row once, NaN equal to itself."""
    return np.unique(values, axis=0, equal_nan=True) if len(values) else values


def _opened(output: Output) -> tuple[Array, Array]:
    if output.centers is None or output.sizes is None:
        what = "centers" if output.centers is None else "sizes of clusters"
        raise ValueError(f"no {what} were opened: nothing to attack")
    return np.where(output.sizes[:, None] > 0, output.centers, np.nan), np.asarray(output.sizes)


def _mean(known: Sums, unit: float) -> Array:
    """The mean of all rows, which the sums of any step tell."""
    if not len(known.sums):
        return np.zeros(known.sums.shape[2])
    counts = known.counts[0].sum(axis=0)[np.maximum(known.group, 0)]
    return np.asarray(known.sums[0].sum(axis=0) / np.maximum(counts, 1) / unit)
