"""`--algorithm overlap-1`: the published Algorithm 1 for different columns.  The server sees centroids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from secfc.cli.method import AskedOptions, ChosenAlgorithm, LocalClusters, Method
from secfc.cli.methods.overlap import local_clusterer, say_who_observes
from secfc.cli.methods.overlap import settle as settle_local
from secfc.cli.options import OTHERS, Number, Whole, fields_of, option

if TYPE_CHECKING:
    from secfc.algorithm import PublicFacts
    from secfc.data.federation import Federation


@dataclass(frozen=True)
class Overlap1Options(LocalClusters):
    """What `--algorithm overlap-1` takes."""

    # fmt: off
    rounds: int = option(3, Whole(1), group=OTHERS, help=
        "overlap-1: rounds in which clients improve global centroids.")
    alpha: float = option(0.8, Number(0, 1, min_open=True), group=OTHERS, help=
        "overlap-1: how far global centroids step towards new ones.")
    # fmt: on


def settle(asked: AskedOptions) -> AskedOptions:
    """Raise UsageError for what hides centroids that are shown anyhow."""
    if asked["start"] == "synchronized-distances":
        asked.refuse(
            ["start"],
            "{option} synchronized-distances has no use in overlap-1, which shows the server centroids.",
        )
    return settle_local(asked)


def choose(asked: AskedOptions, public: PublicFacts) -> ChosenAlgorithm:
    """Algorithm 1 of Maritan and Schenato."""
    from secfc.overlap.overlap1 import Overlap1
    from secfc.overlap.starts import matching_start_named

    start = matching_start_named(asked["start"] or "paper", local_clusterer(asked))
    algorithm = Overlap1(asked.k, start=start, rounds=asked["rounds"], alpha=asked["alpha"])
    remarks = ("the server sees every client's centroids on shared columns, in every round",)
    return ChosenAlgorithm(algorithm, remarks=remarks)


def inspect(asked: AskedOptions, federation: Federation, plan: Any) -> None:
    """Say who observes what, before anything moves."""
    say_who_observes(asked, plan)


METHOD = Method(
    "overlap-1",
    "is a published algorithm for different columns, with centroids in the clear",
    fields_of(Overlap1Options),
    choose,
    settle=settle,
    inspect=inspect,
    chooses=False,
    needs="estimators",
)
