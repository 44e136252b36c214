"""The report of a run, for people."""

from __future__ import annotations

import io
import math
import textwrap
from dataclasses import replace

from rich.console import Console

from secfc.kmeans.centers import FloatComparison
from secfc.report import terminal
from secfc.report.clusters import profile_section
from secfc.report.costs import epsilon_totals, privacy_spent, time_table, traffic_table
from secfc.report.data import Report, RowCounts, library_versions
from secfc.report.leakage import attack_sentences, outsider_baseline
from secfc.report.terminal import BAD, CAUTION, GOOD, Bars, Dots, Grid, Items, Pairs, Part, Section, Words

FRESH = "noise is drawn anew by every run, so another gives other labels"
COLUMNS = 40  # names that are listed; all are in the JSON report
WIDE, MOST = 12, 100  # columns and rows of tables


def as_text(found: Report, width: int = 100) -> str:
    """The whole report as text for a terminal.

    Parameters
    ----------
    found
        The report.
    width
        Most letters in a line.

    Returns
    -------
    str
        Lines of at most `width` letters.
    """
    out = io.StringIO()
    print_report(Console(file=out, width=width, markup=False, highlight=False, emoji=False), found)
    return out.getvalue()


def print_report(console: Console, found: Report) -> None:
    """Print the whole report."""
    terminal.print_heading(console, found.account.title)
    for section in report_sections(found):
        terminal.print_section(console, section)


def report_sections(found: Report, sketch: Dots | None = None) -> tuple[Section, ...]:
    """All that a report says, for renderers: what it means, who learned what, and then how it ran, folded.

    For strangers make it of `Report.public`.

    sketch: a picture of points, if there is one.
    """
    whole = found
    if found.noisy:
        found = found.publishable
    meaning = (
        Section("Notes", tuple(_notes((*found.notes, *found.asides)))),
        *(() if found.profile is None else (profile_section(found.profile, found.stability),)),
        _clusters(found),
        *((Section("Picture", (sketch,)),) if sketch is not None else ()),
        _result(found),
        _centers(found),
        Section("Cost", () if found.noisy else (Pairs(_quality(found)),)),
    )
    learned = (
        Section("What the server learned", (Items(found.learned), Items(_tried(found)))),
        Section("What every client learned", (Items(found.account.heard),)),
        Section("What the centers tell of who took part", (Items([] if found.noisy else _risk(found)),)),
        Section("Clients that did not follow the protocol", (Items(_dishonest(found)),)),
        Section("Differential privacy", _privacy(found)),
        _evaluation(whole),
        Section("What private membership hides", (Items(found.account.hidden),)),
        Section("What it opens", (Items(found.account.opened),)),
    )
    appendix = (
        Section("The run", (Pairs(_setup(found)),)),
        _rounding(found),
        Section("Computing time", () if found.noisy else _times(found)),
        Section("Traffic", (traffic_table(found.traffic),)),
        Section("How to reproduce it", (Pairs(_origin(found)),)),
        Section("Files", (_files(found),)),
    )
    parts = (*meaning, *learned, *(replace(section, folded=True) for section in appendix))
    return tuple(section.trimmed for section in parts if not section.empty)


def _notes(said: tuple[str, ...]) -> list[Words]:
    return [Words(note, CAUTION) for note in said]


def _result(found: Report) -> Section:
    tone = {True: GOOD, False: BAD, None: ""}[found.verified]
    if found.verified and found.ordinary is not None and not found.ordinary.same:
        tone = CAUTION
    said = [Words(verdict_sentence(found), tone)]
    if found.ordinary is not None and found.verified is not False:
        said.append(Words(unrounded_sentence(found.ordinary), tone))
    changes = [(f"step {number}", many) for number, many in enumerate(found.changes or (), 1)]
    moved = Bars("points that changed their cluster, by step", changes[:MOST] * (len(changes) > 1))
    return Section("Result", (*said, Pairs(_iterations(found)), moved))


def _clusters(found: Report) -> Section:
    """How many points each cluster has."""
    if (sizes := _known_sizes(found)) is None:
        return Section("Clusters", ())
    bars = Bars("points, by cluster", [(str(h), size) for h, size in enumerate(sizes[:MOST])])
    return Section("Clusters", (Pairs(_sizes(found)), bars))


def _known_sizes(found: Report) -> tuple[int, ...] | None:
    """Points of each cluster, None where they may not be told."""
    return found.counts.clusters if found.counts is not None and found.labels_paid else None


def _centers(found: Report) -> Section:
    """The opened centers, by the names of features."""
    if found.centers is None:
        return Section("Centers", ())
    d = found.centers.shape[1]
    names = found.columns or tuple(f"feature {i}" for i in range(d))
    sizes = _known_sizes(found)
    rows = [
        [
            str(h),
            *([f"{sizes[h]:,}"] if sizes is not None else []),
            *("" if math.isnan(value) else f"{value:.5g}" for value in center[:WIDE]),
        ]
        for h, center in enumerate(found.centers[:MOST].tolist())
    ]
    columns = ("cluster", *(("points",) if sizes is not None else ()), *names[:WIDE])
    shown = min(d, WIDE) * min(len(found.centers), MOST)
    rest = "" if shown == found.centers.size else f"The first {shown:,} of {found.centers.size:,} numbers."
    return Section("Centers", (Grid(columns, rows), Words(rest)))


def _rounding(found: Report) -> Section:
    """Steps of rounding within the spread of features, the coarsest first."""
    judged = found.resolution
    if judged is None or math.isinf(judged.coarsest):
        return Section("Rounding", ())
    by_steps = sorted(zip(judged.steps, judged.names, strict=True))
    rows = [
        (name.strip("'"), "all" if math.isinf(steps) else f"{steps:,.0f}") for steps, name in by_steps[:WIDE]
    ]
    more = len(by_steps) - len(rows)
    rest = f"Of the other {more} features there are more." if more else ""
    return Section("Rounding", (Grid(("feature", "steps within its spread"), rows), Words(rest)))


def _origin(found: Report) -> list[tuple[str, str]]:
    """What whoever has the same files types to get the same labels, or others under the same noise."""
    if found.origin is None:
        return []
    had = ", ".join(f"{name} {version}" for name, version in library_versions().items())
    lines = [("Started", found.origin.started), ("Versions", had), ("Command", found.origin.command)]
    if found.digests is not None:
        lines.append(("Labels", f"SHA-256 {found.digests['']}, of all rows in their order"))
    if found.noisy:
        lines.append(("Noise", f"{FRESH}, and spends epsilon once more"))
    return lines


def _files(found: Report) -> Grid:
    """Digests tell whoever guesses a file that the guess is right."""
    files = () if found.origin is None or found.noisy else found.origin.files or ()
    rows = [(str(file["path"]), str(file["sha256"]), terminal.size_of(file["bytes"])) for file in files]
    return Grid(("file", "SHA-256", "bytes"), rows, 2)


def _tried(found: Report) -> list[str]:
    return attack_sentences(found.finding) if found.finding is not None and not found.noisy else []


def _risk(found: Report) -> list[str]:
    return [] if found.risk is None else [found.risk.sentence]


def _covered(found: Report) -> list[str]:
    """Risk of noisy centers, which follows from the budget."""
    return _risk(found) if found.noisy else []


def _privacy(found: Report) -> tuple[Part, ...]:
    """What was spent, on what, under how much noise."""
    return Items(privacy_spent(found.ledger, found.delta) + _covered(found)), *_noise(found)


def _noise(found: Report) -> tuple[Part, ...]:
    """How much noise each release carried, and what the promise takes for public."""
    account = found.account
    alike: dict[tuple[str, ...], int] = {}
    signals = any(one.signal is not None for one in account.noise)
    for one in account.noise:
        signal = "" if one.signal is None else f"{one.signal:.3g}"
        row = (one.what, f"{one.size:,}", f"{one.noise:.3g}", *([signal] if signals else []))
        alike[row] = alike.get(row, 0) + 1
    rows = [(f"{row[0]} (x {many})" if many > 1 else row[0], *row[1:]) for row, many in alike.items()]
    columns = ("release", "numbers", "noise on each", *(("signal",) if signals else ()))
    grid: tuple[Part, ...] = (Grid(columns, rows),)
    if (told := account.labels) is not None:
        line = (
            f"Centers {told.sums:g}, labels {told.epsilon:g}, one row: {told.sums + told.epsilon:g}; a label "
            f"is right with probability {told.right:.2g}. Sizes of clusters by these labels, unbiased:"
        )
        sizes = [
            (str(h), f"{s:,.0f}", f"{e:,.0f}")
            for h, (s, e) in enumerate(zip(told.sizes, told.errors, strict=True))
        ]
        grid += Words(line), Grid(("cluster", "rows", "standard error"), sizes)
    grid += _sureness(found)
    if not account.assumed:
        return grid
    public = (
        "Signal is the typical size of what carries the noise, estimated from the noisy numbers. " * signals
    )
    public += "The promise takes for public, so none of it may come from a look at the data:"
    return *grid, Words(public), Pairs([(name, str(fact)) for name, fact in account.assumed.items()])


def _sureness(found: Report) -> tuple[Part, ...]:
    """How sure private centers and sizes are, and whom they leave out."""
    told = found.account.centers
    if told is None:
        return ()
    columns, sizes = (
        [["unknown" if moved is None else f"{moved:.3g}" for moved in told.moved]],
        tuple[str, ...](),
    )
    if told.sizes is not None:
        sizes = ("rows, noisy", "standard error")
        columns = [[f"{s:,.0f}" for s in told.sizes], [f"{told.error:,.0f}"] * len(told.sizes), *columns]
    rows = [(str(h), *cells) for h, cells in enumerate(zip(*columns, strict=True))]
    said = "How sure centers and sizes are; noise on a center is a root mean square, in data units:"
    return Words(said), Grid(("cluster", *sizes, "noise on the center"), rows), Items(list(told.bias))


def _times(found: Report) -> tuple[Words | Grid, ...]:
    if found.seconds is None or found.wall is None:
        return ()
    together = f" Together: {terminal.duration_text(found.wall['fit'])}." if "fit" in found.wall else ""
    said = (
        "All parties were simulated in this process, one after another; waiting and networks are not "
        f"counted.{together}"
    )
    return Words(said), time_table(found.seconds, found.steps)


def _evaluation(found: Report) -> Section:
    """What the budget has not paid for: apart, and marked as that; or what was left out."""
    if not found.noisy:
        return Section("Evaluation", ())
    if not found.evaluated:
        more = "" if found.labels_paid else ", row counts, cluster sizes"
        said = (
            "Left out is what was computed from the exact data, as no budget paid for it: cost, accuracy"
            f"{more}, computing times, and what a curious server could rebuild."
        )
        if found.simulated:
            said += " --evaluate shows it, for whoever may see the data."
        return Section("Evaluation", (Words(said),))
    said = (
        "NOT covered by epsilon: what follows is computed from the exact data. Show it to nobody who may not "
        "see the data."
    )
    counts = [] if found.labels_paid else [("Data", _shape(found, found.counts))]
    tried = attack_sentences(found.finding) if found.finding is not None else []
    own = [] if found.labels_paid else _sizes(found) + _digest(found)
    times = _times(found)
    title = (Words("Computing time:"),) if times else ()
    figures = Pairs([*counts, *_quality(found), *own])
    parts = (Words(said, CAUTION), *_notes(found.asides), figures, Items(tried), *title, *times)
    return Section("Evaluation", parts)


def verdict_sentence(found: Report) -> str:
    """Whether the labels are those of plaintext k-means, in a sentence; and if so, of which kind it is."""
    told = comparison_sentence(found)
    if found.comparison is not None and found.account.parameters.get("centers") == "rounded":
        told += " Both have rounded centers: this is not k-means with exact centers."
    return told


def comparison_sentence(found: Report) -> str:
    """The sentence alone."""
    comparison = found.comparison
    if comparison is None or found.counts is None:
        return found.account.claim
    m, other = found.counts.m, comparison.beside
    if comparison.equal and other:
        return f"Exact: the labels equal those of {other} on the points as whole numbers, all {m:,} of them."
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
    where = (
        ""
        if other
        else "at the start"
        if comparison.first == 0
        else f"first after iteration {comparison.first}"
    )
    how = (
        f"in {comparison.points:,} of {m:,} points"
        if comparison.points
        else "one of the two had already stopped"
    )
    return (
        f"NOT EXACT: the labels differ from {other or 'plaintext k-means (Lloyd) '}{where}, {how}. Do not "
        "use this result; this is a bug, please report it together with the parameters."
    )


def unrounded_sentence(ordinary: FloatComparison) -> str:
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
    among = ""
    if found.curve is not None and found.curve.has_choice:
        among = f", chosen among {found.curve.least} to {len(found.curve.costs)}"
    task = (f"k = {terminal.pluralize(found.parameters['k'], 'cluster')}{among}", *found.account.task)
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
                f"to {terminal.short_number(quantizer.scale)} steps a {unit} ({quantizer.rounding}); "
                f"values within +-{terminal.short_number(quantizer.bound)}{_finest(found)}",
            )
        )
    return lines


def _shape(found: Report, counts: RowCounts | None) -> str:
    """Numbers of features and clients, and of points if they may be told."""
    shape = f"d = {terminal.pluralize(found.d, 'feature')}, n = {terminal.pluralize(found.n, 'client')}"
    if counts is None:
        return shape
    each = ""
    if counts.clients is not None:
        least, most = min(counts.clients.values()), max(counts.clients.values())
        each = f" ({least:,} each)" if least == most else f" ({least:,} to {most:,} each)"
    held = "" if counts.held is None or not found.account.hidden else f" (the union of {counts.held:,} rows)"
    return f"m = {terminal.pluralize(counts.m, 'point')}{held}, {shape}{each}"


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
        *(f"{client} deviated: {why}" for client, why in found.deviated.items()),
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
    if found.cost is not None:
        where = "" if found.cost_known else ", computed for this report: no party knows it"
        scaled = " of scaled points" if "scale_features" in found.parameters else ""
        lines.append(("Cost", f"{found.cost:.8g} (squared distances{scaled} to the cluster means{where})"))
    return lines


def _iterations(found: Report) -> list[tuple[str, str]]:
    """What follows from the labels alone."""
    lines = [] if found.curve is None else [("Choice of k", f"{found.curve.words}.")]
    if found.moved:
        end = "converged" if found.converged else "NOT converged: raise --max-iter"
        end += f", but the floor held {found.held:,} rows" if found.held else ""
        if found.noisy:
            end = "paid for one by one, and for one more"
        lines.append(("Iterations", f"{found.n_iter} ({end})"))
    if found.digests is not None:
        digest = found.digests[""][:16]
        if found.noisy:
            lines.append(("Labels", f"{digest}, a digest of this run: {FRESH}"))
        else:
            lines.append(
                ("Same labels", f"{digest}, a digest that is equal on any machine, with any threads")
            )
    return lines


def _digest(found: Report) -> list[tuple[str, str]]:
    return [] if found.digests is None else [("Labels", f"SHA-256 {found.digests['']}")]


def _sizes(found: Report) -> list[tuple[str, str]]:
    if found.counts is None or (sizes := found.counts.clusters) is None:
        return []
    shown = ", ".join(f"{size:,}" for size in sizes[:12]) + (", ..." if len(sizes) > 12 else "")
    if (outside := found.counts.m - sum(sizes)) > 0:
        shown += f" and {outside:,} in no cluster"
    empty = sizes.count(0)
    lines = [("Sizes", shown + (f" ({terminal.pluralize(empty, 'cluster')} empty)" if empty else ""))]
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


# --------------------------------------------------------------------------------------------------
# A run in a dozen lines: what people read first, and what stays on their screen.

SIMULATED = "A simulation: this computer saw all data; with secfc deploy no computer does."
DEPLOYED = "Run between organizations: no computer saw all data."
NAMES, SIZES = 4, 6  # that are listed
SHORT = 66  # letters of a line there
# How clear the choice of k is.
ELBOWS = {"clear": "a clear elbow", "close": "another is close", "faint": "faint", "none": "not clear"}
MOST_SUMMARIZED = 9  # lines, beyond which what matters least is left out


def report_summary(found: Report, *, rest: str = "--verbose") -> list[tuple[str, str]]:
    """Names and short sentences.  rest: where what they leave out is."""
    lines = [
        ("Data", _data(found)),
        ("Clusters", _summary_clusters(found)),
        *_labels(found),
    ]
    if found.simulated:
        lines.append(("Took", _took(found)))
    if dishonest := len(found.deviated) + len(found.disputes) + len(found.excluded):
        lines.append(("Dishonest", f"{terminal.pluralize(dishonest, 'finding')}: {rest}"))
    if found.scores is not None and not found.noisy:
        lines.append(("Accuracy", f"{100 * found.scores['accuracy']:.2f} % of the points are in their class"))
    if found.stability is not None and found.stability.mean_adjusted_rand is not None:
        lines.append(("Stability", found.stability.words))
    if found.learned:
        lines.append(("Server saw", terminal.first_sentences(found.learned, most=1, rest=rest)))
    if found.finding is not None and not found.noisy and (leak := outsider_baseline(found.finding)):
        lines.append(("Leak", leak))
    lines.append(("Privacy", _summary_privacy(found)))
    if found.digests is not None and not found.noisy:  # noise is another in every run
        lines.append(("Same labels", f"{found.digests[''][:16]} on any machine, with any number of threads"))
    return lines


def print_summary(console: Console, found: Report) -> None:
    """Print the summary."""
    terminal.print_heading(console, found.account.title)
    lines = report_summary(found)
    for dropped in ("Took", "Accuracy", "Stability"):
        if sum(len(textwrap.wrap(said, SHORT)) for _, said in lines) > MOST_SUMMARIZED:
            lines = [(name, said) for name, said in lines if name != dropped]
    terminal.print_pairs(console, lines)


def print_notes(console: Console, found: Report) -> None:
    """Print what the user should know about choices that were made for them."""
    for note in (*found.notes, *found.asides):
        terminal.print_paragraph(console, f"Note: {note}", "yellow")


def _data(found: Report) -> str:
    known = found.counts is not None and found.labels_paid
    points = (
        f"{terminal.pluralize(found.counts.m, 'point')} of " if known and found.counts is not None else ""
    )
    names = found.columns or ()
    listed = f": {', '.join(names[:NAMES])}{', ...' if len(names) > NAMES else ''}" if names else ""
    said = f"{points}{terminal.pluralize(found.n, 'client')}, {terminal.pluralize(found.d, 'feature')}"
    return said + listed


def _summary_clusters(found: Report) -> str:
    among = ""
    if found.curve is not None and not found.curve.has_choice:
        among = f" (silhouette {found.curve.silhouette:.2f})" if found.curve.silhouette else ""
    elif found.curve is not None:
        how = ELBOWS[found.curve.clarity]
        among = f" (chosen among {found.curve.least} to {len(found.curve.costs)}: {how})"
    k = f"{found.parameters['k']}{among}"
    if (known := _known_sizes(found)) is None:
        return k
    sizes, outside = [f"{size:,}" for size in known], (found.counts.m if found.counts else 0) - sum(known)
    of = f", of {', '.join(sizes[:SIZES])}{', ...' if len(sizes) > SIZES else ''} points" * bool(sizes)
    return k + of + f", {outside:,} in none" * (outside > 0)


def _labels(found: Report) -> list[tuple[str, str]]:
    """How the labels stand to those of plaintext k-means, and of the points as they are."""
    if not found.verified:
        return [("Labels", verdict_sentence(found).removeprefix("Labels are "))]
    if found.comparison is not None and found.comparison.beside:
        return [("Labels", f"those of {found.comparison.beside}, exactly, on points as whole numbers")]
    steps = terminal.pluralize(
        found.comparison.steps if found.comparison is not None else found.n_iter, "step"
    )
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
    work = f"{terminal.duration_text(found.wall['fit'])}, " if found.wall and "fit" in found.wall else ""
    return f"{work}{terminal.pluralize(many, 'message')} of {terminal.size_of(size)} together"


def _summary_privacy(found: Report) -> str:
    epsilon = max(epsilon_totals(found.ledger, found.delta).values())
    if math.isinf(epsilon):
        return "what was released is exact, not differentially private"
    told = found.account.labels
    parts = "" if told is None else f"; centers {told.sums:g}, labels {told.epsilon:g}"
    return f"epsilon = {epsilon:.4g} at delta = {found.delta:g}, {found.ledger.neighbors}{parts}"
