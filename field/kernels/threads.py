"""Work spread over threads: kernels run without the interpreter lock, so plain threads suffice.

A pool of our own instead of numba's threads: those spin while they wait, which costs more than it gains
when the processor has something else to do.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar

R = TypeVar("R")


@lru_cache(maxsize=8)
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="secfc")


# A forked child has the pool and none of its threads: work for it would wait for ever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


def run_parallel(tasks: Sequence[Callable[[], R]], threads: int) -> list[R]:
    """The results of independent tasks, in order; with one thread they run here, one after another."""
    if threads == 1 or len(tasks) == 1:
        return [task() for task in tasks]
    return list(_pool(threads).map(lambda task: task(), tasks))


def split_range(count: int, pieces: int) -> list[slice]:
    """At most `pieces` slices that cover range(count) evenly."""
    pieces = max(1, min(pieces, count))
    return [slice(i * count // pieces, (i + 1) * count // pieces) for i in range(pieces)]
