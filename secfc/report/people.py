"""The report of a run, for people."""

from __future__ import annotations

import io
import math

from rich.console import Console

from secfc.report import text
from secfc.report.attacks import rebuilt
from secfc.report.costs import time_table, traffic_table
from secfc.report.data import Counts, Report
from secfc.report.ordinary import Ordinary
from secfc.report.privacy import spent

COLUMNS = 40  # names that are listed; all are in the JSON report


def as_text(found: Report, width: int = 100) -> str:
    """The whole report, in lines of at most so many letters."""
    out = io.StringIO()
    show(Console(file=out, width=width, markup=False, highlight=False, emoji=False), found)
    return out.getvalue()


def show(console: Console, found: Report) -> None:
    """Print the whole report."""
    text.heading(console, found.account.title)
    text.pairs(console, _setup(found))
    for note in found.notes:
        text.paragraph(console, f"Note: {note}", "yellow")
    text.heading(console, "Result")
    style = {True: "bold green", False: "bold red", None: ""}[found.verified]
    if found.verified and found.ordinary is not None and not found.ordinary.same:
        style = "bold yellow"
    text.paragraph(console, verdict(found), style)
    if found.ordinary is not None and found.verified is not False:
        text.paragraph(console, unrounded(found.ordinary), style)
    text.pairs(console, _iterations(found))
    if not found.noisy:
        text.pairs(console, _quality(found))
    if lines := _dishonest(found):
        text.heading(console, "Clients that did not follow the protocol")
        text.items(console, lines)
    if not found.noisy:
        _times(console, found)
    text.heading(console, "Traffic")
    console.print(traffic_table(found.traffic))
    text.heading(console, "What the server learned")
    text.items(console, found.learned)
    if found.finding is not None and not found.noisy:
        text.items(console, rebuilt(found.finding))
    if found.risk is not None and not found.noisy:
        text.heading(console, "What the centers tell of who took part")
        text.items(console, [found.risk.sentence])
    text.heading(console, "Differential privacy")
    text.items(console, spent(found.ledger, found.delta))
    if found.risk is not None and found.noisy:
        text.items(console, [found.risk.sentence])
    if found.noisy:
        _evaluation(console, found)
    if found.account.hidden:
        text.heading(console, "What private membership hides")
        text.items(console, found.account.hidden)
        text.heading(console, "What it opens")
        text.items(console, found.account.opened)


def _times(console: Console, found: Report) -> None:
    if found.seconds is None or found.wall is None:
        return
    together = f" Together: {text.duration(found.wall['fit'])}." if "fit" in found.wall else ""
    text.heading(console, "Computing time")
    text.paragraph(
        console,
        "All parties were simulated in this process, one after another; waiting and networks are not "
        f"counted.{together}",
    )
    console.print(time_table(found.seconds, found.steps))


def _evaluation(console: Console, found: Report) -> None:
    """What the budget has not paid for: apart, and marked as that; or what was left out."""
    text.heading(console, "Evaluation")
    if not found.evaluated:
        more = "" if found.labels_paid else ", row counts, cluster sizes"
        text.paragraph(
            console,
            "Left out is what was computed from the exact data, as no budget paid for it: cost, accuracy"
            f"{more}, computing times, and what a curious server could rebuild. --evaluate shows it, for "
            "whoever may see the data.",
        )
        return
    text.paragraph(
        console,
        "NOT covered by epsilon: what follows is computed from the exact data. Show it to nobody who may not "
        "see the data.",
        "bold yellow",
    )
    if not found.labels_paid:
        text.pairs(console, [("Data", _shape(found, found.counts))])
    text.pairs(console, _quality(found))
    if found.finding is not None:
        text.items(console, rebuilt(found.finding))
    _times(console, found)


def verdict(found: Report) -> str:
    """Whether the labels are those of plaintext k-means, in a sentence."""
    comparison = found.comparison
    if comparison is None or found.counts is None:
        return found.account.claim
    m = found.counts.m
    steps = "its only iteration" if comparison.steps == 1 else f"each of {comparison.steps} iterations"
    if comparison.equal and comparison.ends:
        return (
            f"Exact: the labels equal those of plaintext k-means (Lloyd) at the start and after the last of "
            f"{comparison.steps} iterations, all {m:,} points; those between are known to nobody."
        )
    if comparison.equal and comparison.sizes:
        return (
            f"Exact: the sizes of the clusters equal those of plaintext k-means (Lloyd) at the start and "
            f"after {steps}, and the labels that owners have equal its last ones, all {m:,} points; the "
            "labels of other steps are known to nobody."
        )
    if comparison.equal:
        return (
            f"Exact: the labels equal those of plaintext k-means (Lloyd) at the start and after {steps}, "
            f"all {m:,} points."
        )
    where = "at the start" if comparison.first == 0 else f"first after iteration {comparison.first}"
    how = (
        f"in {comparison.points:,} of {m:,} points"
        if comparison.points
        else "one of the two had already stopped"
    )
    return (
        f"NOT EXACT: the labels differ from plaintext k-means (Lloyd) {where}, {how}. Do not use this "
        "result; this is a bug, please report it together with the parameters."
    )


def unrounded(ordinary: Ordinary) -> str:
    """How far the labels are those of ordinary k-means, in a sentence or two."""
    said = (
        "On the unrounded data: the labels equal those of ordinary k-means from the same start at "
        f"{ordinary.equal:,} of {ordinary.points:,} points."
    )
    if not ordinary.same:
        said += " Rounding to integers made the difference."
    if ordinary.ties:
        many = "1 point is" if ordinary.ties == 1 else f"{ordinary.ties:,} points are"
        said += (
            f" {many} equally near to several centers, as far as floating point can tell: there the lowest "
            "number wins here, and other software may decide otherwise."
        )
    return said


def _setup(found: Report) -> list[tuple[str, str]]:
    lines = [] if found.source is None else [("Source", found.source)]
    lines.append(("Data", _shape(found, found.counts if found.labels_paid else None)))
    if names := found.columns:
        more = f", ... ({len(names)} in all)" if len(names) > COLUMNS else ""
        lines.append(("Columns", ", ".join(names[:COLUMNS]) + more))
    among = "" if found.curve is None else f", chosen among {found.curve.least} to {len(found.curve.costs)}"
    task = (f"k = {text.count(found.parameters['k'], 'cluster')}{among}", *found.account.task)
    seed = (f"seed {found.parameters['seed']}",) if "seed" in found.parameters else ()
    lines.append(("Task", ", ".join((*task, *seed))))
    lines += found.account.setup
    if found.parameters.get("sealed"):
        lines.append(("Transport", "every message is encrypted and authenticated from party to party"))
    if quantizer := found.quantizer:
        unit = "unit of scaled features" if "scale_features" in found.parameters else "data unit"
        lines.append(
            (
                "Rounding",
                f"to {text.number(quantizer.scale)} steps a {unit} ({quantizer.rounding}); "
                f"values within +-{text.number(quantizer.bound)}{_finest(found)}",
            )
        )
    return lines


def _shape(found: Report, counts: Counts | None) -> str:
    """Numbers of features and clients, and of points if they may be told."""
    shape = f"d = {text.count(found.d, 'feature')}, n = {text.count(found.n, 'client')}"
    if counts is None:
        return shape
    least, most = min(counts.clients.values()), max(counts.clients.values())
    each = f"{least:,} each" if least == most else f"{least:,} to {most:,} each"
    held = f" (the union of {counts.held:,} rows)" if found.account.hidden else ""
    return f"m = {text.count(counts.m, 'point')}{held}, {shape} ({each})"


def _finest(found: Report) -> str:
    judged = found.resolution
    if judged is None:
        return ""
    if math.isinf(judged.coarsest):
        return "; no value is changed"
    name = judged.names[judged.steps.index(judged.coarsest)]
    steps = f"{judged.coarsest:,.0f}" if judged.coarsest >= 10 else f"{judged.coarsest:.2g}"
    return f"; at least {steps} steps within the spread of a feature ({name})"


def _dishonest(found: Report) -> list[str]:
    """What the server found out about clients' honesty, in sentences."""
    return [
        *(f"{client} lied: {why}" for client, why in found.liars.items()),
        *(f"{a} or {b} lied about the shares between them" for a, b in found.disputes),
        *(f"{client}: its rows do not count, its shares were not complete" for client in found.excluded),
    ]


def _quality(found: Report) -> list[tuple[str, str]]:
    scores, lines = found.scores, []
    if scores is not None:
        lines.append(
            (
                "Accuracy",
                f"{100 * scores['accuracy']:.2f} % of the points under the best relabeling "
                f"(adjusted Rand {scores['adjusted_rand']:.3f}, purity {100 * scores['purity']:.2f} %)",
            )
        )
    where = "" if found.cost_known else ", computed for this report: no party knows it"
    lines.append(("Cost", f"{found.cost:.8g} (squared distances to the cluster means{where})"))
    return lines if found.labels_paid else [*lines, *_sizes(found)]


def _iterations(found: Report) -> list[tuple[str, str]]:
    """What follows from the labels alone."""
    lines = [] if found.curve is None else [("Choice of k", f"{found.curve.words}.")]
    if found.moved:
        end = "converged" if found.converged else "NOT converged: raise --max-iter"
        if found.noisy:
            end = "paid for one by one, and for one more"
        lines.append(("Iterations", f"{found.n_iter} ({end})"))
    if found.digests is not None:
        said = f"{found.digests[''][:16]}..., equal wherever labels are, on any machine, with any threads"
        lines.append(("Digest of labels", said))
    return [*lines, *_sizes(found)] if found.labels_paid else lines


def _sizes(found: Report) -> list[tuple[str, str]]:
    if found.counts is None:
        return []
    sizes = found.counts.clusters
    shown = ", ".join(f"{size:,}" for size in sizes[:12]) + (", ..." if len(sizes) > 12 else "")
    empty = sizes.count(0)
    lines = [("Sizes", shown + (f" ({text.count(empty, 'cluster')} empty)" if empty else ""))]
    if found.withheld:
        which = ", ".join(map(str, found.withheld[:12])) + (", ..." if len(found.withheld) > 12 else "")
        several = len(found.withheld) > 1
        lines.append(
            (
                "Withheld",
                f"the center{'s' * several} of cluster{'s' * several} {which} (counted from 0), of fewer "
                "points than a center may be opened of: --smallest-center",
            )
        )
    return lines
