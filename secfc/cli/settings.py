"""What the user asked for, and which options go together."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import click
from click.core import ParameterSource

STARTS = ("random", "random-points", "k-means++", "center-separation")
COARSE = ("refuse", "allow")
# What else there is to say of differential privacy.
NOISE = ("delta", "radius", "noise", "protect")
POLICIES = ("assignments", "final-labels", "distances")
# What FedDP-KMeans needs besides.
SERVER_SIDE = ("server_file", "rows_per_client")
# Options that change nothing for an algorithm are refused: whoever sets one expects an effect.
MEANINGLESS = {
    "secfc": ("k_local", *SERVER_SIDE),
    "feddp": (
        "k_local", "ell", "reveal_centers", "smallest_center", "verify", "attack", "init", "n_init",
        "max_iter", "scale", "bound", "field", "rounding", "coarse", "membership", "merge", "threads",
        "largest", "liars", "disclosure", "dealer", "consent",
    ),
    "lloyd": (
        *SERVER_SIDE,
        "k_local", "t", "ell", "reveal_centers", "smallest_center", "verify", "attack", "membership",
        "merge", "threads", "epsilon", "liars", *NOISE, "disclosure", "dealer", "consent",
    ),
    "k-fed": (
        *SERVER_SIDE,
        "t", "ell", "reveal_centers", "smallest_center", "verify", "attack", "init", "n_init", "max_iter",
        "scale", "bound", "field", "rounding", "coarse", "membership", "merge", "threads", "largest",
        "liars", "epsilon", *NOISE, "disclosure", "dealer", "consent",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """What the user asked for; None is "choose for me"."""

    files: tuple[Path, ...]
    algorithm: str
    k: int | None
    t: int | None
    ell: int | None
    k_local: int | None
    client_column: str | None
    columns: tuple[str, ...] | None
    id_column: str | None
    label_column: str | None
    membership: str
    merge: bool
    disclosure: str
    dealer: str | None
    consent: bool
    init: str
    n_init: int
    max_iter: int
    scale: float | None
    bound: float | None
    field: str
    rounding: str
    coarse: str
    reveal_centers: bool
    smallest_center: int
    liars: int
    sealed: bool
    threads: int
    largest: int | None
    evaluate: bool
    epsilon: float | None
    delta: float
    radius: float | None
    server_file: Path | None
    rows_per_client: int | None
    noise: str
    protect: str
    seed: int
    verify: bool
    attack: bool
    checkpoint: Path | None
    labels: Path | None
    report: Path | None
    force: bool
    as_json: bool


def positive(context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """A positive finite number, or none."""
    if value is not None and not (math.isfinite(value) and value > 0):
        raise click.BadParameter(f"{value:g} is not a positive finite number.")
    return value


def names(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """Comma-separated names; a name that holds a comma is quoted as in CSV."""
    if value is None:
        return None
    found = tuple(name.strip() for name in next(csv.reader([value], skipinitialspace=True), []))
    if not found or "" in found:
        raise click.BadParameter(f"{value!r} is not a list of column names: write --columns age,weight")
    return found


def refuse(context: click.Context, options: Iterable[str], why: str) -> None:
    """Raise UsageError for the first of these options that was given.  why: "{option}" is its name."""
    for option in options:
        if context.get_parameter_source(option) is ParameterSource.COMMANDLINE:
            flag = next(p.opts[0] for p in context.command.params if p.name == option)
            raise click.UsageError(why.format(option=flag))


def check_run(context: click.Context, settings: Settings) -> None:
    """Refuse options of `run` that contradict one another.  Raises UsageError."""
    algorithm = settings.algorithm
    why = f"{{option}} has no meaning for --algorithm {algorithm}: leave it out."
    refuse(context, MEANINGLESS[algorithm], why)
    if settings.files and settings.k is None:
        raise click.UsageError("-k is missing: say how many clusters to look for, for example -k 4.")
    if not settings.files:
        columns = ("client_column", "columns", "id_column", "label_column")
        refuse(context, columns, "{option} needs a FILE whose columns it names.")
    if settings.epsilon is None:
        refuse(context, NOISE, "{option} needs --epsilon, which asks for differential privacy.")
        refuse(context, ("evaluate",), "{option} has no meaning without --epsilon: everything is reported.")
    elif settings.radius is None and algorithm != "feddp":
        raise click.UsageError(
            "--epsilon needs --radius: noise covers points up to that distance from the origin, and longer "
            "ones are shortened. Give a number that you know without looking at the data."
        )
    else:
        refuse(context, ("verify",), "{option} has no meaning with --epsilon: noisy labels are not exact.")
    if settings.membership == "open":
        refuse(
            context, ("merge",),
            "{option} has no meaning for --membership open, which has every row count by itself: add "
            "--membership private, or leave it out.",
        )  # fmt: skip
    elif settings.liars:
        raise click.UsageError(
            "--liars cannot be combined with --membership private: the shares of all clients are mixed in "
            "every row, so a false dealing cannot be traced. Leave one of them out."
        )
    elif settings.t == 0:
        raise click.UsageError(
            "--membership private needs t of at least 1: with t=0 every client sees whose the others' "
            "points are. Raise -t, or use --membership open."
        )
    if algorithm == "secfc":
        _check_disclosure(context, settings)
    if algorithm == "feddp":
        _check_feddp(settings)


def _check_disclosure(context: click.Context, settings: Settings) -> None:
    """Refuse what the policy cannot do; what only the other one can is never chosen silently."""
    shown = "or let the server see every distance with --disclosure distances."
    given = context.get_parameter_source("disclosure") is ParameterSource.COMMANDLINE
    if settings.epsilon is not None:
        refuse(
            context, ("dealer", "consent"), "{option} has no meaning with --epsilon: leave one of them out."
        )
        if given and settings.disclosure != "distances":
            raise click.UsageError(
                "--epsilon adds noise to distances that the server sees: leave it out, or leave out "
                f"--disclosure {settings.disclosure}."
            )
        return
    if settings.disclosure == "distances":
        refuse(
            context, ("dealer", "consent"),
            "{option} has no meaning for --disclosure distances: leave it out, or add --disclosure "
            "assignments.",
        )  # fmt: skip
        return
    if settings.liars:
        raise click.UsageError(
            "--liars are found by checking coded distances, which nobody sees under --disclosure "
            f"{settings.disclosure}: leave it out, {shown}"
        )
    if settings.disclosure == "final-labels":
        refuse(
            context, ("dealer",),
            "{option} has no meaning for --disclosure final-labels, where nobody deals: leave it out.",
        )  # fmt: skip
    if settings.field == "mersenne61":
        raise click.UsageError(f"--field mersenne61 has no secret comparisons: leave it out, {shown}")
    if settings.init == "k-means++" and not settings.consent:
        raise click.UsageError(
            "--init k-means++ opens the distances of every point to the points it chooses, also under "
            f"--disclosure {settings.disclosure}: allow that with --consent, take another start, {shown}"
        )


def _check_feddp(settings: Settings) -> None:
    if not settings.files:
        raise click.UsageError("--algorithm feddp needs FILEs: there is no demonstration of it.")
    if settings.server_file is None:
        raise click.UsageError(
            "--algorithm feddp needs --server-file: points that the server holds and may show to everybody."
        )
    if settings.epsilon is None:
        raise click.UsageError("--algorithm feddp needs --epsilon, the budget for everything it releases.")
    if settings.protect == "client" and settings.rows_per_client is None:
        raise click.UsageError(
            "--protect client needs --rows-per-client: bounds come from clients simulated out of the "
            "server's points. Give a number that you know without looking at the data."
        )
