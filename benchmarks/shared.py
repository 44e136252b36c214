"""Traffic over rows: shared centers beside policies that show less, scikit-learn and published figures.

    python -m benchmarks.shared --quick
    python -m benchmarks.shared --out shared.jsonl --picture docs/pictures/bytes.svg
    python -m benchmarks.shared --floors

Three clients, k=5; rows are the planner's, of a mixture.  Up to `most` rows a run is measured: bytes of all
its messages, processor seconds of all parties in this one process, cost over the best of ten starts of
scikit-learn; beyond that, `computed` rows have the bytes of `secfc.plan`, and stand beside the last
measured ones to be compared.  Published and other figures are constants, each with its source.

With --floors, the price of `floor=10` instead: five clients, t=1, rows of Gaussians around k places that
are `apart` deviations of a row from one another, beside the same run without a floor.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

import secfc
from benchmarks.common import Row, require, run_grid, show
from secfc.algorithm import PublicFacts
from secfc.metrics import cost
from secfc.planning.dry_run import synthetic_rows

N, K, BOUND = 3, 5, 8.0
ROUNDED = secfc.Quantization(centers="rounded")
WAYS: dict[str, Any] = {
    "the default": secfc.SecFC(K),
    "rounded centers": secfc.SecFC(K, quantization=ROUNDED),
    "Distances()": secfc.SecFC(K, disclosure=secfc.Distances()),
    "FederatedLloyd": secfc.FederatedLloyd(K),
    "FederatedLloyd, floor=10": secfc.FederatedLloyd(K, floor=10),
}
CENTERS = [name for name in WAYS if name.startswith("FederatedLloyd")]
FIGURES = ("cpu_s", "sklearn_cpu_s", "cost_over_sklearn")
# Of 100,000 rows, k=5: features, bytes, whose, and what they are of.
PUBLISHED = (
    (2, 73e6, "Mazzone et al.", "columns of two parties under CKKS, as published (arXiv 2504.07578)"),
    (2, 101e9, "secret sharing", "as Mazzone et al. quote it"),
    (5, 1680, "FastLloyd", "noisy centers of two clients, measured with its code (a4f65f1)"),
)


def grid(most: int, quick: bool) -> Iterator[Row]:
    """The cells, of which each is measured or computed."""
    sizes = (100, 1000) if quick else [10**power for power in range(3, 10)]
    for m, way in itertools.product(sizes, ("the default", CENTERS[0]) if quick else WAYS):
        # What grows with rows is measured to a tenth, as it takes this process more than rows do.
        limit = most if way in CENTERS else most // 10
        cell = {"script": "shared", "way": way, "m": m, "d": 5}
        if m <= limit:
            yield cell | {"computed": False}
        if m >= limit and (not quick or way == CENTERS[0]):
            yield cell | {"computed": True}
    if not quick:
        yield {"script": "shared", "way": CENTERS[0], "m": 100_000, "d": 2, "computed": False}


def measure(cell: Row) -> Iterator[Row]:
    """One run, or its plan: `mb` is -1 where so many rows do not fit the ring."""
    way, m, d = WAYS[cell["way"]], cell["m"], cell["d"]
    if cell["computed"]:
        try:
            planned = secfc.plan(way, N, m, d, bound=BOUND)
        except secfc.InputError:
            yield {"mb": -1.0}
        else:
            sizes = planned.traffic.values()
            yield {"mb": sum(size for _, size in sizes) / 1e6, "messages": sum(many for many, _ in sizes)}
        return
    from sklearn.cluster import KMeans

    counts = tuple(m // N + (j < m % N) for j in range(N))
    public = PublicFacts(tuple(f"client-{j}" for j in range(N)), counts, d, BOUND)
    data = synthetic_rows(public, m, K)
    start = time.process_time()
    result = secfc.fit(way, data, bound=BOUND, seed=0)
    ours = time.process_time() - start
    points = data.stacked()
    start = time.process_time()
    found = KMeans(K, n_init=10, random_state=0).fit(points)
    yield {
        "mb": result.transcript.nbytes() / 1e6,
        "messages": len(result.transcript.envelopes),
        "steps": int(result.n_iter or 0),
        "cpu_s": ours,
        "sklearn_cpu_s": time.process_time() - start,
        "cost_over_sklearn": cost(points, result.flat, K) / cost(points, found.labels_, K),
    }


def floor_grid(quick: bool) -> Iterator[Row]:
    """Cells that each compare a run with a floor with one without."""
    sizes = ((400, 2), (1000, 6), (2000, 10), (20_000, 10))
    for (m, d), apart, k, seed in itertools.product(sizes, (0.0, 2.0, 6.0), (4, 8, 12), range(3)):
        if (m, k, seed) == (400, 4, 0) or (not quick and (seed == 0 or m < 20_000)):
            yield {"script": "floors", "m": m, "d": d, "apart": apart, "k": k, "seed": seed}


def compare_floor(cell: Row) -> Iterator[Row]:
    """How many times the sums and the cost of a run a floor takes, its bytes, and the rows that it held."""
    m, d, k = cell["m"], cell["d"], cell["k"]
    rng = np.random.default_rng(cell["seed"])
    points = (cell["apart"] * rng.normal(size=(k, d)))[rng.integers(0, k, m)] + rng.normal(size=(m, d))
    data = secfc.Federation.from_arrays(np.array_split(points, 5))
    found, plain = (
        secfc.fit(secfc.FederatedLloyd(k, floor=floor, t=1), data, seed=cell["seed"]) for floor in (10, 1)
    )
    yield {
        "sums": len(found.details.counted) / len(plain.details.counted),
        "cost": cost(points, found.flat, k) / cost(points, plain.flat, k),
        "mb": found.transcript.nbytes() / 1e6,
        "mb_without": plain.transcript.nbytes() / 1e6,
        "held": found.held / m,
    }


def show_floors(rows: list[Row]) -> None:
    """Ranges by size and distance of clusters: least, median and most."""

    def spell_range(values: list[float]) -> str:
        return " / ".join(f"{value:.3g}" for value in np.quantile(values, (0, 0.5, 1)))

    names = ("sums", "cost", "mb", "mb_without", "held")
    cells = {(r["cell"]["m"], r["cell"]["d"], r["cell"]["apart"]): [] for r in rows}
    for r in rows:
        cells[r["cell"]["m"], r["cell"]["d"], r["cell"]["apart"]].append(r)
    lines = (
        [f"{m:,}", f"{d}", f"{apart:g}", f"{len(own)}", *(spell_range([r[n] for r in own]) for n in names)]
        for (m, d, apart), own in cells.items()
    )
    columns = ["rows", "d", "apart", "runs", "times the sums", "times the cost", "MB", "without", "part held"]
    show("The price of floor=10: least / median / most", columns, lines)


def spell_bytes(mb: float) -> str:
    """So many megabytes, for people."""
    if mb < 0:
        return "does not fit"
    name, size = next(
        (n, s) for n, s in (("TB", 1e6), ("GB", 1e3), ("MB", 1), ("kB", 1e-3)) if mb >= s or s < 1
    )
    return f"{mb / size:.3g} {name}"


def draw_bytes(rows: list[Row], path: Path) -> None:
    """Bytes over rows, both as powers of ten: lines are measured, broken ones computed."""
    require("matplotlib", "matplotlib", "benchmarks")
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams.update({"svg.hashsalt": "secfc", "svg.fonttype": "none"})
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = figure.add_subplot(xscale="log", yscale="log", xlabel="rows", ylabel="bytes of a run")
    for number, way in enumerate(WAYS):
        for computed in (False, True):
            of = [r for r in rows if r["cell"]["way"] == way and r["cell"]["computed"] == computed]
            at = [(r["cell"]["m"], 1e6 * r["mb"]) for r in of if r["cell"]["d"] == 5 and r["mb"] >= 0]
            style = {"linestyle": "--", "marker": "o", "fillstyle": "none"} if computed else {"marker": "o"}
            label = None if computed else way
            axes.plot(*zip(*at, strict=True), color=f"C{number}", markersize=4, label=label, **style)
    for d, nbytes, whose, _ in PUBLISHED:
        axes.plot(10**5, nbytes, "x", color="black")
        axes.annotate(
            f"{whose}, d={d}", (10**5, nbytes), xytext=(6, -3), textcoords="offset points", fontsize=8
        )
    axes.legend(frameon=False, fontsize=8, title="measured; broken: computed")
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


@click.command(help=__doc__.split("\n")[0])
@click.option("--most", default=10**6, show_default=True, help="Rows of the largest run that is measured.")
@click.option("--quick", is_flag=True, help="A small grid, to try the script.")
@click.option("--floors", is_flag=True, help="What a floor costs, instead of bytes over rows.")
@click.option("--picture", type=click.Path(dir_okay=False, path_type=Path), help="Draw bytes over rows.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Append rows to this file.")
def main(most: int, quick: bool, floors: bool, picture: Path | None, out: Path | None) -> None:
    """Run the grid, print it beside published figures, draw it."""
    if floors:
        with click.progressbar(list(floor_grid(quick)), label="floors") as cells:
            show_floors(list(run_grid(cells, compare_floor, out)))
        return
    with click.progressbar(list(grid(1000 if quick else most, quick)), label="shared") as cells:
        rows = list(run_grid(cells, measure, out))
    show(
        f"Bytes of a run, n={N}, k={K}",
        ["rows", "d", "way", "", "bytes", "messages", "steps", "cpu s", "scikit-learn s", "cost over its"],
        (
            [
                f"{r['cell']['m']:,}", str(r["cell"]["d"]), r["cell"]["way"],
                "computed" if r["cell"]["computed"] else "measured", spell_bytes(r["mb"]),
                f"{r['messages']:,.0f}" if "messages" in r else "", str(r.get("steps", "")),
                *(f"{r[name]:.3f}" if name in r else "" for name in FIGURES),
            ]
            for r in rows
        ),
    )  # fmt: skip
    published = ([f"{d}", whose, spell_bytes(size / 1e6), source] for d, size, whose, source in PUBLISHED)
    show("Others, of 100,000 rows, k=5", ["d", "whose", "bytes", "what"], published)
    if picture is not None:
        draw_bytes(rows, picture)


if __name__ == "__main__":
    main()
