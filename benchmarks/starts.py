"""What the bisecting start takes and finds on data of the SecFC paper, beside Lloyd from the truth.

    python -m benchmarks.starts --out starts.jsonl
    python -m benchmarks.starts --data FOLDER --out starts.jsonl      # Table 3 too

Data as of `benchmarks.accuracy`.  Runs are on plaintext integers, which gives the labels of a secure run.
Work is counted in ordinary steps, which measure every point to k centers: a step of 2-means measures it to 2,
a step of c clusters to c.  So do questions what splits gain and what merges cost where a server decodes
distances (`work_decoded`); where clients compare them these are sums of clusters, and measure no point
(`work`).  Steps are questions of all kinds until the start is drawn.  Restarts with other seeds give the best
known cost.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks.accuracy import data_of, load_mnist
from benchmarks.common import Row, run_grid, show
from secfc.kmeans.bisecting import Bisecting
from secfc.kmeans.loop import PlainSource, Trace, lloyd
from secfc.metrics import accuracy
from secfc.roles.exchange import Role

Array = Any

STEPS_A_UNIT = 256  # of mixtures; images are integers
MIXTURES = ((1, 1, 4), (1, 1, 16), (2, 20, 4), (2, 20, 16))  # table, standard deviation, k
RESTARTS = 2  # starts of which the best is the best known, with Lloyd from the truth


class Counting(PlainSource):
    """Counts the distances of a point that questions ask for, and the questions."""

    def __init__(self, points: Array) -> None:
        super().__init__(points)
        self.compared = self.sums_only = self.steps = 0

    def take_step(self, labels: Array, k: int, moved: int | None = None) -> Any:
        self.compared, self.steps = self.compared + k, self.steps + 1
        return super().take_step(labels, k, moved)

    def halve_clusters(self, labels: Array, c: int) -> Any:
        self.compared, self.steps = self.compared + 2, self.steps + 1
        return super().halve_clusters(labels, c)

    def split_clusters(self, labels: Array, c: int, choose: Any) -> Any:
        self.sums_only, self.steps = self.sums_only + 2, self.steps + 1
        return super().split_clusters(labels, c, choose)

    def merge_clusters(self, labels: Array, c: int, pairs: Array, choose: Any) -> Any:
        self.sums_only, self.steps = self.sums_only + c, self.steps + 1
        return super().merge_clusters(labels, c, pairs, choose)


def alone(role: Role[Any]) -> Any:
    """What a role returns that talks to nobody."""
    try:
        next(role)
    except StopIteration as done:
        return done.value
    raise RuntimeError("a plaintext source exchanges nothing")


def cells(runs: int, images: bool, quick: bool) -> Iterator[Row]:
    """The grid: one cell a data set and run."""
    for run in range(runs):
        for table, sigma, k in MIXTURES[:1] if quick else MIXTURES:
            yield {
                "script": "starts",
                "table": table,
                "sigma": sigma,
                "k": k,
                "truth": "component",
                "run": run,
            }
        for digit in (2, 3) if images else ():
            yield {"script": "starts", "table": 3, "digit": digit, "k": 4, "run": run}


def measure(cell: Row, folder: Path | None) -> Iterator[Row]:
    """The start, what Lloyd makes of it, and what it makes of the truth."""
    values, truth = data_of(cell, folder)
    points = np.rint(values * (1 if cell["table"] == 3 else STEPS_A_UNIT)).astype(np.int64)
    k = cell["k"]
    source, plain = Counting(points), PlainSource(points)

    def finish(labels: Array) -> Trace:
        trace: Trace = alone(lloyd(labels.astype(np.int32), k, 300, plain))
        return trace

    def draw(seed: int, asked: PlainSource) -> Trace:
        return finish(alone(Bisecting().draw_labels(len(points), k, np.random.default_rng(seed), asked)))

    begun = time.process_time()
    ours = draw(cell["run"], source)
    run_s, ideal = time.process_time() - begun, finish(truth)
    others = [draw(1000 + seed, plain) for seed in range(RESTARTS)]
    costs = [t.scaled_cost for t in (ours, ideal, *others)]
    yield {
        "found": accuracy(truth, ours.labels), "from_truth": accuracy(truth, ideal.labels),
        "excess_cost": float(costs[0] / min(costs) - 1), "work": source.compared / k,
        "work_decoded": (source.compared + source.sums_only) / k, "steps": source.steps,
        "n_iter": ours.n_iter, "run_s": run_s, "m": len(points), "features": points.shape[1],
    }  # fmt: skip


def summary(rows: list[Row]) -> Iterator[list[str]]:
    """One line a data set."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        cell = row["cell"]
        what = f"sigma {cell['sigma']}" if "sigma" in cell else f"digit {cell['digit']}"
        groups.setdefault(f"Table {cell['table']}, {what}, k={cell['k']}", []).append(row)
    for name, members in groups.items():
        column = {key: np.array([r[key] for r in members]) for key in members[0] if key != "cell"}
        near = np.abs(column["found"] - column["from_truth"]) <= 0.003
        yield [
            name,
            f"{100 * column['found'].mean():.2f}",
            f"{100 * column['from_truth'].mean():.2f}",
            f"{near.sum()} of {len(members)}",
            f"{(column['excess_cost'] <= 1e-4).sum()} of {len(members)}",
            f"{np.median(column['work']):.1f} ({np.median(column['work_decoded']):.1f})",
            f"{np.median(column['steps']):.0f}",
            f"{np.median(column['n_iter']):.0f}",
        ]


@click.command(help=__doc__.split("\n")[0])
@click.option("--runs", default=10, show_default=True, help="Runs of every data set.")
@click.option("--data", "folder", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Folder of MNIST, as of benchmarks.accuracy.")  # fmt: skip
@click.option("--quick", is_flag=True, help="One run of the smallest, to try the script.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Append rows to this file.")
def main(runs: int, folder: Path | None, quick: bool, out: Path | None) -> None:
    """Run the grid and print what the start takes and finds."""
    if folder is not None:
        load_mnist(folder)
    rows = []
    todo = list(cells(1 if quick else runs, folder is not None, quick))
    with click.progressbar(todo, label="starts") as bar:
        for row in run_grid(bar, lambda cell: measure(cell, folder), out):
            rows.append(row)
    show(
        "The bisecting start: accuracy in percent, work in ordinary steps (with sums decoded from distances)",
        [
            "data",
            "accuracy",
            "from truth",
            "within .3",
            "cost within 1e-4",
            "work",
            "steps",
            "steps of Lloyd",
        ],
        summary(rows),
    )


if __name__ == "__main__":
    main()
