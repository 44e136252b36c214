"""Options that several methods share, each defined once."""

from __future__ import annotations

from typing import Any

import click

from secfc.cli.method import Asked, Option
from secfc.cli.outputs import ANY_PATH
from secfc.cli.settings import positive

STARTS = ("random", "random-points", "k-means++", "center-separation", "bisecting", "splitting")
COARSE = ("refuse", "allow")


class Workers(click.ParamType[Any]):
    """A number of workers, or their names."""

    name = "number or names"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        if value.strip().lstrip("+-").isdigit():
            return int(value)
        names = tuple(name.strip() for name in value.split(","))
        if not all(names):
            self.fail(f"{value!r} has an empty name: give a number, or names with commas between", param, ctx)
        return names


T = Option(
    "-t", type=click.IntRange(0), metavar="T", part="sharing",
    help="Clients that may collude and learn nothing but labels of what the others share; t + 1 may read it. "
    "Default: the most that n clients can have, "
    "at most a third of them, rounded up.",
)  # fmt: skip
WORKERS = Option(
    "--workers", type=Workers(), metavar="W|NAME,...", part="sharing",
    help="Who holds shares and computes: so many clients, spread over all, or these. All others deal theirs "
    "once, and hear the labels of their own points. At least 2 (ell + t - 1) + 1, and one more for each that "
    "may be lost; t counts colluding workers. Default: all clients.",
)  # fmt: skip

K_LOCAL = Option(
    "--k-local", type=click.IntRange(1),
    help="Clusters within a client. Default: k-fed: sqrt(k) rounded down; masked-lloyd, overlap-1, "
    "overlap-2: k.",
)  # fmt: skip

# Where clients observe different columns.
START = Option(
    "--start",
    type=click.Choice([
        "automatic", "paper", "synchronized", "synchronized-distances", "constrained", "nearest-merge",
        "max-min",
    ]),
    help="masked-lloyd, overlap-1: how clients' local clusters are matched. paper: the rule of its authors; "
    "synchronized-distances (masked-lloyd): the server sees distances, no centroids. Default: automatic; "
    "overlap-1: paper.",
)  # fmt: skip
LOCAL = Option(
    "--local", type=click.Choice(["k-means", "silhouette"]), default="k-means", show_default=True,
    help="masked-lloyd, overlap-1, overlap-2: how many local clusters a client looks for: --k-local, or by "
    "silhouette.",
)  # fmt: skip

# Of Lloyd's heuristic on integers.
INIT = Option(
    "--init", type=click.Choice(STARTS), part="steps",
    help="How the first clusters are drawn. Default: bisecting, under own-labels splitting, under "
    "final-labels and noise random. k-means++ shows the server distances, so it needs --consent.",
)  # fmt: skip
N_INIT = Option(
    "--n-init", type=click.IntRange(1), default=1, show_default=True, part="steps",
    help="Starts; the cheapest is kept.",
)  # fmt: skip
MAX_ITER = Option(
    "--max-iter", type=click.IntRange(1), default=300, show_default=True, part="steps",
    help="Iterations a start.",
)  # fmt: skip
SCALE = Option(
    "--scale", type=float, callback=positive, part="steps",
    help="Integer steps a data unit. Default: the finest that is exact.",
)  # fmt: skip
BOUND = Option(
    "--bound", type=float, callback=positive, part="steps",
    help="A limit on absolute values that everybody may know. Default: derived from the data, "
    "which makes that much of them public; with --epsilon, the radius.",
)  # fmt: skip
FIELD = Option(
    "--field", type=click.Choice(["ring", "mersenne61"]), default="ring", show_default=True, part="steps",
    help="Arithmetic: several 30-bit primes (fast), or modulo 2^61 - 1 as in the paper, which needs "
    "--disclosure distances.",
)  # fmt: skip
ROUNDING = Option(
    "--rounding", type=click.Choice(["nearest", "floor"]), default="nearest", show_default=True, part="steps",
    help="How values become integers; floor is the paper's.",
)  # fmt: skip
COARSENESS = Option(
    "--coarse", type=click.Choice(COARSE), default="refuse", show_default=True, part="steps",
    help="What to do where rounding leaves a feature fewer than 8 steps of its spread: refuse, or go on; a "
    "report warns below 64. Outliers and columns of different units are the usual cause.",
)  # fmt: skip
LARGEST = Option(
    "--largest", type=click.IntRange(1), part="steps",
    help="Points of the largest cluster to be exact for: fewer than all points buy a finer scale. A run in "
    "which a cluster outgrows it ends with an error.",
)  # fmt: skip
STEPS = (INIT, N_INIT, MAX_ITER, SCALE, BOUND, FIELD, ROUNDING, COARSENESS, LARGEST)

# Of differential privacy: the budget, and what else there is to say.
EPSILON = Option(
    "--epsilon", type=float, callback=positive, part="privacy",
    help="Differential privacy: noise on everything that is released, for this total budget. secfc: on every "
    "distance, over all iterations; choose few, --max-iter is then 5 by default. feddp: on sums over all "
    "clients.",
)  # fmt: skip
DELTA = Option(
    "--delta", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=1e-6, show_default=True,
    part="privacy", help="The probability that the claim fails.",
)  # fmt: skip
RADIUS = Option(
    "--radius", type=float, callback=positive, part="privacy",
    help="The distance that points are shortened to, from the origin, or, with feddp, from the mean of the "
    "server's points; needs to be known without the data. feddp's default comes from these points.",
)  # fmt: skip
NOISE = Option(
    "--noise", type=click.Choice(["shares", "server"]), default="shares", show_default=True, part="privacy",
    help="shares: clients deal the noise, the server sees noisy distances only. server: it adds the noise "
    "itself, and protects only what it publishes.",
)  # fmt: skip
PROTECT = Option(
    "--protect", type=click.Choice(["point", "client"]), default="point", show_default=True, part="privacy",
    help="What the noise hides: one data point, or all points of one client.",
)  # fmt: skip
LEDGER = Option(
    "--ledger", type=ANY_PATH, metavar="FILE", part="privacy",
    help="Remember in this file what runs on these data have spent, so that a budget lasts over runs: "
    "entered before a run begins, and what it really cost in the end. A run that crashed counts in full.",
)  # fmt: skip
TOTAL = Option(
    "--total-epsilon", type=float, callback=positive, part="privacy",
    help="With --ledger: what all runs may cost together, set once; a run beyond it is refused.",
)  # fmt: skip
SAME_PEOPLE = Option(
    "--same-people", is_flag=True, part="privacy",
    help="With --ledger: these data are other rows of the same people, and what was spent goes on counting.",
)  # fmt: skip
PRIVACY = (EPSILON, DELTA, RADIUS, NOISE, PROTECT, LEDGER, TOTAL, SAME_PEOPLE)


def refuse_idle_privacy(asked: Asked) -> None:
    """Raise UsageError for what is said of noise where none was asked for."""
    if not asked.noisy:
        names = [str(option.name) for option in PRIVACY[1:]]
        asked.refuse(names, "{option} needs --epsilon, which asks for differential privacy.")
    elif asked.get("ledger") is None:
        asked.refuse(("total_epsilon", "same_people"), "{option} needs --ledger FILE, where that is kept.")
