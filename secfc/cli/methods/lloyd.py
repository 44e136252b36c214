"""`--algorithm lloyd`: plaintext k-means on pooled data.  Nothing is hidden."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from secfc.cli.execute import bound_from_data, check_bound, lloyd_steps
from secfc.cli.method import AskedOptions, ChosenAlgorithm, LloydSteps, Method
from secfc.cli.options import fields_of

if TYPE_CHECKING:
    from secfc.algorithm import PublicFacts


def choose(asked: AskedOptions, public: PublicFacts) -> ChosenAlgorithm:
    """Lloyd's heuristic on integers, as the secure protocol would take its steps."""
    from secfc.coded_kmeans.plaintext import Lloyd

    return ChosenAlgorithm(Lloyd(asked.k, **lloyd_steps(asked)), {"bound_from_data": bound_from_data(asked)})


def prepare(algorithm: Any, plan: Any) -> None:
    """Load or compile what the run will need."""
    from secfc.cli.tiny_runs import tiny_run
    from secfc.data.inputs import with_parameters

    tiny_run(with_parameters(algorithm, k=2, n_init=1, max_iter=3, scale=None, largest=None, basis=None))


def compile_all() -> None:
    """Run everything that is compiled."""
    from secfc.cli.tiny_runs import few_points, tiny_run
    from secfc.coded_kmeans.plaintext import Lloyd
    from secfc.kmeans.starts import CenterSeparation, KMeansPlusPlus

    tiny_run(Lloyd(2, init=KMeansPlusPlus(), max_iter=3)).predict(few_points())
    tiny_run(Lloyd(2, init=CenterSeparation(), max_iter=3)).predict(few_points())


METHOD = Method(
    "lloyd",
    "is a baseline on pooled data, without privacy",
    fields_of(LloydSteps),
    choose,
    inspect=check_bound,
    prepare=prepare,
    compile=compile_all,
)
