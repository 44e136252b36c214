"""`secfc audit`: does a private run keep what it claims?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import click

from secfc.cli.attacks import running
from secfc.cli.clustering.execute import chooser, load_federation
from secfc.cli.methods.feddp import METHOD as FEDDP
from secfc.cli.shell.errors import RefusedInput
from secfc.cli.shell.method import AskedOptions
from secfc.cli.shell.options import Clusters, Whole, command, option, select_fields
from secfc.cli.shell.outputs import json_text
from secfc.cli.shell.screen import Screen
from secfc.cli.shell.settings import DataFiles, Printing, Seeded, Settings, check_k

if TYPE_CHECKING:
    from secfc.attacks.rates import Rates
    from secfc.privacy.audit import AuditedRun, ShiftFinding

LEAST_RUNS = 20


@dataclass(frozen=True)
class AuditOptions(DataFiles, Seeded, Printing):
    """What `secfc audit` takes, besides the options of FedDP-KMeans."""

    # fmt: off
    k: Any = option(None, Clusters(), "-k", metavar="K", help="Number of clusters.")
    client: str | None = option(metavar="CLIENT", help="Whose row, or which client. Default: the first.")
    row: int | None = option(None, Whole(0), help=
        "A row of the client, counted from 0, as the canary. Default: a row that is planted far out, where "
        "the claim is tightest.")
    runs: int = option(0, Whole(0), help=
        "Also so many runs with the canary, and so many without it, scored by an attacker who knows "
        "everybody else's points.")
    # fmt: on
    HELP: ClassVar = {
        "id_column": "A column that is no feature; with --protect person:6 whose row each is.",
        "label_column": "A column that is no feature.",
        "as_json": "Print the findings as JSON on stdout.",
    }


@command(AuditOptions, more=FEDDP.options)
@click.pass_context
def audit(context: click.Context, given: AuditOptions) -> None:
    """Run FedDP-KMeans once, and check what one person, or one client, did to every release.

    What the canary moves a release by, over the noise that is in it, is a number that one run gives. Squared
    and added up it must not exceed what the budget allows; a sensitivity that is too small shows at once, and
    the deviation of noisy minus exact sums shows whether the noise is there. The audit reads exact data: it
    is for whoever may see them. Exit code 1 if the claim is
    refuted, which happens to a right run once in a million.

    \b
    Examples:
      secfc audit *.csv -k 4 --server-file public.csv --epsilon 1
      secfc audit *.csv -k 4 --server-file public.csv --epsilon 1 --client a --row 17
      secfc audit *.csv -k 4 --radius 8 --epsilon 4 --runs 100
      secfc audit *.csv -k 4 --server-file public.csv --epsilon 4 --protect client --rows-per-client 200
    """
    from secfc.attack_runs import audit_once, audit_repeatedly, plant_canary
    from secfc.data.inputs import require_library
    from secfc.privacy.events import Neighbors

    client, row, runs = given.client, given.row, given.runs
    settings = select_fields(Settings, vars(given))
    check_k(settings)
    require_library("secfc audit", "dp")
    asked = FEDDP.settle(AskedOptions.of(context, FEDDP, settings))
    neighbors = Neighbors.of_word("add/remove", asked["protect"])
    if asked["protect"] != "point" and row is not None:
        raise click.UsageError(
            f"--row has no meaning with --protect {asked['protect']}: all rows of one {neighbors.unit} are "
            "the canary."
        )
    if 0 < runs < LEAST_RUNS:
        raise click.UsageError(
            f"--runs {runs} cannot tell anything apart: give at least {LEAST_RUNS}, or leave it out for the "
            "audit of one run, which needs no repetition."
        )
    screen = Screen.stderr(settings.as_json)
    with screen.status("Reading the data"):
        federation, source = load_federation(FEDDP, asked)
    client = federation.names[0] if client is None else client
    if client not in federation.names:
        raise RefusedInput(
            f"--client {client!r} is no client: the clients are {', '.join(federation.names)}."
        )
    planted, others, canary = plant_canary(federation, client, row, neighbors, asked["radius"])
    choose = chooser(FEDDP, asked)
    with screen.status("Clustering, with everything that is said written down"), running():
        found = audit_once(choose, planted, others, seed=given.seed)
    many = None
    if runs:
        with screen.counted("Runs", 2 * runs) as done, running():
            many = audit_repeatedly(choose, planted, others, runs, seed=given.seed, done=done)
    print_findings(asked, source, canary, found, many)
    if found.is_refuted or (many is not None and many[2]):
        context.exit(1)


def print_findings(
    asked: AskedOptions,
    source: str,
    canary: str,
    found: AuditedRun,
    many: tuple[Rates, ShiftFinding, bool] | None,
) -> None:
    """The findings on stdout, as text or as JSON."""
    from rich.console import Console

    from secfc.privacy.audit import GaussianShift
    from secfc.privacy.events import Neighbors
    from secfc.report.terminal import print_items, rich_table

    claim = GaussianShift(found.allowed**0.5)
    if asked.settings.as_json:
        click.echo(json_text(as_object(asked, canary, found, many)))
        return
    unit = Neighbors.of_word("add/remove", asked["protect"]).unit
    said = f"epsilon = {asked['epsilon']:g} at delta = {asked['delta']:g}, of one {unit}"
    click.echo(f"{source}\nClaim: {said}: a shift of {claim.mu:.4g}\nCanary: {canary}\n")
    rows = rich_table(
        "release", "numbers", "moved by", "at most", "of the budget", "noise, of declared", text=1
    )
    for c in found.contributions:
        rows.add_row(
            c.what, f"{c.size:,}", f"{c.moved:.6g}", f"{c.sensitivity:.6g}", f"{c.spent / found.allowed:.1%}",
            f"{c.measured / c.deviation:.3f}",
        )  # fmt: skip
    numbers = sum(c.size for c in found.contributions)
    rows.add_row("all", f"{numbers:,}", "", "", f"{found.share:.2%}", f"{found.measured:.3f}")
    console = Console(markup=False, highlight=False, emoji=False)
    console.width = max(console.width, 100)
    console.print(rows)
    lines = list(found.faults) or [
        f"in one run the canary spends {found.spent:.5g} of the squared shift {found.allowed:.5g} that the "
        f"budget allows, and the noise is there: {found.measured:.3f} times the declared over {numbers} "
        "numbers",
        f"at 1 false alarm in 100, {100 * claim.detection_rate(0.01):.1f} of 100 such would be recognized "
        "by whoever knows all the others, at the most",
    ]
    if found.labels is not None and not found.faults:
        lines.append(
            f"{found.labels.trials:,} released labels prove an epsilon of at least "
            f"{found.labels.epsilon:.3g}, declared are {found.labels_epsilon:g} beside that of the sums"
        )
    if many is not None:
        rates, shift, _ = many
        lines.append(
            f"{rates.runs // 2} runs with and as many without it: AUC {rates.auc}, {claim.auc:.3f} by law, "
            f"1 false alarm in 100 {rates.fitted_detections(0.01):.3f} by the fitted shift, which is no "
            f"count, {claim.detection_rate(0.01):.3f} by law; these prove a shift of at least {shift.mu:.3g}"
        )
    console.print()
    print_items(console, lines)
    refuted = found.is_refuted or (many is not None and many[2])
    click.echo(
        f"\n{'REFUTED: the run does not keep the claim.' if refuted else 'Nothing refutes the claim.'}"
    )


def as_object(
    asked: AskedOptions, canary: str, found: AuditedRun, many: tuple[Rates, ShiftFinding, bool] | None
) -> dict[str, Any]:
    """The findings for programs."""
    from secfc.report import strict_json

    runs = None
    if many is not None:
        rates, shift, refuted = many
        runs = {
            "runs": rates.runs,
            "auc": asdict(rates.auc),
            "detected": {str(a): asdict(i) for a, i in rates.at.items()},
            "detected_at_0.01_fitted": rates.fitted_detections(0.01),
            "shift": asdict(rates.shift),
            "shift_at_least": shift.mu,
            "refuted": refuted,
        }
    return dict(
        strict_json(
            {
                "epsilon": asked["epsilon"],
                "delta": asked["delta"],
                "canary": canary,
                "allowed": found.allowed,
                "spent": found.spent,
                "share": found.share,
                "noise": found.measured,
                "releases": [
                    {**asdict(c), "spent": c.spent, "beyond": c.beyond} for c in found.contributions
                ],
                "labels": None
                if found.labels is None
                else {"declared": found.labels_epsilon, **asdict(found.labels)},
                "faults": found.faults,
                "refuted": found.is_refuted,
                "runs": runs,
            }
        )
    )
