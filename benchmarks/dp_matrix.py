"""Where private clustering loses: excess cost of FedDP-KMeans and its rivals, data set by epsilon.

    python -m benchmarks.dp_matrix --data FOLDER --out matrix.jsonl
    python -m benchmarks.dp_matrix --set "texts" --epsilon 0.25 --runs 8

Rivals at their best setting: the published method, corrected; k-means of the server's points and one private
step with our statistics (`ServerLloyds`); and two that ask nobody: k-means of the server's points alone, and
one single center, the mean of all rows.  A cell is marked where ours costs more than 1.1 times the best rival
and .003.  Excess: cost per point above the optimum, the best of 20 restarts of k-means and of all methods.
Every run has another draw of the server's points, and its own noise.
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
from benchmarks.dp import cost_per_point, optimum
from benchmarks.dp_data import SETS
from benchmarks.dp_methods import DELTA, FedDP, Method, Played, Problem, nearest
from secfc.feddp import PAPER, ServerLloyds

Array = Any

FACTOR, SLACK = 1.1, 0.003  # what a rival may be better by


class ServerAlone:
    """k-means of the server's points: nobody is asked."""

    def play(self, cell: Row, problem: Problem, seed: int) -> Played:
        held = problem.federation.server_points
        centers = ServerLloyds().draw_centers(held, cell["k"], np.random.default_rng(seed))
        return Played(centers, nearest(problem.points, centers))


class OneCenter:
    """The mean of all rows, as if it were free."""

    def play(self, cell: Row, problem: Problem, seed: int) -> Played:
        return Played(problem.points.mean(axis=0)[None], np.zeros(len(problem.points), int))


METHODS: dict[str, Method] = {
    "ours": FedDP(),
    "published": FedDP({"variant": PAPER}),
    "ServerLloyds": FedDP({"start": ServerLloyds(), "steps": 1}),
    "server alone": ServerAlone(),
    "one center": OneCenter(),
}
FREE = ("server alone", "one center")


@lru_cache(maxsize=2)
def problem(name: str, seed: int, folder: Path | None) -> Problem:
    """The data of a cell, gathered at 5 clients where data points are protected, and their optimum."""
    chosen = SETS[name]
    held = chosen.make(folder, np.random.default_rng([seed, 20_260]))
    n = len(held.points) // chosen.rows if chosen.rows else 5
    federation = secfc.Federation.from_arrays(np.array_split(held.points, n), server_points=held.server)
    points = np.asarray(held.points, np.float32)
    best, cost = optimum(points, chosen.k, [("k-means++", 20)])
    return Problem(federation, points, best, cost)


def cells(
    names: tuple[str, ...], epsilons: tuple[float, ...], methods: tuple[str, ...], runs: int
) -> Iterator[Row]:
    """The grid: one cell a set, run, method and epsilon."""
    for name in names:
        chosen = SETS[name]
        for seed in range(runs):
            for method in methods:
                for epsilon in (None,) if method in FREE else epsilons or chosen.epsilons:
                    yield {
                        "script": "dp_matrix", "set": name, "k": chosen.k, "rows": chosen.rows,
                        "unit": "client" if chosen.rows else "data point",
                        "method": method, "epsilon": epsilon, "seed": seed,
                    }  # fmt: skip


def measure(cell: Row, folder: Path | None) -> Iterator[Row]:
    """One run."""
    given = problem(cell["set"], cell["seed"], folder)
    started = time.perf_counter()
    played = METHODS[cell["method"]].play(cell, given, cell["seed"])
    seconds = time.perf_counter() - started
    cost = cost_per_point(given.points, played.centers)
    whole = cost_per_point(given.points, given.points.mean(axis=0, dtype=np.float64)[None])
    yield {
        "cost": cost, "optimal_cost": given.cost, "one_center": whole, "seconds": seconds,
        "spent": None if played.ledger is None else played.ledger.epsilon(DELTA),
    }  # fmt: skip


def table(rows: list[Row]) -> dict[tuple[str, float], dict[str, float]]:
    """The median excess of every method, by set and epsilon; those that ask nobody are in every line."""
    best: dict[tuple[str, int], float] = {}
    for row in rows:
        key = row["cell"]["set"], row["cell"]["seed"]
        best[key] = min(best.get(key, row["optimal_cost"]), row["cost"])
    found: dict[tuple[str, float | None], dict[str, list[float]]] = {}
    for row in rows:
        cell = row["cell"]
        line = found.setdefault((cell["set"], cell["epsilon"]), {})
        line.setdefault(cell["method"], []).append(row["cost"] - best[cell["set"], cell["seed"]])
    done = {}
    for (name, epsilon), methods in found.items():
        if epsilon is not None:
            both = methods | found.get((name, None), {})
            done[name, epsilon] = {method: float(np.median(values)) for method, values in both.items()}
    return done


def loses(line: dict[str, float]) -> bool:
    """Whether ours is worse than the best rival by more than is allowed."""
    rivals = [excess for method, excess in line.items() if method != "ours"]
    return bool(rivals) and line["ours"] > FACTOR * min(rivals) + SLACK


def printed(rows: list[Row]) -> Iterator[list[str]]:
    """A line a set and epsilon, the lost ones marked."""
    for (name, epsilon), line in sorted(table(rows).items(), key=lambda item: (item[0][0], item[0][1])):
        marks = ["LOST" if "ours" in line and loses(line) else ""]
        yield [name, f"{epsilon:g}", *(f"{line[m]:.4f}" if m in line else "" for m in METHODS), *marks]


@click.command(help=__doc__.split("\n")[0])
@click.option(
    "--set", "names", type=click.Choice(list(SETS)), multiple=True, help="Only this; may be repeated."
)
@click.option("--epsilon", "epsilons", type=float, multiple=True, help="Only this total; may be repeated.")
@click.option("--method", "methods", type=click.Choice(list(METHODS)), multiple=True,
              help="Only this method; may be repeated.")  # fmt: skip
@click.option("--runs", default=8, show_default=True, help="Draws of the server's points, one run each.")
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Folder with acs_income_2018_states.npz; without, census sets are left out.")  # fmt: skip
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Append rows to this file.")
def main(
    names: tuple[str, ...], epsilons: tuple[float, ...], methods: tuple[str, ...], runs: int,
    data: Path | None, out: Path | None,
) -> None:  # fmt: skip
    """Run the grid and print the matrix."""
    names = names or tuple(name for name in SETS if data is not None or not name.startswith("census"))
    if data is None and any(name.startswith("census") for name in names):
        raise click.UsageError(
            "census sets need the folder of acs_income_2018_states.npz: name it with --data"
        )
    todo = list(cells(names, epsilons, methods or tuple(METHODS), runs))
    found = []
    with click.progressbar(todo, label="dp_matrix") as bar:
        found.extend(run_grid(bar, lambda cell: measure(cell, data), out))
    show(
        f"Median excess cost per point, delta={DELTA:g}; LOST: above {FACTOR} x the best rival + {SLACK}",
        ["data", "epsilon", *METHODS, ""],
        printed(found),
    )


if __name__ == "__main__":
    main()
