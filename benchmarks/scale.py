"""A million points and more in one process: memory, sharing time and time per iteration.

    python -m benchmarks.scale
    python -m benchmarks.scale --disclosure assignments      # the default policy of SecFC, to put beside it
    python -m benchmarks.scale --m 10000000 --d 20 --k 4 --n 5
    python -m benchmarks.scale --disclosure assignments --centers rounded --d 20 --k 8 --n 5 --t 1
    python -m benchmarks.scale --ladder 1000000 --d 20 --k 8 --n 5 --t 1 --picture scale.png

All n clients and the server run in this process.  Every client's points lie in a file of its own, written
in chunks and read through `numpy.memmap`, so nobody holds points in memory.  What remains is what the
parties hold: each client 4 (d / ell + 1) bytes a point and lane as shares, and each reply 4 k bytes a point
and lane until the server has decoded it.  That sum is printed before the run; ten clients of ten million
points with d = 20 and k = 4 hold 19 GiB, five of them 9.

Two lanes, 60 bits, are chosen at any m, and the finest scale that they hold for a cluster of all m points:
`steps_per_bound` says how many steps there are between 0 and the largest absolute value.  (Left to itself
SecFC takes a third lane where these are fewer than 256, and drops it while every cluster is small.)

Under the default policy exact centers leave few steps for so many points: the largest power of two that fits
with fewer masks than rows is taken, if `--scale` says no other.  Once few points move, a step of that policy
asks in two questions (`secfc.disclosure.compare.session`), so two steps are told of: the one that sends most,
and the last one, whose names begin with `late_`.  Below the table is what both send, by message.

Times are wall times of this process; those with cpu in their name are processor times: of all clients for
the sharing, of all parties for a step, and of one client (mean) and of the server for an iteration.  On a
virtual machine the first touch of memory can cost more than the arithmetic: compare `user_s` and `system_s`.

Memory is the peak of the resident set; pages of mapped files count in it while they are resident.  One
setting a process, since that peak never falls.

`--ladder M` runs `Distances()` and the default policy with exact and with rounded centers side by side, from
10,000 points to M, each in a process of its own: one table, and with `--picture` four curves of it.
"""

from __future__ import annotations

import os
import tempfile
import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import click
import numpy as np

import secfc
from benchmarks.common import Row, peak_gib, require, run_grid, show
from benchmarks.plot import curves, write
from benchmarks.runtime import LOOP, Timed
from field.ring.basis import MAX_LANES
from secfc.algorithm import PublicFacts
from secfc.data.inputs import with_parameters
from secfc.roles.exchange import ITERATE, STRIDE, Envelope, Transcript

Array = Any

DISCLOSURES = {"distances": secfc.Distances(), "assignments": secfc.AssignmentsOnly()}
# What a ladder puts side by side: policy and centers.
WAYS = (("distances", "exact"), ("assignments", "exact"), ("assignments", "rounded"))
COLUMNS = (
    "lanes",
    "steps_per_bound",
    "sharing_s",
    "step_cpu_s",
    "late_cpu_s",
    "step_rounds",
    "step_mb",
    "late_mb",
    "peak_gib",
)
LEAST, REACH = 10_000, 16.0  # points; what values reach to
SCALES = (32.0, 16.0, 8.0, 4.0, 2.0, 1.0)  # steps a unit, where those that would be chosen do not fit
OF = "_mb_of_"  # a step and a message
CHUNK = 1 << 22  # numbers generated at a time


def loop(phases: Mapping[str, float]) -> float:
    """Seconds in phases that every iteration has."""
    return sum(phases.get(phase, 0.0) for phase in LOOP)


def measure(cell: Row, folder: Path | None) -> Iterator[Row]:
    """One run of a few iterations over files in a temporary folder."""
    warm_up(cell)
    before = peak_gib()
    with tempfile.TemporaryDirectory(dir=folder, prefix="secfc-scale-") as name:
        start = time.perf_counter()
        bound = write_points(cell, Path(name))
        written = time.perf_counter() - start
        parties = tuple(
            secfc.Party(f"client-{j}", points) for j, points in enumerate(mapped(cell, Path(name)))
        )
        federation = secfc.Federation(parties)
        yield run(cell, federation, bound) | {
            "writing_s": written,
            "peak_before_gib": before,
            "peak_gib": peak_gib(),
        }


def warm_up(cell: Row) -> None:
    """Load the kernels on a few points."""
    points = np.random.default_rng(0).uniform(-1, 1, (100, 2))
    federation = secfc.Federation.from_arrays(np.array_split(points, cell["n"]))
    small = secfc.SecFC(
        k=2, threshold=secfc.Threshold(cell["t"], cell["ell"]),
        runtime=secfc.Runtime(threads=cell["threads"]), max_iter=2,
        disclosure=DISCLOSURES[cell["disclosure"]], quantization=secfc.Quantization(centers=cell["centers"]),
    )  # fmt: skip
    secfc.fit(small, federation)


def ladder(cell: Row, most: int) -> Iterator[Row]:
    """The cells of a ladder to so many points, of which each is to have a process of its own."""
    sizes = [m for power in range(4, 10) for m in (10**power, 3 * 10**power) if LEAST <= m < most]
    for m in (*sizes, most):
        for disclosure, centers in WAYS:
            yield cell | {"m": m, "disclosure": disclosure, "centers": centers}


def alone(cell: Row, folder: Path | None) -> Iterator[Row]:
    """`measure` in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield from pool.submit(all_of, cell, folder).result()


def all_of(cell: Row, folder: Path | None) -> list[Row]:
    """`measure`, for another process."""
    return list(measure(cell, folder))


def fitting(cell: Row, federation: secfc.Federation, bound: float) -> secfc.SecFC:
    """The algorithm of a cell: where the steps that would be chosen do not fit, with as many as do.

    Not with so many that the masks of rows' test are more than the rows.
    """
    algorithm = secfc.SecFC(
        k=cell["k"], threshold=secfc.Threshold(cell["t"], cell["ell"]), max_iter=cell["max_iter"],
        runtime=secfc.Runtime(threads=cell["threads"], scratch=cell["scratch"]),
        init=secfc.RandomLabels(), disclosure=DISCLOSURES[cell["disclosure"]],
        quantization=secfc.Quantization(scale=cell["scale"], centers=cell["centers"], coarse="allow"),
    )  # fmt: skip
    public = PublicFacts.of(federation, bound)
    for scale in (None, *SCALES) if cell["scale"] is None else ():
        with suppress(ValueError):
            found = with_parameters(algorithm, scale=scale)
            plan = found.plan(public)
            if plan.masks(0, 0) * plan.projections.words < plan.words(0, 0):
                return found
    return algorithm


def run(cell: Row, federation: secfc.Federation, bound: float) -> Row:
    """Times of one fit, by what the server waits for."""
    algorithm = fitting(cell, federation, bound)
    shared, clocks = (0.0, 0.0), list[tuple[int, float, float]]()

    def watch(party: str, exchange: Any) -> None:
        nonlocal shared
        if party == "server" and exchange.phase in ("assign", "finish"):
            second = any(body.kind == "CompareMovedQuery" for body in exchange.send.values())
            if not second:  # of one step
                clocks.append((exchange.round // STRIDE, time.perf_counter(), time.process_time()))
        elif exchange.phase == "share":
            shared = time.perf_counter(), time.process_time()

    timed = Timed(algorithm)
    start, before = time.perf_counter(), os.times()
    result = secfc.fit(timed, federation, bound=bound, watch=watch)
    whole, after = time.perf_counter() - start, os.times()
    clients = [timed.seconds[name] for name in federation.names]
    # The first question is asked early and waits for the end of the sharing.
    sharing, steps = shared[0] - start, np.diff([shared[0], *(wall for _, wall, _ in clocks[1:])])
    worked = np.diff([shared[1], *(cpu for _, _, cpu in clocks[1:])])
    server = timed.seconds["server"]
    told = said(result.transcript, [number for number, _, _ in clocks])
    most, last = max(range(len(told)), key=lambda i: sum(told[i][1].values())), len(told) - 1
    return {
        "policy": str(DISCLOSURES[cell["disclosure"]]),
        "n_iter": result.n_iter,
        "lanes": result.plan.code.basis.lanes,
        "steps_per_bound": result.plan.quantizer.max_int,
        "held_gib": held(cell, result.plan.code.basis.lanes),
        "sharing_s": sharing,
        "sharing_rate": cell["m"] * cell["d"] / sharing / 1e6,
        "first_iteration_s": float(steps[0]),
        "iteration_s": float(np.median(steps[1:])),
        "sharing_cpu_s": sum(phases["share"] for phases in clients),
        "client_cpu_s": float(np.mean([loop(phases) for phases in clients])) / len(steps),
        "server_cpu_s": (loop(server) + server["finish"]) / len(steps),
        **of_step("step", worked[most], *told[most]),
        **of_step("late", worked[last], *told[last]),
        "fit_s": whole,
        "user_s": after.user - before.user,
        "system_s": after.system - before.system,
        "wire_gib": result.transcript.nbytes() / 2**30,
    }


def of_step(name: str, cpu: float, rounds: int, sent: dict[str, int]) -> Row:
    """The columns of one step: processor seconds, rounds, and bytes by kind of message."""
    kinds = {f"{name}{OF}{kind}": nbytes / 1e6 for kind, nbytes in sent.items()}
    told = {f"{name}_rounds": rounds, f"{name}_mb": sum(sent.values()) / 1e6}
    return {f"{name}_cpu_s": float(cpu), **told, **kinds}


def said(transcript: Transcript, begun: list[int]) -> list[tuple[int, dict[str, int]]]:
    """The rounds of each step, and its bytes by kind of message, most first.

    begun: the numbers of the questions that steps begin with, and of what comes after the last one.
    """
    steps: list[list[Envelope]] = [[] for _ in begun[1:]]
    for e in transcript.envelopes:
        step = bisect_right(begun, e.round // STRIDE) - 1
        if e.round >= ITERATE and 0 <= step < len(steps):
            steps[step].append(e)
    out = []
    for step_said in steps:
        kinds: dict[str, int] = {}
        for e in step_said:
            kinds[e.kind] = kinds.get(e.kind, 0) + e.nbytes
        order = sorted(kinds.items(), key=lambda item: -item[1])
        out.append((len({e.round for e in step_said}), dict(order)))
    return out


def part(row: Row, step: str) -> Iterator[tuple[str, float]]:
    """Megabytes of a step by message."""
    for key, value in row.items():
        if key.startswith(step + OF):
            yield key.removeprefix(step + OF), value


# --- data ------------------------------------------------------------------------------------------


def counts(cell: Row) -> list[int]:
    """Points of every client."""
    return [cell["m"] // cell["n"] + (j < cell["m"] % cell["n"]) for j in range(cell["n"])]


def write_points(cell: Row, folder: Path) -> float:
    """A mixture of k Gaussians of standard deviation 1, a float32 file a client; a bound of all values.

    The points are clipped to the bound, so that it is known beforehand.
    """
    rng = np.random.default_rng(0)
    d, bound = cell["d"], REACH
    centers = rng.uniform(-10, 10, (cell["k"], d)).astype(np.float32)
    for j, count in enumerate(counts(cell)):
        points = np.lib.format.open_memmap(folder / f"{j}.npy", "w+", np.float32, (count, d))
        for start in range(0, count, max(1, CHUNK // d)):
            part = points[start : start + max(1, CHUNK // d)]
            noise = rng.standard_normal(part.shape, np.float32)
            np.clip(centers[rng.integers(0, cell["k"], len(part))] + noise, -bound, bound, out=part)
        points.flush()
        del points
    return bound


def mapped(cell: Row, folder: Path) -> Iterator[Array]:
    """The files, mapped for reading."""
    for j in range(cell["n"]):
        yield np.load(folder / f"{j}.npy", mmap_mode="r")


# --- memory ----------------------------------------------------------------------------------------


def held(cell: Row, lanes: int) -> float:
    """What the parties hold at once, in GiB: shares of all clients, and replies to one question."""
    width = -(-cell["d"] // cell["ell"])
    numbers = cell["n"] * cell["m"] * lanes * (width + 1 + cell["k"])
    return 4 * numbers / 2**30


@click.command(help=str(__doc__).replace("\n\n", "\n\n\b\n"))
@click.option("--m", default=1_000_000, show_default=True, help="Points.")
@click.option("--d", default=100, show_default=True, help="Features.")
@click.option("--k", default=16, show_default=True, help="Clusters.")
@click.option("--n", default=10, show_default=True, help="Clients.")
@click.option("--ell", default=1, show_default=True, help="Segments of a point.")
@click.option("--t", type=int, help="Colluding clients tolerated; ceil(n / 3) by default, if n allows it.")
@click.option("--disclosure", type=click.Choice(tuple(DISCLOSURES)), default="distances", show_default=True,
              help="Policy: what the server sees.")  # fmt: skip
@click.option("--centers", type=click.Choice(["exact", "rounded"]), default="exact", show_default=True)
@click.option(
    "--scale",
    type=float,
    help="Integer steps a unit, of 16 units; chosen by the range otherwise, or as many as fit.",
)
@click.option("--max-iter", default=3, show_default=True, help="Iterations.")
@click.option("--threads", default=1, show_default=True, help="Threads of a party.")
@click.option("--folder", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Where the temporary folder of the points is made; they take 4 d bytes each.")  # fmt: skip
@click.option("--scratch", type=click.Path(exists=True, file_okay=False),
              help="Where shares lie, in files that are mapped; in memory otherwise.")  # fmt: skip
@click.option("--ladder", "most", type=click.IntRange(LEAST),
              help="All policies and centers, from 10,000 points to so many.")  # fmt: skip
@click.option("--picture", type=click.Path(dir_okay=False, path_type=Path), help="Draw a ladder there.")
@click.option("--quick", is_flag=True, help="A few thousand points.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Append rows to this file.")
def main(
    m: int,
    d: int,
    k: int,
    n: int,
    ell: int,
    t: int | None,
    disclosure: str,
    centers: str,
    scale: float | None,
    max_iter: int,
    threads: int,
    folder: Path | None,
    scratch: str | None,
    most: int | None,
    picture: Path | None,
    quick: bool,
    out: Path | None,
) -> None:
    """Run one setting and print its row, or a ladder and print its table."""
    if quick:
        m, d, k, n = 5000, 10, 4, 5
    if t is None:
        t = min(-(-n // 3), (n + 1) // 2 - ell)
    cell = {
        "m": m, "d": d, "k": k, "n": n, "ell": ell, "t": t, "max_iter": max_iter, "threads": threads,
        "disclosure": disclosure, "centers": centers, "scale": scale, "scratch": scratch,
    }  # fmt: skip
    if picture is not None:
        if most is None:
            raise click.UsageError("a picture is drawn of a ladder: add --ladder 1000000")
        require("matplotlib", "matplotlib", "plot")
    if most is not None:
        cells = [{"script": "scale", **step} for step in ladder(cell, most)]
        rows = list(run_grid(cells, lambda c: alone(c, folder), out))
        lines = [
            [row["policy"].split("(")[0], row["cell"]["centers"], f"{row['cell']['m']:,}"]
            + [f"{row[key]:.4g}" for key in COLUMNS]
            for row in rows
        ]
        settings = ", ".join(f"{key}={cell[key]}" for key in ("d", "k", "n", "ell", "t"))
        show(f"Scale, {settings}", ["policy", "centers", "m", *COLUMNS], lines)
        if picture is not None:
            write(lambda figure: curves(figure, rows), picture, 9, 6.5)
            click.echo(f"wrote {picture}")
        return
    held_most = held(cell, MAX_LANES)
    click.echo(f"the parties hold up to {held_most:.2f} GiB, their files {4 * m * d / 2**30:.2f} GiB")
    rows = list(run_grid([{"script": "scale", **cell}], lambda c: measure(c, folder), out))
    click.echo(", ".join(f"{key}={v}" for key, v in cell.items()))
    left_out = {"cell", "commit", "python", "numpy", "numba", "processor"}
    keys = [key for key in rows[0] if key not in left_out and OF not in key]
    lines = [[key, v if isinstance(v := rows[0][key], str) else f"{v:.4g}"] for key in keys]
    show(f"Scale, {rows[0]['policy']}", ["quantity", "value"], lines)
    parts = [dict(part(rows[0], step)) for step in ("step", "late")]
    kinds = dict.fromkeys(kind for sent in parts for kind in sent)
    sent = [[kind, *(f"{megabytes.get(kind, 0):.4g}" for megabytes in parts)] for kind in kinds]
    show("What steps send", ["message", "the most, MB", "the last one, MB"], sent)


if __name__ == "__main__":
    main()
