"""Where private clustering wins and loses, data set by epsilon: docs/dp_matrix.md, with quartiles.

    python -m benchmarks.dp_matrix --data FOLDER --out matrix.jsonl --page
    python -m benchmarks.dp_matrix --set "texts" --epsilon 0.25 --runs 8

Four parts (`--part`).  points: rivals at their best setting are the published method, corrected; k-means of
the server's points and one private step with our statistics (`ServerLloyds`); and two that ask nobody:
k-means of the server's points alone, and one single center, the mean of all rows.  people: persons with rows
at two clients, noisy sums on shares beside noise twice as wide.  alone: no points at the server, a public box
of values only, beside PE-means (`benchmarks.dp_alone`).  radius: the same with a box that is too large, or
elsewhere, with a private ball and without.

Excess: cost per point above the optimum, the best of 20 restarts of k-means and of all methods, over that of
one center.  A cell is lost where the median of ours is above 1.1 times the best rival's and .003.  Every run
has other data or another draw of the server's points, and its own noise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import click
import numpy as np

import secfc
from benchmarks import dp_alone
from benchmarks.common import Row, run_grid, show
from benchmarks.dp import cost_per_point, optimum
from benchmarks.dp_data import SETS, Set
from benchmarks.dp_methods import DELTA, FedDP, Method, Persons, Played, Problem, Sums, nearest
from benchmarks.dp_unseen import UNSEEN
from secfc.feddp import PAPER, ServerLloyds

Array = Any

FACTOR, SLACK = 1.1, 0.003  # what a rival may be better by
EVERY: dict[str, Set] = SETS | UNSEEN


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


@dataclass(frozen=True)
class Alone:
    """A method of `benchmarks.dp_alone`, on the clients' rows and the box of their values alone.

    off: by how many of its radii the box's middle is elsewhere; wider: how many times too large it is.
    """

    cluster: Callable[[dp_alone.Problem, float, int], tuple[Array, float]]
    wider: float = 1
    off: float = 0

    def play(self, cell: Row, problem: Problem, seed: int) -> Played:
        box = UNSEEN[cell["set"]]
        half = (box.high - box.low) / 2
        middle = (box.high + box.low) / 2 - self.off * half
        moved = np.asarray(problem.points, np.float64) - middle
        given = dp_alone.Problem(moved, cell["k"], half * self.wider, 0.0, 1.0)
        centers = self.cluster(given, cell["epsilon"], seed)[0] + middle
        return Played(centers, nearest(problem.points, centers))


METHODS: dict[str, Method] = {
    "ours": FedDP(),
    "published": FedDP({"variant": PAPER}),
    "ServerLloyds": FedDP({"start": ServerLloyds(), "steps": 1}),
    "server alone": ServerAlone(),
    "one center": OneCenter(),
}
BALL = partial(dp_alone.ours, boxes=2)
PLACES = {"x 1": (1, 0), "x 4": (4, 0), "x 30": (30, 0), "3 off": (4, 3)}  # wider, off
FREE = ("server alone", "one center")


@dataclass(frozen=True)
class Part:
    """own: methods of ours, each judged beside the rivals, the other methods.  sets: of the page.

    epsilons: None for those of the set.
    """

    methods: dict[str, Method]
    own: tuple[str, ...]
    sets: tuple[str, ...]
    epsilons: tuple[float, ...] | None = None

    @property
    def rivals(self) -> tuple[str, ...]:
        return tuple(name for name in self.methods if name not in self.own)


# Constants were chosen with these in view: measured beside the others, and counted apart.
SEEN = ("digits", "heavy tails", "texts, 5 of 20 topics", "mixture")
MADE = tuple(name for name, each in UNSEEN.items() if each.file is None and not each.rows)
FILED = tuple(name for name, each in UNSEEN.items() if each.file is not None)
BOXED = ("ellipses", "shells", "Student's t", "few rows", "cube", "profiles", "curve")
PARTS = {
    "points": Part(METHODS, ("ours",), (*UNSEEN, *SEEN)),
    "people": Part(
        {
            "noisy sums": Sums(),
            "FedDP, 2 clients": Persons(clients=2),
            "server alone": ServerAlone(),
            "one center": OneCenter(),
        },
        ("noisy sums",), (*MADE, *FILED), (0.1, 0.5, 1.0, 2.0),
    ),
    "radius": Part(
        {
            f"{word}, {place}": Alone(way, *at)
            for word, way in (("public box", dp_alone.ours), ("private ball", BALL))
            for place, at in PLACES.items()
        },
        (), BOXED, (0.5, 2.0),
    ),
    "alone": Part(
        {
            "ours": Alone(dp_alone.ours),
            "ours, private ball": Alone(BALL),
            "PE-means": Alone(dp_alone.pe_means),
            "one center": OneCenter(),
        },
        ("ours", "ours, private ball"), BOXED, (0.5, 2.0),
    ),
}  # fmt: skip


@lru_cache(maxsize=2)
def problem(name: str, seed: int, folder: Path | None) -> Problem:
    """The data of a cell, gathered at 5 clients where data points are protected, and their optimum."""
    chosen = EVERY[name]
    held = chosen.make(folder, np.random.default_rng([seed, 20_260]))
    n = len(held.points) // chosen.rows if chosen.rows else 5
    federation = secfc.Federation.from_arrays(np.array_split(held.points, n), server_points=held.server)
    points = np.asarray(held.points, np.float32)
    best, cost = optimum(points, chosen.k, [("k-means++", 20)])
    return Problem(federation, points, best, cost)


def cells(
    part: str, names: tuple[str, ...], epsilons: tuple[float, ...], methods: tuple[str, ...], runs: int
) -> Iterator[Row]:
    """The grid: one cell a run, set, method and epsilon."""
    for seed in range(runs):
        for name in names:
            chosen = EVERY[name]
            usual = (0.1, 0.25, 0.5, 1.0, 2.0) if name in SEEN else chosen.epsilons
            for method in methods:
                for epsilon in (None,) if method in FREE else epsilons or PARTS[part].epsilons or usual:
                    yield {
                        "script": "dp_matrix", "part": part, "set": name, "k": chosen.k, "rows": chosen.rows,
                        "unit": "client" if chosen.rows else "data point",
                        "method": method, "epsilon": epsilon, "seed": seed,
                    }  # fmt: skip


def measure(cell: Row, folder: Path | None) -> Iterator[Row]:
    """One run."""
    given = problem(cell["set"], cell["seed"], folder)
    started = time.perf_counter()
    played = PARTS[cell["part"]].methods[cell["method"]].play(cell, given, cell["seed"])
    seconds = time.perf_counter() - started
    cost = cost_per_point(given.points, played.centers)
    whole = cost_per_point(given.points, given.points.mean(axis=0, dtype=np.float64)[None])
    yield {
        "cost": cost, "optimal_cost": given.cost, "one_center": whole, "seconds": seconds,
        "spent": None if played.ledger is None else played.ledger.epsilon(DELTA),
    }  # fmt: skip


def gather(rows: list[Row]) -> list[Row]:
    """What is kept of rows: of each part, set, epsilon and method the excess of every run, by seed.

    Excess is over that of one center; `above`: the median of what a row costs more, in the data's units.
    """
    best: dict[tuple[str, int], float] = {}
    for row in rows:
        key = row["cell"]["set"], row["cell"]["seed"]
        best[key] = min(best.get(key, row["optimal_cost"]), row["cost"])
    found: dict[tuple[Any, ...], list[tuple[int, Row]]] = {}
    for row in rows:
        cell = row["cell"]
        key = cell["part"], cell["set"], cell["epsilon"], cell["method"], row["code"]
        found.setdefault(key, []).append((cell["seed"], row))
    kept = []
    for (part, name, epsilon, method, code), members in found.items():
        runs = [row for _, row in sorted(members, key=lambda member: member[0])]
        least = np.array([best[name, row["cell"]["seed"]] for row in runs])
        above = np.array([row["cost"] for row in runs]) - least
        share = above / (np.array([row["one_center"] for row in runs]) - least)
        kept.append({
            "part": part, "set": name, "epsilon": epsilon, "method": method,
            "excess": [float(f"{each:.4g}") for each in share], "above": float(f"{np.median(above):.4g}"),
            "seconds": float(f"{np.median([row['seconds'] for row in runs]):.2g}"), "code": code,
        })  # fmt: skip
    return kept


def quartiles(values: list[float]) -> tuple[float, float, float]:
    """Lower quartile, median and upper quartile."""
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    return float(low), float(middle), float(high)


@dataclass(frozen=True)
class Line:
    """A cell of the matrix: the method of ours, and of all methods of its part the quartiles of excess."""

    part: str
    set: str
    epsilon: float
    own: str
    excess: dict[str, tuple[float, float, float]]

    @property
    def ours(self) -> tuple[float, float, float]:
        return self.excess[self.own]

    @property
    def rival(self) -> str:
        """The best of the rivals, by medians."""
        there = [name for name in PARTS[self.part].rivals if name in self.excess]
        return min(there, key=lambda name: self.excess[name][1])

    @property
    def theirs(self) -> tuple[float, float, float]:
        return self.excess[self.rival]

    @property
    def border(self) -> float:
        """From what median on the cell is lost."""
        return FACTOR * self.theirs[1] + SLACK

    @property
    def lost(self) -> bool:
        return self.ours[1] >= self.border

    @property
    def won(self) -> bool:
        """Whether the best rival loses to ours by the same rule."""
        return self.theirs[1] >= FACTOR * self.ours[1] + SLACK


def lines(kept: list[Row]) -> list[Line]:
    """A line a method of ours, set and epsilon; methods that ask nobody are in every line of their set."""
    found: dict[tuple[str, str], dict[float | None, dict[str, tuple[float, float, float]]]] = {}
    for row in (each for each in kept if "excess" in each):
        by = found.setdefault((row["part"], row["set"]), {})
        by.setdefault(row["epsilon"], {})[row["method"]] = quartiles(row["excess"])
    return [
        Line(part, name, epsilon, own, each | by.get(None, {}))
        for part, chosen in PARTS.items()
        for own in chosen.own
        for (where, name), by in found.items()
        if where == part
        for epsilon, each in sorted((e, each) for e, each in by.items() if e is not None)
        if own in each and len({*each, *by.get(None, {})} - {*chosen.own})
    ]


def printed(kept: list[Row]) -> Iterator[list[str]]:
    """A line a method of ours, set and epsilon, the lost ones marked."""
    for line in lines(kept):
        low, middle, high = line.ours
        rival = f"{line.theirs[1]:.4f} {line.rival}"
        shown = f"{middle:.4f} ({low:.4f}-{high:.4f})"
        yield [line.part, line.own, line.set, f"{line.epsilon:g}", shown, rival, "LOST" if line.lost else ""]


def chosen_names(names: tuple[str, ...], part: str, data: Path | None) -> tuple[str, ...]:
    """The sets of a part: those asked for, or the page's, without files where no folder is named."""
    boxed = part in ("alone", "radius")
    if wrong := [name for name in names if boxed and name not in UNSEEN]:
        raise click.UsageError(f"{wrong[0]} states no box of its values: leave out --part {part}")
    needed = {name for name in EVERY if name in FILED or name.startswith("census")}
    if data is None and needed & {*names}:
        raise click.UsageError(f"{min(needed & {*names})} is a file: name its folder with --data")
    return names or tuple(name for name in PARTS[part].sets if data is not None or name not in needed)


@click.command(help=__doc__.split("\n")[0])
@click.option("--part", "parts", type=click.Choice(list(PARTS)), multiple=True, help="Only this.  [all]")
@click.option("--set", "names", type=click.Choice(list(EVERY)), multiple=True,
              help="Only this; may be repeated.  [those of the page]")  # fmt: skip
@click.option("--epsilon", "epsilons", type=float, multiple=True, help="Only this total; may be repeated.")
@click.option("--runs", default=8, show_default=True, help="Draws of each set, one run each.")
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Folder with files of others; without, sets of files are left out.")  # fmt: skip
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Append rows to this file.")
@click.option("--page", is_flag=True, help="Keep what was measured in docs, and write its page.")
def main(
    parts: tuple[str, ...], names: tuple[str, ...], epsilons: tuple[float, ...], runs: int,
    data: Path | None, out: Path | None, page: bool,
) -> None:  # fmt: skip
    """Run the grid and print the matrix."""
    if page and (parts or names or epsilons):
        raise click.UsageError("--page is of all of it: leave out --part, --set and --epsilon")
    todo = [
        cell
        for part in parts or (("points",) if names else tuple(PARTS))
        for cell in cells(part, chosen_names(names, part, data), epsilons, tuple(PARTS[part].methods), runs)
    ]
    found = []
    with click.progressbar(todo, label="dp_matrix") as bar:
        found.extend(run_grid(bar, lambda cell: measure(cell, data), out))
    kept = gather(found)
    show(
        f"Excess over one center's, median (middle half); LOST: from {FACTOR} x the best rival + {SLACK} on",
        ["part", "ours", "data", "epsilon", "excess", "best rival", ""],
        printed(kept),
    )
    if page:
        from benchmarks.dp_page import keep_rows, write_files

        keep_rows(kept, data)
        write_files()


if __name__ == "__main__":
    main()
