"""Binary digits of what a contest compares, some blocks at a time, so that nobody holds all of them."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from field.compare import bitslice
from field.compare.contest import Contest
from field.ring.basis import Basis

Array = NDArray[Any]


class Sizes(Protocol):
    """What is known of the contest: see `field.compare.dealt.Schedule`."""

    @property
    def contest(self) -> Contest: ...

    @property
    def basis(self) -> Basis: ...

    @property
    def per(self) -> int: ...

    @property
    def blocks(self) -> tuple[int, int]: ...

    @property
    def weights(self) -> Array: ...


class Differences:
    """The binary digits of 2 (u M_b - v M_a) for the comparisons of a contest, some blocks at a time."""

    def __init__(self, schedule: Sizes, values: Array) -> None:
        from field.kernels import comparing

        self._padded = _padded(values, bitslice.WORD * schedule.per)
        self._pairs, self._weights = schedule.contest.pairs, schedule.weights
        self._per = schedule.per
        self._garner = comparing.garner(schedule.basis.primes)

    def slice(self, begin: int, out: Array) -> None:
        """Overwrite out (blocks, rows, width) with the digits of block `begin` and those after it."""
        from field.kernels import comparing

        comparing.slice_differences(
            self._padded, self._pairs, self._weights, self._per, begin, *self._garner, out
        )


class Values:
    """The binary digits of given residues (lanes, comparisons, m), handed out as `Differences` does."""

    def __init__(self, schedule: Sizes, values: Array) -> None:
        from field.kernels import comparing

        count, width = schedule.blocks
        padded = _padded(values, bitslice.WORD * schedule.per).reshape(len(values), -1)
        self._flat = _padded(padded, count * width * bitslice.WORD)
        self._garner = comparing.garner(schedule.basis.primes)

    def slice(self, begin: int, out: Array) -> None:
        """Overwrite out (blocks, rows, width) with the digits of block `begin` and those after it."""
        from field.kernels import comparing

        comparing.slice_integers(self._flat, begin, *self._garner, out)


def _padded(residues: Array, count: int) -> Array:
    """Residues (..., m) with zeros up to (..., count), C-contiguous; not copied if they are so already."""
    if residues.shape[-1] == count:
        return np.ascontiguousarray(residues)
    out = np.zeros((*residues.shape[:-1], count), residues.dtype)
    out[..., : residues.shape[-1]] = residues
    return out
