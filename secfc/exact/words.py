"""Words for values: what a caller may write, in Python and in the shell, where a policy, a start or a
membership is due.

One table for both, so that a word means the same everywhere.  A word stands for the value with its defaults;
whoever wants other ones builds the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from secfc.coded.membership import Membership, Open, Private
from secfc.data.inputs import InputError
from secfc.disclosure import AssignmentsOnly, Disclosure, Distances, FinalLabelsOnly, OwnLabels
from secfc.lloyd.starts import STARTS, Start

# What distances are measured to.
Centers = Literal["exact", "rounded"]
DISCLOSURES: Mapping[str, Disclosure] = {
    "assignments": AssignmentsOnly(),
    "own-labels": OwnLabels(),
    "final-labels": FinalLabelsOnly(),
    "distances": Distances(),
}
MEMBERSHIPS: Mapping[str, Membership] = {"open": Open(), "private": Private()}


def start(value: Any) -> Start:
    """The start that a word stands for, or the given one.  Raises InputError."""
    return _meant("init", value, STARTS, "draw")  # type: ignore[no-any-return]


def start_for(value: Any, policy: Disclosure) -> Start:
    """The same, and for None the best start that a policy allows."""
    return policy.start if value is None else start(value)


def disclosure(value: Any) -> Disclosure:
    """The policy that a word stands for, or the given one.  Raises InputError."""
    return _meant("disclosure", value, DISCLOSURES, "open_centers")  # type: ignore[no-any-return]


def membership(value: Any) -> Membership:
    """The membership that a word stands for, or the given one.  Raises InputError."""
    return _meant("membership", value, MEMBERSHIPS, "draft")  # type: ignore[no-any-return]


def check_centers(value: Any) -> None:
    """Raises InputError for centers that are neither exact nor rounded."""
    if value not in get_args(Centers):
        raise InputError(
            f'centers={value!r} is none: use "exact", the means as fractions, or "rounded", the nearest '
            "points of a grid, which is faster"
        )


def word_of(value: Any, table: Mapping[str, Any]) -> str:
    """The word for a value in a table, else for its kind, whatever parameters it has; else its class."""
    equal = (word for word, item in table.items() if item == value)
    alike = (word for word, item in table.items() if type(item) is type(value))
    return next(equal, None) or next(alike, type(value).__name__)


def _meant(name: str, value: Any, table: Mapping[str, Any], method: str) -> Any:
    """The value of a word in the table; anything else must offer the method that such values have."""
    if isinstance(value, str):
        word = value.strip().lower().replace("_", "-").replace(" ", "-")
        if word in table:
            return table[word]
    elif isinstance(value, type) and hasattr(value, method):
        raise InputError(f"{name}={value.__name__} is a class: build the value, {value.__name__}(...)")
    elif hasattr(value, method):
        return value
    words = ", ".join(repr(word) for word in table)
    values = ", ".join(f"{type(item).__name__}()" for item in table.values())
    raise InputError(f"{name}={value!r} is none: use one of the words {words}, or a value such as {values}")
