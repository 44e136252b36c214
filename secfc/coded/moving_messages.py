"""What a step in two questions asks, see `secfc.disclosure.compare.asking`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secfc.coded.messages import Compare
from secfc.roles.checks import is_array, refuse

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class CompareOwn(Compare, tag=183):
    """Server to every client: who compares the distance of each point to its own center with those to others.

    All learn which points another center wins, and nothing of which.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse(self.factor != 1, "a point's own center is compared with others by a factor of 1")
        refuse(int(self.labels.min(initial=0)) < 0, "every point has a center of its own")


@dataclass(frozen=True, eq=False, repr=False)
class CompareMoved(Compare, tag=184):
    """Server to every client: the same labels, and who finds the nearest centers of the points that moved.

    moved: (ceil(m / 8),) uint8, a bit a point, the first one lowest: those that another center won, at least
    one.
    """

    moved: Array

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse(self.factor != 1, "points that moved go to the nearest center")
        m, bits = len(self.labels), self.moved
        right = is_array(bits, "u", 1) and bits.dtype == np.uint8 and len(bits) == -(-m // 8)
        refuse(not right, "which points moved is a bit a point")
        refuse(not bits.any(), "at least one point moved")
        refuse(m % 8 != 0 and int(bits[-1]) >> m % 8 != 0, "behind the last point there are zeros")

    @property
    def subject(self) -> bytes:
        state = hashlib.blake2b(super().subject, digest_size=32, person=b"secfc-moved")
        state.update(np.ascontiguousarray(self.moved).data)
        return state.digest()
