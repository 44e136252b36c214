"""What parties of a run of SecFC learned, in sentences for people."""

from __future__ import annotations

from typing import Protocol

from secfc.coded.plan import Plan
from secfc.exact.account import Hiding
from secfc.lloyd.elbow import Elbow


class Choosing(Hiding, Protocol):
    """Who may see what, of how many clusters."""

    @property
    def k(self) -> int | Elbow: ...


def learned(way: Choosing, plan: Plan) -> tuple[str, ...]:
    """What the server learned, in sentences for people."""
    facts = [*way.membership.learned, *way.disclosure.learned(plan)]
    if plan.workers:
        facts = [fact.replace("so did every client", "so did every worker") for fact in facts]
    if isinstance(way.k, Elbow):
        facts.append("what every cluster cost before the start merged some, and so what fewer clusters cost")
    facts.append(opened_centers(plan) if plan.revealing else "no point and no center")
    return tuple(facts)


def heard_by_all(way: Hiding, plan: Plan) -> tuple[str, ...]:
    """What every client learned of others' points, in sentences for people."""
    when = "at the start and at the end" if way.disclosure.exposes == "nothing" else "in every iteration"
    facts = [f"all labels and cluster sizes, {when}"]
    if plan.workers:
        facts = [
            f"workers: {facts[0]}; other clients: cluster sizes at the end, and of other points no label"
        ]
    if way.disclosure.exposes == "steps":
        facts = ["the first labels, and how many steps there were; of other points no label"]
    elif way.disclosure.exposes == "sizes":
        facts = ["the first labels, and the sizes of the clusters after each step; of other points no label"]
    if plan.layout.mixed:
        facts.append("the size of the union of all IDs, and how many hold each row, if rows are merged")
    if plan.revealing:
        facts.append(opened_centers(plan))
    return tuple(facts)


def opened_centers(plan: Plan) -> str:
    """Which centers are opened, for people."""
    least = plan.smallest_center
    return "the centers" if least == 1 else f"the centers of clusters of at least {least} points"
