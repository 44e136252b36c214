"""Every attack on every algorithm, beside what the algorithm finds and takes: one table and one picture.

    python -m benchmarks.attacks --out attacks.jsonl --plot attacks.png
    python -m benchmarks.attacks --quick
    python -m benchmarks.attacks --out attacks.jsonl --readme      # the tables of secfc/attacks/README.md

Mixtures as in FedDP-KMeans: means uniform in the unit cube, d = 100, variance .5, k = 10; ten clients,
each with points of three clusters, 50 points a cluster. Twice as many points are drawn alike, and a coin
says which half of each client's is clustered: the others are the non-members, of the client's law.
Attacks on membership know the law of the data (`distribution`), or all points but one (`everyone else`,
the canary of the audit), never who is in. Runs are counted for every figure; intervals are over runs.

Membership of SecFC is scored on plaintext Lloyd, whose labels and centers it has at every step.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

import secfc
from benchmarks.common import Row, require, run_grid, show
from secfc import metrics
from secfc.attacks.geometry import locate_points, reconstruct_geometry
from secfc.attacks.history import label_history
from secfc.attacks.judging import between_share, judge_guess, judge_rows
from secfc.attacks.membership import (
    DistributionLaw,
    scores_from_centers,
    scores_from_local_centers,
    scores_from_sizes,
)
from secfc.attacks.rates import Interval, Rates, score_rates
from secfc.attacks.reconstruction import step_differences
from secfc.attacks.views import View
from secfc.coded_kmeans.adversary_view import DecodedView
from secfc.disclosure import Distances, OwnLabels
from secfc.feddp import FedDPKMeans, ServerNoise, SharedNoise
from secfc.feddp import auditing as feddp_readings
from secfc.feddp.auditing import audit_run, without_row
from secfc.feddp.plan import FedDPPlan
from secfc.federated.views import others_sums
from secfc.kfed import local_clusters
from secfc.kmeans.starts import GivenLabels
from secfc.privacy.accountant import gaussian_epsilon
from secfc.privacy.audit import GaussianShift, max_detection_rate
from secfc.roles.exchange import SERVER

D, K, VARIANCE, CLIENTS, HELD, DELTA = 100, 10, 0.5, 10, 3, 1e-6
SIZE = 50  # points a cluster
BOUND = 8.0  # no value exceeds it, 10 deviations out
PAGE = Path(__file__).parent.parent / "secfc" / "attacks" / "README.md"
MARKS = ("<!-- from code: attacks -->\n", "<!-- end -->\n")

# By name: the algorithm, what of it membership is read from, and epsilon.
WAYS: dict[str, tuple[Any, str, float | None]] = {
    "SecFC, own labels": (secfc.SecFC(K, threshold=1, disclosure=OwnLabels()), "sizes", None),
    "SecFC, the default": (secfc.SecFC(K, threshold=1), "sizes", None),
    "SecFC, centers opened": (secfc.SecFC(K, 1, release=secfc.Release(reveal_centers=True)), "centers", None),
    "SecFC, distances": (secfc.SecFC(K, threshold=1, disclosure=Distances()), "points", None),
    "Lloyd over secure sums": (secfc.FederatedLloyd(K, blind=False), "centers", None),
    "k-FED, centers": (secfc.KFed(K, HELD), "centers", None),
    "k-FED, its server": (secfc.KFed(K, HELD), "local centers", None),
    **{
        f"FedDP-KMeans, epsilon {epsilon:g}": (
            FedDPKMeans(K, epsilon, DELTA, noise=ServerNoise()), "centers", epsilon,
        )
        for epsilon in (0.5, 1, 4, 16)
    },
    "FedDP-KMeans, shared noise, epsilon 1": (
        FedDPKMeans(K, 1, DELTA, noise=SharedNoise()), "centers", 1.0,
    ),
}  # fmt: skip
# Points a cluster, and runs, of centers that plaintext Lloyd opens.
SIZES = {10: 100, 50: 25, 200: 8, 1000: 3, 10_000: 2}


def cells(quick: bool) -> Iterator[Row]:
    """The grid: one cell a row of the tables."""
    for name in WAYS:
        if not (quick and ("own labels" in name or "shared" in name or "16" in name)):
            yield {"what": name, "runs": 4 if quick else 20}
    for size, runs in SIZES.items():
        if not (quick and size > 50):
            yield {"what": "law", "size": size, "runs": max(2, runs // (5 if quick else 1))}


def drawn(size: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Points (2 size K, D) client by client, who of them is clustered, their components, and the means."""
    rng = np.random.default_rng([size, seed])
    means, each = rng.random((K, D)), 2 * size * K // CLIENTS
    truth = np.concatenate([(j + rng.integers(HELD, size=each)) % K for j in range(CLIENTS)])
    points = means[truth] + np.sqrt(VARIANCE) * rng.standard_normal((len(truth), D))
    inside = np.concatenate([rng.permutation(each) < each // 2 for _ in range(CLIENTS)])
    return points, inside, truth, means


def federation(points: np.ndarray, means: np.ndarray, seed: int, planted: Any = None) -> secfc.Federation:
    """Clients with these points, and a server with as many as its paper gives it.  planted: a row of one."""
    rng = np.random.default_rng([7, seed])
    near = np.repeat(means, 20, axis=0)
    server = np.concatenate(
        [near + np.sqrt(VARIANCE) * rng.standard_normal(near.shape), rng.random((100, D))]
    )
    parts = np.array_split(points, CLIENTS)
    if planted is not None:
        parts[0] = np.concatenate([parts[0], planted])
    return secfc.Federation.from_arrays(parts, server_points=server)


def measure(cell: Row) -> Iterator[Row]:
    """One row: what a run finds and takes, what is rebuilt of it, and membership over all runs."""
    if cell["what"] == "law":
        yield law_row(cell)
        return
    way, read, epsilon = WAYS[cell["what"]]
    points, inside, _, means = drawn(SIZE, 0)
    held = points[inside]
    data = federation(held, means, 0)
    start = time.perf_counter()
    result = secfc.fit(way, data, seed=0, bound=BOUND, keep_bodies=True)
    seconds = time.perf_counter() - start
    scores, members = [], []
    few = 2 if read == "points" else cell["runs"]
    for seed in range(few):
        points, inside, _, means = drawn(SIZE, seed)
        law = law_of(means)
        scores.append(score(way, read, points, inside, means, law, seed))
        members.append(inside)
    enough = few * SIZE * K >= 10_000
    judged = score_rates(scores, members, alarms=(0.01,) if enough else ())
    claim = None if epsilon is None else max_detection_rate(epsilon, DELTA, 0.01)
    yield {
        "cost": metrics.cost(held, result.flat, result.k) / metrics.cost(held, truth_of(0), K),
        "accuracy": metrics.accuracy(truth_of(0), result.flat),
        "seconds": seconds,
        "bytes": sum(size for kinds in result.transcript.summary().values() for _, size in kinds.values()),
        "variance": variance(way, read, result, data, held),
        "rebuilt": rebuilt(result, held),
        "from": read,
        **flat_rates(judged),
        "epsilon": epsilon,
        "most": claim,
        "audited": None if epsilon is None else audited(way, held, means),
    }


def truth_of(seed: int) -> np.ndarray:
    """The components of the points that are clustered."""
    _, inside, truth, _ = drawn(SIZE, seed)
    return truth[inside]


def law_of(means: np.ndarray) -> DistributionLaw:
    """What a `distribution` attacker knows."""
    return DistributionLaw(means, np.eye(D) * VARIANCE, np.full(K, 1 / K))


def score(way: Any, read: str, points: Any, inside: Any, means: Any, law: DistributionLaw, seed: int) -> Any:
    """Scores of all targets in one run."""
    data = federation(points[inside], means, seed)
    if read == "sizes" or (read == "centers" and isinstance(way, secfc.SecFC)):
        way = secfc.Lloyd(K)  # the same labels and centers
    result = secfc.fit(way, data, seed=seed, bound=BOUND, keep_bodies=read in ("local centers", "points"))
    sizes = np.bincount(result.flat, minlength=result.k)
    if read == "points":
        # The server and one client place all points: who is among them is reading.
        seen = DecodedView.of(result, result.plan, (SERVER, data.names[0]), data)
        placed = locate_points(seen).points
        gaps = ((points**2).sum(axis=1)[:, None] - 2 * points @ placed.T + (placed**2).sum(axis=1)).min(
            axis=1
        )
        return -gaps
    if read == "sizes":
        # A client knows which cluster is which by its own points; the rest of it are sizes.
        order = law.cluster(result.centers)
        return scores_from_sizes(np.bincount(order, weights=sizes, minlength=K), law, points)
    if read == "centers":
        expected = np.full(result.k, SIZE) if isinstance(way, FedDPKMeans) else sizes
        return scores_from_centers(result.centers, expected, law, points)
    local = local_clusters(View.of(result, result.plan, SERVER))
    ratios = np.zeros(len(points))
    for name, rows in zip(data.names, np.array_split(np.arange(len(points)), CLIENTS), strict=True):
        ratios[rows] = scores_from_local_centers(*local[name], law, points[rows])
    return ratios


def law_row(cell: Row) -> Row:
    """Membership from the centers of Lloyd's heuristic, begun where the points come from: the law itself."""
    scores, members, size = [], [], cell["size"]
    for seed in range(cell["runs"]):
        points, inside, truth, means = drawn(size, seed)
        data = secfc.Federation.from_arrays(np.array_split(points[inside], CLIENTS))
        result = secfc.fit(secfc.Lloyd(K, init=GivenLabels(truth[inside])), data, seed=seed, bound=BOUND)
        sizes = np.bincount(result.flat, minlength=K)
        scores.append(scores_from_centers(result.centers, sizes, law_of(means), points))
        members.append(inside)
    enough = cell["runs"] * size * K >= 10_000
    shift = GaussianShift.of_center(D, size)
    return {
        **flat_rates(score_rates(scores, members, alarms=(0.01,) if enough else ())),
        "law_auc": shift.auc, "law_rate": shift.detection_rate(0.01),
    }  # fmt: skip


def flat_rates(judged: Rates) -> Row:
    """Rates as plain values."""
    one = judged.at.get(0.01)
    return {
        "auc": [judged.auc.value, judged.auc.low, judged.auc.high],
        "rate": None if one is None else [one.value, one.low, one.high],
        "counted": judged.runs,
    }


def variance(way: Any, read: str, result: Any, data: Any, held: np.ndarray) -> float | None:
    """The share of variance that whoever sees most, short of clients' own points, recovers of one run."""
    if isinstance(way, FedDPKMeans):
        return None  # labels stay at home: nobody knows which center is whose
    if isinstance(way, secfc.SecFC):
        if not result.history:
            return 0.0  # sizes alone
        seen = DecodedView.of(result, result.plan, SERVER, data)
        opened = [between_share(result.flat, held)] if result.centers is not None else []
        guess = reconstruct_geometry(seen) if read == "points" else label_history(seen, result)
        return max(judge_guess(guess, held).share[-1], *opened, 0.0)
    if isinstance(way, secfc.FederatedLloyd):
        return None  # the server has sums, and no label
    return between_share(result.flat, held)


def rebuilt(result: Any, held: np.ndarray) -> int | None:
    """Rows rebuilt exactly from sums of the steps, of one run, by the server; None where it sees no sum."""
    view = View.of(result, result.plan, SERVER)
    if isinstance(result.plan, FedDPPlan):
        known, unit = feddp_readings.step_sums(view), result.plan.scale
    elif hasattr(result.plan, "columns"):
        known, unit = others_sums(view), result.plan.quantizer.scale
    else:
        return None
    if not len(known.sums):
        return 0
    low, high = held.min(axis=0), held.max(axis=0)
    return judge_rows(step_differences(known, unit, low=low, high=high), held, 1 / unit).exact


def audited(way: FedDPKMeans, held: np.ndarray, means: np.ndarray) -> float:
    """What one far row spends in one run, as an epsilon."""
    far = np.zeros((1, D))
    far[0, 0] = 1e5
    data = federation(held, means, 0, planted=far)
    result = secfc.fit(way, data, seed=0, bound=1e5, keep_bodies=True)
    name = data.names[0]
    spent = audit_run(result, data, without_row(data, name, data.counts[0] - 1))
    if spent.is_refuted:
        raise AssertionError(f"refuted: {spent.faults}")
    return float(gaussian_epsilon(spent.spent, DELTA))


# --- tables and the picture ------------------------------------------------------------------------


HEAD = ["algorithm", "cost", "accuracy", "seconds", "MB", "variance", "rows", "read from", "AUC", "at 1 %",
        "runs", "bound", "epsilon", "audited"]  # fmt: skip
LAW = ["points a cluster", "AUC", "by law", "recognized at 1 %", "by law", "runs"]


def _interval(values: list[float] | None) -> str:
    if values is None:
        return "-"
    return (
        f"{values[0]:.3f}" if np.isnan(values[1]) else f"{values[0]:.3f} ({values[1]:.3f} to {values[2]:.3f})"
    )


def _shown(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def table(rows: list[Row]) -> Iterator[list[str]]:
    """One line an algorithm."""
    for r in rows:
        if r["cell"]["what"] != "law":
            yield [
                r["cell"]["what"], f"{r['cost']:.3f}", f"{r['accuracy']:.2f}", f"{r['seconds']:.1f}",
                f"{r['bytes'] / 1e6:.1f}", _shown(r["variance"], ".2f"), _shown(r["rebuilt"], "d"), r["from"],
                _interval(r["auc"]), _interval(r["rate"]), str(r["counted"]), _shown(r["most"], ".3f"),
                _shown(r["epsilon"], "g"), _shown(r["audited"], ".3f"),
            ]  # fmt: skip


def laws(rows: list[Row]) -> Iterator[list[str]]:
    """One line a size of clusters."""
    for r in rows:
        if r["cell"]["what"] == "law":
            yield [
                f"{r['cell']['size']:,}", _interval(r["auc"]), f"{r['law_auc']:.3f}", _interval(r["rate"]),
                f"{r['law_rate']:.3f}", str(r["counted"]),
            ]  # fmt: skip


def markdown(head: list[str], lines: Iterator[list[str]]) -> str:
    """A table for a page."""
    rows = [head, ["---"] * len(head), *lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def picture(rows: list[Row]) -> Any:
    """Membership over cost: what is told of people, and what is paid to tell less."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 4.8), layout="constrained", dpi=120)
    axes = figure.subplots()
    for number, r in enumerate(r for r in rows if r["cell"]["what"] != "law"):
        auc = Interval(*r["auc"])
        off = [[max(auc.value - auc.low, 0)], [max(auc.high - auc.value, 0)]]
        color = f"C{number % 10}"
        axes.errorbar([r["cost"]], [auc.value], yerr=np.nan_to_num(off), fmt="os^D"[number % 4], color=color,
                      capsize=3, label=f"{r['cell']['what']}: {r['from']}")  # fmt: skip
    axes.axhline(0.5, color="0.6", linewidth=0.8, linestyle="--")
    axes.set(xlabel="cost over that of the true clusters", ylabel="AUC of membership", ylim=(0.45, 1.03))
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", frameon=False, fontsize="small")
    return figure


def on_page(rows: list[Row]) -> None:
    """Write the tables into the page of the attacks, between its marks."""
    text = PAGE.read_text()
    before, rest = text.split(MARKS[0])
    _, after = rest.split(MARKS[1])
    tables = f"{markdown(HEAD, table(rows))}\n{markdown(LAW, laws(rows))}"
    PAGE.write_text(f"{before}{MARKS[0]}{tables}{MARKS[1]}{after}")


@click.command(help=__doc__.split("\n")[0])
@click.option("--quick", is_flag=True, help="Fewer rows and runs, in less than a minute.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Append rows to this file.")
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw the picture into this file."
)
@click.option("--readme", is_flag=True, help="Write the tables into the page of the attacks.")
def main(quick: bool, out: Path | None, plot: Path | None, readme: bool) -> None:
    """Run the grid and print the tables."""
    if plot is not None:
        require("matplotlib", "matplotlib", "plot")
    rows = []
    with click.progressbar(list(cells(quick)), label="attacks") as bar:
        rows.extend(run_grid(bar, measure, out))
    show("Every attack beside what an algorithm finds and takes", HEAD, table(rows))
    show("Membership from exact centers", LAW, laws(rows))
    if plot is not None:
        picture(rows).savefig(plot)
    if readme:
        on_page(rows)


if __name__ == "__main__":
    main()
