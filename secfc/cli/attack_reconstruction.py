"""`secfc attack differences` and `reconstruct`: single rows, rebuilt from what algorithms open."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from field.ring.errors import InvalidValue
from secfc.cli.attack_membership import AttackOptions, check_known, findings_heading, load_attack
from secfc.cli.errors import RefusedInput, bad_input, cautions_noted
from secfc.cli.method import AskedOptions
from secfc.cli.methods.secfc import METHOD as SECFC
from secfc.cli.methods.secfc import SecFCOptions
from secfc.cli.options import Whole, command, fields_of, option
from secfc.cli.outputs import json_text, write_picture

if TYPE_CHECKING:
    from secfc.algorithm import Clustering
    from secfc.attacks.judging import RebuiltRows
    from secfc.data.federation import Federation

SHORT = {
    "t": "Colluding clients tolerated, as for run.",
    "bound": "A public limit on absolute values, which the attacker knows as well. Default: as for run, off "
    "the data.",
    "max_iter": "Steps.",
}
OPTIONS = fields_of(SecFCOptions, " ".join(SHORT), **SHORT)
WORDS = {"plot": "A picture: rows rebuilt, by attack.", "seed": "Reproduces a run."}


@dataclass(frozen=True)
class DifferencesOptions(AttackOptions):
    """What `secfc attack differences` takes."""

    known: str | None = option(metavar="CLIENT", help="This client attacks, instead of the server.")
    HELP: ClassVar = WORDS


@command(DifferencesOptions, more=OPTIONS)
@click.pass_context
def differences(context: click.Context, given: DifferencesOptions) -> None:
    """Rebuild rows from sums and sizes of clusters, as Lloyd over secure sums opens them in every step.

    Where a cluster has one row more in one step than in another, the difference of its sums is that row.
    SecFC opens no sums, so there is nothing to take differences of.

    \b
    Examples:
      secfc attack differences
      secfc attack differences a.csv b.csv c.csv -k 4 --known a --plot rows.png
    """
    asked, federation, source, screen = load_attack(context, given)
    check_three(federation)
    check_known(given.known, federation)
    with screen.status("Clustering over exact sums, with everything that is said written down"):
        result = run_secure_sums(asked, federation)
    with screen.status("Attacking"):
        findings = {"Lloyd over secure sums": from_steps(result, federation, given.known)}
    print_findings(asked, source, federation, findings, given.plot)


@dataclass(frozen=True)
class ReconstructOptions(AttackOptions):
    """What `secfc attack reconstruct` takes."""

    # fmt: off
    # fmt: off
    # fmt: off
    row: int | None = option(None, Whole(0), help=
        "The row of the last client, counted from 0, that the second of two runs is without. Default: its "
        "last.")
    # fmt: on
    # fmt: on
    # fmt: on
    HELP: ClassVar = WORDS


@command(ReconstructOptions, more=OPTIONS)
@click.pass_context
def reconstruct(context: click.Context, given: ReconstructOptions) -> None:
    """Try every attack that rebuilds single rows, each on an algorithm that opens what it reads.

    Messages that sites send in the clear; exact sums of every step; opened centers of two runs that differ
    by one row, and of clusters of one row. SecFC as it is by default comes last: it opens none of these.

    \b
    Examples:
      secfc attack reconstruct
      secfc attack reconstruct a.csv b.csv c.csv -k 4 --row 17 --json
    """
    asked, federation, source, screen = load_attack(context, given)
    check_three(federation)
    last = federation.parties[-1]
    count = federation.counts[-1]
    row = count - 1 if given.row is None else given.row
    if row >= count or count < 2:
        raise RefusedInput(f"--row {row}: client {last.name!r} has the rows 0 to {count - 1}, and needs two.")
    with screen.status("Adding up in the clear"):
        findings = {"k-means by messages in the clear": from_sites(asked, federation)}
    with screen.status("Clustering over exact sums"):
        findings["Lloyd over secure sums"] = from_steps(run_secure_sums(asked, federation), federation, None)
    with screen.status("Clustering by SecFC, with and without the row"):
        findings |= from_centers(asked, federation, row)
    print_findings(asked, source, federation, findings, given.plot)


def check_three(federation: Federation) -> None:
    """Raise Refused for fewer clients than the runs that are attacked need."""
    if federation.n < 3:
        raise RefusedInput(
            f"n={federation.n}: the runs that are attacked need at least 3 clients. Each FILE is one, unless "
            "--client-column names the column that tells whose row it is: add files or that option."
        )


def clusters_asked(asked: AskedOptions) -> int:
    """How many: those of the demonstration, if nothing is said."""
    k = asked.settings.k
    return 4 if k is None else int(str(k))


@cautions_noted()
def run_secure_sums(asked: AskedOptions, federation: Federation) -> Clustering:
    """Lloyd over exact secure sums; its transcript keeps every message."""
    from secfc.overlap.masked import MaskedLloyd
    from secfc.pipeline import fit

    settings = asked.settings
    way = MaskedLloyd(clusters_asked(asked), max_iter=asked["max_iter"], coarse="allow")
    with bad_input(OverflowError):
        return fit(way, federation, seed=settings.seed, bound=asked["bound"], keep_bodies=True)


def from_steps(result: Clustering, federation: Federation, known: str | None) -> RebuiltRows:
    """Of rows that the attacker does not hold."""
    import numpy as np

    from secfc.attacks.judging import judge_rows
    from secfc.attacks.reconstruction import step_differences
    from secfc.attacks.views import View
    from secfc.overlap.matching import others_sums
    from secfc.roles.exchange import SERVER

    quantizer = result.plan.quantizer
    seen = others_sums(View.of(result, result.plan, known or SERVER))
    limit = np.full(result.plan.d, quantizer.max_int / quantizer.scale)
    rows = step_differences(seen, quantizer.scale, low=-limit, high=limit)
    others = [party.read() for party in federation.parties if party.name != known]
    # Features stand in the order of their names in the messages, and in the federation's in the points.
    points = np.concatenate(others)[:, list(result.plan.columns.places)]
    return judge_rows(rows, points, 1 / quantizer.scale)


def from_sites(asked: AskedOptions, federation: Federation) -> RebuiltRows:
    """From what every site would send in the clear, of data rounded as for a secure run."""
    import numpy as np

    from field.ring.quantize import Quantizer
    from secfc.attacks.judging import judge_rows
    from secfc.attacks.reconstruction import site_differences, site_messages

    bound = asked["bound"] or max(federation.largest(), 1e-12)
    quantizer = Quantizer(2.0**16 / bound, bound)
    with bad_input():
        parts = [quantizer(party.read(), owner=f"client {party.name!r}") for party in federation.parties]
        if clusters_asked(asked) > federation.m:
            raise InvalidValue(f"k={clusters_asked(asked)} clusters of m={federation.m} points: lower k")
    settings = asked.settings
    sites = site_messages(parts, clusters_asked(asked), seed=settings.seed, max_iter=asked["max_iter"])
    limit = np.full(federation.d, bound)
    rows = site_differences(sites, quantizer.scale, low=-limit, high=limit)
    points = np.concatenate([party.read() for party in federation.parties])
    return judge_rows(rows, points, 1 / quantizer.scale)


@cautions_noted()
def from_centers(asked: AskedOptions, federation: Federation, row: int) -> dict[str, RebuiltRows]:
    """From SecFC's centers, opened without regard to sizes in two runs, one without the row; and closed."""
    import numpy as np

    from secfc.attacks.judging import judge_rows
    from secfc.attacks.reconstruction import RowGuesses, run_differences, singleton_rows
    from secfc.attacks.views import OUTSIDER, PublicOutput, View
    from secfc.cli.execute import make_public
    from secfc.data.inputs import with_parameters
    from secfc.kmeans.starts import RandomLabels
    from secfc.pipeline import fit

    public = make_public(federation, asked)
    with bad_input(OverflowError):
        chosen: Any = SECFC.choose(asked, public).algorithm
        algorithm = with_parameters(chosen, coarse="allow")
        # Random labels are the same with and without a last row, as where data are updated.
        opening = with_parameters(algorithm, init=RandomLabels(), reveal_centers=True, smallest_center=1)
        *rest, last = (replace(party, ids=None, truth=None) for party in federation.parties)
        less = replace(last, points=np.delete(last.read(), row, axis=0))
        fewer = replace(federation, parties=(*rest, less))
        seed, points = asked.settings.seed, np.concatenate([p.read() for p in federation.parties])
        outputs, step = [], 0.0
        for data in (federation, fewer):
            result = fit(opening, data, seed=seed, bound=public.bound, keep_bodies=True)
            outputs.append(View.of(result, result.plan, OUTSIDER).output)
            step = 1 / result.plan.quantizer.scale
        safe = fit(algorithm, federation, seed=seed, bound=public.bound, keep_bodies=True)
    one, other = (output for output in outputs if output is not None)
    try:
        closed = singleton_rows(View.of(safe, safe.plan, OUTSIDER).output or PublicOutput(None, None))
    except ValueError:
        none = np.zeros((0, federation.d))
        closed = RowGuesses(none, np.zeros(federation.d), "centers, of which none was opened,")
    return {
        "SecFC with centers opened, twice": judge_rows(run_differences(one, other), points, 2 * step),
        "SecFC with every center opened": judge_rows(singleton_rows(one), points, step),
        "SecFC, the default": judge_rows(closed, points, step),
    }


def print_findings(
    asked: AskedOptions,
    source: str,
    federation: Federation,
    findings: dict[str, RebuiltRows],
    plot: Path | None,
) -> None:
    """The findings on stdout, as text or as JSON, and the picture."""
    if plot is not None:
        write_picture(partial(_bars, findings), plot)
    if asked.settings.as_json:
        click.echo(json_text({name: one.figures() for name, one in findings.items()}))
        return
    findings_heading(source, federation)
    for name, one in findings.items():
        click.echo(f"\n{name}:\n  {one.sentence}")


def _bars(findings: dict[str, RebuiltRows]) -> Any:
    """Rows rebuilt, by algorithm."""
    from secfc.attacks.judging import plot_rebuilt

    return plot_rebuilt([replace(one, how=name) for name, one in findings.items()])
