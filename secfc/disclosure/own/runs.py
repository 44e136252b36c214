"""One run on shared labels, as far as it is: what is public of it, at the server and at every client."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from field.code.rows import cluster_sizes
from secfc.coded.policy import Sharing
from secfc.disclosure.own.kin import otherwise
from secfc.disclosure.own.messages import Stepped
from secfc.lloyd.moves import Moves
from secfc.roles.exchange import PartyId
from secfc.roles.messages import compact_labels

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Asked:
    """All of a question about shared labels but who plays: see `messages.Advance`.

    more: what only its kind has.
    """

    kind: type[Stepped]
    k: int
    labels: Array
    step: int
    sizes: Array
    run: int
    groups: Array
    more: tuple[Array, ...] = ()

    def put(self, number: int, responders: Array, committee: Array, corrected: int) -> Stepped:
        """The question to these players."""
        who = responders, committee, corrected, 1
        return self.kind(
            number, self.k, self.labels, *who, self.step, self.sizes, self.run, self.groups, *self.more
        )


@dataclass(eq=False, repr=False)
class SharedRun:
    """The state of a run.

    number: of the restart.  start: the first labels (m,).  last: sizes of the clusters that were last opened;
    groups: the number that each of them has now, of k.  trail: the questions whose steps led here, so that
    others can take them again.
    k, max_iter, sizes, converged, over: of Lloyd's heuristic, once that has begun; sizes (k,) before its
    first step and after each.
    committee, at: who shares the labels, and how many steps of the trail they took.  players: of any step.
    sharing: what is opened of labels; sizes after a step are 0 where they are hidden.
    """

    number: int
    start: Array
    last: Array
    groups: Array
    k: int
    max_iter: int = 1
    trail: list[Asked] = field(default_factory=list)
    sizes: list[Array] = field(default_factory=list)
    converged: bool = False
    over: bool = False
    committee: list[int] = field(default_factory=list)
    at: int = 0
    players: dict[PartyId, None] = field(default_factory=dict)
    sharing: Sharing = field(default_factory=Sharing)

    @classmethod
    def begun(cls, number: int, labels: Array, k: int, sharing: Sharing) -> SharedRun:
        """Before the first step from labels (m,)."""
        now = cluster_sizes(labels, k)
        return cls(number, compact_labels(labels), now, np.arange(k), k, sharing=sharing)

    @classmethod
    def whole(cls, number: int, m: int, sharing: Sharing) -> SharedRun:
        """All points in one cluster."""
        return cls.begun(number, np.zeros(m, np.int32), 1, sharing)

    @property
    def now(self) -> Array:
        """The sizes (k,) now."""
        there = self.groups >= 0
        now = np.zeros(self.k, np.int64)
        np.add.at(now, self.groups[there], self.last[there])
        return now

    @property
    def n_iter(self) -> int:
        return len(self.sizes) - 1

    def regroup(self, groups: Array, k: int) -> None:
        """Clusters that were last opened get these numbers, of k."""
        self.groups, self.k = groups, k

    def ask(self, kind: type[Stepped], *more: Array) -> Asked:
        """A question about the labels now."""
        return Asked(kind, self.k, self.start, len(self.trail), self.last, self.number, self.groups, more)

    def led(
        self, moves: Moves, answer: Callable[[Any], Generator[Any, Any, Any]]
    ) -> Generator[Any, Any, SharedRun]:
        """This run, once moves led it to clusters, see `secfc.lloyd.splitting`.

        answer: what comes of a move, as either side of the questions has it.
        """
        told = cast("Any", None)
        while True:
            try:
                move = moves.send(told)
            except StopIteration as done:
                self.regroup(done.value, int(done.value.max()) + 1)
                return self
            self.regroup(move.groups, int(move.groups.max()) + 1)
            told = yield from answer(move)

    def repeated(self, asked: Asked, sizes: Array) -> None:
        """After a step of the trail that another committee took.  asked: the question now.

        Raises SuspectedParties if other sizes were opened than before: somebody lied then or now.
        """
        self.at += 1
        after = self.trail[self.at] if self.at < len(self.trail) else asked
        if not np.array_equal(sizes, after.sizes):
            raise otherwise(self.players)

    def moved(self, asked: Asked, sizes: Array) -> None:
        """After a step that opened these sizes."""
        self.trail.append(asked)
        self.at += 1
        self.last, self.groups, self.k = sizes, np.arange(len(sizes)), len(sizes)

    def begin(self, k: int, max_iter: int) -> None:
        """Lloyd's heuristic begins."""
        self.k, self.max_iter = k, max_iter
        self.sizes = [self.now]

    def go_on(self, asked: Asked, converged: bool, sizes: Array) -> None:
        """After a step of it that led to these."""
        last = self.max_iter if self.sharing.looks else self.max_iter - 1
        self.converged, self.over = converged, converged or self.n_iter == last
        if self.n_iter < self.max_iter:
            # The last of all steps is one too many: it says whether the run converged.
            self.moved(asked, sizes)
            self.sizes.append(sizes)

    @property
    def foregone(self) -> bool:
        """Whether all points are in one cluster, or in none, so that everybody knows the labels."""
        return not self.unseen and bool(np.count_nonzero(self.now) < 2)

    @property
    def unseen(self) -> bool:
        """Whether the sizes now are hidden."""
        return self.sharing.hidden and len(self.trail) > 0

    @property
    def told(self) -> Array:
        """What all know of sizes (k,) at the end; where they are hidden, 1 where there may be points."""
        return (cluster_sizes(self.start, self.k) > 0).astype(np.int64) if self.unseen else self.now

    @property
    def known(self) -> Array:
        """The last labels (m,) of such a run."""
        now = self.now
        return np.full_like(self.start, int(now.argmax())) if now.any() else self.start
