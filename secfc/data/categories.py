"""Text columns as bits: one feature a category, 1 where a row has it.

All clients need the same categories in the same order.  They are public, and listed; or they are agreed on
by a union of what clients have, which a caller brings (`Agree`): a private one (`psu`) hides who has which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from secfc.data.inputs import Array, InputError

# From each client's distinct values, the categories of all in an order that all share.
Agree = Callable[[str, Sequence[Sequence[str]]], Sequence[str]]

MOST = 1000  # categories of a column, beyond which it is more likely a name than a category


def agreed(
    columns: Mapping[str, Sequence[str] | None], values: Sequence[Mapping[str, Sequence[str]]], agree: Agree
) -> dict[str, tuple[str, ...]]:
    """The categories of every column: as listed, or agreed on.

    values: of each client, by column, a text a row; "" is missing.  Raises InputError.
    """
    found = {}
    for name, listed in columns.items():
        if listed is None:
            listed = agree(name, [sorted({text for text in own[name] if text}) for own in values])
        if len(set(listed)) < len(listed) or not listed or "" in listed:
            raise InputError(f"column {name!r} has no categories, an empty one or one twice: list each once")
        if len(listed) > MOST:
            raise InputError(
                f"column {name!r} has {len(listed)} categories, at most {MOST} become features: is it a name "
                "or a number? Leave it out, or group its values"
            )
        found[name] = tuple(listed)
    return found


def joined(column: str, values: Sequence[Sequence[str]]) -> list[str]:
    """All categories that any client has, in ascending order, by whoever sees them all."""
    return sorted({text for own in values for text in own})


def bits(texts: Sequence[str], categories: tuple[str, ...], owner: str, column: str) -> Array:
    """One row a text, one bit a category: (m, categories) float64; NaN where the text is missing.

    Raises InputError for a text that is no category; the message names the row and shows no text.
    """
    place = {category: i for i, category in enumerate(categories)}
    whole = np.zeros((len(texts), len(categories)))
    for row, text in enumerate(texts):
        if not text:
            whole[row] = np.nan
        elif text in place:
            whole[row, place[text]] = 1
        else:
            raise InputError(
                f"{owner}, row {row} (counted from 0), column {column!r}: the value is none of the "
                f"{len(categories)} categories that were listed. Correct it, or list it for all clients"
            )
    return whole


def named(categories: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Names of the bits: column=category."""
    return tuple(f"{name}={category}" for name, listed in categories.items() for category in listed)
