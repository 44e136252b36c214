"""What makes global clusters of local ones, before the first step: values, a file each."""

from __future__ import annotations

from secfc.data.inputs import InputError
from secfc.overlap.local import Local, LocalKMeans
from secfc.overlap.starts.grouping import (
    Automatic,
    Constrained,
    MatchingStart,
    MaxMin,
    NearestMerge,
    Synchronized,
)

WORDS = (
    "automatic", "paper", "synchronized", "synchronized-distances", "constrained", "nearest-merge", "max-min",
)  # fmt: skip


def parse_matching_start(word: str) -> MatchingStart:
    """The start that a word stands for, as the shell spells it, with its defaults.  Raises InputError."""
    plain = word.strip().lower().replace("_", "-").replace(" ", "-")
    if plain not in WORDS:
        raise InputError(
            f"start={word!r} is none: use one of the words {', '.join(map(repr, WORDS))}, or a value such as "
            "Automatic()"
        )
    return matching_start_named(plain, LocalKMeans())


def matching_start_named(word: str, local: Local) -> MatchingStart:
    """The start of this name, as the shell spells it.  Raises KeyError."""
    if word == "paper":
        return Automatic(paper=True, local=local)
    if word == "synchronized-distances":
        return Synchronized(local=local, over="distances")
    kinds = {
        "automatic": Automatic,
        "synchronized": Synchronized,
        "constrained": Constrained,
        "nearest-merge": NearestMerge,
        "max-min": MaxMin,
    }
    made: MatchingStart = kinds[word](local=local)
    return made
