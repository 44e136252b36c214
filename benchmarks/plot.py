"""Pictures of the rows of the other scripts: one picture a figure, log-log where there is a grid.

    python -m benchmarks.plot runtime.jsonl kernels.jsonl scale.jsonl accuracy.jsonl --folder pictures

Reads rows and computes nothing: every number drawn stands in a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from benchmarks import plot_dp
from benchmarks.common import Row, read_rows, require

Figure = Any

# Row key, label, color and marker of the lines over one parameter.
LINES = (
    ("client_ms", "SecFC, {policy}, a client, per iteration", "tab:blue", "o"),
    ("server_ms", "SecFC, {policy}, the server, per iteration", "tab:red", "s"),
    ("default_slowest_client_ms", "SecFC, {default_policy}, the slowest client, per iteration", "navy", "P"),
    ("default_server_ms", "SecFC, {default_policy}, the server, per iteration", "darkred", "X"),
    ("wire_ms", "SecFC, wire, per iteration (computed)", "tab:gray", "d"),
    ("sharing_ms", "SecFC, a client, sharing, once", "tab:cyan", "^"),
    ("kfed_ms", "k-FED, a client and the server, once", "tab:green", "v"),
)
PARAMETERS = {
    "n": "clients n",
    "d": "features d",
    "m": "points m",
    "k": "clusters k",
    "ell": "segments ell",
    "t": "colluding clients tolerated t",
}
RATIOS = (("scikit-learn f64", "tab:blue"), ("scikit-learn f32", "tab:orange"))


def figures(rows: list[Row]) -> Iterator[tuple[str, Callable[[Figure], None]]]:
    """The name of every picture that the rows allow, and the function that draws it."""
    for name in PARAMETERS:
        members = [r for r in rows if r["cell"].get("vary") == name]
        if members:
            yield f"time-over-{name}", lambda figure, n=name, r=members: over(figure, n, r)
    for ell in sorted({r["cell"]["ell"] for r in rows if r["cell"].get("work") == "client"}):
        members = [r for r in rows if r["cell"].get("work") == "client" and r["cell"]["ell"] == ell]
        yield f"ratio-ell-{ell}", lambda figure, e=ell, r=members: ratios(figure, e, r)
    for cell in {str(r["cell"]): r["cell"] for r in rows if "work" in r["cell"]}.values():
        members = [r for r in rows if r["cell"] == cell]
        name = "-".join(f"{key}{value}" for key, value in cell.items() if key not in ("work", "d"))
        if cell["work"] in ("encode", "decode"):
            yield f"{cell['work']}-{name}", lambda figure, c=cell, r=members: rates(figure, c, r)
    members = [r for r in rows if r["cell"].get("script") == "scale"]
    if members:
        yield "scale", lambda figure, r=members: scale(figure, r)
    if len({r["cell"]["m"] for r in members}) > 1:
        yield "scale-over-m", lambda figure, r=members: curves(figure, r)
    members = [r for r in rows if r["cell"].get("script") == "resilience"]
    for work, n, lanes in sorted({(r["work"], r["cell"]["n"], r["cell"]["lanes"]) for r in members}):
        part = [r for r in members if (r["work"], r["cell"]["n"], r["cell"]["lanes"]) == (work, n, lanes)]
        yield f"resilience-{work}-n{n}-lanes{lanes}", lambda figure, r=part: resilience(figure, r)
    members = [r for r in rows if r["cell"].get("script") == "quality"]
    if members:
        yield "quality", lambda figure, r=members: quality(figure, r)
    yield from plot_dp.figures(rows)
    members = [r for r in rows if "accuracy" in r and "table" in r["cell"]]
    for table in sorted({r["cell"]["table"] for r in members}):
        part = [r for r in members if r["cell"]["table"] == table]
        yield f"accuracy-table-{table}", lambda figure, t=table, r=part: accuracy(figure, t, r)


def over(figure: Figure, name: str, rows: list[Row]) -> None:
    """Times over one parameter, log-log."""
    axes = figure.subplots()
    rows = sorted(rows, key=lambda r: r["cell"][name])
    values = [r["cell"][name] for r in rows]
    for key, label, color, marker in LINES:
        if all(key in r for r in rows):
            named = label.format(
                policy=rows[0].get("policy", ""), default_policy=rows[0].get("default_policy")
            )
            axes.plot(values, [r[key] for r in rows], marker=marker, color=color, label=named)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(values, [str(v) for v in values])
    axes.minorticks_off()
    axes.set_xlabel(PARAMETERS[name])
    axes.set_ylabel("milliseconds")
    axes.grid(alpha=0.3)
    fixed = {key: v for key, v in rows[0]["cell"].items() if key not in ("vary", name)}
    if name == "n":
        fixed["t"] = "ceil(n/3)"
    axes.set_title(", ".join(f"{key}={v}" for key, v in fixed.items()), fontsize="medium")
    figure.legend(loc="outside lower center", ncols=2, fontsize="small")


def ratios(figure: Figure, ell: int, rows: list[Row]) -> None:
    """A client's iteration over scikit-learn's, a pair of bars a cell."""
    axes = figure.subplots()
    cells = list({str(r["cell"]): r["cell"] for r in rows}.values())
    height = 0.8 / len(RATIOS)
    for i, (who, color) in enumerate(RATIOS):
        found = {str(r["cell"]): r["ratio"] for r in rows if r["who"] == who}
        places = [y + i * height for y in range(len(cells))]
        bars = axes.barh(places, [found[str(c)] for c in cells], height, color=color, label=f"over {who}")
        axes.bar_label(bars, fmt="%.2f", padding=2, fontsize="small")
    axes.axvline(1, color="black", linewidth=1)
    axes.set_yticks(
        [y + (len(RATIOS) - 1) * height / 2 for y in range(len(cells))],
        [f"m={c['m']}, d={c['d']}, k={c['k']}" for c in cells],
    )
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_xlabel("processor time, coded client iteration / plain Lloyd iteration")
    axes.set_title(f"ell={ell}, one thread", fontsize="medium")
    figure.legend(loc="outside lower center", ncols=2, fontsize="small")


def rates(figure: Figure, cell: Row, rows: list[Row]) -> None:
    """Rates of all ways to encode or decode, logarithmic bars."""
    axes = figure.subplots()
    rows = sorted(rows, key=lambda r: -r["rate"])
    colors = ["tab:blue" if r["who"].startswith("SecFC") else "tab:gray" for r in rows]
    bars = axes.barh([r["who"] for r in rows], [r["rate"] for r in rows], color=colors)
    notes = [f"{r['rate']:.3g}" + (f"  {r['exact']}" if "NO" in r["exact"] else "") for r in rows]
    axes.bar_label(bars, notes, padding=3, fontsize="small")
    axes.set_xscale("log")
    axes.margins(x=0.2)
    axes.invert_yaxis()
    things = "numbers of the data" if cell["work"] == "encode" else "distances"
    axes.set_xlabel(f"million {things} a second and core")
    title = ", ".join(f"{key}={value}" for key, value in cell.items() if key != "work")
    axes.set_title(f"{cell['work']}, {title}", fontsize="medium")


def scale(figure: Figure, rows: list[Row]) -> None:
    """Seconds of the parts of a large run, a group of bars a setting."""
    axes = figure.subplots()
    parts = {
        "sharing_s": "sharing, all clients",
        "first_iteration_s": "first iteration, all parties",
        "iteration_s": "a later iteration, all parties",
    }
    for i, row in enumerate(rows):
        places = [p + 0.8 * i / len(rows) for p in range(len(parts))]
        label = ", ".join(f"{key}={row['cell'][key]}" for key in ("m", "d", "k", "n", "ell", "threads"))
        label += f", {row.get('policy', '')}"
        bars = axes.barh(
            places,
            [row[key] for key in parts],
            0.8 / len(rows),
            label=f"{label}: peak {row['peak_gib']:.1f} GiB",
        )
        axes.bar_label(bars, fmt="%.3g", padding=2, fontsize="small")
    axes.set_yticks([p + 0.4 * (len(rows) - 1) / len(rows) for p in range(len(parts))], parts.values())
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_xlabel("seconds, one process")
    figure.legend(loc="outside lower center", fontsize="small")


def curves(figure: Figure, rows: list[Row]) -> None:
    """What a step of large runs takes over their points, log-log, a line a policy and kind of centers."""
    from matplotlib.ticker import LogLocator

    parts = {
        "step_cpu_s": "processor seconds a step, all parties",
        "step_mb": "megabytes that a step sends (dotted: the last one)",
        "peak_gib": "peak memory of all parties, GiB",
        "step_rounds": "rounds a step",
    }
    lines: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda r: r["cell"]["m"]):
        label = f"{row['policy'].split('(')[0]}, {row['cell']['centers']} centers"
        lines.setdefault(label, []).append(row)
    panels = figure.subplots(2, 2, sharex=True).flat
    for axes, (key, title) in zip(panels, parts.items(), strict=True):
        for (label, members), marker in zip(lines.items(), "osD^v", strict=False):
            points = [r["cell"]["m"] for r in members]
            (drawn,) = axes.plot(points, [r[key] for r in members], marker=marker, label=label)
            if key == "step_mb":
                axes.plot(points, [r["late_mb"] for r in members], ":", color=drawn.get_color())
        axes.set(xscale="log", yscale="log")
        axes.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:g}")
        axes.set_title(title, fontsize="medium")
        axes.grid(visible=True, which="major", alpha=0.3)
    for axes in figure.axes[2:]:
        axes.set_xlabel("points m")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize="small")


def resilience(figure: Figure, rows: list[Row]) -> None:
    """What each way costs over the plain one, a group of bars a size; a dashed line at a target."""
    axes = figure.subplots()
    # Decoding does not depend on d.
    names = ("m", "k") if rows[0]["work"] == "decode" else ("m", "d", "k")
    sizes = list(dict.fromkeys(tuple(r["cell"][name] for name in names) for r in rows))
    ways = [who for who in dict.fromkeys(r["who"] for r in rows) if who != "plain"]
    height = 0.8 / len(ways)
    for i, who in enumerate(ways):
        found = {tuple(r["cell"][name] for name in names): r for r in reversed(rows) if r["who"] == who}
        places = [y + i * height for y in range(len(sizes))]
        bars = axes.barh(places, [found[size]["ratio"] for size in sizes], height, label=who)
        axes.bar_label(bars, fmt="%.2f", padding=2, fontsize="small")
    for target in {r["target"] for r in rows if r["target"]}:
        axes.axvline(target, color="black", linewidth=1, linestyle="--")
    axes.axvline(1, color="black", linewidth=1)
    axes.set_yticks(
        [y + (len(ways) - 1) * height / 2 for y in range(len(sizes))],
        [", ".join(f"{name}={v}" for name, v in zip(names, size, strict=True)) for size in sizes],
    )
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_xlabel(f"processor time over the plain {rows[0]['work']}, one thread")
    fixed = {key: rows[0]["cell"][key] for key in ("n", "ell", "t", "lanes")}
    counts = f"S={rows[0]['cell']['silent']}, A={rows[0]['cell']['corrected']}"
    axes.set_title(", ".join(f"{key}={v}" for key, v in fixed.items()) + f", {counts}", fontsize="medium")
    figure.legend(loc="outside lower center", ncols=2, fontsize="small")


def quality(figure: Figure, rows: list[Row]) -> None:
    """Excess cost of every start over the reference, a line of dots a data set, worst on top."""
    axes = figure.subplots()
    whos = list(dict.fromkeys(r["who"] for r in rows))
    named = {(r["cell"]["data"], r["cell"]["k"]): 0.0 for r in rows}
    for r in rows:
        key = r["cell"]["data"], r["cell"]["k"]
        named[key] = max(named[key], r["ratio"])
    order = sorted(named, key=lambda key: named[key])
    for i, who in enumerate(whos):
        members = [r for r in rows if r["who"] == who]
        places = [order.index((r["cell"]["data"], r["cell"]["k"])) for r in members]
        # Below the reference or equal to it: at the left edge.
        excess = [max(100 * (r["ratio"] - 1), 1e-2) for r in members]
        axes.plot(excess, places, "o^svDPX"[i % 7], color=f"C{i}", alpha=0.7, label=who)
    axes.set_xscale("log")
    axes.set_yticks(range(len(order)), [f"{data}, k={k}" for data, k in order], fontsize="x-small")
    axes.set_xlabel("cost above the best of many runs of scikit-learn, percent (median of seeds)")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=3, fontsize="small")


def accuracy(figure: Figure, table: int, rows: list[Row]) -> None:
    """One dot a run, algorithm and setting."""
    axes = figure.subplots()
    algorithms = {"Lloyd": "tab:gray", "SecFC": "tab:blue", "k-FED": "tab:green"}
    settings = sorted({(r["cell"]["k"], r["cell"]["k'"], r["cell"].get("digit", 0)) for r in rows})
    for i, (name, color) in enumerate(algorithms.items()):
        members = [r for r in rows if r["algorithm"] == name]
        where = [(r["cell"]["k"], r["cell"]["k'"], r["cell"].get("digit", 0)) for r in members]
        places = [settings.index(w) + 0.2 * (i - 1) for w in where]
        axes.plot(places, [r["accuracy"] for r in members], "o", color=color, alpha=0.6, label=name)
    names = [f"k={k}\nk'={kk}" + (f"\ndigit {digit}" if digit else "") for k, kk, digit in settings]
    axes.set_xticks(range(len(settings)), names)
    axes.set_ylabel("accuracy (share of points)")
    axes.set_ylim(0, 1.05)
    axes.grid(alpha=0.3, axis="y")
    axes.set_title(f"Table {table}, one dot a run", fontsize="medium")
    figure.legend(loc="outside lower center", ncols=3, fontsize="small")


def draw(rows: list[Row], folder: Path) -> list[Path]:
    """Write every picture that the rows allow."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, paint in figures(rows):
        wide = name.startswith(("ratio", "encode", "decode", "scale", "resilience", "quality"))
        height = 9 if name == "quality" else 5
        width = 10 if name.startswith("dp") else 8 if wide else 6.4
        paths.append(folder / f"{name}.png")
        write(paint, paths[-1], width, height)
    return paths


def write(paint: Callable[[Figure], None], path: Path, width: float = 8, height: float = 5) -> None:
    """Write one picture, in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    figure = Canvas(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    paint(figure)
    figure.savefig(path, dpi=120)


@click.command(help=__doc__.split("\n")[0])
@click.argument(
    "files", type=click.Path(exists=True, dir_okay=False, path_type=Path), nargs=-1, required=True
)
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), default=Path("pictures"),
              show_default=True, help="Where the PNG files go.")  # fmt: skip
def main(files: tuple[Path, ...], folder: Path) -> None:
    """Draw the rows of all files."""
    require("matplotlib", "matplotlib", "plot")
    rows = [row for file in files for row in read_rows(file)]
    for path in draw(rows, folder):
        click.echo(path)


if __name__ == "__main__":
    main()
