"""`secfc dp`: centers under differential privacy, with points that the server holds or without."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from secfc.cli.shell.errors import bad_input, cautions_noted
from secfc.cli.shell.method import (
    AskedOptions,
    ChosenAlgorithm,
    Coalition,
    Method,
    NoiseOptions,
    refuse_idle_privacy,
)
from secfc.cli.shell.options import DATA, PRIVACY, Whole, fields_of, option
from secfc.errors import IncompatibleOptions, InputError

if TYPE_CHECKING:
    from secfc.algorithm import PublicFacts
    from secfc.data.federation import Federation
    from secfc.privacy.mechanisms import RandomizedResponse


class LabelsBudget(click.ParamType[Any]):
    """The epsilon of released labels, and how many of a client if that is not its number of rows."""

    name = "epsilon"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """As it was written, if it is one."""
        try:
            parse_labels_budget(str(value))
        except InputError as error:
            self.fail(f"{error}.", param, ctx)
        return str(value)


def parse_labels_budget(text: str) -> RandomizedResponse:
    """What "3" or "3:500" stands for.  Raises InputError."""
    from secfc.privacy.mechanisms import RandomizedResponse

    size, colon, slots = text.partition(":")
    try:
        return RandomizedResponse(float(size), int(slots) if colon else None)
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{text!r} is no epsilon: write 3, or 3:500 for 500 labels of each client") from None


@dataclass(frozen=True)
class FedDPOptions(Coalition, NoiseOptions):
    """What `secfc dp` takes, besides what all commands do."""

    # fmt: off
    server_file: Path | None = option(metavar="FILE", group=DATA, common=True, help=
        "Points that the server holds and may show to everybody (feddp). Without: --radius.")
    rows_per_client: int | None = option(None, Whole(1), group=PRIVACY, help=
        "With --protect client: about how many points a client has, as publicly known (feddp).")
    labels_epsilon: str | None = option(None, LabelsBudget(), metavar="EPSILON[:SLOTS]", group=PRIVACY,
        common=True, help=
        "Release a label of every row to everybody (feddp), by randomized response for this epsilon beside "
        "--epsilon, which is for centers; both add up. Numbers of rows are then public, and one row is "
        "replaced; with 3:500 each client releases 500 labels, more than any has rows, which hides that. "
        "--publish OUT.json also writes OUT-labels.csv.")
    # fmt: on


def settle(asked: AskedOptions) -> AskedOptions:
    """Raise InputError for what it cannot do without."""
    if not asked.settings.files:
        raise InputError("FedDP-KMeans needs FILEs: there is no demonstration of it. Give one a client.")
    if asked["epsilon"] is None:
        raise InputError(
            "FedDP-KMeans needs a budget for everything it releases", [("epsilon", ..., "give one")]
        )
    refuse_idle_privacy(asked)
    if asked["server_file"] is None and asked["radius"] is None:
        raise InputError(
            "FedDP-KMeans starts from points that the server holds, or within a public radius around 0",
            [
                ("server_file", ..., "give points that the server holds and may show to everybody"),
                ("radius", ..., "say how far from 0 points lie at most, known without looking at them"),
            ],
        )
    if asked.settings.standardize not in (None, "norm") and asked["server_file"] is None:
        public = ("ranges", ..., "give ranges in its place that everybody may know, and which cost nothing")
        raise InputError(
            "FedDP-KMeans spends its budget on centers alone, and a scale of the data costs a part of one",
            [
                ("standardize", None),
                *[public] * (asked.settings.ranges is None),
                ("server_file", ..., "take the scale of points that the server may show to everybody"),
            ],
        )
    return check_unit(asked)


def check_unit(asked: AskedOptions) -> AskedOptions:
    """Raise IncompatibleOptions for what does not go with what noise is to hide."""
    if asked["protect"] != "point" and asked["labels_epsilon"] is not None:
        raise IncompatibleOptions(
            {"protect": asked["protect"]},
            f"labels protect a row each, and a {'person' if asked.persons else 'client'} has many",
            [("labels_epsilon", None), ("protect", "point", "protect rows")],
        )
    if asked.persons and asked.settings.id_column is None and asked.settings.linkage is None:
        raise IncompatibleOptions(
            {"protect": asked["protect"]},
            "whose a row is must be known to the client that holds it",
            [("id_column", ..., "name the column that says it"), ("protect", "point")],
        )
    if asked["protect"] == "client" and asked["server_file"] is None:
        raise IncompatibleOptions(
            {"protect": "client"},
            "bounds come from clients simulated out of points that the server holds",
            [("server_file", ..., "give such points"), ("protect", "point")],
        )
    if asked["protect"] == "client" and asked["rows_per_client"] is None:
        raise IncompatibleOptions(
            {"protect": "client"},
            "bounds come from clients simulated out of the server's points",
            [
                ("rows_per_client", ..., "say how many rows a client has, known without looking at the data"),
                ("protect", "point"),
            ],
        )
    return asked


def extend(asked: AskedOptions, federation: Federation) -> Federation:
    """The federation with the server's points, if it holds any."""
    if asked["server_file"] is None:
        return federation
    from secfc.data.files import load_points

    settings = asked.settings
    dialect = settings.dialect()
    points = load_points(asked["server_file"], federation.common_names, dialect)
    return replace(federation, server_points=points)


def choose(asked: AskedOptions, public: PublicFacts) -> ChosenAlgorithm:
    """FedDP-KMeans for the whole budget."""
    from secfc.feddp import FedDPKMeans, ServerNoise, SharedNoise
    from secfc.privacy import Neighbors
    from secfc.privacy.events import Relation

    labels = None if asked["labels_epsilon"] is None else parse_labels_budget(asked["labels_epsilon"])
    relation: Relation = "replace" if labels and labels.slots is None else "add/remove"
    algorithm = FedDPKMeans(
        asked.k,
        asked["epsilon"],
        asked["delta"],
        neighbors=Neighbors.of_word(relation, asked["protect"]),
        noise=ServerNoise() if asked["noise"] == "server" else SharedNoise(),
        bound=asked["radius"],
        rows_per_client=asked["rows_per_client"],
        t=asked["t"],
        labels=labels,
    )
    few: tuple[str, ...] = ()
    if labels is not None and isinstance(asked.k, int) and (said := labels.warning(asked.k)) is not None:
        few = (said,)
    if asked.settings.features == "common":
        from secfc.overlap.common import CommonFeatures

        return ChosenAlgorithm(CommonFeatures(algorithm), notes=few)
    with bad_input(OverflowError), cautions_noted():
        why = algorithm.plan(public).hopeless
    return ChosenAlgorithm(algorithm, notes=few if why is None else (f"{why} (--protect point)", *few))


METHOD = Method(
    "feddp",
    "finds centers under differential privacy",
    fields_of(FedDPOptions),
    choose,
    settle=settle,
    extend=extend,
    refines=True,
    needs="dp",
)
METHODS = (METHOD,)
