"""Clustering on partly shared features: Maritan and Schenato's Tables 1 to 5, beside ours.

    python -m benchmarks.overlap --data FOLDER --out overlap.jsonl
    python -m benchmarks.plot_overlap overlap.jsonl --out overlap.png

FOLDER holds har561_recomputed.npz, qmnist_037_writers.npz and dimsets.npz.  Splits and their rules are those
of `benchmarks.splits`; the paper's rule is unknown, so no figure is tuned towards it.

E1, which is E4 of Algorithm 2, is the share of local clusters whose global one is that of their class.  E3 is
how far centers are from those of the classes over observed values (eq. 1), relative to their norms, and their
cosines.
Accuracies are in percent.  Beside them: k-means on complete data; the ceiling of the mask, which is nearest
true centroid on observed coordinates; Lloyd with missing features started from the truth; and what must fail:
random starts, k-means on data whose gaps are filled with means, and Algorithm 2 with forces averaged over
pairs that cannot be compared.

Rows that exact sums tell the server (`secfc.attacks.reconstruction`): how many guesses there are, how many
are a row of a client that observes these features, and how many different rows; for comparison, how many
centers of the step before are.  A step: what all parties say and compute in one, in one process.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import click
import numpy as np

import secfc
from benchmarks.common import Row, require, run_grid, show
from benchmarks.splits import RULES, Problem, load, problem
from secfc.attacks.reconstruction import single_row_moves
from secfc.attacks.views import View
from secfc.federated.views import others_sums
from secfc.metrics import accuracy, observed_cost
from secfc.overlap import overlap2
from secfc.overlap.local import Centroids, LocalKMeans, kmeans, renumber_labels
from secfc.overlap.overlap2 import covariance_factor, draw_gaussian
from secfc.overlap.starts import MatchedGroups, cluster_centroids
from secfc.roles.description import LOCAL
from secfc.roles.exchange import SERVER

Array = Any
PARTS = ("starts", "paper", "distances")
MEASURED = {
    "rows told by sums": ("guesses", "true", "rows", "of", "true by centers"),
    "a step": ("MB", "ms"),
}
STARTS = {
    "Synchronized": secfc.Synchronized,
    "Constrained": secfc.Constrained,
    "NearestMerge (A)": secfc.NearestMerge,
    "MaxMin (B)": secfc.MaxMin,
}
# Accuracy and its deviation, as printed: of Algorithm 1, Algorithm 2, and k-means on complete data.
PAPER = {
    ("har", "A1"): ((99.87, 0.04), (99.87, 0.04), 99.91),
    ("qmnist", "A1"): ((92.16, 1.28), (91.37, 1.35), 93.99),
    ("dim", "A1"): ((100.0, 0.0), (100.0, 0.0), 100.0),
    ("har", "A2"): ((99.94, 0.01), (99.94, 0.0), 99.90),
    ("qmnist", "A2"): ((94.59, 0.46), (94.36, 0.45), 96.66),
    ("dim", "A2"): ((100.0, 0.0), (100.0, 0.0), 100.0),
}
# Table 1: how often distances of a triple keep their order.
TABLE_1 = {("har", "A1"): 0.999, ("har", "A2"): 0.999, ("qmnist", "A1"): 0.948, ("qmnist", "A2"): 0.976,
           ("dim", "A1"): 1.0, ("dim", "A2"): 1.0}  # fmt: skip


@dataclass(frozen=True)
class Told:
    """Local clusters, and for a start the global one of each, that somebody knows beforehand; by client."""

    local_labels: Any = field(metadata=LOCAL)
    global_labels: Any = field(default=None, metadata=LOCAL)

    @property
    def local(self) -> Told:
        return self

    def label_points(self, points: Array, k: int, seed: int, client: str) -> Array:
        return self.local_labels[client]

    def group_centroids(self, found: Any, k: int) -> MatchedGroups:
        return MatchedGroups(np.concatenate([self.global_labels[client] for client in found.clients]))


@cache
def data_of(name: str, folder: Path) -> Any:
    return load(name, folder)


def local_labels(split: Problem, seed: int) -> list[Array]:
    """Each client's own k-means on what it observes, with as many clusters as it has classes."""
    return [
        renumber_labels(kmeans(part[:, seen], len(np.unique(truth)), seed, LocalKMeans().n_init))
        for part, seen, truth in zip(split.parts, split.mask, split.truth, strict=True)
    ]


def majority(local: Array, truth: Array) -> Array:
    """The class of most points of each local cluster."""
    return np.array([np.bincount(truth[local == a]).argmax() for a in range(local.max() + 1)])


def of_each(local: list[Array], labels: list[Array]) -> list[Array]:
    """The label that each local cluster began with."""
    return [
        np.array([own[mine == a][0] for a in range(mine.max() + 1)])
        for mine, own in zip(local, labels, strict=True)
    ]


def e1(local: list[Array], truth: list[Array], groups: list[Array]) -> float:
    """Share of local clusters whose global one is that of the class of most of their points."""
    from scipy.optimize import linear_sum_assignment

    classes = np.concatenate([majority(mine, own) for mine, own in zip(local, truth, strict=True)])
    found = np.concatenate(groups)
    table = np.zeros((classes.max() + 1, max(found.max(), 0) + 1))
    np.add.at(table, (classes[found >= 0], found[found >= 0]), 1)
    return float(table[linear_sum_assignment(-table)].sum() / len(classes))


def masked_means(split: Problem) -> tuple[Array, Array]:
    """The paper's eq. (1): means of classes over clients that observe a feature, and numbers, (k, d) each.

    Printed is the least of one and the number of values below the bar, which makes sums of them; meant is the
    larger, so that a feature that nobody observes is 0.
    """
    sums, counts = np.zeros((2, split.k, split.mask.shape[1]))
    for part, own, seen in zip(split.parts, split.truth, split.mask, strict=True):
        for c in range(split.k):
            sums[c, seen] += part[own == c][:, seen].sum(axis=0)
            counts[c, seen] += (own == c).sum()
    return sums / np.maximum(counts, 1), counts


def ceiling(split: Problem) -> float:
    """Accuracy of the nearest true centroid on observed coordinates."""
    centers, counts = masked_means(split)
    right = 0
    for part, own, seen in zip(split.parts, split.truth, split.mask, strict=True):
        lacking = (counts[:, seen] == 0).any(axis=1)
        apart = ((part[:, None, seen] - centers[None][:, :, seen]) ** 2).sum(axis=2)
        apart[:, lacking] = np.inf
        right += int((apart.argmin(axis=1) == own).sum())
    return right / sum(map(len, split.parts))


def e3(split: Problem, result: Any) -> Row:
    """Relative distances and cosines of matched centers and masked means, as far as centers are known.

    lacking: coordinates of centers that nobody knows.
    """
    from scipy.optimize import linear_sum_assignment

    means, _ = masked_means(split)
    # Columns of a federation are in the order in which clients name them, those of a split by number.
    centers = np.full((result.k, split.mask.shape[1]), np.nan)
    centers[:, [int(name[1:]) for name in result.features]] = result.centers
    seen = ~np.isnan(centers)
    known = np.where(seen, centers, 0.0)
    apart = np.sqrt(((known[:, None] - means[None] * seen[:, None]) ** 2).sum(axis=2))
    norms = np.sqrt(((means[None] * seen[:, None]) ** 2).sum(axis=2))
    relative = apart / np.maximum(norms, 1e-300)
    own, classes = linear_sum_assignment(relative)
    cosine = (known @ means.T) / np.maximum(norms * np.sqrt((known**2).sum(axis=1))[:, None], 1e-300)
    return {
        "E3 distance": float(relative[own, classes].mean()),
        "E3 cosine": float(cosine[own, classes].mean()),
        "lacking": int((~seen).sum()),
    }


def rows_told(split: Problem, result: Any) -> Row:
    """What exact sums of all steps tell the server: guesses, those that are a row, and different rows."""
    plan = result.plan
    columns = plan.columns
    known = others_sums(View.of(result, plan, SERVER))
    parts = [
        plan.quantizer(part[:, seen])[:, columns.mine(client).inside]
        for part, seen, client in zip(split.parts, split.mask, plan.clients, strict=True)
    ]

    def rows_of(features: Array, values: Array) -> set[tuple[int, int]]:
        found = set()
        for j, client in enumerate(plan.clients):
            place = np.searchsorted(columns.mine(client).shared, features)
            if np.isin(features, columns.mine(client).shared).all():
                found |= {(j, int(i)) for i in np.flatnonzero((parts[j][:, place] == values).all(axis=1))}
        return found

    guesses = single_row_moves(known)
    hits = [rows_of(guess.features, guess.values) for guess in guesses]
    # A guess is of one row; equal rows are one, as nobody tells them apart.
    different = {min(hit) for hit in hits if hit}
    means = [
        rows_of(g.features, np.rint(known.sums[g.step - 1, g.after, g.features] / number))
        for g in guesses
        if (number := known.counts[g.step - 1, g.after, g.group])
    ]
    return {
        "guesses": len(guesses), "true": sum(map(bool, hits)), "rows": len(different),
        "of": sum(map(len, split.parts)), "true by centers": sum(map(bool, means)),
    }  # fmt: skip


START = ("CentroidShares", "CodedPairDistances", "LocalGroups")
STEP = ("SumShares", "Contributors", "CodedSum", "SharedTotals")


def step_of(result: Any, times: list[float]) -> Row:
    """Bytes and milliseconds of the processor of one step for all parties."""
    said = sum(e.nbytes for e in result.transcript.envelopes if e.kind in STEP)
    return {
        "MB": said / (result.n_iter + 1) / 1e6,
        "ms": 1e3 * float(np.median(np.diff(times))) if len(times) > 1 else None,
    }


def assumption_8(split: Problem, rng: np.random.Generator, triples: int = 1000) -> float:
    """Equation 14 on random triples: how often a premise that holds on all features holds on shared ones
    too.
    """
    points, truth = np.concatenate(split.parts), np.concatenate(split.truth)
    owner = np.repeat(np.arange(len(split.parts)), list(map(len, split.parts)))
    span = points.max(axis=0) - points.min(axis=0)
    kept = tried = 0
    while tried < triples:
        i, j, k = rng.integers(len(points), size=3)
        if truth[i] != truth[j] or truth[i] == truth[k]:
            continue
        one, other = split.mask[owner[i]] & split.mask[owner[j]], split.mask[owner[i]] & split.mask[owner[k]]
        if not one.any() or not other.any():
            continue
        tried += 1
        whole = [float(((points[i] - points[q]) ** 2).sum()) for q in (j, k)]
        part = [
            float(((points[i] - points[q])[on] ** 2).sum() / max((span[on] ** 2).sum(), 1e-300))
            for q, on in ((j, one), (k, other))
        ]
        # Where the premise does not hold, eq. 14 says nothing, and so holds.
        kept += whole[0] >= whole[1] or part[0] < part[1]
    return kept / triples


def measure(cell: Row, folder: Path) -> Iterator[Row]:
    """One row a method on one split."""
    data = data_of(cell["data"], folder)
    split = problem(cell["data"], cell["split"], cell["rule"], cell["seed"], data)
    federation, k, seed = split.federation(), split.k, cell["seed"]
    truth, names = federation.truth, federation.names

    def named(values: list[Array]) -> dict[str, Array]:
        return dict(zip(names, values, strict=True))

    def fitted(start: Any, **more: Any) -> Any:
        # Pixels are whole; a report would warn of those that seldom vary.
        return secfc.fit(
            secfc.FederatedLloyd(k, start=start, blind=False, coarse="allow"), federation, seed=seed, **more
        )

    local = local_labels(split, seed)
    if cell["part"] == "method B":
        yield from method_b(split, local, seed)
        return
    if cell["part"] == "paper":
        yield from algorithms(split, federation, local, seed)
        return
    if cell["part"] == "distances" and max(own.max() + 1 for own in local) < k:
        yield {"method": "Synchronized, distances", "refused": "no client has all clusters"}
        return
    if cell["part"] == "distances":
        result = fitted(secfc.Synchronized(local=Told(named(local)), over="distances"))
        first = federation.split(result.history[0])
        yield {
            "method": "Synchronized, distances",
            "E1": e1(local, split.truth, of_each(local, first)),
            "accuracy": 100 * accuracy(truth, result.flat),
            "MB": sum(e.nbytes for e in result.transcript.envelopes if e.kind in START) / 1e6,
            **e3(split, result),
        }
        return
    yield {"method": "Assumption 8", "value": assumption_8(split, np.random.default_rng(seed))}
    yield {"method": "ceiling", "accuracy": 100 * ceiling(split)}
    whole = kmeans(np.concatenate(split.parts), k, seed, 10)
    yield {"method": "k-means, complete data", "accuracy": 100 * accuracy(truth, whole)}
    whole_clients = max(own.max() + 1 for own in local) == k
    main = "Synchronized" if whole_clients else "Constrained"
    for name, start in STARTS.items():
        if name == "Synchronized" and not whole_clients:
            yield {"method": name, "refused": "no client has all clusters"}
            continue
        times: list[float] = []

        def watch(party: str, exchange: Any, times: list[float] = times) -> None:
            if exchange.phase == "tell":
                times.append(time.process_time())

        result = fitted(start(local=Told(named(local))), keep_bodies=name == main, watch=watch)
        yield {
            "method": name,
            "E1": e1(local, split.truth, of_each(local, federation.split(result.history[0]))),
            "accuracy": 100 * accuracy(truth, result.flat),
            "steps": result.n_iter,
            **e3(split, result),
        }
        if name == main:
            yield {"method": "rows told by sums", **rows_told(split, result)}
            yield {"method": "a step", **step_of(result, times)}
    own = [renumber_labels(labels) for labels in split.truth]
    told = Told(named(own), named([np.unique(labels) for labels in split.truth]))
    yield {"method": "from the truth", "accuracy": 100 * accuracy(truth, fitted(told).flat)}
    if seed == 0:  # they take many steps
        yield from controls(split, federation, fitted, named, seed)


def linkages() -> Iterator[Row]:
    """Which of three sets a set in their middle is merged with, by how far sets are: the paper's Figure 7.

    Stars are near and in a row that leads away, triangles at one distance, and of the dots one is nearest.
    """
    from scipy.spatial.distance import cdist

    steps = np.arange(12.0)
    crosses = 0.05 * np.column_stack([np.cos(steps), np.sin(steps)])
    sets = {
        "stars": np.column_stack([1 + steps, 0 * steps]), "triangles": crosses + np.array([0, 5]),
        "dots": np.concatenate([[[-0.85, 0]], crosses[1:] + np.array([-9, 0])]),
    }  # fmt: skip
    pairs = {name: cdist(crosses, other) for name, other in sets.items()}
    gaps = {name: other.mean(axis=0) - crosses.mean(axis=0) for name, other in sets.items()}
    inner = {name: ((other - other.mean(axis=0)) ** 2).sum() for name, other in sets.items()}
    joined = {name: np.concatenate([crosses, other]) for name, other in sets.items()}
    far = {
        "nearest points": {name: own.min() for name, own in pairs.items()},
        "mean of the nearest clusters, mean of all": {name: own.mean() for name, own in pairs.items()},
        "median": {name: np.median(own) for name, own in pairs.items()},
        "centroids": {name: np.linalg.norm(gap) for name, gap in gaps.items()},
        "Ward": {name: ((own - own.mean(axis=0)) ** 2).sum() - inner[name] for name, own in joined.items()},
    }
    for w in (2.0, 16.0):
        force = overlap2.attraction_of_points([crosses, *sets.values()], np.arange(4), w)[0, 1:]
        far[f"attraction, w={w:g}"] = dict(zip(sets, -force, strict=True))
    for name, each in far.items():
        yield {"method": name, "merged": min(each, key=lambda one: float(each[one]))}


def method_b(split: Problem, local: list[Array], seed: int) -> Iterator[Row]:
    """E1 of method B's k-means of centroids by where it starts, and of clients that know their classes."""
    true = [renumber_labels(own) for own in split.truth]
    for name, own in (("own local clusters", local), ("true local clusters", true)):
        found = centroids_of(split, own)

        def share(labels: Array, own: list[Array] = own, owner: Array = found.owner) -> float:
            return e1(own, split.truth, [labels[owner == j] for j in range(len(own))])

        yield {"method": f"B, {name}", "E1": share(secfc.MaxMin().group_centroids(found, split.k).labels)}
        rng, count = np.random.default_rng(seed), len(found.owner)
        tries = (found.values[rng.choice(count, split.k, replace=False)] for _ in range(60))
        best = min((cluster_centroids(found, start, 100) for start in tries), key=lambda way: way[1])
        yield {"method": f"B, {name}, the cheapest of 60 starts", "E1": share(best[0])}
        classes = np.concatenate(
            [majority(mine, truth) for mine, truth in zip(own, split.truth, strict=True)]
        )
        groups = np.stack([found.merged(np.flatnonzero(classes == c)) for c in range(split.k)])
        yield {
            "method": f"B, {name}, from the true groups",
            "E1": share(cluster_centroids(found, groups, 100)[0]),
        }


def centroids_of(split: Problem, local: list[Array]) -> Centroids:
    """The centroids of all local clusters."""
    values, weights, owner = [], [], []
    for j, (part, seen, own) in enumerate(zip(split.parts, split.mask, local, strict=True)):
        for a in range(own.max() + 1):
            values.append(np.where(seen, part[own == a].mean(axis=0), np.nan))
            weights.append(float((own == a).sum()))
            owner.append(j)
    names = tuple(f"site-{j:02}" for j in range(len(local)))
    return Centroids(np.array(values), np.array(weights), np.array(owner), names)


def algorithms(split: Problem, federation: Any, local: list[Array], seed: int) -> Iterator[Row]:
    """The paper's own algorithms, and the second one with forces in closed form."""
    told = Told(dict(zip(federation.names, local, strict=True)))
    two = partial(secfc.Overlap2, split.k, local=told)
    ways = {
        "Algorithm 1, A": secfc.Overlap1(split.k, start=secfc.NearestMerge(local=told)),
        "Algorithm 1, B": secfc.Overlap1(split.k, start=secfc.MaxMin(local=told)),
        "Algorithm 2, as printed": two(proxies="gaussian", apart=False),
        "Algorithm 2, one a client": two(proxies="gaussian"),
        "Algorithm 2, moments": two(),
    }
    for name, way in ways.items():
        result = secfc.fit(way, federation, seed=seed)
        row = {"method": name, "accuracy": 100 * accuracy(federation.truth, result.flat)}
        if "2" in name:
            row["E1"] = e1(local, split.truth, of_each(local, result.labels))
        yield row | e3(split, result)
    groups = by_all_pairs(split, local, np.random.default_rng(seed))
    labels = np.concatenate([group[own] for group, own in zip(groups, local, strict=True)])
    yield {
        "method": "Algorithm 2, over all pairs",
        "accuracy": 100 * accuracy(federation.truth, labels),
        "E1": e1(local, split.truth, groups),
    }


def by_all_pairs(
    split: Problem, local: list[Array], rng: np.random.Generator, points: int = 100
) -> list[Array]:
    """Equation 11 as printed: mean forces are divided by all pairs, also by those that cannot be compared."""
    proxies, owner = [], np.repeat(np.arange(len(local)), [own.max() + 1 for own in local])
    for part, seen, own in zip(split.parts, split.mask, local, strict=True):
        for a in range(own.max() + 1):
            rows = part[own == a][:, seen]
            wide = np.full((points, len(seen)), np.nan)
            wide[:, seen] = draw_gaussian(
                rows.mean(axis=0),
                covariance_factor(rows),
                rows.var(axis=0),
                np.empty((0, seen.sum())),
                points,
                rng,
            )
            proxies.append(wide)
    force = np.nan_to_num(overlap2.attraction_of_points(proxies, owner, 2.0))
    labels = renumber_labels(overlap2.agglomerate(force, owner, apart=False)[len(owner) - split.k])
    return [labels[owner == j] for j in range(len(local))]


def controls(split: Problem, federation: Any, fitted: Any, named: Any, seed: int) -> Iterator[Row]:
    """What must fail: random labels, the cheapest of five, and how many of five come near; means for gaps."""
    rng, truth, k = np.random.default_rng(seed), federation.truth, split.k
    points = federation.stacked()
    runs = []
    for _ in range(5):
        labels = [renumber_labels(rng.integers(0, k, len(part))) for part in split.parts]
        result = fitted(Told(named(labels), named([np.arange(own.max() + 1) for own in labels])))
        runs.append((observed_cost(points, result.flat, k), 100 * accuracy(truth, result.flat)))
    yield {"method": "random starts", "accuracy": min(runs)[1], "near": sum(a > 85 for _, a in runs)}
    filled = np.where(np.isnan(points), np.nanmean(points, axis=0), points)
    yield {
        "method": "k-means, means for gaps",
        "accuracy": 100 * accuracy(truth, kmeans(filled, k, seed, 10)),
    }


def summary(rows: list[Row]) -> Iterator[list[str]]:
    """One line a split and method: mean, deviation and minimum, beside the paper's."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        cell = row["cell"]
        groups.setdefault((cell["data"], cell["split"], cell["rule"], row["method"]), []).append(row)
    for (data, split, rule, method), members in groups.items():
        if method == "Assumption 8":
            paper = TABLE_1.get((data, split))
            rate = f"{np.mean([r['value'] for r in members]):.3f}"
            yield [f"{data} {split} {rule}", method, rate, "", "", "",
                   "" if paper is None else f"{paper:.3f}", str(len(members))]  # fmt: skip
            continue
        if method in MEASURED:
            shown = ", ".join(
                f"{np.mean([r[key] for r in members if r[key] is not None]):.4g} {key}"
                for key in MEASURED[method]
            )
            yield [f"{data} {split} {rule}", method, shown, "", "", "", "", str(len(members))]
            continue
        if "refused" in members[0]:
            yield [f"{data} {split} {rule}", method, "refused", "", "", "", "", str(len(members))]
            continue
        values = np.array([r["accuracy"] for r in members])
        first = [r["E1"] for r in members if "E1" in r]
        near = [r["near"] for r in members if "near" in r]
        shown = f"{np.mean(first):.3f} ({min(first):.2f})" if first else f"{sum(near)} near" if near else ""
        far = [(r["E3 distance"], r["E3 cosine"]) for r in members if "E3 distance" in r]
        e3_shown = "{:.3f}, {:.4f}".format(*np.mean(far, axis=0)) if far else ""
        spread = f"{values.mean():.2f} ± {values.std():.2f}"
        yield [
            f"{data} {split} {rule}", method, spread, f"{values.min():.2f}", shown, e3_shown,
            beside(data, split, method), str(len(members)),
        ]  # fmt: skip


def beside(data: str, split: str, method: str) -> str:
    """The paper's figure for the same, if it has one."""
    one, two, whole = PAPER.get((data, split), (None, None, None))
    if one is None or two is None:
        return ""
    if method == "Synchronized" or method.startswith("Algorithm 1"):
        return f"{one[0]:.2f} ± {one[1]:.2f}"
    if method.startswith("Algorithm 2"):
        return f"{two[0]:.2f} ± {two[1]:.2f}"
    return f"{whole:.2f}" if method.startswith("k-means, complete") else ""


def cells(data: tuple[str, ...], rules: tuple[str, ...], parts: tuple[str, ...], runs: int) -> Iterator[Row]:
    for seed, part, name in ((s, p, n) for s in range(runs) for p in parts for n in data):
        more = {"part": part, "seed": seed}
        for split in ("A1", "A2"):
            for rule in rules:
                if rule == "even" and name != "qmnist":
                    continue  # an even grid is of pixels
                if name == "dim" and rule != "ranked":
                    continue  # all features of DIM-128 tell the same
                yield {"data": name, "split": split, "rule": rule, **more}
        if name == "dim":
            yield {"data": name, "split": "circle", "rule": "random", **more}


@click.command(help=__doc__.split("\n")[0])
@click.option(
    "--data", "folder", type=click.Path(exists=True, file_okay=False, path_type=Path), required=True
)
@click.option(
    "--set", "sets", type=click.Choice(["har", "qmnist", "dim"]), multiple=True, help="Only this one."
)
@click.option("--rule", "rules", type=click.Choice(RULES), multiple=True, help="Only this rule of splits.")
@click.option(
    "--part",
    "parts",
    type=click.Choice(PARTS),
    multiple=True,
    help="Starts, the paper's own algorithms, or the start over distances.",
)
@click.option("--runs", default=10, show_default=True, help="Splits of every kind.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Append rows to this file.")
def main(
    folder: Path,
    sets: tuple[str, ...],
    rules: tuple[str, ...],
    parts: tuple[str, ...],
    runs: int,
    out: Path | None,
) -> None:
    """Run the grid and print our figures beside the paper's."""
    require("sklearn", "scikit-learn", "test")
    rows = []
    todo = list(cells(sets or ("har", "qmnist", "dim"), rules or RULES, parts or PARTS, runs))
    with click.progressbar(todo, label="overlap") as bar:
        for row in run_grid(bar, lambda cell: measure(cell, folder), out):
            rows.append(row)
    columns = ["split", "method", "accuracy", "minimum", "E1 (minimum)", "E3", "paper", "runs"]
    show("Accuracy in percent on partly shared features", columns, summary(rows))


if __name__ == "__main__":
    main()
