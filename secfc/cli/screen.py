"""Progress on the terminal, and nothing where there is none."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
    """Progress on stderr: shown on a terminal, silent otherwise and with --json."""

    console: Console
    quiet: bool

    @classmethod
    def stderr(cls, quiet: bool = False) -> Screen:
        from rich.console import Console

        return cls(Console(stderr=True, markup=False, highlight=False, emoji=False), quiet)

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
        with self.console.status(f"{what} ...", spinner="line"):
            yield

    @contextmanager
    def progress(self) -> Iterator[Callable[[PartyId, Exchange], None] | None]:
        """A bar fed by the exchanges of a run, None where nothing is shown."""
        if not self.live:
            yield None
            return
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        from secfc.roles.exchange import SERVER

        columns = (
            SpinnerColumn("line"),
            TextColumn("{task.description}"),
            BarColumn(24),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self.console, transient=True) as bar:
            task = bar.add_task("Clustering", total=None)  # nobody knows how many steps it takes
            steps = 0

            def watch(party: PartyId, exchange: Exchange) -> None:
                nonlocal steps
                if exchange.phase == "share" and exchange.send:
                    bar.update(task, description=f"Sharing points, part {exchange.round + 1}")
                elif exchange.phase == "align":
                    bar.update(task, description="Finding the union of the IDs")
                elif exchange.phase == "assign" and party == SERVER:
                    steps += 1
                    bar.update(task, description=f"Clustering, step {steps}")

            yield watch

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


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What the work returns, and its seconds."""
    begin = time.perf_counter()
    value = work()
    return value, time.perf_counter() - begin
