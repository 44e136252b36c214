"""Columns that look alike by name only: other units at one client, or no differences anywhere.

What only a process that sees all data can say; nothing of it is sent in a deployment.
"""

from __future__ import annotations

import numpy as np

from secfc.data.federation import Federation

FOLD = 100  # times the range of another client, from which on units are doubted


def unlike(federation: Federation) -> tuple[str, ...]:
    """Sentences about features whose ranges differ FOLD-fold between clients, or that are constant
    everywhere.

    No value is shown.
    """
    names = federation.feature_names or tuple(map(str, range(federation.d)))
    everybody = (tuple(range(federation.d)),) * federation.n
    low, high = np.full((2, federation.n, federation.d), np.nan)
    for j, (party, own) in enumerate(zip(federation.parties, federation.observed or everybody, strict=True)):
        for _, block in party.blocks():
            low[j, list(own)] = np.fmin(low[j, list(own)], block.min(axis=0))
            high[j, list(own)] = np.fmax(high[j, list(own)], block.max(axis=0))
    said = []
    for f, name in enumerate(names):
        seen = np.flatnonzero(~np.isnan(low[:, f]))
        if not len(seen):
            continue
        ranges = (high - low)[seen, f]
        if low[seen, f].min() == high[seen, f].max():
            said.append(f"column {name!r} has one value everywhere: it tells no points apart")
        elif ranges.min() > 0 and ranges.max() >= FOLD * ranges.min():
            wide, narrow = (federation.names[seen[i]] for i in (ranges.argmax(), ranges.argmin()))
            said.append(
                f"column {name!r} ranges {ranges.max() / ranges.min():.0f} times as far at {wide} as at "
                f"{narrow}: "
                "the same units are needed"
            )
    return tuple(said)
