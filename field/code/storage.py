"""Where a party's rows lie: in memory, or in a file of its own that is mapped to memory.

A mapped file lets a party hold more shares than it has memory: pages that are not in use are written out and
dropped, and read again where a step comes to them.  The file has no name from the moment it exists, nobody
else may open it (mode 0600), and it goes with the process, however that ends.  What was written stays on the
disc until something else is written there: shares are as secret there as in memory, so a disc that others may
read later must be encrypted.
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

Array = NDArray[Any]


class NoRoom(OSError):  # noqa: N818 - what happened
    """A folder takes no file of the size that is needed."""


class Storage(Protocol):
    """Room for large arrays."""

    def zeros(self, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """A writable array of zeros, C-contiguous."""


@dataclass(frozen=True)
class Memory:
    """In memory, as any array."""

    def zeros(self, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        return np.zeros(shape, dtype)


@dataclass(frozen=True)
class Scratch:
    """In files without a name in this folder, a file an array."""

    folder: Path

    def zeros(self, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """Raises NoRoom if the folder cannot be written to, or its disc has no room for all of it."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if not size:
            return np.zeros(shape, dtype)
        try:
            with tempfile.TemporaryFile(dir=self.folder) as file:
                # All of it now: a disc that is full later would kill the process without a word.
                _reserve(file.fileno(), size)
                mapped = mmap.mmap(file.fileno(), size)
        except OSError as error:
            why = f"no file of {size:,} bytes in {self.folder}: {error.strerror}"
            raise NoRoom(error.errno, why) from error
        return np.frombuffer(mapped, dtype).reshape(shape)


def _reserve(file: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
        return
    blank = bytes(1 << 20)
    for start in range(0, size, len(blank)):
        os.write(file, blank[: size - start])


MEMORY = Memory()
