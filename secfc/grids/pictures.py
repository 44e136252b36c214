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
    usable = drawable_rows(rows, x, y, hue)
    figures: Any = importlib.import_module("matplotlib.figure")
    figure = figures.Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.add_subplot()
    places = sorted({row[x] for row in usable if x in row}, key=lambda v: (str(type(v)), v))
    words = not all(isinstance(place, int | float) for place in places)
    for value in dict.fromkeys(row.get(hue) if hue else None for row in usable):
        mine = [row for row in usable if not hue or row.get(hue) == value]
        quartiles = quartiles_by_place(mine, x, y)
        here = [place for place in places if place in quartiles]
        if not here:
            continue
        at = [places.index(place) for place in here] if words else here
        low, middle, high = np.array([quartiles[place] for place in here]).T
        (line,) = axes.plot(at, middle, marker="o", markersize=4, label=None if hue is None else str(value))
        if (low < high).any():
            axes.fill_between(at, low, high, alpha=0.15, color=line.get_color(), linewidth=0)
    set_scales(axes, places, [float(row[y]) for row in usable if y in row], words=words)
    axes.set(xlabel=x, ylabel=y)
    axes.grid(alpha=0.3)
    if hue is not None:
        axes.legend(title=hue, frameon=False)
    return figure


def set_scales(axes: Any, places: Sequence[Any], values: Sequence[float], *, words: bool) -> None:
    """Ticks or a scale for x, and a scale for y."""
    if words:
        axes.set_xticks(range(len(places)), [str(place) for place in places])
    elif suits_log_axis([float(place) for place in places]):
        axes.set_xscale("log")
    if suits_log_axis(values):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))


def drawable_rows(rows: Sequence[Row], x: str, y: str, hue: str | None) -> list[Row]:
    """The rows that did not fail.  Raises InputError for a column that they lack, or of y without numbers."""
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
    return usable


def quartiles_by_place(rows: Sequence[Row], x: str, y: str) -> dict[Any, Any]:
    """Quartiles (3,) of y for every x that has some."""
    values: dict[Any, list[float]] = {}
    for row in rows:
        if x in row and y in row:
            values.setdefault(row[x], []).append(float(row[y]))
    return {place: np.quantile(listed, [0.25, 0.5, 0.75]) for place, listed in values.items()}


def suits_log_axis(values: Sequence[float]) -> bool:
    """Whether positive values lie so far apart that a logarithmic axis shows them better."""
    return min(values) > 0 and max(values) > 30 * min(values)
