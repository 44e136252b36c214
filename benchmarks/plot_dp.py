"""Pictures of the rows of `benchmarks.dp`, as Figures 1 to 9 of the FedDP-KMeans paper: cost over epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.common import Row
from benchmarks.dp_methods import METHODS, most_right

Figure = Any

# Color and marker of every method; private methods under their initial centers' names.
STYLES = {
    "ours": ("tab:blue", "o"), "paper": ("tab:orange", "s"), "ours, noise in shares": ("tab:cyan", "d"),
    "ServerKMeans++": ("tab:green", "^"), "ServerLloyds": ("tab:olive", "v"),
    "SpherePacking": ("tab:red", "<"), "k-FED": ("tab:purple", ">"), "Optimal": ("black", "*"),
    "SecFC, noise on distances": ("tab:pink", "X"), "ours, labels by response": ("tab:brown", "P"),
    "one center": ("tab:gray", "."), "SecFC, noisy sums": ("navy", "D"),
}  # fmt: skip


def figures(rows: list[Row]) -> Iterator[tuple[str, Callable[[Figure], None]]]:
    """The name of every picture that the rows allow, and the function that draws it."""
    members = [r for r in rows if r["cell"].get("script") == "dp"]
    for name in sorted({name_of(r["cell"]) for r in members}):
        part = [r for r in members if name_of(r["cell"]) == name]
        usual = [r for r in part if not r["cell"]["method"].startswith(("ablation", "split"))]
        if usual:
            yield f"dp-{name}", lambda figure, p=usual: cost_over_epsilon(figure, p)
        ablation = [r for r in part if r["cell"]["method"].startswith("ablation")]
        if ablation:
            yield f"dp-ablation-{name}", lambda figure, p=ablation: ladder(figure, p)
        if any(r["cell"]["method"].startswith("split") for r in part):
            splits = [
                r for r in part if r["cell"]["method"].startswith("split") or r["cell"]["method"] == "ours"
            ]
            yield f"dp-pareto-{name}", lambda figure, p=splits: pareto(figure, p)


def name_of(cell: Row) -> str:
    """A setting in words that a file name holds."""
    which = cell["chosen"] or str(cell["clients"])
    return f"{cell['setting']}-{which}-{cell['unit']}".replace(",", "-").replace(" ", "-")


def title_of(cell: Row) -> str:
    """A setting in words for people."""
    if cell["setting"] in ("silo", "device"):
        what = f"Gaussian mixture, {cell['clients']} clients of {cell['rows']} points"
    else:
        what = f"{cell['setting']}, {cell['chosen']}"
    return f"{what}, k = {cell['k']}: one {cell['unit']} protected"


def by_epsilon(rows: list[Row]) -> dict[str, dict[float, list[float]]]:
    """Excess costs by method and epsilon; without privacy, epsilon is NaN."""
    table: dict[str, dict[float, list[float]]] = {}
    for row in rows:
        cell = row["cell"]
        epsilon = float("nan") if cell["epsilon"] is None else cell["epsilon"]
        table.setdefault(cell["method"], {}).setdefault(epsilon, []).append(row["excess"])
    return table


def place_of(method: str) -> int:
    """Where a method stands in a legend, whatever the order of rows."""
    names = list(STYLES)
    name = method.split(", T=")[0]
    return names.index(name) if name in names else len(names)


def cost_over_epsilon(figure: Figure, rows: list[Row]) -> None:
    """Medians as lines, the range from best to worst run as a band; what is not private as a level.

    Runs may beat the optimum, which is but the best that was found: they are drawn at the bottom.
    """
    told = [
        r for r in rows if r["accuracy"] is not None and METHODS[r["cell"]["method"]].reader == "everybody"
    ]
    told = [r for r in told if r["cell"]["epsilon"] is not None and r["cell"]["unit"] == "data point"]
    axes, other = figure.subplots(1, 2) if told else (figure.subplots(), None)
    if other is not None:
        figure.set_size_inches(12, 6.5)
        labels_over_epsilon(other, told)
    table = by_epsilon(rows)
    above = [m for found in table.values() for v in found.values() if (m := float(np.median(v))) > 0]
    bottom = 0.5 * min(above, default=1.0)
    for method, found in sorted(table.items(), key=lambda item: place_of(item[0])):
        color, marker = STYLES.get(method.split(", T=")[0], ("tab:gray", "o"))
        epsilons = sorted(e for e in found if not math.isnan(e))
        if not epsilons:
            level = float(np.median([v for values in found.values() for v in values]))
            if level > 0:  # the optimum's own excess is no point of a logarithmic axis
                axes.axhline(level, color=color, linestyle=":", label=f"{method} (not private)")
            continue
        # More than one step of Lloyd's heuristic, or iteration, is dashed.
        style = "--" if ", T=" in method and not method.endswith("T=1") else "-"
        start = " (start not private)" if method.startswith(("k-FED", "Optimal")) else ""
        medians, low, high = (
            np.maximum(bottom, [edge(found[e]) for e in epsilons]) for edge in (np.median, min, max)
        )
        axes.plot(epsilons, medians, style, color=color, marker=marker, label=method + start)
        axes.fill_between(epsilons, low, high, color=color, alpha=0.15, linewidth=0)
    over_epsilons(axes, sorted({r["cell"]["epsilon"] for r in rows} - {None}))
    decades(axes, "y")
    below = any(row["cell"]["epsilon"] is not None and row["excess"] < bottom for row in rows)
    least = f"\n(lowest marks: {bottom:.2g} or less)" if below else ""
    axes.set_ylabel("excess cost per point over the optimum" + least)
    finish(axes, rows, below=other is not None)


def labels_over_epsilon(axes: Any, rows: list[Row]) -> None:
    """Labels that everybody sees and that are right, in %; shaded is what no release of them reaches."""
    k = rows[0]["cell"]["k"]
    epsilons = sorted({r["cell"]["epsilon"] for r in rows})
    every = np.geomspace(epsilons[0], max(epsilons[-1], 2 * epsilons[0]), 400)
    bound = [100 * most_right(e, k) for e in every]
    axes.plot(every, bound, color="black", label="at most, one row replaced")
    axes.fill_between(every, bound, 100, color="gray", alpha=0.15, linewidth=0)
    for method in dict.fromkeys(r["cell"]["method"] for r in rows):
        color, marker = STYLES.get(method.split(", T=")[0], ("tab:gray", "o"))
        by: dict[float, list[float]] = {}
        for row in rows:
            if row["cell"]["method"] == method:
                by.setdefault(row["cell"]["epsilon"], []).append(100 * row["accuracy"])
        there = sorted(by)
        axes.plot(there, [float(np.median(by[e])) for e in there], color=color, marker=marker, label=method)
    axes.axhline(100 / k, color="gray", linestyle=":", label="by chance")
    over_epsilons(axes, epsilons)
    axes.set_ylim(0, 102)
    axes.set_ylabel("right labels that everybody sees, %")
    axes.set_title("labels released", fontsize="medium")
    axes.grid(True, alpha=0.3)
    axes.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)


def over_epsilons(axes: Any, epsilons: list[float]) -> None:
    """A logarithmic axis with a tick at every epsilon that was measured."""
    axes.set_xscale("log")
    axes.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
    axes.minorticks_off()
    axes.set_xlabel("total epsilon, delta = 1e-6")


def decades(axes: Any, name: str) -> None:
    """A logarithmic axis of plain numbers, finer ones where it is short."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axes.set(**{f"{name}scale": "log"})
    axis = getattr(axes, f"{name}axis")
    low, high = axis.get_data_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if 0 < high < 1000 * low else (1,)))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def finish(axes: Any, rows: list[Row], *, below: bool = False) -> None:
    """Title, grid, and a legend beside the lines or below, where it hides none."""
    axes.set_title(title_of(rows[0]["cell"]), fontsize="medium")
    axes.grid(True, which="both", alpha=0.3)
    if below:
        axes.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
    else:
        axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.01, 1))


def ladder(figure: Figure, rows: list[Row]) -> None:
    """A line a variant, a color an epsilon: the median excess cost as a dot, all runs as a bar."""
    axes = figure.subplots()
    table = by_epsilon(rows)
    epsilons = sorted({e for found in table.values() for e in found})
    for i, epsilon in enumerate(epsilons):
        at = [(j + 0.15 * (i - (len(epsilons) - 1) / 2), f[epsilon]) for j, f in enumerate(table.values())
              if epsilon in f]  # fmt: skip
        (dots,) = axes.plot(
            [float(np.median(v)) for _, v in at], [y for y, _ in at], "o", label=f"epsilon = {epsilon:g}"
        )
        axes.hlines([y for y, _ in at], [min(v) for _, v in at], [max(v) for _, v in at], dots.get_color())
    axes.set_yticks(range(len(table)), [m.removeprefix("ablation ") for m in table], fontsize="small")
    axes.invert_yaxis()
    decades(axes, "x")
    axes.set_xlabel("excess cost per point over the optimum: median, best to worst")
    finish(axes, rows)


def pareto(figure: Figure, rows: list[Row]) -> None:
    """Every split as a dot, the best of them as a line, and the split that was chosen beforehand."""
    axes = figure.subplots()
    table = by_epsilon(rows)
    fixed = table.pop("ours", {})
    epsilons = sorted({e for found in table.values() for e in found})
    for method, found in table.items():
        marker = "x" if method.endswith("T=1") else "o"
        axes.plot(
            sorted(found), [float(np.median(found[e])) for e in sorted(found)], marker, color="tab:gray"
        )
    best = [min(float(np.median(f[e])) for f in table.values() if e in f) for e in epsilons]
    axes.plot(epsilons, best, "-", color="tab:red", label="best split of those shown (choice not charged)")
    axes.plot([], [], "o", color="tab:gray", label="splits, T = 0")
    axes.plot([], [], "x", color="tab:gray", label="splits, T = 1")
    if fixed:
        there = [e for e in epsilons if e in fixed]
        medians = [float(np.median(fixed[e])) for e in there]
        axes.plot(there, medians, "-", color="tab:blue", marker="s", label="split fixed beforehand")
    over_epsilons(axes, epsilons)
    decades(axes, "y")
    axes.set_ylabel("median excess cost per point")
    finish(axes, rows)
