"""`secfc attack membership`: who took part, as opened centers tell it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from secfc.cli.errors import RefusedInput, bad_input, cautions_noted
from secfc.cli.execute import load_federation, make_public
from secfc.cli.method import AskedOptions, Method
from secfc.cli.methods import methods, options
from secfc.cli.methods.secfc import METHOD as SECFC
from secfc.cli.options import Number, Whole, command, option, refuse_options, select_fields
from secfc.cli.outputs import check_output, json_text, write_picture
from secfc.cli.screen import Screen
from secfc.cli.settings import DataFiles, Overwriting, Printing, Seeded, Settings, check_k

if TYPE_CHECKING:
    from secfc.attacks.membership import OpenedRun
    from secfc.attacks.rates import Rates
    from secfc.data.federation import Federation

RATES = (0.01, 0.02, 0.05, 0.1, 0.2)  # of false alarms, if none is asked for


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


@dataclass(frozen=True)
class MembershipOptions(AttackOptions):
    """What `secfc attack membership` takes, besides the options of methods."""

    # fmt: off
    # fmt: off
    # fmt: off
    algorithm: str = option("secfc", list(methods()), help=
        "Whose centers are read; its options are those of run.")
    runs: int = option(40, Whole(4), help="Runs, each on a random half of every client's rows.")
    alarms: float | None = option(None, Number(0, 1, min_open=True, max_open=True), help=
        "The rate of false alarms. Default: the least of 0.01, 0.02, 0.05, 0.1, 0.2 that the runs can tell.")
    # fmt: on
    # fmt: on
    # fmt: on
    HELP: ClassVar = {"plot": "A picture: the ROC of every attack.", "seed": "Reproduces the halves."}


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
    screen = Screen.stderr(settings.as_json)
    with screen.status("Reading the data"):
        federation, source = load_federation(method, asked)
    alarms = resolve_alarms(federation, runs, given.alarms)
    with screen.counted("Runs", runs) as done:
        played = play_runs(method, asked, federation, runs, done)
    with screen.status("Attacking"), bad_input():
        found = attack_runs(played, federation, alarms)
    if given.plot is not None:
        write_picture(partial(_curves, found), given.plot)
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


@dataclass(frozen=True, eq=False, repr=False)
class PlayedRuns:
    """What was opened in every run, who was in, and the smallest cluster there.

    kept: of each run one bool a row of all.  opened: to everybody.  local: by client, to the server.
    """

    kept: list[Any]
    opened: list[OpenedRun]
    local: Mapping[str, list[OpenedRun]]


@cautions_noted()
def play_runs(
    method: Method, asked: AskedOptions, federation: Federation, runs: int, done: Any
) -> PlayedRuns:
    """All runs, on halves that coins keep.  Raises Refused where no centers are opened."""
    import numpy as np

    from secfc.attacks.membership import OpenedRun, draw_halves, select_half
    from secfc.attacks.views import OUTSIDER, View
    from secfc.kfed import OneShotPlan, local_clusters
    from secfc.pipeline import fit
    from secfc.roles.exchange import SERVER

    kept, opened = [], []
    local: dict[str, list[OpenedRun]] = {}
    for number in range(runs):
        mine = draw_halves(federation, np.random.default_rng([asked.settings.seed, number]))
        part = select_half(federation, mine)
        public = make_public(part, asked)
        algorithm: Any = method.choose(asked, public).algorithm
        with bad_input(OverflowError):
            result = fit(
                algorithm, part, seed=asked.settings.seed + number, bound=public.bound,
                keep_bodies=method.name == "k-fed",
            )  # fmt: skip
        if result.excluded:
            raise RefusedInput(
                f"{', '.join(result.excluded)} took no part to the end: who is in is not known."
            )
        with bad_input():
            opened.append(OpenedRun.of(View.of(result, result.plan, OUTSIDER), part.m / result.k))
        kept.append(np.concatenate(mine))
        if isinstance(result.plan, OneShotPlan):
            for name, (centers, own) in local_clusters(View.of(result, result.plan, SERVER)).items():
                local.setdefault(name, []).append(OpenedRun(centers, own))
        done()
    return PlayedRuns(kept, opened, local)


def attack_runs(played: PlayedRuns, federation: Federation, alarms: float) -> dict[str, Rates]:
    """Rates by what was read; of the guess that sees nothing of the run that it judges as well."""
    import numpy as np

    from secfc.attacks.membership import draw_halves, membership_scores
    from secfc.attacks.rates import score_rates

    points = federation.stacked()
    found = {"opened centers": membership_scores(played.opened, points)}
    if played.local:
        ends = np.cumsum([0, *federation.counts])
        each = [
            membership_scores(played.local[name], points[ends[j] : ends[j + 1]])
            for j, name in enumerate(federation.names)
        ]
        found["local centers, by the server"] = [np.concatenate(run) for run in zip(*each, strict=True)]
    judged = {name: score_rates(one, played.kept, alarms=(alarms,)) for name, one in found.items()}
    # Held against coins that decided nothing: any other run is among those that the law comes from.
    rng = np.random.default_rng(len(played.kept))
    other = [np.concatenate(draw_halves(federation, rng)) for _ in played.kept]
    judged["nothing of the run"] = score_rates(found["opened centers"], other, alarms=(alarms,))
    return judged


def _curves(found: Mapping[str, Rates]) -> Any:
    """The ROC of every attack."""
    from secfc.attacks.judging import plot_rates

    return plot_rates(found)


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
    click.echo("there are features, or differential privacy (--algorithm feddp --epsilon 1).")


# --------------------------------------------------------------------------------------------------
# What commands that attack runs have in common: which data, and how findings begin.


def load_attack(
    context: click.Context, given: AttackOptions, **fixed: Any
) -> tuple[AskedOptions, Federation, str, Screen]:
    """What was asked, checked, and the data with their source in words.

    fixed: options of SecFC's, whatever was asked.  Raises UsageError, Refused, InputError.
    """
    from secfc.data.inputs import require_library

    settings, plot = select_fields(Settings, vars(given), plot=None), given.plot
    asked = AskedOptions.of(context, SECFC, settings).having(**fixed)
    check_k(settings)
    require_library("secfc attack", "attacks")
    if plot is not None:
        require_library("--plot", "plot")
        check_output(plot, "--plot", settings.files, force=settings.force)
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
