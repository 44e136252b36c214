"""One run on shared labels, as far as it is: what is public of it, at the server and at every client."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.code.rows import cluster_sizes
from secfc.roles.messages import compact_labels

Array = NDArray[Any]


@dataclass(eq=False, repr=False)
class SharedRun:
    """The state of a run.

    number: of the restart.  start: the first labels (m,).  sizes: (k,) before the first step and after each.
    committee: who shares the labels now.
    """

    number: int
    start: Array
    k: int
    max_iter: int
    sizes: list[Array]
    step: int = 0
    converged: bool = False
    over: bool = False
    committee: list[int] = field(default_factory=list)

    @classmethod
    def begun(cls, number: int, labels: Array, k: int, max_iter: int) -> SharedRun:
        """Before the first step from labels (m,)."""
        return cls(number, compact_labels(labels), k, max_iter, [cluster_sizes(labels, k)])

    @property
    def now(self) -> Array:
        """The sizes (k,) after the steps so far."""
        return self.sizes[self.step]

    def begin_again(self) -> None:
        self.sizes, self.step, self.converged, self.over = self.sizes[:1], 0, False, False

    def go_on(self, converged: bool, sizes: Array) -> None:
        """After a step that led to these."""
        self.converged, self.over = converged, converged or self.step == self.max_iter
        if self.step < self.max_iter:
            # The last of all steps is one too many: it says whether the run converged.
            self.step, self.sizes = self.step + 1, [*self.sizes, sizes]

    @property
    def foregone(self) -> bool:
        """Whether all points are in one cluster, or in none, so that everybody knows the labels."""
        return bool(np.count_nonzero(self.now) < 2)

    @property
    def known(self) -> Array:
        """The last labels (m,) of such a run."""
        now = self.now
        return np.full_like(self.start, int(now.argmax())) if now.any() else self.start
