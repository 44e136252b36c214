"""What the server of SecFC's main protocol can rebuild of all points, question by question.

    python benchmarks/geometry.py --out geometry.jsonl
    python benchmarks/geometry.py --runs 5 --n-init 5 --plot geometry.png

Mixtures of k Gaussians with centers uniform in [-50, 50]**d, clustered from random labels by n = 5 clients
with ell = 2, t = 1.  Every attack sees one `View`:

    distances          the server, from the distances that the protocol decodes
    segments           the server, from the distances of each segment, which replies without blinding show
    with one client    the server and a client that owns a fifth of the points: no alignment is allowed
    labels alone       the best guess from labels of all steps and restarts (`secfc.attacks.history`)
    final labels       a regular simplex, one corner a cluster, with its best scale

Share of variance is 1 - (relative error)**2.  Beside them stand two figures of one floating point run each:
"first" is an early measurement that took the distances to an empty cluster for distances to a center, and
so understates what the first two settings give away; "corrected" is the same run without that mistake.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np

import secfc
from benchmarks.common import Row, require, run_grid, show
from secfc.attacks.geometry import labels_only, locate_points, reconstruct_geometry
from secfc.attacks.history import label_history
from secfc.attacks.judging import GuessJudgement, between_share, judge_guess, plot_shares
from secfc.coded_kmeans.adversary_view import DecodedView
from secfc.data.mixtures import gaussian_mixture
from secfc.kmeans.starts import STARTS
from secfc.roles.exchange import SERVER

# (m, d, k, standard deviation), and the relative errors named first and corrected.
SETTINGS = {
    (1000, 20, 4, 1): (0.32, 0.035),
    (10_000, 100, 4, 20): (0.70, 0.62),
    (4000, 100, 16, 20): (0.35, 0.35),
}
CLIENTS = 5


def cells(runs: int, init: str, n_init: int) -> Iterator[Row]:
    """The grid: one cell a setting and run."""
    for m, d, k, sd in SETTINGS:
        for run in range(runs):
            yield {"m": m, "d": d, "k": k, "sd": sd, "init": init, "n_init": n_init, "run": run}


def measure(cell: Row) -> Iterator[Row]:
    """Every attack on one run: ranks, relative errors and shares after each question."""
    rng = np.random.default_rng([cell["run"], cell["m"], cell["d"]])
    points, _ = gaussian_mixture(cell["m"], cell["d"], cell["k"], float(cell["sd"]), rng, (-50.0, 50.0))
    federation = secfc.Federation.from_arrays(np.array_split(points, CLIENTS))
    # Unblinded, so that the attack on segments has something to read.
    algorithm = secfc.SecFC(
        k=cell["k"], threshold=secfc.Threshold(1, 2), init=STARTS[cell["init"]], n_init=cell["n_init"],
        disclosure=secfc.Distances(blind=False),
    )  # fmt: skip
    result = secfc.fit(algorithm, federation, seed=cell["run"], keep_bodies=True)
    quantizer = result.plan.quantizer
    truth = quantizer(points) / quantizer.scale
    server = DecodedView.of(result, result.plan, SERVER)
    coalition = DecodedView.of(result, result.plan, (SERVER, result.plan.clients[0]), federation)
    guesses: dict[str, Any] = {
        "distances": reconstruct_geometry(server),
        "segments": reconstruct_geometry(server, segments=True),
        "with one client": locate_points(coalition),
        "labels alone": label_history(server, result),
        "final labels": labels_only(server),
    }
    for name, guess in guesses.items():
        judgement = judge_guess(guess, truth)
        yield {
            "attack": name,
            "policy": str(algorithm.disclosure),
            **asdict(judgement),
            "share": judgement.share,
            "claim": guess.claim if name == "distances" else None,
            "ceiling": between_share(result.flat, truth) if name == "final labels" else None,
        }


def setting(cell: Row) -> str:
    return f"m={cell['m']}, d={cell['d']}, k={cell['k']}, sd={cell['sd']}"


def steps(rows: list[Row]) -> Iterator[list[str]]:
    """One line for each question that brought the attack on the first run's distances further."""
    for row in rows:
        if row["attack"] != "distances" or row["cell"]["run"]:
            continue
        ranks, last = row["ranks"], len(row["ranks"]) - 1
        for s, rank in enumerate(ranks):
            if s in (0, last) or rank != ranks[s - 1]:
                yield [
                    setting(row["cell"]) if s == 0 else "", f"{s + 1} of {last + 1}", str(rank),
                    f"{row['share'][s]:.3f}", f"{row['error'][s]:.2g}",
                ]  # fmt: skip


def summary(rows: list[Row]) -> Iterator[list[str]]:
    """One line a setting and attack: medians over runs at the end, beside the two single figures."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((setting(row["cell"]), row["attack"]), []).append(row)
    for (name, kind), members in groups.items():
        first = members[0]["cell"]
        single = SETTINGS[first["m"], first["d"], first["k"], first["sd"]]
        errors = [r["error"][-1] for r in members]
        pairs = [r["pairs"] for r in members if r["pairs"] is not None]
        yield [
            name if kind == "distances" else "",
            kind,
            f"{np.median([len(r['ranks']) for r in members]):g}",
            f"{np.median([r['ranks'][-1] for r in members]):g} of {first['d']}",
            f"{np.median([r['share'][-1] for r in members]):.3f}",
            f"{np.median(errors):.2g}",
            f"{min(errors):.2g}..{max(errors):.2g}",
            f"{np.median(pairs):.2g}" if pairs else "",
            *(f"{error:g}" if kind == "distances" else "" for error in single),
        ]


def figure(rows: list[Row]) -> Any:
    """Shares of variance by question, of the first run of every setting."""
    lines = {}
    for row in rows:
        if row["attack"] in ("distances", "segments") and row["cell"]["run"] == 0:
            fields = {name: row[name] for name in GuessJudgement.__dataclass_fields__}
            lines[f"{setting(row['cell'])}: {row['attack']}"] = GuessJudgement(**fields)
    return plot_shares(lines)


@click.command(help=__doc__.split("\n")[0])
@click.option("--runs", default=3, show_default=True, help="Runs of every setting.")
@click.option("--init", type=click.Choice(sorted(STARTS)), default="random", show_default=True)
@click.option("--n-init", default=1, show_default=True, help="Restarts; each shows further distances.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Append rows to this file.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw shares into this file.")
def main(runs: int, init: str, n_init: int, out: Path | None, plot: Path | None) -> None:
    """Run the grid and print what each attack recovers."""
    if plot is not None:
        require("matplotlib", "matplotlib", "plot")
    rows = []
    todo = list(cells(runs, init, n_init))
    with click.progressbar(todo, label="geometry") as bar:
        rows.extend(run_grid(bar, measure, out))
    show(
        "Distances(blind=False): the server's distances, question by question (run 0)",
        ["setting", "question", "rank", "share of variance", "relative error"],
        steps(rows),
    )
    show(
        f"At the end, Distances(blind=False); labels alone is what the default shows: medians of {runs} runs",
        [
            "setting",
            "attack",
            "questions",
            "rank",
            "variance",
            "error",
            "range",
            "pairs",
            "first",
            "corrected",
        ],
        summary(rows),
    )
    if plot is not None:
        figure(rows).savefig(plot)


if __name__ == "__main__":
    main()
