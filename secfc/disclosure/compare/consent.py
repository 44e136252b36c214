"""What policies share under which clients compare distances unseen, and may consent to opening some."""

from __future__ import annotations

from typing import Any

from field.compare.contest import headroom
from field.compare.secret_step import margin
from secfc.coded.layout import Layout
from secfc.coded.plan import Plan

LEAST_LANES = 3  # two leave few steps: what is compared grows with sizes**4


def room_to_compare(way: Any, layout: Layout) -> int:
    """How many times the largest distance the modulus must hold, see `Disclosure.headroom`.

    Raises ValueError for a basis without kernels, also of a plaintext run to compare with.
    """
    if way.basis is not None and not way.basis.folded:
        raise ValueError(
            f"primes {way.basis.primes} have no kernel that compares distances in secret, which needs "
            "30-bit lanes: leave the basis to be chosen, or show the server the distances with "
            "disclosure=Distances()"
        )
    if way.centers == "rounded":
        return 2 * int(way.init.factor)  # all centers stand for as many points
    return headroom(layout.m, way.largest, way.init.factor)


def room_for_sides(way: Any, layout: Layout) -> int:
    """The same where nobody knows the sizes, see `field.compare.secret_step.sides`."""
    return room_to_compare(way, layout) * (margin(layout.m) + 1)


def check_consent(plan: Plan, policy: str, consent: bool) -> None:
    """Raises ValueError for a start that opens distances without consent under a policy of this name."""
    if plan.init.needs_distances and not consent:
        raise ValueError(
            f"{type(plan.init).__name__}() opens to the server the {plan.init.reveals}: take another "
            f"start, or allow it with {policy}(consent=True)"
        )


def may_ask(plan: Plan, consent: bool) -> bool:
    """Whether the server may ask for distances: only for a start that was consented to."""
    return consent and plan.init.needs_distances


def opened(plan: Plan) -> tuple[str, ...]:
    """What the server learned beside labels, in sentences for people."""
    facts = []
    if plan.n_init > 1:
        facts.append("the cost of every cluster at the end of each restart")
    if plan.init.needs_distances:
        facts.append(plan.init.reveals)
    if plan.init.halves:
        facts.append("what every split that the start tried takes off the cost of its cluster")
    if plan.init.spare:
        which = "all" if plan.elbow else "neighboring"
        facts.append(f"how far the means of {which} clusters were apart before the start merged some")
    return tuple(facts)
