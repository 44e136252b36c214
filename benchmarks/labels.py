"""What labels alone give away: of the last step, of one run, of ten restarts.

    python -m benchmarks.labels --out labels.jsonl

The table in secfc/attacks/README.md: shares of variance up to rotation, reflection and scale, medians over
runs from random labels.  The tables of scikit-learn have features of deviation one; digits are as they are.
Every labeling that the default policy shows is guessed from; which policy the run is under changes none.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import numpy as np

import secfc
from benchmarks.common import Row, run_grid, show
from secfc.attacks.geometry import Simplex
from secfc.attacks.history import label_history
from secfc.attacks.judging import judge_guess
from secfc.coded_kmeans.adversary_view import QueryRecorder, ServerView
from secfc.data.mixtures import gaussian_mixture, rotated_digits
from secfc.roles.exchange import SERVER


def table(name: str) -> np.ndarray:
    """A table of scikit-learn: features that vary, of deviation one."""
    import sklearn.datasets

    points = getattr(sklearn.datasets, f"load_{name}")().data
    points = points[:, points.std(axis=0) > 0]
    return (points - points.mean(axis=0)) / points.std(axis=0)


def digits() -> np.ndarray:
    """All handwritten digits, values 0 to 16."""
    from sklearn.datasets import load_digits

    return load_digits().data


# Data sets, drawn anew for every run where they are drawn, and k.
SETS: dict[str, tuple[Callable[[np.random.Generator], np.ndarray], int]] = {
    "mixture, sd 1": (lambda rng: gaussian_mixture(1000, 20, 4, 1.0, rng, (-10.0, 10.0))[0], 4),
    "mixture, sd 20": (lambda rng: gaussian_mixture(1000, 20, 4, 20.0, rng, (-10.0, 10.0))[0], 4),
    "one Gaussian": (lambda rng: rng.standard_normal((1000, 10)), 4),
    "digits": (lambda rng: digits(), 10),
    "wine": (lambda rng: table("wine"), 3),
    "breast cancer": (lambda rng: table("breast_cancer"), 2),
    # The fit was tuned on those above.
    "iris": (lambda rng: table("iris"), 3),
    "diabetes": (lambda rng: table("diabetes"), 5),
    "a digit, turned": (lambda rng: rotated_digits(3)[0], 4),
    "Student's t": (lambda rng: rng.standard_t(3, (800, 8)), 8),
    "a plane of 5": (lambda rng: rng.standard_normal((600, 5)) @ rng.standard_normal((5, 30)), 6),
}


INITS = ("bisecting", "random")
HEADER = ["data", "k", "last step", *(f"{init}, {n}" for init in INITS for n in ("one start", "ten"))]


def cells(runs: int) -> Iterator[Row]:
    for name in SETS:
        for init, n_init in itertools.product(INITS, (1, 10)):
            for run in range(runs):
                yield {"set": name, "init": init, "n_init": n_init, "run": run}


def measure(cell: Row) -> Iterator[Row]:
    """Shares of variance that the last labels and the labels of all steps give away, in one run."""
    draw, k = SETS[cell["set"]]
    points = draw(np.random.default_rng(cell["run"]))
    federation, witness = secfc.Federation.from_arrays(np.array_split(points, 5)), QueryRecorder()
    way = secfc.SecFC(
        k=k,
        threshold=1,
        init=cell["init"],
        n_init=cell["n_init"],
        disclosure=secfc.Distances(),
        quantization=secfc.Quantization(coarse="allow"),
    )
    result = secfc.fit(way, federation, seed=cell["run"], watch=witness)
    replay = ServerView.of_recording(witness, result, federation)
    final = judge_guess(Simplex((SERVER,), (result.history[-1],), k), replay.points)
    every = judge_guess(label_history(replay, result), replay.points)
    yield {"labelings": len(witness.questions), "final": final.share[-1], "all": every.share[-1]}


def lines(rows: list[Row]) -> Iterator[list[str]]:
    """One line a data set: medians over runs."""
    for name, (_, k) in SETS.items():
        groups = {
            (init, n): [
                r
                for r in rows
                if (r["cell"]["set"], r["cell"]["init"], r["cell"]["n_init"]) == (name, init, n)
            ]
            for init, n in itertools.product(INITS, (1, 10))
        }
        last = groups[INITS[0], 1]
        columns = [(last, "final"), *((group, "all") for group in groups.values())]
        yield [name, str(k), *(f"{np.median([r[column] for r in group]):.2f}" for group, column in columns)]


@click.command(help=__doc__.split("\n")[0])
@click.option("--runs", default=3, show_default=True, help="Runs of every setting.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Append rows to this file.")
def main(runs: int, out: Path | None) -> None:
    """Run the grid and print what labels give away."""
    rows = list(run_grid(cells(runs), measure, out))
    show("What labels give away", HEADER, lines(rows))


if __name__ == "__main__":
    main()
