"""`secfc audit`: does a private run keep what it claims?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import click

from secfc.cli.errors import RefusedInput, bad_input, cautions_noted
from secfc.cli.execute import load_federation, make_public
from secfc.cli.method import AskedOptions
from secfc.cli.methods.feddp import METHOD as FEDDP
from secfc.cli.options import Clusters, Whole, command, option, select_fields
from secfc.cli.outputs import json_text
from secfc.cli.screen import Screen
from secfc.cli.settings import DataFiles, Printing, Seeded, Settings, check_k

if TYPE_CHECKING:
    from secfc.attacks.rates import Rates
    from secfc.data.federation import Federation
    from secfc.privacy.audit import AuditedRun, ShiftFinding

LEAST_RUNS = 20
ALARMS = 0.1  # what whole runs are enough to count


@dataclass(frozen=True)
class AuditOptions(DataFiles, Seeded, Printing):
    """What `secfc audit` takes, besides the options of FedDP-KMeans."""

    # fmt: off
    # fmt: off
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
    # fmt: on
    # fmt: on
    HELP: ClassVar = {
        "id_column": "A column that is no feature.",
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
      secfc audit *.csv -k 4 --server-file public.csv --epsilon 4 --runs 100
      secfc audit *.csv -k 4 --server-file public.csv --epsilon 4 --protect client --rows-per-client 200
    """
    from secfc.data.inputs import require_library

    client, row, runs = given.client, given.row, given.runs
    settings = select_fields(Settings, vars(given))
    check_k(settings)
    require_library("secfc audit", "dp")
    asked = FEDDP.settle(AskedOptions.of(context, FEDDP, settings))
    by_client = asked["protect"] == "client"
    if by_client and row is not None:
        raise click.UsageError("--row has no meaning with --protect client: the whole client is the canary.")
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
    planted, others, canary = plant_canary(federation, client, row, by_client=by_client)
    with screen.status("Clustering, with everything that is said written down"):
        found = audit_once(asked, planted, others)
    many = None
    if runs:
        with screen.counted("Runs", 2 * runs) as done:
            many = audit_repeatedly(asked, planted, others, runs, done)
    print_findings(asked, source, canary, found, many)
    if found.refuted or (many is not None and many[2]):
        context.exit(1)


def plant_canary(
    federation: Federation, client: str, row: int | None, *, by_client: bool
) -> tuple[Federation, Mapping[str, Any], str]:
    """The federation with the canary, the points without it, and what the canary is in words."""
    import numpy as np

    from secfc.feddp.auditing import without_client, without_row

    if by_client:
        return federation, without_client(federation, client), f"all points of client {client!r}"
    if row is not None:
        return federation, without_row(federation, client, row), f"row {row} of client {client!r}"
    points = federation.server_points
    if points is None:  # load() has refused that
        raise RefusedInput("--server-file is needed.")
    # Along an axis, so that rounding takes least off a shortened row; far, so that it always is one.
    far = np.zeros((1, federation.d))
    far[0, 0] = 1e4 * max(1.0, float(np.abs(points).max()))
    parties = tuple(
        replace(
            party,
            points=np.concatenate([party.read(), far]),
            ids=None,
            truth=None,
        )
        if party.name == client
        else replace(party, ids=None, truth=None)
        for party in federation.parties
    )
    others = {party.name: party.read() for party in federation.parties}
    said = f"a row planted at client {client!r}, far out along the first feature"
    return replace(federation, parties=parties), others, said


def run_audited(asked: AskedOptions, federation: Federation, seed: int) -> Any:
    """One run, whose transcript keeps what was asked."""
    from secfc.pipeline import fit

    public = make_public(federation, asked)
    algorithm = FEDDP.choose(asked, public).algorithm
    with bad_input(OverflowError):
        return fit(algorithm, federation, seed=seed, bound=public.bound, keep_bodies=True)


@cautions_noted()
def audit_once(asked: AskedOptions, planted: Federation, others: Mapping[str, Any]) -> AuditedRun:
    """The audit that needs no repetition."""
    from secfc.feddp.auditing import audit_run

    result = run_audited(asked, planted, asked.settings.seed)
    with bad_input():
        return audit_run(result, planted, others)


@cautions_noted()
def audit_repeatedly(
    asked: AskedOptions, planted: Federation, others: Mapping[str, Any], runs: int, done: Callable[[], None]
) -> tuple[Rates, ShiftFinding, bool]:
    """Rates of the attacker who knows everybody else, the shift proved, and whether it refutes the claim."""
    import numpy as np

    from secfc.attacks.rates import score_rates
    from secfc.feddp.auditing import AuditedTranscript, canary_score
    from secfc.privacy import many_gaussian_runs

    kept = tuple(
        replace(party, points=others[party.name], ids=None, truth=None)
        for party in planted.parties
        if len(others[party.name])
    )
    absent = replace(planted, parties=kept)
    if len(kept) < len(planted.parties):
        raise RefusedInput(
            "--runs compares runs with and without the canary, and a run without a client has another "
            "roster, which is public: leave --runs out with --protect client."
        )
    canary = {p.name: p.read() for p in planted.parties if len(p.read()) != len(others[p.name])}
    scores, members = [], []
    for number in range(2 * runs):
        result = run_audited(asked, (planted, absent)[number % 2], asked.settings.seed + 1 + number)
        scores.append(np.array([canary_score(AuditedTranscript.of(result), others, canary)]))
        members.append(np.array([number % 2 == 0]))
        done()
    with bad_input():
        alarms = (ALARMS,) if runs * ALARMS >= 100 else ()
        found = score_rates(scores, members, alarms=alarms)
    shift = many_gaussian_runs(np.concatenate(scores[::2]), np.concatenate(scores[1::2]))
    return found, shift, shift.refutes(result.plan.event)


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
    from secfc.report.terminal import print_items, rich_table

    claim = GaussianShift(found.allowed**0.5)
    if asked.settings.as_json:
        click.echo(json_text(as_object(asked, canary, found, many)))
        return
    unit = "client" if asked["protect"] == "client" else "data point"
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
        f"at 1 false alarm in 100, {100 * claim.rate(0.01):.1f} of 100 such would be recognized by whoever "
        "knows all the others, at the most",
    ]
    if many is not None:
        rates, shift, _ = many
        lines.append(
            f"{rates.runs // 2} runs with and as many without it: AUC {rates.auc}, {claim.auc:.3f} by law, "
            f"1 false alarm in 100 {rates.fitted(0.01):.3f} by the fitted shift, which is no count, "
            f"{claim.rate(0.01):.3f} by law; these prove a shift of at least {shift.mu:.3g}"
        )
    console.print()
    print_items(console, lines)
    refuted = found.refuted or (many is not None and many[2])
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
            "detected_at_0.01_fitted": rates.fitted(0.01),
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
                "faults": found.faults,
                "refuted": found.refuted,
                "runs": runs,
            }
        )
    )
