"""`--algorithm masked-lloyd`: k-means where clients observe different columns, over secure sums."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from secfc.cli.choose import bound_from_data, check_bound
from secfc.cli.method import Asked, Choice, Method, Option
from secfc.cli.options import BOUND, COARSENESS, K_LOCAL, MAX_ITER, SCALE, T

if TYPE_CHECKING:
    from secfc.algorithm import Public
    from secfc.data.federation import Federation

START = Option(
    "--start",
    type=click.Choice(["automatic", "paper", "synchronized", "constrained", "nearest-merge", "max-min"]),
    default="automatic", show_default=True,
    help="masked-lloyd: how clients' local clusters are matched; paper is the rule of its authors.",
)  # fmt: skip
LOCAL = Option(
    "--local", type=click.Choice(["k-means", "silhouette"]), default="k-means", show_default=True,
    help="masked-lloyd: how many local clusters a client looks for: --k-local, or by silhouette.",
)  # fmt: skip


def settle(asked: Asked) -> Asked:
    """A number of local clusters and a way to find it contradict each other."""
    if asked["local"] == "silhouette":
        asked.refuse(["k_local"], "{option} has no meaning for --local silhouette, which finds it.")
    return asked


def choose(asked: Asked, public: Public) -> Choice:
    """Lloyd's heuristic with missing features, from matched local clusters."""
    from secfc.overlap.local import LocalKMeans, Silhouette
    from secfc.overlap.masked import MaskedLloyd
    from secfc.overlap.starts import named

    local = Silhouette() if asked["local"] == "silhouette" else LocalKMeans(asked["k_local"])
    algorithm = MaskedLloyd(
        asked.k, start=named(asked["start"], local), max_iter=asked["max_iter"], scale=asked["scale"],
        t=asked["t"], coarse="warn" if asked["coarse"] == "allow" else asked["coarse"],
    )  # fmt: skip
    remarks = (
        "the server sees every client's local centroids on shared columns, and exact sums in every step, of "
        "which "
        "successive ones can tell single rows",
    )
    return Choice(algorithm, {"bound_from_data": bound_from_data(asked)}, remarks=remarks)


def inspect(asked: Asked, federation: Federation, plan: Any) -> None:
    """Say who observes what, before anything moves.  Raises InputError for values outside a given bound."""
    if not asked.settings.as_json:
        for sentence in plan.columns.sentences():
            print(sentence, file=sys.stderr)
    check_bound(asked, federation, plan)


METHOD = Method(
    "masked-lloyd",
    "clusters files with different columns (the default for --features union)",
    (START, LOCAL, K_LOCAL, T, MAX_ITER, SCALE, BOUND, COARSENESS),
    choose,
    settle=settle,
    inspect=inspect,
    chooses=False,
)
