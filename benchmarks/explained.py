"""Joined columns: what a bound on what labels explain would stop, of honest runs and of readers of others.

    python -m benchmarks.explained --data folder --out explained.jsonl

Three bounds that could decide whether owners are told labels.  `explained`: the largest share of a column's
variance that labels explain.  `pure`: 1 less the least share of a column's variance that is left in a
cluster of ten points or more.  `moved`: the largest share of people whose label is not that of the nearest
center in one owner's columns alone, the median of TIMES ways to divide columns among each of 2 to 5 owners.

Honest runs are plaintext k-means on columns of variance 1, of sets that come with scikit-learn, and of all
matrices in .npz files of a folder.  Two owners that read another's column of yes and no play through the
protocol: one brings four columns of weak noise, with two clusters, the other a column of its own, yes for one
person in seven, with three.  `read` is of how many of the others' people labels tell the column, always.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

import secfc
from benchmarks.common import Row, require, run_grid, show
from secfc.coded.joined import Joined

Array = Any
BUNDLED, TIMES, ROWS, WIDTH = ("iris", "wine", "breast_cancer", "digits", "diabetes"), 10, 1500, 40
BOUNDS, STATISTICS = (0.4, 0.5, 0.7, 0.8, 0.9), ("explained", "pure", "moved")


def cells(data: Path | None, seeds: int, quick: bool) -> Iterator[Row]:
    """The grid: sets and numbers of clusters, then attacks."""
    found = [*BUNDLED, *(() if data is None else matrices(data))]
    for name in found[:1] if quick else found:
        for k in (2, 3) if quick else (2, 3, 4, 6, 8, 10):
            yield {"script": "explained", "data": name, "k": k, "seed": 0}
    for name, k in (("noise", 2), ("flag", 3)):
        for seed in range(seeds):
            yield {"script": "explained", "data": name, "k": k, "seed": seed}


def matrices(folder: Path) -> dict[str, tuple[Path, str]]:
    """Where matrices of this folder's files are, by name; "" where all arrays of a file are its columns."""
    found = {}
    for path in sorted(folder.glob("*.npz")):
        named = [name for name in np.load(path).files if name == "X" or name.endswith("_X")]
        found |= {f"{path.stem}:{name}": (path, name) for name in named or [""]}
    return found


def points_of(name: str, data: Path | None, rng: np.random.Generator) -> Array:
    """Some rows and columns of a set, of variance 1."""
    if name in BUNDLED:
        from sklearn import datasets

        points = getattr(datasets, f"load_{name}")().data
    else:
        assert data is not None
        path, array = matrices(data)[name]
        held = np.load(path)
        points = (
            held[array]
            if array
            else np.stack([x for x in map(held.get, held.files) if x.dtype.kind in "iuf"], 1)
        )
    points = points[rng.permutation(len(points))[:ROWS]].astype(float)
    points = points[:, points.std(axis=0) > 0.02 * np.ptp(points, axis=0)]
    points = points[:, rng.permutation(points.shape[1])[:WIDTH]]
    return (points - points.mean(axis=0)) / points.std(axis=0)


def explained_shares(points: Array, labels: Array) -> Array:
    """Of each column (d,), of variance 1 and mean 0, the share of variance that labels (m,) explain."""
    groups = [points[labels == h] for h in np.unique(labels)]
    return sum(len(own) * own.mean(axis=0) ** 2 for own in groups) / len(points)


def measure_honest(points: Array, k: int, rng: np.random.Generator) -> Row:
    """The three statistics of one set."""
    from sklearn.cluster import KMeans

    fit = KMeans(k, n_init=5, random_state=0).fit(points)
    left = [points[fit.labels_ == h].var(axis=0).min() for h in range(k) if (fit.labels_ == h).sum() >= 10]
    d, moved = points.shape[1], []
    for owners in range(2, min(5, d) + 1):
        for _ in range(TIMES):
            cuts = np.sort(rng.choice(np.arange(1, d), owners - 1, replace=False))
            blocks = np.split(rng.permutation(d), cuts)
            apart = [
                ((points[:, None, own] - fit.cluster_centers_[:, own]) ** 2).sum(axis=2) for own in blocks
            ]
            moved.append(max(np.mean(each.argmin(axis=1) != fit.labels_) for each in apart))
    return {
        "explained": float(explained_shares(points, fit.labels_).max()), "pure": float(1 - min(left)),
        "moved": float(np.median(moved)),
    }  # fmt: skip


def measure_attack(kind: str, k: int, seed: int, m: int = 200) -> Row:
    """What labels explain of another's column, and of how many people they tell it."""
    rng = np.random.default_rng(seed)
    secret, flag = rng.random(m) < 0.5, rng.permutation(m) < m / 7
    theirs, yes = ((x - x.mean()) / x.std() for x in (secret[:, None], flag[:, None]))
    mine = yes if kind == "flag" else 0.25 * rng.normal(size=(m, 4))
    names = [tuple(f"x{i}" for i in range(mine.shape[1])), ("secret",)]
    owners = secfc.Federation.from_arrays([mine, theirs], features=names)
    parties = secfc.Federation((*owners.parties, secfc.Party.without_data("helper")))
    way = secfc.SecFC(k, 1, membership=Joined(align="given"))
    labels = secfc.fit(way, parties, seed=seed).labels[0]
    found = explained_shares(theirs, labels)
    told = [max(own.mean(), 1 - own.mean()) for own in (secret[labels == h] for h in labels)]
    return {"explained": float(found[0]), "read": float(np.mean(np.array(told) > 0.9))}


@click.command(help=__doc__.split("\n")[0])
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path), help="More sets.")
@click.option("--seeds", default=20, show_default=True, help="Runs of each attack.")
@click.option("--quick", is_flag=True, help="A small grid, to try the script.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Append rows to this file.")
def main(data: Path | None, seeds: int, quick: bool, out: Path | None) -> None:
    """Run the grid and print what each bound would stop."""
    require("sklearn", "scikit-learn", "attacks")

    def measure(cell: Row) -> Iterator[Row]:
        rng = np.random.default_rng(cell["seed"])
        if cell["data"] in ("noise", "flag"):
            yield measure_attack(cell["data"], cell["k"], cell["seed"])
        else:
            yield measure_honest(points_of(cell["data"], data, rng), cell["k"], rng)

    rows = list(run_grid(cells(data, 1 if quick else seeds, quick), measure, out))
    honest = [row for row in rows if "read" not in row]
    show(
        "Share of honest runs that a bound stops",
        ["bound", *STATISTICS],
        [
            [f"{bound:g}", *(f"{np.mean([row[s] > bound for row in honest]):.2f}" for s in STATISTICS)]
            for bound in BOUNDS
        ],
    )
    show(
        "Owners that read a column of yes and no",
        ["columns", "explained", "above .9", "people read"],
        [
            [
                kind, f"{np.median([row['explained'] for row in own]):.2f}",
                f"{sum(row['explained'] > 0.9 for row in own)} of {len(own)}",
                f"{np.median([row['read'] for row in own]):.2f}",
            ]
            for kind in ("noise", "flag")
            if (own := [row for row in rows if row["cell"]["data"] == kind])
        ],
    )  # fmt: skip


if __name__ == "__main__":
    main()
