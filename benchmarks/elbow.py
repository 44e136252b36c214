"""How often the choice of k is right: the elbow of one run, beside curves of scikit-learn's best runs.

    python -m benchmarks.elbow --out elbow.jsonl

Mixtures of Gaussians with known k, points without clusters, for which 1 is right, and the data with classes
that come with scikit-learn, standardized.  A row holds what the elbow chose on plaintext integers, which is
what a secure run chooses; what the same rule chooses on costs of the best of `--best` runs of scikit-learn
for every k; and what that curve's elbow on plain axes is, which is Kneedle's as published.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import click
import numpy as np

import secfc
from benchmarks.common import Row, run_grid, show
from secfc.kmeans.bisecting import Bisecting
from secfc.kmeans.elbow import elbow, monotone_costs

Array = Any

COUNTS, DIMENSIONS, SPREADS, SIZES = (2, 3, 5, 8), (2, 5, 20), (1.0, 2.0, 4.0), (200, 1000)
CLASSIC = {"iris": 3, "wine": 3, "breast_cancer": 2, "digits": 10}


def cells(seeds: int, best: int, quick: bool) -> Iterator[Row]:
    """The grid: one cell a data set."""
    common = {"script": "elbow", "best": best}
    for name, k in list(CLASSIC.items())[: 2 if quick else None]:
        yield {"data": name, "k": k, "seed": 0, **common}
    sizes, dimensions = (SIZES[:1], DIMENSIONS[1:2]) if quick else (SIZES, DIMENSIONS)
    for seed, m, d in product(range(seeds), sizes, dimensions):
        for data in ("uniform", "gaussian"):
            yield {"data": data, "k": 1, "m": m, "d": d, "seed": seed, **common}
        for k, sigma in product(COUNTS[:2] if quick else COUNTS, SPREADS[:2] if quick else SPREADS):
            data = f"mixture, sd={sigma:g}"
            yield {"data": data, "k": k, "m": m, "d": d, "sigma": sigma, "seed": seed, **common}


def points_of(cell: Row) -> Array:
    """Points (m, d); centers of mixtures in the box [-10, 10]**d."""
    from sklearn import datasets

    if cell["data"] in CLASSIC:
        points = getattr(datasets, f"load_{cell['data']}")().data
        points = points[:, points.std(axis=0) > 0]
        return (points - points.mean(axis=0)) / points.std(axis=0)
    k, m, d = cell["k"], cell["m"], cell["d"]
    rng = np.random.default_rng([cell["seed"], k, m, d, int(10 * cell.get("sigma", 0))])
    if cell["data"] == "uniform":
        return rng.uniform(-10, 10, (m, d))
    centers = rng.uniform(-10, 10, (k, d))
    return centers[np.arange(m) % k] + cell.get("sigma", 1.0) * rng.normal(size=(m, d))


def plain_elbow(costs: tuple[float, ...]) -> int:
    """The k whose cost lies farthest below the chord on plain axes."""
    if costs[0] <= costs[-1]:
        return 1
    heights = (np.array(costs) - costs[-1]) / (costs[0] - costs[-1])
    return int(np.argmax(1 - np.linspace(0, 1, len(costs)) - heights)) + 1


def measure(cell: Row) -> Iterator[Row]:
    """What is chosen on one data set."""
    from sklearn.cluster import KMeans

    points = points_of(cell)
    way = secfc.Lloyd(
        "auto",
        init=Bisecting(),
        disclosure=secfc.Distances(),
        quantization=secfc.Quantization(coarse="allow"),
    )
    result = secfc.fit(way, secfc.Federation.from_arrays([points]), seed=cell["seed"])
    curve = result.curve
    counts = range(1, len(curve.costs) + 1)
    best = monotone_costs(
        [KMeans(k, n_init=cell["best"], random_state=0).fit(points).inertia_ for k in counts]
    )
    yield {
        "chosen": result.k, "depth": curve.depth, "clarity": curve.clarity, "most": len(counts),
        "of_best": elbow(best),
        "plain_of_best": plain_elbow(best), "silhouette": int(np.argmax(curve.silhouettes)) + 2,
        "excess": max(float(a) / b for a, b in zip(curve.costs, best, strict=True)),
    }  # fmt: skip


def summary(rows: list[Row]) -> Iterator[list[str]]:
    """A line a kind of data; of a single set the choice, and the truth."""
    for kind in dict.fromkeys(row["cell"]["data"] for row in rows):
        members = [row for row in rows if row["cell"]["data"] == kind]
        truth = [row["cell"]["k"] for row in members]

        def right(name: str, rows: list[Row] = members, truth: list[int] = truth) -> str:
            found = sum(row[name] == k for row, k in zip(rows, truth, strict=True))
            return f"{found} of {len(rows)}" if len(rows) > 1 else f"{rows[0][name]} ({truth[0]})"

        same = sum(row["chosen"] == row["of_best"] for row in members)
        clear = sum(row["clarity"] == "clear" for row in members)
        yield [
            kind, right("chosen"), right("of_best"), right("plain_of_best"), right("silhouette"),
            f"{same} of {len(members)}", f"{clear} of {len(members)}",
        ]  # fmt: skip


def by_clarity(rows: list[Row]) -> Iterator[list[str]]:
    """How often the choice is right, by how clear reports call it."""
    for word in ("clear", "close", "faint", "none"):
        members = [row for row in rows if row["clarity"] == word and row["cell"]["data"] not in CLASSIC]
        with_clusters = [row for row in members if row["cell"]["k"] > 1]
        right = sum(row["chosen"] == row["cell"]["k"] for row in with_clusters)
        near = sum(abs(row["chosen"] - row["cell"]["k"]) <= 1 for row in with_clusters)
        yield [
            word if word != "none" else "not clear, or none",
            f"{right} of {len(with_clusters)}", f"{near} of {len(with_clusters)}",
            str(len(members) - len(with_clusters)),
        ]  # fmt: skip


@click.command(help=__doc__.split("\n")[0])
@click.option("--seeds", default=3, show_default=True, help="Data sets of every kind.")
@click.option("--best", default=10, show_default=True, help="Runs of scikit-learn for every k.")
@click.option("--quick", is_flag=True, help="A small grid, to try the script.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Append rows to this file.")
def main(seeds: int, best: int, quick: bool, out: Path | None) -> None:
    """Run the grid and print how often each choice is right."""
    rows = []
    todo = list(cells(1 if quick else seeds, 1 if quick else best, quick))
    with click.progressbar(todo, label="elbow") as bar:
        rows += run_grid(bar, measure, out)
    show(
        "Right choices of k",
        ["data", "elbow", "of best runs", "on plain axes", "silhouette", "as of best runs", "clear"],
        summary(rows),
    )
    show(
        "By what reports call them, in mixtures",
        ["elbow", "right", "within 1", "points without clusters"],
        by_clarity(rows),
    )


if __name__ == "__main__":
    main()
