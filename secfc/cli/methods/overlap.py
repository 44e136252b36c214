"""`--algorithm masked-lloyd`: k-means where clients observe different columns, over secure sums."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from secfc.cli.execute import bound_from_data, check_bound
from secfc.cli.method import AskedOptions, ChosenAlgorithm, Coalition, LloydSteps, LocalClusters, Method
from secfc.cli.options import fields_of

if TYPE_CHECKING:
    from secfc.algorithm import PublicFacts
    from secfc.data.federation import Federation


def settle(asked: AskedOptions) -> AskedOptions:
    """A number of local clusters and a way to find it contradict each other."""
    if asked["local"] == "silhouette":
        asked.refuse(["k_local"], "{option} has no meaning for --local silhouette, which finds it.")
    return asked


def local_clusterer(asked: AskedOptions) -> Any:
    """How clients find local clusters."""
    from secfc.overlap.local import LocalKMeans, Silhouette

    return Silhouette() if asked["local"] == "silhouette" else LocalKMeans(asked["k_local"])


def say_who_observes(asked: AskedOptions, plan: Any) -> None:
    """Say who observes what, before anything moves."""
    if not asked.settings.as_json:
        for sentence in plan.columns.sentences():
            print(sentence, file=sys.stderr)


def choose(asked: AskedOptions, public: PublicFacts) -> ChosenAlgorithm:
    """Lloyd's heuristic with missing features, from matched local clusters."""
    from secfc.overlap.masked import MaskedLloyd
    from secfc.overlap.starts import matching_start_named

    start = matching_start_named(asked["start"] or "automatic", local_clusterer(asked))
    algorithm = MaskedLloyd(
        asked.k, start=start, max_iter=asked["max_iter"], scale=asked["scale"],
        t=asked["t"], coarse="warn" if asked["coarse"] == "allow" else asked["coarse"],
    )  # fmt: skip
    shown = "distances between clients' local centroids" if asked["start"] == "synchronized-distances" else (
        "every client's local centroids"
    )  # fmt: skip
    remarks = (
        f"the server sees {shown} on shared columns, and exact sums in every step, of which successive ones "
        "can tell single rows",
    )
    return ChosenAlgorithm(algorithm, {"bound_from_data": bound_from_data(asked)}, remarks=remarks)


def inspect(asked: AskedOptions, federation: Federation, plan: Any) -> None:
    """Say who observes what.  Raises InputError for values outside a given bound."""
    say_who_observes(asked, plan)
    check_bound(asked, federation, plan)


METHOD = Method(
    "masked-lloyd",
    "clusters files with different columns (the default for --features union)",
    [
        *fields_of(LocalClusters),
        *fields_of(Coalition),
        *fields_of(LloydSteps, "max_iter scale bound coarse"),
    ],
    choose,
    settle=settle,
    inspect=inspect,
    chooses=False,
    needs="estimators",
)
