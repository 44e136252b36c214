"""`secfc attack`: what a curious party would learn from a run, by trying it."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from secfc.cli.clustering.execute import chooser, load_federation
from secfc.cli.clustering.run import Algorithms
from secfc.cli.methods import methods, options
from secfc.cli.methods.secfc import METHOD as SECFC
from secfc.cli.methods.secfc import SecFCOptions
from secfc.cli.shell.errors import Lazily, RefusedInput, bad_input, cautions_noted
from secfc.cli.shell.method import AskedOptions
from secfc.cli.shell.options import Number, Whole, command, fields_of, option, refuse_options, select_fields
from secfc.cli.shell.outputs import check_output, check_picture, json_text, write_picture
from secfc.cli.shell.screen import Screen
from secfc.cli.shell.settings import DataFiles, Overwriting, Printing, Seeded, Settings, check_k

if TYPE_CHECKING:
    from secfc.algorithm import Clustering
    from secfc.attack_runs import PlayedRuns
    from secfc.attacks.dictionary import DictionaryFinding
    from secfc.attacks.judging import GuessJudgement, RebuiltRows
    from secfc.attacks.rates import Rates
    from secfc.data.federation import Federation

# Where each attack is, and its line in the help.
COMMANDS = {
    "geometry": ("secfc.cli.attacks:geometry", "The server's reconstruction from distances."),
    "membership": ("secfc.cli.attacks:membership", "Who took part, from opened centers."),
    "dictionary": ("secfc.cli.attacks:dictionary", "Guessed IDs, looked up in a union."),
    "differences": ("secfc.cli.attacks:differences", "Rows from exact sums of a run's steps."),
    "reconstruct": ("secfc.cli.attacks:reconstruct", "Rows from all that algorithms open."),
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


# --------------------------------------------------------------------------------------------------
# What commands that attack runs have in common: which data, and how findings begin.


@dataclass(frozen=True)
class AttackOptions(DataFiles, Seeded, Printing, Overwriting):
    """What attacks on runs take: which data are attacked, and how findings are shown."""

    k: int | None = option(None, Whole(1), "-k", metavar="K", help="Number of clusters. Required with files.")
    plot: Path | None = option(metavar="OUT.png", help="A picture.")
    HELP: ClassVar = {
        "id_column": "A column that is no feature.",
        "label_column": "A column that is no feature.",
        "force": "Overwrite the picture if it exists.",
        "as_json": "Print the findings as JSON on stdout.",
    }


@contextmanager
def running() -> Iterator[None]:
    """Within the body runs are made: what they refuse is the user's to mend; cautions are known."""
    with bad_input(OverflowError), cautions_noted():
        yield


def load_attack(
    context: click.Context, given: AttackOptions, **fixed: Any
) -> tuple[AskedOptions, Federation, str, Screen]:
    """What was asked, checked, and the data with their source in words.

    fixed: options of SecFC's, whatever was asked.  Raises UsageError, Refused, InputError.
    """
    from secfc.data.inputs import require_library

    settings, plot = select_fields(Settings, vars(given), plot=None), given.plot
    asked = AskedOptions.of(context, SECFC, settings).with_values(**fixed)
    check_k(settings)
    require_library("secfc attack", "attacks")
    if plot is not None:
        require_library("--plot", "plot")
        check_output(plot, "--plot", settings.files, force=settings.force)
        check_picture(plot, "--plot")
    screen = Screen.stderr(settings.as_json)
    with screen.status("Reading the data"):
        federation, source = load_federation(SECFC, asked)
    return asked, federation, source, screen


def check_known(known: str | None, federation: Federation) -> None:
    """Raise Refused if the attacker is to be a client that there is not."""
    if known is not None and known not in federation.names:
        raise RefusedInput(f"--known {known!r} is no client: the clients are {', '.join(federation.names)}.")


def findings_heading(source: str, federation: Federation) -> None:
    """The first lines of findings as text."""
    click.echo(
        f"{source}\nm = {federation.m} points, d = {federation.d} features, n = {federation.n} clients"
    )


# --------------------------------------------------------------------------------------------------
# Geometry, from distances.


@dataclass(frozen=True)
class GeometryOptions(AttackOptions):
    """What `secfc attack geometry` takes, besides some options of SecFC's."""

    # fmt: off
    known: str | None = option(metavar="CLIENT", help=
        "This client joins the server and brings its own points.")
    no_blind: bool = option(False, help="Without blinding: the distances of every segment as well.")
    # fmt: on
    HELP: ClassVar = {
        "as_json": "Print the judgement as JSON on stdout.",
        "plot": "A picture: variance recovered by question.",
    }


GEOMETRY_WORDS = {
    "t": "Colluding clients tolerated, as for run.",
    "ell": "Segments a point is cut into, as for run.",
    "init": "The start. Default: bisecting.",
    "n_init": "Starts: each shows the server more.",
    "max_iter": "Iterations a start.",
    "scale": "Integer steps a data unit, as for run.",
    "bound": "A public limit on absolute values, as for run.",
    "coarse": "Where rounding loses the data, as for run.",
}


@command(GeometryOptions, more=fields_of(SecFCOptions, " ".join(GEOMETRY_WORDS), **GEOMETRY_WORDS))
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
    from secfc.attack_runs import judge_geometry
    from secfc.attacks.judging import plot_shares

    asked, federation, source, screen = load_attack(context, given, disclosure="distances")
    known, plot = given.known, given.plot
    check_known(known, federation)
    with screen.status("Clustering, with everything that is said written down"), running():
        result = run_watched(asked, federation, blind=not given.no_blind)
    with screen.status("Attacking"), bad_input():
        judgements = judge_geometry(result, federation, known, segments=given.no_blind)
    if plot is not None:
        with screen.status("Drawing"):
            write_picture(lambda: plot_shares(judgements), plot)
    print_judgements(asked.settings, source, federation, judgements)


def run_watched(asked: AskedOptions, federation: Federation, *, blind: bool) -> Clustering:
    """The run that is attacked; its transcript keeps every message."""
    from secfc.disclosure import Distances
    from secfc.pipeline import fit

    algorithm, bound = chooser(SECFC, asked)(federation)
    way = replace(algorithm, disclosure=Distances(blind=blind))
    return fit(way, federation, seed=asked.settings.seed, bound=bound, keep_bodies=True)


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


# --------------------------------------------------------------------------------------------------
# Single rows, from what algorithms open.

ROW_WORDS = {
    "t": "Colluding clients tolerated, as for run.",
    "bound": "A public limit on absolute values, which the attacker knows as well. Default: as for run, off "
    "the data.",
    "max_iter": "Steps.",
}
ROW_OPTIONS = fields_of(SecFCOptions, " ".join(ROW_WORDS), **ROW_WORDS)
PICTURE = {"plot": "A picture: rows rebuilt, by attack.", "seed": "Reproduces a run."}


@dataclass(frozen=True)
class DifferencesOptions(AttackOptions):
    """What `secfc attack differences` takes."""

    known: str | None = option(metavar="CLIENT", help="This client attacks, instead of the server.")
    HELP: ClassVar = PICTURE


@command(DifferencesOptions, more=ROW_OPTIONS)
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
    from secfc.attack_runs import rows_from_steps, run_secure_sums

    asked, federation, source, screen = load_attack(context, given)
    check_three(federation)
    check_known(given.known, federation)
    with screen.status("Clustering over exact sums, with everything that is said written down"), running():
        result = run_secure_sums(federation, **run_values(asked))
    with screen.status("Attacking"):
        findings = {"Lloyd over secure sums": rows_from_steps(result, federation, given.known)}
    print_findings(asked, source, federation, findings, given.plot)


@dataclass(frozen=True)
class ReconstructOptions(AttackOptions):
    """What `secfc attack reconstruct` takes."""

    # fmt: off
    row: int | None = option(None, Whole(0), help=
        "The row of the last client, counted from 0, that the second of two runs is without. Default: its "
        "last.")
    # fmt: on
    HELP: ClassVar = PICTURE


@command(ReconstructOptions, more=ROW_OPTIONS)
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
    from secfc.attack_runs import rows_from_centers, rows_from_sites, rows_from_steps, run_secure_sums

    asked, federation, source, screen = load_attack(context, given)
    check_three(federation)
    last = federation.parties[-1]
    count = federation.counts[-1]
    row = count - 1 if given.row is None else given.row
    if row >= count or count < 2:
        raise RefusedInput(f"--row {row}: client {last.name!r} has the rows 0 to {count - 1}, and needs two.")
    how = run_values(asked)
    with screen.status("Adding up in the clear"), running():
        findings = {"k-means by messages in the clear": rows_from_sites(federation, **how)}
    with screen.status("Clustering over exact sums"), running():
        result = run_secure_sums(federation, **how)
        findings["Lloyd over secure sums"] = rows_from_steps(result, federation, None)
    with screen.status("Clustering by SecFC, with and without the row"), running():
        algorithm, bound = chooser(SECFC, asked)(federation)
        findings |= rows_from_centers(algorithm, federation, row, seed=given.seed, bound=bound)
    print_findings(asked, source, federation, findings, given.plot)


def run_values(asked: AskedOptions) -> dict[str, Any]:
    """Arguments of the runs that are attacked; clusters of the demonstration, if nothing is said."""
    k = 4 if asked.settings.k is None else int(str(asked.settings.k))
    return {"k": k, "max_iter": asked["max_iter"], "seed": asked.settings.seed, "bound": asked["bound"]}


def check_three(federation: Federation) -> None:
    """Raise Refused for fewer clients than the runs that are attacked need."""
    if federation.n < 3:
        raise RefusedInput(
            f"n={federation.n}: the runs that are attacked need at least 3 clients. Each FILE is one, unless "
            "--client-column names the column that tells whose row it is: add files or that option."
        )


def print_findings(
    asked: AskedOptions,
    source: str,
    federation: Federation,
    findings: dict[str, RebuiltRows],
    plot: Path | None,
) -> None:
    """The findings on stdout, as text or as JSON, and the picture."""
    from secfc.attacks.judging import plot_rebuilt

    if plot is not None:
        bars = [replace(one, how=name) for name, one in findings.items()]
        write_picture(lambda: plot_rebuilt(bars), plot)
    if asked.settings.as_json:
        click.echo(json_text({name: one.figures() for name, one in findings.items()}))
        return
    findings_heading(source, federation)
    for name, one in findings.items():
        sentence = textwrap.fill(one.sentence, 80, initial_indent="  ", subsequent_indent="  ")
        click.echo(f"\n{name}:\n{sentence}")


# --------------------------------------------------------------------------------------------------
# Membership, from opened centers.

RATES = (0.01, 0.02, 0.05, 0.1, 0.2)  # of false alarms, if none is asked for


@dataclass(frozen=True)
class MembershipOptions(AttackOptions, Algorithms):
    """What `secfc attack membership` takes, besides the options of methods."""

    # fmt: off
    runs: int = option(40, Whole(4), help="Runs, each on a random half of every client's rows.")
    alarms: float | None = option(None, Number(0, 1, min_open=True, max_open=True), help=
        "The rate of false alarms. Default: the least of 0.01, 0.02, 0.05, 0.1, 0.2 that the runs can tell.")
    # fmt: on
    HELP: ClassVar = {
        "plot": "A picture: the ROC of every attack.",
        "seed": "Reproduces the halves.",
        "algorithm": "Whose centers are read; its options are those of run, dp or overlap.",
    }  # fmt: skip


@command(MembershipOptions, more=list(options().values()))
@click.pass_context
def membership(context: click.Context, given: MembershipOptions) -> None:
    """Tell from opened centers which people took part, and say how well it went.

    In every run a coin keeps half of each client's rows: members and others are of one law, whatever the
    data are. The attacker knows all rows that halves are drawn from, and has the other runs to learn
    from. Under k-fed it is the server as well, who sees the centers of each client.

    \b
    Examples:
      secfc attack membership --reveal-centers
      secfc attack membership a.csv b.csv c.csv -k 4 --algorithm k-fed --plot roc.png
      secfc attack membership *.csv -k 4 --algorithm feddp --server-file public.csv --epsilon 1
    """
    from secfc.attack_runs import membership_rates, play_runs
    from secfc.attacks.judging import plot_rates
    from secfc.data.inputs import require_library

    method, runs = methods()[given.algorithm], given.runs
    settings = select_fields(Settings, vars(given), plot=None)
    others = [name for name in options() if name not in method.names]
    refuse_options(context, others, f"{{option}} has no meaning for --algorithm {method.name}: leave it out.")
    check_k(settings)
    require_library("secfc attack membership", "attacks")
    asked = method.settle(AskedOptions.of(context, method, settings))
    if given.plot is not None:
        require_library("--plot", "plot")
        check_output(given.plot, "--plot", asked.read, force=settings.force)
        check_picture(given.plot, "--plot")
    screen = Screen.stderr(settings.as_json)
    with screen.status("Reading the data"):
        federation, source = load_federation(method, asked)
    alarms = resolve_alarms(federation, runs, given.alarms)
    with screen.counted("Runs", runs) as done, running():
        played = play_runs(chooser(method, asked), federation, runs, seed=given.seed, done=done)
    with screen.status("Attacking"), bad_input():
        found = membership_rates(played, federation, alarms)
    if given.plot is not None:
        write_picture(lambda: plot_rates(found), given.plot)
    print_rates(asked, source, federation, played, found, alarms)


def resolve_alarms(federation: Federation, runs: int, alarms: float | None) -> float:
    """The rate of false alarms, by default the least of RATES that so many runs tell.

    Raises Refused, before anything is run, for fewer others than it takes.
    """
    from secfc.attacks.rates import PER_ALARM

    each = sum(count // 2 for count in federation.counts)
    if alarms is None:
        alarms = next((rate for rate in RATES if each * runs * rate >= PER_ALARM), RATES[-1])
    needed = math.ceil(PER_ALARM / alarms - 1e-6)
    if each * runs < needed:
        raise RefusedInput(
            f"{each * runs:,} non-members in {runs} runs cannot resolve a rate of {alarms:g} false alarms: "
            f"{needed:,} are needed. Give --runs {math.ceil(needed / max(each, 1))}, or --alarms "
            f"{PER_ALARM / max(each * runs, 1):.2g} or more."
        )
    return alarms


def print_rates(
    asked: AskedOptions,
    source: str,
    federation: Federation,
    played: PlayedRuns,
    found: Mapping[str, Rates],
    alarms: float,
) -> None:
    """The rates on stdout, as text or as JSON."""
    from secfc.privacy.audit import GaussianShift

    typical = sum(federation.counts) / 2 / len(played.opened[0].centers)
    law = GaussianShift.of_center(federation.d, typical)
    if asked.settings.as_json:
        rows = {
            name: {
                **asdict(one),
                "at": {f"{rate:g}": asdict(i) for rate, i in one.at.items()},
                "curve": [list(pair) for pair in one.curve],
            }
            for name, one in found.items()
        }
        click.echo(json_text({"attacks": rows, "alarms": alarms, "law_auc": law.auc}))
        return
    click.echo(
        f"{source}\nm = {federation.m} points, half of them in every run, d = {federation.d} features, "
        f"n = {federation.n} clients\nClusters of {typical:.0f} points on average. With "
        f"independent features who knows the law has an AUC of {law.auc:.3f} by theory, and who knows all "
        f"rows, as here, up to {GaussianShift(law.mu * 2**0.5).auc:.3f}"
    )
    of = 1 / alarms
    for name, one in found.items():
        rate = one.at[alarms]
        click.echo(f"\nFrom {name}: AUC {one.auc}, over {one.runs} runs")
        click.echo(
            f"  of 100 people, {100 * rate.value:.1f} ({100 * rate.low:.1f} to {100 * rate.high:.1f}) would "
            f"be recognized at 1 false alarm in {of:,.3g}; by chance {100 * alarms:g}"
        )
    click.echo("\nWhat stops it: no opened centers (the default of secfc), clusters of many more points than")
    click.echo("there are features, or differential privacy (`secfc dp --epsilon 1`).")


# --------------------------------------------------------------------------------------------------
# Guessed IDs.


@dataclass(frozen=True)
class DictionaryOptions(Seeded, Printing):
    """What `secfc attack dictionary` takes."""

    n: int = option(3, Whole(3), "-n", metavar="N", help="Clients.")
    t: int = option(1, Whole(1), "-t", metavar="T", help="Clients that attack together; n >= 2 t + 1.")
    ids: int = option(500, Whole(1), help="IDs of each other client.")
    digits: int = option(4, Whole(1, 7), help="Digits of a record number: all of them are guessed.")
    quota: int = option(500, Whole(1, 1 << 20), metavar="IDS", help="Of oblivious tags, as for run.")
    HELP: ClassVar = {"seed": "Reproduces the IDs.", "as_json": "Print the findings as JSON on stdout."}


@command(DictionaryOptions)
def dictionary(given: DictionaryOptions) -> None:
    """Guess all record numbers, and look them up in a union of made-up ones.

    With the key of tags that all clients share, one client finds everybody. With a quota, t clients find
    what as many guesses as they may ask for are worth, and parts of the key alone, the server's too, nothing.

    \b
    Examples:
      secfc attack dictionary
      secfc attack dictionary -n 5 -t 2 --digits 5 --quota 1000 --json
    """
    import numpy as np

    from psu.ristretto import require_libsodium
    from secfc.attacks.dictionary import DictionaryGame

    try:
        require_libsodium()
    except ImportError as error:
        raise RefusedInput(str(error)) from error
    t, ids, digits, quota = given.t, given.ids, given.digits, given.quota
    rng = np.random.default_rng(given.seed)
    if ids > min(quota, 10**digits):
        raise RefusedInput(
            f"--ids {ids}: at most --quota ({quota}) and {10**digits} numbers of {digits} digits."
        )
    sets = [rng.choice(10**digits, ids, replace=False).tolist() for _ in range(given.n)]
    guesses = rng.permutation(10**digits).tolist()
    with bad_input():
        shared, apart = (DictionaryGame.of(sets, t, q) for q in (0, quota))
    clients = "1 client" if t == 1 else f"{t} clients"
    parts = [j for j in apart.plan.evaluators if j < t] + [given.n]
    findings = {
        "1 client, shared key": shared.by_key(guesses),
        f"{clients}, quota of {quota:,}": apart.by_questions(guesses),
        "the server alone": apart.by_own_keys([given.n], guesses),
        f"the server and {clients}, no question": apart.by_own_keys(parts, guesses),
    }
    if given.as_json:
        click.echo(json_text({"union": len(apart.union), **{k: asdict(v) for k, v in findings.items()}}))
    else:
        show_dictionary(findings, len(apart.union), digits)


def show_dictionary(findings: dict[str, DictionaryFinding], m: int, digits: int) -> None:
    from rich.console import Console

    from secfc.report import terminal

    console = Console(markup=False, highlight=False, emoji=False)
    terminal.print_heading(console, "A dictionary of IDs")
    terminal.print_paragraph(
        console,
        f"{m:,} record numbers of {digits} digits are in the union of the others; all {10**digits:,} are "
        "guessed, in random order. Worth: what as many guesses as were tested find on average.",
    )
    table = terminal.rich_table("Who", "tested", "worth", "found", "wrong", "refused", text=1)
    for who, looked in findings.items():
        knows = "shared" in who or "quota" in who
        worth = f"{looked.expected:,.0f}" if knows else "-"
        tested = f"{looked.tested:,}" if knows else "0"
        table.add_row(who, tested, worth, f"{looked.found:,}", f"{looked.wrong:,}", f"{looked.refused:,}")
    console.print(table)
