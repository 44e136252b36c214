"""Rows of a site's file by the keys of a linkage schema."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secfc.data.inputs import Caution, InputError
from secfc.data.linkage import Linkage, keys_of

Array = NDArray[Any]


def keyed_rows(
    linkage: Linkage, texts: Mapping[str, Sequence[str]], owner: str, *, drop: bool
) -> tuple[list[str], Array]:
    """The keys of rows that can take part, and which rows these are (r,) int64, counted from 0.

    texts: cells by column.  owner: how errors speak of whose rows they are.  drop: leave out rows that cannot
    take part, and say how many in a Caution.  Keys are secret.

    Raises InputError for such rows if not drop, for two rows of one key, and if no row is left.
    """
    keys, quality = keys_of(linkage, list(zip(*(texts[name] for name in linkage.columns), strict=True)))
    if quality.unfit and not drop:
        raise InputError(
            f"{owner}: {quality.unfit} of {quality.rows} rows cannot take part, as a required field is "
            "missing or one has another form than the schema's. `secfc check-ids` counts them by field: "
            "correct them, or leave them out with drop_unfit=True."
        )
    rows = [row for row, key in enumerate(keys) if key is not None]
    if not rows:
        raise InputError(
            f"{owner}: none of its {quality.rows} rows can take part. `secfc check-ids` says why."
        )
    first: dict[str, int] = {}
    for row in rows:
        if (before := first.setdefault(str(keys[row]), row)) != row:
            raise InputError(
                f"{owner}: rows {before} and {row} (counted from 0) have the same key, and so have "
                f"{quality.repeated} rows in all: which of them is the person's? Keep one row a person."
            )
    if quality.unfit:
        warnings.warn(
            f"{owner}: {quality.unfit} of {quality.rows} rows do not fit the schema and are left out",
            Caution,
            stacklevel=2,
        )
    return [str(keys[row]) for row in rows], np.array(rows, np.int64)
