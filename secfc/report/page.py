"""A report as one page: no script, nothing from a network, good on paper; everything is escaped."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from field.arrays import Array
from secfc.algorithm import Clustering
from secfc.data.federation import Federation
from secfc.data.inputs import require_library
from secfc.kmeans.bisecting import Dendrogram
from secfc.kmeans.elbow import CostCurve
from secfc.report.data import Report, in_row_order, pool_points
from secfc.report.people import DEPLOYED, SIMULATED, report_sections, report_summary
from secfc.report.terminal import Dots, Tiles, pluralize

# Ten hues that also differ in lightness (Okabe and Ito's, and two grays); an eleventh cluster has the first.
COLORS = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9",
    "#d55e00", "#8c7a00", "#5b3a8c", "#555555", "#a0a0a0",
)  # fmt: skip
# A picture, what stands to the left of it and below, and its margin within.
WIDTH, HEIGHT, ROOM, LEFT, BELOW = 640.0, 420.0, 12.0, 52.0, 44.0
LISTED = 20  # clusters beside it


@cache
def load_template(name: str = "page.html.jinja") -> Any:
    """A template of this folder; they share parts, and everything is escaped."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    made = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        loader=FunctionLoader(lambda file: files("secfc.report").joinpath(file).read_text(encoding="utf-8")),
    )  # fmt: skip
    made.filters["kind"] = lambda part: type(part).__name__
    made.filters["placed"] = place_dots
    made.filters["widths"] = bar_widths
    made.filters["tinted"] = tint_tiles
    made.filters["whole"] = keep_options_whole
    made.globals |= {"width": WIDTH, "height": HEIGHT, "left": LEFT, "bottom": HEIGHT - BELOW}
    return made.get_template(name)


def as_html(found: Report, *, holders: bool = False, sketch: Dots | None = None) -> str:
    """The report as a page of HTML.

    holders: whether its readers may see the data; strangers get what `Report.public` holds, and the titles of
    what is left out.  sketch: a picture of points (`secfc.report.page`), which only holders get.
    """
    told = found if holders else found.public
    whole, public = report_sections(found, sketch), report_sections(found.public)
    shown = whole if holders else public
    apart = {section.title for section in whole} - {section.title for section in public}
    return str(
        load_template().render(
            title=found.account.title,
            where=SIMULATED if found.simulated else DEPLOYED,
            holders=holders,
            started=None if found.origin is None else found.origin.started,
            verified=found.verified,
            summary=report_summary(told, rest="below"),
            sections=[section for section in shown if not section.folded],
            appendix=[section for section in shown if section.folded],
            apart=sorted(apart),
            parties=sorted(found.counts.clients or ()) if told.counts is not None and found.counts else (),
            parameters=[(name, _short(value)) for name, value in found.parameters.items()],
        )
    )


def _short(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_short, value)) or "none"
    return "not set" if value is None else str(value)


def keep_options_whole(text: object) -> Any:
    """The text, escaped, with options of commands that no line breaks at their hyphens."""
    markup: Any = importlib.import_module("markupsafe")
    said = re.sub(r"(?<![\w-])--[a-z][a-z-]*", r'<span class="whole">\g<0></span>', str(markup.escape(text)))
    return markup.Markup(said)


def bar_widths(values: Sequence[tuple[str, int]]) -> list[tuple[str, int, float]]:
    """Names, numbers, and the length of their bars in percent."""
    most = max((value for _, value in values), default=0) or 1
    return [(name, value, round(100 * value / most, 2)) for name, value in values]


def tint_tiles(tiles: Tiles) -> list[tuple[str, list[tuple[str, str]]]]:
    """Names of rows, and of each number its text and its color: red above 0 and blue below."""
    return [(name, [_tinted(value) for value in values]) for name, values in tiles.rows]


def _tinted(value: float) -> tuple[str, str]:
    if math.isnan(value):
        return "", "transparent"
    red, green, blue = (213, 94, 0) if value > 0 else (0, 114, 178)
    return f"{value:+.1f}".replace(
        "-0.0", "0.0"
    ), f"rgba({red}, {green}, {blue}, {min(abs(value), 2) / 2.5:.2f})"


def place_dots(dots: Dots) -> dict[str, Any]:
    """Circles of a picture of WIDTH x HEIGHT, their colors, and ticks of its axes, which have one scale."""
    xs, ys = [x for x, _, _ in dots.points], [y for _, y, _ in dots.points]
    spans = (max(xs) - min(xs) or 1.0, max(ys) - min(ys) or 1.0)
    inner = (WIDTH - LEFT - 2 * ROOM, HEIGHT - BELOW - 2 * ROOM)
    unit = min(inner[0] / spans[0], inner[1] / spans[1])
    middle = ((max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2)

    def across(x: float) -> float:
        return round((WIDTH + LEFT) / 2 + unit * (x - middle[0]), 1)

    def up(y: float) -> float:
        return round((HEIGHT - BELOW) / 2 - unit * (y - middle[1]), 1)

    ends = [(middle[i] - inner[i] / unit / 2, middle[i] + inner[i] / unit / 2) for i in (0, 1)]
    step = next(s for s in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 1e9) if unit * s >= 45)
    ticks = [
        [
            (place(step * i), f"{step * i:g}")
            for i in range(math.ceil(low / step), math.floor(high / step) + 1)
        ]
        for place, (low, high) in zip((across, up), ends, strict=True)
    ]
    return {
        "circles": [(across(x), up(y), COLORS[h % len(COLORS)]) for x, y, h in dots.points],
        "across": ticks[0],
        "up": ticks[1],
        "colors": [(COLORS[h % len(COLORS)], words) for h, words in enumerate(dots.colors[:LISTED])],
    }


# --------------------------------------------------------------------------------------------------
# Pictures of reports, for who has matplotlib.


def plot_curve(curve: CostCurve) -> Any:
    """A matplotlib Figure of the costs by which k was chosen, of the chord below which it lies, and of the
    silhouettes if there are any.
    """
    figures: Any = importlib.import_module("matplotlib.figure")
    ks, costs = np.arange(1, len(curve.costs) + 1), np.array(list(map(float, curve.costs)))
    figure = figures.Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.add_subplot(xscale="log")
    lines = axes.plot(ks, costs, marker="o", markersize=4, color="tab:blue", label="cost")
    if 0 < costs[-1] < costs[0]:
        ends = [0, -1]
        lines += axes.plot(ks[ends], costs[ends], color="0.6", linestyle="--", label="without clusters")
        axes.set(yscale="log")
        axes.set_yticks(ticks := _ticks(costs), [f"{tick:g}" for tick in ticks])
    lines.append(axes.axvline(curve.k, color="tab:orange", zorder=0, label=f"k = {curve.k}"))
    axes.set(xlabel="clusters", ylabel="cost (squared distances to means)")
    axes.set_xticks(ks, [str(k) if k <= 10 or k % 5 == 0 else "" for k in ks])
    axes.minorticks_off()
    if curve.silhouettes:
        right = axes.twinx()
        found = np.arange(2, 2 + len(curve.silhouettes))
        lines += right.plot(
            found, curve.silhouettes, marker="s", markersize=3, linewidth=1, color="tab:green",
            label="silhouette",
        )  # fmt: skip
        right.set(ylabel="simplified silhouette", ylim=(min(0, *curve.silhouettes), 1))
    axes.legend(handles=lines, loc="best", frameon=False)
    return figure


def plot_dendrogram(tree: Dendrogram, method: str, count: int | None) -> Any:
    """A matplotlib Figure of the tree of clusters by a linkage of scipy, colored where it is cut."""
    require_library("a picture of a tree", "estimators")
    drawing: Any = importlib.import_module("scipy.cluster.hierarchy").dendrogram
    figures: Any = importlib.import_module("matplotlib.figure")
    rows = tree.link_clusters(method)
    heights = np.sort(np.append(rows[:, 2], [0.0, np.inf]))
    below = heights[len(heights) - 1 - (count or 1)]  # the last merge that is made
    figure = figures.Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.add_subplot(ylabel="distance of centers" if method != "ward" else "root of twice the cost")
    drawing(
        rows, labels=tree.leaves, ax=axes, color_threshold=np.nextafter(below, np.inf), leaf_rotation=90,
        above_threshold_color="0.6",
    )  # fmt: skip
    axes.set(xlabel="cluster")
    return figure


def _ticks(costs: Array) -> list[float]:
    """Round numbers from the lowest cost to the highest, not many."""
    low, high = np.log10(costs.min()), np.log10(costs.max())
    decades = range(math.floor(low), math.ceil(high) + 1)
    for digits in ((1,), (1, 3), (1, 2, 5), (1, 2, 3, 4, 6, 8), np.arange(1, 10, 0.2)):
        found = [float(f"{digit * 10.0**decade:.3g}") for decade in decades for digit in digits]
        found = [tick for tick in found if low - 0.02 <= math.log10(tick) <= high + 0.02]
        if len(found) >= 3:
            break
    return found[:: -(-len(found) // 10)]


# --------------------------------------------------------------------------------------------------
# A picture of the clustered points, for whoever may see them.

POINTS = 600


def plane_sketch(result: Clustering, federation: Federation) -> Dots | None:
    """At most 600 points in the plane in which they spread most, None where rows lack features.

    Whoever sees it sees two numbers of single rows: it is for holders of the data.
    """
    if federation.observed is not None:
        return None
    points, labels = pool_points(federation, result).stacked(), in_row_order(result, result.labels)
    kept = np.flatnonzero(labels >= 0)
    kept = kept[np.linspace(0, len(kept) - 1, min(POINTS, len(kept))).astype(np.int64)]
    shown = points[kept] - points[kept].mean(axis=0)
    spread = shown.std(axis=0)
    shown = shown / np.where(spread > 0, spread, 1.0)
    if shown.shape[1] < 2:
        shown = np.column_stack((shown, np.zeros(len(shown))))
    _, spans, axes = np.linalg.svd(shown, full_matrices=False)
    axes *= np.sign(axes[np.arange(len(axes)), abs(axes).argmax(axis=1)])[:, None]
    plane = shown @ axes[:2].T
    what = (
        f"{len(kept):,} of {len(points):,} points, in the plane in which standardized features spread most, "
        "in deviations from the mean"
    )
    dots = [(float(x), float(y), int(h)) for (x, y), h in zip(plane, labels[kept], strict=True)]
    names = federation.feature_names or tuple(f"feature {i}" for i in range(points.shape[1]))
    shares = spans**2 / (np.sum(spans**2) or 1.0)
    sides = [_axis_words(names, axis, share) for axis, share in zip(axes, shares, strict=True)][:2]
    sizes = np.bincount(labels[labels >= 0], minlength=result.k).tolist()
    colors = [f"cluster {h}, {pluralize(size, 'point')}" for h, size in enumerate(sizes)]
    return Dots(what, dots, (sides[0], sides[-1] if len(sides) > 1 else ""), colors)


def _axis_words(names: Sequence[str], axis: Array, share: float) -> str:
    """The features that lie along an axis most, with their signs, and its part of the spread."""
    order = [f for f in np.argsort(-abs(axis))[:3].tolist() if f < len(names) and abs(axis[f]) > 0.2]
    listed = ", ".join(f"{'-' if axis[f] < 0 else ''}{names[f]}" for f in order)
    return f"mostly {listed} ({100 * share:.0f} % of the spread)"
