"""Differentially private clustering: cost per point against the total epsilon, FedDP-KMeans and its rivals.

    python -m benchmarks.dp --setting silo --out dp.jsonl
    python -m benchmarks.dp --setting device --clients 2000 --epsilon 0.5 --epsilon 1 --out dp.jsonl
    python -m benchmarks.dp --setting census --data acs.npz --out dp.jsonl
    python -m benchmarks.dp --setting silo --ablation --epsilon 0.25 --out dp.jsonl
    python -m benchmarks.dp --setting silo --people --out dp.jsonl
    python -m benchmarks.dp --setting silo --missing 2 --epsilon 2 --out dp.jsonl
    python -m benchmarks.plot dp.jsonl --folder pictures

The settings of the FedDP-KMeans paper (Figures 1 to 9).  silo: a Gaussian mixture at 100 clients of 1000
points, one data point protected.  device: the same mixture at 1000, 2000 or 5000 clients of 50 points, one
client protected.  census: people of one employment type, a client a state, one person protected.  vectors:
vectors of users, one user protected.  Figure 1 is silo beside census (federal), 2 device beside vectors, 3
and 4 census (non-profit, self-employed), 5 and 6 device of 1000 and 5000 clients, 7 to 9 vectors of other
topics.  Stack Overflow's vectors are theirs: any file of vectors with users and topics takes their place.

excess: cost per point above the optimum's, which is the best of 20 restarts of k-means on all points (started
also from the true means where they are known).  Every private method spends the whole budget; epsilon is
what the ledger says, computed from what was released.  Bounds come from the server's points.  Splits of the
budget were chosen once, for the mixture; no run chooses anything by looking at its result, except in
--pareto, which shows what such a choice would seem to gain, at a privacy cost that nobody pays.
k-FED and the optimum are not private.  Initial centers of theirs, continued by private steps, are not either:
these rows show what such a start would be worth.

SecFC with noise on its distances releases labels and centers, so it needs no server's points beside the
radius; it is played up to epsilon 1024 unless epsilons are given.  Its clients send one another noise, so a
silo's are gathered at 5 sites, which changes no data point; and protecting clients needs at most 100 of them.

A second table has labels: how many are right, who has them, and first the most that any release of labels
allows to be right (`secfc.privacy.mechanisms.RandomizedResponse`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import click
import numpy as np

import secfc
from benchmarks.common import Row, run_grid, show
from benchmarks.dp_methods import (
    ABLATION,
    BY_POINT,
    DELTA,
    METHODS,
    PEOPLE,
    SPLITS,
    USUAL,
    NotPrivate,
    Problem,
    most_right,
)
from benchmarks.server_points import EMPLOYMENT, load_census, load_vectors, server_side_mixture
from secfc.metrics import accuracy, adjusted_rand, fowlkes_mallows, purity

Array = Any

EPSILONS = {"silo": (0.1, 0.25, 0.5, 1.0, 2.0), "device": (0.5, 1.0, 2.0, 4.0)}
EPSILONS |= {"census": (0.25, 0.5, 1.0, 2.0), "vectors": (0.5, 1.0, 2.0, 4.0)}
PROTECTED = {"silo": "data point", "device": "client", "census": "data point", "vectors": "client"}
# Published code, corrected, 20 restarts, at the data-point level; the paper's figures at the client level.
REFERENCE = {
    ("silo", 0.25): 0.91, ("silo", 0.5): 0.034, ("silo", 1.0): 0.008, ("silo", 2.0): 0.002,
    ("device", 0.5): 5.9, ("device", 1.0): 3.3, ("device", 2.0): 1.3, ("device", 4.0): 0.7,
}  # fmt: skip


def cells(setting: Row, epsilons: tuple[float, ...], methods: tuple[str, ...], seeds: int) -> Iterator[Row]:
    """The grid: one cell a data seed, method and epsilon; none given: the setting's, and those beyond."""
    for seed in range(seeds):
        for method in methods:
            way = METHODS[method]
            asked = epsilons or (*EPSILONS[setting["setting"]], *way.beyond)
            for epsilon in (None,) if isinstance(way, NotPrivate) else asked:
                yield {"script": "dp", **setting, "method": method, "epsilon": epsilon, "seed": seed}


@lru_cache(maxsize=1)
def problem(
    setting: str, clients: int, rows: int, k: int, seed: int, data: Path | None, chosen: str, missing: int = 0
) -> Problem:
    """The data of a cell and their optimum."""
    starts: list[Any] = [("k-means++", 20)]
    if setting in ("silo", "device"):
        rng = np.random.default_rng([seed, clients])
        points, truth, means, server = server_side_mixture(clients, rows, rng, k=k, missing=missing)
        parts = points.reshape(clients, rows, -1)
        federation = secfc.Federation.from_arrays(
            list(parts), truth=list(truth.reshape(clients, rows)), server_points=server
        )
        # The true means lead to the optimum of a mixture; restarts find the same, and take minutes.
        starts = [(means, 1)]
    elif data is None:
        raise click.UsageError(f"--setting {setting} needs a file: name it with --data")
    elif setting == "census":
        federation = load_census(data, chosen, seed=seed)
    else:
        topics = tuple(chosen.split(","))
        federation = load_vectors(data, topics, seed=seed)
    points = np.asarray(federation.stacked(), np.float32 if federation.m > 50_000 else np.float64)
    best, cost = optimum(points, k, starts)
    return Problem(federation, points, best, cost)


def optimum(points: Array, k: int, starts: list[Any]) -> tuple[Array, float]:
    """The best of several k-means runs: centers (k, d), and the cost per point."""
    from scipy.sparse import csr_matrix
    from sklearn.cluster import KMeans

    # Of bits of categories nearly all are 0: the same k-means, on those that are not.
    rows = csr_matrix(points) if np.count_nonzero(points[:100]) < points[:100].size / 20 else points
    fits = [KMeans(k, init=init, n_init=n, random_state=0).fit(rows) for init, n in starts]
    best = min(fits, key=lambda fit: fit.inertia_).cluster_centers_
    return best, cost_per_point(points, best)


def cost_per_point(points: Array, centers: Array) -> float:
    """Mean squared distance of points to the nearest center; blocks of rows, summed in float64."""
    total = 0.0
    for start in range(0, len(points), 8192):
        block = np.asarray(points[start : start + 8192], np.float64)
        scores = (centers**2).sum(axis=1) - 2 * block @ centers.T
        total += float((scores.min(axis=1) + (block**2).sum(axis=1)).sum())
    return total / len(points)


def measure(cell: Row, runs: int, data: Path | None) -> Iterator[Row]:
    """All runs of one cell."""
    given = problem(
        cell["setting"], cell["clients"], cell["rows"], cell["k"], cell["seed"], data, cell["chosen"],
        cell.get("missing", 0),
    )  # fmt: skip
    method = METHODS[cell["method"]]
    for run in range(1 if isinstance(method, NotPrivate) else runs):
        started = time.perf_counter()
        played = method.play(cell, given, run)
        seconds = time.perf_counter() - started
        cost, truth = cost_per_point(given.points, played.centers), given.federation.truth
        row: Row = {
            "run": run, "cost": cost, "excess": cost - given.cost, "optimal_cost": given.cost,
            "seconds": seconds, "accuracy": None if truth is None else accuracy(truth, played.labels),
            "purity": None if truth is None else purity(truth, played.labels),
            "adjusted_rand": None if truth is None else adjusted_rand(truth, played.labels),
            "fowlkes_mallows": None if truth is None else fowlkes_mallows(truth, played.labels),
            "spent": None if played.ledger is None else played.ledger.epsilon(DELTA),
        }  # fmt: skip
        if played.details is not None:
            row["steps"] = [
                {"what": r.what, "size": r.size, "noise": r.noise, "snr": r.signal / r.noise}
                for r in played.details.server.released
            ]
            row["clipped"] = {what: some / of for what, (some, of) in played.details.shortened.items()}
        yield row


def summary(rows: list[Row]) -> Iterator[list[str]]:
    """One line a method and epsilon: median and worst over data seeds and runs."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["cell"]["method"], row["cell"]["epsilon"]), []).append(row)
    for (method, epsilon), members in groups.items():
        excess = [r["excess"] for r in members]
        correct = [r["accuracy"] for r in members if r["accuracy"] is not None]
        first = members[0]["cell"]
        papers = (first["clients"], first["rows"]) in ((100, 1000), (2000, 50))
        known = REFERENCE.get((first["setting"], epsilon)) if papers else None
        yield [
            method, "none" if epsilon is None else f"{epsilon:g}", f"{np.median(excess):.4f}",
            f"{max(excess):.4f}", f"{known:g}" if known and method in ("ours", "paper") else "",
            f"{100 * np.median(correct):.2f}" if correct else "",
            f"{np.median([r['seconds'] for r in members]):.2f}", str(len(members)),
        ]  # fmt: skip


def right_labels(rows: list[Row]) -> tuple[list[str], list[list[str]]]:
    """Head and lines of labels that are right, in %, by total epsilon, and who has them; the bound first.

    Right is the best match with the true classes, so without privacy the optimum's.  The bound is on labels
    that others see, whoever computes them, where one data point is replaced.
    """
    found: dict[str, dict[float | None, list[float]]] = {}
    for row in rows:
        if row["accuracy"] is not None:
            by = found.setdefault(row["cell"]["method"], {})
            by.setdefault(row["cell"]["epsilon"], []).append(row["accuracy"])
    columns = sorted({e for by in found.values() for e in by if e is not None})
    if not columns:
        return [], []
    k = rows[0]["cell"]["k"]
    lines = [
        [
            "at most, whatever is released",
            "everybody",
            *(f"{100 * most_right(e, k):.1f}" for e in columns),
            "",
        ]
    ]
    for method, by in found.items():
        right = {e: f"{100 * np.median(part):.1f}" for e, part in by.items()}
        each = [right.get(e, "") for e in columns]
        lines.append([method, METHODS[method].reader, *each, right.get(None, "")])
    return ["method", "who has them", *(f"{e:g}" for e in columns), "no noise"], lines


def steps(rows: list[Row]) -> Iterator[list[str]]:
    """Noise, signal-to-noise ratio and clipped share of every step, medians over runs."""
    groups: dict[tuple[Any, ...], list[tuple[Row, Row]]] = {}
    for row in rows:
        for step in row.get("steps", ()):
            key = (row["cell"]["method"], row["cell"]["epsilon"], step["what"])
            groups.setdefault(key, []).append((step, row["clipped"]))
    for (method, epsilon, what), members in groups.items():
        first = ("rows" if what == "outer product" else "residuals") if not what.startswith("weights") else ""
        clipped = [c.get(what.split(" of step")[0], c.get(what, c.get(first, 0.0))) for _, c in members]
        yield [
            method, f"{epsilon:g}", what, str(members[0][0]["size"]),
            f"{np.median([s['noise'] for s, _ in members]):.4g}",
            f"{np.median([s['snr'] for s, _ in members]):.3g}",
            f"{100 * np.median(clipped):.1f}",
        ]  # fmt: skip


@click.command(help=__doc__.split("\n")[0])
@click.option("--setting", type=click.Choice(sorted(EPSILONS)), default="silo", show_default=True)
@click.option("--clients", default=None, type=int, help="Clients of the mixture.  [silo 100, device 2000]")
@click.option("--rows", default=None, type=int, help="Points of a client.  [silo 1000, device 50]")
@click.option("--k", default=10, show_default=True, help="Clusters.")
@click.option("--epsilon", "epsilons", type=float, multiple=True, help="Only this total; may be repeated.")
@click.option("--method", "methods", type=click.Choice(sorted(METHODS)), multiple=True,
              help="Only this method; may be repeated.")  # fmt: skip
@click.option("--protect", type=click.Choice(["data point", "client"]),
              help="Whom privacy protects.  [device and vectors: client, else data point]")  # fmt: skip
@click.option("--ablation", is_flag=True, help="The improvements, one after the other and one by one.")
@click.option("--pareto", is_flag=True, help="Several splits of the budget and numbers of Lloyd steps.")
@click.option("--people", is_flag=True, help="Persons as unit, with rows at up to 1, 2, 3 and 5 clients.")
@click.option("--missing", default=0, show_default=True,
              help="Clusters of the mixture of which the server has no point.")  # fmt: skip
@click.option("--seeds", default=5, show_default=True, help="Data sets.")
@click.option("--runs", default=5, show_default=True, help="Runs on every data set.")
@click.option("--data", type=click.Path(exists=True, path_type=Path), help="File of census or vectors.")
@click.option("--chosen", default="federal", show_default=True,
              help=f"Census: {', '.join(EMPLOYMENT)}. Vectors: topics with commas between.")  # fmt: skip
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Append rows to this file.")
def main(
    setting: str, clients: int | None, rows: int | None, k: int, epsilons: tuple[float, ...],
    methods: tuple[str, ...], protect: str | None, ablation: bool, pareto: bool, people: bool, missing: int,
    seeds: int, runs: int, data: Path | None, chosen: str, out: Path | None,
) -> None:  # fmt: skip
    """Run the grid and print excess costs, and what every step released at what noise."""
    unit = protect or PROTECTED[setting]
    if not methods:
        methods = tuple(m for m in USUAL if unit == "data point" or m not in BY_POINT)
        if ablation:
            methods = tuple(ABLATION)
        if pareto:
            methods = ("ours", *SPLITS)
        if people:
            methods = ("ours", *PEOPLE)
    mixture = setting in ("silo", "device")
    fixed = {
        "setting": setting, "unit": unit, "k": k,
        "chosen": "" if mixture else chosen,
        "clients": clients or (100 if setting == "silo" else 2000) if mixture else 0,
        "rows": rows or (1000 if setting == "silo" else 50 if setting == "device" else 10),
    } | ({"missing": missing} if missing and mixture else {})  # fmt: skip
    todo = list(cells(fixed, epsilons, methods, seeds))
    found = []
    with click.progressbar(todo, label=f"dp, {setting}") as bar:
        found.extend(run_grid(bar, lambda cell: measure(cell, runs, data), out))
    show(
        f"Excess cost per point over the optimum, {setting}, delta={DELTA:g}",
        ["method", "epsilon", "median", "worst", "reference", "accuracy %", "seconds", "runs"],
        summary(found),
    )
    head, lines = right_labels(found)
    if lines and unit == "data point":
        show(f"Labels: right ones in %, by total epsilon, {setting}", head, lines)
    usual = [row for row in found if row["cell"]["method"] in ("ours", "paper")]
    show(
        "Steps: noise (standard deviation, data units), signal to noise, clipped contributions",
        ["method", "epsilon", "step", "numbers", "noise", "signal/noise", "clipped %"],
        steps(usual),
    )


if __name__ == "__main__":
    main()
