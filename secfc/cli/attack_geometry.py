"""`secfc attack`: what a curious party would learn from a run, by trying it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import click

from secfc.cli.attack_membership import AttackOptions, check_known, findings_heading, load_attack
from secfc.cli.errors import Lazily, bad_input, cautions_noted
from secfc.cli.execute import make_public
from secfc.cli.method import AskedOptions
from secfc.cli.methods.secfc import METHOD as SECFC
from secfc.cli.methods.secfc import SecFCOptions
from secfc.cli.options import command, fields_of, option
from secfc.cli.outputs import json_text, write_picture

if TYPE_CHECKING:
    from secfc.algorithm import Clustering
    from secfc.attacks.judging import GuessJudgement
    from secfc.cli.settings import Settings
    from secfc.data.federation import Federation


# Where each attack is, and its line in the help.
COMMANDS = {
    "geometry": ("secfc.cli.attack_geometry:geometry", "The server's reconstruction from distances."),
    "membership": ("secfc.cli.attack_membership:membership", "Who took part, from opened centers."),
    "dictionary": ("secfc.cli.attack_dictionary:dictionary", "Guessed IDs, looked up in a union."),
    "differences": ("secfc.cli.attack_reconstruction:differences", "Rows from exact sums of a run's steps."),
    "reconstruct": ("secfc.cli.attack_reconstruction:reconstruct", "Rows from all that algorithms open."),
}


@click.group(cls=Lazily, entries=COMMANDS)
def attack() -> None:
    """Try what a curious party learns from a run, and judge it by the true points.

    \b
    Examples:
      secfc attack geometry                      on handwritten digits
      secfc attack reconstruct                   single rows, by all that algorithms open
      secfc attack geometry a.csv b.csv c.csv -k 4 --n-init 5
      secfc attack membership --algorithm k-fed
      secfc attack dictionary --quota 600        who can look up record numbers
    """


@dataclass(frozen=True)
class GeometryOptions(AttackOptions):
    """What `secfc attack geometry` takes, besides some options of SecFC's."""

    # fmt: off
    # fmt: off
    # fmt: off
    known: str | None = option(metavar="CLIENT", help=
        "This client joins the server and brings its own points.")
    no_blind: bool = option(False, help="Without blinding: the distances of every segment as well.")
    # fmt: on
    # fmt: on
    # fmt: on
    HELP: ClassVar = {
        "as_json": "Print the judgement as JSON on stdout.",
        "plot": "A picture: variance recovered by question.",
    }


SHORT = {
    "t": "Colluding clients tolerated, as for run.",
    "ell": "Segments a point is cut into, as for run.",
    "init": "The start. Default: bisecting.",
    "n_init": "Starts: each shows the server more.",
    "max_iter": "Iterations a start.",
    "scale": "Integer steps a data unit, as for run.",
    "bound": "A public limit on absolute values, as for run.",
    "coarse": "Where rounding loses the data, as for run.",
}


@command(GeometryOptions, more=fields_of(SecFCOptions, " ".join(SHORT), **SHORT))
@click.pass_context
def geometry(context: click.Context, given: GeometryOptions) -> None:
    """Rebuild the points from the distances that the server decodes, and say how well it went.

    Distances to centers, with the public clusters whose means the centers are, fix the points up to
    rotation and reflection, as far as the centers seen so far span. The judge knows the true points; the
    attacker does not.

    \b
    Examples:
      secfc attack geometry
      secfc attack geometry a.csv b.csv c.csv -k 4 --n-init 5 --plot shares.png
      secfc attack geometry a.csv b.csv c.csv -k 4 --known a
    """
    asked, federation, source, screen = load_attack(context, given, disclosure="distances")
    known, plot = given.known, given.plot
    check_known(known, federation)
    with screen.status("Clustering, with everything that is said written down"):
        result = run_watched(asked, federation, blind=not given.no_blind)
    with screen.status("Attacking"):
        judgements = judge_attack(result, federation, known, segments=given.no_blind)
    if plot is not None:
        with screen.status("Drawing"):
            write_picture(partial(_shares, judgements), plot)
    print_judgements(asked.settings, source, federation, judgements)


@cautions_noted()
def run_watched(asked: AskedOptions, federation: Federation, *, blind: bool) -> Clustering:
    """The run that is attacked; its transcript keeps every message."""
    from secfc.disclosure import Distances
    from secfc.pipeline import fit

    public = make_public(federation, asked)
    algorithm: Any = SECFC.choose(asked, public).algorithm
    with bad_input(OverflowError):
        way = replace(algorithm, disclosure=Distances(blind=blind))
        return fit(way, federation, seed=asked.settings.seed, bound=public.bound, keep_bodies=True)


def judge_attack(
    result: Clustering, federation: Federation, known: str | None, *, segments: bool
) -> dict[str, GuessJudgement]:
    """Judgements of the attack and of a guess from the labels alone, by name."""
    import numpy as np

    from secfc.attacks.geometry import locate_points
    from secfc.attacks.geometry import reconstruct_geometry as reconstruct
    from secfc.attacks.history import label_history
    from secfc.attacks.judging import judge_guess
    from secfc.coded_kmeans.adversary_view import DecodedView
    from secfc.roles.exchange import SERVER

    quantizer = result.plan.quantizer
    parts = [quantizer(party.read()) / quantizer.scale for party in federation.parties]
    points = np.concatenate(parts)
    seen = DecodedView.of(result, result.plan, (SERVER,) if known is None else (SERVER, known), federation)
    with bad_input():
        guess = reconstruct(seen) if known is None else locate_points(seen)
    found = {"distances": judge_guess(guess, points)}
    if segments and known is None:
        found["distances of every segment"] = judge_guess(reconstruct(seen, segments=True), points)
    found["labels alone"] = judge_guess(label_history(seen, result), points)
    return found


def print_judgements(
    settings: Settings, source: str, federation: Federation, judgements: dict[str, GuessJudgement]
) -> None:
    """The judgements on stdout, as text or as JSON."""
    from secfc.attacks.judging import report_lines

    if settings.as_json:
        rows = {name: {**asdict(j), "share": list(j.share)} for name, j in judgements.items()}
        click.echo(json_text(rows))
        return
    findings_heading(source, federation)
    for name, judgement in judgements.items():
        click.echo(f"\nFrom {name}:")
        for line in report_lines(judgement):
            click.echo(line)


def _shares(judgements: dict[str, GuessJudgement]) -> Any:
    """The share of variance recovered after each question."""
    from secfc.attacks.judging import plot_shares

    return plot_shares(judgements)
