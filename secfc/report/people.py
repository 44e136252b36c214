"""The report of a run, for people."""

from __future__ import annotations

import math

from rich.console import Console

from secfc.algorithm import Clustering
from secfc.coded.plan import Plan
from secfc.report import text
from secfc.report.attacks import rebuilt
from secfc.report.costs import time_table, traffic_table
from secfc.report.membership import hidden, identity, opened
from secfc.report.ordinary import Ordinary
from secfc.report.outcome import Outcome
from secfc.report.privacy import spent
from secfc.report.programs import quantizer_of

COLUMNS = 40  # names that are listed; all are in the JSON report

TITLES = {
    "secfc": "SecFC: exact k-means on shares",
    "lloyd": "Plaintext k-means (Lloyd): the server sees every point",
    "feddp": "FedDP-KMeans: differentially private centers, from noisy sums",
    "k-fed": "k-FED: one-shot federated clustering, not private",
}


def show(console: Console, outcome: Outcome) -> None:
    """Print the whole report."""
    result = outcome.result
    noisy = outcome.noisy and outcome.algorithm == "secfc"
    title = "SecFC with differential privacy: k-means on noisy distances" if noisy else None
    text.heading(console, title or TITLES.get(outcome.algorithm, outcome.algorithm))
    text.pairs(console, _setup(outcome))
    for note in outcome.notes:
        text.paragraph(console, f"Note: {note}", "yellow")
    text.heading(console, "Result")
    style = {True: "bold green", False: "bold red", None: ""}[outcome.verified]
    if outcome.verified and outcome.ordinary is not None and not outcome.ordinary.same:
        style = "bold yellow"
    text.paragraph(console, verdict(outcome), style)
    if outcome.ordinary is not None and outcome.verified is not False:
        text.paragraph(console, unrounded(outcome.ordinary), style)
    text.pairs(console, _iterations(outcome))
    if outcome.shows_data and not outcome.noisy:
        text.pairs(console, _quality(outcome))
    if lines := _dishonest(result):
        text.heading(console, "Clients that did not follow the protocol")
        text.items(console, lines)
    if not outcome.noisy:
        _times(console, outcome)
    text.heading(console, "Traffic")
    console.print(traffic_table(result))
    text.heading(console, "What the server learned")
    text.items(console, result.learned)
    if outcome.finding is not None and not outcome.noisy:
        text.items(console, rebuilt(outcome.finding))
    text.heading(console, "Differential privacy")
    text.items(console, spent(outcome.result.ledger, outcome.delta))
    if outcome.noisy:
        _evaluation(console, outcome)
    if outcome.private:
        text.heading(console, "What private membership hides")
        text.items(console, hidden(outcome))
        text.heading(console, "What it opens")
        text.items(console, opened(outcome))


def _times(console: Console, outcome: Outcome) -> None:
    text.heading(console, "Computing time")
    text.paragraph(
        console,
        "All parties were simulated in this process, one after another; waiting and networks are not "
        f"counted. Together: {text.duration(outcome.wall.get('fit', 0.0))}.",
    )
    console.print(time_table(outcome.result))


def _evaluation(console: Console, outcome: Outcome) -> None:
    """What the budget has not paid for: apart, and marked as that; or what was left out."""
    text.heading(console, "Evaluation")
    if not outcome.evaluate:
        more = "" if outcome.labels_paid else ", row counts, cluster sizes"
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
    if not outcome.labels_paid:
        text.pairs(console, [("Data", _rows(outcome))])
    text.pairs(console, _quality(outcome))
    if outcome.finding is not None:
        text.items(console, rebuilt(outcome.finding))
    _times(console, outcome)


def verdict(outcome: Outcome) -> str:
    """Whether the labels are those of plaintext k-means, in a sentence."""
    comparison = outcome.comparison
    if outcome.algorithm == "feddp":
        return "Not exact, by intent: centers are made of sums that carry noise."
    if outcome.noisy:
        return "Not exact, by intent: every distance carries noise, so labels differ from plaintext k-means."
    if comparison is None and outcome.algorithm == "secfc":
        return "Not verified: the comparison with plaintext k-means was switched off."
    if comparison is None:
        return "Nothing to verify: only SecFC claims to equal plaintext k-means."
    steps = "its only iteration" if comparison.steps == 1 else f"each of {comparison.steps} iterations"
    if comparison.equal and comparison.ends:
        return (
            f"Exact: the labels equal those of plaintext k-means (Lloyd) at the start and after the last of "
            f"{comparison.steps} iterations, all {outcome.m:,} points; those between are known to nobody."
        )
    if comparison.equal:
        return (
            f"Exact: the labels equal those of plaintext k-means (Lloyd) at the start and after {steps}, "
            f"all {outcome.m:,} points."
        )
    where = "at the start" if comparison.first == 0 else f"first after iteration {comparison.first}"
    how = (
        f"in {comparison.points:,} of {outcome.m:,} points"
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


def _setup(outcome: Outcome) -> list[tuple[str, str]]:
    federation, result, settings = outcome.federation, outcome.result, outcome.settings
    shape = f"d = {text.count(federation.d, 'feature')}, n = {text.count(federation.n, 'client')}"
    lines = [
        ("Source", outcome.source),
        ("Data", _rows(outcome) if outcome.labels_paid else shape),
    ]
    if names := federation.feature_names:
        more = f", ... ({len(names)} in all)" if len(names) > COLUMNS else ""
        lines.append(("Columns", ", ".join(names[:COLUMNS]) + more))
    task = f"k = {text.count(result.k, 'cluster')}"
    if "init" in settings:
        best = "" if settings["n_init"] == 1 else f", best of {settings['n_init']} starts"
        task += f", start {settings['init']}{best}, at most {settings['max_iter']} iterations"
    if "k_local" in settings:
        task += f", {settings['k_local']} local clusters a client"
    lines.append(("Task", f"{task}, seed {settings['seed']}"))
    plan = result.plan
    if isinstance(plan, Plan):
        code = plan.code
        segments = "is shared whole" if code.ell == 1 else f"is cut into {code.ell} segments and shared"
        lines.append(("Privacy", f"t = {code.t}: {_hidden_from(code.t)}"))
        if outcome.private:
            lines.append(("Membership", f"private; {identity(outcome)}"))
        if plan.liars:
            liars = text.count(plan.liars, "lying client")
            lines.append(
                ("Liars", f"labels are exact with up to {liars}; whose lies are read is named and left out")
            )
        lines.append(("Coding", f"ell = {code.ell}: each point {segments}"))
        basis = code.basis
        primes = "1 prime" if basis.lanes == 1 else f"{basis.lanes} lanes (primes)"
        lines.append(("Field", f"{primes}, a modulus of {basis.modulus.bit_length()} bits"))
    if outcome.settings.get("sealed"):
        lines.append(("Transport", "every message is encrypted and authenticated from party to party"))
    if quantizer := quantizer_of(result):
        lines.append(
            (
                "Rounding",
                f"to {text.number(quantizer.scale)} steps a data unit ({quantizer.rounding}); "
                f"values within +-{text.number(quantizer.bound)}{_finest(outcome)}",
            )
        )
    return lines


def _rows(outcome: Outcome) -> str:
    federation = outcome.federation
    least, most = min(federation.counts), max(federation.counts)
    each = f"{least:,} each" if least == most else f"{least:,} to {most:,} each"
    held = f" (the union of {federation.m:,} rows)" if outcome.private else ""
    return (
        f"m = {text.count(outcome.m, 'point')}{held}, d = {text.count(federation.d, 'feature')}, "
        f"n = {text.count(federation.n, 'client')} ({each})"
    )


def _finest(outcome: Outcome) -> str:
    found = outcome.resolution
    if found is None:
        return ""
    if math.isinf(found.coarsest):
        return "; no value is changed"
    name = found.names[found.steps.index(found.coarsest)]
    steps = f"{found.coarsest:,.0f}" if found.coarsest >= 10 else f"{found.coarsest:.2g}"
    return f"; at least {steps} steps within the spread of a feature ({name})"


def _hidden_from(t: int) -> str:
    if t == 0:
        return "the shares carry no noise and hide nothing from the clients"
    who = "no client learns" if t == 1 else f"no {t} clients together learn"
    return f"{who} anything about the others' points but the labels, as long as all follow the protocol"


def _dishonest(result: Clustering) -> list[str]:
    """What the server found out about clients' honesty, in sentences."""
    return [
        *(f"{client} lied: {why}" for client, why in result.liars.items()),
        *(f"{a} or {b} lied about the shares between them" for a, b in result.disputes),
        *(f"{client}: its rows do not count, its shares were not complete" for client in result.excluded),
    ]


def _quality(outcome: Outcome) -> list[tuple[str, str]]:
    result, scores = outcome.result, outcome.scores
    lines = []
    if scores is not None:
        lines.append(
            (
                "Accuracy",
                f"{100 * scores['accuracy']:.2f} % of the points under the best relabeling "
                f"(adjusted Rand {scores['adjusted_rand']:.3f}, purity {100 * scores['purity']:.2f} %)",
            )
        )
    where = "" if result.cost is not None else ", computed for this report: no party knows it"
    lines.append(("Cost", f"{outcome.cost:.8g} (squared distances to the cluster means{where})"))
    if not outcome.labels_paid:
        lines.append(_sizes(outcome))
    return lines


def _iterations(outcome: Outcome) -> list[tuple[str, str]]:
    """What follows from the labels alone."""
    result, lines = outcome.result, []
    if result.history:
        end = "converged" if result.converged else "NOT converged: raise --max-iter"
        if outcome.noisy:
            end = "paid for one by one, and for one more"
        lines.append(("Iterations", f"{result.n_iter} ({end})"))
    if outcome.labels_paid:
        lines.append(_sizes(outcome))
    return lines


def _sizes(outcome: Outcome) -> tuple[str, str]:
    sizes = outcome.sizes
    shown = ", ".join(f"{size:,}" for size in sizes[:12]) + (", ..." if len(sizes) > 12 else "")
    empty = sizes.count(0)
    return "Sizes", shown + (f" ({text.count(empty, 'cluster')} empty)" if empty else "")
