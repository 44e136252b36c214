"""What every benchmark shares: rows as JSON lines with circumstances, clocks, and a table."""

from __future__ import annotations

import importlib.util
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from secfc.grids.engine import code_version
from secfc.grids.rows import ResultFile, read_whole_rows
from secfc.roles.exchange import ITERATE, PartyId, Role

Row = dict[str, Any]


def circumstances() -> Row:
    """Commit, versions and processor: what a figure depends on beside its parameters."""
    git = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parent,
    )
    return {
        "commit": git.stdout.strip() or "unknown",
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "numba": version("numba"),
        "processor": processor(),
    }


def processor() -> str:
    """The processor's name."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def require(module: str, package: str, extra: str) -> None:
    """Raise UsageError, before anything is computed, if an optional package is missing."""
    if importlib.util.find_spec(module) is None:
        raise click.UsageError(f"this needs {package}: pip install 'secfc-clustering[{extra}]'")


def run_grid(
    cells: Iterable[Row], measure: Callable[[Row], Iterable[Row]], out: Path | None
) -> Iterator[Row]:
    """Measure every cell, append its rows to `out` as JSON lines, and yield them.

    A cell that stands in `out` as this same code measured it is not measured again, so an interrupted
    benchmark goes on where it stopped; rows of one cell are written together, when all are there.
    """
    kept = ResultFile(out, code_version())
    common = {"code": code_version(), **circumstances()}
    for cell in cells:
        known = kept.rows_of(cell)
        if not known:
            known = [{"cell": cell, **measured, **common} for measured in measure(cell)]
            kept.add(known)
        yield from known


def read_rows(path: Path) -> list[Row]:
    """Rows of a JSON-lines file."""
    return read_whole_rows(path)


def median_seconds(
    work: Callable[[], Any],
    *,
    clock: Callable[[], float] = time.process_time,
    budget: float = 1.0,
    least: int = 5,
    most: int = 51,
) -> float:
    """The median time of a call after one warm-up, over as many calls as the budget of seconds allows.

    process_time counts the processor time of all threads of this process; pass time.perf_counter for
    wall time.
    """
    work()
    started = time.perf_counter()
    work()
    once = time.perf_counter() - started
    times = []
    for _ in range(max(least, min(most, int(budget / max(once, 1e-9))))):
        start = clock()
        work()
        times.append(clock() - start)
    times.sort()
    return times[len(times) // 2]


def in_turns(
    works: dict[str, Callable[[], Any]], budget: float, least: int = 5, most: int = 41
) -> dict[str, tuple[float, float]]:
    """Median (processor, wall) seconds of calls that are measured in turns."""
    numbers = {}
    for name, work in works.items():
        work()
        start = time.perf_counter()
        work()
        # Calls too short for the clocks are repeated within one measurement.
        numbers[name] = max(1, int(5e-4 / max(time.perf_counter() - start, 1e-7)))
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    end = time.perf_counter() + budget
    for turn in range(most):
        if turn >= least and time.perf_counter() > end:
            break
        for name, work in works.items():
            work()  # what the others pushed out of the caches comes back
            cpu, wall = time.process_time(), time.perf_counter()
            for _ in range(numbers[name]):
                work()
            one = (time.process_time() - cpu, time.perf_counter() - wall)
            taken[name].append((one[0] / numbers[name], one[1] / numbers[name]))
    return {
        name: (sorted(c for c, _ in all_)[len(all_) // 2], sorted(w for _, w in all_)[len(all_) // 2])
        for name, all_ in taken.items()
    }


def peak_gib() -> float:
    """The largest resident set of this process so far, in GiB."""
    status = Path("/proc/self/status")
    if status.exists():  # where what `getrusage` tells begins with the process that started this one
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 2**20
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest / (2**30 if sys.platform == "darwin" else 2**20)


class Marked:
    """A role that notes when each of its exchanges begins, what they take of a processor, and the bytes."""

    def __init__(self) -> None:
        self.marks: list[tuple[int, float]] = []
        self.cpu = self.before = 0.0
        self.nbytes = 0
        self.sent: dict[tuple[PartyId, int], int] = {}  # in which exchange
        self.heard: list[list[tuple[PartyId, int]]] = []  # of whom which round, by exchange

    def role(self, role: Role[Any]) -> Role[Any]:
        """The same role."""
        inbox: Any = None
        while True:
            start = time.thread_time()
            try:
                exchange = role.send(inbox)
            except StopIteration as done:
                self.marks.append((1 << 62, time.perf_counter()))
                return done.value
            finally:
                self.cpu += time.thread_time() - start
            if exchange.round >= ITERATE and not self.before:
                self.before, self.cpu = time.process_time(), 0.0
            self.marks.append((exchange.round, time.perf_counter()))
            self.nbytes += sum(message.nbytes for message in exchange.send.values())
            for to in exchange.send:
                self.sent[to, exchange.round] = len(self.marks) - 1
            inbox = yield exchange
            self.heard.append(list(inbox.rounds.items()))


def show(title: str, columns: list[str], rows: Iterable[Mapping[str, Any] | list[Any]]) -> None:
    """Print a table."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right")
    for row in rows:
        values = [row.get(c, "") for c in columns] if isinstance(row, Mapping) else row
        table.add_row(*(str(v) for v in values))
    # Not folded into a narrow terminal: a table in a log is read in full lines.
    console = Console()
    console.width = max(console.width, 120 if console.is_terminal else 240)
    console.print(table)
