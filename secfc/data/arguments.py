"""Checks at the door of values that callers pass by name: of what kind they are, before any is used.

What range a number must lie in is said where the range is known; here a wrong kind is met, which would end
in some line far below, in words that are about that line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from secfc.data.inputs import InputError

SHOWN = 60  # characters of a value that an error shows


@dataclass(frozen=True)
class Kind:
    """What a value must be.

    rule: in words, before "is needed".  remedy: a sentence.  taken: the value as it is kept, or None if it is
    not of this kind.  none: whether None will do as well.
    """

    rule: str
    remedy: str
    taken: Callable[[Any], Any]
    none: bool = False

    def of(self, name: str, value: Any) -> Any:
        """The value as it is kept.  Raises InputError with value, rule and remedy."""
        if value is None and self.none:
            return None
        taken = self.taken(value)
        if taken is None:
            kind = "" if value is None else f" is {a_kind(value)}"
            raise InputError(f"{name}={shown(value)}{kind}: {self.rule} is needed. {self.remedy}")
        return taken


def shown(value: Any) -> str:
    """A value for an error: numbers and words as they are written, all else by its kind, as it may be
    data.
    """
    if isinstance(value, type):
        return value.__name__
    if value is None or isinstance(value, bool | int | float | str | np.number):
        text = repr(value)
        return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."
    return "..."


def a_kind(value: Any) -> str:
    """The kind of a value, with its article."""
    if isinstance(value, type):
        return "a class"
    if value is None:
        return "nothing"
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeio" else f"a {name}"


def _whole(value: Any) -> int | None:
    right = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return int(value) if right else None


def _real(value: Any) -> Any:
    right = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not right:
        return None
    return value.item() if isinstance(value, np.generic) else value


WHOLE = Kind("a whole number", "Pass an integer, such as 3", _whole)
COUNT = Kind(
    "a whole number of at least 1",
    "Pass an integer, such as 1",
    lambda v: n if (n := _whole(v) or 0) > 0 else None,
)
REAL = Kind("a number", "Pass a float or an integer, such as 2.5", _real)
SWITCH = Kind(
    "True or False", "Pass one of the two", lambda v: bool(v) if isinstance(v, bool | np.bool_) else None
)


def instance(kind: type, example: str) -> Kind:
    """A value of a class, such as an example shows."""
    return Kind(
        f"a {kind.__name__}", f"Pass a value such as {example}", lambda v: v if isinstance(v, kind) else None
    )


def having(method: str, rule: str, example: str) -> Kind:
    """A value that offers what such values do."""

    def taken(value: Any) -> Any:
        return value if hasattr(value, method) and not isinstance(value, type) else None

    return Kind(rule, f"Pass a value such as {example}", taken)


def optional(kind: Kind, meaning: str) -> Kind:
    """The same, or None, which means something."""
    return Kind(f"{kind.rule}, or None ({meaning}),", kind.remedy, kind.taken, none=True)


def hold(owner: Any, kinds: Mapping[str, Kind]) -> None:
    """Check fields of a frozen dataclass that is being built, and keep numbers of NumPy as Python's.

    Raises InputError for the first that is of another kind.
    """
    for name, kind in kinds.items():
        value = getattr(owner, name)
        taken = kind.of(name, value)
        if taken is not value:
            object.__setattr__(owner, name, taken)
