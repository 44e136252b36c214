"""How kernels are compiled: lazily, cached on disk, and without the interpreter lock; and how long that took.

numba compiles a kernel, or loads it, when it is first called, under a lock that it announces by an event:
time in which a thread holds that lock, or waits for it, is no work of any protocol.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core import event


def compiled(**options: Any) -> Callable[[Any], Any]:
    """numba.njit with the on-disk cache, or without it where no cache directory can be written.

    Kernels and the helpers they inline stand in one file: the cache notices changes of that file only.
    """

    def wrap(function: Any) -> Any:
        try:
            return njit(cache=True, nogil=True, **options)(function)
        except RuntimeError:  # "cannot cache function: no locator available"
            return njit(nogil=True, **options)(function)

    return wrap


class _Loading(event.Listener):
    """Seconds in which some thread held the lock, or waited for it."""

    def __init__(self) -> None:
        self.guard = threading.Lock()
        self.depth, self.since, self.total = 0, 0.0, 0.0

    def on_start(self, event: object) -> None:
        with self.guard:
            if self.depth == 0:
                self.since = time.perf_counter()
            self.depth += 1

    def on_end(self, event: object) -> None:
        with self.guard:
            self.depth -= 1
            if self.depth == 0:
                self.total += time.perf_counter() - self.since


_loading = _Loading()
event.register("numba:compiler_lock", _loading)  # type: ignore[no-untyped-call]


def working_clock() -> float:
    """Seconds as `time.perf_counter` counts them, less those of compiling and loading kernels so far.

    Between two readings outside of any kernel's first call, the difference is time that was worked.
    """
    return time.perf_counter() - _loading.total
