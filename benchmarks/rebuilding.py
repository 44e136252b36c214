"""Single rows rebuilt: from sums of steps, from messages in the clear, and as published experiments do it.

    python -m benchmarks.rebuilding --out rebuilding.jsonl

Step differences, on data sets whose sums of every step are opened exactly: rows that move alone between
successive steps, and rows by which a cluster differs between any two.  Messages of twenty sites in the clear.
FedDP-KMeans in the paper's variant, by its server, which sees exact sums under noise of its own.

Experiments 1 to 3 rebuild a point, or a client's mean, from one client's noisy update (Gupta and Maheshwari,
Evaluating differential privacy in federated clustering under adversarial attacks, 2025), as they describe
it, and beside each the guess that sees none of it: there a cosine of .64, or .999, is nothing gained.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import click
import numpy as np

import secfc
from benchmarks.common import Row, run_grid, show
from benchmarks.labels import digits, table
from benchmarks.server_points import server_side_mixture
from secfc.attacks.judging import RebuiltRows, judge_rows
from secfc.attacks.reconstruction import KnownSums, site_differences, site_messages, step_differences
from secfc.attacks.views import View
from secfc.feddp import FedDPKMeans
from secfc.feddp.auditing import step_sums
from secfc.feddp.noise import ServerNoise
from secfc.feddp.plan import PAPER
from secfc.privacy import Budget
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
CLIP, EPSILON, DELTA = 11.0, 1.0, 1e-6


def cells(runs: int) -> Iterator[Row]:
    for name in SETS:
        for sites in (1, 20):
            for run in range(runs):
                yield {"what": "steps", "set": name, "sites": sites, "run": run}
    for epsilon in (1.0, 50.0, 1e3, 1e5):
        for run in range(max(1, runs // 2)):
            yield {"what": "feddp", "epsilon": epsilon, "run": run}
    for what in ("point", "client"):
        for private in (False, True):
            for run in range(max(1, runs // 2)):
                yield {"what": what, "private": private, "run": run}


def measure(cell: Row) -> Iterator[Row]:
    """The rows of one cell."""
    rng = np.random.default_rng([cell["run"], 7])
    match cell["what"]:
        case "steps":
            yield steps(cell, rng)
        case "feddp":
            yield noisy_steps(cell)
        case "point":
            yield point(rng, private=cell["private"])
        case "client":
            yield client(rng, private=cell["private"])


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


def mixture(rng: np.random.Generator, clients: int = 20) -> tuple[Array, Array, Array]:
    """Points of clients of 1000 rows (clients, 1000, 100), their clusters, and the public centers."""
    points, _, means, _ = server_side_mixture(clients, 1000, rng)
    parts = points.reshape(clients, 1000, 100)
    labels = np.stack([((part[:, None] - means[None]) ** 2).sum(axis=2).argmin(axis=1) for part in parts])
    return parts, labels, means


def update(
    points: Array, labels: Array, k: int, rng: np.random.Generator, sigma: float
) -> tuple[Array, Array]:
    """One client's sums and counts by cluster, with Gaussian noise of sigma times their sensitivities."""
    clipped = points * np.minimum(1.0, CLIP / np.linalg.norm(points, axis=1))[:, None]
    member = (labels[:, None] == np.arange(k)).astype(float)
    sums, counts = member.T @ clipped, member.sum(axis=0)
    return sums + sigma * CLIP * rng.normal(size=sums.shape), counts + sigma * rng.normal(size=k)


def point(rng: np.random.Generator, *, private: bool) -> Row:
    """Experiment 1: a point from the difference of its client's updates with and without it."""
    parts, labels, means = mixture(rng, 4)
    k = len(means)
    sigma = gaussian_multiplier(Budget(EPSILON, DELTA)) if private else 0.0
    scores, guesses, right = [], [], 0
    for row in range(50):
        points, own = parts[0], labels[0]
        rest = np.arange(len(points)) != row
        sums, counts = update(points, own, k, rng, sigma)
        fewer, less = update(points[rest], own[rest], k, rng, sigma)
        cluster = int((counts - less).argmax())
        right += cluster == own[row]
        scores.append(_score((sums - fewer)[cluster], points[row]))
        guesses.append(_score(means[own[row]], points[row]))
    return {
        **_medians("attack", scores), **_medians("blind", guesses), "trials": 50, "cluster_right": right / 50
    }  # fmt: skip


def client(rng: np.random.Generator, *, private: bool) -> Row:
    """Experiment 2: a client's mean from its update, beside the mean of the others."""
    parts, labels, means = mixture(rng)
    k = len(means)
    scores, guesses = [], []
    # The vector of a client's sums, clipped to 120 as there, so that one client is the unit of privacy.
    sigma = gaussian_multiplier(Budget(EPSILON, DELTA)) if private else 0.0
    for j, part in enumerate(parts):
        sums, counts = update(part, labels[j], k, rng, 0.0)
        size = np.linalg.norm(sums)
        sums = sums * min(1.0, 120 / size) + sigma * 120 * rng.normal(size=sums.shape)
        counts = counts * min(1.0, 120 / size) + sigma * 120 * rng.normal(size=k)
        total = counts.sum()
        scores.append(_score(sums.sum(axis=0) / total, part.mean(axis=0)))
        others = np.delete(parts, j, axis=0).mean(axis=(0, 1))
        guesses.append(_score(others, part.mean(axis=0)))
    return {**_medians("attack", scores), **_medians("blind", guesses), "trials": len(parts)}


def _score(guess: Array, truth: Array) -> tuple[float, float]:
    """Cosine and relative error."""
    norm = float(np.linalg.norm(guess) * np.linalg.norm(truth))
    cosine = float(guess @ truth) / norm if norm > 0 else 0.0
    return cosine, float(np.linalg.norm(guess - truth) / np.linalg.norm(truth))


def _medians(name: str, scores: list[tuple[float, float]]) -> Row:
    cosines, errors = np.array(scores).T
    return {f"{name}_cosine": float(np.median(cosines)), f"{name}_error": float(np.median(errors))}


def signal(n: int, k: int, d: int, *, share: float, epsilon: float) -> float:
    """Experiment 3: the most that signal over noise of a client-level sum can be, whatever the clipping.

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
    for what, name in (("point", "1: a point"), ("client", "2: a client's mean")):
        for private in (False, True):
            mine = [r for r in rows if r["cell"]["what"] == what and r["cell"]["private"] == private]
            if mine:
                means = (f"{np.mean([r[c] for r in mine]):.3f}" for c in columns)
                yield [name, "eps 1" if private else "no noise", str(len(mine) * mine[0]["trials"]), *means]


@click.command(help=__doc__.split("\n")[0])
@click.option("--runs", default=10, show_default=True, help="Runs of every setting.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Append rows to this file.")
def main(runs: int, out: Path | None) -> None:
    """Run the grid and print what was rebuilt."""
    rows = list(run_grid(cells(runs), measure, out))
    header = ["sums of", "sites", "runs", "steps", "alone: exact", "false", "any two steps: exact", "false"]
    show("Rows rebuilt a run", header, lines(rows))
    header = ["experiment", "noise", "trials", "cosine", "error", "blind: cosine", "blind: error"]
    show("One client's update", header, experiments(rows))
    ratio = signal(51, 10, 124, share=0.55, epsilon=1.0)
    click.echo(
        f"Experiment 3, 51 clients, k=10, d=124, epsilon 1: signal over noise is at most {ratio:.2f}, "
        "whatever vectors are clipped to: hopeless, not misclipped"
    )


if __name__ == "__main__":
    main()
