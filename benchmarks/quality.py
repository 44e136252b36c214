"""How good the clusterings are: costs by start, beside scikit-learn's, over the best of many runs of that.

    python -m benchmarks.quality --out quality.jsonl
    python -m benchmarks.quality --data FOLDER --out quality.jsonl

Data: those that come with scikit-learn, with their classes as k and with more clusters; mixtures of
Gaussians; and of every .npz file in FOLDER the arrays X or NAME_X (m, d), with the classes of y or NAME_y as
k.
Features are standardized.  Starts run on plaintext integers, which gives the labels of a secure run.  A ratio
is the cost over the lowest of `--best` runs of scikit-learn from one start each; a row holds its median over
`--seeds` seeds, and the processor time of a run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import click
import numpy as np

import secfc
from benchmarks.common import Row, run_grid, show
from secfc.data.mixtures import gaussian_mixture
from secfc.kmeans.starts import RandomPoints
from secfc.metrics import cost

Array = Any

STARTS: dict[str, tuple[Any, int]] = {
    "RandomLabels": (secfc.RandomLabels(), 1),
    "RandomPoints": (RandomPoints(), 1),
    "KMeansPlusPlus": (secfc.KMeansPlusPlus(), 1),
    "Bisecting": (secfc.Bisecting(), 1),
    "Bisecting, n_init=3": (secfc.Bisecting(), 3),
    "Bisecting(spare=0)": (secfc.Bisecting(spare=0), 1),
    "Splitting": (secfc.Splitting(), 1),
}
RIVALS = {"scikit-learn, n_init=1": 1, "scikit-learn, n_init=10": 10}
# scikit-learn's own data, and how many clusters.
CLASSIC = {"iris": (3, 8), "wine": (3, 8), "breast_cancer": (2, 8), "digits": (10, 20), "diabetes": (4, 12)}
# Mixtures: (k, d, standard deviation), centers in the box [-10, 10]**d.
MIXTURES = ((4, 20, 1.0), (16, 20, 1.0), (16, 2, 1.0), (4, 20, 20.0), (16, 100, 20.0))
POINTS = 2000  # of a mixture
MOST_CLUSTERS = 50


def cells(folder: Path | None, most: int, seeds: int, best: int, quick: bool) -> Iterator[Row]:
    """The grid: one cell a data set and number of clusters."""
    common = {"script": "quality", "seeds": seeds, "best": best}
    for name, counts in list(CLASSIC.items())[: 2 if quick else None]:
        for k in counts[:1] if quick else counts:
            yield {"data": name, "k": k, **common}
    for k, d, sigma in () if quick else MIXTURES:
        yield {"data": f"mixture d={d}, sd={sigma:g}", "k": k, "d": d, "sigma": sigma, **common}
    for path in sorted(folder.glob("*.npz")) if folder is not None else ():
        for name, classes in arrays(path):
            yield {
                "data": f"{path.stem}/{name}", "k": min(classes, MOST_CLUSTERS), "most": most, **common
            }  # fmt: skip


def arrays(path: Path) -> Iterator[tuple[str, int]]:
    """Of a file the names of its points, and how many classes they have, 8 where it does not say."""
    with np.load(path, allow_pickle=False) as file:
        for name in file.files:
            if name == "X" or name.endswith("_X"):
                truth = f"{name[:-1]}y"
                yield name, len(np.unique(file[truth])) if truth in file.files else 8


@lru_cache(maxsize=1)
def points_of(data: str, k: int, d: int, sigma: float, most: int, folder: Path | None) -> Array:
    """Standardized points (m, d) without constant features, a random part of them if there are too many."""
    from sklearn import datasets

    rng = np.random.default_rng(0)
    if data in CLASSIC:
        points = getattr(datasets, f"load_{data}")().data
    elif d:
        points = gaussian_mixture(POINTS, d, k, sigma, rng)[0]
    else:
        stem, _, name = data.partition("/")
        with np.load(Path(folder or "") / f"{stem}.npz", allow_pickle=False) as file:
            points = file[name].astype(np.float64)
        if len(points) > most:
            points = points[np.sort(rng.choice(len(points), most, replace=False))]
    points = points[:, points.std(axis=0) > 0]
    return (points - points.mean(axis=0)) / points.std(axis=0)


def measure(cell: Row, folder: Path | None) -> Iterator[Row]:
    """The ratios of every start on one data set."""
    from sklearn.cluster import KMeans

    k = cell["k"]
    points = points_of(cell["data"], k, cell.get("d", 0), cell.get("sigma", 0.0), cell.get("most", 0), folder)
    federation = secfc.Federation.from_arrays([points])

    def theirs(seed: int, n_init: int) -> float:
        return float(KMeans(k, n_init=n_init, random_state=seed).fit(points).inertia_)

    def ours(seed: int, init: Any, n_init: int) -> float:
        way = secfc.Lloyd(
            k,
            init=init,
            n_init=n_init,
            disclosure=secfc.Distances(),
            quantization=secfc.Quantization(coarse="allow"),
        )
        return cost(points, secfc.fit(way, federation, seed=seed).flat, k)

    # Seeds of the rivals are others than those of the reference.
    best = min(theirs(seed, 1) for seed in range(1000, 1000 + cell["best"]))
    runs: dict[str, Callable[[int], float]] = {
        **{who: lambda s, a=start, r=r: ours(s, a, r) for who, (start, r) in STARTS.items()},
        **{who: lambda s, r=r: theirs(s, r) for who, r in RIVALS.items()},
    }
    for who, run in runs.items():
        begun = time.process_time()
        ratios = [run(seed) / best for seed in range(cell["seeds"])]
        run_s = (time.process_time() - begun) / cell["seeds"]
        yield {
            "who": who, "ratio": float(np.median(ratios)), "worst_ratio": max(ratios), "best_cost": best,
            "m": len(points), "features": points.shape[1], "run_s": run_s,
        }  # fmt: skip


def summary(rows: list[Row]) -> Iterator[list[str]]:
    """One line a start: its ratios over all data sets."""
    for who in (*STARTS, *RIVALS):
        members = [r for r in rows if r["who"] == who]
        ratios = np.array([r["ratio"] for r in members])
        worst = members[int(ratios.argmax())]
        yield [
            who,
            f"{np.exp(np.log(ratios).mean()):.4f}",
            f"{ratios.max():.3f}",
            f"{worst['cell']['data']}, k={worst['cell']['k']}",
            f"{max(r['worst_ratio'] for r in members):.3f}",
            str(len(members)),
        ]


@click.command(help=__doc__.split("\n")[0])
@click.option("--data", "folder", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Folder of .npz files.")  # fmt: skip
@click.option("--most", default=3000, show_default=True, help="Points of a file's array, at most.")
@click.option("--seeds", default=7, show_default=True, help="Runs of every start.")
@click.option("--best", default=30, show_default=True, help="Runs of the reference.")
@click.option("--quick", is_flag=True, help="A small grid, to try the script.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Append rows to this file.")
def main(folder: Path | None, most: int, seeds: int, best: int, quick: bool, out: Path | None) -> None:
    """Run the grid and print what the starts reach; benchmarks.plot draws the rows."""
    rows = []
    todo = list(cells(folder, most, 2 if quick else seeds, 2 if quick else best, quick))
    with click.progressbar(todo, label="quality") as bar:
        for row in run_grid(bar, lambda cell: measure(cell, folder), out):
            rows.append(row)
    show(
        "Cost over the best of many runs of scikit-learn: medians over seeds",
        ["start", "geometric mean", "worst", "where", "worst of all runs", "data sets"],
        summary(rows),
    )


if __name__ == "__main__":
    main()
