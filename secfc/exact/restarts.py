"""The courses of all restarts of a run: what is due of a start, of the steps from it, and at the end."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secfc.coded.messages import MeasureCost
from secfc.coded.plan import Plan
from secfc.coded.policy import Disclosure, Sharing
from secfc.disclosure.own.messages import Advance, Cleave, Deliver, MeasureSplits, Show, Weigh
from secfc.disclosure.own.runs import Asked, SharedRun
from secfc.exact.course import AGAIN, Asking, Course, Due, Foreseen, Unfollowed
from secfc.lloyd.moves import Cut, Gauge, Move, Moves, Price, Settle
from secfc.lloyd.starts import Drawing, generators

Array = NDArray[Any]


class Restarts:
    """The courses of a run, one a restart, which begins when its first question is asked for.

    rng: at its beginning, the same for all parties.  drawing: of how many clusters, as far as that is known.
    """

    def __init__(self, plan: Plan, policy: Disclosure, rng: np.random.Generator) -> None:
        self.plan, self.exposes, self.sharing = plan, policy.exposes, policy.sharing
        self.seating = policy.seating(plan)
        self.drawing = Drawing(plan.init, plan.m, plan.choice)
        self.each = generators(rng, plan.n_init)

    def __iter__(self) -> Iterator[Course]:
        if self.sharing is not None:
            return iter([shared(self.plan, self.sharing, self.drawing, self.each)])
        return map(self.restart, self.each)

    def restart(self, own: np.random.Generator) -> Asking:
        plan, source = self.plan, Foreseen(self.plan, self.exposes, self.seating)
        labels, k = yield from self.drawing(own, source)
        trace = yield from source.lloyd(labels, k, plan.max_iter)
        if plan.n_init > 1 and source.compares:
            yield Due(MeasureCost, k, trace.labels, opens=False)
        return trace.labels


class Hidden(Foreseen):
    """The source of one restart on labels that stay shared, by its number."""

    def __init__(self, plan: Plan, sharing: Sharing, number: int) -> None:
        super().__init__(plan, "steps" if sharing.hidden else "sizes")
        self.sharing, self.number = sharing, number

    def grown(self, moves: Callable[[int], Moves]) -> Generator[Any, Any, SharedRun]:
        """The clusters that moves lead to; no client hears gains and costs, but what follows from them."""
        run = SharedRun.whole(self.number, self.plan.m, self.sharing)

        def answer(move: Move) -> Generator[Any, Any, Any]:
            match move:
                case Cut():
                    asked = run.ask(Cleave, move.directions)
                    told = (yield from put(run, asked, 1 + 2 * run.k))[1:]
                    run.moved(asked, told)
                    return told
                case Settle():
                    asked = run.ask(Advance)
                    told = yield from put(run, asked, 1 + run.k)
                    run.moved(asked, told[1:])
                    return bool(told[0]), told[1:]
                case Gauge():
                    told = yield from put(run, run.ask(MeasureSplits, move.sides), opens=False)
                    if len(told) == self.plan.m and not told.any():
                        return np.zeros(run.k, np.int64)  # all are one cluster, so the run ends with labels
                    if len(told) != len(run.last):
                        raise Unfollowed
                    # Of the clusters that were last opened; those now are unions of them.
                    return told[np.unique(move.groups, return_index=True)[1][-run.k :]]
                case Price() if run.foregone:
                    yield Due(MeasureCost, run.k, run.known, opens=False, last=False)
                case Price():
                    yield from put(run, run.ask(Weigh), opens=False)
            return None

        return (yield from run.led(moves(self.plan.d), answer))


def shared(plan: Plan, sharing: Sharing, drawing: Drawing, each: Iterator[np.random.Generator]) -> Course:
    """Ends with the sizes of the run whose labels owners got, or with labels that all know.

    Which run was the cheapest is the server's word: clients hear no costs.
    """
    runs, several = list[SharedRun](), plan.n_init > 1
    told = np.empty(0, np.int32)
    for number, own in enumerate(each):
        start, k = yield from drawing(own, Hidden(plan, sharing, number))  # type: ignore[misc]
        run = start if isinstance(start, SharedRun) else SharedRun.begun(number, start, k, sharing)
        runs.append(run)
        run.begin(k, plan.max_iter)
        while not run.over and not run.foregone:
            # What a step opens is an array: whether no label changed, and the sizes after it.
            asked = run.ask(Advance)
            told = yield from put(run, asked, 1 + k)
            run.go_on(asked, bool(told[0]), told[1:])
        if several and run.foregone:
            told = yield Due(MeasureCost, k, run.known, opens=False, last=False)
        elif several:
            told = yield from put(run, run.ask(Weigh), opens=False)
    best = runs[0]
    if several:
        best = next((run for run in runs if run.foregone and np.array_equal(told, run.known)), best)
        # A run whose labels are told is named by a number below 0.
        named = -1 - int(told[0]) if len(told) else -1
        best = runs[named] if 0 <= named < len(runs) else best
    if best.foregone:
        return best.known
    if sharing.everybody:
        return (yield from put(best, best.ask(Show), plan.m))
    yield from put(best, best.ask(Deliver), opens=False)
    return best.told


def put(run: SharedRun, asked: Asked, count: int | None = None, *, opens: bool = True) -> Asking:
    """What a question opens, or what is told if the server goes on; after all steps that led to it, if others
    take these again.

    Raises Unfollowed if that are not so many numbers.
    """
    while True:
        again = run.at < len(run.trail)
        due = run.trail[run.at] if again else asked
        told: Array = yield Due(
            due.kind, due.k, due.labels, step=due.step, sizes=tuple(due.sizes.tolist()), run=due.run,
            groups=tuple(due.groups.tolist()), more=due.more, opens=opens or again, result=False, last=False,
        )  # fmt: skip
        if told is AGAIN:
            run.at = 0
        elif again:
            run.at += 1
        elif count is not None and len(told) != count:
            raise Unfollowed
        else:
            return told
