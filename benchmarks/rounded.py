"""What rounding centers costs in quality: final costs with rounded centers over those with exact ones.

    python -m benchmarks.rounded --out rounded.jsonl
    python -m benchmarks.rounded --data FOLDER --sets 20 --out rounded.jsonl

Data as of `benchmarks.quality`.  Runs are plaintext integers, which gives the labels of a secure run, from
the default start; costs are those of the labels on the data as they are.  Both kinds of centers are at the
automatic scale that the default policy gives them, which rounds the data, too; "same scale" is against exact
centers at the scale of rounded ones.  A ratio is one seed's; a row holds median, least and largest, and how
many seeds ended with the same labels.
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
from secfc.data.inputs import build_algorithm
from secfc.metrics import cost


def measure(cell: Row, folder: Path | None) -> Iterator[Row]:
    """The ratios on one data set, and the steps between 0 and the bound that both kinds leave."""
    k = cell["k"]
    points = points_of(cell["data"], k, cell.get("d", 0), cell.get("sigma", 0.0), cell.get("most", 0), folder)
    federation = secfc.Federation.from_arrays([points])

    def run(seed: int, **more: Any) -> secfc.Clustering:
        return secfc.fit(build_algorithm(secfc.Lloyd, k=k, coarse="allow", **more), federation, seed=seed)

    rounded = [run(seed, centers="rounded") for seed in range(cell["seeds"])]
    exact = [run(seed) for seed in range(cell["seeds"])]
    # Exact centers at that scale, whatever lanes it takes: a server that sees distances needs fewest.
    scale = rounded[0].plan.quantizer.scale
    alike = [run(s, scale=scale, disclosure=secfc.Distances()) for s in range(cell["seeds"])]

    def over(others: list[secfc.Clustering]) -> list[float]:
        pairs = zip(rounded, others, strict=True)
        return [cost(points, ours.flat, k) / cost(points, theirs.flat, k) for ours, theirs in pairs]

    ratios, at_same = over(exact), over(alike)
    yield {
        "ratio": float(np.median(ratios)), "least": min(ratios), "largest": max(ratios),
        "ratio_same_scale": float(np.median(at_same)), "largest_same_scale": max(at_same),
        "same": sum(bool((x.flat == y.flat).all()) for x, y in zip(rounded, exact, strict=True)),
        "m": len(points), "features": points.shape[1],
        "steps": rounded[0].plan.quantizer.max_int, "exact_steps": exact[0].plan.quantizer.max_int,
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
        ["data", "k", "m x d", "median", "least", "largest", "same scale", "same labels", "steps"],
        (
            [
                r["cell"]["data"], str(r["cell"]["k"]), f"{r['m']:,} x {r['features']}", f"{r['ratio']:.5f}",
                f"{r['least']:.5f}", f"{r['largest']:.5f}", f"{r['ratio_same_scale']:.5f}",
                f"{r['same']}/{r['cell']['seeds']}",
                f"{r['steps']:,}/{r['exact_steps']:,}",
            ]
            for r in rows
        ),
    )  # fmt: skip
    for name, what in (("ratio", "each at its scale"), ("ratio_same_scale", "at one scale")):
        ratios = np.array([r[name] for r in rows])
        near = int((np.abs(ratios - 1) <= 0.001).sum())
        print(
            f"{what}: of {len(rows)} medians {near} are within .1 %, the least is {ratios.min():.5f}, the "
            f"largest {ratios.max():.5f}"
        )


if __name__ == "__main__":
    main()
