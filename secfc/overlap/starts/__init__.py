"""What makes global clusters of local ones, before the first step: values, a file each."""

from __future__ import annotations

from secfc.data.inputs import InputError
from secfc.overlap.local import Local, LocalKMeans
from secfc.overlap.starts.automatic import Automatic
from secfc.overlap.starts.constrained import Constrained
from secfc.overlap.starts.grouping import Start
from secfc.overlap.starts.max_min import MaxMin
from secfc.overlap.starts.nearest_merge import NearestMerge
from secfc.overlap.starts.synchronized import Synchronized

WORDS = (
    "automatic", "paper", "synchronized", "synchronized-distances", "constrained", "nearest-merge", "max-min",
)  # fmt: skip


def start_of(word: str) -> Start:
    """The start that a word stands for, as the shell spells it, with its defaults.  Raises InputError."""
    plain = word.strip().lower().replace("_", "-").replace(" ", "-")
    if plain not in WORDS:
        raise InputError(
            f"start={word!r} is none: use one of the words {', '.join(map(repr, WORDS))}, or a value such as "
            "Automatic()"
        )
    return named(plain, LocalKMeans())


def named(word: str, local: Local) -> Start:
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
    made: Start = kinds[word](local=local)
    return made
