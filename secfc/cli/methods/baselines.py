"""`--algorithm lloyd` and `k-fed`: baselines, on pooled data and in one shot.  Nothing is hidden."""

from __future__ import annotations

from typing import TYPE_CHECKING

from secfc.cli.clustering.execute import bound_from_data, check_bound, lloyd_steps
from secfc.cli.shell.method import AskedOptions, ChosenAlgorithm, LloydSteps, LocalClusters, Method
from secfc.cli.shell.options import fields_of

if TYPE_CHECKING:
    from secfc.algorithm import PublicFacts


def choose_lloyd(asked: AskedOptions, public: PublicFacts) -> ChosenAlgorithm:
    """Lloyd's heuristic on integers, as the secure protocol would take its steps."""
    from secfc.coded_kmeans.plaintext import Lloyd

    return ChosenAlgorithm(Lloyd(asked.k, **lloyd_steps(asked)), {"bound_from_data": bound_from_data(asked)})


LLOYD = Method(
    "lloyd",
    "is a baseline on pooled data, without privacy",
    fields_of(LloydSteps),
    choose_lloyd,
    inspect=check_bound,
)


def choose_kfed(asked: AskedOptions, public: PublicFacts) -> ChosenAlgorithm:
    """k-FED, by default with as many local clusters as its authors recommend."""
    from secfc.kfed import KFed

    made = KFed(asked.k, asked["k_local"], seed=asked.settings.seed)
    notes = () if asked["k_local"] else (f"k_local={made.k_local} was chosen: as many as in all",)
    return ChosenAlgorithm(made, notes=notes)


K_FED = Method(
    "k-fed",
    "is a baseline in one shot, without privacy",
    fields_of(LocalClusters, "k_local"),
    choose_kfed,
    needs="estimators",
)

METHODS = (LLOYD, K_FED)
