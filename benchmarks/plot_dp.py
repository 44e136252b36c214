"""Pictures of the rows of `benchmarks.dp`, as Figures 1 to 9 of the FedDP-KMeans paper: cost over epsilon."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.common import Row

Figure = Any

COLORS = {
    "ours": "tab:blue", "paper": "tab:orange", "ours, noise in shares": "tab:cyan",
    "ServerKMeans++": "tab:green", "ServerLloyds": "tab:olive", "SpherePacking": "tab:red",
    "k-FED": "tab:purple",
}  # fmt: skip


def figures(rows: list[Row]) -> Iterator[tuple[str, Callable[[Figure], None]]]:
    """The name of every picture that the rows allow, and the function that draws it."""
    members = [r for r in rows if r["cell"].get("script") == "dp"]
    settings = {name_of(r["cell"]): r["cell"] for r in members}
    for name in sorted(settings):
        part = [r for r in members if name_of(r["cell"]) == name]
        usual = [r for r in part if not r["cell"]["method"].startswith(("ablation", "split"))]
        if usual:
            yield f"dp-{name}", lambda figure, n=name, p=usual: cost_over_epsilon(figure, n, p)
        ablation = [r for r in part if r["cell"]["method"].startswith("ablation")]
        if ablation:
            yield f"dp-ablation-{name}", lambda figure, n=name, p=ablation: ladder(figure, n, p)
        if any(r["cell"]["method"].startswith("split") for r in part):
            splits = [r for r in part if r["cell"]["method"].startswith(("split", "ours"))]
            yield f"dp-pareto-{name}", lambda figure, n=name, p=splits: pareto(figure, n, p)


def name_of(cell: Row) -> str:
    """A setting in words that a file name holds."""
    which = cell["chosen"] or str(cell["clients"])
    return f"{cell['setting']}-{which}".replace(",", "-")


def by_epsilon(rows: list[Row]) -> dict[str, dict[float, list[float]]]:
    """Excess costs by method and epsilon; without privacy, epsilon is NaN."""
    table: dict[str, dict[float, list[float]]] = {}
    for row in rows:
        cell = row["cell"]
        epsilon = float("nan") if cell["epsilon"] is None else cell["epsilon"]
        table.setdefault(cell["method"], {}).setdefault(epsilon, []).append(row["excess"])
    return table


def cost_over_epsilon(figure: Figure, name: str, rows: list[Row]) -> None:
    """Medians as lines, the range from best to worst run as a band; k-FED as a level."""
    axes = figure.subplots()
    for method, found in by_epsilon(rows).items():
        color = COLORS.get(method.split(", T=")[0], "tab:gray")
        if method == "k-FED":
            level = float(np.median([v for values in found.values() for v in values]))
            axes.axhline(level, color=color, linestyle=":", label="k-FED (not private)")
            continue
        epsilons = sorted(found)
        style = "--" if method.endswith("T=3") else "-"
        medians = [float(np.median(found[e])) for e in epsilons]
        axes.plot(epsilons, medians, style, color=color, marker="o", label=method)
        low, high = ([edge(found[e]) for e in epsilons] for edge in (min, max))
        axes.fill_between(epsilons, low, high, color=color, alpha=0.15, linewidth=0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("total epsilon, delta = 1e-6")
    axes.set_ylabel("excess cost per point over the optimum")
    axes.set_title(name)
    axes.legend(fontsize="small")
    axes.grid(True, which="both", alpha=0.3)


def ladder(figure: Figure, name: str, rows: list[Row]) -> None:
    """One bar a variant and epsilon: the median excess cost."""
    axes = figure.subplots()
    table = by_epsilon(rows)
    epsilons = sorted({e for found in table.values() for e in found})
    height = 0.8 / len(epsilons)
    for i, epsilon in enumerate(epsilons):
        at = [j + i * height for j in range(len(table))]
        values = [float(np.median(found.get(epsilon, [float("nan")]))) for found in table.values()]
        axes.barh(at, values, height, label=f"epsilon = {epsilon:g}")
    axes.set_yticks([j + 0.4 - height / 2 for j in range(len(table))])
    axes.set_yticklabels([method.removeprefix("ablation ") for method in table], fontsize="small")
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("median excess cost per point")
    axes.set_title(name)
    axes.legend(fontsize="small")
    axes.grid(True, axis="x", which="both", alpha=0.3)


def pareto(figure: Figure, name: str, rows: list[Row]) -> None:
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
        medians = [float(np.median(fixed[e])) for e in sorted(fixed)]
        axes.plot(sorted(fixed), medians, "-", color="tab:blue", marker="s", label="split fixed beforehand")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("total epsilon, delta = 1e-6")
    axes.set_ylabel("median excess cost per point")
    axes.set_title(name)
    axes.legend(fontsize="small")
    axes.grid(True, which="both", alpha=0.3)
