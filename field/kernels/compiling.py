"""How kernels are compiled: lazily, kept on disk, and without the interpreter lock; and how long that took.

A kept kernel is used only if its file is as it was written: a disk or a copy that damaged it could else
change results.  Where kernels cannot be kept, or what was kept cannot be read, they are compiled again.

numba compiles a kernel, or loads it, when it is first called, under a lock that it announces by an event:
time in which a thread holds that lock, or waits for it, is no work of any protocol.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from numba import njit
from numba.core import caching, event
from numba.core.compiler_lock import global_compiler_lock

from field.forks import LOCKS

# Without types, as numba has none of these.
FunctionCache: Any = caching.FunctionCache
IndexDataCacheFile: Any = caching.IndexDataCacheFile

DIGEST = 32  # bytes behind those of a kept kernel


def compiled(**options: Any) -> Callable[[Any], Any]:
    """numba.njit with the on-disk cache, or without it where no cache directory can be written.

    Kernels and the helpers they inline stand in one file: the cache notices changes of that file only.
    """

    def wrap(function: Any) -> Any:
        kernel = njit(nogil=True, **options)(function)
        with suppress(RuntimeError):  # "cannot cache function: no locator available"
            kernel._cache = KernelCache(function)
        return kernel

    return wrap


def _reading(locator: Any) -> Any:
    """The same place for kernels, if some were kept there: it need not be one that can be written to."""

    def find(self: Any) -> None:
        if not any(Path(self.get_cache_path()).glob("*.nbi")):
            raise OSError("nothing is kept there")

    return type(f"Reading{locator.__name__}", (locator,), {"ensure_cache_path": find})


class KernelPlaces(FunctionCache._impl_class):  # type: ignore[misc]
    """Where kernels are kept, and, as in an image that was warmed up, only read."""

    _first, *_rest = FunctionCache._impl_class._locator_classes  # the first is NUMBA_CACHE_DIR
    _locator_classes = (_first, _reading(_first), *_rest, *map(_reading, _rest))


class KernelCache(FunctionCache):  # type: ignore[misc]
    """The kept overloads of one kernel, whose loss costs time and ends no run."""

    _impl_class = KernelPlaces

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = CheckedCacheFile(self.cache_path, self._impl.filename_base, stamp)

    def save_overload(self, signature: Any, data: Any) -> None:
        """Keep a compiled overload, if its folder takes it."""
        try:
            super().save_overload(signature, data)
        except OSError as error:
            warnings.warn(
                f"compiled kernels cannot be kept in {self.cache_path} ({error.strerror}), so every start "
                "compiles them again: make room there, or set NUMBA_CACHE_DIR to a folder that can be "
                "written to",
                RuntimeWarning,
                stacklevel=2,
            )


class CheckedCacheFile(IndexDataCacheFile):  # type: ignore[misc]
    """A kernel's files on disk, each kernel before a digest of its bytes."""

    def _load_index(self) -> dict[Any, str]:
        try:
            return dict(super()._load_index())
        except Exception:  # whatever damaged bytes make of a pickle: nothing is kept there
            return {}

    def _load_data(self, name: str) -> Any:
        kept = Path(self._data_path(name)).read_bytes()
        if _digest(kept[:-DIGEST]) != kept[-DIGEST:]:
            raise OSError(f"{name} is not as it was written")  # which counts as a file that is not there
        return super()._load_data(name)  # the digest stands behind what is read

    def _save_data(self, name: str, data: Any) -> None:
        kept = self._dump(data)
        with self._open_for_write(self._data_path(name)) as file:
            file.write(kept + _digest(kept))


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=DIGEST, person=b"secfc kernel").digest()


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


# A process that is forked while a thread compiles would have these taken, and no thread to let them go.
LOCKS.extend((global_compiler_lock, _loading.guard))


def loading_seconds() -> float:
    """Seconds of compiling and loading kernels so far, with those of what is being compiled now."""
    with _loading.guard:
        under_way = time.perf_counter() - _loading.since if _loading.depth else 0.0
        return _loading.total + under_way


def working_clock() -> float:
    """Seconds as `time.perf_counter` counts them, less those of compiling and loading kernels so far.

    Between two readings outside of any kernel's first call, the difference is time that was worked.
    """
    return time.perf_counter() - _loading.total


# --------------------------------------------------------------------------------------------------
# Work spread over threads: kernels run without the interpreter lock, so plain threads suffice.
#
# A pool of our own instead of numba's threads: those spin while they wait, which costs more than it gains
# when the processor has something else to do.

R = TypeVar("R")


class _Here(threading.local):
    """The job whose task this thread is at."""

    job: _Job | None = None


_here = _Here()


class _Job:
    """Tasks of one call, and what came of them: whoever joins takes the next task that nobody took."""

    def __init__(self, tasks: Sequence[Callable[[], Any]]) -> None:
        self.tasks = tasks
        # One step of an iterator is one step of the interpreter, so no task is taken twice.
        self.left, self.helpers = iter(range(len(tasks))), 0
        self.results: dict[int, Any] = {}
        self.errors: dict[int, BaseException] = {}
        self.outer = _here.job

    def work(self) -> None:
        before, _here.job = _here.job, self
        try:
            for i in self.left:
                try:
                    self.results[i] = self.tasks[i]()
                except BaseException as error:
                    self.errors[i] = error
        finally:  # of an interruption between two tasks
            _here.job = before

    def is_part(self, whole: _Job) -> bool:
        """Whether a task of the other one waits for this one."""
        return self.outer is not None and (self.outer is whole or self.outer.is_part(whole))


class _Pool:
    """Threads that wait for tasks, beside those that call."""

    def __init__(self, helpers: int) -> None:
        lock = threading.Lock()
        self.idle, self.waiting = threading.Condition(lock), threading.Condition(lock)
        self.open: list[_Job] = []  # of which some tasks may be left
        for _ in range(helpers):
            threading.Thread(target=self._help, name="secfc", daemon=True).start()

    def run(self, job: _Job) -> None:
        with self.idle:
            self.open.append(job)
            self.idle.notify(len(job.tasks) - 1)
            self.waiting.notify_all()
        try:
            job.work()
        finally:
            with self.waiting:
                self._close(job)
        with self.waiting:
            while job.helpers:
                # Who waits for tasks takes over what these spread, and nothing else: that could take longer.
                parts = [other for other in self.open if other.is_part(job)]
                if parts:
                    self._join(parts[-1])
                else:
                    self.waiting.wait()

    def _help(self) -> None:
        with self.idle:
            while True:
                self.idle.wait_for(lambda: self.open)
                self._join(self.open[-1])

    def _join(self, job: _Job) -> None:
        """Work, where the lock is held, and hold it again."""
        job.helpers += 1
        self.idle.release()
        try:
            job.work()
        finally:
            self.idle.acquire()
            job.helpers -= 1
            self._close(job)
            if not job.helpers:
                self.waiting.notify_all()

    def _close(self, job: _Job) -> None:
        if job in self.open:
            self.open.remove(job)


_pool = lru_cache(maxsize=None)(_Pool)

# A forked child has the pool and none of its threads: work for it would wait for ever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


def run_parallel(tasks: Sequence[Callable[[], R]], threads: int) -> list[R]:
    """The results of independent tasks, in order; with one thread they run here, one after another.

    Each thread, of which this one is one, takes the next task that nobody took; of tasks that spread others,
    whoever has nothing left takes these.  Raises what the first of the tasks raises, once all have ended.
    """
    if threads == 1 or len(tasks) == 1:
        return [task() for task in tasks]
    job = _Job(tasks)
    if tasks:
        _pool(threads - 1).run(job)
    if job.errors:
        raise job.errors[min(job.errors)]
    return [job.results[i] for i in range(len(tasks))]


def split_range(count: int, pieces: int) -> list[slice]:
    """At most `pieces` slices that cover range(count) evenly."""
    pieces = max(1, min(pieces, count))
    return [slice(i * count // pieces, (i + 1) * count // pieces) for i in range(pieces)]
