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

from secfc.cli import verbosity as told

if TYPE_CHECKING:
    from rich.console import Console

    from secfc.roles.exchange import Exchange, PartyId
    from secfc.transport.simulate import Watch

SLOW = 4.0  # seconds after which preparing is worth a remark
COMPILING = (
    "Compiling the numerical kernels. They are kept on disk: this happens on the first use only, and takes "
    "up to a minute."
)


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
    def live(self) -> bool:
        """Whether something may move."""
        return self.console.is_terminal and not self.quiet

    @contextmanager
    def remark(self, sentence: str) -> Iterator[None]:
        """A line that stays, as soon as the body has taken long; terminal or not."""
        timer = threading.Timer(SLOW, lambda: self.console.print(sentence, soft_wrap=True))
        timer.daemon = True
        if not self.quiet:
            timer.start()
        try:
            yield
        finally:
            timer.cancel()

    @contextmanager
    def status(self, what: str) -> Iterator[None]:
        """A spinner while the body runs."""
        if not self.live:
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

        with Progress(console=self.console, transient=True, disable=not self.live) as bar:
            task = bar.add_task(what, total=total)
            yield lambda: bar.advance(task)

    @contextmanager
    def progress(
        self, limit: int | None = None, parts: int | None = None
    ) -> Iterator[Callable[[PartyId, Exchange], None] | None]:
        """A bar fed by the exchanges of a run, None where nothing is shown.

        limit: of steps, as nobody knows how many it takes; what is left is then no more than the time shown.
        parts: in which points are shared, if that is known.
        """
        if not self.live:
            yield None
            return
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        from secfc.roles.exchange import SERVER, SHARE

        columns = (
            SpinnerColumn("line"),
            TextColumn("{task.description}"),
            BarColumn(24),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
        )
        with Progress(*columns, console=self.console, transient=True) as bar:
            task = bar.add_task("Clustering", total=None, left="")
            steps, begun, sharing = 0, 0.0, 0.0

            def watch(party: PartyId, exchange: Exchange) -> None:
                nonlocal steps, begun, sharing
                if exchange.phase == "share" and exchange.send:
                    sharing, done = sharing or time.monotonic(), exchange.round - SHARE
                    of, left = "", ""
                    if parts is not None and done < parts:
                        of = f" of {parts}"
                        left = (
                            rough_duration((time.monotonic() - sharing) / done * (parts - done))
                            if done
                            else ""
                        )
                    what = "Testing points" if parts is not None and done >= parts else "Sharing points"
                    part = "" if what == "Testing points" else f", part {done + 1}{of}"
                    bar.update(task, description=f"{what}{part}", left=left)
                elif exchange.phase == "align":
                    bar.update(task, description="Finding the union of the IDs")
                elif exchange.phase == "assign" and party == SERVER:
                    begun = begun or time.monotonic()
                    each = (time.monotonic() - begun) / max(steps, 1)
                    left = at_most(each * (limit - steps)) if limit is not None and 0 < steps < limit else ""
                    steps += 1
                    bar.update(task, description=f"Clustering, step {steps}", left=left)

            yield watch

    @contextmanager
    def counting(self, what: str, total: int) -> Iterator[Callable[[int, int, Any], None]]:
        """A bar of so many, with the time that is left: told how many are done."""
        if not self.live:
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

    def resuming(self, watch: Watch | None) -> Watch:
        """The same, which also says where a run goes on that was interrupted."""
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


def time_work(work: Callable[[], Any]) -> tuple[Any, float]:
    """What the work returns, and its seconds."""
    begin = time.perf_counter()
    value = work()
    return value, time.perf_counter() - begin
