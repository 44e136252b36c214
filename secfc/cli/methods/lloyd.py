"""`--algorithm lloyd`: plaintext k-means on pooled data.  Nothing is hidden."""

from __future__ import annotations

from typing import TYPE_CHECKING

from secfc.cli.execute import bound_from_data, check_bound, lloyd_steps
from secfc.cli.method import AskedOptions, ChosenAlgorithm, LloydSteps, Method
from secfc.cli.options import fields_of

if TYPE_CHECKING:
    from secfc.algorithm import PublicFacts


def choose(asked: AskedOptions, public: PublicFacts) -> ChosenAlgorithm:
    """Lloyd's heuristic on integers, as the secure protocol would take its steps."""
    from secfc.coded_kmeans.plaintext import Lloyd

    return ChosenAlgorithm(Lloyd(asked.k, **lloyd_steps(asked)), {"bound_from_data": bound_from_data(asked)})


METHOD = Method(
    "lloyd",
    "is a baseline on pooled data, without privacy",
    fields_of(LloydSteps),
    choose,
    inspect=check_bound,
)
