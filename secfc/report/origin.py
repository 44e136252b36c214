"""Where a result came from: the command, the time, the files, and columns that may be no features."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secfc.data.federation import Federation

Array = NDArray[Any]

ROWS = 1000  # that decide first whether a column may be an ID
FEW = 10  # rows, which may all differ by chance


@dataclass(frozen=True)
class Origin:
    """command: as it was given.  started: when, in UTC, ISO 8601.  files: path, bytes and SHA-256 of each,
    None if no budget paid for them.
    """

    command: str
    started: str
    files: tuple[dict[str, Any], ...] | None = ()


def digests(files: Iterable[Path]) -> tuple[dict[str, Any], ...]:
    """Path, bytes and SHA-256 of every file.  Raises OSError."""
    found = []
    for path in files:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        found.append({"path": str(path), "bytes": path.stat().st_size, "sha256": digest})
    return tuple(found)


def look_like_ids(federation: Federation) -> tuple[int, ...]:
    """Features that hold a different whole number in every row of a client; none if all have few rows."""
    if max(federation.counts) < FEW:
        return ()
    features = list(range(federation.d))
    # Of every client the column that each feature is, where it observes it.
    places = [{f: i for i, f in enumerate(own)} for own in federation.observed or [features] * federation.n]
    for party, place in zip(federation.parties, places, strict=True):
        first = np.asarray(party.points[0 : min(ROWS, party.points.shape[0])])
        features = [f for f in features if f not in place or distinct([first[:, place[f]]])]
    for party, place in zip(federation.parties, places, strict=True):
        if not features:
            return ()
        if party.points.shape[0] > ROWS:
            columns: dict[int, list[Array]] = {f: [] for f in features if f in place}
            for _, block in party.blocks():
                for f, values in columns.items():
                    values.append(np.array(block[:, place[f]]))
            features = [f for f in features if f not in columns or distinct(columns[f])]
    return tuple(features)


def distinct(parts: Sequence[Array]) -> bool:
    """Whether these values are whole numbers, no two the same."""
    values = np.concatenate(parts)
    if values.dtype.kind == "f" and not bool((np.rint(values) == values).all()):
        return False
    return len(np.unique(values)) == len(values)
