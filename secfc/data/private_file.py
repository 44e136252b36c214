"""Small files that are their owner's alone, written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write_private(path: Path, contents: bytes) -> None:
    """Put these bytes into a file of mode 0600; a crash leaves what was there, or all of them.  OSError."""
    draft = path.with_name(f".{path.name}.tmp")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(contents)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
