"""Accuracy on partly shared features by the rule of the split, under the ceiling of the mask.

python -m benchmarks.plot_overlap overlap.jsonl --out overlap.png
"""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from benchmarks.common import read_rows, require

METHODS = ("Synchronized", "Constrained", "NearestMerge (A)", "MaxMin (B)", "from the truth")
SPLITS = (("qmnist", "A1"), ("qmnist", "A2"), ("har", "A1"), ("har", "A2"))


@click.command(help=__doc__.split("\n")[0])
@click.argument("rows", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="A PNG or PDF.")
def main(rows: Path, out: Path) -> None:
    """Draw what `benchmarks.overlap` measured."""
    require("matplotlib", "matplotlib", "plots")
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    values: dict[tuple[str, ...], list[float]] = {}
    for row in read_rows(rows):
        cell = row["cell"]
        if "accuracy" in row:
            values.setdefault((cell["data"], cell["split"], cell["rule"], row["method"]), []).append(
                row["accuracy"]
            )
    figure, axes = plt.subplots(1, len(SPLITS), figsize=(13, 3.8), constrained_layout=True)
    for axis, (data, split) in zip(axes, SPLITS, strict=True):
        rules = [rule for rule in ("even", "ranked", "random") if (data, split, rule, "ceiling") in values]
        for place, rule in enumerate(rules):
            top = np.mean(values[data, split, rule, "ceiling"])
            axis.plot([place - 0.42, place + 0.42], [top, top], color="black", lw=1.5,
                      label="ceiling of the mask" if place == 0 else None)  # fmt: skip
        for shift, method in enumerate(METHODS):
            own = [values.get((data, split, rule, method), []) for rule in rules]
            x = np.concatenate([np.full(len(v), i + 0.16 * (shift - 2)) for i, v in enumerate(own)])
            axis.plot(x, np.concatenate([np.array(v) for v in own]), "o", ms=4, alpha=0.6, label=method)
        axis.set_xticks(range(len(rules)), rules)
        axis.set_title(f"{data.upper()} {split}")
        axis.grid(axis="y", alpha=0.3)
    axes[0].set_ylabel("accuracy, percent (a dot a split)")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False)
    figure.savefig(out, dpi=150)


if __name__ == "__main__":
    main()
