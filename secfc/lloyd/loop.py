"""Lloyd's heuristic, once: the same loop is the plaintext oracle and the secure protocol.

The loop asks a `Source` for one step, and a source may be plaintext integers or coded replies of clients.
The policy both share, without which exactness has no meaning:

* the nearest center wins by comparison of exact integers, ties go to the lowest index;
* an empty cluster never wins, so it stays empty;
* equal points are separate points, each counted;
* the loop ends when no label changes, or after max_iter steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from field.code.rows import cluster_sizes
from field.ring.exact import Exact
from secfc.roles.exchange import Role
from secfc.roles.messages import compact_labels

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Step:
    """One step of Lloyd's heuristic from some labels.

    labels: (m,) int32, the nearest center of each point.  within: for each cluster of the labels that
    the step started from, the sum of scaled distances of its own points, or None if nobody may know it.
    """

    labels: Array
    within: tuple[int, ...] | None


class Stepper(Protocol):
    """Where steps come from: a role fragment, driven with `yield from`."""

    def step(self, labels: Array, k: int) -> Role[Step]:
        """The next assignment after labels (m,) in [-1, k)."""
        ...


class Source(Stepper, Protocol):
    """Where steps, and what starts need, come from."""

    def distances(self, labels: Array, k: int) -> Role[Exact]:
        """Exact scaled distances (k, m) to the centers of labels."""
        ...

    def drawn(self, newest: Array, draw: Callable[[Exact], int]) -> Role[int]:
        """The point that `draw` chooses by distances (1, m) to the one cluster of labels newest."""
        ...

    def separated(self, labels: Array, k: int, factor: int) -> Role[Array]:
        """The center whose factor-fold squared distance is at most every other's, or -1: (m,) int32."""
        ...


def step_of(scaled: Exact, labels: Array, k: int) -> Step:
    """The step that distances (k, m) decide."""
    return Step(scaled.nearest(cluster_sizes(labels, k)), scaled.within(labels))


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """A finished run of the heuristic.

    history: the labels before the first step and after every one, in the smallest integer type.
    within: see Step, for the last labels.  steps: how many there were, if not all of them are in the history.
    """

    k: int
    history: tuple[Array, ...]
    within: tuple[int, ...] | None
    converged: bool
    steps: int | None = None

    @property
    def labels(self) -> Array:
        return self.history[-1]

    @property
    def n_iter(self) -> int:
        return len(self.history) - 1 if self.steps is None else self.steps

    def cost(self, scale: float | Fraction) -> float | None:
        """The same in squared data units, for rows of so many steps a unit."""
        scaled = self.scaled_cost
        return None if scaled is None else float(scaled / Fraction(scale) ** 2)

    @property
    def scaled_cost(self) -> Fraction | None:
        """Sum of squared distances of points to the means of their clusters, in integer units."""
        if self.within is None:
            return None
        sizes = cluster_sizes(self.labels, self.k)
        return sum(
            (Fraction(w, int(s) ** 2) for w, s in zip(self.within, sizes, strict=True) if s),
            start=Fraction(0),
        )


def cheaper(a: Trace, b: Trace) -> bool:
    """Whether a has the lower cost, exactly."""
    left, right = a.scaled_cost, b.scaled_cost
    return left is not None and right is not None and left < right


def lloyd(labels: Array, k: int, max_iter: int, source: Stepper) -> Role[Trace]:
    """Lloyd's heuristic from labels (m,) until nothing changes or max_iter steps are done."""
    history = [compact_labels(labels)]
    for _ in range(max_iter):
        step = yield from source.step(labels, k)
        history.append(compact_labels(step.labels))
        if np.array_equal(step.labels, labels):
            return Trace(k, tuple(history), step.within, True)
        labels = step.labels
    # The cost belongs to the labels that are returned, so their own centers are measured once more.
    step = yield from source.step(labels, k)
    return Trace(k, tuple(history), step.within, bool(np.array_equal(step.labels, labels)))


class PlainSource:
    """Steps over integer points (m, d) that one party holds: needs no messages."""

    def __init__(self, points: Array) -> None:
        self.points = points

    def sums(self, labels: Array, k: int) -> Array:
        """Integer sums of every cluster: (k, d) int64."""
        from field.kernels import scalar as kernels

        sums = np.zeros((k, self.points.shape[1]), np.int64)
        kernels.sum_points(self.points, labels, sums)
        return sums

    def scaled(self, labels: Array, k: int) -> Exact:
        """Exact sum_f (S_hf - s_h x_if)**2: (k, m)."""
        from field.kernels import scalar as kernels

        sums = self.sums(labels, k)
        high, low = np.empty((2, k, len(self.points)), np.uint64)
        kernels.plain_distances(self.points, sums, cluster_sizes(labels, k), high, low)
        return Exact(high, low)

    def step(self, labels: Array, k: int) -> Role[Step]:
        return _nobody(step_of(self.scaled(labels, k), labels, k))

    def distances(self, labels: Array, k: int) -> Role[Exact]:
        return _nobody(self.scaled(labels, k))

    def drawn(self, newest: Array, draw: Callable[[Exact], int]) -> Role[int]:
        return _nobody(draw(self.scaled(newest, 1)))

    def separated(self, labels: Array, k: int, factor: int) -> Role[Array]:
        return _nobody(self.scaled(labels, k).separated(cluster_sizes(labels, k), factor))


def _nobody(value: Any) -> Role[Any]:
    """A role fragment that exchanges nothing and returns a value."""
    yield from ()
    return value


def restarts(n_init: int, run: Callable[[], Role[Any]], better: Callable[[Any, Any], bool]) -> Role[Any]:
    """Run a role fragment n_init times and return the best of its results."""
    best = yield from run()
    for _ in range(n_init - 1):
        other = yield from run()
        if better(other, best):
            best = other
    return best
