"""Whether a wish can be planned, and which ones near it can: found by trying, not by formulas of its own."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, combinations, islice
from typing import Any

from field.ring.errors import InvalidValue
from secfc.algorithm import PublicFacts
from secfc.coded.plan import CodedPlan
from secfc.data.inputs import get_parameter, with_parameters
from secfc.errors import Caution, InputError
from secfc.feddp.plan import FedDPPlan
from secfc.remedies import PYTHON, Advice, Interface
from secfc.roles.exchange import SERVER


class Impossible(InputError):  # noqa: N818
    """A run that cannot be.  why: the error, or its rule.  nearest: runs that can, as `t=3 (not 4)`."""

    def __init__(self, why: Exception | str, nearest: tuple[str, ...]) -> None:
        super().__init__(str(why))
        self.args = (why, nearest)
        self.why, self.nearest = why, nearest

    def reason(self, interface: Interface = PYTHON) -> str:
        """Why it cannot be, in words of an interface."""
        return self.why.text(interface) if isinstance(self.why, Advice) else str(self.why)

    def text(self, interface: Interface = PYTHON) -> str:
        """The reason, and what is possible near it."""
        why = self.reason(interface)
        return f"{why.rstrip('.')}. Nearest possible: {'; or '.join(self.nearest)}" if self.nearest else why


@dataclass(frozen=True)
class PlanRequest:
    """A run that somebody would like: an algorithm, the public facts, and how many clients may be lost."""

    algorithm: Any
    public: PublicFacts
    losses: int = 0

    def plan(self) -> Any:
        """Its plan.  Raises ValueError for what cannot be."""
        if self.losses < 0:
            raise InputError(f"losses={self.losses}: clients that may be lost are counted from 0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Caution)
            plan = self.algorithm.plan(self.public)
        allowed = self.algorithm.capabilities.losses(plan)
        if self.losses > allowed:
            raise InputError(
                f"losses={self.losses}: {_clients(allowed)} of n={len(self.public.clients)} may be lost"
                + (dropout_rule(plan, allowed) or ", as this algorithm needs the others")
            )
        return plan

    def with_values(self, name: str, value: Any) -> PlanRequest:
        """The request with another value: of the algorithm, or n, m, losses."""
        if name == "losses":
            return replace(self, losses=value)
        if name == "n":
            return replace(self, public=with_clients(self.public, value))
        if name == "m":
            return replace(self, public=with_rows(self.algorithm, self.public, value))
        return replace(self, algorithm=with_parameters(self.algorithm, **{name: value}))

    def value(self, name: str) -> Any:
        """What is wished."""
        if name in ("losses",):
            return self.losses
        if name in ("n", "m"):
            return len(self.public.clients) if name == "n" else count_rows(self.algorithm, self.public)
        return get_parameter(self.algorithm, name)


def even_rows(m: int, n: int) -> tuple[int, ...]:
    """m rows, as evenly as can be."""
    return tuple(m // n + (j < m % n) for j in range(n))


def count_rows(algorithm: Any, public: PublicFacts) -> int:
    """Rows of all clients; of those that hold other columns of the same people, how many these are."""
    if not algorithm.capabilities.joins or public.observed is None:
        return public.m
    held = Counter[tuple[int, ...]]()
    for block, count in zip(public.observed, public.counts, strict=True):
        held[block] += count
    return max(held.values())


def with_rows(algorithm: Any, public: PublicFacts, m: int) -> PublicFacts:
    """So many rows, as evenly as can be; of joined columns all of those who hold the same ones together."""
    counts = even_rows(m, len(public.clients))
    if algorithm.capabilities.joins and public.observed is not None:
        shared = Counter(public.observed)
        counts = tuple(max(1, m // shared[block]) if block else 0 for block in public.observed)
    return replace(public, counts=counts)


def divide_columns(public: PublicFacts, helper: bool = False) -> PublicFacts:
    """The clients with other columns each of all rows.  helper: whether one more has none.

    Raises InputError for fewer columns than clients.
    """
    n = len(public.clients)
    if public.d < n:
        raise InputError(f"d={public.d} columns of n={n} clients: each needs one. Nearest possible: d={n}")
    ends = list(accumulate(even_rows(public.d, n), initial=0))
    observed = tuple(tuple(range(*ends[j : j + 2])) for j in range(n))
    divided = replace(public, counts=(public.m,) * n, observed=observed)
    return with_clients(divided, n + 1) if helper else divided


def with_clients(public: PublicFacts, n: int) -> PublicFacts:
    """So many clients with as many rows together; where columns lie side by side others have none."""
    kept = public.clients[:n]
    more = tuple(f"client-{j}" for j in range(len(kept), n))
    if public.observed is not None and sum(map(len, public.observed)) == public.d:
        none = len(more)
        return replace(
            public, clients=kept + more, counts=(public.counts + (0,) * none)[:n],
            observed=(public.observed + ((),) * none)[:n],
        )  # fmt: skip
    observed = None if public.observed is None else (public.observed * n)[:n]
    return replace(public, clients=kept + more, counts=even_rows(public.m, n), observed=observed)


def dropout_rule(plan: Any, allowed: int) -> str:
    """Why not more clients than these may be lost."""
    if not isinstance(plan, CodedPlan):
        return ""
    code, answer = plan.code, plan.code.threshold(2) + 2 * plan.corrected
    if code.n - allowed > answer:
        return (
            f": 2*t+1+deviating = {code.n - allowed} of {code.n} must compare, with t={code.t}, "
            f"deviating={plan.deviating}, and {answer} with deviating=0"
        )
    return (
        f": 2*(ell+t-1)+1+2*corrected = {answer} of {code.n} must answer, "
        f"with ell={code.ell}, t={code.t}, corrected={plan.corrected}"
    )


def plan_or_explain(wish: PlanRequest) -> Any:
    """The plan of a wish.  Raises Impossible, with what is possible near it."""
    try:
        return wish.plan()
    except (InvalidValue, OverflowError) as error:
        raise Impossible(error, tuple(nearby_plans(wish))) from error


# What can be given up, in the order in which people would; and which way, towards how much.
DOWN = ("losses", "corrected", "t", "ell", "k", "smallest_center", "committee", "m", "scale")
UP = ("n", "workers", "m", "epsilon", "largest")
DELTA = 1e-6
LEAST = {"t": 1, "ell": 1, "k": 1, "smallest_center": 1, "m": 1, "committee": 1}


def nearby_plans(wish: PlanRequest) -> Iterator[str]:
    """One value changed; where that is not enough, two, or all that protect less."""
    found = set()
    for names, other in ((DOWN, largest_smaller), (UP, smallest_larger)):
        for name in names:
            if (value := other(wish, name)) is not None:
                found.add(name)
                yield describe_nearby(wish, {name: value})
    delta = wish.value("delta")
    if isinstance(delta, float) and has_plan(wish.with_values("delta", DELTA)):
        found.add("delta")
        yield describe_nearby(wish, {"delta": DELTA})
    policy = wish.algorithm.capabilities.policy
    if policy is not None and policy.capabilities.dealer not in (SERVER, None):
        changed = wish.with_values("disclosure", replace(policy, dealer=SERVER))
        if has_plan(changed):
            found.add("dealer")
            yield f"dealer={SERVER!r} (not {policy.dealer!r})"
    if found - {"n"}:  # nobody likes to look for clients
        return
    yield from islice(_changes_of_two(wish), 1)


def _changes_of_two(wish: PlanRequest) -> Iterator[str]:
    """Two values changed, the first as far as it goes."""
    for one, second_of in combinations(("losses", "corrected", "t", "ell", "workers"), 2):
        for first in (LEAST.get(one, 0), *_options(wish, one)):
            if not _whole(wish.value(one)) or first == wish.value(one):
                continue
            changed = wish.with_values(one, first)
            second = largest_smaller(changed, second_of) or smallest_larger(changed, second_of)
            if second is not None:
                yield describe_nearby(wish, {one: first, second_of: second})


def _options(wish: PlanRequest, name: str) -> Iterator[int]:
    if name == "workers" and _whole(wish.value(name)):
        yield len(wish.public.clients)


def describe_nearby(wish: PlanRequest, changed: dict[str, Any]) -> str:
    """What is possible in place of what was wished."""
    return " and ".join(
        f"{name}={_as(value)} (not {_as(wish.value(name))})" for name, value in changed.items()
    )


def _as(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"


def largest_smaller(wish: PlanRequest, name: str) -> float | None:
    """The largest smaller value with which there is a plan, None if there is none."""
    at, least = wish.value(name), LEAST.get(name, 0)
    if name == "m":  # a row a client, and a cluster
        least = max(len(wish.public.clients), wish.value("k") if _whole(wish.value("k")) else 1)
    if isinstance(at, float) and name == "scale":
        coarser = (float(f"{at * 0.5**i:.3g}") for i in range(1, 60))
        return next((value for value in coarser if has_plan(wish.with_values(name, value))), None)
    if not _whole(at) or at == least:
        return None
    if at < least:
        if name == "m":
            return None
        return least if has_plan(wish.with_values(name, least)) else None
    return _last(lambda value: has_plan(wish.with_values(name, value)), at, least)


def smallest_larger(wish: PlanRequest, name: str) -> float | None:
    """The smallest larger value with which there is a plan, up to four times as much and a few; or None."""
    at = wish.value(name)
    if isinstance(at, bool) or not isinstance(at, int | float) or at <= 0:
        return None
    if isinstance(at, float):
        finer = (float(f"{at * 1.1**i:.3g}") for i in range(1, 40))
        return next((value for value in finer if has_plan(wish.with_values(name, value))), None)
    most = len(wish.public.clients) if name == "workers" else min(4 * at + 64, 2**30 - 1)
    steps = _rising(at, most)
    first = next((value for value in steps if has_plan(wish.with_values(name, value))), None)
    if first is None:
        return None
    # Between the last that did not and the first that did.
    low = at
    while first - low > 1:
        middle = (low + first) // 2
        low, first = (low, middle) if has_plan(wish.with_values(name, middle)) else (middle, first)
    return first


def _rising(at: int, most: int) -> Iterator[int]:
    step = 1
    while at + step <= most:
        yield at + step
        step += max(1, step // 2)
    yield most


def _last(there: Callable[[int], bool], above: int, least: int) -> int | None:
    """The largest value below `above` that is there, if all below it are."""
    if not there(least):
        return None
    low, high = least, above
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if there(middle) else (low, middle)
    return low


def has_plan(wish: PlanRequest) -> bool:
    """Whether there is a plan."""
    try:
        plan = wish.plan()
    except (InvalidValue, OverflowError, TypeError):
        return False
    return not isinstance(plan, FedDPPlan) or plan.hopeless is None


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _clients(number: int) -> str:
    return f"{max(0, number)} client{'' if number == 1 else 's'}"
