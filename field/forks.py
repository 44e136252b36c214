"""Forks wait until no other thread imports or compiles: a child has its locks, and nobody to free them.

Much is imported when it is first used, so the first run of a process imports in the thread that it runs in.
What is imported may compile, and what compiles may import: a fork lets go of all locks while it waits.
"""

from __future__ import annotations

import importlib
import os
import threading
import time
from typing import Any

LONGEST_IMPORT = 10.0  # seconds: a fork waits no longer

# Locks that a fork takes, in this order, and that both processes have free after it.
LOCKS: list[Any] = []
_here = threading.local()  # what a forking thread took


def hold_locks() -> None:
    """Take all locks when no other thread imports a module."""
    end = time.monotonic() + LONGEST_IMPORT
    _take_locks()
    while _imports_elsewhere() and time.monotonic() < end:
        free_locks()
        time.sleep(0.005)
        _take_locks()


def _take_locks() -> None:
    _here.taken = tuple(LOCKS)  # there may be more by the time they are freed
    for lock in _here.taken:
        lock.acquire()


def free_locks() -> None:
    """Free what was taken before a fork."""
    for lock in reversed(_here.taken):
        lock.release()


def _imports_elsewhere() -> bool:
    found = [find() for find in [*importlib._bootstrap._module_locks.values()]]  # type: ignore[attr-defined]
    return any(vars(lock).get("owner") not in (None, threading.get_ident()) for lock in found if lock)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=hold_locks, after_in_parent=free_locks, after_in_child=free_locks)
