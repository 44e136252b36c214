"""Density clusters: bytes, and processor time over scikit-learn's, with parts played by one and by two.

    python -m benchmarks.pairs --out pairs.jsonl

Made-up points of five clients.  `party_s` is the processor time of the busiest client, `server_s` of the
server, `all_s` of all parties together; `mb` are all messages, and `bytes_pair` those of a pair of points.
`sklearn_s` is scikit-learn's DBSCAN on the same points, by brute force as no index is known to anybody here;
`ratio` is `party_s` over it.  Labels are compared with it on the integers, and a difference ends the script.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np

import secfc
from benchmarks.common import Row, run_grid, show
from secfc.roles.exchange import SERVER

COLUMNS = (
    "m", "d", "deviating", "mb", "bytes_pair", "party_s", "server_s", "all_s", "sklearn_s", "ratio",
)  # fmt: skip
SIZES, CLIENTS, SAMPLES = (1000, 2000, 5000, 10_000, 20_000), 5, 5


def cells(quick: bool) -> Iterator[Row]:
    """The grid: rows, features, and how many of a committee may deviate."""
    for m in (60,) if quick else SIZES:
        for deviating in (0, 1) if m <= 10_000 else (0,):
            yield {"script": "pairs", "m": m, "d": 20, "deviating": deviating, "seed": 0}


def measure(cell: Row) -> Iterator[Row]:
    """One run, beside scikit-learn's."""
    from sklearn.cluster import DBSCAN

    m, d = cell["m"], cell["d"]
    rng = np.random.default_rng(cell["seed"])
    points = rng.uniform(-4, 4, (8, d))[np.arange(m) % 8] + rng.normal(0, 0.5, (m, d))
    eps = 0.5 * np.sqrt(2 * d) * 1.05  # a little beyond a typical distance within a cluster
    way = secfc.DBSCAN(eps, SAMPLES, threshold=secfc.Threshold(1, deviating=cell["deviating"]))
    parts = [points[j::CLIENTS] for j in range(CLIENTS)]
    secfc.fit(way, [part[:8] for part in parts], bound=8.0)  # loads the kernels
    spent, marks = defaultdict[str, float](float), [time.process_time()]

    def watch(party: str, exchange: object) -> None:
        spent[party] += time.process_time() - marks[-1]
        marks.append(time.process_time())

    result = secfc.fit(way, parts, bound=8.0, watch=watch)
    rows = result.plan.quantizer(np.concatenate(parts))
    start = time.process_time()
    found = DBSCAN(eps * float(result.plan.scale), min_samples=SAMPLES, algorithm="brute").fit_predict(rows)
    sklearn_s = time.process_time() - start
    if (found != result.flat).any():
        raise click.ClickException(f"m={m}: labels differ from scikit-learn's")
    server, total, nbytes = spent.pop(SERVER), sum(spent.values()), result.transcript.nbytes()
    busiest = max(spent.values())
    yield {
        "mb": nbytes / 1e6, "bytes_pair": 2 * nbytes / m / (m - 1), "party_s": busiest, "server_s": server,
        "all_s": total + server, "sklearn_s": sklearn_s, "ratio": busiest / sklearn_s,
    }  # fmt: skip


@click.command(help=__doc__.split("\n")[0])
@click.option("--quick", is_flag=True, help="A small grid, to try the script.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Append rows to this file.")
def main(quick: bool, out: Path | None) -> None:
    """Run the grid and print a line a cell."""
    rows = list(run_grid(cells(quick), measure, out))
    lines = [[f"{row['cell'].get(name, row.get(name)):.4g}" for name in COLUMNS] for row in rows]
    show("Density clusters", list(COLUMNS), lines)


if __name__ == "__main__":
    main()
