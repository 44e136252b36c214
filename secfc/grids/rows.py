"""Rows in a file, one JSON object a line, so that whatever is interrupted goes on where it was."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from secfc.data.inputs import InputError

Row = dict[str, Any]


class ResultFile:
    """The rows of a file that were measured by this code.

    code: what identifies it (a version, a commit), None if nothing does: then no row is taken over.
    A row counts if its `cell` and its `code` are equal; whatever else is in the file stays there.  dropped:
    whether the file ended in half a line, which a crash left: it is taken away when a row is added.

    Raises ValueError for a file that holds anything else; OSError.
    """

    def __init__(self, path: Path | None, code: str | None) -> None:
        self.path, self.code, self.dropped = path, code, False
        self._whole = 0
        self._rows: list[Row] = []
        self._ended = True  # the last line
        if path is not None and path.exists():
            self._read(path)

    def __repr__(self) -> str:
        return f"Kept({self.path}, {len(self._rows)} rows)"

    def _read(self, path: Path) -> None:
        data = path.read_bytes()
        lines = data.split(b"\n")
        self._whole, last = len(data) - len(lines[-1]), lines.pop()
        if last.strip():
            # Half a row after whole ones is dropped; whatever else it is belongs to somebody.
            self.dropped = len(lines) > 0 and last.startswith(b'{"') and not is_whole(last)
            lines += [] if self.dropped else [last]
            self._ended = self.dropped
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            row = json.loads(line) if is_whole(line) else None
            if not isinstance(row, dict) or (self.code is not None and "cell" not in row):
                raise InputError(
                    f"{path}, line {number}: no row of a grid. Name another file: rows are added to it"
                )
            self._rows.append(row)

    def successes(self, cell: str) -> list[Row]:
        """The rows of a cell that did not fail, of this code."""
        same = [row for row in self._rows if row.get("cell") == cell and row.get("code") == self.code]
        return [] if self.code is None else [row for row in same if row.get("status") == "ok"]

    def add(self, rows: Sequence[Row]) -> None:
        """All rows of one cell, together: a cell is in the file whole or not at all.  Raises OSError."""
        if self.path is None:
            return
        text = "".join(json.dumps(row) + "\n" for row in rows).encode()
        with self.path.open("r+b" if self.path.exists() else "w+b") as file:
            if self.dropped:
                file.truncate(self._whole)
                self.dropped = False
            file.seek(0, os.SEEK_END)
            file.write(text if self._ended else b"\n" + text)
            self._ended = True
            file.flush()
            os.fsync(file.fileno())


def is_whole(line: bytes) -> bool:
    """Whether this is a whole JSON value."""
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def read_whole_rows(path: Path) -> list[Row]:
    """All whole rows of a file.  Raises ValueError, OSError."""
    path.stat()
    return ResultFile(path, None)._rows


def plottable_columns(rows: Iterable[Row]) -> list[str]:
    """Names of columns that hold numbers or words, in the order of their first rows."""
    found: dict[str, None] = {}
    for row in rows:
        found |= dict.fromkeys(
            name for name, value in row.items() if isinstance(value, str | int | float | bool)
        )
    return list(found)
