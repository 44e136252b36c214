"""`--algorithm feddp`: centers under differential privacy, with points that the server holds or without."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from secfc.cli.errors import bad_input, cautions_noted, to_option_names
from secfc.cli.method import PRIVACY, AskedOptions, ChosenAlgorithm, Method, Option, T, refuse_idle_privacy
from secfc.cli.outputs import ANY_PATH

if TYPE_CHECKING:
    from secfc.algorithm import PublicFacts
    from secfc.data.federation import Federation


def settle(asked: AskedOptions) -> AskedOptions:
    """Raise UsageError for what it cannot do without."""
    refuse_idle_privacy(asked)
    if not asked.settings.files:
        raise click.UsageError("--algorithm feddp needs FILEs: there is no demonstration of it.")
    if asked["server_file"] is None and asked["radius"] is None:
        raise click.UsageError(
            "--algorithm feddp needs --server-file: points that the server holds and may show to everybody. "
            "Without any it needs --radius: how far from 0 points lie at most, known without looking at them."
        )
    if asked["epsilon"] is None:
        raise click.UsageError("--algorithm feddp needs --epsilon, the budget for everything it releases.")
    if asked["server_file"] is None and asked["protect"] == "client":
        raise click.UsageError(
            "--protect client needs --server-file: bounds come from clients simulated out of its points."
        )
    if asked["protect"] == "client" and asked["rows_per_client"] is None:
        raise click.UsageError(
            "--protect client needs --rows-per-client: bounds come from clients simulated out of the "
            "server's points. Give a number that you know without looking at the data."
        )
    return asked


def extend(asked: AskedOptions, federation: Federation) -> Federation:
    """The federation with the server's points, if it holds any."""
    if asked["server_file"] is None:
        return federation
    from secfc.data.dialects import Dialect
    from secfc.data.files import load_points

    settings = asked.settings
    dialect = Dialect(settings.encoding, settings.delimiter, settings.decimal)
    points = load_points(asked["server_file"], federation.common_names, dialect)
    return replace(federation, server_points=points)


def choose(asked: AskedOptions, public: PublicFacts) -> ChosenAlgorithm:
    """FedDP-KMeans for the whole budget."""
    from secfc.feddp import FedDPKMeans, ServerNoise, SharedNoise
    from secfc.privacy import Neighbors

    algorithm = FedDPKMeans(
        asked.k,
        asked["epsilon"],
        asked["delta"],
        neighbors=Neighbors(unit="client" if asked["protect"] == "client" else "data point"),
        noise=ServerNoise() if asked["noise"] == "server" else SharedNoise(),
        bound=asked["radius"],
        rows_per_client=asked["rows_per_client"],
        t=asked["t"],
    )
    if asked.settings.features == "common":
        from secfc.overlap.common import CommonFeatures

        return ChosenAlgorithm(CommonFeatures(algorithm))
    with bad_input(ValueError, OverflowError), cautions_noted():
        why = algorithm.plan(public).hopeless
    return ChosenAlgorithm(algorithm, notes=() if why is None else (to_option_names(why),))


def prepare(algorithm: Any, plan: Any) -> None:
    """Load or compile what the run will need."""
    from secfc.cli.tiny_runs import tiny_run

    algorithm = algorithm.capabilities.inner or algorithm
    tiny_run(replace(algorithm, k=2, t=1, rows_per_client=algorithm.rows_per_client and 60))


def compile_all() -> None:
    """Run everything that is compiled."""
    from secfc.cli.tiny_runs import tiny_run
    from secfc.feddp import FedDPKMeans, ServerNoise, SharedNoise

    tiny_run(FedDPKMeans(2, 10, 1e-6, noise=ServerNoise()))
    tiny_run(FedDPKMeans(2, 10, 1e-6, noise=SharedNoise()))


METHOD = Method(
    "feddp",
    "finds centers under differential privacy",
    (
        T,
        *PRIVACY,
        Option(
            "--server-file", type=ANY_PATH, metavar="FILE",
            help="feddp: points that the server holds and may show to everybody. Without: --radius.",
        ),
        Option(
            "--rows-per-client", type=click.IntRange(1),
            help="feddp, --protect client: about how many points a client has, as publicly known.",
        ),
    ),
    choose,
    settle=settle,
    extend=extend,
    prepare=prepare,
    compile=compile_all,
    refines=True,
    needs="dp",
)  # fmt: skip
