"""The IDs of a site that are in dispute, in a file of its own: on no screen and in no log."""

from __future__ import annotations

import csv
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

NAME = "disputed-ids.csv"


def write_disputed(folder: Path, ids: Collection[Any]) -> Path:
    """Write a line an ID, under the heading `id`, for its owner's eyes only (mode 0600): where.

    A file of an earlier run is replaced.  Raises OSError.
    """
    path, draft = folder / NAME, folder / f"{NAME}.draft"
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", newline="") as file:
        csv.writer(file).writerows([["id"], *([name] for name in ids)])
    draft.replace(path)
    return path
