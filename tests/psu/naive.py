"""A broken union for the privacy tests to catch: the masked sum of lookup tables, shown to a client.

Each client adds r (1, z, y) to the cells of its IDs under masks that sum to zero, and everybody peels the
sum.  Nobody's table is seen, yet a client that knows its own r learns which of its IDs others hold too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from field import MERSENNE_61, SeededCoins
from psu import kernels
from psu.identify import Tags
from psu.plan import UnionPlan
from psu.tables import table_geometry, zero_table


def naive_openings(
    plan: UnionPlan, owned: list[Tags], m: int, seed: int
) -> tuple[dict[int, int], dict[int, int]]:
    """(z -> the coefficient that peeling shows, z -> client 0's own coefficient)."""
    sheet = plan.cells(m, 0)
    table: Any = zero_table(sheet.rows, 3)
    place = table_geometry(plan, sheet)
    own: dict[int, int] = {}
    for j, tags in enumerate(owned):
        r = SeededCoins(seed, f"naive {j}").residues(MERSENNE_61, len(tags))
        kernels.add_lines(tags.z, tags.y, r, table, *place)
        if j == 0:
            own = dict(zip(tags.z.tolist(), r.tolist(), strict=True))
    # The sum of an ID's holders is the first entry of any cell that holds nothing else.
    z = np.concatenate([tags.z for tags in owned])
    y = np.concatenate([tags.y for tags in owned])
    at = kernels.positions(z, y, *place)
    holds: dict[int, set[int]] = {}
    for zi, cells in zip(z.tolist(), at.tolist(), strict=True):
        for c in cells:
            holds.setdefault(c, set()).add(zi)
    shown = {ids.pop(): int(table[c, 0]) for c, ids in holds.items() if len(ids) == 1}
    return shown, own
