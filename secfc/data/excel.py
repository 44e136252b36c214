"""Rows of an Excel workbook, one sheet, as a reader of CSV gives them."""

from __future__ import annotations

import datetime
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from secfc.data.extras import require
from secfc.data.inputs import InputError


class SheetRows:
    """Rows as lists of text, as wide as the first that is not empty; empty rows are [].

    Numbers are written so that they come back bit for bit.  line_num: of the row that was read last, from 1.
    """

    def __init__(self, rows: Iterator[tuple[Any, ...]]) -> None:
        self._rows, self._width, self.line_num = rows, 0, 0

    def __iter__(self) -> SheetRows:
        return self

    def __next__(self) -> list[str]:
        cells = [_text(value) for value in next(self._rows)]
        self.line_num += 1
        while len(cells) > self._width and not cells[-1]:
            cells.pop()
        if not any(cells):
            return []
        self._width = self._width or len(cells)
        return cells + [""] * (self._width - len(cells))


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value)


@contextmanager
def open_excel(path: Path) -> Iterator[SheetRows]:
    """The rows of a workbook's only sheet, read as they are asked for.

    Formulas count as what they came to when the file was saved.  Raises InputError for several sheets.
    """
    require(f"{path} is an Excel file, which", "excel")
    from openpyxl import load_workbook
    from openpyxl.utils.exceptions import InvalidFileException

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of styles and validations, which are not read
            book = load_workbook(path, read_only=True, data_only=True)
    except (InvalidFileException, zipfile.BadZipFile, KeyError, ValueError, OSError) as error:
        raise InputError(f"{path} is not a readable .xlsx file. Save it again, or as CSV.") from error
    try:
        sheets = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"]
        if len(sheets) != 1:
            raise InputError(
                f"{path} has {len(sheets)} visible sheets: one is needed, and none is guessed. Save the "
                "sheet with the data as a file of its own."
            )
        yield SheetRows(sheets[0].iter_rows(values_only=True))
    finally:
        book.close()
