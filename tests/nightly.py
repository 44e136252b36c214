"""What the short suite leaves to nightly runs, of tests that are in both: HYPOTHESIS_PROFILE=nightly."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import date
from itertools import product
from typing import Any, TypeVar

import pytest
from _pytest.mark.structures import ParameterSet
from hypothesis import settings

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
# Which night it is: of `.ci/nightly` its seed.
NIGHT = int(os.environ.get("NIGHT") or date.today().toordinal())
T = TypeVar("T")


def short(value: T, nightly: T) -> T:
    """This much in the short suite, that much by night: trials, steps, sizes, lists of cases."""
    return nightly if NIGHTLY else value


def trials(count: int, nightly: int = 1000) -> settings:
    """So many examples of a property whose examples are costly."""
    return settings(deadline=None, max_examples=short(count, nightly))


def tonight(cases: Iterable[T], nights: int) -> list[T]:
    """One of so many parts of cases, of which each night takes the next."""
    return list(cases)[NIGHT % nights :: nights]


def in_turns(first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
    """All pairs of two values that `pytest.mark.parametrize` varies: by day every other one, each value in
    half of its own."""
    pairs = [(i + j, (a, b)) for i, a in enumerate(first) for j, b in enumerate(second)]
    return [*(pair for at, pair in pairs if not at % 2), *by_night(*(pair for at, pair in pairs if at % 2))]


def covering(*axes: Iterable[Any]) -> list[Any]:
    """All combinations of values that `pytest.mark.parametrize` varies: by day as few as hold each value.

    Of axes of one length each goes on by one more than the last where it begins again, or two would be one.
    """
    listed = [list(axis) for axis in axes]
    alike = [(len(axis), sum(len(one) == len(axis) for one in listed[:at])) for at, axis in enumerate(listed)]
    day = {
        tuple((i + shift * (i // size)) % size for size, shift in alike) for i in range(max(map(len, listed)))
    }
    places = list(product(*(range(len(axis)) for axis in listed)))
    cases = {at: tuple(axis[i] for axis, i in zip(listed, at, strict=True)) for at in places}
    rest = by_night(*(cases[at] for at in places if at not in day))
    return [*(cases[at] for at in places if at in day), *rest]


def every(step: int, cases: Iterable[Any]) -> list[Any]:
    """Cases of `pytest.mark.parametrize`, of which the short suite takes one in so many."""
    listed = list(cases)
    return [*listed[::step], *by_night(*(case for at, case in enumerate(listed) if at % step))]


def by_night(*cases: Any) -> list[Any]:
    """Cases of `pytest.mark.parametrize` that the short suite skips; several values of one are a tuple."""
    return [
        pytest.param(*case.values, marks=[*case.marks, pytest.mark.nightly], id=case.id)
        if isinstance(case, ParameterSet)
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.nightly)
        for case in cases
    ]
