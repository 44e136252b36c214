"""Private k-means where nobody holds public points: excess cost of FedDP-KMeans with votes, and its rivals.

    python -m benchmarks.dp_alone --out alone.jsonl
    python -m benchmarks.dp_alone --data FOLDER --set birch2 --runs 2

All that is public is a box in which values lie by what they are (pixels have 0 to 16, ages 0 to 100), never
read off the rows: its center and the radius of the ball about it.  Rivals at their best setting: PE-means by
its published rule and settings, of which the number of rows is public; IBM's diffprivlib, if it is installed;
Google's clustering by hashes, as it is, if `learning` of a checkout of google/differential-privacy is on the
path (it is no package), and dp-accounting installed; and one single center, the mean of all rows, as if it
were free.  delta is 1 / m**1.1.

Excess: cost per point above the optimum, over that of one center: 0 is as good as without privacy, 1 is a
single center.  A cell is marked where ours costs more than the best rival and the spread of both.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import click
import numpy as np

import secfc
from benchmarks.common import Row, run_grid, show
from benchmarks.dp import cost_per_point, optimum
from benchmarks.dp_data import numbers
from benchmarks.dp_methods import nearest
from secfc.algorithm import PublicFacts
from secfc.feddp import Cones, ServerNoise, Votes
from secfc.privacy.accountant import gaussian_epsilon

Array = Any
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
CLIENTS = 5


@dataclass(frozen=True)
class Set:
    """make(folder, rng): the rows (m, d).  low, high: of every value, by what values are.  k: clusters."""

    make: Callable[[Path | None, np.random.Generator], Array]
    low: float
    high: float
    k: int
    files: str = ""


def birch2(folder: Path | None, rng: np.random.Generator) -> Array:
    """25,000 rows of it, as others measure."""
    assert folder is not None
    with np.load(folder / "sipu.npz", allow_pickle=False) as file:
        points = file["birch2_X"].astype(np.float64)
    return points[rng.permutation(len(points))[:25_000]]


def census(folder: Path | None, rng: np.random.Generator) -> Array:
    """10,000 federal employees: age, schooling, marriage, hours, sex and income class, in [0, 1]."""
    return numbers(1)(folder, rng).points[:10_000]


def g2(d: int, sigma: float) -> Callable[[Path | None, np.random.Generator], Array]:
    """2048 rows about (500, ..., 500) or (600, ..., 600): the rule of the sets of that name."""

    def make(folder: Path | None, rng: np.random.Generator) -> Array:
        centers = np.where(rng.random((2048, 1)) < 0.5, 500.0, 600.0)
        return np.clip(centers + rng.normal(0, sigma, (2048, d)), 0, 1100)

    return make


def blobs(m: int, d: int, k: int) -> Callable[[Path | None, np.random.Generator], Array]:
    """scikit-learn's blobs, of deviation 1 about centers in a box of 20."""

    def make(folder: Path | None, rng: np.random.Generator) -> Array:
        centers = rng.uniform(-10, 10, (k, d))
        return np.clip(centers[rng.integers(k, size=m)] + rng.normal(size=(m, d)), -15, 15)

    return make


def digits(folder: Path | None, rng: np.random.Generator) -> Array:
    """scikit-learn's."""
    from sklearn.datasets import load_digits

    return load_digits().data


SETS = {
    "birch2": Set(birch2, 0, 1e6, 100, "sipu.npz"),
    "census, numbers": Set(census, 0, 1, 3, "acs_income_2018_states.npz"),
    "g2, d = 16": Set(g2(16, 50.0), 0, 1100, 2),
    "g2, d = 64": Set(g2(64, 50.0), 0, 1100, 2),
    "blobs, d = 4, k = 16": Set(blobs(5000, 4, 16), -15, 15, 16),
    "blobs, d = 16, k = 4": Set(blobs(5000, 16, 4), -15, 15, 4),
    "blobs, d = 16, k = 16": Set(blobs(5000, 16, 16), -15, 15, 16),
    "digits": Set(digits, 0, 16, 10),
}


@dataclass(frozen=True, eq=False)
class Problem:
    """points (m, d) about the center of the public box; radius: of the ball that holds the box."""

    points: Array
    k: int
    half: float
    best: float
    one: float

    @property
    def radius(self) -> float:
        return self.half * math.sqrt(self.points.shape[1])

    @property
    def delta(self) -> float:
        return float(len(self.points) ** -1.1)


@lru_cache(maxsize=2)
def problem(name: str, seed: int, folder: Path | None) -> Problem:
    """The rows of a cell, and what they cost without privacy."""
    chosen = SETS[name]
    points = chosen.make(folder, np.random.default_rng([seed, 7]))
    points = np.asarray(points, np.float64) - (chosen.low + chosen.high) / 2
    _, cost = optimum(np.asarray(points, np.float32), chosen.k, [("k-means++", 10)])
    one = cost_per_point(points, points.mean(axis=0)[None])
    return Problem(points, chosen.k, (chosen.high - chosen.low) / 2, cost, one)


def ours(given: Problem, epsilon: float, seed: int, boxes: int = 0) -> tuple[Array, float]:
    """FedDP-KMeans without points at the server; the number of rows is nobody's to know.

    boxes: how many times a ball about the rows is found first.
    """
    federation = secfc.Federation.from_arrays(np.array_split(given.points, CLIENTS))
    way = secfc.FedDPKMeans(given.k, epsilon, given.delta, bound=given.radius, noise=ServerNoise())
    if boxes:
        start = way.plan(PublicFacts.of(federation, bounded=False)).start
        assert isinstance(start, Votes | Cones)
        way = replace(way, start=replace(start, boxes=boxes))
    result = secfc.fit(way, federation, seed=seed)
    return result.centers, result.ledger.epsilon(given.delta)


# PE-means (Humphries et al.), settings of its published runs: at most so many generations of votes.
STEP, BETA, HALVED, LEAST = 0.01, 1.75, 1.0, 4


def pe_means(given: Problem, epsilon: float, seed: int) -> tuple[Array, float]:
    """Candidates packed in the ball; in each generation all rows vote, votes below a threshold do not count,
    k means of the candidates with votes stay, each with L mutants by a Levy law.

    L = m / (5 k), 4 sqrt(d) generations, times epsilon above 1; L is halved where votes are mostly noise.
    """
    rng = np.random.default_rng(seed)
    m, d = given.points.shape
    generations = max(1, int(max(1.0, epsilon) * int(4 * math.sqrt(d))))
    noise = multiplier(epsilon, given.delta, generations)
    many = max(m // (5 * given.k), LEAST)
    population = packed((many + 1) * given.k, d, given.radius, rng)
    for generation in range(generations):
        votes = counted(given.points, population)
        noisy = votes + rng.normal(0, noise, len(population))
        weights = np.where(noisy >= threshold(noisy, m), np.maximum(noisy, 0), 0)
        if (weights**2).sum() < HALVED * len(weights) * noise**2:
            many = max(many // 2, LEAST)
        centers = weighted_means(population, weights, given.k, seed)
        if generation + 1 < generations:
            mutants = mutated(centers, many, given.radius, rng)
            population = np.concatenate([centers, mutants])
    return centers, gaussian_epsilon(generations / noise**2, given.delta)


def counted(points: Array, population: Array) -> Array:
    """How many rows are nearest to each candidate."""
    blocks = np.array_split(points, max(1, len(points) * len(population) // 10_000_000))
    return sum(np.bincount(nearest(block, population), minlength=len(population)) for block in blocks)


def multiplier(epsilon: float, delta: float, steps: int) -> float:
    """Of the noise of so many histograms."""
    from scipy.optimize import brentq

    def over(log: float) -> float:
        return gaussian_epsilon(steps / math.exp(2 * log), delta) - epsilon

    return math.exp(brentq(over, math.log(1e-2), math.log(1e4)))


def threshold(votes: Array, m: int) -> float:
    """The largest votes that add up to all rows count."""
    order = np.sort(votes)[::-1]
    reached = int(np.searchsorted(np.cumsum(order), m))
    return 0.0 if reached >= len(order) else float(order[reached])


def weighted_means(points: Array, weights: Array, k: int, seed: int) -> Array:
    """k-means, the best of ten restarts."""
    from sklearn.cluster import KMeans

    kept = weights > 0
    if kept.sum() <= k:
        return points[np.argsort(weights)[-k:]]
    found = KMeans(k, n_init=10, random_state=seed).fit(points[kept], sample_weight=weights[kept])
    return found.cluster_centers_


def mutated(centers: Array, many: int, radius: float, rng: np.random.Generator) -> Array:
    """So many a center, by steps of Mantegna's law, within the ball."""
    wide = math.gamma(1 + BETA) * math.sin(math.pi * BETA / 2)
    wide /= math.gamma((1 + BETA) / 2) * BETA * 2 ** ((BETA - 1) / 2)
    shape = (len(centers) * many, centers.shape[1])
    steps = rng.normal(0, wide ** (1 / BETA), shape) / np.abs(rng.normal(size=shape)) ** (1 / BETA)
    found = np.repeat(centers, many, axis=0) + STEP * radius * steps
    return found * np.minimum(1, radius / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12))


def packed(count: int, d: int, radius: float, rng: np.random.Generator) -> Array:
    """Points in a ball, as far apart as a few tries find."""
    near = radius / 2
    while True:
        found = np.zeros((0, d))
        tries = 0
        while len(found) < count and tries < 100:
            step = rng.normal(size=d)
            point = step / np.linalg.norm(step) * rng.random() ** (1 / d) * (radius - near)
            if len(found) and ((found - point) ** 2).sum(axis=1).min() < 4 * near**2:
                tries += 1
                continue
            found, tries = np.concatenate([found, point[None]]), 0
        if len(found) == count:
            return found
        near /= 2


def diffprivlib(given: Problem, epsilon: float, seed: int) -> tuple[Array, float]:
    """IBM's, with the public box; of pure epsilon, as it has no delta."""
    from diffprivlib.models import KMeans

    d = given.points.shape[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        way = KMeans(
            given.k, epsilon=epsilon, bounds=([-given.half] * d, [given.half] * d), random_state=seed
        )
        return way.fit(given.points).cluster_centers_, epsilon


def google(given: Problem, epsilon: float, seed: int) -> tuple[Array, float]:
    """Google's: means of cells of a tree of hashes, under noise, and k-means of those by their counts."""
    from clustering.clustering_algorithm import private_lsh_clustering
    from clustering.clustering_params import Data, DifferentialPrivacyParam

    np.random.seed(seed)  # noqa: NPY002 - it draws from there
    budget = DifferentialPrivacyParam(epsilon, given.delta)
    return private_lsh_clustering(given.k, Data(given.points, given.radius), budget).centers, epsilon


METHODS: dict[str, Callable[[Problem, float, int], tuple[Array, float]]] = {
    "ours": ours, "PE-means": pe_means, "Google": google, "diffprivlib": diffprivlib,
}  # fmt: skip

NEEDED = {"diffprivlib": ("diffprivlib",), "Google": ("clustering", "dp_accounting")}
REMEDY = {
    "diffprivlib": "pip install diffprivlib 'scikit-learn<1.7'",
    "Google": "pip install dp-accounting absl-py, and name the folder `learning` of a checkout of "
    "https://github.com/google/differential-privacy in PYTHONPATH",
}


def usable() -> tuple[str, ...]:
    """Methods whose packages are here."""
    from importlib.util import find_spec

    return tuple(name for name in METHODS if all(find_spec(m) for m in NEEDED.get(name, ())))


def cells(
    names: tuple[str, ...], epsilons: tuple[float, ...], methods: tuple[str, ...], runs: int
) -> Iterator[Row]:
    """The grid: one cell a set, run, method and epsilon."""
    for name in names:
        for seed in range(runs):
            for method in methods:
                for epsilon in epsilons:
                    yield {
                        "script": "dp_alone", "set": name, "k": SETS[name].k, "method": method,
                        "epsilon": epsilon, "seed": seed,
                    }  # fmt: skip


def measure(cell: Row, folder: Path | None) -> Iterator[Row]:
    """One run."""
    given = problem(cell["set"], cell["seed"], folder)
    started = time.perf_counter()
    centers, spent = METHODS[cell["method"]](given, cell["epsilon"], cell["seed"])
    seconds = time.perf_counter() - started
    cost = cost_per_point(given.points, np.asarray(centers))
    yield {
        "excess": (cost - given.best) / (given.one - given.best), "spent": spent, "seconds": seconds,
        "m": len(given.points), "d": given.points.shape[1],
    }  # fmt: skip


def printed(rows: list[Row]) -> Iterator[list[str]]:
    """A line a set and epsilon: median and, in brackets, the middle half; the lost ones marked."""
    found: dict[tuple[str, float], dict[str, list[float]]] = {}
    for row in rows:
        cell = row["cell"]
        line = found.setdefault((cell["set"], cell["epsilon"]), {})
        line.setdefault(cell["method"], []).append(row["excess"])
    for (name, epsilon), line in sorted(found.items()):
        quarters = {method: np.quantile(values, (0.25, 0.5, 0.75)) for method, values in line.items()}
        rivals = [quarter for method, quarter in quarters.items() if method != "ours"]
        lost = "ours" in quarters and any(
            rival[1] < quarters["ours"][1] and rival[2] < quarters["ours"][0] for rival in rivals
        )
        shown = ["{1:.4f} ({0:.4f}-{2:.4f})".format(*quarters[m]) if m in quarters else "" for m in METHODS]
        yield [name, f"{epsilon:g}", *shown, "LOST" if lost else ""]


@click.command(help=__doc__.split("\n")[0])
@click.option(
    "--set", "names", type=click.Choice(list(SETS)), multiple=True, help="Only this; may be repeated."
)
@click.option("--epsilon", "epsilons", type=float, multiple=True, help="Only this total; may be repeated.")
@click.option("--method", "methods", type=click.Choice(list(METHODS)), multiple=True,
              help="Only this method; may be repeated.")  # fmt: skip
@click.option("--runs", default=8, show_default=True, help="Of each cell, with rows of their own.")
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Folder with sipu.npz and the census; without, these sets are left out.")  # fmt: skip
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Append rows to this file.")
def main(
    names: tuple[str, ...], epsilons: tuple[float, ...], methods: tuple[str, ...], runs: int,
    data: Path | None, out: Path | None,
) -> None:  # fmt: skip
    """Run the grid and print it."""
    names = names or tuple(name for name, chosen in SETS.items() if data is not None or not chosen.files)
    if data is None and any(SETS[name].files for name in names):
        raise click.UsageError("birch2 and the census are files: name their folder with --data")
    methods = methods or usable()
    for name in sorted(set(methods) - set(usable())):
        raise click.UsageError(f"{name} is not installed: {REMEDY[name]}")
    todo = list(cells(names, epsilons or EPSILONS, methods, runs))
    found = []
    with click.progressbar(todo, label="dp_alone") as bar:
        found.extend(run_grid(bar, lambda cell: measure(cell, data), out))
    show(
        "Excess over that of one center: median (middle half); LOST: a rival's middle half is below ours",
        ["data", "epsilon", *METHODS, ""],
        printed(found),
    )


if __name__ == "__main__":
    main()
