"""Reading text files: processor time over that of the library that converts numbers, and memory a cell.

    python -m benchmarks.reading --out reading.jsonl

`ratio` is the time of `Federation.from_files` over that of `pyarrow.csv.read_csv`, which makes columns and
checks nothing, in turns; `cells_ratio` that of the reader for files with something to look at.  Memory is the
peak resident set of a process that reads the file once, less that of one that reads a small one.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np

from benchmarks.common import Row, in_turns, require, run_grid, show
from secfc import Federation

# How cells are written; of the last one in a thousand is empty, and read as missing.
KINDS = {"six digits": "%.6g", "all digits": "%.17g", "whole": "%d", "gaps": "%.6g"}
PEAK = """
import sys
from secfc import Federation
from benchmarks.common import peak_gib
Federation.from_files(sys.argv[1], gaps=True)
print(peak_gib())
"""


def write_table(path: Path, rows: int, d: int, kind: str) -> None:
    """A table of normal numbers."""
    values = np.random.default_rng(0).normal(50, 20, (rows, d))
    with path.open("w", encoding="ascii") as file:
        file.write(",".join(f"c{i}" for i in range(d)) + "\n")
        for number, row in enumerate(values.tolist()):
            cells = [KINDS[kind] % value for value in row]
            if kind == "gaps" and number % 50 == 0:
                cells[number // 50 % d] = ""
            file.write(",".join(cells) + "\n")


def peak_of(path: Path) -> float:
    """GiB that a process takes to read a file."""
    command = [sys.executable, "-c", PEAK, str(path)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure(cell: Row) -> Iterator[Row]:
    """One file, read by us, by the library and, a tenth of it, cell by cell."""
    from pyarrow import csv

    rows, d, gaps = cell["rows"], cell["d"], cell["kind"] == "gaps"
    with tempfile.TemporaryDirectory() as folder:
        path, tenth = Path(folder) / "a.csv", Path(folder) / "b.csv"
        write_table(path, rows, d, cell["kind"])
        write_table(tenth, rows // 10, d, cell["kind"])
        with tenth.open("a", encoding="ascii") as file:
            file.write('"1"' + ",1" * (d - 1) + "\n")  # quotes, which only the other reader understands
        taken = in_turns(
            {"ours": lambda: Federation.from_files(path, gaps=gaps), "library": lambda: csv.read_csv(path)},
            budget=5e-6 * rows,
            least=3,
        )
        start = time.process_time()
        Federation.from_files(tenth, gaps=gaps)
        by_cell = 10 * (time.process_time() - start)
        # Of a small file the libraries that a process loads are most.
        memory = max(peak_of(path) - peak_of(tenth), 0) / 0.9 * 2**30 if rows >= 100_000 else 0.0
    (ours, ours_wall), (library, library_wall) = taken["ours"], taken["library"]
    yield {
        "reading_s": ours, "library_s": library, "ratio": ours / library,
        "wall_ratio": ours_wall / library_wall, "cells_ratio": by_cell / library,
        "bytes_a_cell": memory / (rows * d),
    }  # fmt: skip


@click.command(help=__doc__.split("\n")[0])
@click.option("--quick", is_flag=True, help="Small files of one kind.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Keep the rows in this file.")
def main(quick: bool, out: Path | None) -> None:
    """Write, read and print."""
    require("pyarrow", "pyarrow", "files")
    sizes = ((5_000, 20),) if quick else ((200_000, 20), (1_000_000, 20))
    cells = [{"rows": m, "d": d, "kind": kind} for m, d in sizes for kind in list(KINDS)[: 1 if quick else 4]]
    shown = ["rows", "kind", "ratio", "wall_ratio", "cells_ratio", "bytes_a_cell"]
    rows = [[*row["cell"].values()][::2] + [f"{row[name]:.2f}" for name in shown[2:]]
            for row in run_grid(cells, measure, out)]  # fmt: skip
    show("Reading a text file, over the library", shown, rows)


if __name__ == "__main__":
    main()
