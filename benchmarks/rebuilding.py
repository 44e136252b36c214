"""Single rows rebuilt: from sums of steps, from messages in the clear, and as published experiments do it.

    python -m benchmarks.rebuilding --out rebuilding.jsonl
    python -m benchmarks.rebuilding --data acs.npz --out rebuilding.jsonl      # experiment 3 too

Step differences, on data sets whose sums of every step are opened exactly: rows that move alone between
successive steps, and rows by which a cluster differs between any two.  Messages of twenty sites in the clear.
FedDP-KMeans in the paper's variant, by its server, which sees exact sums under noise of its own.

Experiments 1 to 3 rebuild a point of a mixture, a client's mean, and a census row from one client's noisy
update (Gupta and Maheshwari, Evaluating differential privacy in federated clustering under adversarial
attacks, 2025), as they describe it: updates are about centers that were trained without the target, with
noise where the update has it.  Beside each stands the guess that sees none of the update: the center of the
target's cluster, or the mean of the other clients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

import secfc
from benchmarks.common import Row, run_grid, show
from benchmarks.dp_methods import nearest
from benchmarks.labels import digits, table
from benchmarks.server_points import load_census, server_side_mixture
from secfc.attacks.judging import RebuiltRows, judge_rows
from secfc.attacks.reconstruction import KnownSums, site_differences, site_messages, step_differences
from secfc.attacks.views import View
from secfc.feddp import FedDPKMeans
from secfc.feddp.auditing import step_sums
from secfc.feddp.noise import ServerNoise
from secfc.feddp.plan import PAPER
from secfc.privacy import Budget, Neighbors
from secfc.privacy.calibration import gaussian_multiplier
from secfc.roles.exchange import SERVER

Array = np.ndarray
UNIT = 1024.0
SETS: dict[str, tuple[Callable[[np.random.Generator], Array], int]] = {
    "digits": (lambda rng: digits(), 10),
    "wine": (lambda rng: table("wine"), 3),
    "iris": (lambda rng: table("iris"), 3),
    "mixture, d = 100": (lambda rng: server_side_mixture(4, 500, rng)[0], 10),
    "one Gaussian": (lambda rng: rng.standard_normal((2000, 10)), 10),
}
K, EPSILON, DELTA = 10, 1.0, 1e-6
EXPERIMENTS = {"point": "1: a point", "client": "2: a client's mean", "row": "3: a census row"}
CENSUS = "rows of the US census, ACS of 2018 (an .npz file, or a folder of the package folktables)"


def cells(runs: int, *, census: bool = False) -> Iterator[Row]:
    for name in SETS:
        for sites in (1, 20):
            for run in range(runs):
                yield {"what": "steps", "set": name, "sites": sites, "run": run}
    for epsilon in (1.0, 50.0, 1e3, 1e5):
        for run in range(max(1, runs // 2)):
            yield {"what": "feddp", "epsilon": epsilon, "run": run}
    yield from attacks(runs, census=census)


def attacks(runs: int, *, census: bool) -> Iterator[Row]:
    """The published experiments, 100 clients each; of census rows, a client is a state."""
    for what in ("point", "client", "row")[: 3 if census else 2]:
        for private in (False, True):
            for run in range(max(1, runs // 2)):
                yield {"what": what, "private": private, "clients": 51 if what == "row" else 100, "run": run}


def measure(cell: Row, data: Path | None = None) -> Iterator[Row]:
    """The rows of one cell."""
    rng = np.random.default_rng([cell["run"], 7])
    match cell["what"]:
        case "steps":
            yield steps(cell, rng)
        case "feddp":
            yield noisy_steps(cell)
        case "point" | "row":
            yield point(cell, rng, data)
        case "client":
            yield client(cell, rng)


def steps(cell: Row, rng: np.random.Generator) -> Row:
    """Rows from sums: of all points together (one site), or of every site by itself."""
    draw, k = SETS[cell["set"]]
    points = draw(rng)
    rows = np.rint(points * UNIT).astype(np.int64)
    sites = site_messages(np.array_split(rows, cell["sites"]), k, seed=cell["run"])
    bound = np.full(points.shape[1], np.abs(points).max())
    if cell["sites"] == 1:
        alone = step_differences(sites[0], UNIT)
        any_two = step_differences(sites[0], UNIT, low=-bound, high=bound)
    else:
        parts = [step_differences(site, UNIT).values for site in sites]
        any_two = site_differences(sites, UNIT, low=-bound, high=bound)
        alone = replace(any_two, values=np.concatenate(parts))
    first, second = (judge_rows(guess, points, 1 / UNIT) for guess in (alone, any_two))
    return {
        "m": len(points),
        "steps": len(sites[0].sums),
        **_counts("alone", first),
        **_counts("any", second),
    }


def _counts(name: str, one: RebuiltRows) -> Row:
    return {f"{name}_exact": one.exact, f"{name}_false": one.false_guesses}


def noisy_steps(cell: Row) -> Row:
    """What the server of FedDP-KMeans rebuilds of digits, twelve steps of the paper's variant."""
    points = digits()
    rng = np.random.default_rng(cell["run"])
    federation = secfc.Federation.from_arrays(
        np.array_split(points, 10), server_points=points[rng.choice(len(points), 100)] + 0.5
    )
    way = FedDPKMeans(10, cell["epsilon"], DELTA, steps=12, variant=PAPER, noise=ServerNoise())
    result = secfc.fit(way, federation, seed=cell["run"], keep_bodies=True)
    seen, scale = step_sums(View.of(result, result.plan, SERVER)), result.plan.scale
    origin = np.asarray(result.plan.origin)
    limit = np.full(64, 40.0)
    rows = step_differences(KnownSums(seen.sums, seen.counts, seen.group), scale, low=-limit, high=limit)
    judged = judge_rows(replace(rows, values=rows.values + origin), points, 2 / scale)
    return {"m": len(points), "steps": len(seen.sums), **_counts("any", judged)}


@dataclass(frozen=True)
class Attacked:
    """Parts of clients, which rows of the first (or which clients) are rebuilt, and centers without these."""

    parts: list[Array]
    targets: Array
    centers: Array
    clip: float


def trained(parts: list[Array], server: Array | None, unit: str, seed: int, *, private: bool) -> Array:
    """Centers (K, d) of federated k-means, in the paper's private variant or without noise."""
    federation = secfc.Federation.from_arrays(parts, server_points=server)
    way: Any = secfc.Lloyd(K, disclosure=secfc.Distances())
    if private:
        rows = int(np.median(federation.counts)) if unit == "client" else None
        way = FedDPKMeans(
            K, EPSILON, DELTA, neighbors=Neighbors(unit=unit), rows_per_client=rows, variant=PAPER,
            noise=ServerNoise(), committee=min(5, federation.n),
        )  # fmt: skip
    centers: Array = secfc.fit(way, federation, seed=seed).centers
    return centers


def attacked(cell: Row, rng: np.random.Generator, data: Path | None) -> Attacked:
    """What an experiment is about; its targets are at the first client, or are the first clients."""
    what, private, seed = cell["what"], cell["private"], cell["run"]
    clip, trials = {"point": (11.0, 50), "row": (2.65, 10), "client": (120.0, 20)}[what]
    if what == "row":
        if data is None:
            raise click.UsageError(f"experiment 3 needs {CENSUS}: name it with --data")
        federation = load_census(data, "federal", seed=seed)
        parts = sorted((np.asarray(p.points, float) for p in federation.parties), key=len, reverse=True)
        server = federation.server_points
    else:
        points, _, _, server = server_side_mixture(cell["clients"], 1000, rng)
        parts = list(points.reshape(cell["clients"], 1000, -1))
    if what == "client":
        targets = np.arange(min(trials, len(parts) // 2))
        rest = parts[len(targets) :]
    else:
        targets = np.arange(trials)
        rest = [parts[0][trials:], *parts[1:]]
    unit = "client" if what == "client" else "data point"
    return Attacked(parts, targets, trained(rest, server, unit, seed, private=private), clip)


def add_up(points: Array, centers: Array) -> tuple[Array, Array]:
    """Sums (k, d) and counts (k,) of points by nearest center."""
    member = (nearest(points, centers)[:, None] == np.arange(len(centers))).astype(float)
    return member.T @ points, member.sum(axis=0)


def point(cell: Row, rng: np.random.Generator, data: Path | None) -> Row:
    """Experiments 1 and 3: a point from the difference of its client's updates with and without it."""
    given = attacked(cell, rng, data)
    points, centers = given.parts[0], given.centers
    sigma = gaussian_multiplier(Budget(EPSILON, DELTA)) if cell["private"] else 0.0
    own = nearest(points, centers)
    norms = np.maximum(np.linalg.norm(points, axis=1), 1e-300)
    clipped = points * np.minimum(1.0, given.clip / norms)[:, None]
    whole, numbers = add_up(clipped, centers)

    def update(row: int | None) -> tuple[Array, Array]:
        sums, counts = whole.copy(), numbers.copy()
        if row is not None:  # without it
            sums[own[row]] -= clipped[row]
            counts[own[row]] -= 1
        noise = given.clip * rng.normal(size=sums.shape)
        return sums + sigma * noise, counts + sigma * rng.normal(size=len(counts))

    scores, guesses, right = [], [], 0
    for row in given.targets:
        (sums, counts), (fewer, less) = update(None), update(row)
        cluster = int((counts - less).argmax())
        right += cluster == own[row]
        scores.append(_score((sums - fewer)[cluster], points[row]))
        guesses.append(_score(centers[own[row]], points[row]))
    return {
        **_medians("attack", scores), **_medians("blind", guesses), "trials": len(scores),
        "cluster_right": float(right / len(scores)), "features": points.shape[1],
    }  # fmt: skip


def client(cell: Row, rng: np.random.Generator) -> Row:
    """Experiment 2: a client's mean from its update, beside the mean of the others."""
    given = attacked(cell, rng, None)
    scores, guesses = [], []
    # The vector of a client's sums, clipped to 120 as there, so that one client is the unit of privacy.
    sigma = given.clip * gaussian_multiplier(Budget(EPSILON, DELTA)) if cell["private"] else 0.0
    for j in given.targets:
        part = given.parts[j]
        sums, counts = add_up(part, given.centers)
        short = min(1.0, given.clip / np.linalg.norm(sums)) if cell["private"] else 1.0
        sums = sums * short + sigma * rng.normal(size=sums.shape)
        counts = counts * short + sigma * rng.normal(size=len(counts))
        scores.append(_score(sums.sum(axis=0) / counts.sum(), part.mean(axis=0)))
        others = np.concatenate([other for i, other in enumerate(given.parts) if i != j])
        guesses.append(_score(others.mean(axis=0), part.mean(axis=0)))
    return {**_medians("attack", scores), **_medians("blind", guesses), "trials": len(scores)}


def _score(guess: Array, truth: Array) -> tuple[float, float]:
    """Cosine and relative error."""
    norm = float(np.linalg.norm(guess) * np.linalg.norm(truth))
    cosine = float(guess @ truth) / norm if norm > 0 else 0.0
    return cosine, float(np.linalg.norm(guess - truth) / np.linalg.norm(truth))


def _medians(name: str, scores: list[tuple[float, float]]) -> Row:
    cosines, errors = np.array(scores).T
    return {f"{name}_cosine": float(np.median(cosines)), f"{name}_error": float(np.median(errors))}


def signal(n: int, k: int, d: int, *, share: float, epsilon: float) -> float:
    """Their client-level run on census rows: the most that signal over noise can be, whatever the clipping.

    share: of the budget that the sum has.  n vectors of norm C add up to n C, and noise of z C on k (d + 1)
    numbers to z C sqrt(k (d + 1)).
    """
    z = gaussian_multiplier(Budget(epsilon, DELTA)) / math.sqrt(share)
    return n / (z * math.sqrt(k * (d + 1)))


def lines(rows: list[Row]) -> Iterator[list[str]]:
    """The table of steps: means over runs."""
    for name in SETS:
        for sites in (1, 20):
            mine = [r for r in rows if r["cell"].get("set") == name and r["cell"]["sites"] == sites]
            if mine:
                cells_ = (np.mean([r[c] for r in mine]) for c in ("steps", "alone_exact", "alone_false"))
                more = (np.mean([r[c] for r in mine]) for c in ("any_exact", "any_false"))
                yield [name, str(sites), str(len(mine)), *(f"{x:.1f}" for x in (*cells_, *more))]
    for epsilon in sorted({r["cell"]["epsilon"] for r in rows if r["cell"]["what"] == "feddp"}):
        mine = [r for r in rows if r["cell"].get("epsilon") == epsilon]
        means = (np.mean([r[c] for r in mine]) for c in ("steps", "any_exact", "any_false"))
        steps_, exact, false = (f"{x:.1f}" for x in means)
        yield [
            f"FedDP-KMeans' server, digits, eps {epsilon:g}",
            "10",
            str(len(mine)),
            steps_,
            "",
            "",
            exact,
            false,
        ]


def experiments(rows: list[Row]) -> Iterator[list[str]]:
    """The published experiments: medians over trials, means over runs."""
    columns = ("attack_cosine", "attack_error", "blind_cosine", "blind_error")
    for what, name in EXPERIMENTS.items():
        for private in (False, True):
            mine = [r for r in rows if r["cell"]["what"] == what and r["cell"]["private"] == private]
            if mine:
                means = (f"{np.mean([r[c] for r in mine]):.3f}" for c in columns)
                yield [name, "eps 1" if private else "no noise", str(len(mine) * mine[0]["trials"]), *means]


@click.command(help=__doc__.split("\n")[0])
@click.option("--runs", default=10, show_default=True, help="Runs of every setting.")
@click.option("--data", type=click.Path(exists=True, path_type=Path), help="Census rows, for experiment 3.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Append rows to this file.")
def main(runs: int, data: Path | None, out: Path | None) -> None:
    """Run the grid and print what was rebuilt."""
    rows = list(run_grid(cells(runs, census=data is not None), lambda cell: measure(cell, data), out))
    header = ["sums of", "sites", "runs", "steps", "alone: exact", "false", "any two steps: exact", "false"]
    show("Rows rebuilt a run", header, lines(rows))
    header = ["experiment", "noise", "trials", "cosine", "error", "blind: cosine", "blind: error"]
    show("One client's update", header, experiments(rows))
    ratio = signal(51, 10, 124, share=0.55, epsilon=1.0)
    click.echo(
        f"Clients protected, 51 of them, k=10, d=124, epsilon 1: signal over noise is at most {ratio:.2f}, "
        "whatever vectors are clipped to: hopeless, not misclipped"
    )


if __name__ == "__main__":
    main()
