"""Private set union: seconds and bytes by role, rounds, failures of a table; published figures beside ours.

    python -m benchmarks.psu --out psu.jsonl --plot psu.png
    python -m benchmarks.psu --full --out psu.jsonl
    python -m benchmarks.psu --failures 10000

All parties run in one process on one thread, and no network is between them: seconds are processor time,
bytes are counted, not sent.  "critical" is one client, one committee member and the relay, the most of
each role, as if parties of one role worked at the same time.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

if __name__ in ("psu", "__main__"):
    # A script is run with its own folder first on the path, where this file hides the package it
    # measures: from this script and from every other benchmark.
    _here = str(Path(__file__).resolve().parent)
    sys.path[:] = [entry for entry in sys.path if str(Path(entry or ".").resolve()) != _here]
    sys.modules.pop("psu", None)
    importlib.import_module("psu")

if __name__ != "psu":
    import time
    from collections.abc import Iterator
    from typing import Any

    import click
    import numpy as np

    import psu
    from benchmarks.common import Row, require, run_grid, show

    Array = Any

    THRESHOLDS = {3: 1, 5: 2, 7: 3, 10: 4}

    # Others' figures as they published them.  Models differ: who may collude, who learns the union, what
    # is done before the clock starts.  A smaller number in this table is not a better protocol.
    PUBLISHED = [
        ["Liu, Gao, ASIACRYPT 2023", "any but leader with clients", "leader", "7 x 2^20", "46 s", "abstract"],
        [
            "Dong, Chen, Zhang, Bai, USENIX Sec. 2025, SK-MPSU (C++)",
            "t <= n-1, semi-honest",
            "leader",
            "3 x 2^20",
            "4.4 s online; offline phase extra",
            "LAN, Xeon 2.7 GHz 32 cores, 1 thread a party; README",
        ],
        [
            "Kolesnikov et al., ASIACRYPT 2019, osu-crypto/PSU (C++)",
            "two parties, semi-honest",
            "receiver",
            "2 x 2^20",
            "25.6 s, 76 MB",
            "README",
        ],
    ]

    def cells(full: bool, modes: tuple[str, ...], repeat: int) -> Iterator[Row]:
        """The grid: clients, IDs a client, how sets overlap, mode."""
        clients = (3, 5, 7, 10) if full else (3, 10)
        for size in (8, 10, 12, 14, 16, 18, 20) if full else (8, 12, 14):
            for n in clients:
                for sets in ("overlapping", "disjoint"):
                    for mode in modes:
                        for run in range(repeat):
                            yield {"n": n, "log2 ids": size, "sets": sets, "mode": mode, "run": run}

    def sets_of(cell: Row) -> list[Array]:
        """Integer IDs: each client draws N of a universe of 2N, or has N of its own."""
        rng = np.random.default_rng([cell["n"], cell["log2 ids"], cell["run"]])
        size, n = 1 << cell["log2 ids"], cell["n"]
        if cell["sets"] == "disjoint":
            return list(np.arange(n * size).reshape(n, size))
        return [rng.choice(2 * size, size, replace=False) for _ in range(n)]

    def measure(cell: Row) -> Iterator[Row]:
        """One union, checked against the true one."""
        sets, n = sets_of(cell), cell["n"]
        mode: Any = psu.Committee(THRESHOLDS[n]) if cell["mode"] == "threshold" else psu.Server()
        psu.union([s[:50] for s in sets], mode=mode)  # compiles
        wall, cpu = time.perf_counter(), time.process_time()
        result = psu.union(sets, mode=mode)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu

        def most(role: str) -> float:
            return max((s for party, s in result.seconds.items() if party.startswith(role)), default=0.0)

        def sent(role: str) -> int:
            return max((result.sent(p) for p in result.seconds if p.startswith(role)), default=0)

        truth = len(np.unique(np.concatenate(sets)))
        yield {
            "t": THRESHOLDS[n] if cell["mode"] == "threshold" else n - 2,
            "m": result.m,
            "correct": result.m == truth and len(np.unique(np.concatenate(result.rows))) == truth,  # type: ignore[arg-type]
            "estimate": result.estimate,
            "rounds": result.rounds,
            "attempts": result.attempts,
            "seconds client": most("client"),
            "seconds member": most("member"),
            "seconds relay": most("server"),
            "seconds critical": most("client") + most("member") + most("server"),
            "seconds all": cpu,
            "seconds wall": wall,
            "bytes client": sent("client"),
            "bytes member": sent("member"),
            "bytes relay": sent("server"),
        }

    def failures(m: int, trials: int) -> int:
        """How many of so many random tables of the planned size stall at the first attempt."""
        from psu import kernels
        from psu.plan import HASHES

        rows = psu.UnionPlan(3, psu.Server(), bytes(16), bound=m, sized=False).cells(m, 0).rows
        rng = np.random.default_rng([m, trials])
        place = (HASHES, rows // HASHES, np.uint64(1), np.uint64(2))
        z, y = np.empty(m, np.uint64), np.empty(m, np.uint64)
        out = np.empty((2, rows + 1), np.uint64)
        stalled = 0
        for _ in range(trials):
            kernels.split_tags(rng.integers(0, 2**64, (m, 2), np.uint64), z, y)
            table = np.zeros((rows, 3), np.uint64)
            kernels.add_lines(z, y, rng.integers(1, 2**61 - 1, m, np.uint64), table, *place)
            stalled += kernels.peel_lines(table, *place, out[0], out[1])[1] > 0
        return stalled

    def plot(rows: list[Row], path: Path) -> None:
        """Seconds on the critical path and bytes a client sends, against the IDs of a client."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(10, 4), layout="constrained")
        for axes, column, label in zip(
            figure.subplots(1, 2),
            ("seconds critical", "bytes client"),
            ("processor seconds, critical path", "bytes a client sends"),
            strict=True,
        ):
            lines: dict[tuple[Any, ...], dict[int, list[float]]] = {}
            for row in rows:
                cell = row["cell"]
                key = (cell["mode"], cell["n"], cell["sets"])
                lines.setdefault(key, {}).setdefault(1 << cell["log2 ids"], []).append(row[column])
            for (mode, n, sets), points in sorted(lines.items()):
                xs = sorted(points)
                style = "-" if sets == "overlapping" else "--"
                marker = "o" if mode == "threshold" else "x"
                medians = [float(np.median(points[x])) for x in xs]
                axes.loglog(xs, medians, style, marker=marker, label=f"{mode}, n={n}, {sets}")
            axes.set_xlabel("IDs a client")
            axes.set_ylabel(label)
            axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
        figure.savefig(path)

    COLUMNS = ["n", "mode", "sets", "IDs", "union", "client", "member", "relay", "critical", "all"]
    COLUMNS += ["client MB", "member MB", "rounds", "ok"]

    def line(row: Row) -> list[str]:
        """One row of the printed table."""
        cell = row["cell"]
        seconds = (f"{row['seconds ' + k]:.3f}" for k in ("client", "member", "relay", "critical", "all"))
        size = (f"{row['bytes ' + k] / 1e6:.2f}" for k in ("client", "member"))
        mode = f"t={row['t']}" if cell["mode"] == "threshold" else "server"
        head = (cell["n"], mode, cell["sets"], f"2^{cell['log2 ids']}", row["m"])
        return [*map(str, head), *seconds, *size, str(row["rounds"]), "yes" if row["correct"] else "NO"]

    @click.command(help=__doc__.split("\n")[0])
    @click.option(
        "--full",
        is_flag=True,
        help="n in 3, 5, 7, 10 and 2^8 to 2^20 IDs a client; the largest cells want much memory.",
    )
    @click.option("--mode", "modes", type=click.Choice(["threshold", "server"]), multiple=True)
    @click.option("--repeat", default=1, show_default=True, help="Runs of every cell.")
    @click.option("--failures", "trials", default=0, help="Instead: tables that stall, of so many a size.")
    @click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Append rows to this file.")
    @click.option("--plot", "figure", type=click.Path(dir_okay=False, path_type=Path), help="Draw this file.")
    def main(
        full: bool, modes: tuple[str, ...], repeat: int, trials: int, out: Path | None, figure: Path | None
    ) -> None:
        """Run the grid; print ours, then others' published figures."""
        if figure is not None:
            require("matplotlib", "matplotlib", "plot")
        if trials:
            counted = [(m, failures(m, trials)) for m in (16, 24, 32, 48, 64, 96, 128, 256, 512, 1024)]
            show(
                f"Tables that stall at the first attempt, of {trials}",
                ["union", "stalled", "rate"],
                [[str(m), str(bad), f"{bad / trials:.1e}"] for m, bad in counted],
            )
            return
        rows = []
        todo = list(cells(full, modes or ("threshold", "server"), repeat))
        with click.progressbar(todo, label="psu") as bar:
            for row in run_grid(bar, measure, out):
                rows.append(row)
        if figure is not None:
            plot(rows, figure)
        machine = rows[0]["processor"] if rows else ""
        show(f"Ours, processor seconds on {machine}, one thread, no network", COLUMNS, map(line, rows))
        show(
            "Published by others, under other models and on other machines",
            ["protocol", "collusion", "learns the union", "parties x IDs", "time", "source"],
            [
                *PUBLISHED,
                ["ours, threshold", "t < n/2 with the relay, semi-honest", "all clients", "", "above", ""],
                ["ours, server", "n-2 clients, server apart", "all clients", "", "above", ""],
            ],
        )


if __name__ == "__main__":
    main()
