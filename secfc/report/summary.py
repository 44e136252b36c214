"""A run in a dozen lines: what people read first, and what stays on their screen."""

from __future__ import annotations

import math
import textwrap

from rich.console import Console

from secfc.report import text
from secfc.report.attacks import outsider
from secfc.report.data import Report
from secfc.report.people import verdict
from secfc.report.privacy import totals

SIMULATED = "A simulation: this computer saw all data. Between organizations nobody does: secfc deploy --help"
NAMES, SIZES = 4, 6  # that are listed
CUT, SHORT = ("Data", "Server saw"), 66  # what is cut on a screen, to one line
MOST = 9  # lines there


def summary(found: Report) -> list[tuple[str, str]]:
    """Names and short sentences."""
    lines = [("Data", _data(found)), ("Clusters", _clusters(found)), *_labels(found), ("Took", _took(found))]
    if dishonest := len(found.liars) + len(found.disputes) + len(found.excluded):
        lines.append(("Dishonest", f"{text.count(dishonest, 'finding')}: --verbose names them"))
    if found.scores is not None and not found.noisy:
        lines.append(("Accuracy", f"{100 * found.scores['accuracy']:.2f} % of the points are in their class"))
    if found.learned:
        lines.append(("Server saw", found.learned[0]))
    if found.finding is not None and not found.noisy and (leak := outsider(found.finding)):
        lines.append(("Leak", leak))
    lines.append(("Privacy", _privacy(found)))
    if found.digests is not None and not found.noisy:  # noise is another in every run
        lines.append(("Same labels", f"{found.digests[''][:16]} on any machine, with any number of threads"))
    return lines


def brief(console: Console, found: Report) -> None:
    """Print the summary."""
    text.heading(console, found.account.title)
    lines = [(name, text.clipped(said, SHORT) if name in CUT else said) for name, said in summary(found)]
    for dropped in ("Took", "Accuracy"):
        if sum(len(textwrap.wrap(said, SHORT)) for _, said in lines) > MOST:
            lines = [(name, said) for name, said in lines if name != dropped]
    text.pairs(console, lines)


def notes(console: Console, found: Report) -> None:
    """Print what the user should know about choices that were made for them."""
    for note in (*found.notes, *found.asides):
        text.paragraph(console, f"Note: {note}", "yellow")


def _data(found: Report) -> str:
    known = found.counts is not None and found.labels_paid
    points = f"{text.count(found.counts.m, 'point')} of " if known and found.counts is not None else ""
    names = found.columns or ()
    listed = f": {', '.join(names[:NAMES])}{', ...' if len(names) > NAMES else ''}" if names else ""
    said = f"{points}{text.count(found.n, 'client')}, {text.count(found.d, 'feature')}"
    return said + listed


def _clusters(found: Report) -> str:
    among = "" if found.curve is None else f" (chosen among {found.curve.least} to {len(found.curve.costs)})"
    k = f"{found.parameters['k']}{among}"
    if found.counts is None or not found.labels_paid:
        return k
    sizes = [f"{size:,}" for size in found.counts.clusters]
    return f"{k}, of {', '.join(sizes[:SIZES])}{', ...' if len(sizes) > SIZES else ''} points"


def _labels(found: Report) -> list[tuple[str, str]]:
    """How the labels stand to those of plaintext k-means, and of the points as they are."""
    if not found.verified:
        return [("Labels", verdict(found))]
    steps = text.count(found.comparison.steps if found.comparison is not None else found.n_iter, "step")
    which = " with rounded centers" if found.account.parameters.get("centers") == "rounded" else ""
    same = f"those of plaintext k-means{which} (Lloyd), exactly, in all of {steps}"
    if found.moved and not found.converged:
        same += "; NOT converged: raise --max-iter"
    if found.ordinary is not None and not found.ordinary.same:
        same += f"; on unrounded data {found.ordinary.equal:,} of {found.ordinary.points:,} are the same"
    return [("Labels", same)]


def _took(found: Report) -> str:
    sent = [entry for kinds in found.traffic.values() for entry in kinds.values()]
    many, size = sum(count for count, _ in sent), sum(size for _, size in sent)
    work = f"{text.duration(found.wall['fit'])}, " if found.wall and "fit" in found.wall else ""
    return f"{work}{text.count(many, 'message')} of {text.size_of(size)} together"


def _privacy(found: Report) -> str:
    epsilon = max(totals(found.ledger, found.delta).values())
    if math.isinf(epsilon):
        return "what was released is exact, not differentially private"
    return f"epsilon = {epsilon:.4g} at delta = {found.delta:g}, {found.ledger.neighbors}"
