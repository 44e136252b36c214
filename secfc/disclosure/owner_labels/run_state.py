"""One run on shared labels, as far as it is: what is public of it, at the server and at every client."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from field.arrays import Array
from field.code.rows import cluster_sizes
from field.compare.assignment_step import SharedLabels
from secfc.coded.policy import LabelSharing
from secfc.coded.queries import Operation, SharedStep, Subject
from secfc.disclosure.checked.parts import PartKeys
from secfc.disclosure.compare.session import ComparisonSession
from secfc.kmeans.loop import Moves
from secfc.roles.blame import suspect_parties
from secfc.roles.exchange import SERVER, PartyId
from secfc.roles.messages import compact_labels

# --------------------------------------------------------------------------------------------------
# What a client keeps of a run on shared labels, and holds against what is said of it later.


@dataclass(frozen=True, eq=False, repr=False)
class HeldLabels:
    """What a member holds of labels: shares of the parts that it plays, by number, secret.

    clusters: (K,) those that they are among.  keys: that hide and deal them, of the step that they come from;
    None without a dealer, and of labels that all know.
    """

    parts: Mapping[int, SharedLabels]
    clusters: Array
    keys: PartKeys | None


@dataclass(eq=False, repr=False)
class ClientRunState:
    """What a client keeps of one run: its committee, and by step what it holds, and heard.

    states: of a run that is over, the last one.  sizes: as opened, and by whom.  seated: committees that took
    steps of it, with all who played for them.
    """

    committee: list[int] = field(default_factory=list)
    states: dict[int, HeldLabels] = field(default_factory=dict)
    sizes: dict[int, tuple[list[int], tuple[PartyId, ...]]] = field(default_factory=dict)
    seated: dict[tuple[PartyId, ...], dict[PartyId, None]] = field(default_factory=dict)

    def seat(self, match: ComparisonSession) -> None:
        """These play."""
        self.seated.setdefault(match.committee, {}).update(dict.fromkeys(match.players))

    @property
    def players(self) -> tuple[PartyId, ...]:
        """All who played for a step."""
        return tuple({p: None for players in self.seated.values() for p in players})

    def opened(self, step: int, sizes: list[int], members: tuple[PartyId, ...]) -> None:
        """These sizes were opened.  Raises SuspectedParties if others were when the step was taken before."""
        before, _ = self.sizes.get(step, (None, ()))
        if before is not None and before != sizes:
            raise suspect_parties("SizeShare", OTHER_SIZES, players=self.players, server=SERVER)
        self.sizes[step] = sizes, members

    def check(self, step: int, sizes: list[int]) -> None:
        """Raises SuspectedParties if the server told other sizes than were opened here."""
        opened, members = self.sizes.get(step, (None, ()))
        if opened is not None and opened != sizes:
            # What a member told me may be another share than it told the server; and of a step that several
            # committees took I may have heard another one.
            who = members if len(self.seated) == 1 else self.players
            why = "the server told other sizes than those that were opened"
            raise suspect_parties("Query", why, server=SERVER, players=who)


OTHER_SIZES = "a step that others took again opened other sizes than before"


# --------------------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class PublicRunState:
    """The state of a run.

    number: of the restart.  start: the first labels (m,).  last: sizes of the clusters that were last opened;
    groups: the number that each of them has now, of k.  trail: the questions whose steps led here, so that
    others can take them again.
    k, max_iter, sizes, converged, over: of Lloyd's heuristic, once that has begun; sizes (k,) before its
    first step and after each.
    committee, at: who shares the labels, and how many steps of the trail they took.  players: of any step.
    sharing: what is opened of labels; sizes after a step are 0 where they are hidden.
    judged: whether labels are known to explain no more of columns than is allowed.
    """

    number: int
    start: Array
    last: Array
    groups: Array
    k: int
    max_iter: int = 1
    trail: list[Subject] = field(default_factory=list)
    sizes: list[Array] = field(default_factory=list)
    converged: bool = False
    over: bool = False
    committee: list[int] = field(default_factory=list)
    at: int = 0
    players: dict[PartyId, None] = field(default_factory=dict)
    sharing: LabelSharing = field(default_factory=LabelSharing)
    judged: bool = False

    @classmethod
    def begun(cls, number: int, labels: Array, k: int, sharing: LabelSharing) -> PublicRunState:
        """Before the first step from labels (m,)."""
        now = cluster_sizes(labels, k)
        return cls(number, compact_labels(labels), now, np.arange(k), k, sharing=sharing)

    @classmethod
    def whole(cls, number: int, m: int, sharing: LabelSharing) -> PublicRunState:
        """All points in one cluster."""
        return cls.begun(number, np.zeros(m, np.int32), 1, sharing)

    @property
    def now(self) -> Array:
        """The sizes (k,) now."""
        return self.at_step.now(self.k)

    @property
    def n_iter(self) -> int:
        return len(self.sizes) - 1

    def regroup(self, groups: Array, k: int) -> None:
        """Clusters that were last opened get these numbers, of k."""
        self.groups, self.k = groups, k

    @property
    def at_step(self) -> SharedStep:
        """Where it is."""
        return SharedStep(self.number, len(self.trail), self.last, self.groups)

    def ask(self, operation: Operation, detail: Array | None = None) -> Subject:
        """A question about the labels now."""
        return Subject(operation, self.k, self.start, detail=detail, shared=self.at_step)

    def led(
        self, moves: Moves, answer: Callable[[Any], Generator[Any, Any, Any]]
    ) -> Generator[Any, Any, PublicRunState]:
        """This run, once moves led it to clusters, see `secfc.kmeans.splitting`.

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

    def repeated(self, asked: Subject, sizes: Array) -> None:
        """After a step of the trail that another committee took.  asked: the question now.

        Raises SuspectedParties if other sizes were opened than before: somebody lied then or now.
        """
        self.at += 1
        after = self.trail[self.at] if self.at < len(self.trail) else asked
        if not np.array_equal(sizes, after.at.sizes):
            raise suspect_parties("SizeShare", OTHER_SIZES, players=self.players, server=SERVER)

    def moved(self, asked: Subject, sizes: Array) -> None:
        """After a step that opened these sizes."""
        self.trail.append(asked)
        self.at += 1
        self.last, self.groups, self.k = sizes, np.arange(len(sizes)), len(sizes)

    def begin(self, k: int, max_iter: int) -> None:
        """Lloyd's heuristic begins."""
        self.k, self.max_iter = k, max_iter
        self.sizes = [self.now]

    def go_on(self, asked: Subject, converged: bool, sizes: Array) -> None:
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
