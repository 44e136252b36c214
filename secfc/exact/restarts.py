"""The courses of all restarts of a run: what is due of a start, of the steps from it, and at the end."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from secfc.coded.messages import MeasureCost
from secfc.coded.plan import Plan
from secfc.coded.policy import Exposure
from secfc.disclosure.own.messages import Advance, Deliver, Weigh
from secfc.disclosure.own.runs import SharedRun
from secfc.exact.course import AGAIN, Asking, Course, Due, Foreseen
from secfc.lloyd.starts import Drawing, generators


class Restarts:
    """The courses of a run, one a restart, which begins when its first question is asked for.

    rng: at its beginning, the same for all parties.  drawing: of how many clusters, as far as that is known.
    """

    def __init__(self, plan: Plan, exposes: Exposure, rng: np.random.Generator) -> None:
        self.plan, self.exposes = plan, exposes
        self.drawing = Drawing(plan.init, plan.m, plan.choice)
        self.each = generators(rng, plan.n_init)

    def __iter__(self) -> Iterator[Course]:
        if self.exposes == "sizes":
            return iter([hidden(self.plan, self.drawing, self.each)])
        return map(self.restart, self.each)

    def restart(self, own: np.random.Generator) -> Asking:
        plan, source = self.plan, Foreseen(self.plan, self.exposes)
        labels, k = yield from self.drawing(own, source)
        trace = yield from source.lloyd(labels, k, plan.max_iter)
        if plan.n_init > 1 and source.compares:
            yield Due(MeasureCost, k, trace.labels, opens=False)
        return trace.labels


def hidden(plan: Plan, drawing: Drawing, each: Iterator[np.random.Generator]) -> Course:
    """Ends with the sizes of the run whose labels owners got, or with labels that all know.

    Which run was the cheapest is the server's word: clients hear no costs.
    """
    runs, several = list[SharedRun](), plan.n_init > 1
    told = np.empty(0, np.int32)
    for number, own in enumerate(each):
        source = Foreseen(plan, "sizes")
        labels, k = yield from drawing(own, source)  # type: ignore[misc]
        run = SharedRun.begun(number, labels, k, plan.max_iter)
        runs.append(run)
        told = yield from followed(run, Weigh if several else None)
        if several and run.foregone:
            told = yield Due(MeasureCost, k, run.known, opens=False, last=False)
    best = runs[0]
    if several:
        number = -1 - int(told[0])  # of the run that is asked about next, or labels, which end it
        if 0 <= number < len(runs):
            best = runs[number]
        else:
            best = next((run for run in runs if run.foregone and np.array_equal(told, run.known)), best)
    if not best.foregone:
        yield from followed(best, Deliver)
    return best.known if best.foregone else best.now


def followed(run: SharedRun, last: type[Weigh | Deliver] | None) -> Asking:
    """The steps of a run to its end, and a last question, if any; what is told if the server goes on."""
    told = np.empty(0, np.int32)
    while not run.foregone and not (run.over and last is None):
        kind = Advance if last is None or not run.over else last
        told = yield Due(
            kind, run.k, run.start, step=run.step, sizes=tuple(run.now.tolist()), run=run.number,
            opens=not run.over, result=False, last=False,
        )  # fmt: skip
        if told is AGAIN:
            run.begin_again()
        elif run.over:
            break
        else:
            # What a step opens is an array: whether no label changed, and the sizes after it.
            run.go_on(bool(told[0]), told[1:])
    return told
