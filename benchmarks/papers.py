"""Every table and figure of the sources, run again: docs/papers.md, with theirs, ours and a verdict.

    python -m benchmarks.papers --data FOLDER
    python -m benchmarks.papers --only secfc-table-1
    python -m benchmarks.papers --quick

Rows are added to docs/papers.jsonl as they are measured, and the page and its pictures are made of them
alone, so an interrupted run goes on where it was; `--again` measures anew what is asked for.  FOLDER holds
what may not be shipped; what is not there is named on the page.  `--quick` plays a few small cells of each,
to try the script: its rows and page go to `--out`, never to docs.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks import accuracy, attacks, dp, overlap, rebuilding, runtime
from benchmarks.common import Row, processor, read_rows, require
from benchmarks.dp_methods import METHODS
from benchmarks.exhibits import EXHIBITS, FILES, SILO, Exhibit, Line, medians, values_of
from benchmarks.server_points import load_census, server_side_mixture
from secfc.grids.rows import ResultFile
from secfc.kmeans.elbow import Elbow

DOCS = Path(__file__).parent.parent / "docs"
# What a row keeps of what a script measures.
KEPT = {
    "accuracy": ("algorithm", "accuracy", "n_iter", "equals_plaintext_lloyd"),
    "runtime": ("client_ms", "server_ms", "sharing_ms", "kfed_ms"),
    "dp": ("excess", "optimal_cost", "accuracy", "purity", "adjusted_rand", "fowlkes_mallows"),
    "overlap": ("method", "value", "accuracy", "E1", "E3 distance", "E3 cosine"),
    "rebuilding": ("attack_cosine", "blind_cosine", "attack_error", "blind_error", "trials", "features"),
    "attacks": ("auc", "rate"),
    "radius": ("radius",),
    "elbow": ("k", "clarity"),
    "linkages": ("method", "merged"),
    "starts": ("svd", "bisecting"),
}


def measure(script: str, cell: Row, data: Path | None, file: Path | None) -> Iterator[Row]:
    """The rows of a cell, by the script that has it.  data: the folder; file: the one that is needed."""
    if script == "accuracy":
        yield from accuracy.measure(cell, data)
    elif script == "runtime":
        found = next(iter(runtime.measure(cell, cell["budget"], 1.0, beside=False)))
        yield {name: found[f"least_{name}"] for name in KEPT["runtime"]}
    elif script == "dp":
        yield from dp.measure(cell, cell.get("runs", 2), file)
    elif script == "overlap":
        assert data is not None
        yield from overlap.measure(cell, data)
    elif script == "linkages":
        yield from overlap.linkages()
    elif script == "starts":
        yield from accuracy.measure_starts(cell)
    elif script == "rebuilding":
        yield from rebuilding.measure(cell, file)
    elif script == "attacks":
        yield from attacks.measure(cell)
    elif script == "elbow":
        way = METHODS["ours"]
        asked = {"unit": "data point", "rows": 1000, "k": Elbow(20), "epsilon": cell["epsilon"]}
        played = way.play(asked, dp.problem("silo", cell["clients"], 1000, 10, cell["seed"], None, ""), 0)
        yield {"k": played.details.server.curve.k, "clarity": played.details.server.curve.clarity}
    else:
        points: Any = server_side_mixture(100, 1000, np.random.default_rng(0))[0]
        if cell["of"] != "mixture":
            assert file is not None
            points = load_census(file, cell["of"]).stacked()
        yield {"radius": float(np.sqrt((np.asarray(points, float) ** 2).sum(axis=1)).max())}


def file_of(exhibit: Exhibit, data: Path | None) -> Path | None:
    """The file that an exhibit needs, None if it is not in the folder."""
    found = sorted(data.glob(FILES[exhibit.needs][0])) if data is not None and exhibit.needs else []
    return found[0] if found else None


def run_exhibit(
    exhibit: Exhibit, data: Path | None, kept: ResultFile, known: set[str], *, quick: bool
) -> Iterator[int]:
    """Measure the cells of an exhibit that no row has; yields the number of rows of each."""
    file = file_of(exhibit, data)
    if exhibit.needs and file is None:
        return
    for cell in exhibit.cells(quick):
        key = {"script": exhibit.script, **cell}
        if (text := json.dumps(key, sort_keys=True)) in known:
            continue
        known.add(text)
        began = time.process_time()
        found = list(measure(exhibit.script, cell, data, file))
        when = {
            "seconds": plain(time.process_time() - began),  # of the cell, on each of its rows
            "date": datetime.now(UTC).strftime("%Y-%m-%d"),
            "machine": f"{processor()}, {os.cpu_count()} cores",
        }
        rows = [
            {"cell": key, **{name: plain(row[name]) for name in KEPT[exhibit.script] if name in row}, **when}
            for row in found
        ]
        kept.add(rows)
        yield len(rows)


def plain(value: Any) -> Any:
    """A value in 6 digits, as it is kept."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


# --- the page --------------------------------------------------------------------------------------


def rows_of(exhibit: Exhibit, rows: list[Row], *, quick: bool) -> list[Row]:
    """The rows of the cells of an exhibit."""
    cells = {json.dumps({"script": exhibit.script, **cell}, sort_keys=True) for cell in exhibit.cells(quick)}
    return [row for row in rows if json.dumps(row["cell"], sort_keys=True) in cells]


def verdict_of(exhibit: Exhibit, line: Line, rows: list[Row]) -> tuple[str, str, str]:
    """Ours, the verdict, and why."""
    judged = line.judge(rows) if rows else None
    if judged is not None:
        ours, same = judged
        return ours, "reproduced" if same else "not, because", "" if same else line.why
    if exhibit.needs and not rows:
        pattern, source = FILES[exhibit.needs]
        return "", "not run: data absent", f"`{pattern}`: {source}"
    return (
        "",
        "not run yet",
        line.why if not exhibit.cells(False) else "its runs take long; `--only` runs them",
    )


def write_page(rows: list[Row], *, quick: bool = False) -> str:
    """docs/papers.md of these rows."""
    machines = {name: chr(65 + i) for i, name in enumerate(dict.fromkeys(row["machine"] for row in rows))}
    counted: dict[str, int] = {}
    columns: list[tuple[Line, str]] = []
    parts = []
    for place, members in groupby(EXHIBITS, lambda exhibit: exhibit.place.split(" (")[0]):
        parts.append(f"## {place}\n")
        for exhibit in members:
            mine = rows_of(exhibit, rows, quick=quick)
            days = sorted({f"{row['date']}, {machines[row['machine']]}" for row in mine})
            run, of = len({json.dumps(row["cell"]) for row in mine}), sum(1 for _ in exhibit.cells(quick))
            part = f" So far {run} of {of} runs: verdicts are of these." if 0 < run < of else ""
            part += f" {tell_minutes(mine)}." if mine and all("seconds" in row for row in mine) else ""
            parts.append(f"*{exhibit.place}*, `--only {exhibit.name}`: {exhibit.setting}.{part}\n")
            parts += [
                "| what | theirs | ours (runs) | verdict | why | when, where |",
                "|---|---|---|---|---|---|",
            ]
            for line in exhibit.lines:
                ours, verdict, why = verdict_of(exhibit, line, mine)
                counted[verdict] = counted.get(verdict, 0) + 1
                columns.append((line, verdict))
                when = days[-1] if ours else ""
                parts.append(f"| {line.what} | {line.theirs} | {ours} | {verdict} | {why} | {when} |")
            parts.append("")
    kfed = [
        verdict for line, verdict in columns if line.what.startswith("k-FED, ") and "not run" not in verdict
    ]
    head = PAGE.format(
        counts="\n".join(f"| {name} | {number} |" for name, number in sorted(counted.items())),
        kfed=(
            f"{kfed.count('reproduced')} of {len(kfed)} cells are as printed; k-FED of its authors is better"
            if "not, because" in kfed
            else "no run here shows another than as printed"
        ),
        ahead=tell_leads(rows),
        machines="; ".join(f"{letter} is {name}" for name, letter in machines.items()) or "nothing was run",
        whole=f" {tell_minutes(rows)}." if rows and all("seconds" in row for row in rows) else "",
    )  # fmt: skip
    return re.sub(r" +$", "", head + "\n".join(parts), flags=re.MULTILINE).rstrip() + "\n"


def tell_minutes(rows: list[Row]) -> str:
    """Processor time of the cells of these rows, which hold it once each."""
    cells = {json.dumps(row["cell"], sort_keys=True): row["seconds"] for row in rows}
    return f"Processor time of {len(cells)} runs: {sum(cells.values()) / 60:.1f} minutes"


def tell_leads(rows: list[Row]) -> str:
    """Where k-FED is ahead of SecFC in the rows of Table 2, of means in percent."""
    found = []
    for k, local in ((4, 1), (4, 2), (16, 2), (16, 4)):
        kfed, ours = (
            values_of(rows, "accuracy", sigma=20, k=k, k_=local, algorithm=name)
            for name in ("k-FED", "SecFC")
        )
        if kfed and ours and np.mean(kfed) > np.mean(ours):
            found.append(f"{100 * np.mean(kfed):.1f} against {100 * np.mean(ours):.1f} at k={k}, k'={local}")
    return (
        "k-FED is ahead of SecFC where k' < k: " + ", ".join(found)
        if found
        else "no run compares k-FED there"
    )


PAGE = """# The papers' tables and figures, run again

Each table and figure of the sources, with its setting, their number, ours, and a verdict. Rows are measured by
`python -m benchmarks.papers --data FOLDER`, which writes this page from `docs/papers.jsonl`: no figure of ours is typed. Theirs
are typed from SecFC (Li, Hou, Buyukates, Avestimehr), FedDP-KMeans (Scott, Lampert, Saulpic) and its reviews, *Distributed
clustering in partially overlapping feature spaces* (Maritan, Schenato), and *Evaluating differential privacy in federated
clustering under adversarial attacks* (Gupta, Maheshwari). Of figures without numbers, what the text says of them is judged.

- **reproduced**: our mean is within two standard errors (both deviations together, over the root of our runs), or what they
  say holds of our runs.
- **not, because**: it is not, and why.
- **not run: data absent**: no run with the file that is named is here; it may not be shipped, and whoever has it can run the line.
- **not run yet**: nothing measures it yet, or its runs were left out, and why.

| verdict | lines |
|---|---|
{counts}

Machines: {machines}. Other work shared them, so times are upper bounds.{whole}

Said openly:

- *k-FED's columns of SecFC*: {kfed}.
- *Boxes of centers* are not given in SecFC's section 5.1; ours are drawn in [-10, 10]^d.
- *Sigma 20*: {ahead}.
- *Labels at sigma 20*: its text calls the closest center the truth; its figures fit the component that a point was drawn
  from, which is the truth here.

![SecFC's Figure 1](pictures/papers_time.svg)

![Accuracies as printed, and ours](pictures/papers_accuracy.svg)

![FedDP-KMeans' Figures 1 and 2, left](pictures/papers_private.svg)

"""  # noqa: E501

# --- pictures --------------------------------------------------------------------------------------


def draw_pictures(rows: list[Row], folder: Path) -> None:
    """Times over n, d and m; accuracies theirs and ours; excess over epsilon.  Legends stand inside."""
    require("matplotlib", "matplotlib", "plots")
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"svg.hashsalt": "papers", "svg.fonttype": "none", "font.size": 11}):
        for name, draw in (("time", draw_times), ("accuracy", draw_accuracies), ("private", draw_excess)):
            figure = plt.figure(figsize=(7.2, 3.4), layout="constrained")
            draw(figure, rows)
            figure.savefig(folder / f"papers_{name}.svg", metadata={"Date": None})
            plt.close(figure)


def draw_times(figure: Any, rows: list[Row]) -> None:
    lines = {"client_ms": "client", "server_ms": "server", "sharing_ms": "sharing, once", "kfed_ms": "k-FED"}
    for axes, name in zip(figure.subplots(1, 3, sharey=True), ("n", "d", "m"), strict=True):
        mine = sorted((r for r in rows if r["cell"].get("vary") == name), key=lambda r: r["cell"][name])
        for key, label in lines.items() if mine else ():
            seconds = [row[key] / 1e3 for row in mine]
            axes.loglog([row["cell"][name] for row in mine], seconds, "o-", ms=3, label=label)
        axes.axhline(16, color="black", ls=":", label="the paper's worst")
        axes.set_xlabel(name)
        axes.set_ylim(1e-3, 1e4)
    figure.axes[0].set_ylabel("seconds")
    figure.axes[0].legend(fontsize=8, frameon=False, loc="upper left", labelspacing=0.2)


def draw_accuracies(figure: Any, rows: list[Row]) -> None:
    tables = [(e, rows_of(e, rows, quick=False)) for e in EXHIBITS if e.name.startswith("secfc-table")]
    for axes, (exhibit, mine) in zip(figure.subplots(1, len(tables), sharey=True), tables, strict=True):
        for name, mark in {"Lloyd": "s", "k-FED": "o", "SecFC": "^"}.items():
            found = [
                (line.drawn[0], float(np.mean(ours)))
                for line in exhibit.lines
                if line.what.startswith(name) and line.drawn is not None and (ours := line.drawn[1](mine))
            ]
            if found:
                axes.plot(
                    *np.array(found).T, mark, alpha=0.7, label=name, ms=4 + 3 * (name == "SecFC"), mfc="none"
                )
        axes.plot([0, 100], [0, 100], color="black", lw=0.8, label="as printed")
        axes.set(title=exhibit.place.split(" (")[0], xlabel="printed, percent", ylim=(0, 105))
    figure.axes[0].set_ylabel("ours, percent")
    figure.axes[0].legend(frameon=False, loc="lower right", fontsize=8)


def draw_excess(figure: Any, rows: list[Row]) -> None:
    for axes, (setting, clients) in zip(
        figure.subplots(1, 2), (("silo", 100), ("device", 2000)), strict=True
    ):
        cells = {"setting": setting, "clients": clients}
        mine = [r for r in rows if r["cell"]["script"] == "dp" and "missing" not in r["cell"]]
        for method in SILO:
            points = {e: value for e, value in medians(mine, method, **cells).items() if e is not None}
            if points:
                x = sorted(points)
                axes.loglog(x, [max(points[e], 1e-4) for e in x], "o-", ms=3, label=method)
        axes.set(
            xlabel="total epsilon", title=f"{clients} clients, a {dp.PROTECTED[setting]}", ylim=(1e-4, 1e6)
        )
        shown = (0.25, 0.5, 1, 2, 4)
        axes.set_xticks(shown, [f"{e:g}" for e in shown])
        axes.minorticks_off()
    figure.axes[0].axvline(0.4, ymax=0.62, color="black", ls=":", label="theirs: optimum from here")
    figure.axes[0].set_ylabel("excess cost a point")
    figure.axes[0].legend(fontsize=8, frameon=False, loc="upper left", labelspacing=0.2)


@click.command(help=__doc__.split("\n")[0])
@click.option("--only", "names", multiple=True, help="Only what begins so; may be repeated.")
@click.option("--quick", is_flag=True, help="A few small cells of each, to try the script.")
@click.option("--again", is_flag=True, help="Measure anew what has rows.")
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Folder of data.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of rows, page and pictures.  [docs]",
)
def main(names: tuple[str, ...], quick: bool, again: bool, data: Path | None, out: Path | None) -> None:
    """Measure what no row has, and write the page."""
    chosen = [e for e in EXHIBITS if not names or any(e.name.startswith(name) for name in names)]
    if not chosen:
        known_names = ", ".join(e.name for e in EXHIBITS)
        raise click.UsageError(f"--only {', '.join(names)} is no table or figure: there are {known_names}")
    if quick and out is None:
        raise click.UsageError("--quick writes no page of docs: name a folder with --out")
    out = out or DOCS
    out.mkdir(parents=True, exist_ok=True)
    path = out / "papers.jsonl"
    if again and path.exists():
        drop_rows(path, chosen, quick=quick)
    kept = ResultFile(path, None)
    known = {json.dumps(row["cell"], sort_keys=True) for row in (read_rows(path) if path.exists() else ())}
    with click.progressbar(chosen, label="papers", item_show_func=lambda e: e.name if e else "") as bar:
        for exhibit in bar:
            for _ in run_exhibit(exhibit, data, kept, known, quick=quick):
                pass
    rows = read_rows(path) if path.exists() else []
    (out / "papers.md").write_text(write_page(rows, quick=quick))
    draw_pictures(rows, out / "pictures")
    click.echo(f"{out / 'papers.md'}, of the rows of {path}")


def drop_rows(path: Path, chosen: Iterable[Exhibit], *, quick: bool) -> None:
    """Take the rows of these away."""
    rows = read_rows(path)
    gone = {id(row) for exhibit in chosen for row in rows_of(exhibit, rows, quick=quick)}
    path.write_text("".join(json.dumps(row) + "\n" for row in rows if id(row) not in gone))


if __name__ == "__main__":
    main()
