"""Columns of several owners beside the same table by rows, and what a dendrogram adds, in bytes and time.

    python -m benchmarks.columns --out columns.jsonl

Three owners of a made-up table, five steps.  `share_ratio` is the bytes of sharing over those of rows that
everybody knows whose they are; `ratio` the processor time of a whole run over that of `Private()` on the same
rows, both interleaved, the least of three each.  `tree_share` is the part of a run's bytes that the question
of a dendrogram takes, of 1500 points in 40 clusters.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

import psu
import secfc
from benchmarks.common import Row, run_grid, show
from secfc.coded.joined import Joined
from secfc.coded.membership import Private
from secfc.roles.exchange import STRIDE

COLUMNS = ("m", "policy", "share_mb", "share_ratio", "mb", "run_s", "private_s", "ratio", "tree_share")
POLICIES = {"AssignmentsOnly": secfc.AssignmentsOnly(), "OwnLabels": secfc.OwnLabels()}
OWNERS, D, TIMES = 3, 20, 3


def cells(quick: bool) -> Iterator[Row]:
    """The grid: rows and policies, and a run with a dendrogram of each policy."""
    for policy in POLICIES:
        for m in (60,) if quick else (2000, 20_000):
            yield {"script": "columns", "m": m, "k": 8, "policy": policy, "seed": 0}
        yield {
            "script": "columns",
            "m": 60 if quick else 1500,
            "k": 8 if quick else 40,
            "policy": policy,
            "seed": 1,
        }


def shared(result: Any) -> int:
    """Bytes of sharing rows."""
    return sum(e.nbytes for e in result.transcript.envelopes if e.phase == "share")


def timed(way: secfc.SecFC, federation: Any) -> tuple[Any, float]:
    """A run, and its processor time, of all parties together."""
    start = time.process_time()
    result = secfc.fit(way, federation, bound=16.0, seed=0)
    return result, time.process_time() - start


def measure(cell: Row) -> Iterator[Row]:
    """One run by columns beside those by rows; or one with a dendrogram."""
    m, k = cell["m"], cell["k"]
    rng = np.random.default_rng(cell["seed"])
    points = rng.uniform(-4, 4, (k, D))[np.arange(m) % k] + rng.normal(0, 1.0, (m, D))
    way = secfc.SecFC(k, 1, secfc.RandomLabels(), 1, 5, disclosure=POLICIES[cell["policy"]])
    names = [f"p{i}" for i in range(m)]
    rows = secfc.Federation.from_arrays(
        np.array_split(points, OWNERS), ids=[list(part) for part in np.array_split(names, OWNERS)]
    )
    if cell["seed"]:
        tree, seconds = timed(replace(way, release=secfc.Release(dendrogram=True)), rows)
        asked = [e.round for e in tree.transcript.envelopes if e.kind in ("LossQuery", "SplitGainQuery")]
        said = sum(e.nbytes for e in tree.transcript.envelopes if max(asked) <= e.round < max(asked) + STRIDE)
        sent = tree.transcript.nbytes()
        yield {"mb": sent / 1e6, "run_s": seconds, "tree_share": said / sent}
        return
    cut = np.array_split(np.arange(D), OWNERS)
    columns = secfc.Federation.from_arrays(
        [points[:, own] for own in cut],
        ids=[names] * OWNERS,
        features=[[f"x{c}" for c in own] for own in cut],
    )
    joined, private = replace(way, membership=Joined()), replace(way, membership=Private(psu.Committee(1)))
    spent: dict[str, list[float]] = {"columns": [], "private": []}
    for _ in range(TIMES):
        found, seconds = timed(joined, columns)
        spent["columns"].append(seconds)
        spent["private"].append(timed(private, rows)[1])
    open_rows, least = shared(secfc.fit(way, rows, bound=16.0, seed=0)), {n: min(s) for n, s in spent.items()}
    yield {
        "share_mb": shared(found) / 1e6, "share_ratio": shared(found) / open_rows,
        "mb": found.transcript.nbytes() / 1e6, "run_s": least["columns"], "private_s": least["private"],
        "ratio": least["columns"] / least["private"],
    }  # fmt: skip


@click.command(help=__doc__.split("\n")[0])
@click.option("--quick", is_flag=True, help="A small grid, to try the script.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Append rows to this file.")
def main(quick: bool, out: Path | None) -> None:
    """Run the grid and print a line a cell."""
    lines = []
    for row in run_grid(cells(quick), measure, out):
        values = [row["cell"].get(name, row.get(name, "")) for name in COLUMNS]
        lines.append([f"{value:.4g}" if isinstance(value, int | float) else value for value in values])
    show("Columns of three owners", list(COLUMNS), lines)


if __name__ == "__main__":
    main()
