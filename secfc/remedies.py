"""Errors and cautions as data: which parameters, which rule, what would help; in words where they are read.

The library speaks Python, the shell its options, a site file its keys: each is an `Interface`, which says how
a parameter is set there, and leaves out what cannot be.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import wraps
from itertools import groupby
from types import EllipsisType
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

# What would help: words that hold everywhere; or a parameter and its value, None to leave it out and ... for
# any; or these, and what they do in words.
Remedy = str | tuple[str, Any] | tuple[str, Any, str]

# Values that have a word in the shell, by parameter and word: their class in Python.
CLASSES = {
    ("disclosure", "assignments"): "AssignmentsOnly",
    ("disclosure", "own-labels"): "OwnLabels",
    ("disclosure", "final-labels"): "FinalLabelsOnly",
    ("disclosure", "distances"): "Distances",
    ("init", "random"): "RandomLabels",
    ("init", "random-points"): "RandomPoints",
    ("init", "k-means++"): "KMeansPlusPlus",
    ("init", "center-separation"): "CenterSeparation",
    ("init", "bisecting"): "Bisecting",
    ("init", "splitting"): "Splitting",
    ("membership", "open"): "Open",
    ("membership", "private"): "Private",
}
# Values that hold several parameters in Python, by parameter.
HOLDERS = {
    **dict.fromkeys(("t", "ell", "corrected", "deviating"), "threshold=Threshold"),
    **dict.fromkeys(
        ("scale", "basis", "rounding", "largest", "centers", "coarse"), "quantization=Quantization"
    ),
    **dict.fromkeys(("counts", "on_conflict", "merge"), "membership=Private"),
    **dict.fromkeys(("threads", "network", "workers", "scratch"), "runtime=Runtime"),
    **dict.fromkeys(("reveal_centers", "smallest_center", "predictions", "dendrogram"), "release=Release"),
}
# A scale that outliers do not move, and outliers as missing: else they stay, at the limit, as a cluster.
WITHOUT_OUTLIERS = "without-outliers"
PHRASES = {
    ("scale_features", WITHOUT_OUTLIERS): 'Standardize(outside="missing", missing="mean", by="quartiles")',
}
ALGORITHMS = {"secfc": "SecFC", "lloyd": "Lloyd", "federated-lloyd": "FederatedLloyd", "feddp": "FedDPKMeans"}


class Interface(Protocol):
    """How parameters are set by whoever reads a message."""

    def name(self, parameter: str) -> str | None:
        """What the parameter is called, None where it cannot be set."""
        ...

    def setting(self, parameter: str, value: Any) -> str | None:
        """How it is given a value, or any (...); None where it cannot be."""
        ...


class PythonInterface:
    """Keywords of the library."""

    def name(self, parameter: str) -> str:
        """The keyword."""
        return parameter

    def setting(self, parameter: str, value: Any) -> str:
        """As `disclosure=OwnLabels()`, or `threshold=Threshold(t=2)`.

        >>> PYTHON.setting("disclosure", "own-labels"), PYTHON.setting("t", 2)
        ('disclosure=OwnLabels()', 'threshold=Threshold(t=2)')
        """
        holder = HOLDERS.get(parameter)
        if holder is not None:
            return f"{holder}({parameter}={'...' if value is ... else _literal(value)})"
        if parameter == "algorithm":
            return ALGORITHMS.get(value, str(value))
        if isinstance(value, EllipsisType):
            return f"{parameter}="
        if (parameter, value) in CLASSES if isinstance(value, str) else False:
            return f"{parameter}={CLASSES[parameter, value]}()"
        if parameter == "k":
            return f"k={value}"
        if isinstance(value, str) and (parameter, value) in PHRASES:
            return f"{parameter}={PHRASES[parameter, value]}"
        if is_dataclass(value):
            changed = ", ".join(f"{name}={_literal(v)}" for name, v in changed_fields(value).items())
            return f"{parameter}={type(value).__name__}({changed})"
        return f"{parameter}={_literal(value)}"


PYTHON = PythonInterface()


def _literal(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def changed_fields(value: Any) -> dict[str, Any]:
    """Fields of a dataclass value that are not as by default and hold plain values."""
    return {
        f.name: v
        for f in fields(value)
        if f.init and f.repr and (v := getattr(value, f.name)) != f.default
        and isinstance(v, str | int | float | None)
    }  # fmt: skip


def word_of(parameter: str, value: Any) -> str | None:
    """The shell's word for a value of a class, None if it has none."""
    if parameter == "neighbors":
        return str(value.word)
    name = type(value).__name__
    return next((word for (p, word), kind in CLASSES.items() if (p, kind) == (parameter, name)), None)


def in_words(
    rule: str, parameters: Mapping[str, Any], remedies: Sequence[Remedy], interface: Interface
) -> str:
    """A message: the parameters, the rule, and the remedies that there are."""
    shown = " with ".join(
        interface.setting(name, value) or PYTHON.setting(name, value) for name, value in parameters.items()
    )
    rule = agree_in_number(rule)
    statement = f"{shown}: {rule}" if shown else rule
    found = [text for remedy in remedies if (text := remedy_in_words(remedy, interface)) is not None]
    if not found:
        return statement
    return f"{statement.rstrip('.')}. {capitalize_first(join_alternatives(found))}."


# What messages count, as alternatives of a pattern, and the verbs that follow.
THINGS = (
    "IDs|answers|bits|bytes|categories|cells|centers|centroids|clients|clusters|columns|days|"
    "deviations|digits|distances|faults|features|files|groups|holders|items|iterations|keys|labels|"
    "lanes|lines|members|messages|names|numbers|pairs|parties|people|peers|placeholders|places|"
    "points|questions|ranges|releases|replies|rounds|rows|runs|segments|shares|sites|spheres|starts|steps|"
    "strings|tables|units|values|workers"
)
VERBS = {"are": "is", "were": "was", "have": "has", "do": "does", "miss": "misses"}
SAME = "answer|begin|come|differ|fit|hold|leave|lie|need|observe|repeat|say|share|stand|take"
KINDS = (
    "committee|different|empty|feature|further|hexadecimal|hidden|local|made-up|missing|more|new|other|"
    "positive|whole"
)
QUOTED = r"(?<!\w)'[^'\n]*'(?!\w)|\"[^\"\n]*\""
ONE = re.compile(
    rf"{QUOTED}|(?<![\w.,'-])(?<!number )(?<!client )(?<!feature )(?<!line )1( of (?:the )?[\d,.]+)?"
    rf"((?: (?:{KINDS}))?) ({THINGS})\b(?!')"
    rf"( (?:{'|'.join(VERBS)}|{SAME})\b)?"
)


def agree_in_number(text: str) -> str:
    """A message with what it counts in the singular after a 1, and the verb too; what is quoted stays.

    >>> agree_in_number("1 missing values were found, 1 of 20 rows have one, and 1 rows of '1 rows'")
    "1 missing value was found, 1 of 20 rows has one, and 1 row of '1 rows'"
    """

    def one(found: re.Match[str]) -> str:
        if found[3] is None:
            return found[0]
        of, adjective, thing, verb = (part or "" for part in found.groups())
        if not of or of == " of 1":
            thing = SINGULAR.get(thing, thing.removesuffix("s"))
        return f"1{of}{adjective} {thing}{verb and ' ' + VERBS.get(verb[1:], f'{verb[1:]}s')}"

    return ONE.sub(one, text)


SINGULAR = {"people": "person", "parties": "party", "replies": "reply", "categories": "category"}


def remedy_in_words(remedy: Remedy, interface: Interface) -> str | None:
    """A remedy as an infinitive, None if this interface has none such."""
    if isinstance(remedy, str):
        return remedy
    parameter, value = remedy[:2]
    if value is None and len(remedy) == 2:
        name = interface.name(parameter)
        return None if name is None else f"leave {name} out"
    setting = interface.setting(parameter, value)
    if setting is None:
        return None
    return f"{remedy[2]} ({setting})" if len(remedy) == 3 else f"use {setting}"


def join_alternatives(items: Iterable[str]) -> str:
    """As "use a or b, leave c out, or wait": what is used stands together.

    >>> join_alternatives(["use a", "use b", "leave c out", "wait"]), join_alternatives(["use a"])
    ('use a or b, leave c out, or wait', 'use a')
    """
    merged: list[str] = []
    for used, group in groupby(items, lambda item: item.startswith("use ")):
        some = list(group)
        merged += [f"use {' or '.join(item.removeprefix('use ') for item in some)}"] if used else some
    *first, last = merged
    return f"{', '.join(first)}, or {last}" if first else last


def capitalize_first(text: str) -> str:
    """The text as a sentence begins."""
    return text[:1].upper() + text[1:]


class Advice(Exception):  # noqa: N818 - what errors and warnings share
    """What errors and cautions share: a rule, the parameters it is about, and remedies.

    rule: a sentence, or a whole message.  remedies: what would help, if it depends on who reads.
    parameters: named before the rule, with their values.
    """

    def __init__(
        self, rule: str, remedies: Sequence[Remedy] = (), parameters: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(rule, *([remedies, parameters] if remedies or parameters else []))
        self.rule, self.remedies, self.parameters = str(rule), tuple(remedies), dict(parameters or {})

    def text(self, interface: Interface = PYTHON) -> str:
        """The message in words of an interface."""
        return in_words(self.rule, self.parameters, self.remedies, interface)

    def __str__(self) -> str:
        return self.text()


def advice_text(error: Exception | str, interface: Interface) -> str:
    """An error or caution in words of an interface; of any other, what it says."""
    return error.text(interface) if isinstance(error, Advice) else agree_in_number(str(error))


# --------------------------------------------------------------------------------------------------
# Old names, each of which works for one version more, and is answered by what to write.

OLD_OPTIONS = {"liars": "corrected"}


def old_name_sentence(old: str, new: str) -> str:
    """What to write for a name that is no more."""
    return f"{old} is called {new} now: write {new}"


def warn_of_old_name(old: str, new: str, stacklevel: int = 3) -> None:
    """Warn whoever called the caller, by a DeprecationWarning."""
    warnings.warn(old_name_sentence(old, new), DeprecationWarning, stacklevel)


def accept_old_names(**new_names: str) -> Callable[[type[T]], type[T]]:
    """A class decorator by which keywords and attributes are known by their old names too."""

    def decorate(kind: type[T]) -> type[T]:
        build: Any = kind.__init__

        @wraps(build)
        def build_from(self: T, *args: Any, **given: Any) -> None:
            for old in new_names.keys() & given.keys():
                new = new_names[old]
                if new in given:
                    raise TypeError(f"{old_name_sentence(old, new)}, and leave {old} out")
                warn_of_old_name(old, new)
                given[new] = given.pop(old)
            build(self, *args, **given)

        def reader(old: str, new: str) -> Any:
            def read(self: T) -> Any:
                warn_of_old_name(old, new)
                return getattr(self, new)

            return property(read)

        kind.__init__ = build_from  # type: ignore[method-assign, assignment]
        for old, new in new_names.items():
            setattr(kind, old, reader(old, new))
        kind.OLD_NAMES = new_names  # type: ignore[attr-defined]
        return kind

    return decorate


def current_name(value: Any, name: str) -> str:
    """What a keyword or attribute of this value is called now."""
    return str(vars(type(value)).get("OLD_NAMES", {}).get(name, name))
