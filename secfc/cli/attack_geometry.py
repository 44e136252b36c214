"""`secfc attack`: what a curious party would learn from a run, by trying it."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from secfc.cli.attack_membership import check_known, findings_heading, load_attack
from secfc.cli.errors import Lazily, bad_input, cautions_noted
from secfc.cli.execute import make_public
from secfc.cli.method import COARSE, STARTS, AskedOptions
from secfc.cli.methods.secfc import METHOD as SECFC
from secfc.cli.outputs import ANY_PATH, json_text, write_picture
from secfc.cli.settings import Number, Whole, of_text_files, parse_names, parse_positive

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


@click.group(cls=Lazily, entries=COMMANDS, short_help="Try what a curious party learns.")
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


@click.command(short_help="The server's reconstruction from distances.")
@click.argument("files", nargs=-1, metavar="[FILE]...", type=ANY_PATH)
@click.option("-k", type=Whole(1), metavar="K", help="Number of clusters. Required with files.")
@click.option("-t", type=Whole(0), metavar="T", help="Colluding clients tolerated, as for run.")
@click.option("--ell", type=Whole(1), help="Segments a point is cut into, as for run.")
@click.option("--client-column", metavar="NAME", help="One file holds all clients; this column tells whose.")
@click.option(
    "--columns", metavar="A,B,...", callback=parse_names, help="Features to use. Default: all columns."
)
@click.option("--id-column", metavar="NAME", help="A column that is no feature.")
@click.option("--label-column", metavar="NAME", help="A column that is no feature.")
@of_text_files
@click.option("--init", type=click.Choice(STARTS), help="The start. Default: bisecting.")
@click.option("--n-init", type=Whole(1), default=1, show_default=True,
              help="Starts: each shows the server more.")  # fmt: skip
@click.option("--max-iter", type=Whole(1), default=300, show_default=True,
              help="Iterations a start.")  # fmt: skip
@click.option(
    "--scale", type=Number(), callback=parse_positive, help="Integer steps a data unit, as for run."
)
@click.option(
    "--bound", type=Number(), callback=parse_positive, help="A public limit on absolute values, as for run."
)
@click.option("--coarse", type=click.Choice(COARSE), default="refuse", show_default=True,
              help="Where rounding loses the data, as for run.")  # fmt: skip
@click.option("--known", metavar="CLIENT", help="This client joins the server and brings its own points.")
@click.option("--no-blind", is_flag=True, help="Without blinding: the distances of every segment as well.")
@click.option("--seed", type=Whole(0), default=0, show_default=True, help="Reproduces the starts.")
@click.option("--plot", type=ANY_PATH, metavar="OUT.png", help="A picture: variance recovered by question.")
@click.option("--force", is_flag=True, help="Overwrite the picture if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Print the judgement as JSON on stdout.")
def geometry(known: str | None, no_blind: bool, plot: Path | None, **values: Any) -> None:
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
    asked, federation, source, screen = load_attack(plot, values, disclosure="distances")
    check_known(known, federation)
    with screen.status("Clustering, with everything that is said written down"):
        result = run_watched(asked, federation, blind=not no_blind)
    with screen.status("Attacking"):
        judgements = judge_attack(result, federation, known, segments=no_blind)
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
