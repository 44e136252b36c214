"""Features on a common scale: labels and costs beside k-means in floating point, on the same scaled points.

    python -m benchmarks.scaling --out scaling.jsonl
    python -m benchmarks.scaling --data acs_income_2018_states.npz --out scaling.jsonl

Points: census columns of an .npz file with the index `state` (m,) and the columns COLUMNS (m,) each, a
client a state; else columns like them, drawn.  Their ranges differ 10,000-fold.  Each cell is a number of
clusters and points; each row a way to scale and the steps of rounding within a deviation ("automatic": as
many as fit): the share of labels that equal those of floating-point k-means from the same start, the median
and the least over `--seeds` starts, and the excess of the cost over its, farthest from 0.  Forks: starts in
which the labels of some step differ although those of the step before are the same; most points that part
there, and how near to a tie the farthest of them is: the difference of its two squared distances, as a part
of them.  Of `SecFC` runs also what scaling sends, in bytes a client, and its processor time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import click
import numpy as np

import secfc
from benchmarks.common import Row, run_grid, show
from secfc.data.inputs import build_algorithm
from secfc.kmeans.centers import FloatSource
from secfc.kmeans.loop import lloyd
from secfc.metrics import cost
from secfc.roles.exchange import run_alone

Array = Any

COLUMNS = ("AGEP", "SCHL", "OCCP", "POBP", "RELP", "WKHP", "SEX")
STATES = 10
# Steps within a deviation; None: as many as the run holds.
SCALES = (None, 2.0**14, 2.0**18)
MAX_ITER = 300
START = secfc.RandomLabels()


def cells(most: int, seeds: int, quick: bool, data: Path | None) -> Iterator[Row]:
    """The grid: clusters and points; SecFC itself where that is quick, else its plaintext twin."""
    common = {"script": "scaling", "seeds": seeds, "data": "drawn" if data is None else data.stem}
    for secure, m in ((True, 100),) if quick else ((True, 2000), (False, most)):
        for k in (4,) if quick else (4, 8, 16):
            yield {"k": k, "m": m, "secure": secure, **common}


@lru_cache(maxsize=2)
def federation_of(m: int, data: Path | None) -> secfc.Federation:
    """About m points of the largest states, in parts of the same size."""
    rng = np.random.default_rng(0)
    if data is None:
        parts = [drawn(m // STATES, rng) for _ in range(STATES)]
        return secfc.Federation.from_arrays(parts)
    with np.load(data, allow_pickle=False) as file:
        state, whole = file["state"], np.column_stack([file[name] for name in COLUMNS]).astype(np.float64)
    largest = np.argsort(-np.bincount(state), kind="stable")[:STATES]
    rows = [rng.choice(np.flatnonzero(state == s), m // STATES, replace=False) for s in largest]
    return secfc.Federation.from_arrays([whole[np.sort(own)] for own in rows])


def drawn(m: int, rng: np.random.Generator) -> Array:
    """Columns like those of a census: whole numbers, skewed and of few values, ranges of 1 to 10,000."""
    return np.column_stack([
        rng.integers(17, 97, m), rng.binomial(24, 0.75, m), rng.integers(10, 9831, m),
        np.minimum(554, rng.geometric(0.02, m)), rng.integers(0, 18, m), rng.binomial(99, 0.4, m),
        rng.integers(1, 3, m),
    ]).astype(np.float64)  # fmt: skip


def measure(cell: Row, data: Path | None) -> Iterator[Row]:
    """Rows of one cell: without a scale, and standardized with each number of steps."""
    federation, k = federation_of(cell["m"], data), cell["k"]

    def run(seed: int, scale: float | None, features: str | None) -> secfc.Clustering:
        more: dict[str, Any] = {"scale": scale, "coarse": "allow", "max_iter": MAX_ITER, "init": START}
        way: Any = build_algorithm(secfc.Lloyd, k=k, **more)
        if cell["secure"]:
            way = build_algorithm(secfc.SecFC, k=k, t=(federation.n - 1) // 3, **more)
        return secfc.fit(way, federation, seed=seed, scale_features=features)

    for features, scale in ((None, None), *(("standard", steps) for steps in SCALES)):
        equal, theirs, excess = [], [], []
        forks: list[tuple[int, float]] = []
        for seed in range(cell["seeds"]):
            result = run(seed, scale, features)
            points = federation.stacked()
            if result.scaling is not None:
                points = result.scaling.scaling.federation(federation).stacked()
            start, labels = result.history[0].astype(np.int32), result.flat
            float_run = run_alone(lloyd(start, k, MAX_ITER, FloatSource(points)))
            float_labels = float_run.labels
            forks += fork(points, result.history, float_run.history, k)
            equal.append(float((labels == float_labels).mean()))
            theirs.append(float((labels == of_sklearn(points, start, k)).mean()))
            excess.append(cost(points, labels, k) / cost(points, float_labels, k) - 1)
        sent = [e for e in result.transcript.envelopes if e.phase == "scale"]
        yield {
            "scaled": features or "no",
            "policy": str(secfc.AssignmentsOnly()) if cell["secure"] else None,
            "asked": "automatic" if scale is None else f"2^{int(np.log2(scale))}",
            "steps": float(result.plan.quantizer.scale),
            "equal": float(np.median(equal)),
            "least_equal": min(equal),
            "equal_to_sklearn": float(np.median(theirs)),
            "excess": max(excess, key=abs),
            "forks": len(forks),
            "points_at_forks": max((points for points, _ in forks), default=0),
            "gap_at_forks": max((gap for _, gap in forks), default=0.0),
            "features": federation.d,
            "clients": federation.n,
            "bytes_a_client": sum(e.nbytes for e in sent) / federation.n,
            "scale_s": sum(phases.get("scale", 0.0) for phases in result.seconds.values()),
        }


def fork(points: Array, one: Any, two: Any, k: int) -> list[tuple[int, float]]:
    """Where two runs part: how many points do, and how near to a tie the farthest of them is; [] if never."""
    for before, ours, theirs in zip(one[:-1], one[1:], two[1:], strict=False):
        if (apart := np.flatnonzero(ours != theirs)).size:
            known = np.unique(before[before >= 0])
            centers = np.zeros((k, points.shape[1]))
            centers[known] = [points[before == h].mean(axis=0) for h in known]
            ways = [((points[apart] - centers[labels[apart]]) ** 2).sum(axis=1) for labels in (ours, theirs)]
            return [(int(apart.size), float(np.abs(1 - ways[0] / ways[1]).max()))]
    return []


def of_sklearn(points: Array, start: Array, k: int) -> Array:
    """Labels (m,) of scikit-learn's k-means from the means of the first labels, until nothing moves."""
    from sklearn.cluster import KMeans

    first = np.stack([points[start == h].mean(axis=0) for h in range(k)])
    return KMeans(k, init=first, n_init=1, tol=0.0, max_iter=MAX_ITER).fit(points).labels_


def lines(rows: list[Row]) -> Iterator[list[str]]:
    """A line a row."""
    for row in rows:
        cell = row["cell"]
        yield [
            "SecFC" if cell["secure"] else "its plaintext twin",
            str(cell["m"]),
            str(cell["k"]),
            row["scaled"],
            row["asked"],
            f"{row['steps']:g}",
            f"{100 * row['equal']:.3f} %",
            f"{100 * row['least_equal']:.3f} %",
            f"{100 * row['equal_to_sklearn']:.3f} %",
            f"{row['excess']:.1e}",
            f"{row['forks']}"
            + (f" ({row['points_at_forks']}, {row['gap_at_forks']:.0e})" if row["forks"] else ""),
            f"{row['bytes_a_client'] / 1e3:.0f} kB",
            f"{row['scale_s']:.2f} s",
        ]


@click.command(help=__doc__.split("\n")[0])
@click.option(
    "--data", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Census file (.npz)."
)
@click.option("--most", default=20000, show_default=True, help="Points of plaintext runs.")
@click.option("--seeds", default=7, show_default=True, help="Starts.")
@click.option("--quick", is_flag=True, help="A small grid, to try the script.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Append rows to this file.")
def main(data: Path | None, most: int, seeds: int, quick: bool, out: Path | None) -> None:
    """Run the grid and print how exact scaled runs are."""
    todo = list(cells(most, 2 if quick else seeds, quick, data))
    with click.progressbar(todo, label="scaling") as bar:
        rows = list(run_grid(bar, lambda cell: measure(cell, data), out))
    show(
        "Against floating-point k-means from the same start, on the same points",
        ["run", "m", "k", "scaled", "steps asked", "steps", "equal labels", "least", "sklearn's",
         "excess cost", "forks (points, gap)", "a client sends", "time of all"],
        lines(rows),
    )  # fmt: skip


if __name__ == "__main__":
    main()
