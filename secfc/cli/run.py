"""`secfc run`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from secfc.cli.errors import RefusedInput, Remembering
from secfc.cli.execute import delete_checkpoint, execute, load_federation
from secfc.cli.method import AskedOptions, Method, check_schema
from secfc.cli.methods import methods, options
from secfc.cli.outputs import ANY_PATH, explaining_writes, json_text, write_all, write_picture
from secfc.cli.preprocessing import add_preprocessing_options, without_gaps
from secfc.cli.preprocessing import check_preprocessing as check_preparing
from secfc.cli.screen import Screen
from secfc.cli.settings import (
    Clusters,
    Settings,
    Whole,
    check_choice,
    check_k,
    load_schema,
    of_schema,
    of_text_files,
    parse_names,
    refuse_options,
)
from secfc.cli.verbosity import is_quiet
from secfc.cli.written import LABELS, REPORT, Outputs, of_officer, print_page

if TYPE_CHECKING:
    from secfc.algorithm import Clustering
    from secfc.data.federation import Federation
    from secfc.kmeans.elbow import CostCurve
    from secfc.report import Report

Command = Callable[..., Any]


def add_options_of(part: str) -> Callable[[Command], Command]:
    """A decorator that adds the options of all methods which stand in this part of the help."""

    def add(command: Command) -> Command:
        # Decorators are applied from the last to the first.
        for option in reversed([o for o in options().values() if o.part == part]):
            command = option.decorate(command)
        return command

    return add


@click.command(cls=Remembering, short_help="Cluster files, or a demonstration data set.")
@click.argument("files", nargs=-1, metavar="[FILE]...", type=ANY_PATH)
@click.option(
    "-k", type=Clusters(), metavar="K",
    help="Number of clusters, required with files; 2..12 chooses it among these, and auto among 1 to 20 or "
    "fewer, by the elbow of the costs.",
)  # fmt: skip
@add_options_of("sharing")
@click.option("--client-column", metavar="NAME", help="One file holds all clients; this column tells whose.")
@click.option(
    "--columns", metavar="A,B,...", callback=parse_names, help="Features to use. Default: all columns."
)
@click.option(
    "--features", type=click.Choice(["same", "union", "common"]), default="same", show_default=True,
    help="same: all files have the same columns. union: every client observes its own, matched by name; a "
    "column that is empty throughout is not observed. common: the same, clustered on the columns that all "
    "have; with feddp every client then refines its own labels by its others.",
)  # fmt: skip
@click.option(
    "--id-column", metavar="NAME",
    help="Names of the points, copied to the labels file; "
    "with --membership private also what makes two rows the same point.",
)  # fmt: skip
@of_schema
@click.option("--label-column", metavar="NAME", help="Known classes: only used to score the result.")
@of_text_files
@add_preprocessing_options
@add_options_of("disclosure")
@add_options_of("steps")
@add_options_of("privacy")
@click.option(
    "--evaluate", is_flag=True,
    help="With --epsilon: also report what the budget has not paid for, marked as that: cost, accuracy, "
    "times, what a curious server could rebuild; with feddp also row counts and cluster sizes.",
)  # fmt: skip
@click.option(
    "--sealed", is_flag=True,
    help="Encrypt and authenticate every message from party to party, as over a network. Changes no result.",
)  # fmt: skip
@add_options_of("centers")
@click.option("--seed", type=Whole(0), default=0, show_default=True, help="Reproduces the starts.")
@click.option(
    "--algorithm", type=click.Choice(list(methods())), default=next(iter(methods())), show_default=True,
    help="; ".join(f"{method.name} {method.help}" for method in methods().values()) + ".",
)  # fmt: skip
@add_options_of("own")
@add_options_of("checks")
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
    "--site-labels", type=ANY_PATH, metavar="DIR",
    help="A directory for a file of each client, with its own IDs and labels, readable by its owner only.",
)  # fmt: skip
@click.option(
    "--report", type=ANY_PATH, metavar="OUT", multiple=True,
    help="Where the report goes: .json for programs, .html for people, a page that needs no network and is "
    f"printed to PDF by any browser; may be repeated. Default with files and without --json: {REPORT}.",
)  # fmt: skip
@click.option(
    "--readers", type=click.Choice(["everybody", "holders"]), default="everybody", show_default=True,
    help="Of the page: what may be published, or also what only those should see who may see the data.",
)  # fmt: skip
@click.option(
    "--publish", type=ANY_PATH, metavar="OUT",
    help="With --epsilon: one more report, .json or .html, of what may be published: what is public, or "
    "noisy and paid for; also with --evaluate.",
)  # fmt: skip
@click.option(
    "--officer", type=ANY_PATH, metavar="PAGE.html",
    help="Where a page goes for whoever has to approve such runs: what left a site, who saw it, what was "
    "tried.",
)  # fmt: skip
@of_officer
@click.option(
    "--plot", type=ANY_PATH, metavar="OUT.png",
    help="With -k auto or 2..12: a picture of the costs by which k was chosen.",
)  # fmt: skip
@click.option(
    "--processes", is_flag=True,
    help="A rehearsal: every party a process of this machine, by the commands of `secfc deploy`, over a hub. "
    "It takes several cores, and shows what a deployment will need.",
)  # fmt: skip
@click.option(
    "--model", type=ANY_PATH, metavar="MODEL.npz",
    help="Keep the model for `secfc predict`. The file is secret: it holds the shares of all clients.",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Overwrite existing output files.")
@click.option("--verbose", is_flag=True, help="The whole report on the screen, and its summary last.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON on stdout, and nothing else.")
@click.pass_context
def run(context: click.Context, /, **values: Any) -> None:
    """Cluster the points of several clients; no point leaves its client in the clear.

    FILE is CSV (.csv, .tsv, .csv.gz), .xlsx, Parquet, .npz or .npy: one file a client, or one file for all
    with --client-column. Without FILE, a demonstration: images of the handwritten digit 3, turned by 0, 90,
    180 and 270 degrees, held by 10 clients; the clusters to find are the four directions.

    Labels are written with the columns client, row (counted from 0 within the client), id (with
    --id-column) and label.

    \b
    Examples:
      secfc run
      secfc run a.csv b.csv c.csv -k 4
      secfc run all.csv --client-column hospital --id-column patient -k 5
      secfc run a.csv b.csv c.csv -k 2..12 --plot costs.png     choose k, and draw why
      secfc run a.csv b.csv c.csv -k 4 --delimiter ';' --decimal , --encoding cp1252
      secfc run *.parquet -k 8 --columns age,weight --bound 200 --n-init 5
      secfc run a.npy b.npy c.npy -k 3 --json --labels out.csv
      secfc run a.csv b.csv c.csv -k 4 --id-column patient --membership private
      secfc run a.csv b.csv c.csv -k 4 --checkpoint DIR     again after a crash, to resume
      secfc run a.csv b.csv c.csv -k 4 --epsilon 5 --radius 3
      secfc run *.csv -k 4 --algorithm feddp --server-file public.csv --epsilon 1
      secfc run *.csv -k 4 --features union      clients that have different columns
      secfc run *.csv -k 4 --features common     the columns that all have, under any algorithm
      secfc run a.csv b.csv c.csv -k 4 --standardize --missing mean
      secfc run --algorithm k-fed                the baseline, for comparison

    Exit codes: 0 success; 1 a protocol fault, or labels that differ from plaintext k-means; 2 bad usage
    or bad input; 130 interrupted.
    """
    if values["features"] == "union" and not was_given(context, "algorithm"):
        values["algorithm"] = "masked-lloyd"
    method = methods()[values["algorithm"]]
    values["linkage"] = load_schema(context, values["schema"])
    settings = Settings(**{field.name: values[field.name] for field in fields(Settings)})
    asked = check_options(context, method, settings)
    if settings.processes:
        from secfc.cli.processes import check_rehearsal

        check_rehearsal(asked)
    screen = Screen.stderr(settings.as_json)
    with screen.status("Reading the data"):
        federation, source = load_federation(method, asked)
        federation, kept = without_gaps(settings, federation)
    outputs = Outputs.of(asked)
    if settings.processes:
        context.exit(rehearse_and_report(method, asked, federation, kept, outputs, screen))
    result, found = execute(method, asked, federation, source, screen, command_line(context))
    given_out = None if found.verified is False else result.labels
    outputs.write(federation, given_out, kept, found, partial(_sketch, result, federation, found))
    if settings.officer is not None:
        write_approval_page(asked, result, found, settings.officer)
    if settings.model is not None:
        write_model(result, settings.model, [name for name, _ in settings.categorical])
    if settings.plot is not None and found.curve is not None:
        write_picture(partial(_picture, found.curve), settings.plot)
    if settings.checkpoint is not None and found.verified is not False:
        delete_checkpoint(settings.checkpoint, federation)
    if settings.as_json or not (is_quiet() and outputs.wanted and found.verified is not False):
        _print(settings, found, outputs, withheld=outputs.wanted and given_out is None)
    if found.verified is False:
        context.exit(1)


def rehearse_and_report(
    method: Method, asked: AskedOptions, federation: Federation, kept: Any, outputs: Outputs, screen: Screen
) -> int:
    """Every party a process: the exit code.  Raises Refused, Failed, InputError."""
    from secfc.cli.processes import print_rehearsal, rehearse

    found = rehearse(method, asked, federation, screen)
    if outputs.wanted and found.same is not False:
        outputs.write_labels(federation, list(found.labels.values()), kept, {})
    print_rehearsal(found, federation, as_json=asked.settings.as_json)
    return int(found.same is False)


def write_model(result: Clustering, path: Path, texts: Sequence[str]) -> None:
    """Write the model for `secfc predict`; texts: columns of text.  Raises Refused if there is none."""
    from secfc.cli.predict import kept_of

    kept = kept_of(result, texts)
    if kept is None:
        raise RefusedInput(
            f"--model {path}: this algorithm, or noise on what it opens, leaves no model that could be kept. "
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

    return None if found.noisy and not found.evaluated else plane_sketch(result, federation)


def _picture(curve: CostCurve) -> Any:
    """The costs by which k was chosen."""
    from secfc.report import plot_curve

    return plot_curve(curve)


def check_options(context: click.Context, method: Method, settings: Settings) -> AskedOptions:
    """What is asked of the method.  Raises UsageError for options that it does not take, or not together.

    Who sets an option expects an effect, so one without any is refused.
    """
    others = [name for name in options() if name not in method.names]
    refuse_options(context, others, f"{{option}} has no meaning for --algorithm {method.name}: leave it out.")
    check_k(settings)
    check_choice(settings, method.name, method.chooses)
    if not settings.files:
        columns = (
            "client_column", "columns", "features", "id_column", "label_column",
            "delimiter", "decimal", "encoding", "schema",
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


def was_given(context: click.Context, option: str) -> bool:
    """Whether an option stands on the command line."""
    return context.get_parameter_source(option) is ParameterSource.COMMANDLINE


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
    """What lies where, and who may have it."""
    files = [str(path) for path in outputs.reports]
    if outputs.labels and not withheld and not outputs.to_stdout:
        who = "for data holders" if found.labels_paid else "each client's own: not covered by epsilon"
        files.insert(0, f"{outputs.labels} ({who})")
    if outputs.published:
        files.append(f"{outputs.published} (may be published)")
    if settings.plot:
        files.append(str(settings.plot))
    if settings.officer:
        files.append(str(settings.officer))
    if settings.model:
        files.append(f"{settings.model} (secret, for secfc predict)")
    if outputs.sites and not withheld:
        files.insert(0, f"{outputs.sites}/ (a file of each client, for itself)")
    if files:
        yield "Written", ", ".join(files)
    if not settings.verbose:
        yield "More", "--verbose, or --report page.html for people to read"
