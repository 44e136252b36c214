"""`secfc run`, and `secfc dp` and `secfc overlap`: the same for centers under noise, and other columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

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
from secfc.cli.shell.written import Outputs, free_names, print_page

if TYPE_CHECKING:
    from field.arrays import Array
    from secfc.algorithm import Clustering
    from secfc.data.federation import Federation
    from secfc.report import Report


# Algorithms that are commands of their own, and what they alone take.
APART = {"feddp": "dp", "overlap-1": "overlap", "overlap-2": "overlap"}
OVERLAPPING = ("federated-lloyd", "overlap-1", "overlap-2")
NOISY = dict.fromkeys(("server_file", "rows_per_client", "labels_epsilon"), "dp")
MATCHED = dict.fromkeys(("start", "local", "rounds", "alpha", "proxies", "exponent"), "overlap")
# What is about rows that are joined by IDs, which secfc alone does.
JOINED: dict[str, Any] = dict.fromkeys(("helper", "schema", "drop_unfit"), "run") | {
    "split": {"columns": "run"}
}


@dataclass(frozen=True)
class Algorithms:
    """How to cluster."""

    # fmt: off
    algorithm: str = option(next(iter(methods())), list(methods()), group=RUN, common=True, help=
        "How to cluster. " + "; ".join(
            f"{name} {method.help}" for name, method in methods().items() if name not in APART) + ".")
    # fmt: on


@dataclass(frozen=True)
class RunOptions(Settings, Presets, Algorithms):
    """What `secfc run` takes, besides the options of methods."""

    MOVED: ClassVar[dict[str, Any]] = {
        "algorithm": APART, "features": {"union": "overlap"}, **NOISY, **MATCHED,
    }  # fmt: skip
    HELP: ClassVar = {
        "features": "same: all files have the same columns. common: those that all have, matched by name."
    }


@dataclass(frozen=True)
class DPOptions(Settings):
    """What `secfc dp` takes, besides the options of its method."""

    MOVED: ClassVar[dict[str, Any]] = JOINED | {
        "features": {"union": "overlap"}, "to_range": "run", "scale_share": "run",
    }  # fmt: skip
    HELP: ClassVar = {
        "standardize": "Bring every feature to mean 0 and deviation 1 first, by the points of --server-file, "
        "so that no budget is spent. robust: to median 0 and, by the interquartile range, deviation 1. norm: "
        "divide each row by its norm, of which nothing is learned. Alone it means standard.",
        "ranges": "Bring every feature between -1 and 1 first, by ranges of all features that everybody may "
        "know: nothing is learned, and no budget is spent.",
        "missing": "Empty cells, and NA or NaN: refuse, drop their rows, or with --standardize take the mean "
        "of the server's points.",
        "features": "same: all files have the same columns. common: centers of the columns that all have; "
        "every client then refines its own labels by its others.",
    }


@dataclass(frozen=True)
class OverlapOptions(Settings, Algorithms):
    """What `secfc overlap` takes, besides the options of its methods."""

    MOVED: ClassVar[dict[str, Any]] = JOINED | {
        "algorithm": {name: APART.get(name, "run") for name in methods() if name not in OVERLAPPING},
        "features": {"same": "run", "common": "run"},
        "evaluate": "dp", "publish": "dp", "disclosure": "run",
    }  # fmt: skip
    HELP: ClassVar = {
        "algorithm": "How to cluster. federated-lloyd: exact, over secure sums; overlap-1: as published, all "
        "centroids in the clear; overlap-2: as published, in one shot.",
    }


@command(RunOptions, more=list(options().values()))
@click.pass_context
def run(context: click.Context, given: RunOptions) -> None:
    """Cluster points of several clients; none leaves its client in the clear.

    FILE is CSV (.csv, .tsv, .csv.gz), .xlsx, Parquet, .npz or .npy: one file a client, or one file for all
    with --client-column. Without FILE, a demonstration on handwritten digits. Files with different columns:
    `secfc overlap`. Centers under differential privacy: `secfc dp`.

    \b
    Examples:
      secfc run
      secfc run a.csv b.csv c.csv -k 4
      secfc run all.csv --client-column hospital --id-column patient -k 5
      secfc run a.csv b.csv c.csv -k 4 --standardize --missing mean
      secfc run a.csv b.csv c.csv -k 4 --epsilon 5 --radius 3
    \f
    The demonstration has images of the digit 3, turned by 0, 90, 180 and 270 degrees, and held by 10
    clients; the clusters to find are the four directions.

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
      secfc run *.csv -k 4 --features common     the columns that all have, under any algorithm
      secfc run --algorithm k-fed                the baseline, for comparison
      secfc dp --help                            centers under differential privacy
      secfc overlap --help                       clients that have different columns

    Exit codes: 0 success; 1 a protocol fault, or labels that differ from plaintext k-means; 2 bad usage
    or bad input; 130 interrupted.
    """
    cluster_files(context, given, method_asked(context))


@command(DPOptions, more=list(options("feddp").values()))
@click.pass_context
def dp(context: click.Context, given: DPOptions) -> None:
    """Find centers under differential privacy (FedDP-KMeans): noise covers everything that is released.

    FILE is as for `secfc run`. The server holds points that it may show (--server-file), or all know how far
    from 0 points lie at most (--radius). Clients add noise in secret; everybody learns noisy centers.

    \b
    Examples:
      secfc dp a.csv b.csv c.csv -k 4 --epsilon 1 --server-file public.csv
      secfc dp a.csv b.csv c.csv -k 4 --epsilon 3 --radius 8
    \f
    \b
    More examples:
      secfc dp *.csv -k 4 --epsilon 3 --radius 8 --ledger spent.json --total-epsilon 10
      secfc dp *.csv -k 4 --epsilon 3 --radius 8 --labels-epsilon 3     also noisy labels, for everybody
      secfc dp *.csv -k 4 --epsilon 1 --server-file public.csv --protect client --rows-per-client 200
      secfc plan -n 10 -m 10000 -d 20 --algorithm feddp --epsilon 1     what noise and messages cost

    Exit codes: 0 success; 1 a protocol fault; 2 bad usage or bad input; 130 interrupted.
    """
    cluster_files(context, given, methods()["feddp"])


@command(OverlapOptions, more=list(options(*OVERLAPPING).values()))
@click.pass_context
def overlap(context: click.Context, given: OverlapOptions) -> None:
    """Cluster files that have different columns, matched by their names.

    FILE is as for `secfc run`; a column that is empty throughout is not observed. All clients learn sums and
    numbers of rows of every cluster; what the server sees depends on --algorithm and --start.

    \b
    Examples:
      secfc overlap a.csv b.csv c.csv -k 3
      secfc overlap a.csv b.csv c.csv -k 3 --start synchronized-distances
      secfc overlap a.csv b.csv c.csv -k auto --algorithm overlap-2
    \f
    \b
    More examples:
      secfc overlap a.csv b.csv c.csv -k 3 --floor 10        keep back rows that moves could tell
      secfc overlap a.csv b.csv c.csv -k 3 --start constrained --local silhouette
      secfc run a.csv b.csv c.csv -k 3 --features common     the columns that all have, under any algorithm

    Exit codes: 0 success; 1 a protocol fault; 2 bad usage or bad input; 130 interrupted.
    """
    cluster_files(context, given, methods()[given.algorithm])


def cluster_files(context: click.Context, given: Settings, method: Method) -> None:
    """Read files, cluster them by a method, and write what came of it.  Raises UsageError, InputError."""
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
    settings, outputs = asked.settings, outputs.free()
    found, given_out = cut_clusters(asked, result, found)
    sketch = partial(_sketch, result, federation, found)
    outputs.write(federation, given_out, kept, found, sketch, result.released_labels)
    if not settings.force:
        model, plot, officer = free_names((settings.model, settings.plot, settings.officer))
        settings = replace(settings, model=model, plot=plot, officer=officer)
    if settings.officer is not None:
        write_approval_page(asked, result, found, settings.officer)
    if settings.model is not None:
        write_model(result, settings.model, [name for name, _ in settings.categorical])
    if settings.plot is not None:
        write_plot(asked, found, settings.plot)
    if settings.checkpoint is not None and found.verified is not False:
        delete_checkpoint(settings.checkpoint, federation)
    written = outputs.wanted or settings.files
    if settings.as_json or not (is_quiet() and written and found.verified is not False):
        _print(settings, found, outputs, withheld=outputs.wanted and given_out is None)


def write_plot(asked: AskedOptions, found: Report, path: Path) -> None:
    """Write a picture of the tree of clusters, or of the costs by which k was chosen."""
    from secfc.report import plot_curve, plot_dendrogram

    tree, curve = found.account.dendrogram, found.curve
    if tree is not None:
        write_picture(lambda: plot_dendrogram(tree, asked["linkage"], asked["cut"]), path)
    elif curve is not None:
        write_picture(lambda: plot_curve(curve), path)


def cut_clusters(asked: AskedOptions, result: Clustering, found: Report) -> tuple[Report, list[Array] | None]:
    """The labels to be written, of groups of clusters if --cut asks for these, and a report that says so.

    None where labels are wrong.  Sizes of groups are asides, which pages for strangers have not.
    """
    count, tree = asked.get("cut"), result.dendrogram
    if found.verified is False:
        return found, None
    notes, asides = found.notes, found.asides
    if tree is not None:
        notes += ("trees of the clusters are in reports as JSON, and --plot draws one; pages have none",)
    if count is None or tree is None:
        return replace(found, notes=notes), result.labels
    groups, counts = tree.cut_tree(count, asked["linkage"]).tolist(), Counter[int]()
    for group, size in zip(groups, tree.sizes.tolist(), strict=True):
        counts[group] += size
    said = f"labels are of {count} groups of the {len(tree.leaves)} clusters, by {asked['linkage']} linkage"
    asides += (f"the groups have {', '.join(f'{counts[group]:,}' for group in range(count))} points",)
    if asked.settings.model is not None:
        of_each = ", ".join(map(str, groups))
        asides += (f"the model labels new points by clusters: from 0 on these are of groups {of_each}",)
    whole = replace(found, notes=(*notes, f"{said}; all else is told of the clusters"), asides=asides)
    return whole, result.cut(count, asked["linkage"])


def rehearse_and_report(
    method: Method, asked: AskedOptions, federation: Federation, kept: Any, outputs: Outputs, screen: Screen
) -> int:
    """Every party a process: the exit code.  Raises Refused, Failed, InputError."""
    from secfc.cli.clustering.processes import print_rehearsal, rehearse

    found = rehearse(method, asked, federation, screen)
    if outputs.wanted and found.same is not False:
        outputs.free().write_labels(federation, list(found.labels.values()), kept, {})
    print_rehearsal(found, federation, as_json=asked.settings.as_json)
    return int(found.same is False)


def write_model(result: Clustering, path: Path, texts: Sequence[str]) -> None:
    """Write the model for `secfc predict`; texts: columns of text.  Raises Refused if there is none."""
    from secfc.kept_models import model_file_of

    kept = model_file_of(result, texts)
    if kept is None:
        raise RefusedInput(
            f"--model {path}: this algorithm, or noise on what is opened, leave no model that could be kept. "
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
    check_k(settings, method.finds)
    taken = [name for name in method.names if was_given(context, name)]
    check_split(settings, method.name, taken)
    check_choice(settings, method, tree="linkage" in taken)
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
    return ["secfc", str(context.info_name), *context.meta["secfc.arguments"]]


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
    if settings.split == "columns" and not outputs.wanted:
        yield "no labels, which would tell one owner of the columns of others"
    yield from map(str, outputs.reports)
    if outputs.published:
        told = " and ".join(map(str, filter(None, (outputs.published, outputs.released))))
        yield f"{told} (may be published)"
    yield from (str(path) for path in (settings.plot, settings.officer) if path)
    if settings.model:
        yield f"{settings.model} (secret, for `secfc predict`)"
