"""Rows in a file, one JSON object a line, so that whatever is interrupted goes on where it was."""

from __future__ import annotations

import csv
import difflib
import importlib
import io
import itertools
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from secfc.data.inputs import names_listed
from secfc.errors import InputError
from secfc.report.terminal import measured_number

Row = dict[str, Any]


class ResultFile:
    """The rows of a file that were measured by this code.

    code: what identifies it (a version, a commit), None if nothing does: then no row is taken over.
    A row counts if its `cell` and its `code` are equal; whatever else is in the file stays there.  dropped:
    whether the file ended in half a line, which a crash left: it is taken away when a row is added.

    Raises ValueError for a file that holds anything else; OSError.
    """

    def __init__(self, path: Path | None, code: str | None) -> None:
        self.path, self.code, self.dropped = path, code, False
        self._whole = 0
        self._rows: list[Row] = []
        self._ended = True  # the last line
        if path is not None and path.exists():
            self._read(path)

    def __repr__(self) -> str:
        return f"Kept({self.path}, {len(self._rows)} rows)"

    def _read(self, path: Path) -> None:
        data = path.read_bytes()
        lines = data.split(b"\n")
        self._whole, last = len(data) - len(lines[-1]), lines.pop()
        if last.strip():
            # Half a row after whole ones is dropped; whatever else it is belongs to somebody.
            self.dropped = len(lines) > 0 and last.startswith(b'{"') and not is_whole(last)
            lines += [] if self.dropped else [last]
            self._ended = self.dropped
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            row = json.loads(line) if is_whole(line) else None
            if not isinstance(row, dict) or (self.code is not None and "cell" not in row):
                advice = (
                    "another file: rows are added to it" if self.code else "what `secfc grid --out` wrote"
                )
                raise InputError(f"{path}, line {number}: no row of a grid. Name {advice}")
            self._rows.append(row)

    def rows_of(self, cell: object) -> list[Row]:
        """The rows of a cell, of this code."""
        same = [row for row in self._rows if row.get("cell") == cell and row.get("code") == self.code]
        return [] if self.code is None else same

    def successes(self, cell: str) -> list[Row]:
        """The rows of a cell that did not fail, of this code."""
        return [row for row in self.rows_of(cell) if row.get("status") == "ok"]

    def add(self, rows: Sequence[Row]) -> None:
        """All rows of one cell, together: a cell is in the file whole or not at all.  Raises OSError."""
        if self.path is None:
            return
        text = "".join(json.dumps(row) + "\n" for row in rows).encode()
        with self.path.open("r+b" if self.path.exists() else "w+b") as file:
            if self.dropped:
                file.truncate(self._whole)
                self.dropped = False
            file.seek(0, os.SEEK_END)
            file.write(text if self._ended else b"\n" + text)
            self._ended = True
            file.flush()
            os.fsync(file.fileno())


def is_whole(line: bytes) -> bool:
    """Whether this is a whole JSON value."""
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def read_whole_rows(path: Path) -> list[Row]:
    """All whole rows of a file.  Raises ValueError, OSError."""
    path.stat()
    return ResultFile(path, None)._rows


def plottable_columns(rows: Iterable[Row]) -> list[str]:
    """Names of columns that hold numbers or words, in the order of their first rows."""
    found: dict[str, None] = {}
    for row in rows:
        found |= dict.fromkeys(
            name for name, value in row.items() if isinstance(value, str | int | float | bool)
        )
    return list(found)


# --------------------------------------------------------------------------------------------------
# Rows of a grid as a picture: one figure over one parameter, a line for each value of another.


# What stands along the axes, with units.
LABELS = {
    "n": "clients n", "m": "points m", "d": "features d", "k": "clusters k", "ell": "segments ell",
    "t": "clients t that may collude", "sigma": "standard deviation of clusters",
    "clusters_per_client": "clusters of each client", "n_iter": "iterations",
    "fit_ms": "time of a run, all parties [ms]", "fit_cpu_ms": "processor time of a run, all parties [ms]",
    "ms_per_step": "time a step, all parties [ms]", "client_ms_per_step": "time a step, each client [ms]",
    "slowest_client_ms_per_step": "time a step, slowest client [ms]",
    "server_ms_per_step": "time a step, server [ms]", "bytes": "traffic of a run [bytes]",
    "bytes_per_step": "traffic a step [bytes]", "cost": "cost [squared distances to means]",
    "accuracy": "accuracy [share of points]", "messages": "messages of a run", "n_init": "restarts n_init",
    "steps": "steps of a run, with those of the start", "scale": "scale [integers a data unit]",
    "cores": "processor cores", "epsilon_spent": "epsilon spent", "init": "start",
}  # fmt: skip


def plot(
    rows: Sequence[Row],
    x: str,
    y: str,
    hue: str | None = None,
    row: str | None = None,
    column: str | None = None,
    log: str | None = None,
) -> Any:
    """A matplotlib Figure: the median of y over x, and its quartiles where there are several.

    hue: a line for each of its values.  row, column: a panel for each, one below or beside the other, on the
    same axes.  Rows that failed are left out.  log: which axes are logarithmic, a word of `LOG_AXES`; None
    for those whose positive values span more than a factor of 30.

    Raises InputError for a column that no row has, or that holds no numbers, where rows of one place differ
    in more than their seed, for more than `MOST_PANELS`, and for a logarithmic axis of values that are not
    all above 0; ImportError without matplotlib.
    """
    usable = drawable_rows(rows, x, y, hue, row, column)
    check_like_rows(usable, [x, *filter(None, [hue, row, column])])
    hues, down, across = (values_in(usable, name) for name in (hue, row, column))
    figures: Any = importlib.import_module("matplotlib.figure")
    size = (max(6.4, 3.2 * len(across)), max(4.2, 2.8 * len(down)))
    figure = figures.Figure(figsize=size, layout="constrained")
    panels = empty_panels(figure, (row, down), (column, across))
    places = sorted({one[x] for one in usable if x in one}, key=lambda v: (str(type(v)), v))
    words = not all(isinstance(place, int | float) for place in places)
    for (i, below), (j, beside) in itertools.product(enumerate(down), enumerate(across)):
        here = select_rows(select_rows(usable, row, below), column, beside)
        for value in hues:
            mine = quartiles_by_place(select_rows(here, hue, value), x, y)
            draw_medians(panels[i, j], mine, places, None if hue is None else str(value), words)
    values = [float(one[y]) for one in usable if y in one]
    set_scales(
        panels[0, 0], places, values, log_axes(log, (x, y), (None if words else places, values)), words
    )
    for axes in panels[-1]:
        axes.set_xlabel(LABELS.get(x, x))
    for axes in panels[:, 0]:
        axes.set_ylabel(LABELS.get(y, y))
    if hue is not None:
        panels[0, 0].legend(title=LABELS.get(hue, hue), frameon=False)
    return figure


def empty_panels(
    figure: Any, down: tuple[str | None, list[Any]], across: tuple[str | None, list[Any]]
) -> Any:
    """Axes (rows, columns), each with the values that it is of above it.  Raises InputError for too many."""
    (row, below), (column, beside) = down, across
    if len(below) * len(beside) > MOST_PANELS:
        count = f"{len(below)} x {len(beside)} panels"
        raise InputError(f"{count}, and {MOST_PANELS} can be read: keep fewer by --where")
    panels = figure.subplots(len(below), len(beside), squeeze=False, sharex=True, sharey=True)
    for axes, values in zip(panels.flat, itertools.product(below, beside), strict=True):
        said = [
            f"{LABELS.get(n, n)}: {v}" for n, v in zip((row, column), values, strict=True) if n is not None
        ]
        axes.set_title(", ".join(said), fontsize="medium")
        axes.grid(alpha=0.3)
    return panels


def values_in(rows: Sequence[Row], name: str | None) -> list[Any]:
    """What a column holds, in the order of rows; one None without a column."""
    return list(dict.fromkeys(row.get(name) if name else None for row in rows))


def select_rows(rows: Sequence[Row], name: str | None, value: Any) -> list[Row]:
    """Rows of which a column has this value; all without a column."""
    return [row for row in rows if not name or row.get(name) == value]


LOG_AXES = {"x": (True, False), "y": (False, True), "both": (True, True), "neither": (False, False)}
MOST_PANELS = 24
MOST_TICKS = 6  # of places along a logarithmic axis
REPEATED = ("seed", "repeat")  # over which medians are taken


def check_like_rows(rows: Sequence[Row], shown: Sequence[str]) -> None:
    """Raise InputError where rows of one place differ in more than their seed, as no median is of such."""
    places: dict[tuple[str, ...], dict[str, set[str]]] = {}
    for row in rows:
        cell = json.loads(row["cell"]) if "cell" in row else {}
        place = places.setdefault(tuple(str(row.get(name)) for name in shown), {})
        for name, value in cell.items():
            place.setdefault(name, set()).add(json.dumps(value))
    mixed = sorted({
        name for place in places.values() for name, values in place.items()
        if len(values) > 1 and name not in (*REPEATED, *shown)
    })  # fmt: skip
    if mixed:
        values = sorted({v for place in places.values() for v in place.get(mixed[0], ())})
        raise InputError(
            f"{names_listed(mixed)}: rows of one place differ in it, and a median would be of unlike runs. "
            "Name one as --hue, --row or --col, or keep one value by --where "
            f"{mixed[0]}={json.loads(values[0])}"
        )


def chosen_rows(rows: Sequence[Row], where: Mapping[str, str]) -> list[Row]:
    """Rows that have these values, as they are written.  Raises InputError where none has."""
    for name, value in where.items():
        known = sorted({str(row[name]) for row in rows if name in row})
        if rows and not known:
            check_columns([name], sorted({column for row in rows for column in row}))
        rows = [row for row in rows if str(row.get(name)) == value]
        if not rows:
            raise InputError(f"--where {name}={value}: no row has it. Give one of {', '.join(known[:12])}")
    return list(rows)


def pivot_table(
    rows: Sequence[Row], row: str, column: str | None, value: str, *, plain: bool = False
) -> tuple[list[str], list[list[str]]]:
    """Names of columns, and lines: medians of a value by one parameter, or two, with quartiles over seeds.

    plain: numbers and names of columns alone, for programs; else heads have units, and the first cell says
    of what the medians are where another parameter stands across.  Raises InputError, as `plot`.
    """
    usable = drawable_rows(rows, row, value, column)
    check_like_rows(usable, [row, *filter(None, [column])])
    across = list(dict.fromkeys(one.get(column) if column else value for one in usable))
    down = sorted({one[row] for one in usable if row in one}, key=lambda v: (str(type(v)), v))
    by = [
        quartiles_by_place([one for one in usable if not column or one.get(column) == c], row, value)
        for c in across
    ]
    heads = [f"{column}={c}" if column else str(c) for c in across]
    lines = [[str(place), *(median_text(each.get(place), plain) for each in by)] for place in down]
    return ([row, *heads] if plain else heads_with_units(row, column, value, heads)), lines


def heads_with_units(row: str, column: str | None, value: str, heads: list[str]) -> list[str]:
    """Heads of a table for people."""
    beside, what = LABELS.get(row, row), LABELS.get(value, value)
    return [beside, what] if column is None else [f"{what}, by {beside}", *heads]


def median_text(quartiles: Any, plain: bool) -> str:
    """The median, with its quartiles where seeds differ; empty where there is none."""
    if quartiles is None:
        return ""
    low, middle, high = map(float, quartiles)
    if plain:
        return repr(middle)
    spread = "" if low == high else f" ({measured_number(low, 3)} to {measured_number(high, 3)})"
    return measured_number(middle) + spread


def format_table(columns: Sequence[str], lines: Sequence[Sequence[str]], kind: str) -> str:
    """A table as LaTeX (booktabs), CSV or Markdown."""
    if kind == "csv":
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([columns, *lines])
        return out.getvalue()
    if kind == "markdown":
        rows = [columns, ["---", *["---:"] * (len(columns) - 1)], *lines]
        return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)
    escape = re.compile(r"([&%$#_{}])")
    body = [" & ".join(escape.sub(r"\\\1", cell) for cell in cells) + r" \\" for cells in (columns, *lines)]
    spec = "l" + "r" * (len(columns) - 1)
    rules = (rf"\begin{{tabular}}{{{spec}}}", r"\toprule", body[0], r"\midrule", *body[1:], r"\bottomrule")
    return "\n".join((*rules, r"\end{tabular}", ""))


def draw_medians(
    axes: Any, quartiles: Mapping[Any, Any], places: Sequence[Any], label: str | None, words: bool
) -> None:
    """A line of medians over the places that have some, with a band of quartiles where there are several."""
    here = [place for place in places if place in quartiles]
    if not here:
        axes.plot([], [], marker="o", markersize=4, label=label)  # so that colors are alike in all panels
        return
    at = [places.index(place) for place in here] if words else here
    low, middle, high = np.array([quartiles[place] for place in here]).T
    (line,) = axes.plot(at, middle, marker="o", markersize=4, label=label)
    if (low < high).any():
        axes.fill_between(at, low, high, alpha=0.15, color=line.get_color(), linewidth=0)


def log_axes(
    log: str | None, names: tuple[str, str], values: tuple[Sequence[float] | None, Sequence[float]]
) -> tuple[bool, bool]:
    """Whether x and y are logarithmic, as asked, or by their values (None for words).  Raises InputError."""
    if log is None:
        across, along = (listed is not None and suits_log_axis(listed) for listed in values)
        return across, along
    for name, listed, asked in zip(names, values, LOG_AXES[log], strict=True):
        if asked and (listed is None or min(listed) <= 0):
            least = "words" if listed is None else f"{min(listed):g}"
            others = " or ".join(
                f"--log {word}" for word, axes in LOG_AXES.items() if not axes[names.index(name)]
            )
            raise InputError(
                f"--log {log}: {name} holds {least}, and its axis takes numbers above 0. Use {others}"
            )
    return LOG_AXES[log]


def set_scales(
    axes: Any, places: Sequence[Any], values: Sequence[float], log: tuple[bool, bool], words: bool
) -> None:
    """Ticks or a scale for x, and a scale for y."""
    if words:
        axes.set_xticks(range(len(places)), [str(place) for place in places])
    elif log[0]:
        axes.set_xscale("log")
        if len(places) <= MOST_TICKS:
            axes.set_xticks(places, [f"{place:,}" for place in places])
            axes.set_xticks([], minor=True)
    elif all(isinstance(place, int) for place in places):
        axes.xaxis.get_major_locator().set_params(integer=True)
    if log[1]:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))


def drawable_rows(rows: Sequence[Row], x: str, y: str, *others: str | None) -> list[Row]:
    """The rows that did not fail.  Raises InputError for a column that they lack, or of y without numbers."""
    usable = [row for row in rows if row.get("status", "ok") == "ok"]
    if not usable:
        raise InputError(
            "no row to draw: all failed, or there is none. Give the command of the grid again, which says why"
        )
    check_columns(filter(None, (x, y, *others)), plottable_columns(usable))
    if twice := [name for name in (x, y) if [x, y, *others].count(name) > 1]:
        raise InputError(f"{twice[0]} has two places: name another column for one of them, or leave one out")
    for row in usable:
        if not isinstance(row.get(y, 0), int | float) or isinstance(row.get(y), bool):
            raise InputError(f"{y} holds {row[y]!r}: name a column of numbers, as ms_per_step")
    return usable


def check_columns(names: Iterable[str], known: Sequence[str]) -> None:
    """Raise InputError for a name that no column has."""
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise InputError(f"{name!r} is no column of these rows: {meant}")


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
