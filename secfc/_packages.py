"""Check that `field` and `psu` are ours: two unrelated projects publish packages of these names.

And have forks wait for imports, as much is imported when it is first used.
"""

from __future__ import annotations

import importlib
import os
import threading
import time

LONGEST_IMPORT = 10.0  # seconds: a fork waits no longer


def await_imports() -> None:
    """Wait until no other thread imports a module: a forked child has its lock, and no thread to free it."""
    end = time.monotonic() + LONGEST_IMPORT
    while _imports_elsewhere() and time.monotonic() < end:
        time.sleep(0.005)


def _imports_elsewhere() -> bool:
    found = [find() for find in [*importlib._bootstrap._module_locks.values()]]  # type: ignore[attr-defined]
    return any(vars(lock).get("owner") not in (None, threading.get_ident()) for lock in found if lock)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=await_imports)


def check(name: str) -> None:
    """Import one of our companion packages and refuse a stranger.

    Raises ImportError naming the file that shadows ours and the remedy.
    """
    try:
        module = importlib.import_module(name)
    except SyntaxError as error:  # the package `field` of the index is Python 2 code
        raise ImportError(_explain(name, str(error.filename))) from error
    if not hasattr(module, "__secfc__"):
        raise ImportError(_explain(name, str(getattr(module, "__file__", "an unknown place"))))


def _explain(name: str, where: str) -> str:
    return (
        f"the package {name!r} imported from {where} is not the one that secfc-clustering ships. "
        f"If it is a file of yours, rename it; if it was installed, run "
        f"`pip uninstall {name}` and then `pip install --force-reinstall secfc-clustering`."
    )
