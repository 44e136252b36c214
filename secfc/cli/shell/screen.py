"""Progress on the terminal, and nothing where there is none."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from secfc.cli.shell import verbosity as told

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from secfc.roles.exchange import Exchange, PartyId
    from secfc.transport.simulate import Watch

SLOW = 4.0  # seconds of compiling after which it is worth a remark
COMPILING = (
    "Compiling the numerical kernels, up to a minute. They are kept on disk: this\n"
    "happens on the first use only."
)


class RunProgress:
    """What a bar says of a run, exchange by exchange, and of the time that is left.

    limit: of steps, None if unknown.  parts: in which points are shared, None if unknown.
    """

    def __init__(self, bar: Progress, limit: int | None, parts: int | None) -> None:
        self.bar, self.limit, self.parts = bar, limit, parts
        self.task = bar.add_task("Clustering", total=None, left="")
        self.steps, self.begun, self.sharing = 0, 0.0, 0.0

    def show(self, party: PartyId, exchange: Exchange) -> None:
        """An exchange of a party has begun."""
        from secfc.roles.exchange import SERVER, SHARE

        if exchange.phase == "share" and exchange.send:
            self.show_sharing(exchange.round - SHARE)
        elif exchange.phase == "align":
            self.bar.update(self.task, description="Finding the union of the IDs")
        elif exchange.phase == "assign" and party == SERVER:
            self.show_step()

    def show_sharing(self, done: int) -> None:
        """Report how many parts of the points are shared; once all are, they are tested."""
        self.sharing = self.sharing or time.monotonic()
        if self.parts is not None and done >= self.parts:
            self.bar.update(self.task, description="Testing points", left="")
            return
        of, left = "" if self.parts is None else f" of {self.parts}", ""
        if self.parts is not None and done:
            left = rough_duration((time.monotonic() - self.sharing) / done * (self.parts - done))
        self.bar.update(self.task, description=f"Sharing points, part {done + 1}{of}", left=left)

    def show_step(self) -> None:
        """The server begins another step."""
        self.begun = self.begun or time.monotonic()
        each, left = (time.monotonic() - self.begun) / max(self.steps, 1), ""
        if self.limit is not None and 0 < self.steps < self.limit:
            left = at_most(each * (self.limit - self.steps))
        self.steps += 1
        self.bar.update(self.task, description=f"Clustering, step {self.steps}", left=left)


@dataclass(frozen=True)
class Screen:
    """Progress on stderr: shown on a terminal, silent otherwise, with --json and with --quiet."""

    console: Console
    quiet: bool

    @classmethod
    def stderr(cls, quiet: bool = False) -> Screen:
        from rich.console import Console

        silent = quiet or told.is_quiet()
        return cls(Console(stderr=True, markup=False, highlight=False, emoji=False), silent)

    @property
    def is_live(self) -> bool:
        """Whether something may move."""
        return self.console.is_terminal and not self.quiet

    @contextmanager
    def remark_compiling(self) -> Iterator[None]:
        """A line that stays, as soon as kernels have long been compiled in the body; terminal or not."""
        from field.kernels.compiling import loading_seconds

        done, before = threading.Event(), loading_seconds()

        def watch_kernels() -> None:
            while not done.wait(SLOW / 10):
                if loading_seconds() - before > SLOW:
                    self.console.print(COMPILING, soft_wrap=True)
                    return

        if not self.quiet:
            threading.Thread(target=watch_kernels, daemon=True).start()
        try:
            yield
        finally:
            done.set()

    @contextmanager
    def status(self, what: str) -> Iterator[None]:
        """A spinner while the body runs."""
        if not self.is_live:
            yield
            return
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn("line"), TextColumn("{task.description} ..."), TimeElapsedColumn())
        with Progress(*columns, console=self.console, transient=True) as bar:
            bar.add_task(what, total=None)
            yield

    @contextmanager
    def counted(self, what: str, total: int) -> Iterator[Callable[[], None]]:
        """A bar of so many pieces of work, with the time left; call what it gives after each."""
        from rich.progress import Progress

        with Progress(console=self.console, transient=True, disable=not self.is_live) as bar:
            task = bar.add_task(what, total=total)
            yield lambda: bar.advance(task)

    @contextmanager
    def show_run(
        self, limit: int | None = None, parts: int | None = None
    ) -> Iterator[Callable[[PartyId, Exchange], None] | None]:
        """A bar fed by the exchanges of a run, None where nothing is shown.

        limit: of steps, as nobody knows how many it takes; what is left is then no more than the time shown.
        parts: in which points are shared, if that is known.
        """
        if not self.is_live:
            yield None
            return
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (
            SpinnerColumn("line"),
            TextColumn("{task.description}"),
            BarColumn(24),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
        )
        with Progress(*columns, console=self.console, transient=True) as bar:
            yield RunProgress(bar, limit, parts).show

    @contextmanager
    def show_count(self, what: str, total: int) -> Iterator[Callable[[int, int, Any], None]]:
        """A bar of so many, with the time that is left: told how many are done."""
        if not self.is_live:
            yield lambda done, total, row: None
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(24),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self.console, transient=True) as bar:
            task = bar.add_task(what, total=total)
            yield lambda done, total, row: bar.update(task, completed=done, total=total)

    def note_resumption(self, watch: Watch | None) -> Watch:
        """The watch, which also says where an interrupted run goes on."""
        from secfc.roles.exchange import SERVER

        steps: int | None = None  # that the server repeats from its journal

        def note(party: PartyId, exchange: Exchange) -> None:
            nonlocal steps
            if party == SERVER:
                if exchange.taken is not None:
                    steps = (steps or 0) + (exchange.phase == "assign")
                elif steps is not None:
                    if not self.quiet:
                        where = f"after step {steps}" if steps else "before the first step"
                        self.console.print(f"Resumed {where}.", soft_wrap=True)
                    steps = None
            if watch is not None:
                watch(party, exchange)

        return note


def at_most(seconds: float) -> str:
    """What is left, for people.

    >>> at_most(61.2)
    'at most 0:01:02 left'
    """
    return f"at most {timedelta(seconds=math.ceil(seconds))} left"


def rough_duration(seconds: float) -> str:
    """What is left where that can be told, for people.

    >>> rough_duration(61.2)
    'about 0:01:02 left'
    """
    return f"about {timedelta(seconds=math.ceil(seconds))} left"


def time_compiled(work: Callable[[], Any], wall: dict[str, float], step: str) -> Any:
    """What the work returns; its seconds go into a table, and those of loading kernels to "prepare" there."""
    from field.kernels.compiling import loading_seconds

    before = loading_seconds()
    value, spent = time_work(work)
    wall["prepare"] = loading_seconds() - before
    wall[step] = spent - wall["prepare"]
    return value


def time_work(work: Callable[[], Any]) -> tuple[Any, float]:
    """What the work returns, and its seconds."""
    begin = time.perf_counter()
    value = work()
    return value, time.perf_counter() - begin
