"""`secfc run`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from secfc.cli.clustering.execute import delete_checkpoint, execute, load_federation
from secfc.cli.clustering.preprocessing import check_preprocessing as check_preparing
from secfc.cli.clustering.preprocessing import without_gaps
from secfc.cli.methods import method_asked, methods, options, refuse_idle_options
from secfc.cli.methods.secfc import Presets
from secfc.cli.shell.errors import RefusedInput
from secfc.cli.shell.method import AskedOptions, Method, check_schema
from secfc.cli.shell.options import RUN, command, names_of, option, refuse_options, was_given
from secfc.cli.shell.outputs import explaining_writes, json_text, write_all, write_picture
from secfc.cli.shell.screen import Screen
from secfc.cli.shell.settings import (
    Settings,
    TextFiles,
    check_choice,
    check_k,
    check_split,
    load_schema,
)
from secfc.cli.shell.verbosity import is_quiet
from secfc.cli.shell.written import Outputs, print_page

if TYPE_CHECKING:
    from secfc.algorithm import Clustering
    from secfc.data.federation import Federation
    from secfc.report import Report


@dataclass(frozen=True)
class RunOptions(Settings, Presets):
    """What `secfc run` takes, besides the options of methods."""

    # fmt: off
    algorithm: str = option(next(iter(methods())), list(methods()), group=RUN, common=True, help=
        "How to cluster. " + "; ".join(f"{method.name} {method.help}" for method in methods().values()) + ".")
    # fmt: on


@command(RunOptions, more=list(options().values()))
@click.pass_context
def run(context: click.Context, given: RunOptions) -> None:
    """Cluster points of several clients; none leaves its client in the clear.

    FILE is CSV (.csv, .tsv, .csv.gz), .xlsx, Parquet, .npz or .npy: one file a client, or one file for all
    with --client-column. Without FILE, a demonstration on images of the handwritten digit 3.

    \b
    Examples:
      secfc run
      secfc run a.csv b.csv c.csv -k 4
      secfc run all.csv --client-column hospital --id-column patient -k 5
      secfc run a.csv b.csv c.csv -k 4 --standardize --missing mean
      secfc run a.csv b.csv c.csv -k 4 --epsilon 5 --radius 3
      secfc run --help-all                       all options, and more examples
    \f
    The images of the demonstration are turned by 0, 90, 180 and 270 degrees, and held by 10 clients; the
    clusters to find are the four directions.

    Labels are written with the columns client, row (counted from 0 within the client), id (with
    --id-column) and label.

    \b
    More examples:
      secfc run a.csv b.csv c.csv -k 2..12 --plot costs.png     choose k, and draw why
      secfc run a.csv b.csv c.csv -k 4 --delimiter ';' --decimal , --encoding cp1252
      secfc run *.parquet -k 8 --columns age,weight --bound 200 --n-init 5
      secfc run a.npy b.npy c.npy -k 3 --json --labels out.csv
      secfc run a.csv b.csv c.csv -k 4 --id-column patient --membership private
      secfc run a.csv b.csv -k 4 --split columns --id-column patient --helper
      secfc run a.csv b.csv c.csv -k 4 --checkpoint DIR     again after a crash, to resume
      secfc run *.csv -k 4 --algorithm feddp --server-file public.csv --epsilon 1
      secfc run *.csv -k 4 --features union      clients that have different columns
      secfc run *.csv -k 4 --features common     the columns that all have, under any algorithm
      secfc run --algorithm k-fed                the baseline, for comparison

    Exit codes: 0 success; 1 a protocol fault, or labels that differ from plaintext k-means; 2 bad usage
    or bad input; 130 interrupted.
    """
    by_name = given.features == "union" and not was_given(context, "algorithm")
    method = methods()["federated-lloyd"] if by_name else method_asked(context)
    settings = replace(given, linkage=load_schema(context, given.schema))
    asked = check_options(context, method, settings)
    if settings.processes:
        from secfc.cli.clustering.processes import check_rehearsal

        check_rehearsal(asked)
    screen = Screen.stderr(settings.as_json)
    with screen.status("Reading the data"):
        federation, source = load_federation(method, asked)
        federation, kept, dropped = without_gaps(settings, federation, asked.get("bound"))
    outputs = Outputs.of(asked)
    if settings.processes:
        context.exit(rehearse_and_report(method, asked, federation, kept, outputs, screen))
    result, found = execute(method, asked, federation, source, screen, command_line(context), dropped)
    write_results(asked, outputs, federation, kept, result, found)
    if found.verified is False:
        context.exit(1)


def write_results(
    asked: AskedOptions,
    outputs: Outputs,
    federation: Federation,
    kept: Any,
    result: Clustering,
    found: Report,
) -> None:
    """Write all files, or none of them where labels are wrong, and say on the screen what came of it."""
    settings = asked.settings
    given_out = None if found.verified is False else result.labels
    sketch = partial(_sketch, result, federation, found)
    outputs.write(federation, given_out, kept, found, sketch, result.released_labels)
    if settings.officer is not None:
        write_approval_page(asked, result, found, settings.officer)
    if settings.model is not None:
        write_model(result, settings.model, [name for name, _ in settings.categorical])
    if settings.plot is not None and found.curve is not None:
        from secfc.report import plot_curve

        curve = found.curve
        write_picture(lambda: plot_curve(curve), settings.plot)
    if settings.checkpoint is not None and found.verified is not False:
        delete_checkpoint(settings.checkpoint, federation)
    if settings.as_json or not (is_quiet() and outputs.wanted and found.verified is not False):
        _print(settings, found, outputs, withheld=outputs.wanted and given_out is None)


def rehearse_and_report(
    method: Method, asked: AskedOptions, federation: Federation, kept: Any, outputs: Outputs, screen: Screen
) -> int:
    """Every party a process: the exit code.  Raises Refused, Failed, InputError."""
    from secfc.cli.clustering.processes import print_rehearsal, rehearse

    found = rehearse(method, asked, federation, screen)
    if outputs.wanted and found.same is not False:
        outputs.write_labels(federation, list(found.labels.values()), kept, {})
    print_rehearsal(found, federation, as_json=asked.settings.as_json)
    return int(found.same is False)


def write_model(result: Clustering, path: Path, texts: Sequence[str]) -> None:
    """Write the model for `secfc predict`; texts: columns of text.  Raises Refused if there is none."""
    from secfc.kept_models import model_file_of

    kept = model_file_of(result, texts)
    if kept is None:
        raise RefusedInput(
            f"--model {path}: this algorithm, columns that are joined, or noise on what is opened, leave no "
            "model that could be kept. "
            "The other results are written."
        )
    with explaining_writes("--model"):
        kept.write(path)


def write_approval_page(asked: AskedOptions, result: Clustering, found: Report, path: Path) -> None:
    """Write the page for whoever has to approve such runs."""
    from secfc.report.officer import as_html, of_run

    text = as_html(replace(of_run(found, result), fill=asked.settings.fill))
    with explaining_writes("--officer"):
        write_all({path: partial(print_page, text)}, overwrite=asked.settings.force)


def _sketch(result: Clustering, federation: Federation, found: Report) -> Any:
    """Points of a plane, None where no budget paid for them and nobody asked."""
    from secfc.report import plane_sketch

    if found.noisy and not found.evaluated:
        return None
    # Points as they were clustered: with gaps filled in, on their scale.
    scaled = federation if result.scaling is None else result.scaling.scaling.federation(federation)
    return plane_sketch(result, scaled)


def check_options(context: click.Context, method: Method, settings: Settings) -> AskedOptions:
    """What is asked of the method.  Raises UsageError for options that it does not take, or not together.

    Who sets an option expects an effect, so one without any is refused.
    """
    others = [name for name in options() if name not in method.names]
    refuse_idle_options(context, method, others)
    check_k(settings)
    taken = [name for name in method.names if was_given(context, name)]
    check_split(settings, method.name, taken)
    check_choice(settings, method.name, method.chooses)
    if not settings.files:
        columns = (
            "client_column", "columns", "features", "id_column", "label_column",
            "exclude", "schema", "split", "helper", *names_of(TextFiles),
        )  # fmt: skip
        refuse_options(context, columns, "{option} needs a FILE that it describes.")
    asked = method.settle(AskedOptions.of(context, method, settings))
    check_preparing(asked)
    check_schema(asked)
    if not asked.noisy:
        refuse_options(
            context, ("evaluate",), "{option} has no meaning without --epsilon: everything is reported."
        )
        refuse_options(
            context, ("publish",),
            "{option} needs --epsilon: without noise a run has nothing in particular that may be published.",
        )  # fmt: skip
    return asked


def command_line(context: click.Context) -> list[str]:
    """The command line, as somebody would repeat it."""
    return ["secfc", "run", *context.meta["secfc.arguments"]]


def _print(settings: Settings, found: Report, outputs: Outputs, *, withheld: bool) -> None:
    """The report on stdout: JSON, or text that ends with what was written."""
    from rich.console import Console

    from secfc.report import SIMULATED, as_json, print_notes, print_report, print_summary

    if settings.as_json:
        click.echo(json_text(as_json(found)))
    else:
        console = Console(markup=False, highlight=False, emoji=False, stderr=outputs.to_stdout)
        console.print(SIMULATED, soft_wrap=True)
        if settings.verbose:
            print_report(console, found)
        else:
            print_notes(console, found)
        print_summary(console, found)
        for name, value in _written(settings, found, outputs, withheld):
            console.print(f"{name:<11} {value}", soft_wrap=True)
    if found.verified is False:
        click.echo(
            "Error: the labels are not those of plaintext k-means." + " None were written." * withheld,
            err=True,
        )


def _written(
    settings: Settings, found: Report, outputs: Outputs, withheld: bool
) -> Iterator[tuple[str, str]]:
    """What lies where, and who may have it: in one line, or where it is long a line each."""
    from secfc.report.people import SHORT

    files = list(_files(settings, found, outputs, withheld))
    line = ", ".join(files)
    for place, said in enumerate(files if len(line) > SHORT else filter(None, [line])):
        yield "" if place else "Written", said
    if not settings.verbose:
        yield "More", "--verbose, or --report page.html for people to read"


def _files(settings: Settings, found: Report, outputs: Outputs, withheld: bool) -> Iterator[str]:
    """All that was written, and who may have it."""
    if outputs.sites and not withheld:
        yield f"{outputs.sites}/ (a file of each client, for itself)"
    if outputs.labels and not withheld and not outputs.to_stdout:
        who = "for data holders" if found.labels_paid else "each client's own: not covered by epsilon"
        yield f"{outputs.labels} ({who})"
    yield from map(str, outputs.reports)
    if outputs.published:
        told = " and ".join(map(str, filter(None, (outputs.published, outputs.released))))
        yield f"{told} (may be published)"
    yield from (str(path) for path in (settings.plot, settings.officer) if path)
    if settings.model:
        yield f"{settings.model} (secret, for `secfc predict`)"
