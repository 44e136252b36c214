"""What parties agree on before anything secret moves: a description of all that is public, fact by fact.

A description is a JSON object, one entry a fact: the version of the protocol, what was asked for, the public
facts about the data, and the plan that followed.  Facts are not listed anywhere: every field of every frozen
dataclass that makes up a plan is one, under its name, unless it says that it is its party's own business
(`LOCAL`), so a new parameter of an algorithm, a policy, a start or a membership is compared from the day it
exists.  What cannot be described cannot be agreed on, and is refused.

    none, bool, str     as in JSON             number     in decimal, the shortest that reads back; 1.0 is 1
    bytes               {"bytes": hex}         float      {"float": "inf"} where it is not finite
    array               {"array": shape, "of": int, float or bool, "blake2b": hex of 16 bytes}
    dataclass           its name under "is", then its fields, each under its own name after a dot
    mapping             its items, each under its key after a dot
    tuple, list         a JSON array; if a dataclass is in it, the length under "len", then items by number;
                        of more than LONG items the length, then {"blake2b": hex of 16 bytes} of the JSON
                        array of each PIECE of them, under their numbers, as "clients.512-1023"

The object is written with sorted names, without blanks, in ASCII, so that equal descriptions are equal bytes;
its digest is the BLAKE2b of those.  Nothing in it is secret: whoever takes part may read it, and an error
that names a difference shows both values.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from field.ring.errors import InvalidValue

# Raised whenever a message, its meaning, or anything that two parties compute alike changes.
PROTOCOL = 19

# A description is not longer, in bytes.
MAXIMUM = 1 << 20
# Longer sequences, as names of thousands of clients, are described by digests of so many items each.
LONG, PIECE = 1024, 512

# Of a field that changes nothing another party sees: `field(default=1, metadata=LOCAL)`.
LOCAL: Mapping[str, bool] = {"agreed": False}

SHOWN, WIDTH = 6, 70  # differences that an error shows, and characters of a value


@dataclass(frozen=True)
class RunTerms:
    """What a run was asked for: the algorithm with all its values, and what was public before it.

    retained: points of each cluster whose hidden centers label new points, if that is what is run.
    """

    way: Any
    public: Any
    retained: tuple[int, ...] | None = None

    def check(self, way: Any) -> None:
        """Raises ValueError if a plan made on these terms is used by an algorithm with other values."""
        if found := list(_differing(_named(way, ""), _named(self.way, ""))):
            raise InvalidValue(
                f"this plan was made with other values ({'; '.join(map(str, found[:SHOWN]))}): make it with "
                "`plan` of the same algorithm"
            )


@dataclass(frozen=True)
class Difference:
    """One fact, and its value here and at another party, in JSON; "nothing" where it does not exist."""

    fact: str
    here: str
    there: str

    def __str__(self) -> str:
        return f"{self.fact} is {self.here} here and {self.there} there"


def describe_plan(plan: Any, terms: RunTerms | None, **more: object) -> bytes:
    """The description of a plan made on these terms: facts of what was asked for, then `plan.` facts.

    more: further facts of the plan that are no fields of it.

    Raises ValueError for a value that cannot be described, or a description beyond MAXIMUM.
    """
    facts: dict[str, Any] = {"protocol": PROTOCOL}
    if terms is not None:
        facts |= _named(terms.way, "") | _named(terms.public, "public")
        facts |= dict(_facts(terms.retained, "retained"))
    facts |= _named(plan, "plan")
    for name, value in more.items():
        facts |= dict(_facts(value, f"plan.{name}"))
    return _written(facts)


def describe_value(value: Any) -> bytes:
    """The description of what is known before any plan: a dataclass, whose fields are the facts.

    Raises ValueError as `describe_plan`.
    """
    return _written({"protocol": PROTOCOL} | _named(value, ""))


def _written(facts: Mapping[str, Any]) -> bytes:
    """Facts as bytes.  Raises ValueError beyond MAXIMUM."""
    data = json.dumps(facts, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    if len(data) > MAXIMUM:
        raise InvalidValue(
            f"the public parameters take {len(data)} bytes to describe, {MAXIMUM} are allowed: use shorter "
            "names, or fewer features or clients"
        )
    return data


def description_digest(description: bytes) -> bytes:
    """32 bytes that are equal exactly when descriptions are."""
    return hashlib.blake2b(description, digest_size=32, person=b"secfc agreement").digest()


class DescribedPlan:
    """A plan that the server and every client compare by its description, all that is public."""

    terms: RunTerms | None

    @cached_property
    def description(self) -> bytes:
        """All that is public, fact by fact (`describe_plan`)."""
        return describe_plan(self, self.terms, **self.further_facts)

    @property
    def further_facts(self) -> dict[str, object]:
        """What else is described of the plan, and no field of it."""
        return {}

    def join_speakers(self) -> Any:
        """The plan of thousands of clients in one process, of whom some speak for others by a role `clients`.

        None if each speaks for itself.
        """
        return None

    def digest(self) -> bytes:
        """32 bytes that agree exactly when two parties hold the same public parameters."""
        return self._digest

    @cached_property
    def _digest(self) -> bytes:
        return description_digest(self.description)


def describe_differences(here: bytes, there: bytes) -> tuple[Difference, ...]:
    """What differs between two descriptions, of which the second may be anything a peer sent.

    Facts of the plan follow from what was asked for and come only if nothing else differs.  At least one is
    returned, so this is for descriptions that are not equal.
    """
    mine, theirs = _parsed(here), _parsed(there)
    if theirs is None:
        return (Difference("the form of the description", "readable", "another (of another version?)"),)
    found = list(_differing(mine or {}, theirs))
    asked = [d for d in found if not d.fact.startswith("plan.")]
    return tuple(asked or found) or (Difference("the form of the description", "canonical", "another"),)


def _parsed(description: bytes) -> dict[str, Any] | None:
    try:
        facts = json.loads(description)
    except (ValueError, RecursionError):
        return None
    return facts if isinstance(facts, dict) else None


def _differing(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[Difference]:
    names = sorted(mine.keys() | theirs.keys())
    unequal = [
        name
        for name in names
        if name not in mine or name not in theirs or _text(mine[name]) != _text(theirs[name])
    ]
    # Where the kind of a thing differs, so do its fields: they are not worth a word.
    kinds = [name.removesuffix("is") for name in unequal if name.endswith(".is")]
    for name in unequal:
        if any(name.startswith(kind) and name != f"{kind}is" for kind in kinds):
            continue
        here, there = (_shown(facts[name]) if name in facts else "nothing" for facts in (mine, theirs))
        shown = name.removesuffix(".is").removeprefix("public.")
        yield Difference(*_apart(_short(shown), here, there))


def _apart(name: str, here: str, there: str) -> tuple[str, str, str]:
    """Long values that differ where they were cut off say so."""
    return (name, here, there if there != here else "another, which differs further on")


def _text(value: Any) -> str:
    try:
        return json.dumps(value)
    except (ValueError, RecursionError):
        return "unreadable"


def _shown(value: Any) -> str:
    if isinstance(value, dict) and len(value) == 1:
        return _short(str(next(iter(value.values()))))
    return _short(_text(value))


def _short(text: str) -> str:
    # A peer chose this text: it may not reach a terminal as it came.
    safe = text if text.isascii() and text.isprintable() else ascii(text)
    return safe if len(safe) <= WIDTH else safe[: WIDTH - 3] + "..."


# --- facts ------------------------------------------------------------------------------------------


def _named(value: Any, name: str) -> dict[str, Any]:
    """The facts of a dataclass under a name."""
    facts: dict[str, Any] = {}
    for key, fact in _facts(value, name):
        if key in facts:
            raise InvalidValue(f"two parameters are called {key}: rename one")
        facts[key] = fact
    return facts


def _facts(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if is_dataclass(value) and not isinstance(value, type):
        start = f"{name}." if name else ""
        yield f"{start}is", type(value).__name__
        for f in fields(value):
            if f.metadata.get("agreed", True):
                # A field may name a method that gives its value in one form of several.
                form = f.metadata.get("described")
                yield from _facts(getattr(value, form)() if form else getattr(value, f.name), start + f.name)
    elif isinstance(value, Mapping):
        for key in sorted(value):
            yield from _facts(value[key], f"{name}.{key}")
    elif isinstance(value, tuple | list) and not _plain(value):
        yield f"{name}.len", len(value)
        for i, item in enumerate(value):
            yield from _facts(item, f"{name}.{i}")
    elif isinstance(value, tuple | list) and len(value) > LONG:
        yield f"{name}.len", len(value)
        for first in range(0, len(value), PIECE):
            piece = value[first : first + PIECE]
            yield f"{name}.{first}-{first + len(piece) - 1}", _digest(_fact(piece, name))
    else:
        yield name, _fact(value, name)


def _plain(value: Any) -> bool:
    """Whether no dataclass is anywhere in these nested sequences."""
    if isinstance(value, tuple | list):
        return all(map(_plain, value))
    return not is_dataclass(value)


def _fact(value: Any, name: str) -> Any:
    match value:
        case None | bool() | str():
            return value
        case np.generic():
            return _fact(value.item(), name)
        case int():
            return int(value)
        case float() if not math.isfinite(value):
            return {"float": repr(value)}
        case float():
            # The same number is the same fact, whether it was written 1 or 1.0.
            return int(value) if value.is_integer() and abs(value) < 2**53 else value
        case bytes():
            return {"bytes": value.hex()}
        case tuple() | list():
            return [_fact(item, name) for item in value]
        case np.ndarray() if value.dtype.kind in "biuf":
            return _array(value)
    raise InvalidValue(
        f"{name or 'a parameter'} is a {type(value).__name__}, which cannot be compared with that of other "
        "parties: use a frozen dataclass of numbers, strings, bytes, arrays, tuples and such dataclasses"
    )


def _digest(fact: Any) -> dict[str, str]:
    """A fact by the digest of its JSON."""
    data = json.dumps(fact, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    return {"blake2b": hashlib.blake2b(data, digest_size=16, person=b"secfc facts").hexdigest()}


def _array(value: Array) -> dict[str, Any]:
    """An array by its numbers, whatever their width."""
    kind = {"b": "bool", "i": "int", "u": "int", "f": "float"}[value.dtype.kind]
    wide = np.ascontiguousarray(value, {"bool": "u1", "int": "<i8", "float": "<f8"}[kind])
    digest = hashlib.blake2b(wide.tobytes(), digest_size=16, person=b"secfc array").hexdigest()
    return {"array": list(value.shape), "of": kind, "blake2b": digest}
