"""SecFC's Tables 1, 2 and 3: clustering accuracy of Lloyd, k-FED and SecFC beside the paper's figures.

    python benchmarks/accuracy.py --out accuracy.jsonl
    python benchmarks/accuracy.py --table 3 --data FOLDER --out accuracy.jsonl

Tables 1 and 2: a mixture of k Gaussians, d = 100, standard deviation 1 and 20.  The paper does not say how
centers are drawn; here uniformly in the box [-10, 10]**d.  Its text calls the closest center the truth of a
point; its figures for sigma = 20 fit the Gaussian that the point was drawn from, which is the truth here
unless `--truth closest` is given.
Table 3: the images of one digit of MNIST rotated by 0, 90, 180 and 270 degrees; FOLDER holds a .npz file
with X (m, 784) and y named *mnist*train*.

The start is center separation, as in the paper, of a clustering that the paper leaves open; here of
k-means++ (`--base`).  All three algorithms cluster the same data; Lloyd and SecFC start from the same labels.
Each run draws its own data (Tables 1, 2), split and start.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

import secfc
from benchmarks.common import Row, run_grid, show
from secfc.data.mixtures import gaussian_mixture, rotated_images
from secfc.kmeans.bisecting import Bisecting
from secfc.kmeans.starts import STARTS, CenterSeparation
from secfc.metrics import accuracy, cost

Array = Any

# (n, m, ell, t) for each k, and the heterogeneity k' of the paper's columns.
SETTINGS = {4: (10, 10_000, 1, 4), 16: (16, 16_384, 2, 5)}
HETEROGENEITY = {4: (1, 2, 4), 16: (2, 4, 16)}

# Published accuracy in percent, mean and standard deviation: Tables 1, 2 (by sigma) and 3 (by digit).
PAPER: dict[tuple[str, int, int], dict[int, tuple[float, float]]] = {
    ("Lloyd", 1, 4): {1: (100.0, 0.0), 2: (100.0, 0.0), 4: (100.0, 0.0)},
    ("k-FED", 1, 4): {1: (75.0, 0.1), 2: (99.7, 2.1), 4: (25.8, 0.6)},
    ("SecFC", 1, 4): {1: (100.0, 0.0), 2: (100.0, 0.0), 4: (100.0, 0.0)},
    ("Lloyd", 1, 16): {2: (88.2, 5.5), 4: (88.2, 5.5), 16: (88.2, 5.5)},
    ("k-FED", 1, 16): {2: (80.3, 5.3), 4: (78.7, 3.7), 16: (7.6, 0.1)},
    ("SecFC", 1, 16): {2: (86.0, 1.5), 4: (86.0, 1.5), 16: (86.0, 1.5)},
    ("Lloyd", 20, 4): {1: (96.3, 0.1), 2: (96.3, 0.1), 4: (96.3, 0.1)},
    ("k-FED", 20, 4): {1: (46.7, 0.0), 2: (86.6, 5.5), 4: (25.6, 0.1)},
    ("SecFC", 20, 4): {1: (96.3, 0.0), 2: (96.3, 0.0), 4: (96.3, 0.0)},
    ("Lloyd", 20, 16): {2: (84.0, 0.2), 4: (84.0, 0.2), 16: (84.0, 0.2)},
    ("k-FED", 20, 16): {2: (42.0, 2.2), 4: (41.7, 1.2), 16: (8.4, 0.1)},
    ("SecFC", 20, 16): {2: (84.0, 0.1), 4: (84.0, 0.1), 16: (84.0, 0.1)},
}
PAPER_DIGITS: dict[tuple[str, int], dict[int, tuple[float, float]]] = {
    ("Lloyd", 2): {1: (99.5, 0.1), 2: (99.5, 0.1), 4: (99.5, 0.1)},
    ("k-FED", 2): {1: (50.5, 0.0), 2: (90.3, 10.4), 4: (25.8, 0.1)},
    ("SecFC", 2): {1: (99.5, 0.1), 2: (99.5, 0.1), 4: (99.5, 0.1)},
    ("Lloyd", 3): {1: (98.1, 0.0), 2: (98.1, 0.0), 4: (98.1, 0.0)},
    ("k-FED", 3): {1: (97.7, 0.0), 2: (98.1, 0.0), 4: (68.2, 9.4)},
    ("SecFC", 3): {1: (98.1, 0.0), 2: (98.1, 0.0), 4: (98.1, 0.0)},
}


def cells(tables: set[int], runs: int, base: str, truth: str) -> Iterator[Row]:
    """The grid: one cell a data set, heterogeneity and run."""
    for run in range(runs):
        for table, sigma in ((1, 1), (2, 20)):
            for k in (4, 16) if table in tables else ():
                for k_local in HETEROGENEITY[k]:
                    yield {
                        "table": table, "sigma": sigma, "k": k, "k'": k_local, "base": base,
                        "truth": truth, "run": run,
                    }  # fmt: skip
        for digit in (2, 3) if 3 in tables else ():
            for k_local in HETEROGENEITY[4]:
                yield {"table": 3, "digit": digit, "k": 4, "k'": k_local, "base": base, "run": run}


def data_of(cell: Row, data: Path | None) -> tuple[Array, Array]:
    """Points and truth of a cell."""
    if cell["table"] == 3:
        images, digits = load_mnist(data)
        return rotated_images(images[digits == cell["digit"]])
    rng = np.random.default_rng([cell["run"], cell["k"], cell["sigma"]])
    return gaussian_mixture(
        SETTINGS[cell["k"]][1], 100, cell["k"], float(cell["sigma"]), rng, truth=cell["truth"]
    )


def load_mnist(folder: Path | None) -> tuple[Array, Array]:
    """Images (m, 784) and digits (m,) of the training file in a folder."""
    if folder is None:
        raise click.UsageError("Table 3 needs MNIST: name its folder with --data")
    files = sorted(folder.glob("*mnist*train*.npz"))
    if not files:
        raise click.UsageError(f"{folder} holds no file *mnist*train*.npz with arrays X and y")
    with np.load(files[0], allow_pickle=False) as file:
        return file["X"], file["y"]


def measure(cell: Row, data: Path | None) -> Iterator[Row]:
    """All three algorithms on the data of one cell."""
    points, truth = data_of(cell, data)
    n, _, ell, t = SETTINGS[cell["k"]]
    federation = secfc.Federation.from_labelled(
        points, truth, n=n, clusters_per_client=cell["k'"], seed=cell["run"]
    )
    init = CenterSeparation(STARTS[cell["base"]])
    shown = secfc.Distances()  # to the server, as in the paper
    algorithms: dict[str, Any] = {
        "Lloyd": secfc.Lloyd(k=cell["k"], init=init, disclosure=shown),
        "SecFC": secfc.SecFC(k=cell["k"], threshold=secfc.Threshold(t, ell), init=init, disclosure=shown),
        "k-FED": secfc.KFed(k=cell["k"], k_local=cell["k'"], seed=cell["run"]),
    }
    results = {name: secfc.fit(a, federation, seed=cell["run"]) for name, a in algorithms.items()}
    pairs = zip(results["SecFC"].history, results["Lloyd"].history, strict=True)
    exact = all(bool((a == b).all()) for a, b in pairs)
    stacked = federation.stacked()
    for name, result in results.items():
        yield {
            "algorithm": name,
            "policy": str(shown) if name != "k-FED" else None,
            "accuracy": accuracy(federation.truth, result.flat),
            "cost": cost(stacked, result.flat, cell["k"]),
            "n_iter": result.n_iter,
            "equals_plaintext_lloyd": exact if name == "SecFC" else None,
        }


def measure_starts(cell: Row) -> Iterator[Row]:
    """Accuracy of Lloyd from k-means on singular vectors (the paper's Remark 2), and from Bisecting."""
    from scipy.sparse.linalg import svds
    from sklearn.cluster import KMeans

    k = cell["k"]
    points, truth = data_of({**cell, "table": 1, "truth": "component"}, None)
    ways = svds(points - points.mean(axis=0), k, random_state=cell["run"])[2]
    near = KMeans(k, n_init=10, random_state=cell["run"]).fit_predict(points @ ways.T)
    start = np.stack([points[near == h].mean(axis=0) for h in range(k)])
    found = KMeans(k, init=start, n_init=1).fit_predict(points)
    federation = secfc.Federation.from_arrays(np.array_split(points, 5))
    ours = secfc.fit(secfc.Lloyd(k, init=Bisecting()), federation, seed=cell["run"]).flat
    yield {"svd": accuracy(truth, found), "bisecting": accuracy(truth, ours)}


def summary(rows: list[Row]) -> Iterator[list[str]]:
    """One line a setting and algorithm: ours beside the paper's."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        cell = row["cell"]
        variant = cell.get("sigma", cell.get("digit"))
        groups.setdefault((cell["table"], variant, cell["k"], cell["k'"], row["algorithm"]), []).append(row)
    for (table, variant, k, k_local, name), members in sorted(groups.items()):
        values = 100 * np.array([r["accuracy"] for r in members])
        paper = (PAPER_DIGITS[name, variant] if table == 3 else PAPER[name, variant, k])[k_local]
        exact = {r["equals_plaintext_lloyd"] for r in members} - {None}
        yield [
            f"{'digit' if table == 3 else 'sigma'} {variant}, k={k}, k'={k_local}",
            name,
            f"{values.mean():.1f} ± {values.std():.1f}",
            f"{paper[0]:.1f} ± {paper[1]:.1f}",
            str(len(members)),
            "" if not exact else "yes" if exact == {True} else "NO",
        ]


@click.command(help=__doc__.split("\n")[0])
@click.option("--table", "tables", type=click.IntRange(1, 3), multiple=True, help="Only this table.")
@click.option("--runs", default=10, show_default=True, help="Runs of every cell.")
@click.option("--base", type=click.Choice(sorted(set(STARTS) - {"center-separation"})), default="k-means++",
              show_default=True, help="The clustering that center separation starts from.")  # fmt: skip
@click.option("--truth", type=click.Choice(["component", "closest"]), default="component", show_default=True,
              help="What counts as a point's cluster in Tables 1 and 2.")  # fmt: skip
@click.option(
    "--data", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Folder of MNIST."
)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Append rows to this file.")
def main(
    tables: tuple[int, ...], runs: int, base: str, truth: str, data: Path | None, out: Path | None
) -> None:
    """Run the grid and print our accuracy beside the paper's."""
    chosen = set(tables) or ({1, 2, 3} if data else {1, 2})
    if 3 in chosen:
        load_mnist(data)
    rows = []
    todo = list(cells(chosen, runs, base, truth))
    with click.progressbar(todo, label="accuracy") as bar:
        for row in run_grid(bar, lambda cell: measure(cell, data), out):
            rows.append(row)
    show(
        f"Accuracy in percent, center separation of {base}",
        ["setting", "algorithm", "ours", "paper", "runs", "equals Lloyd"],
        summary(rows),
    )


if __name__ == "__main__":
    main()
