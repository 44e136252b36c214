"""Single rows, rebuilt exactly: from steps of a run, two runs, clusters of one, or messages in the clear.

Every attack takes what a coalition knows (a `View`'s reading, its `PublicOutput`), and public facts; it ends
with `RowGuesses`, which `judging.judge_rows` holds against the truth.  What stops each stands in `REMEDIES`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from field.arrays import Array
from secfc.attacks.views import PublicOutput
from secfc.errors import InputError

# --------------------------------------------------------------------------------------------------
# Rows from exact sums of successive steps: where one moves between two clusters, it is the change.
#
# Sums of k clusters are opened at every step, with numbers of points.  If between two steps one cluster has a
# point more, another one less, and what the first gained the other lost, then one row most likely moved, and
# the gain is that row.  Rows that move in a circle can feign it.  Where features are observed by few clients,
# a sum over these is of fewer rows, so more often one moves alone.
#
# More follows from any two steps, however far apart (`nested_differences`): a cluster that has one point more
# in one than in the other, and otherwise the same, gives that point as the difference.  Whether it is
# otherwise the same can be checked: the difference must lie within the range of the data, and be nearest to
# that cluster's center in the one step and to another's in the other, by centers that the sums tell.  So
# several times as many rows are found as those that move alone, and hardly a false one (the page has
# figures).


@dataclass(frozen=True, eq=False, repr=False)
class KnownSums:
    """What somebody knows of sums in all steps, in integers.

    sums: (T, k, s) by feature.  counts: (T, k, p), by groups of features that the same clients observe.
    group: that of each feature (s,), -1 for one of which nothing is known.  centers: (T, k, s) that points
    were labeled by after each step, NaN where none is, if these are not the means of what the sums are of.
    """

    sums: Array
    counts: Array
    group: Array
    centers: Array | None = None

    def __repr__(self) -> str:
        return f"Sums(steps={len(self.sums)}, features={self.sums.shape[2]}, secret)"


@dataclass(frozen=True, eq=False, repr=False)
class RowGuess:
    """A guess: a row with these values on these features is in cluster `after` at this step, and was in
    `before` a step earlier, None if only some other one is known, in some other step.
    """

    step: int
    group: int
    features: Array
    values: Array
    before: int | None
    after: int

    def __repr__(self) -> str:
        return f"Move(step={self.step}, features={len(self.features)}, secret)"


def single_row_moves(known: KnownSums) -> list[RowGuess]:
    """All rows that seem to have moved alone, by step and group."""
    found = []
    for group in range(known.counts.shape[2]):
        features = np.flatnonzero(known.group == group)
        if not len(features):
            continue
        gained = np.diff(known.sums[:, :, features], axis=0)
        more = np.diff(known.counts[:, :, group], axis=0)
        for step, (values, change) in enumerate(zip(gained, more, strict=True), start=1):
            for after in np.flatnonzero(change == 1).tolist():
                for before in np.flatnonzero(change == -1).tolist():
                    if (values[after] == -values[before]).all():
                        found.append(RowGuess(step, group, features, values[after], before, after))
    return found


def nested_differences(known: KnownSums, low: Array, high: Array) -> list[RowGuess]:
    """Rows that one cluster has in one step and not in another, its others being the same; each once.

    low, high: between which all values lie, (s,) integers: public.  Only where one group has all features, as
    else the centers that a row was compared with are not known.  O(T**2 k s) for T steps.
    """
    if not len(known.sums) or known.counts.shape[2] != 1 or (known.group != 0).any():
        return []
    sums, counts = known.sums, known.counts[:, :, 0]
    features = np.arange(sums.shape[2])
    there = counts > 0
    centers = known.centers
    if centers is None:
        centers = np.full(sums.shape, np.nan)
        np.divide(sums, counts[:, :, None], out=centers, where=there[:, :, None])

    def consistent(row: Array, step: int, cluster: int, inside: bool) -> bool:
        """Whether the centers that the labels of a step were made by put the row into the cluster, or not."""
        if step == 0 or np.isnan(centers[step - 1]).all():
            return True  # labels of the start were made by nothing that is known
        return bool((int(np.nanargmin(((centers[step - 1] - row) ** 2).sum(axis=1))) == cluster) == inside)

    found: dict[bytes, RowGuess] = {}
    for other in range(len(sums)):
        steps, clusters = np.nonzero((counts - counts[other] == 1) & (counts[other] >= 0))
        rows = sums[steps, clusters] - sums[other, clusters]
        fits = ((rows >= low) & (rows <= high)).all(axis=1)
        for step, cluster, row in zip(steps[fits].tolist(), clusters[fits].tolist(), rows[fits], strict=True):
            if consistent(row, step, cluster, True) and consistent(row, other, cluster, False):
                found.setdefault(row.tobytes(), RowGuess(step, 0, features, row, None, cluster))
    return list(found.values())


# --------------------------------------------------------------------------------------------------

# How close two floating-point centers of the same points are, relative to their size.
SAME = 1e-9

REMEDIES = {
    "step differences": "sums that nobody opens: SecFC computes on shares, and opens none on the way",
    "run differences": "centers stay closed (the default), or open them with noise, or not for every update",
    "clusters of one": "a smallest cluster whose center may be opened (smallest_center, at least 10)",
    "messages of each site": "SecFC, or sums that are added in secret, with noise (FedDPKMeans)",
}


@dataclass(frozen=True, eq=False, repr=False)
class RowGuesses:
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
    known: KnownSums, unit: float, *, low: Array | None = None, high: Array | None = None
) -> RowGuesses:
    """Rows from exact sums of a run's steps.

    unit: integer steps a data unit.  low, high: the public range of every feature (s,), in data units; with
    it rows are found that differ between any two steps, and without only those that move alone.
    """
    d = known.sums.shape[2]
    if known.counts.shape[2] == 1 and low is not None and high is not None:
        found = nested_differences(known, np.floor(low * unit), np.ceil(high * unit))
    else:
        found = single_row_moves(known)
    values = np.full((len(found), d), np.nan)
    for row, move in zip(values, found, strict=True):
        row[move.features] = move.values / unit
    return RowGuesses(distinct_rows(values), _mean(known, unit), "step differences")


def site_differences(
    sites: Iterable[KnownSums], unit: float, *, low: Array | None = None, high: Array | None = None
) -> RowGuesses:
    """Rows from sums that every site sends of its own points, in the clear: steps, and clusters of one.

    Source: the trajectory attack of arXiv 2511.07073 on intermediate centroids of federated k-means.
    """
    sites = list(sites)
    parts = [step_differences(site, unit, low=low, high=high).values for site in sites]
    parts += [site.sums[site.counts[:, :, 0] == 1] / unit for site in sites]
    total = KnownSums(
        np.sum([site.sums[:1] for site in sites], axis=0),
        np.sum([site.counts[:1] for site in sites], axis=0),
        sites[0].group,
    )
    return RowGuesses(distinct_rows(np.concatenate(parts)), _mean(total, unit), "messages of each site")


def run_differences(one: PublicOutput, other: PublicOutput) -> RowGuesses:
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
    return RowGuesses(values, weights @ np.nan_to_num(first), "run differences")


def singleton_rows(output: PublicOutput, held: Array | None = None) -> RowGuesses:
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
    return RowGuesses(values, weights @ np.nan_to_num(centers), "clusters of one")


def distinct_rows(values: Array) -> Array:
    """Each row once, NaN equal to itself."""
    return np.unique(values, axis=0, equal_nan=True) if len(values) else values


def _opened(output: PublicOutput) -> tuple[Array, Array]:
    if output.centers is None or output.sizes is None:
        what = "centers" if output.centers is None else "sizes of clusters"
        raise InputError(f"no {what} were opened: nothing to attack")
    return np.where(output.sizes[:, None] > 0, output.centers, np.nan), np.asarray(output.sizes)


def _mean(known: KnownSums, unit: float) -> Array:
    """The mean of all rows, which the sums of any step tell."""
    if not len(known.sums):
        return np.zeros(known.sums.shape[2])
    counts = known.counts[0].sum(axis=0)[np.maximum(known.group, 0)]
    return np.asarray(known.sums[0].sum(axis=0) / np.maximum(counts, 1) / unit)


# --------------------------------------------------------------------------------------------------
# What sites tell where they add up k-means in the clear: the messages that secure sums replace.
#
# As federated examples of other frameworks do it: in every step each site tells the sum (or center) and
# number of its points in each cluster, and the coordinator adds.  Only a control for attacks: it must fall.


def site_messages(parts: Sequence[Array], k: int, *, seed: int, max_iter: int = 300) -> list[KnownSums]:
    """What every site tells, in integers: parts are its points (m_j, d), integers; until no label changes.

    The start is k random points.
    """
    points = np.concatenate(parts).astype(np.int64)
    ends = np.cumsum([len(part) for part in parts])[:-1]
    rng = np.random.default_rng(seed)
    means = points[rng.choice(len(points), k, replace=False)].astype(np.float64)
    before, told = None, []
    for _ in range(max_iter + 1):
        squares = (means**2).sum(axis=1) - 2 * points @ means.T
        labels = squares.argmin(axis=1)
        member = labels[:, None] == np.arange(k)
        told.append(
            [(own.T @ rows, own.sum(axis=0)) for own, rows in zip(
                np.split(member.astype(np.int64), ends), np.split(points, ends), strict=True)]
        )  # fmt: skip
        if before is not None and (labels == before).all():
            break
        sums = sum(sums for sums, _ in told[-1])
        counts = sum(counts for _, counts in told[-1])
        means = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], means)
        before = labels
    group = np.zeros(points.shape[1], np.int64)
    totals = np.stack([sum(sums for sums, _ in step) for step in told]).astype(np.float64)
    many = np.stack([sum(counts for _, counts in step) for step in told])[:, :, None]
    centers = np.divide(totals, many, out=np.full(totals.shape, np.nan), where=many > 0)
    return [
        KnownSums(
            np.stack([step[j][0] for step in told]),
            np.stack([step[j][1] for step in told])[:, :, None],
            group,
            centers,
        )
        for j in range(len(parts))
    ]
