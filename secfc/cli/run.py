"""`secfc run`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from secfc.cli.errors import Refused, Remembering
from secfc.cli.execute import execute, forget, load
from secfc.cli.outputs import ANY_PATH, STDOUT, check_output, csv_of, dumped, write_all, writing
from secfc.cli.screen import Screen
from secfc.cli.settings import COARSE, POLICIES, STARTS, Settings, check_run, names, positive

if TYPE_CHECKING:
    from secfc.algorithm import Clustering
    from secfc.data.federation import Federation
    from secfc.report import Outcome

LABELS, REPORT = Path("secfc-labels.csv"), Path("secfc-report.json")


@click.command(cls=Remembering, short_help="Cluster files, or a demonstration data set.")
@click.argument("files", nargs=-1, metavar="[FILE]...", type=ANY_PATH)
@click.option("-k", type=click.IntRange(1), metavar="K", help="Number of clusters. Required with files.")
@click.option(
    "-t", type=click.IntRange(0), metavar="T",
    help="Clients that may collude and learn nothing but labels of what the others share; t + 1 may read it. "
    "Default: the most that n clients can have, "
    "at most a third of them, rounded up.",
)  # fmt: skip
@click.option(
    "--ell", type=click.IntRange(1),
    help="Segments a point is cut into: more mean less work and traffic, and no more privacy: t + 1 clients "
    "can read small values whatever it is, and n >= 2 (ell + t - 1) + 1 leaves room for a smaller t. "
    "Default: 1.",
)  # fmt: skip
@click.option("--client-column", metavar="NAME", help="One file holds all clients; this column tells whose.")
@click.option("--columns", metavar="A,B,...", callback=names, help="Features to use. Default: all columns.")
@click.option(
    "--id-column", metavar="NAME",
    help="Names of the points, copied to the labels file; "
    "with --membership private also what makes two rows the same point.",
)  # fmt: skip
@click.option("--label-column", metavar="NAME", help="Known classes: only used to score the result.")
@click.option(
    "--membership", type=click.Choice(["open", "private"]), default="open", show_default=True,
    help="private: hide which client holds which point, and how many, by a private set union of the IDs "
    "(--id-column, or else the rows themselves). It needs t of at least 1.",
)  # fmt: skip
@click.option(
    "--merge/--no-merge", default=True, show_default=True,
    help="private: count a point that several clients hold once, which opens how many hold each point. "
    "Without it nothing of this is opened, and no two clients may hold the same ID.",
)  # fmt: skip
@click.option(
    "--disclosure", type=click.Choice(tuple(POLICIES)), default="assignments", show_default=True,
    help="What the server learns in every iteration. assignments: the labels and nothing else, which clients "
    "find together. final-labels: nothing until the last, whose labels it learns. distances: the distance of "
    "every point to every center as well, as in the paper, which over iterations fixes the shape of the "
    "data; --liars and --field mersenne61 need that.",
)  # fmt: skip
@click.option(
    "--dealer", metavar="NAME",
    help="assignments: the client that deals the masks. Default: the server, which must not collude with a "
    "comparing client. With t=1 a dealing client withstands that too. none: nobody deals, and the server may "
    "collude with any t clients, at several times the cost.",
)  # fmt: skip
@click.option(
    "--consent", is_flag=True,
    help="assignments, final-labels: let k-means++ open distances to the points that it chooses.",
)  # fmt: skip
@click.option(
    "--init", type=click.Choice(STARTS), default="random", show_default=True,
    help="How the first clusters are drawn; k-means++ shows the server distances, so it needs --consent.",
)  # fmt: skip
@click.option(
    "--n-init", type=click.IntRange(1), default=1, show_default=True, help="Starts; the cheapest is kept."
)
@click.option(
    "--max-iter", type=click.IntRange(1), default=300, show_default=True, help="Iterations a start."
)
@click.option(
    "--scale", type=float, callback=positive,
    help="Integer steps a data unit. Default: the finest that is exact.",
)  # fmt: skip
@click.option(
    "--bound", type=float, callback=positive,
    help="A limit on absolute values that everybody may know. Default: derived from the data, "
    "which makes that much of them public; with --epsilon, the radius.",
)  # fmt: skip
@click.option(
    "--field", type=click.Choice(["ring", "mersenne61"]), default="ring", show_default=True,
    help="Arithmetic: several 30-bit primes (fast), or modulo 2^61 - 1 as in the paper, which needs "
    "--disclosure distances.",
)  # fmt: skip
@click.option(
    "--rounding", type=click.Choice(["nearest", "floor"]), default="nearest", show_default=True,
    help="How values become integers; floor is the paper's.",
)  # fmt: skip
@click.option(
    "--coarse", type=click.Choice(COARSE), default="refuse", show_default=True,
    help="What to do where rounding leaves a feature fewer than 8 steps of its spread: refuse, or go on; a "
    "report warns below 64. Outliers and columns of different units are the usual cause.",
)  # fmt: skip
@click.option(
    "--largest", type=click.IntRange(1),
    help="Points of the largest cluster to be exact for: fewer than all points buy a finer scale. A run in "
    "which a cluster outgrows it ends with an error.",
)  # fmt: skip
@click.option(
    "--threads", type=click.IntRange(1), default=1, show_default=True,
    help="Processor threads; they change no result.",
)  # fmt: skip
@click.option(
    "--liars", type=click.IntRange(0), default=0, show_default=True, metavar="A",
    help="Clients that may lie and change no label; whose replies are read and false is named and left out. "
    "Each needs two more clients, n >= 2 (ell + t - 1) + 1 + 2 A. Needs --disclosure distances.",
)  # fmt: skip
@click.option(
    "--epsilon", type=float, callback=positive,
    help="Differential privacy: noise on everything that is released, for this total budget. secfc: on every "
    "distance, over all iterations; choose few, --max-iter is then 5 by default. feddp: on sums over all "
    "clients.",
)  # fmt: skip
@click.option(
    "--delta", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=1e-6, show_default=True,
    help="The probability that the claim fails.",
)  # fmt: skip
@click.option(
    "--radius", type=float, callback=positive,
    help="The distance that points are shortened to, from the origin, or, with feddp, from the mean of the "
    "server's points; needs to be known without the data. feddp's default comes from these points.",
)  # fmt: skip
@click.option(
    "--noise", type=click.Choice(["shares", "server"]), default="shares", show_default=True,
    help="shares: clients deal the noise, the server sees noisy distances only. server: it adds the noise "
    "itself, and protects only what it publishes.",
)  # fmt: skip
@click.option(
    "--protect", type=click.Choice(["point", "client"]), default="point", show_default=True,
    help="What the noise hides: one data point, or all points of one client.",
)  # fmt: skip
@click.option(
    "--evaluate", is_flag=True,
    help="With --epsilon: also report what the budget has not paid for, marked as that: cost, accuracy, "
    "times, what a curious server could rebuild; with feddp also row counts and cluster sizes.",
)  # fmt: skip
@click.option(
    "--sealed", is_flag=True,
    help="Encrypt and authenticate every message from party to party, as over a network. Changes no result.",
)  # fmt: skip
@click.option("--reveal-centers", is_flag=True, help="Open the final centers to the server and all clients.")
@click.option(
    "--smallest-center", type=click.IntRange(1), default=3, show_default=True,
    help="With --reveal-centers: centers of clusters of fewer points stay closed.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Reproduces the starts.")
@click.option(
    "--algorithm", type=click.Choice(["secfc", "feddp", "lloyd", "k-fed"]), default="secfc",
    show_default=True,
    help="secfc is private and exact; feddp finds centers under differential privacy; lloyd (pooled "
    "data) and k-fed (one shot) are baselines without privacy.",
)  # fmt: skip
@click.option(
    "--server-file", type=ANY_PATH, metavar="FILE",
    help="feddp: points that the server holds and may show to everybody.",
)  # fmt: skip
@click.option(
    "--rows-per-client", type=click.IntRange(1),
    help="feddp, --protect client: about how many points a client has, as publicly known.",
)  # fmt: skip
@click.option(
    "--k-local", type=click.IntRange(1),
    help="k-fed: clusters within a client. Default: sqrt(k) rounded down.",
)  # fmt: skip
@click.option(
    "--verify/--no-verify", default=True, show_default=True,
    help="Compare with plaintext k-means at every iteration.",
)  # fmt: skip
@click.option(
    "--attack/--no-attack", default=True, show_default=True,
    help="Say what a curious server could rebuild of the points, by trying it.",
)  # fmt: skip
@click.option(
    "--checkpoint", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
    help="Keep what is needed to resume in this directory: after a crash, the same command goes on from "
    "there. The files hold secrets of all parties, and are deleted once the results are written.",
)  # fmt: skip
@click.option(
    "--labels", type=ANY_PATH, metavar="OUT.csv",
    help=f"Where labels go; - is stdout, and the report then goes to stderr. Default with files: {LABELS}.",
)  # fmt: skip
@click.option(
    "--report", type=ANY_PATH, metavar="OUT.json",
    help=f"Where the report goes. Default with files and without --json: {REPORT}.",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Overwrite existing output files.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON on stdout, and nothing else.")
@click.pass_context
def run(context: click.Context, /, **options: Any) -> None:
    """Cluster the points of several clients; no point leaves its client in the clear.

    FILE is CSV, Parquet, .npz or .npy: one file a client, or one file for all with --client-column.
    Without FILE, a demonstration: scikit-learn's images of the digit 3, turned by 0, 90, 180 and 270
    degrees, held by 10 clients; the clusters to find are the four directions.

    Labels are written with the columns client, row (counted from 0 within the client), id (with
    --id-column) and label.

    \b
    Examples:
      secfc run
      secfc run a.csv b.csv c.csv -k 4
      secfc run all.csv --client-column hospital --id-column patient -k 5
      secfc run *.parquet -k 8 --columns age,weight --bound 200 --n-init 5
      secfc run a.npy b.npy c.npy -k 3 --json --labels out.csv
      secfc run a.csv b.csv c.csv -k 4 --id-column patient --membership private
      secfc run a.csv b.csv c.csv -k 4 --checkpoint DIR     again after a crash, to resume
      secfc run a.csv b.csv c.csv -k 4 --epsilon 5 --radius 3
      secfc run *.csv -k 4 --algorithm feddp --server-file public.csv --epsilon 1
      secfc run --algorithm k-fed                the baseline, for comparison

    Exit codes: 0 success; 1 a protocol fault, or labels that differ from plaintext k-means; 2 bad usage
    or bad input; 130 interrupted.
    """
    if options["epsilon"] is not None and options["algorithm"] == "secfc":
        if context.get_parameter_source("max_iter") is ParameterSource.DEFAULT:
            options["max_iter"] = 5  # every iteration costs budget, also one that was not needed
        if options["files"]:
            options["bound"] = options["bound"] or options["radius"]  # no shortened point exceeds it
    settings = Settings(**options)
    check_run(context, settings)
    screen = Screen.stderr(settings.as_json)
    with screen.status("Reading the data"):
        federation, source = load(settings)
    outputs = Outputs.of(settings)
    outcome = execute(settings, federation, source, screen, given(context))
    labels = None if outcome.verified is False else label_lines(outcome.federation, outcome.result)
    outputs.write(labels, outcome)
    if settings.checkpoint is not None and outcome.verified is not False:
        forget(settings.checkpoint, outcome.federation)
    _print(settings, outcome, outputs, withheld=outputs.labels is not None and labels is None)
    if outcome.verified is False:
        context.exit(1)


def given(context: click.Context) -> list[str]:
    """The command line, as somebody would repeat it."""
    return ["secfc", "run", *context.meta["secfc.arguments"]]


def _print(settings: Settings, outcome: Outcome, outputs: Outputs, *, withheld: bool) -> None:
    """The report on stdout: JSON, or text that ends with what was written."""
    from rich.console import Console

    from secfc.report import as_json, show

    if settings.as_json:
        click.echo(dumped(as_json(outcome)))
    else:
        console = Console(markup=False, highlight=False, emoji=False, stderr=outputs.to_stdout)
        show(console, outcome)
        if outputs.labels or outputs.report:
            console.print()
        if outputs.labels and not withheld and not outputs.to_stdout:
            own = "" if outcome.labels_paid else " (each client's own: not covered by epsilon)"
            console.print(f"Labels written to {outputs.labels}{own}", soft_wrap=True)
        if outputs.report:
            console.print(f"Report written to {outputs.report}", soft_wrap=True)
    if outcome.verified is False:
        click.echo(
            "Error: the labels are not those of plaintext k-means." + " None were written." * withheld,
            err=True,
        )


@dataclass(frozen=True)
class Outputs:
    """Where results go, None for nowhere; checked before anything is computed."""

    labels: Path | None
    report: Path | None
    force: bool

    @classmethod
    def of(cls, settings: Settings) -> Outputs:
        """The output files of a run.  Raises Refused for one that could not or must not be written."""
        labels, report = settings.labels, settings.report
        if settings.files:
            labels = labels or LABELS
            report = report or (None if settings.as_json else REPORT)
        if labels == STDOUT and settings.as_json:
            raise Refused("--labels - and --json both want stdout: name a file for one, as with --labels.")
        if labels and report and labels.resolve() == report.resolve():
            raise Refused(f"--labels and --report are both {labels}: give them different names.")
        for path, option in ((labels, "--labels"), (report, "--report")):
            if path is not None and not (path == STDOUT and option == "--labels"):
                check_output(path, option, settings.files, force=settings.force)
        return cls(labels, report, settings.force)

    @property
    def to_stdout(self) -> bool:
        """Whether stdout is for the labels."""
        return self.labels == STDOUT

    def write(self, labels: Iterator[Sequence[Any]] | None, outcome: Outcome) -> None:
        """Write all files, or none of them."""
        from secfc.report import as_json

        texts: dict[Path, Callable[[Any], None]] = {}
        if self.labels is not None and labels is not None and not self.to_stdout:
            texts[self.labels] = csv_of(labels)
        if self.report is not None:
            texts[self.report] = lambda file: print(dumped(as_json(outcome)), file=file)
        with writing("--labels and --report"):
            write_all(texts, overwrite=self.force)
        if self.to_stdout and labels is not None:
            csv_of(labels)(sys.stdout)


def label_lines(federation: Federation, result: Clustering) -> Iterator[Sequence[Any]]:
    """Rows of the labels file, its header first: client, row, id if any client has ids, label."""
    with_ids = any(party.ids is not None for party in federation.parties)
    yield ("client", "row", *(("id",) if with_ids else ()), "label")
    for party, labels in zip(federation.parties, result.labels, strict=True):
        ids = party.ids or ("",) * len(labels)
        for row, (label, name) in enumerate(zip(labels.tolist(), ids, strict=True)):
            shown = name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else name
            yield (party.name, row, *((shown,) if with_ids else ()), label)
