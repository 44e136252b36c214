"""Pictures of reports, for who has matplotlib."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secfc.lloyd.elbow import Curve

Array = NDArray[Any]


def plot_curve(curve: Curve) -> Any:
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
