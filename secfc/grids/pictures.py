"""Rows of a grid as a picture: one figure over one parameter, a line for each value of another."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from secfc.data.inputs import InputError
from secfc.grids.rows import Row, plottable_columns


def plot(rows: Sequence[Row], x: str, y: str, hue: str | None = None) -> Any:
    """A matplotlib Figure: the median of y over x, and its quartiles where there are several.

    hue: a line for each of its values.  Rows that failed are left out.  Axes are logarithmic where
    positive values span more than a factor of 30.

    Raises InputError for a column that no row has, or that holds no numbers; ImportError without matplotlib.
    """
    usable = [row for row in rows if row.get("status", "ok") == "ok"]
    if not usable:
        raise InputError("no row to draw: all failed, or there is none")
    known = plottable_columns(usable)
    for name in filter(None, (x, y, hue)):
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            meant = f"did you mean {near[0]}" if near else f"there are {', '.join(known)}"
            raise InputError(f"{name!r} is no column of these rows: {meant}")
    for row in usable:
        if not isinstance(row.get(y, 0), int | float) or isinstance(row.get(y), bool):
            raise InputError(f"{y} holds {row[y]!r}: name a column of numbers, as ms_per_step")
    figures: Any = importlib.import_module("matplotlib.figure")
    figure = figures.Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.add_subplot()
    words = any(not isinstance(row[x], int | float) for row in usable if x in row)
    places = sorted({row[x] for row in usable if x in row}, key=lambda v: (str(type(v)), v))
    for value in dict.fromkeys(row.get(hue) if hue else None for row in usable):
        mine = [row for row in usable if x in row and y in row and (not hue or row.get(hue) == value)]
        here = [place for place in places if any(row[x] == place for row in mine)]
        if not here:
            continue
        values = [[float(row[y]) for row in mine if row[x] == place] for place in here]
        at = [places.index(place) for place in here] if words else here
        low, middle, high = np.array([np.quantile(v, [0.25, 0.5, 0.75]) for v in values]).T
        (line,) = axes.plot(at, middle, marker="o", markersize=4, label=None if hue is None else str(value))
        if any(len(v) > 1 for v in values):
            axes.fill_between(at, low, high, alpha=0.15, color=line.get_color(), linewidth=0)
    if words:
        axes.set_xticks(range(len(places)), [str(place) for place in places])
    elif suits_log_axis([float(place) for place in places]):
        axes.set_xscale("log")
    if suits_log_axis([float(row[y]) for row in usable if y in row]):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    axes.set(xlabel=x, ylabel=y)
    axes.grid(alpha=0.3)
    if hue is not None:
        axes.legend(title=hue, frameon=False)
    return figure


def suits_log_axis(values: Sequence[float]) -> bool:
    """Whether positive values lie so far apart that a logarithmic axis shows them better."""
    return min(values) > 0 and max(values) > 30 * min(values)
