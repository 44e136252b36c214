"""What an algorithm promises: a budget, and whom it protects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from secfc.privacy.calibration import Budget
from secfc.privacy.neighbors import Neighbors


@dataclass(frozen=True)
class Promise:
    """A budget for everything that a run releases, under these neighbors."""

    budget: Budget
    neighbors: Neighbors

    @classmethod
    def of(cls, algorithm: Any) -> Promise | None:
        """That of an algorithm, also where its features are scaled first; None if it has no budget."""
        inner = getattr(algorithm, "algorithm", algorithm)
        spending = getattr(inner, "spending", None)
        if spending is not None:
            return cls(spending.budget, spending.neighbors)
        if hasattr(inner, "epsilon") and hasattr(inner, "neighbors"):
            return cls(Budget(inner.epsilon, inner.delta), inner.neighbors)
        return None

    def wide(self, n: int, m: int) -> str | None:
        """What is wrong with delta for n clients with m points together, in a sentence; None if nothing is.

        A mechanism that publishes each unit with probability delta keeps the promise.
        """
        units = n if self.neighbors.unit == "client" else m
        if self.budget.delta * units <= 1:
            return None
        return (
            f"delta={self.budget.delta:g} for {units} {self.neighbors.unit}s: a claim with delta above "
            f"1/{units} allows that one of them is published whole. Take delta well below {1 / units:.1g}"
        )

    def fallen(self) -> str:
        """What a run that ended early may have cost, in a sentence."""
        return (
            f"It may have released what epsilon={self.budget.epsilon:g} at delta={self.budget.delta:g} pays "
            "for: count that as spent"
        )
