"""What rounding centers costs in quality: final costs with rounded centers over those with exact ones.

    python -m benchmarks.rounded --out rounded.jsonl
    python -m benchmarks.rounded --data FOLDER --sets 20 --out rounded.jsonl

Data as of `benchmarks.quality`.  Runs are plaintext integers, which gives the labels of a secure run, each at
the automatic scale of its kind of centers, from the default start; costs are those of the labels on the data
as they are.  A ratio is one seed's; a row holds median, least and largest, and how many seeds ended with the
same labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

import secfc
from benchmarks.common import Row, run_grid, show
from benchmarks.quality import cells, points_of
from secfc.metrics import cost


def measure(cell: Row, folder: Path | None) -> Iterator[Row]:
    """The ratios on one data set, and the steps between 0 and the bound that both kinds leave."""
    k = cell["k"]
    points = points_of(cell["data"], k, cell.get("d", 0), cell.get("sigma", 0.0), cell.get("most", 0), folder)
    federation = secfc.Federation.from_arrays([points])

    def run(centers: Any, seed: int) -> secfc.Clustering:
        way = secfc.Lloyd(k, centers=centers, coarse="allow")
        return secfc.fit(way, federation, seed=seed)

    pairs = [(run("rounded", seed), run("exact", seed)) for seed in range(cell["seeds"])]
    ratios = [cost(points, rounded.flat, k) / cost(points, exact.flat, k) for rounded, exact in pairs]
    yield {
        "ratio": float(np.median(ratios)), "least": min(ratios), "largest": max(ratios),
        "same": sum(bool((rounded.flat == exact.flat).all()) for rounded, exact in pairs),
        "m": len(points), "features": points.shape[1],
        "steps": pairs[0][0].plan.quantizer.max_int, "exact_steps": pairs[0][1].plan.quantizer.max_int,
    }  # fmt: skip


@click.command(help=__doc__.split("\n")[0])
@click.option("--data", "folder", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Folder of .npz files.")  # fmt: skip
@click.option("--most", default=3000, show_default=True, help="Points of a file's array, at most.")
@click.option("--seeds", default=7, show_default=True, help="Runs of both.")
@click.option("--sets", default=0, show_default=True, help="Data sets, at most, spread over all; 0 for all.")
@click.option("--quick", is_flag=True, help="A small grid, to try the script.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Append rows to this file.")
def main(folder: Path | None, most: int, seeds: int, sets: int, quick: bool, out: Path | None) -> None:
    """Run the grid and print the ratios."""
    todo = [{**c, "script": "rounded"} for c in cells(folder, most, 2 if quick else seeds, 0, quick)]
    if 0 < sets < len(todo):
        todo = [todo[i] for i in np.linspace(0, len(todo) - 1, sets).round().astype(int)]
    with click.progressbar(todo, label="rounded") as bar:
        rows = list(run_grid(bar, lambda cell: measure(cell, folder), out))
    show(
        "Final cost with rounded over exact centers, by seeds",
        ["data", "k", "m x d", "median", "least", "largest", "same labels", "steps, rounded/exact"],
        (
            [
                r["cell"]["data"], str(r["cell"]["k"]), f"{r['m']:,} x {r['features']}", f"{r['ratio']:.5f}",
                f"{r['least']:.5f}", f"{r['largest']:.5f}", f"{r['same']}/{r['cell']['seeds']}",
                f"{r['steps']:,}/{r['exact_steps']:,}",
            ]
            for r in rows
        ),
    )  # fmt: skip
    ratios = [r["ratio"] for r in rows]
    print(f"Of {len(rows)} medians the least is {min(ratios):.5f}, the largest {max(ratios):.5f}.")


if __name__ == "__main__":
    main()
