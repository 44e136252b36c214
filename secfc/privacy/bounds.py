"""Bounds on contributions: numbers that must not depend on private data, with where they come from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from secfc.data.arguments import REAL, hold
from secfc.privacy.errors import PrivacyError

Array = NDArray[Any]
Source = Literal["given", "public data", "private data"]


@dataclass(frozen=True)
class Bound:
    """A radius or clipping bound in data units, and its source.

    Construct with `given`, `from_public` or `from_private`.
    """

    value: float
    source: Source = "given"

    def __post_init__(self) -> None:
        hold(self, {"value": REAL})
        if not 0 < self.value < math.inf:
            raise ValueError(f"a bound of {self.value} must be positive and finite")
        if self.source not in get_args(Source):
            raise ValueError(
                f"source={self.source!r} must be one of {', '.join(map(repr, get_args(Source)))}"
            )

    @classmethod
    def given(cls, value: float) -> Bound:
        """A number that the caller knows without looking at private data."""
        return cls(float(value), "given")

    @classmethod
    def from_public(cls, points: Array, quantile: float = 0.9, center: Array | None = None) -> Bound:
        """A quantile of the norms of public points (q, d), about a public center if one is given."""
        if not 0 < quantile <= 1:
            raise ValueError(f"quantile={quantile} must be in (0, 1]")
        moved = np.asarray(points, np.float64) - (0.0 if center is None else center)
        return cls(float(np.quantile(np.linalg.norm(moved, axis=-1), quantile)), "public data")

    @classmethod
    def from_private(cls, value: float, *, leak: bool = False) -> Bound:
        """A number read off private data, refused unless the caller accepts that it leaks.

        Raises PrivacyError without leak=True.
        """
        if not leak:
            raise PrivacyError(
                "a bound read off private data is itself a release that no noise protects: pass a number you "
                "know (Bound.given), take it from public server data (Bound.from_public), or accept the "
                "leak explicitly with leak=True"
            )
        return cls(float(value), "private data")

    @property
    def private(self) -> bool:
        """Whether it was read off private data: then the run is NonPrivate."""
        return self.source == "private data"

    def steps(self, scale: float) -> int:
        """The bound on the integers of a quantizer: the largest whole number within scale * value."""
        whole = math.floor(scale * self.value)
        if whole < 1:
            raise ValueError(f"scale={scale:g} leaves no integer within the bound {self.value:g}: raise it")
        return whole
