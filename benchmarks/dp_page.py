"""The page and the picture of `benchmarks.dp_matrix`, of the rows that docs/dp_matrix.jsonl keeps.

    python -m benchmarks.dp_page

Nothing is measured, and no figure of the page is typed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks.common import Row, read_rows, require
from benchmarks.dp_matrix import FACTOR, PARTS, PLACES, SEEN, SLACK, Line, lines, quartiles
from benchmarks.dp_unseen import UNSEEN

DOCS = Path(__file__).parent.parent / "docs"
ROWS = DOCS / "dp_matrix.jsonl"
TITLES = {
    "points": "Points at the server",
    "people": "Persons with rows at two clients",
    "alone": "No points at the server",
}
LEAST = 1e-4  # what a ratio takes smaller medians for


def keep_rows(kept: list[Row], data: Path | None) -> None:
    """Write rows to docs, with the size of every set that can be made."""
    for name, chosen in UNSEEN.items():
        if chosen.file is None or data is not None:
            held = chosen.make(data, np.random.default_rng(0))
            m, d = held.points.shape
            kept.append({"part": "sets", "set": name, "m": m, "d": d, "s": len(held.server)})
    ROWS.write_text("".join(json.dumps(row) + "\n" for row in kept))


# --- the page --------------------------------------------------------------------------------------


def table(head: list[str], body: list[list[str]]) -> str:
    """A table of Markdown."""
    lines = ("| " + " | ".join(cells) + " |" for cells in (head, *body))
    first, *others = lines
    return "\n".join([first, "|---" * len(head) + "|", *others]) + "\n"


def digits(value: float) -> str:
    """Four digits behind the point, and none before it that is 0."""
    return f"{value:.4f}".removeprefix("0")


def tell(three: tuple[float, float, float]) -> str:
    """Median, and in brackets the quartiles."""
    low, middle, high = map(digits, three)
    return f"{middle} [{low}, {high}]"


def tell_cell(line: Line) -> str:
    """Ours, the best rival's, and the mark."""
    rival = f"{digits(line.theirs[1])} {line.rival}"
    return f"{tell(line.ours)}; {rival}" + ("; **lost**" if line.lost else "")


def write_matrix(mine: list[Line]) -> str:
    """A row a set, a column an epsilon."""
    columns = sorted({line.epsilon for line in mine})
    cells = {(line.set, line.epsilon): tell_cell(line) for line in mine}
    names = dict.fromkeys(line.set for line in mine)
    return table(
        ["data", *(f"epsilon {e:g}" for e in columns)],
        [[name, *(cells.get((name, e), "") for e in columns)] for name in names],
    )


def write_lost(found: list[Line]) -> str:
    """Every lost cell, the worst of a part first: by how much, to whom."""
    order = list(PARTS)
    lost = sorted(
        (line for line in found if line.lost),
        key=lambda each: (order.index(each.part), each.own, each.border - each.ours[1]),
    )
    if not lost:
        return "None.\n"
    return table(
        ["part, ours", "data", "epsilon", "ours", "best rival", "its", "times", "above the border"],
        [
            [f"{line.part}, {line.own}", line.set, f"{line.epsilon:g}", tell(line.ours), line.rival,
             tell(line.theirs), f"{ratio(line):.1f}", digits(line.ours[1] - line.border)]
            for line in lost
        ],
    )  # fmt: skip


def ratio(line: Line) -> float:
    """Ours over the best rival's, medians below what is shown taken for that."""
    return max(line.ours[1], LEAST) / max(line.theirs[1], LEAST)


def write_counts(found: list[Line], kept: list[Row]) -> str:
    """How many cells of how many are lost and won, by part and method."""
    body = []
    for part, own in dict.fromkeys((line.part, line.own) for line in found):
        mine = [line for line in found if (line.part, line.own) == (part, own)]
        upto = [line for line in mine if line.epsilon <= 2]
        seconds = [r["seconds"] for r in kept if r["part"] == part and r.get("method") == own]
        counts = [sum(line.lost for line in upto), sum(line.lost for line in mine)]
        counts += [sum(line.won for line in mine), sum(line.ours[1] > line.theirs[1] for line in mine)]
        of = [len(upto), *[len(mine)] * 3]
        said = [f"{some} of {all_}" for some, all_ in zip(counts, of, strict=True)]
        took = f"{np.median(seconds):.2g} ({min(seconds):.2g} to {max(seconds):.2g})"
        body.append([part, own, *said, took])
    head = ["part", "ours", "lost, epsilon to 2", "lost", "won", "a rival's median is lower", "seconds a run"]
    return table(head, body)


def write_radius(kept: list[Row]) -> str:
    """Excess where the box is right, too large or elsewhere; with a ball, how often twice the right one's."""
    by = {
        (r["set"], r["epsilon"], r["method"]): quartiles(r["excess"]) for r in kept if r["part"] == "radius"
    }
    words = [f"{way}, {place}" for way in ("public box", "private ball") for place in PLACES]
    body, over, wide, of = [], 0, 0, 0
    for name, epsilon in dict.fromkeys((name, epsilon) for name, epsilon, _ in by):
        right = by[name, epsilon, words[0]][1]
        cells = [name, f"{epsilon:g}"]
        for word in words:
            value = by[name, epsilon, word]
            twice = word.startswith("private") and value[1] > 2 * right
            cells.append(f"**{tell(value)}**" if twice else tell(value))
            of += word.startswith("private")
            over += twice
            wide += twice and value[1] > 2 * right + SLACK
        body.append(cells)
    said = (
        f"With a private ball {over} of {of} cells are above twice what the right public box has (bold), "
        f"{wide} of them by more than {SLACK}."
    )
    return f"{said}\n\n" + table(["data", "epsilon", *words], body)


def write_seen(kept: list[Row], found: list[Line]) -> str:
    """The sets that constants were chosen on: excess, and cost above the optimum's in the data's units."""
    above = {(r["set"], r["epsilon"]): r["above"] for r in kept if r.get("method") == "ours"}
    return table(
        ["data", "epsilon", "ours; best rival", "ours, cost a row above the optimum"],
        [
            [line.set, f"{line.epsilon:g}", tell_cell(line), f"{above[line.set, line.epsilon]:.4f}"]
            for line in found
        ],
    )


def write_sets(kept: list[Row]) -> str:
    """What each set is, how large, and who can make it."""
    sizes = {row["set"]: row for row in kept if row["part"] == "sets"}
    body = []
    for name, chosen in UNSEEN.items():
        size = sizes.get(name)
        numbers = ["", "", ""] if size is None else [str(size[key]) for key in ("m", "d", "s")]
        source = "generated" if chosen.file is None else f"`{chosen.file[0]}`, `{chosen.file[1]}`"
        body.append([name, chosen.words, *numbers, str(chosen.k), source])
    return table(["data", "rule", "rows", "d", "server's points", "k", "source"], body)


def write_page(kept: list[Row]) -> str:
    """docs/dp_matrix.md of these rows."""
    every = lines(kept)
    found, seen = ([each for each in every if (each.set in SEEN) == known] for known in (False, True))
    runs = sorted({len(row["excess"]) for row in kept if "excess" in row})
    parts = []
    for part, title in TITLES.items():
        for own in PARTS[part].own:
            mine = [line for line in found if (line.part, line.own) == (part, own)]
            if mine:
                parts.append(f"## {title}: {own}\n\n{NOTES[part]}\n\n{write_matrix(mine)}")
    if any(row["part"] == "radius" for row in kept):
        parts.append(f"## A box that is too large, or elsewhere\n\n{NOTES['radius']}\n\n{write_radius(kept)}")
    if seen:
        parts.append(f"## Sets that constants were chosen on\n\n{NOTES['seen']}\n\n{write_seen(kept, seen)}")
    parts.append(f"## The sets\n\n{NOTES['sets']}\n\n{write_sets(kept)}")
    head = PAGE.format(
        runs=" or ".join(map(str, runs)) or "no",
        code=", ".join(sorted({row["code"] for row in kept if "code" in row})) or "no code",
        factor=FACTOR, slack=SLACK, counts=write_counts(found, kept), lost=write_lost(found),
    )  # fmt: skip
    return head + "\n".join(parts)


NOTES = {
    "points": (
        "Rivals: *published*, the paper's method, corrected; *ServerLloyds*, k-means of the server's points "
        "and one private step; *server alone*, without that step; *one center*, the mean of all rows."
    ),
    "people": (
        "Each person has rows at two clients. *Noisy sums* on shares count a person once; *FedDP, 2 clients* "
        "takes noise twice as wide. Its neighbors lack a row, those of noisy sums have another in its place."
    ),
    "alone": (
        "A public box of values is known, and nothing else; delta is 1 / m^1.1. *Private ball*: `boxes=2`. "
        "Rivals: *PE-means*, rebuilt by its published rule; *one center*."
    ),
    "radius": (
        "The public box as it is, 4 and 30 times as wide, and 4 times as wide with its middle 3 radii off."
    ),
    "seen": "Counted nowhere above. Delta and rivals are those of points at the server.",
    "sets": (
        "Generated sets need no file: `python -m benchmarks.dp_matrix` draws them, by "
        "`benchmarks/dp_unseen.py`, with new parameters in each run. Files are of others "
        "and not shipped: `--data FOLDER`. No other script of private clustering names one of these sets."
    ),
}  # fmt: skip

PAGE = """# Where private clustering wins and loses

Excess of FedDP-KMeans and its rivals on sets that no constant was chosen on: cost a row above the best known
centers, over that of one center. 0 is as good as without privacy, 1 a single center. Cells have the median of
{runs} runs, in brackets the quartiles, and the best rival's median. Runs differ in the set or in the
server's draw, and in noise; delta is 1e-6. **Lost**: ours is {factor} times the best rival's and {slack}, or
more. Won: the reverse. `python -m benchmarks.dp_matrix --data FOLDER --out FILE --page` measures and writes
this page, and `python -m benchmarks.dp_page` writes it anew from `docs/dp_matrix.jsonl`. Code: {code}.
Other work shared the cores.

{counts}
![Ours over the best rival by data set and epsilon; lost cells are framed](pictures/dp_matrix.svg)

## Every lost cell

{lost}
"""

# --- the picture -----------------------------------------------------------------------------------


def draw_picture(kept: list[Row], path: Path) -> None:
    """Ours over the best rival: a panel a method of ours, a row a set, a column an epsilon."""
    require("matplotlib", "matplotlib", "plots")
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.colors import LogNorm

    found = [line for line in lines(kept) if line.set not in SEEN]
    panels = list(dict.fromkeys((line.part, line.own) for line in found))
    names = list(dict.fromkeys(line.set for line in found))
    columns = [sorted({x.epsilon for x in found if (x.part, x.own) == panel}) for panel in panels]
    with mpl.rc_context({"svg.hashsalt": "dp_matrix", "svg.fonttype": "none", "font.size": 9}):
        figure, every = plt.subplots(
            1, len(panels), figsize=(11, 1.4 + 0.3 * len(names)), layout="constrained", squeeze=False,
            width_ratios=[len(each) for each in columns],
        )  # fmt: skip
        for axes, panel, epsilons in zip(every[0], panels, columns, strict=True):
            grid = np.full((len(names), len(epsilons)), np.nan)
            for line in (x for x in found if (x.part, x.own) == panel):
                draw_cell(axes, grid, (names.index(line.set), epsilons.index(line.epsilon)), line)
            shown = axes.imshow(grid, cmap="RdBu_r", norm=LogNorm(0.02, 50), aspect="auto")
            axes.set_facecolor("0.93")
            axes.set_xticks(range(len(epsilons)), [f"{e:g}" for e in epsilons])
            axes.set_yticks(range(len(names)), names if axes is every[0][0] else [""] * len(names))
            axes.tick_params(length=0)
            axes.set_xlabel("total epsilon")
            axes.set_title(PANELS[panel], fontsize=9)
        bar = figure.colorbar(shown, ax=list(every[0]), shrink=0.6, pad=0.01)
        bar.ax.set_yticks([0.02, 0.1, 1, 10, 50], ["1/50", "1/10", "1", "10", "50"])
        bar.set_label("excess over the best rival's (framed: lost)")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=110)
        plt.close(figure)


PANELS = {
    ("points", "ours"): "points at the server",
    ("people", "noisy sums"): "persons: noisy sums",
    ("alone", "ours"): "no points,\npublic box",
    ("alone", "ours, private ball"): "no points,\nprivate ball",
}


def draw_cell(axes: Any, grid: Any, at: tuple[int, int], line: Line) -> None:
    """The ratio in a cell, and a frame about a lost one."""
    from matplotlib.patches import Rectangle

    value = grid[at] = ratio(line)
    places = 0 if value >= 9.95 else 1 if value >= 0.95 else 2
    text = f"{value:.{places}f}".removeprefix("0") if value >= 0.005 else "<.01"
    color = "white" if not 0.08 < value < 12 else "black"
    axes.text(at[1], at[0], text, ha="center", va="center", fontsize=7.5, color=color)
    if line.lost:
        axes.add_patch(Rectangle((at[1] - 0.46, at[0] - 0.46), 0.92, 0.92, fill=False, lw=1.8, ec="black"))


def write_files() -> None:
    """The page and the picture, of the rows that are kept."""
    kept = read_rows(ROWS)
    (DOCS / "dp_matrix.md").write_text(write_page(kept))
    draw_picture(kept, DOCS / "pictures" / "dp_matrix.svg")
    click.echo(f"{DOCS / 'dp_matrix.md'}, of the rows of {ROWS}")


@click.command(help=__doc__.split("\n")[0])
def main() -> None:
    """Write the page and the picture."""
    write_files()


if __name__ == "__main__":
    main()
