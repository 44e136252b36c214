"""How kernels are compiled: lazily, cached on disk, and without the interpreter lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


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
